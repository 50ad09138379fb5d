/* SPDX-License-Identifier: MIT */
/* What instructions cost on a target (rates.h), for the planner's model and the profile's. */
#include "target/rates.h"

#include <string.h>

unsigned target_vector_cycles(const struct target *t, unsigned wave_size)
{
    return (wave_size + t->simd_lanes - 1) / t->simd_lanes;
}

unsigned target_trans_cycles(const struct target *t, unsigned wave_size)
{
    return 4 * target_vector_cycles(t, wave_size);
}

unsigned target_lanes_per_cycle(const struct target *t)
{
    return t->simds * t->simd_lanes;
}

/* Whether both operands of a matrix instruction have fewer than 8 bits: cbsz and blgp, 0 if absent,
 * name formats 2 and up. */
static bool is_narrow(const char *text)
{
    const char *const a = strstr(text, "cbsz:"), *const b = strstr(text, "blgp:");

    return a && b && a[5] >= '2' && b[5] >= '2';
}

/* The passes, of 4 cycles each, that an MFMA takes by LLVM's scheduling models. On gfx908 and
 * gfx90a they depend on the size of the result alone; later parts take half as many for forms that
 * make full use of K. */
static unsigned mfma_passes(const struct target *t, unsigned m, unsigned k, const char *type)
{
    const bool wide = !strncmp(type, "xf32", 4);

    if (!strncmp(type, "f64", 3))
        return m == 4 ? 4 : 8;
    if (!strncmp(type, "f8f6f4", 6))
        return (m == 16 ? 8 : 16) / (is_narrow(type) ? 2 : 1);
    if (m == 4)
        return 2;
    const unsigned most = m == 16 ? 8 : 16;
    const bool half = t->capabilities & CAP_FP8_CVT && (k > 4 || wide);
    return half ? most / 2 : most;
}

/* The cycles of a WMMA, from the published peaks of each type. */
static unsigned wmma_cycles(const struct target *t, unsigned m, unsigned n, unsigned k,
                            const char *type, bool sparse)
{
    const bool bytes = strstr(type, "iu8") || strstr(type, "fp8") || strstr(type, "bf8");
    const bool nibbles = strstr(type, "iu4");
    const bool doubled = t->capabilities & CAP_WMMA_128B; /* gfx12 is twice as fast as gfx11 */
    unsigned rate = doubled ? 512 : 256;                  /* operations of a SIMD in a cycle */

    if (nibbles)
        rate *= doubled ? 4 : 2;
    else if (bytes && doubled)
        rate *= 2;
    return 2 * m * n * (sparse ? k / 2 : k) / rate;
}

/* Reads a number and moves *at behind it; 0 if there is none. */
static unsigned take_number(const char **at)
{
    unsigned n = 0;

    for (; **at >= '0' && **at <= '9' && n < 100000; ++*at)
        n = 10 * n + (unsigned)(**at - '0');
    return n;
}

unsigned target_matrix_cycles(const struct target *t, const char *text)
{
    const char *at = strchr(text, 'x');
    unsigned size[3];

    /* "v_mfma_f32_16x16x4_4b_f16", "v_mfma_f32_16x16x4f16", "v_wmma_i32_16x16x16_iu8" */
    if (!at)
        return 0;
    while (at > text && at[-1] >= '0' && at[-1] <= '9')
        at--;
    for (int i = 0; i < 3; i++) {
        if (!(size[i] = take_number(&at)) || (i < 2 && *at++ != 'x'))
            return 0;
    }
    const unsigned m = size[0], n = size[1], k = size[2];
    const char *type = at;
    type += *type == '_';
    if (*type >= '0' && *type <= '9' && strchr(type, '_')) /* the number of blocks */
        type = strchr(type, '_') + 1;
    if (!strncmp(text, "v_mfma_", 7))
        return 4 * mfma_passes(t, m, k, type);
    if (!strncmp(text, "v_smfmac_", 9))
        return 4 * (m == 16 ? 4 : 8);
    if (!strncmp(text, "v_wmma_", 7) || !strncmp(text, "v_swmmac_", 9))
        return wmma_cycles(t, m, n, k, type, text[2] == 's');
    return 0;
}

/* NVIDIA's by its data sheets' dense peaks of 16-bit products summed in f32, over multiprocessors
 * and clock: A100 312 TFLOPS, RTX 3090 71, RTX 4090 165, H100 989, B200 2250, RTX 5090 210. */
static const struct {
    unsigned machine, products;
} tensor_cores[] = {{80, 1024}, {86, 256}, {89, 256}, {90, 2048}, {100, 4096}, {120, 256}};

unsigned target_matrix_products(const struct target *t)
{
    const unsigned cycles = t->capabilities & CAP_MFMA_BF16_1K
                                ? target_matrix_cycles(t, "v_mfma_f32_16x16x16_f16")
                            : t->capabilities & (CAP_WMMA_256B | CAP_WMMA_128B)
                                ? target_matrix_cycles(t, "v_wmma_f32_16x16x16_f16")
                                : 0;

    if (t->capabilities & CAP_MMA_16816)
        for (size_t i = 0; i < sizeof tensor_cores / sizeof *tensor_cores; i++)
            if (tensor_cores[i].machine == t->elf_machine)
                return tensor_cores[i].products;
    return cycles ? 16 * 16 * 16 * t->simds / cycles : 0;
}

double target_memory_cycles(const struct target *t, double bytes)
{
    return bytes / t->bandwidth_gbs * t->clock_ghz;
}

uint64_t target_vmem_cycles(const struct target *t, uint64_t executions, uint64_t lines,
                            uint64_t bytes)
{
    uint64_t cycles = lines;

    if (target_knows_vmem(t)) {
        const uint64_t addresses = executions * target_issue_cycles(t);
        const uint64_t data =
            (bytes + TARGET_CACHE_BYTES_PER_CYCLE - 1) / TARGET_CACHE_BYTES_PER_CYCLE;
        cycles = addresses > cycles ? addresses : cycles;
        cycles = data > cycles ? data : cycles;
    }
    return cycles;
}

double target_microseconds(const struct target *t, double cycles)
{
    return cycles / (t->clock_ghz * 1e3);
}

unsigned target_workgroups_per_cu(const struct target *t, unsigned vgprs, unsigned lds_bytes,
                                  unsigned wave_size, unsigned waves_per_workgroup)
{
    const unsigned waves = target_waves_per_simd(t, vgprs, 0, wave_size, waves_per_workgroup);
    const unsigned by_waves = waves * t->simds / (waves_per_workgroup ? waves_per_workgroup : 1);
    const unsigned by_lds = lds_bytes ? t->lds_bytes / lds_bytes : by_waves;
    const unsigned fit = by_waves < by_lds ? by_waves : by_lds;

    return fit ? fit : 1;
}
