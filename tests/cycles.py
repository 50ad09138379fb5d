#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which object files need each other in a circle, for whoever wants to read a room from below.

    tests/cycles.py [DIRECTORY]     of the .o files below it that have no .d file, or one whose
                                    source is there; build/release/src unless it is given

Prints each strongly connected component of more than one file, with the symbols that close it, and
fails if there is one. Files are named below DIRECTORY and without ".o". A symbol that several files
define (one source compiled for several instruction sets, file.SET.o) is that of the set's own file.
"""

import collections
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]


def variant(name):
    """The instruction set that a file is compiled for: "x86_64_v3" of "exec.x86_64_v3"."""
    return name.rpartition("/")[2].partition(".")[2]


def is_current(path):
    """Not what is left of a source that was moved or removed since."""
    rule = path.with_suffix(".d")
    return not rule.exists() or (TOP / rule.read_text().replace("\\\n", " ").split()[1]).exists()


def symbols(directory):
    """Global symbols that each file defines, and those that it needs."""
    objects = [o for o in sorted(directory.rglob("*.o")) if is_current(o)]
    if not objects:
        raise SystemExit(f"no object files below {directory}")
    nm = ["nm", "-A", "-g", *objects]
    listed = subprocess.run(nm, capture_output=True, check=True, text=True)
    defined, needed = collections.defaultdict(set), collections.defaultdict(set)
    for line in listed.stdout.splitlines():
        path, _, rest = line.partition(".o:")
        kind, symbol = rest.split()[-2:]
        name = str(pathlib.Path(path).relative_to(directory))
        (needed if kind in "Uw" else defined)[name].add(symbol)
    return defined, needed


def graph(directory):
    """What each file needs of which others: {file: {other: symbols}}."""
    defined, needed = symbols(directory)
    owners = collections.defaultdict(dict)
    for name, own in defined.items():
        for symbol in own:
            owners[symbol][variant(name)] = name
    edges = {name: collections.defaultdict(set) for name in {*defined, *needed}}
    for name, wanted in needed.items():
        for symbol in wanted:
            by_set = owners.get(symbol, {})
            other = by_set.get(variant(name), by_set.get(""))
            if other and other != name:
                edges[name][other].add(symbol)
    return edges


def reachable(edges, start):
    seen, todo = set(), [start]
    while todo:
        for other in edges[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def components(edges):
    """Sets of files of which each reaches every other."""
    reach = {name: reachable(edges, name) for name in edges}
    found = {frozenset(o for o in reach[name] if name in reach[o])
             for name in edges if name in reach[name]}  # fmt: skip
    return sorted(found, key=sorted)


def main(directory):
    edges = graph(directory)
    found = components(edges)
    for component in found:
        print(f"a circle of {len(component)} files:")
        for name in sorted(component):
            for other in sorted(component & edges[name].keys()):
                print(f"  {name} -> {other}: {' '.join(sorted(edges[name][other]))}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "build/release/src")))
