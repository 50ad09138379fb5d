/* SPDX-License-Identifier: MIT */
/*
 * What vector memory instructions share: from operands to one checked host pointer per active lane
 * (exec_address.c), and from there to registers and back.
 */
#ifndef QUERN_SIM_EXEC_MEMORY_H
#define QUERN_SIM_EXEC_MEMORY_H

#include "sim/exec/tables.h"

/* Where the lanes of one instruction go. */
struct access {
    uint8_t *at[64];      /* host pointers; only those of active lanes are set */
    uint64_t address[64]; /* guest addresses, LDS or scratch offsets */
    uint64_t active;      /* lanes that access memory: EXEC, less lanes out of a buffer's range */
    const struct mapping *map; /* that all active lanes are in, or null */
};

enum space { SPACE_GLOBAL, SPACE_FLAT, SPACE_SCRATCH, SPACE_BUFFER, SPACE_LDS };

/* How a value in memory fills a register. LOW and HIGH keep the other half, but on gfx9: with the
 * error correction that its registers have there, it becomes 0 (LLVM, d16PreservesUnusedBits). */
enum format {
    FORMAT_U8,
    FORMAT_I8,
    FORMAT_U16,
    FORMAT_I16,
    FORMAT_WORDS,
    FORMAT_LOW_U8,
    FORMAT_LOW_I8,
    FORMAT_LOW_16,
    FORMAT_HIGH_U8,
    FORMAT_HIGH_I8,
    FORMAT_HIGH_16
};

/*
 * Finds out where an access of `bytes` bytes goes, checks range, rights and alignment, and counts
 * it. False when the wave was stopped by a finding.
 */
bool resolve(struct wave *w, const struct insn *i, enum space space, unsigned bytes,
             enum quern_sim_access rights, bool atomic, struct access *a);
/* Stops the wave and gives false if lane l must not access these bytes of LDS. */
bool check_lds(struct wave *w, const struct insn *i, unsigned l, uint64_t offset, unsigned bytes,
               unsigned align);

/*
 * Alignment. The driver lets compute programs access memory unaligned (SH_MEM_CONFIG), and
 * compilers count on it from gfx9 on: loads and stores of any width work at any address, in global
 * memory, LDS and scratch. Atomics want that of their width. Scratch behind gfx90a's descriptor is
 * interleaved by dwords, so a dword or more wants 4.
 */
INLINE unsigned alignment(unsigned bytes, bool atomic)
{
    return atomic ? bytes : 1;
}

/*
 * Between guest memory and a value. A kernel's workgroups may touch the same bytes, by mistake or
 * because one of them uses atomics; ThreadSanitizer shall look for races of the simulator, not of
 * its guest.
 */
INLINE void copy_in(void *to, const uint8_t *from, unsigned bytes)
{
#ifdef __SANITIZE_THREAD__
    for (unsigned n = 0; n < bytes; n++)
        ((uint8_t *)to)[n] = __atomic_load_n(from + n, __ATOMIC_RELAXED);
#else
    memcpy(to, from, bytes);
#endif
}

INLINE void copy_out(uint8_t *to, const void *from, unsigned bytes)
{
#ifdef __SANITIZE_THREAD__
    for (unsigned n = 0; n < bytes; n++)
        __atomic_store_n(to + n, ((const uint8_t *)from)[n], __ATOMIC_RELAXED);
#else
    memcpy(to, from, bytes);
#endif
}

INLINE unsigned format_bytes(enum format format, unsigned words)
{
    switch (format) {
    case FORMAT_WORDS:
        return 4 * words;
    case FORMAT_U16:
    case FORMAT_I16:
    case FORMAT_LOW_16:
    case FORMAT_HIGH_16:
        return 2;
    default:
        return 1;
    }
}

