/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family mma_int4. The counts follow the template
 * (templates/family/mma_int4.hip) and were fitted to code that hipRTC 6.4.3 made of it;
 * cost_model.c makes a choice of them.
 */
#include "plan/base.h"
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/matrix.h"

#define UNITS_MAX 8     /* loads of a step, for each tile; twice as many if they are of 4 bytes */
#define LDS_MOST  32768 /* so that two workgroups share a compute unit */
#define BODY_MAX  850   /* instructions in a step, products left out: more compile too slowly */

/* Sums of A are made from loads of 16 bytes; a lane asks for up to so many at a time. */
#define SUM_LOADS_MOST 16

/* Weights of a row in a wave's smallest load: each lane has eight, or as many as one instruction
 * takes of it. */
static int least_unit(const struct matrix_form *f)
{
    return f->k_lanes * (f->k_of_lane > 8 ? f->k_of_lane : 8);
}

static bool takes(const struct quern_problem *q, const struct target *t)
{
    const struct matrix_form f = matrix_form(matrix_products(t));

    return problem_has_activation(q) && q->wq == QUERN_W_INT4 && q->a != QUERN_F32 &&
           matrix_products(t) && q->k % least_unit(&f) == 0 && problem_pairs_near(q);
}

/* Half a tile where the two halves of a wave can work on different groups: on gfx12, and if weights
 * are not forced to go through LDS. */
static int fewest_rows(const struct plan *p)
{
    const bool halves = matrix_products(p->target) == PRODUCTS_WMMA12;

    return halves && p->force.predequant != SWITCH_ON ? MATRIX_TILE / 2 : MATRIX_TILE;
}

/* ---- Estimate -------------------------------------------------------------------------------- */

static bool has_zeros(const struct plan *p)
{
    return p->problem.zero != QUERN_ZERO_NONE;
}

/* Loads that bring a lane its scales, or zero points, of `bytes` bytes each, for a step's spans.
 * Those of neighbouring groups come in one load of 32 or 16 bits where they fill it. */
static int loads_of(const struct plan *p, int span, int spans, int bytes)
{
    const int64_t block = problem_group(&p->problem);
    const int64_t blocks = p->problem.k / block;

    for (int some = 4 / bytes; some > 1 && span == block; some /= 2)
        if (spans % some == 0 && blocks % some == 0)
            return spans / some;
    return spans;
}

static int scale_bytes(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_F32 ? 4 : 2;
}

static int zero_bytes(const struct plan *p)
{
    return p->problem.zero == QUERN_ZERO_U8 ? 1 : scale_bytes(p);
}

/* How a workgroup makes sums of A (CODE_OFFSET_SHARED), as the template does. */
struct summing {
    int64_t sums;   /* sums that the workgroup keeps */
    int loads;      /* loads of each lane that shares in a sum */
    int blocks;     /* blocks of rows of A that a wave sums one after another */
    int64_t spans;  /* spans that a wave sums one after another */
    int64_t rounds; /* how often a wave waits for loads of A */
};

static struct summing summing_of(const struct plan *p)
{
    const int span = matrix_span(p), sharers = p->target->capabilities & CAP_MFMA ? 4 : 2;
    const int rows = (int)p->wave_size / sharers;
    const int aside = rows > p->m_tile ? rows / p->m_tile : 1;
    const int64_t spans = p->problem.k / span;
    struct summing s = {.sums = p->m_tile * spans,
                        .loads = span / 8 / sharers,
                        .blocks = rows < p->m_tile ? p->m_tile / rows : 1,
                        .spans = model_ceil_div(spans, p->waves * aside)};

    const int loads = model_at_most(s.blocks * s.loads, SUM_LOADS_MOST);
    s.rounds = model_ceil_div(s.spans, SUM_LOADS_MOST / loads);
    return s;
}

/* Matrix instructions that make a workgroup's sums of A: those of MFMA, with four lanes for a row.
 * 0 on RDNA, which sums by dot products: sum_slots counts those. */
static int64_t sum_products(const struct plan *p, const struct summing *s)
{
    const struct matrix_form f = matrix_form(p->products);

    return f.k_lanes == 4 ? p->waves * s->spans * s->blocks * s->loads * 8 / f.k_of_lane : 0;
}

/* Cycles of those. An instruction that takes more than four values of a lane is the plan's own;
 * else the template uses small instructions, and one of f32 for each span and block of rows. */
