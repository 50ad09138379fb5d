/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family simt_w4. The counts follow the template
 * (templates/family/simt_w4.hip) and were fitted to code that hipRTC 6.4.3 made of it;
 * cost_model.c makes a choice of them.
 */
#include "plan/base.h"
#include "plan/explain.h"
#include "plan/family.h"

#include "target/rates.h"

#include <inttypes.h>

#define PAIRS       256  /* of codes in the table */
#define ITEMS_MAX   1024 /* work-items of a workgroup */
#define VALUES_MAX  32   /* sums per lane that the template's reduction can fold */
#define ROWS_MAX    4    /* rows of W of a wave */
#define SIZE_MAX_NK ((int64_t)1 << 27)
#define SMALL_NK    ((int64_t)1 << 23)
#define SHORT_K     4096

/* With one row of A a layer should be as fast as its weights arrive. For that a compute unit must
 * have asked for as many bytes of them as arrive in this time, or for half of all that it reads;
 * and registers must leave room for enough waves in a SIMD: WAVES_FAST where an instruction issues
 * in one cycle; elsewhere one for each REGISTERS_SLOW registers, which is four waves on CDNA 2 and
 * later, two on older targets. */
#define IN_FLIGHT_NS   600
#define WAVES_FAST     8
#define REGISTERS_SLOW 128

static bool takes(const struct quern_problem *q, const struct target *t)
{
    (void)t;
    return problem_has_activation(q) && problem_has_group(q) && q->wq != QUERN_W_INT4;
}

static quern_status accepts(const struct quern_problem *q, const struct target *t)
{
    FAIL_IF(!weight_is_table(q->wq) && q->wq != QUERN_W_MXFP4, QUERN_E_DECLINED,
            "wq=%s has no kernel in this version, which does wq=nf4, wq=fp4 and wq=mxfp4",
            weight_name(q->wq));
    FAIL_IF(q->layout == QUERN_LAYOUT_TILEN, QUERN_E_DECLINED,
            "only layout=%s has kernels for wq=%s in this version",
            q->wq == QUERN_W_MXFP4 ? "k8" : "bnb", weight_name(q->wq));
    FAIL_IF(q->round != QUERN_ROUND_RNE, QUERN_E_DECLINED,
            "round=trunc has no kernel in this version, which rounds to nearest (round=rne)");
    FAIL_IF(q->n > SIZE_MAX_NK || q->k > SIZE_MAX_NK, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " is beyond this version's largest, %" PRId64 " each", q->n,
            q->k, SIZE_MAX_NK);
    FAIL_IF(q->a == QUERN_F16 && !(t->capabilities & CAP_DOT2_F32_F16), QUERN_E_DECLINED,
            "%s has no v_dot2_f32_f16; use a=f32 or a=bf16 there", t->name);
    return QUERN_OK;
}

/* ---- Estimate -------------------------------------------------------------------------------- */

/* So many consecutive groups, across rows, share a second scale of nested absmax. */
#define NEST 256

/* Whether a row's groups may lie on both sides of one border between second scales, and of no more.
 */
static bool has_seam(const struct quern_problem *q)
{
    const int64_t blocks = q->k / problem_group(q);

    return q->scale == QUERN_SCALE_NESTED && blocks <= NEST && NEST % blocks;
}

/* Instructions that make a scale of what was loaded, beyond those of a plain absmax. */
static int scale_slots(const struct quern_problem *q)
{
    const int64_t blocks = q->k / problem_group(q);

    if (q->scale == QUERN_SCALE_E8M0)
        return 3;
    if (q->scale != QUERN_SCALE_NESTED)
        return 0;
    /* address, look-up, product; and four to find the second scale where a row may have several */
    return 3 + (blocks > NEST || has_seam(q) ? 4 : 0);
}

/* Whether a 16-bit A is widened to f32 before it is multiplied. */
static bool widens(const struct plan *p)
{
    return plan_of_f32(p) && p->problem.a != QUERN_F32;
}

