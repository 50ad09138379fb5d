# SPDX-License-Identifier: MIT
"""The command on a GPU: a HIP runtime of software GPUs on the loader's path."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from conftest import COMMAND, EXPLORES, TOP, Quern

FAKEHIP = COMMAND.parents[1] / "lib" / "fakehip"
GPU = {"LD_LIBRARY_PATH": str(FAKEHIP), "FAKEHIP_DEVICES": "gfx1151,gfx1036"}
LAYER = "wq=nf4 n=64 k=256 a=bf16"

pytestmark = pytest.mark.skipif(not FAKEHIP.is_dir(), reason="no HIP headers to make fakehip from")


def test_doctor_lists_candidates_and_devices(quern):
    done = quern("doctor", status=1, env=GPU)
    lines = done.stdout.splitlines()
    assert any("HIP runtime: libamdhip64.so.7: not there (not needed)" in x for x in lines)
    assert not any("cannot open" in x for x in lines)
    assert lines[0] == "problem  verdict: not ready: see device"  # the one that is of no target
    assert any(f"HIP runtime: {FAKEHIP}/libamdhip64.so.6: used" in x for x in lines), lines
    assert any(x.startswith("ok ") and "device: 0: fakehip gfx1151, gfx1151, 40 compute units"
               in x for x in lines), lines
    assert any(x.startswith("problem") and "nearest known one is gfx103" in x for x in lines)


def test_doctor_names_what_a_runtime_lacks(quern, tmp_path):
    """One that is there, as the compiler's packages bring it, without what it is linked with."""
    (tmp_path / "lib").mkdir()
    for name, more in (("libneeded.so", []), ("libamdhip64.so.6", ["-Wl,--no-as-needed",
                                                                   tmp_path / "lib/libneeded.so"])):
        subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-Wl,-soname," + name, "-o",
                        tmp_path / "lib" / name, "-x", "none", *more], check=True)
    (tmp_path / "lib/libneeded.so").unlink()
    words = ["doctor", "--rocm-path", os.environ.get("QUERN_ROCM_PATH", TOP / "build/rocm")]
    for kind, needed in (("none", " (not needed)"), ("hip", "")):
        lines = quern(*words, "--device", kind, env={"ROCM_PATH": str(tmp_path)},
                      status=int(kind == "hip")).stdout.splitlines()
        assert f"ok       HIP runtime: {tmp_path}/lib/libamdhip64.so.6: cannot be loaded without " \
            f"libneeded.so, which is not there{needed}" in lines, lines


def test_a_named_directory_comes_before_the_loader_path(quern, tmp_path):
    (tmp_path / "lib").symlink_to(FAKEHIP)
    env = {"ROCM_PATH": str(tmp_path), "FAKEHIP_DEVICES": "gfx1100"}
    texts = [f["text"] for f in quern.json("doctor", env=env)]
    assert texts[0].endswith("and run on GPU 0 (gfx1100)"), texts
    assert any(t.endswith("libamdhip64.so.6: used") for t in texts), texts
    assert any("gfx1100" in t and "96 compute units" in t for t in texts), texts


def test_time(quern):
    words = ("time", "--device", "hip", "--rotate")
    report = quern.json(*words, "100K", "--m", "1,9", LAYER, env=GPU)
    assert report["device"] == "fakehip gfx1151" and report["target"] == "gfx1151"
    assert [r["m"] for r in report["results"]] == [1, 9]
    for r in report["results"]:
        assert 0 < r["least_microseconds"] <= r["microseconds"]
        model = quern.json("profile", "--target", "gfx1151", "--m", r["m"], LAYER)
        assert abs(r["model_microseconds"] - model["total_us"]) <= 1e-3 * model["total_us"]
        assert r["weight_copies"] > 100 * 1024 // (64 * 256)
    text = quern(*words, "1K", "--m", "1", LAYER, env=GPU).stdout
    assert "fakehip gfx1151" in text and "GB/s" in text


