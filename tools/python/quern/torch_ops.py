# SPDX-License-Identifier: MIT
"""quern::linear and quern::moe, torch operators with fake implementations, so that torch.compile
and export see a layer as one call. Imported only when a torch tensor meets a Linear or a MoE."""

import math
import threading
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from .arrays import host_array, is_torch
from .context import Context
from .linear import Linear, floats
from .moe import MoE, align, check_blocks, launch
from .op import Op, is_expert

_IDS = (torch.int32, torch.int16, torch.int8, torch.uint8)  # and int64: what 32 bits hold
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


def register(layer: Union[Linear, MoE]) -> None:
    """Makes a layer's kernels known to quern::linear and quern::moe."""
    gpu = layer.context.gpu
    if gpu is None:
        raise ValueError("the layer's context is a software GPU, which torch has no memory of")
    index = gpu.index
    with _lock:
        if _contexts.setdefault(index, layer.context) is not layer.context:
            raise ValueError(f"layers of GPU {index} are of two contexts; use one for each GPU")
        for op in (layer.op,) if isinstance(layer, Linear) else (layer.gate_up.op, layer.down.op):
            _ops.setdefault(f"{index} {op.problem}", op)
        layer.registered = True


def _check_input(layer: Union[Linear, MoE], x: Tensor) -> None:
    if x.dtype != _TYPES[layer.a_type]:
        raise TypeError(f"x is {x.dtype}; the layer was made for {_TYPES[layer.a_type]}")
    gpu = layer.context.gpu
    if gpu is not None and x.device.index != gpu.index:
        raise ValueError(f"x is on GPU {x.device.index}; the layer is on GPU {gpu.index}")


def apply(layer: Linear, x: Tensor) -> Tensor:
    """What Linear.__call__ does with a tensor on its GPU."""
    _check_input(layer, x)
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


def check_not_traced(context: Context) -> None:
    """Refuses to compute in host memory for a tracer that keeps results: a call would be a constant
    in what it makes. torch.compile is none of these; it breaks its graph."""
    exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # of torch 2.7 and later
    if torch.jit.is_tracing() or exporting():
        if context.gpu is None:
            raise RuntimeError("a layer of a software GPU cannot be traced or exported; use a GPU "
                               "context")
        raise RuntimeError("x is in host memory, where a layer cannot be traced or exported; "
                           "expected x on the context's GPU")


@torch.compiler.disable
def through_host_memory(layer: Linear, x: Tensor) -> Tensor:
    """What Linear.__call__ does with a tensor in host memory: a tracer breaks its graph here, as
    there is nothing in it for a compiler. The result is where x is, of x's type, and has no
    gradient."""
    check_not_traced(layer.context)
    return torch.from_numpy(layer.in_host_memory(host_array(x))).to(x.device, x.dtype)


# ---- mixtures of experts ------------------------------------------------------------------------


def _blocks(gate_up: Op, down: Op, topk_ids: Tensor, topk_weights: Optional[Tensor],
            like: Tensor) -> Tuple[Dict[str, Any], bool]:
    """What both products read, where `like` is; and whether every choice is known to be of an
    expert, so that all rows are written. Ids that are where `like` is are put into blocks there,
    on torch's current stream, and nothing is waited for; what no launch of op=moe_align takes, on
    the CPU, which gives the same blocks."""
    blocks = _blocks_on_gpu(gate_up, down, topk_ids, like)
    whole = False  # what is on the GPU is not looked at
    if blocks is None:
        ids = host_array(topk_ids).reshape(-1, gate_up.choices)
        blocks = {name: torch.from_numpy(array).to(like.device)
                  for name, array in align(gate_up, down, ids).items()}
        whole = bool(is_expert(ids, gate_up.experts).all())
    if topk_weights is not None:
        blocks["routing"] = topk_weights.to(like.device, torch.float32).contiguous()
    return blocks, whole


