/* SPDX-License-Identifier: MIT */
/*
 * Problems: reading one from words, checking it, printing its one canonical form. This file is long
 * because each word of a problem is read, checked and printed by the same tables.
 */
#include "problem/problem.h"

#include "base/extensible.h"
#include "base/str.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- Words ----------------------------------------------------------------------------------- */

/* The names of an enumeration that starts at 1; index = value. */
struct names {
    const char *const *name;
    int count;
};

#define NAMES(...)                                                                                 \
    {(const char *const[]){NULL, __VA_ARGS__},                                                     \
     sizeof((const char *const[]){NULL, __VA_ARGS__}) / sizeof(char *)}

static const struct names op_names = NAMES("gemm", "dequant", "moe", "moe_align");
static const struct names weight_names =
    NAMES("nf4", "fp4", "mxfp4", "int4", "fp8", "fp8fnuz", "none");
static const struct names scale_names =
    NAMES("f32", "f16", "bf16", "nested", "e8m0", "tensor", "block128");
static const struct names zero_names = NAMES("none", "u8", "scaled");
static const struct names dtype_names = NAMES("f32", "f16", "bf16", "fp8", "fp8fnuz");
static const struct names layout_names =
    NAMES("bnb", "k8", "exl", "ck", "gptq", "awq", "tileN", "dense");
static const struct names round_names = NAMES("rne", "trunc");
static const struct names exact_names = NAMES("batch_invariant", "precise", "both");
static const struct names kernels_names = NAMES("base");
static const struct names act_names = NAMES("silu_mul", "swiglu_oai");
static const struct names glu_names = NAMES("halves", "interleaved");

static const char *name_of(const struct names *names, int value)
{
    return value > 0 && value < names->count ? names->name[value] : "?";
}

const char *dtype_name(enum quern_dtype t)
{
    return name_of(&dtype_names, (int)t);
}
const char *weight_name(enum quern_weight w)
{
    return name_of(&weight_names, (int)w);
}
const char *layout_name(enum quern_layout layout)
{
    return name_of(&layout_names, (int)layout);
}
const char *act_name(enum quern_act act)
{
    return name_of(&act_names, (int)act);
}
const char *glu_name(enum quern_glu glu)
{
    return name_of(&glu_names, (int)glu);
}

/* ---- What applies to what -------------------------------------------------------------------- */

static bool is_fp8(enum quern_weight w)
{
    return w == QUERN_W_FP8 || w == QUERN_W_FP8FNUZ;
}
bool weight_is_table(enum quern_weight w)
{
    return w == QUERN_W_NF4 || w == QUERN_W_FP4;
}

bool problem_has_weights(const struct quern_problem *p)
{
    return p->op != QUERN_OP_MOE_ALIGN;
}
bool problem_has_experts(const struct quern_problem *p)
{
    return p->op == QUERN_OP_MOE || p->op == QUERN_OP_MOE_ALIGN;
}
bool problem_has_group(const struct quern_problem *p)
{
    return problem_has_scale(p) && !is_fp8(p->wq);
}
bool problem_has_scale(const struct quern_problem *p)
{
    return problem_has_weights(p) && p->wq != QUERN_W_NONE;
}
bool problem_has_zero(const struct quern_problem *p)
{
    return p->wq == QUERN_W_INT4;
}
const char *op_name(enum quern_op_kind op)
{
    return name_of(&op_names, (int)op);
}
bool problem_has_activation(const struct quern_problem *p)
{
    return p->op == QUERN_OP_GEMM || p->op == QUERN_OP_MOE;
}

int64_t problem_group(const struct quern_problem *p)
{
    return p->group == QUERN_GROUP_CHANNEL ? p->k : p->group;
}

int64_t problem_columns(const struct quern_problem *p)
{
    return p->act ? p->n / 2 : p->n;
}

int64_t problem_results(const struct quern_problem *p, int64_t m)
{
    return problem_has_experts(p) ? m * p->top_k : m;
}

int64_t problem_rows_max(const struct quern_problem *p)
{
    if (p->op == QUERN_OP_MOE_ALIGN)
        return PROBLEM_ALIGNED_MAX / p->top_k;
    return p->op == QUERN_OP_MOE ? INT32_MAX / p->top_k : INT32_MAX;
}

