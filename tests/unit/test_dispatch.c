/* SPDX-License-Identifier: MIT */
/*
 * The public way through the library, on the software GPU: create, launch, prewarm, verify.
 *
 * This file is long because the public functions of ops, launches and contexts are tried in one
 * program, on one compiler.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_explore.h"
#include "t_faults.h"
#include "t_paths.h"

#include "base/os.h"
#include "dispatch/dispatch.h"
#include "problem/problem.h"
#include "target/target.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static quern_op *create(quern_ctx *ctx, const char *text, int64_t m_max)
{
    const struct quern_problem p = t_problem(text);
    quern_op *op;

    if (quern_op_create(ctx, &p, m_max, &op) != QUERN_OK)
        fail_msg("%s: %s %s", text, quern_last_error()->message, quern_last_error()->log);
    return op;
}

/* The same with the kernel for m rows alone. Where they are more than 8, and go in slices, and in
 * check-long (EXPLORE) with all kernels for up to 8 rows. */
static quern_op *create_for(quern_ctx *ctx, const char *text, int64_t m)
{
    const struct quern_problem p = t_problem(text);
    quern_op *op;

    if (m > 8 || t_explores())
        return create(ctx, text, 8);
    if (quern_op_create_range(ctx, &p, m, m, &op) != QUERN_OK)
        fail_msg("%s: %s %s", text, quern_last_error()->message, quern_last_error()->log);
    return op;
}

static struct quern_stats stats_of(quern_ctx *ctx)
{
    struct quern_stats stats = QUERN_INIT(struct quern_stats);

    assert_int_equal(quern_ctx_stats(ctx, &stats), QUERN_OK);
    return stats;
}

static void check_answer(quern_ctx *ctx, quern_op *op, const struct quern_problem *p, int64_t m,
                         int64_t lda, int64_t ldc)
{
    const double tolerance = p->a == QUERN_F32 && p->c == QUERN_F32 ? 1e-5 : 5e-3;
    struct t_layer layer;

    t_layer_make(&layer, ctx, p, m, lda, ldc, (uint64_t)(m * 1000 + p->n));
    if (quern_op_launch(op, &layer.args, m, NULL) != QUERN_OK)
        fail_msg("m=%d: %s", (int)m, quern_last_error()->message);
    const double error = t_layer_error(&layer);
    if (!(error <= tolerance)) {
        char text[QUERN_TEXT_MAX];
        quern_problem_text(p, text, sizeof text);
        fail_msg("%s m=%d: error %g", text, (int)m, error);
    }
    t_layer_free(&layer);
}

/* Every type of A and C, every M that has a kernel of its own, and row slices beyond: all in
 * check-long (EXPLORE), else a quarter of the layers by one row in three, sanitized in five. */
static void test_answers(void **state)
{
    static const char *const types[] = {"a=f32",       "a=f16",        "a=bf16",
                                        "a=f16 c=f32", "a=bf16 c=f32", "a=f32 c=bf16"};
    static const char *const shapes[] = {"n=96 k=256 group=64", "n=37 k=1536 group=128 bias=1",
                                         "n=16 k=4096 group=4096", "n=130 k=64 group=32 bias=1"};
    static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 21};
    const size_t step = T_SANITIZED ? 5 : t_explores() ? 1 : 3;
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            char text[128];
            if (!t_takes(t + s, 4))
                continue;
            snprintf(text, sizeof text, "wq=nf4 %s %s", shapes[s], types[t]);
            const struct quern_problem p = t_problem(text);
            quern_op *const op = create(ctx, text, 8);
            for (size_t m = (t + s) / 4 % step; m < sizeof rows / sizeof *rows; m += step)
                check_answer(ctx, op, &p, rows[m], 0, 0);
            check_answer(ctx, op, &p, 5, p.k + 64, p.n + 3);
            check_answer(ctx, op, &p, 11, p.k + 2, p.n + 1);
            quern_op_release(op);
        }
    quern_close(ctx);
}

/* Scales of every kind: rows within one second scale, across one seam, across many. Numbers of rows
 * take turns, but in check-long. */
