# SPDX-License-Identifier: MIT
"""config.json of Hugging Face models: which layers they have, and how each is quantised.

This file is long because it holds the configurations of many checkpoints, and what each must be
read as.
"""

import json
import re

import pytest
from conftest import SMALL_MODEL, TARGET, TOP

DENSE = {"model_type": "qwen3", "hidden_size": 128, "intermediate_size": 256,
         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64,
         "num_hidden_layers": 2, "vocab_size": 512, "torch_dtype": "bfloat16"}
MOE = {**DENSE, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2,
       "moe_intermediate_size": 192}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": False, "desc_act": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
COMPRESSED = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
    "group_0": {"targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "symmetric": True, "group_size": 128}}},
    "ignore": ["lm_head"]}
FLOATS = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {
    "group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "tensor"},
                "input_activations": {"num_bits": 8, "type": "float", "strategy": "tensor"}}},
    "ignore": ["lm_head"]}
BLOCKS = {**FLOATS, "config_groups": {
    "group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "block",
                            "block_structure": [128, 128]},
                "input_activations": {"num_bits": 8, "type": "float", "strategy": "group",
                                      "group_size": 128, "dynamic": True}}}}
ROUND = {"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "bits": 4,
         "group_size": 128, "sym": True, "data_type": "int", "act_bits": 16}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
       "bnb_4bit_use_double_quant": True}


def listed(quern, tmp_path, config, *words):
    """(layers, problem) of a config, and what is said on stderr. Nothing is compiled: every problem
    must be one that there are kernels for, or is given with its error."""
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = quern("prewarm", "--model", tmp_path / "config.json", "--target", TARGET, "--m", 1,
                 "--jit", "off", "--cache-mode", "off", "--json", *words, status=1)
    problems = [(p["layers"], p["problem" if p["status"] == "QUERN_E_WOULD_COMPILE" else "error"])
                for p in json.loads(done.stdout)["problems"]]
    *notes, last = done.stderr.splitlines()
    assert f"{len(problems)} of {len(problems)} problems failed" in last
    return problems, notes


def prewarm(quern, tmp_path, config, *words):
    """Problem by layer, of a config whose layers are each of one kind."""
    problems, notes = listed(quern, tmp_path, config, *words)
    assert notes == []
    return {layer: problem for layers, problem in problems for layer in layers.split(", ")}


@pytest.mark.parametrize("config, quantisation, text", [
    (DENSE, GPTQ, "wq=int4 group=64 scale=bf16 zero=u8 a=bf16"),
    (DENSE, AWQ, "wq=int4 group=128 scale=bf16 zero=u8 a=bf16"),
    (DENSE, COMPRESSED, "wq=int4 group=128 scale=bf16 zero=none a=bf16"),
    (DENSE, BNB, "wq=nf4 group=64 scale=nested a=bf16"),
    (DENSE, FLOATS, "wq=fp8 scale=tensor a=fp8 c=bf16"),
    (DENSE, {"quant_method": "fp8", "activation_scheme": "static"}, "wq=fp8 scale=tensor a=fp8"),
    (DENSE, {"quant_method": "fp8", "weight_block_size": [128, 128]},
     "wq=fp8 scale=block128 a=fp8 c=bf16"),
    (DENSE, BLOCKS, "wq=fp8 scale=block128 a=fp8 c=bf16"),
    ({**DENSE, "torch_dtype": "float16"}, {"quant_method": "fp8"}, "a=fp8 c=f16"),
    ({"text_config": DENSE, "model_type": "some_vlm"}, AWQ, "wq=int4 group=128"),
])  # fmt: skip
def test_a_config_as_it_stands(quern, tmp_path, config, quantisation, text):
    problems = prewarm(quern, tmp_path, {**config, "quantization_config": quantisation})
    shapes = {"qkv": (256, 128), "o": (128, 128), "gate_up": (512, 128), "down": (128, 256)}
    plain = "f16" if config.get("torch_dtype") == "float16" else "bf16"
    head = problems.pop("lm_head")  # which is not quantised
    assert head.startswith(f"op=gemm wq=none a={plain} c={plain} n=512 k=128 ")
    assert problems.keys() == shapes.keys()
    for layer, (n, k) in shapes.items():
        assert text in problems[layer] and f"n={n} k={k} " in problems[layer]


def test_experts_of_a_config(quern, tmp_path):
    problems = prewarm(quern, tmp_path, {**MOE, "quantization_config": {**GPTQ, "lm_head": True}})
    assert problems.keys() == {"qkv", "o", "expert gate_up", "expert down", "lm_head"}
    assert problems["expert gate_up"] == (
        "op=moe wq=int4 group=64 scale=bf16 zero=u8 a=bf16 c=bf16 n=384 k=128 bias=0 act=silu_mul "
        "glu=halves experts=8 top_k=2 layout=k8 round=rne")
    assert "n=128 k=192 bias=0 experts=8 top_k=1 " in problems["expert down"]
    # Mixtral's words for the same
    mixtral = {k: v for k, v in MOE.items() if k not in ("num_experts", "moe_intermediate_size")}
    problems = prewarm(quern, tmp_path, {**mixtral, "num_local_experts": 8}, "--wq", "nf4")
    assert "n=512 k=128 " in problems["expert gate_up"] and "gate_up" not in problems
    assert "lm_head" in problems


