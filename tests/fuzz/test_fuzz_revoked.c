/* SPDX-License-Identifier: MIT */
/* What a remote cache sends as its revocation list, of any bytes: refused, unless a trusted key
 * signed it; and if it did, a list whose rows are within those bytes and in order. */
#include "base/hash.h"
#include "base/os.h"
#include "object/le.h"
#include "store/revoked.h"
#include "t_fuzz.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_COUNT = 12, AT_SERIAL = 16, AT_KEY = 24, AT_SIGNATURE = 56, AT_ROWS = 120 };

static void judge(const uint8_t *data, size_t size, const struct signers *signers, bool may)
{
    struct revoked list;
    void *const copy = os.malloc(size ? size : 1);

    FUZZ_CHECK(copy);
    if (size)
        memcpy(copy, data, size);
    if (revoked_open(copy, size, signers, &list) != QUERN_OK) {
        FUZZ_CHECK(!list.bytes && !list.count);
        os.free(copy);
        return;
    }
    FUZZ_CHECK(may && list.bytes == copy && list.count <= REVOKED_ROWS_MAX);
    FUZZ_CHECK(AT_ROWS + list.count * sizeof *list.rows == size);
    for (size_t i = 0; i < list.count; i++)
        FUZZ_CHECK(revoked_has(&list, &list.rows[i]));
    revoked_free(&list);
}

/* As it is; and with its head and its signature made right, so that its rows are judged. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t head[AT_COUNT] = {'Q', 'R', 'E', 'V', 'K', '\r', '\n', 0x1a, 1};
    static const uint8_t seed[crypto_sign_SEEDBYTES] = "a seed of thirty-two bytes, ours";
    uint8_t secret[crypto_sign_SECRETKEYBYTES];
    struct signers signers = {.count = 1};
    struct str message = {0};
    char serial[24];

    crypto_sign_seed_keypair(signers.keys[0], secret, seed);
    judge(data, size, &signers, false);
    if (size < AT_ROWS)
        return 0;
    uint8_t *const list = malloc(size);
    FUZZ_CHECK(list);
    memcpy(list, data, size);
    memcpy(list, head, sizeof head);
    memcpy(list + AT_KEY, signers.keys[0], sizeof signers.keys[0]);
    snprintf(serial, sizeof serial, "%llu", (unsigned long long)le64(list + AT_SERIAL));
    le_put(list + AT_COUNT, 4, (size - AT_ROWS) / sizeof(struct revoked_row));
    key_add_text(&message, "signature", "quern revocation list signature 1");
    key_add_text(&message, "serial", serial);
    key_add(&message, "rows", list + AT_ROWS,
            (size - AT_ROWS) / sizeof(struct revoked_row) * sizeof(struct revoked_row));
    crypto_sign_detached(list + AT_SIGNATURE, NULL, (const uint8_t *)str_text(&message),
                         message.length, secret);
    judge(list, size, &signers, true);
    str_free(&message);
    free(list);
    return 0;
}

FUZZ_MAIN("revoked", 4000)
