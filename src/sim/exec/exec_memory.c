/* SPDX-License-Identifier: MIT */
/* Global, flat, scratch and buffer instructions: rows in exec_memory.def. */
#include "sim/exec/track.h"

INLINE const struct insn *load(struct wave *w, const struct insn *i, enum space space,
                               enum format format, unsigned words)
{
    struct access a;

    if (!resolve(w, i, space, format_bytes(format, words), QUERN_SIM_READ, false, &a))
        return NULL;
    if (space == SPACE_BUFFER) {
        /* lanes out of range read zeros */
        static const uint8_t zeros[16];
        EACH_BIT (l, exec_bits(w) & ~a.active)
            a.at[l] = (uint8_t *)zeros;
        a.active = exec_bits(w);
    }
    if (UNLIKELY(w->shadow != NULL) && format == FORMAT_WORDS && a.map &&
        !(a.map->access & QUERN_SIM_WRITE)) {
        track_loaded_defined(w, &i->op[0]);
    } else if (UNLIKELY(w->shadow != NULL)) {
        struct access masks;
        if (!track(w, i, space, format_bytes(format, words), TRACK_LOAD, &a, NULL, &masks))
            return NULL;
        load_lanes(&w->shadow->w, &i->op[0], &masks, format, words);
        track_loaded(w, i, space, &i->op[0], &a);
    }
    load_lanes(w, &i->op[0], &a, format, words);
    return i + 1;
}

INLINE const struct insn *store(struct wave *w, const struct insn *i, enum space space,
                                enum format format, unsigned words)
{
    struct access a;

    if (!resolve(w, i, space, format_bytes(format, words), QUERN_SIM_WRITE, false, &a))
        return NULL;
    if (UNLIKELY(w->shadow != NULL)) {
        struct access masks;
        if (!track(w, i, space, format_bytes(format, words), TRACK_STORE, &a, NULL, &masks) ||
            !track_stored(w, i, space, &i->op[0], format, words, &a, &masks))
            return NULL;
    }
    store_lanes(w, &i->op[0], &a, format, words);
    return i + 1;
}

/* Data in op[3] (flat, global) or op[0] (buffer); of a compare-and-swap the value to compare
 * behind. */
INLINE const struct insn *atomic(struct wave *w, const struct insn *i, enum space space,
                                 enum atomic_op op, unsigned words)
{
    const struct operand *const data = space == SPACE_BUFFER ? &i->op[0] : &i->op[3];
    const uint32_t *const x = vgpr(w, data, 0);
    const bool returns =
        space == SPACE_BUFFER ? i->flags & INSN_RETURNS : i->op[0].kind == OPERAND_VGPR;
    uint32_t *const d = returns ? vgpr(w, &i->op[0], 0) : NULL;
    struct access a;

    if (!resolve(w, i, space, 4 * words, QUERN_SIM_READ_WRITE, true, &a))
        return NULL;
    if (UNLIKELY(w->shadow != NULL) &&
        !track_atomic(w, i, space, words, data, op, returns ? &i->op[0] : NULL, &a))
        return NULL;
    EACH_BIT (l, a.active) {
        const uint32_t *const compare =
            op == ATOMIC_CMPSWAP || op == ATOMIC_FCMPSWAP ? x + words * w->lanes + l : x + l;
        atomic_lane(a.at[l], op, words, x + l, compare, d ? d + l : NULL, w->lanes);
    }
    return i + 1;
}

/* ---- Transposing loads of gfx12 -------------------------------------------------------------- */

/*
 * The lanes of the first half each read eight elements of one k, and get one row or column of a 16
 * by 16 matrix as WMMA wants it. Which lane reads what was measured on gfx1201 by others, for waves
 * of 32; a wave of 64 reads the same and has its own places for it (RDNA 4 manual, 7.12.2, 11.6).
 */
INLINE void transpose(const struct wave *w, uint32_t *d, uint8_t *const *at, unsigned element)
{
    const unsigned lanes = w->lanes, per_lane = 256 / lanes;

    for (unsigned l = 0; l < lanes; l++) {
        const unsigned group = l / 16;
        uint32_t words[4] = {0};
        for (unsigned e = 0; e < per_lane; e++) {
            unsigned k, from;
            if (element == 2) {
                k = lanes == 32 ? e / 4 * 8 + group * 4 + e % 4 : group * 4 + e;
                from = (k >> 2 & 1) << 4 | (l >> 3 & 1) << 3 | (k >> 3 & 1) << 2 | (k & 3);
            } else {
                k = lanes == 32 ? group * 8 + e : (group & 1) * 8 + (group >> 1) * 4 + e;
                from = (k >> 3 & 1) << 4 | (k >> 2 & 1) << 3 | (l >> 3 & 1) << 2 | (k & 3);
            }
            copy_in((uint8_t *)words + e * element, at[from] + l % 8 * element, element);
        }
        for (unsigned n = 0; n < per_lane * element / 4; n++)
            d[l + n * lanes] = words[n];
    }
}

INLINE const struct insn *load_transposed(struct wave *w, const struct insn *i, unsigned element)
{
    struct access a, masks;

    if (!exec_bits(w))
        return i + 1;
    if (!w->full)
        return fault(w, i, -1, "a transposing load needs every lane, but EXEC is 0x%llx",
                     (unsigned long long)exec_bits(w));
    /* addresses of the upper half of a wave of 64 are not looked at */
    const uint32_t upper = w->s[S_EXEC + 1];
    w->s[S_EXEC + 1] = 0;
    const bool found = resolve(w, i, SPACE_GLOBAL, 8 * element, QUERN_SIM_READ, false, &a);
    w->s[S_EXEC + 1] = upper;
    if (!found)
        return NULL;
    if (UNLIKELY(w->shadow != NULL)) {
        if (!track(w, i, SPACE_GLOBAL, 8 * element, TRACK_LOAD, &a, NULL, &masks))
            return NULL;
        transpose(w, vgpr(&w->shadow->w, &i->op[0], 0), masks.at, element);
        track_loaded(w, i, SPACE_GLOBAL, &i->op[0], &a);
    }
    transpose(w, vgpr(w, &i->op[0], 0), a.at, element);
    return i + 1;
}

