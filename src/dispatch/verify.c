/* SPDX-License-Identifier: MIT */
/* Runs an op's kernels on a software GPU of its own, or their texts on the CPU, and compares with
 * the double reference. */
#include "dispatch/dispatch.h"

#include "base/extensible.h"
#include "base/os.h"
#include "cpu/cpu.h"
#include "gen/gen.h"
#include "quant/quant.h"
#include "sim/load.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Operands on the host and where the software GPU sees them. */
struct bench {
    struct quern_problem problem; /* the op's; of op=moe with the block_rows of the launch */
    quern_sim *sim;
    union operand_pointers host;
    struct arg_values guest;
    double *reference;               /* the right results of op=gemm, as C has them */
    float *weights;                  /* the right results of op=dequant, [N,K] */
    int32_t *aligned[OPERAND_COUNT]; /* the right results of op=moe_align, by operand */
};

/* Room for the right results. */
static quern_status set_up_reference(struct bench *b, int64_t m)
{
    const struct quern_problem *const p = &b->problem;
    struct quern_operand o;
    bool room = true;

    for (int i = 0; i < OPERAND_COUNT && p->op == QUERN_OP_MOE_ALIGN; i++)
        if (operand_describe(p, (enum operand)i, m, &o) && o.access == QUERN_SIM_WRITE)
            room &= (b->aligned[i] = os.malloc(o.bytes)) != NULL;
    if (p->op == QUERN_OP_DEQUANT)
        room = (b->weights = os.malloc((size_t)p->n * (size_t)p->k * sizeof(float)));
    else if (problem_has_activation(p))
        room = (b->reference = os.malloc((size_t)(problem_results(p, m) * problem_columns(p)) *
                                         sizeof(double)));
    FAIL_IF(!room, QUERN_E_MEMORY, "out of memory for the reference of m=%" PRId64, m);
    return QUERN_OK;
}

static quern_status set_up(struct bench *b, quern_op *op, int64_t m, uint64_t seed,
                           enum quern_sim_check check)
{
    struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);
    const struct quern_problem *const p = &b->problem;

    b->problem = op->spelling.problem;
    TRY(problem_check_rows(p, m));
    if (p->op == QUERN_OP_MOE)
        TRY(quern_op_block_rows(op, m, &b->problem.block_rows));
    struct quern_operand o;

    for (int i = 0; i < OPERAND_COUNT; i++) {
        if (!operand_describe(p, (enum operand)i, m, &o))
            continue;
        b->host.at[i] = os.calloc(1, o.bytes);
        FAIL_IF(!b->host.at[i], QUERN_E_MEMORY, "out of memory for operand %s of %" PRIu64 " bytes",
                o.name, o.bytes);
    }
    TRY(set_up_reference(b, m));
    TRY(quant_random(p, m, seed, &b->host));

    if (op->ctx->id.target->judge == JUDGE_CPU)
        return QUERN_OK;
    options.target = op->ctx->id.target->name;
    options.check = check;
    options.arithmetic = QUERN_ARITHMETIC_SILICON; /* tolerances hold for what processors do */
    options.threads = op->ctx->settings.jobs;
    options.disassembler = quern_ctx_disassembler(op->ctx);
    options.worker_path = op->ctx->settings.worker_path;
    TRY(quern_sim_open(&options, &b->sim));
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operand_describe(p, (enum operand)i, m, &o))
            TRY(quern_sim_map(b->sim, b->host.at[i], o.bytes, o.access, o.name, &b->guest.of[i]));
    return QUERN_OK;
}

/* The weights that a launch on the operands reads: of op=moe those of experts that have blocks. */
static uint64_t weights_of(const struct bench *b)
{
    const struct quern_problem *const p = &b->problem;
    const uint64_t matrix = (uint64_t)p->n * (uint64_t)p->k;
    bool seen[PROBLEM_EXPERTS_MAX] = {false};
    uint64_t experts = 0;

    if (p->op != QUERN_OP_MOE)
        return matrix;
    const int32_t *const of_block = b->host.experts;
    const uint32_t used = *(const uint32_t *)b->host.rows_used;
    for (uint32_t i = 0; i < used / (uint32_t)p->block_rows; i++)
        if (of_block[i] >= 0 && of_block[i] < p->experts && !seen[of_block[i]]) {
            seen[of_block[i]] = true;
            experts++;
        }
    return experts * matrix;
}

