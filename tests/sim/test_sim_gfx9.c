/* SPDX-License-Identifier: MIT */
/*
 * What gfx9 alone has: rows of lanes that change places, private memory through a descriptor, what
 * 16-bit results do to the other half, denormals of gfx90a's dots, arguments in registers.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "every/gfx9_values.h"

/* ---- Lanes ----------------------------------------------------------------------------------- */

/* Odd rows of one register change places with even rows of the other; of the last rows one lane is
 * off, and its partner stays. */
static void rows_are_swapped(void **state)
{
    static const unsigned widths[] = {16, 32};
    uint64_t random = 11;
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx950", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    load(&g, "u32 a = u, b = v, c = u, d = v; if (LANE != 63) asm volatile(\n"
             "\"v_permlane16_swap_b32 %0, %1\\n v_permlane32_swap_b32 %2, %3\"\n"
             ": \"+v\"(a), \"+v\"(b), \"+v\"(c), \"+v\"(d));\n"
             "r[0] = a; r[1] = b; r[2] = c; r[3] = d;\n");
    draw_all(&random);
    run(&g);
    for (unsigned n = 0; n < 2; n++)
        for (unsigned l = 0; l < ITEMS; l++) {
            const unsigned w = widths[n], other = l ^ w;
            const bool swaps = l != 63 && other != 63, upper = l & w;
            const uint32_t *const r = memory.r + VALUES * l + 2 * n;
            const uint32_t first = memory.u[4 * l], second = memory.u[4 * l + 1];
            assert_int_equal(r[0], swaps && upper ? memory.u[4 * other + 1] : first);
            assert_int_equal(r[1], swaps && !upper ? memory.u[4 * other] : second);
        }
    t_gpu_close(&g);
}

/* ---- Halves of registers --------------------------------------------------------------------- */

/* Names of gfx8 clear the half that they do not write, instructions new in gfx9 leave it. */
static void other_halves(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx950"};
    uint64_t random = 8;

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++) {
        struct t_gpu g;
        t_gpu_open(&g, targets[t], "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
        load(&g, "#define OP(n, text) { u32 o = 0xabcd1234; __asm__(text : \"+v\"(o) : \"v\"(u), "
                 "\"v\"(v)); r[n] = o; }\n"
                 "OP(0, \"v_mad_legacy_u16 %0, %1, %2, %1\")\n"
                 "OP(1, \"v_mad_u16 %0, %1, %2, %1\")\n"
                 "OP(2, \"v_add_u16 %0, %1, %2\")\n"
                 "OP(3, \"v_mad_u16 %0, %1, %2, %1 op_sel:[1,0,0,1]\")\n"
                 "OP(4, \"v_add_u16_sdwa %0, %1, %2 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE "
                 "src0_sel:BYTE_1 src1_sel:WORD_1\")\n"
                 "OP(5, \"v_add_u16_sdwa %0, %1, %2 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT "
                 "src0_sel:DWORD src1_sel:DWORD\")\n"
                 "OP(6, \"v_add_u16_sdwa %0, sext(%1), %2 dst_sel:WORD_1 dst_unused:UNUSED_PAD "
                 "src0_sel:BYTE_3 src1_sel:BYTE_0\")\n");
        draw_all(&random);
        run(&g);
        for (unsigned n = 0; n < ITEMS; n++) {
            const uint32_t *const r = memory.r + VALUES * n, u = memory.u[4 * n];
            const uint32_t v = memory.u[4 * n + 1], mad = (u * v + u) & 0xffff;
            const uint32_t sum = (u + v) & 255;
            assert_int_equal(r[0], mad);
            assert_int_equal(r[1], mad | 0xabcd0000u);
            assert_int_equal(r[2], (u + v) & 0xffff);
            assert_int_equal(r[3], ((u >> 16) * v + u) << 16 | 0x1234);
            assert_int_equal(r[4], 0xab001234u | (((u >> 8 & 255) + (v >> 16)) & 255) << 16);
            assert_int_equal(r[5], sum << 8 | (sum & 0x80 ? 0xffff0000u : 0));
            assert_int_equal(r[6], ((uint32_t)((int)u >> 24) + (v & 255)) << 16);
        }
        t_gpu_close(&g);
    }
}

/* ---- Dots ------------------------------------------------------------------------------------ */

static void denormals_in_dots(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942"};

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++) {
        struct t_gpu g;
        t_gpu_open(&g, targets[t], "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
        load(&g, "r[0] = B(__builtin_amdgcn_fdot2(A<h2>(u), A<h2>(v), 1.0f, false));\n"
                 "if (LANE < 40) r[1] = B(__builtin_amdgcn_fdot2(A<h2>(v), A<h2>(u), 1.0f, "
                 "false));\n");
        for (unsigned n = 0; n < ITEMS; n++) {
            /* 2^-15, a denormal, times 1024, and 2 times 3 */
            memory.u[4 * n] = 0x0200 | 0x4000u << 16;
            memory.u[4 * n + 1] = 0x6400 | 0x4200u << 16;
        }
        memset(memory.r, 0, sizeof memory.r);
        run(&g);
        const float want = t ? 7 + 0x1p-5f : 7;
        for (unsigned n = 0; n < ITEMS; n++) {
            assert_true(float_of(memory.r[VALUES * n]) == want);
            assert_true(float_of(memory.r[VALUES * n + 1]) == (n < 40 ? want : 0));
        }
        t_gpu_close(&g);
    }
}

