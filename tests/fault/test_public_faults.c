/* SPDX-License-Identifier: MIT */
/*
 * The public functions when operating system calls fail, with each error, once and for ever. What
 * is asked for is there or the status says why not; nothing leaks; and the same context does its
 * work afterwards. One call in a few fails with each error, and other calls with the next error.
 * test_public_faults_long.c takes more calls, others in each run, and has each error last for ever
 * once, here two of them. (The store's own operations:
 * test_store_faults.c; the worker's: test_worker_host.c.)
 *
 * This file is long because each public function has its own scenario of failing calls.
 */
#include "t_build.h"
#include "t_context.h"
#include "t_explore.h"
#include "t_faults.h"
#include "t_objects.h"
#include "t_paths.h"
#include "t_store.h"

#include <quern/tool.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
/* Between the calls that fail with one error, while another fails those between: where a worker is
 * started; where a bundle is compressed for each and most calls are those of reading the cache's
 * directories; elsewhere. */
#ifndef WORKER_STEP
#define WORKER_STEP 600
#define BUNDLE_STEP 31
#define CALL_STEP   (T_SANITIZED ? 53 : 127)
#endif
#ifndef LASTS /* whether an error is tried for ever too */
#define LASTS(error) ((error) == EIO || (error) == EINTR)
#endif

/* A target without a software GPU: what is made is found and checked, and no worker is started to
 * load it. */
#define TARGET  "gfx1030"
#define PROBLEM "wq=nf4 n=64 k=64 a=f16"
#define RECORD  "target=" TARGET " m=1-1 " PROBLEM "\n"

struct scene {
    char *directory;
    char bundle_path[256], record[256]; /* of a run that asked for the problem */
    void *bundle;
    size_t bundle_bytes;
    struct quern_problem problem;
    quern_ctx *ctx; /* open during the call, but for open itself */
};

static struct quern_options options_of(const struct scene *c, enum quern_jit jit)
{
    struct quern_options o = QUERN_INIT(struct quern_options);

    o.target = TARGET;
    o.cache_dir = c->directory;
    o.jit = jit;
    o.jobs = 1; /* calls in one order */
    o.allow_unverified = 1;
    o.bundle_path = c->bundle_path;
    return o;
}

static int setup(void **state)
{
    struct scene *const c = calloc(1, sizeof *c);
    quern_op *op;

    c->directory = t_temp_dir();
    c->problem = t_problem(PROBLEM);
    const struct quern_options o = options_of(c, QUERN_JIT_ON);
    if (quern_open(&o, &c->ctx) != QUERN_OK ||
        quern_op_create_range(c->ctx, &c->problem, 1, 1, &op) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    quern_op_release(op);
    assert_int_equal(
        quern_bundle_create(c->ctx, NULL, "# nothing\n", 1, &c->bundle, &c->bundle_bytes, NULL),
        QUERN_OK);
    quern_close(c->ctx);
    snprintf(c->bundle_path, sizeof c->bundle_path, "%s/bundle", c->directory);
    snprintf(c->record, sizeof c->record, "%s/record", c->directory);
    t_write_file(c->record, RECORD, sizeof RECORD - 1);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct scene *const c = *state;

    free(c->bundle);
    t_remove(c->directory);
    free(c);
    return 0;
}

/* ---- the calls: each gives its status, and checks what it got when that is QUERN_OK
 * --------------
 */

static quern_status do_open(struct scene *c)
{
    const struct quern_options o = options_of(c, QUERN_JIT_OFF);
    quern_ctx *ctx = NULL;
    const quern_status status = quern_open(&o, &ctx);

    assert_true((status == QUERN_OK) == (ctx != NULL));
    quern_close(ctx);
    return status;
}

static quern_status do_op(struct scene *c)
{
    quern_op *op = NULL;
    const quern_status status = quern_op_create_range(c->ctx, &c->problem, 1, 1, &op);

    if (status == QUERN_OK) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
        assert_true(info.object_bytes > 0 && info.cached);
        quern_op_release(op);
    }
    return status;
}

static quern_status do_explain(struct scene *c)
{
    const struct quern_options o = options_of(c, QUERN_JIT_OFF);
    char *text = NULL;
    const quern_status status = quern_explain(&o, &c->problem, 1, &text);

    assert_true((status == QUERN_OK) == (text != NULL));
    os.free(text);
    return status;
}

