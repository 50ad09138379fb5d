/* SPDX-License-Identifier: MIT */
/*
 * Makes operands of int4 layers as GPTQ, AWQ and compressed-tensors checkpoints store them. G is
 * the number of groups of a row:
 *
 *   AutoGPTQ, GPTQModel  qweight [K/8,N], qzeros [G,N/8], scales [G,N], g_idx [K]; the older of the
 *                        two formats stores z - 1 for a zero point z
 *   AutoAWQ              qweight [K,N/8], qzeros [G,N/8], scales [G,N]; the nibbles of a word are
 *                        n = 0 2 4 6 1 3 5 7 of its eight
 *   compressed-tensors   (pack-quantized) weight_packed [N,K/8], weight_scale [N,G],
 *                        weight_zero_point [N/8,G], weight_g_idx [K]; codes and zero points have
 *                        eight added
 */
#include "quant/quant.h"

#include "base/extensible.h"
#include "base/os.h"

#include <quern/tool.h>

#include <math.h>
#include <string.h>

#define MIDDLE 8 /* the code of zero, where there are no zero points */

struct import {
    struct quern_problem problem; /* normalised; layout and zero as wanted */
    const struct quern_checkpoint *from;
    size_t n, k, group, groups;
    uint32_t *perm; /* column j of the result is column perm[j] of the checkpoint; null: the same */
};

/* Whether a tensor's rows are those of W, so that a row's scales and zero points stand together. */
static bool by_rows(const struct import *m)
{
    return m->from->kind == QUERN_CHECKPOINT_COMPRESSED;
}

/* The checkpoint's names for its tensors of weights, scales, zero points and the groups of columns.
 */
static const char *const *tensor_names(const struct import *m)
{
    static const char *const usual[] = {"qweight", "scales", "qzeros", "g_idx"};
    static const char *const rows[] = {"weight_packed", "weight_scale", "weight_zero_point",
                                       "weight_g_idx"};

    return by_rows(m) ? rows : usual;
}

