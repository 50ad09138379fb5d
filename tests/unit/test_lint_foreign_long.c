/* SPDX-License-Identifier: MIT */
/*
 * Mutants (mutants.h) of kernels of others: of those in bitsandbytes' six ROCm libraries that the
 * scan and the reader find nothing in, some of each library and target, others in each run. Each is
 * run for one workgroup with arguments that fit its metadata, buffers of numbers and small values;
 * one that does not run so is judged by the reader alone.
 */
#include "mutants.h"
#include "t_explore.h"

#include "../sim/foreign/wheel.h"

enum { EACH = 3, LINES_MAX = 1500, BUFFER = 1 << 20 };

/* Buffers for pointers; for other arguments the number `value`. */
static void bench_fill(struct bench *b, const struct object_kernel *k, uint64_t value)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

    b->launch.kernarg_bytes = 0;
    for (size_t i = 0; i < k->arg_count; i++) {
        const struct object_arg *const a = &k->args[i];
        uint64_t set = value;
        if (a->kind > OBJECT_ARG_GLOBAL_BUFFER || a->offset + 8 > sizeof b->kernarg)
            continue;
        if (a->kind == OBJECT_ARG_GLOBAL_BUFFER)
            set = bench_buffer(b, BUFFER, QUERN_SIM_READ_WRITE, names[i % 8]);
        memcpy(b->kernarg + a->offset, &set, a->size < 8 ? a->size : 8);
        b->launch.kernarg_bytes = a->offset + a->size;
    }
    b->launch.block[0] = k->max_flat_workgroup < 256 ? k->max_flat_workgroup : 256;
    b->launch.block[1] = b->launch.block[2] = 1;
}

static bool mutate_kernel(const struct quern_disassembler *d, const struct object *object,
                          const struct object_kernel *k, const void *bytes, size_t size)
{
    static const uint64_t values[] = {256, 64, 1, 4096};
    struct listing l;
    struct bench bench;
    bool fits = false;

    listing_read(&l, d, object, k);
    const bool good = l.count < LINES_MAX && !findings(&l) && !is_wrong(&l);
    for (size_t n = 0; good && !fits && n < sizeof values / sizeof *values; n++) {
        bench_open(&bench, &l, bytes, size, k->name);
        bench_fill(&bench, k, values[n]);
        fits = bench_run(&bench) == QUERN_OK || n + 1 == sizeof values / sizeof *values;
        if (fits)
            mutate(&l, &bench);
        bench_close(&bench);
    }
    free(l.lines);
    return good;
}

static void mutate_object(const struct quern_disassembler *d,
                          const struct quern_offload_entry *entry)
{
    struct object object;
    int taken = 0;

    if (!target_named(entry->target) || !entry->object_bytes ||
        object_parse(entry->object, entry->object_bytes, &object) != QUERN_OK)
        return;
    const size_t step = object.kernel_count / EACH + 1;
    const size_t begin = t_explore((unsigned)step);
    for (size_t first = 0; first < step && taken < EACH; first++)
        for (size_t k = (begin + first) % step; k < object.kernel_count && taken < EACH; k += step)
            taken +=
                mutate_kernel(d, &object, &object.kernels[k], entry->object, entry->object_bytes);
    object_free(&object);
}

static void the_scan_finds_what_is_wrong(void **state)
{
    static const char *const releases[] = {"64", "70", "71", "714", "715", "72"};
    static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                          "gfx1100", "gfx1151", "gfx1201"};
    quern_ctx *const ctx = t_open("gfx942", t_cache, QUERN_JIT_ON);
    const struct quern_disassembler d = quern_ctx_disassembler(ctx);

    (void)state;
    for (size_t r = 0; r < sizeof releases / sizeof *releases; r++) {
        quern_offload *const library = wheel_library(releases[r]);
        for (size_t i = 0; i < quern_offload_count(library); i++) {
            struct quern_offload_entry entry = QUERN_INIT(struct quern_offload_entry);
            assert_int_equal(quern_offload_entry(library, i, &entry), QUERN_OK);
            for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
                if (!strcmp(entry.target, targets[t]))
                    mutate_object(&d, &entry);
        }
    }
    quern_close(ctx);
    print_tally();
    assert_true(tally.kernels >= 75);
    assert_true(tally.run > tally.kernels / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_scan_finds_what_is_wrong)};
    const int failed =
        cmocka_run_group_tests_name("mutants of others", tests, t_cache_make, t_cache_remove);

    wheel_close();
    return failed;
}
