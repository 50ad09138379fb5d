# SPDX-License-Identifier: MIT
"""quern: kernels for linear layers at inference on AMD and NVIDIA GPUs, made to order.

    import quern

    with quern.Context(target="gfx1151") as ctx:       # a software GPU; Context(): a real one
        layer = quern.Linear.quantize(ctx, w, wq="nf4", a="bf16")     # w: f32 [N, K]
        y = layer(x)                                                  # x: [..., K]

`Context` is one GPU, `Op` the kernels of one layer, launched on device addresses; `Linear` is a
layer with its weights on the GPU, called with numpy arrays or torch tensors, and `MoE` the experts
of one. `replace_linear4bit` puts quern behind the bitsandbytes layers of a model, `replace_linear`
behind its plain ones, and `QuernConfig` is for transformers' from_pretrained. Failures raise
`Error`, whose text is one sentence: what was wrong, which value, what would be right; those of what
was given raise `InputError`, which is a ValueError too.
"""

import importlib
import importlib.util
import sys
from typing import Any

from ._native import Error, InputError, version
from .buffer import Buffer
from .context import Context, Event, seal
from .linear import Linear, replace_linear4bit
from .moe import MoE
from .op import Op
from .weights import dequantize, quantize, repack

__version__ = version()
__all__ = [
    "Buffer", "Context", "Error", "Event", "InputError", "Linear", "MoE", "Op", "dequantize",
    "quantize", "repack", "replace_linear4bit", "seal",
]
# What needs torch, or transformers, which are imported with the first use of it.
_LATER = {"QuantizedLinear": "torch_modules", "QuantizedMoE": "torch_modules",
          "Replaced": "torch_modules", "replace_linear": "torch_modules",
          "QuernConfig": "transformers_quantizer"}
_NEEDS = {"torch_modules": ("torch",), "transformers_quantizer": ("torch", "transformers")}


def _missing(name: str) -> list[str]:
    """The packages that a name of _LATER needs and that are not installed."""
    return [package for package in _NEEDS[_LATER[name]]
            if package not in sys.modules and importlib.util.find_spec(package) is None]


# A star takes what can be had.
__all__ += [name for name in _LATER if not _missing(name)]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'quern' has no attribute {name!r}")
    if missing := _missing(name):
        raise ModuleNotFoundError(f"quern.{name} needs {' and '.join(missing)}, which "
                                  f"{'are' if missing[1:] else 'is'} not installed",
                                  name=missing[0])
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_LATER]
