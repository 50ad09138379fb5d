/* SPDX-License-Identifier: MIT */
/* The memory that the full check takes beyond the operands: planes of bits, by the side of a plain
 * array; what launches take that write and read much; and what is said when there is none left. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/launch.h"
#include "t_gpu.h"
#include "t_room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Planes ---------------------------------------------------------------------------------- */

enum { BYTES = 5 << 20 };

static void planes_are_arrays_of_bits(void **state)
{
    struct plane_heap heap = {.limit = 1 << 30};
    struct plane p;
    uint8_t *const is = calloc(1, BYTES);
    uint64_t random = 1;

    (void)state;
    assert_non_null(is);
    assert_true(plane_make(&p, &heap, BYTES, PLANE_LARGE_PAGES));
    const size_t empty = heap.bytes;
    for (unsigned n = 0; n < 200000; n++) {
        /* a few places, so that pages fill; also across pages and regions */
        const uint64_t around = t_random(&random) % 3 ? PLANE_REGION - 5000 : 3 * 4096;
        const uint64_t at = around + t_random(&random) % 10000, bits = t_random(&random);
        const unsigned count = 1 + t_random(&random) % 64;
        for (unsigned k = 0; k < count; k++)
            is[at + k] |= bits >> k & 1;
        assert_true(plane_add(&p, &heap, at, count, bits));
    }
    for (uint64_t at = 0; at + 64 < BYTES; at += 61) {
        const uint64_t bits = plane_bits(&p, at, 61);
        for (unsigned k = 0; k < 61; k++)
            assert_int_equal(bits >> k & 1, is[at + k]);
    }
    plane_clear(&p, &heap);
    assert_int_equal(heap.bytes, empty);
    assert_int_equal(plane_bits(&p, PLANE_REGION, 64), 0);
    plane_free(&p, &heap);
    assert_int_equal(heap.bytes, 0);
    free(is);
}

/* In any order: what is full takes no memory, neither pages nor, in the end, their nodes. */
static void full_planes_take_nothing(void **state)
{
    struct plane_heap heap = {.limit = 1 << 30};
    const uint64_t bytes = 2 * PLANE_REGION, steps = bytes / 64;
    struct plane p;

    (void)state;
    assert_true(plane_make(&p, &heap, bytes, PLANE_SMALL_PAGES));
    const size_t empty = heap.bytes;
    for (uint64_t n = 0; n < steps; n++)
        assert_true(plane_add(&p, &heap, n * 40503 % steps * 64, 64, ~(uint64_t)0));
    assert_int_equal(heap.bytes, empty);
    assert_true(plane_bits(&p, bytes - 64, 64) == ~(uint64_t)0);
    assert_true(plane_add(&p, &heap, 100, 64, 1));
    assert_int_equal(heap.bytes, empty);
    plane_free(&p, &heap);
}

