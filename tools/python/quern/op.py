# SPDX-License-Identifier: MIT
"""The kernels of a layer, launched on device addresses."""

from __future__ import annotations

import ctypes
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native as native
from .arrays import Memory, check_operand, check_rows, memory_of
from .buffer import Buffer, Handle

if TYPE_CHECKING:
    from .context import Context

A_TYPES = {1: "f32", 2: "f16", 3: "bf16"}  # enum quern_dtype
_M_MOST = 2**31 - 1  # rows that a kernel counts
_WEIGHTS_CONSTANT = 2  # enum quern_weights
_POINTERS = tuple(field[0] for field in native.Args._fields_ if field[1] is ctypes.c_void_p)


class Op(Handle):
    """The kernels of one layer. Made by Context.op; valid as long as its context."""

    def __init__(self, context: "Context", problem: native.Problem,
                 handle: ctypes.c_void_p) -> None:
        self.context = context
        self.problem = native.text_of(problem)
        self.n: int = problem.n
        self.columns: int = native.columns_of(problem)  # of C
        self.k: int = problem.k
        self.choices: int = problem.top_k if problem.op == native.MOE else 1  # rows of C, of A's
        self.experts: int = problem.experts  # of op=moe
        self.c_type = A_TYPES.get(problem.c, "")  # what op=moe_align has none of
        self.operands = native.operands_of(problem, 1)
        self._problem = problem
        self._aligners: dict[int, Op | None] = {}  # by block_rows: `aligner`
        self._freed = handle
        self._finalizer = weakref.finalize(self, native.library.quern_op_release, handle)
        context._own(self._finalizer)

    def _operands_at(self, m: int) -> dict[str, native.Operand]:
        """The operands of a launch of m rows, for op=moe with the blocks that it has."""
        blocks = self.block_rows(m) if self._problem.op == native.MOE else 1
        return native.operands_of(self._problem, m, blocks)

    def nbytes(self, name: str, m: int) -> int:
        """Bytes of an operand at m packed rows."""
        return self._operands_at(m)[name].bytes

    def block_rows(self, m: int) -> int:
        """Rows of the blocks of op=moe in a launch of m rows of A, a power of two; 0 of another
        op. Ops with as many experts and choices, m·top_k, and the same types, have the same."""
        rows = ctypes.c_int()
        native.call("quern_op_block_rows", self._handle, native.integer("m", m),
                    ctypes.byref(rows))
        return rows.value

    def slots(self, m: int) -> int:
        """How long `rows` of op=moe is at most in a launch of m rows of A."""
        return self._slots(m, self.block_rows(m))

    def _slots(self, m: int, block_rows: int) -> int:
        return native.slots_of(native.with_blocks(self._problem, block_rows), m)

    def align(self, topk_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Puts choices into blocks, on the CPU: what op=moe takes as rows [slots], experts
        [slots / block_rows] and rows_used [1], all int32, for topk_ids, integers [m, top_k]. Ids
        that are no expert's are in no block."""
        return self._align(topk_ids)

    def _align(self, topk_ids: np.ndarray, block_rows: int = 0
               ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What `align` does, for a caller who knows the block_rows of so many rows; 0: it is
        asked for."""
        topk_ids = np.asarray(topk_ids)
        self._check_has_experts()
        if topk_ids.dtype.kind not in "iu":
            raise TypeError(f"topk_ids has elements of {topk_ids.dtype}; expected integers")
        if topk_ids.ndim != 2 or topk_ids.shape[1] != self._problem.top_k:
            raise ValueError(f"topk_ids has the shape {topk_ids.shape}; expected "
                             f"[m, {self._problem.top_k}]")
        # before they are cut to 32 bits, which could make an expert of an id that is none
        here = is_expert(topk_ids, self.experts)
        ids = np.ascontiguousarray(np.where(here, topk_ids, -1), np.int32)
        m = len(ids)
        problem = native.with_blocks(self._problem, block_rows or self.block_rows(m))
        slots = native.slots_of(problem, m)
        rows = np.empty(slots, np.int32)
        experts, used = np.empty(slots // problem.block_rows, np.int32), np.empty(1, np.int32)
        native.call("quern_moe_align", ctypes.byref(problem), m,
                    *(array.ctypes.data for array in (ids, rows, experts, used)))
        return rows, experts, used

    def aligner(self, m: int, stream: int = 0, *, required: bool = True) -> "Op | None":
        """The op of op=moe_align that does on the device what `align` does on the CPU, the same
        integers: launched with m and topk_ids, int32 [m, top_k], it writes rows, experts and
        rows_used, and waits for nothing. None if the device's target has no such op, or if m rows
        have more choices than a launch of it takes. The first call for a block_rows makes the op,
        and waits for its compile; if `stream`, on which it is to be launched, is being captured
        then, that raises (QUERN_E_WOULD_COMPILE), and the capture goes on. With `required` false,
        an op that cannot be made, as without a compiler, is a warning, and None from then on."""
        self._check_has_experts()
        return self._aligner(m, self.block_rows(m), stream, required)

    def _aligner(self, m: int, block_rows: int, stream: int, required: bool = True) -> "Op | None":
        """What `aligner` does, for a caller who knows the block_rows of m."""
        problem = native.Problem(op=native.MOE_ALIGN, experts=self.experts, top_k=self.choices,
                                 block_rows=block_rows)
        if not native.takes_rows(problem, m):
            return None
        if block_rows not in self._aligners:
            self._aligners[block_rows] = self._make_aligner(native.text_of(problem), stream,
                                                            required)
        return self._aligners[block_rows]

    def _make_aligner(self, text: str, stream: int, required: bool) -> "Op | None":
        # one kernel is for every number of rows, so that m_max does not matter
        try:
            if not stream:  # the default stream, which cannot be captured
                return self.context.op(text, 1)
            return self.context.op_on(text, 1, stream)
        except native.Error as e:
            if e.name != "QUERN_E_DECLINED":
                if required:
                    raise
                warnings.warn(f"choices are put into blocks on the CPU, as {text} cannot be made: "
                              f"{e}", RuntimeWarning)
            return None

    def _check_has_experts(self) -> None:
        if self._problem.op != native.MOE:
            raise ValueError(f"{self.problem} has no experts; expected op=moe")

    def launch(self, *, m: int, stream: int = 0, lda: int = 0, ldc: int = 0, slots: int = 0,
               weights_constant: bool = False, **operands: Any) -> None:
        """Computes m rows on `stream`, a hipStream_t or CUstream as a number, and does not wait.
        Operands are addresses, Buffers, torch tensors or whatever has __dlpack__, by the names of
        docs/formats.md; lda and ldc are elements from row to row, 0 when packed; `slots` is how
        long `rows` of op=moe is, 0 for as long as it can be. `weights_constant`: nothing that is
        still at work writes weights, scales or a bias, so the launch may begin before what stands
        in front of it on the stream has ended (quern.h, QUERN_WEIGHTS_CONSTANT). The caller keeps
        their memory until the stream is done."""
        for word, number in (("m", m), ("stream", stream), ("lda", lda), ("ldc", ldc),
                             ("slots", slots)):
            if not isinstance(number, (int, np.integer)) or number < 0:
                raise TypeError(f"{word} is {number!r}; expected a number that is not negative"
                                + (", as a torch stream's cuda_stream" if word == "stream" else ""))
        held: dict[str, Memory] = {}
        for name, value in operands.items():
            if name not in _POINTERS:
                raise TypeError(f"{name!r} is no operand; {self.problem} has "
                                f"{', '.join((*self.operands, 'workspace'))}")
            held[name] = memory_of(name, value, self.context.gpu, stream)
        needed = self._operands_at(max(m, 1))
        self._check_sizes(held, needed, m, lda, ldc, slots)
        self._check_kinds(held, needed, lda, ldc)
        args = native.Args(lda=lda, ldc=ldc, slots=slots,
                           flags=_WEIGHTS_CONSTANT if weights_constant else 0,
                           **{n: memory.address for n, memory in held.items()})
        native.call("quern_op_launch", self._handle, ctypes.byref(args), m, stream)

    def _check_sizes(self, held: dict[str, Memory], needed: dict[str, native.Operand], m: int,
                     lda: int, ldc: int, slots: int) -> None:
        """Refuses operands that are too small: the GPU would read beyond their end."""
        for name, memory in held.items():
            if name == "workspace" and memory.nbytes is not None and memory.nbytes < (
                    least := self.workspace(m)):
                raise ValueError(f"workspace has {memory.nbytes} bytes; {least} are needed for "
                                 f"m={m}")
            if memory.nbytes is None or name not in needed:
                continue
            least = needed[name].bytes
            for operand, stride, width in (("a", lda, self.k), ("c", ldc, self.columns)):
                if name == operand and stride:
                    rows = m * self.choices if name == "c" else m
                    least = (least // rows // width) * ((rows - 1) * stride + width)
            if slots and name in ("rows", "experts"):
                least = least * slots // needed["rows"].shape[0]
            if memory.nbytes < least:
                raise ValueError(f"{name} has {memory.nbytes} bytes; {least} are needed for "
                                 f"m={m} of {self.problem}")

    def _check_kinds(self, held: dict[str, Memory], needed: dict[str, native.Operand], lda: int,
                     ldc: int) -> None:
        """One of other elements, or another shape, would be read as what it is not."""
        for name, memory in held.items():
            if name not in needed:
                continue
            rows = {"a": (lda, self.k), "c": (ldc, self.columns)}.get(name)
            if rows is None:
                lists = name in native.OF_A_LAUNCH  # of op=moe, as long as m has them
                check_operand(name, memory.dtype, None if lists else memory.shape,
                              needed[name])
                continue
            written = name == "c" and isinstance(memory.owner, Buffer)  # over what was in it
            check_operand(name, None if written else memory.dtype, None, needed[name])
            if not rows[0] and not isinstance(memory.owner, Buffer):
                check_rows(name, memory.shape, rows[1])

    def ready(self) -> bool:
        """Whether every kernel is loaded, of an op made with wait=False; raises if one cannot."""
        status = native.library.quern_op_ready(self._handle)
        if status == 45:  # QUERN_E_NOT_READY
            return False
        native.check(status)
        return True

    def workspace(self, m: int) -> int:
        """Bytes of workspace that a launch of m rows can use."""
        return native.library.quern_op_workspace(self._handle, native.integer("m", m))

    def explain(self, m: int) -> str:
        """Which kernel serves m rows, why, and what the model says it costs."""
        if not 1 <= native.integer("m", m) <= _M_MOST:
            raise ValueError(f"m is {m}; expected 1 to {_M_MOST}")
        m = int(m)
        size = native.library.quern_op_explain(self._handle, m, None, 0) + 1
        text = ctypes.create_string_buffer(size)
        native.library.quern_op_explain(self._handle, m, text, size)
        return text.value.decode()

    def close(self) -> None:
        self._finalizer()


def is_expert(topk_ids: np.ndarray, experts: int) -> np.ndarray:
    """Which choices are of an expert that is here."""
    return (topk_ids >= 0) & (topk_ids < experts)
