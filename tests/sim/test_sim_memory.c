/* SPDX-License-Identifier: MIT */
/*
 * Loads, stores and atomics of every width and place, launch geometry, constants, and what is
 * counted.
 *
 * This file is long because it holds the source of a kernel for each kind of memory and each width.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_gpu(struct t_gpu *g, bool wave64, enum quern_sim_check check, const char *source)
{
    t_gpu_open(g, wave64 ? "gfx1151" : "gfx1100", wave64 ? "-mwavefrontsize64" : "", check,
               QUERN_ISA_AUTO, 0);
    t_gpu_load(g, source);
}

/* Each kernel copies n elements of some width from a to c, through LDS, scratch or not at all. */
static const char copies[] =
    "typedef u32 u32x3 __attribute__((ext_vector_type(3)));\n"
    "#define COPY(NAME, T) KERNEL direct_##NAME(const T *a, T *c) { c[LANE] = a[LANE]; }\\\n"
    "KERNEL flat_##NAME(const T *a, T *c) { const T *volatile p = a; T *volatile q = c; q[LANE] = "
    "p[LANE]; }\\\n"
    "KERNEL lds_##NAME(const T *a, T *c) { SHARED T s[64]; s[LANE] = a[LANE]; barrier();\\\n"
    "  c[LANE ^ 1] = s[LANE ^ 1]; }\\\n"
    "KERNEL flat_lds_##NAME(const T *a, T *c) { SHARED T s[64]; T *volatile p = s; p[LANE] = "
    "a[LANE];\\\n"
    "  barrier(); c[LANE ^ 1] = p[LANE ^ 1]; }\\\n"
    "KERNEL scratch_##NAME(const T *a, T *c) { T t[4]; for (u32 n = 0; n < 4; n++) t[n] = "
    "a[LANE];\\\n"
    "  asm volatile(\"\" :: \"v\"(t) : \"memory\"); c[LANE] = t[LANE & 3]; }\n"
    "COPY(u8, u8) COPY(i8, i8) COPY(u16, u16) COPY(u32, u32) COPY(u64, u64) COPY(u128, u32x4)\n"
    "#define WIDE(NAME, T) KERNEL widen_##NAME(const T *a, i32 *c) { SHARED T s[64]; s[LANE] = "
    "a[LANE];\\\n"
    "  barrier(); c[LANE] = s[LANE ^ 1] + 3 * a[LANE]; }\n"
    "WIDE(u8, u8) WIDE(i8, i8) WIDE(u16, u16) WIDE(i16, i16)\n"
    /* both halves of a register filled by 16-bit loads, and stored from there */
    "KERNEL halves(const f16 *a, f16 *c) { SHARED f16 s[130]; s[2 * LANE + 1] = a[2 * LANE + 1];\n"
    "  s[2 * LANE] = a[2 * LANE]; barrier(); f16x2 v; v.x = a[LANE + 64]; v.y = s[LANE + 3];\n"
    "  v = v + v; c[LANE] = v.y; c[LANE + 64] = v.x; }\n"
    "KERNEL pairs(const u32 *a, u32 *c) { SHARED u32 s[256]; s[LANE] = a[LANE]; s[LANE + 64] = "
    "a[LANE] "
    "+ 1; barrier(); c[LANE] = s[LANE] * s[LANE + 64]; }\n"
    "KERNEL stride64(const u64 *a, u64 *c) { SHARED u64 s[640]; s[LANE] = a[LANE]; s[LANE + 512] = "
    "a[LANE] + 1; barrier(); c[LANE] = s[LANE] ^ s[LANE + 512]; }\n"
    "KERNEL three(const u32 *a, u32 *c) { u32x3 v; __builtin_memcpy(&v, a + 4 * (LANE & 15), 12);\n"
    "  SHARED u32x4 s[64]; *(u32x3 *)&s[LANE] = v; barrier(); u32x3 w = *(u32x3 *)&s[LANE];\n"
    "  c[LANE] = w.x + w.y * 3 + w.z * 5; }\n";

