/* SPDX-License-Identifier: MIT */
/* Little-endian loads and stores at any alignment, equal on every machine. */
#ifndef QUERN_OBJECT_LE_H
#define QUERN_OBJECT_LE_H

#include <stdint.h>

static inline uint16_t le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t le32(const uint8_t *p)
{
    return le16(p) | (uint32_t)le16(p + 2) << 16;
}
static inline uint64_t le64(const uint8_t *p)
{
    return le32(p) | (uint64_t)le32(p + 4) << 32;
}

/* The low `bytes` bytes of value; bytes past the eighth are zero. */
static inline void le_put(uint8_t *p, uint32_t bytes, uint64_t value)
{
    for (uint32_t i = 0; i < bytes; i++)
        p[i] = i < 8 ? (uint8_t)(value >> 8 * i) : 0;
}

#endif
