# SPDX-License-Identifier: MIT
"""The package as `make wheel` makes it and pip installs it, contexts of it, and layers to try."""

import ctypes
import importlib
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = (TOP / os.environ.get("B", "build/release")).resolve()
FAKEHIP = BUILD / "lib" / "fakehip" / "libamdhip64.so.6"
INSTALL = ["sh", TOP / "tools/pip.sh", "install", "--quiet", "--no-index", "--no-deps", "--target"]

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="session")
def wheel():
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(["make", "--no-print-directory", "wheel"], cwd=TOP, env=env,
                          capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return TOP / done.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def site(wheel, tmp_path_factory):
    """A directory with the installed package."""
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run([*INSTALL, directory, wheel], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="session")
def quern(site, tmp_path_factory):
    for name in [n for n in os.environ if n.startswith("QUERN_") and n != "QUERN_ROCM_PATH"]:
        del os.environ[name]
    os.environ["QUERN_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    # the rootless toolchain is found beside a build tree only; an installed quern is told
    if (TOP / "build/rocm").is_dir():
        os.environ.setdefault("QUERN_ROCM_PATH", str(TOP / "build/rocm"))
    os.environ["FAKEHIP_DEVICES"] = "gfx1151,gfx1036,gfx1151"
    sys.path.insert(0, str(site))
    return importlib.import_module("quern")


@pytest.fixture(scope="session")
def sim(quern):
    with quern.Context(target="gfx1151") as ctx:
        yield ctx


@pytest.fixture(scope="session")
def hip(quern):
    if not FAKEHIP.exists():
        pytest.skip("no HIP headers to make fakehip from")
    return ctypes.CDLL(str(FAKEHIP))


@pytest.fixture(scope="session")
def gpu(quern, hip):
    with quern.Context(device="hip") as ctx:
        yield ctx


@pytest.fixture(params=["sim", "gpu"])
def ctx(request):
    return request.getfixturevalue(request.param)


def weights(n, k, seed=1):
    return np.random.default_rng(seed).normal(0, 0.05, (n, k)).astype(np.float32)


def rows(m, k):
    return np.random.default_rng(m).normal(0, 1, (m, k)).astype(np.float32)


def close(y, reference, tolerance=5e-3):
    return np.abs(y - reference).max() <= tolerance * np.abs(reference).max()


def linear4bit(operands, n, k, wrap, **words):
    """What a bitsandbytes Linear4bit shows of itself."""
    nested = "absmax8" in operands
    at = {name: wrap(name, array) for name, array in operands.items()}
    state = types.SimpleNamespace(
        shape=(n, k), blocksize=64, quant_type="nf4", nested=nested, dtype="torch.bfloat16",
        absmax=at["absmax8" if nested else "scales"], offset=at.get("offset"),
        state2=types.SimpleNamespace(absmax=at["scales"], code=at.get("code"), blocksize=256))
    weight = at["b"]
    if isinstance(weight, np.ndarray):  # which takes no attributes, unlike a Parameter
        class Params(np.ndarray):
            pass
        weight = weight.reshape(-1, 1).view(Params)
    weight.quant_state = state
    return types.SimpleNamespace(weight=weight, bias=at.get("bias"), **words)
