/* SPDX-License-Identifier: MIT */
/*
 * Ed25519 signatures of bundles (libsodium), and the text files that keys are kept in.
 *
 * A key file has one key a line: "quern-public-key HEX" (32 bytes), or "quern-secret-key HEX" (the
 * 32 bytes it is made of). Empty lines and lines that begin with '#' say nothing.
 */
#ifndef TOOLS_SIGNATURE_H
#define TOOLS_SIGNATURE_H

#include "command.h"

#include <stdint.h>

enum { PUBLIC_KEY_BYTES = 32, SECRET_SEED_BYTES = 32, SIGNATURE_VALUE_BYTES = 64 };
#define PUBLIC_KEYS_MAX 64

struct public_keys {
    size_t count;
    uint8_t keys[PUBLIC_KEYS_MAX][PUBLIC_KEY_BYTES];
};

/* Writes a new pair: the secret key's file has mode 0600, and neither may exist yet. */
int signature_new_pair(const char *secret_path, const char *public_path);

/* Every public key of a file; EXIT_FAILED when it has none or a line that is no key. */
int signature_read_public(const char *path, struct public_keys *keys);

/* Signs `bytes` with the key of a file that nobody but its owner may read. */
int signature_make(const char *secret_path, const void *bytes, size_t size,
                   uint8_t public_key[PUBLIC_KEY_BYTES], uint8_t value[SIGNATURE_VALUE_BYTES]);

/* EXIT_OK when `value` is `key`'s signature of the bytes and `key` is one of `trusted`; else a line
 * that says which is not so. */
int signature_check(const struct public_keys *trusted, const uint8_t key[PUBLIC_KEY_BYTES],
                    const uint8_t value[SIGNATURE_VALUE_BYTES], const void *bytes, size_t size);

#endif
