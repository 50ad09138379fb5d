/* SPDX-License-Identifier: MIT */
/*
 * Extensible structs: public structs that begin with `size`, which the caller sets to its own
 * sizeof. The caller may have been compiled against an older header, which has fewer fields, or
 * against a newer one. Everything that the library does about `size` stands here; quern.h states
 * the rules for callers.
 */
#ifndef QUERN_BASE_EXTENSIBLE_H
#define QUERN_BASE_EXTENSIBLE_H

#include "base/error.h"

#include <stdbool.h>

/* What the library knows of one such struct. */
struct extensible {
    const char *name; /* of the struct, for messages */
    size_t least;     /* its smallest accepted size, a QUERN_…_SIZE_MIN */
    size_t known;     /* its sizeof in this library */
};

#define EXTENSIBLE(tag, LEAST)                                                                     \
    (&(const struct extensible){.name = #tag, .least = (LEAST), .known = sizeof(struct tag)})

/* A size that exceeds `known` by more than this is refused without a look at the bytes: nobody set
 * it, in all likelihood, and there may be no such memory. */
#define EXTENSIBLE_MORE_MAX 4096

/*
 * Checks the `size` of a caller's struct, at any alignment. QUERN_E_ARGUMENT if `given` is null, if
 * its size is below the least, or if it is above what is known and a byte beyond that is not zero.
 */
quern_status extensible_check(const struct extensible *type, const void *given);

/* Whether the caller's version has the field that ends at offset `end`. */
bool extensible_has(const void *given, size_t end);

/* For inputs: checks *given and copies it to *own, a struct as this library knows it. Fields that
 * the caller's version lacks become zero. */
quern_status extensible_read(const struct extensible *type, const void *given, void *own);

/* The same, but without a copy where the caller's version is this one, for launches: *view is then
 * `given`; else it is `own`, which is filled. */
static inline quern_status extensible_view(const struct extensible *type, const void *given,
                                           void *own, const void **view)
{
    const bool same = given && *(const size_t *)given == type->known;

    *view = same ? given : own;
    return same ? QUERN_OK : extensible_read(type, given, own);
}

/* For outputs: copies *own to *given, which extensible_check has accepted. The caller's `size`
 * stays, and so does every byte beyond the smaller of the two versions. */
void extensible_write(const struct extensible *type, const void *own, void *given);

/* For inputs: extensible_read of element `index` of an array, whose elements lie as far apart as
 * the `size` of the first says. QUERN_E_ARGUMENT also when an element's `size` is another one. */
quern_status extensible_read_at(const struct extensible *type, const void *array, size_t index,
                                void *own);

#endif
