/* SPDX-License-Identifier: MIT */
/*
 * A revocation list: entries that were signed and are not to be used any more. It lies on a remote
 * cache beside them, signed by one of the keys that sign entries, and has a serial that only grows:
 * a cache directory keeps the last list of each signer, and a list that is older is not accepted.
 *
 * An entry is named by its key and the BLAKE2b-256 of its bytes, without a seal: another entry of
 * the same key, made anew, is not meant. docs/formats.md has the format.
 */
#ifndef QUERN_STORE_REVOKED_H
#define QUERN_STORE_REVOKED_H

#include "store/signature.h"
#include "store/store.h"

#include <quern/tool.h>

#define REVOKED_NAME     "v1/revoked.qr" /* below a remote's address */
#define REVOKED_ROWS_MAX 4096

struct revoked_row {
    struct hash128 key;
    uint8_t digest[32];
};

struct revoked {
    void *bytes; /* malloc'ed, as it came; null: there is no list */
    size_t size;
    uint64_t serial;
    char signer[65];                /* its public key in hexadecimal digits */
    size_t number;                  /* of that key among the signers that it was opened with */
    const struct revoked_row *rows; /* ascending, within bytes */
    size_t count;
};

/* Reads a list that one of `signers` signed, and takes `bytes` over. QUERN_E_OBJECT with the
 * reason, and the bytes stay the caller's. */
quern_status revoked_open(void *bytes, size_t size, const struct signers *signers,
                          struct revoked *list);
void revoked_free(struct revoked *list);

/* The row of an entry. */
void revoked_row_of(const struct store_record *record, const void *entry, size_t entry_bytes,
                    struct revoked_row *row);
bool revoked_has(const struct revoked *list, const struct revoked_row *row);

/* Makes a list of rows, in any order, and signs it. *bytes is malloc'ed. QUERN_E_ARGUMENT (more
 * than REVOKED_ROWS_MAX), QUERN_E_MEMORY. */
quern_status revoked_make(struct revoked_row *rows, size_t count, uint64_t serial,
                          quern_sign_fn sign, void *user, void **bytes, size_t *size);

/* The list of one of `signers`, by its number, that the cache directory keeps, *list empty if none;
 * and keeping one, unless a newer one is kept. QUERN_E_CACHE, QUERN_E_IO or QUERN_E_MEMORY when
 * that cannot be done. Blocks on the disk. */
quern_status store_kept_revoked(struct store *store, const struct signers *signers, size_t number,
                                struct revoked *list);
quern_status store_keep_revoked(struct store *store, const struct signers *signers,
                                const struct revoked *list);
/* Takes the entries of a list out of the cache directory. Blocks on the disk. */
void store_drop_revoked(struct store *store, const struct revoked *list);

#endif
