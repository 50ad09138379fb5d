/* SPDX-License-Identifier: MIT */
/* Launches that write and read 4 GiB take less than 2 GiB beyond them, in whatever order. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_room.h"

static void four_gib(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 8; n++) {
        const struct t_room_job job = {.bytes = (uint64_t)4 << 30,
                                       .groups = 256,
                                       .columns = n & 1,
                                       .reads = n & 2};
        const enum quern_sim_check check = n & 4 ? QUERN_CHECK_FULL : QUERN_CHECK_FAST;
        const size_t most = t_room_peak(&job, check);
        print_message("%s, %s, %s: %zu MiB\n", check == QUERN_CHECK_FULL ? "full" : "fast",
                      job.reads ? "read" : "written", job.columns ? "in columns" : "in runs",
                      most >> 20);
        assert_true(most < (size_t)2 << 30);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(four_gib)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
