# SPDX-License-Identifier: MIT
"""Tensors of checkpoints: recognised by name and shape, refused when wrong."""

import json
import math
import re
import struct

import pytest
import safetensors
from checkpoint_tensors import SHUFFLED, K, N, awq, bnb, compressed, fp8, gptq

INT4 = f"op=gemm wq=int4 group={{}} scale={{}} zero={{}} a={{}} c={{}} n={N} k={K} bias={{}}"
LAYERS = {  # tensors → format, act-order, problem
    "gptq": (gptq("l"), "gptq", False,
             INT4.format(128, "f16", "none", "f16", "f16", 0) + " layout=gptq round=rne"),
    "gptq-asym": (gptq("l", zeros=0x77777776, bias=("F16", [N])), "gptq", False,
                  INT4.format(128, "f16", "u8", "f16", "f16", 1) + " layout=gptq round=rne"),
    "gptq-order": (gptq("l", scales="BF16", g_idx=SHUFFLED), "gptq", True,
                   INT4.format(128, "bf16", "none", "bf16", "bf16", 0) + " layout=gptq round=rne"),
    "gptq-channel": (gptq("l", zeros=0x88888888, groups=1, scales="F32"), "gptq", False,
                     INT4.format("channel", "f32", "none", "bf16", "bf16", 0)
                     + " layout=gptq round=rne"),
    "awq": (awq("l"), "awq", False,
            INT4.format(32, "f16", "u8", "f16", "f16", 0) + " layout=awq round=rne"),
    "compressed": (compressed("l"), "compressed-tensors", False,
                   INT4.format(64, "bf16", "none", "bf16", "bf16", 0) + " layout=k8 round=rne"),
    "compressed-asym": (compressed("l", zero=True), "compressed-tensors", False,
                        INT4.format(64, "bf16", "u8", "bf16", "bf16", 0) + " layout=k8 round=rne"),
    "bnb": (bnb("l"), "bitsandbytes", False,
            f"op=gemm wq=nf4 group=64 scale=f32 a=bf16 c=bf16 n={N} k={K} bias=0 layout=bnb "
            "round=rne"),
    "bnb-nested": (bnb("l", "fp4", nested=True), "bitsandbytes", False,
                   f"op=gemm wq=fp4 group=64 scale=nested a=bf16 c=bf16 n={N} k={K} bias=0 "
                   "layout=bnb round=rne"),
    "fp8": (fp8("l"), "fp8", False,
            f"op=gemm wq=fp8 scale=tensor a=bf16 c=bf16 n={N} k={K} bias=0 layout=dense round=rne"),
    "fp8-static": (fp8("l", shape=[1], static=True), "fp8", False,
                   f"op=gemm wq=fp8 scale=tensor a=fp8 c=bf16 n={N} k={K} bias=0 layout=dense "
                   "round=rne"),
    "fp8-f16": (fp8("l", scale="F16", shape=[1]), "fp8", False,
                f"op=gemm wq=fp8 scale=tensor a=f16 c=f16 n={N} k={K} bias=0 layout=dense "
                "round=rne"),
    "fp8fnuz": (fp8("l", "F8_E4M3FNUZ", static=True), "fp8", False,
                f"op=gemm wq=fp8fnuz scale=tensor a=fp8fnuz c=bf16 n={N} k={K} bias=0 layout=dense "
                "round=rne"),
    "fp8-blocks": ({"l.weight": ("F8_E4M3", [N, K]), "l.weight_scale_inv": ("F32", [1, 2])},
                   "fp8", False, f"op=gemm wq=fp8 scale=block128 a=bf16 c=bf16 n={N} k={K} bias=0 "
                   "layout=dense round=rne"),
    "fp8-blocks-f16": ({"l.weight": ("F8_E4M3", [N, K]), "l.weight_scale": ("F16", [1, 2]),
                        "l.bias": ("F16", [N])}, "fp8", False,
                       f"op=gemm wq=fp8 scale=block128 a=f16 c=f16 n={N} k={K} bias=1 "
                       "layout=dense round=rne"),
    "plain": ({"l.weight": ("BF16", [N, K]), "norm.weight": ("BF16", [K]),
               "model.embed_tokens.weight": ("BF16", [100, K])}, "plain", False,
              f"op=gemm wq=none a=bf16 c=bf16 n={N} k={K} bias=0 layout=dense round=rne"),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_are_recognised(quern, tmp_path, kind):
    tensors, form, act_order, problem = LAYERS[kind]
    file = tmp_path / "model.safetensors"
    safetensors.write(file, tensors)
    (found,) = quern.json("inspect", file)
    assert (found["checkpoint"], found["tensors"]) == (str(file), len(tensors))
    assert found["layers"] == [{"layer": "l", "format": form, "experts": 1,
                                "act_order": act_order, "problem": problem}]
    shown = quern("inspect", file).stdout
    assert "1 linear layer" in shown and problem in shown
    assert ("act-order" in shown) == act_order


def test_a_whole_file(quern, tmp_path):
    file = tmp_path / "model.safetensors"
    experts = {"e.gate_up_proj_blocks": ("U8", [4, 128, 2, 16]),
               "e.gate_up_proj_scales": ("U8", [4, 128, 2])}
    safetensors.write(file, {**gptq("b"), **awq("a"), **compressed("d"), **bnb("c"), **experts})
    (found,) = quern.json("inspect", file)
    layers = {layer["layer"]: layer for layer in found["layers"]}
    assert list(layers) == ["a", "b", "c", "d", "e.gate_up_proj"]
    assert layers["e.gate_up_proj"]["experts"] == 4
    assert "wq=mxfp4 group=32 scale=e8m0 a=bf16 c=bf16 n=128 k=64" in (
        layers["e.gate_up_proj"]["problem"])


def test_equal_layers_are_one_row(quern, tmp_path):
    """Exactly where the numbers make a rectangle, else with how many of how many there are."""
    tensors = {**awq("lm_head"), **{k: v for i in range(3) for k, v in bnb(f"m.{i}.down").items()}}
    for i in (0, 1, 2, 5):
        for e in range(11):
            tensors |= {f"m.{i}.experts.{e}.w1.weight": ("F16", [8, 4 if (i, e) != (5, 3) else 2])}
        tensors |= compressed(f"m.{i}.up", zero=i == 1)
    safetensors.write(tmp_path / "model.safetensors", tensors)
    shown = quern("inspect", tmp_path).stdout.splitlines()
    assert shown[0] == (f"{tmp_path}/model.safetensors: safetensors, {len(tensors)} tensors, "
                        "52 linear layers")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in shown[2:]}
    assert rows.keys() == {"lm_head", "m.{0-2}.down", "m.{0-2,5}.experts.{0-10}.w1",
                           "m.5.experts.3.w1", "m.{0,2,5}.up", "m.1.up"}
    assert rows["m.{0-2}.down"].startswith("3 bitsandbytes op=gemm wq=nf4")
    assert rows["m.{0-2,5}.experts.{0-10}.w1"].startswith("43 of 44 plain op=gemm wq=none")
    assert "zero=none" in rows["m.{0,2,5}.up"] and "zero=u8" in rows["m.1.up"]
    (found,) = quern.json("inspect", tmp_path)
    assert len(found["layers"]) == 52
    # more gaps than there is room for, and what is no number
    many = [f"m.{i}.experts.{e}.w1" for i in range(0, 1000, 2) for e in (1, 3)] + ["x.7", "x.07"]
    safetensors.write(tmp_path / "model.safetensors",
                      {f"{name}.weight": ("F16", [1, 1]) for name in many})
    rows = [line.split()[:2] for line in quern("inspect", tmp_path).stdout.splitlines()[2:]]
    assert [count for _, count in rows] == ["1000", "1", "1"]
    assert re.fullmatch(r"m\.\{0,2,4,[0-9,]*,…\}\.experts\.\{1,3\}\.w1", rows[0][0])
    assert [name for name, _ in rows[1:]] == ["x.07", "x.7"]


