# SPDX-License-Identifier: MIT
"""Plain W4A16 kernels in Triton, compiled for a GPU that need not be there.

    w4a16.py --target gfx942 --type bf16 --group 128 --zero u8 [--moe] --out DIR

writes DIR/w4a16_gfx942_bf16_g128_u8.hsaco, and beside it a .json with what a launch needs. Weights
are those of layout k8: i32 [N,K/8], bits 4i hold k0+i; scales [N,K/group]; zeros u8 [N,K/group].
With --moe (moe_w4a16_…) each is a stack of experts', and rows, experts and rows_used are those of
op=moe with block_rows=16. They are what one writes first: unpack, subtract, convert, scale,
multiply by tiles. Wants triton in PYTHONPATH (fetch_triton.py, beside this file, sees to it).
"""

import argparse
import json
import pathlib

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ROWS, COLUMNS, DEPTH, WARPS = 16, 64, 128, 4
TYPES = {"f16": "fp16", "bf16": "bf16"}


@triton.jit
def tile(a, b, scales, zeros, rows, there, column, k, GROUP: tl.constexpr, ZEROS: tl.constexpr,
         BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, k, BK):
        depth = at + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :], mask=there[:, None], other=0)
        word = at // 8 + tl.arange(0, BK // 8)
        words = tl.load(b + column[None, :] * (k // 8) + word[:, None])
        shifts = tl.arange(0, 8) * 4
        q = tl.reshape(words[:, None, :] >> shifts[None, :, None] & 15, (BK, BN))
        group = column * (k // GROUP) + at // GROUP
        if ZEROS:
            q -= tl.load(zeros + group).to(tl.int32)[None, :]
        else:
            q -= 8
        w = q.to(x.dtype) * tl.load(scales + group)[None, :]
        total = tl.dot(x, w, total)
    return total


@triton.jit
def w4a16(a, b, scales, zeros, c, m, n, k, GROUP: tl.constexpr, ZEROS: tl.constexpr,
          BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tile(a, b, scales, zeros, rows, rows < m, tl.minimum(columns, n - 1), k, GROUP, ZEROS,
                 BM, BN, BK)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def moe_w4a16(a, b, scales, zeros, c, rows, experts, rows_used, choices, top_k, n, k,
              GROUP: tl.constexpr, ZEROS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
              BK: tl.constexpr):
    block = tl.program_id(1)
    if block * BM < tl.load(rows_used):
        expert = tl.load(experts + block).to(tl.int64)
        choice = tl.load(rows + block * BM + tl.arange(0, BM))
        columns = tl.program_id(0) * BN + tl.arange(0, BN)
        groups = expert * n * (k // GROUP)
        total = tile(a, b + expert * n * (k // 8), scales + groups, zeros + groups,
                     choice // top_k, choice < choices, tl.minimum(columns, n - 1), k, GROUP,
                     ZEROS, BM, BN, BK)
        inside = (choice[:, None] < choices) & (columns[None, :] < n)
        tl.store(c + choice[:, None].to(tl.int64) * n + columns[None, :],
                 total.to(c.dtype.element_ty), mask=inside)


def build(target, kind, group, zero, moe):
    """The compiled kernel and its tile's depth, which no group straddles."""
    depth = min(DEPTH, group)
    pointer = "*" + TYPES[kind]
    arguments = {"a": pointer, "b": "*i32", "scales": pointer, "zeros": "*u8", "c": pointer}
    if moe:
        arguments |= {"rows": "*i32", "experts": "*i32", "rows_used": "*i32", "choices": "i32",
                      "top_k": "i32"}
    else:
        arguments |= {"m": "i32"}
    arguments |= {"n": "i32", "k": "i32"}
    constants = {"GROUP": group, "ZEROS": zero == "u8", "BM": ROWS, "BN": COLUMNS, "BK": depth}
    # as Triton finds out of arguments at a launch: multiples of 16, but for numbers of rows
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(arguments)
               if name not in ("m", "choices", "top_k")}
    source = ASTSource(moe_w4a16 if moe else w4a16, constexprs=constants, attrs=aligned,
                       signature=arguments | dict.fromkeys(constants, "constexpr"))
    wave = 64 if target.startswith("gfx9") else 32
    return triton.compile(source, target=GPUTarget("hip", target, wave),
                          options={"num_warps": WARPS, "num_stages": 2}), depth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--type", choices=TYPES, required=True)
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--zero", choices=("none", "u8"), required=True)
    parser.add_argument("--moe", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    o = parser.parse_args()
    kernel, depth = build(o.target, o.type, o.group, o.zero, o.moe)
    path = o.out / f"{'moe_' * o.moe}w4a16_{o.target}_{o.type}_g{o.group}_{o.zero}"
    meta = {"warps": kernel.metadata.num_warps, "shared": kernel.metadata.shared, "rows": ROWS,
            "columns": COLUMNS, "depth": depth, "triton": triton.__version__}
    path.with_suffix(".json").write_text(json.dumps(meta) + "\n", encoding="ascii")
    part = path.with_suffix(".part")
    part.write_bytes(kernel.asm["hsaco"])
    part.replace(path.with_suffix(".hsaco"))


if __name__ == "__main__":
    main()
