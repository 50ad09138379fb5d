#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/int4: one small layer as four public tools pack it.

Run once, by hand, in a throw-away environment; the result is committed:

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install numpy torch==2.4.1
    /tmp/golden/bin/pip download --no-deps --dest /tmp/golden/src auto-round==0.16.1 \\
        autoawq==0.2.9 compressed-tensors==0.20.0        # and unpack them there, side by side
    /tmp/golden/bin/python tests/peers/make_golden_int4.py /tmp/golden/src

The packages' own packing code runs, from its files; what else they import (transformers, Triton,
accelerators) packing does not need, and stand-ins take its place.

    codes     u8 [N,K], 0 to 15
    points    u8 [N,G], zero points, 0 to 15 (1 to 15 for gptq, which stores one less)
    scales    f16 [G,N], as checkpoints have them
    gptq.*    auto-round's QuantLinear with zero points less one; gptq_v2.* the one without
    awq.*     AutoAWQ's WQLinear_GEMM
    compressed.weight_packed, compressed.weight_zero_point: compressed-tensors' pack_to_int32
"""

import importlib.util
import pathlib
import sys
import types

import torch

N, K, GROUP = 64, 256, 64  # AutoAWQ packs N by 32
OUT = pathlib.Path(__file__).parent.parent / "golden" / "int4"


def stand_in(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    return module


def package(name, path):
    """A package whose modules are found, and whose __init__ is not run."""
    stand_in(name).__path__ = [str(path)]


def from_file(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def find(top, *parts):
    (path,) = top.rglob(str(pathlib.Path(*parts)))
    return path


def linear(codes, points, scales):
    """What packs to these codes: (q - z)·s in f32, exact."""
    layer = torch.nn.Linear(K, N, bias=False)
    columns = torch.arange(K) // GROUP
    weight = (codes - points[:, columns]).float() * scales.t().float()[:, columns]
    layer.weight.data = weight
    return layer


def gptq(top, layer, points, scales, less):
    stand_in("transformers")
    stand_in("transformers.pytorch_utils", Conv1D=type("Conv1D", (), {}))
    sys.modules["transformers"].pytorch_utils = sys.modules["transformers.pytorch_utils"]
    package("auto_round", top)
    package("auto_round.utils", top)
    sys.modules["auto_round.utils"].get_packing_device = lambda device=None: "cpu"
    from_file("auto_round.utils.bit_packing", find(top, "auto_round", "utils", "bit_packing.py"))
    package("auto_round_extension", top)
    package("auto_round_extension.torch", top)
    place = pathlib.Path("auto_round_extension", "torch")
    module = from_file("auto_round_extension.torch.qlinear_torch",
                       find(top, place, "qlinear_torch.py"))
    if less:
        module = from_file("auto_round_extension.torch.qlinear_torch_zp",
                           find(top, place, "qlinear_torch_zp.py"))
    packed = module.QuantLinear(4, GROUP, K, N, False)
    packed.device = "cpu"
    packed.pack(layer, scales.t().contiguous().float(), points.float())
    return {"qweight": packed.qweight, "qzeros": packed.qzeros}


def awq(top, layer, points, scales):
    place = find(top, "awq", "modules", "linear", "gemm.py").parent
    for name, path in (("awq", place.parent.parent), ("awq.modules", place.parent),
                       ("awq.modules.linear", place)):
        package(name, path)
    package("awq.utils", place.parent.parent / "utils")
    stand_in("awq.utils.module", try_import=lambda name: (None, ""))
    stand_in("awq.utils.utils", get_best_device=lambda: "cpu")
    module = from_file("awq.modules.linear.gemm", place / "gemm.py")
    packed = module.WQLinear_GEMM.from_linear(layer, 4, GROUP, False, scales,
                                              points.t().contiguous())
    return {"qweight": packed.qweight, "qzeros": packed.qzeros}


def compressed(top, codes, points):
    module = from_file("helpers", find(top, "pack_quantized", "helpers.py"))
    signed = (codes - 8).to(torch.int8), (points - 8).to(torch.int8)
    return {"weight_packed": module.pack_to_int32(signed[0], 4),
            "weight_zero_point": module.pack_to_int32(signed[1], 4, packed_dim=0).contiguous()}


def main():
    top = pathlib.Path(sys.argv[1])
    torch.manual_seed(20261122)
    codes = torch.randint(0, 16, (N, K))
    points = torch.randint(1, 16, (N, K // GROUP))
    scales = (torch.rand(K // GROUP, N) * 0.05 + 0.01).half()
    layer = linear(codes, points, scales)
    made = {"codes": codes.to(torch.uint8), "points": points.to(torch.uint8), "scales": scales}
    for name, tensors in (("gptq", gptq(top, layer, points, scales, True)),
                          ("gptq_v2", gptq(top, layer, points, scales, False)),
                          ("awq", awq(top, layer, points, scales)),
                          ("compressed", compressed(top, codes, points))):
        made |= {f"{name}.{part}": tensor for part, tensor in tensors.items()}
    OUT.mkdir(exist_ok=True)
    for name, tensor in made.items():
        (OUT / name).write_bytes(tensor.contiguous().numpy().tobytes())
        print(name, tensor.dtype, list(tensor.shape))


if __name__ == "__main__":
    main()
