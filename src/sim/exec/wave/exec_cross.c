/* SPDX-License-Identifier: MIT */
/* Instructions that move values from lane to lane (DPP apart, which is an operand form: see
 * fetch). */
#include "sim/exec/tables.h"

/* ---- Between lanes and scalar registers ------------------------------------------------------ */

INLINE uint32_t lane_of(const struct wave *w, const struct operand *o, unsigned lane)
{
    return o->kind == OPERAND_VGPR ? vgpr(w, o, 0)[lane] : scalar32(w, o);
}

BODY(v_readfirstlane_b32)
{
    const uint64_t exec = exec_bits(w);

    w->s[i->op[0].reg] = lane_of(w, &i->op[1], exec ? (unsigned)__builtin_ctzll(exec) : 0);
    return next(w, i);
}

BODY(v_readlane_b32)
{
    w->s[i->op[0].reg] = lane_of(w, &i->op[1], scalar32(w, &i->op[2]) & (w->lanes - 1));
    return next(w, i);
}

BODY(v_writelane_b32)
{
    vgpr(w, &i->op[0], 0)[scalar32(w, &i->op[2]) & (w->lanes - 1)] = scalar32(w, &i->op[1]);
    return i + 1;
}

/* ---- Permutations ---------------------------------------------------------------------------- */

/*
 * d[l] = x[from[l]] in the lanes of EXEC. A source lane outside EXEC gives 0, or leaves d alone if
 * `keep`, unless `inactive` lanes may be read.
 */
static void permute(struct wave *w, const struct insn *i, const uint8_t *from, bool inactive,
                    bool keep)
{
    const uint32_t *const x = vgpr(w, &i->op[1], 0);
    uint32_t *const d = vgpr(w, &i->op[0], 0);
    uint32_t r[64];

    for (unsigned l = 0; l < w->lanes; l++) {
        const bool valid = inactive || w->mask[from[l]];
        r[l] = valid ? x[from[l]] : keep ? d[l] : 0;
    }
    for (unsigned l = 0; l < w->lanes; l++)
        d[l] = (r[l] & w->mask[l]) | (d[l] & ~w->mask[l]);
}

/* Within rows of 16 lanes, or from the other row of a pair: a nibble of 64 bits for each lane. */
INLINE const struct insn *permlane(struct wave *w, const struct insn *i, unsigned other)
{
    const uint64_t select = scalar32(w, &i->op[2]) | (uint64_t)scalar32(w, &i->op[3]) << 32;
    uint8_t from[64];

    for (unsigned l = 0; l < w->lanes; l++)
        from[l] = (uint8_t)(((l & 48) ^ other) + (select >> 4 * (l & 15) & 15));
    permute(w, i, from, i->extra[1] & 1, !(i->extra[1] & 2));
    return i + 1;
}
BODY(v_permlane16_b32)
{
    return permlane(w, i, 0);
}
BODY(v_permlanex16_b32)
{
    return permlane(w, i, 16);
}

/* gfx12: the selector is a lane's own */
INLINE const struct insn *permlane_var(struct wave *w, const struct insn *i, unsigned other)
{
    const uint32_t *const select = vgpr(w, &i->op[2], 0);
    uint8_t from[64];

    for (unsigned l = 0; l < w->lanes; l++)
        from[l] = (uint8_t)(((l & 48) ^ other) + (select[l] & 15));
    permute(w, i, from, i->extra[1] & 1, !(i->extra[1] & 2));
    return i + 1;
}
BODY(v_permlane16_var_b32)
{
    return permlane_var(w, i, 0);
}
BODY(v_permlanex16_var_b32)
{
    return permlane_var(w, i, 16);
}

/* Swaps the halves of a wave of 64, and reads lanes whatever EXEC says. In a wave of 32 it leaves
 * the destination as it was, as tinygrad's tests (test/amd/hw) had it from a gfx1100. */
BODY(v_permlane64_b32)
{
    uint8_t from[64];

    if (w->lanes == 32)
        return i + 1;
    for (unsigned l = 0; l < 64; l++)
        from[l] = (uint8_t)(l ^ 32);
    permute(w, i, from, true, false);
    return i + 1;
}

/* Odd rows of d with even rows of s (16), or the upper half of d with the lower of s (32). */
INLINE const struct insn *permlane_swap(struct wave *w, const struct insn *i, unsigned width)
{
    uint32_t *const d = vgpr(w, &i->op[0], 0), *const s = vgpr(w, &i->op[1], 0);

    for (unsigned l = 0; l < w->lanes; l++)
        if (!(l & width) && w->mask[l] && w->mask[l + width]) {
            const uint32_t x = d[l + width];
            d[l + width] = s[l];
            s[l] = x;
        }
    return i + 1;
}
BODY(v_permlane16_swap_b32)
{
    return permlane_swap(w, i, 16);
}
BODY(v_permlane32_swap_b32)
{
    return permlane_swap(w, i, 32);
}

BODY(v_swap_b16)
{
    uint32_t *const d = vgpr(w, &i->op[0], 0), *const s = vgpr(w, &i->op[1], 0);
    const unsigned to = i->op[0].select == SELECT_WORD_1 ? 16 : 0;
    const unsigned from = i->op[1].select == SELECT_WORD_1 ? 16 : 0;

    for (unsigned l = 0; l < w->lanes; l++) {
        const uint32_t change = (d[l] >> to ^ s[l] >> from) & w->mask[l] & 0xffff;
        d[l] ^= change << to;
        s[l] ^= change << from;
    }
    return i + 1;
}

