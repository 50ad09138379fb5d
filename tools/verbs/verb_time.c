/* SPDX-License-Identifier: MIT */
/* quern time: how long launches of a layer take on a GPU. */
#include "files/json_file.h"
#include "command/options.h"
#include "command/table.h"
#include "measure/modelled.h"
#include "measure/timing.h"

#include <stdio.h>

#define ROWS_MAX 32 /* values of M */

struct measurement {
    struct common common;
    struct m_set set;
    uint64_t rotate;
    enum choices_law choices;
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    struct quern_device_info device;
    struct quern_target_info target;
    quern_ctx *ctx;
    quern_op *op;
    json_t *list;
    struct table table;
};

/* Reports a measurement for m rows; `modelled` microseconds are negative where no software GPU runs
 * the target. */
static void report(struct measurement *b, int64_t m, const struct timing_result *r, double modelled)
{
    const double gbs = (double)r->bytes / (r->median_us * 1e3);
    const double share = 100 * gbs / b->target.bandwidth_gbs;

    if (b->common.json) {
        json_array_append_new(
            b->list, json_make("{s:I, s:f, s:f, s:o, s:f, s:f, s:I, s:i, s:i}", "m", (json_int_t)m,
                               "microseconds", r->median_us, "least_microseconds", r->least_us,
                               "model_microseconds",
                               modelled < 0 ? json_null() : json_real(modelled), "gb_per_second",
                               gbs, "percent_of_bandwidth", share, "bytes", (json_int_t)r->bytes,
                               "weight_copies", (int)r->copies, "launches", r->launches));
        return;
    }
    table_cell(&b->table, "%lld", (long long)m);
    table_cell(&b->table, "%.2f", r->median_us);
    table_cell(&b->table, "%.2f", r->least_us);
    if (modelled < 0)
        table_cell(&b->table, "-");
    else
        table_cell(&b->table, "%.2f", modelled);
    table_cell(&b->table, "%.1f", gbs);
    table_cell(&b->table, "%.1f", share);
    table_cell(&b->table, "%zu", r->copies);
}

static int measure(struct measurement *b, int64_t m)
{
    struct timing *timing = NULL;
    struct timing_result result;
    struct quern_problem problem = b->problem;
    double modelled = -1;

    if (problem.op == QUERN_OP_MOE) {
        const quern_status e = quern_op_block_rows(b->op, m, &problem.block_rows);
        if (e)
            return fail_status(e, NULL);
    }
    int status = timing_prepare(b->ctx, &problem, m, b->rotate, b->choices, &timing);
    if (!status)
        status = timing_measure(timing, b->op, &result);
    if (!status && is_simulated(&b->target))
        status = modelled_us(&b->common, b->op, &b->problem, b->target.name, m, &modelled);
    if (!status)
        report(b, m, &result, modelled);
    timing_free(timing);
    return status;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int open_gpu(struct measurement *b, int64_t m_max)
{
    const int status = timing_open(&b->common.library, &b->ctx, &b->device);

    if (status)
        return status;
    b->target = (struct quern_target_info)QUERN_INIT(struct quern_target_info);
    quern_status e = quern_target_find(b->device.target, &b->target);
    if (!e)
        e = quern_op_create(b->ctx, &b->problem, m_max, &b->op);
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static int print(struct measurement *b)
{
    char date[32];

    if (b->common.json) {
        timing_date(date);
        return json_print(json_make(
            "{s:i, s:s, s:s, s:s, s:i, s:f, s:s, s:i, s:s, s:I, s:O}", "quern_time", 1, "problem",
            b->text, "device", b->device.name, "target", b->device.target, "compute_units",
            (int)b->device.compute_units, "clock_ghz", b->device.clock_ghz, "runtime",
            b->device.runtime, "runtime_version", b->device.runtime_version, "date", date,
            "rotated_bytes", (json_int_t)b->rotate, "results", b->list));
    }
    printf("%s\n%s, %s, %u compute units, %.2f GHz; share of the %.0f GB/s of a %s\n", b->text,
           shown_line(b->device.name), b->device.target, b->device.compute_units,
           b->device.clock_ghz, b->target.bandwidth_gbs, b->target.part);
    if (!table_print(&b->table, 0))
        return fail("out of memory");
    return finish_output();
}

static int time_layer(struct measurement *b)
{
    int status = options_problem(&b->common, &b->problem, b->text);

    if (status)
        return status;
    if (!b->set.count)
        b->set = (struct m_set){.count = 1, .ranges = {{1, 8}}};
    if (!b->rotate)
        b->rotate = TIMING_ROTATE;
    if (m_count(&b->set) > ROWS_MAX)
        return misuse("--m names %lld values; at most %d are measured at once",
                      (long long)m_count(&b->set), ROWS_MAX);
    if ((status = open_gpu(b, m_most(&b->set))))
        return status;
    b->list = json_array();
    table_header(&b->table, "m|us|least us|model us|GB/s|% of bandwidth|copies");
    for (int64_t m = 0; m_next(&b->set, &m);)
        if ((status = measure(b, m)))
            return status;
    return print(b);
}

int verb_time(int argc, char **argv)
{
    static const struct usage usage = {
        "[--m LIST] PROBLEM",
        "Measures launches of PROBLEM on the GPU of this machine, for each M of the list (1-8),\n"
        "with the weights coming from memory: each launch reads the next of many copies. Beside\n"
        "it stands what the software GPU's model says of the target's retail part.\n"};
    struct measurement b = {0};
    const struct flag flags[] = {
        {"m", FLAG_M, &b.set, "LIST", "rows of A, e.g. 1-8 or 1,4,16"},
        {"rotate", FLAG_SIZE, &b.rotate, "BYTES", "of weights that launches go through (512M)"},
        CHOICES_FLAG(&b.choices),
        {0},
    };

    int status = options_parse(&b.common, argc, argv, &usage, flags);
    if (status < 0)
        status = time_layer(&b);
    json_decref(b.list);
    table_free(&b.table);
    quern_op_release(b.op);
    quern_close(b.ctx);
    return status;
}
