/* SPDX-License-Identifier: MIT */
/* Masks that a gfx1201 gave: classes of floats, comparisons of floats and integers. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "goc/corpus.h"
#include "goc/masks.h"
#include "t_explore.h"
#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

/* ---- Classes and comparisons ----------------------------------------------------------------- */

/* Zeros, the least and largest denormals, the least normal, one, the largest, infinities, NaNs. */
static uint64_t edge(bool wide, uint32_t i)
{
    const uint32_t fraction = wide ? 52 : 23;
    const uint64_t unit = (uint64_t)1 << fraction, infinity = wide ? 2047 * unit : 255 * unit;
    const uint64_t pairs[] = {
        0, 1, unit - 1, unit, wide ? 1023 * unit : 127 * unit, infinity - 1, infinity};

    if (i < 14)
        return pairs[i / 2] | (uint64_t)(i % 2) << (wide ? 63 : 31);
    return infinity + 1 + (i == 15 ? unit / 2 : 0);
}

/* The mask that a comparison leaves, in a register of a lane: v_cmp's by `x` = false. */
static void mask_text(char text[TEXT], bool x, const char *name, const char *operands)
{
    if (x)
        snprintf(text, TEXT,
                 "s_mov_b32 s60, exec_lo\\n v_cmpx_%s %s\\n s_mov_b32 s61, exec_lo\\n "
                 "s_mov_b32 exec_lo, s60\\n v_mov_b32 v20, s61",
                 name, operands);
    else
        snprintf(text, TEXT, "v_cmp_%s s60, %s\\n v_mov_b32 v20, s60", name, operands);
}

