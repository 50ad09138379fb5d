/* SPDX-License-Identifier: MIT */
#include "plan/plan.h"

#include "base/os.h"
#include "plan/cost_model.h"
#include "plan/dequant.h"
#include "plan/family.h"
#include "plan/mma_tile.h"
#include "plan/tuning.h"
#include "target/rates.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Rows of A that kernels on the vector units compute at once. Each costs a compile and a cache
 * entry; between two of them the next larger one computes its last row again, at most half of its
 * work for nothing. */
static const int simt_tiles[] = {1, 2, 4, PLAN_SIMT_M_MAX};

/* Those of kernels on matrix units, which follow. */
static const int mma_tiles[] = {16, 32, PLAN_MMA_M_MAX};

/* Those of tiles that are shared through LDS, of which a problem has one or both. */
static const int tile_rows[] = {PLAN_M_MAX, 128};

static void name_kernel(struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const char *const nested = q->scale == QUERN_SCALE_NESTED ? "_nested" : "";

    if (p->family == FAMILY_DEQUANT && !problem_has_group(q))
        snprintf(p->symbol, sizeof p->symbol, "quern_dequant_%s_%s_n%" PRId64 "_k%" PRId64,
                 weight_name(q->wq), dtype_name(q->c), q->n, q->k);
    else if (!problem_has_group(q))
        snprintf(p->symbol, sizeof p->symbol, "quern_%s_%s_n%" PRId64 "_k%" PRId64 "_m%d",
                 weight_name(q->wq), dtype_name(q->a), q->n, q->k, p->m_tile);
    else if (p->family == FAMILY_DEQUANT)
        snprintf(p->symbol, sizeof p->symbol,
                 "quern_dequant_%s_%s_n%" PRId64 "_k%" PRId64 "_g%" PRId64 "%s", weight_name(q->wq),
                 dtype_name(q->c), q->n, q->k, problem_group(q), nested);
    else
        snprintf(p->symbol, sizeof p->symbol,
                 "quern_%s_%s_n%" PRId64 "_k%" PRId64 "_g%" PRId64 "%s_m%d", weight_name(q->wq),
                 dtype_name(q->a), q->n, q->k, problem_group(q), nested, p->m_tile);
}

/* Workgroups that share the rows (or weights) of W. */
static int64_t groups_of(const struct plan *p)
{
    const bool dequant = p->family == FAMILY_DEQUANT;
    const int64_t total = dequant ? p->problem.n * p->problem.k : p->problem.n;
    const int64_t each = dequant ? dequant_weights_per_workgroup(p) : plan_rows_per_workgroup(p);

    return (total + each - 1) / each + p->skewed;
}

/* What a launch of the plan may have, now that its geometry is chosen. */
static quern_status limit(struct plan *p)
{
    const int64_t x = (int64_t)UINT32_MAX / ((int64_t)p->waves * p->wave_size);
    const int64_t groups = p->resident ? p->estimate.workgroups : groups_of(p);

    p->slices_max = p->slices_first ? x : PLAN_GRID_Y_MAX;
    FAIL_IF(groups > (p->slices_first ? PLAN_GRID_Y_MAX : x), QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " takes %" PRId64
            " workgroups; HIP launches fewer than 2^32 work-items along an axis",
            p->problem.n, p->problem.k, groups);
    return QUERN_OK;
}

static quern_status make_dequant(const struct quern_problem *problem, const struct target *target,
                                 struct plan_set *set)
{
    TRY(dequant_accepts(problem));
    struct plan_set made = {.count = 1,
                            .m_max = PLAN_SIMT_M_MAX,
                            .plans = {{.problem = *problem,
                                       .target = target,
                                       .family = FAMILY_DEQUANT,
                                       .m_lo = 1,
                                       .m_hi = PLAN_SIMT_M_MAX,
                                       .m_tile = PLAN_SIMT_M_MAX}}};
    dequant_choose(&made.plans[0]);
    name_kernel(&made.plans[0]);
    TRY(limit(&made.plans[0]));
    *set = made;
    return QUERN_OK;
}