static void test_formats(void **state)
{
    static const char *const layers[] = {"wq=nf4 scale=nested n=96 k=256 a=bf16",
                                         "wq=nf4 scale=nested n=45 k=2560 a=f16 bias=1",
                                         "wq=nf4 scale=nested n=7 k=12288 group=32 a=f32",
                                         "wq=fp4 scale=nested n=33 k=8192 group=32 a=bf16 c=f32",
                                         "wq=fp4 scale=nested n=130 k=640 group=128 a=f16",
                                         "wq=fp4 n=70 k=320 a=bf16 bias=1",
                                         "wq=mxfp4 n=96 k=256 a=bf16",
                                         "wq=mxfp4 n=37 k=2880 a=f16 bias=1",
                                         "wq=mxfp4 n=16 k=1056 a=f32",
                                         "wq=mxfp4 n=131 k=96 a=bf16 c=f32"};
    static const int rows[] = {1, 2, 3, 5, 8, 11};
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);

    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const struct quern_problem p = t_problem(layers[i]);
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++) {
            if (!t_takes(m + i, 4))
                continue;
            quern_op *const op = create_for(ctx, layers[i], rows[m]);
            check_answer(ctx, op, &p, rows[m], 0, 0);
            check_answer(ctx, op, &p, rows[m], p.k + 2, p.n + 5);
            quern_op_release(op);
        }
    }
    quern_close(ctx);
}

/* The ends of the range of E8M0: 0 is a power of two like others, 255 is no number. */
/* Memory of the device, with a copy of what is to be read. */
static void *place(quern_ctx *ctx, const void *host, size_t bytes, enum quern_sim_access access,
                   quern_buffer **buffer)
{
    assert_int_equal(quern_buffer_create(ctx, bytes, access, "operand", buffer), QUERN_OK);
    if (access == QUERN_SIM_READ)
        assert_int_equal(quern_buffer_write(*buffer, host, bytes), QUERN_OK);
    return quern_buffer_address(*buffer);
}

static void test_extreme_powers(void **state)
{
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    quern_op *const op = create(ctx, "wq=mxfp4 n=4 k=64 a=f32", 1);
    uint8_t b[4 * 32], scales[8] = {0, 0, 127, 127, 127, 255, 254, 0};
    float a[64], c[4] = {0};
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_buffer *buffer[4];

    (void)state;
    memset(b, 0x22, sizeof b); /* every weight is 1 times its scale */
    for (int i = 0; i < 64; i++)
        a[i] = i == 0 || i == 32 ? 1.0f : 0.0f;
    args.a = place(ctx, a, sizeof a, QUERN_SIM_READ, &buffer[0]);
    args.b = place(ctx, b, sizeof b, QUERN_SIM_READ, &buffer[1]);
    args.scales = place(ctx, scales, sizeof scales, QUERN_SIM_READ, &buffer[2]);
    args.c = place(ctx, c, sizeof c, QUERN_SIM_WRITE, &buffer[3]);
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_OK);
    assert_int_equal(quern_buffer_read(buffer[3], c, sizeof c), QUERN_OK);
    assert_true(c[0] == 0x1p-126f);
    assert_true(c[1] == 2);
    assert_true(c[2] != c[2]);
    assert_true(c[3] == 0x1p127f);
    for (int i = 0; i < 4; i++)
        quern_buffer_destroy(buffer[i]);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_nested_operands_are_checked(void **state)
{
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem("wq=nf4 scale=nested n=96 k=256 a=bf16");
    quern_op *const op = create(ctx, "wq=nf4 scale=nested n=96 k=256 a=bf16", 1);
    struct t_layer l;

    (void)state;
    t_layer_make(&l, ctx, &p, 1, 0, 0, 5);
    struct quern_args args = l.args;
    args.absmax8 = NULL;
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_ARGUMENT);
    assert_non_null(strstr(quern_last_error()->message, "args.absmax8 is null"));
    args = l.args;
    args.code = (const char *)args.code + 4;
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_ALIGN);
    args = l.args;
    args.offset = (const char *)args.offset + 2;
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_ALIGN);
    assert_non_null(strstr(quern_last_error()->message, "expected a multiple of 4"));
    assert_int_equal(quern_op_launch(op, &l.args, 1, NULL), QUERN_OK);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void verify_exact(quern_ctx *ctx, const char *text)
{
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_op *const op = create(ctx, text, 1);

    if (quern_verify(op, 1, 7, QUERN_CHECK_FULL, &v) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    assert_true(v.max_error == 0 && v.tolerance == 0);
    assert_int_equal(quern_op_kernel_count(op), 1);
    quern_op_release(op);
}

/* Weights must be the CPU's to the last bit, whatever the format, block, type and size. */
static void test_dequant(void **state)
{
    static const char *const weights[] = {
        "wq=nf4 n=37 k=640",
        "wq=fp4 n=128 k=512 group=32",
        "wq=mxfp4 n=19 k=96",
        "wq=nf4 n=5 k=8192 group=4096 scale=nested",
        "wq=fp4 n=300 k=320 scale=nested",
        "wq=nf4 n=1 k=32 group=32",
        "wq=int4 n=37 k=640",
        "wq=int4 n=19 k=96 group=channel zero=u8 layout=exl",
        "wq=int4 n=130 k=192 group=64 zero=scaled layout=ck",
        "wq=int4 n=5 k=64 group=32 zero=u8 scale=f32 round=trunc"};
    static const char *const types[] = {"f32", "f16", "bf16"};
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);

    (void)state;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        for (size_t t = 0; t < 3; t++) {
            char text[128];
            snprintf(text, sizeof text, "op=dequant %s c=%s", weights[i], types[t]);
            verify_exact(ctx, text);
        }
    quern_close(ctx);
}

