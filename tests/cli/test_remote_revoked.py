# SPDX-License-Identifier: MIT
"""What is revoked of a remote cache: `quern cache revoke`, and machines that obey the list."""

import json
import shutil

import pytest
import remote
from conftest import Quern, files_under

TARGET = ["--target", "gfx1030", "--allow-unverified"]  # its kernels are not scanned: quicker
LAYER = "wq=nf4 n={} k=256 a=bf16"
LIST = "v1/revoked.qr"


def prewarm(quern, *words, **options):
    return quern("prewarm", *TARGET, "--m", "1", "--json", *words, *map(LAYER.format, (256, 320)),
                 **options)


def served(quern, env, count, *names):
    """Looks for two kernels where nothing may be compiled, of which so many come from the remote;
    gives other counters."""
    done = prewarm(quern, "--jit", "off", env=env, status=0 if count == 2 else 1)
    counters = json.loads(done.stdout)["counters"]
    assert counters["hit_remote"] == count, counters
    assert (counters["remote_failed"], counters["remote_late"]) == (0, 0)
    return tuple(counters[name] for name in names)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cache with two kernels, two pairs of keys, and what a server is to have."""
    top = tmp_path_factory.mktemp("made")
    remote.make_signed(top, prewarm)
    return top


@pytest.fixture
def top(made, tmp_path):
    """What is served, that may be changed; and the cache of who made it."""
    shutil.copytree(made / "signed", tmp_path / "signed")
    shutil.copytree(made / "cache", tmp_path / "builder", symlinks=True)
    return tmp_path


@pytest.fixture
def server(top):
    started = remote.Remote(top / "signed")
    yield started
    started.stop()


@pytest.fixture
def env(made, server):
    return {"QUERN_REMOTE": server.url, "QUERN_REMOTE_KEYS": str(made / "ours.pub"),
            "QUERN_REMOTE_GRACE_MS": "unlimited", "QUERN_JOBS": "1"}


def keys(quern):
    return [e["key"] for e in quern.json("cache", "list")["entries"]]


def revoke(top, made, *which, key="ours"):
    return Quern(top / "builder").json("cache", "revoke", "--sign-key", made / f"{key}.key",
                                       top / "signed", *which)


def public_key(made):
    return (made / "ours.pub").read_text().split()[-1]


def test_a_revoked_entry_serves_nobody(quern, made, top, server, env):
    served(quern, env, 2)
    bad, good = keys(quern)
    report = revoke(top, made, bad)
    assert (report["serial"], report["revoked"]) == (1, 1)
    # it is out of the cache of who revoked it, so that the next push does not bring it again
    assert keys(Quern(top / "builder")) == [good]
    # and out of a machine's own as soon as that asks for anything
    prewarm(quern, "--jit", "off", LAYER.format(384), env=env, status=1)
    assert keys(quern) == [good]
    assert f"v1/quarantine/{bad}" in "".join(files_under(quern.cache))
    # a machine that is new never uses it, and makes it anew where it may
    done = prewarm(Quern(top / "new"), env=env)
    counters = json.loads(done.stdout)["counters"]
    assert f"is revoked by list 1 of signer {public_key(made)} (said once)" in done.stderr
    assert [counters[n] for n in ("hit_remote", "remote_revoked", "compile_ok", "remote_refused",
                                  "remote_failed", "remote_skipped")] == [1, 1, 1, 0, 0, 0]
    # a second list has the first one's entries, too
    report = revoke(top, made, good)
    assert (report["serial"], report["revoked"]) == (2, 2)
    served(Quern(top / "newest"), env, 0)


def test_what_is_said_of_a_revoked_entry(quern, made, top, env):
    bad, _ = keys(Quern(top / "builder"))
    served(quern, env, 2)
    revoke(top, made, bad)
    # doctor learns of it, moves the entry out of the way, and all is well
    report = quern.json("doctor", *TARGET[:2], env=env)
    lines = [c["text"] for c in report if c["subject"] == "cache"]
    assert "1 revoked entry moved to quarantine" in lines and all(c["ok"] for c in report)
    # the remote has it, so that "does not have it" would be wrong
    done = prewarm(quern, "--jit", "off", env={**env, "QUERN_LOG": "error"}, status=1)
    says = f": its entry is revoked by list 1 of signer {public_key(made)}"
    assert says in done.stderr and "does not have it" not in done.stderr
    layers = top / "layers.txt"
    layers.write_text("".join(f"target=gfx1030 m=1 {LAYER.format(n)}\n" for n in (256, 320)))
    done = quern("cache", "pull", env["QUERN_REMOTE"], "--manifest", layers, "--allow-unverified",
                 env={**env, "QUERN_REMOTE": "", "QUERN_LOG": "error"}, status=1)
    assert says in done.stderr and "1 missing" in done.stdout


def test_no_older_list_is_accepted(quern, made, top, server, env):
    bad, good = keys(Quern(top / "builder"))
    revoke(top, made, bad)
    older = (top / "signed" / LIST).read_bytes()
    revoke(top, made, good)
    served(quern, env, 0)
    # neither an older one, nor none, brings the entries back; the former is counted
    (top / "signed" / LIST).write_bytes(older)
    revoked, refused = served(quern, env, 0, "remote_revoked", "remote_refused")
    assert revoked >= 2 and refused == 1
    (top / "signed" / LIST).unlink()
    assert served(quern, env, 0, "remote_refused") == (0,)
    # another list with the same serial is no better
    revoke(top, made, bad)
    shutil.copytree(made / "cache", top / "other", symlinks=True)
    Quern(top / "other")("cache", "revoke", "--sign-key", made / "ours.key", top / "signed", bad)
    assert served(quern, env, 0, "remote_refused") == (1,)
    # a machine that has seen no list cannot know
    (top / "signed" / LIST).write_bytes(older)
    served(Quern(top / "new"), env, 1)


@pytest.mark.parametrize("change, says", [
    (lambda b: b"", "0 bytes are no revocation list"),
    (lambda b: remote.PORTAL, "are no revocation list"),
    (lambda b: b[:-1], "does not have 1 rows"),
    (lambda b: b + bytes(48), "does not have 1 rows"),
    (lambda b: b[:16] + b"\x09" + b[17:], "the signature by"),
    (lambda b: b[:-1] + bytes([b[-1] ^ 1]), "the signature by"),
    (lambda b: b[:-48][:12] + bytes(4) + b[16:-48], "the signature by"),
    (lambda b: b[:24] + bytes(32) + b[56:], "which is not among the 1 trusted key"),
])  # fmt: skip
def test_without_a_sound_list_nothing_serves(quern, made, top, server, env, change, says):
    revoke(top, made, keys(Quern(top / "builder"))[0])
    file = top / "signed" / LIST
    file.write_bytes(change(file.read_bytes()))
    done = prewarm(quern, "--jit", "off", env=env, status=1)
    assert says in done.stderr and '"hit_remote": 0' in done.stdout
    assert '"remote_refused": 0' not in done.stdout and '"remote_failed": 0' in done.stdout
    assert not (quern.cache / "revoked").exists()


@pytest.mark.parametrize("wrong", ["status 403", "the end at once", "status 503"])
def test_a_list_that_cannot_be_had(quern, server, env, wrong):
    server.behave_list = remote.WRONG[wrong]
    done = prewarm(quern, "--jit", "off", env=env, status=1)
    assert "its revocation list: " in done.stderr and '"hit_remote": 0' in done.stdout
    assert '"remote_failed": 0' not in done.stdout
    report = quern.json("doctor", *TARGET[:2], env=env, status=1)
    (line,) = [c for c in report if c["subject"] == "remote cache"]
    assert not line["ok"] and "its revocation list: " in line["text"]


def test_where_nothing_is_signed_there_is_no_list(quern, made, top, server, env):
    revoke(top, made, keys(Quern(top / "builder"))[0])
    del env["QUERN_REMOTE_KEYS"]
    server.behave_list = remote.status(500)
    served(quern, {**env, "QUERN_REMOTE_TRUST": "transport"}, 2)
    assert not any(LIST in r for r in server.requests)


def test_a_list_of_each_signer(quern, made, top, server, env):
    """Any of the trusted keys may revoke; each has serials of its own."""
    both = top / "both.pub"
    both.write_text((made / "ours.pub").read_text() + (made / "theirs.pub").read_text())
    both.chmod(0o644)
    env["QUERN_REMOTE_KEYS"] = str(both)
    bad, good = keys(Quern(top / "builder"))
    revoke(top, made, bad)
    revoke(top, made, bad)
    served(quern, env, 1)
    (top / "signed" / LIST).unlink()
    quern("cache", "clear")
    assert revoke(top, made, good, key="theirs")["serial"] == 1
    assert served(quern, env, 0, "remote_refused") == (0,)
    assert len(list((quern.cache / "revoked").iterdir())) == 2


def test_a_kept_list_that_is_damaged(quern, made, top, server, env):
    """It is not taken for none."""
    revoke(top, made, keys(Quern(top / "builder"))[0])
    served(quern, env, 1)
    quern("cache", "clear")
    (kept,) = (quern.cache / "revoked").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    done = prewarm(quern, "--jit", "off", env=env, status=1)
    assert f"remove revoked/{kept.name} from the cache" in done.stderr
    assert '"hit_remote": 0' in done.stdout


def test_revoking_what_makes_no_sense(made, top):
    quern = Quern(top / "builder")
    bad = keys(quern)[0]
    words = ("cache", "revoke", "--sign-key", made / "ours.key")
    quern.refused("cache", "revoke", top / "signed", bad, status=2, says="wants --sign-key")
    quern.refused(*words, status=2, says="where to?")
    quern.refused(*words, top / "signed", status=2, says="which?")
    quern.refused(*words, top / "signed", "0123", status=2, says="'0123' is no key")
    quern.refused(*words, top / "signed", "0" * 32, status=1, says="has no entry of the key")
    quern(*words, top / "signed", bad)
    quern.refused("cache", "revoke", "--sign-key", made / "theirs.key", top / "signed", bad,
                  status=1, says="which is not among the 1 trusted key")
