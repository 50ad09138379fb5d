/* SPDX-License-Identifier: MIT */
/* Launches that write and read 4 GiB take less than 2 GiB beyond them, and those that touch every
 * page of 1 GiB from every workgroup less than half of it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_room.h"

static size_t room(const struct t_room_job *job, enum quern_sim_check check)
{
    const size_t most = t_room_peak(job, check);

    print_message("%s, %s, %s: %zu MiB\n", check == QUERN_CHECK_FULL ? "full" : "fast",
                  job->reads ? "read" : "written", job->columns ? "in columns" : "in runs",
                  most >> 20);
    return most;
}

static void four_gib(void **state)
{
    struct t_room_job job = {.bytes = (uint64_t)4 << 30, .groups = 256};

    (void)state;
    for (job.reads = false;; job.reads = true) {
        assert_true(room(&job, QUERN_CHECK_FAST) < (size_t)1 << 20);
        assert_true(room(&job, QUERN_CHECK_FULL) < (size_t)2 << 30);
        if (job.reads)
            break;
    }
}

static void columns(void **state)
{
    struct t_room_job job = {.bytes = (uint64_t)1 << 30, .groups = 256, .columns = true};

    (void)state;
    assert_true(room(&job, QUERN_CHECK_FULL) < job.bytes / 2);
    job.reads = true;
    assert_true(room(&job, QUERN_CHECK_FULL) < job.bytes / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(four_gib), cmocka_unit_test(columns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
