/* SPDX-License-Identifier: MIT */
/* Looks for installations by version (installed.h), for compilers and for runtimes. */
#include "base/installed.h"

#include "base/os.h"
#include "base/place.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Installations beyond so many are not looked at. */
#define VERSIONS_MAX 32

static int newest_first(const void *a, const void *b)
{
    return strverscmp(*(char *const *)b, *(char *const *)a);
}

/* Names in a directory that begin with `prefix`, malloc'ed, unordered; returns how many. */
static size_t list_versions(const char *place, const char *prefix, char *versions[VERSIONS_MAX])
{
    const int fd = os.open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *const directory = fd < 0 ? NULL : os.fdopendir(fd);
    size_t count = 0;

    if (!directory) {
        if (fd >= 0)
            os.close(fd);
        return 0;
    }
    for (const struct dirent *e; count < VERSIONS_MAX && (e = os.readdir(directory));)
        if (!strncmp(e->d_name, prefix, strlen(prefix)) &&
            (versions[count] = os.malloc(strlen(e->d_name) + 1)))
            strcpy(versions[count++], e->d_name);
    os.closedir(directory);
    return count;
}

bool installed_versions(const char *directory, const char *prefix, installed_fn look, void *user)
{
    char *versions[VERSIONS_MAX], path[PLACE_MAX];
    bool found = false;

    const size_t count = list_versions(directory, prefix, versions);
    qsort(versions, count, sizeof *versions, newest_first);
    for (size_t i = 0; i < count; i++) {
        found = found || (place_join(path, "%s/%s", directory, versions[i]) && look(user, path));
        os.free(versions[i]);
    }
    return found;
}

bool installed_rocm(installed_fn look, void *user)
{
    return look(user, "/opt/rocm") || installed_versions("/opt", "rocm-", look, user);
}
