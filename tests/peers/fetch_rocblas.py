#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fetches Debian's package of rocBLAS (librocblas4, 280 MB) once, from this machine's mirror, and
unpacks the libraries of hand-scheduled kernels that the tests want into build/peers.

From the command line: prints the directory that holds them; exit status 1 with one line that says
why when they cannot be had.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from fetch_wheel import MARK, PEERS, Unavailable, only_one

PACKAGE, SUITE = "librocblas4", "forky"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# sums of f32, and of bf16, f16 and i8 in wider types, for two kinds of processors
LIBRARY = re.compile(r"TensileLibrary_Type_(SS|BB_HPA|HH_HPA|I8I_HPA)_Contraction_l_A\w+"
                     r"_Cijk_Dijk_(gfx90a|gfx1100)\.co")
SECONDS = 1800


def mirror():
    """The Debian mirror of this machine's sources."""
    for path in [*pathlib.Path("/etc/apt").glob("sources.list.d/*.sources"),
                 pathlib.Path("/etc/apt/sources.list")]:
        if path.exists() and (found := re.search(r"https?://\S+/debian/?(?=\s)",
                                                 path.read_text(encoding="utf-8"))):
            return found[0]
    raise Unavailable("no Debian mirror in /etc/apt")


def run(command, cwd, env=None):
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True,
                              timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise Unavailable(f"{command[0]}: {why}") from why
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-200:]}")


def download(work):
    """The package, by an apt of its own in `work`, which touches nothing outside."""
    for name in ("lists/partial", "cache/archives/partial", "etc/preferences.d"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {SUITE} main\n",
                                       encoding="utf-8")
    (work / "apt.conf").write_text(
        f'Dir "{work}";\nDir::State "{work}";\nDir::State::Lists "{work}/lists";\n'
        f'Dir::State::status "{work}/status";\nDir::Cache "{work}/cache";\nDir::Etc "{work}/etc";\n'
        f'Dir::Etc::sourcelist "{work}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
        'APT::Architecture "amd64";\nAPT::Sandbox::User "";\nAcquire::Check-Valid-Until "false";\n'
        'Debug::NoLocking "true";\n', encoding="utf-8")
    env = {**os.environ, "APT_CONFIG": str(work / "apt.conf")}
    run(["apt-get", "-qq", "update"], work, env)
    run(["apt-get", "-qq", "download", PACKAGE], work, env)
    (package,) = work.glob("*.deb")
    return package


def fetch():
    """The directory of the libraries. Raises Unavailable."""
    directory = PEERS / "rocblas"
    if (directory / MARK).exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    with only_one(PEERS / "lock"):
        if (directory / MARK).exists():
            return directory
        work = pathlib.Path(tempfile.mkdtemp(prefix="fetch.", dir=PEERS))
        try:
            run(["dpkg-deb", "-x", str(download(work)), str(work / "root")], work)
            for path in (work / "root").rglob("*.co"):
                if LIBRARY.fullmatch(path.name):
                    shutil.move(path, directory / path.name)
        finally:
            shutil.rmtree(work)
        (directory / MARK).touch()
    return directory


if __name__ == "__main__":
    os.umask(0o022)
    try:
        print(fetch())
    except (Unavailable, OSError) as why:
        sys.exit(str(why))
