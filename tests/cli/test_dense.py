# SPDX-License-Identifier: MIT
"""Weights in layout dense: quantize → build → sim and run, against plain Python with an idea of
eight-bit floats of its own."""

import json
import struct

import operands
import pytest
from conftest import cases

N, K = 40, 136
TOLERANCE = {"f32": 1e-5, "f16": 2**-10, "bf16": 2**-7}


def e4m3(code, fnuz):
    """A sign, four bits of exponent, three of mantissa; no NaN here."""
    exponent, mantissa = code >> 3 & 15, code & 7
    bias = 8 if fnuz else 7
    value = (1 + mantissa / 8 if exponent else mantissa / 8) * 2.0 ** (max(exponent, 1) - bias)
    return -value if code & 128 else value


def values(dtype, data):
    if dtype.startswith("fp8"):
        return [e4m3(code, dtype == "fp8fnuz") for code in data]
    return operands.unpack(dtype, data)


def read_scale(path):
    return struct.unpack("<f", path.read_bytes())[0]


@pytest.mark.parametrize(
    "target, wq, a, c, m",
    cases([("gfx1151", "none", "f16", "f16", 2), ("gfx942", "none", "bf16", "f32", 11),
           ("gfx1201", "fp8", "fp8", "bf16", 3), ("gfx942", "fp8", "fp8", "f32", 1),
           ("gfx942", "fp8fnuz", "fp8fnuz", "f16", 9), ("gfx1100", "fp8", "bf16", "f32", 2)],
          [("gfx1201", "fp8", "fp8", "bf16", 3)]),
)  # fmt: skip
def test_a_layer(warm, tmp_path, target, wq, a, c, m):
    problem = f"wq={wq} n={N} k={K} a={a} c={c} bias=1"
    path = lambda name: tmp_path / name
    w_bytes, w = operands.weights(N, K, seed=1)
    path("w").write_bytes(w_bytes)
    made = warm.json("quantize", problem, f"w={path('w')}", "--out", tmp_path)
    assert [o["name"] for o in made["operands"]] == ["b"] + ["b_scale"] * (wq != "none")
    a_bytes = operands.pack("f32", operands.normal(m * K, seed=2))
    if a.startswith("fp8"):  # any codes but the largest, the smallest, and so the NaNs
        a_bytes = bytes(x if x & 0x70 not in (0, 0x70) else x ^ 0x40 for x in a_bytes[: m * K])
    else:
        a_bytes = operands.pack(a, operands.unpack("f32", a_bytes))
    path("a").write_bytes(a_bytes)
    path("a_scale").write_bytes(struct.pack("<f", 0.75))
    path("bias").write_bytes(operands.pack(c, operands.normal(N, seed=3)))

    scale = 1.0 if wq == "none" else read_scale(path("b_scale"))
    stored = [x * scale for x in values(wq if wq != "none" else a, path("b").read_bytes())]
    gap = {"none": 2**-8, "fp8": 2**-4, "fp8fnuz": 2**-4}[wq]
    assert all(abs(x - y) <= gap * abs(x) + 1e-4 for x, y in zip(w, stored))
    inputs = [x * (0.75 if a == wq else 1.0) for x in values(a, a_bytes)]
    bias = operands.unpack(c, path("bias").read_bytes())
    reference = operands.linear(inputs, stored, bias, m, N, K)

    warm("build", "--target", target, "--m", m, "--out", tmp_path / "plan", problem)
    plan = json.loads((tmp_path / "plan/plan.json").read_text())
    names = [o["name"] for o in plan["operands"]]
    expected = {"a", "b", "bias", "c"} | ({"b_scale"} if wq != "none" else set())
    assert set(names) == expected | ({"a_scale"} if a == wq else set())
    files = [f"{name}={path(name)}" for name in names]
    # run's arithmetic: that of the silicon's adders has other last bits
    warm("sim", tmp_path / "plan/plan.json", *files, "--arithmetic=fast")
    simulated = path("c").read_bytes()
    assert operands.relative_error(operands.unpack(c, simulated), reference) <= TOLERANCE[c]
    path("c").unlink()
    warm("run", "--target", target, "--m", m, problem, *files)
    assert path("c").read_bytes() == simulated
