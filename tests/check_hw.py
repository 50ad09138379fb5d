#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what kernels assume of the GPU of this machine, and runs layers on it and on the
software GPU of the same target, with the same operands: every bit of the answers is compared, the
software GPU adding as captured silicon does. Exit status: 0 all the same, 1 not, 77 no GPU.

One report file has all that a bug report needs: what `quern doctor` says, what `quern probe`
measured, each comparison of some layers of every format and of a covering array, and times.
Anything that presents itself as libamdhip64 will do for a GPU, an emulator too.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
SKIP = 77

# every weight format, type and kind of scale; rows that one kernel serves, and slices
LAYERS = [
    "wq=nf4 n=96 k=256 a=bf16 bias=1",
    "wq=nf4 n=64 k=512 a=f32 scale=nested",
    "wq=fp4 n=130 k=512 group=128 a=f16",
    "wq=mxfp4 n=72 k=288 a=bf16 c=f32",
    "wq=int4 zero=u8 n=64 k=256 a=bf16",
    "wq=int4 zero=scaled group=32 n=48 k=512 a=f16 layout=exl",
    "wq=none n=72 k=260 a=f16 bias=1",
    "wq=none n=64 k=128 a=f32",
    "wq=fp8 n=64 k=256 a=fp8 c=bf16",
    "op=dequant wq=nf4 n=48 k=256 c=bf16",
]
ROWS = "1,2,3,4,7,8,16,21,64,70"
# Every pair of these is in some problem of the covering array.
PROPERTIES = {
    "wq": ["nf4", "nf4 scale=nested", "fp4", "fp4 scale=nested", "mxfp4", "int4", "int4 zero=u8",
           "int4 zero=scaled", "none", "fp8"],
    "a": ["f32", "f16", "bf16"],
    "c": ["f32", "f16", "bf16"],
    "bias": [0, 1],
    "group": [32, 64, 128, 256],
    "n": [1, 37, 64, 130, 257],
    "groups": [1, 3, 5],  # of a row: K is so many
    "m": [1, 2, 3, 5, 8, 13, 16, 32, 64, 130],
}  # fmt: skip
# Programs of tests/sim that hold a GPU to what others captured on one, or say of theirs: sums of
# products, by captures and by the rules that give them; single instructions; reciprocals and such.
CAPTURES = (
    "test_sim_adders",
    "test_sim_captures",
    "test_sim_masks",
    "test_sim_sums",
    "test_sim_silicon",
    "test_sim_trans",
)
TIMED = ["wq=nf4 n=4096 k=4096 a=bf16", "wq=nf4 n=4096 k=4096 a=f16 scale=nested"]

# sizes of one element of each operand's type, and how a number of ordinary size is written in it
FORMATS = {"f32": "f", "f16": "e"}


