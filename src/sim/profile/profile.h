/* SPDX-License-Identifier: MIT */
/*
 * Detail of a launch: a loop that looks at each instruction before and after its body, in place of
 * the plain one. Bodies know nothing of it; what they did is the change of their group's counters.
 */
#ifndef QUERN_SIM_PROFILE_H
#define QUERN_SIM_PROFILE_H

#include "base/extensible.h"
#include "sim/launch.h"

#define PROFILE_TYPE EXTENSIBLE(quern_sim_profile, QUERN_SIM_PROFILE_SIZE_MIN)

/* What is known of an instruction before it runs. */
struct profile_note {
    uint8_t watch;                /* enum profile_watch */
    uint8_t wait_to;              /* WATCH_WAIT: vector loads that may still be on their way */
    uint8_t accesses;             /* WATCH_LDS: of a lane, 1 or 2 */
    uint8_t lds_to;               /* WATCH_WAIT: LDS accesses that may still be on their way */
    uint16_t cycles;              /* until the SIMD can issue the next */
    uint16_t matrix;              /* cycles in the matrix unit */
    uint8_t conflict;             /* of those, what operands in one register bank cost */
    const struct target_lds *lds; /* WATCH_LDS: how an access is served; the module's */
};

enum profile_watch {
    WATCH_NOTHING,
    WATCH_LOAD,  /* vector memory that a wait for loads waits for */
    WATCH_STORE, /* other vector memory */
    WATCH_SCALAR,
    WATCH_LDS,
    WATCH_WAIT,
    WATCH_BARRIER,
    WATCH_MATRIX
};

struct profile_insn {
    uint64_t executed;
    uint64_t lds_passes, lds_least, lines128, lines128_least, bytes_read, bytes_written;
    uint32_t map; /* one more than the mapping touched; MAP_SEVERAL */
};
#define MAP_SEVERAL 0xffffffffu

struct profile_map {
    uint64_t bytes_read, bytes_written, l2_read, l2_written, lines128, lines128_least;
    uint64_t by_wave, by_workgroup; /* distinct lines */
};

/* What adds up over waves, workgroups and threads. */
struct profile_totals {
    uint64_t scalar_bytes, lds_exchanges, loading_waves, prologue_cycles, bytes_in_flight;
    uint64_t matrix_waves, edge_cycles, bare_barriers;
};

/* The result of launch_run. Zero-initialise it, but for `notes`; free it with profile_sums_free. */
struct profile_sums {
    const struct profile_note *notes; /* of the module's instructions */
    size_t insn_count, map_count;
    struct profile_insn *insns;
    struct profile_map *maps; /* as memory.maps; the last is for accesses to several */
    struct mapping *named;    /* copies of memory.maps, for names and sizes only */
    struct profile_totals totals;
    struct quern_sim_counts counts;
};

/* Notes of a module's instructions; os.free them. Null when out of memory. */
struct profile_note *profile_notes_make(const struct quern_sim_module *module);

quern_status profile_begin(struct profile_sums *sums, const struct run *run);
/* After the last workgroup: executions of each instruction. */
void profile_finish(struct profile_sums *sums, const struct run *run);
void profile_sums_free(struct profile_sums *sums);

/* One thread's part; null when out of memory. */
struct profile_log *profile_log_make(const struct profile_sums *sums, const struct run *run);
void profile_log_free(struct profile_log *log);
/* Runs a wave until it stops. */
void profile_wave(struct profile_log *log, struct wave *w);
/* What is added to sums of as many instructions and maps. */
struct profile_part {
    const struct profile_insn *insns;
    const struct profile_map *maps;
    const struct profile_totals *totals;
};
/* Adds a part so many times, but for its distinct lines: those of several workgroups overlap. */
void profile_add(struct profile_sums *sums, const struct profile_part *part, uint64_t times);
/* Adds a thread's part; under run->lock. False when memory for it was lacking. */
bool profile_collect(struct profile_sums *sums, const struct profile_log *log);

#endif
