# SPDX-License-Identifier: MIT
"""quern prewarm: what it makes, that it is kept, that many may do it at once."""

import concurrent.futures
import json
import os
import pty
import subprocess

import pytest
from conftest import COMMAND, SMALL_MODEL, TARGET, Quern, cases, clean_environment

WORDS = ["--wq", "nf4", "--a", "bf16", "--target", TARGET]


def problems(report):
    """Layers by (n, k)."""
    found = {}
    for problem in report["problems"]:
        words = dict(word.split("=") for word in problem["problem"].split())
        found[int(words["n"]), int(words["k"])] = problem["layers"]
    return found


def test_layers_of_a_model(quern, small_model):
    report = quern.json("prewarm", "--model", small_model, *WORDS, "--m", "1")
    assert problems(report) == {
        (256, 128): "qkv",
        (128, 128): "o",
        (512, 128): "gate_up, lm_head",
        (128, 256): "down",
    }
    assert report["kernels"] == report["compiled"] == 4 and report["failed"] == 0


def test_what_a_configuration_leaves_open(quern, tmp_path):
    """A config.json without torch_dtype means bf16, as its other readers take it, and that is said;
    a GGUF file is named as what it is."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", **{
        "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2,
        "num_key_value_heads": 2, "num_hidden_layers": 1, "vocab_size": 512}}))
    words = ["prewarm", "--target", TARGET, "--model", config, "--wq", "nf4", "--m", "1"]
    done = quern(*words, "--json")
    assert "names no torch_dtype" in done.stderr
    assert all(" a=bf16 " in p["problem"] for p in json.loads(done.stdout)["problems"])
    assert quern(*words, "--a", "f16").stderr == ""
    config.write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    quern.refused(*words, status=1, says=["is a stub", "(llama)", "hidden_size", "repository"])
    config.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    quern.refused(*words, status=1, says=["a pointer of Git LFS", "git lfs pull"])
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF" + bytes(2 << 20))
    quern.refused("prewarm", "--target", TARGET, "--model", gguf, "--wq", "nf4", "--m", "1",
                  status=1, says=["is a GGUF file", "config.json"])


def test_an_option_given_twice_does_not_win_silently(quern):
    words = ["prewarm", "wq=nf4 n=64 k=128 a=f16", "--m", "1", "--target", TARGET]
    quern.refused(*words, "--target", "gfx942", status=2, says=["--target", TARGET, "gfx942"])
    quern(*words, "--target", TARGET)  # the same value is no contradiction


def test_models_targets_and_splits_in_one_call(quern, small_model, tmp_path):
    """One report of all; a problem that two models share is one."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**SMALL_MODEL, "name": "other", "intermediate": 384}))
    words = ["prewarm", "--model", small_model, "--model", other, "--wq", "nf4", "--a", "bf16",
             "--m", "1", "--tp", "1,2"]
    report = quern.json(*words, "--target", f"{TARGET},gfx942")
    name = SMALL_MODEL["name"]
    assert report["targets"] == [TARGET, "gfx942"] and report["model"] == f"{name}, other"
    by_target = [{p["layers"] for p in report["problems"] if p["target"] == target}
                 for target in report["targets"]]
    assert by_target[0] == by_target[1]
    assert f"{name} o/tp2, other o/tp2" in by_target[0] and "other down/tp2" in by_target[0]
    assert all(p["kernels"] for p in report["problems"]) and report["compiled"] > 0
    again = quern(*words, "--target", f"gfx942,{TARGET}")
    assert "all cache hits" in again.stdout and again.stdout.count(f"{name}, other for ") == 2
    quern.refused(*words, "--target", f"{TARGET},{TARGET}", status=2, says=f"{TARGET} twice")
    quern.refused(*words, "--target", f"{TARGET},gfx1", status=2, says="gfx1")


