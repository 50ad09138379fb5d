/* SPDX-License-Identifier: MIT */
/*
 * Many rows by hipBLASLt or cuBLASLt: the weights are made 16-bit in the caller's workspace by an
 * op of op=dequant, then rows are multiplied by products whose sizes, powers of two, were prepared
 * when the op was made; so a launch of any M allocates nothing here and needs no lock. cuBLASLt's
 * algorithm for so many rows serves fewer, so that all rows, up to the largest size, are one
 * product; hipBLASLt's may not, and has a product for each binary digit of M. Rows that are left,
 * fewer than the smallest product has, go to the op's own kernels; so do all rows when the caller
 * gives no workspace or its rows are not packed.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "plan/blas_choice.h"

#include <inttypes.h>

#define PRODUCTS_MAX    8 /* 64 … 8192 rows */
#define WORKSPACE_ALIGN 256

struct op_blas {
    int64_t from;
    atomic_bool any_rows; /* whether products may be given fewer rows: until one fails so */
    quern_op *weights;    /* null: W is 16-bit as it is */
    size_t weight_bytes;  /* of the workspace, for weights; hipBLASLt's part follows */
    size_t count;
    struct device_product *products[PRODUCTS_MAX]; /* products[i] is for from << i rows */
    atomic_bool ran[PRODUCTS_MAX];                 /* it was launched once: its code is loaded */
};

/* Leaves the op that writes the weights alone: it is in the context's table. */
static void free_blas(quern_op *op, struct op_blas *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->count; i++)
        op->ctx->device->functions->product_free(op->ctx->device, b->products[i]);
    os.free(b);
}

void op_blas_free(quern_op *op)
{
    free_blas(op, atomic_load(&op->blas));
}

/* Finds or makes the context's op that writes 16-bit weights. */
static quern_status make_weights(quern_ctx *ctx, const struct quern_problem *problem,
                                 enum quern_jit jit, quern_op **weights)
{
    struct plan_set plans;

    if ((*weights = op_known(ctx, problem, 1)))
        return QUERN_OK;
    TRY(op_plan(ctx, problem, 1, &plans, weights));
    return op_grow(*weights, &plans, 1, jit);
}

static quern_status make(quern_op *op, const struct plan_blas *plan, enum quern_jit jit,
                         struct op_blas *b)
{
    struct device *const device = op->ctx->device;
    const struct quern_problem *const p = &op->spelling.problem;

    b->from = plan->from;
    atomic_init(&b->any_rows, device->facts.any_rows);
    b->weight_bytes = ((size_t)plan->weight_bytes + WORKSPACE_ALIGN - 1) & ~(WORKSPACE_ALIGN - 1);
    for (int64_t rows = plan->from; rows <= PLAN_BLAS_ROWS; rows *= 2) {
        TRY(device->functions->product_make(device, p->a == QUERN_BF16, p->n, p->k, rows,
                                            &b->products[b->count]));
        b->count++;
    }
    if (plan->dequant)
        TRY(make_weights(op->ctx, &plan->weights.problem, jit, &b->weights));
    return QUERN_OK;
}

/* Prepares the products for an op; the caller holds op->growing. False: m_max is too few rows for
 * hipBLASLt, more may not be. */
static bool prepare(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit)
{
    quern_ctx *const ctx = op->ctx;
    struct plan_set made;

    if (!plans && plan_make_tuned(&op->spelling.problem, ctx->planned, ctx->tuning,
                                  &ctx->settings.force, &made) != QUERN_OK)
        return true;
    const struct plan_blas plan = plan_blas_choose(plans ? plans : &made);
    if (!plan.from || m_max < plan.from)
        return !plan.from;
    struct op_blas *const b = os.calloc(1, sizeof *b);
    if (b && make(op, &plan, jit, b) == QUERN_OK) {
        atomic_store(&op->blas, b);
        return true;
    }
    log_line(&ctx->log, QUERN_LOG_INFO, "%s goes without the vendor's matrix library: %s", op->text,
             b ? quern_last_error()->message : "out of memory");
    free_blas(op, b);
    return true;
}

void op_blas_prepare(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit)
{
    const quern_ctx *const ctx = op->ctx;

    if (op->spelling.problem.kernels || m_max <= PLAN_BLAS_LEAST ||
        m_max <= atomic_load(&op->blas_asked) || !ctx->device ||
        !ctx->device->functions->product_make || ctx->settings.blas == QUERN_BLAS_OFF)
        return;
    _Static_assert(PLAN_BLAS_LEAST >= PLAN_MMA_M_MAX, "plans for so many rows are all there are");
    lock_take(&op->growing);
    if (m_max > atomic_load(&op->blas_asked))
        atomic_store(&op->blas_asked, prepare(op, plans, m_max, jit) ? INT64_MAX : m_max);
    lock_give(&op->growing);
}

