#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times quern and what can be run beside it on the NVIDIA GPU of this machine, in one run.

    sweep_cuda.py time CSV [--format F…] [--shapes table|marlin|zoo] [--rows M…] [--sampled S]
    sweep_cuda.py table CSV     what the file says, a Markdown table for each format; of none also
                                how many times as long as quern its peers take for up to 8 rows
    sweep_cuda.py chart CSV SVG a chart of it (needs matplotlib): how many times as fast as torch's
                                dense product each is, and would be at the memory's peak
    sweep_cuda.py model CSV [--most M] [--within PERCENT]
                                how far `quern explain`'s time for sm_90 is from the file's;
                                needs the built command and no GPU; cells beyond are named

Formats: nf4 (groups of 64, f32 scales), int4 (groups of 128, bf16 scales), mxfp4, none (weights of
bf16, unquantised); A and C are bf16. `model` also knows fp8 and fp8-fp8 (A of fp8), whose figures
`layers_cuda.py time` prints. `time` adds rows to CSV and leaves out what it has already, so that it
may be stopped and started again. A row is format, N, K, M, who, microseconds a launch, TB/s of the
format's packed weights and scales (of `dense`: of weights in bf16). Who:

    quern          plain launches
    dense          torch.matmul in bf16, which is cuBLASLt; of none with the same weights
    cublaslt       none: cuBLASLt's product with the same weights by each of the ten algorithms
                   that its heuristics rank first, 32 MiB of workspace; the best counts
    bitsandbytes   nf4: what its Python picks (its fused kernel, or its decoder and cuBLAS)
    bnb-kernel     nf4: its fused kernel, whatever its Python would pick
    tinygemm       int4: torch's _weight_int4pack_mm, the best of its three layouts
    humming        int4, mxfp4: humming-kernels, what its heuristics choose and S others of the
                   sample that its own tests take; the best counts (of those that are right)

A peer that is not installed is left out, and said once. --bitsandbytes and --site name directories
that packages are taken from.

