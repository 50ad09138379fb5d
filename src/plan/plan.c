/* SPDX-License-Identifier: MIT */
/* Which kernels a problem has on a target: one for each range of M, of the families that take the
 * problem, each with the shape that the model or a tuning table prefers. */
#include "plan/plan.h"

#include "base/os.h"
#include "plan/add.h"
#include "plan/base.h"
#include "plan/blocks.h"
#include "plan/exact.h"
#include "plan/facts.h"
#include "plan/family.h"
#include "plan/tuning.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Rows of A that kernels on the vector units compute at once. Each costs a compile and a cache
 * entry. M between two of them is served by the larger, which computes the last row again for those
 * that are missing: at most half of its work is wasted. */
static const int simt_tiles[] = {1, 2, 4, PLAN_SIMT_M_MAX};

/* Rows of A that kernels on matrix units compute at once; they serve the M that follow. */
static const int mma_tiles[] = {16, 32, PLAN_MMA_M_MAX};

/* Rows of A of a workgroup of mma_tile; a problem has kernels with one of these or with both. */
static const int tile_rows[] = {PLAN_M_MAX, 128};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Appends a kernel. Before that it removes kernels from the end of the set,
 * the first `kept` excepted, that are modelled to take longer for their fewer rows. The estimates
 * of most kernels are too high by more than CLOSE_LESS per cent; so a kernel whose estimate is
 * `close` is removed for one of those already if that takes up to CLOSE_LESS per cent more. */
#define CLOSE_LESS 3
static void put_kernel(struct plan_set *set, const struct plan *put, size_t kept)
{
    while (set->count > kept) {
        const struct plan *const below = &set->plans[set->count - 1];
        const int less = below->estimate.close && !put->estimate.close ? CLOSE_LESS : 0;
        if (!model_faster(put, below, 100 + less))
            break;
        set->count--;
    }
    struct plan *const p = &set->plans[set->count++];
    *p = *put;
    p->m_lo = set->count > 1 ? p[-1].m_hi + 1 : 1;
}

/*
 * Adds kernels on matrix units, in place of those on the vector units that take longer. One row of
 * A stays with the vector units where they multiply pairs of 16-bit numbers. A kernel for fewer
 * rows than matrix units multiply at once is added if it has a shape that fits, and saves enough
 * instructions over the next larger kernel (model_pays).
 */
static quern_status add_mma(struct plan_set *set, struct plan base, const struct family *family,
                            int64_t m_max)
{
    size_t kept = !set->count || set->plans[0].products == PRODUCTS_PACKED ? 0 : 1;
    struct plan tall, low;

    base.family = family;
    TRY(plan_one(&base, mma_tiles[0], COUNT(mma_tiles) == 1, &tall));
    const int fewest = family->fewest_rows(&base);
    if (fewest < mma_tiles[0] && set->count && plan_one(&base, fewest, false, &low) == QUERN_OK &&
        model_faster(&low, &set->plans[set->count - 1], 100) && model_pays(&low, &tall)) {
        put_kernel(set, &low, kept);
        kept = set->count;
    }
    put_kernel(set, &tall, kept);
    for (size_t i = 1; i < COUNT(mma_tiles) && set->plans[set->count - 1].m_hi < m_max; i++)
        TRY(plan_add(set, &base, mma_tiles[i], i + 1 == COUNT(mma_tiles)));
    return QUERN_OK;
}

/* The first number of rows of A from which on a kernel of tiles takes no longer than the kernels of
 * a set do. */
static int tile_from(const struct plan *tile, const struct plan_set *set)
{
    const struct plan *const below = &set->plans[set->count - 1];
    struct plan_slice slices[2] = {{.plan = below}};
    int rows = PLAN_MMA_M_MAX + 1;

    for (; rows < PLAN_TILE_FROM; rows += PLAN_MMA_M_MAX) {
        const int whole = rows + PLAN_MMA_M_MAX - 1; /* slices that leave no rest */
        size_t count = 1;
        slices[0].rows = whole;
        if (plan_units(below) == PLAN_UNITS_TILES)
            count = plan_slices(set, whole, slices);
        if (plan_launch_cycles(tile, whole) <= plan_slices_cycles(slices, count))
            break;
    }
    return rows;
}

