/* SPDX-License-Identifier: MIT */
/* Which bytes workgroups have written, changed or read (race.h), so that races among them are
 * found. */
#include "sim/check/race.h"
#include "base/os.h"
#include "sim/launch.h"

void race_heap_init(struct race_heap *heap)
{
    atomic_init(&heap->planes.bytes, 0);
    atomic_init(&heap->names.bytes, 0);
    heap->planes.limit = RACE_HEAP_BYTES;
    heap->names.limit = RACE_NAME_BYTES;
    for (unsigned n = 0; n < RACE_LOCKS; n++)
        pthread_mutex_init(&heap->locks[n], NULL);
}

void race_heap_destroy(struct race_heap *heap)
{
    for (unsigned n = 0; n < RACE_LOCKS; n++)
        pthread_mutex_destroy(&heap->locks[n]);
}

/* ---- Planes ---------------------------------------------------------------------------------- */

static void free_planes(struct race_heap *heap, struct race *race)
{
    plane_free(&race->written, &heap->planes);
    plane_free(&race->changed, &heap->planes);
    plane_free(&race->changed_again, &heap->planes);
    plane_free(&race->read, &heap->planes);
    plane_free(&race->read_again, &heap->planes);
    plane_free(&race->writers, &heap->names);
    plane_free(&race->readers, &heap->names);
    os.free(race);
}

void race_free(struct race_heap *heap, _Atomic(struct race *) *races, size_t count)
{
    for (size_t n = 0; n < count && races; n++)
        if (atomic_load(&races[n]))
            free_planes(heap, atomic_load(&races[n]));
    os.free((void *)races);
}

void race_own_clear(struct race_heap *heap, struct race_own *own, size_t count)
{
    for (size_t n = 0; n < count; n++)
        if (own[n].used) {
            plane_clear(&own[n].written, &heap->planes);
            plane_clear(&own[n].changed, &heap->planes);
            plane_clear(&own[n].read, &heap->planes);
            own[n].used = false;
        }
}

void race_own_free(struct race_heap *heap, struct race_own *own, size_t count)
{
    for (size_t n = 0; n < count && own; n++) {
        plane_free(&own[n].written, &heap->planes);
        plane_free(&own[n].changed, &heap->planes);
        plane_free(&own[n].read, &heap->planes);
    }
    os.free(own);
}

static struct race *make_race(struct race_heap *heap, uint64_t bytes)
{
    struct race *const race = os.calloc(1, sizeof *race);

    if (!race)
        return NULL;
    if (plane_make(&race->written, &heap->planes, bytes, PLANE_LARGE_PAGES) &&
        plane_make(&race->changed, &heap->planes, bytes, PLANE_LARGE_PAGES) &&
        plane_make(&race->changed_again, &heap->planes, bytes, PLANE_LARGE_PAGES) &&
        plane_make(&race->read, &heap->planes, bytes, PLANE_LARGE_PAGES) &&
        plane_make(&race->read_again, &heap->planes, bytes, PLANE_LARGE_PAGES) &&
        plane_make(&race->writers, &heap->names, bytes, PLANE_LARGE_PAGES) &&
        plane_make(&race->readers, &heap->names, bytes, PLANE_LARGE_PAGES))
        return race;
    free_planes(heap, race);
    return NULL;
}

/* The shared planes of a buffer; null when there is no room. */
static struct race *race_of(struct run *run, size_t index, uint64_t bytes)
{
    _Atomic(struct race *) *const at = &run->races[index];
    struct race *race = atomic_load_explicit(at, memory_order_acquire);

    if (race)
        return race;
    pthread_mutex_lock(&run->lock);
    race = atomic_load_explicit(at, memory_order_relaxed);
    if (!race) {
        race = make_race(&run->module->sim->race_heap, bytes);
        atomic_store_explicit(at, race, memory_order_release);
    }
    pthread_mutex_unlock(&run->lock);
    return race;
}

/* ---- Touching -------------------------------------------------------------------------------- */

/* One access, or the part of it that is in one region. */
struct touch {
    struct race_heap *heap;
    struct race *race; /* null: nobody to race with */
    struct race_own *own;
    uint64_t at; /* offset in the buffer */
    unsigned bytes;
    uint32_t me;
    struct race_found *found;
};

