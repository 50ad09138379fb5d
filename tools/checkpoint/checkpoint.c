/* SPDX-License-Identifier: MIT */
/*
 * Names and shapes: AutoGPTQ and GPTQModel (qweight [K/8,N], qzeros, scales, g_idx), AutoAWQ
 * (qweight [K,N/8]), compressed-tensors' pack-quantized (weight_packed [N,K/8]), bitsandbytes 4-bit
 * (weight, weight.absmax, weight.quant_state.bitsandbytes__nf4), and those of checkpoint_plain.c.
 */
#include "checkpoint/checkpoint_parts.h"
#include "checkpoint/tensor_values.h"
#include "files/files.h"
#include "files/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest state that bitsandbytes keeps beside a tensor: it is a few lines of JSON. */
#define STATE_BYTES_MAX ((size_t)1 << 16)

/* Writes the word "group=128", or "group=channel" where a row has one group. False, with a reason
 * in the layer, when groups are uneven. */
static bool group_word(const struct checkpoint_search *q, int64_t k, int64_t groups, char word[32])
{
    if (groups < 1 || k % groups) {
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "k=%lld columns in %lld groups are not of equal size", (long long)k,
                 (long long)groups);
        return false;
    }
    if (groups == 1)
        snprintf(word, 32, "group=channel");
    else
        snprintf(word, 32, "group=%lld", (long long)(k / groups));
    return true;
}

/* ---- GPTQ and AWQ ---------------------------------------------------------------------------- */

/* Whether every zero point in a tensor's words is 8. gptq's first format stores zero points less
 * one, and no file says which format it has: there 7 is taken for 8, too. */
static int zeros_are_eight(const struct tensor *t, bool awq, bool *eight)
{
    char *data;
    uint32_t word;

    const int status = safetensors_data(t, TENSOR_VALUES_MAX, &data);
    if (status)
        return status;
    *eight = true;
    memcpy(&word, t->bytes >= 4 ? data : "\x88\x88\x88\x88", sizeof word);
    if (word != 0x88888888u && (awq || word != 0x77777777u))
        *eight = false;
    for (uint64_t at = 4; at + 4 <= t->bytes && *eight; at += 4)
        *eight = !memcmp(data, data + at, 4);
    free(data);
    return EXIT_OK;
}

static int read_order(const struct checkpoint_search *q, const struct tensor *t, int64_t k,
                      int64_t groups)
{
    int64_t uneven = -1;

    int status = checkpoint_expect(t, "I32|", k, -1);
    if (!status)
        status = tensor_check_order(t, k, groups, &q->layer->act_order, &uneven);
    if (!status && uneven >= 0)
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "g_idx has more than %lld columns in group %lld; only groups of equal size have "
                 "kernels",
                 (long long)(k / groups), (long long)uneven);
    return status;
}

/* Reports scales and weights whose shapes contradict each other. Where the zero points agree with
 * the scales it is the weights that are wrong. */
static int mismatch(const struct tensor *qweight, const struct tensor *scales,
                    const struct tensor *qzeros)
{
    const int64_t groups = scales->shape[0], n = scales->shape[1];
    char weights[160], have[160];

    checkpoint_show(qweight, weights, sizeof weights);
    checkpoint_show(scales, have, sizeof have);
    if (qzeros && qzeros->rank == 2 && qzeros->shape[0] == groups && qzeros->shape[1] == n / 8)
        return fail("%s: tensor %s is %s beside %s, %s; expected I32 [K/8,%lld] (GPTQ) or "
                    "[K,%lld] (AWQ)",
                    qweight->path, qweight->name, weights, scales->name, have, (long long)n,
                    (long long)n / 8);
    return fail("%s: tensor %s is %s beside %s, %s; expected [G,%lld] (GPTQ) or [G,%lld] (AWQ)",
                scales->path, scales->name, have, qweight->name, weights,
                (long long)qweight->shape[1], (long long)qweight->shape[1] * 8);
}

/* The bits of a weight, by the width of the zero points, which have so many words for each 32 rows
 * of W; 4 if that is no other known number. */
static int64_t bits_of_zeros(const struct tensor *qzeros, int64_t groups, int64_t n)
{
    if (!qzeros || qzeros->rank != 2 || qzeros->shape[0] != groups || n % 32 ||
        qzeros->shape[1] % (n / 32))
        return 4;
    const int64_t bits = qzeros->shape[1] / (n / 32);

    return bits == 2 || bits == 3 || bits == 8 ? bits : 4;
}

/* Checks the shapes of a layer of GPTQ or AWQ. A layer that is sound, but that no problem
 * describes, gets a reason. */
