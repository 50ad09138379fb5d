# SPDX-License-Identifier: MIT
"""Base kernels as they are shipped: made by tools/base.py, built into a library by their digests,
installed with it, and served where nothing may be compiled."""

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

from conftest import COMMAND, TARGET, TOP, Quern, clean_environment

LAYER = "wq=nf4 n=48 k=128 a=bf16"
OTHER = "gfx1201"

pytestmark = pytest.mark.skipif(
    "release" not in COMMAND.parts, reason="what is installed is the release build"
)


def maker():
    spec = importlib.util.spec_from_file_location("base", TOP / "tools/base.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parts_of(bundle):
    """The entries as they are stored, in the order of keys, and behind them the dictionary."""
    base = maker()
    (entries,) = struct.unpack_from("<Q", bundle, 24)
    index = [struct.unpack_from("<QI", bundle, base.HEADER + i * base.INDEX + 32)
             for i in range(entries)]
    first = min(offset for offset, _ in index)
    dictionary = bundle[len(base.head_of(bundle)) : first]
    return [*(bundle[at : at + packed] for at, packed in index), dictionary]


def make_base(out, *targets, layers=(LAYER,)):
    """The bundle of the last target."""
    done = subprocess.run(
        [sys.executable, TOP / "tools/base.py", "make", COMMAND, out, ",".join(targets),
         *(f"{layer} kernels=base" for layer in layers)],
        capture_output=True, text=True, env=clean_environment("/nowhere"), timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return (out / f"{targets[-1]}.qkb").read_bytes()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """Where a library is installed that is built with base kernels of two targets, one of which is
    left out; and the bundle of the other."""
    top = tmp_path_factory.mktemp("base")
    bundle = make_base(top / "base", TARGET)
    make_base(top / "base", OTHER)
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}

    def make(goal, prefix=top / "quern", ready="ready"):
        subprocess.run(
            ["make", "--no-print-directory", goal, f"PREFIX={prefix}", f"READY={top}/{ready}",
             f"BASE={top}/base", f"BASE_TARGETS={TARGET}"],
            cwd=TOP, env=env, check=True, capture_output=True, timeout=1800,
        )  # fmt: skip

    make("install")
    make("ready", "/nowhere", "wheel")
    yield top, bundle
    make("uninstall")
    assert not list((top / "quern").rglob("*.qkb"))


@pytest.fixture
def installed(shipped, tmp_path):
    """The installed command, with an empty cache, that may not compile."""
    quern = Quern(tmp_path / "cache")
    command = shipped[0] / "quern/bin/quern"
    rocm = {"QUERN_ROCM_PATH": str(TOP / "build/rocm")} if (TOP / "build/rocm").is_dir() else {}

    def run(*words, env=None, **options):
        return quern(*words, command=command, env={"QUERN_JIT": "off", **rocm, **(env or {})},
                     **options)

    return run


def operands(tmp_path):
    """Files of a layer; and what it must give."""
    rng = np.random.default_rng(1)
    a = (rng.standard_normal((3, 128)) * 16).round() / 16
    w = rng.standard_normal((48, 128)).astype(np.float32)
    (tmp_path / "a").write_bytes((a.astype(np.float32).view(np.uint32) >> 16).astype("<u2"))
    (tmp_path / "w").write_bytes(w.tobytes())
    return a


def test_bits_from_run_to_run(shipped, tmp_path):
    top, bundle = shipped
    assert make_base(tmp_path, TARGET) == bundle
    base = maker()
    manifest = base.head_of(bundle).split(b"# quern base kernels", 1)[1].split(b"\0", 1)[0].decode()
    assert manifest.startswith(f", version {base.version()}\ntarget={TARGET} op=gemm wq=nf4")
    # the table that is built in has the digest of the head, in which each part has its own
    done = subprocess.run([sys.executable, TOP / "tools/base.py", "table", top / "base"],
                          capture_output=True, text=True, check=True)
    digest = ", ".join(map(str, bytes.fromhex(base.blake(base.head_of(bundle)))))
    assert f'{{"{TARGET}", {{{digest}}}}}' in done.stdout and f'"{OTHER}"' in done.stdout
    parts = parts_of(bundle)
    assert b"".join([base.head_of(bundle), parts[-1], *parts[:-1]]) == bundle
    assert re.findall("^# proof (.*)", manifest, re.M) == [base.blake(part) for part in parts]


@pytest.mark.parametrize("targets", [("gfx1150", "gfx1152", "gfx1153"), ("gfx1200", "gfx1201")])
def test_code_of_another_target(tmp_path, targets):
    """What is copied from another target's kernels is what the compiler makes."""
    layers = [LAYER, "wq=int4 n=64 k=512 a=f16 zero=u8", "wq=mxfp4 n=64 k=512 a=f16",
              "wq=none n=64 k=512 a=bf16", "op=dequant wq=mxfp4 n=64 k=512 c=bf16"]
    make_base(tmp_path / "together", *targets, layers=layers)
    for target in targets:
        alone = make_base(tmp_path / "alone", target, layers=layers)
        assert (tmp_path / f"together/{target}.qkb").read_bytes() == alone
    # and it is copied, where the text is the same and somebody asks for it
    words = ["prewarm", "--json", f"{LAYER} kernels=base", "--target"]
    for copy in ("on", "off"):
        quern = Quern(tmp_path / copy)
        env = {"QUERN_BASE": "off", "QUERN_BASE_COPY": copy}
        for target in targets:
            made = json.loads(quern(*words, target, env=env).stdout)
            copied = made["counters"]["compile_ok"] < made["kernels"]
            assert copied == (copy == "on" and target != targets[0])


def test_one_target_is_installed(shipped):
    names = [p.name for p in (shipped[0] / "quern/libexec/quern/base").iterdir()]
    assert names == [f"{TARGET}.qkb"]


def test_run_answers_where_nothing_is_compiled(installed, tmp_path):
    layer = f"{LAYER} scale=f32"
    a = operands(tmp_path)
    quern = Quern(tmp_path / "own")
    quern("quantize", layer, f"w={tmp_path}/w", "--out", tmp_path)
    names = ("a", "b", "scales")
    words = ["run", "--m", 3, layer, *(f"{name}={tmp_path}/{name}" for name in names)]
    quern(*words, f"c={tmp_path}/expected", "--target", TARGET)
    done = installed(*words, f"c={tmp_path}/c", "--target", TARGET)
    assert done.stderr.startswith("quern run: base kernels answer") and done.stderr.count("\n") == 1
    got, expected = (
        (np.frombuffer((tmp_path / name).read_bytes(), "<u2").astype(np.uint32) << 16)
        .view(np.float32) for name in ("c", "expected")
    )  # fmt: skip
    assert np.abs(expected).max() > 0 and a.any()
    assert np.abs(got - expected).max() <= 5e-3 * np.abs(expected).max()
    installed(*words, f"c={tmp_path}/again", "--target", TARGET, env={"QUERN_BASE": "on"})
    assert (tmp_path / "again").read_bytes() == (tmp_path / "c").read_bytes()
    done = installed(*words, f"c={tmp_path}/none", "--target", TARGET, env={"QUERN_BASE": "off"},
                     status=1)
    assert "is not in the cache" in done.stderr and not (tmp_path / "none").exists()
    # the target whose file was left out, and a layer of another kind
    for target, other in ((OTHER, layer), (TARGET, layer.replace("nf4", "fp4"))):
        done = installed(*words[:3], other, *words[4:], f"c={tmp_path}/none", "--target", target,
                         status=1)
        assert "is not in the cache" in done.stderr and not (tmp_path / "none").exists()


def test_explain_says_so(installed, tmp_path):
    def verdict(*words, **env):
        out = installed("explain", "--target", TARGET, "--json", LAYER, *words, env=env).stdout
        return json.loads(out)["explanations"][0]["verdict"]

    text = installed("explain", "--target", TARGET, LAYER).stdout
    assert text.startswith("base: base kernels serve: neither a bundle nor the cache has it, and "
                           "compiling is off (QUERN_JIT); ")
    assert verdict() == "base"
    nowhere = str(tmp_path / "nowhere")
    text = installed("explain", "--target", TARGET, LAYER,
                     env={"QUERN_JIT": "on", "QUERN_ROCM_PATH": nowhere}).stdout
    assert text.startswith("base: ") and nowhere in text
    text = installed("explain", "--target", TARGET, LAYER, env={"QUERN_JIT": "on"}).stdout
    assert text.startswith("compiles: neither a bundle nor the cache has it; base kernels can ")
    assert verdict(QUERN_JIT="on") == "compiles"
    assert verdict(QUERN_JIT="error") == "base"
    # a cache that may only be read, and has nothing
    (tmp_path / "cache").mkdir(mode=0o700, exist_ok=True)
    assert verdict(QUERN_CACHE_MODE="ro") == "base"
    assert installed("explain", "--target", OTHER, LAYER).stdout.startswith("compiles: ")


def test_a_damaged_file_is_refused(shipped, installed, tmp_path):
    path = shipped[0] / f"quern/libexec/quern/base/{TARGET}.qkb"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:70] + bytes([whole[70] ^ 1]) + whole[71:])
        done = installed("explain", "--target", TARGET, LAYER)
        assert done.stdout.startswith("compiles: ")
        operands(tmp_path)
        Quern(tmp_path / "own")("quantize", LAYER, f"w={tmp_path}/w", "--out", tmp_path)
        done = installed("run", "--m", 3, LAYER, "--target", TARGET, f"c={tmp_path}/c",
                         *(f"{name}={tmp_path}/{name}" for name in ("a", "b", "scales")),
                         env={"QUERN_BASE": "on"}, status=1)
        assert f"base kernels in {path} are not used: the file is damaged (" in done.stderr
        assert "): run make base and make install again" in done.stderr
    finally:
        path.write_bytes(whole)


