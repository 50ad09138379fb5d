/* SPDX-License-Identifier: MIT */
/*
 * LDS instructions: rows in exec_lds.def, swaps here; where their lanes go, and how many passes it
 * takes. Lane exchanges through LDS hardware (bpermute and its like) touch no memory and are in
 * exec_cross.c.
 *
 * This file is long because where lanes go, what the banks make of it and what is then read and
 * written go by the same addresses.
 */
#include "sim/launch.h"
#include "sim/exec/track.h"

enum lds_use { LDS_READ, LDS_WRITE, LDS_ATOMIC };

/* ---- Banks ----------------------------------------------------------------------------------- */

/* Passes of one group of lanes that LDS serves together: the most distinct words in one bank. */
static unsigned conflict_passes(const uint32_t *address, uint64_t active, unsigned bytes,
                                unsigned banks)
{
    uint32_t seen[64][64];
    uint8_t count[64] = {0};
    unsigned most = 1;

    EACH_BIT (l, active) {
        const uint32_t at = address[l];
        for (uint32_t word = at >> 2; word <= (at + bytes - 1) >> 2; word++) {
            const uint32_t bank = word & (banks - 1);
            unsigned k = 0;
            while (k < count[bank] && seen[bank][k] != word)
                k++;
            if (k == count[bank] && k < 64) {
                seen[bank][k] = word;
                count[bank]++;
                most = MOST(most, k + 1);
            }
        }
    }
    return most;
}

/* Whether the lanes of a whole group, `words` each, use every bank: then each is used by one. */
INLINE bool use_all_banks(const uint32_t *address, const struct target_lds *s, unsigned n,
                          unsigned words)
{
    const uint64_t span = ((uint64_t)1 << words) - 1;
    const uint32_t all = s->banks - 1;
    uint64_t used = 0;
    uint32_t low = 0;

    if (LIKELY(s->in_order))
        for (unsigned l = n * s->lanes; l < (n + 1) * s->lanes; l++) {
            used |= span << (address[l] >> 2 & all);
            low |= address[l];
        }
    else
        EACH_BIT (l, s->groups[n]) {
            const uint32_t at = address[l];
            used |= span << (at >> 2 & all);
            low |= at;
        }
    return used == ~(uint64_t)0 >> (64 - s->banks) && !(low & 3);
}

/* Of the lanes in `mask`. Equal words are served once. */
static unsigned lds_passes(const uint32_t *address, uint64_t mask, const struct target_lds *s,
                           unsigned bytes)
{
    const unsigned words = bytes <= 4 ? 1 : bytes / 4;
    unsigned passes = 0;

    for (unsigned n = 0; n < 64 / s->lanes; n++) {
        const uint64_t active = mask & s->groups[n];
        if (!active)
            continue;
        passes += active == s->groups[n] && words != 3 && use_all_banks(address, s, n, words)
                      ? 1
                      : conflict_passes(address, active, bytes, s->banks);
    }
    return passes;
}

/* The same of 32 lanes, all active, which want `used` of 32 banks. */
INLINE unsigned lds_passes_of_32(const uint32_t *address, uint32_t used)
{
    return LIKELY(used == 0xffffffffu) ? 1 : conflict_passes(address, 0xffffffffu, 4, 32);
}

/* Of 32 lanes with two words each, in loops whose length the compiler knows. */
INLINE unsigned lds_passes_of_pairs(const uint32_t *address)
{
    unsigned passes = 0;

    for (unsigned n = 0; n < 32; n += 16) {
        uint32_t used = 0;
        for (unsigned l = n; l < n + 16; l++)
            used |= 3u << (address[l] >> 2 & 31);
        passes += LIKELY(used == 0xffffffffu) ? 1 : conflict_passes(address + n, 0xffff, 8, 32);
    }
    return passes;
}

/*
 * The same of a wave of 64 and of 64 banks. In tables with a copy of each entry for 32 banks, the
 * first half of a group has 32 banks that differ in their lower five bits, and the second half the
 * same, lane by lane: then only two lanes that are half a group apart can want two words of a bank.
 */
