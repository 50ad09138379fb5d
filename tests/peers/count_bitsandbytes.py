#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/bench/bitsandbytes.csv: what bitsandbytes' own kernels take, counted by running them.

    count_bitsandbytes.py build/release/bin/quern

A kernel of theirs does a row of W in steps of 1024 weights, so that its instructions are those of a
row and those of a step times ceil(K / 1024), whatever N. K = 1024 and 4096 give the two, for each
target, type and M; K = 2560 must agree. `quern bench` runs the code objects of the published wheel
(fetch_wheel.py) on the software GPU.
"""

import json
import pathlib
import subprocess
import sys

from fetch_wheel import fetch

TARGETS = ("gfx1100", "gfx1151", "gfx1201", "gfx90a", "gfx942", "gfx950")
TYPES = ("f16", "bf16", "f32")
ROWS, STEP, N = "1,2,4,8", 1024, 64
OUT = pathlib.Path(__file__).parent.parent / "bench" / "bitsandbytes.csv"


def counts(quern, library, target, kind):
    """Issue slots of a row of W, times lanes, by (m, k)."""
    problems = [f"wq=nf4 n={N} k={k} a={kind}" for k in (1024, 4096, 2560)]
    command = [quern, "bench", "--json", "--peer", "bitsandbytes", "--library", library, "--target",
               target, "--m", ROWS, *problems]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {}
    for run in json.loads(done.stdout)["runs"]:
        c = run["peer"]["counts"]
        slots = (c["instructions"] - c["classes"]["wait"]) * c["wave_size"] / N
        k = next(word for word in run["problem"].split() if word.startswith("k="))
        found[run["m"], int(k[2:])] = slots
    return found


def main():
    lines = ["target,type,m,lane slots of a row,lane slots of a step"]
    for target in TARGETS:
        for kind in TYPES:
            found = counts(sys.argv[1], fetch(), target, kind)
            for m in sorted({m for m, _ in found}):
                step = (found[m, 4096] - found[m, 1024]) / 3
                row = found[m, 1024] - step
                if row + 3 * step != found[m, 2560]:
                    sys.exit(f"{target} {kind} m={m}: no steps of {STEP}: {found}")
                lines.append(f"{target},{kind},{m},{row:g},{step:g}")
                print(lines[-1], flush=True)
    OUT.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
