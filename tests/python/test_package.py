# SPDX-License-Identifier: MIT
"""The Python package: built by `make wheel`, installed by pip, used on software GPUs and on a HIP
runtime of software GPUs.

This file is long because all of the package's modules but those for torch are tried here.
"""

import copy
import ctypes
import gc
import importlib.util
import json
import os
import shlex
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import types
import warnings
import zipfile

import numpy as np
import pytest
from conftest import BUILD, INSTALL, TOP, close, linear4bit, rows, weights

# ---- the package --------------------------------------------------------------------------------


def test_the_wheel_is_whole_and_the_same_each_time(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    assert "quern/py.typed" in names and "quern/libexec/quern/quern-worker" in names
    assert re.search(r"-py3-none-manylinux_2_\d+_x86_64\.whl$", wheel.name)
    again = subprocess.run(
        [sys.executable, TOP / "tools/python/wheel.py", BUILD, tmp_path,
         wheel.name.split("-")[1], "strip"], capture_output=True, text=True, check=True)
    assert pathlib.Path(again.stdout.strip()).read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("page, kernel, error", [
    ("README.md", "quern_nf4_bf16_n64_k256", True),
    ("tools/python/README.md", "quern_nf4_bf16_n64_k256", True),
    ("docs/pytorch.md", "quern_int4_f16_n64_k256", False),
])  # fmt: skip
def test_it_needs_nothing_else(site, tmp_path, page, kernel, error):
    """A fresh interpreter with numpy: the library and the worker come from the package. The first
    program of a page, and one that goes on from it."""
    blocks = re.findall(r"^```python\n(.*?)^```", (TOP / page).read_text(), re.M | re.S)
    code = blocks[0] + "".join(block for block in blocks[1:]
                               if "ctx.prewarm" in block or "quern.MoE" in block)
    assert error or "all_served" in code
    env = {k: v for k, v in os.environ.items() if not k.startswith(("QUERN_", "LD_"))}
    env.update(QUERN_CACHE_DIR=str(tmp_path / "cache"), QUERN_ROCM_PATH=os.environ.get(
        "QUERN_ROCM_PATH", str(TOP / "build/rocm")))
    numpy = pathlib.Path(np.__file__).parents[1]
    env["PYTHONPATH"] = os.pathsep.join([str(site), str(numpy)])
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path,
                          capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    printed, explained = done.stdout.split("\n", 1) if error else (".5", done.stdout)
    assert 0 < float(printed) < 1 and kernel in explained


def test_structs_are_those_of_the_headers(quern, tmp_path):
    """The places that a C compiler gives members, and the sizes: but a struct of the headers may
    have members behind the last that the package knows, as it may in a newer library."""
    native = sys.modules["quern._native"]
    structs = {"quern_options": native.Options, "quern_problem": native.Problem,
               "quern_args": native.Args, "quern_event": native.Event,
               "quern_progress": native.Progress,
               "quern_operand": native.Operand, "quern_quantized": native.Quantized,
               "quern_device_info": native.DeviceInfo, "quern_error": native.ErrorDetail}
    lines = []
    for name, struct_ in structs.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        lines += [f'printf("{name}.{f} %zu\\n", offsetof(struct {name}, {f}));'
                  for f, _ in struct_._fields_]
    source = tmp_path / "sizes.c"
    source.write_text("#include <quern/tool.h>\n#include <stdio.h>\nint main(void)\n{\n"
                      + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run([*shlex.split(os.environ.get("CC", "gcc")), f"-I{TOP}/include", source, "-o",
                    tmp_path / "sizes"], check=True)
    said = dict(line.split() for line in subprocess.run(
        [tmp_path / "sizes"], capture_output=True, text=True).stdout.splitlines())
    ours = {}
    for name, struct_ in structs.items():
        ours[name] = str(ctypes.sizeof(struct_))
        ours.update({f"{name}.{f}": str(getattr(struct_, f).offset) for f, _ in struct_._fields_})
    for name in structs:
        assert int(ours.pop(name)) <= int(said.pop(name)), name
    assert said == ours


def test_operands_are_those_of_the_document(quern):
    """Args has a pointer for each operand of docs/formats.md, which the library is tested against,
    and one more for the workspace."""
    native = sys.modules["quern._native"]
    text = (TOP / "docs/formats.md").read_text()
    (table,) = re.findall(r"^## Operands\n.*?^\|---.*?\n(.*?)\n\n", text, re.M | re.S)
    named = {line.split("`")[1] for line in table.splitlines()}
    pointers = [name for name, kind in native.Args._fields_ if kind is ctypes.c_void_p]
    assert len(named) >= 11 and sorted(pointers) == sorted([*named, "workspace"])


def test_version(quern, wheel):
    assert quern.__version__ == wheel.name.split("-")[1]


def test_the_summary_names_every_vendor(wheel):
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [n for n in opened.namelist() if n.endswith("/METADATA")]
        (summary,) = re.findall("^Summary: (.*)$", opened.read(name).decode(), re.M)
    listed = subprocess.run([BUILD / "bin/quern", "targets", "--json"], capture_output=True,
                            check=True).stdout
    vendors = {target["vendor"] for target in json.loads(listed)}
    assert len(vendors) > 1 and all(vendor in summary for vendor in vendors), summary


# ---- layers on numpy arrays ---------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    dict(wq="nf4", a="bf16"), dict(wq="nf4", a="f16", scale="nested", group=128),
    dict(wq="fp4", a="f32"), dict(wq="int4", a="f16", zero="u8", group=128),
    dict(wq="mxfp4", a="bf16")], ids=lambda w: " ".join(map(str, w.values())))
