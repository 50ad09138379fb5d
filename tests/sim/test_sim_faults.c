/* SPDX-License-Identifier: MIT */
/* Each mistake that the software GPU catches, on each of the three families: a kernel that makes
 * it, and its corrected twin. */
#include "mistake.h"

static const struct mistake mistakes[] = {
    {"read past the end",
     false,
     8,
     32,
     "c[GROUP * 32 + LANE] = a[GROUP * 32 + LANE + WRONG];",
     {"read of 4 bytes", "offset 1024 of buffer \"a\", which has 1024 bytes", "lane 31"}},
    {"read before the beginning",
     false,
     1,
     32,
     "c[LANE] = a[(i32)LANE - WRONG];",
     {"4 bytes before buffer \"a\"", "lane 0", "workgroup 0,0,0"}},
    {"wide read past the end",
     false,
     1,
     32,
     "const u32x4 v = *(const u32x4 *)(a + 252 + WRONG * 2); c[LANE] = v.x + v.y + v.z + v.w;",
     {"read of 16 bytes", "offset 1016 of buffer \"a\"", NULL}},
    {"write past the end",
     false,
     8,
     32,
     "c[GROUP * 32 + LANE + WRONG] = LANE;",
     {"write of 4 bytes", "offset 1024 of buffer \"c\"", "workgroup 7,0,0, wave 0, lane 31"}},
    {"write to a buffer that may only be read",
     false,
     1,
     32,
     "(WRONG ? (u32 *)a : c)[LANE] = LANE;",
     {"buffer \"a\", which may only be read", NULL, NULL}},
    {"arguments read beyond their end",
     false,
     1,
     32,
     "u32 v; asm volatile(S_LOAD \"%0, %1, %2\" LOADED : \"=s\"(v) : "
     "\"s\"(KERNARG), \"i\"(8 + WRONG * 24)); c[LANE] = v;",
     {"read of 4 bytes", "\"kernarg\"", "s_load_"}},
    {"atomic past the end",
     false,
     1,
     32,
     "__atomic_fetch_add(b + 255 + WRONG, 1u, 0); c[LANE] = 0;",
     {"atomic access of 4 bytes", "offset 1024 of buffer \"b\"", NULL}},
    {"null pointer",
     false,
     1,
     32,
     "c[LANE] = *(WRONG ? (const u32 *)LANE : a);",
     {"read of 4 bytes at 0x0", "out of bounds, near no buffer; is a pointer null?", NULL}},
    /* loads and stores may be unaligned (test_sim_memory.c), atomics and scalar loads not */
    {"misaligned atomic",
     false,
     1,
     32,
     "char *p = (char *)b + WRONG + LANE * 4 * (1 - WRONG);\n"
     "asm volatile(ATOMIC_ADD \"%0, %1, off\" STORED :: \"v\"(p), \"v\"(1) : \"memory\"); c[LANE] "
     "= 0;",
     {"misaligned access of 4 bytes", "offset 1 of buffer \"b\"", "multiple of 4"}},
    {"misaligned LDS atomic",
     false,
     1,
     32,
     "SHARED u64 s[33]; s[LANE] = s[LANE + 1] = 0; barrier(); u64 v;\n"
     "asm volatile(\"ds_add_rtn_u64 %0, %1, %2\" LOADED : \"=v\"(v) : "
     "\"v\"((u32)(LDS u64 *)s + 8 * LANE + 4 * WRONG), \"v\"(1ull) : \"memory\");\n"
     "c[LANE] = (u32)v;",
     {"misaligned LDS access of 8 bytes", "ds_add_rtn_u64", "multiple of 8"}},
    {"misaligned scalar load",
     false,
     1,
     32,
     "u32 v; asm volatile(S_LOAD \"%0, %1, %2\" LOADED : \"=s\"(v) : "
     "\"s\"((u64)a + 2 * WRONG), \"i\"(0)); c[LANE] = v;",
     {"misaligned scalar load of 4 bytes", "offset 2 of buffer \"a\"", "multiple of 4"}},
    {"register number out of range",
     false,
     1,
     32,
     "u32 v; asm volatile(\"s_mov_b32 m0, %1\\n v_movrels_b32 %0, v0\" : \"=v\"(v) : "
     "\"i\"(WRONG * 255) : \"m0\"); c[LANE] = v & 0;",
     {"M0 is 0xff", "v_movrels_b32", "vector registers of the wave"},
     RDNA},
    {"index of a register out of range",
     false,
     1,
     32,
     "u32 v; asm volatile(\"s_set_gpr_idx_on %1, gpr_idx(SRC0)\\n v_mov_b32 %0, v0\\n "
     "s_set_gpr_idx_off\" : \"=v\"(v) : \"s\"(WRONG * 255) : \"m0\"); c[LANE] = v & 0;",
     {"register v0 is indexed by 255", "v_mov_b32", NULL},
     CDNA},
    {"undefined register number",
     true,
     1,
     32,
     "u32 v, n = 0; if (WRONG) UNDEFINED_SCALAR(n);\n"
     "asm volatile(\"s_and_b32 m0, %1, 1\\n v_movrels_b32 %0, v0\" : \"=v\"(v) : \"s\"(n)"
     " : \"m0\"); c[LANE] = v & 0;",
     {"reach a register number", "v_movrels_b32", "never written"},
     RDNA},
    {"undefined index of a register",
     true,
     1,
     32,
     "u32 v, n = 0; if (WRONG) UNDEFINED_SCALAR(n);\n"
     "asm volatile(\"s_set_gpr_idx_on %1, gpr_idx(SRC0)\\n v_mov_b32 %0, v0\\n "
     "s_set_gpr_idx_off\" : \"=v\"(v) : \"s\"(n & 1) : \"m0\"); c[LANE] = v & 0;",
     {"reach control flow or a mode", "s_set_gpr_idx_on", "never written"},
     CDNA},
    {"undefined bits behind a register number",
     true,
     1,
     32,
     "u32 v; asm volatile(\"v_mov_b32 v41, 5\\n s_mov_b32 m0, %1\\n v_movrels_b32 %0, v40\" : "
     "\"=v\"(v) : \"i\"(1 + WRONG) : \"v40\", \"v41\", \"v42\", \"m0\"); c[LANE] = v;",
     {"reach a store", "of v42, which was never written", NULL},
     RDNA},
    {"undefined bits behind an index",
     true,
     1,
     32,
     "u32 v; asm volatile(\"v_mov_b32 v41, 5\\n s_set_gpr_idx_on %1, gpr_idx(SRC0)\\n\"\n"
     "\"v_mov_b32 %0, v40\\n s_set_gpr_idx_off\" : \"=v\"(v) : \"s\"(1 + WRONG) :\n"
     "\"v40\", \"v41\", \"v42\", \"m0\"); c[LANE] = v;",
     {"reach a store", "of v42, which was never written", NULL},
     CDNA},
    {"LDS out of range",
     false,
     1,
     32,
     "SHARED u32 s[32]; *(volatile LDS u32 *)((LDS u32 *)s + LANE + WRONG) = LANE; barrier();\n"
     "c[LANE] = ((LDS u32 *)s)[LANE];",
     {"LDS access of 4 bytes at 0x80", "outside the 128 bytes", "wave 0, lane 31"}},
    {"scratch out of range",
     false,
     1,
     32,
     "u32 t[8]; for (u32 n = 0; n < 8; n++) t[n] = a[n]; asm volatile(\"\" :: \"v\"(t));\n"
     "const u32 n = a[LANE & 7] ? 7 : 0;\n"
     "c[LANE] = *(volatile u32 *)((char *)t + (n + WRONG * 4096) * 4);",
     {"outside the", "of a work-item", NULL}},
    {"unknown instruction",
     false,
     1,
     32,
     "if (WRONG) asm volatile(\"s_sethalt 0\"); c[LANE] = 1;",
     {"unknown instruction", "`s_sethalt 0`", "pc 0x"}},
    {"bytes that are no instruction",
     false,
     1,
     32,
     "if (WRONG) asm volatile(\".long 0xffffffff\"); c[LANE] = 1;",
     {"unknown instruction", "`.long 0xffffffff`", NULL}},
    {"endless loop",
     false,
     1,
     32,
     "u32 n = 0; while (WRONG || n < 100) { asm volatile(\"\" : \"+v\"(n)); n++; } c[LANE] = n;",
     {"endless loop", "the limit is 100000", "s_"}},
    {"barrier that not all waves reach",
     false,
     1,
     TWO_WAVES,
     "if (!WRONG || LANE < WAVE) barrier(); c[LANE] = 1;",
     {"barrier that 1 of the 2 waves", "s_barrier", "wave 0"}},
    {"code that runs past its symbol",
     false,
     1,
     32,
     "c[LANE] = 1; if (WRONG) __builtin_unreachable();",
     {"past the end of its symbol", NULL, NULL}},
    {"jump to an address that is no instruction",
     false,
     1,
     32,
     "if (WRONG) asm volatile(\"s_setpc_b64 %0\" :: \"s\"(a)); c[LANE] = 1;",
     {"jump to 0x7", "no instruction of this code object", "s_setpc_b64"}},

    {"undefined register stored",
     true,
     1,
     32,
     "u32 x = 0; if (WRONG) UNDEFINED(x); c[LANE] = x;",
     {"a store to memory", "which was never written", "lane 0"}},
    {"undefined sum stored",
     true,
     1,
     32,
     "u32 x = 3; if (WRONG) UNDEFINED(x); c[LANE] = x * 4 + 1;",
     {"a store to memory", "undefined bits 0xfffff", NULL}},
    {"undefined bits masked away are legal, others are not",
     true,
     1,
     32,
     "u32 x; UNDEFINED(x); c[LANE] = WRONG ? x & 0xff : x & 0;",
     {"undefined bits 0xff reach a store", NULL, NULL}},
    {"undefined bits shifted out of a half are legal, those that stay are not",
     true,
     1,
     32,
     "u32 x, y; UNDEFINED(x); x = (x & 0xff00) | 5;\n"
     "asm volatile(\"v_lshlrev_b16 %0, %1, %2\" : \"=v\"(y) : \"v\"(WRONG ? 4 : 8), "
     "\"v\"(x)); c[LANE] = y & 0xffff;",
     {"undefined bits 0xf000 reach a store", NULL, NULL}},
    {"undefined address",
     true,
     1,
     32,
     "u32 x = 0; if (WRONG) UNDEFINED(x); c[LANE] = a[x & 7];",
     {"reach an address", NULL, NULL}},
    {"undefined condition of lanes",
     true,
     1,
     32,
     "u32 x = LANE; if (WRONG) UNDEFINED(x); if (x > 5) c[LANE] = 1;",
     {"EXEC", NULL, NULL}},
    {"undefined uniform condition",
     true,
     1,
     32,
     "u32 x = 1; if (WRONG) UNDEFINED_SCALAR(x); if (x > 5) asm volatile(\"s_nop 1\"); c[LANE] = "
     "1;",
     {"branch condition (SCC)", "scalar register 77", NULL}},
    {"selection by an undefined condition",
     true,
     1,
     32,
     "u32 x = 0, r; if (WRONG) UNDEFINED(x); asm volatile(\"v_cmp_lt_u32 \" VCC \", 5, %1\\n"
     "s_nop 1\\n v_cndmask_b32 %0, 1, %2, \" VCC : \"=v\"(r) : \"v\"(x), \"v\"(LANE) : \"vcc\"); "
     "c[LANE] = r;",
     {"a store to memory", NULL, NULL}},
    {"undefined lane selected away is legal, selected is not",
     true,
     1,
     32,
     "u32 x; UNDEFINED(x); c[LANE] = (LANE & 1) == WRONG ? LANE : __builtin_amdgcn_update_dpp(x, "
     "LANE, "
     "0x111, 0xf, 0xf, WRONG == 0);",
     {"a store to memory", "lane 0", NULL}},
    {"buffer read before it is written",
     true,
     1,
     32,
     "u32 *volatile p = c; if (!WRONG) p[LANE] = 5; u32 *volatile q = c;\n"
     "__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, \"agent\"); b[LANE] = q[LANE] + 1;",
     {"a store to memory", "buffer \"c\", which was never written", NULL}},
    {"LDS read before it is written",
     true,
     1,
     32,
     "SHARED volatile u32 s[64]; if (LANE < 32 - WRONG) s[LANE] = 1; barrier(); c[LANE] = s[LANE];",
     {"a store to memory", "LDS 0x7c", "lane 31"}},
    {"scratch read before it is written",
     true,
     1,
     32,
     "volatile u32 t[8]; const u32 n = a[LANE & 3] & 7; for (u32 k = WRONG; k < 8; k++) t[k] = k;\n"
     "c[LANE] = t[n];",
     {"a store to memory", "from scratch offset 0, which was never written", "lane 0"}},
    {"undefined LDS read by another wave",
     true,
     1,
     TWO_WAVES,
     "SHARED volatile u32 s[2 * WAVE]; u32 x = LANE; if (WRONG) UNDEFINED(x); s[LANE] = x;\n"
     "barrier(); b[LANE] = s[LANE ^ WAVE] * 0 + 1; c[LANE] = s[LANE ^ WAVE] & 0;",
     {"LDS that another wave reads", "written so by wave 1", "wave 0, lane 0"}},
    {"LDS race, write and read",
     true,
     1,
     TWO_WAVES,
     "SHARED volatile u32 s[2 * WAVE]; s[LANE] = 0; barrier(); s[LANE] = LANE;\n"
     "if (!WRONG) barrier(); else __builtin_amdgcn_wave_barrier(); c[LANE] = s[LANE ^ WAVE];",
     {"LDS race", "since the last barrier", "wave"}},
    {"LDS race, two writes",
     true,
     1,
     TWO_WAVES,
     "SHARED volatile u32 s[2 * WAVE]; s[WRONG ? LANE % WAVE : LANE] = LANE; barrier();\n"
     "c[LANE] = s[LANE % WAVE];",
     {"LDS race", "written by wave 0", "is written here"}},
    {"LDS race, read and later write",
     true,
     1,
     TWO_WAVES,
     "SHARED volatile u32 s[2 * WAVE]; s[LANE] = 1; barrier(); u32 v = s[LANE % WAVE];\n"
     "if (!WRONG) barrier(); if (LANE >= WAVE) s[LANE % WAVE] = v + 1; barrier();\n"
     "c[LANE] = s[LANE];",
     {"LDS race", "read by several waves", "is written here"}},
    {"LDS bytes of one word, two waves: legal, unless they are the same byte",
     true,
     1,
     TWO_WAVES,
     "SHARED volatile u8 s[2 * WAVE]; s[LANE / WAVE * (1 - WRONG) + LANE % WAVE * 2] = 1;\n"
     "barrier(); c[LANE] = s[LANE % WAVE * 2];",
     {"LDS race", "is written here", NULL}},
    {"LDS atomic and plain access",
     true,
     1,
     TWO_WAVES,
     "SHARED u32 s; if (LANE == 0) s = 0; barrier(); __atomic_fetch_add(&s, 1u, 0);\n"
     "if (!WRONG) barrier(); if (LANE == WAVE + 8) *(volatile u32 *)&s = 7; barrier();\n"
     "c[LANE] = s;",
     {"LDS race", NULL, NULL}},
    {"global race, two writes",
     true,
     2,
     32,
     "c[(WRONG ? 0 : GROUP * 32) + LANE] = LANE;",
     {"global race", "buffer \"c\"", "workgroup number"}},
    {"global race, write and read",
     true,
     2,
     32,
     "b[GROUP * 32 + LANE] = 1; c[GROUP * 32 + LANE] = ((volatile u32 *)b)[(GROUP ^ WRONG) * 32 + "
     "LANE];",
     {"global race", "buffer \"b\"", NULL}},
    {"global atomic and plain access",
     true,
     2,
     32,
     "__atomic_fetch_add(b, 1u, 0); if (WRONG && LANE == 3) ((volatile u32 *)b)[0] = 5;\n"
     "c[GROUP * 32 + LANE] = 1;",
     {"global race", "offset 0 of buffer \"b\"", NULL}},
};

