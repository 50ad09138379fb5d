/* SPDX-License-Identifier: MIT */
/*
 * Distinct 128-byte lines of memory that waves touch: what they would ask for if a wave, or all
 * waves of a workgroup, never had to ask for a line twice. For profiles; one per host thread, no
 * locks.
 */
#ifndef QUERN_SIM_TOUCHED_H
#define QUERN_SIM_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Waves of a workgroup that are told apart: of 1024 work-items, 32 lanes each. */
#define TOUCHED_WAVES 32

/* Zero-initialise it; free it with touched_free. */
struct touched {
    uint64_t by_wave, by_workgroup; /* lines, summed over waves and over workgroups; never reset */
    bool failed;                    /* out of memory: the sums are too small */
    size_t count, room;
    struct touched_line *lines; /* of this workgroup, hashed */
};

/* The next workgroup starts. */
void touched_begin(struct touched *t);
/* Wave number `wave` accesses `bytes` bytes at the address of each lane whose bit is in `active`.
 */
void touched_add(struct touched *t, unsigned wave, const uint64_t address[64], uint64_t active,
                 unsigned bytes);
void touched_free(struct touched *t);

#endif