static int64_t weights_of_step(const struct plan *p)
{
    return (int64_t)p->wave_size * p->simt_w4.chunk;
}

/* Steps that a row takes, dealt out to split_k waves; a tail's step comes on top. */
static int64_t steps_of(const struct plan *p)
{
    const int64_t k = p->problem.k, step = weights_of_step(p);

    return p->simt_w4.tail ? k / step : model_ceil_div(k, step);
}

/* The tail: weights of each lane in a last step that holds what whole steps leave of K. 0: the last
 * step would not be shorter than the others, or there are no others. */
static int tail_of(const struct plan *p)
{
    const int64_t rest = p->problem.k % weights_of_step(p);
    int tail = 8;

    if (!rest || p->problem.k < weights_of_step(p) || plan_is_base(p))
        return 0;
    while (tail * (int64_t)p->wave_size < rest)
        tail *= 2;
    return tail < p->simt_w4.chunk ? tail : 0;
}

/* Steps of one wave. */
static int64_t trips_of(const struct plan *p)
{
    return model_ceil_div(steps_of(p), p->simt_w4.split_k);
}

/* Whether the template unrolls the steps of a wave. */
static bool unrolled(const struct plan *p)
{
    const int64_t trips = trips_of(p);

    return trips == 1 || p->simt_w4.ahead ||
           (p->products == PRODUCTS_MATRIX && trips == 2 && p->m_tile == 4);
}

/* The compiler pairs only dot products of f16, and only on gfx11; so the text pairs all, where a
 * lane has two rows of W to pair. */
static bool dual_dot2(const struct plan *p)
{
    return p->simt_w4.rows > 1 && model_dual_dot2(p);
}

/* Instructions that multiply. Where the text pairs dot products, each finds a partner in another
 * register bank. Of eight pairs of plain f32 products that the compiler looks at, it issues one
 * apart. */
static int product_slots(const struct plan *p, int pairs)
{
    const bool f32 = p->products == PRODUCTS_PLAIN && p->target->capabilities & CAP_VOPD;

    return dual_dot2(p) ? pairs / 2 : f32 ? pairs * 9 / 8 : model_product_slots(p, pairs);
}

/* Instructions of a wave in a step with chunks of `chunk` weights, without those of the loop. */
static int chunk_slots(const struct plan *p, int chunk)
{
    const struct quern_problem *const q = &p->problem;
    const int r = p->simt_w4.rows, m = p->m_tile, pairs = chunk / 2;
    /* to scale a sum takes one; packed sums are two halves to add first, of a matrix product's four
     * results the right one has to be chosen */
    const int finish = p->products == PRODUCTS_PACKED ? 3 : p->products == PRODUCTS_MATRIX ? 3 : 1;
    int slots = 2 * pairs * r; /* an address and an LDS load for each pair of weights */

    slots += product_slots(p, pairs * r * m);
    slots += widens(p) ? 2 * pairs * m : 0;
    slots += 2 * r;                                   /* loads of weights and scales */
    slots += m * chunk * (int)dtype_bytes(q->a) / 16; /* loads of A */
    slots += r * m * finish * 3 / 2 + r / 2;          /* scale, clear */
    slots += r * scale_slots(q);
    return slots + (q->k % ((int64_t)p->wave_size * chunk) ? 6 : 0); /* the end of K */
}

static uint32_t step_slots(const struct plan *p)
{
    int slots = chunk_slots(p, p->simt_w4.chunk);

    if (p->simt_w4.tail && p->problem.k % weights_of_step(p))
        slots -= 6;                /* the tail, not a whole step, looks for the end of K */
    slots += unrolled(p) ? 3 : 11; /* offsets; loop */
    slots += p->phase ? unrolled(p) ? 1 : 4 : 0;
    return (uint32_t)slots;
}