/* Every byte of weights and every power of two, through the public call. */
static void test_dequant_launch(void **state)
{
    enum { N = 256, K = 32 };
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    quern_op *const op = create(ctx, "op=dequant wq=mxfp4 n=256 k=32 c=f32", 1);
    static uint8_t b[N * K / 2], scales[N];
    static float c[N * K];
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_buffer *buffer[3];

    (void)state;
    for (int i = 0; i < N * K / 2; i++)
        b[i] = (uint8_t)(i * 37 >> 2);
    for (int i = 0; i < N; i++)
        scales[i] = (uint8_t)i;
    args.b = place(ctx, b, sizeof b, QUERN_SIM_READ, &buffer[0]);
    args.scales = place(ctx, scales, sizeof scales, QUERN_SIM_READ, &buffer[1]);
    args.c = place(ctx, c, sizeof c, QUERN_SIM_WRITE, &buffer[2]);
    args.ldc = N;
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_ARGUMENT);
    assert_non_null(strstr(quern_last_error()->message, "packed rows"));
    args.ldc = K;
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_OK);
    assert_int_equal(quern_buffer_read(buffer[2], c, sizeof c), QUERN_OK);
    for (int i = 0; i < N * K; i++) {
        const unsigned code = b[i / 2] >> i % 2 * 4 & 15;
        const double want = ldexp((double)(code & 8 ? -e2m1[code & 7] : e2m1[code]), i / K - 127);
        if (i / K == 255 ? !isnan(c[i]) : c[i] != (float)want)
            fail_msg("weight %d is %g, not %g", i, (double)c[i], want);
    }
    for (int i = 0; i < 3; i++)
        quern_buffer_destroy(buffer[i]);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_other_targets(void **state)
{
    static const char *const targets[] = {"gfx1100", "gfx1102", "gfx1150", "gfx1200", "gfx1201"};

    (void)state;
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        quern_ctx *const ctx = t_open(targets[t], t_cache, QUERN_JIT_ON);
        const struct quern_problem p = t_problem("wq=nf4 n=80 k=512 a=bf16 bias=1");
        quern_op *const op = create(ctx, "wq=nf4 n=80 k=512 a=bf16 bias=1", 8);
        for (int64_t m = 1; m <= 8; m++)
            if (t_takes((size_t)m + t, 5))
                check_answer(ctx, op, &p, m, 0, 0);
        quern_op_release(op);
        verify_exact(ctx, "op=dequant wq=fp4 n=80 k=512 c=f16");
        quern_close(ctx);
    }
}

/* Targets that nothing here runs: their kernels compile, and registers suffice. Of each target
 * every fourth problem, and all in check-long. */
