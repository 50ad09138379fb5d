/* SPDX-License-Identifier: MIT */
/* A reader of MessagePack (msgpack.h), which the metadata note is written in. */
#include "object/amdgpu/msgpack.h"

#include <string.h>

enum kind { KIND_UINT, KIND_NEGATIVE, KIND_BOOL, KIND_STRING, KIND_ARRAY, KIND_MAP, KIND_OTHER };

static const char *const kind_names[] = {
    "a number", "a negative number", "a boolean", "a string", "an array", "a map", "another type"};

struct value {
    enum kind kind;
    uint64_t number; /* value, or count of pairs, items or bytes */
    uint64_t bytes;  /* of content that follows: strings and the like */
};

/* Big-endian, as MessagePack has it. */
static quern_status number(struct msgpack *m, unsigned bytes, uint64_t *value)
{
    FAIL_IF((size_t)(m->end - m->at) < bytes, QUERN_E_OBJECT,
            "the metadata end inside a value: %u bytes wanted, %zu left", bytes,
            (size_t)(m->end - m->at));
    *value = 0;
    for (unsigned i = 0; i < bytes; i++)
        *value = *value << 8 | *m->at++;
    return QUERN_OK;
}

/* What follows a type byte of 0xc0 to 0xdf: the value, or its length. */
static quern_status read_long(struct msgpack *m, unsigned tag, struct value *v)
{
    switch (tag) {
    case 0xc0: /* nil */
        return QUERN_OK;
    case 0xc2:
    case 0xc3:
        v->kind = KIND_BOOL;
        v->number = tag & 1;
        return QUERN_OK;
    case 0xc4: /* bin 8, 16, 32 */
    case 0xc5:
    case 0xc6:
        return number(m, 1u << (tag - 0xc4), &v->bytes);
    case 0xc7: /* ext 8, 16, 32: a type byte before the content */
    case 0xc8:
    case 0xc9:
        TRY(number(m, 1u << (tag - 0xc7), &v->bytes));
        v->bytes++;
        return QUERN_OK;
    case 0xca: /* float 32, 64 */
    case 0xcb:
        v->bytes = tag == 0xca ? 4 : 8;
        return QUERN_OK;
    case 0xcc: /* uint 8, 16, 32, 64 */
    case 0xcd:
    case 0xce:
    case 0xcf:
        v->kind = KIND_UINT;
        return number(m, 1u << (tag - 0xcc), &v->number);
    case 0xd0: /* int 8, 16, 32, 64: a positive value may be written so too */
    case 0xd1:
    case 0xd2:
    case 0xd3: {
        const unsigned bytes = 1u << (tag - 0xd0);
        TRY(number(m, bytes, &v->number));
        v->kind = v->number >> (8 * bytes - 1) ? KIND_NEGATIVE : KIND_UINT;
        return QUERN_OK;
    }
    case 0xd4: /* fixext 1, 2, 4, 8, 16 */
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        v->bytes = 1 + ((uint64_t)1 << (tag - 0xd4));
        return QUERN_OK;
    case 0xd9: /* str 8, 16, 32 */
    case 0xda:
    case 0xdb:
        v->kind = KIND_STRING;
        return number(m, 1u << (tag - 0xd9), &v->bytes);
    case 0xdc: /* array and map 16, 32 */
    case 0xdd:
    case 0xde:
    case 0xdf:
        v->kind = tag < 0xde ? KIND_ARRAY : KIND_MAP;
        return number(m, tag & 1 ? 4 : 2, &v->number);
    default:
        FAIL(QUERN_E_OBJECT, "the metadata hold a byte %#x where a value begins", tag);
    }
}

/* A type byte, its length or value, and for a string or blob the check that its content is there.
 */
