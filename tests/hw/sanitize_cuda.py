#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every family of kernels for NVIDIA under NVIDIA's own checkers, on the GPU of this machine.

    sanitize_cuda.py [TOOL…]    compute-sanitizer's memcheck, initcheck, synccheck and racecheck, or
                                those named, each over all layers of `cases`, in one process apiece
    sanitize_cuda.py cases      the layers alone, without a checker

The process that is checked has numpy and no torch, so that quern's are the only kernels in it. Each
layer is small, has rows that no tile divides, and a K of some turns of a ring; its result is held
to a product in double precision too. Prints a line a layer, and of each tool what it found. Exit
status 1: a result is wrong or a tool found something; 77: no GPU or no compute-sanitizer here.

racecheck does not see that what a warp's lanes stored before __syncwarp is released by the one lane
that then arrives at an mbarrier, and reports each such hand-over. Of a library built with
every_lane_arrives.patch, in whose kernels each lane arrives itself, it reports what else there is:
git apply it, build, run, and take it back.
"""
import collections
import ctypes
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = TOP / "build/release/lib/libquern.so"
TOOLS = ("memcheck", "initcheck", "synccheck", "racecheck")
# Words of a problem, and rows: each family, each way of decoding, each kind of scale. N is no
# multiple of a tile's.
LAYERS = [
    ("wq=nf4 a=bf16", (1, 5, 16, 24, 32, 64)), ("wq=nf4 a=f16", (1, 16, 64)),
    ("wq=nf4 a=f32", (1, 4)), ("wq=nf4 a=bf16 scale=nested bias=1", (1, 16, 64)),
    ("wq=fp4 a=bf16 group=128", (1, 16, 32)), ("wq=mxfp4 a=bf16", (1, 16, 32, 64)),
    ("wq=int4 a=bf16", (1, 16, 32, 64)), ("wq=int4 a=f16 zero=u8 scale=f16", (1, 16, 64)),
    ("wq=int4 a=bf16 zero=scaled layout=exl", (1, 16, 64)),
    ("wq=fp8 a=bf16", (1, 16, 32)), ("wq=fp8 a=fp8 c=bf16", (1, 16, 32)),
    ("wq=fp8 a=bf16 scale=block128", (1, 16)), ("wq=fp8 a=fp8 c=bf16 scale=block128", (1, 16)),
    ("wq=none a=bf16 bias=1", (1, 16, 32)), ("wq=none a=f16", (1, 16)),
    ("wq=nf4 a=bf16 act=silu_mul glu=halves", (1, 16, 64)),
    ("wq=mxfp4 a=bf16 act=swiglu_oai glu=interleaved bias=1", (1, 16)),
    # consumers whose columns overlap, and copies of scales that begin between multiples of 16 bytes
    ("k=4864 wq=nf4 a=bf16", (8, 16, 32)), ("k=4864 wq=int4 group=64 a=f16 zero=u8", (8, 16, 32)),
]
WRITTEN = ["wq=nf4 c=bf16", "wq=nf4 c=f16 scale=nested", "wq=fp4 c=f32", "wq=mxfp4 c=bf16",
           "wq=int4 c=bf16", "wq=int4 c=f16 zero=u8 scale=f16", "wq=int4 c=bf16 zero=scaled",
           "wq=fp8 c=bf16", "wq=fp8 c=f32"]
MIXTURES = ["wq=nf4", "wq=mxfp4", "wq=int4 group=128", "wq=int4 group=128 zero=u8", "wq=fp8",
            "wq=none"]
N, K, EXPERTS, TOP_K, TOKENS = 328, 2048, 8, 2, (1, 7, 40, 200)
ERROR = {"f32": 1e-5, "f16": 3e-3, "bf16": 1e-2}


def words_of(text):
    return dict(word.split("=", 1) for word in text.split())


def layer(quern, ctx, text, rows, seed):
    """The worst error of launches of a layer with these rows."""
    words, random = {"k": K} | words_of(text), np.random.default_rng(seed)
    k = int(words["k"])
    text = f"n={N} " + " ".join(f"{name}={value}" for name, value in words.items())
    operands = quern.quantize(text, random.normal(0, 0.05, (N, k)).astype(np.float32))
    exact = quern.dequantize(text, operands).astype(np.float64)
    c_type = words.get("c", words["a"])
    bias = np.zeros(N)
    if words.get("bias") == "1":
        operands["bias"] = quern.arrays.to_type(random.normal(0, 1, N).astype(np.float32), c_type)
        bias = quern.arrays.from_type(operands["bias"], c_type).astype(np.float64)
    op, worst = ctx.op(text, m_max=max(rows)), 0.0
    held = {name: ctx.buffer(array) for name, array in operands.items()}
    for m in rows:
        x = random.normal(0, 1, (m, k)).astype(np.float32)
        if words["a"] == "fp8":
            as_weights = f"wq=fp8 n={m} k={k} a=bf16"
            given = quern.quantize(as_weights, x)
            x = quern.dequantize(as_weights, given)
            a, scale = given["b"], given["b_scale"]
            if words.get("scale") == "block128":
                scale = np.full((m, k // 128), scale.item(), np.float32)
            held["a_scale"] = ctx.buffer(scale)
        else:
            a = quern.arrays.to_type(x, words["a"])
            x = quern.arrays.from_type(a, words["a"])
        columns = op.columns
        c = ctx.buffer(m * columns * quern.arrays.STORAGE[c_type].itemsize)
        op.launch(m=m, a=ctx.buffer(a), c=c, **held)
        y = quern.arrays.from_type(c.read(quern.arrays.STORAGE[c_type], (m, columns)), c_type)
        right = finished(x.astype(np.float64) @ exact.T + bias, words)
        worst = max(worst, np.abs(y - right).max() / np.abs(right).max())
    op.close()
    return worst, c_type


def written(quern, ctx, text, seed):
    """The worst error of weights that op=dequant writes out."""
    text = f"op=dequant n={N} k={K} {text}"
    weights = np.random.default_rng(seed).normal(0, 0.05, (N, K)).astype(np.float32)
    operands = quern.quantize(text, weights)
    exact = quern.dequantize(text, operands).astype(np.float64)
    kind = words_of(text)["c"]
    op, storage = ctx.op(text, m_max=1), quern.arrays.STORAGE[kind]
    c = ctx.buffer(N * K * storage.itemsize)
    op.launch(m=1, c=c, **{name: ctx.buffer(array) for name, array in operands.items()})
    y = quern.arrays.from_type(c.read(storage, (N, K)), kind)
    op.close()
    return np.abs(y - exact).max() / np.abs(exact).max(), kind


def finished(sums, words):
    """What follows a product of gate and up: silu(gate) times up, or gpt-oss's."""
    if "act" not in words:
        return sums
    half = sums.shape[-1] // 2
    gate, up = ((sums[..., :half], sums[..., half:]) if words.get("glu") == "halves" else
                (sums[..., 0::2], sums[..., 1::2]))
    if words["act"] == "silu_mul":
        return gate / (1 + np.exp(-gate)) * up
    gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
    return gate / (1 + np.exp(-1.702 * gate)) * (up + 1)


