/* SPDX-License-Identifier: MIT */
/* How launches cover M: the time of a launch, the launches of a number of rows, their geometry. */
#include "plan/family.h"
#include "target/rates.h"

#include <string.h>

/* Cycles of a launch at most: sums of a few launches, and percentages of them, fit in 64 bits. */
#define LONGEST (INT64_MAX / 1024)

/* (cycles · count + more) ÷ of, which may be more than 64 bits hold on the way, and at the end for
 * layers that no GPU has room for: those take as long as can be said. */
static int64_t times(int64_t cycles, int64_t count, int64_t more, int64_t of)
{
    const __int128 all = ((__int128)cycles * count + more) / of;

    return all < LONGEST ? (int64_t)all : LONGEST;
}

/* Cycles of the fullest compute unit in a launch of so many slices, from those that the slices of
 * the estimate take. */
static int64_t of_slices(const struct plan *p, int64_t cycles, int64_t slices)
{
    const int64_t workgroups = p->estimate.workgroups;

    if (plan_shares_out(p))
        return times(cycles, slices, model_together(p) - 1, model_together(p));
    return times(cycles, model_ceil_div(slices * workgroups, p->target->cus), 0,
                 model_ceil_div(workgroups * model_together(p), p->target->cus));
}

int64_t plan_cycles(const struct plan *p, int64_t slices)
{
    if (p->family->cycles)
        return p->family->cycles(p,
                                 model_ceil_div(slices * p->estimate.workgroups, p->target->cus));
    return of_slices(p, p->estimate.kernel_cycles, slices);
}

/* Blocks of op=moe with m rows of A, whose block_rows a plan has, in slices. */
static int64_t slices_of_blocks(const struct plan *p, int64_t m)
{
    struct quern_problem q = p->problem;

    q.block_rows = p->block_rows;
    return problem_blocks(&q, m) * (p->block_rows / p->m_tile);
}

static int64_t slices_of(const struct plan *p, int64_t rows)
{
    return p->block_rows ? slices_of_blocks(p, rows) : model_ceil_div(rows, p->m_tile);
}

/* What a launch of so many rows keeps busy, in cycles: the fullest compute unit, and memory at its
 * peak. */
static int64_t kernel_cycles(const struct plan *p, int64_t rows)
{
    if (p->family->rows_cycles)
        return p->family->rows_cycles(p, rows);
    return plan_cycles(p, slices_of(p, rows));
}

static int64_t memory_cycles(const struct plan *p, int64_t rows)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t row = q->k * dtype_bytes(q->a) + q->n * dtype_bytes(q->c);

    if (p->family->rows_cycles)
        return 0;
    if (p->block_rows)
        return times(p->estimate.memory_cycles, slices_of_blocks(p, rows), 0, model_together(p));
    /* further rows add their own A and C to the bytes of the first slice */
    return p->estimate.memory_cycles +
           (int64_t)target_memory_cycles(p->target, (double)(row * (rows - p->m_tile)));
}

int64_t plan_launch_cycles(const struct plan *p, int64_t rows)
{
    const int64_t kernel = kernel_cycles(p, rows), memory = memory_cycles(p, rows);

    return kernel > memory ? kernel : memory;
}

int64_t plan_busy_cycles(const struct plan *p, int64_t kernel, int64_t memory, int64_t path,
                         enum plan_bound *bound)
{
    const int64_t sustained = memory * 100 / target_sustained_percent(p->target);
    const int64_t loads = path ? path + target_latency_cycles(p->target) : 0;
    const int64_t most = kernel > loads ? kernel : loads;

    if (bound)
        *bound = most <= sustained ? PLAN_BOUND_MEMORY
                 : kernel < loads  ? PLAN_BOUND_CACHE_PATH
                                   : PLAN_BOUND_ISSUE;
    return most > sustained ? most : sustained;
}

int64_t plan_expected_cycles(const struct plan *p, int64_t rows, enum plan_bound *bound)
{
    return plan_busy_cycles(p, kernel_cycles(p, rows), memory_cycles(p, rows),
                            of_slices(p, p->estimate.vmem_cycles, slices_of(p, rows)), bound);
}

int64_t plan_expected_slices(const struct plan_slice *slices, size_t count, enum plan_bound *bound)
{
    int64_t cycles = 0;

    for (size_t i = 0; i < count; i++)
        cycles += plan_expected_cycles(slices[i].plan, slices[i].rows, i ? NULL : bound);
    return cycles;
}

const char *plan_bound_name(enum plan_bound bound)
{
    static const char *const names[] = {[PLAN_BOUND_ISSUE] = "issue and latency",
                                        [PLAN_BOUND_CACHE_PATH] = "the path to the cache",
                                        [PLAN_BOUND_MEMORY] = "memory"};

    return names[bound];
}

int64_t plan_slices_cycles(const struct plan_slice *slices, size_t count)
{
    int64_t cycles = 0;

    for (size_t i = 0; i < count; i++)
        cycles += plan_launch_cycles(slices[i].plan, slices[i].rows);
    return cycles;
}

