#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How well the model orders the shapes that a kernel may have on the NVIDIA GPU of this machine,
and how much faster than its choice the fastest of them is.

    tune_cuda.py time FILE [--format F…] [--shape NxK…] [--rows M…] [--tried S] [--spread]
                 [--ahead JOBS]
    tune_cuda.py table FILE…    what the files say, Markdown; needs no GPU

A cell is a format (nf4, int4, mxfp4, fp8, none; A and C of bf16), N, K and M. `time` has `quern
tune --dry-run` measure in each cell the S shapes (16, at most 256) that the model ranks best, or
with --spread its choice and S - 1 from the whole of its order, as far apart from each other. It
adds a line of JSON to FILE, and leaves out cells that FILE has, so that it may be stopped and
started again. Most of the time goes into compiling, one kernel after the other: with --ahead so
many cells at a time are measured once before, to have their kernels in the cache, and what that
run measured is not kept.

`table` prints of each cell Spearman's rank correlation between the times that the model expects of
its shapes and those that were measured, the microseconds of the model's choice and of the fastest
shape, by how many per cent the latter are fewer, and the fastest's place in the model's order; then
medians and means over cells. `quern tune` notes a shape only if it takes less than 98 % of the time
of the model's choice: its gain counts other cells as 0. It measures the model's choice and the
fastest twice and keeps the shorter time, the others once.

It needs the built command, and no torch. Exit status 1: a cell could not be measured.
"""
import argparse
import bisect
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
FORMATS = ("nf4", "int4", "mxfp4", "fp8", "none")
SHAPES = ["28672x4096", "57344x8192", "4096x14336", "12288x4096", "19456x2560", "4096x4096",
          "1024x4096"]  # N x K, as in layers_cuda.py
ROWS = (1, 8, 16, 32)
CELL = ("format", "n", "k", "m")
WORTH = 0.98  # of the choice's time: a shape that takes less is noted (tools/verbs/verb_tune.c)


# ---- time ---------------------------------------------------------------------------------------


def tune(options, cell, rotate, stderr=None):
    """What `quern tune --json` says of a cell; None if it fails, which it tells on stderr."""
    fmt, n, k, m = cell
    spread = ["--spread"] if options.spread else []
    done = subprocess.run(
        [options.command, "tune", "--dry-run", "--json", "--device", options.device, "--m", str(m),
         "--shapes", str(options.tried), *spread, "--rotate", rotate,
         f"wq={fmt} n={n} k={k} a=bf16"],
        stdout=subprocess.PIPE, stderr=stderr, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def lines_of(path):
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def time_all(options):
    done = {tuple(line[c] for c in CELL) for line in lines_of(options.file)}
    cells = [(fmt, n, k, m) for fmt in options.format for n, k in options.shape
             for m in options.rows if (fmt, n, k, m) not in done]
    if options.ahead:
        with concurrent.futures.ThreadPoolExecutor(options.ahead) as pool:
            list(pool.map(lambda c: tune(options, c, "1K", subprocess.DEVNULL), cells))
    failed = 0
    for cell in cells:
        report = tune(options, cell, options.rotate)
        if not report:
            print(f"tune_cuda.py: not measured: {cell}", file=sys.stderr)
            failed += 1
            continue
        (kernel,) = report["kernels"]
        line = dict(zip(CELL, cell), device=report["device"], target=report["target"],
                    kernel=kernel)
        with open(options.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(" | ".join(words_of(line)), flush=True)
    return 1 if failed else 0


# ---- What it says -------------------------------------------------------------------------------


def ranks(values):
    """The place of each value among all, from 0; equal ones share the mean of their places."""
    order = sorted(values)
    return [(bisect.bisect_left(order, v) + bisect.bisect_right(order, v) - 1) / 2 for v in values]


def rank_correlation(a, b):
    """Spearman's, from -1 to 1; None where there are fewer than two, or all of one are equal."""
    mean = (len(a) - 1) / 2
    x, y = ([r - mean for r in ranks(values)] for values in (a, b))
    size = math.sqrt(sum(r * r for r in x) * sum(r * r for r in y))
    return sum(p * q for p, q in zip(x, y)) / size if size else None


