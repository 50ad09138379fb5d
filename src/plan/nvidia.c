/* SPDX-License-Identifier: MIT */
/* What the families for NVIDIA share: nvidia.h. */
#include "plan/nvidia.h"

#include "plan/family.h"

#include <inttypes.h>

bool nvidia_has_table(const struct quern_problem *q)
{
    return problem_has_group(q) && q->wq != QUERN_W_INT4;
}

bool nvidia_has_blocks(const struct plan *p)
{
    return problem_has_group(&p->problem);
}

bool nvidia_in_blocks_of_128(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_BLOCK128;
}

bool nvidia_has_scales(const struct plan *p)
{
    return nvidia_has_blocks(p) || nvidia_in_blocks_of_128(p);
}

const char *nvidia_template_of_pairs(const struct plan *p)
{
    return nvidia_has_table(&p->problem) ? "cuda/prelude/pairs"
           : nvidia_has_blocks(p)        ? "cuda/prelude/int4"
                                         : "cuda/prelude/plain";
}

const char *nvidia_template_of_rows(const struct plan *p)
{
    return p->block_rows ? "cuda/prelude/moe" : "cuda/prelude/rows";
}

/* Rows of W are copied in pieces of 16 bytes, and a lane of four has one at a time. */
static quern_status accepts_plain(const struct quern_problem *q, const struct target *t)
{
    const int64_t columns = 64 * 8 / nvidia_weight_bits(q);

    FAIL_IF(q->wq == QUERN_W_FP8FNUZ, QUERN_E_DECLINED,
            "fp8fnuz has no kernel on %s, which has no instruction for it; fp8 has", t->name);
    FAIL_IF(q->k % columns, QUERN_E_DECLINED,
            "k=%" PRId64 " has no kernel for wq=%s on %s in this version; a multiple of %" PRId64
            " has",
            q->k, weight_name(q->wq), t->name, columns);
    return QUERN_OK;
}

quern_status nvidia_accepts(const struct quern_problem *q, const struct target *t)
{
    const enum quern_layout layout = weight_is_table(q->wq) ? QUERN_LAYOUT_BNB : QUERN_LAYOUT_K8;
    const bool exl = q->wq == QUERN_W_INT4;

    FAIL_IF(q->round != QUERN_ROUND_RNE, QUERN_E_DECLINED,
            "round=trunc has no kernel on %s, whose kernels round to nearest (round=rne)", t->name);
    if (!problem_has_group(q))
        return accepts_plain(q, t);
    FAIL_IF(q->layout != layout && !(exl && q->layout == QUERN_LAYOUT_EXL), QUERN_E_DECLINED,
            "only layout=%s%s has kernels for wq=%s on %s in this version%s", layout_name(layout),
            exl ? " and exl" : "", weight_name(q->wq), t->name,
            exl ? "; repack the weights once, to layout=exl (quern repack)" : "");
    FAIL_IF(problem_group(q) % 32, QUERN_E_DECLINED,
            "group=%" PRId64 " has no kernel on %s; a multiple of 32 has", problem_group(q),
            t->name);
    return QUERN_OK;
}

unsigned nvidia_weight_bits(const struct quern_problem *q)
{
    return problem_has_group(q) ? 4 : 8 * dtype_bytes(problem_weight_type(q));
}

unsigned nvidia_scale_bytes(const struct quern_problem *q)
{
    return q->scale == QUERN_SCALE_BLOCK128 ? 4
           : !problem_has_group(q)          ? 0
           : q->wq == QUERN_W_INT4          ? dtype_bytes(problem_scale_type(q))
           : q->scale == QUERN_SCALE_F32    ? 4
                                            : 1;
}

unsigned nvidia_zero_bytes(const struct quern_problem *q)
{
    return q->zero == QUERN_ZERO_SCALED ? nvidia_scale_bytes(q) : q->zero == QUERN_ZERO_U8;
}

int64_t nvidia_weight_bytes(const struct quern_problem *q)
{
    const int64_t blocks = q->scale == QUERN_SCALE_BLOCK128
                               ? problem_scale_blocks(q->n) * problem_scale_blocks(q->k)
                               : 0;
    const int64_t groups = problem_has_group(q) ? q->n * (q->k / problem_group(q)) : blocks;

    return q->n * q->k * nvidia_weight_bits(q) / 8 +
           groups * (nvidia_scale_bytes(q) + nvidia_zero_bytes(q));
}

int64_t nvidia_codes_bytes(const struct quern_problem *q)
{
    return q->scale == QUERN_SCALE_NESTED ? 1024 : 0;
}

