# SPDX-License-Identifier: MIT
"""The package with torch itself, and with transformers, on the CPU and software GPUs. Skipped where
torch is not installed; test_torch_long.py fetches it.

This file is long because all that the package does with torch itself is tried here.
"""

import copy
import io
import pickle
import re
import types

import numpy as np
import pytest
from conftest import close, linear4bit, rows, weights

try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.skipif(torch is None, reason="torch is not installed")


def test_torch_itself(quern, sim):
    """Tensors in host memory, of every type of every layer."""
    types_of = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    for a in types_of:
        layer = quern.Linear.quantize(sim, weights(32, 128), a=a)
        reference = layer(rows(6, 128))
        for dtype in types_of.values():
            x = torch.from_numpy(rows(6, 128)).to(dtype).reshape(2, 3, 128)
            y = layer(x)
            assert y.dtype == dtype and y.shape == (2, 3, 32) and not y.requires_grad
            assert close(y.float().numpy().reshape(6, 32), reference, 1.5e-2)
    with pytest.raises(ValueError, match="shape"):
        layer(torch.zeros(3, 64))
    with pytest.raises(TypeError, match="software GPU"):
        layer.op.launch(m=1, a=torch.zeros(128), c=torch.zeros(32))


@pytest.mark.parametrize("nested", [False, True])
def test_torch_module_of_bitsandbytes_shape(quern, ctx, nested):
    """torch's own modules and parameters, as bitsandbytes builds them, in host memory."""
    text = f"wq=nf4 scale={'nested' if nested else 'f32'} n=32 k=128 a=f16 bias=1"
    operands = quern.quantize(text, weights(32, 128))
    bias = rows(1, 32)[0]

    class Linear4bit(torch.nn.Linear):
        def forward(self, x):
            raise AssertionError("the module's own product")

    module = Linear4bit(128, 32).to(torch.float16)
    module.bias.data = torch.from_numpy(bias).to(torch.float16)
    state = linear4bit(operands, 32, 128, lambda name, array: torch.from_numpy(array)
                       ).weight.quant_state
    module.weight = torch.nn.Parameter(torch.from_numpy(operands["b"]).reshape(-1, 1),
                                       requires_grad=False)
    module.weight.quant_state = state
    model = torch.nn.Sequential(module, torch.nn.ReLU())
    linear = quern.replace_linear4bit(module, ctx, compute_type="f16")
    assert "bias=1" in linear.op.problem
    x = torch.from_numpy(rows(5, 128)).to(torch.float16)
    y = model(x)
    reference = x.float().numpy() @ quern.dequantize(text, operands).T + bias
    assert y.dtype == torch.float16 and close(y.float().numpy(), np.maximum(reference, 0))


