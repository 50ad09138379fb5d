/* SPDX-License-Identifier: MIT */
/*
 * By quant_method: gptq, awq and auto-round (bits, group_size, sym or zero_point),
 * compressed-tensors (config_groups.*.weights), bitsandbytes (load_in_4bit, bnb_4bit_*), mxfp4, fp8
 * (activation_scheme), quark (global_quant_config). Which modules are not quantised, or otherwise,
 * is said by lists of names, each read as vLLM reads it (vllm/model_executor/layers/quantization/):
 *
 *   compressed-tensors  ignore, config_groups.*.targets: a name, or "re:" and a regular expression,
 *                       or the class Linear (compressed_tensors/utils.py)
 *   gptq                dynamic: regular expressions, the first that matches counts; "-:" leaves a
 *                       module as it is, others change bits, group_size, sym (utils/gptq_utils.py);
 *                       modules_in_block_to_quantize: parts of names; nothing else is quantised
 *   awq, gptq           modules_to_not_convert: parts of names, of experts of that of them all:
 *                       "gate" is their router's, not in gate_proj (utils/quant_utils.py);
 *                       lm_head: whether it is quantised (awq_marlin.py, gptq_marlin.py)
 *   auto-round          extra_config: names, with bits, group_size, sym of their own; with 16 bits
 *                       they are left; block_name_to_quantize: parts of names (auto_round.py)
 *   bitsandbytes        llm_int8_skip_modules: the beginning of a name, or one word of it
 *                       (bitsandbytes.py), or its end (transformers, quantizers_utils.py)
 *   fp8                 ignored_layers: names (fp8.py); modules_to_not_convert as bitsandbytes
 *   quark               exclude as compressed-tensors' ignore; layer_quant_config: names with *
 *                       (quark/quark.py)
 *   mxfp4               modules_to_not_convert likewise, with * for anything
 *
 * Names are those of the checkpoint, in which fused layers are apart; engines' names of the whole
 * are known where names are compared as they are. A fused layer whose parts are not quantised alike
 * is planned in parts: vLLM refuses such a model.
 *
 * This file is long because each quant_method has members of its own, and what one means depends on
 * how the others are read.
 */
#include "model/hf_quantisation.h"
#include "command/options.h"
#include "files/json_file.h"
#include "model/hf_beside.h"
#include "model/hf_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Schemes --------------------------------------------------------------------------------- */

/* Sets a scheme's reason: the file's `value` means a way to quantise that no problem describes. */
static int unknown(struct model_scheme *s, const char *what, const char *value)
{
    snprintf(s->reason, sizeof s->reason,
             "%s %.64s is none that problems describe; 4-bit gptq, awq, auto-round, "
             "compressed-tensors and bitsandbytes, mxfp4, and fp8 and quark with one scale are",
             what, value[0] ? value : "(none)");
    for (char *c = s->reason; *c; c++) /* no control characters: it is printed */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return EXIT_OK;
}

/* Reads a member that is true or false; where the file does not have it, *on becomes `absent`. */
static int read_switch(const struct hf_rules *r, const json_t *value, const char *name, bool absent,
                       bool *on)
{
    char shown[JSON_SHOWN_BYTES];

    *on = value ? json_is_true(value) : absent;
    return !value || json_is_boolean(value)
               ? EXIT_OK
               : fail("%s: quantization_config: '%s' is %s; it must be true or false", r->path,
                      name, json_shown(value, shown));
}

/* Reads a scheme of 4-bit integers in groups of group_size (-1: one group a row). With `channel`
 * group_size may be missing, and a row is one group then. */
static int read_integers(const struct hf_rules *r, const json_t *bits, const json_t *group,
                         bool channel, bool symmetric, struct model_scheme *s)
{
    const int64_t size = group || !channel ? json_integer_value(group) : -1;
    char shown[JSON_SHOWN_BYTES];

    if (json_integer_value(bits) != 4)
        return unknown(s, "bits", bits ? json_shown(bits, shown) : "");
    if (size < -1 || !(json_is_integer(group) || (channel && !group)))
        return fail("%s: quantization_config: 'group_size' is %s; it must be an integer, -1 for "
                    "one group a row",
                    r->path, group ? json_shown(group, shown) : "missing");
    snprintf(s->words.wq, sizeof s->words.wq, "int4");
    if (size < 0)
        snprintf(s->words.group, sizeof s->words.group, "channel");
    else
        snprintf(s->words.group, sizeof s->words.group, "%lld", (long long)size);
    snprintf(s->words.zero, sizeof s->words.zero, symmetric ? "none" : "u8");
    return EXIT_OK;
}

