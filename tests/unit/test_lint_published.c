/* SPDX-License-Identifier: MIT */
/*
 * Hazards of other teams' published tests, as cases for the scan (src/lint): each pair is assembled
 * by the compiler, inside a kernel of its own, with the wait states that the test asks for, where
 * nothing may be found, and with one fewer, where the pair must be. hazards.inc has LLVM's for
 * gfx90a, gfx942 and gfx950; below are Mesa's and LLVM's for gfx11 and gfx12.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lint/lint.h"
#include "t_compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { NOT = -1, SOURCE = 1 << 17 };

static struct compiler *compiler;

/* ---- Kernels of cases ------------------------------------------------------------------------ */

/* What was found in each kernel, by its number. */
struct found {
    int count[1024];
    char first[1024][128];
};

static void note(void *user, const struct quern_lint_finding *f)
{
    struct found *const to = user;
    const size_t k = (size_t)atoi(f->kernel + 1);

    assert_true(k < COUNT(to->count));
    if (!to->count[k]++)
        snprintf(to->first[k], sizeof to->first[k], "%s: needed %u, found %u", f->what, f->needed,
                 f->found);
}

static void add(char *source, const char *format, ...)
{
    const size_t n = strlen(source);
    va_list args;

    va_start(args, format);
    assert_true(vsnprintf(source + n, SOURCE - n, format, args) < (int)(SOURCE - n));
    va_end(args);
}

/* Compiles and scans a source with kernels k0, k1, …: what was found in each. */
static void scan(const char *source, const char *target, const char *options, struct found *found)
{
    const struct quern_disassembler d = {compiler_disassemble, compiler};
    struct compile_result result;
    struct object object;

    memset(found, 0, sizeof *found);
    if (t_compile(compiler, source, target, options, &result) != QUERN_OK)
        fail_msg("%s: %s\n%s", target, quern_last_error()->message, quern_last_error()->log);
    assert_int_equal(object_parse(result.object, result.object_bytes, &object), QUERN_OK);
    assert_int_equal(lint_object(&object, &d, note, found), QUERN_OK);
    object_free(&object);
    compile_result_free(&result);
}

/* ---- gfx9: wait states ----------------------------------------------------------------------- */

static const struct pair {
    const char *first, *second;
    int8_t states[3]; /* gfx90a, gfx942, gfx950 */
} pairs[] = {
#define P(first, second, a, b, c)                                                                  \
    {                                                                                              \
        first, second,                                                                             \
        {                                                                                          \
            a, b, c                                                                                \
        }                                                                                          \
    }
#include "hazards.inc"
};

static void add_pair(char *source, size_t kernel, const struct pair *p, int states)
{
    add(source, T_KERNEL "k%zu() { asm volatile(\"%s\\n", kernel, p->first);
    for (; states > 0; states -= 8)
        add(source, "s_nop %d\\n", states > 8 ? 7 : states - 1);
    add(source, "%s\"); }\n", p->second);
}

static void test_wait_states(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx950"};
    static struct found found;
    char *const source = malloc(SOURCE);
    int cases = 0;

    (void)state;
    assert_non_null(source);
    for (size_t t = 0; t < COUNT(targets); t++) {
        *source = 0;
        for (size_t i = 0; i < COUNT(pairs); i++) {
            const int states = pairs[i].states[t];
            if (states != NOT)
                add_pair(source, 2 * i, &pairs[i], states);
            if (states > 0)
                add_pair(source, 2 * i + 1, &pairs[i], states - 1);
        }
        scan(source, targets[t], T_OPTIONS, &found);
        for (size_t i = 0; i < COUNT(pairs); i++) {
            const int states = pairs[i].states[t];
            cases += states != NOT;
            if (found.count[2 * i])
                fail_msg("%s: '%s', %d wait states, '%s': %s", targets[t], pairs[i].first, states,
                         pairs[i].second, found.first[2 * i]);
            if (states > 0 && !found.count[2 * i + 1])
                fail_msg("%s: '%s', %d wait states of %d, '%s': nothing found", targets[t],
                         pairs[i].first, states - 1, states, pairs[i].second);
        }
    }
    print_message("%d cases\n", cases);
    free(source);
}

/* ---- gfx11 and gfx12 ------------------------------------------------------------------------- */