def test_linear(quern, ctx, words):
    n, k = 48, 256
    w, bias = weights(n, k), rows(1, n)[0]
    layer = quern.Linear.quantize(ctx, w, bias=bias, **words)
    text = layer.op.problem
    assert layer.shape == (n, k) and f"n={n} k={k}" in text and layer.a_type == words["a"]
    types_of = {"u8": np.uint8, "i32": np.int32, "f32": np.float32, "f16": np.float16}
    used = {name: b.read(types_of[b.dtype], b.shape) for name, b in layer.operands.items()
            if name != "bias"}
    exact = quern.dequantize(text, used).astype(np.float64)
    for shape in ((k,), (1, k), (5, k), (2, 6, k)):
        x = rows(np.prod(shape[:-1], dtype=int), k).reshape(shape)
        y = layer(x)
        assert y.shape == (*shape[:-1], n)
        assert close(y, x @ exact.T + bias, 1e-2)  # x and bias are rounded on their way
    assert layer(np.empty((0, k), np.float32)).shape == (0, n)


@pytest.mark.parametrize("act,glu", [("silu_mul", "halves"), ("swiglu_oai", "interleaved")])
def test_linear_with_act(quern, ctx, act, glu):
    n, k = 48, 256
    w, bias = weights(n, k), 3 * rows(1, n)[0]
    layer = quern.Linear.quantize(ctx, w, bias=bias, wq="none", a="f32", act=act, glu=glu)
    x = 8 * rows(6, k).reshape(2, 3, k)
    product = x.astype(np.float64) @ w.T.astype(np.float64) + bias
    gate, up = ((product[..., :n // 2], product[..., n // 2:]) if glu == "halves"
                else (product[..., ::2], product[..., 1::2]))
    if act == "silu_mul":
        want = gate / (1 + np.exp(-gate)) * up
    else:
        assert (gate > 7).any() and (abs(up) > 7).any()
        gate = np.minimum(gate, 7)
        want = gate / (1 + np.exp(-1.702 * gate)) * (np.clip(up, -7, 7) + 1)
    y = layer(x)
    assert layer.shape == (n, k) and layer.op.columns == n // 2 and y.shape == (2, 3, n // 2)
    assert close(y, want, 1e-4)
    assert layer(np.empty((0, k), np.float32)).shape == (0, n // 2)
    with pytest.raises(quern.Error, match="n=47 is odd"):
        quern.Linear.quantize(ctx, w[:47], wq="none", a="f32", act=act, glu=glu)


@pytest.mark.parametrize("a", ["bf16", "f16"])
def test_fp8_in_blocks(quern, ctx, a):
    """The layer of a checkpoint, and what quern.quantize makes; blocks at the ends are smaller."""
    n, k, text = 200, 272, f"wq=fp8 scale=block128 n=200 k=272 a={a}"
    w = weights(n, k) * np.linspace(1, 50, n, dtype=np.float32)[:, None]
    operands = quern.quantize(text, w)
    assert operands["b"].shape == (n, k) and operands["b_scale"].shape == (2, 3)
    assert np.abs(quern.dequantize(text, operands) - w).max(axis=1)[0] < np.abs(w[:128]).max() / 25
    bias = rows(1, n)[0]
    layer = types.SimpleNamespace(weight=operands["b"].view(np.uint8), bias=bias,
                                  weight_scale_inv=operands["b_scale"], block_size=[128, 128])
    linear = quern.Linear.from_fp8(layer, ctx, compute_type=a)
    x = rows(3, k)
    assert close(linear(x), x @ quern.dequantize(text, operands).T + bias, 1e-2)
    with pytest.raises(ValueError, match=r"b_scale has the shape \(3, 2\); expected \(2, 3\)"):
        layer.weight_scale_inv = operands["b_scale"].T
        quern.Linear.from_fp8(layer, ctx, compute_type=a)
    with pytest.raises(ValueError, match=r"block_size is \(64, 64\); expected \(128, 128\)"):
        layer.block_size = (64, 64)
        quern.Linear.from_fp8(layer, ctx)
    with pytest.raises(TypeError, match=r"elements of float32 .* expected float8_e4m3fn"):
        layer.block_size, layer.weight = None, w
        quern.Linear.from_fp8(layer, ctx)
    with pytest.raises(ValueError, match="no weight_scale_inv"):
        quern.Linear.from_fp8(types.SimpleNamespace(weight=w), ctx)


def test_fp8_rows_in_blocks(quern, ctx):
    """A of fp8 has a scale for each 128 columns of each row: as many rows as the launch has."""
    text = "wq=fp8 scale=block128 n=64 k=256 a=fp8 c=f32"
    operands = quern.quantize(text, weights(64, 256))
    given = quern.quantize("wq=fp8 n=3 k=256 a=bf16", rows(3, 256))
    x = quern.dequantize("wq=fp8 n=3 k=256 a=bf16", given).astype(np.float64)
    scales = given["b_scale"].item() * np.array([[1, 2], [4, 1], [1, 0.5]], np.float32)
    x *= (scales / given["b_scale"].item()).repeat(128, 1)
    held = {name: ctx.buffer(array) for name, array in operands.items()}
    op, y = ctx.op(text, m_max=3), ctx.buffer(3 * 64 * 4)
    op.launch(m=3, a=ctx.buffer(given["b"]), a_scale=ctx.buffer(scales), c=y, **held)
    exact = quern.dequantize(text, operands).astype(np.float64)
    assert close(y.read(np.float32, (3, 64)), x @ exact.T, 1e-5)
    with pytest.raises(ValueError, match=r"a_scale has the shape \(2, 3\); expected \(3, 2\)"):
        op.launch(m=3, a=ctx.buffer(given["b"]), a_scale=ctx.buffer(scales.T.copy()), c=y, **held)


def test_types_of_rows(quern, sim):
    layer = quern.Linear.quantize(sim, weights(32, 64), wq="nf4", a="bf16")
    x = rows(2, 64)
    want = layer(x)
    assert want.dtype == np.float32
    bits = ((x.view(np.uint32) + 0x7FFF + (x.view(np.uint32) >> 16 & 1)) >> 16).astype(np.uint16)
    assert np.array_equal(layer(bits), want)  # bf16 as its bits
    assert np.array_equal(layer(x.astype(np.float64)), want)
    with pytest.raises(TypeError, match="int64"):
        layer(np.ones((2, 64), int))
    with pytest.raises(ValueError, match=r"\(2, 63\); expected \[..., 64\]"):
        layer(x[:, 1:])


def test_what_a_layer_is_not_made_of_or_called_with(quern):
    """Each is told by its name; what is no array but a sequence of numbers is as good as one."""
    w = np.random.default_rng(7).normal(size=(16, 128)).astype(np.float32)
    for context in (None, "ctx", quern):
        with pytest.raises(TypeError, match="context is a .*; expected a quern.Context"):
            quern.Linear.quantize(context, w)
    with quern.Context(target="gfx1151") as ctx:
        for value in (np.nan, -np.inf):
            bad = w.copy()
            bad[3, 5] = bad[9, 0] = value
            with pytest.raises(ValueError, match=rf"w has 2 values that are not finite, the first "
                                                 rf"of them {value} at \[3, 5\]"):
                quern.Linear.quantize(ctx, bad, wq="nf4")
        layer = quern.Linear.quantize(ctx, w, wq="nf4")
        x = np.linspace(-1, 1, 128, dtype=np.float32)
        assert np.array_equal(layer(x.tolist()), layer(x))
        assert np.array_equal(layer([x.tolist()] * 2), layer(np.stack([x, x])))
        for value in (None, "x", [1.0, 2.0]):
            with pytest.raises(ValueError, match=r"x has the shape \(2?,?\); expected"):
                layer(value)
    with pytest.raises(ValueError, match="the Context is closed$"):
        quern.Linear.quantize(ctx, w)
    assert str(quern.Error) == "<class 'quern.Error'>"


def test_quantize_and_repack(quern):
    w = weights(16, 128)
    operands = quern.quantize("wq=int4 n=16 k=128 a=f16", w)
    assert operands["b"].dtype == np.int32 and operands["b"].shape == (16, 16)
    assert operands["scales"].dtype == np.float16
    text = "wq=int4 n=16 k=128 a=f16"
    exact = quern.dequantize(text, operands)
    assert np.abs(exact - w).max() < 0.05
    exl = quern.repack(text, "exl", operands["b"])
    assert not np.array_equal(exl, operands["b"].reshape(-1))
    operands["b"] = exl
    assert np.array_equal(quern.dequantize(text + " layout=exl", operands), exact)
    with pytest.raises(ValueError, match="expected one of bnb"):
        quern.repack(text, "exll", exl)
    with pytest.raises(ValueError, match=r"\(16, 64\); expected \(16, 128\)"):
        quern.quantize(text, w[:, :64])
    with pytest.raises(ValueError, match="scales has"):
        quern.dequantize(text, {**operands, "scales": operands["scales"][:1]})
    with pytest.raises(ValueError, match="'weights' is no operand; the weights of op=gemm .* are "
                                         "b, scales$"):
        quern.dequantize(text, {**operands, "weights": operands["b"]})
    with pytest.raises(quern.InputError, match="operand b is missing; expected b, scales$"):
        quern.dequantize(text, {"scales": operands["scales"]})


# ---- ops, memory, failures ----------------------------------------------------------------------


def test_op_on_addresses(quern, ctx):
    text = "wq=nf4 n=32 k=128 a=f16"
    w, x = quern.quantize(text, weights(32, 128)), rows(4, 128).astype(np.float16)
    op = ctx.op(text, m_max=4)
    assert op.ready() and op.workspace(4) == 0
    assert "n=32 k=128" in op.problem and "quern_nf4_f16" in op.explain(1)
    buffers = {name: ctx.buffer(array) for name, array in w.items()}
    a, c = ctx.buffer(x), ctx.buffer(4 * 32 * 2)
    op.launch(m=4, a=a, b=buffers["b"].address, scales=buffers["scales"], c=c.address)
    want = x.astype(np.float64) @ quern.dequantize(text, w).astype(np.float64).T
    assert close(c.read(np.float16, (4, 32)), want)
    # a leading dimension: every other row of A
    op.launch(m=2, a=a, c=c, lda=256, **buffers)
    assert close(c.read(np.float16, (2, 32)), want[::2])
    with pytest.raises(ValueError, match="a has 1024 bytes; 1280 are needed for m=5"):
        op.launch(m=5, a=a, c=c, **buffers)
    with pytest.raises(ValueError, match="a has 1024 bytes; 1792"):
        op.launch(m=4, a=a, c=c, lda=256, **{**buffers})
    with pytest.raises(TypeError, match="a is a numpy array"):
        op.launch(m=4, a=x, c=c, **buffers)
    with pytest.raises(TypeError, match="'d' is no operand; op=gemm wq=nf4 .* has a, b, "
                                        "scales, c, workspace$"):
        op.launch(m=4, a=a, d=c, **buffers)
    with pytest.raises(quern.Error, match="args.c is null") as caught:
        op.launch(m=4, a=a, **buffers)
    assert caught.value.name == "QUERN_E_ARGUMENT" and caught.value.status == 1
    with pytest.raises(ValueError, match="do not fit"):
        c.write(np.zeros(1000))


def test_failures(quern, tmp_path):
    with pytest.raises(quern.Error, match="unknown target \"gfx1\"") as caught:
        quern.Context(target="gfx1")
    assert caught.value.name == "QUERN_E_TARGET"
    with pytest.raises(ValueError, match="device is 'gpu'; expected one of auto, hip, sim"):
        quern.Context(device="gpu")
    with quern.Context(target="gfx1151", cache_dir=tmp_path / "empty", jit="off") as ctx:
        with pytest.raises(quern.Error) as caught:
            ctx.op("wq=nf4 n=16 k=64 a=bf16")
        assert caught.value.name == "QUERN_E_WOULD_COMPILE"
        with pytest.raises(quern.Error, match="wq=nf3"):
            ctx.op("wq=nf3 n=16 k=64 a=bf16")
        with pytest.raises(ValueError, match="operands are b; .* has b, scales"):
            # nothing is compiled for weights that are not there
            quern.Linear(quern.Context(target="gfx1151"), "wq=nf4 n=16 k=64 a=bf16", {"b": 16})


def test_errors_of_what_was_given_are_value_errors(quern, sim, tmp_path):
    """As those that the package finds itself; those of anything else are not."""
    for fails, name in ((lambda: sim.op("wq=nf5 n=16 k=64"), "QUERN_E_PROBLEM"),
                        (lambda: sim.op("wq=nf4 n=16 k=64 a=bf16", m_max=0), "QUERN_E_ARGUMENT"),
                        (lambda: quern.Context(target="gfx9999"), "QUERN_E_TARGET")):
        with pytest.raises(ValueError) as caught:
            fails()
        assert type(caught.value) is quern.InputError and caught.value.name == name
        assert isinstance(caught.value, quern.Error)
    with quern.Context(target="gfx1151", cache_dir=tmp_path, jit="off") as ctx:
        with pytest.raises(quern.Error) as caught:
            ctx.op("wq=nf4 n=16 k=64 a=bf16")
    assert not isinstance(caught.value, ValueError)


def test_sentences_name_options_as_python_has_them(quern, tmp_path):
    with pytest.raises(quern.InputError) as caught:
        quern.Context(device="sim")
    assert str(caught.value) == \
        "no target; set Context(target=…) or QUERN_TARGET to a name such as gfx1151"
    # a remedy that is none of the package's own stays, as does a message without one
    with pytest.raises(quern.Error, match="no libhiprtc.*; set QUERN_ROCM_PATH to "):
        quern.Context(target="gfx1151", rocm_path=tmp_path, base="off").op(
            "wq=nf4 n=16 k=64 a=bf16")
    with pytest.raises(quern.InputError, match=r'^unknown target "gfx1"') as caught:
        quern.Context(target="gfx1")
    assert "Context(" not in str(caught.value)


def test_numbers_that_are_none_are_told_by_name(quern, sim):
    text = "wq=nf4 n=16 k=64 a=bf16"
    op = sim.op(text, m_max=np.int64(8))
    assert op.explain(np.int32(1)) == op.explain(1) != ""
    for use, says in (
            (lambda: sim.op(text, m_max="8"), "m_max is '8'"),
            (lambda: sim.op(text, m_max=8.0), "m_max is 8.0"),
            (lambda: sim.op_on(text, 1.0, 0), "m_max is 1.0"),
            (lambda: sim.op_on(text, 1, None), "stream is None"),
            (lambda: sim.prewarm([text], m_max=None), "m_max is None"),
            (lambda: quern.Linear.quantize(sim, weights(16, 64), m_max="8"), "m_max is '8'"),
            (lambda: op.explain("1"), "m is '1'"), (lambda: op.workspace("1"), "m is '1'"),
            (lambda: op.block_rows(1.5), "m is 1.5"),
            (lambda: quern.Context(target="gfx1151", jobs="2"), "jobs is '2'"),
            (lambda: quern.Context(target="gfx1151", index="0"), "index is '0'")):
        with pytest.raises(TypeError, match=f"^{re.escape(says)}; expected an integer$"):
            use()
    for m in (0, -1, 2**31):
        with pytest.raises(ValueError, match=f"m is {m}; expected 1 to 2147483647"):
            op.explain(m)


def test_what_is_in_the_place_of_something_else(quern, sim):
    text, w = "wq=nf4 n=16 k=64 a=bf16", weights(16, 64)
    sim.prewarm(text, m_max=1)  # one problem is as good as a list of it
    for make in (quern.Linear.quantize, lambda *given: quern.MoE.quantize(*given, w, top_k=1)):
        with pytest.raises(TypeError, match="context is a ndarray; expected a quern.Context"):
            make(w, sim)
    for make in (quern.Linear.from_bitsandbytes, quern.Linear.from_fp8):
        with pytest.raises(TypeError, match="context is a SimpleNamespace; expected a quern.Con"):
            make(sim, types.SimpleNamespace(weight=w))
    with pytest.raises(ValueError, match="operands are none; .* has b, scales"):
        quern.Linear(sim, text, {})
    with pytest.raises(TypeError, match="x has elements of int64; expected float16"):
        quern.Linear.quantize(sim, w)(np.ones((2, 64), int))


def test_a_context_says_what_it_is(quern):
    ctx = quern.Context(target="gfx1151")
    assert repr(ctx) == "Context(target='gfx1151', device='sim', open)"
    ctx.close()
    assert repr(ctx) == "Context(target='gfx1151', device='sim', closed)"


def test_names_that_need_other_packages(site, tmp_path):
    """A star takes what can be had; what cannot says what it needs."""
    code = """
import importlib.util, sys
have = set(sys.argv[1].split(","))
real = importlib.util.find_spec
def find_spec(name, package=None):
    if name in ("torch", "transformers"):
        return True if name in have else None
    return real(name, package)
importlib.util.find_spec = find_spec
import quern
print(sorted(set(quern.__all__) & set(quern._LATER)))
for name in sys.argv[2].split(","):
    try:
        getattr(quern, name)
    except ModuleNotFoundError as e:
        print(e)
"""
    def said(have, names):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(
            [str(site), str(pathlib.Path(np.__file__).parents[1])])}
        return subprocess.run([sys.executable, "-c", code, have, names], env=env, cwd=tmp_path,
                              capture_output=True, text=True, check=True).stdout.splitlines()

    assert said("", "QuantizedLinear,QuernConfig") == [
        "[]", "quern.QuantizedLinear needs torch, which is not installed",
        "quern.QuernConfig needs torch and transformers, which are not installed"]
    assert said("torch", "QuernConfig") == [
        "['QuantizedLinear', 'QuantizedMoE', 'Replaced', 'replace_linear']",
        "quern.QuernConfig needs transformers, which is not installed"]


def test_prewarm_record_preload_and_log(quern, tmp_path):
    record, said, told = tmp_path / "record", [], []
    text = "wq=nf4 n=16 k=64 a=bf16"
    with quern.Context(target="gfx1151", cache_dir=tmp_path / "cache", record=record,
                       log=lambda level, line: said.append((level, line)), log_level="debug",
                       jit="warn") as ctx:
        ctx.prewarm([text], m_max=8, progress=lambda *p: told.append(p))
        assert told[-1][0] == told[-1][1] == len(told)
        assert "n=16 k=64" in told[0][2]
        assert record.read_text().startswith("target=gfx1151 m=1-8 op=gemm wq=nf4")
        assert any(level == "warn" and "compiling it" in line for level, line in said)
        ctx.op(text, m_max=8, compile=False)
        with pytest.raises(quern.Error) as caught:
            ctx.prewarm(["wq=nf4 n=32 k=64 a=bf16"], progress=lambda *p: True)
        assert caught.value.name == "QUERN_E_CANCELLED"
    # what was asked for is noted, made or not
    assert "n=32" in record.read_text().splitlines()[-1]
    with quern.Context(target="gfx1151", cache_dir=tmp_path / "cache", jit="off") as ctx:
        with pytest.raises(quern.Error, match="line 3: .* is not in the cache"):
            ctx.preload(record)
    with quern.Context(target="gfx1151", cache_dir=tmp_path / "cache") as ctx:
        ctx.preload(record)
    with quern.Context(target="gfx1151", cache_dir=tmp_path / "cache", jit="off") as ctx:
        ctx.preload(record)
        with pytest.raises(quern.Error, match="none cannot be read"):
            ctx.preload(tmp_path / "none")


def test_base_kernels_serve_where_nothing_is_compiled(quern, tmp_path):
    text, cache = "wq=nf4 n=16 k=64 a=bf16", tmp_path / "cache"
    with quern.Context(target="gfx1151", cache_dir=cache) as ctx:
        ctx.prewarm([text + " kernels=base"], m_max=4)
    with quern.Context(target="gfx1151", cache_dir=cache, jit="off") as ctx:
        with pytest.raises(quern.Error) as caught:
            ctx.op(text, m_max=4)
        assert caught.value.name == "QUERN_E_WOULD_COMPILE"
        ctx.op(text, m_max=4, base=True)
        ctx.op("wq=nf4 n=48 k=128 a=bf16", m_max=4, base=True)


def test_warnings_of_the_library_are_warnings(quern, tmp_path):
    """Of opening and later; a log takes their place, and more lines are no warnings."""
    words = {"target": "gfx1151", "bundle_path": "/nonexistent.qkb", "jit": "warn",
             "cache_dir": tmp_path / "cache"}
    with pytest.warns(RuntimeWarning, match="/nonexistent.qkb is not used") as caught:
        ctx = quern.Context(**words, log_level="debug")
    assert [w.filename for w in caught] == [__file__]
    with ctx, pytest.warns(RuntimeWarning, match="compiling it"):
        ctx.op("wq=nf4 n=16 k=64 a=bf16", m_max=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="/nonexistent.qkb is not used"):
            quern.Context(**words)
        quern.Context(**words, log=lambda level, line: None).close()
        quern.Context(**words, log_level="error").close()


def test_events_counters_and_the_seal(quern, tmp_path):
    told, text = [], "wq=nf4 n=16 k=64 a=bf16"
    with quern.Context(target="gfx1151", cache_dir=tmp_path / "cache", event=told.append) as ctx:
        ctx.op(text, m_max=1)
        assert [e.kind for e in told] == ["begin", "compile", "end"]
        assert told[1].reason == "absent" and told[2].tier == "compiler"
        assert told[2].ns > 0 and told[2].status == "QUERN_OK" and told[2].target == "gfx1151"
        assert told[0].key == told[2].key and len(told[0].key) == 32
        assert not ctx.all_served
        stats = ctx.stats()
        assert stats["compile_ok"] == stats["put_ok"] == 1
        assert 0 < stats["compile_ns"] < told[2].ns
        try:
            quern.seal("fail")
            with pytest.raises(quern.Error, match="sealed"):
                ctx.op("wq=nf4 n=32 k=64 a=bf16", m_max=1)
            assert told[-1].tier is None and told[-1].status == "QUERN_E_WOULD_COMPILE"
            assert ctx.stats()["compile_refused"] == 1
        finally:
            quern.seal("open")
    with quern.Context(target="gfx1151", cache_dir=tmp_path / "cache") as ctx:
        ctx.op(text, m_max=1)
        assert ctx.all_served and ctx.stats()["hit_disk"] == 1
    with pytest.raises(ValueError, match="expected one of open, warn, fail"):
        quern.seal("shut")


def test_numbers_of_a_newer_library_have_words(quern):
    """An event that names a tier or a reason that this package does not know is still told."""
    context = sys.modules["quern.context"]
    assert [context._tier(n) for n in (0, 1, 3, 99)] == [None, "bundle", "compiler", "99"]
    assert context._word(("a", "b"), 1) == "b" and context._word(("a", "b"), 7) == "7"


def test_what_a_context_owns_goes_with_it(quern):
    ctx = quern.Context(target="gfx1151")
    layer = quern.Linear.quantize(ctx, weights(16, 64))
    layer(rows(1, 64))
    buffer = ctx.buffer(np.zeros(4))
    ctx.close()
    ctx.close()
    del layer, buffer, ctx
    gc.collect()


def test_what_is_closed_is_not_used(quern):
    """Memory that was freed is answered by an exception, whoever closed it."""
    text = "wq=nf4 n=32 k=128 a=f16"
    w = quern.quantize(text, weights(32, 128))
    for by_context in (False, True):
        ctx = quern.Context(target="gfx1151")
        op, layer = ctx.op(text), quern.Linear(ctx, text, w)
        operands = {name: ctx.buffer(array) for name, array in w.items()}
        a, c = ctx.buffer(np.zeros(128, np.float16)), ctx.buffer(64)
        more = ctx.buffer(16)
        if by_context:
            ctx.close()
        else:
            op.close()
            more.close()
        for use in (lambda: op.launch(m=1, a=a, c=c, **operands), op.ready, lambda: op.explain(1),
                    lambda: op.workspace(1), lambda: more.write(np.zeros(4, np.float32)),
                    lambda: more.read(np.uint8, 4), lambda: more.address,
                    lambda: ctx.op(text).launch(m=1, a=a, c=more, **operands)):
            says = "(Op's context|Buffer's context|Context)" if by_context else "(Op|Buffer)"
            with pytest.raises(ValueError, match=f"the {says} is closed"):
                use()
        if not by_context:
            ctx.close()
        for use in (ctx.stats, lambda: ctx.all_served, lambda: ctx.buffer(4), lambda: ctx.op(text),
                    lambda: ctx.op_on(text, 1, 0), lambda: ctx.prewarm([text]),
                    lambda: ctx.preload("x"), lambda: layer(rows(1, 128))):
            with pytest.raises(ValueError, match="is closed"):
                use()
        with pytest.raises(ValueError, match="this Linear's context is closed"):
            layer(rows(1, 128))
        with pytest.raises(ValueError, match="the Context is closed"):
            with ctx:
                pass


def test_operands_of_another_kind(quern, ctx):
    """As many bytes of something else: an f16 bias is no bf16 one."""
    text = "wq=nf4 n=32 k=128 a=bf16 bias=1"
    w = quern.quantize("wq=nf4 n=32 k=128 a=bf16", weights(32, 128))
    op = ctx.op(text)
    good = {name: ctx.buffer(array) for name, array in w.items()}
    good["a"] = ctx.buffer(np.zeros((2, 128), np.uint16))
    good["bias"] = ctx.buffer(np.zeros(32, np.uint16))
    c = ctx.buffer(2 * 32 * 2)
    op.launch(m=2, c=c, **good)
    for name, array, kind, says in (
            ("bias", np.zeros(32, np.float16), TypeError, "bias has elements of f16; "
             "expected bf16"),
            ("a", np.zeros((2, 128), np.float16), TypeError, "a has elements of f16; "
             "expected bf16"),
            ("scales", w["scales"].view(np.int32), TypeError, "scales has elements of i32; "
             "expected f32"),
            ("scales", w["scales"].reshape(2, 32), ValueError, r"scales has the shape \(2, 32\); "
             r"expected \(64,\)")):
        with pytest.raises(kind, match=says):
            op.launch(m=2, c=c, **{**good, name: ctx.buffer(array)})
        if name != "a":
            with pytest.raises(kind, match=says):
                quern.Linear(ctx, text, {**w, "bias": np.zeros(32, np.uint16), name: array})
    with pytest.raises(TypeError, match="scales has elements of i32; expected f32"):
        quern.dequantize("wq=nf4 n=32 k=128 a=bf16", {**w, "scales": w["scales"].view(np.int32)})
    for words in (dict(m=2.0), dict(m=2, stream=None), dict(m=2, stream=-1), dict(m=2, lda="1")):
        with pytest.raises(TypeError, match="expected a number"):
            op.launch(c=c, **words, **good)


# ---- a GPU of the host's ------------------------------------------------------------------------


class OnGpu:
    """Memory that another library put on the GPU, as DLPack shows it."""

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                    ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                    ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                    ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                    ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    def __init__(self, hip, array, device=(10, 0), strides=None, offset=0, versioned=False):
        self.address, pointer = None, ctypes.c_void_p()
        del self.address
        array = np.ascontiguousarray(array)
        assert hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes + offset)) == 0
        assert hip.hipMemcpy(ctypes.c_void_p(pointer.value + offset),
                             array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes),
                             1) == 0
        self.device, self.streams, self.versioned = device, [], versioned
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*strides) if strides else None
        self.tensor = self.Tensor(
            pointer, device, array.ndim, {"u": 1, "i": 0, "f": 2}[array.dtype.kind],
            array.itemsize * 8, 1, ctypes.addressof(self.shape),
            ctypes.addressof(self.strides) if strides else None, offset)
        head = struct.pack("IIQQQ", 1, 0, 0, 0, 0)
        self.whole = ctypes.create_string_buffer(head + bytes(self.tensor))

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p]
        if self.versioned:
            return new(ctypes.addressof(self.whole), b"dltensor_versioned", None)
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack(quern, gpu, hip, versioned):
    text = "wq=nf4 n=32 k=128 a=f16"
    w, x = quern.quantize(text, weights(32, 128)), rows(3, 128).astype(np.float16)
    op, stream = gpu.op(text), ctypes.c_void_p()
    assert hip.hipStreamCreate(ctypes.byref(stream)) == 0
    a = OnGpu(hip, x, strides=(128, 1), offset=32, versioned=versioned)
    b, scales = (OnGpu(hip, w[name], versioned=versioned) for name in ("b", "scales"))
    c = gpu.buffer(3 * 32 * 2)
    op.launch(m=3, stream=stream.value, a=a, b=b, scales=scales, c=c)
    assert hip.hipStreamSynchronize(stream) == 0
    assert a.streams == [stream.value]  # the producer is told who reads
    want = x.astype(np.float64) @ quern.dequantize(text, w).astype(np.float64).T
    assert close(c.read(np.float16, (3, 32)), want)
    more = dict(b=b, scales=scales, c=c)
    for bad, says in ((OnGpu(hip, x, device=(10, 1)), r"device \(10, 1\); expected .*\(10, 0\)"),
                      (OnGpu(hip, x, device=(2, 0)), r"device \(2, 0\)"),
                      (OnGpu(hip, x, strides=(256, 1)), "expected packed rows"),
                      (OnGpu(hip, x.reshape(6, 64)), r"shape \(6, 64\); expected \[..., 128\]"),
                      (OnGpu(hip, x[:2]), "512 bytes; 768 are needed")):
        with pytest.raises(ValueError, match=says):
            op.launch(m=3, a=bad, **more)
    with pytest.raises(TypeError, match="host memory"):
        op.launch(m=3, a=OnGpu(hip, x, device=(1, 0)), **more)
    with pytest.raises(TypeError, match="a has elements of bf16; expected f16"):
        op.launch(m=3, a=OnGpu(hip, x.view(np.uint16)), **more)


