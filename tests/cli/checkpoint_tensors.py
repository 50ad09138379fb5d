# SPDX-License-Identifier: MIT
"""Tensors of one layer [N, K] as each kind of checkpoint has them, for safetensors.write."""

import json
import random
import struct

N, K = 64, 256


def words(value, count):
    return struct.pack("<I", value) * count


def gptq(layer, zeros=0x77777777, groups=2, scales="F16", g_idx=None, **parts):
    tensors = {
        f"{layer}.qweight": ("I32", [K // 8, N]),
        f"{layer}.qzeros": ("I32", [groups, N // 8], words(zeros, groups * N // 8)),
        f"{layer}.scales": (scales, [groups, N]),
        f"{layer}.g_idx": ("I32", [K],
                           struct.pack(f"<{K}i", *(g_idx or [k * groups // K for k in range(K)]))),
    }
    return {**tensors, **{f"{layer}.{name}": value for name, value in parts.items()}}


def awq(layer):
    return {f"{layer}.qweight": ("I32", [K, N // 8]),
            f"{layer}.qzeros": ("I32", [8, N // 8], words(0x12345678, N)),
            f"{layer}.scales": ("F16", [8, N])}


def compressed(layer, zero=False):
    tensors = {f"{layer}.weight_packed": ("I32", [N, K // 8]),
               f"{layer}.weight_scale": ("BF16", [N, 4]),
               f"{layer}.weight_shape": ("I64", [2], struct.pack("<2q", N, K))}
    if zero:
        tensors[f"{layer}.weight_zero_point"] = ("I32", [N // 8, 4])
    return tensors


def bnb(layer, wq="nf4", nested=False, block=256, offset=0.1):
    state = {"quant_type": wq, "blocksize": 64, "dtype": "bfloat16", "shape": [N, K]}
    if nested:
        state |= {"nested_blocksize": block, "nested_dtype": "float32", "nested_offset": offset}
    text = json.dumps(state).encode()
    blocks = N * K // 64
    tensors = {f"{layer}.weight": ("U8", [N * K // 2, 1]),
               f"{layer}.weight.absmax": ("U8" if nested else "F32", [blocks]),
               f"{layer}.weight.quant_map": ("F32", [16]),
               f"{layer}.weight.quant_state.bitsandbytes__{wq}": ("U8", [len(text)], text)}
    if nested:
        tensors |= {f"{layer}.weight.nested_absmax": ("F32", [1]),
                    f"{layer}.weight.nested_quant_map": ("F32", [256])}
    return tensors


def fp8(layer, dtype="F8_E4M3", scale="F32", shape=(), static=False):
    tensors = {f"{layer}.weight": (dtype, [N, K]), f"{layer}.weight_scale": (scale, list(shape))}
    return {**tensors, f"{layer}.input_scale": ("F32", [1])} if static else tensors


SHUFFLED = [k * 2 // K for k in range(K)]
random.Random(1).shuffle(SHUFFLED)