def test_what_follows_the_experts_of_a_config(quern, tmp_path):
    def gate_up(config, *words):
        made = prewarm(quern, tmp_path, {**MOE, **config}, "--wq", "mxfp4", *words)
        return made["expert gate_up"].split(" bias=")[1].split(" layout")[0]

    assert gate_up({"hidden_act": "silu"}) == "0 act=silu_mul glu=halves experts=8 top_k=2"
    assert gate_up({"hidden_act": "gelu"}) == "0 experts=8 top_k=2"  # the host's work
    assert gate_up({"swiglu_limit": 10.0}) == "0 experts=8 top_k=2"
    oai = {"model_type": "gpt_oss", "num_local_experts": 8, "intermediate_size": 192}
    assert gate_up({**oai, "swiglu_limit": 7.0}) == (
        "1 act=swiglu_oai glu=interleaved experts=8 top_k=2")
    assert gate_up({**oai, "swiglu_limit": 6.5}) == "1 experts=8 top_k=2"
    # others' words for how many experts a token goes to
    for name in ("num_experts_per_token", "experts_per_token", "moe_topk", "moe_k"):
        assert "top_k=3" in gate_up({"num_experts_per_tok": None, name: 3})
    split = prewarm(quern, tmp_path, MOE, "--wq", "none", "--tp", 2)
    assert "n=192 k=128 bias=0 act=silu_mul" in split["expert gate_up/tp2"]
    assert "n=128 k=96 bias=0 experts=8 top_k=1" in split["expert down/tp2"]


def test_experts_that_no_launch_does(quern, tmp_path):
    """They are made as GEMMs of single experts, and why is said; --experts moe makes none."""
    def single(config, *words):
        problems, notes = listed(quern, tmp_path, {**MOE, **config}, *words)
        assert len(notes) == 1 and "made as a GEMM of one expert" in notes[0]
        return {layer: [p for layers, p in problems if layer in layers.split(", ")]
                for layer in ("expert gate_up", "expert down")}, notes[0]

    problems, why = single({"num_experts_per_tok": None})
    assert "op=gemm" in problems["expert gate_up"][0] and "op=gemm" in problems["expert down"][0]
    assert "act=" not in problems["expert gate_up"][0] and "does not say how many experts" in why
    problems, why = single({"num_experts": 2000})
    assert "op=gemm" in problems["expert down"][0] and "experts=2000; op=moe expects 1 to" in why
    problems, why = single({}, "--exact", "batch_invariant")
    assert "exact=batch" in problems["expert down"][0] and "exact does not apply to op=moe" in why
    # of one layer one expert is left as it is, of the other all
    mixed = compressed("lm_head", "re:.*layers.0.*experts.7.down_proj", "re:.*layers.1.*down_proj")
    problems, why = single({"moe_intermediate_size": 256, "quantization_config": mixed})
    assert [p.split(" group")[0].split(" a=")[0] for p in problems["expert down"]] == [
        "op=gemm wq=int4", "op=gemm wq=none", "op=moe wq=none"]
    assert "op=moe wq=int4" in problems["expert gate_up"][0]
    assert ": expert down: made" in why and "not quantised alike" in why
    # asked for
    made = prewarm(quern, tmp_path, MOE, "--wq", "none", "--experts", "gemm")
    assert "op=gemm" in made["expert gate_up"] and "n=384 k=128 bias=0 layout" in (
        made["expert gate_up"])
    (tmp_path / "config.json").write_text(json.dumps({**MOE, "num_experts_per_tok": None}))
    words = ["--model", tmp_path, "--target", TARGET, "--wq", "none", "--m", 1]
    done = quern("prewarm", *words, "--experts", "moe", "--json", status=3)
    left = [p for p in json.loads(done.stdout)["problems"] if "error" in p]
    assert [p["layers"] for p in left] == ["expert gate_up", "expert down"]
    assert all("does not say how many experts" in p["error"] for p in left)
    quern.refused("prewarm", "wq=nf4 n=64 k=64 a=bf16", "--target", TARGET, "--experts", "moe",
                  status=2, says="--experts goes with --model")
    (tmp_path / "config.json").write_text(json.dumps({**MOE, "num_experts_per_tok": 9}))
    quern.refused("prewarm", *words, status=1, says=["'num_experts_per_tok' is 9", "from 1 to 8"])


def test_shared_experts_of_a_config(quern, tmp_path):
    # Qwen2's width, DeepSeek's number, and others' words; all have dense layers besides
    qwen2 = {**MOE, "shared_expert_intermediate_size": 320, "mlp_only_layers": [0]}
    deepseek = {**MOE, "n_shared_experts": 2, "first_k_dense_replace": 1}
    listed = {**MOE, "num_shared_experts": 2, "moe_layer_freq": [0, 1]}
    kinds = {**MOE, "num_shared_experts": 1, "mlp_layer_types": ["sparse", "dense"]}
    for config, width in ((qwen2, 320), (deepseek, 384), (listed, 384), (kinds, 192)):
        problems = prewarm(quern, tmp_path, config, "--wq", "none")
        assert problems.keys() == {"qkv", "o", "gate_up", "down", "expert gate_up", "expert down",
                                   "shared gate_up", "shared down", "lm_head"}
        assert f"n={2 * width} k=128 " in problems["shared gate_up"]
        assert f"n=128 k={width} " in problems["shared down"]
    problems = prewarm(quern, tmp_path, {**MOE, "decoder_sparse_step": 2}, "--wq", "none")
    assert "gate_up" in problems and "shared gate_up" not in problems


MLA = {"kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 40,
       "q_lora_rank": None, "num_attention_heads": 4, "num_key_value_heads": 4}


def test_attention_through_a_latent(quern, tmp_path):
    def shapes(config, *words):
        made = prewarm(quern, tmp_path, {**DENSE, "head_dim": None, **config}, "--wq", "none",
                       *words)
        return {layer: tuple(int(word.split("=")[1]) for word in problem.split()
                             if word[:2] in ("n=", "k=")) for layer, problem in made.items()}

    whole = {"q": (192, 128), "kv_a": (80, 128), "kv_b": (288, 64), "o": (128, 160)}
    rest = {"gate_up": (512, 128), "down": (128, 256), "lm_head": (512, 128)}
    assert shapes(MLA) == {**whole, **rest}
    squeezed = {"qkv_a": (176, 128), "q_b": (192, 96), "kv_b": (288, 64), "o": (128, 160)}
    assert shapes({**MLA, "q_lora_rank": 96}) == {**squeezed, **rest}
    # what is squeezed is every GPU's
    halves = shapes({**MLA, "q_lora_rank": 96}, "--tp", "2")
    assert {halves[f"{layer}/tp2"] for layer in squeezed} == {(176, 128), (96, 96), (144, 64),
                                                               (128, 80)}


