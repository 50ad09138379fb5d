/* SPDX-License-Identifier: MIT */
/*
 * The rows that register Mill: all tables of the library that say what vendors and targets there
 * are, with one line more than src/target/vendors.def and a row more than src/target/rows.c. A
 * program that is linked with this file in front of the library has these in place of the
 * library's.
 */
#include "mill.h"

#include "base/place.h"
#include "compile/compilers.h"
#include "device/device.h"
#include "gen/dialects.h"
#include "object/format.h"
#include "plan/family.h"

#define target_rows      rows_of_the_library
#define target_row_count row_count_of_the_library
#include "target/rows.c"
#undef target_rows
#undef target_row_count

const struct target target_rows[] = {
    {.name = "gfx1151",
     .elf_machine = 0x4a,
     GFX11("RDNA 3.5"),
     BIG_FILE,
     SIMULATED,
     PART("Radeon 8060S", 40, 2.9, 256)},
    {.name = "mill_1",
     .vendor = VENDOR_MILL,
     .elf_machine = 1,
     .family = "Mill",
     .part = "Mill One",
     .wave_size = 16,
     .simds = 1,
     .simd_lanes = 16,
     .vgprs = 256,
     .vgpr_granule = 8,
     .max_waves = 8,
     .lds_bytes = 65536,
     .lds_banks = 32,
     .cus = 4,
     .dies = 1,
     .clock_ghz = 1,
     .bandwidth_gbs = 10},
};
const size_t target_row_count = 2;

/* ---- The compiler: where it is --------------------------------------------------------------- */

static bool libraries_in(const char *directory, struct toolchain *t)
{
    static const char *const names[] = {"libmillrtc.so"};

    return place_first(directory, names, 1, t->library[LIBRARY_COMPILER]);
}

/* Beside this program, whose directory is that of the library, too, when it is linked in. */
static bool roots(bool (*look)(void *user, const char *root), void *user)
{
    char directory[PLACE_MAX];

    return place_of_library(directory) && look(user, directory);
}

static const char *const places[] = {".", NULL};

static const struct compiler_kind compiler_mill = {
    .missing = "libmillrtc.so",
    .advice = "build it",
    .prefix = "millrtc",
    .code = "Binary",
    .target = "-mtarget=",
    .file = "quern.mill",
    .environment = "",
    .trial =
        "constexpr unsigned N = 1;\nconstexpr unsigned K = 1;\nconstexpr unsigned M_TILE = 1;\n"
        "constexpr unsigned ROWS = 1;\nconstexpr unsigned WAVE = 16;\n#define SYMBOL k\n"
        "\nC = A * transpose(W);\n",
    .trial_options = "-mgrain=1",
    .libraries = {"millrtc"},
    .places = places,
    .libraries_in = libraries_in,
    .roots = roots,
};

/* ---- The five tables ------------------------------------------------------------------------- */

extern const struct object_format object_mill;
extern const struct device_driver driver_mill;
extern const struct dialect dialect_mill;
extern const struct family *const families_mill[];

const struct compiler_kind *const compilers[] = {&compiler_amd, &compiler_nvidia, &compiler_mill,
                                                 NULL};
const struct object_format *const object_formats[] = {&object_amd, &object_nvidia, &object_mill,
                                                      NULL};
const struct device_driver *const drivers[] = {&driver_amd, &driver_nvidia, &driver_mill, NULL};
const struct dialect *const dialects[] = {&dialect_amd, &dialect_nvidia, &dialect_mill, NULL};
const struct family *const *const families[] = {families_amd, families_nvidia, families_mill, NULL};
