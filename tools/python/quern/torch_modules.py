# SPDX-License-Identifier: MIT
"""Layers of torch models on quern: a module that holds quantised weights, and the two walks that
put quern in the place of a model's layers. For inference: results have no gradients. Imported only
when a model is handed in."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Callable, TypeVar

import numpy as np
import torch

from . import _native as native
from .arrays import host_array
from .context import Context, context_of, opened
from .linear import Linear, check_words, torch_type
from .moe import MoE
from .product import Product
from .torch_ops import check_not_traced

Predicate = Callable[[str, torch.nn.Module], bool]
# Of a layer that is not to be replaced why; None of one that is.
WhyLeft = Callable[[str, torch.nn.Module], "str | None"]
Progress = Callable[[int, int, str], None]

_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8,
           "i32": torch.int32, "u32": torch.int32}


def _tensor(operand: native.Operand, array: np.ndarray) -> torch.Tensor:
    """An operand's bytes as torch holds it: u32 as int32, fp8 as uint8, both bits to torch."""
    flat = torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    dtype = _DTYPES.get(operand.dtype.decode(), torch.uint8)
    return flat.view(dtype).view(tuple(operand.shape[:operand.rank]))


class QuantizedWeights(torch.nn.Module):
    """The weights of a problem as buffers under the names of docs/formats.md, in state_dict;
    `problem_text` beside them says what they are. Moving the module moves them; its types are the
    problem's, so that half() and the like change nothing."""

    problem_text: torch.Tensor

    def __init__(self, problem: str) -> None:
        """Weights that are yet to be loaded with load_state_dict."""
        super().__init__()
        parsed = native.parse(problem)
        self.problem = native.text_of(parsed)
        self.version = 0  # grows whenever they may have become others
        self._unloaded: dict[str, torch.Tensor] = {}  # buffers with zeros that nothing replaced
        for name, operand in native.operands_of(parsed, 1).items():
            if name not in native.OF_A_LAUNCH:
                zeros = _tensor(operand, np.zeros(operand.bytes, np.uint8))
                self.register_buffer(name, zeros)
                self._unloaded[name] = zeros
        text = np.zeros(native.TEXT_MAX, np.uint8)
        text[:len(self.problem)] = np.frombuffer(self.problem.encode(), np.uint8)
        self.register_buffer("problem_text", torch.from_numpy(text))

    def take(self, product: Product) -> None:
        """Has copies of the weights of a product of this problem from now on."""
        for name, array in product.arrays().items():
            self._buffers[name] = _tensor(product.op.operands[name], array)
        self._unloaded = {}
        self.version += 1

    def _check_loaded(self) -> None:
        """Refuses weights that are the zeros of __init__: the result would be zeros without a word.
        Buffers that were assigned, or written to in place, are loaded ones."""
        self._unloaded = {
            name: zeros for name, zeros in self._unloaded.items()
            if self._buffers[name] is zeros and (zeros.is_meta or not bool(zeros.any()))}
        if self._unloaded:
            raise ValueError(f"its weights were not loaded: {', '.join(self._unloaded)} of "
                             f"{self.problem}; expected them in load_state_dict, or a module made "
                             f"of a layer that has weights")

    def operands(self, context: Context) -> dict[str, Any]:
        """The buffers as they are now: tensors on the context's GPU, others as arrays."""
        self._check_loaded()
        text = bytes(self.problem_text.cpu().numpy()).rstrip(b"\0").decode()
        if text != self.problem:
            raise ValueError(f"the weights that were loaded are of {text!r}; expected "
                             f"{self.problem!r}")
        return {name: value if context.gpu is not None and value.is_cuda else host_array(value)
                for name, value in self.named_buffers() if name != "problem_text"}

    def extra_repr(self) -> str:
        return self.problem

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        types = {name: value.dtype for name, value in self._buffers.items() if value is not None}
        was = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, dtype in types.items():
            value, old = self._buffers[name], was[name]
            if value is not None and old is not None and value.dtype != dtype:
                self._buffers[name] = old.to(value.device)
        for name, zeros in self._unloaded.items():
            if was[name] is zeros:  # moved, and zeros as before
                self._unloaded[name] = self._buffers[name]
        self.version += 1
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name in [name for name in self._unloaded if prefix + name in state_dict]:
            del self._unloaded[name]
        self.version += 1  # who made something of them may have copies of what was there before


