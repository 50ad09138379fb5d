/* SPDX-License-Identifier: MIT */
#include "target/target.h"

#include <stdio.h>
#include <string.h>

/*
 * Sources of the columns
 *
 * elf_machine: EF_AMDGPU_MACH_* of LLVM's AMDGPUUsage; read back from objects of hipRTC 6.4.3.
 *
 * capabilities: by compiling each instruction with clang 22 for each target; FLUSHES_HALVES, of
 * MI200: "Numerical accuracy" in PyTorch's documentation.
 *
 * vgprs, vgpr_granule, max_waves, lds_bytes: LLVM's occupancy for forced register counts (the same
 * compiler); waves are the largest it reports. RDNA's 128 KiB of LDS belong to a pair of compute
 * units (a WGP); a workgroup gets 64.
 *
 * cus, clock_ghz, bandwidth_gbs: the vendor's product page of the part named: boost clock and peak
 * memory bandwidth. The part named for gfx1153 is the one that Ryzen AI product pages give for that
 * chip; not confirmed on one.
 *
 * dies: the accelerator dies (XCD) of MI300X and MI355X, by AMD's white papers of CDNA 3 and 4.
 *
 * lds_banks: what reads see, per compute unit, measured on an MI350X (64), an MI300X, a W7900 and a
 * RX 9070 XT (32): docs/empirical-lds of nod-ai/amd-shark-ai. Others as these of their family; LLVM
 * has 64 for gfx950 too (pull request 220632). lds.c has which lanes meet in them.
 */
#define CAPS_DOT_RDNA3                                                                             \
    (CAP_DOT2_F32_F16 | CAP_DOT2_F32_BF16 | CAP_DOT2_BF16_BF16 | CAP_ROW_XMASK | CAP_VOPD)
#define CAPS_GFX11 (CAPS_DOT_RDNA3 | CAP_WMMA_GFX11)
#define CAPS_GFX12 (CAPS_DOT_RDNA3 | CAP_WMMA_GFX12 | CAP_DOT4_F32_FP8 | CAP_FP8_CVT)
#define CAPS_GFX90A                                                                                \
    (CAP_DOT2_F32_F16 | CAP_ROW_BCAST | CAP_MFMA | CAP_MFMA_BF16_1K | CAP_PK_FMA_F32 | CAP_AGPR)

#define RDNA2                                                                                      \
    .family = "RDNA 2", .generation = 10, .wave_size = 32, .other_wave = true, .simds = 2,         \
    .max_waves = 16, .vgprs = 1024, .vgpr_granule = 16, .lds_bytes = 65536, .lds_banks = 32,       \
    .capabilities = CAP_DOT2_F32_F16 | CAP_ROW_XMASK
#define RDNA_NEW(name_, generation_, capabilities_)                                                \
    .family = name_, .generation = generation_, .wave_size = 32, .other_wave = true, .simds = 2,   \
    .max_waves = 16, .lds_bytes = 65536, .lds_banks = 32, .capabilities = capabilities_
#define BIG_FILE   .vgprs = 1536, .vgpr_granule = 24
#define SMALL_FILE .vgprs = 1024, .vgpr_granule = 16
#define GCN(name_, capabilities_)                                                                  \
    .family = name_, .generation = 9, .wave_size = 64, .simds = 4, .max_waves = 10, .vgprs = 256,  \
    .vgpr_granule = 4, .lds_bytes = 65536, .lds_banks = 32, .sramecc = true, .xnack = true,        \
    .capabilities = capabilities_
#define CDNA(name_, lds_, banks_, capabilities_)                                                   \
    .family = name_, .generation = 9, .wave_size = 64, .simds = 4, .max_waves = 8, .vgprs = 512,   \
    .vgpr_granule = 8, .lds_bytes = lds_, .lds_banks = banks_, .sramecc = true, .xnack = true,     \
    .capabilities = capabilities_
#define PART(part_, cus_, clock_, bandwidth_) DIES(1, part_, cus_, clock_, bandwidth_)
#define DIES(dies_, part_, cus_, clock_, bandwidth_)                                               \
    .dies = dies_, .part = part_, .cus = cus_, .clock_ghz = clock_, .bandwidth_gbs = bandwidth_
#define SIMULATED .verified = true

