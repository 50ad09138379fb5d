/* SPDX-License-Identifier: MIT */
/* Reads a safetensors file: eight bytes of header length, a JSON header, raw tensors. */
#ifndef EXAMPLES_SAFETENSORS_H
#define EXAMPLES_SAFETENSORS_H

#include <stddef.h>

#include <jansson.h>

struct safetensors {
    char *path;
    const unsigned char *file; /* mapped */
    size_t file_bytes;
    const unsigned char *data; /* where the offsets of the header start */
    size_t data_bytes;
    json_t *header;
};

/* Maps the file and reads its header; fails with a message if it is not whole. */
struct safetensors *safetensors_open(const char *path);
void safetensors_close(struct safetensors *s);

/* Size of a dimension of a tensor, from 1 to 2^20; fails with a message if there is none. */
size_t safetensors_size(const struct safetensors *s, const char *name, size_t dimension);

/*
 * The elements of the f32 tensor `name`, of exactly this shape. They stay in the mapped file and
 * live until safetensors_close. Fails with a message if there is no such tensor, it has another
 * type or shape, or lies outside the file.
 */
const float *safetensors_f32(const struct safetensors *s, const char *name, int rank,
                             const size_t *shape);

#endif
