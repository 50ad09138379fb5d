/* SPDX-License-Identifier: MIT */
/* AMD's compiler: hipRTC, with comgr beside it, which disassembles. */
#include "base/installed.h"
#include "base/place.h"
#include "compile/compilers.h"
#include "compile/library_file.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Where comgr is linked with a shared LLVM, finds that library: its file, or else its name alone.
 */
static void find_llvm(struct toolchain *t, const char *directory)
{
    static const char *const places[] = {".", "../llvm/lib", "../lib/llvm/lib"};
    char *const path = t->library[LIBRARY_SUPPORT], name[128];

    if (!library_file_needs(t->library[LIBRARY_DISASSEMBLER], "libLLVM", name, sizeof name))
        return;
    for (size_t i = 0; i < COUNT(places); i++)
        if (place_join(path, "%s/%s/%s", directory, places[i], name) && place_exists(path))
            return;
    path[0] = 0;
}

/* Of struct compiler_kind. The sonames are those of the releases that are known to work. */
static bool libraries_in(const char *directory, struct toolchain *t)
{
    static const char *const hiprtc[] = {"libhiprtc.so.7", "libhiprtc.so.6"};
    static const char *const builtins[] = {"libhiprtc-builtins.so.7", "libhiprtc-builtins.so.6"};
    static const char *const comgr[] = {"libamd_comgr.so.3", "libamd_comgr.so.2",
                                        "libamd_comgr.so"};

    if (!place_first(directory, hiprtc, COUNT(hiprtc), t->library[LIBRARY_COMPILER]) ||
        !place_first(directory, comgr, COUNT(comgr), t->library[LIBRARY_DISASSEMBLER]))
        return false;
    place_first(directory, builtins, COUNT(builtins), t->library[LIBRARY_BUILTINS]);
    find_llvm(t, directory);
    return true;
}

static bool roots(bool (*look)(void *user, const char *root), void *user)
{
    return installed_rocm(look, user) || look(user, "/usr");
}

static const char *const places[] = {
    "lib", "lib64", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", ".", NULL};

const struct compiler_kind compiler_amd = {
    .option = "rocm_path",
    .missing = "libhiprtc.so.6 or .7 with libamd_comgr.so beside it",
    .advice = "set QUERN_ROCM_PATH to the directory of a ROCm 6 or 7 installation",
    .prefix = "hiprtc",
    .code = "Code",
    .target = "--offload-arch=",
    .file = "quern.hip",
    /* without this comgr keeps a cache of its own, which would hide compiles from our counts and
     * fill a directory that nobody asked for */
    .environment = "AMD_COMGR_CACHE=0",
    .trial = "extern \"C\" __attribute__((global)) void k(float *p) { p[0] += 1; }\n",
    .trial_options = "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O2",
    .libraries = {"hiprtc", "builtins", "comgr", "llvm"},
    .places = places,
    .libraries_in = libraries_in,
    .variable = "ROCM_PATH",
    .roots = roots,
    .built = "rocm",
};