/* Kernels that copy 64 values of each width by way of each kind of memory. */
static void copy_by_every_way(struct t_gpu *g, uint8_t *a, uint8_t *c)
{
    static const char *const places[] = {"direct", "flat", "lds", "flat_lds", "scratch"};
    static const struct {
        const char *name;
        unsigned bytes;
    } widths[] = {{"u8", 1}, {"i8", 1}, {"u16", 2}, {"u32", 4}, {"u64", 8}, {"u128", 16}};
    char name[32];

    for (unsigned p = 0; p < 5; p++)
        for (unsigned k = 0; k < 6; k++) {
            const size_t bytes = 64u * widths[k].bytes;
            const struct t_buffer buffers[] = {{a, bytes, QUERN_SIM_READ, "a"},
                                               {c, bytes, QUERN_SIM_WRITE, "c"}};
            snprintf(name, sizeof name, "%s_%s", places[p], widths[k].name);
            const struct t_launch launch = {
                .kernel = name, .items = {64}, .buffers = buffers, .count = 2};
            memset(c, 0, bytes);
            t_gpu_run(g, &launch);
            if (memcmp(a, c, bytes))
                fail_msg("%s copies wrongly", name);
        }
}

static void copies_of_every_width(bool wave64, enum quern_sim_check check)
{
    uint8_t a[1024], c[1024];
    struct t_gpu g;

    open_gpu(&g, wave64, check, copies);
    for (unsigned n = 0; n < sizeof a; n++)
        a[n] = (uint8_t)(n * 37 + n / 256);
    copy_by_every_way(&g, a, c);
    const struct t_buffer buffers[] = {{a, 1024, QUERN_SIM_READ, "a"},
                                       {c, 512, QUERN_SIM_WRITE, "c"}};
    struct t_launch launch = {.items = {64}, .buffers = buffers, .count = 2};
    for (unsigned k = 0; k < 4; k++) {
        static const char *const names[] = {"widen_u8", "widen_i8", "widen_u16", "widen_i16"};
        launch.kernel = names[k];
        t_gpu_run(&g, &launch);
        for (unsigned l = 0; l < 64; l++) {
            int32_t v[2], got;
            for (unsigned m = 0; m < 2; m++) {
                const unsigned at = l ^ (m ? 0 : 1);
                int16_t half;
                memcpy(&half, a + 2 * at, 2);
                v[m] = k == 0 ? a[at] : k == 1 ? (int8_t)a[at] : k == 2 ? (uint16_t)half : half;
            }
            memcpy(&got, c + 4 * l, 4);
            assert_int_equal(got, v[0] + 3 * v[1]);
        }
    }
    launch.kernel = "pairs";
    t_gpu_run(&g, &launch);
    for (unsigned l = 0; l < 64; l++) {
        uint32_t x, got;
        memcpy(&x, a + 4 * l, 4);
        memcpy(&got, c + 4 * l, 4);
        assert_int_equal(got, x * (x + 1));
    }
    launch.kernel = "stride64";
    t_gpu_run(&g, &launch);
    for (unsigned l = 0; l < 64; l++) {
        uint64_t x, got;
        memcpy(&x, a + 8 * l, 8);
        memcpy(&got, c + 8 * l, 8);
        assert_true(got == (x ^ (x + 1)));
    }
    launch.kernel = "three";
    t_gpu_run(&g, &launch);
    for (unsigned l = 0; l < 64; l++) {
        uint32_t x[3], got;
        memcpy(x, a + 16 * (l & 15), 12);
        memcpy(&got, c + 4 * l, 4);
        assert_int_equal(got, x[0] + x[1] * 3 + x[2] * 5);
    }
    for (unsigned n = 0; n < 256; n++) {
        const _Float16 h = (_Float16)((float)(n % 61) - 30);
        memcpy(a + 2 * n, &h, 2);
    }
    launch.kernel = "halves";
    t_gpu_run(&g, &launch);
    for (unsigned l = 0; l < 64; l++) {
        _Float16 got[2];
        memcpy(&got[0], c + 2 * l, 2);
        memcpy(&got[1], c + 2 * (l + 64), 2);
        assert_true((float)got[0] == 2 * ((float)((l + 3) % 61) - 30));
        assert_true((float)got[1] == 2 * ((float)((l + 64) % 61) - 30));
    }
    t_gpu_close(&g);
}

static void widths(void **state)
{
    (void)state;
    copies_of_every_width(false, QUERN_CHECK_FAST);
    copies_of_every_width(true, QUERN_CHECK_FAST);
}
static void widths_full(void **state)
{
    (void)state;
    copies_of_every_width(false, QUERN_CHECK_FULL);
    copies_of_every_width(true, QUERN_CHECK_FULL);
}