INLINE unsigned lds_passes_of_64(const uint32_t *address, unsigned words)
{
    const unsigned lanes = 64 / words, half = lanes / 2;
    const uint32_t span = (1u << words) - 1;
    unsigned passes = 0;

    for (unsigned n = 0; n < 64; n += lanes) {
        const uint32_t *const x = address + n, *const y = x + half;
        uint32_t used = 0, apart = 0, meet = 0;
        for (unsigned l = 0; l < half; l++) {
            const uint32_t differ = (x[l] ^ y[l]) >> 2;
            used |= span << (x[l] >> 2 & 31);
            apart |= differ & 31;
            meet |= (differ != 0) & ((differ & 63) == 0);
        }
        passes += used == 0xffffffffu && !apart
                      ? 1 + meet
                      : conflict_passes(address + n, ~(uint64_t)0 >> (64 - lanes), 4 * words, 64);
    }
    return passes;
}

/* All lanes of a wave, whose addresses are multiples of `bytes`. */
INLINE unsigned lds_passes_full(const struct wave *w, const uint32_t *address,
                                const struct target_lds *s, unsigned bytes)
{
    if (s->in_order && bytes == 8 && s->lanes == 16)
        return lds_passes_of_pairs(address) +
               (w->halves == 2 ? lds_passes_of_pairs(address + 32) : 0);
    if (s->in_order && bytes <= 8 && s->lanes * bytes == 256 && w->lanes == 64)
        return bytes == 4 ? lds_passes_of_64(address, 1) : lds_passes_of_64(address, 2);
    return lds_passes(address, exec_bits(w), s, bytes);
}

/* ---- Where lanes go -------------------------------------------------------------------------- */

INLINE const struct target_lds *lds_of(const struct wave *w, unsigned bytes, enum lds_use use)
{
    return &w->group->run->module->lds[use != LDS_READ][(bytes - 1) / 4];
}

/*
 * Finds out where the lanes of a wave go whose EXEC is full: their offsets in LDS. Checks range and
 * alignment, and counts. False when the wave was stopped by a finding.
 */
INLINE bool resolve_full(struct wave *w, const struct insn *i, unsigned bytes, uint32_t offset,
                         enum lds_use use, uint32_t *address)
{
    const struct target_lds *const s = lds_of(w, bytes, use);
    const unsigned align = alignment(bytes, use == LDS_ATOMIC);
    const uint32_t *const v = vgpr(w, &i->op[1], 0);
    const uint32_t last = w->group->lds_bytes - bytes; /* LDS has less than 2^31 bytes */
    const bool plain = bytes == 4 && s->in_order && s->lanes == 32;
    uint32_t any = 0; /* bits of any address; the top one also if any is beyond the end */
    unsigned passes = 0;

    w->group->lds_accesses++;
    for (unsigned h = 0; h < w->halves; h++) {
        const uint32_t *const from = v + 32 * h;
        uint32_t *const to = address + 32 * h, used = 0;
        LANES
        {
            const uint32_t at = from[l] + offset; /* wraps: compilers fold negative bases */
            to[l] = at;
            any |= at | ((last - at) & 0x80000000u);
            used |= 1u << (at >> 2 & 31);
        }
        passes += plain ? lds_passes_of_32(to, used) : 0;
    }
    if (UNLIKELY(any >> 31 || any & (align - 1)))
        for (unsigned l = 0; l < w->lanes; l++)
            if (!check_lds(w, i, l, address[l], bytes, align))
                return false;
    if (UNLIKELY(any & (bytes - 1)))
        passes = lds_passes(address, exec_bits(w), s, bytes);
    else if (!plain)
        passes = lds_passes_full(w, address, s, bytes);
    w->group->lds_passes += passes;
    return true;
}

/* The same for any EXEC. */
static bool resolve_lds(struct wave *w, const struct insn *i, unsigned bytes, uint32_t offset,
                        enum lds_use use, struct access *a)
{
    const unsigned align = alignment(bytes, use == LDS_ATOMIC);
    const uint32_t *const v = vgpr(w, &i->op[1], 0);
    ROW address[64];

