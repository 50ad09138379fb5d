/* SPDX-License-Identifier: MIT */
/*
 * The 40 layer shapes of eight language models by which 4-bit kernels are judged, and what the
 * planner says of each, beside what bitsandbytes' kernels take, with a chart; nine more with int4
 * weights. Shapes are those of cache/models: qkv fused, k
 * and v apart, gate_up fused, experts where a model has them. Everything of ours is the planner's
 * model; no GPU and no compiler is asked.
 */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include "plan/family.h"
#include "plan/plan.h"
#include "t_shape.h"

#include <stdio.h>
#include <string.h>

#define SWEEP_COUNT(array) (sizeof(array) / sizeof *(array))

struct sweep_shape {
    const char *model, *layer;
    int n, k;
    const char *wq; /* null: nf4 */
};

/* clang-format off */
static const struct sweep_shape sweep_shapes[] = {
    {"Qwen3-0.6B", "qkv", 4096, 1024},       {"Qwen3-0.6B", "o", 1024, 2048},
    {"Qwen3-0.6B", "k v", 1024, 1024},       {"Qwen3-0.6B", "gate_up", 6144, 1024},
    {"Qwen3-0.6B", "down", 1024, 3072},
    {"Qwen3-4B", "qkv", 6144, 2560},         {"Qwen3-4B", "o", 2560, 4096},
    {"Qwen3-4B", "k v", 1024, 2560},         {"Qwen3-4B", "gate_up", 19456, 2560},
    {"Qwen3-4B", "down", 2560, 9728},
    {"Qwen3-8B", "qkv", 6144, 4096},         {"Qwen3-8B", "o", 4096, 4096},
    {"Qwen3-8B", "k v", 1024, 4096},         {"Qwen3-8B", "gate_up", 24576, 4096},
    {"Qwen3-8B", "down", 4096, 12288},
    {"Qwen3-32B", "qkv", 10240, 5120},       {"Qwen3-32B", "o", 5120, 8192},
    {"Qwen3-32B", "k v", 1024, 5120},        {"Qwen3-32B", "gate_up", 51200, 5120},
    {"Qwen3-32B", "down", 5120, 25600},
    {"Llama-3.2-1B", "qkv", 3072, 2048},     {"Llama-3.2-1B", "o", 2048, 2048},
    {"Llama-3.2-1B", "k v", 512, 2048},      {"Llama-3.2-1B", "gate_up", 16384, 2048},
    {"Llama-3.2-1B", "down", 2048, 8192},
    {"Llama-3.1-70B", "qkv", 10240, 8192},   {"Llama-3.1-70B", "o", 8192, 8192},
    {"Llama-3.1-70B", "k v", 1024, 8192},    {"Llama-3.1-70B", "gate_up", 57344, 8192},
    {"Llama-3.1-70B", "down", 8192, 28672},
    {"Gemma-3-12B", "qkv", 8192, 3840},      {"Gemma-3-12B", "o", 3840, 4096},
    {"Gemma-3-12B", "k v", 2048, 3840},      {"Gemma-3-12B", "gate_up", 30720, 3840},
    {"Gemma-3-12B", "down", 3840, 15360},
    {"gpt-oss-20b", "qkv", 5120, 2880},      {"gpt-oss-20b", "o", 2880, 4096},
    {"gpt-oss-20b", "k v", 512, 2880},       {"gpt-oss-20b", "gate_up", 5760, 2880},
    {"gpt-oss-20b", "down", 2880, 2880},
};
/* With int4 weights: those that kernels for it were first asked for with, and Qwen3-4B's. */
static const struct sweep_shape sweep_int4[] = {
    {"Qwen3-8B", "qkv", 6144, 4096, "int4"}, {"Qwen3-8B", "o", 4096, 4096, "int4"},
    {"Qwen3-8B", "gate_up", 24576, 4096, "int4"}, {"Qwen3-8B", "down", 4096, 12288, "int4"},
    {"Qwen3-4B", "qkv", 6144, 2560, "int4"}, {"Qwen3-4B", "o", 2560, 4096, "int4"},
    {"Qwen3-4B", "k v", 1024, 2560, "int4"}, {"Qwen3-4B", "gate_up", 19456, 2560, "int4"},
    {"Qwen3-4B", "down", 2560, 9728, "int4"},
};
/* clang-format on */

static const char *const sweep_targets[] = {"gfx1100", "gfx1151", "gfx1201",
                                            "gfx90a",  "gfx942",  "gfx950"};
static const char *const sweep_types[] = {"f16", "bf16", "f32"};
static const int sweep_rows[] = {1, 2, 4, 8, 16, 32, 64};

/* What the planner says of one shape, type and target at m rows. */
struct sweep_row {
    const struct sweep_shape *shape;
    const struct plan *plan; /* of its largest slices */
    int m;
    size_t launches;
    double slots;                /* modelled issue slots per weight */
    double kernel_us, memory_us; /* fullest compute unit; every operand once */
};

