/* SPDX-License-Identifier: MIT */
/*
 * What graphics processors were seen to do where the manuals leave a doubt: single instructions
 * with the bits that they must give.
 *
 * Vectors marked T are those of tinygrad's test/amd/hw (MIT licence, Copyright (c) 2024 the tiny
 * corp), which its authors ran on gfx1100.
 *
 * This file is long because it is mostly vectors, a line or a few each.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

enum { GFX90A = 1, GFX942 = 2, GFX950 = 4, GFX11 = 8, GFX115 = 16, GFX12 = 32 };
enum { GFX9 = GFX90A | GFX942 | GFX950, RDNA = GFX11 | GFX115 | GFX12, ALL = GFX9 | RDNA };

static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                      "gfx1100", "gfx1151", "gfx1201"};

/*
 * `text` runs in one lane with in[n] in v[10 + n] and s[50 + n], and everything else undefined but
 * v20, v21 and VCC, which are 0x55555555, 0x55555555 and 0. Then they must hold want and vcc.
 */
struct vector {
    unsigned on;
    const char *text;
    uint32_t in[6], want[2], vcc;
};

#define KEPT 0x55555555u

/* Appends text, with the target's lane mask where it says VCC. */
static size_t put_text(char *to, size_t size, const char *text, const char *vcc)
{
    size_t used = 0;

    for (const char *at; (at = strstr(text, "VCC")); text = at + 3)
        used += (size_t)snprintf(to + used, size - used, "%.*s%s", (int)(at - text), text, vcc);
    return used + (size_t)snprintf(to + used, size - used, "%s", text);
}

/* A kernel that runs every vector for the target, and writes three words for each. */
static void make_source(char *source, size_t size, const char *target, unsigned on,
                        const struct vector *vectors, size_t count)
{
    size_t used = (size_t)snprintf(source, size, "KERNEL k(u32 *out) { u32 a, b, c;\n");
    const char *const vcc = target[3] == '9' ? "vcc" : "vcc_lo";

    for (size_t v = 0; v < count; v++) {
        if (!(vectors[v].on & on))
            continue;
        used += (size_t)snprintf(source + used, size - used, "asm volatile(\"");
        for (unsigned n = 0; n < 6; n++)
            used += (size_t)snprintf(source + used, size - used,
                                     "v_mov_b32 v%u, 0x%x\\n s_mov_b32 s%u, 0x%x\\n ", 10 + n,
                                     vectors[v].in[n], 50 + n, vectors[v].in[n]);
        used += (size_t)snprintf(source + used, size - used,
                                 "v_mov_b32 v20, 0x%x\\n v_mov_b32 v21, v20\\n "
                                 "s_mov_b64 vcc, 0\\n ",
                                 KEPT);
        used += put_text(source + used, size - used, vectors[v].text, vcc);
        used += (size_t)snprintf(
            source + used, size - used,
            "\\n v_mov_b32 %%0, v20\\n v_mov_b32 %%1, v21\\n v_mov_b32 %%2, vcc_lo\" : "
            "\"=v\"(a), \"=v\"(b), \"=v\"(c) : : \"v10\", \"v11\", \"v12\", \"v13\", "
            "\"v14\", \"v15\", \"v20\", \"v21\", \"s50\", \"s51\", \"s52\", \"s53\", "
            "\"s54\", \"s55\", \"s60\", \"s61\", \"vcc\", \"scc\");\n"
            "*out++ = a, *out++ = b, *out++ = c;\n");
        assert_true(used < size);
    }
    used += (size_t)snprintf(source + used, size - used, "}\n");
    assert_true(used < size);
}