static uint32_t tail_slots(const struct plan *p)
{
    if (!p->simt_w4.tail)
        return 0;
    const int slots = chunk_slots(p, p->simt_w4.tail);
    const bool whole = p->problem.k % weights_of_step(p) == p->simt_w4.tail * (int64_t)p->wave_size;
    return (uint32_t)(slots + 3 -
                      (whole && p->problem.k % ((int64_t)p->wave_size * p->simt_w4.tail) ? 6 : 0));
}

/* Instructions of a wave before, between and after its steps: addresses, reduction, store. */
static uint32_t setup_slots(const struct plan *p)
{
    const int r = p->simt_w4.rows, m = p->m_tile;

    return (uint32_t)(48 + (has_seam(&p->problem) ? 22 : 8) * r + 14 * m +
                      (p->wave_size == 64 ? 4 : 2) * m * r +
                      (p->simt_w4.split_k > 1 ? 20 + 2 * p->simt_w4.split_k : 0));
}

/* Bytes of the table. Each pair has a copy in every bank of LDS. With 64 banks small layers and
 * short rows have 32 copies all the same: a second pass for each look-up costs them less than to
 * store twice as many. */
static uint32_t table_bytes(const struct plan *p)
{
    const bool small =
        p->problem.n * model_together(p) * p->problem.k < SMALL_NK || p->problem.k < SHORT_K;

    return PAIRS * 4 * (small ? 32 : p->target->lds_banks);
}

/* Instructions that build the table, by all waves of a workgroup together: a lane makes a pair and
 * stores its copies, 16 bytes at a time. */
static uint32_t table_slots(const struct plan *p)
{
    const uint32_t stores = p->lds_bytes / PAIRS / 16;

    return PAIRS * (2 * stores + 4) / p->wave_size;
}

/* Whether a wave may request the weights of all its steps at its start: it has two, or one and the
 * tail, and so few rows of A that there are registers for them. */
static bool may_be_ahead(const struct plan *p)
{
    const int64_t trips = trips_of(p);

    return !plan_is_base(p) && p->m_tile <= 2 && steps_of(p) % p->simt_w4.split_k == 0 &&
           (trips == 2 || (trips == 1 && p->simt_w4.tail));
}

static uint32_t vgprs(const struct plan *p)
{
    const int r = p->simt_w4.rows, m = p->m_tile;
    const bool f32 = p->problem.a == QUERN_F32;
    const int batches = p->simt_w4.chunk / (f32 ? 4 : 8);
    const int ring = model_at_most(batches, m > 2 ? 2 : 4); /* batches of A, as in the template */
    const int sums = p->products == PRODUCTS_PACKED ? 3 : p->products == PRODUCTS_MATRIX ? 5 : 2;
    /* an unrolled step adds to the total directly, and needs no sums of its own */
    const int other = p->products == PRODUCTS_MATRIX && p->simt_w4.ahead ? 4 : 16;
    const int scales = p->problem.scale == QUERN_SCALE_NESTED ? 4
                       : p->problem.scale == QUERN_SCALE_E8M0 ? 3
                                                              : 2;

    return (uint32_t)(p->simt_w4.chunk / 8 * r * (p->simt_w4.ahead ? 2 : 1) /* packed weights */ +
                      (p->simt_w4.tail ? (p->simt_w4.ahead ? p->simt_w4.tail / 8 + 3 : 2) * r
                                       : 0) /* those of the tail */
                      + (widens(p) ? 12 : 8) * r /* decoded */ + scales * r + 4 * ring * m +
                      sums * m * r + other + (plan_of_f32(p) ? 3 * m : 0));
}

/* Whether the waves of a SIMD hide each other's latency (IN_FLIGHT_NS); only asked of M = 1. */
static bool streams(const struct plan *p)
{
    const struct target *const t = p->target;

    if (p->m_tile > 1)
        return true;
    const double asked = t->bandwidth_gbs * IN_FLIGHT_NS / t->cus;
    const double half =
        (double)(p->problem.n * model_together(p)) * (double)p->problem.k / 4 / t->cus;
    const unsigned waves = target_waves_per_simd(t, p->estimate.vgprs, 0, p->wave_size, 1);
    return waves >= (target_issue_cycles(t) > 1 ? t->vgprs / REGISTERS_SLOW : WAVES_FAST) &&
           (double)p->estimate.bytes_in_flight >= (asked < half ? asked : half);
}

