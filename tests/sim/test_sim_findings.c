/* SPDX-License-Identifier: MIT */
/*
 * What a finding says: that the instruction it names stands at the pc it names, and who did what to
 * which bytes. Each kernel has one fault, and a twin that has none; more of them are in
 * test_sim_faults.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/launch.h"
#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

static const char start[] = "#define UNDEFINED(x) asm volatile(\"\" : \"=v\"(x))\n"
                            "#define UNDEFINED_SCALAR(x) asm volatile(\"\" : \"={s77}\"(x))\n"
                            "#define LDS __attribute__((address_space(3)))\n"
                            "#define CONST4 const __attribute__((address_space(4)))\n"
                            "#define KERNARG ((u64)__builtin_amdgcn_kernarg_segment_ptr())\n";

/* Kernels take a (read only), b (read and write), c (write only), 1024 bytes each; WRONG is 1 or 0.
 */
static const struct mistake {
    const char *name;
    bool full; /* only the full check finds it */
    uint32_t groups, items;
    const char *body;
    const char *insn;  /* the mnemonic that is stopped at */
    const char *where; /* ", workgroup …" and what follows, up to the colon */
    const char *what;
} mistakes[] = {
    {"arguments read past their end", false, 1, 1,
     "u32 v; asm volatile(\"s_load_b32 %0, %1, 0x14\\n s_waitcnt lgkmcnt(0)\" : \"=s\"(v) : "
     "\"s\"(KERNARG + WRONG * 4)); c[LANE] = v;",
     "s_load_b32", "workgroup 0,0,0, wave 0",
     "out of bounds, offset 24 of buffer \"kernarg\", which has "
     "24 bytes"},
    {"scalar load that is half outside", false, 1, 1,
     "u64 v; asm volatile(\"s_load_b64 %0, %1, 0x3f8\\n s_waitcnt lgkmcnt(0)\" : \"=s\"(v) : "
     "\"s\"(a + WRONG)); c[LANE] = (u32)v;",
     "s_load_b64", "workgroup 0,0,0, wave 0", "offset 1020 of buffer \"a\", which has 1024 bytes"},
    {"scalar load by a descriptor that reaches too far", false, 1, 1,
     "u32x4 r = {(u32)(u64)a, (u32)((u64)a >> 32), 1024 + 8 * WRONG, 0x31016000}, v;\n"
     "asm volatile(\"s_buffer_load_b128 %0, %1, 0x3fc\\n s_waitcnt lgkmcnt(0)\" : \"=s\"(v) : "
     "\"s\"(r)); c[LANE] = v.x + v.y + v.z + v.w;",
     "s_buffer_load_b128", "workgroup 0,0,0, wave 0", "read of 12 bytes"},
    {"atomic on a buffer that may only be read", false, 2, 64,
     "__atomic_fetch_add(WRONG && GROUP && LANE == 35 ? (u32 *)a + 9 : b + LANE, 1u, 0); "
     "c[GROUP * 64 + LANE] = 0;",
     "global_atomic_add_u32", "workgroup 1,0,0, wave 1, lane 3",
     "offset 36 of buffer \"a\", which may only be read"},
    {"LDS atomic out of range", false, 1, 64,
     "SHARED u32 s[64]; s[LANE] = 0; barrier(); asm volatile(\"ds_add_u32 %0, %1\\n s_waitcnt "
     "lgkmcnt(0)\" :: \"v\"((u32)(LDS u32 *)s + LANE * 4 + 4 * WRONG), \"v\"(1) : \"memory\"); "
     "barrier(); c[LANE] = s[LANE];",
     "ds_add_u32", "workgroup 0,0,0, wave 1, lane 31",
     "LDS access of 4 bytes at 0x100 is outside the 256 bytes of the"},
    {"LDS pair of which one is out of range", false, 1, 32,
     "SHARED u32 s[64]; s[LANE] = s[LANE + 32] = 0; barrier(); u64 v; if (WRONG) asm "
     "volatile(\"ds_load_2addr_b32 %0, %1 offset0:0 offset1:33\\n s_waitcnt lgkmcnt(0)\" : "
     "\"=v\"(v) : \"v\"((u32)(LDS u32 *)s + LANE * 4)); else asm volatile(\"ds_load_2addr_b32 %0, "
     "%1 offset0:0 offset1:32\\n s_waitcnt lgkmcnt(0)\" : \"=v\"(v) : \"v\"((u32)(LDS u32 *)s + "
     "LANE * 4)); c[LANE] = (u32)v;",
     "ds_load_2addr_b32", "workgroup 0,0,0, wave 0, lane 31",
     "LDS access of 4 bytes at 0x100 is outside the 256 bytes of the"},
    {"trap", false, 1, 32, "if (WRONG) __builtin_trap(); c[LANE] = 1;", "s_trap",
     "workgroup 0,0,0, wave 0", "trap"},
    {"undefined condition of a branch on VCC", true, 1, 32,
     "u32 x = 1; if (WRONG) UNDEFINED(x); asm volatile(\"v_cmp_lt_u32 vcc_lo, 5, %0\\n s_cbranch_"
     "vccnz 1f\\n s_nop 1\\n 1:\" :: \"v\"(x) : \"vcc\"); c[LANE] = 1;",
     "s_cbranch_vccnz", "workgroup 0,0,0, wave 0", "undefined bits"},
    {"undefined value read from a lane decides a branch", true, 1, 32,
     "u32 x; UNDEFINED(x); x = WRONG && LANE == 7 ? x : LANE; if (__builtin_amdgcn_readlane(x, 7) "
     "> "
     "9) asm volatile(\"s_nop 1\"); c[LANE] = 1;",
     "s_cbranch_", "workgroup 0,0,0, wave 0", "undefined bits"},
    {"undefined address of a scalar load", true, 1, 1,
     "u32 x = 0, v; if (WRONG) UNDEFINED_SCALAR(x); asm volatile(\"s_load_b32 %0, %1, 0x0\\n "
     "s_waitcnt lgkmcnt(0)\" : \"=s\"(v) : \"s\"(a + (x & 1))); c[LANE] = v;",
     "s_load_b32", "workgroup 0,0,0, wave 0", "scalar register 77, which was never written"},
    {"undefined operand of an atomic", true, 1, 32,
     "u32 x; UNDEFINED(x); x = WRONG && LANE == 9 ? x : 1; __atomic_fetch_add(b + LANE, x, 0); "
     "c[LANE] = 1;",
     "global_atomic_add_u32", "workgroup 0,0,0, wave 0, lane 9", "which was never written"},
};
#define MISTAKES (sizeof mistakes / sizeof *mistakes)

