/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family simt_int4. The counts follow the template
 * (templates/family/simt_int4.hip, decode/int4.hip) and were fitted to code that hipRTC 6.4.3 made
 * of it; cost_model.c makes a choice of them.
 */
#include "plan/simt_int4.h"

#include <inttypes.h>

#define ITEMS_MAX    1024 /* work-items of a workgroup */
#define VALUES_MAX   32   /* sums per lane that the template's reduction can fold */
#define SIZE_MAX_NK  ((int64_t)1 << 27)
#define CK_BYTES_MAX ((int64_t)1 << 32) /* layout ck: one 32-bit offset reaches all of b */
#define LOAD_WEIGHTS 32 /* of a lane in one load; lanes with matrix products may have two */
#define CK_LANES     8  /* lanes with rows of their own: eight 16-byte blocks fill a line */
#define SQUARE       4  /* and those of a matrix product of 4 by 4 that all counts */
#define LDS_SHARE    2 /* of what LDS a workgroup takes no more, so that two share a compute unit */
#define LDS_LEAST    16

quern_status simt_int4_accepts(const struct quern_problem *p, const struct target *t)
{
    FAIL_IF(p->layout == QUERN_LAYOUT_GPTQ || p->layout == QUERN_LAYOUT_AWQ, QUERN_E_DECLINED,
            "no kernel reads layout=%s; repack the weights once, to layout=exl (quern repack)",
            layout_name(p->layout));
    FAIL_IF(p->layout == QUERN_LAYOUT_TILEN, QUERN_E_DECLINED,
            "only layout=k8, exl and ck have kernels for wq=int4 in this version");
    FAIL_IF(p->n > SIZE_MAX_NK || p->k > SIZE_MAX_NK, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " is beyond this version's largest, %" PRId64 " each", p->n,
            p->k, SIZE_MAX_NK);
    FAIL_IF(p->layout == QUERN_LAYOUT_CK && p->n > CK_BYTES_MAX / p->k * 2, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " makes more than 4 GiB of weights, which layout=ck has no "
            "kernel for; use layout=k8 or exl",
            p->n, p->k);
    FAIL_IF(p->a == QUERN_F16 && !(t->capabilities & CAP_DOT2_F32_F16), QUERN_E_DECLINED,
            "%s has no v_dot2_f32_f16; use a=f32 or a=bf16 there", t->name);
    return QUERN_OK;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static bool has_zeros(const struct plan *p)
{
    return p->problem.zero != QUERN_ZERO_NONE;
}

/* Sums of products that a row of W has. */
static int tiles_of_a(const struct plan *p)
{
    return plan_squares(p) ? p->m_tile / SQUARE : p->m_tile;
}

/* Sums that are kept of a chunk of A: one, where the decoder adds the same to every code. */
static int sums_of_a(const struct plan *p)
{
    const bool one_bias =
        plan_of_f32(p) || (p->products == PRODUCTS_DOT2 && p->problem.a == QUERN_BF16);

    return has_zeros(p) && !one_bias ? 2 : 1;
}

/* Groups that a lane's weights in a step are of. */
static int spans_of(const struct plan *p)
{
    const int64_t group = problem_group(&p->problem);

    return group < p->chunk ? p->chunk / (int)group : 1;
}

static int64_t steps_of(const struct plan *p)
{
    return model_ceil_div(p->problem.k, (int64_t)p->wave_size / p->row_lanes * p->chunk);
}

static int64_t trips_of(const struct plan *p)
{
    return model_ceil_div(steps_of(p), p->split_k);
}

/* Instructions that turn some words of eight codes into four pairs each. */
static int decode_slots(const struct plan *p, int words)
{
    const bool bytes = p->problem.layout == QUERN_LAYOUT_K8 && p->pairing == PAIRING_OF_W;
    const bool f16 = p->problem.a == QUERN_F16;

    if (plan_of_f32(p))
        return 15 * words;
    if (bytes)
        return (f16 ? 8 : 9) * words;
    /* four masks; shifts, which matrix products have of two words at once */
    const int shifted = p->products == PRODUCTS_MATRIX ? (words + 1) / 2 : words;
    return 4 * words + (f16 ? 1 : 3) * shifted;
}

/* Instructions that make a word's A ready: pairs in the order of the weights', or in f32. */
static int a_slots(const struct plan *p)
{
    if (plan_of_f32(p))
        return p->problem.a == QUERN_F32 ? 0 : 8;
    return p->problem.layout == QUERN_LAYOUT_K8 && p->pairing == PAIRING_OF_A && !p->shared_a ? 4
                                                                                              : 0;
}

/* Of a word of A: its products with zeros and with ones, at once by matrix products. */
static int sum_slots(const struct plan *p)
{
    return model_product_slots(p, p->products == PRODUCTS_MATRIX ? 4 : 4 * sums_of_a(p));
}

static uint32_t step_slots(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int r = p->rows_per_wave, m = tiles_of_a(p), words = p->chunk / 8;
    const int pairs = 4 * words * r * m, spans = spans_of(p);
    int slots = r * decode_slots(p, words) + words * m * a_slots(p);

    /* of five that the text pairs, four find operands in banks that allow it */
    slots += plan_dual_dot2(p) ? pairs * 3 / 5 : model_product_slots(p, pairs);
    /* loads of weights, scales, zero points */
    slots += r * ((int)model_ceil_div(p->chunk, LOAD_WEIGHTS) + 1 + has_zeros(p));
    slots += r * spans * ((q->scale != QUERN_SCALE_F32) + has_zeros(p)); /* conversions */
    slots += m * p->chunk * (int)dtype_bytes(q->a) / 16;                 /* loads of A */
    if (p->products == PRODUCTS_MATRIX)
        slots += spans * (r * m * (2 + has_zeros(p)) + m * has_zeros(p));
    else
        slots += r * m * (1 + has_zeros(p)) * (p->products == PRODUCTS_PACKED ? 2 : 1);
    slots += p->shared_sums ? m * spans * (p->products == PRODUCTS_MATRIX ? sums_of_a(p) : 1)
                            : words * m * sum_slots(p) + (plan_squares(p) ? 0 : r * m);
    slots += q->k % ((int64_t)p->wave_size / p->row_lanes * p->chunk) ? 6 : 0; /* the end of K */
    slots += trips_of(p) > 2 ? 13 : p->ahead ? 1 : 5; /* offsets; loop, unless unrolled */
    slots += p->phase ? trips_of(p) > 2 ? 4 : 1 : 0;
    return (uint32_t)slots;
}

/* Instructions of a wave before and after its steps: addresses, reduction, store. */
static uint32_t setup_slots(const struct plan *p)
{
    const int r = p->rows_per_wave, m = tiles_of_a(p), sums = r * m;
    const int split = p->split_k > 1 ? 20 + 2 * p->split_k : 0;

    if (plan_squares(p))
        return (uint32_t)(112 + 14 * m + sums + 3 * (sums > p->split_k ? sums : p->split_k));
    if (p->products == PRODUCTS_MATRIX)
        return (uint32_t)(27 + 5 * r + 14 * m + 7 * m * r + split);
    return (uint32_t)(80 + 3 * r + 14 * m + (p->wave_size == 64 ? 4 : 2) * m * r + split);
}

/* The sums of A, by all waves of a workgroup. */
static uint32_t shared_slots(const struct plan *p)
{
    const int64_t lanes = (int64_t)p->wave_size * tiles_of_a(p) / p->m_tile; /* of a row */
    const int64_t parts = tiles_of_a(p) * model_ceil_div(p->problem.k / p->chunk, lanes);

    return p->shared_sums ? (uint32_t)(parts * (p->chunk / 8 * (1 + sum_slots(p)) + 30)) : 0;
}

/* With few rows of A there are registers for it. */
static bool ahead(const struct plan *p)
{
    return steps_of(p) == 2 * p->split_k && tiles_of_a(p) <= 2 && p->rows_per_wave <= 4;
}

static uint32_t vgprs(const struct plan *p)
{
    const int r = p->rows_per_wave, m = tiles_of_a(p), words = p->chunk / 8;
    /* words of A held, as in the template */
    const int ring =
        plan_squares(p) && !p->shared_sums ? words : model_at_most(words, m > 2 ? 2 : 4);
    const int sums = p->products == PRODUCTS_PACKED ? 3 : 2;

    if (p->products == PRODUCTS_MATRIX) {
        const int held = words * (p->ahead ? 2 : 1) + 4 * model_at_most(words, 2);
        /* sums of an unrolled step are its share of the total */
        const int sum = p->ahead ? 4 : 8;
        const int zero = has_zeros(p) ? 3 : 0;
        return (uint32_t)((held + sum * m + zero) * r + 4 * ring * m + 4 * sums_of_a(p) * m +
                          (p->ahead ? 0 : 2 * r + 12) + (plan_squares(p) ? 8 : 0));
    }
    const int pair = plan_of_f32(p) ? 2 : 1;

    return (uint32_t)(words * r * (p->ahead ? 2 : 1) /* packed weights */ +
                      (m * r > 4 ? 4 : 8) * pair * r /* decoded */ + (has_zeros(p) ? 4 : 3) * r +
                      (sums_of_a(p) + 2) * m + (p->problem.a == QUERN_F32 ? 8 : 4) * ring * m +
                      sums * m * r + (p->products == PRODUCTS_DOT2 ? 20 : 32));
}

/* Values that a lane is left with after the reduction: RESULTS in the template. */
static int results_of(const struct plan *p)
{
    const int values = p->rows_per_wave * p->m_tile, lanes = (int)p->wave_size / p->row_lanes;

    return p->row_lanes == 1 || values <= lanes ? 1 : values / lanes;
}

/* Of LDS: sums of A, by fours, or four times each, where matrix products start from them. */
static int64_t sums_bytes(const struct plan *p)
{
    const int64_t spans = tiles_of_a(p) * spans_of(p) * (p->problem.k / p->chunk);

    return spans * sums_of_a(p) * (p->products == PRODUCTS_MATRIX ? 16 : 4);
}

static int64_t a_bytes(const struct plan *p)
{
    return p->m_tile * p->problem.k * dtype_bytes(p->problem.a);
}

/* For what is to be summed at the end. */
static int64_t partial_bytes(const struct plan *p)
{
    const int64_t squares = (int64_t)p->waves * p->rows_per_wave * p->wave_size * 16;
    const int64_t all = squares * tiles_of_a(p);

    if (plan_squares(p))
        return all <= p->target->lds_bytes ? all : squares;
    return p->split_k > 1 ? (int64_t)p->waves * p->wave_size * 4 * results_of(p) : 0;
}

static uint32_t lds_bytes(const struct plan *p)
{
    const int64_t shared = p->shared_sums ? sums_bytes(p) + (p->shared_a ? a_bytes(p) : 0) : 0;
    const int64_t partial = partial_bytes(p);
    const int64_t most = shared > partial ? shared : partial;

    return most > LDS_LEAST ? (uint32_t)((most + 15) / 16 * 16) : LDS_LEAST;
}

/* What does not depend on how many waves a workgroup has. */
static void count(struct plan *p, struct model_counts *counts)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t scale_bytes = q->scale == QUERN_SCALE_F32 ? 4 : 2;
    const int64_t zero_bytes = q->zero == QUERN_ZERO_U8       ? 1
                               : q->zero == QUERN_ZERO_SCALED ? scale_bytes
                                                              : 0;
    const int64_t trips = trips_of(p);

    p->phase = model_phase(p, p->row_lanes > 1 ? 1 : q->k / 2, trips);
    const uint32_t step = step_slots(p);
    *counts = (struct model_counts){
        .vgprs = vgprs(p),
        .step_slots = step,
        .setup_slots = setup_slots(p),
        .shared_slots = shared_slots(p),
        .trips = trips,
        .row_grain = plan_squares(p) ? SQUARE : 1,
        .row_slots = p->split_k * trips * (int64_t)step,
        .memory_cycles = model_memory_cycles(p, q->n * q->k / 2 + q->n * (q->k / problem_group(q)) *
                                                                      (scale_bytes + zero_bytes)),
        .flight_bytes =
            (int64_t)p->rows_per_wave * p->wave_size * p->chunk / 2 * (p->ahead ? trips : 1)};
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* What a workgroup makes of A once and keeps in LDS: sums, and A itself, as far as there is room
 * and `most` says. Waves that multiply four rows of A at once may do as well without, where each
 * has its own part of K: there `most` is an axis, and false says that it does not fit. */
static bool share(struct plan *p, int most)
{
    const int64_t room = p->target->lds_bytes / (plan_squares(p) ? 1 : LDS_SHARE);

    p->shared_sums = most > 0 && sums_bytes(p) <= room;
    p->shared_a = most > 1 && p->products == PRODUCTS_MATRIX && sums_bytes(p) + a_bytes(p) <= room;
    return !plan_squares(p) || p->shared_sums + p->shared_a == most;
}

/* Tries all numbers of waves for a plan whose other fields are set. */
static void try_waves(struct plan *p, int most, struct model_ranking *ranking)
{
    static const int splits[] = {1, 2, 4, 8, 16};

    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
        struct model_counts counts;
        p->split_k = splits[s];
        if (p->split_k > steps_of(p))
            break;
        p->ahead = ahead(p);
        if (!share(p, most))
            continue;
        count(p, &counts);
        if (model_beaten(p, &counts, ranking))
            continue;
        for (int groups = 1; groups * splits[s] * (int)p->wave_size <= ITEMS_MAX; groups++) {
            p->waves = groups * splits[s];
            p->lds_bytes = lds_bytes(p);
            if (!model_hopeless(p, counts.row_grain, ranking) && model_estimate(p, &counts))
                model_put(ranking, p);
        }
    }
}

