#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times quern and what can be run beside it on the NVIDIA GPU of this machine, in one run.

    sweep_cuda.py time CSV [--format F…] [--shapes table|marlin|zoo] [--rows M…] [--sampled S]
    sweep_cuda.py table CSV     what the file says, a Markdown table for each format
    sweep_cuda.py chart CSV SVG a chart of it (needs matplotlib): how many times as fast as torch's
                                dense product each is, and would be at the memory's peak

Formats: nf4 (groups of 64, f32 scales), int4 (groups of 128, bf16 scales), mxfp4; A and C are bf16.
`time` adds rows to CSV and leaves out what it has already, so that it may be stopped and started
again. A row is format, N, K, M, who, microseconds a launch, TB/s of the format's packed weights and
scales (of `dense`: of weights in bf16). Who:

    quern          plain launches
    dense          torch.matmul in bf16, which is cuBLASLt
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
and of each peer are compared where they have the same weights. Exit status 1: a result is wrong;
77: no GPU.
"""
import argparse
import csv
import ctypes
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/hw")]
COLUMNS = ("format", "n", "k", "m", "who", "us", "tb_s")
ROWS = (1, 4, 8, 16, 32, 64)
MARLIN = [(8192, 8192), (8192, 16384), (16384, 8192), (7168, 20480), (20480, 7168),
          (8192, 81920), (81920, 8192)]
WORDS = {"nf4": "wq=nf4", "int4": "wq=int4", "mxfp4": "wq=mxfp4"}
PEER_ERROR = 2e-2  # of the largest result; both round weights or sums to bf16
HBM = 4.8  # TB/s, NVIDIA's data sheet of the H200


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
    Those who need another layout make it of these; the first is what results are compared of."""

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


class Quern:
    names = ("quern",)

    def __init__(self, ctx):
        self.ctx = ctx

    def functions(self, layer, x):
        torch, launch = layer.layers.torch, layer.layers.launch
        op = self.ctx.op(f"{WORDS[layer.format]} n={layer.n} k={layer.k} a=bf16", m_max=64)
        y = torch.empty(len(x), layer.n, device="cuda", dtype=torch.bfloat16)

        def run(i):
            launch(op, len(x), a=x, c=y, **layer.weights[i % layer.count])
            return y
        return {"quern": [run]}


class Dense:
    names = ("dense",)

    def functions(self, layer, x):
        torch, n, k = layer.layers.torch, layer.n, layer.k
        if getattr(self, "of", None) is not layer:
            self.of = layer
            self.weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
                            for _ in range(layer.layers.copies_of(2 * n * k, 8))]
        y = torch.empty(len(x), n, device="cuda", dtype=torch.bfloat16)
        return {"dense": [lambda i: torch.matmul(x, self.weights[i % len(self.weights)].t(),
                                                 out=y)]}


