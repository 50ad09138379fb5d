/* SPDX-License-Identifier: MIT */
/*
 * Making Ed25519 signatures of bundles (libsodium), and the text files that keys are kept in. The
 * library checks signatures.
 *
 * A key file has one key a line: "quern-public-key HEX" (32 bytes), or "quern-secret-key HEX" (the
 * 32 bytes it is made of). Empty lines and lines that begin with '#' say nothing.
 */
#ifndef TOOLS_SIGNING_H
#define TOOLS_SIGNING_H

#include "command/command.h"

#include <stdint.h>

enum { PUBLIC_KEY_BYTES = 32, SECRET_SEED_BYTES = 32, SIGNATURE_VALUE_BYTES = 64 };

/* Writes a new pair: the secret key's file has mode 0600, and neither may exist yet. */
int signature_new_pair(const char *secret_path, const char *public_path);

/* The 32 bytes of the secret key of a file that is its owner's alone. */
int signature_seed(const char *path, uint8_t seed[SECRET_SEED_BYTES]);

/* Signs a message as it is, not prehashed, with the key that is made of these 32 bytes. */
void signature_of_message(const uint8_t seed[SECRET_SEED_BYTES], const void *message, size_t size,
                          uint8_t public_key[PUBLIC_KEY_BYTES],
                          uint8_t value[SIGNATURE_VALUE_BYTES]);

/* Signs `bytes` with the key of a file that nobody but its owner may read. */
int signature_make(const char *secret_path, const void *bytes, size_t size,
                   uint8_t public_key[PUBLIC_KEY_BYTES], uint8_t value[SIGNATURE_VALUE_BYTES]);

#endif