    a->active = exec_bits(w);
    if (LIKELY(w->full)) {
        if (!resolve_full(w, i, bytes, offset, use, address))
            return false;
    } else {
        w->group->lds_accesses++;
        EACH_BIT (l, a->active) {
            address[l] = v[l] + offset;
            if (!check_lds(w, i, l, address[l], bytes, align))
                return false;
        }
        w->group->lds_passes += lds_passes(address, a->active, lds_of(w, bytes, use), bytes);
    }
    for (unsigned l = 0; l < w->lanes; l++) {
        a->address[l] = w->mask[l] ? address[l] : 0;
        a->at[l] = w->group->lds + a->address[l];
    }
    return true;
}

/* ---- Loads, stores, atomics ------------------------------------------------------------------ */

/* The full check of a load or a store of one operand. */
INLINE bool tracked(struct wave *w, const struct insn *i, const struct operand *o, bool write,
                    enum format format, unsigned words, const struct access *a)
{
    struct access masks;

    if (LIKELY(!w->shadow))
        return true;
    if (!write && format == FORMAT_WORDS && track_known(w, words, a)) {
        track_loaded_defined(w, o);
        return true;
    }
    const struct lds_data data = {o, format, words};
    if (!track(w, i, SPACE_LDS, format_bytes(format, words), write ? TRACK_STORE : TRACK_LOAD, a,
               write ? &data : NULL, &masks))
        return false;
    if (write)
        return track_stored(w, i, SPACE_LDS, o, format, words, a, &masks);
    load_lanes(&w->shadow->w, o, &masks, format, words);
    track_loaded(w, i, SPACE_LDS, o, a);
    return true;
}

INLINE const struct insn *load(struct wave *w, const struct insn *i, enum format format,
                               unsigned words)
{
    struct access a;
    ROW address[64];

    if (LIKELY(w->full && !w->shadow)) {
        if (!resolve_full(w, i, format_bytes(format, words), (uint32_t)i->offset, LDS_READ,
                          address))
            return NULL;
        const struct places places = {.base = w->group->lds, .offset = address};
        load_all_lanes(w, &i->op[0], places, format, words);
        return i + 1;
    }
    if (!resolve_lds(w, i, format_bytes(format, words), (uint32_t)i->offset, LDS_READ, &a) ||
        !tracked(w, i, &i->op[0], false, format, words, &a))
        return NULL;
    load_lanes(w, &i->op[0], &a, format, words);
    return i + 1;
}

INLINE const struct insn *store(struct wave *w, const struct insn *i, enum format format,
                                unsigned words)
{
    struct access a;

    if (!resolve_lds(w, i, format_bytes(format, words), (uint32_t)i->offset, LDS_WRITE, &a) ||
        !tracked(w, i, &i->op[0], true, format, words, &a))
        return NULL;
    store_lanes(w, &i->op[0], &a, format, words);
    return i + 1;
}

/* Two accesses; offsets count in `unit` bytes. */
INLINE const struct insn *pair(struct wave *w, const struct insn *i, unsigned words, uint32_t unit,
                               bool write)
{
    const uint32_t offsets[2] = {(uint32_t)i->offset * unit, i->extra[0] * unit};
    struct operand second = i->op[write ? 3 : 0];
    struct access a[2];

    for (unsigned n = 0; n < 2; n++)
        if (!resolve_lds(w, i, 4 * words, offsets[n], write ? LDS_WRITE : LDS_READ, &a[n]))
            return NULL;
    w->group->lds_accesses--; /* one instruction */
    struct operand first = i->op[0];
    first.words = (uint8_t)words;
    if (!write) {
        second.offset += (uint64_t)words * w->lanes * 4;
        second.reg = (uint16_t)(second.reg + words);
        second.words = (uint8_t)words;
    }
    if (!tracked(w, i, &first, write, FORMAT_WORDS, words, &a[0]) ||
        !tracked(w, i, &second, write, FORMAT_WORDS, words, &a[1]))
        return NULL;
    if (write) {
        store_lanes(w, &i->op[0], &a[0], FORMAT_WORDS, words);
        store_lanes(w, &second, &a[1], FORMAT_WORDS, words);
    } else {
        load_lanes(w, &i->op[0], &a[0], FORMAT_WORDS, words);
        load_lanes(w, &second, &a[1], FORMAT_WORDS, words);
    }
    return i + 1;
}

