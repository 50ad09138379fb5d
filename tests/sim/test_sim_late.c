/* SPDX-License-Identifier: MIT */
/*
 * Registers and LDS that are used too early: before a wait says that a load has delivered them, or
 * too soon behind an instruction that writes them late. The full check finds what reaches a result,
 * and says what was needed; the fast one never does. Each mistake has a twin that waits.
 */
#include "mistake.h"

/* What differs between the processors, and FIX, which is in the twin alone: TEXT there. */
#define LATE                                                                                       \
    "#if defined(__GFX12__)\n#define WAIT_LOADS(n) \"s_wait_loadcnt \" #n \"\\n\"\n"               \
    "#define WAIT_LDS(n) \"s_wait_dscnt \" #n \"\\n\"\n#else\n"                                    \
    "#define WAIT_LOADS(n) \"s_waitcnt vmcnt(\" #n \")\\n\"\n"                                     \
    "#define WAIT_LDS(n) \"s_waitcnt lgkmcnt(\" #n \")\\n\"\n#endif\n"                             \
    "#if defined(__GFX9__)\n#define LOAD \"global_load_dword \"\n"                                 \
    "#define DS_STORE \"ds_write_b32 \"\n"                                                         \
    "#else\n#define LOAD \"global_load_b32 \"\n#define DS_STORE \"ds_store_b32 \"\n#endif\n"
#define FIX(TEXT) "\n#if WRONG\n#define FIX \"\"\n#else\n#define FIX " TEXT "\n#endif\n"

static const struct mistake counters[] = {
    {.name = "the register of a load, read before its wait",
     .full = true,
     .groups = 1,
     .items = 32,
     .body = LATE FIX("WAIT_LOADS(0)") "u32 v, w; asm volatile(LOAD \"%0, %2, off\\n\" FIX "
                                       "\"v_mov_b32 %1, %0\\n\" WAIT_LOADS(0) : \"=&v\"(v), "
                                       "\"=v\"(w) : \"v\"(a + LANE)); "
                                       "c[LANE] = w;",
     .found = {"undefined bits 0xffffffff reach a store to memory", "`global_load_",
               "still owes: a wait for "}},
    {.name = "a wait that leaves one load too many",
     .full = true,
     .groups = 1,
     .items = 32,
     .body =
         LATE "\n#if WRONG\n#define FIX WAIT_LOADS(2)\n#else\n#define FIX WAIT_LOADS(1)\n"
              "#endif\nu32 v, w, x; asm volatile(LOAD \"%0, %3, off\\n\" LOAD \"%1, %3, off\\n\" "
              "FIX \"v_mov_b32 %2, %0\\n\" WAIT_LOADS(0) : \"=&v\"(v), \"=&v\"(w), \"=&v\"(x) : "
              "\"v\"(a + LANE)); c[LANE] = x;",
     .found = {"reach a store to memory", "still owes: a wait for ", "cnt 1 is needed"}},
    {.name = "the register of a load, written before its wait",
     .full = true,
     .groups = 1,
     .items = 32,
     .body = LATE FIX("WAIT_LOADS(0)") "u32 v; asm volatile(LOAD \"%0, %1, off\\n\" FIX "
                                       "\"v_mov_b32 %0, 7\\n\" WAIT_LOADS(0) : \"=&v\"(v) : "
                                       "\"v\"(a + LANE)); c[LANE] = v;",
     .found = {"reach a store to memory", "still owes: a wait for "}},
    {.name = "a scalar load, awaited where another is under way",
     .full = true,
     .groups = 1,
     .items = 32,
     .body =
         LATE "\n#if WRONG\n#define N 1\n#else\n#define N 0\n#endif\n#if defined(__GFX12__)\n"
              "#define FIX \"s_wait_kmcnt \"\n#define END \"\\n\"\n#else\n#define FIX \"s_waitcnt "
              "lgkmcnt(\"\n#define END \")\\n\"\n#endif\n#define S_(x) #x\n#define S(x) S_(x)\n"
              "u32 v, w, x; asm volatile(S_LOAD \"%0, %3, 0x0\\n\" S_LOAD \"%1, %3, 0x4\\n\" FIX "
              "S(N) END \"s_mov_b32 %2, %0\" LOADED : \"=&s\"(v), \"=&s\"(w), \"=&s\"(x) : "
              "\"s\"(a)); c[LANE] = x;",
     .found = {"reach a store to memory", "`s_load_", "cnt 0 is needed"}},
    {.name = "LDS written and not waited for at a barrier",
     .full = true,
     .groups = 1,
     .items = TWO_WAVES,
     .body = LATE FIX(
         "WAIT_LDS(0)") "SHARED u32 s[128]; asm volatile(DS_STORE \"%0, %1\\n\" FIX "
                        "::\"v\"((u32)(LDS u32 *)s + 4 * LANE), \"v\"(LANE) : \"memory\");\n"
                        "#if defined(__GFX12__)\nasm volatile(\"s_barrier_signal -1\\n "
                        "s_barrier_wait -1\" "
                        "::: \"memory\");\n#else\nasm volatile(\"s_barrier\" ::: "
                        "\"memory\");\n#endif\n"
                        "c[LANE] = ((volatile LDS u32 *)(LDS u32 *)s)[LANE ^ WAVE];",
     .found = {"is read, which wave ", "has written and not waited for before the barrier"}},
    {.name = "LDS written from memory, read before the wait",
     .full = true,
     .groups = 1,
     .items = 32,
     .on = CDNA,
     .body = LATE FIX(
         "WAIT_LOADS(0)") "SHARED u32 s[64]; u32 v; asm volatile(\"s_mov_b32 m0, "
                          "%1\\n s_nop 0\\n global_load_lds_dword %2, off\\n\" FIX \"ds_read_b32 "
                          "%0, %3\\n "
                          "s_waitcnt 0\" : \"=v\"(v) : \"s\"((u32)(LDS u32 *)s), \"v\"(a + LANE), "
                          "\"v\"((u32)(LDS u32 *)s + 4 * LANE) : \"memory\", \"m0\"); c[LANE] = v;",
     .insn = "ds_read_b32 ",
     .found = {"is read, which wave 0 has written and not waited for"}},
};