def test_models_of_one_type_are_told_apart(quern, tmp_path):
    """A config.json has no name but its type: the directories' names tell two of one type apart."""
    config = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
              "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 128}
    words = ["prewarm", "--wq", "nf4", "--a", "bf16", "--m", "1", "--target", TARGET]
    for name, size in (("small", 256), ("large", 384)):
        (tmp_path / name).mkdir()
        config["intermediate_size"] = size
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        words += ["--model", tmp_path / name / ("" if size == 256 else "config.json")]
    report = quern.json(*words)
    assert report["model"] == "small, large"
    layers = ", ".join(p["layers"] for p in report["problems"])
    assert "small down" in layers and "large down" in layers and "llama" not in layers
    assert quern.json(*words[:-2])["model"] == "llama"
    quern.refused(*words[:9], "--model", "meta-llama/Llama-3-8B", status=1,
                  says="if it is a name of the Hugging Face Hub: nothing is downloaded")
    (tmp_path / "config.json").write_text(json.dumps({
        "model_type": "mamba2", "hidden_size": 128, "state_size": 16, "num_hidden_layers": 1,
        "vocab_size": 128}))  # fmt: skip
    quern.refused(*words[:9], "--model", tmp_path / "config.json", status=1,
                  says="model_type mamba2: its layers are no attention ('state_size'); not served")


def test_a_shard_that_cannot_be_is_left_out(quern, small_model):
    """The others are made, the exit status is 3 unless that is accepted, and the report says which
    split is nearest."""
    words = ["prewarm", "--model", small_model, *WORDS, "--m", "1", "--tp", "1,3"]
    done = quern(*words, "--json", status=3)
    report = json.loads(done.stdout)
    left = [p for p in report["problems"] if "error" in p]
    assert [(p["layers"], p["nearest_split"], p["kernels"]) for p in left] == [("all/tp3", 2, [])]
    assert (report["failed"], report["impossible"]) == (0, 1) and report["kernels"] > 0
    says = "--tp 3 does not divide the 2 heads of"
    nearest = "the nearest split that all layers allow is --tp 2"
    assert says in done.stderr and nearest in done.stderr
    assert json.loads(done.stderr)["exit"] == 3
    done = quern(*words, "--skip-impossible")
    assert says in done.stderr and "1 problem cannot be made" in done.stdout
    # a single layer: K of o is 64 for each of four, where a group has 128
    small_model.write_text(json.dumps({**SMALL_MODEL, "heads": 4, "hidden": 256,
                                       "intermediate": 512}))  # fmt: skip
    words[-1] = "4"
    done = quern(*words, "--group", "128", status=3)
    assert "o/tp4: k=64 is not a multiple of group=128" in done.stderr
    assert nearest in done.stderr


def test_a_kernel_for_any_more_rows_says_so(quern):
    words = ["prewarm", "wq=nf4 n=4096 k=4096 a=bf16", "--m", "4096", "--target", "gfx942"]
    kernels = quern.json(*words)["problems"][0]["kernels"]
    assert [k["and_more"] for k in kernels] == [False] * (len(kernels) - 1) + [True]
    assert f" {kernels[-1]['m'][0]}+ " in quern(*words).stdout


def test_what_a_full_cache_spares(quern, tmp_path):
    """Without a compiler, kernels that are there are found; running one on the software GPU takes
    the disassembler, and the message says so."""
    layer = "wq=nf4 n=64 k=128 a=f32"
    (tmp_path / "rocm").mkdir()
    files = {"a": 128 * 4, "b": 64 * 64, "scales": 128 * 4, "c": 0}
    for name, size in files.items():
        (tmp_path / name).write_bytes(bytes(size))
    quern("prewarm", "--target", TARGET, "--m", "1", layer)
    env = {"QUERN_ROCM_PATH": str(tmp_path / "rocm"), "QUERN_JIT": "off"}
    assert quern.json("prewarm", "--target", TARGET, "--m", "1", layer, env=env)["cached"] == 1
    operands = [f"{name}={tmp_path / name}" for name in files]
    run = ["run", "--target", TARGET, "--m", "1", layer, *operands]
    quern.refused(*run, env=env, status=1,
                  says=["a software GPU reads the code", "a GPU needs none", "libamd_comgr.so"])
    quern(*run, env={"QUERN_JIT": "off"})


