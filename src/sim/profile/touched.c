/* SPDX-License-Identifier: MIT */
/* The set of 128-byte lines that waves touch (touched.h), for profiles. */
#include "sim/profile/touched.h"

#include "base/os.h"

#include <string.h>

#define ROOM_FIRST 1024

struct touched_line {
    uint64_t number; /* one more than address ÷ 128; 0: the place is free */
    uint32_t waves;  /* that touched it */
};

void touched_begin(struct touched *t)
{
    if (t->count)
        memset(t->lines, 0, t->room * sizeof *t->lines);
    t->count = 0;
}

void touched_free(struct touched *t)
{
    os.free(t->lines);
    *t = (struct touched){0};
}

/* Where the line is, or belongs. `room` is a power of two, and never full. */
static struct touched_line *place(struct touched_line *lines, size_t room, uint64_t number)
{
    size_t at = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (room - 1);

    while (lines[at].number && lines[at].number != number)
        at = (at + 1) & (room - 1);
    return &lines[at];
}

static bool grow(struct touched *t)
{
    const size_t room = t->room ? 2 * t->room : ROOM_FIRST;
    struct touched_line *const lines = os.calloc(room, sizeof *lines);

    if (!lines)
        return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->lines[i].number)
            *place(lines, room, t->lines[i].number) = t->lines[i];
    os.free(t->lines);
    t->lines = lines;
    t->room = room;
    return true;
}

static void add_line(struct touched *t, uint64_t number, uint32_t wave)
{
    if (2 * t->count >= t->room && !grow(t)) {
        t->failed = true;
        return;
    }
    struct touched_line *const line = place(t->lines, t->room, number);
    if (!line->number) {
        line->number = number;
        t->count++;
        t->by_workgroup++;
    }
    t->by_wave += !(line->waves & wave);
    line->waves |= wave;
}

void touched_add(struct touched *t, unsigned wave, const uint64_t address[64], uint64_t active,
                 unsigned bytes)
{
    uint64_t last = 0;

    for (uint64_t left = active; left; left &= left - 1) {
        const uint64_t at = address[__builtin_ctzll(left)];
        for (uint64_t number = at / 128 + 1; number <= (at + bytes - 1) / 128 + 1; number++) {
            if (number != last) /* neighbouring lanes mostly share one */
                add_line(t, number, (uint32_t)1 << wave % TOUCHED_WAVES);
            last = number;
        }
    }
}
