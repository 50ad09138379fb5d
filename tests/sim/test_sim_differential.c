/* SPDX-License-Identifier: MIT */
/* The functions of functions.inc, compiled by the host's compiler and by hipRTC, give the same
 * bits. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The functions on the CPU ---------------------------------------------------------------- */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef long long i64;
typedef float f32;
typedef double f64;
typedef _Float16 f16;

static f32 F(u32 u)
{
    f32 f;
    memcpy(&f, &u, 4);
    return f;
}
static u32 U(f32 f)
{
    u32 u;
    memcpy(&u, &f, 4);
    return u;
}
static f64 D(u64 u)
{
    f64 d;
    memcpy(&d, &u, 8);
    return d;
}
static u64 Q(f64 d)
{
    u64 u;
    memcpy(&u, &d, 8);
    return u;
}
static f16 H(u32 u)
{
    const u16 low = (u16)u;
    f16 h;
    memcpy(&h, &low, 2);
    return h;
}
static u16 W(f16 h)
{
    u16 u;
    memcpy(&u, &h, 2);
    return u;
}
/* 113 bits hold the product and the sum of halves exactly */
#define HFMA(x, y, z) W((f16)((__float128)H(x) * H(y) + H(z)))
#define HSQRT(x)      W((f16)sqrt((f64)H(x)))
#define LDEXPF        ldexpf

#define FN(NAME, ...)                                                                              \
    static u64 cpu_##NAME(u64 a, u64 b, u64 c)                                                     \
    {                                                                                              \
        const u32 x = (u32)a, y = (u32)b, z = (u32)c;                                              \
        (void)x, (void)y, (void)z;                                                                 \
        __VA_ARGS__                                                                                \
    }
#define FF FN
#define FD FN
#define FH FN
#include "functions.inc"
#undef FN
#undef FF
#undef FD
#undef FH

enum kind { BITS, AS_F32, AS_F64, AS_F16 };

