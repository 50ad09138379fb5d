# SPDX-License-Identifier: MIT
"""quern repack and int4 layers, against plain Python."""

import json
import random
import struct

import int4
import operands
import pytest
from conftest import TARGET, cases

LAYOUTS = ["k8", "exl", "ck", "gptq", "awq"]


@pytest.mark.parametrize("source", LAYOUTS)
def test_every_layout_to_every_other(quern, tmp_path, source):
    n, k = 24, 288  # neither fills its last tile
    q = int4.codes(n, k, seed=LAYOUTS.index(source))
    (tmp_path / "b").write_bytes(int4.pack(q, source))
    problem = f"wq=int4 n={n} k={k} group=32 a=f16 layout={source}"
    for target in LAYOUTS:
        quern("repack", "--to", target, problem, f"b={tmp_path}/b", f"out={tmp_path}/out")
        assert (tmp_path / "out").read_bytes() == int4.pack(q, target), target


def test_to_the_layout_of_a_plan(warm, tmp_path):
    q = int4.codes(16, 128, seed=9)
    problem = "wq=int4 n=16 k=128 a=f16 layout="
    warm("build", "--target", TARGET, "--m", 1, "--out", tmp_path / "plan", problem + "exl")
    (tmp_path / "b").write_bytes(int4.pack(q, "awq"))
    warm("repack", "--to", tmp_path / "plan/plan.json", problem + "awq", f"b={tmp_path}/b",
         f"out={tmp_path}/out")
    assert (tmp_path / "out").read_bytes() == int4.pack(q, "exl")


