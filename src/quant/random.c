/* SPDX-License-Identifier: MIT */
/*
 * Test operands. Every value is a function of the seed, the operand and its index, in integer or
 * exactly rounded arithmetic, so that all machines and thread counts give the same bits.
 */
#include "quant/quant.h"

#include "base/os.h"
#include "base/thread.h"

#include <math.h>
#include <string.h>

/* Items that one thread fills at a time. */
#define RUN 65536
/* Activations of problems with act are larger by so much, so that gate and up, else about 1, lie on
 * both sides of what bounds them. */
#define ACT_SIZE 6

/*
 * The sum of twelve uniform variables of variance 1/12, less its mean: normal to the eye, never
 * beyond ±6, and free of a libm's last bits.
 */
static float normal_at(uint64_t seed, uint64_t index)
{
    int32_t sum = 0;

    for (uint64_t i = 0; i < 3; i++) {
        const uint64_t r = quant_random_at(seed, 3 * index + i);
        sum += (int32_t)(r & 0xffff) + (int32_t)(r >> 16 & 0xffff) + (int32_t)(r >> 32 & 0xffff) +
               (int32_t)(r >> 48);
    }
    return (float)(2 * sum - 12 * 65535) / 131072.0f;
}

/* One operand to fill. Each has a seed of its own, so that none repeats another. */
struct fill {
    void (*function)(const struct fill *f, size_t first, size_t count);
    uint64_t seed;
    void *array;
    size_t items, bytes; /* items as the function counts them */
    enum quern_dtype type;
    double least, span; /* uniform floats are (least + [0,1)) / span */
    unsigned exponent;  /* e8m0 scales are this one and the next three */
    double divisor;     /* normal numbers are divided by it; 0: they are not */
    const void *scales; /* the scales that scaled zero points belong to */
};

static void fill_normal(const struct fill *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        quant_store(f->type, f->array, i,
                    f->divisor > 0 ? (float)((double)normal_at(f->seed, i) / f->divisor)
                                   : normal_at(f->seed, i));
}

/* Random bytes; an item is eight of them, the last may have fewer. */
static void fill_bytes(const struct fill *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const uint64_t r = quant_random_at(f->seed, i);
        const size_t left = f->bytes - 8 * i;

        memcpy((uint8_t *)f->array + 8 * i, &r, left < 8 ? left : 8);
    }
}

static void fill_uniform(const struct fill *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const double uniform = (double)(quant_random_at(f->seed, i) >> 40) * 0x1p-24;
        ((float *)f->array)[i] = (float)((f->least + uniform) / f->span);
    }
}

/* The same in any type. */
static void fill_uniform_as(const struct fill *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const double uniform = (double)(quant_random_at(f->seed, i) >> 40) * 0x1p-24;
        quant_store(f->type, f->array, i, (float)((f->least + uniform) / f->span));
    }
}

static void fill_nibbles(const struct fill *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        ((uint8_t *)f->array)[i] = (uint8_t)(quant_random_at(f->seed, i) >> 60);
}

/* Scaled zero points, (z - 8)·s of random z; f->scales are filled already. */
static void fill_scaled(const struct fill *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const float z = (float)(quant_random_at(f->seed, i) >> 60);
        quant_store(f->type, f->array, i, (z - 8) * quant_load(f->type, f->scales, i));
    }
}

/* Any code of an eight-bit float that is not a NaN. */
static void fill_fp8(const struct fill *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const uint8_t code = (uint8_t)(quant_random_at(f->seed, i) >> 56);
        ((uint8_t *)f->array)[i] = isnan(quant_load(f->type, &code, 0)) ? 0 : code;
    }
}

static void fill_exponents(const struct fill *f, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        ((uint8_t *)f->array)[i] = (uint8_t)(f->exponent + (quant_random_at(f->seed, i) >> 62));
}

static void fill_run(void *user, size_t i)
{
    const struct fill *const f = user;
    const size_t left = f->items - i * RUN;

    f->function(f, i * RUN, left < RUN ? left : RUN);
}

static void fill(const struct fill *f)
{
    parallel_for((f->items + RUN - 1) / RUN, os_cpu_count(), fill_run, (void *)f);
}

/* Scales of scale=block128. Those of two blocks differ by a factor of up to nine: a kernel that
 * takes another block's is far off. */
static void fill_block_scales(const struct quern_problem *p, int64_t m, uint64_t seed,
                              const union operand_pointers *out)
{
    const double largest = (double)quant_fp8_largest(p->wq == QUERN_W_FP8FNUZ);
    const size_t blocks = (size_t)problem_scale_blocks(p->k);
    struct fill f = {.function = fill_uniform, .least = 0.125};

    if (out->b_scale) {
        f.seed = quant_random_at(seed, 2);
        f.array = out->b_scale;
        f.items = (size_t)problem_scale_blocks(p->n) * blocks;
        f.span = largest * sqrt((double)p->k) / 4;
        fill(&f);
    }
    if (out->a_scale) {
        f.seed = quant_random_at(seed, 6);
        f.array = out->a_scale;
        f.items = (size_t)m * blocks;
        f.span = 1;
        fill(&f);
    }
}