static quern_status do_source(struct scene *c)
{
    const struct quern_options o = options_of(c, QUERN_JIT_OFF);
    char *text = NULL;
    const quern_status status = quern_source(&o, &c->problem, 1, &text);

    assert_true((status == QUERN_OK) == (text != NULL));
    os.free(text);
    return status;
}

static quern_status do_prewarm(struct scene *c)
{
    return quern_prewarm(c->ctx, &c->problem, 1, 1, NULL, NULL);
}

static quern_status do_info(struct scene *c)
{
    struct quern_cache_info info = QUERN_INIT(struct quern_cache_info);

    return quern_cache_info(c->ctx, &info);
}

static int look(void *user, const struct quern_cache_entry *entry)
{
    (void)user;
    return entry->key[0] == 0;
}

static quern_status do_walk(struct scene *c)
{
    return quern_cache_walk(c->ctx, 0, look, NULL);
}

static quern_status do_verify(struct scene *c)
{
    return quern_cache_walk(c->ctx, 1, look, NULL);
}

static quern_status do_create_bundle(struct scene *c)
{
    void *bytes = NULL;
    size_t size = 0;
    uint64_t left_out = 0;
    const quern_status status =
        quern_bundle_create(c->ctx, NULL, "# nothing\n", 1, &bytes, &size, &left_out);

    if (status == QUERN_OK && !left_out && size == c->bundle_bytes)
        assert_memory_equal(bytes, c->bundle, size);
    os.free(bytes);
    return status;
}

static quern_status do_import(struct scene *c)
{
    struct quern_bundle_import result = QUERN_INIT(struct quern_bundle_import);
    quern_bundle *bundle;

    quern_status status = quern_bundle_open(c->bundle, c->bundle_bytes, &bundle);
    if (status != QUERN_OK)
        return status;
    /* nobody signed it, whatever file the keys are in */
    assert_true(quern_bundle_check_signature(bundle, c->record) != QUERN_OK);
    status = quern_bundle_walk(bundle, 1, look, NULL);
    if (status == QUERN_OK)
        status = quern_bundle_import(
            c->ctx, bundle, "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
            &result);
    quern_bundle_close(bundle);
    return status;
}

static quern_status do_clear(struct scene *c)
{
    uint64_t removed;

    return quern_cache_clear(c->ctx, &removed);
}

static quern_status do_known_op(struct scene *c)
{
    quern_op *op = NULL, *again = NULL;
    const quern_status status = quern_op_create(c->ctx, &c->problem, 1, &op);

    assert_true((status == QUERN_OK) == (op != NULL));
    if (status != QUERN_OK)
        return status;
    /* a known problem needs nothing of the system */
    assert_int_equal(quern_op_create(c->ctx, &c->problem, 1, &again), QUERN_OK);
    assert_ptr_equal(op, again);
    quern_op_explain(op, 1, NULL, 0); /* a text, or none without memory */
    quern_op_release(op);
    quern_op_release(again);
    return QUERN_OK;
}

/* On a thread of the library. */
static quern_status do_background(struct scene *c)
{
    quern_op *op = NULL;
    quern_status status =
        quern_op_create_flags(c->ctx, &c->problem, 1, QUERN_OP_NO_WAIT | QUERN_OP_NO_COMPILE, &op);

    if (status == QUERN_OK)
        while ((status = quern_op_ready(op)) == QUERN_E_NOT_READY)
            sched_yield();
    quern_op_release(op);
    return status;
}

static quern_status do_explain_miss(struct scene *c)
{
    char *text = NULL;
    const quern_status status = quern_explain_miss(c->ctx, &c->problem, 1, &text);

    assert_true((status == QUERN_OK) == (text != NULL));
    os.free(text);
    return status;
}

static quern_status do_explain_sweep(struct scene *c)
{
    const struct quern_options o = options_of(c, QUERN_JIT_OFF);
    char *text = NULL;
    const quern_status status = quern_explain_sweep(&o, &c->problem, &text);

    assert_true((status == QUERN_OK) == (text != NULL));
    os.free(text);
    return status;
}

static quern_status do_shapes(struct scene *c)
{
    struct quern_shape shapes[4];
    size_t count = COUNT(shapes);
    quern_op *op;

    quern_status status = quern_op_shapes(c->ctx, &c->problem, 1, shapes, &count);
    if (status != QUERN_OK)
        return status;
    assert_true(count > 0);
    /* the first is the one that the cache has */
    status = quern_op_create_shape(c->ctx, &c->problem, 1, shapes[0].words, &op);
    if (status == QUERN_OK)
        quern_op_release(op);
    return status;
}