static int check_gptq(const struct checkpoint_search *q, const struct tensor *qweight,
                      const struct tensor *scales, const struct tensor *qzeros, bool awq)
{
    const int64_t groups = scales->shape[0], n = scales->shape[1];
    const int64_t bits = bits_of_zeros(qzeros, groups, n);
    int status;

    if (!awq && qweight->shape[1] != n)
        return mismatch(qweight, scales, qzeros);
    if ((status = checkpoint_expect(qweight, "I32|", qweight->shape[0], awq ? n / 8 : n)) ||
        (status = checkpoint_expect(scales, "F16|BF16|F32|", groups, n)))
        return status;
    if (bits != 4)
        snprintf(q->layer->reason, sizeof q->layer->reason, "%lld-bit weights", (long long)bits);
    else if (n % 8)
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "n=%lld is not a multiple of 8: zero points are in words of eight", (long long)n);
    else if (qzeros)
        status = checkpoint_expect(qzeros, "I32|", groups, n / 8);
    return status;
}

static int read_gptq(const struct checkpoint_search *q, const struct tensor *qweight)
{
    const struct tensor *const scales = checkpoint_part(q, ".scales"),
                               *qzeros = checkpoint_part(q, ".qzeros");
    const struct tensor *const g_idx = checkpoint_part(q, ".g_idx");
    char word[32], text[QUERN_TEXT_MAX];
    bool eight = true;
    int status;

    q->layer->format = "gptq";
    if (!scales || (!qzeros && checkpoint_is_part(q->s->path)))
        return checkpoint_missing(q, scales ? ".qzeros" : ".scales", ".qweight");
    if ((status = checkpoint_expect_matrix(scales)) || (status = checkpoint_expect_matrix(qweight)))
        return status;
    const int64_t groups = scales->shape[0], n = scales->shape[1];
    const bool awq = n >= 8 && qweight->shape[1] == n / 8;
    const int64_t k = awq ? qweight->shape[0] : qweight->shape[0] * 8;

    q->layer->format = awq ? "awq" : "gptq";
    if ((status = check_gptq(q, qweight, scales, qzeros, awq)) || q->layer->reason[0] ||
        !group_word(q, k, groups, word))
        return status;
    if ((status = tensor_check_finite(scales)) ||
        (qzeros && (status = zeros_are_eight(qzeros, awq, &eight))) ||
        (g_idx && (status = read_order(q, g_idx, k, groups))) || q->layer->reason[0])
        return status;
    const char *const scale = checkpoint_type_word(scales->dtype);
    snprintf(text, sizeof text, "wq=int4 n=%lld k=%lld %s scale=%s a=%s zero=%s layout=%s bias=%d",
             (long long)n, (long long)k, word, scale, strcmp(scale, "f32") ? scale : "bf16",
             eight ? "none" : "u8", q->layer->format, checkpoint_has_bias(q, n));
    checkpoint_set_problem(q, text);
    return EXIT_OK;
}

/* ---- compressed-tensors ---------------------------------------------------------------------- */

/* Checks the tensor that holds W's shape, as I64 [2] with N and K: packed words may have room for
 * more columns than W has. */
static int check_shape(const struct checkpoint_search *q, const struct tensor *packed,
                       const struct tensor *shape)
{
    const int64_t n = packed->shape[0], words = packed->shape[1];
    int64_t size[2];
    char *data;

    int status = checkpoint_expect(shape, "I64|", 2, -1);
    if (status || (status = safetensors_data(shape, sizeof size, &data)))
        return status;
    memcpy(size, data, sizeof size);
    free(data);
    const int64_t k = size[1];
    if (size[0] == n && k == words * 8)
        return EXIT_OK;
    if (size[0] == n && k > 0 && k <= words * 16 && words * 32 % k == 0)
        snprintf(q->layer->reason, sizeof q->layer->reason, "%lld-bit weights",
                 (long long)(words * 32 / k));
    else if (size[0] == n && k > words * 8 - 8 && k < words * 8)
        snprintf(q->layer->reason, sizeof q->layer->reason, "k=%lld is not a multiple of 8",
                 (long long)k);
    else
        status = fail("%s: tensor %s says [%lld,%lld]; %s, I32 [%lld,%lld], makes it [%lld,%lld]",
                      shape->path, shape->name, (long long)size[0], (long long)k, packed->name,
                      (long long)n, (long long)words, (long long)n, (long long)words * 8);
    return status;
}