static quern_status run(struct t_gpu *g, const struct mistake *m)
{
    static uint32_t a[256], b[256], c[256];
    const struct t_buffer buffers[] = {{a, sizeof a, QUERN_SIM_READ, "a"},
                                       {b, sizeof b, QUERN_SIM_READ_WRITE, "b"},
                                       {c, sizeof c, QUERN_SIM_WRITE, "c"}};
    const struct t_launch launch = {
        .kernel = "k", .groups = {m->groups}, .items = {m->items}, .buffers = buffers, .count = 3};

    memset(b, 0, sizeof b);
    return t_gpu_try(g, &launch);
}

/* The text of the instruction at a pc, which counts from the kernel's first. */
static const char *text_at(const struct quern_sim_module *m, uint32_t pc)
{
    for (size_t n = 0; n < m->insn_count; n++)
        if (m->notes[n].offset == m->kernels[0].begin + pc && m->notes[n].text)
            return m->notes[n].text;
    return "";
}

static void check_message(const struct t_gpu *g, const struct mistake *m, const char *said)
{
    char text[256], where[128];
    unsigned pc;

    if (sscanf(said, "k: pc 0x%x `%255[^`]`, %127[^:]: ", &pc, text, where) != 3)
        fail_msg("%s: no finding has the form of \"%s\"", m->name, said);
    if (strcmp(text, text_at(g->module, pc)) || strncmp(text, m->insn, strlen(m->insn)))
        fail_msg("%s: at 0x%x stands `%s`: %s", m->name, pc, text_at(g->module, pc), said);
    if (strcmp(where, m->where) || !strstr(said, m->what))
        fail_msg("%s: not \"%s: … %s\" but: %s", m->name, m->where, m->what, said);
}

static void check_mistake(struct t_gpu *fast, struct t_gpu *full, const struct mistake *m)
{
    char source[4096];

    for (int wrong = 0; wrong < 2; wrong++) {
        snprintf(source, sizeof source,
                 "%s#define WRONG %d\nKERNEL k(const u32 *a, u32 *b, u32 *c) {\n%s\n}\n", start,
                 wrong, m->body);
        t_gpu_load_two(fast, full, source);
        for (int check = 0; check < 2; check++) {
            struct t_gpu *const g = check ? full : fast;
            const quern_status status = run(g, m);
            if (!wrong || (m->full && !check)) {
                if (status != QUERN_OK)
                    fail_msg("%s, %s kernel: %s", m->name, wrong ? "wrong" : "right",
                             quern_last_error()->message);
                continue;
            }
            if (status != QUERN_E_FAULT)
                fail_msg("%s: not caught by the %s check", m->name, check ? "full" : "fast");
            check_message(g, m, quern_last_error()->message);
        }
    }
}

static void every_finding(void **state)
{
    struct t_gpu fast, full;

    (void)state;
    t_gpu_open(&fast, "gfx1151", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 100000);
    t_gpu_open(&full, "gfx1151", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 100000);
    for (size_t n = 0; n < MISTAKES; n++)
        check_mistake(&fast, &full, &mistakes[n]);
    t_gpu_close(&fast);
    t_gpu_close(&full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_finding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
