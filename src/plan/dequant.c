/* SPDX-License-Identifier: MIT */
/*
 * The family dequant, which writes weights out as numbers. It has one shape: memory bounds it on
 * every part by far, so that nothing matters but enough loads in flight, and whole lines per wave.
 */
#include "plan/base.h"
#include "plan/explain.h"
#include "plan/family.h"
#include "target/rates.h"

#include <inttypes.h>

#define ITEMS 256 /* of a workgroup */
#define CHUNK 8   /* weights: a dword of codes, a 16-byte store of 16-bit results */
/* Loads in flight per lane. ITEMS * CHUNK * CHUNKS is a multiple of every group of NF4 and FP4. */
#define CHUNKS 4
#define LDS    64 /* a format's sixteen values */

/* Instructions of a wave besides those of its chunks. */
#define SETUP_SLOTS 40

#define WEIGHTS_MAX ((int64_t)1 << 37) /* 2^32 work-items of CHUNK * CHUNKS */
#define BASE_MAX    ((int64_t)1 << 35) /* 2^32 chunks */

static bool takes(const struct quern_problem *q, const struct target *t)
{
    (void)t;
    return q->op == QUERN_OP_DEQUANT;
}

static quern_status accepts(const struct quern_problem *q, const struct target *t)
{
    (void)t;
    const bool int4 = q->wq == QUERN_W_INT4;
    const int64_t most = q->kernels == QUERN_KERNELS_BASE ? BASE_MAX : WEIGHTS_MAX;

    FAIL_IF(q->layout == QUERN_LAYOUT_TILEN, QUERN_E_DECLINED,
            "only layout=%s has kernels for wq=%s in this version",
            int4                     ? "k8, exl and ck"
            : q->wq == QUERN_W_MXFP4 ? "k8"
                                     : "bnb",
            weight_name(q->wq));
    FAIL_IF(q->layout == QUERN_LAYOUT_GPTQ || q->layout == QUERN_LAYOUT_AWQ, QUERN_E_DECLINED,
            "no kernel reads layout=%s; repack the weights once, at load, to layout=exl or another "
            "(quern_repack(), `quern repack`)",
            layout_name(q->layout));
    FAIL_IF(!int4 && problem_has_group(q) && q->round != QUERN_ROUND_RNE, QUERN_E_DECLINED,
            "round=trunc has no kernel in this version, which rounds to nearest (round=rne)");
    FAIL_IF(q->n > most / q->k, QUERN_E_DECLINED,
            "n=%" PRId64 " times k=%" PRId64 " is beyond this version's most weights, %" PRId64,
            q->n, q->k, most);
    return QUERN_OK;
}

/* Instructions of a chunk, as counted in compiled code. */
static uint32_t chunk_slots(const struct plan *p)
{
    const bool by_hand = p->problem.c == QUERN_BF16 && !(p->target->capabilities & CAP_CVT_PK_BF16);

    if (p->dequant.fp8)
        return (p->dequant.fp8 == FP8_NATIVE ? 36 : 69) + (by_hand ? 31 : 0);
    if (p->problem.wq == QUERN_W_INT4) {
        const bool even = p->problem.round == QUERN_ROUND_RNE;
        return p->problem.c == QUERN_BF16 && even && !(p->target->capabilities & CAP_CVT_PK_BF16)
                   ? 90
                   : 52;
    }
    return by_hand ? 84 : p->problem.c == QUERN_F32 ? 46 : 54;
}

/* Bytes of a block's scale and zero point. */
static int64_t block_bytes(const struct quern_problem *q)
{
    const bool half = q->scale == QUERN_SCALE_F16 || q->scale == QUERN_SCALE_BF16;
    const int64_t scale = q->scale == QUERN_SCALE_F32 ? 4 : half ? 2 : 1;

    if (q->wq != QUERN_W_INT4 || q->zero == QUERN_ZERO_NONE)
        return scale;
    return scale + (q->zero == QUERN_ZERO_SCALED ? scale : 1);
}

static int64_t weights_per_workgroup(const struct plan *p)
{
    return (int64_t)p->waves * p->wave_size * p->dequant.chunk * p->dequant.chunks;
}

