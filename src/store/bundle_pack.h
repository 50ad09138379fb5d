/* SPDX-License-Identifier: MIT */
/*
 * How bundles are compressed: each entry alone, by zstd, with one dictionary that has what the
 * entries share (texts of templates, heads of code objects). So any entry is read at the cost of
 * itself and, once for each bundle that is open, of the dictionary. The same entries give the same
 * bytes wherever they are packed by the same release of zstd, which is part of the library.
 */
#ifndef QUERN_STORE_BUNDLE_PACK_H
#define QUERN_STORE_BUNDLE_PACK_H

#include "base/error.h"

#include <stdbool.h>

#include <stddef.h>

/* The largest dictionary. Of 606 kernels of five targets, 128 KiB give 4.9, 256 KiB 3.7 and 512 KiB
 * 2.6 KB for each; what is gained is paid for by every process that opens a bundle. */
#define DICTIONARY_BYTES_MAX ((size_t)256 << 10)

struct piece_bytes {
    const void *bytes;
    size_t size;
};

/* Makes the dictionary of such entries: malloc'ed, *size at most DICTIONARY_BYTES_MAX, and 0 if
 * they have nothing in common. QUERN_E_MEMORY. */
quern_status dictionary_make(const struct piece_bytes *entries, size_t count, void **dictionary,
                             size_t *size);

/* Packs `count` entries one after another with the same dictionary; one of 0 bytes is none. */
struct packer;
quern_status packer_open(size_t count, const void *dictionary, size_t size, struct packer **packer);
quern_status packer_pack(struct packer *packer, struct piece_bytes from, void **packed,
                         size_t *size);
void packer_close(struct packer *packer); /* null is allowed */

#endif
