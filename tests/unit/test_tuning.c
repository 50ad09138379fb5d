/* SPDX-License-Identifier: MIT */
/* The tuning table: what is read, what is refused with which line, and how a plan follows it. */
#include "plan/plan.h"
#include "plan/text_table.h"
#include "plan/tuning.h"

#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD    "quern-tuning 1 gfx1151\n"
#define PROBLEM "wq=nf4 n=4096 k=4096 a=bf16"

static quern_status parse(const char *text, struct tuning **out)
{
    return tuning_parse(text, strlen(text), target_named("gfx1151"), out);
}

static struct quern_problem problem(const char *text)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    assert_int_equal(quern_problem_parse(text, &p), QUERN_OK);
    return p;
}

/* The shape of the kernel for m rows, with a table or without. */
static enum plan_choice choice(const struct tuning *t, int64_t m, char shape[PLAN_SHAPE_MAX])
{
    const struct quern_problem p = problem(PROBLEM);
    struct plan_set set;

    assert_int_equal(plan_make_tuned(&p, target_named("gfx1151"), t, NULL, &set), QUERN_OK);
    const struct plan *const plan = plan_for(&set, m);
    plan_shape(plan, shape);
    return plan->choice;
}

struct shapes {
    size_t count;
    char words[8][PLAN_SHAPE_MAX];
};

static void keep(void *user, const struct plan *p)
{
    struct shapes *const s = user;

    plan_shape(p, s->words[s->count++]);
}

static void candidates_begin_with_the_choice(void **state)
{
    const struct quern_problem p = problem(PROBLEM);
    struct plan_set set;
    char shape[PLAN_SHAPE_MAX];

    (void)state;
    assert_int_equal(plan_make(&p, target_named("gfx1151"), &set), QUERN_OK);
    for (size_t i = 0; i < set.count; i++) {
        struct shapes s = {0};
        assert_int_equal(plan_candidates(&set.plans[i], 8, keep, &s), QUERN_OK);
        assert_int_equal(s.count, 8);
        plan_shape(&set.plans[i], shape);
        assert_string_equal(shape, s.words[0]);
        for (size_t a = 0; a < s.count; a++)
            for (size_t b = 0; b < a; b++)
                assert_string_not_equal(s.words[a], s.words[b]);
    }
}

static void keep_first(void *user, const struct plan *p)
{
    char *const words = user;

    if (!*words)
        plan_shape(p, words);
}

/* With room for hundreds next to none is left out unseen (model_beaten). */
static void the_choice_is_the_best_of_many(void **state)
{
    static const char *const texts[] = {PROBLEM,
                                        "wq=nf4 n=11008 k=4096 a=f16",
                                        "wq=int4 zero=u8 n=4096 k=4096 a=bf16",
                                        "wq=int4 zero=scaled n=2560 k=9728 a=f16",
                                        "wq=int4 layout=ck n=11008 k=4096 a=bf16",
                                        "wq=none n=4096 k=4096 a=bf16",
                                        "wq=fp8 n=4096 k=4096 a=bf16",
                                        "wq=fp8 n=19456 k=2560 a=f16"};
    static const char *const targets[] = {"gfx90a", "gfx950", "gfx1100", "gfx1151", "gfx1201"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            const struct quern_problem p = problem(texts[i]);
            struct plan_set set;
            assert_int_equal(plan_make(&p, target_named(targets[t]), &set), QUERN_OK);
            for (size_t k = 0; k < set.count; k++) {
                char shape[PLAN_SHAPE_MAX], first[PLAN_SHAPE_MAX] = "";
                assert_int_equal(plan_candidates(&set.plans[k], 300, keep_first, first), QUERN_OK);
                plan_shape(&set.plans[k], shape);
                assert_string_equal(shape, first);
            }
        }
}

