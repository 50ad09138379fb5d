# SPDX-License-Identifier: MIT
"""The experts of a mixture-of-experts layer, whose quantised weights are on the GPU."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any, Iterator, Mapping

import numpy as np

from . import _native as native
from .arrays import STORAGE, from_type, host_array, is_torch, to_type
from .context import Context, opened
from .linear import floats
from .op import A_TYPES, Op, is_expert
from .product import Product, check_context
from .weights import stacked


class MoE:
    """The experts of a layer: two products with all of their weights. `gate_up`, of op=moe with
    act and top_k=T, takes tokens and gives I columns for each of a token's T choices; `down`, of
    op=moe with top_k=1, takes those back, times the choices' weights. Called with tokens, the
    experts that a router chose for them, and the weights that it gave these, it returns the sums
    over each token's choices."""

    def __init__(self, context: Context, gate_up: str, gate_up_operands: Mapping[str, Any],
                 down: str, down_operands: Mapping[str, Any], m_max: int = 1024) -> None:
        """Of weights that are quantised: problems, and for each its operands by the names of
        docs/formats.md. Operands on the context's GPU (torch tensors, DLPack, Buffers, addresses)
        are used where they are; numpy arrays are copied there. `m_max` (tokens): kernels are made
        for up to so many, and serve more as far as blocks have the same size; a call with more
        than that raises."""
        _check_fit(native.parse(gate_up), native.parse(down))
        self.context, self.m_max = context, m_max
        self.gate_up = Product(context, gate_up, gate_up_operands, m_max)
        self.top_k = self.gate_up.op.choices
        self.down = Product(context, down, down_operands, m_max * self.top_k)
        self.experts = self.gate_up.op.experts
        self.hidden, self.intermediate = self.gate_up.op.k, self.down.op.k
        self.a_type, self.c_type = self.gate_up.a_type, self.down.c_type
        self.registered = False  # with torch: torch_ops.register
        self._lock = threading.Lock()  # of the buffers of `staged`, for callers in host memory
        for m in (1, m_max):  # at each call, too, but the layer is better refused when it is made
            check_blocks(self.gate_up.op, self.down.op, m)
        if context.gpu is not None and "torch" in sys.modules:  # whose ids may be on the GPU
            self._make_aligners()

    def _make_aligners(self) -> None:
        """Makes the kernels that put choices on the GPU into blocks, so that a first call may be
        captured. A size of blocks is for a range of tokens that has a power of two in it, or ends
        at m_max; one that were missed would be made by the call that needs it."""
        m = 1
        while m < self.m_max:
            self.gate_up.op.aligner(m, required=False)
            m *= 2
        self.gate_up.op.aligner(self.m_max, required=False)

    def __repr__(self) -> str:
        return (f"MoE({self.gate_up.op.problem!r}, {self.down.op.problem!r}, "
                f"target={self.context.target!r}, m_max={self.m_max})")

    @classmethod
    def quantize(cls, context: Context, gate_up: Any, down: Any, *, top_k: int, wq: str = "nf4",
                 a: str = "bf16", c: str | None = None, act: str = "silu_mul",
                 glu: str = "halves", gate_up_bias: Any = None, down_bias: Any = None,
                 m_max: int = 1024, **words: Any) -> "MoE":
        """Quantises stacked weights on the CPU, expert by expert: gate_up [E, 2·I, K] and down
        [E, K, I] in numpy arrays, torch tensors on any device, or lists of E matrices, with biases
        [E, 2·I] and [E, K] or without. `glu` says where gates and ups are in gate_up's rows:
        "halves", gates first, or "interleaved", as gpt-oss has them. `a` is the type of tokens,
        and of results unless `c` is given; `words` are more of both problems: group=128, … `top_k`
        may be more than E, where a router chooses among experts of other devices, too."""
        opened(context)  # before weights, which may be in its place
        e, n, k = _shape("gate_up", gate_up, ("E", "2·I", "K"))
        _shape("down", down, (e, k, n // 2))
        more = "".join(f" {key}={value}" for key, value in words.items())
        first = (f"op=moe experts={e} top_k={top_k} wq={wq} n={n} k={k} a={a} "
                 f"bias={int(gate_up_bias is not None)} act={act} glu={glu}{more}")
        second = (f"op=moe experts={e} top_k=1 wq={wq} n={k} k={n // 2} a={a} c={c or a} "
                  f"bias={int(down_bias is not None)}{more}")
        operands = []
        for name, text, w, bias in (("gate_up", first, gate_up, gate_up_bias),
                                    ("down", second, down, down_bias)):
            made = stacked(text, _matrices(name, w))
            if bias is not None:
                rows = native.parse(text).n
                made["bias"] = to_type(floats(f"{name}_bias", bias, (e, rows)),
                                       a if name == "gate_up" else c or a)
            operands.append(made)
        return cls(context, first, operands[0], second, operands[1], m_max)

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of its weights in host memory, as "gate_up.b", "down.scales" and so on, in the
        types that `quern.quantize` gives."""
        return {f"{name}.{operand}": array
                for name, product in (("gate_up", self.gate_up), ("down", self.down))
                for operand, array in product.arrays().items()}

    def __deepcopy__(self, memo: dict[int, Any]) -> "MoE":
        """A layer of the same context with copies of the weights."""
        return MoE(self.context, self.gate_up.op.problem, self.gate_up.copies(memo),
                   self.down.op.problem, self.down.copies(memo), self.m_max)

    def __reduce__(self) -> Any:
        """What pickle keeps: how the context was opened, and the weights."""
        return MoE, (self.context, self.gate_up.op.problem, self.gate_up.kept(),
                     self.down.op.problem, self.down.kept(), self.m_max)

    def forward(self, x: Any, topk_ids: Any, topk_weights: Any) -> Any:
        """y, [tokens, K], of x, [tokens, K], topk_ids, integers [tokens, top_k], and topk_weights,
        floats of that shape; None weighs all choices with 1. Ids that are no expert's, such as -1
        for one that another device has, add nothing. A torch tensor x on the context's GPU gives
        one, on torch's current stream; anything in host memory is copied there and back, in
        whatever float type it has.

        With x, ids and weights on the GPU, the ids of int32, int64 or a narrower type, nothing is
        waited for where the target has op=moe_align: a call may be captured, and the graph serves
        every choice of so many tokens. The call waits for the ids, and cannot be captured, where
        they are in host memory or of another type, on other targets, and for more choices than a
        launch of op=moe_align takes (65,536); blocks are then made on the CPU, the same ones."""
        x, topk_ids = (v if hasattr(v, "shape") else np.asarray(v) for v in (x, topk_ids))
        if topk_weights is not None and not hasattr(topk_weights, "shape"):
            topk_weights = np.asarray(topk_weights)
        if len(x.shape) < 1 or x.shape[-1] != self.hidden:
            raise ValueError(f"x has the shape {tuple(x.shape)}; expected [tokens, {self.hidden}]")
        expected = (*x.shape[:-1], self.top_k)
        for name, given in (("topk_ids", topk_ids), ("topk_weights", topk_weights)):
            if given is not None and tuple(given.shape) != expected:
                raise ValueError(f"{name} has the shape {tuple(given.shape)}; expected {expected}, "
                                 f"as x has the shape {tuple(x.shape)}")
        if is_torch(x):
            from . import torch_ops
            here = x.is_cuda and self.context.gpu is not None
            return (torch_ops.apply_moe if here else torch_ops.moe_through_host_memory)(
                self, x, topk_ids, topk_weights)
        return self.in_host_memory(np.asarray(x), topk_ids, topk_weights)

    __call__ = forward

    def in_host_memory(self, x: np.ndarray, topk_ids: Any, topk_weights: Any) -> np.ndarray:
        """What a call with a numpy array does; one call at a time."""
        m, columns = math.prod(x.shape[:-1]), self.down.op.n
        shape, storage = (*x.shape[:-1], columns), STORAGE[self.c_type]
        if m == 0:
            return np.empty(shape, from_type(np.empty(0, storage), self.c_type).dtype)
        check_context("MoE", self.context)
        a, choices = to_type(x, self.a_type, "x"), m * self.top_k
        ids = host_array(topk_ids).reshape(m, self.top_k)
        given: dict[str, np.ndarray] = align(self.gate_up.op, self.down.op, ids)
        if topk_weights is not None:
            given["routing"] = floats("topk_weights", topk_weights, tuple(topk_weights.shape))
        with self._lock:
            stage = self.gate_up.staged
            h = stage("h", choices * self.intermediate * a.itemsize)
            c = stage("c", choices * columns * storage.itemsize)
            launch(self.gate_up.op, self.down.op, m, stage("a", a.nbytes).write(a), h, c,
                   {name: stage(name, array.nbytes).write(array) for name, array in given.items()},
                   self.gate_up.operands, self.down.operands)
            products = c.read(storage, (m, self.top_k, columns))
        products = from_type(products, self.c_type).astype(np.float32)
        # what no block names was not written
        sums = np.where(is_expert(ids, self.experts)[:, :, None], products, 0).sum(1)
        return from_type(to_type(sums, self.c_type), self.c_type).reshape(shape)


# ---- the two launches ---------------------------------------------------------------------------


def check_blocks(gate_up: Op, down: Op, m: int) -> int:
    """The block_rows of both ops for m tokens. Refuses ops that would not read one list of blocks
    alike."""
    of_gate_up, of_down = gate_up.block_rows(m), down.block_rows(m * gate_up.choices)
    if of_gate_up != of_down:
        raise ValueError(f"for {m} tokens, blocks of gate_up have {of_gate_up} rows, those of down "
                         f"{of_down}; expected the same: say block_rows={max(of_gate_up, of_down)} "
                         "in both problems")
    return of_gate_up


def align(gate_up: Op, down: Op, topk_ids: np.ndarray) -> dict[str, np.ndarray]:
    """The blocks of both products, for topk_ids [tokens, top_k]."""
    block_rows = check_blocks(gate_up, down, len(topk_ids))
    return dict(zip(("rows", "experts", "rows_used"), gate_up._align(topk_ids, block_rows)))


def launch(gate_up: Op, down: Op, m: int, x: Any, h: Any, c: Any, blocks: Mapping[str, Any],
           gate_up_operands: Mapping[str, Any], down_operands: Mapping[str, Any],
           stream: int = 0) -> None:
    """Puts both products of m tokens x on a stream: h [m·top_k, I] is of gate_up, c [m·top_k, K] of
    down. `blocks`: rows, experts and rows_used, which both read alike, and routing, if the products
    are weighted. Waits for nothing."""
    of_gate_up = {name: value for name, value in blocks.items() if name != "routing"}
    gate_up.launch(m=m, stream=stream, a=x, c=h, **of_gate_up, **gate_up_operands)
    down.launch(m=m * gate_up.choices, stream=stream, a=h, c=c, **blocks, **down_operands)


# ---- what is refused ----------------------------------------------------------------------------


def _check_fit(gate_up: native.Problem, down: native.Problem) -> None:
    """Refuses two problems that are not the two products of one layer."""
    for name, problem in (("gate_up", gate_up), ("down", down)):
        if problem.op != native.MOE:
            raise ValueError(f"{name} is {native.text_of(problem)!r}; expected op=moe")
    if not gate_up.act:
        raise ValueError("gate_up has no act; expected act=silu_mul or act=swiglu_oai")
    if gate_up.a not in A_TYPES:
        raise ValueError(f"gate_up is {native.text_of(gate_up)!r}; expected a=f32, f16 or bf16")
    for what, given, expected in (
            ("down's top_k", down.top_k, 1), ("down's act", bool(down.act), False),
            ("down's experts", down.experts, gate_up.experts),
            ("down's k, the columns that gate_up gives,", down.k,
             native.columns_of(gate_up)),
            ("down's n, gate_up's k,", down.n, gate_up.k),
            ("down's a, gate_up's c,", A_TYPES.get(down.a), A_TYPES.get(gate_up.c))):
        if given != expected:
            raise ValueError(f"{what} is {given}; expected {expected}")


def _shape(name: str, stack: Any, shape: tuple[Any, ...]) -> tuple[int, int, int]:
    """The shape of stacked weights, or of a list of matrices. Where `shape` has a word, any size
    will do."""
    given: tuple[int, ...] = (tuple(stack.shape) if hasattr(stack, "shape")
                              else (len(stack), *np.shape(stack[0])) if len(stack) else (0,))
    if (len(given) != 3 or 0 in given or
            any(not isinstance(w, str) and w != size for w, size in zip(shape, given))):
        raise ValueError(f"{name} has the shape {given}; expected [{', '.join(map(str, shape))}]")
    return given


def _matrices(name: str, stack: Any) -> Iterator[np.ndarray]:
    """Each expert's weights as float32, made as they are asked for."""
    n, k = stack[0].shape if hasattr(stack[0], "shape") else np.shape(stack[0])
    for e in range(len(stack)):
        yield floats(f"{name}[{e}]", stack[e], (n, k))
