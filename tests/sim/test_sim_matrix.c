/* SPDX-License-Identifier: MIT */
/* WMMA instructions of gfx11 against the product of matrices laid out as AMD documents it: lane l
 * holds row (or column) l % 16 of A (of B), all k in order; D has column l % 16, rows going round
 * the groups of 16 lanes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"
#include "t_number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct form {
    const char *name, *builtin; /* _w32 or _w64 is added */
    enum t_type a, b;
    bool half; /* D is 16-bit */
} forms[] = {
    {"f32 f16", "__builtin_amdgcn_wmma_f32_16x16x16_f16_w%u(a, b, c)", F16, F16, false},
    {"f32 bf16", "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w%u(a, b, c)", BF16, BF16, false},
    {"f16 f16", "__builtin_amdgcn_wmma_f16_16x16x16_f16_w%u(a, b, c, false)", F16, F16, true},
    {"bf16 bf16", "__builtin_amdgcn_wmma_bf16_16x16x16_bf16_w%u(a, b, c, true)", BF16, BF16, true},
    {"i32 iu8", "__builtin_amdgcn_wmma_i32_16x16x16_iu8_w%u(false, a, true, b, c, false)", U8, I8,
     false},
    {"i32 iu8 clamp", "__builtin_amdgcn_wmma_i32_16x16x16_iu8_w%u(true, a, true, b, c, true)", I8,
     I8, false},
    {"i32 iu4", "__builtin_amdgcn_wmma_i32_16x16x16_iu4_w%u(true, a, false, b, c, false)", I4, U4,
     false},
};

static void check_form(struct t_gpu *g, const struct form *f, unsigned kernel, unsigned lanes,
                       bool special, uint64_t *random)
{
    static uint32_t a[64 * 8], b[64 * 8], c[64 * 16], d[64 * 16];
    const unsigned words = t_bits_of(f->a) * 16 / 32, groups = lanes / 16;
    /* a 16-bit D has one element to a register as well */
    const unsigned results = 16 / groups;
    uint32_t am[16][16], bm[16][16];
    double cm[16][16];
    char name[16];

    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    for (unsigned i = 0; i < 16; i++)
        for (unsigned k = 0; k < 16; k++) {
            am[i][k] = t_draw_small(f->a, special, random);
            bm[i][k] = t_draw_small(f->b, special, random);
            for (unsigned l = i; l < lanes; l += 16) {
                const unsigned at = k * t_bits_of(f->a);
                a[l * words + at / 32] |= am[i][k] << at % 32;
                b[l * words + at / 32] |= bm[i][k] << at % 32;
            }
        }
    const bool float_c = f->a <= BF16;
    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < 16; j++) {
            const unsigned l = j + 16 * (i % groups), e = i / groups;
            uint32_t bits = (uint32_t)((int)(t_random(random) % 65) - 32);
            cm[i][j] = (int32_t)bits;
            if (strstr(f->name, "clamp"))
                cm[i][j] = (int32_t)(bits = 0x7fffff00 + (bits & 0xff));
            if (float_c && special && t_random(random) % 40 == 0)
                cm[i][j] = bits & 1 ? INFINITY : -0.0;
            if (float_c)
                bits = t_f32_bits((float)cm[i][j]);
            if (f->half && f->a == F16) {
                const _Float16 h = (_Float16)cm[i][j];
                uint16_t u;
                memcpy(&u, &h, 2);
                bits = u;
            } else if (f->half) {
                bits >>= 16;
            }
            c[l * results + e] = bits;
        }
    const struct t_buffer buffers[] = {{a, lanes * words * 4, QUERN_SIM_READ, "a"},
                                       {b, lanes * words * 4, QUERN_SIM_READ, "b"},
                                       {c, lanes * results * 4, QUERN_SIM_READ, "c"},
                                       {d, lanes * results * 4, QUERN_SIM_WRITE, "d"}};
    snprintf(name, sizeof name, "k%u", kernel);
    const struct t_launch launch = {
        .kernel = name, .items = {lanes}, .buffers = buffers, .count = 4};
    t_gpu_run(g, &launch);
    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < 16; j++) {
            const uint32_t got = d[(j + 16 * (i % groups)) * results + i / groups];
            double want = cm[i][j];
            for (unsigned k = 0; k < 16; k++)
                want += t_value_of(f->a, am[i][k], false) * t_value_of(f->b, bm[j][k], false);
            if (strstr(f->name, "clamp") && want > INT32_MAX)
                want = INT32_MAX;
            float as_float;
            memcpy(&as_float, &got, 4);
            const double is = f->half   ? t_value_of(f->a, got, false)
                              : float_c ? (double)as_float
                                        : (int32_t)got;
            /* denormals are lost next to what is not */
            const double most = (f->half ? fabs(want) / 128 : 0) + (special ? 1e-5 : 0);
            if (isfinite(want) ? !(fabs(is - want) <= most) : isnan(want) ? !isnan(is) : is != want)
                fail_msg("%s, %u lanes: D[%u][%u] is %g, not %g", f->name, lanes, i, j, is, want);
        }
}

