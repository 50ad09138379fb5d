# SPDX-License-Identifier: MIT
"""op=moe_align through the command: every verb that takes a problem, and files that are equal byte
for byte to what is worked out here from the definition."""
import json
import re

import numpy as np
import pytest

PROBLEM = "op=moe_align experts=20 top_k=3 block_rows=8"
E, T, B = 20, 3, 8


def blocks(ids):
    """rows, experts and rows_used for ids [tokens, T], by the definition."""
    v = ids.size
    slots = -(-min(v + E * (B - 1), v * B) // B) * B
    rows, experts = [], []
    for e in range(E):
        own = [i for i, x in enumerate(ids.ravel()) if x == e]
        own += [v] * (-len(own) % B)
        rows += own
        experts += [e] * (len(own) // B)
    used = len(rows)
    rows += [v] * (slots - used)
    experts += [-1] * (slots // B - len(experts))
    return [np.array(x, np.int32) for x in (rows, experts, [used])]


@pytest.fixture
def operands(tmp_path):
    ids = np.random.default_rng(5).integers(-2, E + 2, (50, T)).astype(np.int32)
    ids[3, 1] = -2**31
    ids.tofile(tmp_path / "ids.bin")
    return tmp_path, blocks(ids)


NAMES = ["rows", "experts", "rows_used"]


def files(path):
    return [f"topk_ids={path}/ids.bin", *(f"{n}={path}/{n}.bin" for n in NAMES)]


def expect(path, right):
    for name, want in zip(NAMES, right):
        got = np.fromfile(path / f"{name}.bin", np.int32)
        assert np.array_equal(got, want), name


@pytest.mark.parametrize("target", ["gfx1151", "gfx942"])
def test_run(quern, operands, target):
    path, right = operands
    quern("run", "--target", target, "--m", "50", PROBLEM, *files(path))
    expect(path, right)


def test_build_and_sim(quern, operands):
    path, right = operands
    done = quern("build", "--target", "gfx1201", "--m", "50", PROBLEM, "--out", path / "plan")
    plan = json.loads((path / "plan/plan.json").read_text())
    assert plan["tokens"] == 50 and plan["rows"] == right[0].size and plan["block_rows"] == B
    assert plan["problem"] == PROBLEM and plan["covers"] == [1, 65536 // T]
    assert [(o["name"], o["access"]) for o in plan["operands"]] == [
        ("topk_ids", "r"), ("rows", "w"), ("experts", "w"), ("rows_used", "w")]
    done = quern("sim", path / "plan/plan.json", *files(path))
    expect(path, right)


def test_what_is_said(quern):
    on = ["--target", "gfx942"]
    said = quern("explain", *on, "--m", 50, PROBLEM).stdout
    assert "family moe_align on gfx942" in said and "8 workgroups of 1024 work-items" in said
    few, many = (float(re.search(r"m=\d+: ([0-9.]+) us expected",
                                 quern("explain", *on, "--m", m, PROBLEM).stdout)[1])
                 for m in (1, 20000))
    assert few < many
    assert "serves every M" in quern("explain", *on, "--m-sweep", PROBLEM).stdout
    assert f"// {PROBLEM}\n" in quern("source", *on, "--m", 1, PROBLEM).stdout
    profile = quern.json("profile", *on, "--m", 50, PROBLEM)
    assert profile["total_us"] > 0 and "per_weight" not in profile["launches"][0]
    assert "per weight" not in quern("profile", *on, "--m", 50, PROBLEM).stdout


def test_nvidia(quern):
    on = ["--target", "sm_90"]
    said = quern("explain", *on, "--m", 50, PROBLEM).stdout
    assert "family warp_align on sm_90" in said and "one workgroup of 1024 work-items" in said
    assert "512 work-items" in quern("explain", "--target", "sm_86", "--m", 1,
                                     "op=moe_align experts=1024 top_k=8 block_rows=16").stdout
    verified = quern.json("prewarm", *on, "--m", "1,50", "--verify", PROBLEM)
    assert (verified["runs"], verified["runs_ok"], verified["failed"]) == (2, 2, 0)


def test_what_is_refused(quern, tmp_path):
    on = ["--target", "gfx942"]
    for verb, target in (("explain", "gfx942"), ("profile", "gfx942"), ("explain", "sm_90")):
        quern.refused(verb, "--target", target, "--m", 21846, PROBLEM, status=2,
                      says="takes at most 65536 choices, with top_k=3 1 to 21845 tokens")
    quern.refused("explain", *on, "--m", 1, PROBLEM + " wq=nf4", status=2,
                  says="wq does not apply to op=moe_align")
    quern.refused("quantize", PROBLEM, "--out", tmp_path, "w=/dev/null", status=2,
                  says="has no weights")
    quern.refused("repack", PROBLEM, "--to", "k8", "b=/dev/null", f"out={tmp_path}/b", status=2,
                  says="has no weights")


def test_manifest(quern, operands):
    """What is recorded of an op can be prewarmed and verified."""
    path, _ = operands
    record = path / "layers.txt"
    done = quern("run", "--target", "gfx1151", "--m", "50", PROBLEM, *files(path),
                 env={"QUERN_RECORD": str(record)})
    assert record.read_text() == f"target=gfx1151 m=50-50 {PROBLEM}\n"
    done = quern("prewarm", "--manifest", record, "--verify", "--json")
    assert "moe_align" in done.stdout and "inf" not in done.stdout.lower()
