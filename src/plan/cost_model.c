/* SPDX-License-Identifier: MIT */
/* What a plan costs by its instruction counts, and which of two plans is better: cost_model.h. */
#include "plan/cost_model.h"

#include "plan/base.h"

#include "plan/family.h"
#include "target/rates.h"

#include <inttypes.h>
#include <string.h>

#define SPARE_VGPRS 12 /* the compiler may use so many more than a family counts */

/* Issue and latency that take less than this share of memory time hide behind it. */
#define HIDDEN_PERCENT 60

/* Rows whose distance is a multiple of this fall on few memory channels: they camp. Reported for
 * gfx1151 and gfx1201. */
#define CAMP_BYTES 512
/* A counts as cached when it takes no more than half of the first cache of RDNA 3. */
#define A_CACHED_BYTES 16384
/* Grids of a multiple of this many workgroups, and at least twice as many, were reported several
 * times slower than others on RDNA 3 and 4; one more workgroup helps. Nothing of the kind is known
 * of CDNA, where with 256 compute units it would be one workgroup too many for a round. */
#define RESONANT_GROUPS 256

/* How many shapes that were not chosen `quern explain` prints. */
#define REJECTED_SHOWN 4

enum plan_products model_products(const struct quern_problem *q, const struct target *t)
{
    const unsigned dot2 = q->a == QUERN_F16    ? CAP_DOT2_F32_F16
                          : q->a == QUERN_BF16 ? CAP_DOT2_F32_BF16
                                               : 0;

    return t->capabilities & dot2             ? PRODUCTS_DOT2
           : t->capabilities & CAP_PK_FMA_F32 ? PRODUCTS_PACKED
                                              : PRODUCTS_PLAIN;
}

enum plan_products model_lane_products(const struct quern_problem *q, const struct target *t)
{
    if (t->capabilities & CAP_MFMA_BF16_1K && q->a != QUERN_F32)
        return PRODUCTS_MATRIX;
    return model_products(q, t);
}

int model_product_slots(const struct plan *p, int pairs)
{
    const int products = p->products == PRODUCTS_PLAIN    ? pairs * 2
                         : p->products == PRODUCTS_MATRIX ? pairs / 2
                                                          : pairs;
    const unsigned has = p->target->capabilities;
    /* the compiler finds a partner, whose operands lie in other register banks, for about half of
     * the instructions that can be dual-issued; a pair counts as one, so that saves a quarter */
    const bool found = has & CAP_VOPD && (p->products == PRODUCTS_PLAIN ||
                                          (p->problem.a == QUERN_F16 && has & CAP_VOPD_DOT2_F16));

    return found ? products * 3 / 4 : products;
}

bool model_dual_dot2(const struct plan *p)
{
    return p->target->capabilities & CAP_VOPD && p->products == PRODUCTS_DOT2;
}

enum plan_phase model_phase(const struct plan *p, int64_t row_bytes, int64_t trips, bool ahead)
{
    /* where the part is not known to camp, other starts help only by spreading a wave's steps, and
     * a wave that is `ahead` asks for all of them at once */
    if (row_bytes % CAMP_BYTES || trips < 2 || (ahead && !p->target->camps))
        return PHASE_NONE;
    return p->problem.k * p->m_tile * dtype_bytes(p->problem.a) <= A_CACHED_BYTES ? PHASE_OF_WAVES
                                                                                  : PHASE_OF_GROUPS;
}

/* Cycles that a SIMD is busy with instructions that take `slots` to issue, and with `matrix` cycles
 * of matrix products. The matrix units of gfx9 work beside the vector units, those of RDNA are part
 * of them. */
static int64_t busy_cycles(const struct target *t, int64_t slots, int64_t matrix)
{
    const int64_t issue = slots * target_issue_cycles(t);

    return !target_matrix_pipe(t) ? issue + matrix : issue > matrix ? issue : matrix;
}

/* Cycles in which a compute unit runs `workgroups` of a plan's workgroups side by side, from start
 * to end; each has the estimate's `walk` groups of rows. */
