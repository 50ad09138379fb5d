# SPDX-License-Identifier: MIT
"""Runs fuzz targets, one after another, until each has had so many executions or so much processor
time, and keeps the account: what docs/reliability.md says of them comes from here.

    make fuzz-campaign                      # every target: 10 million executions or 30 CPU-minutes
    make fuzz-campaign FUZZ="index entry"   # these
    make fuzz-changed                       # for each target, what of its readers has changed since

It may be stopped and started again: build/fuzz/campaign.json has what each target has had, and
build/fuzz/corpus the inputs that reached new code. A target that was built anew from other sources
begins again. Findings are kept in build/fuzz; a target with one is run no further. What has changed
since is asked of git, for the commits that docs/reliability.md names."""

import argparse
import hashlib
import json
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cycles  # noqa: E402

ACCOUNT = pathlib.Path("build/fuzz/campaign.json")
TOP = pathlib.Path(__file__).resolve().parents[2]
OBJECTS = TOP / "build/release"


def read_account():
    return json.loads(ACCOUNT.read_text()) if ACCOUNT.exists() else {}


def write_account(account):
    ACCOUNT.parent.mkdir(parents=True, exist_ok=True)
    fresh = ACCOUNT.with_suffix(".new")
    fresh.write_text(json.dumps(account, indent=1, sort_keys=True) + "\n")
    fresh.replace(ACCOUNT)


def cpu_seconds(pid):
    """Of a process that runs, its threads together."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / 100


def stop(fuzzer):
    """Interrupts a fuzzer, which then prints what it did. One that is interrupted while it holds
    the allocator's lock waits for itself for ever: it is killed, and its last line counts. True if
    that was needed."""
    fuzzer.send_signal(signal.SIGINT)
    try:
        fuzzer.wait(timeout=30)
    except subprocess.TimeoutExpired:
        fuzzer.kill()
        fuzzer.wait()
        return True
    return False


def slice_of(target, runs, seconds, log):
    """Runs a target until it has had this; what libFuzzer counted."""
    corpus = pathlib.Path("build/fuzz/corpus") / target
    corpus.mkdir(parents=True, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(log, "wb") as out:
        fuzzer = subprocess.Popen(
            [f"build/fuzz/fuzz_{target}", f"-runs={runs}", "-max_len=65536", "-timeout=60",
             "-rss_limit_mb=4096", f"-artifact_prefix=build/fuzz/{target}-",
             "-print_final_stats=1", corpus, f"tests/fuzz/corpus/{target}"],
            stdout=out, stderr=out)  # fmt: skip
        killed = False
        try:
            while fuzzer.poll() is None:
                time.sleep(0.5)
                if cpu_seconds(fuzzer.pid) >= seconds:
                    killed = stop(fuzzer)
        except KeyboardInterrupt:
            fuzzer.wait()
            raise
    shutil.rmtree(f"/dev/shm/quern-fuzz-{fuzzer.pid}", ignore_errors=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = log.read_bytes().decode(errors="replace")
    stopped = "run interrupted" in text or killed
    edges = re.findall(r" cov: (\d+)", text)
    done = re.findall(r"number_of_executed_units: (\d+)|^#(\d+)\t", text, re.M)
    return {"executions": int("".join(done[-1])) if done else 0,
            "edges": int(edges[-1]) if edges else 0,
            "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "finding": bool(fuzzer.returncode) and not stopped}  # fmt: skip


def run(target, args):
    """Gives a target what it lacks; False if it found something."""
    account = read_account()
    stamp = hashlib.sha256(pathlib.Path(f"build/fuzz/fuzz_{target}").read_bytes()).hexdigest()
    had = account.get(target, {})
    if had.get("program") != stamp:
        had = {"program": stamp, "executions": 0, "cpu_s": 0.0, "edges": 0, "findings": 0}
    while (had["executions"] < args.runs and had["cpu_s"] < args.cpu_seconds
           and not had["findings"]):
        got = slice_of(target, args.runs - had["executions"],
                       min(60.0, args.cpu_seconds - had["cpu_s"]),
                       pathlib.Path(f"build/fuzz/{target}.log"))  # fmt: skip
        had["executions"] += got["executions"]
        had["cpu_s"] = round(had["cpu_s"] + got["cpu_s"], 1)
        had["edges"] = max(had["edges"], got["edges"])
        had["findings"] += got["finding"]
        had["commit"] = args.commit
        had["date"] = time.strftime("%Y-%m-%d", time.gmtime())
        write_account(read_account() | {target: had})
    print(row(target, had), flush=True)
    return not had["findings"]


def row(target, had):
    return (f"| {target} | {had['executions']:,} | {had['edges']:,} | "
            f"{had['cpu_s'] / 60:.1f} | {had['findings']} | {had['date']} | "
            f"{had['commit']} |")  # fmt: skip


# ---- What has changed since --------------------------------------------------------------------


def readers():
    """Of each target the sources whose code is instrumented and that it calls: its own file, those
    that the Makefile names for it, and whatever of the others these need."""
    listed = subprocess.run(["make", "-s", "fuzz-sources"], cwd=TOP, check=True, text=True,
                            capture_output=True).stdout  # fmt: skip
    lists = {name: files.split() for name, _, files in
             (line.partition(":") for line in listed.splitlines())}  # fmt: skip
    shared = lists.pop("all")
    defined, needed = {}, {}
    for room in ("src", "tools"):
        for into, of in zip((defined, needed), cycles.symbols(OBJECTS / room), strict=True):
            into.update({f"{room}/{name}.c": symbols for name, symbols in of.items()})
    owner = {symbol: name for name, symbols in defined.items() for symbol in symbols}
    found = {}
    for target, own in lists.items():
        test = f"tests/fuzz/test_fuzz_{target}.c"
        found[target] = {test, *own}
        todo = [set(re.findall(r"\w+", (TOP / test).read_text()))]
        todo += [needed.get(name, set()) for name in own]
        while todo:
            for symbol in todo.pop():
                name = owner.get(symbol)
                if name in shared and name not in found[target]:
                    found[target].add(name)
                    todo.append(needed.get(name, set()))
    return found


def campaigns(page):
    """The last row of each target in the page's table: {target: commit}."""
    rows = re.findall(r"^\| (\w+) \|(?:[^|\n]+\|){5} ([0-9a-f]{7,}) \|$", page, re.M)
    return dict(rows)