def test_time_of_a_mixture(quern):
    """Blocks are those of choices that name experts, and weights of other experts are no bytes of
    a launch: of eight experts one token has two."""
    words = ("time", "--device", "hip", "--rotate", "1K", "--m", "1,9")
    layer = "op=moe wq=nf4 n=32 k=64 a=bf16 c=bf16 experts=8 top_k=2"
    one, nine = quern.json(*words, layer, env=GPU)["results"]
    packed = 32 * 64 // 2 + 32 * 4  # of an expert, its scales too; the other operands are smaller
    assert 2 * packed < one["bytes"] < 3 * packed
    assert 5 * packed < nine["bytes"] < 11 * packed
    aligned = quern.json(*words, "op=moe_align experts=8 top_k=2 block_rows=4", env=GPU)["results"]
    assert [r["m"] for r in aligned] == [1, 9]
    assert "tune measures no shapes of op=moe" in quern("tune", "--device", "hip", layer, env=GPU,
                                                        status=2).stderr


def test_nvidia(quern, tmp_path):
    """On fakecuda, where kernels' texts run on the CPU: what the verbs do with a CUDA device."""
    env = {"LD_LIBRARY_PATH": str(FAKEHIP.parent / "fakecuda"), "FAKECUDA_DEVICES": "sm_80,sm_90"}
    texts = [f["text"] for f in quern.json("doctor", env=env)]
    assert any(t.endswith("libcuda.so.1: used") for t in texts), texts
    assert any("1: fakehip sm_90, sm_90, 132 compute units" in t for t in texts), texts
    try:
        quern("doctor", "--target", "sm_90", env=env)
    except AssertionError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("no NVRTC; `make setup-cuda` fetches it")
    report = quern.json("time", "--device", "cuda", "--allow-unverified", "--rotate", "1K", "--m",
                        "1", LAYER, env={**env, "FAKECUDA_DEVICES": "sm_90"})
    assert report["target"] == "sm_90" and report["results"][0]["microseconds"] > 0
    # the same operands on a software GPU of AMD's and on this one
    shapes = {"a": 3 * 256 * 2, "b": 64 * 128, "scales": 64 * 4 * 4}
    random = np.random.default_rng(1)
    values = {"a": random.normal(0, 1, 3 * 256).astype(np.float32).view(np.uint16)[1::2],
              "b": random.integers(0, 256, 64 * 128).astype(np.uint8),
              "scales": random.uniform(0.5, 1, 64 * 4).astype(np.float32)}
    files = []
    for name, size in shapes.items():
        (tmp_path / name).write_bytes(values[name].tobytes())
        assert (tmp_path / name).stat().st_size == size
        files.append(f"{name}={tmp_path / name}")
    results = []
    for way in (["--target", "gfx1151"], ["--device", "cuda"]):
        quern("run", *way, "--m", "3", LAYER, *files, f"c={tmp_path / 'c'}",
              env={**env, "FAKECUDA_DEVICES": "sm_90"})
        bits = np.frombuffer((tmp_path / "c").read_bytes(), np.uint16).astype(np.uint32) << 16
        results.append(bits.view(np.float32))
    assert np.abs(results[1]).max() > 1
    assert np.abs(results[0] - results[1]).max() <= 1e-2 * np.abs(results[0]).max()
    if not EXPLORES:  # each process makes a multiprocessor anew, two seconds
        return
    tuned = quern.json("tune", "--device", "cuda", "--rotate", "1K", "--m", "1", "--shapes", "2",
                       "--out", tmp_path / "tuned", LAYER,
                       env={**env, "FAKECUDA_DEVICES": "sm_90"})
    assert ", CUDA runtime " in (tmp_path / "tuned").read_text()
    assert tuned["target"] == "sm_90" and tuned["kernels"][0]["shapes"] == 2


def test_time_needs_a_gpu(quern):
    quern.refused("time", "--device", "sim", "--target", "gfx1151", LAYER, status=2,
                  says=["software GPU", "quern explain"])
    quern.refused("time", "--device", "hip", LAYER, status=1, env={**GPU, "FAKEHIP_DEVICES": ","},
                  says="hipGetDeviceCount failed: hipErrorNoDevice")