/* A pair in assembly with wait states enough between the two, or one too few; v40 to v47 hold
 * numbers, %0 is the result, %1 the lane's number. */
#define PAIR(NAME, ON, FIRST, ENOUGH, LESS, SECOND)                                                \
    {.name = NAME,                                                                                 \
     .full = true,                                                                                 \
     .groups = 1,                                                                                  \
     .items = TWO_WAVES,                                                                           \
     .on = ON,                                                                                     \
     .body =                                                                                       \
         "\n#if WRONG\n#define BETWEEN \"" LESS "\"\n#else\n#define BETWEEN \"" ENOUGH             \
         "\"\n#endif\nu32 r = 0; u64 keep; asm volatile(\"v_mov_b32 v40, 0\\n v_mov_b32 v41, "     \
         "0\\n v_mov_b32 v42, 0\\n v_mov_b32 v43, 0\\n v_mov_b32 v44, 0\\n v_mov_b32 v45, 0\\n "   \
         "v_mov_b32 v46, 0\\n v_mov_b32 v47, 0\\n s_mov_b64 %1, exec\\n s_nop 7\\n s_nop "         \
         "7\\n " FIRST "\\n \" BETWEEN \" " SECOND                                                 \
         "\\n s_nop 7\\n s_nop 7\\n s_nop 7\\n s_mov_b64 exec, "                                   \
         "%1\" : \"+&v\"(r), \"=&s\"(keep) : \"v\"(LANE), \"v\"(b + LANE) : \"vcc\", \"memory\", " \
         "\"s40\", \"s41\", \"v40\", \"v41\", \"v42\", \"v43\", \"v44\", \"v45\", \"v46\", "       \
         "\"v47\"); "                                                                              \
         "c[LANE] = r;",                                                                           \
     .found = {"undefined bits", "wait states are needed"}}