static void classes(void **state)
{
    static const char *const forms[] = {"%s", "|%s|", "-%s", "-|%s|"};
    struct corpus c = corpus_of(65536);
    char texts[8][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t wide = 0; wide < 2 && t_gpu_has("gfx1201"); wide++) {
        for (uint32_t i = 0; i < c.lanes; i++) {
            const uint32_t random = i * 0x7395a831u ^ 0xa7925163u;
            corpus_set(&c, i, 0,
                       i < 32768 ? edge(wide, i % 16)
                       : wide    ? (uint64_t)random << 32 | (i * 0x83a1459du ^ 0x5389d241u)
                                 : random);
            corpus_set(&c, i, 1, i * 0x9e3779b9u ^ 0xa5a59669u);
        }
        for (uint32_t m = 0; m < 8; m++) {
            const char *form = forms[m % 4], *at = strstr(form, "%s");
            char operands[64];
            snprintf(operands, sizeof operands, "%.*s%s%s, v12", (int)(at - form), form,
                     wide ? "v[10:11]" : "v10", at + 2);
            mask_text(texts[m], m >= 4, wide ? "class_f64" : "class_f32", operands);
        }
        opened(&g);
        corpus_run(&g, &c, texts, 8);
        for (uint32_t m = 0; m < 8; m++)
            expect(digest(&c, m, 32, 4, DIGEST_OF_NOTHING), goc_class[wide][m % 4], texts[m]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

static void compare_inputs(struct corpus *c, bool wide)
{
    for (uint32_t i = 0; i < c->lanes; i++) {
        uint64_t a = (uint64_t)(i * 0x7395a831u ^ 0xa7925163u) << 32;
        uint64_t b = (uint64_t)(i * 0x38459317u ^ 0x187abd31u) << 32;
        a |= i * 0x83a1459du ^ 0x5389d241u;
        b |= i * 0x9e3779b9u ^ 0xa5a59669u;
        if (i < 256) {
            a = edge(wide, i % 16);
            b = edge(wide, i / 16);
        } else if (i % 4 == 0) {
            b = a;
        } else if (wide && i % 4 == 1) {
            b = (a >> 32) << 32 | (uint32_t)b;
        }
        corpus_set(c, i, 0, a);
        corpus_set(c, i, 1, b);
    }
}

static void comparisons(void **state)
{
    struct corpus c = corpus_of(4096);
    char texts[16][TEXT];
    struct t_gpu g;

    (void)state;
    if (!opened(&g)) {
        corpus_free(&c);
        return;
    }
    for (uint32_t n = 0; n < 2 * 2 * 14; n++) {
        const uint32_t wide = n / 28, x = n / 14 % 2, predicate = n % 14;
        const char *const names[] = {wide ? "v[10:11]" : "v10", wide ? "v[12:13]" : "v12"};
        uint64_t hash = DIGEST_OF_NOTHING;
        char name[16];
        snprintf(name, sizeof name, "%s_f%d", goc_predicates[predicate], wide ? 64 : 32);
        compare_inputs(&c, wide);
        for (uint32_t m = 0; m < 16; m++) {
            const char *const bar[] = {m & 1 ? "|" : "", m & 2 ? "|" : ""};
            char operands[64];
            snprintf(operands, sizeof operands, "%s%s%s%s, %s%s%s%s", m & 4 ? "-" : "", bar[0],
                     names[0], bar[0], m & 8 ? "-" : "", bar[1], names[1], bar[1]);
            mask_text(texts[m], x, name, operands);
        }
        corpus_run(&g, &c, texts, 16);
        for (uint32_t m = 0; m < 16; m++)
            hash = digest(&c, m, 32, 4, hash);
        expect(hash, goc_compare[wide][predicate], texts[0]);
    }
    t_gpu_close(&g);
    corpus_free(&c);
}

/* ---- Halves ---------------------------------------------------------------------------------- */

/* v_cmp number `op` of v10 and v12 in its long form, for the assembler of today takes no upper
 * halves; `halves` has 1 for that of a and 2 for that of b, `abs` and `neg` likewise. v_cmpx has
 * 0x80 more, and writes EXEC, 0x7e. */
static void half_text(char text[TEXT], bool x, uint32_t op, uint32_t halves, uint32_t abs,
                      uint32_t neg)
{
    const uint32_t low = 0xd4000000 | (op + (x ? 0x80 : 0)) << 16 | halves << 11 | abs << 8;
    const uint32_t high = 0x100 + 10 + ((0x100 + 12) << 9) + (neg << 29);

    if (x)
        snprintf(text, TEXT,
                 "s_mov_b32 s60, exec_lo\\n .long 0x%x, 0x%x\\n s_mov_b32 s61, exec_lo\\n "
                 "s_mov_b32 exec_lo, s60\\n v_mov_b32 v20, s61",
                 low | 0x7e, high);
    else
        snprintf(text, TEXT, ".long 0x%x, 0x%x\\n v_mov_b32 v20, s60", low | 60, high);
}

static uint32_t edge_f16(uint32_t i)
{
    static const uint16_t edges[16] = {0,      0x8000, 1,      0x8001, 0x3ff,  0x83ff,
                                       0x400,  0x8400, 0x3c00, 0xbc00, 0x7bff, 0xfbff,
                                       0x7c00, 0xfc00, 0x7c01, 0x7e01};
    return edges[i] | (uint32_t)edges[15 - i] << 16;
}

static void half_classes(void **state)
{
    struct corpus c = corpus_of(65536);
    char texts[16][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t i = 0; i < c.lanes; i++) {
        corpus_set(&c, i, 0, i | (65535 - i) << 16);
        corpus_set(&c, i, 1, i * 0x9e3779b9u ^ 0xa5a59669u);
    }
    for (uint32_t x = 0; x < 2 && t_gpu_has("gfx1201"); x++) {
        for (uint32_t m = 0; m < 16; m++)
            half_text(texts[m], x, 0x7d, m >> 2, m & 1, m >> 1 & 1);
        opened(&g);
        corpus_run(&g, &c, texts, 16);
        for (uint32_t m = 0; m < 16; m++)
            expect(digest(&c, m, 32, 4, DIGEST_OF_NOTHING), goc_class_f16[m], texts[m]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

static void half_comparisons(void **state)
{
    struct corpus c = corpus_of(4096);
    char texts[16][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t i = 0; i < c.lanes; i++) {
        const uint32_t a = i < 256 ? edge_f16(i % 16) : i * 0x83a1459du ^ 0x5389d241u;
        const uint32_t b = i < 256      ? edge_f16(i / 16)
                           : i % 4 == 0 ? a
                                        : i * 0x9e3779b9u ^ 0xa5a59669u;
        corpus_set(&c, i, 0, a);
        corpus_set(&c, i, 1, b);
    }
    for (uint32_t n = 0; n < 2 * 14 && t_gpu_has("gfx1201"); n++) {
        if (!t_takes(n, 3))
            continue;
        uint64_t hash = DIGEST_OF_NOTHING;
        opened(&g);
        for (uint32_t halves = 0; halves < 4; halves++) {
            for (uint32_t m = 0; m < 16; m++)
                half_text(texts[m], n >= 14, 1 + n % 14, halves, m & 3, m >> 2);
            corpus_run(&g, &c, texts, 16);
            for (uint32_t m = 0; m < 16; m++)
                hash = digest(&c, m, 32, 4, hash);
        }
        expect(hash, goc_compare_f16[n % 14], texts[0]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

/* ---- Integers -------------------------------------------------------------------------------- */

/* Small numbers and those about the limits; then random ones, some of which share a half. */
static void integer_inputs(struct corpus *c, uint32_t bits)
{
    const uint64_t sign = (uint64_t)1 << (bits - 1), most = sign + (sign - 1);
    const uint64_t edges[16] = {0,          1,          2,          sign - 2,   sign - 1, sign,
                                sign + 1,   sign + 2,   most - 1,   most,       0xffff,   0x10000,
                                0x7fffffff, 0x80000000, 0xffffffff, 0x100000000};

    for (uint32_t i = 0; i < c->lanes; i++) {
        const uint32_t a_high = i * 0x7395a831u ^ 0xa7925163u,
                       a_low = i * 0x83a1459du ^ 0x5389d241u;
        const uint32_t b_high = i * 0x38459317u ^ 0x187abd31u,
                       b_low = i * 0x9e3779b9u ^ 0xa5a59669u;
        uint64_t a = (uint64_t)a_high << 32 | a_low;
        uint64_t b = (uint64_t)(i % 4 < 2 ? a_high : b_high) << 32 | (i % 2 ? b_low : a_low);
        if (i % 4 == 3)
            b = (uint64_t)b_high << 32 | b_low;
        if (bits == 16) {
            a = i | (65535 - i) << 16;
            b = i % 4 == 0 ? a : a_high;
        }
        if (i < 256) {
            a = edges[i % 16] & most;
            b = edges[i / 16] & most;
        }
        corpus_set(c, i, 0, a);
        corpus_set(c, i, 1, b);
    }
}

static void short_integers(void **state)
{
    struct corpus c = corpus_of(65536);
    char texts[8][TEXT];
    struct t_gpu g;

    (void)state;
    integer_inputs(&c, 16);
    for (uint32_t n = 0; n < 2 * 6 && t_gpu_has("gfx1201"); n++) {
        const uint32_t op = (n < 6 ? 0x31 : 0x39) + n % 6;
        for (uint32_t m = 0; m < 8; m++)
            half_text(texts[m], m >= 4, op, m % 4, 0, 0);
        opened(&g);
        corpus_run(&g, &c, texts, 8);
        for (uint32_t m = 0; m < 8; m++)
            expect(digest(&c, m, 32, 4, DIGEST_OF_NOTHING), goc_compare_16[n / 6][n % 6][m % 4],
                   texts[m]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

static void integers(void **state)
{
    static const char *const types[4] = {"i32", "u32", "i64", "u64"};
    struct corpus c = corpus_of(65536);
    char texts[12][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t type = 0; type < 4 && t_gpu_has("gfx1201"); type++) {
        integer_inputs(&c, type < 2 ? 32 : 64);
        for (uint32_t n = 0; n < 12; n++) {
            char name[16];
            snprintf(name, sizeof name, "%s_%s", goc_orders[n % 6], types[type]);
            mask_text(texts[n], n >= 6, name, type < 2 ? "v10, v12" : "v[10:11], v[12:13]");
        }
        opened(&g);
        corpus_run(&g, &c, texts, 12);
        for (uint32_t n = 0; n < 12; n++)
            expect(digest(&c, n, 32, 4, DIGEST_OF_NOTHING), goc_compare_int[type][n % 6], texts[n]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes),        cmocka_unit_test(comparisons),
        cmocka_unit_test(half_classes),   cmocka_unit_test(half_comparisons),
        cmocka_unit_test(short_integers), cmocka_unit_test(integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