static void test_unverified_targets_compile(void **state)
{
    static const char *const problems[] = {"wq=nf4 n=96 k=4096 a=f32", "wq=nf4 n=4096 k=4096 a=f16",
                                           "wq=fp4 n=77 k=2048 a=bf16 bias=1 scale=nested",
                                           "wq=mxfp4 n=4096 k=2880 a=bf16",
                                           "op=dequant wq=nf4 n=64 k=256 c=bf16"};

    size_t turn = 0; /* of those targets */

    (void)state;
    for (size_t t = 0; t < target_count(); t++) {
        const struct target *const target = target_at(t);
        struct quern_options options = QUERN_INIT(struct quern_options);
        quern_ctx *ctx;

        if (target_simulated(target) || target->vendor != VENDOR_AMD)
            continue;
        options.target = target->name;
        options.device = QUERN_DEVICE_NONE;
        options.cache_dir = t_cache;
        options.worker_path = t_worker_path();
        options.allow_unverified = 1;
        assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
            if (!t_takes(i + turn, 4))
                continue;
            quern_op *const op = create(ctx, problems[i], 8);
            for (size_t k = 0; k < quern_op_kernel_count(op); k++) {
                struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
                assert_int_equal(quern_op_kernel(op, k, &info), QUERN_OK);
                assert_int_equal(info.resources.scratch_bytes, 0);
                assert_int_equal(info.resources.wave_size, target->wave_size);
                assert_true(info.resources.waves_per_simd >= 1);
                assert_false(info.verified);
            }
            quern_op_release(op);
        }
        turn++;
        quern_close(ctx);
    }
}

static quern_status launch_nothing(struct device *d, struct device_kernel *k,
                                   const struct device_launch *l)
{
    (void)d, (void)k, (void)l;
    return QUERN_OK;
}

/* Every call of the library to the system, memory included, goes through the table that is counted
 * here. */
static void test_a_launch_allocates_nothing_and_asks_the_system_nothing(void **state)
{
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    const struct device_functions *const real = ctx->device->functions;
    struct device_functions nothing = *real;
    static _Alignas(16) char memory[16];
    const struct quern_args args = {
        .size = sizeof args, .a = memory, .b = memory, .scales = memory, .c = memory};
    const struct quern_problem p = t_problem("wq=nf4 n=96 k=256 a=f16");
    quern_op *const op = create(ctx, "wq=nf4 n=96 k=256 a=f16", 8), *again;

    (void)state;
    nothing.launch = launch_nothing;
    ctx->device->functions = &nothing;
    t_faults_on(0, 0, false);
    for (int64_t m = 1; m <= 300; m++)
        assert_int_equal(quern_op_launch(op, &args, m, NULL), QUERN_OK);
    assert_int_equal(quern_op_create(ctx, &p, 8, &again), QUERN_OK);
    const unsigned calls = t_faults.calls;
    t_faults_off();
    assert_int_equal(calls, 0);
    ctx->device->functions = real;
    quern_op_release(again);
    quern_op_release(op);
    quern_close(ctx);
}

/* Ways to leave defaults out; of each the first meeting fills them in, later ones find it as it is.
 */
static void test_every_spelling_is_the_same_op(void **state)
{
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    struct quern_problem full = t_problem("wq=nf4 n=96 k=256 a=f16");
    quern_op *const one = create(ctx, "wq=nf4 n=96 k=256 a=f16", 1);
    quern_op *other;
    uint64_t hits = 0;

    (void)state;
    for (unsigned left_out = 0; left_out < 64; left_out++)
        for (int again = 0; again < 2; again++) {
            struct quern_problem p = full;
            if (left_out & 1)
                p.op = 0;
            if (left_out & 2)
                p.group = 0;
            if (left_out & 4)
                p.scale = 0;
            if (left_out & 8)
                p.c = 0;
            if (left_out & 16)
                p.layout = 0;
            if (left_out & 32)
                p.round = 0;
            assert_int_equal(quern_op_create(ctx, &p, 1, &other), QUERN_OK);
            assert_ptr_equal(one, other);
            quern_op_release(other);
            assert_int_equal(quern_op_create_on(ctx, &p, 1, NULL, &other), QUERN_OK);
            assert_ptr_equal(one, other);
            quern_op_release(other);
            hits += 2;
        }
    assert_int_equal(stats_of(ctx).hit_memory, hits);
    /* what differs in a word is another problem, or none */
    struct quern_problem p = full;
    p.group = 65;
    assert_int_equal(quern_op_create(ctx, &p, 1, &other), QUERN_E_PROBLEM);
    p = full;
    p.size = 8;
    assert_int_equal(quern_op_create(ctx, &p, 1, &other), QUERN_E_ARGUMENT);
    assert_int_equal(quern_op_create(ctx, NULL, 1, &other), QUERN_E_ARGUMENT);
    p = full;
    p.bias = 1;
    assert_int_equal(quern_op_create(ctx, &p, 1, &other), QUERN_OK);
    assert_ptr_not_equal(one, other);
    quern_op_release(other);
    quern_op_release(one);
    assert_int_equal(stats_of(ctx).hit_memory, hits);
    quern_close(ctx);
}

