/* SPDX-License-Identifier: MIT */
/* Packed, dot, mixed-precision and approximate instructions with their modifiers, each written in
 * assembly and compared with a formula in C that shares no code with the software GPU. */
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

typedef _Float16 f16;

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
static f16 half(uint32_t u)
{
    const uint16_t low = (uint16_t)u;
    f16 h;
    memcpy(&h, &low, 2);
    return h;
}
static uint32_t bits(f16 h)
{
    uint16_t u;
    memcpy(&u, &h, 2);
    return u;
}
static f16 lo(uint32_t u)
{
    return half(u);
}
static f16 hi(uint32_t u)
{
    return half(u >> 16);
}
static uint32_t pack(f16 low, f16 high)
{
    return bits(low) | bits(high) << 16;
}
static f16 fma16(f16 x, f16 y, f16 z)
{
    return (f16)((__float128)x * y + z);
}
static float bf(uint32_t u)
{
    return f32(u << 16);
}
static uint32_t pack16(uint32_t low, uint32_t high)
{
    return (low & 0xffff) | high << 16;
}
static int32_t s16(uint32_t u)
{
    return (int16_t)u;
}

/* the number if the other one is a NaN of either kind */
static float least(float p, float q)
{
    return isnan(p) ? q : isnan(q) ? p : p < q ? p : q;
}
static float most(float p, float q)
{
    return isnan(p) ? q : isnan(q) ? p : p > q ? p : q;
}

/* How a result may differ from the formula. */
enum match { EXACT, HALVES, FLOAT, HALF, ULP };

#define E(NAME, ...)                                                                               \
    static uint32_t NAME(uint32_t x, uint32_t y, uint32_t z)                                       \
    {                                                                                              \
        (void)x, (void)y, (void)z;                                                                 \
        __VA_ARGS__                                                                                \
    }
E(pk_add, return pack((f16)(lo(x) + lo(y)), (f16)(hi(x) + hi(y)));)
E(pk_add_neg, return pack((f16)(lo(x) - lo(y)), (f16)(-hi(x) + hi(y)));)
E(pk_add_swap, return pack((f16)(hi(x) + lo(y)), (f16)(lo(x) + hi(y)));)
E(pk_mul, return pack((f16)(lo(x) * lo(y)), (f16)(hi(x) * hi(y)));)
E(pk_mul_const, return pack((f16)(lo(x) * (f16)0.5f), (f16)(hi(x) * (f16)0.5f));)
E(pk_fma, return pack(fma16(lo(x), lo(y), lo(z)), fma16(hi(x), hi(y), hi(z)));)
E(pk_fma_mods, return pack(fma16(lo(x), -hi(y), lo(z)), fma16(hi(x), hi(y), -lo(z)));)
E(pk_fma_const,
  return pack(fma16(lo(x), half(0x2c00), half(0xd480)), fma16(hi(x), half(0x2c00), half(0xd480)));)
E(pk_min,
  return pack((f16)fminf((float)lo(x), (float)lo(y)), (f16)fminf((float)hi(x), (float)hi(y)));)
E(pk_max,
  return pack((f16)fmaxf((float)lo(x), (float)lo(y)), (f16)fmaxf((float)hi(x), (float)hi(y)));)
E(pk_clamp, f16 p = (f16)(lo(x) + lo(y)); f16 q = (f16)(hi(x) + hi(y)); return pack(p > 1   ? 1
                                                                                    : p > 0 ? p
                                                                                            : 0,
                                                                                    q > 1   ? 1
                                                                                    : q > 0 ? q
                                                                                            : 0);)
E(pk_add_u16, return pack16(x + y, (x >> 16) + (y >> 16));)
E(pk_sub_i16, return pack16(x - y, (x >> 16) - (y >> 16));)
E(pk_mad_u16, return pack16(x * y + z, (x >> 16) * (y >> 16) + (z >> 16));)
E(pk_lshl, return pack16(y << (x & 15), y >> 16 << (x >> 16 & 15));)
E(pk_ashr,
  return pack16((uint32_t)(s16(y) >> (x & 15)), (uint32_t)(s16(y >> 16) >> (x >> 16 & 15)));)
E(pk_max_i16, return pack16((uint32_t)(s16(x) > s16(y) ? s16(x) : s16(y)),
                            (uint32_t)(s16(x >> 16) > s16(y >> 16) ? s16(x >> 16) : s16(y >> 16)));)
E(pk_add_u16_sat, uint32_t p = (x & 0xffff) + (y & 0xffff); uint32_t q = (x >> 16) + (y >> 16);
  return pack16(p > 0xffff ? 0xffff : p, q > 0xffff ? 0xffff : q);)

