/* SPDX-License-Identifier: MIT */
/*
 * A tier: one place that kernels made earlier come from, such as the bundles or the cache
 * directory, as the search of dispatch/kernel.c sees it. What a tier counts it counts itself, in
 * the counters of the context (base/counters.h). Functions may be called by several threads at
 * once; none fails its caller: what goes wrong is logged and counted, and the answer is a miss.
 */
#ifndef QUERN_STORE_TIER_H
#define QUERN_STORE_TIER_H

#include "store/store.h"

/* PENDING: not known yet. The same question is asked again until the answer is another one, or is
 * cancelled. */
enum tier_answer { TIER_MISS, TIER_HIT, TIER_PENDING };

/* As wait_ms: as long as the tier holds it worth while before a compiler is asked as well. */
#define TIER_GRACE (-1)

/* NONE: the tier cannot say, or nobody is to be waited for. MINE: this process makes the kernel,
 * and others wait for it. INHERITED: likewise, but the claim of another machine was there before
 * and is over. That one may have put the kernel since this process looked for it, so it is to be
 * looked for once more. TAKEN: another machine makes it. */
enum tier_claim { TIER_CLAIM_NONE, TIER_CLAIM_MINE, TIER_CLAIM_INHERITED, TIER_CLAIM_TAKEN };

/* A caller's wait for what another machine has claimed; starts as zeros, and is the tier's own. */
struct tier_wait {
    uint64_t begun;  /* by os_now, when the caller first asked; 0: it has not */
    char claim[33];  /* the claim that is waited for; "": none was seen */
    uint64_t since;  /* when that was first seen */
    int patience_ms; /* how long it is waited for from then on */
};

/* One question to one tier. When it is asked again it may be a copy, in another place. */
struct tier_get {
    const struct store_want *want; /* during this call only */
    bool by_source; /* what any toolchain made of the same source serves: see store_get_by_source */
    int wait_ms;    /* how long an answer may be waited for that is pending without it; or
                       TIER_GRACE */
    void *pending;  /* the tier's own, not null exactly while its answer is pending */
    char refused[160]; /* set after a miss: why what the tier has is not used, where the message
                          about a missing kernel is to tell that; else "" */
};

struct tier {
    const char *name; /* in messages: "is in NAME" */
    enum quern_tier id;
    /* Whether what another toolchain made is taken from here even where a compiler could make the
     * kernel anew. So it is of bundles: somebody chose what is in them. */
    bool source_first;
    /* Whether a question to this tier costs more than a look at a disk, as one over the network
     * does. The search does not ask a far tier for base kernels, since nobody waits for those. It
     * puts every entry that a far tier gave into the tiers that are near and can be written to, so
     * that the next search finds it there. */
    bool far;
    void *self; /* the first argument of each function */
    /* On TIER_HIT fills *entry, whole and for this target, which the caller frees; on TIER_MISS
     * entry->miss says why, if that is known. May block on the disk, and for wait_ms. */
    enum tier_answer (*get)(void *self, struct tier_get *get, struct store_entry *entry);
    /* Ends a question whose answer is pending. Null where no answer ever is. */
    void (*cancel)(void *self, struct tier_get *get);
    /* Takes new entries, or does not. Null: nothing is ever written here. May block. */
    void (*put)(void *self, struct store_put *puts, size_t count);
    /* Makes this caller the only one that makes the kernel of a key, of all that share the tier,
     * until unlock: see store_lock. -1: it could not be had; that does no harm. Null: no locks. */
    int (*lock)(void *self, const struct hash128 *key, int deadline_ms);
    void (*unlock)(void *self, int lock);
    /* Claims a kernel for this process before it is compiled, of all machines that share the tier:
     * see enum tier_claim. A caller that was told TAKEN asks again, now and then, with the same
     * wait; a claim that was waited for longer than it lasts is replaced. With a null wait the
     * caller will not wait, so that a claim which is there is not even read, and one question
     * answers. Waits for the server's answers. Null: no claims. */
    enum tier_claim (*claim)(void *self, const struct hash128 *key, struct tier_wait *wait);
    /* Gives up a claim, as nothing was put for it, so that nobody waits any longer. */
    void (*disclaim)(void *self, const struct hash128 *key);
    /* Whether ops, too, claim what they lack and wait for what others have claimed, as their host
     * would rather wait than compile. Else only prewarming does. */
    bool claims_for_ops;
    void (*close)(void *self); /* no question is pending then */
};

/* The cache directory as a tier, which closes it. */
struct tier store_tier(struct store *store);

#endif
