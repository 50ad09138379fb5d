/* SPDX-License-Identifier: MIT */
/*
 * A host for test_remote.py that makes ops one after another, as an engine does that loads a model.
 * Its first argument is the path of the compiler's worker, or "" for the installed one; the others
 * are problems, of which it makes ops of one row for gfx1030. Everything else the environment says.
 * Prints some counters as JSON.
 */
#include <quern/tool.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void must(quern_status status, const char *what)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", what, quern_last_error()->message);
    exit(1);
}

int main(int argc, char **argv)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_stats s = QUERN_INIT(struct quern_stats);
    quern_ctx *ctx;

    options.target = "gfx1030";
    options.allow_unverified = 1;
    options.worker_path = argc > 1 && *argv[1] ? argv[1] : NULL;
    must(quern_open(&options, &ctx), "quern_open");
    for (int i = 2; i < argc; i++) {
        struct quern_problem problem = QUERN_INIT(struct quern_problem);
        quern_op *op;
        must(quern_problem_parse(argv[i], &problem), argv[i]);
        must(quern_op_create_range(ctx, &problem, 1, 1, &op), argv[i]);
        quern_op_release(op);
    }
    must(quern_ctx_stats(ctx, &s), "quern_ctx_stats");
    printf("{\"compile_ok\": %" PRIu64 ", \"hit_remote\": %" PRIu64 ", \"remote_late\": %" PRIu64
           ", \"remote_skipped\": %" PRIu64 ", \"remote_failed\": %" PRIu64 "}\n",
           s.compile_ok, s.hit_remote, s.remote_late, s.remote_skipped, s.remote_failed);
    quern_close(ctx);
    return 0;
}
