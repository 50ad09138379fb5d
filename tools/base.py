#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the bundles of base kernels that are shipped with the library: make base.

    base.py make QUERN OUT TARGET[,...] [PROBLEM...]
        OUT/TARGET.qkb for each target, by the command QUERN, verified and proven; of the kernels
        of some layers, or of all
    base.py table DIR
        the C table that is built into the library, of the bundles in DIR

Equal sources and compilers give equal bytes. What a bundle has in addition to its entries is its
manifest: the version of quern, the layers, and a proof of each entry, so that the digest of the
head, which is built into the library, vouches for every byte (docs/formats.md, "Base bundle").
"""

import concurrent.futures
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
COPIED_STEP = 32  # one in so many layers whose kernels were copied is compiled as a check


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


def run(quern, env, *words):
    done = subprocess.run([quern, *map(str, words)], env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"base.py: quern {' '.join(map(str, words))}: {done.stderr}{done.stdout}")
    return done.stdout


def environment(cache):
    """With a cache of its own: kernels of a build before must not serve in place of new ones."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("QUERN_") or k in ("QUERN_ROCM_PATH", "QUERN_CUDA_PATH")}
    return {**env, "QUERN_CACHE_DIR": str(cache), "QUERN_BASE": "off", "QUERN_BASE_COPY": "on"}


def entries_in(cache):
    return {p.relative_to(cache): p.read_bytes() for p in cache.rglob("*.qk")}


def check_copied(quern, cache, target, problems):
    """Compiles some of the kernels that were copied from another target's, which must give the
    same entries: a later compiler may make other code for one of the two."""
    copied = [p["problem"] for p in problems
              if any(not (k["cached"] or k["compile_ms"]) for k in p["kernels"])]
    if not copied:
        return
    with tempfile.TemporaryDirectory() as scratch:
        run(quern, environment(scratch), "prewarm", "--target", target, *copied[::COPIED_STEP])
        expected, got = entries_in(pathlib.Path(scratch)), entries_in(cache)
    if not expected or any(got.get(name) != entry for name, entry in expected.items()):
        sys.exit(f"base.py: this compiler does not make the code of another target for {target}: "
                 f"take its CODE_OF out of src/target/rows.c")


def make_target(quern, out, cache, target, problems):
    """Makes, scans and verifies base kernels of a target, and packs them."""
    env = environment(cache)
    made = json.loads(run(quern, env, "prewarm", "--target", target, "--verify=all", "--json",
                          *(problems or ["--base"])))
    if not made["problems"]:
        return f"{target} has no base kernels"
    check_copied(quern, cache, target, made["problems"])
    kernels = [k for k in json.loads(run(quern, env, "cache", "verify", "--json"))["entries"]
               if k["processor"] == target]
    unscanned = [k["kernel"] for k in kernels if not k["scanned"]]
    if unscanned:
        sys.exit(f"base.py: not scanned for {target}: {', '.join(unscanned)}")
    layers = sorted(p["problem"] for p in made["problems"])
    lines = [f"# quern base kernels, version {version()}",
             *(f"target={target} {layer}" for layer in layers)]
    with tempfile.TemporaryDirectory() as scratch:
        bundle, manifest = pathlib.Path(scratch, "base.qkb"), pathlib.Path(scratch, "manifest")
        manifest.write_text("\n".join(lines) + "\n")
        run(quern, env, "bundle", "create", bundle, "--target", target, "--manifest", manifest)
        data = bundle.read_bytes()
    if head_of(data).count(b"\n# proof ") != len(kernels) + 1:
        sys.exit(f"base.py: {quern} did not put the proofs into the bundle")
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    unfinished = out / f".{target}.tmp"
    unfinished.write_bytes(data)
    unfinished.replace(out / f"{target}.qkb")
    return f"{out / target}.qkb: {len(kernels)} kernels of {len(layers)} layers, {len(data)} bytes"


def make_family(quern, out, family, problems):
    with tempfile.TemporaryDirectory() as cache:
        for target in family:
            print(make_target(quern, out, pathlib.Path(cache), target, problems), flush=True)


def make(quern, out, targets, *problems):
    """Makes two families of targets at a time, as packing keeps a single processor busy. Targets of
    a family share a cache, and are made one after another: what the compiler made for one may be
    what it would make for the next (src/dispatch/kernel_code.c)."""
    family_of = {t["name"]: t["family"] for t in json.loads(run(quern, None, "targets", "--json"))}
    families = {}
    for target in targets.split(","):
        families.setdefault(family_of.get(target, target), []).append(target)
    in_order = sorted(families.values(), key=len, reverse=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = [pool.submit(make_family, quern, out, f, problems) for f in in_order]
        for one in concurrent.futures.as_completed(made):
            if one.exception():
                pool.shutdown(cancel_futures=True)
            one.result()


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