quern_status problem_check_rows(const struct quern_problem *p, int64_t m)
{
    const int64_t most = problem_rows_max(p);

    FAIL_IF(m > most && p->op == QUERN_OP_MOE_ALIGN, QUERN_E_ARGUMENT,
            "m is %" PRId64
            "; a launch of op=moe_align takes at most %d choices, with top_k=%d 1 to "
            "%" PRId64 " tokens",
            m, PROBLEM_ALIGNED_MAX, p->top_k, most);
    FAIL_IF(m > most && p->op == QUERN_OP_MOE, QUERN_E_ARGUMENT,
            "m is %" PRId64 "; with top_k=%d expected 1 to %" PRId64, m, p->top_k, most);
    FAIL_IF(m < 1 || m > most, QUERN_E_ARGUMENT, "m is %" PRId64 "; expected 1 to %" PRId64, m,
            most);
    return QUERN_OK;
}

int64_t problem_blocks(const struct quern_problem *p, int64_t m)
{
    const int64_t choices = problem_results(p, m), rows = p->block_rows;
    /* each expert with choices may leave all but one slot of a block empty; and no block is for
     * less than one choice */
    const int64_t padded = choices + p->experts * (rows - 1), single = choices * rows;

    return ((padded < single ? padded : single) + rows - 1) / rows;
}

int64_t problem_slots(const struct quern_problem *p, int64_t m)
{
    return problem_blocks(p, m) * p->block_rows;
}

struct quern_problem problem_of_expert(const struct quern_problem *p)
{
    struct quern_problem one = *p;

    if (p->op == QUERN_OP_MOE) {
        one.op = QUERN_OP_GEMM;
        one.experts = one.top_k = one.block_rows = 0;
    }
    return one;
}

int64_t problem_weight_row(const struct quern_problem *p, int64_t row)
{
    return p->glu == QUERN_GLU_HALVES ? row / 2 + row % 2 * (p->n / 2) : row;
}

bool problem_pairs_near(const struct quern_problem *p)
{
    const int64_t halves =
        p->layout == QUERN_LAYOUT_DENSE ? 2 * dtype_bytes(problem_weight_type(p)) : 1;

    return p->glu != QUERN_GLU_HALVES || p->n / 2 * (p->k / 2 + 1) * halves < INT64_C(1) << 31;
}

enum quern_dtype problem_weight_type(const struct quern_problem *p)
{
    return p->wq == QUERN_W_FP8 ? QUERN_DT_FP8 : p->wq == QUERN_W_FP8FNUZ ? QUERN_DT_FP8FNUZ : p->a;
}

enum quern_dtype problem_scale_type(const struct quern_problem *p)
{
    return p->scale == QUERN_SCALE_F16    ? QUERN_F16
           : p->scale == QUERN_SCALE_BF16 ? QUERN_BF16
                                          : QUERN_F32;
}

bool problem_equal(const struct quern_problem *p, const struct quern_problem *q)
{
    return p->n == q->n && p->k == q->k && p->op == q->op && p->wq == q->wq &&
           p->group == q->group && p->scale == q->scale && p->zero == q->zero && p->a == q->a &&
           p->c == q->c && p->bias == q->bias && p->layout == q->layout && p->round == q->round &&
           p->exact == q->exact && p->kernels == q->kernels && p->act == q->act &&
           p->glu == q->glu && p->experts == q->experts && p->top_k == q->top_k &&
           p->block_rows == q->block_rows;
}