/* The index of the scale of group g and row n of W in the checkpoint's tensor. */
static size_t scale_at(const struct import *m, size_t g, size_t n)
{
    return by_rows(m) ? n * m->groups + g : g * m->n + n;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static quern_status check_tensor(const char *name, const void *data, size_t bytes, size_t wanted,
                                 const char *shape, size_t d0, size_t d1)
{
    FAIL_IF(!data, QUERN_E_ARGUMENT, "tensor %s is missing", name);
    FAIL_IF(bytes != wanted, QUERN_E_ARGUMENT,
            "tensor %s has %zu bytes; the problem needs %zu: %s, [%zu,%zu]", name, bytes, wanted,
            shape, d0, d1);
    return QUERN_OK;
}

static quern_status check_tensors(const struct import *m)
{
    const struct quern_checkpoint *const c = m->from;
    const bool awq = c->kind == QUERN_CHECKPOINT_AWQ, rows = by_rows(m);
    const char *const *const names = tensor_names(m);
    const size_t scale_bytes = dtype_bytes(problem_scale_type(&m->problem));

    FAIL_IF(m->n % 8, QUERN_E_DECLINED,
            "n=%zu: checkpoints hold zero points in words of eight, so n is a multiple of 8", m->n);
    TRY(check_tensor(names[0], c->qweight, c->qweight_bytes, m->n * m->k / 2,
                     rows  ? "i32 [N,K/8]"
                     : awq ? "i32 [K,N/8]"
                           : "i32 [K/8,N]",
                     rows  ? m->n
                     : awq ? m->k
                           : m->k / 8,
                     rows  ? m->k / 8
                     : awq ? m->n / 8
                           : m->n));
    TRY(check_tensor(names[1], c->scales, c->scales_bytes, m->groups * m->n * scale_bytes,
                     rows ? "[N,G] in the type of the scales" : "[G,N] in the type of the scales",
                     rows ? m->n : m->groups, rows ? m->groups : m->n));
    if (c->qzeros || m->problem.zero != QUERN_ZERO_NONE)
        TRY(check_tensor(names[2], c->qzeros, c->qzeros_bytes, m->groups * m->n / 2,
                         rows ? "i32 [N/8,G]" : "i32 [G,N/8]", rows ? m->n / 8 : m->groups,
                         rows ? m->groups : m->n / 8));
    FAIL_IF(c->g_idx && awq, QUERN_E_ARGUMENT, "tensor g_idx is given; awq has none");
    FAIL_IF(c->g_idx && c->g_idx_bytes != 4 * m->k, QUERN_E_ARGUMENT,
            "tensor %s has %zu bytes; the problem needs %zu: i32 [K], [%zu]", names[3],
            c->g_idx_bytes, 4 * m->k, m->k);
    return QUERN_OK;
}

static quern_status check_scales(const struct import *m)
{
    const enum quern_dtype type = problem_scale_type(&m->problem);

    const size_t columns = by_rows(m) ? m->groups : m->n;

    for (size_t i = 0; i < m->groups * m->n; i++) {
        const float s = quant_load(type, m->from->scales, i);
        FAIL_IF(!isfinite(s), QUERN_E_ARGUMENT,
                "tensor %s is %s at [%zu,%zu]; expected finite %s numbers", tensor_names(m)[1],
                isnan(s) ? "NaN" : "infinite", i / columns, i % columns, dtype_name(type));
    }
    return QUERN_OK;
}

/* ---- Zero points ----------------------------------------------------------------------------- */

/* The zero point of group g and row n of W, 0 to 16. */
static unsigned zero_of(const struct import *m, size_t g, size_t n)
{
    static const uint8_t place[8] = {0, 4, 1, 5, 2, 6, 3, 7}; /* of n in a word of awq */
    const enum quern_checkpoint_kind kind = m->from->kind;
    const unsigned nibble = kind == QUERN_CHECKPOINT_AWQ ? place[n % 8] : n % 8;
    uint32_t word;

    if (!m->from->qzeros)
        return MIDDLE;
    const size_t at = by_rows(m) ? n / 8 * m->groups + g : g * (m->n / 8) + n / 8;
    memcpy(&word, (const char *)m->from->qzeros + 4 * at, sizeof word);
    return (word >> 4 * nibble & 15) + (kind == QUERN_CHECKPOINT_GPTQ);
}

static quern_status write_zeros(const struct import *m, void *zeros)
{
    const enum quern_dtype type = problem_scale_type(&m->problem);

    for (size_t n = 0; n < m->n; n++)
        for (size_t g = 0; g < m->groups; g++) {
            const size_t at = n * m->groups + g;
            const unsigned z = zero_of(m, g, n);

            if (m->problem.zero == QUERN_ZERO_U8)
                ((uint8_t *)zeros)[at] = (uint8_t)z;
            else if (m->problem.zero == QUERN_ZERO_SCALED)
                quant_store(type, zeros, at,
                            ((float)z - MIDDLE) *
                                quant_load(type, m->from->scales, scale_at(m, g, n)));
            else
                FAIL_IF(z != MIDDLE, QUERN_E_ARGUMENT,
                        "tensor %s has the zero point %u of group %zu and row %zu of W; zero=none "
                        "needs 8 everywhere, so this layer is one of zero=u8 or zero=scaled%s",
                        tensor_names(m)[2], z, g, n,
                        m->from->kind == QUERN_CHECKPOINT_GPTQ && z == MIDDLE + 1
                            ? ", or of gptq_v2, which stores zero points as they are"
                            : "");
        }
    return QUERN_OK;
}

static void write_scales(const struct import *m, void *scales)
{
    const size_t bytes = dtype_bytes(problem_scale_type(&m->problem));

    for (size_t n = 0; n < m->n; n++)
        for (size_t g = 0; g < m->groups; g++)
            memcpy((char *)scales + (n * m->groups + g) * bytes,
                   (const char *)m->from->scales + scale_at(m, g, n) * bytes, bytes);
}

/* ---- Act-order ------------------------------------------------------------------------------- */

/*
 * Sets perm, the order of the columns sorted by their group and stable within one; null when they
 * are in that order already. Every group must have as many columns as the problem says.
 */
static quern_status sort_columns(struct import *m)
{
    size_t *const next = os.calloc(m->groups, sizeof *next);
    int32_t group;
    bool same = true;

    m->perm = os.malloc(m->k * sizeof *m->perm);
    if (!next || !m->perm) {
        os.free(next);
        FAIL(QUERN_E_MEMORY, "no memory for the order of %zu columns", m->k);
    }
    for (size_t k = 0; k < m->k; k++) {
        memcpy(&group, (const char *)m->from->g_idx + 4 * k, sizeof group);
        if (group < 0 || (size_t)group >= m->groups || next[group] == m->group) {
            const bool many = group >= 0 && (size_t)group < m->groups;
            os.free(next);
            FAIL_IF(many, QUERN_E_DECLINED,
                    "tensor %s has more than %zu columns in group %d; only groups of equal size "
                    "have kernels",
                    tensor_names(m)[3], m->group, group);
            FAIL(QUERN_E_ARGUMENT, "tensor %s has group %d at column %zu; expected 0 to %zu",
                 tensor_names(m)[3], group, k, m->groups - 1);
        }
        const size_t at = (size_t)group * m->group + next[group]++;
        m->perm[at] = (uint32_t)k;
        same &= at == k;
    }
    os.free(next);
    if (same) {
        os.free(m->perm);
        m->perm = NULL;
    }
    return QUERN_OK;
}

static quern_status write_weights(const struct import *m, void *b)
{
    struct quern_problem from = m->problem;
    quern_status status;
    void *columns;

    from.layout = by_rows(m)                              ? QUERN_LAYOUT_K8
                  : m->from->kind == QUERN_CHECKPOINT_AWQ ? QUERN_LAYOUT_AWQ
                                                          : QUERN_LAYOUT_GPTQ;
    if (!m->perm || from.layout == QUERN_LAYOUT_GPTQ)
        return quant_repack_columns(&from, m->problem.layout, m->from->qweight, m->perm, b);
    /* columns can be reordered on the way out of layout gptq only */
    columns = os.malloc(m->n * m->k / 2);
    FAIL_IF(!columns, QUERN_E_MEMORY, "no memory for %zu bytes of weights", m->n * m->k / 2);
    status = quant_repack(&from, QUERN_LAYOUT_GPTQ, m->from->qweight, columns);
    from.layout = QUERN_LAYOUT_GPTQ;
    if (status == QUERN_OK)
        status = quant_repack_columns(&from, m->problem.layout, columns, m->perm, b);
    os.free(columns);
    return status;
}

/* ---- The public function --------------------------------------------------------------------- */

static void *add(struct quern_quantized *out, size_t *count, const char *name, size_t bytes)
{
    void *const data = os.malloc(bytes);

    out[(*count)++] = (struct quern_quantized){.name = name, .data = data, .bytes = bytes};
    return data;
}

static quern_status convert(struct import *m, struct quern_quantized *out, size_t *count)
{
    const size_t points = m->n * m->groups;
    const size_t scale_bytes = points * dtype_bytes(problem_scale_type(&m->problem));
    const enum quern_zero zero = m->problem.zero;

    TRY(check_tensors(m));
    TRY(check_scales(m));
    if (m->from->g_idx)
        TRY(sort_columns(m));
    void *const b = add(out, count, "b", m->n * m->k / 2);
    void *const scales = add(out, count, "scales", scale_bytes);
    void *const zeros = zero == QUERN_ZERO_NONE ? NULL
                                                : add(out, count, "zeros",
                                                      zero == QUERN_ZERO_U8 ? points : scale_bytes);
    FAIL_IF(!b || !scales || (!zeros && zero != QUERN_ZERO_NONE), QUERN_E_MEMORY,
            "no memory for the operands of a layer of %zu weights", m->n * m->k);
    TRY(write_zeros(m, zeros));
    write_scales(m, scales);
    TRY(write_weights(m, b));
    if (m->perm) { /* `out` takes it over */
        out[(*count)++] = (struct quern_quantized){
            .name = "perm", .data = m->perm, .bytes = m->k * sizeof *m->perm};
        m->perm = NULL;
    }
    return QUERN_OK;
}

quern_status quern_import(const struct quern_problem *problem,
                          const struct quern_checkpoint *checkpoint,
                          struct quern_quantized *operands, size_t *count)
{
    struct quern_quantized made[QUERN_OPERANDS_MAX] = {0};
    struct quern_checkpoint from;
    struct import m = {.from = &from};
    size_t made_count = 0;

    FAIL_IF(!operands || !count, QUERN_E_ARGUMENT, "%s is null", operands ? "count" : "operands");
    TRY(extensible_read(EXTENSIBLE(quern_checkpoint, QUERN_CHECKPOINT_SIZE_MIN), checkpoint,
                        &from));
    FAIL_IF(from.kind < QUERN_CHECKPOINT_GPTQ || from.kind > QUERN_CHECKPOINT_COMPRESSED,
            QUERN_E_ARGUMENT, "checkpoint.kind is %d; expected 1 to %d", (int)from.kind,
            QUERN_CHECKPOINT_COMPRESSED);
    TRY(problem_normalise(problem, &m.problem));
    FAIL_IF(!quant_is_packed_int4(&m.problem), QUERN_E_DECLINED,
            "these checkpoints hold int4, and go to layout k8, exl, ck, gptq or awq; the "
            "problem is one of wq=%s layout=%s",
            weight_name(m.problem.wq), layout_name(m.problem.layout));
    m.n = (size_t)m.problem.n;
    m.k = (size_t)m.problem.k;
    m.group = (size_t)problem_group(&m.problem);
    m.groups = m.k / m.group;
    const quern_status status = convert(&m, made, &made_count);
    os.free(m.perm);
    if (status != QUERN_OK) {
        quern_quantized_free(made, made_count);
        return status;
    }
    memcpy(operands, made, made_count * sizeof *made);
    *count = made_count;
    return QUERN_OK;
}
