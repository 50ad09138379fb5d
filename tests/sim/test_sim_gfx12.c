/* SPDX-License-Identifier: MIT */
/*
 * What gfx12 has beyond gfx11, written in assembly and compared with formulas in C that share no
 * code with the software GPU; and its barriers in two parts. Matrices: test_sim_matrix12.c.
 *
 * This file is long because it holds the source of a kernel for each thing that only gfx12 has.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGET "gfx1201"

static float f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t u32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static double half(uint32_t u)
{
    const uint16_t low = (uint16_t)u;
    _Float16 h;
    memcpy(&h, &low, 2);
    return (double)h;
}
static uint32_t half_bits(double d)
{
    const _Float16 h = (_Float16)d;
    uint16_t u;
    memcpy(&u, &h, 2);
    return u;
}

/* ---- Formulas -------------------------------------------------------------------------------- */

/* NaN if one is; -0 below +0. */
static double lesser(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a < b || (a == b && signbit(a)) ? a : b;
}
static double greater(double a, double b)
{
    return -lesser(-a, -b);
}

static double fp8(uint32_t x, unsigned mantissa_bits, int bias)
{
    const uint32_t mantissa = x & ((1u << mantissa_bits) - 1);
    const uint32_t exponent = (x & 0x7f) >> mantissa_bits;
    double v = exponent ? ldexp(1 + ldexp(mantissa, -(int)mantissa_bits), (int)exponent - bias)
                        : ldexp(mantissa, 1 - bias - (int)mantissa_bits);

    if (mantissa_bits == 3 ? (x & 0x7f) == 0x7f : (x & 0x7f) > 0x7c)
        v = NAN;
    else if (mantissa_bits == 2 && (x & 0x7f) == 0x7c)
        v = INFINITY;
    return x & 0x80 ? -v : v;
}

static double dot(uint32_t x, uint32_t y, uint32_t z, int x_bf8, int y_bf8)
{
    double sum = (double)f32(z);
    for (unsigned n = 0; n < 32; n += 8)
        sum += (x_bf8 ? fp8(x >> n & 255, 2, 15) : fp8(x >> n & 255, 3, 7)) *
               (y_bf8 ? fp8(y >> n & 255, 2, 15) : fp8(y >> n & 255, 3, 7));
    return sum;
}

/* The largest term of a dot: sums in f32 lose about that much times their precision. */
static double dot_size(uint32_t x, uint32_t y, uint32_t z)
{
    double most = fabs((double)f32(z));
    (void)x, (void)y;
    return fmax(most, 4 * 57344.0 * 57344.0);
}

/* The code of f: the nearest, of two the even one, as if codes went on beyond the largest. */
static uint32_t to_fp8(double f, unsigned mantissa_bits, int bias)
{
    const uint32_t sign = signbit(f) ? 0x80 : 0, infinity = mantissa_bits == 3 ? 0x7f : 0x7c;
    const double magnitude = fabs(f), unit = ldexp(1, 1 - bias - (int)mantissa_bits);
    uint32_t best = 0;

    if (isnan(f)) /* whatever its sign, as captured on gfx1201 */
        return mantissa_bits == 3 ? 0xff : 0xfe;
    for (uint32_t code = 1; code <= infinity; code++) {
        const uint32_t exponent = code >> mantissa_bits, low = code & ((1u << mantissa_bits) - 1);
        const double v = exponent ? ldexp((1u << mantissa_bits) + low, (int)exponent - 1) : low;
        const uint32_t best_exponent = best >> mantissa_bits;
        const uint32_t best_low = best & ((1u << mantissa_bits) - 1);
        const double down =
            best_exponent ? ldexp((1u << mantissa_bits) + best_low, (int)best_exponent - 1) : best;
        const double middle = (v + down) / 2 * unit;
        if (magnitude > middle || (magnitude == middle && !(code & 1)))
            best = code;
    }
    return best | sign;
}

