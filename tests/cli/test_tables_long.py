# SPDX-License-Identifier: MIT
"""Every figure of docs/counts.csv, tiles.csv and ports.csv, counted again: test_tables.py has a
sample."""

import pytest

from test_tables import as_kept, doc_tables, the_toolchain  # noqa: F401

pytestmark = pytest.mark.numbers


@pytest.mark.parametrize("target", doc_tables.RDNA + doc_tables.CDNA)
def test_counts(tmp_path, the_toolchain, target):  # noqa: F811
    made = [list(map(str, row)) for (t, problem), rows in doc_tables.all_counts().items()
            if t == target for row in doc_tables.count(t, problem, rows, tmp_path)]
    assert made == [row for row in as_kept(doc_tables.COUNTS) if row[0] == target]


def test_ports(the_toolchain):  # noqa: F811
    assert as_kept(doc_tables.PORTS) == [
        list(map(str, doc_tables.count_ports(target, problem)))
        for target in doc_tables.RDNA + doc_tables.CDNA for problem in doc_tables.port_problems()]


def test_tiles(the_toolchain):  # noqa: F811
    assert as_kept(doc_tables.TILES) == [
        list(map(str, doc_tables.count_tile(target, problem)))
        for target in doc_tables.RDNA + doc_tables.CDNA for problem in doc_tables.tile_problems()]
