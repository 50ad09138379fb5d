/* SPDX-License-Identifier: MIT */
/*
 * A sealed entry: an entry as the cache has it, unchanged, and behind it who signed it. It is what
 * lies on a remote cache, for hosts that trust neither its server nor the line to it.
 *
 * The seal is SEAL_BYTES: eight magic bytes, the version (u32), zero (u32), the public key (32),
 * and an Ed25519 signature (64) of a text of tagged fields as key texts are made of (base/hash.h):
 * what the signature is of, the entry's format version, target and toolchain from its key text, the
 * BLAKE2b-256 of the object and of the whole entry, and the key text. docs/formats.md has it.
 */
#ifndef QUERN_STORE_SEAL_H
#define QUERN_STORE_SEAL_H

#include "store/signature.h"

#include <quern/tool.h>

#define SEAL_BYTES 112

/* Where a remote has the entry of a key, or of a source key, below its address: as the cache has
 * entries, "v1/objects/ab/cdef….qk", but that the source key's is an entry too. */
#define SEAL_NAME_BYTES 64
void seal_name(const struct hash128 *key, bool by_source, char name[SEAL_NAME_BYTES]);

/* Reads an entry that came from elsewhere, sealed or, where `signers` is null, plain; *entry_bytes
 * are the first of `bytes`, without the seal, which the record points into. With `signers` one of
 * them must have sealed it. QUERN_E_OBJECT with the reason; QUERN_E_MEMORY. */
quern_status seal_open(const void *bytes, size_t size, const struct signers *signers,
                       struct store_record *record, size_t *entry_bytes);

/* Encodes an entry and seals it as `sign` signs; null: it stays plain. *bytes is malloc'ed.
 * QUERN_E_ARGUMENT (no object, too large), QUERN_E_OBJECT (no kernel's key text), QUERN_E_MEMORY.
 */
quern_status seal_make(const struct store_record *record, quern_sign_fn sign, void *user,
                       void **bytes, size_t *size);

#endif
