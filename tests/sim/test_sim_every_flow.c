/* SPDX-License-Identifier: MIT */
/*
 * The instructions that are neither ALU nor vector memory, on every target that has them: scalar
 * loads, branches and calls, hardware registers, waits and hints, pairs of LDS accesses.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"
#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                      "gfx1100", "gfx1151", "gfx1201"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { LANES = 32, WORDS = 2048 };
static uint32_t x_in[WORDS], r_out[LANES][4];

/* ---- Hints and waits: nothing follows from them ---------------------------------------------- */

static const struct {
    const char *on, *text;
} hints[] = {
    {"012345", "s_nop 1"},
    {"012345", "v_nop"},
    {"012345", "s_sleep 1"},
    {"012345", "s_setprio 1"},
    {"012345", "s_icache_inv"},
    {"012345", "s_incperflevel 1"},
    {"012345", "s_decperflevel 1"},
    {"012345", "s_ttracedata"},
    {"01234", "s_waitcnt 0"},
    {"01234", "s_dcache_inv"},
    {"012", "s_dcache_wb"},
    {"0", "buffer_wbl2"},
    {"12", "buffer_wbl2 sc1"},
    {"0", "buffer_invl2"},
    {"0", "buffer_wbinvl1"},
    {"0", "buffer_wbinvl1_vol"},
    {"12", "buffer_inv sc1"},
    {"34", "s_gl1_inv"},
    {"34", "buffer_gl0_inv"},
    {"34", "buffer_gl1_inv"},
    {"345", "s_wait_idle"},
    {"345", "s_wait_event 0"},
    {"34", "s_waitcnt_vscnt null, 0x0"},
    {"34", "s_waitcnt_vmcnt null, 0x0"},
    {"34", "s_waitcnt_expcnt null, 0x0"},
    {"34", "s_waitcnt_lgkmcnt null, 0x0"},
    {"34", "s_waitcnt_depctr 0xffff"},
    {"345", "s_delay_alu instid0(VALU_DEP_1)"},
    {"345", "s_clause 0x1\\n s_nop 0\\n s_nop 0"},
    {"34", "s_set_inst_prefetch_distance 0x3"},
    {"5", "s_wait_alu 0xffff"},
    {"5", "s_wait_loadcnt 0"},
    {"5", "s_wait_storecnt 0"},
    {"5", "s_wait_samplecnt 0"},
    {"5", "s_wait_bvhcnt 0"},
    {"5", "s_wait_expcnt 0"},
    {"5", "s_wait_dscnt 0"},
    {"5", "s_wait_kmcnt 0"},
    {"5", "s_wait_loadcnt_dscnt 0"},
    {"5", "s_wait_storecnt_dscnt 0"},
    {"5", "s_prefetch_inst %2, 0x10, s40, 1"},
    {"5", "s_prefetch_inst_pc_rel 0x10, s40, 1"},
    {"5", "s_prefetch_data %2, 0x10, s40, 1"},
    {"5", "s_prefetch_data_pc_rel 0x10, s40, 1"},
    {"5", "s_buffer_prefetch_data %3, 0x10, s40, 1"},
    {"5", "global_inv scope:SCOPE_DEV"},
    {"5", "global_wb scope:SCOPE_DEV"},
    {"5", "global_wbinv scope:SCOPE_DEV"},
    {"345", "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)"},
};

/* ---- Scalar code: s36 and s37 are what comes out --------------------------------------------- */

