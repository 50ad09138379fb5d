/* SPDX-License-Identifier: MIT */
/*
 * What a kernel that ships asks of each part of a GPU, counted on the software GPU (one workgroup
 * of each kind) and set against the target's retail part. Everything fails the test on trouble.
 */
#ifndef T_METRICS_H
#define T_METRICS_H

#include <quern/tool.h>

#include <stdbool.h>

struct t_metrics {
    char kernel[64];
    double slots;       /* issue slots per weight */
    double lds;         /* LDS passes ÷ the fewest */
    double wave_bytes;  /* bytes of weights' lines, all that each wave touches ÷ their size */
    double group_bytes; /* the same of all that each workgroup touches */
    double scale_share; /* of the weights' bytes, those that are not b's */
    double l2;          /* lines of weights and A by workgroup ÷ the size of the weights */
    double in_flight;   /* bytes of a compute unit on their way ÷ what arrives in 600 ns */
    double prologue;    /* ÷ memory time */
    double port;        /* busy time of the fullest port ÷ memory time */
    const char *port_name;
    double memory_us;
    unsigned scratch, spills;
    int split_k; /* waves that share a row of W */
    int64_t n, k;
    unsigned waves, waves_fit; /* of a SIMD: at once in the fullest compute unit; that could be */
    bool one_round;            /* all workgroups of it run at once */
    bool memory_bound;
};

/* Registers that a kernel spills, scalar ones too. */
unsigned t_spills_of(const struct quern_kernel_info *info);

/* Disassembles a kernel, an instruction at a time. */
void t_each_instruction(quern_ctx *ctx, const struct quern_kernel_info *info,
                        quern_disassembly_fn fn, void *user);

/* The one launch that m rows of the problem take; weights are its b, scales, zeros and absmax8. */
struct t_metrics t_metrics_of(quern_ctx *ctx, const char *target, const char *problem, int m);

/*
 * Fails the test, with all figures, where they miss what docs/kernels.md asks of 4-bit layers of
 * 2^24 weights and more ("Second metrics"); smaller ones must not spill, and meet no more than the
 * fewest LDS passes. `port_max`: of memory time; 0 for what is asked of all, 0.8.
 */
void t_metrics_check(const char *target, const char *problem, int m, double port_max,
                     const struct t_metrics *x);

#endif