/* Whether all of a lane's weights in a step are of one group. Lanes whose products are of matrices
 * may have those of two, whose scales are loaded as a word. */
static bool chunk_fits(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t group = problem_group(q);

    if (p->chunk > LOAD_WEIGHTS && p->products != PRODUCTS_MATRIX)
        return false;
    if (q->layout == QUERN_LAYOUT_CK && p->chunk != LOAD_WEIGHTS)
        return false;
    return group % p->chunk == 0 ||
           (group == LOAD_WEIGHTS && q->scale != QUERN_SCALE_F32 && q->k % p->chunk == 0);
}

/* Tries all shapes of a plan whose products are set. */
static void try_lanes(struct plan *p, int row_lanes, struct model_ranking *ranking)
{
    static const int rows[] = {8, 4, 2, 1}, chunks[] = {64, 32, 16, 8};

    p->row_lanes = row_lanes;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
            for (int pairing = PAIRING_OF_A; pairing <= PAIRING_OF_W; pairing++) {
                p->rows_per_wave = rows[r];
                p->chunk = chunks[c];
                p->pairing = (enum plan_pairing)pairing;
                if (p->rows_per_wave * p->m_tile > VALUES_MAX || !chunk_fits(p) ||
                    (p->rows_per_wave > 1 && p->rows_per_wave * p->row_lanes > p->problem.n))
                    continue;
                /* only words in the order of k leave a choice */
                if (pairing == PAIRING_OF_W &&
                    (p->problem.layout != QUERN_LAYOUT_K8 || plan_of_f32(p)))
                    continue;
                for (int most = 2; most >= (plan_squares(p) ? 0 : 2); most--)
                    try_waves(p, most, ranking);
            }
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;

    p.products = model_lane_products(&p.problem, p.target);
    p.wave_size = p.target->wave_size;
    try_lanes(&p, p.problem.layout == QUERN_LAYOUT_CK ? CK_LANES : 1, ranking);
    if (p.products == PRODUCTS_MATRIX && p.m_tile % SQUARE == 0)
        try_lanes(&p, SQUARE, ranking);
}

static bool alike(const struct plan *p, const struct plan *q)
{
    return p->rows_per_wave == q->rows_per_wave && p->row_lanes == q->row_lanes &&
           p->chunk == q->chunk && p->split_k == q->split_k && p->pairing == q->pairing &&
           p->shared_sums == q->shared_sums && p->shared_a == q->shared_a;
}

static void shape(const struct plan *p, struct str *out)
{
    str_addf(out, "%d waves, %d rows, %d weights, split %d, pairs of %s%s", p->waves,
             p->rows_per_wave * p->row_lanes, p->chunk, p->split_k,
             p->pairing == PAIRING_OF_A ? "A" : "W",
             p->shared_a      ? ", A in LDS"
             : p->shared_sums ? ""
                              : ", sums of A by each wave");
}

const struct model_family simt_int4 = {candidates, alike, shape};
