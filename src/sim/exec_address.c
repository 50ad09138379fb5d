/* SPDX-License-Identifier: MIT */
/* Where the lanes of a memory instruction go: address arithmetic, checks, and what is counted. */
#include "sim/exec_memory.h"
#include "sim/launch.h"

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

/* ---- Global memory --------------------------------------------------------------------------- */

/* The mapping that holds [first, last + bytes), looked for where this instruction found it before.
 */
static struct mapping *mapping_of(struct wave *w, const struct insn *i, uint64_t first,
                                  uint64_t last, unsigned bytes, enum quern_sim_access rights)
{
    struct mapping **const hint = &w->hint[(size_t)(i - w->group->insns) & 15];
    struct mapping *map = *hint;

    if (UNLIKELY(!map || first < map->begin || last >= map->end)) {
        map = memory_find(w->group->memory, first);
        if (!map || last >= map->end)
            return NULL;
        *hint = map;
    }
    return map->end - last >= bytes && (map->access & rights) == rights ? map : NULL;
}

/* Distinct 128-byte lines that [address, address + bytes) of the active lanes touch: at most two
 * for each lane, entered in a hash table of twice that size. */
static unsigned count_lines(const struct access *a, unsigned bytes)
{
    uint64_t lines[256];
    uint8_t used[256] = {0};
    unsigned count = 0;

    for (uint64_t left = a->active; left; left &= left - 1) {
        const uint64_t at = a->address[__builtin_ctzll(left)];
        for (uint64_t line = at >> 7; line <= (at + bytes - 1) >> 7; line++) {
            uint8_t slot = (uint8_t)(line * 0x9e3779b97f4a7c15u >> 56);
            while (used[slot] && lines[slot] != line)
                slot++;
            count += !used[slot];
            used[slot] = 1;
            lines[slot] = line;
        }
    }
    return count;
}

/* The same when no lane straddles lines and every lane is active. Of lanes that have the line of
 * the one before or of one 16 further down, as when each row of a matrix has a lane of every 16,
 * the table need not hear. */
static unsigned count_lines_rows(const struct access *a, unsigned lanes)
{
    struct access rest;
    uint64_t known[64];

    for (unsigned l = 0; l < 16; l++)
        known[l] = l && a->address[l] >> 7 == a->address[l - 1] >> 7;
    for (unsigned l = 16; l < lanes; l++)
        known[l] = (a->address[l] >> 7 == a->address[l - 1] >> 7) |
                   (a->address[l] >> 7 == a->address[l - 16] >> 7);
    rest.active = 0;
    for (unsigned l = 0; l < lanes; l++) {
        rest.active |= (known[l] ^ 1) << l;
        rest.address[l] = a->address[l];
    }
    return count_lines(&rest, 1);
}

/* For active lanes whose addresses do not descend and that do not straddle lines: count the steps.
 */
static unsigned count_lines_full(const struct access *a, unsigned bytes, unsigned lanes)
{
    uint64_t descends = 0, straddles = 0, steps = 0;

    for (unsigned l = 0; l < lanes; l++)
        straddles |= (a->address[l] ^ (a->address[l] + bytes - 1)) >> 7;
    for (unsigned l = 1; l < lanes; l++) {
        descends |= a->address[l] < a->address[l - 1];
        steps += a->address[l] >> 7 != a->address[l - 1] >> 7;
    }
    if (straddles)
        return count_lines(a, bytes);
    return descends ? count_lines_rows(a, lanes) : (unsigned)steps + 1;
}

static bool all_lanes(const struct wave *w, uint64_t active)
{
    return active == (w->lanes == 64 ? ~(uint64_t)0 : 0xffffffffu);
}

/* Stops at the first lane whose address is in no mapping or is misaligned. */
static bool find_fault(struct wave *w, const struct insn *i, unsigned bytes, unsigned align,
                       enum quern_sim_access rights, const struct access *a)
{
    for (uint64_t left = a->active; left; left &= left - 1) {
        const int l = __builtin_ctzll(left);
        const struct mapping *const map = memory_find(w->group->memory, a->address[l]);
        if (!map || map->end - a->address[l] < bytes || (map->access & rights) != rights) {
            fault_address(w, i, l, a->address[l], bytes, rights);
            return true;
        }
        if (a->address[l] & (align - 1)) {
            fault(w, i, l,
                  "misaligned access of %u bytes at 0x%llx, offset %llu of buffer \"%s\"; "
                  "it must be a multiple of %u",
                  bytes, (unsigned long long)a->address[l],
                  (unsigned long long)(a->address[l] - map->begin), map->name, align);
            return true;
        }
    }
    return false;
}