static const char types[] =
    "typedef f16 h16 __attribute__((ext_vector_type(16))); typedef short s16v "
    "__attribute__((ext_vector_type(16)));\n"
    "typedef float f4 __attribute__((ext_vector_type(4))); typedef float f8 "
    "__attribute__((ext_vector_type(8)));\n"
    "typedef f16 h8 __attribute__((ext_vector_type(8))); typedef short s8v "
    "__attribute__((ext_vector_type(8)));\n"
    "typedef int i2 __attribute__((ext_vector_type(2))); typedef int i4 "
    "__attribute__((ext_vector_type(4)));\n"
    "typedef int i8v __attribute__((ext_vector_type(8)));\n";

/* Kernels that load A, B, C from memory as the lanes hold them, and store D so. */
static void load_kernels(struct t_gpu *g, unsigned lanes)
{
    char source[16384], call[128];
    size_t used = (size_t)snprintf(source, sizeof source, "%s", types);
    const unsigned results = lanes == 32 ? 8 : 4;

    for (unsigned n = 0; n < sizeof forms / sizeof *forms; n++) {
        const struct form *const f = &forms[n];
        const char *const ab = f->a == F16            ? "h16"
                               : f->a == BF16         ? "s16v"
                               : t_bits_of(f->a) == 8 ? "i4"
                                                      : "i2";
        const char *const cd =
            !f->half ? (f->a <= BF16 ? (results == 8 ? "f8" : "f4") : (results == 8 ? "i8v" : "i4"))
            : f->a == F16 ? (results == 8 ? "h16" : "h8")
                          : (results == 8 ? "s16v" : "s8v");
        const bool high = strstr(f->builtin, "c, true") && f->half;
        snprintf(call, sizeof call, f->builtin, lanes);
        used += (size_t)snprintf(
            source + used, sizeof source - used,
            "KERNEL k%u(const %s *ap, const %s *bp, const u32 *cp, u32 *dp) {\n"
            "  %s a = ap[LANE], b = bp[LANE]; u32 t[%u]; for (u32 n = 0; n < %u; n++) t[n] = "
            "cp[LANE * "
            "%u + n]%s;\n  %s c; __builtin_memcpy(&c, t, sizeof c);\n  const %s d = %s;\n"
            "  __builtin_memcpy(t, &d, sizeof d); for (u32 n = 0; n < %u; n++) dp[LANE * %u + n] = "
            "t[n]%s; }\n",
            n, ab, ab, ab, results, results, results, high ? " << 16" : "", cd, cd, call, results,
            results,
            !f->half ? ""
            : high   ? " >> 16"
                     : " & 0xffff");
        assert_true(used < sizeof source);
    }
    t_gpu_load(g, source);
}

static void every_form(const char *target, unsigned lanes, enum quern_sim_check check,
                       enum quern_sim_isa isa)
{
    uint64_t random = 3;
    struct t_gpu g;

    t_gpu_open(&g, target, lanes == 64 ? "-mwavefrontsize64" : "", check, isa, 0);
    load_kernels(&g, lanes);
    for (unsigned n = 0; n < sizeof forms / sizeof *forms; n++)
        for (unsigned round = 0; round < 20; round++)
            check_form(&g, &forms[n], n, lanes, round & 1, &random);
    t_gpu_close(&g);
}

