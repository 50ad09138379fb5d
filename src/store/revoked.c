/* SPDX-License-Identifier: MIT */
/* Makes and checks revocation lists (revoked.h), in memory. */
#include "store/revoked.h"

#include "base/os.h"
#include "object/le.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_VERSION 1
/* The first field of what is signed, so that the signature of a list cannot pass for that of
 * anything else. */
#define DOMAIN "quern revocation list signature 1"

static const uint8_t canary[8] = {'Q', 'R', 'E', 'V', 'K', '\r', '\n', 0x1a};

enum {
    AT_CANARY = 0,
    AT_VERSION = 8, /* u32 */
    AT_COUNT = 12,  /* u32, of rows */
    AT_SERIAL = 16, /* u64 */
    AT_KEY = 24,
    AT_SIGNATURE = 56,
    AT_ROWS = 120
};
_Static_assert(AT_SIGNATURE + crypto_sign_BYTES == AT_ROWS, "rows follow the signature");
_Static_assert(sizeof(struct revoked_row) == 48, "no padding");

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct revoked_row));
}

static quern_status message_of(const uint8_t *bytes, uint64_t serial, size_t count,
                               struct str *message)
{
    char number[24];

    snprintf(number, sizeof number, "%" PRIu64, serial);
    key_add_text(message, "signature", DOMAIN);
    key_add_text(message, "serial", number);
    key_add(message, "rows", bytes + AT_ROWS, count * sizeof(struct revoked_row));
    FAIL_IF(message->failed, QUERN_E_MEMORY, "out of memory for a signed text");
    return QUERN_OK;
}

static quern_status check_signature(const struct revoked *l, const struct signers *signers)
{
    const uint8_t *const bytes = l->bytes;
    struct str message = {0};

    FAIL_IF(l->number == signers->count, QUERN_E_OBJECT,
            "the revocation list is signed by %s, which is not among the %zu trusted key%s",
            l->signer, signers->count, signers->count == 1 ? "" : "s");
    quern_status status = message_of(bytes, l->serial, l->count, &message);
    if (status == QUERN_OK &&
        crypto_sign_verify_detached(bytes + AT_SIGNATURE, (const uint8_t *)str_text(&message),
                                    message.length, bytes + AT_KEY))
        status = error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("crypto_sign_verify_detached"),
                           "the signature by %s is not that of this revocation list", l->signer);
    str_free(&message);
    return status;
}

quern_status revoked_open(void *bytes, size_t size, const struct signers *signers,
                          struct revoked *list)
{
    const uint8_t *const b = bytes;
    struct revoked l = {.bytes = bytes, .size = size};

    *list = (struct revoked){0};
    FAIL_IF(size < AT_ROWS || memcmp(b, canary, sizeof canary) ||
                le32(b + AT_VERSION) != LIST_VERSION,
            QUERN_E_OBJECT, "%zu bytes are no revocation list of version %d", size, LIST_VERSION);
    l.count = le32(b + AT_COUNT);
    FAIL_IF(l.count > REVOKED_ROWS_MAX || size != AT_ROWS + l.count * sizeof *l.rows,
            QUERN_E_OBJECT, "a revocation list of %zu bytes does not have %zu rows", size, l.count);
    l.serial = le64(b + AT_SERIAL);
    l.rows = (const struct revoked_row *)(b + AT_ROWS);
    hex_from_bytes(l.signer, b + AT_KEY, crypto_sign_PUBLICKEYBYTES);
    l.number = signers_find(signers, b + AT_KEY);
    TRY(check_signature(&l, signers));
    for (size_t i = 1; i < l.count; i++)
        FAIL_IF(compare(&l.rows[i - 1], &l.rows[i]) >= 0, QUERN_E_OBJECT,
                "row %zu of the revocation list is not in order", i);
    *list = l;
    return QUERN_OK;
}

void revoked_free(struct revoked *list)
{
    os.free(list->bytes);
    *list = (struct revoked){0};
}

void revoked_row_of(const struct store_record *record, const void *entry, size_t entry_bytes,
                    struct revoked_row *row)
{
    row->key = hash128_of(record->key_text, record->key_text_bytes);
    crypto_generichash(row->digest, sizeof row->digest, entry, entry_bytes, NULL, 0);
}

bool revoked_has(const struct revoked *list, const struct revoked_row *row)
{
    return list->count && bsearch(row, list->rows, list->count, sizeof *row, compare);
}

quern_status revoked_make(struct revoked_row *rows, size_t count, uint64_t serial,
                          quern_sign_fn sign, void *user, void **bytes, size_t *size)
{
    struct str message = {0};
    size_t kept = 0;

    if (count)
        qsort(rows, count, sizeof *rows, compare);
    for (size_t i = 0; i < count; i++)
        if (!kept || compare(&rows[kept - 1], &rows[i]))
            rows[kept++] = rows[i];
    FAIL_IF(kept > REVOKED_ROWS_MAX, QUERN_E_ARGUMENT,
            "%zu entries are too many for a revocation list; at most %d fit: sign what is good "
            "with another key instead",
            kept, REVOKED_ROWS_MAX);
    *size = AT_ROWS + kept * sizeof *rows;
    uint8_t *const b = os.calloc(1, *size);
    FAIL_IF(!b, QUERN_E_MEMORY, "out of memory for a revocation list");
    memcpy(b, canary, sizeof canary);
    le_put(b + AT_VERSION, 4, LIST_VERSION);
    le_put(b + AT_COUNT, 4, kept);
    le_put(b + AT_SERIAL, 8, serial);
    if (kept)
        memcpy(b + AT_ROWS, rows, kept * sizeof *rows);
    const quern_status status = message_of(b, serial, kept, &message);
    if (status == QUERN_OK)
        sign(user, str_text(&message), message.length, b + AT_KEY, b + AT_SIGNATURE);
    str_free(&message);
    if (status != QUERN_OK) {
        os.free(b);
        return status;
    }
    *bytes = b;
    return QUERN_OK;
}