def _blocks_on_gpu(gate_up: Op, down: Op, topk_ids: Tensor,
                   like: Tensor) -> Optional[Dict[str, Any]]:
    """The blocks of both products by op=moe_align; None where these ids are the CPU's. Memory is
    torch's, which it reuses only for what follows on the stream."""
    if not topk_ids.is_cuda or topk_ids.device != like.device:
        return None
    if topk_ids.dtype == torch.int64:
        # before it is cut to 32 bits, which could make an expert of an id that is none
        topk_ids = topk_ids.clamp(-1, gate_up.experts)
    elif topk_ids.dtype not in _IDS:
        return None
    m = topk_ids.numel() // gate_up.choices
    stream = torch.cuda.current_stream(like.device).cuda_stream
    block_rows = check_blocks(gate_up, down, m)
    aligner = gate_up._aligner(m, block_rows, stream)
    if aligner is None:
        return None
    slots = gate_up._slots(m, block_rows)
    blocks = {name: torch.empty((length,), dtype=torch.int32, device=like.device)
              for name, length in (("rows", slots), ("experts", slots // block_rows),
                                   ("rows_used", 1))}
    aligner.launch(m=m, stream=stream, topk_ids=topk_ids.to(torch.int32).contiguous(), **blocks)
    return blocks


def _launch_moe(gate_up: Op, down: Op, x: Tensor, topk_ids: Tensor,
                topk_weights: Optional[Tensor], of_gate_up: Dict[str, Any],
                of_down: Dict[str, Any]) -> Tensor:
    """Both products on torch's current stream of x's GPU, and their sums, which are rounded once.
    What they need in between is torch's memory, which it reuses only for what follows there."""
    kind = _TYPES[down.c_type]
    m = math.prod(x.shape[:-1])
    shape = (*x.shape[:-1], down.n)
    if m == 0:
        return torch.empty(shape, dtype=kind, device=x.device)
    with torch.cuda.device(x.device):
        blocks, whole = _blocks(gate_up, down, topk_ids, topk_weights, x)
        choices = m * gate_up.choices
        h = torch.empty((choices, down.k), dtype=_TYPES[gate_up.c_type], device=x.device)
        make = torch.empty if whole else torch.zeros
        c = make((choices, down.n), dtype=kind, device=x.device)
        launch(gate_up, down, m, x.contiguous(), h, c, blocks, of_gate_up, of_down,
               torch.cuda.current_stream(x.device).cuda_stream)
        sums = c.view(m, gate_up.choices, down.n).sum(1, dtype=torch.float32)
        return sums.to(kind).view(shape)


@torch.library.custom_op("quern::moe", mutates_args=())
def moe(x: Tensor, topk_ids: Tensor, topk_weights: Optional[Tensor], operands: List[Tensor],
        names: str, gate_up: str, down: str) -> Tensor:
    """Experts on torch's current stream. `gate_up` and `down` are problems, canonical texts;
    `names` are those of `operands` with commas between, as "gate_up.b". The layer must have been
    given to `register` before."""
    ops = []
    for problem in (gate_up, down):
        op = _ops.get(f"{x.device.index} {problem}")
        if op is None:
            raise RuntimeError(f"no quern.MoE of {problem} was called on GPU {x.device.index}")
        ops.append(op)
    of: Dict[str, Dict[str, Any]] = {"gate_up": {}, "down": {}}
    for name, value in zip(names.split(","), operands):
        product, _, operand = name.partition(".")
        of[product][operand] = value
    return _launch_moe(ops[0], ops[1], x, topk_ids, topk_weights, of["gate_up"], of["down"])


@moe.register_fake
def _(x: Tensor, topk_ids: Tensor, topk_weights: Optional[Tensor], operands: List[Tensor],
      names: str, gate_up: str, down: str) -> Tensor:
    return _result_like(x, down)


def _of_dlpack(value: Any) -> Any:
    """A tensor of what another library has on a GPU, in the same memory, which torch's current
    stream then waits for; anything else as it is."""
    if is_torch(value) or isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return value
    return torch.from_dlpack(value)


def apply_moe(layer: MoE, x: Tensor, topk_ids: Any, topk_weights: Any) -> Tensor:
    """What MoE.forward does with tokens on its GPU."""
    _check_input(layer, x)
    topk_ids, topk_weights = _of_dlpack(topk_ids), _of_dlpack(topk_weights)
    if not is_torch(topk_ids):
        topk_ids = torch.from_numpy(np.ascontiguousarray(topk_ids))
    if topk_weights is not None and not is_torch(topk_weights):
        topk_weights = torch.from_numpy(floats("topk_weights", topk_weights,
                                               tuple(topk_weights.shape)))
    gate_up, down = layer.gate_up, layer.down
    operands = {f"{name}.{operand}": value for name, product in (("gate_up", gate_up),
                                                                 ("down", down))
                for operand, value in product.operands.items()}
    if not all(isinstance(value, Tensor) for value in operands.values()):
        # weights in quern's own memory: no operator can carry them
        return _launch_moe(gate_up.op, down.op, x, topk_ids, topk_weights, gate_up.operands,
                           down.operands)
    if not layer.registered:  # so that a tracer meets nothing but the operator
        register(layer)
    return moe(x, topk_ids, topk_weights, list(operands.values()), ",".join(operands),
               gate_up.op.problem, down.op.problem)


@torch.compiler.disable
def moe_through_host_memory(layer: MoE, x: Tensor, topk_ids: Any, topk_weights: Any) -> Tensor:
    """What MoE.forward does with tokens in host memory, as through_host_memory does it."""
    check_not_traced(layer.context)
    y = layer.in_host_memory(host_array(x), topk_ids, topk_weights)
    return torch.from_numpy(y).to(x.device, x.dtype)
