/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family simt_int4. The counts follow the template
 * (templates/family/simt_int4.hip, decode/int4.hip) and were fitted to code that hipRTC 6.4.3 made
 * of it; cost_model.c makes a choice of them. This file is long because products by lanes and by
 * matrix instructions are counted side by side.
 */
#include "plan/base.h"
#include "plan/explain.h"
#include "plan/family.h"

#include <inttypes.h>

#define ITEMS_MAX    1024 /* work-items of a workgroup */
#define VALUES_MAX   32   /* sums per lane that the template's reduction can fold */
#define SIZE_MAX_NK  ((int64_t)1 << 27)
#define PAIRS_MAX    ((int64_t)1 << 36) /* weights, of which 32 share a scale of 4 bytes */
#define CK_BYTES_MAX ((int64_t)1 << 32) /* layout ck: one 32-bit offset reaches all of b */
#define LOAD_WEIGHTS 32 /* of a lane in one load; lanes with matrix products may have two loads */
#define CK_LANES     8  /* row_lanes in layout ck: its 16-byte blocks of eight rows fill a line */
#define SQUARE       4  /* row_lanes where all of a 4 by 4 matrix product is used */
#define LDS_SHARE    2  /* workgroups that are to share a compute unit's LDS */
#define LDS_LEAST    16
#define BASE_ROWS    32 /* rows of W of a wave of a base kernel, at most */
#define BASE_CHUNK   32 /* the smallest group there is, which lies in any K */

static bool takes(const struct quern_problem *q, const struct target *t)
{
    (void)t;
    return problem_has_activation(q) && q->wq == QUERN_W_INT4;
}