static const struct {
    const char *on, *text;
    uint32_t s36, s37;
} codes[] = {
    {"012345",
     "s_call_b64 s[40:41], 1f\\n s_mov_b32 s36, 77\\n s_branch 2f\\n 1: s_mov_b32 s37, 5\\n "
     "s_setpc_b64 s[40:41]\\n 2:",
     77, 5},
    {"012345",
     "s_getpc_b64 s[40:41]\\n s_add_u32 s40, s40, 20\\n s_addc_u32 s41, s41, 0\\n s_swappc_b64 "
     "s[42:43], s[40:41]\\n s_mov_b32 s36, 3\\n s_branch 2f\\n s_mov_b32 s37, 9\\n s_setpc_b64 "
     "s[42:43]\\n 2:",
     3, 9},
    {"012345",
     "s_mov_b64 vcc, 0\\n s_cbranch_vccz 1f\\n s_mov_b32 s36, 4\\n 1: s_mov_b64 vcc, 1\\n "
     "s_cbranch_vccz 2f\\n s_mov_b32 s37, 8\\n 2:",
     0, 8},
    {"012345",
     "s_mov_b64 vcc, 0\\n s_cbranch_vccnz 1f\\n s_mov_b32 s36, 4\\n 1: s_mov_b64 vcc, 1\\n "
     "s_cbranch_vccnz 2f\\n s_mov_b32 s37, 8\\n 2:",
     4, 0},
    {"012345",
     "s_cmp_eq_u32 0, 0\\n s_cbranch_scc0 1f\\n s_mov_b32 s36, 4\\n 1: s_cbranch_scc1 2f\\n "
     "s_mov_b32 s37, 8\\n 2:",
     4, 0},
    {"012345",
     "s_cbranch_execz 1f\\n s_mov_b32 s36, 4\\n 1: s_cbranch_execnz 2f\\n s_mov_b32 s37, 8\\n 2:",
     4, 0},
    /* denormals of f32 flushed, read back, and kept again */
    {"012345",
     "s_mov_b32 s40, 12\\n s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s40\\n s_getreg_b32 s36, "
     "hwreg(HW_REG_MODE, 4, 4)\\n s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15\\n "
     "s_getreg_b32 s37, hwreg(HW_REG_MODE, 0, 8)",
     12, 0xf0},
    {"345",
     "s_denorm_mode 12\\n s_getreg_b32 s36, hwreg(HW_REG_MODE, 4, 4)\\n s_denorm_mode 15\\n "
     "s_round_mode 0\\n s_getreg_b32 s37, hwreg(HW_REG_MODE, 0, 8)",
     12, 0xf0},
    /* time goes on */
    {"012",
     "s_memtime s[40:41]\\n s_nop 0\\n s_memtime s[42:43]\\n s_waitcnt 0\\n s_cmp_lt_u32 s40, "
     "s42\\n s_cselect_b32 s36, 1, 0\\n s_memrealtime s[42:43]\\n s_waitcnt 0\\n s_cmp_lt_u32 "
     "s40, s42\\n s_cselect_b32 s37, 1, 0",
     1, 1},
    {"345",
     "s_sendmsg_rtn_b64 s[40:41], sendmsg(MSG_RTN_GET_REALTIME)\\n s_nop 0\\n s_sendmsg_rtn_b64 "
     "s[42:43], sendmsg(MSG_RTN_GET_REALTIME)\\n WAIT\\n s_cmp_lt_u32 s40, s42\\n s_cselect_b32 "
     "s36, 1, 0\\n s_sendmsg_rtn_b32 s42, sendmsg(MSG_RTN_GET_DOORBELL)\\n s_mov_b32 s37, 2",
     1, 2},
};

/* ---- Scalar loads: words, or bytes with their sign ------------------------------------------- */

static const struct {
    const char *on, *name;
    unsigned words, bytes; /* bytes: of a narrow one */
    bool is_signed, buffer;
} scalar_loads[] = {
#define SIZES(PREFIX, BUFFER)                                                                      \
    {"012", PREFIX "dword", 1, 0, false, BUFFER}, {"012", PREFIX "dwordx2", 2, 0, false, BUFFER},  \
        {"012", PREFIX "dwordx4", 4, 0, false, BUFFER},                                            \
        {"012", PREFIX "dwordx8", 8, 0, false, BUFFER},                                            \
        {"012", PREFIX "dwordx16", 16, 0, false, BUFFER},                                          \
        {"345", PREFIX "b32", 1, 0, false, BUFFER}, {"345", PREFIX "b64", 2, 0, false, BUFFER},    \
        {"5", PREFIX "b96", 3, 0, false, BUFFER}, {"345", PREFIX "b128", 4, 0, false, BUFFER},     \
        {"345", PREFIX "b256", 8, 0, false, BUFFER}, {"345", PREFIX "b512", 16, 0, false, BUFFER},
    SIZES("s_load_", false) SIZES("s_buffer_load_", true)
#undef SIZES
        {"5", "s_load_u8", 1, 1, false, false},
    {"5", "s_load_i8", 1, 1, true, false},
    {"5", "s_load_u16", 1, 2, false, false},
    {"5", "s_load_i16", 1, 2, true, false},
};

/* ---- Pairs of LDS accesses: byte offsets of the two, at 16 bytes for each lane --------------- */