static void test_same_problem_same_op(void **state)
{
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    quern_op *const one = create(ctx, "wq=nf4 n=96 k=256 a=f16", 1);
    const size_t few = quern_op_kernel_count(one);
    quern_op *const two = create(ctx, "a=f16 k=256 n=96 group=64 wq=nf4", 1);
    const struct quern_problem p = t_problem("wq=nf4 n=96 k=256 a=f16");

    (void)state;
    assert_ptr_equal(one, two);
    assert_int_equal(stats_of(ctx).hit_memory, 1);
    /* an op made for M = 1 still serves more rows, by slices */
    check_answer(ctx, one, &p, 7, 0, 0);
    /* and grows in place */
    quern_op *const three = create(ctx, "wq=nf4 n=96 k=256 a=f16", 8);
    assert_ptr_equal(one, three);
    assert_true(quern_op_kernel_count(one) > few);
    check_answer(ctx, one, &p, 7, 0, 0);
    quern_op_release(one);
    quern_op_release(two);
    quern_op_release(three);
    quern_close(ctx);
}

/* What one context compiled, the next loads, with compiling off. */
static void test_stored_kernels(void **state)
{
    char *const own = t_temp_dir();
    quern_ctx *ctx = t_open("gfx1151", own, QUERN_JIT_OFF);
    const struct quern_problem p = t_problem("wq=nf4 n=64 k=128 a=f16");
    quern_op *op;

    (void)state;
    assert_int_equal(quern_op_create(ctx, &p, 8, &op), QUERN_E_WOULD_COMPILE);
    assert_non_null(strstr(quern_last_error()->message, "compiling is off"));
    assert_int_equal(stats_of(ctx).compile_ok, 0);
    quern_close(ctx);

    ctx = t_open("gfx1151", own, QUERN_JIT_ON);
    op = create(ctx, "wq=nf4 n=64 k=128 a=f16", 8);
    const uint64_t kernels = quern_op_kernel_count(op);
    assert_int_equal(stats_of(ctx).compile_ok, kernels);
    assert_int_equal(stats_of(ctx).put_ok, kernels);
    quern_op_release(op);
    quern_close(ctx);

    ctx = t_open("gfx1151", own, QUERN_JIT_OFF);
    op = create(ctx, "wq=nf4 n=64 k=128 a=f16", 8);
    assert_int_equal(stats_of(ctx).compile_ok, 0);
    assert_int_equal(stats_of(ctx).hit_disk, kernels);
    for (size_t i = 0; i < kernels; i++) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        assert_int_equal(quern_op_kernel(op, i, &info), QUERN_OK);
        assert_true(info.cached);
        assert_int_equal(info.resources.scratch_bytes, 0);
        assert_int_equal(info.resources.wave_size, 32);
        assert_memory_equal(info.object,
                            "\x7f"
                            "ELF",
                            4);
    }
    check_answer(ctx, op, &p, 3, 0, 0);
    quern_op_release(op);
    quern_close(ctx);
    t_remove(own);
}

struct crowd {
    quern_ctx *ctx;
    pthread_barrier_t start;
    quern_op *op[8];
    atomic_int next;
};

static void *create_one(void *user)
{
    struct crowd *const c = user;
    const int i = atomic_fetch_add(&c->next, 1);
    const struct quern_problem p = t_problem("wq=nf4 n=32 k=192 a=bf16");

    pthread_barrier_wait(&c->start);
    if (quern_op_create(c->ctx, &p, 8, &c->op[i]) != QUERN_OK)
        c->op[i] = NULL;
    return NULL;
}

static void test_threads_share_one_compile(void **state)
{
    char *const own = t_temp_dir();
    struct crowd c = {.ctx = t_open("gfx1151", own, QUERN_JIT_ON)};
    pthread_t thread[8];

    (void)state;
    pthread_barrier_init(&c.start, NULL, 8);
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, create_one, &c);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 8; i++) {
        assert_non_null(c.op[i]);
        assert_ptr_equal(c.op[i], c.op[0]);
        quern_op_release(c.op[i]);
    }
    assert_int_equal(stats_of(c.ctx).compile_ok, quern_op_kernel_count(c.op[0]));
    pthread_barrier_destroy(&c.start);
    quern_close(c.ctx);
    t_remove(own);
}