static int64_t sum_cycles(const struct plan *p, const struct summing *s, int64_t products)
{
    if (matrix_form(p->products).k_of_lane > 4)
        return products * matrix_cycles(p);
    return products * target_matrix_cycles(p->target, "v_mfma_f32_4x4x4_16b_f16") +
           p->waves * s->spans * s->blocks *
               target_matrix_cycles(p->target, "v_mfma_f32_16x16x4_f32");
}

static int64_t sum_slots(const struct plan *p, const struct summing *s, int64_t products)
{
    const int block = products ? s->loads + 6 : 3 * s->loads + 6;

    return products + p->waves * (s->spans * s->blocks * block + 10 * s->blocks + 10 * s->rounds);
}

/* Whether scaled bf16 weights are made in f32 and cut off (templates/decode/int4_mix). */
static bool is_cut(const struct plan *p)
{
    return matrix_scaled(p) && p->problem.a == QUERN_BF16 &&
           !(p->target->capabilities & CAP_CVT_PK_BF16);
}

/* Instructions that turn a word of eight codes into four pairs for the matrix unit, or for LDS. */
static int decode_slots(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const bool bytes = q->layout == QUERN_LAYOUT_K8 && p->matrix.pairing == PAIRING_OF_W;

    if (q->a == QUERN_F16) {
        const int wide = matrix_form(p->products).values == 4 ? 22 : 8; /* by f32 */
        const int scaling = q->scale == QUERN_SCALE_F16 ? 4 : wide;
        return (bytes ? 8 : 5) + 4 + (matrix_scaled(p) ? scaling : 0);
    }
    if (p->matrix.code_offset)
        return bytes ? 9 : 7;
    if (is_cut(p))
        return 5 + 8 + 4;
    const bool sixteenths = matrix_form(p->products).values == 4, none = q->zero == QUERN_ZERO_NONE;
    /* where the target converts fp8 to f32, it makes f32 of two codes at once */
    const bool fp8 = sixteenths && p->target->capabilities & CAP_FP8_CVT &&
                     (matrix_scaled(p) || q->zero == QUERN_ZERO_U8);
    const int codes = fp8 ? 3 + 4 : sixteenths ? 2 + 8 : 3 + 8;
    if (!matrix_scaled(p))
        return codes + (fp8 ? 4 : !sixteenths ? 6 : none ? 0 : 3) + 4;
    return codes + 4 + 4;
}

/* Instructions that scale the sums of a span in a tile, and take the code offset and zero point off
 * them. */
static int scaling_slots(const struct plan *p)
{
    const int pass = matrix_scaling_slots(p), values = matrix_form(p->products).values;
    const enum quern_zero zero = p->problem.zero;

    if (p->matrix.code_offset == CODE_OFFSET_SHARED &&
        zero != QUERN_ZERO_SCALED) /* products start from a multiple of A's sum, not from 0 */
        return pass + values / 4 + (zero == QUERN_ZERO_U8 ? values / 2 : 0);
    return pass * (p->matrix.code_offset ? 2 : 1) +
           (p->matrix.code_offset == CODE_OFFSET_SHARED ? values / 4 : 0);
}

/* Pieces of 16 bytes, of A or of decoded weights, that a lane gives to instructions in a step. */
static int pieces_of(const struct plan *p)
{
    return matrix_lane_weights(p) / 8;
}

/* Words of each tile that a lane decodes in a step. */
static int words_of(const struct plan *p)
{
    return p->matrix.units * p->matrix.chunk / 8;
}

/* Instructions of a step whose number depends on the pairing: those that decode, and that load A.
 */
static int pairing_slots(const struct plan *p)
{
    const bool paired = p->problem.layout == QUERN_LAYOUT_K8 && p->matrix.pairing == PAIRING_OF_A;
    const bool zeros = matrix_abreast(p) > 1; /* in lanes where A has none of its rows */

    return words_of(p) * matrix_tiles_of_w(p) * decode_slots(p) +
           pieces_of(p) * matrix_tiles_of_a(p) * (paired || zeros ? 5 : 1);
}

/* Instructions of a step, but for those of the loop; `loads`: of scales and zero points. */
static int body_slots(const struct plan *p, int spans, int loads)
{
    const int n = matrix_tiles_of_w(p), m = matrix_tiles_of_a(p);
    int slots = pairing_slots(p) + matrix_products_of_step(p) + n * (p->matrix.units + loads);

    slots += n * spans * (p->problem.scale != QUERN_SCALE_F32);
    if (has_zeros(p)) {
        const bool halves = p->problem.a == QUERN_F16 && !matrix_scaled(p);
        slots += n * (halves ? 4 : 3) * spans;
    }
    if (matrix_staged(p))
        slots += n * (words_of(p) + pieces_of(p));
    if (matrix_scaled(p))
        return slots + n * 2 * spans;
    return slots + n * spans * ((p->matrix.code_offset != 0) + m * scaling_slots(p));
}