/* The data are operand `data`, the value to compare operand `compare`. */
INLINE const struct insn *atomic(struct wave *w, const struct insn *i, enum atomic_op op,
                                 unsigned words, unsigned data, unsigned compare)
{
    const uint32_t *const x = vgpr(w, &i->op[data], 0), *const c = vgpr(w, &i->op[compare], 0);
    uint32_t *const d = i->op[0].kind == OPERAND_VGPR ? vgpr(w, &i->op[0], 0) : NULL;
    struct access a;

    if (!resolve_lds(w, i, 4 * words, (uint32_t)i->offset, LDS_ATOMIC, &a))
        return NULL;
    if (UNLIKELY(w->shadow != NULL) &&
        !track_atomic(w, i, SPACE_LDS, words, &i->op[data], op, d ? &i->op[0] : NULL, &a))
        return NULL;
    EACH_BIT (l, a.active) {
        atomic_lane(a.at[l], op, words, x + l, c + l, d ? d + l : NULL, w->lanes);
    }
    return i + 1;
}

/* Two swaps; offsets count in `unit` bytes. */
INLINE const struct insn *exchange_pair(struct wave *w, const struct insn *i, unsigned words,
                                        uint32_t unit)
{
    const uint32_t offsets[2] = {(uint32_t)i->offset * unit, i->extra[0] * unit};
    uint32_t old[2][64 * 2];
    struct access a[2];

    for (unsigned n = 0; n < 2; n++) {
        struct operand result = i->op[0];
        result.reg = (uint16_t)(result.reg + n * words);
        result.offset += (uint64_t)n * words * w->lanes * 4;
        if (!resolve_lds(w, i, 4 * words, offsets[n], LDS_ATOMIC, &a[n]) ||
            (UNLIKELY(w->shadow != NULL) &&
             !track_atomic(w, i, SPACE_LDS, words, &i->op[2 + n], ATOMIC_SWAP, &result, &a[n])))
            return NULL;
    }
    w->group->lds_accesses--; /* one instruction */
    for (unsigned n = 0; n < 2; n++)
        EACH_BIT (l, a[n].active) {
            const uint32_t *const x = vgpr(w, &i->op[2 + n], 0) + l;
            atomic_lane(a[n].at[l], ATOMIC_SWAP, words, x, x, old[n] + l, w->lanes);
        }
    /* the result may be data */
    for (unsigned k = 0; k < 2 * words; k++)
        for (unsigned l = 0; l < w->lanes; l++)
            if (w->mask[l])
                vgpr(w, &i->op[0], 0)[k * w->lanes + l] = old[k / words][k % words * w->lanes + l];
    return i + 1;
}

/* ---- Transposing loads of gfx950 ------------------------------------------------------------- */

/* Each sixteen lanes read rows of sixteen elements, as many lanes for a row as it takes, and each
 * gets a column. `at` is where lanes read. */
INLINE void transpose(const struct wave *w, uint32_t *d, uint8_t *const *at, unsigned bits,
                      unsigned words)
{
    const unsigned each = 32 * words / bits, per_row = 16 / each;
    uint32_t rows[64][4] = {{0}};

    for (unsigned l = 0; l < w->lanes; l++)
        copy_in(rows[l], at[l], 4 * words);
    for (unsigned l = 0; l < w->lanes; l++) {
        uint32_t column[4] = {0};
        for (unsigned n = 0; n < each; n++) {
            const uint32_t *const from = rows[(l & ~15u) + n * per_row + l % 16 / each];
            const unsigned source = l % 16 % each * bits, to = n * bits;
            const uint64_t pair = from[source / 32] | (uint64_t)from[source / 32 + 1] << 32;
            const uint64_t x = (pair >> source % 32 & ((1u << bits) - 1)) << to % 32;
            column[to / 32] |= (uint32_t)x;
            column[to / 32 + 1] |= (uint32_t)(x >> 32);
        }
        for (unsigned k = 0; k < words; k++)
            d[k * w->lanes + l] = column[k];
    }
}

