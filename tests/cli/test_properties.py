# SPDX-License-Identifier: MIT
"""What must hold of every 4-bit layer, whatever its shape: its result is the double-precision
product's, and it is linear in A, in the scales, and blind to the order of W's rows.

Operands are made here, so that the last three are not asked of the library's own quantiser."""

import itertools
import random
import struct

import hypothesis_profile  # noqa: F401
import operands
from conftest import TARGET
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# every example compiles
FEW = settings(max_examples=6,
               suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

# K with whole steps, with a shorter last one, and with lanes that have nothing to do; N with idle
# rows; rows 1536 bytes apart, so that waves start at different steps
SHAPES = [(64, 1024), (30, 1344), (9, 96), (40, 3072), (17, 2560)]
TYPES = ("f32", "f16", "bf16")
numbers = itertools.count()


@st.composite
def problems(draw):
    """Any 4-bit problem of a size that takes little time."""
    wq = draw(st.sampled_from(["nf4", "fp4", "mxfp4", "int4"]))
    group = 32 if wq == "mxfp4" else 2 ** draw(st.integers(5, 12))
    k = group * draw(st.integers(1, max(1, 4096 // group)))
    n = draw(st.integers(1, max(1, 2**17 // k)))
    words = [f"wq={wq}", f"group={group}", f"n={n}", f"k={k}",
             f"a={draw(st.sampled_from(TYPES))}", f"c={draw(st.sampled_from(TYPES))}",
             f"bias={draw(st.integers(0, 1))}"]
    if wq == "int4":
        words += [f"scale={draw(st.sampled_from(TYPES))}",
                  f"zero={draw(st.sampled_from(['none', 'u8', 'scaled']))}",
                  f"layout={draw(st.sampled_from(['k8', 'exl', 'ck']))}",
                  f"round={draw(st.sampled_from(['rne', 'trunc']))}"]
    elif wq != "mxfp4" and draw(st.booleans()):
        words.append("scale=nested")
    return " ".join(words)


@FEW
@given(problem=problems(), m=st.integers(1, 64))
def test_a_random_problem_is_the_double_product(warm, problem, m):
    report = warm.json("prewarm", "--target", TARGET, "--m", m, "--verify", problem)
    assert report["runs"] >= 1 and report["runs"] == report["runs_ok"]
    for run in report["problems"][0]["verified"]:
        assert run["max_error"] <= run["tolerance"]


class Layer:
    """An NF4 layer with c=f32 and random operands of its own."""

    def __init__(self, warm, directory, shape, a_type, m, seed):
        self.warm, self.directory = warm, directory / str(next(numbers))
        self.directory.mkdir()
        (self.n, self.k), self.a_type, self.m = shape, a_type, m
        source = random.Random(seed)
        self.b = source.randbytes(self.n * self.k // 2)
        self.scales = [source.uniform(0.25, 1) for _ in range(self.n * self.k // 32)]
        # few bits, so that sums of two are exact in every type
        self.a = [source.randint(-31, 31) / 16 for _ in range(m * self.k)]

    def run(self, a=None, b=None, scales=None):
        """C as a list of rows."""
        made = {"a": operands.pack(self.a_type, a or self.a), "b": b or self.b,
                "scales": struct.pack(f"<{len(self.scales)}f", *(scales or self.scales))}
        for name, data in made.items():
            (self.directory / name).write_bytes(data)
        problem = f"wq=nf4 group=32 n={self.n} k={self.k} a={self.a_type} c=f32"
        files = [f"{name}={self.directory / name}" for name in (*made, "c")]
        self.warm("run", "--target", TARGET, "--m", self.m, problem, *files)
        c = operands.unpack("f32", (self.directory / "c").read_bytes())
        return [c[i * self.n:(i + 1) * self.n] for i in range(self.m)]


layers = {"shape": st.sampled_from(SHAPES), "a_type": st.sampled_from(TYPES),
          "m": st.sampled_from([1, 2, 3, 8, 11]), "seed": st.integers(0, 2**32)}


@FEW
@given(**layers)
def test_it_is_linear_in_a(warm, tmp_path, shape, a_type, m, seed):
    layer = Layer(warm, tmp_path, shape, a_type, m, seed)
    other = [random.Random(~seed).randint(-31, 31) / 16 for _ in layer.a]
    one, two = layer.run(), layer.run(a=other)
    both = layer.run(a=[p + q for p, q in zip(layer.a, other)])
    largest = max(abs(y) for row in both for y in row)
    for rows in zip(one, two, both):
        for p, q, y in zip(*rows):
            assert abs(p + q - y) <= 1e-5 * largest
    # by a power of two it is exact
    assert layer.run(a=[4 * p for p in layer.a]) == [[4 * y for y in row] for row in one]


@FEW
@given(exponent=st.integers(-20, 20), **layers)
def test_scales_scale_the_result(warm, tmp_path, exponent, shape, a_type, m, seed):
    layer = Layer(warm, tmp_path, shape, a_type, m, seed)
    factor = 2.0**exponent
    scaled = layer.run(scales=[s * factor for s in layer.scales])
    assert scaled == [[y * factor for y in row] for row in layer.run()]


@FEW
@given(**layers)
def test_rows_of_w_are_alike(warm, tmp_path, shape, a_type, m, seed):
    """Rows of W trade places and so do columns of C. Where waves start at different steps the
    order of a sum depends on the row, elsewhere not a bit changes."""
    layer = Layer(warm, tmp_path, shape, a_type, m, seed)
    order = list(range(layer.n))
    random.Random(seed).shuffle(order)
    row, blocks = layer.k // 2, layer.k // 32
    moved = layer.run(b=b"".join(layer.b[i * row:(i + 1) * row] for i in order),
                      scales=[s for i in order for s in layer.scales[i * blocks:(i + 1) * blocks]])
    straight = layer.run()
    largest = max(abs(y) for line in straight for y in line)
    for line, other in zip(straight, moved):
        for to, i in enumerate(order):
            assert abs(other[to] - line[i]) <= (1e-5 * largest if row % 512 == 0 else 0)
