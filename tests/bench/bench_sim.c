/* SPDX-License-Identifier: MIT */
/*
 * How fast the software GPU is: millions of wave instructions a second (an instruction of a wave of
 * 64 counts two) on one core, by instruction set of the host; how much slower the full check is;
 * and how much faster two threads are than one. The kernels are those that plan/ ships for NF4, N =
 * K = 4096, on gfx1151 or the targets that are named ("all": every one that is simulated); words
 * f16, bf16, f32 and m=1, m=8 among them choose kernels.
 *
 * Speeds are by CPU time. "threads" is the wall time of a launch on one thread over that of one on
 * two; "apart" what the machine gives two launches that have nothing to do with each other, started
 * at once on a thread each, over one alone: no launch can gain more. "by CPU" is twice the CPU time
 * of one thread over that of both, what cores would give that nobody else uses. What a core gives
 * can change by a third from one moment to the next (load of others on the same host): so all of
 * them take turns, and the least time of each counts.
 */
#include "base/os.h"
#include "base/thread.h"
#include "compile/compile.h"
#include "t_paths.h"

#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS    15
#define SLOW_TURN 3 /* what takes many times as long as the others is run in every third round */

static const char *target = "gfx1151";

static void must(quern_status status)
{
    if (status != QUERN_OK) {
        fprintf(stderr, "%s\n%s", quern_last_error()->message, quern_last_error()->log);
        exit(1);
    }
}

static double seconds(clockid_t clock)
{
    struct timespec t;

    os.clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A kernel, its launch, and host memory for its operands. */
struct job {
    struct quern_kernel_info kernel;
    struct quern_launch launch;
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    void *memory[QUERN_OPERANDS_MAX];
    size_t count;
};

static void make_job(quern_op *op, const struct quern_problem *problem, int64_t m, struct job *j)
{
    struct quern_launch launches[QUERN_LAUNCHES_MAX];
    size_t count = 0;
    uint32_t random = 1;

    must(quern_op_launches(op, m, launches, &count));
    j->launch = launches[0];
    j->kernel.size = sizeof j->kernel;
    must(quern_op_kernel(op, j->launch.kernel, &j->kernel));
    must(quern_problem_operands(problem, m, j->operands, &j->count));
    for (size_t n = 0; n < j->count; n++) {
        const size_t words = (size_t)j->operands[n].bytes / 4 + 1;
        uint32_t *const memory = malloc(words * 4);
        if (!memory)
            exit(1);
        for (size_t k = 0; k < words; k++) {
            random = random * 1664525 + 1013904223;
            /* moderate numbers in every format that an operand may have */
            memory[k] = (random & 0x83ff83ff) | 0x3c003c00;
        }
        j->memory[n] = memory;
    }
}

static void free_job(struct job *j)
{
    for (size_t n = 0; n < j->count; n++)
        free(j->memory[n]);
}

/* A software GPU with a job's launch, and the least time that it took. */
struct gpu {
    quern_sim *sim;
    quern_sim_module *module;
    struct quern_sim_launch launch;
    unsigned char kernarg[8 * QUERN_ARGS_MAX];
    double cpu, wall; /* seconds */
    double waves32;   /* wave instructions, of 64 lanes counted twice */
};

static void open_gpu(struct compiler *compiler, const struct job *j, enum quern_sim_check check,
                     enum quern_sim_isa isa, int threads, struct gpu *g)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    struct quern_sim_launch *const l = &g->launch;
    size_t used = 0;

    o.target = target;
    o.check = check;
    o.isa = isa;
    o.threads = threads;
    o.disassembler = (struct quern_disassembler){compiler_disassemble, compiler};
    must(quern_sim_open(&o, &g->sim));
    must(quern_sim_load(g->sim, j->kernel.object, j->kernel.object_bytes, &g->module));
    memset(g->kernarg, 0, sizeof g->kernarg);
    for (size_t n = 0; n < j->launch.arg_count; n++) {
        const struct quern_launch_arg *const a = &j->launch.args[n];
        const bool wide =
            a->kind == QUERN_ARG_POINTER || a->kind == QUERN_ARG_I64 || a->kind == QUERN_ARG_U64;
        uint64_t value = (uint64_t)a->value;
        for (size_t k = 0; k < j->count && a->kind == QUERN_ARG_POINTER; k++)
            if (!strcmp(a->name, j->operands[k].name))
                must(quern_sim_map(g->sim, j->memory[k], j->operands[k].bytes,
                                   j->operands[k].access, a->name, &value));
        used = wide ? (used + 7) & ~(size_t)7 : used;
        memcpy(g->kernarg + used, &value, wide ? 8 : 4);
        used += wide ? 8 : 4;
    }
    *l = (struct quern_sim_launch)QUERN_INIT(struct quern_sim_launch);
    l->kernel = j->kernel.symbol;
    memcpy(l->grid, j->launch.grid, sizeof l->grid);
    memcpy(l->block, j->launch.block, sizeof l->block);
    l->lds_bytes = j->launch.lds_bytes;
    l->kernarg = g->kernarg;
    l->kernarg_bytes = used;
    g->cpu = g->wall = 1e9;
}

