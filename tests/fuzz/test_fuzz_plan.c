/* SPDX-License-Identifier: MIT */
/* Launch plans of any bytes: refused with a line, or within their limits. */
#include "files/launch_json.h"
#include "silent.h"

static void check_plan(const struct launch_plan *plan)
{
    for (size_t n = 0; n < plan->launch_count; n++) {
        const struct plan_launch *const l = &plan->launches[n];
        FUZZ_CHECK(l->object && l->kernel);
        for (size_t k = 0; k < l->argument_count; k++) {
            const struct plan_argument *const a = &l->arguments[k];
            FUZZ_CHECK(a->size <= l->kernarg_bytes && a->offset <= l->kernarg_bytes - a->size);
            FUZZ_CHECK(a->kind != QUERN_ARG_BYTES || strlen(a->bytes) == 2 * a->size);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct launch_plan plan = {0};
    char path[64];
    const int fd = fuzz_file(data, size, path);

    complaints = 0;
    if (launch_plan_read(path, &plan) == EXIT_OK)
        check_plan(&plan);
    else
        FUZZ_CHECK(complaints == 1);
    launch_plan_free(&plan);
    close(fd);
    return 0;
}

FUZZ_MAIN("plan", 3000)
