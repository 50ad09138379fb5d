# SPDX-License-Identifier: MIT
"""quern: kernels for linear layers at inference on AMD GPUs, made to order.

    import quern

    with quern.Context(target="gfx1151") as ctx:       # a software GPU; device="hip": a real one
        layer = quern.Linear.quantize(ctx, w, wq="nf4", a="bf16")     # w: f32 [N, K]
        y = layer(x)                                                  # x: [..., K]

`Context` is one GPU, `Op` the kernels of one layer, launched on device addresses; `Linear` is a
layer with its weights on the GPU, called with numpy arrays or torch tensors. `replace_linear4bit`
puts one in the place of a bitsandbytes layer's product. Failures raise `Error`, whose text is one
sentence: what was wrong, which value, what would be right.
"""

from ._native import Error, version
from .context import Buffer, Context, Event, Op, seal
from .linear import Linear, replace_linear4bit
from .weights import dequantize, quantize, repack

__version__ = version()
__all__ = [
    "Buffer", "Context", "Error", "Event", "Linear", "Op", "dequantize", "quantize", "repack",
    "replace_linear4bit", "seal",
]
