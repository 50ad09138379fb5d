/* SPDX-License-Identifier: MIT */
/* Instructions that move values from lane to lane, each against a formula. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

static uint32_t a[64], b[64], r[64];

/* What lane l must hold; `n` lanes in all. */
typedef uint32_t expected_fn(unsigned l, unsigned n);

struct move {
    const char *name;
    const char *body; /* with u32 x = a[lane], y = b[lane]; assigns r */
    expected_fn *expected;
};

/* ---- Expectations: old value is y where a lane is not written -------------------------------- */

static unsigned row(unsigned l)
{
    return l & ~15u;
}

static uint32_t e_quad_perm(unsigned l, unsigned n)
{
    static const unsigned from[4] = {3, 1, 0, 2};
    (void)n;
    return a[(l & ~3u) + from[l & 3]];
}
static uint32_t e_row_shl_3(unsigned l, unsigned n)
{
    (void)n;
    return (l & 15) + 3 < 16 ? a[l + 3] : b[l];
}
static uint32_t e_row_shl_3_bound(unsigned l, unsigned n)
{
    (void)n;
    return (l & 15) + 3 < 16 ? a[l + 3] : 0;
}
static uint32_t e_row_shr_5(unsigned l, unsigned n)
{
    (void)n;
    return (l & 15) >= 5 ? a[l - 5] : b[l];
}
static uint32_t e_row_ror_6(unsigned l, unsigned n)
{
    (void)n;
    return a[row(l) + (((l & 15) + 10) & 15)];
}
static uint32_t e_row_mirror(unsigned l, unsigned n)
{
    (void)n;
    return a[row(l) + 15 - (l & 15)];
}
static uint32_t e_row_half_mirror(unsigned l, unsigned n)
{
    (void)n;
    return a[(l & ~7u) + 7 - (l & 7)];
}
static uint32_t e_row_share_9(unsigned l, unsigned n)
{
    (void)n;
    return a[row(l) + 9];
}
static uint32_t e_row_xmask_11(unsigned l, unsigned n)
{
    (void)n;
    return a[l ^ 11];
}
static uint32_t e_row_mask(unsigned l, unsigned n)
{
    (void)n;
    return l / 16 % 2 ? a[l ^ 1] : b[l];
}
static uint32_t e_bank_mask(unsigned l, unsigned n)
{
    (void)n;
    return l / 4 % 4 == 1 || l / 4 % 4 == 2 ? a[l ^ 1] : b[l];
}
static uint32_t e_dpp8(unsigned l, unsigned n)
{
    static const unsigned from[8] = {7, 0, 3, 3, 2, 6, 5, 1};
    (void)n;
    return a[(l & ~7u) + from[l & 7]];
}
static uint32_t e_inactive_source(unsigned l, unsigned n)
{
    (void)n;
    /* odd lanes only; they read even ones, which are inactive */
    return l & 1 ? b[l] : 77;
}
static uint32_t e_inactive_source_bound(unsigned l, unsigned n)
{
    (void)n;
    return l & 1 ? 0 : 77;
}
static uint32_t e_fused_add(unsigned l, unsigned n)
{
    (void)n;
    return a[l ^ 4] + b[l];
}
static uint32_t e_permlane16(unsigned l, unsigned n)
{
    (void)n;
    return a[row(l) + ((0x0123456789abcdefull >> 4 * (l & 15)) & 15)];
}
static uint32_t e_permlanex16(unsigned l, unsigned n)
{
    (void)n;
    return a[(row(l) ^ 16) + (l & 15)];
}
static uint32_t e_permlane64(unsigned l, unsigned n)
{
    return a[n == 64 ? l ^ 32 : l];
}
static uint32_t e_bpermute(unsigned l, unsigned n)
{
    (void)n;
    return a[(l & 32) + (b[l] & 31)];
}
static uint32_t e_bpermute_inactive(unsigned l, unsigned n)
{
    (void)n;
    return l < 8 ? 5 : (l ^ 8) < 8 ? 0 : a[l ^ 8];
}
static uint32_t e_permute(unsigned l, unsigned n)
{
    (void)n;
    return a[(l & 32) + ((l - 7) & 31)];
}
static uint32_t e_swizzle_swap(unsigned l, unsigned n)
{
    (void)n;
    return a[l ^ 16];
}
static uint32_t e_swizzle_mask(unsigned l, unsigned n)
{
    (void)n;
    return a[(l & 32) + ((((l & 0x13) | 0x04) ^ 0x09) & 31)];
}
static uint32_t e_swizzle_quad(unsigned l, unsigned n)
{
    static const unsigned from[4] = {1, 1, 3, 0};
    (void)n;
    return a[(l & ~3u) + from[l & 3]];
}
static uint32_t e_readlane(unsigned l, unsigned n)
{
    (void)l, (void)n;
    return a[19];
}
static uint32_t e_readfirst(unsigned l, unsigned n)
{
    (void)n;
    return l < 5 ? 0 : a[5];
}
static uint32_t e_writelane(unsigned l, unsigned n)
{
    (void)n;
    return l == 6 ? 4711 : a[l];
}
static uint32_t e_mbcnt(unsigned l, unsigned n)
{
    unsigned count = 0;
    (void)n;
    for (unsigned k = 0; k < l; k++)
        count += a[k] & 1;
    return count;
}
static uint32_t e_swap(unsigned l, unsigned n)
{
    (void)n;
    return l < 20 ? b[l] * 3 + a[l] : a[l] * 3 + b[l];
}

