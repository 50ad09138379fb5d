/* SPDX-License-Identifier: MIT */
/*
 * Mutants of kernels, for the tests of the scan (test_lint_mutants.c, test_lint_foreign_long.c):
 * waits are taken away, one at a time, and made weaker by one; nops are made shorter; instructions
 * are taken away from behind those that others must keep their distance from. The scan must find
 * each mutant that is wrong. Who says which are share nothing with the scan. One is the software
 * GPU in full checking, which runs a workgroup of the mutant: it is wrong when a register that is
 * not there yet reaches a result. The other, for waits, is a reader that walks through the code at
 * random, keeps for each counter what was issued and is not proven done, and calls a mutant wrong
 * when an instruction on its way names a register that is still owed. The scan is about all ways,
 * so that whatever they meet it must have found.
 *
 * This file is long because the reader, which shares nothing with the scan, is a part of it.
 */
#ifndef MUTANTS_H
#define MUTANTS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lint/lint.h"
#include "sim/decode/respell.h"
#include "t_context.h"
#include "t_explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Listings -------------------------------------------------------------------------------- */

enum { NAMES_MAX = 12 };

/* Registers by file: scalar ones from 0, vcc 200, vector ones from 1000, accumulators from 2000. */
struct names {
    int first[NAMES_MAX], last[NAMES_MAX], count;
};

/* What the second reader makes of a line. */
struct line {
    char text[160];
    uint64_t offset;
    unsigned size;
    int counter[2]; /* that it raises, else -1; a flat access raises two */
    bool ordered;   /* what it raises is done in the order of issue */
    bool loads;     /* its first operand is owed, from now on */
    bool into_lds;
    bool ends, branches, goes_on, barrier;
    size_t to;   /* of a branch */
    bool led_to; /* a branch leads here */
    struct names names;
};

struct listing {
    struct line *lines;
    size_t count, room;
    bool one_for_stores, one_for_scalars; /* gfx9: vmcnt has stores; gfx9, gfx11: lgkmcnt both */
    const struct target *target;
    unsigned wave_size;
    uint64_t begin; /* where in the object's code the kernel begins */
    const struct object *object;
};

enum { LOADS, STORES, LDS, SCALARS, COUNTERS };

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static void read_names(const char *text, struct names *n)
{
    n->count = 0;
    for (const char *at = strchr(text, ' '); at && n->count < NAMES_MAX;) {
        int first, last;
        char file;
        at += strspn(at, " ,-|");
        if (sscanf(at, "%c[%d:%d]", &file, &first, &last) != 3) {
            if (sscanf(at, "%c%d", &file, &first) != 2)
                file = 0;
            last = first;
        }
        int base = file == 's' ? 0 : file == 'v' ? 1000 : file == 'a' ? 2000 : -1;
        if (starts(at, "vcc")) {
            base = 0;
            first = 200;
            last = 201;
        }
        if (base >= 0 && at[1] != '_') {
            n->first[n->count] = base + first;
            n->last[n->count++] = base + last;
        }
        at = strpbrk(at, " ,");
    }
}

static void read_line(const struct listing *l, struct line *x)
{
    const char *const t = x->text;
    const bool lds = starts(t, "ds_") && !starts(t, "ds_nop");
    const bool flat = starts(t, "flat_");
    const bool memory =
        flat || starts(t, "global_") || starts(t, "buffer_") || starts(t, "scratch_");
    const bool scalar = starts(t, "s_load") || starts(t, "s_buffer_load");
    const bool back = strstr(t, "_load") && !strstr(t, "_lds");

    read_names(t, &x->names);
    x->counter[0] = x->counter[1] = -1;
    x->ordered = !scalar && !flat;
    x->loads =
        scalar ||
        (memory && (back || (strstr(t, "atomic") && (strstr(t, " glc") || strstr(t, " sc0") ||
                                                     strstr(t, "ATOMIC_RETURN"))))) ||
        (lds && (starts(t, "ds_read") || starts(t, "ds_load") || strstr(t, "permute") ||
                 strstr(t, "swizzle") || strstr(t, "_rtn")));
    x->into_lds = (lds && !x->loads) || (memory && strstr(t, "_lds"));
    if (memory)
        x->counter[0] = x->loads || x->into_lds || l->one_for_stores ? LOADS : STORES;
    if (lds || flat)
        x->counter[memory] = LDS;
    if (scalar)
        x->counter[0] = l->one_for_scalars ? LDS : SCALARS;
    x->barrier = !strcmp(t, "s_barrier") || starts(t, "s_barrier_signal");
    x->ends = starts(t, "s_endpgm");
    x->branches = starts(t, "s_cbranch") || starts(t, "s_branch");
    x->goes_on = !x->ends && !starts(t, "s_branch");
}

