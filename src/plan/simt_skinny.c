/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family simt_skinny. The counts follow the template
 * (templates/family/simt_skinny.hip) and were fitted to code that hipRTC 6.4.3 made of it;
 * cost_model.c makes a choice of them.
 *
 * This file is long because a shape's registers, LDS, instructions and waits are counted from the
 * same walk over A and W, which every count has to follow.
 */
#include "plan/args.h"
#include "plan/base.h"
#include "plan/explain.h"
#include "plan/family.h"
#include "target/rates.h"

#include <inttypes.h>
#include <string.h>

#define ITEMS_MAX   1024 /* work-items of a workgroup */
#define VALUES_MAX  32   /* sums per lane that the template's reduction can fold */
#define SIZE_MAX_NK ((int64_t)1 << 27)
#define LOAD_BYTES  16 /* of one load of a lane */
#define LOADS_MAX   16 /* loads of weights that a lane waits for: more take registers and code */
#define LDS_LEAST   16
#define BASE_ROWS   32    /* rows of W of a wave of a base kernel, at most */
#define STAGE_WAVES 4     /* workgroups of fewer waves do not try to keep A in LDS */
#define STAGE_BYTES 32768 /* of LDS for a part of A, where not all of it fits a compute unit */

#define WALK_VGPRS 12 /* registers that cost_model.c keeps in reserve: its SPARE_VGPRS */
#define WALK_LOADS 4  /* steps a SIMD must have asked for: some arrive while others are used */
#define WALK_SLOTS 20 /* instructions of a wave that goes on to the next group of rows */

#define BUSY_PERCENT_FULL 95 /* busy_percent from which on a plan may fill the part */
#define STEPS_M_MAX       4  /* rows of A for which a wave may have any number of rows of W */

/* With one row of A a layer should be as fast as its weights arrive. For that a compute unit must
 * have asked for as many bytes of them as arrive in this time, or for half of all that it reads. */
#define IN_FLIGHT_NS 600

/* Instructions that an fp8 weight takes in all, with up to four rows of A, where it is decoded in
 * software: for products of f16; of bf16; and of f32, where the target has no others for bf16
 * (gfx90a). Counted on gfx950, whose lanes have the least time for a weight. */
#define SOFTWARE_HALF 4.8
#define SOFTWARE_BF16 5.3
#define SOFTWARE_F32  7.9

/* How the target meets the problem's fp8, if it has any. */
static enum plan_fp8 fp8_of(const struct quern_problem *q, const struct target *t)
{
    const bool own_fnuz = t->capabilities & CAP_FP8_FNUZ;

    if (q->wq == QUERN_W_NONE)
        return 0;
    if (!(t->capabilities & CAP_FP8_CVT))
        return FP8_SOFTWARE;
    return own_fnuz == (q->wq == QUERN_W_FP8FNUZ) ? FP8_NATIVE
           : own_fnuz                             ? FP8_HALVED
                                                  : FP8_SOFTWARE;
}

static bool takes(const struct quern_problem *q, const struct target *t)
{
    (void)t;
    return problem_has_activation(q) && !problem_has_group(q);
}