static void wmma_wave32(void **state)
{
    (void)state;
    every_form("gfx1100", 32, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
    every_form("gfx1151", 32, QUERN_CHECK_FULL, QUERN_ISA_X86_64);
}

static void wmma_wave64(void **state)
{
    (void)state;
    every_form("gfx1100", 64, QUERN_CHECK_FULL, QUERN_ISA_AUTO);
}

/* The two halves of a wave must hold the same A; the corrected twin is every_form. The kernel has a
 * name longer than a finding, as Tensile's have. */
static void operand_that_is_not_repeated(void **state)
{
    static uint32_t c[32 * 8];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    char source[4096], name[704];
    const struct t_launch launch = {.kernel = name, .items = {32}, .buffers = &buffer, .count = 1};
    struct t_gpu g;

    (void)state;
    snprintf(name, sizeof name, "k%0700d", 0);
    t_gpu_open(&g, "gfx1100", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    snprintf(source, sizeof source,
             "%sKERNEL %s(f8 *o) { h16 a = (f16)LANE, b = (f16)1; f8 c = 0;\n"
             "o[LANE] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c); }",
             types, name);
    t_gpu_load(&g, source);
    assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_FAULT);
    assert_non_null(strstr(quern_last_error()->message, "operand A of WMMA must be the same"));
    t_gpu_close(&g);
}

/* Of integers the third bit of neg_lo is C's, which has a sign whatever it says. */
static void sign_of_integers(void **state)
{
    static uint32_t c[2][32 * 8];
    char source[2048];
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx1100", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    for (int bit = 0; bit < 2; bit++) {
        const struct t_buffer buffer = {c[bit], sizeof c[bit], QUERN_SIM_WRITE, "c"};
        const struct t_launch launch = {
            .kernel = "k", .items = {32}, .buffers = &buffer, .count = 1};
        snprintf(source, sizeof source,
                 "typedef u32 v4 __attribute__((ext_vector_type(4)));\n"
                 "typedef u32 v8 __attribute__((ext_vector_type(8)));\n"
                 "KERNEL k(u32 *o) { v4 a = (LANE & 15) * 0x2f0381fdu, b = ~a; v8 c = 0u - LANE, d;"
                 "asm volatile(\"v_wmma_i32_16x16x16_iu8 %%0, %%1, %%2, %%3 neg_lo:[1,1,%d]\""
                 ": \"=&v\"(d) : \"v\"(a), \"v\"(b), \"v\"(c));\n"
                 "for (int n = 0; n < 8; n++) o[LANE + 32 * n] = d[n]; }",
                 bit);
        t_gpu_load(&g, source);
        assert_int_equal(t_gpu_try(&g, &launch), QUERN_OK);
    }
    assert_memory_equal(c[0], c[1], sizeof c[0]);
    assert_int_not_equal(c[0][1], 0);
    t_gpu_close(&g);
}

/* Undefined rows of A reach their rows of D and no others. */
static void undefined_rows(void **state)
{
    static uint32_t c[32 * 8];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {.kernel = "k", .items = {32}, .buffers = &buffer, .count = 1};
    char source[2048];
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx1100", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    for (int wrong = 0; wrong < 2; wrong++) {
        /* rows 14 and 15 come from memory that was never written; they are element 7 of D */
        snprintf(source, sizeof source,
                 "%sKERNEL k(f32 *o) { h16 a = (f16)1, b = (f16)1; f8 c = 0; f32 x = o[LANE];\n"
                 "if ((LANE & 15) >= 14) a[3] = (f16)(x * 0.0f);\n"
                 "const f8 d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c);\n"
                 "for (int n = 0; n < %d; n++) o[LANE + 32 * n] = d[n]; }",
                 types, 7 + wrong);
        t_gpu_load(&g, source);
        assert_int_equal(t_gpu_try(&g, &launch), wrong ? QUERN_E_FAULT : QUERN_OK);
    }
    assert_non_null(strstr(quern_last_error()->message, "buffer \"c\", which was never written"));
    t_gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wmma_wave32),
        cmocka_unit_test(wmma_wave64),
        cmocka_unit_test(operand_that_is_not_repeated),
        cmocka_unit_test(sign_of_integers),
        cmocka_unit_test(undefined_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
