/* SPDX-License-Identifier: MIT */
/*
 * Profiles of launches: of every workgroup, or of one workgroup of each kind. This file is long
 * because finding the kinds, checking them and scaling counts by them share one description of the
 * grid.
 */
#include "base/os.h"
#include "sim/profile/profile.h"
#include "target/rates.h"

#include <stdio.h>
#include <string.h>

#define BUDGET_DEFAULT 200000000u
/* Workgroups that are run to find the kinds, those that are run to check them not counted. */
#define PROBES_MAX 96
/* Changes along one axis, beyond which counts are taken to vary from one workgroup to the next. */
#define BREAKS_MAX 3
/* Workgroups of a box that must count like its first; all of a box that has no more. */
#define CHECKS 8

struct probe {
    uint64_t id;
    struct profile_sums sums;
};

struct profiling {
    struct quern_sim_module *module;
    const struct quern_sim_launch *launch;
    struct profile_note *notes;
    struct probe probes[PROBES_MAX];
    size_t probe_count;
    bool irregular;                     /* too many differences for kinds */
    uint32_t starts[3][BREAKS_MAX + 1]; /* first positions of stretches that count alike */
    size_t start_count[3];
};

static quern_status run_some(const struct profiling *p, const uint64_t *only, uint64_t count,
                             struct profile_sums *sums)
{
    *sums = (struct profile_sums){.notes = p->notes, .counts = QUERN_INIT(struct quern_sim_counts)};
    const quern_status status = launch_run(p->module, p->launch, only, count, sums, &sums->counts);
    if (status != QUERN_OK)
        profile_sums_free(sums);
    return status;
}