/* Appends the kernel for up to m_tile rows; `last`: none is larger. */
static quern_status add_kernel(struct plan_set *set, const struct plan *base, int m_tile, bool last)
{
    struct plan *const p = &set->plans[set->count];

    *p = *base;
    p->m_lo = set->count ? p[-1].m_hi + 1 : 1;
    p->m_hi = p->m_tile = m_tile;
    p->weights_once = !last; /* slices of a larger M share them */
    name_kernel(p);
    TRY(model_choose(decode_family_by(p->family)->model, NULL, p));
    TRY(limit(p));
    set->count++;
    return QUERN_OK;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Appends the only kernel of another set, in place of those behind the first `kept` that are
 * modelled to take longer for their fewer rows. Squares must take SQUARES_LESS per cent less than
 * what larger matrix products take, whose estimates are by more than that too high. */
#define SQUARES_LESS 3
static void put_kernel(struct plan_set *set, const struct plan_set *other, size_t kept)
{
    const struct plan *const put = &other->plans[0];

    while (set->count > kept) {
        const struct plan *const below = &set->plans[set->count - 1];
        const int less = plan_squares(below) && !plan_squares(put) ? SQUARES_LESS : 0;
        if (!model_faster(put, below, 100 + less))
            break;
        set->count--;
    }
    struct plan *const p = &set->plans[set->count++];
    *p = other->plans[0];
    p->m_lo = set->count > 1 ? p[-1].m_hi + 1 : 1;
}

/*
 * Kernels on matrix units, in place of those on the vector units that take longer. One row stays
 * with the vector units where they have an instruction for pairs of its type. A kernel for fewer
 * rows than matrix units multiply at once is added where it has a shape that fits, and is worth it
 * beside the next larger.
 */
static quern_status add_mma(struct plan_set *set, struct plan base,
                            const struct decode_family *family, int64_t m_max)
{
    size_t kept = !set->count || set->plans[0].products == PRODUCTS_PACKED ? 0 : 1;
    struct plan_set tall = {0}, low = {0};

    base.family = family->id;
    TRY(add_kernel(&tall, &base, mma_tiles[0], COUNT(mma_tiles) == 1));
    const int fewest = family->fewest_rows(&base);
    if (fewest < mma_tiles[0] && set->count && add_kernel(&low, &base, fewest, false) == QUERN_OK &&
        model_faster(&low.plans[0], &set->plans[set->count - 1], 100) &&
        model_pays(&low.plans[0], &tall.plans[0])) {
        put_kernel(set, &low, kept);
        kept = set->count;
    }
    put_kernel(set, &tall, kept);
    for (size_t i = 1; i < COUNT(mma_tiles) && set->plans[set->count - 1].m_hi < m_max; i++)
        TRY(add_kernel(set, &base, mma_tiles[i], i + 1 == COUNT(mma_tiles)));
    return QUERN_OK;
}

/* The first number of rows that tiles take no longer for than slices of the kernels of a set do. */
static int tile_from(const struct plan *tile, const struct plan_set *set)
{
    const struct plan *const below = &set->plans[set->count - 1];
    struct plan_slice slices[2] = {{.plan = below}};
    int rows = PLAN_MMA_M_MAX + 1;

    for (; rows < PLAN_TILE_FROM; rows += PLAN_MMA_M_MAX) {
        const int whole = rows + PLAN_MMA_M_MAX - 1; /* slices that leave no rest */
        size_t count = 1;
        slices[0].rows = whole;
        if (below->family == FAMILY_MMA_TILE)
            count = plan_slices(set, whole, slices);
        if (plan_launch_cycles(tile, whole) <= plan_slices_cycles(slices, count))
            break;
    }
    return rows;
}

/* Appends tiles, as the set's largest kernel. */
static void append_tile(struct plan_set *set, const struct plan *tile)
{
    struct plan *const p = &set->plans[set->count], *const below = p - 1;

    *p = *tile;
    p->m_lo = tile_from(p, set);
    p->m_hi = p->m_lo > p->m_tile ? p->m_lo : p->m_tile;
    below->m_hi = p->m_lo - 1;
    below->weights_once &= below->m_hi == below->m_tile;
    set->count++;
}

/* Whether a set with finer tiles is modelled to take a twentieth less somewhere between the rows
 * that these and the largest are chosen for. */
static bool pays(const struct plan_set *with, const struct plan_set *without)
{
    for (int rows = PLAN_TILE_FINE / 2; rows < PLAN_TILE_LARGE; rows *= 2) {
        struct plan_slice slices[2];
        const int64_t more = plan_slices_cycles(slices, plan_slices(without, rows, slices));
        if (plan_slices_cycles(slices, plan_slices(with, rows, slices)) < more - more / 20)
            return true;
    }
    return false;
}

/* Whether a set has room for two more kernels; one for fewer rows than matrix units multiply at
 * once takes none away. */
static bool has_room(const struct plan_set *set)
{
    size_t few = 0;

    for (size_t i = 0; i < set->count; i++)
        few += set->plans[i].family == FAMILY_MMA_INT4 && set->plans[i].m_tile < mma_tiles[0];
    return set->count - few + 2 < PLAN_KERNELS_MAX;
}

/*
 * The kernel for hundreds of rows of A, with the tile that takes less time for each of them. Where
 * it is a tall one that leaves compute units idle at fewer rows, and there is room for a further
 * kernel, low tiles that are chosen for those go in front of it.
 */
static quern_status add_tiles(struct plan_set *set, struct plan base)
{
    struct plan_set tall = {0}, low = {0}, fine = {0}, both = *set;

    base.family = FAMILY_MMA_TILE;
    base.meant_for = PLAN_TILE_LARGE;
    TRY(add_kernel(&tall, &base, tile_rows[0], true));
    TRY(add_kernel(&low, &base, tile_rows[1], true));
    const int64_t per_row[] = {tall.plans[0].estimate.kernel_cycles * tile_rows[1],
                               low.plans[0].estimate.kernel_cycles * tile_rows[0]};
    const bool is_tall = per_row[0] <= per_row[1];
    const struct plan *const large = is_tall ? &tall.plans[0] : &low.plans[0];
    append_tile(set, large);
    if (!is_tall || !has_room(&both))
        return QUERN_OK;
    base.meant_for = PLAN_TILE_FINE;
    TRY(add_kernel(&fine, &base, tile_rows[1], true));
    append_tile(&both, &fine.plans[0]);
    append_tile(&both, large);
    if (both.plans[both.count - 2].m_lo < both.plans[both.count - 1].m_lo && pays(&both, set))
        *set = both;
    return QUERN_OK;
}

/* Gives the shapes that were measured to those kernels that have one. Which kernels there are is
 * the model's choice alone. */
static quern_status tune(struct plan_set *set, const struct tuning *tuning)
{
    for (size_t i = 0; i < set->count; i++) {
        struct plan *const p = &set->plans[i];
        const char *const shape = tuning_shape(tuning, p);
        if (!shape)
            continue;
        TRY(model_choose(decode_family_by(p->family)->model, shape, p));
        TRY(limit(p));
    }
    return QUERN_OK;
}

quern_status plan_force_parse(const char *text, struct plan_force *force)
{
    const bool on = text && !strcmp(text, "predequant=on");

    *force = (struct plan_force){0};
    if (!text || !*text)
        return QUERN_OK;
    FAIL_IF(!on && strcmp(text, "predequant=off") != 0, QUERN_E_ARGUMENT,
            "cannot force '%s'; expected predequant=on or predequant=off", text);
    force->predequant = on ? SWITCH_ON : SWITCH_OFF;
    return QUERN_OK;
}

quern_status plan_make_up_to(const struct quern_problem *problem, const struct target *target,
                             const struct tuning *tuning, const struct plan_force *force,
                             int64_t m_max, struct plan_set *set)
{
    const bool predequant = force && force->predequant == SWITCH_ON;
    struct plan_set made = {0};

    if (problem->op == QUERN_OP_DEQUANT)
        return make_dequant(problem, target, set);
    const struct decode_family *const family = decode_family_of(problem);
    TRY(family->accepts(problem, target));
    const struct decode_family *const mma = matrix_family_of(problem, target);
    FAIL_IF(predequant && (!mma || mma->id != FAMILY_MMA_INT4), QUERN_E_DECLINED,
            "predequant=on is forced, but only int4 with a=f16 or bf16 on matrix units has such "
            "kernels; wq=%s a=%s on %s has none",
            weight_name(problem->wq), dtype_name(problem->a), target->name);
    const struct plan base = {.problem = *problem,
                              .force = force ? *force : (struct plan_force){0},
                              .target = target,
                              .family = family->id};
    for (size_t i = 0; i < COUNT(simt_tiles) && !predequant; i++) {
        struct plan_set one = {0};
        /* of int4, one that multiplies four rows at once may take less for two than their own */
        const size_t kept = family->id == FAMILY_SIMT_INT4 ? 1 : made.count;
        TRY(add_kernel(&one, &base, simt_tiles[i], !mma && i + 1 == COUNT(simt_tiles)));
        put_kernel(&made, &one, kept);
    }
    if (mma)
        TRY(add_mma(&made, base, mma, m_max));
    const bool cut = mma && made.plans[made.count - 1].m_hi < PLAN_MMA_M_MAX;
    /* its weights are made in LDS */
    if (!cut && mma_tile_accepts(problem, target) && base.force.predequant != SWITCH_OFF)
        TRY(add_tiles(&made, base));
    made.m_max = cut ? INT_MAX : made.plans[made.count - 1].m_hi;
    TRY(tune(&made, tuning));
    made.tuned = tuning != NULL;
    if (tuning)
        made.tuning = tuning_hash(tuning);
    *set = made;
    return QUERN_OK;
}

quern_status plan_make_tuned(const struct quern_problem *problem, const struct target *target,
                             const struct tuning *tuning, const struct plan_force *force,
                             struct plan_set *set)
{
    return plan_make_up_to(problem, target, tuning, force, INT64_MAX, set);
}

quern_status plan_make(const struct quern_problem *problem, const struct target *target,
                       struct plan_set *set)
{
    return plan_make_tuned(problem, target, NULL, NULL, set);
}

quern_status plan_candidates(const struct plan *plan, size_t most, plan_candidate_fn fn, void *user)
{
    struct model_ranking ranking = {.best = os.calloc(most, sizeof *plan), .room = most};
    struct plan base = *plan;

    base.choice = CHOICE_OF_MODEL;
    FAIL_IF(!ranking.best, QUERN_E_MEMORY, "out of memory for %zu candidates", most);
    if (plan->family == FAMILY_DEQUANT)
        fn(user, &base); /* it has one shape */
    else
        decode_family_by(plan->family)->model->candidates(&base, &ranking);
    for (size_t i = 0; i < ranking.count; i++)
        fn(user, &ranking.best[i]);
    os.free(ranking.best);
    return QUERN_OK;
}

quern_status plan_reshape(struct plan *plan, const char *shape)
{
    struct plan p = *plan;

    FAIL_IF(p.family == FAMILY_DEQUANT, QUERN_E_ARGUMENT, "op=dequant has one shape");
    TRY(model_choose(decode_family_by(p.family)->model, shape, &p));
    FAIL_IF(p.choice != CHOICE_MEASURED, QUERN_E_ARGUMENT, "'%s' is no shape of %s on %s", shape,
            p.symbol, p.target->name);
    TRY(limit(&p));
    *plan = p;
    return QUERN_OK;
}

void plan_shape(const struct plan *p, char text[PLAN_SHAPE_MAX])
{
    int length = snprintf(text, PLAN_SHAPE_MAX,
                          "rows=%d lanes=%d chunk=%d ring=%d split_k=%d waves=%d products=%d "
                          "ahead=%d pairing=%d",
                          p->rows_per_wave, p->row_lanes, p->chunk, p->ring, p->split_k, p->waves,
                          (int)p->products, p->ahead, (int)p->pairing);

    /* words that came later; tables without them stay true */
    if (p->stage)
        length += snprintf(text + length, PLAN_SHAPE_MAX - (size_t)length, " stage=%d", p->stage);
    if (p->resident)
        length +=
            snprintf(text + length, PLAN_SHAPE_MAX - (size_t)length, " resident=%d", p->resident);
    if (p->family == FAMILY_SIMT_INT4 && plan_squares(p))
        snprintf(text + length, PLAN_SHAPE_MAX - (size_t)length, " shared=%d",
                 p->shared_sums + p->shared_a);
    if (p->family == FAMILY_MMA_INT4)
        snprintf(text + length, PLAN_SHAPE_MAX - (size_t)length, " staging=%d bias=%d",
                 (int)p->staging, (int)p->bias);
}

int64_t plan_cycles(const struct plan *p, int64_t slices)
{
    const struct plan_estimate *const e = &p->estimate;
    const int64_t all = model_ceil_div(slices * e->workgroups, p->target->cus);

    if (p->family == FAMILY_MMA_TILE)
        return mma_tile_cycles(p, all);
    return e->kernel_cycles * all / model_ceil_div(e->workgroups, p->target->cus);
}

int64_t plan_launch_cycles(const struct plan *p, int64_t rows)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t row = q->k * dtype_bytes(q->a) + q->n * dtype_bytes(q->c);
    const int64_t kernel = plan_cycles(p, model_ceil_div(rows, p->m_tile));
    /* further rows add their own A and C to the bytes of the first slice */
    const int64_t memory =
        p->estimate.memory_cycles +
        (int64_t)target_memory_cycles(p->target, (double)(row * (rows - p->m_tile)));

    return kernel > memory ? kernel : memory;
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

/* One launch of a plan for m rows from row `first` on. */
static size_t add_slices(const struct plan *p, int64_t first, int64_t m, struct plan_slice *slice)
{
    *slice = (struct plan_slice){p, first, m, model_ceil_div(m, p->m_tile)};
    return 1;
}

/* Full slices of one kernel, the rest by the smallest of `kernels` others that takes it. */
static size_t add_full_and_rest(const struct plan_set *set, size_t kernels, const struct plan *p,
                                int64_t m, struct plan_slice slices[2])
{
    const int64_t rest = m % p->m_tile, full = m - rest;
    const size_t count = full ? add_slices(p, 0, full, slices) : 0;

    return count + add_slices(plan_among(set, kernels, rest), full, rest, &slices[count]);
}

/* Keeps the launches that are modelled to take less; of equals, those it has. */
static size_t keep_less(struct plan_slice slices[2], size_t count, const struct plan_slice other[2],
                        size_t others)
{
    if (plan_slices_cycles(slices, count) <= plan_slices_cycles(other, others))
        return count;
    memcpy(slices, other, others * sizeof *slices);
    return others;
}

/* Rows from m_lo of tiles on: by tiles, by slices of the kernel below, or by full tiles and another
 * kernel for the rest. */
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
        tile = p[-1].family == FAMILY_MMA_TILE;
    }
    return count;
}

