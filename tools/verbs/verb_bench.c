/* SPDX-License-Identifier: MIT */
/*
 * quern bench: our kernels and a peer's, on the same operands, on the software GPU, side by side.
 * What is compared is what it counts; nothing here is a time on a GPU.
 */
#include "command/options.h"
#include "command/table.h"
#include "files/json_file.h"
#include "measure/bench_layer.h"
#include "measure/counts.h"
#include "measure/peer.h"
#include "measure/static_count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX      64
#define ARGUMENTS_MAX 256

struct bench {
    struct common common;
    struct m_set m_set;
    int peer_choice;
    const char *library;
    struct quern_target_info target;
    struct peer peer;
    bool by_text; /* a kernel of the peer could not be run, and was counted in its disassembly */
    quern_ctx *ctx;
    struct table table;
    json_t *runs; /* for --json */
};

/* What one kernel did. */
struct result {
    struct quern_sim_counts counts;
    double error; /* max |y − ref| ÷ max |ref| */
    bool by_text; /* not run: counted in the disassembly, which gives slots and LDS accesses only */
};

/* ---- Running --------------------------------------------------------------------------------- */

/* Runs one launch. Where the software GPU does not know an instruction of it, *unknown is set; if
 * that is null, it is a failure. */
static int run_one(struct bench_layer *l, const void *object, size_t bytes,
                   const struct quern_sim_launch *launch, struct result *result, bool *unknown)
{
    quern_sim_module *module;

    quern_status e = quern_sim_load(l->sim, object, bytes, &module);
    if (e)
        return fail_status(e, launch->kernel);
    e = quern_sim_run(module, launch, &result->counts);
    if (unknown && e == QUERN_E_FAULT &&
        strstr(quern_last_error()->message, "unknown instruction")) {
        *unknown = true;
        e = QUERN_OK;
    }
    if (e)
        fail_status(e, launch->kernel);
    quern_sim_unload(module);
    return e ? EXIT_FAILED : EXIT_OK;
}

/* Puts an argument behind the others, naturally aligned. */
static void put_argument(unsigned char *kernarg, size_t *size, const void *value, size_t bytes)
{
    *size = (*size + bytes - 1) / bytes * bytes;
    memcpy(kernarg + *size, value, bytes);
    *size += bytes;
}

static int run_launch(struct bench_layer *l, quern_op *op, const struct quern_launch *plan,
                      struct result *result)
{
    struct quern_sim_launch launch = QUERN_INIT(struct quern_sim_launch);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    _Alignas(8) unsigned char kernarg[ARGUMENTS_MAX] = {0};

    const quern_status e = quern_op_kernel(op, plan->kernel, &info);
    if (e)
        return fail_status(e, l->text);
    for (size_t i = 0; i < plan->arg_count; i++) {
        const struct quern_launch_arg *const a = &plan->args[i];
        const bool narrow = a->kind == QUERN_ARG_I32 || a->kind == QUERN_ARG_U32;
        const int32_t value = (int32_t)a->value;
        const void *const address =
            a->kind == QUERN_ARG_POINTER && !a->is_null ? quern_args_get(&l->args, a->name) : NULL;
        if (narrow)
            put_argument(kernarg, &launch.kernarg_bytes, &value, 4);
        else
            put_argument(kernarg, &launch.kernarg_bytes,
                         address ? (const void *)&address : &a->value, 8);
    }
    launch.kernel = info.symbol;
    launch.kernarg = kernarg;
    launch.lds_bytes = plan->lds_bytes;
    memcpy(launch.grid, plan->grid, sizeof launch.grid);
    memcpy(launch.block, plan->block, sizeof launch.block);
    return run_one(l, info.object, info.object_bytes, &launch, result, NULL);
}

static int run_ours(struct bench *b, struct bench_layer *l, int64_t m, struct result *result,
                    char symbol[128])
{
    struct quern_launch launches[QUERN_LAUNCHES_MAX];
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    quern_op *op = NULL;
    size_t count = 0;
    int rows = 0; /* of a mixture's blocks */

    quern_status e = quern_op_create_range(b->ctx, &l->problem, m, m, &op);
    if (!e && l->problem.op == QUERN_OP_MOE)
        e = quern_op_block_rows(op, m, &rows);
    if (!e)
        e = quern_op_launches(op, m, launches, &count);
    if (!e)
        e = quern_op_kernel(op, launches[0].kernel, &info);
    int status = e ? fail_status(e, l->text) : bench_layer_rows(l, m, rows);
    if (!status)
        snprintf(symbol, 128, "%s", info.symbol);
    for (size_t i = 0; !status && i < count; i++)
        status = run_launch(l, op, &launches[i], result);
    quern_op_release(op);
    if (!status)
        result->error = bench_layer_error(l, m);
    return status;
}

