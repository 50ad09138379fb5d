/* SPDX-License-Identifier: MIT */
/* quern profile: counts of a problem's kernels, or of any launch plan, and what they should cost.
 */
#include "profile/profile_report.h"
#include "files/json_file.h"
#include "measure/modelled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct profiling {
    struct common common;
    struct m_set m_set;
    int extent; /* enum quern_sim_extent; 0: auto */
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    struct simulation simulation;
    quern_op *op;
    struct profile_report report;
    const char *html;
    struct outputs outputs;
};

/* ---- What to run ----------------------------------------------------------------------------- */

/* The plan that quern build would write, in memory. */
static int plan_problem(struct profiling *p)
{
    struct quern_target_info target;
    json_t *plan = NULL;
    int64_t m;
    int status;

    if ((status = options_problem(&p->common, &p->problem, p->text)) ||
        (status = options_target(&p->common, &target)) || (status = options_one_m(&p->m_set, &m)) ||
        (status = open_sim_context(&p->common, p->common.target, &p->simulation.ctx)))
        return status;
    const quern_status e = quern_op_create_range(p->simulation.ctx, &p->problem, m, m, &p->op);
    if (e)
        return fail_status(e, NULL);
    bool *used = calloc(quern_op_kernel_count(p->op) + 1, sizeof *used);
    if (!used)
        return fail("out of memory");
    status = launch_plan_make(p->op, &p->problem, p->common.target, m, &plan, used);
    free(used);
    if (status || (status = launch_plan_take(plan, p->text, &p->simulation.plan)))
        return status;
    return simulation_hold(&p->simulation, p->op);
}

static bool is_plan(const char *argument)
{
    const size_t length = strlen(argument);

    return (length > 5 && !strcmp(argument + length - 5, ".json")) || !access(argument, F_OK);
}

static int plan_any(struct profiling *p)
{
    if (!p->common.argument_count)
        return misuse("what? give a problem in quotes, e.g. \"wq=nf4 n=4096 k=4096 a=bf16\", or a "
                      "plan.json");
    if (!is_plan(p->common.arguments[0]))
        return plan_problem(p);
    if (p->m_set.count)
        return misuse("a plan says for how many rows it is; --m goes with a problem");
    return simulation_read(&p->simulation, &p->common);
}

/* ---- Running --------------------------------------------------------------------------------- */

static int run_launch(struct profiling *p, size_t index)
{
    struct launch_profile *l = &p->report.launches[index];
    struct ready_launch ready;

    l->launch = &p->simulation.plan.launches[index];
    int status = simulation_launch(&p->simulation, index, &ready);
    if (!status) {
        l->profile.size = sizeof l->profile;
        l->model.size = sizeof l->model;
        quern_status e = quern_sim_profile_run(
            ready.module, &ready.launch,
            p->extent ? (enum quern_sim_extent)p->extent : QUERN_EXTENT_AUTO, 0, &l->profile);
        if (!e)
            e = quern_sim_model_make(&l->profile, &l->model);
        if (e) {
            fail_status(e, ready.launch.kernel);
            status = EXIT_FAILED;
        }
        p->report.count = index + 1;
        p->report.total_us += l->model.total_us;
    }
    /* texts of instructions live as long as the module: copy them */
    for (size_t i = 0; !status && i < l->profile.insn_count; i++) {
        l->profile.insns[i].text = strdup(l->profile.insns[i].text);
        if (!l->profile.insns[i].text) {
            l->profile.insn_count = i;
            status = fail("out of memory");
        }
    }
    if (status)
        l->profile.insn_count = 0;
    simulation_launch_free(&ready);
    return status;
}

/* Finds N·K and the size of C, if the plan says them. */
static void find_sizes(struct profiling *p)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct profile_report *r = &p->report;

    if (!p->simulation.plan.problem || !p->simulation.plan.m ||
        quern_problem_parse(p->simulation.plan.problem, &problem))
        return;
    r->problem = p->simulation.plan.problem;
    r->m = p->simulation.plan.m;
    r->weights = (double)problem.n * (double)problem.k;
    r->outputs = problem.op == QUERN_OP_DEQUANT
                     ? r->weights
                     : (double)r->m * (double)(problem.act ? problem.n / 2 : problem.n);
}

static int write_html(struct profiling *p)
{
    size_t size;
    char *page = profile_html(&p->report, &size);

    if (!page)
        return fail("out of memory");
    const int status = outputs_add(&p->outputs, p->html, page, size);
    free(page);
    return status ? status : outputs_commit(&p->outputs);
}

static int profile(struct profiling *p)
{
    struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);
    struct simulation *s = &p->simulation;
    int status;

    s->invent = true;
    options.check = QUERN_CHECK_FAST;
    if ((status = plan_any(p)) || (status = simulation_operands(s)) ||
        (status = simulation_open(s, &p->common, &options)))
        return status;
    p->report.target = (struct quern_target_info)QUERN_INIT(struct quern_target_info);
    const quern_status e = quern_target_find(s->target, &p->report.target);
    if (e)
        return fail_status(e, NULL);
    find_sizes(p);
    p->report.launches = calloc(s->plan.launch_count, sizeof *p->report.launches);
    if (!p->report.launches)
        return fail("out of memory");
    for (size_t i = 0; !status && i < s->plan.launch_count; i++)
        status = run_launch(p, i);
    if (!status && p->html)
        status = write_html(p);
    if (status)
        return status;
    return p->common.json ? profile_print_json(&p->report) : profile_print(&p->report);
}

static void free_report(struct profile_report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct quern_sim_profile *q = &r->launches[i].profile;
        for (size_t j = 0; j < q->insn_count; j++)
            free((char *)q->insns[j].text);
        quern_sim_profile_free(q);
    }
    free(r->launches);
}

int verb_profile(int argc, char **argv)
{
    static const struct usage usage = {
        "--target GFX --m M PROBLEM | PLAN.json [NAME=FILE...]",
        "Counts what the kernels for M rows of PROBLEM do, or the launches of any plan, on\n"
        "the software GPU, and models what that should cost on the target's retail part.\n"
        "Operands without a file are made up; results are thrown away.\n"};
    struct profiling p = {0};
    const struct flag flags[] = {
        {"m", FLAG_M, &p.m_set, "M", "rows of A"},
        {"html", FLAG_TEXT, &p.html, "FILE", "write a page: roofline, and heat map of the code"},
        {"workgroups", FLAG_CHOICE, &p.extent, "WHICH",
         "all; kinds: one of each, scaled; auto (default): by the size", "auto|all|kinds"},
        CHOICES_FLAG(&p.simulation.choices),
        {0},
    };

    int status = options_parse(&p.common, argc, argv, &usage, flags);
    if (status < 0)
        status = profile(&p);
    outputs_discard(&p.outputs);
    free_report(&p.report);
    quern_op_release(p.op);
    simulation_free(&p.simulation);
    return status;
}
