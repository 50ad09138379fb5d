/* SPDX-License-Identifier: MIT */
/*
 * Loads straight to LDS (gfx9). Lane l's value goes to the address that M0 and the instruction's
 * offset say, plus l times the bytes of a value; values shorter than a dword are extended to one.
 * Lanes out of a buffer's range put zeros there.
 */
#include "sim/launch.h"
#include "sim/exec/track.h"

#define POINTED 16 /* bytes of the longest value */

/* Where the lanes' values go; false when the wave was stopped by a finding. */
static bool resolve_slots(struct wave *w, const struct insn *i, unsigned bytes, struct access *to)
{
    const uint32_t first = w->s[S_M0] + (uint32_t)i->offset, size = w->group->lds_bytes;

    if (w->shadow && w->shadow->w.s[S_M0]) {
        finding(w, i, -1, &w->shadow->scalar_origins[S_M0], w->shadow->w.s[S_M0], "an address");
        return false;
    }
    to->map = NULL;
    EACH_BIT (l, to->active) {
        const uint64_t at = (uint64_t)first + (uint64_t)bytes * l;
        if (at + bytes > size || at % 4) {
            fault(w, i, (int)l,
                  "a load to LDS puts %u bytes at 0x%llx; they must be in the %u bytes of the "
                  "workgroup, at a multiple of 4",
                  bytes, (unsigned long long)at, size);
            return false;
        }
        to->address[l] = at;
        to->at[l] = w->group->lds + at;
    }
    return true;
}

INLINE const struct insn *load_to_lds(struct wave *w, const struct insn *i, enum space space,
                                      enum format format, unsigned words)
{
    static const uint8_t zeros[POINTED];
    const unsigned bytes = format_bytes(format, words);
    struct access from, to, masks, slots;

    if (!resolve(w, i, space, bytes, QUERN_SIM_READ, false, &from))
        return NULL;
    EACH_BIT (l, exec_bits(w) & ~from.active)
        from.at[l] = (uint8_t *)zeros;
    to.active = exec_bits(w);
    if (!resolve_slots(w, i, 4 * words, &to))
        return NULL;
    if (UNLIKELY(w->shadow != NULL) &&
        (!track(w, i, space, bytes, TRACK_LOAD, &from, NULL, &masks) ||
         !track(w, i, SPACE_LDS, 4 * words, TRACK_STORE, &to, NULL, &slots)))
        return NULL;
    EACH_BIT (l, to.active) {
        uint32_t value[4] = {0}, undefined[4] = {0};
        load_lane(value, 1, from.at[l], format, words);
        memcpy(to.at[l], value, 4 * words);
        if (UNLIKELY(w->shadow != NULL)) {
            if (from.active >> l & 1)
                load_lane(undefined, 1, masks.at[l], format, words);
            memcpy(slots.at[l], undefined, 4 * words);
        }
    }
    return i + 1;
}

#define BOTH(NAME, FORMAT, WORDS)                                                                  \
    BODY_OF(global_##NAME, load_to_lds(w, i, SPACE_GLOBAL, FORMAT_##FORMAT, WORDS))                \
    BODY_OF(buffer_##NAME, load_to_lds(w, i, SPACE_BUFFER, FORMAT_##FORMAT, WORDS))
/* OLD ones are as old as gfx90a, the others came with gfx950. */
#define ALL                                                                                        \
    OLD(ubyte, U8, 1)                                                                              \
    OLD(sbyte, I8, 1)                                                                              \
    OLD(ushort, U16, 1)                                                                            \
    OLD(sshort, I16, 1)                                                                            \
    OLD(dword, WORDS, 1)                                                                           \
    BOTH(dwordx3, WORDS, 3)                                                                        \
    BOTH(dwordx4, WORDS, 4)
#define OLD BOTH
ALL
#undef OLD
#undef BOTH

/* Of buffers, and of gfx90a, the text is that of a load to registers with the modifier lds: see
 * parse_one. */
#define ROW_(NAME, OPERANDS, BODY) {NAME, QUERN_CLASS_VMEM, UNDEF_ADDRESS, OPERANDS, x_##BODY},
#define BOTH(NAME, FORMAT, WORDS)                                                                  \
    ROW_("global_load_lds_" #NAME, "a1A2", global_##NAME)                                          \
    ROW_("buffer_load_" #NAME "_lds", "a1T2s3", buffer_##NAME)
#define OLD(NAME, FORMAT, WORDS)                                                                   \
    BOTH(NAME, FORMAT, WORDS)                                                                      \
    ROW_("global_load_" #NAME "_lds", "a1A2", global_##NAME)

    const struct sim_row rows_direct[] = {ALL{0}};
