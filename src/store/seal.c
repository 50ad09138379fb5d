/* SPDX-License-Identifier: MIT */
/* Makes and checks sealed entries (seal.h), in memory. */
#include "store/seal.h"

#include "base/hash.h"
#include "base/os.h"
#include "object/le.h"
#include "store/internal.h"
#include "store/key.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define SEAL_VERSION 1
/* Signed messages begin with a field of this, so that a seal's signature cannot pass for one of
 * anything else. */
#define DOMAIN       "quern entry signature 1"
#define DIGEST_BYTES 32

/* As an entry's own first bytes: CR LF and 0x1A are for transfers that change such. */
static const uint8_t canary[8] = {'Q', 'S', 'E', 'A', 'L', '\r', '\n', 0x1a};

enum {
    AT_CANARY = 0,
    AT_VERSION = 8,   /* u32 */
    AT_RESERVED = 12, /* u32, zero */
    AT_KEY = 16,
    AT_SIGNATURE = 48
};
_Static_assert(AT_SIGNATURE + crypto_sign_BYTES == SEAL_BYTES, "the signature ends the seal");

void seal_name(const struct hash128 *key, bool by_source, char name[SEAL_NAME_BYTES])
{
    const struct entry_name n = entry_name(key);

    snprintf(name, SEAL_NAME_BYTES, VERSION_DIRECTORY "/%s/%s/%s",
             by_source ? "sources" : "objects", n.shard, n.name);
}

static void add_digest(struct str *message, const char *tag, const void *bytes, size_t size)
{
    uint8_t digest[DIGEST_BYTES];

    crypto_generichash(digest, sizeof digest, bytes, size, NULL, 0); /* BLAKE2b-256 */
    key_add(message, tag, digest, sizeof digest);
}

/* Appends a field of the key text under its own name; false when there is none. */
static bool add_field(struct str *message, const struct store_record *r, const char *tag)
{
    struct key_field f;

    for (size_t at = 0; key_next(r->key_text, r->key_text_bytes, &at, &f);)
        if (f.tag_length == strlen(tag) && !memcmp(f.tag, tag, f.tag_length)) {
            key_add(message, tag, f.bytes, f.size);
            return true;
        }
    return false;
}

/* What is signed of an entry. */
static quern_status message_of(const struct store_record *r, const void *entry, size_t entry_bytes,
                               struct str *message)
{
    char version[16];

    snprintf(version, sizeof version, "%d", ENTRY_VERSION);
    key_add_text(message, "signature", DOMAIN);
    key_add_text(message, "entry version", version);
    const bool target = add_field(message, r, "processor");
    const bool toolchain = add_field(message, r, "toolchain");
    add_digest(message, "object", r->object, r->object_bytes);
    add_digest(message, "entry", entry, entry_bytes);
    key_add(message, "key text", r->key_text, r->key_text_bytes);
    FAIL_IF(!target || !toolchain, QUERN_E_OBJECT, "the entry's key is not that of a kernel");
    FAIL_IF(message->failed, QUERN_E_MEMORY, "out of memory for a signed text");
    return QUERN_OK;
}

static quern_status check_seal(const struct store_record *record, const uint8_t *bytes,
                               size_t entry_bytes, const struct signers *signers)
{
    const uint8_t *const seal = bytes + entry_bytes;
    char hex[2 * crypto_sign_PUBLICKEYBYTES + 1];
    struct str message = {0};

    FAIL_IF(memcmp(seal, canary, sizeof canary) || le32(seal + AT_VERSION) != SEAL_VERSION ||
                le32(seal + AT_RESERVED) != 0,
            QUERN_E_OBJECT, "what follows the entry is no seal of version %d", SEAL_VERSION);
    hex_from_bytes(hex, seal + AT_KEY, crypto_sign_PUBLICKEYBYTES);
    FAIL_IF(signers_find(signers, seal + AT_KEY) == signers->count, QUERN_E_OBJECT,
            "the entry is signed by %s, which is not among the %zu trusted key%s", hex,
            signers->count, signers->count == 1 ? "" : "s");
    quern_status status = message_of(record, bytes, entry_bytes, &message);
    if (status == QUERN_OK &&
        crypto_sign_verify_detached(seal + AT_SIGNATURE, (const uint8_t *)str_text(&message),
                                    message.length, seal + AT_KEY))
        status = error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("crypto_sign_verify_detached"),
                           "the signature by %s is not that of this entry", hex);
    str_free(&message);
    return status;
}

quern_status seal_open(const void *bytes, size_t size, const struct signers *signers,
                       struct store_record *record, size_t *entry_bytes)
{
    struct entry_header header;

    FAIL_IF(size < ENTRY_HEADER_BYTES, QUERN_E_OBJECT, "%zu bytes are no entry", size);
    TRY(entry_read_header(bytes, &header));
    const bool sealed = header.total_bytes + SEAL_BYTES == size;
    FAIL_IF(!sealed && header.total_bytes != size, QUERN_E_OBJECT,
            "%zu bytes are neither the entry of %llu that they begin with, nor that and its seal",
            size, (unsigned long long)header.total_bytes);
    TRY(entry_decode(bytes, header.total_bytes, record));
    FAIL_IF(signers && !sealed, QUERN_E_OBJECT, "the entry is not signed");
    *entry_bytes = header.total_bytes;
    return signers ? check_seal(record, bytes, header.total_bytes, signers) : QUERN_OK;
}

static quern_status add_seal(const struct store_record *record, quern_sign_fn sign, void *user,
                             uint8_t *bytes, size_t entry_bytes)
{
    uint8_t *const seal = bytes + entry_bytes;
    struct str message = {0};

    memset(seal, 0, SEAL_BYTES);
    memcpy(seal, canary, sizeof canary);
    le_put(seal + AT_VERSION, 4, SEAL_VERSION);
    const quern_status status = message_of(record, bytes, entry_bytes, &message);
    if (status == QUERN_OK)
        sign(user, str_text(&message), message.length, seal + AT_KEY, seal + AT_SIGNATURE);
    str_free(&message);
    return status;
}

quern_status seal_make(const struct store_record *record, quern_sign_fn sign, void *user,
                       void **bytes, size_t *size)
{
    void *entry;
    size_t entry_bytes;

    FAIL_IF(!record->object_bytes, QUERN_E_ARGUMENT, "a refusal is not shared: it has no object");
    TRY(entry_encode(record, &entry, &entry_bytes));
    if (!sign) {
        *bytes = entry;
        *size = entry_bytes;
        return QUERN_OK;
    }
    uint8_t *const sealed = os.realloc(entry, entry_bytes + SEAL_BYTES);
    quern_status status =
        sealed ? add_seal(record, sign, user, sealed, entry_bytes)
               : error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("sealed"), "no memory for a seal");
    if (status != QUERN_OK) {
        os.free(sealed ? sealed : entry);
        return status;
    }
    *bytes = sealed;
    *size = entry_bytes + SEAL_BYTES;
    return QUERN_OK;
}
