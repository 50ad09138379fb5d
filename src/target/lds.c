/* SPDX-License-Identifier: MIT */
/* Which lanes LDS serves at once, and from how many banks (lds.h), for counts and profiles. */
#include "target/lds.h"

#define WAVE 64
/* The banks that writes see, and reads of 96 bits, also on targets whose other reads see more. */
#define LEAST_BANKS 32

/* Lanes 4n to 4n + 3, as bits. */
#define QUAD(n) ((uint64_t)15 << 4 * (n))

/* Which of the first 32 lanes LDS serves at once when 96 or 128 bits are read, as measured: in
 * groups of 8 and of 16 lanes. */
static const uint64_t crossed_by_8[] = {QUAD(0) | QUAD(5), QUAD(1) | QUAD(4), QUAD(2) | QUAD(7),
                                        QUAD(3) | QUAD(6)};
static const uint64_t crossed_by_16[] = {QUAD(0) | QUAD(3) | QUAD(5) | QUAD(6),
                                         QUAD(1) | QUAD(2) | QUAD(4) | QUAD(7)};

struct target_lds target_lds(const struct target *t, unsigned bytes, bool write)
{
    const unsigned words = (bytes + 3) / 4;
    struct target_lds s = {.banks = write || words == 3 ? LEAST_BANKS : t->lds_banks};

    /* a read of three words takes four banks for each lane, one of which is idle */
    s.lanes = s.banks / (words == 3 ? 4 : words);
    s.in_order = write || words < 3 || !t->lds_reads_across;
    for (unsigned n = 0; n < WAVE / s.lanes; n++) {
        const unsigned half = 32 / s.lanes; /* groups in 32 lanes; none has lanes of both halves */
        if (s.in_order)
            s.groups[n] = ~(uint64_t)0 >> (WAVE - s.lanes) << n * s.lanes;
        else
            s.groups[n] = (s.lanes == 8 ? crossed_by_8 : crossed_by_16)[n % half] << n / half * 32;
    }
    return s;
}
