#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the wheel of a finished build: make wheel. Usage:

    wheel.py BUILD OUT VERSION STRIP [LIBRARY BASE]

LIBRARY and BASE: another libquern.so, and the directory of the base bundles that it was built with.
Needs no package but the standard library; equal inputs give equal bytes. The platform tag is the
oldest C library that the binaries inside run on, read from them.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
DATE = (1980, 1, 1, 0, 0, 0)
LIBRARY = "quern/lib/libquern.so.0"
BINARIES = {  # in the wheel: in the build, beside the software GPU's
    LIBRARY: "lib/libquern.so",
    "quern/lib/libquern_bnb.so": "lib/libquern_bnb.so",
    "quern/libexec/quern/quern-worker": "libexec/quern/quern-worker",
    "quern/libexec/quern/quern-remote": "libexec/quern/quern-remote",
}
# What every Linux with the tagged C library has, and what the wheel itself brings.
NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2",
          "libquern.so.0"}


def output_of(*words):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True,
                          text=True).stdout


def libc_of(path):
    """The newest glibc symbol version that a binary asks for, as (2, N)."""
    strangers = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", path))) - NEEDED
    if strangers:
        sys.exit(f"wheel.py: {path} needs {', '.join(sorted(strangers))}, which is not in a wheel")
    found = re.findall(r"GLIBC_(\d+)\.(\d+)", output_of("readelf", "-V", path))
    return max((int(a), int(b)) for a, b in found)


def metadata(version):
    return "\n".join([
        "Metadata-Version: 2.1", "Name: quern", f"Version: {version}",
        "Summary: Kernels for quantised linear layers on AMD and NVIDIA GPUs, made to order",
        "License: MIT",
        "Requires-Python: >=3.9", "Requires-Dist: numpy>=1.22",
        "Description-Content-Type: text/markdown", "",
        (HERE / "README.md").read_text()])


def binaries(build):
    """BINARIES, and the software GPU for each vector instruction set that it was built for."""
    bodies = sorted(build.glob("libexec/quern/quern-sim-*.so"))
    return BINARIES | {f"quern/libexec/quern/{p.name}": p.relative_to(build) for p in bodies}


def collect(build, version, strip, scratch, library=None, base=None):
    """Names in the wheel with their bytes; the tag."""
    files, libc = {}, (2, 17)
    for name, source in binaries(build).items():
        if library and name == LIBRARY:
            source = pathlib.Path(library).absolute()
        stripped = scratch / pathlib.Path(name).name
        output_of(strip, "--strip-unneeded", "-o", stripped, build / source)
        libc = max(libc, libc_of(stripped))
        files[name] = stripped.read_bytes()
    for path in sorted((HERE / "quern").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            files[f"quern/{path.name}"] = path.read_bytes().replace(b"@version@", version.encode())
    for path in sorted(pathlib.Path(base or build / "libexec/quern/base").glob("*.qkb")):
        files[f"quern/libexec/quern/base/{path.name}"] = path.read_bytes()
    tag = f"py3-none-manylinux_{libc[0]}_{libc[1]}_x86_64"
    info = f"quern-{version}.dist-info"
    files[f"{info}/METADATA"] = metadata(version).encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: quern\nRoot-Is-Purelib: false\n"
                              f"Tag: {tag}\n").encode()
    files[f"{info}/LICENSE"] = (TOP / "LICENSE").read_bytes()
    return files, tag, f"{info}/RECORD"


def record(files, own):
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{own},,\n"]).encode()


def main():
    build, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    version, strip, *other = sys.argv[3:]
    with tempfile.TemporaryDirectory() as scratch:
        files, tag, own = collect(build, version, strip, pathlib.Path(scratch), *other)
    files[own] = record(files, own)
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"quern-{version}-{tag}.whl"
    # of this process, for several may make it at once
    unfinished = wheel.with_suffix(f".{os.getpid()}.tmp")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            executable = data.startswith(b"\x7fELF")
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, data)
    unfinished.replace(wheel)
    print(wheel)


main()
