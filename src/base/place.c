/* SPDX-License-Identifier: MIT */
/* Finds files beside the library or the program (place.h): the worker, the software GPU's
 * bodies. */
#include "base/place.h"

#include "base/os.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef QUERN_LIBEXEC
#define QUERN_LIBEXEC "/usr/local/libexec/quern"
#endif

bool place_join(char path[PLACE_MAX], const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    const int n = vsnprintf(path, PLACE_MAX, format, ap);
    va_end(ap);
    return n >= 0 && n < PLACE_MAX;
}

bool place_exists(const char *path)
{
    struct stat st;

    return !os.fstatat(AT_FDCWD, path, &st, 0);
}

/* Replaces the path of something that exists by its path without links and "..". */
static bool resolve(char path[PLACE_MAX])
{
    char *const resolved = os.realpath(path, NULL);
    const bool fits = resolved && strlen(resolved) < PLACE_MAX;

    if (fits)
        strcpy(path, resolved);
    os.free(resolved);
    return fits;
}

bool place_of_library(char directory[PLACE_MAX])
{
    struct link_map *map = NULL;
    Dl_info info;
    char path[PLACE_MAX];
    /* an object rather than a function, whose pointer ISO C does not convert to void * */
    static const char here;

    if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return false;
    /* The main program has no name in the link map, and argv[0] is whatever its parent said. */
    const char *const name = *map->l_name ? map->l_name : "/proc/self/exe";
    const bool fits = place_join(path, "%s", name) && resolve(path);
    char *const slash = fits ? strrchr(path, '/') : NULL;
    if (!slash)
        return false;
    *slash = 0;
    memcpy(directory, path, sizeof path);
    return true;
}

/* Looks for a file in the directories of the program's run path, which is where CMake's and
 * pkg-config's files for a static library put libexec, as a program may lie anywhere. */
static bool on_run_path(const char *name, char path[PLACE_MAX])
{
    void *const program = dlopen(NULL, RTLD_LAZY);
    Dl_serinfo head, *all = NULL;
    bool found = false;

    if (program && !dlinfo(program, RTLD_DI_SERINFOSIZE, &head) &&
        (all = os.malloc(head.dls_size))) {
        if (!dlinfo(program, RTLD_DI_SERINFOSIZE, all) && !dlinfo(program, RTLD_DI_SERINFO, all))
            for (unsigned i = 0; i < all->dls_cnt && !found; i++)
                found =
                    place_join(path, "%s/%s", all->dls_serpath[i].dls_name, name) && resolve(path);
    }
    os.free(all);
    if (program)
        dlclose(program);
    return found;
}

bool place_of_helper(const char *name, char path[PLACE_MAX], char *tried, size_t tried_size)
{
    static const char *const above[] = {"..", "../.."};
    char directory[PLACE_MAX];
    size_t used = 0;

    tried[0] = 0;
    if (place_of_library(directory))
        for (size_t i = 0; i < sizeof above / sizeof *above; i++) {
            if (!place_join(path, "%s/%s/libexec/quern/%s", directory, above[i], name))
                continue;
            if (resolve(path))
                return true;
            const int n = snprintf(tried + used, tried_size - used, "%s, ", path);
            if (n > 0 && (size_t)n < tried_size - used)
                used += (size_t)n;
        }
    if (on_run_path(name, path))
        return true;
    snprintf(path, PLACE_MAX, "%s/%s", QUERN_LIBEXEC, name);
    snprintf(tried + used, tried_size - used, "%s, nor on the program's run path", path);
    return place_exists(path);
}

bool place_first(const char *directory, const char *const names[], size_t count,
                 char path[PLACE_MAX])
{
    for (size_t i = 0; i < count; i++)
        if (place_join(path, "%s/%s", directory, names[i]) && place_exists(path))
            return true;
    path[0] = 0;
    return false;
}
