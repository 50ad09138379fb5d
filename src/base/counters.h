/* SPDX-License-Identifier: MIT */
/* The counters of a context, for all code that counts; quern.h has their numbers and names. */
#ifndef QUERN_BASE_COUNTERS_H
#define QUERN_BASE_COUNTERS_H

#include <quern/quern.h>

#include <stdatomic.h>

struct counters {
    atomic_uint_fast64_t values[QUERN_STAT_COUNT];
};

/* Raises a counter; returns what it was before. Thread-safe. */
static inline uint64_t counter_add(struct counters *c, enum quern_stat which, uint64_t more)
{
    return atomic_fetch_add_explicit(&c->values[which], more, memory_order_relaxed);
}

static inline uint64_t counter_value(const struct counters *c, enum quern_stat which)
{
    return atomic_load_explicit(&c->values[which], memory_order_relaxed);
}

#endif
