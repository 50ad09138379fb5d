/* SPDX-License-Identifier: MIT */
#include "gen/gen.h"
#include "gen/templates.h"
#include "plan/matrix.h"

#include <string.h>

#define VERSION_TEXT_(x) #x
#define VERSION_TEXT(x)  VERSION_TEXT_(x)
#define VERSION                                                                                    \
    VERSION_TEXT(QUERN_VERSION_MAJOR)                                                              \
    "." VERSION_TEXT(QUERN_VERSION_MINOR) "." VERSION_TEXT(QUERN_VERSION_PATCH)

/* Templates carry a licence line each; the source has one at its top. */
static const char licence[] = "/* SPDX-License-Identifier: MIT */\n";

/* What stands for a template in an outline. Neither templates nor constants contain the word. */
static const char include[] = "#include \"";

static const struct template_file *find_template(const char *name, size_t length)
{
    const struct template_file *f = template_files;

    while (f->name && (strncmp(f->name, name, length) || f->name[length]))
        f++;
    return f;
}

static quern_status add_template(struct str *outline, const char *name)
{
    const struct template_file *const f = find_template(name, strlen(name));

    FAIL_IF(!f->name, QUERN_E_INTERNAL, "there is no template \"%s\"", name);
    str_add(outline, include);
    str_add(outline, name);
    str_add(outline, "\" // ");
    str_add(outline, f->sha256);
    str_add(outline, "\n");
    return QUERN_OK;
}

/* Appends an outline with each template in its place. Keys are made of outlines: if this changes,
 * so must their format (dispatch/kernel.c). */
static void expand(const char *outline, struct str *source)
{
    for (const char *line = outline, *next; *line; line = next) {
        next = strchrnul(line, '\n');
        next += *next == '\n';
        if (strncmp(line, include, sizeof include - 1)) {
            str_add_bytes(source, line, (size_t)(next - line));
            continue;
        }
        const char *const name = line + sizeof include - 1;
        const struct template_file *const f = find_template(name, strcspn(name, "\""));
        const char *text = f->text;
        if (!strncmp(text, licence, sizeof licence - 1))
            text += sizeof licence - 1;
        str_addf(source, "\n// ---- %s ----\n", f->name);
        str_add(source, text);
    }
}

#define MEANING_COLUMN 40

/* What a constant is for, behind the line that began at `start`, in a column of its own. */
static void add_meaning(struct str *s, size_t start, const char *meaning)
{
    static const char blanks[] = "                                        ";
    const size_t width = s->length - start;

    _Static_assert(sizeof blanks - 1 == MEANING_COLUMN, "a line may be empty");
    str_add(s, width < MEANING_COLUMN ? blanks + width : " ");
    str_add(s, "// ");
    str_add(s, meaning);
    str_add(s, "\n");
}

/* One constant of the block at the top. */
static void add_integer(struct str *s, const char *name, int64_t value, const char *meaning)
{
    const size_t start = s->length;

    str_add(s, "constexpr unsigned ");
    str_add(s, name);
    str_add(s, " = ");
    str_add_integer(s, value);
    str_add(s, ";");
    add_meaning(s, start, meaning);
}

/* A word that the preprocessor needs, or that the prelude gives its meaning. */
static void add_word(struct str *s, const char *name, const char *value, const char *meaning)
{
    const size_t start = s->length;

    str_add(s, "#define ");
    str_add(s, name);
    str_add(s, " ");
    str_add(s, value);
    add_meaning(s, start, meaning);
}

static const char *element_word(enum quern_dtype t)
{
    return t == QUERN_F32 ? "F32" : t == QUERN_F16 ? "F16" : t == QUERN_BF16 ? "BF16" : "FP8";
}

static const char *products_word(enum plan_products products)
{
    return products == PRODUCTS_DOT2     ? "DOT2"
           : products == PRODUCTS_PACKED ? "PACKED"
           : products == PRODUCTS_MATRIX ? "MATRIX"
           : products == PRODUCTS_DOT4   ? "DOT4"
                                         : "PLAIN";
}