/* Weights of layout dense, and their scale. */
static void fill_dense(const struct quern_problem *p, int64_t m, uint64_t seed,
                       const union operand_pointers *out)
{
    const double root_k = sqrt((double)p->k);
    const bool fp8 = p->wq != QUERN_W_NONE, fnuz = p->wq == QUERN_W_FP8FNUZ;

    if (out->b)
        fill(&(struct fill){.function = fp8 ? fill_fp8 : fill_normal,
                            .seed = quant_random_at(seed, 1),
                            .array = out->b,
                            .items = (size_t)p->n * (size_t)p->k,
                            .type = problem_weight_type(p),
                            .divisor = root_k});
    if (p->scale == QUERN_SCALE_BLOCK128) {
        fill_block_scales(p, m, seed, out);
        return;
    }
    if (out->b_scale)
        *(float *)out->b_scale = (float)(4 / root_k) / quant_fp8_largest(fnuz);
    if (out->a_scale)
        *(float *)out->a_scale = 1.25f;
}

/* Scales of every kind; nested ones also have absmax8, a code and an offset. */
static void fill_scales(const struct quern_problem *p, uint64_t seed,
                        const union operand_pointers *out)
{
    const size_t blocks = (size_t)p->n * (size_t)(p->k / problem_group(p));
    const double root_k = sqrt((double)p->k);
    struct fill f = {.seed = quant_random_at(seed, 2), .array = out->scales, .items = blocks};

    if (p->wq == QUERN_W_INT4) {
        f.function = fill_uniform_as;
        f.type = problem_scale_type(p);
        f.least = 0.5;
        f.span = 4 * root_k;
    } else if (p->scale == QUERN_SCALE_E8M0) {
        f.function = fill_exponents;
        f.exponent = 124 - (unsigned)ilogb(root_k);
    } else if (p->scale == QUERN_SCALE_NESTED) {
        f.function = fill_uniform; /* (0.5 + [0,1)) / 2 */
        f.items = (blocks + OPERAND_NEST - 1) / OPERAND_NEST;
        f.least = 0.5;
        f.span = 2 * root_k;
    } else {
        f.function = fill_uniform;
        f.least = 0.5;
        f.span = root_k;
    }
    if (out->scales)
        fill(&f);
    if (out->zeros)
        fill(&(struct fill){.function = p->zero == QUERN_ZERO_SCALED ? fill_scaled : fill_nibbles,
                            .seed = quant_random_at(seed, 5),
                            .array = out->zeros,
                            .items = blocks,
                            .type = problem_scale_type(p),
                            .scales = out->scales});
    if (out->absmax8)
        fill(&(struct fill){.function = fill_bytes,
                            .seed = quant_random_at(seed, 4),
                            .array = out->absmax8,
                            .items = (blocks + 7) / 8,
                            .bytes = blocks});
    if (out->code)
        quant_nest_code(out->code);
    if (out->offset)
        *(float *)out->offset = (float)(1 / root_k);
}

quern_status quant_random(const struct quern_problem *problem, int64_t m, uint64_t seed,
                          const union operand_pointers *out)
{
    const size_t n = (size_t)problem->n, k = (size_t)problem->k;

    if (problem->op == QUERN_OP_MOE)
        return quant_random_moe(problem, m, seed, out, quant_random);
    if (problem->op == QUERN_OP_MOE_ALIGN) {
        if (out->topk_ids)
            quant_random_ids(problem, m, seed, out->topk_ids);
        return QUERN_OK;
    }
    if (out->a)
        fill(&(struct fill){.function = fill_normal,
                            .seed = quant_random_at(seed, 0),
                            .array = out->a,
                            .items = (size_t)m * k,
                            .type = problem->a,
                            .divisor = problem->act ? 1.0 / ACT_SIZE : 0});
    if (quant_is_dense(problem))
        fill_dense(problem, m, seed, out);
    else if (out->b)
        fill(&(struct fill){.function = fill_bytes,
                            .seed = quant_random_at(seed, 1),
                            .array = out->b,
                            .items = (n * k / 2 + 7) / 8,
                            .bytes = n * k / 2});
    if (!quant_is_dense(problem))
        fill_scales(problem, seed, out);
    if (out->bias)
        fill(&(struct fill){.function = fill_normal,
                            .seed = quant_random_at(seed, 3),
                            .array = out->bias,
                            .items = n,
                            .type = problem->c});
    return QUERN_OK;
}
