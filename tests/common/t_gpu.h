/* SPDX-License-Identifier: MIT */
/* Kernels compiled with the real hipRTC and run on the software GPU. Everything fails the test on
 * trouble, except where a status is returned. */
#ifndef T_GPU_H
#define T_GPU_H

#include "compile/compile.h"
#include "object/object.h"

#include <quern/sim.h>

/* Types and names that freestanding kernels need; t_gpu_load puts it in front of every source. */
extern const char t_gpu_prelude[];

struct t_gpu {
    struct compiler *compiler;
    quern_sim *sim;
    quern_sim_module *module;
    struct object object; /* what a GPU runs */
    void *bytes;          /* of it */
    const char *target;
    char *options;
};

/* With QUERN_DEVICE=hip launches run on the first GPU of a HIP runtime, for tests of what hardware
 * computes (tests/check_hw.py): whether `target` can be opened, because it is that GPU's; without,
 * every target can. */
bool t_gpu_has(const char *target);
/* `options`: further compiler options, one per line, or "". `isa`: that which was built in place of
 * QUERN_ISA_X86_64 where this was not. max_instructions: 0 for the default. */
void t_gpu_open(struct t_gpu *g, const char *target, const char *options,
                enum quern_sim_check check, enum quern_sim_isa isa, uint64_t max_instructions);
/* Software GPUs that t_gpu_open opens add product after product, whatever they check. */
void t_gpu_arithmetic(struct t_gpu *g, enum quern_sim_arithmetic arithmetic);
/* Compiles and loads; replaces what was loaded before. */
void t_gpu_load(struct t_gpu *g, const char *source);
/* The same object for two of one target. */
void t_gpu_load_two(struct t_gpu *g, struct t_gpu *also, const char *source);
void t_gpu_close(struct t_gpu *g);

/* Notes which rows of the instruction tables the launches of a software GPU execute, where that is
 * asked for (tests/sim_coverage.py); t_gpu_open does it. */
void t_gpu_observe(quern_sim *sim);
/* Notes a row that is not run because its target is not offered. */
void t_gpu_skip_row(const char *row, const char *target);

/* One buffer of a launch; passed to the kernel as a pointer, in the order given. */
struct t_buffer {
    void *host;
    size_t bytes;
    enum quern_sim_access access;
    const char *name;
};

/* Runs one kernel whose arguments are `count` pointers followed by the bytes of `extra`. */
struct t_launch {
    const char *kernel;
    uint32_t groups[3], items[3]; /* 0 stands for 1 */
    uint32_t lds_bytes;
    const struct t_buffer *buffers;
    size_t count;
    const void *extra;
    size_t extra_bytes;
    struct quern_sim_counts *counts;
};
quern_status t_gpu_try(struct t_gpu *g, const struct t_launch *launch);
void t_gpu_run(struct t_gpu *g, const struct t_launch *launch);

/* A repeatable stream of numbers. */
uint64_t t_random(uint64_t *state);

#endif
