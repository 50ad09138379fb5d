/* SPDX-License-Identifier: MIT */
/*
 * Small C functions, the same text compiled by the C compiler for the CPU and by hipRTC for the
 * software GPU, give the same bits, on every target in objects.h.
 *
 * The functions are in files by subject. gpu_side.h and cpu_side.h make both compilers read
 * the same words; twins.h says in C what single GPU instructions do. A function of a lane runs on
 * thousands of records of arguments, with all lanes of a wave and with some of them; one of a wave
 * runs on whole waves, one of a workgroup on workgroups. Results, and memory where there is any,
 * are compared bit by bit, except that any NaN may stand for another in results of float types.
 */
#ifndef DIFFERENTIAL_SUITE_H
#define DIFFERENTIAL_SUITE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"

#include "objects.h"
#include "inputs.h"
#include "twins.h"

#include "bits.h"
#include "control.h"
#include "convert.h"
#include "float32.h"
#include "float64.h"
#include "half.h"
#include "int32.h"
#include "int64.h"
#include "memory.h"
#include "narrow.h"
#include "workgroup.h"

#include "cpu_wave.h"
#include "wave.h"

enum { /* multiples of 128 */
    RECORDS = T_SANITIZED ? 256 : 4096, /* none of the counts below is more */
    WAVE_RECORDS = RECORDS / 2
};
#define PARTIAL_BLOCK  40 /* work-items: neither size of wave is full */
#define PARTIAL_GROUPS (T_SANITIZED ? 6 : 25)
#define SCALAR_GROUPS  (T_SANITIZED ? 128 : 512)
#define WORKGROUPS     (T_SANITIZED ? 2 : 8)
#define FUNCTIONS_LEAST 300

/* ---- Buffers --------------------------------------------------------------------------------- */

/* What a launch reads and writes, and what it should have written. */
static struct {
    u64 in[RECORDS * SLOTS];
    u64 uniform[SCALAR_GROUPS * SLOTS];
    u32 out[RECORDS * WORDS], out_expected[RECORDS * WORDS];
    u32 memory[RECORDS * MEMORY / 4], memory_expected[RECORDS * MEMORY / 4];
    u32 common[COMMON], common_expected[COMMON];
} buffers __attribute__((aligned(64)));

enum { IN, UNIFORM, OUT, MEMORY_BUFFER, COMMON_BUFFER, BUFFERS };

/* A software GPU with a code object and the buffers in it. */
struct machine {
    quern_sim *sim;
    quern_sim_module *module;
    uint64_t address[BUFFERS];
};

static void machine_open(struct machine *m, const struct target_row *target,
                         const struct object *object, enum quern_sim_isa isa,
                         enum quern_sim_check check)
{
    struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);
    const struct {
        void *host;
        size_t bytes;
        const char *name;
        enum quern_sim_access access;
    } maps[BUFFERS] = {
#define MAP(name, access) {buffers.name, sizeof buffers.name, #name, QUERN_SIM_##access}
        [IN] = MAP(in, READ),
        [UNIFORM] = MAP(uniform, READ),
        [OUT] = MAP(out, READ_WRITE),
        [MEMORY_BUFFER] = MAP(memory, READ_WRITE),
        [COMMON_BUFFER] = MAP(common, READ_WRITE),
#undef MAP
    };

    options.target = target->processor;
    options.check = check;
    /* what the host computes is exact or rounded once, which the adders of gfx11 are not */
    options.arithmetic = QUERN_ARITHMETIC_FAST;
    options.isa = isa;
    options.threads = 2;
    options.max_instructions = 10000000;
    options.disassembler.function = compiler_disassemble;
    options.disassembler.user = compiler;
    if (quern_sim_open(&options, &m->sim) != QUERN_OK)
        fail_msg("quern_sim_open: %s", quern_last_error()->message);
    for (unsigned i = 0; i < BUFFERS; i++)
        assert_int_equal(quern_sim_map(m->sim, maps[i].host, maps[i].bytes, maps[i].access,
                                       maps[i].name, &m->address[i]),
                         QUERN_OK);
    if (quern_sim_load(m->sim, object->bytes, object->size, &m->module) != QUERN_OK)
        fail_msg("quern_sim_load: %s", quern_last_error()->message);
}

static void machine_close(struct machine *m)
{
    quern_sim_unload(m->module);
    quern_sim_close(m->sim);
}

/* ---- Comparison ------------------------------------------------------------------------------ */

static bool same_half(u32 want, u32 got, u32 infinity)
{
    return want == got || ((want & 0x7fff) > infinity && (got & 0x7fff) > infinity);
}

