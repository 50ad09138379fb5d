#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every test of the tree and ends with one line that counts them.

Programs: build/{release,asan,tsan}/tests/*/test_* (cmocka), of tsan those of tests/threads.txt.
Python: tests/**/test_*.py (pytest), with the release build, and of tests/cli each verb and each bad
input once more with the command under ASan and UBSan. Files named test_*_long* run only with
--long, under sanitizers those programs that tests/long.txt has; so do, under sanitizers, files that
make many kernels or start the command many times: tests/kernels.txt, SANITIZED_LATE; and under TSan
the file about the verb that has threads of its own.
Exit status 1 when something failed or nothing ran.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

import sim_coverage

TOP = pathlib.Path(__file__).resolve().parents[1]
BUILDS = ("release", "asan", "tsan")
# Files at a time: many wait for a while, for a worker that compiles, a deadline or a child.
JOBS = 4
TIMES = TOP / "build" / "check.csv"
THREADED = TOP / "tests" / "threads.txt"
SANITIZED_LONG = TOP / "tests" / "long.txt"
KERNELS = TOP / "tests" / "kernels.txt"  # what sanitizers are to see with --long alone
# Seconds after which a program or Python file is taken to hang. The slowest takes some minutes on
# an idle machine; the rest is for machines that other work keeps busy. Long ones have more.
LIMIT = 3600
LONG_FACTOR = 4
# Seconds of each walk of a long test over more cases than there is time for (t_explore.h).
EXPLORE = 90
# What takes longest of the release build's tests, most of it in the compiler: more than two thirds
# of the time on two cores. Of kernels test_mma and test_dispatch are left.
LEFT_OUT_BY_QUICK = ("test_bnb", "test_covering", "test_differential", "test_encoder",
                     "test_experts", "test_foreign", "test_install", "test_int4",
                     "test_kernel_table", "test_mixture", "test_mixture_torch", "test_package",
                     "test_round_trip", "test_skinny", "test_tile")
QUICK_HELP = f"""the release build only, in under three minutes on two cores; left out are
sanitizers, test_*_long files, tests/fault (calls that fail, kills, crowds of processes) and
{", ".join(LEFT_OUT_BY_QUICK)}:
make check runs them"""
SLOW = 10  # seconds from which a file's time is worth a line
TELLING = r"error|fail|assert|sanitizer|==\d+=="  # of a line about a failure
OUTPUT_LINES = 200  # of a failing file: beyond, those of its passing tests are left out

# Of tests/cli, what does not run the command of a sanitized build, or to see right numbers only;
# what the others leave out there they mark (conftest.py).
UNSANITIZED = ("test_docs.py", "test_house.py", "test_install.py", "test_measured.py",
               "test_problem_text.py", "test_properties.py", "test_tables.py")
# Those that make or run many kernels in the same ways as others do, or start the command many times
# for the same code with other servers or words: sanitized with --long alone.
SANITIZED_LATE = ("test_bench.py", "test_bundle.py", "test_cache_pull.py", "test_configs.py",
                  "test_encoder.py", "test_experts.py", "test_hip.py", "test_mixtures.py",
                  "test_moe_align.py", "test_prewarm.py", "test_profile.py", "test_remote.py",
                  "test_remote_claims.py", "test_remote_engines.py", "test_remote_push.py",
                  "test_remote_s3.py", "test_terminal.py")
# What takes longest is begun first: a long file begun last would keep one processor busy alone.
FIRST = ("test_listing_long", "test_kills_long", "test_soak_long", "test_sim_room_long",
         "test_verbs_long", "test_public_faults_long", "test_tidy_long", "test_fleet_jobs_long",
         "test_base_swaps_long", "test_figures_long", "test_tables_long",
         "test_container", "test_prewarm", "test_differential", "test_base_kernels",
         "test_public_faults", "test_remote", "test_remote_push", "test_foreign")

SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    # a forked child may go on: the library promises to survive fork
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:"
                    f"suppressions={TOP}/tests/tsan.supp",
    "LSAN_OPTIONS": f"report_objects=1 print_suppressions=0 suppressions={TOP}/tests/lsan.supp",
}


class Result:
    """What became of one program or Python file."""

    def __init__(self, name):
        self.name = name
        self.passed = self.failed = self.skipped = 0
        self.output = ""
        self.seconds = self.cpu = 0.0  # the second of processors

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
        # its c++ compiles once what each process that verifies kernels for NVIDIA has compiled
        PATH=os.pathsep.join([str(TOP / "tests/cpu/compiler"), os.environ.get("PATH", "")]),
    )
    if build == "release":
        env["ROWS_DIRECTORY"] = str(scratch.parent / "rows")
        env["T_THREADS"] = str(scratch.parent / "threads")
    own = TOP / "build" / "deps" / "python"
    if own.is_dir():
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(own), env.get("PYTHONPATH"))))
    return env


