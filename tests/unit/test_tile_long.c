/* SPDX-License-Identifier: MIT */
/*
 * Kernels for hundreds of rows at full size: M = 3968 of a layer of 19456 by 2560, every workgroup
 * of them on the software GPU. The double reference of all results would take longer than that:
 * bands of rows at the start, in the middle, across two slices and at the end are compared. And
 * that no format spills registers in them, whatever the layer, as far as time goes (t_explore.h).
 * Minutes of work: with --long only.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_explore.h"
#include "t_metrics.h"

#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define M    3968
#define BAND 24

static const int bands[] = {0, 244, 2040, M - BAND}; /* first rows; 256 is the next slice's */

struct memory {
    void *host;
    quern_buffer *buffer;
    size_t bytes;
};

static void *fresh(struct memory *o, quern_ctx *ctx, const char *name, size_t bytes,
                   enum quern_sim_access access)
{
    o->bytes = bytes;
    o->host = calloc(1, bytes);
    assert_non_null(o->host);
    if (quern_buffer_create(ctx, bytes, access, name, &o->buffer) != QUERN_OK)
        fail_msg("%s: %s", name, quern_last_error()->message);
    return o->host;
}

static const void *filled(const struct memory *o)
{
    assert_int_equal(quern_buffer_write(o->buffer, o->host, o->bytes), QUERN_OK);
    return quern_buffer_address(o->buffer);
}

/* max |c - reference| ÷ max |reference| over the bands. */
static double error_of(const struct quern_problem *p, union operand_pointers in, const void *c)
{
    char *const a = in.a;
    double *const reference = malloc((size_t)(BAND * p->n) * sizeof *reference);
    double largest = 0, difference = 0;

    assert_non_null(reference);
    for (size_t b = 0; b < sizeof bands / sizeof *bands; b++) {
        in.a = a + (size_t)bands[b] * (size_t)p->k * dtype_bytes(p->a);
        assert_int_equal(quant_reference(p, &in, BAND, reference), QUERN_OK);
        for (size_t i = 0; i < (size_t)(BAND * p->n); i++) {
            const double y = quant_load(p->c, c, (size_t)(bands[b] * p->n) + i);
            difference = fmax(difference, isnan(y) ? INFINITY : fabs(y - reference[i]));
            largest = fmax(largest, fabs(reference[i]));
        }
    }
    free(reference);
    return difference / largest;
}

