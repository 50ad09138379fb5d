/* SPDX-License-Identifier: MIT */
/* Integers and bits: helpers of single instructions. Branch-free where lane loops use them. */
#ifndef QUERN_SIM_INTEGER_H
#define QUERN_SIM_INTEGER_H

#include "sim/number/number.h"

NUMBER int32_t i24(uint32_t x)
{
    return (int32_t)(x << 8) >> 8;
}

NUMBER uint32_t bfe_u32(uint32_t x, uint32_t offset, uint32_t width)
{
    return x >> (offset & 31) & ((1u << (width & 31)) - 1);
}

NUMBER uint32_t bfe_i32(uint32_t x, uint32_t offset, uint32_t width)
{
    const uint32_t n = width & 31, field = bfe_u32(x, offset, width);
    const uint32_t sign = n ? 1u << ((n - 1) & 31) : 0;
    return (field ^ sign) - sign;
}

/* Each bit by a truth table: bits of a, b and c make its index, that of a the highest. */
NUMBER uint32_t bitop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (unsigned n = 0; n < 8; n++)
        r |= (0u - (table >> n & 1)) & (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
    return r;
}

NUMBER uint32_t reverse_bits(uint32_t x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
    return x >> 16 | x << 16;
}

NUMBER uint32_t count_bits(uint32_t x)
{
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0fu;
    return x * 0x01010101u >> 24;
}

/* Bits below bit n; none for n <= 0, all for n >= 32. */
NUMBER uint32_t below(int n)
{
    return n <= 0 ? 0 : n >= 32 ? 0xffffffffu : (1u << n) - 1;
}

/* Leading bits equal to the sign, or -1 if all are. */
NUMBER uint32_t leading_sign_bits(int32_t x)
{
    const uint32_t differs = (uint32_t)(x ^ x >> 31);
    return differs ? (uint32_t)__builtin_clz(differs) : 0xffffffffu;
}

/* Selector bytes: 0-3 a byte of b, 4-7 of a, 8-11 the sign of a half of b, a; 12 zero, above 255.
 */
NUMBER uint32_t perm_byte(uint32_t a, uint32_t b, uint32_t s)
{
    const uint32_t byte = pick(s & 4, a, b) >> 8 * (s & 3) & 0xff;
    const uint32_t sign = (pick(s & 2, a, b) >> pick(s & 1, 31, 15) & 1) * 0xff;
    return pick(s < 8, byte, pick(s < 12, sign, pick(s == 12, 0, 0xff)));
}

NUMBER uint32_t perm_b32(uint32_t a, uint32_t b, uint32_t s)
{
    return perm_byte(a, b, s & 0xff) | perm_byte(a, b, s >> 8 & 0xff) << 8 |
           perm_byte(a, b, s >> 16 & 0xff) << 16 | perm_byte(a, b, s >> 24) << 24;
}

NUMBER uint32_t sad_u8(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (unsigned n = 0; n < 32; n += 8)
        sum += ABSDIFF(a >> n & 0xff, b >> n & 0xff);
    return sum;
}

/* Bytes of b that are 0 do not count. */
NUMBER uint32_t msad_u8(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (unsigned n = 0; n < 32; n += 8)
        sum += pick((b >> n & 0xff) != 0, ABSDIFF(a >> n & 0xff, b >> n & 0xff), 0);
    return sum;
}

/* Four sums of four bytes each, those of a from one byte further on each time, added to the 16-bit
 * parts of c; a sum beyond `most` is that. */
NUMBER uint64_t qsad_u8(uint64_t a, uint32_t b, uint64_t c, int masked, uint32_t most)
{
    uint64_t r = 0;
    for (unsigned n = 0; n < 4; n++) {
        const uint32_t bytes = (uint32_t)(a >> 8 * n);
        const uint32_t own = masked ? msad_u8(bytes, b) : sad_u8(bytes, b);
        const uint32_t sum = ((uint32_t)(c >> 16 * n) & 0xffff) + own;
        r |= (uint64_t)(LEAST(sum, most) & 0xffff) << 16 * n;
    }
    return r;
}

/* Averages of bytes; the lowest bit of each byte of c says which way to round. */
NUMBER uint32_t lerp_u8(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (unsigned n = 0; n < 32; n += 8)
        r |= (((a >> n & 0xff) + (b >> n & 0xff) + (c >> n & 1)) >> 1) << n;
    return r;
}

#endif