def test_torch_operator(quern, monkeypatch):
    """quern::linear as torch sees it: its schema, its fake implementation, compile and export. The
    GPU's part is played by torch on the CPU."""
    import contextlib
    from torch._subclasses.fake_tensor import FakeTensorMode
    from quern import torch_ops

    problem = "op=gemm wq=none a=bf16 c=bf16 n=32 k=128 bias=0 layout=dense round=rne"
    w = torch.from_numpy(weights(32, 128)).to(torch.bfloat16)

    class CpuOp:
        streams, n, k = [], 32, 128

        def __init__(self):
            self.problem = problem

        def workspace(self, m):
            return 256

        def launch(self, *, m, stream, a, c, workspace, b):
            assert a.is_contiguous() and workspace.numel() == 256
            self.streams.append(stream)
            c.copy_(a @ b.T)

    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream",
                        lambda device: types.SimpleNamespace(cuda_stream=7))
    monkeypatch.setitem(torch_ops._ops, f"None {problem}", CpuOp())
    x = torch.from_numpy(rows(6, 128)).to(torch.bfloat16).reshape(2, 3, 128)
    y = torch_ops.linear(x, [w], "b", problem)
    assert y.shape == (2, 3, 32) and y.dtype == torch.bfloat16 and torch.equal(y, x @ w.T)
    assert torch.equal(torch_ops.linear(x.transpose(0, 1), [w], "b", problem),
                       x.transpose(0, 1) @ w.T)
    assert torch_ops.linear(x[:0], [w], "b", problem).shape == (0, 3, 32)
    assert CpuOp.streams == [7, 7]
    with pytest.raises(RuntimeError, match="no quern.Linear of"):
        torch_ops.linear(x, [w], "b", problem.replace("n=32", "n=64"))
    torch.library.opcheck(torch_ops.linear, (x, [w], "b", problem))

    def layer(x):
        return torch.relu(torch_ops.linear(x, [w], "b", problem)) + 1

    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        compiled = torch.compile(layer, backend=backend, fullgraph=True)
        assert torch.equal(compiled(x), layer(x))

    # a whole Linear on a GPU, as a tracer meets it
    with FakeTensorMode():
        linear = quern.Linear.__new__(quern.Linear)
        linear.context = types.SimpleNamespace(gpu=quern.arrays.Gpu("hip", 0))
        linear.op, linear.a_type, linear.c_type = CpuOp(), "bf16", "bf16"
        linear.operands = {"b": torch.empty(32, 128, dtype=torch.bfloat16, device="cuda")}
        linear.registered = False
        z = linear(torch.empty(4, 128, dtype=torch.bfloat16, device="cuda"))
        assert z.shape == (4, 32) and z.device.type == "cuda" and z.dtype == torch.bfloat16
        with pytest.raises(TypeError, match="x is torch.float16"):
            linear(torch.empty(4, 128, dtype=torch.float16, device="cuda"))
    torch_ops._ops.pop(f"0 {problem}")
    torch_ops._contexts.clear()


def stacks(dtype):
    """gate_up and down of four experts, a router's choices of two of them, and their weights."""
    generator = torch.Generator().manual_seed(3)
    gate_up, down = (torch.randn(shape, generator=generator) * 0.1
                     for shape in ((4, 128, 64), (4, 64, 64)))
    weights, ids = torch.randn((5, 4), generator=generator).softmax(1).topk(2)
    return gate_up.to(dtype), down.to(dtype), ids, weights


def test_moe_of_tensors_in_host_memory(quern, sim):
    """Stacks, tokens and choices of torch, of every type, give what numpy's give."""
    for a, dtype in (("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)):
        gate_up, down, ids, weights = stacks(dtype)
        moe = quern.MoE.quantize(sim, torch.nn.Parameter(gate_up), down, top_k=2, a=a)
        plain = quern.MoE.quantize(sim, gate_up.float().numpy(), down.float().numpy(), top_k=2,
                                   a=a)
        x = torch.from_numpy(rows(5, 64)).to(dtype)
        y = moe(x, ids, weights.to(dtype))
        assert y.dtype == dtype and y.shape == (5, 64) and not y.requires_grad
        want = plain(x.float().numpy(), ids.numpy(), weights.to(dtype).float().numpy())
        assert np.array_equal(y.float().numpy(), want.astype(np.float32)) and want.any()
    with pytest.raises(ValueError, match=r"topk_ids has the shape \(5, 1\); expected \(5, 2\)"):
        moe(x, ids[:, :1], weights)
    with pytest.raises(TypeError, match=r"gate_up\[0\] has elements of int64"):
        quern.MoE.quantize(sim, gate_up.long(), down, top_k=2)
    copied = pickle.loads(pickle.dumps(copy.deepcopy(moe)))
    assert torch.equal(copied(x, ids, weights), moe(x, ids, weights))


def test_moe_as_a_module(quern, sim):
    """state_dict, deepcopy, pickle, half and a loaded state keep what the layer computes."""
    gate_up, down, ids, weights = stacks(torch.float32)
    moe = quern.MoE.quantize(sim, gate_up, down, top_k=2, scale="nested")
    module, x = quern.QuantizedMoE.of(moe), torch.from_numpy(rows(5, 64))
    want = moe(x, ids, weights)
    assert torch.equal(module(x, ids, weights), want)
    assert {"gate_up.b", "gate_up.problem_text", "down.absmax8"} < set(module.state_dict())
    assert module.gate_up.b.shape == (4, 128, 32) and "op=moe wq=nf4" in repr(module)
    module.half()
    assert module.down.offset.dtype == torch.float32
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x, ids, weights), want)
    other = quern.QuantizedMoE.of(quern.MoE.quantize(sim, -gate_up, down, top_k=2, scale="nested"))
    assert not torch.equal(other(x, ids, weights), want)
    saved = io.BytesIO()
    torch.save(module.state_dict(), saved)
    saved.seek(0)
    other.load_state_dict(torch.load(saved))  # which has made a layer of other weights before
    assert torch.equal(other(x, ids, weights), want)
    larger = quern.QuantizedMoE(sim, module.gate_up.problem.replace("top_k=2", "top_k=4"),
                                module.down.problem)
    larger.load_state_dict(module.state_dict())
    with pytest.raises(ValueError, match="loaded are of .*top_k=2.*expected .*top_k=4"):
        larger(x, ids, weights)


