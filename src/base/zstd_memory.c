/* SPDX-License-Identifier: MIT */
/* zstd's memory (zstd_memory.h). */
#include "base/zstd_memory.h"

#include "base/os.h"

static void *take(void *user, size_t size)
{
    (void)user;
    return os.malloc(size);
}

static void give(void *user, void *p)
{
    (void)user;
    os.free(p);
}

const ZSTD_customMem zstd_memory = {.customAlloc = take, .customFree = give};