static quern_status run_slice(struct bench *b, const struct kernel *k, const struct plan_slice *s,
                              struct quern_sim_counts *counts)
{
    struct quern_sim_launch launch = QUERN_INIT(struct quern_sim_launch);
    _Alignas(16) uint8_t kernarg[KERNARG_MAX];
    quern_sim_module *module;

    launch.kernel = k->plan.symbol;
    launch.kernarg = kernarg;
    plan_geometry(s->plan, s->slices, 0, launch.grid, launch.block);
    arg_numbers(&b->guest, s, 0, launch.grid, 0, 0);
    launch.kernarg_bytes = pack_args(k, &b->guest, kernarg);
    TRY(sim_load(b->sim, &k->object, &module));
    const quern_status status = quern_sim_run(module, &launch, counts);
    quern_sim_unload(module);
    return status;
}

quern_status verify_text(const struct plan_slice *s, const char *source,
                         const union operand_pointers *host, int64_t m, unsigned units,
                         uint64_t seed)
{
    struct quern_problem problem = s->plan->problem, *const p = &problem;
    struct cpu_launch launch = {.shared_bytes = plan_launch_lds(s->plan), .seed = seed};
    enum plan_arg args[PLAN_ARG_COUNT];
    uint32_t grid[3], block[3];
    struct arg_values values = {0}; /* an operand that the launch leaves out is null */

    if (s->plan->block_rows)
        problem.block_rows = s->plan->block_rows;
    plan_geometry(s->plan, s->slices, units, grid, block);
    arg_numbers(&values, s, 0, grid, 0, 0);
    memcpy(launch.grid, grid, sizeof launch.grid);
    launch.threads = block[0];
    launch.count = plan_args(s->plan, args);
    for (size_t i = 0; i < launch.count; i++) {
        struct cpu_argument *const a = &launch.arguments[i];
        struct quern_operand o;
        if (plan_arg_is_operand(args[i]) && host->at[args[i]] &&
            operand_describe(p, (enum operand)args[i], m, &o))
            *a = (struct cpu_argument){.name = o.name,
                                       .at = host->at[args[i]],
                                       .bytes = o.bytes,
                                       .written = o.access == QUERN_SIM_WRITE,
                                       .late = operand_rows[args[i]].owner == OWNER_LAUNCH};
        else
            *a = (struct cpu_argument){.bytes = plan_arg_bytes(args[i]),
                                       .value = (int64_t)values.of[args[i]]};
    }
    return cpu_run(source, &launch);
}

/* The text that a kernel was compiled from. */
static quern_status run_text(struct bench *b, const struct plan_slice *s, int64_t m, uint64_t seed)
{
    struct str source = {0};

    quern_status status = gen_source(s->plan, &source);
    if (status == QUERN_OK)
        status = verify_text(s, str_text(&source), &b->host, m, 0, seed);
    str_free(&source);
    return status;
}

/* Fills results with ones, which are NaN in every type: so one that the kernel never stores cannot
 * pass for a small number. Those of op=moe_align are integers, and ones are -1, which is a right
 * result: they get what is no choice, no expert and no number of slots. */
static void spoil_results(const struct bench *b, const struct quern_problem *p, int64_t m)
{
    struct quern_operand o;

    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operand_describe(p, (enum operand)i, m, &o) && o.access == QUERN_SIM_WRITE)
            memset(b->host.at[i], p->op == QUERN_OP_MOE_ALIGN ? 0xa5 : 0xff, o.bytes);
}

static quern_status run(struct bench *b, quern_op *op, int64_t m, uint64_t seed,
                        struct quern_verification *out)
{
    const struct kernel_set *const set = atomic_load(&op->kernels);
    struct plan_slice slices[2];
    const uint64_t start = os_now();

    spoil_results(b, &b->problem, m);

    FAIL_IF(!set, QUERN_E_NOT_READY, "kernels of %s are not there yet: see quern_op_ready",
            op->text);
    const size_t count = plan_slices(&set->plans, m, slices);

    for (size_t i = 0; i < count && op->ctx->id.target->judge == JUDGE_CPU; i++)
        TRY(run_text(b, &slices[i], m, seed));
    for (size_t i = 0; i < count && op->ctx->id.target->judge != JUDGE_CPU; i++)
        TRY(run_slice(b, set->kernels[slices[i].plan - set->plans.plans], &slices[i],
                      &out->counts));
    out->seconds = (double)(os_now() - start) * 1e-9;
    return QUERN_OK;
}

