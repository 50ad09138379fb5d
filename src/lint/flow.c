/* SPDX-License-Identifier: MIT */
/*
 * Data flow: works out what is true at each place of a kernel on all paths that lead there, going
 * forward over blocks of straight code until nothing changes. What is tracked, and how an
 * instruction changes it, is the caller's (struct lint_flow). Paths on which other things are known
 * of a scalar register are kept apart, so that none goes where a branch says that it does not.
 */
#include "lint/scan.h"

#include "base/os.h"

#include <string.h>

enum { WAYS = 3 }; /* states of a block that are kept apart at most */

struct block {
    uint32_t first, end; /* instructions */
    uint32_t next[2];    /* blocks, or LINT_NOWHERE */
    struct lint_test test;
    struct lint_values facts[WAYS];
    unsigned ways;
    bool queued[WAYS];
};

struct blocks {
    const struct lint_scan *scan;
    const struct lint_flow *flow;
    struct block *of;
    size_t count;
    uint32_t *block_of; /* of each instruction */
    char *states;       /* at the beginning of each block, WAYS of each, and one more */
};

static void *state_at(const struct blocks *b, size_t block, size_t way)
{
    return b->states + (block * WAYS + way) * b->flow->bytes;
}

/* Cuts the code into blocks: one begins where a branch leads, and behind each instruction from
 * which control may go elsewhere. */
static void cut(struct blocks *b, bool *begins)
{
    const struct lint_scan *const s = b->scan;

    for (size_t i = 0; i < s->count; i++) {
        const uint32_t *const next = lint_successors(s, i);
        const bool ends = next[1] != LINT_NOWHERE || next[0] == LINT_NOWHERE;
        if (next[1] != LINT_NOWHERE)
            begins[next[1]] = true;
        if (ends && i + 1 < s->count)
            begins[i + 1] = true;
    }
    begins[0] = true;
    for (size_t i = 0; i < s->count; i++) {
        if (begins[i])
            b->of[b->count++] = (struct block){.first = (uint32_t)i};
        b->of[b->count - 1].end = (uint32_t)i + 1;
        b->block_of[i] = (uint32_t)b->count - 1;
    }
    for (size_t n = 0; n < b->count; n++) {
        const uint32_t *const next = lint_successors(s, b->of[n].end - 1);
        for (int way = 0; way < 2; way++)
            b->of[n].next[way] = next[way] == LINT_NOWHERE ? next[way] : b->block_of[next[way]];
        b->of[n].test = lint_test_of(s, b->of[n].first, b->of[n].end - 1);
    }
}

static bool same_values(const struct lint_values *a, const struct lint_values *b)
{
    return a->known == b->known &&
           (!a->known || (a->reg == b->reg && a->is_signed == b->is_signed && a->low == b->low &&
                          a->high == b->high));
}

/* Joins what is true on one more path to a block with what is known there; notes the block to be
 * gone through again if that is more. Where there are too many kinds of paths already, it joins the
 * first of them, of which nothing is known then. */
static void reach(struct blocks *b, size_t to, const void *state, const struct lint_values *facts)
{
    struct block *const block = &b->of[to];
    size_t way = 0;

    while (way < block->ways && !same_values(&block->facts[way], facts))
        way++;
    if (way == block->ways && way < WAYS) {
        memcpy(state_at(b, to, way), state, b->flow->bytes);
        block->facts[way] = *facts;
        block->queued[way] = true;
        block->ways++;
        return;
    }
    if (way == WAYS) {
        way = 0;
        block->queued[way] |= block->facts[way].known;
        block->facts[way].known = false;
    }
    block->queued[way] |= b->flow->join(state_at(b, to, way), state);
}

/* Goes through a block on one way. */
static void go_through(struct blocks *b, size_t n, size_t way)
{
    const struct lint_flow *const f = b->flow;
    const struct block *const block = &b->of[n];
    void *const state = state_at(b, b->count, 0);
    struct lint_values facts = block->facts[way];

    memcpy(state, state_at(b, n, way), f->bytes);
    for (size_t i = block->first; i < block->end; i++) {
        f->step(f->user, state, i);
        lint_forget(&facts, &b->scan->insns[i]);
    }
    for (int taken = 0; taken < 2; taken++) {
        struct lint_values then = facts;
        if (block->next[taken] != LINT_NOWHERE && lint_take(&then, &block->test, taken))
            reach(b, block->next[taken], state, &then);
    }
}

/* Goes through blocks until nothing changes. That ends, because a caller's join can only add
 * finitely often, and what is known of registers can only become less. */
static void settle(struct blocks *b)
{
    const struct lint_values nothing = {0};
    bool again = true;

    reach(b, 0, b->flow->begin, &nothing);
    while (again) {
        again = false;
        for (size_t n = 0; n < b->count; n++)
            for (size_t way = 0; way < b->of[n].ways; way++)
                if (b->of[n].queued[way]) {
                    b->of[n].queued[way] = false;
                    again = true;
                    go_through(b, n, way);
                }
    }
}

static void run(struct blocks *b)
{
    const struct lint_flow *const f = b->flow;

    settle(b);
    for (size_t n = 0; n < b->count; n++) {
        for (size_t way = 1; way < b->of[n].ways; way++)
            f->join(state_at(b, n, 0), state_at(b, n, way));
        for (size_t i = b->of[n].first; b->of[n].ways && i < b->of[n].end; i++) {
            f->check(f->user, state_at(b, n, 0), i);
            f->step(f->user, state_at(b, n, 0), i);
        }
    }
}

quern_status lint_flow(const struct lint_scan *s, const struct lint_flow *flow)
{
    struct blocks b = {.scan = s, .flow = flow};
    bool *const begins = os.calloc(s->count + 1, sizeof *begins);
    quern_status status = QUERN_OK;

    b.of = os.calloc(s->count + 1, sizeof *b.of);
    b.block_of = os.calloc(s->count + 1, sizeof *b.block_of);
    if (begins && b.of && b.block_of && s->count) {
        cut(&b, begins);
        b.states = os.malloc((b.count + 1) * WAYS * flow->bytes);
    }
    if (b.states)
        run(&b);
    else if (s->count)
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!b.states"),
                           "out of memory for a scan of %zu instructions", s->count);
    os.free(begins);
    os.free(b.of);
    os.free(b.block_of);
    os.free(b.states);
    return status;
}
