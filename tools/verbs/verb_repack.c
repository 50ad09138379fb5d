/* SPDX-License-Identifier: MIT */
/* quern repack: int4 weights from one order to another, or out of a checkpoint's tensors. */
#include "files/files.h"
#include "command/options.h"
#include "files/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_BYTES_MAX ((size_t)16 << 20)

struct repacking {
    struct common common;
    const char *to, *directory;
    int checkpoint; /* 1 + index of the choice */
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    struct operand_file files[OPERAND_FILES_MAX];
    size_t file_count;
    struct outputs outputs;
};

static const char *const layouts[] = {"k8", "exl", "ck", "gptq", "awq"};
#define LAYOUT_COUNT (sizeof layouts / sizeof layouts[0])

static bool layout_named(const char *name, enum quern_layout *layout)
{
    for (size_t i = 0; i < LAYOUT_COUNT; i++)
        if (!strcmp(layouts[i], name)) {
            *layout = (enum quern_layout)(QUERN_LAYOUT_K8 + i);
            return true;
        }
    return false;
}

/* "exl", or a plan.json, whose member b_layout says it. */
static int read_target_layout(const char *to, enum quern_layout *layout)
{
    const size_t length = strlen(to);
    const char *name;
    json_t *root;

    if (layout_named(to, layout))
        return EXIT_OK;
    if (length <= 5 || strcmp(to + length - 5, ".json"))
        return misuse("--to %s is no layout of int4 and no plan.json; the layouts are k8, exl, ck, "
                      "gptq, awq",
                      to);
    int status = json_file_load(to, PLAN_BYTES_MAX, &root);
    if (status)
        return status;
    status = json_field_text(root, to, "b_layout", &name);
    if (!status && !layout_named(name, layout))
        status = fail("%s: its kernels read layout %s, which int4 is not repacked to", to, name);
    json_decref(root);
    return status;
}

static int report(const struct repacking *r, const struct quern_quantized *made, size_t count)
{
    json_t *list;

    if (!r->common.json) {
        for (size_t i = 0; i < count; i++)
            printf("%s: %zu bytes\n", made[i].name, made[i].bytes);
        return finish_output();
    }
    list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_make("{s:s, s:I}", "name", made[i].name, "bytes",
                                              (json_int_t)made[i].bytes));
    return json_print(json_make("{s:s, s:o}", "problem", r->text, "operands", list));
}

/* ---- Layout to layout ------------------------------------------------------------------------ */

