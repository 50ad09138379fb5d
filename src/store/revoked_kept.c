/* SPDX-License-Identifier: MIT */
/*
 * The last revocation list of each signer, which a cache directory keeps: revoked/<64 digits> is
 * the list as it came. It is replaced by renaming, with the directory locked, so that two processes
 * at once cannot put an older one in the place of a newer. A file that is no list is an error: to
 * go on without it would let revoked entries in.
 */
#include "base/os.h"
#include "store/internal.h"
#include "store/revoked.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

static quern_status read_list(const struct store *s, int directory, const char *signer,
                              const struct signers *signers, struct revoked *list)
{
    struct error_record why;
    struct stat st;
    void *bytes = NULL;

    const int fd = store_open_fit(s, directory, signer, "the revocation list of signer", &st);
    if (fd == -ENOENT)
        return QUERN_OK;
    if (fd < 0)
        return quern_last_error()->status;
    const int error =
        st.st_size > (off_t)1 << 20 ? -EFBIG : store_read_exactly(fd, (size_t)st.st_size, &bytes);
    os.close(fd);
    FAIL_IF(error, QUERN_E_IO, "the revocation list of signer %s cannot be read: %s", signer,
            strerror(-error));
    if (revoked_open(bytes, (size_t)st.st_size, signers, list) == QUERN_OK)
        return QUERN_OK;
    error_save(&why);
    os.free(bytes);
    FAIL(QUERN_E_CACHE,
         "the revocation list that is kept is unreadable; remove " REVOKED_DIRECTORY
         "/%s from the cache to have it anew: %s",
         signer, why.message);
}

quern_status store_kept_revoked(struct store *s, const struct signers *signers, size_t number,
                                struct revoked *list)
{
    char signer[65];
    int directory;

    *list = (struct revoked){0};
    TRY(store_open_beside(s, REVOKED_DIRECTORY, "revocation lists", false, &directory));
    if (directory < 0)
        return QUERN_OK;
    hex_from_bytes(signer, signers->keys[number], sizeof signers->keys[number]);
    const quern_status status = read_list(s, directory, signer, signers, list);
    os.close(directory);
    return status;
}

quern_status store_keep_revoked(struct store *s, const struct signers *signers,
                                const struct revoked *list)
{
    struct revoked kept = {0};
    int directory;

    FAIL_IF(s->mode != QUERN_CACHE_RW, QUERN_E_CACHE,
            "there is no cache directory that is written to");
    TRY(store_open_beside(s, REVOKED_DIRECTORY, "revocation lists", true, &directory));
    store_lock_file(s, directory, SERIAL_LOCK_MS);
    quern_status status = read_list(s, directory, list->signer, signers, &kept);
    if (status == QUERN_OK && (!kept.bytes || kept.serial < list->serial)) {
        const int error = store_exchange(s, directory, list->signer, list->bytes, list->size);
        if (error)
            status = error_set(QUERN_E_IO, __FILE__, FAIL_AT("store_exchange"),
                               "the revocation list of signer %s cannot be kept: %s", list->signer,
                               strerror(-error));
    }
    store_unlock(s, directory);
    revoked_free(&kept);
    return status;
}

/* Takes one entry away if it is the one that is meant. */
static void drop(struct store *s, int shard, const struct entry_name *name,
                 const struct revoked_row *row)
{
    struct revoked_row found = {.key = row->key};
    struct stat st;
    void *bytes = NULL;

    const int fd = store_open_fit(s, shard, name->name, "entry", &st);
    if (fd < 0)
        return;
    const bool read =
        st.st_size <= (off_t)ENTRY_BYTES_MAX && !store_read_exactly(fd, (size_t)st.st_size, &bytes);
    os.close(fd);
    if (!read)
        return;
    crypto_generichash(found.digest, sizeof found.digest, bytes, (size_t)st.st_size, NULL, 0);
    os.free(bytes);
    if (!memcmp(&found, row, sizeof found))
        store_quarantine(s, shard, name, &st, STORE_REVOKED);
}

void store_drop_revoked(struct store *s, const struct revoked *list)
{
    for (size_t i = 0; i < list->count && s->mode != QUERN_CACHE_OFF; i++) {
        const struct entry_name name = entry_name(&list->rows[i].key);
        const int shard = store_open_directory(s, "objects", name.shard, false);
        if (shard < 0)
            continue;
        drop(s, shard, &name, &list->rows[i]);
        os.close(shard);
    }
}
