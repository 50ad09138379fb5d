/* SPDX-License-Identifier: MIT */
/* quern quantize: a weight matrix in f32 → the operands of a problem. */
#include "files/files.h"
#include "command/options.h"
#include "files/json_file.h"

#include <stdio.h>
#include <stdlib.h>

struct quantization {
    struct common common;
    const char *directory;
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    void *w;
    struct quern_quantized operands[QUERN_OPERANDS_MAX];
    size_t count;
    struct outputs outputs;
};

static int write_files(struct quantization *q)
{
    int status = outputs_directory(&q->outputs, q->directory);

    for (size_t i = 0; !status && i < q->count; i++) {
        char *path = path_join(q->directory, q->operands[i].name);
        status = path ? outputs_add(&q->outputs, path, q->operands[i].data, q->operands[i].bytes)
                      : fail("out of memory");
        free(path);
    }
    return status ? status : outputs_commit(&q->outputs);
}

static int report(const struct quantization *q)
{
    json_t *list;

    if (!q->common.json) {
        for (size_t i = 0; i < q->count; i++)
            printf("%s/%s: %zu bytes\n", shown_line(q->directory), q->operands[i].name,
                   q->operands[i].bytes);
        return finish_output();
    }
    list = json_array();
    for (size_t i = 0; i < q->count; i++)
        json_array_append_new(list, json_make("{s:s, s:I}", "name", q->operands[i].name, "bytes",
                                              (json_int_t)q->operands[i].bytes));
    return json_print(json_make("{s:s, s:o}", "problem", q->text, "operands", list));
}

static int quantize(struct quantization *q)
{
    struct operand_file files[OPERAND_FILES_MAX];
    const char *const names[] = {"w"};
    size_t file_count;
    int status;

    if ((status = options_first_problem(&q->common, &q->problem, q->text)) ||
        (status = operand_files(&q->common, files, &file_count)) ||
        (status = operand_files_known(files, file_count, names, 1)))
        return status;
    if (!file_count)
        return misuse("which weights? give w=FILE, f32 [N,K]");
    if (!q->directory)
        return misuse("where to? give --out, a directory for the operand files");
    if (!q->problem.n)
        return misuse("%s has no weights", q->text);
    /* N and K were checked: their product, times 4, fits */
    const uint64_t bytes = (uint64_t)q->problem.n * (uint64_t)q->problem.k * sizeof(float);
    if ((status = file_read_operand("w", files[0].path, bytes, &q->w)))
        return status;
    const quern_status e = quern_quantize(&q->problem, q->w, q->operands, &q->count);
    if (e)
        return fail_status(e, NULL);
    status = write_files(q);
    return status ? status : report(q);
}

int verb_quantize(int argc, char **argv)
{
    static const struct usage usage = {
        "PROBLEM w=FILE --out DIR",
        "Quantises the weights in FILE (raw f32 [N,K], little-endian) as PROBLEM says, and\n"
        "writes one raw file for each operand: DIR/b, DIR/scales …\n"};
    struct quantization q = {0};
    const struct flag flags[] = {
        {"out", FLAG_TEXT, &q.directory, "DIR", "where to write; made if there is none"}, {0}};

    int status = options_parse(&q.common, argc, argv, &usage, flags);
    if (status < 0)
        status = quantize(&q);
    outputs_discard(&q.outputs);
    quern_quantized_free(q.operands, q.count);
    free(q.w);
    return status;
}