/* The plan that serves m rows among the first `count` of a set. */
static const struct plan *plan_among(const struct plan_set *set, size_t count, int64_t m)
{
    size_t i = 0;

    while (i + 1 < count && m > set->plans[i].m_hi)
        i++;
    return &set->plans[i];
}

const struct plan *plan_for(const struct plan_set *set, int64_t m)
{
    return plan_among(set, set->count, m);
}

int plan_block_rows(const struct plan_set *set, int64_t m)
{
    const struct plan *const p = plan_for(set, m);

    return p->m_lo <= m && m <= p->m_hi ? p->block_rows : 0;
}

/* Writes one launch of a plan, for m rows from row `first` on; returns 1, the number of launches.
 */
static size_t add_slices(const struct plan *p, int64_t first, int64_t m, struct plan_slice *slice)
{
    *slice = (struct plan_slice){p, first, m, model_ceil_div(m, p->m_tile)};
    return 1;
}

/* Writes full slices of one kernel, and the rest by the smallest of the set's first `kernels` that
 * takes it; returns the number of launches. */
static size_t add_full_and_rest(const struct plan_set *set, size_t kernels, const struct plan *p,
                                int64_t m, struct plan_slice slices[2])
{
    const int64_t rest = m % p->m_tile, full = m - rest;
    const size_t count = full ? add_slices(p, 0, full, slices) : 0;

    return count + add_slices(plan_among(set, kernels, rest), full, rest, &slices[count]);
}

/* Leaves in `slices` the launches that are modelled to take less, of equals those that are there;
 * returns their number. */
static size_t keep_less(struct plan_slice slices[2], size_t count, const struct plan_slice other[2],
                        size_t others)
{
    if (plan_slices_cycles(slices, count) <= plan_slices_cycles(other, others))
        return count;
    memcpy(slices, other, others * sizeof *slices);
    return others;
}

/* The fastest way, by the model, to launch m rows that the largest kernel, of tiles, serves: by
 * tiles; by slices of the kernel below; or by full tiles and another kernel for the rest. */
static size_t slices_by_time(const struct plan_set *set, size_t kernels, int64_t m,
                             struct plan_slice slices[2])
{
    const struct plan *p = &set->plans[kernels - 1];
    struct plan_slice other[2];
    size_t count = add_slices(p, 0, m, slices);

    for (bool tile = true; tile && kernels > 1; kernels--, p--) {
        if (m > p->m_tile && m % p->m_tile)
            count =
                keep_less(slices, count, other, add_full_and_rest(set, kernels - 1, p, m, other));
        count = keep_less(slices, count, other, add_slices(p - 1, 0, m, other));
        tile = plan_units(p - 1) == PLAN_UNITS_TILES;
    }
    return count;
}

static size_t slices_among(const struct plan_set *set, size_t kernels, int64_t m,
                           struct plan_slice slices[2])
{
    const struct plan *largest = &set->plans[kernels - 1];

    if (plan_units(largest) == PLAN_UNITS_NONE) {
        *slices = (struct plan_slice){largest, 0, plan_takes_rows(largest) ? m : 1, 1};
        return 1;
    }
    if (largest->block_rows) {
        const struct plan *const p = plan_for(set, m);
        *slices = (struct plan_slice){p, 0, m, slices_of_blocks(p, m)};
        return plan_block_rows(set, m) != 0;
    }
    if (plan_units(largest) == PLAN_UNITS_TILES && kernels > 1) {
        while (kernels > 1 && m < set->plans[kernels - 1].m_lo)
            kernels--;
        largest = &set->plans[kernels - 1];
        if (plan_units(largest) == PLAN_UNITS_TILES)
            return slices_by_time(set, kernels, m, slices);
        struct plan_slice other[2];
        const size_t count = add_slices(largest, 0, m, slices);
        if (m <= largest->m_tile || m % largest->m_tile == 0)
            return count;
        return keep_less(slices, count, other, add_full_and_rest(set, kernels, largest, m, other));
    }
    /* the rest goes to a smaller kernel where one is for so few rows */
    const int64_t rest = m % largest->m_tile;
    if (!rest || plan_among(set, kernels, rest) == largest)
        return add_slices(largest, 0, m, slices);
    return add_full_and_rest(set, kernels, largest, m, slices);
}

/* ---- What is worked out once ------------------------------------------------- */

/*
 * Which kernels are the fastest changes only where a slice of one is full, and slices have powers
 * of two of rows, up to PLAN_M_MAX. So each 64 values of M are divided into cells in which the
 * choice is the same: the first, the second, those up to 4, 8, 16, 32 and 63, and the last, with
 * which slices of up to 64 rows leave no rest.
 */
#define CELL_ROWS 64
static const unsigned cell_rows[PLAN_CELLS_OF_64] = {1, 2, 4, 8, 16, 32, CELL_ROWS - 1, CELL_ROWS};

/* Bits of a cell's byte: the index of the kernel that takes the first rows, and whether another
 * kernel takes the rest that its whole slices leave. */
#define COVER_KERNEL 15
#define COVER_SPLIT  16

