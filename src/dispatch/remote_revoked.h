/* SPDX-License-Identifier: MIT */
/*
 * What is revoked of a remote cache: the lists of its signers (store/revoked.h), as the cache
 * directory keeps them and the remote has them, and whether that is known well enough to use what
 * the remote gives. Not thread-safe: the tier (remote_tier.c) has a lock around it.
 */
#ifndef QUERN_DISPATCH_REMOTE_REVOKED_H
#define QUERN_DISPATCH_REMOTE_REVOKED_H

#include "store/revoked.h"

struct revocations {
    struct store *store;
    const struct signers *signers;
    struct revoked
        lists[SIGNERS_MAX]; /* of the signer with the same number; empty: none is known */
    bool loaded;            /* what the directory keeps is among them */
    bool known;             /* the remote was asked, and its list, if any, is among them */
    uint64_t known_ns;      /* when, by os_now */
};

/* Whether the remote is to be asked for its list: it never was, or some minutes ago. */
bool revocations_due(const struct revocations *r);

/* Takes what the remote answered: a list, which is taken over, or (null) that it has none; and
 * takes what is revoked out of the cache directory. QUERN_E_CACHE, with the reason: the list is
 * older than one that was seen, or what is kept cannot be read. QUERN_E_OBJECT: it is no list, or
 * of no signer.
 * r->known says whether the remote's entries may be used all the same. Blocks on the disk. */
quern_status revocations_take(struct revocations *r, void *bytes, size_t size);

/* The list that revokes an entry, which has these bytes; null: none does. */
const struct revoked *revocations_find(const struct revocations *r,
                                       const struct store_record *record, const void *bytes,
                                       size_t size);

void revocations_free(struct revocations *r);

#endif
