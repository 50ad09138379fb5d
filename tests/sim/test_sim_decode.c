/* SPDX-License-Identifier: MIT */
/* Decoding: dual-issue pairs, float modes, and disassemblies that make no sense. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/launch.h"
#include "t_context.h"
#include "t_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- VOPD ------------------------------------------------------------------------------------ */

/* Both halves read before either writes, whichever reads what the other writes. */
static void dual_pairs(void **state)
{
    static const struct {
        const char *text; /* v4 = 10, v5 = 3 before */
        uint32_t v4, v5;
    } pairs[] = {
        {"v_dual_mov_b32 v4, v5 :: v_dual_mov_b32 v5, v4", 3, 10},
        {"v_dual_mov_b32 v4, v5 :: v_dual_add_nc_u32 v5, 1, v5", 3, 4},
        {"v_dual_sub_f32 v4, v4, v7 :: v_dual_add_nc_u32 v5, 1, v4", 10, 11},
        {"v_dual_fmac_f32 v4, v5, v5 :: v_dual_lshlrev_b32 v5, 1, v4", 10, 20},
    };
    static uint32_t c[64];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {.kernel = "k", .items = {32}, .buffers = &buffer, .count = 1};
    char source[1024];

    (void)state;
    for (int check = QUERN_CHECK_FAST; check <= QUERN_CHECK_FULL; check++) {
        struct t_gpu g;
        t_gpu_open(&g, "gfx1100", "", check, QUERN_ISA_AUTO, 0);
        for (size_t n = 0; n < sizeof pairs / sizeof *pairs; n++) {
            snprintf(
                source, sizeof source,
                "KERNEL k(u32 *c) { u32 x, y; asm volatile(\"v_mov_b32 v4, 10\\n v_mov_b32 v5, "
                "3\\n v_mov_b32 v7, 0\\n %s\\n v_mov_b32 %%0, v4\\n v_mov_b32 %%1, v5\" : "
                "\"=v\"(x), \"=v\"(y) :: "
                "\"v4\", \"v5\", \"v7\"); c[LANE] = x; c[LANE + 32] = y; }",
                pairs[n].text);
            t_gpu_load(&g, source);
            t_gpu_run(&g, &launch);
            assert_int_equal(c[5], pairs[n].v4);
            assert_int_equal(c[37], pairs[n].v5);
        }
        t_gpu_close(&g);
    }
}

/* ---- Float mode ------------------------------------------------------------------------------ */

/* x / 2 for a denormal result, with denormals kept, flushed, and kept again by s_denorm_mode. */
static void denormals(void **state)
{
    static uint32_t c[3];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {.kernel = "k", .items = {1}, .buffers = &buffer, .count = 1};
    static const char source[] =
        "KERNEL k(u32 *c) { f32 x = __builtin_bit_cast(f32, 0x00800000u), y, z, w; asm "
        "volatile(\"\" : "
        "\"+v\"(x)); asm volatile(\"v_mul_f32 %0, 0.5, %3\\n s_denorm_mode 12\\n v_mul_f32 %1, "
        "0.5, "
        "%3\\n s_denorm_mode 15\\n v_mul_f32 %2, 0.5, %3\" : \"=&v\"(y), \"=&v\"(z), \"=&v\"(w) : "
        "\"v\"(x)); c[0] = __builtin_bit_cast(u32, y); c[1] = __builtin_bit_cast(u32, z); c[2] = "
        "__builtin_bit_cast(u32, w); }";

    (void)state;
    for (int flush = 0; flush < 2; flush++) {
        struct t_gpu g;
        t_gpu_open(&g, "gfx1100", flush ? "-fgpu-flush-denormals-to-zero" : "", QUERN_CHECK_FAST,
                   QUERN_ISA_AUTO, 0);
        t_gpu_load(&g, source);
        t_gpu_run(&g, &launch);
        assert_int_equal(c[0], flush ? 0 : 0x00400000);
        assert_int_equal(c[1], 0);
        assert_int_equal(c[2], 0x00400000);
        t_gpu_close(&g);
    }
    /* the host's own mode is what it was */
    volatile float tiny = 0x1p-126f;
    tiny *= 0.5f;
    assert_true(tiny == 0x1p-127f);
}

/* No number comes of a mode that is not modelled: a kernel that is started with it is refused, and
 * one that sets it stops. */