static void close_gpu(struct gpu *g)
{
    quern_sim_unload(g->module);
    quern_sim_close(g->sim);
}

static void launch_one_of(void *user, size_t i)
{
    struct gpu *const g = (struct gpu *)user + i;
    struct quern_sim_counts counts = QUERN_INIT(struct quern_sim_counts);

    must(quern_sim_run(g->module, &g->launch, &counts));
    g->waves32 = (double)counts.instructions * counts.wave_size / 32;
}

/* Times one launch on each of `count` software GPUs at once; the first keeps the least times. */
static void time_launches(struct gpu *gpus, size_t count)
{
    const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);

    parallel_for(count, (int)count, launch_one_of, gpus);
    const double cpu_used = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    const double wall_used = seconds(CLOCK_MONOTONIC) - wall;
    gpus->cpu = cpu_used < gpus->cpu ? cpu_used : gpus->cpu;
    gpus->wall = wall_used < gpus->wall ? wall_used : gpus->wall;
}

/* What is measured of a problem. The first three are the instruction sets of the host. */
enum { V1, V3, V4, ONE, TWO, FULL, APART, MEASURED };

static void bench_jobs(struct compiler *compiler, const struct job *j, const struct job *other)
{
    static const struct {
        enum quern_sim_isa isa;
        enum quern_sim_check check;
        int threads;
    } setup[MEASURED] = {[V1] = {QUERN_ISA_X86_64, QUERN_CHECK_FAST, 1},
                         [V3] = {QUERN_ISA_X86_64_V3, QUERN_CHECK_FAST, 1},
                         [V4] = {QUERN_ISA_X86_64_V4, QUERN_CHECK_FAST, 1},
                         [ONE] = {QUERN_ISA_AUTO, QUERN_CHECK_FAST, 1},
                         [TWO] = {QUERN_ISA_AUTO, QUERN_CHECK_FAST, 2},
                         [FULL] = {QUERN_ISA_AUTO, QUERN_CHECK_FULL, 1},
                         [APART] = {QUERN_ISA_AUTO, QUERN_CHECK_FAST, 1}};
    struct gpu gpus[MEASURED + 1]; /* the last is the second of those apart */
    __builtin_cpu_init();
    const bool has[] = {true, __builtin_cpu_supports("avx2"), __builtin_cpu_supports("avx512vl")};

    for (unsigned n = 0; n < MEASURED; n++)
        if (n > V4 || has[n])
            open_gpu(compiler, j, setup[n].check, setup[n].isa, setup[n].threads, &gpus[n]);
    open_gpu(compiler, other, QUERN_CHECK_FAST, QUERN_ISA_AUTO, 1, &gpus[MEASURED]);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned n = 0; n < MEASURED; n++)
            if ((n > V4 || has[n]) && ((n != V1 && n != FULL) || round % SLOW_TURN == 0))
                time_launches(&gpus[n], n == APART ? 2 : 1);
    for (unsigned n = V1; n <= V4; n++)
        if (has[n])
            printf("%8.1f ", gpus[n].waves32 / gpus[n].cpu * 1e-6);
        else
            printf("       - ");
    const struct gpu *const one = &gpus[ONE], *const two = &gpus[TWO];
    printf("%9.1f %9.2f %9.2f %9.2f\n", gpus[FULL].cpu / one->cpu, one->wall / two->wall,
           2 * one->wall / gpus[APART].wall, 2 * one->cpu / two->cpu);
    for (unsigned n = 0; n <= MEASURED; n++)
        if (n > V4 || has[n])
            close_gpu(&gpus[n]);
}

