/* SPDX-License-Identifier: MIT */
/* Where the lanes of an instruction go that touches memory other than LDS: address arithmetic,
 * checks, and what is counted. */
#include "sim/exec/exec_memory.h"
#include "sim/launch.h"

/* ---- Global memory --------------------------------------------------------------------------- */

/* The mapping that holds [first, last + bytes), looked for where this instruction found it before.
 */
static struct mapping *mapping_of(struct wave *w, const struct insn *i, uint64_t first,
                                  uint64_t last, unsigned bytes, enum quern_sim_access rights)
{
    struct mapping **const hint = hint_of(w->group, i);
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

    EACH_BIT (l, a->active) {
        const uint64_t at = a->address[l];
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

/*
 * The same when every lane is active and none straddles lines. Of lanes that have the line of the
 * one before or of one 16 further down, as when each row of a matrix has a lane of every 16, the
 * table need not hear; nor of any, when only the first 16 are left and their addresses ascend.
 */
static unsigned count_lines_rows(const struct access *a, unsigned lanes)
{
    struct access rest;
    uint64_t known[64], descends = 0, unknown = 0;
    unsigned steps = 1;

    for (unsigned l = 1; l < 16; l++) {
        known[l] = a->address[l] >> 7 == a->address[l - 1] >> 7;
        descends |= a->address[l] - a->address[l - 1];
        steps += !known[l];
    }
    for (unsigned l = 16; l < lanes; l++) {
        known[l] = (a->address[l] >> 7 == a->address[l - 1] >> 7) |
                   (a->address[l] >> 7 == a->address[l - 16] >> 7);
        unknown |= !known[l];
    }
    if (!unknown && !(descends >> 63))
        return steps;
    rest.active = 1;
    rest.address[0] = a->address[0];
    for (unsigned l = 1; l < lanes; l++) {
        rest.active |= (known[l] ^ 1) << l;
        rest.address[l] = a->address[l];
    }
    return count_lines(&rest, 1);
}

/* For active lanes whose addresses do not descend and that do not straddle lines: count the steps.
 * `low` has the lower bits that any of the addresses has. */
static unsigned count_lines_full(const struct access *a, unsigned bytes, uint64_t low,
                                 unsigned lanes)
{
    uint64_t descends = 0, straddles = 0, steps = 0;

    for (unsigned l = 0; l < lanes && low & (bytes - 1); l++)
        straddles |= (a->address[l] ^ (a->address[l] + bytes - 1)) >> 7;
    if (straddles)
        return count_lines(a, bytes);
    for (unsigned l = 1; l < lanes; l++) {
        descends |= a->address[l] - a->address[l - 1];
        steps += a->address[l] >> 7 != a->address[l - 1] >> 7;
    }
    return descends >> 63 ? count_lines_rows(a, lanes) : (unsigned)steps + 1;
}

static bool all_lanes(const struct wave *w, uint64_t active)
{
    return active == (w->lanes == 64 ? ~(uint64_t)0 : 0xffffffffu);
}

/* Stops at the first lane whose address is in no mapping or is misaligned. */
static bool find_fault(struct wave *w, const struct insn *i, unsigned bytes, unsigned align,
                       enum quern_sim_access rights, const struct access *a)
{
    EACH_BIT (l, a->active) {
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

/*
 * Whether all lanes access the mapping that this instruction found before: the usual case, in loops
 * whose length the compiler knows. Fills `at`; `low` gets the bits that any of the addresses has.
 * Beyond either end one of the two differences, of addresses and limits below 2^63, is negative.
 */
static bool same_mapping(const struct wave *w, const struct insn *i, unsigned bytes,
                         enum quern_sim_access rights, struct access *a, uint64_t *low)
{
    struct mapping *const map = *hint_of(w->group, i);
    uint64_t any = 0, beyond = 0;

    if (!map || map->end - map->begin < bytes || (map->access & rights) != rights)
        return false;
    const uint64_t first = map->begin, last = map->end - bytes;
    const uintptr_t delta = (uintptr_t)map->host - first;
    for (unsigned h = 0; h < w->halves; h++) {
        const uint64_t *const address = a->address + 32 * h;
        uint8_t **const at = a->at + 32 * h;
        LANES
        {
            any |= address[l];
            beyond |= (address[l] - first) | (last - address[l]);
            at[l] = (uint8_t *)(address[l] + delta);
        }
    }
    a->map = map;
    *low = any;
    return !(beyond >> 63);
}

static bool check_global(struct wave *w, const struct insn *i, unsigned bytes, unsigned align,
                         enum quern_sim_access rights, struct access *a)
{
    const bool all = all_lanes(w, a->active);
    uint64_t first = ~(uint64_t)0, last = 0, low = 0;

    if (UNLIKELY(!all || !same_mapping(w, i, bytes, rights, a, &low) || low & (align - 1))) {
        a->map = NULL;
        if (!a->active)
            return true;
        low = 0;
        EACH_BIT (l, a->active) {
            const uint64_t at = a->address[l];
            first = LEAST(first, at);
            last = MOST(last, at);
            low |= at;
        }
        a->map = mapping_of(w, i, first, last, bytes, rights);
        if ((!a->map || low & (align - 1)) && find_fault(w, i, bytes, align, rights, a))
            return false;
        EACH_BIT (l, a->active) {
            const struct mapping *const own =
                a->map ? a->map : memory_find(w->group->memory, a->address[l]);
            a->at[l] = own->host + (a->address[l] - own->begin);
        }
    }
    w->group->lines128 += all ? count_lines_full(a, bytes, low, w->lanes) : count_lines(a, bytes);
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

    for (unsigned h = 0; h < w->halves; h++, address += 32) {
        if (i->op[1].kind != OPERAND_VGPR) {
            LANES address[l] = base;
            continue;
        }
        const uint32_t *const v = vgpr(w, &i->op[1], h), *const high = v + w->lanes;
        if (i->flags & INSN_ADDRESS_64)
            LANES address[l] = base + (v[l] | (uint64_t)high[l] << 32);
        else
            LANES address[l] = base + v[l];
    }
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

bool check_lds(struct wave *w, const struct insn *i, unsigned l, uint64_t offset, unsigned bytes,
               unsigned align)
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
    EACH_BIT (l, a->active) {
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
    EACH_BIT (l, a->active) {
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

    EACH_BIT (l, a->active) {
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
    EACH_BIT (l, a->active) {
        const uint32_t offset =
            (i->flags & INSN_OFFEN ? v[l] : 0) + (uint32_t)i->offset + soffset / w->lanes;
        a->address[l] = (uint64_t)APERTURE_PRIVATE << 32 | offset;
        if (!check_scratch(w, i, l, offset, bytes, align, &a->at[l]))
            return false;
    }
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
