/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"
#include "sim/bodies.h"
#include "device/device.h"
#include "sim/launch.h"
#include "t_paths.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char t_gpu_prelude[] =
    "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32;\n"
    "typedef unsigned long long u64; typedef signed char i8; typedef short i16; typedef int i32;\n"
    "typedef long long i64; typedef float f32; typedef double f64; typedef _Float16 f16;\n"
    "typedef u32 u32x2 __attribute__((ext_vector_type(2)));\n"
    "typedef u32 u32x4 __attribute__((ext_vector_type(4)));\n"
    "typedef f16 f16x2 __attribute__((ext_vector_type(2)));\n"
    "typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));\n"
    "#define KERNEL extern \"C\" __attribute__((global)) void\n"
    "#define DEVICE static __attribute__((device)) inline\n"
    "#define SHARED static __attribute__((shared))\n"
    "#define CONSTANT static __attribute__((constant))\n"
    "#define LANE ((u32)__builtin_amdgcn_workitem_id_x())\n"
    "#define GROUP ((u32)__builtin_amdgcn_workgroup_id_x())\n"
    "DEVICE void barrier() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n"
    "  __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\"); }\n";

static const char base_options[] =
    "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n-std=c++17";

static void must(quern_status status)
{
    if (status != QUERN_OK)
        fail_msg("%s: %s\n%s", quern_status_name(status), quern_last_error()->message,
                 quern_last_error()->log);
}

/* ---- On hardware ----------------------------------------------------------------------------- */

/* The GPU that launches run on; null: software GPUs. It is open to the end of the process. */
static struct device *gpu(void)
{
    static struct device *device;
    const char *const kind = getenv("QUERN_DEVICE");

    if (!device && kind && !strcmp(kind, driver_amd.name))
        must(driver_amd.open(&driver_amd, &(struct device_search){0}, 0, &device));
    return device;
}

bool t_gpu_has(const char *target)
{
    return !gpu() || !strcmp(gpu()->id.target->name, target);
}

/* ---- Which rows of the instruction tables are run -------------------------------------------- */

/* With ROWS_DIRECTORY in the environment, a file of this program's name there lists what its
 * launches executed when it ends: lines "run ROW TARGET", and lines "skip ROW TARGET" and
 * "row ROW CLASS" for t_gpu_skip_row and the tables themselves. */
static struct {
    FILE *file;
    char *seen[8192];
} rows;