/* The instructions that a kernel multiplies tiles with, for families on matrix units. */
static const char *matrix_template(enum plan_products products)
{
    return products == PRODUCTS_WMMA11        ? "prelude/wmma11"
           : products == PRODUCTS_WMMA12      ? "prelude/wmma12"
           : products == PRODUCTS_MFMA32      ? "prelude/mfma32"
           : products == PRODUCTS_MFMA_TALL8  ? "prelude/mfma_tall8"
           : products == PRODUCTS_MFMA_TALL16 ? "prelude/mfma_tall16"
                                              : "prelude/mfma16";
}

/* What kernels of all families are told. */
static void add_layer_constants(struct str *s, const struct plan *p)
{
    add_word(s, "SYMBOL", p->symbol, "name of the kernel");
    add_integer(s, "N", p->problem.n, "rows of W");
    add_integer(s, "K", p->problem.k, "columns of W");
}

/* What all that multiply are told, between the formats and the shape … */
static void add_tile_constants(struct str *s, const struct plan *p)
{
    add_word(s, "BIAS", p->problem.bias ? "1" : "0", "whether a bias is added");
    add_integer(s, "M_TILE", p->m_tile, "rows of A computed at once");
    str_add(s, "\n");
    add_integer(s, "WAVE", p->wave_size, "lanes");
    add_integer(s, "WAVES", p->waves, "in a workgroup");
}

/* … and behind the shape. */
static void add_grid_constants(struct str *s, const struct plan *p)
{
    add_word(s, "SLICES_FIRST", p->slices_first ? "true" : "false",
             "whether slices of A are workgroup id x");
    add_word(s, "SKEWED", p->skewed ? "true" : "false", "whether the last group of rows is empty");
    add_word(s, "WEIGHTS_ONCE", p->weights_once ? "true" : "false",
             "whether they bypass the caches");
}

/* What kernels of 4-bit weights by table are told. */
static void add_weight_constants(struct str *s, const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    add_layer_constants(s, p);
    add_integer(s, "BLOCK", problem_group(q), "weights along K that share a scale");
    add_word(s, "HIGH_NIBBLE_FIRST", q->layout == QUERN_LAYOUT_BNB ? "true" : "false",
             "which half of a byte is the lower k");
    add_word(s, "C_TYPE", element_word(q->c), "elements of C and of a bias");
}

static void add_dequant_shape(struct str *s, const struct plan *p)
{
    add_integer(s, "WAVE", p->wave_size, "lanes");
    add_integer(s, "WAVES", p->waves, "in a workgroup");
    add_integer(s, "CHUNKS", p->chunks, "that a lane takes");
    add_integer(s, "WAVES_PER_SIMD", p->estimate.waves_per_simd,
                "that registers must leave room for");
}

static void add_dequant_constants(struct str *s, const struct plan *p)
{
    add_weight_constants(s, p);
    str_add(s, "\n");
    add_dequant_shape(s, p);
}

/* Dual issue of dot products. */
static void add_paired_constants(struct str *s, const struct plan *p, const char *meaning)
{
    add_word(s, "PAIRED", plan_dual_dot2(p) ? "1" : "0", meaning);
    if (plan_dual_dot2(p))
        add_word(s, "PAIR_TYPE", p->problem.a == QUERN_BF16 ? "bf16" : "f16", "of what");
}

/* What the kernels without matrix units are told of products. */
static void add_products_constants(struct str *s, const struct plan *p)
{
    add_word(s, "PRODUCTS", products_word(p->products), "how weights are multiplied");
    add_paired_constants(s, p, "whether they are issued in pairs,");
}

/* The table of pairs is all that is in LDS but for weights on their way. */
static void add_table_constants(struct str *s, const struct plan *p)
{
    const int64_t table = p->lds_bytes - p->waves * matrix_staged_bytes(p);

    add_integer(s, "ENTRY_BYTES", table / 256, "of LDS for each pair of codes");
}

