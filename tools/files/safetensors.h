/* SPDX-License-Identifier: MIT */
/*
 * The header of a safetensors file: which tensors there are, of which type and shape; or the
 * headers of the several files of a checkpoint, by the index.json that names them. Files come from
 * anywhere: every number is checked against the file before it is believed, and no tensor's data is
 * read but on request.
 */
#ifndef TOOLS_SAFETENSORS_H
#define TOOLS_SAFETENSORS_H

#include "command/command.h"

#include <jansson.h>

#define TENSOR_RANK_MAX 4

struct tensor {
    const char *name, *dtype; /* as the file has them: "F16" */
    size_t rank;              /* more than TENSOR_RANK_MAX dimensions: only the first are kept */
    int64_t shape[TENSOR_RANK_MAX];
    const char *path;      /* the file that it is in */
    uint64_t begin, bytes; /* its place there */
};

struct safetensors {
    const char *path; /* as the user gave it */
    json_t *headers;  /* the header of each file, by its path */
    size_t count;
    struct tensor *tensors; /* by name */
};

/* Reads and checks a file's header, or those of all files of a model.safetensors.index.json; prints
 * what is wrong. Free it with safetensors_free, after a failure too. `path` is kept by reference.
 */
#define SAFETENSORS_INDEX ".safetensors.index.json"
int safetensors_read(const char *path, struct safetensors *s);
void safetensors_free(struct safetensors *s);

/* The tensor of that name, or null. */
const struct tensor *safetensors_find(const struct safetensors *s, const char *name);

/* The data of a tensor of at most `limit` bytes, malloc'ed with a NUL behind it. */
int safetensors_data(const struct tensor *t, size_t limit, char **data);

#endif