static int read_compressed(const struct checkpoint_search *q, const struct tensor *packed)
{
    const struct tensor *const scale = checkpoint_part(q, ".weight_scale");
    const struct tensor *const zero = checkpoint_part(q, ".weight_zero_point");
    const struct tensor *const g_idx = checkpoint_part(q, ".weight_g_idx");
    const struct tensor *const shape = checkpoint_part(q, ".weight_shape");
    char word[32], text[QUERN_TEXT_MAX];
    int status;

    q->layer->format = "compressed-tensors";
    if (!scale)
        return checkpoint_missing(q, ".weight_scale", ".weight_packed");
    if (strcmp(packed->dtype, "I32")) {
        snprintf(q->layer->reason, sizeof q->layer->reason, "packed as %s, not as 4-bit integers",
                 packed->dtype);
        return EXIT_OK;
    }
    if ((status = checkpoint_expect_matrix(packed)) || (status = checkpoint_expect_matrix(scale)) ||
        (shape && (status = check_shape(q, packed, shape))) || q->layer->reason[0])
        return status;
    const int64_t n = packed->shape[0], k = packed->shape[1] * 8, groups = scale->shape[1];
    if ((status = checkpoint_expect(scale, "F16|BF16|F32|", n, groups)) ||
        (zero && (status = checkpoint_expect(zero, "I32|", (n + 7) / 8, groups))))
        return status;
    if (zero && n % 8)
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "n=%lld is not a multiple of 8: zero points are in words of eight", (long long)n);
    if (q->layer->reason[0] || !group_word(q, k, groups, word))
        return EXIT_OK;
    if ((status = tensor_check_finite(scale)) ||
        (g_idx && (status = read_order(q, g_idx, k, groups))) || q->layer->reason[0])
        return status;
    const char *const type = checkpoint_type_word(scale->dtype);
    snprintf(text, sizeof text, "wq=int4 n=%lld k=%lld %s scale=%s a=%s zero=%s layout=k8 bias=%d",
             (long long)n, (long long)k, word, type, strcmp(type, "f32") ? type : "bf16",
             zero ? "u8" : "none", checkpoint_has_bias(q, n));
    checkpoint_set_problem(q, text);
    return EXIT_OK;
}

/* ---- bitsandbytes ---------------------------------------------------------------------------- */

/* Checks the tensors of nested absmax: 8-bit codes in blocks of 256, around an offset. */
static int check_nested(const struct checkpoint_search *q, const struct tensor *t, json_t *state,
                        int64_t blocks)
{
    const struct tensor *const absmax = checkpoint_part(q, ".weight.nested_absmax");
    const struct tensor *const map = checkpoint_part(q, ".weight.nested_quant_map");
    const json_t *const offset = json_object_get(state, "nested_offset");
    char shown[JSON_SHOWN_BYTES];
    int64_t block;
    int status = json_field_int(state, t->name, "nested_blocksize", 1, 1 << 20, &block);

    if (status)
        return status;
    if (!absmax || !map)
        return checkpoint_missing(q, absmax ? ".weight.nested_quant_map" : ".weight.nested_absmax",
                                  ".weight");
    if (!json_is_number(offset))
        return fail("%s: tensor %s: 'nested_offset' is %s; it must be a number", t->path, t->name,
                    offset ? json_shown(offset, shown) : "missing");
    if ((status = checkpoint_expect(absmax, "F32|", (blocks + block - 1) / block, -1)) ||
        (status = checkpoint_expect(map, "F32|", 256, -1)) ||
        (status = tensor_check_finite(absmax)) || (status = tensor_check_finite(map)))
        return status;
    if (block != 256)
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "absmax in blocks of %lld; 256 are known", (long long)block);
    return EXIT_OK;
}

/* Reads bitsandbytes' state, such as {"quant_type":"nf4","blocksize":64,"dtype":"bfloat16",
 * "shape":[N,K],"nested_blocksize":256 …}, and checks the tensors by it. */
static int read_state(const struct checkpoint_search *q, const struct tensor *weight,
                      const struct tensor *t, const char *wq, json_t *state)
{
    const json_t *const shape = json_object_get(state, "shape");
    const char *const dtype = json_string_value(json_object_get(state, "dtype"));
    const struct tensor *const absmax = checkpoint_part(q, ".weight.absmax");
    const bool nested = json_object_get(state, "nested_blocksize") != NULL;
    char text[QUERN_TEXT_MAX];
    int64_t block, n, k;
    int status = json_field_int(state, t->name, "blocksize", 1, 1 << 20, &block);

    if (status)
        return status;
    n = json_integer_value(json_array_get(shape, 0));
    k = json_integer_value(json_array_get(shape, 1));
    if (json_array_size(shape) != 2 || n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX)
        return fail("%s: tensor %s has no shape, a list of two sizes", q->s->path, t->name);
    if (!absmax)
        return checkpoint_missing(q, ".weight.absmax", ".weight");
    const int64_t blocks = (n * k + block - 1) / block;
    /* the weights are bytes, but may be stored as another type (bnb_4bit_quant_storage): training
     * on several GPUs wants all tensors of one type */
    const bool stored =
        weight->rank == 2 && weight->shape[1] == 1 && weight->bytes == (uint64_t)(n * k + 1) / 2;
    if ((!stored && (status = checkpoint_expect(weight, "U8|", (n * k + 1) / 2, 1))) ||
        (status = checkpoint_expect(absmax, nested ? "U8|" : "F32|", blocks, -1)) ||
        (status = nested ? check_nested(q, t, state, blocks) : tensor_check_finite(absmax)) ||
        q->layer->reason[0])
        return status;
    snprintf(text, sizeof text, "wq=%s n=%lld k=%lld group=%lld scale=%s a=%s bias=%d", wq,
             (long long)n, (long long)k, (long long)block, nested ? "nested" : "f32",
             !dtype                      ? "bf16"
             : !strcmp(dtype, "float16") ? "f16"
             : !strcmp(dtype, "float32") ? "f32"
                                         : "bf16",
             checkpoint_has_bias(q, n));
    checkpoint_set_problem(q, text);
    return EXIT_OK;
}

