/* SPDX-License-Identifier: MIT */
/*
 * What instruction bodies ask of the launch they are part of: memory, code, hardware registers.
 * Like fault.c it is linked into every library of bodies, and into this one, so that a body calls
 * nothing outside its own library but the C library's functions.
 */
#include "sim/launch.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

/* ---- Memory ---------------------------------------------------------------------------------- */

size_t memory_after(const struct memory *memory, uint64_t address)
{
    size_t lo = 0, hi = memory->count;

    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (memory->maps[middle].end > address)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

struct mapping *memory_find(const struct memory *memory, uint64_t address)
{
    const size_t i = memory_after(memory, address);

    return i < memory->count && memory->maps[i].begin <= address ? memory->maps + i : NULL;
}

const struct former *memory_former(const struct memory *memory, uint64_t address)
{
    for (unsigned n = 1; n <= FORMER_COUNT && n <= memory->removed; n++) {
        const struct former *const f = &memory->former[(memory->removed - n) % FORMER_COUNT];
        if (address >= f->begin && address < f->end)
            return f;
    }
    return NULL;
}

struct mapping *memory_nearest(const struct memory *memory, uint64_t address)
{
    const size_t i = memory_after(memory, address);

    if (!memory->count)
        return NULL;
    if (i == memory->count)
        return memory->maps + i - 1;
    if (i == 0 || memory->maps[i].begin <= address)
        return memory->maps + i;
    const struct mapping *const below = memory->maps + i - 1;
    return address - below->end < memory->maps[i].begin - address ? memory->maps + i - 1
                                                                  : memory->maps + i;
}

/* ---- Code ------------------------------------------------------------------------------------ */

const struct insn *run_insn_at(const struct run *run, uint64_t address)
{
    const struct quern_sim_module *const m = run->module;
    const uint64_t offset = address - m->guest - m->code_at;

    if (offset >= m->code_bytes || offset % 4 || m->index_at[offset / 4] == INSN_NONE)
        return NULL;
    return m->insns + m->index_at[offset / 4];
}

/* ---- Hardware registers ---------------------------------------------------------------------- */

#define MXCSR_DAZ_FTZ 0x8040u

void set_host_mode(const struct wave *w)
{
#ifdef __SSE2__
    const unsigned csr = _mm_getcsr() & ~MXCSR_DAZ_FTZ;
    _mm_setcsr((w->mode >> 4 & 3) == 3 ? csr : csr | MXCSR_DAZ_FTZ);
#else
    (void)w;
#endif
}

bool mode_supported(uint32_t mode)
{
    /* rounding to nearest even; f32 denormals kept or flushed, those of f16 and f64 kept; what
     * overflows f16 or eight bits is not saturated (FP16_OVFL, bit 23) */
    const uint32_t f32 = mode >> 4 & 3;
    return (mode & 15) == 0 && !(mode >> 23 & 1) && (f32 == 0 || f32 == 3) && (mode >> 6 & 3) == 3;
}

bool run_read_register(const struct wave *w, unsigned id, uint32_t *value)
{
    if (id == REGISTER_MODE)
        *value = w->mode;
    else if (id == 23 || id == 24 || id == 4) /* which hardware the wave runs on */
        *value = 0;
    else if (id == 20) /* the die, which workgroups are dealt out to in turn */
        *value = (uint32_t)(w->group->flat_id % w->group->run->module->sim->target->dies);
    else if (id == 29) /* cycles */
        *value = (uint32_t)w->executed;
    else
        return false;
    return true;
}

bool run_write_register(struct wave *w, unsigned id, uint32_t value)
{
    if (id != REGISTER_MODE || !mode_supported(value))
        return false;
    w->mode = (uint8_t)value;
    set_host_mode(w);
    return true;
}
