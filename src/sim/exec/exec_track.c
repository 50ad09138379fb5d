/* SPDX-License-Identifier: MIT */
/* The full check of memory accesses. See track.h and shadow.h. */
#include "sim/launch.h"
#include "sim/exec/track.h"

#include <stdio.h>

/* ---- LDS ------------------------------------------------------------------------------------- */

static const char *const verbs[] = {"read", "written", "changed by an atomic"};

static bool lds_race(struct wave *w, const struct insn *i, unsigned lane, uint64_t at,
                     lds_stamp other, const char *did, enum track_kind kind)
{
    const unsigned who = other & STAMP_WAVE;
    char by[32] = "several waves";

    if (who != STAMP_MANY)
        snprintf(by, sizeof by, "wave %u", who);
    fault(w, i, (int)lane,
          "LDS race: byte 0x%llx was %s by %s since the last barrier and is %s here",
          (unsigned long long)at, did, by, verbs[kind]);
    return false;
}

/* What `known` tells of a dword becomes what is noted of its bytes. */
INLINE void settle(struct shadow_group *sg, uint64_t dword)
{
    const lds_stamp known = sg->known[dword / 4];

    for (uint64_t n = dword; known && n < dword + 4; n++)
        sg->readers[n] = known & ~KNOWN_WRITTEN;
    sg->known[dword / 4] = 0;
}

/* `data` are the bytes of a store, or null. */
static bool check_lds_bytes(struct wave *w, const struct insn *i, unsigned lane, uint64_t at,
                            unsigned bytes, enum track_kind kind, const uint8_t *data)
{
    struct shadow_group *const sg = w->group->shadow;
    const unsigned epoch = sg->epoch, me = w->number;
    const lds_stamp mine = (lds_stamp)(epoch << STAMP_EPOCH | me);

    for (uint64_t n = at & ~(uint64_t)3; n < at + bytes; n += 4)
        settle(sg, n);
    for (uint64_t n = at; n < at + bytes; n++) {
        const lds_stamp writer = sg->writers[n], reader = sg->readers[n];
        const bool written = writer >> STAMP_EPOCH == epoch && (writer & STAMP_WAVE) != me;
        const bool read = reader >> STAMP_EPOCH == epoch && (reader & STAMP_WAVE) != me;
        switch (kind) {
        case TRACK_LOAD:
            /* an atomic load looks like any other, so one that meets an atomic is let pass */
            if (written && !(writer & STAMP_ATOMIC))
                return lds_race(w, i, lane, n, writer, "written", kind);
            sg->readers[n] = (lds_stamp)(read ? mine | STAMP_MANY : mine);
            break;
        case TRACK_STORE:
            if ((written || read) && data && data[n - at] == w->group->lds[n])
                break; /* nothing changes */
            if (written)
                return lds_race(w, i, lane, n, writer, "written", kind);
            if (read)
                return lds_race(w, i, lane, n, reader, "read", kind);
            sg->writers[n] = mine;
            sg->lds_owner[n] = (uint8_t)me;
            break;
        case TRACK_ATOMIC:
            if (written && !(writer & STAMP_ATOMIC))
                return lds_race(w, i, lane, n, writer, "written", kind);
            sg->writers[n] = (lds_stamp)((written ? mine | STAMP_MANY : mine) | STAMP_ATOMIC);
            break;
        }
    }
    return true;
}

/* What track_lds does, for loads and stores of dwords whose four bytes have the same past, defined
 * if they are loaded, and no other wave's to store to, which is nearly all of them; false when that
 * must look at each byte. */
INLINE bool track_lds_words(struct wave *w, uint64_t at, unsigned bytes, bool store)
{
    struct shadow_group *const sg = w->group->shadow;
    const uint64_t each = 0x0001000100010001u; /* a stamp for each byte of a dword */
    const unsigned epoch = sg->epoch, me = w->number;
    const lds_stamp mine = (lds_stamp)(epoch << STAMP_EPOCH | me);

    if ((at | bytes) & 3)
        return false;
    for (uint64_t n = at; n < at + bytes; n += 4) {
        const lds_stamp known = sg->known[n / 4];
        uint64_t writers, readers = 0;
        uint32_t undefined;
        if (!store && known >> STAMP_EPOCH == epoch && !(known & KNOWN_WRITTEN)) {
            sg->known[n / 4] = known == mine ? mine : mine | STAMP_MANY;
            continue;
        }
        if (known >> STAMP_EPOCH == epoch)
            settle(sg, n);
        if (!sg->known[n / 4])
            memcpy(&readers, sg->readers + n, 8);
        memcpy(&writers, sg->writers + n, 8);
        const lds_stamp writer = (lds_stamp)writers, reader = (lds_stamp)readers;
        const bool written = writer >> STAMP_EPOCH == epoch && (writer & STAMP_WAVE) != me;
        const bool read = reader >> STAMP_EPOCH == epoch && (reader & STAMP_WAVE) != me;
        if (UNLIKELY(writers != writer * each || readers != reader * each))
            return false;
        if (store) {
            if (UNLIKELY(written || read))
                return false;
            writers = mine * each;
            memcpy(sg->writers + n, &writers, 8);
            memset(sg->lds_owner + n, (int)me, 4);
            sg->known[n / 4] = KNOWN_NOBODY;
            continue;
        }
        memcpy(&undefined, sg->lds + n, 4);
        if (UNLIKELY(undefined || (written && !(writer & STAMP_ATOMIC))))
            return false;
        sg->known[n / 4] = (lds_stamp)((read ? mine | STAMP_MANY : mine) |
                                       (writer >> STAMP_EPOCH == epoch ? KNOWN_WRITTEN : 0));
    }
    return true;
}

