# SPDX-License-Identifier: MIT
"""rocBLAS's hand-scheduled kernels (Tensile), which run on cards: products of small integers on the
software GPU in full checking must be right, and `quern lint` reads all of their code.

What the scan finds in them is no mistake on a way that is run, or is LLVM's table being wider than
what Tensile's authors keep to; docs/lint.md says which. The software GPU, which goes the ways that
are run, finds no register that is read too early.
"""

import json
import os
import pathlib
import secrets
import struct
import subprocess

import fetch_rocblas
import numpy as np
import pytest
import tensile

TOP = pathlib.Path(__file__).resolve().parents[2]
QUERN = pathlib.Path(os.environ.get("B", TOP / "build" / "release")) / "bin" / "quern"
TYPES = {  # in the library's name: of A and B in memory, of D
    "SS": (np.float32, np.float32), "BB_HPA": (None, None), "HH_HPA": (np.float16, np.float16),
    "I8I_HPA": (np.int8, np.int32)}
LAYOUTS = {"BB_HPA": "Ailk_Bljk", "HH_HPA": "Ailk_Bljk", "SS": "Ailk_Bljk",
           "I8I_HPA": "Ailk_Bjlk"}
# wait states that LLVM's table asks for, and that are there: docs/lint.md says of which rows
TOO_CLOSE = {(19, 18), (19, 17), (1, 0)}
TILE_MOST, DEPTH_MOST, EACH = 64 * 64, 32, 3


@pytest.fixture(scope="module")
def directory():
    try:
        return fetch_rocblas.fetch()
    except fetch_rocblas.Unavailable as reason:
        pytest.skip(str(reason))


def library(directory, kind, target, layout=None):
    return directory / (f"TensileLibrary_Type_{kind}_Contraction_l_{layout or LAYOUTS[kind]}"
                        f"_Cijk_Dijk_{target}.co")


def spread(gemms):
    """EACH of them, by a fixed stride; from elsewhere in each run of check-long, which sets
    EXPLORE. A failure names its kernel."""
    stride = max(1, len(gemms) // EACH)
    first = secrets.randbelow(stride) if "EXPLORE" in os.environ else 0
    return gemms[first::stride][:EACH]


def some(path, splits):
    """Kernels with small tiles that split k, or do not."""
    fit = []
    for kernel in tensile.kernels(path):
        gemm = tensile.Gemm(kernel)
        # Ic: strides of C have initial values, which are arguments that the metadata leaves out
        if ("Ic_" not in gemm.name and gemm.tile[0] * gemm.tile[1] <= TILE_MOST
                and gemm.depth <= DEPTH_MOST and (gemm.split > 1) == splits
                and gemm.arguments(lambda value: [0]) is not None):
            fit.append(gemm)
    return spread(fit)


def to_memory(values, kind):
    if kind == "BB_HPA":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(TYPES[kind][0])


def from_memory(data, kind):
    if kind == "BB_HPA":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, TYPES[kind][1])


def multiply(gemm, path, kind, target, work, turns=3):
    gemm.set_sizes(gemm.tile[0] + 8, gemm.tile[1], turns * gemm.depth * gemm.split + 8)
    random = np.random.default_rng(1)
    a = random.integers(-4, 5, (gemm.m, gemm.k))
    b = random.integers(-4, 5, (gemm.k, gemm.n))
    of_d = to_memory(np.zeros(1), kind).itemsize if kind != "I8I_HPA" else 4
    of_d = 4 if gemm.parts > 1 else of_d
    files = {"a": to_memory(a, kind).tobytes("F" if gemm.a_first else "C"),
             "b": to_memory(b, kind).tobytes("C" if gemm.b_first else "F"),
             "c": bytes(of_d * gemm.m * gemm.n), "d": bytes(of_d * gemm.m * gemm.n * gemm.parts)}
    code = "<i" if kind == "I8I_HPA" else "<f"
    one = lambda value: list(struct.unpack("<I", struct.pack(code, value)))
    plan = gemm.plan(path, target, one, {name: len(data) for name, data in files.items()})
    for name, data in files.items():
        (work / name).write_bytes(data)
    (work / "plan.json").write_text(json.dumps(plan), encoding="ascii")
    done = subprocess.run([QUERN, "sim", work / "plan.json", "--check=full",
                           *(f"{name}={work / name}" for name in files)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{gemm.name}: {done.stderr}"
    got = (work / "d").read_bytes()
    if gemm.parts > 1:
        got = np.frombuffer(got, np.float32).reshape((gemm.parts, -1)).sum(axis=0)
    else:
        got = from_memory(got, kind)
    got = got.reshape((gemm.m, gemm.n), order="F")
    # gfx11 adds even small integers inexactly, and sums of 8 bits of mantissa are rounded
    assert np.allclose(got.astype(float), a @ b, rtol=2**-7, atol=0.01), gemm.name


@pytest.mark.parametrize("target", ("gfx90a", "gfx1100"))
@pytest.mark.parametrize("kind", TYPES)
def test_products(directory, tmp_path, kind, target):
    path = library(directory, kind, target)
    gemms = some(path, False)
    assert len(gemms) == EACH
    for gemm in gemms:
        multiply(gemm, path, kind, target, tmp_path)


# by atomics on D, and in parts; other libraries have none that take plain pointers
@pytest.mark.parametrize("kind, target, layout", (
    ("SS", "gfx90a", "Ailk_Bljk"), ("SS", "gfx1100", "Ailk_Bljk"),
    ("BB_HPA", "gfx90a", "Ailk_Bjlk"), ("HH_HPA", "gfx90a", "Ailk_Bjlk")))
def test_split(directory, tmp_path, kind, target, layout):
    path = library(directory, kind, target, layout)
    gemms = some(path, True)
    assert gemms
    for gemm in gemms:
        multiply(gemm, path, kind, target, tmp_path)


@pytest.mark.parametrize("turns", (3, 4, 5, 6))
def test_operands_past_lds(directory, tmp_path, turns):
    """What the scan finds in these is on no way that is run: whichever half of the loop is the
    last, the code behind it reads what the other half has loaded."""
    path = library(directory, "SS", "gfx90a")
    gemms = [gemm for gemm in map(tensile.Gemm, tensile.kernels(path))
             if "_DTVA1_" in gemm.name and gemm.tile[0] * gemm.tile[1] <= TILE_MOST]
    assert len(gemms) >= EACH
    for gemm in spread(gemms):
        multiply(gemm, path, "SS", "gfx90a", tmp_path, turns)


def is_known(finding):
    """A register that a load owes, where docs/lint.md says why nothing comes of it."""
    return any(name in finding["kernel"] for name in ("_DTVA1_", "_PAP1_")) or (
        finding["what"] == "a register is overwritten that a load still owes"
        and finding["second_text"].startswith("buffer_load_short_d16_hi"))


@pytest.mark.parametrize("target", ("gfx90a", "gfx1100"))
@pytest.mark.parametrize("kind", TYPES)
def test_scan(directory, kind, target):
    done = subprocess.run([QUERN, "lint", "--json", library(directory, kind, target)],
                          capture_output=True, text=True, check=False)
    kernels = 0
    for entry in json.loads(done.stdout):
        kernels += entry["kernels"]
        for finding in entry["findings"]:
            assert finding["rule"] != "unread", finding
            if finding["rule"] == "not-waited-for":
                assert target == "gfx90a" and is_known(finding), finding
            if finding["rule"] == "too-close":
                assert target == "gfx90a", finding
                assert (finding["needed"], finding["found"]) in TOO_CLOSE, finding
    assert kernels > 5, done.stderr