/* Sets a scheme of 8-bit floats with one scale for all of a layer. Activations are 8-bit floats,
 * too, or with `plain` of the model's type, as C is. */
static int set_fp8(bool plain, struct model_scheme *s)
{
    snprintf(s->words.wq, sizeof s->words.wq, "fp8");
    if (plain)
        return EXIT_OK;
    snprintf(s->words.c, sizeof s->words.c, "%s", s->words.a);
    snprintf(s->words.a, sizeof s->words.a, "fp8");
    return EXIT_OK;
}

/* ---- GPTQ and AWQ ---------------------------------------------------------------------------- */

/* A member of a module's own, or else of the file. */
static const json_t *own_member(const struct hf_rules *r, const json_t *own, const char *names)
{
    char found[64];
    const json_t *const value = own ? json_any(own, names, found) : NULL;

    return value ? value : json_any(r->q, names, found);
}

/* Adds GPTQ's or AWQ's scheme of the file, or, with `own`, that of modules that have members of
 * their own. */
static int add_gptq(struct hf_rules *r, const json_t *own, struct model_scheme s, size_t *index)
{
    const bool awq = !strcmp(json_text(r->q, "quant_method"), "awq");
    const char *const name = awq ? "zero_point" : "sym";
    bool on;
    int status = read_switch(r, own_member(r, own, name), name, true, &on);

    if (!status)
        status = read_integers(r, own_member(r, own, "bits|w_bit"),
                               own_member(r, own, "group_size|q_group_size"), false, on != awq, &s);
    return status ? status : model_add_scheme(r->m, r->path, &s, index);
}

/* Notes a module's own members that are not understood. Of the known ones most make no difference
 * to a kernel: how the weights were found, and in which order. */
static int note_unknown(const struct hf_rules *r, const json_t *own)
{
    static const char names[] = "bits|group_size|sym|desc_act|mse|damp_percent|static_groups|"
                                "damp_auto_increment|true_sequential|act_group_aware";
    json_t *const unknown = json_object();
    const char *name;
    json_t *value;
    bool failed = !unknown;

    json_object_foreach((json_t *)own, name, value)
    {
        if (!choice_of(name, names))
            failed |= json_object_set(unknown, name, value) != 0;
    }
    if (json_object_size(unknown))
        hf_rules_not_heeded(r, "dynamic", unknown,
                            "bits, group_size and sym of an entry are, and what else is known of "
                            "it makes no difference to a kernel");
    json_decref(unknown);
    return failed ? fail("out of memory") : EXIT_OK;
}

static int add_dynamic(struct hf_rules *r, const struct model_scheme *base)
{
    const json_t *const dynamic = json_object_get(r->q, "dynamic");
    const char *pattern;
    json_t *own;

    if (dynamic && !json_is_null(dynamic) && !json_is_object(dynamic))
        hf_rules_not_heeded(r, "dynamic", dynamic, "it is no object of regular expressions");
    json_object_foreach((json_t *)dynamic, pattern, own)
    {
        const bool left = !strncmp(pattern, "-:", 2), marked = left || !strncmp(pattern, "+:", 2);
        size_t scheme = MODEL_PLAIN;
        int status = EXIT_OK;
        if (!left && !json_is_object(own)) {
            hf_rules_not_heeded(r, "dynamic", own, "it is no object of bits, group_size and sym");
            continue;
        }
        if ((!left &&
             ((status = note_unknown(r, own)) || (status = add_gptq(r, own, *base, &scheme)))) ||
            (status = hf_rules_add(r, "dynamic", pattern, pattern + (marked ? 2 : 0), HF_PATTERN,
                                   scheme)))
            return status;
    }
    return EXIT_OK;
}

static int read_gptq(struct hf_rules *r, const struct model_scheme *base)
{
    const json_t *const only = json_object_get(r->q, "modules_in_block_to_quantize");
    int status;

    r->plain_head = !json_is_true(json_object_get(r->q, "lm_head"));
    if (json_array_size(only))
        r->only = only;
    if ((status = add_gptq(r, NULL, *base, &r->fallback)) ||
        (status = hf_rules_add_list(r, "modules_to_not_convert", HF_PART)))
        return status;
    return add_dynamic(r, base);
}

