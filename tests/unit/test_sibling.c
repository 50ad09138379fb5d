/* SPDX-License-Identifier: MIT */
/*
 * That a processor is one row. The only row of this program is one that the table lacks: gfx1036, a
 * sibling of gfx1030 which the compiler knows. Kernels for it are planned, generated, compiled,
 * stored, looked up and verified on the software GPU, though nothing else knows its name.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_runs.h"

#include <string.h>

/* The macros of the rows; the rows themselves go by another name here. */
#define target_rows      rows_of_the_library
#define target_row_count row_count_of_the_library
#include "target/rows.c"
#undef target_rows
#undef target_row_count

const struct target target_rows[] = {
    {.name = "gfx1036",
     .elf_machine = 0x45,
     RDNA2,
     SIMULATED,
     PART("Ryzen 7000's Radeon", 2, 2.2, 83)},
};
const size_t target_row_count = 1;

static void test_it_is_the_only_target(void **state)
{
    (void)state;
    assert_int_equal(target_count(), 1);
    assert_null(target_named("gfx1030"));
    for (size_t i = 0; i < row_count_of_the_library; i++)
        assert_string_not_equal(rows_of_the_library[i].name, "gfx1036");
}

/* Every family that serves a target without matrix instructions. */
static void test_kernels_are_verified(void **state)
{
    static const char *const problems[] = {
        "wq=nf4 n=200 k=512 a=f16", "wq=fp4 n=64 k=384 a=f32 scale=nested bias=1",
        "wq=mxfp4 n=96 k=352 a=bf16", "wq=int4 n=200 k=512 a=f16 zero=u8",
        "wq=none n=50 k=100 a=bf16"};

    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int m = 1; m <= 4; m += 3)
            t_runs_add("gfx1036", m, "%s", problems[i]);
    t_runs_verify(t_cache, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_the_only_target),
        cmocka_unit_test(test_kernels_are_verified),
    };
    return cmocka_run_group_tests(tests, t_cache_make, t_cache_remove);
}