BODY(v_swap_b32)
{
    uint32_t *const d = vgpr(w, &i->op[0], 0), *const s = vgpr(w, &i->op[1], 0);

    for (unsigned l = 0; l < w->lanes; l++) {
        const uint32_t change = (d[l] ^ s[l]) & w->mask[l];
        d[l] ^= change;
        s[l] ^= change;
    }
    return i + 1;
}

/* ---- Through LDS hardware -------------------------------------------------------------------- */

INLINE unsigned pull_lane(const struct wave *w, unsigned l, uint32_t address)
{
    const unsigned n = address / 4;
    return w->target->permutes_halves ? (l & 32) | (n & 31) : n & (w->lanes - 1);
}

INLINE const struct insn *bpermute(struct wave *w, const struct insn *i, bool inactive)
{
    const uint32_t *const address = vgpr(w, &i->op[1], 0), *const x = vgpr(w, &i->op[2], 0);
    uint32_t *const d = vgpr(w, &i->op[0], 0);
    uint32_t r[64];

    for (unsigned l = 0; l < w->lanes; l++) {
        const unsigned from = pull_lane(w, l, address[l] + (uint32_t)i->offset);
        r[l] = x[from] & (inactive ? 0xffffffffu : w->mask[from]);
    }
    for (unsigned l = 0; l < w->lanes; l++)
        d[l] = (r[l] & w->mask[l]) | (d[l] & ~w->mask[l]);
    return i + 1;
}
BODY(ds_bpermute_b32)
{
    return bpermute(w, i, false);
}
BODY(ds_bpermute_fi_b32)
{
    return bpermute(w, i, true);
}

/* Pushes: the highest lane that writes a place wins, places that none writes get 0. */
BODY(ds_permute_b32)
{
    const uint32_t *const address = vgpr(w, &i->op[1], 0), *const x = vgpr(w, &i->op[2], 0);
    uint32_t *const d = vgpr(w, &i->op[0], 0);
    uint32_t r[64] = {0};

    for (unsigned l = 0; l < w->lanes; l++)
        if (w->mask[l])
            r[pull_lane(w, l, address[l] + (uint32_t)i->offset)] = x[l];
    for (unsigned l = 0; l < w->lanes; l++)
        d[l] = (r[l] & w->mask[l]) | (d[l] & ~w->mask[l]);
    return i + 1;
}

BODY(ds_swizzle_b32)
{
    const uint32_t mode = (uint32_t)i->offset & 0xffff;
    uint8_t from[64];

    for (unsigned l = 0; l < w->lanes; l++) {
        unsigned n;
        if (mode >= 0xe000) {
            /* the lanes of an FFT: the upper bits in reverse order, the masked ones as they are */
            const unsigned keep = mode & 31;
            n = reverse_bits(l & 31) >> 27 >> count_bits(keep) | (l & keep);
        } else if (mode >= 0xc000) {
            const unsigned keep = mode & 31, turn = mode >> 5 & 31;
            const unsigned to = mode >> 10 & 1 ? l + 32 - turn : l + turn;
            n = (l & keep) | (to & 31 & ~keep);
        } else if (mode & 0x8000)
            n = (l & 28) | (mode >> 2 * (l & 3) & 3);
        else
            n = (((l & 31) & (mode & 31)) | (mode >> 5 & 31)) ^ (mode >> 10 & 31);
        from[l] = (uint8_t)((l & 32) | (n & 31));
    }
    permute(w, i, from, false, false);
    return i + 1;
}

#define ROW_(NAME, CLASS, MOVED, OPERANDS)                                                         \
    {#NAME, QUERN_CLASS_##CLASS, UNDEF_MOVE_##MOVED, OPERANDS, x_##NAME},

/* clang-format off */
const struct sim_row rows_cross[] = {
    ROW_(v_readfirstlane_b32, VALU, 1, "=s0u1")
    ROW_(v_readlane_b32, VALU, 1, "=s0u1s2")
    ROW_(v_writelane_b32, VALU, 1, "=v10s1s2")
    ROW_(v_permlane16_b32, VALU, 1, "=v10v11s2s3")
    ROW_(v_permlanex16_b32, VALU, 1, "=v10v11s2s3")
    ROW_(v_permlane16_var_b32, VALU, 1, "=v10v11v12")
    ROW_(v_permlanex16_var_b32, VALU, 1, "=v10v11v12")
    ROW_(v_permlane64_b32, VALU, 1, "=v10v11")
    ROW_(v_permlane16_swap_b32, VALU, 12, "=v10=v11")
    ROW_(v_permlane32_swap_b32, VALU, 12, "=v10=v11")
    ROW_(v_swap_b32, VALU, 12, "=v10=v11")
    ROW_(v_swap_b16, VALU, 12, "=w0=w1")
    ROW_(ds_bpermute_b32, LDS, 2, "=v10v11v12")
    ROW_(ds_bpermute_fi_b32, LDS, 2, "=v10v11v12")
    ROW_(ds_permute_b32, LDS, 2, "=v10v11v12")
    ROW_(ds_swizzle_b32, LDS, 1, "=v10v11")
    {0}};
/* clang-format on */
