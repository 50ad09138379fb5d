/* SPDX-License-Identifier: MIT */
/*
 * A claim: a few words that a machine writes beside the entries of a remote cache before it
 * compiles one of them, so that others that lack the same entry wait for it. It is not signed, and
 * nothing that runs depends on it: whoever may write there can make others wait for some minutes
 * and no longer, or have them compile what another compiles as well.
 */
#ifndef QUERN_STORE_CLAIM_H
#define QUERN_STORE_CLAIM_H

#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLAIM_NAME_BYTES 64
#define CLAIM_BYTES_MAX  96 /* as written */

enum claim_state {
    CLAIM_MAKES, /* its machine makes the entry */
    CLAIM_LEFT   /* its machine could not: nobody need wait, whoever needs the kernel compiles it */
};

struct claim {
    enum claim_state state;
    char token[33]; /* hexadecimal digits that tell it from any other */
    uint64_t until; /* when it ends: seconds since 1970, by the clock of who wrote it */
};

/* Where the claim for a key lies, below a remote's address. */
void claim_name(const struct hash128 *key, char name[CLAIM_NAME_BYTES]);
/* A claim from now on, for so many seconds, with a token of its own. */
struct claim claim_make(enum claim_state state, int lasts_s);
/* Seconds until its time is over, by this machine's clock; 0: it is. */
int claim_left_s(const struct claim *claim);
/* Writes it; the number of bytes. */
size_t claim_write(const struct claim *claim, char text[CLAIM_BYTES_MAX]);
/* Reads what a server sent for a claim; false: it is none. */
bool claim_read(const void *bytes, size_t size, struct claim *claim);

#endif
