/* SPDX-License-Identifier: MIT */
/* The public quantisation functions of tool.h. */
#include "quant/quant.h"

#include "base/os.h"

#include <quern/tool.h>

#include <string.h>

/* Sizes of what a 4-bit problem's weights are made of. */
struct sizes {
    struct quern_problem problem; /* normalised */
    size_t weights, group, b_bytes, scales_bytes;
};

static quern_status sizes_of(const struct quern_problem *problem, struct sizes *s)
{
    TRY(problem_normalise(problem, &s->problem));
    const struct quern_problem *const p = &s->problem;

    FAIL_IF(p->wq != QUERN_W_NF4 && p->wq != QUERN_W_FP4, QUERN_E_DECLINED,
            "wq=%s cannot be quantised here; nf4 and fp4 can", weight_name(p->wq));
    FAIL_IF(p->scale != QUERN_SCALE_F32, QUERN_E_DECLINED,
            "scale=nested cannot be quantised here; scale=f32 can");
    FAIL_IF(p->layout != QUERN_LAYOUT_BNB, QUERN_E_DECLINED,
            "layout=tileN is made by repacking; quantise with layout=bnb");
    /* dimensions are at most 2^30 and k is a multiple of the group: nothing here overflows */
    s->weights = (size_t)p->n * (size_t)p->k;
    s->group = (size_t)problem_group(p);
    s->b_bytes = s->weights / 2;
    s->scales_bytes = s->weights / s->group * sizeof(float);
    return QUERN_OK;
}

quern_status quern_quantize(const struct quern_problem *problem, const float *w,
                            struct quern_quantized *operands, size_t *count)
{
    struct sizes s;

    FAIL_IF(!w || !operands || !count, QUERN_E_ARGUMENT, "%s is null",
            !w          ? "w"
            : !operands ? "operands"
                        : "count");
    TRY(sizes_of(problem, &s));
    uint8_t *const b = os.malloc(s.b_bytes);
    float *const scales = os.malloc(s.scales_bytes);
    if (!b || !scales) {
        os.free(b);
        os.free(scales);
        FAIL(QUERN_E_MEMORY, "no memory for %zu quantised weights", s.weights);
    }
    quant_quantise_4bit(s.problem.wq, w, s.weights, s.group, b, scales);
    operands[0] = (struct quern_quantized){.name = "b", .data = b, .bytes = s.b_bytes};
    operands[1] =
        (struct quern_quantized){.name = "scales", .data = scales, .bytes = s.scales_bytes};
    *count = 2;
    return QUERN_OK;
}

void quern_quantized_free(struct quern_quantized *operands, size_t count)
{
    for (size_t i = 0; operands && i < count; i++) {
        os.free(operands[i].data);
        operands[i].data = NULL;
    }
}

/* The operand of that name, which must have exactly `bytes` bytes. */
static quern_status find(const struct quern_quantized *operands, size_t count, const char *name,
                         size_t bytes, const void **data)
{
    for (size_t i = 0; i < count; i++) {
        if (!operands[i].name || strcmp(operands[i].name, name))
            continue;
        FAIL_IF(operands[i].bytes != bytes || !operands[i].data, QUERN_E_BUFFER,
                "operand %s has %zu bytes; the problem needs exactly %zu", name,
                operands[i].data ? operands[i].bytes : 0, bytes);
        *data = operands[i].data;
        return QUERN_OK;
    }
    FAIL(QUERN_E_ARGUMENT, "operand %s is missing", name);
}

quern_status quern_dequantize(const struct quern_problem *problem,
                              const struct quern_quantized *operands, size_t count, float *w)
{
    const void *b, *scales;
    struct sizes s;

    FAIL_IF((!operands && count) || !w, QUERN_E_ARGUMENT, "%s is null", w ? "operands" : "w");
    TRY(sizes_of(problem, &s));
    TRY(find(operands, count, "b", s.b_bytes, &b));
    TRY(find(operands, count, "scales", s.scales_bytes, &scales));
    quant_dequantise_4bit(s.problem.wq, b, scales, s.weights, s.group, w);
    return QUERN_OK;
}
