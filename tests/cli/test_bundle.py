# SPDX-License-Identifier: MIT
"""quern bundle: kernels in one file, its signature, and bringing it into another cache.

This file is long because all of it is tried on one cache, its bundle and two pairs of keys.
"""

import json
import os
import re
import shutil

import pytest
from conftest import TARGET, Quern

PROBLEMS = ["wq=nf4 n=64 k=128 a=f16", "wq=nf4 n=96 k=128 a=f16"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cache with two kernels, a bundle of it with serial 5, and two pairs of keys."""
    top = tmp_path_factory.mktemp("bundle")
    quern = Quern(top / "cache")
    quern("prewarm", "--target", TARGET, "--m", "1", *PROBLEMS)
    quern("bundle", "create", top / "plain.qkb", "--serial", "5")
    for name in ("ours", "theirs"):
        quern("bundle", "keygen", top / name, top / f"{name}.pub")
    shutil.copy(top / "plain.qkb", top / "signed.qkb")
    quern("bundle", "sign", top / "signed.qkb", "--key", top / "ours")
    return top


@pytest.fixture
def elsewhere(tmp_path):
    return Quern(tmp_path / "elsewhere")


def test_the_same_kernels_give_the_same_bytes(made, tmp_path):
    other = Quern(tmp_path / "another" / "cache")
    for problem in reversed(PROBLEMS):
        other("prewarm", "--target", TARGET, "--m", "1", problem)
    other("bundle", "create", tmp_path / "b.qkb", "--serial", "5")
    assert (tmp_path / "b.qkb").read_bytes() == (made / "plain.qkb").read_bytes()
    # and only what is asked for; a bundle of nothing is a mistake, and is not written
    other("prewarm", "--target", "gfx1201", "--m", "1", PROBLEMS[0])
    assert other.json("bundle", "create", tmp_path / "c.qkb", "--target", "gfx1201")["entries"] == 1
    other.refused("bundle", "create", tmp_path / "d.qkb", "--target", "gfx942", status=1,
                  says=["no kernel for gfx942", str(other.cache)])
    other.refused("bundle", "create", tmp_path / "d.qkb", "--cache-dir", tmp_path / "typo",
                  status=1, says=["does not exist", "typo"])
    assert not (tmp_path / "d.qkb").exists()


def test_a_bundle_serves_where_nothing_may_be_compiled(made, elsewhere):
    words = ["prewarm", "--target", TARGET, "--m", "1", "--jit", "off", "--verify", PROBLEMS[0]]
    elsewhere.refused(*words, status=1, says=["QUERN_JIT"])
    bundles = {"QUERN_BUNDLE_PATH": f"/nonexistent:{made / 'plain.qkb'}"}
    done = elsewhere(*words, env=bundles)
    assert "1 from bundles" in done.stdout and "cache hits" not in done.stdout
    assert done.stderr.count("\n") >= 1 and "/nonexistent" in done.stderr
    assert elsewhere.json("cache", "stat")["entries"] == 0


def test_with_keys_bundles_in_front_of_the_cache_must_be_signed(made, elsewhere, tmp_path):
    words = ["prewarm", "--target", TARGET, "--m", "1", "--jit", "off", PROBLEMS[0]]
    signed, keys = made / "signed.qkb", tmp_path / "keys"

    def env(bundle):
        return {"QUERN_BUNDLE_PATH": str(bundle), "QUERN_BUNDLE_KEYS": str(keys)}

    keys.write_text((made / "theirs.pub").read_text() + (made / "ours.pub").read_text())
    assert "1 from bundles" in elsewhere(*words, env=env(signed)).stdout
    bent = tmp_path / "bent.qkb"
    data = bytearray(signed.read_bytes())
    data[len(data) // 2] ^= 1
    bent.write_bytes(data)
    for bundle, says in ((made / "plain.qkb", "is not signed"),
                         (bent, "is not that of these bytes")):
        elsewhere(*words, env=env(bundle), status=1)
        said = elsewhere("cache", "stat", env=env(bundle)).stderr
        assert f"bundle {bundle} is not used: " in said and says in said
    keys.write_text((made / "theirs.pub").read_text())
    elsewhere(*words, env=env(signed), status=1)
    said = elsewhere("cache", "stat", env=env(signed)).stderr
    ours = (made / "ours.pub").read_text().strip()  # the remedy is the line that is lacking
    assert "not among the 1 trusted" in said and f'add the line "{ours}" to their file' in said
    # keys that cannot be read, or that others could have written, stop everything
    keys.chmod(0o666)
    elsewhere.refused(*words, env=env(signed), status=1, says=[str(keys), "0666"])
    keys.unlink()
    says = f"the key file (QUERN_BUNDLE_KEYS) cannot be read: {keys}: No such file"
    elsewhere.refused(*words, env=env(signed), status=1, says=says)
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    shutil.copy(signed, tmp_path / "open/b.qkb")
    keys.write_text((made / "ours.pub").read_text())
    said = elsewhere("cache", "stat", env=env(tmp_path / "open/b.qkb")).stderr
    assert f"file {tmp_path / 'open/b.qkb'} is not safe" in said and "cache directory" not in said
    keys.write_text("no key\n")
    elsewhere.refused(*words, env=env(signed), status=1, says=[str(keys), "line 1"])
    keys.write_text("# none\n" * 20000)
    elsewhere.refused(*words, env=env(signed), status=1, says=[str(keys), "at most 65536"])


def test_without_a_name_keys_are_no_keys(made, elsewhere):
    words = ["prewarm", "--target", TARGET, "--m", "1", "--jit", "off", PROBLEMS[0]]
    env = {"QUERN_BUNDLE_PATH": str(made / "plain.qkb"), "QUERN_BUNDLE_KEYS": ""}
    elsewhere.refused(*words, env=env, status=2, says="QUERN_BUNDLE_KEYS is empty")


def test_an_older_bundle_does_not_serve_in_place(made, elsewhere, tmp_path):
    """Neither after a newer one was imported, nor after one served; each signer by itself."""
    words = ["prewarm", "--target", TARGET, "--m", "1", "--jit", "off", PROBLEMS[0]]
    maker, older, newer = Quern(made / "cache"), tmp_path / "older.qkb", tmp_path / "newer.qkb"
    theirs, keys = tmp_path / "theirs.qkb", tmp_path / "keys"
    maker("bundle", "create", older, "--serial", "4")
    shutil.copy(older, theirs)
    maker("bundle", "sign", older, "--key", made / "ours")
    maker("bundle", "sign", theirs, "--key", made / "theirs")
    maker("bundle", "create", newer, "--serial", "6")
    maker("bundle", "sign", newer, "--key", made / "ours")
    keys.write_text((made / "theirs.pub").read_text() + (made / "ours.pub").read_text())

    def serves(*bundles, cache=elsewhere, mode="rw"):
        env = {"QUERN_BUNDLE_PATH": ":".join(map(str, bundles)), "QUERN_BUNDLE_KEYS": str(keys),
               "QUERN_CACHE_MODE": mode}  # fmt: skip
        said = cache("cache", "stat", env=env).stderr
        if "not let in again" in said:
            cache(*words, env=env, status=1)
            return False
        assert "1 from bundles" in cache(*words, env=env).stdout
        return True

    assert serves(older, mode="ro") and serves(older)
    assert serves(made / "signed.qkb")  # 5
    assert not serves(older) and not serves(older, mode="ro")
    elsewhere("bundle", "import", newer, "--key", made / "ours.pub")
    elsewhere("cache", "clear")
    assert not serves(made / "signed.qkb") and serves(newer) and serves(theirs)
    # at once: the newer one decides, wherever it stands
    both = Quern(tmp_path / "both")
    env = {"QUERN_BUNDLE_PATH": f"{older}:{newer}", "QUERN_BUNDLE_KEYS": str(keys)}
    assert "serial 4, and 6" in both("cache", "stat", env=env).stderr
    # where serials cannot be kept that is said, once, and of the bundles that have one alone
    env["QUERN_BUNDLE_PATH"] = f"{made / 'signed.qkb'}:{newer}:{theirs}"
    for mode in ("off", "ro"):
        said = Quern(tmp_path / mode)("cache", "stat", env={**env, "QUERN_CACHE_MODE": mode}).stderr
        assert said.count("older bundles of the trusted signers would be used too") == 1, said
        assert "QUERN_CACHE_MODE" in said
    assert "older" not in both("cache", "stat", env=env | {"QUERN_CACHE_MODE": "rw"}).stderr
    # without keys nobody asks for serials
    env = {"QUERN_BUNDLE_PATH": str(older)}
    assert "1 from bundles" in elsewhere(*words, env=env).stdout


def test_list_and_verify(made, elsewhere):
    keys = {p.parent.name + p.stem for p in (made / "cache").rglob("*.qk")}
    listed = elsewhere.json("bundle", "list", made / "signed.qkb")
    assert {e["key"] for e in listed["entries"]} == keys and listed["serial"] == 5
    assert listed["signature_checked"] is False and len(listed["signer"]) == 64
    ours = (made / "ours.pub").read_text().split()[1]
    checked = elsewhere.json("bundle", "verify", made / "signed.qkb", "--key", made / "ours.pub")
    assert checked["signature_checked"] is True and checked["signer"] == ours
    assert (made / "ours").stat().st_mode & 0o777 == 0o600


def test_kernels_are_named_by_their_layers(made, elsewhere):
    """Target, problem, rows, kernel and size; one line where all is well."""
    report = Quern(made / "cache").json("prewarm", "--target", TARGET, "--m", "1", *PROBLEMS)
    kernels = {(k["kernel"], p["problem"]) for p in report["problems"] for k in p["kernels"]}
    listed = elsewhere.json("bundle", "list", made / "plain.qkb")["entries"]
    assert {(e["kernel"], e["problem"]) for e in listed} == kernels
    assert {(e["target"], e["m"]) for e in listed} == {(TARGET, "1")}
    text = elsewhere("bundle", "list", made / "plain.qkb").stdout.splitlines()
    assert "2 entries" in text[0] and text[1].split()[:3] == ["target", "M", "kernel"]
    for e in listed:
        assert any(line.split()[:4] == [TARGET, "1", e["kernel"], str(e["bytes"])] and
                   line.endswith(e["problem"]) for line in text[2:])  # fmt: skip
    # a host may know which bundle serves it
    said = elsewhere("prewarm", "--target", TARGET, "--m", "1", "--log", "info", *PROBLEMS,
                     env={"QUERN_BUNDLE_PATH": str(made / "plain.qkb")}).stderr
    assert f"bundle {made / 'plain.qkb'}: 2 kernels, serial 5, not signed" in said
    verified = elsewhere("bundle", "verify", made / "plain.qkb").stdout
    assert verified.count("\n") == 1 and "all is well" in verified
    cached = Quern(made / "cache")
    assert cached("cache", "verify").stdout.count("\n") == 1
    assert {(e["kernel"], e["problem"]) for e in cached.json("cache", "list")["entries"]} == kernels
    layers = elsewhere.json("bundle", "inspect", made / "plain.qkb")["layers"]
    assert [(e["target"], e["m"], e["kernels"]) for e in layers] == [(TARGET, "1", 1)] * 2
    assert sorted(e["problem"] for e in layers) == sorted(p for _, p in kernels)
    shown = elsewhere("bundle", "inspect", made / "plain.qkb").stdout
    assert "2 layers, 2 kernels" in shown


def test_whether_a_bundle_covers_a_model(elsewhere, small_model, tmp_path):
    """The answer for a target, a split and rows; it needs neither cache nor compiler."""
    words = ["--model", small_model, "--wq", "nf4", "--a", "bf16"]
    bundle = tmp_path / "model.qkb"
    elsewhere("prewarm", *words, "--target", TARGET, "--m", "1-2", "--tp", "1,2")
    elsewhere("bundle", "create", bundle)
    bare = Quern(tmp_path / "none")
    check = ["bundle", "check", bundle, *words, "--rocm-path", tmp_path / "no-compiler"]
    said = bare(*check, "--target", TARGET, "--m", "1-2", "--tp", "1,2")
    assert said.stdout.count("\n") == 1 and "covers all" in said.stdout
    for more in (["--m", "1-16"], ["--m", "1", "--tp", "1,2", "--target", f"{TARGET},gfx942"]):
        target = [] if "--target" in more else ["--target", TARGET]
        report = bare(*check, *more, *target, "--json", status=1)
        found = json.loads(report.stdout)
        assert not found["covers"] and 0 < len(found["lacks"]) <= found["problems"]
        assert {e["status"] for e in found["lacks"]} == {"QUERN_E_WOULD_COMPILE"}
    assert {e["target"] for e in found["lacks"]} == {"gfx942"}
    shown = bare(*check, *more, status=1)
    assert "qkv" in shown.stdout and "gfx942" in shown.stdout
    assert f"; it has kernels: " in shown.stderr and f" for {TARGET}; made by: " in shown.stderr
    # the rows that it lacks, and the command that makes what was asked for
    shown = bare(*check, "--target", TARGET, "--m", "1-8", status=1).stderr
    assert re.search(r"lacks \d+ of \d+ layers \(M 3-8\); it has kernels: \d+ for", shown)
    assert f"made by: quern prewarm --target {TARGET} --model {small_model} --wq nf4 --a bf16 " \
           "--m 1-8\n" in shown
    # problems and a run's manifest too
    layer = "wq=nf4 n=64 k=128 a=f16"
    bare("bundle", "check", bundle, layer, "--target", TARGET, "--m", "1", status=1)
    elsewhere("prewarm", layer, "--target", TARGET, "--m", "1")
    elsewhere("bundle", "create", bundle)
    bare("bundle", "check", bundle, layer, "--target", TARGET, "--m", "1")
    # what cannot be read covers nothing, and says so
    bundle.write_bytes(b"no bundle")
    done = bare("bundle", "check", bundle, layer, "--target", TARGET, "--m", "1", status=1)
    assert "is not used" in done.stderr


def test_how_two_bundles_differ(made, elsewhere, tmp_path):
    one, two = tmp_path / "one.qkb", tmp_path / "two.qkb"
    elsewhere("prewarm", "--target", TARGET, "--m", "1", PROBLEMS[0])
    elsewhere("bundle", "create", one)
    same = elsewhere("bundle", "diff", one, one).stdout
    assert same.count("\n") == 1 and "the same 1 kernel\n" in same
    shutil.copy(made / "plain.qkb", two)
    done = elsewhere("bundle", "diff", one, two, "--json", status=1)
    found = json.loads(done.stdout)
    assert [(e["in"], e["target"], e["m"]) for e in found["differences"]] == [
        ("second", TARGET, "1")]  # fmt: skip
    assert "n=96" in found["differences"][0]["problem"]
    assert (found["first_serial"], found["second_serial"]) == (0, 5)
    shown = elsewhere("bundle", "diff", two, one, status=1)
    assert "first" in shown.stdout and "n=96" in shown.stdout and "n=64" not in shown.stdout
    # what they carry beside kernels counts
    (tmp_path / "text").write_text("# layers\n")
    elsewhere("bundle", "create", two, "--manifest", tmp_path / "text")
    assert "manifests or tables differ" in elsewhere("bundle", "diff", one, two, status=1).stderr
    elsewhere.refused("bundle", "diff", one, status=2, says="two bundles")
    elsewhere.refused("bundle", "diff", one, tmp_path / "text", status=1, says="text")


def test_what_is_damaged_is_named(made, elsewhere, tmp_path):
    """Of a dictionary, without which no entry is read: that it is the dictionary."""
    data = bytearray((made / "plain.qkb").read_bytes())
    entries, manifest = (int.from_bytes(data[at:at + 8], "little") for at in (24, 32))
    assert entries == 2
    index = 64 + 48 * entries + manifest
    bent = tmp_path / "bent.qkb"
    data[index + 200] ^= 1
    bent.write_bytes(data)
    said = elsewhere("bundle", "verify", bent, status=1).stderr
    assert "2 of 2 entries are damaged, the first of them: the bundle's dictionary does" in said
    data[index + 200] ^= 1
    data[-100] ^= 1  # of the last entry
    bent.write_bytes(data)
    said = elsewhere("bundle", "verify", bent, status=1).stderr
    assert "1 of 2 entries are damaged: " in said


def test_a_bundle_is_not_inspected_as_an_object(made, elsewhere):
    elsewhere.refused("inspect", made / "plain.qkb", status=2,
                      says=f"is a bundle of kernels: see quern bundle inspect {made / 'plain.qkb'}")


def test_signatures(made, elsewhere, tmp_path):
    signed, pub = made / "signed.qkb", made / "ours.pub"
    elsewhere.refused("bundle", "verify", signed, "--key", made / "theirs.pub", status=1,
                      says="not among the 1 trusted key")  # fmt: skip
    elsewhere.refused("bundle", "verify", made / "plain.qkb", "--key", pub, status=1,
                      says="not signed")  # fmt: skip
    # one of several keys
    both = tmp_path / "both.pub"
    both.write_text("# ours and theirs\n" + (made / "theirs.pub").read_text() + "\n"
                    + pub.read_text())  # fmt: skip
    elsewhere("bundle", "verify", signed, "--key", both)
    data = signed.read_bytes()
    bent = tmp_path / "bent.qkb"
    for at in (len(data) - 128 - 1, len(data) // 2, len(data) - 128 + 48, len(data) - 20):
        changed = bytearray(data)
        changed[at] ^= 1
        bent.write_bytes(changed)
        elsewhere.refused("bundle", "import", bent, "--key", pub, status=1,
                          says=["signature"])  # fmt: skip
    # the signature of another bundle
    other = tmp_path / "other.qkb"
    Quern(made / "cache")("bundle", "create", other, "--serial", "6")
    other.write_bytes(other.read_bytes() + data[-128:])
    elsewhere.refused("bundle", "import", other, "--key", pub, status=1, says="not that of these")
    assert elsewhere.json("cache", "stat")["entries"] == 0


def test_key_files(made, elsewhere, tmp_path):
    secret, public = tmp_path / "new.key", tmp_path / "new.pub"
    assert elsewhere.json("bundle", "keygen", secret, public) == {
        "secret": str(secret), "public": str(public)}  # fmt: skip
    elsewhere.refused("bundle", "keygen", made / "ours", tmp_path / "x", status=1, says="exists")
    loose = tmp_path / "loose"
    loose.write_bytes((made / "ours").read_bytes())
    loose.chmod(0o644)
    elsewhere.refused("bundle", "sign", made / "plain.qkb", "--key", loose, status=1,
                      says=["0644", "chmod 600"])  # fmt: skip
    elsewhere.refused("bundle", "sign", made / "plain.qkb", "--key", made / "ours.pub", status=1,
                      says=["ours.pub is a public key; a secret one signs"])  # fmt: skip
    elsewhere.refused("bundle", "verify", made / "signed.qkb", "--key", made / "ours", status=1,
                      says=["line 1 is a secret key", "keep this one to yourself"])  # fmt: skip
    elsewhere.refused("bundle", "verify", made / "signed.qkb", "--key", tmp_path / "none", status=1,
                      says=f"the key file cannot be read: {tmp_path / 'none'}: No such file")
    wrong = tmp_path / "wrong"
    for text in ("", "x\n", "quern-public-key 00\n", (made / "ours").read_text()):
        wrong.write_text(text)
        elsewhere.refused("bundle", "verify", made / "signed.qkb", "--key", wrong, status=1,
                          says=str(wrong))  # fmt: skip
    # public keys under a second name could be exchanged under the first
    wrong.write_text((made / "ours.pub").read_text())
    elsewhere("bundle", "verify", made / "signed.qkb", "--key", wrong)
    os.link(wrong, tmp_path / "second")
    elsewhere.refused("bundle", "verify", made / "signed.qkb", "--key", wrong, status=1,
                      says=[str(wrong), "2 names (hard links)"])  # fmt: skip


def test_import(made, elsewhere):
    signed, pub = made / "signed.qkb", made / "ours.pub"
    elsewhere.refused("bundle", "import", signed, status=2, says="--unsigned")
    assert elsewhere.json("bundle", "import", signed, "--key", pub)["imported"] == 2
    again = elsewhere.json("bundle", "import", signed, "--key", pub)
    assert (again["imported"], again["present"]) == (0, 2)
    assert elsewhere.json("cache", "verify") | {"entries": []} == {
        "entries": [], "count": 2, "damaged": 0, "unscanned": 0}  # fmt: skip
    hits = elsewhere.json("prewarm", "--target", TARGET, "--m", "1", "--jit", "off", *PROBLEMS)
    assert hits["cached"] == 2
    elsewhere.refused("bundle", "import", signed, "--key", pub, "--cache-max-size", "1K", status=1,
                      says="QUERN_CACHE_MAX_SIZE")  # fmt: skip
    elsewhere.refused("bundle", "import", signed, "--key", pub, "--cache-mode", "ro", status=1,
                      says="not open for writing")  # fmt: skip


def test_an_older_bundle_is_not_let_in_again(made, elsewhere, tmp_path):
    maker, older = Quern(made / "cache"), tmp_path / "older.qkb"
    maker("bundle", "create", older, "--serial", "4")
    maker("bundle", "sign", older, "--key", made / "ours")
    elsewhere("bundle", "import", older, "--key", made / "ours.pub")
    elsewhere("bundle", "import", made / "signed.qkb", "--key", made / "ours.pub")
    elsewhere("cache", "clear")
    elsewhere.refused("bundle", "import", older, "--key", made / "ours.pub", status=1,
                      says=["serial 4", "5"])  # fmt: skip
    assert elsewhere.json("cache", "stat")["entries"] == 0
    # another signer's serials are his own
    maker("bundle", "sign", older, "--key", made / "theirs")
    elsewhere("bundle", "import", older, "--key", made / "theirs.pub")


def test_only_the_damaged_entry_is_lost(made, elsewhere, tmp_path):
    data = bytearray((made / "plain.qkb").read_bytes())
    data[-100] ^= 4
    bent = tmp_path / "bent.qkb"
    bent.write_bytes(data)
    done = elsewhere("bundle", "import", bent, "--unsigned", status=1)
    assert "1 imported" in done.stdout and "1 entries are damaged" in done.stderr
    assert elsewhere.json("cache", "verify")["damaged"] == 0
    done = elsewhere("bundle", "verify", bent, status=1)
    assert "1 of 2 entries are damaged" in done.stderr
    told = json.loads(elsewhere("bundle", "verify", bent, "--json", status=1).stdout)["entries"]
    assert [e["status"] for e in told] == ["QUERN_OK", "QUERN_E_OBJECT"]
    # of what is damaged the index still has the key and the size
    listed = elsewhere.json("bundle", "list", bent)["entries"]
    assert [e["status"] for e in listed] == ["QUERN_OK", "QUERN_E_OBJECT"]
    assert [bool(e["kernel"]) for e in listed] == [True, False]
    assert sum(e["bytes"] for e in listed) == sum(
        p.stat().st_size for p in (made / "cache").rglob("*.qk"))
    shown = elsewhere("bundle", "verify", bent, status=1).stdout.splitlines()
    assert len(shown) == 3 and listed[1]["key"] in shown[2]  # that one alone


def test_files_that_are_no_bundles(made, elsewhere, tmp_path):
    for name, data in (("empty", b""), ("text", b"hello, text\n" * 9), ("zeros", bytes(999)),
                       ("short", (made / "plain.qkb").read_bytes()[:5000])):
        path = tmp_path / name
        path.write_bytes(data)
        for verb in (["list"], ["verify"], ["import", "--unsigned"]):
            elsewhere.refused("bundle", verb[0], path, *verb[1:], status=1, says=str(path))
    sparse = tmp_path / "sparse"
    with open(sparse, "wb") as f:
        f.write((made / "plain.qkb").read_bytes()[:64])
        os.truncate(f.fileno(), 1 << 40)
    elsewhere.refused("bundle", "import", sparse, "--unsigned", status=1, says=str(sparse))
    elsewhere.refused("bundle", "list", tmp_path / "absent", status=1, says="No such file")
    elsewhere.refused("bundle", "frobnicate", "x", status=2, says="frobnicate")


SHAPE = "rows=1 lanes=0 chunk=8 ring=0 split_k=1 waves=4 products=1 ahead=0 pairing=0"


def test_a_tuning_table_goes_along(elsewhere, tmp_path):
    """A fleet that gets a bundle asks for the kernels in it: those of the table they follow."""
    here = Quern(tmp_path / "here")
    table = here.cache / "tuning" / f"{TARGET}.tune"
    table.parent.mkdir(parents=True, mode=0o700)
    text = f"quern-tuning 1 {TARGET}\n{PROBLEMS[0]} | m=1 | {SHAPE} | us=1.5\n"
    table.write_text(text)
    (table.parent / "gfx1201.tune").write_text("quern-tuning 1 gfx1201\n")
    words = ("--target", TARGET, "--m", "1", PROBLEMS[0])
    here("prewarm", *words)
    bundle = tmp_path / "tuned.qkb"
    here("bundle", "create", bundle)
    assert here.json("bundle", "list", bundle)["tuning"] == text + "quern-tuning 1 gfx1201\n"
    here("bundle", "create", tmp_path / "one.qkb", "--target", TARGET)
    assert here.json("bundle", "list", tmp_path / "one.qkb")["tuning"] == text

    explained = here("explain", *words).stdout
    (line,) = [x for x in explained.splitlines() if x.startswith("tuning table ")]
    assert len(line.split()[2]) == 32 and "measured to be the fastest" in explained
    # in front of another cache, which may compile nothing
    env = {"QUERN_BUNDLE_PATH": str(bundle)}
    assert elsewhere("explain", *words, env=env).stdout == explained
    assert "1 from bundles" in elsewhere("prewarm", "--jit", "off", *words, env=env).stdout
    assert "tuning table" not in elsewhere("explain", *words).stdout
    # what the host names comes first
    mine = tmp_path / "mine.tune"
    mine.write_text(f"quern-tuning 1 {TARGET}\n")
    own = elsewhere("explain", *words, env=env | {"QUERN_TUNING": str(mine)}).stdout
    assert "tuning table" in own and line not in own and "fastest, says" not in own
    # imported
    done = elsewhere.json("bundle", "import", bundle, "--unsigned")
    assert (done["imported"], done["tables_imported"], done["tables_kept"]) == (1, 2, 0)
    assert elsewhere("explain", *words).stdout == explained
    assert "1 from the cache" in elsewhere("prewarm", "--jit", "off", *words).stdout
    again = elsewhere.json("bundle", "import", bundle, "--unsigned")
    assert (again["tables_imported"], again["tables_present"]) == (0, 2)
    (elsewhere.cache / "tuning" / "gfx1201.tune").write_text("quern-tuning 1 gfx1201\n# ours\n")
    again = elsewhere.json("bundle", "import", bundle, "--unsigned")
    assert (again["tables_present"], again["tables_kept"]) == (1, 1)
    assert "# ours" in (elsewhere.cache / "tuning" / "gfx1201.tune").read_text()


@pytest.mark.parametrize("variable, table", [("QUERN_TUNING", "tuning"), ("QUERN_FACTS", "facts")])
def test_a_table_that_is_not_there_is_named(elsewhere, tmp_path, variable, table):
    path = tmp_path / "none"
    elsewhere.refused("prewarm", "--target", TARGET, "--m", "1", PROBLEMS[0], status=1,
                      env={variable: str(path)},
                      says=f"the {table} table ({variable}) cannot be read: {path}: No such file")


# Of each kind of table: its text, what explain says where it is followed, what is said where it is
# left out, and the variable that names one.
TABLES = {
    "tune": (f"quern-tuning 1 {TARGET}\n{PROBLEMS[0]} | m=1 | {SHAPE} | us=1.5\n",
             "says the tuning table", "the model chooses", "QUERN_TUNING"),
    "facts": (f"quern-facts 1 {TARGET}\nwmma_lanes | transposed\n", "refuted    wmma_lanes",
              "all is assumed", "QUERN_FACTS"),
}  # fmt: skip


def prepared_table(quern, kind="tune"):
    """A table that any use of the cache follows, in a cache that has an entry."""
    quern("prewarm", "--target", TARGET, "--m", "1", PROBLEMS[0])
    table = quern.cache / "tuning" / f"{TARGET}.{kind}"
    table.parent.mkdir(mode=0o755)
    table.write_text(TABLES[kind][0])
    table.chmod(0o644)
    return table


def of_everybody(table):
    table.chmod(0o666)


def with_a_second_name(table):
    os.link(table, table.parent.parent / "second")


def below_a_directory_of_everybody(table):
    table.parent.chmod(0o777)


def by_a_symbolic_link(table):
    table.rename(table.parent.parent / "elsewhere")
    table.symlink_to(table.parent.parent / "elsewhere")


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("harm", [of_everybody, with_a_second_name, by_a_symbolic_link,
                                  below_a_directory_of_everybody])  # fmt: skip
def test_a_table_of_doubtful_origin_is_not_used(harm, tmp_path, kind):
    """Neither followed, nor carried into a bundle, nor measured on top of."""
    quern = Quern(tmp_path / "here")
    table = prepared_table(quern, kind)
    _, followed, left_out, variable = TABLES[kind]
    words = ("explain", "--target", TARGET, "--m", "1", PROBLEMS[0])
    assert followed in quern(*words).stdout
    harm(table)
    done = quern(*words)
    assert followed not in done.stdout and left_out in done.stderr
    bundle = tmp_path / "x.qkb"
    refused = quern("bundle", "create", bundle, status=1)
    assert str(quern.cache) in refused.stderr and not bundle.exists()
    if harm is not below_a_directory_of_everybody:  # as a file that is named it is none either
        refused = quern(*words, status=1, env={variable: str(table)}).stderr
        assert str(table) in refused


def test_imported_tables_are_as_private_as_entries(tmp_path):
    here, there = Quern(tmp_path / "here"), Quern(tmp_path / "there")
    prepared_table(here)
    here("bundle", "create", tmp_path / "x.qkb")
    old = os.umask(0)
    try:
        there("bundle", "import", "--unsigned", tmp_path / "x.qkb")
    finally:
        os.umask(old)
    tuning = there.cache / "tuning"
    assert tuning.stat().st_mode & 0o777 == 0o700
    assert (tuning / f"{TARGET}.tune").stat().st_mode & 0o777 == 0o600


def test_an_unsound_table_is_not_taken_along(tmp_path):
    here = Quern(tmp_path / "here")
    table = here.cache / "tuning" / f"{TARGET}.tune"
    table.parent.mkdir(parents=True, mode=0o700)
    table.write_text(f"quern-tuning 1 {TARGET}\nno line of a table\n")
    here.refused("bundle", "create", tmp_path / "b.qkb", status=2, says="line 2")
    assert not (tmp_path / "b.qkb").exists()