Weights are cold (launches rotate over 600 MB), 40 launches in a CUDA graph each wait for the one
before, the median of 9 replays counts; clocks are as they are. Shapes of `table` are those of the
goals, `marlin` those that Marlin's authors and users publish (both orders of N and K), `zoo` every
linear layer of cache/models, which `hosts_cuda.py prepare` notes in build/hw/zoo. Results of quern
and of each peer are compared where they have the same weights; what is wrong is not timed. Exit
status 1: a result is wrong; 77: no GPU.
"""
import argparse
import csv
import ctypes
import importlib
import json
import pathlib
import statistics
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/hw")]
COLUMNS = ("format", "n", "k", "m", "who", "us", "tb_s")
ROWS = (1, 4, 8, 16, 32, 64)
MARLIN = [(8192, 8192), (8192, 16384), (16384, 8192), (7168, 20480), (20480, 7168),
          (8192, 81920), (81920, 8192)]
WORDS = {"nf4": "wq=nf4", "int4": "wq=int4", "mxfp4": "wq=mxfp4", "none": "wq=none"}
MODELLED = {name: words + " a=bf16" for name, words in WORDS.items()} | {
    "fp8": "wq=fp8 a=bf16", "fp8-fp8": "wq=fp8 a=fp8 c=bf16"}
PEER_ERROR = 2e-2  # of the largest result; both round weights or sums to bf16
HBM = 4.8  # TB/s, NVIDIA's data sheet of the H200
FEW = 8  # rows up to which `table` says how a peer's times are to quern's


class Rows:
    """The file: what it has, and what is added."""

    def __init__(self, path):
        self.path, self.done = path, {}
        if path.exists():
            with open(path, newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    self.done[self.key(row)] = row

    @staticmethod
    def key(row):
        return tuple(str(row[c]) for c in COLUMNS[:5])

    def has(self, *key):
        return tuple(map(str, key)) in self.done

    def add(self, *values):
        row = dict(zip(COLUMNS, values))
        fresh = not self.path.exists()
        self.done[self.key(row)] = {c: str(v) for c, v in row.items()}
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(row)


# ---- who ----------------------------------------------------------------------------------------


class Layer:
    """A layer's weights several times over, so that launches find them in memory, not in a cache.
    Those who need another layout make it of these."""

    def __init__(self, fmt, n, k):
        import layers_cuda as layers
        self.layers, self.format, self.n, self.k = layers, fmt, n, k
        first = layers.layer_bytes(n, k, WORDS[fmt])
        self.bytes = sum(t.nbytes for t in first.values())
        self.count = layers.copies_of(self.bytes, 64)
        self.weights = [first] + [layers.layer_bytes(n, k, WORDS[fmt])
                                  for _ in range(self.count - 1)]

    def activations(self, m):
        torch = self.layers.torch
        generator = torch.Generator("cuda").manual_seed(m)
        return torch.randn(m, self.k, device="cuda", generator=generator).bfloat16()

    def result(self, m):
        torch = self.layers.torch
        return torch.empty(m, self.n, device="cuda", dtype=torch.bfloat16)


# Each of these serves one layer, and has the weights that it needs for as long as it lives.
# `functions` gives, by the name of a row, the ways to multiply x by copy i of the weights: of
# several that are right the fastest counts. `module`: what it needs; `same_weights`: whether its
# results are compared with quern's.


class Quern:
    names, formats, module, same_weights = ("quern",), WORDS, "quern", False

    def __init__(self, layer, options):
        self.layer = layer
        self.op = options.ctx.op(f"{WORDS[layer.format]} n={layer.n} k={layer.k} a=bf16", m_max=64)

    def functions(self, x):
        layer, y = self.layer, self.layer.result(len(x))

        def run(i):
            layer.layers.launch(self.op, len(x), a=x, c=y, **layer.weights[i % layer.count])
            return y
        return {"quern": [run]}


class Dense:
    names, formats, module = ("dense",), WORDS, "torch"

    def __init__(self, layer, _):
        self.layer, torch = layer, layer.layers.torch
        self.same_weights = layer.format == "none"
        self.weights = [w["b"] for w in layer.weights] if self.same_weights else [
            torch.randn(layer.n, layer.k, device="cuda", dtype=torch.bfloat16)
            for _ in range(layer.layers.copies_of(2 * layer.n * layer.k, 8))]

    def functions(self, x):
        y, matmul = self.layer.result(len(x)), self.layer.layers.torch.matmul
        return {"dense": [lambda i: matmul(x, self.weights[i % len(self.weights)].t(), out=y)]}


class Cublaslt:
    """An algorithm that the library refuses to run is left out, and said."""
    names, formats, module, same_weights = ("cublaslt",), ("none",), "cublaslt", True

    def __init__(self, layer, _):
        import cublaslt
        self.layer, self.product, torch = layer, cublaslt.Product, layer.layers.torch
        self.workspace = torch.empty(cublaslt.WORKSPACE, dtype=torch.uint8, device="cuda")

    def functions(self, x):
        layer, m, torch = self.layer, len(x), self.layer.layers.torch
        product, found = self.product(layer.n, layer.k, m), []
        for algorithm in product.algorithms:
            def run(i, algorithm=algorithm, y=layer.result(m).fill_(float("nan"))):
                operands = layer.weights[i % layer.count]["b"], x, y, self.workspace
                product.run(algorithm, *(t.data_ptr() for t in operands),
                            torch.cuda.current_stream().cuda_stream)
                return y
            try:
                run(0)
            except RuntimeError as error:
                print(f"sweep_cuda.py: {layer.n} x {layer.k}, M = {m}: {error}", file=sys.stderr)
                continue
            found.append(run)
        return {"cublaslt": found}


class Bitsandbytes:
    names, formats, module = ("bitsandbytes", "bnb-kernel"), ("nf4",), "bitsandbytes"
    same_weights = True

    def __init__(self, layer, _):
        from bitsandbytes.cextension import lib
        self.layer, self.call = layer, lib.cgemm_4bit_bf16

    def functions(self, x):
        layer, y, torch = self.layer, self.layer.result(len(x)), self.layer.layers.torch

        def pick(i):
            w = layer.weights[i % layer.count]
            return torch.ops.bitsandbytes.gemm_4bit(x, w["b"].view(-1, 1), [layer.n, layer.k],
                                                    w["scales"], 64, "nf4")

        def kernel(i):
            w = layer.weights[i % layer.count]
            address = [ctypes.c_void_p(t.data_ptr()) for t in (x, w["b"], w["scales"])]
            self.call(*address, None, None, None, ctypes.c_void_p(y.data_ptr()), None, len(x),
                      layer.n, layer.k, 64, 2,
                      ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            return y
        return {"bitsandbytes": [pick], "bnb-kernel": [kernel]}


class Tinygemm:
    names, formats, module, same_weights = ("tinygemm",), ("int4",), "torch", True

    def __init__(self, layer, _):
        self.layer = layer
        self.packed = [[self.pack(w, tiles) for w in layer.weights] for tiles in (2, 4, 8)
                       if layer.k % (tiles * 16) == 0 and layer.n % 8 == 0]

    def functions(self, x):
        multiply = self.layer.layers.torch.ops.aten._weight_int4pack_mm

        def of(copies):
            def run(i):
                packed, scales_and_zeros = copies[i % len(copies)]
                return multiply(x, packed, 128, scales_and_zeros)
            return run
        return {"tinygemm": [of(copies) for copies in self.packed]}

    def pack(self, weights, tiles):
        """(q - 8) * scale + zero; the weight of even k is the high nibble of a byte."""
        torch = self.layer.layers.torch
        nibbles = (weights["b"] >> 4) | (weights["b"] << 4)
        both = torch.stack([weights["scales"], torch.zeros_like(weights["scales"])], -1)
        return (torch.ops.aten._convert_weight_to_int4pack(nibbles, tiles),
                both.transpose(0, 1).contiguous())


class Humming:
    """With weights of its own: the layout is its business. What is wrong is left out here."""
    names, formats, module = ("humming",), ("int4", "mxfp4"), "humming.testing.runner"
    same_weights = False

    def __init__(self, layer, options):
        import os
        from humming import dtypes
        from humming.config import ComputeConfig, GemmType, LayerConfig
        from humming.testing import runner
        self.layer, int4 = layer, layer.format == "int4"
        config = LayerConfig(
            shape_n=layer.n, shape_k=layer.k, a_dtype=dtypes.bfloat16, c_dtype=dtypes.bfloat16,
            b_dtype=dtypes.uint4 if int4 else dtypes.float4e2m1,
            bs_dtype=dtypes.bfloat16 if int4 else dtypes.float8e8m0,
            weight_scale_group_size=128 if int4 else 32)
        os.environ[runner.TEST_TUNING_SOURCE_ENV] = (
            f"heuristic+sampled{options.sampled}" if options.sampled else "heuristic")
        self.test = runner.KernelTestRunner(runner.KernelTestCase(
            name="peer", layer_config=config,
            compute_config=ComputeConfig(gemm_type=GemmType.DENSE)))
        first = self.test.kernel_tensors
        self.copies = [first] + [{k: v.clone() if v is not None else None
                                  for k, v in first.items()} for _ in range(layer.count - 1)]
        self.groups = self.test.prepare_kernels(tuple(options.rows))

    def functions(self, x):
        import torch
        from humming import ops
        y, found = self.layer.result(len(x)), []
        locks = torch.zeros(2048, dtype=torch.int32, device="cuda")
        right = x.float() @ self.test.weight_ref.float().t()
        for _, _, kernels in self.groups:
            for config, _, _ in kernels[len(x)]:
                def run(i, config=config):
                    ops.launch_kernel(configs=config, inputs=x, outputs=y, locks=locks, top_k=1,
                                      **self.copies[i % len(self.copies)])
                    return y
                try:
                    run(0)
                    torch.cuda.synchronize()
                except RuntimeError:
                    continue
                if apart(y, right) <= PEER_ERROR:
                    found.append(run)
        return {"humming": found}


def apart(y, right):
    """How far results are apart, of the largest."""
    return ((y.float() - right.float()).abs().max() / right.float().abs().max()).item()


def everyone():
    """Who is here."""
    for peer in (Quern, Dense, Cublaslt, Tinygemm, Bitsandbytes, Humming):
        try:
            importlib.import_module(peer.module)
            yield peer
        except (ImportError, OSError, RuntimeError) as missing:
            print(f"sweep_cuda.py: left out: {missing}", file=sys.stderr)


# ---- time ---------------------------------------------------------------------------------------


def shapes_of(name):
    import layers_cuda
    import hosts_cuda
    shapes = {"table": layers_cuda.TIMED, "marlin": MARLIN, "zoo": hosts_cuda.shapes}[name]
    shapes = shapes() if callable(shapes) else shapes
    if not shapes:
        sys.exit("sweep_cuda.py: build/hw/zoo is empty: hosts_cuda.py prepare fills it")
    return shapes


def time_all(options):
    sys.path[:0] = [str(p) for p in options.site]
    if options.bitsandbytes.is_dir():
        sys.path.insert(0, str(options.bitsandbytes.resolve().parent))
    from layers_cuda import quern, torch  # ends with 77 where one is missing
    if not torch.cuda.is_available():
        print("sweep_cuda.py: torch finds no GPU", file=sys.stderr)
        return 77
    rows, wrong, who = Rows(options.csv), 0, list(everyone())
    torch.manual_seed(1)
    with quern.Context(device="cuda") as options.ctx:
        for fmt in options.format:
            shapes = shapes_of(options.shapes)
            options.ctx.prewarm([f"{WORDS[fmt]} n={n} k={k} a=bf16" for n, k in shapes], m_max=64)
            for n, k in shapes:
                wrong += time_shape(rows, who, options, fmt, n, k)
                torch.cuda.empty_cache()
    print(f"{len(rows.done)} rows, {wrong} wrong")
    return 1 if wrong else 0


def time_shape(rows, who, options, fmt, n, k):
    """Times whatever of this shape is not in the file; how many results were wrong."""
    layer, wrong = None, 0
    for make in who:
        todo = [m for m in options.rows if any(not rows.has(fmt, n, k, m, name)
                                               for name in make.names)]
        if fmt not in make.formats or not todo:
            continue
        layer = layer or Layer(fmt, n, k)
        peer = make(layer, options)
        for m in todo:
            wrong += time_rows(rows, layer, peer, options, m)
        del peer  # its weights, before the next one's
        layer.layers.torch.cuda.empty_cache()
    return wrong


def time_rows(rows, layer, peer, options, m):
    """Times a peer for m rows; how many of its results were wrong."""
    x, wrong = layer.activations(m), 0
    for name, functions in peer.functions(x).items():
        key = (layer.format, layer.n, layer.k, m, name)
        if rows.has(*key):
            continue
        errors = [0.0] * len(functions)
        if peer.same_weights:
            ours = Quern(layer, options).functions(x)["quern"][0](0)
            errors = [apart(f(0), ours) for f in functions]
        right = [f for f, error in zip(functions, errors) if error <= PEER_ERROR]
        if len(right) < len(functions):
            print(f"sweep_cuda.py: {key}: {errors} from quern's", file=sys.stderr)
            wrong += len(functions) - len(right)
        if right:
            us = min(layer.layers.microseconds(f) for f in right)
            size = 2 * layer.n * layer.k if name == "dense" else layer.bytes
            rows.add(*key, f"{us:.2f}", f"{size / us / 1e6:.3f}")
    return wrong


# ---- what it says -------------------------------------------------------------------------------


def by_shape(options):
    """{format: {(n, k): {(m, who): (us, tb_s)}}} of the file."""
    found = {}
    for row in Rows(options.csv).done.values():
        shape = found.setdefault(row["format"], {}).setdefault((int(row["n"]), int(row["k"])), {})
        shape[int(row["m"]), row["who"]] = float(row["us"]), float(row["tb_s"])
    return found


def times_as_long(shapes, who, most):
    """How many times as long as quern somebody takes for up to so many rows, by (N, K, M)."""
    return {(n, k, m): cells[m, who][0] / us for (n, k), cells in shapes.items()
            for (m, name), (us, _) in cells.items()
            if name == "quern" and m <= most and (m, who) in cells}


def print_times_as_long(who, ratios):
    n, k, m = least = min(ratios, key=ratios.get)
    slower, far = (sum(r < limit for r in ratios.values()) for limit in (1, 0.97))
    print(f"{who}'s time by quern's, M up to {FEW}: {len(ratios)} cells of "
          f"{len({key[:2] for key in ratios})} shapes, median "
          f"{statistics.median(ratios.values()):.3f}, least {ratios[least]:.3f} ({n} x {k}, "
          f"M = {m}), {far} below 0.97, {slower} below 1\n")


def table(options):
    for fmt, shapes in by_shape(options).items():
        ratios = times_as_long(shapes, "cublaslt", max(m for c in shapes.values() for m, _ in c))
        last = ["cublaslt by quern"] if ratios else []
        who = sorted({w for cells in shapes.values() for _, w in cells},
                     key=lambda w: (w != "quern", w))
        rows = sorted({m for cells in shapes.values() for m, _ in cells})
        print(f"{fmt}, µs (quern also TB/s):\n\n| N x K | M | " + " | ".join(who + last) + " |\n"
              + "|---" * (2 + len(who + last)) + "|")
        for (n, k), cells in sorted(shapes.items(), key=lambda item: -item[0][0] * item[0][1]):
            for m in rows:
                words = [f"{cells[m, w][0]:.2f}" + (f" ({cells[m, w][1]:.2f})" if w == "quern"
                                                    else "")
                         if (m, w) in cells else "" for w in who]
                words += [f"{ratios[n, k, m]:.3f}" if (n, k, m) in ratios else "" for _ in last]
                print(f"| {n} x {k} | {m} | " + " | ".join(words) + " |")
        print()
        for peer in ("cublaslt", "dense") if fmt == "none" else ():
            if few := times_as_long(shapes, peer, FEW):
                print_times_as_long(peer, few)
    return 0


def chart(options):
    """How many times as fast as torch's product in bf16 each is, by the size of the layer."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "quern", "font.size": 9})
    import matplotlib.pyplot as plt
    data = by_shape(options)
    rows = [m for m in ROWS if any((m, "dense") in c for s in data.values() for c in s.values())]
    figure, axes = plt.subplots(len(data), len(rows), squeeze=False, sharex=True, sharey=True,
                                figsize=(3 * len(rows), 3.4 * len(data)))
    for line, (fmt, shapes) in zip(axes, data.items()):
        for axis, m in zip(line, rows):
            cells = {nk: c for nk, c in shapes.items() if (m, "dense") in c and (m, "quern") in c}
            dense = {nk: c[m, "dense"][0] for nk, c in cells.items()}
            for who in sorted({w for c in cells.values() for r, w in c if r == m} - {"dense"}):
                points = sorted((n * k, dense[n, k] / c[m, who][0])
                                for (n, k), c in cells.items() if (m, who) in c)
                axis.plot(*zip(*points), ".", label=who, markersize=4)
            limit = sorted((n * k, dense[n, k] * HBM / (c[m, "quern"][0] * c[m, "quern"][1]))
                           for (n, k), c in cells.items())
            axis.plot(*zip(*limit), "_", color="gray", label="limit", markersize=4)
            axis.axhline(1, color="black", linewidth=0.5)
            axis.set(xscale="log", yscale="log", title=f"{fmt}, M = {m}")
    axes[0][0].legend(fontsize=7)
    figure.supxlabel("N x K")
    figure.supylabel("times as fast as bf16 by torch")
    figure.tight_layout()
    figure.savefig(options.svg, metadata={"Date": None})
    return 0