static bool is_fp8(const struct plan *p)
{
    return !problem_has_group(&p->problem);
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan choice = *base, *const p = &choice;
    const struct quern_problem *const q = &p->problem;
    const struct target *const t = p->target;
    struct plan_estimate *const e = &p->estimate;
    const bool fp8 = is_fp8(p);
    const int64_t weights = q->n * q->k, blocks = fp8 ? 0 : weights / problem_group(q);
    const int64_t scale_bytes = block_bytes(q), code_bits = fp8 ? 8 : 4;
    const bool own_fnuz = t->capabilities & CAP_FP8_FNUZ;

    p->wave_size = t->wave_size;
    p->waves = (int)(ITEMS / t->wave_size);
    p->dequant.chunk = CHUNK;
    p->dequant.chunks = CHUNKS;
    p->weights_once = true;
    p->lds_bytes = q->wq == QUERN_W_INT4 || fp8 ? 0 : LDS;
    if (fp8)
        p->dequant.fp8 = t->capabilities & CAP_FP8_CVT && own_fnuz == (q->wq == QUERN_W_FP8FNUZ)
                             ? FP8_NATIVE
                             : FP8_SOFTWARE;

    const int64_t group = weights_per_workgroup(p);
    e->vgprs = 48;
    e->waves_per_simd = target_waves_per_simd(t, e->vgprs, LDS, t->wave_size, (unsigned)p->waves);
    e->step_slots = chunk_slots(p);
    e->setup_slots = SETUP_SLOTS;
    e->workgroups = p->row_groups = (weights + group - 1) / group;
    const int64_t wave_slots = SETUP_SLOTS + CHUNKS * (int64_t)e->step_slots;
    e->slots = e->workgroups * p->waves * wave_slots;
    const struct target_fill fill = target_fill(t, (uint64_t)e->workgroups);
    e->busy_percent = fill.percent;
    e->kernel_cycles = (int64_t)fill.fullest * p->waves * wave_slots / (int64_t)t->simds;
    e->memory_cycles = (int64_t)target_memory_cycles(
        t, (double)(weights * code_bits / 8 + blocks * scale_bytes + weights * dtype_bytes(q->c)));
    model_put(ranking, p);
}

static void explain(const struct plan *p, struct str *out)
{
    const struct plan_estimate *const e = &p->estimate;
    const struct target *const t = p->target;
    const double kernel = target_microseconds(t, (double)e->kernel_cycles);
    const double memory = target_microseconds(t, (double)e->memory_cycles);

    explain_begin_any(p, out);
    str_addf(out,
             "  grid       %" PRId64 " workgroups of %" PRId64
             " weights fill %u compute units to %u %%\n",
             e->workgroups, weights_per_workgroup(p), t->cus, e->busy_percent);
    str_addf(out,
             "  model      %.2f issue slots per weight; %.1f us in the fullest compute unit, %.1f "
             "us of memory at %.0f GB/s: "
             "bound by %s\n",
             (double)e->slots * p->wave_size / ((double)p->problem.n * (double)p->problem.k),
             kernel, memory, t->bandwidth_gbs, kernel > memory ? "issue" : "memory");
}

static const char *fp8_form(const struct plan *p)
{
    return field_fp8_form(p->dequant.fp8);
}

static const char *template_of_family(const struct plan *p)
{
    return field_is_int4(p) ? "family/dequant_int4"
           : is_fp8(p)      ? "family/dequant_fp8"
                            : "family/dequant";
}

static bool makes_halves(const struct plan *p)
{
    return p->dequant.fp8 == FP8_SOFTWARE && !plan_is_base(p);
}

static bool rounds(const struct plan *p)
{
    return !field_has_table(p);
}

static bool has_block_scales(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_BLOCK128;
}

static const struct plan_field of_fp8[] = {
    {FIELD_WORD("C_TYPE", field_c_type, "elements of C")},
    {FIELD_WORD("FNUZ", field_fp8_kind, "which kind of fp8")},
    {FIELD_WORD("FORM", fp8_form, "how it is understood")},
    {FIELD_IF(FIELD_FLAG, "BLOCK_SCALED", has_block_scales, "whether each block has a scale")},
    {FIELD_OF(FIELD_BOOL, "TRUNCATE", field_truncates, "whether f32 becomes bf16 by cutting"),
     .argument = TRUNCATE_ARGUMENT},
    {0},
};

static const struct plan_field shape[] = {
    {.kind = FIELD_BLANK},
    {FIELD_AT(FIELD_NUMBER, "WAVE", wave_size, "lanes")},
    {FIELD_AT(FIELD_NUMBER, "WAVES", waves, "in a workgroup"), .word = "waves"},
    {FIELD_AT(FIELD_NUMBER, "CHUNKS", dequant.chunks, "that a lane takes"), .word = "chunks"},
    {FIELD_AT(FIELD_NUMBER, "WAVES_PER_SIMD", estimate.waves_per_simd,
              "that registers must leave room for")},
    {0},
};

static const struct plan_fields fields[] = {{layer_fields},
                                            {int4_fields, .when = field_is_int4},
                                            {weight_fields, .when = field_has_table},
                                            {of_fp8, .when = is_fp8},
                                            {shape},
                                            {0}};

static const struct plan_template templates[] = {
    {"prelude/prelude"},
    {"prelude/layer"},
    {"prelude/int4", .when = field_is_int4},
    {"prelude/round", .when = rounds},
    {"decode/scale_group", .when = field_is_int4},
    {"decode/dense", .when = is_fp8},
    {"decode/fp8", .when = is_fp8},
    {"decode/scale_block128", .when = has_block_scales},
    {.choose = template_of_codes, .when = field_has_table},
    {.choose = template_of_scale, .when = field_has_table},
    {.choose = template_of_family},
    {0}};

/* Quantised weights to [N,K], for hosts that multiply with a library of theirs. */
const struct family family_dequant = {
    .name = "dequant",
    .units = PLAN_UNITS_NONE,
    .takes = takes,
    .accepts = accepts,
    .candidates = candidates,
    .plain_text = makes_halves,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .base_rows = 1,
    .predequant = SWITCH_OFF,
};