/* Counts a kernel's instructions in its disassembly: it has some that the software GPU does not
 * know. Of a mixture's workgroups those count that have a block in use; the others leave at once.
 */
static int count_text(struct bench *b, const struct bench_layer *layer, const struct peer_launch *l,
                      struct result *result)
{
    const int block_rows = b->peer.kind->block_rows;
    const uint64_t slices = layer->problem.op == QUERN_OP_MOE
                                ? (uint64_t)(layer->rows_used / block_rows)
                                : l->launch.grid[1];
    const unsigned lanes = b->target.wave_size;
    const uint64_t waves = l->launch.grid[0] * slices * (l->launch.block[0] / lanes);
    struct static_count count;

    const int status = static_count(b->ctx, b->target.name, l->object, l->object_bytes, l->symbol,
                                    l->trips, &count);
    result->by_text = b->by_text = true;
    result->counts = (struct quern_sim_counts){.size = sizeof result->counts};
    result->counts.wave_size = lanes;
    result->counts.waves = waves;
    result->counts.instructions = waves * count.slots;
    result->counts.lds_accesses = waves * count.lds_accesses;
    return status;
}

static int run_peer(struct bench *b, struct bench_layer *l, int64_t m, struct result *result,
                    char symbol[128])
{
    struct peer_launch launch;
    bool unknown = false;

    int status = bench_layer_rows(l, m, b->peer.kind->block_rows);
    if (status || (status = b->peer.kind->launch_of(&b->peer, &l->problem, m, &l->args, &launch)))
        return status;
    snprintf(symbol, 128, "%s", launch.symbol);
    status = run_one(l, launch.object, launch.object_bytes, &launch.launch, result,
                     launch.trips ? &unknown : NULL);
    if (!status && unknown)
        status = count_text(b, l, &launch, result);
    else if (!status)
        result->error = bench_layer_error(l, m);
    return status;
}

/* ---- Report ---------------------------------------------------------------------------------- */

static double per_weight(double weights, const struct result *r, uint64_t instructions)
{
    return (double)instructions * r->counts.wave_size / weights;
}

static json_t *result_json(double weights, const struct result *r, const char *symbol)
{
    const double slots = per_weight(weights, r, counts_issue_slots(&r->counts));

    if (r->by_text)
        return json_make("{s:s, s:f, s:b}", "kernel", symbol, "slots_per_weight", slots,
                         "counted_in_disassembly", 1);
    return json_make("{s:s, s:f, s:f, s:o}", "kernel", symbol, "slots_per_weight", slots,
                     "max_error", r->error, "counts", counts_json(&r->counts));
}

static void add_row(struct bench *b, const struct bench_layer *l, int64_t m, const char *whose,
                    const struct result *r)
{
    struct table *const t = &b->table;
    const double weights = bench_layer_weights(l, m);

    table_cell(t, "%s", whose);
    table_cell(t, "%lld", (long long)l->problem.n);
    table_cell(t, "%lld", (long long)l->problem.k);
    table_cell(t, "%lld", (long long)m);
    table_cell(t, "%.2f", per_weight(weights, r, counts_issue_slots(&r->counts)));
    table_cell(t, "%.2f", per_weight(weights, r, r->counts.lds_accesses));
    if (r->by_text) {
        for (int i = 0; i < 2; i++)
            table_cell(t, "-");
        table_cell(t, "not run");
        return;
    }
    table_cell(t, "%.2f",
               r->counts.lds_accesses
                   ? (double)r->counts.lds_passes / (double)r->counts.lds_accesses
                   : 0.0);
    table_cell(t, "%.3f", (double)r->counts.bytes_read / weights);
    table_cell(t, "%.1e", r->error);
}

static int compare(struct bench *b, struct bench_layer *l, int64_t m)
{
    char our_symbol[128], peer_symbol[128];
    struct result ours = {.counts = QUERN_INIT(struct quern_sim_counts)}, theirs = ours;
    const double weights = bench_layer_weights(l, m);

    int status = run_ours(b, l, m, &ours, our_symbol);
    if (status || (status = run_peer(b, l, m, &theirs, peer_symbol)))
        return status;
    if (b->runs)
        json_array_append_new(b->runs, json_make("{s:s, s:I, s:o, s:o}", "problem", l->text, "m",
                                                 (json_int_t)m, "ours",
                                                 result_json(weights, &ours, our_symbol), "peer",
                                                 result_json(weights, &theirs, peer_symbol)));
    add_row(b, l, m, "quern", &ours);
    add_row(b, l, m, b->peer.kind->name, &theirs);
    return EXIT_OK;
}