static int repack_layout(struct repacking *r)
{
    static const char *const names[] = {"b", "out"};
    const char *const in = operand_file(r->files, r->file_count, "b");
    const char *const out = operand_file(r->files, r->file_count, "out");
    enum quern_layout layout = QUERN_LAYOUT_K8;
    void *b = NULL;
    int status;

    if ((status = operand_files_known(r->files, r->file_count, names, 2)))
        return status;
    if (!in || !out)
        return misuse("give b=FILE, the weights, and out=FILE, where they go");
    if (r->directory)
        return misuse("--out goes with --checkpoint; give out=FILE");
    if ((status = read_target_layout(r->to, &layout)))
        return status;
    const uint64_t bytes = (uint64_t)r->problem.n * (uint64_t)r->problem.k / 2;
    if ((status = file_read_operand("b", in, bytes, &b)))
        return status;
    struct quern_quantized made = {.name = out, .data = operand_memory(bytes), .bytes = bytes};
    if (!made.data)
        status = fail("out of memory");
    if (!status) {
        const quern_status e = quern_repack(&r->problem, layout, b, made.data);
        status = e ? fail_status(e, NULL) : outputs_add(&r->outputs, out, made.data, made.bytes);
    }
    if (!status)
        status = outputs_commit(&r->outputs);
    if (!status)
        status = report(r, &made, 1);
    free(made.data);
    free(b);
    return status;
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* The tensors' bytes, as the files hold them: the library says which size is wrong. */
enum { TENSORS = 4 };
struct tensors {
    char *data[TENSORS];
    size_t bytes[TENSORS];
};
static const char *const usual_names[TENSORS] = {"qweight", "scales", "qzeros", "g_idx"};
static const char *const compressed_names[TENSORS] = {"weight_packed", "weight_scale",
                                                      "weight_zero_point", "weight_g_idx"};
#define TENSOR_BYTES_MAX ((size_t)1 << 36)

static int read_tensors(const struct repacking *r, const char *const *tensor_names,
                        struct tensors *t)
{
    for (size_t i = 0; i < TENSORS; i++) {
        const char *const path = operand_file(r->files, r->file_count, tensor_names[i]);
        const int status =
            path ? file_read(path, TENSOR_BYTES_MAX, &t->data[i], &t->bytes[i]) : EXIT_OK;
        if (status)
            return status;
        if (!path && i < 2)
            return misuse("give %s=FILE", tensor_names[i]);
    }
    return EXIT_OK;
}

static int write_operands(struct repacking *r, const struct quern_quantized *made, size_t count)
{
    int status = outputs_directory(&r->outputs, r->directory);

    for (size_t i = 0; !status && i < count; i++) {
        char *path = path_join(r->directory, made[i].name);
        status = path ? outputs_add(&r->outputs, path, made[i].data, made[i].bytes)
                      : fail("out of memory");
        free(path);
    }
    return status ? status : outputs_commit(&r->outputs);
}

static int repack_checkpoint(struct repacking *r)
{
    struct quern_checkpoint c = QUERN_INIT(struct quern_checkpoint);
    struct quern_quantized made[QUERN_OPERANDS_MAX];
    struct tensors t = {0};
    size_t count = 0;

    const bool compressed = r->checkpoint == QUERN_CHECKPOINT_COMPRESSED;
    const char *const *const names = compressed ? compressed_names : usual_names;
    int status = operand_files_known(r->files, r->file_count, names, TENSORS);
    if (status)
        return status;
    if (!r->directory)
        return misuse("where to? give --out, a directory for the operand files");
    status = read_tensors(r, names, &t);
    if (!status) {
        c.kind = (enum quern_checkpoint_kind)r->checkpoint;
        c.qweight = t.data[0], c.qweight_bytes = t.bytes[0];
        c.scales = t.data[1], c.scales_bytes = t.bytes[1];
        c.qzeros = t.data[2], c.qzeros_bytes = t.bytes[2];
        c.g_idx = t.data[3], c.g_idx_bytes = t.bytes[3];
        const quern_status e = quern_import(&r->problem, &c, made, &count);
        status = e ? fail_status(e, NULL) : write_operands(r, made, count);
    }
    if (!status)
        status = report(r, made, count);
    quern_quantized_free(made, count);
    for (size_t i = 0; i < TENSORS; i++)
        free(t.data[i]);
    return status;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int repack(struct repacking *r)
{
    int status;

    if (!r->to == !r->checkpoint)
        return misuse("give --to, a layout or a plan.json, or --checkpoint, a checkpoint's format");
    if ((status = options_first_problem(&r->common, &r->problem, r->text)) ||
        (status = operand_files(&r->common, r->files, &r->file_count)))
        return status;
    if (!r->problem.n)
        return misuse("%s has no weights", r->text);
    return r->to ? repack_layout(r) : repack_checkpoint(r);
}

int verb_repack(int argc, char **argv)
{
    static const struct usage usage = {
        "--to LAYOUT|PLAN.json PROBLEM b=FILE out=FILE\n"
        "       quern repack --checkpoint FORMAT PROBLEM qweight=FILE scales=FILE\n"
        "                    [qzeros=FILE] [g_idx=FILE] --out DIR",
        "Reorders int4 weights: from the problem's layout to another, or to the one that the\n"
        "kernels of a plan read. Or brings a layer of a GPTQ, AWQ or compressed-tensors\n"
        "checkpoint into the problem's operands: DIR/b, scales, zeros, and perm where g_idx\n"
        "orders columns. compressed names its tensors weight_packed, weight_scale,\n"
        "weight_zero_point and weight_g_idx.\n"};
    struct repacking r = {0};
    const struct flag flags[] = {
        {"to", FLAG_TEXT, &r.to, "LAYOUT", "k8, exl, ck, gptq, awq, or a plan.json"},
        {"checkpoint", FLAG_CHOICE, &r.checkpoint, "FORMAT",
         "gptq (zero points less one), gptq_v2 (as they are), awq, compressed",
         "gptq|gptq_v2|awq|compressed"},
        {"out", FLAG_TEXT, &r.directory, "DIR", "where to write; made if there is none"},
        {0}};

    int status = options_parse(&r.common, argc, argv, &usage, flags);
    if (status < 0)
        status = repack(&r);
    outputs_discard(&r.outputs);
    return status;
}