/* Fills in the counts that do not depend on how many waves a workgroup has. */
static void count(struct plan *p, struct model_counts *counts)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t scale_bytes = q->scale == QUERN_SCALE_F32 ? 4 : 1;
    const int64_t steps = steps_of(p), trips = trips_of(p);

    p->phase = model_phase(p, q->k / 2, trips, p->simt_w4.ahead);
    const uint32_t step = step_slots(p), tail = tail_slots(p);
    *counts = (struct model_counts){
        .wave_rows = p->simt_w4.rows,
        .split_k = p->simt_w4.split_k,
        .ahead = p->simt_w4.ahead,
        .vgprs = vgprs(p),
        .step_slots = step,
        .setup_slots = setup_slots(p),
        .shared_slots = table_slots(p),
        /* the tail's weights arrived with the first step's. Where steps do not divide among the
         * waves, a wave with a step less takes the tail, so that it takes no time of its own */
        .last_slots = steps % p->simt_w4.split_k ? 0 : tail,
        .trips = trips,
        .row_slots = steps * step + tail,
        .memory_cycles = model_memory_cycles(p, q->n * q->k / 2 +
                                                    q->n * (q->k / problem_group(q)) * scale_bytes),
        .flight_bytes = (int64_t)p->simt_w4.rows * p->wave_size * p->simt_w4.chunk / 2 *
                        (p->simt_w4.ahead ? trips : 1)};
}

static bool estimate(struct plan *p, const struct model_counts *counts)
{
    const struct target *const t = p->target;
    struct plan_estimate *const e = &p->estimate;

    if (!model_estimate(p, counts))
        return false;
    /* with room for fewer waves, a wave would get registers that instructions cannot name */
    const unsigned least = t->vgprs / MODEL_VGPRS_MAX;
    p->waves_asked = (int)(e->waves_per_simd > least ? e->waves_per_simd : least);
    e->waves_per_simd =
        target_waves_per_simd(t, e->vgprs, p->lds_bytes, p->wave_size, (unsigned)p->waves);
    e->streams = streams(p);
    return true;
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Tries all numbers of waves for a plan whose other fields, but for `ahead`, are set. */
static void try_waves(struct plan *p, struct model_ranking *ranking)
{
    const bool may = may_be_ahead(p);
    struct model_counts counts[2]; /* not ahead, and ahead, which takes more registers */
    enum plan_phase phase[2];
    bool beaten[2];

    for (int ahead = 0; ahead <= may; ahead++) {
        p->simt_w4.ahead = ahead;
        count(p, &counts[ahead]);
        phase[ahead] = p->phase;
        beaten[ahead] = model_beaten(p, &counts[ahead], ranking);
    }
    if (beaten[0] && beaten[may])
        return;
    for (int groups = 1; groups * p->simt_w4.split_k * (int)p->wave_size <= ITEMS_MAX; groups++) {
        p->waves = groups * p->simt_w4.split_k;
        if (model_hopeless(p, &counts[0], ranking))
            continue;
        for (int ahead = may; ahead >= 0; ahead--) {
            p->simt_w4.ahead = ahead;
            p->phase = phase[ahead];
            if (!beaten[ahead] && estimate(p, &counts[ahead]))
                model_put(ranking, p);
        }
    }
}

/*
 * Of struct family. A wave has four rows of W at most: eight would save 4 % of the instructions at
 * M = 1, and cost 64 registers and twice the compile time.
 */
static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    static const int rows[] = {ROWS_MAX, 2, 1}, chunks[] = {32, 16, 8}, splits[] = {1, 2, 4, 8, 16};
    struct plan p = *base;

    p.products = model_lane_products(&p.problem, p.target);
    p.wave_size = p.target->wave_size;
    p.lds_bytes = table_bytes(&p);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
            for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
                p.simt_w4.rows = rows[r];
                p.simt_w4.chunk = chunks[c];
                p.simt_w4.split_k = splits[s];
                p.simt_w4.tail = tail_of(&p);
                if (p.simt_w4.split_k <= steps_of(&p) && p.simt_w4.rows * p.m_tile <= VALUES_MAX &&
                    p.simt_w4.rows <= p.problem.n)
                    try_waves(&p, ranking);
            }
}

