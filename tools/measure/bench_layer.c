/* SPDX-License-Identifier: MIT */
/* Made-up operands of one layer for quern bench (bench_layer.h). */
#include "measure/bench_layer.h"

#include "measure/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Uniform in ±1, the same in every run. */
static float next_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((double)(*state >> 40) * 0x1p-23 - 1);
}

static size_t type_bytes(enum quern_dtype type)
{
    return type == QUERN_F32 ? 4 : 2;
}

/* Stores the nearest value of the type, and returns it. */
static float store(enum quern_dtype type, void *array, size_t i, float value)
{
    if (type == QUERN_F32)
        return ((float *)array)[i] = value;
    if (type == QUERN_F16)
        return (float)(((_Float16 *)array)[i] = (_Float16)value);
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits += 0x7fff + (bits >> 16 & 1);
    ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
    bits &= 0xffff0000;
    memcpy(&value, &bits, 4);
    return value;
}

static float load(enum quern_dtype type, const void *array, size_t i)
{
    float value;

    if (type == QUERN_F32)
        return ((const float *)array)[i];
    if (type == QUERN_F16)
        return (float)((const _Float16 *)array)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)array)[i] << 16;
    memcpy(&value, &bits, 4);
    return value;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static bool is_mixture(const struct bench_layer *l)
{
    return l->problem.op == QUERN_OP_MOE;
}

static size_t expert_count(const struct bench_layer *l)
{
    return is_mixture(l) ? (size_t)l->problem.experts : 1;
}

/* Rows of C for each row of A. */
static size_t results_of_row(const struct bench_layer *l)
{
    return is_mixture(l) ? (size_t)l->problem.top_k : 1;
}

static size_t c_bytes(const struct bench_layer *l, int64_t m)
{
    return (size_t)m * results_of_row(l) * (size_t)l->problem.n * type_bytes(l->problem.c);
}

/* The layer of op=gemm whose weights are those of all experts, one behind another. */
static struct quern_problem stack_of(const struct bench_layer *l)
{
    struct quern_problem p = l->problem;

    if (is_mixture(l)) {
        p.op = QUERN_OP_GEMM;
        p.n *= p.experts;
        p.experts = p.top_k = p.block_rows = 0;
    }
    return p;
}

/* ---- Operands -------------------------------------------------------------------------------- */

static int allocate(struct bench_layer *l, int64_t m)
{
    const size_t n = (size_t)l->problem.n, k = (size_t)l->problem.k, rows = (size_t)m;
    const size_t bytes = type_bytes(l->problem.a), stack = expert_count(l) * n;

    l->a = calloc(rows * k, bytes);
    l->c = calloc(1, c_bytes(l, m));
    l->bias = calloc(n, bytes);
    l->a_value = calloc(rows * k, sizeof(float));
    l->w_value = calloc(stack * k, sizeof(float));
    l->bias_value = calloc(n, sizeof(float));
    l->ids = calloc(rows * results_of_row(l), sizeof *l->ids);
    if (!l->a || !l->c || !l->bias || !l->a_value || !l->w_value || !l->bias_value || !l->ids)
        return fail("out of memory for the operands of %s", l->text);
    return EXIT_OK;
}

/* Fills the operands: random activations, and random weights that quern_quantize quantises, as
 * hosts do. */
static int fill(struct bench_layer *l, int64_t m)
{
    const size_t n = (size_t)l->problem.n, k = (size_t)l->problem.k;
    const struct quern_problem stack = stack_of(l);
    uint64_t state = 1;

    for (size_t i = 0; i < expert_count(l) * n * k; i++)
        l->w_value[i] = next_number(&state);
    quern_status e = quern_quantize(&stack, l->w_value, l->weights, &l->weight_count);
    if (!e)
        e = quern_dequantize(&stack, l->weights, l->weight_count, l->w_value);
    if (e)
        return fail_status(e, l->text);
    for (size_t i = 0; i < (size_t)m * k; i++)
        l->a_value[i] = store(l->problem.a, l->a, i, next_number(&state));
    for (size_t i = 0; i < n && l->problem.bias; i++)
        l->bias_value[i] = store(l->problem.c, l->bias, i, next_number(&state));
    if (is_mixture(l))
        choices_make_up(&l->problem, m, 0, CHOICES_EVEN, l->ids);
    return EXIT_OK;
}

static int map(struct bench_layer *l, void *host, size_t bytes, enum quern_sim_access access,
               const char *name)
{
    const void *const before = quern_args_get(&l->args, name);
    uint64_t address;

    if (before)
        quern_sim_unmap(l->sim, (uintptr_t)before);
    quern_status e = quern_sim_map(l->sim, host, bytes, access, name, &address);
    if (!e)
        e = quern_args_set(&l->args, name, (void *)(uintptr_t)address);
    return e ? fail_status(e, l->text) : EXIT_OK;
}

