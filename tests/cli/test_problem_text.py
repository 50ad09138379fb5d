# SPDX-License-Identifier: MIT
"""Problem text: canonical form, defaults, and that no text at all does harm. Called through the
library's C interface, the way another language would."""

import ctypes
import os
import random

import hypothesis_profile  # noqa: F401
import pytest
from conftest import EXPLORES, TARGET, TOP
from hypothesis import given, settings
from hypothesis import strategies as st

MANY = 1000 if EXPLORES else 250

LIBRARY = os.environ.get("QUERN_LIBRARY", TOP / "build/release/lib/libquern.so")
TEXT_MAX = 256
OK, E_PROBLEM = 0, 2


class Problem(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("op", ctypes.c_int),
        ("wq", ctypes.c_int),
        ("group", ctypes.c_int32),
        ("scale", ctypes.c_int),
        ("zero", ctypes.c_int),
        ("a", ctypes.c_int),
        ("c", ctypes.c_int),
        ("n", ctypes.c_int64),
        ("k", ctypes.c_int64),
        ("bias", ctypes.c_int32),
        ("layout", ctypes.c_int),
        ("round", ctypes.c_int),
        ("unused", ctypes.c_int32),
        ("exact", ctypes.c_int),
        ("unused2", ctypes.c_int32),
        ("kernels", ctypes.c_int),
        ("unused3", ctypes.c_int32),
        ("act", ctypes.c_int),
        ("glu", ctypes.c_int),
    ]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int)] + [
        (name, ctypes.c_char_p) for name in ("message", "stage", "condition", "log", "reproduce")
    ]


@pytest.fixture(scope="module")
def library():
    loaded = ctypes.CDLL(str(LIBRARY))
    loaded.quern_problem_parse.argtypes = [ctypes.c_char_p, ctypes.POINTER(Problem)]
    loaded.quern_problem_text.argtypes = [ctypes.POINTER(Problem), ctypes.c_char_p, ctypes.c_size_t]
    loaded.quern_last_error.restype = ctypes.POINTER(Error)
    return loaded


def parse(library, text):
    """The problem, or the message that refuses it."""
    problem = Problem(size=ctypes.sizeof(Problem))
    status = library.quern_problem_parse(text, problem)
    if status == OK:
        return problem
    assert status == E_PROBLEM, status
    message = library.quern_last_error().contents.message
    assert message and b"\n" not in message
    return message


def canonical(library, problem):
    out = ctypes.create_string_buffer(TEXT_MAX)
    assert library.quern_problem_text(problem, out, TEXT_MAX) == OK
    return out.value


WORDS = {
    "op": ["gemm", "dequant"],
    "wq": ["nf4", "fp4", "mxfp4", "int4", "fp8", "fp8fnuz", "none"],
    "group": ["32", "64", "128", "256", "512", "1024", "2048", "4096", "channel"],
    "scale": ["f32", "f16", "bf16", "nested", "e8m0", "tensor", "block128"],
    "zero": ["none", "u8", "scaled"],
    "a": ["f32", "f16", "bf16", "fp8", "fp8fnuz"],
    "c": ["f32", "f16", "bf16"],
    "bias": ["0", "1"],
    "layout": ["bnb", "k8", "exl", "ck", "gptq", "awq", "dense"],
    "round": ["rne", "trunc"],
    "exact": ["batch_invariant", "precise", "both"],
    "kernels": ["base"],
    "act": ["silu_mul", "swiglu_oai"],
    "glu": ["halves", "interleaved"],
}
ORDER = ["op", "wq", "group", "scale", "zero", "a", "c", "n", "k", "bias", "act", "glu"]
ORDER += ["layout", "round", "exact", "kernels"]
ANY_WORDS = st.fixed_dictionaries(
    {"wq": st.sampled_from(WORDS["wq"]), "n": st.integers(1, 2**20), "k": st.integers(1, 4096)},
    optional={word: st.sampled_from(values) for word, values in WORDS.items() if word != "wq"},
)
# act and glu, which go together, or neither.
PAIRS = st.just({}) | st.fixed_dictionaries(
    {word: st.sampled_from(WORDS[word]) for word in ("act", "glu")}
)
# Multiples of every group, so that most of them are accepted.
GOOD_WORDS = st.fixed_dictionaries(
    {
        "wq": st.sampled_from(["nf4", "fp4"]),
        "n": st.integers(1, 2**20).map(lambda n: n * 8),
        "k": st.integers(1, 256).map(lambda k: k * 4096),
        "a": st.sampled_from(["f32", "f16", "bf16"]),
    },
    optional={
        "group": st.sampled_from(WORDS["group"][:-1]),
        "c": st.sampled_from(WORDS["c"]),
        "bias": st.sampled_from(WORDS["bias"]),
        "op": st.just("gemm"),
        "scale": st.just("f32"),
        "layout": st.just("bnb"),
        "round": st.just("rne"),
        "exact": st.sampled_from(["batch_invariant", "precise", "both"]),
        "kernels": st.just("base"),
    },
).flatmap(lambda words: PAIRS.map(lambda pair: {**words, **pair}))


