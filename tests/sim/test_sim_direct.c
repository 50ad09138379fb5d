/* SPDX-License-Identifier: MIT */
/* Loads straight to LDS: where values go, what becomes of short ones and of those out of range. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define ITEMS        64
#define VALUES       16 /* results of an item */

static const char *const targets[] = {"gfx90a", "gfx942", "gfx950"};
static struct {
    uint32_t u[ITEMS * 4], r[ITEMS * VALUES];
} memory;

static void draw(uint64_t *random)
{
    for (unsigned n = 0; n < COUNT(memory.u); n++)
        memory.u[n] = (uint32_t)t_random(random);
    memset(memory.r, 0, sizeof memory.r);
}

static quern_status try_kernel(struct t_gpu *g)
{
    const struct t_buffer buffers[] = {{memory.u, sizeof memory.u, QUERN_SIM_READ, "u"},
                                       {memory.r, sizeof memory.r, QUERN_SIM_READ_WRITE, "r"}};
    const struct t_launch launch = {
        .kernel = "k", .items = {ITEMS}, .buffers = buffers, .count = COUNT(buffers)};

    return t_gpu_try(g, &launch);
}

static void loads_to_lds(void **state)
{
    /* the second buffer has 200 bytes: lanes from 50 on read zeros; `words` is 64 or, wrong, 63 */
    static const char text[] =
        "#define GLOBAL(p) ((const __attribute__((address_space(1))) void *)(p))\n"
        "#define LOCAL(p) ((__attribute__((address_space(3))) void *)(p))\n"
        "KERNEL k(const u32 *us, u32 *r) {\n"
        "  SHARED u32 a[64], b[64], c[64], d[%u];\n"
        "  __builtin_amdgcn_global_load_lds(GLOBAL(us + 3 * LANE), LOCAL(a), 4, 0, 0);\n"
        "  __builtin_amdgcn_global_load_lds(GLOBAL((const u16 *)us + LANE), LOCAL(b), 2, 0, 0);\n"
        "  const auto rsrc = __builtin_amdgcn_make_buffer_rsrc((void *)us, 0, 200, 0x27000);\n"
        "  __builtin_amdgcn_raw_ptr_buffer_load_lds(rsrc, LOCAL(c), 4, 4 * LANE, 0, 0, 0);\n"
        "  __builtin_amdgcn_global_load_lds(GLOBAL(us + LANE), LOCAL(d), 4, 0, 0);\n"
        "  barrier(); const u32 l = 63 - LANE;\n"
        "  r[16 * LANE] = a[l]; r[16 * LANE + 1] = b[l]; r[16 * LANE + 2] = c[l];\n"
        "  r[16 * LANE + 3] = d[l > 62 ? 62 : l];\n"
        "#if WIDE /* the offset counts for both addresses */\n"
        "  SHARED u32 e[260];\n"
        "  __builtin_amdgcn_global_load_lds(GLOBAL(us + 4 * (LANE * 5 & 31)), LOCAL(e), 16, 16, "
        "0);\n"
        "  barrier(); r[16 * LANE + 4] = e[4 * l + 4 + (LANE & 3)];\n"
        "#endif\n"
        "}\n";
    uint64_t random = 10;

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++) {
        struct t_gpu g;
        char source[4096];
        t_gpu_open(&g, targets[t], t == 2 ? "-DWIDE=1" : "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
        snprintf(source, sizeof source, text, 64);
        t_gpu_load(&g, source);
        draw(&random);
        assert_int_equal(try_kernel(&g), QUERN_OK);
        for (unsigned n = 0; n < ITEMS; n++) {
            const uint32_t *const r = memory.r + VALUES * n;
            const unsigned l = 63 - n;
            assert_int_equal(r[0], memory.u[3 * l]);
            assert_int_equal(r[1], memory.u[l / 2] >> 16 * (l % 2) & 0xffff);
            assert_int_equal(r[2], l < 50 ? memory.u[l] : 0);
            assert_int_equal(r[3], memory.u[l > 62 ? 62 : l]);
            if (t == 2)
                assert_int_equal(r[4], memory.u[4 * (l * 5 & 31) + 4 + (n & 3)]);
        }
        snprintf(source, sizeof source, text, 63);
        t_gpu_load(&g, source);
        assert_int_equal(try_kernel(&g), QUERN_E_FAULT);
        assert_non_null(strstr(quern_last_error()->message, "a load to LDS puts 4 bytes at"));
        t_gpu_close(&g);
    }
}