@pytest.mark.parametrize("config, biased", [
    ({"attention_bias": True}, {"qkv", "o"}),
    ({"attention_bias": True, "model_type": "glm4"}, {"qkv"}),
    ({"mlp_bias": True}, {"gate_up", "down"}),
    ({"model_type": "qwen2"}, {"qkv"}),
    ({"model_type": "qwen2_moe", "qkv_bias": False}, set()),
    ({"use_bias": True}, {"qkv", "o", "gate_up", "down"}),
    ({"use_qkv_bias": True, "model_type": "stablelm"}, {"qkv"}),
    ({"attention_bias": True, "attention_out_bias": False, "model_type": "seed_oss"}, {"qkv"}),
])  # fmt: skip
def test_biases_of_a_config(quern, tmp_path, config, biased):
    problems = prewarm(quern, tmp_path, {**DENSE, **config, "quantization_config": AWQ})
    assert {layer for layer, problem in problems.items() if "bias=1" in problem} == biased
    if config == {"mlp_bias": True}:  # an option is for all layers
        problems = prewarm(quern, tmp_path, {**DENSE, **config}, "--wq", "none", "--bias", 0)
        assert not any("bias=1" in problem for problem in problems.values())


def test_the_type_that_bitsandbytes_computes_in(quern, tmp_path):
    config = {**DENSE, "quantization_config": {**BNB, "bnb_4bit_compute_dtype": "float16"}}
    assert "a=f16 c=f16" in prewarm(quern, tmp_path, config)["o"]


def test_options_go_before_the_config(quern, tmp_path):
    config = {**DENSE, "quantization_config": AWQ}
    assert "zero=scaled" in prewarm(quern, tmp_path, config, "--zero", "scaled")["o"]
    floats = {**DENSE, "quantization_config": FLOATS}
    four = prewarm(quern, tmp_path, floats, "--wq", "nf4")
    assert "wq=nf4 group=64 scale=f32 a=bf16" in four["o"]
    fnuz = prewarm(quern, tmp_path, floats, "--wq", "fp8fnuz")
    assert "wq=fp8fnuz scale=tensor a=fp8fnuz c=bf16" in fnuz["o"] and "wq=none" in fnuz["lm_head"]
    assert "wq=fp8 scale=tensor a=f16 c=f16" in prewarm(quern, tmp_path, floats, "--a", "f16")["o"]
    other = prewarm(quern, tmp_path, config, "--wq", "nf4")
    assert "wq=nf4 group=64 scale=f32 a=bf16" in other["o"] and "lm_head" in other


