#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the bundles of base kernels that are shipped with the library: make base.

    base.py make QUERN OUT TARGET [PROBLEM...]   OUT/TARGET.qkb, by the command QUERN, verified and
                                                 proven; of the kernels of some layers, or of all
    base.py table DIR                            the C table that is built into the library, of the
                                                 bundles in DIR

Equal sources and compilers give equal bytes. What a bundle has in addition to its entries is its
manifest: the version of quern, the layers, and a proof of each entry, so that the digest of the
head, which is built into the library, vouches for every byte (docs/formats.md, "Base bundle").
"""

import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
HEADER, INDEX, ALIGN, DIGEST = 64, 48, 16, 16
DIGEST_SIZE = 32  # of the BLAKE2b that is proof


def version():
    text = (TOP / "include/quern/quern.h").read_text()
    return ".".join(re.findall(r"^#define QUERN_VERSION_\w+ (\d+)", text, re.M))


def padded(size):
    return -(-size // ALIGN) * ALIGN


def blake(data):
    return hashlib.blake2b(data, digest_size=DIGEST_SIZE).hexdigest()


def head_of(data):
    """The bytes that are read when a bundle is opened."""
    entries, manifest, _, tuning = struct.unpack_from("<QQQQ", data, 24)
    end = padded(padded(HEADER + entries * (INDEX + 4)) + manifest + 1)
    if tuning:
        end = padded(end + tuning + 1)
    return data[: end + DIGEST]


def make(quern, out, target, *problems):
    """Makes, scans and verifies base kernels of a target in a cache of its own."""

    def run(*words):
        done = subprocess.run([quern, *map(str, words)], env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"base.py: quern {' '.join(map(str, words))}: {done.stderr}{done.stdout}")
        return done.stdout

    env = {k: v for k, v in os.environ.items()
           if not k.startswith("QUERN_") or k in ("QUERN_ROCM_PATH", "QUERN_CUDA_PATH")}
    with tempfile.TemporaryDirectory() as scratch:
        # those of a build before must not serve in place of what is to be made
        env.update(QUERN_CACHE_DIR=f"{scratch}/cache", QUERN_BASE="off")
        bundle, manifest = pathlib.Path(scratch, "base.qkb"), pathlib.Path(scratch, "manifest")
        made = json.loads(run("prewarm", "--target", target, "--verify=all", "--json",
                              *(problems or ["--base"])))
        if not made["problems"]:
            print(f"{target} has no base kernels")
            return
        kernels = json.loads(run("cache", "verify", "--json"))["entries"]
        unscanned = [k["kernel"] for k in kernels if not k["scanned"]]
        if unscanned:
            sys.exit(f"base.py: not scanned for {target}: {', '.join(unscanned)}")
        layers = sorted(p["problem"] for p in made["problems"])
        lines = [f"# quern base kernels, version {version()}",
                 *(f"target={target} {layer}" for layer in layers)]
        manifest.write_text("\n".join(lines) + "\n")
        run("bundle", "create", bundle, "--target", target, "--manifest", manifest)
        data = bundle.read_bytes()
    if head_of(data).count(b"\n# proof ") != len(kernels) + 1:
        sys.exit(f"base.py: {quern} did not put the proofs into the bundle")
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    unfinished = out / f".{target}.tmp"
    unfinished.write_bytes(data)
    unfinished.replace(out / f"{target}.qkb")
    print(f"{out / target}.qkb: {len(kernels)} kernels of {len(layers)} layers, {len(data)} bytes")


def table(directory):
    """The targets in order, each with the digest of its bundle's head."""
    print("/* Made by tools/base.py; not to be edited. */")
    print('#include "dispatch/dispatch.h"\n\nconst struct base_shipped base_shipped[] = {')
    for bundle in sorted(pathlib.Path(directory).glob("*.qkb")):
        digest = bytes.fromhex(blake(head_of(bundle.read_bytes())))
        print(f'    {{"{bundle.stem}", {{{", ".join(map(str, digest))}}}}},')
    print("    {NULL, {0}},\n};")


if __name__ == "__main__":
    {"make": make, "table": table}[sys.argv[1]](*sys.argv[2:])