/* The kernels of a shape; false, with the reason in quern_last_error(), if there are none. */
static bool sweep_plan(const struct sweep_shape *s, const char *type, const char *target,
                       struct plan_set *set)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    char text[64];

    snprintf(text, sizeof text, "wq=%s n=%d k=%d a=%s", s->wq ? s->wq : "nf4", s->n, s->k, type);
    return quern_problem_parse(text, &problem) == QUERN_OK &&
           plan_make(&problem, target_named(target), set) == QUERN_OK;
}

static struct sweep_row sweep_row_of(const struct sweep_shape *s, const struct plan_set *set, int m)
{
    struct plan_slice slices[2];
    struct sweep_row row = {.shape = s, .m = m, .launches = plan_slices(set, m, slices)};
    const struct target *const t = slices[0].plan->target;
    int64_t slots = 0, kernel = 0;

    row.plan = slices[0].plan;
    for (size_t i = 0; i < row.launches; i++) {
        slots += slices[i].slices * slices[i].plan->estimate.slots;
        kernel += plan_cycles(slices[i].plan, slices[i].slices);
    }
    row.slots = (double)slots * row.plan->wave_size / ((double)s->n * s->k);
    row.kernel_us = (double)kernel / (t->clock_ghz * 1e3);
    /* further rows add their own A and C to the bytes of the first slice */
    row.memory_us = (double)row.plan->estimate.memory_cycles / (t->clock_ghz * 1e3) +
                    (double)(m - row.plan->m_tile) * (s->k + s->n) *
                        dtype_bytes(row.plan->problem.a) / (t->bandwidth_gbs * 1e3);
    return row;
}

/* Part of the time that memory alone would take anyhow. */
static double sweep_share(const struct sweep_row *r)
{
    return r->memory_us < r->kernel_us ? r->memory_us / r->kernel_us : 1;
}

/* ---- table ----------------------------------------------------------------------------------- */

/* What bitsandbytes' kernels take, counted by running them: count_bitsandbytes.py. */
#define SWEEP_PEER      "tests/bench/bitsandbytes.csv"
#define SWEEP_PEER_STEP 1024 /* weights */
#define SWEEP_PEER_ROWS 8    /* of A, that its largest kernel does at once */

struct sweep_peer {
    char target[16], type[8];
    int m;
    double row, step; /* lane slots */
};
struct sweep_peers {
    struct sweep_peer of[128];
    size_t count;
};

static bool sweep_peers_read(struct sweep_peers *p)
{
    FILE *const f = fopen(SWEEP_PEER, "r");
    char line[128];

    p->count = 0;
    while (f && p->count < SWEEP_COUNT(p->of) && fgets(line, sizeof line, f)) {
        struct sweep_peer *const one = &p->of[p->count];
        p->count += sscanf(line, "%15[^,],%7[^,],%d,%lf,%lf", one->target, one->type, &one->m,
                           &one->row, &one->step) == 5;
    }
    return f && !fclose(f) && p->count;
}

/* Its issue slots per weight; 0 when it has no such kernel. */
static double sweep_peer_slots(const struct sweep_peers *p, const struct sweep_row *r,
                               const char *type)
{
    const int m = r->m < SWEEP_PEER_ROWS ? r->m : SWEEP_PEER_ROWS, k = r->shape->k;

    for (size_t i = 0; i < p->count && !r->shape->wq; i++)
        if (!strcmp(p->of[i].target, r->plan->target->name) && !strcmp(p->of[i].type, type) &&
            p->of[i].m == m)
            return (p->of[i].row + p->of[i].step * ((k + SWEEP_PEER_STEP - 1) / SWEEP_PEER_STEP)) *
                   (r->m / m) / k;
    return 0;
}

static void sweep_csv_row(FILE *f, const struct sweep_peers *peers, const struct sweep_row *r,
                          const char *type)
{
    const struct plan *const p = r->plan;
    const double theirs = sweep_peer_slots(peers, r, type);

    fprintf(f, "%s,%s,%s,%d,%d,%s,%s,%d,", r->shape->wq ? r->shape->wq : "nf4", r->shape->model,
            r->shape->layer, r->shape->n, r->shape->k, p->target->name, type, r->m);
    fprintf(f, "%s,%d,%d,%d,%d,%lld,%zu,", p->family->name, p->waves, t_shape_word(p, "rows"),
            t_shape_word(p, "chunk"), t_shape_word(p, "split_k"), (long long)p->estimate.workgroups,
            r->launches);
    fprintf(f, "%.2f,", r->slots);
    if (theirs > 0)
        fprintf(f, "%.2f", theirs);
    fprintf(f, ",%.2f,%.2f,%.0f,%s\n", r->kernel_us > r->memory_us ? r->kernel_us : r->memory_us,
            r->memory_us, 100 * sweep_share(r),
            sweep_share(r) < 1 ? "issue and latency" : "memory");
}

static bool sweep_csv_shape(FILE *f, const struct sweep_peers *peers, const struct sweep_shape *s,
                            const char *target)
{
    for (size_t a = 0; a < SWEEP_COUNT(sweep_types); a++) {
        struct plan_set set;
        if (s->wq && !strcmp(sweep_types[a], "f32"))
            continue;
        if (!sweep_plan(s, sweep_types[a], target, &set))
            return false;
        for (size_t m = 0; m < SWEEP_COUNT(sweep_rows); m++) {
            const struct sweep_row row = sweep_row_of(s, &set, sweep_rows[m]);
            sweep_csv_row(f, peers, &row, sweep_types[a]);
        }
    }
    return true;
}

