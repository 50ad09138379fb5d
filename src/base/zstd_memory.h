/* SPDX-License-Identifier: MIT */
/* zstd, with its memory from the library's allocator: its interface for that is called static, as
 * it may change, and zstd is linked statically. */
#ifndef QUERN_BASE_ZSTD_MEMORY_H
#define QUERN_BASE_ZSTD_MEMORY_H

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

extern const ZSTD_customMem zstd_memory;

#endif