static quern_status accepts(const struct quern_problem *q, const struct target *t)
{
    const double room = target_lanes_per_cycle(t) * t->cus * t->clock_ghz / t->bandwidth_gbs;
    const bool has_bf16 = t->capabilities & (CAP_DOT2_F32_BF16 | CAP_MFMA_BF16_1K);
    const double takes = q->a != QUERN_BF16 ? SOFTWARE_HALF
                         : has_bf16         ? SOFTWARE_BF16
                                            : SOFTWARE_F32;

    FAIL_IF(q->n > SIZE_MAX_NK || q->k > SIZE_MAX_NK, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " is beyond this version's largest, %" PRId64 " each", q->n,
            q->k, SIZE_MAX_NK);
    FAIL_IF(fp8_of(q, t) == FP8_SOFTWARE && takes > room, QUERN_E_DECLINED,
            "%s has no instruction for wq=%s, and in software a weight with a=%s takes %.1f "
            "instructions, more than the %.1f that the %s has time for while it arrives; use "
            "wq=none",
            t->name, weight_name(q->wq), dtype_name(q->a), takes, room, t->part);
    return QUERN_OK;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static int weight_bytes(const struct quern_problem *q)
{
    return (int)dtype_bytes(problem_weight_type(q));
}

/* Whether products are of the bytes of fp8 themselves. */
static bool of_bytes(const struct plan *p)
{
    return p->products == PRODUCTS_DOT4 || p->skinny.row_lanes == 8;
}

/* Where v_dot2acc_f32_f16 exists unpaired, too (gfx11), the compiler pairs dot products of f16
 * itself, and finds more pairs than the text would if software makes f16 of fp8: it is left to it.
 */
static bool dual_dot2(const struct plan *p)
{
    const bool single = p->problem.a == QUERN_F16 && p->target->capabilities & CAP_VOPD_DOT2_F16;

    return model_dual_dot2(p) && !(p->skinny.fp8 == FP8_SOFTWARE && single);
}

/* Rows of W that a wave works on at a time; rows_of_workgroup: that a workgroup does. */
static int rows_of_wave(const struct plan *p)
{
    return p->skinny.rows * p->skinny.row_lanes;
}

static int64_t rows_of_workgroup(const struct plan *p)
{
    return (int64_t)(p->waves / p->skinny.split_k) * rows_of_wave(p);
}

/* Instructions that make `count` fp8 values ready to be multiplied. */
static int fp8_slots(const struct plan *p, int count)
{
    const bool bf16 = p->problem.a == QUERN_BF16;
    const bool at_once = p->target->capabilities & CAP_CVT_PK_BF16; /* gfx950, to 16 bits */
    const int converted = of_bytes(p) ? 0 : plan_of_f32(p) || at_once ? count / 2 : count;
    const int examined = p->skinny.fp8 == FP8_NATIVE   ? 0
                         : p->skinny.fp8 == FP8_HALVED ? 6 * count / 4
                                                       : count;

    if (p->skinny.vector == 1)
        return 4 * count;
    if (p->skinny.fp8 == FP8_SOFTWARE) /* plain products take f16 as it is: RDNA's FMA reads it */
        return 2 * count + 3 * count / 4 +
               (p->products == PRODUCTS_PACKED           ? count
                : p->products == PRODUCTS_PLAIN || !bf16 ? 0
                : p->target->capabilities & CAP_SDWA     ? 3 * count / 2
                                                         : 2 * count);
    return converted + examined;
}

/* Weights of a row in a step of a wave. */
static int64_t step_of(const struct plan *p)
{
    return (int64_t)p->wave_size / p->skinny.row_lanes * p->skinny.vector;
}

static int64_t steps_of(const struct plan *p)
{
    return model_ceil_div(p->problem.k, step_of(p));
}

static int64_t trips_of(const struct plan *p)
{
    return model_ceil_div(steps_of(p), p->skinny.split_k);
}

/* Whether all of a matrix instruction's result is used, not its diagonal alone. */
static bool is_matrices(const struct plan *p)
{
    return p->products == PRODUCTS_MATRIX && p->skinny.row_lanes > 1;
}

/* How many rows of A a lane loads. */
static int columns_of(const struct plan *p)
{
    return is_matrices(p) ? (int)model_ceil_div(p->m_tile, p->skinny.row_lanes) : p->m_tile;
}

/* Sums that a lane is left with after the reduction. */
static int results_of(const struct plan *p)
{
    return is_matrices(p) ? p->skinny.rows * columns_of(p) : 1;
}

/* In how many stages A passes through LDS for a group of rows of W; 0: it does not. */
static int64_t stages_of(const struct plan *p)
{
    return p->skinny.stage ? model_ceil_div(trips_of(p), p->skinny.stage) : 0;
}

/* Bytes of a row of A that LDS holds at a time; staged_bytes: of all rows, as the template lays
 * them out. */
static int64_t stage_row_bytes(const struct plan *p)
{
    const int64_t k = p->skinny.stage < trips_of(p)
                          ? p->skinny.stage * p->skinny.split_k * step_of(p)
                          : p->problem.k;

    return k * dtype_bytes(p->problem.a);
}

static int64_t staged_bytes(const struct plan *p)
{
    const int64_t pitch = (stage_row_bytes(p) + 15) / 16 * 16 + (p->skinny.row_lanes == 1 ? 0 : 32);

    return p->skinny.stage ? p->m_tile * pitch : 0;
}

/* Instructions by which a wave copies its share of A to LDS, in all stages of a group of rows. */
static int64_t stage_slots(const struct plan *p)
{
    const int64_t items = (int64_t)p->waves * p->wave_size;
    const int64_t loads = p->m_tile * model_ceil_div(stage_row_bytes(p), items * LOAD_BYTES);

    return stages_of(p) * (6 * loads + 24);
}

/* ---- Scales of blocks, as the template has them ---------------------------------------------- */

static bool has_block_scales(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_BLOCK128;
}

/* Whether `count` neighbours among `total` rows are always in one block of them. */
static bool in_one_block(int64_t count, int64_t total)
{
    return PROBLEM_BLOCK % count == 0 &&
           (total % count == 0 || total % PROBLEM_BLOCK >= count || total < count);
}

/* Scales of W that a lane loads for a step. */
static int w_scales_of(const struct plan *p)
{
    const int64_t n = p->problem.n, rows = rows_of_wave(p);
    const int sum_rows = !is_matrices(p) ? 1 : p->skinny.row_lanes == 8 ? 2 : 4;

    if (p->problem.glu == QUERN_GLU_HALVES)
        return rows % 2 == 0 && n / 2 % (rows / 2) == 0 && in_one_block(rows / 2, n / 2)
                   ? 2
                   : p->skinny.rows * sum_rows;
    return in_one_block(rows, n) ? 1 : p->skinny.rows * sum_rows;
}

/* All scales that a lane loads for a step. */
static int scales_of(const struct plan *p)
{
    return w_scales_of(p) + (dtype_bytes(p->problem.a) == 1 ? columns_of(p) : 0);
}

/* Instructions of a step for them: loads, products of two scales, and scaling sums, of which a
 * matrix instruction makes four for a lane, two of which one FMA takes where there are packed ones.
 * The sums begin with 0, which only products that the text issues in pairs have to be given. */
static int scale_slots(const struct plan *p)
{
    const int four = p->target->capabilities & CAP_PK_FMA_F32 ? 2 : 4;
    const int columns = columns_of(p), sums = p->skinny.rows * columns;
    const int of_a = dtype_bytes(p->problem.a) == 1 ? columns * w_scales_of(p) : 0;

    return scales_of(p) + of_a + (dual_dot2(p) ? sums : 0) +
           (p->products == PRODUCTS_MATRIX ? four : 1) * sums;
}

/* Registers of a lane that hold a step's values of one row, of `bytes` bytes each. */
static int registers_of(const struct plan *p, int bytes)
{
    return p->skinny.vector == 1 ? 1 : p->skinny.vector * bytes / 4;
}

/* Instructions of a step: products of all rows of W with all of A, what widens their operands, and
 * the loads. */
static int slots_of_step(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int r = p->skinny.rows, columns = columns_of(p), wb = weight_bytes(q);
    const int ab = (int)dtype_bytes(q->a);
    /* instructions that widen a 16-bit operand; products of 16 bits need none */
    const int narrow = plan_of_f32(p) ? p->skinny.vector : 0;
    /* where pairing is left to the compiler, it finds a partner in another register bank for about
     * half of what can be dual-issued */
    const bool found = p->target->capabilities & CAP_VOPD && p->skinny.vector > 1 &&
                       (p->products == PRODUCTS_DOT2 ||
                        (p->products == PRODUCTS_PLAIN && p->skinny.fp8 != FP8_SOFTWARE));
    const int sums = r * columns;
    int products = p->skinny.vector * sums;
    int slots = r + columns * (p->skinny.vector * ab > LOAD_BYTES ? 2 : 1); /* loads */

    products = p->skinny.vector == 1 || p->products == PRODUCTS_PLAIN ? products
               : p->skinny.row_lanes == 8                             ? products / 8
               : p->products == PRODUCTS_MATRIX                       ? products / 4
               : p->products == PRODUCTS_DOT4                         ? products / 4
                                                                      : products / 2;
    slots += dual_dot2(p) ? products / sums * ((sums + 1) / 2)
             : found      ? products * 3 / 4
                          : products;
    slots += wb == 1 ? r * fp8_slots(p, p->skinny.vector) : wb == 2 ? r * narrow : 0;
    slots += ab == 1 ? columns * fp8_slots(p, p->skinny.vector) : ab == 2 ? columns * narrow : 0;
    return slots + (has_block_scales(p) ? scale_slots(p) : 0);
}

/* Instructions of a round of the ring beside its steps: addresses, and the loop. */
static int round_slots(const struct plan *p)
{
    const bool two_types = weight_bytes(&p->problem) != (int)dtype_bytes(p->problem.a);

    return 5 + two_types + (p->skinny.row_lanes > 1 ? 4 * columns_of(p) : 0) + (p->phase ? 3 : 0);
}

/* Instructions of a wave before its steps: addresses. */
static uint32_t setup_slots(const struct plan *p)
{
    return (uint32_t)(30 + 10 * columns_of(p));
}

/* Instructions of a wave for each group of rows, after its steps: reduction, store, and the next
 * group's addresses. */
static uint32_t group_slots(const struct plan *p)
{
    const int r = p->skinny.rows, columns = columns_of(p), results = results_of(p);
    int slots = 10 + 6 * r;

    slots += is_matrices(p) ? (p->skinny.row_lanes == 4 ? 24 : 12) * results
                            : (p->wave_size == 64 ? 4 : 2) * r * columns + 20;
    slots += p->skinny.split_k > 1 ? 12 + 3 * results : 0;
    slots += p->problem.k % step_of(p) ? (r + columns) * registers_of(p, 2) : 0;
    return (uint32_t)slots;
}

static uint32_t vgprs(const struct plan *p)
{
    const int r = p->skinny.rows, columns = columns_of(p);
    const int sum = p->products == PRODUCTS_MATRIX ? 4 : p->products == PRODUCTS_PACKED ? 2 : 1;
    const int of_a = columns * registers_of(p, (int)dtype_bytes(p->problem.a));
    const int loads = r * registers_of(p, weight_bytes(&p->problem)) + (p->skinny.stage ? 0 : of_a);
    const int converts = (plan_of_f32(p) ? 2 * (r + columns) : 0) +
                         (p->skinny.fp8 ? 3 * (r + columns) : 0) +
                         (p->skinny.fp8 == FP8_HALVED      ? 24
                          : p->skinny.fp8 != FP8_SOFTWARE  ? 0
                          : dtype_bytes(p->problem.a) == 1 ? 36
                                                           : 24);

    const int scales = has_block_scales(p) ? p->skinny.ring * scales_of(p) + sum * r * columns : 0;

    return (uint32_t)(p->skinny.ring * loads + (p->skinny.stage ? of_a : 0) + sum * r * columns +
                      converts + (p->skinny.row_lanes > 1 ? 4 * columns : 0) + scales + 16);
}

/* Groups of rows of W that a launch has side by side. */
static int64_t groups_of_launch(const struct plan *p)
{
    return model_ceil_div(p->problem.n, rows_of_workgroup(p)) * model_together(p);
}

/* Bytes of weights that a compute unit should have asked for at any time (IN_FLIGHT_NS). Only units
 * that have work share what memory brings. */
static int64_t flight_asked(const struct plan *p)
{
    const struct target *const t = p->target;
    const int64_t groups = groups_of_launch(p);
    const double units = groups < t->cus ? (double)groups : t->cus;
    const double half = (double)(p->problem.n * model_together(p)) * (double)p->problem.k *
                        weight_bytes(&p->problem) / 2 / units;
    const double asked = t->bandwidth_gbs * IN_FLIGHT_NS / units;

    return (int64_t)(asked < half ? asked : half);
}

/* Whether all steps of all waves lie within K, and all rounds of the ring are whole. */
static bool whole(const struct plan *p)
{
    return p->problem.k % step_of(p) == 0 && steps_of(p) % p->skinny.split_k == 0 &&
           trips_of(p) % p->skinny.ring == 0;
}

/* Bytes that a workgroup loads for one group of rows. */
static int64_t asked_bytes(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t a = q->k * dtype_bytes(q->a) * p->m_tile;
    const int64_t copies =
        p->skinny.stage ? stages_of(p) > 1 || !p->resident : p->waves / p->skinny.split_k;

    return rows_of_workgroup(p) * q->k * weight_bytes(q) + copies * a;
}

/* Kernel cycles up to which a plan may count as filling the part. A plan that stays so far below
 * memory time may rather spend more instructions to make all compute units ask for memory. */
static int64_t fills_below(int64_t memory_cycles)
{
    return memory_cycles / 2;
}

/* Fills in the counts that depend neither on how many waves a workgroup has nor on whether it
 * walks. */
static void count(struct plan *p, struct model_counts *counts)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t trips = trips_of(p), rounds = model_ceil_div(trips, p->skinny.ring);
    const int64_t stages = stages_of(p);
    const int64_t row_bytes = q->k * weight_bytes(q);
    const int64_t memory = model_memory_cycles(p, q->n * row_bytes);
    const bool even =
        stages < 2 || trips % p->skinny.stage == 0; /* all stages have as many rounds */

    p->phase = whole(p) && even
                   ? model_phase(p, row_bytes,
                                 stages > 1 ? p->skinny.stage / p->skinny.ring : rounds, false)
                   : PHASE_NONE;
    const uint32_t step = (uint32_t)slots_of_step(p), round = (uint32_t)round_slots(p);
    *counts =
        (struct model_counts){.wave_rows = rows_of_wave(p),
                              .split_k = p->skinny.split_k,
                              .vgprs = vgprs(p),
                              .step_slots = (uint32_t)p->skinny.ring * step + round,
                              .setup_slots = setup_slots(p),
                              .last_slots = group_slots(p),
                              .trips = rounds,
                              .row_slots = p->skinny.split_k * (trips * step + rounds * round),
                              .memory_cycles = memory,
                              .flight_bytes = (int64_t)p->skinny.rows * p->wave_size *
                                              p->skinny.vector * weight_bytes(q) * p->skinny.ring,
                              .waits = stages > 1 ? stages - 1 : 0,
                              .fills_below = p->skinny.row_lanes == 8 ? 0 : fills_below(memory),
                              .open = true};
}