/* Adds an instruction to a listing. How long it is shows when the next one comes; listing_read
 * tells the last one's size. */
static void add_line(void *user, uint64_t offset, const char *text, const uint32_t shown[2])
{
    struct listing *const l = user;

    (void)shown;
    if (l->count)
        l->lines[l->count - 1].size = (unsigned)(offset - l->lines[l->count - 1].offset);
    if (l->count == l->room) {
        l->room = 2 * l->room + 256;
        l->lines = realloc(l->lines, l->room * sizeof *l->lines);
        assert_non_null(l->lines);
    }
    struct line *const x = &l->lines[l->count++];
    *x = (struct line){.offset = offset};
    /* a line without text stands for an instruction that was taken away */
    snprintf(x->text, sizeof x->text, "%s", *text ? text : "?");
    read_line(l, x);
}

static void find_branches(struct listing *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct line *const x = &l->lines[i];
        const char *const last = strrchr(x->text, ' ');
        if (!x->branches)
            continue;
        const uint64_t to = x->offset + 4 + 4 * (uint64_t)(int64_t)(int16_t)atoi(last);
        for (x->to = 0; x->to < l->count && l->lines[x->to].offset != to;)
            x->to++;
        assert_true(x->to < l->count);
        l->lines[x->to].led_to = true;
    }
}

/* ---- The walker ------------------------------------------------------------------------------ */

/* What was issued on a counter and is not proven done, oldest first. */
struct pending {
    struct issued {
        const struct line *line;
        int first, last; /* registers; none: first > last */
    } of[256];
    size_t count;
};

static bool in_order(const struct pending *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (!p->of[i].line->ordered ||
            starts(p->of[i].line->text, "ds_") != starts(p->of[0].line->text, "ds_"))
            return false;
    return true;
}

static void wait_for(struct pending *p, unsigned left)
{
    if (left && !in_order(p))
        return;
    if (p->count > left) {
        memmove(p->of, p->of + (p->count - left), left * sizeof *p->of);
        p->count = left;
    }
}

static void wait_by(const struct listing *l, struct pending *p, const char *t)
{
    const char *const at = strstr(t, "vmcnt("), *const lg = strstr(t, "lgkmcnt(");
    const char *const last = strrchr(t, ' ');
    const unsigned n = last ? (unsigned)strtoul(last, NULL, 0) : 0;

    if (starts(t, "s_waitcnt ")) {
        if (at)
            wait_for(&p[LOADS], (unsigned)atoi(at + 6));
        if (lg)
            wait_for(&p[LDS], (unsigned)atoi(lg + 8));
        if (!strchr(t, '('))
            wait_for(&p[LOADS], 0), wait_for(&p[LDS], 0);
    } else if (starts(t, "s_wait_loadcnt_dscnt")) {
        wait_for(&p[LOADS], n >> 8);
        wait_for(&p[LDS], n & 255);
    } else if (starts(t, "s_wait_storecnt_dscnt")) {
        wait_for(&p[STORES], n >> 8);
        wait_for(&p[LDS], n & 255);
    } else if (starts(t, "s_wait_loadcnt")) {
        wait_for(&p[LOADS], n);
    } else if (starts(t, "s_wait_storecnt") || starts(t, "s_waitcnt_vscnt")) {
        wait_for(&p[STORES], n);
    } else if (starts(t, "s_wait_dscnt")) {
        wait_for(&p[LDS], n);
    } else if (starts(t, "s_wait_kmcnt")) {
        wait_for(&p[l->one_for_scalars ? LDS : SCALARS], n);
    }
}

/* Whether an instruction names a register that is owed. Loads of one kind come in their order, so
 * that one may follow another into its registers. */
static bool names_owed(const struct pending *p, const struct line *x)
{
    for (int n = 0; n < x->names.count; n++)
        for (int c = 0; c < COUNTERS; c++)
            for (size_t i = 0; i < p[c].count; i++) {
                const struct issued *const o = &p[c].of[i];
                const bool follows = n == 0 && x->loads && c == x->counter[0] && x->ordered &&
                                     in_order(&p[c]) &&
                                     starts(o->line->text, "ds_") == starts(x->text, "ds_");
                if (x->names.first[n] <= o->last && o->first <= x->names.last[n] && !follows)
                    return true;
            }
    return false;
}