TUNE = ("tune", "--device", "hip", "--rotate", "1K", "--m", "1-2", "--shapes", "3")


def test_tune(quern):
    """What it notes is what later uses of the cache directory follow, and no other problem's."""
    report = quern.json(*TUNE, LAYER, env=GPU)
    assert report["target"] == "gfx1151" and [k["m"] for k in report["kernels"]] == [1, 2]
    table = pathlib.Path(report["table"])
    assert table == quern.cache / "tuning" / "gfx1151.tune"
    lines = [x for x in table.read_text().splitlines() if not x.startswith("#")]
    assert lines[0] == "quern-tuning 1 gfx1151"
    noted = {k["m"]: k["shape"] for k in report["kernels"] if k["noted"]}
    assert len(lines) == 1 + len(noted)
    for k in report["kernels"]:
        wins = k["us"] < 0.98 * k["model_choice_us"] and k["shape"] != k["model_shape"]
        assert k["noted"] == wins
        assert k["shapes"] == 3
        measured = {x["shape"]: x for x in k["measured"]}
        assert len(measured) == 3 and list(measured)[0] == k["model_shape"]
        assert measured[k["shape"]]["us"] == k["us"] and measured[k["model_shape"]]["model_us"] > 0
        assert any(f"| m={k['m']} | {k['shape']} |" in x for x in lines) == k["noted"]
        text = quern("explain", "--target", "gfx1151", "--m", str(k["m"]), LAYER).stdout
        assert ("says the tuning table" in text) == k["noted"]


def test_a_dry_run_of_tune_only_measures(quern, tmp_path):
    report = quern.json(*TUNE, "--dry-run", LAYER, env=GPU)
    assert report["table"] is None and not (quern.cache / "tuning").exists()
    for k in report["kernels"]:
        assert not k["noted"] and len(k["measured"]) == k["shapes"] == 3
    lines = quern(*TUNE, "--dry-run", LAYER, env=GPU).stdout.splitlines()
    assert len(lines) == 3 and not (quern.cache / "tuning").exists()
    spread = quern.json(*TUNE, "--dry-run", "--spread", LAYER, env=GPU)
    for k, most in zip(spread["kernels"], report["kernels"], strict=True):
        times = [x["model_us"] for x in k["measured"]]
        assert k["shapes"] == 3 and k["model_shape"] == most["model_shape"]
        assert times == sorted(times) and times[2] > 2 * most["measured"][2]["model_us"]
    quern.refused(*TUNE, "--spread", LAYER, status=2, env=GPU, says="--spread needs --dry-run")
    quern.refused(*TUNE, "--dry-run", "--out", tmp_path / "some.tune", LAYER, status=2, env=GPU,
                  says="a dry run writes no table")


def test_a_tuning_table_is_followed(quern, tmp_path):
    words = ("--target", "gfx1151", "--m", "1", LAYER)
    own = quern("source", *words).stdout
    shape = "rows=1 lanes=0 chunk=8 ring=0 split_k=1 waves=4 products=1 ahead=0 pairing=0"
    table = tmp_path / "some.tune"
    table.write_text(f"quern-tuning 1 gfx1151\n{LAYER} | m=1 | {shape} | us=1.5\n")
    env = {"QUERN_TUNING": str(table)}
    tuned = quern("source", *words, env=env).stdout
    assert "ROWS = 1; " in tuned and "WAVES = 4; " in tuned and tuned != own
    assert "says the tuning table" in quern("explain", *words, env=env).stdout
    done = quern("prewarm", "--verify", *words, env=env)
    assert "1 compiled, 0 from the cache" in done.stdout and "verified 1 of 1" in done.stdout
    assert "1 compiled" in quern("prewarm", *words).stdout  # the model's is another kernel
    default = quern.cache / "tuning" / "gfx1151.tune"
    default.parent.mkdir()
    default.write_text(table.read_text())
    assert quern("source", *words).stdout == tuned
    # of other targets and other rows of A nothing changes
    assert "says the tuning table" not in quern("explain", "--target", "gfx1100", LAYER).stdout
    assert "says the tuning table" not in quern("explain", *words[:3], "2", LAYER).stdout