def test_capture(quern, gpu, hip):
    stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
    gpu.op("wq=nf4 n=32 k=64 a=f16", m_max=1)
    assert hip.hipStreamCreate(ctypes.byref(stream)) == 0
    assert hip.hipStreamBeginCapture(stream, 0) == 0
    gpu.op_on("wq=nf4 n=32 k=64 a=f16", 1, stream.value)
    with pytest.raises(quern.Error, match="captured"):
        gpu.op_on("wq=nf4 n=64 k=64 a=f16", 1, stream.value)
    assert hip.hipStreamEndCapture(stream, ctypes.byref(graph)) == 0


# ---- torch and bitsandbytes ---------------------------------------------------------------------


def test_torch_tensors_on_the_gpu(quern, gpu, hip):
    """With a stand-in for torch, whose tensors are in the HIP runtime's memory: the layer's own
    tensors are used where they are, on torch's stream, through the operator."""
    if importlib.util.find_spec("torch"):
        pytest.skip("torch itself is here")
    import stand_in_torch
    torch = stand_in_torch.install(hip)
    try:
        text = "wq=nf4 scale=nested n=32 k=128 a=bf16"
        operands = quern.quantize(text, weights(32, 128))
        dtypes = {"b": torch.uint8, "absmax8": torch.uint8}
        layer = linear4bit(operands, 32, 128, lambda name, array: torch.as_gpu(
            array, dtypes.get(name, torch.float32)), compute_dtype=torch.bfloat16)
        linear = quern.replace_linear4bit(layer, gpu)
        assert linear.operands["b"].data_ptr() == layer.weight.data_ptr()
        assert "scale=nested" in linear.op.problem
        x32 = rows(6, 128)
        bits = (x32.view(np.uint32) >> 16).astype(np.uint16)
        x = torch.as_gpu(bits.reshape(2, 3, 128), torch.bfloat16)
        y = layer.forward(x)
        assert hip.hipStreamSynchronize(torch.stream) == 0
        assert y.shape == (2, 3, 32) and y.dtype == torch.bfloat16
        exact = quern.dequantize(text, operands).astype(np.float64)
        rounded = (bits.astype(np.uint32) << 16).view(np.float32)
        got = (y.array().astype(np.uint32) << 16).view(np.float32).reshape(6, 32)
        assert close(got, rounded @ exact.T)
        torch_ops = sys.modules["quern.torch_ops"]
        fake = torch_ops.linear.fake(x, [], "", linear.op.problem)
        assert fake.shape == y.shape and fake.dtype == y.dtype
        with pytest.raises(TypeError, match="a has elements of f16; expected bf16"):
            linear.op.launch(m=6, a=torch.as_gpu(bits.reshape(6, 128), torch.float16), c=y,
                             **linear.operands)
        with pytest.raises(ValueError, match=r"c has the shape \(3, 64\); expected \[..., 32\]"):
            linear.op.launch(m=6, a=x, c=torch.as_gpu(np.zeros((3, 64)), torch.bfloat16),
                             **linear.operands)
        with pytest.raises(TypeError, match="x is torch.float16"):
            layer.forward(torch.as_gpu(bits, torch.float16))
        mixed = quern.Linear.quantize(gpu, weights(32, 128), scale="nested")  # quern's own memory
        z = mixed(x)
        assert hip.hipStreamSynchronize(torch.stream) == 0
        assert np.array_equal(z.array(), y.array())
        pairs = quern.Linear.quantize(gpu, weights(32, 128), act="silu_mul", glu="halves")
        z = pairs(x)
        assert hip.hipStreamSynchronize(torch.stream) == 0
        assert z.shape == (2, 3, 16)
        assert torch_ops.linear.fake(x, [], "", pairs.op.problem).shape == z.shape
        plain = "wq=nf4 n=32 k=128 a=bf16"
        exact = quern.dequantize(plain, quern.quantize(plain, weights(32, 128))).astype(np.float64)
        gate, up = np.split(rounded @ exact.T, 2, axis=1)
        got = (z.array().astype(np.uint32) << 16).view(np.float32).reshape(6, 16)
        assert close(got, gate / (1 + np.exp(-gate)) * up, 2e-2)
    finally:
        del sys.modules["torch"]
        sys.modules.pop("quern.torch_ops", None)


