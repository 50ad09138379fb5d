/* SPDX-License-Identifier: MIT */
#include "sim/plane.h"
#include "base/os.h"

#define PAGE_BITS  12
#define PAGE_BYTES (1u << PAGE_BITS)
#define PAGES      (1u << (PLANE_REGION_BITS - PAGE_BITS)) /* of a node */
#define GRANULE_BITS 5

struct plane_page {
    uint32_t set; /* how many bits are */
    union {
        uint64_t bits[PAGE_BYTES / 64];
        uint32_t names[PAGE_BYTES >> GRANULE_BITS];
    };
};

struct plane_node {
    uint32_t full; /* how many pages are */
    struct plane_page *pages[PAGES];
};

/* Stand for pages and nodes whose bits are all set. */
static struct plane_page full_page;
static struct plane_node full_node;

static void *take(struct plane_heap *heap, size_t count, size_t bytes)
{
    const size_t sum = count * bytes;

    if (atomic_fetch_add(&heap->bytes, sum) + sum <= heap->limit) {
        void *const memory = os.calloc(count, bytes);
        if (memory)
            return memory;
    }
    atomic_fetch_sub(&heap->bytes, sum);
    return NULL;
}

static void give(struct plane_heap *heap, void *memory, size_t bytes)
{
    if (memory)
        atomic_fetch_sub(&heap->bytes, bytes);
    os.free(memory);
}

bool plane_make(struct plane *p, struct plane_heap *heap, uint64_t bytes)
{
    const uint64_t count = (bytes >> PLANE_REGION_BITS) + 1;

    *p = (struct plane){.nodes = take(heap, count, sizeof *p->nodes), .count = count};
    return p->nodes != NULL;
}

void plane_clear(struct plane *p, struct plane_heap *heap)
{
    for (uint64_t n = 0; n < p->count && p->nodes; n++) {
        struct plane_node *const node = p->nodes[n];
        p->nodes[n] = NULL;
        if (!node || node == &full_node)
            continue;
        for (unsigned k = 0; k < PAGES; k++)
            if (node->pages[k] != &full_page)
                give(heap, node->pages[k], sizeof *node->pages[k]);
        give(heap, node, sizeof *node);
    }
}

void plane_free(struct plane *p, struct plane_heap *heap)
{
    plane_clear(p, heap);
    give(heap, p->nodes, p->count * sizeof *p->nodes);
    *p = (struct plane){0};
}

static const struct plane_page *find_page(const struct plane *p, uint64_t at)
{
    const struct plane_node *const node = p->nodes[at >> PLANE_REGION_BITS];

    return node == &full_node ? &full_page : node ? node->pages[at >> PAGE_BITS & (PAGES - 1)]
                                                  : NULL;
}

/* The page of a byte, made if there is none; null when there is no room. */
static struct plane_page *need_page(struct plane *p, struct plane_heap *heap, uint64_t at)
{
    struct plane_node **const node = &p->nodes[at >> PLANE_REGION_BITS];

    if (*node == &full_node)
        return &full_page;
    if (!*node && !(*node = take(heap, 1, sizeof **node)))
        return NULL;
    struct plane_page **const page = &(*node)->pages[at >> PAGE_BITS & (PAGES - 1)];
    if (!*page)
        *page = take(heap, 1, sizeof **page);
    return *page;
}

/* Gives back a page whose bits are all set, and its node if it was the last such. */
static void merge(struct plane *p, struct plane_heap *heap, uint64_t at)
{
    struct plane_node **const node = &p->nodes[at >> PLANE_REGION_BITS];
    struct plane_page **const page = &(*node)->pages[at >> PAGE_BITS & (PAGES - 1)];

    give(heap, *page, sizeof **page);
    *page = &full_page;
    if (++(*node)->full < PAGES)
        return;
    give(heap, *node, sizeof **node);
    *node = &full_node;
}

uint64_t plane_bits(const struct plane *p, uint64_t at, unsigned n)
{
    uint64_t bits = 0;

    for (unsigned done = 0, some; done < n; done += some) {
        const struct plane_page *const page = find_page(p, at + done);
        const unsigned from = (unsigned)(at + done) & 63;
        const uint64_t word = !page                ? 0
                              : page == &full_page ? ~(uint64_t)0
                                                   : page->bits[(at + done) % PAGE_BYTES / 64];
        some = 64 - from < n - done ? 64 - from : n - done;
        bits |= (word >> from & ~(uint64_t)0 >> (64 - some)) << done;
    }
    return bits;
}

bool plane_add(struct plane *p, struct plane_heap *heap, uint64_t at, unsigned n, uint64_t bits)
{
    for (unsigned done = 0, some; done < n; done += some) {
        const unsigned from = (unsigned)(at + done) & 63;
        some = 64 - from < n - done ? 64 - from : n - done;
        const uint64_t add = (bits >> done & ~(uint64_t)0 >> (64 - some)) << from;
        if (!add)
            continue;
        struct plane_page *const page = need_page(p, heap, at + done);
        if (!page)
            return false;
        if (page == &full_page)
            continue;
        uint64_t *const word = &page->bits[(at + done) % PAGE_BYTES / 64];
        page->set += (uint32_t)__builtin_popcountll(add & ~*word);
        *word |= add;
        if (page->set == PAGE_BYTES)
            merge(p, heap, at + done);
    }
    return true;
}

uint32_t plane_name(const struct plane *p, uint64_t at)
{
    const struct plane_page *const page = find_page(p, at);

    return page ? page->names[at % PAGE_BYTES >> GRANULE_BITS] : 0;
}

bool plane_set_name(struct plane *p, struct plane_heap *heap, uint64_t at, unsigned n,
                    uint32_t name)
{
    for (uint64_t granule = at >> GRANULE_BITS; granule <= (at + n - 1) >> GRANULE_BITS;
         granule++) {
        struct plane_page *const page = need_page(p, heap, granule << GRANULE_BITS);
        if (!page)
            return false;
        uint32_t *const is = &page->names[granule % (PAGE_BYTES >> GRANULE_BITS)];
        *is = !*is || *is == name ? name : PLANE_SEVERAL;
    }
    return true;
}
