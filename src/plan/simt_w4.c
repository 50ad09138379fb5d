/* SPDX-License-Identifier: MIT */
/*
 * Candidates, estimate and choice for the family simt_w4. The costs were fitted to code that hipRTC
 * 6.4.3 made of the template (docs/kernels.md has the table); they rank candidates. Every figure
 * that decides is an integer, so that the choice, and with it the source, is the same on every
 * machine.
 */
#include "plan/simt_w4.h"
#include "target/rates.h"

#include <inttypes.h>
#include <string.h>

#define TABLE_BYTES 32768 /* 256 pairs of codes, 128 bytes of copies each */
#define TABLE_SLOTS 5120  /* instructions that build it times lanes, all waves together */
#define ITEMS_MAX   1024  /* work-items of a workgroup */
#define VALUES_MAX  32    /* sums per lane that the template's reduction can fold */
#define VGPRS_MAX   256   /* that an instruction can name */
#define SPARE_VGPRS 12    /* that the estimate may be short of */
#define SIZE_MAX_NK ((int64_t)1 << 27)

/* The average compute unit's share of the fullest one's work below which a grid counts as too
 * coarse. */
#define BUSY_PERCENT 85

/* With one row of A a layer should be as fast as its weights arrive: enough bytes of them asked for
 * by a compute unit to last this long, or half of all it reads; and registers for this many waves
 * in a SIMD. */
#define IN_FLIGHT_NS   600
#define WAVES_RDNA     8
#define REGISTERS_GFX9 128 /* four waves of CDNA 2 and later, two of what came before */

/* Issue and latency that take less than this share of memory time hide behind it. */
#define HIDDEN_PERCENT 60

/* Row strides that are multiples of this camp on few channels (reported for gfx1151 and gfx1201).
 */
#define CAMP_BYTES 512
/* A counts as cached when it takes no more than half of the first cache of RDNA 3. */
#define A_CACHED_BYTES 16384
/* Grids of a multiple of this many workgroups, and at least twice as many, were reported several
 * times slower than others on RDNA 3 and 4; one more workgroup helps. */
#define RESONANT_GROUPS 256

/* Alternatives that explain prints. */
#define REJECTED_SHOWN 4