INLINE void load_lane(uint32_t *d, unsigned stride, const uint8_t *p, enum format format,
                      unsigned words)
{
    uint16_t half = 0;
    uint8_t byte = 0;

    if (format_bytes(format, 1) == 2)
        copy_in(&half, p, 2);
    else if (format != FORMAT_WORDS)
        copy_in(&byte, p, 1);
    switch (format) {
    case FORMAT_U8:
        *d = byte;
        break;
    case FORMAT_I8:
        *d = (uint32_t)(int8_t)byte;
        break;
    case FORMAT_U16:
        *d = half;
        break;
    case FORMAT_I16:
        *d = (uint32_t)(int16_t)half;
        break;
    case FORMAT_WORDS: {
        uint32_t value[4];
        copy_in(value, p, 4 * words);
        for (unsigned k = 0; k < words; k++)
            d[k * stride] = value[k];
        break;
    }
    case FORMAT_LOW_U8:
        *d = (*d & 0xffff0000u) | byte;
        break;
    case FORMAT_LOW_I8:
        *d = (*d & 0xffff0000u) | (uint16_t)(int8_t)byte;
        break;
    case FORMAT_LOW_16:
        *d = (*d & 0xffff0000u) | half;
        break;
    case FORMAT_HIGH_U8:
        *d = (*d & 0xffff) | (uint32_t)byte << 16;
        break;
    case FORMAT_HIGH_I8:
        *d = (*d & 0xffff) | (uint32_t)(uint16_t)(int8_t)byte << 16;
        break;
    case FORMAT_HIGH_16:
        *d = (*d & 0xffff) | (uint32_t)half << 16;
        break;
    }
}

INLINE void store_lane(const uint32_t *d, unsigned stride, uint8_t *p, enum format format,
                       unsigned words)
{
    if (format == FORMAT_WORDS) {
        uint32_t value[4];
        for (unsigned k = 0; k < words; k++)
            value[k] = d[k * stride];
        copy_out(p, value, 4 * words);
    } else {
        const uint32_t value = format >= FORMAT_HIGH_U8 ? *d >> 16 : *d;
        copy_out(p, &value, format_bytes(format, 1));
    }
}

/* Where every lane of a wave reads: its pointer, or its offset from a base. */
struct places {
    uint8_t *const *at;
    const uint8_t *base;
    const uint32_t *offset;
};

INLINE const uint8_t *place_of(struct places p, unsigned lane)
{
    return p.at ? p.at[lane] : p.base + p.offset[lane];
}

#ifndef __SANITIZE_THREAD__
/* Two or four words of every lane, four lanes at a time: their columns are rows of registers. */
INLINE void load_columns(uint32_t *d, unsigned lanes, struct places p, unsigned words)
{
    for (unsigned l = 0; l < lanes; l += 4) {
        __m128i x[4];
        for (unsigned n = 0; n < 4; n++)
            x[n] = words == 4 ? _mm_loadu_si128((const __m128i *)(const void *)place_of(p, l + n))
                              : _mm_loadl_epi64((const __m128i *)(const void *)place_of(p, l + n));
        const __m128i low01 = _mm_unpacklo_epi32(x[0], x[1]);
        const __m128i low23 = _mm_unpacklo_epi32(x[2], x[3]);
        _mm_storeu_si128((__m128i *)(void *)(d + l), _mm_unpacklo_epi64(low01, low23));
        _mm_storeu_si128((__m128i *)(void *)(d + lanes + l), _mm_unpackhi_epi64(low01, low23));
        if (words == 4) {
            const __m128i high01 = _mm_unpackhi_epi32(x[0], x[1]);
            const __m128i high23 = _mm_unpackhi_epi32(x[2], x[3]);
            _mm_storeu_si128((__m128i *)(void *)(d + 2 * lanes + l),
                             _mm_unpacklo_epi64(high01, high23));
            _mm_storeu_si128((__m128i *)(void *)(d + 3 * lanes + l),
                             _mm_unpackhi_epi64(high01, high23));
        }
    }
}
#endif

