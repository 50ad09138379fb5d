/* SPDX-License-Identifier: MIT */
/*
 * How a host runs a mixture of experts with quern. Its weights are stacked: all experts' `b`, one
 * after another, and so are scales and biases. For each batch of tokens, what a router chose is put
 * into blocks, each of one expert; both products then read the same blocks.
 */
#include "mixture.h"

#include "../fail.h"

#include <quern/weights.h>

#include <stdlib.h>
#include <string.h>

/* The weights of one product, of all experts, on the device. */
struct product {
    struct quern_problem problem;
    quern_op *op;
    quern_buffer *b, *scales, *bias;
};

struct mixture {
    quern_ctx *ctx;
    size_t tokens, choices, hidden, expert_wide;
    struct product up, down;
    quern_op *aligner; /* puts choices into blocks on the device; null: the CPU does it */
    struct mixture_blocks blocks;
    quern_buffer *x, *h, *y; /* y: a row for each choice */
    quern_buffer *topk_ids, *rows, *experts, *rows_used, *routing;
    int32_t *host_rows, *host_experts;
    float *host_h, *host_y;
};

static quern_buffer *place(struct mixture *m, const void *host, size_t bytes, const char *name)
{
    quern_buffer *buffer;

    check(quern_buffer_create(m->ctx, bytes, QUERN_READ_WRITE, name, &buffer),
          "allocating device memory");
    if (host)
        check(quern_buffer_write(buffer, host, bytes), "copying to the device");
    return buffer;
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Quantises each expert's n x k weights, which `weights` has one after another, and puts what that
 * makes on the device in the same order. */
static void place_weights(struct mixture *m, struct product *p, size_t n, size_t k,
                          const float *weights)
{
    const struct quern_problem one = feed_forward_problem(n, k);
    const size_t b_bytes = n * k / 2, scales_bytes = n * k / GROUP * sizeof(float);
    char *const b = allocate(EXPERTS, b_bytes), *const scales = allocate(EXPERTS, scales_bytes);
    struct quern_quantized operands[QUERN_OPERANDS_MAX];
    size_t count;

    for (size_t e = 0; e < EXPERTS; e++) {
        check(quern_quantize(&one, weights + e * n * k, operands, &count), "quantising an expert");
        for (size_t i = 0; i < count; i++) /* NF4 has these two operands */
            if (!strcmp(operands[i].name, "b"))
                memcpy(b + e * b_bytes, operands[i].data, b_bytes);
            else
                memcpy(scales + e * scales_bytes, operands[i].data, scales_bytes);
        quern_quantized_free(operands, count);
    }
    p->b = place(m, b, EXPERTS * b_bytes, "b");
    p->scales = place(m, scales, EXPERTS * scales_bytes, "scales");
    free(b);
    free(scales);
}

/* The op of a product of n x k weights an expert, of which A has `rows` rows with `top_k` choices
 * each. */
static void make_op(struct mixture *m, struct product *p, size_t n, size_t k, size_t rows,
                    int top_k)
{
    p->problem = feed_forward_problem(n, k);
    p->problem.op = QUERN_OP_MOE;
    p->problem.experts = EXPERTS;
    p->problem.top_k = top_k;
    check(quern_op_create(m->ctx, &p->problem, (int64_t)rows, &p->op), "making kernels");
    check(quern_op_block_rows(p->op, (int64_t)rows, &p->problem.block_rows), "sizing blocks");
}

/* The op that puts choices into blocks of the size that both products have. */
static void make_aligner(struct mixture *m)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);

    problem.op = QUERN_OP_MOE_ALIGN;
    problem.experts = EXPERTS;
    problem.top_k = TOP_K;
    problem.block_rows = m->blocks.rows;
    const quern_status status = quern_op_create(m->ctx, &problem, (int64_t)m->tokens, &m->aligner);
    if (status != QUERN_E_DECLINED) /* as on targets that have no such kernel */
        check(status, "making the kernel of blocks");
}

/* An expert has some of the rows of `up`, which lie together, with their biases: the stack is the
 * matrix as it is. Of `down` it has columns, which have to be put together; and as each token's
 * results are summed, one expert alone has the bias. */