static quern_status accepts(const struct quern_problem *q, const struct target *t)
{
    FAIL_IF(q->layout == QUERN_LAYOUT_GPTQ || q->layout == QUERN_LAYOUT_AWQ, QUERN_E_DECLINED,
            "no kernel reads layout=%s; repack the weights once, to layout=exl (quern repack)",
            layout_name(q->layout));
    FAIL_IF(q->layout == QUERN_LAYOUT_TILEN, QUERN_E_DECLINED,
            "only layout=k8, exl and ck have kernels for wq=int4 in this version");
    FAIL_IF(q->n > SIZE_MAX_NK || q->k > SIZE_MAX_NK, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " is beyond this version's largest, %" PRId64 " each", q->n,
            q->k, SIZE_MAX_NK);
    FAIL_IF(q->layout == QUERN_LAYOUT_CK && q->n > CK_BYTES_MAX / q->k * 2, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " makes more than 4 GiB of weights, which layout=ck has no "
            "kernel for; use layout=k8 or exl",
            q->n, q->k);
    FAIL_IF(q->glu == QUERN_GLU_HALVES && q->n > PAIRS_MAX / q->k, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64
            " puts the scales of gate and up more than 4 GiB apart, which "
            "glu=halves has no kernel for; use glu=interleaved",
            q->n, q->k);
    FAIL_IF(q->a == QUERN_F16 && !(t->capabilities & CAP_DOT2_F32_F16), QUERN_E_DECLINED,
            "%s has no v_dot2_f32_f16; use a=f32 or a=bf16 there", t->name);
    return QUERN_OK;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

/* Whether matrix products are of four rows of W with four of A, so that all 16 results are used,
 * and not the diagonal alone. */
static bool squares(const struct plan *p)
{
    return p->products == PRODUCTS_MATRIX && p->simt_int4.row_lanes == SQUARE;
}

/* The compiler pairs only dot products of f16, and only on gfx11; so the text pairs all, where a
 * lane has two rows of W to pair. */
static bool dual_dot2(const struct plan *p)
{
    return p->simt_int4.rows > 1 && model_dual_dot2(p);
}

static bool has_zeros(const struct plan *p)
{
    return p->problem.zero != QUERN_ZERO_NONE;
}

/* Sums that a lane keeps for a row of W: one for each row of A, or for each four of them. */
static int tiles_of_a(const struct plan *p)
{
    return squares(p) ? p->m_tile / SQUARE : p->m_tile;
}

/* Sums that are kept of a chunk of A: the one that takes off the code offset, and the plain one
 * that takes off zero points. One will do for both where the decoder adds the same offset to all
 * codes. */
static int sums_of_a(const struct plan *p)
{
    const bool one_bias =
        plan_of_f32(p) || (p->products == PRODUCTS_DOT2 && p->problem.a == QUERN_BF16);

    return has_zeros(p) && !one_bias ? 2 : 1;
}

/* How many groups a lane's weights in a step belong to. */
static int spans_of(const struct plan *p)
{
    const int64_t group = problem_group(&p->problem);

    return group < p->simt_int4.chunk ? p->simt_int4.chunk / (int)group : 1;
}

static int64_t steps_of(const struct plan *p)
{
    return model_ceil_div(p->problem.k,
                          (int64_t)p->wave_size / p->simt_int4.row_lanes * p->simt_int4.chunk);
}

static int64_t trips_of(const struct plan *p)
{
    return model_ceil_div(steps_of(p), p->simt_int4.split_k);
}

/* Instructions that turn some words of eight codes into four pairs each. */
static int decode_slots(const struct plan *p, int words)
{
    const bool bytes = p->problem.layout == QUERN_LAYOUT_K8 && p->simt_int4.pairing == PAIRING_OF_W;
    const bool f16 = p->problem.a == QUERN_F16;

    if (plan_of_f32(p))
        return 15 * words;
    if (bytes)
        return (f16 ? 8 : 9) * words;
    /* four masks for each word, and shifts; those of matrix products shift two words at once */
    const int shifted = p->products == PRODUCTS_MATRIX ? (words + 1) / 2 : words;
    return 4 * words + (f16 ? 1 : 3) * shifted;
}

/* Instructions that prepare the eight values of A that meet a word of codes: widen them to f32, or
 * bring them into the order of the codes' pairs. */
static int a_slots(const struct plan *p)
{
    if (plan_of_f32(p))
        return p->problem.a == QUERN_F32 ? 0 : 8;
    return p->problem.layout == QUERN_LAYOUT_K8 && p->simt_int4.pairing == PAIRING_OF_A &&
                   !p->simt_int4.shared_a
               ? 4
               : 0;
}

/* Instructions that sum the eight values of A that meet a word: products with the code offset and
 * with ones. A matrix product makes both at once. */
static int sum_slots(const struct plan *p)
{
    return model_product_slots(p, p->products == PRODUCTS_MATRIX ? 4 : 4 * sums_of_a(p));
}

static uint32_t step_slots(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int r = p->simt_int4.rows, m = tiles_of_a(p), words = p->simt_int4.chunk / 8;
    const int pairs = 4 * words * r * m, spans = spans_of(p);
    int slots = r * decode_slots(p, words) + words * m * a_slots(p);

    /* of five products that the text pairs, four have operands in banks that allow it */
    slots += dual_dot2(p) ? pairs * 3 / 5 : model_product_slots(p, pairs);
    /* loads of weights, scales, zero points */
    slots += r * ((int)model_ceil_div(p->simt_int4.chunk, LOAD_WEIGHTS) + 1 + has_zeros(p));
    slots += r * spans * ((q->scale != QUERN_SCALE_F32) + has_zeros(p)); /* conversions */
    slots += m * p->simt_int4.chunk * (int)dtype_bytes(q->a) / 16;       /* loads of A */
    if (p->products == PRODUCTS_MATRIX)
        slots += spans * (r * m * (2 + has_zeros(p)) + m * has_zeros(p));
    else
        slots += r * m * (1 + has_zeros(p)) * (p->products == PRODUCTS_PACKED ? 2 : 1);
    slots += p->simt_int4.shared_sums
                 ? m * spans * (p->products == PRODUCTS_MATRIX ? sums_of_a(p) : 1)
                 : words * m * sum_slots(p) + (squares(p) ? 0 : r * m);
    slots += q->k % ((int64_t)p->wave_size / p->simt_int4.row_lanes * p->simt_int4.chunk)
                 ? 6
                 : 0;                                           /* the end of K */
    slots += trips_of(p) > 2 ? 13 : p->simt_int4.ahead ? 1 : 5; /* offsets; loop, unless unrolled */
    slots += p->phase ? trips_of(p) > 2 ? 4 : 1 : 0;
    return (uint32_t)slots;
}

/* Instructions of a wave before and after its steps: addresses, reduction, store. */
static uint32_t setup_slots(const struct plan *p)
{
    const int r = p->simt_int4.rows, m = tiles_of_a(p), sums = r * m;
    const int split = p->simt_int4.split_k > 1 ? 20 + 2 * p->simt_int4.split_k : 0;

    if (squares(p))
        return (uint32_t)(112 + 14 * m + sums +
                          3 * (sums > p->simt_int4.split_k ? sums : p->simt_int4.split_k));
    if (p->products == PRODUCTS_MATRIX)
        return (uint32_t)(27 + 5 * r + 14 * m + 7 * m * r + split);
    return (uint32_t)(80 + 3 * r + 14 * m + (p->wave_size == 64 ? 4 : 2) * m * r + split);
}

/* Instructions that make the shared sums of A, by all waves of a workgroup together. */
static uint32_t shared_slots(const struct plan *p)
{
    const int64_t lanes = (int64_t)p->wave_size * tiles_of_a(p) / p->m_tile; /* of a row */
    const int64_t parts = tiles_of_a(p) * model_ceil_div(p->problem.k / p->simt_int4.chunk, lanes);

    return p->simt_int4.shared_sums
               ? (uint32_t)(parts * (p->simt_int4.chunk / 8 * (1 + sum_slots(p)) + 30))
               : 0;
}

/* Whether a wave requests the weights of its two steps at its start: only few rows of A and of W
 * leave registers for them. */
static bool ahead(const struct plan *p)
{
    return !plan_is_base(p) && steps_of(p) == 2 * p->simt_int4.split_k && tiles_of_a(p) <= 2 &&
           p->simt_int4.rows <= 4;
}

/* Registers that a base kernel takes beside those that are counted, for what depends on its layer.
 */
static int base_vgprs(const struct plan *p)
{
    return !plan_is_base(p) ? 0 : p->products == PRODUCTS_MATRIX ? 16 : 24;
}

static uint32_t vgprs(const struct plan *p)
{
    const int r = p->simt_int4.rows, m = tiles_of_a(p), words = p->simt_int4.chunk / 8;
    /* words of A held, as in the template */
    const int ring =
        squares(p) && !p->simt_int4.shared_sums ? words : model_at_most(words, m > 2 ? 2 : 4);
    const int sums = p->products == PRODUCTS_PACKED ? 3 : 2;

    if (p->products == PRODUCTS_MATRIX) {
        const int held = words * (p->simt_int4.ahead ? 2 : 1) + 4 * model_at_most(words, 2);
        /* an unrolled step adds to the total directly, and needs no sums of its own */
        const int sum = p->simt_int4.ahead ? 4 : 8;
        const int zero = has_zeros(p) ? 3 : 0;
        return (uint32_t)((held + sum * m + zero) * r + 4 * ring * m + 4 * sums_of_a(p) * m +
                          (p->simt_int4.ahead ? 0 : 2 * r + 12) + (squares(p) ? 8 : 0) +
                          base_vgprs(p));
    }
    const int pair = plan_of_f32(p) ? 2 : 1;

    return (uint32_t)(words * r * (p->simt_int4.ahead ? 2 : 1) /* packed weights */ +
                      (m * r > 4 ? 4 : 8) * pair * r /* decoded */ + (has_zeros(p) ? 4 : 3) * r +
                      (sums_of_a(p) + 2) * m + (p->problem.a == QUERN_F32 ? 8 : 4) * ring * m +
                      sums * m * r + (p->products == PRODUCTS_DOT2 ? 20 : 32) + base_vgprs(p));
}

/* Values that a lane is left with after the reduction: RESULTS in the template. */
static int results_of(const struct plan *p)
{
    const int values = p->simt_int4.rows * p->m_tile,
              lanes = (int)p->wave_size / p->simt_int4.row_lanes;

    return p->simt_int4.row_lanes == 1 || values <= lanes ? 1 : values / lanes;
}

/* Bytes of LDS for sums of A. Where matrix products start from them, sums of four rows of A stand
 * together, or a sum stands four times. */
static int64_t sums_bytes(const struct plan *p)
{
    const int64_t spans = tiles_of_a(p) * spans_of(p) * (p->problem.k / p->simt_int4.chunk);

    return spans * sums_of_a(p) * (p->products == PRODUCTS_MATRIX ? 16 : 4);
}

static int64_t a_bytes(const struct plan *p)
{
    return p->m_tile * p->problem.k * dtype_bytes(p->problem.a);
}

/* Bytes of LDS for the sums that waves add up at the end. */
static int64_t partial_bytes(const struct plan *p)
{
    const int64_t tile = (int64_t)p->waves * p->simt_int4.rows * p->wave_size * 16;
    const int64_t all = tile * tiles_of_a(p);

    if (squares(p))
        return all <= p->target->lds_bytes ? all : tile;
    return p->simt_int4.split_k > 1 ? (int64_t)p->waves * p->wave_size * 4 * results_of(p) : 0;
}

static uint32_t lds_bytes(const struct plan *p)
{
    const int64_t shared =
        p->simt_int4.shared_sums ? sums_bytes(p) + (p->simt_int4.shared_a ? a_bytes(p) : 0) : 0;
    const int64_t partial = partial_bytes(p);
    const int64_t most = shared > partial ? shared : partial;

    return most > LDS_LEAST ? (uint32_t)((most + 15) / 16 * 16) : LDS_LEAST;
}

/* Fills in the counts that do not depend on how many waves a workgroup has. */
static void count(struct plan *p, struct model_counts *counts)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t scale_bytes = q->scale == QUERN_SCALE_F32 ? 4 : 2;
    const int64_t zero_bytes = q->zero == QUERN_ZERO_U8       ? 1
                               : q->zero == QUERN_ZERO_SCALED ? scale_bytes
                                                              : 0;
    const int64_t trips = trips_of(p);

    p->phase = model_phase(p, p->simt_int4.row_lanes > 1 ? 1 : q->k / 2, trips, p->simt_int4.ahead);
    const uint32_t step = step_slots(p);
    *counts = (struct model_counts){
        .wave_rows = p->simt_int4.rows * p->simt_int4.row_lanes,
        .split_k = p->simt_int4.split_k,
        .ahead = p->simt_int4.ahead,
        .vgprs = vgprs(p),
        .step_slots = step,
        .setup_slots = setup_slots(p),
        .shared_slots = shared_slots(p),
        .trips = trips,
        .row_grain = squares(p) ? SQUARE : 1,
        .row_slots = p->simt_int4.split_k * trips * (int64_t)step,
        .memory_cycles = model_memory_cycles(p, q->n * q->k / 2 + q->n * (q->k / problem_group(q)) *
                                                                      (scale_bytes + zero_bytes)),
        .flight_bytes = (int64_t)p->simt_int4.rows * p->wave_size * p->simt_int4.chunk / 2 *
                        (p->simt_int4.ahead ? trips : 1)};
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Decides what a workgroup keeps of A in LDS: nothing (`most` is 0), sums (1), sums and A itself
 * (2), or less where there is no room. Waves that multiply four rows of A at once may do as well
 * without: for them all three are tried, and false says that `most` does not fit or gives a plan
 * that another `most` gives, too. A base kernel does not know how much there would be. */
static bool share(struct plan *p, int most)
{
    const int64_t room = plan_is_base(p) ? 0 : p->target->lds_bytes / (squares(p) ? 1 : LDS_SHARE);

    p->simt_int4.shared_sums = most > 0 && sums_bytes(p) <= room;
    p->simt_int4.shared_a =
        most > 1 && p->products == PRODUCTS_MATRIX && sums_bytes(p) + a_bytes(p) <= room;
    return !squares(p) || p->simt_int4.shared_sums + p->simt_int4.shared_a == most;
}

/* Tries all numbers of waves for a plan whose other fields are set. */
static void try_waves(struct plan *p, int most, struct model_ranking *ranking)
{
    static const int splits[] = {1, 2, 4, 8, 16};

    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
        struct model_counts counts;
        p->simt_int4.split_k = splits[s];
        if (p->simt_int4.split_k > steps_of(p))
            break;
        p->simt_int4.ahead = ahead(p);
        if (!share(p, most))
            continue;
        count(p, &counts);
        if (model_beaten(p, &counts, ranking))
            continue;
        for (int groups = 1; groups * splits[s] * (int)p->wave_size <= ITEMS_MAX; groups++) {
            p->waves = groups * splits[s];
            p->lds_bytes = lds_bytes(p);
            if (model_hopeless(p, &counts, ranking) || !model_estimate(p, &counts))
                continue;
            p->estimate.close = squares(p);
            model_put(ranking, p);
        }
    }
}

