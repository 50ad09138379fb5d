# SPDX-License-Identifier: MIT
"""quern bench: our kernels beside those in bitsandbytes' published wheel, which is fetched once."""

import subprocess
import sys

import pytest
from conftest import TARGET, TOP, cases

PROBLEM = "wq=nf4 n=64 k=4096 a=bf16"


@pytest.fixture(scope="module")
def library():
    done = subprocess.run([sys.executable, TOP / "tests/peers/fetch_wheel.py"], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        pytest.skip(f"bitsandbytes' wheel: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


INT4 = "wq=int4 n=64 k=128 a=bf16"
NESTED = "wq=fp4 group=128 n=37 k=1152 a=f16 bias=1 scale=nested"


@pytest.mark.parametrize("problem", cases(
    [PROBLEM, NESTED, "wq=nf4 n=64 k=2560 a=f32"], [NESTED]))  # fmt: skip
def test_both_are_right_and_ours_takes_less(warm, library, problem):
    report = warm.json("bench", "--peer", "bitsandbytes", "--library", library, "--target", TARGET,
                       "--m", "1,8,11", problem)
    assert (report["quern_bench"], report["target"]) == (1, TARGET)
    assert report["peer"] == "bitsandbytes 0.50.2"
    assert [run["m"] for run in report["runs"]] == [1, 8, 11]
    for run in report["runs"]:
        ours, peer = run["ours"], run["peer"]
        assert ours["kernel"].startswith("quern_") and "gemm_4bit_simt" in peer["kernel"]
        for one in (ours, peer):
            assert one["max_error"] <= (1e-5 if "a=f32" in problem else 5e-3)
            assert one["counts"]["bytes_written"] >= 1
        # a row of workgroups of its own for so few rows is dear for us, and still cheaper
        assert ours["slots_per_weight"] < peer["slots_per_weight"]


@pytest.mark.numbers
def test_the_peers_count_is_the_known_one(warm, library):
    """7.1 slots a weight at M = 1; another emulator had 6.8 for a newer compiler's build."""
    text = warm("bench", "--peer", "bitsandbytes", "--library", library, "--target", TARGET,
                "wq=nf4 n=512 k=4096 a=bf16").stdout
    rows = {line.split()[0]: line.split() for line in text.splitlines()[2:]}
    assert 6.5 < float(rows["bitsandbytes"][4]) < 7.5
    assert float(rows["quern"][4]) < 3


@pytest.mark.parametrize("words, says", [
    ((), "which problem"),
    ((PROBLEM,), "--peer is missing"),
    (("--peer", "cutlass", PROBLEM), "bitsandbytes"),
    (("--peer", "triton", PROBLEM), "wq=int4"),
    (("--peer", "bitsandbytes", "--m", "65", PROBLEM), "64"),
    (("--peer", "bitsandbytes", "--target", "gfx906", PROBLEM), "does not run gfx906"),
    (("--peer", "bitsandbytes", "--library", "/dev/null", PROBLEM), "--library"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(quern, words, says):
    target = () if "--target" in words else ("--target", TARGET)
    quern.refused("bench", *target, *words, status=2, says=says)


@pytest.mark.parametrize("problem, says", [
    (INT4 + " layout=ck", "layout k8"),
    (INT4 + " bias=1", "neither bias nor act"),
    (INT4 + " scale=f32", "scales"),
    (INT4 + " group=channel", "groups of 32"),
    ("wq=int4 n=40 k=128 a=bf16 group=128", "by 16"),
])  # fmt: skip
def test_what_the_kernel_in_triton_cannot_do_is_refused(quern, tmp_path, problem, says):
    quern.refused("bench", "--peer", "triton", "--library", tmp_path, "--target", TARGET, problem,
                  status=2, says=says)


def test_how_to_compile_what_is_not_there_is_said(quern, tmp_path):
    said = quern.refused("bench", "--peer", "triton", "--library", tmp_path, "--target", TARGET,
                         INT4, status=2, says=f"w4a16_{TARGET}_bf16_g128_none.hsaco is not there")
    assert f"fetch_triton.py --target {TARGET} --type bf16 --group 128 --zero none" in said


def test_what_goes_with_a_kernel_in_triton_is_checked(quern, tmp_path):
    name = f"w4a16_{TARGET}_bf16_g128_none"
    (tmp_path / f"{name}.hsaco").write_bytes(b"no object")
    for meta, says in (("{}", "warps"), ('{"warps": 99}', "warps"), ("[", name)):
        (tmp_path / f"{name}.json").write_text(meta)
        quern.refused("bench", "--peer", "triton", "--library", tmp_path, "--target", TARGET, INT4,
                      status=1, says=says)
    whole = '{"warps": 4, "shared": 0, "rows": 16, "columns": 64, "depth": 128}'
    (tmp_path / f"{name}.json").write_text(whole)
    quern.refused("bench", "--peer", "triton", "--library", tmp_path, "--target", TARGET, INT4,
                  status=1, says="ELF")


@pytest.mark.parametrize("problem, says", [
    ("wq=mxfp4 n=64 k=64 a=f16", "wq=nf4 and wq=fp4"),
    ("wq=nf4 n=64 k=64 a=f16 c=f32", "another type"),
])  # fmt: skip
def test_what_the_peer_cannot_do_is_refused(quern, library, problem, says):
    quern.refused("bench", "--peer", "bitsandbytes", "--library", library, "--target", TARGET,
                  problem, status=2, says=says)