@pytest.mark.parametrize("change, says", [
    ({"quantization_config": {**GPTQ, "bits": 3}}, "bits 3"),
    ({"quantization_config": {"quant_method": "hqq"}}, "quant_method hqq"),
    ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 128]}},
     "128 by 128 in problems (scale=block128), not what weight_block_size says, [64,128]"),
    ({"quantization_config": {**BLOCKS, "config_groups": {"group_0": {
        "weights": {"num_bits": 8, "type": "float", "strategy": "block",
                    "block_structure": [128, 64]}}}}}, "block_structure [128,64]"),
    ({"quantization_config": {**BLOCKS, "config_groups": {"group_0": {
        "weights": {"num_bits": 8, "type": "float", "strategy": "block",
                    "block_structure": "128x128"},
        "input_activations": {"strategy": "token"}}}}}, "input_activations of strategy token"),
    ({"quantization_config": {**FLOATS, "config_groups": {"group_0": {
        "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}}}, "channel"),
    ({"quantization_config": {**FLOATS, "config_groups": {"group_0": {
        "weights": {"num_bits": 4, "type": "float", "strategy": "tensor"}}}}}, "num_bits 4"),
    ({"quantization_config": {**BNB, "load_in_4bit": False}}, "load_in_4bit"),
    ({"quantization_config": 7}, "'quantization_config' is 7"),
    ({"quantization_config": {**GPTQ, "group_size": "many"}}, "'group_size' is \"many\""),
    ({"quantization_config": {**GPTQ, "group_size": -2}}, "'group_size' is -2"),
    ({"quantization_config": {**AWQ, "group_size": None}}, "'group_size' is missing"),
    ({"quantization_config": {**GPTQ, "sym": "False"}}, "'sym' is \"False\"; it must be true or"),
    ({"quantization_config": {**AWQ, "zero_point": 1}}, "'zero_point' is 1"),
    ({"quantization_config": {**COMPRESSED, "config_groups": {"group_0": {
        "weights": {"num_bits": 4, "type": "int", "symmetric": "no", "group_size": 128}}}}},
     "'symmetric' is \"no\""),
    ({"quantization_config": {**COMPRESSED, "config_groups": {"group_0": {
        "weights": {"num_bits": 4, "type": "int", "strategy": "group"}}}}},
     "'group_size' is missing"),
    ({"quantization_config": {**ROUND, "bits": 2}}, "bits 2"),
    ({"quantization_config": {**ROUND, "data_type": "mx_fp"}}, 'data_type "mx_fp"'),
    ({"quantization_config": {**ROUND, "act_bits": 8}}, "act_bits 8"),
    ({"quantization_config": {**ROUND, "packing_format": "auto_round:llm_compressor"}},
     "packing_format auto_round:llm_compressor"),
    ({"quantization_config": {**ROUND, "block_name_to_quantize": 7}},
     "'block_name_to_quantize' is 7; it must be a list of names"),
    ({"quantization_config": {**BNB, "bnb_4bit_quant_type": 4}},
     "'bnb_4bit_quant_type' is 4; it must be \"nf4\" or \"fp4\""),
    ({"quantization_config": {**BNB, "bnb_4bit_quant_type": "nf5"}},
     "'bnb_4bit_quant_type' is \"nf5\"; it must be"),
    ({"quantization_config": {**BNB, "bnb_4bit_use_double_quant": "yes"}},
     "'bnb_4bit_use_double_quant' is \"yes\"; it must be true or false"),
    ({"num_experts": 8, "mlp_only_layers": "0"},
     "'mlp_only_layers' is \"0\"; it must be a list of numbers of layers"),
    ({"num_experts": 8, "mlp_only_layers": [0, "1"]}, "'mlp_only_layers' is [0,\"1\"]; it must"),
    ({"num_experts": 8, "first_k_dense_replace": [1]},
     "'first_k_dense_replace' is [1]; it must be an integer from 0"),
    ({"num_experts": 8, "moe_layer_start_index": "1"}, "'moe_layer_start_index' is \"1\""),
    ({"num_experts": 8, "decoder_sparse_step": 1.5}, "'decoder_sparse_step' is 1.5"),
    ({"num_experts": 8, "moe_layer_freq": "all"},
     "'moe_layer_freq' is \"all\"; it must be a list of 0 and 1, one for each layer"),
    ({"num_experts": 8, "mlp_layer_types": ["dense", 1]},
     "'mlp_layer_types' is [\"dense\",1]; it must be a list of kinds of layers"),
    ({"q_lora_rank": 1536}, "'kv_lora_rank'"),
    ({**MLA, "v_head_dim": 0}, "'v_head_dim' is 0"),
    ({**MLA, "qk_nope_head_dim": 2**29}, "heads (qk_nope_head_dim + qk_rope_head_dim)"),
    ({**MLA, "index_n_heads": 64}, "'index_n_heads'"),
    ({"layer_types": ["full_attention", "linear_attention"]}, 'has "linear_attention"'),
    ({"linear_num_key_heads": 16}, "'linear_num_key_heads'"),
    ({"linear_attn_config": {"kda_layers": [1]}}, "'linear_attn_config'"),
    ({"hybrid_layer_pattern": [0, 1]}, "'hybrid_layer_pattern'"),
    ({"attn_type_list": [1, 0]}, "'attn_type_list' has 0"),
    ({"num_experts": 8, "n_shared_experts": 2**28}, "size of shared experts"),
    ({"quantization_config": {**COMPRESSED, "config_groups": {"group_0": {
        **COMPRESSED["config_groups"]["group_0"], "input_activations": {"num_bits": 8}}}}},
     "input_activations"),
    ({"quantization_config": {"quant_method": "quark", "global_quant_config": {
        "weight": {"dtype": "fp4"}}}}, "weight of dtype fp4"),
    ({"quantization_config": {"quant_method": "quark", "global_quant_config": {
        "weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel"}}}}, "qscheme per_channel"),
    ({"hidden_size": -1}, "'hidden_size'"),
    ({"vocab_size": None}, "'vocab_size'"),
    ({"head_dim": None, "num_attention_heads": 3}, "multiple of 'num_attention_heads'"),
    ({"model_type": "a\x1b"}, "control character"),
])  # fmt: skip
def test_bad_configs(quern, tmp_path, change, says):
    (tmp_path / "config.json").write_text(json.dumps({**DENSE, **change}))
    quern.refused("prewarm", "--model", tmp_path / "config.json", "--target", TARGET, "--wq",
                  "nf4", status=1, says=says)


def test_a_directory(quern, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**DENSE, "quantization_config": AWQ}))
    words = ["--target", TARGET, "--m", 1, "--jit", "off", "--cache-mode", "off", "--json"]
    done = [quern("prewarm", "--model", path, *words, status=1).stdout
            for path in (tmp_path, tmp_path / "config.json")]
    assert [json.loads(text)["model"] for text in done] == ["qwen3", "qwen3"]
    (tmp_path / "empty").mkdir()
    quern.refused("prewarm", "--model", tmp_path / "empty", "--target", TARGET, status=1,
                  says="empty is a directory without config.json")
    quern.refused("inspect", tmp_path / "empty", status=1, says="is a directory without "
                  "model.safetensors.index.json or model.safetensors")


@pytest.mark.parametrize("name, beside, method, text", [
    ("quantize_config.json", {"bits": 4, "group_size": 64, "sym": False, "desc_act": True,
                              "damp_percent": 0.01, "model_name_or_path": None},
     "gptq", "wq=int4 group=64 scale=bf16 zero=u8"),
    ("quantize_config.json", {"bits": 4, "group_size": -1, "sym": True, "quant_method": "gptq"},
     "gptq", "wq=int4 group=channel scale=bf16 zero=none"),
    ("quantize_config.json", {"bits": 4, "group_size": 128, "zero_point": True},
     "awq", "wq=int4 group=128 scale=bf16 zero=u8"),
    ("quant_config.json", {"zero_point": True, "q_group_size": 128, "w_bit": 4, "version": "GEMM"},
     "awq", "wq=int4 group=128 scale=bf16 zero=u8"),
    ("quantization_config.json", ROUND, "auto-round", "wq=int4 group=128 scale=bf16 zero=none"),
])  # fmt: skip
def test_a_file_beside_the_config(quern, tmp_path, name, beside, method, text):
    (tmp_path / name).write_text(json.dumps(beside))
    problems, notes = listed(quern, tmp_path, DENSE)
    assert all(text in problem for layers, problem in problems if layers != "lm_head")
    assert len(problems) == 5 and "wq=none" in dict(problems)["lm_head"]
    (line,) = notes
    assert f"config.json has no quantization_config; {tmp_path / name} is read instead" in line
    assert line.endswith(f" of quant_method {method}")
    # config.json goes before it
    problems, notes = listed(quern, tmp_path, {**DENSE, "quantization_config": BNB})
    assert "wq=nf4" in problems[0][1] and notes == []
    # and of its own faults it is named
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    for wrong in ({"bits": 3, "w_bit": 3}, {"group_size": "x", "q_group_size": "x"}):
        (tmp_path / name).write_text(json.dumps({**beside, **wrong}))
        done = quern("prewarm", "--model", tmp_path, "--target", TARGET, status=1)
        assert f"{tmp_path / name}: quantization_config: " in done.stderr.splitlines()[1]
    (tmp_path / name).write_text("{")
    quern.refused("prewarm", "--model", tmp_path, "--target", TARGET, status=1,
                  says=f"{name} is not JSON")
    # a file of another name has none beside it
    (tmp_path / "other.json").write_text(json.dumps(DENSE))
    done = quern("prewarm", "--model", tmp_path / "other.json", "--target", TARGET, "--m", 1,
                 "--jit", "off", "--cache-mode", "off", "--json", status=1)
    assert "wq=none" in done.stdout and "wq=int4" not in done.stdout