static bool check_global(struct wave *w, const struct insn *i, unsigned bytes, unsigned align,
                         enum quern_sim_access rights, struct access *a)
{
    const unsigned lanes = w->lanes;
    uint64_t first = ~(uint64_t)0, last = 0, low = 0;

    a->map = NULL;
    if (!a->active)
        return true;
    if (LIKELY(all_lanes(w, a->active))) {
        for (unsigned l = 0; l < lanes; l++) {
            first = LEAST(first, a->address[l]);
            last = MOST(last, a->address[l]);
            low |= a->address[l];
        }
    } else {
        for (uint64_t left = a->active; left; left &= left - 1) {
            const uint64_t at = a->address[__builtin_ctzll(left)];
            first = LEAST(first, at);
            last = MOST(last, at);
            low |= at;
        }
    }
    const struct mapping *const map = mapping_of(w, i, first, last, bytes, rights);
    if (UNLIKELY(!map || low & (align - 1))) {
        if (find_fault(w, i, bytes, align, rights, a))
            return false;
        for (uint64_t left = a->active; left; left &= left - 1) {
            const unsigned l = (unsigned)__builtin_ctzll(left);
            const struct mapping *const own = memory_find(w->group->memory, a->address[l]);
            a->at[l] = own->host + (a->address[l] - own->begin);
        }
    } else {
        const uintptr_t delta = (uintptr_t)map->host - map->begin;
        a->map = map;
        if (LIKELY(all_lanes(w, a->active)))
            for (unsigned l = 0; l < lanes; l++)
                a->at[l] = (uint8_t *)(a->address[l] + delta);
        else
            for (uint64_t left = a->active; left; left &= left - 1) {
                const unsigned l = (unsigned)__builtin_ctzll(left);
                a->at[l] = (uint8_t *)(a->address[l] + delta);
            }
    }
    w->group->lines128 +=
        all_lanes(w, a->active) ? count_lines_full(a, bytes, lanes) : count_lines(a, bytes);
    if (UNLIKELY(w->group->touched))
        w->group->run->touched_add(w->group->touched, w->number, a->address, a->active, bytes);
    return true;
}

static void count_bytes(struct wave *w, unsigned bytes, enum quern_sim_access rights,
                        uint64_t active)
{
    const uint64_t sum = (uint64_t)bytes * (unsigned)__builtin_popcountll(active);

    if (rights & QUERN_SIM_READ)
        w->group->bytes_read += sum;
    if (rights & QUERN_SIM_WRITE)
        w->group->bytes_written += sum;
}

static void global_addresses(struct wave *w, const struct insn *i, uint64_t *address)
{
    const uint64_t base =
        (uint64_t)(int64_t)i->offset + (i->op[2].kind == OPERAND_SGPR ? scalar64(w, &i->op[2]) : 0);
    const unsigned lanes = w->lanes;

    if (i->op[1].kind != OPERAND_VGPR) {
        for (unsigned l = 0; l < lanes; l++)
            address[l] = base;
        return;
    }
    const uint32_t *const v = vgpr(w, &i->op[1], 0);
    if (i->flags & INSN_ADDRESS_64)
        for (unsigned l = 0; l < lanes; l++)
            address[l] = base + (v[l] | (uint64_t)v[l + lanes] << 32);
    else
        for (unsigned l = 0; l < lanes; l++)
            address[l] = base + v[l];
}

/* ---- Scratch and flat ------------------------------------------------------------------------ */

static uint8_t *scratch_lane(const struct wave *w, unsigned l)
{
    return w->group->scratch + ((size_t)w->number * w->lanes + l) * w->group->scratch_bytes;
}

static bool check_scratch(struct wave *w, const struct insn *i, unsigned l, uint64_t offset,
                          unsigned bytes, unsigned align, uint8_t **at)
{
    if (offset > w->group->scratch_bytes || w->group->scratch_bytes - offset < bytes) {
        fault(w, i, (int)l,
              "scratch access of %u bytes at offset %lld is outside the %u bytes of a "
              "work-item",
              bytes, (long long)offset, w->group->scratch_bytes);
        return false;
    }
    if (offset & (align - 1)) {
        fault(w, i, (int)l,
              "misaligned scratch access of %u bytes at offset %lld; it must be a "
              "multiple of %u",
              bytes, (long long)offset, align);
        return false;
    }
    *at = scratch_lane(w, l) + offset;
    return true;
}

