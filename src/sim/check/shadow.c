/* SPDX-License-Identifier: MIT */
/* Memory and first state of shadows. */
#include "sim/check/shadow.h"
#include "base/os.h"
#include "sim/launch.h"

#include <string.h>

static size_t round_up(size_t bytes)
{
    return (bytes + 127) & ~(size_t)127;
}

static size_t rows(const struct group *g)
{
    return g->run->module->vgpr_limit + 1 + SHADOW_SPARE_ROWS;
}

static size_t scratch_size(const struct group *g)
{
    return (size_t)g->scratch_bytes * g->run->module->lanes * g->wave_count;
}

static bool make_wave(struct group *g, unsigned n)
{
    struct shadow_wave *const s = &g->shadow->waves[n];
    struct wave *const w = &g->waves[n];
    const size_t count = rows(g);

    s->w = *w;
    s->w.v = os.aligned_alloc(128, round_up(count * w->lanes * 4));
    s->w.base[OPERAND_VGPR] = (uintptr_t)s->w.v;
    s->flags = os.malloc(count);
    s->origins = os.calloc(count, sizeof *s->origins);
    s->late = os.malloc(sizeof *s->late);
    w->shadow = s;
    return s->w.v && s->flags && s->origins && s->late;
}

bool shadow_make(struct group *g)
{
    struct shadow_group *const sg = os.calloc(1, sizeof *sg);
    bool ok = sg != NULL;

    g->shadow = sg;
    if (!ok)
        return false;
    const size_t waves = round_up(g->wave_count * sizeof *sg->waves);
    sg->waves = os.aligned_alloc(128, waves);
    sg->lds = os.malloc(g->lds_bytes + 16u);
    sg->lds_owner = os.malloc(g->lds_bytes + 16u);
    sg->writers = os.calloc(g->lds_bytes + 16u, sizeof *sg->writers);
    sg->readers = os.calloc(g->lds_bytes + 16u, sizeof *sg->readers);
    sg->known = os.calloc(g->lds_bytes / 4 + 4u, sizeof *sg->known);
    sg->lds_writer = os.malloc(g->lds_bytes + 16u);
    sg->scratch = os.malloc(scratch_size(g) + 16);
    sg->own = os.calloc(g->run->memory.count + 1, sizeof *sg->own);
    ok = sg->waves && sg->lds && sg->lds_owner && sg->writers && sg->readers && sg->known &&
         sg->lds_writer && sg->scratch && sg->own;
    if (sg->waves)
        memset(sg->waves, 0, waves);
    for (unsigned n = 0; n < g->wave_count && ok; n++)
        ok = make_wave(g, n);
    return ok;
}

void shadow_free(struct group *g)
{
    struct shadow_group *const sg = g->shadow;

    if (!sg)
        return;
    for (unsigned n = 0; n < g->wave_count && sg->waves; n++) {
        os.free(sg->waves[n].w.v);
        os.free(sg->waves[n].flags);
        os.free(sg->waves[n].origins);
        os.free(sg->waves[n].late);
    }
    os.free(sg->waves);
    os.free(sg->lds);
    os.free(sg->lds_owner);
    os.free(sg->writers);
    os.free(sg->readers);
    os.free(sg->known);
    os.free(sg->lds_writer);
    os.free(sg->scratch);
    race_own_free(&g->run->module->sim->race_heap, sg->own, g->run->memory.count);
    os.free(sg);
}

static void clear_stamps(struct group *g)
{
    memset(g->shadow->writers, 0, g->lds_bytes * sizeof *g->shadow->writers);
    memset(g->shadow->readers, 0, g->lds_bytes * sizeof *g->shadow->readers);
    memset(g->shadow->known, 0, g->lds_bytes / 4 * sizeof *g->shadow->known);
    g->shadow->epoch = 1;
}

void shadow_start_group(struct group *g)
{
    memset(g->shadow->lds, 0xff, g->lds_bytes);
    memset(g->shadow->lds_owner, 0xff, g->lds_bytes);
    memset(g->shadow->lds_writer, 0, g->lds_bytes);
    g->shadow->lds_late = false;
    memset(g->shadow->scratch, 0xff, scratch_size(g));
    race_own_clear(&g->run->module->sim->race_heap, g->shadow->own, g->run->memory.count);
    clear_stamps(g);
}

void shadow_barrier(struct group *g)
{
    if (++g->shadow->epoch == STAMP_EPOCHS)
        clear_stamps(g);
    late_barrier(g);
}

void shadow_start_wave(struct wave *w, unsigned scalars, unsigned vectors)
{
    struct shadow_wave *const s = w->shadow;
    const size_t count = rows(w->group);

    memset(s->w.s, 0xff, sizeof s->w.s);
    memset(s->w.s, 0, scalars * sizeof *s->w.s);
    memset(s->w.s + S_TTMP, 0, 16 * sizeof *s->w.s);
    memset(s->w.s + S_FLAT_SCRATCH, 0, 4 * sizeof *s->w.s);
    memset(s->w.s + S_SINK, 0, (S_SPARE - S_SINK) * sizeof *s->w.s);
    s->w.s[S_NULL] = 0;
    s->w.s[S_SCC] = 1;
    for (unsigned n = 0; n < S_COUNT; n++)
        s->scalar_origins[n] = (struct origin){.kind = ORIGIN_SCALAR, .where = n};
    memset(s->w.v, 0xff, count * w->lanes * 4);
    memset(s->w.v, 0, (size_t)vectors * w->lanes * 4);
    memset(s->flags, 1, count);
    memset(s->flags, 0, vectors);
    for (size_t n = 0; n < count; n++)
        s->origins[n] = (struct origin){.kind = ORIGIN_VECTOR, .where = n};
    late_start_wave(s->late);
}