static const struct mistake pairs[] = {
    PAIR("a matrix result of four passes, read", CDNA,
         "v_mfma_f32_16x16x16_f16 v[40:43], v[44:45], v[46:47], v[40:43]", "s_nop 6\\n",
         "s_nop 5\\n", "v_mov_b32 %0, v43"),
    PAIR("a matrix result of four passes, overwritten", CDNA,
         "v_mfma_f32_16x16x16_f16 v[40:43], v[44:45], v[46:47], v[40:43]", "s_nop 6\\n",
         "s_nop 5\\n", "v_mov_b32 v43, 1\\n s_nop 7\\n s_nop 7\\n v_mov_b32 %0, v43"),
    PAIR("what a matrix instruction adds to, overwritten", CDNA,
         "v_mfma_f32_16x16x16_f16 v[44:47], v[44:45], v[46:47], v[40:43]", "s_nop 2\\n",
         "s_nop 1\\n", "v_mov_b32 v43, 1\\n s_nop 7\\n s_nop 7\\n v_mov_b32 %0, v44"),
    PAIR("a factor of a matrix instruction, just written", CDNA, "v_mov_b32 v44, 1", "s_nop 1\\n",
         "s_nop 0\\n",
         "v_mfma_f32_16x16x16_f16 v[40:43], v[44:45], v[46:47], v[40:43]\\n s_nop 7\\n s_nop 7\\n "
         "v_mov_b32 %0, v43"),
    PAIR("a factor of a matrix instruction, with another between", CDNA, "v_mov_b32 v44, 1",
         "v_mfma_f32_16x16x16_f16 v[40:43], v[46:47], v[46:47], v[40:43]\\n", "s_mov_b32 s40, 0\\n",
         "v_mfma_f32_16x16x16_f16 v[40:43], v[44:45], v[46:47], v[40:43]\\n s_nop 7\\n s_nop 7\\n "
         "v_mov_b32 %0, v43"),
    PAIR("a matrix result as a factor", CDNA,
         "v_mfma_f32_16x16x16_f16 v[40:43], v[44:45], v[46:47], v[40:43]", "s_nop 6\\n",
         "s_nop 5\\n",
         "v_mfma_f32_16x16x16_f16 v[44:47], v[40:41], v[44:45], v[44:47]\\n s_nop 7\\n s_nop 7\\n "
         "v_mov_b32 %0, v44"),
    PAIR("part of a matrix result as an addend", CDNA,
         "v_mfma_f32_16x16x16_f16 v[40:43], v[44:45], v[46:47], v[40:43]", "s_nop 4\\n",
         "s_nop 3\\n",
         "v_mfma_f32_16x16x16_f16 v[42:45], v[46:47], v[46:47], v[42:45]\\n s_nop 7\\n s_nop 7\\n "
         "v_mov_b32 %0, v42"),
    PAIR("a matrix result of two passes as an addend", CDNA,
         "v_mfma_f32_4x4x4_16b_f16 v[40:43], v[44:45], v[46:47], v[40:43]", "s_nop 1\\n",
         "s_nop 0\\n",
         "v_mfma_f32_4x4x4_16b_f16 v[40:43], v[44:45], v[46:47], v[40:43]\\n s_nop 7\\n "
         "v_mov_b32 %0, v43"),
    PAIR("a matrix result of f64 as an addend", CDNA,
         "v_mfma_f64_4x4x4_4b_f64 v[40:41], v[44:45], v[46:47], v[40:41]", "s_nop 3\\n",
         "s_nop 2\\n",
         "v_mfma_f64_4x4x4_4b_f64 v[40:41], v[44:45], v[46:47], v[40:41]\\n s_nop 7\\n "
         "v_mov_b32 %0, v41"),
    PAIR("a dot product, read", CDNA, "v_dot2c_f32_f16 v40, v41, v42", "s_nop 2\\n", "s_nop 1\\n",
         "v_mov_b32 %0, v40"),
    PAIR("a transcendental result, read", CDNA, "v_exp_f32 v40, v41", "s_nop 0\\n", "",
         "v_mov_b32 %0, v40"),
    PAIR("lanes of what was just written", CDNA, "v_mov_b32 v40, 1", "s_nop 1\\n", "s_nop 0\\n",
         "v_mov_b32_dpp %0, v40 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0"),
    PAIR("one lane of what was just written", CDNA, "v_mov_b32 v40, 1", "s_nop 0\\n", "",
         "v_readfirstlane_b32 s40, v40\\n s_nop 7\\n v_mov_b32 %0, s40"),
    PAIR("a mask of lanes, just written", CDNA, "v_cmp_eq_u32 vcc, 0, v40", "s_nop 1\\n",
         "s_nop 0\\n", "v_cndmask_b32 %0, v41, %2, vcc"),
    PAIR("EXEC, before lanes are read", CDNA, "v_cmpx_eq_u32 vcc, 0, v40", "s_nop 3\\n",
         "s_nop 2\\n", "v_readfirstlane_b32 s40, v41\\n s_nop 7\\n v_mov_b32 %0, s40"),
    PAIR("a part of a register, read", CDNA,
         "v_mov_b32_sdwa v40, v41 dst_sel:BYTE_1 "
         "dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
         "s_nop 0\\n", "", "v_mov_b32 %0, v40"),
    PAIR("the data of a wide store, overwritten", CDNA, "global_store_dwordx4 %3, v[40:43], off",
         "s_nop 1\\n", "s_nop 0\\n", "v_mov_b32 v43, 1\\n s_waitcnt 0"),
};

