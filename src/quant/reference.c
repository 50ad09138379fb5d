/* SPDX-License-Identifier: MIT */
/*
 * The reference product, in double. Two rows of W are dequantised at a time and multiplied with
 * four rows of A at a time. Every dot product is four sums over k ≡ 0, 1, 2, 3 (mod 4), added
 * pairwise at the end: the same operations in the same order whatever the CPU, the threads and M.
 * Where gate and up of W become one column of C, they are the two rows.
 * The compiler may not fuse multiply and add (ISO C mode), so wider vectors change nothing.
 */
#include "quant/quant.h"

#include "base/os.h"
#include "base/thread.h"

#include <math.h>
#include <string.h>

#define LANES  4 /* partial sums of a dot product */
#define W_ROWS 2
#define A_ROWS 4
/* Of act=swiglu_oai, as gpt-oss's published model code has them (swiglu_limit, alpha). */
#define GATE_MAX  7.0
#define UP_MAX    7.0
#define SHARPNESS 1.702
/* The rows of W are cut into at most PARTS_MAX parts, each with scratch memory of its own, and with
 * about PART_WORK multiplications or more. */
#define PARTS_MAX 256
#define PART_WORK (1 << 20)

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

struct product {
    const struct quern_problem *problem;
    const union operand_pointers *in;
    const float *scales; /* of all blocks; null for int4 and dense weights */
    double a_scale;      /* the one scale of A in fp8, else 1 */
    const uint32_t *k8;  /* int4 weights as words of layout k8; null for others */
    size_t m, n, k, group;
    size_t k_padded; /* a multiple of LANES; what is beyond k is 0 */
    const double *a; /* [m rounded up to A_ROWS][k_padded] */
    size_t part;     /* rows of W in a part, a multiple of W_ROWS */
    double *scratch; /* [parts][W_ROWS][k_padded] */
    double *y;
};

/* The code value times the scale has 48 significant bits at most: exact in double. */
static void dequantise_row(const struct product *p, size_t row, double *w)
{
    if (quant_is_dense(p->problem)) {
        quant_dense_row(p->problem, p->in, row, w);
        return;
    }
    if (p->k8) {
        quant_int4_row(p->problem, p->k8, p->in->scales, p->in->zeros, row, w);
        return;
    }
    const float *const value = quant_values(p->problem->wq);
    const int first = p->problem->layout == QUERN_LAYOUT_K8 ? 0 : 4; /* bit of the lower k */
    const uint8_t *b = (const uint8_t *)p->in->b + row * (p->k / 2);
    const float *scale = p->scales + row * (p->k / p->group);

    for (size_t k = 0; k < p->k; k += p->group, scale++) {
        double scaled[16];

        for (int i = 0; i < 16; i++)
            scaled[i] = (double)value[i] * (double)*scale;
        for (size_t i = k; i < k + p->group; i += 2, b++) {
            w[i] = scaled[*b >> first & 15];
            w[i + 1] = scaled[*b >> (4 - first) & 15];
        }
    }
}

/* dots[r][s] = row r of w times row s of a; both lie `stride` apart, a multiple of LANES. */
static inline __attribute__((always_inline)) void
dot_block(const double *w, const double *a, size_t stride, double dots[W_ROWS][A_ROWS])
{
    lanes sum[W_ROWS][A_ROWS] = {0};

    for (size_t k = 0; k < stride; k += LANES) {
        lanes x[A_ROWS];

        for (int s = 0; s < A_ROWS; s++)
            memcpy(&x[s], a + (size_t)s * stride + k, sizeof x[s]);
        for (int r = 0; r < W_ROWS; r++) {
            lanes v;

            memcpy(&v, w + (size_t)r * stride + k, sizeof v);
            for (int s = 0; s < A_ROWS; s++)
                sum[r][s] += v * x[s];
        }
    }
    for (int r = 0; r < W_ROWS; r++)
        for (int s = 0; s < A_ROWS; s++)
            dots[r][s] = (sum[r][s][0] + sum[r][s][1]) + (sum[r][s][2] + sum[r][s][3]);
}

