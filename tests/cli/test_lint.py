# SPDX-License-Identifier: MIT
"""quern lint: exit statuses, findings as text and as JSON, files that cannot be scanned."""

import json

import pytest
from conftest import Quern


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A code object of ours for gfx942 that has matrix instructions."""
    place = tmp_path_factory.mktemp("lint")
    Quern(place / "cache")("build", "--target", "gfx942", "--m", "16", "--out", place,
          "wq=nf4 n=512 k=512 a=bf16")  # fmt: skip
    plan = json.loads((place / "plan.json").read_text())
    return place / plan["launches"][0]["object"]


def damaged(kernel, old, new, tmp_path):
    """The same object with every instruction that has these bytes replaced by another."""
    code = kernel.read_bytes()
    assert old in code
    path = tmp_path / "damaged.co"
    path.write_bytes(code.replace(old, new))
    return path


def test_what_is_sound(quern, kernel):
    said = quern("lint", kernel).stdout
    assert said == "1 kernel in 1 code object: nothing was found\n"
    (item,) = quern.json("lint", kernel)
    assert item == {"object": str(kernel), "target": "gfx942", "kernels": 1, "findings": []}


# s_nop 0 in the place of each s_waitcnt that waits for all memory: 0xbf8c0f70 on gfx9.
WAIT, NOP = (0xBF8C0F70).to_bytes(4, "little"), (0xBF800000).to_bytes(4, "little")


def test_what_is_not(quern, kernel, tmp_path):
    path = damaged(kernel, WAIT, NOP, tmp_path)
    done = quern("lint", path, status=1)
    assert "a register is read that a load still owes: v" in done.stdout
    assert str(path) in done.stdout
    (item,) = json.loads(quern("lint", "--json", path, status=1).stdout)
    first = item["findings"][0]
    assert first["rule"] == "not-waited-for"
    assert "load" in first["first_text"] and first["kernel"].startswith("quern_nf4_bf16")
    assert first["second"] != first["first"] and first["needed"] >= 0


def test_files_that_cannot_be_scanned(quern, kernel, tmp_path):
    quern.refused("lint", status=2, says="which file?")
    quern.refused("lint", tmp_path / "none.co", status=1, says="none.co")
    (tmp_path / "text.co").write_text("no ELF")
    quern.refused("lint", tmp_path / "text.co", status=1, says="text.co")
    quern("build", "--target", "gfx1030", "--allow-unverified", "--m", "1", "--out",
          tmp_path / "old", "wq=none n=64 k=64 a=f16")  # fmt: skip
    plan = json.loads((tmp_path / "old/plan.json").read_text())
    quern.refused("lint", tmp_path / "old" / plan["launches"][0]["object"], status=2,
                  says="objects for gfx1030 are not scanned")  # fmt: skip