def test_split_layers(quern, small_model):
    report = quern.json("prewarm", "--model", small_model, *WORDS, "--m", "1", "--tp", "2")
    assert problems(report) == {
        (192, 128): "qkv/tp2",  # one of two heads, and the only key-value head
        (128, 64): "o/tp2",
        (256, 128): "gate_up/tp2, lm_head/tp2",
        (128, 128): "down/tp2",
    }


def test_a_vocabulary_that_does_not_split_is_padded(quern, small_model):
    small_model.write_text(json.dumps({**SMALL_MODEL, "vocabulary": 449}))
    done = quern("prewarm", "--model", small_model, *WORDS, "--m", 1, "--tp", "1,2", "--jit", "off",
                 "--cache-mode", "off", "--json", status=1)
    shapes = problems(json.loads(done.stdout))
    assert (shapes[449, 128], shapes[256, 128]) == ("lm_head", "qkv, gate_up/tp2, lm_head/tp2")


def test_experts(quern, small_model):
    model = {**SMALL_MODEL, "experts": {"count": 4, "intermediate": 64}}
    del model["intermediate"]
    small_model.write_text(json.dumps(model))
    done = quern("prewarm", "--model", small_model, *WORDS, "--m", "1", "--json")
    assert problems(json.loads(done.stdout)) == {
        (256, 128): "qkv",
        (128, 128): "o, expert gate_up",
        (128, 64): "expert down",
        (512, 128): "lm_head",
    }
    assert "does not say how many experts a token goes to" in done.stderr


def test_counters_are_printed(quern):
    words = ["prewarm", "--target", "gfx1151", "--m", "1", "wq=nf4 n=64 k=64 a=bf16"]
    first, second = (quern.json(*words)["counters"] for _ in range(2))
    assert (first["compile_ok"], first["put_ok"], first["hit_disk"]) == (1, 1, 0)
    assert (second["compile_ok"], second["put_ok"], second["hit_disk"]) == (0, 0, 1)
    assert first["compile_ns"] > 0
    lines = quern(*words, "--counters").stdout.splitlines()
    rows = [line.split(maxsplit=2) for line in lines[lines.index(next(
        line for line in lines if line.startswith("counter"))) + 1:]]  # fmt: skip
    assert [row[0] for row in rows] == list(first)
    assert {name: int(value) for name, value, _ in rows} == second
    assert dict((row[0], row[2]) for row in rows)["compile_ok"] == "kernels that the compiler made"


def test_a_second_run_is_all_cache_hits(quern, small_model):
    words = ["prewarm", "--model", small_model, *WORDS, "--m", "1-8", "--verify"]
    first, second = quern.json(*words), quern.json(*words)
    assert first["compiled"] == first["kernels"] > 0
    assert (second["compiled"], second["cached"]) == (0, first["kernels"])
    for report in (first, second):
        assert report["runs"] == report["runs_ok"] >= report["kernels"]
        for problem in report["problems"]:
            assert {run["kernel"] for run in problem["verified"]} == {k["kernel"]
                                                                      for k in problem["kernels"]}
            runs = [run["m"] for run in problem["verified"]]
            assert runs == sorted(set(runs)) and runs[0] == 1 and runs[-1] == 8
            for run in problem["verified"]:
                assert 0 <= run["max_error"] <= run["tolerance"]
                assert run["instructions_per_weight"] > 0
    count = first["kernels"]
    assert quern(*words).stdout.splitlines()[-1].startswith(
        f"{count} kernels: 0 compiled, {count} from the cache (all cache hits)"
    )


def test_only_the_ends_can_be_verified(quern):
    report = quern.json("prewarm", "--target", TARGET, "--m", "2-8", "--verify=ends",
                        "wq=nf4 n=64 k=128 a=f16")  # fmt: skip
    assert [run["m"] for run in report["problems"][0]["verified"]] == [2, 8]


