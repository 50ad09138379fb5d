/* SPDX-License-Identifier: MIT */
/*
 * Kernels with one mistake each, and their corrected twins, on each of the three families: the twin
 * passes; of the other the finding says what it should, and the instruction that it names stands at
 * the pc that it names.
 */
#ifndef TESTS_SIM_MISTAKE_H
#define TESTS_SIM_MISTAKE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/launch.h"
#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct family {
    const char *target;
    uint32_t wave;
    uint32_t descriptor; /* last word of one of a buffer of bytes */
} families[] = {
    {"gfx1151", 32, 0x31016000}, {"gfx1201", 32, 0x31016000}, {"gfx942", 64, 0x00027000}};
#define FAMILIES COUNT(families)
enum { ALL, RDNA, CDNA }; /* which of them have the instructions that a mistake needs */
enum { TWO_WAVES = 64 };  /* items of a mistake that takes two waves, of any size */

/* What the families call the same thing: macros of the sources, for inline assembly. */
static const struct word {
    const char *macro;
    const char *text[FAMILIES];
} words[] = {
    {"S_LOAD", {"s_load_b32 ", "s_load_b32 ", "s_load_dword "}},
    {"S_LOAD_2", {"s_load_b64 ", "s_load_b64 ", "s_load_dwordx2 "}},
    {"S_BUFFER_LOAD_4", {"s_buffer_load_b128 ", "s_buffer_load_b128 ", "s_buffer_load_dwordx4 "}},
    {"DS_LOAD", {"ds_load_b32 ", "ds_load_b32 ", "ds_read_b32 "}},
    {"DS_LOAD_PAIR", {"ds_load_2addr_b32 ", "ds_load_2addr_b32 ", "ds_read2_b32 "}},
    {"ATOMIC_ADD", {"global_atomic_add_u32 ", "global_atomic_add_u32 ", "global_atomic_add "}},
    {"VCC", {"vcc_lo", "vcc_lo", "vcc"}},
    /* behind scalar and LDS loads, and behind atomics that return nothing */
    {"LOADED",
     {"\\n s_waitcnt lgkmcnt(0)", "\\n s_wait_kmcnt 0\\n s_wait_dscnt 0",
      "\\n s_waitcnt lgkmcnt(0)"}},
    {"STORED", {"\\n s_waitcnt_vscnt null, 0", "\\n s_wait_storecnt 0", "\\n s_waitcnt vmcnt(0)"}},
};

/*
 * In the sources WRONG is 1 for the faulty kernel and 0 for its twin. UNDEFINED gives a vector
 * register that nothing was written to, UNDEFINED_SCALAR a scalar one. WAVE is the size of a wave,
 * DESCRIPTOR the last word of a descriptor.
 */
static const char start[] = "#define UNDEFINED(x) asm volatile(\"\" : \"=v\"(x))\n"
                            "#define UNDEFINED_SCALAR(x) asm volatile(\"\" : \"={s77}\"(x))\n"
                            "#define LDS __attribute__((address_space(3)))\n"
                            "#define KERNARG ((u64)__builtin_amdgcn_kernarg_segment_ptr())\n";

/* Every kernel takes a (read only), b (read and write) and c (write only), 1024 bytes each. */
struct mistake {
    const char *name;
    bool full; /* only the full check finds it */
    uint32_t groups, items;
    const char *body;     /* of kernel k(const u32 *a, u32 *b, u32 *c) */
    const char *found[3]; /* what the finding must say */
    int on;               /* ALL, RDNA or CDNA */
    const char *insn;     /* what is stopped at: a macro, or what its text begins with */
    const char *where;    /* such as "workgroup 0,0,0, wave 0, lane 3"; null: anywhere */
};

static quern_status run(struct t_gpu *g, const struct family *f, const struct mistake *m)
{
    static uint32_t a[256], b[256], c[256];
    const struct t_buffer buffers[] = {{a, sizeof a, QUERN_SIM_READ, "a"},
                                       {b, sizeof b, QUERN_SIM_READ_WRITE, "b"},
                                       {c, sizeof c, QUERN_SIM_WRITE, "c"}};
    const struct t_launch launch = {.kernel = "k",
                                    .groups = {m->groups},
                                    .items = {m->items == TWO_WAVES ? 2 * f->wave : m->items},
                                    .buffers = buffers,
                                    .count = 3};

    for (unsigned n = 0; n < 256; n++)
        a[n] = n % 7;
    memset(b, 0, sizeof b);
    return t_gpu_try(g, &launch);
}

