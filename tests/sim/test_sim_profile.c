/* SPDX-License-Identifier: MIT */
/* Profiles of kernels whose every count is known, whole and by kinds of workgroup. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

#define ITEMS 64
#define WORDS (1 << 16)

static uint32_t in[WORDS], out[WORDS];

/*
 * Loads that touch a line for each lane and one line for all, an LDS store whose lanes meet in
 * twos in a bank, a loop of three trips, a transcendental; more in the last column and the last
 * row of the grid.
 */
static const char source[] =
    "KERNEL k(const u32 *in, u32 *out) {\n"
    "  SHARED u32 table[256];\n"
    "  const u32 y = __builtin_amdgcn_workgroup_id_y(), far = LANE * 128, near = LANE * 4;\n"
    "  u32 a, b;\n"
    "  asm volatile(\"v_xor_b32 %0, 3, %0\\n v_xor_b32 %0, 3, %0\" : \"=v\"(a) : \"0\"(LANE));\n"
    "  asm volatile(\"global_load_b32 %0, %2, %4\\n global_load_b32 %1, %3, %4\\n\"\n"
    "      \"s_waitcnt vmcnt(1)\\n s_waitcnt vmcnt(0)\" : \"=&v\"(a), \"=&v\"(b)\n"
    "      : \"v\"(far), \"v\"(near), \"s\"(in));\n"
    "  table[2 * LANE] = a;\n"
    "  barrier();\n"
    "  b += table[2 * (LANE ^ 1)];\n"
    "#pragma clang loop unroll(disable)\n"
    "  for (u32 n = 0; n < 3; n++) asm volatile(\"v_sub_nc_u32 %0, %0, 1\" : \"+v\"(b));\n"
    "  asm volatile(\"v_exp_f32 %0, %0\" : \"+v\"(b));\n"
    "  if (GROUP == 40) asm volatile(\"v_max_u32 %0, %0, 7\" : \"+v\"(b));\n"
    "  if (y == 8) asm volatile(\"v_min_u32 %0, %0, 7\" : \"+v\"(b));\n"
    "  out[(GROUP + 41 * y) * 64 + LANE] = b; }\n"
    "KERNEL odd(u32 *out) {\n"
    "  u32 b = LANE;\n"
    "  for (u32 n = 0; n < GROUP; n++) asm volatile(\"v_max_u32 %0, %0, 7\" : \"+v\"(b));\n"
    "  out[GROUP * 64 + LANE] = b; }\n"
    "KERNEL lonely(u32 *out) {\n"
    "  u32 b = LANE;\n"
    "  if (GROUP == 700) asm volatile(\"v_max_u32 %0, %0, 7\" : \"+v\"(b));\n"
    "  if (GROUP == 999) asm volatile(\"v_min_u32 %0, %0, 7\" : \"+v\"(b));\n"
    "  out[GROUP * 64 + LANE] = b; }\n";

/* Three matrix instructions, of which the first has its operands in one register bank. Behind the
 * first barrier a wave waits for LDS ahead of the next of them; behind the second for nothing that
 * it asked for since. */
#define BARRIER "s_waitcnt lgkmcnt(0)\\n s_barrier\\n"
static const char products[] =
    "KERNEL p(u32 *out) {\n"
    "  u32 b = LANE * 4;\n"
    "  asm volatile(\"v_add_nc_u32 %0, 1, %0\\n v_sub_nc_u32 %0, %0, 1\" : \"+v\"(b));\n"
    "  asm volatile(\"v_wmma_f32_16x16x16_f16 v[64:71], v[16:23], v[32:39], v[64:71]\\n\"\n"
    "    \"" BARRIER "ds_load_b32 v80, %0\\n s_waitcnt lgkmcnt(0)\\n\"\n"
    "    \"v_wmma_f32_16x16x16_f16 v[64:71], v[17:24], v[32:39], v[64:71]\\n\"\n"
    "    \"" BARRIER "ds_load_b32 v80, %0\\n s_waitcnt lgkmcnt(1)\\n\"\n"
    "    \"v_wmma_f32_16x16x16_f16 v[64:71], v[17:24], v[32:39], v[64:71]\\n\"\n"
    "    \"s_waitcnt lgkmcnt(0)\" : : \"v\"(b) : \"v16\", \"v17\", \"v24\", \"v32\", \"v39\",\n"
    "    \"v64\", \"v71\", \"v80\", \"memory\");\n"
    "  SHARED u32 table[64];\n"
    "  table[LANE] = b;\n"
    "  barrier();\n"
    "  out[GROUP * 64 + LANE] = table[LANE ^ 1]; }\n";