static void add_simt_w4_constants(struct str *s, const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    add_weight_constants(s, p);
    add_word(s, "A_TYPE", element_word(q->a), "elements of A");
    add_products_constants(s, p);
    add_table_constants(s, p);
    add_tile_constants(s, p);
    add_integer(s, "ROWS", p->rows_per_wave, "rows of W that a wave works on");
    add_integer(s, "SPLIT_K", p->split_k, "waves that share those rows along K");
    add_integer(s, "CHUNK", p->chunk, "weights of a row for one lane in one step");
    add_integer(s, "TAIL", p->tail, "weights in a shorter last step; 0: none");
    add_integer(s, "WAVES_PER_SIMD", p->waves_asked, "that registers must leave room for");
    add_integer(s, "PHASES", p->phase, "1: groups start apart along K, 2: waves do");
    add_word(s, "AHEAD", p->ahead ? "true" : "false", "whether all steps are loaded at the start");
    add_grid_constants(s, p);
}

static void add_mma_w4_constants(struct str *s, const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    add_weight_constants(s, p);
    add_word(s, "A_TYPE", element_word(q->a), "elements of A");
    add_word(s, "PRODUCTS", "MATRIX", "how pairs are multiplied");
    add_table_constants(s, p);
    add_word(s, "STAGED", matrix_staged(p) ? "true" : "false", "whether W goes through LDS");
    add_tile_constants(s, p);
    add_integer(s, "ROWS", p->rows_per_wave, "rows of W that a wave works on");
    add_integer(s, "SPLIT_K", p->split_k, "waves that share those rows along K");
    add_integer(s, "CHUNK", p->chunk, "weights of a row for one lane in one load");
    add_integer(s, "UNITS", p->ring, "loads of a step for each 16 rows");
    add_integer(s, "WAVES_PER_SIMD", p->waves_asked, "that registers must leave room for");
    add_integer(s, "PHASES", p->phase, "1: groups start apart along K");
    add_grid_constants(s, p);
}

static const char *scale_word(const struct quern_problem *q)
{
    return q->scale == QUERN_SCALE_F16 ? "F16" : q->scale == QUERN_SCALE_BF16 ? "BF16" : "F32";
}

/* What kernels of int4 are told of the layer's formats. */
static void add_int4_constants(struct str *s, const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const bool k8 = q->layout == QUERN_LAYOUT_K8, ck = q->layout == QUERN_LAYOUT_CK;

    add_layer_constants(s, p);
    add_integer(s, "BLOCK", problem_group(q), "weights along K that share a scale");
    add_word(s, "WORD_ORDER", k8 ? "K8" : "EXL", "of the weights in a word");
    add_word(s, "WORD_BLOCKS", ck ? "true" : "false", "whether b is [K/32,N] blocks of 4");
    add_word(s, "SCALE_TYPE", scale_word(q), "elements of scales");
    add_word(s, "ZERO",
             q->zero == QUERN_ZERO_U8       ? "ZERO_U8"
             : q->zero == QUERN_ZERO_SCALED ? "ZERO_SCALED"
                                            : "ZERO_NONE",
             "what zero points are");
    add_word(s, "HAS_ZEROS", q->zero == QUERN_ZERO_NONE ? "0" : "1", "whether there are any");
    if (q->op == QUERN_OP_GEMM)
        add_word(s, "A_TYPE", element_word(q->a), "elements of A");
    add_word(s, "C_TYPE", element_word(q->c), "elements of C and of a bias");
    add_word(s, "TRUNCATE", q->round == QUERN_ROUND_TRUNC ? "true" : "false",
             "whether f32 becomes bf16 by cutting");
}

