/* SPDX-License-Identifier: MIT */
/*
 * A host for test_versions.py, which compiles it against headers with fewer (FEWER) and with more
 * fields (MORE: `added` at the end of each struct; MORE_COUNTS: of struct quern_sim_counts alone)
 * than the library's. It gives every public struct with `size` to the library, prints what came of
 * it, which must not depend on the header, and ends with 1 when the library wrote where it may not.
 */
#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define M        2
#define N        32
#define K        64
#define PROBLEM  "wq=nf4 n=32 k=64 a=f32"
#define PROBLEM2 "wq=nf4 n=64 k=64 a=f32"

/* A struct whose `size` is this header's sizeof, with bytes behind it that nobody may touch. */
#define GUARD 64
#define GUARDED(tag, name)                                                                         \
    struct {                                                                                       \
        struct tag s;                                                                              \
        unsigned char guard[GUARD];                                                                \
    } name;                                                                                        \
    memset(&name, 0, sizeof name.s);                                                               \
    memset(name.guard, 0x5a, GUARD);                                                               \
    name.s.size = sizeof name.s

static void untouched(const char *name, size_t size, size_t expected, const unsigned char *guard)
{
    for (int i = 0; i < GUARD; i++)
        if (guard[i] != 0x5a) {
            printf("%s: byte %d behind it was written\n", name, i);
            exit(1);
        }
    if (size != expected) {
        printf("%s: size was %zu and is %zu\n", name, expected, size);
        exit(1);
    }
}

