/* SPDX-License-Identifier: MIT */
/*
 * How long launches of a layer take on a GPU, measured with events.
 *
 * In a model a layer's weights are in no cache, because those of all other layers were read since
 * its last launch. So each launch takes the next of many copies of the weights, which together are
 * larger than any cache: else the time would be that of weights in a cache.
 */
#ifndef TOOLS_TIMING_H
#define TOOLS_TIMING_H

#include "command/command.h"
#include "measure/choices.h"

/* Larger than the last cache of any listed GPU, 256 MiB. */
#define TIMING_ROTATE ((uint64_t)512 << 20)

struct timing_result {
    double least_us, median_us; /* of a launch */
    uint64_t bytes;             /* bytes that it has to move, each operand once; of weights of
                                   op=moe those of the experts that are chosen, on average */
    size_t copies;              /* of the weights */
    int launches;               /* measured */
};

struct timing;

/* Says that a context did not open, where a GPU is wanted: of a machine that has none, only that,
 * as a target, which the library asks for then, would give a software GPU. Returns an exit
 * status. */
int fail_without_gpu(quern_status status);

/* Opens a context on the GPU and says what it is; EXIT_MISUSE where there is none. */
int timing_open(const struct quern_options *library, quern_ctx **ctx,
                struct quern_device_info *device);
/* Operands for m rows of a problem, with at least `rotate` bytes of weights. A problem of op=moe
 * has its block_rows, and its experts are drawn by the law. */
int timing_prepare(quern_ctx *ctx, const struct quern_problem *problem, int64_t m, uint64_t rotate,
                   enum choices_law choices, struct timing **timing);
/* Measures an op, which may be any op of the problem that serves m rows. Blocks for some tens of
 * milliseconds. */
int timing_measure(struct timing *timing, quern_op *op, struct timing_result *result);
void timing_free(struct timing *timing);

/* Now, as "2026-01-31T12:00:00Z". */
void timing_date(char text[32]);

#endif