def test_what_is_no_layer(quern, tmp_path):
    """Tables that are looked up; a config.json."""
    file = tmp_path / "model.safetensors"
    tables = ["embed_tokens", "wte", "h.wpe", "v.embeddings.position_embedding", "v.pos_embed"]
    safetensors.write(file, {f"{name}.weight": ("F16", [8, 4]) for name in [*tables, "embed_out"]})
    assert [layer["layer"] for layer in quern.json("inspect", file)[0]["layers"]] == ["embed_out"]
    (tmp_path / "config.json").write_text("{}")
    quern.refused("inspect", tmp_path / "config.json", status=2, says="quern prewarm --model")


def test_layers_as_others_keep_them(quern, tmp_path):
    file = tmp_path / "model.safetensors"

    def layers(tensors):
        safetensors.write(file, tensors)
        return {layer["layer"]: layer for layer in quern.json("inspect", file)[0]["layers"]}

    # GPT-2's are transposed, which the bias tells
    found = layers({"c_attn.weight": ("F32", [64, 192]), "c_attn.bias": ("F32", [192])})
    assert "n=192 k=64 once they are transposed" in found["c_attn"]["reason"]
    # all experts in one tensor, one way or the other: hidden 32, intermediate 16 or 32
    for width in (16, 32):
        up, down = ("BF16", [4, 2 * width, 32]), ("BF16", [4, 32, width])
        found = layers({"e.gate_up_proj": up, "e.down_proj": down,
                        "e.gate_up_proj_bias": ("BF16", [4, 2 * width])})
        assert f"n={2 * width} k=32 bias=1" in found["e.gate_up_proj"]["problem"]
        assert f"n=32 k={width} bias=0" in found["e.down_proj"]["problem"]
        assert found["e.down_proj"]["experts"] == 4
        turned = [(dtype, [e, k, n]) for dtype, (e, n, k) in (up, down)]
        found = layers(dict(zip(("e.gate_up_proj", "e.down_proj"), turned)))
        assert f"n={2 * width} k=32 once" in found["e.gate_up_proj"]["reason"]
        assert f"n=32 k={width} once" in found["e.down_proj"]["reason"]
    found = layers({"e.gate_up_proj": ("F16", [4, 64, 32]), "e.down_proj": ("F16", [4, 48, 32])})
    assert "do not go with those of e.down_proj" in found["e.gate_up_proj"]["reason"]
    # gpt-oss's have a bias
    found = layers({"e.x_blocks": ("U8", [4, 64, 1, 16]), "e.x_scales": ("U8", [4, 64, 1]),
                    "e.x_bias": ("BF16", [4, 64])})
    assert "n=64 k=32 bias=1" in found["e.x"]["problem"]
    # bytes of 4-bit weights under the name of another type
    found = layers({**bnb("l"), "l.weight": ("BF16", [N * K // 4, 1])})
    assert found["l"]["problem"] == layers(bnb("l"))["l"]["problem"]


def test_layers_without_a_problem_say_why(quern, tmp_path):
    file = tmp_path / "model.safetensors"
    eight = {"l.qweight": ("I32", [K // 4, N]), "l.qzeros": ("I32", [2, N // 4]),
             "l.scales": ("F16", [2, N])}
    for tensors, reason in (
        (eight, "8-bit weights"),
        (gptq("l", groups=16), "group=16"),
        (gptq("l", g_idx=[0] * 200 + [1] * 56), "more than 128 columns in group 0"),
        ({"l.qweight": ("I32", [K // 8, 60]), "l.qzeros": ("I32", [2, 7]),
          "l.scales": ("F16", [2, 60])}, "n=60 is not a multiple of 8"),
        ({**compressed("l"), "l.weight_shape": ("I64", [2], struct.pack("<2q", N, K // 2))},
         "8-bit weights"),
        ({**compressed("l"), "l.weight_shape": ("I64", [2], struct.pack("<2q", N, K - 6))},
         "k=250 is not a multiple of 8"),
        ({**bnb("l", nested=True, block=128), "l.weight.nested_absmax": ("F32", [2])},
         "absmax in blocks of 128"),
        ({"l.weight": ("F8_E4M3", [N, K])}, "weights of type F8_E4M3 without a weight_scale"),
        ({"l.weight": ("F8_E5M2", [N, K]), "l.weight_scale": ("F32", [1])}, "type F8_E5M2"),
        (fp8("l", shape=[N, 1]), f"F8_E4M3 with scales F32 [{N},1]; one for all weights"),
        ({"l.weight": ("F8_E4M3", [N, K]), "l.weight_scale_inv": ("F32", [2, 4])},
         "with scales F32 [2,4]; one for all weights is known, and one for each block of 128"),
        ({"l.weight_packed": ("U8", [N, K // 2]), "l.weight_scale": ("F8_E4M3", [N, K // 16])},
         "packed as U8"),
    ):
        safetensors.write(file, tensors)
        ((layer,),) = [f["layers"] for f in quern.json("inspect", file)]
        assert "problem" not in layer and reason in layer["reason"]


def test_wrong_tensors_are_named(quern, tmp_path):
    file = tmp_path / "model.safetensors"

    def refused(tensors, *says, change=None):
        safetensors.write(file, tensors, change)
        quern.refused("inspect", file, status=1, says=says)

    def without(tensors, name):
        return {k: v for k, v in tensors.items() if k != name}

    refused(without(gptq("l"), "l.scales"), "tensor l.scales is missing beside l.qweight")
    # transposed, which of the two the zero points tell
    refused({**gptq("l"), "l.scales": ("F16", [N, 2])},
            "l.scales is F16 [64,2] beside l.qweight, I32 [32,64]; expected [G,64] (GPTQ)")
    refused({**gptq("l"), "l.qweight": ("I32", [N, K // 8])},
            "l.qweight is I32 [64,32] beside l.scales, F16 [2,64]; expected I32 [K/8,64] (GPTQ)")
    refused({**gptq("l"), "l.qzeros": ("I32", [N // 8, 2])}, "l.qzeros is I32 [8,2]", "[2,8]")
    refused({**awq("l"), "l.scales": ("F16", [8, 61])}, "l.scales is F16 [8,61]", "[G,64] (AWQ)")
    refused({**gptq("l"), "l.scales": ("I32", [2, N])}, "l.scales is I32", "F16|BF16|F32 [2,64]")
    refused({**gptq("l"), "l.qzeros": ("I32", [2, 7])}, "l.qzeros is I32 [2,7]", "[2,8]")
    refused({**gptq("l"), "l.qweight": ("F16", [K // 8, N])}, "l.qweight is F16", "expected I32")
    refused({**gptq("l"), "l.g_idx": ("I32", [K - 1])}, "l.g_idx is I32 [255]", "[256]")
    refused(gptq("l", g_idx=[0] * (K - 1) + [2]), "l.g_idx has group 2 at column 255")
    refused({**awq("l"), "l.qzeros": ("I32", [8, 9])}, "l.qzeros is I32 [8,9]", "[8,8]")
    refused(without(compressed("l"), "l.weight_scale"), "l.weight_scale is missing")
    refused({**bnb("l"), "l.weight.absmax": ("F32", [5])}, "l.weight.absmax is F32 [5]", "[256]")
    refused(without(bnb("l"), "l.weight.absmax"), "l.weight.absmax is missing")
    refused({**bnb("l"), "l.weight.quant_state.bitsandbytes__nf4": ("U8", [3], b"{{{")}, "JSON")
    refused(without(bnb("l", nested=True), "l.weight.nested_absmax"), "nested_absmax is missing")
    refused({**bnb("l", nested=True), "l.weight.nested_quant_map": ("F32", [255])},
            "l.weight.nested_quant_map is F32 [255]; expected F32 [256]")
    refused(bnb("l", nested=True, offset="x"), "'nested_offset' is \"x\"")
    refused({"e_blocks": ("U8", [4, 128, 2, 16])}, "e_scales is missing")
    refused({**compressed("l"), "l.weight_shape": ("I64", [2], struct.pack("<2q", N, 300))},
            "l.weight_shape says [64,300]; l.weight_packed, I32 [64,32], makes it [64,256]")
    refused({**compressed("l"), "l.weight_zero_point": ("I8", [N, 4])}, "zero_point is I8 [64,4]")
    # weights that are not there
    refused(without(gptq("l"), "l.qweight"), "tensor l.qweight is missing beside l.")
    refused(without(compressed("l"), "l.weight_packed"), "tensor l.weight_packed is missing")
    refused(without(bnb("l"), "l.weight"), "tensor l.weight is missing beside l.weight.absmax")


@pytest.mark.parametrize("tensors, name", [
    (gptq("l"), "l.scales"), (gptq("l", scales="BF16"), "l.scales"), (awq("l"), "l.scales"),
    (gptq("l", scales="F32"), "l.scales"), (compressed("l"), "l.weight_scale"),
    (bnb("l"), "l.weight.absmax"), (bnb("l", nested=True), "l.weight.nested_absmax"),
    (bnb("l", nested=True), "l.weight.nested_quant_map"), (fp8("l"), "l.weight_scale"),
    (fp8("l", static=True), "l.input_scale"),
])  # fmt: skip
@pytest.mark.parametrize("value, what", [(float("nan"), "NaN"), (-float("inf"), "infinite")])
def test_scales_are_numbers(quern, tmp_path, tensors, name, value, what):
    """The last of a tensor's numbers is none."""
    file = tmp_path / "model.safetensors"
    dtype, shape = tensors[name][:2]
    one = {"F16": struct.pack("<e", value), "BF16": struct.pack("<f", value)[2:],
           "F32": struct.pack("<f", value)}[dtype]
    bad = bytes(len(one) * (math.prod(shape) - 1)) + one
    place = "[" + ",".join(str(size - 1) for size in shape) + "]" if shape else ""
    safetensors.write(file, {**tensors, name: (dtype, shape, bad)})
    quern.refused("inspect", file, status=1,
                  says=[f"tensor {name} is {what}", place, f"expected finite {dtype} numbers"])


def test_a_checkpoint_in_several_files(quern, tmp_path):
    """Tensors of one layer are in two files, as sizes have it."""
    layer = {**gptq("l", zeros=0x12345670, bias=("F16", [N])), **awq("a")}
    names = sorted(layer)
    parts = {f"model-0000{i + 1}-of-00002.safetensors": names[4 * i:4 * i + 4]
             for i in range(2)}  # l.bias is beside a
    places = {name: file for file, held in parts.items() for name in held}
    for file, held in parts.items():
        safetensors.write(tmp_path / file, {name: layer[name] for name in held})
    index = tmp_path / "model.safetensors.index.json"

    def write(weight_map, **more):
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}
                                    | more))

    write(places)
    (found,) = quern.json("inspect", index)
    assert found["tensors"] == len(layer)
    one, two = found["layers"]
    assert (one["layer"], one["format"], two["layer"], two["format"]) == ("a", "awq", "l", "gptq")
    assert "zero=u8" in two["problem"] and "bias=1" in two["problem"]
    # one file alone says what it lacks
    second = quern.json("inspect", tmp_path / "model-00002-of-00002.safetensors")[0]["layers"]
    assert [layer["layer"] for layer in second] == ["l"]
    safetensors.write(tmp_path / "model-00002-of-00002.safetensors",
                      {"l.qweight": layer["l.qweight"]})
    ((alone,),) = [f["layers"] for f in quern.json(
        "inspect", tmp_path / "model-00002-of-00002.safetensors")]
    assert "l.scales is in another file" in alone["reason"]

    def refused(weight_map, *says, **more):
        write(weight_map, **more)
        quern.refused("inspect", index, status=1, says=says)

    refused(places, "tensor l.g_idx is not in model-00002-of-00002")
    refused({"x": "../model-00001-of-00002.safetensors"}, "expected a file's name")
    refused({"x": 7}, "weight_map has 7 for tensor x")
    refused({}, "has no weight_map")
    refused({"x": "none.safetensors"}, "none.safetensors")
    safetensors.write(tmp_path / "model-00002-of-00002.safetensors", layer)
    refused(places, "is in", "too")


def test_hostile_headers(quern, tmp_path):
    file = tmp_path / "model.safetensors"

    def refused(data, *says):
        file.write_bytes(data)
        quern.refused("inspect", file, status=1, says=says)

    def changed(says, **members):
        safetensors.write(file, {"l.weight": ("F16", [4, 4])},
                          lambda header: header["l.weight"].update(members))
        quern.refused("inspect", file, status=1, says=says)

    refused(b"", "0 bytes")
    refused(bytes(7), "7 bytes")
    refused(struct.pack("<Q", 2**63) + b"{}", "its header would have 9223372036854775808 bytes")
    refused(struct.pack("<Q", 3) + b"{}", "its header would have 3 bytes")
    refused(struct.pack("<Q", 2) + b"[]", "JSON object")
    refused(struct.pack("<Q", 5) + b'{"a":', "not JSON")
    deep = b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"
    refused(struct.pack("<Q", len(deep)) + deep, "levels deep")
    changed("is of type (none)", dtype=7)
    changed("is of type F99", dtype="F99")
    changed("no shape", shape="4x4")
    changed("list of sizes up to 2^40", shape=[4, -4])
    changed("list of sizes up to 2^40", shape=[2**62, 4])
    changed("more elements than any file", shape=[2**40, 2**40])
    changed("has 32 bytes; its shape and type make it 48", shape=[4, 6])
    changed("data_offsets", data_offsets=[0])
    changed("data_offsets", data_offsets=[8, 0])
    changed("data_offsets", data_offsets=[-8, 24])
    changed("cut short", data_offsets=[16, 48])
    for shift, says in ((-8, "l.two begins at byte 24 of the data; expected 32, where l.one ends"),
                        (8, "l.two begins at byte 40 of the data; expected 32")):
        safetensors.write(file, {"l.one": ("F16", [4, 4]), "l.two": ("F16", [4]),
                                 "l.three": ("U8", [8])},
                          lambda header, by=shift: header["l.two"].update(
                              data_offsets=[32 + by, 40 + by]))
        quern.refused("inspect", file, status=1, says=says)
    # bytes that no tensor has
    safetensors.write(file, {"l.weight": ("F16", [4, 4])})
    whole = file.read_bytes()
    refused(whole + b"x", f"has {len(whole) + 1} bytes; expected {len(whole)}, where l.weight ends")
    safetensors.write(file, {})
    refused(file.read_bytes() + bytes(8), "expected", "where the header ends")
    safetensors.write(file, {"l.weight": ("F4", [4, 2])})
    assert "1 tensor, 1 linear layer" in quern("inspect", file).stdout
    changed("elements fill no whole bytes", dtype="F4", shape=[3])
    safetensors.write(file, {"l\x1b[31m.weight": ("F16", [4, 4])})
    quern.refused("inspect", file, status=1, says="control character")
    # cut short anywhere, it is refused or has nothing missing
    safetensors.write(file, gptq("l"))
    whole = file.read_bytes()
    for size in range(0, len(whole) - 1, 997):
        file.write_bytes(whole[:size])
        quern("inspect", file, status=1)
