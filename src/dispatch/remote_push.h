/* SPDX-License-Identifier: MIT */
/*
 * Gives to a remote cache what this process compiled (QUERN_REMOTE_MODE=rw): a thread of its own,
 * started with the first entry, puts entries there by a helper of its own. Nothing waits for it but
 * remote_push_close, and that for a few seconds at most. Thread-safe.
 */
#ifndef QUERN_DISPATCH_REMOTE_PUSH_H
#define QUERN_DISPATCH_REMOTE_PUSH_H

#include "base/counters.h"
#include "base/log.h"
#include "dispatch/remote_place.h"
#include "store/store.h"

struct remote_push;

struct remote_push_config {
    const struct remote_place *place; /* these outlive it */
    const char *worker_path;
    const char *sign_key; /* the file of the secret key; null: entries stay unsigned */
    struct log *log;
    struct counters *counters;
};

/* Reads the key, and starts nothing. QUERN_E_IO or QUERN_E_CACHE: the key cannot be used;
 * QUERN_E_MEMORY. */
quern_status remote_push_open(const struct remote_push_config *config, struct remote_push **push);

/* Takes an entry to be put there, by its key and by its source key, if there is room: signs and
 * copies it, and waits for nothing. One that is not taken is counted. */
void remote_push_offer(struct remote_push *push, const struct store_record *record);

/* Waits until nothing that was taken is left to put, at most so long. */
void remote_push_settle(struct remote_push *push, int wait_ms);

/* Waits until all that was taken is put, for some seconds at most, and ends it. Null: nothing. */
void remote_push_close(struct remote_push *push);

#endif
