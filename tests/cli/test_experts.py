# SPDX-License-Identifier: MIT
"""examples/moe: a feed-forward layer as a mixture of its parts is that layer, on software GPUs and
on a GPU; its answers to bad input."""

import os
import pathlib
import re
import subprocess

import pytest
import safetensors
from conftest import cases

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("B", TOP / "build" / "release"))
MOE = TOP / BUILD / "examples" / "moe"
# GPUs that are software GPUs behind the HIP runtime's interface, as in test_encoder.py.
FAKEHIP = TOP / BUILD / "lib" / "fakehip"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    env = {**os.environ, "QUERN_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}

    def run_moe(*args, **more):
        return subprocess.run([MOE, *args], capture_output=True, timeout=1800, text=True,
                              env={**env, **more})

    return run_moe


def verdict(done):
    """What the program printed: the difference, the largest value, and its word for them."""
    assert not done.stderr, done.stderr
    layer, blocks, last = done.stdout.splitlines()
    found = re.fullmatch(r"largest difference from the layer: (\S+), of values up to (\S+): (.*)",
                         last)
    return layer, blocks, float(found[1]), float(found[2]), found[3]


# ---- the real model -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    fetched = subprocess.run(["sh", TOP / "tools" / "fetch_model.sh"], capture_output=True,
                             text=True)
    if fetched.returncode:
        pytest.skip(f"the model cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}")
    return TOP / "build" / "models" / "all-MiniLM-L6-v2"


@pytest.mark.numbers
@pytest.mark.parametrize("words", [
    (), ("--tokens=1", "--layer=5"), ("--tokens=40", "--layer=2"), ("--target=gfx942",),
    ("--target=gfx1201", "--tokens=3")], ids=" ".join)
def test_the_mixture_is_the_layer(run, model, words):
    done = run(*words, model)
    layer, blocks, difference, largest, word = verdict(done)
    assert (done.returncode, word) == (0, "good")
    assert difference < 1e-6 * largest and largest > 1
    assert layer.endswith(", 384 -> 1536 -> 384 in NF4, as 8 experts of 192")
    tokens, used, slots, rows = map(int, re.fullmatch(
        r"(\d+) tokens with 8 choices each on gfx\d+\w?: (\d+) of at most (\d+) slots used, in "
        r"blocks of (\d+)", blocks).groups())
    assert used == 8 * rows * -(-tokens // rows) <= slots  # each expert has every token


@pytest.mark.numbers
def test_a_part_that_is_missing_is_seen(run, model):
    done = run("--without=3", model)
    _, _, difference, largest, word = verdict(done)
    assert (done.returncode, word) == (1, "not good") and difference > 0.01 * largest


# ---- a model of our own -------------------------------------------------------------------------

UP, DOWN = (f"encoder.layer.0.{name}.dense." for name in ("intermediate", "output"))


def write_model(directory, hidden=64, wide=512, edit=None):
    """Writes a feed-forward layer and some words; `edit` changes the safetensors header."""
    shapes = (("embeddings.word_embeddings.weight", [12, hidden]),
              (UP + "weight", [wide, hidden]), (UP + "bias", [wide]),
              (DOWN + "weight", [hidden, wide]), (DOWN + "bias", [hidden]))
    directory.mkdir(exist_ok=True)
    safetensors.write(directory / "model.safetensors", safetensors.gaussian(shapes), edit)
    return directory


@pytest.fixture
def small(tmp_path):
    return write_model(tmp_path / "model")


def test_a_small_layer(run, small):
    for words, status in cases(((("--tokens=20",), 0), ((), 0), (("--without=0",), 1)),
                               (((), 0), (("--without=0",), 1))):
        done = run(*words, small)
        assert done.returncode == status, done
        assert verdict(done)[4] == ("not good" if status else "good")


def test_blocks_are_made_on_the_device(run, small, tmp_path):
    """By an op of its own, beside those of the two products."""
    done = run(small, QUERN_RECORD=str(tmp_path / "layers.txt"))
    assert done.returncode == 0, done
    rows = re.search(r"in blocks of (\d+)", done.stdout)[1]
    layers = (tmp_path / "layers.txt").read_text()
    assert f"op=moe_align experts=8 top_k=8 block_rows={rows}" in layers, layers
    assert len(re.findall(r"op=moe ", layers)) == 2


@pytest.mark.skipif(not FAKEHIP.is_dir(), reason="no HIP headers to make it from")
def test_on_a_gpu(run, small):
    gpu = {"LD_LIBRARY_PATH": str(FAKEHIP), "FAKEHIP_DEVICES": "gfx1151", "QUERN_DEVICE": "hip"}
    done = run("--gpu", small, **gpu)
    assert done.returncode == 0, done
    _, blocks, _, _, word = verdict(done)
    assert word == "good" and " on gfx1151: " in blocks
    done = run("--gpu", small, **{**gpu, "FAKEHIP_DEVICES": ","})
    assert done.returncode == 1 and done.stdout == ""
    assert "opening the GPU" in done.stderr and "hipErrorNoDevice" in done.stderr


def one_line(done, *words):
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, ""), done
    assert len(lines) == 1 and lines[0].startswith("moe: "), lines
    for word in words:
        assert word in lines[0], lines[0]