static bool estimate_all(struct plan *p, const struct model_counts *counted)
{
    const int64_t partial = (int64_t)p->waves * results_of(p) * p->wave_size * 4;
    const int64_t lds =
        (p->skinny.split_k > 1 ? partial * (p->resident ? 2 : 1) : 0) + staged_bytes(p);
    const uint32_t staging = (uint32_t)stage_slots(p);
    const bool once = p->resident && stages_of(p) == 1; /* A is staged for all groups of rows */
    struct model_counts counts = *counted;

    if (lds > p->target->lds_bytes)
        return false;
    p->lds_bytes = lds ? (uint32_t)lds : LDS_LEAST;
    counts.last_slots += (p->resident ? WALK_SLOTS : 0) + (once ? 0 : staging);
    counts.shared_slots = once ? (uint32_t)p->waves * staging : 0;
    counts.row_slots += p->skinny.split_k * (int64_t)counts.last_slots;
    counts.asked_bytes = asked_bytes(p);
    counts.flight_asked = flight_asked(p);
    if (!model_estimate(p, &counts))
        return false;
    p->estimate.close = p->products == PRODUCTS_MATRIX && p->skinny.row_lanes == 4;
    if (p->estimate.bytes_in_flight < counts.flight_asked)
        /* only M = 1 must have as many bytes in flight, and resident workgroups, as no other
         * workgroup runs while they wait */
        p->estimate.streams = p->m_tile > 1 && !p->resident;
    else if (p->resident &&
             p->resident * p->waves * p->skinny.ring < WALK_LOADS * (int)p->target->simds)
        p->estimate.streams = false;
    return true;
}

