/* SPDX-License-Identifier: MIT */
/* The hot path: which kernel, which arguments, launch. No allocation, no lock, no system call. */
#include "dispatch/dispatch.h"

#include "base/extensible.h"
#include "plan/base.h"

#include <inttypes.h>
#include <string.h>

/* ---- Arguments ------------------------------------------------------------------------------- */

void arg_numbers(struct arg_values *values, const struct plan_slice *slice, int64_t before,
                 const uint32_t grid[3], int64_t lda, int64_t ldc)
{
    const struct quern_problem *const p = &slice->plan->problem;

    values->of[PLAN_ARG_M] = (uint64_t)problem_results(p, slice->rows);
    values->of[PLAN_ARG_FIRST] = (uint64_t)(before + slice->first);
    values->of[PLAN_ARG_LDA] = (uint64_t)(lda ? lda : p->k);
    values->of[PLAN_ARG_LDC] = (uint64_t)(ldc ? ldc : problem_columns(p));
    values->of[PLAN_ARG_WORKGROUPS] = plan_workgroups(slice->plan, grid);
    values->of[PLAN_ARG_SLICES] = (uint64_t)slice->slices;
    if (!plan_is_base(slice->plan))
        return;
    const int64_t group = problem_group(p);
    values->of[PLAN_ARG_N] = (uint64_t)p->n;
    values->of[PLAN_ARG_K] = (uint64_t)p->k;
    values->of[PLAN_ARG_BLOCK_SHIFT] = base_block_shift(p);
    values->of[PLAN_ARG_BLOCKS] = group ? (uint64_t)(p->k / group) : 0;
    values->of[PLAN_ARG_HAS_BIAS] = (uint64_t)p->bias;
    values->of[PLAN_ARG_TRUNCATE] = p->round == QUERN_ROUND_TRUNC;
}

