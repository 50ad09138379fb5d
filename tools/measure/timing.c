/* SPDX-License-Identifier: MIT */
/* Times launches on a GPU (timing.h), for `quern time` and `quern tune`. */
#include "measure/timing.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    COPIES_MAX = 256, /* copies of the weights */
    LISTS = 16,       /* lists of experts that tokens choose, of op=moe */
    BATCHES = 11,     /* batches that are measured; odd, so that one is the median */
    BATCH_US = 2000,  /* a batch should take at least so long: far more than events resolve */
    BATCH_MAX = 2000, /* launches of a batch, at most */
};

struct timing {
    quern_ctx *ctx;
    quern_op *op; /* the op that is being measured */
    struct quern_problem problem;
    int64_t m;
    uint64_t rotate;
    enum choices_law choices;
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    size_t count, copies, next;
    uint64_t bytes; /* bytes that a launch has to move, each operand once */
    quern_buffer *shared[QUERN_OPERANDS_MAX];
    quern_buffer *rotated[COPIES_MAX][QUERN_OPERANDS_MAX];
    quern_buffer *listed[LISTS][QUERN_OPERANDS_MAX]; /* of op=moe: rows, experts, rows_used */
    struct quern_args args;
    int launches; /* of a batch */
};

/* ---- Operands -------------------------------------------------------------------------------- */

/* Fills an operand with numbers a little below 1, whatever its format: random bits, but the
 * exponents of floats. */
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