/* Whether waves may have numbers of rows that are no power of two. CDNA parts have many compute
 * units, with few rows of W for each: 5 or 7 at a time may divide them more evenly. They are tried
 * where the text pairs dot products, too. With scales of blocks each of their rows would need a
 * scale of its own, as no block holds a whole number of such groups. */
static bool any_rows(const struct plan *p)
{
    return p->skinny.row_lanes == 1 && !has_block_scales(p) && p->m_tile <= STEPS_M_MAX &&
           (p->target->capabilities & CAP_MFMA || dual_dot2(p));
}

static bool estimate(struct plan *p, const struct model_counts *counts)
{
    struct plan_estimate *const e = &p->estimate;

    if (!estimate_all(p, counts))
        return false;
    /* matrix products of eight rows of fp8 take so much less that a little of the part may idle */
    if (p->skinny.row_lanes == 8)
        e->fills =
            e->busy_percent >= MODEL_BUSY_PERCENT_TILES && model_busy(p, BUSY_PERCENT_FULL, 8);
    else
        e->fills = e->kernel_cycles <= fills_below(e->memory_cycles) &&
                   model_busy(p, BUSY_PERCENT_FULL, model_least_rows(p));
    return true;
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Weights that a lane takes in one load: 16 bytes of them; one where rows of A or W do not start at
 * multiples of 4 bytes. */
static int vector_of(const struct quern_problem *q)
{
    const int vector = LOAD_BYTES / weight_bytes(q);

    return plan_row_align(q) < 4 || q->k * weight_bytes(q) % 4 || q->k < vector ? 1 : vector;
}

/* Whether shapes are to be preferred whose readers can start at different steps along K, which
 * takes whole steps: rows of W fall on the same few memory channels, which was reported for RDNA.
 * Layers of few rows are read too fast for that to matter. */
static bool camps(const struct plan *p)
{
    return p->target->camps && p->problem.n > 2 * (int64_t)p->target->cus &&
           p->problem.k % step_of(p) == 0 && p->problem.k * weight_bytes(&p->problem) % 512 == 0;
}

/* Estimates a plan whose fields are all set, and puts it into the ranking. */
static void try_one(struct plan *p, const struct model_counts *counts,
                    struct model_ranking *ranking)
{
    if (estimate(p, counts))
        model_put(ranking, p);
}

/* Whether a plan's workgroups keep the part busy enough to be tried: as much as plans of a full
 * ranking do, or as the model asks. A shape that the caller names (`wanted`) need not. */
static bool busy_enough(struct plan *p, const struct model_ranking *ranking)
{
    p->estimate.busy_percent = target_fill(p->target, (uint64_t)groups_of_launch(p)).percent;
    if (p->skinny.row_lanes != 8 && model_full(ranking) &&
        !model_busy(p, BUSY_PERCENT_FULL, model_least_rows(p)))
        return false;
    return ranking->wanted ||
           model_busy(p, MODEL_BUSY_PERCENT,
                      p->skinny.row_lanes == 1 ? model_least_rows(p) : p->skinny.row_lanes);
}

/* Tries a plan with a workgroup for each group of rows; and with workgroups that stay on a compute
 * unit, as many as it holds, and walk over the groups of rows. If no unit has a second group to
 * walk to, that is the same kernel with more to do, and is not tried. */
static void try_walking(struct plan *p, const struct model_counts *counts,
                        struct model_ranking *ranking)
{
    const int64_t cus = p->target->cus;
    const int64_t groups = model_ceil_div(p->problem.n, rows_of_workgroup(p));

    p->resident = 0;
    try_one(p, counts, ranking);
    if (plan_is_base(p) || p->block_rows || trips_of(p) % p->skinny.ring ||
        (groups <= cus && !ranking->wanted))
        return;
    const int64_t partial = (int64_t)p->waves * results_of(p) * p->wave_size * 8;
    const int64_t lds = staged_bytes(p) + (p->skinny.split_k > 1 ? partial : 0);
    const int most = (int)target_workgroups_per_cu(p->target, counts->vgprs + WALK_VGPRS,
                                                   (unsigned)lds, p->wave_size, (unsigned)p->waves);
    for (p->resident = ranking->wanted ? 1 : most; p->resident <= most; p->resident++)
        if (groups > p->resident * cus || ranking->wanted)
            try_one(p, counts, ranking);
    p->resident = 0;
}

/* The largest stage for a plan, in loads of a wave: all, if the whole of A fits half of LDS; else
 * as many as STAGE_BYTES hold; 0: A cannot go through LDS, or the layer decides how much it is. */
static int stage_most(struct plan *p)
{
    const int64_t trips = trips_of(p), room = p->target->lds_bytes / 2;

    if (p->skinny.vector == 1 || plan_is_base(p))
        return 0;
    p->skinny.stage = (int)trips;
    if (staged_bytes(p) <= room)
        return (int)trips;
    for (p->skinny.stage = p->skinny.ring; 2 * p->skinny.stage < trips; p->skinny.stage *= 2)
        if (2 * staged_bytes(p) > STAGE_BYTES)
            break;
    return whole(p) && staged_bytes(p) <= room ? p->skinny.stage : 0;
}

/* Ways to read A, from the caches or through LDS, and what was counted of the plan for each. */
struct ways {
    int count;
    int stage[3]; /* simt_skinny_shape's stage */
    enum plan_phase phase[3];
    struct model_counts counts[3];
};

static void add_way(struct plan *p, int stage, const struct model_ranking *ranking,
                    struct ways *ways)
{
    const int i = ways->count;

    ways->stage[i] = p->skinny.stage = stage;
    count(p, &ways->counts[i]);
    ways->phase[i] = p->phase;
    ways->count += !model_beaten(p, &ways->counts[i], ranking);
}

/* Tries all numbers of waves for a plan whose other fields are set. */
static void try_waves(struct plan *p, struct model_ranking *ranking)
{
    static const int splits[] = {1, 2, 4, 8, 16};

    for (size_t s = 0; s < sizeof splits / sizeof *splits && splits[s] <= steps_of(p); s++) {
        struct ways ways = {.count = 0};

        p->skinny.split_k = splits[s];
        if (p->skinny.ring > trips_of(p) || (!whole(p) && camps(p) && !ranking->wanted))
            continue;
        const int most = stage_most(p);
        add_way(p, 0, ranking, &ways);
        if (most)
            add_way(p, most, ranking, &ways);
        /* a shape that is asked for by name may have several stages where one would do: so that
         * tests and measurements reach those */
        if (ranking->wanted && most == trips_of(p) && whole(p) && most > p->skinny.ring)
            add_way(p, p->skinny.ring, ranking, &ways);
        if (!ways.count)
            continue;
        for (int groups = 1; groups * splits[s] * (int)p->wave_size <= ITEMS_MAX; groups++) {
            p->waves = groups * splits[s];
            if (groups > 1 && rows_of_workgroup(p) >= 2 * p->problem.n)
                break; /* the layer has too few rows of W for so many waves */
            if (!busy_enough(p, ranking))
                continue;
            for (int i = 0; i < ways.count; i++) {
                if (ways.stage[i] && p->waves < STAGE_WAVES && !ranking->wanted)
                    continue; /* a few waves would copy more than they share */
                p->skinny.stage = ways.stage[i];
                p->phase = ways.phase[i];
                try_walking(p, &ways.counts[i], ranking);
            }
        }
    }
    p->skinny.stage = 0;
}

static void try_shapes(struct plan *p, struct model_ranking *ranking)
{
    static const int rows[] = {8, 7, 6, 5, 4, 3, 2, 1}, rings[] = {4, 2, 1};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
            const bool power = !(rows[r] & (rows[r] - 1));
            if (!power && !any_rows(p))
                continue;
            p->skinny.rows = rows[r];
            p->skinny.ring = rings[i];
            const int loads = p->skinny.rows * p->skinny.ring,
                      sums = p->skinny.rows * columns_of(p);
            if (sums > VALUES_MAX || loads > LOADS_MAX ||
                p->skinny.ring * columns_of(p) > LOADS_MAX ||
                (p->skinny.rows > 1 && p->skinny.rows * p->skinny.row_lanes >
                                           (plan_is_base(p) ? BASE_ROWS : p->problem.n)))
                continue;
            /* decoding fp8 makes long code, in software more so: fewer loads are unrolled */
            if ((p->skinny.fp8 && !of_bytes(p) && sums * p->skinny.ring > VALUES_MAX) ||
                (p->skinny.fp8 == FP8_SOFTWARE && loads > LOADS_MAX / 2))
                continue;
            try_waves(p, ranking);
        }
}

