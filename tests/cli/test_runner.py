# SPDX-License-Identifier: MIT
"""What tests/run.py shows of programs and Python files that fail."""

import importlib
import os
import shutil
import subprocess
import sys

import pytest
from conftest import TOP

TESTS = 300
FAILING = 150


def program(chatter):
    """A cmocka program's output: the middle one of many tests fails, with lines before and after
    its verdict."""
    lines = [f"1..{TESTS}"]
    for n in range(1, TESTS + 1):
        if n == FAILING:
            lines += [f"its own line {i}" for i in range(120)]
            lines += [f"not ok {n} - broken", "# 3 != 4", "# x.c:1: error: Failure!"]
        else:
            lines += [f"chatter {n}.{i}" for i in range(chatter)] + [f"ok {n} - works_{n}"]
    return "\n".join([*lines, "# not ok - tests"])


@pytest.fixture
def tree(tmp_path):
    """A checkout with the runner and nothing else."""
    for name in ("tests/unit", "tests/cli", "build/release/tests/unit"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("run.py", "sim_coverage.py"):
        shutil.copy(TOP / "tests" / name, tmp_path / "tests")
    for name in ("threads.txt", "long.txt", "kernels.txt"):
        (tmp_path / "tests" / name).touch()

    def add(name, output, status):
        path = tmp_path / "build/release/tests/unit" / name
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {status}\n")
        path.chmod(0o755)

    def run(*words):
        return subprocess.run([sys.executable, tmp_path / "tests/run.py", *words],
                              capture_output=True, text=True)  # fmt: skip

    return add, run


@pytest.mark.parametrize("chatter", [0, 3])
def test_a_failing_tests_lines_are_shown_whole(tree, chatter):
    add, run = tree
    add("test_fake", program(chatter), 1)
    done = run("--builds", "release", "unit")
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and lines[-1] == f"{TESTS - 1} passed, 1 failed"
    assert "---- FAILED build/release/tests/unit/test_fake" in lines
    wanted = [*(f"its own line {i}" for i in range(120)), f"not ok {FAILING} - broken", "# 3 != 4",
              "# x.c:1: error: Failure!"]  # fmt: skip
    first = lines.index(wanted[0])
    assert lines[first : first + len(wanted)] == wanted
    assert not any(line.startswith("ok ") for line in lines)
    # what passing tests print is left out where it is much
    if chatter:
        assert "… 1193 lines of passing tests left out" in lines and len(lines) < 150


def test_a_line_about_a_failure_is_shown_wherever_it_stands(tree):
    add, run = tree
    add("test_fake", "==7==ERROR: AddressSanitizer: heap-use-after-free\n" + program(3), 1)
    assert "==7==ERROR: AddressSanitizer: heap-use-after-free" in run("unit").stdout.splitlines()


def test_a_python_files_failure_is_shown_whole(tree, tmp_path):
    _, run = tree
    rows = "\n".join(f"    print('its own line {i}')" for i in range(300))
    (tmp_path / "tests/cli/test_fake.py").write_text(
        f"def test_good():\n    pass\n\n\ndef test_bad():\n{rows}\n    assert 3 == 4\n")
    lines = run("--builds", "release", "cli").stdout.splitlines()
    assert lines[-1] == "1 passed, 1 failed"
    assert {f"its own line {i}" for i in range(300)} <= set(lines)
    assert "E   assert 3 == 4" in lines


def test_one_test_by_its_name(tree):
    add, run = tree
    add("test_fake", "1..1\nok 1 - fake", 0)
    add("test_fake_more", "1..1\nok 1 - more\n", 0)
    for name in ("fake", "test_fake"):
        done = run("--builds", "release", "--only", name)
        assert (done.returncode, done.stdout) == (0, "1 passed, 0 failed\n")
    done = run("--builds", "release", "--only", "none")
    assert done.returncode == 2 and "no test named 'none'" in done.stderr


def test_nothing_passes_that_did_not_run(tree):
    add, run = tree
    for output, status, says in [
        ("1..2\nok 1 - first", 0, "2 tests planned, 1 reported"),
        ("", 0, "reported no tests"),
        ("1..1\nok 1 - first", 3, "exit status 3 though no test reported a failure"),
    ]:
        add("test_fake", output, status)
        done = run("--builds", "release", "--only", "fake")
        assert done.returncode == 1 and says in done.stdout


def test_programs_that_start_threads_are_under_thread_sanitizer(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(TOP / "tests")
    check = importlib.import_module("run").check_threads
    pool = TOP / "build/release/tests/unit/test_compile_pool"
    for program in (pool, pool.with_name("test_base")):  # threads of its own; loops alone
        subprocess.run([program], env=os.environ | {"T_THREADS": str(tmp_path)},
                       capture_output=True, check=True)  # fmt: skip
    assert [p.name for p in tmp_path.iterdir()] == ["test_compile_pool"]
    assert check(tmp_path).failed == 0
    (tmp_path / "test_unknown").touch()
    (tmp_path / "test_unknown_long").touch()
    result = check(tmp_path)
    assert result.failed == 1
    assert result.output == "test_unknown starts threads and is not in tests/threads.txt\n"


def test_sanitizers_run_the_long_programs_of_a_list(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(TOP / "tests")
    runner = importlib.import_module("run")
    lists = {name: tmp_path / name for name in ("THREADED", "SANITIZED_LONG", "KERNELS")}
    lists["THREADED"].write_text("tests/unit/test_pool  src/x.c\n")
    lists["SANITIZED_LONG"].write_text(
        "# why\ntests/unit/test_pool_long\ntests/unit/test_way_long\n")
    lists["KERNELS"].write_text("# why\ntests/unit/test_many\n")
    for name, path in {"TOP": tmp_path, **lists}.items():
        monkeypatch.setattr(runner, name, path)
    for build in ("release", "asan", "tsan"):
        (tmp_path / "build" / build / "tests/unit").mkdir(parents=True)
        for name in ("many", "pool", "pool_long", "numbers", "numbers_long", "way_long"):
            (tmp_path / "build" / build / f"tests/unit/test_{name}").touch(mode=0o755)

    def names(build, every=False, long_too=False):
        found = runner.find_files([build], [], lambda _: True, every, long_too)
        return [p.name.removeprefix("test_") for _, p in found]

    all_programs = ["many", "numbers", "numbers_long", "pool", "pool_long", "way_long"]
    assert names("release") == names("asan", True) == names("tsan", True) == all_programs
    assert names("asan") == ["numbers", "pool", "pool_long", "way_long"]
    assert names("asan", long_too=True) == ["many", "numbers", "pool", "pool_long", "way_long"]
    assert names("tsan") == ["pool", "pool_long"]
