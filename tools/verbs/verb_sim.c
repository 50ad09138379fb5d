/* SPDX-License-Identifier: MIT */
/* quern sim: runs a launch plan, ours or anybody's, on the software GPU. */
#include "measure/counts.h"
#include "files/json_file.h"
#include "measure/simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ORDER_GRID = 1, ORDER_SHUFFLED };

struct run {
    struct common common;
    int check, arithmetic, order, seed;
    const char *counts_path;
    struct simulation simulation;
    struct quern_sim_counts total, *counts; /* of each launch */
    struct outputs outputs;
};

static int run_launch(struct run *r, size_t index)
{
    struct ready_launch ready;

    int status = simulation_launch(&r->simulation, index, &ready);
    if (!status) {
        r->counts[index].size = sizeof r->counts[index];
        const quern_status e = quern_sim_run(ready.module, &ready.launch, &r->counts[index]);
        if (e) {
            /* findings name their kernel themselves */
            fail_status(e, e == QUERN_E_FAULT ? NULL : ready.launch.kernel);
            status = EXIT_FAILED;
        } else {
            counts_add(&r->total, &r->counts[index]);
        }
    }
    simulation_launch_free(&ready);
    return status;
}

/* ---- Results --------------------------------------------------------------------------------- */

static json_t *all_counts(const struct run *r)
{
    json_t *root = json_make("{s:i}", "quern_counts", 1), *total = counts_json(&r->total);
    json_t *launches = json_array();

    json_object_update(root, total);
    json_decref(total);
    for (size_t i = 0; i < r->simulation.plan.launch_count; i++) {
        json_t *launch = counts_json(&r->counts[i]);
        json_object_set_new(launch, "kernel", json_words(r->simulation.plan.launches[i].kernel));
        json_array_append_new(launches, launch);
    }
    json_object_set_new(root, "launches", launches);
    return root;
}

static int write_results(struct run *r)
{
    int status = EXIT_OK;

    for (size_t i = 0; !status && i < r->simulation.buffer_count; i++) {
        const struct buffer *b = &r->simulation.buffers[i];
        const bool unchanged = b->before && !memcmp(b->before, b->memory, b->bytes);
        if (b->path && (b->access & QUERN_SIM_WRITE) && !unchanged)
            status = outputs_add(&r->outputs, b->path, b->memory, b->bytes);
    }
    if (!status && r->counts_path) {
        json_t *counts = all_counts(r);
        char *text = json_dumps(counts, JSON_INDENT(1));
        status = text ? outputs_add(&r->outputs, r->counts_path, text, strlen(text))
                      : fail("out of memory");
        free(text);
        json_decref(counts);
    }
    return status ? status : outputs_commit(&r->outputs);
}

static int report(const struct run *r, double seconds)
{
    if (r->common.json)
        return json_print(all_counts(r));
    for (size_t i = 0; i < r->simulation.plan.launch_count; i++) {
        const struct plan_launch *l = &r->simulation.plan.launches[i];
        printf("%s: grid %ux%ux%u, block %ux%ux%u: %llu wave instructions, %llu issue slots\n",
               shown_line(l->kernel), l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
               l->block[2], (unsigned long long)r->counts[i].instructions,
               (unsigned long long)counts_issue_slots(&r->counts[i]));
    }
    note("%.3f s on the software GPU", seconds);
    return finish_output();
}

static int simulate(struct run *r)
{
    struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);
    struct timespec start, end;
    int status;

    if (!r->common.argument_count)
        return misuse("which plan? give the plan.json, then its operands as name=FILE");
    options.shuffle = r->seed ? (uint64_t)r->seed : r->order == ORDER_SHUFFLED;
    options.arithmetic = (enum quern_sim_arithmetic)r->arithmetic;
    options.check = r->check ? (enum quern_sim_check)r->check : QUERN_CHECK_FULL;
    if ((status = simulation_read(&r->simulation, &r->common)) ||
        (status = simulation_operands(&r->simulation)) ||
        (status = simulation_open(&r->simulation, &r->common, &options)))
        return status;
    r->counts = calloc(r->simulation.plan.launch_count, sizeof *r->counts);
    if (!r->counts)
        return fail("out of memory");
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (size_t i = 0; !status && i < r->simulation.plan.launch_count; i++)
        status = run_launch(r, i);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (status || (status = write_results(r)))
        return status;
    return report(r, (double)(end.tv_sec - start.tv_sec) +
                         1e-9 * (double)(end.tv_nsec - start.tv_nsec));
}

int verb_sim(int argc, char **argv)
{
    static const struct usage usage = {
        "PLAN.json NAME=FILE... [--check=fast|full] [--counts FILE]\n"
        "       [--arithmetic=fast|silicon] [--order=grid|shuffled] [--seed N]",
        "Runs the launches of a plan on the software GPU. Operand files are raw and of exactly\n"
        "the size the plan says. Those that the plan writes start as never-written memory, and\n"
        "appear or are replaced only when every launch has ended well.\n"};
    struct run r = {0};
    const struct flag flags[] = {
        {"check", FLAG_CHOICE, &r.check, "LEVEL",
         "fast: bounds and alignment; full (default): undefined bits and races too", "fast|full"},
        {"arithmetic", FLAG_CHOICE, &r.arithmetic, "KIND",
         "of sums of products: fast, or silicon (default with full)", "fast|silicon"},
        {"order", FLAG_CHOICE, &r.order, "ORDER",
         "in which workgroups start: grid (default), or shuffled by --seed", "grid|shuffled"},
        {"seed", FLAG_COUNT, &r.seed, "N", "of --order=shuffled, 1 (default) to 4096; implies it"},
        {"counts", FLAG_TEXT, &r.counts_path, "FILE", "write counts as JSON"},
        {0},
    };

    int status = options_parse(&r.common, argc, argv, &usage, flags);
    if (status < 0 && r.seed && r.order == ORDER_GRID)
        status = misuse("--seed shuffles the workgroups; --order=grid does not");
    if (status < 0)
        status = simulate(&r);
    outputs_discard(&r.outputs);
    simulation_free(&r.simulation);
    free(r.counts);
    return status;
}