/* ---- AutoRound ------------------------------------------------------------------------------- */

/* Adds AutoRound's scheme: like GPTQ's, but members may say that it is not int4, and 16 bits mean
 * that weights are not quantised. */
static int add_auto_round(struct hf_rules *r, const json_t *own, struct model_scheme s,
                          size_t *index)
{
    const json_t *const bits = own_member(r, own, "bits"), *act = own_member(r, own, "act_bits");
    const json_t *const type = own_member(r, own, "data_type");
    char shown[JSON_SHOWN_BYTES];

    *index = MODEL_PLAIN;
    if (json_is_integer(bits) && json_integer_value(bits) >= 16)
        return EXIT_OK;
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "int")))
        unknown(&s, "data_type", json_shown(type, shown));
    else if (act && json_integer_value(act) < 16)
        unknown(&s, "act_bits", json_shown(act, shown));
    else
        return add_gptq(r, own, s, index);
    return model_add_scheme(r->m, r->path, &s, index);
}

/* Reads which blocks alone are quantised: a list of names, or a text with commas. */
static int read_blocks(struct hf_rules *r)
{
    char found[64], shown[JSON_SHOWN_BYTES];
    const json_t *const blocks =
        json_any(r->q, "block_name_to_quantize|to_quant_block_names", found);
    const char *text = json_string_value(blocks);

    if (blocks && !text && !json_is_array(blocks))
        return fail("%s: quantization_config: '%s' is %s; it must be a list of names", r->path,
                    found, json_shown(blocks, shown));
    if (text && !(r->split = json_array()))
        return fail("out of memory");
    while (text && *text) {
        const size_t length = strcspn(text, ",");
        if (length && json_array_append_new(r->split, json_stringn(text, length)))
            return fail("out of memory");
        text += length + (text[length] == ',');
    }
    const json_t *const list = text ? r->split : blocks;
    r->only = json_array_size(list) ? list : NULL;
    return EXIT_OK;
}

/* The order of weights in files is GPTQ's or AWQ's, which problems do not tell apart. */
static int read_auto_round(struct hf_rules *r, const struct model_scheme *base)
{
    const json_t *const extra = json_object_get(r->q, "extra_config");
    const char *const packing = json_text(r->q, "packing_format");
    struct model_scheme none = *base;
    const char *name;
    json_t *own;
    int status;

    if (packing[0] && !strstr(packing, "gptq") && !strstr(packing, "awq")) {
        unknown(&none, "packing_format", packing);
        return fail("%s: quantization_config: %s", r->path, none.reason);
    }
    if (extra && !json_is_null(extra) && !json_is_object(extra))
        hf_rules_not_heeded(r, "extra_config", extra, "it is no object of names of modules");
    r->plain_head = !json_object_get(extra, "lm_head");
    if ((status = read_blocks(r)) || (status = add_auto_round(r, NULL, *base, &r->fallback)))
        return status;
    json_object_foreach((json_t *)extra, name, own)
    {
        size_t scheme;
        if (!json_is_object(own))
            hf_rules_not_heeded(r, "extra_config", own, "it is no object of bits, group_size, sym");
        else if ((status = add_auto_round(r, own, *base, &scheme)) ||
                 (status = hf_rules_add(r, "extra_config", name, name, HF_NAME, scheme)))
            return status;
    }
    return EXIT_OK;
}

/* ---- compressed-tensors ---------------------------------------------------------------------- */

/* Whether a value says how large blocks of weights are, [128,128] or "128x128". */
static bool is_block128(const json_t *value)
{
    const char *const text = json_string_value(value);

    return text ? !strcmp(text, "128x128")
                : json_array_size(value) == 2 &&
                      json_integer_value(json_array_get(value, 0)) == 128 &&
                      json_integer_value(json_array_get(value, 1)) == 128;
}

/* Reads weights with a scale for each block, and inputs with one for each 128 columns of a row. */
static int read_float_blocks(const json_t *weights, const json_t *inputs, struct model_scheme *s)
{
    const json_t *const block = json_object_get(weights, "block_structure");
    const json_t *const group = json_object_get(inputs, "group_size");
    char shown[JSON_SHOWN_BYTES];

    if (!is_block128(block))
        return unknown(s, "block_structure", block ? json_shown(block, shown) : "");
    if (json_is_object(inputs) && strcmp(json_text(inputs, "strategy"), "group"))
        return unknown(s, "weights in blocks, input_activations of strategy",
                       json_text(inputs, "strategy"));
    if (json_is_object(inputs) && json_integer_value(group) != 128)
        return unknown(s, "input_activations of group_size", group ? json_shown(group, shown) : "");
    snprintf(s->words.scale, sizeof s->words.scale, "block128");
    return set_fp8(!json_is_object(inputs), s);
}