#if defined MORE
#define ADDED_OF(x) ((x).added[0] | (x).added[1])
#else
#define ADDED_OF(x) 0
#endif
#define CHECK(name)                                                                                \
    do {                                                                                           \
        untouched(#name, name.s.size, sizeof name.s, name.guard);                                  \
        if (ADDED_OF(name.s)) {                                                                    \
            printf("%s: a field that the library does not know was written\n", #name);             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void must(quern_status status, const char *what)
{
    if (status) {
        printf("%s: %s: %s\n", what, quern_status_name(status), quern_last_error()->message);
        exit(1);
    }
}

#if defined MORE
static void refused(quern_status status, const char *name)
{
    if (status != QUERN_E_ARGUMENT || !strstr(quern_last_error()->message, name)) {
        printf("%s: %s: %s\n", name, quern_status_name(status), quern_last_error()->message);
        exit(1);
    }
}
#endif

/* ---- Structs that the library makes ---------------------------------------------------------- */

static int progress(void *user, const struct quern_progress *p)
{
#if defined MORE
    if (p->size >= QUERN_SIZE_TO(struct quern_progress, added))
        exit(1);
#endif
    *(size_t *)user += p->size >= QUERN_SIZE_TO(struct quern_progress, status) && !p->status;
    return 0;
}

#if !defined FEWER
static size_t events;

static void count_event(void *user, const struct quern_event *e)
{
    (void)user;
#if defined MORE
    if (e->size >= QUERN_SIZE_TO(struct quern_event, added))
        exit(1);
#endif
    events += e->size >= QUERN_SIZE_TO(struct quern_event, status) && e->kernel[0];
}
#endif

/* ---- Problems, contexts, kernels ------------------------------------------------------------- */

static quern_ctx *open_context(void)
{
    quern_ctx *ctx;

    GUARDED(quern_options, options);
    options.s.target = "gfx1151";
    options.s.device = QUERN_DEVICE_SIM;
#if !defined FEWER
    options.s.event = count_event;
#endif
#if defined MORE
    options.s.added[1] = 1;
    refused(quern_open(&options.s, &ctx), "struct quern_options");
    options.s.added[1] = 0;
#endif
    must(quern_open(&options.s, &ctx), "open");
    CHECK(options);
    return ctx;
}

/* The library finds the second problem where this header's sizeof says. */
static void prewarm(quern_ctx *ctx)
{
    struct quern_problem problems[2];
    size_t done = 0;

    memset(problems, 0, sizeof problems);
    problems[0].size = problems[1].size = sizeof *problems;
    must(quern_problem_parse(PROBLEM, &problems[0]), "first");
    must(quern_problem_parse(PROBLEM2, &problems[1]), "second");
    must(quern_prewarm(ctx, problems, 2, 1, progress, &done), "prewarm");
    printf("prewarm: %zu kernels\n", done);
#if defined MORE
    problems[1].added[0] = 1;
    refused(quern_prewarm(ctx, problems, 2, 1, progress, &done), "struct quern_problem");
#endif
    problems[1].size += 8;
    if (quern_prewarm(ctx, problems, 2, 1, progress, &done) != QUERN_E_ARGUMENT)
        exit(1);
}

static quern_op *make_op(quern_ctx *ctx)
{
    char text[QUERN_TEXT_MAX];
    quern_op *op;

    GUARDED(quern_problem, problem);
    must(quern_problem_parse(PROBLEM, &problem.s), "parse");
    CHECK(problem);
    must(quern_problem_text(&problem.s, text, sizeof text), "text");
    printf("problem: %s, n=%d k=%d\n", text, (int)problem.s.n, (int)problem.s.k);
    must(quern_op_create(ctx, &problem.s, M, &op), "create");
    CHECK(problem);
    return op;
}

static void tell_kernel(quern_op *op)
{
    GUARDED(quern_kernel_info, info);
    must(quern_op_kernel(op, 0, &info.s), "kernel");
    CHECK(info);
    printf("kernel: %s for %d to %d\n", info.s.symbol, (int)info.s.m_lo, (int)info.s.m_hi);
}

static void tell_machine(quern_ctx *ctx)
{
    GUARDED(quern_target_info, target);
    GUARDED(quern_device_info, device);
    GUARDED(quern_stats, stats);
    GUARDED(quern_cache_info, cache);
    must(quern_target_find("gfx1151", &target.s), "target");
    CHECK(target);
    must(quern_ctx_device(ctx, &device.s), "device");
    CHECK(device);
    must(quern_ctx_stats(ctx, &stats.s), "stats");
    CHECK(stats);
    must(quern_cache_info(ctx, &cache.s), "cache");
    CHECK(cache);
    printf("target: %s, %u CUs\n", target.s.name, target.s.cus);
    printf("device: %s %d\n", device.s.target, (int)device.s.kind);
    printf("stats: compiled %d\n", (int)stats.s.compile_ok);
    printf("cache: %d entries of %d\n", (int)cache.s.entries, (int)(cache.s.max_bytes >> 20));
}

/* ---- Launches -------------------------------------------------------------------------------- */

static quern_buffer *buffers[4];
static const char *const names[4] = {"a", "b", "scales", "c"};
static float a[M * K], c[M * N], scales[N];
static unsigned char b[N * K / 2];

static void make_buffers(quern_ctx *ctx)
{
    void *const from[4] = {a, b, scales, c};
    const size_t bytes[4] = {sizeof a, sizeof b, sizeof scales, sizeof c};

    for (int i = 0; i < M * K; i++)
        a[i] = 1;
    for (int i = 0; i < N; i++)
        scales[i] = 0.5f;
    memset(b, 0xf7, sizeof b); /* weights 1 and 0 in turn */
    for (int i = 0; i < 4; i++) {
        must(quern_buffer_create(ctx, bytes[i], QUERN_SIM_READ_WRITE, names[i], &buffers[i]),
             "buffer");
        must(quern_buffer_write(buffers[i], from[i], bytes[i]), "write");
    }
}

static void launch(quern_op *op)
{
    GUARDED(quern_args, args);
    args.s.a = quern_buffer_address(buffers[0]);
    args.s.b = quern_buffer_address(buffers[1]);
    args.s.scales = quern_buffer_address(buffers[2]);
    args.s.c = quern_buffer_address(buffers[3]);
    must(quern_op_launch(op, &args.s, M, NULL), "launch");
    CHECK(args);
    must(quern_buffer_read(buffers[3], c, sizeof c), "read");
    printf("c: %g %g\n", (double)c[0], (double)c[M * N - 1]);
#if defined MORE
    args.s.added[0] = 1;
    refused(quern_op_launch(op, &args.s, M, NULL), "struct quern_args");
#endif
    args.s.size = QUERN_ARGS_SIZE_MIN - 1;
    if (quern_op_launch(op, &args.s, M, NULL) != QUERN_E_ARGUMENT)
        exit(1);
}

/* The kernel's arguments, as quern_op_launches describes them. */
static size_t pack(const struct quern_launch *l, unsigned char *kernarg)
{
    size_t at = 0;

    for (size_t i = 0; i < l->arg_count; i++) {
        const struct quern_launch_arg *const arg = &l->args[i];
        const size_t bytes = arg->kind == QUERN_ARG_I32 || arg->kind == QUERN_ARG_U32 ? 4 : 8;
        uint64_t value = (uint64_t)arg->value;
        for (int n = 0; n < 4; n++)
            if (arg->kind == QUERN_ARG_POINTER && !strcmp(arg->name, names[n]))
                value = (uint64_t)(uintptr_t)quern_buffer_address(buffers[n]);
        at = (at + bytes - 1) / bytes * bytes;
        memcpy(kernarg + at, &value, bytes);
        at += bytes;
    }
    return at;
}

static void simulate(quern_ctx *ctx, quern_op *op)
{
    struct quern_launch launches[QUERN_LAUNCHES_MAX];
    size_t count = QUERN_LAUNCHES_MAX;
    unsigned char kernarg[512];
    quern_sim_module *module;

    GUARDED(quern_kernel_info, info);
    GUARDED(quern_sim_launch, l);
    GUARDED(quern_sim_counts, counts);
    must(quern_op_launches(op, M, launches, &count), "launches");
    must(quern_op_kernel(op, launches[0].kernel, &info.s), "kernel");
    must(quern_sim_load(quern_ctx_sim(ctx), info.s.object, info.s.object_bytes, &module), "load");
    l.s.kernel = info.s.symbol;
    memcpy(l.s.grid, launches[0].grid, sizeof l.s.grid);
    memcpy(l.s.block, launches[0].block, sizeof l.s.block);
    l.s.kernarg = kernarg;
    l.s.kernarg_bytes = pack(&launches[0], kernarg);
    must(quern_sim_run(module, &l.s, &counts.s), "run");
    must(quern_sim_run(module, &l.s, &counts.s), "run again"); /* added to the first */
    CHECK(l);
    untouched("counts", counts.s.size, sizeof counts.s, counts.guard);
#if defined MORE_COUNTS
    if (counts.s.added[0] | counts.s.added[1])
        exit(1);
#endif
    printf("counts: %d instructions, %d workgroups\n", (int)counts.s.instructions,
           (int)counts.s.workgroups);
#if !defined MORE_COUNTS /* it stands within the structs that follow */
    GUARDED(quern_sim_profile, profile);
    GUARDED(quern_sim_model, model);
    must(quern_sim_profile_run(module, &l.s, QUERN_EXTENT_ALL, 0, &profile.s), "profile");
    CHECK(profile);
    must(quern_sim_model_make(&profile.s, &model.s), "model");
    CHECK(profile);
    CHECK(model);
    if (profile.s.counts.workgroups * 2 != counts.s.workgroups || !(model.s.total_us > 0))
        exit(1);
    quern_sim_profile_free(&profile.s);
    CHECK(profile);
    GUARDED(quern_verification, verified);
    must(quern_verify(op, M, 1, QUERN_CHECK_FAST, &verified.s), "verify");
    CHECK(verified);
    if (!(verified.s.max_error <= verified.s.tolerance) || !(verified.s.tolerance > 0))
        exit(1);
#endif
    quern_sim_unload(module);
}

static void open_sim(quern_ctx *ctx)
{
    quern_sim *sim;

    GUARDED(quern_sim_options, options);
    options.s.target = "gfx1151";
    options.s.disassembler = quern_ctx_disassembler(ctx);
    must(quern_sim_open(&options.s, &sim), "sim");
    CHECK(options);
    quern_sim_close(sim);
}

/* ---- Bundles, checkpoints, offload bundles --------------------------------------------------- */

static void bundle(quern_ctx *ctx)
{
    void *bytes;
    size_t size;
    uint64_t left_out;
    quern_bundle *made;

    GUARDED(quern_bundle_info, info);
    GUARDED(quern_bundle_import, result);
    must(quern_bundle_create(ctx, NULL, "", 7, &bytes, &size, &left_out), "bundle");
    must(quern_bundle_open(bytes, size, &made), "bundle");
    must(quern_bundle_info(made, &info.s), "info");
    CHECK(info);
    must(quern_bundle_import(ctx, made, NULL, &result.s), "import");
    CHECK(result);
    printf("bundle: %d entries, serial %d, %d imported\n", (int)info.s.entries, (int)info.s.serial,
           (int)result.s.imported);
    quern_bundle_close(made);
    free(bytes);
}

static void import(void)
{
    static uint32_t qweight[128 / 8 * 64], qzeros[64 / 8];
    static uint16_t half[64];
    struct quern_quantized operands[QUERN_OPERANDS_MAX];
    size_t count;

    GUARDED(quern_problem, problem);
    GUARDED(quern_checkpoint, from);
    must(quern_problem_parse("wq=int4 n=64 k=128 a=f16 zero=u8 layout=gptq", &problem.s), "int4");
    from.s.kind = QUERN_CHECKPOINT_GPTQ;
    from.s.qweight = qweight, from.s.qweight_bytes = sizeof qweight;
    from.s.qzeros = qzeros, from.s.qzeros_bytes = sizeof qzeros;
    from.s.scales = half, from.s.scales_bytes = sizeof half;
    must(quern_import(&problem.s, &from.s, operands, &count), "import");
    CHECK(from);
    printf("checkpoint: %zu operands\n", count);
    quern_quantized_free(operands, count);
}

static void offload(void)
{
    static const char id[] = "hipv4-amdgcn-amd-amdhsa--gfx1151";
    const uint64_t head[4] = {1, 24 + sizeof head + sizeof id - 1, 0, sizeof id - 1};
    char file[256] = "__CLANG_OFFLOAD_BUNDLE__";
    quern_offload *opened;

    GUARDED(quern_offload_entry, entry);
    memcpy(file + 24, head, sizeof head);
    memcpy(file + 24 + sizeof head, id, sizeof id - 1);
    must(quern_offload_open(file, 24 + sizeof head + sizeof id - 1, &opened), "offload");
    must(quern_offload_entry(opened, 0, &entry.s), "entry");
    CHECK(entry);
    printf("offload: %s of %zu bytes\n", entry.s.target, entry.s.object_bytes);
    quern_offload_close(opened);
}

int main(void)
{
    quern_ctx *const ctx = open_context();

    prewarm(ctx);
    quern_op *const op = make_op(ctx);
    tell_kernel(op);
    make_buffers(ctx);
    launch(op);
    simulate(ctx, op);
    tell_machine(ctx);
    open_sim(ctx);
    bundle(ctx);
    import();
    offload();
#if !defined FEWER
    if (!events)
        return 1;
#endif
    for (int i = 0; i < 4; i++)
        quern_buffer_destroy(buffers[i]);
    quern_op_release(op);
    quern_close(ctx);
    puts("done");
    return 0;
}