static void test_bad_launches(void **state)
{
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem("wq=nf4 n=96 k=256 a=f16 bias=1");
    quern_op *const op = create(ctx, "wq=nf4 n=96 k=256 a=f16 bias=1", 8);
    struct t_layer l;
    struct quern_args args;

    (void)state;
    t_layer_make(&l, ctx, &p, 4, 0, 0, 1);
#define REFUSED(change, status, part)                                                              \
    do {                                                                                           \
        args = l.args;                                                                             \
        change;                                                                                    \
        assert_int_equal(quern_op_launch(op, &args, 4, NULL), status);                             \
        if (!strstr(quern_last_error()->message, part))                                            \
            fail_msg("\"%s\" without \"%s\"", quern_last_error()->message, part);                  \
    } while (0)
    REFUSED(args.a = NULL, QUERN_E_ARGUMENT, "args.a is null");
    REFUSED(args.bias = NULL, QUERN_E_ARGUMENT, "args.bias is null");
    REFUSED(args.b = (const char *)args.b + 8, QUERN_E_ALIGN, "expected a multiple of 16");
    REFUSED(args.c = (char *)args.c + 2, QUERN_E_ALIGN, "args.c");
    REFUSED(args.lda = 255, QUERN_E_ARGUMENT, "at least k=256");
    REFUSED(args.lda = 261, QUERN_E_ALIGN, "a multiple of 4 bytes");
    REFUSED(args.ldc = 95, QUERN_E_ARGUMENT, "at least n=96");
    REFUSED(args.size = 3, QUERN_E_ARGUMENT, "struct quern_args has size 3");
    assert_int_equal(quern_op_launch(op, &l.args, 0, NULL), QUERN_E_ARGUMENT);
    assert_int_equal(quern_op_launch(op, &l.args, -5, NULL), QUERN_E_ARGUMENT);
    assert_int_equal(quern_op_launch(op, &l.args, (int64_t)1 << 31, NULL), QUERN_E_ARGUMENT);
    /* one row more than the operands hold: the software GPU sees the first stray access (a GPU may
     * see it too, later, and is then lost) */
    if (!t_on_hip()) {
        assert_int_equal(quern_op_launch(op, &l.args, 5, NULL), QUERN_E_FAULT);
        assert_non_null(strstr(quern_last_error()->message, "a"));
    }
    /* and the context is usable afterwards */
    assert_int_equal(quern_op_launch(op, &l.args, 4, NULL), QUERN_OK);
    assert_true(t_layer_error(&l) < 5e-3);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_bad_contexts(void **state)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    const struct quern_problem p = t_problem("wq=nf4 n=96 k=256 a=f16");
    quern_ctx *ctx = NULL;
    quern_op *op = NULL;

    (void)state;
    options.cache_dir = t_cache;
    options.worker_path = t_worker_path();
    options.device = QUERN_DEVICE_AUTO;
    options.device_index = 1000; /* whatever this machine has */
    assert_int_equal(quern_open(&options, &ctx), QUERN_E_TARGET);
    options.target = "gfx1152q";
    assert_int_equal(quern_open(&options, &ctx), QUERN_E_TARGET);
    options.target = "gfx1151";
    options.device = QUERN_DEVICE_HIP;
    assert_int_equal(quern_open(&options, &ctx), QUERN_E_DEVICE);
    options.device = (enum quern_device_kind)9;
    assert_int_equal(quern_open(&options, &ctx), QUERN_E_ARGUMENT);
    options.device = QUERN_DEVICE_SIM;
    options.size = 1;
    assert_int_equal(quern_open(&options, &ctx), QUERN_E_ARGUMENT);
    options.size = sizeof options;
    assert_int_equal(quern_open(&options, NULL), QUERN_E_ARGUMENT);
    assert_null(ctx);
    quern_close(NULL);
    quern_op_release(NULL);

    /* a software GPU of a target that none runs is refused; without a device, such a target's
     * kernels are, before any compile */
    options.target = "gfx1030";
    assert_int_equal(quern_open(&options, &ctx), QUERN_E_DEVICE);
    options.device = QUERN_DEVICE_NONE;
    assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
    assert_null(quern_ctx_sim(ctx));
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_E_DECLINED);
    assert_int_equal(stats_of(ctx).compile_ok, 0);
    quern_close(ctx);
    ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    assert_int_equal(quern_op_create(ctx, &p, 0, &op), QUERN_E_ARGUMENT);
    assert_int_equal(quern_op_create(ctx, NULL, 1, &op), QUERN_E_ARGUMENT);
    assert_null(op);
    quern_close(ctx);
}

