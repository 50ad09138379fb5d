# SPDX-License-Identifier: MIT
"""`quern lint` of code that runs on cards: every kernel of bitsandbytes' six ROCm libraries.

What it finds there is true, and docs/lint.md says why nothing comes of it or who knew less: LDS
that waves without lanes do not wait for, in kernels that write and read their own; and, of gfx12 in
libraries before ROCm 7.2, scalar registers that compilers of then did not know to wait for. Kernels
with an instruction that the disassembler cannot read are judged by nobody: what surrounds it is not
known.
"""

import json
import os
import pathlib
import subprocess

import fetch_wheel
import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("B", TOP / "build" / "release"))
LIBRARIES = ("64", "70", "71", "714", "715", "72")
OWN_LDS = ("kQuantizeBlockwise", "kDequantizeBlockwise", "kOptimizerStatic8bit")
BARRIER = "LDS is written and not waited for at a barrier"
STALE = "a scalar register is read that a vector instruction read before it was written anew"


@pytest.fixture(scope="module")
def directory():
    try:
        return pathlib.Path(fetch_wheel.fetch())
    except fetch_wheel.Unavailable as reason:
        pytest.skip(str(reason))


def allowed(finding, target, release):
    if finding["what"] == BARRIER:
        return any(name in finding["kernel"] for name in OWN_LDS)
    return finding["what"] == STALE and target.startswith("gfx12") and release in LIBRARIES[:3]


@pytest.mark.parametrize("release", LIBRARIES)
def test_code_that_runs_on_cards(directory, release):
    library = directory / f"libbitsandbytes_rocm{release}.so"
    done = subprocess.run([BUILD / "bin" / "quern", "lint", "--json", library],
                          capture_output=True, text=True, check=False)
    objects = json.loads(done.stdout)
    kernels = sum(entry["kernels"] for entry in objects)
    assert kernels > 2000, done.stderr
    for entry in objects:
        unread = {f["kernel"] for f in entry["findings"] if f["rule"] == "unread"}
        for finding in entry["findings"]:
            known = allowed(finding, entry["target"], release)
            assert finding["kernel"] in unread or known, finding
