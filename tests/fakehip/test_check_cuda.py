# SPDX-License-Identifier: MIT
"""tests/hw/check_cuda on fakecuda: it goes through to its end. That it is content is for a GPU:
fakecuda runs no kernel that is in no cache, so results are wrong here, and said to be."""

import os
import subprocess

import cuda_host
import pytest

PROGRAM = cuda_host.FAKECUDA.parents[2] / "tests/hw/check_cuda"


def test_it_goes_through(tmp_path):
    if not PROGRAM.exists():
        pytest.skip("built where nothing is sanitized")
    cuda_host.skip_without_nvrtc()
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_") or "PATH" in k}
    env.update(QUERN_CACHE_DIR=str(tmp_path), FAKECUDA_DEVICES="sm_90",
               LD_LIBRARY_PATH=str(cuda_host.FAKECUDA.parent))
    done = subprocess.run([PROGRAM], env=env, text=True, capture_output=True, timeout=1800)
    lines = done.stdout.splitlines()
    for what in ("compile", "memory", "load"):
        assert f"ok       {what}: done" in lines, done.stdout + done.stderr
    assert "dynamic LDS" in lines[-1], done.stdout + done.stderr  # the last thing before a fault
    assert done.returncode == 1  # there are problems, and no signal ended it
