/* SPDX-License-Identifier: MIT */
/* Encodings of gfx11 and gfx12; respell.h says what for. */
#include "sim/decode/respell.h"

#include <string.h>

/* v_mov_b16, which is declined whatever its operands are, is shown as v_not_b16. */
enum { VOP1_MOV_B16 = 0x1c, VOP1_NOT_B16 = 0x69, VOP3_OF_VOP1 = 0x180 };
enum { HIGH_RESULT = 1, HIGH_FIRST = 2, HIGH_OTHERS = 4 };

enum encoding { ENCODING_VOP1, ENCODING_VOP2, ENCODING_VOPC, ENCODING_VOP3, ENCODING_VOP3P, OTHER };

static enum encoding encoding_of(uint32_t word)
{
    const uint32_t top = word >> 25;

    if (top < 0x40)
        return top == 0x3f ? ENCODING_VOP1 : top == 0x3e ? ENCODING_VOPC : ENCODING_VOP2;
    return word >> 26 == 0x35 ? ENCODING_VOP3 : word >> 26 == 0x33 ? ENCODING_VOP3P : OTHER;
}

/* The first source stands in a word of its own, of DPP. */
static bool has_dpp(uint32_t word) /* of a short encoding, or the second of a long one */
{
    return (word & 0x1ff) == 0xfa || (word & 0x1ff) == 0xe9 || (word & 0x1ff) == 0xea;
}

/* The bits of a short encoding that say "upper half". */
static unsigned high_of(const uint32_t code[2])
{
    const enum encoding e = encoding_of(code[0]);
    const bool first = has_dpp(code[0]) ? code[1] >> 7 & 1 : (code[0] & 0x180) == 0x180;

    return (e != ENCODING_VOPC && code[0] >> 24 & 1 ? HIGH_RESULT : 0) | (first ? HIGH_FIRST : 0) |
           (e != ENCODING_VOP1 && code[0] >> 16 & 1 ? HIGH_OTHERS : 0);
}

static bool is_mov_b16(uint32_t code)
{
    return encoding_of(code) == ENCODING_VOP1 ? (code >> 9 & 0xff) == VOP1_MOV_B16
           : encoding_of(code) == ENCODING_VOP3
               ? (code >> 16 & 0x3ff) == VOP3_OF_VOP1 + VOP1_MOV_B16
               : false;
}

static bool has_halves(const struct target *target)
{
    return target->keeps_halves && target->wave_size == 32;
}

/* Sparse matrices: the disassembler takes all code for processors with WMMA of 128 bits for that of
 * waves of 32, where there are fewer choices of indices (op_sel, bits 11 and 12). */
static bool is_sparse_64(const struct target *target, unsigned lanes, uint32_t word)
{
    return lanes == 64 && target->capabilities & CAP_WMMA_128B &&
           (word & 0xff700000u) == 0xcc500000u && (word >> 16 & 15) <= 10;
}

/* With the literal constant or the word of DPP that follows. */
static unsigned length_of(const uint32_t code[2], enum encoding e)
{
    const unsigned first = e < ENCODING_VOP3 ? code[0] & 0x1ff : code[1] & 0x1ff;
    bool more = first == 0xff || has_dpp(first);

    if (e == ENCODING_VOP2) /* fmamk and fmaak, of f32 and f16 */
        more =
            more || (code[0] >> 25 & ~1u) == 0x2c || code[0] >> 25 == 0x37 || code[0] >> 25 == 0x38;
    else if (e >= ENCODING_VOP3)
        more = more || (code[1] >> 9 & 0x1ff) == 0xff || (code[1] >> 18 & 0x1ff) == 0xff;
    return (e < ENCODING_VOP3 ? 4 : 8) + (more ? 4 : 0);
}

unsigned respell(const struct target *target, unsigned lanes, uint32_t code[2])
{
    const uint32_t before[2] = {code[0], code[1]};
    const enum encoding e = encoding_of(code[0]);

    if (!has_halves(target) || e == OTHER)
        return 0;
    if (is_sparse_64(target, lanes, code[0])) {
        code[0] &= ~0x1800u;
    } else if (e < ENCODING_VOP3) {
        const unsigned high = high_of(code);
        code[0] &= ~((high & HIGH_RESULT ? 1u << 24 : 0) | (high & HIGH_OTHERS ? 1u << 16 : 0));
        if (high & HIGH_FIRST)
            code[has_dpp(code[0])] &= ~0x80u;
        if (is_mov_b16(code[0]))
            code[0] += (uint32_t)(VOP1_NOT_B16 - VOP1_MOV_B16) << 9;
    } else {
        if (is_mov_b16(code[0]))
            code[0] += (uint32_t)(VOP1_NOT_B16 - VOP1_MOV_B16) << 16;
        /* newer compilers write the constant 0 in the place of a third source that there is not */
        if ((code[1] >> 18 & 0x1ff) == 0x80)
            code[1] &= ~(0x1ffu << 18);
    }
    return code[0] != before[0] || code[1] != before[1] ? length_of(before, e) : 0;
}

struct unsaid unsaid_of(const struct target *target, const uint32_t code[2],
                        const uint32_t shown[2], char *text)
{
    const enum encoding e = encoding_of(code[0]);
    struct unsaid u = {0};

    if (!has_halves(target))
        return u;
    if (is_mov_b16(code[0]) && !strncmp(text, "v_not_b16", 9))
        memcpy(text, "v_mov_b16", 9);
    if (e < ENCODING_VOP3)
        u.high = (uint8_t)(high_of(code) & ~high_of(shown));
    else if (e == ENCODING_VOP3)
        u.op_sel = code[0] >> 11 & 15;
    else if (e == ENCODING_VOP3P && code[0] != shown[0])
        u.op_sel = code[0] >> 11 & 3;
    return u;
}