/* After a dword was read: what makes the next read of it cheap. */
static void note_known(struct shadow_group *sg, uint64_t at)
{
    uint32_t undefined;
    const lds_stamp *const r = sg->readers + at, *const w = sg->writers + at;
    bool same = true, written = false;

    memcpy(&undefined, sg->lds + at, 4);
    for (unsigned n = 0; n < 4; n++) {
        same &= r[n] == r[0] && w[n] == w[0];
        written |= w[n] >> STAMP_EPOCH == sg->epoch;
    }
    if (!undefined && same)
        sg->known[at / 4] = (lds_stamp)(r[0] | (written ? KNOWN_WRITTEN : 0));
}

static bool track_lds(struct wave *w, const struct insn *i, unsigned lane, uint64_t at,
                      unsigned bytes, enum track_kind kind, const struct lds_data *data)
{
    struct shadow_group *const sg = w->group->shadow;
    uint8_t stored[16];

    if (UNLIKELY(sg->lds_late) && kind != TRACK_STORE && !late_check_lds(w, i, lane, at, bytes))
        return false;
    if (kind != TRACK_ATOMIC && track_lds_words(w, at, bytes, kind == TRACK_STORE))
        return true;
    if (data)
        store_lane(vgpr(w, data->o, 0) + lane, w->lanes, stored, data->format, data->words);
    if (!check_lds_bytes(w, i, lane, at, bytes, kind, data ? stored : NULL))
        return false;
    if (kind != TRACK_LOAD)
        return true;
    for (uint64_t n = at; n < at + bytes; n++)
        if (UNLIKELY(sg->lds[n] && sg->lds_owner[n] != 0xff && sg->lds_owner[n] != w->number)) {
            fault(w, i, (int)lane,
                  "undefined bits 0x%x reach LDS that another wave reads: byte "
                  "0x%llx was written so by wave %u",
                  sg->lds[n], (unsigned long long)n, sg->lds_owner[n]);
            return false;
        }
    if (!((at | bytes) & 3))
        for (uint64_t n = at; n < at + bytes; n += 4)
            note_known(sg, n);
    return true;
}

bool track_known(struct wave *w, unsigned words, const struct access *a)
{
    const struct shadow_group *const sg = w->group->shadow;
    const lds_stamp mine = (lds_stamp)(sg->epoch << STAMP_EPOCH | w->number);
    const lds_stamp many = mine | STAMP_MANY;

    if (UNLIKELY(sg->lds_late))
        return false;
    EACH_BIT (l, a->active) {
        const uint64_t address = a->address[l];
        const lds_stamp *const known = sg->known + address / 4;
        unsigned other = address & 3; /* what is known of a dword says nothing of bytes of two */
        for (unsigned k = 0; k < words; k++)
            other |= (unsigned)((known[k] & ~KNOWN_WRITTEN) != mine) & (unsigned)(known[k] != many);
        if (UNLIKELY(other) && !track_lds_words(w, address, 4 * words, false))
            return false;
    }
    return true;
}

/* ---- Buffers --------------------------------------------------------------------------------- */

static void no_room(struct wave *w, const struct insn *i, unsigned lane, const struct mapping *map)
{
    w->group->no_room = true;
    fault(w, i, (int)lane,
          "out of memory for what the full check knows of buffer \"%s\"; it takes at most %zu MB",
          map->name, RACE_HEAP_BYTES >> 20);
}

/* A mask byte for each byte of a lane from bits that say which are undefined. */
static uint8_t *spread(uint8_t *masks, uint64_t undefined, unsigned bytes)
{
    for (unsigned n = 0; n < bytes; n++)
        masks[n] = undefined >> n & 1 ? 0xff : 0;
    return masks;
}

