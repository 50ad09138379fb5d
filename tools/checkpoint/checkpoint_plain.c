/* SPDX-License-Identifier: MIT */
/*
 * Weights that stand as a matrix, or one for each expert: plain ones (weight [N,K]); 8-bit floats
 * with one scale (weight F8_E4M3 [N,K], weight_scale, input_scale if activations have a fixed one)
 * as compressed-tensors' float-quantized and vLLM's fp8 files have them, or with one for each block
 * (weight_scale_inv, or weight_scale, [N/128,K/128] rounded up) as DeepSeek's have; and gpt-oss's
 * MXFP4 (…_blocks, …_scales).
 */
#include "checkpoint/checkpoint_parts.h"
#include "checkpoint/tensor_values.h"

#include <stdio.h>
#include <string.h>

/* ---- MXFP4 ----------------------------------------------------------------------------------- */

/* Reads MXFP4 weights of all experts of a layer in one tensor, [experts,N,K/32,16], with scales
 * [experts,N,K/32]. */
int checkpoint_read_mxfp4(const struct checkpoint_search *q, const struct tensor *blocks)
{
    const struct tensor *const scales = checkpoint_part(q, "_scales");
    char have[160], text[QUERN_TEXT_MAX];

    q->layer->format = "mxfp4";
    if (!scales)
        return checkpoint_missing(q, "_scales", "_blocks");
    checkpoint_show(blocks, have, sizeof have);
    if (strcmp(blocks->dtype, "U8") || blocks->rank != 4 || blocks->shape[3] != 16)
        return fail("%s: tensor %s is %s; expected U8 [experts,N,K/32,16]", q->s->path,
                    blocks->name, have);
    checkpoint_show(scales, have, sizeof have);
    if (strcmp(scales->dtype, "U8") || scales->rank != 3 ||
        memcmp(scales->shape, blocks->shape, 3 * sizeof *scales->shape) != 0)
        return fail("%s: tensor %s is %s; expected U8 [%lld,%lld,%lld]", q->s->path, scales->name,
                    have, (long long)blocks->shape[0], (long long)blocks->shape[1],
                    (long long)blocks->shape[2]);
    q->layer->experts = blocks->shape[0];
    const struct tensor *const bias = checkpoint_part(q, "_bias");
    snprintf(text, sizeof text, "wq=mxfp4 n=%lld k=%lld a=bf16 bias=%d",
             (long long)blocks->shape[1], (long long)blocks->shape[2] * 32,
             bias && bias->rank == 2 && bias->shape[1] == blocks->shape[1]);
    checkpoint_set_problem(q, text);
    return EXIT_OK;
}

/* ---- fp8 ------------------------------------------------------------------------------------- */

static bool is_scalar(const struct tensor *t)
{
    return t->rank == 0 || (t->rank == 1 && t->shape[0] == 1);
}

/* Whether a tensor has a scale for each block of 128 rows and 128 columns of W. */
static bool is_of_blocks(const struct tensor *scale, const struct tensor *weight)
{
    return scale->rank == 2 && scale->shape[0] == (weight->shape[0] + 127) / 128 &&
           scale->shape[1] == (weight->shape[1] + 127) / 128;
}

/* Sets the problem of fp8 weights. Without input_scale the activations may be of any type: that of
 * the scales is taken, or bf16. */
static void set_fp8(const struct checkpoint_search *q, const struct tensor *weight,
                    const struct tensor *scale, bool input, const char *kind)
{
    const char *const wq = !strcmp(weight->dtype, "F8_E4M3FNUZ") ? "fp8fnuz" : "fp8";
    const char *const type = checkpoint_type_word(scale->dtype);
    char text[QUERN_TEXT_MAX];

    snprintf(text, sizeof text, "wq=%s scale=%s n=%lld k=%lld a=%s bias=%d", wq, kind,
             (long long)weight->shape[0], (long long)weight->shape[1],
             input                 ? wq
             : strcmp(type, "f32") ? type
                                   : "bf16",
             checkpoint_has_bias(q, weight->shape[0]));
    checkpoint_set_problem(q, text);
}