enum kind { BITS, F32, F16, PAIR, F64_LOW, ULP, ULP_F16, DOT };

#define E(NAME, ...)                                                                               \
    static double NAME(uint32_t x, uint32_t y, uint32_t z)                                         \
    {                                                                                              \
        (void)x, (void)y, (void)z;                                                                 \
        return __VA_ARGS__;                                                                        \
    }
#define X (double)f32(x)
#define Y (double)f32(y)
#define Z (double)f32(z)
E(minimum, lesser(X, Y))
E(maximum, greater(X, Y))
E(minimummaximum, greater(lesser(X, Y), Z))
E(maximumminimum, lesser(greater(X, Y), Z))
E(minimum_h, lesser(half(x), half(y)))
E(maximum_h, greater(half(x), half(y)))
E(minimum3_h, lesser(lesser(half(x), half(y)), half(z)))
E(maximum3_h, greater(greater(half(x), half(y)), half(z)))
E(minimummaximum_h, greater(lesser(half(x), half(y)), half(z)))
E(maximumminimum_h, lesser(greater(half(x), half(y)), half(z)))
E(dot_88, dot(x, y, z, 0, 0))
E(dot_8b, dot(x, y, z, 0, 1))
E(dot_b8, dot(x, y, z, 1, 0))
E(dot_bb, dot(x, y, z, 1, 1))
E(fp8_0, fp8(x & 255, 3, 7))
E(fp8_3, fp8(x >> 24, 3, 7))
E(bf8_2, fp8(x >> 16 & 255, 2, 15))
E(fp8_pair_low, fp8(x >> 8 & 255, 3, 7))
E(bf8_pair_high, fp8(x >> 16 & 255, 2, 15))
E(to_fp8_pair, to_fp8(X, 3, 7) | to_fp8(Y, 3, 7) << 8 | (z & 0xffff0000))
E(to_bf8_pair_high, (to_fp8(X, 2, 15) | to_fp8(Y, 2, 15) << 8) << 16 | (z & 0xffff))
/* of the first lane's x */
E(s_rcp, 1 / X)
E(s_sqrt, sqrt(X))
E(s_rsq, 1 / sqrt(X))
E(s_exp, exp2(X))
E(s_log, log2(X))
E(s_rcp_neg_abs, 1 / -fabs(X))
E(s_sqrt_twice, 2 * sqrt(X))
E(s_exp_clamp, fmin(fmax(exp2(X), 0), 1))
E(s_rcp_h, 1 / half(x))
E(s_sqrt_h, sqrt(half(x)))
E(s_rsq_h, 1 / sqrt(half(x)))
E(s_exp_h, exp2(half(x)))
E(s_log_h, log2(half(x)))

#define V2(NAME, ...)                                                                              \
    "asm volatile(\"" NAME " %0, %1, %2 " __VA_ARGS__ "\" : \"=v\"(r) : \"v\"(x), \"v\"(y));"
#define V3(NAME)                                                                                   \
    "asm volatile(\"" NAME " %0, %1, %2, %3\" : \"=v\"(r) : \"v\"(x), \"v\"(y), \"v\"(z));"
#define S1(NAME, BEFORE, AFTER)                                                                    \
    "u32 s; asm volatile(\"s_wait_alu 0\\n " NAME " %0, " BEFORE " " AFTER "\" : \"=s\"(s) : "     \
    "\"s\"(__builtin_amdgcn_readfirstlane(x))); r = s;"

