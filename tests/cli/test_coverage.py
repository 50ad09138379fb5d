# SPDX-License-Identifier: MIT
"""What the check of the software GPU's coverage says of rows, tests and the page."""

import pytest
from conftest import TOP


@pytest.fixture
def coverage(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOP / "tests"))
    from sim_coverage import Coverage

    (tmp_path / "test_one").write_text(
        "row v_add valu\nrow v_sub valu\nrow s_add salu\n"
        "run v_add gfx942\nrun v_add gfx1151\nrun s_add gfx1201\n"
    )
    return Coverage(tmp_path)


def test_a_row_without_a_test_fails_even_if_the_page_knows_it(coverage):
    assert "| `v_sub` | - | - |" in coverage.page()
    assert coverage.problems(coverage.page()) == ["v_sub is run by no test"]


def test_the_page_must_have_the_rows_and_name_one_of_their_tests(coverage):
    coverage.tests["v_sub"] = {"test_two"}
    page = coverage.page()
    assert coverage.problems(page) == []
    assert "3 of 3 instructions are run." in page and "| `v_add` | gfx9 gfx11 | one |" in page
    other = page.replace("| `v_add` | gfx9 gfx11 | one |", "| `v_add` | gfx9 | three |")
    assert [p for p in coverage.problems(other) if p.startswith("v_add is run by none of")]
    gone = page.replace("| `s_add` | gfx12 | one |\n", "")
    assert [p for p in coverage.problems(gone) if p.startswith("s_add is missing in sim-coverage")]