static quern_status do_tuning_check(struct scene *c)
{
    static const char empty[] = "quern-tuning 1 " TARGET "\n";

    (void)c;
    return quern_table_check(QUERN_TABLE_TUNING, TARGET, empty, sizeof empty - 1);
}

static quern_status do_tuning_table(struct scene *c)
{
    static const char empty[] = "quern-tuning 1 " TARGET "\n";
    char *text = NULL;
    size_t size = 0;

    quern_status status =
        quern_table_write(c->ctx, QUERN_TABLE_TUNING, TARGET, empty, sizeof empty - 1);
    if (status == QUERN_OK)
        status = quern_table_read(c->ctx, QUERN_TABLE_TUNING, TARGET, &text, &size);
    if (status == QUERN_OK && text)
        assert_int_equal(size, sizeof empty - 1);
    free(text);
    return status;
}

static quern_status do_quantize(struct scene *c)
{
    static const float w[64 * 64] = {0.5f, -1.0f};
    static float back[64 * 64];
    struct quern_quantized made[QUERN_OPERANDS_MAX];
    size_t count = COUNT(made);

    quern_status status = quern_quantize(&c->problem, w, made, &count);
    if (status != QUERN_OK)
        return status;
    status = quern_dequantize(&c->problem, made, count, back);
    if (status == QUERN_OK)
        assert_true(back[0] > 0 && back[1] < 0);
    quern_quantized_free(made, count);
    return status;
}

static quern_status do_checkpoint(struct scene *c)
{
    static const uint32_t qweight[64 * 64 / 8], qzeros[64 / 8];
    static const uint16_t scales[64];
    static uint32_t out[64 * 64 / 8];
    const struct quern_problem p = t_problem("wq=int4 zero=u8 group=64 n=64 k=64 a=f16");
    const struct quern_checkpoint from = {.size = sizeof from,
                                          .kind = QUERN_CHECKPOINT_GPTQ,
                                          .qweight = qweight,
                                          .scales = scales,
                                          .qzeros = qzeros,
                                          .qweight_bytes = sizeof qweight,
                                          .scales_bytes = sizeof scales,
                                          .qzeros_bytes = sizeof qzeros};
    struct quern_quantized made[QUERN_OPERANDS_MAX];
    size_t count = COUNT(made);

    (void)c;
    const quern_status status = quern_import(&p, &from, made, &count);
    if (status != QUERN_OK)
        return status;
    quern_quantized_free(made, count);
    return quern_repack(&p, QUERN_LAYOUT_EXL, qweight, out);
}

static quern_status do_inspect(struct scene *c)
{
    const struct t_object o = t_object(T_AXPY_GFX1151);
    struct quern_object_kernel kernels[4];
    size_t count = COUNT(kernels);
    const char *target;

    (void)c;
    return quern_object_inspect(o.bytes, o.size, &target, kernels, &count);
}

static quern_status do_code(struct scene *c)
{
    const struct t_object o = t_object(T_AXPY_GFX1151);
    const void *code;
    size_t code_bytes;
    uint64_t address;

    (void)c;
    return quern_object_code(o.bytes, o.size, "axpy", &code, &code_bytes, &address);
}

/* A host's file with one code object in it, as hipcc's driver makes it. */
static quern_status do_offload(struct scene *c)
{
    static const char id[] = "hipv4-amdgcn-amd-amdhsa--gfx1151";
    static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
    const struct t_object o = t_object(T_AXPY_GFX1151);
    const uint64_t head[] = {1, 128, o.size, sizeof id - 1};
    struct quern_offload_entry entry = QUERN_INIT(struct quern_offload_entry);
    uint8_t bytes[16384] = {0};
    quern_offload *offload;

    (void)c;
    assert_true(128 + o.size <= sizeof bytes);
    memcpy(bytes, magic, sizeof magic - 1);
    memcpy(bytes + sizeof magic - 1, head, sizeof head);
    memcpy(bytes + sizeof magic - 1 + sizeof head, id, sizeof id - 1);
    memcpy(bytes + 128, o.bytes, o.size);
    quern_status status = quern_offload_open(bytes, 128 + o.size, &offload);
    if (status != QUERN_OK)
        return status;
    assert_int_equal(quern_offload_count(offload), 1);
    status = quern_offload_entry(offload, 0, &entry);
    quern_offload_close(offload);
    return status;
}

