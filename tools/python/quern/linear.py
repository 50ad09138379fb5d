# SPDX-License-Identifier: MIT
"""A linear layer whose quantised weights are on the GPU: y = x · Wᵀ (+ bias)."""

from __future__ import annotations

import math
import threading
from typing import Any, Callable, Mapping

import numpy as np

from . import _native as native
from .arrays import STORAGE, from_type, host_array, is_torch, to_type, type_name
from .context import Context, context_of, opened
from .op import A_TYPES
from .product import Product, check_context
from .weights import quantize

_TORCH_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def torch_type(dtype: Any) -> str:
    """The word for torch's float32, float16 or bfloat16."""
    word = str(dtype).rpartition(".")[2]
    if word not in _TORCH_TYPES:
        raise TypeError(f"the type {dtype}; expected float32, float16 or bfloat16")
    return _TORCH_TYPES[word]


def problem_of_layer(n: int, k: int, wq: str, a: str, bias: bool, words: Mapping[str, Any]) -> str:
    """The problem of a linear layer; `words` are more of it: group=128, …"""
    more = "".join(f" {key}={value}" for key, value in words.items())
    return f"wq={wq} n={n} k={k} a={a} bias={int(bias)}{more}"


def check_words(wq: str, a: str | None, words: Mapping[str, Any]) -> None:
    """Raises what is wrong with words for whatever layer, a misspelt one, before a model's layers
    are met one by one: of size 4096, which every group divides."""
    native.parse(problem_of_layer(4096, 4096, wq, a or "bf16", False, words))


def floats(name: str, value: Any, shape: tuple[Any, ...]) -> np.ndarray:
    """Weights or a bias, in whatever holds them, as float32. A letter in `shape` stands for any
    number of elements."""
    array = host_array(value)
    if array.dtype.kind != "f" and array.dtype.name not in ("uint16", "bfloat16"):
        raise TypeError(f"{name} has elements of {array.dtype}; expected float16, bfloat16, "
                        "float32 or float64")
    same = [isinstance(w, str) or w == size for w, size in zip(shape, array.shape)]
    if array.ndim != len(shape) or not all(same):
        expected = ", ".join(map(str, shape))
        raise ValueError(f"{name} has the shape {array.shape}; expected [{expected}]")
    return to_type(array, "f32")


