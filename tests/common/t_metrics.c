/* SPDX-License-Identifier: MIT */
#include "t_metrics.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"

#include "object/object.h"
#include "plan/plan.h"
#include "t_shape.h"
#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Latency that loads must cover, of what is asked for; the model's own is TARGET_LATENCY_NS. */
#define IN_FLIGHT_NS 600

struct memory {
    quern_sim *sim;
    size_t count;
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    uint64_t address[QUERN_OPERANDS_MAX];
    void *host[QUERN_OPERANDS_MAX];
};

static void must(quern_status status, const char *what)
{
    if (status != QUERN_OK)
        fail_msg("%s: %s", what, quern_last_error()->message);
}

/* Bytes without a pattern: any will do, for counts do not depend on them. */
static void fill(uint8_t *bytes, uint64_t count)
{
    uint64_t state = 1;

    for (uint64_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        bytes[i] = (uint8_t)(state >> 56);
    }
}

static void map(struct memory *x, quern_ctx *ctx, const char *target,
                const struct quern_problem *problem, int m)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);

    o.target = target;
    o.check = QUERN_CHECK_FAST;
    o.disassembler = quern_ctx_disassembler(ctx);
    must(quern_sim_open(&o, &x->sim), target);
    must(quern_problem_operands(problem, m, x->operands, &x->count), "operands");
    for (size_t i = 0; i < x->count; i++) {
        const struct quern_operand *const operand = &x->operands[i];
        assert_non_null(x->host[i] = malloc(operand->bytes));
        fill(x->host[i], operand->bytes);
        must(quern_sim_map(x->sim, x->host[i], operand->bytes, operand->access, operand->name,
                           &x->address[i]),
             operand->name);
    }
}

static void unmap(struct memory *x)
{
    quern_sim_close(x->sim);
    for (size_t i = 0; i < x->count; i++)
        free(x->host[i]);
}

static uint64_t value_of(const struct memory *x, const struct quern_launch_arg *a)
{
    for (size_t i = 0; a->kind == QUERN_ARG_POINTER && !a->is_null && i < x->count; i++)
        if (!strcmp(x->operands[i].name, a->name))
            return x->address[i];
    return (uint64_t)a->value;
}

static void profile(const struct memory *x, const struct quern_launch *plan,
                    const struct quern_kernel_info *info, struct quern_sim_profile *p)
{
    struct quern_sim_launch launch = QUERN_INIT(struct quern_sim_launch);
    _Alignas(8) uint8_t kernarg[8 * QUERN_ARGS_MAX] = {0};
    quern_sim_module *module;

    for (size_t i = 0; i < plan->arg_count; i++) {
        const struct quern_launch_arg *const a = &plan->args[i];
        const size_t bytes = a->kind == QUERN_ARG_I32 || a->kind == QUERN_ARG_U32 ? 4 : 8;
        const uint64_t value = value_of(x, a);
        size_t *const at = &launch.kernarg_bytes;
        *at = (*at + bytes - 1) / bytes * bytes;
        memcpy(kernarg + *at, &value, bytes);
        *at += bytes;
    }
    launch.kernel = info->symbol;
    launch.kernarg = kernarg;
    launch.lds_bytes = plan->lds_bytes;
    memcpy(launch.grid, plan->grid, sizeof launch.grid);
    memcpy(launch.block, plan->block, sizeof launch.block);
    must(quern_sim_load(x->sim, info->object, info->object_bytes, &module), info->symbol);
    must(quern_sim_profile_run(module, &launch, QUERN_EXTENT_KINDS, 0, p), info->symbol);
    quern_sim_unload(module);
}

static bool is_weight(const char *name)
{
    return !strcmp(name, "b") || !strcmp(name, "scales") || !strcmp(name, "zeros") ||
           !strcmp(name, "absmax8");
}

static void traffic(const struct quern_sim_profile *p, struct t_metrics *x)
{
    double size = 0, by_wave = 0, by_group = 0, a = 0, b = 0;

    for (size_t i = 0; i < p->buffer_count; i++) {
        const struct quern_sim_traffic *const t = &p->buffers[i];
        if (is_weight(t->name)) {
            size += (double)t->size;
            by_wave += 128.0 * (double)t->by_wave;
            by_group += 128.0 * (double)t->by_workgroup;
        }
        if (!strcmp(t->name, "b"))
            b = (double)t->size;
        if (!strcmp(t->name, "a"))
            a = 128.0 * (double)t->by_workgroup;
    }
    assert_true(size > 0 && a > 0);
    x->wave_bytes = by_wave / size;
    x->group_bytes = by_group / size;
    x->scale_share = 1 - b / size;
    x->l2 = (by_group + a) / size;
}

/* Of all ports but that of vector memory, which is no bound of the model (docs/profile.md). */
static void ports(const struct quern_sim_model *model, struct t_metrics *x)
{
    for (int i = 0; i < QUERN_PORT_COUNT; i++) {
        const double us = model->port_cycles[i] / (model->clock_ghz * 1e3);
        if (i != QUERN_PORT_VMEM && us / model->memory_us > x->port) {
            x->port = us / model->memory_us;
            x->port_name = quern_sim_port_name((enum quern_sim_port)i);
        }
    }
}

unsigned t_spills_of(const struct quern_kernel_info *info)
{
    struct object object;

    must(object_parse(info->object, info->object_bytes, &object), info->symbol);
    const struct object_kernel *const k = object_kernel(&object, info->symbol);
    assert_non_null(k);
    const unsigned spills = k->vgpr_spills + k->sgpr_spills;
    object_free(&object);
    return spills;
}