struct job {
    struct t_gpu gpu;
    struct quern_sim_launch launch;
    uint64_t addresses[2];
};

static void open_text(struct job *j, const char *text, const char *kernel, bool input, uint32_t x,
                      uint32_t y, const char *options, const char *target)
{
    t_gpu_open(&j->gpu, target, options, QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    t_gpu_load(&j->gpu, text);
    assert_int_equal(
        quern_sim_map(j->gpu.sim, in, sizeof in, QUERN_SIM_READ, "in", &j->addresses[0]), QUERN_OK);
    assert_int_equal(
        quern_sim_map(j->gpu.sim, out, sizeof out, QUERN_SIM_WRITE, "out", &j->addresses[1]),
        QUERN_OK);
    j->launch = (struct quern_sim_launch){.size = sizeof j->launch,
                                          .kernel = kernel,
                                          .grid = {x, y, 1},
                                          .block = {ITEMS, 1, 1},
                                          .kernarg = &j->addresses[input ? 0 : 1],
                                          .kernarg_bytes = input ? 16 : 8};
}

static void open_job(struct job *j, const char *kernel, bool input, uint32_t x, uint32_t y,
                     const char *options, const char *target)
{
    open_text(j, source, kernel, input, x, y, options, target);
}

static void take(struct job *j, enum quern_sim_extent extent, uint64_t budget,
                 struct quern_sim_profile *p)
{
    *p = (struct quern_sim_profile){.size = sizeof *p};
    if (quern_sim_profile_run(j->gpu.module, &j->launch, extent, budget, p) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
}

/* The one instruction whose text begins like that. */
static const struct quern_sim_insn *insn(const struct quern_sim_profile *p, const char *begin)
{
    const struct quern_sim_insn *found = NULL;

    for (size_t n = 0; n < p->insn_count; n++)
        if (!strncmp(p->insns[n].text, begin, strlen(begin))) {
            assert_null(found);
            found = &p->insns[n];
        }
    if (!found)
        fail_msg("no %s", begin);
    return found;
}

static const struct quern_sim_traffic *buffer(const struct quern_sim_profile *p, const char *name)
{
    for (size_t n = 0; n < p->buffer_count; n++)
        if (!strcmp(p->buffers[n].name, name))
            return &p->buffers[n];
    fail_msg("no buffer %s", name);
    return NULL;
}

/* ---- Exact counts ---------------------------------------------------------------------------- */

/* `w` waves in a workgroup of 64 work-items. */
static void check_counts(const struct quern_sim_profile *p, unsigned w)
{
    const uint64_t groups = 41 * 9, waves = groups * w, halves = groups * 2, lanes = 64 / w;
    const struct quern_sim_insn *store = insn(p, "ds_store_b32"), *load = insn(p, "ds_load_b32");

    assert_int_equal(p->counts.workgroups, groups);
    assert_int_equal(p->counts.waves, waves);
    assert_int_equal(p->counts.wave_size, lanes);
    assert_int_equal(p->counts.classes[QUERN_CLASS_TRANS], waves);
    assert_int_equal(p->counts.classes[QUERN_CLASS_LDS], 2 * waves);
    /* with the cache invalidation behind the barrier */
    assert_int_equal(p->counts.classes[QUERN_CLASS_VMEM], 4 * waves);
    assert_int_equal(insn(p, "v_sub_nc_u32")->executed, 3 * waves);
    assert_int_equal(insn(p, "v_max_u32")->executed, 9 * w);
    assert_int_equal(insn(p, "v_min_u32")->executed, 41 * w);
    /* every other bank, twice */
    assert_int_equal(store->lds_passes, 2 * halves);
    assert_int_equal(store->lds_least, halves);
    assert_int_equal(load->lds_passes + store->lds_passes, p->counts.lds_passes);
    assert_int_equal(p->lds_least, 2 * halves);
    /* a line for each lane, a line for 32 lanes, and stores of whole lines */
    assert_int_equal(buffer(p, "in")->lines128, groups * (64 + 2));
    assert_int_equal(buffer(p, "in")->lines128_least, groups * 4);
    /* what a lane loads from far and what it loads from near share lines 0 and 1, the latter of
     * them two waves */
    assert_int_equal(buffer(p, "in")->by_workgroup, groups * 64);
    assert_int_equal(buffer(p, "in")->by_wave, groups * (63 + w));
    assert_int_equal(buffer(p, "out")->by_workgroup, groups * 2);
    assert_int_equal(buffer(p, "out")->by_wave, groups * 2);
    assert_int_equal(buffer(p, "in")->bytes_read, groups * 64 * 8);
    assert_int_equal(buffer(p, "in")->l2_read, groups * 66 * 128);
    assert_int_equal(buffer(p, "in")->size, sizeof in);
    assert_int_equal(buffer(p, "out")->bytes_written, groups * 64 * 4);
    assert_int_equal(buffer(p, "out")->bytes_read, 0);
    assert_int_equal(buffer(p, "out")->l2_written, groups * 256);
    assert_int_equal(p->counts.bytes_read, groups * 64 * 8 + p->scalar_bytes);
    assert_string_equal(insn(p, "global_store_b32")->buffer, "out");
    /* both loads are on their way together, each a line's worth for 32 lanes */
    assert_int_equal(p->loading_waves, waves);
    assert_int_equal(p->bytes_in_flight, halves * 2 * 128);
    assert_true(p->prologue_cycles >= 2 * halves); /* the two v_xor at least */
}

/* What quern_sim_run counts is the profile's sum over instructions. */
static void check_sums(struct job *j, const struct quern_sim_profile *p)
{
    struct quern_sim_counts counts = QUERN_INIT(struct quern_sim_counts);
    uint64_t classes[QUERN_CLASS_COUNT + 1] = {0};

    assert_int_equal(quern_sim_run(j->gpu.module, &j->launch, &counts), QUERN_OK);
    assert_memory_equal(&counts, &p->counts, sizeof counts);
    for (size_t n = 0; n < p->insn_count; n++)
        classes[p->insns[n].counted_as] += p->insns[n].executed;
    assert_memory_equal(classes, counts.classes, sizeof counts.classes);
    assert_int_equal(classes[QUERN_CLASS_COUNT], 0);
}

static void exact(const char *target, const char *options, unsigned waves)
{
    struct quern_sim_profile all, kinds;
    struct job j;

    open_job(&j, "k", true, 41, 9, options, target);
    take(&j, QUERN_EXTENT_ALL, 0, &all);
    check_counts(&all, waves);
    check_sums(&j, &all);
    assert_int_equal(all.simulated, 41 * 9);
    take(&j, QUERN_EXTENT_KINDS, 0, &kinds);
    assert_int_equal(kinds.by_kinds, 1);
    assert_int_equal(kinds.kind_count, 4); /* interior, last column, last row, their corner */
    assert_true(kinds.simulated < 41 * 9 / 4);
    check_counts(&kinds, waves);
    check_sums(&j, &kinds);
    assert_int_equal(kinds.insn_count, all.insn_count);
    assert_memory_equal(kinds.insns, all.insns, all.insn_count * sizeof *all.insns);
    assert_int_equal(kinds.buffer_count, all.buffer_count);
    assert_memory_equal(kinds.buffers, all.buffers, all.buffer_count * sizeof *all.buffers);
    assert_int_equal(kinds.prologue_cycles, all.prologue_cycles);
    assert_int_equal(kinds.issue_cycles, all.issue_cycles);
    quern_sim_profile_free(&kinds);
    quern_sim_profile_free(&all);
    t_gpu_close(&j.gpu);
}

static void waves_of_32(void **state)
{
    (void)state;
    exact("gfx1151", "", 2);
}

static void waves_of_64(void **state)
{
    (void)state;
    exact("gfx1100", "-mwavefrontsize64", 1);
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

/* Every workgroup counts otherwise: all of them are run after all. */
static void no_kinds(void **state)
{
    struct quern_sim_profile p;
    struct job j;

    (void)state;
    open_job(&j, "odd", false, 500, 1, "", "gfx1151");
    take(&j, QUERN_EXTENT_KINDS, 0, &p);
    assert_int_equal(p.by_kinds, 0);
    assert_int_equal(p.simulated, 500);
    assert_int_equal(insn(&p, "v_max_u32")->executed, 2 * (uint64_t)(500 * 499 / 2));
    quern_sim_profile_free(&p);
    t_gpu_close(&j.gpu);
}

/* What is said in sim.h: a single odd workgroup between equal ones may be missed, and the check of
 * boxes does not look at each. The counts say by_kinds, so that nobody takes them for proven. */
static void a_lonely_workgroup_is_missed(void **state)
{
    struct quern_sim_profile kinds, all;
    struct job j;

    (void)state;
    open_job(&j, "lonely", false, 1000, 1, "", "gfx1151");
    take(&j, QUERN_EXTENT_KINDS, 0, &kinds);
    take(&j, QUERN_EXTENT_ALL, 0, &all);
    assert_int_equal(kinds.by_kinds, 1);
    assert_int_equal(kinds.kind_count, 2);
    assert_int_equal(insn(&kinds, "v_min_u32")->executed, 2);
    assert_int_equal(insn(&kinds, "v_max_u32")->executed, 0);
    assert_int_equal(insn(&all, "v_max_u32")->executed, 2);
    assert_int_equal(all.by_kinds, 0);
    quern_sim_profile_free(&kinds);
    quern_sim_profile_free(&all);
    t_gpu_close(&j.gpu);
}

/* Cheap launches are run whole, costly ones are not. */
static void the_budget_decides(void **state)
{
    struct quern_sim_profile p;
    struct job j;

    (void)state;
    open_job(&j, "k", true, 41, 9, "", "gfx1151");
    take(&j, QUERN_EXTENT_AUTO, 0, &p);
    assert_int_equal(p.by_kinds, 0);
    quern_sim_profile_free(&p);
    take(&j, QUERN_EXTENT_AUTO, 1000, &p);
    assert_int_equal(p.by_kinds, 1);
    quern_sim_profile_free(&p);
    t_gpu_close(&j.gpu);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void wrong_arguments(void **state)
{
    struct quern_sim_profile p = QUERN_INIT(struct quern_sim_profile);
    struct quern_sim_model m = QUERN_INIT(struct quern_sim_model);
    struct t_gpu full;
    struct job j;

    (void)state;
    open_job(&j, "k", true, 41, 9, "", "gfx1151");
    assert_int_equal(quern_sim_profile_run(j.gpu.module, &j.launch, 9, 0, &p), QUERN_E_ARGUMENT);
    p.size--;
    assert_int_equal(quern_sim_profile_run(j.gpu.module, &j.launch, QUERN_EXTENT_ALL, 0, &p),
                     QUERN_E_ARGUMENT);
    p.size++;
    j.launch.kernel = "none";
    assert_int_equal(quern_sim_profile_run(j.gpu.module, &j.launch, QUERN_EXTENT_AUTO, 0, &p),
                     QUERN_E_ARGUMENT);
    assert_int_equal(quern_sim_model_make(&p, &m), QUERN_E_ARGUMENT); /* empty */
    quern_sim_profile_free(&p);
    /* a fault is a fault, whichever workgroups are run */
    j.launch.kernel = "odd";
    j.launch.kernarg = &j.addresses[0];
    j.launch.kernarg_bytes = 8;
    for (int extent = QUERN_EXTENT_AUTO; extent <= QUERN_EXTENT_KINDS; extent++) {
        assert_int_equal(
            quern_sim_profile_run(j.gpu.module, &j.launch, (enum quern_sim_extent)extent, 0, &p),
            QUERN_E_FAULT);
        assert_non_null(strstr(quern_last_error()->message, "buffer \"in\""));
    }
    t_gpu_close(&j.gpu);
    t_gpu_open(&full, "gfx1151", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    t_gpu_load(&full, source);
    assert_int_equal(quern_sim_profile_run(full.module, &j.launch, QUERN_EXTENT_ALL, 0, &p),
                     QUERN_E_ARGUMENT);
    t_gpu_close(&full);
}

static void matrix_instructions(void **state)
{
    struct job j;
    struct quern_sim_profile p;

    (void)state;
    open_text(&j, products, "p", false, 3, 1, "", "gfx1151");
    take(&j, QUERN_EXTENT_ALL, 0, &p);
    assert_int_equal(p.counts.classes[QUERN_CLASS_MATRIX], 3 * 6);
    assert_int_equal(p.matrix_waves, 6);
    assert_int_equal(p.bare_barriers, 6);
    assert_int_equal(p.conflict_cycles, 2 * 6);
    /* each wave issues instructions at both ends, of one cycle each */
    assert_in_range(p.edge_cycles, 6 * 6, 6 * 60);
    for (size_t n = 0; n < p.insn_count; n++)
        if (p.insns[n].counted_as == QUERN_CLASS_MATRIX)
            assert_int_equal(p.insns[n].cycles, strstr(p.insns[n].text, "v[16:23]") ? 34 : 32);
    quern_sim_profile_free(&p);
    t_gpu_close(&j.gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_of_32),        cmocka_unit_test(waves_of_64),
        cmocka_unit_test(no_kinds),           cmocka_unit_test(a_lonely_workgroup_is_missed),
        cmocka_unit_test(the_budget_decides), cmocka_unit_test(matrix_instructions),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
