/* SPDX-License-Identifier: MIT */
/*
 * Random layers on one target of each kind, in full checking mode: all formats, types, zero points,
 * groups, layouts and rounding, N and K that fill no step, tile or workgroup, and any M. Half an
 * hour of work: with --long only, as far as time goes (t_explore.h).
 *
 * A case is a function of the seed and its number alone. Each that fails is printed as the command
 * that shows it. In check-long each run has a seed of its own, which it prints; T_RANDOM_SEED,
 * T_RANDOM_FIRST and T_RANDOM_COUNT (decimal) choose cases, or one of them again.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_explore.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED          1
#define CASES         2000 /* at most */
#define OPERANDS_SEED 20   /* that of quern prewarm --verify, so that it runs the same */

#define PRODUCTS_MAX (24 << 20) /* M·N·K of a case: a second or so of the software GPU */
#define WEIGHTS_MAX  (3 << 20)

static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                      "gfx1100", "gfx1151", "gfx1201"};
/* Values of QUERN_FORCE. */
static const char *const forces[] = {"", "predequant=off", "predequant=on"};
enum { TARGETS = 6, FORCES = 3 };

static quern_ctx *contexts[TARGETS][FORCES];
static uint64_t seed, first_case;
static atomic_int failed, declined;

/* ---- Draws ----------------------------------------------------------------------------------- */

struct draw {
    uint64_t state;
};

/* A number from 0 to n - 1, by splitmix64. */
static int below(struct draw *d, int n)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

static bool one_in(struct draw *d, int n)
{
    return !below(d, n);
}

static int between(struct draw *d, int least, int most)
{
    return least + below(d, most - least + 1);
}

/* One of the words of a text that blanks separate. */
static const char *word(struct draw *d, const char *words, char out[16])
{
    int count = 1;

    for (const char *c = words; *c; c++)
        count += *c == ' ';
    for (int skip = below(d, count); skip; skip--)
        words = strchr(words, ' ') + 1;
    snprintf(out, 16, "%.*s", (int)strcspn(words, " "), words);
    return out;
}

static int draw_m(struct draw *d)
{
    return one_in(d, 8) ? between(d, 65, 300) : one_in(d, 2) ? between(d, 9, 64) : between(d, 1, 8);
}

/* Mostly odd, or one off the edge of a tile. */
static int draw_n(struct draw *d)
{
    switch (below(d, 6)) {
    case 0:
        return between(d, 1, 40);
    case 1:
        return between(d, 2000, 4000);
    case 2:
        return between(d, 1, 16) * 16 + between(d, -1, 1);
    case 3:
        return between(d, 1, 20) * 32 + between(d, -1, 1);
    default:
        return between(d, 0, 400) * 2 + 1;
    }
}

