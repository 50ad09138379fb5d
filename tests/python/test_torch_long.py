# SPDX-License-Identifier: MIT
"""test_torch.py with torch and transformers that are fetched for it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FETCH_S, RUN_S = 3600, 1800


def test_with_torch_itself():
    done = subprocess.run(["sh", HERE.parents[1] / "tools/torch.sh"], capture_output=True,
                          text=True, timeout=FETCH_S)
    if done.returncode:
        pytest.skip(done.stderr.strip())
    path = os.pathsep.join(filter(None, [done.stdout.strip(), os.environ.get("PYTHONPATH")]))
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                          HERE / "test_torch.py"], env={**os.environ, "PYTHONPATH": path},
                         capture_output=True, text=True, timeout=RUN_S)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^\d+ passed", run.stdout.splitlines()[-1]), run.stdout
    assert "skipped" not in run.stdout.splitlines()[-1], run.stdout