def test_kernels_for_the_rest_of_slices_are_run(quern):
    """9 rows are a slice of eight and one row, for which all the smaller kernels are made."""
    report = quern.json("prewarm", "--target", TARGET, "--m", "9-15", "--verify=all",
                        "wq=none n=64 k=128 a=f32")  # fmt: skip
    (problem,) = report["problems"]
    assert len(problem["kernels"]) > 2 and report["runs"] == report["runs_ok"]
    assert {run["kernel"] for run in problem["verified"]} == {k["kernel"]
                                                              for k in problem["kernels"]}


def test_verified_without_a_cache(quern):
    words = ["prewarm", "--target", TARGET, "--m", "1", "--verify", "wq=nf4 n=64 k=128 a=bf16"]
    assert "verified 1 of 1" in quern(*words, "--cache-mode", "off").stdout
    assert "1 compiled" in quern(*words).stdout  # nothing was kept


def test_only_kernels_for_the_rows_asked_for_are_made(quern):
    words = ["prewarm", "--target", TARGET, "wq=nf4 n=64 k=128 a=f16"]
    some = quern.json(*words, "--m", "1,8")
    kernels = some["problems"][0]["kernels"]
    assert kernels and all(k["m"][0] <= 1 <= k["m"][1] or k["m"][0] <= 8 <= k["m"][1]
                           for k in kernels)
    every = quern.json(*words)
    assert every["cached"] == some["kernels"]
    assert every["kernels"] >= some["kernels"]


def test_rows_with_gaps_are_not_enough_for_a_host(quern):
    """Whose op for up to M rows asks for the kernels of them all: that is said, and true."""
    words = ["prewarm", "--target", TARGET, "wq=nf4 n=64 k=128 a=f16"]
    note = "only kernels for the rows of --m are made; a host that creates an op for up to {0} " \
        "rows needs those of --m 1-{0}"
    assert note.format(8) in quern(*words, "--m", "1,8").stderr
    assert note.format(7) in quern(*words, "--m", "7").stderr
    quern(*words, "--m", "1-8", "--jit", "off", status=1)
    assert quern(*words, "--m", "1-8").stderr == "" == quern(*words, "--m", "1").stderr


def test_the_table(quern, small_model):
    done = quern("prewarm", "--model", small_model, *WORDS, "--m", "1-8", "--verify")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"small for {TARGET}")
    assert "wq=nf4 group=64" in lines[1]
    header = next(line for line in lines if line.startswith("layer "))
    for column in ("problem", "kernel", "compile ms", "object B", "VGPR", "LDS B", "waves/SIMD",
                   "instr/weight", "max rel error"):  # fmt: skip
        assert column in header
    assert "gate_up, lm_head  n=512 k=128" in done.stdout
    assert done.stderr == ""


def test_what_counts_no_instructions_has_a_dash(quern):
    words = ["--target", "sm_90"]
    if subprocess.run([COMMAND, "doctor", *words], capture_output=True).returncode \
            and os.environ.get("CI") != "true":
        pytest.skip("no NVRTC; `make setup-cuda` fetches it")
    done = quern("prewarm", *words, "--m", "1", "--verify", "wq=int4 n=16 k=128 a=f32")
    lines = done.stdout.splitlines()
    header = next(line for line in lines if "instr/weight" in line)
    row = lines[lines.index(header) + 1]
    end = header.index("instr/weight") + len("instr/weight")
    assert row[:end].split()[-1] == "-" and float(row[end:].split()[0]) < 1e-5, done.stdout


def test_without_a_compiler_what_is_cached_is_served(quern, tmp_path):
    words = ["prewarm", "--target", TARGET, "--m", "1", "wq=nf4 n=64 k=128 a=f16"]
    quern(*words)
    served = quern.json(*words, "--jit", "off")
    assert (served["compiled"], served["cached"]) == (0, 1)
    done = quern(*words, "wq=nf4 n=96 k=128 a=f16", "--jit", "off", status=1)
    assert "1 of 2 problems failed" in done.stderr and "n=96" in done.stderr