/* ---- What is said of a kernel ---------------------------------------------------------------- */

static void explain(const struct plan *p, struct str *out)
{
    explain_begin(p, out);
    if (p->simt_w4.tail)
        str_addf(out, "  tail       the last step of a row has %d weights per lane\n",
                 p->simt_w4.tail);
    explain_products(p, NULL, out);
    explain_resources(p, "table of all pairs of codes", out);
    explain_end(p, out);
}

static int64_t table_entry(const struct plan *p)
{
    return field_table_entry(p->lds_bytes);
}

/* A base kernel asks for the numbers of its layer more than once. */
static bool plain_text(const struct plan *p)
{
    return !plan_is_base(p);
}

static const struct plan_field rows[] = {
    {FIELD_WORD("A_TYPE", field_a_type, "elements of A")},
    {FIELD_WORD("PRODUCTS", field_products, "how weights are multiplied")},
    {FIELD_IF(FIELD_FLAG, "PAIRED", dual_dot2, "whether they are issued in pairs,")},
    {FIELD_WORD("PAIR_TYPE", field_pair_type, "of what"), .when = dual_dot2},
    {FIELD_OF(FIELD_NUMBER, "ENTRY_BYTES", table_entry, "of LDS for each pair of codes")},
    {0},
};

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "ROWS", simt_w4.rows, "rows of W that a wave works on"),
     .word = "rows"},
    {FIELD_AT(FIELD_NUMBER, "SPLIT_K", simt_w4.split_k, "waves that share those rows along K"),
     .word = "split_k"},
    {FIELD_AT(FIELD_NUMBER, "CHUNK", simt_w4.chunk, "weights of a row for one lane in one step"),
     .word = "chunk"},
    {FIELD_AT(FIELD_NUMBER, "TAIL", simt_w4.tail, "weights in a shorter last step; 0: none")},
    {FIELD_AT(FIELD_NUMBER, "WAVES_PER_SIMD", waves_asked, "that registers must leave room for")},
    {FIELD_AT(FIELD_NUMBER, "PHASES", phase, "1: groups start apart along K, 2: waves do")},
    {FIELD_AT(FIELD_BOOL, "AHEAD", simt_w4.ahead, "whether all steps are loaded at the start"),
     .word = "ahead"},
    {0},
};

static const struct plan_fields fields[] = {{layer_fields}, {weight_fields}, {rows}, {tile_fields},
                                            {shape},        {grid_fields},   {0}};

static const struct plan_template templates[] = {{"prelude/prelude"},
                                                 {"prelude/layer"},
                                                 {.choose = template_of_rows},
                                                 {"prelude/glu", .when = field_has_act},
                                                 {"prelude/reduce"},
                                                 {.choose = template_of_codes},
                                                 {.choose = template_of_scale},
                                                 {"decode/pair_table"},
                                                 {"prelude/dual_dot2", .when = dual_dot2},
                                                 {"prelude/products"},
                                                 {"family/simt_w4"},
                                                 {0}};

const struct family family_simt_w4 = {
    .name = "simt_w4",
    .units = PLAN_UNITS_VECTOR,
    .takes = takes,
    .accepts = accepts,
    .candidates = candidates,
    .dual_dot2 = dual_dot2,
    .plain_text = plain_text,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .base_rows = ROWS_MAX,
    .predequant = SWITCH_OFF,
};
