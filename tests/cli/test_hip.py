# SPDX-License-Identifier: MIT
"""The command on a GPU: a HIP runtime of software GPUs on the loader's path."""

import os
import subprocess
import sys

import pytest

from conftest import COMMAND, TOP

FAKEHIP = COMMAND.parents[1] / "lib" / "fakehip"
GPU = {"LD_LIBRARY_PATH": str(FAKEHIP), "FAKEHIP_DEVICES": "gfx1151,gfx1036"}
LAYER = "wq=nf4 n=64 k=256 a=bf16"

pytestmark = pytest.mark.skipif(not FAKEHIP.is_dir(), reason="no HIP headers to make fakehip from")


def test_doctor_lists_candidates_and_devices(quern):
    done = quern("doctor", status=1, env=GPU)
    lines = done.stdout.splitlines()
    assert any("HIP runtime: libamdhip64.so.7" in x and "cannot open" in x for x in lines)
    assert any(f"HIP runtime: {FAKEHIP}/libamdhip64.so.6: used" in x for x in lines), lines
    assert any(x.startswith("ok ") and "device: 0: fakehip gfx1151, gfx1151, 40 compute units"
               in x for x in lines), lines
    assert any(x.startswith("problem") and "nearest known one is gfx103" in x for x in lines)


def test_a_named_directory_comes_before_the_loader_path(quern, tmp_path):
    (tmp_path / "lib").symlink_to(FAKEHIP)
    env = {"ROCM_PATH": str(tmp_path), "FAKEHIP_DEVICES": "gfx1100"}
    texts = [f["text"] for f in quern.json("doctor", env=env)]
    assert any(t.endswith("libamdhip64.so.6: used") for t in texts), texts
    assert any("gfx1100" in t and "96 compute units" in t for t in texts), texts


def test_time(quern):
    words = ("time", "--device", "hip", "--rotate")
    report = quern.json(*words, "100K", "--m", "1,9", LAYER, env=GPU)
    assert report["device"] == "fakehip gfx1151" and report["target"] == "gfx1151"
    assert [r["m"] for r in report["results"]] == [1, 9]
    for r in report["results"]:
        assert 0 < r["least_microseconds"] <= r["microseconds"]
        assert r["weight_copies"] > 100 * 1024 // (64 * 256)
    text = quern(*words, "1K", "--m", "1", LAYER, env=GPU).stdout
    assert "fakehip gfx1151" in text and "GB/s" in text


def test_time_needs_a_gpu(quern):
    quern.refused("time", "--device", "sim", "--target", "gfx1151", LAYER, status=2,
                  says=["software GPU", "quern explain"])
    quern.refused("time", "--device", "hip", LAYER, status=1, env={**GPU, "FAKEHIP_DEVICES": ","},
                  says="hipGetDeviceCount failed: hipErrorNoDevice")


def test_hardware_check(tmp_path):
    """The software GPU stands for the hardware: all answers are the same, and a report is left."""
    if "release" not in COMMAND.parts:
        pytest.skip("the way through the command is the same")
    report = tmp_path / "report.txt"
    check = [sys.executable, TOP / "tests/check_hw.py", "--command", COMMAND, "--report", report]
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_")}
    env.update(GPU, FAKEHIP_DEVICES="gfx1151")
    done = subprocess.run([*check, "--no-times", "--rows", "9", LAYER], env=env,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    text = report.read_text()
    assert text.endswith(f"ok  {LAYER}  m=9\n0 failed\n")
    assert "fakehip gfx1151" in text
    env["FAKEHIP_DEVICES"] = ","
    done = subprocess.run(check, env=env, capture_output=True, text=True)
    assert done.returncode == 77, done.stdout + done.stderr