static const struct item {
    const char *name, *text;
    double (*formula)(uint32_t, uint32_t, uint32_t);
    enum kind kind;
    bool scalar;
} items[] = {
    {"v_minimum_f32", V2("v_minimum_f32", ""), minimum, F32, false},
    {"v_maximum_f32", V2("v_maximum_f32", ""), maximum, F32, false},
    {"v_minimummaximum_f32", V3("v_minimummaximum_f32"), minimummaximum, F32, false},
    {"v_maximumminimum_f32", V3("v_maximumminimum_f32"), maximumminimum, F32, false},
    {"v_minimum_f16", V2("v_minimum_f16", ""), minimum_h, F16, false},
    {"v_maximum_f16", V2("v_maximum_f16", ""), maximum_h, F16, false},
    {"v_minimum3_f16", V3("v_minimum3_f16"), minimum3_h, F16, false},
    {"v_maximum3_f16", V3("v_maximum3_f16"), maximum3_h, F16, false},
    {"v_minimummaximum_f16", V3("v_minimummaximum_f16"), minimummaximum_h, F16, false},
    {"v_maximumminimum_f16", V3("v_maximumminimum_f16"), maximumminimum_h, F16, false},
    {"v_pk_minimum_f16", V2("v_pk_minimum_f16", ""), minimum_h, PAIR, false},
    {"v_pk_maximum_f16", V2("v_pk_maximum_f16", ""), maximum_h, PAIR, false},
    {"v_minimum_f64",
     "double p = __builtin_bit_cast(float, x), q = __builtin_bit_cast(float, y), s;\n"
     "asm volatile(\"v_minimum_f64 %0, %1, %2\" : \"=v\"(s) : \"v\"(p), \"v\"(q));\n"
     "r = __builtin_bit_cast(u32, (float)s);",
     minimum, F32, false},
    {"v_maximum_f64",
     "double p = __builtin_bit_cast(float, x), q = __builtin_bit_cast(float, y), s;\n"
     "asm volatile(\"v_maximum_f64 %0, %1, %2\" : \"=v\"(s) : \"v\"(p), \"v\"(q));\n"
     "r = __builtin_bit_cast(u32, (float)s);",
     maximum, F32, false},
    {"v_dot4_f32_fp8_fp8", V3("v_dot4_f32_fp8_fp8"), dot_88, DOT, false},
    {"v_dot4_f32_fp8_bf8", V3("v_dot4_f32_fp8_bf8"), dot_8b, DOT, false},
    {"v_dot4_f32_bf8_fp8", V3("v_dot4_f32_bf8_fp8"), dot_b8, DOT, false},
    {"v_dot4_f32_bf8_bf8", V3("v_dot4_f32_bf8_bf8"), dot_bb, DOT, false},
#define FLOAT(CALL) "const f32 t = " CALL "; r = __builtin_bit_cast(u32, t);"
    {"v_cvt_f32_fp8", FLOAT("__builtin_amdgcn_cvt_f32_fp8((i32)x, 0)"), fp8_0, F32, false},
    {"v_cvt_f32_fp8, byte 3", FLOAT("__builtin_amdgcn_cvt_f32_fp8((i32)x, 3)"), fp8_3, F32, false},
    {"v_cvt_f32_bf8, byte 2", FLOAT("__builtin_amdgcn_cvt_f32_bf8((i32)x, 2)"), bf8_2, F32, false},
    {"v_cvt_pk_f32_fp8", FLOAT("__builtin_amdgcn_cvt_pk_f32_fp8((i32)x, false)[1]"), fp8_pair_low,
     F32, false},
    {"v_cvt_pk_f32_bf8, high", FLOAT("__builtin_amdgcn_cvt_pk_f32_bf8((i32)x, true)[0]"),
     bf8_pair_high, F32, false},
    {"v_cvt_pk_fp8_f32",
     "r = (u32)__builtin_amdgcn_cvt_pk_fp8_f32(__builtin_bit_cast(f32, x),\n"
     "__builtin_bit_cast(f32, y), (i32)z, false);",
     to_fp8_pair, BITS, false},
    {"v_cvt_pk_bf8_f32, high",
     "r = (u32)__builtin_amdgcn_cvt_pk_bf8_f32(__builtin_bit_cast(f32, x),\n"
     "__builtin_bit_cast(f32, y), (i32)z, true);",
     to_bf8_pair_high, BITS, false},
    {"v_s_rcp_f32", S1("v_s_rcp_f32", "%1", ""), s_rcp, ULP, true},
    {"v_s_sqrt_f32", S1("v_s_sqrt_f32", "%1", ""), s_sqrt, ULP, true},
    {"v_s_rsq_f32", S1("v_s_rsq_f32", "%1", ""), s_rsq, ULP, true},
    {"v_s_exp_f32", S1("v_s_exp_f32", "%1", ""), s_exp, ULP, true},
    {"v_s_log_f32", S1("v_s_log_f32", "%1", ""), s_log, ULP, true},
    {"v_s_rcp_f32, negated", S1("v_s_rcp_f32", "-|%1|", ""), s_rcp_neg_abs, ULP, true},
    {"v_s_sqrt_f32, doubled", S1("v_s_sqrt_f32", "%1", "mul:2"), s_sqrt_twice, ULP, true},
    {"v_s_exp_f32, clamped", S1("v_s_exp_f32", "%1", "clamp"), s_exp_clamp, ULP, true},
    {"v_s_rcp_f16", S1("v_s_rcp_f16", "%1", ""), s_rcp_h, ULP_F16, true},
    {"v_s_sqrt_f16", S1("v_s_sqrt_f16", "%1", ""), s_sqrt_h, ULP_F16, true},
    {"v_s_rsq_f16", S1("v_s_rsq_f16", "%1", ""), s_rsq_h, ULP_F16, true},
    {"v_s_exp_f16", S1("v_s_exp_f16", "%1", ""), s_exp_h, ULP_F16, true},
    {"v_s_log_f16", S1("v_s_log_f16", "%1", ""), s_log_h, ULP_F16, true},
};
#define ITEMS (sizeof items / sizeof *items)