static void names_of_granules(void **state)
{
    struct plane_heap heap = {.limit = 1 << 20};
    struct plane p;

    (void)state;
    assert_true(plane_make(&p, &heap, BYTES, PLANE_LARGE_PAGES));
    assert_int_equal(plane_name(&p, 4096), 0);
    assert_true(plane_set_name(&p, &heap, 4090, 10, 7));
    assert_int_equal(plane_name(&p, 4064), 7);
    assert_int_equal(plane_name(&p, 4100), 7);
    assert_int_equal(plane_name(&p, 4128), 0);
    assert_true(plane_set_name(&p, &heap, 4095, 1, 8));
    assert_true(plane_name(&p, 4064) == PLANE_SEVERAL);
    assert_int_equal(plane_name(&p, 4096), 7);
    heap.limit = heap.bytes;
    assert_false(plane_set_name(&p, &heap, 2 * PLANE_REGION, 1, 8));
    assert_false(plane_add(&p, &heap, PLANE_REGION, 1, 1));
    plane_free(&p, &heap);
    assert_int_equal(heap.bytes, 0);
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Of 16 bytes a lane: each workgroup a run of the buffer, or a column of its rows of 4096 bytes, so
 * that every page is mixed until the last workgroups run. */
static void launches_are_bounded(void **state)
{
    (void)state;
    const uint64_t bytes = 8 << 20;
    struct t_room_job job = {.bytes = bytes, .groups = 64};
    const size_t fast = t_room_peak(&job, QUERN_CHECK_FAST);

    assert_true(fast < 1 << 20);
    /* names, 1/8 of the buffer, and what workgroups have written themselves */
    assert_true(t_room_peak(&job, QUERN_CHECK_FULL) - fast < bytes / 4);
    job.columns = true;
    /* two planes as well, 1/8 each */
    assert_true(t_room_peak(&job, QUERN_CHECK_FULL) - fast < bytes * 5 / 8);
    job.reads = true;
    assert_true(t_room_peak(&job, QUERN_CHECK_FULL) - fast < bytes * 5 / 8);
    job.columns = false;
    assert_true(t_room_peak(&job, QUERN_CHECK_FULL) - fast < bytes / 4);
}

/* Without room the launch ends, and says why; nothing goes unchecked. */
static void no_room_is_said(void **state)
{
    static uint8_t c[1 << 20];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {
        .kernel = "k", .groups = {256}, .items = {32}, .buffers = &buffer, .count = 1};
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx1100", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    t_gpu_load(&g, "KERNEL k(u32 *c) { c[(LANE * 256 + GROUP) * 32] = 1; }");
    const size_t limit = g.sim->race_heap.planes.limit;
    g.sim->race_heap.planes.limit = 40000;
    assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_MEMORY);
    assert_non_null(strstr(quern_last_error()->message, "full check knows of buffer \"c\""));
    g.sim->race_heap.planes.limit = limit;
    t_gpu_run(&g, &launch);
    assert_int_equal(g.sim->race_heap.planes.bytes, 0);
    /* names are for words only: without room for them a race is still found */
    g.sim->race_heap.names.limit = 100;
    t_gpu_load(&g, "KERNEL k(u32 *c) { c[LANE] = GROUP; }");
    assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_FAULT);
    assert_non_null(strstr(quern_last_error()->message, "written by other workgroups"));
    t_gpu_close(&g);
}

/* ---- What workgroups may do ------------------------------------------------------------------ */