/* Code, and whether there is a hazard in it. On both kinds of targets unless `only` names one. */
static const struct listing {
    const char *code;
    unsigned wave_size;
    bool hazard;
    const char *only;
} listings[] = {
#define N3         "v_nop\\n v_nop\\n v_nop\\n "
#define LOAD       "DIRECT v0 "
#define WAIT(n, m) "VDST:" #n " VSRC:" #m
    /* Mesa, src/amd/compiler/tests/test_insert_nops.cpp (MIT), insert_nops.lds_direct_valu: each
     * with the wait that the test asks for, and with one that waits for less */
    {"v_mov_b32 v0, 0\\n " LOAD WAIT(0, 1), 32, false, NULL},
    {"v_mov_b32 v0, 0\\n " LOAD WAIT(1, 1), 32, true, NULL},
    {"v_mov_b32 v1, v0\\n " LOAD WAIT(0, 1), 32, false, NULL},
    {"v_mov_b32 v1, v0\\n " LOAD WAIT(1, 1), 32, true, NULL},
    {"v_mov_b32 v1, 0\\n " LOAD WAIT(15, 1), 32, false, NULL},
    {"v_mov_b32 v1, v0\\n v_mov_b32 v0, 0\\n " LOAD WAIT(0, 1), 32, false, NULL},
    {"v_mov_b32 v1, v0\\n v_mov_b32 v0, 0\\n " LOAD WAIT(1, 1), 32, true, NULL},
    {"v_mov_b32 v0, 0\\n v_nop\\n " LOAD WAIT(1, 1), 32, false, NULL},
    {"v_mov_b32 v0, 0\\n v_nop\\n " LOAD WAIT(2, 1), 32, true, NULL},
    {"v_mov_b32 v0, 0\\n " N3 N3 N3 "v_nop\\n " LOAD WAIT(10, 1), 32, false, NULL},
    {"v_mov_b32 v0, 0\\n " N3 N3 N3 "v_nop\\n " LOAD WAIT(11, 1), 32, true, NULL},
    {"v_mov_b32 v0, 0\\n " N3 N3 N3 N3 N3 N3 "v_nop\\n v_nop\\n " LOAD WAIT(15, 1), 32, false,
     NULL},
    {"v_mov_b32 v0, 0\\n v_nop\\n v_sqrt_f32 v1, v1\\n " LOAD WAIT(0, 1), 32, false, NULL},
    {"v_mov_b32 v0, 0\\n v_nop\\n v_sqrt_f32 v1, v1\\n " LOAD WAIT(1, 1), 32, true, NULL},
    {"v_sqrt_f32 v0, v0\\n v_nop\\n " LOAD WAIT(0, 1), 32, false, NULL},
    {"v_sqrt_f32 v0, v0\\n v_nop\\n " LOAD WAIT(1, 1), 32, true, NULL},
    {"v_sqrt_f32 v1, v1\\n v_mov_b32 v0, 0\\n v_nop\\n " LOAD WAIT(1, 1), 32, false, NULL},
    {"v_mov_b32 v0, 0\\n s_mov_b32 m0, 0\\n " LOAD WAIT(0, 1), 32, false, NULL},
    {"v_mov_b32 v0, 0\\n s_mov_b32 m0, 0\\n " LOAD WAIT(1, 1), 32, true, NULL},
    {"v_mov_b32 v0, 0\\n v_nop\\n s_waitcnt_depctr 0x0fff\\n " LOAD WAIT(15, 1), 32, false,
     "gfx11"},
    /* insert_nops.lds_direct_vmem */
    {"BUFFER v1, v0, s[0:3], 0 offen\\n " LOAD WAIT(15, 1), 32, true, NULL},
    {"BUFFER v1, v0, s[0:3], 0 offen\\n s_waitcnt_depctr 0xffe3\\n " LOAD WAIT(15, 1), 32, false,
     "gfx11"},
    {"BUFFER v1, v0, s[0:3], 0 offen\\n " LOAD WAIT(15, 0), 32, false, "gfx12"},
    {"BUFFER v1, v1, s[0:3], 0 offen\\n " LOAD WAIT(15, 1), 32, false, NULL},
    {"BUFFER v1, v0, s[0:3], 0 offen\\n v_nop\\n " LOAD WAIT(15, 1), 32, false, NULL},
    {"ds_load_b32 v1, v0\\n " LOAD WAIT(15, 1), 32, true, NULL},
    {"ds_load_b32 v1, v1\\n " LOAD WAIT(15, 1), 32, false, NULL},
    {"ds_load_b32 v1, v0\\n v_nop\\n " LOAD WAIT(15, 1), 32, false, NULL},
    {"BUFFER v1, v0, s[0:3], 0 offen\\n s_waitcnt vmcnt(0)\\n " LOAD WAIT(15, 1), 32, false,
     "gfx11"},
    {"BUFFER v1, v0, s[0:3], 0 offen\\n s_wait_loadcnt 0\\n " LOAD WAIT(15, 1), 32, false, "gfx12"},
    {"buffer_store_b32 v0, v0, s[0:3], 0 offen\\n s_waitcnt_vscnt null, 0\\n " LOAD WAIT(15, 1), 32,
     false, "gfx11"},
    {"ds_load_b32 v1, v0\\n s_waitcnt lgkmcnt(0)\\n " LOAD WAIT(15, 1), 32, false, "gfx11"},
    {"ds_load_b32 v1, v0\\n s_wait_dscnt 0\\n " LOAD WAIT(15, 1), 32, false, "gfx12"},
    {"BUFFER v1, v0, s[0:3], 0 offen\\n s_waitcnt_vscnt null, 0\\n " LOAD WAIT(15, 1), 32, true,
     "gfx11"},
    {"BUFFER v1, v0, s[0:3], 0 offen\\n s_wait_storecnt 0\\n " LOAD WAIT(15, 1), 32, true, "gfx12"},
    {"buffer_store_b32 v0, v0, s[0:3], 0 offen\\n s_waitcnt lgkmcnt(0)\\n " LOAD WAIT(15, 1), 32,
     true, "gfx11"},
    {"ds_load_b32 v1, v0\\n s_waitcnt vmcnt(0)\\n " LOAD WAIT(15, 1), 32, true, "gfx11"},
    {"ds_load_b32 v1, v0\\n s_wait_loadcnt 0\\n " LOAD WAIT(15, 1), 32, true, "gfx12"},
    /* insert_nops.valu_trans_use */
    {"v_rcp_f32 v0, v1\\n v_mov_b32 v1, v0", 32, true, "gfx11"},
    {"v_rcp_f32 v0, v1\\n s_waitcnt_depctr 0x0fff\\n v_mov_b32 v1, v0", 32, false, "gfx11"},
    {"v_rcp_f32 v0, v1\\n " N3 "v_nop\\n v_mov_b32 v1, v0", 32, true, "gfx11"},
    {"v_rcp_f32 v0, v1\\n " N3 N3 "v_nop\\n v_nop\\n v_mov_b32 v1, v0", 32, false, "gfx11"},
    {"v_rcp_f32 v0, v1\\n v_sqrt_f32 v2, v3\\n v_mov_b32 v1, v0", 32, true, "gfx11"},
    {"v_rcp_f32 v0, v1\\n v_sqrt_f32 v2, v3\\n v_sqrt_f32 v2, v3\\n v_mov_b32 v1, v0", 32, false,
     "gfx11"},
    {"v_rcp_f32 v0, v1\\n " N3 "v_nop\\n v_nop\\n v_sqrt_f32 v2, v3\\n v_mov_b32 v1, v0", 32, false,
     "gfx11"},
    {"v_rcp_f32 v0, v1\\n s_nop 0\\n s_nop 0\\n s_nop 0\\n s_nop 0\\n s_nop 0\\n s_nop 0\\n "
     "v_mov_b32 v1, v0",
     32, true, "gfx11"},
/* insert_nops.valu_partial_forwarding.basic and .multiple_exec_writes, in waves of 64 */
#define EXEC "s_mov_b64 exec, -1\\n "
    {"v_mov_b32 v0, 0\\n " EXEC "v_mov_b32 v1, 1\\n v_max_f32 v2, v0, v1", 64, true, "gfx11"},
    {"v_mov_b32 v0, 0\\n " EXEC "v_mov_b32 v1, 1\\n v_max_f32 v2, v0, v1", 32, false, "gfx11"},
    {"v_mov_b32 v0, 0\\n " EXEC
     "v_mov_b32 v1, 1\\n s_waitcnt_depctr 0x0fff\\n v_max_f32 v2, v0, v1",
     64, false, "gfx11"},
    {"v_mov_b32 v0, 0\\n v_mov_b32 v1, 1\\n v_max_f32 v2, v0, v1", 64, false, "gfx11"},
    {"v_mov_b32 v0, 0\\n " EXEC
     "v_mov_b32 v1, 1\\n v_nop\\n v_nop\\n v_mov_b32 v2, 2\\n v_max3_f32 v2, v0, v1, v2",
     64, true, "gfx11"},
    {"v_mov_b32 v0, 0\\n " EXEC "v_mov_b32 v1, 1\\n v_mov_b32 v2, 2\\n " N3
     "v_nop\\n v_max3_f32 v2, v0, v1, v2",
     64, true, "gfx11"},
    {"v_mov_b32 v0, 0\\n " EXEC "v_mov_b32 v1, 1\\n v_nop\\n v_nop\\n v_mov_b32 v2, 2\\n " N3
     "v_max3_f32 v2, v0, v1, v2",
     64, false, "gfx11"},
    {"v_mov_b32 v0, 0\\n s_mov_b64 exec, 0\\n " EXEC "v_mov_b32 v1, 1\\n v_max_f32 v2, v0, v1", 64,
     true, "gfx11"},
    {"v_mov_b32 v0, 0\\n s_mov_b64 exec, 0\\n v_mov_b32 v1, 1\\n " EXEC "v_max_f32 v2, v0, v1", 64,
     true, "gfx11"},
    /* … and .control_flow: one way must not hide the other */
    {"s_cbranch_scc1 1f\\n v_mov_b32 v0, 0\\n " EXEC
     "v_nop\\n s_branch 2f\\n 1: v_mov_b32 v0, 0\\n 2: "
     "v_mov_b32 v1, 1\\n v_max_f32 v2, v0, v1",
     64, true, "gfx11"},
    {"s_cbranch_scc1 1f\\n v_mov_b32 v0, 0\\n " EXEC
     "v_nop\\n v_nop\\n v_mov_b32 v1, 1\\n v_nop\\n s_branch 2f\\n "
     "1: v_mov_b32 v1, 1\\n 2: v_max_f32 v2, v0, v1",
     64, true, "gfx11"},
    {"s_cbranch_scc1 1f\\n v_mov_b32 v0, 0\\n " EXEC "v_mov_b32 v1, 1\\n " N3
     "v_nop\\n s_branch 2f\\n "
     "1: v_mov_b32 v1, 1\\n v_nop\\n v_nop\\n " N3 "2: v_max_f32 v2, v0, v1",
     64, true, "gfx11"},
    /* not published: one register, written on two ways, is one register */
    {"s_cbranch_scc1 1f\\n v_mov_b32 v0, 0\\n " EXEC
     "v_nop\\n s_branch 2f\\n 1: v_mov_b32 v0, 0\\n 2: v_max_f32 v2, v0, v0",
     64, false, "gfx11"},
/* insert_nops.valu_mask_write, but for cases in which the two teams disagree: LLVM takes a
     * literal, and a wait behind a write of any mask, for an end of the hazard; Mesa does not */
#define MASK "v_cndmask_b32 v0, 0, 0, s[0:1]\\n "
    {MASK "s_mov_b32 s1, 0\\n s_mov_b32 s2, s1", 64, true, "gfx11"},
    {MASK "s_mov_b32 s1, 0\\n s_waitcnt_depctr 0xfffe\\n s_mov_b32 s2, s1", 64, false, "gfx11"},
    {MASK "v_mov_b32 v1, s1\\n s_mov_b32 s1, 0\\n s_mov_b32 s2, s1", 64, false, "gfx11"},
    {"v_cndmask_b32 v0, s2, 0, s[0:1]\\n s_mov_b32 s1, 0\\n s_mov_b32 s2, s1", 64, true, "gfx11"},
    {MASK "v_mov_b32 v1, exec_lo\\n s_mov_b32 s1, 0\\n s_mov_b32 s2, s1", 64, true, "gfx11"},
    {MASK "s_mov_b32 s1, 0\\n v_mov_b32 v1, s1", 64, true, "gfx11"},
    {MASK "s_mov_b32 s1, 0\\n v_cndmask_b32 v0, 0, 0, s[2:3]\\n s_mov_b32 s2, s1", 64, true,
     "gfx11"},
/* insert_nops.wmma_raw */
#define WMMA(d, a, b) "v_wmma_f32_16x16x16_f16 " d ", " a ", " b ", " d "\\n "
    {WMMA("v[20:27]", "v[0:7]", "v[8:15]") WMMA("v[48:55]", "v[24:31]", "v[16:23]"), 32, true,
     "gfx11"},
    {WMMA("v[20:27]", "v[0:7]", "v[8:15]") "v_nop\\n " WMMA("v[48:55]", "v[24:31]", "v[16:23]"), 32,
     false, "gfx11"},
    {WMMA("v[20:27]", "v[0:7]", "v[8:15]") "v_rcp_f32 v56, 0\\n " WMMA("v[48:55]", "v[24:31]",
                                                                       "v[16:23]"),
     32, false, "gfx11"},
    {WMMA("v[20:27]", "v[0:7]", "v[8:15]") WMMA("v[48:55]", "v[28:35]", "v[32:39]"), 32, false,
     "gfx11"},
    {WMMA("v[20:27]", "v[0:7]", "v[8:15]") WMMA("v[20:27]", "v[28:35]", "v[32:39]"), 32, false,
     "gfx11"},
};

