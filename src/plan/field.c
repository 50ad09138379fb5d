/* SPDX-License-Identifier: MIT */
/* Walking a family's table of fields, the rows that the tables of several families share, and
 * writing and matching the words of a shape: field.h. */
#include "plan/field.h"

#include "plan/base.h"
#include "plan/family.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool plan_dual_dot2(const struct plan *p)
{
    return p->family->dual_dot2 && p->family->dual_dot2(p);
}

enum plan_units plan_units(const struct plan *p)
{
    return p->family->units;
}

void plan_explain(const struct plan *p, struct str *out)
{
    p->family->explain(p, out);
}

int64_t field_value(const struct plan_field *f, const struct plan *p)
{
    const char *const at = (const char *)p + f->at;
    int32_t small;
    int64_t large;

    if (f->value)
        return f->value(p);
    if (f->is)
        return f->is(p);
    if (f->bytes == sizeof(bool))
        return *(const bool *)at;
    if (f->bytes == sizeof small) {
        memcpy(&small, at, sizeof small);
        return small;
    }
    memcpy(&large, at, sizeof large);
    return large;
}

void field_each(const struct plan *p, field_fn fn, void *user)
{
    for (const struct plan_fields *table = p->family->fields; table->rows; table++) {
        if (table->when && !table->when(p))
            continue;
        for (const struct plan_field *f = table->rows; f->kind; f++)
            if (!f->when || f->when(p))
                fn(user, p, f);
    }
}

/* ---- Words of a shape ------------------------------------------------------------------------ */

static void add_word(void *user, const struct plan *p, const struct plan_field *f)
{
    char *const text = user;
    const size_t length = strlen(text);

    if (f->word)
        snprintf(text + length, PLAN_SHAPE_MAX - length, "%s%s=%" PRId64, length ? " " : "",
                 f->word, field_value(f, p));
}

void plan_shape(const struct plan *p, char text[PLAN_SHAPE_MAX])
{
    *text = 0;
    field_each(p, add_word, text);
}

/* Whether a word "name=…" begins at `at`. */
static bool is_named(const char *at, const char *name)
{
    const size_t length = name ? strlen(name) : 0;

    return name && !strncmp(at, name, length) && at[length] == '=';
}

static const char *next_word(const char *at)
{
    const char *const blank = strchr(at, ' ');

    return blank ? blank + 1 : at + strlen(at);
}

struct comparison {
    const char *words;
    size_t nonzero; /* values so far, other than 0, that words give to fields of the family */
    bool differs;
};

static void compare_word(void *user, const struct plan *p, const struct plan_field *f)
{
    struct comparison *const c = user;
    int64_t said = 0;

    if (!f->word || c->differs)
        return;
    for (const char *at = c->words; *at; at = next_word(at))
        if (is_named(at, f->word) || is_named(at, f->was))
            said = strtoll(strchr(at, '=') + 1, NULL, 10);
    c->nonzero += said != 0;
    c->differs = said != field_value(f, p);
}

bool plan_has_shape(const struct plan *p, const char *words)
{
    struct comparison c = {.words = words};
    size_t nonzero = 0;

    field_each(p, compare_word, &c);
    for (const char *at = words; *at; at = next_word(at)) {
        const char *const number = strchr(at, '=');
        nonzero += number && strtoll(number + 1, NULL, 10) != 0;
    }
    return !c.differs && c.nonzero == nonzero;
}

/* ---- Words and flags ------------------------------------------------------------------------- */

const char *field_element(enum quern_dtype t)
{
    return t == QUERN_F32 ? "F32" : t == QUERN_F16 ? "F16" : t == QUERN_BF16 ? "BF16" : "FP8";
}

const char *field_a_type(const struct plan *p)
{
    return field_element(p->problem.a);
}

const char *field_c_type(const struct plan *p)
{
    return field_element(p->problem.c);
}

const char *field_products(const struct plan *p)
{
    return p->products == PRODUCTS_DOT2     ? "DOT2"
           : p->products == PRODUCTS_PACKED ? "PACKED"
           : p->products == PRODUCTS_MATRIX ? "MATRIX"
           : p->products == PRODUCTS_DOT4   ? "DOT4"
                                            : "PLAIN";
}

const char *field_pair_type(const struct plan *p)
{
    return p->problem.a == QUERN_BF16 ? "bf16" : "f16";
}

const char *field_matrix(const struct plan *p)
{
    (void)p;
    return "MATRIX";
}

const char *field_pairing(enum plan_pairing pairing)
{
    return pairing == PAIRING_OF_A ? "OF_A" : "OF_W";
}

