/* SPDX-License-Identifier: MIT */
/* Encodings that the disassembler declines; respell.h says what for. */
#include "sim/decode/respell.h"

#include "base/error.h"
#include "base/os.h"
#include "sim/wave.h"

#include <stdio.h>
#include <string.h>

/* Instructions that are declined whatever their operands are, and others with as long a name that
 * stand for them. */
static const struct disguise {
    uint32_t opcode, shown; /* of VOP1 */
    const char *name, *shown_name;
} disguises[] = {{0x1c, 0x69, "v_mov_b16", "v_not_b16"}, {0x66, 0x55, "v_swap_b16", "v_sqrt_f16"}};
enum { VOP3_OF_VOP1 = 0x180 };
enum { COMPARES_TO_EXEC = 126, FLAT_SCRATCH = 102, XNACK_MASK = 104 };
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

static const struct disguise *disguise_of(uint32_t code)
{
    const enum encoding e = encoding_of(code);
    const uint32_t opcode = e == ENCODING_VOP1   ? code >> 9 & 0xff
                            : e == ENCODING_VOP3 ? (code >> 16 & 0x3ff) - VOP3_OF_VOP1
                                                 : ~0u;

    for (size_t n = 0; n < sizeof disguises / sizeof *disguises; n++)
        if (opcode == disguises[n].opcode)
            return &disguises[n];
    return NULL;
}