static float flush(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}
/* products of halves are exact in f32; each of the two additions rounds */
E(dot2_f16, float s = (float)((double)lo(x) * lo(y) + flush(f32(z)));
  return u32(flush((float)((double)hi(x) * hi(y) + s)));)
E(dot2_f16_neg, float s = (float)((double)-lo(x) * lo(y) + flush(f32(z)));
  return u32(flush((float)((double)hi(x) * hi(y) + s)));)
E(dot2_bf16, float s = (float)((double)bf(x) * bf(y) + flush(f32(z)));
  return u32(flush((float)((double)bf(x >> 16) * bf(y >> 16) + s)));)
E(dot4_uu, uint32_t s = z; for (int n = 0; n < 32; n += 8) s += (x >> n & 255) * (y >> n & 255);
  return s;)
E(dot4_ss, uint32_t s = z;
  for (int n = 0; n < 32; n += 8) s += (uint32_t)((int8_t)(x >> n) * (int8_t)(y >> n)); return s;)
E(dot4_su, uint32_t s = z;
  for (int n = 0; n < 32; n += 8) s += (uint32_t)((int8_t)(x >> n) * (int)(y >> n & 255));
  return s;)
E(dot4_sat, int64_t s = (int32_t)z;
  for (int n = 0; n < 32; n += 8) s += (int8_t)(x >> n) * (int8_t)(y >> n);
  return (uint32_t)(s > INT32_MAX   ? INT32_MAX
                    : s < INT32_MIN ? INT32_MIN
                                    : s);)
E(dot8_uu, uint32_t s = z; for (int n = 0; n < 32; n += 4) s += (x >> n & 15) * (y >> n & 15);
  return s;)
E(dot8_ss, uint32_t s = z;
  for (int n = 0; n < 32; n += 4) s +=
  (uint32_t)(((int)(x >> n & 15) ^ 8) - 8) * (uint32_t)(((int)(y >> n & 15) ^ 8) - 8);
  return s;)
E(mix, return u32(fmaf(f32(x), (float)lo(y), (float)hi(z)));)
E(mix_neg, return u32(fmaf(-f32(x), fabsf((float)lo(y)), -(float)lo(z)));)
/* x * y + z rounded once: of the sum of 113 bits the last is made odd where it is inexact. */
static f16 once16(float x, float y, float z)
{
    const __float128 p = (__float128)x * y, sum = p + z, back = sum - p;
    const __float128 rest = (p - (sum - back)) + (z - back);
    unsigned __int128 bits_;
    __float128 odd;

    memcpy(&bits_, &sum, sizeof bits_);
    if (rest != 0 && isfinite((double)sum) && !(bits_ & 1))
        bits_ += (rest < 0) == (sum < 0) ? 1 : -1;
    memcpy(&odd, &bits_, sizeof odd);
    return (f16)odd;
}
E(mixlo, return (bits(once16((float)lo(x), (float)lo(y), f32(z))) & 0xffff) | (z & 0xffff0000u);)
E(mixhi, return bits(once16((float)hi(x), (float)lo(y), f32(z))) << 16 | (z & 0xffff);)

E(
    perm, uint32_t r = 0; for (int n = 0; n < 32; n += 8) {
        uint32_t s = z >> n & 255;
        uint64_t xy = (uint64_t)x << 32 | y;
        uint32_t v = s < 8     ? (uint32_t)(xy >> 8 * s) & 255
                     : s < 12  ? (xy >> (16 * (s - 8) + 15) & 1 ? 255 : 0)
                     : s == 12 ? 0
                               : 255;
        r |= v << n;
    } return r;)
E(perm_16, return perm(x, y, z & 0x0f0f0f0f);)
E(rtz, f16 h = (f16)f32(x);
  if (isfinite(f32(x)) && fabsf((float)h) > fabsf(f32(x))) h = half(bits(h) - 1);
  f16 k = (f16)f32(y);
  if (isfinite(f32(y)) && fabsf((float)k) > fabsf(f32(y))) k = half(bits(k) - 1);
  return pack(h, k);)
E(off_i4, return u32((float)(((int)(x & 15) ^ 8) - 8) * 0.0625f);)
E(alignbyte, return (uint32_t)(((uint64_t)x << 32 | y) >> 8 * (z & 3));)
E(sad_u16, int32_t p = (int32_t)(x & 0xffff) - (int32_t)(y & 0xffff);
  int32_t q = (int32_t)(x >> 16) - (int32_t)(y >> 16); return (uint32_t)(abs(p) + abs(q)) + z;)