def test_each_layer_on_its_gpu(quern, gpu, hip):
    """With the same stand-in and two GPUs: a context that names none is of torch's current one, and
    a layer whose weights are on another GPU than the context's is computed there."""
    if importlib.util.find_spec("torch"):
        pytest.skip("torch itself is here")
    import stand_in_torch
    torch = stand_in_torch.install(hip)
    try:
        with torch.cuda.device(2), quern.Context() as there:
            assert there.gpu == ("hip", 2)
            with quern.Context(device="hip") as named, quern.Context(index=0) as first:
                assert named.gpu == ("hip", 2) and first.gpu == ("hip", 0)
            assert there.on(2) is there and quern.Context.shared(index=2) is there
        assert gpu.on(0) is gpu
        with torch.cuda.device(1), pytest.raises(quern.Error, match="gfx1036"):
            quern.Context()
        text = "wq=nf4 n=32 k=128 a=bf16"
        operands = quern.quantize(text, weights(32, 128))
        exact = quern.dequantize(text, operands).astype(np.float64)
        bits = (rows(3, 128).view(np.uint32) >> 16).astype(np.uint16)
        right = (bits.astype(np.uint32) << 16).view(np.float32) @ exact.T
        made = []
        for index in (2, 0, 2):
            with torch.cuda.device(index):
                layer = linear4bit(operands, 32, 128, lambda name, array: torch.as_gpu(
                    array, torch.uint8 if name == "b" else torch.float32),
                    compute_dtype=torch.bfloat16)
                x = torch.as_gpu(bits, torch.bfloat16)
            made.append(quern.replace_linear4bit(layer, gpu))
            assert made[-1].context.gpu == ("hip", index)
            y = layer.forward(x)  # while another GPU is the current one
            assert torch.cuda.current_device() == 0 and y.device.index == index
            assert hip.hipStreamSynchronize(torch.cuda.stream_of(index)) == 0
            with torch.cuda.device(index):
                assert close((y.array().astype(np.uint32) << 16).view(np.float32), right)
        assert made[0].context is made[2].context is gpu.on(2) and made[1].context is gpu
        assert gpu.on(2).on(0) is gpu and quern.Context.shared(device="hip", index=2) is gpu.on(2)
        kept = gpu.on(2).__reduce__()[1][0]
        assert kept["index"] is None and kept == gpu.__reduce__()[1][0]  # no GPU of this machine
        with quern.Context(device="hip", index=2) as second, pytest.raises(ValueError):
            second.close()
            second.on(0)
        with pytest.raises(ValueError, match="x is on GPU 0; the layer is on GPU 2"):
            made[0](torch.as_gpu(bits, torch.bfloat16))
    finally:
        del sys.modules["torch"]
        sys.modules.pop("quern.torch_ops", None)


