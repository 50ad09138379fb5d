/* SPDX-License-Identifier: MIT */
/* Makes the next revocation list of a signer, for the command, which puts it on a remote cache. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "store/revoked.h"
#include "store/seal.h"

#include <string.h>

/* The row of a file of a remote cache: an entry, sealed or not. */
static quern_status row_of_file(const struct quern_bytes *file, struct revoked_row *row)
{
    struct store_record record;
    size_t entry_bytes;

    TRY(seal_open(file->bytes, file->size, NULL, &record, &entry_bytes));
    revoked_row_of(&record, file->bytes, entry_bytes, row);
    return QUERN_OK;
}

/* Reads the last list, which must be the signer's own. */
static quern_status open_last(const struct quern_bytes *last, const struct signers *signer,
                              struct revoked *list)
{
    void *const copy = os.malloc(last->size ? last->size : 1);

    FAIL_IF(!copy, QUERN_E_MEMORY, "out of memory for a revocation list");
    if (last->size)
        memcpy(copy, last->bytes, last->size);
    const quern_status status = revoked_open(copy, last->size, signer, list);
    if (status != QUERN_OK)
        os.free(copy);
    return status;
}

quern_status quern_cache_revoke(quern_ctx *ctx, const struct quern_bytes *last,
                                const struct quern_bytes *files, size_t count,
                                const uint8_t public_key[32], quern_sign_fn sign, void *user,
                                void **bytes, size_t *size, uint64_t *serial, uint64_t *revoked)
{
    struct revoked list = {0}, next = {0};
    struct signers signer = {.count = 1};
    void *made = NULL;

    FAIL_IF(!ctx || !sign || !bytes || !size || !public_key, QUERN_E_ARGUMENT, "%s is null",
            !ctx    ? "ctx"
            : !sign ? "sign"
                    : "public_key, bytes or size");
    memcpy(signer.keys[0], public_key, sizeof signer.keys[0]);
    if (last)
        TRY(open_last(last, &signer, &list));
    struct revoked_row *const rows = os.malloc((list.count + count + 1) * sizeof *rows);
    quern_status status = rows ? QUERN_OK
                               : error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("rows"),
                                           "out of memory for a revocation list");
    if (rows && list.count)
        memcpy(rows, list.rows, list.count * sizeof *rows);
    for (size_t i = 0; i < count && status == QUERN_OK; i++)
        status = row_of_file(&files[i], &rows[list.count + i]);
    if (status == QUERN_OK)
        status = revoked_make(rows, list.count + count, list.serial + 1, sign, user, &made, size);
    os.free(rows);
    revoked_free(&list);
    if (status != QUERN_OK)
        return status;
    /* read again, as whoever fetches it will, before it is given out */
    status = revoked_open(made, *size, &signer, &next);
    if (status != QUERN_OK) {
        os.free(made);
        return status;
    }
    store_drop_revoked(ctx->store, &next);
    *bytes = made;
    if (serial)
        *serial = next.serial;
    if (revoked)
        *revoked = next.count;
    return QUERN_OK;
}
