# SPDX-License-Identifier: MIT
"""quern.MoE with torch tensors on a GPU: a stand-in for torch, and software GPUs behind HIP."""

import ctypes
import importlib.util
import sys
import types

import numpy as np
import pytest
from conftest import close, rows
from small_mixture import E, K, T, choices, counted, reference, stacks, weights_of


@pytest.fixture
def torch(quern, hip):
    """A stand-in for it."""
    if importlib.util.find_spec("torch"):
        pytest.skip("torch itself is here")
    import stand_in_torch
    yield stand_in_torch.install(hip)
    del sys.modules["torch"]
    sys.modules.pop("quern.torch_ops", None)
    vars(quern).pop("torch_ops", None)


def test_torch_tensors_on_the_gpu(quern, gpu, hip, torch):
    """The layer's own tensors are used where they are, on torch's stream, through the operator."""
    moe = quern.MoE.quantize(gpu, *stacks(), top_k=T, a="f16", m_max=4)  # quern's own memory
    exact = weights_of(quern, moe)
    x = rows(5, K).astype(np.float16)
    ids, weights = choices(5)
    ids[2, 1] = -1
    there = (torch.as_gpu(x.reshape(1, 5, K), torch.float16),
             torch.as_gpu(ids.reshape(1, 5, T), torch.int64),
             torch.as_gpu(weights.reshape(1, 5, T), torch.float32))
    y = moe(*there)
    assert hip.hipStreamSynchronize(torch.stream) == 0
    want = reference(exact, x.astype(np.float64), ids, weights)
    assert y.shape == (1, 5, K) and y.dtype == torch.float16
    assert close(y.array().reshape(5, K), want)
    dtypes = {"b": torch.uint8}
    on_gpu = [{name: torch.as_gpu(array, dtypes.get(name, torch.float32))
               for name, array in product.arrays().items()}
              for product in (moe.gate_up, moe.down)]
    other = quern.MoE(gpu, moe.gate_up.op.problem, on_gpu[0], moe.down.op.problem, on_gpu[1])
    z = other(*there)
    assert hip.hipStreamSynchronize(torch.stream) == 0
    assert other.registered and np.array_equal(z.array(), y.array())
    assert other.gate_up.operands["b"].data_ptr() == on_gpu[0]["b"].data_ptr()
    unweighted = other(there[0], ids.reshape(1, 5, T), None)  # ids of the host's
    assert hip.hipStreamSynchronize(torch.stream) == 0
    assert close(unweighted.array().reshape(5, K),
                 reference(exact, x.astype(np.float64), ids, np.ones((5, T))))
    torch_ops = sys.modules["quern.torch_ops"]
    fake = torch_ops.moe.fake(there[0], there[1], there[2], [], "", moe.gate_up.op.problem,
                              moe.down.op.problem)
    assert fake.shape == y.shape and fake.dtype == y.dtype
    assert other(torch.as_gpu(x[:0], torch.float16), ids[:0], weights[:0]).shape == (0, K)
    with pytest.raises(TypeError, match="x is torch.float32; the layer was made for"):
        other(torch.as_gpu(x, torch.float32), ids, weights)