def test_processes_that_prewarm_the_same_at_once(quern, small_model):
    words = ["prewarm", "--model", small_model, *WORDS, "--m", "1-8", "--jobs", "1"]
    processes = cases(8, 3)
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        reports = list(pool.map(lambda _: quern.json(*words), range(processes)))
    kernels = reports[0]["kernels"]
    assert kernels > 0 and all(r["kernels"] == kernels for r in reports)
    assert all(r["failed"] == 0 and r["not_stored"] == 0 for r in reports)
    assert sum(r["compiled"] for r in reports) == kernels
    assert quern.json(*words)["compiled"] == 0
    stat = quern.json("cache", "stat")
    assert (stat["entries"], stat["quarantined"]) == (kernels, 0)


def test_a_progress_bar_on_a_terminal(tmp_path, small_model):
    """Piped, stderr stays empty: test_the_table sees to that."""
    try:
        terminal, side = pty.openpty()
    except OSError as e:  # a container without /dev/pts
        pytest.skip(f"no pseudo-terminal: {e}")
    process = subprocess.Popen(
        [COMMAND, "prewarm", "--model", small_model, *WORDS, "--m", "1"],
        env=clean_environment(tmp_path / "cache"), stdout=subprocess.PIPE, stderr=side,
    )  # fmt: skip
    os.close(side)
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:
        pass  # how Linux ends a terminal
    os.close(terminal)
    printed = process.communicate()[0]
    assert process.returncode == 0 and b"4 kernels: " in printed and b"\r" not in printed
    bars = shown.split(b"\r")
    assert b"compiling [                        ] 0/4" in bars[1]
    assert any(b"compiling [========================] 4/4" in bar for bar in bars)
    assert bars[-1] == b"\x1b[K"  # and it is gone at the end


def test_a_recorded_run_is_made_elsewhere(tmp_path, small_model):
    here, there = Quern(tmp_path / "here"), Quern(tmp_path / "there")
    record = tmp_path / "record"
    words = ["prewarm", "--model", small_model, *WORDS, "--m", "1-2"]
    made = here.json(*words, env={"QUERN_RECORD": str(record)})
    here(*words, env={"QUERN_RECORD": str(record)})  # what is asked for twice is one layer
    lines = record.read_text().splitlines()
    assert len(lines) == 2 * len(made["problems"]) and len(set(lines)) == len(made["problems"])
    assert all(line.startswith(f"target={TARGET} m=1-2 op=gemm ") for line in lines)
    again = there.json("prewarm", "--manifest", record)  # which knows its target
    assert (again["target"], again["targets"]) == (TARGET, [TARGET])
    assert again["compiled"] == made["kernels"]
    assert problems(again).keys() == problems(made).keys()
    off = there.json(*words, "--jit", "off")
    assert off["cached"] == made["kernels"]
    # by the environment, and in parts
    seen = []
    for part in (1, 2, 3):
        report = there.json("prewarm", "--shard", f"{part}/3", "--jit", "off",
                            env={"QUERN_MANIFEST": str(record)})  # fmt: skip
        seen += [p["problem"] for p in report["problems"]]
    assert sorted(seen) == sorted(p["problem"] for p in made["problems"])
    assert len(seen) == len(set(seen))