E(pk_i16, int32_t p = (int32_t)x; int32_t q = (int32_t)y; p = p > 32767    ? 32767
                                                              : p < -32768 ? -32768
                                                                           : p;
  q = q > 32767    ? 32767
      : q < -32768 ? -32768
                   : q;
  return pack16((uint32_t)p, (uint32_t)q);)
E(add_clamp, float s = f32(x) + f32(y); return u32(s > 1 ? 1 : s > 0 ? s : 0);)
E(add_mods, return u32(-fabsf(f32(x)) + fabsf(f32(y)));)
E(med3, float p = f32(x); float q = f32(y); float r = f32(z); float l = least(p, q);
  float h = most(p, q);
  return u32(isnan(p) || isnan(q) || isnan(r) ? least(l, r) : most(l, least(h, r)));)
E(rcp, return u32(flush(1.0f / flush(f32(x))));)
E(rsq, return u32((float)(1 / sqrt((double)flush(f32(x)))));)
E(root, return u32(sqrtf(flush(f32(x))));)
E(exp2_, return u32(flush((float)exp2((double)f32(x))));)
E(log2_, return u32((float)log2((double)flush(f32(x))));)
E(sine,
  return u32((float)sin(2 * 3.14159265358979323846 * ((double)f32(x) - floor((double)f32(x)))));)
E(frexp_m, int e; return u32(isfinite(f32(x)) ? frexpf(f32(x), &e) : f32(x));)
E(frexp_e, int e = 0; if (isfinite(f32(x))) frexpf(f32(x), &e); return (uint32_t)e;)
E(fract, float p = f32(x); float q = p - floorf(p);
  return u32(isfinite(p) && q >= 1 ? 0x1.fffffep-1f : q);)
E(
    class_, int want = 0; switch (fpclassify(f32(x))) {
case FP_NAN:
    want = x >> 22 & 1 ? 2 : 1;
    break;
case FP_INFINITE:
    want = x >> 31 ? 4 : 512;
    break;
case FP_NORMAL:
    want = x >> 31 ? 8 : 256;
    break;
case FP_SUBNORMAL:
    want = x >> 31 ? 16 : 128;
    break;
default:
    want = x >> 31 ? 32 : 64;
    } return (y & (uint32_t)want) != 0;)
E(wqm_like, return (x << 1 | x >> 31) ^ y;)

