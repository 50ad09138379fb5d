# SPDX-License-Identifier: MIT
"""quern cache and quern inspect, on a cache with two kernels in it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from conftest import COMMAND, TARGET

PROBLEMS = ["wq=nf4 n=64 k=128 a=f16", "wq=nf4 n=96 k=128 a=f16"]


@pytest.fixture
def filled(quern):
    quern("prewarm", "--target", TARGET, "--m", "1", *PROBLEMS)
    return quern


def entries(quern):
    return sorted(quern.cache.rglob("*.qk"))


def test_an_empty_cache(quern):
    assert quern.json("cache", "stat") == {
        "directory": str(quern.cache), "exists": False, "entries": 0, "bytes": 0,
        "max_bytes": 1 << 30, "quarantined": 0,
    }  # fmt: skip
    assert quern.json("cache", "list")["entries"] == []
    quern.refused("cache", "verify", status=1, says="does not exist")
    quern.cache.mkdir(mode=0o700)
    assert quern.json("cache", "verify")["count"] == 0
    assert quern.json("cache", "clear")["removed"] == 0


def test_stat_and_list(filled):
    stat = filled.json("cache", "stat")
    listed = filled.json("cache", "list")["entries"]
    assert stat["entries"] == len(listed) == len(entries(filled)) == 2
    assert stat["bytes"] == sum(e["bytes"] for e in listed)
    assert {e["processor"] for e in listed} == {TARGET}
    assert {e["status"] for e in listed} == {"QUERN_OK"}
    assert sorted(e["key"] for e in listed) == sorted(p.parent.name + p.stem
                                                      for p in entries(filled))
    text = filled("cache", "list").stdout
    assert text.count(TARGET) == 2


def test_a_damaged_entry_is_found_and_made_again(filled):
    assert filled.json("cache", "verify") | {"entries": []} == {
        "entries": [], "count": 2, "damaged": 0, "unscanned": 0}  # fmt: skip
    damaged = entries(filled)[0]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    done = filled("cache", "verify", "--json", status=1)
    assert json.loads(done.stdout)["damaged"] == 1
    assert "1 of 2 entries were damaged" in done.stderr
    stat = filled.json("cache", "stat")
    assert (stat["entries"], stat["quarantined"]) == (1, 1)
    again = filled.json("prewarm", "--target", TARGET, "--m", "1", *PROBLEMS)
    assert (again["compiled"], again["cached"]) == (1, 1)
    assert filled.json("cache", "verify")["damaged"] == 0


def test_clear(filled):
    assert "removed" in filled("cache", "clear").stdout
    assert entries(filled) == [] and filled.json("cache", "stat")["entries"] == 0
    assert filled.json("prewarm", "--target", TARGET, "--m", "1", *PROBLEMS)["compiled"] == 2


def test_a_read_only_cache_is_not_written(quern):
    words = ["prewarm", "--target", TARGET, "--m", "1", PROBLEMS[0]]
    quern(*words)
    before = {p: p.read_bytes() for p in entries(quern)}
    quern(*words, PROBLEMS[1], "--cache-mode", "ro")
    assert {p: p.read_bytes() for p in entries(quern)} == before


@pytest.fixture(scope="module")
def plan(warm, tmp_path_factory):
    place = tmp_path_factory.mktemp("inspected")
    warm("build", "--target", TARGET, "--m", "1", "--out", place, PROBLEMS[0])
    return place / "plan.json"


def test_inspect_a_code_object(warm, plan):
    launch = json.loads(plan.read_text())["launches"][0]
    (item,) = warm.json("inspect", plan.parent / launch["object"])
    assert item["target"] == TARGET
    (kernel,) = item["kernels"]
    assert kernel["kernel"] == launch["kernel"] and kernel["wave_size"] == 32
    expected = json.loads(plan.read_text())["resources"]
    assert {name: kernel[name] for name in expected} == expected
    assert warm.json("inspect", plan)[0]["kernels"] == [kernel]


def test_inspect_shows_the_instructions(warm, plan):
    (item,) = warm.json("inspect", "--disassemble", plan)
    instructions = item["kernels"][0]["instructions"]
    assert any(text.startswith("s_endpgm") for _, text in instructions)
    addresses = [address for address, _ in instructions]
    assert addresses == sorted(set(addresses))
    text = warm("inspect", "--disassemble", plan).stdout
    assert instructions[0][1] in text and "s_endpgm" in text


@pytest.mark.parametrize("name", ["empty", "text", "cut"])
def test_inspect_refuses_what_is_no_code_object(warm, plan, tmp_path, name):
    whole = next(plan.parent.glob("*.co")).read_bytes()
    data = {"empty": b"", "text": b"hello\n", "cut": whole[: len(whole) // 2]}[name]
    path = tmp_path / name
    path.write_bytes(data)
    warm.refused("inspect", path, status=1, says=str(path))


def test_why_a_kernel_is_missing(quern):
    words = ["explain", "--target", TARGET, "--why-miss"]
    empty = quern(*words, PROBLEMS[0]).stdout
    assert "is not in the cache" in empty and "which does not exist" in empty
    quern.cache.mkdir(mode=0o700)
    assert "has no entry" in quern(*words, PROBLEMS[0]).stdout
    quern("prewarm", "--target", TARGET, "--m", "1", *PROBLEMS)
    there = quern(*words, PROBLEMS[0]).stdout
    assert "is in the cache" in there and "differs" not in there
    # another group: only the source differs, and a line that says so is shown
    near = quern(*words, PROBLEMS[0] + " group=32").stdout
    fields = dict(re.findall(r"^  (\w+) +(same|differs)$", near, re.M))
    assert fields == {"toolchain": "same", "format": "same", "source": "differs",
                      "options": "same", "processor": "same", "wave": "same"}  # fmt: skip
    shown = re.search(r'wanted "(.*)"\n +found  "(.*)"', near)
    assert shown and shown[1] != shown[2] and re.search(r"and \d+ more lines", near)
    # another target: the processor differs too
    other = quern("explain", "--target", "gfx1100", "--why-miss", PROBLEMS[0]).stdout
    assert re.search(r'processor +differs\n +wanted "gfx1100"\n +found  "gfx1151"', other)
    assert quern.json(*words, PROBLEMS[0])["explanations"][0]["text"] in there


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a program to another user")
def test_the_environment_means_nothing_to_a_privileged_program():
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv")
    top = pathlib.Path(tempfile.mkdtemp())
    try:
        top.chmod(0o711)
        program, theirs = top / "quern", top / "theirs"
        shutil.copy(COMMAND, program)
        os.chown(program, 65533, 65533)
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        env = {"QUERN_CACHE_DIR": str(theirs), "XDG_CACHE_HOME": str(theirs), "HOME": str(theirs)}
        words = [*nobody, str(program), "cache", "stat", "--json"]
        for mode, believed in ((0o755, True), (0o4755, False)):
            program.chmod(mode)
            done = subprocess.run(words, env=env, capture_output=True, text=True)
            assert (str(theirs) in done.stdout + done.stderr) == believed, done
    finally:
        shutil.rmtree(top)


def test_what_is_not_scanned_is_said(quern):
    """Of gfx1030 no rules are known."""
    problem = "wq=none n=64 k=64 a=f16"
    for target in ("gfx1030", "gfx1151"):
        quern("build", "--target", target, "--allow-unverified", "--m", "1", "--out",
              quern.cache.parent / target, problem)  # fmt: skip
    assert "2 entries read, 0 damaged, 1 not scanned" in quern("cache", "verify").stdout
    scanned = {e["processor"]: e["scanned"] for e in quern.json("cache", "list")["entries"]}
    assert scanned == {"gfx1030": False, "gfx1151": True}
    assert "2 entries, 1 not scanned" in quern("doctor").stdout
    said = {t: quern("explain", "--why-miss", "--target", t, "--allow-unverified",
                     "--m", "1", problem).stdout for t in scanned}  # fmt: skip
    assert "is in the cache, not scanned" in said["gfx1030"]
    assert "is in the cache\n" in said["gfx1151"]
