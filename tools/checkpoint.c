/* SPDX-License-Identifier: MIT */
/*
 * Names and shapes: AutoGPTQ and GPTQModel (qweight [K/8,N], qzeros, scales, g_idx), AutoAWQ
 * (qweight [K,N/8]), compressed-tensors' pack-quantized (weight_packed [N,K/8]), bitsandbytes 4-bit
 * (weight, weight.absmax, weight.quant_state.bitsandbytes__nf4), gpt-oss (…_blocks, …_scales), and
 * 8-bit floats with one scale (weight F8_E4M3 [N,K], weight_scale, input_scale if activations have
 * a fixed one) as compressed-tensors' float-quantized and vLLM's fp8 files have them.
 */
#include "checkpoint.h"
#include "json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest tensors whose data is looked at: zero points, g_idx, a quantisation state. */
#define SMALL_BYTES_MAX ((size_t)256 << 20)
#define STATE_BYTES_MAX ((size_t)1 << 16)

struct search {
    const struct safetensors *s;
    struct checkpoint_layer *layer;
};

/* ---- Tensors of a layer ---------------------------------------------------------------------- */

static const struct tensor *part_of(const struct search *q, const char *suffix)
{
    char name[sizeof q->layer->name + 64];

    snprintf(name, sizeof name, "%s%s", q->layer->name, suffix);
    return safetensors_find(q->s, name);
}

static void show_shape(const struct tensor *t, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "%s [", t->dtype);

    for (size_t i = 0; i < t->rank && i < TENSOR_RANK_MAX && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    if (n < size)
        snprintf(text + n, size - n, "%s]", t->rank > TENSOR_RANK_MAX ? ",…" : "");
}

/* `dtypes` is one or more types, each with a bar behind it: "F16|BF16|". d1 < 0: of one dimension.
 */
static int expect(const struct search *q, const struct tensor *t, const char *dtypes, int64_t d0,
                  int64_t d1)
{
    const size_t rank = d1 < 0 ? 1 : 2;
    char have[160], type[32];

    snprintf(type, sizeof type, "%s|", t->dtype);
    const char *const found = strstr(dtypes, type);
    const bool typed = found && (found == dtypes || found[-1] == '|');
    if (typed && t->rank == rank && t->shape[0] == d0 && (rank == 1 || t->shape[1] == d1))
        return EXIT_OK;
    show_shape(t, have, sizeof have);
    if (rank == 1)
        return fail("%s: tensor %s is %s; expected %.*s [%lld]", q->s->path, t->name, have,
                    (int)strlen(dtypes) - 1, dtypes, (long long)d0);
    return fail("%s: tensor %s is %s; expected %.*s [%lld,%lld]", q->s->path, t->name, have,
                (int)strlen(dtypes) - 1, dtypes, (long long)d0, (long long)d1);
}

static int missing(const struct search *q, const char *suffix, const char *beside)
{
    return fail("%s: tensor %s%s is missing beside %s%s", q->s->path, q->layer->name, suffix,
                q->layer->name, beside);
}

/* A matrix of at least one row and column. */
static int expect_matrix(const struct search *q, const struct tensor *t)
{
    char have[160];

    if (t->rank == 2 && t->shape[0] > 0 && t->shape[1] > 0)
        return EXIT_OK;
    show_shape(t, have, sizeof have);
    return fail("%s: tensor %s is %s; expected a matrix", q->s->path, t->name, have);
}

static bool has_bias(const struct search *q, int64_t n)
{
    const struct tensor *const t = part_of(q, ".bias");

    return t && t->rank == 1 && t->shape[0] == n;
}

/* ---- Problems -------------------------------------------------------------------------------- */

static void set_problem(const struct search *q, const char *text)
{
    struct quern_problem p;

    if (quern_problem_parse(text, &p) == QUERN_OK &&
        quern_problem_text(&p, q->layer->problem, sizeof q->layer->problem) == QUERN_OK)
        return;
    snprintf(q->layer->reason, sizeof q->layer->reason, "%s", quern_last_error()->message);
}

static const char *type_word(const char *dtype)
{
    return !strcmp(dtype, "F16") ? "f16" : !strcmp(dtype, "BF16") ? "bf16" : "f32";
}

/* "group=128", or channel where there is one group; a reason when groups are uneven. */
static bool group_word(const struct search *q, int64_t k, int64_t groups, char word[32])
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