class Bitsandbytes:
    names = ("bitsandbytes", "bnb-kernel")

    def __init__(self):
        import bitsandbytes  # noqa: F401
        from bitsandbytes.cextension import lib
        self.call = lib.cgemm_4bit_bf16

    def functions(self, layer, x):
        if layer.format != "nf4":
            return {}
        torch, n, k = layer.layers.torch, layer.n, layer.k
        y = torch.empty(len(x), n, device="cuda", dtype=torch.bfloat16)

        def pick(i):
            w = layer.weights[i % layer.count]
            return torch.ops.bitsandbytes.gemm_4bit(x, w["b"].view(-1, 1), [n, k], w["scales"], 64,
                                                    "nf4")

        def kernel(i):
            w = layer.weights[i % layer.count]
            address = [ctypes.c_void_p(t.data_ptr()) for t in (x, w["b"], w["scales"])]
            self.call(*address, None, None, None, ctypes.c_void_p(y.data_ptr()), None, len(x), n, k,
                      64, 2, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            return y
        return {"bitsandbytes": [pick], "bnb-kernel": [kernel]}


class Tinygemm:
    names = ("tinygemm",)

    def functions(self, layer, x):
        torch = layer.layers.torch
        if layer.format != "int4" or layer.n % 8:
            return {}
        if getattr(self, "of", None) is not layer:
            self.of, self.packed = layer, {}
            for tiles in (2, 4, 8):
                if layer.k % (tiles * 16) == 0:
                    self.packed[tiles] = [self.pack(torch, w, tiles) for w in layer.weights]

        def of(packed):
            return lambda i: torch.ops.aten._weight_int4pack_mm(
                x, packed[i % layer.count][0], 128, packed[i % layer.count][1])
        return {"tinygemm": [of(packed) for packed in self.packed.values()]}

    @staticmethod
    def pack(torch, weights, tiles):
        """(q - 8) * scale + zero; the weight of even k is the high nibble of a byte."""
        nibbles = (weights["b"] >> 4) | (weights["b"] << 4)
        both = torch.stack([weights["scales"], torch.zeros_like(weights["scales"])], -1)
        return (torch.ops.aten._convert_weight_to_int4pack(nibbles, tiles),
                both.transpose(0, 1).contiguous())


class Humming:
    """With weights of its own: the layout is its business, and its runner checks results."""
    names = ("humming",)

    def __init__(self, sampled, rows):
        from humming.config import ComputeConfig, GemmType, LayerConfig
        from humming.testing import runner
        self.runner, self.sampled, self.rows = runner, sampled, rows
        self.compute = ComputeConfig(gemm_type=GemmType.DENSE)
        self.make = LayerConfig

    def functions(self, layer, x):
        if layer.format not in ("int4", "mxfp4"):
            return {}
        if getattr(self, "of", None) is not layer:
            self.of = layer
            self.prepare(layer)
        return {"humming": self.kernels(layer, x)}

    def prepare(self, layer):
        import os
        from humming import dtypes
        bf16, group = dtypes.bfloat16, 128 if layer.format == "int4" else 32
        config = self.make(
            shape_n=layer.n, shape_k=layer.k, a_dtype=bf16, c_dtype=bf16,
            b_dtype=dtypes.uint4 if layer.format == "int4" else dtypes.float4e2m1,
            bs_dtype=bf16 if layer.format == "int4" else dtypes.float8e8m0,
            weight_scale_group_size=group)
        os.environ[self.runner.TEST_TUNING_SOURCE_ENV] = (
            f"heuristic+sampled{self.sampled}" if self.sampled else "heuristic")
        case = self.runner.KernelTestCase(name="peer", layer_config=config,
                                          compute_config=self.compute)
        self.test = self.runner.KernelTestRunner(case)
        first = self.test.kernel_tensors
        self.copies = [first] + [{k: v.clone() if v is not None else None
                                  for k, v in first.items()} for _ in range(layer.count - 1)]
        self.groups = self.test.prepare_kernels(tuple(self.rows))

    def kernels(self, layer, x):
        import torch
        from humming import ops
        m, found = len(x), []
        y = torch.empty(m, layer.n, device="cuda", dtype=torch.bfloat16)
        locks = torch.zeros(2048, dtype=torch.int32, device="cuda")
        right = None
        for _, _, kernels in self.groups:
            for config, _, _ in kernels[m]:
                def run(i, config=config):
                    ops.launch_kernel(configs=config, inputs=x, outputs=y, locks=locks,
                                      top_k=1, **self.copies[i % layer.count])
                    return y
                if right is None:
                    right = x.float() @ self.test.weight_ref.float().t()
                try:
                    run(0)
                    torch.cuda.synchronize()
                except RuntimeError:
                    continue
                if ((y.float() - right).abs().max() / right.abs().max()).item() <= PEER_ERROR:
                    found.append(run)
        return found


def everyone(options, ctx):
    """Who is here."""
    yield Quern(ctx)
    yield Dense()
    yield Tinygemm()
    for make in (Bitsandbytes, lambda: Humming(options.sampled, options.rows)):
        try:
            yield make()
        except (ImportError, OSError, AttributeError, RuntimeError) as missing:
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
    rows, wrong = Rows(options.csv), 0
    torch.manual_seed(1)
    with quern.Context(device="cuda") as ctx:
        who = list(everyone(options, ctx))
        for fmt in options.format:
            shapes = shapes_of(options.shapes)
            ctx.prewarm([f"{WORDS[fmt]} n={n} k={k} a=bf16" for n, k in shapes], m_max=64)
            for n, k in shapes:
                wrong += time_shape(rows, who, options.rows, fmt, n, k)
                torch.cuda.empty_cache()
    print(f"{len(rows.done)} rows, {wrong} wrong")
    return 1 if wrong else 0


def time_shape(rows, who, all_m, fmt, n, k):
    """Times whatever of this shape is not in the file; how many results were wrong."""
    import torch
    layer, wrong = None, 0
    for peer in who:
        for m in all_m:
            if all(rows.has(fmt, n, k, m, name) for name in peer.names):
                continue
            layer = layer or Layer(fmt, n, k)
            x = layer.activations(m)
            for name, functions in peer.functions(layer, x).items():
                if rows.has(fmt, n, k, m, name) or not functions:
                    continue
                if name not in ("quern", "dense", "humming"):
                    wrong += sum(differs(who[0], layer, x, f, name) for f in functions)
                us = min(layer.layers.microseconds(f) for f in functions)
                size = 2 * n * k if name == "dense" else layer.bytes
                rows.add(fmt, n, k, m, name, f"{us:.2f}", f"{size / us / 1e6:.3f}")
        for name in ("of", "packed", "weights", "copies", "test", "groups"):
            peer.__dict__.pop(name, None)  # a layer's weights, before the next peer's
        torch.cuda.empty_cache()
    return wrong


def differs(quern, layer, x, function, name):
    ours = quern.functions(layer, x)["quern"][0](0).clone().float()
    theirs = function(0).float()
    error = ((ours - theirs).abs().max() / ours.abs().max()).item()
    if error <= PEER_ERROR:
        return 0
    print(f"sweep_cuda.py: {layer.format} {layer.n}x{layer.k} M={len(x)}: {name} and quern are "
          f"{error:.1e} apart", file=sys.stderr)
    return 1


# ---- what it says -------------------------------------------------------------------------------


def by_shape(options):
    """{format: {(n, k): {(m, who): (us, tb_s)}}} of the file."""
    found = {}
    for row in Rows(options.csv).done.values():
        shape = found.setdefault(row["format"], {}).setdefault((int(row["n"]), int(row["k"])), {})
        shape[int(row["m"]), row["who"]] = float(row["us"]), float(row["tb_s"])
    return found


def table(options):
    for fmt, shapes in by_shape(options).items():
        who = sorted({w for cells in shapes.values() for _, w in cells},
                     key=lambda w: (w != "quern", w))
        rows = sorted({m for cells in shapes.values() for m, _ in cells})
        print(f"{fmt}, µs (quern also TB/s):\n\n| N x K | M | " + " | ".join(who) + " |\n"
              + "|---" * (2 + len(who)) + "|")
        for (n, k), cells in sorted(shapes.items(), key=lambda item: -item[0][0] * item[0][1]):
            for m in rows:
                words = [f"{cells[m, w][0]:.2f}" + (f" ({cells[m, w][1]:.2f})" if w == "quern"
                                                    else "")
                         if (m, w) in cells else "" for w in who]
                print(f"| {n} x {k} | {m} | " + " | ".join(words) + " |")
        print()
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


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    timing, printing, drawing = (verbs.add_parser(name) for name in ("time", "table", "chart"))
    for verb, run in ((timing, time_all), (printing, table), (drawing, chart)):
        verb.set_defaults(run=run)
        verb.add_argument("csv", type=pathlib.Path)
    drawing.add_argument("svg", type=pathlib.Path)
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