#define DPP(CONTROL, ROWS, BANKS, BOUND)                                                           \
    "r = __builtin_amdgcn_update_dpp(y, x, " #CONTROL ", " #ROWS ", " #BANKS ", " #BOUND ");"
static const struct move moves[] = {
    {"quad_perm", DPP(0x87, 15, 15, false), e_quad_perm},
    {"row_shl:3", DPP(0x103, 15, 15, false), e_row_shl_3},
    {"row_shl:3 bound_ctrl", DPP(0x103, 15, 15, true), e_row_shl_3_bound},
    {"row_shr:5", DPP(0x115, 15, 15, false), e_row_shr_5},
    {"row_ror:6", DPP(0x126, 15, 15, false), e_row_ror_6},
    {"row_mirror", DPP(0x140, 15, 15, false), e_row_mirror},
    {"row_half_mirror", DPP(0x141, 15, 15, false), e_row_half_mirror},
    {"row_share:9", DPP(0x159, 15, 15, false), e_row_share_9},
    {"row_xmask:11", DPP(0x16b, 15, 15, false), e_row_xmask_11},
    {"row_mask", DPP(0xb1, 10, 15, false), e_row_mask},
    {"bank_mask", DPP(0xb1, 15, 6, false), e_bank_mask},
    {"dpp8",
     "r = __builtin_amdgcn_mov_dpp8(x, 7 | 0 << 3 | 3 << 6 | 3 << 9 | 2 << 12 | 6 << 15 | "
     "5 << 18 | 1 << 21);",
     e_dpp8},
    {"inactive source", "r = 77; if (LANE & 1) " DPP(0xb1, 15, 15, false), e_inactive_source},
    {"inactive source, bound_ctrl", "r = 77; if (LANE & 1) " DPP(0xb1, 15, 15, true),
     e_inactive_source_bound},
    {"sum with a lane", "r = __builtin_amdgcn_update_dpp(0, x, 0x164, 15, 15, true) + y;",
     e_fused_add},
    {"permlane16", "r = __builtin_amdgcn_permlane16(y, x, 0x89abcdef, 0x01234567, false, false);",
     e_permlane16},
    {"permlanex16", "r = __builtin_amdgcn_permlanex16(y, x, 0x76543210, 0xfedcba98, false, false);",
     e_permlanex16},
    {"permlane64", "r = __builtin_amdgcn_permlane64(x);", e_permlane64},
    {"ds_bpermute", "r = __builtin_amdgcn_ds_bpermute(y * 4, x);", e_bpermute},
    {"ds_bpermute of inactive lanes",
     "r = 5; if (LANE >= 8) r = __builtin_amdgcn_ds_bpermute((LANE ^ 8) * 4, x);",
     e_bpermute_inactive},
    {"ds_permute", "r = __builtin_amdgcn_ds_permute((LANE + 7) * 4, x);", e_permute},
    {"ds_swizzle swap", "r = __builtin_amdgcn_ds_swizzle(x, 0x401f);", e_swizzle_swap},
    {"ds_swizzle mask", "r = __builtin_amdgcn_ds_swizzle(x, 0x13 | 0x04 << 5 | 0x09 << 10);",
     e_swizzle_mask},
    {"ds_swizzle quad",
     "r = __builtin_amdgcn_ds_swizzle(x, 0x8000 | 1 | 1 << 2 | 3 << 4 | 0 << 6);", e_swizzle_quad},
    {"readlane", "r = __builtin_amdgcn_readlane(x, 19);", e_readlane},
    {"readfirstlane", "r = 0; if (LANE >= 5) r = __builtin_amdgcn_readfirstlane(x);", e_readfirst},
    {"writelane",
     "r = x; asm volatile(\"s_mov_b32 s40, 0x1267\\n v_writelane_b32 %0, s40, 6\" : \"+v\"(r) :: "
     "\"s40\");",
     e_writelane},
    {"mbcnt",
     "u64 bits = __builtin_amdgcn_ballot_w64(x & 1); if (WAVE == 32) r = "
     "__builtin_amdgcn_mbcnt_lo((u32)bits, 0); else r = __builtin_amdgcn_mbcnt_hi((u32)(bits >> "
     "32), "
     "__builtin_amdgcn_mbcnt_lo((u32)bits, 0));",
     e_mbcnt},
    {"v_swap_b32",
     "if (LANE < 20) asm volatile(\"v_swap_b32 %0, %1\" : \"+v\"(x), \"+v\"(y)); "
     "r = x * 3 + y;",
     e_swap},
};
#define MOVES (sizeof moves / sizeof *moves)

