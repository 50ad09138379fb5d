/* SPDX-License-Identifier: MIT */
/* Loads the shared object with the bodies of instructions (bodies.h) that suits this CPU. */
#include "sim/bodies.h"

#include "base/os.h"
#include "base/place.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sim_stamp.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

static const struct {
    enum quern_sim_isa isa;
    const char *file;
} builds[] = {{QUERN_ISA_X86_64_V4, "quern-sim-x86_64_v4.so"},
              {QUERN_ISA_X86_64_V3, "quern-sim-x86_64_v3.so"},
              {QUERN_ISA_X86_64, "quern-sim-x86_64.so"}};

static bool cpu_has(enum quern_sim_isa isa)
{
    __builtin_cpu_init();
    if (isa == QUERN_ISA_X86_64_V4)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512cd");
    if (isa == QUERN_ISA_X86_64_V3)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    return true;
}

/* The place of a program in a set-user-ID process may be one that its caller has made, by a hard
 * link: there, only what root has installed is code to load. */
static bool may_load(const char *path)
{
    struct stat st;

    return !os.fstatat(AT_FDCWD, path, &st, 0) && (!getauxval(AT_SECURE) || st.st_uid == 0);
}

static bool beside(const char *worker_path, const char *file, char path[PLACE_MAX])
{
    const char *const slash = worker_path ? strrchr(worker_path, '/') : NULL;

    return slash && place_join(path, "%.*s/%s", (int)(slash - worker_path), worker_path, file) &&
           may_load(path);
}

enum found { NOWHERE, FOUND, REFUSED };

/* NOWHERE: `tried` says where it was looked for. REFUSED: it says which file may not be loaded, and
 * no lesser set is looked for, whose absence would be all that the user is told. */
static enum found find(const char *worker_path, const char *file, char path[PLACE_MAX],
                       char tried[3 * PLACE_MAX])
{
    if (beside(worker_path, file, path))
        return FOUND;
    if (!place_of_helper(file, path, tried, 3 * PLACE_MAX))
        return NOWHERE;
    if (may_load(path))
        return FOUND;
    snprintf(tried, 3 * PLACE_MAX, "%s that is root's, as a set-user-ID program demands", path);
    return REFUSED;
}

static quern_status load(const char *path, const struct sim_bodies **bodies, void **library)
{
    void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    /* dlerror() is never null after a failure */
    FAIL_IF(!handle, QUERN_E_DEVICE, "%s cannot be loaded: %s", path, dlerror());
    const struct sim_export *const export = dlsym(handle, "quern_sim_bodies");
    if (!export || strncmp(export->stamp, SIM_STAMP, sizeof export->stamp)) {
        dlclose(handle);
        FAIL(QUERN_E_DEVICE, "%s is not of this version of quern; install both from one build",
             path);
    }
    *bodies = export->bodies;
    *library = handle;
    return QUERN_OK;
}

quern_status bodies_open(enum quern_sim_isa isa, const char *worker_path,
                         const struct sim_bodies **bodies, void **library)
{
    char path[PLACE_MAX], tried[3 * PLACE_MAX] = "";

    FAIL_IF(isa < 0 || isa > QUERN_ISA_X86_64_V4, QUERN_E_ARGUMENT,
            "instruction set %d is none of enum quern_sim_isa", (int)isa);
    for (size_t n = 0; n < sizeof builds / sizeof *builds; n++) {
        const bool asked = isa == builds[n].isa;
        if (!asked && isa > QUERN_ISA_AUTO)
            continue;
        FAIL_IF(asked && !cpu_has(isa), QUERN_E_DEVICE,
                "this CPU does not have the instructions of %s", builds[n].file);
        const enum found found =
            cpu_has(builds[n].isa) ? find(worker_path, builds[n].file, path, tried) : NOWHERE;
        if (found == FOUND)
            return load(path, bodies, library);
        if (found == REFUSED)
            break;
    }
    FAIL(
        QUERN_E_DEVICE,
        "the software GPU is not installed: there is none of %s; install quern's libexec directory "
        "with the library, or give options.worker_path",
        tried);
}

void bodies_close(void *library)
{
    dlclose(library);
}