/* In a loop whose length the compiler knows. */
INLINE void load_32_lanes(uint32_t *d, unsigned stride, struct places p, unsigned first,
                          enum format format, unsigned words)
{
#pragma GCC unroll 8
    for (unsigned l = first; l < first + 32; l++)
        load_lane(d + l, stride, place_of(p, l), format, words);
}

INLINE void load_all_lanes(struct wave *w, const struct operand *o, struct places p,
                           enum format format, unsigned words)
{
    uint32_t *const d = vgpr(w, o, 0);

#ifndef __SANITIZE_THREAD__
    if (format == FORMAT_WORDS && (words == 2 || words == 4)) {
        load_columns(d, w->lanes, p, words);
        return;
    }
#endif
    for (unsigned h = 0; h < w->halves; h++)
        load_32_lanes(d, w->lanes, p, 32 * h, format, words);
}

INLINE void load_lanes(struct wave *w, const struct operand *o, const struct access *a,
                       enum format format, unsigned words)
{
    if (format >= FORMAT_LOW_U8 && !w->target->keeps_halves)
        EACH_BIT (l, a->active)
            vgpr(w, o, 0)[l] = 0;
    if (LIKELY(a->active == (w->lanes == 64 ? ~(uint64_t)0 : 0xffffffffu))) {
        load_all_lanes(w, o, (struct places){.at = a->at}, format, words);
        return;
    }
    EACH_BIT (l, a->active) {
        load_lane(vgpr(w, o, 0) + l, w->lanes, a->at[l], format, words);
    }
}

INLINE void store_lanes(struct wave *w, const struct operand *o, const struct access *a,
                        enum format format, unsigned words)
{
    const uint32_t *const d = vgpr(w, o, 0);
    const unsigned lanes = w->lanes;

    EACH_BIT (l, a->active) {
        store_lane(d + l, lanes, a->at[l], format, words);
    }
}

/* ---- Atomics --------------------------------------------------------------------------------- */

enum atomic_op {
    ATOMIC_ADD,
    ATOMIC_SUB,
    ATOMIC_RSUB,
    ATOMIC_SMIN,
    ATOMIC_UMIN,
    ATOMIC_SMAX,
    ATOMIC_UMAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_INC,
    ATOMIC_DEC,
    ATOMIC_SWAP,
    ATOMIC_CMPSWAP,
    ATOMIC_FCMPSWAP, /* compares as floats */
    ATOMIC_MSKOR,    /* the bits of `compare` are replaced by data */
    ATOMIC_WRAP,     /* down by data, or up by `compare` before it would be negative */
    ATOMIC_CONDXCHG, /* of the two dwords those with their top bit set, without it */
    ATOMIC_CSUB,
    ATOMIC_COND_SUB,
    ATOMIC_FADD,
    ATOMIC_FMIN,
    ATOMIC_FMAX,
    ATOMIC_PK_ADD_F16,
    ATOMIC_PK_ADD_BF16
};

