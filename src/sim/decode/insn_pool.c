/* SPDX-License-Identifier: MIT */
/* Memory for decoded instructions (parse.h), which is given back all at once. */
#include "sim/decode/parse.h"
#include "base/os.h"

#include <string.h>

#define BLOCK_BYTES 65536

struct pool_block {
    struct pool_block *next;
    size_t used, size;
    char bytes[] __attribute__((aligned(64)));
};

void *pool_take(struct pool *pool, size_t bytes, size_t align)
{
    struct pool_block *block = pool->blocks;
    size_t at = block ? (block->used + align - 1) & ~(align - 1) : 0;

    if (!block || at > block->size || block->size - at < bytes) {
        const size_t size = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
        const size_t whole = (sizeof *block + size + 63) & ~(size_t)63;
        block = os.aligned_alloc(64, whole);
        if (!block)
            return NULL;
        *block = (struct pool_block){.next = pool->blocks, .size = size};
        pool->blocks = block;
        at = 0;
    }
    block->used = at + bytes;
    return block->bytes + at;
}

void pool_free(struct pool *pool)
{
    while (pool->blocks) {
        struct pool_block *const next = pool->blocks->next;
        os.free(pool->blocks);
        pool->blocks = next;
    }
}

/* ---- Rows by name ---------------------------------------------------------------------------- */

static size_t hash_name(const char *name)
{
    size_t h = 14695981039346656037u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h ^ h >> 29;
}

quern_status row_index_make(const struct sim_bodies *bodies, struct row_index *index)
{
    size_t count = 0, slots = 1;

    for (const struct sim_row *const *table = bodies->tables; *table; table++)
        for (const struct sim_row *row = *table; row->name; row++)
            count++;
    while (slots < 2 * count)
        slots *= 2;
    index->slots = os.calloc(slots, sizeof *index->slots);
    FAIL_IF(!index->slots, QUERN_E_MEMORY, "out of memory for %zu instruction names", slots);
    index->mask = slots - 1;
    for (const struct sim_row *const *table = bodies->tables; *table; table++)
        for (const struct sim_row *row = *table; row->name; row++) {
            size_t at = hash_name(row->name) & index->mask;
            while (index->slots[at] && strcmp(index->slots[at]->name, row->name))
                at = (at + 1) & index->mask;
            if (!index->slots[at])
                index->slots[at] = row;
        }
    return QUERN_OK;
}

void row_index_free(struct row_index *index)
{
    os.free(index->slots);
    *index = (struct row_index){0};
}

const struct sim_row *row_index_find(const struct row_index *index, const char *name)
{
    size_t at = hash_name(name) & index->mask;

    while (index->slots[at] && strcmp(index->slots[at]->name, name))
        at = (at + 1) & index->mask;
    return index->slots[at];
}
