# SPDX-License-Identifier: MIT
"""The tables of figures in README.md and docs/ are what tests/doc_tables.py prints, and a sample of
the figures is counted again; test_tables_long.py counts all of them."""

import subprocess
import sys

import pytest

from conftest import EXPLORES, TOP

sys.path.insert(0, str(TOP / "tests"))
import doc_tables  # noqa: E402

SOME = [
    ("gfx1151", doc_tables.w4("bf16")),
    ("gfx942", doc_tables.int4("f16", "u8")),
    ("gfx1201", doc_tables.skinny("wq=fp8 a=fp8 c=bf16")),
]
SAMPLE = SOME if EXPLORES else SOME[-1:]


@pytest.fixture
def the_toolchain():
    """Figures are of one compiler; with another there is nothing to compare."""
    for path in (doc_tables.COUNTS, doc_tables.TILES, doc_tables.PORTS):
        if doc_tables.counted_with(path) != doc_tables.toolchain():
            pytest.skip(f"{path.name} was counted with another toolchain: make tables")


def as_kept(path):
    return [list(row.values()) for row in doc_tables.read_csv(path)]


def test_tables_hold_what_the_figures_say():
    assert not doc_tables.compare(), "run tests/doc_tables.py --write"


def test_the_simulated_fleet():
    subprocess.run([sys.executable, TOP / "tests/bench/fleet.py", "--check"], check=True)


def test_figures_are_of_what_the_tables_show():
    kept = [(target, problem, int(m)) for target, problem, m, *_ in as_kept(doc_tables.COUNTS)]
    assert kept == [(*key, m) for key, rows in doc_tables.all_counts().items() for m in rows]


def test_a_table_that_was_changed_by_hand_is_found(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    text = (TOP / "docs/kernels/simt_w4.md").read_text()
    page.write_text(text.replace("| 1.73 |", "| 1.72 |", 1))
    monkeypatch.setattr(doc_tables, "PAGES", [page])
    monkeypatch.setattr(doc_tables, "TOP", tmp_path)
    wrong = doc_tables.compare(write=True)
    assert "page.md: table simt_w4" in wrong and "no page has table mma_w4" in wrong
    assert page.read_text() == text


@pytest.mark.numbers
@pytest.mark.parametrize("target, problem", SAMPLE)
def test_a_sample_is_counted_again(tmp_path, the_toolchain, target, problem):
    every = doc_tables.all_counts()[target, problem]
    rows = [every[0], every[len(every) // 2], *(every[-1:] if EXPLORES else ())]
    made = doc_tables.count(target, problem, rows, tmp_path)
    assert [list(map(str, row)) for row in made] == [
        row for row in as_kept(doc_tables.COUNTS)
        if row[:2] == [target, problem] and int(row[2]) in rows]


@pytest.mark.numbers
def test_ports_are_counted_again(the_toolchain):
    made = [list(map(str, doc_tables.count_ports("gfx942", problem)))
            for problem in doc_tables.port_problems()]
    assert made == [row for row in as_kept(doc_tables.PORTS) if row[0] == "gfx942"]


@pytest.mark.numbers
def test_a_tile_is_counted_again(the_toolchain):
    problem = doc_tables.tile_problems()[0]
    made = list(map(str, doc_tables.count_tile("gfx1151", problem)))
    assert made in as_kept(doc_tables.TILES)