def test_models_that_cannot_be_split(run, tmp_path):
    one_line(run(tmp_path), "model.safetensors: No such file")
    one_line(run(write_model(tmp_path / "narrow", wide=320)),
             "320 columns cannot be split into 8 experts of whole groups of 64")
    one_line(run(write_model(tmp_path / "odd", hidden=96)), "k=96 is not a multiple of group=64")
    one_line(run("--layer=1", write_model(tmp_path / "short")),
             "there is no tensor encoder.layer.1.intermediate.dense.weight")

    def edited(**members):
        return write_model(tmp_path / "bad", edit=lambda header: header[UP + "weight"].update(
            members))

    one_line(run(edited(shape=[0, 64])), "dimension 0 of tensor " + UP, "is 0; expected 1 to")
    one_line(run(edited(shape=[2**40, 64])), f"is {2**40}; expected 1 to 1048576")
    one_line(run(edited(shape="wide")), "not a list of sizes")
    one_line(run(edited(shape=[512, 128])), "bytes; its shape makes it")
    one_line(run(edited(shape=[256, 64], data_offsets=[3072, 3072 + 65536])),
             f"dimension 0 of tensor {UP}bias is 512; expected 256")
    one_line(run(edited(dtype="BF16")), "is of type BF16; expected F32")


@pytest.mark.parametrize("args, word", [
    ([], "MODEL_DIRECTORY is missing"), (["a", "b"], "one MODEL_DIRECTORY is taken, not also b"),
    (["--tokens=0", "a"], "--tokens takes 1 to 1000, not 0"),
    (["--tokens=", "a"], "--tokens takes 1 to 1000, not "),
    (["--layer=-1", "a"], "--layer takes 0 to 999, not -1"),
    (["--without=8", "a"], "--without takes 0 to 7, not 8"),
    (["--nonsense", "a"], "nonsense"),
])
def test_usage(run, args, word):
    done = run(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr and "Try 'moe --help'." in done.stderr


def test_help_and_output(run, small, tmp_path):
    done = run("--help")
    assert done.returncode == 0 and done.stdout.startswith("Usage: moe") and not done.stderr
    done = run("--target=gfx9999", small)
    assert (done.returncode, done.stdout) == (1, "") and "gfx9999" in done.stderr
    with open("/dev/full", "w") as full:
        done = subprocess.run([MOE, small], stdout=full, stderr=subprocess.PIPE,
                              env={**os.environ, "QUERN_CACHE_DIR": str(tmp_path / "cache")})
    assert done.returncode == 1 and b"cannot write" in done.stderr