static void add_simt_int4_constants(struct str *s, const struct plan *p)
{
    add_int4_constants(s, p);
    add_products_constants(s, p);
    add_word(s, "PAIRING", p->pairing == PAIRING_OF_A ? "OF_A" : "OF_W",
             "what is reordered where pairs differ");
    add_word(s, "SUMS", p->shared_sums ? "SHARED" : "OWN", "who makes sums of A");
    add_word(s, "A_STAGED", p->shared_a ? "true" : "false", "whether A is in LDS");
    add_tile_constants(s, p);
    add_integer(s, "ROWS", p->rows_per_wave, "rows of W that a lane works on");
    add_integer(s, "ROW_LANES", p->row_lanes, "lanes side by side with rows of their own");
    add_word(s, "SQUARE", plan_squares(p) ? "1" : "0", "whether products are 4 by 4 rows");
    add_integer(s, "SPLIT_K", p->split_k, "waves that share those rows along K");
    add_integer(s, "CHUNK", p->chunk, "weights of a row for one lane in one step");
    add_integer(s, "SHARED_BYTES", p->lds_bytes, "of LDS");
    add_integer(s, "WAVES_PER_SIMD", p->estimate.waves_per_simd,
                "that registers must leave room for");
    add_integer(s, "PHASES", p->phase, "1: groups start apart along K, 2: waves do");
    add_word(s, "AHEAD", p->ahead ? "true" : "false", "whether all steps are loaded at the start");
    add_grid_constants(s, p);
}

static void add_mma_int4_constants(struct str *s, const struct plan *p)
{
    add_int4_constants(s, p);
    add_word(s, "PRODUCTS", "MATRIX", "how pairs are multiplied");
    add_paired_constants(s, p, "whether those that sum A are issued in pairs,");
    add_word(s, "PAIRING", p->pairing == PAIRING_OF_A ? "OF_A" : "OF_W",
             "what is reordered where pairs differ");
    add_word(s, "STAGED", matrix_staged(p) ? "true" : "false", "whether W goes through LDS");
    add_word(s, "SCALED", matrix_scaled(p) ? "true" : "false",
             "whether weights are multiplied, not codes");
    add_word(s, "SCALED_BY_DOTS", matrix_scales_by_dots(p) ? "true" : "false",
             "whether bf16 is scaled by dot products");
    add_word(s, "EXACT", p->bias == BIAS_OF_CODES || p->problem.a == QUERN_F16 ? "true" : "false",
             "whether codes are decoded as q - z");
    add_word(s, "PLAIN_SUM", p->bias ? "true" : "false", "whether A is summed");
    add_word(s, "SHARED_SUMS", p->bias == BIAS_SHARED ? "true" : "false",
             "whether once for the workgroup");
    add_tile_constants(s, p);
    add_integer(s, "ROWS", p->rows_per_wave, "rows of W that a wave works on");
    add_integer(s, "SPLIT_K", p->split_k, "waves that share those rows along K");
    add_integer(s, "CHUNK", p->chunk, "weights of a row for one lane in one load");
    add_integer(s, "UNITS", p->ring, "loads of a step for each 16 rows");
    add_integer(s, "SHARED_BYTES", p->lds_bytes, "of LDS");
    add_integer(s, "WAVES_PER_SIMD", p->waves_asked, "that registers must leave room for");
    add_integer(s, "PHASES", p->phase, "1: groups start apart along K");
    add_grid_constants(s, p);
}

static void add_mma_tile_constants(struct str *s, const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const bool bf16 = q->a == QUERN_BF16;
    const bool dots = bf16 && p->target->capabilities & CAP_DOT2_BF16_BF16;

    if (q->wq == QUERN_W_INT4) {
        add_int4_constants(s, p);
        add_word(s, "PRODUCTS", bf16 && !dots ? "PLAIN" : "DOT2", "whether codes become f32");
        add_word(s, "PAIRING", "OF_W", "what is reordered where pairs differ");
    } else {
        add_weight_constants(s, p);
        add_word(s, "WORD_BLOCKS", "false", "whether b is [K/32,N] blocks of 4");
        add_word(s, "A_TYPE", element_word(q->a), "elements of A");
        add_word(s, "TRUNCATE", "false", "whether f32 becomes bf16 by cutting");
    }
    add_word(s, "SCALED_BY_DOTS", dots ? "true" : "false",
             "whether bf16 is scaled by dot products");
    add_tile_constants(s, p);
    add_integer(s, "M_WAVES", p->split_k, "waves with the same rows of W, each with its own of A");
    add_integer(s, "ROWS", p->rows_per_wave, "rows of W that a wave works on");
    add_integer(s, "STEP", p->chunk, "along K, between two barriers");
    add_word(s, "AHEAD", p->ahead ? "true" : "false",
             "whether operands are loaded ahead of the barrier");
    add_integer(s, "WAVES_PER_SIMD", p->waves_asked, "that registers must leave room for");
    add_integer(s, "DIES", p->target->dies, "that workgroups are dealt out to in turn");
    add_word(s, "SLICES_FIRST", p->slices_first ? "true" : "false",
             "whether slices of A are workgroup id x");
}

