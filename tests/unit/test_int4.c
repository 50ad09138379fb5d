/* SPDX-License-Identifier: MIT */
/*
 * int4 kernels: right answers for every kind of problem on every verified target, in full checking
 * mode; and the instructions that their decoding is made of, which must stay as few as they are.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_compile.h"
#include "t_build.h"
#include "t_context.h"
#include "t_runs.h"

#include "gen/gen.h"
#include "object/object.h"
#include "plan/family.h"
#include "plan/plan.h"
#include "target/target.h"

#include <quern/tool.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the layers that are run, half of which are also counted; all in test_int4_whole_long.c. */
#ifndef ONE_IN
#define ONE_IN 47
#endif

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- Answers --------------------------------------------------------------------------------- */

/*
 * {sym, asym} × {f16, bf16} × {group 32, 128} × {rne, trunc}, with weights dequantised into LDS and
 * without: all on one target, and on every other verified one each two of them, in turn
 * (test_int4_long.c runs more of all on all).
 */
static void check_sixteen(const char *force)
{
    static const int rows[] = {1, 16, 4, 8, 33, 2, 64};
    const bool on = !strcmp(force, "predequant=on");
    int others = 0;

    for (size_t t = 0; t < target_count(); t++) {
        const bool all = !strcmp(target_at(t)->name, "gfx1151");
        for (int i = 0; i < 16 && target_simulated(target_at(t)); i++) {
            if (!all && i / 2 != (others + 4 * on) % 8)
                continue;
            t_runs_add(target_at(t)->name, rows[(i + others + on) % COUNT(rows)],
                       "wq=int4 n=72 k=640 group=%d a=%s zero=%s round=%s", i & 1 ? 32 : 128,
                       i & 2 ? "f16" : "bf16", i & 4 ? "none" : "u8", i & 8 ? "rne" : "trunc");
        }
        others += !all && target_simulated(target_at(t));
    }
    assert_int_equal(setenv("QUERN_FORCE", force, 1), 0); /* for contexts that are opened now */
    t_runs_verify(t_cache, ONE_IN);
    assert_int_equal(unsetenv("QUERN_FORCE"), 0);
}

static void test_sixteen(void **state)
{
    (void)state;
    check_sixteen("predequant=off");
    check_sixteen("predequant=on");
}

/* Every layout with every kind of zero point and scale, types of A and C, odd sizes, bias. */
static void test_words(void **state)
{
    static const char *const layouts[] = {"k8", "exl", "ck"}, *const zeros[] = {"none", "u8",
                                                                                "scaled"};
    static const char *const types[] = {"f16", "bf16", "f32"};
    static const char *const targets[] = {"gfx1100", "gfx1151", "gfx1201", "gfx90a", "gfx950"};
    static const struct {
        int n, k, group;
    } sizes[] = {{1, 64, 64},     {37, 96, 32},   {8, 1024, 128},  {130, 1120, 32},
                 {5, 2048, 2048}, {257, 320, -1}, {64, 4096, 512}, {33, 25600, 64}};
    static const int rows[] = {1, 2, 16, 4, 8, 3, 29, 13, 64};
    int turn = 0;

    (void)state;
    for (int l = 0; l < 3; l++)
        for (int z = 0; z < 3; z++)
            for (int a = 0; a < 3; a++)
                for (int s = turn % 2; s < 3; s += 2, turn++) {
                    const int size = turn % COUNT(sizes);
                    char group[16];
                    snprintf(group, sizeof group, "%d", sizes[size].group);
                    t_runs_add(
                        targets[turn % COUNT(targets)], rows[turn % COUNT(rows)],
                        "wq=int4 n=%d k=%d group=%s a=%s scale=%s zero=%s layout=%s c=%s bias=%d",
                        sizes[size].n, sizes[size].k, sizes[size].group < 0 ? "channel" : group,
                        types[a], types[s], zeros[z], layouts[l], types[turn / 2 % 3],
                        turn / 3 % 2);
                }
    /* K that a 32-weight chunk does not divide: the smaller chunks */
    t_runs_add("gfx1151", 5, "wq=int4 n=24 k=40 group=channel a=f16 zero=u8");
    t_runs_add("gfx1151", 2, "wq=int4 n=24 k=48 group=channel a=bf16 layout=exl");
    /* spans of eight weights, of which no sums of A are shared */
    t_runs_add("gfx1201", 5, "wq=int4 n=603 k=32 group=channel a=bf16 zero=scaled layout=exl");
    /* lanes past the end of K, of which matrix products do not ask whether they are active */
    t_runs_add("gfx942", 4, "wq=int4 n=5 k=32 group=32 a=bf16 scale=f16 zero=scaled layout=exl");
    t_runs_add("gfx950", 1, "wq=int4 n=257 k=128 group=128 a=bf16 scale=f16 zero=scaled layout=ck");
    t_runs_add("gfx950", 3, "wq=int4 n=257 k=1088 group=64 a=bf16 scale=f32 zero=scaled");
    t_runs_add("gfx90a", 5, "wq=int4 n=200 k=160 group=32 a=f16 scale=f32 zero=scaled layout=exl");
    t_runs_add("gfx942", 8, "wq=int4 n=5 k=4160 group=32 a=bf16 zero=scaled bias=1");
    t_runs_verify(t_cache, ONE_IN);
}