def test_bad_tuning_tables(quern, tmp_path):
    words = ("explain", "--target", "gfx1151", LAYER)
    table = tmp_path / "some.tune"
    table.write_text("quern-tuning 1 gfx1151\nnonsense\n")
    for said, path, status in (("line 2 has fewer than four fields", table, 2),
                               ("not a regular file", tmp_path, 1),
                               ("No such file", tmp_path / "none", 1)):  # fmt: skip
        for verb in (words, ("prewarm", "--m", "1", *words[1:])):
            quern.refused(*verb, env={"QUERN_TUNING": str(path)}, status=status, says=said)
    default = quern.cache / "tuning" / "gfx1151.tune"
    default.parent.mkdir(parents=True, mode=0o700)
    default.parent.parent.chmod(0o700)
    default.write_text(table.read_text())
    done = quern(*words)  # what merely lies there is left out
    assert "line 2 has fewer" in done.stderr and "; the model chooses\n" in done.stderr
    assert "mend or remove it" in quern(*TUNE, LAYER, status=1, env=GPU).stderr
    assert default.read_text() == table.read_text()


def test_tune_keeps_what_is_there(quern, tmp_path):
    other = "op=gemm wq=nf4 n=128 k=256 a=f16 | m=1 | rows=1 | us=2"
    table = tmp_path / "some.tune"
    table.write_text(f"quern-tuning 1 gfx1151\n{other}\n")
    manifest = tmp_path / "layers"
    manifest.write_text(f"target=gfx1151 m=1 {LAYER}\ntarget=gfx1100 m=1 {LAYER}\n")
    report = quern.json(*TUNE[:5], "--shapes", "2", "--manifest", manifest, "--out", table,
                        env=GPU)  # fmt: skip
    assert [k["m"] for k in report["kernels"]] == [1]
    assert other in table.read_text().splitlines()
    quern.refused("tune", LAYER, status=2, env={"QUERN_DEVICE": "sim", "QUERN_TARGET": "gfx1151"},
                  says="software GPU")
    quern.refused("tune", "--manifest", manifest, LAYER, status=2, says="not both")


TILES = "wq=nf4 n=256 k=512 a=bf16 c=f32"


def error_of(quern, tmp_path, env, m, problem):
    """The largest error of the GPU's answers, of the largest right one, by the CPU's weights."""
    words = dict(w.split("=") for w in problem.split())
    n, k = int(words["n"]), int(words["k"])
    rng = np.random.default_rng(5)
    w, a = tmp_path / "w", tmp_path / "a"
    w.write_bytes(abs(rng.standard_normal((n, k))).astype("<f4").tobytes())
    # all of one sign, so that weights that are too large stand out of the noise of rounding
    bits = rng.uniform(0.5, 1, (m, k)).astype("<f4").view("<u4") >> 16
    a.write_bytes(bits.astype("<u2").tobytes())
    out = tmp_path / "weights"
    if not out.exists():
        quern("quantize", problem, f"w={w}", "--out", out)
    files = [f"{p.name}={p}" for p in out.iterdir()]
    dense = tmp_path / "dense"
    as_weights = f"op=dequant wq=nf4 n={n} k={k} c=f32"
    quern("run", "--device", "sim", "--target", "gfx1151", "--m", "1", as_weights, *files,
          f"c={dense}")
    weights = np.frombuffer(dense.read_bytes(), "<f4").reshape(n, k).astype(float)
    right = (bits << 16).view("<f4").astype(float) @ weights.T
    c = tmp_path / "c"
    quern("run", "--device", "hip", "--m", m, problem, *files, f"a={a}", f"c={c}", env=env)
    got = np.frombuffer(c.read_bytes(), "<f4")
    return abs(got.reshape(m, n) - right).max() / abs(right).max()


