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

/* Signs `bytes` with the key of a file that nobody but its owner may read. */
int signature_make(const char *secret_path, const void *bytes, size_t size,
                   uint8_t public_key[PUBLIC_KEY_BYTES], uint8_t value[SIGNATURE_VALUE_BYTES]);

#endif
