/* SPDX-License-Identifier: MIT */
/*
 * What compiling costs: the first kernel of a process, worker start included, and how much faster
 * two workers are than one. The kernel is the one that plan/ ships for NF4, bf16, N = K = 4096, M =
 * 1 on gfx1151; a constant that changes nothing is added to make each source a new one.
 */
#include "base/os.h"
#include "base/thread.h"
#include "compile/compile.h"
#include "gen/gen.h"
#include "t_paths.h"

#include <stdio.h>
#include <stdlib.h>

#define KERNELS 24
#define ROUNDS  5

struct work {
    struct compiler *compiler;
    const char *source, *options;
    int series; /* keeps the sources of two rounds apart */
};

static void stop(void)
{
    fprintf(stderr, "%s\n%s", quern_last_error()->message, quern_last_error()->log);
    exit(1);
}

static void compile(void *user, size_t i)
{
    const struct work *const w = user;
    struct compile_result result = {0};
    struct str source = {0};

    str_add(&source, w->source);
    str_addf(&source, "\nconstexpr unsigned SERIES = %du, NUMBER = %zuu;\n", w->series, i);
    const struct compile_job job = {
        .source = str_text(&source), .processor = "gfx1151", .options = w->options};
    if (compiler_compile(w->compiler, &job, &result) != QUERN_OK)
        stop();
    compile_result_free(&result);
    str_free(&source);
}

static struct compiler *open_pool(int jobs)
{
    struct compiler *compiler;

    if (compiler_open(&(struct compiler_config){.worker_path = t_worker_path(), .jobs = jobs},
                      &compiler) != QUERN_OK)
        stop();
    return compiler;
}

static double ms_since(uint64_t start)
{
    return (double)(os_now() - start) * 1e-6;
}

/* Milliseconds of the first compile of a pool that has no worker yet; the least of ROUNDS. */
static double cold(struct work *w)
{
    double least = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        w->compiler = open_pool(1);
        w->series++;
        const uint64_t start = os_now();
        compile(w, 0);
        const double ms = ms_since(start);
        if (ms < least)
            least = ms;
        compiler_close(w->compiler);
    }
    return least;
}

/* Milliseconds of KERNELS compiles on `jobs` workers that are already there; the least of ROUNDS.
 */
static double crowd(struct work *w, int jobs)
{
    double least = 1e9;

    w->compiler = open_pool(jobs);
    parallel_for((size_t)jobs * 2, jobs, compile, w);
    for (int round = 0; round < ROUNDS; round++) {
        w->series++;
        const uint64_t start = os_now();
        parallel_for(KERNELS, jobs, compile, w);
        const double ms = ms_since(start);
        if (ms < least)
            least = ms;
    }
    compiler_close(w->compiler);
    return least;
}

int main(void)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct plan_set plans;
    struct str source = {0}, options = {0};

    if (quern_problem_parse("wq=nf4 n=4096 k=4096 a=bf16", &problem) != QUERN_OK ||
        plan_make(&problem, target_named("gfx1151"), &plans) != QUERN_OK ||
        gen_source(&plans.plans[0], &source) != QUERN_OK)
        stop();
    gen_options(&plans.plans[0], &options);
    struct work w = {.source = str_text(&source), .options = str_text(&options)};
    printf("cold compile, worker start included: %.0f ms\n", cold(&w));
    const double one = crowd(&w, 1), two = crowd(&w, 2);
    printf("%d compiles on one worker: %.0f ms; on two: %.0f ms; %.2f times as fast\n", KERNELS,
           one, two, one / two);
    str_free(&source);
    str_free(&options);
    return 0;
}
