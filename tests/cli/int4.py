# SPDX-License-Identifier: MIT
"""int4 by the words of docs/formats.md, code by code: a second opinion on layouts and checkpoints.

Codes are lists of rows: q[n][k], 0 to 15.
"""

import random
import struct

SHUFFLED = (0, 2, 4, 6, 1, 3, 5, 7)


def codes(n, k, seed):
    rng = random.Random(seed)
    return [[rng.randrange(16) for _ in range(k)] for _ in range(n)]


def word(eight):
    """Bits 4i … 4i+3 are eight[i]."""
    return sum(code << 4 * i for i, code in enumerate(eight))


def words(values):
    return struct.pack(f"<{len(values)}I", *values)


def pack(q, layout):
    n, k = len(q), len(q[0])
    row = lambda r, k0, order: word(q[r][k0 + o] for o in order)
    if layout == "k8":
        return words([row(r, k0, range(8)) for r in range(n) for k0 in range(0, k, 8)])
    if layout == "exl":
        return words([row(r, k0, SHUFFLED) for r in range(n) for k0 in range(0, k, 8)])
    if layout == "ck":
        return words([row(r, k0 + 8 * j, SHUFFLED)
                      for k0 in range(0, k, 32) for r in range(n) for j in range(4)])
    if layout == "gptq":
        return words([row(r, k0, range(8)) for k0 in range(0, k, 8) for r in range(n)])
    assert layout == "awq"
    return words([word(q[n0 + o][c] for o in SHUFFLED) for c in range(k) for n0 in range(0, n, 8)])


def qzeros(zeros, kind):
    """zeros[g][n] as a checkpoint packs them."""
    order = SHUFFLED if kind == "awq" else range(8)
    less = 1 if kind == "gptq" else 0
    return words([word(row[n0 + o] - less for o in order)
                  for row in zeros for n0 in range(0, len(row), 8)])


def transposed(rows):
    return [list(column) for column in zip(*rows)]


def dequantised(q, scales, zeros, group):
    """(q - z)·s; scales[n][g], zeros[n][g] or 8. Flat, [N,K]."""
    return [(code - (zeros[n][k // group] if zeros else 8)) * scales[n][k // group]
            for n, row in enumerate(q) for k, code in enumerate(row)]
