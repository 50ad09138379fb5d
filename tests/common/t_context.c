/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_paths.h"

#include "base/error.h"
#include "plan/family.h"
#include "plan/plan.h"
#include "problem/problem.h"
#include "quant/quant.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *t_temp_dir(void)
{
    const char *const parent = getenv("TMPDIR");
    char path[512];

    snprintf(path, sizeof path, "%s/quern-test-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void t_remove(char *directory)
{
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(directory);
}

static quern_ctx *open_device(enum quern_device_kind device, int index, const char *target,
                              const char *directory, enum quern_jit jit, int allow_unverified)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    options.device = device;
    options.device_index = index;
    options.target = target;
    options.cache_dir = directory;
    options.jit = jit;
    options.allow_unverified = allow_unverified;
    options.jobs = 2;
    options.worker_path = t_worker_path();
    if (quern_open(&options, &ctx) != QUERN_OK)
        fail_msg("quern_open: %s", quern_last_error()->message);
    return ctx;
}

char *t_cache;

int t_cache_make(void **state)
{
    const char *const shared = getenv("T_CACHE");

    (void)state;
    t_cache = shared ? strdup(shared) : t_temp_dir();
    return t_cache ? 0 : -1;
}

int t_cache_remove(void **state)
{
    (void)state;
    if (getenv("T_CACHE"))
        free(t_cache);
    else
        t_remove(t_cache);
    return 0;
}

bool t_on_hip(void)
{
    const char *const device = getenv("QUERN_DEVICE");

    return device && !strcmp(device, "hip");
}

/* hipSetDevice, in programs that are linked with a HIP runtime (tests/fakehip/dispatch_hip.c). */
extern int t_set_device(int index) __attribute__((weak));

/* The GPU of a target, made the thread's current one, as launches demand. */
static quern_ctx *open_gpu(const char *target, const char *directory, enum quern_jit jit)
{
    const char *const list = getenv("FAKEHIP_DEVICES"), *at = strstr(list, target);
    int index = 0;

    assert_non_null(at);
    assert_true(t_set_device != NULL);
    for (const char *c = list; c < at; c++)
        index += *c == ',';
    assert_int_equal(t_set_device(index), 0);
    return open_device(QUERN_DEVICE_HIP, index, target, directory, jit, 0);
}

quern_ctx *t_open(const char *target, const char *directory, enum quern_jit jit)
{
    if (t_on_hip())
        return open_gpu(target, directory, jit);
    return open_device(QUERN_DEVICE_SIM, 0, target, directory, jit, 0);
}

quern_ctx *t_open_unverified(const char *target, const char *directory)
{
    return open_device(QUERN_DEVICE_NONE, 0, target, directory, QUERN_JIT_ON, 1);
}

quern_ctx *t_open_hip(int index, const char *directory, enum quern_jit jit)
{
    return open_device(QUERN_DEVICE_HIP, index, NULL, directory, jit, 0);
}

quern_ctx *t_open_cuda(int index, const char *directory, enum quern_jit jit)
{
    return open_device(QUERN_DEVICE_CUDA, index, NULL, directory, jit, 0);
}

void t_message_has(const char *part)
{
    if (!strstr(quern_last_error()->message, part))
        fail_msg("\"%s\" without \"%s\"", quern_last_error()->message, part);
}

struct quern_problem t_problem(const char *text)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    if (quern_problem_parse(text, &p) != QUERN_OK)
        fail_msg("%s: %s", text, quern_last_error()->message);
    return p;
}

quern_status t_wait_ready(quern_op *op)
{
    quern_status status;

    for (int i = 0; (status = quern_op_ready(op)) == QUERN_E_NOT_READY && i < 1800000; i++)
        usleep(1000);
    return status;
}

quern_status t_tile_op(quern_ctx *ctx, const char *target, const char *text, quern_op **op,
                       int *tile)
{
    const struct quern_problem p = t_problem(text);
    char shape[PLAN_SHAPE_MAX];
    struct plan_set set;

    TRY(plan_make(&p, target_named(target), &set));
    const struct plan *const last = &set.plans[set.count - 1];
    FAIL_IF(last->family != &family_mma_tile, QUERN_E_INTERNAL, "the last kernel is none of tiles");
    *tile = last->m_tile;
    plan_shape(last, shape);
    return quern_op_create_shape(ctx, &p, last->m_hi, shape, op);
}

/* Memory of the device with a copy of `host`, or (null) without contents. */
static void *place(struct t_layer *l, const char *name, const void *host, size_t bytes,
                   enum quern_sim_access access)
{
    quern_buffer **const buffer = &l->buffer[l->placed];

    assert_true(l->placed < QUERN_OPERANDS_MAX);
    if (quern_buffer_create(l->ctx, bytes, access, name, buffer) != QUERN_OK)
        fail_msg("%s: %s", name, quern_last_error()->message);
    l->placed++;
    if (host)
        assert_int_equal(quern_buffer_write(*buffer, host, bytes), QUERN_OK);
    return quern_buffer_address(*buffer);
}

