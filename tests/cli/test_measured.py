# SPDX-License-Identifier: MIT
"""What the scripts that measure on a GPU make of their figures, and that they ask the command what
it knows: tests/peers/sweep_cuda.py and tests/hw/tune_cuda.py."""

import json
import math
import os
import sys

import pytest

from conftest import COMMAND, TOP, clean_environment

sys.path[:0] = [str(TOP / "tests/peers"), str(TOP / "tests/hw")]
import sweep_cuda  # noqa: E402
import tune_cuda  # noqa: E402

FAKEHIP = COMMAND.parents[1] / "lib" / "fakehip"


def test_ranks_of_equal_values():
    assert tune_cuda.ranks([30, 10, 20]) == [2, 0, 1]
    assert tune_cuda.ranks([5, 7, 5, 9, 7, 7]) == [0.5, 3, 0.5, 5, 3, 3]


@pytest.mark.parametrize("a, b, right", [
    ([1, 2, 3], [10, 20, 400], 1), ([1, 2, 3], [3, 2, 1], -1),
    # the example of Spearman's article in Wikipedia, whose values are all distinct
    ([106, 100, 86, 101, 99, 103, 97, 113, 112, 110], [7, 27, 2, 50, 28, 29, 20, 12, 6, 17],
     -29 / 165),
    # ranks 0.5, 0.5, 2, 3 and 0, 1.5, 1.5, 3: Pearson's of these is 3.75 / 4.5
    ([1, 1, 2, 3], [1, 2, 2, 3], 3.75 / 4.5),
    ([1, 1], [1, 2], None), ([1], [2], None), ([], [], None),
])  # fmt: skip
def test_rank_correlation(a, b, right):
    is_ = tune_cuda.rank_correlation(a, b)
    assert is_ == right or math.isclose(is_, right)


def cell(m, model, us, again=None, **more):
    """A line of tune_cuda.py's file; `again`: times of the choice and the fastest at the end."""
    best = us.index(min(us))
    choice, fastest = again or (us[0], us[best])
    measured = [{"shape": f"waves={i}", "model_us": a, "us": b or None}
                for i, (a, b) in enumerate(zip(model, us))]
    kernel = {"m": m, "model_choice_us": choice, "shape": f"waves={best}", "us": fastest,
              "noted": False, "measured": measured} | more
    return {"format": "nf4", "n": 64, "k": 256, "m": m, "kernel": kernel}


def test_the_table_of_what_tuning_finds(tmp_path, capsys):
    lines = [cell(1, [1, 2, 3], [10, 8, 9]), cell(8, [1, 2, 3], [10, 9.9, 12]),
             cell(16, [1, 2], [5, 4], again=(4.0, 4.5))]  # fmt: skip
    for name, some in (("one", lines[:1]), ("two", lines[1:])):
        (tmp_path / name).write_text("".join(json.dumps(x) + "\n" for x in some))
    assert tune_cuda.main(["table", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert rows[2] == ["nf4", "64 x 256", "1", "3", "-0.50", "10.00", "8.00", "20.0", "2"]
    assert rows[3] == ["nf4", "64 x 256", "8", "3", "0.50", "10.00", "9.90", "1.0", "2"]
    assert rows[4] == ["nf4", "64 x 256", "16", "2", "-1.00", "4.00", "4.00", "0.0", "1"]
    assert rows[-2] == ["all", "3", "-0.50", "-1.00", "7.0", "1.0", "20.0", "6.7"]
    assert tune_cuda.main(["table", str(tmp_path / "none")]) == 1


@pytest.mark.skipif(not FAKEHIP.is_dir(), reason="no HIP headers here")
def test_tuning_by_the_command(tmp_path, capsys, monkeypatch):
    """On fakehip, which stands for any GPU: what the command prints is what the script reads."""
    env = {**clean_environment(tmp_path / "cache"), "LD_LIBRARY_PATH": str(FAKEHIP),
           "FAKEHIP_DEVICES": "gfx1151"}  # fmt: skip
    for name in [name for name in os.environ if name not in env]:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "cells"
    words = ["time", str(file), "--device", "hip", "--command", str(COMMAND), "--format", "nf4",
             "--shape", "64x256", "--tried", "3", "--rotate", "1K", "--ahead", "2", "--rows"]
    assert tune_cuda.main([*words, "1"]) == 0
    assert tune_cuda.main([*words, "1", "2"]) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["m"] for line in lines] == [1, 2]
    assert all(len(line["kernel"]["measured"]) == 3 for line in lines)
    capsys.readouterr()
    assert tune_cuda.main(["table", str(file)]) == 0
    assert "| nf4 | 64 x 256 | 1 | 3 |" in capsys.readouterr().out
    assert tune_cuda.main([*words[:-1], "--rows", "4", "--shape", "64x255"]) == 1


def test_the_table_of_products_beside_cublaslt(tmp_path, capsys):
    file = tmp_path / "rows.csv"
    rows = sweep_cuda.Rows(file)
    for n, m, us in ((4096, 1, {"quern": 10, "cublaslt": 9.9, "dense": 12}),
                     (4096, 8, {"quern": 10, "cublaslt": 11, "dense": 11}),
                     (4096, 16, {"quern": 10, "cublaslt": 5}), (1024, 1, {"quern": 4}),
                     (512, 1, {"quern": 4, "cublaslt": 3.8})):  # fmt: skip
        for who, time in us.items():
            rows.add("none", n, 4096, m, who, time, 2 * n * 4096 / time / 1e6)
    rows.add("nf4", 512, 4096, 1, "quern", 3, 1)
    assert sweep_cuda.main(["table", str(file)]) == 0
    out = capsys.readouterr().out
    assert "| N x K | M | quern | cublaslt | dense | cublaslt by quern |" in out
    assert "| 4096 x 4096 | 1 | 10.00 (3.36) | 9.90 | 12.00 | 0.990 |" in out
    assert "| 1024 x 4096 | 1 | 4.00 (2.10) |  |  |  |" in out
    assert "cublaslt's time by quern's, M up to 8: 3 cells of 2 shapes, median 0.990, least " \
        "0.950 (512 x 4096, M = 1), 1 below 0.97, 2 below 1\n" in out
    assert "dense's time by quern's, M up to 8: 2 cells of 1 shapes, median 1.150" in out
    assert out.endswith("| N x K | M | quern |\n|---|---|---|\n"
                        "| 512 x 4096 | 1 | 3.00 (1.00) |\n\n")