static const struct function {
    const char *name;
    enum kind kind;
    u64 (*cpu)(u64, u64, u64);
} functions[] = {
#define FN(NAME, ...) {#NAME, BITS, cpu_##NAME},
#define FF(NAME, ...) {#NAME, AS_F32, cpu_##NAME},
#define FD(NAME, ...) {#NAME, AS_F64, cpu_##NAME},
#define FH(NAME, ...) {#NAME, AS_F16, cpu_##NAME},
#include "functions.inc"
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

/* ---- The same on the GPU --------------------------------------------------------------------- */

/* the text of functions.inc, ending with a NUL */
__asm__(".section .rodata\n"
        "functions_text: .incbin \"tests/sim/functions.inc\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char functions_text[];

static const char gpu_start[] =
    "DEVICE f32 F(u32 u) { return __builtin_bit_cast(f32, u); }\n"
    "DEVICE u32 U(f32 f) { return __builtin_bit_cast(u32, f); }\n"
    "DEVICE f64 D(u64 u) { return __builtin_bit_cast(f64, u); }\n"
    "DEVICE u64 Q(f64 d) { return __builtin_bit_cast(u64, d); }\n"
    "DEVICE f16 H(u32 u) { return __builtin_bit_cast(f16, (u16)u); }\n"
    "DEVICE u16 W(f16 h) { return __builtin_bit_cast(u16, h); }\n"
    "#define HFMA(x, y, z) W(__builtin_fmaf16(H(x), H(y), H(z)))\n"
    "#define HSQRT(x) W(__builtin_sqrtf16(H(x)))\n"
    "#define LDEXPF __builtin_ldexpf\n"
    "#define FN(NAME, ...) DEVICE u64 f_##NAME(u64 a, u64 b, u64 c) {\\\n"
    "  const u32 x = (u32)a, y = (u32)b, z = (u32)c; __VA_ARGS__ }\\\n"
    "KERNEL NAME(const u64 *a, const u64 *b, const u64 *c, u64 *r) {\\\n"
    "  const u32 i = GROUP * 128 + LANE; r[i] = f_##NAME(a[i], b[i], c[i]); }\n"
    "#define FF FN\n#define FD FN\n#define FH FN\n#line 1 \"functions.inc\"\n";

#define INPUTS 1024

static u64 input(uint64_t *random)
{
    static const u64 special[] = {0,
                                  1,
                                  2,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  0x100000000,
                                  0x3f800000,
                                  0xbf800000,
                                  0x7f800000,
                                  0xff800000,
                                  0x7fc00000,
                                  0x00000001,
                                  0x007fffff,
                                  0x00800000,
                                  0x4b000000,
                                  0x3c00,
                                  0x7c00,
                                  0xfc00,
                                  0x8000,
                                  0x0001,
                                  0x03ff,
                                  0x7bff,
                                  0x3ff0000000000000,
                                  0x7ff0000000000000,
                                  0x8000000000000000,
                                  0x0000000000000001ull << 52,
                                  0xffffffffffffffff,
                                  0xc000000000000000,
                                  0x47efffffe0000000};
    const u64 bits = t_random(random), choice = t_random(random);

    switch (choice % 8) {
    case 0:
        return special[bits % (sizeof special / sizeof *special)];
    case 1: /* small integers */
        return bits % 1024;
    case 2: /* small negative ones */
        return 0 - bits % 1024;
    case 3: { /* f32 of moderate size, in both words */
        const u32 f = U((f32)((i32)(bits & 0xffffff) - 0x800000) / 4096.0f);
        return f | (u64)f << 32;
    }
    case 4: /* f64 of moderate size */
        return Q((f64)((i64)bits >> 20) / 1048576.0);
    case 5: { /* halves of moderate size in every place */
        const u64 h = 0x2c00 + (bits & 0x9fff);
        return h * 0x0001000100010001u;
    }
    default:
        return bits;
    }
}

static bool same(enum kind kind, u64 x, u64 y)
{
    if (x == y)
        return true;
    switch (kind) {
    case AS_F32:
        return isnan(F((u32)x)) && isnan(F((u32)y));
    case AS_F64:
        return isnan(D(x)) && isnan(D(y));
    case AS_F16:
        return isnan((f32)H((u32)x)) && isnan((f32)H((u32)y));
    default:
        return false;
    }
}

static void compare_all(const char *target, const char *options, enum quern_sim_isa isa,
                        enum quern_sim_check check)
{
    u64 *const a = malloc(4 * INPUTS * sizeof *a), *const b = a + INPUTS, *const c = b + INPUTS;
    u64 *const r = c + INPUTS;
    uint64_t random = 42;
    unsigned wrong = 0;
    struct t_gpu g;
    char all[128];

    assert_non_null(a);
    snprintf(all, sizeof all, "-ffp-contract=off\n%s", options);
    t_gpu_open(&g, target, all, check, isa, 0);
    const size_t size = sizeof gpu_start + strlen(functions_text);
    char *const source = malloc(size);
    assert_non_null(source);
    snprintf(source, size, "%s%s", gpu_start, functions_text);
    t_gpu_load(&g, source);
    free(source);
    for (size_t n = 0; n < FUNCTIONS; n++) {
        const struct function *const f = &functions[n];
        for (unsigned i = 0; i < INPUTS; i++) {
            a[i] = input(&random);
            b[i] = input(&random);
            c[i] = input(&random);
        }
        const struct t_buffer buffers[] = {{a, INPUTS * 8, QUERN_SIM_READ, "a"},
                                           {b, INPUTS * 8, QUERN_SIM_READ, "b"},
                                           {c, INPUTS * 8, QUERN_SIM_READ, "c"},
                                           {r, INPUTS * 8, QUERN_SIM_WRITE, "r"}};
        const struct t_launch launch = {.kernel = f->name,
                                        .groups = {INPUTS / 128},
                                        .items = {128},
                                        .buffers = buffers,
                                        .count = 4};
        if (t_gpu_try(&g, &launch) != QUERN_OK) {
            print_error("%s: %s: %s\n", target, f->name, quern_last_error()->message);
            wrong++;
            continue;
        }
        for (unsigned i = 0; i < INPUTS; i++) {
            const u64 want = f->cpu(a[i], b[i], c[i]);
            if (!same(f->kind, want, r[i])) {
                print_error("%s: %s(0x%llx, 0x%llx, 0x%llx) is 0x%llx, the GPU says 0x%llx\n",
                            target, f->name, a[i], b[i], c[i], want, r[i]);
                wrong++;
                break;
            }
        }
    }
    t_gpu_close(&g);
    free(a);
    assert_int_equal(wrong, 0);
}

static void gfx1100_wave32(void **state)
{
    (void)state;
    compare_all("gfx1100", "", QUERN_ISA_AUTO, QUERN_CHECK_FAST);
}

static void gfx1151_wave64(void **state)
{
    (void)state;
    compare_all("gfx1151", "-mwavefrontsize64", QUERN_ISA_AUTO, QUERN_CHECK_FAST);
}

static void full_check(void **state)
{
    (void)state;
    compare_all("gfx1103", "", QUERN_ISA_AUTO, QUERN_CHECK_FULL);
}

static void full_check_wave64(void **state)
{
    (void)state;
    compare_all("gfx1100", "-mwavefrontsize64", QUERN_ISA_AUTO, QUERN_CHECK_FULL);
}

/* The builds for older CPUs give the same results. */
static void x86_64(void **state)
{
    (void)state;
    compare_all("gfx1100", "", QUERN_ISA_X86_64, QUERN_CHECK_FAST);
}

static void x86_64_v3(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx2"))
        skip();
    compare_all("gfx1150", "", QUERN_ISA_X86_64_V3, QUERN_CHECK_FULL);
}

/* Targets of other families, as soon as the software GPU offers them. */
static void other_families(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx950", "gfx1201"};
    unsigned run = 0;

    (void)state;
    for (size_t n = 0; n < sizeof targets / sizeof *targets; n++)
        if (target_named(targets[n])->verified) {
            compare_all(targets[n], "", QUERN_ISA_AUTO, QUERN_CHECK_FULL);
            run++;
        }
    if (!run)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx1100_wave32), cmocka_unit_test(gfx1151_wave64),
        cmocka_unit_test(full_check),     cmocka_unit_test(full_check_wave64),
        cmocka_unit_test(x86_64),         cmocka_unit_test(x86_64_v3),
        cmocka_unit_test(other_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
