#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs layers on the GPU of this machine and on the software GPU of the same target, with the same
operands, and compares every bit of the answers. Exit status: 0 all the same, 1 not, 77 no GPU.

One report file has all that a bug report needs: what `quern doctor` says, each comparison, and
times. Anything that presents itself as libamdhip64 will do for a GPU, an emulator too.
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


def compare(quern, problem, m, target, scratch):
    """What is wrong, or None."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        directory = pathlib.Path(name)
        inputs = operands(quern, problem, m, directory)
        answers = []
        for device in (["--device", "hip"], ["--device", "sim", "--target", target]):
            c = directory / f"c-{device[1]}"
            done = quern("run", *device, "--m", m, problem, *inputs, f"c={c}")
            if done.returncode:
                return f"{device[1]}: {done.stderr.strip()}"
            answers.append(c.read_bytes())
    gpu, sim = answers
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
        report(f"no GPU that quern can use: {first.stderr.strip()}")
        # a GPU that is there and does not work is a failure, not a reason to skip
        there = any(f["subject"] == "device" and f["text"].startswith("0: ") for f in found)
        return 1 if there else SKIP
    target = json.loads(first.stdout)["target"].split(":")[0]
    failed = 0
    for problem in layers:
        for m in rows if "dequant" not in problem else [1]:
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
