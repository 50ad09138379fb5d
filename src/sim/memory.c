/* SPDX-License-Identifier: MIT */
/* The guest's address space (memory.h): what is mapped where, with which rights. */
#include "sim/memory.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

/* Guest addresses look like a GPU's: 47 bits, far from zero. The gap between two mappings is wide
 * enough that running off the end of one is never an access to the next. */
#define GUEST_BEGIN 0x700000000000u
#define GUEST_END   0x7f0000000000u
#define GUEST_GAP   0x10000u
#define GUEST_ALIGN 0x100u

/* Finds room at or above `from`; *index is where the mapping goes in the table. */
static bool find_room(const struct memory *memory, uint64_t from, uint64_t bytes, uint64_t *address,
                      size_t *index)
{
    size_t i = memory_after(memory, from);

    for (;; i++) {
        const uint64_t end = i < memory->count ? memory->maps[i].begin - GUEST_GAP : GUEST_END;
        if (end > from && end - from >= bytes)
            break;
        if (i == memory->count)
            return false;
        from = (memory->maps[i].end + GUEST_GAP + GUEST_ALIGN - 1) & ~(uint64_t)(GUEST_ALIGN - 1);
    }
    *address = from;
    *index = i;
    return true;
}

quern_status memory_add_parts(struct memory *memory, size_t bytes, const struct mapping *parts,
                              size_t count, uint64_t *address)
{
    uint64_t at = 0;
    size_t index = 0;

    FAIL_IF(bytes > GUEST_END - GUEST_BEGIN, QUERN_E_ARGUMENT,
            "a buffer of %zu bytes is larger than the address space", bytes);
    if (memory->capacity - memory->count < count) {
        const size_t capacity = memory->capacity * 2 + count + 8;
        struct mapping *const maps = os.realloc(memory->maps, capacity * sizeof *maps);
        FAIL_IF(!maps, QUERN_E_MEMORY, "out of memory for %zu mappings", capacity);
        memory->maps = maps;
        memory->capacity = capacity;
    }
    /* going round, so that an address is not soon given to another buffer */
    if (memory->next < GUEST_BEGIN || !find_room(memory, memory->next, bytes, &at, &index)) {
        FAIL_IF(!find_room(memory, GUEST_BEGIN, bytes, &at, &index), QUERN_E_MEMORY,
                "no room for %zu bytes in the guest address space", bytes);
    }
    memory->next = (at + bytes + GUEST_GAP + GUEST_ALIGN - 1) & ~(uint64_t)(GUEST_ALIGN - 1);
    memmove(memory->maps + index + count, memory->maps + index,
            (memory->count - index) * sizeof *memory->maps);
    memory->count += count;
    for (size_t i = 0; i < count; i++) {
        struct mapping *const map = memory->maps + index + i;
        *map = parts[i];
        map->begin += at;
        map->end += at;
    }
    *address = at;
    return QUERN_OK;
}

quern_status memory_add(struct memory *memory, void *host, size_t bytes, uint32_t access,
                        const char *name, uint64_t *address)
{
    struct mapping part = {.end = bytes, .host = host, .access = access};

    snprintf(part.name, sizeof part.name, "%s", name ? name : "unnamed");
    return memory_add_parts(memory, bytes, &part, 1, address);
}

bool memory_remove(struct memory *memory, uint64_t address)
{
    size_t i = 0;

    while (i < memory->count && memory->maps[i].begin != address)
        i++;
    if (i == memory->count)
        return false;
    struct former *const former = &memory->former[memory->removed++ % FORMER_COUNT];
    former->begin = memory->maps[i].begin;
    former->end = memory->maps[i].end;
    memcpy(former->name, memory->maps[i].name, sizeof former->name);
    memory->count--;
    memmove(memory->maps + i, memory->maps + i + 1, (memory->count - i) * sizeof *memory->maps);
    return true;
}

quern_status memory_copy(const struct memory *from, struct memory *to)
{
    /* room for the one mapping that a launch adds: its arguments */
    const size_t capacity = from->count + 1;

    *to = *from;
    to->maps = os.malloc(capacity * sizeof *to->maps);
    FAIL_IF(!to->maps, QUERN_E_MEMORY, "out of memory for %zu mappings", capacity);
    if (from->count)
        memcpy(to->maps, from->maps, from->count * sizeof *to->maps);
    to->capacity = capacity;
    return QUERN_OK;
}

void memory_free(struct memory *memory)
{
    os.free(memory->maps);
    *memory = (struct memory){0};
}
