# SPDX-License-Identifier: MIT
"""Raw operand files and the arithmetic to check them, in plain Python.

Written from the format's description, not from the library: a second opinion."""

import array
import random
import struct

# The 4-bit codes' values at absmax 1, as published with the NF4 format (QLoRA, appendix E) and by
# bitsandbytes for FP4 (a sign, two exponent bits and one of mantissa, over 12).
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
]  # fmt: skip


# Codes 8 to 15 are the negatives of 0 to 7.
FP4_MAGNITUDES = [0.0, 0.0625 / 12, 8 / 12, 12 / 12, 4 / 12, 6 / 12, 2 / 12, 3 / 12]
FP4 = FP4_MAGNITUDES + [-x for x in FP4_MAGNITUDES]
E2M1_MAGNITUDES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 = E2M1_MAGNITUDES + [-x for x in E2M1_MAGNITUDES]
# The weight format's table, and half the widest gap between its values. MXFP4's scale is a power of
# two, so that the largest weight of a block may lie up to a quarter beyond the largest value, 6.
TABLES = {"nf4": (NF4, 0.1520), "fp4": (FP4, 2 / 12 + 1e-6), "mxfp4": (E2M1, 2.0)}


def bf16_bits(x):
    """Round to nearest even; no NaN here."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def pack(dtype, values):
    if dtype == "f32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    assert dtype == "bf16"
    return struct.pack(f"<{len(values)}H", *map(bf16_bits, values))


def unpack(dtype, data):
    if dtype == "f32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    if dtype == "f16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    assert dtype == "bf16"
    halves = struct.unpack(f"<{len(data) // 2}H", data)
    return list(struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I",
                                                              *(h << 16 for h in halves))))


def normal(count, seed):
    rng = random.Random(seed)
    return [rng.gauss(0, 1) for _ in range(count)]


def weights(n, k, seed):
    """f32 [N,K], as bytes and as the values they stand for."""
    data = array.array("f", (x * k**-0.5 for x in normal(n * k, seed))).tobytes()
    return data, unpack("f32", data)


def read_scales(wq, read):
    """The scale of each block; `read` gives the bytes of the operand of a name."""
    scales = read("scales")
    if wq == "mxfp4":
        return [2.0 ** (s - 127) for s in scales]
    scales = unpack("f32", scales)
    absmax8 = read("absmax8")
    if absmax8 is None:
        return scales
    code = unpack("f32", read("code"))
    (offset,) = unpack("f32", read("offset"))
    return [code[q] * scales[i // 256] + offset for i, q in enumerate(absmax8)]


def dequantise(wq, b, scales, group):
    """Two codes a byte, bitsandbytes' high nibble first; one scale for each `group` weights."""
    table = TABLES[wq][0]
    codes = [code for byte in b for code in (byte >> 4, byte & 15)]
    if wq == "mxfp4":
        codes = [code for byte in b for code in (byte & 15, byte >> 4)]
    return [table[code] * scales[i // group] for i, code in enumerate(codes)]


def linear(a, w, bias, m, n, k):
    """A . W^T + bias in double precision."""
    y = []
    for i in range(m):
        row = a[i * k : (i + 1) * k]
        for j in range(n):
            y.append(sum(p * q for p, q in zip(row, w[j * k : (j + 1) * k])) + bias[j])
    return y


def relative_error(y, reference):
    """max |y - ref| / max |ref|; infinite when y has a NaN."""
    worst = max(abs(p - q) if p == p else float("inf") for p, q in zip(y, reference))
    return worst / max(map(abs, reference))
