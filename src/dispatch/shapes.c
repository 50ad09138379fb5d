/* SPDX-License-Identifier: MIT */
/* The shapes among which a kernel's was chosen, for whoever wants to measure them. */
#include "dispatch/dispatch.h"

#include "target/rates.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

struct list {
    struct quern_shape *shapes;
    size_t count;
};

static void add(void *user, const struct plan *p)
{
    struct list *const list = user;
    struct quern_shape *const s = &list->shapes[list->count++];
    const int64_t kernel = p->estimate.kernel_cycles, memory = p->estimate.memory_cycles;

    static_assert(sizeof s->words == PLAN_SHAPE_MAX, "room for the words of a shape");
    plan_shape(p, s->words);
    s->model_us = target_microseconds(p->target, (double)(kernel > memory ? kernel : memory));
}

/* Plans a set of one kernel: the one that serves m rows, in the model's shape. */
static quern_status plan_one(quern_ctx *ctx, const struct quern_problem *problem, int64_t m,
                             struct plan_set *set)
{
    struct quern_problem normal;
    struct plan_set all;

    TRY(problem_normalise(problem, &normal));
    FAIL_IF(!problem_has_activation(&normal), QUERN_E_DECLINED,
            "an op that multiplies nothing has one shape");
    TRY(check_verified(ctx));
    TRY(plan_make_tuned(&normal, ctx->planned, NULL, &ctx->settings.force, &all));
    FAIL_IF(m < 1 || m > all.m_max, QUERN_E_ARGUMENT, "m is %" PRId64 "; expected 1 to %d", m,
            all.m_max);
    *set = (struct plan_set){.count = 1, .m_max = all.m_max, .plans = {*plan_for(&all, m)}};
    return QUERN_OK;
}

quern_status quern_op_shapes(quern_ctx *ctx, const struct quern_problem *problem, int64_t m,
                             struct quern_shape *shapes, size_t *count)
{
    struct list list = {.shapes = shapes};
    struct plan_set set;

    FAIL_IF(!ctx || !shapes || !count || !*count, QUERN_E_ARGUMENT, "a null or empty argument");
    TRY(plan_one(ctx, problem, m, &set));
    TRY(plan_candidates(&set.plans[0], *count, add, &list));
    *count = list.count;
    return QUERN_OK;
}

quern_status quern_op_create_shape(quern_ctx *ctx, const struct quern_problem *problem, int64_t m,
                                   const char *shape, quern_op **op)
{
    struct plan_set set;

    FAIL_IF(!ctx || !shape || !op, QUERN_E_ARGUMENT, "a null argument");
    TRY(plan_one(ctx, problem, m, &set));
    TRY(plan_reshape(&set.plans[0], shape));
    return op_of_plans(ctx, &set, &(struct op_wanted){.count = 1}, op);
}
