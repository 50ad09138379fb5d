/* SPDX-License-Identifier: MIT */
/* Rates of a compute unit, and the model, against figures worked out by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "target/rates.h"

#include <quern/sim.h>
#include <string.h>

static void near(double a, double b)
{
    if (!(a > b * 0.999999 && a < b * 1.000001) && a != b)
        fail_msg("%.9g, not %.9g", a, b);
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static void matrix_instructions(void **state)
{
    static const struct {
        const char *target, *name;
        unsigned cycles;
    } known[] = {
        {"gfx1100", "v_wmma_f32_16x16x16_f16", 32},
        {"gfx1151", "v_wmma_bf16_16x16x16_bf16", 32},
        {"gfx1151", "v_wmma_i32_16x16x16_iu8", 32},
        {"gfx1151", "v_wmma_i32_16x16x16_iu4", 16},
        {"gfx1201", "v_wmma_f32_16x16x16_bf16", 16},
        {"gfx1201", "v_wmma_f32_16x16x16_fp8_bf8", 8},
        {"gfx1201", "v_wmma_i32_16x16x16_iu8", 8},
        {"gfx1201", "v_wmma_i32_16x16x32_iu4", 8},
        {"gfx1201", "v_swmmac_f32_16x16x32_f16", 16},
        {"gfx90a", "v_mfma_f32_16x16x16f16", 32},
        {"gfx90a", "v_mfma_f32_16x16x16bf16_1k", 32},
        {"gfx90a", "v_mfma_f32_32x32x8bf16_1k", 64},
        {"gfx90a", "v_mfma_f32_4x4x4bf16_1k", 8},
        {"gfx90a", "v_mfma_f32_32x32x2f32", 64},
        {"gfx942", "v_mfma_f32_16x16x16_f16", 16},
        {"gfx942", "v_mfma_f32_32x32x8_bf16", 32},
        {"gfx942", "v_mfma_f32_16x16x4_4b_f16", 32},
        {"gfx942", "v_mfma_f32_32x32x4_2b_bf16", 64},
        {"gfx942", "v_mfma_f32_4x4x4_16b_f16", 8},
        {"gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 16},
        {"gfx942", "v_mfma_f32_32x32x16_fp8_bf8", 32},
        {"gfx942", "v_mfma_i32_16x16x32_i8", 16},
        {"gfx942", "v_mfma_f32_16x16x4_f32", 32},
        {"gfx942", "v_mfma_f32_32x32x2_f32", 64},
        {"gfx942", "v_mfma_f32_16x16x8_xf32", 16},
        {"gfx942", "v_mfma_f32_32x32x4_xf32", 32},
        {"gfx950", "v_mfma_f32_16x16x32_f16", 16},
        {"gfx950", "v_mfma_f32_32x32x16_bf16", 32},
        {"gfx950", "v_mfma_i32_16x16x64_i8", 16},
        {"gfx950", "v_mfma_f32_16x16x128_f8f6f4", 32},
        {"gfx950", "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[0:7], v[0:15] cbsz:2", 64},
        {"gfx950", "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[0:5], v[6:9], v[0:15] cbsz:2 blgp:4", 32},
        {"gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4", 32},
        {"gfx942", "v_mfma_f64_16x16x4_f64", 32},
        {"gfx1151", "v_add_f32", 0},
        {"gfx1151", "v_wmma_f32_16xlots", 0},
        {"gfx1151", "x", 0},
    };

    (void)state;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        const unsigned cycles = target_matrix_cycles(target_named(known[n].target), known[n].name);
        if (cycles != known[n].cycles)
            fail_msg("%s on %s: %u cycles, not %u", known[n].name, known[n].target, cycles,
                     known[n].cycles);
    }
}

/* The cycles multiply out to the peaks that the vendor names: 16-bit matrices, in TFLOP/s. */
static void matrix_peaks(void **state)
{
    static const struct {
        const char *target, *name;
        double flop, peak;
    } known[] = {{"gfx1100", "v_wmma_f32_16x16x16_f16", 8192, 122.88},
                 {"gfx1151", "v_wmma_f32_16x16x16_f16", 8192, 59.392},
                 {"gfx1201", "v_wmma_f32_16x16x16_f16", 8192, 194.64192},
                 {"gfx90a", "v_mfma_f32_32x32x8f16", 16384, 181.0432},
                 {"gfx942", "v_mfma_f32_32x32x8_f16", 16384, 1307.4432},
                 {"gfx950", "v_mfma_f32_32x32x16_f16", 32768, 2516.58240}};

    (void)state;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        const struct target *const t = target_named(known[n].target);
        near(known[n].flop / target_matrix_cycles(t, known[n].name) * t->simds * t->cus *
                 t->clock_ghz / 1e3,
             known[n].peak);
    }
}

