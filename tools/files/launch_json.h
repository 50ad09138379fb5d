/* SPDX-License-Identifier: MIT */
/*
 * plan.json: how to launch code objects by hand. docs/formats.md defines the members; `quern build`
 * writes such files, and `quern sim` runs those of any program.
 */
#ifndef TOOLS_LAUNCH_JSON_H
#define TOOLS_LAUNCH_JSON_H

#include "command/command.h"

#include <jansson.h>
#include <stdbool.h>

/* ---- Writing --------------------------------------------------------------------------------- */

/* The file name of kernel `index` of an op: symbol and key, so that objects of different plans in
 * one directory never overwrite each other. Malloc'ed; null when out of memory. */
char *launch_object_name(const struct quern_kernel_info *kernel);

/*
 * The plan for exactly m rows of `op`. `used` (as many as quern_op_kernel_count) says which kernels
 * its launches name. Prints what went wrong.
 */
int launch_plan_make(quern_op *op, const struct quern_problem *problem, const char *target,
                     int64_t m, json_t **plan, bool *used);

/* ---- Reading --------------------------------------------------------------------------------- */

struct plan_operand {
    const char *name;
    const char *dtype; /* null when the file does not say */
    uint64_t bytes;
    enum quern_sim_access access;
};

struct plan_argument {
    const char *name; /* pointers; "" for others */
    enum quern_arg_kind kind;
    bool null;           /* a null pointer */
    uint64_t bits;       /* the value of a number, low bytes first */
    const char *bytes;   /* QUERN_ARG_BYTES: hexadecimal digits */
    size_t offset, size; /* in the kernarg bytes */
};

struct plan_launch {
    const char *object; /* path, relative to the plan's directory unless absolute */
    const char *kernel;
    uint32_t grid[3], block[3], lds_bytes;
    size_t argument_count;
    struct plan_argument *arguments;
    size_t kernarg_bytes;
};

struct launch_plan {
    json_t *root;        /* every text below lives in it */
    const char *target;  /* null when the file does not say */
    const char *problem; /* likewise */
    int64_t m;           /* rows; 0 when the file does not say */
    bool has_operands;
    size_t operand_count;
    struct plan_operand *operands;
    size_t launch_count;
    struct plan_launch *launches;
};

/* Reads and checks a plan. Free it with launch_plan_free, after a failure too. */
int launch_plan_read(const char *path, struct launch_plan *plan);
/* The same of JSON, whose reference it takes; `name` starts messages. */
int launch_plan_take(json_t *root, const char *name, struct launch_plan *plan);
void launch_plan_free(struct launch_plan *plan);

#endif