static bool check_lds(struct wave *w, const struct insn *i, unsigned l, uint64_t offset,
                      unsigned bytes, unsigned align)
{
    const uint32_t size = w->group->lds_bytes;

    if (offset > size || size - offset < bytes) {
        fault(w, i, (int)l,
              "LDS access of %u bytes at 0x%llx is outside the %u bytes of the "
              "workgroup",
              bytes, (unsigned long long)offset, size);
        return false;
    }
    if (offset & (align - 1)) {
        fault(w, i, (int)l,
              "misaligned LDS access of %u bytes at 0x%llx; it must be a multiple of "
              "%u",
              bytes, (unsigned long long)offset, align);
        return false;
    }
    return true;
}

static bool resolve_scratch(struct wave *w, const struct insn *i, unsigned bytes, unsigned align,
                            struct access *a)
{
    uint64_t base = (uint64_t)(int64_t)i->offset;

    if (i->op[2].kind == OPERAND_SGPR)
        base += (uint64_t)(int32_t)w->s[i->op[2].reg];
    for (uint64_t left = a->active; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctzll(left);
        uint64_t offset = base;
        if (i->op[1].kind == OPERAND_VGPR)
            offset += vgpr(w, &i->op[1], 0)[l];
        a->address[l] = offset;
        if (!check_scratch(w, i, l, offset, bytes, align, &a->at[l]))
            return false;
    }
    return true;
}

/* Flat addresses may be in LDS or scratch, by their upper half. */
static bool resolve_flat(struct wave *w, const struct insn *i, unsigned bytes, unsigned align,
                         enum quern_sim_access rights, struct access *a)
{
    uint64_t global = 0;

    global_addresses(w, i, a->address);
    for (uint64_t left = a->active; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctzll(left);
        const uint32_t aperture = (uint32_t)(a->address[l] >> 32), offset = (uint32_t)a->address[l];
        if (aperture == APERTURE_SHARED) {
            if (!check_lds(w, i, l, offset, bytes, align))
                return false;
            a->at[l] = w->group->lds + offset;
        } else if (aperture == APERTURE_PRIVATE) {
            if (!check_scratch(w, i, l, offset, bytes, align, &a->at[l]))
                return false;
        } else {
            global |= (uint64_t)1 << l;
        }
    }
    const uint64_t active = a->active;
    a->active = global;
    const bool ok = check_global(w, i, bytes, align, rights, a);
    a->active = active;
    a->map = global == active ? a->map : NULL;
    return ok;
}

/* ---- Buffers --------------------------------------------------------------------------------- */

/* Lanes out of the descriptor's range take no part: they load 0 and store nothing. */
static void buffer_addresses(struct wave *w, const struct insn *i, unsigned bytes, struct access *a)
{
    const uint32_t *const rsrc = w->s + i->op[2].reg;
    const uint64_t base = (rsrc[0] | (uint64_t)rsrc[1] << 32) & 0xffffffffffffu;
    const uint32_t stride = rsrc[1] >> 16 & 0x3fff, records = rsrc[2];
    const uint32_t soffset = i->op[3].kind == OPERAND_NONE ? 0 : scalar32(w, &i->op[3]);
    const uint32_t *const v = i->op[1].kind == OPERAND_VGPR ? vgpr(w, &i->op[1], 0) : NULL;
    const bool both = i->flags & INSN_IDXEN && i->flags & INSN_OFFEN;

    for (uint64_t left = a->active; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctzll(left);
        const uint32_t index = i->flags & INSN_IDXEN ? v[l] : 0;
        const uint32_t voffset = both ? v[l + w->lanes] : i->flags & INSN_OFFEN ? v[l] : 0;
        const uint64_t offset = (uint64_t)voffset + (uint32_t)i->offset;
        const bool in = i->flags & INSN_IDXEN
                            ? index < records && (!stride || offset + bytes <= stride)
                            : offset + soffset + bytes <= records;
        a->address[l] = base + soffset + offset + (uint64_t)index * stride;
        if (!in)
            a->active &= ~((uint64_t)1 << l);
    }
}

/* gfx90a and before reach scratch through a descriptor that the hardware sets up. The scalar offset
 * counts bytes of the whole wave, the others those of a work-item. */
