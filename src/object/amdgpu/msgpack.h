/* SPDX-License-Identifier: MIT */
/*
 * A reader of MessagePack that trusts nothing: lengths are checked against the bytes that are
 * there, nesting is limited, and nothing is allocated. Strings are returned in place, without a
 * NUL.
 */
#ifndef QUERN_OBJECT_MSGPACK_H
#define QUERN_OBJECT_MSGPACK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MSGPACK_DEPTH_MAX 16

struct msgpack {
    const uint8_t *at, *end;
    unsigned depth; /* of maps and arrays entered and not left */
};

struct msgpack_text {
    const char *text;
    uint32_t bytes;
};

/* Each reads one value of that type. QUERN_E_OBJECT if it is of another type or ends too early. */
quern_status msgpack_map(struct msgpack *m, uint32_t *pairs);
quern_status msgpack_array(struct msgpack *m, uint32_t *items);
quern_status msgpack_string(struct msgpack *m, struct msgpack_text *text);
quern_status msgpack_uint(struct msgpack *m, uint64_t *value);
quern_status msgpack_bool(struct msgpack *m, bool *value);
/* Passes over one value of any type. */
quern_status msgpack_skip(struct msgpack *m);
/* After the last pair or item of a map or array. */
void msgpack_leave(struct msgpack *m);

bool msgpack_text_is(struct msgpack_text text, const char *word);

#endif