/* The error that flushed denormals add: CDNA 2's products take denormals of f16 for 0. Of K random
 * weights of about 1/sqrt(K), K^1.5 * 2^-14.3 are denormal, and about 2^-14.8 each: together 2^-22
 * * K^0.75 of the result. The largest of many errors is up to twice that. With few weights a single
 * one counts: 1e-4. */
static double flushed_of(const struct quern_problem *p, const struct target *t)
{
    const bool flushes = t->capabilities & CAP_FLUSHES_HALVES && p->a == QUERN_F16;

    return flushes ? 1e-4 + 0x1p-21 * pow((double)p->k, 0.75) : 0;
}

/* The largest error that passes, of the largest result. Kernels of 4-bit weights in 16-bit types
 * differ from the reference because the values of codes, and results, are rounded to the type. In
 * f32, and of weights that are multiplied as they are, only the order and the rounding of the sum
 * differ: with the adders of RDNA and CDNA by up to 2e-6 for a K up to 65536 (docs/kernels.md). A
 * kernel that leaves out one product is seen while 1e-5 is less than 1 / sqrt(2 ln n K) of the
 * largest of n results; test_verify.c derives it. */
static double tolerance_of_product(const struct quern_problem *p, const struct target *t)
{
    if (!problem_has_activation(p))
        return 0; /* one product, rounded as the CPU rounds it */
    if (p->c == QUERN_F32 && (p->a == QUERN_F32 || p->layout == QUERN_LAYOUT_DENSE))
        return 1e-5 + flushed_of(p, t);
    if (p->layout == QUERN_LAYOUT_DENSE) /* one unit in the last place of the largest result */
        return flushed_of(p, t) + (p->c == QUERN_F16               ? 0x1p-10
                                   : p->round == QUERN_ROUND_TRUNC ? 0x1.1p-7
                                                                   : 0x1p-7);
    return p->round == QUERN_ROUND_TRUNC ? 9e-3 : 5e-3;
}

/* The same of what kernels store. With act an error of the product counts with the slope of what is
 * made of it: of two rows, each with an error, and where a bound cuts off the largest results, with
 * more of those that are left. */
static double tolerance_of(const struct quern_problem *p, const struct target *t)
{
    return tolerance_of_product(p, t) * (p->act ? 4 : 1);
}

static void compare(const struct bench *b, const struct quern_problem *p, int64_t m,
                    struct quern_verification *out)
{
    const size_t count = (size_t)(problem_results(p, m) * problem_columns(p));
    double largest = 0, difference = 0;

    for (size_t i = 0; i < count; i++) {
        const double y = (double)quant_load(p->c, b->host.c, i), d = fabs(y - b->reference[i]);
        /* written so that a NaN counts as larger */
        if (!(d <= difference))
            difference = isnan(d) ? INFINITY : d;
        if (fabs(b->reference[i]) > largest)
            largest = fabs(b->reference[i]);
    }
    out->max_error = difference == 0 ? 0 : largest > 0 ? difference / largest : INFINITY;
}

/* Like compare, of weights that must be the CPU's to the last bit; a NaN is like any other. */
static void compare_weights(const struct bench *b, const struct quern_problem *p,
                            struct quern_verification *out)
{
    const size_t count = (size_t)p->n * (size_t)p->k;
    const bool cut = p->round == QUERN_ROUND_TRUNC && p->c == QUERN_BF16;
    double largest = 0, difference = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t word = 0;
        if (cut) { /* truncated to bf16, the upper half; but a NaN stays a NaN */
            memcpy(&word, &b->weights[i], sizeof word);
            word = isnan(b->weights[i]) ? 0x7fc0 : word >> 16;
        } else {
            quant_store(p->c, &word, 0, b->weights[i]);
        }
        const double want = (double)quant_load(p->c, &word, 0);
        const double got = (double)quant_load(p->c, b->host.c, i);
        if (isnan(want) && isnan(got))
            continue;
        const bool same = want == got && signbit(want) == signbit(got);
        const double d = fabs(want - got);
        /* a zero of the wrong sign, or an infinity, is an infinite error */
        if (!same && !(d > 0 && d <= difference))
            difference = d > 0 ? d : INFINITY;
        if (fabs(want) > largest)
            largest = fabs(want);
    }
    out->max_error = difference == 0 ? 0 : largest > 0 ? difference / largest : INFINITY;
}

/* Compares the blocks of op=moe_align: every integer must be the CPU's. max_error becomes 0, or how
 * many differ of the first operand that has such. */