static void check(const struct vector *vectors, size_t count, const char *options)
{
    static char source[1 << 18];
    static uint32_t out[3 * 256];
    const struct t_buffer buffer = {out, sizeof out, QUERN_SIM_WRITE, "out"};
    const struct t_launch launch = {.kernel = "k", .items = {1}, .buffers = &buffer, .count = 1};

    assert_true(count <= 256);
    for (unsigned t = 0; t < sizeof targets / sizeof *targets; t++) {
        const uint32_t *got = out;
        unsigned wrong = 0;
        struct t_gpu g;
        if (!t_gpu_has(targets[t]))
            continue;
        t_gpu_open(&g, targets[t], options, QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
        make_source(source, sizeof source, targets[t], 1u << t, vectors, count);
        t_gpu_load(&g, source);
        t_gpu_run(&g, &launch);
        for (size_t v = 0; v < count; v++) {
            const struct vector *const x = &vectors[v];
            if (!(x->on & 1u << t))
                continue;
            if (got[0] != x->want[0] || got[1] != x->want[1] || got[2] != x->vcc) {
                print_error("%s: %s (0x%x 0x%x 0x%x …): 0x%x 0x%x, VCC 0x%x, not 0x%x 0x%x, 0x%x\n",
                            targets[t], x->text, x->in[0], x->in[1], x->in[2], got[0], got[1],
                            got[2], x->want[0], x->want[1], x->vcc);
                wrong++;
            }
            got += 3;
        }
        t_gpu_close(&g);
        assert_int_equal(wrong, 0);
    }
}

#define CHECK(VECTORS) check(VECTORS, sizeof(VECTORS) / sizeof *(VECTORS), "")

/* ---- Constants with a point ------------------------------------------------------------------ */

#define MOVE_PAIR "\\n v_mov_b32 v20, s60\\n v_mov_b32 v21, s61"
#define MOVE_SCC  "\\n s_cselect_b32 s60, 1, 0\\n v_mov_b32 v20, s60"

/* To packed integers they are f32: 2.0 has 0 in its low half, 0x4000 in its high one. T: the first.
 */
static void packed_integers_take_f32(void **state)
{
    static const struct vector vectors[] = {
        {ALL, "v_pk_add_u16 v20, v10, 2.0", {0x00030005}, {0x40030005, KEPT}, 0},
        {ALL, "v_pk_add_u16 v20, v10, 2.0 op_sel_hi:[1,0]", {0x00030005}, {0x00030005, KEPT}, 0},
        {ALL, "v_pk_add_u16 v20, v10, 2.0 op_sel:[0,1]", {0x00030005}, {0x40034005, KEPT}, 0},
        {ALL, "v_pk_sub_i16 v20, v10, -1.0", {0x00030005}, {0x40830005, KEPT}, 0},
        {ALL, "v_pk_max_u16 v20, 0.5, v10", {0x00030005}, {0x3f000005, KEPT}, 0},
        {ALL,
         "v_pk_mad_u16 v20, v10, 1, 4.0 op_sel_hi:[1,0,1]",
         {0x00030005},
         {0x40830005, KEPT},
         0},
        {ALL, "v_pk_lshlrev_b16 v20, v10, 0.15915494 op_sel_hi:[0,1]", {4}, {0xe2209830, KEPT}, 0},
        {ALL, "v_pk_add_u16 v20, v10, 7 op_sel_hi:[1,0]", {0x00030005}, {0x000a000c, KEPT}, 0},
        {ALL, "v_pk_add_f16 v20, v10, 1.0", {0x3c003c00}, {0x3c004000, KEPT}, 0},
        {ALL, "v_pk_mul_f16 v20, v10, 2.0", {0x44004200}, {0x00004600, KEPT}, 0}};

    (void)state;
    CHECK(vectors);
}

/* Pairs of bf16 have the upper half of an f32's bits in both halves, pairs of f16 an f16 in the low
 * one; integers likewise. As captured on gfx1100 and gfx1201 (ROCm/rocm-systems, rocjitsu). */
static void dots_take_constants(void **state)
{
    static const struct vector vectors[] = {
        {RDNA, "v_dot2_f32_bf16 v20, v10, 1.0, v12", {0x40403f80}, {0x40800000, KEPT}, 0},
        {RDNA, "v_dot2_f32_bf16 v20, v10, 0.15915494, v12", {0x3f80}, {0x3e220000, KEPT}, 0},
        {RDNA, "v_dot2_f32_f16 v20, v10, 1.0, v12", {0x42003c00}, {0x3f800000, KEPT}, 0},
        {RDNA, "v_dot2_f32_bf16 v20, v10, 4.0, v12", {0x3f800000}, {0x40800000, KEPT}, 0}};

    (void)state;
    check(vectors, sizeof vectors / sizeof *vectors, "");
}

/* To 64-bit integers, scalar and vector ones, they are f64. T: s_mov_b64. */
static void wide_integers_take_f64(void **state)
{
    static const struct vector vectors[] = {
        {ALL, "s_mov_b64 s[60:61], 1.0" MOVE_PAIR, {0}, {0, 0x3ff00000}, 0},
        {ALL, "s_mov_b64 s[60:61], -4.0" MOVE_PAIR, {0}, {0, 0xc0100000}, 0},
        {ALL,
         "s_mov_b64 s[60:61], 0.15915494309189532" MOVE_PAIR,
         {0},
         {0x6dc9c882, 0x3fc45f30},
         0},
        {ALL, "s_mov_b64 s[60:61], 16" MOVE_PAIR, {0}, {16, 0}, 0},
        {ALL, "s_mov_b64 s[60:61], -16" MOVE_PAIR, {0}, {0xfffffff0, 0xffffffff}, 0},
        {ALL, "s_mov_b64 s[60:61], 0x80000000" MOVE_PAIR, {0}, {0x80000000, 0}, 0},
        {ALL, "s_cmp_eq_u64 s[50:51], 2.0" MOVE_SCC, {0, 0x40000000}, {1, KEPT}, 0},
        {ALL, "s_cmp_eq_u64 s[50:51], 2.0" MOVE_SCC, {0x40000000, 0}, {0, KEPT}, 0},
        {ALL, "s_cmp_lg_u64 2.0, s[50:51]" MOVE_SCC, {0x40000000, 0}, {1, KEPT}, 0},
        {ALL, "s_and_b64 s[60:61], s[50:51], 0.5" MOVE_PAIR, {-1u, -1u}, {0, 0x3fe00000}, 0},
        {ALL, "s_lshr_b64 s[60:61], 1.0, 4" MOVE_PAIR, {0}, {0, 0x03ff0000}, 0},
        {ALL, "s_bcnt1_i32_b64 s60, 1.0\\n v_mov_b32 v20, s60", {0}, {10, KEPT}, 0},
        {ALL, "v_lshlrev_b64 v[20:21], 1, 2.0", {0}, {0, 0x80000000}, 0},
        {ALL, "v_cmp_eq_u64 VCC, 2.0, v[10:11]", {0, 0x40000000}, {KEPT, KEPT}, 1},
        {ALL, "v_cmp_eq_u64 VCC, 2.0, v[10:11]", {0x40000000, 0}, {KEPT, KEPT}, 0},
        {ALL & ~GFX12, "v_mad_u64_u32 v[20:21], VCC, v10, v11, 2.0", {3, 5}, {15, 0x40000000}, 0},
        {GFX12, "v_mad_co_u64_u32 v[20:21], VCC, v10, v11, 2.0", {3, 5}, {15, 0x40000000}, 0},
        {GFX942 | GFX950, "v_lshl_add_u64 v[20:21], v[10:11], 1, 2.0", {3, 0}, {6, 0x40000000}, 0}};

    (void)state;
    CHECK(vectors);
}

/* ---- Division -------------------------------------------------------------------------------- */

/* f32 denormals lost, as tinygrad's kernels have them, and back to what the compiler assumed. */
#define FLUSHED(TEXT) "s_denorm_mode 12\\n " TEXT "\\n s_denorm_mode 15"
#define NUMERATOR     "v_div_scale_f32 v20, VCC, v10, v11, v10"
#define DENOMINATOR   "v_div_scale_f32 v20, VCC, v11, v11, v10"
#define NUMERATOR64   "v_div_scale_f64 v[20:21], VCC, v[10:11], v[12:13], v[10:11]"

/*
 * v10 / v11 is prepared. T: those without a remark; "probed" follows from the limits of exponents
 * that the authors of AMD's emulator found on gfx1100 and gfx1201 (division.h there).
 */
static void division_is_scaled(void **state)
{
    static const struct vector vectors[] = {
        {ALL, NUMERATOR, {0x3f800000, 0x40800000}, {0x3f800000, KEPT}, 0},
        {ALL, NUMERATOR, {0x40000000, 0x40800000}, {0x40000000, KEPT}, 0},
        {ALL, NUMERATOR, {0x3f800000, 0}, {0xffc00000, KEPT}, 1},
        {ALL, NUMERATOR, {0, 0x3f800000}, {0xffc00000, KEPT}, 1},
        {ALL, DENOMINATOR, {0x7f7fffff, 0x3f800000}, {0x5f800000, KEPT}, 1},
        {RDNA, FLUSHED(DENOMINATOR), {0x3f800000, 1}, {0xffc00000, KEPT}, 1},
        {ALL, NUMERATOR, {0x00800000, 0x3f800000}, {0x20800000, KEPT}, 1},
        {RDNA, FLUSHED(NUMERATOR), {0x00800000, 0x3f800000}, {0x20800000, KEPT}, 1},
        {ALL, NUMERATOR, {0x3f800000, 0x7f000000}, {0x3f800000, KEPT}, 1},
        /* probed: 2^96 apart and not, a denormal denominator, the last tiny numerator */
        {ALL, NUMERATOR, {0x6f800000, 0x3f800000}, {0x6f800000, KEPT}, 1},
        {ALL, NUMERATOR, {0x6f000000, 0x3f800000}, {0x6f000000, KEPT}, 0},
        {ALL, NUMERATOR, {0x0f800000, 0x3f800000}, {0x2f800000, KEPT}, 1},
        {ALL, NUMERATOR, {0x10000000, 0x3f800000}, {0x10000000, KEPT}, 0},
        {ALL, DENOMINATOR, {0x02000000, 0x00000001}, {0x15000000, KEPT}, 0},
        {ALL, NUMERATOR, {0x0c000000, 0x0c000000}, {0x2c000000, KEPT}, 0},
        {ALL, NUMERATOR, {0x0c800000, 0x0c800000}, {0x0c800000, KEPT}, 0},
        {ALL, DENOMINATOR, {0x7e800000, 0x7e800000}, {0x5e800000, KEPT}, 0},
        {ALL, DENOMINATOR, {0x7e000000, 0x7e000000}, {0x7e000000, KEPT}, 0},
        {ALL, NUMERATOR64, {0, 0x40000000, 0, 0x40000000}, {0, 0x40000000}, 0},
        {ALL, NUMERATOR64, {0, 0x3ff00000, 0, 0}, {0, 0xfff80000}, 1},
        {ALL, NUMERATOR64, {0, 0x00300000, 0, 0x3ff00000}, {0, 0x08300000}, 1},
        /* the last step: nothing, or infinity, of either sign */
        {ALL,
         "v_div_fixup_f32 v20, v12, v11, v10",
         {0x00800000, 0xff000000, 1},
         {0x80000000, KEPT},
         0},
        {ALL,
         "v_div_fixup_f32 v20, v12, v11, v10",
         {0x3f800000, 0xbf800000, 0x7fc00000},
         {0xff800000, KEPT},
         0}};

    (void)state;
    CHECK(vectors);
}

/* ---- Integers -------------------------------------------------------------------------------- */

#define CARRY_IN "s_mov_b64 vcc, 1\\n "

/* T, but for VCC, which it does not look at; s_absdiff_i32 and v_mad_co_i64_i32 are as others
 * captured them on gfx1201 (bjacob/goc). */
static void sums_saturate(void **state)
{
    static const struct vector vectors[] = {
        {ALL, "v_add_co_u32 v20, VCC, v10, v11 clamp", {-1u, 1}, {-1u, KEPT}, 1},
        {ALL, "v_add_co_u32 v20, VCC, v10, v11 clamp", {100, 200}, {300, KEPT}, 0},
        {ALL, "v_sub_co_u32 v20, VCC, v10, v11 clamp", {0, 1}, {0, KEPT}, 1},
        {ALL, "v_sub_co_u32 v20, VCC, v10, v11 clamp", {300, 100}, {200, KEPT}, 0},
        {ALL, "v_subrev_co_u32 v20, VCC, v10, v11 clamp", {1, 0}, {0, KEPT}, 1},
        {RDNA, "v_add_co_ci_u32 v20, VCC, v10, v11, VCC clamp", {-1u, 1}, {-1u, KEPT}, 1},
        {RDNA, CARRY_IN "v_add_co_ci_u32 v20, VCC, v10, v11, VCC clamp", {-2u, 1}, {-1u, KEPT}, 1},
        {GFX9, CARRY_IN "v_addc_co_u32 v20, VCC, v10, v11, VCC clamp", {-2u, 1}, {-1u, KEPT}, 1},
        {RDNA, "v_sub_co_ci_u32 v20, VCC, v10, v11, VCC clamp", {0, 1}, {0, KEPT}, 1},
        {RDNA, "v_subrev_co_ci_u32 v20, VCC, v10, v11, VCC clamp", {1, 0}, {0, KEPT}, 1},
        {GFX12, "v_mad_co_i64_i32 v[20:21], VCC, v10, v11, v[12:13]", {-1u, 1, 1, 0}, {0, 0}, 0},
        {GFX12,
         "v_mad_co_i64_i32 v[20:21], VCC, v10, v11, v[12:13]",
         {-1u, 1, 0, 0},
         {-1u, -1u},
         1},
        {GFX12,
         "v_mad_co_i64_i32 v[20:21], VCC, v10, v11, v[12:13]",
         {1, 1, -1u, 0x7fffffff},
         {0, 0x80000000},
         0},
        {ALL,
         "s_absdiff_i32 s60, s50, s51\\n v_mov_b32 v20, s60",
         {0x7fffffff, 0x80000000},
         {1, KEPT},
         0}};

    (void)state;
    CHECK(vectors);
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* T: output modifiers count for nothing while the mode bit IEEE is set, as it is in what hipRTC
 * makes for processors that have the bit; v_permlane64_b32 does nothing in a wave of 32. */
static void modes_count(void **state)
{
    static const struct vector vectors[] = {
        {ALL & ~GFX12, "v_add_f32 v20, v10, 1.0 mul:2", {0x40400000}, {0x40800000, KEPT}, 0},
        {GFX12, "v_add_f32 v20, v10, 1.0 mul:2", {0x40400000}, {0x41000000, KEPT}, 0},
        {RDNA, "v_permlane64_b32 v20, v10", {0xcafebabe}, {KEPT, KEPT}, 0}};
    static const struct vector scaled[] = {
        {ALL, "v_add_f32 v20, v10, 1.0 mul:2", {0x40400000}, {0x41000000, KEPT}, 0},
        {ALL, "v_add_f32 v20, v10, 1.0 mul:4", {0x40400000}, {0x41800000, KEPT}, 0},
        {ALL, "v_add_f32 v20, v10, 1.0 div:2", {0x40400000}, {0x40000000, KEPT}, 0}};

    (void)state;
    CHECK(vectors);
    check(scaled, sizeof scaled / sizeof *scaled, "-mno-amdgpu-ieee\n-fno-honor-nans");
}

/* ---- Upper halves ---------------------------------------------------------------------------- */

/*
 * Code as compilers since ROCm 7.2 make it for gfx1150 and later, where the disassembler of LLVM 21
 * declines upper halves or leaves them out: words as LLVM's assembler for gfx1100 encodes them,
 * whose encodings the others share.
 */
static void upper_halves(void **state)
{
    static const struct vector vectors[] = {
        /* v_add_f16_e32 v20.h, v10.l, v11.h */
        {RDNA, ".long 0x6529170a", {0x00003c00, 0x40000000}, {0x42005555, KEPT}, 0},
        /* v_add_f16_e64 v20.h, v10.l, v11.h */
        {RDNA, ".long 0xd5325014, 0x0002170a", {0x00003c00, 0x40000000}, {0x42005555, KEPT}, 0},
        /* v_cvt_f32_f16_e32 v20, v10.h */
        {RDNA, ".long 0x7e28178a", {0x40000000}, {0x40000000, KEPT}, 0},
        /* v_cvt_f16_f32_e32 v20.h, v10 */
        {RDNA, ".long 0x7f28150a", {0x3f800000}, {0x3c005555, KEPT}, 0},
        /* v_cmp_lt_f16_e32 vcc_lo, v10.h, v11.l */
        {RDNA, ".long 0x7c02178a", {0x3c004400, 0x4000}, {KEPT, KEPT}, 1},
        /* v_cmp_lt_f16_e64 vcc_lo, v10.h, v11.l */
        {RDNA, ".long 0xd401086a, 0x0002170a", {0x3c004400, 0x4000}, {KEPT, KEPT}, 1},
        /* v_fma_f16 v20.h, v10.l, v11.h, v12.l */
        {RDNA, ".long 0xd6485014, 0x0432170a", {0x4000, 0x42000000, 0x3c00}, {0x47005555, KEPT}, 0},
        /* v_fmac_f16_e32 v20.h, v10.l, v11.h */
        {RDNA,
         "v_mov_b32 v20, 0x3c004000\\n .long 0x6d29170a",
         {0x4000, 0x42000000},
         {0x47004000, KEPT},
         0},
        /* v_fmaak_f16_e32 v20.h, v10.l, v11.h, 0x3c00: a literal behind it, which is none itself */
        {RDNA, ".long 0x7129170a, 0x3c00", {0x4000, 0x42000000}, {0x47005555, KEPT}, 0},
        {RDNA, ".long 0x7129170a, 0x7f28150a", {0x4000, 0x42000000}, {0x46005555, KEPT}, 0},
        /* v_mov_b16_e32 v20.h, v10.l, then v20.l, 0x77 and v20.l, v10.h */
        {RDNA, ".long 0x7f28390a", {0x12345678}, {0x56785555, KEPT}, 0},
        {RDNA, ".long 0x7e2838ff, 0x77", {0}, {0x55550077, KEPT}, 0},
        {RDNA, ".long 0x7e28398a", {0x12345678}, {0x55551234, KEPT}, 0},
        /* v_mov_b16_e64 v20.h, v10.l */
        {RDNA, ".long 0xd59c4014, 0x0000010a", {0x12345678}, {0x56785555, KEPT}, 0},
        /* v_add_nc_u16 v20.h, v10.l, v11.h */
        {RDNA, ".long 0xd7035014, 0x0002170a", {3, 0x40000}, {0x00075555, KEPT}, 0},
        /* v_lshlrev_b16 v20.h, 3, v10.l */
        {RDNA, ".long 0xd7384014, 0x00021483", {0x0001}, {0x00085555, KEPT}, 0},
        /* v_cndmask_b16 v20.l, v10.h, v11.l, vcc_lo */
        {RDNA, ".long 0xd65d0814, 0x01aa170a", {0x12345678, 0x9abcdef0}, {0x55551234, KEPT}, 0},
        /* v_pk_mul_f16 v20, v10, v11 with the constant 0 in the place of a third source */
        {RDNA, ".long 0xcc104014, 0x1a02170a", {0x40003c00, 0x42004200}, {0x46004200, KEPT}, 0}};

    (void)state;
    CHECK(vectors);
}

/* ---- Output modifiers ------------------------------------------------------------------------ */

/* Denormals and zeros of either sign become +0 before they are scaled, and what falls below the
 * normal range a zero of its sign, though the mode keeps denormals; as captured on gfx1201. */
static void output_modifiers_flush(void **state)
{
    static const struct vector vectors[] = {
        {ALL, "v_mul_f32 v20, v10, 1.0 mul:4", {0x00000001}, {0, KEPT}, 0},
        {ALL, "v_mul_f32 v20, v10, 1.0 mul:4", {0x807fffff}, {0, KEPT}, 0},
        {ALL, "v_mul_f32 v20, v10, 1.0 mul:2", {0x80000000}, {0, KEPT}, 0},
        {ALL, "v_mul_f32 v20, v10, 1.0 div:2", {0x00800000}, {0, KEPT}, 0},
        {ALL, "v_mul_f32 v20, v10, 1.0 div:2", {0x80800000}, {0x80000000, KEPT}, 0},
        {ALL, "v_mul_f32 v20, v10, 1.0 div:2", {0x81000000}, {0x80800000, KEPT}, 0},
        {ALL, "v_mul_f32 v20, v10, 1.0 mul:2", {0xff7fffff}, {0xff800000, KEPT}, 0},
        {RDNA, "v_add_f16 v20, v10, v11 mul:2", {0x0001, 0x0001}, {0x55550000, KEPT}, 0},
        {RDNA, "v_add_f16 v20, v10, v11 div:2", {0x8400, 0}, {0x55558000, KEPT}, 0},
        /* 1 + 2^-11 is rounded to 1 before it is doubled */
        {RDNA, "v_add_f16 v20, v10, v11 mul:2", {0x3c00, 0x1000}, {0x55554000, KEPT}, 0},
        {ALL, "v_mul_f64 v[20:21], v[10:11], 1.0 div:2", {0, 0x80100000}, {0, 0x80000000}, 0},
        {ALL, "v_mul_f64 v[20:21], v[10:11], 1.0 mul:2", {1, 0x80000000}, {0, 0}, 0}};

    (void)state;
    check(vectors, sizeof vectors / sizeof *vectors, "-mno-amdgpu-ieee\n-fno-honor-nans");
}

/* ---- Floats ---------------------------------------------------------------------------------- */

/* As captured on gfx1201 (bjacob/goc), but where another source is said. */
static void floats_round(void **state)
{
    static const struct vector vectors[] = {
        /* a zero factor gives +0, which is added; denormals never count */
        {RDNA, "v_fma_dx9_zero_f32 v20, v10, v11, v12", {0, 0x7f800000, 0x80000000}, {0, KEPT}, 0},
        {RDNA,
         "v_fma_dx9_zero_f32 v20, v10, v11, v12",
         {1, 0x7f800000, 0x7f812345},
         {0x7fc12345, KEPT},
         0},
        {RDNA,
         "v_fma_dx9_zero_f32 v20, v10, v11, v12",
         {0x3f800000, 0x3f800000, 0x007fffff},
         {0x3f800000, KEPT},
         0},
        {RDNA,
         "v_fma_dx9_zero_f32 v20, v10, v11, v12",
         {0x3f800000, 0x00800000, 0x80800001},
         {0x80000000, KEPT},
         0},
        /* 1 + 2^-11 + 2^-36 and 1 + 3 * 2^-11 - 2^-36 are no ties, though they are in f32 */
        {ALL,
         "v_fma_mixlo_f16 v20, v10, v11, v12",
         {0x3f800000, 0x3f801000, 0x2d800000},
         {0x55553c01, KEPT},
         0},
        {ALL,
         "v_fma_mixhi_f16 v20, v10, v11, v12",
         {0x3f800000, 0x3f803000, 0xad800000},
         {0x3c015555, KEPT},
         0},
        {ALL,
         "v_fma_mixlo_f16 v20, v10, v11, v12",
         {0x3f800000, 0x3f801000, 0},
         {0x55553c00, KEPT},
         0},
        /* a pack makes signalling NaNs quiet */
        {ALL, "v_pack_b32_f16 v20, v10, v11", {0x7c01, 0xfd55}, {0xff557e01, KEPT}, 0},
        {ALL, "v_pack_b32_f16 v20, v10, v11", {0x7c00, 0x8001}, {0x80017c00, KEPT}, 0},
        /* segment 5 of 2^945 begins at bit 1156: 28 bits are left of 1184, 45 of 1201 */
        {GFX12,
         "v_trig_preop_f64 v[20:21], v[10:11], v12",
         {0, 0x7b000000, 5},
         {0xc1180000, 0x0000180c},
         0},
        {ALL & ~GFX12,
         "v_trig_preop_f64 v[20:21], v[10:11], v12",
         {0, 0x7b000000, 5},
         {0xc11bf1ec, 0x0000180c},
         0}};

    (void)state;
    CHECK(vectors);
}

/* Conversions to eight bits on gfx1201 (bjacob/goc): every NaN is the same, and a stochastic one
 * aligns what becomes a denormal before it adds. 2^-10 is half of fp8's least; the random number
 * has all of its upper 20 bits but one. */
static void eight_bits(void **state)
{
    static const struct vector vectors[] = {
        {GFX12, "v_cvt_pk_fp8_f32 v20, v10, v11", {0x7fc00000, 0xff812345}, {0x5555ffff, KEPT}, 0},
        {GFX12, "v_cvt_pk_bf8_f32 v20, v10, v11", {0x7fc00000, 0xff812345}, {0x5555fefe, KEPT}, 0},
        {GFX12, "v_cvt_sr_fp8_f32 v20, v10, v11", {0xff812345, 7}, {0x555555ff, KEPT}, 0},
        {GFX12, "v_cvt_sr_bf8_f32 v20, v10, v11", {0x7f812345, 7}, {0x555555fe, KEPT}, 0},
        {GFX12, "v_cvt_sr_fp8_f32 v20, v10, v11", {0x3a800000, 0x7fffffff}, {0x55555500, KEPT}, 0},
        {GFX12, "v_cvt_sr_fp8_f32 v20, v10, v11", {0x3a800000, 0x80000000}, {0x55555501, KEPT}, 0},
        {GFX12, "v_cvt_sr_fp8_f32 v20, v10, v11", {0xba800000, 0x80000000}, {0x55555581, KEPT}, 0},
        /* the last bit of the significand is lost, and does not carry */
        {GFX12, "v_cvt_sr_fp8_f32 v20, v10, v11", {0x3affffff, 0xfffff000}, {0x55555501, KEPT}, 0},
        {GFX12, "v_cvt_sr_bf8_f32 v20, v10, v11", {0x37000000, 0x80000000}, {0x55555501, KEPT}, 0},
        {GFX12, "v_cvt_sr_fp8_f32 v20, v10, v11", {0x3f800000, 0xffffffff}, {0x55555538, KEPT}, 0}};

    (void)state;
    CHECK(vectors);
}

/* ---- Saturation of the rest ------------------------------------------------------------------ */

/* Products, sums of differences and wide sums; what cannot overflow takes the modifier, too. */
static void products_saturate(void **state)
{
    static const struct vector vectors[] = {
        {ALL, "v_mul_u32_u24 v20, v10, v11 clamp", {0xffffff, 0x100}, {0xffffff00, KEPT}, 0},
        {ALL, "v_mul_u32_u24 v20, v10, v11 clamp", {0xffffff, 0x101}, {-1u, KEPT}, 0},
        {ALL, "v_mul_i32_i24 v20, v10, v11 clamp", {0x800000, 0x7fffff}, {0x80000000, KEPT}, 0},
        {ALL, "v_mul_i32_i24 v20, v10, v11 clamp", {0xffffff, 7}, {-7u, KEPT}, 0},
        {GFX9, "v_mul_hi_u32_u24 v20, v10, v11 clamp", {0xffffff, 0xffffff}, {0xffff, KEPT}, 0},
        {ALL,
         "v_pk_mul_lo_u16 v20, v10, v11 clamp",
         {0x01000003, 0x01000004},
         {0xffff000c, KEPT},
         0},
        {ALL, "v_pk_min_i16 v20, v10, v11 clamp", {0x80000003, 0x00010004}, {0x80000003, KEPT}, 0},
        {GFX9, "v_mul_hi_i32_i24 v20, v10, v11 clamp", {0x800000, 0x7fffff}, {0xffffc000, KEPT}, 0},
        {ALL, "v_pk_min_u16 v20, v10, v11 clamp", {0x80000003, 0x00010004}, {0x00010003, KEPT}, 0},
        {ALL, "v_pk_max_i16 v20, v10, v11 clamp", {0x80000003, 0x00010004}, {0x00010004, KEPT}, 0},
        {ALL,
         "v_pk_lshrrev_b16 v20, v10, v11 clamp",
         {0x00010004, 0x80018010},
         {0x40000801, KEPT},
         0},
        {ALL,
         "v_pk_ashrrev_i16 v20, v10, v11 clamp",
         {0x00010004, 0x80018010},
         {0xc000f801, KEPT},
         0},
        {ALL,
         "v_mqsad_pk_u16_u8 v[20:21], v[10:11], v12, v[14:15] clamp",
         {0x02020202, 0x02020202, 0x01010100, 0, 0xfffffff0, 0x00000000},
         {0xfffffff3, 0x00030003},
         0},
        {ALL, "v_pk_max_u16 v20, v10, v11 clamp", {0x80000003, 0x00010004}, {0x80000004, KEPT}, 0},
        {ALL,
         "v_pk_lshlrev_b16 v20, v10, v11 clamp",
         {0x00010004, 0x80018001},
         {0x00020010, KEPT},
         0},
        {ALL & ~GFX12,
         "v_mad_u64_u32 v[20:21], VCC, v10, v11, v[12:13] clamp",
         {-1u, -1u, -1u, -1u},
         {-1u, -1u},
         1},
        {GFX12,
         "v_mad_co_u64_u32 v[20:21], VCC, v10, v11, v[12:13] clamp",
         {-1u, -1u, -1u, -1u},
         {-1u, -1u},
         1},
        {ALL & ~GFX12,
         "v_mad_i64_i32 v[20:21], VCC, v10, v11, v[12:13] clamp",
         {0x7fffffff, 2, -1u, 0x7fffffff},
         {-1u, 0x7fffffff},
         0},
        {GFX12,
         "v_mad_co_i64_i32 v[20:21], VCC, v10, v11, v[12:13] clamp",
         {0x80000000, 2, 0, 0x80000000},
         {0, 0x80000000},
         1},
        {ALL,
         "v_qsad_pk_u16_u8 v[20:21], v[10:11], v12, v[14:15] clamp",
         {0x01010101, 0x01010101, 0, 0, 0xfffefffc, 0x00000000},
         {0xfffffffF, 0x00040004},
         0}};

    (void)state;
    CHECK(vectors);
}

/* ---- Encodings that LLVM 21's disassembler declines ------------------------------------------ */

static void declined_encodings(void **state)
{
    static const struct vector vectors[] = {
        /* v_swap_b16 v20.l, v10.h and v20.h, v10.l, as LLVM encodes them for gfx1100 */
        {RDNA, ".long 0x7e28cd8a\\n v_mov_b32 v21, v10", {0x12345678}, {0x55551234, 0x55555678}, 0},
        {RDNA, ".long 0x7f28cd0a\\n v_mov_b32 v21, v10", {0x12345678}, {0x56785555, 0x12345555}, 0},
        /* v_cmpx_lt_u32_e64 s[60:61], v10, v11 and v_cmpx_class_f32_e64 vcc, v10, v11 */
        {GFX9,
         ".long 0xd0d9003c, 0x0002170a\\n v_mov_b32 v20, s60\\n v_mov_b32 v21, 7",
         {3, 4},
         {1, 7},
         0},
        {GFX9,
         "s_mov_b64 s[60:61], -1\\n .long 0xd0d9003c, 0x0002170a\\n s_mov_b64 s[54:55], exec\\n "
         "s_mov_b64 exec, 1\\n v_mov_b32 v20, s60\\n v_mov_b32 v21, s54",
         {4, 3},
         {0, 0},
         0},
        {GFX9,
         ".long 0xd011006a, 0x0002170a\\n v_mov_b32 v20, 9",
         {0x3f800000, 0x100},
         {9, KEPT},
         1}};

    (void)state;
    CHECK(vectors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_saturate),
                                       cmocka_unit_test(modes_count),
                                       cmocka_unit_test(output_modifiers_flush),
                                       cmocka_unit_test(floats_round),
                                       cmocka_unit_test(eight_bits),
                                       cmocka_unit_test(products_saturate),
                                       cmocka_unit_test(declined_encodings),
                                       cmocka_unit_test(upper_halves),
                                       cmocka_unit_test(division_is_scaled),
                                       cmocka_unit_test(packed_integers_take_f32),
                                       cmocka_unit_test(dots_take_constants),
                                       cmocka_unit_test(wide_integers_take_f64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
