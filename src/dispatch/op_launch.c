/* SPDX-License-Identifier: MIT */
/* The hot path: which kernel, which arguments, launch. No allocation, no lock, no system call. */
#include "dispatch/dispatch.h"

#include <inttypes.h>
#include <string.h>

/* ---- Arguments ------------------------------------------------------------------------------- */

static size_t pack(uint8_t *kernarg, size_t offset, const void *value, size_t size)
{
    offset = (offset + size - 1) & ~(size - 1);
    memcpy(kernarg + offset, value, size);
    return offset + size;
}

size_t pack_args(const struct kernel *kernel, const struct arg_values *v,
                 uint8_t kernarg[KERNARG_MAX])
{
    size_t n = 0;

    memset(kernarg, 0, KERNARG_MAX);
    for (size_t i = 0; i < kernel->arg_count; i++)
        switch (kernel->args[i]) {
        case PLAN_ARG_A:
            n = pack(kernarg, n, &v->a, sizeof v->a);
            break;
        case PLAN_ARG_B:
            n = pack(kernarg, n, &v->b, sizeof v->b);
            break;
        case PLAN_ARG_SCALES:
            n = pack(kernarg, n, &v->scales, sizeof v->scales);
            break;
        case PLAN_ARG_ABSMAX8:
            n = pack(kernarg, n, &v->absmax8, sizeof v->absmax8);
            break;
        case PLAN_ARG_CODE:
            n = pack(kernarg, n, &v->code, sizeof v->code);
            break;
        case PLAN_ARG_OFFSET:
            n = pack(kernarg, n, &v->offset, sizeof v->offset);
            break;
        case PLAN_ARG_ZEROS:
            n = pack(kernarg, n, &v->zeros, sizeof v->zeros);
            break;
        case PLAN_ARG_A_SCALE:
            n = pack(kernarg, n, &v->a_scale, sizeof v->a_scale);
            break;
        case PLAN_ARG_B_SCALE:
            n = pack(kernarg, n, &v->b_scale, sizeof v->b_scale);
            break;
        case PLAN_ARG_BIAS:
            n = pack(kernarg, n, &v->bias, sizeof v->bias);
            break;
        case PLAN_ARG_C:
            n = pack(kernarg, n, &v->c, sizeof v->c);
            break;
        case PLAN_ARG_M:
            n = pack(kernarg, n, &v->m, sizeof v->m);
            break;
        case PLAN_ARG_FIRST:
            n = pack(kernarg, n, &v->first, sizeof v->first);
            break;
        case PLAN_ARG_LDA:
            n = pack(kernarg, n, &v->lda, sizeof v->lda);
            break;
        case PLAN_ARG_LDC:
            n = pack(kernarg, n, &v->ldc, sizeof v->ldc);
            break;
        case PLAN_ARG_WORKGROUPS:
            n = pack(kernarg, n, &v->workgroups, sizeof v->workgroups);
            break;
        }
    return n;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Elements from one row to the next: times 2^31 rows and 4 bytes, offsets still fit in 64 bits. */
#define LD_MAX ((int64_t)1 << 31)

static quern_status check_pointer(const char *name, const void *pointer, unsigned alignment)
{
    FAIL_IF(!pointer, QUERN_E_ARGUMENT, "args.%s is null", name);
    FAIL_IF((uintptr_t)pointer % alignment, QUERN_E_ALIGN,
            "args.%s is %p; expected a multiple of %u", name, pointer, alignment);
    return QUERN_OK;
}

static quern_status check_strides(const struct quern_problem *p, const struct quern_args *args)
{
    if (p->op == QUERN_OP_DEQUANT) {
        FAIL_IF(args->ldc && args->ldc != p->k, QUERN_E_ARGUMENT,
                "args.ldc is %" PRId64 " elements; op=dequant writes packed rows, 0 or k=%" PRId64,
                args->ldc, p->k);
        return QUERN_OK;
    }
    FAIL_IF(args->lda && (args->lda < p->k || args->lda > LD_MAX), QUERN_E_ARGUMENT,
            "args.lda is %" PRId64 " elements; expected 0 or at least k=%" PRId64, args->lda, p->k);
    FAIL_IF(args->ldc && (args->ldc < p->n || args->ldc > LD_MAX), QUERN_E_ARGUMENT,
            "args.ldc is %" PRId64 " elements; expected 0 or at least n=%" PRId64, args->ldc, p->n);
    FAIL_IF(args->lda * dtype_bytes(p->a) % plan_row_align(p), QUERN_E_ALIGN,
            "args.lda is %" PRId64 " elements of %u bytes; expected rows of a multiple of %u bytes",
            args->lda, dtype_bytes(p->a), plan_row_align(p));
    return QUERN_OK;
}

static quern_status check_args(const struct quern_problem *p, const struct quern_args *args,
                               int64_t m)
{
    FAIL_IF(args->size != sizeof *args, QUERN_E_ARGUMENT,
            "args.size is %zu; this library expects %zu (set it with QUERN_INIT)", args->size,
            sizeof *args);
    FAIL_IF(m < 1 || m > INT32_MAX, QUERN_E_ARGUMENT, "m is %" PRId64 "; expected 1 to %d", m,
            INT32_MAX);
    if (p->op == QUERN_OP_GEMM)
        TRY(check_pointer("a", args->a, 16));
    TRY(check_pointer("b", args->b, 16));
    if (p->scale != QUERN_SCALE_TENSOR && problem_has_scale(p))
        TRY(check_pointer("scales", args->scales, 16));
    if (p->scale == QUERN_SCALE_TENSOR)
        TRY(check_pointer("b_scale", args->b_scale, sizeof(float)));
    if (p->scale == QUERN_SCALE_TENSOR && problem_weight_type(p) == p->a)
        TRY(check_pointer("a_scale", args->a_scale, sizeof(float)));
    TRY(check_pointer("c", args->c, 16));
    if (p->scale == QUERN_SCALE_NESTED) {
        TRY(check_pointer("absmax8", args->absmax8, 16));
        TRY(check_pointer("code", args->code, 16));
        TRY(check_pointer("offset", args->offset, sizeof(float)));
    }
    if (p->wq == QUERN_W_INT4 && p->zero != QUERN_ZERO_NONE)
        TRY(check_pointer("zeros", args->zeros, 16));
    if (p->bias)
        TRY(check_pointer("bias", args->bias, 16));
    return check_strides(p, args);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

static size_t index_of(const struct kernel_set *set, const struct plan *plan)
{
    return (size_t)(plan - set->plans.plans);
}

static quern_status slices_of(const struct kernel_set *set, int64_t m, int64_t lda,
                              struct plan_slice slices[2], size_t *count)
{
    *count = lda <= PLAN_TILE_LDA_MAX ? plan_slices(&set->plans, m, slices)
                                      : plan_slices_apart(&set->plans, m, slices);
    FAIL_IF(!*count, QUERN_E_ARGUMENT,
            "lda is %" PRId64 "; the kernels of this op take rows of A at most %d elements apart",
            lda, PLAN_TILE_LDA_MAX);
    FAIL_IF(slices->slices > slices->plan->slices_max, QUERN_E_ARGUMENT,
            "m is %" PRId64 "; one launch takes at most %" PRId64 " rows (HIP's limit of the grid)",
            m, slices->plan->slices_max * slices->plan->m_tile);
    return QUERN_OK;
}

/* Puts the first *done rows on the stream as products of hipBLASLt's, behind the op that makes the
 * weights 16-bit in the workspace; none where that is not for it. */
static quern_status launch_products(quern_op *op, const struct quern_args *args, int64_t m,
                                    void *stream, int64_t *done)
{
    struct op_blas *blas;
    quern_op *weights;

    *done = 0;
    TRY(op_blas_choose(op, args, m, stream, &blas, &weights));
    if (!blas)
        return QUERN_OK;
    if (weights) {
        struct quern_args of_weights = *args;
        of_weights.c = args->workspace;
        of_weights.ldc = 0;
        TRY(quern_op_launch(weights, &of_weights, 1, stream));
    }
    return op_blas_multiply(op, blas, args, m, stream, done);
}

quern_status quern_op_launch(quern_op *op, const struct quern_args *args, int64_t m, void *stream)
{
    struct plan_slice slices[2];
    size_t count;

    FAIL_IF(!op || !args, QUERN_E_ARGUMENT, "%s is null", op ? "args" : "op");
    const struct quern_problem *const p = &op->spelling.problem;
    TRY(check_args(p, args, m));
    const struct kernel_set *const set = atomic_load_explicit(&op->kernels, memory_order_acquire);
    FAIL_IF(!set, QUERN_E_NOT_READY, "kernels of %s are not there yet: see quern_op_ready",
            op->text);
    struct device *const device = op->ctx->device;
    FAIL_IF(!device, QUERN_E_DEVICE, "this context has no device: no software GPU runs %s here",
            op->ctx->id.target->name);
    struct arg_values values = {
        .a = args->a,
        .b = args->b,
        .scales = args->scales,
        .absmax8 = args->absmax8,
        .code = args->code,
        .offset = args->offset,
        .zeros = args->zeros,
        .bias = args->bias,
        .a_scale = args->a_scale,
        .b_scale = args->b_scale,
        .c = args->c,
        .lda = args->lda ? args->lda : p->k,
        .ldc = args->ldc ? args->ldc : p->n,
    };
    int64_t done;
    TRY(launch_products(op, args, m, stream, &done));
    if (done == m)
        return QUERN_OK;
    TRY(slices_of(set, m - done, values.lda, slices, &count));
    for (size_t i = 0; i < count; i++) {
        const struct plan_slice *const s = &slices[i];
        const struct kernel *const kernel = set->kernels[index_of(set, s->plan)];
        _Alignas(16) uint8_t kernarg[KERNARG_MAX];
        struct device_launch launch = {.kernarg = kernarg, .stream = stream};

        values.m = slice_rows(s);
        values.first = (int32_t)(done + s->first);
        plan_geometry(s->plan, s->slices, device->facts.compute_units, launch.grid, launch.block);
        values.workgroups = (int32_t)plan_workgroups(s->plan, launch.grid);
        launch.kernarg_bytes = pack_args(kernel, &values, kernarg);
        TRY(device->functions->launch(device, kernel->loaded, &launch));
    }
    return QUERN_OK;
}

quern_status quern_op_launches(const quern_op *op, int64_t m, struct quern_launch *launches,
                               size_t *count)
{
    static const char *const names[] = {[PLAN_ARG_A] = "a",
                                        [PLAN_ARG_B] = "b",
                                        [PLAN_ARG_SCALES] = "scales",
                                        [PLAN_ARG_ABSMAX8] = "absmax8",
                                        [PLAN_ARG_CODE] = "code",
                                        [PLAN_ARG_OFFSET] = "offset",
                                        [PLAN_ARG_BIAS] = "bias",
                                        [PLAN_ARG_C] = "c",
                                        [PLAN_ARG_ZEROS] = "zeros",
                                        [PLAN_ARG_A_SCALE] = "a_scale",
                                        [PLAN_ARG_B_SCALE] = "b_scale",
                                        [PLAN_ARG_M] = "m",
                                        [PLAN_ARG_FIRST] = "first",
                                        [PLAN_ARG_LDA] = "lda",
                                        [PLAN_ARG_LDC] = "ldc",
                                        [PLAN_ARG_WORKGROUPS] = "workgroups"};
    struct plan_slice slices[2];

    FAIL_IF(!op || !launches || !count, QUERN_E_ARGUMENT, "a null argument");
    FAIL_IF(m < 1 || m > INT32_MAX, QUERN_E_ARGUMENT, "m is %" PRId64 "; expected 1 to %d", m,
            INT32_MAX);
    const struct kernel_set *const set = atomic_load(&op->kernels);
    FAIL_IF(!set, QUERN_E_NOT_READY, "kernels of %s are not there yet: see quern_op_ready",
            op->text);
    TRY(slices_of(set, m, op->spelling.problem.k, slices, count));
    for (size_t i = 0; i < *count; i++) {
        const struct plan_slice *const s = &slices[i];
        struct quern_launch *const l = &launches[i];
        enum plan_arg args[PLAN_ARGS_MAX];

        *l = (struct quern_launch){.kernel = index_of(set, s->plan)};
        /* for the retail part, whatever the device at hand: the same words, the same plan */
        plan_geometry(s->plan, s->slices, 0, l->grid, l->block);
        l->arg_count = plan_args(s->plan, args);
        for (size_t j = 0; j < l->arg_count; j++) {
            struct quern_launch_arg *const a = &l->args[j];
            a->name = names[args[j]];
            a->kind = QUERN_ARG_POINTER;
            if (args[j] == PLAN_ARG_WORKGROUPS) {
                a->kind = QUERN_ARG_I32;
                a->value = plan_workgroups(s->plan, l->grid);
            } else if (args[j] == PLAN_ARG_M || args[j] == PLAN_ARG_FIRST) {
                a->kind = QUERN_ARG_I32;
                a->value = args[j] == PLAN_ARG_M ? slice_rows(s) : s->first;
            } else if (args[j] == PLAN_ARG_LDA || args[j] == PLAN_ARG_LDC) {
                a->kind = QUERN_ARG_I64;
                a->value =
                    args[j] == PLAN_ARG_LDA ? op->spelling.problem.k : op->spelling.problem.n;
            }
        }
    }
    return QUERN_OK;
}