static void issue(struct pending *p, const struct line *x)
{
    for (int k = 0; k < 2; k++) {
        struct pending *const to = &p[x->counter[k] < 0 ? 0 : x->counter[k]];
        if (x->counter[k] < 0)
            continue;
        if (to->count == 256)
            wait_for(to, 255);
        to->of[to->count++] =
            (struct issued){x, x->loads ? x->names.first[0] : 0, x->loads ? x->names.last[0] : -1};
    }
}

/* One way through the code: whether anything is wrong on it. */
static bool walk(const struct listing *l, uint64_t *random)
{
    static struct pending p[COUNTERS];
    size_t at = 0;

    for (int c = 0; c < COUNTERS; c++)
        p[c].count = 0;
    for (int steps = 0; steps < 6000 && at < l->count; steps++) {
        const struct line *const x = &l->lines[at];
        if (names_owed(p, x))
            return true;
        for (int c = 0; x->barrier && c < COUNTERS; c++)
            for (size_t i = 0; i < p[c].count; i++)
                if (p[c].of[i].line->into_lds)
                    return true;
        if (x->ends)
            return false;
        if (starts(x->text, "s_wait"))
            wait_by(l, p, x->text);
        issue(p, x);
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        const bool jump = x->branches && (!x->goes_on || *random >> 62 == 0);
        at = jump ? x->to : at + 1;
    }
    return false;
}

static bool is_wrong(const struct listing *l)
{
    uint64_t random = 1;

    for (int n = 0; n < 24; n++)
        if (walk(l, &random))
            return true;
    return false;
}

/* ---- The scan -------------------------------------------------------------------------------- */

static quern_status read_lines(void *user, const char *processor, const void *code, size_t size,
                               quern_disassembly_fn emit, void *emit_user)
{
    const struct listing *const l = user;

    (void)processor, (void)code, (void)size;
    for (size_t i = 0; i < l->count; i++)
        if (*l->lines[i].text) /* one that is taken away has no text */
            emit(emit_user, l->lines[i].offset + l->begin, l->lines[i].size, l->lines[i].text);
    return QUERN_OK;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The object's code, of whose other kernels each is an end alone. */
static quern_status read_object(void *user, const char *processor, const void *code, size_t size,
                                quern_disassembly_fn emit, void *emit_user)
{
    const struct listing *const l = user;
    const struct object *const o = l->object;
    uint64_t *const begins = malloc(o->kernel_count * sizeof *begins);
    uint64_t text = 0;

    assert_non_null(begins);
    for (size_t n = 0; n < o->segment_count; n++)
        text = o->segments[n].execute ? o->segments[n].address : text;
    for (size_t n = 0; n < o->kernel_count; n++)
        begins[n] = o->kernels[n].entry - text;
    qsort(begins, o->kernel_count, sizeof *begins, by_number);
    for (size_t n = 0; n < o->kernel_count; n++)
        if (begins[n] == l->begin)
            (void)read_lines(user, processor, code, size, emit, emit_user);
        else
            emit(emit_user, begins[n], 4, "s_endpgm");
    free(begins);
    return QUERN_OK;
}

static void keep_rule(void *user, const struct quern_lint_finding *f)
{
    *(const char **)user = f->what;
}

/* The code that a listing is said to be of: nothing of it is looked at but its size. */
static const uint8_t blank[1 << 23];

/* The rule of the last finding; null: there is none. */
static const char *findings(struct listing *l)
{
    const struct quern_disassembler d = {read_lines, l};
    const char *rule = NULL;

    assert_int_equal(
        lint_code(l->target, "k", l->wave_size, blank, sizeof blank, &d, keep_rule, &rule),
        QUERN_OK);
    return rule;
}

/* Reads a kernel's code. */
static void listing_read(struct listing *l, const struct quern_disassembler *d,
                         const struct object *object, const struct object_kernel *k)
{
    *l = (struct listing){.target = object->target, .wave_size = k->wave_size, .object = object};
    l->one_for_stores = !l->target->store_counter;
    l->one_for_scalars = !(l->target->capabilities & CAP_SPLIT_BARRIER);
    /* as the scan reads it, which gets a text of instructions that the disassembler declines */
    if (respell_all(d, l->target, l->wave_size, object_at(object, k->entry, k->code_bytes),
                    k->code_bytes, add_line, l) != QUERN_OK)
        fail_msg("%s: %s", k->name, quern_last_error()->message);
    if (l->count)
        l->lines[l->count - 1].size = (unsigned)(k->code_bytes - l->lines[l->count - 1].offset);
    find_branches(l);
    for (size_t n = 0; n < object->segment_count; n++)
        if (object->segments[n].execute)
            l->begin = k->entry - object->segments[n].address;
}

/* ---- The software GPU ------------------------------------------------------------------------ */

/* One workgroup of a kernel, with operands of numbers without a pattern. */
struct bench {
    quern_sim *sim;
    const void *object;
    size_t object_bytes;
    struct quern_sim_launch launch;
    uint8_t kernarg[8 * QUERN_ARGS_MAX];
    void *host[QUERN_ARGS_MAX];
    size_t count;
    bool runs; /* the kernel as it is does */
};

static void bench_open(struct bench *b, struct listing *l, const void *object, size_t bytes,
                       const char *symbol)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);

    *b = (struct bench){
        .object = object, .object_bytes = bytes, .launch = QUERN_INIT(struct quern_sim_launch)};
    o.target = l->target->name;
    o.check = QUERN_CHECK_FULL;
    o.arithmetic = QUERN_ARITHMETIC_FAST; /* what comes late does so whatever it is */
    o.threads = 1;
    o.max_instructions = 1000000;
    o.disassembler = (struct quern_disassembler){read_object, l};
    assert_int_equal(quern_sim_open(&o, &b->sim), QUERN_OK);
    b->launch.kernel = symbol;
    b->launch.kernarg = b->kernarg;
    b->launch.grid[0] = b->launch.grid[1] = b->launch.grid[2] = 1;
}