static size_t slices_among(const struct plan_set *set, size_t kernels, int64_t m,
                           struct plan_slice slices[2])
{
    const struct plan *largest = &set->plans[kernels - 1];

    if (largest->family == FAMILY_DEQUANT)
        return add_slices(largest, 0, 1, slices);
    if (largest->family == FAMILY_MMA_TILE && kernels > 1) {
        while (kernels > 1 && m < set->plans[kernels - 1].m_lo)
            kernels--;
        largest = &set->plans[kernels - 1];
        if (largest->family == FAMILY_MMA_TILE)
            return slices_by_time(set, kernels, m, slices);
        struct plan_slice other[2];
        const size_t count = add_slices(largest, 0, m, slices);
        if (m <= largest->m_tile || m % largest->m_tile == 0)
            return count;
        return keep_less(slices, count, other, add_full_and_rest(set, kernels, largest, m, other));
    }
    /* the last slice is not a full one where another kernel would take longer */
    const int64_t rest = m % largest->m_tile;
    if (!rest || plan_among(set, kernels, rest) == largest)
        return add_slices(largest, 0, m, slices);
    return add_full_and_rest(set, kernels, largest, m, slices);
}

size_t plan_slices(const struct plan_set *set, int64_t m, struct plan_slice slices[2])
{
    return slices_among(set, set->count, m, slices);
}