def test_the_flag_of_prewarm(quern):
    quern.refused("prewarm", "--base", "--target", TARGET, LAYER, status=2,
                  says="--base goes alone")
    kinds = {}
    for which in ("usual", "all"):
        done = quern("prewarm", f"--base={which}", "--target", TARGET, "--jit", "off", "--json",
                     env={"QUERN_BASE": "off"}, status=1)
        made = json.loads(done.stdout)["problems"]
        kinds[which] = {p["problem"] for p in made}
        assert len(kinds[which]) == len(made)
    assert 30 < len(kinds["usual"]) < len(kinds["all"]) / 4 and kinds["usual"] < kinds["all"]
    assert all(kind.endswith(" round=rne kernels=base") for kind in kinds["all"])
    word = "op=gemm wq=nf4 group=64 scale=nested a=bf16 c={} n=64 k=512 bias=0 layout=bnb round=rne"
    assert word.format("bf16") + " kernels=base" in kinds["usual"]
    assert word.format("f32") + " kernels=base" in kinds["all"] - kinds["usual"]


# A host of the wheel alone. Its first argument is the HIP runtime, which has a decoder of its own.
HOST = f"""
import ctypes, json, sys, warnings
ctypes.CDLL(sys.argv[1])
import numpy as np, quern
warnings.simplefilter("ignore")
rng = np.random.default_rng(2)
w = rng.standard_normal((48, 128)).astype(np.float32)
x = ((rng.standard_normal((3, 128)) * 16).round() / 16).astype(np.float32)
with quern.Context() as ctx:
    layer = quern.Linear.quantize(ctx, w, wq="nf4", a="bf16")
    want = x.astype(float) @ quern.dequantize("{LAYER}", quern.quantize("{LAYER}", w)).T
    print(json.dumps([float(np.abs(layer(x) - want).max() / np.abs(want).max()),
                      layer.op.explain(m=3), ctx.stats()]))
"""


