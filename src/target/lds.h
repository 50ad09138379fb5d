/* SPDX-License-Identifier: MIT */
/*
 * How LDS serves the lanes of a wave: which of them at once, and from how many banks. Shared by the
 * counts of the software GPU and by its profiles. A pure function; docs/profile.md says where the
 * groups come from.
 */
#ifndef QUERN_TARGET_LDS_H
#define QUERN_TARGET_LDS_H

#include "target/target.h"

#define TARGET_LDS_GROUPS 8

struct target_lds {
    unsigned banks; /* of 4 bytes */
    unsigned lanes; /* LDS serves so many lanes at once, in one pass if no two meet in a bank */
    bool in_order;  /* group n is the lanes from n · lanes on */
    uint64_t groups[TARGET_LDS_GROUPS]; /* which lanes each group has, as bits; a wave of 32 has the
                                           groups of the low half */
};

/* How LDS serves an instruction that reads `bytes` (1 to 16) for each lane, or, with `write`,
 * writes or changes them. */
struct target_lds target_lds(const struct target *t, unsigned bytes, bool write);

#endif