class Account:
    """The processor time of a command and of everything that it starts. Workers that compile are
    children of no one, so that waiting for the command does not count them; a control group of its
    own does. Where none can be made, only what the command waits for is counted."""

    ROOT = pathlib.Path("/sys/fs/cgroup/cpuacct")
    left = []  # groups in which something still ran when their command had ended

    def __init__(self, name):
        self.group = self.ROOT / f"quern-{os.getpid()}-{name}"
        try:
            self.group.mkdir()
        except OSError:
            self.group = None

    def counted(self, command):
        """The command, to be run in the group."""
        enter = 'echo $$ > "$0"; exec "$@"'
        return ["sh", "-c", enter, self.group / "cgroup.procs", *command] if self.group else command

    def close(self, used):
        """Seconds. `used`: what waiting for the command counted."""
        seconds = used.ru_utime + used.ru_stime
        if self.group:
            seconds = int((self.group / "cpuacct.usage").read_text()) * 1e-9
            self.left.append(self.group)
            self.remove()
        return seconds

    @classmethod
    def remove(cls, wait=0):
        """Removes groups in which nothing runs any more, after `wait` seconds at most."""
        end = time.monotonic() + wait
        while cls.left:
            for group in list(cls.left):
                with contextlib.suppress(OSError):
                    group.rmdir()
                    cls.left.remove(group)
            if time.monotonic() >= end:
                break
            time.sleep(0.1)


def run_limited(result, command, env, limit):
    """Runs a command in a session of its own. Returns (status or None when out of time, output)."""
    account = Account(pathlib.Path(env["TMPDIR"]).parent.name)
    process = subprocess.Popen(
        account.counted(command),
        cwd=TOP,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    late = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
    late.start()
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)  # the only way to learn the time of one child
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    on_time = not late.finished.is_set()
    late.cancel()
    result.cpu = account.close(used)
    return process.returncode if on_time else None, output.decode(errors="replace")


def status_text(status, limit):
    if status is None:
        return f"no end within {limit} s"
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"


def run_program(result, path, env, limit):
    """A cmocka program: its TAP lines are counted, its plan and its exit status must agree."""
    status, output = run_limited(result, [str(path)], env, limit)
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
    status, output = run_limited(result, [*command, f"--junitxml={report}", str(path)],
                                 env, limit)
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
    limit = LIMIT * (LONG_FACTOR if is_long(path) else 1)
    start = time.monotonic()
    env = environment(build, scratch)
    if long:
        env.setdefault("EXPLORE", str(EXPLORE))  # cases that no run before has seen
    if not path.exists():
        result.fail("is not built: make check builds it")
    elif path.suffix == ".py":
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


def listed(path):
    """The programs that a list names: those that ThreadSanitizer, or of long ones any sanitizer, is
    to see."""
    return re.findall(r"^tests/\S+", path.read_text(), re.MULTILINE)


def check_threads(directory):
    """After all programs: those that started threads are among what ThreadSanitizer sees."""
    result = Result("tests/threads.txt")
    seen = {pathlib.Path(path).name for path in listed(THREADED)}
    unseen = sorted(p.name for p in directory.iterdir() if p.name not in seen and not is_long(p))
    result.output = "".join(f"{name} starts threads and is not in {result.name}\n"
                            for name in unseen)
    result.failed, result.passed = len(unseen), not unseen
    return result


def is_long(path):
    return "_long" in path.stem


def is_quick(path):
    left_out = path.stem in LEFT_OUT_BY_QUICK or path.parent.name == "fault"
    return not left_out and not is_long(path)


def find_files(builds, words, wanted, every, long_too):
    """(build, path) of everything to run: programs build by build, then Python, but for FIRST.
    `wanted` says of a path whether it is; `every`: under ThreadSanitizer also programs that start
    no threads; `long_too`: sanitized also what is so with --long alone."""
    found = []
    for build in builds:
        programs = (TOP / "build" / build / "tests").glob("*/test_*")
        programs = [p for p in sorted(programs) if not p.suffix and os.access(p, os.X_OK)]
        if build != "release" and not every:
            seen, long = ([TOP / "build" / build / p for p in listed(path)]
                          for path in (THREADED, SANITIZED_LONG))
            short = seen if build == "tsan" else [p for p in programs if not is_long(p)]
            twins = {p.with_name(f"{p.name}_long") for p in seen}
            programs = short + [p for p in long if build != "tsan" or p in twins]
            if not long_too:
                late = {TOP / "build" / build / p for p in listed(KERNELS)}
                programs = [p for p in programs if p not in late]
        found += [(build, p) for p in programs]
    scripts = sorted((TOP / "tests").glob("**/test_*.py"))
    if "release" in builds:
        found += [("release", p) for p in scripts]
    if "asan" in builds:
        left_out = UNSANITIZED if long_too else UNSANITIZED + SANITIZED_LATE
        cli = [p for p in scripts if p.parent.name == "cli" and p.name not in left_out
               and not is_long(p)]
        found += [("asan", p) for p in cli]
    if "tsan" in builds and long_too:
        found += [("tsan", p) for p in scripts if p.name == "test_prewarm.py"]
    found = [(b, p) for b, p in found if wanted(p)]
    found.sort(key=lambda file: FIRST.index(file[1].stem) if file[1].stem in FIRST else len(FIRST))
    return [(b, p) for b, p in found if all(w in f"{b}/{p.relative_to(TOP)}" for w in words)]