/* Appends a kernel of tiles as the set's largest. */
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

/* Whether the set `with` finer tiles is modelled to take a twentieth less than the one `without`,
 * for any number of rows between those that the finer and the largest tiles are chosen for. */
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

/* Whether a set has room for two more kernels. A kernel for fewer rows than matrix units multiply
 * at once does not count: PLAN_KERNELS_MAX has an extra place for it, so that whether a set has one
 * does not decide about tiles. */
static bool has_room(const struct plan_set *set)
{
    size_t few = 0;

    for (size_t i = 0; i < set->count; i++)
        few +=
            plan_units(&set->plans[i]) == PLAN_UNITS_MATRIX && set->plans[i].m_tile < mma_tiles[0];
    return set->count - few + 2 < PLAN_KERNELS_MAX;
}

/*
 * Adds the kernel for hundreds of rows of A: of the two sizes of tile_rows the one that takes less
 * time for each row. If that is the tall one, it may leave compute units idle at fewer rows of A;
 * so a kernel of low tiles, chosen for PLAN_TILE_FINE rows, goes in front of it where there is room
 * and it pays.
 */
static quern_status add_tiles(struct plan_set *set, struct plan base)
{
    struct plan_set both = *set;
    struct plan tall, low, fine;

    base.meant_for = PLAN_TILE_LARGE;
    TRY(plan_one(&base, tile_rows[0], true, &tall));
    TRY(plan_one(&base, tile_rows[1], true, &low));
    const int64_t per_row[] = {tall.estimate.kernel_cycles * tile_rows[1],
                               low.estimate.kernel_cycles * tile_rows[0]};
    const bool is_tall = per_row[0] <= per_row[1];
    const struct plan *const large = is_tall ? &tall : &low;
    append_tile(set, large);
    if (!is_tall || !has_room(&both))
        return QUERN_OK;
    base.meant_for = PLAN_TILE_FINE;
    TRY(plan_one(&base, tile_rows[1], true, &fine));
    append_tile(&both, &fine);
    append_tile(&both, large);
    if (both.plans[both.count - 2].m_lo < both.plans[both.count - 1].m_lo && pays(&both, set))
        *set = both;
    return QUERN_OK;
}

/* Gives each kernel for which a tuning table has a shape that shape. Which kernels there are is the
 * model's choice alone. */