static uint64_t number_of(const struct profiling *p, const uint32_t at[3])
{
    const uint32_t *const grid = p->launch->grid;

    return at[0] + (uint64_t)grid[0] * (at[1] + (uint64_t)grid[1] * at[2]);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* All but LDS conflicts, which may depend on data, which buffer it was, and the lines that
 * instructions have in common, which depend on where in a line a workgroup's part begins. */
static bool alike(const struct profile_sums *a, const struct profile_sums *b)
{
    for (size_t n = 0; n < a->insn_count; n++) {
        const struct profile_insn *const x = &a->insns[n], *const y = &b->insns[n];
        if (x->executed != y->executed || x->lds_least != y->lds_least ||
            x->lines128 != y->lines128 || x->lines128_least != y->lines128_least ||
            x->bytes_read != y->bytes_read || x->bytes_written != y->bytes_written)
            return false;
    }
    return a->totals.prologue_cycles == b->totals.prologue_cycles &&
           a->totals.bytes_in_flight == b->totals.bytes_in_flight;
}

/* The profile of one workgroup, run at most once. Null, with irregular set, when there are too
 * many. */
static quern_status probe(struct profiling *p, const uint32_t at[3], struct profile_sums **sums)
{
    const uint64_t id = number_of(p, at);

    for (size_t n = 0; n < p->probe_count; n++)
        if (p->probes[n].id == id) {
            *sums = &p->probes[n].sums;
            return QUERN_OK;
        }
    *sums = NULL;
    p->irregular = p->irregular || p->probe_count == PROBES_MAX;
    if (p->irregular)
        return QUERN_OK;
    struct probe *const new = &p->probes[p->probe_count];
    new->id = id;
    TRY(run_some(p, &id, 1, &new->sums));
    p->probe_count++;
    FAIL_IF(new->sums.map_count != p->probes[0].sums.map_count, QUERN_E_ARGUMENT,
            "memory was mapped or unmapped while a launch was profiled");
    *sums = &new->sums;
    return QUERN_OK;
}

/* ---- Finding kinds --------------------------------------------------------------------------- */

static void add_start(struct profiling *p, unsigned axis, uint32_t position)
{
    uint32_t *const starts = p->starts[axis];
    size_t n = p->start_count[axis];

    for (size_t k = 0; k < n; k++)
        if (starts[k] == position)
            return;
    if (n == BREAKS_MAX + 1) {
        p->irregular = true;
        return;
    }
    for (; n && starts[n - 1] > position; n--)
        starts[n] = starts[n - 1];
    starts[n] = position;
    p->start_count[axis]++;
}

/* Enters where counts change between two positions on an axis, the other two being as in `at`. */
static quern_status bisect(struct profiling *p, unsigned axis, const uint32_t at[3], uint32_t low,
                           uint32_t high)
{
    uint32_t here[3] = {at[0], at[1], at[2]};
    struct profile_sums *a, *b;

    here[axis] = low;
    TRY(probe(p, here, &a));
    here[axis] = high;
    TRY(probe(p, here, &b));
    if (!a || !b || alike(a, b))
        return QUERN_OK;
    if (high - low == 1) {
        add_start(p, axis, high);
        return QUERN_OK;
    }
    const uint32_t middle = low + (high - low) / 2;
    TRY(bisect(p, axis, at, low, middle));
    return bisect(p, axis, at, middle, high);
}

static quern_status scan_line(struct profiling *p, unsigned axis, const uint32_t at[3])
{
    const uint32_t size = p->launch->grid[axis];
    const uint32_t wanted[] = {0, 1, 2, 3, size / 3, size / 2, size / 2 + 1, size - 2, size - 1};
    uint32_t before = 0;

    for (size_t n = 0; n < sizeof wanted / sizeof *wanted && !p->irregular; n++) {
        if (wanted[n] >= size || wanted[n] <= before)
            continue;
        TRY(bisect(p, axis, at, before, wanted[n]));
        before = wanted[n];
    }
    return QUERN_OK;
}

/* Each axis along the edges of the grid: with the other two at their first and last positions. */
static quern_status find_starts(struct profiling *p)
{
    const uint32_t *const grid = p->launch->grid;

    for (unsigned axis = 0; axis < 3; axis++) {
        const unsigned u = (axis + 1) % 3, v = (axis + 2) % 3;
        add_start(p, axis, 0);
        for (unsigned edge = 0; edge < 4 && !p->irregular; edge++) {
            uint32_t at[3] = {0};
            if ((edge & 1 && grid[u] == 1) || (edge & 2 && grid[v] == 1))
                continue;
            at[u] = edge & 1 ? grid[u] - 1 : 0;
            at[v] = edge & 2 ? grid[v] - 1 : 0;
            TRY(scan_line(p, axis, at));
        }
    }
    return QUERN_OK;
}

/* The box of stretches a, b, c. */
static void box_of(const struct profiling *p, const size_t index[3], struct quern_sim_kind *kind)
{
    for (unsigned axis = 0; axis < 3; axis++) {
        kind->first[axis] = p->starts[axis][index[axis]];
        kind->last[axis] =
            (index[axis] + 1 < p->start_count[axis] ? p->starts[axis][index[axis] + 1]
                                                    : p->launch->grid[axis]) -
            1;
    }
}

/* ---- Adding up ------------------------------------------------------------------------------- */

static void add_times(struct profile_sums *to, const struct profile_sums *from, uint64_t times)
{
    struct quern_sim_counts *const c = &to->counts;
    const struct quern_sim_counts *const d = &from->counts;

    profile_add(to, &(struct profile_part){from->insns, from->maps, &from->totals}, times);
    c->wave_size = d->wave_size;
    c->instructions += times * d->instructions;
    for (int n = 0; n < QUERN_CLASS_COUNT; n++)
        c->classes[n] += times * d->classes[n];
    c->lds_accesses += times * d->lds_accesses;
    c->lds_passes += times * d->lds_passes;
    c->lines128 += times * d->lines128;
    c->bytes_read += times * d->bytes_read;
    c->bytes_written += times * d->bytes_written;
    c->waves += times * d->waves;
    c->workgroups += times * d->workgroups;
}

/* Like `from`, with zero counts. */
static quern_status empty_like(const struct profile_sums *from, struct profile_sums *to)
{
    *to = (struct profile_sums){.notes = from->notes,
                                .insn_count = from->insn_count,
                                .map_count = from->map_count,
                                .insns = os.calloc(from->insn_count + 1, sizeof *to->insns),
                                .maps = os.calloc(from->map_count + 1, sizeof *to->maps),
                                .named = os.malloc((from->map_count + 1) * sizeof *to->named),
                                .counts = QUERN_INIT(struct quern_sim_counts)};
    FAIL_IF(!to->insns || !to->maps || !to->named, QUERN_E_MEMORY,
            "out of memory for a profile of %zu instructions", from->insn_count);
    if (from->map_count)
        memcpy(to->named, from->named, from->map_count * sizeof *to->named);
    return QUERN_OK;
}

/* The n-th workgroup of a box to be checked: all of a small one, else its last and some that are
 * spread evenly and without a period: multiples of powers of what the golden ratio is in three
 * dimensions. */
static void place_check(const struct quern_sim_kind *kind, unsigned n, bool small, uint32_t at[3])
{
    static const double steps[3] = {0.8191725133961645, 0.6710436067037893, 0.5497004779019703};

    for (unsigned axis = 0; axis < 3; axis++) {
        const uint32_t length = kind->last[axis] - kind->first[axis] + 1;
        const double turn = steps[axis] * (n + 1);
        if (small) {
            at[axis] = kind->first[axis] + n % length;
            n /= length;
        } else {
            at[axis] = n ? kind->first[axis] + (uint32_t)((turn - (double)(int)turn) * length)
                         : kind->last[axis];
        }
    }
}

/* The lines that a workgroup's instructions have in common depend on where in a line its part
 * begins: what is scaled is the mean of all workgroups of a box that were run. */
static void add_common(struct profile_sums *to, const struct profile_sums *run, double times)
{
    for (size_t n = 0; n <= to->map_count; n++) {
        to->maps[n].by_wave += (uint64_t)(times * (double)run->maps[n].by_wave + 0.5);
        to->maps[n].by_workgroup += (uint64_t)(times * (double)run->maps[n].by_workgroup + 0.5);
    }
}

/* Whether other workgroups of a box count like its first. What they have in
 * common is added to `to`. */
static quern_status check_box(struct profiling *p, const struct quern_sim_kind *kind,
                              uint64_t volume, const struct profile_sums *first,
                              struct profile_sums *to, uint64_t *checked)
{
    const bool small = volume <= CHECKS;
    const unsigned count = small ? (unsigned)volume : CHECKS;
    /* the first is one of a small box's own */
    const double share = (double)volume / (small ? count : count + 1);

    add_common(to, first, share);

    for (unsigned n = 0; n < count && !p->irregular; n++) {
        struct profile_sums sums;
        uint32_t at[3];
        place_check(kind, n, small, at);
        const uint64_t id = number_of(p, at);
        if (id == number_of(p, kind->first)) {
            if (!small)
                add_common(to, first, share);
            continue;
        }
        TRY(run_some(p, &id, 1, &sums));
        if (!alike(first, &sums))
            p->irregular = true;
        add_common(to, &sums, share);
        profile_sums_free(&sums);
        ++*checked;
    }
    return QUERN_OK;
}

/* One workgroup of each kind, scaled; irregular is set when that cannot be done. */
static quern_status run_kinds(struct profiling *p, struct profile_sums *sums,
                              struct quern_sim_profile *out)
{
    size_t at[3];

    TRY(find_starts(p));
    if (p->irregular || p->start_count[0] * p->start_count[1] * p->start_count[2] > QUERN_KINDS_MAX)
        p->irregular = true;
    for (at[2] = 0; at[2] < p->start_count[2]; at[2]++)
        for (at[1] = 0; at[1] < p->start_count[1]; at[1]++)
            for (at[0] = 0; at[0] < p->start_count[0] && !p->irregular; at[0]++) {
                struct quern_sim_kind *const kind = &out->kinds[out->kind_count];
                struct profile_sums *one;
                uint64_t times = 1;
                box_of(p, at, kind);
                TRY(probe(p, kind->first, &one));
                if (!one)
                    return QUERN_OK;
                for (unsigned axis = 0; axis < 3; axis++)
                    times *= (uint64_t)kind->last[axis] - kind->first[axis] + 1;
                if (!sums->insns)
                    TRY(empty_like(one, sums));
                TRY(check_box(p, kind, times, one, sums, &out->checked));
                add_times(sums, one, times);
                kind->instructions = one->counts.instructions;
                out->kind_count++;
            }
    out->simulated = p->probe_count + out->checked;
    out->by_kinds = 1;
    return QUERN_OK;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void name_map(const struct profile_sums *sums, uint32_t map, char name[32])
{
    if (map == MAP_SEVERAL)
        snprintf(name, 32, "(several)");
    else if (map)
        memcpy(name, sums->named[map - 1].name, 32);
}

static quern_status give_insns(const struct profiling *p, const struct profile_sums *sums,
                               const struct kernel_note *kernel, struct quern_sim_profile *out)
{
    const struct quern_sim_module *const m = p->module;

    out->insns = os.calloc(sums->insn_count + 1, sizeof *out->insns);
    FAIL_IF(!out->insns, QUERN_E_MEMORY, "out of memory for a profile of %zu instructions",
            sums->insn_count);
    for (size_t n = 0; n < sums->insn_count; n++) {
        const struct insn_note *const note = &m->notes[n];
        const struct profile_insn *const sum = &sums->insns[n];
        const bool own = note->offset >= kernel->begin && note->offset < kernel->end;
        if (!note->text || m->insns[n].flags & INSN_SECOND || !(own || sum->executed))
            continue;
        struct quern_sim_insn *const i = &out->insns[out->insn_count++];
        *i = (struct quern_sim_insn){
            .offset = note->offset,
            .text = note->text,
            .counted_as = note->row ? note->row->class : QUERN_CLASS_COUNT,
            .cycles = p->notes[n].matrix,
            .executed = sum->executed,
            .lds_passes = sum->lds_passes,
            .lds_least = sum->lds_least,
            .lines128 = sum->lines128,
            .lines128_least = sum->lines128_least,
            .bytes_read = sum->bytes_read,
            .bytes_written = sum->bytes_written,
        };
        name_map(sums, sum->map, i->buffer);
        out->conflict_cycles += sum->executed * p->notes[n].conflict;
        out->issue_cycles += sum->executed * p->notes[n].cycles;
        out->lds_least += sum->lds_least;
        out->lines128_least += sum->lines128_least;
    }
    return QUERN_OK;
}

static quern_status give_traffic(const struct profile_sums *sums, struct quern_sim_profile *out)
{
    out->buffers = os.calloc(sums->map_count + 1, sizeof *out->buffers);
    FAIL_IF(!out->buffers, QUERN_E_MEMORY, "out of memory for the traffic of %zu buffers",
            sums->map_count);
    for (size_t n = 0; n <= sums->map_count; n++) {
        const struct profile_map *const m = &sums->maps[n];
        if (!m->bytes_read && !m->bytes_written)
            continue;
        struct quern_sim_traffic *const t = &out->buffers[out->buffer_count++];
        *t = (struct quern_sim_traffic){.bytes_read = m->bytes_read,
                                        .bytes_written = m->bytes_written,
                                        .l2_read = m->l2_read,
                                        .l2_written = m->l2_written,
                                        .lines128 = m->lines128,
                                        .lines128_least = m->lines128_least,
                                        .by_wave = m->by_wave,
                                        .by_workgroup = m->by_workgroup};
        name_map(sums, n == sums->map_count ? MAP_SEVERAL : (uint32_t)n + 1, t->name);
        if (n < sums->map_count)
            t->size = sums->named[n].end - sums->named[n].begin;
    }
    return QUERN_OK;
}

static void give_resources(const struct profiling *p, const struct object_kernel *k,
                           struct quern_sim_profile *out)
{
    const struct target *const t = p->module->sim->target;
    const uint32_t *const block = p->launch->block;
    const unsigned items = block[0] * block[1] * block[2], lanes = p->module->lanes;
    const unsigned waves = (items + lanes - 1) / lanes;
    const unsigned lds = k->lds_bytes + p->launch->lds_bytes;

    out->resources.vgprs = k->vgprs;
    out->resources.agprs = k->agprs;
    out->resources.sgprs = k->sgprs;
    out->resources.lds_bytes = lds;
    out->resources.scratch_bytes = k->scratch_bytes;
    out->resources.waves_per_workgroup = waves;
    out->resources.waves_per_simd =
        target_waves_per_simd(t, k->vgprs + k->agprs, lds, lanes, waves);
    out->resources.workgroups_per_cu =
        target_workgroups_per_cu(t, k->vgprs + k->agprs, lds, lanes, waves);
}

static quern_status give(const struct profiling *p, const struct profile_sums *sums,
                         struct quern_sim_profile *out)
{
    const struct quern_sim_module *const m = p->module;
    const struct object_kernel *const kernel = object_kernel(&m->object, p->launch->kernel);

    out->target = m->sim->target->name;
    out->counts = sums->counts;
    out->scalar_bytes = sums->totals.scalar_bytes;
    out->lds_exchanges = sums->totals.lds_exchanges;
    out->loading_waves = sums->totals.loading_waves;
    out->prologue_cycles = sums->totals.prologue_cycles;
    out->bytes_in_flight = sums->totals.bytes_in_flight;
    out->matrix_waves = sums->totals.matrix_waves;
    out->edge_cycles = sums->totals.edge_cycles;
    out->bare_barriers = sums->totals.bare_barriers;
    give_resources(p, kernel, out);
    TRY(give_insns(p, sums, &m->kernels[kernel - m->object.kernels], out));
    return give_traffic(sums, out);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Whether a launch is cheap enough to be run whole, going by its first workgroup. */
static quern_status choose(struct profiling *p, uint64_t budget, enum quern_sim_extent *extent)
{
    const uint32_t *const grid = p->launch->grid, first[3] = {0};
    struct profile_sums *one;

    TRY(probe(p, first, &one));
    const double all = (double)one->counts.instructions * grid[0] * grid[1] * grid[2];
    *extent = all <= (double)budget ? QUERN_EXTENT_ALL : QUERN_EXTENT_KINDS;
    return QUERN_OK;
}

static quern_status profile(struct profiling *p, enum quern_sim_extent extent, uint64_t budget,
                            struct profile_sums *sums, struct quern_sim_profile *out)
{
    p->notes = profile_notes_make(p->module);
    FAIL_IF(!p->notes, QUERN_E_MEMORY, "out of memory for notes on %zu instructions",
            p->module->insn_count);
    if (extent == QUERN_EXTENT_AUTO)
        TRY(choose(p, budget ? budget : BUDGET_DEFAULT, &extent));
    if (extent == QUERN_EXTENT_KINDS)
        TRY(run_kinds(p, sums, out));
    if (extent == QUERN_EXTENT_ALL || p->irregular) {
        profile_sums_free(sums);
        out->kind_count = 0;
        out->by_kinds = 0;
        out->checked = 0;
        TRY(run_some(p, NULL, 0, sums));
        out->simulated = sums->counts.workgroups;
    }
    return give(p, sums, out);
}

quern_status quern_sim_profile_run(quern_sim_module *module, const struct quern_sim_launch *launch,
                                   enum quern_sim_extent extent, uint64_t budget,
                                   struct quern_sim_profile *out)
{
    struct quern_sim_launch given;
    struct quern_sim_profile own = QUERN_INIT(struct quern_sim_profile);

    FAIL_IF(!module, QUERN_E_ARGUMENT, "module is null");
    TRY(launch_read(launch, &given));
    TRY(extensible_check(PROFILE_TYPE, out));
    FAIL_IF(extent < QUERN_EXTENT_AUTO || extent > QUERN_EXTENT_KINDS, QUERN_E_ARGUMENT,
            "extent %d is none of enum quern_sim_extent", (int)extent);
    FAIL_IF(module->sim->check != QUERN_CHECK_FAST, QUERN_E_ARGUMENT,
            "a profile needs a software GPU with the fast check");
    struct profiling *const p = os.calloc(1, sizeof *p);
    struct profile_sums sums = {0};
    FAIL_IF(!p, QUERN_E_MEMORY, "out of memory for a profile");
    p->module = module;
    p->launch = &given;
    const quern_status status = profile(p, extent, budget, &sums, &own);
    profile_sums_free(&sums);
    for (size_t n = 0; n < p->probe_count; n++)
        profile_sums_free(&p->probes[n].sums);
    os.free(p->notes);
    os.free(p);
    if (status != QUERN_OK) {
        quern_sim_profile_free(&own);
        own = (struct quern_sim_profile){0};
    }
    extensible_write(PROFILE_TYPE, &own, out);
    return status;
}

/* Every accepted size has these fields. */
void quern_sim_profile_free(struct quern_sim_profile *profile)
{
    os.free(profile->insns);
    os.free(profile->buffers);
    profile->insns = NULL;
    profile->buffers = NULL;
    profile->insn_count = profile->buffer_count = 0;
}
