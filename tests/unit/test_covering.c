/* SPDX-License-Identifier: MIT */
/*
 * A covering array of problems, each run on the software GPU in full checking mode against the
 * double reference: every triple of type of A × M × kind of matrix instructions, and every pair of
 * the properties (the target among them). The array is made here, the same everywhere, and its
 * coverage is checked. A case is run with the kernels that are made for it and with base kernels:
 * one case in ONE_IN here, all in test_covering_long.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_explore.h"

#include "target/target.h"

#include <quern/tool.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ONE_IN
#define ONE_IN (T_SANITIZED ? 36 : 33)
#endif

/* ---- Properties and their levels ------------------------------------------------------------- */

enum property { A, M, TARGET, FORMAT, GROUP, C, BIAS, N, K, PROPERTIES };

static const char *const types[] = {"f32", "f16", "bf16"};
static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 32, 64};
static const char *const formats[] = {"wq=nf4", "wq=nf4 scale=nested", "wq=fp4",
                                      "wq=fp4 scale=nested", "wq=mxfp4"};
#define MXFP4 4 /* has groups of 32 only, level 0 */
static const int groups[] = {32, 64, 128, 256, 512, 1024, 2048, 4096};
static const int columns[] = {1, 37, 64, 130, 257};
/* K is the multiple of the group that is next above. */
static const int depths[] = {1, 97, 1100, 4096, 5200};

static int levels[PROPERTIES];
static const struct target *verified[64];

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static void find_levels(void)
{
    int targets = 0;

    for (size_t i = 0; i < target_count(); i++)
        if (target_simulated(target_at(i)))
            verified[targets++] = target_at(i);
    const int found[PROPERTIES] = {COUNT(types),  COUNT(rows),  targets, COUNT(formats),
                                   COUNT(groups), COUNT(types), 2,       COUNT(columns),
                                   COUNT(depths)};
    memcpy(levels, found, sizeof levels);
}

/* The first verified target with its kind of matrix instructions. */
static bool leads(int t)
{
    const unsigned kinds = CAP_MFMA | CAP_WMMA_256B | CAP_WMMA_128B;

    for (int earlier = 0; earlier < t; earlier++)
        if (!((verified[earlier]->capabilities ^ verified[t]->capabilities) & kinds))
            return false;
    return true;
}

/* ---- The array ------------------------------------------------------------------------------- */

#define LEVELS_MAX 64
#define CASES_MAX  4096

struct covering {
    int cases[CASES_MAX][PROPERTIES];
    int count;
    bool seen[PROPERTIES][PROPERTIES][LEVELS_MAX][LEVELS_MAX]; /* pairs p < q */
};

static bool possible(int p, int i, int q, int j)
{
    return !(p == FORMAT && q == GROUP && i == MXFP4 && j != 0);
}

/* Pairs that level `i` of property `p` would add to a case whose properties below p are chosen. */
static int gain(const struct covering *c, const int *chosen, int p, int i)
{
    int pairs = 0;

    for (int q = 0; q < p; q++) {
        if (!possible(q, chosen[q], p, i))
            return -1;
        pairs += !c->seen[q][p][chosen[q]][i];
    }
    return pairs;
}

/* Chooses what is -1 in `chosen`, each level for the most new pairs, and adds the case. */
static void add_case(struct covering *c, const int *fixed)
{
    int *const chosen = c->cases[c->count];

    assert_true(c->count < CASES_MAX);
    memcpy(chosen, fixed, sizeof c->cases[0]);
    for (int p = 0; p < PROPERTIES; p++) {
        int best = -1;
        if (chosen[p] >= 0)
            continue;
        /* start where the last case did not, so that equals take turns */
        for (int t = 0; t < levels[p]; t++) {
            const int i = (t + c->count) % levels[p], g = gain(c, chosen, p, i);
            if (g > best) {
                best = g;
                chosen[p] = i;
            }
        }
    }
    for (int p = 0; p < PROPERTIES; p++)
        for (int q = p + 1; q < PROPERTIES; q++)
            c->seen[p][q][chosen[p]][chosen[q]] = true;
    c->count++;
}

static void make(struct covering *c)
{
    int fixed[PROPERTIES];

    for (int a = 0; a < levels[A]; a++)
        for (int m = 0; m < levels[M]; m++)
            for (int t = 0; t < levels[TARGET]; t++) {
                if (!leads(t))
                    continue;
                memset(fixed, 0xff, sizeof fixed);
                fixed[A] = a, fixed[M] = m, fixed[TARGET] = t;
                add_case(c, fixed);
            }
    /* what is still missing gets cases of its own */
    for (int p = 0; p < PROPERTIES; p++)
        for (int q = p + 1; q < PROPERTIES; q++)
            for (int i = 0; i < levels[p]; i++)
                for (int j = 0; j < levels[q]; j++)
                    if (possible(p, i, q, j) && !c->seen[p][q][i][j]) {
                        memset(fixed, 0xff, sizeof fixed);
                        fixed[p] = i, fixed[q] = j;
                        if (p == GROUP || (q == GROUP && p != FORMAT))
                            fixed[FORMAT] = 0; /* one that may have any group */
                        add_case(c, fixed);
                    }
}

static struct covering array;