static uint32_t vgprs(const struct plan *p, int loads)
{
    const int n = matrix_tiles_of_w(p), m = matrix_tiles_of_a(p);
    const struct matrix_form f = matrix_form(p->products);
    const int plain =
        p->matrix.code_offset == CODE_OFFSET_BY_MATRIX ? m * f.values + f.k_of_lane / 2 : 0;

    /* the next step's scales are asked for while those of this step's last span are still needed */
    const int scales = (loads + 1 + has_zeros(p)) * n;

    return (uint32_t)(matrix_operand_vgprs(p) + plain + scales + 5 * n + 20);
}

/* Whether a plan is chosen without what its loads cost the path to the cache: bf16 of 32 rows of A,
 * where an instruction takes 16 along K. Shorter loads would cost it 8 % more instructions, which
 * is more than those kernels may take (test_slots_long). */
static bool keeps_loads(const struct plan *p)
{
    return p->problem.a == QUERN_BF16 && matrix_tiles_of_a(p) == 2 &&
           matrix_form(p->products).k_of_lane == 4;
}

static struct matrix_counts shape_of(const struct plan *p, int cycles)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t groups = q->n * (q->k / problem_group(q));
    const int each = scale_bytes(p) + (has_zeros(p) ? zero_bytes(p) : 0);
    const int span = matrix_span(p), spans = matrix_spans(p);
    const int loads = loads_of(p, span, spans, scale_bytes(p)) +
                      (has_zeros(p) ? loads_of(p, span, spans, zero_bytes(p)) : 0);

    return (struct matrix_counts){.body = body_slots(p, spans, loads),
                                  .vgprs = vgprs(p, loads),
                                  .cycles = cycles,
                                  .loads = keeps_loads(p) ? 0 : loads,
                                  .weight_bytes = q->n * q->k / 2 + groups * each};
}

