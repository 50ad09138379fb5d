# SPDX-License-Identifier: MIT
"""Mixtures of experts: kernels of a model's, and what is found in a checkpoint."""

import json

import pytest
import safetensors
from checkpoint_tensors import SHUFFLED, K, N, awq, bnb, compressed, fp8, gptq
from conftest import SMALL_MODEL, TARGET, TOP

WORDS = ["--wq", "nf4", "--a", "bf16", "--target", TARGET]

# ---- Models ----

MIXTURE = {**SMALL_MODEL, "experts": {"count": 4, "intermediate": 64, "top_k": 2, "shared": 128}}
del MIXTURE["intermediate"]


def test_all_experts_in_one_launch(quern, small_model):
    """Rows of --m are tokens, of which each is two rows for down; shared experts are as others.
    What was made is found again, by a bundle's check too."""
    small_model.write_text(json.dumps(MIXTURE))
    words = ["--model", small_model, *WORDS, "--m", "1-2,5"]
    report = quern.json("prewarm", *words, "--verify")
    made = {p["layers"]: p for p in report["problems"]}
    assert made.keys() == {"qkv, shared gate_up", "o, shared down", "expert gate_up",
                           "expert down", "lm_head"}
    start = "op=moe wq=nf4 group=64 scale=f32 a=bf16 c=bf16 "
    assert made["expert gate_up"]["problem"] == (
        start + "n=128 k=128 bias=0 act=silu_mul glu=halves experts=4 top_k=2 layout=bnb round=rne")
    assert made["expert down"]["problem"] == (
        start + "n=128 k=64 bias=0 experts=4 top_k=1 layout=bnb round=rne")
    assert report["runs_ok"] == report["runs"] > 0
    tokens, rows = ({run["m"] for run in made[f"expert {name}"]["verified"]}
                    for name in ("gate_up", "down"))
    assert (min(tokens), max(tokens), min(rows), max(rows)) == (1, 5, 1, 10)
    again = quern("prewarm", *words)
    assert "all cache hits" in again.stdout
    assert "M of expert down counts the rows of its A" in again.stdout
    bundle = small_model.with_name("kernels.qkb")
    quern("bundle", "create", bundle, "--target", TARGET)
    assert "covers all 5 layers" in quern("bundle", "check", bundle, *words).stdout
    lacks = quern.json("bundle", "check", bundle, *words, "--experts", "gemm", status=1)["lacks"]
    assert [lack["layers"] for lack in lacks] == ["expert down"]
    # what a host asks for whose ops serve up to five tokens, and what it notes
    record = small_model.with_name("layers.txt")
    quern("prewarm", "--model", small_model, *WORDS, "--m", "1-5",
          env={"QUERN_RECORD": str(record)})
    assert "m=1-10 " + made["expert down"]["problem"] in record.read_text()


def test_experts_where_no_launch_does_them(quern, small_model, tmp_path):
    """Words that op=moe does not take, of single experts; what no kernel does at all is left out
    with one reason. Shards are of what is made."""
    small_model.write_text(json.dumps(MIXTURE))
    words = ["prewarm", "--model", small_model, "--a", "bf16", "--m", 1, "--jit", "off",
             "--cache-mode", "off", "--target", f"{TARGET},sm_80",
             "--allow-unverified", "--wq"]

    def ops(*more):
        done = quern(*words, *more, "--json", status=1)
        *notes, _ = done.stderr.splitlines()
        return {(p["target"], p["layers"]): p for p in json.loads(done.stdout)["problems"]
                if "expert" in p["layers"]}, notes

    exact = ["nf4", "--exact", "batch_invariant"]
    found, notes = ops(*exact)
    assert all(p["problem"].startswith("op=gemm") for p in found.values())
    assert [note.split(" as no ")[0] for note in notes] == [
        f"quern prewarm: small for {target}: expert gate_up, expert down: made as a GEMM of one "
        "expert, which a host launches for each," for target in (TARGET, "sm_80")]
    assert all("exact does not apply to op=moe wq=nf4" in note for note in notes)
    found, notes = ops(*exact, "--experts", "moe")
    assert {p["status"] for p in found.values()} == {"QUERN_E_DECLINED"}
    assert notes == []  # each has its reason in the report
    assert "exact does not apply" in found["sm_80", "expert down"]["error"]
    # sm_80 has no kernels of plain weights, one expert's or all
    found, notes = ops("none")
    assert {p["status"] for (target, _), p in found.items() if target == TARGET} == {
        "QUERN_E_WOULD_COMPILE"}
    assert {p["error"] for (target, _), p in found.items() if target == "sm_80"} == {
        "no family of kernels takes op=moe wq=none a=bf16 on sm_80"}
    assert not any("GEMM of one expert" in note for note in notes)
    whole = json.loads(quern(*words, "nf4", "--json", status=1).stdout)["problems"]
    assert sum(p["problem"].startswith("op=moe ") for p in whole) == 4
    parts = [json.loads(quern(*words, "nf4", "--json", "--shard", f"{i}/2", status=1).stdout)
             ["problems"] for i in (1, 2)]
    names = [{(p["target"], p["problem"]) for p in part} for part in (*parts, whole)]
    assert names[0] | names[1] == names[2] and not names[0] & names[1] and all(names)