/* ---- Private memory -------------------------------------------------------------------------- */

/* Arrays too large for registers: through s[0:3] and a wave's offset on gfx90a, scratch
 * instructions later; by flat addresses when a function that is called gets a pointer. */
static void private_arrays(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx950"};
    static const char source[] =
        "static __attribute__((device, noinline)) u32 sum(const u32 *p, u32 n) {\n"
        "  u32 s = 0; for (u32 i = 0; i < n; i++) s = s * 3 + p[i]; return s; }\n"
        "KERNEL k(const f32 *xs, const u32 *us, u32 *r) {\n"
        "  u32 a[96]; for (u32 i = 0; i < 96; i++) a[i] = us[(LANE + i) & 255] + i;\n"
        "  u16 h[40]; for (u32 i = 0; i < 40; i++) h[(i * 7) % 40] = us[i] * 5;\n"
        "  a[us[LANE] % 96] ^= 0x5555; h[us[LANE + 1] % 40] += 3;\n"
        "  r[16 * LANE] = sum(a, 96); u32 t = 0; for (u32 i = 0; i < 40; i++) t = t * 5 + h[i];\n"
        "  r[16 * LANE + 1] = t; (void)xs; }\n";
    uint64_t random = 9;

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++) {
        struct t_gpu g;
        t_gpu_open(&g, targets[t], "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
        t_gpu_load(&g, source);
        draw_all(&random);
        run(&g);
        for (unsigned n = 0; n < ITEMS; n++) {
            const uint32_t *const us = memory.u;
            uint32_t a[96], s = 0, sum = 0;
            uint16_t h[40];
            for (unsigned i = 0; i < 96; i++)
                a[i] = us[(n + i) & 255] + i;
            for (unsigned i = 0; i < 40; i++)
                h[i * 7 % 40] = (uint16_t)(us[i] * 5);
            a[us[n] % 96] ^= 0x5555;
            h[us[n + 1] % 40] = (uint16_t)(h[us[n + 1] % 40] + 3);
            for (unsigned i = 0; i < 96; i++)
                s = s * 3 + a[i];
            for (unsigned i = 0; i < 40; i++)
                sum = sum * 5 + h[i];
            if (memory.r[VALUES * n] != s || memory.r[VALUES * n + 1] != sum)
                fail_msg("%s, item %u: 0x%x and 0x%x, not 0x%x and 0x%x", targets[t], n,
                         memory.r[VALUES * n], memory.r[VALUES * n + 1], s, sum);
        }
        t_gpu_close(&g);
    }
}

/* ---- Arguments in registers ------------------------------------------------------------------ */

/* The kernel starts behind the code that would load them, and its registers hold what is passed. */
static void preloaded_arguments(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx950"};
    const uint32_t extra[2] = {7, 100};
    uint64_t random = 12;

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++) {
        uint64_t loads[2];
        for (int preload = 0; preload < 2; preload++) {
            struct quern_sim_counts counts = QUERN_INIT(struct quern_sim_counts);
            struct t_gpu g;
            t_gpu_open(&g, targets[t], preload ? "-mllvm\n-amdgpu-kernarg-preload-count=8" : "",
                       QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
            t_gpu_load(&g, "KERNEL k(const f32 *xs, const u32 *us, u32 *r, u32 x, u32 y) {\n"
                           "  (void)xs; r[16 * LANE] = us[LANE] * x + y + GROUP; }\n");
            draw_all(&random);
            const struct t_buffer buffers[] = {
                {memory.x, sizeof memory.x, QUERN_SIM_READ, "x"},
                {memory.u, sizeof memory.u, QUERN_SIM_READ, "u"},
                {memory.r, sizeof memory.r, QUERN_SIM_READ_WRITE, "r"}};
            const struct t_launch launch = {.kernel = "k",
                                            .items = {ITEMS},
                                            .buffers = buffers,
                                            .count = COUNT(buffers),
                                            .extra = extra,
                                            .extra_bytes = sizeof extra,
                                            .counts = &counts};
            t_gpu_run(&g, &launch);
            for (unsigned n = 0; n < ITEMS; n++)
                assert_int_equal(memory.r[VALUES * n], memory.u[n] * 7 + 100);
            loads[preload] = counts.classes[QUERN_CLASS_SMEM];
            t_gpu_close(&g);
        }
        assert_true(loads[0] > 0);
        assert_int_equal(loads[1], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_swapped),    cmocka_unit_test(other_halves),
        cmocka_unit_test(denormals_in_dots),   cmocka_unit_test(private_arrays),
        cmocka_unit_test(preloaded_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
