/* SPDX-License-Identifier: MIT */
/*
 * What the full check knows of the bytes of buffers: whether a kernel has written what only kernels
 * write, and which bytes workgroups of a launch have touched.
 *
 * Of a launch, a buffer has five planes that all threads share: bytes that a workgroup has written,
 * changed by an atomic, read, and that a second workgroup has changed by an atomic, or read. The
 * workgroup at hand of each thread has three of its own: what it has written, changed by an atomic
 * and read itself. Another one has written a byte if the first kind says so and the second does
 * not; so no number of workgroup need be kept for each byte. Who it was is noted by granules, in a
 * small heap of its own, for the words of the finding; when that is full, it says "other
 * workgroups".
 */
#ifndef QUERN_SIM_RACE_H
#define QUERN_SIM_RACE_H

#include "sim/check/plane.h"

#include <pthread.h>

enum track_kind { TRACK_LOAD, TRACK_STORE, TRACK_ATOMIC };

/* All pages of a software GPU, so that what it takes beyond the operands stays below 2 GiB: a page
 * has half a thousand bytes for each 4096 of a buffer and each plane. */
#define RACE_HEAP_BYTES ((size_t)1664 << 20)
#define RACE_NAME_BYTES ((size_t)64 << 20)
#define RACE_LOCKS      64

/* Of a software GPU. */
struct race_heap {
    struct plane_heap planes, names;
    pthread_mutex_t locks[RACE_LOCKS]; /* each of some regions of shared planes */
};

/* Of a launch and a buffer. */
struct race {
    struct plane written, changed, changed_again, read, read_again;
    struct plane writers, readers; /* names: number of the workgroup + 1 */
    atomic_bool unnamed;           /* some had no room */
};

/* Of a thread's workgroup and a buffer. */
struct race_own {
    struct plane written, changed, read;
    bool used; /* since it was cleared */
};

struct group;
struct mapping;

/* What another workgroup did to a byte. */
struct race_found {
    uint64_t offset; /* in the buffer */
    const char *did;
    uint32_t name; /* as in the plane: 0 or PLANE_SEVERAL if it is not known who */
};

enum race_result { RACE_NONE, RACE_FOUND, RACE_NO_ROOM };

void race_heap_init(struct race_heap *heap);
void race_heap_destroy(struct race_heap *heap);

/*
 * The workgroup touches `bytes` (1 to 64) bytes of a writable buffer at a guest address. Gives in
 * *undefined which of them no kernel has written yet, if only kernels write the buffer.
 * Thread-safe.
 */
enum race_result race_touch(struct group *g, const struct mapping *map, uint64_t address,
                            unsigned bytes, enum track_kind kind, uint64_t *undefined,
                            struct race_found *found);
/* The bytes were written with defined bits; false when there is no room to know it. */
bool race_define(struct group *g, const struct mapping *map, uint64_t address, unsigned bytes);

/* Before the next workgroup; and at the end of a thread, and of a launch of `count` buffers. */
void race_own_clear(struct race_heap *heap, struct race_own *own, size_t count);
void race_own_free(struct race_heap *heap, struct race_own *own, size_t count);
void race_free(struct race_heap *heap, _Atomic(struct race *) *races, size_t count);

#endif
