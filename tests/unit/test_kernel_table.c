/* SPDX-License-Identifier: MIT */
/*
 * tests/regress/kernels.csv: what the compiler makes of the kernels of one layer on every kind of
 * target, so that a change in any of them shows as a diff. T_REGENERATE=1 in the environment
 * rewrites it. The figures are one toolchain's; with another there is nothing to compare. None is
 * of the whole object, whose symbol __hip_cuid_… has a hash of the source in its name: with that,
 * the size of its tables moves when no more than a comment changes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_metrics.h"
#include "t_paths.h"

#include "base/os.h"
#include "base/str.h"
#include "compile/compile.h"
#include "object/object.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE "tests/regress/kernels.csv"

/* Of the targets one of each family comes first: a few are compared here, all in
 * test_kernel_table_long.c. */
static const char *const targets[] = {"gfx942", "gfx1151", "gfx1201", "gfx906",
                                      "gfx90a", "gfx950",  "gfx1030", "gfx1100"};
#ifndef COMPARED
#define COMPARED 3
#endif
/* One line each for the kernel that serves m rows. */
static const struct {
    const char *problem;
    int m;
} kernels[] = {
    {"wq=nf4 n=4096 k=4096 a=f16", 1},
    {"wq=nf4 n=4096 k=4096 a=f16", 8},
    {"wq=nf4 n=4096 k=4096 a=bf16", 1},
    {"wq=nf4 n=4096 k=4096 a=bf16", 8},
    {"wq=nf4 n=4096 k=4096 a=f32", 1},
    {"wq=nf4 n=4096 k=4096 a=f32", 8},
    {"wq=nf4 n=4096 k=2560 a=bf16 scale=nested", 1},
    {"wq=nf4 n=1024 k=2560 a=bf16", 4},
    {"wq=mxfp4 n=5760 k=2880 a=bf16", 1},
    {"wq=nf4 n=3840 k=15360 a=f16", 8}, /* broke the compiler for gfx9 once */
    {"wq=int4 n=4096 k=4096 a=f16", 1},
    {"wq=int4 n=4096 k=4096 a=f16 zero=u8", 8},
    {"wq=int4 n=4096 k=4096 a=bf16 zero=u8", 1},
    {"wq=int4 n=4096 k=4096 a=bf16 layout=ck", 4},
    {"wq=int4 n=4096 k=4096 a=bf16 group=32", 8},
    {"wq=none n=4096 k=4096 a=bf16", 1},
    {"wq=fp8 n=4096 k=4096 a=fp8", 4},
    {"op=dequant wq=nf4 n=4096 k=4096 c=bf16", 1},
};

/* Identity of the compiler that is at hand; false when there is none. */
static bool toolchain(char *text, size_t size)
{
    const struct compiler_config config = {.worker_path = t_worker_path(), .jobs = 1};
    struct compiler *compiler;
    const struct toolchain *found;

    assert_int_equal(compiler_open(&config, &compiler), QUERN_OK);
    found = compiler_toolchain(compiler);
    if (found)
        snprintf(text, size, "%s", found->identity);
    compiler_close(compiler);
    return found != NULL;
}

/* Waits and their like take no issue slot. */
static void count_one(void *user, uint64_t offset, unsigned size, const char *text)
{
    static const char *const free_of_charge[] = {"s_wait", "s_delay_alu", "s_clause", "s_nop"};
    unsigned *const count = user;

    (void)offset, (void)size;
    for (size_t i = 0; i < sizeof free_of_charge / sizeof *free_of_charge; i++)
        if (!strncmp(text, free_of_charge[i], strlen(free_of_charge[i])))
            return;
    ++*count;
}

static void add_line(struct str *table, quern_ctx *ctx, const char *text, int m)
{
    const struct quern_problem p = t_problem(text);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    unsigned instructions = 0;
    struct object object;
    quern_op *op;

    if (quern_op_create_range(ctx, &p, m, m, &op) != QUERN_OK)
        fail_msg("%s m=%d: %s", text, m, quern_last_error()->message);
    assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
    assert_int_equal(object_parse(info.object, info.object_bytes, &object), QUERN_OK);
    const struct object_kernel *const k = object_kernel(&object, info.symbol);
    assert_non_null(k);
    assert_int_equal(object.code_object_version, 5); /* what loaders of ROCm 6.0 and 6.1 accept */
    if (k->scratch_bytes || k->vgpr_spills || k->sgpr_spills)
        fail_msg("%s on %s spills", info.symbol, object.target->name);
    t_each_instruction(ctx, &info, count_one, &instructions);
    str_addf(table, "%s,%s,%u,%u,%u,%u,%" PRIu64 ",%u\n", object.target->name, info.symbol,
             k->vgprs, k->agprs, k->sgprs, k->lds_bytes, k->code_bytes, instructions);
    object_free(&object);
    quern_op_release(op);
}

static void make_table(struct str *table, const char *identity, size_t count)
{
    str_addf(table, "# toolchain %s\n", identity);
    str_add(table, "target,kernel,vgprs,agprs,sgprs,lds,code bytes,instructions\n");
    for (size_t t = 0; t < count; t++) {
        struct quern_options options = QUERN_INIT(struct quern_options);
        quern_ctx *ctx;

        options.device = QUERN_DEVICE_NONE;
        options.target = targets[t];
        options.cache_dir = t_cache;
        options.worker_path = t_worker_path();
        options.allow_unverified = 1;
        assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            add_line(table, ctx, kernels[i].problem, kernels[i].m);
        quern_close(ctx);
    }
}

/* The first lines of what is kept must be those that were made. */
static void compare(const char *made, const char *kept)
{
    while (*made) {
        const size_t n = strcspn(made, "\n"), m = strcspn(kept, "\n");

        if (n != m || strncmp(made, kept, n))
            fail_msg(TABLE ": \"%.*s\" is now \"%.*s\"; if that is meant, run this test with "
                           "T_REGENERATE=1",
                     (int)m, kept, (int)n, made);
        made += n + (made[n] != 0);
        kept += m + (kept[m] != 0);
    }
}

static void test_table(void **state)
{
    const char *const regenerate = getenv("T_REGENERATE");
    struct str table = {0};
    char identity[512], *kept, expected[600];
    size_t size;

    (void)state;
    if (!toolchain(identity, sizeof identity))
        fail_msg("%s", quern_last_error()->message);
    if (regenerate && !strcmp(regenerate, "1")) {
        make_table(&table, identity, sizeof targets / sizeof *targets);
        FILE *const f = fopen(TABLE, "w");
        assert_non_null(f);
        assert_true(fputs(str_text(&table), f) >= 0);
        assert_int_equal(fclose(f), 0);
        str_free(&table);
        return;
    }
    const int error = os_read_file(TABLE, 1 << 20, &kept, &size);
    if (error)
        fail_msg("%s: %s", TABLE, strerror(error));
    snprintf(expected, sizeof expected, "# toolchain %s\n", identity);
    if (strncmp(kept, expected, strlen(expected))) {
        free(kept);
        fprintf(stderr, "%s was made with another toolchain than %s\n", TABLE, identity);
        skip();
    }
    make_table(&table, identity, COMPARED);
    compare(str_text(&table), kept);
    str_free(&table);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};

    return cmocka_run_group_tests_name("kernel table", tests, t_cache_make, t_cache_remove);
}
