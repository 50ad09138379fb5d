# SPDX-License-Identifier: MIT
"""quern.MoE and what Op has for op=moe: on software GPUs, and on a HIP runtime of software GPUs."""

import copy
import ctypes
import pickle
import re
import sys

import numpy as np
import pytest
from conftest import close, rows
from small_mixture import E, I, K, T, choices, counted, reference, stacks, weights_of

# ---- Op ----------------------------------------------------------------------------------------


def test_blocks_of_an_op(quern, ctx):
    """What Op.align writes, against the words of quern.h, and a launch with it by hand."""
    text = f"op=moe wq=nf4 n=48 k=128 a=f16 experts={E} top_k={T}"
    op, m = ctx.op(text, m_max=16), 15
    ids, routing = choices(m)
    ids[3] = -1, E  # no expert's
    ids[4, 0] = 2**32 + 1  # not expert 1, which it would be in 32 bits
    lists, experts, used = op.align(ids)
    b, v = op.block_rows(m), m * T
    assert b > 1 and op.slots(m) == len(lists) == len(experts) * b
    assert len(lists) == -(-min(v + E * (b - 1), v * b) // b) * b
    flat = ids.reshape(-1)
    want, blocks = [], []
    for e in range(E):
        own = [i for i in range(v) if flat[i] == e]
        own += [v] * (-len(own) % b)
        want += own
        blocks += [e] * (len(own) // b)
    assert used[0] == len(want) and lists[:used[0]].tolist() == want
    assert (lists[used[0]:] == v).all() and experts[:len(blocks)].tolist() == blocks
    assert (experts[len(blocks):] == -1).all()

    w = np.random.default_rng(5).normal(0, 0.05, (E, 48, 128)).astype(np.float32)
    operands = quern.quantize(text, w)
    exact = quern.dequantize(text, operands).astype(np.float64)
    x = rows(m, 128).astype(np.float16)
    given = {name: ctx.buffer(array) for name, array in
             dict(operands, a=x, experts=experts, rows_used=used, routing=routing).items()}
    given["rows"] = short = ctx.buffer(lists[:used[0]])  # as many as are used
    c = ctx.buffer(np.full((v, 48), 7, np.float16))
    op.launch(m=m, c=c, slots=int(used[0]), **given)
    y = c.read(np.float16, (v, 48)).astype(np.float64)
    for i in range(v):
        if 0 <= flat[i] < E:
            assert close(y[i], routing.flat[i] * (exact[flat[i]] @ x[i // T].astype(np.float64)))
        else:
            assert (y[i] == 7).all()  # no block names it
    with pytest.raises(ValueError, match=rf"rows has {short.nbytes} bytes; {4 * len(lists)} are"):
        op.launch(m=m, c=c, **given)
    with pytest.raises(ValueError, match=rf"c has {v * 96} bytes; {v * 96 + 2 * 96} are needed"):
        op.launch(m=m + 1, c=c, slots=int(used[0]), **{**given, "a": ctx.buffer(16 * 256)})
    with pytest.raises(ValueError, match=rf"c has {v * 96} bytes"):
        op.launch(m=m, c=c, ldc=56, slots=int(used[0]), **given)
    with pytest.raises(TypeError, match="experts has elements of f32; expected i32"):
        op.launch(m=m, c=c, slots=int(used[0]), **{
            **given, "experts": ctx.buffer(np.zeros(len(experts), np.float32))})
    with pytest.raises(quern.Error, match="args.slots is 5; expected 0, or a multiple of block"):
        op.launch(m=m, c=c, slots=5, **given)


def test_what_cannot_be_aligned(quern, sim):
    op = sim.op(f"op=moe wq=nf4 n=48 k=128 a=f16 experts={E} top_k={T}", m_max=1)
    for ids, error, says in (
            (np.zeros((3, 3), int), ValueError, r"shape \(3, 3\); expected \[m, 2\]"),
            (np.zeros(2, int), ValueError, r"shape \(2,\); expected \[m, 2\]"),
            (np.zeros((3, 2)), TypeError, "topk_ids has elements of float64; expected integers"),
            (np.zeros((0, 2), int), quern.Error, "m is 0; expected 1 to")):
        with pytest.raises(error, match=says):
            op.align(ids)
    dense = sim.op("wq=nf4 n=48 k=128 a=f16", m_max=1)
    assert dense.block_rows(1) == 0
    with pytest.raises(ValueError, match="has no experts; expected op=moe"):
        dense.align(np.zeros((1, 2), int))


def test_the_aligner_of_an_op(quern, ctx):
    """The same integers as the CPU's, by a launch; one op for all rows with blocks of a size."""
    op = ctx.op(f"op=moe wq=nf4 n=48 k=128 a=f16 experts={E} top_k={T}", m_max=40)
    for m in (1, 5, 40):
        ids = choices(m)[0].astype(np.int32)
        ids[m // 2, 0] = E
        aligner = op.aligner(m)
        assert aligner is op.aligner(m)
        assert aligner.problem == (f"op=moe_align experts={E} top_k={T} "
                                   f"block_rows={op.block_rows(m)}")
        lists = dict(zip(("rows", "experts", "rows_used"), op.align(ids)))
        written = {name: ctx.buffer(array.nbytes) for name, array in lists.items()}
        given = ctx.buffer(ids)
        aligner.launch(m=m, topk_ids=given, **written)
        for name, array in lists.items():
            assert np.array_equal(written[name].read(np.int32, array.shape), array), name
    many = ctx.op(f"op=moe wq=nf4 n=48 k=128 a=f16 experts={E} top_k={T}", m_max=32769)
    assert many.aligner(32769) is None  # 65,538 choices
    with pytest.raises(TypeError, match="topk_ids has elements of int64; expected i32"):
        aligner.launch(m=m, topk_ids=ctx.buffer(ids.astype(np.int64)), **written)
    with pytest.raises(ValueError, match=r"topk_ids has 320 bytes; 328 are needed for m=41"):
        aligner.launch(m=m + 1, topk_ids=given, **written)
    with pytest.raises(ValueError, match="op=moe_align.* has no experts; expected op=moe"):
        aligner.aligner(1)


def test_an_aligner_is_not_made_in_a_capture(quern, gpu, hip):
    op = gpu.op(f"op=moe wq=nf4 n=48 k=128 a=f16 experts={E + 1} top_k={T}", m_max=1)
    stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
    assert hip.hipStreamCreate(ctypes.byref(stream)) == 0
    assert hip.hipStreamBeginCapture(stream, 0) == 0
    with pytest.raises(quern.Error, match="the stream is being captured"):
        op.aligner(1, stream.value)
    assert hip.hipStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert op.aligner(1, stream.value) is op.aligner(1)


def test_stacks_are_quantised_expert_by_expert(quern):
    """Each expert's operands are those of its own layer; what experts share is there once."""
    w = stacks()[0]
    for words in ("wq=nf4 a=bf16 scale=nested", "wq=int4 a=f16 zero=u8 group=64 layout=ck",
                  "wq=fp8 a=bf16", "wq=none a=f32", "wq=mxfp4 a=bf16"):
        text = f"{words} n={2 * I} k={K}"
        mixed = f"op=moe experts={E} top_k={T} {text}"
        all_of_it = quern.quantize(mixed, w)
        for e in range(E):
            for name, array in quern.quantize(text, w[e]).items():
                own = all_of_it[name]
                if name != "code":
                    own = own.reshape(E, -1)[e]
                assert np.array_equal(own.reshape(-1), array.reshape(-1)), (words, name)
        assert np.array_equal(quern.dequantize(mixed, all_of_it)[2],
                              quern.dequantize(text, quern.quantize(text, w[2])))
    with pytest.raises(ValueError, match=r"shape \(128, 128\); expected \(4, 128, 128\), the "
                                         "problem's experts, n and k"):
        quern.quantize(mixed, w[0])
    w[2, 1, 3] = np.nan
    with pytest.raises(ValueError, match=r"expert 2 of w has 1 values that are not finite, the "
                                         r"first of them nan at \[1, 3\]"):
        quern.quantize(mixed, w)


# ---- MoE ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    dict(wq="nf4", a="bf16"), dict(wq="nf4", a="f16", scale="nested"),
    dict(wq="int4", a="f16", zero="u8", group=64, layout="exl"),
    dict(wq="mxfp4", a="bf16", act="swiglu_oai", glu="interleaved", biased=True),
    dict(wq="fp8", a="bf16", c="f32"), dict(wq="none", a="f32")],
    ids=lambda w: " ".join(map(str, w.values())))
def test_moe(quern, ctx, words):
    words = dict(words)
    gate_up, down = stacks()
    biases = {}
    if words.pop("biased", False):
        biases = dict(gate_up_bias=8 * rows(E, 2 * I), down_bias=rows(E, K))
    moe = quern.MoE.quantize(ctx, gate_up, down, top_k=T, m_max=17, **biases, **words)
    assert (moe.experts, moe.top_k, moe.hidden, moe.intermediate) == (E, T, K, I)
    exact = weights_of(quern, moe)
    if biases:
        assert close(exact[1], biases["gate_up_bias"]) and exact[3].any()
    acts = {name: words[name] for name in ("act", "glu") if name in words}
    for m in (1, 3, 24):  # more than m_max, too, in blocks of the same size
        x, (ids, weights) = rows(m, K), choices(m)
        y = moe(x, ids, weights)
        want = reference(exact, x, ids, weights, **acts)
        assert y.shape == (m, K)
        assert y.dtype == (np.float16 if words["a"] == "f16" else np.float32)
        assert close(y, want, 1e-2)
    unweighted = moe.forward(x, ids, None)
    assert close(unweighted, reference(exact, x, ids, np.ones((m, T)), **acts), 1e-2)


def test_more_tokens_than_there_are_kernels_for(quern, sim):
    # a problem of its own: the context has one op for all who ask for the same, with their kernels
    moe = quern.MoE.quantize(sim, *stacks(), top_k=T, act="swiglu_oai", m_max=4)
    with pytest.raises(quern.Error, match="m is 24; the op was created for other numbers of rows"):
        moe(rows(24, K), *choices(24))


def test_choices_that_are_no_experts(quern, ctx):
    """They add nothing, whatever was in memory before: here NaN."""
    moe = quern.MoE.quantize(ctx, *stacks(), top_k=T, a="f16")
    x, (ids, weights) = rows(6, K), choices(6)
    moe(np.full_like(x, np.nan), ids, weights)
    ids[1, 0], ids[2, 1], ids[3] = -1, E, -1
    ids[4, 0] = 2**32
    y = moe(x, ids, weights)
    assert close(y, reference(weights_of(quern, moe), x, ids, weights))
    assert (y[3] == 0).all() and not (y[1] == 0).all()
    nothing = moe(x, np.full((6, T), -1), weights)
    assert nothing.shape == (6, K) and (nothing == 0).all()


def test_what_tokens_and_choices_may_be(quern, sim):
    moe = quern.MoE.quantize(sim, *stacks(), top_k=T, a="bf16")
    x, (ids, weights) = rows(6, K), choices(6)
    want = moe(x, ids, weights)
    assert want.dtype == np.float32
    bits = want.view(np.uint32)
    assert not (bits & 0xFFFF).any()  # values of bf16
    for other in (moe(x.reshape(2, 3, K), ids.reshape(2, 3, T), weights.reshape(2, 3, T)),
                  moe(x.tolist(), ids.tolist(), weights.tolist()),
                  moe(x.astype(np.float64), ids.astype(np.uint8), weights.astype(np.float64))):
        assert np.array_equal(other.reshape(6, K), want)
    assert moe(x[0], ids[0], weights[0]).shape == (K,)
    assert moe(x[:0], ids[:0], weights[:0]).shape == (0, K)
    for given, error, says in (
            ((x[:, 1:], ids, weights), ValueError, r"x has the shape \(6, 127\); expected "
             r"\[tokens, 128\]"),
            ((x, ids[:5], weights), ValueError, r"topk_ids has the shape \(5, 2\); expected "
             r"\(6, 2\), as x has the shape \(6, 128\)"),
            ((x, ids, weights[:, :1]), ValueError, r"topk_weights has the shape \(6, 1\); expected "
             r"\(6, 2\)"),
            ((x, weights, weights), TypeError, "topk_ids has elements of float32; expected "
             "integers"),
            ((x, ids, ids), TypeError, "topk_weights has elements of int64"),
            ((x.astype(int), ids, weights), TypeError, "int64")):
        with pytest.raises(error, match=says):
            moe(*given)


def test_a_call_parses_no_text(quern, sim, monkeypatch):
    """What a layer is was worked out when it was made. Both ops say once what blocks they read,
    and each once more when its operands are checked."""
    moe = quern.MoE.quantize(sim, *stacks(), top_k=T)
    given = rows(3, K), *choices(3)
    want = moe(*given)
    called = counted(monkeypatch)
    assert np.array_equal(moe(*given), want)
    assert "quern_op_launch" in called and called.count("quern_op_block_rows") == 4
    assert not {"quern_problem_parse", "quern_problem_text"} & set(called)


def test_stacks_of_any_kind(quern, sim):
    gate_up, down = stacks()
    x, (ids, weights) = rows(3, K), choices(3)
    want = quern.MoE.quantize(sim, gate_up, down, top_k=T)(x, ids, weights)
    for given in ((list(gate_up), list(down)), (gate_up.astype(np.float64), down.tolist())):
        assert np.array_equal(quern.MoE.quantize(sim, *given, top_k=T)(x, ids, weights), want)
    for given, error, says in (
            ((gate_up[0], down), ValueError, r"gate_up has the shape \(128, 128\); expected "
             r"\[E, 2·I, K\]"),
            ((gate_up, down[:3]), ValueError, r"down has the shape \(3, 128, 64\); expected "
             r"\[4, 128, 64\]"),
            ((gate_up, down.transpose(0, 2, 1)), ValueError, r"down has the shape \(4, 64, 128\)"),
            (([], []), ValueError, r"gate_up has the shape \(0,\)"),
            ((gate_up.astype(int), down), TypeError, r"gate_up\[0\] has elements of int64")):
        with pytest.raises(error, match=says):
            quern.MoE.quantize(sim, *given, top_k=T)
    with pytest.raises(ValueError, match=r"down_bias has the shape \(4, 64\); expected \[4, 128\]"):
        quern.MoE.quantize(sim, gate_up, down, top_k=T, down_bias=np.zeros((E, I), np.float32))
    with pytest.raises(TypeError, match="context is a str; expected a quern.Context"):
        quern.MoE.quantize("gfx1151", gate_up, down, top_k=T)


def test_more_choices_than_experts(quern, sim):
    """A device that has few of a layer's experts is given every choice; those of others add
    nothing."""
    gate_up, down = stacks()
    moe = quern.MoE.quantize(sim, gate_up, down, top_k=E + 2)
    x, random = rows(3, K), np.random.default_rng(3)
    ids = np.stack([random.permutation(4 * E)[:E + 2] for _ in range(3)])
    ids[:, 0] = range(3)
    ids[ids >= E] = -1
    weights = random.uniform(0.1, 1, ids.shape).astype(np.float32)
    want = reference(weights_of(quern, moe), x.astype(np.float64), ids, weights)
    assert close(moe(x, ids, weights), want, 1.5e-2)


def test_problems_that_are_not_of_one_layer(quern, sim):
    moe = quern.MoE.quantize(sim, *stacks(), top_k=T)
    first, second = moe.gate_up.op.problem, moe.down.op.problem
    of = (moe.gate_up.operands, moe.down.operands)
    x, (ids, weights) = rows(3, K), choices(3)
    again = quern.MoE(sim, first, of[0], second, of[1])
    assert np.array_equal(again(x, ids, weights), moe(x, ids, weights))
    dense = "op=gemm wq=nf4 n=128 k=128 a=bf16"
    for problems, says in (
            ((dense, second), "gate_up is 'op=gemm.*'; expected op=moe"),
            ((first, dense), "down is 'op=gemm"),
            ((first.replace(" act=silu_mul glu=halves", ""), second), "gate_up has no act"),
            ((first, second.replace("top_k=1", "top_k=2")), "down's top_k is 2; expected 1"),
            ((first, second.replace("experts=4", "experts=8")), "experts is 8; expected 4"),
            ((first, second.replace("k=64", "k=128")), "columns that gate_up gives, is 128; "
             "expected 64"),
            ((first, second.replace("n=128", "n=64")), "down's n, gate_up's k, is 64; expected "
             "128"),
            ((first, second.replace("a=bf16", "a=f16")), "gate_up's c, is f16; expected bf16")):
        with pytest.raises(ValueError, match=says):
            quern.MoE(sim, problems[0], of[0], problems[1], of[1])
    with pytest.raises(ValueError, match="operands are b; .*experts=4.* has b, scales"):
        quern.MoE(sim, first, {"b": of[0]["b"]}, second, of[1])
    with pytest.raises(ValueError, match="is a mixture of experts; expected op=gemm, or use "
                                         "quern.MoE"):
        quern.Linear(sim, first, of[0])
    sized = [text.replace("top_k", f"block_rows={b} top_k") for text, b in ((first, 64),
                                                                            (second, 16))]
    with pytest.raises(ValueError, match="for 1 tokens, blocks of gate_up have 64 rows, those of "
                                         "down 16; expected the same: say block_rows=64 in both"):
        quern.MoE(sim, sized[0], of[0], sized[1], of[1])


def test_a_layer_of_a_closed_context(quern):
    ctx = quern.Context(target="gfx1151")
    moe = quern.MoE.quantize(ctx, *stacks(), top_k=T)
    ctx.close()
    with pytest.raises(ValueError, match="this MoE's context is closed"):
        moe(rows(3, K), *choices(3))


def test_copies_and_pickles(quern, ctx):
    moe = quern.MoE.quantize(ctx, *stacks(), top_k=T, scale="nested", down_bias=rows(E, K))
    x, (ids, weights) = rows(3, K), choices(3)
    want = moe(x, ids, weights)
    twin, kept = copy.deepcopy(moe), pickle.loads(pickle.dumps(moe))
    assert twin.context is ctx and kept.context.target == ctx.target
    assert set(moe.arrays()) == {
        f"{name}.{operand}" for name in ("gate_up", "down")
        for operand in ("b", "scales", "absmax8", "code", "offset")} | {"down.bias"}
    moe.down.operands["b"].write(np.zeros(E * K * I // 2, np.uint8))
    assert not np.array_equal(moe(x, ids, weights), want)
    assert np.array_equal(twin(x, ids, weights), want)
    assert np.array_equal(kept(x, ids, weights), want)
    assert re.fullmatch(r"MoE\('op=moe wq=nf4 .*act=silu_mul.*', 'op=moe .*', target='gfx1\d+', "
                        r"m_max=1024\)", repr(moe))


def test_a_graph_serves_every_routing(quern, gpu, hip):
    """Both launches are captured once; lists are read when the graph is replayed. Blocks of an
    expert that another device has write zeros."""
    m, experts_of = 6, sys.modules["quern.moe"]
    moe = quern.MoE.quantize(gpu, *stacks(), top_k=T, a="f16", m_max=m)
    exact, x = weights_of(quern, moe), rows(m, K).astype(np.float16)
    a, h, c = gpu.buffer(x), gpu.buffer(m * T * I * 2), gpu.buffer(m * T * K * 2)
    ids, weights = choices(m)
    lists = experts_of.align(moe.gate_up.op, moe.down.op, ids)
    blocks = {name: gpu.buffer(array) for name, array in dict(lists, routing=weights).items()}
    stream, graph, replay = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert hip.hipStreamCreate(ctypes.byref(stream)) == 0
    assert hip.hipStreamBeginCapture(stream, 0) == 0
    experts_of.launch(moe.gate_up.op, moe.down.op, m, a, h, c, blocks, moe.gate_up.operands,
                      moe.down.operands, stream.value)
    assert hip.hipStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert hip.hipGraphInstantiate(ctypes.byref(replay), graph, None, None, 0) == 0
    for seed, elsewhere in ((2, None), (3, None), (4, 1)):
        ids, weights = choices(m, seed)
        lists = experts_of.align(moe.gate_up.op, moe.down.op, ids)
        if elsewhere is not None:
            assert (lists["experts"] == elsewhere).any()
            lists["experts"][lists["experts"] == elsewhere] = -1
            ids[ids == elsewhere] = -1
        for name, array in dict(lists, routing=weights).items():
            blocks[name].write(array)
        c.write(np.full((m * T, K), np.nan, np.float16))
        assert hip.hipGraphLaunch(replay, stream) == 0
        assert hip.hipStreamSynchronize(stream) == 0
        y = c.read(np.float16, (m, T, K)).astype(np.float64)
        assert close(y.sum(1), reference(exact, x.astype(np.float64), ids, weights))
    assert hip.hipGraphExecDestroy(replay) == 0