uint32_t nvidia_shared_bytes(const struct plan *p, int64_t used)
{
    /* A multiprocessor has a KiB more than a workgroup can have, and takes one of each. */
    const int64_t alone = p->target->lds_bytes / 2 + 1;

    return (uint32_t)(plan_shares_out(p) && used < alone ? alone : used);
}

int64_t nvidia_values_bytes(const struct quern_problem *q)
{
    return 16 * 32 * 4 + nvidia_codes_bytes(q);
}

static int64_t is_nested(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_NESTED;
}

static int64_t is_e8m0(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_E8M0;
}

static const char *word_order(const struct plan *p)
{
    const enum quern_layout layout = p->problem.layout;

    return layout == QUERN_LAYOUT_BNB ? "BNB" : layout == QUERN_LAYOUT_K8 ? "K8" : "EXL";
}

/* Behind a KiB of the system's on GPUs whose blocks can form clusters, which are those that copy in
 * bulk: ptxas 12.9 puts it at 0x400 for sm_90, sm_100 and sm_120, and at 0 for those before. */
static int64_t shared_start(const struct plan *p)
{
    return p->target->capabilities & CAP_BULK ? 1024 : 0;
}

static bool may_begin_early(const struct plan *p)
{
    return p->target->capabilities & CAP_EARLY_LAUNCH;
}

const struct plan_field nvidia_fields[] = {
    {FIELD_OF(FIELD_NUMBER, "BLOCK", field_group, "weights along K that share a scale"),
     .argument = BLOCK_ARGUMENT, .when = nvidia_has_blocks},
    {FIELD_WORD("WORD_ORDER", word_order, "of the weights in a word"), .when = nvidia_has_blocks},
    {FIELD_WORD("C_TYPE", field_c_type, "elements of C and of a bias")},
    {FIELD_WORD("A_TYPE", field_a_type, "elements of A"), .when = field_multiplies},
    {FIELD_OF(FIELD_FLAG, "SCALE_IS_NESTED", is_nested, "whether scales are quantised again")},
    {FIELD_OF(FIELD_FLAG, "SCALE_IS_E8M0", is_e8m0, "whether they are powers of two")},
    {FIELD_WORD("SCALE_TYPE", field_scale_type, "elements of scales")},
    {FIELD_WORD("ZERO", field_zero_kind, "what zero points are")},
    {FIELD_OF(FIELD_FLAG, "HAS_ZEROS", field_has_zeros, "whether there are any")},
    {0},
};

static const char *weight_bits(const struct plan *p)
{
    const unsigned bits = nvidia_weight_bits(&p->problem);

    return bits == 4 ? "4" : bits == 8 ? "8" : "16";
}

static int64_t a_is_fp8(const struct plan *p)
{
    return p->problem.a == QUERN_DT_FP8;
}

/* Products of e4m3 are of f16, which holds them all, as the matrix unit sums those in f32. */
static const char *mma_type(const struct plan *p)
{
    return p->problem.a == QUERN_BF16 ? "BF16" : "F16";
}

const struct plan_field nvidia_number_fields[] = {
    {FIELD_WORD("W_BITS", weight_bits, "of a weight")},
    {FIELD_IF(FIELD_BOOL, "HAS_BLOCK_SCALES", nvidia_has_scales,
              "whether sums of blocks are scaled")},
    {FIELD_IF(FIELD_FLAG, "BLOCK_SCALED", nvidia_in_blocks_of_128, "whether W is e4m3 in blocks")},
    {FIELD_OF(FIELD_FLAG, "A_IS_FP8", a_is_fp8, "whether A is e4m3")},
    {FIELD_WORD("MMA_TYPE", mma_type, "elements of products")},
    {0},
};

/* A word, as the kernel's attribute asks the preprocessor for it. */
static const char *cluster(const struct plan *p)
{
    return p->cluster == 4 ? "4" : p->cluster == 2 ? "2" : "1";
}

const struct plan_field nvidia_grid_fields[] = {
    {FIELD_WORD("CLUSTER", cluster, "workgroups that share rows of W")},
    {FIELD_IF(FIELD_BOOL, "EARLY", may_begin_early, "whether launches may overlap: prelude/ptx")},
    {FIELD_OF(FIELD_NUMBER, "SHARED_START", shared_start, "where a workgroup's shared memory is")},
    {FIELD_AT(FIELD_NUMBER, "SHARED_BYTES", lds_bytes, "of a workgroup")},
    {FIELD_AT(FIELD_BOOL, "SLICES_FIRST", slices_first, "whether slices of A are workgroup id x"),
     .when = field_multiplies},
    {0},
};
