# SPDX-License-Identifier: MIT
"""The command line itself: verbs, options, exit statuses, where output goes."""

import json
import re

import pytest
from conftest import TARGET, TOP

VERBS = ["prewarm", "build", "run", "sim", "profile", "source", "inspect", "lint", "explain",
         "bench", "targets", "cache", "bundle", "quantize", "repack", "tune", "probe",
         "time", "doctor"]  # fmt: skip
PROBLEM = "wq=nf4 n=64 k=128 a=bf16"


def test_version(quern):
    assert re.fullmatch(r"quern \d+\.\d+\.\d+\n", quern("--version").stdout)


def test_help_lists_every_verb(quern):
    done = quern("--help")
    assert re.findall(r"^  (\w+) ", done.stdout, re.M) == VERBS
    assert done.stderr == ""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(quern, verb):
    done = quern(verb, "--help")
    assert done.stdout.startswith(f"Usage: quern {verb} ")
    assert "--json" in done.stdout and "--cache-dir" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert done.stderr == ""
    assert quern("help", verb).stdout == done.stdout


def test_an_unknown_verb_is_answered_with_the_list(quern):
    line = quern.refused("grind", status=2, says=["'grind'", *VERBS])
    assert line.startswith("quern: ")


def test_no_verb(quern):
    quern.refused(status=2, says="--help")


PAGES = {"run": "sim", "time": "sim", "tune": "sim", "probe": "sim", "source": "explain",
         "targets": "explain",
         "doctor": "cache"}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_the_manual_knows_every_option(quern, verb):
    own, common = quern(verb, "--help").stdout.split("\nOptions of every verb:\n")
    for text, page in ((own, f"quern-{PAGES.get(verb, verb)}.1"), (common, "quern.1")):
        manual = (TOP / "docs/man" / page).read_text()
        for option in re.findall(r"^  --([a-z-]+)", text, re.M):
            assert re.search(rf"(Fl |, )-{option}\b", manual), (page, option)


def test_a_rocm_path_that_holds_no_compiler(quern, tmp_path):
    """Whoever names a directory wants that compiler or none."""
    words = ["prewarm", "--target", TARGET, "--m", "1", PROBLEM]
    done = quern(*words, "--rocm-path", tmp_path, status=1)
    assert done.stderr.count("\n") == 1
    assert f"beside it in {tmp_path}; set QUERN_ROCM_PATH" in done.stderr
    assert str(tmp_path) in quern(*words, env={"QUERN_ROCM_PATH": str(tmp_path)}, status=1).stderr
    assert "problem  toolchain: " in quern("doctor", "--rocm-path", tmp_path, status=1).stdout


def test_more_workers_than_there_can_be(quern):
    quern.refused("targets", "--jobs", "257", status=2, says=["'257'", "256"])


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_misuse(quern, verb):
    quern.refused(verb, "--frobnicate", status=2, says=["--frobnicate", f"quern {verb}: "])