static int64_t round_cycles(const struct plan *p, const struct model_counts *c, int64_t workgroups)
{
    const struct target *const t = p->target;
    const int64_t cycles = target_issue_cycles(t), simds = (int64_t)t->simds;
    const int64_t latency = target_latency_cycles(t);
    const int64_t waves = model_ceil_div(workgroups * p->waves, simds);
    const int64_t shared =
        busy_cycles(t, workgroups * c->shared_slots, workgroups * c->shared_matrix) / simds;
    const int64_t step = busy_cycles(t, c->step_slots, c->step_matrix);
    const int64_t issue = waves * step;
    const int64_t wait = latency + step / 2; /* loads are asked for halfway through a step */
    const bool flows = c->flight_asked && p->estimate.bytes_in_flight >= c->flight_asked;
    const int64_t further = c->trips * p->estimate.walk - 1; /* steps after the first */
    return latency + shared + waves * c->setup_slots * cycles + issue +
           waves * c->last_slots * cycles * p->estimate.walk +
           c->waits * latency * p->estimate.walk +
           further * (issue > wait || c->ahead || flows ? issue : wait);
}

/* Cycles in which the fullest compute unit, with so many groups of rows, takes in the bytes that it
 * asks its cache for; 0 where memory time hides them. */
static int64_t load_cycles(const struct plan *p, const struct model_counts *c, int64_t groups)
{
    const int64_t cycles = groups * c->asked_bytes / TARGET_CACHE_BYTES_PER_CYCLE;

    return cycles && cycles > p->estimate.memory_cycles / 100 * HIDDEN_PERCENT ? cycles : 0;
}

/* Whether a plan's grid keeps the compute units as busy as the planner asks; where rows of W stay
 * together by `grain`, as busy as groups of so many rows can. */
static bool fills(const struct plan *p, int grain)
{
    return grain > 1 ? model_busy(p, MODEL_BUSY_PERCENT_TILES, grain)
                     : model_busy(p, MODEL_BUSY_PERCENT, model_least_rows(p));
}

int64_t model_memory_cycles(const struct plan *p, int64_t weight_bytes)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t bytes =
        weight_bytes + p->m_tile * (q->k * dtype_bytes(q->a) + q->n * dtype_bytes(q->c));

    /* all is integers but the last division, which gives the same number on every machine: the
     * choice among shapes, and so the source, must not differ */
    return (int64_t)target_memory_cycles(p->target, (double)(bytes * model_together(p)));
}

bool model_estimate(struct plan *p, const struct model_counts *c)
{
    const struct target *const t = p->target;
    struct plan_estimate *const e = &p->estimate;

    e->vgprs = c->vgprs;
    if (e->vgprs > MODEL_VGPRS_MAX || (p->problem.act && c->wave_rows % 2))
        return false;
    const unsigned room = (unsigned)model_at_most((int)e->vgprs + SPARE_VGPRS, MODEL_VGPRS_MAX);
    const unsigned by_vgprs = target_waves_per_simd(t, room, 0, p->wave_size, (unsigned)p->waves);
    const int64_t by_waves = (int64_t)by_vgprs * t->simds / p->waves;
    const int64_t by_lds = t->lds_bytes / p->lds_bytes;
    if (!by_waves || !by_lds)
        return false;
    const int64_t by_lds_waves = model_ceil_div(by_lds * p->waves, (int64_t)t->simds);
    e->waves_per_simd = by_lds_waves < by_vgprs ? (unsigned)by_lds_waves : by_vgprs;
    p->rows_per_workgroup = model_rows_per_workgroup(p, c);
    const int64_t groups = p->row_groups = model_ceil_div(p->problem.n, p->rows_per_workgroup);
    const int64_t all_groups = groups * model_together(p);
    const int64_t held = (int64_t)p->resident * t->cus;
    e->workgroups = held && held < groups ? held : groups;
    e->walk = model_ceil_div(groups, e->workgroups);
    if (e->workgroups * p->waves * (int64_t)p->wave_size > UINT32_MAX)
        return false;

    p->skewed = t->camps && !p->resident && !p->together && e->workgroups % RESONANT_GROUPS == 0 &&
                e->workgroups > RESONANT_GROUPS;
    /* with slices along x, those that share rows of W start next to each other, and find the
     * weights in the caches */
    p->slices_first = e->workgroups + p->skewed <= PLAN_GRID_Y_MAX;

    /* groups of rows that resident workgroups walk over come to be dealt out as evenly as
     * workgroups would be */
    const struct target_fill fill = target_fill(t, (uint64_t)all_groups);
    const int64_t fullest =
        held ? (int64_t)target_fill(t, (uint64_t)e->workgroups).fullest : (int64_t)fill.fullest;
    const int64_t fit = by_waves < by_lds ? by_waves : by_lds;
    const int64_t together = fit < fullest ? fit : fullest;
    if (p->resident > fit)
        return false;

    e->busy_percent = fill.percent;
    e->fills = fills(p, c->row_grain);
    e->bytes_in_flight = together * p->waves * c->flight_bytes;
    e->step_slots = c->step_slots;
    e->setup_slots = c->setup_slots;
    e->slots = e->workgroups * (c->shared_slots + p->waves * (int64_t)c->setup_slots) +
               groups * (p->waves / c->split_k * c->row_slots);
    e->busy_cycles =
        busy_cycles(t, e->slots * model_together(p),
                    all_groups * (p->waves / c->split_k) * c->row_steps * c->step_matrix +
                        e->workgroups * model_together(p) * c->shared_matrix);
    e->kernel_cycles = fullest / together * round_cycles(p, c, together);
    if (fullest % together)
        e->kernel_cycles += round_cycles(p, c, fullest % together);
    e->memory_cycles = c->memory_cycles;
    e->vmem_cycles = (int64_t)fill.fullest * p->waves * c->trips * c->step_vmem;
    const int64_t loads = load_cycles(p, c, (int64_t)fill.fullest);
    if (e->kernel_cycles < loads)
        e->kernel_cycles = loads;
    e->streams = true;
    return true;
}