/* What an open of the library asks of the system. */
static unsigned system_calls;
static struct os uncounted;

static int counted_open(const char *path, int flags, mode_t mode)
{
    system_calls++;
    return uncounted.open(path, flags, mode);
}

static int counted_openat(int d, const char *path, int flags, mode_t mode)
{
    system_calls++;
    return uncounted.openat(d, path, flags, mode);
}

static ssize_t counted_read(int fd, void *to, size_t size)
{
    system_calls++;
    return uncounted.read(fd, to, size);
}

static int counted_faccessat(int d, const char *path, int mode, int flags)
{
    system_calls++;
    return uncounted.faccessat(d, path, mode, flags);
}

static int no_sleep(const struct timespec *t, struct timespec *rest)
{
    (void)t, (void)rest;
    fail_msg("it sleeps");
    return -1;
}

static int no_wait(struct pollfd *p, nfds_t n, int timeout)
{
    (void)p, (void)n, (void)timeout;
    fail_msg("it waits");
    return -1;
}

/* A host may try for a GPU wherever it runs: where there is none, that costs next to nothing, and
 * nothing is waited for. Counted in calls of the system, as any time is the machine's load too. */
static void test_no_gpu_is_quick(void **state)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    (void)state;
    options.device = QUERN_DEVICE_AUTO;
    options.device_index = 1000; /* none even where there are GPUs */
    uncounted = os;
    os.nanosleep = no_sleep;
    os.poll = no_wait;
    os.open = counted_open;
    os.openat = counted_openat;
    os.read = counted_read;
    os.faccessat = counted_faccessat;
    for (int i = 0; i < 2; i++) { /* what is looked up once is known the second time */
        system_calls = 0;
        assert_int_equal(quern_open(&options, &ctx), QUERN_E_TARGET);
    }
    os = uncounted;
    assert_non_null(strstr(quern_last_error()->message, "no GPU: "));
    assert_in_range(system_calls, 0, 4);
}

/* Kernels are made and stored, and found again without a worker, which loading one would start. */
static void test_no_device(void **state)
{
    char *const own = t_temp_dir();
    const struct quern_problem p = t_problem("wq=nf4 n=64 k=128 a=bf16");
    struct quern_options options = QUERN_INIT(struct quern_options);
    static _Alignas(16) char memory[16];
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_ctx *ctx;
    quern_op *op;

    (void)state;
    options.device = QUERN_DEVICE_NONE;
    assert_int_equal(quern_open(&options, &ctx), QUERN_E_TARGET);
    options.target = "gfx1151";
    options.cache_dir = own;
    args.a = args.b = args.scales = memory;
    args.c = memory;
    for (int warm = 0; warm < 2; warm++) {
        struct compiler_stats workers;
        assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
        assert_null(quern_ctx_sim(ctx));
        assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_OK);
        assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_DEVICE);
        compiler_stats(ctx->compiler, &workers);
        assert_int_equal(workers.started, warm ? 0 : 1);
        quern_op_release(op);
        quern_close(ctx);
    }
    t_remove(own);
}

static int cancel_after_two(void *user, const struct quern_progress *progress)
{
    int *const calls = user;

    assert_int_equal(progress->status, QUERN_OK);
    return ++*calls >= 2;
}

static int count_calls(void *user, const struct quern_progress *progress)
{
    int *const calls = user;

    assert_true(progress->done >= 1 && progress->done <= progress->total);
    ++*calls;
    return 0;
}