/* Whether a plan's chunk can be decoded: it lies in one group, or is two groups of 32 whose 16-bit
 * scales come in one word; and it is one load, two only for matrix products. */
static bool chunk_fits(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t group = problem_group(q);

    if (p->simt_int4.chunk > LOAD_WEIGHTS && p->products != PRODUCTS_MATRIX)
        return false;
    if (q->layout == QUERN_LAYOUT_CK && p->simt_int4.chunk != LOAD_WEIGHTS)
        return false;
    if (plan_is_base(p) && p->simt_int4.chunk > BASE_CHUNK)
        return false;
    return group % p->simt_int4.chunk == 0 ||
           (group == LOAD_WEIGHTS && q->scale != QUERN_SCALE_F32 && q->k % p->simt_int4.chunk == 0);
}

/* Tries all shapes of a plan whose products are set. */
static void try_lanes(struct plan *p, int row_lanes, struct model_ranking *ranking)
{
    static const int rows[] = {8, 4, 2, 1}, chunks[] = {64, 32, 16, 8};

    p->simt_int4.row_lanes = row_lanes;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
            for (int pairing = PAIRING_OF_A; pairing <= PAIRING_OF_W; pairing++) {
                p->simt_int4.rows = rows[r];
                p->simt_int4.chunk = chunks[c];
                p->simt_int4.pairing = (enum plan_pairing)pairing;
                if (p->simt_int4.rows * p->m_tile > VALUES_MAX || !chunk_fits(p) ||
                    (p->simt_int4.rows > 1 && p->simt_int4.rows * p->simt_int4.row_lanes >
                                                  (plan_is_base(p) ? BASE_ROWS : p->problem.n)))
                    continue;
                /* only layout k8 has codes in the order of k, which leaves a choice of pairs */
                if (pairing == PAIRING_OF_W &&
                    (p->problem.layout != QUERN_LAYOUT_K8 || plan_of_f32(p)))
                    continue;
                for (int most = 2; most >= (squares(p) ? 0 : 2); most--)
                    try_waves(p, most, ranking);
            }
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;

    p.products = model_lane_products(&p.problem, p.target);
    p.wave_size = p.target->wave_size;
    try_lanes(&p, p.problem.layout == QUERN_LAYOUT_CK ? CK_LANES : 1, ranking);
    if (p.products == PRODUCTS_MATRIX && p.m_tile % SQUARE == 0 && problem_pairs_near(&p.problem))
        try_lanes(&p, SQUARE, ranking);
}

