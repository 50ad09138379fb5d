/* SPDX-License-Identifier: MIT */
/* Base kernels: one text for every layer of a kind, right for sizes of all sorts, and of use until
 * others are made. What they cost is test_base_kernels_long.c's. Judge: the software GPU. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"

#include "gen/gen.h"
#include "plan/base.h"
#include "target/target.h"

#include <quern/tool.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static struct quern_problem parse(const char *words)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    if (quern_problem_parse(words, &p) != QUERN_OK)
        fail_msg("%s: %s", words, quern_last_error()->message);
    return p;
}

static const struct target *target_of(const char *name)
{
    struct target_id id;

    assert_int_equal(target_parse(name, &id), QUERN_OK);
    return id.target;
}

/* ---- One text -------------------------------------------------------------------------------- */

/* Kernels of any layer are among those of two: one that has kernels on matrix units, and one whose
 * K is too short for them. They do not depend on sizes, group or bias otherwise. */
static void test_one_text(void **state)
{
    static const char *const layers[] = {"n=4096 k=4096",           "n=4096 k=256",
                                         "n=5 k=64 bias=1",         "n=65536 k=1088",
                                         "n=100 k=8192 group=4096", "n=7 k=96 group=32"};
    static const char *const kinds[] = {"wq=nf4 a=bf16", "wq=fp4 scale=nested a=f16 c=f32"};

    (void)state;
    for (int i = 0; i < COUNT(kinds) * COUNT(layers); i++) {
        static struct str all;
        const bool first = i % COUNT(layers) < 2;
        struct plan_set set;
        char words[128];
        snprintf(words, sizeof words, "%s %s kernels=base", kinds[i / COUNT(layers)],
                 layers[i % COUNT(layers)]);
        const struct quern_problem p = parse(words);
        assert_int_equal(plan_make(&p, target_of("gfx942"), &set), QUERN_OK);
        for (size_t k = 0; k < set.count; k++) {
            struct str text = {0};
            assert_int_equal(gen_source(&set.plans[k], first ? &all : &text), QUERN_OK);
            if (!first && !strstr(str_text(&all), str_text(&text)))
                fail_msg("%s has a text of its own for %s", words, set.plans[k].symbol);
            str_free(&text);
        }
        if (i % COUNT(layers) == COUNT(layers) - 1)
            str_free(&all);
    }
}

/* ---- Right answers --------------------------------------------------------------------------- */

/* Many layers by the few kernels that are compiled for the first. */
static void test_sizes(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx1100", "gfx1201"};
    static const char *const kinds[] = {"wq=nf4 a=bf16", "wq=fp4 scale=nested a=f16",
                                        "wq=mxfp4 a=bf16"};
    static const int sizes[][3] = {/* n, k and, where it may be chosen, group */
                                   {4, 64, 64},      {5, 32, 32},     {37, 544, 32},
                                   {64, 576, 64},    {130, 1088, 64}, {257, 512, 512},
                                   {16, 8192, 4096}, {333, 2880, 64}};
    static const int m[] = {1, 3, 16, 70};

    (void)state;
    for (int t = 0; t < COUNT(targets); t++) {
        quern_ctx *const ctx = t_open(targets[t], t_cache, QUERN_JIT_ON);
        for (int i = 0; i < COUNT(kinds) * COUNT(sizes); i += T_SANITIZED ? 7 : 1) {
            const char *const kind = kinds[i / COUNT(sizes)];
            const int *const size = sizes[i % COUNT(sizes)];
            char words[128], group[32] = "";
            quern_op *op;
            if (!strstr(kind, "mxfp4"))
                snprintf(group, sizeof group, "group=%d", size[2]);
            snprintf(words, sizeof words, "%s n=%d k=%d %s bias=%d kernels=base", kind, size[0],
                     size[1], group, i % 2);
            const struct quern_problem p = parse(words);
            assert_int_equal(quern_op_create(ctx, &p, m[COUNT(m) - 1], &op), QUERN_OK);
            for (int j = 0; j < COUNT(m); j++) {
                struct quern_verification v = QUERN_INIT(struct quern_verification);
                if (quern_verify(op, m[j], (uint64_t)i, QUERN_CHECK_FULL, &v) != QUERN_OK)
                    fail_msg("%s on %s, m=%d: %s", words, targets[t], m[j],
                             quern_last_error()->message);
            }
            quern_op_release(op);
        }
        struct quern_stats stats = QUERN_INIT(struct quern_stats);
        assert_int_equal(quern_ctx_stats(ctx, &stats), QUERN_OK);
        /* four kernels on vector units and three on matrix units, of each kind */
        assert_true(stats.compile_ok <= (uint64_t)COUNT(kinds) * 7);
        quern_close(ctx);
    }
}

/* ---- What they do not do --------------------------------------------------------------------- */