/* Which fp8 it is, and how the processor meets it. */
static void add_fp8_constants(struct str *s, const struct plan *p)
{
    add_word(s, "FNUZ", p->problem.wq == QUERN_W_FP8FNUZ ? "true" : "false", "which kind of fp8");
    add_word(s, "FORM",
             p->fp8 == FP8_NATIVE   ? "FP8_NATIVE"
             : p->fp8 == FP8_HALVED ? "FP8_HALVED"
                                    : "FP8_SOFTWARE",
             "how it is understood");
}

static void add_simt_skinny_constants(struct str *s, const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    add_layer_constants(s, p);
    add_word(s, "W_TYPE", element_word(problem_weight_type(q)), "elements of W");
    add_word(s, "A_TYPE", element_word(q->a), "elements of A");
    add_word(s, "C_TYPE", element_word(q->c), "elements of C and of a bias");
    if (p->fp8)
        add_fp8_constants(s, p);
    add_word(s, "A_SCALED", p->fp8 && problem_weight_type(q) == q->a ? "1" : "0",
             "whether A has a scale");
    add_word(s, "B_SCALED", p->fp8 ? "1" : "0", "whether W has one");
    add_word(s, "TRUNCATE", q->round == QUERN_ROUND_TRUNC ? "true" : "false",
             "whether f32 becomes bf16 by cutting");
    add_products_constants(s, p);
    add_tile_constants(s, p);
    add_integer(s, "ROWS", p->rows_per_wave, "rows of W that a lane works on");
    add_integer(s, "ROW_LANES", p->row_lanes, "lanes side by side with rows of their own");
    add_integer(s, "SPLIT_K", p->split_k, "waves that share those rows along K");
    add_integer(s, "VECTOR", p->chunk, "weights of a row for one lane in one load");
    add_integer(s, "RING", p->ring, "loads of a row that are under way");
    add_integer(s, "STAGE", p->stage, "loads of a row whose part of A is in LDS; 0: A is not");
    add_word(s, "WALKS", p->resident ? "1" : "0", "whether workgroups walk over groups of rows");
    add_integer(s, "WAVES_PER_SIMD", p->estimate.waves_per_simd,
                "that registers must leave room for");
    add_integer(s, "PHASES", p->phase, "1: groups start apart along K, 2: waves do");
    add_grid_constants(s, p);
}

static const char *decode_template(enum quern_weight wq)
{
    return wq == QUERN_W_NF4 ? "decode/nf4" : wq == QUERN_W_FP4 ? "decode/fp4" : "decode/e2m1";
}

static const char *scale_template(enum quern_scale scale)
{
    return scale == QUERN_SCALE_F32      ? "decode/scale_f32"
           : scale == QUERN_SCALE_NESTED ? "decode/scale_nested"
                                         : "decode/scale_e8m0";
}

static quern_status add_simt_w4(struct str *source, const struct plan *plan)
{
    add_simt_w4_constants(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, "prelude/reduce"));
    TRY(add_template(source, decode_template(plan->problem.wq)));
    TRY(add_template(source, scale_template(plan->problem.scale)));
    TRY(add_template(source, "decode/pair_table"));
    if (plan_dual_dot2(plan))
        TRY(add_template(source, "prelude/dual_dot2"));
    TRY(add_template(source, "prelude/products"));
    return add_template(source, "family/simt_w4");
}