/* Maps a buffer of numbers: its address. */
static uint64_t bench_buffer(struct bench *b, uint64_t bytes, enum quern_sim_access access,
                             const char *name)
{
    uint8_t *const to = b->host[b->count++] = malloc(bytes);
    uint64_t address;

    assert_non_null(to);
    for (uint64_t n = 0; n < bytes; n++)
        to[n] = (uint8_t)(n * 0x9e3779b97f4a7c15u >> 57);
    assert_int_equal(quern_sim_map(b->sim, to, bytes, access, name, &address), QUERN_OK);
    return address;
}

static void bench_close(struct bench *b)
{
    quern_sim_close(b->sim);
    for (size_t i = 0; i < b->count; i++)
        free(b->host[i]);
}

static quern_status bench_run(const struct bench *b)
{
    quern_sim_module *module;
    quern_status status = quern_sim_load(b->sim, b->object, b->object_bytes, &module);

    if (status != QUERN_OK)
        fail_msg("%s: %s", b->launch.kernel, quern_last_error()->message);
    status = quern_sim_run(module, &b->launch, NULL);
    quern_sim_unload(module);
    return status;
}

/* Whether something that is not there yet reaches a result. Other findings are not about that. */
static bool reaches_a_result(const struct bench *b)
{
    static const char *const said[] = {"still owes: a wait for", "wait states are needed",
                                       "behind a read by a vector instruction",
                                       "has written and not waited for"};

    if (!b->runs || bench_run(b) != QUERN_E_FAULT)
        return false;
    for (size_t n = 0; n < sizeof said / sizeof *said; n++)
        if (strstr(quern_last_error()->message, said[n]))
            return true;
    return false;
}

/* ---- Mutants --------------------------------------------------------------------------------- */

enum mutation { WAIT_REMOVED, WAIT_WEAKENED, NOP_SHORTENED, NEIGHBOUR_REMOVED, MUTATIONS };
static const char *const mutations[] = {"wait removed", "wait weakened", "nop shortened",
                                        "instruction between a pair removed"};

static struct tally {
    int kernels, run, mutants[MUTATIONS], wrong[MUTATIONS], by_running[MUTATIONS], found[MUTATIONS],
        harmless[MUTATIONS];
    /* by rule: mutants that the scan found and that did nothing wrong where they were judged */
    struct {
        const char *rule;
        int count;
    } strict[64];
} tally;

static unsigned neighbours = 3; /* one in so many of those between a pair is taken away */

static void count_strict(const char *rule)
{
    size_t n = 0;

    while (tally.strict[n].rule && strcmp(tally.strict[n].rule, rule) != 0)
        n++;
    tally.strict[n].rule = rule;
    tally.strict[n].count++;
}

static void judge(struct listing *l, const struct bench *b, size_t i, enum mutation kind,
                  const char *mutant)
{
    struct line *const x = &l->lines[i];
    const struct line kept = *x;

    snprintf(x->text, sizeof x->text, "%s", mutant);
    read_line(l, x);
    const bool ran = reaches_a_result(b);
    const bool wrong = ran || (kind <= WAIT_WEAKENED && is_wrong(l));
    const char *const found = findings(l);
    tally.mutants[kind]++;
    tally.wrong[kind] += wrong;
    tally.by_running[kind] += ran;
    tally.found[kind] += found != NULL;
    tally.harmless[kind] += !wrong && !found;
    if (found && !wrong)
        count_strict(found);
    if (wrong && !found)
        fail_msg("%s, %s: not found: '%s' at %llx became '%s': %s", l->target->name,
                 b->launch.kernel, kept.text, (unsigned long long)kept.offset, mutant,
                 ran ? quern_last_error()->message : "a walk met it");
    *x = kept;
}