@pytest.mark.parametrize(
    "words, says",
    [
        (["build", "--m"], "'--m' needs a value"),
        (["build", "--json=5"], "'--json=5' takes no value"),
        (["build", "--m", "0", PROBLEM], "--m '0'"),
        (["build", "--m", "8-1", PROBLEM], "--m '8-1'"),
        (["build", "--m", "1,", PROBLEM], "--m '1,'"),
        (["build", "--m", "99999999999999999999", PROBLEM], "--m '99999999999999999999'"),
        (["build", "--m", "1-8", "--target", TARGET, PROBLEM], "one number of rows"),
        (["build", "--m", "1", "--out", "x", PROBLEM], "--target"),
        (["build", "--m", "1", "--target", TARGET, PROBLEM], "--out"),
        (["build", "--target", TARGET, "--out", "x", PROBLEM], "--m"),
        (["build", "--target", TARGET, "--out", "x", "--m", "1"], "which problem"),
        (["build", "wq=nf4", "n=64"], "one argument too many: 'n=64'"),
        (["sim"], "which plan"),
        (["sim", "plan.json", "a"], "'a' is not an operand"),
        (["sim", "plan.json", "a=x", "a=y"], "operand a is given twice"),
        (["sim", "plan.json", "--check=slow"], "--check 'slow' is not one of fast|full"),
        (["cache", "empty"], "'empty' is not one of stat|list|verify|clear|push"),
        (["quantize", PROBLEM], "which weights"),
        (["quantize", PROBLEM, "v=x"], "no operand 'v'"),
        (["prewarm", "--target", TARGET], "what to make"),
        (["prewarm", "--target", TARGET, "--wq", "nf4", PROBLEM], "--wq goes with --model"),
        (["prewarm", "--jobs", "0"], "--jobs '0'"),
        (["prewarm", "--cache-max-size", "12Q"], "--cache-max-size '12Q'"),
        (["inspect"], "which file"),
        (["explain", "--target", "gfx1151", "--m", "1-100", PROBLEM], "100 values"),
    ],
)
def test_misuse_is_one_line_and_exit_status_2(quern, words, says):
    quern.refused(*words, status=2, says=says)


@pytest.mark.parametrize("verb", ["source", "explain"])
@pytest.mark.parametrize("target", ["gfx1", "gfx", "sm_91", "gfx942:xnack", "gfx1151:sramecc+"])
def test_a_bad_target_is_refused_by_name(quern, verb, target):
    quern.refused(verb, "--target", target, "--m", "1", PROBLEM, status=2, says=target)