def test_manifests_still_go(warm):
    made = warm.json("prewarm", "--model", TOP / "cache/models/qwen3-0.6b.json", "--target", TARGET,
                     "--m", 1, "--wq", "int4", "--a", "f16")
    assert len(made["problems"]) >= 4


# ---- Layers that are not quantised, or otherwise ----

INT4, FP8, NONE, NF4 = "wq=int4 group=128", "wq=fp8 scale=tensor", "wq=none a=bf16", "wq=nf4"


def kinds(quern, tmp_path, config, *words):
    """The beginnings of problems, behind the op, by layer: a layer may be of several kinds."""
    problems, notes = listed(quern, tmp_path, config, *words)
    found = {}
    for layers, problem in problems:
        for layer in layers.split(", "):
            found.setdefault(layer, []).append(re.sub("^op=(gemm|moe) ", "", problem))
    return found, notes


def check(quern, tmp_path, config, expected, *words):
    """`expected`: the beginning of each layer's problem, or of its problems in order."""
    found, notes = kinds(quern, tmp_path, config, *words)
    assert [note for note in notes if "experts are not quantised alike" not in note] == []
    assert found.keys() == expected.keys()
    for layer, starts in expected.items():
        starts = [starts] if isinstance(starts, str) else starts
        assert len(found[layer]) == len(starts), (layer, found[layer])
        for problem, start in zip(found[layer], starts):
            assert problem.startswith(start), (layer, problem)


def compressed(*ignore, **weights):
    return {**COMPRESSED, "ignore": list(ignore), "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {**COMPRESSED["config_groups"]["group_0"]["weights"],
                                           **weights}}}}