def without_passing(lines):
    """The lines of a cmocka program but for those of its passing tests.

    A test's lines stand before its verdict, and after it where it failed. Lines that look like a
    failure stay wherever they stand: stderr comes before what stdout holds back.
    """
    kept, own, dropped, failed = [], [], 0, False
    for line in lines:
        own.append(line)
        if re.match(r"not ok \d+", line):
            kept, own, failed = kept + own, [], True
        elif re.match(r"ok \d+", line):
            if failed:
                kept += own[:-1]
            else:
                telling = [x for x in own[:-1] if re.search(TELLING, x, re.IGNORECASE)]
                dropped += len(own) - len(telling)
                kept += telling
            own, failed = [], False
    if dropped:
        kept.insert(0, f"… {dropped} lines of passing tests left out")
    return kept + own


def show(result):
    if result.failed:
        lines = [x for x in result.output.splitlines() if not re.match(r"ok \d+ - |1\.\.\d+$", x)]
        if len(lines) > OUTPUT_LINES:
            lines = without_passing(result.output.splitlines())
        print(f"---- FAILED {result.name}", *lines, "----", sep="\n", flush=True)
    elif result.seconds >= SLOW:
        print(f"{result.name}: {result.passed} passed in {result.seconds:.0f} s", flush=True)


def write_times(builds, results):
    """What each file took, the longest first: where to look when the whole takes too long."""
    rows = sorted(zip(builds, results), key=lambda row: -row[1].cpu)
    TIMES.write_text("build,file,cpu_s,wall_s\n" + "".join(
        f"{build},{r.name.split()[0]},{r.cpu:.1f},{r.seconds:.1f}\n" for build, r in rows))
    sums = (f"{b} {sum(r.cpu for x, r in rows if x == b):.0f} s" for b in BUILDS if b in builds)
    print(f"processor time: {', '.join(sums)}; by file: {TIMES.relative_to(TOP)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="also run test_*_long files")
    parser.add_argument("--builds", default=",".join(BUILDS), help="of " + ", ".join(BUILDS))
    parser.add_argument("words", nargs="*", help="run only files whose path contains all of these")
    parser.add_argument("--only", metavar="NAME",
                        help="one file: a test program or test_NAME.py, with or without test_")
    parser.add_argument("--quick", action="store_true", help=QUICK_HELP)
    options = parser.parse_args()
    only = (options.only or "").removesuffix(".py")

    def wanted(path):
        if only:
            return path.stem in (only, f"test_{only}")
        return is_quick(path) if options.quick else options.long or not is_long(path)

    builds = ["release"] if options.quick else options.builds.split(",")
    if unknown := [b for b in builds if b not in BUILDS]:
        parser.error(f"unknown build {unknown[0]!r}; builds are {', '.join(BUILDS)}")

    results = []
    # a test that leaves threads or workers behind must not fill the machine: a few at a time
    with tempfile.TemporaryDirectory(prefix="quern-check-") as scratch:
        pathlib.Path(scratch).chmod(0o711)  # tests run programs in it as other users
        files = find_files(builds, options.words, wanted, bool(only),
                           options.long or bool(only))
        if only and not files:
            parser.error(f"no test named {only!r} in {', '.join(builds)}: is it built?")
        rows = pathlib.Path(scratch) / "rows"
        rows.mkdir()
        threads = pathlib.Path(scratch) / "threads"
        threads.mkdir()
        (pathlib.Path(scratch) / "kernels").mkdir(mode=0o700)
        jobs = [(b, p, pathlib.Path(scratch) / str(i), options.long)
                for i, (b, p) in enumerate(files)]
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for result in pool.map(run_file, jobs):
                results.append(result)
                show(result)
        complete = not (options.words or only or options.quick)
        if "release" in builds and complete:
            for result in (check_coverage(rows), check_threads(threads)):
                results.append(result)
                show(result)

    Account.remove(wait=10)
    if complete:
        write_times([b for b, _ in files], results)
    for build in builds:
        if complete and not any(b == build and not p.suffix for b, p in files):
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