static const struct form {
    const char *text; /* %0 the result, %1 %2 %3 the sources */
    uint32_t (*expected)(uint32_t, uint32_t, uint32_t);
    enum match match;
} forms[] = {
    {"v_pk_add_f16 %0, %1, %2", pk_add, HALVES},
    {"v_pk_add_f16 %0, %1, %2 neg_lo:[0,1] neg_hi:[1,0]", pk_add_neg, HALVES},
    {"v_pk_add_f16 %0, %1, %2 op_sel:[1,0] op_sel_hi:[0,1]", pk_add_swap, HALVES},
    {"v_pk_add_f16 %0, %1, %2 clamp", pk_clamp, HALVES},
    {"v_pk_mul_f16 %0, %1, %2", pk_mul, HALVES},
    {"v_pk_mul_f16 %0, %1, 0.5 op_sel_hi:[1,0]", pk_mul_const, HALVES},
    {"v_pk_fma_f16 %0, %1, %2, %3", pk_fma, HALVES},
    {"v_pk_fma_f16 %0, %1, %2, %3 op_sel:[0,1,0] op_sel_hi:[1,1,0] neg_lo:[0,1,0] neg_hi:[0,0,1]",
     pk_fma_mods, HALVES},
    {"s_mov_b32 s40, 0x2c002c00\\n s_mov_b32 s41, 0xd480d480\\n v_pk_fma_f16 %0, %1, s40, s41",
     pk_fma_const, HALVES},
    {"v_pk_min_f16 %0, %1, %2", pk_min, HALVES},
    {"v_pk_max_f16 %0, %1, %2", pk_max, HALVES},
    {"v_pk_add_u16 %0, %1, %2", pk_add_u16, EXACT},
    {"v_pk_add_u16 %0, %1, %2 clamp", pk_add_u16_sat, EXACT},
    {"v_pk_sub_i16 %0, %1, %2", pk_sub_i16, EXACT},
    {"v_pk_mad_u16 %0, %1, %2, %3", pk_mad_u16, EXACT},
    {"v_pk_lshlrev_b16 %0, %1, %2", pk_lshl, EXACT},
    {"v_pk_ashrrev_i16 %0, %1, %2", pk_ashr, EXACT},
    {"v_pk_max_i16 %0, %1, %2", pk_max_i16, EXACT},
    {"v_dot2_f32_f16 %0, %1, %2, %3", dot2_f16, FLOAT},
    {"v_dot2_f32_f16 %0, %1, %2, %3 neg_lo:[1,0,0]", dot2_f16_neg, FLOAT},
    {"v_mov_b32 %0, %3\\n v_dot2acc_f32_f16 %0, %1, %2", dot2_f16, FLOAT},
    {"v_dot2_f32_bf16 %0, %1, %2, %3", dot2_bf16, FLOAT},
    /* in registers that can be paired */
    {"v_mov_b32 v16, %3\\n v_mov_b32 v18, %1\\n v_mov_b32 v21, %2\\n"
     "v_dual_dot2acc_f32_bf16 v16, v18, v21 :: v_dual_mov_b32 v17, v16\\n v_mov_b32 %0, v16",
     dot2_bf16, FLOAT},
    {"v_mov_b32 v17, %3\\n v_mov_b32 v18, %1\\n v_mov_b32 v21, %2\\n"
     "v_dual_mov_b32 v16, v17 :: v_dual_dot2acc_f32_bf16 v17, v18, v21\\n v_mov_b32 %0, v17",
     dot2_bf16, FLOAT},
    {"v_dot4_u32_u8 %0, %1, %2, %3", dot4_uu, EXACT},
    {"v_dot4_i32_iu8 %0, %1, %2, %3", dot4_uu, EXACT},
    {"v_dot4_i32_iu8 %0, %1, %2, %3 neg_lo:[1,1,0]", dot4_ss, EXACT},
    {"v_dot4_i32_iu8 %0, %1, %2, %3 neg_lo:[1,0,0]", dot4_su, EXACT},
    {"v_dot4_i32_iu8 %0, %1, %2, %3 neg_lo:[1,1,0] clamp", dot4_sat, EXACT},
    {"v_dot8_u32_u4 %0, %1, %2, %3", dot8_uu, EXACT},
    {"v_dot8_i32_iu4 %0, %1, %2, %3 neg_lo:[1,1,0]", dot8_ss, EXACT},
    {"v_fma_mix_f32 %0, %1, %2, %3 op_sel:[0,0,1] op_sel_hi:[0,1,1]", mix, FLOAT},
    {"v_fma_mix_f32 %0, -%1, |%2|, -%3 op_sel_hi:[0,1,1]", mix_neg, FLOAT},
    {"v_mov_b32 %0, %3\\n v_fma_mixlo_f16 %0, %1, %2, %3 op_sel_hi:[1,1,0]", mixlo, HALVES},
    {"v_mov_b32 %0, %3\\n v_fma_mixhi_f16 %0, %1, %2, %3 op_sel:[1,0,0] op_sel_hi:[1,1,0]", mixhi,
     HALVES},
    {"v_perm_b32 %0, %1, %2, %3", perm, EXACT},
    {"v_and_b32 %0, 0xf0f0f0f, %3\\n v_perm_b32 %0, %1, %2, %0", perm_16, EXACT},
    {"v_cvt_pk_rtz_f16_f32 %0, %1, %2", rtz, HALVES},
    {"v_cvt_off_f32_i4 %0, %1", off_i4, EXACT},
    {"v_alignbyte_b32 %0, %1, %2, %3", alignbyte, EXACT},
    {"v_sad_u16 %0, %1, %2, %3", sad_u16, EXACT},
    {"v_cvt_pk_i16_i32 %0, %1, %2", pk_i16, EXACT},
    {"v_add_f32 %0, %1, %2 clamp", add_clamp, FLOAT},
    {"v_add_f32 %0, -|%1|, |%2|", add_mods, FLOAT},
    {"v_med3_f32 %0, %1, %2, %3", med3, FLOAT},
    {"v_rcp_f32 %0, %1", rcp, ULP},
    {"v_rsq_f32 %0, %1", rsq, ULP},
    {"v_sqrt_f32 %0, %1", root, ULP},
    {"v_exp_f32 %0, %1", exp2_, ULP},
    {"v_log_f32 %0, %1", log2_, ULP},
    {"v_sin_f32 %0, %1", sine, ULP},
    {"v_frexp_mant_f32 %0, %1", frexp_m, FLOAT},
    {"v_frexp_exp_i32_f32 %0, %1", frexp_e, EXACT},
    {"v_fract_f32 %0, %1", fract, FLOAT},
    {"v_cmp_class_f32 vcc_lo, %1, %2\\n v_cndmask_b32 %0, 0, 1, vcc_lo", class_, EXACT},
    {"v_alignbit_b32 %0, %1, %1, 31\\n v_xor_b32 %0, %0, %2", wqm_like, EXACT},
};
#define FORMS (sizeof forms / sizeof *forms)

