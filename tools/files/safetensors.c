/* SPDX-License-Identifier: MIT */
/* Reads the headers of safetensors files (safetensors.h). */
#include "files/safetensors.h"
#include "files/files.h"
#include "files/json_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest header; the format itself sets the limit. */
#define HEADER_MAX ((uint64_t)100000000)
/* The largest dimension. The product of a tensor's dimensions is checked at each factor. */
#define DIMENSION_MAX ((int64_t)1 << 40)

/* Bits of an element of a type of the format; 0: the type is unknown. */
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

static int bad_tensor(const struct tensor *t, const char *what)
{
    return fail("%s: tensor %s %s", t->path, t->name, what);
}

/* Element i of a list of sizes; -1 if it is no size. */
static int64_t size_at(const json_t *list, size_t i)
{
    const json_t *const number = json_array_get(list, i);
    const int64_t value = json_is_integer(number) ? (int64_t)json_integer_value(number) : -1;

    return value < 0 ? -1 : value;
}

/* Reads a tensor's shape, and computes how many bytes it must have. */
static int read_shape(const json_t *shape, unsigned bits, struct tensor *t, uint64_t *bytes)
{
    uint64_t elements = 1;

    if (!json_is_array(shape))
        return bad_tensor(t, "has no shape, a list of sizes");
    t->rank = json_array_size(shape);
    for (size_t i = 0; i < t->rank; i++) {
        const int64_t size = size_at(shape, i);
        if (size < 0 || size > DIMENSION_MAX)
            return bad_tensor(t, "has a shape that is no list of sizes up to 2^40");
        if (size && elements > UINT64_MAX / 64 / (uint64_t)size)
            return bad_tensor(t, "has a shape of more elements than any file holds");
        elements *= (uint64_t)size;
        if (i < TENSOR_RANK_MAX)
            t->shape[i] = size;
    }
    if (elements % 8 * bits % 8)
        return bad_tensor(t, "has a shape whose elements fill no whole bytes");
    *bytes = elements * bits / 8;
    return EXIT_OK;
}

static int read_tensor(uint64_t data, uint64_t file_bytes, const json_t *value, struct tensor *t)
{
    const json_t *const dtype = json_object_get(value, "dtype");
    const json_t *const offsets = json_object_get(value, "data_offsets");
    uint64_t bytes = 0;

    for (const char *c = t->name; *c; c++) /* no control characters: names are printed */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return bad_tensor(t, "has a control character in its name");
    t->dtype = json_string_value(dtype);
    const unsigned bits = t->dtype ? dtype_bits(t->dtype) : 0;
    if (!bits)
        return fail("%s: tensor %s is of type %s, which safetensors does not have", t->path,
                    t->name, t->dtype ? t->dtype : "(none)");
    const int status = read_shape(json_object_get(value, "shape"), bits, t, &bytes);
    if (status)
        return status;
    const int64_t begin = size_at(offsets, 0), end = size_at(offsets, 1);
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin)
        return bad_tensor(t, "has no data_offsets, a list of its begin and end");
    if ((uint64_t)end > file_bytes - data)
        return fail("%s: tensor %s ends at byte %lld of the data, which has %llu; the file is cut "
                    "short or damaged",
                    t->path, t->name, (long long)end, (unsigned long long)(file_bytes - data));
    t->begin = data + (uint64_t)begin;
    t->bytes = (uint64_t)(end - begin);
    if (t->bytes != bytes)
        return fail("%s: tensor %s has %llu bytes; its shape and type make it %llu", t->path,
                    t->name, (unsigned long long)t->bytes, (unsigned long long)bytes);
    return EXIT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *const x = a, *const y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* ---- A file ---------------------------------------------------------------------------------- */

/* Tensors lie one behind another from the header to the file's end: none has bytes of another's,
 * and none are left out. The format's own reader refuses the same files (InvalidOffset,
 * MetadataIncompleteBuffer; safetensors/src/tensor.rs). */
static int check_places(const char *path, struct tensor *tensors, size_t count, uint64_t data,
                        uint64_t file_bytes)
{
    uint64_t expected = data;

    qsort(tensors, count, sizeof *tensors, by_place);
    for (size_t i = 0; i < count; expected = tensors[i].begin + tensors[i].bytes, i++)
        if (tensors[i].begin != expected)
            return fail(
                "%s: tensor %s begins at byte %llu of the data; expected %llu, where %s "
                "ends",
                tensors[i].path, tensors[i].name, (unsigned long long)(tensors[i].begin - data),
                (unsigned long long)(expected - data), i ? tensors[i - 1].name : "the header");
    if (file_bytes != expected)
        return fail("%s has %llu bytes; expected %llu, where %s ends: the file is damaged", path,
                    (unsigned long long)file_bytes, (unsigned long long)expected,
                    count ? tensors[count - 1].name : "the header");
    return EXIT_OK;
}

/* Adds the tensors of a header; the data of its file begins at byte `data`. */
static int read_tensors(struct safetensors *s, const char *path, const json_t *header,
                        uint64_t data, uint64_t file_bytes)
{
    const size_t first = s->count;
    const char *name;
    json_t *value;

    struct tensor *const grown =
        realloc(s->tensors, (first + json_object_size(header) + 1) * sizeof *grown);
    if (!grown)
        return fail("out of memory");
    s->tensors = grown;
    json_object_foreach((json_t *)header, name, value)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        s->tensors[s->count] = (struct tensor){.name = name, .path = path};
        const int status = read_tensor(data, file_bytes, value, &s->tensors[s->count++]);
        if (status)
            return status;
    }
    return check_places(path, s->tensors + first, s->count - first, data, file_bytes);
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