class QuantizedLinear(QuantizedWeights):
    """A torch.nn.Linear with quantised weights that quern computes with, on the GPU that they are
    moved to. Copies and pickles keep the weights and how the context was opened."""

    def __init__(self, context: Context, problem: str, m_max: int = 8) -> None:
        """A module whose weights are yet to be loaded with load_state_dict."""
        super().__init__(problem)
        parsed = native.parse(problem)
        self.context, self.m_max = context, m_max
        self.in_features, self.out_features = parsed.k, native.columns_of(parsed)
        self._linear: Linear | None = None

    @classmethod
    def of(cls, linear: Linear) -> "QuantizedLinear":
        """A module with copies of a layer's weights, on the context's GPU if it is a real one."""
        module = cls(linear.context, linear.op.problem, linear.m_max)
        module.take(linear)
        return _to_gpu(module)

    def extra_repr(self) -> str:
        return f"{self.problem}, target={self.context.target}"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self._linear or self._load())(x)

    @torch.compiler.disable
    def _load(self) -> Linear:
        """The layer of the buffers as they are now: tensors on a GPU are used in place, by the
        context of that GPU, others are copied to that of the context there is."""
        self.context = context_of(self.problem_text, self.context)
        if self.context.gpu is None:
            check_not_traced(self.context)
        self._linear = Linear(self.context, self.problem, self.operands(self.context), self.m_max)
        return self._linear

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        self._linear = None
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, *args: Any) -> None:
        self._linear = None
        super()._load_from_state_dict(*args)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_linear": None}  # made again of the buffers


class QuantizedMoE(torch.nn.Module):
    """The experts of a layer as a module: quern.MoE with its weights in the modules `gate_up` and
    `down`, whose buffers are in state_dict. Copies and pickles keep the weights and how the context
    was opened."""

    def __init__(self, context: Context, gate_up: str, down: str, m_max: int = 1024) -> None:
        """A module whose weights are yet to be loaded with load_state_dict."""
        super().__init__()
        self.context, self.m_max = context, m_max
        self.gate_up, self.down = QuantizedWeights(gate_up), QuantizedWeights(down)
        self._moe: MoE | None = None
        self._made_of = (0, 0)  # versions of the weights that _moe has

    @classmethod
    def of(cls, moe: MoE) -> "QuantizedMoE":
        """A module with copies of the weights, on the context's GPU if it is a real one."""
        module = cls(moe.context, moe.gate_up.op.problem, moe.down.op.problem, moe.m_max)
        module.gate_up.take(moe.gate_up)
        module.down.take(moe.down)
        return _to_gpu(module)

    def extra_repr(self) -> str:
        return f"target={self.context.target}"

    def forward(self, x: torch.Tensor, topk_ids: torch.Tensor,
                topk_weights: torch.Tensor | None) -> torch.Tensor:
        """MoE.forward with the weights as they are now."""
        if self._moe is None or self._made_of != (self.gate_up.version, self.down.version):
            self._load()
        return self._moe(x, topk_ids, topk_weights)

    @torch.compiler.disable
    def _load(self) -> None:
        self.context = context_of(self.gate_up.problem_text, self.context)
        if self.context.gpu is None:
            check_not_traced(self.context)
        self._moe = MoE(self.context, self.gate_up.problem, self.gate_up.operands(self.context),
                        self.down.problem, self.down.operands(self.context), self.m_max)
        self._made_of = (self.gate_up.version, self.down.version)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_moe": None}  # made again of the buffers


_Module = TypeVar("_Module", QuantizedLinear, QuantizedMoE)


def _to_gpu(module: _Module) -> _Module:
    """Moves a module to its context's GPU, if that is a real one."""
    gpu = module.context.gpu
    return module if gpu is None else module.to(f"cuda:{gpu.index}")


@dataclasses.dataclass
class Replaced:
    """What became of a model's linear layers, by their names in it. str() is a page for people."""

    replaced: dict[str, Any] = dataclasses.field(default_factory=dict)  # what computes them now
    left: dict[str, str] = dataclasses.field(default_factory=dict)  # why they stay as they were
    not_asked: set[str] = dataclasses.field(default_factory=set)  # of these, by the caller's wish

    def unasked(self) -> list[str]:
        """Those that were left though the caller asked for them."""
        return [name for name in self.left if name not in self.not_asked]

    def __str__(self) -> str:
        lines = [f"{len(self.replaced)} layers replaced, {len(self.left)} left as they were"]
        alike: dict[str, list[str]] = {}
        for name, why in self.left.items():
            alike.setdefault(why, []).append(name)
        for why, (first, *more) in alike.items():
            lines.append(f"  {first}{f' and {len(more)} more' if more else ''}: {why}")
        return "\n".join(lines)


def _unless(predicate: Predicate | None) -> WhyLeft:
    """The reason of those for which a caller's predicate is false."""
    def why_left(name: str, module: torch.nn.Module) -> str | None:
        asked = predicate is None or predicate(name, module)
        return None if asked else "not asked for by the predicate"
    return why_left


