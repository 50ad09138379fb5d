#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles tests/peers/w4a16.py with triton's PyPI package, fetched once into build/peers.

    fetch_triton.py --target gfx942 --type bf16 --group 128 --zero u8 [--moe]

prints the directory of the code object, which `quern bench --peer triton` reads; exit status 1 with
one line that says why when the package cannot be had. Nothing that builds quern needs it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

from fetch_wheel import TOP, Unavailable, fetch_once

VERSION = "3.9.0"
# of 900 MB what compiles for AMD's GPUs
LEFT_OUT = ("triton/backends/nvidia/lib/", "triton/backends/nvidia/bin/", "triton/_C/libproton",
            "triton/FileCheck", "triton/instrumentation/", "triton/plugins/")  # fmt: skip
COMPILE_SECONDS = 300


def unpack(wheel, directory):
    """The package, in `package`; the mark is set when all of it is there."""
    package = directory / "package"
    shutil.rmtree(package, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not member.filename.startswith(LEFT_OUT):
                archive.extract(member, package)
                mode = member.external_attr >> 16 & 0o777
                (package / member.filename).chmod(mode or 0o644)


def compile_kernel(directory, words):
    """Runs w4a16.py, with a cache of Triton's that is its own."""
    command = [sys.executable, TOP / "tests/peers/w4a16.py", "--out", directory, *words]
    with tempfile.TemporaryDirectory() as cache:
        env = dict(os.environ, PYTHONPATH=str(directory / "package"), TRITON_CACHE_DIR=cache,
                   TRITON_DEFAULT_FP_FUSION="1", PYTHONDONTWRITEBYTECODE="1")
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False,
                                  timeout=COMPILE_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise Unavailable(f"Triton took more than {COMPILE_SECONDS} s") from late
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or ["Triton said nothing"])[-1])


if __name__ == "__main__":
    os.umask(0o022)
    try:
        place = fetch_once(f"triton=={VERSION}", unpack)
        compile_kernel(place, sys.argv[1:])
        print(place)
    except (Unavailable, OSError) as why:
        sys.exit(str(why))