static void saturating_halves(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx1100", "gfx1201"};
    uint32_t c = 0;
    const struct t_buffer buffer = {&c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {.kernel = "k", .items = {1}, .buffers = &buffer, .count = 1};

    (void)state;
    for (size_t n = 0; n < sizeof targets / sizeof *targets; n++) {
        struct t_gpu g;
        t_gpu_open(&g, targets[n], "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
        t_gpu_load(&g, "KERNEL k(u32 *c) { *c = 7; }");
        t_gpu_run(&g, &launch);
        assert_int_equal(c, 7);
        g.module->object.kernels[0].rsrc1 |= 1u << 26;
        assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_DEVICE);
        t_message_has("FP16_OVFL");
        t_gpu_load(&g, "KERNEL k(u32 *c) { asm volatile(\"s_setreg_imm32_b32 "
                       "hwreg(HW_REG_MODE, 23, 1), 1\"); *c = 7; }");
        assert_int_equal(t_gpu_try(&g, &launch), QUERN_E_FAULT);
        t_message_has("cannot be written");
        t_gpu_close(&g);
    }
}

/* ---- Disassemblies that make no sense -------------------------------------------------------- */

/* Gives the instructions of a real object with some of their text changed at random. */
struct liar {
    struct compiler *compiler;
    uint64_t random;
    unsigned rate; /* one character in so many is changed */
    quern_disassembly_fn emit;
    void *emit_user;
};

static void lie(void *user, uint64_t offset, unsigned size, const char *text)
{
    static const char alphabet[] = "0123456789abcdefxsv_[]():,.|-+ =hlqz";
    struct liar *const l = user;
    char changed[300];

    snprintf(changed, sizeof changed, "%s", text);
    for (char *at = changed; *at; at++)
        if (t_random(&l->random) % l->rate == 0)
            *at = alphabet[t_random(&l->random) % (sizeof alphabet - 1)];
    l->emit(l->emit_user, offset, size, changed);
}

static quern_status disassemble_lies(void *user, const char *processor, const void *code,
                                     size_t size, quern_disassembly_fn emit, void *emit_user)
{
    struct liar *const l = user;

    l->emit = emit;
    l->emit_user = emit_user;
    return compiler_disassemble(l->compiler, processor, code, size, lie, l);
}

static const char victim[] =
    "typedef f16 h16 __attribute__((ext_vector_type(16))); typedef float f8 "
    "__attribute__((ext_vector_type(8)));\n"
    "KERNEL k(u32 *b, u32 *c) { SHARED u32 s[64]; s[LANE] = b[LANE]; barrier(); u64 v = s[LANE ^ "
    "1];\n"
    "for (u32 n = 0; n < (b[LANE] & 7) + 3; n++) v = v * 0x12345 + __builtin_amdgcn_update_dpp(0, "
    "(u32)v, 0x111, 15, 15, true);\n"
    "f16x2 h = __builtin_bit_cast(f16x2, (u32)v) * __builtin_bit_cast(f16x2, b[LANE + 1]);\n"
    "__atomic_fetch_add(b + 63, (u32)v, 0); h16 w = (f16)1; f8 d = 0; d = "
    "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(w, w, d);\n"
    "c[LANE] = __builtin_bit_cast(u32, h) + (u32)(v >> 32) + (u32)d[LANE & 7]; }";

/* Whatever the text says, the launch ends with a result or a finding. */
static void changed_text(void **state)
{
    static uint32_t b[64], c[64];
    struct liar liar = {.random = 11};
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    struct compile_result result;
    struct t_gpu g;
    static const unsigned rates[4] = {40, 300, 1000, 20000};
    unsigned findings = 0, passed = 0;

    (void)state;
    t_gpu_open(&g, "gfx1100", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    char source[4096];
    snprintf(source, sizeof source, "%s%s", t_gpu_prelude, victim);
    assert_int_equal(
        compiler_compile(g.compiler, &(struct compile_job){source, "gfx1100", g.options}, &result),
        QUERN_OK);
    liar.compiler = g.compiler;
    o.target = "gfx1100";
    o.max_instructions = 20000;
    o.disassembler = (struct quern_disassembler){disassemble_lies, &liar};
    for (unsigned round = 0; round < 200; round++) {
        quern_sim *sim;
        quern_sim_module *module;
        uint64_t address[2];
        struct quern_sim_launch l = QUERN_INIT(struct quern_sim_launch);
        liar.rate = rates[round % 8 / 2];
        o.check = round & 1 ? QUERN_CHECK_FULL : QUERN_CHECK_FAST;
        assert_int_equal(quern_sim_open(&o, &sim), QUERN_OK);
        if (quern_sim_load(sim, result.object, result.object_bytes, &module) == QUERN_OK) {
            assert_int_equal(
                quern_sim_map(sim, b, sizeof b, QUERN_SIM_READ_WRITE, "b", &address[0]), QUERN_OK);
            assert_int_equal(quern_sim_map(sim, c, sizeof c, QUERN_SIM_WRITE, "c", &address[1]),
                             QUERN_OK);
            l.kernel = "k";
            l.grid[0] = l.grid[1] = l.grid[2] = l.block[1] = l.block[2] = 1;
            l.block[0] = 32;
            l.kernarg = address;
            l.kernarg_bytes = sizeof address;
            const quern_status status = quern_sim_run(module, &l, NULL);
            assert_true(status == QUERN_OK || status == QUERN_E_FAULT);
            findings += status == QUERN_E_FAULT;
            passed += status == QUERN_OK;
            quern_sim_unload(module);
        } else {
            /* a register beyond those granted, or a kernel that begins inside an instruction */
            assert_int_equal(quern_last_error()->status, QUERN_E_OBJECT);
        }
        quern_sim_close(sim);
    }
    assert_true(findings > 50);
    assert_true(passed > 0);
    compile_result_free(&result);
    t_gpu_close(&g);
}

/* Offsets outside the code are refused. */
static quern_status outside(void *user, const char *processor, const void *code, size_t size,
                            quern_disassembly_fn emit, void *emit_user)
{
    (void)user, (void)processor, (void)code;
    emit(emit_user, size + 64, 4, "s_endpgm");
    return QUERN_OK;
}

static void offsets_outside_the_code(void **state)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    struct compile_result result;
    struct t_gpu g;
    quern_sim *sim;
    quern_sim_module *module;
    char source[4096];

    (void)state;
    t_gpu_open(&g, "gfx1100", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    snprintf(source, sizeof source, "%sKERNEL k() {}", t_gpu_prelude);
    assert_int_equal(
        compiler_compile(g.compiler, &(struct compile_job){source, "gfx1100", g.options}, &result),
        QUERN_OK);
    o.target = "gfx1100";
    o.disassembler = (struct quern_disassembler){outside, NULL};
    assert_int_equal(quern_sim_open(&o, &sim), QUERN_OK);
    assert_int_equal(quern_sim_load(sim, result.object, result.object_bytes, &module),
                     QUERN_E_INTERNAL);
    assert_int_equal(quern_sim_load(sim, "no ELF", 6, &module), QUERN_E_OBJECT);
    quern_sim_close(sim);
    /* a code object for another processor */
    o.target = "gfx1151";
    assert_int_equal(quern_sim_open(&o, &sim), QUERN_OK);
    assert_int_equal(quern_sim_load(sim, result.object, result.object_bytes, &module),
                     QUERN_E_OBJECT);
    quern_sim_close(sim);
    compile_result_free(&result);
    t_gpu_close(&g);
}

static void wrong_options(void **state)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    quern_sim *sim;

    (void)state;
    o.disassembler.function = outside;
    assert_int_equal(quern_sim_open(&o, &sim), QUERN_E_ARGUMENT); /* no target */
    o.target = "gfx9999";
    assert_int_equal(quern_sim_open(&o, &sim), QUERN_E_TARGET);
    o.target = "gfx1030";
    assert_int_equal(quern_sim_open(&o, &sim), QUERN_E_DEVICE);
    o.target = "gfx1100";
    o.isa = 77;
    assert_int_equal(quern_sim_open(&o, &sim), QUERN_E_ARGUMENT);
    o.isa = QUERN_ISA_AUTO;
    o.check = 5;
    assert_int_equal(quern_sim_open(&o, &sim), QUERN_E_ARGUMENT);
    o.check = QUERN_CHECK_FAST;
    o.disassembler.function = NULL;
    assert_int_equal(quern_sim_open(&o, &sim), QUERN_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dual_pairs),
        cmocka_unit_test(denormals),
        cmocka_unit_test(saturating_halves),
        cmocka_unit_test(changed_text),
        cmocka_unit_test(offsets_outside_the_code),
        cmocka_unit_test(wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