/* clang-format off */
static const struct target targets[] = {
    {.name = "gfx906",  .elf_machine = 0x2f, GCN("GCN 5.1", CAP_DOT2_F32_F16 | CAP_ROW_BCAST),
     PART("Instinct MI60", 64, 1.8, 1024)},
    {.name = "gfx908",  .elf_machine = 0x30,
     GCN("CDNA 1", CAP_DOT2_F32_F16 | CAP_ROW_BCAST | CAP_MFMA | CAP_AGPR),
     PART("Instinct MI100", 120, 1.502, 1229)},
    {.name = "gfx90a",  .elf_machine = 0x3f,
     CDNA("CDNA 2", 65536, 32, CAPS_GFX90A | CAP_FLUSHES_HALVES),
     SIMULATED, PART("Instinct MI210", 104, 1.7, 1638)},
    {.name = "gfx942",  .elf_machine = 0x4c,
     CDNA("CDNA 3", 65536, 32, CAPS_GFX90A | CAP_FP8_CVT | CAP_FP8_FNUZ | CAP_MFMA_FP8),
     SIMULATED, DIES(8, "Instinct MI300X", 304, 2.1, 5300)},
    {.name = "gfx950",  .elf_machine = 0x4f,
     CDNA("CDNA 4", 163840, 64, CAPS_GFX90A | CAP_DOT2_F32_BF16 | CAP_FP8_CVT | CAP_MFMA_FP8 |
                                CAP_MFMA_WIDE_K | CAP_CVT_PK_BF16),
     SIMULATED, DIES(8, "Instinct MI355X", 256, 2.4, 8000)},
    {.name = "gfx1030", .elf_machine = 0x36, RDNA2, PART("Radeon RX 6900 XT", 80, 2.25, 512)},
    {.name = "gfx1031", .elf_machine = 0x37, RDNA2, PART("Radeon RX 6700 XT", 40, 2.581, 384)},
    {.name = "gfx1100", .elf_machine = 0x41, RDNA_NEW("RDNA 3", 11, CAPS_GFX11), BIG_FILE,
     SIMULATED, PART("Radeon RX 7900 XTX", 96, 2.5, 960)},
    {.name = "gfx1101", .elf_machine = 0x46, RDNA_NEW("RDNA 3", 11, CAPS_GFX11), BIG_FILE,
     SIMULATED, PART("Radeon RX 7800 XT", 60, 2.43, 624)},
    {.name = "gfx1102", .elf_machine = 0x47, RDNA_NEW("RDNA 3", 11, CAPS_GFX11), SMALL_FILE,
     SIMULATED, PART("Radeon RX 7600", 32, 2.655, 288)},
    {.name = "gfx1103", .elf_machine = 0x44, RDNA_NEW("RDNA 3", 11, CAPS_GFX11), SMALL_FILE,
     SIMULATED, PART("Radeon 780M", 12, 2.7, 120)},
    {.name = "gfx1150", .elf_machine = 0x43, RDNA_NEW("RDNA 3.5", 11, CAPS_GFX11), SMALL_FILE,
     SIMULATED, PART("Radeon 890M", 16, 2.9, 120)},
    {.name = "gfx1151", .elf_machine = 0x4a, RDNA_NEW("RDNA 3.5", 11, CAPS_GFX11), BIG_FILE,
     SIMULATED, PART("Radeon 8060S", 40, 2.9, 256)},
    {.name = "gfx1152", .elf_machine = 0x55, RDNA_NEW("RDNA 3.5", 11, CAPS_GFX11), SMALL_FILE,
     SIMULATED, PART("Radeon 860M", 8, 3.0, 128)},
    {.name = "gfx1153", .elf_machine = 0x58, RDNA_NEW("RDNA 3.5", 11, CAPS_GFX11), SMALL_FILE,
     SIMULATED, PART("Radeon 820M", 2, 2.8, 128)},
    {.name = "gfx1200", .elf_machine = 0x48, RDNA_NEW("RDNA 4", 12, CAPS_GFX12), BIG_FILE,
     SIMULATED, PART("Radeon RX 9060 XT", 32, 3.13, 320)},
    {.name = "gfx1201", .elf_machine = 0x4e, RDNA_NEW("RDNA 4", 12, CAPS_GFX12), BIG_FILE,
     SIMULATED, PART("Radeon RX 9070 XT", 64, 2.97, 640)},
};
/* clang-format on */

#define COUNT (sizeof targets / sizeof *targets)

size_t target_count(void)
{
    return COUNT;
}
const struct target *target_at(size_t index)
{
    return index < COUNT ? &targets[index] : NULL;
}

const struct target *target_named(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (!strcmp(targets[i].name, name))
            return &targets[i];
    return NULL;
}

const struct target *target_of_machine(unsigned elf_machine)
{
    for (size_t i = 0; i < COUNT; i++)
        if (targets[i].elf_machine == elf_machine)
            return &targets[i];
    return NULL;
}

/* Longest text that may be a target id: a processor name and two features. */
#define ID_MAX 64