/* Whether every zero point is 8, in words of the tensor; gptq's first format stores them less one,
 * and no file says which it is. */
static int zeros_are_eight(const struct search *q, const struct tensor *t, bool awq, bool *eight)
{
    char *data;
    uint32_t word;

    const int status = safetensors_data(q->s, t, SMALL_BYTES_MAX, &data);
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

static int read_order(const struct search *q, const struct tensor *t, int64_t k, int64_t groups)
{
    char *data;
    int32_t group;

    int status = expect(q, t, "I32|", k, -1);
    if (status || (status = safetensors_data(q->s, t, SMALL_BYTES_MAX, &data)))
        return status;
    for (int64_t i = 0; i < k && !status; i++) {
        memcpy(&group, data + 4 * i, sizeof group);
        if (group < 0 || group >= groups)
            status = fail("%s: tensor %s has group %d at column %lld; expected 0 to %lld",
                          q->s->path, t->name, group, (long long)i, (long long)groups - 1);
        else if (group != i / (k / groups))
            q->layer->act_order = true;
    }
    free(data);
    return status;
}

static int read_gptq(const struct search *q, const struct tensor *qweight)
{
    const struct tensor *const scales = part_of(q, ".scales"), *qzeros = part_of(q, ".qzeros");
    const struct tensor *const g_idx = part_of(q, ".g_idx");
    char word[32], text[QUERN_TEXT_MAX];
    bool eight = true;
    int status;

    if (!scales)
        return missing(q, ".scales", ".qweight");
    if ((status = expect_matrix(q, scales)) || (status = expect_matrix(q, qweight)))
        return status;
    const int64_t groups = scales->shape[0], n = scales->shape[1];
    const bool awq = n >= 8 && qweight->shape[1] == n / 8;
    const int64_t k = awq ? qweight->shape[0] : qweight->shape[0] * 8;

    q->layer->format = awq ? "awq" : "gptq";
    if ((status = expect(q, qweight, "I32|", awq ? k : k / 8, awq ? n / 8 : n)) ||
        (status = expect(q, scales, "F16|BF16|F32|", groups, n)))
        return status;
    if (!group_word(q, k, groups, word))
        return EXIT_OK;
    if (qzeros && qzeros->rank == 2 && qzeros->shape[1] != n / 8 && n % 32 == 0 &&
        qzeros->shape[1] > 0 && qzeros->shape[1] <= n / 4 && qzeros->shape[1] % (n / 32) == 0) {
        snprintf(q->layer->reason, sizeof q->layer->reason, "%lld-bit weights",
                 (long long)(qzeros->shape[1] / (n / 32)));
        return EXIT_OK;
    }
    if (qzeros && ((status = expect(q, qzeros, "I32|", groups, n / 8)) ||
                   (status = zeros_are_eight(q, qzeros, awq, &eight))))
        return status;
    if (g_idx && (status = read_order(q, g_idx, k, groups)))
        return status;
    const char *const scale = type_word(scales->dtype);
    snprintf(text, sizeof text, "wq=int4 n=%lld k=%lld %s scale=%s a=%s zero=%s layout=%s bias=%d",
             (long long)n, (long long)k, word, scale, strcmp(scale, "f32") ? scale : "bf16",
             eight ? "none" : "u8", q->layer->format, has_bias(q, n));
    set_problem(q, text);
    return EXIT_OK;
}

/* ---- compressed-tensors ---------------------------------------------------------------------- */

static int read_compressed(const struct search *q, const struct tensor *packed)
{
    const struct tensor *const scale = part_of(q, ".weight_scale");
    const struct tensor *const zero = part_of(q, ".weight_zero_point");
    const struct tensor *const g_idx = part_of(q, ".weight_g_idx");
    char word[32], text[QUERN_TEXT_MAX];
    int status;

    q->layer->format = "compressed-tensors";
    if (!scale)
        return missing(q, ".weight_scale", ".weight_packed");
    if (strcmp(packed->dtype, "I32")) {
        snprintf(q->layer->reason, sizeof q->layer->reason, "packed as %s, not as 4-bit integers",
                 packed->dtype);
        return EXIT_OK;
    }
    if ((status = expect_matrix(q, packed)) || (status = expect_matrix(q, scale)))
        return status;
    const int64_t n = packed->shape[0], k = packed->shape[1] * 8, groups = scale->shape[1];
    if ((status = expect(q, scale, "F16|BF16|F32|", n, groups)) ||
        (zero && (status = expect(q, zero, "I32|", n / 8, groups))))
        return status;
    if (!group_word(q, k, groups, word))
        return EXIT_OK;
    if (g_idx && (status = read_order(q, g_idx, k, groups)))
        return status;
    const char *const type = type_word(scale->dtype);
    snprintf(text, sizeof text, "wq=int4 n=%lld k=%lld %s scale=%s a=%s zero=%s layout=k8 bias=%d",
             (long long)n, (long long)k, word, type, strcmp(type, "f32") ? type : "bf16",
             zero ? "u8" : "none", has_bias(q, n));
    set_problem(q, text);
    return EXIT_OK;
}

/* ---- bitsandbytes ---------------------------------------------------------------------------- */

/* What the state says: {"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[N,K],
 * "nested_blocksize":256 …} */
static int read_state(const struct search *q, const struct tensor *weight, const struct tensor *t,
                      const char *wq, json_t *state)
{
    const json_t *const shape = json_object_get(state, "shape");
    const char *const dtype = json_string_value(json_object_get(state, "dtype"));
    const struct tensor *const absmax = part_of(q, ".weight.absmax");
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
        return missing(q, ".weight.absmax", ".weight");
    if ((status = expect(q, weight, "U8|", (n * k + 1) / 2, 1)) ||
        (status = expect(q, absmax, nested ? "U8|" : "F32|", (n * k + block - 1) / block, -1)))
        return status;
    snprintf(text, sizeof text, "wq=%s n=%lld k=%lld group=%lld scale=%s a=%s bias=%d", wq,
             (long long)n, (long long)k, (long long)block, nested ? "nested" : "f32",
             !dtype                      ? "bf16"
             : !strcmp(dtype, "float16") ? "f16"
             : !strcmp(dtype, "float32") ? "f32"
                                         : "bf16",
             has_bias(q, n));
    set_problem(q, text);
    return EXIT_OK;
}

static int read_bitsandbytes(const struct search *q, const struct tensor *weight,
                             const struct tensor *state, const char *wq)
{
    json_t *root = NULL;
    char *data;

    q->layer->format = "bitsandbytes";
    int status = safetensors_data(q->s, state, STATE_BYTES_MAX, &data);
    if (status)
        return status;
    status = json_bytes_load(state->name, data, (size_t)state->bytes, &root);
    free(data);
    if (!status)
        status = read_state(q, weight, state, wq, root);
    json_decref(root);
    return status;
}

/* ---- MXFP4 and plain ------------------------------------------------------------------------- */

/* Of all experts of a layer in one: [experts,N,K/32,16] and [experts,N,K/32]. */
static int read_mxfp4(const struct search *q, const struct tensor *blocks)
{
    const struct tensor *const scales = part_of(q, "_scales");
    char have[160], text[QUERN_TEXT_MAX];

    q->layer->format = "mxfp4";
    if (!scales)
        return missing(q, "_scales", "_blocks");
    show_shape(blocks, have, sizeof have);
    if (strcmp(blocks->dtype, "U8") || blocks->rank != 4 || blocks->shape[3] != 16)
        return fail("%s: tensor %s is %s; expected U8 [experts,N,K/32,16]", q->s->path,
                    blocks->name, have);
    show_shape(scales, have, sizeof have);
    if (strcmp(scales->dtype, "U8") || scales->rank != 3 ||
        memcmp(scales->shape, blocks->shape, 3 * sizeof *scales->shape) != 0)
        return fail("%s: tensor %s is %s; expected U8 [%lld,%lld,%lld]", q->s->path, scales->name,
                    have, (long long)blocks->shape[0], (long long)blocks->shape[1],
                    (long long)blocks->shape[2]);
    q->layer->experts = blocks->shape[0];
    snprintf(text, sizeof text, "wq=mxfp4 n=%lld k=%lld a=bf16", (long long)blocks->shape[1],
             (long long)blocks->shape[2] * 32);
    set_problem(q, text);
    return EXIT_OK;
}

/* ---- fp8 ------------------------------------------------------------------------------------- */

static bool is_scalar(const struct tensor *t)
{
    return t->rank == 0 || (t->rank == 1 && t->shape[0] == 1);
}

/* Without a scale of activations they may be of any type; that of the scale, or bf16, is taken. */
static int read_fp8(const struct search *q, const struct tensor *weight)
{
    const struct tensor *const scale = part_of(q, ".weight_scale");
    const struct tensor *const input = part_of(q, ".input_scale");
    const bool fnuz = !strcmp(weight->dtype, "F8_E4M3FNUZ");
    const char *const wq = fnuz ? "fp8fnuz" : "fp8";
    char have[160], text[QUERN_TEXT_MAX];
    int status;

    q->layer->format = "fp8";
    if (!scale) {
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 part_of(q, ".weight_scale_inv")
                     ? "%s with a scale for each block of weights; one for all of them is known"
                     : "weights of type %s without a weight_scale",
                 weight->dtype);
        return EXIT_OK;
    }
    if (!is_scalar(scale)) {
        show_shape(scale, have, sizeof have);
        snprintf(q->layer->reason, sizeof q->layer->reason,
                 "%s with scales %s; one for all weights is known", weight->dtype, have);
        return EXIT_OK;
    }
    if (scale->rank && (status = expect(q, scale, "F16|BF16|F32|", 1, -1)))
        return status;
    const char *const type = type_word(scale->dtype);
    snprintf(text, sizeof text, "wq=%s n=%lld k=%lld a=%s bias=%d", wq,
             (long long)weight->shape[0], (long long)weight->shape[1],
             input                 ? wq
             : strcmp(type, "f32") ? type
                                   : "bf16",
             has_bias(q, weight->shape[0]));
    set_problem(q, text);
    return EXIT_OK;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
    const size_t n = strlen(end);

    return length >= n && !memcmp(text + length - n, end, n);
}

