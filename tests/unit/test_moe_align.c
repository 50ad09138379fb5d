/* SPDX-License-Identifier: MIT */
/*
 * op=moe_align: its kernels on every verified target of AMD's, run under the full check of the
 * software GPU with ids of many kinds, and texts for NVIDIA's targets, run on the CPU with a sample
 * of those, must write what is worked out here from the definition, integer by integer; faults that
 * are planted in a kernel's text must be found by quern_verify (those for NVIDIA are in
 * tests/cpu/test_cpu.c); and what a launch refuses. This file is long because all of these share
 * the definition and the ids.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_compile.h"
#include "t_context.h"
#include "t_explore.h"
#include "t_gpu.h"
#include "t_runs.h"

#include "cpu/cpu.h"
#include "dispatch/dispatch.h"
#include "gen/gen.h"
#include "plan/plan.h"

#include <quern/tool.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- What is right --------------------------------------------------------------------------- */

/* The results of a launch. */
struct blocks {
    int64_t slots, blocks;
    int32_t *rows, *experts, used;
};

static struct blocks make_blocks(const struct quern_problem *p, int64_t tokens)
{
    const int64_t choices = tokens * p->top_k, b = p->block_rows;
    const int64_t padded = choices + p->experts * (b - 1), alone = choices * b;
    struct blocks x = {.blocks = ((padded < alone ? padded : alone) + b - 1) / b};

    x.slots = x.blocks * b;
    x.rows = malloc((size_t)x.slots * sizeof *x.rows);
    x.experts = malloc((size_t)x.blocks * sizeof *x.experts);
    assert_true(x.rows && x.experts);
    return x;
}

static void free_blocks(struct blocks *x)
{
    free(x->rows);
    free(x->experts);
}

/* By the definition: the choices of each expert, one behind another, each in blocks of its own. */
static struct blocks right_blocks(const struct quern_problem *p, int64_t tokens, const int32_t *ids)
{
    const int32_t choices = (int32_t)tokens * p->top_k;
    int32_t *const next = calloc((size_t)p->experts + 1, sizeof *next);
    struct blocks x = make_blocks(p, tokens);

    assert_non_null(next);
    for (int64_t i = 0; i < x.slots; i++)
        x.rows[i] = choices;
    for (int64_t i = 0; i < x.blocks; i++)
        x.experts[i] = -1;
    for (int32_t i = 0; i < choices; i++)
        if (ids[i] >= 0 && ids[i] < p->experts)
            next[ids[i]]++;
    for (int32_t e = 0; e < p->experts; e++) {
        const int32_t blocks = (next[e] + p->block_rows - 1) / p->block_rows;
        next[e] = x.used;
        for (int32_t i = 0; i < blocks; i++)
            x.experts[x.used / p->block_rows + i] = e;
        x.used += blocks * p->block_rows;
    }
    for (int32_t i = 0; i < choices; i++)
        if (ids[i] >= 0 && ids[i] < p->experts)
            x.rows[next[ids[i]]++] = i;
    free(next);
    return x;
}

