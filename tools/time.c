/* SPDX-License-Identifier: MIT */
/*
 * quern time: how long launches of a layer take on a GPU, measured with events.
 *
 * In a model every layer's weights come from memory, since those of all other layers were read
 * since. So each launch takes the next of many copies of the weights, which together are larger
 * than any cache: what is measured is a layer at work, not one that has its weights at hand.
 */
#include "json_file.h"
#include "options.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROWS_MAX = 32,    /* values of M */
    COPIES_MAX = 256, /* of the weights */
    BATCHES = 11,     /* measured; odd, so that one is the median */
    BATCH_US = 2000,  /* that a batch should take at least: far more than events resolve */
    BATCH_MAX = 2000, /* launches */
};

/* Larger than the last cache of any listed GPU, 256 MiB. */
#define ROTATE_BYTES ((uint64_t)512 << 20)

struct timing {
    struct common common;
    struct m_set set;
    uint64_t rotate;
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    struct quern_device_info device;
    struct quern_target_info target;
    quern_ctx *ctx;
    quern_op *op;
    json_t *list;
    struct table table;
};

/* One M. */
struct run {
    struct timing *b;
    int64_t m;
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    size_t count, copies, next;
    uint64_t bytes; /* that a launch has to move, each operand once */
    quern_buffer *shared[QUERN_OPERANDS_MAX];
    quern_buffer *rotated[COPIES_MAX][QUERN_OPERANDS_MAX];
    struct quern_args args;
    int launches; /* of a batch */
    double least, median;
};

/* ---- Operands -------------------------------------------------------------------------------- */

/* Where in quern_args an operand's address goes, and whether it belongs to the weights. */
static int member(struct quern_args *args, const char *name, const void ***at, bool *weights)
{
    const struct {
        const char *name;
        const void **at;
        bool weights;
    } members[] = {{"a", &args->a, false},
                   {"b", &args->b, true},
                   {"scales", &args->scales, true},
                   {"absmax8", &args->absmax8, true},
                   {"code", &args->code, false},
                   {"offset", &args->offset, false},
                   {"bias", &args->bias, false},
                   {"c", (const void **)(void *)&args->c, false},
                   {"zeros", &args->zeros, true},
                   {"a_scale", &args->a_scale, false},
                   {"b_scale", &args->b_scale, false}};

    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!strcmp(members[i].name, name)) {
            *at = members[i].at;
            *weights = members[i].weights;
            return EXIT_OK;
        }
    return fail("operand '%s' is unknown to this command", name);
}

/* Numbers of ordinary size in every format: an exponent a little below 1, the rest at random. */
static void fill(uint8_t *bytes, const struct quern_operand *o)
{
    const size_t each = !strcmp(o->dtype, "f32")                                ? 4
                        : !strcmp(o->dtype, "f16") || !strcmp(o->dtype, "bf16") ? 2
                                                                                : 1;
    const uint8_t top = !strcmp(o->dtype, "f16") ? 0x30 : 0x3c;
    uint64_t state = 1;

    for (uint64_t i = 0; i < o->bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(state >> 56);
        if (each > 1 && i % each == each - 1)
            bytes[i] = (uint8_t)(top | (bytes[i] & 0x80));
    }
    if (!strcmp(o->name, "scales") && each == 1)
        memset(bytes, 120, o->bytes); /* powers of two */
}

static int make(struct run *r, const struct quern_operand *o, quern_buffer **buffer)
{
    quern_status e = quern_buffer_create(r->b->ctx, o->bytes, o->access, o->name, buffer);

    if (!e && o->access != QUERN_SIM_WRITE) {
        uint8_t *const bytes = malloc(o->bytes);
        if (!bytes)
            return fail("out of memory for the %llu bytes of operand %s",
                        (unsigned long long)o->bytes, o->name);
        fill(bytes, o);
        e = quern_buffer_write(*buffer, bytes, o->bytes);
        free(bytes);
    }
    return e ? fail_status(e, o->name) : EXIT_OK;
}