/* LDS has the waves' weights on their way to the matrix unit, and behind them sums of A. */
static bool share(struct plan *p, struct model_counts *counts)
{
    const int64_t least = p->waves * MATRIX_SUM_BYTES;
    int64_t bytes = p->waves * matrix_staged_bytes(p);

    if (p->matrix.code_offset == CODE_OFFSET_SHARED) {
        const struct summing s = summing_of(p);
        const int64_t products = sum_products(p, &s);
        counts->shared_slots = (uint32_t)sum_slots(p, &s, products);
        counts->shared_matrix = products ? (uint32_t)sum_cycles(p, &s, products) : 0;
        counts->waits = s.rounds / 4; /* A is in the second-level cache, so a wait is shorter */
        bytes += s.sums * 4;
    }
    p->lds_bytes = (uint32_t)(bytes > least ? bytes : least);
    return bytes <= LDS_MOST;
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Whether the plan's steps divide K, and all weights of a lane, or of a span, share a scale. Layout
 * ck has blocks of 32 weights: smaller units would not all lie at the same distance. */
static bool divides(const struct plan *p)
{
    const int64_t block = problem_group(&p->problem);

    if (p->problem.k % matrix_step(p) || (plan_is_base(p) && matrix_step(p) > BASE_K_LEAST) ||
        (p->problem.layout == QUERN_LAYOUT_CK && p->matrix.units > 1 && matrix_unit(p) % 32))
        return false;
    if (matrix_scaled(p))
        return block % p->matrix.chunk == 0;
    const int span = matrix_span(p);
    return matrix_whole_spans(p) && (p->matrix.code_offset != CODE_OFFSET_SHARED ||
                                     (p->m_tile * span / 8 <= SUM_LOADS_MOST * (int)p->wave_size &&
                                      (span % 32 == 0 || (span == 16 && p->wave_size == 32))));
}

/* Chooses the pairing that takes fewer instructions. Only layout k8 leaves a choice: words of the
 * others have the codes in the order of pairs. */
static void choose_pairing(struct plan *p)
{
    p->matrix.pairing = PAIRING_OF_A;
    if (p->problem.layout != QUERN_LAYOUT_K8)
        return;
    const int of_a = pairing_slots(p);
    p->matrix.pairing = PAIRING_OF_W;
    if (pairing_slots(p) >= of_a)
        p->matrix.pairing = PAIRING_OF_A;
}

static void try_tiles(struct plan *p, int cycles, struct model_ranking *ranking)
{
    for (int tiles = 4; tiles; tiles /= 2)
        for (p->matrix.units = p->matrix.chunk == 8 ? 2 * UNITS_MAX : UNITS_MAX; p->matrix.units;
             p->matrix.units--) {
            p->matrix.rows = tiles * MATRIX_TILE;
            if (!divides(p))
                continue;
            choose_pairing(p);
            const struct matrix_counts shape = shape_of(p, cycles);
            const int body = shape.body - matrix_products_of_step(p);
            if (shape.vgprs <= MATRIX_VGPRS_MAX && (p->matrix.units == 1 || body <= BODY_MAX))
                matrix_try_waves(p, &shape, share, ranking);
        }
}

/* Whether a plan's way to take off code offsets is one of its problem's. Weights that are decoded
 * whole have none. Of others, scaled zero points always need the sum of A; without them, bf16 may
 * do with it or without, and f16 does without. Base kernels share no sums of A, whose number the
 * layer decides. For one tile of rows those of bf16 take sums by matrix: bf16 has no packed
 * subtraction, and as memory bounds either way, the one that issues less leaves more to spare. */
static bool code_offset_fits(const struct plan *p)
{
    const bool scaled = p->problem.zero == QUERN_ZERO_SCALED, base = plan_is_base(p);

    if (matrix_scaled(p))
        return !p->matrix.code_offset;
    if (base && p->matrix.code_offset == CODE_OFFSET_SHARED)
        return false;
    if (base && p->problem.a == QUERN_BF16 && p->m_tile <= 16)
        return p->matrix.code_offset == CODE_OFFSET_BY_MATRIX;
    return p->matrix.code_offset ? p->problem.a != QUERN_F16 || scaled : !scaled;
}

/* Whether scaled weights would be truncated to A's type. Together with a truncated result that
 * loses up to 1.05e-2 of the largest value, 2.7e-3 of it because all weights are nearer to zero:
 * more than round=trunc may lose. So codes are multiplied, which bf16 holds exactly; always in base
 * kernels, which learn only as they run whether results are truncated. */
static bool cuts_weights(const struct plan *p)
{
    return (p->problem.round == QUERN_ROUND_TRUNC || plan_is_base(p)) && p->problem.a == QUERN_BF16;
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    static const int chunks[] = {32, 16, 8};
    struct plan p = *base;

    p.products = matrix_products(p.target);
    p.wave_size = p.target->wave_size;
    /* two ways: to multiply codes, and to multiply scaled weights where those may be rounded; with
     * predequant=on weights go through LDS */
    const bool doubled = matrix_doubled(&p), on = p.force.predequant == SWITCH_ON;
    const bool cut = cuts_weights(&p);
    const bool only_codes = p.force.predequant == SWITCH_OFF || cut || matrix_abreast(&p) > 1;
    const int cycles = matrix_cycles(&p);
    const enum plan_staging ways[] = {doubled || (on && cut) ? STAGING_CODES : STAGING_NONE,
                                      doubled || on ? STAGING_WEIGHTS : STAGING_SCALED};
    for (int way = on && !cut; way < (only_codes ? 1 : 2); way++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            p.matrix.staging = ways[way];
            p.matrix.chunk = chunks[c];
            /* from registers, a lane's load has at least what it gives to one instruction */
            if (!matrix_staged(&p) && p.matrix.chunk < matrix_form(p.products).k_of_lane)
                continue;
            for (int offset = CODE_OFFSET_OF_CODES; offset <= CODE_OFFSET_SHARED; offset++) {
                p.matrix.code_offset = (enum plan_code_offset)offset;
                if (code_offset_fits(&p))
                    try_tiles(&p, cycles, ranking);
            }
        }
}

/* ---- What is said of a kernel ---------------------------------------------------------------- */

/* The dot products in question are those that sum A for a workgroup. */
static bool dual_dot2(const struct plan *p)
{
    return p->target->capabilities & CAP_VOPD && p->matrix.code_offset == CODE_OFFSET_SHARED;
}

static const char *predequant_text(const struct plan *p)
{
    switch (p->matrix.staging) {
    case STAGING_WEIGHTS:
        return "on: weights go through LDS in the type of A";
    case STAGING_CODES:
        return p->force.predequant == SWITCH_ON
                   ? "on: codes go through LDS in the type of A, unscaled, as nothing may be cut"
                   : "off: codes go through LDS, unscaled";
    case STAGING_SCALED:
        return "off: weights are decoded and scaled in registers";
    case STAGING_NONE:
        break;
    }
    return "off: codes are decoded in registers";
}

static void explain(const struct plan *p, struct str *out)
{
    explain_begin(p, out);
    explain_products(p, NULL, out);
    explain_resources(p,
                      matrix_staged(p)                              ? "weights on their way"
                      : p->matrix.code_offset == CODE_OFFSET_SHARED ? "sums of A, sums of waves"
                                                                    : "sums of waves",
                      out);
    explain_pairing(p, p->matrix.pairing, out);
    str_addf(out, "  predequant %s\n", predequant_text(p));
    explain_end(p, out);
}

static const char *pairing(const struct plan *p)
{
    return field_pairing(p->matrix.pairing);
}

static bool is_exact(const struct plan *p)
{
    return p->matrix.code_offset == CODE_OFFSET_OF_CODES || p->problem.a == QUERN_F16;
}

static bool sums_a(const struct plan *p)
{
    return p->matrix.code_offset != CODE_OFFSET_OF_CODES;
}

static bool shares_sums(const struct plan *p)
{
    return p->matrix.code_offset == CODE_OFFSET_SHARED;
}

static const struct plan_field formats[] = {
    {FIELD_WORD("PRODUCTS", field_matrix, "how pairs are multiplied")},
    {FIELD_IF(FIELD_FLAG, "PAIRED", dual_dot2, "whether those that sum A are issued in pairs,")},
    {FIELD_WORD("PAIR_TYPE", field_pair_type, "of what"), .when = dual_dot2},
    {FIELD_WORD("PAIRING", pairing, "what is reordered where pairs differ"),
     FIELD_PLACE(matrix.pairing), .word = "pairing"},
    {FIELD_IF(FIELD_BOOL, "STAGED", matrix_staged, "whether W goes through LDS")},
    {FIELD_IF(FIELD_BOOL, "SCALED", matrix_scaled, "whether weights are multiplied, not codes")},
    {FIELD_IF(FIELD_BOOL, "CUT", is_cut, "whether they are bf16 that is cut off")},
    {FIELD_IF(FIELD_BOOL, "EXACT", is_exact, "whether codes are decoded as q - z")},
    {FIELD_IF(FIELD_BOOL, "PLAIN_SUM", sums_a, "whether A is summed")},
    {FIELD_IF(FIELD_BOOL, "SHARED_SUMS", shares_sums, "whether once for the workgroup")},
    {.kind = FIELD_SHAPE,
     FIELD_PLACE(matrix.code_offset),
     .word = "code_offset",
     .meaning = "what the zero point is taken from: 0 codes, 1 sums by matrix, 2 sums shared",
     .was = "bias"},
    {.kind = FIELD_SHAPE,
     FIELD_PLACE(matrix.staging),
     .word = "staging",
     .meaning = "what goes through LDS: 0 nothing, 1 codes, 2 weights; 3: scaled in registers"},
    {0},
};

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "SHARED_BYTES", lds_bytes, "of LDS")},
    {FIELD_AT(FIELD_NUMBER, "WAVES_PER_SIMD", waves_asked, "that registers must leave room for")},
    {FIELD_AT(FIELD_NUMBER, "PHASES", phase, "1: groups start apart along K")},
    {0},
};

