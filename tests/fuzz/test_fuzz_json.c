/* SPDX-License-Identifier: MIT */
/* Launch plans and model manifests of any bytes: refused with a line, or within their limits. */
#include "launch_json.h"
#include "model.h"
#include "t_fuzz.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- What the readers report with, silent here ----------------------------------------------- */

static int complaints;

static void complain(const char *format, va_list ap)
{
    char text[4096];

    vsnprintf(text, sizeof text, format, ap);
    FUZZ_CHECK(text[0]);
    complaints++;
}

int fail(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    complain(format, ap);
    va_end(ap);
    return EXIT_FAILED;
}

int misuse(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    complain(format, ap);
    va_end(ap);
    return EXIT_MISUSE;
}

int fail_status(quern_status status, const char *about)
{
    return status ? fail("%s", about ? about : "failed") : EXIT_OK;
}

int finish_output(void)
{
    return EXIT_OK;
}

/* ---- Targets --------------------------------------------------------------------------------- */

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
    static const int tp[] = {1, 2, 4, 8};
    struct model_layer layers[MODEL_LAYERS_MAX];
    struct launch_plan plan = {0};
    struct model model;
    size_t count;
    char path[64];
    const int fd = memfd_create("fuzz", 0);

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    complaints = 0;
    if (launch_plan_read(path, &plan) == EXIT_OK)
        check_plan(&plan);
    else
        FUZZ_CHECK(complaints == 1);
    launch_plan_free(&plan);
    complaints = 0;
    if (model_read(path, &model) == EXIT_OK) {
        if (model_layers(&model, tp, 4, layers, &count) == EXIT_OK)
            for (size_t n = 0; n < count; n++)
                FUZZ_CHECK(layers[n].n > 0 && layers[n].k > 0 && layers[n].names[0]);
    } else {
        FUZZ_CHECK(complaints == 1);
    }
    close(fd);
    return 0;
}

FUZZ_MAIN("json", 4000)
