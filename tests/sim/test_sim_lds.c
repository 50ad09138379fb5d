/* SPDX-License-Identifier: MIT */
/*
 * LDS beyond plain loads and stores.
 *
 * Passes, against what others measured on the hardware: bank conflicts that an MI300X's counters
 * gave for reads at growing strides, and which lanes of an MI350X, an MI300X, a W7900 and a RX 9070
 * XT hinder one another (nod-ai/amd-shark-ai, docs/empirical-lds; HazyResearch's HipKittens,
 * analysis/paper_experiments/phases, for writes and 96 bits). Transposing reads of gfx950, and
 * exchanges of two values at once.
 *
 * This file is long because it has many patterns of addresses, each with the passes that it
 * takes.
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
static const char accesses[] =
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
    t_gpu_load(&gpu, accesses);
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
            assert_int_equal(strided(true, words, stride, 64), stride >= 128 ? 64 : 2 * stride / 4);
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
    {"gfx950", false, 3, 64,
     "0-3 20-23, 4-7 16-19, 8-11 28-31, 12-15 24-27, 32-35 52-55, "
     "36-39 48-51, 40-43 60-63, 44-47 56-59"},
    {"gfx950", false, 4, 64,
     "0-3 12-15 20-27, 32-35 44-47 52-59, 4-11 16-19 28-31, "
     "36-43 48-51 60-63"},
    {"gfx950", true, 2, 64, "0-15, 16-31, 32-47, 48-63"},
    {"gfx942", false, 1, 64, "0-31, 32-63"},
    {"gfx942", false, 2, 64, "0-15, 16-31, 32-47, 48-63"},
    {"gfx942", false, 4, 64,
     "0-3 20-23, 32-35 52-55, 4-7 16-19, 36-39 48-51, 8-11 28-31, "
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

/* Of each group of lanes, the most words that differ in one bank. */
static unsigned counted_passes(const struct target_lds *s, unsigned words, const uint32_t *at,
                               unsigned lanes)
{
    unsigned sum = 0;

    for (unsigned g = 0; g < TARGET_LDS_GROUPS; g++) {
        unsigned most = 0;
        for (unsigned bank = 0; bank < s->banks; bank++) {
            uint32_t seen[64 * 5];
            unsigned count = 0;
            for (unsigned l = 0; l < lanes; l++)
                for (uint32_t word = at[l] / 4; word <= (at[l] + 4 * words - 1) / 4; word++) {
                    unsigned k = 0;
                    if (!(s->groups[g] >> l & 1) || at[l] == UINT32_MAX || word % s->banks != bank)
                        continue;
                    while (k < count && seen[k] != word)
                        k++;
                    seen[k] = word;
                    count += k == count;
                }
            most = count > most ? count : most;
        }
        sum += most;
    }
    return sum;
}

enum pattern {
    COPIES,      /* a table with a copy of each entry for 32 banks: what kernels of ours read */
    FEW_ENTRIES, /* the same, often of equal entries */
    NEARLY,      /* COPIES, but for one lane */
    SOME_LANES,
    STRIDED,
    ANYWHERE,
    UNALIGNED,
    PATTERNS
};

static void make_pattern(enum pattern pattern, unsigned words, uint64_t *random, uint32_t at[64])
{
    const unsigned width = words == 3 ? 16 : 4 * words, stride = (unsigned)(t_random(random) % 24);
    const unsigned odd = (unsigned)(t_random(random) % 64);

    for (unsigned l = 0; l < 64; l++) {
        const uint32_t any = (uint32_t)(t_random(random) >> 20);
        const uint32_t copy = l * width % 128;
        switch (pattern) {
        case FEW_ENTRIES:
            at[l] = any % 3 * 128 + copy;
            break;
        case STRIDED:
            at[l] = l * stride * width % 32768;
            break;
        case ANYWHERE:
            at[l] = any % 2048 * width;
            break;
        case UNALIGNED:
            at[l] = any % 8192 * 4;
            break;
        default:
            at[l] = any % 256 * 128 + copy;
            at[l] = pattern == NEARLY && l == odd ? any % 2048 * width : at[l];
            at[l] = pattern == SOME_LANES && any >> 16 & 1 ? UINT32_MAX : at[l];
        }
    }
}