class Quern:
    def __init__(self, command, scratch):
        self.command = command
        self.env = {**os.environ, "QUERN_CACHE_DIR": str(scratch / "cache")}

    def __call__(self, *words):
        return subprocess.run([self.command, *map(str, words)], env=self.env, timeout=1800,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def text(self, *words):
        done = self(*words)
        return done.stdout + done.stderr


def numbers(dtype, count, rng):
    if dtype == "fp8":  # e4m3: ordinary numbers of both signs
        return bytes(rng.randrange(0x20, 0x48) | rng.randrange(2) << 7 for _ in range(count))
    values = [rng.uniform(-1, 1) for _ in range(count)]
    if dtype in FORMATS:
        return struct.pack(f"<{count}{FORMATS[dtype]}", *values)
    assert dtype == "bf16", dtype
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def words_of(problem):
    return dict(word.split("=") for word in problem.split())


def operands(quern, problem, m, directory):
    """Files for every operand; returns "name=file" words but for c."""
    words = words_of(problem)
    n, k = int(words["n"]), int(words["k"])
    rng = random.Random(problem)
    weights = directory / "w.f32"
    weights.write_bytes(struct.pack(f"<{n * k}f", *(rng.gauss(0, 1) for _ in range(n * k))))
    out = directory / "weights"
    done = quern("quantize", problem, f"w={weights}", "--out", out)
    if done.returncode:
        raise RuntimeError(done.stderr)
    files = {path.name: path for path in out.iterdir()}
    if words.get("op") != "dequant":
        files["a"] = directory / f"a{m}"
        files["a"].write_bytes(numbers(words["a"], m * k, rng))
    if words.get("a") == "fp8":
        files["a_scale"] = directory / "a_scale"
        files["a_scale"].write_bytes(struct.pack("<f", 0.25))
    if words.get("bias") == "1":
        files["bias"] = directory / "bias"
        files["bias"].write_bytes(numbers(words.get("c", words["a"]), n, rng))
    return [f"{name}={path}" for name, path in files.items()]


def covering():
    """(problem, m) such that each value of a property meets each of every other."""
    names = list(PROPERTIES)
    pairs = {(x, u, y, v) for x in names for y in names if x < y
             for u in range(len(PROPERTIES[x])) for v in range(len(PROPERTIES[y]))}
    rng = random.Random(1)
    while pairs:
        best = set()
        for _ in range(40):
            row = {x: rng.randrange(len(PROPERTIES[x])) for x in names}
            x, u, y, v = min(pairs)  # so that every row covers one
            row |= {x: u, y: v}
            covered = {p for p in pairs if row[p[0]] == p[1] and row[p[2]] == p[3]}
            if len(covered) > len(best):
                best, chosen = covered, row
        pairs -= best
        p = {x: PROPERTIES[x][i] for x, i in chosen.items()}
        has_group = p["wq"].split()[0] not in ("none", "fp8", "mxfp4")
        group = f" group={p['group']}" if has_group else ""
        yield (f"wq={p['wq']} n={p['n']} k={p['group'] * p['groups']} a={p['a']} c={p['c']} "
               f"bias={p['bias']}{group}", p["m"])


def compare(quern, problem, m, target, scratch):
    """What is wrong, or None."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        directory = pathlib.Path(name)
        inputs = operands(quern, problem, m, directory)
        files = [directory / name for name in ("gpu", "sim")]
        steps = (
            ("run", "--device", "hip", "--m", m, problem, *inputs, f"c={files[0]}"),
            ("build", "--target", target, "--m", m, "--out", directory / "plan", problem),
            ("sim", directory / "plan/plan.json", "--check=fast", "--arithmetic=silicon", *inputs,
             f"c={files[1]}"),
        )
        for step in steps:
            done = quern(*step)
            if done.returncode:
                return f"{step[0]}: {done.stderr.strip()}"
        gpu, sim = (file.read_bytes() for file in files)
    if gpu == sim:
        return None
    wrong = [i for i in range(len(sim)) if gpu[i] != sim[i]]
    return f"{len(wrong)} of {len(sim)} bytes differ, the first at {wrong[0]}"


def run(quern, report, scratch, layers, rows):
    found = json.loads(quern("doctor", "--json").stdout)
    report(quern.text("doctor"))
    first = quern("time", "--device", "hip", "--json", "--m", "1", "--rotate", "1M",
                  "wq=nf4 n=64 k=256 a=bf16")
    if first.returncode:
        why = json.loads(first.stderr.splitlines()[-1])["error"]
        report(f"no GPU that quern can use: {why}")
        # a GPU that is there and does not work is a failure, not a reason to skip
        there = any(f["subject"] == "device" and f["text"].startswith("0: ") for f in found)
        return 1 if there else SKIP
    target = json.loads(first.stdout)["target"].split(":")[0]
    probed = quern("probe", "--device", "hip")
    report(probed.stdout + probed.stderr)
    failed = int(probed.returncode != 0)
    for name in CAPTURES:
        program = quern.command.parents[1] / "tests/sim" / name
        if program.exists():  # not of an installed quern
            done = subprocess.run([program], env={**quern.env, "QUERN_DEVICE": "hip"},
                                  capture_output=True, text=True)
            failed += done.returncode != 0
            report(f"{name} on the GPU, status {done.returncode}:\n" + done.stdout + done.stderr)
    cases = [(p, m) for p in layers for m in (rows if "dequant" not in p else [1])]
    for problem, m in cases + (list(covering()) if layers is LAYERS else []):
        planned = quern("explain", "--target", target, "--m", m, problem)
        if planned.returncode:  # such as fp8 where a target has no kernel for it
            report(f"declined  {problem}  m={m}: {planned.stderr.strip()}")
            continue
        wrong = compare(quern, problem, m, target, scratch)
        failed += wrong is not None
        report(f"{'not ok' if wrong else 'ok'}  {problem}  m={m}" +
               (f": {wrong}" if wrong else ""))
    for problem in TIMED:
        if report.times:
            report(quern.text("time", "--device", "hip", "--m", "1,2,4,8", problem))
    report(f"{failed} failed")
    return 1 if failed else 0


class Report:
    def __init__(self, path, times):
        self.path, self.times, self.lines = path, times, []

    def __call__(self, text):
        print(text, flush=True)
        self.lines.append(text)
        self.path.write_text("\n".join(self.lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", default=TOP / "build/release/bin/quern", type=pathlib.Path)
    parser.add_argument("--report", default=TOP / "build/hw-report.txt", type=pathlib.Path)
    parser.add_argument("layers", nargs="*", help="problem texts (default: one of every format)")
    parser.add_argument("--rows", default=ROWS, help=f"values of M (default {ROWS})")
    parser.add_argument("--no-times", action="store_true", help="compare answers only")
    options = parser.parse_args()
    report = Report(options.report, not options.no_times)
    report(f"quern on hardware, {datetime.datetime.now(datetime.timezone.utc):%F %TZ}")
    with tempfile.TemporaryDirectory(prefix="quern-hw-") as name:
        scratch = pathlib.Path(name)
        quern = Quern(options.command.resolve(), scratch)
        report(quern.text("--version").strip())
        rows = [int(m) for m in options.rows.split(",")]
        status = run(quern, report, scratch, options.layers or LAYERS, rows)
    print(f"report: {options.report}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
