/* SPDX-License-Identifier: MIT */
/* Claims in a remote cache (store/claim.h), as the tier (remote_tier.c) makes them. */
#ifndef QUERN_DISPATCH_REMOTE_CLAIM_H
#define QUERN_DISPATCH_REMOTE_CLAIM_H

#include "compile/remote.h"
#include "store/claim.h"
#include "store/tier.h"

/* How claims reach the server: asks for `name`, or with `bytes` puts these there, if `if_absent`
 * only where nothing is (REPLY_TAKEN); waits for the answer. False: the server was not asked, or
 * had no answer, which is counted already. The caller frees answer->bytes. */
struct remote_exchange {
    bool (*ask)(void *self, const char *name, const char *bytes, size_t size, bool if_absent,
                struct remote_answer *answer);
    void *self;
    int answer_ms; /* how long the server took of late to answer for a kernel; 0: not known */
};

/* As struct tier's functions. */
enum tier_claim remote_claim(const struct remote_exchange *exchange, const struct hash128 *key,
                             struct tier_wait *wait);
void remote_disclaim(const struct remote_exchange *exchange, const struct hash128 *key);

#endif