def test_two_mixtures_that_share_down(quern, small_model, tmp_path):
    """Its rows are those of both: one model's tokens go to two experts, the other's to three."""
    other = tmp_path / "other.json"
    small_model.write_text(json.dumps(MIXTURE))
    other.write_text(json.dumps({**MIXTURE, "name": "other",
                                 "experts": {**MIXTURE["experts"], "top_k": 3}}))
    quern("prewarm", "--model", small_model, "--model", other, *WORDS, "--m", "1,4",
          env={"QUERN_RECORD": str(tmp_path / "layers.txt")})
    rows = {line.split()[1] for line in (tmp_path / "layers.txt").read_text().splitlines()
            if "n=128 k=64 " in line}
    assert rows == {"m=1-3", "m=8-8", "m=12-12"}


MODELS = {  # every mixture of cache/models: layers and their N, K, experts and top_k
    "qwen3-30b-a3b": {"expert gate_up": (1536, 2048, 128, 8), "expert down": (2048, 768, 128, 1)},
    "qwen3-235b-a22b": {"expert gate_up": (3072, 4096, 128, 8),
                        "expert down": (4096, 1536, 128, 1)},
    "gpt-oss-20b": {"expert gate_up": (5760, 2880, 32, 4), "expert down": (2880, 2880, 32, 1)},
    "mixtral-8x7b": {"expert gate_up": (28672, 4096, 8, 2), "expert down": (4096, 14336, 8, 1)},
    "deepseek-v3": {"expert gate_up": (4096, 7168, 256, 8), "expert down": (7168, 2048, 256, 1),
                    "qkv_a": (2112, 7168), "q_b": (24576, 1536), "kv_b": (32768, 512),
                    "o": (7168, 16384), "gate_up": (36864, 7168), "down": (7168, 18432),
                    "shared gate_up": (4096, 7168), "shared down": (7168, 2048),
                    "lm_head": (129280, 7168)},
}


@pytest.mark.parametrize("name", MODELS)
def test_manifests_of_mixtures(quern, name):
    done = quern("prewarm", "--model", TOP / f"cache/models/{name}.json", "--wq", "mxfp4", "--a",
                 "bf16", "--m", "1-8", "--target", TARGET, "--jit", "off", "--cache-mode", "off",
                 "--json", status=1)
    assert done.stderr.count("\n") == 1
    found = {}
    for problem in json.loads(done.stdout)["problems"]:
        assert problem["status"] == "QUERN_E_WOULD_COMPILE"
        words = dict(word.split("=") for word in problem["problem"].split())
        for layer in problem["layers"].split(", "):
            found[layer] = words
    for layer, sizes in MODELS[name].items():
        words = found[layer]
        assert tuple(int(words[key]) for key in ("n", "k", "experts", "top_k")
                     if key in words) == sizes, layer
        assert words["op"] == ("moe" if len(sizes) == 4 else "gemm")
    pairs = found["expert gate_up"]
    oai = name == "gpt-oss-20b"
    assert (pairs["act"], pairs["glu"], pairs["bias"]) == (
        ("swiglu_oai", "interleaved", "1") if oai else ("silu_mul", "halves", "0"))
    assert found["expert down"]["bias"] == ("1" if oai else "0")


