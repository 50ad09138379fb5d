/* SPDX-License-Identifier: MIT */
/* Reciprocals, roots, exponentials and logarithms of RDNA 3 and 4, bit for bit as captured: single
 * results by instructions, vector and scalar ones, and the digests of all significands. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/number/transcendental.h"
#include "t_gpu.h"
#include "trans/captures.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MOST_WORDS   64

static const struct function {
    const char *name;
    const uint32_t (*captured)[2];
    size_t count;
} functions[] = {
    {"rcp", captured_rcp, COUNT(captured_rcp)}, {"rcp_iflag", captured_rcp, COUNT(captured_rcp)},
    {"rsq", captured_rsq, COUNT(captured_rsq)}, {"sqrt", captured_sqrt, COUNT(captured_sqrt)},
    {"log", captured_log, COUNT(captured_log)}, {"exp", captured_exp, COUNT(captured_exp)}};

static void load(struct t_gpu *g, const char *instruction, const char *type)
{
    char source[1024];

    snprintf(source, sizeof source,
             "KERNEL k(const u32 *in, u32 *out)\n{\n"
             "    const u32 l = __builtin_amdgcn_workitem_id_x() +\n"
             "                  256 * __builtin_amdgcn_workgroup_id_x();\n"
             "    u32 r;\n"
             "    asm volatile(\"%s\" : \"=%s\"(r) : \"%s\"(%s));\n"
             "    out[l] = r;\n}\n",
             instruction, type, type,
             *type == 's' ? "__builtin_amdgcn_readfirstlane(in[l])" : "in[l]");
    t_gpu_load(g, source);
}

static void expect(struct t_gpu *g, const struct function *f, bool scalar)
{
    uint32_t in[MOST_WORDS] = {0}, out[MOST_WORDS];
    const struct t_buffer buffers[] = {{in, sizeof in, QUERN_SIM_READ, "in"},
                                       {out, sizeof out, QUERN_SIM_WRITE, "out"}};
    char text[64];

    snprintf(text, sizeof text, "v_%s%s_f32 %%0, %%1", scalar ? "s_" : "", f->name);
    load(g, text, scalar ? "s" : "v");
    /* a scalar instruction has one argument: a workgroup of one lane for each */
    for (size_t i = 0; i < (scalar ? f->count : 1); i++) {
        for (size_t n = 0; n < f->count; n++)
            in[n] = f->captured[scalar ? i : n][0];
        t_gpu_run(g, &(struct t_launch){.kernel = "k",
                                        .items = {scalar ? 1 : MOST_WORDS},
                                        .buffers = buffers,
                                        .count = 2});
        for (size_t n = 0; n < (scalar ? 1 : f->count); n++)
            if (out[n] != f->captured[scalar ? i : n][1])
                fail_msg("%s, %s of %08x: %08x, not %08x", g->target, text, in[n], out[n],
                         f->captured[scalar ? i : n][1]);
    }
}

static void test_captured_words(void **state)
{
    static const char *const targets[] = {"gfx1100", "gfx1151", "gfx1201"};

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++) {
        struct t_gpu g;
        if (!t_gpu_has(targets[t]))
            continue;
        t_gpu_open(&g, targets[t], "", QUERN_CHECK_FAST, 0, 0);
        t_gpu_arithmetic(&g, QUERN_ARITHMETIC_SILICON);
        for (size_t n = 0; n < COUNT(functions); n++) {
            expect(&g, &functions[n], false);
            if (targets[t][4] == '2' && !strchr(functions[n].name, '_'))
                expect(&g, &functions[n], true);
        }
        t_gpu_close(&g);
    }
}

/* Of f16 the result of the argument widened to f32, rounded: every one of them. */
static void test_halves(void **state)
{
    static const struct {
        const char *name;
        uint32_t (*function)(uint32_t);
    } halves[] = {{"v_rcp_f16 %0, %1", rcp_bits},
                  {"v_rsq_f16 %0, %1", rsq_bits},
                  {"v_sqrt_f16 %0, %1", sqrt_bits}};
    static uint32_t in[65536], out[65536];
    const struct t_buffer buffers[] = {{in, sizeof in, QUERN_SIM_READ, "in"},
                                       {out, sizeof out, QUERN_SIM_WRITE, "out"}};
    struct t_gpu g;

    (void)state;
    if (!t_gpu_has("gfx1201"))
        return;
    t_gpu_open(&g, "gfx1201", "", QUERN_CHECK_FAST, 0, 0);
    t_gpu_arithmetic(&g, QUERN_ARITHMETIC_SILICON);
    for (uint32_t n = 0; n < 65536; n++)
        in[n] = n;
    for (size_t k = 0; k < COUNT(halves); k++) {
        load(&g, halves[k].name, "v");
        t_gpu_run(
            &g,
            &(struct t_launch){
                .kernel = "k", .groups = {256}, .items = {256}, .buffers = buffers, .count = 2});
        for (uint32_t n = 0; n < 65536; n++) {
            const float wide = f32_of(halves[k].function(bits_of_f32(f16_to_f32(n))));
            const uint32_t want = f32_to_f16(wide), got = out[n] & 0xffff;
            if (got != want && !(wide != wide && (got & 0x7e00) == 0x7e00))
                fail_msg("%s of %04x: %04x, not %04x", halves[k].name, n, got, want);
        }
    }
    t_gpu_close(&g);
}

/* 2^x of this half is above the middle of two, but rounded to f32 first it is the middle. */
static void test_exponential_is_rounded_once(void **state)
{
    uint32_t in[1] = {0x11c5}, out[1];
    const struct t_buffer buffers[] = {{in, sizeof in, QUERN_SIM_READ, "in"},
                                       {out, sizeof out, QUERN_SIM_WRITE, "out"}};
    struct t_gpu g;

    (void)state;
    if (!t_gpu_has("gfx1201"))
        return;
    t_gpu_open(&g, "gfx1201", "", QUERN_CHECK_FAST, 0, 0);
    load(&g, "v_exp_f16 %0, %1", "v");
    t_gpu_run(&g, &(struct t_launch){.kernel = "k", .items = {1}, .buffers = buffers, .count = 2});
    assert_int_equal(out[0] & 0xffff, 0x3c01);
    t_gpu_close(&g);
}

static uint64_t digest(uint32_t (*function)(uint32_t), uint32_t first, uint32_t count)
{
    uint64_t hash = 14695981039346656037u;

    for (uint32_t n = 0; n < count; n++)
        hash = (hash ^ function(first + n)) * 1099511628211u;
    return hash;
}

static uint32_t exp_of_multiple(uint32_t n)
{
    const float x = (float)(n & 0x7fffffff) * 0x1p-24f;

    return exp_bits(bits_of_f32(x) | (n & 0x80000000u));
}

static void test_digests(void **state)
{
    (void)state;
    assert_int_equal(digest(rcp_bits, 0x3f800000, 1u << 23), DIGEST_RCP);
    assert_int_equal(digest(rsq_bits, 0x3f800000, 1u << 24), DIGEST_RSQ);
    assert_int_equal(digest(sqrt_bits, 0x3f800000, 1u << 24), DIGEST_SQRT);
    assert_int_equal(digest(log_bits, 0x3f000000, 1u << 24), DIGEST_LOG);
    assert_int_equal(digest(exp_of_multiple, 0, 1u << 24), DIGEST_EXP);
    assert_int_equal(digest(exp_of_multiple, 0x80000000u, 1u << 24), DIGEST_EXP_NEGATIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_captured_words), cmocka_unit_test(test_halves),
        cmocka_unit_test(test_exponential_is_rounded_once), cmocka_unit_test(test_digests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
