/* SPDX-License-Identifier: MIT */
/* Base kernels: one text for every layer of a kind, and right for sizes of all sorts. What they
 * cost is test_base_kernels_long.c's. Judge: the software GPU. */
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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_text),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_declined),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("base kernels", tests, t_cache_make, t_cache_remove);
}