/* What the lane does to a buffer; which of the bytes are undefined goes to *undefined. */
static bool track_global(struct wave *w, const struct insn *i, unsigned lane,
                         const struct mapping *map, uint64_t address, unsigned bytes,
                         enum track_kind kind, uint64_t *undefined)
{
    struct race_found found;
    char by[40] = "other workgroups";

    switch (w->group->run->race_touch(w->group, map, address, bytes, kind, undefined, &found)) {
    case RACE_NONE:
        return true;
    case RACE_NO_ROOM:
        no_room(w, i, lane, map);
        return false;
    case RACE_FOUND:
        break;
    }
    if (found.name && found.name != PLANE_SEVERAL)
        snprintf(by, sizeof by, "workgroup number %u", found.name - 1);
    fault(w, i, (int)lane,
          "global race: offset %llu of buffer \"%s\" was %s by %s in this launch and "
          "is %s here",
          (unsigned long long)found.offset, map->name, found.did, by, verbs[kind]);
    return false;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static enum space space_of(enum space space, uint64_t address)
{
    if (space != SPACE_FLAT && space != SPACE_BUFFER)
        return space;
    return address >> 32 == APERTURE_SHARED    ? SPACE_LDS
           : address >> 32 == APERTURE_PRIVATE ? SPACE_SCRATCH
                                               : SPACE_GLOBAL;
}

/* What lanes point to that touch memory whose bytes are all defined. */
static uint8_t defined_bytes[16];

bool track(struct wave *w, const struct insn *i, enum space space, unsigned bytes,
           enum track_kind kind, const struct access *a, const struct lds_data *data,
           struct access *masks)
{
    struct group *const g = w->group;
    const struct mapping *map = NULL;
    uint64_t undefined;