def test_a_record_of_several_targets(quern, tmp_path):
    """Each layer is made for the target that its line names; --target takes those of one."""
    manifest = tmp_path / "manifest"
    layer = "wq=nf4 n=32 k=64 a=bf16"
    manifest.write_text(f"target=gfx942 m=1 {layer}\ntarget={TARGET} m=1 {layer}\n"
                        f"target={TARGET} m=1-2 {layer} bias=1\n")  # fmt: skip
    words = ["prewarm", "--manifest", manifest]
    report = quern.json(*words, "--verify")
    assert report["targets"] == [TARGET, "gfx942"] and report["target"] is None
    made = [(p["target"], "bias=1" in p["problem"], len(p["kernels"])) for p in report["problems"]]
    assert made == [(TARGET, False, 1), (TARGET, True, 2), ("gfx942", False, 1)]
    assert report["compiled"] == report["runs_ok"] == report["runs"] == 4
    text = quern(*words).stdout
    assert text.index(f"problems for {TARGET} ") < text.index("problems for gfx942 (CDNA 3)")
    assert "4 kernels: 0 compiled, 4 from the cache" in text
    one = quern.json(*words, "--target", "gfx942", "--jit", "off")
    assert (one["target"], one["kernels"]) == ("gfx942", 1)
    assert quern.json(*words, "--jit", "off", env={"QUERN_TARGET": "gfx942"})["kernels"] == 1
    parts = [quern.json(*words, "--shard", f"{i}/2", "--jit", "off") for i in (1, 2)]
    # the two kernels of one layer, and the one of each of the others
    assert [len(part["problems"]) for part in parts] in ([1, 2], [2, 1])
    assert sorted(p["target"] for part in parts for p in part["problems"]) == [TARGET, TARGET,
                                                                               "gfx942"]
    assert {part["kernels"] for part in parts} == {2}
    quern.refused(*words, "--cache-dir", tmp_path / "empty", "--jit", "off", status=1,
                  says=["3 of 3 problems failed; op=gemm wq=nf4", f" for {TARGET}: "])  # fmt: skip


def shard_of(quern, manifest, shard, env=None):
    """The n of a part's layers, of which none is made: nothing may be compiled."""
    done = quern("prewarm", "--json", "--jit", "off", "--manifest", manifest, "--shard", shard,
                 env=env, status=1)
    return [p["problem"].split(" n=")[1].split()[0] for p in json.loads(done.stdout)["problems"]]