uint64_t problem_hash(const struct quern_problem *p)
{
    /* every enumeration fits in 4 bits, act and glu in 2, the group in 16; n and k are mixed in
     * whole */
    const uint64_t words = (uint64_t)p->op | (uint64_t)p->wq << 4 | (uint64_t)p->scale << 8 |
                           (uint64_t)p->zero << 12 | (uint64_t)p->a << 16 | (uint64_t)p->c << 20 |
                           (uint64_t)p->bias << 24 | (uint64_t)p->layout << 28 |
                           (uint64_t)p->round << 32 | (uint64_t)(uint16_t)p->group << 36 |
                           (uint64_t)p->exact << 52 | (uint64_t)p->kernels << 56 |
                           (uint64_t)p->act << 60 | (uint64_t)p->glu << 62;
    uint64_t h = words;

    /* each word is mixed in by a multiplication and a fold; the constant is 2^64 divided by the
     * golden ratio, made odd */
    h = (h ^ (uint64_t)p->n) * UINT64_C(0x9e3779b97f4a7c15);
    h = ((h ^ h >> 32) ^ (uint64_t)p->k) * UINT64_C(0x9e3779b97f4a7c15);
    if (problem_has_experts(p))
        h = ((h ^ h >> 32) ^ (uint64_t)p->experts ^ (uint64_t)p->top_k << 16 ^
             (uint64_t)p->block_rows << 32) *
            UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* ---- Defaults -------------------------------------------------------------------------------- */

static void fill_defaults(struct quern_problem *p)
{
    if (!p->op)
        p->op = QUERN_OP_GEMM;
    if (!p->group && problem_has_group(p))
        p->group = weight_is_table(p->wq) ? 64 : p->wq == QUERN_W_INT4 ? 128 : 32;
    if (!p->c)
        p->c = p->a == QUERN_DT_FP8 || p->a == QUERN_DT_FP8FNUZ ? QUERN_BF16 : p->a;
    if (!p->scale) {
        const enum quern_dtype like = problem_has_activation(p) ? p->a : p->c;
        if (weight_is_table(p->wq))
            p->scale = QUERN_SCALE_F32;
        else if (p->wq == QUERN_W_INT4)
            p->scale = like == QUERN_F16    ? QUERN_SCALE_F16
                       : like == QUERN_BF16 ? QUERN_SCALE_BF16
                                            : QUERN_SCALE_F32;
        else if (p->wq == QUERN_W_MXFP4)
            p->scale = QUERN_SCALE_E8M0;
        else if (is_fp8(p->wq))
            p->scale = QUERN_SCALE_TENSOR;
    }
    if (!p->zero && problem_has_zero(p))
        p->zero = QUERN_ZERO_NONE;
    if (!p->layout)
        p->layout = weight_is_table(p->wq)                            ? QUERN_LAYOUT_BNB
                    : p->wq == QUERN_W_INT4 || p->wq == QUERN_W_MXFP4 ? QUERN_LAYOUT_K8
                                                                      : QUERN_LAYOUT_DENSE;
    if (!p->round)
        p->round = QUERN_ROUND_RNE;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static quern_status check_range(const char *word, int value, const struct names *names)
{
    FAIL_IF(value <= 0 || value >= names->count, QUERN_E_PROBLEM,
            "%s has the value %d, which is not one of its enumeration (1 to %d)", word, value,
            names->count - 1);
    return QUERN_OK;
}

static quern_status check_absent(const char *word, bool absent, const struct quern_problem *p)
{
    const char *const op = op_name(p->op);

    FAIL_IF(!absent && !problem_has_weights(p), QUERN_E_PROBLEM,
            "%s does not apply to op=%s; leave it out", word, op);
    FAIL_IF(!absent, QUERN_E_PROBLEM, "%s does not apply to op=%s wq=%s; leave it out", word, op,
            weight_name(p->wq));
    return QUERN_OK;
}

static quern_status check_dimension(const char *word, int64_t value)
{
    FAIL_IF(value < 1 || value > PROBLEM_MAX_DIMENSION, QUERN_E_PROBLEM,
            "%s=%" PRId64 " is out of range; expected 1 to %" PRId64, word, value,
            PROBLEM_MAX_DIMENSION);
    return QUERN_OK;
}

static quern_status check_group(const struct quern_problem *p)
{
    const int64_t group = problem_group(p);

    if (p->group != QUERN_GROUP_CHANNEL) {
        FAIL_IF(p->group < 32 || p->group > 4096 || (p->group & (p->group - 1)), QUERN_E_PROBLEM,
                "group=%d is not supported; expected a power of two from 32 to 4096%s", p->group,
                p->wq == QUERN_W_INT4 ? ", or channel" : "");
        FAIL_IF(p->wq == QUERN_W_MXFP4 && p->group != 32, QUERN_E_PROBLEM,
                "group=%d: mxfp4 has groups of 32 only", p->group);
    } else {
        FAIL_IF(p->wq != QUERN_W_INT4, QUERN_E_PROBLEM,
                "group=channel applies to int4 only; expected a power of two from 32 to 4096");
    }
    const int64_t below = p->k / group * group;
    FAIL_IF(p->k != below, QUERN_E_PROBLEM,
            "k=%" PRId64 " is not a multiple of group=%" PRId64 "; the next multiple is %" PRId64,
            p->k, group, below + group);
    return QUERN_OK;
}

static quern_status check_scale(const struct quern_problem *p)
{
    bool ok = true;

    switch (p->wq) {
    case QUERN_W_NF4:
    case QUERN_W_FP4:
        ok = p->scale == QUERN_SCALE_F32 || p->scale == QUERN_SCALE_NESTED;
        break;
    case QUERN_W_INT4:
        ok = p->scale <= QUERN_SCALE_BF16;
        break;
    case QUERN_W_MXFP4:
        ok = p->scale == QUERN_SCALE_E8M0;
        break;
    case QUERN_W_FP8:
    case QUERN_W_FP8FNUZ:
        ok = p->scale == QUERN_SCALE_TENSOR || p->scale == QUERN_SCALE_BLOCK128;
        break;
    case QUERN_W_NONE:
        break;
    }
    FAIL_IF(!ok, QUERN_E_PROBLEM, "scale=%s does not go with wq=%s",
            name_of(&scale_names, (int)p->scale), weight_name(p->wq));
    return QUERN_OK;
}

static quern_status check_layout(const struct quern_problem *p)
{
    bool ok = false;

    switch (p->wq) {
    case QUERN_W_NF4:
    case QUERN_W_FP4:
        ok = p->layout == QUERN_LAYOUT_BNB || p->layout == QUERN_LAYOUT_TILEN;
        break;
    case QUERN_W_MXFP4:
        ok = p->layout == QUERN_LAYOUT_K8 || p->layout == QUERN_LAYOUT_TILEN;
        break;
    case QUERN_W_INT4:
        ok = p->layout >= QUERN_LAYOUT_K8 && p->layout <= QUERN_LAYOUT_TILEN;
        break;
    case QUERN_W_FP8:
    case QUERN_W_FP8FNUZ:
    case QUERN_W_NONE:
        ok = p->layout == QUERN_LAYOUT_DENSE;
        break;
    }
    FAIL_IF(!ok, QUERN_E_PROBLEM, "layout=%s does not go with wq=%s",
            name_of(&layout_names, (int)p->layout), weight_name(p->wq));
    return QUERN_OK;
}

/* A 32-bit word of packed int4 holds eight weights, along K or along N; layout ck has four such
 * words of a row together. */
static quern_status check_words(const struct quern_problem *p)
{
    const int64_t n_multiple = p->layout == QUERN_LAYOUT_AWQ ? 8 : 1;
    const int64_t k_multiple = p->layout == QUERN_LAYOUT_CK ? 32 : 8;

    FAIL_IF(p->k % k_multiple, QUERN_E_PROBLEM,
            "k=%" PRId64 " is not a multiple of %" PRId64 ", which int4 in layout=%s needs", p->k,
            k_multiple, layout_name(p->layout));
    FAIL_IF(p->n % n_multiple, QUERN_E_PROBLEM,
            "n=%" PRId64 " is not a multiple of %" PRId64 ", which int4 in layout=%s needs", p->n,
            n_multiple, layout_name(p->layout));
    return QUERN_OK;
}

/* act and glu: neither without the other. */
static quern_status check_pairs(const struct quern_problem *p)
{
    if (p->act)
        TRY(check_range("act", (int)p->act, &act_names));
    if (p->glu)
        TRY(check_range("glu", (int)p->glu, &glu_names));
    FAIL_IF(p->act && !p->glu, QUERN_E_PROBLEM,
            "act=%s needs glu=halves (the gates are the first n/2 rows of W) or glu=interleaved "
            "(they are the even rows)",
            act_name(p->act));
    FAIL_IF(p->glu && !p->act, QUERN_E_PROBLEM,
            "glu=%s says which rows of W are gate and up, for act=silu_mul or act=swiglu_oai, "
            "neither of which is given",
            glu_name(p->glu));
    FAIL_IF(p->act && p->n % 2, QUERN_E_PROBLEM,
            "n=%" PRId64 " is odd; with act=%s n counts gate and up, each row of W, so that it is "
            "even",
            p->n, act_name(p->act));
    return QUERN_OK;
}

/* experts, top_k and block_rows, of op=moe and op=moe_align alone. */
static quern_status check_experts(const struct quern_problem *p)
{
    if (!problem_has_experts(p)) {
        TRY(check_absent("experts", !p->experts, p));
        TRY(check_absent("top_k", !p->top_k, p));
        return check_absent("block_rows", !p->block_rows, p);
    }
    const char *const op = op_name(p->op);
    FAIL_IF(!p->experts, QUERN_E_PROBLEM,
            "experts is missing or 0; op=%s expects how many experts there are, 1 to %d", op,
            PROBLEM_EXPERTS_MAX);
    FAIL_IF(!p->top_k, QUERN_E_PROBLEM,
            "top_k is missing or 0; op=%s expects how many experts are chosen for a token, 1 to %d",
            op, PROBLEM_TOP_K_MAX);
    FAIL_IF(p->experts < 1 || p->experts > PROBLEM_EXPERTS_MAX, QUERN_E_PROBLEM,
            "experts=%d; op=%s expects 1 to %d", p->experts, op, PROBLEM_EXPERTS_MAX);
    FAIL_IF(p->top_k < 1 || p->top_k > PROBLEM_TOP_K_MAX, QUERN_E_PROBLEM,
            "top_k=%d; op=%s expects 1 to %d", p->top_k, op, PROBLEM_TOP_K_MAX);
    FAIL_IF(!p->block_rows && p->op == QUERN_OP_MOE_ALIGN, QUERN_E_PROBLEM,
            "block_rows is missing; op=moe_align expects what quern_op_block_rows gives of the "
            "op=moe that reads its rows, a power of two from 1 to %d",
            PROBLEM_BLOCK_ROWS_MAX);
    FAIL_IF(p->block_rows < 0 || p->block_rows > PROBLEM_BLOCK_ROWS_MAX ||
                (p->block_rows & (p->block_rows - 1)),
            QUERN_E_PROBLEM, "block_rows=%d; expected a power of two from 1 to %d", p->block_rows,
            PROBLEM_BLOCK_ROWS_MAX);
    /* by divisions, because the product itself may not fit in 64 bits */
    FAIL_IF(p->op == QUERN_OP_MOE && p->n > PROBLEM_WEIGHTS_MAX / p->experts / p->k,
            QUERN_E_PROBLEM,
            "experts=%d times n=%" PRId64 " times k=%" PRId64
            " is more than 2^60, the most weights that all experts of op=moe may have together",
            p->experts, p->n, p->k);
    TRY(check_absent("exact", !p->exact, p));
    return check_absent("kernels", !p->kernels, p);
}

/* The types of activations that go with a type of weights. */
static const char *types_of_a(const struct quern_problem *p)
{
    return p->wq == QUERN_W_FP8       ? "f16, bf16 or fp8"
           : p->wq == QUERN_W_FP8FNUZ ? "f16, bf16 or fp8fnuz"
                                      : "f32, f16 or bf16";
}

static quern_status check_types(const struct quern_problem *p)
{
    const bool c_ok = p->c == QUERN_F32 || p->c == QUERN_F16 || p->c == QUERN_BF16;

    FAIL_IF(!c_ok, QUERN_E_PROBLEM, "c=%s is not a type of results; expected f32, f16 or bf16",
            dtype_name(p->c));
    if (!problem_has_activation(p))
        return QUERN_OK;
    if (p->a == QUERN_DT_FP8 || p->a == QUERN_DT_FP8FNUZ)
        FAIL_IF((int)p->wq - QUERN_W_FP8 != (int)p->a - QUERN_DT_FP8, QUERN_E_PROBLEM,
                "a=%s goes with wq=%s only, not with wq=%s", dtype_name(p->a), dtype_name(p->a),
                weight_name(p->wq));
    if (is_fp8(p->wq))
        FAIL_IF(p->a == QUERN_F32, QUERN_E_PROBLEM, "a=f32 does not go with wq=%s; expected %s",
                weight_name(p->wq), types_of_a(p));
    return QUERN_OK;
}

static const struct extensible *const problem_type =
    EXTENSIBLE(quern_problem, QUERN_PROBLEM_SIZE_MIN);

quern_status problem_view(const struct quern_problem *in, struct quern_problem *own,
                          const struct quern_problem **view)
{
    const void *found;
    const quern_status status = extensible_view(problem_type, in, own, &found);

    *view = found;
    return status;
}

/* Of op=moe_align, which has no layer. */
static quern_status normalise_alignment(const struct quern_problem *p, struct quern_problem *out)
{
    const struct {
        const char *word;
        bool absent;
    } of_layers[] = {{"wq", !p->wq},      {"group", !p->group}, {"scale", !p->scale},
                     {"zero", !p->zero},  {"a", !p->a},         {"c", !p->c},
                     {"n", !p->n},        {"k", !p->k},         {"bias", !p->bias},
                     {"act", !p->act},    {"glu", !p->glu},     {"layout", !p->layout},
                     {"round", !p->round}};

    for (size_t i = 0; i < sizeof of_layers / sizeof *of_layers; i++)
        TRY(check_absent(of_layers[i].word, of_layers[i].absent, p));
    TRY(check_experts(p));
    *out = *p;
    return QUERN_OK;
}

static quern_status normalise(struct quern_problem p, struct quern_problem *out)
{
    p.op = p.op ? p.op : QUERN_OP_GEMM;
    TRY(check_range("op", (int)p.op, &op_names));
    if (p.op == QUERN_OP_MOE_ALIGN)
        return normalise_alignment(&p, out);
    FAIL_IF(!p.wq, QUERN_E_PROBLEM,
            "wq is missing; expected wq=nf4, fp4, mxfp4, int4, fp8, fp8fnuz "
            "or none");
    TRY(check_range("wq", (int)p.wq, &weight_names));
    FAIL_IF(!p.n, QUERN_E_PROBLEM,
            "n is missing or 0; expected the number of output features, 1 to %" PRId64,
            PROBLEM_MAX_DIMENSION);
    FAIL_IF(!p.k, QUERN_E_PROBLEM,
            "k is missing or 0; expected the number of input features, 1 to %" PRId64,
            PROBLEM_MAX_DIMENSION);
    if (p.op != QUERN_OP_DEQUANT)
        FAIL_IF(!p.a, QUERN_E_PROBLEM, "a is missing; expected the type of the activations, %s",
                types_of_a(&p));
    else
        FAIL_IF(!p.c, QUERN_E_PROBLEM,
                "c is missing; expected the type of the result, f32, f16 or bf16");
    TRY(check_dimension("n", p.n));
    TRY(check_dimension("k", p.k));
    FAIL_IF(p.bias != 0 && p.bias != 1, QUERN_E_PROBLEM, "bias=%d; expected 0 or 1", p.bias);

    /* a word where it does not apply is an error: its caller expects something of it */
    if (p.op == QUERN_OP_DEQUANT) {
        TRY(check_absent("a", !p.a, &p));
        TRY(check_absent("bias", !p.bias, &p));
        TRY(check_absent("exact", !p.exact, &p));
        TRY(check_absent("act", !p.act, &p));
        TRY(check_absent("glu", !p.glu, &p));
        FAIL_IF(p.wq == QUERN_W_NONE, QUERN_E_PROBLEM, "op=dequant needs quantised weights");
    }
    if (!problem_has_group(&p))
        TRY(check_absent("group", !p.group, &p));
    if (!problem_has_scale(&p))
        TRY(check_absent("scale", !p.scale, &p));
    if (!problem_has_zero(&p))
        TRY(check_absent("zero", !p.zero, &p));

    fill_defaults(&p);
    if (problem_has_activation(&p))
        TRY(check_range("a", (int)p.a, &dtype_names));
    TRY(check_range("c", (int)p.c, &dtype_names));
    TRY(check_range("layout", (int)p.layout, &layout_names));
    TRY(check_range("round", (int)p.round, &round_names));
    if (p.exact)
        TRY(check_range("exact", (int)p.exact, &exact_names));
    if (p.kernels)
        TRY(check_range("kernels", (int)p.kernels, &kernels_names));
    TRY(check_pairs(&p));
    TRY(check_experts(&p));
    if (problem_has_scale(&p))
        TRY(check_range("scale", (int)p.scale, &scale_names));
    if (problem_has_zero(&p))
        TRY(check_range("zero", (int)p.zero, &zero_names));
    if (problem_has_group(&p))
        TRY(check_group(&p));
    TRY(check_scale(&p));
    TRY(check_layout(&p));
    if (p.wq == QUERN_W_INT4)
        TRY(check_words(&p));
    TRY(check_types(&p));
    FAIL_IF(problem_has_group(&p) && p.k % 2, QUERN_E_PROBLEM, "k=%" PRId64 " is odd", p.k);
    *out = p;
    return QUERN_OK;
}

quern_status problem_normalise(const struct quern_problem *in, struct quern_problem *out)
{
    struct quern_problem own;
    const struct quern_problem *p;

    TRY(problem_view(in, &own, &p));
    return normalise(*p, out);
}

quern_status problem_normalise_at(const struct quern_problem *array, size_t index,
                                  struct quern_problem *out)
{
    struct quern_problem p;

    TRY(extensible_read_at(problem_type, array, index, &p));
    return normalise(p, out);
}

/* ---- Text ------------------------------------------------------------------------------------ */

enum word_kind { WORD_ENUM, WORD_GROUP, WORD_DIMENSION, WORD_FLAG, WORD_COUNT };

/* What canonical text leaves out: act, glu, … where nothing is given. */
static bool has_act(const struct quern_problem *p)
{
    return p->act != 0;
}
static bool has_exact(const struct quern_problem *p)
{
    return p->exact != 0;
}
static bool has_kernels(const struct quern_problem *p)
{
    return p->kernels != 0;
}
static bool has_block_rows(const struct quern_problem *p)
{
    return p->block_rows != 0;
}

/* The words in canonical order; `field` finds the member that a word sets, and `applies` says of
 * which problems text has it; null: of all. */
static const struct word {
    const char *key;
    enum word_kind kind;
    size_t field;
    const struct names *names;
    bool (*applies)(const struct quern_problem *p);
} words[] = {
#define FIELD(member) offsetof(struct quern_problem, member)
    {"op", WORD_ENUM, FIELD(op), &op_names, NULL},
    {"wq", WORD_ENUM, FIELD(wq), &weight_names, problem_has_weights},
    {"group", WORD_GROUP, FIELD(group), NULL, problem_has_group},
    {"scale", WORD_ENUM, FIELD(scale), &scale_names, problem_has_scale},
    {"zero", WORD_ENUM, FIELD(zero), &zero_names, problem_has_zero},
    {"a", WORD_ENUM, FIELD(a), &dtype_names, problem_has_activation},
    {"c", WORD_ENUM, FIELD(c), &dtype_names, problem_has_weights},
    {"n", WORD_DIMENSION, FIELD(n), NULL, problem_has_weights},
    {"k", WORD_DIMENSION, FIELD(k), NULL, problem_has_weights},
    {"bias", WORD_FLAG, FIELD(bias), NULL, problem_has_activation},
    {"act", WORD_ENUM, FIELD(act), &act_names, has_act},
    {"glu", WORD_ENUM, FIELD(glu), &glu_names, has_act},
    {"experts", WORD_COUNT, FIELD(experts), NULL, problem_has_experts},
    {"top_k", WORD_COUNT, FIELD(top_k), NULL, problem_has_experts},
    {"block_rows", WORD_COUNT, FIELD(block_rows), NULL, has_block_rows},
    {"layout", WORD_ENUM, FIELD(layout), &layout_names, problem_has_weights},
    {"round", WORD_ENUM, FIELD(round), &round_names, problem_has_weights},
    {"exact", WORD_ENUM, FIELD(exact), &exact_names, has_exact},
    {"kernels", WORD_ENUM, FIELD(kernels), &kernels_names, has_kernels},
#undef FIELD
};
#define WORDS (sizeof words / sizeof *words)

static_assert(sizeof(enum quern_dtype) == sizeof(int), "enumerations are read through int");

/* What a number larger than this counts as: no word may have so large a value. */
#define NUMBER_MAX (INT64_C(1) << 40)

/* A decimal number without sign or leading zero; -1 if it is none. */
static int64_t parse_number(const char *text, size_t n)
{
    int64_t value = 0;

    if (!n || (n > 1 && text[0] == '0'))
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
        if (value > NUMBER_MAX)
            value = NUMBER_MAX;
    }
    return value;
}

static void expect_names(const struct names *names, char *out, size_t size)
{
    size_t n = 0;

    out[0] = 0;
    for (int i = 1; i < names->count && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s",
                              i == 1                  ? ""
                              : i == names->count - 1 ? " or "
                                                      : ", ",
                              names->name[i]);
}

static quern_status parse_value(const struct word *w, const char *text, size_t n,
                                struct quern_problem *p)
{
    void *const field = (char *)p + w->field;
    char expected[96];

    if (w->kind == WORD_ENUM) {
        for (int i = 1; i < w->names->count; i++)
            if (strlen(w->names->name[i]) == n && !memcmp(w->names->name[i], text, n)) {
                memcpy(field, &i, sizeof i);
                return QUERN_OK;
            }
        expect_names(w->names, expected, sizeof expected);
        FAIL(QUERN_E_PROBLEM, "%s=%.*s is unknown; expected %s", w->key, (int)(n > 32 ? 32 : n),
             text, expected);
    }
    if (w->kind == WORD_GROUP && n == 7 && !memcmp(text, "channel", 7)) {
        p->group = QUERN_GROUP_CHANNEL;
        return QUERN_OK;
    }
    const int64_t value = parse_number(text, n);
    if (w->kind == WORD_FLAG) {
        FAIL_IF(value != 0 && value != 1, QUERN_E_PROBLEM, "%s=%.*s; expected 0 or 1", w->key,
                (int)(n > 32 ? 32 : n), text);
        p->bias = (int32_t)value;
    } else if (w->kind == WORD_COUNT) {
        const int32_t count = (int32_t)value;
        FAIL_IF(value < 1 || value > INT32_MAX, QUERN_E_PROBLEM,
                "%s=%.*s is no number from 1 to %d", w->key, (int)(n > 32 ? 32 : n), text,
                INT32_MAX);
        memcpy(field, &count, sizeof count);
    } else if (w->kind == WORD_GROUP) {
        FAIL_IF(value < 1 || value > 4096, QUERN_E_PROBLEM,
                "group=%.*s; expected a power of two from 32 to 4096, or channel",
                (int)(n > 32 ? 32 : n), text);
        p->group = (int32_t)value;
    } else {
        FAIL_IF(value < 1 || value > PROBLEM_MAX_DIMENSION, QUERN_E_PROBLEM,
                "%s=%.*s is %s; expected 1 to %" PRId64, w->key, (int)(n > 32 ? 32 : n), text,
                value < 0 && text[0] != '-' ? "no decimal number" : "out of range",
                PROBLEM_MAX_DIMENSION);
        memcpy(field, &value, sizeof value);
    }
    return QUERN_OK;
}

/* Longest problem text that is read at all: canonical text is shorter than QUERN_TEXT_MAX. */
#define PARSE_MAX 4096

quern_status quern_problem_parse(const char *text, struct quern_problem *problem)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    bool seen[WORDS] = {false};

    FAIL_IF(!text, QUERN_E_ARGUMENT, "text is null");
    TRY(extensible_check(problem_type, problem));
    FAIL_IF(strnlen(text, PARSE_MAX) == PARSE_MAX, QUERN_E_PROBLEM,
            "problem text is longer than %d bytes", PARSE_MAX - 1);
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        const char *const equals = memchr(at, '=', length);
        const int shown = (int)(length > 32 ? 32 : length);
        size_t i = 0;

        FAIL_IF(
            !equals, QUERN_E_PROBLEM,
            "\"%.*s\" is no key=value word; a problem looks like \"wq=nf4 n=4096 k=4096 a=bf16\"",
            shown, at);
        const size_t key = (size_t)(equals - at);
        while (i < WORDS && (strlen(words[i].key) != key || memcmp(words[i].key, at, key)))
            i++;
        FAIL_IF(i == WORDS, QUERN_E_PROBLEM,
                "unknown word \"%.*s\"; known words are op wq group scale zero a c n k bias act "
                "glu experts top_k block_rows layout round exact kernels",
                shown, at);
        FAIL_IF(seen[i], QUERN_E_PROBLEM, "%s is given twice", words[i].key);
        seen[i] = true;
        TRY(parse_value(&words[i], equals + 1, length - key - 1, &p));
        at += length;
    }
    for (size_t i = 0; i < WORDS; i++)
        if (seen[i] && words[i].kind == WORD_FLAG &&
            (p.op == QUERN_OP_DEQUANT || p.op == QUERN_OP_MOE_ALIGN))
            FAIL(QUERN_E_PROBLEM, "%s does not apply to op=%s; leave it out", words[i].key,
                 op_name(p.op));
    TRY(normalise(p, &p));
    extensible_write(problem_type, &p, problem);
    return QUERN_OK;
}