/* Every candidate can be asked for, by a table or by name, and only that kernel changes. */
static void a_measured_shape_is_chosen(void **state)
{
    const struct quern_problem p = problem(PROBLEM);
    struct plan_set set;
    struct shapes s = {0};
    char text[1024], shape[PLAN_SHAPE_MAX], other[PLAN_SHAPE_MAX];

    (void)state;
    assert_int_equal(plan_make(&p, target_named("gfx1151"), &set), QUERN_OK);
    assert_int_equal(plan_candidates(&set.plans[2], 8, keep, &s), QUERN_OK);
    plan_shape(&set.plans[1], other);
    for (size_t i = 0; i < s.count; i++) {
        struct tuning *t;
        snprintf(text, sizeof text, HEAD "# measured\n\n" PROBLEM " | m=4 | %s | us=12.5\n",
                 s.words[i]);
        assert_int_equal(parse(text, &t), QUERN_OK);
        assert_int_equal(choice(t, 3, shape), CHOICE_MEASURED);
        assert_string_equal(shape, s.words[i]);
        assert_int_equal(choice(t, 2, shape), CHOICE_OF_MODEL);
        assert_string_equal(shape, other);
        tuning_free(t);
        struct plan again = set.plans[2];
        assert_int_equal(plan_reshape(&again, s.words[i]), QUERN_OK);
        plan_shape(&again, shape);
        assert_string_equal(shape, s.words[i]);
    }
}

static void a_stale_shape_is_left_out(void **state)
{
    static const char *const stale[] = {
        "rows=3 lanes=0 chunk=32 ring=0 split_k=1 waves=8 products=1 ahead=0 pairing=0", "rows=4",
        "leaps=9"};
    char text[512], shape[PLAN_SHAPE_MAX], models[PLAN_SHAPE_MAX];
    struct str explained = {0};
    struct tuning *t;

    (void)state;
    assert_int_equal(choice(NULL, 1, models), CHOICE_OF_MODEL);
    for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
        snprintf(text, sizeof text, HEAD PROBLEM " | m=1 | %s | us=1\n", stale[i]);
        assert_int_equal(parse(text, &t), QUERN_OK);
        assert_int_equal(choice(t, 1, shape), CHOICE_STALE);
        assert_string_equal(shape, models);
        tuning_free(t);
    }
    const struct quern_problem p = problem(PROBLEM);
    struct plan_set set;
    assert_int_equal(parse(text, &t), QUERN_OK);
    assert_int_equal(plan_make_tuned(&p, target_named("gfx1151"), t, NULL, &set), QUERN_OK);
    plan_explain(&set.plans[0], &explained);
    assert_non_null(strstr(str_text(&explained), "no candidate of this version"));
    assert_int_equal(plan_reshape(&set.plans[0], "rows=4"), QUERN_E_ARGUMENT);
    str_free(&explained);
    tuning_free(t);
}

/* Writes `words` with each name of now as it was, when all families shared one list of words. */
static void in_old_words(const char *words, const char *const names[][2],
                         char old[2 * PLAN_SHAPE_MAX])
{
    *old = 0;
    for (const char *at = words, *next; *at; at = next) {
        const size_t length = strcspn(at, "="), end = strcspn(at, " ");
        const char *name = NULL;
        for (size_t i = 0; names[i][0]; i++)
            if (strlen(names[i][0]) == length && !strncmp(at, names[i][0], length))
                name = names[i][1];
        const int now = (int)(name ? 0 : length);
        snprintf(old + strlen(old), 2 * PLAN_SHAPE_MAX - strlen(old), "%s%s%.*s%.*s",
                 *old ? " " : "", name ? name : "", now, at, (int)(end - length), at + length);
        next = at + end + (at[end] == ' ');
    }
}

