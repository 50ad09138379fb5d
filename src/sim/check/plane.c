/* SPDX-License-Identifier: MIT */
/* What the full check knows of a large buffer, by bytes or by granules (plane.h), in little
 * memory. */
#include "sim/check/plane.h"
#include "base/os.h"

#define GRANULE_BITS 5

struct plane_page {
    uint32_t set; /* how many bits are */
    union {
        uint64_t bits[1];
        uint32_t names[2];
    }; /* as many as a page of the plane needs */
};

struct plane_node {
    uint32_t full; /* how many pages are */
    struct plane_page *pages[];
};

/* Stand for pages and nodes whose bits are all set. */
static struct plane_page full_page;
static struct plane_node full_node;

/* Bits and names need the same. */
static size_t page_size(const struct plane *p)
{
    return offsetof(struct plane_page, bits) + ((size_t)1 << p->page_bits) / 8;
}

static size_t page_count(const struct plane *p)
{
    return (size_t)1 << (PLANE_REGION_BITS - p->page_bits);
}

static size_t node_size(const struct plane *p)
{
    return sizeof(struct plane_node) + page_count(p) * sizeof(struct plane_page *);
}

/* The place of a byte in its node, and in its page. */
static size_t page_index(const struct plane *p, uint64_t at)
{
    return at >> p->page_bits & (page_count(p) - 1);
}

static uint64_t in_page(const struct plane *p, uint64_t at)
{
    return at & (((uint64_t)1 << p->page_bits) - 1);
}

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

bool plane_make(struct plane *p, struct plane_heap *heap, uint64_t bytes,
                enum plane_page_bits page_bits)
{
    const uint64_t count = (bytes >> PLANE_REGION_BITS) + 1;

    *p = (struct plane){
        .nodes = take(heap, count, sizeof *p->nodes), .count = count, .page_bits = page_bits};
    return p->nodes != NULL;
}

void plane_clear(struct plane *p, struct plane_heap *heap)
{
    for (uint64_t n = 0; n < p->count && p->nodes; n++) {
        struct plane_node *const node = p->nodes[n];
        p->nodes[n] = NULL;
        if (!node || node == &full_node)
            continue;
        for (size_t k = 0; k < page_count(p); k++)
            if (node->pages[k] != &full_page)
                give(heap, node->pages[k], page_size(p));
        give(heap, node, node_size(p));
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

    return node == &full_node ? &full_page : node ? node->pages[page_index(p, at)] : NULL;
}

/* The page of a byte, made if there is none; null when there is no room. */
static struct plane_page *need_page(struct plane *p, struct plane_heap *heap, uint64_t at)
{
    struct plane_node **const node = &p->nodes[at >> PLANE_REGION_BITS];

    if (*node == &full_node)
        return &full_page;
    if (!*node && !(*node = take(heap, 1, node_size(p))))
        return NULL;
    struct plane_page **const page = &(*node)->pages[page_index(p, at)];
    if (!*page)
        *page = take(heap, 1, page_size(p));
    return *page;
}

/* Gives back a page whose bits are all set, and its node if it was the last such. */
static void merge(struct plane *p, struct plane_heap *heap, uint64_t at)
{
    struct plane_node **const node = &p->nodes[at >> PLANE_REGION_BITS];
    struct plane_page **const page = &(*node)->pages[page_index(p, at)];

    give(heap, *page, page_size(p));
    *page = &full_page;
    if (++(*node)->full < page_count(p))
        return;
    give(heap, *node, node_size(p));
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
                                                   : page->bits[in_page(p, at + done) / 64];
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
        uint64_t *const word = &page->bits[in_page(p, at + done) / 64];
        page->set += (uint32_t)__builtin_popcountll(add & ~*word);
        *word |= add;
        if (page->set == 1u << p->page_bits)
            merge(p, heap, at + done);
    }
    return true;
}

uint32_t plane_name(const struct plane *p, uint64_t at)
{
    const struct plane_page *const page = find_page(p, at);

    return page ? page->names[in_page(p, at) >> GRANULE_BITS] : 0;
}

bool plane_set_name(struct plane *p, struct plane_heap *heap, uint64_t at, unsigned n,
                    uint32_t name)
{
    for (uint64_t granule = at >> GRANULE_BITS; granule <= (at + n - 1) >> GRANULE_BITS;
         granule++) {
        struct plane_page *const page = need_page(p, heap, granule << GRANULE_BITS);
        if (!page)
            return false;
        uint32_t *const is = &page->names[in_page(p, granule << GRANULE_BITS) >> GRANULE_BITS];
        *is = !*is || *is == name ? name : PLANE_SEVERAL;
    }
    return true;
}
