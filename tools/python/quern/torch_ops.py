# SPDX-License-Identifier: MIT
"""quern::linear, a torch operator with a fake implementation, so that torch.compile and export
see a layer as one call. Imported only when a torch tensor meets a Linear."""

import math
import threading
from typing import Any, Dict, List

import torch
from torch import Tensor

from .context import Context, Op
from .linear import Linear, host_array

_TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
_lock = threading.Lock()
_contexts: Dict[int, Context] = {}  # by GPU
_ops: Dict[str, Op] = {}  # by "GPU problem"


def _words(problem: str) -> Dict[str, str]:
    return dict(word.split("=", 1) for word in problem.split())


def _result_like(x: Tensor, problem: str) -> Tensor:
    words = _words(problem)
    columns = int(words["n"]) // (2 if "act" in words else 1)
    return torch.empty((*x.shape[:-1], columns), dtype=_TYPES[words["c"]], device=x.device)


def _launch(op: Op, x: Tensor, y: Tensor, m: int, operands: Dict[str, Any]) -> None:
    """Launches on torch's current stream of x's GPU. The workspace, if one is used, is torch's
    memory, and may be freed at once: torch reuses it only for what follows on the stream."""
    with torch.cuda.device(x.device):
        nbytes = op.workspace(m)
        space = torch.empty(nbytes, dtype=torch.uint8, device=x.device) if nbytes else None
        op.launch(m=m, stream=torch.cuda.current_stream(x.device).cuda_stream, a=x, c=y,
                  workspace=space, **operands)


@torch.library.custom_op("quern::linear", mutates_args=())
def linear(x: Tensor, operands: List[Tensor], names: str, problem: str) -> Tensor:
    """x · Wᵀ on torch's current stream. `problem` is canonical text; `names` are those of
    `operands`, with commas between. The layer must have been given to `register` before."""
    op = _ops.get(f"{x.device.index} {problem}")
    if op is None:
        raise RuntimeError(f"no quern.Linear of {problem} was called on GPU {x.device.index}")
    x = x.contiguous()
    y = _result_like(x, problem)
    m = math.prod(x.shape[:-1])
    if m:
        _launch(op, x, y, m, dict(zip(names.split(","), operands)))
    return y


@linear.register_fake
def _(x: Tensor, operands: List[Tensor], names: str, problem: str) -> Tensor:
    return _result_like(x, problem)


def register(layer: Linear) -> None:
    """Makes a layer's kernels known to quern::linear."""
    gpu = layer.context.gpu
    if gpu is None:
        raise ValueError("the layer's context is a software GPU, which torch has no memory of")
    index = gpu.index
    with _lock:
        if _contexts.setdefault(index, layer.context) is not layer.context:
            raise ValueError(f"layers of GPU {index} are of two contexts; use one for each GPU")
        _ops.setdefault(f"{index} {layer.op.problem}", layer.op)
        layer.registered = True


def apply(layer: Linear, x: Tensor) -> Tensor:
    """What Linear.__call__ does with a tensor on its GPU."""
    if x.dtype != _TYPES[layer.a_type]:
        raise TypeError(f"x is {x.dtype}; the layer was made for {_TYPES[layer.a_type]}")
    if not all(isinstance(value, Tensor) for value in layer.operands.values()):
        # weights in quern's own memory: no operator can carry them
        y = _result_like(x, layer.op.problem)
        m = math.prod(x.shape[:-1])
        if m:
            _launch(layer.op, x.contiguous(), y, m, layer.operands)
        return y
    if not layer.registered:  # so that a tracer meets nothing but the operator
        register(layer)
    return linear(x, list(layer.operands.values()), ",".join(layer.operands), layer.op.problem)


@torch.compiler.disable
def through_host_memory(layer: Linear, x: Tensor) -> Tensor:
    """What Linear.__call__ does with a tensor in host memory: a tracer breaks its graph here, as
    there is nothing in it for a compiler. The result is where x is, of x's type, and has no
    gradient."""
    return torch.from_numpy(layer.in_host_memory(host_array(x))).to(x.device, x.dtype)