/* Of two results of a type; the words that it does not have are zero. */
static bool same_result(const char *type, const u32 *want, const u32 *got)
{
    if (!memcmp(want, got, WORDS * sizeof *want))
        return true;
    if (!strncmp(type, "f32", 3)) {
        for (unsigned i = 0; i < WORDS; i++)
            if (want[i] != got[i] && !(isnan(f32_of_bits(want[i])) && isnan(f32_of_bits(got[i]))))
                return false;
        return true;
    }
    if (!strncmp(type, "f64", 3)) {
        f64 w[WORDS / 2], g[WORDS / 2];
        memcpy(w, want, sizeof w);
        memcpy(g, got, sizeof g);
        for (unsigned i = 0; i < WORDS / 2; i++)
            if (memcmp(&w[i], &g[i], sizeof w[i]) && !(isnan(w[i]) && isnan(g[i])))
                return false;
        return true;
    }
    if (!strncmp(type, "f16", 3) || !strncmp(type, "bf16", 4)) {
        const u32 infinity = *type == 'b' ? 0x7f80 : 0x7c00;
        for (unsigned i = 0; i < WORDS; i++)
            if (!same_half(want[i] & 0xffff, got[i] & 0xffff, infinity) ||
                !same_half(want[i] >> 16, got[i] >> 16, infinity))
                return false;
        return true;
    }
    return false;
}

static void print_words(const char *label, const u32 *words)
{
    print_error("  %s %08x %08x %08x %08x\n", label, words[0], words[1], words[2], words[3]);
}

static bool same_words(const char *kernel, const char *what, const u32 *got, const u32 *want,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i]) {
            print_error("%s: word %zu of %s: expected 0x%08x, got 0x%08x\n", kernel, i, what,
                        want[i], got[i]);
            return false;
        }
    return true;
}

/* True if all records agree; else tells of the first that does not, and how many they are. */
static bool compare(const struct function *f, const char *kernel, unsigned records, unsigned block,
                    const u64 *shown)
{
    unsigned wrong = 0;

    for (unsigned i = 0; i < records; i++) {
        const u32 *const want = buffers.out_expected + i * WORDS;
        const u32 *const got = buffers.out + i * WORDS;
        if (same_result(f->result, want, got) || wrong++)
            continue;
        print_error("%s: record %u, work-item %u of workgroup %u, arguments", kernel, i, i % block,
                    i / block);
        for (unsigned slot = 0; slot < SLOTS && f->arguments[slot]; slot++)
            print_error(" %s 0x%llx", f->arguments[slot],
                        (unsigned long long)shown[i * SLOTS + slot]);
        print_error(", result %s\n", f->result);
        print_words("expected", want);
        print_words("got     ", got);
    }
    if (wrong)
        print_error("  and so %u of %u records\n", wrong, records);
    if (f->kind == KIND_LANE)
        return !wrong;
    return same_words(kernel, "memory, 16 to a record", buffers.memory, buffers.memory_expected,
                      COUNT(buffers.memory)) &&
           same_words(kernel, "what all workgroups share", buffers.common, buffers.common_expected,
                      COMMON) &&
           !wrong;
}

/* ---- Launches -------------------------------------------------------------------------------- */

static bool launch(struct machine *m, const struct function *f, char prefix, unsigned groups,
                   unsigned block)
{
    struct quern_sim_launch l = QUERN_INIT(struct quern_sim_launch);
    char kernel[128];
    struct {
        uint64_t pointer[3];
        union {
            uint64_t common;
            uint32_t block;
        };
    } arguments = {{m->address[IN], m->address[OUT], m->address[MEMORY_BUFFER]},
                   {m->address[COMMON_BUFFER]}};

    if (prefix == 's')
        arguments.pointer[0] = m->address[UNIFORM];
    if (prefix == 'm')
        arguments.pointer[2] = m->address[UNIFORM];
    if (prefix != 'g')
        arguments.block = block;
    snprintf(kernel, sizeof kernel, "%c_%s", prefix, f->name);
    l.kernel = kernel;
    l.grid[0] = groups;
    l.grid[1] = l.grid[2] = 1;
    l.block[0] = block;
    l.block[1] = l.block[2] = 1;
    l.kernarg = &arguments;
    l.kernarg_bytes = prefix == 's' ? 16 : prefix == 'g' ? 32 : 28;
    memset(buffers.out, 0xee, sizeof buffers.out);
    if (quern_sim_run(m->module, &l, NULL) == QUERN_OK)
        return true;
    print_error("%s: %s\n", kernel, quern_last_error()->message);
    return false;
}