size_t plan_slices_apart(const struct plan_set *set, int64_t m, struct plan_slice slices[2])
{
    size_t count = set->count;

    while (count && set->plans[count - 1].family == FAMILY_MMA_TILE)
        count--;
    return count ? slices_among(set, count, m, slices) : 0;
}

uint32_t plan_workgroups(const struct plan *p, const uint32_t grid[3])
{
    return grid[p->slices_first];
}

void plan_geometry(const struct plan *p, int64_t slices, unsigned compute_units, uint32_t grid[3],
                   uint32_t block[3])
{
    const int64_t groups = groups_of(p);
    const int64_t units = compute_units ? compute_units : p->target->cus;
    const int64_t held = model_at_most((int)(p->resident * units), PLAN_GRID_Y_MAX);

    grid[p->slices_first] = (uint32_t)(p->resident && held < groups ? held : groups);
    grid[!p->slices_first] = (uint32_t)slices;
    grid[2] = 1;
    block[0] = (uint32_t)p->waves * p->wave_size;
    block[1] = block[2] = 1;
}

bool plan_dual_dot2(const struct plan *p)
{
    const bool of_4_bits = p->family == FAMILY_SIMT_W4 || p->family == FAMILY_SIMT_INT4;
    const bool f16_11 = p->problem.a == QUERN_F16 && p->target->generation == 11;

    if (!(p->target->capabilities & CAP_VOPD))
        return false;
    if (p->family == FAMILY_MMA_INT4) /* of sums of A */
        return p->bias == BIAS_SHARED;
    if (p->products != PRODUCTS_DOT2)
        return false;
    return p->family == FAMILY_SIMT_SKINNY ? !(p->fp8 == FP8_SOFTWARE && f16_11)
                                           : of_4_bits && p->rows_per_wave > 1;
}

unsigned plan_row_align(const struct quern_problem *problem)
{
    const unsigned element = dtype_bytes(problem->a);

    return problem->k * element % 4 ? element : 4;
}
