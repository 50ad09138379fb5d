#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every test of the tree and ends with one line that counts them.

Programs: build/{release,asan,tsan}/tests/*/test_* (cmocka). Python: tests/**/test_*.py
(pytest), with the release build, and of tests/cli each verb and each bad input once more with the
command under ASan and UBSan; the file about the verb that has threads of its own also under TSan.
Files named test_*_long* run only with --long. Exit status 1 when something failed or nothing ran.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import sim_coverage

TOP = pathlib.Path(__file__).resolve().parents[1]
BUILDS = ("release", "asan", "tsan")
JOBS = 2
# Seconds for one program or Python file. Sanitized code is several times slower.
LIMIT = {"release": 300, "asan": 900, "tsan": 900}
LONG_FACTOR = 12
SLOW = 10  # seconds from which a file's time is worth a line
OUTPUT_LINES = 60  # of a failing file

# Of tests/cli, what does not run the command of a sanitized build, or to see right numbers only;
# what the others leave out there they mark (conftest.py).
UNSANITIZED = ("test_docs.py", "test_house.py", "test_install.py", "test_problem_text.py",
               "test_properties.py")

SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    # a forked child may go on: the library promises to survive fork
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0",
    "LSAN_OPTIONS": "report_objects=1",
}


class Result:
    """What became of one program or Python file."""

    def __init__(self, name):
        self.name = name
        self.passed = self.failed = self.skipped = 0
        self.output = ""
        self.seconds = 0.0

    def fail(self, why):
        self.failed += 1
        self.output += f"\n{self.name}: {why}\n"