/* All shapes on some targets as CSV; false when a shape has no kernel. */
static bool sweep_csv(FILE *f, const struct sweep_peers *peers, const char *const targets[],
                      size_t count)
{
    fprintf(f, "weights,model,layer,n,k,target,type,m,family,waves,rows,chunk,split_k,workgroups,"
               "launches,slots per weight,bitsandbytes' slots per weight,us,memory us,"
               "roofline percent,bound\n");
    for (size_t t = 0; t < count; t++) {
        for (size_t i = 0; i < SWEEP_COUNT(sweep_shapes); i++)
            if (!sweep_csv_shape(f, peers, &sweep_shapes[i], targets[t]))
                return false;
        for (size_t i = 0; i < SWEEP_COUNT(sweep_int4); i++)
            if (!sweep_csv_shape(f, peers, &sweep_int4[i], targets[t]))
                return false;
    }
    return true;
}

/* ---- chart ----------------------------------------------------------------------------------- */

enum { PANEL_W = 300, PANEL_H = 150, PANEL_X = 340, PANEL_Y = 220, CHART_W = 1060, CHART_H = 560 };

/* Shapes by their number of weights; of equals the earlier first. */
static void sweep_order(size_t order[])
{
    for (size_t i = 0; i < SWEEP_COUNT(sweep_shapes); i++) {
        const struct sweep_shape *const s = &sweep_shapes[i];
        size_t at = i;
        for (; at; at--) {
            const struct sweep_shape *const o = &sweep_shapes[order[at - 1]];
            if ((int64_t)o->n * o->k <= (int64_t)s->n * s->k)
                break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

static void sweep_axes(FILE *f, const struct target *t, int x, int y)
{
    fprintf(f, "<text class=\"h\" x=\"%d\" y=\"%d\">%s, %s</text>\n", x, y - 10, t->name, t->part);
    for (int percent = 0; percent <= 100; percent += 25) {
        const int at = y + PANEL_H - percent * PANEL_H / 100;
        fprintf(f,
                "<path class=\"g\" d=\"M%d %dh%d\"/><text x=\"%d\" y=\"%d\" "
                "text-anchor=\"end\">%d</text>\n",
                x, at, PANEL_W, x - 6, at + 4, percent);
    }
}

/* One line of the chart: the share of every shape at m rows, smallest shape at the left. */
static bool sweep_line(FILE *f, const char *target, int m, char class, int x, int y)
{
    size_t order[SWEEP_COUNT(sweep_shapes)];
    struct plan_set set;

    sweep_order(order);
    fprintf(f, "<path class=\"%c\" d=\"", class);
    for (size_t i = 0; i < SWEEP_COUNT(order); i++) {
        const struct sweep_shape *const s = &sweep_shapes[order[i]];
        if (!sweep_plan(s, "bf16", target, &set))
            return false;
        const struct sweep_row row = sweep_row_of(s, &set, m);
        fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', x + (double)i * PANEL_W / (SWEEP_COUNT(order) - 1),
                y + PANEL_H - sweep_share(&row) * PANEL_H);
    }
    fprintf(f, "\"/>\n");
    return true;
}

/* The chart of all targets for bf16 as SVG; false when a shape has no kernel. */
static bool sweep_svg(FILE *f)
{
    static const struct {
        int m;
        char class;
    } lines[] = {{1, 'a'}, {4, 'b'}, {8, 'c'}};

    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n"
            "<style>text{font:12px sans-serif;fill:#333}.h{font-weight:bold}"
            "path{fill:none;stroke-width:1.6}.g{stroke:#ddd;stroke-width:1}"
            ".a{stroke:#1b6ca8}.b{stroke:#d98200}.c{stroke:#a8324a}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text class=\"h\" x=\"40\" y=\"24\">NF4, bf16: modelled share of the memory roofline, "
            "in percent, of 40 layer shapes, fewest weights left</text>\n",
            CHART_W, CHART_H);
    for (size_t i = 0; i < SWEEP_COUNT(lines); i++)
        fprintf(f, "<path class=\"%c\" d=\"M%zu 41h24\"/><text x=\"%zu\" y=\"45\">M = %d</text>\n",
                lines[i].class, 40 + 90 * i, 70 + 90 * i, lines[i].m);
    for (size_t t = 0; t < SWEEP_COUNT(sweep_targets); t++) {
        const int x = 40 + (int)(t % 3) * PANEL_X, y = 95 + (int)(t / 3) * PANEL_Y;
        sweep_axes(f, target_named(sweep_targets[t]), x, y);
        for (size_t i = 0; i < SWEEP_COUNT(lines); i++)
            if (!sweep_line(f, sweep_targets[t], lines[i].m, lines[i].class, x, y))
                return false;
    }
    fprintf(f, "</svg>\n");
    return true;
}

#endif