def test_a_wheel_alone(shipped, tmp_path):
    """pip installs it on a machine with the HIP runtime and no compiler: layers are multiplied."""
    runtime = COMMAND.parents[1] / "lib/fakehip/libamdhip64.so.6"
    if not runtime.exists():
        pytest.skip("no HIP headers to make fakehip from")
    top, site = shipped[0], tmp_path / "site"
    done = subprocess.run(
        [sys.executable, TOP / "tools/python/wheel.py", COMMAND.parents[1], tmp_path, "0.1.0",
         "strip", top / "wheel/libquern.so", top / "base"], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    subprocess.run(["sh", TOP / "tools/pip.sh", "install", "--quiet", "--no-index", "--no-deps",
                    "--target", site, done.stdout.strip()], check=True)  # fmt: skip
    paths = [str(site), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    env = {**clean_environment(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(paths),
           "QUERN_ROCM_PATH": "/nowhere", "ROCM_PATH": str(TOP / "build/rocm"),
           "FAKEHIP_DEVICES": TARGET}  # fmt: skip

    def host():
        return subprocess.run([sys.executable, "-c", HOST, runtime], env=env, capture_output=True,
                              text=True, cwd=tmp_path, timeout=600)

    done = host()
    assert done.returncode == 0, done.stderr
    error, explained, stats = json.loads(done.stdout)
    assert error < 5e-3 and "base kernels serve" in explained and f"on {TARGET}" in explained
    assert stats["hit_base"] > 0 and stats["compile_ok"] == 0
    (site / f"quern/libexec/quern/base/{TARGET}.qkb").unlink()
    done = host()
    assert done.returncode and "/nowhere" in done.stderr