static void say_row(const char *what, const char *row, const char *about)
{
    char line[128];
    uint64_t hash = 14695981039346656037u;

    if (!rows.file)
        return;
    snprintf(line, sizeof line, "%s %s %s", what, row, about);
    for (const char *c = line; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 1099511628211u;
    const size_t count = sizeof rows.seen / sizeof *rows.seen;
    size_t at = hash % count;
    while (rows.seen[at] && strcmp(rows.seen[at], line))
        at = (at + 1) % count;
    if (rows.seen[at])
        return;
    rows.seen[at] = strdup(line);
    fprintf(rows.file, "%s\n", line);
    fflush(rows.file);
}

static void observe(void *user, const struct quern_sim_module *module, const int64_t *flow)
{
    int64_t executed = 0;

    (void)user;
    for (size_t n = 0; n < module->insn_count; n++) {
        const struct sim_row *const row = module->notes[n].row;
        executed += flow[n];
        if (row && executed > 0)
            say_row("run", row->name, module->sim->target->name);
    }
}

static void open_rows(void)
{
    static const struct sim_bodies *bodies;
    static void *library; /* stays, as rows are remembered */
    const char *const directory = getenv("ROWS_DIRECTORY");
    char path[PATH_MAX];

    if (rows.file || !directory || !*directory)
        return;
    snprintf(path, sizeof path, "%s/%s", directory, program_invocation_short_name);
    /* One program may run more than once in a whole run, as under tests/check_hw.py for one GPU
     * only: its later runs add to what the first one noted, and take nothing away. */
    rows.file = fopen(path, "a");
    assert_non_null(rows.file);
    must(bodies_open(QUERN_ISA_AUTO, NULL, &bodies, &library));
    for (size_t t = 0; bodies->tables[t]; t++)
        for (const struct sim_row *row = bodies->tables[t]; row->name; row++)
            say_row("row", row->name, quern_sim_class_name(row->class));
}

void t_gpu_observe(quern_sim *sim)
{
    open_rows();
    if (rows.file)
        sim->observer = (struct sim_observer){.function = observe};
}

void t_gpu_skip_row(const char *row, const char *target)
{
    open_rows();
    say_row("skip", row, target);
}

void t_gpu_open(struct t_gpu *g, const char *target, const char *options,
                enum quern_sim_check check, enum quern_sim_isa isa, uint64_t max_instructions)
{
    const struct compiler_config config = {.worker_path = t_worker_path(), .jobs = 1};
    const size_t size = sizeof base_options + strlen(options) + 2;

    *g = (struct t_gpu){.target = target, .options = malloc(size)};
    assert_non_null(g->options);
    snprintf(g->options, size, "%s\n%s", base_options, options);
    must(compiler_open(&config, &g->compiler));
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    o.target = target;
    o.check = check;
    o.isa = isa == QUERN_ISA_X86_64 && !t_has_isa("x86_64") ? QUERN_ISA_AUTO : isa;
    o.max_instructions = max_instructions;
    o.arithmetic = QUERN_ARITHMETIC_FAST;
    o.disassembler = (struct quern_disassembler){compiler_disassemble, g->compiler};
    must(quern_sim_open(&o, &g->sim));
    t_gpu_observe(g->sim);
}

void t_gpu_arithmetic(struct t_gpu *g, enum quern_sim_arithmetic arithmetic)
{
    g->sim->arithmetic = arithmetic;
}

/* `also`: another software GPU that gets the same object, or null. */
static void load(struct t_gpu *g, struct t_gpu *also, const char *source)
{
    const size_t size = sizeof t_gpu_prelude + strlen(source);
    char *const text = malloc(size);
    struct compile_result result;

    assert_non_null(text);
    snprintf(text, size, "%s%s", t_gpu_prelude, source);
    const struct compile_job job = {text, g->target, g->options};
    must(compiler_compile(g->compiler, &job, &result));
    free(text);
    quern_sim_unload(g->module);
    g->module = NULL;
    must(quern_sim_load(g->sim, result.object, result.object_bytes, &g->module));
    if (also) {
        quern_sim_unload(also->module);
        also->module = NULL;
        must(quern_sim_load(also->sim, result.object, result.object_bytes, &also->module));
    }
    if (gpu()) {
        object_free(&g->object);
        free(g->bytes);
        g->bytes = result.object;
        result.object = NULL;
        must(object_parse(g->bytes, result.object_bytes, &g->object));
    }
    compile_result_free(&result);
}

void t_gpu_load(struct t_gpu *g, const char *source)
{
    load(g, NULL, source);
}

void t_gpu_load_two(struct t_gpu *g, struct t_gpu *also, const char *source)
{
    load(g, also, source);
}

void t_gpu_close(struct t_gpu *g)
{
    quern_sim_unload(g->module);
    quern_sim_close(g->sim);
    compiler_close(g->compiler);
    object_free(&g->object);
    free(g->bytes);
    free(g->options);
}

/* The launch on a GPU, with memory of its own for each buffer. */
static quern_status run_on_gpu(struct t_gpu *g, const struct t_launch *launch,
                               const struct quern_sim_launch *l, uint8_t *kernarg)
{
    struct device *const d = gpu();
    struct device_launch run = {
        .lds_bytes = l->lds_bytes, .kernarg = kernarg, .kernarg_bytes = l->kernarg_bytes};
    struct device_memory memory[16];
    struct device_kernel *kernel;

    for (size_t n = 0; n < launch->count; n++) {
        const struct t_buffer *const b = &launch->buffers[n];
        must(d->functions->memory_make(d, b->bytes, b->access, b->name, &memory[n]));
        must(d->functions->memory_write(d, &memory[n], b->host));
        memcpy(kernarg + 8 * n, &memory[n].address, 8);
    }
    memcpy(run.grid, l->grid, sizeof run.grid);
    memcpy(run.block, l->block, sizeof run.block);
    must(d->functions->load(d, &g->object, l->kernel, l->lds_bytes, &kernel));
    const quern_status status = d->functions->launch(d, kernel, &run);
    for (size_t n = 0; n < launch->count; n++) {
        if (launch->buffers[n].access & QUERN_SIM_WRITE)
            must(d->functions->memory_read(d, &memory[n], launch->buffers[n].host));
        d->functions->memory_free(d, &memory[n]);
    }
    d->functions->unload(d, kernel);
    return status;
}

quern_status t_gpu_try(struct t_gpu *g, const struct t_launch *launch)
{
    struct quern_sim_launch l = QUERN_INIT(struct quern_sim_launch);
    unsigned char kernarg[512];
    uint64_t address[16];

    assert_true(launch->count <= 16 && launch->count * 8 + launch->extra_bytes <= sizeof kernarg);
    for (size_t n = 0; n < launch->count; n++) {
        const struct t_buffer *const b = &launch->buffers[n];
        must(quern_sim_map(g->sim, b->host, b->bytes, b->access, b->name, &address[n]));
        memcpy(kernarg + 8 * n, &address[n], 8);
    }
    if (launch->extra_bytes)
        memcpy(kernarg + 8 * launch->count, launch->extra, launch->extra_bytes);
    l.kernel = launch->kernel;
    for (unsigned n = 0; n < 3; n++) {
        l.grid[n] = launch->groups[n] ? launch->groups[n] : 1;
        l.block[n] = launch->items[n] ? launch->items[n] : 1;
    }
    l.lds_bytes = launch->lds_bytes;
    l.kernarg = kernarg;
    l.kernarg_bytes = 8 * launch->count + launch->extra_bytes;
    const quern_status status =
        gpu() ? run_on_gpu(g, launch, &l, kernarg) : quern_sim_run(g->module, &l, launch->counts);
    for (size_t n = 0; n < launch->count; n++)
        assert_int_equal(quern_sim_unmap(g->sim, address[n]), QUERN_OK);
    return status;
}

void t_gpu_run(struct t_gpu *g, const struct t_launch *launch)
{
    must(t_gpu_try(g, launch));
}

uint64_t t_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