/* Tables that were measured with an earlier version go on being followed. */
static void old_words_are_understood(void **state)
{
    static const struct {
        const char *problem, *target;
        int m;
        const char *names[4][2], *others; /* words of other families */
    } cases[] = {
        {PROBLEM, "gfx1151", 1, {{0}}, " lanes=0 ring=0 pairing=0"},
        {"wq=int4 n=4096 k=4096 a=f16", "gfx942", 1, {{"row_lanes", "lanes"}}, " ring=0"},
        {"wq=none n=4096 k=4096 a=bf16",
         "gfx1151",
         1,
         {{"row_lanes", "lanes"}, {"vector", "chunk"}},
         " ahead=0 pairing=0"},
        {PROBLEM, "gfx942", 32, {{"units", "ring"}}, " lanes=0 ahead=0 pairing=0"},
        {"wq=int4 zero=scaled n=4096 k=4096 a=f16",
         "gfx1151",
         32,
         {{"units", "ring"}, {"code_offset", "bias"}},
         " lanes=0 ahead=0"},
        {PROBLEM, "gfx942", 4096, {{"m_waves", "split_k"}, {"step", "chunk"}}, " lanes=0 ring=0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct quern_problem p = problem(cases[i].problem);
        char words[PLAN_SHAPE_MAX], old[2 * PLAN_SHAPE_MAX];
        struct plan_set set;
        assert_int_equal(plan_make(&p, target_named(cases[i].target), &set), QUERN_OK);
        const struct plan *const plan = plan_for(&set, cases[i].m);
        plan_shape(plan, words);
        in_old_words(words, cases[i].names, old);
        strcat(old, cases[i].others);
        if (!plan_has_shape(plan, old) || !plan_has_shape(plan, words))
            fail_msg("'%s' is not '%s'", old, words);
        old[strlen(old) - 1] = '1'; /* a word that the family does not have, and not 0 */
        assert_false(plan_has_shape(plan, old));
        strcat(words, " waves=4"); /* twice */
        assert_false(plan_has_shape(plan, words));
    }
}

/* Words in another order or left out are the same problem. */
static void problems_are_canonical(void **state)
{
    char shape[PLAN_SHAPE_MAX], text[512];
    struct shapes s = {0};
    const struct quern_problem p = problem(PROBLEM);
    struct plan_set set;
    struct tuning *t;

    (void)state;
    assert_int_equal(plan_make(&p, target_named("gfx1151"), &set), QUERN_OK);
    assert_int_equal(plan_candidates(&set.plans[0], 2, keep, &s), QUERN_OK);
    snprintf(text, sizeof text, HEAD "a=bf16 k=4096 n=4096 group=64 wq=nf4 | m=1 | %s | us=1",
             s.words[1]);
    assert_int_equal(parse(text, &t), QUERN_OK);
    assert_int_equal(choice(t, 1, shape), CHOICE_MEASURED);
    tuning_free(t);
}

static void bad_tables_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "line 1 is ''; expected 'quern-tuning 1 gfx1151'"},
        {"quern-tuning 2 gfx1151\n", "line 1 is 'quern-tuning 2 gfx1151'; expected"},
        {"quern-tuning 1 gfx1100\n", "expected 'quern-tuning 1 gfx1151'"},
        {HEAD PROBLEM " | m=1 | rows=4\n", "line 2 has fewer than four fields"},
        {HEAD PROBLEM " | m=1 | rows=4 | us=1 | us=1\n", "line 2 has more than four fields"},
        {HEAD "wq=nf5 n=1 k=64 a=f16 | m=1 | rows=4 | us=1\n", "line 2: wq=nf5 is unknown"},
        {HEAD "\n" PROBLEM " | m=0 | rows=4 | us=1\n", "line 3: m=0; expected m=1 to m=256"},
        {HEAD PROBLEM " | m=257 | rows=4 | us=1\n", "line 2: m=257; expected"},
        {HEAD PROBLEM " | m=1.5x | rows=4 | us=1\n", "line 2: m=1.5x; expected"},
        {HEAD PROBLEM " | rows | rows=4 | us=1\n", "line 2: rows; expected m=1"},
        {HEAD PROBLEM " | m=1 | rows=4  chunk=2 | us=1\n", "is no shape"},
        {HEAD PROBLEM " | m=1 | rows=4  | us=1\n", "is no shape"},
        {HEAD PROBLEM " | m=1 | rows=-4 | us=1\n", "is no shape"},
        {HEAD PROBLEM " | m=1 |  | us=1\n", "is no shape"},
        {HEAD PROBLEM " | m=1 | rows=4 | us=\n", "'us=' is no time"},
        {HEAD PROBLEM " | m=1 | rows=4 | us=1.\n", "'us=1.' is no time"},
        {HEAD PROBLEM " | m=1 | rows=4 | us=nan\n", "'us=nan' is no time"},
        {HEAD PROBLEM " | m=1 | rows=4 | us=1\n# x\n" PROBLEM " | m=1 | rows=2 | us=1\n",
         "line 4 repeats the problem and rows of line 2"},
    };
    struct tuning *t = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i].text, &t), QUERN_E_ARGUMENT);
        if (!strstr(quern_last_error()->message, bad[i].says))
            fail_msg("'%s' does not say '%s'", quern_last_error()->message, bad[i].says);
        assert_null(t);
    }
    assert_int_equal(tuning_parse(HEAD "\0", sizeof HEAD, target_named("gfx1151"), &t),
                     QUERN_E_ARGUMENT);
    assert_int_equal(tuning_parse(HEAD, TUNING_BYTES_MAX + 1, target_named("gfx1151"), &t),
                     QUERN_E_ARGUMENT);
}