static void ports(void **state)
{
    const struct target *const rdna = target_named("gfx1151"), *const cdna = target_named("gfx942");

    (void)state;
    assert_int_equal(target_issue_cycles(rdna), 1);
    assert_int_equal(target_issue_cycles(cdna), 4);
    assert_int_equal(target_vector_cycles(rdna, 32), 1);
    assert_int_equal(target_vector_cycles(rdna, 64), 2);
    assert_int_equal(target_vector_cycles(cdna, 64), 4);
    assert_int_equal(target_trans_cycles(rdna, 32), 4);
    assert_int_equal(target_trans_cycles(cdna, 64), 16);
    assert_int_equal(target_lanes_per_cycle(rdna), 64);
    assert_int_equal(target_lanes_per_cycle(cdna), 64);
    near(target_memory_cycles(rdna, 256e3), 2900);
    near(target_microseconds(rdna, 2900), 1);
}

static void grids(void **state)
{
    const struct target *const t = target_named("gfx1151"); /* 40 compute units */
    struct target_fill f = target_fill(t, 79);

    (void)state;
    assert_int_equal(f.fullest, 2);
    assert_int_equal(f.cus_busy, 40);
    assert_int_equal(f.percent, 98);
    f = target_fill(t, 7);
    assert_int_equal(f.fullest, 1);
    assert_int_equal(f.cus_busy, 7);
    assert_int_equal(f.percent, 17);
    assert_int_equal(target_workgroups_per_cu(t, 96, 32768, 32, 13), 2);
    assert_int_equal(target_workgroups_per_cu(t, 96, 0, 32, 8), 4);
    assert_int_equal(target_workgroups_per_cu(t, 256, 0, 32, 32), 1);
    assert_int_equal(target_workgroups_per_cu(t, 96, 60000, 32, 4), 1);
}

/* ---- The model ------------------------------------------------------------------------------- */

/* 120 workgroups of 4 waves. */
static struct quern_sim_profile profile_of(const char *target, unsigned lanes)
{
    struct quern_sim_profile p = QUERN_INIT(struct quern_sim_profile);

    p.target = target;
    p.counts.size = sizeof p.counts;
    p.counts.wave_size = lanes;
    p.counts.workgroups = 120;
    p.counts.waves = 480;
    p.resources.waves_per_workgroup = 4;
    p.resources.workgroups_per_cu = 2;
    return p;
}