static quern_status add_mma_w4(struct str *source, const struct plan *plan)
{
    add_mma_w4_constants(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, matrix_template(plan->products)));
    TRY(add_template(source, "prelude/tiles"));
    TRY(add_template(source, decode_template(plan->problem.wq)));
    TRY(add_template(source, scale_template(plan->problem.scale)));
    TRY(add_template(source, "decode/pair_table"));
    return add_template(source, "family/mma_w4");
}

static quern_status add_mma_tile(struct str *source, const struct plan *plan)
{
    const struct quern_problem *const q = &plan->problem;

    add_mma_tile_constants(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, matrix_template(plan->products)));
    TRY(add_template(source, "prelude/int4"));
    TRY(add_template(source, "prelude/round"));
    TRY(add_template(source, "prelude/bf16"));
    if (q->wq == QUERN_W_INT4) {
        TRY(add_template(source, "decode/int4"));
        TRY(add_template(source, "decode/int4_dots"));
        TRY(add_template(source, "decode/scale_group"));
        TRY(add_template(source, "decode/tile_int4"));
    } else {
        TRY(add_template(source, decode_template(q->wq)));
        TRY(add_template(source, scale_template(q->scale)));
        TRY(add_template(source, "decode/plane_table"));
        TRY(add_template(source, "decode/tile_table"));
    }
    TRY(add_template(source, "decode/tile_scale"));
    return add_template(source, "family/mma_tile");
}

static quern_status add_simt_int4(struct str *source, const struct plan *plan)
{
    add_simt_int4_constants(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, "prelude/reduce"));
    TRY(add_template(source, plan_squares(plan) ? "prelude/squares" : "prelude/spread"));
    TRY(add_template(source, "prelude/int4"));
    TRY(add_template(source, "prelude/round"));
    TRY(add_template(source, "decode/int4"));
    TRY(add_template(source, "decode/scale_group"));
    if (plan_dual_dot2(plan))
        TRY(add_template(source, "prelude/dual_dot2"));
    TRY(add_template(source, "prelude/products"));
    return add_template(source, "family/simt_int4");
}

static quern_status add_mma_int4(struct str *source, const struct plan *plan)
{
    add_mma_int4_constants(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, matrix_template(plan->products)));
    TRY(add_template(source, "prelude/tiles"));
    TRY(add_template(source, "prelude/reduce"));
    TRY(add_template(source, "prelude/int4"));
    TRY(add_template(source, "prelude/round"));
    TRY(add_template(source, "decode/int4"));
    TRY(add_template(source, "decode/scale_group"));
    TRY(add_template(source, "decode/int4_dots"));
    TRY(add_template(source, "decode/int4_exact"));
    if (plan_dual_dot2(plan))
        TRY(add_template(source, "prelude/dual_dot2"));
    return add_template(source, "family/mma_int4");
}

static quern_status add_simt_skinny(struct str *source, const struct plan *plan)
{
    add_simt_skinny_constants(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, "prelude/reduce"));
    TRY(add_template(source, "prelude/round"));
    TRY(add_template(source, "prelude/stage"));
    TRY(add_template(source, "decode/dense"));
    if (plan->fp8)
        TRY(add_template(source, "decode/fp8"));
    if (plan_dual_dot2(plan))
        TRY(add_template(source, "prelude/dual_dot2"));
    return add_template(source, "family/simt_skinny");
}

static quern_status add_dequant_int4(struct str *source, const struct plan *plan)
{
    add_int4_constants(source, plan);
    str_add(source, "\n");
    add_dequant_shape(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, "prelude/int4"));
    TRY(add_template(source, "prelude/round"));
    TRY(add_template(source, "decode/scale_group"));
    return add_template(source, "family/dequant_int4");
}

static quern_status add_dequant_fp8(struct str *source, const struct plan *plan)
{
    add_layer_constants(source, plan);
    add_word(source, "C_TYPE", element_word(plan->problem.c), "elements of C");
    add_fp8_constants(source, plan);
    add_word(source, "TRUNCATE", plan->problem.round == QUERN_ROUND_TRUNC ? "true" : "false",
             "whether f32 becomes bf16 by cutting");
    str_add(source, "\n");
    add_dequant_shape(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, "prelude/round"));
    TRY(add_template(source, "decode/dense"));
    TRY(add_template(source, "decode/fp8"));
    return add_template(source, "family/dequant_fp8");
}

