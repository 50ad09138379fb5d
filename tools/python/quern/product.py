# SPDX-License-Identifier: MIT
"""The kernels of a problem and the weights that they multiply by, where kernels read them: what a
Linear is, and what a MoE has two of."""

from __future__ import annotations

import copy
from typing import Any, Mapping

import numpy as np

from . import _native as native
from .arrays import check_operand, host_array, is_torch, memory_of
from .buffer import Buffer
from .context import Context, opened
from .op import A_TYPES, Op
from .weights import shaped


def check_context(what: str, context: Context) -> None:
    """Refuses a call of a layer whose context is closed, by the name that its user has for it."""
    if not context._finalizer.alive:
        raise ValueError(f"this {what}'s context is closed")


class Product:
    """An op, for up to m_max rows of A, and its weights. Operands on the context's GPU (torch
    tensors, DLPack, Buffers, addresses) are used where they are; numpy arrays are copied there."""

    def __init__(self, context: Context, problem: str, operands: Mapping[str, Any],
                 m_max: int) -> None:
        self.context, self.m_max = opened(context), m_max
        self.op: Op = context.op(problem, m_max)
        self._problem = native.parse(self.op.problem)
        self.a_type, self.c_type = A_TYPES[self._problem.a], A_TYPES[self._problem.c]
        needed = {n: o for n, o in self.op.operands.items() if n not in native.OF_A_LAUNCH}
        if set(operands) != set(needed):
            raise ValueError(f"operands are {', '.join(sorted(operands)) or 'none'}; "
                             f"{self.op.problem} has {', '.join(sorted(needed))}")
        self.operands: dict[str, Any] = {}
        for name, value in operands.items():
            if isinstance(value, np.ndarray):
                value = context.buffer(value, name)
            memory = memory_of(name, value, context.gpu)
            if memory.nbytes is not None and memory.nbytes != needed[name].bytes:
                raise ValueError(f"{name} has {memory.nbytes} bytes; expected "
                                 f"{needed[name].bytes} for {self.op.problem}")
            check_operand(name, memory.dtype, memory.shape, needed[name])
            self.operands[name] = value
        self._staging: dict[str, Buffer] = {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of its weights in host memory, by the names of docs/formats.md, in the types that
        `quern.quantize` gives."""
        return {name: self._array(name) for name in self.operands}

    def _array(self, name: str) -> np.ndarray:
        value, needed = self.operands[name], self.op.operands[name]
        if isinstance(value, Buffer):
            raw = value.read(np.uint8, (needed.bytes,))
        elif is_torch(value):
            raw = host_array(value)
        else:
            raise TypeError(f"{name} is a {type(value).__name__}, whose memory is not the layer's; "
                            "expected a quern.Buffer or a torch tensor to copy")
        return shaped(needed, raw.tobytes())

    def copies(self, memo: dict[int, Any]) -> dict[str, Any]:
        """Its weights once more, for copy.deepcopy: torch tensors as such, others as arrays."""
        return {name: copy.deepcopy(value, memo) if is_torch(value) else self._array(name)
                for name, value in self.operands.items()}

    def kept(self) -> dict[str, Any]:
        """Its weights for pickle: torch tensors as they are, others as arrays."""
        return {name: value if is_torch(value) else self._array(name)
                for name, value in self.operands.items()}

    def staged(self, name: str, nbytes: int) -> Buffer:
        """Memory of the device for one operand of calls that come from host memory: the same for
        all calls, as large as the largest of them. Its contents are whatever was there."""
        buffer = self._staging.get(name)
        if buffer is None or buffer.nbytes < nbytes:
            if buffer is not None:
                buffer.close()
            buffer = self._staging[name] = self.context.buffer(nbytes, name)
        return buffer