/* ---- What is said of a kernel ---------------------------------------------------------------- */

static const char *products_text(const struct plan *p)
{
    return squares(p) ? "of four rows of W with four of A, by 4x4x4 matrix instructions" : NULL;
}

static void explain(const struct plan *p, struct str *out)
{
    const struct simt_int4_shape *const s = &p->simt_int4;

    explain_begin(p, out);
    explain_products(p, products_text(p), out);
    explain_resources(p, s->shared_sums ? "sums of A" : "sums of waves", out);
    explain_pairing(p, s->pairing, out);
    explain_end(p, out);
}

static const char *pairing(const struct plan *p)
{
    return field_pairing(p->simt_int4.pairing);
}

static const char *sums(const struct plan *p)
{
    return p->simt_int4.shared_sums ? "SHARED" : "OWN";
}

/* The word `shared` of a shape: whether LDS holds nothing of A (0), its sums (1), or those and A
 * itself (2). It is 0 where the planner has no choice of it. */
static int64_t shared(const struct plan *p)
{
    return squares(p) ? p->simt_int4.shared_sums + p->simt_int4.shared_a : 0;
}

static const char *reduction(const struct plan *p)
{
    return squares(p) ? "prelude/squares" : "prelude/spread";
}

static const struct plan_field formats[] = {
    {FIELD_WORD("PRODUCTS", field_products, "how weights are multiplied")},
    {FIELD_IF(FIELD_FLAG, "PAIRED", dual_dot2, "whether they are issued in pairs,")},
    {FIELD_WORD("PAIR_TYPE", field_pair_type, "of what"), .when = dual_dot2},
    {FIELD_WORD("PAIRING", pairing, "what is reordered where pairs differ"),
     FIELD_PLACE(simt_int4.pairing), .word = "pairing"},
    {FIELD_WORD("SUMS", sums, "who makes sums of A")},
    {FIELD_AT(FIELD_BOOL, "A_STAGED", simt_int4.shared_a, "whether A is in LDS")},
    {0},
};

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "ROWS", simt_int4.rows, "rows of W that a lane works on"),
     .word = "rows"},
    {FIELD_AT(FIELD_NUMBER, "ROW_LANES", simt_int4.row_lanes,
              "lanes side by side with rows of their own"),
     .word = "row_lanes", .was = "lanes"},
    {FIELD_IF(FIELD_FLAG, "SQUARE", squares, "whether products are 4 by 4 rows")},
    {FIELD_AT(FIELD_NUMBER, "SPLIT_K", simt_int4.split_k, "waves that share those rows along K"),
     .word = "split_k"},
    {FIELD_AT(FIELD_NUMBER, "CHUNK", simt_int4.chunk, "weights of a row for one lane in one step"),
     .word = "chunk"},
    {FIELD_AT(FIELD_NUMBER, "SHARED_BYTES", lds_bytes, "of LDS")},
    {FIELD_AT(FIELD_NUMBER, "WAVES_PER_SIMD", estimate.waves_per_simd,
              "that registers must leave room for")},
    {FIELD_AT(FIELD_NUMBER, "PHASES", phase, "1: groups start apart along K, 2: waves do")},
    {FIELD_AT(FIELD_BOOL, "AHEAD", simt_int4.ahead, "whether all steps are loaded at the start"),
     .word = "ahead"},
    {.kind = FIELD_SHAPE,
     .value = shared,
     .word = "shared",
     .meaning = "what is made once for the workgroup: 0 as fits, 1 sums of A, 2 those and A"},
    {0},
};

static const struct plan_fields fields[] = {{layer_fields}, {int4_fields}, {formats}, {tile_fields},
                                            {shape},        {grid_fields}, {0}};

static const struct plan_template templates[] = {{"prelude/prelude"},
                                                 {"prelude/layer"},
                                                 {.choose = template_of_rows},
                                                 {"prelude/glu", .when = field_has_act},
                                                 {"prelude/reduce"},
                                                 {.choose = reduction},
                                                 {"prelude/int4"},
                                                 {"prelude/round"},
                                                 {"decode/int4"},
                                                 {"decode/scale_group"},
                                                 {"prelude/dual_dot2", .when = dual_dot2},
                                                 {"prelude/products"},
                                                 {"family/simt_int4"},
                                                 {0}};

const struct family family_simt_int4 = {
    .name = "simt_int4",
    .units = PLAN_UNITS_VECTOR,
    .takes = takes,
    .accepts = accepts,
    .candidates = candidates,
    .dual_dot2 = dual_dot2,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .base_rows = BASE_ROWS,
    .predequant = SWITCH_OFF,
    .larger_may_win = true,
};
