/* SPDX-License-Identifier: MIT */
/*
 * Counts a kernel's instructions by its disassembly alone, for kernels that the software GPU cannot
 * run: the body of a loop as often as the caller says that it goes round, everything else once.
 * Branches forward count as not taken, so that the count is a little too high.
 */
#ifndef TOOLS_STATIC_COUNT_H
#define TOOLS_STATIC_COUNT_H

#include "command/command.h"

struct static_count {
    uint64_t slots;        /* of a wave: all instructions but waits */
    uint64_t lds_accesses; /* of them, those of LDS */
    unsigned loops;        /* branches backward */
};

/* Counts kernel `symbol` of a code object whose loops go round `trips` times. */
int static_count(quern_ctx *ctx, const char *target, const void *object, size_t size,
                 const char *symbol, uint64_t trips, struct static_count *out);

#endif