static bool same_half(uint32_t x, uint32_t y)
{
    return (uint16_t)x == (uint16_t)y || (isnan((float)half(x)) && isnan((float)half(y))) ||
           /* the order of zeros in min and max is not C's */
           ((x | y) & 0x7fff) == 0;
}

static bool matches(enum match match, uint32_t want, uint32_t got)
{
    switch (match) {
    case EXACT:
        return want == got;
    case HALVES:
        return same_half(want, got) && same_half(want >> 16, got >> 16);
    case HALF:
        return same_half(want, got);
    case FLOAT:
        return want == got || (isnan(f32(want)) && isnan(f32(got))) || ((want | got) << 1) == 0;
    case ULP:
        return (isnan(f32(want)) && isnan(f32(got))) || want == got ||
               llabs((long long)(int32_t)want - (int32_t)got) <= 1;
    }
    return false;
}

#define INPUTS 4096

static uint32_t input(uint64_t *random)
{
    static const uint32_t special[] = {0,          0x80000000, 0x3f800000, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0x00000001, 0x807fffff, 0x00800000, 0x3c003c00,
                                       0x7c00fc00, 0x00018001, 0x7bff0400, 0x477fefff, 0x477ff000,
                                       0x33000000, 0x3f803f80, 0xffffffff, 0x80808080, 0x7f7f7f7f};
    const uint64_t n = t_random(random), choice = t_random(random) % 4;

    if (choice == 0)
        return special[n % (sizeof special / sizeof *special)];
    if (choice == 1) /* halves of moderate size */
        return ((uint32_t)n & 0x9fff9fffu) + 0x2c002c00u;
    if (choice == 2) /* f32 of moderate size */
        return u32((float)((int32_t)(n & 0xffffff) - 0x800000) / 65536.0f);
    return (uint32_t)n;
}

static void run_forms(const char *target, const char *options, enum quern_sim_check check,
                      enum quern_sim_isa isa)
{
    static uint32_t x[INPUTS], y[INPUTS], z[INPUTS], r[INPUTS];
    static char source[FORMS * 640];
    const struct t_buffer buffers[] = {{x, sizeof x, QUERN_SIM_READ, "x"},
                                       {y, sizeof y, QUERN_SIM_READ, "y"},
                                       {z, sizeof z, QUERN_SIM_READ, "z"},
                                       {r, sizeof r, QUERN_SIM_WRITE, "r"}};
    uint64_t random = 7;
    size_t used = 0;
    struct t_gpu g;

    for (size_t n = 0; n < FORMS; n++) {
        used += (size_t)snprintf(
            source + used, sizeof source - used,
            "KERNEL k%zu(const u32 *x, const u32 *y, const u32 *z, u32 *r) {\n"
            "  const u32 i = GROUP * 64 + LANE; u32 a = x[i], b = y[i], c = z[i], d;\n"
            "  asm volatile(\"%s\" : \"=&v\"(d) : \"v\"(a), \"v\"(b), \"v\"(c) : \"s40\", \"s41\", "
            "\"vcc\", \"v16\", \"v17\", \"v18\", \"v21\");\n  r[i] = d; }\n",
            n, forms[n].text);
        assert_true(used < sizeof source);
    }
    t_gpu_open(&g, target, options, check, isa, 0);
    t_gpu_load(&g, source);
    for (size_t n = 0; n < FORMS; n++) {
        char name[16];
        snprintf(name, sizeof name, "k%zu", n);
        for (unsigned i = 0; i < INPUTS; i++) {
            x[i] = input(&random);
            y[i] = input(&random);
            z[i] = input(&random);
        }
        const struct t_launch launch = {
            .kernel = name, .groups = {INPUTS / 64}, .items = {64}, .buffers = buffers, .count = 4};
        t_gpu_run(&g, &launch);
        for (unsigned i = 0; i < INPUTS; i++) {
            const uint32_t want = forms[n].expected(x[i], y[i], z[i]);
            if (!matches(forms[n].match, want, r[i]))
                fail_msg("%s of 0x%08x, 0x%08x, 0x%08x is 0x%08x, not 0x%08x", forms[n].text, x[i],
                         y[i], z[i], r[i], want);
        }
    }
    t_gpu_close(&g);
}

static void gfx11(void **state)
{
    (void)state;
    run_forms("gfx1151", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO);
}
static void gfx11_x86_64(void **state)
{
    (void)state;
    run_forms("gfx1151", "", QUERN_CHECK_FULL, QUERN_ISA_X86_64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx11),
        cmocka_unit_test(gfx11_x86_64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