static quern_status do_preload(struct scene *c)
{
    return quern_preload(c->ctx, c->record);
}

/* A context on a software GPU, with a compiler and nothing stored. */
static quern_status open_cold(const struct scene *c, quern_ctx **ctx)
{
    struct quern_options o = options_of(c, QUERN_JIT_ON);

    o.target = "gfx1151";
    o.cache_mode = QUERN_CACHE_OFF;
    o.bundle_path = NULL;
    o.worker_path = t_worker_path();
    return quern_open(&o, ctx);
}

/* Operands of one row in memory of the device; then a launch. */
static quern_status launch_once(quern_ctx *ctx, quern_op *op)
{
    static const struct {
        const char *name;
        size_t bytes;
        enum quern_sim_access access;
    } operands[] = {{"a", 64 * 2, QUERN_SIM_READ},
                    {"b", 64 * 64 / 2, QUERN_SIM_READ},
                    {"scales", 64 * 4, QUERN_SIM_READ},
                    {"c", 64 * 2, QUERN_SIM_WRITE}};
    static const uint8_t zeros[64 * 64 / 2];
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_buffer *buffers[COUNT(operands)] = {0};
    quern_status status = QUERN_OK;
    uint16_t c[64];

    for (size_t i = 0; i < COUNT(operands) && status == QUERN_OK; i++) {
        status = quern_buffer_create(ctx, operands[i].bytes, operands[i].access, operands[i].name,
                                     &buffers[i]);
        if (status == QUERN_OK && operands[i].access == QUERN_SIM_READ)
            status = quern_buffer_write(buffers[i], zeros, operands[i].bytes);
    }
    if (status == QUERN_OK) {
        args.a = quern_buffer_address(buffers[0]);
        args.b = quern_buffer_address(buffers[1]);
        args.scales = quern_buffer_address(buffers[2]);
        args.c = quern_buffer_address(buffers[3]);
        status = quern_op_launch(op, &args, 1, NULL);
    }
    if (status == QUERN_OK)
        status = quern_buffer_read(buffers[3], c, sizeof c);
    for (size_t i = 0; i < COUNT(operands); i++)
        quern_buffer_destroy(buffers[i]);
    return status;
}

/* From nothing: a worker is started, compiles, and disassembles for the software GPU. */
static quern_status do_cold(struct scene *c)
{
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_ctx *ctx;
    quern_op *op;

    quern_status status = open_cold(c, &ctx);
    if (status != QUERN_OK)
        return status;
    status = quern_op_create_range(ctx, &c->problem, 1, 1, &op);
    if (status == QUERN_OK) {
        status = quern_verify(op, 1, 1, QUERN_CHECK_FAST, &v);
        if (status == QUERN_OK)
            status = launch_once(ctx, op);
        assert_true(status != QUERN_E_VERIFY && status != QUERN_E_FAULT);
        quern_op_release(op);
    }
    quern_close(ctx);
    return status;
}

static quern_status run_axpy(quern_sim *sim)
{
    static float y[64], x[64];
    const struct t_object o = t_object(T_AXPY_GFX1151);
    struct {
        uint64_t y, x;
        float a;
        int64_t n;
        int16_t twice;
    } args = {.a = 1, .n = 64};
    const struct quern_sim_launch launch = {.size = sizeof launch,
                                            .kernel = "axpy",
                                            .grid = {1, 1, 1},
                                            .block = {64, 1, 1},
                                            .kernarg = &args,
                                            .kernarg_bytes = 34};
    struct quern_sim_profile profile = QUERN_INIT(struct quern_sim_profile);
    quern_sim_module *module;

    quern_status status = quern_sim_map(sim, y, sizeof y, QUERN_SIM_READ_WRITE, "y", &args.y);
    if (status == QUERN_OK)
        status = quern_sim_map(sim, x, sizeof x, QUERN_SIM_READ, "x", &args.x);
    if (status == QUERN_OK)
        status = quern_sim_load(sim, o.bytes, o.size, &module);
    if (status != QUERN_OK)
        return status;
    status = quern_sim_run(module, &launch, NULL);
    if (status == QUERN_OK)
        status = quern_sim_profile_run(module, &launch, QUERN_EXTENT_ALL, 0, &profile);
    assert_true(status != QUERN_E_FAULT);
    quern_sim_profile_free(&profile);
    quern_sim_unload(module);
    return status == QUERN_OK ? quern_sim_unmap(sim, args.x) : status;
}