/* Pairs of gfx11 and gfx12, where the hardware waits but for a few, by what stands between. */
static const struct twin {
    const char *target, *options, *name, *enough, *less, *second;
} rdna[] = {
    {"gfx1100", "", "v_exp_f32 v40, v41", "s_waitcnt_depctr 0xfff", "", "v_mov_b32 %0, v40"},
    {"gfx1201", "", "v_mov_b32 v41, s40\\n s_mov_b32 s40, 3", "s_wait_alu 0xfffe", "",
     "v_mov_b32 %0, s40"},
    {"gfx1201", "", "v_mov_b32 v41, s40\\n v_readfirstlane_b32 s40, v42", "s_wait_alu 0xf1ff", "",
     "v_mov_b32 %0, s40"},
    {"gfx1151", "-mwavefrontsize64",
     "v_cndmask_b32 v41, v42, v43, s[40:41]\\n s_mov_b64 s[40:41], 0", "s_waitcnt_depctr 0xfffe",
     "", "v_cndmask_b32 %0, v42, v43, s[40:41]"},
    {"gfx1151", "-mwavefrontsize64",
     "v_mov_b32 v41, 1\\n s_mov_b64 s[40:41], exec\\n s_mov_b64 exec, s[40:41]\\n v_mov_b32 v42, 2",
     "s_waitcnt_depctr 0xfff", "", "v_max_f32 %0, v41, v42"},
    /* LLVM counts from the last operand that was written: one more, written later, ends it */
    {"gfx1151", "-mwavefrontsize64",
     "v_mov_b32 v41, 1\\n s_mov_b64 s[40:41], exec\\n s_mov_b64 exec, s[40:41]\\n v_nop\\n "
     "v_nop\\n v_mov_b32 v42, 2",
     "v_mov_b32 v43, 3", "", "v_max3_f32 %0, v41, v42, v43"},
};

static void pairs_of_rdna(void **state)
{
    static uint32_t c[64];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {.kernel = "k", .items = {32}, .buffers = &buffer, .count = 1};

    (void)state;
    for (size_t n = 0; n < COUNT(rdna); n++)
        for (int wrong = 0; wrong < 2; wrong++) {
            char source[2048];
            struct t_gpu g;
            snprintf(
                source, sizeof source,
                "KERNEL k(u32 *c) { u32 r; asm volatile(\"s_mov_b64 s[40:41], 0\\n v_mov_b32 v41, "
                "1\\n v_mov_b32 v42, 1\\n v_mov_b32 v43, 2\\n s_nop 0\\n %s\\n %s\\n %s\" : "
                "\"=v\"(r) :: \"s40\", \"s41\", \"v40\", \"v41\", \"v42\", \"v43\"); c[LANE] = r; "
                "}\n",
                rdna[n].name, wrong ? rdna[n].less : rdna[n].enough, rdna[n].second);
            t_gpu_open(&g, rdna[n].target, rdna[n].options, QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
            t_gpu_load(&g, source);
            const quern_status status = t_gpu_try(&g, &launch);
            if (status != (wrong ? QUERN_E_FAULT : QUERN_OK) ||
                (wrong && !strstr(quern_last_error()->message, "reach a store to memory")))
                fail_msg("%s, %s, %s: %s", rdna[n].target, rdna[n].name, wrong ? "wrong" : "right",
                         status == QUERN_OK ? "not found" : quern_last_error()->message);
            t_gpu_close(&g);
        }
}

static void registers_that_are_owed(void **state)
{
    (void)state;
    check_mistakes(counters, COUNT(counters));
}

static void pairs_that_are_too_close(void **state)
{
    (void)state;
    check_mistakes(pairs, COUNT(pairs));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(registers_that_are_owed),
                                       cmocka_unit_test(pairs_that_are_too_close),
                                       cmocka_unit_test(pairs_of_rdna)};

    return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
