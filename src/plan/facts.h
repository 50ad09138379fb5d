/* SPDX-License-Identifier: MIT */
/*
 * What kernels assume of a GPU (facts.def), what was measured of one, and the kernels that measure
 * it. A target of which something is refuted is another row, without what relied on it, and plans
 * are made of that; so no family asks. All functions are thread-safe.
 */
#ifndef QUERN_PLAN_FACTS_H
#define QUERN_PLAN_FACTS_H

#include "base/hash.h"
#include "plan/plan.h"

#define FACTS_BYTES_MAX (1 << 16)

/* Beside the capabilities, what a refuted fact takes away: all matrix instructions of CDNA; dies of
 * their own; every product. */
#define FACT_ALL_MFMA (CAP_MFMA | CAP_MFMA_BF16_1K | CAP_MFMA_FP8 | CAP_MFMA_WIDE_K)
#define FACT_DIES     ((uint64_t)1 << 32)
#define FACT_PRODUCTS ((uint64_t)1 << 33)

enum fact {
#define FACT(NUMBER, ...) FACT_##NUMBER,
#include "plan/facts.def"
#undef FACT
    FACT_COUNT
};
_Static_assert(FACT_COUNT <= 32, "facts are the bits of struct target's `refuted`");

/* What is known of a GPU: bits by enum fact. All zeros: nothing is, and everything is assumed. */
struct facts {
    bool given; /* there is a table; its hash follows */
    struct hash128 hash;
    unsigned probed, refuted;
};

struct fact_row {
    const char *name;
    const char *values; /* "truncates|rounds_to_nearest", "64 GB/s" */
    uint64_t takes;
    const char *probe; /* its template */
    const char *meaning, *relies, *source, *fallback;
    char sure;
};
extern const struct fact_row fact_rows[FACT_COUNT];

/* Whether a fact is assumed of a target; whether it is a rate, which is measured and never refuted.
 */
bool fact_asked(enum fact fact, const struct target *target);
bool fact_is_rate(enum fact fact);
/* Writes the n-th value of a fact, the last if there are fewer; n = 0 is what is assumed, of a rate
 * its number and unit on the target's part. */
#define FACT_VALUE_MAX 32
void fact_value(enum fact fact, const struct target *target, unsigned n,
                char value[FACT_VALUE_MAX]);

/*
 * Reads a facts table of a target: docs/formats.md. QUERN_E_ARGUMENT with the line's number and
 * what is wrong with it. A fact that this version does not know is passed over.
 */
quern_status facts_parse(const char *text, size_t size, const struct target *target,
                         struct facts *facts);

/* The target as such facts leave it: itself, or a row that lives as long as the process.
 * QUERN_E_MEMORY. */
quern_status facts_target(const struct facts *facts, const struct target *target,
                          const struct target **planned);

/* QUERN_E_DECLINED if a refuted fact leaves no kernel that multiplies. */
quern_status facts_accept(const struct target *target);

/* Appends the hash of the table, and a line for each fact that it refutes; nothing if there is no
 * table. */
void facts_explain(const struct facts *facts, struct str *out);

/* The kernel that measures a fact: PROBE_GROUPS workgroups of a wave, whose only argument is
 * `memory`. A bit of the word of each work-item says whether the value of that place fits what it
 * saw; the bits that all have are the answer. Behind the words there is memory to read, each word
 * its own index. */
#define PROBE_GROUPS 64
#define PROBE_WORDS  65536
void facts_probe(enum fact fact, const struct target *target, struct plan *plan);
/* What each work-item of a rate's probe reads: bytes, or of ADDRESS_RATE words. */
int64_t fact_reads(enum fact fact);

#endif
