# SPDX-License-Identifier: MIT
"""A remote cache over HTTP: what it has is used if it is signed, and whatever else it does costs a
miss in bounded time."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
import remote
from conftest import COMMAND, Quern, clean_environment, files_under

TARGET = ["--target", "gfx1030", "--allow-unverified"]  # its kernels are not scanned: quicker
LAYER = "wq=nf4 n={} k=256 a=bf16"
# A fault costs less than this, on however slow a machine: the helper's own limit is 10 s a fetch,
# but where the host has an unlimited grace, which tests of faults that only time ends have not.
BOUND_S = 120


def prewarm(quern, *sizes, env=None, words=(), **options):
    layers = [LAYER.format(n) for n in sizes or (256,)]
    return quern.json("prewarm", *TARGET, "--m", "1", *words, *layers, env=env, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cache with two kernels, two pairs of keys, and what a server is to have, signed and not."""
    top = tmp_path_factory.mktemp("made")
    quern = remote.make_signed(top, lambda quern: prewarm(quern, 256, 320))
    quern("cache", "push", top / "plain")
    return top


@pytest.fixture
def server(made):
    started = remote.Remote(made / "signed")
    yield started
    started.stop()


@pytest.fixture
def env(made, server):
    """Of a host that waits for the remote, so that what becomes of it does not depend on time."""
    return {"QUERN_REMOTE": server.url, "QUERN_REMOTE_KEYS": str(made / "ours.pub"),
            "QUERN_REMOTE_GRACE_MS": "unlimited"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A private authority, and what it certified: this machine, this machine once, and another."""
    top = tmp_path_factory.mktemp("certificates")

    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, cwd=top)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    (top / "ca.txt").write_text("")
    (top / "ca.cnf").write_text("[ca]\ndefault_ca=own\n[own]\ndatabase=ca.txt\nnew_certs_dir=.\n"
                                "rand_serial=yes\ndefault_md=sha256\npolicy=any\n"
                                "unique_subject=no\n[any]\ncommonName=supplied\n")
    times = {"good": (), "other": (),
             "expired": ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")}
    for name, when in times.items():
        whom = "DNS:cache.example" if name == "other" else "IP:127.0.0.1,DNS:localhost"
        (top / f"{name}.ext").write_text(f"subjectAltName={whom}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                "/CN=server", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("ca", "-batch", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key",
                "-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", f"{name}.ext", "-notext",
                *(when or ("-days", "2")))
    return top


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    return remote.make_ops(tmp_path_factory)


def counters(report, *names):
    return tuple(report["counters"][name] for name in names)


def test_a_signed_entry_serves_and_stays(quern, made, server, env):
    report = prewarm(quern, 256, 320, env=env)
    assert (report["compiled"], report["cached"]) == (0, 2)
    assert counters(report, "hit_remote", "compile_ok", "put_ok", "miss_absent") == (2, 0, 2, 0)
    assert len(server.requests) == 2 and all(p.startswith("/v1/objects/") for p in server.requests)
    # the directory has it now, byte for byte, and nobody is asked again
    assert files_under(quern.cache / "v1/objects") == files_under(made / "cache/v1/objects")
    for name in files_under(quern.cache / "v1/objects"):
        mine = (quern.cache / "v1/objects" / name).read_bytes()
        assert mine == (made / "cache/v1/objects" / name).read_bytes()
    again = prewarm(quern, 256, env=env)
    assert counters(again, "hit_disk", "hit_remote") == (1, 0) and len(server.requests) == 2


def test_by_the_source_key_where_there_is_no_compiler(quern, tmp_path, server, env):
    (tmp_path / "none").mkdir()
    bare = {**env, "QUERN_ROCM_PATH": str(tmp_path / "none")}
    report = prewarm(quern, 256, env=bare)
    assert counters(report, "hit_remote", "hit_source", "put_ok") == (1, 1, 1)
    assert any(p.startswith("/v1/sources/") for p in server.requests)
    # and from the directory afterwards
    server.stop()
    assert counters(prewarm(quern, 256, env=bare), "hit_disk", "hit_remote") == (1, 0)


def test_what_the_remote_lacks_is_compiled(quern, server, env):
    report = prewarm(quern, 256, 384, env=env)
    assert counters(report, "hit_remote", "compile_ok", "miss_absent") == (1, 1, 1)
    assert counters(report, "remote_failed", "remote_refused", "remote_late") == (0, 0, 0)
    assert len(server.requests) == 2


def test_with_compiling_off_the_remote_is_waited_for(quern, server, env):
    server.behave = lambda body: time.sleep(1) or remote.good(body)
    del env["QUERN_REMOTE_GRACE_MS"]
    assert counters(prewarm(quern, 256, env={**env, "QUERN_JIT": "off"}), "hit_remote") == (1,)


@pytest.mark.parametrize("wrong", remote.WRONG)
def test_whatever_goes_wrong_is_a_miss(quern, server, env, wrong):
    server.behave = remote.WRONG[wrong]
    started = time.monotonic()
    report = prewarm(quern, 256, env={**env, **remote.grace(wrong)})
    assert time.monotonic() - started < BOUND_S
    assert counters(report, "hit_remote", "compile_ok", "miss_absent") == (0, 1, 1), wrong
    assert counters(report, "remote_refused", "remote_failed") == remote.counted(wrong, True), wrong
    assert len(server.requests) <= 5  # redirections are followed three times
    # nothing of it was kept
    assert counters(prewarm(quern, 256), "hit_disk") == (1,)


def test_without_a_grace_worth_naming_the_compiler_wins(tmp_path, ops, server, env):
    """A server that says nothing: the kernel comes from the compiler, long before the helper's own
    limit, and the remote is left alone then."""
    server.always, server.behave = True, remote.hang
    report = ops(tmp_path / "cache", map(LAYER.format, range(256, 256 + 16 * 64, 64)),
                 {**env, "QUERN_REMOTE_GRACE_MS": "1"})
    assert counters(report, "compile_ok", "hit_remote") == (16, 0)
    late, skipped, failed = counters(report, "remote_late", "remote_skipped", "remote_failed")
    assert late >= 1 and skipped >= 1 and failed <= 1, report["counters"]


def test_where_nothing_may_be_compiled_the_remotes_answer_is_told(quern, server, env):
    words = ["prewarm", *TARGET, "--m", "1", "--jit", "off", LAYER.format(256)]
    server.always, server.behave = True, remote.status(403)
    assert f"; remote cache {server.url}: the server's answer has status 403" in quern(
        *words, env=env, status=1).stderr
    server.behave = remote.absent
    assert f"; remote cache {server.url} does not have it; made by: quern prewarm" in quern(
        *words, env=env, status=1).stderr


def test_the_grace_follows_the_remotes_own_times(tmp_path, ops, quern, server, env):
    """Once it was quick, it is not waited for as long as may be: what it does slowly loses to the
    compiler, and does not end as a failed fetch, as it would when the helper's patience ends."""
    def note(request):
        server.behave = remote.good if request <= 2 else remote.trickle
    server.note, server.always = note, True
    quick = prewarm(quern, 256, 320, env={**env, "QUERN_JOBS": "1"})
    assert counters(quick, "hit_remote") == (2,)
    quern("cache", "clear")
    server.requests.clear()
    report = ops(tmp_path / "cache2", map(LAYER.format, (256, 320, 384, 448)),
                 {**env, "QUERN_REMOTE_GRACE_MS": "600000"})
    late, failed, skipped = counters(report, "remote_late", "remote_failed", "remote_skipped")
    assert counters(report, "hit_remote", "compile_ok") == (2, 2)
    assert late >= 1 and failed == 0 and late + skipped == 2


def test_another_kernels_entry(quern, made, server, env):
    bodies = [p.read_bytes() for p in sorted((made / "signed/v1/objects").rglob("*.qk"))]
    assert len(bodies) == 2
    server.behave = lambda body: remote.good(bodies[bodies[0] == body])
    report = prewarm(quern, 256, env=env)
    assert counters(report, "hit_remote", "remote_refused", "compile_ok") == (0, 1, 1)


def test_trust(quern, made, server, env, tmp_path):
    # signed by somebody else
    theirs = {**env, "QUERN_REMOTE_KEYS": str(made / "theirs.pub")}
    done = quern("prewarm", *TARGET, "--m", "1", LAYER.format(256), env=theirs)
    assert "which is not among the 1 trusted key" in done.stderr
    quern("cache", "clear")
    # not signed at all
    server.root = made / "plain"
    done = quern("prewarm", *TARGET, "--m", "1", LAYER.format(256), env=env)
    assert "the entry is not signed" in done.stderr
    quern("cache", "clear")
    # the signature of another entry
    signed = sorted((made / "signed/v1/objects").rglob("*.qk"))
    a, b = (p.read_bytes() for p in signed)
    server.root = made / "signed"
    server.behave = lambda body: remote.good((a[:-112] + b[-112:]) if body == a
                                             else b[:-112] + a[-112:])
    done = quern("prewarm", *TARGET, "--m", "1", LAYER.format(256), env=env)
    assert "is not that of this entry" in done.stderr
    quern("cache", "clear")
    # the operator answers for it: signed or not, both serve
    believed = {k: v for k, v in env.items() if k != "QUERN_REMOTE_KEYS"}
    believed["QUERN_REMOTE_TRUST"] = "transport"
    server.behave = remote.good
    for root in ("plain", "signed"):
        server.root = made / root
        report = prewarm(Quern(tmp_path / root), 256, env=believed)
        assert counters(report, "hit_remote", "compile_ok") == (1, 0), root
    # but whom the server names besides is nobody's word
    server.behave = lambda body: remote.head("302 Found", 0, "Location: /elsewhere")
    report = prewarm(Quern(tmp_path / "led"), 256, env=believed)
    assert counters(report, "hit_remote", "remote_failed") == (0, 1)
    assert "/elsewhere" not in server.requests


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl here")
@pytest.mark.parametrize("which, hits, says", [
    ("good", 1, ""),
    ("expired", 0, "expired"),
    ("other", 0, "127.0.0.1"),
    ("unknown", 0, "certificate"),
])  # fmt: skip
def test_certificates(quern, made, certificates, which, hits, says):
    """By https alone, unsigned: what is trusted is who the server is."""
    name = "good" if which == "unknown" else which
    server = remote.Remote(made / "plain", certificates / f"{name}.pem")
    env = {"QUERN_REMOTE": server.url, "QUERN_REMOTE_TRUST": "transport",
           "QUERN_REMOTE_GRACE_MS": "unlimited", "SSL_CERT_FILE": str(certificates / "ca.pem")}
    if which == "unknown":
        del env["SSL_CERT_FILE"]
    try:
        done = quern("prewarm", *TARGET, "--m", "1", "--json", LAYER.format(256), env=env)
    finally:
        server.stop()
    report = json.loads(done.stdout)
    assert counters(report, "hit_remote", "compile_ok", "remote_failed") == (hits, 1 - hits,
                                                                            1 - hits)
    assert says in done.stderr and len(server.requests) == hits


def test_certificates_that_cannot_be_read(quern, env):
    env = {**env, "SSL_CERT_FILE": "/nonexistent"}
    done = quern("prewarm", *TARGET, "--m", "1", LAYER.format(256), env=env)
    assert "the certificates of SSL_CERT_FILE cannot be read" in done.stderr


def test_a_redirection_is_followed_where_entries_are_signed(quern, made, server, env, tmp_path):
    server.root = shutil.copytree(made / "signed", tmp_path / "moving")

    def lead(body):
        (server.root / "moved").write_bytes(body)
        server.behave = remote.good
        return remote.head("307 Elsewhere", 0, "Location: /moved")
    server.behave = lead
    assert counters(prewarm(quern, 256, env=env), "hit_remote") == (1,)
    assert server.requests[-1] == "/moved"


def test_a_dead_remote_is_left_alone(tmp_path, ops, env):
    dead = {**env, "QUERN_REMOTE": f"http://127.0.0.1:{remote.CLOSED_PORT}"}
    report = ops(tmp_path / "cache", map(LAYER.format, range(256, 256 + 24 * 64, 64)), dead)
    failed, skipped = counters(report, "remote_failed", "remote_skipped")
    # a rest takes twice as long as the last one, so that some compile is shorter
    assert failed + skipped == 24 and failed >= 2 and skipped >= 1
    assert counters(report, "compile_ok", "hit_remote") == (24, 0)


def test_one_that_failed_is_tried_again(tmp_path, ops, server, env):
    """After a second, in which there is more to compile than that."""
    def note(request):
        server.behave = remote.status(503) if request <= 2 else remote.absent
    server.note, server.always = note, True
    report = ops(tmp_path / "cache", map(LAYER.format, range(256, 256 + 40 * 64, 64)), env)
    assert counters(report, "remote_failed", "compile_ok") == (2, 40)
    assert len(server.requests) > 2


def helpers(path):
    """The processes that run the program at `path`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if entry.name.isdigit() and words[0] == str(path).encode():
            found.append(int(entry.name))
    return found


@pytest.fixture
def own_helper(tmp_path):
    """Copies of the programs in libexec, so that no other test's are met."""
    folder = tmp_path / "libexec"
    folder.mkdir()
    for name in ("quern-worker", "quern-remote"):
        shutil.copy(COMMAND.parents[1] / "libexec/quern" / name, folder / name)
    return folder


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_helper_that_dies_or_hangs(tmp_path, ops, server, env, own_helper, number):
    """When it has asked for the first kernel: that is compiled; another helper asks for more."""
    met = set()

    def hit(_request):
        every = helpers(own_helper / "quern-remote")
        for pid in every if not met else ():
            os.kill(pid, number)
        met.update(every)
    server.note = hit
    if number == signal.SIGSTOP:
        env["QUERN_REMOTE_GRACE_MS"] = "10"
    started = time.monotonic()
    server.always = True
    server.behave = remote.absent
    report = ops(tmp_path / "cache", map(LAYER.format, range(256, 256 + 6 * 64, 64)), env,
                 own_helper / "quern-worker")
    assert time.monotonic() - started < BOUND_S
    failed, late, ok = counters(report, "remote_failed", "remote_late", "compile_ok")
    assert ok == 6
    if number == signal.SIGKILL:
        assert len(met) == 2 and 1 <= failed <= 2
    else:
        assert len(met) == 1 and failed + late >= 1
    assert not helpers(own_helper / "quern-remote")  # none is left


@pytest.mark.parametrize("verb, number, end", [("push", signal.SIGKILL, "ended"),
                                               ("push", signal.SIGSTOP, "hangs"),
                                               ("revoke", signal.SIGKILL, "ended")])
def test_the_command_gives_up_a_helper(made, server, own_helper, verb, number, end):
    """That dies or hangs at the first request which the command has made through it."""
    def hit(_request):
        for pid in helpers(own_helper / "quern-remote"):
            os.kill(pid, number)
    server.note = hit
    words = {"push": [server.url],
             "revoke": [server.url, "0" * 32, "--sign-key", made / "ours.key"]}[verb]
    done = Quern(made / "cache")("cache", verb, *words, "--worker", own_helper / "quern-worker",
                                 status=1)
    assert f"{server.url}: its helper quern-remote {end}" in done.stderr
    assert server.requests and not helpers(own_helper / "quern-remote")


def test_nothing_is_started_before_the_first_miss(quern, server, env, own_helper):
    prewarm(quern, 256)
    (own_helper / "quern-remote").unlink()
    words = ["--worker", own_helper / "quern-worker"]
    report = prewarm(quern, 256, env=env, words=words)
    assert counters(report, "hit_disk", "remote_failed") == (1, 0) and not server.requests
    # with the first one the helper is missed, and looked for in the usual place
    assert counters(prewarm(quern, 320, env=env, words=words), "hit_remote") == (1,)


def test_base_kernels_are_not_asked_for(quern, server, env, tmp_path):
    """Of a layer whose kernels nobody has, base kernels are looked for, but not far away. What
    cannot be compiled and was not there is asked for once more, by each key."""
    (tmp_path / "none").mkdir()
    bare = {**env, "QUERN_ROCM_PATH": str(tmp_path / "none"), "QUERN_BASE": "on"}
    quern("prewarm", *TARGET, "--m", "1", LAYER.format(448), env=bare, status=1)
    kinds = [p.split("/")[2] for p in server.requests]
    assert sorted(kinds) == ["objects", "objects", "sources", "sources"]


@pytest.mark.parametrize("given, says", [
    ({"QUERN_REMOTE": "cache.example"}, "expected an address such as https://"),
    ({"QUERN_REMOTE": "http:///path"}, "expected an address such as https://"),
    ({"QUERN_REMOTE": "https://user:word@cache.example/"}, "has the character 64 at"),
    ({"QUERN_REMOTE": "https://cache.example/a b"}, "has the character 32 at 23"),
    ({"QUERN_REMOTE": "https://cache.example/" + "x" * 2000}, "at most 1023 are taken"),
    ({"QUERN_REMOTE_KEYS": ""}, "QUERN_REMOTE is set and QUERN_REMOTE_KEYS is not"),
    ({"QUERN_REMOTE_KEYS": "/nonexistent"}, "the key file (QUERN_REMOTE_KEYS) cannot be read"),
    ({"QUERN_REMOTE_TRUST": "transport"}, "asks for no signature"),
    ({"QUERN_REMOTE_TRUST": "server"}, "expected keys or transport"),
    ({"QUERN_REMOTE_GRACE_MS": "-1"}, "QUERN_REMOTE_GRACE_MS=-1; expected a number"),
    ({"QUERN_REMOTE_GRACE_MS": "soon"}, "from 0 to 600000, or unlimited"),
    ({"QUERN_REMOTE": "http://cache.example", "QUERN_REMOTE_KEYS": "",
      "QUERN_REMOTE_TRUST": "transport"}, "anybody on the way could send"),
    ({"QUERN_REMOTE": "http://127.0.0.1.example", "QUERN_REMOTE_KEYS": "",
      "QUERN_REMOTE_TRUST": "transport"}, "anybody on the way could send"),
])  # fmt: skip
def test_what_makes_no_sense(quern, env, given, says):
    done = quern("prewarm", *TARGET, "--m", "1", LAYER.format(256), env={**env, **given},
                 status=2 if "cannot be read" not in says else 1)
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_doctor(quern, server, env):
    def line(report):
        (found,) = [c for c in report if c["subject"] == "remote cache"]
        return found
    good = line(quern.json("doctor", *TARGET[:2], env=env))
    assert good["ok"] and server.url in good["text"] and "entries are signed" in good["text"]
    assert "libcurl/" in good["text"] and "no-new-privileges" in good["text"]
    server.stop()
    bad = line(quern.json("doctor", *TARGET[:2], env=env, status=1))
    assert not bad["ok"] and "connect" in bad["text"].lower()


def test_push(quern, made, tmp_path):
    quern = Quern(made / "cache")
    out = tmp_path / "out"
    first = quern.json("cache", "push", "--sign-key", made / "ours.key", out)
    assert first["entries"] == 2 and first["files"] == 4 and first["signed"]
    assert files_under(out) == files_under(made / "signed")
    assert quern.json("cache", "push", "--sign-key", made / "ours.key", out)["files"] == 0
    entries = [p.read_bytes() for p in (made / "cache/v1/objects").rglob("*.qk")]
    for path in (out / "v1").rglob("*.qk"):
        assert path.read_bytes()[:-112] in entries
    # of another key all files are others; of none they are the entries themselves
    assert quern.json("cache", "push", "--sign-key", made / "theirs.key", out)["files"] == 4
    assert quern.json("cache", "push", out)["files"] == 4
    for path in (out / "v1").rglob("*.qk"):
        assert path.read_bytes() in entries
    # a file that only begins as it should, whatever its length, is written anew
    for path in (out / "v1").rglob("*.qk"):
        entry = path.read_bytes()
        whole = len(entry) // 4096 * 4096  # a file may be read in such blocks
        for other in (entry[:whole - 4096], entry[:-1], entry + b"x",
                      entry + bytes(4096 - len(entry) % 4096)):
            path.write_bytes(other)
            assert quern.json("cache", "push", out)["files"] == 1
            assert path.read_bytes() == entry
    # what is no file is neither followed nor waited for: another's file would be overwritten
    place, mine = min((out / "v1").rglob("*.qk")), tmp_path / "mine"
    entry = place.read_bytes()
    mine.write_text("mine")
    for make in (lambda: place.symlink_to(mine), lambda: os.mkfifo(place)):
        place.unlink()
        make()
        quern.refused("cache", "push", out, status=1, says="is no regular file")
    assert mine.read_text() == "mine"
    place.unlink()
    assert "2 kernels for" in (said := quern("cache", "push", out).stdout) and ": 1 file of" in said
    assert place.read_bytes() == entry
    assert all(re.fullmatch("[0-9a-f]+[.]qk", p.name) for p in out.rglob("*") if p.is_file())
    quern.refused("cache", "push", status=2, says="name the directory")
    quern.refused("cache", "list", "--sign-key", "x", status=2, says="goes with push")
    quern.refused("cache", "push", "--sign-key", made / "ours.pub", out, status=1,
                  says="is a public key")
    blocked = tmp_path / "file"
    blocked.write_text("")
    quern.refused("cache", "push", blocked, status=1, says="Not a directory")


def test_opening_asks_nobody(quern, server, env):
    subprocess.run([COMMAND, "cache", "stat"], env={**clean_environment(quern.cache), **env},
                   check=True, capture_output=True)
    assert not server.requests
