/* SPDX-License-Identifier: MIT */
/* The public quantisation functions of tool.h. */
#include "quant/quant.h"

#include "base/os.h"

#include <quern/tool.h>

#include <string.h>

static quern_status normalise(const struct quern_problem *problem, struct quern_problem *normal)
{
    TRY(problem_normalise(problem, normal));
    FAIL_IF(normal->op == QUERN_OP_MOE, QUERN_E_PROBLEM,
            "weights of op=moe are made expert by expert, by the same words with op=gemm; experts' "
            "operands follow one another");
    FAIL_IF(!problem_has_weights(normal), QUERN_E_PROBLEM, "op=%s has no weights",
            op_name(normal->op));
    return quant_accepts(normal);
}

static quern_status quantise_nested(const struct quern_problem *p, const float *values,
                                    size_t count, const union operand_pointers *out)
{
    const size_t group = (size_t)problem_group(p), blocks = count / group;
    float *const absmax = os.malloc(blocks * sizeof *absmax);
    float *const offset = out->offset;

    FAIL_IF(!absmax, QUERN_E_MEMORY, "no memory for %zu absmax", blocks);
    quant_quantise_4bit(p->wq, values, count, group, out->b, absmax);
    quant_nest_code(out->code);
    *offset = quant_nest_offset(absmax, blocks);
    quant_nest(absmax, blocks, out->code, *offset, out->absmax8, out->scales);
    os.free(absmax);
    return QUERN_OK;
}

static quern_status quantise(const struct quern_problem *p, const float *values,
                             const union operand_pointers *out)
{
    const size_t count = (size_t)p->n * (size_t)p->k;

    if (p->scale == QUERN_SCALE_NESTED)
        return quantise_nested(p, values, count, out);
    if (quant_is_dense(p)) {
        quant_quantise_dense(p, values, out->b, out->b_scale);
        return QUERN_OK;
    }
    if (p->wq == QUERN_W_INT4)
        return quant_quantise_int4(p, values, out->b, out->scales, out->zeros);
    if (p->wq == QUERN_W_MXFP4)
        quant_quantise_mxfp4(values, count, out->b, out->scales);
    else
        quant_quantise_4bit(p->wq, values, count, (size_t)problem_group(p), out->b, out->scales);
    return QUERN_OK;
}

/* Whether quern_quantize makes operand i of a problem; describes it if so. */
static bool is_made(const struct quern_problem *p, int i, struct quern_operand *o)
{
    return operand_rows[i].owner == OWNER_WEIGHTS && operand_describe(p, (enum operand)i, 1, o);
}

/* Allocates and fills the operands that quern_quantize makes. When it fails, made[] has the first
 * *count of them, for the caller to free. */
static quern_status make(const struct quern_problem *p, const float *w,
                         struct quern_quantized made[OPERAND_COUNT], size_t *count)
{
    union operand_pointers out = {0};
    struct quern_operand o;

    for (int i = 0; i < OPERAND_COUNT; i++) {
        if (!is_made(p, i, &o))
            continue;
        out.at[i] = os.malloc(o.bytes);
        FAIL_IF(!out.at[i], QUERN_E_MEMORY, "no memory for operand %s of %zu bytes", o.name,
                (size_t)o.bytes);
        made[(*count)++] =
            (struct quern_quantized){.name = o.name, .data = out.at[i], .bytes = o.bytes};
    }
    return quantise(p, w, &out);
}

quern_status quern_quantize(const struct quern_problem *problem, const float *w,
                            struct quern_quantized *operands, size_t *count)
{
    struct quern_quantized made[OPERAND_COUNT];
    struct quern_problem p;
    size_t made_count = 0;

    FAIL_IF(!w || !operands || !count, QUERN_E_ARGUMENT, "%s is null",
            !w          ? "w"
            : !operands ? "operands"
                        : "count");
    TRY(normalise(problem, &p));
    const quern_status status = make(&p, w, made, &made_count);
    if (status != QUERN_OK) {
        quern_quantized_free(made, made_count);
        return status;
    }
    memcpy(operands, made, made_count * sizeof *made);
    *count = made_count;
    return QUERN_OK;
}

void quern_quantized_free(struct quern_quantized *operands, size_t count)
{
    for (size_t i = 0; operands && i < count; i++) {
        os.free(operands[i].data);
        operands[i].data = NULL;
    }
}

/* Finds an operand of a problem by its name among those given; its size must be exactly what the
 * problem asks. */
static quern_status find(const struct quern_problem *p, const struct quern_quantized *operands,
                         size_t count, const struct quern_operand *o, void **data)
{
    struct quern_operand unused;
    char all[OPERANDS_TEXT];
    uint32_t made = 0;

    for (size_t i = 0; i < count; i++) {
        if (!operands[i].name || strcmp(operands[i].name, o->name))
            continue;
        FAIL_IF(operands[i].bytes != o->bytes || !operands[i].data, QUERN_E_BUFFER,
                "operand %s has %zu bytes; the problem needs exactly %zu", o->name,
                operands[i].data ? operands[i].bytes : 0, (size_t)o->bytes);
        *data = operands[i].data;
        return QUERN_OK;
    }
    for (int i = 0; i < OPERAND_COUNT; i++)
        made |= (uint32_t)is_made(p, i, &unused) << i;
    operands_text(made, all);
    FAIL(QUERN_E_ARGUMENT, "operand %s is missing; expected %s", o->name, all);
}

quern_status quern_dequantize(const struct quern_problem *problem,
                              const struct quern_quantized *operands, size_t count, float *w)
{
    union operand_pointers in = {0};
    struct quern_problem p;
    struct quern_operand o;

    FAIL_IF((!operands && count) || !w, QUERN_E_ARGUMENT, "%s is null", w ? "operands" : "w");
    TRY(normalise(problem, &p));
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (is_made(&p, i, &o))
            TRY(find(&p, operands, count, &o, &in.at[i]));
    return quant_dequantise(&p, &in, w);
}