def test_a_whole_call_in_a_graph(quern, gpu, hip, torch):
    """Captured before any other call, and replayed with what other tokens' routers chose: ids are
    put into blocks in the graph, and nothing waits."""
    m = 6
    moe = quern.MoE.quantize(gpu, *stacks(), top_k=T, a="f16", m_max=m)
    exact = weights_of(quern, moe)
    x, ids, weights = (torch.as_gpu(np.zeros(shape), dtype) for shape, dtype in (
        ((m, K), torch.float16), ((m, T), torch.int64), ((m, T), torch.float32)))
    graph, replay = ctypes.c_void_p(), ctypes.c_void_p()
    assert hip.hipStreamBeginCapture(torch.stream, 0) == 0
    y = moe(x, ids, weights)
    assert hip.hipStreamEndCapture(torch.stream, ctypes.byref(graph)) == 0
    assert hip.hipGraphInstantiate(ctypes.byref(replay), graph, None, None, 0) == 0
    for seed in (2, 3, 4):
        given, (chosen, by) = (seed + rows(m, K)).astype(np.float16), choices(m, seed)
        chosen[seed] = -1, 2**32 + 1
        for tensor, array in ((x, given), (ids, chosen), (weights, by)):
            tensor.fill(array)
        y.fill(np.full((m, K), np.nan))
        assert hip.hipGraphLaunch(replay, torch.stream) == 0
        assert hip.hipStreamSynchronize(torch.stream) == 0
        assert close(y.array(), reference(exact, given.astype(np.float64), chosen, by))
        assert np.array_equal(y.array(), moe(given, chosen, by))  # on the CPU, to the last bit
        again = moe(x, torch.from_numpy(chosen), torch.from_numpy(by))
        assert np.array_equal(y.array(), again.array())
    assert hip.hipGraphExecDestroy(replay) == 0


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
def test_blocks_on_the_gpu(quern, gpu, hip, torch, dtype):
    """They are the CPU's, whatever type ids have and whichever library's they are."""
    moe = quern.MoE.quantize(gpu, *stacks(), top_k=T, a="f16", m_max=32)
    torch_ops = importlib.import_module("quern.torch_ops")
    ops = moe.gate_up.op, moe.down.op
    for m in (1, 3, 24):
        ids = choices(m)[0].astype(dtype)
        ids[-1, 0] = np.iinfo(dtype).max
        ids[m // 2, 1] = E if dtype == "uint8" else -1
        if dtype == "int64" and m > 1:
            ids[0] = 2**32, -2**63
        x = torch.as_gpu(rows(m, K), torch.float16)
        there = torch.as_gpu(ids, getattr(torch, dtype))
        blocks, whole = torch_ops._blocks(*ops, there, None, x)
        cpu, _ = torch_ops._blocks(*ops, torch.from_numpy(ids), None, x)
        assert list(blocks) == list(cpu) == ["rows", "experts", "rows_used"] and not whole
        for name, tensor in blocks.items():
            assert tensor.dtype == cpu[name].dtype and tensor.shape == cpu[name].shape
            assert np.array_equal(tensor.array(), cpu[name].array()), name
        of_another_library = types.SimpleNamespace(shape=ids.shape, tensor=there, __dlpack__=None)
        assert np.array_equal(moe(x, of_another_library, None).array(),
                              moe(x, torch.from_numpy(ids), None).array())


def test_a_call_on_the_gpu_parses_no_text(quern, gpu, hip, torch, monkeypatch):
    """As with arrays: each op says once what blocks it reads, and once more when its operands are
    checked."""
    moe = quern.MoE.quantize(gpu, *stacks(), top_k=T, a="f16", m_max=4)
    ids, weights = choices(3)
    there = (torch.as_gpu(rows(3, K), torch.float16), torch.as_gpu(ids, torch.int64),
             torch.as_gpu(weights, torch.float32))
    want = moe(*there).array()
    torch_ops = sys.modules["quern.torch_ops"]
    monkeypatch.setattr(torch_ops, "_words", None)
    called = counted(monkeypatch)
    assert np.array_equal(moe(*there).array(), want)
    assert called.count("quern_op_launch") == 3 and called.count("quern_op_block_rows") == 4
    assert not {"quern_problem_parse", "quern_problem_text"} & set(called)


def test_ids_on_the_gpu_that_the_cpu_aligns(quern, gpu, hip, torch, monkeypatch):
    """On targets without op=moe_align, for more choices than it takes, and where it cannot be
    made; what is none of these is an error."""
    asked = []

    def refuse(status):
        def op_of(context, problem, *more):
            if not problem.startswith("op=moe_align "):
                return made(context, problem, *more)
            asked.append(problem)
            raise quern.Error(0, status, f"{problem} is refused")

        made = op_of_context
        monkeypatch.setattr(quern.Context, "op", op_of)
        monkeypatch.setattr(quern.Context, "op_on", op_of)

    op_of_context = quern.Context.op
    x, (ids, weights) = rows(5, K).astype(np.float16), choices(5)
    ids[1, 0] = -1
    there = (torch.as_gpu(x, torch.float16), torch.as_gpu(ids, torch.int64),
             torch.as_gpu(weights, torch.float32))
    moe = quern.MoE.quantize(gpu, *stacks(), top_k=T, a="f16", m_max=64)
    want = moe(*there).array()
    assert moe.gate_up.op.aligner(32768) and moe.gate_up.op.aligner(32769) is None
    with pytest.raises(TypeError, match="topk_ids has elements of float32; expected integers"):
        moe(there[0], torch.as_gpu(ids, torch.float32), None)

    refuse("QUERN_E_DECLINED")
    moe = quern.MoE.quantize(gpu, *stacks(), top_k=T, a="f16", m_max=1)
    assert asked and np.array_equal(moe(*there).array(), want)
    refuse("QUERN_E_TOOLCHAIN")
    with pytest.warns(RuntimeWarning, match="blocks on the CPU, as op=moe_align .* cannot be made"):
        moe = quern.MoE.quantize(gpu, *stacks(), top_k=T, a="f16", m_max=64)
    assert np.array_equal(moe(*there).array(), want)
    moe.gate_up.op._aligners.clear()  # as of a layer that was made before torch was imported
    with pytest.raises(quern.Error, match="op=moe_align experts=4 top_k=2 block_rows=.* refused"):
        moe(*there)
