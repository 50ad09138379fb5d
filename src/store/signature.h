/* SPDX-License-Identifier: MIT */
/*
 * Who signed a bundle: Ed25519 (libsodium), checked against the public keys of a text file with one
 * "quern-public-key HEX" a line. docs/formats.md has what is signed; making keys and signatures is
 * the command's.
 */
#ifndef QUERN_STORE_SIGNATURE_H
#define QUERN_STORE_SIGNATURE_H

#include "store/bundle.h"

#define SIGNERS_MAX 64

struct signers {
    size_t count;
    uint8_t keys[SIGNERS_MAX][32];
};

/* Every key of a file, which is held to what a bundle's own file is (bundle_open): whoever can
 * write to it decides whom to trust. `what` messages call it: "the key file". QUERN_E_IO: it cannot
 * be read. QUERN_E_CACHE with the reason, also for a file with no key or a line that is none. */
quern_status signers_read(const char *what, const char *path, struct signers *signers);

/* Reads the 32 bytes of the secret key in a file that has one line "quern-secret-key HEX". The file
 * is checked as signers_read checks its own, and beyond that nobody but its owner may have any
 * access to it. `what` is what messages call the file. QUERN_E_IO: it cannot be read. QUERN_E_CACHE
 * with the reason: it is not such a file, or others have access to it. */
quern_status signer_read_secret(const char *what, const char *path, uint8_t seed[32]);

/* The number of a public key among those of the signers; their count when it is none of them. */
size_t signers_find(const struct signers *signers, const uint8_t public_key[32]);

/* QUERN_OK when one of them signed every byte of the bundle, else QUERN_E_OBJECT; QUERN_E_IO. Reads
 * the whole bundle, in pieces; entries that change afterwards are not given
 * (bundle_sign_update). */
quern_status bundle_check_signature(struct bundle *bundle, const struct signers *signers);

#endif