static bool agrees(const struct item *t, uint32_t x, uint32_t y, uint32_t z, uint32_t got)
{
    const double want = t->formula(x, y, z);
    const double is =
        t->kind == F16 || t->kind == PAIR || t->kind == ULP_F16 ? half(got) : (double)f32(got);

    if (t->kind == PAIR) {
        const double high = t->formula(x >> 16, y >> 16, z >> 16);
        const double is_high = half(got >> 16);
        if (!(isnan(high) ? isnan(is_high) : half_bits(high) == got >> 16))
            return false;
    }
    if (isnan(want) && t->kind != BITS)
        return isnan(is);
    switch (t->kind) {
    case BITS:
        return (uint32_t)want == got;
    case F32:
        return u32((float)want) == got;
    case F16:
    case PAIR:
        return half_bits(want) == (got & 0xffff);
    case DOT:
        return isinf(want) ? is == want : fabs(is - want) <= dot_size(x, y, z) * 0x1p-21;
    case ULP_F16:
        return fabs(is - want) <= fabs(want) * 0x1p-10 + 0x1p-24 || is == want ||
               (isinf(is) && fabs(want) >= 65520);
    default:
        /* denormals are flushed on both sides */
        return fabs(is - want) <= fabs(want) * 0x1p-22 || fabs(want) < 0x1p-125 || is == want ||
               (isinf(is) && fabs(want) > 3.4e38) || fpclassify(f32(x)) == FP_SUBNORMAL;
    }
}

static uint32_t words[3][64 * 64], results[64 * 64];

/* Random bits, small floats and special values. */
static uint32_t random_word(uint64_t *random)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00001,
                                       0x7c007e00, 0xfc008000, 0x00010001, 0x3f800000, 0x7f7fffff};
    const uint64_t n = t_random(random);

    switch (n >> 60) {
    case 0:
    case 1:
        return special[n % (sizeof special / sizeof *special)];
    case 2:
    case 3:
    case 4:
        return (uint32_t)n;
    case 5:
    case 6:
    case 7:
        return (n & 0x83ff83ff) | 0x38003c00;
    default:
        return u32((float)((int)(n % 4001) - 2000) / 64);
    }
}