/* The text with the number at `at` greater by `more`. */
static void judge_weaker(struct listing *l, const struct bench *b, size_t i, const char *at,
                         unsigned more)
{
    char *end, mutant[160];
    const unsigned long n = strtoul(at, &end, 0);
    const char *const text = l->lines[i].text;

    snprintf(mutant, sizeof mutant, "%.*s%lu%s", (int)(at - text), text, n + more, end);
    judge(l, b, i, WAIT_WEAKENED, mutant);
}

/* Whether an instruction before this one is such that others must keep their distance: then each
 * between them may be a part of it. Those of gfx9 that write registers late. */
static bool may_keep_apart(const struct listing *l, size_t i)
{
    static const char *const late[] = {"v_mfma_",     "v_smfmac_", "v_dot",    "v_cmp",
                                       "v_readlane_", "v_readfir", "v_wmma_",  "v_exp_",
                                       "v_rcp_",      "v_log_",    "v_swmmac_"};

    for (size_t back = 1; back <= 16 && back <= i; back++)
        for (size_t n = 0; n < sizeof late / sizeof *late; n++)
            if (starts(l->lines[i - back].text, late[n]))
                return true;
    return false;
}

static void mutate_one(struct listing *l, const struct bench *b, size_t i)
{
    const char *const t = l->lines[i].text, *const last = strrchr(t, ' ');

    if (starts(t, "s_nop ")) {
        char mutant[24];
        snprintf(mutant, sizeof mutant, "s_nop %d", atoi(t + 6) - 1);
        if (atoi(t + 6) || !l->lines[i].led_to)
            judge(l, b, i, NOP_SHORTENED, atoi(t + 6) ? mutant : "");
        return;
    }
    if (!starts(t, "s_wait") || !last) {
        const bool plain = starts(t, "v_") || starts(t, "s_mov") || starts(t, "s_add");
        if (plain && i && !l->lines[i].led_to && i % neighbours == 0 && may_keep_apart(l, i))
            judge(l, b, i, NEIGHBOUR_REMOVED, "");
        return;
    }
    if (strstr(t, "depctr") || starts(t, "s_wait_alu")) {
        judge(l, b, i, WAIT_REMOVED, "s_nop 0");
        return;
    }
    judge(l, b, i, WAIT_REMOVED, "s_nop 0");
    if (!strchr(t, '('))
        judge_weaker(l, b, i, last + 1, 1);
    if (strstr(t, "cnt_dscnt"))
        judge_weaker(l, b, i, last + 1, 0x100);
    for (const char *at = strchr(t, '('); at; at = strchr(at + 1, '('))
        judge_weaker(l, b, i, at + 1, 1);
}

/* Judges all mutants of a kernel that is right as it is. */
static void mutate(struct listing *l, struct bench *b)
{
    tally.kernels++;
    b->runs = bench_run(b) == QUERN_OK;
    tally.run += b->runs;
    for (size_t i = 0; i < l->count; i++)
        mutate_one(l, b, i);
}

/* Prints what was counted, and holds it to there having been something to judge. */
static void print_tally(void)
{
    int mutants = 0, wrong = 0;

    for (int k = 0; k < MUTATIONS; k++) {
        print_message("%s: %d mutants, %d wrong, %d of these by running, %d found, %d harmless\n",
                      mutations[k], tally.mutants[k], tally.wrong[k], tally.by_running[k],
                      tally.found[k], tally.harmless[k]);
        mutants += tally.mutants[k];
        wrong += tally.wrong[k];
    }
    for (size_t n = 0; tally.strict[n].rule; n++)
        print_message("found, and harmless where it was judged: %d: %s\n", tally.strict[n].count,
                      tally.strict[n].rule);
    print_message("%d kernels, %d of them run, %d mutants\n", tally.kernels, tally.run, mutants);
    /* The judges do judge, but where time ended a walk over kernels before there were enough for a
     * wrong mutant of each kind. */
    assert_true((t_explores() && tally.kernels < 12) ||
                (wrong > mutants / 8 && tally.by_running[WAIT_REMOVED] > 0 &&
                 tally.by_running[NOP_SHORTENED] > 0));
}

#endif