def mixture(quern, ctx, text, seed):
    """The worst error of a mixture of experts, its blocks made on the CPU, and whether op=moe_align
    makes the same."""
    random = np.random.default_rng(seed)
    hidden, inner = 512, 256
    gate_up = random.normal(0, 0.05, (EXPERTS, 2 * inner, hidden)).astype(np.float32)
    down = random.normal(0, 0.05, (EXPERTS, hidden, inner)).astype(np.float32)
    words = words_of(text)
    moe = quern.MoE.quantize(ctx, gate_up, down, top_k=TOP_K, a="bf16", c="f32", m_max=max(TOKENS),
                             **words)
    exact = {name: quern.dequantize(product.op.problem, product.arrays()).astype(np.float64)
             for name, product in (("gate_up", moe.gate_up), ("down", moe.down))}
    worst = 0.0
    for m in TOKENS:
        ids = np.stack([random.permutation(EXPERTS)[:TOP_K] for _ in range(m)]).astype(np.int32)
        x = random.normal(0, 1, (m, hidden)).astype(np.float32)
        x = quern.arrays.from_type(quern.arrays.to_type(x, "bf16"), "bf16")
        y = moe(x, ids, np.full((m, TOP_K), 0.5, np.float32))
        right = np.zeros((m, hidden))
        for token in range(m):
            for e in ids[token]:
                h = finished(x[token].astype(np.float64) @ exact["gate_up"][e].T,
                             {"act": "silu_mul", "glu": "halves"})
                right[token] += 0.5 * (h @ exact["down"][e].T)
        worst = max(worst, np.abs(y - right).max() / np.abs(right).max())
        aligner = moe.gate_up.op.aligner(m)
        lists = dict(zip(("rows", "experts", "rows_used"), moe.gate_up.op.align(ids)))
        made = {name: ctx.buffer(array.nbytes) for name, array in lists.items()}
        aligner.launch(m=m, topk_ids=ctx.buffer(ids), **made)
        for name, array in lists.items():
            if not np.array_equal(made[name].read(np.int32, array.shape), array):
                worst = np.inf
    return worst