@pytest.mark.numbers
@pytest.mark.parametrize("words", ["wq=mxfp4 n=2880 k=2880 experts=32",
                                   "wq=nf4 group=64 n=2048 k=768 experts=128"])
def test_second_layers_of_experts_on_gfx90a(quern, words):
    """Of gpt-oss and Qwen3: the scan refused all of their kernels for one row, in which a matrix
    instruction's result was read a wait state too early where a launch has no routing weights."""
    report = quern.json("prewarm", "--target", "gfx90a", "--m", "1", "--verify",
                        f"op=moe a=bf16 bias=1 top_k=1 {words}")
    assert report["problems"][0]["kernels"]


def test_kernels_of_very_many_rows_are_verified(quern):
    """Down has 70,000 rows of 17,500 tokens with four experts; at most 65,536 can be verified."""
    report = quern.json("prewarm", "op=moe wq=mxfp4 n=16 k=32 a=bf16 experts=4 top_k=1", "--target",
                        TARGET, "--m", 70000, "--verify=ends")
    (run,) = report["problems"][0]["verified"]
    assert run["m"] == 65536 and run["ok"]


def test_instructions_are_counted_for_the_weights_that_are_read(quern):
    """Those of all experts that a token goes to, and of no other."""
    for words, matrices in (("op=moe experts=64 top_k=4 ", 4), ("", 1)):
        report = quern.json("prewarm", words + "wq=mxfp4 n=64 k=512 a=bf16", "--target", TARGET,
                            "--m", 1, "--verify")
        (run,) = report["problems"][0]["verified"]
        slots = run["counts"]["instructions"] - run["counts"]["classes"]["wait"]
        weights = slots * run["counts"]["wave_size"] / run["instructions_per_weight"]
        assert round(weights) == matrices * 64 * 512


# ---- Checkpoints ----

QWEN = ("model.layers.{}.mlp.experts.", "gate_proj", "up_proj", "down_proj")
MIXTRAL = ("model.layers.{}.block_sparse_moe.experts.", "w1", "w3", "w2")
MIXTURES = {"qwen3_moe": {"model_type": "qwen3_moe", "num_experts": 3, "num_experts_per_tok": 2,
                          "hidden_act": "silu"},
            "mixtral": {"model_type": "mixtral", "num_local_experts": 3, "num_experts_per_tok": 2},
            "deepseek_v3": {"model_type": "deepseek_v3", "n_routed_experts": 3,
                            "num_experts_per_tok": 2, "hidden_act": "silu"},
            "gpt_oss": {"model_type": "gpt_oss", "num_local_experts": 3, "swiglu_limit": 7.0,
                        "num_experts_per_tok": 2}}


def test_experts_may_be_drawn_by_zipfs_law(quern):
    """Few of them then have most of the rows, so that fewer have any."""
    words = "op=moe wq=int4 n=64 k=128 a=bf16 experts=128 top_k=2"

    def read(*more):
        report = quern.json("profile", "--target", "gfx1151", "--m", "64", *more, words)
        return {b["name"]: b["bytes_read"] for b in report["launches"][0]["buffers"]}["b"]
    even = read()
    assert read("--choices", "even") == even
    assert 0.3 * even < read("--choices", "zipf") < 0.8 * even
    quern.refused("profile", "--target", "gfx1151", "--m", "1", "--choices", "odd", words,
                  status=2, says=["--choices", "even", "zipf"])


def plain(layer, dtype="BF16"):
    return {f"{layer}.weight": (dtype, [N, K])}


def experts(make, names, layers=1, count=3, **words):
    """The tensors of a model's experts, each matrix made by `make`."""
    prefix, *leaves = names
    return {name: tensor for layer in range(layers) for e in range(count) for leaf in leaves
            for name, tensor in make(f"{prefix.format(layer)}{e}.{leaf}", **words).items()}