static void instructions(void **state)
{
    static const char start[] =
        "#define ITEM(NUMBER, ...) KERNEL k##NUMBER(const u32 *a, const u32 *b, const u32 *c,\\\n"
        "  u32 *d) { const u32 n = GROUP * 64 + LANE, x = a[n], y = b[n], z = c[n]; u32 r = 0;\\\n"
        "  (void)y, (void)z; __VA_ARGS__ d[n] = r; }\n";
    uint64_t random = 11;
    (void)state;

    for (size_t n = 0; n < sizeof words / sizeof words[0][0]; n++)
        words[n / (64 * 64)][n % (64 * 64)] = random_word(&random);
    for (unsigned lanes = 32; lanes <= 64; lanes += 32) {
        char *const source = malloc(40000);
        size_t used = (size_t)snprintf(source, 40000, "%s", start);
        struct t_gpu g;
        for (unsigned n = 0; n < ITEMS; n++)
            used +=
                (size_t)snprintf(source + used, 40000 - used, "ITEM(%u, %s)\n", n, items[n].text);
        assert_true(used < 40000);
        t_gpu_open(&g, TARGET, lanes == 64 ? "-mwavefrontsize64" : "",
                   lanes == 64 ? QUERN_CHECK_FULL : QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
        t_gpu_load(&g, source);
        free(source);
        const struct t_buffer buffers[] = {{words[0], sizeof words[0], QUERN_SIM_READ, "a"},
                                           {words[1], sizeof words[1], QUERN_SIM_READ, "b"},
                                           {words[2], sizeof words[2], QUERN_SIM_READ, "c"},
                                           {results, sizeof results, QUERN_SIM_WRITE, "d"}};
        for (unsigned n = 0; n < ITEMS; n++) {
            char kernel[8];
            snprintf(kernel, sizeof kernel, "k%u", n);
            const struct t_launch launch = {
                .kernel = kernel, .groups = {64}, .items = {64}, .buffers = buffers, .count = 4};
            t_gpu_run(&g, &launch);
            for (unsigned i = 0; i < 64 * 64; i++) {
                const unsigned from = items[n].scalar ? i / lanes * lanes : i;
                if (!agrees(&items[n], words[0][from], words[1][i], words[2][i], results[i]))
                    fail_msg("%s of 0x%08x, 0x%08x, 0x%08x is 0x%08x, not %.9g", items[n].name,
                             words[0][from], words[1][i], words[2][i], results[i],
                             items[n].formula(words[0][from], words[1][i], words[2][i]));
            }
        }
        t_gpu_close(&g);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static const char memory_kernels[] =
    /* offsets of 24 bits, of either sign, with a register, with hints; narrow scalar loads */
    "KERNEL scalars(const u32 *a, u32 *c) { u32 v[8]; const u32 *const end = a + 2097150;\n"
    "asm volatile(\"s_prefetch_data %8, 0x0, null, 0\\n s_load_b32 %0, %8, 0x7ffff8\\n\"\n"
    "\"s_load_b32 %1, %9, -0x7ffff8\\n s_load_b32 %2, %8, %10 offset:0x10\\n\"\n"
    "\"s_load_b32 %3, %8, 0x20 th:TH_LOAD_HT scope:SCOPE_DEV\\n\"\n"
    "\"s_load_u8 %4, %8, 0x41\\n s_load_i8 %5, %8, 0x42\\n s_load_u16 %6, %8, 0x44\\n\"\n"
    "\"s_load_i16 %7, %8, 0x46\\n s_wait_kmcnt 0x0\"\n"
    ": \"=&s\"(v[0]), \"=&s\"(v[1]), \"=&s\"(v[2]), \"=&s\"(v[3]), \"=&s\"(v[4]), \"=&s\"(v[5]),\n"
    "\"=&s\"(v[6]), \"=&s\"(v[7]) : \"s\"(a), \"s\"(end), \"s\"(0x100));\n"
    "for (u32 n = 0; n < 8; n++) c[n] = v[n]; }\n"
    "KERNEL hints(const u32 *a, u32 *b, u32 *c) { u32 v, old; const u32 *p = a + LANE;\n"
    "u32 *q = b + LANE; asm volatile(\"global_load_b32 %0, %2, off th:TH_LOAD_NT_HT "
    "scope:SCOPE_SYS\\n\"\n"
    "\"s_wait_loadcnt 0x0\\n global_store_b32 %3, %0, off th:TH_STORE_NT scope:SCOPE_DEV\\n\"\n"
    "\"global_atomic_add_u32 %1, %3, %4, off th:TH_ATOMIC_RETURN scope:SCOPE_DEV\\n\"\n"
    "\"s_wait_loadcnt 0x0\\n s_wait_storecnt 0x0\\n global_inv scope:SCOPE_DEV\\n\"\n"
    "\"global_wb scope:SCOPE_DEV\" : \"=&v\"(v), \"=&v\"(old) : \"v\"(p), \"v\"(q), \"v\"(5)"
    " : \"memory\");\n"
    "c[LANE] = old + v; }\n"
    /* subtract if there is enough; subtract down to nothing */
    "KERNEL subtract(const u32 *a, u32 *b, u32 *c) { SHARED u32 s[64]; u32 old[3];\n"
    "u32 *q = b + LANE; s[LANE] = a[LANE]; barrier(); const u32 at = 4 * LANE;\n"
    "asm volatile(\"global_atomic_cond_sub_u32 %0, %3, %4, off th:TH_ATOMIC_RETURN\\n\"\n"
    "\"ds_cond_sub_rtn_u32 %1, %5, %4\\n ds_sub_clamp_rtn_u32 %2, %5, %4\\n\"\n"
    "\"s_wait_loadcnt_dscnt 0x0\" : \"=&v\"(old[0]), \"=&v\"(old[1]), \"=&v\"(old[2]) : \"v\"(q),\n"
    "\"v\"(20), \"v\"(at + (u32)(__attribute__((address_space(3))) u32 *)s) : \"memory\");\n"
    "c[LANE] = old[0]; c[LANE + 64] = old[1]; c[LANE + 128] = old[2]; c[LANE + 192] = s[LANE]; }\n"
    "KERNEL fetch_inactive(const u32 *a, u32 *c) { u32 x = a[LANE], r = 0;\n"
    "asm volatile(\"\" : \"+v\"(x)); /* loaded in every lane */\n"
    "if (LANE & 1) r = (u32)__builtin_amdgcn_ds_bpermute_fi_b32((i32)((LANE ^ WAVE - 1) * 4), "
    "(i32)x);\n"
    "c[LANE] = r; }\n"
    /* selectors of each lane, from the row of 16 lanes itself or the other of its pair */
    "KERNEL permlane(const u32 *a, u32 *c) { const u32 x = a[LANE], by = LANE * 7 + 3;\n"
    "c[LANE] = __builtin_amdgcn_permlane16_var(0, x, by, false, false);\n"
    "c[LANE + 64] = __builtin_amdgcn_permlanex16_var(0, x, by, false, false); }\n"
    "KERNEL grid(u32 *c) { const u32 x = __builtin_amdgcn_workgroup_id_x(),\n"
    "y = __builtin_amdgcn_workgroup_id_y(), z = __builtin_amdgcn_workgroup_id_z();\n"
    "const u32 i = __builtin_amdgcn_workitem_id_x() + 4 * (__builtin_amdgcn_workitem_id_y() +\n"
    "3 * __builtin_amdgcn_workitem_id_z());\n"
    "c[((z * 3 + y) * 5 + x) * 24 + i] = x | y << 8 | z << 16 | i << 24; }\n";

static void run_scalars(struct t_gpu *g, struct t_launch *launch, const uint32_t *a,
                        const uint32_t *c)
{
    const uint8_t *const bytes = (const uint8_t *)a;
    int16_t signed_half;
    uint16_t a_half;

    launch->kernel = "scalars";
    t_gpu_run(g, launch);
    memcpy(&a_half, bytes + 0x44, 2);
    memcpy(&signed_half, bytes + 0x46, 2);
    const uint32_t scalars[8] = {a[0x7ffff8 / 4], a[0],
                                 a[0x110 / 4],    a[8],
                                 bytes[0x41],     (uint32_t)(int8_t)bytes[0x42],
                                 a_half,          (uint32_t)signed_half};
    assert_memory_equal(c, scalars, sizeof scalars);
}

/* Atomics that subtract what is there, or leave it where that is too little. */
static void run_subtract(struct t_gpu *g, struct t_launch *launch, uint32_t *a, uint32_t *b,
                         const uint32_t *c)
{
    for (unsigned l = 0; l < 64; l++)
        a[l] = b[l] = l;
    launch->kernel = "subtract";
    t_gpu_run(g, launch);
    for (unsigned l = 0; l < 64; l++) {
        const uint32_t once = l < 20 ? l : l - 20;
        assert_int_equal(c[l], l);
        assert_int_equal(b[l], once);
        assert_int_equal(c[l + 64], l);
        assert_int_equal(c[l + 128], once);
        assert_int_equal(c[l + 192], once < 20 ? 0 : once - 20);
    }
    for (unsigned l = 0; l < 64; l++)
        a[l] = l * 2654435761u;
}

static void memory_and_lanes(void **state)
{
    static uint32_t a[2097152], b[64], c[5 * 3 * 2 * 24];
    (void)state;

    for (size_t n = 0; n < sizeof a / sizeof *a; n++)
        a[n] = (uint32_t)n * 2654435761u;
    for (unsigned lanes = 32; lanes <= 64; lanes += 32) {
        const struct t_buffer buffers[] = {{a, sizeof a, QUERN_SIM_READ, "a"},
                                           {b, sizeof b, QUERN_SIM_READ_WRITE, "b"},
                                           {c, sizeof c, QUERN_SIM_WRITE, "c"}};
        const struct t_buffer two[] = {buffers[0], buffers[2]};
        struct t_launch launch = {.items = {64}, .buffers = two, .count = 2};
        char source[8192];
        struct t_gpu g;

        snprintf(source, sizeof source, "#define WAVE %u\n%s", lanes, memory_kernels);
        t_gpu_open(&g, TARGET, lanes == 64 ? "-mwavefrontsize64" : "",
                   lanes == 64 ? QUERN_CHECK_FULL : QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
        t_gpu_load(&g, source);

        run_scalars(&g, &launch, a, c);
        launch.kernel = "fetch_inactive";
        t_gpu_run(&g, &launch);
        for (unsigned l = 0; l < 64; l++)
            assert_int_equal(c[l], l & 1 ? a[l ^ (lanes - 1)] : 0);

        launch.kernel = "permlane";
        t_gpu_run(&g, &launch);
        for (unsigned l = 0; l < 64; l++) {
            const unsigned from = (l & 48) + ((l * 7 + 3) & 15);
            assert_int_equal(c[l], a[from]);
            assert_int_equal(c[l + 64], a[from ^ 16]);
        }

        launch.buffers = buffers;
        launch.count = 3;
        launch.kernel = "hints";
        t_gpu_run(&g, &launch);
        for (unsigned l = 0; l < 64; l++) {
            assert_int_equal(c[l], 2 * a[l]);
            assert_int_equal(b[l], a[l] + 5);
        }
        run_subtract(&g, &launch, a, b, c);

        const struct t_launch grid = {.kernel = "grid",
                                      .groups = {5, 3, 2},
                                      .items = {4, 3, 2},
                                      .buffers = &buffers[2],
                                      .count = 1};
        t_gpu_run(&g, &grid);
        for (unsigned n = 0; n < 5 * 3 * 2 * 24; n++) {
            const unsigned group = n / 24;
            assert_int_equal(c[n] & 0xffffff, group % 5 | group / 5 % 3 << 8 | group / 15 << 16);
            assert_int_equal(c[n] >> 24, n % 24);
        }
        t_gpu_close(&g);
    }
}

/* ---- Barriers in two parts ------------------------------------------------------------------- */

#define SIGNAL "asm volatile(\"s_wait_dscnt 0x0\\n s_barrier_signal -1\" ::: \"memory\");\n"
#define WAIT   "asm volatile(\"s_barrier_wait -1\" ::: \"memory\");\n"

static const struct {
    const char *body;  /* of kernel k(u32 *c), two waves */
    const char *found; /* what the finding says, or null */
} barriers[] = {
    /* between signal and wait a wave goes on with what concerns no other */
    {"s[LANE] = LANE; " SIGNAL "u32 v = LANE; for (u32 n = 0; n < 5; n++) v = v * 3 + 1; " WAIT
     "c[LANE] = s[LANE ^ 63] + (v & 0);",
     NULL},
    /* one wave is told that it was the first; again after the barrier */
    {"u32 first, second; s[LANE] = 63 - LANE;\n"
     "asm volatile(\"s_wait_dscnt 0x0\\n s_barrier_signal_isfirst -1\\n s_cselect_b32 %0, 1, 0\\n "
     "s_wait_alu 0\" : "
     "\"=s\"(first) :: \"memory\", \"scc\"); " WAIT "c[LANE] = s[LANE];\n"
     "asm volatile(\"s_barrier_signal_isfirst -1\\n s_cselect_b32 %0, 1, 0\\n s_wait_alu 0\" : "
     "\"=s\"(second) :: "
     "\"memory\", \"scc\"); " WAIT "c[64 + LANE] = first + 2 * second;",
     NULL},
    {"s[LANE] = 0; barrier(); s[LANE] = LANE; " SIGNAL "c[LANE] = s[LANE ^ 63]; " WAIT, "LDS race"},
    {WAIT "c[LANE] = 63 - LANE;", "waits at a barrier that it has not signalled"},
    {"if (LANE < 32) { " SIGNAL WAIT "} c[LANE] = 63 - LANE;",
     "barrier that 1 of the 2 waves of the workgroup wait at"},
    {"asm volatile(\"s_barrier_signal -2\"); c[LANE] = 63 - LANE;", "barriers other than"},
};

static void split_barriers(void **state)
{
    static uint32_t c[128];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {.kernel = "k", .items = {64}, .buffers = &buffer, .count = 1};
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, TARGET, "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    for (size_t n = 0; n < sizeof barriers / sizeof *barriers; n++) {
        char source[2048];
        snprintf(source, sizeof source,
                 "KERNEL k(u32 *c) { SHARED volatile u32 s[64]; (void)s; %s }\n", barriers[n].body);
        t_gpu_load(&g, source);
        const quern_status status = t_gpu_try(&g, &launch);
        if (barriers[n].found) {
            if (status != QUERN_E_FAULT || !strstr(quern_last_error()->message, barriers[n].found))
                fail_msg("%s: %s", barriers[n].body, quern_last_error()->message);
            continue;
        }
        if (status != QUERN_OK)
            fail_msg("%s: %s", barriers[n].body, quern_last_error()->message);
        for (unsigned l = 0; l < 64; l++)
            assert_int_equal(c[l], 63 - l);
    }
    /* of the second: the first wave was first both times */
    for (unsigned l = 0; l < 64; l++)
        assert_int_equal(c[64 + l], l < 32 ? 3 : 0);
    t_gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions),
        cmocka_unit_test(memory_and_lanes),
        cmocka_unit_test(split_barriers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