static bool resolve_private_buffer(struct wave *w, const struct insn *i, unsigned bytes,
                                   unsigned align, struct access *a)
{
    const uint32_t soffset = i->op[3].kind == OPERAND_NONE ? 0 : scalar32(w, &i->op[3]);
    const uint32_t *const v = i->op[1].kind == OPERAND_VGPR ? vgpr(w, &i->op[1], 0) : NULL;

    a->map = NULL;
    for (uint64_t left = a->active; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctzll(left);
        const uint32_t offset =
            (i->flags & INSN_OFFEN ? v[l] : 0) + (uint32_t)i->offset + soffset / w->lanes;
        a->address[l] = (uint64_t)APERTURE_PRIVATE << 32 | offset;
        if (!check_scratch(w, i, l, offset, bytes, align, &a->at[l]))
            return false;
    }
    return true;
}

/* ---- LDS ------------------------------------------------------------------------------------- */

/* Passes of one group of lanes that LDS serves together: the most distinct words in one bank. */
static unsigned conflict_passes(const uint64_t *address, uint64_t active, unsigned bytes,
                                unsigned banks)
{
    uint32_t seen[64][64];
    uint8_t count[64] = {0};
    unsigned most = 1;

    for (; active; active &= active - 1) {
        const uint32_t at = (uint32_t)address[__builtin_ctzll(active)];
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
INLINE bool use_all_banks(const uint64_t *address, const struct target_lds *s, unsigned n,
                          unsigned words)
{
    const uint64_t span = ((uint64_t)1 << words) - 1, all = s->banks - 1;
    uint64_t used = 0, low = 0;

    if (LIKELY(s->in_order))
        for (unsigned l = n * s->lanes; l < (n + 1) * s->lanes; l++) {
            used |= span << (address[l] >> 2 & all);
            low |= address[l];
        }
    else
        for (uint64_t left = s->groups[n]; left; left &= left - 1) {
            const uint64_t at = address[__builtin_ctzll(left)];
            used |= span << (at >> 2 & all);
            low |= at;
        }
    return used == ~(uint64_t)0 >> (64 - s->banks) && !(low & 3);
}

/* Equal words are served once. */
static unsigned lds_passes(const struct access *a, const struct target_lds *s, unsigned bytes)
{
    const unsigned words = bytes <= 4 ? 1 : bytes / 4;
    unsigned passes = 0;

    for (unsigned n = 0; n < 64 / s->lanes; n++) {
        const uint64_t active = a->active & s->groups[n];
        if (!active)
            continue;
        passes += active == s->groups[n] && words != 3 && use_all_banks(a->address, s, n, words)
                      ? 1
                      : conflict_passes(a->address, active, bytes, s->banks);
    }
    return passes;
}

/* The same of 32 lanes, all active, of which every 32 / words make a group: the usual case, in
 * loops whose length the compiler knows. */
INLINE unsigned lds_passes_in_order(const struct access *a, const uint32_t *address, unsigned first,
                                    unsigned words)
{
    const unsigned lanes = 32 / words;
    const uint32_t span = (1u << words) - 1;
    unsigned passes = 0;

    for (unsigned n = 0; n < 32; n += lanes) {
        uint32_t used = 0;
        for (unsigned l = 0; l < lanes; l++)
            used |= span << (address[n + l] >> 2 & 31);
        passes += LIKELY(used == 0xffffffffu)
                      ? 1
                      : conflict_passes(a->address, (((uint64_t)1 << lanes) - 1) << (first + n),
                                        4 * words, 32);
    }
    return passes;
}

/*
 * The same of a wave of 64 and of 64 banks. In tables with a copy of each entry for 32 banks, the
 * first half of a group has 32 banks that differ in their lower five bits, and the second half the
 * same, lane by lane: then only two lanes that are half a group apart can want two words of a bank.
 */
INLINE unsigned lds_passes_of_64(const struct access *a, unsigned words)
{
    const unsigned lanes = 64 / words, half = lanes / 2;
    const uint32_t span = (1u << words) - 1;
    unsigned passes = 0;

    for (unsigned n = 0; n < 64; n += lanes) {
        const uint64_t *const x = a->address + n, *const y = x + half;
        uint32_t used = 0, apart = 0, meet = 0;
        for (unsigned l = 0; l < half; l++)
            used |= span << (x[l] >> 2 & 31);
        for (unsigned l = 0; l < half; l++) {
            const uint32_t differ = (uint32_t)(x[l] ^ y[l]) >> 2;
            apart |= differ & 31;
            meet |= (differ != 0) & ((differ & 63) == 0);
        }
        passes += used == 0xffffffffu && !apart
                      ? 1 + meet
                      : conflict_passes(a->address, ~(uint64_t)0 >> (64 - lanes) << n, 4 * words,
                                        64);
    }
    return passes;
}

/* 32 lanes from `first` on; adds what their addresses are to *last and *low. Counts passes if there
 * are `words` words to count them for. */
INLINE unsigned lds_half(const struct wave *w, const uint32_t *v, uint32_t offset, unsigned first,
                         unsigned words, struct access *a, uint32_t *last, uint32_t *low)
{
    const uintptr_t lds = (uintptr_t)w->group->lds;
    ROW address[32];
    uint32_t most = *last, any = *low;

    LANES address[l] = v[l] + offset; /* wraps: compilers fold negative bases */
    LANES most = MOST(most, address[l]);
    LANES any |= address[l];
    LANES a->address[first + l] = address[l];
    LANES a->at[first + l] = (uint8_t *)(lds + address[l]);
    *last = most;
    *low = any;
    return words ? lds_passes_in_order(a, address, first, words) : 0;
}

/* All lanes of a wave whose EXEC is full. */
INLINE unsigned lds_lanes(const struct wave *w, const uint32_t *v, uint32_t offset, unsigned words,
                          struct access *a, uint32_t *last, uint32_t *low)
{
    unsigned passes = lds_half(w, v, offset, 0, words, a, last, low);

    if (w->halves == 2)
        passes += lds_half(w, v + 32, offset, 32, words, a, last, low);
    return passes;
}

bool resolve_lds(struct wave *w, const struct insn *i, unsigned bytes, uint32_t offset,
                 enum lds_use use, struct access *a)
{
    const struct target_lds *const s =
        &w->group->run->module->lds[use != LDS_READ][(bytes - 1) / 4];
    const unsigned lanes = w->lanes, align = alignment(bytes, use == LDS_ATOMIC);
    const uint64_t limit = w->group->lds_bytes;
    const uint32_t *const v = vgpr(w, &i->op[1], 0);
    uint32_t last = 0, low = 0;

    a->active = exec_bits(w);
    w->group->lds_accesses++;
    if (LIKELY(w->full)) {
        const bool plain = s->in_order && s->lanes * bytes == 128;
        unsigned passes = plain && bytes == 4   ? lds_lanes(w, v, offset, 1, a, &last, &low)
                          : plain && bytes == 8 ? lds_lanes(w, v, offset, 2, a, &last, &low)
                                                : lds_lanes(w, v, offset, 0, a, &last, &low);
        if (s->in_order && s->lanes * bytes == 256 && lanes == 64)
            passes = bytes == 4   ? lds_passes_of_64(a, 1)
                     : bytes == 8 ? lds_passes_of_64(a, 2)
                                  : 0;
        if (UNLIKELY(last + (uint64_t)bytes > limit || low & (align - 1)))
            for (unsigned l = 0; l < lanes; l++)
                if (!check_lds(w, i, l, a->address[l], bytes, align))
                    return false;
        if (LIKELY(passes && !(low & (bytes - 1)))) {
            w->group->lds_passes += passes;
            return true;
        }
    } else {
        for (uint64_t left = a->active; left; left &= left - 1) {
            const unsigned l = (unsigned)__builtin_ctzll(left);
            a->address[l] = (uint32_t)(v[l] + offset);
            a->at[l] = w->group->lds + a->address[l];
            if (!check_lds(w, i, l, a->address[l], bytes, align))
                return false;
        }
    }
    w->group->lds_passes += lds_passes(a, s, bytes);
    return true;
}

/* ---- All of them ----------------------------------------------------------------------------- */

bool resolve(struct wave *w, const struct insn *i, enum space space, unsigned bytes,
             enum quern_sim_access rights, bool atomic, struct access *a)
{
    const unsigned align = alignment(bytes, atomic);
    bool ok = true;

    a->active = exec_bits(w);
    switch (space) {
    case SPACE_GLOBAL:
        global_addresses(w, i, a->address);
        ok = check_global(w, i, bytes, align, rights, a);
        break;
    case SPACE_FLAT:
        ok = resolve_flat(w, i, bytes, align, rights, a);
        break;
    case SPACE_SCRATCH:
        a->map = NULL;
        return resolve_scratch(w, i, bytes, align, a);
    case SPACE_BUFFER:
        if ((w->s[i->op[2].reg + 1] & 0xffff) == APERTURE_PRIVATE)
            return resolve_private_buffer(w, i, bytes, bytes >= 4 ? 4 : 1, a);
        buffer_addresses(w, i, bytes, a);
        ok = check_global(w, i, bytes, align, rights, a);
        break;
    case SPACE_LDS:
        break;
    }
    if (ok)
        count_bytes(w, bytes, rights, a->active);
    return ok;
}