/* Reads weights of 8-bit floats. */
static int read_fp8(const struct checkpoint_search *q, const struct tensor *weight)
{
    const struct tensor *const scale = checkpoint_part(q, ".weight_scale");
    const struct tensor *const input = checkpoint_part(q, ".input_scale");
    const struct tensor *const inverse = checkpoint_part(q, ".weight_scale_inv");
    const struct tensor *const blocks = inverse ? inverse : scale;
    char have[160];
    int status;

    q->layer->format = "fp8";
    if (!blocks) {
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "weights of type %s without a weight_scale", weight->dtype);
        return EXIT_OK;
    }
    if (is_of_blocks(blocks, weight)) {
        if ((status =
                 checkpoint_expect(blocks, "F16|BF16|F32|", blocks->shape[0], blocks->shape[1])) ||
            (status = tensor_check_finite(blocks)))
            return status;
        set_fp8(q, weight, blocks, false, "block128");
        return EXIT_OK;
    }
    if (inverse || !is_scalar(scale)) {
        checkpoint_show(blocks, have, sizeof have);
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "%s with scales %s; one for all weights is known, and one for each block of 128 "
                 "by 128",
                 weight->dtype, have);
        return EXIT_OK;
    }
    if (scale->rank && (status = checkpoint_expect(scale, "F16|BF16|F32|", 1, -1)))
        return status;
    if ((status = tensor_check_finite(scale)) || (input && (status = tensor_check_finite(input))))
        return status;
    set_fp8(q, weight, scale, input, "tensor");
    return EXIT_OK;
}

/* ---- Plain ----------------------------------------------------------------------------------- */

static bool is_float(const struct tensor *t)
{
    return !strcmp(t->dtype, "F16") || !strcmp(t->dtype, "BF16") || !strcmp(t->dtype, "F32");
}

/* Whether a matrix is a table of embeddings, whose rows are looked up, not multiplied:
 * embed_tokens, position_embedding, wte … */
static bool is_table(const char *name)
{
    const char *const dot = strrchr(name, '.'), *const last = dot ? dot + 1 : name;

    return !strcmp(last, "wte") || !strcmp(last, "wpe") ||
           (strstr(last, "embed") && strcmp(last, "embed_out")); /* GPT-NeoX's head */
}

int checkpoint_read_plain(const struct checkpoint_search *q, const struct tensor *weight)
{
    const struct tensor *const bias = checkpoint_part(q, ".bias");
    char text[QUERN_TEXT_MAX];

    if (weight->rank != 2 || is_table(q->layer->name)) /* weights of norms are vectors */
        return EXIT_OK;
    const int64_t n = weight->shape[0], k = weight->shape[1];
    if (!strcmp(weight->dtype, "F8_E4M3") || !strcmp(weight->dtype, "F8_E4M3FNUZ"))
        return read_fp8(q, weight);
    q->layer->format = "plain";
    if (!is_float(weight)) {
        snprintf(q->layer->reason, sizeof q->layer->reason, "weights of type %s", weight->dtype);
    } else if (bias && bias->rank == 1 && bias->shape[0] == k && k != n) { /* [K,N], as GPT-2's */
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "weights [K,N], as the %lld elements of the bias say; n=%lld k=%lld once they are "
                 "transposed",
                 (long long)k, (long long)k, (long long)n);
    } else {
        snprintf(text, sizeof text, "wq=none n=%lld k=%lld a=%s bias=%d", (long long)n,
                 (long long)k, checkpoint_type_word(weight->dtype), checkpoint_has_bias(q, n));
        checkpoint_set_problem(q, text);
    }
    return EXIT_OK;
}

/* Reads plain weights of all experts of a layer in one tensor, [experts,N,K] or [experts,K,N].
 * Which of both it is follows from the other one of gate_up and down: gate_up has twice as many
 * rows as down has columns. */
int checkpoint_read_experts(const struct checkpoint_search *q, const struct tensor *weights)
{
    const char *const name = q->layer->name, *const last = strrchr(name, '.') + 1;
    const bool up = !strcmp(last, "gate_up_proj");
    char other[sizeof q->layer->name + 16], text[QUERN_TEXT_MAX];

    snprintf(other, sizeof other, "%.*s%s", (int)(last - name), name,
             up ? "down_proj" : "gate_up_proj");
    const struct tensor *const found = safetensors_find(q->s, other);
    if (weights->rank != 3 || !is_float(weights) || !found || found->rank != 3)
        return EXIT_OK;
    const int64_t *const a = up ? weights->shape : found->shape;
    const int64_t *const b = up ? found->shape : weights->shape;
    const int64_t rows = weights->shape[1], columns = weights->shape[2];
    const struct tensor *const bias = checkpoint_part(q, "_bias");
    q->layer->format = "plain";
    q->layer->experts = weights->shape[0];
    if (a[2] == b[1] && a[1] == 2 * b[2]) {
        snprintf(text, sizeof text, "wq=none n=%lld k=%lld a=%s bias=%d", (long long)rows,
                 (long long)columns, checkpoint_type_word(weights->dtype),
                 bias && bias->rank == 2 && bias->shape[1] == rows);
        checkpoint_set_problem(q, text);
    } else if (a[1] == b[2] && a[2] == 2 * b[1]) {
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "weights [experts,K,N]; n=%lld k=%lld once they are transposed",
                 (long long)columns, (long long)rows);
    } else {
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "weights [%lld,%lld] for each expert do not go with those of %s", (long long)rows,
                 (long long)columns, other);
    }
    return EXIT_OK;
}
