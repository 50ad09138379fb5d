/* SPDX-License-Identifier: MIT */
/*
 * bitsandbytes' gemm_4bit_simt kernels as its host code launches them (csrc/gemm_4bit_simt.cu of
 * version 0.50.2): one kernel for each type and each M from 1 to 8, the last one for larger M too;
 * 128 work-items, four columns a workgroup and as many rows as the kernel is made for; one more,
 * empty workgroup when there are 512 or more and a multiple of 256.
 */
#ifndef FOREIGN_GEMM_4BIT_H
#define FOREIGN_GEMM_4BIT_H

#include "layer.h"

#include <quern/sim.h>

#include <stdio.h>

enum { GEMM_4BIT_ROWS_MAX = 8, GEMM_4BIT_COLUMNS = 4, GEMM_4BIT_BLOCK = 128 };

/* The explicit arguments. */
struct gemm_4bit_args {
    uint64_t a, b, absmax;
    uint64_t absmax8, code, offset; /* null unless nested */
    uint64_t c, bias;               /* bias may be null */
    int32_t m, n, k, block, quant;
};
#define GEMM_4BIT_KERNARG_BYTES 84

static const char *gemm_4bit_symbol(enum layer_type type, int rows)
{
    static char symbol[128];

    if (type == LAYER_F32)
        snprintf(symbol, sizeof symbol,
                 "_Z14gemm_4bit_simtIfLi%dEEvPKT_PKhPKfS4_S6_S6_PS0_S2_iiiii", rows);
    else
        snprintf(symbol, sizeof symbol,
                 "_Z14gemm_4bit_simtI%sLi%dEEvPKT_PKhPKfS5_S7_S7_PS1_S3_iiiii",
                 type == LAYER_F16 ? "6__half" : "14__hip_bfloat16", rows);
    return symbol;
}

/* Makes an operand visible; a null one stays null. */
static uint64_t gemm_4bit_map(quern_sim *sim, void *host, size_t bytes,
                              enum quern_sim_access access, const char *name)
{
    uint64_t address = 0;

    if (host && quern_sim_map(sim, host, bytes, access, name, &address) != QUERN_OK)
        fail_msg("%s: %s", name, quern_last_error()->message);
    return address;
}

/* Runs the layer and fills its c. A failure's detail is in quern_last_error(). */
static quern_status gemm_4bit_run(quern_sim *sim, quern_sim_module *module, struct layer_data *d,
                                  struct quern_sim_counts *counts)
{
    const struct layer *const l = &d->layer;
    const int rows = l->m < GEMM_4BIT_ROWS_MAX ? l->m : GEMM_4BIT_ROWS_MAX;
    const struct gemm_4bit_args args = {
        .a = gemm_4bit_map(sim, d->a, d->a_bytes, QUERN_SIM_READ, "A"),
        .b = gemm_4bit_map(sim, d->b, d->b_bytes, QUERN_SIM_READ, "B"),
        .absmax = gemm_4bit_map(sim, d->absmax, d->absmax_bytes, QUERN_SIM_READ, "absmax"),
        .absmax8 = gemm_4bit_map(sim, d->absmax8, d->absmax8_bytes, QUERN_SIM_READ, "absmax8"),
        .code = gemm_4bit_map(sim, d->code, 256 * sizeof(float), QUERN_SIM_READ, "code"),
        .offset = gemm_4bit_map(sim, d->offset, sizeof(float), QUERN_SIM_READ, "offset"),
        .c = gemm_4bit_map(sim, d->c, d->c_bytes, QUERN_SIM_WRITE, "C"),
        .bias = gemm_4bit_map(sim, d->bias, d->bias_bytes, QUERN_SIM_READ, "bias"),
        .m = l->m,
        .n = l->n,
        .k = l->k,
        .block = l->block,
        .quant = l->quant,
    };
    struct quern_sim_launch launch = QUERN_INIT(struct quern_sim_launch);
    uint32_t columns = ((uint32_t)l->n + GEMM_4BIT_COLUMNS - 1) / GEMM_4BIT_COLUMNS;

    if (columns >= 512 && columns % 256 == 0)
        columns++;
    launch.kernel = gemm_4bit_symbol(l->type, rows);
    launch.grid[0] = columns;
    launch.grid[1] = (uint32_t)((l->m + rows - 1) / rows);
    launch.grid[2] = 1;
    launch.block[0] = GEMM_4BIT_BLOCK;
    launch.block[1] = launch.block[2] = 1;
    launch.kernarg = &args;
    launch.kernarg_bytes = GEMM_4BIT_KERNARG_BYTES;
    /* never-written results are noticed: NaN in every type */
    memset(d->c, 0xff, d->c_bytes);
    const quern_status status = quern_sim_run(module, &launch, counts);
    const uint64_t mapped[] = {args.a,    args.b,      args.absmax, args.absmax8,
                               args.code, args.offset, args.c,      args.bias};
    for (size_t i = 0; i < sizeof mapped / sizeof *mapped; i++)
        if (mapped[i])
            quern_sim_unmap(sim, mapped[i]);
    return status;
}

#endif
