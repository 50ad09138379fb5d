#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/quant/bitsandbytes.bin: what bitsandbytes' own quantiser answers.

Run once, by hand, in a throw-away environment; the result is committed:

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy torch==2.15.0 bitsandbytes==0.50.2
    /tmp/golden/bin/python tests/peers/make_golden.py

The file is a list of records, little-endian, each a line of text and the bytes it announces:

    weights NAME COUNT            f32 [COUNT]
    quantised WQ GROUP COUNT      u8 [(COUNT+1)/2] codes, f32 [ceil(COUNT/GROUP)] absmax,
                                  f32 [COUNT] the dequantised weights
    nested COUNT                  u8 [COUNT] quantised absmax, f32 [256] their code,
                                  f32 [ceil(COUNT/256)] second absmax, f32 offset,
                                  f32 [COUNT] the absmax that they stand for

A `quantised` or `nested` record belongs to the last `weights` record before it; `nested` takes
those weights for absmax. It is made by the package's portable code: the one for CPUs looks up an
approximate table, and differs from it and from the GPU code next to decision bounds.
"""

import os
import pathlib

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # no compiler needed for a few kilobytes

import numpy as np
import torch
from bitsandbytes import functional
from bitsandbytes.backends.default import ops

OUT = pathlib.Path(__file__).parent.parent / "golden" / "quant" / "bitsandbytes.bin"
LEAST_DENORMAL = np.float32(1.4e-45)
rng = np.random.default_rng(20250101)


def f32(values):
    return np.asarray(values, dtype=np.float32)


def around(x):
    """x and its two neighbours."""
    x = np.float32(x)
    return [np.nextafter(x, np.float32(-4)), x, np.nextafter(x, np.float32(4))]


def ties(wq, absmax):
    """Blocks of 64 whose largest magnitude is `absmax`, full of weights that fall on the decision
    bounds of `wq`, or next to them."""
    bounds = ops._get_4bit_quantize_bounds(wq, torch.device("cpu"))[0].numpy()
    inverse = np.float32(1) / np.float32(absmax)
    found = []
    for bound in bounds:
        w = np.float32(bound / inverse)
        for _ in range(8):  # walk to the first weight that is scaled to the bound or beyond
            w = np.nextafter(w, np.float32(-9e9))
        for _ in range(16):
            if w * inverse >= bound:
                break
            w = np.nextafter(w, np.float32(9e9))
        found += around(w)
    block = f32(found[:63])
    return np.concatenate([block, f32([absmax] * (64 - len(block)))])


def special():
    """Blocks of 64: zeros, negative zeros, one denormal, all denormal, the largest floats, one
    weight alone, infinities, a NaN, magnitudes about the least absmax that is inverted, powers of
    two."""
    zeros = np.zeros(64, np.float32)

    def one(value, at=17):
        block = zeros.copy()
        block[at] = value
        return block

    largest = np.finfo(np.float32).max
    infinite = f32(rng.standard_normal(64))
    infinite[5], infinite[6] = np.inf, -np.inf
    nan = f32(rng.standard_normal(64))
    nan[63] = np.nan
    return np.concatenate([
        zeros,
        -zeros,
        one(LEAST_DENORMAL),
        one(-LEAST_DENORMAL),
        f32(rng.standard_normal(64) * 1e-40),
        f32(rng.standard_normal(64) * 1e-38),
        f32(rng.uniform(-1, 1, 64)) * largest,
        one(largest),
        one(-1.0, 0),
        infinite,
        nan,
        f32(np.linspace(0, 2e-38, 64)),
        f32(np.ldexp(1.0, -np.arange(64))) * np.where(np.arange(64) % 2, -1, 1).astype(np.float32),
    ])


def normal(count, dtype=torch.float32):
    return torch.from_numpy(f32(rng.standard_normal(count))).to(dtype).float().numpy()


def portable(name, *arguments):
    """The package's own portable implementation of an operator that it has a CPU one for."""
    operator = getattr(torch.ops.bitsandbytes, name).default
    return operator._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *arguments)


def main():
    records = []
    both = ("nf4", "fp4")

    def case(name, w, *plans):
        records.append((f"weights {name} {len(w)}\n".encode(), [w]))
        for wq, group in plans:
            tensor = torch.from_numpy(w)
            packed, state = functional.quantize_4bit(tensor, blocksize=group, quant_type=wq)
            weights = ops._dequantize_4bit_compute(
                packed.reshape(-1), state.absmax, state.code, group, tensor.shape, torch.float32)
            records.append((f"quantised {wq} {group} {len(w)}\n".encode(),
                            [packed.numpy(), state.absmax.numpy(), weights.numpy()]))

    case("normal", normal(1024), *[(q, g) for q in both for g in (32, 64, 128, 256, 512)])
    case("large-blocks", normal(8192), ("nf4", 4096), ("fp4", 4096), ("nf4", 2048), ("fp4", 1024))
    case("from-f16", normal(512, torch.float16), *[(q, 64) for q in both])
    case("from-bf16", normal(512, torch.bfloat16), *[(q, 64) for q in both])
    for q in both:
        case(f"ties-{q}", np.concatenate([ties(q, a) for a in (1.0, 0.75, 3.0, 0.0123, 1e20)]),
             (q, 64))
    case("special", special(), *[(q, g) for q in both for g in (32, 64)])
    case("skewed", f32(rng.standard_normal(512) ** 3 * np.exp(8 * rng.standard_normal(512))),
         *[(q, g) for q in both for g in (32, 128)])
    # a last block that is short, and a last byte that is half used
    case("short-block", normal(200), *[(q, 64) for q in both])
    case("short-block-of-zeros", np.concatenate([normal(64), np.zeros(6, np.float32)]),
         *[(q, 64) for q in both])
    case("odd", normal(71), *[(q, 64) for q in both])

    code = functional.create_dynamic_map()

    def nested(name, absmax):
        records.append((f"weights {name} {len(absmax)}\n".encode(), [absmax]))
        tensor = torch.from_numpy(absmax)
        offset = tensor.mean()
        absmax8, second = portable("quantize_blockwise", tensor - offset, code, 256)
        restored = portable("dequantize_blockwise", absmax8, second, code, 256, torch.float32)
        restored = restored + offset
        records.append((f"nested {len(absmax)}\n".encode(),
                        [absmax8.numpy(), code.numpy(), second.numpy(), f32([offset.item()]),
                         restored.numpy()]))

    nested("absmax", np.abs(normal(2048)))
    nested("absmax-narrow", f32(rng.uniform(0.9, 1.1, 1024)))
    nested("absmax-skewed", f32(np.exp(3 * rng.standard_normal(768))))
    nested("absmax-equal", f32([0.25] * 300))
    nested("absmax-few", f32(rng.uniform(0, 2, 5)))
    nested("absmax-short", f32(rng.uniform(0, 2, 700)))

    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("wb") as file:
        for line, arrays in records:
            file.write(line)
            for array in arrays:
                file.write(np.ascontiguousarray(array).tobytes())
    print(f"{OUT}: {len(records)} records, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