/* ---- Atomics --------------------------------------------------------------------------------- */

/* 512 work-items in 8 workgroups change one word; then 64 change a word of LDS. */
#define ATOMICS(X)                                                                                 \
    X(add, u32, "__atomic_fetch_add(p, v, 0)", x + v)                                              \
    X(sub, u32, "__atomic_fetch_sub(p, v, 0)", x - v)                                              \
    X(and, u32, "__atomic_fetch_and(p, v | 0xf0, 0)", x &(v | 0xf0))                               \
    X(or, u32, "__atomic_fetch_or(p, v, 0)", x | v)                                                \
    X(xor, u32, "__atomic_fetch_xor(p, v, 0)", x ^ v)                                              \
    X(umax, u32, "__atomic_fetch_max(p, v, 0)", x > v ? x : v)                                     \
    X(umin, u32, "__atomic_fetch_min(p, v, 0)", x < v ? x : v)                                     \
    X(smax, i32, "__atomic_fetch_max(p, v, 0)", x > v ? x : v)                                     \
    X(smin, i32, "__atomic_fetch_min(p, v, 0)", x < v ? x : v)                                     \
    X(add64, u64, "__atomic_fetch_add(p, v, 0)", x + v)                                            \
    X(xor64, u64, "__atomic_fetch_xor(p, v, 0)", x ^ v)                                            \
    X(umax64, u64, "__atomic_fetch_max(p, v, 0)", x > v ? x : v)                                   \
    X(cas, u32,                                                                                    \
      "({ u32 o = *p, n; do n = o * 3 + v - v; while (!__atomic_compare_exchange_n(p, &o, n, "     \
      "false, 0, 0)); })",                                                                         \
      x * 3 + v - v)                                                                               \
    X(fadd, f32, "__atomic_fetch_add(p, v, 0)", x + v)

typedef uint32_t u32;
typedef int32_t i32;
typedef unsigned long long u64;
typedef float f32;

static const char atomic_kernels[] =
#define X(NAME, T, CODE, EXPR)                                                                     \
    "KERNEL g_" #NAME "(" #T " *p, const " #T " *a) { const " #T                                   \
    " v = a[GROUP * 64 + LANE]; " CODE "; }\n"                                                     \
    "KERNEL l_" #NAME "(" #T " *q, const " #T " *a) { SHARED " #T " s; if (LANE == 0) s = *q; "    \
    "barrier(); " #T " *p = &s; const " #T " v = a[LANE]; " CODE                                   \
    "; barrier(); if (LANE == 0) *q = s; }\n"
    ATOMICS(X)
#undef X
        "KERNEL order(u32 *p, u32 *q) { q[GROUP * 64 + LANE] = __atomic_fetch_add(p, 1u, 0); }\n"
        "KERNEL swap(u32 *p, u32 *q) { u32 v = __atomic_exchange_n(p, GROUP * 64 + LANE + 1, 0); "
        "q[GROUP * 64 + LANE] = v; }\n";