def checkpoint(directory, kind, n, k, group, seed, act_order=False):
    """Writes a layer's tensors; returns what they stand for."""
    rng = random.Random(seed)
    q, groups = int4.codes(n, k, seed), k // group
    zeros = [[rng.randrange(1, 17 if kind == "gptq" else 16) for _ in range(n)]
             for _ in range(groups)]
    scales = [operands.unpack("f16", operands.pack("f16", [rng.uniform(0.01, 0.02)
                                                           for _ in range(n)]))
              for _ in range(groups)]
    g_idx = [c // group for c in range(k)]
    if act_order:
        rng.shuffle(g_idx)
        (directory / "g_idx").write_bytes(struct.pack(f"<{k}i", *g_idx))
    (directory / "qweight").write_bytes(int4.pack(q, "awq" if kind == "awq" else "gptq"))
    (directory / "scales").write_bytes(operands.pack("f16", sum(scales, [])))
    (directory / "qzeros").write_bytes(int4.qzeros(zeros, kind))
    if kind == "compressed":  # by rows, and words of eight rows for each group
        (directory / "qweight").write_bytes(int4.pack(q, "k8"))
        (directory / "scales").write_bytes(operands.pack("f16", sum(int4.transposed(scales), [])))
        (directory / "qzeros").write_bytes(int4.words(
            [int4.word(row[n0:n0 + 8]) for n0 in range(0, n, 8) for row in zeros]))
    return q, int4.transposed(scales), int4.transposed(zeros), g_idx


COMPRESSED = {"qweight": "weight_packed", "scales": "weight_scale", "qzeros": "weight_zero_point",
              "g_idx": "weight_g_idx"}


def tensors(directory, *names, kind="gptq"):
    return [f"{COMPRESSED[name] if kind == 'compressed' else name}={directory / name}"
            for name in names or ("qweight", "scales", "qzeros")]


@pytest.mark.parametrize("layout", ["k8", "exl", "ck"])
@pytest.mark.parametrize("kind", ["gptq", "gptq_v2", "awq"])
def test_checkpoints(quern, tmp_path, kind, layout):
    n, k, group = 40, 192, 64
    q, scales, zeros, _ = checkpoint(tmp_path, kind, n, k, group, seed=3)
    problem = f"wq=int4 n={n} k={k} group={group} a=f16 layout={layout} zero="
    made = quern.json("repack", "--checkpoint", kind, problem + "u8", *tensors(tmp_path), "--out",
                      tmp_path / "u8")
    assert [o["name"] for o in made["operands"]] == ["b", "scales", "zeros"]
    assert (tmp_path / "u8/b").read_bytes() == int4.pack(q, layout)
    assert (tmp_path / "u8/scales").read_bytes() == operands.pack("f16", sum(scales, []))
    assert (tmp_path / "u8/zeros").read_bytes() == bytes(sum(zeros, []))
    quern("repack", "--checkpoint", kind, problem + "scaled", *tensors(tmp_path), "--out",
          tmp_path / "scaled")
    scaled = [(z - 8) * s for zs, ss in zip(zeros, scales) for z, s in zip(zs, ss)]
    assert (tmp_path / "scaled/zeros").read_bytes() == operands.pack("f16", scaled)


@pytest.mark.parametrize("kind, layout", [("gptq", "exl"), ("gptq", "gptq"), ("gptq_v2", "ck"),
                                          ("compressed", "k8"), ("compressed", "awq")])
def test_act_order(quern, tmp_path, kind, layout):
    n, k, group = 136, 256, 32  # more than a tile of the repacking has
    q, scales, zeros, g_idx = checkpoint(tmp_path, kind, n, k, group, seed=4, act_order=True)
    names = ("qweight", "scales", "qzeros", "g_idx")
    quern("repack", "--checkpoint", kind, f"wq=int4 n={n} k={k} group={group} a=f16 zero=u8 "
          f"layout={layout}", *tensors(tmp_path, *names, kind=kind), "--out", tmp_path / "out")
    perm = struct.unpack(f"<{k}I", (tmp_path / "out/perm").read_bytes())
    assert sorted(perm) == list(range(k))
    sorted_q = [[row[c] for c in perm] for row in q]
    assert (tmp_path / "out/b").read_bytes() == int4.pack(sorted_q, layout)
    # every weight stands for what it stood for in the checkpoint
    now = int4.dequantised(sorted_q, scales, zeros, group)
    for r in range(n):
        for j, c in enumerate(perm):
            assert now[r * k + j] == (q[r][c] - zeros[r][g_idx[c]]) * scales[r][g_idx[c]]


def test_g_idx_in_order_needs_no_permutation(quern, tmp_path):
    k = 128
    checkpoint(tmp_path, "gptq", 8, k, 32, seed=5)
    (tmp_path / "g_idx").write_bytes(struct.pack(f"<{k}i", *[c // 32 for c in range(k)]))
    made = quern.json("repack", "--checkpoint", "gptq", f"wq=int4 n=8 k={k} group=32 a=f16 zero=u8",
                      *tensors(tmp_path), f"g_idx={tmp_path}/g_idx", "--out", tmp_path / "out")
    assert [o["name"] for o in made["operands"]] == ["b", "scales", "zeros"]


def test_bad_checkpoints(quern, tmp_path):
    problem = "wq=int4 n=16 k=128 group=32 a=f16 zero=u8"

    def refused(says, *words, text=problem, kind="gptq", status=1):
        quern.refused("repack", "--checkpoint", kind, text, *words, "--out", tmp_path / "out",
                      status=status, says=says)
        assert not (tmp_path / "out").exists()

    checkpoint(tmp_path, "gptq", 16, 128, 32, seed=6)
    whole = {name: (tmp_path / name).read_bytes() for name in ("qweight", "scales", "qzeros")}
    for name, data in whole.items():  # truncated
        (tmp_path / name).write_bytes(data[:-4])
        refused([f"tensor {name} has {len(data) - 4} bytes", str(len(data))], *tensors(tmp_path),
                status=2)
        (tmp_path / name).write_bytes(data)
    refused("tensor scales has 128 bytes", *tensors(tmp_path), status=2,
            text=problem.replace("zero=u8", "scale=f32 zero=u8"))  # another type
    for value, what in ((float("nan"), "NaN"), (float("inf"), "infinite")):
        bad = bytearray(whole["scales"])
        struct.pack_into("<e", bad, 2 * (16 * 2 + 5), value)
        (tmp_path / "scales").write_bytes(bad)
        refused(f"tensor scales is {what} at [2,5]", *tensors(tmp_path), status=2)
    (tmp_path / "scales").write_bytes(whole["scales"])
    refused(["tensor qzeros has the zero point", "zero=none"], *tensors(tmp_path), status=2,
            text=problem.replace("u8", "none"))
    refused("tensor qzeros is missing", *tensors(tmp_path, "qweight", "scales"), status=2)
    for groups, says, status in (([0] * 33 + [1] * 31 + [2] * 32 + [3] * 32,
                                  "more than 32 columns in group 0", 1),
                                 ([4] + [0] * 127, "group 4 at column 0", 2),
                                 ([-1] + [0] * 127, "group -1 at column 0", 2)):
        (tmp_path / "g_idx").write_bytes(struct.pack("<128i", *groups))
        refused(["tensor g_idx", says], *tensors(tmp_path), f"g_idx={tmp_path}/g_idx",
                status=status)
    (tmp_path / "qzeros").write_bytes(b"\x88" * len(whole["qzeros"]))
    refused(["tensor qzeros has the zero point 9", "or of gptq_v2"], *tensors(tmp_path), status=2,
            text=problem.replace("u8", "none"))
    refused("tensor weight_g_idx has group -1 at column 0",
            *tensors(tmp_path, "qweight", "scales", "qzeros", "g_idx", kind="compressed"),
            kind="compressed", status=2)
    refused("g_idx is given; awq has none", *tensors(tmp_path), f"g_idx={tmp_path}/g_idx",
            kind="awq", status=2)
    refused("int4", *tensors(tmp_path), text="wq=nf4 n=16 k=128 a=f16", status=1)


def test_bad_requests(quern, tmp_path):
    problem = "wq=int4 n=16 k=128 a=f16"
    (tmp_path / "b").write_bytes(bytes(16 * 64))
    b, out = f"b={tmp_path}/b", f"out={tmp_path}/out"
    quern.refused("repack", problem, b, out, status=2, says=["--to", "--checkpoint"])
    quern.refused("repack", "--to", "bnb", problem, b, out, status=2, says="k8, exl, ck")
    quern.refused("repack", "--to", "exl", problem, b, status=2, says="out=FILE")
    quern.refused("repack", "--to", "exl", problem.replace("n=16", "n=8"), b, out, status=2,
                  says=["1024", "512"])
    quern.refused("repack", "--to", "awq", "wq=int4 n=4 k=512 a=f16", b, out, status=2,
                  says="n=4 is not a multiple of 8")
    quern.refused("repack", "--to", "exl", "wq=nf4 n=16 k=128 a=f16", b, out, status=1, says="nf4")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layout, zero", cases(
    [("k8", "none"), ("exl", "u8"), ("ck", "scaled"), ("k8", "u8")], [("ck", "scaled")]))
@pytest.mark.parametrize("a_type", cases(["f16", "bf16"], ["bf16"]))
def test_a_layer(warm, tmp_path, a_type, layout, zero):
    """quantize → build → sim, and run, against a product in plain Python."""
    n, k, m, group = 40, 192, 3, 64
    problem = f"wq=int4 n={n} k={k} group={group} a={a_type} zero={zero} layout={layout} bias=1"
    w_bytes, w = operands.weights(n, k, seed=1)
    (tmp_path / "w").write_bytes(w_bytes)
    made = warm.json("quantize", problem, f"w={tmp_path}/w", "--out", tmp_path)
    names = ["b", "scales"] + ([] if zero == "none" else ["zeros"])
    assert [o["name"] for o in made["operands"]] == names
    # the words of layout k8, by way of the one that was asked for
    warm("repack", "--to", "k8", problem, f"b={tmp_path}/b", f"out={tmp_path}/k8")
    k8 = struct.unpack(f"<{n * k // 8}I", (tmp_path / "k8").read_bytes())
    q = [[k8[r * (k // 8) + c // 8] >> 4 * (c % 8) & 15 for c in range(k)] for r in range(n)]
    per_group = lambda values: [values[r * (k // group):(r + 1) * (k // group)] for r in range(n)]
    scales = per_group(operands.unpack(a_type, (tmp_path / "scales").read_bytes()))
    if zero == "u8":
        stored = int4.dequantised(q, scales, per_group((tmp_path / "zeros").read_bytes()), group)
    else:
        stored = int4.dequantised(q, scales, None, group)
        if zero == "scaled":
            less = operands.unpack(a_type, (tmp_path / "zeros").read_bytes())
            stored = [v - less[i // group] for i, v in enumerate(stored)]
    for i, (x, y) in enumerate(zip(w, stored)):
        assert abs(x - y) <= 0.54 * scales[i // k][i % k // group], i
    a_bytes = operands.pack(a_type, operands.normal(m * k, seed=2))
    (tmp_path / "a").write_bytes(a_bytes)
    bias_bytes = operands.pack(a_type, operands.normal(n, seed=3))
    (tmp_path / "bias").write_bytes(bias_bytes)
    reference = operands.linear(operands.unpack(a_type, a_bytes), stored,
                                operands.unpack(a_type, bias_bytes), m, n, k)
    warm("build", "--target", TARGET, "--m", m, "--out", tmp_path / "plan", problem)
    plan = json.loads((tmp_path / "plan/plan.json").read_text())
    assert plan["b_layout"] == layout
    files = [f"{o['name']}={tmp_path / o['name']}" for o in plan["operands"]]
    assert {o["name"] for o in plan["operands"]} == {"a", "bias", "c", *names}
    warm("sim", tmp_path / "plan/plan.json", *files, "--arithmetic=fast")  # which is run's
    simulated = (tmp_path / "c").read_bytes()
    assert operands.relative_error(operands.unpack(a_type, simulated), reference) <= 5e-3
    (tmp_path / "c").unlink()
    warm("run", "--target", TARGET, "--m", m, problem, *files)
    assert (tmp_path / "c").read_bytes() == simulated