static quern_status compare_blocks(const struct bench *b, const quern_op *op, int64_t m,
                                   struct quern_verification *out)
{
    const struct quern_problem *const p = &b->problem;
    struct quern_operand o;

    quant_moe_align(p, m, b->host.topk_ids, b->aligned[OPERAND_ROWS], b->aligned[OPERAND_EXPERTS],
                    b->aligned[OPERAND_ROWS_USED]);
    for (int i = 0; i < OPERAND_COUNT; i++) {
        const int32_t *const got = b->host.at[i], *const want = b->aligned[i];
        size_t differ = 0, first = 0;
        if (!want || !operand_describe(p, (enum operand)i, m, &o))
            continue;
        const size_t count = o.bytes / sizeof *got;
        for (size_t at = count; at-- > 0;)
            if (got[at] != want[at]) {
                first = at;
                differ++;
            }
        out->max_error = (double)differ;
        FAIL_IF(differ, QUERN_E_VERIFY,
                "%s at m=%" PRId64 " on %s: %s[%zu] is %" PRId32 ", and by the CPU %" PRId32
                "; %zu of its %zu numbers differ",
                op->text, m, op->ctx->id.target->name, o.name, first, got[first], want[first],
                differ, count);
    }
    return QUERN_OK;
}

static void tear_down(struct bench *b)
{
    quern_sim_close(b->sim);
    for (size_t i = 0; i < OPERAND_COUNT; i++) {
        os.free(b->host.at[i]);
        os.free(b->aligned[i]);
    }
    os.free(b->reference);
    os.free(b->weights);
}

/*
 * Runs the kernels and compares; again under each model of sums that nobody has published, if they
 * are met: the processor may be any of these, so that the largest error counts, and everything else
 * is the first run's.
 */
static quern_status verify(struct bench *b, quern_op *op, int64_t m, uint64_t seed,
                           enum quern_sim_check check, struct quern_verification *out)
{
    const struct quern_problem *const p = &b->problem;
    char under[64] = "";

    TRY(set_up(b, op, m, seed, check));
    out->weights = weights_of(b);
    TRY(run(b, op, m, seed, out));
    if (p->op == QUERN_OP_MOE_ALIGN)
        return compare_blocks(b, op, m, out);
    if (!problem_has_activation(p)) {
        TRY(quant_dequantise(p, &b->host, b->weights));
        compare_weights(b, p, out);
    } else {
        TRY(quant_reference(p, &b->host, m, b->reference));
        compare(b, p, m, out);
    }
    for (int n = 2; b->sim && problem_has_activation(p) && sim_next_candidate(b->sim); n++) {
        struct quern_verification other = {.counts = QUERN_INIT(struct quern_sim_counts)};
        TRY(run(b, op, m, seed, &other));
        compare(b, p, m, &other);
        if (other.max_error > out->max_error) {
            out->max_error = other.max_error;
            snprintf(under, sizeof under, " when sums are made by candidate %d", n);
        }
    }
    FAIL_IF(!(out->max_error <= out->tolerance), QUERN_E_VERIFY,
            "%s at m=%" PRId64
            " on %s differs from the reference by %.3g of its largest value%s; %.3g is "
            "allowed",
            op->text, m, op->ctx->id.target->name, out->max_error, under, out->tolerance);
    return QUERN_OK;
}

quern_status verify_within(quern_op *op, int64_t m, uint64_t seed, enum quern_sim_check check,
                           struct quern_verification *v)
{
    struct bench b = {0};
    const quern_status status = verify(&b, op, m, seed, check, v);

    tear_down(&b);
    return status;
}

quern_status quern_verify(quern_op *op, int64_t m, uint64_t seed, enum quern_sim_check check,
                          struct quern_verification *out)
{
    const struct extensible *const type =
        EXTENSIBLE(quern_verification, QUERN_VERIFICATION_SIZE_MIN);

    FAIL_IF(!op, QUERN_E_ARGUMENT, "op is null");
    TRY(extensible_check(type, out));
    FAIL_IF(m < 1 || m > 65536, QUERN_E_ARGUMENT, "m is %" PRId64 "; expected 1 to 65536", m);
    struct quern_verification own = {.max_error = INFINITY,
                                     .tolerance =
                                         tolerance_of(&op->spelling.problem, op->ctx->id.target),
                                     .counts = QUERN_INIT(struct quern_sim_counts)};
    const quern_status status = verify_within(op, m, seed, check, &own);
    extensible_write(type, &own, out);
    return status;
}
