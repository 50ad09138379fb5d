/* SPDX-License-Identifier: MIT */
/*
 * Data flow: works out what is true at each place of a kernel on all paths that lead there, going
 * forward over blocks of straight code until nothing changes. What is tracked, and how an
 * instruction changes it, is the caller's (struct lint_flow).
 */
#include "lint/scan.h"

#include "base/os.h"

#include <string.h>

struct block {
    uint32_t first, end; /* instructions */
    uint32_t next[2];    /* blocks, or LINT_NOWHERE */
    bool queued, reached;
};

struct blocks {
    const struct lint_scan *scan;
    const struct lint_flow *flow;
    struct block *of;
    size_t count;
    uint32_t *block_of; /* of each instruction */
    char *states;       /* at the beginning of each block, and one more */
};

static void *state_at(const struct blocks *b, size_t block)
{
    return b->states + block * b->flow->bytes;
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
    }
}

/* Joins what is true on one more path to a block with what is known there; notes the block to be
 * gone through again if that is more. */
static void reach(struct blocks *b, size_t to, const void *state)
{
    struct block *const block = &b->of[to];

    if (!block->reached)
        memcpy(state_at(b, to), state, b->flow->bytes);
    block->queued |= !block->reached || b->flow->join(state_at(b, to), state);
    block->reached = true;
}

/* Goes through blocks until nothing changes. That ends, because a caller's join can only add
 * finitely often. */
static void settle(struct blocks *b)
{
    const struct lint_flow *const f = b->flow;
    void *const state = state_at(b, b->count);
    bool again = true;

    reach(b, 0, f->begin);
    while (again) {
        again = false;
        for (size_t n = 0; n < b->count; n++) {
            struct block *const block = &b->of[n];
            if (!block->queued)
                continue;
            block->queued = false;
            again = true;
            memcpy(state, state_at(b, n), f->bytes);
            for (size_t i = block->first; i < block->end; i++)
                f->step(f->user, state, i);
            for (int way = 0; way < 2; way++)
                if (block->next[way] != LINT_NOWHERE)
                    reach(b, block->next[way], state);
        }
    }
}

static void run(struct blocks *b)
{
    const struct lint_flow *const f = b->flow;

    settle(b);
    for (size_t n = 0; n < b->count; n++)
        for (size_t i = b->of[n].first; b->of[n].reached && i < b->of[n].end; i++) {
            f->check(f->user, state_at(b, n), i);
            f->step(f->user, state_at(b, n), i);
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
        b.states = os.malloc((b.count + 1) * flow->bytes);
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
