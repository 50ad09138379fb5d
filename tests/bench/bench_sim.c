/* SPDX-License-Identifier: MIT */
/*
 * How fast the software GPU is: millions of wave instructions a second (an instruction of a wave of
 * 64 counts two) on one core, by instruction set of the host; how much slower the full check is;
 * and how much faster two threads are than one. The kernels are those that plan/ ships for NF4, N =
 * K = 4096, on gfx1151 or the targets that are named ("all": every one that is simulated); words
 * f16, bf16, f32 and m=1, m=8 among them choose kernels. Times are CPU times of the fastest of
 * ROUNDS runs, wall times for two threads. Those tell nothing when other programs want the cores:
 * "by CPU" is twice the CPU time of one thread over that of both, what two cores would give that
 * nobody else uses.
 */
#include "base/os.h"
#include "compile/compile.h"
#include "t_paths.h"

#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 5

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

struct speed {
    double cpu, wall; /* seconds */
    double waves32;   /* wave instructions, of 64 lanes counted twice */
};

/* The least time of ROUNDS launches. */
static struct speed measure(struct compiler *compiler, struct job *j, enum quern_sim_check check,
                            enum quern_sim_isa isa, int threads)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    struct speed best = {1e9, 1e9, 0};
    unsigned char kernarg[8 * QUERN_ARGS_MAX];
    size_t used = 0;
    quern_sim *sim;
    quern_sim_module *module;

    o.target = target;
    o.check = check;
    o.isa = isa;
    o.threads = threads;
    o.disassembler = (struct quern_disassembler){compiler_disassemble, compiler};
    must(quern_sim_open(&o, &sim));
    must(quern_sim_load(sim, j->kernel.object, j->kernel.object_bytes, &module));
    memset(kernarg, 0, sizeof kernarg);
    for (size_t n = 0; n < j->launch.arg_count; n++) {
        const struct quern_launch_arg *const a = &j->launch.args[n];
        const bool wide =
            a->kind == QUERN_ARG_POINTER || a->kind == QUERN_ARG_I64 || a->kind == QUERN_ARG_U64;
        uint64_t value = (uint64_t)a->value;
        for (size_t k = 0; k < j->count && a->kind == QUERN_ARG_POINTER; k++)
            if (!strcmp(a->name, j->operands[k].name))
                must(quern_sim_map(sim, j->memory[k], j->operands[k].bytes, j->operands[k].access,
                                   a->name, &value));
        used = wide ? (used + 7) & ~(size_t)7 : used;
        memcpy(kernarg + used, &value, wide ? 8 : 4);
        used += wide ? 8 : 4;
    }
    struct quern_sim_launch l = QUERN_INIT(struct quern_sim_launch);
    l.kernel = j->kernel.symbol;
    memcpy(l.grid, j->launch.grid, sizeof l.grid);
    memcpy(l.block, j->launch.block, sizeof l.block);
    l.lds_bytes = j->launch.lds_bytes;
    l.kernarg = kernarg;
    l.kernarg_bytes = used;
    for (int round = 0; round < ROUNDS; round++) {
        struct quern_sim_counts counts = QUERN_INIT(struct quern_sim_counts);
        const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
        must(quern_sim_run(module, &l, &counts));
        const double cpu_used = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        const double wall_used = seconds(CLOCK_MONOTONIC) - wall;
        best.cpu = cpu_used < best.cpu ? cpu_used : best.cpu;
        best.wall = wall_used < best.wall ? wall_used : best.wall;
        best.waves32 = (double)counts.instructions * counts.wave_size / 32;
    }
    quern_sim_unload(module);
    quern_sim_close(sim);
    return best;
}

static void bench_problem(quern_ctx *ctx, struct compiler *compiler, const char *type, int64_t m)
{
    static const enum quern_sim_isa isas[] = {QUERN_ISA_X86_64, QUERN_ISA_X86_64_V3,
                                              QUERN_ISA_X86_64_V4};
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct job job = {0};
    char text[QUERN_TEXT_MAX];
    quern_op *op;

    snprintf(text, sizeof text, "wq=nf4 group=64 a=%s n=4096 k=4096", type);
    must(quern_problem_parse(text, &problem));
    must(quern_op_create_range(ctx, &problem, m, m, &op));
    make_job(op, &problem, m, &job);
    printf("%-5s m=%lld ", type, (long long)m);
    __builtin_cpu_init();
    for (unsigned n = 0; n < 3; n++) {
        const bool has = n == 0   ? true
                         : n == 1 ? __builtin_cpu_supports("avx2")
                                  : __builtin_cpu_supports("avx512vl");
        if (!has) {
            printf("       - ");
            continue;
        }
        const struct speed s = measure(compiler, &job, QUERN_CHECK_FAST, isas[n], 1);
        printf("%8.1f ", s.waves32 / s.cpu * 1e-6);
    }
    const struct speed one = measure(compiler, &job, QUERN_CHECK_FAST, QUERN_ISA_AUTO, 1);
    const struct speed two = measure(compiler, &job, QUERN_CHECK_FAST, QUERN_ISA_AUTO, 2);
    const struct speed full = measure(compiler, &job, QUERN_CHECK_FULL, QUERN_ISA_AUTO, 1);
    printf("%9.1f %9.2f %9.2f\n", full.cpu / one.cpu, one.wall / two.wall,
           2 * one.cpu / two.cpu);
    for (size_t n = 0; n < job.count; n++)
        free(job.memory[n]);
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
    printf("NF4 on %s: million wave instructions a second on one core; then full / fast, one / two "
           "threads\n%-9s %8s %8s %8s %9s %9s %9s\n",
           target, "", "x86-64", "-v3", "-v4", "full", "threads", "by CPU");
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
