# SPDX-License-Identifier: MIT
"""The headers in C++, every standard from C++11 on, without a warning: quern.h with its QUERN_INIT,
and quern.hpp. One program quantises a layer, runs it on the software GPU and compares; it also puts
the choices of a mixture into blocks."""

import re
import shutil
import subprocess

import pytest
from conftest import COMMAND, TARGET, TOP, clean_environment

pytestmark = pytest.mark.skipif("release" not in COMMAND.parts or not shutil.which("g++"),
                                reason="links with the release build, by g++")

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wmissing-field-initializers", "-Werror",
          "-fno-exceptions", "-fno-rtti"]

# The same layer by the C interface and by quern.hpp: the results must be the same bits, and right.
PROGRAM = r"""
#include <quern/quern.hpp>
#include <quern/tool.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

enum { M = 3, N = 32, K = 64 };
static const char layer[] = "wq=nf4 n=32 k=64 a=f32";

/* The operands of a layer in memory of the software GPU, in their order. */
struct Memory {
    quern::Buffer buffer[QUERN_OPERANDS_MAX];
    const void *address[QUERN_OPERANDS_MAX];
    size_t count;

    Memory() : buffer(), address(), count(0) {}

    quern_status make(quern::Context &ctx, const quern::Problem &problem,
                      const quern::Weights &weights, const float *a)
    {
        quern_operand operands[QUERN_OPERANDS_MAX];
        quern_status status = problem.operands(M, operands, &count);
        size_t made = 0;

        for (; made < count && status == QUERN_OK; made++) {
            const quern_operand &o = operands[made];
            const void *from = std::strcmp(o.name, "a") ? nullptr : a;
            for (const quern_quantized &w : weights)
                from = std::strcmp(o.name, w.name) ? from : w.data;
            status = ctx.create_buffer(o.bytes, QUERN_READ_WRITE, buffer[made], o.name);
            if (status == QUERN_OK && from)
                status = buffer[made].write(from, o.bytes);
            address[made] = buffer[made].address();
        }
        count = made;
        return status;
    }
};

static int fail(const char *what)
{
    std::fprintf(stderr, "%s: %s\n", what, quern::last_error().message);
    return 1;
}

/* The C interface as a host in C++ writes it. */
static int by_c(quern_ctx *ctx, const Memory &memory)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_op *op = nullptr;

    if (args.size != sizeof args || args.lda || quern_problem_parse(layer, &problem) ||
        quern_op_create(ctx, &problem, M, &op) ||
        quern_problem_args(&problem, memory.address, memory.count, &args))
        return fail("C");
    const quern_status status = quern_op_launch(op, &args, M, nullptr);
    quern_op_release(op);
    return status ? fail("C launch") : 0;
}

/* Three tokens' choices of four experts, in blocks: 0 1, 1 2, 3 0. */
static int blocks(quern::Context &ctx)
{
    static const int32_t ids[] = {0, 1, 1, 2, 3, 0};
    static const int32_t counts[] = {2, 2, 1, 1}, first[] = {0, 1, 3, 4};
    quern::Problem mixture;
    quern::Op op;
    int64_t slots = 0;
    int32_t used = 0, at = 0;

    if (mixture.parse("op=moe experts=4 top_k=2 wq=nf4 n=32 k=64 a=f32") ||
        mixture.slots(M, &slots) != QUERN_E_ARGUMENT || /* how large are blocks? */
        ctx.create(mixture, M, op) || op.block_rows(M, &mixture.block_rows) ||
        mixture.slots(M, &slots))
        return fail("a mixture");
    const int32_t b = mixture.block_rows;
    std::vector<int32_t> rows(static_cast<size_t>(slots));
    std::vector<int32_t> experts(static_cast<size_t>(slots / b));
    if (mixture.align(M, ids, rows.data(), experts.data(), &used))
        return fail("align");
    for (int32_t e = 0; e < 4; at += (counts[e] + b - 1) / b * b, e++)
        if (rows[static_cast<size_t>(at)] != first[e] || experts[static_cast<size_t>(at / b)] != e)
            return std::puts("other blocks"), 1;
    return at == used ? 0 : (std::puts("another number of slots"), 1);
}

int main()
{
    quern::Options options;
    quern::Problem problem;
    quern::Context ctx, none;
    std::vector<float> w(N * K), exact(N * K), a(M * K), c(M * N), again(M * N);

    options.target = TARGET;
    for (size_t i = 0; i < w.size(); i++)
        w[i] = std::sin(static_cast<float>(i));
    for (size_t i = 0; i < a.size(); i++)
        a[i] = std::cos(static_cast<float>(i));
    quern::Weights quantised;
    if (problem.parse(layer) || quantised.quantize(problem, w.data()) ||
        quantised.dequantize(problem, exact.data()))
        return fail("quantise");
    quern::Weights weights(static_cast<quern::Weights &&>(quantised));
    if (quantised.size() || !weights.size())
        return std::puts("a moved object keeps nothing"), 1;

    quern::Options wrong;
    wrong.target = "gfx1";
    if (none.open(wrong) != QUERN_E_TARGET || none || quern::last_error().status != QUERN_E_TARGET)
        return std::puts("a target that is none"), 1;
    if (none.create(problem, M, *new quern::Op) != QUERN_E_ARGUMENT)
        return std::puts("a context that is none"), 1;
    quern::DeviceInfo info;
    if (none.device(info) != QUERN_E_ARGUMENT)
        return std::puts("the device of no context"), 1;
    if (ctx.open(options) || ctx.device(info))
        return fail("open");
    if (info.kind != QUERN_DEVICE_SIM || std::strncmp(info.target, TARGET, std::strlen(TARGET)))
        return std::puts("another device"), 1;
    if (blocks(ctx))
        return 1;
    quern::Op op, moved;
    Memory memory;
    quern::Args args;
    if (ctx.create(problem, M, op) || memory.make(ctx, problem, weights, a.data()))
        return fail("create");
    if (args.set_all(problem, memory.address, memory.count - 1) != QUERN_E_ARGUMENT)
        return std::puts("one operand too few"), 1;
    std::puts(quern::last_error().message);
    if (args.set_all(problem, memory.address, memory.count))
        return fail("arguments");
    moved = static_cast<quern::Op &&>(op);
    if (op || !moved || moved.ready())
        return std::puts("a moved op"), 1;
    const quern::Buffer &result = memory.buffer[memory.count - 1];
    if (moved.launch(args, M) || result.read(c.data(), c.size() * sizeof c[0]))
        return fail("launch");
    if (by_c(ctx.get(), memory) ||
        result.read(again.data(), again.size() * sizeof again[0]))
        return fail("the C interface");
    if (std::memcmp(c.data(), again.data(), c.size() * sizeof c[0]))
        return std::puts("other bits"), 1;
    double worst = 0;
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            double sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += static_cast<double>(a[m * K + k]) * static_cast<double>(exact[n * K + k]);
            worst = std::fmax(worst, std::fabs(sum - static_cast<double>(c[m * N + n])));
        }
    const bool served = ctx.all_served();
    ctx.reset(); /* what lives on is freed after it */
    if (moved.launch(args, M) != QUERN_E_ARGUMENT || result.read(c.data(), sizeof c[0]))
        return std::puts("after its context"), 1;
    std::printf("%d %s\n", served, worst < 1e-4 ? "right" : "wrong");
    return 0;
}
"""


