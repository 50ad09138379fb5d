/* SPDX-License-Identifier: MIT */
/* The cache directory as one of the tiers that kernels are looked for in. */
#include "store/tier.h"

static enum tier_answer get(void *store, struct tier_get *g, struct store_entry *entry)
{
    const bool hit = g->by_source ? store_get_by_source(store, g->want, entry)
                                  : store_get_wanted(store, g->want, entry);

    return hit ? TIER_HIT : TIER_MISS;
}

static void put(void *store, struct store_put *puts, size_t count)
{
    store_put_all(store, puts, count);
}

static int lock(void *store, const struct hash128 *key, int deadline_ms)
{
    return store_lock(store, key, deadline_ms);
}

static void unlock(void *store, int held)
{
    store_unlock(store, held);
}

static void close_store(void *store)
{
    store_close(store);
}

struct tier store_tier(struct store *store)
{
    return (struct tier){.name = "the cache",
                         .id = QUERN_TIER_CACHE,
                         .self = store,
                         .get = get,
                         .put = put,
                         .lock = lock,
                         .unlock = unlock,
                         .close = close_store};
}