def environment(build, scratch):
    """The caller's environment without quern's variables, which would change what tests see."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_")}
    # a compiler that only this variable leads to is still the one to test with
    if os.environ.get("QUERN_ROCM_PATH"):
        env["ROCM_PATH"] = os.environ["QUERN_ROCM_PATH"]
    tmp = scratch / "tmp"
    tmp.mkdir(parents=True)
    env.update(
        SANITIZER_OPTIONS,
        B=str(TOP / "build" / build),
        QUERN_CACHE_DIR=str(scratch / "cache"),
        # of programs that do not care who compiles: one of any build, once
        T_CACHE=str(scratch.parent / "kernels"),
        QUERN_COMMAND=str(TOP / "build" / build / "bin" / "quern"),
        XDG_CACHE_HOME=str(scratch / "xdg"),
        TMPDIR=str(tmp),
        CMOCKA_MESSAGE_OUTPUT="TAP",
        HYPOTHESIS_STORAGE_DIRECTORY=str(scratch / "hypothesis"),
        PYTHONDONTWRITEBYTECODE="1",
        LC_ALL="C.UTF-8",
    )
    if build == "release":
        env["ROWS_DIRECTORY"] = str(scratch.parent / "rows")
    own = TOP / "build" / "deps" / "python"
    if own.is_dir():
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(own), env.get("PYTHONPATH"))))
    return env


def run_limited(command, env, limit):
    """Runs a command in a session of its own. Returns (status or None when out of time, output)."""
    process = subprocess.Popen(
        command,
        cwd=TOP,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = None
    return status, output.decode(errors="replace")


def status_text(status, limit):
    if status is None:
        return f"no end within {limit} s"
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"


def run_program(result, path, env, limit):
    """A cmocka program: its TAP lines are counted, its plan and its exit status must agree."""
    status, output = run_limited([str(path)], env, limit)
    planned = 0
    for line in output.splitlines():
        if plan := re.match(r"1\.\.(\d+)", line):
            planned += int(plan.group(1))
        elif re.match(r"(not )?ok\b.*# SKIP", line, re.IGNORECASE):
            result.skipped += 1
        elif re.match(r"ok \d+", line):
            result.passed += 1
        elif re.match(r"not ok \d+", line):
            result.failed += 1
    result.output = output
    reported = result.passed + result.failed + result.skipped
    if status is None or status < 0:
        result.fail(status_text(status, limit))
    elif status and not result.failed:
        result.fail(f"{status_text(status, limit)} though no test reported a failure")
    elif not planned:
        result.fail("reported no tests")
    elif reported < planned:
        result.fail(f"{planned} tests planned, {reported} reported")


def run_python(result, path, env, limit, scratch):
    """A pytest file: counted from its JUnit report."""
    report = scratch / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    status, output = run_limited([*command, f"--junitxml={report}", str(path)], env, limit)
    result.output = output
    if report.exists():
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            kinds = {child.tag for child in case}
            if kinds & {"failure", "error"}:
                result.failed += 1
            elif "skipped" in kinds:
                result.skipped += 1
            else:
                result.passed += 1
    if status is None or status < 0:
        result.fail(status_text(status, limit))
    elif status and not result.failed:
        result.fail(f"pytest: {status_text(status, limit)}")
    elif not result.passed + result.failed + result.skipped:
        result.fail("reported no tests")


def run_file(job):
    build, path, scratch, long = job
    name = str(path.relative_to(TOP))
    result = Result(name if path.suffix != ".py" else f"{name} ({build})")
    limit = LIMIT[build] * (LONG_FACTOR if is_long(path) else 1)
    start = time.monotonic()
    env = environment(build, scratch)
    if long:
        env["EXPLORE"] = "1"  # examples that no run before has seen
    if path.suffix == ".py":
        run_python(result, path, env, limit, scratch)
    else:
        run_program(result, path, env, limit)
    result.seconds = time.monotonic() - start
    shutil.rmtree(scratch, ignore_errors=True)
    return result


def check_coverage(directory):
    """After all programs: every instruction of the software GPU was run by one of them."""
    result = Result("docs/sim-coverage.md")
    problems = sim_coverage.Coverage(directory).problems(sim_coverage.PAGE.read_text())
    result.output = "\n".join(problems)
    result.failed, result.passed = bool(problems), not problems
    return result


def is_long(path):
    return "_long" in path.stem


def find_files(builds, words, long):
    """(build, path) of everything to run: programs build by build, then Python."""
    found = []
    for build in builds:
        programs = (TOP / "build" / build / "tests").glob("*/test_*")
        found += [(build, p) for p in sorted(programs) if not p.suffix and os.access(p, os.X_OK)]
    scripts = sorted((TOP / "tests").glob("**/test_*.py"))
    if "release" in builds:
        found += [("release", p) for p in scripts]
    if "asan" in builds:
        cli = [p for p in scripts if p.parent.name == "cli" and p.name not in UNSANITIZED]
        found += [("asan", p) for p in cli]
    if "tsan" in builds:
        found += [("tsan", p) for p in scripts if p.name == "test_prewarm.py"]
    found = [(b, p) for b, p in found if long or not is_long(p)]
    return [(b, p) for b, p in found if all(w in f"{b}/{p.relative_to(TOP)}" for w in words)]


def show(result):
    if result.failed:
        lines = result.output.splitlines()
        if len(lines) > OUTPUT_LINES:
            lines = [f"… {len(lines) - OUTPUT_LINES} lines left out", *lines[-OUTPUT_LINES:]]
        print(f"---- FAILED {result.name}", *lines, "----", sep="\n", flush=True)
    elif result.seconds >= SLOW:
        print(f"{result.name}: {result.passed} passed in {result.seconds:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="also run test_*_long files")
    parser.add_argument("--builds", default=",".join(BUILDS), help="of " + ", ".join(BUILDS))
    parser.add_argument("words", nargs="*", help="run only files whose path contains all of these")
    options = parser.parse_args()
    builds = options.builds.split(",")
    if unknown := [b for b in builds if b not in BUILDS]:
        parser.error(f"unknown build {unknown[0]!r}; builds are {', '.join(BUILDS)}")

    results = []
    # a test that leaves threads or workers behind must not fill the machine: two at a time
    with tempfile.TemporaryDirectory(prefix="quern-check-") as scratch:
        pathlib.Path(scratch).chmod(0o711)  # tests run programs in it as other users
        files = find_files(builds, options.words, options.long)
        rows = pathlib.Path(scratch) / "rows"
        rows.mkdir()
        (pathlib.Path(scratch) / "kernels").mkdir(mode=0o700)
        jobs = [(b, p, pathlib.Path(scratch) / str(i), options.long)
                for i, (b, p) in enumerate(files)]
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for result in pool.map(run_file, jobs):
                results.append(result)
                show(result)
        if "release" in builds and not options.words:
            results.append(check_coverage(rows))
            show(results[-1])

    for build in builds:
        if not options.words and not any(b == build and not p.suffix for b, p in files):
            missing = Result(f"build/{build}")
            missing.fail("no test programs: make check builds them")
            results.append(missing)
            show(missing)
    passed, failed, skipped = (
        sum(getattr(r, kind) for r in results) for kind in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
