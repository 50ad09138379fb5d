#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Layers on the NVIDIA GPU of this machine, by way of the Python package and torch's memory.

    layers_cuda.py check [WQ…]  every format (or those named: nf4, fp4, mxfp4, int4, fp8, none),
                                type and kind of scale and zero point, M = 1 to 64, against a
                                product in double precision, and op=dequant against the weights
    layers_cuda.py mixtures     mixtures of experts (op=moe) of every format against the same, their
                                blocks made by op=moe_align, which is compared with the CPU's
    layers_cuda.py many         more than 64 rows by cuBLASLt in a workspace, by quern's own kernels
                                and by torch's dense product: right, and microseconds
    layers_cuda.py chain [N]    N chains (200) of layers that each read what the one before wrote,
                                with launches that begin early, against the same chains without
    layers_cuda.py time [WORDS] layers of language models of weights as these words of a problem
                                say ("wq=nf4", "wq=int4 zero=u8" or "wq=fp8 a=fp8"), beside torch's
                                dense product in bf16; `early`: launches that may begin before the
                                one in front of them ends (QUERN_WEIGHTS_CONSTANT)
    layers_cuda.py time-mixtures  layers of models with experts, some tokens at a time, beside as
                                many launches of op=gemm as the tokens have choices, and for int4
                                beside a plain fused kernel in Triton (tests/peers/w4a16.py), whose
                                best of some shapes counts

`time` prints microseconds a launch: weights are cold (launches rotate over 600 MB, or over the
experts of a stack), launches are in a CUDA graph of 40 that each wait for the one before, the
median of 9 replays counts. It needs torch with CUDA and libquern.so on the loader's path. Exit
status 1: a layer is wrong; 77: no GPU here. This file is long because one command is what whoever
has the GPU wants.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/python"))
try:
    import torch
    import quern
except ImportError as missing:
    print(f"layers_cuda.py: {missing}", file=sys.stderr)
    sys.exit(77)

