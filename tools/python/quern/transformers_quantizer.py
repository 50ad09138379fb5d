# SPDX-License-Identifier: MIT
"""quern as a quantisation method of transformers, registered when this is imported:

    model = AutoModelForCausalLM.from_pretrained(
        name, dtype="bfloat16", quantization_config=quern.QuernConfig(wq="nf4"))

The checkpoint's own weights are loaded first, then quantised layer by layer on the CPU. A model
that save_pretrained wrote is loaded as it is, quantised. Source of the interface: transformers
5.23, quantizers/base.py and quantizers/auto.py."""

from __future__ import annotations

import logging
from typing import Any

import torch
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from . import _native as native
from .context import Context
from .linear import check_words, problem_of_layer, torch_type
from .torch_modules import QuantizedLinear, replace_layers


_log = logging.getLogger("quern")


@register_quantization_config("quern")
class QuernConfig(QuantizationConfigMixin):
    """Which format the weights of a model's linear layers get and which GPU computes. `target`
    names a software GPU; with neither `target` nor `device` each layer is computed on the GPU that
    it was loaded to, or by what the environment says. What has no name here is more of the problem,
    group=128, zero="u8", and may be given as `words`, {"group": 128}, too. Names in
    `modules_to_not_convert`, a layer's own or the end of its full name, keep the checkpoint's
    weights, and so does the model's output layer when nothing is named; one that is of no layer is
    a warning of the logger "quern"."""

    def __init__(self, wq: str = "nf4", *, a: str | None = None, m_max: int = 8,
                 words: dict[str, Any] | None = None, target: str | None = None,
                 device: str | None = None, modules_to_not_convert: list[str] | None = None,
                 quant_method: str = "quern", **more: Any) -> None:
        if quant_method != "quern":
            raise ValueError(f"quant_method is {quant_method!r}; expected 'quern'")
        self.quant_method = quant_method  # type: ignore[assignment]  # not one of their own
        if twice := sorted({*(words or {})} & {*more}):
            raise ValueError(f"{', '.join(twice)} given twice, in words and beside it")
        self.wq, self.a, self.m_max = wq, a, native.integer("m_max", m_max)
        self.words = {**(words or {}), **more}
        self.target, self.device = target, device
        self.modules_to_not_convert = modules_to_not_convert
        # a word that is wrong is said here, before a checkpoint is loaded for it
        check_words(wq, a, self.words)

    def problem(self, n: int, k: int, a: str, bias: bool) -> str:
        """The problem of one layer."""
        return problem_of_layer(n, k, self.wq, a, bias, self.words)

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint says of itself: not which GPU it was made on."""
        kept: dict[str, Any] = super().to_dict()
        return {name: value for name, value in kept.items() if name not in ("target", "device")}

    def context(self) -> Context:
        """The context that all models of these options share in this process."""
        return Context.shared(target=self.target, device=self.device)


@register_quantizer("quern")
class QuernQuantizer(HfQuantizer):
    """What from_pretrained calls, before and after it loads weights."""

    requires_calibration = False
    quantization_config: QuernConfig

    def validate_environment(self, *_args: Any, **_more: Any) -> None:
        self.quantization_config.context()  # a GPU or target that is not there is said now

    def _skipped(self, model: Any) -> list[str]:
        names: list[str] = self.get_modules_to_not_convert(
            model, self.quantization_config.modules_to_not_convert,
            getattr(model, "_keep_in_fp32_modules", None))
        return names

    def _process_model_before_weight_loading(self, model: Any, **_more: Any) -> Any:
        if not self.pre_quantized:
            return model
        config = self.quantization_config
        skipped, context = self._skipped(model), config.context()
        for name, module in list(model.named_modules()):
            if type(module) is torch.nn.Linear and not _named(name, skipped):
                text = config.problem(module.out_features, module.in_features,
                                      config.a or torch_type(module.weight.dtype),
                                      module.bias is not None)
                with torch.device("cpu"):
                    new = QuantizedLinear(context, text, config.m_max).to("meta")
                model.set_submodule(name, new)
        return model

    def _process_model_after_weight_loading(self, model: Any, **_more: Any) -> Any:
        config = self.quantization_config
        if self.pre_quantized:
            return model
        skipped, given = self._skipped(model), config.modules_to_not_convert or []
        linears = [name for name, module in model.named_modules()
                   if isinstance(module, torch.nn.Linear)]
        for name in given:
            if not any(_named(layer, [name]) for layer in linears):
                _log.warning("modules_to_not_convert has %r, which is no linear layer's name nor "
                             "the end of one", name)

        def why_left(name: str, _module: Any) -> str | None:
            if _named(name, given):
                return "in modules_to_not_convert"
            if _named(name, skipped):
                return "in transformers' default of modules_to_not_convert"
            return None

        report = replace_layers(model, config.context(), why_left, None, config.words,
                                wq=config.wq, a=config.a, m_max=config.m_max)
        # so that save_pretrained's files say which layers are as they were
        config.modules_to_not_convert = sorted({*skipped, *report.left})
        # whoever asked for quantised weights hears of those that are not
        heard = logging.WARNING if report.unasked() else logging.INFO
        _log.log(heard, "%s", report)
        return model

    def is_serializable(self, *_args: Any, **_more: Any) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False


def _named(name: str, names: list[str]) -> bool:
    return any(name == other or name.endswith(f".{other}") for other in names)