static void test_declined(void **state)
{
    static const char *const words[][2] = {
        {"wq=nf4 n=3 k=64 a=bf16", "base kernels take 4 or more"},
        {"wq=nf4 n=64 k=64 a=bf16 exact=both", "base kernels make no promise"},
        {"wq=int4 group=128 n=64 k=128 a=f16", "wq=int4 a=f16 has no base kernels"},
        {"wq=none n=64 k=128 a=f16", "wq=none a=f16 has no base kernels"}};

    (void)state;
    for (int i = 0; i < COUNT(words); i++) {
        char base[128];
        struct plan_set set;
        snprintf(base, sizeof base, "%s kernels=base", words[i][0]);
        const struct quern_problem p = parse(base);
        assert_int_equal(plan_make(&p, target_of("gfx1151"), &set), QUERN_E_DECLINED);
        assert_non_null(strstr(quern_last_error()->message, words[i][1]));
    }
}

/* ---- Until others are made ------------------------------------------------------------------- */

#define LAYER "wq=nf4 n=96 k=1024 a=bf16 bias=1"
#define ROWS  5

static quern_status wait_ready(quern_op *op)
{
    quern_status status;

    for (int i = 0; (status = quern_op_ready(op)) == QUERN_E_NOT_READY && i < 1800000; i++)
        usleep(1000);
    return status;
}

static void launch_right(quern_op *op, struct t_layer *l)
{
    if (quern_op_launch(op, &l->args, ROWS, NULL) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    assert_true(t_layer_error(l) < 5e-3);
}

/* What there is without a compiler serves, and why there is nothing better is told. */
static void test_base_serves(void **state)
{
    char *const directory = t_temp_dir();
    const struct quern_problem p = parse(LAYER), base = parse(LAYER " kernels=base");
    const struct quern_problem other = parse("wq=int4 group=64 n=32 k=64 a=bf16");
    struct t_layer l;
    quern_op *op, *same;

    (void)state;
    quern_ctx *ctx = t_open("gfx1201", directory, QUERN_JIT_OFF);
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &op),
                     QUERN_E_WOULD_COMPILE); /* there are none yet */
    quern_close(ctx);
    ctx = t_open("gfx1201", directory, QUERN_JIT_ON);
    assert_int_equal(quern_op_create(ctx, &base, ROWS, &op), QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
    ctx = t_open("gfx1201", directory, QUERN_JIT_OFF);
    assert_int_equal(quern_op_create_flags(ctx, &other, 1, QUERN_OP_BASE, &op),
                     QUERN_E_WOULD_COMPILE);
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &op), QUERN_OK);
    t_layer_make(&l, ctx, &p, ROWS, 0, 0, 1);
    launch_right(op, &l);
    assert_int_equal(wait_ready(op), QUERN_E_WOULD_COMPILE);
    assert_non_null(strstr(quern_last_error()->message, "QUERN_JIT"));
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &same), QUERN_OK);
    assert_ptr_equal(op, same);
    launch_right(op, &l);
    assert_int_equal(quern_op_generation(op), 0);
    t_layer_free(&l);
    quern_op_release(op);
    quern_op_release(same);
    quern_close(ctx);
    t_remove(directory);
}

struct host {
    quern_ctx *ctx;
    quern_op *op;
    atomic_bool *enough;
};

static void *serve(void *user)
{
    const struct host *const h = user;
    const struct quern_problem p = parse(LAYER);
    struct t_layer l;

    t_layer_make(&l, h->ctx, &p, ROWS, 0, 0, 2);
    for (bool last = false; !last;) {
        last = atomic_load(h->enough); /* once more after the change */
        launch_right(h->op, &l);
    }
    t_layer_free(&l);
    return NULL;
}

/* Threads launch all the while that made kernels take the place of base kernels. */
static void test_made_kernels_take_over(void **state)
{
    quern_ctx *const ctx = t_open("gfx1201", t_cache, QUERN_JIT_ON);
    const struct quern_problem p = parse(LAYER), base = parse(LAYER " kernels=base");
    atomic_bool enough = false;
    struct host h = {.ctx = ctx, .enough = &enough};
    pthread_t threads[4];
    quern_op *first;

    (void)state;
    assert_int_equal(quern_op_create(ctx, &base, ROWS, &first), QUERN_OK);
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &h.op), QUERN_OK);
    for (int i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, serve, &h), 0);
    assert_int_equal(wait_ready(h.op), QUERN_OK);
    assert_int_equal(quern_op_generation(h.op), 1);
    atomic_store(&enough, true);
    for (int i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(quern_op_generation(first), 1);
    assert_int_equal(quern_op_generation(NULL), 0);
    quern_op_release(first);
    quern_op_release(h.op);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_text),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_declined),
        cmocka_unit_test(test_base_serves),
        cmocka_unit_test(test_made_kernels_take_over),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("base kernels", tests, t_cache_make, t_cache_remove);
}