def test_parts_are_disjoint_complete_and_balanced(quern, tmp_path):
    """Every other layer takes several kernels and not one: every nth of them would be no share."""
    lines = [f"target={TARGET} m={'1' if i % 2 else '1-64'} wq=nf4 n={64 + 32 * i} k=64 a=bf16\n"
             for i in range(24)]
    manifest, shuffled = tmp_path / "manifest", tmp_path / "shuffled"
    manifest.write_text("".join(lines))
    shuffled.write_text("".join(lines[::-1]))
    every = sorted(64 + 32 * i for i in range(24))
    for parts in (1, 2, 3, 4, 24):
        made = [list(map(int, shard_of(quern, manifest, f"{i}/{parts}")))
                for i in range(1, parts + 1)]
        assert sorted(n for part in made for n in part) == every
        heavy = [sum((n - 64) // 32 % 2 == 0 for n in part) for part in made]
        assert max(heavy) - min(heavy) <= 1, (parts, heavy)
        other = Quern(tmp_path / "another machine")
        assert [sorted(map(int, shard_of(other, shuffled, f"{i}/{parts}", env={"LC_ALL": "C"})))
                for i in range(1, parts + 1)] == [sorted(part) for part in made]
        for i in range(parts):
            slurm = {"SLURM_ARRAY_TASK_ID": str(10 + 5 * i), "SLURM_ARRAY_TASK_MIN": "10",
                     "SLURM_ARRAY_TASK_MAX": str(10 + 5 * (parts - 1)),
                     "SLURM_ARRAY_TASK_STEP": "5", "SLURM_ARRAY_TASK_COUNT": str(parts)}
            job = {"JOB_COMPLETION_INDEX": str(i)}
            if parts <= 4:
                assert list(map(int, shard_of(quern, manifest, "auto", env=slurm))) == made[i]
                indexed = shard_of(quern, manifest, f"auto/{parts}", env=job)
                assert list(map(int, indexed)) == made[i]
    # more parts than layers: some have none, which is no failure
    empty = quern.json("prewarm", "--manifest", manifest, "--shard", "30/30")
    assert empty["problems"] == [] and empty["kernels"] == 0
    assert "nothing to do for part 30 of 30" in quern(
        "prewarm", "--manifest", manifest, "--shard", "30/30").stderr  # fmt: skip


@pytest.mark.parametrize("shard, env, says", [
    ("auto", {}, "there is no SLURM_ARRAY_TASK_ID and no JOB_COMPLETION_INDEX"),
    ("auto", {"JOB_COMPLETION_INDEX": "0"}, "give --shard auto/N"),
    ("auto/2", {"JOB_COMPLETION_INDEX": "2"}, "there is no part 3 of 2"),
    ("auto/2", {"JOB_COMPLETION_INDEX": "first"}, "JOB_COMPLETION_INDEX is 'first'"),
    ("auto/4294967295", {"JOB_COMPLETION_INDEX": "0"}, "at most 99999 are taken"),
    ("auto/0", {"JOB_COMPLETION_INDEX": "0"}, "is not a part of a whole"),
    ("auto/x", {"JOB_COMPLETION_INDEX": "0"}, "is not a part of a whole"),
    ("auto", {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "9",
              "SLURM_ARRAY_TASK_STEP": "1", "SLURM_ARRAY_TASK_COUNT": "3"}, "in equal steps"),
    ("auto/3", {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_MIN": "1",
                "SLURM_ARRAY_TASK_MAX": "2", "SLURM_ARRAY_TASK_COUNT": "2"}, "has 2 tasks"),
])  # fmt: skip
def test_parts_that_make_no_sense(quern, shard, env, says):
    quern.refused("prewarm", "--target", TARGET, "--shard", shard, "wq=nf4 n=64 k=64 a=bf16",
                  env=env, status=2, says=says)


def test_every_warning_is_shown(tmp_path):
    layers = ["wq=nf4 n=16 k=64 a=f16", "wq=nf4 n=24 k=64 a=f16"]
    done = Quern(tmp_path / "cold")("prewarm", "--target", TARGET, "--m", "1", "--jit", "warn",
                                    *layers)  # fmt: skip
    warnings = [line for line in done.stderr.splitlines() if "warning: kernel" in line]
    assert len(warnings) == len(layers)


def test_manifests_that_are_wrong(quern, tmp_path):
    manifest = tmp_path / "manifest"
    words = ["prewarm", "--target", TARGET, "--manifest", manifest]
    good = "op=gemm wq=nf4 n=64 k=128 a=f16"
    for text, says in (
        ("", "no layer for"),
        ("# nothing\n\n", "no layer for"),
        (f"target=gfx1201 m=1 {good}\n", "no layer for"),
        (f"{good}\ntarget=gfx9999 {good}\n", "line 2"),
        (f"{good}\n{good} n=65\n", "line 2"),
        ("hello\n", "line 1"),
        (f"{good}\0\n", "NUL"),
    ):
        manifest.write_text(text)
        quern.refused(*words, status=1, says=says)
    manifest.write_text(f"target=gfx942 {good}\n{good}\n")
    quern.refused("prewarm", "--manifest", manifest, status=1, says="without a target")
    manifest.write_text("# nothing\n")
    quern.refused("prewarm", "--manifest", manifest, status=1, says="no layers")
    manifest.write_text(f"m=0 {good}\n")
    assert "line 1" in quern(*words, status=1).stderr
    for shard in ("0/2", "3/2", "1", "1/0", "-1/2", "1/2x", ""):
        quern.refused("prewarm", "--target", TARGET, "--shard", shard, good, status=2,
                      says="--shard")  # fmt: skip
    quern.refused(*words, good, status=2, says="not two of them")
    # a record that cannot be written costs a warning
    done = quern("prewarm", "--target", TARGET, "--m", "1", good,
                 env={"QUERN_RECORD": "/nonexistent/record"})  # fmt: skip
    assert done.stderr.count("QUERN_RECORD") == 1
