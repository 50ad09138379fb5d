/* SPDX-License-Identifier: MIT */
/*
 * Passes through LDS, against what others measured on the hardware: bank conflicts that an MI300X's
 * counters gave for reads at growing strides, and which lanes of an MI350X, an MI300X, a W7900 and
 * a RX 9070 XT hinder one another (nod-ai/amd-shark-ai, docs/empirical-lds; HazyResearch's
 * HipKittens, analysis/paper_experiments/phases, for writes and 96 bits).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"
#include "target/lds.h"

#include <stdio.h>
#include <string.h>

/* A read or a write of each width at addresses that the test gives; those of -1 are left out. */
static const char source[] =
    "#define DEFINE_LDS SHARED u32 s[16384]; const u32 at = a[LANE]; u32x4 v = {0, 0, 0, 0};\\\n"
    "  asm volatile(\"\" : : \"v\"(s));\n"
    "#define READ(NAME, R) KERNEL NAME(const u32 *a, u32 *c) { DEFINE_LDS\\\n"
    "  if (at != -1u) asm volatile(#NAME \" %0, %1\\n s_waitcnt lgkmcnt(0)\"\\\n"
    "    : \"=v\"(R) : \"v\"(at) : \"memory\"); c[LANE] = v.x; }\n"
    "#define WRITE(NAME, R) KERNEL NAME(const u32 *a, u32 *c) { DEFINE_LDS\\\n"
    "  if (at != -1u) asm volatile(#NAME \" %0, %1\" : : \"v\"(at), \"v\"(R) : \"memory\");\\\n"
    "  c[LANE] = at; }\n"
    "typedef u32 u32x3 __attribute__((ext_vector_type(3)));\n"
    "READ(ds_read_b32, v.x) READ(ds_read_b64, v.xy) READ(ds_read_b96, v.xyz)\n"
    "READ(ds_read_b128, v)\n"
    "WRITE(ds_write_b32, v.x) WRITE(ds_write_b64, v.xy) WRITE(ds_write_b96, v.xyz)\n"
    "WRITE(ds_write_b128, v)\n";

static struct t_gpu gpu;

static void open_gpu(const char *target)
{
    t_gpu_open(&gpu, target, "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    t_gpu_load(&gpu, source);
}

static unsigned passes(bool write, unsigned words, const uint32_t *at, unsigned lanes)
{
    struct quern_sim_counts counts = QUERN_INIT(struct quern_sim_counts);
    uint32_t a[64], c[64];
    const struct t_buffer buffers[] = {{a, 4 * lanes, QUERN_SIM_READ, "a"},
                                       {c, 4 * lanes, QUERN_SIM_READ_WRITE, "c"}};
    char name[16];
    const struct t_launch launch = {
        .kernel = name, .items = {lanes}, .buffers = buffers, .count = 2, .counts = &counts};

    memcpy(a, at, 4 * lanes);
    snprintf(name, sizeof name, "ds_%s_b%u", write ? "write" : "read", 32 * words);
    t_gpu_run(&gpu, &launch);
    assert_int_equal(counts.lds_accesses, 1);
    return (unsigned)counts.lds_passes;
}

static unsigned strided(bool write, unsigned words, unsigned stride, unsigned lanes)
{
    uint32_t at[64];

    for (unsigned l = 0; l < lanes; l++)
        at[l] = l * stride;
    return passes(write, words, at, lanes);
}

/* Conflicts that the counters of an MI300X gave for 64 reads, at strides of the width on upward. */
static void conflicts_of_an_mi300x(void **state)
{
    static const unsigned b32[] = {0, 128, 384, 896, 1920, 3968, 3968, 3968};
    static const unsigned b64[] = {0, 256, 768, 1792, 3840, 3840, 3840};
    static const unsigned b128[] = {0, 512, 1536, 3584, 3584, 3584};

    (void)state;
    open_gpu("gfx942");
    for (unsigned n = 0; n < 8; n++)
        assert_int_equal(strided(false, 1, 4 << n, 64), 2 + b32[n] / 64);
    for (unsigned n = 0; n < 7; n++)
        assert_int_equal(strided(false, 2, 8 << n, 64), 4 + b64[n] / 64);
    for (unsigned n = 0; n < 6; n++)
        assert_int_equal(strided(false, 4, 16 << n, 64), 8 + b128[n] / 64);
    t_gpu_close(&gpu);
}

/* 64 banks serve a whole wave's dwords at once, and at a stride of 256 bytes one lane at a time. */
static void reads_of_an_mi350x(void **state)
{
    (void)state;
    open_gpu("gfx950");
    for (unsigned words = 1; words <= 4; words *= 2)
        for (unsigned stride = 4 * words; stride <= 512; stride *= 2) {
            const unsigned want = stride >= 256 ? 64 : stride / 4;
            assert_int_equal(strided(false, words, stride, 64), want);
        }
    /* 96 bits, and writes, as on an MI300X */
    assert_int_equal(strided(false, 3, 16, 64), 8);
    assert_int_equal(strided(false, 3, 128, 64), 64);
    for (unsigned words = 1; words <= 4; words *= 2)
        for (unsigned stride = 4 * words; stride <= 512; stride *= 2)
            assert_int_equal(strided(true, words, stride, 64),
                             stride >= 128 ? 64 : 2 * stride / 4);
    t_gpu_close(&gpu);
}

/* Ranges of lanes that share a pass, as published; those of a group end with an empty one. */
struct published {
    const char *target;
    bool write;
    unsigned words, lanes;
    const char *groups; /* "0-3 20-23, 4-7 16-19": of the first 32 lanes, or of all */
};

static const struct published publications[] = {
    {"gfx950", false, 1, 64, "0-63"},
    {"gfx950", false, 2, 64, "0-31, 32-63"},
    {"gfx950", false, 3, 64, "0-3 20-23, 4-7 16-19, 8-11 28-31, 12-15 24-27, 32-35 52-55, "
                             "36-39 48-51, 40-43 60-63, 44-47 56-59"},
    {"gfx950", false, 4, 64, "0-3 12-15 20-27, 32-35 44-47 52-59, 4-11 16-19 28-31, "
                             "36-43 48-51 60-63"},
    {"gfx950", true, 2, 64, "0-15, 16-31, 32-47, 48-63"},
    {"gfx942", false, 1, 64, "0-31, 32-63"},
    {"gfx942", false, 2, 64, "0-15, 16-31, 32-47, 48-63"},
    {"gfx942", false, 4, 64, "0-3 20-23, 32-35 52-55, 4-7 16-19, 36-39 48-51, 8-11 28-31, "
                             "40-43 60-63, 12-15 24-27, 44-47 56-59"},
    {"gfx1100", false, 1, 32, "0-31"},
    {"gfx1100", false, 2, 32, "0-15, 16-31"},
    {"gfx1100", false, 4, 32, "0-3 20-23, 4-7 16-19, 8-11 28-31, 12-15 24-27"},
    {"gfx1201", false, 1, 32, "0-31"},
    {"gfx1201", false, 2, 32, "0-15, 16-31"},
    {"gfx1201", false, 4, 32, "0-7, 8-15, 16-23, 24-31"},
};

/* The number of the group that each lane is in. */
static void read_groups(const char *text, unsigned group_of[64])
{
    unsigned group = 0, first, last;
    int length;

    memset(group_of, 0xff, 64 * sizeof *group_of);
    while (*text && sscanf(text, "%u-%u%n", &first, &last, &length) == 2) {
        for (unsigned l = first; l <= last; l++)
            group_of[l] = group;
        text += length;
        group += *text == ',';
        text += strspn(text, ", ");
    }
}

/* Two lanes alone, at different banks: one pass if they are in one group. At different words of one
 * bank it is two in any case. */
static void groups_are_the_published_ones(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof publications / sizeof *publications; n++) {
        const struct published *const p = &publications[n];
        unsigned group_of[64];
        uint32_t at[64];
        if (!n || strcmp(p->target, publications[n - 1].target)) {
            if (n)
                t_gpu_close(&gpu);
            open_gpu(p->target);
        }
        read_groups(p->groups, group_of);
        /* the first of two is lane 0, or one of the other half that is in no group with it */
        for (unsigned l = 1; l < p->lanes; l++)
            for (unsigned first = 0; first < l; first += 12) {
                memset(at, 0xff, sizeof at);
                at[first] = 0;
                at[l] = 16;
                assert_int_equal(passes(p->write, p->words, at, p->lanes),
                                 group_of[l] == group_of[first] ? 1 : 2);
                at[l] = 1024;
                assert_int_equal(passes(p->write, p->words, at, p->lanes), 2);
            }
    }
    t_gpu_close(&gpu);
}