# What may be wrong with one layer alone. Anything else, as no compiler, no GPU, or a kernel that
# may not be compiled, befalls the others too: a model that stays as it was would go unnoticed.
_OF_ONE_LAYER = ("QUERN_E_PROBLEM", "QUERN_E_DECLINED", "QUERN_E_ALIGN")


def _walk(found: list[tuple[str, torch.nn.Module]], replace: Callable[[str, Any], Any],
          why_left: WhyLeft, progress: Progress | None) -> Replaced:
    """Replaces layers one by one. One that cannot be is left, and said so; the rest goes on. What
    is not about that layer is raised."""
    report = Replaced()
    for i, (name, module) in enumerate(found):
        if progress:
            progress(i, len(found), name)
        if why := why_left(name, module):
            report.left[name] = why
            report.not_asked.add(name)
            continue
        try:
            report.replaced[name] = replace(name, module)
        except native.Error as e:  # before ValueError, which some of these are
            if e.name not in _OF_ONE_LAYER:
                raise
            report.left[name] = str(e)
        except (ValueError, TypeError) as e:
            report.left[name] = str(e)
    if progress:
        progress(len(found), len(found), "")
    for name, why in report.left.items():
        logging.getLogger("quern").info("%s is left as it was: %s", name, why)
    return report


def replace_in_model(model: torch.nn.Module, context: Context, predicate: Predicate | None,
                     progress: Progress | None, **words: Any) -> Replaced:
    """quern.replace_linear4bit of a whole model."""
    opened(context)  # what is wrong for every layer is said once
    check_words("nf4", words["compute_type"], {})
    native.integer("m_max", words["m_max"])

    def one(_name: str, module: Any) -> Linear:
        linear = Linear.from_bitsandbytes(module, context_of(module.weight, context), **words)
        module.forward = linear.__call__
        return linear

    found = [(name, module) for name, module in model.named_modules()
             if type(module).__name__ == "Linear4bit"
             or getattr(getattr(module, "weight", None), "quant_state", None) is not None]
    return _walk(found, one, _unless(predicate), progress)


def replace_linear(model: torch.nn.Module, context: Context, *, wq: str = "nf4",
                   a: str | None = None, m_max: int = 8, predicate: Predicate | None = None,
                   progress: Progress | None = None, **words: Any) -> Replaced:
    """Quantises a model's torch.nn.Linear layers and puts a QuantizedLinear in the place of each;
    their own weights are freed as far as nobody else holds them. Of a model that is spread over
    several GPUs each layer is computed where its weights are, by `context.on` of that. `a` is the
    type of activations, that of the layer's weights if not given; `words` are more of the problem:
    group=128, … `predicate(name, module)` says which to replace, all if not given;
    `progress(done, total, name)` is told before each. Subclasses of Linear, whose forward is
    another, weights that are shared with other modules, as those of a tied lm_head are, and what
    quern cannot serve stay as they are: the result says which and why. What is not about one layer,
    as a misspelt word or a compiler that is not there, is raised, and what was replaced before
    stays so."""
    return replace_layers(model, context, _unless(predicate), progress, words, wq=wq, a=a,
                          m_max=m_max)


def replace_layers(model: torch.nn.Module, context: Context, why_left: WhyLeft,
                   progress: Progress | None, words: dict[str, Any], *, wq: str, a: str | None,
                   m_max: int) -> Replaced:
    """quern.replace_linear of the layers that `why_left` has no reason for."""
    opened(context)
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}; expected a torch.nn.Module")
    check_words(wq, a, words)
    native.integer("m_max", m_max)
    if isinstance(model, torch.nn.Linear):
        raise ValueError("the model is a Linear itself, which cannot be replaced within itself; "
                         "use quern.QuantizedLinear.of(quern.Linear.quantize(context, layer))")
    owners: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), []).append(name)

    def one(name: str, module: Any) -> QuantizedLinear:
        if type(module) is not torch.nn.Linear:
            raise TypeError(f"{type(module).__name__} is a subclass of Linear; expected "
                            "torch.nn.Linear itself")
        others = [other for other in owners[id(module.weight)] if other != f"{name}.weight"]
        if others:
            raise ValueError(f"its weight is shared with {others[0]}")
        if module._forward_hooks or module._forward_pre_hooks:
            raise ValueError("it has hooks, which a layer in its place would not run")
        new = QuantizedLinear.of(Linear.quantize(
            context_of(module.weight, context), module, wq=wq,
            a=a or torch_type(module.weight.dtype), m_max=m_max, **words))
        new.train(module.training)
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, new)
        return new

    found = [(name, module) for name, module in model.named_modules()
             if isinstance(module, torch.nn.Linear)]
    return _walk(found, one, why_left, progress)