static enum race_result found_race(const struct touch *t, uint64_t bits, const char *did,
                                   const struct plane *names)
{
    t->found->offset = t->at + (unsigned)__builtin_ctzll(bits);
    t->found->did = did;
    t->found->name = atomic_load(&t->race->unnamed) ? 0 : plane_name(names, t->found->offset);
    return RACE_FOUND;
}

/* Without room for names, those that there are may not be all. */
static void set_name(const struct touch *t, struct plane *names)
{
    if (!plane_set_name(names, &t->heap->names, t->at, t->bytes, t->me))
        atomic_store(&t->race->unnamed, true);
}

/* A byte that was changed by an atomic may be loaded by others: an atomic load looks like any
 * other. */
static enum race_result touch_load(const struct touch *t, uint64_t fresh)
{
    struct race *const r = t->race;
    const uint64_t written = plane_bits(&r->written, t->at, t->bytes);
    const uint64_t changed = plane_bits(&r->changed, t->at, t->bytes);

    fresh &= ~plane_bits(&t->own->read, t->at, t->bytes);
    if (written & ~changed & fresh)
        return found_race(t, written & ~changed & fresh, "written", &r->writers);
    const uint64_t again = plane_bits(&r->read, t->at, t->bytes) & fresh;
    set_name(t, &r->readers);
    return plane_add(&r->read, &t->heap->planes, t->at, t->bytes, fresh) &&
                   plane_add(&r->read_again, &t->heap->planes, t->at, t->bytes, again)
               ? RACE_NONE
               : RACE_NO_ROOM;
}

/* Which of the bytes that a second workgroup has touched too, or that one has but not this one. */
static uint64_t by_others(const struct touch *t, const struct plane *by_one,
                          const struct plane *by_two, const struct plane *by_me)
{
    return (plane_bits(by_one, t->at, t->bytes) & ~plane_bits(by_me, t->at, t->bytes)) |
           plane_bits(by_two, t->at, t->bytes);
}

static enum race_result touch_store(const struct touch *t, uint64_t fresh)
{
    struct race *const r = t->race;
    const uint64_t written = plane_bits(&r->written, t->at, t->bytes);
    const uint64_t changed = by_others(t, &r->changed, &r->changed_again, &t->own->changed);
    const uint64_t read = by_others(t, &r->read, &r->read_again, &t->own->read);

    if (changed & fresh)
        return found_race(t, changed & fresh, "changed by an atomic", &r->writers);
    if (written & fresh)
        return found_race(t, written & fresh, "written", &r->writers);
    if (read & fresh)
        return found_race(t, read & fresh, "read", &r->readers);
    set_name(t, &r->writers);
    return plane_add(&r->written, &t->heap->planes, t->at, t->bytes, fresh) ? RACE_NONE
                                                                            : RACE_NO_ROOM;
}

static enum race_result touch_atomic(const struct touch *t, uint64_t all)
{
    struct race *const r = t->race;
    const uint64_t written =
        plane_bits(&r->written, t->at, t->bytes) & ~plane_bits(&t->own->written, t->at, t->bytes);
    const uint64_t again =
        plane_bits(&r->changed, t->at, t->bytes) & ~plane_bits(&t->own->changed, t->at, t->bytes);

    if (written)
        return found_race(t, written, "written", &r->writers);
    set_name(t, &r->writers);
    return plane_add(&r->changed, &t->heap->planes, t->at, t->bytes, all) &&
                   plane_add(&r->changed_again, &t->heap->planes, t->at, t->bytes, again)
               ? RACE_NONE
               : RACE_NO_ROOM;
}

static pthread_mutex_t *region_lock(struct race_heap *heap, const struct mapping *map, uint64_t at)
{
    const uint64_t number = (map->begin >> PLANE_REGION_BITS) + (at >> PLANE_REGION_BITS);
    return &heap->locks[number % RACE_LOCKS];
}