static void bench_problem(quern_ctx *ctx, struct compiler *compiler, const char *type, int64_t m)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct job jobs[2] = {0};
    char text[QUERN_TEXT_MAX];
    quern_op *op;

    snprintf(text, sizeof text, "wq=nf4 group=64 a=%s n=4096 k=4096", type);
    must(quern_problem_parse(text, &problem));
    must(quern_op_create_range(ctx, &problem, m, m, &op));
    for (unsigned n = 0; n < 2; n++)
        make_job(op, &problem, m, &jobs[n]);
    printf("%-5s m=%lld ", type, (long long)m);
    bench_jobs(compiler, &jobs[0], &jobs[1]);
    for (unsigned n = 0; n < 2; n++)
        free_job(&jobs[n]);
    quern_op_release(op);
}

static void bench_target(struct compiler *compiler, const char *name, unsigned types, unsigned ms)
{
    static const char *const type_names[] = {"f16", "bf16", "f32"};
    struct quern_options options = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    target = name;
    options.device = QUERN_DEVICE_SIM;
    options.target = target;
    options.cache_mode = QUERN_CACHE_OFF;
    options.worker_path = t_worker_path();
    must(quern_open(&options, &ctx));
    printf("NF4 on %s: million wave instructions a second on one core; then full / fast, and what "
           "two threads gain\n%-9s %8s %8s %8s %9s %9s %9s %9s\n",
           target, "", "x86-64", "-v3", "-v4", "full", "threads", "apart", "by CPU");
    for (unsigned n = 0; n < 3; n++)
        for (int64_t m = 1; m <= 8; m += 7)
            if (types >> n & 1 && ms >> m & 1)
                bench_problem(ctx, compiler, type_names[n], m);
    quern_close(ctx);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"gfx90a",  "gfx942",  "gfx950",  "gfx1100", "gfx1101",
                                      "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152",
                                      "gfx1153", "gfx1200", "gfx1201"};
    static const char *const words[] = {"f16", "bf16", "f32", "m=1", "m=8"};
    const char *targets[sizeof all / sizeof *all] = {"gfx1151"};
    unsigned count = 0, chosen = 0;
    struct compiler *compiler;

    for (int n = 1; n < argc; n++) {
        unsigned k = 0;
        while (k < 5 && strcmp(argv[n], words[k]))
            k++;
        if (k < 5)
            chosen |= 1u << k;
        else if (!strcmp(argv[n], "all"))
            memcpy(targets, all, (count = sizeof all / sizeof *all) * sizeof *all);
        else if (count < sizeof all / sizeof *all)
            targets[count++] = argv[n];
    }
    must(compiler_open(&(struct compiler_config){.worker_path = t_worker_path(), .jobs = 1},
                       &compiler));
    for (unsigned n = 0; n < (count ? count : 1); n++)
        bench_target(compiler, targets[n], chosen & 7 ? chosen & 7 : 7,
                     chosen >> 3 ? (chosen >> 3 & 1) << 1 | (chosen >> 4 & 1) << 8 : 0x102);
    compiler_close(compiler);
    return 0;
}