/* Short cuts for what is usual, against a count of every word of every lane in every bank. */
static void any_addresses(void **state)
{
    static const char *const targets[] = {"gfx942", "gfx950", "gfx1151", "gfx1201"};
    uint64_t random = 5;

    (void)state;
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        const struct target *const target = target_named(targets[t]);
        const unsigned lanes = target->wave_size;
        open_gpu(targets[t]);
        for (unsigned n = 0; n < 2 * 4 * PATTERNS * 8; n++) {
            const bool write = n & 1;
            const unsigned words = n / 2 % 4 + 1;
            const enum pattern pattern = n / 8 % PATTERNS;
            const struct target_lds s = target_lds(target, 4 * words, write);
            uint32_t at[64];
            make_pattern(pattern, words, &random, at);
            at[0] = at[0] == UINT32_MAX ? 0 : at[0]; /* somebody must */
            const unsigned got = passes(write, words, at, lanes);
            const unsigned want = counted_passes(&s, words, at, lanes);
            if (got != want)
                fail_msg("%s: pattern %u of a %s of %u words: %u passes, counted %u", targets[t],
                         pattern, write ? "write" : "read", words, got, want);
        }
        t_gpu_close(&gpu);
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
            assert_int_equal(quern_sim_profile_run(gpu.module, &launch, QUERN_EXTENT_ALL, 0, &p),
                             QUERN_OK);
            assert_int_equal(p.counts.lds_passes, 64);
            assert_int_equal(p.lds_least, words == 3 ? 8 : write ? 2 * words : words);
            quern_sim_profile_free(&p);
        }
    t_gpu_close(&gpu);
}

/* ---- Transposing reads ----------------------------------------------------------------------- */

enum { TILE = 64 * 12 };

static const struct turned {
    const char *builtin;
    unsigned bits, words;
} turned[] = {{"tr16_b64_v4i16", 16, 2},
              {"tr8_b64_v2i32", 8, 2},
              {"tr4_b64_v2i32", 4, 2},
              {"tr6_b96_v3i32", 6, 3}};

static uint32_t bits_at(const uint8_t *bytes, unsigned at, unsigned count)
{
    uint32_t x = 0;

    for (unsigned n = 0; n < count; n++)
        x |= (uint32_t)(bytes[(at + n) / 8] >> (at + n) % 8 & 1) << n;
    return x;
}

/*
 * Sixteen lanes read a matrix of sixteen columns, the parts of each row one behind the other, and
 * lane c gets column c. Where the parts are is each lane's own business: here they are out of
 * order.
 */