/* Reads the scheme of a config group whose weights are floats. */
static int read_floats(const json_t *group, const json_t *weights, struct model_scheme *s)
{
    const json_t *const inputs = json_object_get(group, "input_activations");
    const json_t *const bits = json_object_get(weights, "num_bits");
    char shown[JSON_SHOWN_BYTES];

    if (json_integer_value(bits) != 8)
        return unknown(s, "float num_bits", bits ? json_shown(bits, shown) : "");
    if (!strcmp(json_text(weights, "strategy"), "block"))
        return read_float_blocks(weights, inputs, s);
    if (strcmp(json_text(weights, "strategy"), "tensor"))
        return unknown(s, "weights of strategy", json_text(weights, "strategy"));
    if (json_is_object(inputs) && strcmp(json_text(inputs, "strategy"), "tensor"))
        return unknown(s, "input_activations of strategy", json_text(inputs, "strategy"));
    return set_fp8(!json_is_object(inputs), s);
}

static int read_group(const struct hf_rules *r, const json_t *group, const json_t *weights,
                      struct model_scheme *s)
{
    const char *const type = json_text(weights, "type"), *strategy = json_text(weights, "strategy");
    char found[64];
    bool symmetric;

    if (!strcmp(json_text(group, "format"), "marlin-24") ||
        !strcmp(json_text(r->q, "format"), "marlin-24"))
        return unknown(s, "format", "marlin-24");
    if (!strcmp(type, "float"))
        return read_floats(group, weights, s);
    if (strcmp(type, "int"))
        return unknown(s, "type", type);
    if (json_is_object(json_object_get(group, "input_activations")))
        return unknown(s, "int weights", "with input_activations");
    if (strategy[0] && strcmp(strategy, "group") && strcmp(strategy, "channel"))
        return unknown(s, "int weights of strategy", strategy);
    const int status =
        read_switch(r, json_any(weights, "symmetric", found), "symmetric", true, &symmetric);
    return status ? status
                  : read_integers(r, json_any(weights, "num_bits", found),
                                  json_any(weights, "group_size", found),
                                  !strcmp(strategy, "channel"), symmetric, s);
}

/* Adds the targets of a config group as rules, in the order of the file: names go before the class
 * Linear, which all layers are of. */
static int add_targets(struct hf_rules *r, const json_t *targets, size_t scheme)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(targets, i, entry)
    {
        const char *const text = json_string_value(entry);
        int status = EXIT_OK;
        if (text && !strcmp(text, "Linear"))
            r->fallback = r->fallback == MODEL_PLAIN ? scheme : r->fallback;
        else if (!text || (*text >= 'A' && *text <= 'Z' && !strchr(text, '.')))
            hf_rules_not_heeded(r, "targets", entry, "of classes of modules, Linear is known");
        else
            status = hf_rules_add(r, "targets", text, text, HF_TARGET, scheme);
        if (status)
            return status;
    }
    return EXIT_OK;
}

static int read_compressed(struct hf_rules *r, const struct model_scheme *base)
{
    const json_t *const groups = json_object_get(r->q, "config_groups");
    const char *name;
    json_t *group;
    bool any = false;

    int status = hf_rules_add_list(r, "ignore", HF_TARGET);
    r->fallback = MODEL_PLAIN;
    json_object_foreach((json_t *)groups, name, group)
    {
        const json_t *const weights = json_object_get(group, "weights");
        const json_t *const targets = json_object_get(group, "targets");
        struct model_scheme s = *base;
        size_t scheme;
        if (status)
            break;
        if (!json_is_object(weights))
            continue;
        any = true;
        if ((status = read_group(r, group, weights, &s)) ||
            (status = model_add_scheme(r->m, r->path, &s, &scheme)))
            return status;
        if (json_array_size(targets))
            status = add_targets(r, targets, scheme);
        else /* as in files that were written by hand */
            r->fallback = r->fallback == MODEL_PLAIN ? scheme : r->fallback;
    }
    if (status || any)
        return status;
    return fail("%s: quantization_config: 'config_groups' has no group with weights", r->path);
}