class Linear(Product):
    """A layer with its weights. Operands on the context's GPU (torch tensors, DLPack, Buffers,
    addresses) are used where they are; numpy arrays are copied there."""

    def __init__(self, context: Context, problem: str, operands: Mapping[str, Any],
                 m_max: int = 8) -> None:
        if native.parse(problem).op == native.MOE:
            raise ValueError(f"{problem!r} is a mixture of experts; expected op=gemm, or use "
                             "quern.MoE")
        super().__init__(context, problem, operands, m_max)
        self.registered = False  # with torch: torch_ops.register
        self._lock = threading.Lock()  # of the buffers of `staged`, for callers in host memory

    @property
    def shape(self) -> tuple[int, int]:
        """[N, K], the shape of the weights; with act the output has N/2 features."""
        return self.op.n, self.op.k

    def __repr__(self) -> str:
        return f"Linear({self.op.problem!r}, target={self.context.target!r}, m_max={self.m_max})"

    @classmethod
    def quantize(cls, context: Context, w: Any, *, wq: str = "nf4", a: str = "bf16",
                 bias: Any = None, m_max: int = 8, **words: Any) -> "Linear":
        """Quantises weights on the CPU: a torch.nn.Linear, of which the bias is used too, or [N, K]
        values in a numpy array, a torch tensor on any device, a sequence. `words` are more of the
        problem: group=128, …"""
        opened(context)  # before weights, which may be in its place
        if hasattr(w, "weight"):
            if bias is not None:
                raise ValueError(f"bias is given beside a {type(w).__name__}, which has its own; "
                                 "expected one or the other")
            w, bias = w.weight, w.bias
        w = floats("w", w, ("N", "K"))
        n, k = w.shape
        text = problem_of_layer(n, k, wq, a, bias is not None, words)
        operands = quantize(text, w)
        if bias is not None:
            operands["bias"] = to_type(floats("bias", bias, (n,)),
                                       A_TYPES[native.parse(text).c or 3])
        return cls(context, text, operands, m_max)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Linear":
        """A layer of the same context with copies of the weights."""
        return Linear(self.context, self.op.problem, self.copies(memo), self.m_max)

    def __reduce__(self) -> Any:
        """What pickle keeps: how the context was opened, and the weights."""
        return Linear, (self.context, self.op.problem, self.kept(), self.m_max)

    @classmethod
    def from_bitsandbytes(cls, layer: Any, context: Context, *, compute_type: str | None = None,
                          m_max: int = 8) -> "Linear":
        """A bitsandbytes Linear4bit, or whatever has its weight, quant_state and bias. Its tensors
        are used in place when they are on the context's GPU; the layer must then stay."""
        opened(context)
        weight = layer.weight
        state = getattr(weight, "quant_state", None)
        if state is None:
            raise ValueError("the layer's weight has no quant_state; bitsandbytes quantises a "
                             "Linear4bit when it is moved to a device")
        n, k = (int(x) for x in state.shape)
        a = compute_type or torch_type(getattr(layer, "compute_dtype", None) or state.dtype)
        bias = getattr(layer, "bias", None)
        nested = bool(getattr(state, "nested", False))
        text = (f"wq={state.quant_type} group={int(state.blocksize)} "
                f"scale={'nested' if nested else 'f32'} n={n} k={k} a={a} "
                f"bias={int(bias is not None)}")
        tensors = {"b": (weight, None), "scales": (state.absmax, "f32")}
        if nested:
            inner = state.state2
            if int(inner.blocksize) != 256:
                raise ValueError(f"nested absmax in blocks of {inner.blocksize}; expected 256")
            tensors.update(absmax8=(state.absmax, None), scales=(inner.absmax, "f32"),
                           code=(inner.code, "f32"), offset=(state.offset, "f32"))
        if bias is not None:
            tensors["bias"] = (bias, a)
        operands = {name: _operand(context, value, dtype)
                    for name, (value, dtype) in tensors.items()}
        return cls(context, text, operands, m_max)

    @classmethod
    def from_fp8(cls, layer: Any, context: Context, *, compute_type: str = "bf16",
                 m_max: int = 8) -> "Linear":
        """A layer of 8-bit floats with a scale for each 128 by 128 weights, as DeepSeek's
        checkpoints have them and transformers' FP8Linear holds them: `weight`, e4m3 [N, K] (or its
        bytes), `weight_scale_inv`, f32, f16 or bf16 [ceil(N/128), ceil(K/128)], which multiplies,
        and `bias`, None or [N]. Activations stay in `compute_type`, f16 or bf16. Tensors are used
        in place when they are on the context's GPU in the type that the kernel reads; the layer
        must then stay."""
        opened(context)
        weight, scales = layer.weight, getattr(layer, "weight_scale_inv", None)
        if scales is None:
            raise ValueError("the layer has no weight_scale_inv; expected fp8 weights with a scale "
                             "for each block")
        block = tuple(getattr(layer, "block_size", None) or (128, 128))
        if block != (128, 128):
            raise ValueError(f"the layer's block_size is {block}; expected (128, 128)")
        wq = {"u8": "fp8", "i8": "fp8"}.get(type_name(weight.dtype), type_name(weight.dtype))
        if wq not in ("fp8", "fp8fnuz") or len(weight.shape) != 2:
            raise TypeError(f"weight has elements of {weight.dtype} and the shape "
                            f"{tuple(weight.shape)}; expected float8_e4m3fn or float8_e4m3fnuz, "
                            "[N, K]")
        if is_torch(weight):
            import torch
            weight = weight.detach().view(torch.uint8)  # which every torch can copy
        bias = getattr(layer, "bias", None)
        n, k = (int(x) for x in weight.shape)
        text = (f"wq={wq} scale=block128 n={n} k={k} a={compute_type} "
                f"bias={int(bias is not None)}")
        operands = {"b": _operand(context, weight, None),
                    "b_scale": _operand(context, scales, "f32")}
        if bias is not None:
            operands["bias"] = _operand(context, bias, compute_type)
        return cls(context, text, operands, m_max)

    def __call__(self, x: Any) -> Any:
        """y, [..., N], for x, [..., K]. A torch tensor on the context's GPU gives one, on torch's
        current stream, without waiting; anything in host memory is copied there and back, in
        whatever float type it has: kernels get the layer's own."""
        if not hasattr(x, "shape"):  # a sequence, or what is told that it is none
            x = np.asarray(x)
        if tuple(x.shape[-1:]) != (self.op.k,):
            raise ValueError(f"x has the shape {tuple(x.shape)}; expected [..., {self.op.k}]")
        if is_torch(x) and x.is_cuda and self.context.gpu is not None:
            from . import torch_ops
            return torch_ops.apply(self, x)
        if is_torch(x):
            from . import torch_ops
            return torch_ops.through_host_memory(self, x)
        return self.in_host_memory(np.asarray(x))

    def in_host_memory(self, x: np.ndarray) -> np.ndarray:
        """What a call with a numpy array does; one call at a time."""
        m = math.prod(x.shape[:-1])
        shape = (*x.shape[:-1], self.op.columns)
        storage = STORAGE[self.c_type]
        if m == 0:
            return np.empty(shape, from_type(np.empty(0, storage), self.c_type).dtype)
        check_context("Linear", self.context)
        a = to_type(x, self.a_type, "x")
        with self._lock:
            a_buffer = self.staged("a", a.nbytes).write(a)
            c_buffer = self.staged("c", m * self.op.columns * storage.itemsize)
            self.op.launch(m=m, a=a_buffer, c=c_buffer, **self.operands)
            y = c_buffer.read(storage, shape)
        return from_type(y, self.c_type)


