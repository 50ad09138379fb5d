# SPDX-License-Identifier: MIT
"""The commands behind the README's figures, run as they stand. What they print is the machine's;
the instructions of the machinery (docs/reliability.md) are not, and are checked."""

import re
import shutil
import subprocess

import pytest

from conftest import COMMAND, TOP, clean_environment

PROGRAMS = ("quern ", "build/", "make ", "size ")  # what is not a word to change in another row


def environment(cache):
    """A user's: benches that start threads are none of those that the runner counts."""
    env = clean_environment(cache)
    env.pop("T_THREADS", None)  # else the runner asks for them in tests/threads.txt
    env.pop("B", None)  # the build that the runner tests, which make would make things in
    env["PATH"] = f"{COMMAND.parent}:{env['PATH']}"
    return env


def commands():
    text = (TOP / "README.md").read_text()
    (table,) = re.findall(r"^## Figures\n(.*?)\n## ", text, re.M | re.S)
    return [c for c in re.findall(r"`([^`]+)` \|$", table, re.M) if c.startswith(PROGRAMS)]


def test_the_table_is_read():
    assert len(commands()) >= 6


def copy_of_checkout(path):
    """The sources and the release build, for a command that makes something: other tests run what
    is in the checkout's build meanwhile, and a program that is replaced no longer finds what lies
    beside it."""
    taken = {str(TOP / "build"): {"release"},
             str(TOP / "build/release/tests"): {"bench", "common"}}
    shutil.copytree(TOP, path, symlinks=True,
                    ignore=lambda d, names: set(names) - taken.get(d, set(names)) | {".git"})
    for entry in (TOP / "build").iterdir():
        if entry.name not in ("asan", "base", "machine", "release", "tsan"):
            (path / "build" / entry.name).symlink_to(entry)
    return path


@pytest.mark.parametrize("command", commands())
def test_a_figures_command(tmp_path, command):
    top = copy_of_checkout(tmp_path / "checkout") if command.startswith("make ") else TOP
    done = subprocess.run(["sh", "-euc", command], cwd=top, env=environment(tmp_path / "cache"),
                          capture_output=True, text=True, timeout=2 * 3600)
    assert done.returncode == 0 and re.search(r"\d", done.stdout), done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind to count instructions with")
def test_the_machinery_takes_as_many_instructions_as_is_said(tmp_path):
    """Each within a quarter: compilers differ, and threads of the bench wait for each other."""
    text = (TOP / "docs/reliability.md").read_text()
    (table,) = re.findall(r"^## Speed of the machinery\n(.*?)\n## ", text, re.M | re.S)
    cells = re.findall(r"\| ([^|]*) \|$", table, re.M)[:-1]  # the last row is a command's
    said = [int(n.replace(",", "")) for cell in cells for n in re.findall(r"[\d,]*\d", cell)]
    program = COMMAND.parents[1] / "tests/bench/bench_machinery"
    done = subprocess.run([program, tmp_path], cwd=TOP, env=environment(tmp_path / "cache"),
                          capture_output=True, text=True, timeout=3600, check=True)
    seen = [int(n) for n in re.findall(r"(\d+) instructions$", done.stdout, re.M)]
    seen = seen[:1] + seen[4:] + seen[1:4]  # as the table's rows are, ops after opening
    assert len(seen) == len(said) == 14, done.stdout
    assert [(n, most) for n, most in zip(seen, said) if not most * 0.75 < n < most * 1.25] == []
