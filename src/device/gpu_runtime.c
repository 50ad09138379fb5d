/* SPDX-License-Identifier: MIT */
/* Finds the runtime (gpu.h) that the host uses, or loads one, and resolves its functions. */
#include "device/gpu.h"

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

/* What was found of each runtime, by enum vendor; never forgotten. */
#define RUNTIMES_MAX 8
static struct {
    const struct gpu_runtime *runtime;
    struct gpu_api api;
} found[RUNTIMES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these */
static atomic_uint forks;

unsigned gpu_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

bool gpu_present(const struct device_driver *driver)
{
    for (const char *const *node = driver->gpu->nodes; *node; node++)
        if (!os.faccessat(AT_FDCWD, *node, F_OK, 0))
            return true;
    return false;
}

/* A search under way. */
struct search {
    const struct gpu_runtime *runtime;
    const struct device_search *asked;
    struct gpu_api *api; /* to be filled */
};

static void report(const struct search *s, const char *candidate, const char *outcome)
{
    if (s->asked->tried)
        s->asked->tried(s->asked->user, candidate, outcome);
}

/* Takes a candidate by name or path; what is not in the process is loaded unless `flags` forbid. */
static bool take(const struct search *s, const char *candidate, int flags)
{
    char outcome[512];
    struct link_map *map = NULL;
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
    const char *const missing = s->runtime->fill(handle, s->api);
    if (missing) {
        snprintf(outcome, sizeof outcome, "has no %s; %s", missing, s->runtime->needed);
        report(s, candidate, outcome);
        dlclose(handle);
        return false;
    }
    if (!dlinfo(handle, RTLD_DI_LINKMAP, &map) && map)
        snprintf(s->api->path, sizeof s->api->path, "%s", map->l_name);
    report(s, s->api->path, "");
    return true; /* the handle is kept for ever */
}

struct renamed {
    const char *stem;
    char path[LOADED_PATH_MAX];
};

static int note_name(struct dl_phdr_info *info, size_t size, void *user)
{
    const char *const slash = strrchr(info->dlpi_name, '/');
    struct renamed *const r = user;

    (void)size;
    if (!slash || strncmp(slash + 1, r->stem, strlen(r->stem)) ||
        strlen(info->dlpi_name) >= sizeof r->path)
        return 0;
    strcpy(r->path, info->dlpi_name);
    return 1;
}

bool gpu_library_loaded(const char *stem, char path[LOADED_PATH_MAX])
{
    struct renamed renamed = {.stem = stem};

    if (!dl_iterate_phdr(note_name, &renamed))
        return false;
    strcpy(path, renamed.path);
    return true;
}

static bool take_loaded(const struct search *s)
{
    char path[LOADED_PATH_MAX];

    for (const char *const *name = s->runtime->names; *name; name++)
        if (take(s, *name, RTLD_NOLOAD))
            return true;
    return gpu_library_loaded(s->runtime->stem, path) && take(s, path, RTLD_NOLOAD);
}

static bool take_below(void *user, const char *root)
{
    const struct search *const s = user;
    char path[512];
    bool any = false;

    if (!root || !*root)
        return false;
    for (const char *const *place = s->runtime->places; *place; place++)
        for (const char *const *name = s->runtime->names; *name; name++) {
            const int n = snprintf(path, sizeof path, "%s%s/%s", root, *place, *name);
            if (n >= (int)sizeof path || os.faccessat(AT_FDCWD, path, F_OK, 0))
                continue;
            any = true;
            if (take(s, path, 0))
                return true;
        }
    if (!any) {
        char outcome[128];
        snprintf(outcome, sizeof outcome, "no %s in it", s->runtime->names[0]);
        report(s, root, outcome);
    }
    return false;
}

static bool search_all(struct search *s, bool only_loaded)
{
    const char *const variable = s->runtime->variable;

    if (take_loaded(s))
        return true;
    if (only_loaded)
        return false;
    if (take_below(s, s->asked->path) || take_below(s, variable ? secure_getenv(variable) : NULL))
        return true;
    for (const char *const *name = s->runtime->names; *name; name++)
        if (take(s, *name, 0))
            return true;
    return s->runtime->roots(take_below, s);
}

/* The place of a runtime among those found; null when there is no more room. Under the lock. */
static struct gpu_api *place_of(const struct gpu_runtime *runtime, bool *have)
{
    for (size_t i = 0; i < RUNTIMES_MAX; i++) {
        *have = found[i].runtime == runtime;
        if (*have || !found[i].runtime)
            return &found[i].api;
    }
    return NULL;
}

/* Looks for the runtime, if it is not found yet, and starts it. Under the lock. */
static int find(struct search *s, bool only_loaded, bool *have)
{
    static bool forks_counted;

    s->api = place_of(s->runtime, have);
    if (*have || !s->api) {
        if (*have)
            report(s, s->api->path, "");
        return GPU_OK;
    }
    if (!(*have = search_all(s, only_loaded)))
        return GPU_OK;
    forks_counted = forks_counted || !pthread_atfork(NULL, NULL, count_fork);
    const int error = s->runtime->start();
    for (size_t i = 0; !error && i < RUNTIMES_MAX; i++)
        if (&found[i].api == s->api)
            found[i].runtime = s->runtime;
    return error;
}

quern_status gpu_runtime_find(const struct gpu_runtime *runtime, const struct device_search *search,
                              const struct gpu_api **api)
{
    const bool only_loaded = search->automatic && !gpu_present(runtime->driver);
    struct search s = {.runtime = runtime, .asked = search};
    bool have;

    pthread_mutex_lock(&lock);
    const int error = find(&s, only_loaded, &have);
    pthread_mutex_unlock(&lock);
    FAIL_IF(!have && only_loaded, QUERN_E_DEVICE,
            "this machine has no %s GPU (neither %s nor %s is there), and no %s runtime is loaded "
            "in this process",
            runtime->driver->vendor, runtime->nodes[0], runtime->nodes[1],
            runtime->driver->runtime);
    if (!have) {
        error_set(QUERN_E_DEVICE, __FILE__, FAIL_AT("!have"), "%s", runtime->missing);
        return error_remedy("quern doctor lists what was tried");
    }
    FAIL_IF(error, QUERN_E_DEVICE, "the %s runtime %s cannot be started: %s (%d)%s",
            runtime->driver->runtime, s.api->path, s.api->error_name(error), error,
            error == GPU_NO_DEVICE ? runtime->no_device_hint : "");
    *api = s.api;
    return QUERN_OK;
}
