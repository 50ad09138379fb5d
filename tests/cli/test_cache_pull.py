# SPDX-License-Identifier: MIT
"""`quern cache pull PLACE --manifest FILE`: from a directory, a web server and an S3 store."""

import json
import os
import re
import shutil

import pytest
import remote
import swift_store
from conftest import Quern, files_under

TARGET = ["--target", "gfx1030", "--allow-unverified"]  # its kernels are not scanned: quicker
LAYER = "wq=nf4 n={} k=256 a=bf16"
SIZES = (256, 320)
COUNTS = ("kernels", "present", "fetched", "missing")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cache with a kernel for each of two layers, what a remote is to have of it, two pairs of
    keys, and manifests: of these layers, and of one more."""
    top = tmp_path_factory.mktemp("made")
    remote.make_signed(top, lambda quern: quern("prewarm", *TARGET, "--m", "1",
                                                *map(LAYER.format, SIZES)))
    for name, sizes in (("layers", SIZES), ("more", (*SIZES, 384))):
        (top / f"{name}.txt").write_text(
            "".join(f"target=gfx1030 m=1 {LAYER.format(n)}\n" for n in sizes))
    return top


@pytest.fixture
def keys(made):
    return {"QUERN_REMOTE_KEYS": str(made / "ours.pub")}


def pull(quern, made, place, *words, layers="layers", **options):
    """The counts of a report, the report, and what was said."""
    done = quern("cache", "pull", place, "--manifest", made / f"{layers}.txt", "--allow-unverified",
                 "--json", *words, **options)
    report = json.loads(done.stdout)
    return tuple(report[name] for name in COUNTS), report, done.stderr


def all_there(quern, made):
    """Without a remote and a compiler."""
    report = quern.json("prewarm", "--allow-unverified", "--jit", "off", "--manifest",
                        made / "layers.txt")
    assert (report["kernels"], report["cached"], report["failed"]) == (2, 2, 0)


@pytest.fixture(params=["directory", "address"])
def place(request, made, tmp_path):
    """What is at a place, that may be changed, and the place."""
    top = tmp_path / "served"
    shutil.copytree(made / "signed", top)
    if request.param == "directory":
        yield top, top
        return
    server = remote.Remote(top)
    yield top, server.url
    server.stop()


def test_what_is_needed_comes(quern, made, keys, place):
    counts, report, said = pull(quern, made, place[1], env=keys)
    assert counts == (2, 0, 2, 0) and report["missing_kernels"] == [] and said == ""
    assert report["counters"]["compile_ok"] == 0
    all_there(quern, made)
    assert pull(quern, made, place[1], env=keys)[0] == (2, 2, 0, 0)
    # the manifest by its variable
    counts = quern.json("cache", "pull", place[1], "--allow-unverified",
                        env={**keys, "QUERN_MANIFEST": str(made / "layers.txt")})
    assert (counts["kernels"], counts["present"]) == (2, 2)
    # what one already has is not asked for; a table says the same
    quern("cache", "clear")
    quern("prewarm", *TARGET, "--m", "1", LAYER.format(256))
    done = quern("cache", "pull", place[1], "--manifest", made / "layers.txt",
                 "--allow-unverified", env=keys)
    assert f"2 kernels: 1 there already, 1 fetched from {place[1]}, 0 missing" in done.stdout


def test_what_is_missing_is_named(quern, made, keys, place):
    counts, report, said = pull(quern, made, place[1], layers="more", env=keys, status=1)
    assert counts == (3, 0, 2, 1)
    (missing,) = report["missing_kernels"]
    assert missing["target"] == "gfx1030" and "n=384" in missing["problem"]
    assert missing["m"][0] == 1
    assert len(missing["entry_key"]) == len(missing["source_key"]) == 32
    assert "n=384" in said and "does not have it" in said
    all_there(quern, made)
    done = quern("cache", "pull", place[1], "--manifest", made / "more.txt", "--allow-unverified",
                 env=keys, status=1)
    assert missing["entry_key"] in done.stdout and missing["kernel"] in done.stdout
    assert re.search(r"^gfx1030 +1  ", done.stdout, re.M)
    assert "3 kernels: 2 there already, 0 fetched" in done.stdout and "1 missing" in done.stdout
    # also where a base kernel would serve meanwhile
    based = pull(quern, made, place[1], layers="more", env={**keys, "QUERN_BASE": "on"}, status=1)
    assert based[0] == (3, 2, 0, 1)
    # it is that kernel's key
    quern("prewarm", *TARGET, "--m", "1", LAYER.format(384))
    entries = quern.json("cache", "list")["entries"]
    assert missing["entry_key"] in [entry["key"] for entry in entries]


def test_who_has_another_compiler_finds_it_by_its_source(quern, made, keys, place):
    for entry in (place[0] / "v1/objects").rglob("*.qk"):
        entry.unlink()
    assert pull(quern, made, place[1], env=keys)[0] == (2, 0, 2, 0)
    counts, _, _ = pull(Quern(quern.cache.with_name("exact")), made, place[1],
                        env={**keys, "QUERN_TOOLCHAIN": "exact"}, status=1)
    assert counts == (2, 0, 0, 2)


def test_a_kernel_that_several_lines_need_is_one(quern, made, keys, place, tmp_path):
    lines = (made / "layers.txt").read_text()
    (tmp_path / "twice.txt").write_text(lines + lines.replace("m=1 ", "m=1,2 "))
    shutil.copytree(made / "cache", quern.cache, symlinks=True)
    quern("prewarm", "--allow-unverified", "--manifest", tmp_path / "twice.txt")
    known = {e["key"] for e in quern.json("cache", "list")["entries"]}
    counts, report, _ = pull(quern, tmp_path, place[1], layers="twice", env=keys)
    assert counts == (len(known), len(known), 0, 0)


def test_what_is_stored_while_more_comes_is_fetched_once(tmp_path):
    """More kernels than are fetched together, of which one is needed at both ends of the list;
    those between take the compiler the least time."""
    lines = [f"target=gfx1030 m=1 {LAYER.format(64)}\n",
             *(f"target=gfx1030 m=1 op=dequant wq=nf4 n={n} k=64 c=f32\n" for n in range(4, 104))]
    (tmp_path / "many.txt").write_text("".join([*lines, lines[0].replace("m=1 ", "m=1,2 ")]))
    remote.make_signed(tmp_path, lambda quern: quern("prewarm", "--allow-unverified", "--manifest",
                                                     tmp_path / "many.txt"))
    there = len(files_under(tmp_path / "cache/v1/objects"))
    assert there >= len(lines)
    counts, report, _ = pull(Quern(tmp_path / "pulled"), tmp_path, tmp_path / "signed",
                             layers="many", env={"QUERN_REMOTE_KEYS": str(tmp_path / "ours.pub")})
    assert counts == (there, 0, there, 0)
    counters = report["counters"]
    assert (counters["hit_remote"], counters["put_ok"], counters["put_lost"]) == (there, there, 0)


def test_a_long_list_is_asked_for_whole(quern, keys, place, tmp_path):
    """More kernels at once than the library has questions to a remote pending: none is left out,
    though none is there."""
    sizes = range(512, 512 + 48 * 64, 64)
    (tmp_path / "long.txt").write_text("".join(
        f"target=gfx1030 m=1-16384 wq=nf4 n={n} k=4096 a=bf16\n" for n in sizes))
    counts, report, _ = pull(quern, tmp_path, place[1], "--jobs", "64", layers="long", env=keys,
                             status=1)
    # each is asked for by two keys, of 256 questions that may be pending
    assert counts == (len(report["missing_kernels"]), 0, 0, counts[0]) and 2 * counts[0] > 256
    assert report["counters"]["remote_skipped"] == 0
    env = {**keys, "QUERN_REMOTE": str(place[1])}
    report = quern.json("prewarm", "--allow-unverified", "--jit", "off", "--jobs", "64",
                        "--manifest", tmp_path / "long.txt", env=env, status=1)
    assert report["counters"]["remote_skipped"] == 0


def test_what_another_signed_does_not_come(quern, made, keys, place):
    env = {"QUERN_REMOTE_KEYS": str(made / "theirs.pub")}
    counts, report, said = pull(quern, made, place[1], env=env, status=1)
    assert counts == (2, 0, 0, 2) and report["counters"]["remote_refused"] >= 1
    assert "signed" in said and "(said once)" in said
    assert not [f for f in files_under(quern.cache) if f.endswith(".qk")]


@pytest.mark.parametrize("change", [lambda entry: entry[:-1], lambda entry: b"",
                                    lambda entry: entry[:200] + b"x" + entry[201:]])
def test_what_is_damaged_does_not_come(quern, made, keys, place, change):
    for entry in (place[0] / "v1").rglob("*.qk"):
        entry.write_bytes(change(entry.read_bytes()))
    counts, report, _ = pull(quern, made, place[1], env=keys, status=1)
    assert counts == (2, 0, 0, 2) and report["counters"]["remote_refused"] >= 1
    assert not [f for f in files_under(quern.cache) if f.endswith(".qk")]


def test_what_is_revoked_does_not_come(quern, made, keys, place):
    builder = Quern(quern.cache.with_name("builder"))
    shutil.copytree(made / "cache", builder.cache, symlinks=True)
    first = sorted(e["key"] for e in builder.json("cache", "list")["entries"])[0]
    builder("cache", "revoke", "--sign-key", made / "ours.key", place[0], first)
    counts, report, _ = pull(quern, made, place[1], env=keys, status=1)
    assert counts == (2, 0, 1, 1) and report["counters"]["remote_revoked"] >= 1
    assert [k["entry_key"] for k in report["missing_kernels"]] == [first]
    # a list that is damaged: nothing is used
    (place[0] / "v1/revoked.qr").write_bytes(b"no list")
    other = Quern(quern.cache.with_name("other"))
    assert pull(other, made, place[1], env=keys, status=1)[0] == (2, 0, 0, 2)


def test_a_directory_of_other_things(quern, made, keys, place):
    if os.path.isdir(place[1]):
        for entry in (place[0] / "v1").rglob("*.qk"):
            entry.unlink()
            os.mkfifo(entry)  # nobody writes there: reading it would never end
        counts, report, said = pull(quern, made, place[1], env=keys, status=1)
        assert counts == (2, 0, 0, 2) and report["counters"]["remote_failed"] >= 1
        assert "it is no regular file" in said
    shutil.rmtree(place[0] / "v1")
    (place[0] / "v1").mkdir()
    assert pull(Quern(quern.cache.with_name("other")), made, place[1], env=keys,
                status=1)[0] == (2, 0, 0, 2)


def test_a_directory_as_the_remote_of_a_host(quern, made, keys):
    """QUERN_REMOTE, without any helper."""
    env = {**keys, "QUERN_REMOTE": f"{made}/signed/"}
    report = quern.json("prewarm", "--allow-unverified", "--manifest", made / "more.txt",
                        "--worker", made / "no/worker", env=env, status=1)
    assert (report["counters"]["hit_remote"], report["counters"]["compile_ok"]) == (2, 0)
    (line,) = [c for c in quern.json("doctor", *TARGET[:2], env=env)
               if c["subject"] == "remote cache"]
    assert line["ok"] and "answers in" in line["text"]
    gone = {**env, "QUERN_REMOTE": f"{made}/nowhere"}
    (line,) = [c for c in quern.json("doctor", *TARGET[:2], env=gone, status=1)
               if c["subject"] == "remote cache"]
    assert not line["ok"] and "No such file or directory" in line["text"]
    quern.refused("cache", "stat", status=2, says="have entries signed", env={
        "QUERN_REMOTE": str(made / "signed"), "QUERN_REMOTE_TRUST": "transport"})
    quern.refused("cache", "stat", status=2, says="which is only read", env={
        **env, "QUERN_REMOTE_MODE": "rw", "QUERN_REMOTE_SIGN_KEY": str(made / "ours.key")})


@remote.needs_swift
def test_an_object_store(quern, made, keys, tmp_path):
    store = swift_store.Swift(tmp_path)
    try:
        env, where = {**keys, **store.variables()}, f"s3://{store.bucket}/zoo"
        Quern(made / "cache")("cache", "push", "--sign-key", made / "ours.key", where, env=env)
        assert pull(quern, made, where, layers="more", env=env, status=1)[0] == (3, 0, 2, 1)
        assert pull(quern, made, where, env=env)[0] == (2, 2, 0, 0)
    finally:
        store.kill()
    all_there(quern, made)


def test_what_makes_no_sense(quern, made, keys):
    def refused(status, says, *words, env=keys):
        quern.refused("cache", *words, status=status, says=says, env=env)
    layers = ("--manifest", made / "layers.txt")
    refused(2, "from where?", "pull", *layers)
    refused(2, "which kernels? give --manifest FILE", "pull", made / "signed")
    refused(2, "which kernels?", "pull", made / "signed", env={**keys, "QUERN_MANIFEST": ""})
    refused(2, "one argument too many", "pull", made, made, *layers)
    refused(2, "--manifest goes with pull", "push", made, *layers)
    refused(2, "--sign-key goes with push and revoke", "pull", made, "--sign-key", "x", *layers)
    refused(1, "No such file or directory", "pull", made / "nowhere", *layers)
    refused(1, "nowhere.txt", "pull", made / "signed", "--manifest", made / "nowhere.txt")
    refused(2, "must be rw", "pull", made / "signed", "--cache-mode", "ro", *layers)
    refused(2, "must be rw", "pull", made / "signed", *layers,
            env={**keys, "QUERN_CACHE_MODE": "off"})
    refused(2, "whose entries? name the file of the public keys", "pull", made / "signed",
            "--allow-unverified", *layers, env={})
    refused(2, "expected an address", "pull", "ftp://cache.example", "--allow-unverified", *layers)
    assert files_under(quern.cache) == []
