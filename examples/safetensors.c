/* SPDX-License-Identifier: MIT */
#include "safetensors.h"

#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The format's own limit. */
#define HEADER_MAX 100000000
/* Of a dimension: products of two sizes then fit in 62 bits. */
#define DIMENSION_MAX (1 << 20)

static const unsigned char *map(const char *path, size_t *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st))
        fail("cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        fail("cannot read %s: not a regular file", path);
    if (st.st_size < 8)
        fail("%s: %lld bytes are too few for a safetensors file", path, (long long)st.st_size);
    *bytes = (size_t)st.st_size;
    void *const memory = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED)
        fail("cannot map %s: %s", path, strerror(errno));
    close(fd);
    return memory;
}

struct safetensors *safetensors_open(const char *path)
{
    struct safetensors *const s = allocate(1, sizeof *s);
    uint64_t header_bytes = 0;
    json_error_t error;

    s->path = strdup(path);
    s->file = map(path, &s->file_bytes);
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | s->file[i];
    if (header_bytes > HEADER_MAX || header_bytes > s->file_bytes - 8)
        fail("%s: its header would have %llu bytes, but the file has %zu in all", path,
             (unsigned long long)header_bytes, s->file_bytes);
    s->data = s->file + 8 + header_bytes;
    s->data_bytes = s->file_bytes - 8 - header_bytes;
    s->header = json_loadb((const char *)s->file + 8, header_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!s->header)
        fail("%s: its header is not JSON: %s at byte %d", path, error.text, error.position);
    if (!json_is_object(s->header))
        fail("%s: its header is not a JSON object", path);
    return s;
}

void safetensors_close(struct safetensors *s)
{
    json_decref(s->header);
    munmap((void *)s->file, s->file_bytes);
    free(s->path);
    free(s);
}

/* The i-th element of a JSON array as a size; fails if it is none. */
static uint64_t number_at(const struct safetensors *s, const char *name, const char *member,
                          const json_t *array, size_t i)
{
    const json_t *const number = json_array_get(array, i);

    if (!json_is_integer(number) || json_integer_value(number) < 0)
        fail("%s: %s of tensor %s is not a list of sizes", s->path, member, name);
    return (uint64_t)json_integer_value(number);
}

size_t safetensors_size(const struct safetensors *s, const char *name, size_t dimension)
{
    const json_t *const tensor = json_object_get(s->header, name);

    if (!tensor)
        fail("%s: there is no tensor %s", s->path, name);
    const uint64_t size = number_at(s, name, "shape", json_object_get(tensor, "shape"), dimension);
    if (size < 1 || size > DIMENSION_MAX)
        fail("%s: dimension %zu of tensor %s is %llu; expected 1 to %d", s->path, dimension, name,
             (unsigned long long)size, DIMENSION_MAX);
    return (size_t)size;
}

const float *safetensors_f32(const struct safetensors *s, const char *name, int rank,
                             const size_t *shape)
{
    const json_t *const tensor = json_object_get(s->header, name);
    const json_t *const dtype = json_object_get(tensor, "dtype");
    const json_t *const dimensions = json_object_get(tensor, "shape");
    const json_t *const offsets = json_object_get(tensor, "data_offsets");
    size_t bytes = sizeof(float);

    if (!tensor)
        fail("%s: there is no tensor %s", s->path, name);
    if (!json_is_string(dtype) || strcmp(json_string_value(dtype), "F32"))
        fail("%s: tensor %s is of type %s; expected F32", s->path, name,
             json_is_string(dtype) ? json_string_value(dtype) : "unknown");
    if (json_array_size(dimensions) != (size_t)rank)
        fail("%s: tensor %s has %zu dimensions; expected %d", s->path, name,
             json_array_size(dimensions), rank);
    for (int i = 0; i < rank; i++) {
        const uint64_t size = number_at(s, name, "shape", dimensions, (size_t)i);
        if (size != shape[i])
            fail("%s: dimension %d of tensor %s is %llu; expected %zu", s->path, i, name,
                 (unsigned long long)size, shape[i]);
        bytes *= shape[i]; /* the caller's sizes are small */
    }
    if (json_array_size(offsets) != 2)
        fail("%s: tensor %s has no data_offsets", s->path, name);
    const uint64_t begin = number_at(s, name, "data_offsets", offsets, 0);
    const uint64_t end = number_at(s, name, "data_offsets", offsets, 1);
    if (begin > end || end > s->data_bytes)
        fail("%s: tensor %s lies at bytes %llu to %llu of %zu; the file is cut short or damaged",
             s->path, name, (unsigned long long)begin, (unsigned long long)end, s->data_bytes);
    if (end - begin != bytes)
        fail("%s: tensor %s has %llu bytes; its shape makes it %zu", s->path, name,
             (unsigned long long)(end - begin), bytes);
    if ((uintptr_t)(s->data + begin) % sizeof(float))
        fail("%s: tensor %s is not aligned to its elements", s->path, name);
    return (const float *)(const void *)(s->data + begin);
}
