/* SPDX-License-Identifier: MIT */
/* Findings: one line that says where, who and what. */
#include "sim/launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What is further from a buffer was not meant for it, and what is this near to zero for none. */
#define NEAR       ((uint64_t)1 << 32)
#define NULL_BYTES 65536
/* For a host that passed a pointer to its own memory. */
#define SEES "; a software GPU sees memory of quern_buffer_create or quern_sim_map alone"
/* Names of kernels are cut here, so that a finding has room: Tensile's have 800 letters. */
#define NAME_LETTERS 100

/* "kernel k, pc 0x1c, `text`, workgroup 1,0,0, wave 2, lane 3: " */
static int place(char *to, size_t size, const struct wave *w, const struct insn *i, int lane)
{
    const struct group *const g = w->group;
    const struct quern_sim_module *const m = g->run->module;
    const struct insn_note *const note = &m->notes[i - m->insns];
    const struct kernel_note *const kernel = g->run->note;
    const char *name = g->run->kernel->name;
    uint32_t pc = note->offset - kernel->begin;
    int n;

    if (note->offset < kernel->begin || note->offset > kernel->end) {
        name = "(outside the kernel)";
        pc = note->offset;
    }
    n = snprintf(to, size, "%.*s%s: pc 0x%x `%s`, workgroup %u,%u,%u, wave %u", NAME_LETTERS, name,
                 strlen(name) > NAME_LETTERS ? "..." : "", pc,
                 note->text ? note->text : "end of code", g->id[0], g->id[1], g->id[2], w->number);
    if (lane >= 0 && n > 0 && (size_t)n < size)
        n += snprintf(to + n, size - (size_t)n, ", lane %d", lane);
    return n;
}

const struct insn *fault(struct wave *w, const struct insn *i, int lane, const char *format, ...)
{
    char *const message = w->group->message;
    int n = place(message, FAULT_BYTES - 64, w, i, lane);
    va_list ap;

    w->state = WAVE_FAULT;
    if (n < 0 || n > FAULT_BYTES - 65)
        n = (int)strlen(message);
    n += snprintf(message + n, FAULT_BYTES - (size_t)n, ": ");
    va_start(ap, format);
    vsnprintf(message + n, FAULT_BYTES - (size_t)n, format, ap);
    va_end(ap);
    return NULL;
}

const struct insn *fault_address(struct wave *w, const struct insn *i, int lane, uint64_t address,
                                 unsigned bytes, enum quern_sim_access access)
{
    const char *const verb = access == QUERN_SIM_READ    ? "read"
                             : access == QUERN_SIM_WRITE ? "write"
                                                         : "atomic access";
    const struct mapping *const map = memory_nearest(w->group->memory, address);
    const struct former *const former = memory_former(w->group->memory, address);
    const unsigned long long at = address;

    if (former && !memory_find(w->group->memory, address))
        return fault(w, i, lane,
                     "%s of %u bytes at 0x%llx: offset %llu of buffer \"%s\", which was unmapped "
                     "before this launch",
                     verb, bytes, at, at - (unsigned long long)former->begin, former->name);
    if (!map)
        return fault(w, i, lane, "%s of %u bytes at 0x%llx, but no buffer is mapped" SEES, verb,
                     bytes, at);
    const unsigned long long size = map->end - map->begin;
    if (address + NEAR < map->begin || address > map->end + NEAR)
        return fault(w, i, lane, "%s of %u bytes at 0x%llx: out of bounds, near no buffer%s", verb,
                     bytes, at, address < NULL_BYTES ? "; is a pointer null?" : SEES);
    if (address >= map->begin && address < map->end && map->end - address >= bytes)
        return fault(w, i, lane,
                     "%s of %u bytes at 0x%llx: offset %llu of buffer \"%s\", which may "
                     "only be read",
                     verb, bytes, at, (unsigned long long)(address - map->begin), map->name);
    if (address < map->begin)
        return fault(w, i, lane,
                     "%s of %u bytes at 0x%llx: out of bounds, %llu bytes before buffer "
                     "\"%s\" (%llu bytes)",
                     verb, bytes, at, (unsigned long long)(map->begin - address), map->name, size);
    return fault(w, i, lane,
                 "%s of %u bytes at 0x%llx: out of bounds, offset %llu of buffer \"%s\", "
                 "which has %llu bytes",
                 verb, bytes, at, (unsigned long long)(address - map->begin), map->name, size);
}

const struct insn *halt(struct wave *w)
{
    w->state = WAVE_FAULT;
    return NULL;
}