/* Every width, through a pointer and through a buffer of 200 bytes: behind it are zeros. */
static void every_load_to_lds(void **state)
{
    static const struct {
        const char *on, *name; /* targets by their place in the list above */
        unsigned words, bits;
        bool is_signed;
    } loads[] = {
        {"012", "ubyte", 1, 8, false},   {"012", "sbyte", 1, 8, true},
        {"012", "ushort", 1, 16, false}, {"012", "sshort", 1, 16, true},
        {"012", "dword", 1, 32, false},  {"2", "dwordx3", 3, 32, false},
        {"2", "dwordx4", 4, 32, false},
    };
    uint64_t random = 12;

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++)
        for (size_t n = 0; n < COUNT(loads); n++) {
            const unsigned words = loads[n].words;
            struct t_gpu g;
            char global[64], source[2048];
            if (!strchr(loads[n].on, (int)('0' + t)))
                continue;
            snprintf(global, sizeof global,
                     t ? "global_load_lds_%s %%0, off" : "global_load_%s %%0, off lds",
                     loads[n].name);
            snprintf(source, sizeof source,
                     "KERNEL k(const u32 *us, u32 *r) { SHARED u32 a[256], b[256];\n"
                     "const u32x4 rsrc = {(u32)(u64)us, (u32)((u64)us >> 32), 200, "
                     "0x27000};\n"
                     "#define AT(p) (u32)(__attribute__((address_space(3))) u32 *)(p)\n"
                     "asm volatile(\"s_mov_b32 m0, %%1\\n s_nop 0\\n %s\\n s_waitcnt 0\" :: "
                     "\"v\"((const char *)us + %u * LANE), \"s\"(AT(a)) : \"memory\", \"m0\");\n"
                     "asm volatile(\"s_mov_b32 m0, %%2\\n s_nop 0\\n buffer_load_%s %%0, %%1, 0 "
                     "offen lds\\n s_waitcnt 0\" :: \"v\"(%u * LANE), \"s\"(rsrc), "
                     "\"s\"(AT(b)) : \"memory\", \"m0\");\n"
                     "barrier(); for (u32 k = 0; k < %u; k++) { r[16 * LANE + k] = a[%u * (63 - "
                     "LANE) + k]; r[16 * LANE + 4 + k] = b[%u * (63 - LANE) + k]; } }\n",
                     global, words * loads[n].bits / 8, loads[n].name, words * loads[n].bits / 8,
                     words, words, words);
            t_gpu_open(&g, targets[t], "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
            t_gpu_load(&g, source);
            draw(&random);
            assert_int_equal(try_kernel(&g), QUERN_OK);
            for (unsigned i = 0; i < ITEMS * words; i++) {
                const unsigned l = 63 - i / words, k = i % words;
                const unsigned at = (l * words + k) * loads[n].bits / 8;
                uint32_t want = memory.u[at / 4] >> at % 4 * 8;
                if (loads[n].bits < 32)
                    want = loads[n].is_signed
                               ? (uint32_t)((int32_t)(want << (32 - loads[n].bits)) >>
                                            (32 - loads[n].bits))
                               : want & ((1u << loads[n].bits) - 1);
                /* a lane is out of range as a whole */
                const bool inside = (l + 1) * words * loads[n].bits / 8 <= 200;
                const uint32_t *const r = memory.r + VALUES * (i / words);
                if (r[k] != want || r[4 + k] != (inside ? want : 0))
                    fail_msg("%s: %s of lane %u, word %u: 0x%x and 0x%x, not 0x%x and 0x%x",
                             targets[t], loads[n].name, l, k, r[k], r[4 + k], want,
                             inside ? want : 0);
            }
            t_gpu_close(&g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_to_lds),
        cmocka_unit_test(every_load_to_lds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
