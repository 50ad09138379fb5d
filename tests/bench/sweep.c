/* SPDX-License-Identifier: MIT */
/*
 * Prints what the planner says of 40 layers of language models: as CSV, of all targets or of those
 * named, or with --svg as the chart in docs/sweep.svg.
 */
#include "sweep.h"

#include <stdlib.h>

static void stop(const char *what)
{
    fprintf(stderr, "sweep: %s\n", what);
    exit(1);
}

static void print_head(void)
{
    printf("model,layer,n,k,target,type,m,kernel,waves,rows,chunk,tail,split_k,workgroups,"
           "launches,busy percent,slots per weight,kernel us,memory us,roofline percent,"
           "bound\n");
}

static void print_row(const struct sweep_row *r, const char *type)
{
    const struct plan *const p = r->plan;

    printf("%s,%s,%d,%d,%s,%s,%d,%s,%d,%d,%d,%d,%d,%lld,%zu,%u,%.2f,%.2f,%.2f,%.0f,%s\n",
           r->shape->model, r->shape->layer, r->shape->n, r->shape->k, p->target->name, type, r->m,
           p->symbol, p->waves, p->rows_per_wave, p->chunk, p->tail, p->split_k,
           (long long)p->estimate.workgroups, r->launches, p->estimate.busy_percent, r->slots,
           r->kernel_us, r->memory_us, 100 * sweep_share(r),
           sweep_share(r) < 1 ? "issue and latency" : "memory");
}

static void print_target(const char *target)
{
    for (size_t i = 0; i < SWEEP_COUNT(sweep_shapes); i++)
        for (size_t t = 0; t < SWEEP_COUNT(sweep_types); t++) {
            struct plan_set set;
            if (!sweep_plan(&sweep_shapes[i], sweep_types[t], target, &set))
                stop(quern_last_error()->message);
            for (size_t m = 0; m < SWEEP_COUNT(sweep_rows); m++) {
                const struct sweep_row row = sweep_row_of(&sweep_shapes[i], &set, sweep_rows[m]);
                print_row(&row, sweep_types[t]);
            }
        }
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--svg")) {
        if (!sweep_svg(stdout))
            stop(quern_last_error()->message);
    } else {
        for (int i = 1; i < argc; i++)
            if (!target_named(argv[i]))
                stop("usage: sweep [--svg | TARGET...], e.g. sweep gfx1151 gfx942");
        print_head();
        for (int i = 1; i < argc; i++)
            print_target(argv[i]);
        for (size_t t = 0; argc == 1 && t < SWEEP_COUNT(sweep_targets); t++)
            print_target(sweep_targets[t]);
    }
    if (fflush(stdout) || ferror(stdout))
        stop("standard output cannot be written");
    return 0;
}
