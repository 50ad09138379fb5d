# SPDX-License-Identifier: MIT
"""What is said where a kernel is nowhere and may not be compiled: where it is not, why what should
have it does not serve, and the command that makes it."""

import os
import pathlib
import shlex
import shutil
import tempfile

import pytest
from conftest import COMMAND, TARGET, Quern

LAYER = "wq=nf4 n=64 k=128 a=f16"
WORDS = ["prewarm", "--target", TARGET, LAYER]
OFF = {"QUERN_JIT": "off"}
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def said(quern, *words, env=(), **options):
    """The line on stderr of what fails for want of a kernel."""
    return quern(*words, env={**OFF, **dict(env)}, status=1, **options).stderr


def remedy(line):
    return shlex.split(line.rsplit("made by: quern ", 1)[1])


def test_the_remedy_makes_all_that_was_asked_for(quern):
    made = remedy(said(quern, *WORDS, "--m", "1-16"))
    assert made[made.index("--m") + 1] == "1-16"
    quern(*made)
    assert quern(*WORDS, "--m", "1-16", env=OFF).stderr == ""
    # one number of rows is no range
    made = remedy(said(quern, *WORDS[:-1], LAYER.replace("64", "96"), "--m", "5"))
    assert made[made.index("--m") + 1] == "5"


def test_a_bundle_that_is_refused_is_the_remedy(quern, tmp_path):
    quern(*WORDS, "--m", "1")
    bundle = tmp_path / "b.qkb"
    quern("bundle", "create", bundle)
    bundle.write_bytes(bundle.read_bytes()[:-9])
    elsewhere = Quern(tmp_path / "elsewhere")
    line = said(elsewhere, *WORDS, "--m", "1", env={"QUERN_BUNDLE_PATH": str(bundle)})
    assert f"bundle {bundle} is not used: " in line
    assert "; mend that bundle, or have the kernel made by: quern prewarm" in line


def test_a_directory_that_is_not_there(tmp_path):
    typo = Quern(tmp_path / "typo")
    line = said(typo, *WORDS, "--m", "1", env={"QUERN_CACHE_MODE": "ro"})
    assert f"is not in the cache {typo.cache}, which does not exist, and compiling is off" in line
    says = f"cache directory {typo.cache} does not exist"
    for action in ("stat", "list"):
        assert says in typo("cache", action).stderr
    assert typo.json("cache", "stat")["exists"] is False
    typo.refused("cache", "verify", status=1, says=says)
    typo.refused("bundle", "create", tmp_path / "x.qkb", status=1, says=says)
    why = typo("explain", "--target", TARGET, "--why-miss", LAYER).stdout
    assert f"is not in the cache {typo.cache}, which does not exist" in why
    assert not typo.cache.exists()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
def test_doctor_tries_to_store(quern):
    report = quern.json("doctor", env={"QUERN_CACHE_DIR": "/proc/quern"}, status=1)
    (line,) = [c for c in report if c["subject"] == "cache"]
    assert not line["ok"] and "/proc/quern cannot be created" in line["text"]
    report = quern.json("doctor")
    assert all(c["ok"] for c in report if c["subject"] == "cache")
    assert [p for p in quern.cache.rglob("*") if p.is_file()] == []


@pytest.fixture
def image():
    """A cache that root filled, where every user can enter, and a copy of the command there."""
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    top = pathlib.Path(tempfile.mkdtemp(prefix="quern-test-", dir="/tmp"))
    top.chmod(0o755)
    shutil.copy(COMMAND, top / "quern")
    (top / "quern").chmod(0o755)
    quern = Quern(top / "cache")
    quern(*WORDS, "--m", "1")
    yield quern
    shutil.rmtree(top)


def test_what_an_image_lets_nobody_read(image):
    def chmod(words, path=image.cache):
        os.system(f"chmod -R {words} {path}")

    def run(status=1):
        return image(*WORDS, "--m", "1", env={**OFF, "QUERN_CACHE_MODE": "ro"}, prefix=NOBODY,
                     command=image.cache.parent / "quern", status=status)

    chmod("a-w")
    line = run().stderr
    assert f"{image.cache} cannot be opened: Permission denied" in line
    assert f"its owner lets others read it by chmod -R a+rX {image.cache}" in line
    image.cache.chmod(0o755)
    line = run().stderr
    assert f"cannot be looked for in the cache {image.cache}: " in line
    assert f"by chmod -R a+rX {image.cache}/v1; and compiling is off" in line
    chmod("a+rX,a-w")
    assert run(0).stderr == ""
    for entry in image.cache.rglob("*.qk"):
        entry.chmod(0o400)
    line = run().stderr
    assert "its entry cannot be opened: Permission denied" in line and "chmod -R a+rX" in line


@pytest.mark.parametrize("verb", [["time", "--m", "1", LAYER], ["tune", "--m", "1", LAYER],
                                  ["probe"]])  # fmt: skip
def test_where_a_gpu_is_wanted_no_target_is_asked_for(quern, verb):
    """Nor the member of a struct, which the command does not have. With a GPU there is nothing to
    ask, so that none is found here: no runtime is where it is looked for."""
    if any(os.path.exists(f"/dev/{node}") for node in ("kfd", "dxg", "nvidiactl")):
        pytest.skip("this machine may have a GPU")
    line = quern.refused(*verb, status=2, says="; this wants a GPU, and a target alone is none")
    assert ": no GPU: this machine has no AMD GPU" in line
    assert "options.target" not in line and "QUERN_TARGET" not in line
    # doctor has followed the hint to itself
    assert "quern doctor lists" not in quern("doctor").stdout


@pytest.mark.parametrize("device, fact", [("auto", "no GPU: "), ("sim", "no target; ")])
def test_a_target_is_asked_for_as_the_command_has_it(quern, tmp_path, device, fact):
    if any(os.path.exists(f"/dev/{node}") for node in ("kfd", "dxg", "nvidiactl")):
        pytest.skip("this machine may have a GPU")
    files = []
    for name, size in (("a", 256), ("b", 4096), ("scales", 512), ("c", 128)):
        (tmp_path / name).write_bytes(bytes(size))
        files.append(f"{name}={tmp_path / name}")
    line = quern.refused("run", "--device", device, "--m", "1", LAYER, *files, status=2,
                         says="; give --target or QUERN_TARGET a name such as gfx1151")
    assert line.startswith(f"quern run: {fact}") and "options.target" not in line
