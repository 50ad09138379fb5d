/* SPDX-License-Identifier: MIT */
/*
 * What the full check knows of a large buffer: one bit for each byte, or a name (a number) for each
 * granule of 32 bytes. It takes memory for what is mixed only: pages, which are for 512 or 4096
 * bytes of the buffer, are allocated when a bit of theirs is set and given back when all are, and
 * so are the nodes above them, which are for 2 MiB. Names are never given back before the plane is
 * cleared.
 *
 * All pages are taken from a heap, which counts them and has a limit, so that memory is bounded
 * whatever a kernel does; what finds no room says so. A plane has no lock of its own: who shares
 * one keeps others from the region (PLANE_REGION bytes of the buffer) meanwhile.
 */
#ifndef QUERN_SIM_PLANE_H
#define QUERN_SIM_PLANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLANE_REGION_BITS 21
#define PLANE_REGION      ((uint64_t)1 << PLANE_REGION_BITS)

/* Thread-safe. */
struct plane_heap {
    atomic_size_t bytes; /* taken now */
    size_t limit;
};

struct plane_node;
struct plane {
    struct plane_node **nodes; /* one for each region */
    uint64_t count;
    unsigned page_bits;
};

/* Pages take an eighth of what they are for, and the small ones a sixth; they are for planes of
 * which a little is touched here and there. */
enum plane_page_bits { PLANE_SMALL_PAGES = 9, PLANE_LARGE_PAGES = 12 };

/* An empty plane for a buffer of so many bytes; false when there is no room. */
bool plane_make(struct plane *p, struct plane_heap *heap, uint64_t bytes,
                enum plane_page_bits page_bits);
void plane_free(struct plane *p, struct plane_heap *heap);
/* Empties it. */
void plane_clear(struct plane *p, struct plane_heap *heap);

/* The bits of bytes [at, at + n), n <= 64, from bit 0 on. */
uint64_t plane_bits(const struct plane *p, uint64_t at, unsigned n);
/* Sets those of them that `bits` has; false when there is no room. */
bool plane_add(struct plane *p, struct plane_heap *heap, uint64_t at, unsigned n, uint64_t bits);

/* A granule's name: 0 if it has none. */
#define PLANE_SEVERAL 0xffffffffu
uint32_t plane_name(const struct plane *p, uint64_t at);
/* Names the granules of bytes [at, at + n); one that has another name becomes PLANE_SEVERAL. */
bool plane_set_name(struct plane *p, struct plane_heap *heap, uint64_t at, unsigned n,
                    uint32_t name);

#endif
