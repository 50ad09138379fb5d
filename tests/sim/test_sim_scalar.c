/* SPDX-License-Identifier: MIT */
/* Scalar registers by number (s_movrels and its like), and scalar loads of parts of a dword from a
 * buffer (gfx12). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

/* ---- By number ------------------------------------------------------------------------------- */

static uint32_t out[32];

/* s40…s47 are 100…107; M0 is `m0`; then `text` works on them and s40…s47 are stored. */
static quern_status by_number(struct t_gpu *g, const char *m0, const char *text)
{
    static char source[4096];
    const struct t_buffer buffer = {out, sizeof out, QUERN_SIM_WRITE, "out"};
    const struct t_launch launch = {.kernel = "k", .items = {1}, .buffers = &buffer, .count = 1};
    size_t used =
        (size_t)snprintf(source, sizeof source, "KERNEL k(u32 *out) { u32 v[8]; asm volatile(\"");

    for (unsigned n = 0; n < 8; n++)
        used += (size_t)snprintf(source + used, sizeof source - used, "s_mov_b32 s%u, %u\\n ",
                                 40 + n, 100 + n);
    used += (size_t)snprintf(source + used, sizeof source - used, "%s %s\\n ", m0, text);
    for (unsigned n = 0; n < 8; n++)
        used += (size_t)snprintf(source + used, sizeof source - used, "v_mov_b32 %%%u, s%u\\n ", n,
                                 40 + n);
    used += (size_t)snprintf(source + used, sizeof source - used, "\" : ");
    for (unsigned n = 0; n < 8; n++)
        used += (size_t)snprintf(source + used, sizeof source - used, "%s\"=&v\"(v[%u])",
                                 n ? ", " : "", n);
    snprintf(source + used, sizeof source - used,
             " : : \"m0\", \"s40\", \"s41\", \"s42\", \"s43\", \"s44\", \"s45\", \"s46\", \"s47\", "
             "\"s48\", \"scc\"); for (int n = 0; n < 8; n++) out[n] = v[n]; }\n");
    t_gpu_load(g, source);
    memset(out, 0, sizeof out);
    return t_gpu_try(g, &launch);
}

static void expect(const char *m0, struct t_gpu *g, const char *text, unsigned place,
                   const uint32_t *values, unsigned count)
{
    if (by_number(g, m0, text) != QUERN_OK)
        fail_msg("%s %s: %s", g->target, text, quern_last_error()->message);
    for (unsigned n = 0; n < 8; n++) {
        const bool changed = n >= place && n < place + count;
        assert_int_equal(out[n], changed ? values[n - place] : 100 + n);
    }
}

static void registers_by_number(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};
    static const char three[] = "s_mov_b32 m0, 3\\n", two[] = "s_mov_b32 m0, 2\\n";
    struct t_gpu g;

    (void)state;
    for (unsigned t = 0; t < 5; t++) {
        t_gpu_open(&g, targets[t], "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
        expect(three, &g, "s_movrels_b32 s40, s41", 0, (uint32_t[]){104}, 1);
        expect(two, &g, "s_movrels_b64 s[40:41], s[42:43]", 0, (uint32_t[]){104, 105}, 2);
        expect(three, &g, "s_movreld_b32 s41, s40", 4, (uint32_t[]){100}, 1);
        expect(three, &g, "s_movreld_b32 s41, 17", 4, (uint32_t[]){17}, 1);
        expect(two, &g, "s_movreld_b64 s[42:43], s[40:41]", 4, (uint32_t[]){100, 101}, 2);
        if (t >= 3) /* the low half of M0 moves the source, the high one the result */
            expect("s_mov_b32 m0, 0x20003\\n", &g, "s_movrelsd_2_b32 s41, s42", 3,
                   (uint32_t[]){105}, 1);
        /* beyond the general registers; an undefined number; an undefined value may be moved */
        assert_int_equal(by_number(&g, "s_mov_b32 m0, 66\\n", "s_movrels_b32 s40, s40"),
                         QUERN_E_FAULT);
        assert_non_null(strstr(quern_last_error()->message, "no general scalar register"));
        assert_int_equal(by_number(&g, "s_mov_b32 m0, s48\\n", "s_movrels_b32 s40, s40"),
                         QUERN_E_FAULT);
        assert_non_null(strstr(quern_last_error()->message, "a register number"));
        assert_int_equal(by_number(&g, three, "s_movreld_b32 s45, s48\\n s_nop 0"), QUERN_OK);
        assert_int_equal(by_number(&g, three, "s_movreld_b32 s41, s48\\n s_nop 0"), QUERN_E_FAULT);
        t_gpu_close(&g);
    }
}

/* ---- Parts of a dword ------------------------------------------------------------------------ */

static void buffer_parts(void **state)
{
    static uint32_t words[4] = {0x84838281, 0xf8f7f6f5, 0x01020304, 0x7fff8000};
    const struct t_buffer buffers[] = {{words, sizeof words, QUERN_SIM_READ, "words"},
                                       {out, sizeof out, QUERN_SIM_WRITE, "out"}};
    const struct t_launch launch = {.kernel = "k", .items = {1}, .buffers = buffers, .count = 2};
    /* the buffer has 14 bytes */
    static const struct {
        const char *text;
        uint32_t want;
    } loads[] = {{"s_buffer_load_u8 s40, s[44:47], 0x5", 0xf6},
                 {"s_buffer_load_i8 s40, s[44:47], 0x5", 0xfffffff6},
                 {"s_buffer_load_u16 s40, s[44:47], 0x6", 0xf8f7},
                 {"s_buffer_load_i16 s40, s[44:47], 0x6", 0xfffff8f7},
                 {"s_buffer_load_i8 s40, s[44:47], 0x8", 4},
                 {"s_buffer_load_u16 s40, s[44:47], 0xc", 0x8000},
                 {"s_buffer_load_u16 s40, s[44:47], 0xe", 0},
                 {"s_buffer_load_i8 s40, s[44:47], 0xe", 0}};
    char source[1024];
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx1201", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    for (unsigned n = 0; n < sizeof loads / sizeof *loads; n++) {
        snprintf(source, sizeof source,
                 "KERNEL k(const u32 *words, u32 *out) { u32 v; asm volatile(\n"
                 "\"s_mov_b64 s[44:45], %%1\\n s_mov_b32 s46, 14\\n s_mov_b32 s47, 0\\n %s\\n "
                 "s_sleep_var 1\\n s_wait_kmcnt 0\\n v_mov_b32 %%0, s40\"\n"
                 ": \"=v\"(v) : \"s\"(words) : \"s40\", \"s44\", \"s45\", \"s46\", \"s47\");\n"
                 "  out[0] = v; }\n",
                 loads[n].text);
        t_gpu_load(&g, source);
        t_gpu_run(&g, &launch);
        if (out[0] != loads[n].want)
            fail_msg("%s: 0x%x, not 0x%x", loads[n].text, out[0], loads[n].want);
    }
    t_gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(registers_by_number),
                                       cmocka_unit_test(buffer_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
