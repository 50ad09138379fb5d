/* SPDX-License-Identifier: MIT */
/*
 * How fast the parts of a compute unit are: what estimates before a compile (plan/) and models of
 * counted code (sim/) share, so that they cannot contradict each other. Cycles are those of the
 * target's clock; docs/profile.md names the source of each figure. All functions are pure.
 */
#ifndef QUERN_TARGET_RATES_H
#define QUERN_TARGET_RATES_H

#include "target/target.h"

/* The time from a request for bytes that no cache has to their arrival. */
#define TARGET_LATENCY_NS 700
/* The time from a barrier to the first operands that a wave gets from LDS behind it. */
#define TARGET_LDS_CYCLES 128
/* Of parts whose sustained bandwidth nobody published: an assumption, by the two parts of AMD's
 * whose figures are surest (MI300X 79, Radeon 8060S 80). */
#define TARGET_SUSTAINED_PERCENT 80

/* The most bytes that a compute unit takes in from its nearest cache in a cycle: 16 for each of
 * four lanes. */
#define TARGET_CACHE_BYTES_PER_CYCLE 64

/* Cycles until a SIMD can issue its next instruction: several on CDNA, whose SIMDs have fewer lanes
 * than a wave. */
static inline unsigned target_issue_cycles(const struct target *t)
{
    return t->wave_size / t->simd_lanes;
}
/* Cycles that an instruction of a wave takes in the vector ALU, and a transcendental one in its
 * unit, which is the vector ALU itself where there is no other (trans_unit). */
unsigned target_vector_cycles(const struct target *t, unsigned wave_size);
unsigned target_trans_cycles(const struct target *t, unsigned wave_size);
/* Lanes that all SIMDs of a compute unit work on in a cycle. */
unsigned target_lanes_per_cycle(const struct target *t);

/* TARGET_LATENCY_NS in cycles of the target's clock. */
static inline int64_t target_latency_cycles(const struct target *t)
{
    return (int64_t)(t->clock_ghz * TARGET_LATENCY_NS + 0.5);
}

/* Whether matrix instructions have a pipe of their own (MFMA); else they occupy the vector ALU
 * (WMMA). */
static inline bool target_matrix_pipe(const struct target *t)
{
    return t->capabilities & CAP_MFMA;
}
/* Cycles of a matrix instruction in its unit, by its text or mnemonic; 0 for one that is not known.
 */
unsigned target_matrix_cycles(const struct target *t, const char *text);

/* Products of two 16-bit numbers, summed in f32, that the matrix units of a compute unit make in a
 * cycle at their peak; 0: it has none. */
unsigned target_matrix_products(const struct target *t);

/* Time to move that many bytes at the part's peak bandwidth, in cycles and in microseconds. */
double target_memory_cycles(const struct target *t, double bytes);

/* What a stream of loads gets of the part's peak bandwidth, per cent. */
static inline unsigned target_sustained_percent(const struct target *t)
{
    return t->sustained_percent ? t->sustained_percent : TARGET_SUSTAINED_PERCENT;
}

/* Whether a compute unit's path to its nearest cache is known well enough to bound a time: on CDNA
 * it takes the addresses of as many lanes in a cycle as a SIMD has, and gives
 * TARGET_CACHE_BYTES_PER_CYCLE. */
static inline bool target_knows_vmem(const struct target *t)
{
    return target_issue_cycles(t) > 1;
}
/* Cycles for which executions of a vector memory instruction hold that path, by the lines of 128
 * bytes that they touch, one a cycle, and by the bytes that their lanes ask for; by the lines alone
 * where the path is not known. */
uint64_t target_vmem_cycles(const struct target *t, uint64_t executions, uint64_t lines,
                            uint64_t bytes);
double target_microseconds(const struct target *t, double cycles);

/* Workgroups that a compute unit holds at once; at least 1. `vgprs` counts AGPRs too. */
unsigned target_workgroups_per_cu(const struct target *t, unsigned vgprs, unsigned lds_bytes,
                                  unsigned wave_size, unsigned waves_per_workgroup);

/* How a grid fills the part, workgroups being dealt out evenly. */
struct target_fill {
    uint64_t fullest; /* workgroups of the fullest compute unit */
    unsigned cus_busy;
    unsigned percent; /* the average compute unit's work against the fullest one's */
};
/* Of so many compute units, or of whatever else workgroups are dealt out to. */
static inline struct target_fill target_fill_of(unsigned units, uint64_t workgroups)
{
    const uint64_t fullest = (workgroups + units - 1) / units;

    return (struct target_fill){
        .fullest = fullest,
        .cus_busy = workgroups < units ? (unsigned)workgroups : units,
        .percent = fullest ? (unsigned)(workgroups * 100 / (fullest * units)) : 0,
    };
}
static inline struct target_fill target_fill(const struct target *t, uint64_t workgroups)
{
    return target_fill_of(t->cus, workgroups);
}

#endif