bool model_hopeless(struct plan *p, const struct model_counts *c, const struct model_ranking *r)
{
    const int64_t groups =
        model_ceil_div(p->problem.n, model_rows_per_workgroup(p, c)) * model_together(p);

    if (!model_full(r))
        return false;
    p->estimate.busy_percent = target_fill(p->target, (uint64_t)groups).percent;
    return !fills(p, c->row_grain);
}

/* ---- Choice ---------------------------------------------------------------------------------- */

/*
 * What decides between two plans that fill the part alike: the time of the fullest compute unit, of
 * which what hides behind memory time counts little (one, where the rest counts nine), and the
 * average unit's work, for half (four).
 */
static int64_t cost_of(const struct target *t, int64_t kernel, int64_t busy, int64_t memory)
{
    const int64_t hidden = memory / 100 * HIDDEN_PERCENT, average = busy / (t->cus * t->simds);

    return 8 * (kernel > hidden ? kernel : hidden) + kernel + 4 * average;
}

static int64_t cost(const struct plan *p)
{
    const struct plan_estimate *const e = &p->estimate;

    return cost_of(p->target, e->kernel_cycles, e->busy_cycles, e->memory_cycles);
}

/* The same between plans of one family for the same rows, which count the path to the cache alike:
 * a compute unit is done when all its loads have gone over that, and the last has come back.
 * Kernels for other rows or of other families, some of which do not count it, are compared without
 * it. */
static int64_t cost_with_vmem(const struct plan *p)
{
    const struct plan_estimate *const e = &p->estimate;
    const int64_t hidden = e->memory_cycles / 100 * HIDDEN_PERCENT;
    const int64_t least = e->kernel_cycles > hidden ? e->kernel_cycles : hidden;
    const int64_t loads = e->vmem_cycles ? e->vmem_cycles + target_latency_cycles(p->target) : 0;

    return cost(p) + (loads > least ? 8 * (loads - least) : 0);
}

/*
 * Compares a lower bound of the plan's cost, which holds for any number of waves, with the cost of
 * the worst plan in the ranking. For the bound all waves run at once and are dealt out evenly: by
 * round_cycles several rounds take no less, nor does an uneven share. Waves of a plan that is
 * `open` may wait for no step but the first, and may start only once.
 */
bool model_beaten(const struct plan *p, const struct model_counts *c, const struct model_ranking *r)
{
    const struct target *const t = p->target;
    const int64_t parts = model_ceil_div(p->problem.n, c->wave_rows) * model_together(p);

    if (r->count < r->room)
        return false;
    const struct plan *const worst = &r->best[r->count - 1];
    if (!worst->estimate.streams || (!worst->estimate.fills && !c->fills_below))
        return false;
    const int64_t step = busy_cycles(t, c->step_slots, c->step_matrix);
    const int64_t waves = model_ceil_div(parts * c->split_k, (int64_t)t->cus * t->simds);
    const int64_t wait = c->ahead || c->open ? 0 : target_latency_cycles(t) + step / 2;
    const int64_t issue = waves * step;
    const int64_t kernel =
        target_latency_cycles(t) +
        ((c->open ? 1 : waves) * c->setup_slots + waves * c->last_slots) * target_issue_cycles(t) +
        issue + (c->trips - 1) * (issue > wait ? issue : wait);
    const int64_t setup = c->open ? 0 : c->split_k * (int64_t)c->setup_slots;
    const int64_t busy =
        busy_cycles(t, parts * (c->row_slots + setup), parts * c->row_steps * c->step_matrix);
    if (!worst->estimate.fills && kernel <= c->fills_below)
        return false;
    return cost_of(t, kernel, busy, c->memory_cycles) >= cost_with_vmem(worst);
}