static void columns(void **state)
{
    static uint8_t tile[TILE];
    static uint32_t at[64], out[64 * 3];
    const struct t_buffer buffers[] = {{tile, sizeof tile, QUERN_SIM_READ, "tile"},
                                       {at, sizeof at, QUERN_SIM_READ, "at"},
                                       {out, sizeof out, QUERN_SIM_WRITE, "out"}};
    char source[2048], kernel[8];
    const struct t_launch launch = {
        .kernel = kernel, .items = {64}, .buffers = buffers, .count = 3};
    uint64_t random = 8;
    size_t used = (size_t)snprintf(source, sizeof source,
                                   "typedef short s16x4 __attribute__((ext_vector_type(4)));\n"
                                   "typedef int s32x2 __attribute__((ext_vector_type(2)));\n"
                                   "typedef int s32x3 __attribute__((ext_vector_type(3)));\n");

    (void)state;
    for (unsigned n = 0; n < 4; n++)
        used += (size_t)snprintf(
            source + used, sizeof source - used,
            "KERNEL k%u(const u32 *tile, const u32 *at, u32 *out) { SHARED u32 s[%u];\n"
            "  for (u32 i = LANE; i < %u; i += 64) s[i] = tile[i];\n"
            "  typedef %s T; typedef __attribute__((address_space(3))) T *P;\n"
            "  const T v = __builtin_amdgcn_ds_read_%s((P)((__attribute__((address_space(3))) char "
            "*)s + at[LANE]));\n"
            "  __builtin_memcpy(out + %u * LANE, &v, %u); }\n",
            n, TILE / 4, TILE / 4,
            n == 0  ? "s16x4"
            : n < 3 ? "s32x2"
                    : "s32x3",
            turned[n].builtin, turned[n].words, 4 * turned[n].words);
    t_gpu_open(&gpu, "gfx950", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    t_gpu_load(&gpu, source);
    for (unsigned n = 0; n < 4; n++) {
        const unsigned bits = turned[n].bits, bytes = 4 * turned[n].words;
        const unsigned each = 8 * bytes / bits, parts = 16 / each;
        for (unsigned b = 0; b < TILE; b++)
            tile[b] = (uint8_t)t_random(&random);
        for (unsigned l = 0; l < 64; l++)
            at[l] = (l * 37 + 11) % 64 * bytes;
        snprintf(kernel, sizeof kernel, "k%u", n);
        t_gpu_run(&gpu, &launch);
        for (unsigned l = 0; l < 64; l++)
            for (unsigned row = 0; row < each; row++) {
                const unsigned column = l % 16, first = l / 16 * 16;
                const unsigned part = first + row * parts + column / each;
                const uint32_t want = bits_at(tile, 8 * at[part] + column % each * bits, bits);
                const uint8_t *const got = (const uint8_t *)(out + turned[n].words * l);
                if (bits_at(got, row * bits, bits) != want)
                    fail_msg("%s: row %u of lane %u is not 0x%x", turned[n].builtin, row, l, want);
            }
    }
    t_gpu_close(&gpu);
}

/* Undefined bytes reach the lanes whose columns have them; half a wave cannot read. */
static void columns_with_faults(void **state)
{
    static uint32_t out[64 * 2];
    const struct t_buffer buffer = {out, sizeof out, QUERN_SIM_WRITE, "out"};
    const struct t_launch launch = {.kernel = "k", .items = {64}, .buffers = &buffer, .count = 1};
    /* which lanes write their dwords, which store, and whether that is a mistake */
    static const struct {
        const char *writes, *reads, *stores;
        const char *finding;
    } cases[] = {{"LANE != 5", "1", "LANE / 16 != 0 || LANE % 16 / 4 != 1", NULL},
                 {"LANE != 5", "1", "1", "LDS"},
                 {"1", "LANE < 32", "1", "a transposing load needs every lane"},
                 {"1", "1", "1", NULL}};
    char source[1024];

    (void)state;
    t_gpu_open(&gpu, "gfx950", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    for (unsigned n = 0; n < sizeof cases / sizeof *cases; n++) {
        snprintf(source, sizeof source,
                 "KERNEL k(u32 *out) { SHARED u32x2 s[64]; u32x2 v = {1, 2};\n"
                 "  asm volatile(\"\" : : \"v\"(s) : \"memory\");\n"
                 "  if (%s) s[LANE] = v;\n"
                 "  if (%s) asm volatile(\"ds_read_b64_tr_b16 %%0, %%1\\n s_waitcnt lgkmcnt(0)\"\n"
                 "    : \"=v\"(v) : \"v\"(LANE * 8) : \"memory\");\n"
                 "  if (%s) { out[2 * LANE] = v.x; out[2 * LANE + 1] = v.y; } }\n",
                 cases[n].writes, cases[n].reads, cases[n].stores);
        t_gpu_load(&gpu, source);
        const quern_status status = t_gpu_try(&gpu, &launch);
        if (!cases[n].finding != (status == QUERN_OK) ||
            (cases[n].finding && !strstr(quern_last_error()->message, cases[n].finding)))
            fail_msg("case %u: %s", n, quern_last_error()->message);
    }
    t_gpu_close(&gpu);
}

/* ---- Exchanges of two values ----------------------------------------------------------------- */

/* Old values come back, new ones are in their places; lanes without EXEC change nothing. */
static void exchanges(void **state)
{
    static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                          "gfx1100", "gfx1151", "gfx1201"};
    static const struct {
        const char *old, *name;
        unsigned words, unit;
    } forms[] = {{"ds_wrxchg2_rtn_b32", "ds_storexchg_2addr_rtn_b32", 1, 4},
                 {"ds_wrxchg2_rtn_b64", "ds_storexchg_2addr_rtn_b64", 2, 8},
                 {"ds_wrxchg2st64_rtn_b32", "ds_storexchg_2addr_stride64_rtn_b32", 1, 256},
                 {"ds_wrxchg2st64_rtn_b64", "ds_storexchg_2addr_stride64_rtn_b64", 2, 512}};
    enum { ROOM = 2048 };
    static uint32_t after[ROOM], got[32 * 4];
    const struct t_buffer buffers[] = {{after, sizeof after, QUERN_SIM_WRITE, "after"},
                                       {got, sizeof got, QUERN_SIM_WRITE, "got"}};
    char source[4096], kernel[8];
    const struct t_launch launch = {
        .kernel = kernel, .items = {32}, .buffers = buffers, .count = 2};

    (void)state;
    for (unsigned t = 0; t < 6; t++) {
        size_t used = 0;
        for (unsigned n = 0; n < 4; n++)
            used += (size_t)snprintf(
                source + used, sizeof source - used,
                "KERNEL k%u(u32 *after, u32 *got) { SHARED u32 s[%u]; u32x4 r = 0;\n"
                "  for (u32 i = LANE; i < %u; i += 32) s[i] = i;\n"
                "  asm volatile(\"s_waitcnt lgkmcnt(0)\" : : \"v\"(s) : \"memory\");\n"
                "  const u64 x = 0x100000001000u * (LANE + 1), y = x + 5; u32x%u d = r.%s;\n"
                "  if (LANE %% 3) asm volatile(\"%s %%0, %%1, %%2, %%3 offset0:1 offset1:3\\n "
                "s_waitcnt lgkmcnt(0)\"\n"
                "    : \"+&v\"(d) : \"v\"(LANE * %u), \"v\"((u%u)x), \"v\"((u%u)y) : \"memory\");\n"
                "  r.%s = d; for (u32 k = 0; k < 4; k++) got[4 * LANE + k] = r[k];\n"
                "  for (u32 i = LANE; i < %u; i += 32) after[i] = s[i]; }\n",
                n, ROOM, ROOM, 2 * forms[n].words, forms[n].words == 1 ? "xy" : "xyzw",
                t < 3 ? forms[n].old : forms[n].name, 16 * forms[n].words, 32 * forms[n].words,
                32 * forms[n].words, forms[n].words == 1 ? "xy" : "xyzw", ROOM);
        t_gpu_open(&gpu, targets[t], "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
        t_gpu_load(&gpu, source);
        for (unsigned n = 0; n < 4; n++) {
            static uint32_t want[ROOM];
            const unsigned words = forms[n].words;
            snprintf(kernel, sizeof kernel, "k%u", n);
            t_gpu_run(&gpu, &launch);
            for (unsigned i = 0; i < ROOM; i++)
                want[i] = i;
            for (unsigned l = 0; l < 32; l++)
                for (unsigned k = 0; k < 4; k++) {
                    const unsigned second = k / words % 2;
                    const unsigned place = (l * 16 * words + forms[n].unit * (second ? 3 : 1)) / 4;
                    const uint64_t x = 0x100000001000u * (uint64_t)(l + 1) + 5 * second;
                    const bool used_ = k < 2 * words && l % 3;
                    assert_int_equal(got[4 * l + k], used_ ? place + k % words : 0);
                    if (used_)
                        want[place + k % words] = (uint32_t)(k % words ? x >> 32 : x);
                }
            assert_memory_equal(after, want, sizeof want);
        }
        t_gpu_close(&gpu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conflicts_of_an_mi300x),
        cmocka_unit_test(reads_of_an_mi350x),
        cmocka_unit_test(groups_are_the_published_ones),
        cmocka_unit_test(every_lane_is_served),
        cmocka_unit_test(any_addresses),
        cmocka_unit_test(fewest),
        cmocka_unit_test(columns),
        cmocka_unit_test(columns_with_faults),
        cmocka_unit_test(exchanges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