/* ---- Others ---------------------------------------------------------------------------------- */

static int read_bitsandbytes(struct hf_rules *r, struct model_scheme s)
{
    const json_t *const type = json_object_get(r->q, "bnb_4bit_quant_type");
    const bool absent = !type || json_is_null(type);
    const char *const wq = absent ? "fp4" : json_string_value(type); /* the library's default */
    char shown[JSON_SHOWN_BYTES], found[64];
    bool nested;

    if (!wq || (strcmp(wq, "nf4") && strcmp(wq, "fp4")))
        return fail("%s: quantization_config: 'bnb_4bit_quant_type' is %s; it must be \"nf4\" or "
                    "\"fp4\"",
                    r->path, json_shown(type, shown));
    int status = read_switch(r, json_any(r->q, "bnb_4bit_use_double_quant", found),
                             "bnb_4bit_use_double_quant", false, &nested);
    if (status)
        return status;
    if (!json_is_true(json_object_get(r->q, "load_in_4bit")) &&
        !json_is_true(json_object_get(r->q, "_load_in_4bit")))
        unknown(&s, "bitsandbytes", "without load_in_4bit");
    snprintf(s.words.wq, sizeof s.words.wq, "%s", wq);
    snprintf(s.words.group, sizeof s.words.group, "64");
    snprintf(s.words.scale, sizeof s.words.scale, "%s", nested ? "nested" : "f32");
    /* activations are converted to this type on their way into such a layer */
    hf_quantisation_type(json_text(r->q, "bnb_4bit_compute_dtype"), s.words.a);
    status = hf_rules_add_list(r, "llm_int8_skip_modules", HF_WORDS);
    return status ? status : model_add_scheme(r->m, r->path, &s, &r->fallback);
}

static int read_fp8(struct hf_rules *r, struct model_scheme s)
{
    const char *const scheme = json_text(r->q, "activation_scheme");
    char found[64], shown[JSON_SHOWN_BYTES];
    const json_t *const block = json_any(r->q, "weight_block_size", found);
    int status;

    if (block && !is_block128(block))
        snprintf(s.reason, sizeof s.reason,
                 "fp8 with a scale for each block of weights has blocks of 128 by 128 in problems "
                 "(scale=block128), not what weight_block_size says, %s",
                 json_shown(block, shown));
    else if (scheme[0] && strcmp(scheme, "static") && strcmp(scheme, "dynamic"))
        unknown(&s, "activation_scheme", scheme);
    set_fp8(false, &s);
    if (block)
        snprintf(s.words.scale, sizeof s.words.scale, "block128");
    if ((status = hf_rules_add_list(r, "ignored_layers", HF_NAME)) ||
        (status = hf_rules_add_list(r, "modules_to_not_convert", HF_WORDS)))
        return status;
    return model_add_scheme(r->m, r->path, &s, &r->fallback);
}

/* Reads a scheme of AMD's Quark: 8-bit floats with one scale for each tensor. */
static void read_quark_scheme(const json_t *config, struct model_scheme *s)
{
    const json_t *const weight = json_object_get(config, "weight");
    const json_t *const inputs = json_object_get(config, "input_tensors");

    if (strcmp(json_text(weight, "dtype"), "fp8_e4m3"))
        unknown(s, "weight of dtype", json_text(weight, "dtype"));
    else if (strcmp(json_text(weight, "qscheme"), "per_tensor"))
        unknown(s, "weight of qscheme", json_text(weight, "qscheme"));
    else if (json_is_object(inputs) && strcmp(json_text(inputs, "dtype"), "fp8_e4m3"))
        unknown(s, "input_tensors of dtype", json_text(inputs, "dtype"));
    else if (json_is_object(inputs) && strcmp(json_text(inputs, "qscheme"), "per_tensor"))
        unknown(s, "input_tensors of qscheme", json_text(inputs, "qscheme"));
    else
        set_fp8(!json_is_object(inputs), s);
}