void t_each_instruction(quern_ctx *ctx, const struct quern_kernel_info *info,
                        quern_disassembly_fn fn, void *user)
{
    const struct quern_disassembler d = quern_ctx_disassembler(ctx);
    struct object object;

    must(object_parse(info->object, info->object_bytes, &object), info->symbol);
    const struct object_kernel *const k = object_kernel(&object, info->symbol);
    assert_non_null(k);
    const uint8_t *const code = object_at(&object, k->entry, k->code_bytes);
    assert_non_null(code);
    must(d.function(d.user, object.target->name, code, k->code_bytes, fn, user), info->symbol);
    object_free(&object);
}

static void model(const struct quern_sim_profile *p, struct t_metrics *x)
{
    struct quern_sim_model model = QUERN_INIT(struct quern_sim_model);

    must(quern_sim_model_make(p, &model), x->kernel);
    ports(&model, x);
    x->in_flight = model.in_flight / (model.bandwidth_gbs * IN_FLIGHT_NS / model.cus);
    x->prologue = model.prologue_us / model.memory_us;
    x->memory_us = model.memory_us;
    x->waves = model.waves_per_simd;
    x->waves_fit = p->resources.waves_per_simd;
    x->one_round = model.rounds == 1;
    x->memory_bound = model.bound == QUERN_BOUND_MEMORY;
}

static int split_of(const struct quern_problem *problem, const char *target, int m)
{
    struct quern_problem normal;
    struct plan_set set;

    must(problem_normalise(problem, &normal), target);
    must(plan_make(&normal, target_named(target), &set), target);
    return t_shape_word(plan_for(&set, m), "split_k");
}

struct t_metrics t_metrics_of(quern_ctx *ctx, const char *target, const char *text, int m)
{
    const struct quern_problem problem = t_problem(text);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    struct quern_sim_profile p = QUERN_INIT(struct quern_sim_profile);
    struct quern_launch launches[QUERN_LAUNCHES_MAX];
    struct t_metrics x = {.port_name = "none", .n = problem.n, .k = problem.k};
    struct memory memory = {0};
    quern_op *op;
    size_t count;

    must(quern_op_create_range(ctx, &problem, m, m, &op), text);
    must(quern_op_launches(op, m, launches, &count), text);
    assert_int_equal(count, 1);
    must(quern_op_kernel(op, launches[0].kernel, &info), text);
    snprintf(x.kernel, sizeof x.kernel, "%s", info.symbol);
    map(&memory, ctx, target, &problem, m);
    profile(&memory, &launches[0], &info, &p);
    x.slots = (double)(p.counts.instructions - p.counts.classes[QUERN_CLASS_WAIT]) *
              p.counts.wave_size / ((double)problem.n * (double)problem.k);
    x.lds = p.lds_least ? (double)p.counts.lds_passes / (double)p.lds_least : 1;
    x.scratch = p.resources.scratch_bytes;
    x.spills = t_spills_of(&info);
    x.split_k = split_of(&problem, target, m);
    traffic(&p, &x);
    model(&p, &x);
    quern_sim_profile_free(&p);
    unmap(&memory);
    quern_op_release(op);
    return x;
}

/* ---- Judging --------------------------------------------------------------------------------- */

static void print(const char *target, const char *problem, int m, const struct t_metrics *x)
{
    print_message("%s %s m=%d: %.2f slots, LDS %.3f, weights by wave %.3f, by workgroup %.3f, "
                  "L2 %.2f, in flight %.1f, prologue %.1f %%, %s %.1f %% of %.2f us, %u of %u "
                  "waves\n",
                  target, problem, m, x->slots, x->lds, x->wave_bytes, x->group_bytes, x->l2,
                  x->in_flight, 100 * x->prologue, x->port_name, 100 * x->port, x->memory_us,
                  x->waves, x->waves_fit);
}

/* The first thing that is asked for and missed; null: nothing. */
static const char *missed(const char *target, int m, double port_max, const struct t_metrics *x)
{
    const unsigned waves = target_named(target)->wave_size == 64 ? 4 : 8;
    const int64_t weights = x->n * x->k;

    if (x->scratch || x->spills)
        return "it spills";
    /* gfx950 reads from 64 banks, and tables of small layers, of short rows and of matrix units
     * have copies for 32 (docs/kernels.md) */
    const bool half = !strcmp(target, "gfx950") && (m > 1 || weights < 1 << 23 || x->k < 4096);
    if (x->lds > (half ? 2.0 : 1.1))
        return "LDS passes beyond 1.1 times the fewest";
    if (weights < 1 << 24)
        return NULL;
    /* waves that share a row may share all lines of its scales too */
    if (x->group_bytes > 1.05 || x->wave_bytes > 1.05 + (x->split_k - 1) * x->scale_share)
        return "bytes of weights beyond 1.05 times their size";
    if (x->l2 > 2)
        return "bytes asked of L2 beyond twice the weights";
    if (x->in_flight < 1)
        return "too few bytes in flight";
    if (weights >= 1 << 26 && x->prologue > 0.1)
        return "a prologue beyond 10 % of memory time";
    if (x->port > (port_max ? port_max : 0.8))
        return "a port that is busy for too long";
    if (m > 1)
        return NULL;
    /* waves hide latency; with twice the bytes in flight it is hidden without */
    if (x->waves < waves && !x->one_round && x->in_flight < 2)
        return "too few waves";
    return x->memory_bound || port_max > 1 ? NULL : "not bound by memory";
}

void t_metrics_check(const char *target, const char *problem, int m, double port_max,
                     const struct t_metrics *x)
{
    const char *const why = missed(target, m, port_max, x);

    print(target, problem, m, x);
    if (why)
        fail_msg("%s on %s: %s", x->kernel, target, why);
}