static void model_of(const struct quern_sim_profile *p, struct quern_sim_model *m)
{
    *m = (struct quern_sim_model){.size = sizeof *m};
    if (quern_sim_model_make(p, m) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
}

/* gfx1151: 40 compute units of 2 SIMDs, so 3 workgroups and 6 waves a SIMD in the fullest. */
static struct quern_sim_profile rdna_profile(void)
{
    static struct quern_sim_insn wmma = {.executed = 4800, .cycles = 32};
    static struct quern_sim_traffic buffers[2] = {
        {.name = "b", .size = 1000000, .bytes_read = 5000000},
        {.name = "c", .size = 9000, .bytes_read = 100, .bytes_written = 9000}};
    struct quern_sim_profile p = profile_of("gfx1151", 32);

    p.insns = &wmma;
    p.insn_count = 1;
    p.buffers = buffers;
    p.buffer_count = 2;
    p.counts.classes[QUERN_CLASS_VALU] = 48000;
    p.counts.classes[QUERN_CLASS_PACKED] = 4800;
    p.counts.classes[QUERN_CLASS_TRANS] = 480;
    p.counts.classes[QUERN_CLASS_SALU] = 960;
    p.counts.classes[QUERN_CLASS_MATRIX] = 4800;
    p.counts.lds_passes = 12000;
    p.lds_exchanges = 120;
    p.counts.lines128 = 6000;
    p.issue_cycles = 48000 + 4800 + 480 + 960 + 32 * 4800;
    p.loading_waves = 240;
    p.prologue_cycles = 2400;
    p.bytes_in_flight = 240 * 512;
    return p;
}

static void rdna(void **state)
{
    const struct quern_sim_profile p = rdna_profile();
    struct quern_sim_model m;

    (void)state;
    model_of(&p, &m);
    assert_string_equal(m.part, "Radeon 8060S");
    assert_int_equal(m.cus_busy, 40);
    assert_int_equal(m.fullest, 3);
    assert_int_equal(m.rounds, 2);
    assert_int_equal(m.fill_percent, 100);
    assert_int_equal(m.waves_per_simd, 4); /* two workgroups at once */
    near(m.port_cycles[QUERN_PORT_VALU], 6 * (100 + 10 + 320));
    near(m.port_cycles[QUERN_PORT_TRANS], 6 * 4);
    near(m.port_cycles[QUERN_PORT_MATRIX], 6 * 320);
    near(m.port_cycles[QUERN_PORT_SALU], 6 * 2);
    near(m.port_cycles[QUERN_PORT_ISSUE], 6 * (100 + 10 + 1 + 2 + 320));
    near(m.port_cycles[QUERN_PORT_LDS], 3 * 101);
    near(m.port_cycles[QUERN_PORT_VMEM], 3 * 50);
    near(m.memory_bytes, 1000000 + 100 + 9000);
    near(m.memory_us, 1009100 / 256e3);
    near(m.issue_us, 6 * 433 / 2900.0);
    near(m.matrix_us, 6 * 320 / 2900.0);
    near(m.prologue_cycles, 10 * 4);
    near(m.in_flight, 512 * 0.5 * 8); /* half of the waves load */
    near(m.in_flight_needed, 256 * 700 / 40.0);
    assert_int_equal(m.bound, QUERN_BOUND_MEMORY);
    near(m.sustained_us, 1009100 / (256e3 * 0.80)); /* 205 of 256 GB/s */
    near(m.vmem_us, 0);                             /* RDNA's path is shown, and bounds nothing */
    near(m.total_us, m.sustained_us + 40 / 2900.0);
    near(m.chain_us, 0.7); /* the operands' first bytes */
    assert_int_equal(m.roof, QUERN_BOUND_MEMORY);
    near(m.roof_percent, 100 * m.memory_us / m.total_us);
    near(m.operations, 32.0 * (double)p.issue_cycles);
    near(m.operations_per_us, 2900.0 * 40 * 64);
}

static void rdna_bounds(void **state)
{
    struct quern_sim_profile p = rdna_profile();
    struct quern_sim_model m;

    (void)state;
    /* with little to read, the matrix instructions that hold the issue are what bounds */
    p.buffer_count = 0;
    model_of(&p, &m);
    assert_int_equal(m.bound, QUERN_BOUND_MATRIX);
    assert_int_equal(m.roof, QUERN_BOUND_MATRIX);
    near(m.roof_percent, 100 * (4800 * 32 / 80 / 2900.0) / ((6 * 433 + 40) / 2900.0));
    near(m.matrix_percent, 0);
    near(m.product_us, 0);

    /* of three workgroups the last is alone: nobody works while it starts and at its barriers */
    p.matrix_waves = 480;
    p.edge_cycles = 480 * 50;
    p.bare_barriers = 480 * 5;
    p.conflict_cycles = 4800 * 2;
    model_of(&p, &m);
    near(m.start_us, 0.7);
    near(m.barrier_us, 5 * 128 / 2900.0);
    near(m.edge_us, 0);
    near(m.product_us, m.issue_us + m.start_us + m.barrier_us);
    near(m.matrix_percent, 100 * (4800 * 30 / 80 / 2900.0) / m.product_us);
    p.resources.workgroups_per_cu = 1;
    model_of(&p, &m);
    near(m.start_us, 3 * 0.7);
    near(m.barrier_us, 3 * 5 * 128 / 2900.0);
    p.resources.workgroups_per_cu = 2;
    p.matrix_waves = 0;
    p.insn_count = 0;
    p.issue_cycles = 48000;
    p.counts.lds_passes = 120 * 5000;
    model_of(&p, &m);
    assert_int_equal(m.bound, QUERN_BOUND_LDS);
    p.counts.lds_passes = 0;
    model_of(&p, &m);
    assert_int_equal(m.bound, QUERN_BOUND_ISSUE);
    assert_int_equal(m.roof, QUERN_BOUND_MEMORY);
}

/* The path to the nearest cache of CDNA: of each instruction the longest of a line a cycle, four
 * cycles of addresses and 64 bytes a cycle. And loads that wait for one another. */
static void cdna_memory(void **state)
{
    struct quern_sim_insn loads[] = {
        {.executed = 480, .lines128 = 480 * 64, .bytes_read = 480 * 256},    /* a line a lane */
        {.executed = 480, .lines128 = 480 * 8, .bytes_read = 480 * 1024},    /* 16 bytes a lane */
        {.executed = 480, .lines128 = 480 * 1, .bytes_written = 480 * 128}}; /* 2 bytes a lane */
    struct quern_sim_traffic buffers[] = {
        {.name = "kernarg", .size = 56, .bytes_read = 4800},
        {.name = "constants of the code object", .size = 3008, .bytes_read = 3008},
        {.name = "b", .size = 1000000, .bytes_read = 5300000}};
    struct quern_sim_profile p = profile_of("gfx942", 64);
    struct quern_sim_model m;

    (void)state;
    p.insns = loads;
    p.insn_count = 3;
    p.buffers = buffers;
    p.buffer_count = 3;
    p.counts.lines128 = 480 * (64 + 8 + 1);
    p.counts.classes[QUERN_CLASS_VMEM] = 3 * 480;
    p.issue_cycles = 4 * 3 * 480;
    model_of(&p, &m);
    near(m.port_cycles[QUERN_PORT_VMEM], 4 * (64 + 16 + 4)); /* four waves of a workgroup */
    near(m.vmem_us, 4 * 84 / 2100.0);
    near(m.memory_us, (56 + 3008 + 1000000) / 5.3e6);
    near(m.sustained_us, m.memory_us / 0.79);
    assert_int_equal(m.bound, QUERN_BOUND_MEMORY);
    near(m.chain_us, 2 * 0.7); /* no LDS: the constants are loaded beside the operands */
    p.counts.lds_passes = 1;
    buffers[2].size = 1000;
    model_of(&p, &m);
    near(m.chain_us, 3 * 0.7 + 128 / 2100.0);
    assert_int_equal(m.bound, QUERN_BOUND_VMEM);
    assert_string_equal(quern_sim_bound_name(m.bound), "vmem");
    near(m.total_us, m.vmem_us);
}

/* gfx942: 304 compute units of 4 SIMDs; MFMA beside the vector ALU, one scalar ALU for all. */
static void cdna(void **state)
{
    struct quern_sim_insn mfma = {.executed = 4800, .cycles = 16};
    struct quern_sim_profile p = profile_of("gfx942", 64);
    struct quern_sim_model m;

    (void)state;
    p.insns = &mfma;
    p.insn_count = 1;
    p.counts.classes[QUERN_CLASS_VALU] = 4800;
    p.counts.classes[QUERN_CLASS_TRANS] = 480;
    p.counts.classes[QUERN_CLASS_SALU] = 960;
    p.counts.classes[QUERN_CLASS_MATRIX] = 4800;
    p.issue_cycles = 4 * (4800 + 480 + 960 + 4800);
    model_of(&p, &m);
    assert_int_equal(m.fullest, 1);
    assert_int_equal(m.rounds, 1);
    assert_int_equal(m.cus_busy, 120);
    assert_int_equal(m.waves_per_simd, 1);
    near(m.port_cycles[QUERN_PORT_VALU], 4 * 10 + 16);
    near(m.port_cycles[QUERN_PORT_TRANS], 0);
    near(m.port_cycles[QUERN_PORT_MATRIX], 160);
    near(m.port_cycles[QUERN_PORT_SALU], 8);
    near(m.port_cycles[QUERN_PORT_ISSUE], 4 * (10 + 1 + 2 + 10));
    assert_int_equal(m.bound, QUERN_BOUND_MATRIX);

    /* what is issued before and behind the matrix instructions does not run beside them */
    p.matrix_waves = 480;
    p.edge_cycles = 480 * 60;
    model_of(&p, &m);
    near(m.edge_us, 60 / 2100.0);
    near(m.product_us, m.matrix_us + 0.7 + m.edge_us);
    near(m.matrix_percent, 100 * (4800 * 16 / 1216.0 / 2100) / m.product_us);
}

static void names(void **state)
{
    (void)state;
    for (int n = 0; n < QUERN_PORT_COUNT; n++)
        assert_string_not_equal(quern_sim_port_name((enum quern_sim_port)n), "unknown");
    assert_string_equal(quern_sim_port_name(QUERN_PORT_COUNT), "unknown");
    assert_string_equal(quern_sim_bound_name(QUERN_BOUND_MEMORY), "memory");
    assert_string_equal(quern_sim_bound_name((enum quern_sim_bound)0), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_instructions),
        cmocka_unit_test(matrix_peaks),
        cmocka_unit_test(ports),
        cmocka_unit_test(grids),
        cmocka_unit_test(rdna),
        cmocka_unit_test(rdna_bounds),
        cmocka_unit_test(cdna),
        cmocka_unit_test(cdna_memory),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
