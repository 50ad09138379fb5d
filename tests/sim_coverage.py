#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which instructions of the software GPU are run by which test: docs/sim-coverage.md.

    tests/sim_coverage.py           runs the programs of tests/sim and says what is not covered
    tests/sim_coverage.py --write   writes the page as well

The programs note what their launches executed in files of a directory (tests/common/t_gpu.h); this
reads them. tests/run.py does the same with what a whole run has noted, and compares the page.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
PAGE = TOP / "docs" / "sim-coverage.md"
FAMILIES = ("gfx9", "gfx11", "gfx12")
CLASSES = {
    "valu": "Vector ALU",
    "packed": "Packed and dot",
    "trans": "Transcendental",
    "matrix": "Matrix",
    "lds": "LDS and lane exchange",
    "vmem": "Vector memory",
    "smem": "Scalar memory",
    "salu": "Scalar ALU",
    "branch": "Branches",
    "wait": "Waits",
}


def family(target):
    return next(f for f in ("gfx11", "gfx12", "gfx9") if target.startswith(f))


class Coverage:
    """What programs noted: rows by name, who ran them and where, and what waits for a target."""

    def __init__(self, directory):
        self.classes, self.tests, self.families, self.waiting = {}, {}, {}, {}
        for path in sorted(pathlib.Path(directory).glob("*")):
            for line in path.read_text().splitlines():
                what, row, about = line.split()
                if what == "row":
                    self.classes[row] = about
                elif what == "skip":
                    self.waiting.setdefault(row, set()).add(family(about))
                else:
                    self.tests.setdefault(row, set()).add(path.name)
                    self.families.setdefault(row, set()).add(family(about))

    def missing(self):
        """Rows that nothing ran, but for those whose targets are not offered yet."""
        return [r for r in sorted(self.classes) if r not in self.tests and r not in self.waiting]

    def page(self):
        ran = sum(r in self.tests for r in self.classes)
        lines = [
            "# Instructions of the software GPU and the tests that run them",
            "",
            "Written by `tests/sim_coverage.py --write`; `make check` fails when an instruction is",
            "run by no test, or by none of those named here. A family is named where a test ran",
            "the instruction for one of its processors. A saturating form, which the tables hold",
            "as a row of its own, has a name that ends in `_clamp`.",
            "",
            f"{ran} of {len(self.classes)} instructions are run.",
        ]
        for name, title in CLASSES.items():
            rows = sorted(r for r, c in self.classes.items() if c == name)
            lines += ["", f"## {title}", "", "| instruction | families | tests |", "|---|---|---|"]
            for row in rows:
                where = " ".join(f for f in FAMILIES if f in self.families.get(row, ()))
                tests = " ".join(t.removeprefix("test_") for t in sorted(self.tests.get(row, ())))
                lines.append(f"| `{row}` | {where or '-'} | {tests or '-'} |")
        return "\n".join(lines) + "\n"

    def problems(self, page):
        """What is wrong with the tests, or with the page's text, a line for each."""
        listed = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", page, re.MULTILINE))
        found = [f"{r} is run by no test" for r in self.missing()]
        again = "run tests/sim_coverage.py --write"
        for row in sorted(set(self.classes) ^ set(listed)):
            there = "the tables" if row in listed else f"{PAGE.name}: {again}"
            found.append(f"{row} is missing in {there}")
        for row, tests in listed.items():
            ran = {t.removeprefix("test_") for t in self.tests.get(row, ())}
            if row in self.classes and ran and not ran & set(tests.split()):
                found.append(f"{row} is run by none of the tests that {PAGE.name} names: {again}")
        return found


def run_programs(directory):
    build = TOP / "build" / "release"
    env = dict(os.environ, B=str(build), ROWS_DIRECTORY=str(directory))
    for path in sorted((build / "tests" / "sim").glob("test_*")):
        if path.suffix or "_long" in path.name:
            continue
        if subprocess.run([path], cwd=TOP, env=env, stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"{path} failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(TOP)}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quern-rows-") as directory:
        run_programs(directory)
        coverage = Coverage(directory)
    if options.write:
        PAGE.write_text(coverage.page())
    for problem in (problems := coverage.problems(PAGE.read_text() if PAGE.exists() else "")):
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