/* Layout ck on matrix units, where what fits K best are odd numbers of 16 weights: a lane's next
 * ones are then in the same block of 32, or in the next. */
static void test_halves_of_blocks(void **state)
{
    static const char *const targets[] = {"gfx1100", "gfx1151", "gfx1201"};
    static const char *const forces[] = {"predequant=off", "predequant=on"};

    (void)state;
    for (int force = 0; force < 2; force++) {
        for (int t = 0; t < COUNT(targets); t++)
            t_runs_add(targets[t], 16, "wq=int4 n=40 k=%d group=32 a=%s zero=u8 layout=ck",
                       t == 1 ? 288 : 1152, (t + force) % 2 ? "f16" : "bf16");
        assert_int_equal(setenv("QUERN_FORCE", forces[force], 1), 0);
        t_runs_verify(t_cache, 1);
    }
    assert_int_equal(unsetenv("QUERN_FORCE"), 0);
}

/* Up to eight rows of A, where halves of a wave have groups of their own: every layout and zero
 * point, and K whose steps are no powers of two. */
static void test_halves_of_tiles(void **state)
{
    static const char *const layouts[] = {"k8", "exl", "ck"}, *const zeros[] = {"none", "u8",
                                                                                "scaled"};
    static const char *const scales[] = {"f16", "bf16", "f32"};
    int halves = 0;

    (void)state;
    for (int i = 0; i < 18; i++) {
        char text[128];
        struct plan_set set;
        snprintf(text, sizeof text,
                 "wq=int4 n=1003 k=1152 group=32 a=%s scale=%s zero=%s layout=%s c=f32 bias=%d",
                 i / 9 ? "f16" : "bf16", scales[(i + i / 3) % 3], zeros[i / 3 % 3], layouts[i % 3],
                 i % 2);
        const struct quern_problem p = t_problem(text);
        assert_int_equal(plan_make(&p, target_named("gfx1201"), &set), QUERN_OK);
        halves += plan_for(&set, 8)->m_tile == 8 && plan_for(&set, 8)->family == &family_mma_int4;
        t_runs_add("gfx1201", 5 + i % 4, "%s", text);
    }
    assert_true(halves >= 15);
    t_runs_verify(t_cache, ONE_IN);
}

/* LDS that holds the sums of three tiles of a wave's four: they are summed two by two. */
static void test_room_for_three_tiles(void **state)
{
    static const char *const problems[] = {"wq=int4 n=1984 k=544 group=32 a=f16 c=f32",
                                           "wq=int4 n=1984 k=736 group=32 a=bf16 zero=u8"};

    (void)state;
    for (int i = 0; i < COUNT(problems); i++) {
        struct plan_set set;
        const struct quern_problem p = t_problem(problems[i]);
        assert_int_equal(plan_make(&p, target_named("gfx1151"), &set), QUERN_OK);
        const struct plan *const plan = plan_for(&set, 16);
        assert_ptr_equal(plan->family, &family_mma_int4);
        assert_int_equal(plan->matrix.rows, 64);
        assert_int_equal(plan->lds_bytes / ((unsigned)plan->waves * 1024), 3);
        t_runs_add("gfx1151", 16, "%s", problems[i]);
    }
    t_runs_verify(t_cache, 1);
}

