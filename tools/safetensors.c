/* SPDX-License-Identifier: MIT */
#include "safetensors.h"
#include "files.h"
#include "json_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The format's own limit of a header. */
#define HEADER_MAX ((uint64_t)100000000)
/* Of one dimension: products of four then do not matter, since they are checked one by one. */
#define DIMENSION_MAX ((int64_t)1 << 40)

/* Bits of an element of each type of the format; 0 for one that is unknown. */
static unsigned dtype_bits(const char *dtype)
{
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {{"BOOL", 8},        {"U8", 8},         {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
                 {"F8_E8M0", 8},     {"I16", 16},       {"U16", 16}, {"F16", 16},    {"BF16", 16},
                 {"I32", 32},        {"U32", 32},       {"F32", 32}, {"C64", 64},    {"F64", 64},
                 {"I64", 64},        {"U64", 64},       {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
                 {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i].name, dtype))
            return types[i].bits;
    return 0;
}

/* ---- One tensor ------------------------------------------------------------------------------ */

static int bad_tensor(const struct safetensors *s, const char *name, const char *what)
{
    return fail("%s: tensor %s %s", s->path, name, what);
}

/* Element i of a list of sizes; -1 if it is none. */
static int64_t size_at(const json_t *list, size_t i)
{
    const json_t *const number = json_array_get(list, i);
    const int64_t value = json_is_integer(number) ? (int64_t)json_integer_value(number) : -1;

    return value < 0 ? -1 : value;
}

/* Its shape, and how many bytes that makes. */
static int read_shape(const struct safetensors *s, const json_t *shape, unsigned bits,
                      struct tensor *t, uint64_t *bytes)
{
    uint64_t elements = 1;

    if (!json_is_array(shape))
        return bad_tensor(s, t->name, "has no shape, a list of sizes");
    t->rank = json_array_size(shape);
    for (size_t i = 0; i < t->rank; i++) {
        const int64_t size = size_at(shape, i);
        if (size < 0 || size > DIMENSION_MAX)
            return bad_tensor(s, t->name, "has a shape that is no list of sizes up to 2^40");
        if (size && elements > UINT64_MAX / 64 / (uint64_t)size)
            return bad_tensor(s, t->name, "has a shape of more elements than any file holds");
        elements *= (uint64_t)size;
        if (i < TENSOR_RANK_MAX)
            t->shape[i] = size;
    }
    *bytes = elements * bits / 8;
    return EXIT_OK;
}

static int read_tensor(const struct safetensors *s, uint64_t data, uint64_t file_bytes,
                       const json_t *value, struct tensor *t)
{
    const json_t *const dtype = json_object_get(value, "dtype");
    const json_t *const offsets = json_object_get(value, "data_offsets");
    uint64_t bytes = 0;

    for (const char *c = t->name; *c; c++) /* names are printed */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return bad_tensor(s, t->name, "has a control character in its name");
    t->dtype = json_string_value(dtype);
    const unsigned bits = t->dtype ? dtype_bits(t->dtype) : 0;
    if (!bits)
        return fail("%s: tensor %s is of type %s, which safetensors does not have", s->path,
                    t->name, t->dtype ? t->dtype : "(none)");
    const int status = read_shape(s, json_object_get(value, "shape"), bits, t, &bytes);
    if (status)
        return status;
    const int64_t begin = size_at(offsets, 0), end = size_at(offsets, 1);
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin)
        return bad_tensor(s, t->name, "has no data_offsets, a list of its begin and end");
    if ((uint64_t)end > file_bytes - data)
        return fail("%s: tensor %s ends at byte %lld of the data, which has %llu; the file is cut "
                    "short or damaged",
                    s->path, t->name, (long long)end, (unsigned long long)(file_bytes - data));
    t->begin = data + (uint64_t)begin;
    t->bytes = (uint64_t)(end - begin);
    if (t->bytes != bytes)
        return fail("%s: tensor %s has %llu bytes; its shape and type make it %llu", s->path,
                    t->name, (unsigned long long)t->bytes, (unsigned long long)bytes);
    return EXIT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

/* ---- The file -------------------------------------------------------------------------------- */

static int read_tensors(struct safetensors *s, uint64_t data, uint64_t file_bytes)
{
    const char *name;
    json_t *value;

    s->tensors = calloc(json_object_size(s->header) + 1, sizeof *s->tensors);
    if (!s->tensors)
        return fail("out of memory");
    json_object_foreach(s->header, name, value)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        s->tensors[s->count].name = name;
        const int status = read_tensor(s, data, file_bytes, value, &s->tensors[s->count++]);
        if (status)
            return status;
    }
    qsort(s->tensors, s->count, sizeof *s->tensors, by_name);
    return EXIT_OK;
}

/* Bytes of an open file from `begin` on. */
static int read_part(FILE *f, const char *path, uint64_t begin, size_t bytes, char **data)
{
    *data = malloc(bytes + 1);
    if (!*data)
        return fail("out of memory");
    if (fseeko(f, (off_t)begin, SEEK_SET) || fread(*data, 1, bytes, f) != bytes) {
        free(*data);
        *data = NULL;
        return fail("cannot read %s: %s", path, ferror(f) ? strerror(errno) : "it ends too early");
    }
    (*data)[bytes] = 0;
    return EXIT_OK;
}

static int read_header(struct safetensors *s, FILE *f, uint64_t file_bytes)
{
    uint64_t header_bytes = 0;
    char *bytes;

    if (file_bytes < 8)
        return fail("%s has %llu bytes, too few for a safetensors file", s->path,
                    (unsigned long long)file_bytes);
    int status = read_part(f, s->path, 0, 8, &bytes);
    if (status)
        return status;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | (unsigned char)bytes[i];
    free(bytes);
    if (header_bytes > HEADER_MAX || header_bytes > file_bytes - 8)
        return fail("%s is no safetensors file: its header would have %llu bytes, and the file has "
                    "%llu in all",
                    s->path, (unsigned long long)header_bytes, (unsigned long long)file_bytes);
    if ((status = read_part(f, s->path, 8, (size_t)header_bytes, &bytes)))
        return status;
    status = json_bytes_load(s->path, bytes, (size_t)header_bytes, &s->header);
    free(bytes);
    return status ? status : read_tensors(s, 8 + header_bytes, file_bytes);
}

int safetensors_read(const char *path, struct safetensors *s)
{
    uint64_t bytes;

    *s = (struct safetensors){.path = path};
    int status = file_size(path, &bytes);
    if (status)
        return status;
    FILE *const f = fopen(path, "rb");
    if (!f)
        return fail("cannot read %s: %s", path, strerror(errno));
    status = read_header(s, f, bytes);
    fclose(f);
    return status;
}

void safetensors_free(struct safetensors *s)
{
    json_decref(s->header);
    free(s->tensors);
    *s = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    const struct tensor key = {.name = name};

    return s->count ? bsearch(&key, s->tensors, s->count, sizeof key, by_name) : NULL;
}

int safetensors_data(const struct safetensors *s, const struct tensor *t, size_t limit, char **data)
{
    if (t->bytes > limit)
        return fail("%s: tensor %s has %llu bytes; at most %zu are read", s->path, t->name,
                    (unsigned long long)t->bytes, limit);
    FILE *const f = fopen(s->path, "rb");
    if (!f)
        return fail("cannot read %s: %s", s->path, strerror(errno));
    const int status = read_part(f, s->path, t->begin, (size_t)t->bytes, data);
    fclose(f);
    return status;
}