static const struct plan_fields fields[] = {
    {layer_fields},  {int4_fields}, {formats},     {tile_fields},
    {matrix_fields}, {shape},       {grid_fields}, {0}};

static const struct plan_template templates[] = {{"prelude/prelude"},
                                                 {"prelude/layer"},
                                                 {.choose = template_of_rows},
                                                 {"prelude/glu", .when = field_has_act},
                                                 {.choose = matrix_template},
                                                 {"prelude/tiles"},
                                                 {"prelude/reduce"},
                                                 {"prelude/int4"},
                                                 {"prelude/round"},
                                                 {"prelude/mix"},
                                                 {"decode/int4"},
                                                 {"decode/scale_group"},
                                                 {"decode/int4_mix"},
                                                 {"decode/int4_exact"},
                                                 {"prelude/dual_dot2", .when = dual_dot2},
                                                 {"family/mma_int4"},
                                                 {0}};

/* Plans' m_tile is fewest_rows, or a multiple of 16. */
const struct family family_mma_int4 = {
    .name = "mma_int4",
    .units = PLAN_UNITS_MATRIX,
    .takes = takes,
    .candidates = candidates,
    .fewest_rows = fewest_rows,
    .dual_dot2 = dual_dot2,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .base_rows = 1,
    .predequant = SWITCH_FREE,
};