static int bench_problem(struct bench *b, const char *given)
{
    const int64_t m_max = m_most(&b->m_set);
    struct bench_layer l = {.args = QUERN_INIT(struct quern_args)};

    int status = problem_from_text(given, &l.problem, l.text);
    if (status || (status = b->peer.kind->accepts(&l.problem, l.text)))
        return status;
    status = bench_layer_make(&l, m_max, b->ctx, b->target.name, &b->common.library);
    for (int64_t m = 0; !status && m_next(&b->m_set, &m);)
        status = compare(b, &l, m);
    bench_layer_free(&l);
    return status;
}

static int bench(struct bench *b)
{
    int status;

    if (!b->common.argument_count)
        return misuse("which problem? e.g. \"wq=nf4 n=4096 k=4096 a=bf16\"");
    if (!b->peer_choice)
        return misuse("--peer is missing; there are bitsandbytes and triton");
    b->peer.kind = b->peer_choice == 1 ? &peer_bitsandbytes : &peer_triton;
    if (!b->m_set.count)
        b->m_set = (struct m_set){.count = 1, .ranges = {{1, 1}}};
    if (m_most(&b->m_set) > ROWS_MAX)
        return misuse("--m goes beyond %d, the most that is compared", ROWS_MAX);
    if ((status = options_target(&b->common, &b->target)))
        return status;
    if (!is_simulated(&b->target))
        return misuse("the software GPU does not run %s; 'quern targets' says which it runs",
                      b->target.name);
    const char *const library = b->library ? b->library : b->peer.kind->library;
    if ((status = b->peer.kind->open(library, &b->target, &b->peer)) ||
        (status = open_sim_context(&b->common, b->target.name, &b->ctx)))
        return status;
    table_header(&b->table, "<kernel|n|k|M|slots/weight|LDS/weight|passes/LDS|bytes/weight|error");
    for (int i = 0; !status && i < b->common.argument_count; i++)
        status = bench_problem(b, b->common.arguments[i]);
    if (status)
        return status;
    if (b->common.json)
        return json_print(json_make("{s:i, s:s, s:s, s:s, s:O}", "quern_bench", 1, "peer",
                                    b->peer.kind->title, "compiler", b->peer.compiler, "target",
                                    b->target.name, "runs", b->runs));
    printf("%s: counts of the software GPU; the peer is %s as built by %s%s\n", b->target.name,
           b->peer.kind->title, b->peer.compiler,
           b->by_text ? ", counted in its disassembly where not run" : "");
    if (!table_print(&b->table, 0))
        return fail("out of memory");
    return finish_output();
}

int verb_bench(int argc, char **argv)
{
    static const struct usage usage = {
        "--peer NAME --target GFX [--m LIST] PROBLEM...",
        "Runs our kernel and the peer's for the same problem on the same operands, on the "
        "software\n"
        "GPU, and prints what each took: issue slots per weight (wave instructions but waits,\n"
        "times lanes), LDS accesses per weight and passes for each, bytes read per weight, and\n"
        "the error against double precision. Of op=moe the weights of the chosen experts count.\n"
        "No GPU is timed. Peers: bitsandbytes' published kernels (nf4, fp4); plain kernels in\n"
        "Triton (int4, and op=moe of int4).\n"};
    struct bench b = {0};
    const struct flag flags[] = {
        {"peer", FLAG_CHOICE, &b.peer_choice, "NAME", "whose kernels to compare with",
         "bitsandbytes|triton"},
        {"library", FLAG_TEXT, &b.library, "DIR",
         "the libraries of its wheel, or Triton's code objects (in build/peers)"},
        {"m", FLAG_M, &b.m_set, "LIST", "rows of A (1)"},
        {0},
    };

    int status = options_parse(&b.common, argc, argv, &usage, flags);
    if (status < 0) {
        b.runs = b.common.json ? json_array() : NULL;
        status = bench(&b);
    }
    json_decref(b.runs);
    table_free(&b.table);
    quern_close(b.ctx);
    peer_close(&b.peer);
    return status;
}