static void split(struct mixture *m, const struct feed_forward *f)
{
    const size_t wide = m->expert_wide;
    float *const columns = allocate(f->hidden * f->wide, sizeof *columns);
    float *const bias = allocate(EXPERTS * f->hidden, sizeof *bias);
    float *to = columns;

    for (size_t e = 0; e < EXPERTS; e++)
        for (size_t i = 0; i < f->hidden; i++, to += wide)
            memcpy(to, f->down + i * f->wide + e * wide, wide * sizeof *to);
    memcpy(bias, f->down_bias, f->hidden * sizeof *bias);
    place_weights(m, &m->up, wide, f->hidden, f->up);
    place_weights(m, &m->down, f->hidden, wide, columns);
    m->up.bias = place(m, f->up_bias, f->wide * sizeof *f->up_bias, "bias");
    m->down.bias = place(m, bias, EXPERTS * f->hidden * sizeof *bias, "bias");
    free(columns);
    free(bias);
}

struct mixture *mixture_make(quern_ctx *ctx, const struct feed_forward *f, size_t tokens)
{
    struct mixture *const m = allocate(1, sizeof *m);
    const size_t wide = f->wide / EXPERTS, choices = tokens * TOP_K;

    if (f->wide % (EXPERTS * GROUP))
        fail("%zu columns cannot be split into %d experts of whole groups of %d", f->wide, EXPERTS,
             GROUP);
    *m = (struct mixture){
        .ctx = ctx, .tokens = tokens, .choices = choices, .hidden = f->hidden, .expert_wide = wide};
    make_op(m, &m->up, wide, f->hidden, tokens, TOP_K);
    make_op(m, &m->down, f->hidden, wide, choices, 1);
    /* of the same target, experts, types and choices: one list of blocks is for both */
    m->blocks.rows = m->up.problem.block_rows;
    if (m->blocks.rows != m->down.problem.block_rows)
        fail("blocks of %d rows for the first product, of %d for the second", m->blocks.rows,
             m->down.problem.block_rows);
    make_aligner(m);
    split(m, f);

    check(quern_moe_slots(&m->up.problem, (int64_t)tokens, &m->blocks.slots), "counting slots");
    const size_t slots = (size_t)m->blocks.slots, blocks = slots / (size_t)m->blocks.rows;
    m->host_rows = allocate(slots, sizeof *m->host_rows);
    m->host_experts = allocate(blocks, sizeof *m->host_experts);
    m->host_h = allocate(choices * wide, sizeof *m->host_h);
    m->host_y = allocate(choices * f->hidden, sizeof *m->host_y);
    m->x = place(m, NULL, tokens * f->hidden * sizeof(float), "x");
    m->h = place(m, NULL, choices * wide * sizeof(float), "h");
    m->y = place(m, NULL, choices * f->hidden * sizeof(float), "y");
    m->topk_ids = place(m, NULL, choices * sizeof(int32_t), "topk_ids");
    m->rows = place(m, NULL, slots * sizeof *m->host_rows, "rows");
    m->experts = place(m, NULL, blocks * sizeof *m->host_experts, "experts");
    m->rows_used = place(m, NULL, sizeof(int32_t), "rows_used");
    m->routing = place(m, NULL, choices * sizeof(float), "routing");
    return m;
}

static void free_product(struct product *p)
{
    quern_buffer_destroy(p->b);
    quern_buffer_destroy(p->scales);
    quern_buffer_destroy(p->bias);
    quern_op_release(p->op);
}

void mixture_free(struct mixture *m)
{
    quern_buffer *const buffers[] = {m->x,    m->h,       m->y,         m->topk_ids,
                                     m->rows, m->experts, m->rows_used, m->routing};

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        quern_buffer_destroy(buffers[i]);
    free_product(&m->up);
    free_product(&m->down);
    quern_op_release(m->aligner);
    free(m->host_rows);
    free(m->host_experts);
    free(m->host_h);
    free(m->host_y);
    free(m);
}

struct mixture_blocks mixture_blocks(const struct mixture *m)
{
    return m->blocks;
}

/* ---- A batch --------------------------------------------------------------------------------- */

/* Puts choices into blocks on the device, as vLLM's moe_align_block_size does. A host whose ids are
 * there already does no more than launch, and waits for nothing. */