static void load_kernel(struct t_gpu *fast, struct t_gpu *full, const struct family *f,
                        const struct mistake *m, int wrong)
{
    char source[8192];
    int used = snprintf(source, sizeof source,
                        "%s#define WAVE %u\n#define DESCRIPTOR %u\n#define WRONG %d\n", start,
                        f->wave, f->descriptor, wrong);

    for (size_t n = 0; n < COUNT(words); n++)
        used += snprintf(source + used, sizeof source - (size_t)used, "#define %s \"%s\"\n",
                         words[n].macro, words[n].text[f - families]);
    used += snprintf(source + used, sizeof source - (size_t)used,
                     "KERNEL k(const u32 *a, u32 *b, u32 *c) {\n%s\n}\n", m->body);
    assert_true((size_t)used < sizeof source);
    t_gpu_load_two(fast, full, source);
}

/* The text of what stands at a pc, which counts from the kernel's first instruction. */
static const char *text_at(const struct quern_sim_module *m, uint32_t pc)
{
    const struct kernel_note *const k = &m->kernels[0];

    if (k->begin + pc == k->end)
        return "end of code";
    for (size_t n = 0; n < m->insn_count; n++)
        if (m->notes[n].offset == k->begin + pc && m->notes[n].text)
            return m->notes[n].text;
    return "";
}

static const char *word_of(const struct family *f, const char *macro)
{
    for (size_t n = 0; n < COUNT(words); n++)
        if (!strcmp(words[n].macro, macro))
            return words[n].text[f - families];
    return macro;
}

static void check_finding(const struct t_gpu *g, const struct family *f, const struct mistake *m)
{
    const char *const said = quern_last_error()->message;
    char text[256], where[128];
    unsigned pc;

    if (sscanf(said, "k: pc 0x%x `%255[^`]`, %127[^:]: ", &pc, text, where) != 3 ||
        !strstr(where, "workgroup ") || !strstr(where, ", wave "))
        fail_msg("%s, %s: no finding has the form of \"%s\"", f->target, m->name, said);
    if (strcmp(text, text_at(g->module, pc)))
        fail_msg("%s, %s: at 0x%x stands `%s`: %s", f->target, m->name, pc, text_at(g->module, pc),
                 said);
    if (m->insn && strncmp(text, word_of(f, m->insn), strlen(word_of(f, m->insn))))
        fail_msg("%s, %s: not at %s: %s", f->target, m->name, word_of(f, m->insn), said);
    if (m->where && strcmp(where, m->where))
        fail_msg("%s, %s: not at %s: %s", f->target, m->name, m->where, said);
    for (unsigned n = 0; n < 3; n++)
        if (m->found[n] && !strstr(said, m->found[n]))
            fail_msg("%s, %s: the finding does not say \"%s\": %s", f->target, m->name, m->found[n],
                     said);
}

static void check_mistake(struct t_gpu *fast, struct t_gpu *full, const struct family *f,
                          const struct mistake *m)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        load_kernel(fast, full, f, m, wrong);
        for (int check = 0; check < 2; check++) {
            struct t_gpu *const g = check ? full : fast;
            const quern_status status = run(g, f, m);
            const char *const how = check ? "full" : "fast";
            if (!wrong || (m->full && !check)) {
                if (status != QUERN_OK)
                    fail_msg("%s, %s, %s kernel, %s check: %s", f->target, m->name,
                             wrong ? "wrong" : "right", how, quern_last_error()->message);
                continue;
            }
            if (status != QUERN_E_FAULT)
                fail_msg("%s, %s: not caught by the %s check", f->target, m->name, how);
            check_finding(g, f, m);
        }
    }
}

/* Every mistake on every family that can make it. */
static void check_mistakes(const struct mistake *mistakes, size_t count)
{
    struct t_gpu fast, full;

    for (const struct family *f = families; f < families + FAMILIES; f++) {
        t_gpu_open(&fast, f->target, "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 100000);
        t_gpu_open(&full, f->target, "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 100000);
        for (size_t n = 0; n < count; n++)
            if (mistakes[n].on == ALL || mistakes[n].on == (f->wave == 64 ? CDNA : RDNA))
                check_mistake(&fast, &full, f, &mistakes[n]);
        t_gpu_close(&fast);
        t_gpu_close(&full);
    }
}

#endif