/* Whether the two are equal; if not, what differs first is the last error. */
static bool same_blocks(const struct blocks *got, const struct blocks *want)
{
    if (got->used != want->used) {
        error_set(QUERN_E_VERIFY, "", "", "rows_used is %d, not %d", got->used, want->used);
        return false;
    }
    for (int64_t i = 0; i < want->slots; i++)
        if (got->rows[i] != want->rows[i]) {
            error_set(QUERN_E_VERIFY, "", "", "rows[%lld] is %d, not %d", (long long)i,
                      got->rows[i], want->rows[i]);
            return false;
        }
    for (int64_t i = 0; i < want->blocks; i++)
        if (got->experts[i] != want->experts[i]) {
            error_set(QUERN_E_VERIFY, "", "", "experts[%lld] is %d, not %d", (long long)i,
                      got->experts[i], want->experts[i]);
            return false;
        }
    return true;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

enum kind { UNIFORM, ONE, NONE, MIXED, SKEWED, TURNS, KINDS };

static int32_t id_of(enum kind kind, const struct quern_problem *p, int64_t choice, uint64_t *state)
{
    static const int32_t nobody[] = {-1, INT32_MIN, INT32_MAX, 1024, -1024};
    const uint64_t drawn = t_random(state) >> 16;
    const int32_t any = (int32_t)(drawn % (uint64_t)p->experts);

    switch (kind) {
    case ONE: /* the last expert has all choices */
        return p->experts - 1;
    case NONE:
        return nobody[choice % COUNT(nobody)];
    case MIXED: /* one in three is no expert's; p->experts is the first that is none */
        return drawn >> 20 & 1   ? any
               : drawn >> 21 & 1 ? nobody[choice % COUNT(nobody)]
                                 : p->experts;
    case SKEWED: /* half of them go to one expert, a quarter to the next, and so on */
        return (int32_t)(__builtin_ctzll(drawn | 1ull << 40) % p->experts);
    case TURNS:
        return (int32_t)(choice % p->experts);
    default:
        return any;
    }
}

static int32_t *make_ids(enum kind kind, const struct quern_problem *p, int64_t tokens)
{
    int32_t *const ids = malloc((size_t)(tokens * p->top_k) * sizeof *ids);
    uint64_t state = (uint64_t)tokens * 977 + (uint64_t)kind;

    assert_non_null(ids);
    for (int64_t i = 0; i < tokens * p->top_k; i++)
        ids[i] = id_of(kind, p, i, &state);
    return ids;
}

/* ---- Running kernels ------------------------------------------------------------------------- */

/* Runs an op's launch for so many tokens on a software GPU, as its launch plan says. */
static quern_status run(quern_op *op, quern_sim *sim, int64_t tokens, const int32_t *ids,
                        struct blocks *x)
{
    const struct quern_problem *const p = &op->spelling.problem;
    struct quern_launch launches[QUERN_LAUNCHES_MAX];
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    struct quern_sim_launch launch = QUERN_INIT(struct quern_sim_launch);
    struct {
        uint64_t at[4];
        int32_t choices;
    } kernarg;
    const struct t_buffer buffers[] = {
        {(void *)(uintptr_t)ids, (size_t)(tokens * p->top_k) * 4, QUERN_SIM_READ, "topk_ids"},
        {x->rows, (size_t)x->slots * 4, QUERN_SIM_WRITE, "rows"},
        {x->experts, (size_t)x->blocks * 4, QUERN_SIM_WRITE, "experts"},
        {&x->used, 4, QUERN_SIM_WRITE, "rows_used"},
    };
    quern_sim_module *module;
    size_t count;

    TRY(quern_op_launches(op, tokens, launches, &count));
    TRY(quern_op_kernel(op, 0, &info));
    assert_int_equal(count, 1);
    assert_int_equal(launches->arg_count, 5);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(launches->args[i].name, buffers[i].name);
        memset(buffers[i].host, buffers[i].access == QUERN_SIM_WRITE ? 0xa5 : 0,
               buffers[i].access == QUERN_SIM_WRITE ? buffers[i].bytes : 0);
        TRY(quern_sim_map(sim, buffers[i].host, buffers[i].bytes, buffers[i].access,
                          buffers[i].name, &kernarg.at[i]));
    }
    assert_string_equal(launches->args[4].name, "m");
    kernarg.choices = (int32_t)launches->args[4].value;
    assert_int_equal(kernarg.choices, tokens * p->top_k);
    launch.kernel = info.symbol;
    memcpy(launch.grid, launches->grid, sizeof launch.grid);
    memcpy(launch.block, launches->block, sizeof launch.block);
    launch.kernarg = &kernarg;
    launch.kernarg_bytes = offsetof(__typeof__(kernarg), choices) + 4;
    TRY(quern_sim_load(sim, info.object, info.object_bytes, &module));
    const quern_status status = quern_sim_run(module, &launch, NULL);
    quern_sim_unload(module);
    for (int i = 0; i < 4; i++)
        assert_int_equal(quern_sim_unmap(sim, kernarg.at[i]), QUERN_OK);
    return status;
}