_Static_assert(PLAN_KERNELS_MAX <= COVER_KERNEL + 1, "a byte names every kernel");
_Static_assert(PLAN_COVER_ROWS % PLAN_M_MAX == 0, "cells of all further rows are the last ones");

/* The cell of m rows; for m beyond the table, that of the largest m in it which leaves the same
 * rest of PLAN_M_MAX. */
static size_t cell_of(int64_t m)
{
    const int64_t beyond = PLAN_COVER_ROWS - PLAN_M_MAX + (m - 1) % PLAN_M_MAX;
    const unsigned at = (unsigned)(m <= PLAN_COVER_ROWS ? m - 1 : beyond), rest = at % CELL_ROWS;
    size_t cell = 0;

    while (rest >= cell_rows[cell])
        cell++;
    return at / CELL_ROWS * PLAN_CELLS_OF_64 + cell;
}

void plan_cover(struct plan_set *set)
{
    struct plan_slice slices[2];

    set->covered = false;
    if (set->count < 2 || plan_units(&set->plans[set->count - 1]) != PLAN_UNITS_TILES ||
        set->plans[0].block_rows)
        return; /* plan_slices compares no times */
    for (size_t i = 0; i < sizeof set->cover; i++) {
        const size_t m = i / PLAN_CELLS_OF_64 * CELL_ROWS + cell_rows[i % PLAN_CELLS_OF_64];
        const bool split = plan_slices(set, (int64_t)m, slices) > 1;
        set->cover[i] = (uint8_t)((slices[0].plan - set->plans) | (split ? COVER_SPLIT : 0));
    }
    set->covered = true;
}

size_t plan_slices(const struct plan_set *set, int64_t m, struct plan_slice slices[2])
{
    if (!set->covered)
        return slices_among(set, set->count, m, slices);
    const unsigned cover = set->cover[cell_of(m)];
    const size_t kernel = cover & COVER_KERNEL;
    const struct plan *const p = &set->plans[kernel];
    if (!(cover & COVER_SPLIT) || m % p->m_tile == 0)
        return add_slices(p, 0, m, slices);
    const bool tiles = plan_units(p) == PLAN_UNITS_TILES; /* the rest is for smaller kernels only */
    return add_full_and_rest(set, kernel + !tiles, p, m, slices);
}

size_t plan_slices_apart(const struct plan_set *set, int64_t m, struct plan_slice slices[2])
{
    size_t count = set->count;

    while (count && plan_units(&set->plans[count - 1]) == PLAN_UNITS_TILES)
        count--;
    return count ? slices_among(set, count, m, slices) : 0;
}

bool plan_shares_out(const struct plan *p)
{
    return p->block_rows && p->family->shares_out;
}

uint32_t plan_workgroups(const struct plan *p, const uint32_t grid[3])
{
    return plan_shares_out(p) ? grid[0] : grid[p->slices_first];
}

/* Workgroups for each of more slices than compute units hold workgroups. One would take a whole
 * slice of hundreds of rows, and the last of them would leave most compute units idle: that many
 * rounds of workgroups lose little. Slices of few rows are over too soon to be divided. */
#define ROUNDS 8
static int64_t shares_of_slice(const struct plan *p, int64_t slices, int64_t held)
{
    const int64_t shares = model_ceil_div(ROUNDS * held, slices);

    if (slices <= held || plan_units(p) != PLAN_UNITS_TILES)
        return 1;
    return shares < p->row_groups ? shares : p->row_groups;
}

int64_t plan_cluster(const struct plan *p)
{
    return p->cluster > 1 ? p->cluster : 1;
}

/* The multiprocessors of a cluster belong to one of a GPU's processing clusters, whose numbers of
 * multiprocessors differ, but are even. Clusters that find no room run when others have ended. */
int64_t plan_held(const struct plan *p, int64_t compute_units)
{
    const int64_t held = p->resident * compute_units, cluster = plan_cluster(p);
    const int64_t room = cluster > 2 ? held * p->target->clustered / p->target->cus : held;

    return room < cluster && held ? cluster : room / cluster * cluster;
}

void plan_geometry(const struct plan *p, int64_t slices, unsigned compute_units, uint32_t grid[3],
                   uint32_t block[3])
{
    const int64_t groups = (p->row_groups + p->skewed) * plan_cluster(p);
    const int64_t fit = plan_held(p, compute_units ? compute_units : p->target->cus);
    const int64_t least =
        p->walk_max ? model_ceil_div(p->row_groups, p->walk_max) * plan_cluster(p) : 0;
    const int64_t held = fit < least ? least : fit; /* 0: they do not stay */

    if (plan_shares_out(p)) {
        const int64_t all = slices * shares_of_slice(p, slices, held);
        grid[0] = (uint32_t)(held > all ? held : all);
        grid[1] = 1;
    } else {
        const int64_t most = model_at_most((int)held, PLAN_GRID_Y_MAX);
        grid[p->slices_first] = (uint32_t)(held && most < groups ? most : groups);
        grid[!p->slices_first] = (uint32_t)slices;
    }
    grid[2] = 1;
    block[0] = (uint32_t)p->waves * p->wave_size;
    block[1] = block[2] = 1;
}