/* gfx9's v_cmpx writes EXEC and its destination; in the long encoding only EXEC is accepted. */
static bool is_compare_to(const struct target *target, uint32_t word)
{
    const uint32_t opcode = word >> 16 & 0x3ff;
    const bool classes = opcode == 0x11 || opcode == 0x13 || opcode == 0x15;

    return !target->keeps_halves && word >> 26 == 0x34 && (word & 0xff) != COMPARES_TO_EXEC &&
           (classes || (opcode >= 0x30 && opcode < 0x100 && opcode & 0x10));
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

/* Matrices of 16-bit floats: the modifier clamp changes nothing there, nor do op_sel and op_sel_hi
 * where no result is half of a register. */
static bool is_float_matrix(uint32_t word)
{
    return (word & 0xfffc0000u) == 0xcc400000u;
}

static void plain_matrix(const struct target *target, uint32_t code[2])
{
    code[0] &= ~0x8000u;
    if (target->capabilities & CAP_WMMA_128B) {
        code[0] = (code[0] & ~0x3800u) | 0x4000;
        code[1] |= 0x18000000;
    }
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
    const struct disguise *const d = disguise_of(code[0]);
    const enum encoding e = encoding_of(code[0]);

    if (is_compare_to(target, code[0])) {
        code[0] = (code[0] & ~0xffu) | COMPARES_TO_EXEC;
        return 8;
    }
    if (!has_halves(target) || e == OTHER)
        return 0;
    if (is_sparse_64(target, lanes, code[0])) {
        code[0] &= ~0x1800u;
    } else if (is_float_matrix(code[0])) {
        plain_matrix(target, code);
    } else if (e < ENCODING_VOP3) {
        const unsigned high = high_of(code);
        code[0] &= ~((high & HIGH_RESULT ? 1u << 24 : 0) | (high & HIGH_OTHERS ? 1u << 16 : 0));
        if (high & HIGH_FIRST)
            code[has_dpp(code[0])] &= ~0x80u;
        if (d)
            code[0] += (d->shown - d->opcode) << 9;
    } else {
        if (d)
            code[0] += (d->shown - d->opcode) << 16;
        /* newer compilers write the constant 0 in the place of a third source that there is not */
        if ((code[1] >> 18 & 0x1ff) == 0x80)
            code[1] &= ~(0x1ffu << 18);
    }
    return code[0] != before[0] || code[1] != before[1] ? length_of(before, e) : 0;
}

/* A rotation of ds_swizzle_b32 is shown without the bits of the lane's number that stay: its text
 * becomes that of the plain offset, which is shorter. */
static void say_swizzle(const uint32_t code[2], char *text)
{
    static const char rotate[] = " offset:swizzle(ROTATE,";
    const uint32_t offset = code[0] & 0xffff;
    char *const at = strncmp(text, "ds_swizzle_b32 ", 15) ? NULL : strstr(text, rotate);
    const char *const end = at ? strchr(at, ')') : NULL;

    if (!end || !(offset & 31))
        return;
    const size_t rest = strlen(end + 1);
    const int n = snprintf(at, sizeof rotate, " offset:%u", offset);
    memmove(at + n, end + 1, rest + 1);
}

struct unsaid unsaid_of(const struct target *target, const uint32_t code[2],
                        const uint32_t shown[2], char *text)
{
    const enum encoding e = encoding_of(code[0]);
    const struct disguise *const d = disguise_of(code[0]);
    struct unsaid u = {0};

    if (is_compare_to(target, code[0])) {
        const unsigned mask = code[0] & 0xff;
        u.mask = (uint8_t)(mask == FLAT_SCRATCH || mask == FLAT_SCRATCH + 1
                               ? mask - FLAT_SCRATCH + S_FLAT_SCRATCH
                           : mask == XNACK_MASK || mask == XNACK_MASK + 1
                               ? mask - XNACK_MASK + S_XNACK_MASK
                               : mask);
        u.has_mask = mask < 128;
    }
    say_swizzle(code, text);
    if (!has_halves(target))
        return u;
    if (d && !strncmp(text, d->shown_name, strlen(d->shown_name)))
        memcpy(text, d->name, strlen(d->name));
    if (e < ENCODING_VOP3)
        u.high = (uint8_t)(high_of(code) & ~high_of(shown));
    else if (e == ENCODING_VOP3)
        u.op_sel = code[0] >> 11 & 15;
    else if (e == ENCODING_VOP3P && !is_float_matrix(code[0]) && code[0] != shown[0])
        u.op_sel = code[0] >> 11 & 3;
    return u;
}

/* ---- All of a kernel's code ------------------------------------------------------------------ */

struct respelling {
    const struct target *target;
    unsigned lanes;
    const uint8_t *code;
    size_t bytes;
    respell_fn emit;
    void *user;
    quern_status status;
    uint64_t base;   /* where in the code the disassembler was started */
    uint8_t *shown;  /* the code with instructions respelled that it declined; null: as it is */
    bool again;      /* one was found … */
    uint64_t from;   /* … here: it is to be started there again */
    uint64_t beyond; /* then: the end of the instruction that was respelled last */
    bool lost;       /* and it went on inside of that, so that what it says is no code */
};

void respell_words(const uint8_t *code, size_t bytes, uint64_t offset, uint32_t words[2])
{
    words[1] = 0;
    memcpy(words, code + offset, bytes - offset < 8 ? 4 : 8);
}

/* Respells the declined instruction; false where that is of no use. */
static bool change(struct respelling *r, uint64_t offset)
{
    uint32_t words[2];

    respell_words(r->shown ? r->shown : r->code, r->bytes, offset, words);
    const unsigned bytes = respell(r->target, r->lanes, words);
    if (!bytes)
        return false;
    if (!r->shown) {
        r->shown = os.malloc(r->bytes);
        if (!r->shown) {
            r->status = QUERN_E_MEMORY;
            return true;
        }
        memcpy(r->shown, r->code, r->bytes);
    }
    memcpy(r->shown + offset, words, r->bytes - offset < 8 ? 4 : 8);
    r->beyond = offset + bytes;
    return true;
}

/* Whether what the disassembler says at `offset` is left for another run. In the run in which it
 * declines an instruction, what it declines further on is respelled as well. */
static bool put_off(struct respelling *r, uint64_t offset, unsigned size, const char *text)
{
    const bool declined = !*text || strstr(text, "/*Invalid");

    if (r->again) {
        r->lost = r->lost || (offset < r->beyond && offset + size > r->beyond);
        if (declined && offset >= r->beyond && !r->lost)
            change(r, offset);
        return true;
    }
    if (!declined || !change(r, offset))
        return false;
    r->from = offset;
    r->lost = false;
    return r->again = true;
}

static void look(void *user, uint64_t offset, unsigned size, const char *text)
{
    struct respelling *const r = user;
    uint32_t shown[2];

    offset += r->base;
    if (r->status != QUERN_OK)
        return;
    if (offset % 4 || offset >= r->bytes) {
        r->status = QUERN_E_INTERNAL;
        return;
    }
    while (*text == ' ' || *text == '\t')
        text++;
    if (put_off(r, offset, size, text))
        return;
    respell_words(r->shown ? r->shown : r->code, r->bytes, offset, shown);
    r->emit(r->user, offset, text, shown);
}

quern_status respell_all(const struct quern_disassembler *by, const struct target *target,
                         unsigned lanes, const uint8_t *code, size_t bytes, respell_fn emit,
                         void *user)
{
    struct respelling r = {
        .target = target, .lanes = lanes, .code = code, .bytes = bytes, .emit = emit, .user = user};
    quern_status status;

    do {
        r.base = r.from;
        r.again = false;
        status = by->function(by->user, target->name, (r.shown ? r.shown : code) + r.base,
                              bytes - (size_t)r.base, look, &r);
    } while (status == QUERN_OK && r.status == QUERN_OK && r.again);
    os.free(r.shown);
    return status == QUERN_OK ? r.status : status;
}