def probed(quern, gpu, **env):
    report = quern.json("probe", "--device", "hip", env={**GPU, "FAKEHIP_DEVICES": gpu, **env})
    return {f["fact"]: f for f in report["facts"]}


def facts_line(lines):
    return [x for x in lines if x.startswith("facts table ")]


def test_gpus_that_differ(quern, tmp_path):
    """One adds as it is assumed, one rounds to nearest, one has other lanes: plans follow what is
    probed, answers are right, and a bundle and --facts take it elsewhere."""
    words = ("explain", "--target", "gfx1201", "--m", "1024", TILES)
    assumed = quern(*words).stdout
    assert "family mma_tile" in assumed and "facts" not in assumed
    source = ("source", "--target", "gfx1201", "--m", "1024", TILES)
    listed = quern(*source).stdout
    table = quern.cache / "tuning" / "gfx1201.facts"

    def doctor(gpu):
        texts = quern("doctor", env={**GPU, "FAKEHIP_DEVICES": gpu}).stdout
        return [x for x in texts.splitlines() if " facts: gfx1201: " in x]

    (line,) = doctor("gfx1201/silicon")
    assert "0 of " in line and "assumed (quern probe)" in line

    facts = probed(quern, "gfx1201/silicon")
    assert all(f["holds"] for f in facts.values()), facts
    assert facts["dot2_bf16_bf16"]["measured"] == "truncates"
    assert facts["wmma_lanes"]["measured"] == "as_listed"
    assert float(facts["cache_rate"]["measured"]) >= 0
    assert table.stat().st_mode & 0o777 == 0o600
    lines = quern(*words).stdout.splitlines()
    (hashed,) = facts_line(lines)
    lines.remove(hashed)
    assert lines == assumed.splitlines() and quern(*source).stdout == listed
    (line,) = doctor("gfx1201/silicon")
    assert "assumed" not in line and "refuted" not in line

    # rounds to nearest, which no kernel minds
    table.unlink()
    env = {**GPU, "FAKEHIP_DEVICES": "gfx1201/nearest"}
    assert error_of(quern, tmp_path, env, 1024, TILES) < 3e-3
    facts = probed(quern, "gfx1201/nearest")
    assert [n for n, f in facts.items() if not f["holds"]] == ["dot2_bf16_bf16"]
    assert facts["dot2_bf16_bf16"]["measured"] == "rounds_to_nearest"
    text = quern(*words).stdout
    assert "refuted    dot2_bf16_bf16, that v_dot2_bf16_bf16 drops" in text
    assert "family mma_tile" in text and quern(*source).stdout == listed
    (line,) = doctor("gfx1201/nearest")
    assert line.endswith("; refuted: dot2_bf16_bf16")

    # elsewhere: by a bundle that carries the table, and by the file
    (hashed,) = facts_line(text.splitlines())
    quern("prewarm", "--target", "gfx1201", "--m", "1024", TILES)
    bundle = tmp_path / "b.qkb"
    quern("bundle", "create", bundle)
    other = Quern(tmp_path / "elsewhere")
    given = {"QUERN_BUNDLE_PATH": str(bundle)}
    assert hashed in other(*words, env=given).stdout
    off = other("prewarm", "--jit", "off", *words[1:], env=given).stdout
    assert "0 compiled" in off or "from the cache" in off
    assert not facts_line(other(*words).stdout.splitlines())
    made = other.json("prewarm", "--facts", table, *words[1:])
    assert hashed in other(*words[:1], "--facts", table, *words[1:]).stdout
    keys = [k["source_key"] for p in made["problems"] for k in p["kernels"]]
    here = quern.json("prewarm", *words[1:])
    assert keys == [k["source_key"] for p in here["problems"] for k in p["kernels"]] != []
    assert other.json("bundle", "import", bundle, "--unsigned")["tables_imported"] == 1
    assert hashed in other(*words).stdout

    # other lanes: matrix instructions are left alone
    table.unlink()
    env["FAKEHIP_DEVICES"] = "gfx1201/transposed"
    assert error_of(quern, tmp_path, env, 1024, TILES) > 0.01
    facts = probed(quern, "gfx1201/transposed")
    assert [n for n, f in facts.items() if not f["holds"]] == ["wmma_lanes"]
    assert facts["wmma_lanes"]["measured"] == "transposed"
    text = quern(*words).stdout
    assert "refuted    wmma_lanes" in text and "family simt_w4" in text
    assert error_of(quern, tmp_path, env, 1024, TILES) < 5e-3