/* Tries a way to multiply, with so many rows of W in neighbouring lanes. */
static void try_products(struct plan *p, enum plan_products products, int row_lanes,
                         struct model_ranking *ranking)
{
    p->products = products;
    p->skinny.row_lanes = row_lanes;
    if (row_lanes == 1 || problem_pairs_near(&p->problem))
        try_shapes(p, ranking);
}

/* Tries products of 16-bit numbers: of A as it is, and of fp8 converted to A's type, or f16. */
static void try_halves(struct plan *p, struct model_ranking *ranking)
{
    const unsigned has = p->target->capabilities;
    const bool bf16 = p->problem.a == QUERN_BF16;

    if (has & (bf16 ? CAP_DOT2_F32_BF16 : CAP_DOT2_F32_F16))
        try_products(p, PRODUCTS_DOT2, 1, ranking);
    if (has & (bf16 ? CAP_MFMA_BF16_1K : CAP_MFMA)) {
        try_products(p, PRODUCTS_MATRIX, 1, ranking); /* the diagonal alone */
        try_products(p, PRODUCTS_MATRIX, 4, ranking);
    }
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    const struct quern_problem *const q = &base->problem;
    struct plan p = *base;
    const unsigned has = p.target->capabilities;
    const enum plan_products f32 = has & CAP_PK_FMA_F32 ? PRODUCTS_PACKED : PRODUCTS_PLAIN;

    p.wave_size = p.target->wave_size;
    p.skinny.vector = vector_of(q);
    p.skinny.fp8 = fp8_of(q, p.target);
    if (p.skinny.vector == 1) {
        try_products(&p, PRODUCTS_PLAIN, 1, ranking);
    } else if (q->a == QUERN_F32) {
        try_products(&p, f32, 1, ranking);
    } else if (p.skinny.fp8 && p.skinny.fp8 != FP8_SOFTWARE && dtype_bytes(q->a) == 1) {
        /* With several rows of A, or bytes that have to be converted, the matrix instruction, which
         * takes eight rows of W, is better even if groups of eight rows leave compute units idle:
         * nothing else is tried. */
        const bool eight = has & CAP_MFMA_FP8 && q->n >= 8 && problem_pairs_near(q);
        if (!eight || (p.skinny.fp8 == FP8_NATIVE && p.m_tile == 1))
            try_products(&p, has & CAP_DOT4_F32_FP8 ? PRODUCTS_DOT4 : f32, 1, ranking);
        if (has & CAP_MFMA_FP8)
            try_products(&p, PRODUCTS_MATRIX, 8, ranking);
    } else {
        const bool dot2 = has & (q->a == QUERN_BF16 ? CAP_DOT2_F32_BF16 : CAP_DOT2_F32_F16);
        if (p.skinny.fp8 || !dot2)
            try_products(&p, f32, 1, ranking);
        try_halves(&p, ranking);
    }
}