quern_status simt_w4_accepts(const struct quern_problem *p, const struct target *t)
{
    FAIL_IF(p->wq != QUERN_W_NF4 && p->wq != QUERN_W_FP4 && p->wq != QUERN_W_MXFP4,
            QUERN_E_DECLINED,
            "wq=%s has no kernel in this version, which does wq=nf4, wq=fp4 and wq=mxfp4",
            weight_name(p->wq));
    FAIL_IF(p->layout == QUERN_LAYOUT_TILEN, QUERN_E_DECLINED,
            "only layout=%s has kernels for wq=%s in this version",
            p->wq == QUERN_W_MXFP4 ? "k8" : "bnb", weight_name(p->wq));
    FAIL_IF(p->round != QUERN_ROUND_RNE, QUERN_E_DECLINED,
            "round=trunc has no kernel in this version, which rounds to nearest (round=rne)");
    FAIL_IF(p->n > SIZE_MAX_NK || p->k > SIZE_MAX_NK, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " is beyond this version's largest, %" PRId64 " each", p->n,
            p->k, SIZE_MAX_NK);
    FAIL_IF(p->a == QUERN_F16 && !(t->capabilities & CAP_DOT2_F32_F16), QUERN_E_DECLINED,
            "%s has no v_dot2_f32_f16; use a=f32 or a=bf16 there", t->name);
    return QUERN_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static int at_most(int a, int b)
{
    return a < b ? a : b;
}

/* ---- Estimate -------------------------------------------------------------------------------- */

/* Blocks whose nested absmax share a second scale. */
#define NEST 256

/* Instructions that make a scale of what was loaded, beyond those of a plain absmax. */
static int scale_slots(const struct quern_problem *q)
{
    const int64_t blocks = q->k / problem_group(q);

    if (q->scale == QUERN_SCALE_E8M0)
        return 3;
    if (q->scale != QUERN_SCALE_NESTED)
        return 0;
    /* address, look-up, product; then what finds the second scale */
    return 3 + (blocks > NEST ? 4 : NEST % blocks ? 2 : 0);
}

static enum plan_products products_of(const struct quern_problem *q, const struct target *t)
{
    const unsigned dot2 = q->a == QUERN_F16    ? CAP_DOT2_F32_F16
                          : q->a == QUERN_BF16 ? CAP_DOT2_F32_BF16
                                               : 0;

    if (t->capabilities & CAP_MFMA_BF16_1K && q->a != QUERN_F32)
        return PRODUCTS_MATRIX;
    return t->capabilities & dot2             ? PRODUCTS_DOT2
           : t->capabilities & CAP_PK_FMA_F32 ? PRODUCTS_PACKED
                                              : PRODUCTS_PLAIN;
}

/* Whether the table holds f32. */
static bool wide(const struct plan *p)
{
    return p->products == PRODUCTS_PACKED || p->products == PRODUCTS_PLAIN;
}

/* Whether a 16-bit A is widened for it. */
static bool widens(const struct plan *p)
{
    return wide(p) && p->problem.a != QUERN_F32;
}

static int64_t weights_of_step(const struct plan *p)
{
    return (int64_t)p->wave_size * p->chunk;
}

/* Steps that a row takes, dealt out to split_k waves; one of a tail comes on top. */
static int64_t steps_of(const struct plan *p)
{
    return p->tail ? p->problem.k / weights_of_step(p) : ceil_div(p->problem.k, weights_of_step(p));
}

/* Weights for one lane of a step that holds what whole steps leave of K, 0 when it would be no
 * shorter than theirs or the only one. */
static int tail_of(const struct plan *p)
{
    const int64_t rest = p->problem.k % weights_of_step(p);
    int tail = 8;

    if (!rest || p->problem.k < weights_of_step(p))
        return 0;
    while (tail * (int64_t)p->wave_size < rest)
        tail *= 2;
    return tail < p->chunk ? tail : 0;
}

/* Steps of one wave. */
static int64_t trips_of(const struct plan *p)
{
    return ceil_div(steps_of(p), p->split_k);
}

/* Whether the template unrolls them. */
static bool unrolled(const struct plan *p)
{
    const int64_t trips = trips_of(p);

    return trips == 1 || p->ahead ||
           (p->products == PRODUCTS_MATRIX && trips == 2 && p->m_tile == 4);
}

static enum plan_phase phase_of(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    if (q->k / 2 % CAMP_BYTES || trips_of(p) < 2)
        return PHASE_NONE;
    return q->k * p->m_tile * dtype_bytes(q->a) <= A_CACHED_BYTES ? PHASE_OF_WAVES
                                                                  : PHASE_OF_GROUPS;
}

/* Instructions that multiply in a step with chunks of `chunk` weights. */
static int product_slots(const struct plan *p, int chunk)
{
    const int pairs = chunk / 2 * p->rows_per_wave * p->m_tile;

    return p->products == PRODUCTS_PLAIN    ? pairs * 2
           : p->products == PRODUCTS_MATRIX ? pairs / 2
                                            : pairs;
}

/* Instructions of a wave in a step with chunks of `chunk` weights, but for those of the loop. */
static int chunk_slots(const struct plan *p, int chunk)
{
    const struct quern_problem *const q = &p->problem;
    const int r = p->rows_per_wave, m = p->m_tile, pairs = chunk / 2;
    /* v_dual_dot2acc_f32_f16 is of the gfx11 instruction set alone; about a half of what can be
     * dual-issued finds a partner in another register bank */
    const bool dual =
        p->target->capabilities & CAP_VOPD &&
        (p->products == PRODUCTS_PLAIN || (q->a == QUERN_F16 && p->target->generation == 11));
    const int products = product_slots(p, chunk);
    /* scaling a sum: two halves to add first, or one of four to choose */
    const int finish = p->products == PRODUCTS_PACKED ? 3 : p->products == PRODUCTS_MATRIX ? 3 : 1;
    int slots = 2 * pairs * r; /* an address and an LDS load for each pair of weights */

    slots += dual ? products * 3 / 4 : products;
    slots += widens(p) ? 2 * pairs * m : 0;
    slots += 2 * r;                                   /* loads of weights and scales */
    slots += m * chunk * (int)dtype_bytes(q->a) / 16; /* loads of A */
    slots += r * m * finish * 3 / 2 + r / 2;          /* scale, clear */
    slots += r * scale_slots(q);
    return slots + (q->k % ((int64_t)p->wave_size * chunk) ? 6 : 0); /* the end of K */
}

static uint32_t step_slots(const struct plan *p)
{
    int slots = chunk_slots(p, p->chunk);

    if (p->tail && p->problem.k % weights_of_step(p))
        slots -= 6;                /* the end of K is the tail's */
    slots += unrolled(p) ? 3 : 11; /* offsets; loop */
    slots += phase_of(p) ? unrolled(p) ? 1 : 4 : 0;
    return (uint32_t)slots;
}

static uint32_t tail_slots(const struct plan *p)
{
    if (!p->tail)
        return 0;
    const int slots = chunk_slots(p, p->tail);
    const bool whole = p->problem.k % weights_of_step(p) == p->tail * (int64_t)p->wave_size;
    return (uint32_t)(slots + 3 -
                      (whole && p->problem.k % ((int64_t)p->wave_size * p->tail) ? 6 : 0));
}

/* Instructions of a wave before, between and after its steps: addresses, reduction, store. */
static uint32_t setup_slots(const struct plan *p)
{
    const int r = p->rows_per_wave, m = p->m_tile;

    return (uint32_t)(65 + 12 * r + 14 * m + (p->wave_size == 64 ? 4 : 2) * m * r +
                      (p->split_k > 1 ? 20 + 2 * p->split_k : 0));
}

/* With few rows of A there are registers for all weights of two steps and a tail. */
static bool may_be_ahead(const struct plan *p)
{
    const int64_t trips = trips_of(p);

    return p->m_tile <= 2 && steps_of(p) % p->split_k == 0 &&
           (trips == 2 || (trips == 1 && p->tail));
}

static uint32_t vgprs(const struct plan *p)
{
    const int r = p->rows_per_wave, m = p->m_tile;
    const bool f32 = p->problem.a == QUERN_F32;
    const int batches = p->chunk / (f32 ? 4 : 8);
    const int ring = at_most(batches, m > 2 ? 2 : 4); /* batches of A held, as in the template */
    const int sums = p->products == PRODUCTS_PACKED ? 3 : p->products == PRODUCTS_MATRIX ? 5 : 2;
    const int scales = p->problem.scale == QUERN_SCALE_NESTED ? 4
                       : p->problem.scale == QUERN_SCALE_E8M0 ? 3
                                                              : 2;

    return (uint32_t)(p->chunk / 8 * r * (p->ahead ? 2 : 1) /* packed weights */ +
                      (p->tail ? (p->ahead ? p->tail / 8 + 3 : 2) * r : 0) /* those of the tail */ +
                      (widens(p) ? 12 : 8) * r /* decoded */ + scales * r + 4 * ring * m +
                      sums * m * r + 16 + (wide(p) ? 3 * m : 0));
}

/* Cycles of a compute unit that runs `workgroups` of them side by side from start to end. */
static int64_t round_cycles(const struct plan *p, int64_t workgroups, int64_t latency)
{
    const struct plan_estimate *const e = &p->estimate;
    const int64_t steps = trips_of(p);
    const int64_t waves = ceil_div(workgroups * p->waves, p->target->simds);
    const int64_t cycles = target_issue_cycles(p->target);
    const int64_t table = workgroups * TABLE_SLOTS / p->wave_size * cycles / p->target->simds;
    const int64_t issue = waves * e->step_slots * cycles;
    const int64_t wait =
        latency + e->step_slots * cycles / 2; /* the next weights are asked for in mid-step */
    /* those of the tail came with the first; where steps do not come out even, it evens them */
    const int64_t tail = steps_of(p) % p->split_k ? 0 : waves * tail_slots(p) * cycles;

    return latency + table + waves * e->setup_slots * cycles + issue + tail +
           (steps - 1) * (issue > wait || p->ahead ? issue : wait);
}

/* Integers up to the last division, which is the same on every machine. */
static int64_t memory_cycles(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t scale_bytes = q->scale == QUERN_SCALE_F32 ? 4 : 1;
    const int64_t bytes = q->n * q->k / 2 + q->n * (q->k / problem_group(q)) * scale_bytes +
                          p->m_tile * (q->k * dtype_bytes(q->a) + q->n * dtype_bytes(q->c));

    return (int64_t)target_memory_cycles(p->target, (double)bytes);
}

/* Fills the estimate; false when a workgroup does not fit in a compute unit or a launch. */
static bool estimate(struct plan *p)
{
    const struct target *const t = p->target;
    struct plan_estimate *const e = &p->estimate;

    e->vgprs = vgprs(p);
    if (e->vgprs > VGPRS_MAX)
        return false;
    const unsigned by_vgprs = target_waves_per_simd(
        t, at_most((int)e->vgprs + SPARE_VGPRS, VGPRS_MAX), 0, p->wave_size, (unsigned)p->waves);
    const int64_t by_waves = (int64_t)by_vgprs * t->simds / p->waves;
    const int64_t by_lds = t->lds_bytes / p->lds_bytes;
    if (!by_waves || !by_lds)
        return false;
    e->waves_per_simd =
        target_waves_per_simd(t, e->vgprs, p->lds_bytes, p->wave_size, (unsigned)p->waves);
    const unsigned asked = target_waves_per_simd(t, at_most((int)e->vgprs + SPARE_VGPRS, VGPRS_MAX),
                                                 p->lds_bytes, p->wave_size, (unsigned)p->waves);
    const unsigned least = t->vgprs / VGPRS_MAX; /* with more registers they would be moved about */
    p->waves_asked = (int)(asked > least ? asked : least);
    e->workgroups = ceil_div(p->problem.n, plan_rows_per_workgroup(p));
    if (e->workgroups * p->waves * (int64_t)p->wave_size > UINT32_MAX)
        return false;

    p->phase = phase_of(p);
    p->skewed = e->workgroups % RESONANT_GROUPS == 0 && e->workgroups > RESONANT_GROUPS;
    /* slices beside each other find the weights in the caches */
    p->slices_first = e->workgroups + p->skewed <= PLAN_GRID_Y_MAX;

    const struct target_fill fill = target_fill(t, (uint64_t)e->workgroups);
    const int64_t fullest = (int64_t)fill.fullest;
    const int64_t fit = by_waves < by_lds ? by_waves : by_lds;
    const int64_t together = fit < fullest ? fit : fullest;
    const int64_t latency = (int64_t)(t->clock_ghz * TARGET_LATENCY_NS + 0.5);

    e->busy_percent = fill.percent;
    e->bytes_in_flight = together * p->waves * p->rows_per_wave * (int64_t)p->wave_size * p->chunk /
                         2 * (p->ahead ? trips_of(p) : 1);
    e->step_slots = step_slots(p);
    e->setup_slots = setup_slots(p);
    e->slots =
        e->workgroups * (TABLE_SLOTS / p->wave_size + p->waves * (int64_t)e->setup_slots +
                         p->waves / p->split_k * (steps_of(p) * e->step_slots + tail_slots(p)));
    e->kernel_cycles = fullest / together * round_cycles(p, together, latency);
    if (fullest % together)
        e->kernel_cycles += round_cycles(p, fullest % together, latency);
    e->memory_cycles = memory_cycles(p);
    return true;
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/*
 * What decides between two that fill the part alike: the time of the fullest compute unit, but what
 * of it hides behind memory time counts an eighth only, and so does the work of the average unit.
 */
static int64_t cost(const struct plan *p)
{
    const struct plan_estimate *const e = &p->estimate;
    const int64_t hidden = e->memory_cycles / 100 * HIDDEN_PERCENT;
    const int64_t average =
        e->slots * target_issue_cycles(p->target) / (p->target->cus * p->target->simds);

    return 8 * (e->kernel_cycles > hidden ? e->kernel_cycles : hidden) + e->kernel_cycles +
           4 * average;
}

/* Whether a grid is as fine as is asked for, or as whole rows of W can be dealt out. */
static bool fills(const struct plan *p)
{
    const int64_t n = p->problem.n, cus = p->target->cus;
    const int64_t most = n * 100 / (ceil_div(n, cus) * cus);

    return p->estimate.busy_percent >= (most < BUSY_PERCENT ? most : BUSY_PERCENT);
}

/* Whether the waves hide latency from each other; asked of M = 1 alone. */
static bool streams(const struct plan *p)
{
    const struct target *const t = p->target;
    const double asked = t->bandwidth_gbs * IN_FLIGHT_NS / t->cus;
    const double half = (double)p->problem.n * (double)p->problem.k / 4 / t->cus;
    const unsigned waves = target_waves_per_simd(t, p->estimate.vgprs, 0, p->wave_size, 1);

    return p->m_tile > 1 ||
           (waves >= (t->generation == 9 ? t->vgprs / REGISTERS_GFX9 : WAVES_RDNA) &&
            (double)p->estimate.bytes_in_flight >= (asked < half ? asked : half));
}

static bool better(const struct plan *p, const struct plan *q)
{
    if (fills(p) != fills(q))
        return fills(p);
    if (streams(p) != streams(q))
        return streams(p);
    return cost(p) < cost(q);
}

/* Keeps the `room` best of the plans that are put in, best first; of equals the earlier. */
static void put(struct plan *best, size_t *count, size_t room, const struct plan *p)
{
    size_t at = *count;

    while (at && better(p, &best[at - 1]))
        at--;
    if (at == room)
        return;
    if (*count < room)
        ++*count;
    memmove(&best[at + 1], &best[at], (*count - 1 - at) * sizeof *best);
    best[at] = *p;
}

/*
 * Every shape that fits, for a plan whose fields up to m_tile are set. More than four rows of W in
 * a wave would save 4 % of the instructions at M = 1 for 64 registers, and twice the compile time.
 */
static size_t candidates(const struct plan *base, struct plan *best, size_t room)
{
    static const int rows[] = {4, 2, 1}, chunks[] = {32, 16, 8}, splits[] = {1, 2, 4, 8, 16};
    size_t count = 0;
    struct plan p = *base;

    p.products = products_of(&p.problem, p.target);
    p.wave_size = p.target->wave_size;
    p.lds_bytes = TABLE_BYTES;
    p.weights_once = p.m_tile < PLAN_M_MAX;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
            for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
                for (int groups = 1; groups * splits[s] * (int)p.wave_size <= ITEMS_MAX; groups++) {
                    p.rows_per_wave = rows[r];
                    p.chunk = chunks[c];
                    p.split_k = splits[s];
                    p.waves = groups * splits[s];
                    p.tail = tail_of(&p);
                    if (p.split_k > steps_of(&p) || p.rows_per_wave * p.m_tile > VALUES_MAX)
                        continue;
                    p.ahead = may_be_ahead(&p);
                    if (estimate(&p))
                        put(best, &count, room, &p);
                    if (!p.ahead)
                        continue;
                    p.ahead = false; /* fewer registers */
                    if (estimate(&p))
                        put(best, &count, room, &p);
                }
    return count;
}

quern_status simt_w4_choose(struct plan *plan)
{
    struct plan best;

    FAIL_IF(!candidates(plan, &best, 1), QUERN_E_DECLINED,
            "no kernel shape for n=%" PRId64 " k=%" PRId64 " fits %s", plan->problem.n,
            plan->problem.k, plan->target->name);
    *plan = best;
    return QUERN_OK;
}

/* Whether two plans are the same shape but for the number of waves. */
static bool alike(const struct plan *p, const struct plan *q)
{
    return p->rows_per_wave == q->rows_per_wave && p->chunk == q->chunk && p->split_k == q->split_k;
}

void simt_w4_explain_rejected(const struct plan *plan, struct str *out)
{
    enum { ROOM = 64 };
    struct plan best[ROOM];
    const size_t count = candidates(plan, best, ROOM);
    int shown = 0;

    for (size_t i = 1; i < count && shown < REJECTED_SHOWN; i++) {
        const struct plan *const p = &best[i];
        bool seen = false;
        for (size_t j = 0; j < i; j++)
            seen |= alike(p, &best[j]);
        if (seen)
            continue;
        const struct plan_estimate *const a = &p->estimate, *const b = &plan->estimate;
        str_addf(
            out,
            "  rejected   %d waves, %d rows, %d weights, split %d: %+.0f %% time in the fullest "
            "compute unit, %+.0f %% instructions, fills %u %%\n",
            p->waves, p->rows_per_wave, p->chunk, p->split_k,
            100.0 * (double)a->kernel_cycles / (double)b->kernel_cycles - 100.0,
            100.0 * (double)a->slots / (double)b->slots - 100.0, a->busy_percent);
        shown++;
    }
}
