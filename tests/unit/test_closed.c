/* SPDX-License-Identifier: MIT */
/* Contexts that are closed before their ops and buffers are, contexts without a device, and memory
 * that a software GPU does not see: what a host may get wrong, and what it is told. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_faults.h"
#include "t_paths.h"

#include "base/os.h"
#include "device/device.h"
#include "dispatch/dispatch.h"

#include <stdlib.h>
#include <string.h>

#define LAYER "wq=nf4 n=32 k=64 a=f16"

/* ---- Ops and buffers of a closed context ----------------------------------------------------- */

struct host {
    quern_ctx *ctx;
    bool closed;
    int calls;
};

static void on_log(void *user, enum quern_log_level level, const char *line)
{
    struct host *const h = user;

    (void)level, (void)line;
    assert_false(h->closed);
    h->calls++;
}

static void on_event(void *user, const struct quern_event *event)
{
    struct host *const h = user;

    (void)event;
    assert_false(h->closed);
    h->calls++;
}

static void open_host(struct host *h)
{
    struct quern_options options = QUERN_INIT(struct quern_options);

    memset(h, 0, sizeof *h);
    options.target = "gfx1151";
    options.cache_dir = t_cache;
    options.worker_path = t_worker_path();
    options.log = on_log;
    options.log_user = h;
    options.event = on_event;
    options.event_user = h;
    if (quern_open(&options, &h->ctx) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
}

static void close_host(struct host *h)
{
    quern_close(h->ctx);
    h->closed = true;
}

/* What an op can still be asked for, and what not. */
static void use_after(quern_op *op)
{
    struct quern_args args = QUERN_INIT(struct quern_args);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);

    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_ARGUMENT);
    t_message_has("the context of this op of op=gemm wq=nf4 group=64");
    t_message_has("is closed");
    assert_int_equal(quern_op_ready(op), QUERN_E_ARGUMENT);
    t_message_has("is closed");
    assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
    assert_true(info.object_bytes > 0);
    assert_int_equal(quern_op_workspace(op, 1), 0);
}

/* What lives is released in an order; the blocks of memory that then remain. A context is closed
 * last in order 0, which is how a host is told to, and first in the others. */
static int blocks_after(int order)
{
    const struct quern_problem p = t_problem(LAYER);
    uint32_t words[4] = {1, 2, 3, 4}, back[4];
    struct host h;
    quern_op *op, *same, *range;
    quern_buffer *buffer;

    t_faults_on(0, 0, false);
    open_host(&h);
    assert_int_equal(quern_op_create(h.ctx, &p, 1, &op), QUERN_OK);
    assert_int_equal(quern_op_create(h.ctx, &p, 1, &same), QUERN_OK);
    assert_ptr_equal(op, same);
    assert_int_equal(quern_op_create_range(h.ctx, &p, 1, 1, &range), QUERN_OK);
    assert_int_equal(quern_buffer_create(h.ctx, sizeof words, 3, NULL, &buffer), QUERN_OK);
    assert_int_equal(quern_buffer_write(buffer, words, sizeof words), QUERN_OK);
    if (order == 1)
        quern_op_release(same);
    if (order) {
        close_host(&h);
        use_after(op);
        use_after(range);
    }
    quern_op_release(order == 2 ? range : op);
    assert_int_equal(quern_buffer_read(buffer, back, sizeof back), QUERN_OK);
    assert_memory_equal(back, words, sizeof back);
    if (order != 1)
        quern_op_release(same);
    quern_op_release(order == 2 ? op : range);
    quern_buffer_destroy(buffer);
    if (!order)
        close_host(&h);
    t_faults_off();
    assert_true(h.calls > 0);
    return t_faults.blocks;
}

static void test_ops_and_buffers_outlive_their_context(void **state)
{
    (void)state;
    blocks_after(0); /* the cache has the kernel from here on */
    const int blocks = blocks_after(0);
    for (int order = 1; order < 4; order++)
        assert_int_equal(blocks_after(order), blocks);
}

/* A thread that makes the op's kernels is waited for. */
static void test_closing_while_kernels_are_made(void **state)
{
    const struct quern_problem p = t_problem("wq=nf4 n=48 k=64 a=f16");
    struct host h;
    quern_op *op;

    (void)state;
    open_host(&h);
    assert_int_equal(quern_op_create_flags(h.ctx, &p, 8, QUERN_OP_NO_WAIT, &op), QUERN_OK);
    close_host(&h);
    assert_int_equal(quern_op_generation(op), 1);
    quern_op_release(op);
}

/* ---- What a context has not, or a GPU does not see ------------------------------------------- */