BODY_OF(global_load_tr_b64, load_transposed(w, i, 1))
BODY_OF(global_load_tr_b128, load_transposed(w, i, 2))

/* ---- The table ------------------------------------------------------------------------------- */

#define IN_SPACE(KIND, SPACE, space_name, NAME, HOW, WORDS)                                        \
    BODY_OF(space_name##_##NAME, KIND(w, i, SPACE, HOW, WORDS))
#define IN_EVERY_SPACE(KIND, NAME, HOW, WORDS)                                                     \
    IN_SPACE(KIND, SPACE_GLOBAL, global, NAME, HOW, WORDS)                                         \
    IN_SPACE(KIND, SPACE_FLAT, flat, NAME, HOW, WORDS)                                             \
    IN_SPACE(KIND, SPACE_SCRATCH, scratch, NAME, HOW, WORDS)                                       \
    IN_SPACE(KIND, SPACE_BUFFER, buffer, NAME, HOW, WORDS)
#define LOAD(NAME, OLD, FORMAT, WORDS)  IN_EVERY_SPACE(load, NAME, FORMAT_##FORMAT, WORDS)
#define STORE(NAME, OLD, FORMAT, WORDS) IN_EVERY_SPACE(store, NAME, FORMAT_##FORMAT, WORDS)
#define CSUB(NAME, OP, WORDS)                                                                      \
    IN_SPACE(atomic, SPACE_GLOBAL, global, NAME, ATOMIC_##OP, WORDS)                               \
    IN_SPACE(atomic, SPACE_BUFFER, buffer, NAME, ATOMIC_##OP, WORDS)
#define ATOMIC(NAME, OLD, OP, WORDS)                                                               \
    CSUB(NAME, OP, WORDS) IN_SPACE(atomic, SPACE_FLAT, flat, NAME, ATOMIC_##OP, WORDS)
#define ATOMICS(NAME, OLD, OP)    ATOMIC(NAME##32, OLD, OP, 1) ATOMIC(NAME##64, OLD##_x2, OP, 2)
#define ATOMIC_1(NAME, OP, WORDS) ATOMIC(NAME, NAME, OP, WORDS)
#include "sim/exec/exec_memory.def"
#undef LOAD
#undef STORE
#undef ATOMIC
#undef ATOMIC_1
#undef CSUB

/* The same body under the name that gfx10 and later use and that of gfx9. */
#define ROW_(NAME, OPERANDS, BODY) {#NAME, QUERN_CLASS_VMEM, UNDEF_ADDRESS, OPERANDS, x_##BODY},
#define ROWS(SPACE, NAME, OLD, OPERANDS)                                                           \
    ROW_(SPACE##_##NAME, OPERANDS, SPACE##_##NAME) ROW_(SPACE##_##OLD, OPERANDS, SPACE##_##NAME)
#define LOAD(NAME, OLD, FORMAT, WORDS)                                                             \
    ROWS(global, NAME, OLD, "=v" #WORDS "0a1A2")                                                   \
    ROWS(flat, NAME, OLD, "=v" #WORDS "0a1|=v" #WORDS "0a1A2")                                     \
    ROWS(scratch, NAME, OLD, "=v" #WORDS "0a1A2")                                                  \
    ROWS(buffer, NAME, OLD, "=v" #WORDS "0a1T2s3")
#define STORE(NAME, OLD, FORMAT, WORDS)                                                            \
    ROWS(global, NAME, OLD, "a1v" #WORDS "0A2")                                                    \
    ROWS(flat, NAME, OLD, "a1v" #WORDS "0|a1v" #WORDS "0A2")                                       \
    ROWS(scratch, NAME, OLD, "a1v" #WORDS "0A2")                                                   \
    ROWS(buffer, NAME, OLD, "v" #WORDS "0a1T2s3")
#define ATOMIC(NAME, OLD, OP, WORDS)                                                               \
    ROWS(global, NAME, OLD, "a1D3A2|=v" #WORDS "0a1D3A2")                                          \
    ROWS(flat, NAME, OLD, "a1D3|=v" #WORDS "0a1D3|=v" #WORDS "0a1D3A2")                            \
    ROWS(buffer, NAME, OLD, "D0a1T2s3")
#define ROW_ATOMIC(SPACE, NAME, OPERANDS) ROW_(SPACE##_##NAME, OPERANDS, SPACE##_##NAME)
#define CSUB(NAME, OP, WORDS)                                                                      \
    ROW_ATOMIC(global, NAME, "a1D3A2|=v" #WORDS "0a1D3A2")                                         \
    ROW_ATOMIC(buffer, NAME, "D0a1T2s3")
#define ATOMIC_1(NAME, OP, WORDS)                                                                  \
    CSUB(NAME, OP, WORDS)                                                                          \
    ROW_ATOMIC(flat, NAME, "a1D3|=v" #WORDS "0a1D3|=v" #WORDS "0a1D3A2")

/* clang-format off */
const struct sim_row rows_memory[] = {
#include "sim/exec/exec_memory.def"
    ROW_(global_load_tr_b64, "=n0a1A2", global_load_tr_b64)
    ROW_(global_load_tr_b128, "=N0a1A2", global_load_tr_b128)
    {0}};
/* clang-format on */
