/* SPDX-License-Identifier: MIT */
/* What is revoked of a remote cache (remote_revoked.h). */
#include "dispatch/remote_revoked.h"

#include "base/os.h"

#include <inttypes.h>
#include <string.h>

/* How long an answer is believed in a process that goes on asking for kernels. */
#define BELIEVED_NS ((uint64_t)600 * 1000000000)

bool revocations_due(const struct revocations *r)
{
    return !r->known || os_now() - r->known_ns > BELIEVED_NS;
}

/* Reads what the directory keeps, once. */
static quern_status load(struct revocations *r)
{
    for (size_t i = 0; i < r->signers->count && !r->loaded; i++) {
        revoked_free(&r->lists[i]);
        TRY(store_kept_revoked(r->store, r->signers, i, &r->lists[i]));
    }
    r->loaded = true;
    return QUERN_OK;
}

/* Puts a list, which was opened with r->signers, in the place of its signer's last one, if it is
 * newer. */
static quern_status put(struct revocations *r, struct revoked *list)
{
    struct revoked *const last = &r->lists[list->number];

    FAIL_IF(last->bytes && list->serial < last->serial, QUERN_E_CACHE,
            "its revocation list has serial %" PRIu64 ", and %" PRIu64
            " was seen before of the same signer, which stays in force",
            list->serial, last->serial);
    FAIL_IF(last->bytes && list->serial == last->serial &&
                (list->size != last->size || memcmp(list->bytes, last->bytes, list->size)),
            QUERN_E_CACHE,
            "its revocation list has serial %" PRIu64
            ", as another one that was seen before and stays in force",
            list->serial);
    if (!last->bytes || list->serial > last->serial) {
        /* without a directory that is written to, it is in force as long as this process runs */
        (void)store_keep_revoked(r->store, r->signers, list);
        revoked_free(last);
        *last = *list;
        *list = (struct revoked){0};
    }
    return QUERN_OK;
}

quern_status revocations_take(struct revocations *r, void *bytes, size_t size)
{
    struct revoked list = {0};

    r->known = false;
    quern_status status = load(r);
    if (status == QUERN_OK && bytes)
        status = revoked_open(bytes, size, r->signers, &list);
    if (status != QUERN_OK) {
        os.free(bytes);
        return status;
    }
    if (bytes)
        status = put(r, &list);
    revoked_free(&list);
    r->known = true;
    r->known_ns = os_now();
    for (size_t i = 0; i < r->signers->count; i++)
        store_drop_revoked(r->store, &r->lists[i]);
    return status;
}

const struct revoked *revocations_find(const struct revocations *r,
                                       const struct store_record *record, const void *bytes,
                                       size_t size)
{
    struct revoked_row row;
    bool made = false; /* it takes a digest of the entry, and most remotes revoke nothing */

    for (size_t i = 0; i < r->signers->count; i++) {
        if (!r->lists[i].count)
            continue;
        if (!made)
            revoked_row_of(record, bytes, size, &row);
        made = true;
        if (revoked_has(&r->lists[i], &row))
            return &r->lists[i];
    }
    return NULL;
}

void revocations_free(struct revocations *r)
{
    for (size_t i = 0; i < SIGNERS_MAX; i++)
        revoked_free(&r->lists[i]);
}