static void test_prewarm(void **state)
{
    char *const own = t_temp_dir();
    quern_ctx *ctx = t_open("gfx1151", own, QUERN_JIT_ON);
    const struct quern_problem problems[] = {t_problem("wq=nf4 n=64 k=128 a=bf16"),
                                             t_problem("wq=nf4 n=64 k=256 a=bf16")};
    int calls = 0;

    (void)state;
    assert_int_equal(quern_prewarm(ctx, problems, 2, 8, cancel_after_two, &calls),
                     QUERN_E_CANCELLED);
    assert_in_range(calls, 2, 3); /* two workers: one may have been under way */
    calls = 0;
    assert_int_equal(quern_prewarm(ctx, problems, 2, 8, count_calls, &calls), QUERN_OK);
    assert_int_equal(stats_of(ctx).compile_ok, calls);
    quern_close(ctx);
    ctx = t_open("gfx1151", own, QUERN_JIT_OFF);
    int again = 0;
    assert_int_equal(quern_prewarm(ctx, problems, 2, 8, count_calls, &again), QUERN_OK);
    assert_int_equal(again, calls);
    assert_int_equal(stats_of(ctx).hit_disk, calls);
    quern_close(ctx);
    t_remove(own);
}

static int note_progress(void *user, const struct quern_progress *progress)
{
    *(struct quern_progress *)user = *progress;
    return 0;
}

/* A kernel that several problems need is made once, and told of for each. */
static void test_prewarm_of_one_kernel(void **state)
{
    const struct quern_problem p = t_problem("wq=nf4 n=64 k=128 a=bf16"), problems[] = {p, p, p, p};
    struct quern_progress last = QUERN_INIT(struct quern_progress);
    char *const own = t_temp_dir();
    quern_ctx *const ctx = t_open("gfx1151", own, QUERN_JIT_ON);

    (void)state;
    assert_int_equal(quern_prewarm(ctx, problems, 4, 8, note_progress, &last), QUERN_OK);
    assert_int_equal(last.done, last.total);
    assert_int_equal(stats_of(ctx).compile_ok * 4, last.total);
    quern_close(ctx);
    t_remove(own);
}

static void test_verify(void **state)
{
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_op *const op = create(ctx, "wq=nf4 n=96 k=256 a=bf16", 8);

    (void)state;
    for (int64_t m = 1; m <= 17; m++) {
        if (quern_verify(op, m, 42, QUERN_CHECK_FULL, &v) != QUERN_OK)
            fail_msg("m=%d: %s", (int)m, quern_last_error()->message);
        assert_true(v.max_error > 0 && v.max_error <= v.tolerance);
        assert_true(v.counts.instructions > 0);
        assert_int_equal(v.counts.wave_size, 32);
    }
    quern_op_release(op);
    quern_close(ctx);
}

static void test_explain(void **state)
{
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    quern_op *const op = create(ctx, "wq=nf4 n=96 k=256 a=bf16", 8);
    char text[4096], part[16];

    (void)state;
    const size_t length = quern_op_explain(op, 17, text, sizeof text);
    assert_true(length > 50 && length < sizeof text);
    assert_int_equal(strlen(text), length);
    assert_memory_equal(text, "m=17: ", 6);
    assert_non_null(strstr(text, "; 2 launches\n"));
    assert_int_equal(quern_op_explain(op, 17, part, sizeof part), length);
    assert_int_equal(strlen(part), sizeof part - 1);
    assert_int_equal(quern_op_explain(op, 17, NULL, 0), length);
    quern_op_release(op);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest numbers[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_extreme_powers),
        cmocka_unit_test(test_dequant),
        cmocka_unit_test(test_dequant_launch),
        cmocka_unit_test(test_other_targets),
        cmocka_unit_test(test_unverified_targets_compile),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested_operands_are_checked),
        cmocka_unit_test(test_a_launch_allocates_nothing_and_asks_the_system_nothing),
        cmocka_unit_test(test_every_spelling_is_the_same_op),
        cmocka_unit_test(test_same_problem_same_op),
        cmocka_unit_test(test_stored_kernels),
        cmocka_unit_test(test_threads_share_one_compile),
        cmocka_unit_test(test_bad_launches),
        cmocka_unit_test(test_bad_contexts),
        cmocka_unit_test(test_no_gpu_is_quick),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_prewarm),
        cmocka_unit_test(test_prewarm_of_one_kernel),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_explain),
    };

    if (!T_THREADS_ONLY &&
        cmocka_run_group_tests_name("numbers", numbers, t_cache_make, t_cache_remove))
        return 1;
    return cmocka_run_group_tests_name("dispatch", tests, t_cache_make, t_cache_remove);
}
