/* SPDX-License-Identifier: MIT */
/* Guest memory: a sorted table of mappings with gaps between them. */
#ifndef QUERN_SIM_MEMORY_H
#define QUERN_SIM_MEMORY_H

#include "base/error.h"

#include <quern/sim.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plane;

/* Names of what is not an operand of the plan, by which profiles know it again. */
#define SIM_NAME_ARGUMENTS "kernarg"
#define SIM_NAME_CONSTANTS "constants of the code object"

struct mapping {
    uint64_t begin, end; /* guest addresses */
    uint8_t *host;       /* of `begin` */
    uint32_t access;     /* enum quern_sim_access bits */
    /* Full check: which bytes a kernel has written, of what only kernels write; null if all are
     * defined. What is stored in buffers is defined whole or a finding. */
    struct plane *defined;
    char name[32];
};

/* Where a mapping was that is no more. */
struct former {
    uint64_t begin, end;
    char name[32];
};
#define FORMER_COUNT 16

/* The whole table of a simulator, or a launch's copy of it. */
struct memory {
    struct mapping *maps; /* by address */
    size_t count, capacity;
    uint64_t next;                      /* where to look for room first */
    struct former former[FORMER_COUNT]; /* the last ones that were taken out, in a ring */
    unsigned removed;                   /* how many ever were */
};

/* Enters a mapping at a free address. QUERN_E_MEMORY, or QUERN_E_ARGUMENT for absurd sizes. */
quern_status memory_add(struct memory *memory, void *host, size_t bytes, uint32_t access,
                        const char *name, uint64_t *address);
/* Enters several mappings at fixed distances from each other: `begin` and `end` of each part are
 * taken as offsets from *address, which is found so that `bytes` bytes fit. */
quern_status memory_add_parts(struct memory *memory, size_t bytes, const struct mapping *parts,
                              size_t count, uint64_t *address);
/* Takes out the mapping that begins at `address`; false if there is none. */
bool memory_remove(struct memory *memory, uint64_t address);
quern_status memory_copy(const struct memory *from, struct memory *to);
void memory_free(struct memory *memory);

/* The index of the first mapping that ends after `address`; memory->count if there is none. */
size_t memory_after(const struct memory *memory, uint64_t address);
/* The mapping that holds the address, or null. */
struct mapping *memory_find(const struct memory *memory, uint64_t address);
/* The last mapping taken out that held the address, if that is known; or null. */
const struct former *memory_former(const struct memory *memory, uint64_t address);
/* The mapping nearest to the address, or null if there is none at all. */
struct mapping *memory_nearest(const struct memory *memory, uint64_t address);

#endif