def joined(words, rng):
    items = list(words.items())
    rng.shuffle(items)
    return " ".join(f"{key}={value}" for key, value in items).encode()


@settings(max_examples=MANY)
@given(words=GOOD_WORDS, rng=st.randoms(use_true_random=False))
def test_a_sound_problem_is_accepted_in_any_order(library, words, rng):
    problem = parse(library, joined(words, rng))
    assert isinstance(problem, Problem), (words, problem)
    text = canonical(library, problem).decode()
    printed = dict(word.split("=") for word in text.split(" "))
    assert [key for key in ORDER if key in printed] == list(printed)
    for key, value in words.items():
        assert printed[key] == str(value)
    assert printed["group"] == str(words.get("group", 64))
    assert printed["c"] == words.get("c", words["a"])


@settings(max_examples=MANY)
@given(words=ANY_WORDS, rng=st.randoms(use_true_random=False))
def test_the_canonical_text_is_stable(library, words, rng):
    problem = parse(library, joined(words, rng))
    if not isinstance(problem, Problem):
        return  # refused with one line, which parse() has checked
    text = canonical(library, problem)
    again = parse(library, text)
    assert isinstance(again, Problem), (text, again)
    assert canonical(library, again) == text
    assert bytes(again) == bytes(problem)


@settings(max_examples=MANY)
@given(text=st.binary(max_size=400).filter(lambda b: b"\0" not in b))
def test_any_bytes_are_parsed_or_refused(library, text):
    parse(library, text)


@settings(max_examples=MANY)
@given(words=GOOD_WORDS, seed=st.integers(0, 2**32 - 1), cut=st.binary(max_size=4))
def test_a_damaged_text_is_parsed_or_refused(library, words, seed, cut):
    rng = random.Random(seed)
    text = bytearray(joined(words, rng))
    at = rng.randrange(len(text))
    text[at : at + rng.randrange(4)] = cut.replace(b"\0", b" ")
    parse(library, bytes(text))


def test_a_refused_text_leaves_the_problem_alone(library):
    problem = Problem(size=ctypes.sizeof(Problem), n=7, k=9)
    before = bytes(problem)
    assert library.quern_problem_parse(b"wq=nf4 n=64 k=100 a=bf16", problem) == E_PROBLEM
    assert bytes(problem) == before


def test_a_small_buffer_is_an_error(library):
    problem = parse(library, b"wq=nf4 n=64 k=128 a=bf16")
    length = len(canonical(library, problem))
    out = ctypes.create_string_buffer(TEXT_MAX)
    e_buffer = 5
    assert library.quern_problem_text(problem, out, length) == e_buffer
    assert library.quern_problem_text(problem, out, length + 1) == OK


def test_the_command_prints_the_canonical_text(library, quern):
    given_text = "k=128 a=bf16 wq=nf4 n=64"
    verdict, printed, *_ = quern("explain", "--target", TARGET, given_text).stdout.splitlines()
    assert verdict.startswith("compiles: ")
    assert printed.encode() == canonical(library, parse(library, given_text.encode()))
    assert printed == ("op=gemm wq=nf4 group=64 scale=f32 a=bf16 c=bf16 n=64 k=128 bias=0 "
                       "layout=bnb round=rne")
