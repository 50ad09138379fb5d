/* SPDX-License-Identifier: MIT */
/* Modules and launches, as the files of sim/ share them. */
#ifndef QUERN_SIM_LAUNCH_H
#define QUERN_SIM_LAUNCH_H

#include "object/object.h"
#include "sim/check/shadow.h"
#include "sim/decode/parse.h"
#include "target/lds.h"

#include <pthread.h>
#include <stdatomic.h>

struct quern_sim_module;

/* Is told after each launch how often each instruction was executed, as counts_add reads `flow`,
 * also when the launch ended with a finding. */
struct sim_observer {
    void (*function)(void *user, const struct quern_sim_module *module, const int64_t *flow);
    void *user;
};

struct quern_sim {
    const struct target *target;
    struct target_id id;
    enum quern_sim_check check;
    enum quern_sim_arithmetic arithmetic;
    bool nearest;         /* ADDER_NEAREST, for GPUs of tests that differ from what is known */
    int candidate;        /* that forms of no published adder take; with silicon's arithmetic */
    atomic_bool met_open; /* such a form was executed */
    const struct sim_bodies *bodies;
    void *library; /* they are in */
    struct row_index index;
    int threads;
    uint64_t max_instructions;
    uint64_t shuffle;
    struct quern_disassembler disassembler;
    struct sim_observer observer; /* tests set it, before any launch */
    struct race_heap race_heap;   /* full check */
    pthread_mutex_t lock;         /* of memory */
    struct memory memory;
};

/* What is known of a decoded instruction beyond struct insn. */
struct insn_note {
    uint32_t offset;           /* in the code */
    uint32_t vgprs;            /* one more than the highest register it names */
    const struct sim_row *row; /* null: not understood, or past_end */
    const char *text;
};

struct kernel_note {
    uint32_t entry;      /* index of its first instruction */
    uint32_t begin, end; /* offsets of its code */
    uint32_t vgprs;      /* one more than the highest register that its code names */
};

struct quern_sim_module {
    struct quern_sim *sim;
    uint8_t *bytes; /* the object */
    struct object object;
    uint8_t *image;
    uint64_t guest;   /* address of virtual address 0 */
    uint64_t code_at; /* virtual address of the decoded code */
    uint64_t code_bytes;
    unsigned lanes;
    unsigned vgpr_limit; /* vector registers of a wave, AGPRs included, for every kernel */
    unsigned agpr_offset;
    struct target_lds lds[2][4]; /* reads and others; words less one */
    struct pool pool;
    struct insn *insns;
    struct insn_note *notes;
    struct late_insn *late; /* full check, else null */
    const struct late_rule *late_rules;
    size_t insn_count, insn_capacity;
    uint32_t *index_at;          /* by code offset / 4: the instruction there, or INSN_NONE */
    struct kernel_note *kernels; /* as object.kernels */
    enum late_place late_place;  /* column of late_rules */
};

#define INSN_NONE 0xffffffffu

struct profile_sums;

/* A launch while it runs. */
struct run {
    struct quern_sim_module *module;
    const struct object_kernel *kernel;
    const struct kernel_note *note;
    const struct quern_sim_launch *launch;
    struct memory memory;          /* the simulator's mappings and the launch's own */
    _Atomic(struct race *) *races; /* full check: for each mapping, made when first needed */
    /* race_touch, race_define and touched_add, for bodies: they take memory, and this library is
     * who does */
    enum race_result (*race_touch)(struct group *g, const struct mapping *map, uint64_t address,
                                   unsigned bytes, enum track_kind kind, uint64_t *undefined,
                                   struct race_found *found);
    bool (*race_define)(struct group *g, const struct mapping *map, uint64_t address,
                        unsigned bytes);
    void (*touched_add)(struct touched *t, unsigned wave, const uint64_t address[64],
                        uint64_t active, unsigned bytes);
    uint8_t *kernarg;               /* arguments, then the dispatch packet */
    uint64_t kernarg_at, packet_at; /* guest addresses */
    uint32_t lds_bytes;
    uint64_t group_count, max_instructions;
    const uint64_t *only;         /* numbers of the workgroups to run, ascending; null: all */
    struct profile_sums *profile; /* null: counts only */
    unsigned wave_count;          /* of a workgroup */
    atomic_uint_fast64_t next;    /* workgroup to start */
    /* The lowest workgroup with a fault. Those before it run on, so that the finding that is
     * reported does not depend on timing; those after it stop. */
    atomic_uint_fast64_t stop_before;
    pthread_mutex_t lock; /* of what follows */
    char message[FAULT_BYTES];
    quern_status status;
    int64_t *flow;
    struct quern_sim_counts counts;
};

/* Copies a caller's launch, of any accepted size, to *own; QUERN_E_ARGUMENT if it names no kernel.
 * */
quern_status launch_read(const struct quern_sim_launch *given, struct quern_sim_launch *own);

/*
 * Runs the workgroups `only` of a launch that launch_read gave (ascending numbers x + grid[0]·(y +
 * grid[1]·z)), or all of them if it is null. With `sums`, detail is added to them.
 */
quern_status launch_run(struct quern_sim_module *module, const struct quern_sim_launch *launch,
                        const uint64_t *only, uint64_t only_count, struct profile_sums *sums,
                        struct quern_sim_counts *counts);

/* Which workgroup is started as the ticket-th of `count`: a permutation for each seed. */
uint64_t shuffled(uint64_t ticket, uint64_t count, uint64_t seed);

/* ---- What waves start with (start.c) --------------------------------------------------------- */

/* Fills memory with what is there before a kernel writes it. */
void poison(void *memory, size_t bytes);
/* Registers, EXEC and the first instruction of a wave whose number and group are set. */
void start_wave(struct wave *w);

/* ---- What bodies ask for (guest.c) ----------------------------------------------------------- */

/* Whether kernels may ask for this float mode; and this thread's arithmetic as the wave's asks. */
bool mode_supported(uint32_t mode);
void set_host_mode(const struct wave *w);

/* The instruction at a guest address, or null. */
const struct insn *run_insn_at(const struct run *run, uint64_t address);

#define REGISTER_MODE 1

/* Hardware registers as s_getreg and s_setreg see them; false for one that is not modelled. */
bool run_read_register(const struct wave *w, unsigned id, uint32_t *value);
bool run_write_register(struct wave *w, unsigned id, uint32_t value);

/* Stops a wave of a workgroup behind one that has a fault; gives null. */
const struct insn *halt(struct wave *w);

/* Adds what the per-instruction counts of a launch say to counts->instructions and classes. */
void counts_add(const struct quern_sim_module *module, const int64_t *flow,
                struct quern_sim_counts *counts);

#endif