/* An access within one region. */
static enum race_result touch(const struct touch *t, const struct mapping *map,
                              enum track_kind kind, uint64_t *undefined)
{
    const uint64_t all = ~(uint64_t)0 >> (64 - t->bytes);
    uint64_t known = 0; /* bytes that this access can tell nothing new of */
    enum race_result result = RACE_NONE;

    *undefined = 0;
    if (t->race) {
        /* who touches later what this workgroup has written sees that, whatever else it did */
        known = plane_bits(&t->own->written, t->at, t->bytes);
        if (kind == TRACK_LOAD && !map->defined)
            known |= plane_bits(&t->own->read, t->at, t->bytes);
        known = kind == TRACK_ATOMIC ? 0 : known;
        if (known == all)
            return RACE_NONE;
    } else if (!map->defined) {
        return RACE_NONE;
    }
    pthread_mutex_t *const lock = region_lock(t->heap, map, t->at);
    pthread_mutex_lock(lock);
    if (map->defined)
        *undefined = all & ~plane_bits(map->defined, t->at, t->bytes);
    if (t->race)
        result = kind == TRACK_LOAD    ? touch_load(t, all & ~known)
                 : kind == TRACK_STORE ? touch_store(t, all & ~known)
                                       : touch_atomic(t, all);
    pthread_mutex_unlock(lock);
    if (result != RACE_NONE || !t->race)
        return result;
    struct plane *const mine = kind == TRACK_LOAD    ? &t->own->read
                               : kind == TRACK_STORE ? &t->own->written
                                                     : &t->own->changed;
    t->own->used = true;
    return plane_add(mine, &t->heap->planes, t->at, t->bytes, all) ? RACE_NONE : RACE_NO_ROOM;
}

/* The part of an access of `bytes` bytes at an address that is in its first region. */
static unsigned in_region(uint64_t address, unsigned bytes)
{
    const uint64_t left = PLANE_REGION - (address & (PLANE_REGION - 1));
    return left < bytes ? (unsigned)left : bytes;
}

enum race_result race_touch(struct group *g, const struct mapping *map, uint64_t address,
                            unsigned bytes, enum track_kind kind, uint64_t *undefined,
                            struct race_found *found)
{
    struct run *const run = g->run;
    const size_t index = (size_t)(map - run->memory.maps);
    const uint64_t size = map->end - map->begin;
    struct touch t = {.heap = &run->module->sim->race_heap,
                      .own = &g->shadow->own[index],
                      .at = address - map->begin,
                      .me =
                          g->flat_id + 1 < PLANE_SEVERAL ? (uint32_t)g->flat_id + 1 : PLANE_SEVERAL,
                      .found = found};

    *undefined = 0;
    if (run->group_count > 1) {
        if (!(t.race = race_of(run, index, size)))
            return RACE_NO_ROOM;
        if (!t.own->written.nodes &&
            !(plane_make(&t.own->written, &t.heap->planes, size, PLANE_SMALL_PAGES) &&
              plane_make(&t.own->changed, &t.heap->planes, size, PLANE_SMALL_PAGES) &&
              plane_make(&t.own->read, &t.heap->planes, size, PLANE_SMALL_PAGES)))
            return RACE_NO_ROOM;
    }
    for (unsigned done = 0; done < bytes; done += t.bytes, t.at += t.bytes) {
        uint64_t part;
        t.bytes = in_region(t.at, bytes - done);
        const enum race_result result = touch(&t, map, kind, &part);
        if (result != RACE_NONE)
            return result;
        *undefined |= part << done;
    }
    return RACE_NONE;
}

bool race_define(struct group *g, const struct mapping *map, uint64_t address, unsigned bytes)
{
    struct race_heap *const heap = &g->run->module->sim->race_heap;
    const uint64_t at = address - map->begin;
    bool ok = true;

    for (unsigned done = 0, some; done < bytes && ok; done += some) {
        some = in_region(at + done, bytes - done);
        pthread_mutex_t *const lock = region_lock(heap, map, at + done);
        pthread_mutex_lock(lock);
        ok = plane_add(map->defined, &heap->planes, at + done, some, ~(uint64_t)0 >> (64 - some));
        pthread_mutex_unlock(lock);
    }
    return ok;
}