static int read_quark(struct hf_rules *r, const struct model_scheme *base)
{
    const json_t *const layers = json_object_get(r->q, "layer_quant_config");
    struct model_scheme s = *base;
    const char *name;
    json_t *own;
    size_t scheme;

    read_quark_scheme(json_object_get(r->q, "global_quant_config"), &s);
    int status = hf_rules_add_list(r, "exclude", HF_TARGET);
    if (status || (status = model_add_scheme(r->m, r->path, &s, &r->fallback)))
        return status;
    json_object_foreach((json_t *)layers, name, own)
    {
        s = *base;
        read_quark_scheme(own, &s);
        if ((status = model_add_scheme(r->m, r->path, &s, &scheme)) ||
            (status = hf_rules_add(r, "layer_quant_config", name, name, HF_GLOB, scheme)))
            return status;
    }
    return EXIT_OK;
}

/* Reads the scheme of gpt-oss: only its experts are quantised, whatever the list says. */
static int read_mxfp4(struct hf_rules *r, struct model_scheme s)
{
    size_t scheme;
    int status;

    snprintf(s.words.wq, sizeof s.words.wq, "mxfp4");
    r->fallback = MODEL_PLAIN;
    if ((status = model_add_scheme(r->m, r->path, &s, &scheme)) ||
        (status = hf_rules_add_list(r, "modules_to_not_convert", HF_WORDS)))
        return status;
    return hf_rules_add(r, "quant_method", "mxfp4", ".*\\.experts\\b", HF_PATTERN, scheme);
}

/* ---- All of it ------------------------------------------------------------------------------- */

void hf_quantisation_type(const char *name, char *type)
{
    static const char *const names[][2] = {
        {"float16", "f16"}, {"bfloat16", "bf16"}, {"float32", "f32"}};

    for (size_t i = 0; i < 3; i++)
        if (!strcmp(name, names[i][0]))
            strcpy(type, names[i][1]);
}

static int read_method(struct hf_rules *r, const struct model_scheme *base)
{
    const char *const method = json_text(r->q, "quant_method");
    struct model_scheme none = {0};

    if (!strcmp(method, "gptq") || !strcmp(method, "awq"))
        return read_gptq(r, base);
    if (!strcmp(method, "auto-round") || !strcmp(method, "intel/auto-round"))
        return read_auto_round(r, base);
    if (!strcmp(method, "compressed-tensors"))
        return read_compressed(r, base);
    if (!strcmp(method, "mxfp4"))
        return read_mxfp4(r, *base);
    r->plain_head = true; /* with methods that do not say otherwise, lm_head is never quantised */
    if (!strcmp(method, "bitsandbytes"))
        return read_bitsandbytes(r, *base);
    if (!strcmp(method, "fp8"))
        return read_fp8(r, *base);
    if (!strcmp(method, "quark"))
        return read_quark(r, base);
    unknown(&none, "quant_method", method);
    return fail("%s: quantization_config: %s", r->path, none.reason);
}

/* Finds the quantization_config, which older compressed-tensors files call compression_config; of a
 * multimodal model it may be in the text_config. */
static const json_t *find_config(const json_t *root, const json_t *text)
{
    static const char names[] = "quantization_config|compression_config";
    char found[64];
    const json_t *const q = json_any(root, names, found);

    return q ? q : json_any(text, names, found);
}

/* Reads all of a quantization_config, `q`, which is from the file `path`. */
static int read_config(const json_t *q, bool nested, const json_t *text, const char *path,
                       const struct model_scheme *base, struct model *m)
{
    char shown[JSON_SHOWN_BYTES];

    if (!json_is_object(q))
        return fail("%s: 'quantization_config' is %s; it must be an object", path,
                    json_shown(q, shown));
    struct hf_rules r = {
        .path = path, .q = q, .m = m, .modules = {.model = m, .text = text, .nested = nested}};
    hf_modules_find_sparse(text, m->layers, r.modules.sparse);
    int status = hf_rules_start(&r);
    if (!status && !(status = read_method(&r, base)))
        status = hf_rules_apply(&r);
    hf_rules_free(&r);
    return status;
}

int hf_quantisation_read(const json_t *root, const json_t *text, const char *path, struct model *m)
{
    const json_t *const q = find_config(root, text);
    struct model_scheme base = {0}, plain = {0};
    json_t *beside = NULL;
    char *file = NULL;
    size_t index;

    strcpy(base.words.a, m->type);
    plain = base;
    strcpy(plain.words.wq, "none");
    int status = model_add_scheme(m, path, &plain, &index);
    if (!status && !q)
        status = hf_beside_read(path, &beside, &file);
    if (!status && (q || beside))
        status = read_config(q ? q : beside, text != root, text, q ? path : file, &base, m);
    json_decref(beside);
    free(file);
    return status;
}