INLINE const struct insn *load_transposed(struct wave *w, const struct insn *i, unsigned bits,
                                          unsigned words)
{
    struct access a, masks;

    if (!exec_bits(w))
        return i + 1;
    if (!w->full)
        return fault(w, i, -1, "a transposing load needs every lane, but EXEC is 0x%llx",
                     (unsigned long long)exec_bits(w));
    if (!resolve_lds(w, i, 4 * words, (uint32_t)i->offset, LDS_READ, &a))
        return NULL;
    if (UNLIKELY(w->shadow != NULL)) {
        if (!track(w, i, SPACE_LDS, 4 * words, TRACK_LOAD, &a, NULL, &masks))
            return NULL;
        transpose(w, vgpr(&w->shadow->w, &i->op[0], 0), masks.at, bits, words);
        track_loaded(w, i, SPACE_LDS, &i->op[0], &a);
    }
    transpose(w, vgpr(w, &i->op[0], 0), a.at, bits, words);
    return i + 1;
}

#define LOAD(NAME, OLD, FORMAT, WORDS)  BODY_OF(NAME, load(w, i, FORMAT_##FORMAT, WORDS))
#define STORE(NAME, OLD, FORMAT, WORDS) BODY_OF(NAME, store(w, i, FORMAT_##FORMAT, WORDS))
#define PAIRS(LOAD2, OLD_LOAD, STORE2, OLD_STORE, WORDS, UNIT, ...)                                \
    BODY_OF(LOAD2, pair(w, i, WORDS, UNIT, false))                                                 \
    BODY_OF(STORE2, pair(w, i, WORDS, UNIT, true))
