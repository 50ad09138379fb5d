// SPDX-License-Identifier: MIT
//
// A stand-in for a server in an image of sealed kernels: gets the kernels of the layers that it is
// told, for up to that many rows, and says whether all of them were there. For whoever writes the
// Dockerfile beside it; a server would keep the ops and launch them. It wants a GPU unless
// QUERN_DEVICE says otherwise. Usage: host ROWS PROBLEM...
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what)
{
    fprintf(stderr, "host: %s: %s\n", what, quern_last_error()->message);
    return 1;
}

int main(int argc, char **argv)
{
    struct quern_options options = {.size = sizeof options};
    struct quern_problem problem = {.size = sizeof problem};
    quern_ctx *ctx;
    const int rows = argc > 1 ? atoi(argv[1]) : 0;
    int status = 0;

    if (argc < 3 || rows < 1) {
        fprintf(stderr, "usage: host ROWS PROBLEM...\n");
        return 2;
    }
    if (quern_open(&options, &ctx))
        return fail("opening");
    for (int i = 2; i < argc && !status; i++) {
        quern_op *op = NULL;

        if (quern_problem_parse(argv[i], &problem) || quern_op_create(ctx, &problem, rows, &op))
            status = fail(argv[i]);
        quern_op_release(op);
    }
    if (!status && !quern_all_served(ctx)) {
        fprintf(stderr, "host: kernels were compiled\n");
        status = 1;
    }
    if (!status)
        printf("the kernels of %d layer%s were there\n", argc - 2, argc == 3 ? "" : "s");
    quern_close(ctx);
    return status;
}