def test_targets(quern):
    rows = quern.json("targets")
    names = [row["name"] for row in rows]
    assert {"gfx906", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151",
            "gfx1201"} <= set(names)  # fmt: skip
    for row in rows:
        assert row["wave_size"] in (32, 64) and row["lds_bytes"] >= 65536 and row["cus"] > 0
        assert row["vendor"] == ("AMD" if row["name"].startswith("gfx") else "NVIDIA")
        assert row["verified"] == (row["verified_by"] != "none")
    by_name = dict(zip(names, rows))
    assert {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"} <= set(names)
    assert by_name["gfx1151"]["verified"] and not by_name["gfx1030"]["verified"]
    text = quern("targets").stdout.splitlines()
    assert text[0].split()[0] == "target" and [line.split()[0] for line in text[1:]] == names
    assert [row["name"] for row in quern.json("targets", "gfx1201")] == ["gfx1201"]


def test_source_and_explain_agree_with_json(quern):
    for verb, field in (("source", "source"), ("explain", None)):
        words = [verb, "--target", TARGET, "--m", "1", PROBLEM]
        text, data = quern(*words).stdout, quern.json(*words)
        assert data["target"] == TARGET and data["problem"].startswith("op=gemm wq=nf4 group=64 ")
        body = data[field] if field else data["explanations"][0]["text"]
        assert body and body in text


def test_the_sweep_of_m(quern):
    words = ["explain", "--m-sweep", "--target", "gfx1201"]
    problem = "wq=nf4 n=4096 k=4096 a=bf16"
    text = quern(*words, problem).stdout
    rows = [re.split(r"  +", line) for line in text.splitlines() if re.match(r"\d", line)]
    assert [row[0] for row in rows][:7] == ["1", "2", "3-4", "5-8", "9-16", "17-32", "33-64"]
    assert [row[0] for row in rows][-1] == "1025-2048"
    # on the vector units twice the rows take twice the time at last, on the others hardly more
    vector, matrix = ([float(row[i].split()[0]) for row in rows] for i in (1, 2))
    assert vector[6] > 1.9 * vector[5] and matrix[6] < 1.2 * matrix[0]
    assert "_m1: " in rows[0][4] and "_m64: " in rows[6][4]
    # tiles take as long for one row as for all that they have, and less than the others for many
    tiles = [float(row[3].split()[0]) for row in rows]
    assert tiles[0] == tiles[6] and tiles[-1] < matrix[6] * 32
    assert "_m256 in 8 slices: " in rows[-1][4]
    # what serves takes no longer than either
    assert all(float(row[4].split(": ")[1].split()[0]) <= min(a, b)
               for row, a, b in zip(rows[7:], matrix[7:], tiles[7:]))
    m = re.search(r"^mma_w4 takes over from simt_w4 at M = (\d+)$", text, re.M)[1]
    last = text.splitlines()[-1]
    n = re.fullmatch(r"mma_tile takes over from mma_w4 at M = (\d+)", last)[1]
    assert "family mma_tile" in quern("explain", "--target", "gfx1201", "--m", n, problem).stdout
    assert f"M = {m} to 16, family mma_w4" in quern(
        "explain", "--target", "gfx1201", "--m", m, problem).stdout  # fmt: skip
    assert quern.json(*words, problem)["sweep"] in text
    alone = quern(*words, "wq=nf4 n=64 k=64 a=f32").stdout
    assert "mma" not in alone and "_m8 in 256 slices: " in alone.splitlines()[-1]
    assert "serves every M" in quern(*words, "op=dequant wq=nf4 n=64 k=64 c=f32").stdout
    quern.refused(*words, "--m", "1", problem, status=2, says="--m-sweep goes with")


def test_force(quern):
    """Whether int4 is dequantised into LDS is forced by an option, or by the environment."""
    problem = "wq=int4 n=4096 k=4096 a=f16"
    words = ["explain", "--target", "gfx942", "--m", "16", problem]
    assert "predequant on:" in quern(*words, "--force", "predequant=on").stdout
    assert "predequant off:" in quern(*words, env={"QUERN_FORCE": "predequant=off"}).stdout
    sources = {quern("source", "--target", "gfx942", "--m", "16", "--force", word, problem).stdout
               for word in ("predequant=on", "predequant=off")}
    assert len(sources) == 2
    quern.refused(*words, "--force", "ahead=on", status=2, says="cannot force 'ahead=on'")
    quern.refused("explain", "--target", "gfx1030", "--m", "16", "--force", "predequant=on",
                  problem, status=1, says="predequant=on is forced")


def test_verdicts_go_first(quern):
    """Whether the kernel is there, what it is expected to take, what bounds it; then the rest."""
    words, large = ["explain", "--target", TARGET, "--m", "1,2"], "wq=nf4 n=4096 k=4096 a=bf16"
    quern("prewarm", "--target", TARGET, "--m", "1", PROBLEM)
    # whether or not the build has base kernels, which a verdict names
    lines = quern(*words, PROBLEM, env={"QUERN_BASE": "off"}).stdout.splitlines()
    assert lines[0].startswith("serves: a bundle or the cache has it; m=1: ")
    assert lines[1].startswith("compiles: neither a bundle nor the cache has it; m=2: ")
    assert lines[2].startswith("op=gemm ")
    first = quern.json(*words, large)["explanations"][0]
    assert (first["verdict"], first["bound_by"]) == ("compiles", "memory")
    time = f"{first['expected_us']:.1f} us"
    assert f"1 rows by quern_nf4_bf16_n4096_k4096_g64_m1: {time}" in first["text"]
    record = quern.cache.parent / "record"
    quern(*words, PROBLEM, env={"QUERN_RECORD": str(record)})
    assert not record.exists()  # what is explained was not asked for
    quern.refused("explain", "--target", "gfx1153", "wq=fp8 n=64 k=64 a=bf16", status=1,
                  says="quern explain: declined: gfx1153 has no instruction")
    profile = quern("profile", "--target", TARGET, "--m", "1", PROBLEM).stdout.splitlines()[0]
    assert re.fullmatch(r"[\d.]+ us expected on the Radeon 8060S \(a model\), bound by \w+; "
                        "1 launch", profile)


@pytest.mark.parametrize("words, status, says", [
    (["explain", "--target", "gfx1", PROBLEM], 2, {"status": "QUERN_E_TARGET"}),
    (["explain", "--target", "gfx1153", "wq=fp8 n=64 k=64 a=bf16"], 1,
     {"status": "QUERN_E_DECLINED"}),
    (["explain", "--m", "x"], 2, {}),
    (["grind"], 2, {}),
    (["inspect", '/no/"such"\x01'], 1, {}),
])  # fmt: skip
def test_errors_are_json_where_results_are(quern, words, status, says):
    done = quern(*words, "--json", status=status)
    told = json.loads(done.stderr)
    assert done.stdout == "" and told["error"] and told["exit"] == status
    assert told["verb"] == f"quern {words[0]}" if words[0] != "grind" else "quern"
    assert {k: v for k, v in told.items() if k not in ("verb", "error", "exit")} == says
    warned = quern("targets", "--json", "--bundle-path", "/nonexistent")  # opens no context
    assert warned.stderr == ""


def test_source_is_the_same_every_time(quern):
    words = ["source", "--target", TARGET, "--m", "4", PROBLEM]
    assert quern(*words).stdout == quern(*words).stdout


def test_the_target_may_come_from_the_environment(quern):
    env = {"QUERN_TARGET": "gfx1100"}
    assert quern.json("explain", PROBLEM, env=env)["target"] == "gfx1100"
    assert quern.json("explain", "--target", TARGET, PROBLEM, env=env)["target"] == TARGET


def test_doctor(quern):
    findings = quern.json("doctor")
    assert all(f["ok"] for f in findings), findings
    assert {"toolchain", "worker", "cache"} <= {f["subject"] for f in findings}
    assert findings[0]["subject"] == "verdict" and findings[0]["text"].startswith("ready: kernels")
    lines = quern("doctor").stdout.splitlines()
    assert len(lines) == len(findings) and all(line.startswith("ok ") for line in lines)


def test_doctor_without_a_worker(quern, tmp_path):
    done = quern("doctor", "--json", "--worker", tmp_path / "none", status=1)
    verdict, *bad = [f for f in json.loads(done.stdout) if not f["ok"]]
    assert (verdict["subject"], verdict["text"]) == ("verdict", "not ready: see worker")
    assert bad[0]["subject"] == "worker" and str(tmp_path / "none") in bad[0]["text"]
    said = {"verb": "quern doctor", "error": "1 problem found", "exit": 1}
    assert json.loads(done.stderr) == said


@pytest.mark.parametrize("device, other, runtime", [("cuda", "--rocm-path", "CUDA"),
                                                    ("hip", "--cuda-path", "HIP")])
def test_doctor_for_a_vendor_leaves_the_other_out(quern, tmp_path, device, other, runtime):
    """Its compiler is not missed, nor its runtime; the runtime that was asked for is."""
    (nothing := tmp_path / "nothing").mkdir()
    words = ["doctor", "--device", device, other, nothing, "--json"]
    try:
        done = quern(*words, status=1)
    except AssertionError:
        pytest.skip("this machine may have such a GPU")
    findings = json.loads(done.stdout)
    assert not any(str(nothing) in f["text"] for f in findings)
    assert {f["subject"] for f in findings if "runtime" in f["subject"]} == {f"{runtime} runtime"}
    assert not any("not needed" in f["text"] for f in findings)
    assert "device" in {f["subject"] for f in findings if not f["ok"]}


def test_doctor_says_what_degrades(quern):
    """What opening a context warns of is a problem here: the cache, a bundle."""
    done = quern("doctor", env={"QUERN_BUNDLE_PATH": "/nonexistent.qkb"}, status=1)
    assert done.stdout.startswith("problem  verdict: not ready: see context\n")
    assert "problem  context: bundle /nonexistent.qkb is not used" in done.stdout


def test_output_to_a_full_device_is_an_error(quern):
    done = quern("targets", prefix=["sh", "-c", 'exec "$@" >/dev/full', "sh"], status=1)
    assert "No space left on device" in done.stderr