static const struct use {
    const char *what, *body; /* of k(u32 *b, u32 *c), two workgroups of 32 */
    const char *found;       /* null: nothing */
} uses[] = {
    {"reading twice, then writing", "u32 x = b[MINE]; FENCE x += b[MINE]; b[MINE] = x + 1;", NULL},
    {"writing, reading, writing", "b[MINE] = 1; FENCE u32 x = b[MINE]; FENCE b[MINE] = x;", NULL},
    {"both read", "c[MINE] = b[LANE];", NULL},
    {"both read, one writes", "u32 x = b[LANE]; FENCE if (GROUP) b[LANE] = x + 1;", "was read by"},
    {"both read twice, one writes",
     "u32 x = b[LANE]; FENCE x += b[LANE]; FENCE if (GROUP) b[LANE] = x + 1;", "was read by"},
    {"reading what the other changed by an atomic",
     "if (!GROUP) __atomic_fetch_add(b + LANE, 1u, 0); else c[LANE] = b[LANE];", NULL},
    {"writing what the other changed by an atomic",
     "if (!GROUP) __atomic_fetch_add(b + LANE, 1u, 0); else b[LANE] = 1;", "changed by an atomic"},
    {"changing what the other wrote by an atomic",
     "if (!GROUP) b[LANE] = 1; else __atomic_fetch_add(b + LANE, 1u, 0);", "written by workgroup"},
    {"changing by an atomic, then writing",
     "__atomic_fetch_add(b + MINE, 1u, 0); FENCE b[MINE] = 2; FENCE c[MINE] = b[MINE];", NULL},
    {"neighbours change theirs by atomics, then write",
     "__atomic_fetch_add(b + 2 * LANE + GROUP, 1u, 0); FENCE b[2 * LANE + GROUP] = 2;", NULL},
    {"both change by an atomic, one writes",
     "__atomic_fetch_add(b + LANE, 1u, 0); FENCE if (GROUP) b[LANE] = 1;", "changed by an atomic"},
    {"neighbouring bytes of a word",
     "asm volatile(\"global_store_byte %0, %1, %2\" :: \"v\"(4 * LANE + GROUP), \"v\"(1), \"s\"(b)"
     " : \"memory\");",
     NULL},
    {"bytes that overlap by one",
     "asm volatile(\"global_store_dword %0, %1, %2\" :: \"v\"(8 * LANE + 3 * GROUP), \"v\"(1), "
     "\"s\"(b) : \"memory\");",
     "offset 3 of buffer \"b\""},
    {"a wide access over two regions",
     "if (LANE == 0) asm volatile(\"global_store_dwordx4 %0, %1, %2\\n s_nop 1\" :: \"v\"((2 << "
     "20) - 8), "
     "\"v\"((u32x4){1, 2, 3, 4}), \"s\"(b) : \"memory\");\n"
     "else if (GROUP && LANE == 1) c[0] = b[(2 << 18) + 1];",
     "of buffer \"b\""},
    {"a byte of two regions that nobody wrote",
     "if (!GROUP && LANE == 0) asm volatile(\"global_store_dwordx4 %0, %1, %2\\n s_nop 1\" :: "
     "\"v\"((2 << 20)"
     " - 12), \"v\"((u32x4){1, 2, 3, 4}), \"s\"(c) : \"memory\"); FENCE\n"
     "if (!GROUP && LANE == 0) b[0] = c[(2 << 18)]; if (GROUP && LANE == 0) b[1] = c[(2 << 18) + "
     "1];",
     "buffer \"c\", which was never written"},
};

static void uses_of_buffers(void **state)
{
    enum { SIZE = (2 << 20) + 4096 };
    uint8_t *const b = calloc(1, SIZE), *const c = calloc(1, SIZE);
    const struct t_buffer buffers[] = {{b, SIZE, QUERN_SIM_READ_WRITE, "b"},
                                       {c, SIZE, QUERN_SIM_WRITE, "c"}};
    const struct t_launch launch = {
        .kernel = "k", .groups = {2}, .items = {32}, .buffers = buffers, .count = 2};
    char source[2048];
    struct t_gpu g;

    (void)state;
    assert_true(b && c);
    /* of two threads either may come first, and what is said of a race tells who did */
    for (int threads = 1; threads <= 2; threads++) {
        t_gpu_open(&g, "gfx942", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
        g.sim->threads = threads;
        for (size_t n = 0; n < sizeof uses / sizeof *uses; n++) {
            snprintf(source, sizeof source,
                     "#define FENCE __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, \"agent\");\n"
                     "#define MINE (GROUP * 32 + LANE)\n"
                     "KERNEL k(volatile u32 *b, volatile u32 *c) {\n%s\n}\n",
                     uses[n].body);
            t_gpu_load(&g, source);
            const quern_status status = t_gpu_try(&g, &launch);
            const char *const said = quern_last_error()->message;
            if (status != (uses[n].found ? QUERN_E_FAULT : QUERN_OK) ||
                (uses[n].found && threads == 1 && !strstr(said, uses[n].found)))
                fail_msg("%s, threads %d: %s", uses[n].what, threads,
                         status == QUERN_OK ? "not found" : said);
        }
        t_gpu_close(&g);
    }
    free(b);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_are_arrays_of_bits), cmocka_unit_test(full_planes_take_nothing),
        cmocka_unit_test(names_of_granules),         cmocka_unit_test(launches_are_bounded),
        cmocka_unit_test(no_room_is_said),           cmocka_unit_test(uses_of_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