static bool better(const struct plan *p, const struct plan *q)
{
    if (p->estimate.fills != q->estimate.fills)
        return p->estimate.fills;
    if (p->estimate.streams != q->estimate.streams)
        return p->estimate.streams;
    return cost_with_vmem(p) < cost_with_vmem(q);
}

bool model_faster(const struct plan *p, const struct plan *q, int percent)
{
    return cost(p) * 100 < cost(q) * percent;
}

bool model_pays(const struct plan *p, const struct plan *q)
{
    return p->estimate.slots <= q->estimate.slots - q->estimate.slots / 8;
}

void model_put(struct model_ranking *r, const struct plan *p)
{
    size_t at = r->count;

    if (r->wanted && !plan_has_shape(p, r->wanted))
        return;
    while (at && better(p, &r->best[at - 1]))
        at--;
    if (at == r->room)
        return;
    if (r->count < r->room)
        r->count++;
    memmove(&r->best[at + 1], &r->best[at], (r->count - 1 - at) * sizeof *r->best);
    r->best[at] = *p;
}

void model_candidates(const struct plan *plan, struct model_ranking *ranking)
{
    if (!plan_is_base(plan) || plan_units(plan) == PLAN_UNITS_NONE) { /* all layers are alike */
        plan->family->candidates(plan, ranking);
        return;
    }
    struct plan nominal = *plan;
    nominal.problem = base_nominal(&plan->problem);
    plan->family->candidates(&nominal, ranking);
    for (size_t i = 0; i < ranking->count; i++)
        base_bind(&ranking->best[i], &plan->problem);
}

quern_status model_choose(const char *measured, struct plan *plan)
{
    struct plan best;
    struct model_ranking ranking = {.best = &best, .room = 1, .wanted = measured};
    enum plan_choice choice = measured ? CHOICE_MEASURED : CHOICE_OF_MODEL;

    model_candidates(plan, &ranking);
    if (measured && !ranking.count) {
        ranking.wanted = NULL;
        choice = CHOICE_STALE;
        model_candidates(plan, &ranking);
    }
    FAIL_IF(!ranking.count, QUERN_E_DECLINED,
            "no kernel shape for n=%" PRId64 " k=%" PRId64 " fits %s", plan->problem.n,
            plan->problem.k, plan->target->name);
    *plan = best;
    plan->choice = choice;
    return QUERN_OK;
}

/* Whether a plan and `other` have the same shape but for the number of waves and what follows from
 * that. People who compare shapes are shown only one of such. */
struct likeness {
    const struct plan *other;
    bool alike;
};

static void compare(void *user, const struct plan *p, const struct plan_field *f)
{
    struct likeness *const l = user;

    if (f->word && !f->by_waves)
        l->alike &= field_value(f, p) == field_value(f, l->other);
}

static bool alike(const struct plan *p, const struct plan *q)
{
    struct likeness l = {.other = q, .alike = true};

    field_each(p, compare, &l);
    return l.alike;
}

void model_explain_rejected(const struct plan *plan, struct str *out)
{
    enum { ROOM = 64 };
    struct plan best[ROOM];
    struct model_ranking ranking = {.best = best, .room = ROOM};
    int shown = 0;

    model_candidates(plan, &ranking);
    for (size_t i = 0; i < ranking.count && shown < REJECTED_SHOWN; i++) {
        const struct plan *const p = &best[i];
        char words[PLAN_SHAPE_MAX];
        bool seen = alike(p, plan);
        for (size_t j = 0; j < i; j++)
            seen |= alike(p, &best[j]);
        if (seen)
            continue;
        const struct plan_estimate *const a = &p->estimate, *const b = &plan->estimate;
        plan_shape(p, words);
        str_addf(
            out,
            "  rejected   %s: %+.0f %% time in the fullest compute unit, %+.0f %% instructions, "
            "fills %u %%\n",
            words, 100.0 * (double)a->kernel_cycles / (double)b->kernel_cycles - 100.0,
            100.0 * (double)a->slots / (double)b->slots - 100.0, a->busy_percent);
        shown++;
    }
}
