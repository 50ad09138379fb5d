# SPDX-License-Identifier: MIT
"""quern bench --peer triton: a plain kernel in Triton, compiled by the PyPI package (285 MB)."""

import subprocess
import sys

import pytest
from conftest import TOP


def compiled(target, kind, group, zero, *more):
    words = ["--target", target, "--type", kind, "--group", str(group), "--zero", zero, *more]
    done = subprocess.run([sys.executable, TOP / "tests/peers/fetch_triton.py", *words],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"triton: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


@pytest.mark.parametrize("target, kind, group, zero, runs", [
    ("gfx942", "bf16", 128, "u8", True),
    ("gfx942", "f16", 32, "none", True),
    ("gfx90a", "f16", 128, "u8", True),
    ("gfx950", "bf16", 128, "u8", True),
    ("gfx1100", "f16", 128, "u8", True),
    ("gfx1151", "bf16", 128, "u8", False),  # 16-bit registers that comgr 6.4 does not know
    ("gfx1201", "f16", 64, "none", False),
])  # fmt: skip
def test_both_are_counted(warm, target, kind, group, zero, runs):
    library = compiled(target, kind, group, zero)
    words = f"wq=int4 n=1024 k=1024 a={kind} group={group} zero={zero}"
    report = warm.json("bench", "--peer", "triton", "--library", library, "--target", target,
                       "--m", "1,16", words)
    assert (report["peer"], report["target"]) == ("Triton 3.9.0", target)
    for run in report["runs"]:
        ours, peer = run["ours"], run["peer"]
        assert ours["max_error"] <= 5e-3
        assert 8 < peer["slots_per_weight"] < 30
        if runs:
            assert peer["max_error"] <= 5e-3
        else:
            assert peer["counted_in_disassembly"]
        # it takes as much for one row as for sixteen
        if run["m"] == 1:
            assert ours["slots_per_weight"] < peer["slots_per_weight"]


@pytest.mark.parametrize("target, kind, zero, experts, choices", [
    ("gfx942", "bf16", "none", 8, 8),
    ("gfx1100", "f16", "u8", 16, 2),
    ("gfx90a", "bf16", "u8", 4, 1),
])  # fmt: skip
def test_mixtures_are_counted(warm, target, kind, zero, experts, choices):
    """Both are right for the same choices, each in blocks of its own size."""
    library = compiled(target, kind, 128, zero, "--moe")
    words = (f"op=moe wq=int4 n=256 k=512 a={kind} zero={zero} "
             f"experts={experts} top_k={choices}")
    report = warm.json("bench", "--peer", "triton", "--library", library, "--target", target,
                       "--m", "1,5,16", words)
    assert [run["m"] for run in report["runs"]] == [1, 5, 16]
    for run in report["runs"]:
        assert run["ours"]["max_error"] <= 5e-3
        assert run["peer"]["max_error"] <= 5e-3
        assert run["ours"]["slots_per_weight"] < run["peer"]["slots_per_weight"]