/* Levenshtein distance; both at most ID_MAX long. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[ID_MAX + 1];
    const size_t n = strlen(b);

    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            const unsigned replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            const unsigned insert = row[j - 1] + 1, remove = row[j] + 1;
            row[j] = replace < insert ? replace : insert;
            if (remove < row[j])
                row[j] = remove;
        }
    }
    return row[n];
}

static const char *nearest(const char *name)
{
    const struct target *best = targets;
    unsigned least = ~0u;

    for (size_t i = 0; i < COUNT; i++) {
        const unsigned d = distance(name, targets[i].name);
        if (d < least) {
            least = d;
            best = &targets[i];
        }
    }
    return best->name;
}

/* Reads one ":feature±" at *text. */
static quern_status parse_feature(const char *whole, const char **text, struct target_id *id)
{
    const char *const start = *text + 1;
    const size_t n = strcspn(start, ":");
    const char sign = n ? start[n - 1] : 0;
    const bool is_sramecc = n == 8 && !strncmp(start, "sramecc", 7);
    const bool is_xnack = n == 6 && !strncmp(start, "xnack", 5);
    char *const slot = is_sramecc ? &id->sramecc : &id->xnack;

    FAIL_IF((!is_sramecc && !is_xnack) || (sign != '+' && sign != '-'), QUERN_E_TARGET,
            "target \"%s\": \"%.*s\" is no feature; expected sramecc+, sramecc-, xnack+ or xnack-",
            whole, (int)n, start);
    FAIL_IF(is_sramecc ? !id->target->sramecc : !id->target->xnack, QUERN_E_TARGET,
            "target \"%s\": %s has no feature %.*s", whole, id->target->name, (int)n - 1, start);
    FAIL_IF(*slot, QUERN_E_TARGET, "target \"%s\": feature %.*s is given twice", whole, (int)n - 1,
            start);
    *slot = sign;
    *text = start + n;
    return QUERN_OK;
}

quern_status target_parse(const char *text, struct target_id *id)
{
    char name[ID_MAX];
    struct target_id parsed = {0};

    FAIL_IF(!text || !*text, QUERN_E_TARGET, "no target given; expected a name such as gfx1151");
    FAIL_IF(strnlen(text, ID_MAX) == ID_MAX, QUERN_E_TARGET,
            "target \"%.20s…\" is longer than %d characters; expected a name such as gfx1151", text,
            ID_MAX - 1);
    for (const char *c = text; *c; c++)
        FAIL_IF(
            !strchr("abcdefghijklmnopqrstuvwxyz0123456789:+-", *c), QUERN_E_TARGET,
            "target \"%s\" has the character 0x%02x at place %d; expected a name such as gfx1151",
            text, (unsigned char)*c, (int)(c - text));
    const size_t n = strcspn(text, ":");
    memcpy(name, text, n);
    name[n] = 0;
    parsed.target = target_named(name);
    FAIL_IF(!parsed.target, QUERN_E_TARGET, "unknown target \"%s\"; the nearest known one is %s",
            text, nearest(name));
    for (const char *rest = text + n; *rest;)
        TRY(parse_feature(text, &rest, &parsed));
    *id = parsed;
    return QUERN_OK;
}

void target_id_text(const struct target_id *id, char *text, size_t size)
{
    const char sramecc[2] = {id->sramecc, 0}, xnack[2] = {id->xnack, 0};

    snprintf(text, size, "%s%s%s%s%s", id->target->name, id->sramecc ? ":sramecc" : "", sramecc,
             id->xnack ? ":xnack" : "", xnack);
}

unsigned target_waves_per_simd(const struct target *t, unsigned vgprs, unsigned lds_bytes,
                               unsigned wave_size, unsigned waves_per_workgroup)
{
    /* a wave of twice the native size takes two native registers' room for each of its own */
    const unsigned granule = wave_size > t->wave_size ? t->vgpr_granule / 2 : t->vgpr_granule;
    const unsigned file = wave_size > t->wave_size ? t->vgprs / 2 : t->vgprs;
    const unsigned used = vgprs ? (vgprs + granule - 1) / granule * granule : granule;
    unsigned waves = file / used;

    if (waves > t->max_waves)
        waves = t->max_waves;
    if (lds_bytes && waves_per_workgroup) {
        /* workgroups that fit in the LDS of a compute unit, spread over its SIMDs */
        const unsigned workgroups = t->lds_bytes / lds_bytes;
        const unsigned by_lds = (workgroups * waves_per_workgroup + t->simds - 1) / t->simds;
        if (by_lds < waves)
            waves = by_lds;
    }
    return waves;
}