static void check(const char *target, const char *text, double limit)
{
    const struct quern_problem p = t_problem(text);
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    const size_t groups = (size_t)(p.n * p.k / p.group), scale = dtype_bytes(p.a);
    struct memory a, b, scales, zeros, c;
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_op *op;

    const union operand_pointers out = {
        .a = fresh(&a, ctx, "a", (size_t)(M * p.k) * dtype_bytes(p.a), QUERN_SIM_READ),
        .b = fresh(&b, ctx, "b", (size_t)(p.n * p.k / 2), QUERN_SIM_READ),
        .scales = fresh(&scales, ctx, "scales", groups * scale, QUERN_SIM_READ),
        .zeros = fresh(&zeros, ctx, "zeros", groups, QUERN_SIM_READ)};
    fresh(&c, ctx, "c", (size_t)(M * p.n) * dtype_bytes(p.c), QUERN_SIM_WRITE);
    quant_random(&p, M, 1, &out);
    args.a = filled(&a);
    args.b = filled(&b);
    args.scales = filled(&scales);
    args.zeros = filled(&zeros);
    args.c = quern_buffer_address(c.buffer);
    if (quern_op_create(ctx, &p, M, &op) != QUERN_OK ||
        quern_op_launch(op, &args, M, NULL) != QUERN_OK ||
        quern_buffer_read(c.buffer, c.host, c.bytes) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    const union operand_pointers in = {.a = out.a,
                                       .b = out.b,
                                       .scales = out.scales,
                                       .zeros = p.zero == QUERN_ZERO_NONE ? NULL : out.zeros};
    const double error = error_of(&p, in, c.host);
    print_message("%s on %s: error %.2e\n", text, target, error);
    if (!(error <= limit))
        fail_msg("%s on %s: error %g, %g at most", text, target, error, limit);
    quern_op_release(op);
    struct memory *const all[] = {&a, &b, &scales, &zeros, &c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        quern_buffer_destroy(all[i]->buffer);
        free(all[i]->host);
    }
    quern_close(ctx);
}

static void test_full_size(void **state)
{
    static const char f16[] = "wq=int4 group=128 n=19456 k=2560 a=f16 zero=u8";
    static const char bf16[] = "wq=int4 group=128 n=19456 k=2560 a=bf16 zero=u8";
    static const char symmetric[] = "wq=int4 group=128 n=19456 k=2560 a=f16";

    (void)state;
    check("gfx1151", f16, 5.4e-4);
    check("gfx1151", symmetric, 5.4e-4);
    check("gfx1201", bf16, 5e-3);
    check("gfx1201", symmetric, 5.4e-4);
    check("gfx942", f16, 5.4e-4);
    check("gfx942", symmetric, 5.4e-4);
    check("gfx950", bf16, 5e-3);
}

/* Neither spills nor scratch, of any format and layer. */
static void test_no_spills(void **state)
{
    static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                          "gfx1100", "gfx1151", "gfx1201"};
    static const char *const formats[] = {
        "wq=nf4",
        "wq=nf4 group=32 scale=nested",
        "wq=fp4 group=128",
        "wq=fp4 scale=nested bias=1",
        "wq=mxfp4",
        "wq=int4 group=32",
        "wq=int4 layout=exl zero=scaled",
        "wq=int4 layout=ck zero=u8",
        "wq=int4 group=32 zero=u8 bias=1",
        "wq=int4 group=32 layout=ck zero=scaled",
        "wq=int4 group=channel zero=u8",
        "wq=int4 scale=f32 layout=exl",
    };
    static const char *const layers[] = {"n=19456 k=2560", "n=4096 k=14336", "n=512 k=2880",
                                         "n=1000 k=1152"};
    const size_t count = sizeof formats / sizeof *formats, sizes = sizeof layers / sizeof *layers;
    const size_t each = 2 * count * sizes;
    struct t_walk walk = t_walk(each * sizeof targets / sizeof *targets, 1);
    unsigned most = 0, kernels = 0, failed = 0;

    (void)state;
    for (size_t at; t_walk_next(&walk, &at);) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        const char *const target = targets[at / each];
        const size_t i = at % each;
        const char *const format = formats[i / 2 % count], *const layer = layers[i / 2 / count];
        char text[128];
        quern_op *op;
        int tile;
        if (strstr(layer, "k=2880") && !strstr(format, "group=32") && !strstr(format, "wq=mxfp4") &&
            !strstr(format, "channel"))
            continue; /* 2880 is no multiple of 128 */
        snprintf(text, sizeof text, "%s %s a=%s", format, layer, i % 2 ? "bf16" : "f16");
        quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
        if (t_tile_op(ctx, target, text, &op, &tile) != QUERN_OK ||
            quern_op_kernel(op, 0, &info) != QUERN_OK)
            fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
        const unsigned spills = t_spills_of(&info), scratch = info.resources.scratch_bytes;
        if (spills || scratch) {
            print_error("%s on %s: %u spills, %u bytes of scratch\n", text, target, spills,
                        scratch);
            failed++;
        }
        most = info.resources.vgprs > most ? info.resources.vgprs : most;
        kernels++;
        quern_op_release(op);
        quern_close(ctx);
    }
    print_message("%u kernels, %u registers at most\n", kernels, most);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_size),
                                       cmocka_unit_test(test_no_spills)};

    return cmocka_run_group_tests_name("tile, full size", tests, t_cache_make, t_cache_remove);
}