def test_a_fact_without_which_nothing_is_left(quern, tmp_path):
    facts = tmp_path / "gfx1151.facts"
    facts.write_text("quern-facts 1 gfx1151\nunaligned_loads | rounded_down\n")
    words = ("explain", "--target", "gfx1151", "--facts", facts)
    quern.refused(*words, LAYER, status=1,
                  says=["refutes unaligned_loads, on which every kernel that multiplies relies"])
    dequant = quern(*words, "op=dequant wq=nf4 n=64 k=256 c=f16").stdout
    assert "refuted    unaligned_loads" in dequant


def test_bad_facts(quern, tmp_path):
    """What is named must be sound; what lies in the cache is left out with a warning."""
    table = tmp_path / "gfx1151.facts"
    table.write_text("quern-facts 1 gfx1151\nnonsense\n")
    quern.refused("explain", "--target", "gfx1151", "--facts", table, LAYER, status=2,
                  says=["line 2 has fewer than two fields", str(table)])
    own = quern.cache / "tuning" / "gfx1151.facts"
    own.parent.mkdir(parents=True, mode=0o700)
    own.write_text(table.read_text())
    done = quern("explain", "--target", "gfx1151", LAYER)
    assert "facts table" not in done.stdout and "all is assumed" in done.stderr
    own.unlink()
    quern.refused("probe", "--device", "sim", "--target", "gfx1151", status=2, says="--list")
    quern.refused("probe", "more", status=2, says="'more'")
    named = {f["fact"] for f in quern.json("probe", "--list", "--target", "gfx942")["facts"]}
    assert {"mfma_lanes", "xcd_order"} <= named and "wmma_lanes" not in named


def test_run_takes_the_kernels_of_build(tmp_path, monkeypatch):
    """Two slices of 64 rows and two rows more, which an op for fewer rows gives to another kernel:
    the hardware check compares the bits of the same kernels."""
    monkeypatch.syspath_prepend(TOP / "tests")
    import check_hw
    for name, value in {**GPU, "FAKEHIP_DEVICES": "gfx942/silicon"}.items():
        monkeypatch.setenv(name, value)
    assert check_hw.compare(check_hw.Quern(COMMAND, tmp_path),
                            "wq=int4 n=64 k=768 a=bf16 c=f32 group=256", 130, "gfx942",
                            tmp_path) is None


def test_hardware_check(tmp_path):
    """The software GPU stands for the hardware: all answers are the same, and a report is left."""
    if "release" not in COMMAND.parts:
        pytest.skip("the way through the command is the same")
    report = tmp_path / "report.txt"
    check = [sys.executable, TOP / "tests/check_hw.py", "--command", COMMAND, "--report", report]
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_")}
    env.update(GPU, FAKEHIP_DEVICES="gfx1151/silicon")
    done = subprocess.run([*check, "--no-times", "--rows", "9", LAYER], env=env,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    text = report.read_text()
    assert text.endswith(f"ok  {LAYER}  m=9\n0 failed\n")
    assert "fakehip gfx1151" in text
    assert re.search(r"dot2_bf16_bf16 +truncates +truncates", text)
    for name in ("adders", "sums", "silicon", "trans"):
        if (COMMAND.parents[1] / f"tests/sim/test_sim_{name}").exists():
            assert f"test_sim_{name} on the GPU, status 0:" in text
    env["FAKEHIP_DEVICES"] = ","
    done = subprocess.run(check, env=env, capture_output=True, text=True)
    assert done.returncode == 77, done.stdout + done.stderr
    # a sentence, whatever the script asked the command for
    assert re.search(r"^no GPU that quern can use: [^{}]+$", report.read_text(), re.M)