#define ATOMIC(NAME, TYPE, OP, WORDS) EXCHANGE(NAME, TYPE, OP, WORDS, 2, 2)
#define EXCHANGE(NAME, TYPE, OP, WORDS, DATA, VALUE)                                               \
    BODY_OF(NAME##_##TYPE, atomic(w, i, ATOMIC_##OP, WORDS, DATA, VALUE))
#define ATOMICS(NAME, T, OP) ATOMIC(NAME, T##32, OP, 1) ATOMIC(NAME, T##64, OP, 2)
#define EXCHANGES(NAME, T, OP, ...)                                                                \
    EXCHANGE(NAME, T##32, OP, 1, __VA_ARGS__) EXCHANGE(NAME, T##64, OP, 2, __VA_ARGS__)
#include "sim/exec/exec_lds.def"
#undef LOAD
#undef STORE
#undef PAIRS
#undef ATOMIC
#undef EXCHANGE
BODY_OF(ds_swap_b32, atomic(w, i, ATOMIC_SWAP, 1, 2, 2))
BODY_OF(ds_swap_b64, atomic(w, i, ATOMIC_SWAP, 2, 2, 2))
BODY_OF(ds_wrap_rtn_b32, atomic(w, i, ATOMIC_WRAP, 1, 2, 3))
BODY_OF(ds_condxchg32_rtn_b64, atomic(w, i, ATOMIC_CONDXCHG, 2, 2, 2))
BODY_OF(exchange_b32, exchange_pair(w, i, 1, 4))
BODY_OF(exchange_b64, exchange_pair(w, i, 2, 8))
BODY_OF(exchange_stride64_b32, exchange_pair(w, i, 1, 256))
BODY_OF(exchange_stride64_b64, exchange_pair(w, i, 2, 512))
BODY_OF(ds_read_b64_tr_b16, load_transposed(w, i, 16, 2))
BODY_OF(ds_read_b64_tr_b8, load_transposed(w, i, 8, 2))
BODY_OF(ds_read_b64_tr_b4, load_transposed(w, i, 4, 2))
BODY_OF(ds_read_b96_tr_b6, load_transposed(w, i, 6, 3))

#define ROW_(NAME, OPERANDS, BODY) {#NAME, QUERN_CLASS_LDS, UNDEF_ADDRESS, OPERANDS, x_##BODY},
#define LOAD(NAME, OLD, FORMAT, WORDS)                                                             \
    ROW_(NAME, "=v" #WORDS "0a1", NAME) ROW_(OLD, "=v" #WORDS "0a1", NAME)
#define STORE(NAME, OLD, FORMAT, WORDS)                                                            \
    ROW_(NAME, "a1v" #WORDS "0", NAME) ROW_(OLD, "a1v" #WORDS "0", NAME)
#define PAIRS(LOAD2, OLD_LOAD, STORE2, OLD_STORE, WORDS, UNIT, LOADS, FIRST, SECOND)               \
    ROW_(LOAD2, LOADS, LOAD2)                                                                      \
    ROW_(OLD_LOAD, LOADS, LOAD2)                                                                   \
    ROW_(STORE2, "a1" FIRST SECOND, STORE2)                                                        \
    ROW_(OLD_STORE, "a1" FIRST SECOND, STORE2)
#define ATOMIC_ROWS(NAME, TYPE, WORDS, OPERANDS)                                                   \
    ROW_(NAME##_##TYPE, OPERANDS, NAME##_##TYPE)                                                   \
    ROW_(NAME##_rtn_##TYPE, "=v" #WORDS "0" OPERANDS, NAME##_##TYPE)
#define ATOMIC(NAME, TYPE, OP, WORDS) ATOMIC_ROWS(NAME, TYPE, WORDS, "a1v" #WORDS "2")
#define EXCHANGE(NAME, TYPE, OP, WORDS, ...)                                                       \
    ATOMIC_ROWS(NAME, TYPE, WORDS, "a1v" #WORDS "2v" #WORDS "3")

/* clang-format off */
const struct sim_row rows_lds[] = {
#include "sim/exec/exec_lds.def"
    ROW_(ds_storexchg_rtn_b32, "=v10a1v12", ds_swap_b32)
    ROW_(ds_storexchg_rtn_b64, "=v20a1v22", ds_swap_b64)
    ROW_(ds_wrxchg_rtn_b32, "=v10a1v12", ds_swap_b32)
    ROW_(ds_wrxchg_rtn_b64, "=v20a1v22", ds_swap_b64)
    ROW_(ds_wrap_rtn_b32, "=v10a1v12v13", ds_wrap_rtn_b32)
    ROW_(ds_condxchg32_rtn_b64, "=v20a1v22", ds_condxchg32_rtn_b64)
    ROW_(ds_wrxchg2_rtn_b32, "=v20a1v12v13", exchange_b32)
    ROW_(ds_wrxchg2_rtn_b64, "=v40a1v22v23", exchange_b64)
    ROW_(ds_wrxchg2st64_rtn_b32, "=v20a1v12v13", exchange_stride64_b32)
    ROW_(ds_wrxchg2st64_rtn_b64, "=v40a1v22v23", exchange_stride64_b64)
    ROW_(ds_storexchg_2addr_rtn_b32, "=v20a1v12v13", exchange_b32)
    ROW_(ds_storexchg_2addr_rtn_b64, "=v40a1v22v23", exchange_b64)
    ROW_(ds_storexchg_2addr_stride64_rtn_b32, "=v20a1v12v13", exchange_stride64_b32)
    ROW_(ds_storexchg_2addr_stride64_rtn_b64, "=v40a1v22v23", exchange_stride64_b64)
    ROW_(ds_read_b64_tr_b16, "=v20a1", ds_read_b64_tr_b16)
    ROW_(ds_read_b64_tr_b8, "=v20a1", ds_read_b64_tr_b8)
    ROW_(ds_read_b64_tr_b4, "=v20a1", ds_read_b64_tr_b4)
    ROW_(ds_read_b96_tr_b6, "=v30a1", ds_read_b96_tr_b6)
    {0}};
/* clang-format on */