static bool serves(const struct op_blas *b, const struct quern_problem *p,
                   const struct quern_args *args, int64_t m)
{
    return b && args->workspace && m >= b->from && (!args->lda || args->lda == p->k) &&
           (!args->ldc || args->ldc == p->n);
}

/* The product that takes the first of the rows that are left; `count`: they are too few. */
static size_t next_product(const struct op_blas *b, bool any_rows, int64_t left)
{
    size_t i = 0;

    if (left < b->from)
        return b->count;
    while (i + 1 < b->count && (any_rows ? b->from << i < left : b->from << (i + 1) <= left))
        i++;
    return i;
}

static int64_t rows_of(const struct op_blas *b, size_t product, int64_t left)
{
    const int64_t most = b->from << product;

    return left < most ? left : most;
}

/* Whether products can be launched for m rows. In a capture none may be launched for the first
 * time: hipBLASLt loads a kernel's code at its first launch, which breaks the capture. */
static quern_status check_capture(quern_op *op, const struct op_blas *b, bool any_rows, int64_t m,
                                  void *stream, bool *usable)
{
    bool capturing = false, ran = true;

    for (size_t i; (i = next_product(b, any_rows, m)) < b->count; m -= rows_of(b, i, m))
        ran = ran && atomic_load_explicit(&b->ran[i], memory_order_relaxed);
    if (!ran)
        TRY(op->ctx->device->functions->capturing(op->ctx->device, stream, &capturing));
    *usable = ran || !capturing;
    return QUERN_OK;
}

static quern_status multiply(quern_op *op, struct op_blas *b, size_t i, int64_t first, int64_t rows,
                             const struct quern_args *args, void *stream)
{
    struct device *const device = op->ctx->device;
    const struct quern_problem *const p = &op->spelling.problem;
    const size_t element = dtype_bytes(p->a);

    TRY(device->functions->product_run(
        device, b->products[i], rows, (const char *)args->a + (size_t)(first * p->k) * element,
        b->weights ? args->workspace : args->b, (char *)args->c + (size_t)(first * p->n) * element,
        (char *)args->workspace + b->weight_bytes, stream));
    atomic_store_explicit(&b->ran[i], true, memory_order_relaxed);
    return QUERN_OK;
}

quern_status op_blas_choose(quern_op *op, const struct quern_args *args, int64_t m, void *stream,
                            struct op_blas **chosen, quern_op **weights, bool *any_rows)
{
    struct op_blas *const b = atomic_load_explicit(&op->blas, memory_order_acquire);
    bool usable = true;

    *chosen = NULL;
    *any_rows = b && atomic_load_explicit(&b->any_rows, memory_order_relaxed);
    if (!serves(b, &op->spelling.problem, args, m))
        return QUERN_OK;
    FAIL_IF((uintptr_t)args->workspace % WORKSPACE_ALIGN, QUERN_E_ALIGN,
            "args.workspace is %p; expected a multiple of %d", args->workspace, WORKSPACE_ALIGN);
    TRY(check_capture(op, b, *any_rows, m, stream, &usable));
    if (usable) {
        *chosen = b;
        *weights = b->weights;
    }
    return QUERN_OK;
}

quern_status op_blas_multiply(quern_op *op, struct op_blas *b, bool any_rows,
                              const struct quern_args *args, int64_t m, void *stream, int64_t *done)
{
    for (size_t i; (i = next_product(b, any_rows, m - *done)) < b->count;) {
        const int64_t rows = rows_of(b, i, m - *done);
        const quern_status status = multiply(op, b, i, *done, rows, args, stream);
        if (status != QUERN_OK && rows == b->from << i)
            return status;
        if (status != QUERN_OK) {
            /* That an algorithm takes fewer rows is no promise of the library's. The op's own
             * kernels do the rest, as another product might run for the first time, which no
             * capture survives; later launches have whole products. */
            atomic_store(&b->any_rows, false);
            log_line(&op->ctx->log, QUERN_LOG_INFO, "%s: %" PRId64 " rows are no product: %s",
                     op->text, rows, quern_last_error()->message);
            return QUERN_OK;
        }
        *done += rows;
    }
    return QUERN_OK;
}

size_t quern_op_workspace(const quern_op *op, int64_t m)
{
    const struct op_blas *const b = op ? atomic_load(&op->blas) : NULL;

    return b && m >= b->from ? b->weight_bytes + DEVICE_PRODUCT_WORKSPACE : 0;
}