def judged(kernel):
    """Of what was measured of a kernel: how many shapes, the rank correlation, the fastest's time
    (which is the choice's if that was faster when both were measured again), by which part of the
    choice's it is less, and that shape's place in the model's order, from 1."""
    measured = [s for s in kernel["measured"] if s["us"] is not None]
    correlation = rank_correlation([s["model_us"] for s in measured], [s["us"] for s in measured])
    choice, us, place = kernel["model_choice_us"], kernel["us"], 1
    if us < choice:
        place += [s["shape"] for s in kernel["measured"]].index(kernel["shape"])
    return len(measured), correlation, min(us, choice), 1 - min(us, choice) / choice, place


def words_of(line):
    """The cells of a row of the table."""
    kernel = line["kernel"]
    count, correlation, us, gain, place = judged(kernel)
    rows = str(line["m"]) + (f" (of {kernel['m']})" if kernel["m"] != line["m"] else "")
    return [line["format"], f"{line['n']} x {line['k']}", rows, str(count),
            "none" if correlation is None else f"{correlation:.2f}",
            f"{kernel['model_choice_us']:.2f}", f"{us:.2f}", f"{100 * gain:.1f}", str(place)]


def summary(name, lines):
    """The words of a row over cells."""
    results = [judged(line["kernel"]) for line in lines]
    correlations = [r[1] for r in results if r[1] is not None]
    gains = [100 * r[3] for r in results]
    noted = [gain if gain > 100 * (1 - WORTH) else 0 for gain in gains]
    middle = f"{statistics.median(correlations):.2f}" if correlations else "none"
    return [name, str(len(results)), middle, f"{min(correlations, default=math.nan):.2f}",
            f"{statistics.mean(gains):.1f}", f"{statistics.median(gains):.1f}",
            f"{max(gains):.1f}", f"{statistics.mean(noted):.1f}"]


def print_table(heads, rows):
    for row in [heads, ["---"] * len(heads), *rows]:
        print("| " + " | ".join(row) + " |")
    print()


def table(options):
    lines = [line for path in options.file for line in lines_of(path)]
    if not lines:
        print("tune_cuda.py: the files have no cells", file=sys.stderr)
        return 1
    print_table(["format", "N x K", "M", "shapes", "rank correlation", "model's choice, us",
                 "fastest, us", "% less", "its place in the model's order"], map(words_of, lines))
    groups = {fmt: [x for x in lines if x["format"] == fmt] for fmt in FORMATS}
    groups |= {f"M = {m}": [x for x in lines if x["m"] == m]
               for m in sorted({x["m"] for x in lines})}
    print_table(["", "cells", "median rank correlation", "least", "% less on average", "median",
                 "most", "on average, of quern tune"],
                [summary(name, some) for name, some in groups.items() if some]
                + [summary("all", lines)])
    return 0


def shape(text):
    n, k = map(int, text.split("x"))
    return n, k


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    timing, printing = verbs.add_parser("time"), verbs.add_parser("table")
    timing.set_defaults(run=time_all)
    timing.add_argument("file", type=pathlib.Path)
    timing.add_argument("--format", nargs="+", choices=FORMATS, default=list(FORMATS))
    timing.add_argument("--shape", nargs="+", type=shape, metavar="NxK",
                        default=[shape(text) for text in SHAPES])
    timing.add_argument("--rows", type=int, nargs="+", default=list(ROWS), metavar="M")
    timing.add_argument("--tried", type=int, default=16, metavar="S")
    timing.add_argument("--spread", action="store_true")
    timing.add_argument("--ahead", type=int, default=0, metavar="JOBS")
    timing.add_argument("--rotate", default="512M", metavar="BYTES")
    timing.add_argument("--device", default="cuda")
    timing.add_argument("--command", default=str(TOP / "build/release/bin/quern"), metavar="PATH")
    printing.set_defaults(run=table)
    printing.add_argument("file", type=pathlib.Path, nargs="+")
    options = parser.parse_args(words)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
