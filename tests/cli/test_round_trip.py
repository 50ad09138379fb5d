# SPDX-License-Identifier: MIT
"""quantize → build → sim and run, against a double-precision product in plain Python."""

import itertools
import json
import os
import signal
import subprocess
import time

import operands
import pytest
from conftest import COMMAND, EXPLORES, TARGET, cases, clean_environment, files_under

N, K = 72, 192
TOLERANCE = {"f32": 1e-5, "f16": 5e-3, "bf16": 5e-3}


def make_operands(quern, directory, wq, problem, a_type, c_type, m, bias):
    """Writes a, b, the scales and bias; returns the reference."""
    directory.mkdir(exist_ok=True)
    w_bytes, w = operands.weights(N, K, seed=1)
    (directory / "w").write_bytes(w_bytes)
    made = quern.json("quantize", problem, f"w={directory}/w", "--out", directory)
    names = [o["name"] for o in made["operands"]]
    nested = "nested" in problem
    assert names == ["b", "scales"] + (["absmax8", "code", "offset"] if nested else [])
    group = 32 if wq == "mxfp4" else 64
    b = (directory / "b").read_bytes()
    scales = operands.read_scales(
        wq, lambda name: (directory / name).read_bytes() if name in names else None)
    assert (len(b), len(scales)) == (N * K // 2, N * K // group)
    a_bytes = operands.pack(a_type, operands.normal(m * K, seed=2))
    (directory / "a").write_bytes(a_bytes)
    bias_values = [0.0] * N
    if bias:
        data = operands.pack(c_type, operands.normal(N, seed=3))
        (directory / "bias").write_bytes(data)
        bias_values = operands.unpack(c_type, data)
    half_gap = operands.TABLES[wq][1] + (0.05 if nested else 0)
    stored = operands.dequantise(wq, b, scales, group)
    for i, (x, y) in enumerate(zip(w, stored)):
        assert abs(x - y) <= half_gap * scales[i // group]
    return operands.linear(operands.unpack(a_type, a_bytes), stored, bias_values, m, N, K)


def files(directory, names):
    return [f"{name}={directory / name}" for name in names]


# every number of rows with and without bias in check-long
ROWS = [(1, 0), (19, 1)]
if EXPLORES:
    ROWS = list(itertools.product([1, 3, 8, 19], [0, 1]))


@pytest.mark.parametrize("m, bias", cases(ROWS, [(19, 1)]))
@pytest.mark.parametrize(
    "wq, a_type, c_type",
    cases([("nf4", "f32", "f32"), ("nf4", "f16", "f16"), ("nf4", "bf16", "bf16"),
           ("nf4", "bf16", "f32"), ("fp4", "f16", "f16"), ("nf4 scale=nested", "bf16", "bf16"),
           ("fp4 scale=nested", "f32", "f32"), ("mxfp4", "bf16", "bf16")],
          [("nf4 scale=nested", "bf16", "bf16"), ("mxfp4", "bf16", "f32")]),
)  # fmt: skip
def test_a_layer(warm, tmp_path, wq, a_type, c_type, m, bias):
    problem = f"wq={wq} n={N} k={K} a={a_type} c={c_type} bias={bias}"
    wq = wq.split()[0]
    reference = make_operands(warm, tmp_path, wq, problem, a_type, c_type, m, bias)
    warm("build", "--target", TARGET, "--m", m, "--out", tmp_path / "plan", problem)
    plan = json.loads((tmp_path / "plan/plan.json").read_text())
    names = [o["name"] for o in plan["operands"]]
    expected = {"a", "b", "scales", "c"} | ({"bias"} if bias else set())
    nested = {"absmax8", "code", "offset"} if "nested" in problem else set()
    assert set(names) == expected | nested

    # run's arithmetic: that of the silicon's adders has other last bits
    warm("sim", tmp_path / "plan/plan.json", *files(tmp_path, names), "--arithmetic=fast")
    simulated = (tmp_path / "c").read_bytes()
    error = operands.relative_error(operands.unpack(c_type, simulated), reference)
    assert error <= TOLERANCE[a_type if c_type == "f32" else c_type]

    # the library's own launch gives the same bits, and so does the cheaper check
    (tmp_path / "c").unlink()
    warm("run", "--target", TARGET, "--m", m, problem, *files(tmp_path, names))
    assert (tmp_path / "c").read_bytes() == simulated
    warm("sim", tmp_path / "plan/plan.json", *files(tmp_path, names), "--check=fast")
    assert (tmp_path / "c").read_bytes() == simulated


@pytest.mark.parametrize("wq", cases(["nf4", "nf4 scale=nested", "mxfp4"], ["nf4"]))
def test_dequantised_weights(warm, tmp_path, wq):
    """The kernel's weights are those that the operands stand for, rounded to f32."""
    words = f"wq={wq} n={N} k={K}"
    make_operands(warm, tmp_path, wq.split()[0], f"{words} a=f32", "f32", "f32", 1, 0)
    problem = f"op=dequant {words} c=f32"
    warm("build", "--target", TARGET, "--m", 1, "--out", tmp_path / "plan", problem)
    plan = json.loads((tmp_path / "plan/plan.json").read_text())
    names = [o["name"] for o in plan["operands"]]
    assert "a" not in names and plan["operands"][-1]["shape"] == [N, K]
    warm("sim", tmp_path / "plan/plan.json", *files(tmp_path, names))
    simulated = (tmp_path / "c").read_bytes()
    scales = operands.read_scales(
        wq.split()[0],
        lambda name: (tmp_path / name).read_bytes() if name in names else None)
    stored = operands.dequantise(
        wq.split()[0], (tmp_path / "b").read_bytes(), scales, 32 if "mx" in wq else 64)
    assert operands.relative_error(operands.unpack("f32", simulated), stored) < 2e-7
    (tmp_path / "c").unlink()
    warm("run", "--target", TARGET, "--m", 1, problem, *files(tmp_path, names))
    assert (tmp_path / "c").read_bytes() == simulated


def test_the_plan_says_what_it_needs(warm, tmp_path):
    problem = f"wq=nf4 n={N} k={K} a=f16"
    warm("build", "--target", TARGET, "--m", 5, "--out", tmp_path, problem)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["quern_plan"] == 1 and plan["target"] == TARGET and plan["verified"] is True
    assert plan["problem"].split()[:2] == ["op=gemm", "wq=nf4"] and plan["b_layout"] == "bnb"
    assert plan["m"] == [5, 5] and plan["covers"][0] <= 5 <= plan["covers"][1]
    assert {"name": "a", "dtype": "f16", "shape": [5, K], "bytes": 5 * K * 2,
            "access": "r"} in plan["operands"]  # fmt: skip
    assert {"name": "c", "dtype": "f16", "shape": [5, N], "bytes": 5 * N * 2,
            "access": "w"} in plan["operands"]  # fmt: skip
    assert set(plan["resources"]) == {"vgpr", "sgpr", "lds", "scratch", "waves_per_simd"}
    for launch in plan["launches"]:
        assert (tmp_path / launch["object"]).read_bytes()[:4] == b"\x7fELF"
        assert len(launch["grid"]) == len(launch["block"]) == 3
        for arg in launch["args"]:
            assert ("value" in arg) == (arg["kind"] != "pointer")


def test_building_twice_gives_the_same_bytes(warm, tmp_path):
    problem = f"wq=nf4 n={N} k={K} a=f16"
    for directory in ("one", "two"):
        warm("build", "--target", TARGET, "--m", 2, "--out", tmp_path / directory, problem)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / d).iterdir()} for d in ("one", "two"))
    assert one == two