def _operand(context: Context, value: Any, dtype: str | None) -> Any:
    """A layer's tensor in the type that the kernel reads: on the GPU if it is there, else as an
    array."""
    if is_torch(value) and value.is_cuda and context.gpu is not None:
        value = value.detach()
        if dtype and torch_type(value.dtype) != dtype:
            import torch
            value = value.to(getattr(torch, {v: k for k, v in _TORCH_TYPES.items()}[dtype]))
        return value.contiguous()
    array = host_array(value)
    return to_type(array, dtype) if dtype else np.ascontiguousarray(array)


def replace_linear4bit(model: Any, context: Context, *, compute_type: str | None = None,
                       m_max: int = 8, predicate: Callable[[str, Any], bool] | None = None,
                       progress: Callable[[int, int, str], None] | None = None) -> Any:
    """Lets quern compute bitsandbytes' Linear4bit from now on, for inference: the `forward` of each
    becomes a Linear of its weights, which stay where they are: on another GPU than the context's
    by `context.on` of that. `del layer.forward` undoes it.

    Of a model, all its Linear4bit are replaced for which `predicate(name, module)` is true, all if
    not given; `progress(done, total, name)` is told before each. The result, a `Replaced`, says
    which were, and why others were not. Of one layer the result is its Linear, and what is wrong
    with it is raised."""
    words = {"compute_type": compute_type, "m_max": m_max}
    if not hasattr(model, "weight") and hasattr(model, "named_modules"):
        from .torch_modules import replace_in_model
        return replace_in_model(model, context, predicate, progress, **words)
    if not hasattr(model, "weight"):
        raise TypeError(f"model is a {type(model).__name__}; expected a torch.nn.Module, or one "
                        "Linear4bit")
    linear = Linear.from_bitsandbytes(model, context_of(model.weight, context), **words)
    model.forward = linear.__call__
    return linear