static quern_status head(struct msgpack *m, struct value *v)
{
    uint64_t tag = 0;

    TRY(number(m, 1, &tag));
    *v = (struct value){.kind = KIND_OTHER};
    if (tag <= 0x7f) {
        v->kind = KIND_UINT;
        v->number = tag;
    } else if (tag <= 0x8f) {
        v->kind = KIND_MAP;
        v->number = tag & 15;
    } else if (tag <= 0x9f) {
        v->kind = KIND_ARRAY;
        v->number = tag & 15;
    } else if (tag <= 0xbf) {
        v->kind = KIND_STRING;
        v->bytes = tag & 31;
    } else if (tag >= 0xe0) {
        v->kind = KIND_NEGATIVE;
    } else {
        TRY(read_long(m, (unsigned)tag, v));
    }
    FAIL_IF(v->bytes > (uint64_t)(m->end - m->at), QUERN_E_OBJECT,
            "the metadata end inside a value: %llu bytes wanted, %zu left",
            (unsigned long long)v->bytes, (size_t)(m->end - m->at));
    return QUERN_OK;
}

static quern_status expect(struct msgpack *m, enum kind kind, struct value *v)
{
    TRY(head(m, v));
    FAIL_IF(v->kind != kind, QUERN_E_OBJECT, "the metadata hold %s where %s belongs",
            kind_names[v->kind], kind_names[kind]);
    return QUERN_OK;
}

static quern_status enter(struct msgpack *m)
{
    FAIL_IF(++m->depth > MSGPACK_DEPTH_MAX, QUERN_E_OBJECT, "the metadata nest deeper than %d",
            MSGPACK_DEPTH_MAX);
    return QUERN_OK;
}

void msgpack_leave(struct msgpack *m)
{
    m->depth--;
}

quern_status msgpack_map(struct msgpack *m, uint32_t *pairs)
{
    struct value v;

    TRY(expect(m, KIND_MAP, &v));
    TRY(enter(m));
    *pairs = (uint32_t)v.number;
    return QUERN_OK;
}

quern_status msgpack_array(struct msgpack *m, uint32_t *items)
{
    struct value v;

    TRY(expect(m, KIND_ARRAY, &v));
    TRY(enter(m));
    *items = (uint32_t)v.number;
    return QUERN_OK;
}

quern_status msgpack_string(struct msgpack *m, struct msgpack_text *text)
{
    struct value v;

    TRY(expect(m, KIND_STRING, &v));
    text->text = (const char *)m->at;
    text->bytes = (uint32_t)v.bytes;
    m->at += v.bytes;
    return QUERN_OK;
}

quern_status msgpack_uint(struct msgpack *m, uint64_t *value)
{
    struct value v;

    TRY(expect(m, KIND_UINT, &v));
    *value = v.number;
    return QUERN_OK;
}

quern_status msgpack_bool(struct msgpack *m, bool *value)
{
    struct value v;

    TRY(expect(m, KIND_BOOL, &v));
    *value = v.number != 0;
    return QUERN_OK;
}

quern_status msgpack_skip(struct msgpack *m)
{
    /* how many values are still to pass over at each level */
    uint64_t left[MSGPACK_DEPTH_MAX + 1] = {1};
    unsigned level = 0;

    for (;;) {
        while (left[level] == 0) {
            if (level == 0)
                return QUERN_OK;
            level--;
        }
        left[level]--;
        struct value v;
        TRY(head(m, &v));
        m->at += v.bytes;
        if (v.kind == KIND_ARRAY || v.kind == KIND_MAP) {
            FAIL_IF(m->depth + level >= MSGPACK_DEPTH_MAX, QUERN_E_OBJECT,
                    "the metadata nest deeper than %d", MSGPACK_DEPTH_MAX);
            left[++level] = v.kind == KIND_MAP ? 2 * v.number : v.number;
        }
    }
}

bool msgpack_text_is(struct msgpack_text text, const char *word)
{
    return text.bytes == strlen(word) && !memcmp(text.text, word, text.bytes);
}