/* Squares of gfx9 whose last step is past the end of K in some lanes: those add nothing, and no
 * zero points that matrix instructions take off. */
static void test_ends_of_squares(void **state)
{
    (void)state;
    t_runs_add("gfx942", 8, "wq=int4 n=249 k=2720 group=32 a=bf16 zero=scaled layout=exl");
    t_runs_add("gfx942", 5, "wq=int4 n=2272 k=2848 group=32 a=f16 zero=scaled layout=ck");
    t_runs_verify(t_cache, 1);
}

/* Dequantised weights of every layout, zero point and type of scale. */
static void test_predequant_words(void **state)
{
    static const char *const layouts[] = {"k8", "exl", "ck"}, *const zeros[] = {"none", "u8",
                                                                                "scaled"};
    static const char *const scales[] = {"f16", "bf16", "f32"};
    static const char *const targets[] = {"gfx1100", "gfx1201", "gfx942", "gfx950"};

    (void)state;
    for (int i = 0; i < 18; i++)
        t_runs_add(targets[i % 4], 1 + i * 3,
                   "wq=int4 n=37 k=%d group=%d a=%s scale=%s zero=%s "
                   "layout=%s c=f32",
                   i % 2 ? 320 : 1024, i % 2 ? 64 : 1024, i / 9 ? "f16" : "bf16", scales[i % 3],
                   zeros[i / 3 % 3], layouts[(i + i / 3) % 3]);
    assert_int_equal(setenv("QUERN_FORCE", "predequant=on", 1), 0);
    t_runs_verify(t_cache, ONE_IN);
    assert_int_equal(unsetenv("QUERN_FORCE"), 0);
}

/* Activations far from zero: what the decoder adds to the codes, and takes out of their sum, is
 * then large against the result. */
