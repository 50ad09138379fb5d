# SPDX-License-Identifier: MIT
"""Quantising, dequantising and repacking on the CPU; no GPU and no compiler is involved."""

from __future__ import annotations

import ctypes
from typing import Iterable, Mapping

import numpy as np

from . import _native as native
from .arrays import check_operand, type_name

LAYOUTS = ("bnb", "k8", "exl", "ck", "gptq", "awq", "tileN", "dense")
_DTYPES = {
    "u8": np.uint8, "i8": np.int8, "i32": np.int32, "u32": np.uint32, "f32": np.float32,
    "f16": np.float16, "bf16": np.uint16,
}


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def shaped(operand: native.Operand, data: bytes) -> np.ndarray:
    """Bytes of an operand as docs/formats.md describes it; bf16 and fp8 as their bits."""
    dtype = _DTYPES.get(operand.dtype.decode(), np.uint8)
    return np.frombuffer(bytearray(data), dtype).reshape(operand.shape[:operand.rank])


def quantize(problem: str, w: np.ndarray) -> dict[str, np.ndarray]:
    """Weights, [N, K], as the operands of a problem: `b`, `scales` and what else it has; of op=moe
    [E, N, K], expert by expert. A NaN or an infinity is refused, as it would spoil every weight
    that shares its scale."""
    p = native.parse(problem)
    w = np.asarray(w)
    shape, words = (p.n, p.k), "the problem's n and k"
    if p.op == native.MOE:
        shape, words = (p.experts, p.n, p.k), "the problem's experts, n and k"
    if w.shape != shape:
        raise ValueError(f"w has the shape {w.shape}; expected {shape}, {words}")
    if p.op == native.MOE:
        return stacked(problem, w)
    return _quantize(p, "w", w)


def stacked(problem: str, experts: Iterable[np.ndarray]) -> dict[str, np.ndarray]:
    """The operands of an op=moe of its experts' weights, each [N, K] and quantised for itself. An
    expert's are let go before the next are taken, so that not all need be there as floats."""
    p = native.parse(problem)
    one, known = native.of_expert(p), native.operands_of(p, 1)
    stacks: dict[str, np.ndarray] = {}
    for e, w in enumerate(experts):
        for name, array in _quantize(one, f"expert {e} of w", w).items():
            if array.nbytes == known[name].bytes:  # all experts share it, as `code`
                stacks[name] = array.reshape(known[name].shape[:known[name].rank])
                continue
            if name not in stacks:
                stacks[name] = np.empty(known[name].shape[:known[name].rank], array.dtype)
            stacks[name].reshape(p.experts, -1)[e] = array.reshape(-1)
    return stacks


def _quantize(p: native.Problem, what: str, w: np.ndarray) -> dict[str, np.ndarray]:
    """`quantize` of one matrix; `what` is its name in messages."""
    w = np.ascontiguousarray(w, np.float32)
    if p.wq != native.WQ_NONE and not (finite := np.isfinite(w)).all():
        n, k = np.argwhere(~finite)[0]
        raise ValueError(f"{what} has {finite.size - finite.sum()} values that are not finite, the "
                         f"first of them {w[n, k]} at [{n}, {k}]; expected numbers")
    operands = (native.Quantized * native.OPERANDS_MAX)()
    count = ctypes.c_size_t()
    native.call("quern_quantize", ctypes.byref(p), _address(w), operands, ctypes.byref(count))
    try:
        known = native.operands_of(p, 1)
        return {o.name.decode(): shaped(known[o.name.decode()], ctypes.string_at(o.data, o.bytes))
                for o in operands[:count.value]}
    finally:
        native.library.quern_quantized_free(operands, count)


def dequantize(problem: str, operands: Mapping[str, np.ndarray]) -> np.ndarray:
    """The exact values of quantised weights, float32 [N, K]; of op=moe [E, N, K]."""
    p = native.parse(problem)
    known = native.operands_of(p, 1)
    arrays = {name: np.ascontiguousarray(array) for name, array in operands.items()}
    for name, array in arrays.items():
        if name not in known:
            raise ValueError(f"{name!r} is no operand; the weights of {native.text_of(p)} are "
                             f"{', '.join(n for n, o in known.items() if o.weights)}")
        if array.nbytes != known[name].bytes:
            raise ValueError(f"{name} has {array.nbytes} bytes; expected {known[name].bytes}")
        check_operand(name, type_name(array.dtype), array.shape, known[name])
    if p.op != native.MOE:
        return _dequantize(p, arrays)
    one = native.of_expert(p)
    shared = {name for name, o in native.operands_of(one, 1).items()
              if name in known and o.bytes == known[name].bytes}
    return np.stack([
        _dequantize(one, {name: array if name in shared else array.reshape(p.experts, -1)[e]
                          for name, array in arrays.items()}) for e in range(p.experts)])


def _dequantize(p: native.Problem, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    items = (native.Quantized * len(arrays))(*(
        native.Quantized(name.encode(), array.ctypes.data, array.nbytes)
        for name, array in arrays.items()))
    w = np.empty((p.n, p.k), np.float32)
    native.call("quern_dequantize", ctypes.byref(p), items, len(arrays), _address(w))
    return w


def repack(problem: str, layout: str, b: np.ndarray) -> np.ndarray:
    """Packed int4 weights of a problem in another layout: k8, exl, ck, gptq or awq."""
    p = native.parse(problem)
    b = np.ascontiguousarray(b)
    if b.nbytes != p.n * p.k // 2:
        raise ValueError(f"b has {b.nbytes} bytes; expected {p.n * p.k // 2}, four bits a weight")
    out = np.empty_like(b).reshape(-1)
    native.call("quern_repack", ctypes.byref(p), native.choose("layout", LAYOUTS, layout),
                _address(b), _address(out))
    return out