static void align(struct mixture *m, const int32_t *topk_ids)
{
    struct quern_args args = QUERN_INIT(struct quern_args);

    check(quern_buffer_write(m->topk_ids, topk_ids, m->choices * sizeof *topk_ids), "copying");
    args.topk_ids = quern_buffer_address(m->topk_ids);
    args.rows = quern_buffer_address(m->rows);
    args.experts = quern_buffer_address(m->experts);
    args.rows_used = quern_buffer_address(m->rows_used);
    check(quern_op_launch(m->aligner, &args, (int64_t)m->tokens, NULL), "launching");
    /* for mixture_blocks alone: the products find it on the device */
    check(quern_buffer_read(m->rows_used, &m->blocks.slots_used, sizeof m->blocks.slots_used),
          "copying");
}

/* The same on the CPU. */
static void align_on_cpu(struct mixture *m, const int32_t *topk_ids)
{
    const size_t slots = (size_t)m->blocks.slots, blocks = slots / (size_t)m->blocks.rows;
    int32_t used;

    check(quern_moe_align(&m->up.problem, (int64_t)m->tokens, topk_ids, m->host_rows,
                          m->host_experts, &used),
          "putting choices into blocks");
    check(quern_buffer_write(m->rows, m->host_rows, slots * sizeof *m->host_rows), "copying");
    check(quern_buffer_write(m->experts, m->host_experts, blocks * sizeof *m->host_experts),
          "copying");
    check(quern_buffer_write(m->rows_used, &used, sizeof used), "copying");
    m->blocks.slots_used = used;
}

/* One product of all experts: of `rows` rows of A, by the blocks of `align`. */
static void multiply(struct mixture *m, const struct product *p, quern_buffer *a, size_t rows,
                     quern_buffer *routing, quern_buffer *c)
{
    struct quern_args args = QUERN_INIT(struct quern_args);

    args.a = quern_buffer_address(a);
    args.b = quern_buffer_address(p->b);
    args.scales = quern_buffer_address(p->scales);
    args.bias = quern_buffer_address(p->bias);
    args.c = quern_buffer_address(c);
    args.rows = quern_buffer_address(m->rows);
    args.experts = quern_buffer_address(m->experts);
    args.rows_used = quern_buffer_address(m->rows_used);
    args.routing = routing ? quern_buffer_address(routing) : NULL;
    check(quern_op_launch(p->op, &args, (int64_t)rows, NULL), "launching");
}

void mixture_apply(struct mixture *m, const float *x, const int32_t *topk_ids,
                   const float *topk_weights, float *y)
{
    const size_t h_count = m->choices * m->expert_wide, y_count = m->choices * m->hidden;

    if (m->aligner)
        align(m, topk_ids);
    else
        align_on_cpu(m, topk_ids);
    check(quern_buffer_write(m->x, x, m->tokens * m->hidden * sizeof *x), "copying");
    check(quern_buffer_write(m->routing, topk_weights, m->choices * sizeof *topk_weights),
          "copying");
    /* rows of choices that no block names stay as they are */
    memset(m->host_h, 0, h_count * sizeof *m->host_h);
    memset(m->host_y, 0, y_count * sizeof *m->host_y);
    check(quern_buffer_write(m->h, m->host_h, h_count * sizeof *m->host_h), "copying");
    check(quern_buffer_write(m->y, m->host_y, y_count * sizeof *m->host_y), "copying");

    multiply(m, &m->up, m->x, m->tokens, NULL, m->h);
    /* BERT's activation, which op=moe does not have: those of gated layers are words of a problem,
     * and h then stays where it is */
    check(quern_buffer_read(m->h, m->host_h, h_count * sizeof *m->host_h), "copying");
    for (size_t i = 0; i < h_count; i++)
        m->host_h[i] = (float)gelu((double)m->host_h[i]);
    check(quern_buffer_write(m->h, m->host_h, h_count * sizeof *m->host_h), "copying");
    multiply(m, &m->down, m->h, m->choices, m->routing, m->y);

    check(quern_buffer_read(m->y, m->host_y, y_count * sizeof *m->host_y), "copying");
    for (size_t t = 0; t < m->tokens; t++)
        for (size_t i = 0; i < m->hidden; i++) {
            double sum = 0;
            for (size_t j = 0; j < TOP_K; j++)
                sum += (double)m->host_y[(t * TOP_K + j) * m->hidden + i];
            y[t * m->hidden + i] = (float)sum;
        }
}