static void check_offset(const char *text, const char *target, int m)
{
    const struct quern_problem p = t_problem(text);
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    struct t_layer l;
    quern_op *op;

    assert_int_equal(quern_op_create_range(ctx, &p, m, m, &op), QUERN_OK);
    t_layer_make_offset(&l, ctx, &p, m, 8.0f, 5);
    if (quern_op_launch(op, &l.args, m, NULL) != QUERN_OK)
        fail_msg("%s: %s", text, quern_last_error()->message);
    const double error = t_layer_error(&l);
    if (!(error <= 5e-3))
        fail_msg("%s: the error is %.3g", text, error);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_offset(void **state)
{
    (void)state;
    check_offset("wq=int4 n=64 k=4096 a=f16 c=f32 zero=u8", "gfx1151", 1);
    check_offset("wq=int4 n=64 k=4096 a=bf16 c=f32", "gfx1151", 1);
    check_offset("wq=int4 n=64 k=4096 a=f16 c=f32 zero=scaled layout=exl", "gfx1151", 1);
    /* products of four rows with four: sums of A in LDS, and of each wave's own */
    check_offset("wq=int4 n=512 k=1024 a=f16 c=f32 zero=u8", "gfx90a", 4);
    check_offset("wq=int4 n=64 k=4096 group=32 a=bf16 c=f32 zero=u8", "gfx942", 8);
    /* on matrix units: sums in parts, and by the matrix unit */
    check_offset("wq=int4 n=64 k=4096 a=bf16 c=f32 zero=u8", "gfx1201", 16);
    check_offset("wq=int4 n=1024 k=2048 group=32 a=bf16 c=f32 zero=u8", "gfx1201", 8);
    check_offset("wq=int4 n=64 k=4096 a=bf16 c=f32 zero=scaled", "gfx942", 16);
    check_offset("wq=int4 n=64 k=4096 a=f16 c=f32 zero=scaled layout=ck", "gfx950", 29);
}

/* ---- Instructions ---------------------------------------------------------------------------- */

/* Instructions of a kernel by what they are for. */
struct mix {
    const char *type;          /* of its products: "_f16", "_bf16" */
    int words, sums;           /* words of weights in its source; dot products of sums of A */
    int dot, packed, fused;    /* v_dot2*, and two for v_mfma_f32_4x4x4*; v_pk_fma_f32, v_fma_f32
                                  and v_fmac_f32 */
    int other_dot;             /* of another type, among those */
    int from_byte, other_cvt;  /* v_cvt_f32_ubyte*, any other conversion */
    int subtract, packed_half; /* v_sub* of floats; v_pk_*_f16 and _bf16 */
    int mask, shift, perm;     /* v_and_or_b32 and v_and_b32; v_lshrrev_*; v_perm_b32 */
    int matrix, scaled_half;   /* v_wmma* and v_mfma*; v_pk_mul_f16 and v_pk_fma_f16 */
};

static void count_one(void *user, uint64_t offset, unsigned size, const char *text)
{
    struct mix *const m = user;
    const char *next = text;

    (void)offset, (void)size;
    while (next) { /* both halves of a dual-issued one */
        const char *const name = next + (!strncmp(next, "v_dual_", 7) ? 5 : 0);
        const bool dot2 = strstr(name, "dot2") && strstr(name, "dot2") < name + 9;
        const int dots = dot2 ? 1 : !strncmp(name, "v_mfma_f32_4x4x4", 16) ? 2 : 0;
        const char *const type = strstr(name, m->type);
        m->dot += dots;
        m->other_dot += type && type < name + strcspn(name, " ") ? 0 : dots;
        m->packed += !strncmp(name, "v_pk_fma_f32", 12);
        m->fused += !strncmp(name, "v_fma_f32", 9) || !strncmp(name, "v_fmac_f32", 10) ||
                    !strncmp(name, "l_fmac_f32", 10) || !strncmp(name, "v_fmaak", 7);
        m->from_byte += !strncmp(name, "v_cvt_f32_ubyte", 15);
        m->other_cvt += !strncmp(name, "v_cvt_", 6) && strncmp(name, "v_cvt_f32_ubyte", 15) != 0;
        m->subtract += !strncmp(name, "v_sub_f", 7) || !strncmp(name, "v_subrev_f", 10);
        m->packed_half += !strncmp(name, "v_pk_", 5) && memchr(name, '1', strcspn(name, " "));
        m->mask += !strncmp(name, "v_and_or_b32", 12) || !strncmp(name, "v_and_b32", 9) ||
                   !strncmp(name, "v_bitop3", 8);
        m->shift += !strncmp(name, "v_lshrrev_b", 11);
        m->matrix += !strncmp(name, "v_wmma", 6) || !strncmp(name, "v_mfma", 6);
        m->scaled_half += !strncmp(name, "v_pk_mul_f16", 12) || !strncmp(name, "v_pk_fma_f16", 12);
        m->perm += !strncmp(name, "v_perm_b32", 10);
        next = strstr(next, ":: ");
        next = next ? next + 3 : NULL;
    }
}

/* The mix of the kernel for m rows of A. */
static struct mix mix_of(const char *text, const char *target, int rows)
{
    const struct quern_problem p = t_problem(text);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    quern_ctx *const ctx = t_open_unverified(target, t_cache);
    const struct quern_disassembler d = quern_ctx_disassembler(ctx);
    struct plan_set set;
    struct object object;
    struct mix mix = {.type = p.a == QUERN_F16 ? "_f16" : "_bf16"};
    quern_op *op;

    if (quern_op_create_range(ctx, &p, rows, rows, &op) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
    assert_int_equal(object_parse(info.object, info.object_bytes, &object), QUERN_OK);
    const struct object_kernel *const k = object_kernel(&object, info.symbol);
    assert_non_null(k);
    assert_int_equal(k->scratch_bytes, 0);
    assert_int_equal(d.function(d.user, target, object_at(&object, k->entry, k->code_bytes),
                                k->code_bytes, count_one, &mix),
                     QUERN_OK);
    assert_int_equal(plan_make(&p, target_named(target), &set), QUERN_OK);
    const struct plan *const plan = plan_for(&set, rows);
    const struct simt_int4_shape *const simt = &plan->simt_int4;
    const struct matrix_shape *const matrix = &plan->matrix;
    const bool tiles = plan->family == &family_mma_int4;
    const int chunk = tiles ? matrix->chunk : simt->chunk;
    mix.words = tiles ? matrix->rows * chunk / 8 / 16 * matrix->units : simt->rows * chunk / 8;
    /* two of a chunk of A, with ones and with decoded zeros; where instructions are cheap to
     * repeat the compiler repeats that loop once */
    mix.sums = chunk * (target_named(target)->wave_size == 64 ? 1 : 2);
    object_free(&object);
    quern_op_release(op);
    quern_close(ctx);
    return mix;
}

static void expect(const char *text, const char *target, const char *what, int count, int least,
                   int most)
{
    if (count < least || count > most)
        fail_msg("%s on %s has %d %s; expected %d to %d", text, target, count, what, least, most);
}

#define ROWS 8  /* of W at most, with a scale and a zero point each */
#define FEW  24 /* addresses, and the like */

/* Per four dot products, of a word of eight weights: what its decoding may take, and nothing else.
 * The compiler may repeat the loop's body. Each word has four masks, so that products without any
 * are those of sums of A, which are made once for all rows of W. Scales meet sums of chunks, never
 * weights. */
static void expect_mix(const char *text, const char *target, int masks, int shifts, int perms)
{
    const struct mix m = mix_of(text, target, 1);

    expect(text, target, "dot products", m.dot, 4 * m.words, 12 * m.words);
    expect(text, target, "dot products of another type", m.other_dot, 0, 0);
    expect(text, target, "masks", m.mask, m.dot - m.sums, m.dot * masks / 4 + FEW);
    expect(text, target, "float multiplications", m.packed + m.fused, 0, m.dot * 3 / 8);
    expect(text, target, "shifts", m.shift, 0, m.dot * shifts / 4 + FEW);
    expect(text, target, "permutations", m.perm, 0, m.dot * perms / 4 + 2 * 32);
    expect(text, target, "conversions of a byte", m.from_byte, 0, 2 * ROWS);
    expect(text, target, "other conversions", m.other_cvt, 0, 2 * ROWS + 4);
    expect(text, target, "subtractions", m.subtract, 0, 0);
    expect(text, target, "packed 16-bit operations", m.packed_half, 0, 0);
}

static void test_mix_bf16(void **state)
{
    static const char *const targets[] = {"gfx1151", "gfx1201", "gfx942", "gfx950"};

    (void)state;
    for (int t = 0; t < COUNT(targets); t++) {
        if (ONE_IN == 1 || t % 2)
            expect_mix("wq=int4 n=4096 k=16384 a=bf16 zero=u8", targets[t], 4, 3, 0);
        if (ONE_IN == 1 || t % 2 == 0)
            expect_mix("wq=int4 n=4096 k=16384 a=bf16 zero=u8 layout=exl", targets[t], 4, 3, 0);
    }
}

/* f16 has a path of its own, with one shift a word instead of three. */
static void test_mix_f16(void **state)
{
    static const char *const targets[] = {"gfx1151", "gfx1201", "gfx942", "gfx950"};

    (void)state;
    for (int t = 0; t < COUNT(targets); t++)
        expect_mix("wq=int4 n=4096 k=16384 a=f16 zero=u8 layout=exl", targets[t], 4, 1, 0);
    expect_mix("wq=int4 n=4096 k=16384 a=f16", "gfx1151", 4, 1, 0);
}

/* Of f32: one conversion and half a packed operation per weight. */
static void test_mix_wide(void **state)
{
    static const char text[] = "wq=int4 n=4096 k=16384 a=f32 zero=u8";
    const struct mix m = mix_of(text, "gfx90a", 1);

    (void)state;
    expect(text, "gfx90a", "dot products", m.dot, 0, 0);
    /* the compiler may repeat the loop's body */
    expect(text, "gfx90a", "packed FMAs", m.packed, 4 * m.words, 8 * m.words + 2 * m.sums);
    expect(text, "gfx90a", "conversions of a byte", m.from_byte, 8 * m.words,
           2 * m.packed + 2 * ROWS);
    expect(text, "gfx90a", "masks", m.mask, 2 * m.words, m.packed / 2 + 4 * 4 + FEW);
    expect(text, "gfx90a", "subtractions", m.subtract, 0, 0);
}

/*
 * On matrix units: a word of eight weights takes masks, shifts, in f16 a packed addition for two
 * weights, and no more; no weight is converted, subtracted from or scaled as a float.
 */
static void test_mix_matrix(void **state)
{
    static const char *const targets[] = {"gfx1151", "gfx1201", "gfx942", "gfx950"};
    static const char *const zeros[] = {"none", "u8"};

    (void)state;
    for (int t = 0; t < COUNT(targets); t++)
        for (int i = 0; i < 4; i++) {
            const bool f16 = i % 2;
            if (ONE_IN > 1 && (t + i + i / 2) % 2)
                continue;
            char text[80];
            snprintf(text, sizeof text, "wq=int4 n=4096 k=16384 a=%s zero=%s layout=exl",
                     f16 ? "f16" : "bf16", zeros[i / 2]);
            const struct mix m = mix_of(text, targets[t], 16);
            const int words = m.words;
            expect(text, targets[t], "matrix instructions", m.matrix, words / 2, 4 * words);
            expect(text, targets[t], "masks", m.mask, 4 * words, 5 * words + 2 * FEW);
            expect(text, targets[t], "shifts", m.shift, 0, (f16 ? 2 : 4) * words + FEW);
            /* and one for a zero point */
            expect(text, targets[t], "packed additions", m.packed_half, 0,
                   f16 ? 4 * words + i / 2 * words / 4 : 0);
            expect(text, targets[t], "scaled halves", m.scaled_half, 0, 0);
            expect(text, targets[t], "conversions of a byte", m.from_byte, 0, words / 2 + 4);
            expect(text, targets[t], "other conversions", m.other_cvt, 0, words + FEW);
            expect(text, targets[t], "subtractions", m.subtract, 0, words / 2 + 4);
        }
}

/* Without pairs of dot products, sums of A for all of a workgroup would never be written. */
static void test_sums_need_pairs(void **state)
{
    static const char pairs[] = "#define PAIRED 1";
    const struct quern_problem p = t_problem("wq=int4 n=4096 k=4096 group=32 a=bf16 zero=u8");
    struct compiler *const compiler = t_compiler_open(1, 0);
    struct str source = {0}, options = {0};
    struct compile_result result = {0};
    struct plan_set set;

    (void)state;
    assert_int_equal(plan_make(&p, target_named("gfx1151"), &set), QUERN_OK);
    assert_int_equal(plan_for(&set, 16)->matrix.code_offset, CODE_OFFSET_SHARED);
    assert_int_equal(gen_source(plan_for(&set, 16), &source), QUERN_OK);
    gen_options(plan_for(&set, 16), &options);
    char *const text = str_take(&source), *const at = strstr(text, pairs);
    assert_non_null(at);
    at[sizeof pairs - 2] = '0';
    assert_int_equal(t_compile(compiler, text, "gfx1151", str_text(&options), &result),
                     QUERN_E_COMPILE);
    assert_non_null(strstr(quern_last_error()->log, "are issued in pairs"));
    free(text);
    str_free(&options);
    compiler_close(compiler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sixteen),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_halves_of_blocks),
        cmocka_unit_test(test_halves_of_tiles),
        cmocka_unit_test(test_room_for_three_tiles),
        cmocka_unit_test(test_ends_of_squares),
        cmocka_unit_test(test_predequant_words),
        cmocka_unit_test(test_offset),
        cmocka_unit_test(test_mix_bf16),
        cmocka_unit_test(test_mix_f16),
        cmocka_unit_test(test_mix_wide),
        cmocka_unit_test(test_mix_matrix),
        cmocka_unit_test(test_sums_need_pairs),
    };

    return cmocka_run_group_tests_name("int4", tests, t_cache_make, t_cache_remove);
}