def cases():
    ctypes.CDLL(str(LIBRARY), ctypes.RTLD_GLOBAL)
    sys.path.insert(0, str(TOP / "tools/python"))
    import quern
    import quern.arrays
    failures = 0
    with quern.Context(device="cuda") as ctx:
        for seed, (text, rows) in enumerate(LAYERS):
            worst, kind = layer(quern, ctx, text, rows, seed)
            good = worst <= ERROR[kind]
            failures += not good
            print(f"{'ok  ' if good else 'BAD '}{text}, m={','.join(map(str, rows))}: "
                  f"{worst:.1e}", flush=True)
        for seed, text in enumerate(WRITTEN):
            worst, kind = written(quern, ctx, text, seed)
            failures += not worst <= ERROR[kind]
            print(f"{'ok  ' if worst <= ERROR[kind] else 'BAD '}op=dequant {text}: {worst:.1e}",
                  flush=True)
        for seed, text in enumerate(MIXTURES):
            worst = mixture(quern, ctx, text, seed)
            failures += not worst <= ERROR["bf16"]
            print(f"{'ok  ' if worst <= ERROR['bf16'] else 'BAD '}op=moe {text}: {worst:.1e}",
                  flush=True)
    return failures > 0


def check(tool, sanitizer):
    """Whether a tool found nothing in all cases; what it found is told by kind."""
    # a thread without a context is told so by its first launch, which then gives it one
    command = [sanitizer, "--tool", tool, "--print-limit", "1000", "--report-api-errors", "no",
               sys.executable, __file__, "cases"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    said = [line[len("========= "):] for line in done.stdout.splitlines()
            if line.startswith("========= ")]
    ours = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "BAD"))]
    found = collections.Counter()
    for line in said:
        if re.match(r"(Error|Warning|Invalid|Uninitialized|Barrier|Program hit)", line):
            found[re.sub(r"0x[0-9a-f]+|\(?\d+,\d+,\d+\)?|\+", "*", line)] += 1
    summary = [line for line in said if "SUMMARY" in line]
    none = any(re.search(r"SUMMARY: 0 (errors|hazards)", line) for line in summary)
    count = len(LAYERS) + len(WRITTEN) + len(MIXTURES)
    good = done.returncode == 0 and none and not found and len(ours) == count
    print(f"{'ok  ' if good else 'BAD '}{tool}: {len(ours)} of {count} layers, status "
          f"{done.returncode}; {'; '.join(summary)}", flush=True)
    for line, count in found.most_common(40):
        print(f"    {count} times: {line}")
    if not good:
        (TOP / f"build/sanitize-{tool}.txt").write_text(done.stdout)
        for line in done.stdout.splitlines()[:20] if not ours else ours:
            print(f"    {line}")
    return good


def main(words):
    if words == ["cases"]:
        return cases()
    if not set(words) <= set(TOOLS):
        print(__doc__, file=sys.stderr)
        return 2
    sanitizer = shutil.which("compute-sanitizer")
    if not pathlib.Path("/dev/nvidiactl").exists() or not sanitizer:
        print("sanitize_cuda.py: no NVIDIA GPU or no compute-sanitizer here", file=sys.stderr)
        return 77
    return not all([check(tool, sanitizer) for tool in words or TOOLS])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