static void check_ids(quern_op *op, quern_sim *sim, enum kind kind, int64_t tokens)
{
    const struct quern_problem *const p = &op->spelling.problem;
    int32_t *const ids = make_ids(kind, p, tokens);
    struct blocks got = make_blocks(p, tokens), want = right_blocks(p, tokens, ids);
    struct blocks cpu = make_blocks(p, tokens);
    int64_t slots;

    assert_int_equal(quern_moe_slots(p, tokens, &slots), QUERN_OK);
    assert_int_equal(slots, want.slots);
    assert_int_equal(quern_moe_align(p, tokens, ids, cpu.rows, cpu.experts, &cpu.used), QUERN_OK);
    if (!same_blocks(&cpu, &want))
        t_runs_failed(op->text, "the CPU", (int)tokens);
    if (run(op, sim, tokens, ids, &got) != QUERN_OK || !same_blocks(&got, &want))
        t_runs_failed(op->text, op->ctx->id.target->name, (int)tokens);
    free_blocks(&got);
    free_blocks(&want);
    free_blocks(&cpu);
    free(ids);
}

/* Shapes, of which the first two are run on every target, for few tokens with every kind of ids; of
 * the others one in three. Outside check-long (EXPLORE) the former have one target in ONE_IN each,
 * and the latter a quarter of theirs. Where not all are run, shapes and kinds take turns. */
#define EVERYWHERE 2
#define ONE_IN     3
static const struct {
    int experts, top_k, block_rows;
} shapes[] = {
    {128, 8, 16}, {1024, 2, 128}, {1, 1, 1},     {1, 4, 64},  {2, 1, 128},
    {8, 2, 32},   {33, 3, 4},     {60, 4, 2},    {256, 8, 8}, {257, 1, 1},
    {512, 6, 64}, {1000, 8, 1},   {1023, 5, 16},
};

static void check_shape(quern_ctx *ctx, quern_sim *sim, int shape, int turn)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    quern_op *op;

    p.op = QUERN_OP_MOE_ALIGN;
    p.experts = shapes[shape].experts;
    p.top_k = shapes[shape].top_k;
    p.block_rows = shapes[shape].block_rows;
    const int64_t most = 65536 / p.top_k;
    const int64_t tokens[] = {1, 7, 64 / p.top_k + 1, 1000, most < 8192 ? most : 8192, most};
    if (quern_op_create(ctx, &p, most, &op) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    /* the largest are many instructions of the same code: each of the first shapes has them on the
     * one of the first targets where it is asked for, and sanitizers need not see them */
    const bool whole = t_explores() || (shape < EVERYWHERE && turn < ONE_IN);
    const int left_out = T_SANITIZED || !whole ? 2 : 0;
    for (int i = 0; i < COUNT(tokens) - left_out; i++)
        for (int kind = 0; kind < KINDS; kind++)
            if (kind == (i + shape + turn) % KINDS || (shape < EVERYWHERE && i < 3))
                check_ids(op, sim, (enum kind)kind, tokens[i]);
    quern_op_release(op);
}

static bool is_asked_for(int shape, int turn)
{
    if (shape < EVERYWHERE)
        return T_SANITIZED ? turn == 0 : t_takes((size_t)(shape + turn), ONE_IN);
    return (shape + turn) % (t_explores() ? 3 : 12) == 0;
}

static void test_kernels(void **state)
{
    int turn = 0;

    (void)state;
    for (size_t t = 0; t < target_count(); t++) {
        const char *const target = target_at(t)->name;
        struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);
        quern_sim *sim;
        if (!target_simulated(target_at(t)))
            continue;
        quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
        options.target = target;
        options.check = QUERN_CHECK_FULL;
        options.disassembler = quern_ctx_disassembler(ctx);
        options.worker_path = ctx->settings.worker_path;
        assert_int_equal(quern_sim_open(&options, &sim), QUERN_OK);
        for (int shape = 0; shape < COUNT(shapes); shape++)
            if (is_asked_for(shape, turn))
                check_shape(ctx, sim, shape, turn);
        turn++;
        quern_sim_close(sim);
        quern_close(ctx);
    }
    assert_true(turn > 3);
    t_runs_expect_none();
}