static void test_coverage(void **state)
{
    static bool triple[3][12][LEVELS_MAX];

    (void)state;
    for (int n = 0; n < array.count; n++) {
        const int *const c = array.cases[n];
        triple[c[A]][c[M]][c[TARGET]] = true;
        assert_true(possible(FORMAT, c[FORMAT], GROUP, c[GROUP]));
        for (int p = 0; p < PROPERTIES; p++)
            assert_in_range(c[p], 0, levels[p] - 1);
    }
    for (int a = 0; a < levels[A]; a++)
        for (int m = 0; m < levels[M]; m++)
            for (int t = 0; t < levels[TARGET]; t++)
                assert_true(triple[a][m][t] || !leads(t));
    for (int p = 0; p < PROPERTIES; p++)
        for (int q = p + 1; q < PROPERTIES; q++)
            for (int i = 0; i < levels[p]; i++)
                for (int j = 0; j < levels[q]; j++) {
                    bool found = !possible(p, i, q, j);
                    for (int n = 0; n < array.count && !found; n++)
                        found = array.cases[n][p] == i && array.cases[n][q] == j;
                    assert_true(found);
                }
}

/* ---- Running it ------------------------------------------------------------------------------ */

static quern_ctx *contexts[LEVELS_MAX];
static char failures[8][512]; /* the first few */
static atomic_int failed;

static void fail_case(const char *text, const char *target, int m)
{
    const int i = atomic_fetch_add(&failed, 1);

    if (i < COUNT(failures))
        snprintf(failures[i], sizeof failures[i], "%s m=%d on %s: %s", text, m, target,
                 quern_last_error()->message);
}

#define CASE_TEXT_MAX 160

/* The problem of a case. */
static void case_text(const int *c, char text[CASE_TEXT_MAX])
{
    const int group = groups[c[GROUP]];
    const int k = (depths[c[K]] + group - 1) / group * group;

    snprintf(text, CASE_TEXT_MAX, "%s group=%d a=%s c=%s n=%d k=%d bias=%d", formats[c[FORMAT]],
             group, types[c[A]], types[c[C]], columns[c[N]], k, c[BIAS]);
}

/* What tests/bench/kernel_text.sh asks for: every case as a line "TARGET M PROBLEM". */
static void print_cases(void)
{
    char text[CASE_TEXT_MAX];

    for (int n = 0; n < array.count; n++) {
        const int *const c = array.cases[n];
        case_text(c, text);
        printf("%s %d %s\n", verified[c[TARGET]]->name, rows[c[M]], text);
    }
}

static void run_kernels(const int *c, const char *text, uint64_t seed)
{
    const int m = rows[c[M]];
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_ctx *const ctx = contexts[c[TARGET]];
    const char *const target = verified[c[TARGET]]->name;
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    quern_op *op;

    if (quern_problem_parse(text, &p) != QUERN_OK ||
        quern_op_create_range(ctx, &p, m, m, &op) != QUERN_OK) {
        fail_case(text, target, m);
        return;
    }
    if (quern_verify(op, m, seed, QUERN_CHECK_FULL, &v) != QUERN_OK)
        fail_case(text, target, m);
    quern_op_release(op);
}

/* Rows of W that base kernels of these formats take at least. */
#define BASE_ROWS 4

static void run_case(void *user, size_t index)
{
    const int *const c = array.cases[index];
    char text[CASE_TEXT_MAX];

    (void)user;
    case_text(c, text);
    run_kernels(c, text, index);
    strcat(text, " kernels=base");
    if (columns[c[N]] >= BASE_ROWS)
        run_kernels(c, text, index);
}

static void test_cases(void **state)
{
    (void)state;
    for (int t = 0; t < levels[TARGET]; t++)
        contexts[t] = t_open(verified[t]->name, t_cache, QUERN_JIT_ON);
    t_explore_part((size_t)array.count, ONE_IN, run_case, NULL);
    for (int t = 0; t < levels[TARGET]; t++)
        quern_close(contexts[t]);
    for (int i = 0; i < COUNT(failures) && i < atomic_load(&failed); i++)
        print_error("%s\n", failures[i]);
    assert_int_equal(atomic_load(&failed), 0);
}

/* Layers that are large enough for a table with copies in all 64 banks, which none above is. */
static void test_large_table(void **state)
{
    quern_ctx *const ctx = t_open("gfx950", t_cache, QUERN_JIT_ON);

    (void)state;
    for (int t = 0; t < COUNT(types); t++) {
        struct quern_verification v = QUERN_INIT(struct quern_verification);
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        struct quern_problem p = QUERN_INIT(struct quern_problem);
        quern_op *op;
        char text[64];
        snprintf(text, sizeof text, "wq=nf4 n=2048 k=4096 a=%s", types[t]);
        assert_int_equal(quern_problem_parse(text, &p), QUERN_OK);
        assert_int_equal(quern_op_create_range(ctx, &p, 1, 1, &op), QUERN_OK);
        assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
        assert_int_equal(info.resources.lds_bytes, 65536);
        if (quern_verify(op, 1, 1, QUERN_CHECK_FAST, &v) != QUERN_OK)
            fail_msg("%s: %s", text, quern_last_error()->message);
        quern_op_release(op);
    }
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_coverage),
                                       cmocka_unit_test(test_cases),
                                       cmocka_unit_test(test_large_table)};

    find_levels();
    make(&array);
    if (getenv("T_LIST_CASES")) {
        print_cases();
        return 0;
    }
    return cmocka_run_group_tests_name("covering", tests, t_cache_make, t_cache_remove);
}