/* Those of `bits` bits that are the same for 32 and 64, whatever else there is of one width. */
#define ATOMICS_OF_BOTH_WIDTHS(bits)                                                               \
    case ATOMIC_ADD:                                                                               \
        return old + x;                                                                            \
    case ATOMIC_SUB:                                                                               \
        return old - x;                                                                            \
    case ATOMIC_RSUB:                                                                              \
        return x - old;                                                                            \
    case ATOMIC_SMIN:                                                                              \
        return (uint##bits##_t)LEAST((int##bits##_t)old, (int##bits##_t)x);                        \
    case ATOMIC_UMIN:                                                                              \
        return LEAST(old, x);                                                                      \
    case ATOMIC_SMAX:                                                                              \
        return (uint##bits##_t)MOST((int##bits##_t)old, (int##bits##_t)x);                         \
    case ATOMIC_UMAX:                                                                              \
        return MOST(old, x);                                                                       \
    case ATOMIC_AND:                                                                               \
        return old & x;                                                                            \
    case ATOMIC_OR:                                                                                \
        return old | x;                                                                            \
    case ATOMIC_XOR:                                                                               \
        return old ^ x;                                                                            \
    case ATOMIC_INC:                                                                               \
        return old >= x ? 0 : old + 1;                                                             \
    case ATOMIC_DEC:                                                                               \
        return old == 0 || old > x ? x : old - 1;                                                  \
    case ATOMIC_SWAP:                                                                              \
        return x;                                                                                  \
    case ATOMIC_CMPSWAP:                                                                           \
        return old == compare ? x : old;                                                           \
    case ATOMIC_FCMPSWAP:                                                                          \
        return f##bits##_of(old) == f##bits##_of(compare) ? x : old;                               \
    case ATOMIC_MSKOR:                                                                             \
        return (old & ~compare) | x;                                                               \
    case ATOMIC_FADD:                                                                              \
        return bits_of_f##bits(f##bits##_of(old) + f##bits##_of(x));                               \
    case ATOMIC_FMIN:                                                                              \
        return bits_of_f##bits(min_f##bits(f##bits##_of(old), f##bits##_of(x)));                   \
    case ATOMIC_FMAX:                                                                              \
        return bits_of_f##bits(max_f##bits(f##bits##_of(old), f##bits##_of(x)))

/* What memory holds after the operation. */
INLINE uint32_t atomic32(enum atomic_op op, uint32_t old, uint32_t x, uint32_t compare)
{
    switch (op) {
        ATOMICS_OF_BOTH_WIDTHS(32);
    case ATOMIC_WRAP:
        return old >= x ? old - x : old + compare;
    case ATOMIC_CONDXCHG:
        return x >> 31 ? x & 0x7fffffffu : old;
    case ATOMIC_CSUB:
        return old < x ? 0 : old - x;
    case ATOMIC_COND_SUB:
        return old < x ? old : old - x;
    case ATOMIC_PK_ADD_F16:
        return pack_f16(LOW_F16(old) + LOW_F16(x), HIGH_F16(old) + HIGH_F16(x));
    case ATOMIC_PK_ADD_BF16:
        return f32_to_bf16(f32_of(old << 16) + f32_of(x << 16)) |
               f32_to_bf16(f32_of(old & 0xffff0000u) + f32_of(x & 0xffff0000u)) << 16;
    }
    return old;
}

INLINE uint64_t atomic64(enum atomic_op op, uint64_t old, uint64_t x, uint64_t compare)
{
    switch (op) {
        ATOMICS_OF_BOTH_WIDTHS(64);
    case ATOMIC_CONDXCHG:
        return atomic32(op, (uint32_t)old, (uint32_t)x, 0) |
               (uint64_t)atomic32(op, (uint32_t)(old >> 32), (uint32_t)(x >> 32), 0) << 32;
    default:
        return old;
    }
}
#undef ATOMICS_OF_BOTH_WIDTHS

/* One lane's atomic on naturally aligned memory, which other workgroups may change meanwhile.
 * `data` and `compare` are rows at the lane, `result` too (or null). */
INLINE void atomic_lane(uint8_t *p, enum atomic_op op, unsigned words, const uint32_t *data,
                        const uint32_t *compare, uint32_t *result, unsigned stride)
{
    if (words == 1) {
        uint32_t *const at = (uint32_t *)(void *)p;
        uint32_t old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
        while (!__atomic_compare_exchange_n(at, &old, atomic32(op, old, data[0], compare[0]), 0,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            ;
        if (result)
            result[0] = old;
    } else {
        uint64_t *const at = (uint64_t *)(void *)p;
        const uint64_t x = data[0] | (uint64_t)data[stride] << 32;
        const uint64_t c = compare[0] | (uint64_t)compare[stride] << 32;
        uint64_t old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
        while (!__atomic_compare_exchange_n(at, &old, atomic64(op, old, x, c), 0, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST))
            ;
        if (result) {
            result[0] = (uint32_t)old;
            result[stride] = (uint32_t)(old >> 32);
        }
    }
}

#endif
