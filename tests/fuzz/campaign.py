# SPDX-License-Identifier: MIT
"""Runs fuzz targets, one after another, until each has had so many executions or so much processor
time, and keeps the account: what docs/reliability.md says of them comes from here.

    make fuzz-campaign                      # every target: 10 million executions or 30 CPU-minutes
    make fuzz-campaign FUZZ="index entry"   # these

It may be stopped and started again: build/fuzz/campaign.json has what each target has had, and
build/fuzz/corpus the inputs that reached new code. A target that was built anew from other sources
begins again. Findings are kept in build/fuzz; a target with one is run no further."""

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

ACCOUNT = pathlib.Path("build/fuzz/campaign.json")


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
        try:
            while fuzzer.poll() is None:
                time.sleep(0.5)
                if cpu_seconds(fuzzer.pid) >= seconds:
                    fuzzer.send_signal(signal.SIGINT)
                    fuzzer.wait()
        except KeyboardInterrupt:
            fuzzer.wait()
            raise
    shutil.rmtree(f"/dev/shm/quern-fuzz-{fuzzer.pid}", ignore_errors=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = log.read_bytes().decode(errors="replace")
    stopped = "run interrupted" in text
    edges = re.findall(r" cov: (\d+)", text)
    done = re.findall(r"number_of_executed_units: (\d+)", text)
    return {"executions": int(done[-1]) if done else 0, "edges": int(edges[-1]) if edges else 0,
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
            f"{had['cpu_s'] / 60:.1f} | {had['findings']} |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--runs", type=int, default=10_000_000)
    parser.add_argument("--cpu-seconds", type=float, default=1800)
    parser.add_argument("--commit", default="")
    parser.add_argument("--table", action="store_true", help="print what there is, and run nothing")
    args = parser.parse_args()
    if args.table:
        for target, had in sorted(read_account().items()):
            print(row(target, had))
        return 0
    return 1 - min([run(target, args) for target in args.targets], default=True)


if __name__ == "__main__":
    sys.exit(main())
