#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fetches bitsandbytes' published wheel once and unpacks its libraries into build/peers.

From the command line: prints the directory that holds them; exit status 1 with one line that says
why when they cannot be had. Any number of processes may run this at once.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = TOP / "build" / "peers"
VERSION = "0.50.2"
WHEEL = f"bitsandbytes=={VERSION}"
# the CPU library, and one for each ROCm release, with code objects of every GPU
MEMBER = re.compile(r"bitsandbytes/(libbitsandbytes_(?:cpu|rocm\d+)\.so)")
# written last: everything before it is complete
MARK = "complete"
PIP_SECONDS = 240


class Unavailable(Exception):
    """The wheel cannot be had here and now."""


@contextlib.contextmanager
def only_one(path):
    """Held by one process at a time; given up by the system when the process ends."""
    with open(path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def download(work, wheel):
    """The wheel of a requirement "name==version", downloaded into the directory `work`."""
    command = ["sh", TOP / "tools" / "pip.sh", "download", "--quiet", "--no-deps",
               "--only-binary=:all:", "--dest", work, wheel]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS,
                              check=False)
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"{wheel}: no download within {PIP_SECONDS} s") from late
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise Unavailable(f"{wheel} cannot be downloaded: {reason}")
    (path,) = work.glob("*.whl")
    return path


def unpack(wheel, directory):
    """Each library appears whole or not at all, whoever reads the directory meanwhile."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if found := MEMBER.fullmatch(member):
                part = wheel.with_suffix(".part")
                part.write_bytes(archive.read(member))
                part.replace(directory / found[1])


def fetch_once(wheel, fill):
    """The directory of a requirement "name==version", downloaded and filled by fill(path of the
    wheel, directory) unless that was done before. Raises Unavailable."""
    directory = PEERS / wheel.replace("==", "-")
    if (directory / MARK).exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    with only_one(PEERS / "lock"):
        if (directory / MARK).exists():
            return directory
        work = pathlib.Path(tempfile.mkdtemp(prefix="fetch.", dir=PEERS))
        try:
            fill(download(work, wheel), directory)
        finally:
            shutil.rmtree(work)
        (directory / MARK).touch()
    return directory


def fetch():
    """The directory of the libraries. Raises Unavailable."""
    return fetch_once(WHEEL, unpack)


if __name__ == "__main__":
    os.umask(0o022)
    try:
        print(fetch())
    except (Unavailable, OSError) as why:
        sys.exit(str(why))