/* The software GPU by itself. */
static quern_status do_sim(struct scene *c)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    quern_sim *sim;
    quern_ctx *ctx;

    quern_status status = open_cold(c, &ctx);
    if (status != QUERN_OK)
        return status;
    o.target = "gfx1151";
    o.threads = 1;
    o.worker_path = t_worker_path();
    o.disassembler = quern_ctx_disassembler(ctx);
    status = quern_sim_open(&o, &sim);
    if (status == QUERN_OK) {
        status = run_axpy(sim);
        quern_sim_close(sim);
    }
    quern_close(ctx);
    return status;
}

static void one_finding(void *user, int ok, const char *subject, const char *text)
{
    (void)ok;
    assert_true(subject[0] && text[0]);
    ++*(int *)user;
}

/* It says what is wrong, and is never wrong itself. */
static quern_status do_doctor(struct scene *c)
{
    struct quern_options o = options_of(c, QUERN_JIT_ON);
    int findings = 0;

    o.target = "gfx1151";
    o.worker_path = t_worker_path();
    const int problems = quern_doctor(&o, one_finding, &findings);
    assert_true(findings > 0 && problems <= findings);
    return QUERN_OK;
}

static const struct call {
    const char *name;
    quern_status (*run)(struct scene *);
    bool opens;       /* works without c->ctx */
    bool from_bundle; /* with a bundle in front, and the cache empty */
    unsigned step;    /* from one call that fails to the next; 0: CALL_STEP */
    bool threads;     /* has threads: for ThreadSanitizer */
} calls[] = {
    {"quern_open", do_open, true, false},
    {"quern_op_create_range", do_op, false, false},
    {"quern_op_create_range, of a bundle", do_op, false, true},
    {"quern_explain", do_explain, true, false},
    {"quern_source", do_source, true, false},
    {"quern_op_create", do_known_op, false, false},
    {"quern_explain_miss", do_explain_miss, false, false},
    {"quern_explain_sweep", do_explain_sweep, true, false},
    {"quern_op_shapes, quern_op_create_shape", do_shapes, false, false},
    {"quern_table_check", do_tuning_check, true, false},
    {"quern_table_write, quern_table_read", do_tuning_table, false, false},
    {"quern_quantize, quern_dequantize", do_quantize, true, false},
    {"quern_import, quern_repack", do_checkpoint, true, false},
    {"quern_object_inspect", do_inspect, true, false},
    {"quern_object_code", do_code, true, false},
    {"quern_op_create_flags", do_background, false, false, .threads = true},
    {"quern_offload_open", do_offload, true, false},
    {"quern_preload", do_preload, false, false},
    {"quern_prewarm", do_prewarm, false, false, .threads = true},
    {"quern_cache_info", do_info, false, false},
    {"quern_cache_walk", do_walk, false, false},
    {"quern_cache_walk, verifying", do_verify, false, false},
    {"quern_bundle_create", do_create_bundle, false, false, BUNDLE_STEP},
    {"quern_bundle_import", do_import, false, false},
    {"quern_cache_clear", do_clear, false, false},
    {"quern_op_create_range, quern_verify and quern_op_launch, cold", do_cold, true, false,
     WORKER_STEP},
    {"quern_sim_open, quern_sim_run and quern_sim_profile_run", do_sim, true, false, WORKER_STEP},
    {"quern_doctor", do_doctor, true, false, WORKER_STEP},
};

/* ---- the loop -------------------------------------------------------------------------------- */

/* The cache holds the kernel or, with a bundle, nothing. */
static void prepare(struct scene *c, const struct call *call)
{
    if (call->from_bundle)
        t_write_file(c->bundle_path, c->bundle, c->bundle_bytes);
    else
        unlink(c->bundle_path);
    const struct quern_options o = options_of(c, QUERN_JIT_OFF);
    if (quern_open(&o, &c->ctx) != QUERN_OK)
        fail_msg("%s: %s", call->name, quern_last_error()->message);
    if (call->from_bundle)
        assert_int_equal(do_clear(c), QUERN_OK);
    else if (do_op(c) != QUERN_OK)
        assert_int_equal(do_import(c), QUERN_OK);
    if (call->opens) {
        quern_close(c->ctx);
        c->ctx = NULL;
    }
}

static int lowest_free_descriptor(void)
{
    const int fd = open("/dev/null", O_RDONLY);

    close(fd);
    return fd;
}

