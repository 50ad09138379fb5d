# SPDX-License-Identifier: MIT
"""Bad input: one clear line, exit status 1 or 2, and nothing half-written."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from conftest import COMMAND, SMALL_MODEL, TARGET, Quern, files_under

PREWARM = ["prewarm", "--wq", "nf4", "--a", "bf16", "--target", TARGET, "--m", "1"]
ROOT = os.geteuid() == 0


def model_with(**changes):
    model = {**SMALL_MODEL, **changes}
    return json.dumps({k: v for k, v in model.items() if v is not None})


# ---- Model files --------------------------------------------------------------------------------

MODELS = {
    "empty": ("", "is not JSON"),
    "not-json": ("layers: 36\n", ["is not JSON", "line 1"]),
    "cut-short": (model_with()[:-9], "is not JSON"),
    "binary": ("\x7fELF\x02\x01", "is not JSON"),
    "array": ("[1, 2]", "must hold a JSON object"),
    "deep": ("[" * 100 + "]" * 100, ["100 levels", "at most 32"]),
    "deep-unclosed": ("[" * 100_000, ["levels", "at most 32"]),
    "twice": ('{"quern_model":1, "quern_model":1}', "is not JSON"),
    "too-big": (" " * ((16 << 20) + 1), ["16777217 bytes", "at most 16777216"]),
    "no-version": (model_with(quern_model=None), ["'quern_model' is missing", "'model_type'"]),
    "version-2": (model_with(quern_model=2), "'quern_model' is 2"),
    "no-name": (model_with(name=None), "'name' is missing"),
    "name-number": (model_with(name=7), "'name' is 7"),
    "long-name": (model_with(name="x" * 100), ["'name' has 100 bytes", "63"]),
    "name-control": (model_with(name="a\n\x1b[31mb"), "'name' has the control character 0x0a"),
    "hidden-text": (model_with(hidden="128"), "'hidden' is \"128\""),
    "hidden-real": (model_with(hidden=128.5), "'hidden' is 128.5"),
    "hidden-zero": (model_with(hidden=0), ["'hidden' is 0", "from 1 to"]),
    "hidden-negative": (model_with(hidden=-128), ["'hidden' is -128", "from 1 to"]),
    "hidden-2-31": (model_with(hidden=2**31), ["'hidden' is 2147483648", "1073741824"]),
    "hidden-2-64": (model_with(hidden=2**64), "18446744073709551616"),
    "heads-product": (model_with(heads=2**20, head_dim=2**20), ["head_dim is", "1073741824"]),
    "kv-heads": (model_with(kv_heads=4), ["'kv_heads' is 4", "'heads', 2"]),
    "million-layers": (model_with(layers=1_000_000), ["'layers' is 1000000", "10000"]),
    "layer-list": (model_with(layers=[{}] * 1000), ["'layers' is [", "from 1 to"]),
    "experts-number": (model_with(experts=8), "'experts' is 8"),
    "experts-empty": (model_with(experts={}), "experts: 'count' is missing"),
    "experts-zero": (model_with(experts={"count": 0, "intermediate": 64}), "'count' is 0"),
    "experts-top-k": (model_with(experts={"count": 4, "intermediate": 64, "top_k": 5}),
                      ["experts: 'top_k' is 5", "from 1 to 4"]),
    "experts-shared": (model_with(experts={"count": 4, "intermediate": 64, "shared": 0}),
                       "experts: 'shared' is 0"),
    "experts-bias": (model_with(experts={"count": 4, "intermediate": 64, "bias": 1}),
                     "experts: 'bias' is 1; it must be true or false"),
    "experts-act": (model_with(experts={"count": 4, "intermediate": 64, "act": "gelu"}),
                    ["experts: 'act' is \"gelu\"", "silu_mul|swiglu_oai|none"]),
    "experts-glu": (model_with(experts={"count": 4, "intermediate": 64, "glu": 2}),
                    "experts: 'glu' is 2; it must be one of halves|interleaved"),
    "attention-bias": (model_with(attention_bias="yes"), "'attention_bias' is \"yes\""),
    "latent-number": (model_with(latent=512), "'latent' is 512; it must be an object"),
    "latent-empty": (model_with(latent={"q": 64}), "latent: 'kv' is missing"),
    "latent-v": (model_with(latent={"kv": 64, "nope": 32, "rope": 16}), "latent: 'v' is missing"),
}
MODELS.update(
    (f"no-{field}", (model_with(**{field: None}), f"'{field}' is missing"))
    for field in ("hidden", "intermediate", "heads", "kv_heads", "head_dim", "layers", "vocabulary")
)


@pytest.mark.parametrize("case", MODELS)
def test_a_bad_model_file(quern, tmp_path, case):
    text, says = MODELS[case]
    path = tmp_path / "model.json"
    path.write_text(text)
    line = quern.refused(*PREWARM, "--model", path, status=1, says=says)
    assert str(path) in line
    assert not quern.cache.exists()


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo"])
def test_a_model_that_is_no_file(quern, tmp_path, kind):
    path = tmp_path / "model.json"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    quern.refused(*PREWARM, "--model", path, status=1, says=str(path))


@pytest.mark.parametrize("tp", ["0", "x", "1,,2", "3", "1,2,4,8,16,32,64,128,256", "-1"])
def test_a_split_that_cannot_be(quern, small_model, tp):
    quern.refused(*PREWARM, "--model", small_model, f"--tp={tp}", status=2, says=f"--tp {tp}"
                  if tp == "3" else f"--tp '{tp}'")  # fmt: skip


# ---- Problem texts ------------------------------------------------------------------------------

PROBLEMS = {
    "wq=nf4 n=64 k=128 a=bf16 colour=red": "colour",
    "wq=nf5 n=64 k=128 a=bf16": "nf5",
    "wq=nf4 n=64 k=100 a=bf16": ["100", "64"],
    "wq=nf4 group=4096 n=64 k=2048 a=bf16": ["2048", "4096"],
    "wq=nf4 group=48 n=64 k=96 a=bf16": "48",
    "wq=nf4 n=0 k=128 a=bf16": "n=0",
    "wq=nf4 n=64 k=0 a=bf16": "k=0",
    "wq=nf4 n=2147483648 k=128 a=bf16": "2147483648",
    "wq=nf4 n=64 k=2147483648 a=bf16": "2147483648",
    "wq=nf4 n=99999999999999999999 k=128 a=bf16": "99999999999999999999",
    "wq=nf4 n=-64 k=128 a=bf16": "-64",
    "wq=nf4 n=64k k=128 a=bf16": "64k",
    "wq=nf4 k=128 a=bf16": "n",
    "wq=nf4 n=64 a=bf16": "k",
    "wq=nf4 n=64 k=128": "a",
    "wq=nf4 n=64 n=64 k=128 a=bf16": "n",
    "wq=nf4 n=64 k=128 a=bf16 zero=u8": "zero",
    "wq=none n=64 k=128 a=bf16 group=64": "group",
    "wq": "wq",
    "": "",
}


@pytest.mark.parametrize("text", PROBLEMS)
@pytest.mark.parametrize("verb", ["build", "explain", "prewarm"])
def test_a_bad_problem(quern, tmp_path, verb, text):
    words = [verb, "--target", TARGET, "--m", "1", text]
    if verb == "build":
        words += ["--out", tmp_path / "out"]
    quern.refused(*words, status=2, says=PROBLEMS[text])
    assert not (tmp_path / "out").exists() and not quern.cache.exists()


def test_a_problem_that_no_kernel_can_do_is_declined(quern, tmp_path):
    quern.refused("build", "--target", "gfx1153", "--m", "1", "--out", tmp_path / "out",
                  "wq=fp8 a=bf16 n=64 k=64", status=1, says="wq=fp8")  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_an_unverified_target_names_the_option(quern, tmp_path):
    quern.refused("build", "--target", "gfx1030", "--m", "1", "--out", tmp_path / "out",
                  "wq=nf4 n=64 k=128 a=bf16", status=1, says=["gfx1030", "--allow-unverified"])
    assert not (tmp_path / "out").exists()


# ---- The cache directory ------------------------------------------------------------------------

PROBLEM = "wq=nf4 n=64 k=128 a=bf16"


def refused_cache(directory, says, prefix=(), command=COMMAND):
    quern = Quern(directory)
    line = quern.refused("prewarm", "--target", TARGET, "--m", "1", PROBLEM, status=1, says=says,
                         prefix=prefix, command=command)  # fmt: skip
    assert str(directory) in line


def test_a_cache_that_is_a_file(tmp_path):
    path = tmp_path / "cache"
    path.write_text("kept")
    refused_cache(path, "director")
    assert path.read_text() == "kept"


def test_a_cache_below_a_file(tmp_path):
    (tmp_path / "file").write_text("kept")
    refused_cache(tmp_path / "file/cache", "director")


def test_a_cache_that_others_can_write(tmp_path):
    path = tmp_path / "cache"
    path.mkdir()
    path.chmod(0o777)
    refused_cache(path, "writ")
    assert files_under(path) == []


@pytest.fixture
def open_place():
    """A directory that every user can enter, unlike tmp_path, with a copy of the command."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="quern-test-", dir="/tmp"))
    place.chmod(0o755)
    shutil.copy(COMMAND, place / "quern")
    (place / "quern").chmod(0o755)
    yield place
    shutil.rmtree(place)


NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def test_a_cache_that_is_not_writable(open_place):
    path = open_place / "cache"
    path.mkdir()
    if ROOT:
        os.chown(path, NOBODY, NOBODY)
    path.chmod(0o500)
    refused_cache(path, "writ", AS_NOBODY if ROOT else (), open_place / "quern")
    path.chmod(0o700)
    assert files_under(path) == []


def test_a_cache_in_a_place_that_is_not_writable(open_place):
    inner = open_place / "closed"
    inner.mkdir()
    inner.chmod(0o555)
    refused_cache(inner / "cache", "", AS_NOBODY if ROOT else (), open_place / "quern")
    inner.chmod(0o755)
    assert files_under(inner) == []


@pytest.mark.skipif(not ROOT, reason="only root can give a directory away")
def test_a_cache_of_someone_else(open_place):
    path = open_place / "cache"
    path.mkdir(0o700)
    os.chown(path, NOBODY, NOBODY)
    refused_cache(path, "belong")
    assert files_under(path) == []


# ---- A full disk --------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 48 KiB."""
    path = tmp_path / "disk"
    path.mkdir(mode=0o700)
    mounted = ROOT and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k,mode=0700", "tmpfs", path], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield path
    subprocess.run(["umount", path], check=True)


def fill(path):
    with (path / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(b"x" * 4096):
                pass
        except OSError:
            pass


def test_a_full_disk_below_the_cache(small_disk):
    (small_disk / "cache").mkdir(mode=0o700)
    fill(small_disk)
    done = Quern(small_disk / "cache")("prewarm", "--target", TARGET, "--m", "1", "--verify",
                                       PROBLEM, status=1)  # fmt: skip
    assert done.stderr.count("\n") == 1
    cache = str(small_disk / "cache")
    for text in ("1 kernel could", cache, "No space left on device", "make room there"):
        assert text in done.stderr
    assert [f for f in files_under(small_disk / "cache") if "tmp" in f or f.endswith(".qk")] == []


def test_a_full_disk_below_the_outputs(warm, small_disk, tmp_path):
    fill(small_disk)
    out = small_disk / "out"
    warm.refused("build", "--target", TARGET, "--m", "1", "--out", out, PROBLEM, status=1,
                 says="No space left on device")  # fmt: skip
    assert not out.exists()
    (tmp_path / "w").write_bytes(bytes(64 * 128 * 4))
    warm.refused("quantize", PROBLEM, f"w={tmp_path}/w", "--out", out, status=1,
                 says="No space left on device")  # fmt: skip
    assert not out.exists()
    assert files_under(small_disk) == ["filler"]
