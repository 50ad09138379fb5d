/* SPDX-License-Identifier: MIT */
/* Reads scales and orders of columns (tensor_values.h) and judges them. */
#include "checkpoint/tensor_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The exponent's bits, all of which are set in infinities and NaNs, and the mantissa's. */
struct float_bits {
    const char *dtype;
    size_t bytes;
    uint32_t exponent, mantissa;
};

static const struct float_bits *float_bits_of(const char *dtype)
{
    static const struct float_bits types[] = {
        {"F16", 2, 0x7c00, 0x3ff}, {"BF16", 2, 0x7f80, 0x7f}, {"F32", 4, 0x7f800000, 0x7fffff}};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i].dtype, dtype))
            return &types[i];
    return NULL;
}

int tensor_check_finite(const struct tensor *t)
{
    const struct float_bits *const type = float_bits_of(t->dtype);
    char *data, place[48] = "";
    int status;

    if (!type)
        return EXIT_OK;
    if ((status = safetensors_data(t, TENSOR_VALUES_MAX, &data)))
        return status;
    for (uint64_t i = 0; i < t->bytes / type->bytes && !status; i++) {
        uint32_t bits = 0;
        memcpy(&bits, data + i * type->bytes, type->bytes); /* little-endian, as this machine is */
        if ((bits & type->exponent) != type->exponent)
            continue;
        if (t->rank == 2)
            snprintf(place, sizeof place, " at [%llu,%llu]",
                     (unsigned long long)i / (unsigned long long)t->shape[1],
                     (unsigned long long)i % (unsigned long long)t->shape[1]);
        else if (t->rank)
            snprintf(place, sizeof place, " at [%llu]", (unsigned long long)i);
        status = fail("%s: tensor %s is %s%s; expected finite %s numbers", t->path, t->name,
                      bits & type->mantissa ? "NaN" : "infinite", place, t->dtype);
    }
    free(data);
    return status;
}

int tensor_check_order(const struct tensor *t, int64_t k, int64_t groups, bool *shuffled,
                       int64_t *uneven)
{
    int64_t *const columns = calloc((size_t)groups, sizeof *columns);
    char *data = NULL;
    int32_t group;

    int status = columns ? safetensors_data(t, TENSOR_VALUES_MAX, &data) : fail("out of memory");
    *shuffled = false;
    *uneven = -1;
    for (int64_t i = 0; i < k && !status; i++) {
        memcpy(&group, data + 4 * i, sizeof group);
        if (group < 0 || group >= groups)
            status = fail("%s: tensor %s has group %d at column %lld; expected 0 to %lld", t->path,
                          t->name, group, (long long)i, (long long)groups - 1);
        else if (++columns[group] > k / groups && *uneven < 0)
            *uneven = group;
        *shuffled |= group != i / (k / groups);
    }
    free(data);
    free(columns);
    return status;
}
