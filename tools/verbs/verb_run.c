/* SPDX-License-Identifier: MIT */
/* quern run: one layer on files of operands, through the library's own launch. */
#include "files/files.h"
#include "command/options.h"
#include "files/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct common common;
    struct m_set m_set;
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    int64_t m;

    struct operand_file files[OPERAND_FILES_MAX];
    size_t file_count;
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    size_t operand_count;
    void *memory[QUERN_OPERANDS_MAX];            /* each operand's bytes, on the host */
    quern_buffer *there[QUERN_OPERANDS_MAX + 1]; /* the same on the device; last, the workspace */

    quern_ctx *ctx;
    quern_op *op;
    struct outputs outputs;
};

static int prepare(struct run *r)
{
    const char *names[QUERN_OPERANDS_MAX];

    const quern_status e =
        quern_problem_operands(&r->problem, r->m, r->operands, &r->operand_count);
    if (e)
        return fail_status(e, NULL);
    for (size_t i = 0; i < r->operand_count; i++)
        names[i] = r->operands[i].name;
    int status = operand_files_known(r->files, r->file_count, names, r->operand_count);
    for (size_t i = 0; !status && i < r->operand_count; i++) {
        const struct quern_operand *o = &r->operands[i];
        const char *path = operand_file(r->files, r->file_count, o->name);
        if (!path)
            return misuse("operand %s has no file; give %s=FILE, %llu bytes", o->name, o->name,
                          (unsigned long long)o->bytes);
        if (o->access != QUERN_SIM_WRITE)
            status = file_read_operand(o->name, path, o->bytes, &r->memory[i]);
        else if (!(r->memory[i] = operand_memory(o->bytes)))
            status = fail("out of memory for the %llu bytes of operand %s",
                          (unsigned long long)o->bytes, o->name);
    }
    return status;
}

/* Makes memory on the device for an operand, and copies the host's bytes there unless the operand
 * is only written. */
static int place(struct run *r, size_t i, struct quern_args *args)
{
    const struct quern_operand *const o = &r->operands[i];

    quern_status e = quern_buffer_create(r->ctx, o->bytes, o->access, o->name, &r->there[i]);
    if (!e && o->access != QUERN_SIM_WRITE)
        e = quern_buffer_write(r->there[i], r->memory[i], o->bytes);
    if (!e)
        e = quern_args_set(args, o->name, quern_buffer_address(r->there[i]));
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static int place_workspace(struct run *r, size_t bytes, struct quern_args *args)
{
    quern_buffer **const there = &r->there[QUERN_OPERANDS_MAX];
    const quern_status e = quern_buffer_create(r->ctx, bytes, QUERN_SIM_WRITE, "workspace", there);

    if (e)
        return fail_status(e, NULL);
    args->workspace = quern_buffer_address(*there);
    return EXIT_OK;
}

/* Creates the op for these rows alone, by the kernels that `quern build` and `quern explain` show
 * of them: an op for fewer rows as well may give the rest of a slice to another kernel. Where its
 * kernels may not be compiled base kernels answer, if there are some. */
static quern_status create(struct run *r)
{
    const quern_status e = quern_op_create_range(r->ctx, &r->problem, r->m, r->m, &r->op);

    if (e != QUERN_E_WOULD_COMPILE)
        return e;
    if (!quern_op_create_flags(r->ctx, &r->problem, r->m, QUERN_OP_BASE_ONLY, &r->op)) {
        note("base kernels answer, as those made to order are in no bundle and no cache, and "
             "compiling is off");
        return QUERN_OK;
    }
    return quern_op_create_range(r->ctx, &r->problem, r->m, r->m, &r->op); /* for its message */
}

static int launch(struct run *r)
{
    struct quern_args args = QUERN_INIT(struct quern_args);
    int status = EXIT_OK;

    for (size_t i = 0; !status && i < r->operand_count; i++)
        status = place(r, i, &args);
    const size_t workspace = quern_op_workspace(r->op, r->m);
    if (!status && workspace)
        status = place_workspace(r, workspace, &args);
    if (status)
        return status;
    quern_status e = quern_op_launch(r->op, &args, r->m, NULL);
    for (size_t i = 0; !e && i < r->operand_count; i++)
        if (r->operands[i].access & QUERN_SIM_WRITE)
            e = quern_buffer_read(r->there[i], r->memory[i], r->operands[i].bytes);
    return e ? fail_status(e, NULL) : EXIT_OK;
}

/* Of op=moe alone, whose operands depend on the op's blocks: creates the op before they are read.
 */
static int create_for_blocks(struct run *r)
{
    if (r->problem.op != QUERN_OP_MOE)
        return EXIT_OK;
    quern_status e = quern_open(&r->common.library, &r->ctx);
    if (!e)
        e = create(r);
    if (!e)
        e = quern_op_block_rows(r->op, r->m, &r->problem.block_rows);
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static int finish(struct run *r)
{
    int status = EXIT_OK;

    for (size_t i = 0; !status && i < r->operand_count; i++)
        if (r->operands[i].access & QUERN_SIM_WRITE)
            status =
                outputs_add(&r->outputs, operand_file(r->files, r->file_count, r->operands[i].name),
                            r->memory[i], r->operands[i].bytes);
    if (status || (status = outputs_commit(&r->outputs)))
        return status;
    if (r->common.json)
        return json_print(json_make("{s:s, s:I}", "problem", r->text, "m", (json_int_t)r->m));
    return EXIT_OK;
}

static int run(struct run *r)
{
    int status;

    /* only the first argument is a problem: operand files follow it */
    if ((status = options_first_problem(&r->common, &r->problem, r->text)) ||
        (status = options_one_m(&r->m_set, &r->m)) ||
        (status = operand_files(&r->common, r->files, &r->file_count)) ||
        (status = create_for_blocks(r)) || (status = prepare(r)))
        return status;
    quern_status e = r->ctx ? QUERN_OK : quern_open(&r->common.library, &r->ctx);
    if (!e && !r->op)
        e = create(r);
    if (e)
        return fail_status(e, NULL);
    status = launch(r);
    return status ? status : finish(r);
}

int verb_run(int argc, char **argv)
{
    static const struct usage usage = {
        "--m M PROBLEM NAME=FILE...",
        "Runs PROBLEM on M rows on the software GPU that --target names, or on the GPU of this\n"
        "machine (--device hip): reads the operand files (raw, of exactly the right size) and\n"
        "writes that of c, whole or not at all.\n"};
    struct run r = {0};
    const struct flag flags[] = {
        {"m", FLAG_M, &r.m_set, "M", "rows of A"},
        {0},
    };

    int status = options_parse(&r.common, argc, argv, &usage, flags);
    if (status < 0)
        status = run(&r);
    outputs_discard(&r.outputs);
    for (size_t i = 0; i <= QUERN_OPERANDS_MAX; i++)
        quern_buffer_destroy(r.there[i]);
    quern_op_release(r.op);
    quern_close(r.ctx);
    for (size_t i = 0; i < QUERN_OPERANDS_MAX; i++)
        free(r.memory[i]);
    return status;
}