const char *field_fp8_kind(const struct plan *p)
{
    return p->problem.wq == QUERN_W_FP8FNUZ ? "true" : "false";
}

const char *field_fp8_form(enum plan_fp8 fp8)
{
    return fp8 == FP8_NATIVE ? "FP8_NATIVE" : fp8 == FP8_HALVED ? "FP8_HALVED" : "FP8_SOFTWARE";
}

int64_t field_truncates(const struct plan *p)
{
    return p->problem.round == QUERN_ROUND_TRUNC;
}

bool field_is_int4(const struct plan *p)
{
    return p->problem.wq == QUERN_W_INT4;
}

bool field_has_table(const struct plan *p)
{
    return problem_has_group(&p->problem) && !field_is_int4(p);
}

int64_t field_table_entry(int64_t table_bytes)
{
    return table_bytes / 256;
}

int64_t field_group(const struct plan *p)
{
    return problem_group(&p->problem);
}

static int64_t high_nibble_first(const struct plan *p)
{
    return p->problem.layout == QUERN_LAYOUT_BNB;
}

static const char *word_order(const struct plan *p)
{
    return p->problem.layout == QUERN_LAYOUT_K8 ? "K8" : "EXL";
}

static int64_t word_blocks(const struct plan *p)
{
    return p->problem.layout == QUERN_LAYOUT_CK;
}

const char *field_scale_type(const struct plan *p)
{
    const enum quern_scale scale = p->problem.scale;

    return scale == QUERN_SCALE_F16 ? "F16" : scale == QUERN_SCALE_BF16 ? "BF16" : "F32";
}

const char *field_zero_kind(const struct plan *p)
{
    return p->problem.zero == QUERN_ZERO_U8       ? "ZERO_U8"
           : p->problem.zero == QUERN_ZERO_SCALED ? "ZERO_SCALED"
                                                  : "ZERO_NONE";
}

int64_t field_has_zeros(const struct plan *p)
{
    return p->problem.zero > QUERN_ZERO_NONE;
}

bool field_multiplies(const struct plan *p)
{
    return problem_has_activation(&p->problem);
}

bool field_has_act(const struct plan *p)
{
    return p->problem.act != 0;
}

static const char *act_kind(const struct plan *p)
{
    return p->problem.act == QUERN_ACT_SILU_MUL ? "SILU_MUL" : "SWIGLU_OAI";
}

static bool has_halves(const struct plan *p)
{
    return p->problem.glu == QUERN_GLU_HALVES;
}

static bool is_moe(const struct plan *p)
{
    return p->problem.op == QUERN_OP_MOE;
}

static int64_t slices_of_block(const struct plan *p)
{
    return p->block_rows / p->m_tile;
}

const char *field_symbol(const struct plan *p)
{
    return p->symbol;
}

static int64_t has_bias(const struct plan *p)
{
    return p->problem.bias || plan_is_base(p);
}

/* MXFP4 has one size of groups, which a base kernel knows. */
static bool has_one_group(const struct plan *p)
{
    return p->problem.wq == QUERN_W_MXFP4;
}

static bool chooses_group(const struct plan *p)
{
    return !has_one_group(p);
}