/* ---- What is said of a kernel ---------------------------------------------------------------- */

/* Says how the target decodes fp8, and as what type it is multiplied. */
static void fp8_explain(const struct plan *p, struct str *out)
{
    const char *const made = plan_of_f32(p) ? "f32" : p->problem.a == QUERN_BF16 ? "bf16" : "f16";
    const enum plan_fp8 fp8 = p->skinny.fp8;

    str_addf(out, "  fp8        %s",
             fp8 == FP8_NATIVE   ? "known to the processor"
             : fp8 == FP8_HALVED ? "OCP's; turned into FNUZ, which the processor knows"
                                 : "not known to the processor; made f16 by shifts");
    if (!of_bytes(p) && (fp8 != FP8_SOFTWARE || strcmp(made, "f16")))
        str_addf(out, ", %s %s", fp8 == FP8_SOFTWARE ? "then" : "and made", made);
    str_add(out, "\n");
}

static const char *products_text(const struct plan *p)
{
    if (!is_matrices(p))
        return NULL;
    return p->skinny.row_lanes == 8
               ? "of eight rows of W with eight of A, by 16x16x32 matrix instructions"
               : "of four rows of W with four of A, by 4x4x4 matrix instructions";
}

static void explain(const struct plan *p, struct str *out)
{
    const struct simt_skinny_shape *const s = &p->skinny;

    explain_begin(p, out);
    explain_products(p, products_text(p), out);
    /* a plan of one wave for each row counts a few bytes that it does not use */
    explain_resources(p, s->stage ? "a part of A" : s->split_k > 1 ? "sums of waves" : NULL, out);
    if (s->fp8)
        fp8_explain(p, out);
    if (p->resident)
        str_addf(out,
                 "  walk       %d workgroup%s for each compute unit of the device at hand; on this "
                 "part each walks over up to %" PRId64 " groups of rows\n",
                 p->resident, p->resident == 1 ? "" : "s", p->estimate.walk);
    explain_end(p, out);
}

