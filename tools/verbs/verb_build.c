/* SPDX-License-Identifier: MIT */
/* quern build: a launch plan and its code objects, for any program to launch. */
#include "files/files.h"
#include "command/options.h"
#include "files/json_file.h"
#include "files/launch_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct build {
    struct common common;
    struct m_set m_set;
    const char *directory;
    struct quern_target_info target;
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    int64_t m;

    quern_ctx *ctx;
    quern_op *op;
    json_t *plan;
    bool *used; /* by kernel index: a launch names it */
    struct outputs outputs;
};

/* Adds the objects that the plan names, then the plan: it must be the last to appear. */
static int write_files(struct build *b)
{
    int status = outputs_directory(&b->outputs, b->directory);

    for (size_t i = 0; !status && i < quern_op_kernel_count(b->op); i++) {
        struct quern_kernel_info kernel = QUERN_INIT(struct quern_kernel_info);
        if (!b->used[i])
            continue;
        const quern_status found = quern_op_kernel(b->op, i, &kernel);
        if (found)
            return fail_status(found, NULL);
        char *name = launch_object_name(&kernel);
        char *path = name ? path_join(b->directory, name) : NULL;
        status = path ? outputs_add(&b->outputs, path, kernel.object, kernel.object_bytes)
                      : fail("out of memory");
        free(path);
        free(name);
    }
    if (status)
        return status;
    char *path = path_join(b->directory, "plan.json");
    char *text = json_dumps(b->plan, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    status =
        path && text ? outputs_add(&b->outputs, path, text, strlen(text)) : fail("out of memory");
    free(text);
    free(path);
    return status ? status : outputs_commit(&b->outputs);
}

static int report(struct build *b)
{
    size_t objects = 0;

    if (b->common.json)
        return json_print(json_incref(b->plan));
    for (size_t i = 0; i < quern_op_kernel_count(b->op); i++)
        objects += b->used[i];
    printf("%s/plan.json: %s for %s, M = %lld, %zu launch%s of %zu code object%s\n",
           shown_line(b->directory), b->text, b->target.name, (long long)b->m,
           json_array_size(json_object_get(b->plan, "launches")),
           json_array_size(json_object_get(b->plan, "launches")) == 1 ? "" : "es", objects,
           objects == 1 ? "" : "s");
    return finish_output();
}

static int build(struct build *b)
{
    int status;

    if ((status = options_problem(&b->common, &b->problem, b->text)) ||
        (status = options_target(&b->common, &b->target)) ||
        (status = options_one_m(&b->m_set, &b->m)))
        return status;
    if (!b->directory)
        return misuse("where to? give --out, a directory for plan.json and the code objects");
    if ((status = open_making_context(&b->common, b->common.target, &b->ctx)))
        return status;
    const quern_status made = quern_op_create_range(b->ctx, &b->problem, b->m, b->m, &b->op);
    if (made)
        return fail_status(made, NULL);
    b->used = calloc(quern_op_kernel_count(b->op) + 1, sizeof *b->used);
    if (!b->used)
        return fail("out of memory");
    if ((status =
             launch_plan_make(b->op, &b->problem, b->common.target, b->m, &b->plan, b->used)) ||
        (status = write_files(b)))
        return status;
    return report(b);
}

int verb_build(int argc, char **argv)
{
    static const struct usage usage = {
        "--target GFX --m M --out DIR PROBLEM",
        "Compiles the kernels that serve M rows of PROBLEM and writes DIR/plan.json, which\n"
        "says how to launch them, and their code objects. Nothing is written on failure.\n"};
    struct build b = {0};
    const struct flag flags[] = {
        {"m", FLAG_M, &b.m_set, "M", "rows of A; the plan is for exactly these"},
        {"out", FLAG_TEXT, &b.directory, "DIR", "where to write; made if there is none"},
        {0},
    };

    int status = options_parse(&b.common, argc, argv, &usage, flags);
    if (status < 0)
        status = build(&b);
    outputs_discard(&b.outputs);
    json_decref(b.plan);
    free(b.used);
    quern_op_release(b.op);
    quern_close(b.ctx);
    return status;
}
