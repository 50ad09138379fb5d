/* SPDX-License-Identifier: MIT */
/* The order in which workgroups start: that of the grid, or one drawn from a number. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/launch.h"
#include "t_gpu.h"

#include <stdlib.h>
#include <string.h>

static void every_workgroup_once(void **state)
{
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097};
    bool seen[4097];

    (void)state;
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            memset(seen, 0, sizeof seen);
            for (uint64_t ticket = 0; ticket < counts[n]; ticket++) {
                const uint64_t id = shuffled(ticket, counts[n], seed);
                assert_true(id < counts[n]);
                assert_false(seen[id]);
                seen[id] = true;
            }
        }
    /* of a grid that is too large to be run */
    assert_true(shuffled(12345, (uint64_t)1 << 47, 9) < (uint64_t)1 << 47);
}

/* One thread, so that workgroups also end in the order in which they start. */
static void open_shuffled(struct t_gpu *g, uint64_t seed)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);

    t_gpu_open(g, "gfx1100", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    quern_sim_close(g->sim);
    o.target = "gfx1100";
    o.threads = 1;
    o.shuffle = seed;
    o.disassembler = (struct quern_disassembler){compiler_disassemble, g->compiler};
    assert_int_equal(quern_sim_open(&o, &g->sim), QUERN_OK);
}

enum { GROUPS = 50 };

/* Which workgroup came when: a mistake that a run in grid order hides. */
static void run_order(uint64_t seed, uint32_t turns[GROUPS])
{
    uint32_t counter = 0;
    const struct t_buffer buffers[] = {{&counter, 4, QUERN_SIM_READ_WRITE, "counter"},
                                       {turns, GROUPS * 4, QUERN_SIM_WRITE, "turns"}};
    const struct t_launch launch = {
        .kernel = "k", .groups = {10, 5}, .items = {1}, .buffers = buffers, .count = 2};
    struct t_gpu g;

    open_shuffled(&g, seed);
    t_gpu_load(&g, "KERNEL k(u32 *counter, u32 *turns) {\n"
                   "turns[GROUP + 10 * __builtin_amdgcn_workgroup_id_y()] = "
                   "__atomic_fetch_add(counter, 1u, 0); }");
    t_gpu_run(&g, &launch);
    assert_int_equal(counter, GROUPS);
    t_gpu_close(&g);
}

static void order_shows(void **state)
{
    uint32_t plain[GROUPS], first[GROUPS], again[GROUPS], other[GROUPS];
    unsigned moved = 0;

    (void)state;
    run_order(0, plain);
    run_order(1, first);
    run_order(1, again);
    run_order(2, other);
    for (uint32_t n = 0; n < GROUPS; n++) {
        assert_int_equal(plain[n], n);
        moved += first[n] != n;
    }
    assert_true(moved > GROUPS / 2);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
}

/* Whatever the order, the finding is that of the first workgroup of the grid that is wrong. */
static void same_finding(void **state)
{
    static uint32_t c[1024];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {
        .kernel = "k", .groups = {200}, .items = {32}, .buffers = &buffer, .count = 1};

    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct t_gpu g;
        open_shuffled(&g, seed);
        t_gpu_load(&g, "KERNEL k(u32 *c) { c[GROUP * 32 + LANE] = 1; }");
        assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_FAULT);
        assert_non_null(strstr(quern_last_error()->message, "workgroup 32,0,0, wave 0, lane 0"));
        t_gpu_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_workgroup_once),
        cmocka_unit_test(order_shows),
        cmocka_unit_test(same_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