    masks->active = a->active;
    if (space == SPACE_LDS && kind != TRACK_LOAD)
        late_note_lds(w, i, a, bytes);
    EACH_BIT (l, a->active) {
        switch (space_of(space, a->address[l])) {
        case SPACE_LDS:
            masks->at[l] = g->shadow->lds + (a->at[l] - g->lds);
            if (!track_lds(w, i, l, (uint64_t)(a->at[l] - g->lds), bytes, kind, data))
                return false;
            break;
        case SPACE_SCRATCH:
            masks->at[l] = g->shadow->scratch + (a->at[l] - g->scratch);
            break;
        default:
            masks->at[l] = defined_bytes;
            if (!map || a->address[l] < map->begin || a->address[l] >= map->end)
                map = memory_find(g->memory, a->address[l]);
            if (!map || !(map->access & QUERN_SIM_WRITE))
                break; /* out of a buffer's range, or read-only: nothing to know */
            if (!track_global(w, i, l, map, a->address[l], bytes, kind, &undefined))
                return false;
            if (undefined)
                masks->at[l] = spread(g->shadow->lane_masks[l], undefined, bytes);
            break;
        }
    }
    return true;
}

void track_loaded_defined(struct wave *w, const struct operand *o)
{
    struct shadow_wave *const s = w->shadow;

    for (unsigned k = 0; k < o->words; k++)
        if (s->flags[o->reg + k]) {
            uint32_t *const row = vgpr(&s->w, o, 0) + k * w->lanes;
            uint32_t any = 0;
            for (unsigned l = 0; l < w->lanes; l++)
                any |= row[l] &= ~w->mask[l];
            s->flags[o->reg + k] = any != 0;
        }
}

void track_loaded(struct wave *w, const struct insn *i, enum space space, const struct operand *o,
                  const struct access *a)
{
    static const enum origin_kind kinds[] = {
        [SPACE_GLOBAL] = ORIGIN_GLOBAL, [SPACE_SCRATCH] = ORIGIN_SCRATCH, [SPACE_LDS] = ORIGIN_LDS};
    struct shadow_wave *const s = w->shadow;
    const unsigned lanes = w->lanes;

    for (unsigned k = 0; k < o->words; k++) {
        const uint32_t *const row = vgpr(&s->w, o, 0) + k * lanes;
        uint32_t any = 0;
        int first = -1;
        for (unsigned l = 0; l < lanes; l++)
            any |= row[l];
        s->flags[o->reg + k] = any != 0;
        for (unsigned l = 0; l < lanes && any && first < 0; l++)
            if (row[l] && a->active >> l & 1)
                first = (int)l;
        if (first >= 0) {
            const enum space real = space_of(space, a->address[first]);
            /* of a flat address the upper half says in which memory it is, not where */
            const uint64_t at =
                real == SPACE_GLOBAL ? a->address[first] : (uint32_t)a->address[first];
            s->origins[o->reg + k] = (struct origin){
                .kind = kinds[real], .insn = (uint32_t)(i - w->group->insns), .where = at + 4 * k};
        }
    }
}

/* After a lane has written defined bits to a buffer. */
static bool define(struct wave *w, const struct insn *i, unsigned lane, const struct access *a,
                   unsigned bytes)
{
    const struct mapping *const map =
        a->map ? a->map : memory_find(w->group->memory, a->address[lane]);

    if (!map || !map->defined || w->group->run->race_define(w->group, map, a->address[lane], bytes))
        return true;
    no_room(w, i, lane, map);
    return false;
}

bool track_stored(struct wave *w, const struct insn *i, enum space space, const struct operand *o,
                  enum format format, unsigned words, const struct access *a,
                  const struct access *masks)
{
    static const uint8_t zeros[16];
    struct shadow_wave *const s = w->shadow;
    const uint32_t *const row = vgpr(&s->w, o, 0);
    bool any = false;

    for (unsigned k = 0; k < words; k++)
        any = any || s->flags[o->reg + k];
    EACH_BIT (l, a->active) {
        const enum space real = space_of(space, a->address[l]);
        if (any && real == SPACE_GLOBAL) {
            uint32_t bits[4] = {0};
            store_lane(row + l, w->lanes, (uint8_t *)bits, format, words);
            for (unsigned k = 0; k < words; k++)
                if (bits[k]) {
                    unsigned n = 0;
                    while (!s->flags[o->reg + n])
                        n++;
                    finding(w, i, (int)l, &s->origins[o->reg + n], bits[k], "a store to memory");
                    return false;
                }
        }
        if (real == SPACE_GLOBAL) {
            if (!define(w, i, l, a, format_bytes(format, words)))
                return false;
            continue;
        }
        if (any)
            store_lane(row + l, w->lanes, masks->at[l], format, words);
        else
            copy_out(masks->at[l], zeros, format_bytes(format, words));
    }
    return true;
}

bool track_atomic(struct wave *w, const struct insn *i, enum space space, unsigned words,
                  const struct operand *data, enum atomic_op op, const struct operand *result,
                  const struct access *a)
{
    struct shadow_wave *const s = w->shadow;
    const bool compares = op == ATOMIC_CMPSWAP || op == ATOMIC_FCMPSWAP;
    const unsigned data_words = compares && space != SPACE_LDS ? 2 * words : words;
    struct access masks;

    if (!track(w, i, space, 4 * words, TRACK_ATOMIC, a, NULL, &masks))
        return false;
    EACH_BIT (l, a->active) {
        for (unsigned k = 0; k < data_words; k++) {
            const uint32_t bits =
                s->flags[data->reg + k] ? (vgpr(&s->w, data, 0) + k * w->lanes)[l] : 0;
            if (bits) {
                finding(w, i, (int)l, &s->origins[data->reg + k], bits, "an atomic operation");
                return false;
            }
        }
    }
    if (result) {
        struct operand o = *result;
        o.words = (uint8_t)words;
        if (words == 1)
            load_lanes(&s->w, &o, &masks, FORMAT_WORDS, 1);
        else
            load_lanes(&s->w, &o, &masks, FORMAT_WORDS, 2);
        track_loaded(w, i, space, &o, a);
    }
    EACH_BIT (l, op == ATOMIC_SWAP ? a->active : 0) {
        if (space_of(space, a->address[l]) != SPACE_GLOBAL)
            memset(masks.at[l], 0, 4 * words);
        else if (!define(w, i, l, a, 4 * words))
            return false;
    }
    return true;
}

bool track_scalar_load(struct wave *w, const struct insn *i, struct mapping *map, uint64_t address,
                       unsigned bytes, bool sign)
{
    struct shadow_wave *const s = w->shadow;
    uint32_t *const to = s->w.s + i->op[0].reg;
    const unsigned words = (bytes + 3) / 4;
    uint64_t undefined = 0;
    uint32_t any = 0;

    if (map->access & QUERN_SIM_WRITE &&
        !track_global(w, i, 0, map, address, bytes, TRACK_LOAD, &undefined))
        return false;
    memset(to, 0, 4 * words);
    spread((uint8_t *)to, undefined, bytes);
    if (bytes < 4 && sign && to[0] >> (8 * bytes - 1))
        to[0] |= ~0u << 8 * bytes;
    for (unsigned k = 0; k < words; k++)
        any |= to[k];
    for (unsigned k = 0; k < words && any; k++)
        s->scalar_origins[i->op[0].reg + k] =
            (struct origin){.kind = ORIGIN_GLOBAL,
                            .insn = (uint32_t)(i - w->group->insns),
                            .where = address + 4 * k};
    if (any && i->flags & INSN_WRITES_EXEC) {
        finding(w, i, -1, &s->scalar_origins[i->op[0].reg], any, "EXEC");
        return false;
    }
    return true;
}