static int make(struct timing *r, const struct quern_operand *o, quern_buffer **buffer)
{
    quern_status e = quern_buffer_create(r->ctx, o->bytes, o->access, o->name, buffer);

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

/* The place of an operand of op=moe's in the list of operands. */
static size_t find(const struct timing *r, const char *name)
{
    size_t i = 0;

    while (strcmp(r->operands[i].name, name) != 0)
        i++;
    return i;
}

/* Makes the blocks of one list of choices, and counts the experts that it names. */
static int make_blocks(struct timing *r, int list, int32_t *ids, int64_t *named)
{
    static const char *const names[] = {"rows", "experts", "rows_used"};
    void *made[3];
    bool have = true;

    choices_make_up(&r->problem, r->m, list * r->m * r->problem.top_k, r->choices, ids);
    *named += choices_distinct(&r->problem, r->m, ids);
    for (int i = 0; i < 3; i++)
        have &= (made[i] = malloc(r->operands[find(r, names[i])].bytes)) != NULL;
    quern_status e =
        have ? quern_moe_align(&r->problem, r->m, ids, made[0], made[1], made[2]) : QUERN_OK;
    for (int i = 0; i < 3; i++) {
        const size_t at = find(r, names[i]);
        const struct quern_operand *const o = &r->operands[at];
        if (have && !e)
            e = quern_buffer_create(r->ctx, o->bytes, o->access, o->name, &r->listed[list][at]);
        if (have && !e)
            e = quern_buffer_write(r->listed[list][at], made[i], o->bytes);
        free(made[i]);
    }
    return !have ? fail("out of memory") : e ? fail_status(e, NULL) : EXIT_OK;
}

/* Makes several lists of blocks, so that launches go through the experts of a stack, and counts the
 * weights of those experts alone as bytes of a launch. */
static int make_lists(struct timing *r, uint64_t weight_bytes)
{
    int32_t *const ids = malloc((size_t)(r->m * r->problem.top_k) * sizeof *ids);
    int64_t named = 0;
    int status = ids ? EXIT_OK : fail("out of memory");

    for (int i = 0; i < LISTS && !status; i++)
        status = make_blocks(r, i, ids, &named);
    free(ids);
    r->bytes -= weight_bytes -
                (uint64_t)((double)weight_bytes * (double)named / LISTS / r->problem.experts);
    return status;
}

/* One copy of an operand that launches share. Random numbers are no experts that tokens choose. */
static int make_shared(struct timing *r, size_t i)
{
    const struct quern_operand *const o = &r->operands[i];
    int status = make(r, o, &r->shared[i]);

    if (!status && !strcmp(o->name, "topk_ids")) {
        int32_t *const ids = malloc(o->bytes);
        if (!ids)
            return fail("out of memory");
        choices_make_up(&r->problem, r->m, 0, r->choices, ids);
        const quern_status e = quern_buffer_write(r->shared[i], ids, o->bytes);
        free(ids);
        status = e ? fail_status(e, o->name) : EXIT_OK;
    }
    if (status)
        return status;
    const quern_status e = quern_args_set(&r->args, o->name, quern_buffer_address(r->shared[i]));
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static int prepare(struct timing *r)
{
    uint64_t weight_bytes = 0;

    const quern_status e = quern_problem_operands(&r->problem, r->m, r->operands, &r->count);
    if (e)
        return fail_status(e, NULL);
    for (size_t i = 0; i < r->count; i++) {
        r->bytes += r->operands[i].bytes;
        weight_bytes += r->operands[i].weights ? r->operands[i].bytes : 0;
    }
    const uint64_t wanted = weight_bytes ? r->rotate / weight_bytes + 1 : 1;
    r->copies = wanted < COPIES_MAX ? (size_t)wanted : COPIES_MAX;
    int status = r->problem.op == QUERN_OP_MOE ? make_lists(r, weight_bytes) : EXIT_OK;
    for (size_t i = 0; i < r->count && !status; i++) {
        const struct quern_operand *const o = &r->operands[i];
        for (size_t j = 0; o->weights && j < r->copies && !status; j++)
            status = make(r, o, &r->rotated[j][i]);
        if (!o->weights && !r->listed[0][i])
            status = make_shared(r, i);
    }
    return status;
}

int timing_prepare(quern_ctx *ctx, const struct quern_problem *problem, int64_t m, uint64_t rotate,
                   enum choices_law choices, struct timing **out)
{
    struct timing *const r = calloc(1, sizeof *r);

    if (!r)
        return fail("out of memory");
    r->ctx = ctx;
    r->problem = *problem;
    r->m = m;
    r->rotate = rotate;
    r->choices = choices;
    r->args = (struct quern_args)QUERN_INIT(struct quern_args);
    const int status = prepare(r);
    if (status)
        timing_free(r);
    else
        *out = r;
    return status;
}

void timing_free(struct timing *r)
{
    for (size_t i = 0; r && i < r->count; i++) {
        quern_buffer_destroy(r->shared[i]);
        for (size_t j = 0; j < r->copies; j++)
            quern_buffer_destroy(r->rotated[j][i]);
        for (size_t j = 0; j < LISTS; j++)
            quern_buffer_destroy(r->listed[j][i]);
    }
    free(r);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static quern_status batch(void *user)
{
    struct timing *const r = user;

    for (int n = 0; n < r->launches; n++) {
        quern_buffer **const copy = r->rotated[r->next % r->copies];
        quern_buffer **const list = r->listed[r->next++ % LISTS];
        quern_status e = QUERN_OK;

        for (size_t i = 0; i < r->count && !e; i++) {
            const quern_buffer *const its = copy[i] ? copy[i] : list[i];
            if (its)
                e = quern_args_set(&r->args, r->operands[i].name, quern_buffer_address(its));
        }
        if (!e)
            e = quern_op_launch(r->op, &r->args, r->m, NULL);
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

int timing_measure(struct timing *r, quern_op *op, struct timing_result *result)
{
    double us, samples[BATCHES];

    r->op = op;
    /* the first launches warm up clocks and caches, and say how many a batch needs */
    r->launches = 10;
    quern_status e = quern_ctx_measure(r->ctx, batch, r, &us);
    if (e)
        return fail_status(e, NULL);
    const double one = us / r->launches;
    r->launches = one * BATCH_MAX < BATCH_US ? BATCH_MAX : (int)(BATCH_US / one) + 1;
    for (int i = 0; i < BATCHES && !e; i++) {
        e = quern_ctx_measure(r->ctx, batch, r, &us);
        samples[i] = us / r->launches;
    }
    if (e)
        return fail_status(e, NULL);
    qsort(samples, BATCHES, sizeof *samples, by_size);
    *result = (struct timing_result){.least_us = samples[0],
                                     .median_us = samples[BATCHES / 2],
                                     .bytes = r->bytes,
                                     .copies = r->copies,
                                     .launches = BATCHES * r->launches};
    return EXIT_OK;
}

/* ---- The GPU --------------------------------------------------------------------------------- */

int fail_without_gpu(quern_status status)
{
    const struct quern_error *const e = quern_last_error();

    if (status != QUERN_E_TARGET || !e->remedy[0])
        return fail_status(status, NULL);
    return misuse("%s; this wants a GPU, and a target alone is none", e->fact);
}

int timing_open(const struct quern_options *library, quern_ctx **ctx,
                struct quern_device_info *device)
{
    quern_status e = quern_open(library, ctx);

    *device = (struct quern_device_info)QUERN_INIT(struct quern_device_info);
    if (!e)
        e = quern_ctx_device(*ctx, device);
    if (e)
        return fail_without_gpu(e);
    if (device->kind == QUERN_DEVICE_SIM)
        return misuse("the device is a software GPU, whose time says nothing; 'quern explain' "
                      "gives the model's cost, and --device hip measures a GPU");
    return EXIT_OK;
}

void timing_date(char text[32])
{
    const time_t now = time(NULL);
    struct tm utc;

    text[0] = 0;
    if (gmtime_r(&now, &utc))
        strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}