/* ---- Texts on the CPU ------------------------------------------------------------------------ */

/* Of the first of them all kinds of ids are run, with few choices; of the others some. sm_86 has
 * little shared memory: with 1024 experts its workgroups are smaller than others, and a work-item
 * has two experts. */
static const struct {
    const char *target;
    int experts, top_k, block_rows;
    int64_t most; /* tokens of the largest launch */
} texts[] = {
    {"sm_90", 128, 8, 16, 1000}, {"sm_90", 1024, 2, 128, 32768}, {"sm_86", 1024, 64, 32, 100},
    {"sm_90", 1, 4, 64, 500},    {"sm_90", 33, 3, 1, 3000},
};

static void run_text(struct cpu_program *program, const struct plan *plan, enum kind kind,
                     int64_t tokens)
{
    const struct quern_problem *const p = &plan->problem;
    int32_t *const ids = make_ids(kind, p, tokens);
    struct blocks got = make_blocks(p, tokens), want = right_blocks(p, tokens, ids);
    const int64_t choices = tokens * p->top_k;
    const struct cpu_launch launch = {
        .grid = {(uint32_t)plan->row_groups, 1},
        .threads = (uint32_t)plan->waves * plan->wave_size,
        .shared_bytes = plan_launch_lds(plan),
        .seed = (uint64_t)tokens + kind,
        .count = 5,
        .arguments = {
            {.name = "topk_ids", .at = ids, .bytes = (size_t)choices * 4},
            {.name = "rows", .at = got.rows, .bytes = (size_t)got.slots * 4, .written = true},
            {.name = "experts",
             .at = got.experts,
             .bytes = (size_t)got.blocks * 4,
             .written = true},
            {.name = "rows_used", .at = &got.used, .bytes = 4, .written = true},
            {.bytes = 4, .value = choices}}};

    memset(got.rows, 0xa5, (size_t)got.slots * 4);
    memset(got.experts, 0xa5, (size_t)got.blocks * 4);
    if (cpu_program_run(program, &launch) != QUERN_OK || !same_blocks(&got, &want))
        t_runs_failed(plan->symbol, plan->target->name, (int)tokens);
    free_blocks(&got);
    free_blocks(&want);
    free(ids);
}

static void test_texts(void **state)
{
    (void)state;
    for (int i = 0; i < (T_SANITIZED ? 1 : COUNT(texts)); i++) {
        if (!t_takes((size_t)i, 2))
            continue;
        struct quern_problem p = QUERN_INIT(struct quern_problem);
        struct cpu_program *program;
        struct plan_set set;
        struct str source = {0};
        p.op = QUERN_OP_MOE_ALIGN;
        p.experts = texts[i].experts;
        p.top_k = texts[i].top_k;
        p.block_rows = texts[i].block_rows;
        const int64_t tokens[] = {1, 7, 64 / p.top_k + 1, texts[i].most};
        assert_int_equal(plan_make(&p, target_named(texts[i].target), &set), QUERN_OK);
        assert_int_equal(gen_source(set.plans, &source), QUERN_OK);
        if (cpu_program_make(str_text(&source), &program) != QUERN_OK)
            fail_msg("%s\n%s", quern_last_error()->message, quern_last_error()->log);
        for (int j = 0; j < COUNT(tokens); j++)
            for (int kind = 0; kind < KINDS; kind++)
                if (kind == (i + j) % KINDS || (!i && j < 3))
                    run_text(program, set.plans, (enum kind)kind, tokens[j]);
        cpu_program_free(program);
        str_free(&source);
    }
    t_runs_expect_none();
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* In a kernel's text, each makes one number wrong, or an order, or a race. */
static const struct {
    const char *text, *instead;
    quern_status found;
    const char *says;
} faults[] = {
    {"rows[slot] = at + i * WAVE + lane;", "rows[slot] = at + i * WAVE + lane + (slot == 37);",
     QUERN_E_VERIFY, "rows[37] is "},
    {"experts[slot / BLOCK_ROWS] = id[i];",
     "experts[slot / BLOCK_ROWS] = id[i] + (slot / BLOCK_ROWS == 2);", QUERN_E_VERIFY,
     "experts[2] is "},
    {"experts[block] = NOBODY;", "experts[block] = block + 1 == all_blocks ? 0 : NOBODY;",
     QUERN_E_VERIFY, "] is 0, and by the CPU -1; 1 of its "},
    {"experts[block] = NOBODY;", ";", QUERN_E_VERIFY, "] is -1515870811, and by the CPU -1; "},
    {"*rows_used = used;", "*rows_used = used + 1;", QUERN_E_VERIFY, "rows_used[0] is "},
    {"rows[slot] = choices;\n    for (u32 block", "rows[slot] = choices + 1;\n    for (u32 block",
     QUERN_E_VERIFY, ", and by the CPU 1600; "},
    {"const u32 rank = lanes_below(alike);",
     "const u32 rank = (u32)__builtin_popcountll(alike) - 1 - lanes_below(alike);", QUERN_E_VERIFY,
     "rows["},
    {"    barrier();\n    count<WAVE>", "    count<WAVE>", QUERN_E_FAULT, ""},
};

/* The text with the last place where `old` stands changed; fails the test if there is none. */
static char *replaced(const char *text, const char *old, const char *new)
{
    const char *at = NULL;
    char *out;

    for (const char *next = strstr(text, old); next; next = strstr(next + 1, old))
        at = next;
    if (!at)
        fail_msg("the kernel's text has no \"%s\"", old);
    assert_true(asprintf(&out, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old)) > 0);
    return out;
}

