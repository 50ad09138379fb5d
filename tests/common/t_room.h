/* SPDX-License-Identifier: MIT */
/* How much memory a launch takes beyond its operands: every allocation of the library is counted.
 * Only for programs that run nothing else meanwhile. */
#ifndef T_ROOM_H
#define T_ROOM_H

#include <quern/sim.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A launch that writes all of a buffer of `bytes` bytes, 16 a lane, or reads all of it. Workgroups
 * take runs of it, or columns of its rows of 4096 bytes. */
struct t_room_job {
    uint64_t bytes;  /* a multiple of 16 · 32 · groups and, with columns, of 4096 */
    uint32_t groups; /* with columns at most 256, a divisor of it */
    bool columns, reads;
};

/* The most bytes that were allocated at once while it ran, more than there were before. The
 * guest's buffer is a few MB of the host's, again and again. Two threads run it. */
size_t t_room_peak(const struct t_room_job *job, enum quern_sim_check check);

#endif