static void dot_block_plain(const double *w, const double *a, size_t stride,
                            double dots[W_ROWS][A_ROWS])
{
    dot_block(w, a, stride, dots);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
dot_block_avx2(const double *w, const double *a, size_t stride, double dots[W_ROWS][A_ROWS])
{
    dot_block(w, a, stride, dots);
}
#endif

typedef void (*dot_block_fn)(const double *, const double *, size_t, double[W_ROWS][A_ROWS]);

static dot_block_fn best_dot_block(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return dot_block_avx2;
#endif
    return dot_block_plain;
}

static size_t weight_row(const struct product *p, size_t row)
{
    return (size_t)problem_weight_row(p->problem, (int64_t)row);
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* What gate and up become. The comparisons leave a NaN as it is. */
static double activated(enum quern_act act, double gate, double up)
{
    if (act == QUERN_ACT_SILU_MUL)
        return gate * logistic(gate) * up;
    gate = gate > GATE_MAX ? GATE_MAX : gate;
    up = up > UP_MAX ? UP_MAX : up < -UP_MAX ? -UP_MAX : up;
    return gate * logistic(SHARPNESS * gate) * (up + 1);
}

/* Stores what the dot products of `count` neighbouring rows of W with row m of A make of C. */
static void store(const struct product *p, size_t m, size_t row, size_t count,
                  const double dots[W_ROWS])
{
    const enum quern_dtype c = p->problem->c;
    double y[W_ROWS];

    for (size_t r = 0; r < count; r++)
        y[r] = dots[r] * p->a_scale +
               (p->in->bias ? (double)quant_load(c, p->in->bias, weight_row(p, row + r)) : 0);
    if (p->problem->act)
        p->y[m * (p->n / 2) + row / 2] = activated(p->problem->act, y[0], y[1]);
    else
        memcpy(p->y + m * p->n + row, y, count * sizeof *y);
}

static void multiply_rows(const struct product *p, size_t first, size_t count, double *w)
{
    const dot_block_fn dot = best_dot_block();
    const size_t stride = p->k_padded;
    double dots[W_ROWS][A_ROWS];

    for (size_t row = first; row < first + count; row += W_ROWS) {
        const size_t rows = first + count - row < W_ROWS ? first + count - row : W_ROWS;

        for (size_t r = 0; r < rows; r++)
            dequantise_row(p, weight_row(p, row + r), w + r * stride);
        for (size_t m = 0; m < p->m; m += A_ROWS) {
            dot(w, p->a + m * stride, stride, dots);
            for (size_t s = 0; s < A_ROWS && m + s < p->m; s++)
                store(p, m + s, row, rows, (const double[]){dots[0][s], dots[1][s]});
        }
    }
}

static void multiply_part(void *user, size_t i)
{
    const struct product *const p = user;
    const size_t first = i * p->part, left = p->n - first;

    multiply_rows(p, first, left < p->part ? left : p->part, p->scratch + i * W_ROWS * p->k_padded);
}

static quern_status check(const struct quern_problem *p, const union operand_pointers *in,
                          int64_t m)
{
    const uint32_t wanted = operands_of(p);

    FAIL_IF(!problem_has_activation(p), QUERN_E_DECLINED, "op=%s makes no product", op_name(p->op));
    TRY(quant_accepts(p));
    FAIL_IF(m < 1 || m > PROBLEM_MAX_DIMENSION, QUERN_E_ARGUMENT, "m=%lld rows; expected 1 to %lld",
            (long long)m, (long long)PROBLEM_MAX_DIMENSION);
    for (int i = 0; i < OPERAND_COUNT; i++)
        FAIL_IF(operand_access(p, (enum operand)i) == QUERN_SIM_READ &&
                    !in->at[i] != !(wanted >> i & 1),
                QUERN_E_ARGUMENT, "operand %s is %s", operand_rows[i].name,
                in->at[i] ? "given, but the problem has none" : "null");
    return QUERN_OK;
}

/* Whether A has a scale for each block of each row. */
static bool a_has_blocks(const struct product *p)
{
    return p->in->a_scale && p->problem->scale == QUERN_SCALE_BLOCK128;
}

/* One row of A in double, with zeros behind it; a row beyond m is all zeros. A value of fp8 times
 * the scale of its block is exact. */
static void widen_row(const struct product *p, size_t row, double *to)
{
    const float *scale = p->in->a_scale;

    for (size_t k = 0; k < p->k_padded; k++)
        to[k] = row < p->m && k < p->k ? (double)quant_load(p->problem->a, p->in->a, row * p->k + k)
                                       : 0;
    if (row >= p->m || !a_has_blocks(p))
        return;
    scale += row * (size_t)problem_scale_blocks(p->problem->k);
    for (size_t k = 0; k < p->k; k++)
        to[k] *= (double)scale[k / PROBLEM_BLOCK];
}

/* Prepares what dequantise_row reads: int4's words in layout k8, or the scales as floats. *memory
 * is for the caller to free. */
static quern_status prepare_weights(struct product *p, void **memory)
{
    const struct quern_problem *const q = p->problem;
    const size_t bytes = quant_is_dense(q)              ? 0
                         : q->wq != QUERN_W_INT4        ? p->n * (p->k / p->group) * sizeof(float)
                         : q->layout == QUERN_LAYOUT_K8 ? 0
                                                        : p->n * p->k / 2;

    *memory = bytes ? os.malloc(bytes) : NULL;
    FAIL_IF(bytes && !*memory, QUERN_E_MEMORY, "no memory for the weights in another order");
    if (quant_is_dense(q))
        return QUERN_OK;
    if (q->wq != QUERN_W_INT4) {
        quant_scales(q, p->in, *memory);
        p->scales = *memory;
        return QUERN_OK;
    }
    p->k8 = bytes ? *memory : p->in->b;
    return bytes ? quant_repack(q, QUERN_LAYOUT_K8, p->in->b, *memory) : QUERN_OK;
}

quern_status quant_reference(const struct quern_problem *problem, const union operand_pointers *in,
                             int64_t m, double *y)
{
    void *weights;

    if (problem->op == QUERN_OP_MOE)
        return quant_reference_moe(problem, in, m, y, quant_reference);
    TRY(check(problem, in, m));
    struct product p = {.problem = problem,
                        .in = in,
                        .m = (size_t)m,
                        .n = (size_t)problem->n,
                        .k = (size_t)problem->k,
                        .group = (size_t)problem_group(problem),
                        .a_scale = 1,
                        .y = y};
    if (in->a_scale && !a_has_blocks(&p))
        p.a_scale = (double)*(const float *)in->a_scale;
    p.k_padded = (p.k + LANES - 1) / LANES * LANES;
    const size_t a_rows = (p.m + A_ROWS - 1) / A_ROWS * A_ROWS;
    const double parts_wanted = (double)p.n * (double)p.k * (double)a_rows / PART_WORK;
    const size_t parts_most = parts_wanted < PARTS_MAX ? (size_t)parts_wanted + 1 : PARTS_MAX;
    p.part = (p.n / parts_most + W_ROWS) / W_ROWS * W_ROWS;
    const size_t parts = (p.n + p.part - 1) / p.part;
    /* zeroed, because the second scratch row, which the last row of an odd N leaves unused, is
     * multiplied all the same */
    double *const memory = os.calloc((a_rows + parts * W_ROWS) * p.k_padded, sizeof *memory);

    FAIL_IF(!memory, QUERN_E_MEMORY, "no memory for %zu x %zu values in double", a_rows,
            p.k_padded);
    const quern_status status = prepare_weights(&p, &weights);
    if (status == QUERN_OK) {
        for (size_t row = 0; row < a_rows; row++)
            widen_row(&p, row, memory + row * p.k_padded);
        p.a = memory;
        p.scratch = memory + a_rows * p.k_padded;
        parallel_for(parts, os_cpu_count(), multiply_part, &p);
    }
    os.free(memory);
    os.free(weights);
    return status;
}
