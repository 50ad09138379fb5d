/* SPDX-License-Identifier: MIT */
/* The checks and copies of structs that callers of other versions of quern made. */
#include "base/extensible.h"

#include <string.h>

/* The `size` of a caller's struct, which need not be aligned: elements of a caller's array may have
 * any size. */
static size_t size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size;
}

quern_status extensible_check(const struct extensible *type, const void *given)
{
    FAIL_IF(!given, QUERN_E_ARGUMENT, "struct %s is null", type->name);
    const size_t size = size_of(given);
    FAIL_IF(size < type->least || size > type->known + EXTENSIBLE_MORE_MAX, QUERN_E_ARGUMENT,
            "struct %s has size %zu; expected its sizeof, which is %zu in this library and at "
            "least %zu (set it with QUERN_INIT)",
            type->name, size, type->known, type->least);
    for (size_t at = type->known; at < size; at++)
        FAIL_IF(((const char *)given)[at], QUERN_E_ARGUMENT,
                "struct %s has size %zu, and its byte %zu is not 0; this library knows %zu bytes "
                "of it, and takes more only if they are 0",
                type->name, size, at, type->known);
    return QUERN_OK;
}

bool extensible_has(const void *given, size_t end)
{
    return end <= size_of(given);
}

quern_status extensible_read(const struct extensible *type, const void *given, void *own)
{
    TRY(extensible_check(type, given));
    const size_t size = size_of(given), shared = size < type->known ? size : type->known;
    memcpy(own, given, shared);
    memset((char *)own + shared, 0, type->known - shared);
    memcpy(own, &type->known, sizeof type->known);
    return QUERN_OK;
}

void extensible_write(const struct extensible *type, const void *own, void *given)
{
    const size_t size = size_of(given), shared = size < type->known ? size : type->known;

    memcpy((char *)given + sizeof size, (const char *)own + sizeof size, shared - sizeof size);
}

quern_status extensible_read_at(const struct extensible *type, const void *array, size_t index,
                                void *own)
{
    TRY(extensible_check(type, array));
    const size_t step = size_of(array);
    const char *const element = (const char *)array + index * step;
    FAIL_IF(size_of(element) != step, QUERN_E_ARGUMENT,
            "element %zu of an array of struct %s has size %zu, and the first has %zu; expected "
            "the same size in all",
            index, type->name, size_of(element), step);
    return extensible_read(type, element, own);
}
