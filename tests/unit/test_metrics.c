/* SPDX-License-Identifier: MIT */
/*
 * What shipped kernels ask of the parts of a GPU besides instructions, counted on the software GPU:
 * one layer on two kinds of GPU. test_metrics_long has the other layers and targets.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_metrics.h"

static void one(const char *target, const char *problem)
{
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    const struct t_metrics x = t_metrics_of(ctx, target, problem, 1);

    t_metrics_check(target, problem, 1, 0, &x);
    quern_close(ctx);
}

static void rdna(void **state)
{
    (void)state;
    one("gfx1151", "wq=nf4 n=4096 k=4096 a=bf16");
}

static void cdna(void **state)
{
    (void)state;
    one("gfx942", "wq=nf4 n=4096 k=4096 a=bf16");
}

static void int4(void **state)
{
    (void)state;
    one("gfx1201", "wq=int4 n=4096 k=4096 a=f16 zero=u8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rdna),
        cmocka_unit_test(cdna),
        cmocka_unit_test(int4),
    };

    return cmocka_run_group_tests_name("metrics", tests, t_cache_make, t_cache_remove);
}