/* Appends as much of `more` to a text of n bytes as there is room for; returns its new length. */
static size_t add(char text[QUERN_TEXT_MAX], size_t n, const char *more)
{
    while (*more && n < QUERN_TEXT_MAX - 1)
        text[n++] = *more++;
    return n;
}

void problem_text(const struct quern_problem *p, char text[QUERN_TEXT_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < WORDS; i++) {
        const struct word *const w = &words[i];
        const void *const field = (const char *)p + w->field;
        const char *value;
        char digits[DECIMAL_MAX];
        int number;
        int64_t dimension;

        if (w->applies && !w->applies(p))
            continue;
        memcpy(&number, field, sizeof number);
        if (w->kind == WORD_DIMENSION) {
            memcpy(&dimension, field, sizeof dimension);
            value = decimal(digits, dimension);
        } else if (w->kind == WORD_ENUM) {
            value = name_of(w->names, number);
        } else {
            value = number == QUERN_GROUP_CHANNEL ? "channel" : decimal(digits, number);
        }
        n = add(text, n, n ? " " : "");
        n = add(text, n, w->key);
        n = add(text, n, "=");
        n = add(text, n, value);
    }
    text[n] = 0;
}

quern_status quern_problem_text(const struct quern_problem *problem, char *text, size_t size)
{
    struct quern_problem normal;
    char full[QUERN_TEXT_MAX];

    TRY(problem_normalise(problem, &normal));
    problem_text(&normal, full);
    const size_t n = strlen(full);
    FAIL_IF(!text || size <= n, QUERN_E_BUFFER, "text[%zu] is too small; %zu bytes are needed",
            size, n + 1);
    memcpy(text, full, n + 1);
    return QUERN_OK;
}