static void every_mistake(void **state)
{
    (void)state;
    check_mistakes(mistakes, COUNT(mistakes));
}

/* Many workgroups are wrong; the finding is always that of the first. */
static void the_first_finding_is_reported(void **state)
{
    static uint32_t c[4096];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {
        .kernel = "k", .groups = {512}, .items = {32}, .buffers = &buffer, .count = 1};
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx1100", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    t_gpu_load(&g, "KERNEL k(u32 *c) { c[GROUP * 32 + LANE] = 1; }");
    for (unsigned n = 0; n < 20; n++) {
        assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_FAULT);
        assert_non_null(strstr(quern_last_error()->message, "workgroup 128,0,0, wave 0, lane 0"));
    }
    t_gpu_close(&g);
}

/* An address that was mapped before is not one of another buffer soon after. */
static void access_to_a_freed_buffer(const char *target)
{
    static uint32_t old[64], new[64], c[64];
    struct t_gpu g;
    uint64_t address[2];

    t_gpu_open(&g, target, "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    t_gpu_load(&g, "KERNEL k(u32 *c, const u32 *a) { c[LANE] = a[LANE]; }");
    assert_int_equal(quern_sim_map(g.sim, old, sizeof old, QUERN_SIM_READ, "old", &address[0]), 0);
    assert_int_equal(quern_sim_unmap(g.sim, address[0]), QUERN_OK);
    assert_int_equal(quern_sim_map(g.sim, new, sizeof new, QUERN_SIM_READ, "new", &address[1]), 0);
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    struct t_launch launch = {.kernel = "k",
                              .items = {32},
                              .buffers = &buffer,
                              .count = 1,
                              .extra = &address[0],
                              .extra_bytes = 8};
    assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_FAULT);
    assert_non_null(strstr(quern_last_error()->message, "lane 0: read of 4 bytes"));
    assert_non_null(
        strstr(quern_last_error()->message, "offset 0 of buffer \"old\", which was unmapped"));
    launch.extra = &address[1];
    t_gpu_run(&g, &launch);
    assert_int_equal(quern_sim_unmap(g.sim, address[0]), QUERN_E_ARGUMENT);
    assert_int_equal(quern_sim_unmap(g.sim, address[1]), QUERN_OK);
    t_gpu_close(&g);
}

