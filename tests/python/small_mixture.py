# SPDX-License-Identifier: MIT
"""A small layer of a mixture of experts: its weights, what a router gives, and what is right."""

import sys

import numpy as np

E, T, I, K = 4, 2, 64, 128  # experts, choices of a token, intermediate, hidden


def stacks(seed=1):
    """gate_up and down of a layer."""
    random = np.random.default_rng(seed)
    return (random.normal(0, 0.1, (E, 2 * I, K)).astype(np.float32),
            random.normal(0, 0.1, (E, K, I)).astype(np.float32))


def choices(m, seed=2):
    """What a router gives: different experts for each token, and weights."""
    random = np.random.default_rng(seed)
    ids = np.stack([random.permutation(E)[:T] for _ in range(m)]).astype(np.int64)
    return ids, random.uniform(0.1, 1, (m, T)).astype(np.float32)


def weights_of(quern, moe):
    """The exact weights of a layer, and its biases."""
    found = []
    for name, product in (("gate_up", moe.gate_up), ("down", moe.down)):
        arrays = {key.partition(".")[2]: array for key, array in moe.arrays().items()
                  if key.startswith(name)}
        bias = arrays.pop("bias", np.zeros((E, product.op.n), np.float32))
        if bias.dtype == np.uint16:
            bias = (bias.astype(np.uint32) << 16).view(np.float32)
        found += [quern.dequantize(product.op.problem, arrays).astype(np.float64),
                  bias.astype(np.float64)]
    return found


def reference(exact, x, ids, weights, act="silu_mul", glu="halves"):
    """The layer in double precision, token by token."""
    gate_up, gate_up_bias, down, down_bias = exact
    y = np.zeros((len(x), down.shape[1]))
    for t, j in np.ndindex(*ids.shape):
        e = ids[t, j]
        if not 0 <= e < len(down):
            continue
        h = gate_up[e] @ x[t] + gate_up_bias[e]
        g, u = np.split(h, 2) if glu == "halves" else (h[::2], h[1::2])
        if act == "silu_mul":
            h = g / (1 + np.exp(-g)) * u
        else:
            g = np.minimum(g, 7)
            h = g / (1 + np.exp(-1.702 * g)) * (np.clip(u, -7, 7) + 1)
        y[t] += weights[t, j] * (down[e] @ h + down_bias[e])
    return y


def counted(monkeypatch):
    """The names of the library's functions as they are called from now on."""
    called, native = [], sys.modules["quern._native"]
    call = native.call
    monkeypatch.setattr(native, "call", lambda name, *more: called.append(name) or
                        call(name, *more))
    return called
