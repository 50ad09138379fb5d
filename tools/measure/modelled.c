/* SPDX-License-Identifier: MIT */
/* Runs an op's launches on the software GPU for the time that its model gives (modelled.h). */
#include "measure/modelled.h"

#include <stdlib.h>
#include <string.h>

int simulation_hold(struct simulation *s, const quern_op *op)
{
    const size_t count = quern_op_kernel_count(op);

    s->objects = calloc(count + 1, sizeof *s->objects);
    if (!s->objects)
        return fail("out of memory");
    for (size_t i = 0; i < count; i++) {
        struct quern_kernel_info kernel = QUERN_INIT(struct quern_kernel_info);
        const quern_status e = quern_op_kernel(op, i, &kernel);
        if (e)
            return fail_status(e, NULL);
        struct plan_object *o = &s->objects[s->object_count++];
        *o = (struct plan_object){launch_object_name(&kernel), kernel.object, kernel.object_bytes};
        if (!o->name)
            return fail("out of memory");
    }
    return EXIT_OK;
}

static int add_launch(const struct simulation *s, size_t index, double *us)
{
    struct quern_sim_profile profile = QUERN_INIT(struct quern_sim_profile);
    struct quern_sim_model model = QUERN_INIT(struct quern_sim_model);
    struct ready_launch ready;

    int status = simulation_launch(s, index, &ready);
    if (!status) {
        quern_status e =
            quern_sim_profile_run(ready.module, &ready.launch, QUERN_EXTENT_AUTO, 0, &profile);
        if (!e)
            e = quern_sim_model_make(&profile, &model);
        if (e)
            status = fail_status(e, ready.launch.kernel);
        *us += model.total_us;
        quern_sim_profile_free(&profile);
    }
    simulation_launch_free(&ready);
    return status;
}

static int make_plan(struct simulation *s, quern_op *op, const struct quern_problem *problem,
                     const char *target, int64_t m)
{
    json_t *plan = NULL;
    bool *const used = calloc(quern_op_kernel_count(op) + 1, sizeof *used);

    if (!used)
        return fail("out of memory");
    int status = launch_plan_make(op, problem, target, m, &plan, used);
    free(used);
    if (!status && !(status = launch_plan_take(plan, "the plan", &s->plan)))
        status = simulation_hold(s, op);
    return status;
}

int modelled_us(const struct common *common, quern_op *op, const struct quern_problem *problem,
                const char *target, int64_t m, double *us)
{
    struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);
    struct simulation s = {.invent = true};
    struct common on_sim = *common;

    on_sim.target = target;
    options.check = QUERN_CHECK_FAST;
    *us = 0;
    int status = make_plan(&s, op, problem, target, m);
    if (!status && !(status = simulation_operands(&s)))
        status = simulation_open(&s, &on_sim, &options);
    for (size_t i = 0; !status && i < s.plan.launch_count; i++)
        status = add_launch(&s, i, us);
    simulation_free(&s);
    return status;
}