def mixture(quern, tmp_path, tensors, config):
    """Problem or reason by layer, and what is said on standard error."""
    safetensors.write(tmp_path / "model.safetensors", tensors)
    if config:
        (tmp_path / "config.json").write_text(json.dumps(MIXTURES.get(str(config), config)))
    done = quern("inspect", tmp_path, "--json")
    (found,) = json.loads(done.stdout)
    return found["layers"], done.stderr


BOTH, ONE = "act=silu_mul glu=halves experts=3 top_k=2", "bias=0 experts=3 top_k={} layout="
STACKED = {  # tensors, names, config → the beginnings of the problems of one and of joined matrices
    "qwen3": (plain, {}, QWEN, "qwen3_moe", "wq=none a=bf16", True),
    "mixtral": (plain, {"dtype": "F16"}, MIXTRAL, "mixtral", "wq=none a=f16", True),
    "gptq": (gptq, {}, MIXTRAL, "mixtral", "wq=int4 group=128 scale=f16 zero=none a=f16", True),
    "awq": (awq, {}, QWEN, "qwen3_moe", "wq=int4 group=32 scale=f16 zero=u8 a=f16", True),
    "compressed": (compressed, {"zero": True}, MIXTRAL, "mixtral",
                   "wq=int4 group=64 scale=bf16 zero=u8 a=bf16", True),
    "bnb": (bnb, {}, QWEN, "deepseek_v3", "wq=nf4 group=64 scale=f32 a=bf16", True),
    # an offset or a scale for each matrix: gate and up stay two
    "nested": (bnb, {"nested": True}, QWEN, "qwen3_moe", "wq=nf4 group=64 scale=nested a=bf16",
               False),
    "fp8": (fp8, {}, MIXTRAL, "mixtral", "wq=fp8 scale=tensor a=bf16", False),
}


@pytest.mark.parametrize("kind", STACKED)
def test_experts_are_one_layer(quern, tmp_path, kind):
    """Of each name of a matrix all experts, or of gate and up both where their tensors can be put
    together; of two layers of the model, and beside what is no expert."""
    make, words, names, config, start, joined = STACKED[kind]
    prefix, gate, up, down = names
    shared = "model.layers.0.mlp.shared_expert.up_proj"
    tensors = experts(make, names, layers=2, **words) | plain(shared)
    layers, said = mixture(quern, tmp_path, tensors, config)
    assert said == ""
    found = {layer.pop("layer"): layer for layer in layers}
    assert "op=gemm" in found.pop(shared)["problem"]
    leaves = [f"{gate}+{up}", down] if joined else [gate, up, down]
    assert found.keys() == {prefix.format(i) + leaf for i in range(2) for leaf in leaves}
    for name, layer in found.items():
        leaf = name.rsplit(".", 1)[1]
        assert layer["experts"] == 3 and not layer["act_order"]
        problem = layer["problem"]
        assert problem.startswith(f"op=moe {start} ")
        assert f" n={2 * N if joined and leaf != down else N} k={K} " in problem
        if joined and leaf != down:
            assert BOTH in problem
        else:
            assert ONE.format(1 if leaf == down else 2) in problem
    shown = quern("inspect", tmp_path).stdout
    assert f"{prefix.format('{0-1}')}{leaves[0]}" in shown and " experts)" not in shown