static quern_status tune(struct plan_set *set, const struct tuning *tuning)
{
    for (size_t i = 0; i < set->count; i++) {
        struct plan *const p = &set->plans[i];
        const char *const shape = tuning_shape(tuning, p);
        if (!shape)
            continue;
        TRY(model_choose(shape, p));
        TRY(plan_limit(p));
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

/* Appends the kernel of a family that has a single one for every M: op=dequant, op=moe_align. */
static quern_status add_any_m(struct plan_set *set, const struct plan *base)
{
    const int rows =
        plan_takes_rows(base) ? (int)problem_rows_max(&base->problem) : PLAN_SIMT_M_MAX;

    TRY(plan_add(set, base, rows, false));
    set->m_max = rows;
    return QUERN_OK;
}

/* Appends the kernels of a family that says which it has. */
static quern_status add_listed(struct plan_set *set, const struct plan *base)
{
    for (const int *rows = base->family->m_tiles(&base->problem); *rows; rows++)
        TRY(plan_add(set, base, *rows, !rows[1]));
    set->m_max = set->plans[set->count - 1].m_hi;
    return QUERN_OK;
}

/* The first number of rows of A, up to those of a kernel's tile, from which on that kernel takes no
 * longer than a set's do; 0: there is none. */
static int listed_tile_from(const struct plan *tile, const struct plan_set *set)
{
    int from = 0;

    for (int rows = tile->m_tile; rows; from = rows--) {
        struct plan_slice slices[2];
        const size_t count = plan_slices(set, rows, slices);
        if (plan_launch_cycles(tile, rows) > plan_slices_cycles(slices, count))
            break;
    }
    return from;
}

/* Adds those kernels of a family of tiles that says which it has that take less time than the set's
 * for some rows. */
static quern_status add_listed_tiles(struct plan_set *set, struct plan base,
                                     const struct family *tiles)
{
    base.family = tiles;
    for (const int *rows = tiles->m_tiles(&base.problem); *rows; rows++) {
        struct plan p;

        if (plan_one(&base, *rows, true, &p) != QUERN_OK)
            continue; /* no shape of it fits */
        p.m_lo = listed_tile_from(&p, set);
        if (!p.m_lo)
            continue;
        while (set->count && set->plans[set->count - 1].m_lo >= p.m_lo)
            set->count--;
        if (set->count) {
            struct plan *const below = &set->plans[set->count - 1];
            if (below->m_hi >= p.m_lo)
                below->m_hi = p.m_lo - 1;
        }
        set->plans[set->count++] = p;
    }
    set->m_max = set->plans[set->count - 1].m_hi;
    return QUERN_OK;
}

/* The family of such units that takes the problem, and has kernels of the kind that it asks for. */
static const struct family *family_for(const struct quern_problem *problem,
                                       const struct target *target, enum plan_units units)
{
    const struct family *const f = family_of(problem, target, units);

    return f && problem->kernels == QUERN_KERNELS_BASE && !base_takes(problem, f) ? NULL : f;
}

/* Appends the kernels of a problem with rows of A, as plan_make_up_to says. */
static quern_status add_products(struct plan_set *set, struct plan base, int64_t m_max)
{
    const struct quern_problem *const problem = &base.problem;
    const struct family *const mma = family_for(problem, base.target, PLAN_UNITS_MATRIX);
    const struct family *const tiles = family_for(problem, base.target, PLAN_UNITS_TILES);
    const bool predequant = base.force.predequant == SWITCH_ON;

    FAIL_IF(predequant && (!mma || mma->predequant != SWITCH_FREE), QUERN_E_DECLINED,
            "predequant=on is forced, but only int4 with a=f16 or bf16 on matrix units has such "
            "kernels; wq=%s a=%s on %s has none",
            weight_name(problem->wq), dtype_name(problem->a), base.target->name);
    for (size_t i = 0; i < COUNT(simt_tiles) && !predequant; i++) {
        struct plan one;
        const size_t kept = base.family->larger_may_win ? 1 : set->count;
        TRY(plan_one(&base, simt_tiles[i], !mma && i + 1 == COUNT(simt_tiles), &one));
        put_kernel(set, &one, kept);
    }
    if (mma)
        TRY(add_mma(set, base, mma, m_max));
    const bool cut = mma && set->plans[set->count - 1].m_hi < PLAN_MMA_M_MAX;
    if (!cut && tiles && (tiles->predequant != SWITCH_ON || base.force.predequant != SWITCH_OFF)) {
        base.family = tiles;
        TRY(add_tiles(set, base));
    }
    set->m_max = cut ? INT_MAX : set->plans[set->count - 1].m_hi;
    return QUERN_OK;
}

static const struct family *first_family(const struct quern_problem *problem,
                                         const struct target *target)
{
    const bool any_m = !problem_has_activation(problem);
    const struct family *const first =
        family_of(problem, target, any_m ? PLAN_UNITS_NONE : PLAN_UNITS_VECTOR);

    return first || any_m ? first : family_of(problem, target, PLAN_UNITS_MATRIX);
}

/* Declines a problem, and says with which activations it would be taken. */
static quern_status no_family(const struct quern_problem *problem, const struct target *target)
{
    struct quern_problem other = *problem;
    struct str right = {0};

    for (other.a = QUERN_F32; problem->a && other.a <= QUERN_BF16; other.a++)
        if (first_family(&other, target))
            str_addf(&right, "%s a=%s", right.length ? "," : "; there are kernels for",
                     dtype_name(other.a));
    const quern_status status =
        error_set(QUERN_E_DECLINED, __FILE__, FAIL_AT(""),
                  "no family of kernels takes op=%s wq=%s%s%s on %s%s", op_name(problem->op),
                  weight_name(problem->wq), problem->a ? " a=" : "",
                  problem->a ? dtype_name(problem->a) : "", target->name, str_text(&right));
    str_free(&right);
    return status;
}

quern_status plan_make_up_to(const struct quern_problem *problem, const struct target *target,
                             const struct tuning *tuning, const struct plan_force *force,
                             int64_t m_max, struct plan_set *set)
{
    const bool any_m = !problem_has_activation(problem);
    const struct family *const first = first_family(problem, target);
    struct plan base = {.problem = *problem,
                        .force = force ? *force : (struct plan_force){0},
                        .target = target,
                        .family = first};
    const bool alike = problem->exact & QUERN_EXACT_BATCH_INVARIANT;
    struct plan_set made = {0};

    FAIL_IF(!first && !problem_has_weights(problem), QUERN_E_DECLINED,
            "no family of kernels takes op=%s on %s in this version; quern_moe_align() does it on "
            "the CPU",
            op_name(problem->op), target->name);
    if (!first)
        return no_family(problem, target);
    if (!any_m)
        TRY(facts_accept(target));
    if (first->accepts)
        TRY(first->accepts(problem, target));
    if (problem->kernels == QUERN_KERNELS_BASE)
        TRY(base_accepts(problem, target, first));
    if (problem->exact & QUERN_EXACT_PRECISE) {
        FAIL_IF(base.force.predequant == SWITCH_ON, QUERN_E_DECLINED,
                "predequant=on is forced, which rounds scaled weights to 16 bits, but the problem "
                "promises not to (exact=%s)",
                alike ? "both" : "precise");
        base.force.predequant = SWITCH_OFF;
    }
    if (any_m)
        TRY(add_any_m(&made, &base));
    else if (problem->op == QUERN_OP_MOE)
        TRY(blocks_plan(&made, base));
    else if (first->m_tiles) {
        const struct family *const tiles = family_for(problem, target, PLAN_UNITS_TILES);
        TRY(add_listed(&made, &base));
        if (tiles && base.force.predequant != SWITCH_OFF)
            TRY(add_listed_tiles(&made, base, tiles));
    } else
        TRY(add_products(&made, base, alike ? INT64_MAX : m_max));
    if (alike)
        exact_keep_one(&made);
    if (problem->kernels)
        tuning = NULL; /* tables are of layers */
    TRY(tune(&made, tuning));
    made.tuned = tuning && !any_m;
    if (made.tuned)
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
    model_candidates(&base, &ranking);
    for (size_t i = 0; i < ranking.count; i++)
        fn(user, &ranking.best[i]);
    os.free(ranking.best);
    return QUERN_OK;
}

quern_status plan_reshape(struct plan *plan, const char *shape)
{
    struct plan p = *plan;

    TRY(model_choose(shape, &p));
    FAIL_IF(p.choice != CHOICE_MEASURED, QUERN_E_ARGUMENT, "'%s' is no shape of %s on %s", shape,
            p.symbol, p.target->name);
    TRY(plan_limit(&p));
    *plan = p;
    return QUERN_OK;
}

/* Finding the n-th candidate of a list, in which the shape `but` is not counted. */
struct nth {
    unsigned left; /* candidates still to pass, the n-th included; 0: `words` is its shape */
    char but[PLAN_SHAPE_MAX], words[PLAN_SHAPE_MAX];
};

static void take_nth(void *user, const struct plan *candidate)
{
    struct nth *const nth = user;
    char words[PLAN_SHAPE_MAX];

    plan_shape(candidate, words);
    if (!nth->left || !strcmp(words, nth->but))
        return;
    nth->left--;
    memcpy(nth->words, words, sizeof words);
}

quern_status plan_next(const struct plan *plan, unsigned n, struct plan *next)
{
    struct nth nth = {.left = n};

    plan_shape(plan, nth.but);
    FAIL_IF(n > PLAN_NEXT_MAX, QUERN_E_DECLINED, "%d kernels of %s were refused", PLAN_NEXT_MAX + 1,
            plan->symbol);
    TRY(plan_candidates(plan, PLAN_NEXT_MAX + 1, take_nth, &nth));
    FAIL_IF(nth.left, QUERN_E_DECLINED, "%s was refused, and there is no other kernel like it",
            plan->symbol);
    *next = *plan;
    TRY(plan_reshape(next, nth.words));
    next->choice = CHOICE_NEXT;
    return QUERN_OK;
}