/* Fills the arguments of all records, and the records that workgroups share. */
static void make_inputs(const struct function *f)
{
    u64 state = seed_of(f->name);

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct domain *const d = f->arguments[slot] ? domain_of(f->arguments[slot]) : NULL;
        if (f->arguments[slot] && !d)
            fail_msg("%s: inputs.h has no domain for type %s", f->name, f->arguments[slot]);
        for (unsigned i = 0; i < RECORDS; i++)
            buffers.in[i * SLOTS + slot] = d ? make_argument(d, i, slot, &state) : 0;
    }
    for (unsigned i = 0; i < SCALAR_GROUPS; i++)
        memcpy(&buffers.uniform[i * SLOTS], &buffers.in[i * 37 % RECORDS * SLOTS],
               SLOTS * sizeof *buffers.in);
    for (unsigned i = 0; i < COUNT(buffers.memory); i++)
        buffers.memory[i] = buffers.memory_expected[i] = (u32)draw(&state);
    for (unsigned i = 0; i < COMMON; i++)
        buffers.common[i] = buffers.common_expected[i] = (u32)draw(&state);
}

/* Computes what is expected, a `step` of records (lane, wave, workgroup) at a time. */
static void expect(const struct function *f, const u64 *in, unsigned records, unsigned step)
{
    memset(buffers.out_expected, 0, records * WORDS * sizeof(u32));
    for (unsigned i = 0; i < records; i += step)
        f->call(in + i * SLOTS, buffers.out_expected + i * WORDS,
                (u8 *)buffers.memory_expected + i * MEMORY, buffers.common_expected);
}

/* With one argument of each record replaced by its workgroup's. */
static bool run_mixed(struct machine *m, const struct function *f, const char *name)
{
    static u64 mixed[RECORDS * SLOTS];
    const unsigned block = 64, groups = RECORDS / block;

    memcpy(mixed, buffers.in, sizeof mixed);
    for (unsigned i = 0; i < RECORDS; i++)
        mixed[i * SLOTS] = buffers.uniform[i / block * SLOTS];
    expect(f, mixed, RECORDS, 1);
    return launch(m, f, 'm', groups, block) && compare(f, name, RECORDS, block, mixed);
}

/* A function of a lane in every way that the target has. */
static bool run_lanes(struct machine *m, const struct target_row *target, const struct function *f)
{
    char name[192];

    snprintf(name, sizeof name, "%s %s", target->name, f->name);
    expect(f, buffers.in, RECORDS, 1);
    if (!launch(m, f, 'v', RECORDS / 128, 128) || !compare(f, name, RECORDS, 128, buffers.in))
        return false;
    snprintf(name, sizeof name, "%s %s, waves in part", target->name, f->name);
    if (!launch(m, f, 'v', PARTIAL_GROUPS, PARTIAL_BLOCK) ||
        !compare(f, name, PARTIAL_GROUPS * PARTIAL_BLOCK, PARTIAL_BLOCK, buffers.in))
        return false;
    if (target->mixed && f->arguments[1]) {
        snprintf(name, sizeof name, "%s %s, uniform first argument", target->name, f->name);
        if (!run_mixed(m, f, name))
            return false;
    }
    if (target->scalar) {
        snprintf(name, sizeof name, "%s %s, uniform arguments", target->name, f->name);
        expect(f, buffers.uniform, SCALAR_GROUPS, 1);
        return launch(m, f, 's', SCALAR_GROUPS, 32) &&
               compare(f, name, SCALAR_GROUPS, 1, buffers.uniform);
    }
    return true;
}