static const struct {
    const char *on, *load, *store;
    unsigned bytes, unit;
} pairs[] = {
    {"345", "ds_load_2addr_b32", "ds_store_2addr_b32", 4, 4},
    {"345", "ds_load_2addr_b64", "ds_store_2addr_b64", 8, 8},
    {"345", "ds_load_2addr_stride64_b32", "ds_store_2addr_stride64_b32", 4, 256},
    {"345", "ds_load_2addr_stride64_b64", "ds_store_2addr_stride64_b64", 8, 512},
    {"012", "ds_read2_b32", "ds_write2_b32", 4, 4},
    {"012", "ds_read2_b64", "ds_write2_b64", 8, 8},
    {"012", "ds_read2st64_b32", "ds_write2st64_b32", 4, 256},
    {"012", "ds_read2st64_b64", "ds_write2st64_b64", 8, 512},
};

/* ---- Sources --------------------------------------------------------------------------------- */

struct source {
    char text[1 << 16];
    size_t used;
    unsigned kernels, target;
    bool skip; /* the target is not offered: only the rows' names are noted */
};

static void say(struct source *s, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    s->used += (size_t)vsnprintf(s->text + s->used, sizeof s->text - s->used, format, ap);
    va_end(ap);
    assert_true(s->used + 1 < sizeof s->text);
}

/* Whether the target has it; notes the mnemonics of a text that it has and cannot run. */
static bool has(struct source *s, const char *on, const char *text)
{
    char row[64];

    if (!strchr(on, (int)('0' + s->target)))
        return false;
    if (!s->skip)
        return true;
    for (const char *at = text; at; at = strstr(at, "\\n ") ? strstr(at, "\\n ") + 3 : NULL) {
        at += at[0] && at[1] == ':' ? 3 : 0;
        if (sscanf(at, "%63[a-z0-9_]", row) == 1)
            t_gpu_skip_row(row, targets[s->target]);
    }
    return false;
}

static const char begin[] =
    "#define CLOBBERS \"memory\", \"vcc\", \"scc\", \"s36\", \"s37\", \"s40\", \"s41\", \"s42\", "
    "\"s43\", \"s44\", \"s45\", \"s46\", \"s47\", \"s48\", \"s49\", \"s50\", \"s51\", \"s52\", "
    "\"s53\", \"s54\", \"s55\"\n"
    "#define SCALAR(N, TEXT) KERNEL k##N(const u32 *x, u32x4 *r) { u32 a, b; u32x4 rsrc = "
    "{(u32)(u64)x, (u32)((u64)x >> 32), 8192, 0x27000}; asm volatile(\"s_mov_b32 s36, 0\\n "
    "s_mov_b32 s37, 0\\n s_mov_b32 s40, 0\\n \" TEXT \"\\n s_mov_b32 %0, s36\\n s_mov_b32 %1, "
    "s37\" : \"=s\"(a), \"=s\"(b) : \"s\"(x), \"s\"(rsrc) : CLOBBERS); r[LANE] = u32x4{a, b, 0, "
    "0}; }\n"
    "#define LDSP __attribute__((address_space(3)))\n"
    "DEVICE void take(u32 p, u32 q, u32 &d) { d = p; }\n"
    "DEVICE void take(u32 p, u32 q, u32x2 &d) { d = u32x2{p, q}; }\n"
    "DEVICE u32x4 give(u32x2 d) { return u32x4{d.x, d.y, 0, 0}; }\n"
    "DEVICE u32x4 give(u32x4 d) { return d; }\n"
    "#define PAIR(N, T, TD, LOAD, STORE) KERNEL k##N(const u32 *x, u32x4 *r) { SHARED u32 s[1024]; "
    "for (u32 n = LANE; n < 1024; n += 32) s[n] = x[n]; const u32 at = (u32)(LDSP u32 *)s + LANE * "
    "16; T a, b; TD d; take(x[LANE], x[LANE + 32], a); take(x[LANE + 64], x[LANE + 96], b); asm "
    "volatile(\"\" :: \"v\"((LDSP u32 *)s) : \"memory\"); asm volatile(STORE \"\\n WAIT\" :: "
    "\"v\"(at), \"v\"(a), \"v\"(b) : \"memory\"); asm volatile(LOAD \"\\n WAIT\" : \"=v\"(d) : "
    "\"v\"(at) : \"memory\"); r[LANE] = give(d); }\n";