static int read_bitsandbytes(const struct checkpoint_search *q, const struct tensor *weight,
                             const struct tensor *state, const char *wq)
{
    json_t *root = NULL;
    char *data;

    q->layer->format = "bitsandbytes";
    int status = safetensors_data(state, STATE_BYTES_MAX, &data);
    if (status)
        return status;
    status = json_bytes_load(state->name, data, (size_t)state->bytes, &root);
    free(data);
    if (!status)
        status = read_state(q, weight, state, wq, root);
    json_decref(root);
    return status;
}

static int read_weight(const struct checkpoint_search *q, const struct tensor *weight)
{
    const struct tensor *const nf4 = checkpoint_part(q, ".weight.quant_state.bitsandbytes__nf4");
    const struct tensor *const fp4 = checkpoint_part(q, ".weight.quant_state.bitsandbytes__fp4");

    return nf4   ? read_bitsandbytes(q, weight, nf4, "nf4")
           : fp4 ? read_bitsandbytes(q, weight, fp4, "fp4")
                 : checkpoint_read_plain(q, weight);
}

/* ---- Parts alone ----------------------------------------------------------------------------- */

/* Reports a tensor that is part of a layer, such as its scales, when the layer's weights are
 * missing. */
static int check_alone(const struct checkpoint_search *q, const struct tensor *t)
{
    static const struct {
        const char *part, *weights;
    } pairs[] = {{".qzeros", ".qweight"},
                 {".g_idx", ".qweight"},
                 {".weight_shape", ".weight_packed"},
                 {".weight.absmax", ".weight"},
                 {".weight.nested_absmax", ".weight"}};
    const size_t length = strlen(t->name);
    char name[sizeof q->layer->name + 64];

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (!ends_with(t->name, length, pairs[i].part) || checkpoint_is_part(q->s->path))
            continue;
        snprintf(name, sizeof name, "%.*s%s", (int)(length - strlen(pairs[i].part)), t->name,
                 pairs[i].weights);
        if (!safetensors_find(q->s, name))
            return fail("%s: tensor %s is missing beside %s", t->path, name, t->name);
    }
    return EXIT_OK;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int read_layer(const struct checkpoint_search *q, const struct tensor *t)
{
    static const struct {
        const char *suffix;
        int (*read)(const struct checkpoint_search *q, const struct tensor *t);
    } kinds[] = {{".qweight", read_gptq},
                 {".weight_packed", read_compressed},
                 {"_blocks", checkpoint_read_mxfp4},
                 {".weight", read_weight},
                 {".gate_up_proj", checkpoint_read_experts},
                 {".down_proj", checkpoint_read_experts}};
    const size_t length = strlen(t->name);

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!ends_with(t->name, length, kinds[i].suffix))
            continue;
        /* tensors of all experts are named by the layer alone, without ".weight" behind it */
        const bool whole = kinds[i].read == checkpoint_read_experts;
        const size_t kept = length - (whole ? 0 : strlen(kinds[i].suffix));
        if (kept >= sizeof q->layer->name)
            return fail("%s: tensor %s has a name of %zu bytes; at most %zu are read", q->s->path,
                        t->name, length, sizeof q->layer->name - 1);
        memcpy(q->layer->name, t->name, kept);
        q->layer->name[kept] = 0;
        return kinds[i].read(q, t);
    }
    return check_alone(q, t);
}

int checkpoint_layers(const struct safetensors *s, struct checkpoint_layer **layers, size_t *count)
{
    *count = 0;
    *layers = calloc(s->count + 1, sizeof **layers);
    if (!*layers)
        return fail("out of memory");
    for (size_t i = 0; i < s->count; i++) {
        struct checkpoint_layer *const layer = &(*layers)[*count];
        *layer = (struct checkpoint_layer){.experts = 1};
        const int status = read_layer(&(struct checkpoint_search){s, layer}, &s->tensors[i]);
        if (status)
            return status;
        *count += layer->format != NULL;
    }
    return EXIT_OK;
}