static bool run_function(struct machine *m, const struct target_row *target,
                         const struct function *f)
{
    char name[192];

    wave_lanes = target->lanes;
    bpermute_span = target->span;
    make_inputs(f);
    snprintf(name, sizeof name, "%s %s", target->name, f->name);
    switch (f->kind) {
    case KIND_LANE:
        return run_lanes(m, target, f);
    case KIND_MEMORY:
        expect(f, buffers.in, RECORDS, 1);
        return launch(m, f, 'v', RECORDS / 64, 64) && compare(f, name, RECORDS, 64, buffers.in);
    case KIND_WAVE:
        expect(f, buffers.in, WAVE_RECORDS, target->lanes);
        return launch(m, f, 'w', WAVE_RECORDS / 128, 128) &&
               compare(f, name, WAVE_RECORDS, 128, buffers.in);
    default:
        expect(f, buffers.in, WORKGROUPS * BLOCK, BLOCK);
        return launch(m, f, 'g', WORKGROUPS, BLOCK) &&
               compare(f, name, WORKGROUPS * BLOCK, BLOCK, buffers.in);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static bool cpu_runs(enum quern_sim_isa isa)
{
    __builtin_cpu_init();
    if (isa == QUERN_ISA_X86_64_V4)
        return t_has_isa("x86_64_v4") && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
    if (isa == QUERN_ISA_X86_64_V3)
        return t_has_isa("x86_64_v3") && __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("bmi2");
    return isa != QUERN_ISA_X86_64 || t_has_isa("x86_64");
}

struct subject {
    unsigned target, text;
    enum quern_sim_isa isa;
    enum quern_sim_check check;
};

static void functions_agree(void **state)
{
    const struct subject *const s = *state;
    const struct target_row *const target = &targets[s->target];
    const struct object *const object = &objects[s->target][s->text];
    unsigned ran = 0, differ = 0;
    struct machine machine;

    if (!cpu_runs(s->isa))
        skip();
    if (object->status != QUERN_OK)
        fail_msg("%s for %s: %s", texts[s->text].name, target->name, object->message);
    machine_open(&machine, target, object, s->isa, s->check);
    for (unsigned i = 0; i < function_count; i++) {
        const struct function *const f = functions[i];
        if (!is_in(f, &texts[s->text]) || (f->needs & target->features) != f->needs)
            continue;
        ran++;
        differ += !run_function(&machine, target, f);
    }
    machine_close(&machine);
    if (differ)
        fail_msg("%u of %u functions differ", differ, ran);
    assert_true(ran > 0);
}

/* Every text is compiled, every function is in one, and there are as many as promised. */
static void functions_are_many(void **state)
{
    (void)state;
    assert_true(function_count < FUNCTIONS_MAX);
    for (unsigned i = 0; i < function_count; i++) {
        unsigned texts_with_it = 0;
        for (unsigned text = 0; text < TEXTS; text++)
            texts_with_it += is_in(functions[i], &texts[text]);
        if (texts_with_it != 1)
            fail_msg("%s: %s is in %u texts", functions[i]->name, functions[i]->file,
                     texts_with_it);
    }
    for (unsigned target = 0; target < TARGETS; target++) {
        unsigned count = 0;
        if (!is_asked(target))
            continue;
        for (unsigned i = 0; i < function_count; i++)
            count += (functions[i]->needs & targets[target].features) == functions[i]->needs;
        print_message("%s: %u functions\n", targets[target].name, count);
        assert_true(count >= FUNCTIONS_LEAST);
    }
}

static struct CMUnitTest tests[1 + TARGETS * TEXTS * 4];
static struct subject subjects[COUNT(tests)];
static size_t test_count;

static void add_test(unsigned target, unsigned text, enum quern_sim_isa isa,
                     enum quern_sim_check check)
{
    static const char *const isas[] = {[QUERN_ISA_AUTO] = "", [QUERN_ISA_X86_64] = ", x86-64",
                                       [QUERN_ISA_X86_64_V3] = ", x86-64-v3",
                                       [QUERN_ISA_X86_64_V4] = ", x86-64-v4"};
    struct subject *const s = &subjects[test_count];

    *s = (struct subject){target, text, isa, check};
    tests[test_count++] = (struct CMUnitTest){
        format("%s: %s agree%s%s", targets[target].name, texts[text].name, isas[isa],
               check == QUERN_CHECK_FULL ? ", full check" : ""),
        functions_agree, NULL, NULL, s};
}

/* Arguments: none, or the pattern of the tests to run, such as "gfx1100: half*". */
int main(int argc, char **argv)
{
    tests[test_count++] = (struct CMUnitTest)cmocka_unit_test(functions_are_many);
    for (unsigned target = 0; target < TARGETS; target++)
        for (unsigned text = 0; text < TEXTS; text++) {
            if (!is_asked_for(target, text))
                continue;
            if (!targets[target].every_isa || T_SANITIZED) {
                add_test(target, text, QUERN_ISA_AUTO, targets[target].check);
                continue;
            }
            add_test(target, text, QUERN_ISA_X86_64, QUERN_CHECK_FAST);
            add_test(target, text, QUERN_ISA_X86_64_V3, QUERN_CHECK_FULL);
            /* of the bodies that are there one is run in full checking */
            add_test(target, text, QUERN_ISA_X86_64_V4,
                     t_has_isa("x86_64_v3") ? QUERN_CHECK_FAST : QUERN_CHECK_FULL);
        }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (compile_all() != QUERN_OK) {
        print_error("no compiler: %s\n", quern_last_error()->message);
        return 1;
    }
    const int failed = _cmocka_run_group_tests("differential", tests, test_count, NULL, NULL);
    for (size_t i = 1; i < test_count; i++)
        free((void *)(uintptr_t)tests[i].name);
    free_objects();
    return failed;
}

#endif