/* Replaces what the two kinds of targets spell in their own ways. */
static void spell(char *to, size_t size, const char *code, bool gfx12)
{
    static const char *const words[][3] = {
        {"DIRECT", "lds_direct_load", "ds_direct_load"},
        {"BUFFER", "buffer_load_b32", "buffer_load_b32"},
        {"VDST", "wait_vdst", "wait_va_vdst"},
        {" VSRC:1", "", " wait_vm_vsrc:1"},
        {" VSRC:0", "", " wait_vm_vsrc:0"},
        {"s[0:3], 0 offen", "s[0:3], 0 offen", "s[0:3], null offen"},
    };
    size_t n = 0;

    while (*code) {
        size_t w = 0;
        while (w < COUNT(words) && strncmp(code, words[w][0], strlen(words[w][0])) != 0)
            w++;
        if (w == COUNT(words)) {
            to[n++] = *code++;
        } else {
            n += (size_t)snprintf(to + n, size - n, "%s", words[w][1 + gfx12]);
            code += strlen(words[w][0]);
        }
        assert_true(n < size);
    }
    to[n] = 0;
}

static void test_listings(void **state)
{
    static const char *const targets[] = {"gfx1100", "gfx1201"};
    static struct found found;
    char *const source = malloc(SOURCE), code[1024];
    int cases = 0;

    (void)state;
    assert_non_null(source);
    for (size_t t = 0; t < COUNT(targets); t++)
        for (unsigned wave_size = 32; wave_size <= 64; wave_size *= 2) {
            *source = 0;
            for (size_t i = 0; i < COUNT(listings); i++) {
                const struct listing *const l = &listings[i];
                if (l->wave_size != wave_size || (l->only && strncmp(targets[t], l->only, 5) != 0))
                    continue;
                spell(code, sizeof code, l->code, t);
                add(source, T_KERNEL "k%zu() { asm volatile(\"%s\"); }\n", i, code);
            }
            if (!*source)
                continue;
            scan(source, targets[t], wave_size == 64 ? T_OPTIONS "\n-mwavefrontsize64" : T_OPTIONS,
                 &found);
            for (size_t i = 0; i < COUNT(listings); i++) {
                const struct listing *const l = &listings[i];
                if (l->wave_size != wave_size || (l->only && strncmp(targets[t], l->only, 5) != 0))
                    continue;
                cases++;
                if (found.count[i] > 0 && !l->hazard)
                    fail_msg("%s, waves of %u: '%s': %s", targets[t], wave_size, l->code,
                             found.first[i]);
                if (!found.count[i] && l->hazard)
                    fail_msg("%s, waves of %u: '%s': nothing found", targets[t], wave_size,
                             l->code);
            }
        }
    print_message("%d cases\n", cases);
    free(source);
}

static int open_compiler(void **state)
{
    (void)state;
    compiler = t_compiler_open(1, 0);
    return 0;
}

static int close_compiler(void **state)
{
    (void)state;
    compiler_close(compiler);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wait_states),
                                       cmocka_unit_test(test_listings)};

    return cmocka_run_group_tests_name("published hazards", tests, open_compiler, close_compiler);
}
