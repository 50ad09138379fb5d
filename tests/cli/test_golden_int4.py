# SPDX-License-Identifier: MIT
"""Checkpoints as public tools pack them (tests/peers/make_golden_int4.py) become operands."""

import int4
import pytest
from conftest import TOP

GOLDEN = TOP / "tests" / "golden" / "int4"
N, K, GROUP = 64, 256, 64
GROUPS = K // GROUP
PROBLEM = f"wq=int4 n={N} k={K} group={GROUP} a=f16 zero=u8 layout="


def rows(name, columns):
    data = (GOLDEN / name).read_bytes()
    return [list(data[i : i + columns]) for i in range(0, len(data), columns)]


def transposed(data, columns, size):
    cells = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(cells[r * columns + c] for c in range(columns)
                    for r in range(len(cells) // columns))


CODES = rows("codes", K)
POINTS = (GOLDEN / "points").read_bytes()
BY_GROUPS = (GOLDEN / "scales").read_bytes()
SCALES = transposed(BY_GROUPS, N, 2)


def tensors(kind, tmp_path):
    """The command's words for a kind's files."""
    if kind == "compressed":
        (tmp_path / "weight_scale").write_bytes(SCALES)
        return [f"weight_packed={GOLDEN}/compressed.weight_packed",
                f"weight_scale={tmp_path}/weight_scale",
                f"weight_zero_point={GOLDEN}/compressed.weight_zero_point"]
    return [f"qweight={GOLDEN}/{kind}.qweight", f"qzeros={GOLDEN}/{kind}.qzeros",
            f"scales={GOLDEN}/scales"]


@pytest.mark.parametrize("kind", ["gptq", "gptq_v2", "awq", "compressed"])
@pytest.mark.parametrize("layout", ["k8", "ck"])
def test_what_tools_pack_is_read(quern, tmp_path, kind, layout):
    quern("repack", "--checkpoint", kind, PROBLEM + layout, *tensors(kind, tmp_path), "--out",
          tmp_path / "out")
    assert (tmp_path / "out/b").read_bytes() == int4.pack(CODES, layout)
    assert (tmp_path / "out/zeros").read_bytes() == POINTS
    assert (tmp_path / "out/scales").read_bytes() == SCALES


def test_layouts_are_the_tools(quern, tmp_path):
    """Weights alone go from one tool's order to another's."""
    files = {"gptq": "gptq.qweight", "awq": "awq.qweight", "k8": "compressed.weight_packed"}
    for source, name in files.items():
        for target, wanted in files.items():
            quern("repack", "--to", target, PROBLEM + source, f"b={GOLDEN}/{name}",
                  f"out={tmp_path}/out")
            assert (tmp_path / "out").read_bytes() == (GOLDEN / wanted).read_bytes()


def test_bad_tensors_of_compressed_are_named(quern, tmp_path):
    words = tensors("compressed", tmp_path)

    def refused(says, text=PROBLEM + "k8"):
        quern.refused("repack", "--checkpoint", "compressed", text, *words, "--out",
                      tmp_path / "out", status=2, says=says)

    scales = tmp_path / "weight_scale"
    scales.write_bytes(SCALES[:-2])
    refused(["tensor weight_scale has 510 bytes", "[N,G]", "[64,4]"])
    scales.write_bytes(SCALES[:10] + b"\x00\x7e" + SCALES[12:])
    refused("tensor weight_scale is NaN at [1,1]")
    scales.write_bytes(SCALES)
    refused(["tensor weight_zero_point has the zero point", "zero=none"],
            PROBLEM.replace("u8", "none") + "k8")
    refused("weight_packed has 8192 bytes", PROBLEM.replace("n=64", "n=128") + "k8")
