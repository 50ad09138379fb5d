/* SPDX-License-Identifier: MIT */
/*
 * The full check: undefined bits and races.
 *
 * Each wave has a shadow: a wave of its own whose registers hold a mask of undefined bits for each
 * register of the real one. A flag for each vector register says whether any lane of it has
 * undefined bits, so that code on defined values costs a few tests of flags. How masks go through
 * an instruction is said by the undef_kind of its row and done here, by the same operand fetch and
 * result commit that the bodies use, run on the shadow.
 *
 * LDS and scratch have a mask byte for each byte. LDS also remembers which wave touched a byte
 * since the last barrier. What is known of buffers is in race.h.
 */
#ifndef QUERN_SIM_SHADOW_H
#define QUERN_SIM_SHADOW_H

#include "sim/check/late.h"
#include "sim/check/race.h"
#include "sim/wave.h"

enum origin_kind {
    ORIGIN_NONE,
    ORIGIN_VECTOR,
    ORIGIN_SCALAR,
    ORIGIN_GLOBAL,
    ORIGIN_LDS,
    ORIGIN_SCRATCH,
    ORIGIN_LATE /* not there yet (late.h); `where` as late_where makes it, `insn` is who is late */
};

/* Where undefined bits came from. */
struct origin {
    uint32_t kind;  /* enum origin_kind */
    uint32_t insn;  /* the load, for memory */
    uint64_t where; /* register number, guest address or offset */
};

struct shadow_wave {
    struct wave w;  /* v and s are masks: a bit that is set is undefined; EXEC is the real one */
    uint8_t *flags; /* for each vector register: some lane may have undefined bits */
    struct origin *origins; /* for each vector register */
    struct origin scalar_origins[S_COUNT];
    struct late_wave *late;
};

/* Who touched a byte of LDS last: epoch << 7 | atomic << 6 | wave. Barriers begin a new epoch. */
typedef uint16_t lds_stamp;
enum { STAMP_MANY = 63, STAMP_WAVE = 63, STAMP_ATOMIC = 64, STAMP_EPOCH = 7, STAMP_EPOCHS = 512 };
/* In `known`: written in that epoch, by its reader or by atomics; read by nobody since a store. */
enum { KNOWN_WRITTEN = STAMP_ATOMIC, KNOWN_NOBODY = 1 };

struct shadow_group {
    struct shadow_wave *waves;
    uint8_t *lds;       /* undefined bits */
    uint8_t *lds_owner; /* wave that wrote the byte last, or 0xff */
    lds_stamp *writers, *readers;
    /* For each dword: the stamp of its readers if, in that epoch, all of it was defined and no
     * other wave had written to it; its bytes in `readers` are then out of date. 0: they are not.
     * What makes reading a table cheap. */
    lds_stamp *known;
    unsigned epoch;
    uint8_t *lds_writer;  /* 1 + the wave whose write of the byte may not be there yet, or 0 */
    bool lds_late;        /* there are such bytes */
    uint8_t *scratch;     /* undefined bits */
    struct race_own *own; /* for each mapping of the launch */
    uint8_t lane_masks[64][16]; /* undefined bits of what lanes load from a buffer */
};

/* Spare rows behind the registers of a shadow, for operands that are values in an instruction run
 * on masks: two for each source. */
#define SHADOW_SPARE_ROWS 8

/* Allocates and frees what a workgroup and its waves need; false when out of memory. */
bool shadow_make(struct group *g);
void shadow_free(struct group *g);

void shadow_start_group(struct group *g);
/* Its registers are undefined but for the first `scalars` and `vectors`, which the hardware sets.
 */
void shadow_start_wave(struct wave *w, unsigned scalars, unsigned vectors);
/* After all waves have passed a barrier. */
void shadow_barrier(struct group *g);

/* In lds_writer: the byte comes from memory, so that its own wave must wait as well. */
enum { LDS_DIRECT = 0x80 };

/* Marks what an operation of a wave writes to LDS as not there yet, or, `by` 0, as there. */
static inline void shadow_mark_lds(struct shadow_group *sg, const struct late_lds *l, uint8_t by)
{
    sg->lds_late |= by != 0;
    EACH_BIT (lane, l->active)
        for (unsigned n = 0; n < l->bytes; n++)
            sg->lds_writer[l->at[lane] + n] = by;
}

#endif