@pytest.mark.parametrize("wq", ["nf4", "fp4"])
@pytest.mark.parametrize("group", [32, 64, 4096])
def test_quantize_writes_absmax_of_each_block(quern, tmp_path, wq, group):
    n, k = 3, 4096
    w_bytes, w = operands.weights(n, k, seed=4)
    (tmp_path / "w").write_bytes(w_bytes)
    quern("quantize", f"wq={wq} group={group} n={n} k={k} a=f32", f"w={tmp_path}/w", "--out",
          tmp_path / "q")  # fmt: skip
    scales = operands.unpack("f32", (tmp_path / "q/scales").read_bytes())
    blocks = [w[i : i + group] for i in range(0, n * k, group)]
    assert scales == [max(map(abs, block)) for block in blocks]
    assert len((tmp_path / "q/b").read_bytes()) == n * k // 2


def test_quantize_wants_a_file_of_the_right_size(quern, tmp_path):
    (tmp_path / "w").write_bytes(bytes(100))
    quern.refused("quantize", "wq=nf4 n=64 k=128 a=f32", f"w={tmp_path}/w", "--out",
                  tmp_path / "q", status=2, says=["100 bytes", "32768"])  # fmt: skip
    assert not (tmp_path / "q").exists()


def test_quantize_wants_a_directory(quern, tmp_path):
    (tmp_path / "w").write_bytes(bytes(64 * 128 * 4))
    (tmp_path / "q").write_text("kept")
    quern.refused("quantize", "wq=nf4 n=64 k=128 a=f32", f"w={tmp_path}/w", "--out",
                  tmp_path / "q", status=1, says="not a directory")  # fmt: skip
    assert (tmp_path / "q").read_text() == "kept"


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    """A pipe that nobody reads holds the command up between writing and renaming."""
    (tmp_path / "w").write_bytes(bytes(64 * 128 * 4))
    (tmp_path / "q").mkdir()
    os.mkfifo(tmp_path / "q/b")
    words = ["wq=nf4 n=64 k=128 a=f32", f"w={tmp_path}/w", "--out", tmp_path / "q"]
    process = subprocess.Popen(
        [COMMAND, "quantize", *words],
        env=clean_environment(tmp_path / "cache"),
    )
    deadline = time.monotonic() + 600
    while not files_under(tmp_path / "q") and time.monotonic() < deadline:
        time.sleep(0.01)
    (waiting,) = files_under(tmp_path / "q")
    assert waiting.startswith("scales.")
    process.terminate()
    assert process.wait(600) == -signal.SIGTERM
    assert files_under(tmp_path / "q") == []


@pytest.mark.parametrize(
    "files, says",
    [
        ([], "operand a has no file"),
        (["a=a", "b=b", "scales=scales"], "operand c has no file"),
        (["a=a", "b=b", "scales=b", "c=c"], ["operand scales", "256 bytes", "32"]),
        (["a=a", "b=b", "scales=scales", "c=c", "zeros=a"], "no operand 'zeros'"),
    ],
)
def test_run_wants_every_operand(warm, tmp_path, files, says):
    for name, size in (("a", 128), ("b", 256), ("scales", 32)):
        (tmp_path / name).write_bytes(bytes(size))
    files = [word.replace("=", f"={tmp_path}/") for word in files]
    warm.refused("run", "--target", TARGET, "--m", "1", "wq=nf4 n=8 k=64 a=f16", *files, status=2,
                 says=says)  # fmt: skip
    assert not (tmp_path / "c").exists()