def test_moe_operator(quern, sim, monkeypatch):
    """quern::moe as torch sees it. The GPU's part is played by torch on the CPU, with the blocks
    that the library makes."""
    import contextlib
    from quern import torch_ops

    gate_up, down, ids, weights = stacks(torch.float32)
    real = quern.MoE.quantize(sim, gate_up, down, top_k=2, wq="none", a="f32")

    class CpuOp:
        streams = []

        def __init__(self, op):
            self.op = op

        def __getattr__(self, name):
            return getattr(self.op, name)

        def launch(self, *, m, stream, a, c, b, rows, experts, rows_used, routing=None):
            self.streams.append(stream)
            of_block = len(rows) // len(experts)
            for slot in range(int(rows_used)):
                row, expert = int(rows[slot]), int(experts[slot // of_block])
                if row < m * self.choices:
                    y = b[expert] @ a[row // self.choices]
                    if self.choices > 1:
                        gate, up = y.split(len(y) // 2)
                        y = torch.nn.functional.silu(gate) * up
                    c[row] = y if routing is None else y * routing.reshape(-1)[row]

    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream",
                        lambda device: types.SimpleNamespace(cuda_stream=7))
    problems = [product.op.problem for product in (real.gate_up, real.down)]
    for product in (real.gate_up, real.down):
        monkeypatch.setitem(torch_ops._ops, f"None {product.op.problem}", CpuOp(product.op))
    x = torch.from_numpy(rows(5, 64))
    ids[3, 1] = -1
    more = ([gate_up, down], "gate_up.b,down.b", *problems)
    y = torch_ops.moe(x, ids, weights, *more)
    assert CpuOp.streams == [7, 7] and y.dtype == torch.float32
    assert close(y.numpy(), real(x, ids, weights).numpy(), 1e-4)
    assert torch_ops.moe(x[:0], ids[:0], None, *more).shape == (0, 64)
    with pytest.raises(RuntimeError, match="no quern.MoE of op=moe"):
        torch_ops.moe(x, ids, weights, *more[:3], problems[1].replace("n=64", "n=128"))
    torch.library.opcheck(torch_ops.moe, (x, ids, weights, *more))
    torch.library.opcheck(torch_ops.moe, (x, ids, None, *more))

    def layer(x, ids, weights):
        return torch.relu(torch_ops.moe(x, ids, weights, *more)) + 1

    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, ids, weights), layer(x, ids, weights))

    # a whole MoE on a GPU, as a tracer meets it
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        moe = quern.MoE.__new__(quern.MoE)
        moe.context = types.SimpleNamespace(gpu=quern.arrays.Gpu("hip", 0))
        moe.hidden, moe.top_k, moe.a_type, moe.registered = 64, 2, "f32", False
        moe.gate_up, moe.down = (
            types.SimpleNamespace(op=CpuOp(product.op), operands={
                "b": torch.empty(4, product.op.n, product.op.k, device="cuda")})
            for product in (real.gate_up, real.down))
        given = (torch.empty(7, 2, dtype=torch.int64, device="cuda"),
                 torch.empty(7, 2, device="cuda"))
        z = moe(torch.empty(7, 64, device="cuda"), *given)
        assert z.shape == (7, 64) and z.device.type == "cuda" and z.dtype == torch.float32
        with pytest.raises(TypeError, match="x is torch.float16; the layer was made for"):
            moe(torch.empty(7, 64, dtype=torch.float16, device="cuda"), *given)
    for problem in problems:
        torch_ops._ops.pop(f"0 {problem}")
    torch_ops._contexts.clear()


# ---- models -------------------------------------------------------------------------------------


def model_of():
    class Half(torch.nn.Linear):
        """Another product than Linear's."""

        def forward(self, x):
            return super().forward(x) / 2

    torch.manual_seed(1)
    model = torch.nn.ModuleDict({
        "embed": torch.nn.Embedding(48, 64), "up": torch.nn.Linear(64, 128),
        "odd": torch.nn.Linear(100, 3), "halved": Half(64, 64), "down": torch.nn.Linear(128, 64),
        "head": torch.nn.Linear(64, 48, bias=False)})
    model["head"].weight = model["embed"].weight
    return model


def test_quantize_takes_what_torch_has(quern, sim):
    layer = torch.nn.Linear(128, 32)  # its parameters require gradients
    x = torch.from_numpy(rows(3, 128))
    want = quern.Linear.quantize(sim, layer.weight.detach().numpy(), bias=layer.bias.tolist())(x)
    assert torch.equal(quern.Linear.quantize(sim, layer)(x), want)
    assert torch.equal(quern.Linear.quantize(sim, layer.weight, bias=layer.bias)(x), want)
    rounded = quern.Linear.quantize(sim, layer.to(torch.bfloat16))  # which may take other codes
    assert close(rounded(x).numpy(), want.numpy(), 0.1)
    with pytest.raises(TypeError, match=r"shape \(32, 128\) on the meta device"):
        quern.Linear.quantize(sim, torch.nn.Linear(128, 32, device="meta"))
    with pytest.raises(TypeError, match="w has elements of int64"):
        quern.Linear.quantize(sim, torch.ones(32, 128, dtype=torch.int64))


def test_a_star_has_what_needs_torch(quern):
    pytest.importorskip("transformers")
    names = {}
    exec("from quern import *", names)
    assert {"replace_linear", "QuantizedLinear", "QuantizedMoE", "QuernConfig"} <= {*names}
    assert names["replace_linear"] is quern.replace_linear


def test_replace_linear(quern, sim):
    model, told = model_of(), []
    before = model["up"]
    report = quern.replace_linear(model, sim, wq="int4", a="bf16", group=32,
                                  predicate=lambda name, module: name != "down",
                                  progress=lambda *p: told.append(p))
    assert list(report.replaced) == ["up"] and model["up"] is report.replaced["up"]
    assert report.left == {
        "odd": "k=100 is not a multiple of group=32; the next multiple is 128",
        "halved": "Half is a subclass of Linear; expected torch.nn.Linear itself",
        "down": "not asked for by the predicate", "head": "its weight is shared with embed.weight"}
    assert told == [(0, 5, "up"), (1, 5, "odd"), (2, 5, "halved"), (3, 5, "down"), (4, 5, "head"),
                    (5, 5, "")]
    assert str(report).startswith("1 layers replaced, 4 left") and "  odd: k=100" in str(report)
    new, x = model["up"], torch.from_numpy(rows(5, 64))
    assert "wq=int4 group=32" in repr(model) and (new.in_features, new.out_features) == (64, 128)
    exact = quern.dequantize(new.problem, {name: array for name, array in quern.Linear.quantize(
        sim, before, wq="int4", a="bf16", group=32).arrays().items() if name != "bias"})
    assert close(new(x).numpy(), x.numpy() @ exact.T + before.bias.detach().numpy(), 1e-2)
    for replace in (quern.replace_linear, quern.replace_linear4bit):
        with pytest.raises(TypeError, match="model is a str; expected a torch.nn.Module"):
            replace("name", sim)
    with pytest.raises(ValueError, match="cannot be replaced within itself"):
        quern.replace_linear(before, sim)


def test_what_is_wrong_with_all_layers_is_raised(quern, tmp_path):
    """A model that stays as it was would go unnoticed: a kernel that may not be made, a context
    that is closed or none."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Linear(128, 64))
    with quern.Context(target="gfx1151", jit="off", cache_dir=tmp_path) as ctx:
        with pytest.raises(quern.Error, match="compiling is off") as failure:
            quern.replace_linear(model, ctx)
        assert failure.value.name == "QUERN_E_WOULD_COMPILE"
    with pytest.raises(ValueError, match="the Context is closed"):
        quern.replace_linear(model, ctx)
    for replace in (quern.replace_linear, quern.replace_linear4bit):
        with pytest.raises(TypeError, match="context is a str; expected a quern.Context"):
            replace(model, "ctx")
    assert all(type(layer) is torch.nn.Linear for layer in model)


def test_words_that_are_wrong_for_every_layer_are_raised(quern, sim):
    """And no layer is tried with them; a size that they do not fit is of one layer."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Linear(128, 64))
    for words, kind, says in (
            (dict(wq="nf5"), ValueError, "wq=nf5 is unknown"),
            (dict(wq="int4", groupsize=128), ValueError, "groupsize"),
            (dict(a="bf17"), ValueError, "a=bf17 is unknown"),
            (dict(n=64), ValueError, "n"),
            (dict(m_max="8"), TypeError, "m_max is '8'; expected an integer"),
            (dict(m_max=0), ValueError, "m_max is 0")):
        with pytest.raises(kind, match=says):
            quern.replace_linear(model, sim, **words)
    assert all(type(layer) is torch.nn.Linear for layer in model)
    report = quern.replace_linear(model, sim, group=128)
    assert list(report.replaced) == ["1"] and "k=64 is not a multiple" in report.left["0"]
    for words, kind, says in ((dict(compute_type="bf17"), ValueError, "a=bf17 is unknown"),
                              (dict(m_max="8"), TypeError, "m_max is '8'")):
        with pytest.raises(kind, match=says):
            quern.replace_linear4bit(model, sim, **words)


def test_reasons_are_said_once(quern, sim):
    model = torch.nn.Sequential(*(torch.nn.Linear(100, 64) for _ in range(3)))
    report = quern.replace_linear(model, sim)
    assert report.unasked() == list(report.left) == ["0", "1", "2"]
    assert str(report).splitlines() == [
        "0 layers replaced, 3 left as they were",
        "  0 and 2 more: k=100 is not a multiple of group=64; the next multiple is 128"]
    assert quern.replace_linear(model, sim, predicate=lambda *_: False).unasked() == []


def test_a_replaced_model_is_a_module(quern, sim):
    """Copies, pickles, state_dict; types that a cast may not change; compile."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
    quern.replace_linear(model, sim, a="f16")
    x = torch.from_numpy(rows(5, 64))
    want = model(x)
    kept = io.BytesIO()
    torch.save(model.state_dict(), kept)
    kept.seek(0)
    twin, again = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for buffer in model.buffers():
        buffer.zero_()
    assert torch.equal(twin(x), want) and torch.equal(again(x), want)
    model.load_state_dict(torch.load(kept))
    assert torch.equal(model(x), want)  # not what was loaded before
    assert torch.equal(twin.to(torch.bfloat16)(x), want) and twin[0].scales.dtype == torch.float32
    other = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
    quern.replace_linear(other, sim, a="f16", wq="fp4")
    other.load_state_dict(model.state_dict())  # as many bytes, but they mean other weights
    with pytest.raises(ValueError, match="are of 'op=gemm wq=nf4 .*; expected 'op=gemm wq=fp4"):
        other(x)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    assert torch.equal(compiled(x), want)
    layer = quern.Linear.quantize(sim, weights(32, 64))
    compiled = torch.compile(lambda x: layer(x) + 1, backend="aot_eager")
    assert torch.equal(compiled(x), layer(x) + 1)


def test_weights_that_were_not_loaded(quern, sim):
    """Zeros that nobody asked for are said, whichever way the rest was loaded; weights that are
    zeros are as good as others."""
    text, x = "wq=nf4 n=64 k=256 a=bf16 bias=1", torch.from_numpy(rows(3, 256))
    good = quern.QuantizedLinear.of(quern.Linear.quantize(
        sim, weights(64, 256), bias=np.zeros(64, np.float32)))
    want, kept = good(x), good.state_dict()

    def refuses(module, names):
        with pytest.raises(ValueError, match=f"its weights were not loaded: {names} of op=gemm"):
            module(x)

    empty = quern.QuantizedLinear(sim, text)
    refuses(empty, "b, scales, bias")
    for moved in (empty.to("meta"), copy.deepcopy(quern.QuantizedLinear(sim, text)),
                  pickle.loads(pickle.dumps(quern.QuantizedLinear(sim, text))).half()):
        refuses(moved, "b, scales, bias")
    part = quern.QuantizedLinear(sim, text)
    part.load_state_dict({name: kept[name] for name in ("b", "bias", "problem_text")},
                         strict=False)
    refuses(part, "scales")
    part.load_state_dict({"scales": kept["scales"]}, strict=False)
    assert torch.equal(part(x), want)
    outer = torch.nn.Sequential(quern.QuantizedLinear(sim, text))
    outer.load_state_dict({f"0.{name}": value for name, value in kept.items()})
    assigned = quern.QuantizedLinear(sim, text).to("meta")
    assigned.load_state_dict(kept, assign=True)
    by_hand = quern.QuantizedLinear(sim, text)
    by_hand.b.copy_(kept["b"])
    by_hand.scales, by_hand.bias = kept["scales"], kept["bias"]
    for module in (outer, assigned, by_hand, copy.deepcopy(outer)):
        assert torch.equal(module(x), want)
    gate_up, down, ids, routing = stacks(torch.float32)
    moe = quern.QuantizedMoE.of(quern.MoE.quantize(sim, gate_up, down, top_k=2))
    other = quern.QuantizedMoE(sim, moe.gate_up.problem, moe.down.problem)
    other.gate_up.load_state_dict(moe.gate_up.state_dict())
    with pytest.raises(ValueError, match="its weights were not loaded: b, scales of op=moe"):
        other(torch.from_numpy(rows(5, 64)), ids, routing)


@pytest.mark.filterwarnings("ignore")
def test_a_tracer_gets_no_constants(quern, sim):
    """torch.jit.trace and torch.export of a layer that computes in host memory, called before or
    not; what torch.compile does stays."""
    linear = quern.Linear.quantize(sim, weights(32, 64))
    x = torch.from_numpy(rows(3, 64))

    class Outer(torch.nn.Module):
        def forward(self, x):
            return linear(x) + 1

    says = "a layer of a software GPU cannot be traced or exported; use a GPU context"
    fresh, used = (quern.QuantizedLinear.of(linear) for _ in range(2))
    want = used(x)
    gate_up, down, ids, routing = stacks(torch.float32)
    moe = quern.QuantizedMoE.of(quern.MoE.quantize(sim, gate_up, down, top_k=2))
    for module, given in ((Outer(), (x,)), (fresh, (x,)), (used, (x,)),
                          (moe, (torch.from_numpy(rows(5, 64)), ids, routing))):
        with pytest.raises(RuntimeError, match=says):
            torch.jit.trace(module, given)
        with pytest.raises(RuntimeError, match=says):
            torch.export.export(module, given, strict=False)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(fresh, backend="aot_eager")(x), want)


def test_replace_linear4bit_of_a_model(quern, sim):
    """Every Linear4bit of a model; one that is not quantised yet is left, and said so."""
    class Linear4bit(torch.nn.Linear):
        pass

    text = "wq=nf4 n=32 k=64 a=f16"
    operands = quern.quantize(text, weights(32, 64))
    model = torch.nn.Sequential(Linear4bit(64, 32), torch.nn.Linear(32, 32), Linear4bit(64, 32),
                                Linear4bit(64, 32))
    for module in (model[0], model[2]):
        state = linear4bit(operands, 32, 64,
                           lambda name, array: torch.from_numpy(array)).weight.quant_state
        module.weight = torch.nn.Parameter(torch.from_numpy(operands["b"]).reshape(-1, 1),
                                           requires_grad=False)
        module.weight.quant_state = state
        module.bias.data = torch.zeros(32)
    report = quern.replace_linear4bit(model, sim, compute_type="f16",
                                      predicate=lambda name, module: name != "2")
    assert list(report.replaced) == ["0"] and report.left["2"] == "not asked for by the predicate"
    assert "no quant_state" in report.left["3"]
    x = torch.from_numpy(rows(3, 64))
    want = model[0](x)
    assert close(want.numpy(), x.numpy() @ quern.dequantize(text, operands).T)
    assert torch.equal(copy.deepcopy(model)[0](x), want)


# ---- transformers -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny model with random weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(2)
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=144, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=100)
    directory = tmp_path_factory.mktemp("model")
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(directory)
    return directory, model


def test_transformers_quantizer(quern, checkpoint, tmp_path, monkeypatch, caplog):
    """from_pretrained with QuernConfig; what it cannot serve stays; saved and loaded again."""
    from transformers import AutoModelForCausalLM
    directory, model = checkpoint
    config = quern.QuernConfig(wq="int4", group=32, target="gfx1151")
    mine = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16,
                                                quantization_config=config)
    layers = [name for name, module in mine.named_modules()
              if isinstance(module, quern.QuantizedLinear)]
    assert len(layers) == 2 * 6  # down_proj has K = 144, which is no multiple of 32
    assert type(mine.model.layers[0].mlp.down_proj) is torch.nn.Linear
    assert type(mine.lm_head) is torch.nn.Linear
    assert mine.hf_quantizer.quantization_config.to_dict()["words"] == {"group": 32}
    (said,) = [r for r in caplog.records if r.name == "quern" and r.levelname == "WARNING"]
    assert "down_proj and 1 more: k=144 is not a multiple of group=32" in said.getMessage()
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    with torch.no_grad():
        want, got = model(ids).logits.float(), mine(ids).logits.float()
    assert torch.nn.functional.cosine_similarity(want, got, dim=-1).min() > 0.97
    assert mine.generate(ids, max_new_tokens=3, do_sample=False).shape == (1, 8)
    mine.save_pretrained(tmp_path)
    assert "gfx1151" not in (tmp_path / "config.json").read_text()  # another GPU may load it
    monkeypatch.setenv("QUERN_DEVICE", "sim")
    monkeypatch.setenv("QUERN_TARGET", "gfx1151")
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(again(ids).logits.float(), got)
    for bad, says in ((dict(wq="nf5"), "wq=nf5 is unknown"),
                      (dict(words={"grup": 64}), "grup"), (dict(grup=64), "grup")):
        with pytest.raises(quern.Error, match=says):
            quern.QuernConfig(**bad)
    with pytest.raises(ValueError, match="group given twice"):
        quern.QuernConfig(words={"group": 64}, group=32)
    with pytest.raises(TypeError, match="m_max is '8'; expected an integer"):
        quern.QuernConfig(m_max="8")
    monkeypatch.setenv("QUERN_JIT", "off")  # and no kernels: nothing of the model could be served
    monkeypatch.setenv("QUERN_CACHE_DIR", str(tmp_path / "none"))
    with pytest.raises(quern.Error, match="compiling is off"):
        AutoModelForCausalLM.from_pretrained(
            directory, quantization_config=quern.QuernConfig(target="gfx1201"))
    with pytest.raises(quern.Error, match='unknown target "gfx1"'):
        AutoModelForCausalLM.from_pretrained(
            directory, quantization_config=quern.QuernConfig(target="gfx1"))


def test_names_of_modules_to_not_convert(quern, checkpoint, caplog):
    """The report says why a layer was left; a name of no layer is told."""
    from transformers import AutoModelForCausalLM
    caplog.set_level("INFO", logger="quern")

    def said(level, **words):
        caplog.clear()
        AutoModelForCausalLM.from_pretrained(
            checkpoint[0], dtype=torch.bfloat16,
            quantization_config=quern.QuernConfig(target="gfx1151", wq="none", **words))
        return [r.getMessage() for r in caplog.records
                if r.name == "quern" and r.levelname == level]

    assert any("lm_head: in transformers' default of modules_to_not_convert" in line
               for line in said("INFO"))
    names = ["lm_head", "mlp.down_proj", "self_atn", "mlp"]
    lines = said("WARNING", modules_to_not_convert=names)
    assert [re.search("has '(.*?)', which is no linear layer's", line)[1] for line in lines] == \
        ["self_atn", "mlp"]
    assert any("lm_head and 2 more: in modules_to_not_convert" in r.getMessage() or
               "down_proj and 2 more: in modules_to_not_convert" in r.getMessage()
               for r in caplog.records)