def build(tmp_path, standard, text, *more):
    (tmp_path / "program.cc").write_text(text)
    library = COMMAND.parents[1] / "lib"
    done = subprocess.run(
        ["g++", f"-std={standard}", *STRICT, f'-DTARGET="{TARGET}"', f"-I{TOP / 'include'}",
         tmp_path / "program.cc", "-o", tmp_path / "program", f"-L{library}", "-lquern",
         f"-Wl,-rpath,{library}", *more], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return tmp_path / "program"


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20"])
def test_a_layer(warm, tmp_path, standard):
    program = build(tmp_path, standard, PROGRAM)
    done = subprocess.run([program], env=clean_environment(warm.cache), capture_output=True,
                          text=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    missing, verdict = done.stdout.splitlines()
    assert re.fullmatch(r"3 addresses are given; the problem has 4 operands, from a to c", missing)
    assert verdict.split()[1] == "right"


@pytest.mark.parametrize("header", sorted(p.name for p in (TOP / "include/quern").iterdir()))
def test_each_header_stands_alone(tmp_path, header):
    for standard in ("c++11", "c++20"):
        build(tmp_path, standard, f"#include <quern/{header}>\nint main()\n{{\n}}\n")


def test_the_example_of_the_page(tmp_path):
    page = (TOP / "docs/embedding.md").read_text()
    (block,) = re.findall(r"^```c\+\+\n(.*?)^```", page, re.M | re.S)
    build(tmp_path, "c++11", block + "int main()\n{\n}\n")


def test_quern_hpp_has_the_calls_of_the_stable_headers():
    """Every function of quern.h and weights.h, but those that take no handle and no struct."""
    text = (TOP / "include/quern/quern.hpp").read_text()
    for name in ("quern.h", "weights.h"):
        header = re.sub(r"/\*.*?\*/", "", (TOP / "include/quern" / name).read_text(), flags=re.S)
        declared = re.findall(r"QUERN_API [^;(]*?\b(quern_\w+)\(", header)
        assert len(declared) > 6
        free = {"quern_tier_name", "quern_stat_name", "quern_stat_meaning", "quern_seal"}
        missing = [f for f in declared if f not in free and not re.search(rf"\b{f}\b", text)]
        # quern_op_create_flags can what quern_op_create can
        assert missing in ([], ["quern_op_create"]), missing
