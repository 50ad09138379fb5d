# SPDX-License-Identifier: MIT
"""The commands behind the README's figures, run as they stand. What they print is the machine's."""

import re
import subprocess

import pytest

from conftest import COMMAND, TOP, clean_environment

PROGRAMS = ("quern ", "build/", "make ", "size ")  # what is not a word to change in another row


def commands():
    text = (TOP / "README.md").read_text()
    (table,) = re.findall(r"^## Figures\n(.*?)\n## ", text, re.M | re.S)
    return [c for c in re.findall(r"`([^`]+)` \|$", table, re.M) if c.startswith(PROGRAMS)]


def test_the_table_is_read():
    assert len(commands()) >= 6


@pytest.mark.parametrize("command", commands())
def test_a_figures_command(tmp_path, command):
    env = clean_environment(tmp_path / "cache")
    env["PATH"] = f"{COMMAND.parent}:{env['PATH']}"
    done = subprocess.run(["sh", "-euc", command], cwd=TOP, env=env, capture_output=True,
                          text=True, timeout=1200)
    assert done.returncode == 0 and re.search(r"\d", done.stdout), (done.stdout, done.stderr)
