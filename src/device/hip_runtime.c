/* SPDX-License-Identifier: MIT */
/* Finds the HIP runtime that the host uses, or loads one, and looks its functions up
 * (hip_runtime.h). */
#include "device/hip_runtime.h"

#include "base/installed.h"
#include "base/os.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Wheels of ROCm have no unversioned name, packages for development have all of them. */
static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
/* Where libraries lie below a root. */
static const char *const places[] = {"/lib", "/lib64", "/lib/x86_64-linux-gnu",
                                     "/usr/lib/x86_64-linux-gnu", ""};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the search */
static struct hip_api found;
static atomic_bool have_found;
static atomic_uint forks;

unsigned hip_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

/* Whether this machine has a device node of an AMD GPU; no library is loaded to tell. */
static bool has_device_node(void)
{
    /* the kernel driver's node, and that of WSL 2 */
    return !os.faccessat(AT_FDCWD, "/dev/kfd", F_OK, 0) ||
           !os.faccessat(AT_FDCWD, "/dev/dxg", F_OK, 0);
}

static void report(const struct device_search *s, const char *candidate, const char *outcome)
{
    if (s->tried)
        s->tried(s->user, candidate, outcome);
}

/* Fills the table of functions from a library. Returns the name of the first that it lacks, or
 * null. */
static const char *fill(void *handle)
{
    struct link_map *map = NULL;

#define HIP_LOAD(result, name, parameters)                                                         \
    {                                                                                              \
        void *const address = dlsym(handle, #name);                                                \
        if (!address)                                                                              \
            return #name;                                                                          \
        memcpy(&found.name, &address, sizeof address);                                             \
    }
    HIP_FUNCTIONS(HIP_LOAD)
#undef HIP_LOAD
    if (!dlinfo(handle, RTLD_DI_LINKMAP, &map) && map)
        snprintf(found.path, sizeof found.path, "%s", map->l_name);
    return NULL;
}

/* Takes a library, by name or path, as the runtime, if it has all functions. It is loaded if it is
 * not in the process, unless `flags` has RTLD_NOLOAD. */
static bool take(const struct device_search *s, const char *candidate, int flags)
{
    char outcome[512];
    void *const handle = dlopen(candidate, RTLD_NOW | RTLD_LOCAL | flags);

    if (!handle) {
        const size_t n = strlen(candidate);
        const char *why = dlerror();
        if (!why || flags & RTLD_NOLOAD)
            why = "not loaded in this process";
        else if (!strncmp(why, candidate, n) && !strncmp(why + n, ": ", 2))
            why += n + 2; /* it begins with the name */
        report(s, candidate, why);
        return false;
    }
    const char *const missing = fill(handle);
    if (missing) {
        snprintf(outcome, sizeof outcome, "has no %s; ROCm 6 or later is needed", missing);
        report(s, candidate, outcome);
        dlclose(handle);
        return false;
    }
    report(s, found.path, "");
    return true; /* the handle is kept for ever */
}

/* For dl_iterate_phdr: finds a runtime in this process whose soname is another (wheels rename their
 * libraries). */
static int note_name(struct dl_phdr_info *info, size_t size, void *user)
{
    const char *const slash = strrchr(info->dlpi_name, '/');
    char *const path = user;

    (void)size;
    if (!slash || strncmp(slash + 1, "libamdhip64", strlen("libamdhip64")) ||
        strlen(info->dlpi_name) >= 512)
        return 0;
    strcpy(path, info->dlpi_name);
    return 1;
}

static bool take_loaded(const struct device_search *s)
{
    char path[512];

    for (size_t i = 0; i < COUNT(names); i++)
        if (take(s, names[i], RTLD_NOLOAD))
            return true;
    return dl_iterate_phdr(note_name, path) && take(s, path, RTLD_NOLOAD);
}

static bool take_below(const struct device_search *s, const char *root)
{
    char path[512];
    bool any = false;

    if (!root || !*root)
        return false;
    for (size_t i = 0; i < COUNT(places); i++)
        for (size_t j = 0; j < COUNT(names); j++) {
            const int n = snprintf(path, sizeof path, "%s%s/%s", root, places[i], names[j]);
            if (n >= (int)sizeof path || os.faccessat(AT_FDCWD, path, F_OK, 0))
                continue;
            any = true;
            if (take(s, path, 0))
                return true;
        }
    if (!any)
        report(s, root, "no libamdhip64.so.7 or .6 in it");
    return false;
}

static bool take_in_opt(void *search, const char *root)
{
    return take_below(search, root);
}

static bool search_all(const struct device_search *s, bool only_loaded)
{
    if (take_loaded(s))
        return true;
    if (only_loaded)
        return false;
    if (take_below(s, s->path) || take_below(s, secure_getenv("ROCM_PATH")))
        return true;
    for (size_t i = 0; i < COUNT(names); i++)
        if (take(s, names[i], 0))
            return true;
    return installed_rocm(take_in_opt, (void *)s);
}

quern_status hip_runtime_find(const struct device_search *search, const struct hip_api **api)
{
    static bool forks_counted;
    const bool only_loaded = search->automatic && !has_device_node();

    pthread_mutex_lock(&lock);
    bool have = atomic_load(&have_found);
    if (have) {
        report(search, found.path, "");
    } else if ((have = search_all(search, only_loaded))) {
        forks_counted = forks_counted || !pthread_atfork(NULL, NULL, count_fork);
        atomic_store(&have_found, true);
    }
    pthread_mutex_unlock(&lock);
    FAIL_IF(!have && only_loaded, QUERN_E_DEVICE,
            "this machine has no AMD GPU (neither /dev/kfd nor /dev/dxg is there), and no HIP "
            "runtime is loaded in this process");
    FAIL_IF(!have, QUERN_E_DEVICE,
            "no libamdhip64.so.7 or .6 that can be loaded: not in this process, QUERN_ROCM_PATH, "
            "ROCM_PATH, the loader's path or /opt/rocm*; quern doctor lists what was tried");
    *api = &found;
    return QUERN_OK;
}