def model(options):
    """The model's microseconds against those that were measured."""
    command = TOP / "build/release/bin/quern"
    print("| | cells | within | least | median | most |\n|---|---|---|---|---|---|")
    data, beyond = by_shape(options), []
    for fmt, shapes in data.items():
        ratios = []
        for (n, k), cells in shapes.items():
            for m in sorted(m for m, who in cells if who == "quern" and m <= options.most):
                done = subprocess.run(
                    [command, "explain", "--json", "--target", "sm_90", "--m", str(m),
                     f"{MODELLED[fmt]} n={n} k={k}"], capture_output=True, text=True, check=True)
                expected = json.loads(done.stdout)["explanations"][0]["expected_us"]
                ratios.append(expected / cells[m, "quern"][0])
                if abs(ratios[-1] - 1) > options.within / 100:
                    beyond.append(f"{fmt} {n} x {k}, M = {m}: {expected:.1f} us expected, "
                                  f"{cells[m, 'quern'][0]:.1f} measured")
        close = sum(abs(r - 1) <= options.within / 100 for r in ratios)
        print(f"| {fmt} | {len(ratios)} | {close} | {min(ratios):.2f} | "
              f"{statistics.median(ratios):.2f} | {max(ratios):.2f} |")
    print("\n".join(beyond))
    return 0


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    timing, printing, drawing, judging = (verbs.add_parser(name)
                                          for name in ("time", "table", "chart", "model"))
    for verb, run in ((timing, time_all), (printing, table), (drawing, chart), (judging, model)):
        verb.set_defaults(run=run)
        verb.add_argument("csv", type=pathlib.Path)
    drawing.add_argument("svg", type=pathlib.Path)
    judging.add_argument("--most", type=int, default=16, metavar="M")
    judging.add_argument("--within", type=float, default=15, metavar="PERCENT")
    timing.add_argument("--format", nargs="+", choices=WORDS, default=list(WORDS))
    timing.add_argument("--shapes", choices=("table", "marlin", "zoo"), default="table")
    timing.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    timing.add_argument("--sampled", type=int, default=16, metavar="S")
    timing.add_argument("--bitsandbytes", type=pathlib.Path, metavar="DIR",
                        default=TOP / "build/hw/bitsandbytes")
    timing.add_argument("--site", type=pathlib.Path, nargs="*", default=[], metavar="DIR")
    options = parser.parse_args(words)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