static const char *w_type(const struct plan *p)
{
    return field_element(problem_weight_type(&p->problem));
}

static bool has_fp8(const struct plan *p)
{
    return p->skinny.fp8 != 0;
}

static const char *fp8_form(const struct plan *p)
{
    return field_fp8_form(p->skinny.fp8);
}

static int64_t a_scaled(const struct plan *p)
{
    return has_fp8(p) && problem_weight_type(&p->problem) == p->problem.a;
}

static int64_t walks(const struct plan *p)
{
    return p->resident != 0;
}

static bool invariant(const struct plan *p)
{
    return p->problem.exact & QUERN_EXACT_BATCH_INVARIANT;
}

static bool makes_halves(const struct plan *p)
{
    return p->skinny.fp8 == FP8_SOFTWARE && !plan_is_base(p);
}

static const struct plan_field formats[] = {
    {FIELD_WORD("W_TYPE", w_type, "elements of W")},
    {FIELD_WORD("A_TYPE", field_a_type, "elements of A")},
    {FIELD_WORD("C_TYPE", field_c_type, "elements of C and of a bias")},
    {FIELD_WORD("FNUZ", field_fp8_kind, "which kind of fp8"), .when = has_fp8},
    {FIELD_WORD("FORM", fp8_form, "how it is understood"), .when = has_fp8},
    {FIELD_OF(FIELD_FLAG, "A_SCALED", a_scaled, "whether A has a scale")},
    {FIELD_IF(FIELD_FLAG, "B_SCALED", has_fp8, "whether W has one")},
    {FIELD_IF(FIELD_FLAG, "BLOCK_SCALED", has_block_scales, "whether each block has one")},
    {FIELD_OF(FIELD_BOOL, "TRUNCATE", field_truncates, "whether f32 becomes bf16 by cutting"),
     .argument = TRUNCATE_ARGUMENT},
    {FIELD_WORD("PRODUCTS", field_products, "how weights are multiplied")},
    {FIELD_IF(FIELD_FLAG, "PAIRED", dual_dot2, "whether they are issued in pairs,")},
    {FIELD_WORD("PAIR_TYPE", field_pair_type, "of what"), .when = dual_dot2},
    {FIELD_IF(FIELD_BOOL, "INVARIANT", invariant, "whether rows of A are added up alike")},
    {0},
};

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "ROWS", skinny.rows, "rows of W that a lane works on"), .word = "rows"},
    {FIELD_AT(FIELD_NUMBER, "ROW_LANES", skinny.row_lanes,
              "lanes side by side with rows of their own"),
     .word = "row_lanes", .was = "lanes"},
    {FIELD_AT(FIELD_NUMBER, "SPLIT_K", skinny.split_k, "waves that share those rows along K"),
     .word = "split_k"},
    {FIELD_AT(FIELD_NUMBER, "VECTOR", skinny.vector, "weights of a row for one lane in one load"),
     .word = "vector", .was = "chunk"},
    {FIELD_AT(FIELD_NUMBER, "RING", skinny.ring, "loads of a row that are under way"),
     .word = "ring"},
    {FIELD_AT(FIELD_NUMBER, "STAGE", skinny.stage,
              "loads of a row whose part of A is in LDS; 0: A is not"),
     .word = "stage"},
    {FIELD_OF(FIELD_FLAG, "WALKS", walks, "whether workgroups walk over groups of rows")},
    {.kind = FIELD_SHAPE,
     FIELD_PLACE(resident),
     .word = "resident",
     .meaning = "workgroups a compute unit that walk over all rows; 0: one a group of rows",
     .by_waves = true},
    {FIELD_AT(FIELD_NUMBER, "WAVES_PER_SIMD", estimate.waves_per_simd,
              "that registers must leave room for")},
    {FIELD_AT(FIELD_NUMBER, "PHASES", phase, "1: groups start apart along K, 2: waves do")},
    {0},
};

static const struct plan_fields fields[] = {{layer_fields}, {formats},     {tile_fields},
                                            {shape},        {grid_fields}, {0}};

static const struct plan_template templates[] = {
    {"prelude/prelude"},
    {"prelude/layer"},
    {.choose = template_of_rows},
    {"prelude/glu", .when = field_has_act},
    {"prelude/reduce"},
    {"prelude/round"},
    {"prelude/stage"},
    {"decode/dense"},
    {"decode/fp8", .when = has_fp8},
    {"decode/scale_block128", .when = has_block_scales},
    {"prelude/dual_dot2", .when = dual_dot2},
    {"family/simt_skinny"},
    {0}};

const struct family family_simt_skinny = {
    .name = "simt_skinny",
    .units = PLAN_UNITS_VECTOR,
    .takes = takes,
    .accepts = accepts,
    .candidates = candidates,
    .dual_dot2 = dual_dot2,
    .plain_text = makes_halves,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .base_rows = BASE_ROWS,
    .predequant = SWITCH_OFF,
};