static void freed_buffers(void **state)
{
    (void)state;
    for (size_t n = 0; n < FAMILIES; n++)
        access_to_a_freed_buffer(families[n].target);
}

/* What the host gets wrong is refused before anything runs. */
static void wrong_launches_on(const char *target)
{
    static uint32_t c[64];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    struct t_launch launch = {.kernel = "k", .items = {32}, .buffers = &buffer, .count = 1};
    const uint32_t extra = 7;
    struct t_gpu g;

    t_gpu_open(&g, target, "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    t_gpu_load(&g, "KERNEL k(u32 *c, u32 n) { c[LANE] = n; }");
    assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_ARGUMENT); /* n is missing */
    assert_non_null(strstr(quern_last_error()->message, "8 bytes of arguments: kernel k takes 12"));
    launch.extra = &extra;
    launch.extra_bytes = 4;
    t_gpu_run(&g, &launch);
    assert_int_equal(c[31], 7);
    launch.kernel = "other";
    assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_ARGUMENT);
    assert_non_null(strstr(quern_last_error()->message, "no kernel \"other\""));
    launch.kernel = "k";
    launch.items[0] = 2048;
    assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_ARGUMENT);
    launch.items[0] = 32;
    launch.lds_bytes = 70000;
    assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_ARGUMENT);
    t_gpu_close(&g);
}

static void wrong_launches(void **state)
{
    (void)state;
    for (size_t n = 0; n < FAMILIES; n++)
        wrong_launches_on(families[n].target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake),
        cmocka_unit_test(the_first_finding_is_reported),
        cmocka_unit_test(freed_buffers),
        cmocka_unit_test(wrong_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