static void run_moves(const char *target, unsigned lanes, enum quern_sim_check check,
                      enum quern_sim_isa isa)
{
    const struct t_buffer buffers[] = {{a, lanes * 4, QUERN_SIM_READ, "a"},
                                       {b, lanes * 4, QUERN_SIM_READ, "b"},
                                       {r, lanes * 4, QUERN_SIM_WRITE, "r"}};
    char source[MOVES * 512], name[16];
    size_t used = 0;
    uint64_t random = 1;
    struct t_gpu g;

    for (size_t n = 0; n < MOVES; n++) {
        const char *ballot =
            lanes == 64 ? "" : "#define __builtin_amdgcn_ballot_w64 __builtin_amdgcn_ballot_w32\n";
        used +=
            (size_t)snprintf(source + used, sizeof source - used,
                             "%s#define WAVE %u\nKERNEL k%zu(const u32 *a, const u32 *b, u32 *o) {"
                             " u32 x = a[LANE], y = b[LANE], r; %s o[LANE] = r; }\n#undef WAVE\n",
                             n ? "" : ballot, lanes, n, moves[n].body);
        assert_true(used < sizeof source);
    }
    t_gpu_open(&g, target, lanes == 64 ? "-mwavefrontsize64" : "", check, isa, 0);
    t_gpu_load(&g, source);
    for (unsigned l = 0; l < 64; l++) {
        a[l] = (uint32_t)t_random(&random);
        b[l] = (uint32_t)t_random(&random);
    }
    for (size_t n = 0; n < MOVES; n++) {
        snprintf(name, sizeof name, "k%zu", n);
        const struct t_launch launch = {
            .kernel = name, .items = {lanes}, .buffers = buffers, .count = 3};
        t_gpu_run(&g, &launch);
        for (unsigned l = 0; l < lanes; l++)
            if (r[l] != moves[n].expected(l, lanes))
                fail_msg("%s, %u lanes: lane %u is 0x%x, not 0x%x", moves[n].name, lanes, l, r[l],
                         moves[n].expected(l, lanes));
    }
    t_gpu_close(&g);
}

static void wave32(void **state)
{
    (void)state;
    run_moves("gfx1100", 32, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
    run_moves("gfx1100", 32, QUERN_CHECK_FAST, QUERN_ISA_X86_64);
}
static void wave64(void **state)
{
    (void)state;
    run_moves("gfx1151", 64, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
}
static void full_check(void **state)
{
    (void)state;
    run_moves("gfx1151", 32, QUERN_CHECK_FULL, QUERN_ISA_AUTO);
    run_moves("gfx1100", 64, QUERN_CHECK_FULL, QUERN_ISA_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wave32),
        cmocka_unit_test(wave64),
        cmocka_unit_test(full_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
