# SPDX-License-Identifier: MIT
"""Mixtures of experts: kernels of a model's."""

import json

import pytest
from conftest import SMALL_MODEL, TARGET, TOP

WORDS = ["--wq", "nf4", "--a", "bf16", "--target", TARGET]

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
    assert len(notes) == 1 and "expert down for sm_80: exact does not apply" in notes[0]
    # sm_80 has no kernels of plain weights, one expert's or all
    found, notes = ops("none")
    assert {p["status"] for (target, _), p in found.items() if target == TARGET} == {
        "QUERN_E_WOULD_COMPILE"}
    assert {p["error"] for (target, _), p in found.items() if target == "sm_80"} == {
        "no family of kernels takes op=moe wq=none on sm_80"}
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