size_t pack_args(const struct kernel *kernel, const struct arg_values *values,
                 uint8_t kernarg[KERNARG_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < kernel->arg_count; i++) {
        const uint64_t value = values->of[kernel->args[i]];
        const size_t size = plan_arg_bytes(kernel->args[i]);
        /* a number of four bytes is stored with four zeros behind it, which the next one overwrites
         * unless they are padding. The memcpy has a constant size, so that it becomes a store */
        const uint64_t word = size == sizeof(uint32_t) ? (uint32_t)value : value;

        n = (n + size - 1) & ~(size - 1);
        memcpy(kernarg + n, &word, sizeof word);
        n += size;
    }
    return n;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* The largest lda and ldc, in elements: times 2^31 rows and 4 bytes, offsets fit in 64 bits. */
#define LD_MAX ((int64_t)1 << 31)

/* Of an operand that a launch of an op with those operands wants, or that is given. */
static quern_status check_address(uint32_t operands, const struct operand_row *row,
                                  const void *address)
{
    char all[OPERANDS_TEXT];

    if (!address) {
        for (int i = 0; i < OPERAND_COUNT; i++)
            operands &= ~((uint32_t)operand_rows[i].optional << i);
        operands_text(operands, all);
        FAIL(QUERN_E_ARGUMENT, "args.%s is null; expected the addresses of %s", row->name, all);
    }
    FAIL_IF((uintptr_t)address & (row->alignment - 1), QUERN_E_ALIGN,
            "args.%s is %p; expected a multiple of %u", row->name, address, row->alignment);
    return QUERN_OK;
}

static quern_status check_strides(const struct quern_problem *p, const struct quern_args *args)
{
    if (!problem_has_weights(p))
        return QUERN_OK;
    if (!problem_has_activation(p)) {
        FAIL_IF(args->ldc && args->ldc != p->k, QUERN_E_ARGUMENT,
                "args.ldc is %" PRId64
                " elements; weights are written in packed rows, 0 or k=%" PRId64,
                args->ldc, p->k);
        return QUERN_OK;
    }
    FAIL_IF(args->lda && (args->lda < p->k || args->lda > LD_MAX), QUERN_E_ARGUMENT,
            "args.lda is %" PRId64 " elements; expected 0 or at least k=%" PRId64, args->lda, p->k);
    const int64_t columns = problem_columns(p);
    FAIL_IF(args->ldc && (args->ldc < columns || args->ldc > LD_MAX), QUERN_E_ARGUMENT,
            "args.ldc is %" PRId64 " elements; expected 0 or at least n%s=%" PRId64, args->ldc,
            p->act ? "/2" : "", columns);
    FAIL_IF(args->lda * dtype_bytes(p->a) % plan_row_align(p), QUERN_E_ALIGN,
            "args.lda is %" PRId64 " elements of %u bytes; expected rows of a multiple of %u bytes",
            args->lda, dtype_bytes(p->a), plan_row_align(p));
    return QUERN_OK;
}

/* Of op=moe_align, which writes exactly as many slots as so many rows can have. */
static quern_status check_aligned_slots(const struct quern_problem *p,
                                        const struct quern_args *args, int64_t m)
{
    if (p->op != QUERN_OP_MOE_ALIGN || !args->slots)
        return QUERN_OK;
    FAIL_IF(args->slots != problem_slots(p, m), QUERN_E_ARGUMENT,
            "args.slots is %" PRId64 "; op=moe_align expects 0 or the %" PRId64
            " that quern_moe_slots gives for %" PRId64 " tokens",
            args->slots, problem_slots(p, m), m);
    return QUERN_OK;
}

static quern_status check_args(const quern_op *op, const struct quern_args *args, int64_t m)
{
    const struct quern_problem *const p = &op->spelling.problem;

    TRY(problem_check_rows(p, m));
    for (uint32_t left = op->operands; left; left &= left - 1) {
        const enum operand i = (enum operand)__builtin_ctz(left);
        const void *const address = operand_address(args, i);
        if (address || !operand_rows[i].optional)
            TRY(check_address(op->operands, &operand_rows[i], address));
    }
    FAIL_IF(args->flags & ~(uint64_t)QUERN_WEIGHTS_CONSTANT, QUERN_E_ARGUMENT,
            "args.flags are %" PRIu64 "; expected 0 or QUERN_WEIGHTS_CONSTANT", args->flags);
    TRY(check_aligned_slots(p, args, m));
    return check_strides(p, args);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

static size_t index_of(const struct kernel_set *set, const struct plan *plan)
{
    return (size_t)(plan - set->plans.plans);
}

static quern_status no_kernel_for_rows(int64_t m)
{
    FAIL(QUERN_E_ARGUMENT,
         "m is %" PRId64 "; the op was created for other numbers of rows, and has no kernel for "
         "the blocks of so many",
         m);
}

/* AMD's kernels of op=moe number the bytes of `rows`, four for a slot, in 32 bits: so many slots,
 * in whole blocks of any size, can be numbered. NVIDIA's have the same limit. */
#define SLOTS_MAX ((int64_t)UINT32_MAX / 4 - (PROBLEM_BLOCK_ROWS_MAX - 1))

/* Gives a launch of op=moe slices for so many slots, which a host that knows them gives; 0: for the
 * most that m rows can have. */
static quern_status count_slots(struct plan_slice *slice, int64_t m, int64_t slots)
{
    const struct plan *const plan = slice->plan;
    const int64_t of_grid = plan->slices_max * plan->m_tile / plan->block_rows * plan->block_rows;
    const int64_t most = of_grid < SLOTS_MAX ? of_grid : SLOTS_MAX;

    if (!slots) {
        const int64_t of_rows = slice->slices * plan->m_tile;
        FAIL_IF(of_rows > most, QUERN_E_ARGUMENT,
                "m is %" PRId64 ", which can have %" PRId64
                " slots; one launch takes at most %" PRId64
                ": set args.slots where fewer are known to be in use, or launch fewer rows at a "
                "time",
                m, of_rows, most);
        return QUERN_OK;
    }
    FAIL_IF(slots < 0 || slots > most || slots % plan->block_rows, QUERN_E_ARGUMENT,
            "args.slots is %" PRId64 "; expected 0, or a multiple of block_rows=%d up to %" PRId64
            " (the limit of a launch)",
            slots, plan->block_rows, most);
    slice->slices = slots / plan->m_tile;
    return QUERN_OK;
}

/* The launches of m rows; `slots`: of op=moe, quern_args.slots. */
static quern_status slices_of(const struct kernel_set *set, int64_t m, int64_t lda, int64_t slots,
                              struct plan_slice slices[2], size_t *count)
{
    const bool blocks = set->plans.plans->block_rows, far = lda > PLAN_TILE_LDA_MAX && !blocks;

    *count = far ? plan_slices_apart(&set->plans, m, slices) : plan_slices(&set->plans, m, slices);
    if (!*count && !far)
        return no_kernel_for_rows(m);
    FAIL_IF(!*count, QUERN_E_ARGUMENT,
            "lda is %" PRId64 "; the kernels of this op take rows of A at most %d elements apart",
            lda, PLAN_TILE_LDA_MAX);
    if (blocks)
        return count_slots(slices, m, slots);
    FAIL_IF(slices->slices > slices->plan->slices_max, QUERN_E_ARGUMENT,
            "m is %" PRId64 "; one launch takes at most %" PRId64 " rows (the limit of a grid)", m,
            slices->plan->slices_max * slices->plan->m_tile);
    return QUERN_OK;
}

/* Puts hipBLASLt's products for the first *done rows on the stream, behind the op that writes
 * 16-bit weights to the workspace; *done is 0 where the op's own kernels serve all rows. */
static quern_status launch_products(quern_op *op, const struct quern_args *args, int64_t m,
                                    void *stream, int64_t *done)
{
    struct op_blas *blas;
    quern_op *weights;
    bool any_rows;

    *done = 0;
    TRY(op_blas_choose(op, args, m, stream, &blas, &weights, &any_rows));
    if (!blas)
        return QUERN_OK;
    if (weights) {
        struct quern_args of_weights = *args;
        of_weights.c = args->workspace;
        of_weights.ldc = 0;
        TRY(quern_op_launch(weights, &of_weights, 1, stream));
    }
    return op_blas_multiply(op, blas, any_rows, args, m, stream, done);
}

/* Whether a launch may begin before the work in front of it in the stream has ended. */
static bool begins_early(const quern_ctx *ctx, const struct quern_args *args)
{
    return ctx->id.target->capabilities & CAP_EARLY_LAUNCH &&
           (args->flags & QUERN_WEIGHTS_CONSTANT ||
            ctx->settings.weights == QUERN_WEIGHTS_CONSTANT);
}

quern_status quern_op_launch(quern_op *op, const struct quern_args *given, int64_t m, void *stream)
{
    struct quern_args own;
    const void *view;
    struct plan_slice slices[2];
    size_t count;

    FAIL_IF(!op, QUERN_E_ARGUMENT, "op is null");
    TRY(op_check_open(op));
    TRY(extensible_view(EXTENSIBLE(quern_args, QUERN_ARGS_SIZE_MIN), given, &own, &view));
    const struct quern_args *const args = view;
    const struct quern_problem *const p = &op->spelling.problem;
    TRY(check_args(op, args, m));
    const struct kernel_set *const set = atomic_load_explicit(&op->kernels, memory_order_acquire);
    quern_op *const base = set ? NULL : atomic_load(&op->base);
    if (base)
        return quern_op_launch(base, given, m, stream);
    FAIL_IF(!set, QUERN_E_NOT_READY, "kernels of %s are not there yet: see quern_op_ready",
            op->text);
    struct device *const device = op->ctx->device;
    if (!device)
        return ctx_no_device(op->ctx);
    struct arg_values values;
#define OPERAND(number, name, ...) values.of[PLAN_ARG_##number] = (uintptr_t)args->name;
#include "problem/operands.def"
    int64_t done;
    TRY(launch_products(op, args, m, stream, &done));
    if (done == m)
        return QUERN_OK;
    const int64_t lda = args->lda ? args->lda : p->k;
    TRY(slices_of(set, m - done, lda, args->slots, slices, &count));
    for (size_t i = 0; i < count; i++) {
        const struct plan_slice *const s = &slices[i];
        const struct kernel *const kernel = set->kernels[index_of(set, s->plan)];
        _Alignas(16) uint8_t kernarg[KERNARG_MAX];
        struct device_launch launch = {.lds_bytes = plan_launch_lds(s->plan),
                                       .early = begins_early(op->ctx, args),
                                       .kernarg = kernarg,
                                       .stream = stream};

        plan_geometry(s->plan, s->slices, device->facts.compute_units, launch.grid, launch.block);
        arg_numbers(&values, s, done, launch.grid, args->lda, args->ldc);
        launch.kernarg_bytes = pack_args(kernel, &values, kernarg);
        TRY(device->functions->launch(device, kernel->loaded, &launch));
    }
    return QUERN_OK;
}

quern_status quern_op_block_rows(const quern_op *op, int64_t m, int *rows)
{
    FAIL_IF(!op || !rows, QUERN_E_ARGUMENT, "%s is null", op ? "rows" : "op");
    const struct quern_problem *const p = &op->spelling.problem;
    FAIL_IF(m < 1 || m > problem_rows_max(p), QUERN_E_ARGUMENT,
            "m is %" PRId64 "; expected 1 to %" PRId64, m, problem_rows_max(p));
    const struct kernel_set *const set = atomic_load(&op->kernels);
    FAIL_IF(!set, QUERN_E_NOT_READY, "kernels of %s are not there yet: see quern_op_ready",
            op->text);
    *rows = plan_block_rows(&set->plans, m);
    return *rows || p->op != QUERN_OP_MOE ? QUERN_OK : no_kernel_for_rows(m);
}

quern_status quern_op_launches(const quern_op *op, int64_t m, struct quern_launch *launches,
                               size_t *count)
{
    struct plan_slice slices[2];

    FAIL_IF(!op || !launches || !count, QUERN_E_ARGUMENT, "a null argument");
    TRY(problem_check_rows(&op->spelling.problem, m));
    const struct kernel_set *const set = atomic_load(&op->kernels);
    FAIL_IF(!set, QUERN_E_NOT_READY, "kernels of %s are not there yet: see quern_op_ready",
            op->text);
    TRY(slices_of(set, m, op->spelling.problem.k, 0, slices, count));
    for (size_t i = 0; i < *count; i++) {
        const struct plan_slice *const s = &slices[i];
        struct quern_launch *const l = &launches[i];
        enum plan_arg args[PLAN_ARG_COUNT];
        struct arg_values values;

        *l = (struct quern_launch){.kernel = index_of(set, s->plan),
                                   .lds_bytes = plan_launch_lds(s->plan)};
        /* the grid is for the target's retail part, whatever device is at hand: a launch plan
         * depends on the problem and target alone */
        plan_geometry(s->plan, s->slices, 0, l->grid, l->block);
        arg_numbers(&values, s, 0, l->grid, 0, 0);
        l->arg_count = plan_args(s->plan, args);
        for (size_t j = 0; j < l->arg_count; j++) {
            const bool operand = plan_arg_is_operand(args[j]);
            l->args[j] =
                (struct quern_launch_arg){.name = plan_arg_name(args[j]),
                                          .kind = operand                        ? QUERN_ARG_POINTER
                                                  : plan_arg_bytes(args[j]) == 4 ? QUERN_ARG_I32
                                                                                 : QUERN_ARG_I64,
                                          .value = operand ? 0 : (int64_t)values.of[args[j]]};
        }
    }
    return QUERN_OK;
}