static void every_prefix_is_read_or_refused(void **state)
{
    static const char text[] = HEAD "# one\n" PROBLEM " | m=1 | rows=4 chunk=32 | us=1.25\n" PROBLEM
                                    " | m=2 | rows=4 chunk=32 | us=2\n";

    (void)state;
    for (size_t n = 0; n < sizeof text; n++) {
        struct tuning *t = NULL;
        const quern_status status = tuning_parse(text, n, target_named("gfx1151"), &t);
        assert_true(status == QUERN_OK || status == QUERN_E_ARGUMENT);
        assert_true((status == QUERN_OK) == (t != NULL));
        tuning_free(t);
    }
}

/* What of several tables, one behind another, is a target's; null for nothing. */
static char *found(const char *text, const char *target)
{
    size_t bytes = 99;
    const char *const at = table_find("tuning", text, strlen(text), target_named(target), &bytes);

    if (at)
        return strndup(at, bytes);
    assert_int_equal(bytes, 0);
    return NULL;
}

static void tables_are_told_apart(void **state)
{
    static const char text[] = "quern-tuning 1 gfx1100\n# one\nquern-tuning 1 gfx1151\n# two\n"
                               "quern-tuning 2 gfx1201\n# three";
    char *part;

    (void)state;
    assert_string_equal(part = found(text, "gfx1100"), "quern-tuning 1 gfx1100\n# one\n");
    free(part);
    assert_string_equal(part = found(text, "gfx1151"), "quern-tuning 1 gfx1151\n# two\n");
    free(part);
    assert_null(found(text, "gfx1201")); /* of another version */
    assert_null(found(text, "gfx942"));
    assert_null(found("", "gfx1100"));
    assert_null(found("quern-tuning 1 gfx110", "gfx1100"));
    assert_null(found("quern-tuning 1 gfx11000\n", "gfx1100"));
    assert_null(found(" quern-tuning 1 gfx1100\n", "gfx1100"));
    assert_string_equal(part = found("quern-tuning 1 gfx1100", "gfx1100"),
                        "quern-tuning 1 gfx1100");
    free(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_told_apart),
        cmocka_unit_test(candidates_begin_with_the_choice),
        cmocka_unit_test(the_choice_is_the_best_of_many),
        cmocka_unit_test(a_measured_shape_is_chosen),
        cmocka_unit_test(old_words_are_understood),
        cmocka_unit_test(a_stale_shape_is_left_out),
        cmocka_unit_test(problems_are_canonical),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(every_prefix_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