def output_of(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        pytest.skip((done.stderr.strip().splitlines() or ["not to be had"])[-1])
    return done.stdout.strip()


@pytest.fixture(scope="module")
def minilm():
    output_of("sh", TOP / "tools/fetch_model.sh")
    path = TOP / "build/models/all-MiniLM-L6-v2/model.safetensors"
    data = np.memmap(path, np.uint8, "r")
    size = int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:8 + size].tobytes())

    def tensor(name):
        entry = header[name]
        assert entry["dtype"] == "F32"
        begin, end = (8 + size + x for x in entry["data_offsets"])
        return data[begin:end].view(np.float32).reshape(entry["shape"])

    return tensor


@pytest.fixture(scope="module")
def peer():
    directory = output_of(sys.executable, TOP / "tests/peers/fetch_wheel.py")
    return ctypes.CDLL(f"{directory}/libbitsandbytes_cpu.so")


@pytest.mark.parametrize("name,nested", [
    ("encoder.layer.0.attention.self.query", False), ("encoder.layer.5.output.dense", True)])
def test_replaces_a_linear4bit(quern, ctx, minilm, peer, name, nested):
    """A layer of a real model as bitsandbytes holds it; its CPU library unpacks the same weights,
    of which the product is taken in double precision."""
    w, bias = minilm(f"{name}.weight"), minilm(f"{name}.bias")
    n, k = w.shape
    text = f"wq=nf4 scale={'nested' if nested else 'f32'} n={n} k={k} a=bf16"
    operands = quern.quantize(text, w)
    absmax = operands["scales"]
    if nested:
        absmax = (operands["code"][operands["absmax8"].reshape(-1)] *
                  np.repeat(operands["scales"], 256)[:n * k // 64] + operands["offset"])
        absmax = absmax.astype(np.float32)
    theirs = np.empty((n, k), np.float32)
    peer.cdequantize_blockwise_cpu_nf4_fp32(
        *(np.ascontiguousarray(x).ctypes.data_as(ctypes.c_void_p)
          for x in (operands["b"], absmax, theirs)),
        *map(ctypes.c_longlong, (64, n, k)))
    assert np.abs(theirs - w).max() <= 0.2 * np.abs(w).max()  # it is this layer
    layer = linear4bit({**operands, "bias": bias}, n, k, lambda _, array: array)
    quern.replace_linear4bit(layer, ctx)
    x = rows(5, k)
    y = layer.forward(x)
    assert close(y, x.astype(np.float64) @ theirs.astype(np.float64).T + bias, 1e-2)


def test_weights_of_any_kind(quern, sim):
    """Linear.quantize takes what holds numbers, and says what it cannot take."""
    w = weights(32, 64)
    want = quern.Linear.quantize(sim, w, bias=w[0, :32])(rows(3, 64))
    bits = (w.view(np.uint32) >> 16).astype(np.uint16)  # bf16, cut off
    module = types.SimpleNamespace(weight=w, bias=w[0, :32])
    for given in (dict(w=module), dict(w=w.astype(np.float64), bias=list(w[0, :32])),
                  dict(w=[list(map(float, row)) for row in w], bias=w[0, :32])):
        assert np.array_equal(quern.Linear.quantize(sim, **given)(rows(3, 64)), want)
    floats = (bits.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(quern.Linear.quantize(sim, bits)(rows(3, 64)),
                          quern.Linear.quantize(sim, floats)(rows(3, 64)))
    for given, error, says in (
            (dict(w=w[0]), ValueError, r"w has the shape \(64,\); expected \[N, K\]"),
            (dict(w=w, bias=w[0]), ValueError, r"bias has the shape \(64,\); expected \[32\]"),
            (dict(w=np.ones((32, 64), int)), TypeError, "w has elements of int64"),
            (dict(w=module, bias=w[0, :32]), ValueError, "bias is given beside a SimpleNamespace")):
        with pytest.raises(error, match=says):
            quern.Linear.quantize(sim, **given)


def test_layers_are_copied_and_kept(quern, ctx):
    """Copies, pickles and what a layer says of itself, without torch."""
    layer = quern.Linear.quantize(ctx, weights(32, 128), scale="nested", bias=rows(1, 32)[0])
    x = rows(3, 128)
    want = layer(x)
    twin, kept = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    assert twin.context is ctx and kept.context.target == ctx.target
    layer.operands["b"].write(np.zeros(32 * 64, np.uint8))
    assert not np.array_equal(layer(x), want)
    assert np.array_equal(twin(x), want) and np.array_equal(kept(x), want)
    assert re.fullmatch(r"Linear\('op=gemm wq=nf4 .*', target='gfx1\d+', m_max=8\)", repr(layer))
    lent = quern.Linear(ctx, layer.op.problem, {
        name: buffer.address if name == "b" else buffer for name, buffer in twin.operands.items()})
    with pytest.raises(TypeError, match="b is a int, whose memory is not the layer's"):
        copy.deepcopy(lent)
    with quern.Context(target="gfx1201", jobs=1) as first:
        assert quern.Context.shared(target="gfx1201", jobs=1) is first
    later = quern.Context.shared(target="gfx1201", jobs=1)
    assert later is not first and later.target == "gfx1201"


def test_layers_that_cannot_be_replaced(quern, sim):
    with pytest.raises(ValueError, match="no quant_state"):
        quern.replace_linear4bit(types.SimpleNamespace(weight=np.zeros(4)), sim)
    operands = quern.quantize("wq=nf4 n=16 k=64 a=bf16", weights(16, 64))
    layer = linear4bit(operands, 16, 64, lambda _, array: array, compute_dtype="torch.int8")
    with pytest.raises(TypeError, match="torch.int8; expected float32, float16 or bfloat16"):
        quern.replace_linear4bit(layer, sim)