static int read_weight(const struct search *q, const struct tensor *weight)
{
    const struct tensor *const nf4 = part_of(q, ".weight.quant_state.bitsandbytes__nf4");
    const struct tensor *const fp4 = part_of(q, ".weight.quant_state.bitsandbytes__fp4");
    const char *const name = q->layer->name;
    char text[QUERN_TEXT_MAX];

    if (nf4 || fp4)
        return read_bitsandbytes(q, weight, nf4 ? nf4 : fp4, nf4 ? "nf4" : "fp4");
    /* vectors are norms; tables of embeddings are looked up, not multiplied */
    if (weight->rank != 2 || ends_with(name, strlen(name), "embed_tokens") ||
        ends_with(name, strlen(name), "embeddings") || ends_with(name, strlen(name), "wte"))
        return EXIT_OK;
    if (!strcmp(weight->dtype, "F8_E4M3") || !strcmp(weight->dtype, "F8_E4M3FNUZ"))
        return read_fp8(q, weight);
    q->layer->format = "plain";
    if (!strcmp(weight->dtype, "F16") || !strcmp(weight->dtype, "BF16") ||
        !strcmp(weight->dtype, "F32")) {
        snprintf(text, sizeof text, "wq=none n=%lld k=%lld a=%s bias=%d",
                 (long long)weight->shape[0], (long long)weight->shape[1], type_word(weight->dtype),
                 has_bias(q, weight->shape[0]));
        set_problem(q, text);
    } else {
        snprintf(q->layer->reason, sizeof q->layer->reason, "weights of type %s", weight->dtype);
    }
    return EXIT_OK;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int read_layer(const struct search *q, const struct tensor *t)
{
    static const struct {
        const char *suffix;
        int (*read)(const struct search *q, const struct tensor *t);
    } kinds[] = {{".qweight", read_gptq},
                 {".weight_packed", read_compressed},
                 {"_blocks", read_mxfp4},
                 {".weight", read_weight}};
    const size_t length = strlen(t->name);

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!ends_with(t->name, length, kinds[i].suffix))
            continue;
        const size_t kept = length - strlen(kinds[i].suffix);
        if (kept >= sizeof q->layer->name)
            return fail("%s: tensor %s has a name of %zu bytes; at most %zu are read", q->s->path,
                        t->name, length, sizeof q->layer->name - 1);
        memcpy(q->layer->name, t->name, kept);
        q->layer->name[kept] = 0;
        return kinds[i].read(q, t);
    }
    return EXIT_OK;
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
        const int status = read_layer(&(struct search){s, layer}, &s->tensors[i]);
        if (status)
            return status;
        *count += layer->format != NULL;
    }
    return EXIT_OK;
}
