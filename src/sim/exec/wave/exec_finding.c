/* SPDX-License-Identifier: MIT */
/* What the full check says of undefined bits that reach a result: which, and where from. */
#include "sim/exec/track.h"
#include "sim/launch.h"

#include <stdio.h>

static void describe_late(const struct wave *w, const struct origin *o, char *to, size_t size)
{
    static const char *const old[] = {"vmcnt", "vscnt", "lgkmcnt", "lgkmcnt"};
    static const char *const new[] = {"loadcnt", "storecnt", "dscnt", "kmcnt"};
    const struct quern_sim_module *const m = w->group->run->module;
    const struct insn_note *const note = &m->notes[o->insn];
    const unsigned reg = (uint16_t)o->where, rule = (uint8_t)(o->where >> 24);
    const unsigned needed = (uint8_t)(o->where >> 40), found = (uint8_t)(o->where >> 48);
    const bool agpr = !(o->where >> 16 & 1) && reg >= m->agpr_offset;
    char by[192];

    snprintf(by, sizeof by, "%s%u, which pc 0x%x `%.120s`",
             o->where >> 16 & 1 ? "s"
             : agpr             ? "a"
                                : "v",
             agpr ? reg - m->agpr_offset : reg, note->offset - w->group->run->note->begin,
             note->text ? note->text : "");
    if (!rule)
        snprintf(to, size, "are of %s still owes: a wait for %s %u is needed", by,
                 (m->late_place == LATE_GFX12 ? new : old)[(uint8_t)(o->where >> 32)], needed);
    else if (!needed)
        snprintf(to, size, "are of %s has just written, behind a read by a vector instruction", by);
    else
        snprintf(to, size,
                 "are of %s has just issued (%s): %u wait states are needed, %u are there", by,
                 m->late_rules[rule - 1].what, needed, found);
}

static void describe(const struct wave *w, const struct origin *o, char *to, size_t size)
{
    const struct run *const run = w->group->run;
    const struct insn_note *const note = &run->module->notes[o->insn];
    const unsigned long long where = o->where;
    char load[192];

    snprintf(load, sizeof load, "were loaded at pc 0x%x `%.120s` from",
             note->offset - run->note->begin, note->text ? note->text : "");
    switch (o->kind) {
    case ORIGIN_VECTOR:
        snprintf(to, size, "are of v%llu, which was never written", where);
        break;
    case ORIGIN_SCALAR:
        snprintf(to, size, "are of scalar register %llu, which was never written", where);
        break;
    case ORIGIN_GLOBAL: {
        const struct mapping *const map = memory_find(w->group->memory, o->where);
        snprintf(to, size, "%s offset %llu of buffer \"%s\", which was never written", load,
                 map ? where - map->begin : 0, map ? map->name : "?");
        break;
    }
    case ORIGIN_LDS:
        snprintf(to, size, "%s LDS 0x%llx, which was never written, or with undefined bits", load,
                 where);
        break;
    case ORIGIN_SCRATCH:
        snprintf(to, size,
                 "%s scratch offset %llu, which was never written, or with undefined bits", load,
                 where);
        break;
    case ORIGIN_LATE:
        describe_late(w, o, to, size);
        break;
    default:
        snprintf(to, size, "have an origin that is not known");
        break;
    }
}

const struct insn *finding(struct wave *w, const struct insn *i, int lane, const struct origin *o,
                           uint32_t bits, const char *reach)
{
    char origin[320];

    describe(w, o, origin, sizeof origin);
    return fault(w, i, lane, "undefined bits 0x%x reach %s; they %s", bits, reach, origin);
}
