/* SPDX-License-Identifier: MIT */
/* Counts instructions in a disassembly (static_count.h). */
#include "measure/static_count.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct line {
    uint64_t offset;
    int64_t back; /* where a branch leads; -1: it is none */
    bool slot, lds;
};

struct listing {
    struct line *lines;
    size_t count, room;
    bool failed;
};

static bool begins(const char *text, const char *word)
{
    return !strncmp(text, word, strlen(word));
}

/* Whether an instruction is a wait, which takes no issue slot in the software GPU's counts. */
static bool is_wait(const char *text)
{
    return begins(text, "s_wait") || begins(text, "s_nop") || begins(text, "s_delay_alu") ||
           begins(text, "s_clause");
}

static void add(void *user, uint64_t offset, unsigned size, const char *text)
{
    struct listing *const l = user;

    (void)size;
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 1024;
        struct line *const larger = realloc(l->lines, room * sizeof *larger);
        if (!larger) {
            l->failed = true;
            return;
        }
        l->lines = larger;
        l->room = room;
    }
    struct line *const line = &l->lines[l->count++];
    *line = (struct line){
        .offset = offset, .back = -1, .slot = !is_wait(text), .lds = begins(text, "ds_")};
    if (begins(text, "s_cbranch_") || begins(text, "s_branch ")) {
        const int64_t to = quern_branch_target(text, offset);
        line->back = to <= (int64_t)offset ? to : -1;
    }
}

static bool in_loop(const struct listing *l, uint64_t offset)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->lines[i].back >= 0 && (int64_t)offset >= l->lines[i].back &&
            offset <= l->lines[i].offset)
            return true;
    return false;
}

static void sum(const struct listing *l, uint64_t trips, struct static_count *out)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct line *const line = &l->lines[i];
        const uint64_t times = in_loop(l, line->offset) ? trips : 1;
        out->slots += line->slot ? times : 0;
        out->lds_accesses += line->lds ? times : 0;
        out->loops += line->back >= 0;
    }
}

int static_count(quern_ctx *ctx, const char *target, const void *object, size_t size,
                 const char *symbol, uint64_t trips, struct static_count *out)
{
    const struct quern_disassembler d = quern_ctx_disassembler(ctx);
    struct listing l = {0};
    const void *code;
    size_t code_bytes;
    uint64_t address;
    int status = EXIT_OK;

    *out = (struct static_count){0};
    quern_status e = quern_object_code(object, size, symbol, &code, &code_bytes, &address);
    if (!e)
        e = d.function(d.user, target, code, code_bytes, add, &l);
    if (e)
        status = fail_status(e, symbol);
    else if (l.failed)
        status = fail("out of memory");
    else
        sum(&l, trips, out);
    free(l.lines);
    return status;
}
