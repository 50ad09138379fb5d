/* SPDX-License-Identifier: MIT */
/* What kernels assume of a GPU: which tables are read, what a refuted fact leaves of a target and
 * of its plans, and that the software GPU, with silicon's arithmetic, does what is assumed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_explore.h"

#include "plan/facts.h"
#include "plan/family.h"
#include "sim/launch.h"

#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "quern-facts 1 gfx1201\n"

static struct facts parsed(const char *text, const char *target)
{
    struct facts facts;

    if (facts_parse(text, strlen(text), target_named(target), &facts) != QUERN_OK)
        fail_msg("%s: %s", text, quern_last_error()->message);
    return facts;
}

static void what_is_read(void **state)
{
    (void)state;
    struct facts f = parsed(HEAD "# a GPU\n\ndot2_bf16_bf16 | truncates\ncache_rate | 12.5\n"
                                 "of_a_later_version | yes\n",
                            "gfx1201");
    assert_true(f.given);
    assert_int_equal(f.probed, 1u << FACT_DOT2_BF16_BF16 | 1u << FACT_CACHE_RATE);
    assert_int_equal(f.refuted, 0);
    const struct hash128 before = f.hash;
    f = parsed(HEAD "dot2_bf16_bf16 | rounds_to_nearest\n", "gfx1201");
    assert_int_equal(f.refuted, 1u << FACT_DOT2_BF16_BF16);
    assert_memory_not_equal(&f.hash, &before, sizeof before);
    /* of a target that has no such instruction nothing relies on it */
    f = parsed("quern-facts 1 gfx942\ndot2_bf16_bf16 | otherwise\n", "gfx942");
    assert_int_equal(f.refuted, 0);
}

static void what_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "line 1 is ''; expected 'quern-facts 1 gfx1201'"},
        {"quern-facts 2 gfx1201\n", "expected 'quern-facts 1 gfx1201'"},
        {"quern-facts 1 gfx1200\n", "expected 'quern-facts 1 gfx1201'"},
        {HEAD "dot2_bf16_bf16\n", "line 2 has fewer than two fields"},
        {HEAD "dot2_bf16_bf16 | a | b\n", "line 2 has more than two fields"},
        {HEAD "dot2_bf16_bf16 | \n", "line 2 has fewer than two fields"},
        {HEAD "#\nwmma_lanes | a\nwmma_lanes | a\n", "line 4 repeats the fact wmma_lanes"},
        {HEAD "cache_rate | fast\n", "line 2: 'fast' is no rate; expected a number"},
    };
    struct facts f = {0};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(facts_parse(bad[i].text, strlen(bad[i].text), target_named("gfx1201"), &f),
                         QUERN_E_ARGUMENT);
        if (!strstr(quern_last_error()->message, bad[i].says))
            fail_msg("%s: %s", bad[i].text, quern_last_error()->message);
        assert_false(f.given);
    }
    assert_int_equal(facts_parse(HEAD "\0", sizeof HEAD, target_named("gfx1201"), &f),
                     QUERN_E_ARGUMENT);
}

static quern_status plan(const char *text, const char *target, enum fact refuted,
                         struct plan_set *set)
{
    const struct facts facts = {.given = true, .refuted = 1u << refuted};
    const struct quern_problem p = t_problem(text);
    const struct target *planned, *again;

    assert_int_equal(facts_target(&facts, target_named(target), &planned), QUERN_OK);
    assert_int_equal(facts_target(&facts, target_named(target), &again), QUERN_OK);
    assert_ptr_equal(planned, again);
    assert_ptr_not_equal(planned, target_named(target));
    return plan_make(&p, planned, set);
}

static bool uses_matrices(const struct plan_set *set)
{
    bool does = false;

    for (size_t i = 0; i < set->count; i++)
        does |= set->plans[i].products >= PRODUCTS_MATRIX;
    return does;
}

/* Every fact of every target: where it is refuted all problems still have kernels, or are declined
 * with its name; and none that relies on it. */
static void what_is_planned(void **state)
{
    static const char *const problems[] = {
        "wq=nf4 n=4096 k=4096 a=bf16", "wq=int4 n=512 k=1024 a=bf16 group=128",
        "wq=mxfp4 n=128 k=512 a=f16",  "wq=fp8 n=256 k=512 a=f16",
        "wq=none n=256 k=512 a=f16",   "op=dequant wq=nf4 n=64 k=512 c=bf16",
    };
    struct plan_set set;

    (void)state;
    for (size_t t = 0; t < target_count(); t++)
        for (unsigned f = 0; f < FACT_COUNT; f++) {
            const struct target *const target = target_at(t);
            if (!fact_asked((enum fact)f, target))
                continue;
            for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
                const struct quern_problem p = t_problem(problems[i]);
                const bool declined = plan_make(&p, target, &set) != QUERN_OK;
                const quern_status status = plan(problems[i], target->name, (enum fact)f, &set);
                const bool gone = f == FACT_UNALIGNED_LOADS && p.op != QUERN_OP_DEQUANT;
                if (status != (gone || declined ? QUERN_E_DECLINED : QUERN_OK))
                    fail_msg("%s on %s without %s: %s", problems[i], target->name,
                             fact_rows[f].name, quern_last_error()->message);
                if (gone && !declined)
                    assert_non_null(strstr(quern_last_error()->message, "refutes unaligned_loads"));
                if (status == QUERN_OK && fact_rows[f].takes & (FACT_ALL_MFMA | CAP_WMMA_256B) &&
                    f != FACT_FP8_KIND)
                    assert_false(uses_matrices(&set));
            }
        }
}

static void check_fact(void *user, const struct quern_fact *f)
{
    if (!f->holds)
        fail_msg("%s: %s is %s, and the software GPU says %s", (const char *)user, f->name,
                 f->assumed, f->measured);
    if (strchr(f->assumed, '/')) /* a rate: how large it is says how busy this machine is */
        assert_true(strtod(f->measured, NULL) >= 0);
}

/* Whether a target's facts are measured: of one of each generation, in check-long of all; under
 * sanitizers of one. */
static bool is_measured(const struct target *target)
{
    static const char *const some[] = {"gfx1201", "gfx942", "gfx1151"};

    for (size_t i = 0; i < (T_SANITIZED ? 1 : sizeof some / sizeof *some); i++)
        if (!strcmp(target->name, some[i]))
            return true;
    return !T_SANITIZED && t_explores();
}

/* The kernels that measure facts run on the software GPU, which must do what is assumed. */
static void what_the_software_gpu_does(void **state)
{
    char *const directory = t_temp_dir();

    (void)state;
    for (size_t t = 0; t < target_count(); t++) {
        const struct target *const target = target_at(t);
        char *table = NULL;
        if (!target_simulated(target) || !is_measured(target))
            continue;
        quern_ctx *const ctx = t_open(target->name, directory, QUERN_JIT_ON);
        quern_ctx_sim(ctx)->arithmetic = QUERN_ARITHMETIC_SILICON;
        if (quern_probe(ctx, check_fact, (void *)(uintptr_t)target->name, &table) != QUERN_OK)
            fail_msg("%s: %s", target->name, quern_last_error()->message);
        const struct facts f = parsed(table, target->name);
        assert_int_equal(f.refuted, 0);
        for (unsigned i = 0; i < FACT_COUNT; i++)
            assert_int_equal(f.probed >> i & 1, fact_asked((enum fact)i, target));
        free(table);
        quern_close(ctx);
    }
    t_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(what_is_planned),
        cmocka_unit_test(what_the_software_gpu_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
