/* SPDX-License-Identifier: MIT */
/*
 * Mutants of kernels of quern's own (mutants.h). T_MUTANTS=all takes hundreds of kernels instead of
 * a few (test_lint_mutants_long).
 */
#include "mutants.h"
#include "t_build.h"
#include "t_explore.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t address_of(const struct quern_operand *operands, const uint64_t *address,
                           size_t count, const struct quern_launch_arg *a)
{
    for (size_t i = 0; a->kind == QUERN_ARG_POINTER && !a->is_null && i < count; i++)
        if (!strcmp(operands[i].name, a->name))
            return address[i];
    return (uint64_t)a->value;
}

/* Operands and arguments of a kernel as the plan has them, for one workgroup. */
static void bench_fill(struct bench *b, const struct quern_problem *p, int m,
                       const struct quern_launch *plan)
{
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    uint64_t address[QUERN_OPERANDS_MAX];
    size_t count;

    assert_int_equal(quern_problem_operands(p, m, operands, &count), QUERN_OK);
    for (size_t i = 0; i < count; i++)
        address[i] = bench_buffer(b, operands[i].bytes, operands[i].access, operands[i].name);
    for (size_t i = 0; i < plan->arg_count; i++) {
        const struct quern_launch_arg *const a = &plan->args[i];
        const size_t bytes = a->kind == QUERN_ARG_I32 || a->kind == QUERN_ARG_U32 ? 4 : 8;
        const uint64_t value = address_of(operands, address, count, a);
        size_t *const at = &b->launch.kernarg_bytes;
        *at = (*at + bytes - 1) / bytes * bytes;
        memcpy(b->kernarg + *at, &value, bytes);
        *at += bytes;
    }
    b->launch.lds_bytes = plan->lds_bytes;
    memcpy(b->launch.block, plan->block, sizeof plan->block);
}

static void mutate_kernels(quern_ctx *ctx, const char *problem, int m)
{
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    const struct quern_problem p = t_problem(problem);
    const struct quern_disassembler d = quern_ctx_disassembler(ctx);
    struct quern_launch launches[QUERN_LAUNCHES_MAX];
    struct object object;
    struct listing l;
    struct bench bench;
    size_t count;
    quern_op *op;

    if (quern_op_create_range(ctx, &p, m, m, &op) != QUERN_OK)
        return; /* declined on this target */
    assert_int_equal(quern_op_launches(op, m, launches, &count), QUERN_OK);
    assert_int_equal(quern_op_kernel(op, launches[count - 1].kernel, &info), QUERN_OK);
    assert_int_equal(object_parse(info.object, info.object_bytes, &object), QUERN_OK);
    listing_read(&l, &d, &object, object_kernel(&object, info.symbol));
    assert_false(is_wrong(&l));
    assert_null(findings(&l));
    bench_open(&bench, &l, info.object, info.object_bytes, info.symbol);
    bench_fill(&bench, &p, m, &launches[count - 1]);
    mutate(&l, &bench);
    bench_close(&bench);
    free(l.lines);
    object_free(&object);
    quern_op_release(op);
}

static void the_scan_finds_what_is_wrong(void **state)
{
    static const char *const targets[] = {"gfx942", "gfx1151", "gfx1201", "gfx90a",
                                          "gfx950", "gfx1100", "gfx1103", "gfx1200"};
    static const char *const problems[] = {
        "wq=nf4 n=512 k=1024 a=bf16",
        "wq=int4 n=512 k=1024 a=f16 zero=u8",
        "wq=fp8 n=512 k=1024 a=f16",
        "op=dequant wq=nf4 n=512 k=1024 c=bf16",
        "wq=none n=512 k=1024 a=f16",
        "wq=none n=512 k=1000 a=f32",
        "wq=mxfp4 n=512 k=1024 a=bf16 bias=1",
        "wq=fp4 n=512 k=1024 a=f16 scale=nested",
        "wq=int4 n=512 k=1024 a=bf16 zero=scaled group=32",
        "wq=int4 n=512 k=1024 a=bf16 layout=ck round=trunc",
        "wq=fp8 n=512 k=1024 a=fp8",
        "wq=nf4 n=512 k=1024 a=f32",
    };
    static const int rows[] = {1, 16, 2, 4, 8, 64, 512};
    const char *const wanted = getenv("T_MUTANTS");
    const bool all = wanted && !strcmp(wanted, "all");

    (void)state;
    neighbours = all ? 1 : 3;
    const size_t some_targets = all ? COUNT(targets) : T_SANITIZED ? 2 : 3;
    const size_t some_problems = all ? COUNT(problems) : 2;
    const size_t some_rows = all ? COUNT(rows) : T_SANITIZED ? 1 : 2;
    struct t_walk walk = t_walk(some_targets * some_problems * some_rows, 1);
    int asked = 0;
    for (size_t i; t_walk_next(&walk, &i);) {
        const size_t r = i % some_rows, p = i / some_rows % some_problems;
        quern_ctx *const ctx =
            t_open(targets[i / some_rows / some_problems], t_cache, QUERN_JIT_ON);
        /* what dequantises has no rows of A */
        if (!starts(problems[p], "op=") || !r) {
            mutate_kernels(ctx, problems[p], rows[r]);
            asked++;
        }
        quern_close(ctx);
    }
    print_tally();
    /* of all problems targets decline a few, of the first two none */
    assert_true(tally.kernels * 5 >= asked * (all ? 4 : 5));
    assert_true(tally.run > tally.kernels * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_scan_finds_what_is_wrong)};

    return cmocka_run_group_tests_name("mutants", tests, t_cache_make, t_cache_remove);
}