static void replace(char *text, size_t room, const char *word, const char *to)
{
    const size_t from = strlen(word), length = strlen(to);

    for (char *at = text; (at = strstr(at, word)) != NULL; at += length) {
        assert_true(strlen(text) + length + 1 < room);
        memmove(at + length, at + from, strlen(at + from) + 1);
        memcpy(at, to, length);
    }
}

/* ---- Running --------------------------------------------------------------------------------- */

static void run_kernel(struct t_gpu *g, unsigned number)
{
    const struct t_buffer buffers[] = {{x_in, sizeof x_in, QUERN_SIM_READ, "x"},
                                       {r_out, sizeof r_out, QUERN_SIM_WRITE, "r"}};
    char name[16];

    snprintf(name, sizeof name, "k%u", number);
    const struct t_launch launch = {
        .kernel = name, .items = {LANES}, .buffers = buffers, .count = 2};
    memset(r_out, 0, sizeof r_out);
    t_gpu_run(g, &launch);
}

static void load(struct t_gpu *g, struct source *s)
{
    replace(s->text, sizeof s->text, "WAIT", s->target == 5 ? "s_wait_idle" : "s_waitcnt 0");
    t_gpu_load(g, s->text);
}

static void run_hints(struct t_gpu *g, struct source *s)
{
    say(s, "%sSCALAR(0, \"s_mov_b32 s36, 1", begin);
    for (size_t n = 0; n < COUNT(hints); n++)
        if (has(s, hints[n].on, hints[n].text))
            say(s, "\\n %s", hints[n].text);
    say(s, "\")\nKERNEL k1(const u32 *x, u32x4 *r) { r[LANE] = u32x4{3, x[0], 0, 0}; asm "
           "volatile(\"s_endpgm_saved\"); r[LANE] = u32x4{4, 4, 4, 4}; }\n");
    if (s->skip) {
        has(s, "012345", "s_endpgm_saved");
        return;
    }
    load(g, s);
    run_kernel(g, 0);
    assert_int_equal(r_out[0][0], 1);
    run_kernel(g, 1);
    assert_int_equal(r_out[7][0], 3);
    assert_int_equal(r_out[7][1], x_in[0]);
}

static void run_codes(struct t_gpu *g, struct source *s)
{
    say(s, "%s", begin);
    for (unsigned n = 0; n < COUNT(codes); n++)
        if (has(s, codes[n].on, codes[n].text))
            say(s, "SCALAR(%u, \"%s\")\n", n, codes[n].text);
    if (s->skip)
        return;
    load(g, s);
    for (unsigned n = 0; n < COUNT(codes); n++)
        if (has(s, codes[n].on, codes[n].text)) {
            run_kernel(g, n);
            if (r_out[3][0] != codes[n].s36 || r_out[3][1] != codes[n].s37)
                fail_msg("%s: %s: s36 = 0x%x, s37 = 0x%x, not 0x%x, 0x%x", targets[s->target],
                         codes[n].text, r_out[3][0], r_out[3][1], codes[n].s36, codes[n].s37);
        }
}

/* The words that were loaded, each counted in at its place. */
static void run_scalar_loads(struct t_gpu *g, struct source *s)
{
    say(s, "%s", begin);
    for (unsigned n = 0; n < COUNT(scalar_loads); n++) {
        const unsigned words = scalar_loads[n].words;
        if (!has(s, scalar_loads[n].on, scalar_loads[n].name))
            continue;
        say(s, "SCALAR(%u, \"%s ", n, scalar_loads[n].name);
        say(s, words == 1 ? "s40" : "s[40:%u]", 39 + words);
        say(s, ", %%%u, 0x44\\n WAIT", scalar_loads[n].buffer ? 3 : 2);
        for (unsigned k = 0; k < words; k++)
            say(s, "\\n s_mul_i32 s36, s36, 31\\n s_add_u32 s36, s36, s%u", 40 + k);
        say(s, "\")\n");
    }
    if (s->skip)
        return;
    load(g, s);
    for (unsigned n = 0; n < COUNT(scalar_loads); n++) {
        uint32_t want = 0;
        if (!has(s, scalar_loads[n].on, scalar_loads[n].name))
            continue;
        for (unsigned k = 0; k < scalar_loads[n].words; k++)
            want = want * 31 + x_in[0x44 / 4 + k];
        if (scalar_loads[n].bytes == 1)
            want = scalar_loads[n].is_signed ? (uint32_t)(int8_t)want : (uint8_t)want;
        if (scalar_loads[n].bytes == 2)
            want = scalar_loads[n].is_signed ? (uint32_t)(int16_t)want : (uint16_t)want;
        run_kernel(g, n);
        if (r_out[0][0] != want)
            fail_msg("%s: %s: 0x%x, not 0x%x", targets[s->target], scalar_loads[n].name,
                     r_out[0][0], want);
    }
}

