/* SPDX-License-Identifier: MIT */
/* The scan of an object, kernel by kernel: its code read, then each kind of rule. */
#include "lint/lint.h"

#include "base/os.h"
#include "lint/scan.h"
#include "sim/decode/respell.h"

#include <string.h>

bool lint_knows(const struct target *target)
{
    return target_simulated(target);
}

/* ---- Reading a kernel ------------------------------------------------------------------------ */

struct reading {
    const struct target *target;
    unsigned wave_size;
    struct lint_insn *insns;
    size_t count, room;
    char **texts; /* of the instructions */
    bool failed;  /* out of memory */
    const uint8_t *code;
    size_t bytes;
};

static void read_one(void *user, uint64_t offset, const char *text, const uint32_t shown[2])
{
    struct reading *const r = user;
    uint32_t words[2];

    if (r->failed)
        return;
    if (r->count == r->room) {
        const size_t room = r->room * 2 + 256;
        struct lint_insn *const insns = os.realloc(r->insns, room * sizeof *insns);
        r->insns = insns ? insns : r->insns;
        char **const texts = os.realloc(r->texts, room * sizeof *texts);
        r->texts = texts ? texts : r->texts;
        r->failed = !insns || !texts;
        if (r->failed)
            return;
        r->room = room;
    }
    const size_t bytes = strlen(text) + 1;
    char *const copy = os.malloc(bytes);
    if (!copy) {
        r->failed = true;
        return;
    }
    memcpy(copy, text, bytes);
    r->texts[r->count] = copy;
    respell_words(r->code, r->bytes, offset, words);
    const struct unsaid u = unsaid_of(r->target, words, shown, copy);
    struct lint_insn *const insn = &r->insns[r->count++];
    lint_read(r->target, r->wave_size, copy, offset, insn);
    if (u.has_mask)
        insn->defs[insn->def_count++] = (struct lint_range){u.mask, 2};
}

static void reading_free(struct reading *r)
{
    for (size_t i = 0; i < r->count; i++)
        os.free(r->texts[i]);
    os.free(r->texts);
    os.free(r->insns);
}

/* The instruction at a byte offset, or LINT_NOWHERE. */
static uint32_t at_offset(const struct reading *r, int64_t offset)
{
    size_t low = 0, high = r->count;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (r->insns[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->count && r->insns[low].offset == offset ? (uint32_t)low : LINT_NOWHERE;
}

/* Notes which instructions can be reached from the first: code that only fills a line up is not
 * scanned, nor what is behind the end. */
static void mark_reached(const struct reading *r, const uint32_t *next, bool *reached,
                         uint32_t *stack)
{
    size_t depth = 0;

    if (r->count)
        stack[depth++] = 0;
    while (depth) {
        const uint32_t i = stack[--depth];
        if (reached[i])
            continue;
        reached[i] = true;
        for (int way = 0; way < 2; way++)
            if (next[2 * i + way] != LINT_NOWHERE && !reached[next[2 * i + way]])
                stack[depth++] = next[2 * i + way];
    }
}

static quern_status scan_kernel(struct lint_scan *s, struct reading *r)
{
    uint32_t *const next = os.malloc((4 * r->count + 4) * sizeof *next);
    bool *const reached = os.calloc(r->count + 1, sizeof *reached);
    quern_status status = QUERN_OK;

    if (!next || !reached) {
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!next || !reached"),
                           "out of memory for a scan of %zu instructions", r->count);
    } else {
        for (size_t i = 0; i < r->count; i++) {
            struct lint_insn *const insn = &r->insns[i];
            const int64_t jump = insn->understood ? -1 : lint_jump(r->insns, i);
            if (jump >= 0 && at_offset(r, jump) != LINT_NOWHERE) {
                insn->branch = jump;
                insn->understood = true;
            }
            next[2 * i] = insn->falls_through && i + 1 < r->count ? (uint32_t)i + 1 : LINT_NOWHERE;
            next[2 * i + 1] = insn->branch >= 0 ? at_offset(r, insn->branch) : LINT_NOWHERE;
        }
        mark_reached(r, next, reached, next + 2 * r->count);
        s->insns = r->insns;
        s->count = r->count;
        s->next = next;
        for (size_t i = 0; i < r->count; i++) {
            if (!reached[i])
                r->insns[i].kinds = r->insns[i].def_count = r->insns[i].use_count = 0;
            else if (!r->insns[i].understood)
                lint_report(s, QUERN_LINT_UNREAD, "an instruction that the scan cannot read", i, i,
                            (struct lint_range){0}, 0, 0);
        }
        status = lint_hazards(s);
        if (status == QUERN_OK)
            status = lint_stale(s);
        if (status == QUERN_OK)
            status = lint_forward(s);
        if (status == QUERN_OK)
            status = lint_owed(s);
    }
    os.free(next);
    os.free(reached);
    return status;
}

quern_status lint_code(const struct target *target, const char *name, unsigned wave_size,
                       const void *code, size_t bytes,
                       const struct quern_disassembler *disassembler, quern_lint_fn fn, void *user)
{
    struct lint_scan scan = {
        .target = target, .kernel = name, .wave_size = wave_size, .fn = fn, .user = user};
    struct reading r = {.target = target, .wave_size = wave_size, .code = code, .bytes = bytes};

    quern_status status = respell_all(disassembler, target, wave_size, code, bytes, read_one, &r);
    if (status == QUERN_OK && r.failed)
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("r.failed"),
                           "out of memory for the code of %s", name);
    if (status == QUERN_OK)
        status = scan_kernel(&scan, &r);
    reading_free(&r);
    return status;
}

quern_status lint_object(const struct object *object, const struct quern_disassembler *disassembler,
                         quern_lint_fn fn, void *user)
{
    FAIL_IF(!lint_knows(object->target), QUERN_E_TARGET,
            "objects for %s are not scanned: its rules are not known here", object->target->name);
    for (size_t k = 0; k < object->kernel_count; k++) {
        const struct object_kernel *const kernel = &object->kernels[k];
        const uint8_t *const code = object_at(object, kernel->entry, kernel->code_bytes);
        FAIL_IF(!code, QUERN_E_OBJECT, "kernel %s has no code in the file", kernel->name);
        TRY(lint_code(object->target, kernel->name, kernel->wave_size, code, kernel->code_bytes,
                      disassembler, fn, user));
    }
    return QUERN_OK;
}

quern_status quern_lint(const struct quern_disassembler *disassembler, const void *object,
                        size_t bytes, quern_lint_fn fn, void *user)
{
    struct object parsed;

    FAIL_IF(!disassembler || !disassembler->function || !object || !fn, QUERN_E_ARGUMENT,
            "a null argument");
    TRY(object_parse(object, bytes, &parsed));
    const quern_status status = lint_object(&parsed, disassembler, fn, user);
    object_free(&parsed);
    return status;
}
