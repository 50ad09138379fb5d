/* SPDX-License-Identifier: MIT */
/* The public quantisation functions of tool.h. */
#include "quant/quant.h"

#include "base/os.h"

#include <quern/tool.h>

#include <string.h>

/* Operands of the weights of a normalised problem: those of quern_problem_operands but for a and
 * its scale, bias and c, which the quantiser neither makes nor reads. */
struct weights {
    struct quern_problem problem;
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    size_t count;
};

static quern_status weights_of(const struct quern_problem *problem, struct weights *w)
{
    struct quern_operand all[QUERN_OPERANDS_MAX];
    size_t count;

    *w = (struct weights){0};
    TRY(problem_normalise(problem, &w->problem));
    TRY(quant_accepts(&w->problem));
    TRY(quern_problem_operands(problem, 1, all, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].name, "a") && strcmp(all[i].name, "a_scale") &&
            strcmp(all[i].name, "bias") && strcmp(all[i].name, "c"))
            w->operands[w->count++] = all[i];
    return QUERN_OK;
}

static void *data_of(const struct quern_quantized *operands, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(operands[i].name, name))
            return operands[i].data;
    return NULL;
}

static quern_status quantise_nested(const struct weights *w, const float *values, size_t count,
                                    const struct quern_quantized *out)
{
    const struct quern_problem *const p = &w->problem;
    const size_t group = (size_t)problem_group(p), blocks = count / group;
    float *const absmax = os.malloc(blocks * sizeof *absmax);
    float *const code = data_of(out, w->count, "code");
    float *const offset = data_of(out, w->count, "offset");

    FAIL_IF(!absmax, QUERN_E_MEMORY, "no memory for %zu absmax", blocks);
    quant_quantise_4bit(p->wq, values, count, group, data_of(out, w->count, "b"), absmax);
    quant_nest_code(code);
    *offset = quant_nest_offset(absmax, blocks);
    quant_nest(absmax, blocks, code, *offset, data_of(out, w->count, "absmax8"),
               data_of(out, w->count, "scales"));
    os.free(absmax);
    return QUERN_OK;
}

static quern_status quantise(const struct weights *w, const float *values,
                             const struct quern_quantized *out)
{
    const struct quern_problem *const p = &w->problem;
    const size_t count = (size_t)p->n * (size_t)p->k;
    void *const b = data_of(out, w->count, "b"), *const scales = data_of(out, w->count, "scales");

    if (p->scale == QUERN_SCALE_NESTED)
        return quantise_nested(w, values, count, out);
    if (quant_is_dense(p)) {
        quant_quantise_dense(p, values, b, data_of(out, w->count, "b_scale"));
        return QUERN_OK;
    }
    if (p->wq == QUERN_W_INT4)
        return quant_quantise_int4(p, values, b, scales, data_of(out, w->count, "zeros"));
    if (p->wq == QUERN_W_MXFP4)
        quant_quantise_mxfp4(values, count, b, scales);
    else
        quant_quantise_4bit(p->wq, values, count, (size_t)problem_group(p), b, scales);
    return QUERN_OK;
}

static quern_status allocate(const struct weights *w, struct quern_quantized *out)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct quern_operand *const o = &w->operands[i];

        out[i] = (struct quern_quantized){
            .name = o->name, .data = os.malloc(o->bytes), .bytes = o->bytes};
        FAIL_IF(!out[i].data, QUERN_E_MEMORY, "no memory for operand %s of %zu bytes", o->name,
                out[i].bytes);
    }
    return QUERN_OK;
}

quern_status quern_quantize(const struct quern_problem *problem, const float *w,
                            struct quern_quantized *operands, size_t *count)
{
    struct quern_quantized made[QUERN_OPERANDS_MAX] = {0};
    struct weights weights;

    FAIL_IF(!w || !operands || !count, QUERN_E_ARGUMENT, "%s is null",
            !w          ? "w"
            : !operands ? "operands"
                        : "count");
    TRY(weights_of(problem, &weights));
    quern_status status = allocate(&weights, made);
    if (status == QUERN_OK)
        status = quantise(&weights, w, made);
    if (status != QUERN_OK) {
        quern_quantized_free(made, weights.count);
        return status;
    }
    memcpy(operands, made, weights.count * sizeof *made);
    *count = weights.count;
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
    struct quant_operands in = {0};
    const struct {
        const char *name;
        const void **at;
    } members[] = {{"b", &in.b},
                   {"scales", &in.scales},
                   {"absmax8", &in.absmax8},
                   {"code", &in.code},
                   {"offset", &in.offset},
                   {"zeros", &in.zeros},
                   {"b_scale", &in.b_scale}};
    struct weights weights;

    FAIL_IF((!operands && count) || !w, QUERN_E_ARGUMENT, "%s is null", w ? "operands" : "w");
    TRY(weights_of(problem, &weights));
    for (size_t i = 0; i < weights.count; i++)
        for (size_t j = 0; j < sizeof members / sizeof *members; j++)
            if (!strcmp(weights.operands[i].name, members[j].name))
                TRY(find(operands, count, members[j].name, weights.operands[i].bytes,
                         members[j].at));
    return quant_dequantise(&weights.problem, &in, w);
}