static void *fresh(struct t_layer *l, size_t bytes)
{
    void *const memory = calloc(1, bytes);

    assert_non_null(memory);
    assert_true(l->allocated < sizeof l->memory / sizeof *l->memory);
    return l->memory[l->allocated++] = memory;
}

/* Rows of A apart by lda, what is between them NaN, so that padding that is used shows. */
static void *padded_rows(struct t_layer *l, const void *a, size_t *bytes)
{
    const size_t element = dtype_bytes(l->problem.a), row = (size_t)l->problem.k * element;
    const size_t stride = (size_t)l->lda * element;

    *bytes = (size_t)(l->m - 1) * stride + row;
    char *const padded = fresh(l, *bytes);
    memset(padded, 0xff, *bytes);
    for (size_t i = 0; i < (size_t)l->m; i++)
        memcpy(padded + i * stride, (const char *)a + i * row, row);
    return padded;
}

static void make(struct t_layer *l, quern_ctx *ctx, const struct quern_problem *p, int64_t m,
                 int64_t lda, int64_t ldc, t_edit edit, void *user, uint64_t seed)
{
    union operand_pointers out = {0};
    struct quern_operand o;
    size_t bytes;

    *l = (struct t_layer){.ctx = ctx,
                          .problem = *p,
                          .m = m,
                          .lda = lda ? lda : p->k,
                          .ldc = ldc ? ldc : problem_columns(p),
                          .args = QUERN_INIT(struct quern_args)};
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (i != OPERAND_C && operand_describe(p, (enum operand)i, m, &o))
            out.at[i] = fresh(l, o.bytes);
    quant_random(p, m, seed, &out);
    if (edit)
        edit(user, p, m, &out);
    l->reference = fresh(l, (size_t)(m * problem_columns(p)) * sizeof(double));
    assert_int_equal(quant_reference(p, &out, m, l->reference), QUERN_OK);

    for (int i = 0; i < OPERAND_COUNT; i++)
        if (i != OPERAND_A && i != OPERAND_C && operand_describe(p, (enum operand)i, m, &o)) {
            const void *const there = place(l, o.name, out.at[i], o.bytes, o.access);
            assert_int_equal(quern_args_set(&l->args, o.name, there), QUERN_OK);
        }
    void *const a = padded_rows(l, out.a, &bytes);
    l->args.a = place(l, "a", a, bytes, QUERN_SIM_READ);
    /* no byte more than the last row needs */
    l->c_bytes = (size_t)((m - 1) * l->ldc + problem_columns(p)) * dtype_bytes(p->c);
    l->c = fresh(l, l->c_bytes);
    l->args.c = place(l, "c", NULL, l->c_bytes, QUERN_SIM_WRITE);
    l->c_buffer = l->buffer[l->placed - 1];
    l->args.lda = lda;
    l->args.ldc = ldc;
}

void t_layer_make(struct t_layer *l, quern_ctx *ctx, const struct quern_problem *p, int64_t m,
                  int64_t lda, int64_t ldc, uint64_t seed)
{
    make(l, ctx, p, m, lda, ldc, NULL, NULL, seed);
}

void t_layer_make_edited(struct t_layer *l, quern_ctx *ctx, const struct quern_problem *p,
                         int64_t m, t_edit edit, void *user, uint64_t seed)
{
    make(l, ctx, p, m, 0, 0, edit, user, seed);
}

static void add_to_a(void *user, const struct quern_problem *p, int64_t m,
                     const union operand_pointers *out)
{
    for (size_t i = 0; i < (size_t)(m * p->k); i++)
        quant_store(p->a, out->a, i, quant_load(p->a, out->a, i) + *(const float *)user);
}

void t_layer_make_offset(struct t_layer *l, quern_ctx *ctx, const struct quern_problem *p,
                         int64_t m, float offset, uint64_t seed)
{
    make(l, ctx, p, m, 0, 0, add_to_a, &offset, seed);
}

void t_layer_free(struct t_layer *l)
{
    for (size_t i = 0; i < l->placed; i++)
        quern_buffer_destroy(l->buffer[i]);
    for (size_t i = 0; i < l->allocated; i++)
        free(l->memory[i]);
}

double t_layer_result(const struct t_layer *l, int64_t i, int64_t j)
{
    return (double)quant_load(l->problem.c, l->c, (size_t)(i * l->ldc + j));
}

double t_layer_error(const struct t_layer *l)
{
    double largest = 0, difference = 0;

    if (quern_buffer_read(l->c_buffer, l->c, l->c_bytes) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    for (int64_t i = 0; i < l->m; i++)
        for (int64_t j = 0; j < problem_columns(&l->problem); j++) {
            const double want = l->reference[i * problem_columns(&l->problem) + j];
            const double got = t_layer_result(l, i, j);
            if (!(fabs(got - want) <= difference))
                difference = isnan(got) ? INFINITY : fabs(got - want);
            largest = fmax(largest, fabs(want));
        }
    return difference / largest;
}

void t_launch_right(quern_op *op, struct t_layer *l)
{
    if (quern_op_launch(op, &l->args, l->m, NULL) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    assert_true(t_layer_error(l) < 5e-3);
}