/* A multiple of `unit`: a prime or anything of them, or one beside a power of two. */
static int draw_k(struct draw *d, int unit)
{
    static const int primes[] = {1,  2,  3,  5,  7,  11, 13, 17, 19, 23, 29,  31,
                                 37, 41, 43, 47, 53, 61, 73, 83, 89, 97, 113, 127};
    const int most = (one_in(d, 12) ? 16384 : 4096) / unit;
    int units;

    do
        units = one_in(d, 3)   ? (1 << below(d, 14)) + between(d, -1, 1)
                : one_in(d, 3) ? between(d, 1, most)
                               : primes[below(d, 24)] * (unit < 32 ? 32 / unit : 1);
    while (units < 1 || units > most);
    return units * unit;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

struct layer {
    int target, force, m;
    char text[256];
};

static void add(struct layer *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct layer *l, const char *format, ...)
{
    const size_t n = strlen(l->text);
    va_list ap;

    va_start(ap, format);
    assert_true((size_t)vsnprintf(l->text + n, sizeof l->text - n, format, ap) <
                sizeof l->text - n);
    va_end(ap);
}

/* Adds the words of a problem but n and k; returns what K must be a multiple of. */
static int draw_words(struct draw *d, struct layer *l)
{
    static const char any[] = "f32 f16 bf16", rounds[] = "rne rne trunc";
    char wq[16], a[16], w[4][16];
    int unit = 32 << (one_in(d, 3) ? below(d, 8) : below(d, 3));

    word(d, "nf4 fp4 mxfp4 int4 int4 int4 int4 fp8 fp8fnuz none none", wq);
    const bool dequant = strcmp(wq, "none") && one_in(d, 12);
    word(d, "f16 f16 bf16 bf16 f32", a);
    add(l, "wq=%s c=%s", wq, word(d, any, w[0]));
    if (!strcmp(wq, "int4")) {
        word(d, "k8 exl ck", w[0]);
        if (one_in(d, 6)) {
            unit = strcmp(w[0], "ck") ? 8 : 32;
            add(l, " group=channel");
        } else {
            add(l, " group=%d", unit);
        }
        add(l, " layout=%s scale=%s zero=%s round=%s", w[0], word(d, any, w[1]),
            word(d, "none u8 scaled", w[2]), word(d, rounds, w[3]));
        l->force = dequant || !strcmp(a, "f32") ? 0 : below(d, FORCES);
    } else if (!strcmp(wq, "mxfp4")) {
        unit = 32;
    } else if (!strcmp(wq, "nf4") || !strcmp(wq, "fp4")) {
        add(l, " group=%d scale=%s", unit, word(d, "f32 nested", w[0]));
    } else {
        unit = one_in(d, 2) ? 1 : 8;
        add(l, " round=%s", word(d, rounds, w[0]));
        if (strcmp(wq, "none") && (!strcmp(a, "f32") || one_in(d, 3)))
            snprintf(a, sizeof a, "%s", wq);
    }
    if (dequant)
        add(l, " op=dequant");
    else
        add(l, " a=%s bias=%d", a, below(d, 2));
    return unit;
}

static struct layer draw_layer(uint64_t number)
{
    struct draw d = {(seed << 32) ^ (number * 0xd1342543de82ef95)};
    struct layer l = {.target = below(&d, TARGETS)};
    const int unit = draw_words(&d, &l), k = draw_k(&d, unit);
    int n = draw_n(&d);

    l.m = strstr(l.text, "op=dequant") ? 1 : draw_m(&d);
    if (n > WEIGHTS_MAX / k)
        n = WEIGHTS_MAX / k;
    if (n > PRODUCTS_MAX / (l.m * k))
        n = PRODUCTS_MAX / (l.m * k) | 1;
    add(&l, " n=%d k=%d", n, k);
    return l;
}

static void run_case(void *user, size_t index)
{
    const struct layer l = draw_layer(first_case + index);
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    quern_op *op = NULL;

    (void)user;
    quern_status status = quern_problem_parse(l.text, &p);
    if (!status)
        status = quern_op_create_range(contexts[l.target][l.force], &p, l.m, l.m, &op);
    if (!status)
        status = quern_verify(op, l.m, OPERANDS_SEED, QUERN_CHECK_FULL, &v);
    quern_op_release(op);
    /* fp8 in software where it does not pay, and what cannot be dequantised beforehand */
    if (status == QUERN_E_DECLINED && (strstr(l.text, "wq=fp8") || l.force == FORCES - 1)) {
        atomic_fetch_add(&declined, 1);
    } else if (status) {
        atomic_fetch_add(&failed, 1);
        print_error("seed %llu, case %llu: QUERN_FORCE=%s quern prewarm --target %s --m %d "
                    "--verify '%s': %s\n",
                    (unsigned long long)seed, (unsigned long long)(first_case + index),
                    forces[l.force], targets[l.target], l.m, l.text, quern_last_error()->message);
    }
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *const text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void test_random(void **state)
{
    const size_t most = (size_t)number_of("T_RANDOM_COUNT", CASES);

    (void)state;
    seed = number_of("T_RANDOM_SEED", SEED + t_explore(1 << 20)); /* others in each run */
    first_case = number_of("T_RANDOM_FIRST", 0);
    for (int f = 0; f < FORCES; f++) {
        assert_int_equal(setenv("QUERN_FORCE", forces[f], 1), 0);
        for (int t = 0; t < TARGETS; t++)
            contexts[t][f] = t_open(targets[t], t_cache, QUERN_JIT_ON);
    }
    assert_int_equal(unsetenv("QUERN_FORCE"), 0);
    const size_t count = t_explore_part(most, 1, run_case, NULL);
    for (int t = 0; t < TARGETS; t++)
        for (int f = 0; f < FORCES; f++)
            quern_close(contexts[t][f]);
    print_message("seed %llu: %zu cases, of which %d were declined\n", (unsigned long long)seed,
                  count, (int)declined);
    assert_int_equal(failed, 0);
    assert_true((size_t)declined <= count / 20 + 2); /* some 13 of 1000 are */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    return cmocka_run_group_tests_name("random layers", tests, t_cache_make, t_cache_remove);
}