static void test_faults(void **state)
{
    const struct quern_problem p = t_problem("op=moe_align experts=40 top_k=4 block_rows=8");
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    struct compiler *const compiler = t_compiler_open(1, 0);
    struct str source = {0}, compiler_options = {0};
    quern_op *op;

    (void)state;
    assert_int_equal(quern_op_create(ctx, &p, 400, &op), QUERN_OK);
    struct kernel *const kernel = atomic_load(&op->kernels)->kernels[0];
    const struct object right = kernel->object;
    assert_int_equal(gen_source(&kernel->plan, &source), QUERN_OK);
    gen_options(&kernel->plan, &compiler_options);
    for (int i = 0; i < COUNT(faults); i++) {
        struct quern_verification v = QUERN_INIT(struct quern_verification);
        struct compile_result made;
        char *const text = replaced(str_text(&source), faults[i].text, faults[i].instead);
        assert_int_equal(quern_verify(op, 400, 3, QUERN_CHECK_FULL, &v), QUERN_OK);
        assert_true(v.max_error == 0 && v.tolerance == 0);
        if (t_compile(compiler, text, "gfx1151", str_text(&compiler_options), &made) != QUERN_OK)
            fail_msg("%s: %s", faults[i].instead, quern_last_error()->log);
        assert_int_equal(object_parse(made.object, made.object_bytes, &kernel->object), QUERN_OK);
        const quern_status status = quern_verify(op, 400, 3, QUERN_CHECK_FULL, &v);
        if (status != faults[i].found || !strstr(quern_last_error()->message, faults[i].says))
            fail_msg("\"%s\" gave %d, \"%s\"", faults[i].instead, status,
                     status ? quern_last_error()->message : "");
        object_free(&kernel->object);
        kernel->object = right;
        compile_result_free(&made);
        free(text);
    }
    str_free(&source);
    str_free(&compiler_options);
    compiler_close(compiler);
    quern_op_release(op);
    quern_close(ctx);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void expect_refused(quern_op *op, const struct quern_args *args, int64_t m,
                           quern_status status, const char *says)
{
    assert_int_equal(quern_op_launch(op, args, m, NULL), status);
    t_message_has(says);
}

static void test_launches(void **state)
{
    const struct quern_problem p = t_problem("op=moe_align experts=8 top_k=2 block_rows=4");
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    struct quern_args args = QUERN_INIT(struct quern_args);
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    quern_buffer *there[4];
    const int64_t tokens = 40;
    int32_t *const ids = make_ids(MIXED, &p, tokens);
    struct blocks got = make_blocks(&p, tokens), want = right_blocks(&p, tokens, ids);
    void *const host[] = {ids, got.rows, got.experts, &got.used};
    int block_rows = 5;
    size_t count;
    quern_op *op;

    (void)state;
    assert_int_equal(quern_problem_operands(&p, tokens, operands, &count), QUERN_OK);
    assert_int_equal(count, 4);
    assert_int_equal(quern_op_create(ctx, &p, tokens, &op), QUERN_OK);
    assert_int_equal(quern_op_kernel_count(op), 1);
    for (size_t i = 0; i < count; i++) {
        const struct quern_operand *const o = &operands[i];
        assert_int_equal(o->access, i ? QUERN_SIM_WRITE : QUERN_SIM_READ);
        expect_refused(op, &args, tokens, QUERN_E_ARGUMENT, o->name);
        assert_int_equal(quern_buffer_create(ctx, o->bytes, o->access, o->name, &there[i]),
                         QUERN_OK);
        assert_int_equal(quern_args_set(&args, o->name, quern_buffer_address(there[i])), QUERN_OK);
        if (!i)
            assert_int_equal(quern_buffer_write(there[i], ids, o->bytes), QUERN_OK);
    }
    assert_int_equal(quern_op_launch(op, &args, tokens, NULL), QUERN_OK);
    for (size_t i = 1; i < count; i++)
        assert_int_equal(quern_buffer_read(there[i], host[i], operands[i].bytes), QUERN_OK);
    if (!same_blocks(&got, &want))
        fail_msg("%s", quern_last_error()->message);

    args.slots = want.slots;
    assert_int_equal(quern_op_launch(op, &args, tokens, NULL), QUERN_OK);
    args.slots = want.slots + 4;
    expect_refused(op, &args, tokens, QUERN_E_ARGUMENT, "op=moe_align expects 0 or the 104 that");
    args.slots = 0;
    expect_refused(op, &args, 32769, QUERN_E_ARGUMENT,
                   "m is 32769; a launch of op=moe_align takes at most 65536 choices, with top_k=2 "
                   "1 to 32768 tokens");
    expect_refused(op, &args, 0, QUERN_E_ARGUMENT, "m is 0");
    args.topk_ids = (const char *)args.topk_ids + 2;
    expect_refused(op, &args, tokens, QUERN_E_ALIGN, "args.topk_ids is ");
    assert_int_equal(quern_op_block_rows(op, tokens, &block_rows), QUERN_OK);
    assert_int_equal(block_rows, 0); /* no blocks of products */
    for (size_t i = 0; i < count; i++)
        quern_buffer_destroy(there[i]);
    quern_op_release(op);
    quern_close(ctx);
    free_blocks(&got);
    free_blocks(&want);
    free(ids);
}

/* One kernel serves every number of tokens. */
static void test_plans(void **state)
{
    const struct quern_problem p = t_problem("op=moe_align experts=1024 top_k=64 block_rows=128");
    static const int64_t tokens[] = {1, 9, 1024};
    struct plan_set set;

    (void)state;
    for (size_t t = 0; t < target_count(); t++) {
        const struct target *const target = target_at(t);
        assert_int_equal(plan_make(&p, target, &set), QUERN_OK);
        assert_int_equal(set.count, 1);
        assert_int_equal(set.m_max, 1024);
        assert_true(set.plans->lds_bytes <= target->lds_bytes);
        assert_in_range(set.plans->waves * (int)set.plans->wave_size, 64, 1024);
        for (int i = 0; i < COUNT(tokens); i++) {
            struct plan_slice slices[2];
            assert_int_equal(plan_slices(&set, tokens[i], slices), 1);
            assert_int_equal(slices->rows, tokens[i]);
            assert_int_equal(slices->slices, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),   cmocka_unit_test(test_launches),
        cmocka_unit_test(test_faults),  cmocka_unit_test(test_texts),
        cmocka_unit_test(test_kernels),
    };

    return cmocka_run_group_tests_name("moe_align", tests, t_cache_make, t_cache_remove);
}
