# SPDX-License-Identifier: MIT
"""What docs/reliability.md says of the fuzz targets, and the account that says whether it holds."""

import pathlib
import re
import subprocess
import sys

from conftest import TOP

sys.path.insert(0, str(TOP / "tests/fuzz"))
import campaign  # noqa: E402

PAGE = (TOP / "docs/reliability.md").read_text()
TARGETS = {p.stem.removeprefix("test_fuzz_") for p in (TOP / "tests/fuzz").glob("test_fuzz_*.c")}


def test_the_page_names_each_target():
    (listed,) = re.findall(r"^\| what is read \| target \|\n(.*?)\n\n", PAGE, re.M | re.S)
    assert set(re.findall(r"`test_fuzz_(\w+)\.c`", listed)) == TARGETS
    assert set(campaign.campaigns(PAGE)) <= TARGETS


def test_what_a_target_reads_with():
    readers = campaign.readers()
    assert set(readers) == TARGETS
    for target, has in (("seal", "src/store/seal.c"), ("facts", "src/plan/facts.c"),
                        ("bundle", "src/store/bundle_entry.c"), ("model", "tools/model/model.c"),
                        ("request", "src/compile/worker_serve.c")):  # fmt: skip
        assert {has, f"tests/fuzz/test_fuzz_{target}.c"} <= readers[target], target
        assert all((TOP / name).is_file() for name in readers[target])
    assert not {s for s in readers["seal"] if s.startswith(("src/plan", "src/compile", "tools"))}


def test_a_change_is_told(tmp_path, monkeypatch, capsys):
    """In a repository with two targets, of which one's header has changed, and a third anew."""
    def git(*words):
        return subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.org",
                               *words], cwd=tmp_path, check=True, text=True,
                              capture_output=True).stdout.strip()  # fmt: skip
    for name in ("a.c", "a.h", "b.c", "docs/reliability.md"):
        path = pathlib.Path(tmp_path, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "--short", "HEAD")
    (tmp_path / "a.h").write_text("changed")
    row = "| {} | 1 | 1 | 0.1 | 0 | 2026-01-01 | {} |\n"
    (tmp_path / "docs/reliability.md").write_text(
        "".join(row.format(t, c) for t, c in (("a", commit), ("b", commit), ("c", "0" * 7))))
    monkeypatch.setattr(campaign, "TOP", tmp_path)
    monkeypatch.setattr(campaign, "readers", lambda: {
        "a": {"a.c"}, "b": {"b.c"}, "c": {"a.c"}, "d": {"b.c"}})  # fmt: skip
    campaign.tell_changes()
    assert capsys.readouterr().out.splitlines() == [
        f"a: changed since {commit}: a.h", f"b: unchanged since {commit} (1 sources)",
        "c: 0000000 is not in this repository", "d: has had no campaign"]  # fmt: skip