static void atomics(void **state)
{
    static uint8_t values[512 * 8], word[8], start[8];
    const struct t_buffer buffers[] = {{word, 8, QUERN_SIM_READ_WRITE, "p"},
                                       {values, sizeof values, QUERN_SIM_READ, "a"}};
    uint64_t random = 9;
    struct t_gpu g;

    (void)state;
    open_gpu(&g, false, QUERN_CHECK_FULL, atomic_kernels);
#define X(NAME, T, CODE, EXPR)                                                                     \
    for (unsigned lds = 0; lds < 2; lds++) {                                                       \
        const unsigned count = lds ? 64 : 512;                                                     \
        const struct t_launch launch = {.kernel = lds ? "l_" #NAME : "g_" #NAME,                   \
                                        .groups = {lds ? 1 : 8},                                   \
                                        .items = {64},                                             \
                                        .buffers = buffers,                                        \
                                        .count = 2};                                               \
        T x = 5, got;                                                                              \
        memcpy(start, &x, sizeof x);                                                               \
        memcpy(word, start, 8);                                                                    \
        for (unsigned n = 0; n < count; n++) {                                                     \
            const T v = (T)(i32)(t_random(&random) % 2001 - 1000);                                 \
            memcpy(values + n * sizeof v, &v, sizeof v);                                           \
            x = (EXPR);                                                                            \
        }                                                                                          \
        t_gpu_run(&g, &launch);                                                                    \
        memcpy(&got, word, sizeof got);                                                            \
        if (got != x)                                                                              \
            fail_msg("atomic " #NAME ": wrong result");                                            \
    }
    ATOMICS(X)
#undef X
    /* every old value is given to exactly one work-item */
    static u32 counter, old[512];
    static bool seen[513];
    const struct t_buffer ordered[] = {{&counter, 4, QUERN_SIM_READ_WRITE, "p"},
                                       {old, sizeof old, QUERN_SIM_WRITE, "q"}};
    struct t_launch launch = {
        .kernel = "order", .groups = {8}, .items = {64}, .buffers = ordered, .count = 2};
    for (unsigned round = 0; round < 2; round++) {
        counter = 0;
        memset(seen, 0, sizeof seen);
        t_gpu_run(&g, &launch);
        for (unsigned n = 0; n < 512; n++) {
            assert_true(old[n] <= 512 && !seen[old[n]]);
            seen[old[n]] = true;
        }
        launch.kernel = "swap";
    }
    t_gpu_close(&g);
}

/* ---- Geometry, constants, functions, buffers ------------------------------------------------- */

static void geometry(void **state)
{
    static u32 c[3 * 4 * 5 * 2 * 3 * 6];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {
        .kernel = "k", .groups = {3, 4, 5}, .items = {2, 3, 6}, .buffers = &buffer, .count = 1};
    struct t_gpu g;

    (void)state;
    open_gpu(
        &g, false, QUERN_CHECK_FULL,
        "KERNEL k(u32 *c) { const u32 x = __builtin_amdgcn_workitem_id_x(), y = "
        "__builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();\n"
        "const u32 gx = __builtin_amdgcn_workgroup_id_x(), gy = __builtin_amdgcn_workgroup_id_y(), "
        "gz = __builtin_amdgcn_workgroup_id_z();\n"
        "const u32 group = gx + 3 * (gy + 4 * gz), item = x + 2 * (y + 3 * z);\n"
        "c[group * 36 + item] = gx << 20 | gy << 16 | gz << 12 | x << 8 | y << 4 | z; }");
    t_gpu_run(&g, &launch);
    for (unsigned n = 0; n < sizeof c / 4; n++) {
        const unsigned item = n % 36, group = n / 36;
        assert_int_equal(c[n], group % 3 << 20 | group / 3 % 4 << 16 | group / 12 << 12 |
                                   item % 2 << 8 | item / 2 % 3 << 4 | item / 6);
    }
    t_gpu_close(&g);
}

static void hidden_arguments(void **state)
{
    static u32 c[8];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {
        .kernel = "k", .groups = {7, 2}, .items = {32, 4}, .buffers = &buffer, .count = 1};
    struct t_gpu g;

    (void)state;
    open_gpu(
        &g, false, QUERN_CHECK_FAST,
        "KERNEL k(u32 *c) { auto p = (const __attribute__((address_space(4))) char *)"
        "__builtin_amdgcn_implicitarg_ptr();\n"
        "if (GROUP == 0 && LANE == 0) { c[0] = *(const __attribute__((address_space(4))) u32 *)p;\n"
        "c[1] = *(const __attribute__((address_space(4))) u32 *)(p + 4);\n"
        "c[2] = *(const __attribute__((address_space(4))) u16 *)(p + 12);\n"
        "c[3] = *(const __attribute__((address_space(4))) u16 *)(p + 14);\n"
        "c[4] = ((const __attribute__((address_space(4))) u16 "
        "*)__builtin_amdgcn_dispatch_ptr())[2]; "
        "} }");
    t_gpu_run(&g, &launch);
    assert_int_equal(c[0], 7);
    assert_int_equal(c[1], 2);
    assert_int_equal(c[2], 32);
    assert_int_equal(c[3], 4);
    assert_int_equal(c[4], 32);
    t_gpu_close(&g);
}

/* Constant tables, variables of the module, and calls of functions that are not inlined. */
static void tables_and_calls(void **state)
{
    static u32 c[64];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    struct t_launch launch = {.kernel = "k", .items = {64}, .buffers = &buffer, .count = 1};
    struct t_gpu g;

    (void)state;
    open_gpu(&g, false, QUERN_CHECK_FULL,
             "CONSTANT u32 primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};\n"
             "__attribute__((device)) u32 count = 40;\n"
             "__attribute__((device, noinline)) u32 fib(u32 n) { u32 a = 0, b = 1; while (n--) { "
             "u32 t = a "
             "+ b; a = b; b = t; } return a; }\n"
             "__attribute__((device, noinline)) u32 twice(u32 (*f)(u32), u32 n) { return f(n) + "
             "f(n + 1); "
             "}\n"
             "KERNEL k(u32 *c) { c[LANE] = primes[LANE & 7] + twice(fib, LANE & 15) + count; }\n"
             "KERNEL add(u32 *c) { if (LANE == 0) count += 2; c[LANE] = 1; }\n");
    for (unsigned round = 0; round < 2; round++) {
        static const u32 primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
        launch.kernel = "k";
        t_gpu_run(&g, &launch);
        for (unsigned l = 0; l < 64; l++) {
            u32 a = 0, b = 1;
            for (unsigned n = 0; n < (l & 15); n++) {
                const u32 t = a + b;
                a = b;
                b = t;
            }
            assert_int_equal(c[l], primes[l & 7] + a + b + 40 + 2 * round);
        }
        launch.kernel = "add";
        t_gpu_run(&g, &launch);
    }
    t_gpu_close(&g);
}

/* Buffer instructions: what is out of the descriptor's range reads 0 and writes nothing. */
static void buffer_ranges(void **state)
{
    static u32 a[64], c[128];
    const struct t_buffer buffers[] = {{a, sizeof a, QUERN_SIM_READ, "a"},
                                       {c, sizeof c, QUERN_SIM_READ_WRITE, "c"}};
    const struct t_launch launch = {.kernel = "k", .items = {64}, .buffers = buffers, .count = 2};
    struct t_gpu g;

    (void)state;
    for (unsigned l = 0; l < 64; l++)
        a[l] = l + 100;
    memset(c, 0x55, sizeof c);
    open_gpu(
        &g, false, QUERN_CHECK_FULL,
        "KERNEL k(u32 *a, u32 *c) {\n"
        "auto from = __builtin_amdgcn_make_buffer_rsrc(a, 0, 160, 0x31004000);\n"
        "auto to = __builtin_amdgcn_make_buffer_rsrc(c, 0, 192, 0x31004000);\n"
        "u32 v = __builtin_amdgcn_raw_buffer_load_b32(from, LANE * 4 + 8, 0, 0);\n"
        "__builtin_amdgcn_raw_buffer_store_b32(v, to, LANE * 4, 0, 0);\n"
        "v = __builtin_amdgcn_raw_buffer_load_b32(from, LANE * 4, 16, 0); c[64 + LANE] = v; }");
    t_gpu_run(&g, &launch);
    for (unsigned l = 0; l < 64; l++) {
        assert_int_equal(c[l], l >= 48 ? 0x55555555 : l + 2 < 40 ? l + 102 : 0);
        assert_int_equal(c[64 + l], l + 4 < 40 ? l + 104 : 0);
    }
    t_gpu_close(&g);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static struct quern_sim_counts count_kernel(struct t_gpu *g, const char *kernel, uint32_t groups)
{
    static u32 a[4096], c[4096];
    struct quern_sim_counts counts = QUERN_INIT(struct quern_sim_counts);
    const struct t_buffer buffers[] = {{a, sizeof a, QUERN_SIM_READ, "a"},
                                       {c, sizeof c, QUERN_SIM_READ_WRITE, "c"}};
    const struct t_launch launch = {.kernel = kernel,
                                    .groups = {groups},
                                    .items = {64},
                                    .buffers = buffers,
                                    .count = 2,
                                    .counts = &counts};

    t_gpu_run(g, &launch);
    return counts;
}

static void counts(void **state)
{
    struct t_gpu g;

    (void)state;
    open_gpu(
        &g, false, QUERN_CHECK_FAST,
        /* ten adds, one after the other, in a loop of 25 rounds */
        "KERNEL loop(u32 *a, u32 *c) { asm volatile(\"s_mov_b32 s40, 25\\n 1: \\n\"\n"
        "\".rept 10\\n v_add_nc_u32 v1, v1, v1\\n .endr\\n v_dual_mov_b32 v2, v3 :: v_dual_add_f32 "
        "v5, v6, v7\\n\"\n"
        "\"v_rcp_f32 v2, v2\\n v_pk_add_f16 v3, v3, v3\\n s_sub_u32 s40, s40, 1\\n s_cmp_lg_u32 "
        "s40, "
        "0\\n s_nop 0\\n s_cbranch_scc1 1b\" ::: \"v1\", \"v2\", \"v3\", \"v5\", \"v6\", \"v7\", "
        "\"s40\", \"scc\"); }\n"
        "KERNEL lines(u32 *a, u32 *c) { c[LANE] = a[LANE]; }\n"
        "KERNEL strided(u32 *a, u32 *c) { c[LANE * 32] = a[LANE * 64]; }\n"
        /* bank conflicts: all lanes in one bank; two lanes a bank; all equal */
        "#define PASSES(N, AT) KERNEL lds##N(u32 *a, u32 *c) { SHARED u32 s[4096]; u32 v;\\\n"
        "  asm volatile(\"ds_load_b32 %0, %1\\n s_waitcnt lgkmcnt(0)\" : \"=v\"(v) : \"v\"((AT) * "
        "4), "
        "\"v\"(s)); c[LANE] = v; }\n"
        "PASSES(1, LANE) PASSES(2, LANE * 2) PASSES(32, LANE * 32) PASSES(0, 7)\n"
        "KERNEL lds128(u32 *a, u32 *c) { SHARED u32 s[4096]; u32x4 v;\n"
        "  asm volatile(\"ds_load_b128 %0, %1\\n s_waitcnt lgkmcnt(0)\" : \"=v\"(v) : \"v\"(LANE * "
        "16), \"v\"(s)); c[LANE] = v.x; }\n");
    struct quern_sim_counts k = count_kernel(&g, "loop", 3);
    const unsigned waves = 3 * 2;
    assert_int_equal(k.wave_size, 32);
    assert_int_equal(k.waves, waves);
    assert_int_equal(k.workgroups, 3);
    assert_int_equal(k.classes[QUERN_CLASS_VALU], waves * 25 * 11);
    assert_int_equal(k.classes[QUERN_CLASS_TRANS], waves * 25);
    assert_int_equal(k.classes[QUERN_CLASS_PACKED], waves * 25);
    assert_int_equal(k.classes[QUERN_CLASS_SALU], waves * (1 + 25 * 2));
    assert_int_equal(k.classes[QUERN_CLASS_WAIT], waves * 25);
    assert_int_equal(k.classes[QUERN_CLASS_BRANCH], waves * (25 + 1));
    assert_int_equal(k.instructions, waves * (1 + 25 * 17 + 1));
    k = count_kernel(&g, "lines", 1);
    assert_int_equal(k.lines128, 4);              /* two waves, a load and a store each */
    assert_int_equal(k.bytes_read, 256 + 2 * 16); /* two pointers for each wave */
    assert_int_equal(k.bytes_written, 256);
    k = count_kernel(&g, "strided", 1);
    assert_int_equal(k.lines128, 128);
    static const unsigned lds[] = {1, 2, 32, 0};
    for (unsigned n = 0; n < 4; n++) {
        char name[16];
        snprintf(name, sizeof name, "lds%u", lds[n]);
        k = count_kernel(&g, name, 1);
        assert_int_equal(k.lds_accesses, 2);
        assert_int_equal(k.lds_passes, 2 * (lds[n] ? lds[n] : 1));
        assert_int_equal(k.classes[QUERN_CLASS_LDS], 2);
    }
    k = count_kernel(&g, "lds128", 1);
    assert_int_equal(k.lds_passes, 2 * 4);
    t_gpu_close(&g);
}

/* Loads and stores of every width at odd addresses, straight and through LDS, where each work-item
 * reads what another wave has written; scratch at every address. */
static const char odd[] =
    "typedef u16 o16 __attribute__((aligned(1))); typedef u32 o32 __attribute__((aligned(1)));\n"
    "typedef u32x2 o64 __attribute__((aligned(1))); typedef u32x4 o128 "
    "__attribute__((aligned(1)));\n"
    "#define ODD(NAME, T) KERNEL direct_##NAME(const u8 *a, u8 *c) {\\\n"
    "  *(T *)(c + 1 + LANE * sizeof(T)) = *(const T *)(a + 3 + LANE * sizeof(T)); }\\\n"
    "KERNEL lds_##NAME(const u8 *a, u8 *c) { SHARED u8 s[1200];\\\n"
    "  *(T *)(s + 5 + LANE * sizeof(T)) = *(const T *)(a + 3 + LANE * sizeof(T)); barrier();\\\n"
    "  *(T *)(c + 1 + (63 - LANE) * sizeof(T)) = *(T *)(s + 5 + (63 - LANE) * sizeof(T)); }\\\n"
    "KERNEL scratch_##NAME(const u8 *a, u8 *c) { u8 t[40]; const u32 at = 1 + (a[0] & 2);\\\n"
    "  for (u32 n = 0; n < sizeof(T); n++) t[at + n] = a[3 + LANE * sizeof(T) + n];\\\n"
    "  asm volatile(\"\" :: \"v\"(t) : \"memory\");\\\n"
    "  *(T *)(c + 1 + LANE * sizeof(T)) = *(T *)(t + at); }\n"
    "ODD(16, o16) ODD(32, o32) ODD(64, o64) ODD(128, o128)\n";

static void unaligned_accesses(bool wave64, enum quern_sim_check check)
{
    static const char *const places[] = {"direct", "lds", "scratch"};
    uint8_t a[1100], c[1100];
    struct t_gpu g;
    char name[32];

    open_gpu(&g, wave64, check, odd);
    for (unsigned n = 0; n < sizeof a; n++)
        a[n] = (uint8_t)(n * 41 + n / 256);
    for (unsigned p = 0; p < 3; p++)
        for (unsigned bits = 16; bits <= 128; bits *= 2) {
            const struct t_buffer buffers[] = {{a, sizeof a, QUERN_SIM_READ, "a"},
                                               {c, sizeof c, QUERN_SIM_READ_WRITE, "c"}};
            struct quern_sim_counts k = QUERN_INIT(struct quern_sim_counts);
            snprintf(name, sizeof name, "%s_%u", places[p], bits);
            const struct t_launch launch = {
                .kernel = name, .items = {64}, .buffers = buffers, .count = 2, .counts = &k};
            memset(c, 0, sizeof c);
            t_gpu_run(&g, &launch);
            if (memcmp(a + 3, c + 1, 64 * bits / 8))
                fail_msg("%s copies wrongly", name);
            /* in one instruction each way, of each wave */
            if (p == 0)
                assert_int_equal(k.classes[QUERN_CLASS_VMEM], 2 * k.waves);
            if (p == 1)
                assert_int_equal(k.lds_accesses, 2 * k.waves);
        }
    t_gpu_close(&g);
}

static void unaligned(void **state)
{
    (void)state;
    unaligned_accesses(false, QUERN_CHECK_FULL);
    unaligned_accesses(true, QUERN_CHECK_FAST);
}

/* Counts and results do not depend on the number of threads. */
static void threads(void **state)
{
    (void)state;
    static u32 c[2][64 * 64];
    struct quern_sim_counts k[2] = {QUERN_INIT(struct quern_sim_counts),
                                    QUERN_INIT(struct quern_sim_counts)};

    for (int n = 0; n < 2; n++) {
        struct t_gpu g;
        const struct t_buffer buffer = {c[n], sizeof c[n], QUERN_SIM_WRITE, "c"};
        const struct t_launch launch = {.kernel = "k",
                                        .groups = {64},
                                        .items = {64},
                                        .buffers = &buffer,
                                        .count = 1,
                                        .counts = &k[n]};
        t_gpu_open(&g, "gfx1100", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
        quern_sim_close(g.sim);
        struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
        o.target = "gfx1100";
        o.threads = n ? 5 : 1;
        o.disassembler = (struct quern_disassembler){compiler_disassemble, g.compiler};
        assert_int_equal(quern_sim_open(&o, &g.sim), QUERN_OK);
        t_gpu_load(
            &g, "KERNEL k(u32 *c) { u32 v = GROUP; for (u32 n = 0; n < LANE + GROUP; n++) v = v * "
                "5 + n; c[GROUP * 64 + LANE] = v; }");
        t_gpu_run(&g, &launch);
        t_gpu_close(&g);
    }
    assert_memory_equal(c[0], c[1], sizeof c[0]);
    assert_memory_equal(&k[0], &k[1], sizeof k[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths),           cmocka_unit_test(widths_full),
        cmocka_unit_test(atomics),          cmocka_unit_test(geometry),
        cmocka_unit_test(hidden_arguments), cmocka_unit_test(tables_and_calls),
        cmocka_unit_test(buffer_ranges),    cmocka_unit_test(counts),
        cmocka_unit_test(threads),          cmocka_unit_test(unaligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