static bool is_made_to_order(const struct plan *p)
{
    return !plan_is_base(p);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

const struct plan_field layer_fields[] = {
    {FIELD_WORD("SYMBOL", field_symbol, "name of the kernel")},
    {FIELD_IF(FIELD_FLAG, "KNOWN", is_made_to_order, "whether the layer is, and what follows")},
    {FIELD_AT(FIELD_NUMBER, "N", problem.n, "rows of W"), .argument = "layer()->n"},
    {FIELD_AT(FIELD_NUMBER, "K", problem.k, "columns of W"), .argument = "layer()->k"},
    {FIELD_IF(FIELD_FLAG, "GLU", field_has_act, "whether two rows of W become a column of C"),
     .when = field_multiplies},
    {FIELD_WORD("ACT", act_kind, "what they become"), .when = field_has_act},
    {FIELD_IF(FIELD_FLAG, "GLU_HALVES", has_halves, "whether all gates come before all ups"),
     .when = field_has_act},
    {FIELD_IF(FIELD_FLAG, "MOE", is_moe, "whether slots name the rows, and blocks the expert"),
     .when = field_multiplies},
    {FIELD_AT(FIELD_NUMBER, "EXPERTS", problem.experts, "matrices W"), .when = is_moe},
    {FIELD_AT(FIELD_NUMBER, "TOP_K", problem.top_k, "rows of C for each row of A"), .when = is_moe},
    {FIELD_OF(FIELD_NUMBER, "SLICES_OF_BLOCK", slices_of_block, "slices of one expert's slots"),
     .when = is_moe},
    {0},
};

const struct plan_field weight_fields[] = {
    {FIELD_OF(FIELD_NUMBER, "BLOCK", field_group, "weights along K that share a scale"),
     .argument = BLOCK_ARGUMENT, .when = chooses_group},
    {FIELD_OF(FIELD_NUMBER, "BLOCK", field_group, "weights along K that share a scale"),
     .when = has_one_group},
    {FIELD_OF(FIELD_BOOL, "HIGH_NIBBLE_FIRST", high_nibble_first,
              "which half of a byte is the lower k")},
    {FIELD_WORD("C_TYPE", field_c_type, "elements of C and of a bias")},
    {0},
};

const struct plan_field int4_fields[] = {
    {FIELD_OF(FIELD_NUMBER, "BLOCK", field_group, "weights along K that share a scale"),
     .argument = BLOCK_ARGUMENT},
    {FIELD_WORD("WORD_ORDER", word_order, "of the weights in a word")},
    {FIELD_OF(FIELD_BOOL, "WORD_BLOCKS", word_blocks, "whether b is [K/32,N] blocks of 4")},
    {FIELD_WORD("SCALE_TYPE", field_scale_type, "elements of scales")},
    {FIELD_WORD("ZERO", field_zero_kind, "what zero points are")},
    {FIELD_OF(FIELD_FLAG, "HAS_ZEROS", field_has_zeros, "whether there are any")},
    {FIELD_WORD("A_TYPE", field_a_type, "elements of A"), .when = field_multiplies},
    {FIELD_WORD("C_TYPE", field_c_type, "elements of C and of a bias")},
    {FIELD_OF(FIELD_BOOL, "TRUNCATE", field_truncates, "whether f32 becomes bf16 by cutting"),
     .argument = TRUNCATE_ARGUMENT},
    {0},
};

const struct plan_field tile_fields[] = {
    {FIELD_OF(FIELD_FLAG, "BIAS", has_bias, "whether a bias is added")},
    {FIELD_AT(FIELD_NUMBER, "M_TILE", m_tile, "rows of A computed at once")},
    {.kind = FIELD_BLANK},
    {FIELD_AT(FIELD_NUMBER, "WAVE", wave_size, "lanes")},
    {FIELD_AT(FIELD_NUMBER, "WAVES", waves, "in a workgroup"), .word = "waves", .by_waves = true},
    {.kind = FIELD_SHAPE,
     FIELD_PLACE(products),
     .word = "products",
     .meaning = "how weights are multiplied: the line \"products\" says it"},
    {0},
};

const struct plan_field grid_fields[] = {
    {FIELD_AT(FIELD_BOOL, "SLICES_FIRST", slices_first, "whether slices of A are workgroup id x")},
    {FIELD_AT(FIELD_BOOL, "SKEWED", skewed, "whether the last group of rows is empty")},
    {FIELD_AT(FIELD_BOOL, "WEIGHTS_ONCE", weights_once, "whether they bypass the caches")},
    {0},
};

/* ---- Templates ------------------------------------------------------------------------------- */

/* The formats of sixteen values. `upper`: as f16, no value has a bit in its lower byte, so that one
 * plane of bytes holds the table (templates/decode/plane_table.hip finds the same from the values).
 */
static const struct codes {
    enum quern_weight wq;
    const char *name;
    bool upper;
} codes[] = {
    {QUERN_W_NF4, "decode/nf4", false},
    {QUERN_W_FP4, "decode/fp4", true},
    {QUERN_W_INT4, "decode/q4", false},
    {QUERN_W_MXFP4, "decode/e2m1", true},
};

static const struct codes *codes_of(enum quern_weight wq)
{
    const struct codes *c = codes;

    while (c->wq != wq && c < codes + sizeof codes / sizeof *codes - 1)
        c++;
    return c;
}

const char *template_of_codes(const struct plan *p)
{
    return codes_of(p->problem.wq)->name;
}

bool codes_have_upper_bytes_only(enum quern_weight wq)
{
    return codes_of(wq)->upper;
}

const char *template_of_scale(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_F32      ? "decode/scale_f32"
           : p->problem.scale == QUERN_SCALE_NESTED ? "decode/scale_nested"
                                                    : "decode/scale_e8m0";
}

const char *template_of_rows(const struct plan *p)
{
    return is_moe(p) ? "prelude/moe" : "prelude/rows";
}