static void check_pair(const struct source *s, size_t n, unsigned first, unsigned second)
{
    static uint32_t lds[1024];
    const unsigned words = pairs[n].bytes / 4, unit = pairs[n].unit / 4;

    memcpy(lds, x_in, sizeof lds);
    for (unsigned l = 0; l < LANES; l++)
        for (unsigned k = 0; k < words; k++) {
            lds[4 * l + first * unit + k] = x_in[l + 32 * k];
            lds[4 * l + second * unit + k] = x_in[l + 64 + 32 * k];
        }
    /* what is loaded: the places the other way round */
    for (unsigned l = 0; l < LANES; l++)
        for (unsigned k = 0; k < words; k++)
            if (r_out[l][k] != lds[4 * l + second * unit + k] ||
                r_out[l][words + k] != lds[4 * l + first * unit + k])
                fail_msg("%s: %s behind %s, lane %u: 0x%x, 0x%x, not 0x%x, 0x%x",
                         targets[s->target], pairs[n].load, pairs[n].store, l, r_out[l][k],
                         r_out[l][words + k], lds[4 * l + second * unit + k],
                         lds[4 * l + first * unit + k]);
}

static void run_pairs(struct t_gpu *g, struct source *s)
{
    say(s, "%s", begin);
    for (unsigned n = 0; n < COUNT(pairs); n++) {
        const bool wide = pairs[n].bytes == 8;
        if (!has(s, pairs[n].on, pairs[n].load) || !has(s, pairs[n].on, pairs[n].store)) {
            has(s, pairs[n].on, pairs[n].store);
            continue;
        }
        /* stored at one and three units, or at none and one; loaded the other way round */
        const unsigned first = wide ? 0 : 1, second = wide ? 1 : 3;
        say(s,
            "PAIR(%u, %s, \"%s %%0, %%1 offset0:%u offset1:%u\", \"%s %%0, %%1, %%2 offset0:%u "
            "offset1:%u\")\n",
            n, wide ? "u32x2, u32x4" : "u32, u32x2", pairs[n].load, second, first, pairs[n].store,
            first, second);
    }
    if (s->skip)
        return;
    load(g, s);
    for (unsigned n = 0; n < COUNT(pairs); n++)
        if (has(s, pairs[n].on, pairs[n].load)) {
            const bool wide = pairs[n].bytes == 8;
            run_kernel(g, n);
            check_pair(s, n, wide ? 0 : 1, wide ? 1 : 3);
        }
}

static void run_target(unsigned target, enum quern_sim_check check)
{
    void (*const parts[])(struct t_gpu *, struct source *) = {run_hints, run_codes,
                                                              run_scalar_loads, run_pairs};
    static struct source s;
    struct target_id id;
    struct t_gpu g;
    uint64_t random = 5;

    for (unsigned n = 0; n < WORDS; n++)
        x_in[n] = (uint32_t)t_random(&random);
    assert_int_equal(target_parse(targets[target], &id), QUERN_OK);
    if (target_simulated(id.target))
        t_gpu_open(&g, targets[target], "", check, QUERN_ISA_AUTO, 0);
    for (size_t n = 0; n < COUNT(parts); n++) {
        s = (struct source){.target = target, .skip = !target_simulated(id.target)};
        parts[n](&g, &s);
    }
    if (target_simulated(id.target))
        t_gpu_close(&g);
}

#define TARGET(NUMBER, NAME, CHECK)                                                                \
    static void NAME(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_target(NUMBER, CHECK);                                                                 \
    }
TARGET(0, gfx90a, QUERN_CHECK_FULL)
TARGET(1, gfx942, QUERN_CHECK_FAST)
TARGET(2, gfx950, QUERN_CHECK_FULL)
TARGET(3, gfx1100, QUERN_CHECK_FAST)
TARGET(4, gfx1151, QUERN_CHECK_FULL)
TARGET(5, gfx1201, QUERN_CHECK_FULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx90a),  cmocka_unit_test(gfx942),  cmocka_unit_test(gfx950),
        cmocka_unit_test(gfx1100), cmocka_unit_test(gfx1151), cmocka_unit_test(gfx1201),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