static int prepare(struct run *r)
{
    uint64_t weight_bytes = 0;
    const void **at;
    bool weights;
    int status = EXIT_OK;

    const quern_status e = quern_problem_operands(&r->b->problem, r->m, r->operands, &r->count);
    if (e)
        return fail_status(e, NULL);
    for (size_t i = 0; i < r->count && !status; i++) {
        status = member(&r->args, r->operands[i].name, &at, &weights);
        r->bytes += r->operands[i].bytes;
        weight_bytes += !status && weights ? r->operands[i].bytes : 0;
    }
    const uint64_t wanted = weight_bytes ? r->b->rotate / weight_bytes + 1 : 1;
    r->copies = wanted < COPIES_MAX ? (size_t)wanted : COPIES_MAX;
    for (size_t i = 0; i < r->count && !status; i++) {
        member(&r->args, r->operands[i].name, &at, &weights);
        for (size_t j = 0; weights && j < r->copies && !status; j++)
            status = make(r, &r->operands[i], &r->rotated[j][i]);
        if (!weights && !(status = make(r, &r->operands[i], &r->shared[i])))
            *at = quern_buffer_address(r->shared[i]);
    }
    return status;
}

static void release(struct run *r)
{
    for (size_t i = 0; i < r->count; i++) {
        quern_buffer_destroy(r->shared[i]);
        for (size_t j = 0; j < r->copies; j++)
            quern_buffer_destroy(r->rotated[j][i]);
    }
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static quern_status batch(void *user)
{
    struct run *const r = user;

    for (int n = 0; n < r->launches; n++) {
        quern_buffer **const copy = r->rotated[r->next++ % r->copies];
        for (size_t i = 0; i < r->count; i++) {
            const void **at;
            bool weights;
            if (copy[i] && !member(&r->args, r->operands[i].name, &at, &weights))
                *at = quern_buffer_address(copy[i]);
        }
        const quern_status e = quern_op_launch(r->b->op, &r->args, r->m, NULL);
        if (e)
            return e;
    }
    return QUERN_OK;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int measure(struct run *r)
{
    double us, samples[BATCHES];

    /* the first launches warm up clocks and caches, and say how many a batch needs */
    r->launches = 10;
    quern_status e = quern_ctx_measure(r->b->ctx, batch, r, &us);
    if (e)
        return fail_status(e, NULL);
    const double one = us / r->launches;
    r->launches = one * BATCH_MAX < BATCH_US ? BATCH_MAX : (int)(BATCH_US / one) + 1;
    for (int i = 0; i < BATCHES && !e; i++) {
        e = quern_ctx_measure(r->b->ctx, batch, r, &us);
        samples[i] = us / r->launches;
    }
    if (e)
        return fail_status(e, NULL);
    qsort(samples, BATCHES, sizeof *samples, by_size);
    r->least = samples[0];
    r->median = samples[BATCHES / 2];
    return EXIT_OK;
}

static void report(struct run *r)
{
    const double gbs = (double)r->bytes / (r->median * 1e3);
    const double share = 100 * gbs / r->b->target.bandwidth_gbs;

    if (r->b->common.json) {
        json_array_append_new(
            r->b->list,
            json_pack("{s:I, s:f, s:f, s:f, s:f, s:I, s:i, s:i}", "m", (json_int_t)r->m,
                      "microseconds", r->median, "least_microseconds", r->least, "gb_per_second",
                      gbs, "percent_of_bandwidth", share, "bytes", (json_int_t)r->bytes,
                      "weight_copies", (int)r->copies, "launches", BATCHES * r->launches));
        return;
    }
    table_cell(&r->b->table, "%lld", (long long)r->m);
    table_cell(&r->b->table, "%.2f", r->median);
    table_cell(&r->b->table, "%.2f", r->least);
    table_cell(&r->b->table, "%.1f", gbs);
    table_cell(&r->b->table, "%.1f", share);
    table_cell(&r->b->table, "%zu", r->copies);
}

static int bench_m(struct timing *b, int64_t m)
{
    struct run *const r = calloc(1, sizeof *r);

    if (!r)
        return fail("out of memory");
    r->b = b;
    r->m = m;
    r->args = (struct quern_args)QUERN_INIT(struct quern_args);
    int status = prepare(r);
    if (!status)
        status = measure(r);
    if (!status)
        report(r);
    release(r);
    free(r);
    return status;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int open_gpu(struct timing *b, int64_t m_max)
{
    quern_status e = quern_open(&b->common.library, &b->ctx);

    b->device = (struct quern_device_info)QUERN_INIT(struct quern_device_info);
    b->target = (struct quern_target_info)QUERN_INIT(struct quern_target_info);
    if (!e)
        e = quern_ctx_device(b->ctx, &b->device);
    if (!e)
        e = quern_target_find(b->device.target, &b->target);
    if (e)
        return fail_status(e, NULL);
    if (b->device.kind != QUERN_DEVICE_HIP)
        return misuse("the device is a software GPU, whose time says nothing; 'quern explain' "
                      "gives the model's cost, and --device hip measures a GPU");
    e = quern_op_create(b->ctx, &b->problem, m_max, &b->op);
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static int print(struct timing *b)
{
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;

    if (b->common.json) {
        if (gmtime_r(&now, &utc))
            strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
        return json_print(json_pack(
            "{s:i, s:s, s:s, s:s, s:i, s:f, s:s, s:i, s:s, s:I, s:O}", "quern_time", 1, "problem",
            b->text, "device", b->device.name, "target", b->device.target, "compute_units",
            (int)b->device.compute_units, "clock_ghz", b->device.clock_ghz, "runtime",
            b->device.runtime, "runtime_version", b->device.runtime_version, "date", date,
            "rotated_bytes", (json_int_t)b->rotate, "results", b->list));
    }
    printf("%s\n%s, %s, %u compute units, %.2f GHz; share of the %.0f GB/s of a %s\n", b->text,
           b->device.name, b->device.target, b->device.compute_units, b->device.clock_ghz,
           b->target.bandwidth_gbs, b->target.part);
    if (!table_print(&b->table, 0))
        return fail("out of memory");
    return finish_output();
}

static int time_layer(struct timing *b, int argc, char **argv, int first)
{
    int64_t count = 0;
    int status = options_problem(argc, argv, first, &b->problem, b->text);

    if (status)
        return status;
    if (!b->set.count)
        b->set = (struct m_set){.count = 1, .ranges = {{1, 8}}};
    if (!b->rotate)
        b->rotate = ROTATE_BYTES;
    for (size_t i = 0; i < b->set.count; i++)
        count += b->set.ranges[i].hi - b->set.ranges[i].lo + 1;
    if (count > ROWS_MAX)
        return misuse("--m names %lld values; at most %d are measured at once", (long long)count,
                      ROWS_MAX);
    if ((status = open_gpu(b, b->set.ranges[b->set.count - 1].hi)))
        return status;
    b->list = json_array();
    table_header(&b->table, "m|us|least us|GB/s|% of bandwidth|copies");
    for (size_t i = 0; i < b->set.count; i++)
        for (int64_t m = b->set.ranges[i].lo; m <= b->set.ranges[i].hi; m++)
            if ((status = bench_m(b, m)))
                return status;
    return print(b);
}

int verb_time(int argc, char **argv)
{
    static const struct usage usage = {
        "[--m LIST] PROBLEM",
        "Measures launches of PROBLEM on the GPU of this machine, for each M of the list (1-8),\n"
        "with the weights coming from memory: each launch reads the next of many copies.\n"};
    struct timing b = {0};
    const struct flag flags[] = {
        {"m", FLAG_M, &b.set, "LIST", "rows of A, e.g. 1-8 or 1,4,16"},
        {"rotate", FLAG_SIZE, &b.rotate, "BYTES", "of weights that launches go through (512M)"},
        {0},
    };
    int first;

    int status = options_parse(&b.common, argc, argv, &usage, flags, &first);
    if (status < 0)
        status = time_layer(&b, argc, argv, first);
    json_decref(b.list);
    table_free(&b.table);
    quern_op_release(b.op);
    quern_close(b.ctx);
    return status;
}