def changed(commit, sources):
    """Which of them, or of their headers, differ from what they were; None: no such commit."""
    names = [n for s in sorted(sources) for n in (s, s[:-2] + ".h")]
    git = subprocess.run(["git", "diff", "--name-only", commit, "--", *names], cwd=TOP, text=True,
                         capture_output=True)  # fmt: skip
    return None if git.returncode else git.stdout.split()


def tell_changes():
    done = campaigns((TOP / "docs/reliability.md").read_text())
    for target, sources in sorted(readers().items()):
        if target not in done:
            print(f"{target}: has had no campaign")
            continue
        files = changed(done[target], sources)
        print(f"{target}: " + (f"{done[target]} is not in this repository" if files is None else
                               f"unchanged since {done[target]} ({len(sources)} sources)"
                               if not files else
                               f"changed since {done[target]}: {' '.join(files)}"))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--runs", type=int, default=10_000_000)
    parser.add_argument("--cpu-seconds", type=float, default=1800)
    parser.add_argument("--commit", default="")
    parser.add_argument("--table", action="store_true", help="print what there is, and run nothing")
    parser.add_argument("--changed", action="store_true",
                        help="say what has changed since, and run nothing")  # fmt: skip
    args = parser.parse_args()
    if args.changed:
        tell_changes()
        return 0
    if args.table:
        for target, had in sorted(read_account().items()):
            print(row(target, had))
        return 0
    return 1 - min([run(target, args) for target in args.targets], default=True)


if __name__ == "__main__":
    sys.exit(main())