# The sixteen values of each format: bitsandbytes' NF4 and FP4 (functional.py), OCP's E2M1.
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]
FP4 = [0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
PLAIN = ("fp8", "none")  # weights that are numbers
VALUES = {"nf4": NF4, "fp4": FP4 + [-v for v in FP4], "mxfp4": E2M1 + [-v for v in E2M1],
          "int4": [float(q) for q in range(-8, 8)]}
ORDERS = {"k8": range(8), "exl": (0, 4, 1, 5, 2, 6, 3, 7)}  # nibbles of a word of int4, by k
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ALL_TYPES = TYPES | {"fp8": torch.float8_e4m3fn}
# Of the largest result: what rounding weights, activations and results to a type may cost.
PRODUCT_ERROR = {"f32": 1e-5, "f16": 2e-3, "bf16": 1e-2, "fp8": 1e-5}
RESULT_ERROR = {"f32": 0.0, "f16": 1e-3, "bf16": 8e-3}
ROWS = [1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 257]
TIMED = [(28672, 4096), (57344, 8192), (4096, 14336), (12288, 4096), (19456, 2560), (4096, 4096),
         (1024, 4096)]
ROTATE_BYTES, LAUNCHES, REPLAYS = 600 << 20, 40, 9
# Layers with experts: name, words of the problem, experts, chosen of them, N and K.
MIXTURES = [("gpt-oss-20b gate_up", "wq=mxfp4", 32, 4, 5760, 2880),
            ("gpt-oss-20b down", "wq=mxfp4", 32, 4, 2880, 2880),
            ("Qwen3-30B-A3B gate_up", "wq=int4", 128, 8, 1536, 2048),
            ("Qwen3-30B-A3B down", "wq=int4", 128, 8, 2048, 768),
            ("Mixtral-8x7B gate_up", "wq=nf4", 8, 2, 28672, 4096)]
TOKENS = (1, 2, 4, 8, 16, 64, 512, 4096)


def on_gpu(make, *arguments, **words):
    return make(*arguments, device="cuda", **words)


def layer(wq, n, k, group, nested, bias, c):
    """Random operands of a layer, and its weights in double precision."""
    b = on_gpu(torch.randint, 0, 256, (n, k // 2), dtype=torch.uint8)
    operands = {"b": b}
    groups = n * k // group
    if wq == "mxfp4":
        operands["scales"] = on_gpu(torch.randint, 120, 128, (groups,), dtype=torch.uint8)
        scales = torch.pow(2.0, operands["scales"].double() - 127)
    elif nested:
        operands["absmax8"] = on_gpu(torch.randint, 0, 256, (groups,), dtype=torch.uint8)
        operands["code"] = on_gpu(torch.linspace, -1, 1, 256)
        operands["scales"] = on_gpu(torch.rand, (groups + 255) // 256) * 0.02 + 0.001
        operands["offset"] = on_gpu(torch.tensor, [0.03])
        outer = operands["scales"].repeat_interleave(256)[:groups]
        scales = (operands["code"][operands["absmax8"].long()] * outer
                  + operands["offset"]).double()
    else:
        operands["scales"] = on_gpu(torch.rand, groups) * 0.05 + 0.01
        scales = operands["scales"].double()
    halves = [(b >> 4).long(), (b & 15).long()]  # layout=bnb: the lower k is the high nibble
    if wq == "mxfp4":  # layout=k8: the low one
        halves.reverse()
    values = on_gpu(torch.tensor, VALUES[wq], dtype=torch.float64)
    weights = torch.stack([values[h] for h in halves], -1).reshape(-1, group) * scales[:, None]
    if bias:
        operands["bias"] = on_gpu(torch.randn, n).to(TYPES[c])
    return operands, weights.reshape(n, k)


def int4_layer(n, k, group, scale, zero, layout, bias, c):
    """Random operands of an int4 layer, and its weights in double precision."""
    b = on_gpu(torch.randint, 0, 256, (n, k // 2), dtype=torch.uint8)
    scales = (on_gpu(torch.rand, n, k // group) * 0.02 + 0.005).to(TYPES[scale])
    operands = {"b": b, "scales": scales}
    nibbles = torch.stack([b & 15, b >> 4], -1).reshape(n, k // 8, 8)
    numbers = nibbles[:, :, list(ORDERS[layout])].reshape(n, k // group, group).double() - 8
    extra = 0
    if zero == "u8":
        operands["zeros"] = on_gpu(torch.randint, 0, 16, (n, k // group), dtype=torch.uint8)
        numbers -= operands["zeros"].double()[:, :, None] - 8
    elif zero == "scaled":
        operands["zeros"] = (on_gpu(torch.randn, n, k // group) * 0.03).to(TYPES[scale])
        extra = operands["zeros"].double()[:, :, None]
    if bias:
        operands["bias"] = on_gpu(torch.randn, n).to(TYPES[c])
    return operands, (numbers * scales.double()[:, :, None] - extra).reshape(n, k)


def plain_layer(wq, n, k, a, bias, c):
    """Random operands of a layer of numbers, and its weights in double precision, scales included.
    Of fp8 every byte is there but for NaN."""
    if wq == "none":
        operands = {"b": on_gpu(torch.randn, n, k).to(TYPES[a])}
        weights = operands["b"].double()
    else:
        bytes_of = on_gpu(torch.randint, 0, 256, (n, k), dtype=torch.uint8)
        bytes_of[(bytes_of & 127) == 127] = 0
        operands = {"b": bytes_of.view(ALL_TYPES["fp8"]), "b_scale": on_gpu(torch.rand, 1) + 0.1}
        weights = operands["b"].double() * operands["b_scale"].double()
    if a == "fp8":
        operands["a_scale"] = on_gpu(torch.rand, 1) + 0.1
        weights = weights * operands["a_scale"].double()
    if bias:
        operands["bias"] = on_gpu(torch.randn, n).to(TYPES[c])
    return operands, weights


def launch(op, m, early=False, **tensors):
    op.launch(m=m, stream=torch.cuda.current_stream().cuda_stream, weights_constant=early,
              **{name: int(t.data_ptr()) for name, t in tensors.items()})


def check_table_product(ctx, wq, n, k, group, nested, a, c, bias):
    words = f"wq={wq} n={n} k={k} a={a} c={c} bias={bias:d}"
    words += f" group={group}" if wq != "mxfp4" else ""
    words += " scale=nested" if nested else ""
    return check_product(ctx, words, k, n, a, c, *layer(wq, n, k, group, nested, bias, c))


def check_int4_product(ctx, n, k, group, a, c, scale, zero, layout, bias):
    words = (f"wq=int4 n={n} k={k} a={a} c={c} bias={bias:d} group={group} scale={scale} "
             f"zero={zero} layout={layout}")
    return check_product(ctx, words, k, n, a, c,
                         *int4_layer(n, k, group, scale, zero, layout, bias, c))


def check_plain_product(ctx, wq, n, k, a, c, bias):
    return check_product(ctx, f"wq={wq} n={n} k={k} a={a} c={c} bias={bias:d}", k, n, a, c,
                         *plain_layer(wq, n, k, a, bias, c))


def check_product(ctx, words, k, n, a, c, operands, weights):
    op, worst = ctx.op(words, m_max=ROWS[-1]), 0.0
    for m in ROWS:
        x = on_gpu(torch.randn, m, k).to(ALL_TYPES[a])
        y = on_gpu(torch.full, (m, n), float("nan")).to(TYPES[c])
        launch(op, m, a=x, c=y, **operands)
        right = x.double() @ weights.t() + operands.get("bias", torch.zeros(1).cuda())
        error = ((y.double() - right).abs().max() / right.abs().max()).item()
        worst = error if not error <= worst else worst  # NaN stays
    fine = worst <= max(PRODUCT_ERROR[a], RESULT_ERROR[c])
    print(f"{'ok ' if fine else 'BAD'} {worst:.1e} {words}", flush=True)
    return fine


def check_blocks(ctx, n, k, a, bias, act=""):
    """fp8 with a scale for each 128 by 128 weights, and with A of fp8 for 128 columns of a row."""
    blocks = (-(-n // 128), -(-k // 128))
    c = "bf16" if a == "fp8" else "f32" if act else a  # f16 would not hold products of products
    operands, weights = plain_layer("fp8", n, k, "bf16", bias, c)
    weights = weights / operands["b_scale"].double()
    scales = operands["b_scale"] = on_gpu(torch.rand, *blocks) + 0.1
    weights *= scales.double().repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    words = f"wq=fp8 scale=block128 n={n} k={k} a={a} c={c} bias={bias:d}{act}"
    op, worst = ctx.op(words, m_max=ROWS[-1]), 0.0
    for m in ROWS:
        x = on_gpu(torch.randn, m, k).to(ALL_TYPES[a])
        wide, more = x.double(), {}
        if a == "fp8":
            more["a_scale"] = on_gpu(torch.rand, m, blocks[1]) + 0.1
            wide = wide * more["a_scale"].double().repeat_interleave(128, 1)[:, :k]
        right = wide @ weights.t() + operands.get("bias", torch.zeros(1).cuda())
        if act:
            right = torch.nn.functional.silu(right[:, : n // 2]) * right[:, n // 2:]
        y = on_gpu(torch.full, right.shape, float("nan")).to(TYPES[c])
        launch(op, m, a=x, c=y, **operands, **more)
        error = ((y.double() - right).abs().max() / right.abs().max()).item()
        worst = error if not error <= worst else worst
    fine = worst <= max(PRODUCT_ERROR[a], RESULT_ERROR[c])
    print(f"{'ok ' if fine else 'BAD'} {worst:.1e} {words}", flush=True)
    return fine


def check_strides(ctx, wq, a):
    """Rows of A and of C that are further apart than they are long; what lies between stays."""
    n, k, lda, ldc = 272, 512, 522, 281
    operands, weights = (plain_layer(wq, n, k, a, False, a) if wq in PLAIN else
                         int4_layer(n, k, 128, a, "u8", "k8", False, a) if wq == "int4" else
                         layer(wq, n, k, 32 if wq == "mxfp4" else 64, False, False, a))
    words = f"wq={wq} n={n} k={k} a={a} c={a}"
    words += f" group=128 scale={a} zero=u8" if wq == "int4" else ""
    op, fine = ctx.op(words, m_max=ROWS[-1]), True
    for m in ROWS:
        x = on_gpu(torch.randn, m, lda).to(TYPES[a])
        y = on_gpu(torch.full, (m, ldc), 7.0).to(TYPES[a])
        op.launch(m=m, stream=torch.cuda.current_stream().cuda_stream, lda=lda, ldc=ldc,
                  a=int(x.data_ptr()), c=int(y.data_ptr()),
                  **{name: int(t.data_ptr()) for name, t in operands.items()})
        right = x[:, :k].double() @ weights.t()
        error = ((y[:, :n].double() - right).abs().max() / right.abs().max()).item()
        fine &= error <= max(PRODUCT_ERROR[a], RESULT_ERROR[a]) and bool((y[:, n:] == 7).all())
    print(f"{'ok ' if fine else 'BAD'} {words} lda={lda} ldc={ldc}", flush=True)
    return fine


def check_dequant(ctx, wq, c, zero="none"):
    words = f"op=dequant wq={wq} n=300 k=512 group=32 c={c}"
    if wq == "int4":
        operands, weights = int4_layer(300, 512, 32, "f16", zero, "k8", False, c)
        words += f" scale=f16 zero={zero}"
    elif wq == "fp8":
        operands, weights = plain_layer("fp8", 300, 512, "bf16", False, c)
        words = words.replace(" group=32", "")
    else:
        operands, weights = layer(wq, 300, 512, 32, False, False, c)
    y = on_gpu(torch.full, (300, 512), float("nan")).to(TYPES[c])
    launch(ctx.op(words, m_max=1), 1, c=y, **operands)
    error = ((y.double() - weights).abs().max() / weights.abs().max()).item()
    fine = error <= max(1e-6, RESULT_ERROR[c])
    print(f"{'ok ' if fine else 'BAD'} {error:.1e} {words}", flush=True)
    return fine


def int4_cases():
    cases = []
    for a in TYPES:
        for zero in ("none", "u8", "scaled"):
            for layout in ORDERS:
                cases += [(256, 1024, 128, a, a, a, zero, layout, False),
                          (1000, 1056, 32, a, "f32", "f16", zero, layout, True)]
        cases += [(130, 4224, 128, a, a, "f32", "u8", "k8", True),
                  (72, 2048, 2048, a, a, "bf16", "scaled", "exl", False)]
    return cases + [(n, k, 128, "bf16", "bf16", "bf16", zero, "k8", False) for zero in
                    ("none", "u8") for n, k in ((4096, 4096), (28672, 4096), (1024, 14336))]


def plain_cases(formats):
    cases = []
    for wq in formats:
        for a in ("f16", "bf16") + (("fp8",) if wq == "fp8" else ()):
            own = "bf16" if a == "fp8" else a
            cases += [(wq, 256, 512, a, own, False), (wq, 1000, 1088, a, "f32", True),
                      (wq, 130, 4160, a, own, True), (wq, 72, 64, a, own, False),
                      (wq, 4096, 4096, a, own, False), (wq, 1024, 14336, a, own, True)]
    return cases


def table_cases(formats):
    """Shapes with rows and columns that no tile divides, one of few rows, and three of models."""
    cases = []
    for wq in formats:
        for a in TYPES:
            cases += [(wq, 256, 512, 64, False, a, a, False),
                      (wq, 1000, 1056, 32, False, a, "f32", True),
                      (wq, 130, 4096, 128, False, a, a, True)]
            if wq != "mxfp4":
                cases += [(wq, 512, 4096, 64, True, a, a, False),
                          (wq, 72, 8192, 4096, False, a, "f16" if a == "f32" else a, False),
                          (wq, 333, 2560, 64, True, a, "f32", True)]
    cases = [(*case[:3], 32 if case[0] == "mxfp4" else case[3], *case[4:]) for case in cases]
    return cases + [("nf4", n, k, group, False, a, a, False)
                    for n, k, group, a in ((4096, 4096, 64, "bf16"), (1024, 14336, 64, "bf16"),
                                           (28672, 4096, 64, "bf16"), (6144, 2880, 32, "f16"))
                    if "nf4" in formats]


def check(ctx, formats):
    cases = table_cases([wq for wq in formats if wq != "int4" and wq not in PLAIN])
    plain = plain_cases([wq for wq in formats if wq in PLAIN])
    of_int4 = int4_cases() if "int4" in formats else []
    dequants = [(wq, c, zero) for wq in formats if wq != "none" for c in TYPES
                for zero in (("none", "u8", "scaled") if wq == "int4" else ("none",))]
    wrong = sum(not check_table_product(ctx, *case) for case in cases)
    wrong += sum(not check_int4_product(ctx, *case) for case in of_int4)
    wrong += sum(not check_plain_product(ctx, *case) for case in plain)
    blocks = [(n, k, a, bias, act) for a in ("f16", "bf16", "fp8")
              for n, k, bias, act in ((256, 512, False, ""), (1000, 1088, True, ""),
                                      (130, 4160, False, ""), (4096, 7168, False, ""),
                                      (384, 2048, True, " act=silu_mul glu=halves"))
              if "fp8" in formats]
    strides = [(wq, a) for wq in formats for a in TYPES if wq not in PLAIN or a != "f32"]
    wrong += sum(not check_blocks(ctx, *case) for case in blocks)
    wrong += sum(not check_strides(ctx, *case) for case in strides)
    wrong += sum(not check_dequant(ctx, *case) for case in dequants)
    count = len(cases) + len(of_int4) + len(plain) + len(blocks) + len(strides)
    print(f"{count} layers of {len(ROWS)} numbers of rows, {len(blocks)} of them in blocks and "
          f"{len(strides)} of rows apart, and {len(dequants)} of op=dequant: {wrong} wrong")
    return wrong


def microseconds(function):
    stream, graph, times = torch.cuda.Stream(), torch.cuda.CUDAGraph(), []
    with torch.cuda.stream(stream):
        for i in range(3):
            function(i)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(LAUNCHES):
            function(i)
    for _ in range(2 + REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / LAUNCHES)
    return sorted(times[2:])[REPLAYS // 2]


def copies_of(nbytes, most):
    return max(2, min(most, ROTATE_BYTES // nbytes + 1))


def time_layer(ctx, n, k, words):
    weights = [layer_bytes(n, k, words)]
    packed = sum(t.nbytes for t in weights[0].values())
    weights += [layer_bytes(n, k, words) for _ in range(copies_of(packed, 64) - 1)]
    dense = [on_gpu(torch.randn, n, k, dtype=torch.bfloat16)
             for _ in range(copies_of(2 * n * k, 8))]
    a = "fp8" if " a=fp8" in words else "bf16"
    op = ctx.op(f"{words.replace(' a=fp8', '')} n={n} k={k} a={a} c=bf16", m_max=64)
    for m in (1, 4, 8, 16, 32, 64):
        x = on_gpu(torch.randn, m, k, dtype=torch.bfloat16)
        y = on_gpu(torch.empty, m, n, dtype=torch.bfloat16)
        narrow = x.to(ALL_TYPES[a])
        ours, early = (microseconds(lambda i: launch(op, m, a=narrow, c=y, early=e,
                                                     **weights[i % len(weights)]))
                       for e in (False, True))
        theirs = microseconds(lambda i: torch.matmul(x, dense[i % len(dense)].t(), out=y))
        print(f"{n:6} {k:6} {m:3} {ours:9.2f} {packed / ours / 1e6:6.2f} {early:9.2f} "
              f"{packed / early / 1e6:6.2f} {theirs:9.2f} "
              f"{2 * n * k / theirs / 1e6:6.2f}", flush=True)


# ---- Many rows ----

def check_many(ctx):
    """Layers of many rows by cuBLASLt, in a workspace of torch's, and by kernels of quern's alone,
    beside torch's dense product: whether they are right, and microseconds."""
    wrong = 0
    print("     N      K    M  workspace MiB  quern us  without us  dense us")
    for words in ("wq=nf4", "wq=int4 group=128 scale=bf16 zero=u8", "wq=mxfp4", "wq=fp8",
                  "wq=none"):
        wq = words.split()[0][3:]
        for n, k in ((28672, 4096), (4096, 14336), (4096, 4096)):
            operands, weights = (
                int4_layer(n, k, 128, "bf16", "u8", "k8", False, "bf16") if wq == "int4" else
                plain_layer(wq, n, k, "bf16", False, "bf16") if wq in PLAIN else
                layer(wq, n, k, 32 if wq == "mxfp4" else 64, False, False, "bf16"))
            op = ctx.op(f"{words} n={n} k={k} a=bf16 c=bf16", m_max=2048)
            dense = on_gpu(torch.randn, n, k, dtype=torch.bfloat16)
            for m in (65, 128, 200, 512, 1000, 2048):
                x = on_gpu(torch.randn, m, k, dtype=torch.bfloat16)
                y = on_gpu(torch.full, (m, n), float("nan")).bfloat16()
                nbytes = op.workspace(m)
                space = on_gpu(torch.empty, nbytes, dtype=torch.uint8) if nbytes else None
                given = {"workspace": space} if nbytes else {}
                right = x.double() @ weights.t()
                error, times = 0.0, []
                for how in (given, {}):
                    y.fill_(float("nan"))
                    launch(op, m, a=x, c=y, **operands, **how)
                    error = max(error, ((y.double() - right).abs().max()
                                        / right.abs().max()).item())
                    times.append(microseconds(lambda i: launch(op, m, a=x, c=y, **operands,
                                                               **how)))
                fine = error <= PRODUCT_ERROR["bf16"] and (nbytes > 0 or m < 2048)
                wrong += not fine
                theirs = microseconds(lambda i: torch.matmul(x, dense.t(), out=y))
                print(f"{n:6} {k:6} {m:4} {nbytes / 2**20:13.1f} {times[0]:9.1f} {times[1]:11.1f} "
                      f"{theirs:9.1f}  {'ok ' if fine else 'BAD'} {error:.1e} {words}", flush=True)
            del operands, weights, dense
            torch.cuda.empty_cache()
    return wrong


# ---- Launches that begin early ----

def check_chains(ctx, count):
    """Each layer of a chain reads what the one before wrote, at once: one that read too early would
    differ from the same chain of plain launches, whose order of arithmetic is the same. The chain
    is a CUDA graph: launches from Python come so slowly that none would meet the one before it."""
    width, depth, wrong = 2048, 12, 0
    makers = {"wq=nf4 c=bf16 a=bf16": lambda: layer("nf4", width, width, 64, False, False,
                                                    "bf16")[0],
              "wq=int4 group=128 scale=bf16 zero=u8 c=bf16 a=bf16": lambda: int4_layer(
                  width, width, 128, "bf16", "u8", "k8", False, "bf16")[0],
              "wq=none c=bf16 a=bf16": lambda: plain_layer("none", width, width, "bf16", False,
                                                           "bf16")[0],
              "wq=nf4 c=f32 a=f32": lambda: layer("nf4", width, width, 64, False, False, "f32")[0]}
    for words, make in makers.items():
        op = ctx.op(f"{words} n={width} k={width}", m_max=64)
        layers = [make() for _ in range(depth)]
        kind = TYPES["f32" if "a=f32" in words else "bf16"]
        for m in (1, 8, 33, 64):
            buffers = [on_gpu(torch.empty, m, width, dtype=kind) for _ in range(2)]
            start = (on_gpu(torch.randn, m, width) * 1e-3).to(kind)
            results, graphs = [], [torch.cuda.CUDAGraph() for _ in range(2)]
            for early, graph in zip((False, True), graphs):
                with torch.cuda.graph(graph):
                    for i in range(depth):
                        launch(op, m, a=buffers[i % 2], c=buffers[1 - i % 2], early=early,
                               **layers[i])
            for graph in [graphs[0]] + [graphs[1]] * (count // 16):
                buffers[0].copy_(start)
                graph.replay()
                results.append(buffers[depth % 2].clone())
            differing = sum(not torch.equal(results[0].view(torch.uint8), r.view(torch.uint8))
                            for r in results[1:])
            wrong += differing
            print(f"{'BAD' if differing else 'ok '} {len(results) - 1} chains of {depth} layers, "
                  f"m={m} {words}: {differing} differ", flush=True)
    return wrong


# ---- Mixtures of experts ----

def mixture(words, experts, n, k, bias=False):
    """Random operands of a stack of experts, and their weights in double precision, [E,N,K]."""
    wq = words.split()[0][3:]
    rows = experts * n
    if wq == "int4":
        zero = next((w[5:] for w in words.split() if w.startswith("zero=")), "none")
        operands, weights = int4_layer(rows, k, 128, "bf16", zero, "k8", bias, "bf16")
    elif wq in PLAIN:
        operands, weights = plain_layer(wq, rows, k, "bf16", bias, "bf16")
        if wq == "fp8":  # one scale for an expert, or for each of its 128 by 128 weights
            shape = (-(-n // 128), -(-k // 128)) if "block128" in words else (1, 1)
            scales = on_gpu(torch.rand, experts, *shape) + 0.1
            wide = scales.double().repeat_interleave(-(-n // shape[0]) if shape == (1, 1) else 128,
                                                     1)[:, :n]
            wide = wide.repeat_interleave(k if shape == (1, 1) else 128, 2)[:, :, :k]
            weights = weights / operands["b_scale"].double() * wide.reshape(rows, k)
            operands["b_scale"] = scales
    else:
        operands, weights = layer(wq, rows, k, 32 if wq == "mxfp4" else 64, False, bias, "bf16")
    return operands, weights.reshape(experts, n, k)


def routed(op, topk_ids, device_op=None):
    """rows, experts and rows_used on the GPU, by the CPU's lists or by op=moe_align."""
    lists = [torch.from_numpy(x).cuda() for x in op.align(topk_ids)]
    if device_op:
        made = [torch.full_like(x, 7) for x in lists]
        launch(device_op, topk_ids.shape[0], topk_ids=torch.from_numpy(topk_ids).cuda(),
               **dict(zip(("rows", "experts", "rows_used"), made)))
        used = int(lists[2].item())
        blocks = used // op.block_rows(topk_ids.shape[0])
        same = (torch.equal(made[2], lists[2]) and torch.equal(made[0], lists[0]) and
                torch.equal(made[1][:blocks], lists[1][:blocks]))
        return made, same
    return lists, True


def check_mixture(ctx, words, experts, top_k, n, k, act):
    kind = "fp8" if "a=fp8" in words else "bf16"
    wide = f"op=moe {words.replace(' a=fp8', '')} n={n} k={k} a={kind} c=bf16 experts={experts} "
    wide += f"top_k={top_k} bias=1{act}"
    wide += " group=128 scale=bf16" if "int4" in words else ""
    op, worst, listed = ctx.op(wide, m_max=700), 0.0, True
    operands, weights = mixture(words, experts, n, k, True)
    bias = operands["bias"].double().reshape(experts, n)
    for m, weighted in ((1, True), (1, False), (2, True), (7, False), (64, True), (700, True)):
        choices = torch.rand(m, experts).topk(top_k).indices.to(torch.int32)
        lists, same = routed(op, choices.numpy(), op.aligner(m))
        listed &= same
        x, more = on_gpu(torch.randn, m, k).to(ALL_TYPES[kind]), {}
        values = x.double()
        if kind == "fp8":
            blocks = -(-k // 128) if "block128" in words else 0
            more["a_scale"] = on_gpu(torch.rand, *((m, blocks) if blocks else (1,))) + 0.1
            values = values * (more["a_scale"].double().repeat_interleave(128, 1)[:, :k]
                               if blocks else more["a_scale"].double())
        if weighted:  # else the pointer is null, and must not be read
            more["routing"] = on_gpu(torch.rand, m * top_k)
        y = on_gpu(torch.full, (m * top_k, n // 2 if act else n), float("nan")).bfloat16()
        launch(op, m, a=x, c=y, **dict(zip(("rows", "experts", "rows_used"), lists)),
               **operands, **more)
        flat = choices.flatten().long().cuda()
        right = torch.stack([weights[e] @ values[i // top_k] + bias[e]
                             for i, e in enumerate(flat)])
        if act:
            gate, up = right[:, : n // 2], right[:, n // 2:]
            right = torch.nn.functional.silu(gate) * up
        if weighted:
            right = right * more["routing"].double()[:, None]
        error = ((y.double() - right).abs().max() / right.abs().max()).item()
        worst = error if not error <= worst else worst
    fine = worst <= PRODUCT_ERROR["bf16"] and listed
    print(f"{'ok ' if fine else 'BAD'} {worst:.1e} {wide}{'' if listed else ', lists differ'}",
          flush=True)
    return fine


def check_mixtures(ctx):
    cases = [(words, experts, top_k, n, k, act)
             for words in ("wq=nf4", "wq=fp4", "wq=mxfp4", "wq=int4", "wq=int4 zero=u8",
                           "wq=int4 zero=scaled", "wq=fp8", "wq=fp8 a=fp8",
                           "wq=fp8 scale=block128", "wq=fp8 scale=block128 a=fp8", "wq=none")
             for experts, top_k, n, k, act in ((8, 2, 256, 512, ""), (32, 4, 130, 1024, ""),
                                               (128, 8, 384, 256, " act=silu_mul glu=halves"),
                                               (4, 2, 1000, 1152, ""))]
    wrong = sum(not check_mixture(ctx, *case) for case in cases)
    print(f"{len(cases)} mixtures of 5 numbers of tokens: {wrong} wrong")
    return wrong


def products_of_experts(experts, n, k, ids):
    """A function that does the same as torch does it: a dense product in bf16 for each expert that
    has rows, of rows that lie together already."""
    rows = torch.bincount(ids.flatten(), minlength=experts).tolist()
    weights = [on_gpu(torch.randn, n, k, dtype=torch.bfloat16) for _ in range(experts)]
    given = [on_gpu(torch.randn, count, k, dtype=torch.bfloat16) for count in rows]
    results = [on_gpu(torch.empty, count, n, dtype=torch.bfloat16) for count in rows]

    def products(_):
        for w, x, y in zip(weights, given, results):
            if len(x):
                torch.matmul(x, w.t(), out=y)
    return products


def fused_in_triton(ctx, problem, m, ids, x, operands, expected):
    """Microseconds of tests/peers/w4a16.py's kernel for the lists of choices, in the fastest of
    some shapes; its results for the last list must be the expected ones."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
    try:
        import w4a16
    except ImportError:
        return float("nan")
    experts, top_k, n, k = problem
    best = float("inf")
    y = torch.empty_like(expected)
    for rows in (16,) if m * top_k < 16 * experts else (32, 64):
        op = ctx.op(f"op=moe wq=int4 group=128 scale=bf16 n={n} k={k} a=bf16 experts={experts} "
                    f"top_k={top_k} block_rows={rows}", m_max=m)
        lists = [routed(op, one.to(torch.int32).numpy())[0] for one in ids]
        for columns, depth, warps in ((32, 128, 4), (64, 64, 4), (64, 128, 4), (128, 64, 4),
                                      (64, 128, 8), (128, 128, 8)):
            def fused(i):
                slots, whose, used = lists[i]
                w4a16.moe_w4a16[(-(-n // columns), len(whose))](
                    x, operands["b"].view(torch.int32), operands["scales"], operands["scales"],
                    y, slots, whose, used, m * top_k, top_k, n, k, 128, False, rows, columns,
                    depth, num_warps=warps)
            fused(len(lists) - 1)
            worst = (y.double() - expected.double()).abs().max() / expected.double().abs().max()
            assert worst < 0.01, f"Triton's results are wrong: {worst}"
            best = min(best, microseconds(fused))
    return best


def time_mixture(ctx, name, words, experts, top_k, n, k):
    more = " group=128 scale=bf16" if "int4" in words else ""
    op = ctx.op(f"op=moe {words} n={n} k={k} a=bf16 c=bf16 experts={experts} top_k={top_k}{more}",
                m_max=TOKENS[-1])
    one = ctx.op(f"{words} n={n} k={k} a=bf16 c=bf16{more}", m_max=1)
    operands = mixture(words, experts, n, k)[0]
    each = {part: t.reshape(experts, -1) for part, t in operands.items()}
    packed = sum(t.nbytes for t in operands.values()) / experts
    for m in TOKENS:
        lists, chosen, distinct = [], [], 0
        for i in range(LAUNCHES):  # one token takes the experts in turn, more of them at random
            ids = ((torch.arange(top_k) + i * top_k) % experts)[None] if m == 1 else torch.rand(
                m, experts).topk(top_k).indices
            distinct += ids.unique().numel() / LAUNCHES
            chosen.append(ids)
            lists.append(dict(zip(("rows", "experts", "rows_used"),
                                  routed(op, ids.to(torch.int32).numpy())[0])))
        x = on_gpu(torch.randn, m, k, dtype=torch.bfloat16)
        y = on_gpu(torch.empty, m * top_k, n, dtype=torch.bfloat16)
        plain, early = (microseconds(lambda i: launch(op, m, a=x, c=y, early=e, **operands,
                                                      **lists[i])) for e in (False, True))
        apart = dense = fused = float("nan")
        if "int4" in words:
            launch(op, m, a=x, c=y, **operands, **lists[-1])
            fused = fused_in_triton(ctx, (experts, top_k, n, k), m, chosen, x, operands, y)
        if m >= 64:
            dense = microseconds(products_of_experts(experts, n, k, ids))
        if m == 1:
            apart = microseconds(lambda i: [
                launch(one, 1, a=x, c=y[j], **{part: t[(i * top_k + j) % experts]
                                               for part, t in each.items()})
                for j in range(top_k)])
        print(f"{name:22} {m:3} {distinct:6.1f} {plain:9.2f} {packed * distinct / plain / 1e6:6.2f}"
              f" {early:9.2f} {apart:9.2f} {fused:9.2f} {dense:9.2f}"
              f" {2 * m * top_k * n * k / plain / 1e6:7.1f}", flush=True)


def layer_bytes(n, k, words):
    if "wq=int4" in words:
        zero = next((w[5:] for w in words.split() if w.startswith("zero=")), "none")
        operands, _ = int4_layer(n, k, 128, "bf16", zero, "k8", False, "bf16")
        return operands
    if "wq=mxfp4" in words:
        return {"b": on_gpu(torch.randint, 0, 256, (n, k // 2), dtype=torch.uint8),
                "scales": on_gpu(torch.randint, 120, 128, (n * k // 32,), dtype=torch.uint8)}
    if "wq=fp8" in words or "wq=none" in words:
        a = "fp8" if " a=fp8" in words else "bf16"
        return plain_layer("fp8" if "wq=fp8" in words else "none", n, k, a, False, "bf16")[0]
    return {"b": on_gpu(torch.randint, 0, 256, (n, k // 2), dtype=torch.uint8),
            "scales": on_gpu(torch.rand, n * k // 64) * 0.05}


def main():
    verb, words = sys.argv[1:2], sys.argv[2:]
    if not (verb == ["check"] and set(words) <= {*VALUES, *PLAIN} or
            verb and verb[0] in ("time", "time-mixtures", "chain", "mixtures", "many")):
        print(__doc__, file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("layers_cuda.py: torch finds no GPU", file=sys.stderr)
        return 77
    torch.manual_seed(1)
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    with quern.Context(device="cuda") as ctx:
        if verb == ["check"]:
            return 1 if check(ctx, words or [*VALUES, *PLAIN]) else 0
        if verb == ["chain"]:
            return 1 if check_chains(ctx, int(words[0]) if words else 200) else 0
        if verb == ["many"]:
            return 1 if check_many(ctx) else 0
        if verb == ["mixtures"]:
            return 1 if check_mixtures(ctx) else 0
        if verb == ["time-mixtures"]:
            print("layer                tokens  experts  us   TB/s  early us  by op=gemm us  "
                  "Triton us  dense us  TFLOP/s")
            for case in MIXTURES:
                time_mixture(ctx, *case)
                torch.cuda.empty_cache()
            return 0
        print("     N      K   M  quern us   TB/s  early us   TB/s  dense us   TB/s")
        for n, k in TIMED:
            time_layer(ctx, n, k, " ".join(words) or "wq=nf4")
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