def test_experts_in_one_tensor(quern, tmp_path):
    """gpt-oss's blocks are operands as they stand: gate and up in turn, with a bias."""
    experts = "model.layers.0.mlp.experts."
    tensors = {f"{experts}gate_up_proj_blocks": ("U8", [3, 128, 2, 16]),
               f"{experts}gate_up_proj_scales": ("U8", [3, 128, 2]),
               f"{experts}gate_up_proj_bias": ("BF16", [3, 128]),
               f"{experts}down_proj_blocks": ("U8", [3, 64, 2, 16]),
               f"{experts}down_proj_scales": ("U8", [3, 64, 2]),
               f"{experts}down_proj_bias": ("BF16", [3, 64])}
    layers, said = mixture(quern, tmp_path, tensors, "gpt_oss")
    start = "op=moe wq=mxfp4 group=32 scale=e8m0 a=bf16 c=bf16"
    assert said == "" and [(x["layer"], x["experts"], x["problem"]) for x in layers] == [
        (f"{experts}down_proj", 3, f"{start} n=64 k=64 bias=1 experts=3 top_k=1 layout=k8 "
         "round=rne"),
        (f"{experts}gate_up_proj", 3, f"{start} n=128 k=64 bias=1 act=swiglu_oai glu=interleaved "
         "experts=3 top_k=2 layout=k8 round=rne")]
    # another bound than the kernels' is the host's work; so is one on what has none elsewhere
    for model, limit in (("gpt_oss", 10.0), ("qwen3_moe", 7.0)):
        layers, _ = mixture(quern, tmp_path, tensors, {**MIXTURES[model], "swiglu_limit": limit})
        assert "bias=1 experts=3 top_k=2" in layers[1]["problem"]
    # transformers 5 writes the experts of all models so, gates first
    plain = {"e.gate_up_proj": ("BF16", [3, 64, 32]), "e.down_proj": ("BF16", [3, 32, 32])}
    layers, _ = mixture(quern, tmp_path, plain, "qwen3_moe")
    assert "n=64 k=32 bias=0 act=silu_mul glu=halves experts=3 top_k=2" in layers[1]["problem"]
    assert "n=32 k=32 bias=0 experts=3 top_k=1" in layers[0]["problem"]


def test_experts_that_no_launch_does(quern, tmp_path):
    """They stay as they were, each for itself, and that is said."""
    def left(tensors, config="qwen3_moe"):
        layers, said = mixture(quern, tmp_path, tensors, config)
        assert (said.count("\n") == 1) == bool(said)
        return {layer["layer"].split("experts.")[1]: layer for layer in layers}, said

    # no config.json says how many of them a token goes to
    layers, said = left(experts(plain, QWEN), None)
    assert len(layers) == 9 and "no config.json beside" in said
    assert all(layer["problem"].startswith("op=gemm ") for layer in layers.values())
    # one is missing, or there are others than the model's
    tensors = experts(plain, QWEN)
    del tensors["model.layers.0.mlp.experts.1.up_proj.weight"]
    layers, said = left(tensors)
    assert layers.keys() == {"0.up_proj", "2.up_proj", "gate_proj", "down_proj"}
    assert "the experts of 1 matrix are shown one by one" in said
    assert ONE.format(2) in layers["gate_proj"]["problem"]
    layers, said = left(experts(plain, QWEN, count=4))
    assert len(layers) == 12 and "3 matrices" in said and "not all of the 3" in said
    # one is in another format
    name = "model.layers.0.mlp.experts.2.down_proj"
    tensors = experts(plain, QWEN)
    del tensors[f"{name}.weight"]
    layers, said = left(tensors | gptq(name))
    assert layers.keys() == {"gate_proj+up_proj", "0.down_proj", "1.down_proj", "2.down_proj"}
    # each expert's columns in an order of their own
    layers, said = left(experts(gptq, MIXTRAL, g_idx=SHUFFLED), "mixtral")
    assert len(layers) == 9 and all(layer["act_order"] for layer in layers.values())
    # DeepSeek-V3: gate and up are one matrix where no block of 128 rows would be of both
    def block(n):
        return {name: tensor for e in range(3) for leaf in QWEN[1:] for name, tensor in {
            f"model.layers.3.mlp.experts.{e}.{leaf}.weight": ("F8_E4M3", [n, K]),
            f"model.layers.3.mlp.experts.{e}.{leaf}.weight_scale_inv":
                ("F32", [-(-n // 128), -(-K // 128)])}.items()}
    layers, said = left(block(N), "deepseek_v3")
    assert layers.keys() == {"gate_proj", "up_proj", "down_proj"}
    assert all("scale=block128" in layer["problem"] for layer in layers.values())
    layers, said = left(block(256), "deepseek_v3")
    assert layers.keys() == {"gate_proj+up_proj", "down_proj"}
    assert "n=512 " in layers["gate_proj+up_proj"]["problem"]
    # a config.json that is wrong
    (tmp_path / "config.json").write_text(json.dumps({**MIXTURES["mixtral"],
                                                      "num_experts_per_tok": 4}))
    quern.refused("inspect", tmp_path, status=1,
                  says=["config.json", "'num_experts_per_tok' is 4", "from 1 to 3"])