/* Reads a file's header, and keeps its JSON in s->headers under the file's path: tensors point into
 * both. */
static int read_header(struct safetensors *s, const char *path, FILE *f, uint64_t file_bytes)
{
    uint64_t header_bytes = 0;
    json_t *header;
    char *bytes;

    if (file_bytes < 8)
        return fail("%s has %llu bytes, too few for a safetensors file", path,
                    (unsigned long long)file_bytes);
    int status = read_part(f, path, 0, 8, &bytes);
    if (status)
        return status;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | (unsigned char)bytes[i];
    free(bytes);
    if (header_bytes > HEADER_MAX || header_bytes > file_bytes - 8)
        return fail("%s is no safetensors file: its header would have %llu bytes, and the file has "
                    "%llu in all",
                    path, (unsigned long long)header_bytes, (unsigned long long)file_bytes);
    if ((status = read_part(f, path, 8, (size_t)header_bytes, &bytes)))
        return status;
    status = json_bytes_load(path, bytes, (size_t)header_bytes, &header);
    free(bytes);
    if (status)
        return status;
    if (json_object_set_new_nocheck(s->headers, path, header))
        return fail("out of memory");
    path = json_object_iter_key(json_object_iter_at(s->headers, path));
    return read_tensors(s, path, header, 8 + header_bytes, file_bytes);
}

static int read_file(struct safetensors *s, const char *path)
{
    uint64_t bytes;

    int status = file_size(path, &bytes);
    if (status)
        return status;
    FILE *const f = fopen(path, "rb");
    if (!f)
        return fail("cannot read %s: %s", path, strerror(errno));
    status = read_header(s, path, f, bytes);
    fclose(f);
    return status;
}

/* ---- Several files --------------------------------------------------------------------------- */

/* Reads the header of the file that the index names for a tensor, unless it has been read. The file
 * lies beside the index. */
static int read_shard(struct safetensors *s, const char *name, const json_t *value)
{
    const char *const file = json_string_value(value);
    char shown[JSON_SHOWN_BYTES];

    if (!file || !file[0] || strchr(file, '/'))
        return fail("%s: weight_map has %s for tensor %s; expected a file's name", s->path,
                    json_shown(value, shown), name);
    const char *const slash = strrchr(s->path, '/');
    const size_t size = (slash ? (size_t)(slash + 1 - s->path) : 0) + strlen(file) + 1;
    char *const path = malloc(size);
    if (!path)
        return fail("out of memory");
    snprintf(path, size, "%.*s%s", slash ? (int)(slash + 1 - s->path) : 0, s->path, file);
    const int status = json_object_get(s->headers, path) ? EXIT_OK : read_file(s, path);
    free(path);
    return status;
}

static int check_index(const struct safetensors *s, const json_t *map)
{
    const char *name;
    json_t *value;

    for (size_t i = 1; i < s->count; i++)
        if (!strcmp(s->tensors[i].name, s->tensors[i - 1].name))
            return fail("%s: tensor %s is in %s too", s->tensors[i - 1].path, s->tensors[i].name,
                        s->tensors[i].path);
    json_object_foreach((json_t *)map, name, value)
    {
        const struct tensor *const t = safetensors_find(s, name);
        const char *const slash = t ? strrchr(t->path, '/') : NULL;
        if (!t || strcmp(slash ? slash + 1 : t->path, json_string_value(value)))
            return fail("%s: tensor %s is not in %s, where weight_map has it", s->path, name,
                        json_string_value(value));
    }
    return EXIT_OK;
}

static int read_index(struct safetensors *s)
{
    const char *name;
    json_t *root, *value;

    int status = json_file_load(s->path, HEADER_MAX, &root);
    if (status)
        return status;
    json_t *const map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        status = fail("%s has no weight_map, which says which file has which tensor", s->path);
    json_object_foreach(map, name, value)
    {
        if ((status = read_shard(s, name, value)))
            break;
    }
    if (!status) {
        qsort(s->tensors, s->count, sizeof *s->tensors, by_name);
        status = check_index(s, map);
    }
    json_decref(root);
    return status;
}

int safetensors_read(const char *path, struct safetensors *s)
{
    const size_t length = strlen(path), end = strlen(SAFETENSORS_INDEX);

    *s = (struct safetensors){.path = path, .headers = json_object()};
    if (!s->headers)
        return fail("out of memory");
    if (length > end && !strcmp(path + length - end, SAFETENSORS_INDEX))
        return read_index(s);
    const int status = read_file(s, path);
    if (!status)
        qsort(s->tensors, s->count, sizeof *s->tensors, by_name);
    return status;
}

void safetensors_free(struct safetensors *s)
{
    json_decref(s->headers);
    free(s->tensors);
    *s = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    const struct tensor key = {.name = name};

    return s->count ? bsearch(&key, s->tensors, s->count, sizeof key, by_name) : NULL;
}

int safetensors_data(const struct tensor *t, size_t limit, char **data)
{
    if (t->bytes > limit)
        return fail("%s: tensor %s has %llu bytes; at most %zu are read", t->path, t->name,
                    (unsigned long long)t->bytes, limit);
    FILE *const f = fopen(t->path, "rb");
    if (!f)
        return fail("cannot read %s: %s", t->path, strerror(errno));
    const int status = read_part(f, t->path, t->begin, (size_t)t->bytes, data);
    fclose(f);
    return status;
}