static quern_status add_dequant(struct str *source, const struct plan *plan)
{
    if (plan->problem.wq == QUERN_W_INT4)
        return add_dequant_int4(source, plan);
    if (plan->fp8)
        return add_dequant_fp8(source, plan);
    add_dequant_constants(source, plan);
    TRY(add_template(source, "prelude/prelude"));
    TRY(add_template(source, decode_template(plan->problem.wq)));
    TRY(add_template(source, scale_template(plan->problem.scale)));
    return add_template(source, "family/dequant");
}

quern_status gen_outline(const struct plan *plan, struct str *outline)
{
    char problem[QUERN_TEXT_MAX];
    quern_status status = QUERN_E_INTERNAL;

    TRY(quern_problem_text(&plan->problem, problem, sizeof problem));
    str_add(outline, licence);
    str_addf(outline, "// quern " VERSION " for %s", plan->target->name);
    if (plan->family == FAMILY_MMA_TILE)
        str_addf(outline, ", M = %d and more", plan->m_lo);
    else if (plan->family != FAMILY_DEQUANT)
        str_addf(outline, ", M = %d to %d", plan->m_lo, plan->m_hi);
    str_addf(outline, "\n// %s\n\n", problem);
    switch (plan->family) {
    case FAMILY_DEQUANT:
        status = add_dequant(outline, plan);
        break;
    case FAMILY_SIMT_W4:
        status = add_simt_w4(outline, plan);
        break;
    case FAMILY_SIMT_INT4:
        status = add_simt_int4(outline, plan);
        break;
    case FAMILY_SIMT_SKINNY:
        status = add_simt_skinny(outline, plan);
        break;
    case FAMILY_MMA_W4:
        status = add_mma_w4(outline, plan);
        break;
    case FAMILY_MMA_INT4:
        status = add_mma_int4(outline, plan);
        break;
    case FAMILY_MMA_TILE:
        status = add_mma_tile(outline, plan);
        break;
    }
    TRY(status);
    FAIL_IF(outline->failed, QUERN_E_MEMORY, "out of memory while writing the outline of %s",
            plan->symbol);
    return QUERN_OK;
}

quern_status gen_source(const struct plan *plan, struct str *source)
{
    struct str outline = {0};

    const quern_status status = gen_outline(plan, &outline);
    if (status == QUERN_OK)
        expand(str_text(&outline), source);
    str_free(&outline);
    TRY(status);
    FAIL_IF(source->failed, QUERN_E_MEMORY, "out of memory while writing the source of %s",
            plan->symbol);
    return QUERN_OK;
}

void gen_options(const struct plan *plan, struct str *options)
{
    /* freestanding: no header and no device library, which are most of a compile */
    str_add(options, "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n-std=c++17\n");
    /* a workgroup stays in one compute unit, next to its LDS and its first-level cache */
    if (plan->target->generation >= 10)
        str_add(options, "-mcumode\n");
    /* Kernels by table name each load and each address once: two searches of LLVM for what is there
     * twice find nothing to change in them, nor in fp8 that becomes f16, and take a tenth of the
     * compile. Others gain by them. */
    if (plan->family == FAMILY_SIMT_W4 || plan->fp8 == FP8_SOFTWARE)
        str_add(options, "-mllvm\n-amdgpu-scalar-ir-passes=false\n"
                         "-mllvm\n-enable-gvn-memdep=false\n");
    /* LLVM 21's pass that ties loads into clauses, for targets that may replay them, writes past
     * its memory where a tuple of registers is loaded in part; no clauses, no harm. What clauses
     * must keep apart its hazard recogniser keeps apart too. */
    if (plan->target->xnack)
        str_add(options, "-mllvm\n-amdgpu-max-memory-clause=1\n");
}