static int map_weights(struct bench_layer *l, quern_ctx *ctx, const char *target,
                       const struct quern_options *library)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    int status = EXIT_OK;

    o.target = target;
    o.check = QUERN_CHECK_FAST;
    o.threads = library->jobs;
    o.disassembler = quern_ctx_disassembler(ctx);
    o.worker_path = library->worker_path;
    const quern_status e = quern_sim_open(&o, &l->sim);
    if (e)
        return fail_status(e, target);
    for (size_t i = 0; !status && i < l->weight_count; i++)
        status =
            map(l, l->weights[i].data, l->weights[i].bytes, QUERN_SIM_READ, l->weights[i].name);
    if (!status && l->problem.bias)
        status = map(l, l->bias, (size_t)l->problem.n * type_bytes(l->problem.c), QUERN_SIM_READ,
                     "bias");
    return status;
}

int bench_layer_make(struct bench_layer *l, int64_t m_max, quern_ctx *ctx, const char *target,
                     const struct quern_options *library)
{
    int status = allocate(l, m_max);

    if (!status)
        status = fill(l, m_max);
    return status ? status : map_weights(l, ctx, target, library);
}

static int map_blocks(struct bench_layer *l, int64_t m, int block_rows)
{
    struct quern_problem p = l->problem;
    int64_t slots;

    p.block_rows = block_rows;
    quern_status e = quern_moe_slots(&p, m, &slots);
    if (e)
        return fail_status(e, l->text);
    free(l->rows);
    free(l->experts);
    l->rows = calloc((size_t)slots, sizeof *l->rows);
    l->experts = calloc((size_t)(slots / block_rows), sizeof *l->experts);
    if (!l->rows || !l->experts)
        return fail("out of memory for the blocks of %s", l->text);
    if ((e = quern_moe_align(&p, m, l->ids, l->rows, l->experts, &l->rows_used)))
        return fail_status(e, l->text);
    int status = map(l, l->rows, (size_t)slots * sizeof *l->rows, QUERN_SIM_READ, "rows");
    if (!status)
        status = map(l, l->experts, (size_t)(slots / block_rows) * sizeof *l->experts,
                     QUERN_SIM_READ, "experts");
    return status ? status
                  : map(l, &l->rows_used, sizeof l->rows_used, QUERN_SIM_READ, "rows_used");
}

int bench_layer_rows(struct bench_layer *l, int64_t m, int block_rows)
{
    const size_t a_bytes = (size_t)m * (size_t)l->problem.k * type_bytes(l->problem.a);

    memset(l->c, 0xff, c_bytes(l, m));
    int status = map(l, l->a, a_bytes, QUERN_SIM_READ, "a");
    if (!status)
        status = map(l, l->c, c_bytes(l, m), QUERN_SIM_WRITE, "c");
    return status || !is_mixture(l) ? status : map_blocks(l, m, block_rows);
}

double bench_layer_weights(const struct bench_layer *l, int64_t m)
{
    const double one = (double)l->problem.n * (double)l->problem.k;

    return is_mixture(l) ? one * (double)choices_distinct(&l->problem, m, l->ids) : one;
}

void bench_layer_free(struct bench_layer *l)
{
    quern_sim_close(l->sim);
    quern_quantized_free(l->weights, l->weight_count);
    free(l->a);
    free(l->bias);
    free(l->c);
    free(l->a_value);
    free(l->w_value);
    free(l->bias_value);
    free(l->ids);
    free(l->rows);
    free(l->experts);
}

/* ---- The reference --------------------------------------------------------------------------- */

double bench_layer_error(const struct bench_layer *l, int64_t m)
{
    const size_t n = (size_t)l->problem.n, k = (size_t)l->problem.k, each = results_of_row(l);
    double worst = 0, largest = 0;

    for (size_t row = 0; row < (size_t)m * each; row++) {
        const float *const w = l->w_value + (size_t)l->ids[row] * n * k;
        for (size_t column = 0; column < n; column++) {
            double sum = l->bias_value[column];
            for (size_t i = 0; i < k; i++)
                sum += (double)l->a_value[row / each * k + i] * (double)w[column * k + i];
            const double error = fabs((double)load(l->problem.c, l->c, row * n + column) - sum);
            if (!(error <= worst))
                worst = isnan(error) ? INFINITY : error;
            if (fabs(sum) > largest)
                largest = fabs(sum);
        }
    }
    return worst / largest;
}