EIGHT = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}
QUARK = {"quant_method": "quark", "global_quant_config": {"weight": EIGHT, "input_tensors": EIGHT}}
ALL = {"qkv": INT4, "o": INT4, "gate_up": INT4, "down": INT4, "lm_head": NONE}
EXPERTS = {"qkv": INT4, "o": INT4, "expert gate_up": INT4, "expert down": INT4, "lm_head": NONE}
MOE128 = {**MOE, "moe_intermediate_size": 256}
MIXTRAL = {**DENSE, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
GPTQ128 = {**GPTQ, "group_size": 128}
UNQUANTISED = [
    # one group a row, by its name alone
    (DENSE, compressed("lm_head", strategy="channel", group_size=None),
     {**dict.fromkeys(("qkv", "o", "gate_up", "down"), "wq=int4 group=channel"), "lm_head": NONE}),
    # the head is a Linear too
    (DENSE, compressed(), {**ALL, "lm_head": INT4}),
    (DENSE, compressed("re:.*lm_head"), ALL),
    (DENSE, compressed("lm_head", "re:.*self_attn.*"), {**ALL, "qkv": NONE, "o": NONE}),
    (DENSE, compressed("lm_head", "model.layers.1.mlp.down_proj"), {**ALL, "down": [INT4, NONE]}),
    (DENSE, compressed("lm_head", "model.layers.1.self_attn.qkv_proj"),
     {**ALL, "qkv": [INT4, NONE]}),  # as vLLM calls the three
    # a fused layer whose parts differ is none
    (DENSE, compressed("lm_head", "re:.*v_proj$"),
     {"q": INT4, "k": INT4, "v": NONE, **{k: v for k, v in ALL.items() if k != "qkv"}}),
    (DENSE, compressed("lm_head", "model.layers.0.mlp.up_proj"),
     {"qkv": INT4, "o": INT4, "gate": INT4, "up": NONE, "gate_up": INT4, "down": INT4,
      "lm_head": NONE}),
    (MOE128, compressed("lm_head", "re:.*mlp.gate$", "re:.*shared_expert_gate"), EXPERTS),
    (MOE128, compressed("lm_head", "re:.*experts.7.down_proj"),
     {**EXPERTS, "expert down": [INT4, NONE]}),
    (MOE128, compressed("lm_head", "re:.*mlp.experts.*"),
     {**EXPERTS, "expert gate_up": NONE, "expert down": NONE}),
    # only what the list of layers with experts has is dense, or has experts
    ({**MOE128, "first_k_dense_replace": 1}, compressed("lm_head", "re:.*layers.0.*"),
     {"qkv": [NONE, INT4], "o": [NONE, INT4], "gate_up": NONE, "down": NONE,
      "expert gate_up": INT4, "expert down": INT4, "lm_head": NONE}),
    (MIXTRAL, compressed("lm_head", "re:.*block_sparse_moe.gate", "re:.*layers.1.*w2"),
     {**EXPERTS, "expert down": [INT4, NONE]}),
    ({**DENSE, "model_type": "phi3"}, compressed("lm_head", "model.layers.0.self_attn.qkv_proj"),
     {**ALL, "qkv": [NONE, INT4]}),
    # a text model in another, by both ways to name it
    ({"text_config": DENSE, "model_type": "x"},
     compressed("lm_head", "re:vision_tower.*", "language_model.model.layers.0.mlp.down_proj",
                "model.language_model.layers.1.self_attn.o_proj"),
     {**ALL, "o": [INT4, NONE], "down": [NONE, INT4]}),
    ({"text_config": {**DENSE, "quantization_config": compressed("lm_head")}, "model_type": "x"},
     None, ALL),
    # parts of names
    (DENSE, {**AWQ, "modules_to_not_convert": ["self_attn", "layers.1.mlp"]},
     {**ALL, "qkv": NONE, "o": NONE, "gate_up": [INT4, NONE], "down": [INT4, NONE]}),
    (MOE128, {**AWQ, "modules_to_not_convert": ["gate"]}, EXPERTS),  # the routers alone
    ({**DENSE, "vision_config": {}}, {**AWQ, "modules_to_not_convert": ["visual"]}, ALL),
    (DENSE, {**AWQ, "lm_head": True}, {**ALL, "lm_head": INT4}),
    (DENSE, {**GPTQ128, "modules_to_not_convert": ["down_proj"]}, {**ALL, "down": NONE}),
    (DENSE, {**GPTQ128, "modules_in_block_to_quantize": [["self_attn.q_proj", "self_attn.k_proj",
                                                          "self_attn.v_proj"], ["mlp.down_proj"]]},
     {**ALL, "o": NONE, "gate_up": NONE}),
    # GPTQModel's: the first that matches counts
    (DENSE, {**GPTQ128, "lm_head": True, "dynamic": {
        "-:.*down": {}, "+:.*\\.(?:1|2[0-9])\\..*": {"group_size": 32, "desc_act": True},
        ".*self_attn": {"sym": True}}},
     {"qkv": [INT4 + " scale=bf16 zero=none", "wq=int4 group=32 scale=bf16 zero=u8"],
      "o": [INT4 + " scale=bf16 zero=none", "wq=int4 group=32 scale=bf16 zero=u8"],
      "gate_up": [INT4 + " scale=bf16 zero=u8", "wq=int4 group=32"], "down": NONE,
      "lm_head": INT4}),
    # AutoRound's
    (DENSE, {**ROUND, "packing_format": "auto_round:auto_awq", "sym": False},
     {**dict.fromkeys(ALL, INT4 + " scale=bf16 zero=u8"), "lm_head": NONE}),
    (DENSE, {**ROUND, "extra_config": {
        "lm_head": {"bits": 4, "group_size": 32}, "model.layers.1.mlp.down_proj": {"bits": 16},
        "model.layers.0.self_attn.o_proj": {"bits": None, "sym": False}}},
     {**ALL, "o": [INT4 + " scale=bf16 zero=u8", INT4 + " scale=bf16 zero=none"],
      "down": [INT4, NONE], "lm_head": "wq=int4 group=32"}),
    (DENSE, {**ROUND, "block_name_to_quantize": "visual.blocks,model.layers.0"},
     {layer: NONE if layer == "lm_head" else [INT4, NONE] for layer in ALL}),
    (DENSE, {**ROUND, "to_quant_block_names": [["model.layers.0"], ["model.layers.1.mlp"]]},
     {**ALL, "qkv": [INT4, NONE], "o": [INT4, NONE]}),
    # words
    (DENSE, {**BNB, "llm_int8_skip_modules": ["lm_head", "multi_modal_projector",
                                              "model.layers.1.self_attn", "down_proj"]},
     {"qkv": [NF4, NONE], "o": [NF4, NONE], "gate_up": NF4, "down": NONE, "lm_head": NONE}),
    (DENSE, {**BNB, "bnb_4bit_compute_dtype": "float16"},  # what is left is in the model's type
     {"qkv": NF4 + " group=64 scale=nested a=f16", "o": NF4, "gate_up": NF4, "down": NF4,
      "lm_head": NONE}),
    (DENSE, {"quant_method": "fp8", "ignored_layers": ["model.layers.0.self_attn.o_proj"]},
     {"qkv": FP8, "o": [NONE, FP8], "gate_up": FP8, "down": FP8, "lm_head": NONE}),
    # AMD's Quark: k_proj and v_proj are said again for what they leave in the cache
    (DENSE, {**QUARK, "exclude": ["lm_head", "re:.*layers.1.*down_proj"], "layer_quant_config": {
        "*k_proj": QUARK["global_quant_config"], "model.layers.?.self_attn.o*": {
            **QUARK["global_quant_config"], "input_tensors": None}}},
     {"qkv": FP8 + " a=fp8 c=bf16", "o": FP8 + " a=bf16", "gate_up": FP8, "down": [FP8, NONE],
      "lm_head": NONE}),
    # gpt-oss: nothing but experts
    ({**MIXTRAL, "model_type": "gpt_oss", "attention_bias": True},
     {"quant_method": "mxfp4", "modules_to_not_convert": [
         "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},
     {"qkv": NONE, "o": NONE, "expert gate_up": "wq=mxfp4", "expert down": "wq=mxfp4",
      "lm_head": NONE}),
    # several groups, the first that names a layer; without one it is not quantised
    (DENSE, {**COMPRESSED, "config_groups": {
        "attention": {"targets": ["re:.*self_attn.*"], **FLOATS["config_groups"]["group_0"]},
        "down": {"targets": ["model.layers.1.mlp.down_proj"],
                 "weights": {"num_bits": 4, "type": "int", "group_size": 32}}}},
     {"qkv": FP8 + " a=fp8 c=bf16", "o": FP8, "gate_up": NONE,
      "down": [NONE, "wq=int4 group=32"], "lm_head": NONE}),
    (DENSE, {**COMPRESSED, "config_groups": {
        "others": compressed()["config_groups"]["group_0"],
        "down": {"targets": ["re:.*down_proj"],
                 "weights": {"num_bits": 4, "type": "int", "group_size": 32}}}},
     {**ALL, "down": "wq=int4 group=32"}),
]  # fmt: skip


@pytest.mark.parametrize("config, quantisation, expected", UNQUANTISED)
def test_layers_that_are_not_quantised(quern, tmp_path, config, quantisation, expected):
    more = {"quantization_config": quantisation} if quantisation else {}
    check(quern, tmp_path, {**config, **more}, expected)


PATTERNS = [
    "", "lm_head", ".*lm_head", r"model\.", "odel", ".*mlp.(gate|up)_proj$", ".*mlp.gate$",
    "model$", r".*\.[qk]_proj", r".*\bmlp\b", r"[\w.]+_proj\Z", r".*?o_proj",
    r"(?P<x>model)\.layers\.\d+\..*v", r"model\.layers\.(?!0\.).*", r"(?=.*mlp)(?!.*gate).*",
    "|lm", "lm|.*up|x", "(.*l)*.*down_proj", "(x*)*m", r".*layers\.[^1-9]{1}\.s",
    r".*layers\.\d{2,}", r".*layers\.[0-9]{0,3}?\.mlp", "()*m", "(?:m|mo)*del", "(|m)+odel.*q",
    r"[]m]odel.*k_", r"[^l]+l\.", r".*\Bproj", r".*\W[a-d]", r".*(?<=mlp\.)\w+_proj$",
    r"(?i)LM_head", r"(?:.*?(\.)){2}.*\1o_proj", r"(?x) model .* v_ # values",
]  # fmt: skip


def test_regular_expressions_are_pythons(quern, tmp_path):
    layers = {"qkv": "self_attn.{}_proj", "o": "self_attn.o_proj", "down": "mlp.down_proj",
              "gate_up": "mlp.{}_proj"}
    parts = {"qkv": ["q", "k", "v"], "gate_up": ["gate", "up"]}
    names = {part: "model.layers.0." + layers[layer].format(part)
             for layer in layers for part in parts.get(layer, [layer])} | {"lm_head": "lm_head"}
    for pattern in PATTERNS:
        plain = {part for part, name in names.items() if re.match(pattern, name)}
        found, _ = kinds(quern, tmp_path, {**DENSE, "num_hidden_layers": 1, "quantization_config":
                                           {**FLOATS, "ignore": ["re:" + pattern]}})
        assert {part for layer, (problem,) in found.items() for part in parts.get(layer, [layer])
                if "wq=none" in problem} == plain, pattern


def test_what_is_not_understood_is_said(quern, tmp_path):
    def notes(quantisation, *says):
        _, said = listed(quern, tmp_path, {**DENSE, "quantization_config": quantisation})
        assert len(said) == len(says), said
        for line, text in zip(said, says):
            assert "config.json: quantization_config: " + text in line

    notes(compressed("lm_head", 7, ""), "'ignore' has 7, which is not heeded",
          "'ignore' has \"\", which")
    for pattern, why in (("(", "missing closing parenthesis, at character 1"),
                         ("a**", "does not follow"), ("x)", "unmatched closing"),
                         ("[x", "missing terminating"), ("*", "does not follow"),
                         (r"\1", "non-existent"),
                         ("a{99999}", "number too big"), ("[z-a]", "range out of order"),
                         ("x{,3}", "without its least number"), ("(" * 999 + ")" * 999, "nested"),
                         ("x" * 5000, "more than 4096")):
        _, (line,) = listed(quern, tmp_path, {**DENSE, "quantization_config": compressed(
            "lm_head", "re:" + pattern)})
        assert "'ignore' has \"re:" in line and "the pattern: " in line and why in line
    notes(compressed("gate_proj", "lm_head", "down_proj"),
          "'ignore' has \"gate_proj\" and 1 more, which name no layer here")
    notes({**AWQ, "modules_to_not_convert": "all"}, "'modules_to_not_convert' has \"all\"")
    # no more than what is left out
    notes({**GPTQ128, "dynamic": {".*down.*": {"group_size": 32, "rank": 8, "": 1}}},
          "'dynamic' has {\"rank\":8,\"\":1}, which is not heeded: bits, group_size and sym of")
    notes({**GPTQ128, "dynamic": {".*down.*": 8}}, "'dynamic' has 8")
    notes({**ROUND, "extra_config": {"model.layers.0.mlp.down_proj": 8}}, "'extra_config' has 8")
    notes({**ROUND, "extra_config": [8]}, "'extra_config' has [8]")
    notes({**GPTQ128, "dynamic": [8]}, "'dynamic' has [8]")
    notes({**COMPRESSED, "config_groups": {"group_0": {**COMPRESSED["config_groups"]["group_0"],
                                                       "targets": ["Linear", "Conv2d"]}}},
          "'targets' has \"Conv2d\"")


def refuse(quern, tmp_path, says, *words, status=1, **config):
    (tmp_path / "config.json").write_text(json.dumps({**MOE128, **config}))
    quern.refused("prewarm", "--model", tmp_path / "config.json", "--target", TARGET, *words,
                  status=status, says=says)


@pytest.mark.numbers  # of steps: those where they are slow take seconds
def test_regular_expressions_that_would_take_ages(quern, tmp_path):
    for pattern in ("((.*)*)*[A-Z]", "(" * 60 + "|.|" + ")*" * 60 + "[A-Z]"):
        begins = f"take too long to compare; 'ignore' has \"re:{pattern[:12]}"
        refuse(quern, tmp_path, begins, quantization_config=compressed("lm_head", "re:" + pattern))


def test_too_many_layers(quern, tmp_path):
    def refused(says, **config):
        refuse(quern, tmp_path, says, **config)

    refused("layers of 65536 experts", num_experts=65536, num_hidden_layers=10000,
            quantization_config=compressed())
    refused("'num_hidden_layers' is 10001; it must be an integer from 1 to 10000",
            num_hidden_layers=10001)
    refused("'num_experts' is 65537", num_experts=65537)


def test_inspect_points_to_prewarm(quern, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    for path in (tmp_path / "config.json", "config.json"):
        quern.refused("inspect", path, status=2, says="quern prewarm --model makes its kernels",
                      prefix=("env", "-C", tmp_path))


# ---- Layers that cannot be made ----


def test_other_layers_are_made(warm, tmp_path):
    """K of one layer is no multiple of the group: that is said, the rest is made and verified."""
    config = {**DENSE, "intermediate_size": 192, "quantization_config": AWQ}
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = ["prewarm", "--model", tmp_path / "config.json", "--target", TARGET, "--m", 1]
    done = warm(*words, "--verify", "--json", status=3)
    report = json.loads(done.stdout)
    assert (report["failed"], report["runs"], report["runs_ok"]) == (0, 4, 4)
    failed = [p for p in report["problems"] if "error" in p]
    assert [(p["layers"], p["kernels"]) for p in failed] == [("down", [])]
    assert done.stderr.count("\n") == 1
    assert ("1 of 5 problems cannot be made; down: k=192 is not a multiple of group=128; the next "
            "multiple is 256") in done.stderr
    shown = warm(*words, status=3)
    assert "4 from the cache" in shown.stdout and "1 problem cannot be made" in shown.stdout
    # whoever knows that says so
    skipped = warm(*words, "--skip-impossible")
    assert "1 problem cannot be made" in skipped.stdout
    assert "1 of 5 problems cannot be made and are skipped; down: k=192" in skipped.stderr
    # of a manifest too
    (tmp_path / "small.json").write_text(json.dumps({**SMALL_MODEL, "intermediate": 100}))
    done = warm("prewarm", "--model", tmp_path / "small.json", "--target", TARGET, "--m", 1, "--wq",
                "nf4", "--a", "bf16", status=3)
    assert ("1 of 5 problems cannot be made; down: k=100 is not a multiple of group=64"
            in done.stderr)  # fmt: skip
    assert "4 kernels" in done.stdout
    # every reason has its line
    config = {**DENSE, "intermediate_size": 192, "quantization_config": {
        **GPTQ128, "dynamic": {".*(v|o)_proj": {"bits": 8}, ".*down": {"group_size": 64}}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = warm(*words, "--tp", "2", status=3)
    lines = done.stderr.splitlines()
    assert "down/tp2: k=96 is not a multiple of group=64" in lines[0]
    assert ("3 of 6 problems cannot be made; v/tp2, o/tp2: bits 8 is none that problems describe"
            in lines[1])  # fmt: skip


def test_nothing_to_make(quern, tmp_path):
    """Where no layer that is quantised can be made, that is all there is to say."""
    def refused(status, says, *words, **config):
        refuse(quern, tmp_path, says, *words, status=status, **config)

    refused(2, "layer qkv of qwen3_moe: group=48", quantization_config={**GPTQ, "group_size": 48})
    refused(2, "layer qkv of qwen3_moe: ", "--group", 48, quantization_config=GPTQ)
    refused(1, "bits 8", quantization_config={**GPTQ, "dynamic": {".*": {"bits": 8}}})


# ---- Sizes ----


def test_a_model_that_is_not_quantised(quern, tmp_path):
    check(quern, tmp_path, DENSE, dict.fromkeys(ALL, NONE))
    check(quern, tmp_path, DENSE, dict.fromkeys(ALL, NF4), "--wq", "nf4")
    check(quern, tmp_path, DENSE, dict.fromkeys(ALL, "wq=none a=f16"), "--a", "f16")


def test_sizes_that_a_text_config_leaves_out(quern, tmp_path):
    gemma = {"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": 34}}
    llava = {"model_type": "llava", "torch_dtype": "float16",
             "text_config": {"model_type": "llama", "vocab_size": 32064}}
    for config, shapes in (
        (gemma, {"qkv": (4096, 2560), "o": (2560, 2048), "lm_head": (262208, 2560)}),
        (llava, {"qkv": (12288, 4096), "down": (4096, 11008), "lm_head": (32064, 4096)}),
    ):
        problems = prewarm(quern, tmp_path, config)
        for layer, (n, k) in shapes.items():
            assert f" n={n} k={k} " in problems[layer]


def test_the_first_qwen(quern, tmp_path):
    """Whose intermediate_size is that of gate and up together."""
    problems = prewarm(quern, tmp_path, {**DENSE, "model_type": "qwen",
                                         "quantization_config": GPTQ})
    assert " n=256 k=128 " in problems["gate_up"] and " n=128 k=128 " in problems["down"]
    assert {layer for layer, problem in problems.items() if "bias=1" in problem} == {"qkv"}


def test_models_without_a_gate(quern, tmp_path):
    for kind, biased in (("nemotron", set()), ("arcee", set()), ("apertus", set()),
                         ("phi", {"qkv", "o", "up", "down", "lm_head"}),
                         ("gpt_neox", {"qkv", "o", "up", "down"})):
        problems = prewarm(quern, tmp_path, {**DENSE, "model_type": kind,
                                             "quantization_config": GPTQ})
        assert problems.keys() == {"qkv", "o", "up", "down", "lm_head"}
        assert " n=256 k=128 " in problems["up"] and " n=128 k=256 " in problems["down"]
        assert {layer for layer, problem in problems.items() if "bias=1" in problem} == biased