static unsigned one_run(struct scene *c, const struct call *call, unsigned at, int error,
                        bool for_ever)
{
    char what[128];

    snprintf(what, sizeof what, "%s: call %u, %s%s", call->name, at, strerror(error),
             for_ever ? ", for ever" : "");
    t_faults_on(0, 0, false); /* no real fsync while preparing either */
    prepare(c, call);
    t_faults_off();
    const int descriptor = lowest_free_descriptor();
    t_faults_on(at, error, for_ever);
    const quern_status status = call->run(c);
    t_faults_off();
    if (status != QUERN_OK && !quern_last_error()->message[0])
        fail_msg("%s: %s without a word", what, quern_status_name(status));
    if (status == QUERN_E_INTERNAL)
        fail_msg("%s: %s", what, quern_last_error()->message);
    if (lowest_free_descriptor() != descriptor)
        fail_msg("%s: descriptors leak", what);
    if (t_faults.blocks > 0 && call->opens)
        fail_msg("%s: %d blocks of memory leak", what, t_faults.blocks);
    const unsigned made = t_faults.calls, failed = t_faults.failed;
    /* and afterwards all is well */
    t_faults_on(0, 0, false);
    if (c->ctx && !call->from_bundle && do_op(c) != QUERN_OK)
        assert_int_equal(do_import(c), QUERN_OK);
    const quern_status again = call->run(c);
    if (again != QUERN_OK)
        fail_msg("%s: afterwards: %s", what, quern_last_error()->message);
    quern_close(c->ctx);
    c->ctx = NULL;
    t_faults_off();
    return at ? failed : made;
}

static void every_call_of_every_function_may_fail(void **state)
{
    static const int errors[] = {EIO, ENOSPC, EINTR, EMFILE, ENOMEM, EACCES, ESTALE};
    unsigned runs = 0, failed = 0;

    for (size_t i = 0; i < COUNT(calls); i++) {
        const unsigned step = calls[i].step ? calls[i].step : CALL_STEP;
        unsigned turn = t_explore(step);
        if (T_THREADS_ONLY && !calls[i].threads)
            continue;
        const unsigned made = one_run(*state, &calls[i], 0, 0, false);
        assert_true(made > 0);
        for (size_t e = 0; e < (T_SANITIZED ? 1 : COUNT(errors)); e++)
            for (int for_ever = 0; for_ever < (LASTS(errors[e]) ? 2 : 1); for_ever++, turn++)
                for (unsigned at = 1 + turn % step; at <= made; at += step, runs++)
                    failed += one_run(*state, &calls[i], at, errors[e], for_ever) != 0;
    }
    print_message("%u faults, %u reached\n", runs, failed);
    assert_true(failed > runs / 10 * 8);
}

/* Under a limit on the size of files (RLIMIT_FSIZE) what is written fails, and nothing more: the
 * signal that comes with it would end the host. In a child, which would be that host. */
static void no_limit_of_file_size_ends_a_host(void **state)
{
    struct scene *const c = *state;
    static char full[200 << 10];
    char record[PATH_MAX];

    snprintf(record, sizeof record, "%s/noted", c->directory);
    memset(full, '\n', sizeof full);
    t_write_file(record, full, sizeof full); /* beyond any of the limits already */
    for (size_t i = 0; i < 3 * COUNT(calls); i++) {
        const struct call *const call = &calls[i / 3];
        const struct rlimit limit = {(const rlim_t[]){0, 1, 100 << 10}[i % 3], RLIM_INFINITY};
        int status;
        if (T_THREADS_ONLY && !call->threads)
            continue;
        setenv("QUERN_RECORD", record, 1);
        prepare(c, call);
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            sigset_t pending;
            setrlimit(RLIMIT_FSIZE, &limit);
            const quern_status first = call->run(c);
            const bool said = first == QUERN_OK || quern_last_error()->message[0];
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
            sigpending(&pending);
            _exit(!said || first == QUERN_E_INTERNAL || sigismember(&pending, SIGXFSZ) ||
                  (call->opens && call->run(c) != QUERN_OK));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status)
            fail_msg("%s, files of %d bytes: %s %d", call->name, (int)limit.rlim_cur,
                     WIFSIGNALED(status) ? "signal" : "exit",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        unsetenv("QUERN_RECORD");
        quern_close(c->ctx);
        c->ctx = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_call_of_every_function_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(no_limit_of_file_size_ends_a_host, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