/* Whatever the width, each lane is in one group, and groups are of one size. */
static void every_lane_is_served(void **state)
{
    (void)state;
    for (size_t n = 0; n < target_count(); n++)
        for (unsigned bytes = 1; bytes <= 16; bytes++)
            for (unsigned write = 0; write < 2; write++) {
                const struct target_lds s = target_lds(target_at(n), bytes, write);
                uint64_t all = 0;
                for (unsigned g = 0; g < TARGET_LDS_GROUPS; g++) {
                    assert_int_equal(all & s.groups[g], 0);
                    assert_true(!s.groups[g] ||
                                (unsigned)__builtin_popcountll(s.groups[g]) == s.lanes);
                    all |= s.groups[g];
                }
                assert_true(all == ~(uint64_t)0);
                assert_true(s.lanes * ((bytes + 3) / 4) <= s.banks);
            }
}

/* The fewest passes of a profile are those of the same groups. */
static void fewest(void **state)
{
    uint32_t a[64], c[64];
    uint64_t addresses[2];

    (void)state;
    for (unsigned l = 0; l < 64; l++)
        a[l] = 256 * l;
    open_gpu("gfx950");
    assert_int_equal(quern_sim_map(gpu.sim, a, sizeof a, QUERN_SIM_READ, "a", &addresses[0]),
                     QUERN_OK);
    assert_int_equal(quern_sim_map(gpu.sim, c, sizeof c, QUERN_SIM_WRITE, "c", &addresses[1]),
                     QUERN_OK);
    for (unsigned write = 0; write < 2; write++)
        for (unsigned words = 1; words <= 4; words++) {
            char name[16];
            struct quern_sim_profile p = QUERN_INIT(struct quern_sim_profile);
            const struct quern_sim_launch launch = {.size = sizeof launch,
                                                    .kernel = name,
                                                    .grid = {1, 1, 1},
                                                    .block = {64, 1, 1},
                                                    .kernarg = addresses,
                                                    .kernarg_bytes = sizeof addresses};
            snprintf(name, sizeof name, "ds_%s_b%u", write ? "write" : "read", 32 * words);
            assert_int_equal(
                quern_sim_profile_run(gpu.module, &launch, QUERN_EXTENT_ALL, 0, &p), QUERN_OK);
            assert_int_equal(p.counts.lds_passes, 64);
            assert_int_equal(p.lds_least, words == 3 ? 8 : write ? 2 * words : words);
            quern_sim_profile_free(&p);
        }
    t_gpu_close(&gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conflicts_of_an_mi300x), cmocka_unit_test(reads_of_an_mi350x),
        cmocka_unit_test(groups_are_the_published_ones), cmocka_unit_test(every_lane_is_served),
        cmocka_unit_test(fewest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
