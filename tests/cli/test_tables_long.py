# SPDX-License-Identifier: MIT
"""Figures of docs/counts.csv, tiles.csv and ports.csv, counted again: of each target in a scattered
order, others in each run, until the time of a long test is over (EXPLORE, in seconds; without it
all of them, which takes hours). test_tables.py has a sample that is always the same."""

import os
import random
import time

import pytest

from test_tables import as_kept, doc_tables, the_toolchain  # noqa: F401

pytestmark = pytest.mark.numbers
TARGETS = doc_tables.RDNA + doc_tables.CDNA


def walk(cases):
    """Of the cases those that there is time for, at least one."""
    end = time.monotonic() + float(os.environ.get("EXPLORE", "inf"))
    for done, case in enumerate(random.sample(cases, len(cases))):
        if done and time.monotonic() > end:
            print(f"{done} of {len(cases)} counted again")
            return
        yield case


@pytest.mark.parametrize("target", TARGETS)
def test_counts(tmp_path, the_toolchain, target):  # noqa: F811
    kept = as_kept(doc_tables.COUNTS)
    every = [(problem, rows) for (t, problem), rows in doc_tables.all_counts().items()
             if t == target]
    assert sum(len(rows) for _, rows in every) == sum(row[0] == target for row in kept)
    for problem, rows in walk(every):
        made = [list(map(str, row)) for row in doc_tables.count(target, problem, rows, tmp_path)]
        assert made == [row for row in kept if row[:2] == [target, problem]]


def count_lines(kept, problems, count):
    """Each line of a table, which has one for each target and problem, in that order."""
    every = [(target, problem) for target in TARGETS for problem in problems]
    assert len(every) == len(kept)
    for i, (target, problem) in walk(list(enumerate(every))):
        assert kept[i] == list(map(str, count(target, problem)))


def test_ports(the_toolchain):  # noqa: F811
    count_lines(as_kept(doc_tables.PORTS), doc_tables.port_problems(), doc_tables.count_ports)


def test_tiles(the_toolchain):  # noqa: F811
    count_lines(as_kept(doc_tables.TILES), doc_tables.tile_problems(), doc_tables.count_tile)