static void test_a_context_without_a_device(void **state)
{
    const struct quern_problem p = t_problem(LAYER);
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_buffer *buffer;
    quern_ctx *ctx;
    quern_op *op;
    char a[256];

    (void)state;
    options.target = "gfx1151";
    options.device = QUERN_DEVICE_NONE;
    options.cache_dir = t_cache;
    options.worker_path = t_worker_path();
    assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_OK);
    args.a = args.b = args.scales = args.c = a;
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_DEVICE);
    t_message_has("opened with QUERN_DEVICE=none");
    assert_int_equal(quern_buffer_create(ctx, 16, 1, NULL, &buffer), QUERN_E_DEVICE);
    t_message_has("opened with QUERN_DEVICE=none");
    quern_op_release(op);
    quern_close(ctx);
}

static void test_access_of_buffers(void **state)
{
    struct host h;
    quern_buffer *buffer;

    (void)state;
    open_host(&h);
    for (int access = 0; access <= 4; access += 4) {
        assert_int_equal(quern_buffer_create(h.ctx, 16, access, "x", &buffer), QUERN_E_ARGUMENT);
        t_message_has(access ? "access is 4; expected 1" : "access is 0; expected 1");
    }
    assert_int_equal(quern_buffer_create(h.ctx, 0, QUERN_SIM_READ, "scales", &buffer),
                     QUERN_E_ARGUMENT);
    t_message_has("buffer scales of 0 bytes; expected at least 1");
    close_host(&h);
}

/* A pointer to the host's own memory is named as what it is not. */
static void test_the_hosts_memory_is_not_a_gpus(void **state)
{
    const struct quern_problem p = t_problem(LAYER);
    struct quern_args args = QUERN_INIT(struct quern_args);
    struct t_layer l;
    struct host h;
    quern_op *op;
    void *own;

    (void)state;
    open_host(&h);
    assert_int_equal(posix_memalign(&own, 256, 4096), 0);
    assert_int_equal(quern_op_create(h.ctx, &p, 1, &op), QUERN_OK);
    args.a = args.b = args.scales = args.c = own;
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_FAULT);
    t_message_has("near no buffer; a software GPU sees memory of quern_buffer_create");
    t_layer_make(&l, h.ctx, &p, 1, 0, 0, 1);
    l.args.b = own;
    assert_int_equal(quern_op_launch(op, &l.args, 1, NULL), QUERN_E_FAULT);
    t_message_has("near no buffer; a software GPU sees memory of quern_buffer_create");
    t_layer_free(&l);
    quern_op_release(op);
    close_host(&h);
    free(own);
}

/* ---- Kernels that are there and do not load -------------------------------------------------- */

static struct device_functions broken;

static quern_status refuse(struct device *d, const struct object *o, const char *symbol,
                           unsigned lds, struct device_kernel **k)
{
    (void)d, (void)o, (void)symbol, (void)lds, (void)k;
    return error_set(QUERN_E_TOOLCHAIN, __FILE__, "no", "no disassembler");
}

static void test_what_does_not_load_is_not_served(void **state)
{
    const struct quern_problem p = t_problem(LAYER);
    struct quern_stats stats = QUERN_INIT(struct quern_stats);
    struct host h;
    quern_op *op;

    (void)state;
    open_host(&h);
    assert_int_equal(quern_op_create(h.ctx, &p, 1, &op), QUERN_OK); /* the cache has it now */
    quern_op_release(op);
    close_host(&h);
    open_host(&h);
    assert_true(quern_all_served(h.ctx));
    const struct device_functions *const sound = h.ctx->device->functions;
    broken = *sound;
    broken.load = refuse;
    h.ctx->device->functions = &broken;
    assert_int_equal(quern_op_create(h.ctx, &p, 1, &op), QUERN_E_TOOLCHAIN);
    h.ctx->device->functions = sound;
    assert_int_equal(quern_ctx_stats(h.ctx, &stats), QUERN_OK);
    assert_int_equal(stats.hit_disk, 1);
    assert_int_equal(stats.load_failed, 1);
    assert_false(quern_all_served(h.ctx));
    close_host(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_and_buffers_outlive_their_context),
        cmocka_unit_test(test_closing_while_kernels_are_made),
        cmocka_unit_test(test_a_context_without_a_device),
        cmocka_unit_test(test_access_of_buffers),
        cmocka_unit_test(test_the_hosts_memory_is_not_a_gpus),
        cmocka_unit_test(test_what_does_not_load_is_not_served),
    };

    return cmocka_run_group_tests_name("closed", tests, t_cache_make, t_cache_remove);
}
