/* SPDX-License-Identifier: MIT */
/* Looks for installations of ROCm (rocm.h), for the compiler and for the HIP runtime. */
#include "base/rocm.h"

#include "base/os.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Installations beyond so many are not looked at. */
#define VERSIONS_MAX 32

static int newest_first(const void *a, const void *b)
{
    return strverscmp(*(char *const *)b, *(char *const *)a);
}

/* Names in /opt of the form rocm-X.Y.Z, malloc'ed, unordered; returns how many. */
static size_t list_versions(char *versions[VERSIONS_MAX])
{
    const int fd = os.open("/opt", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *const directory = fd < 0 ? NULL : os.fdopendir(fd);
    size_t count = 0;

    if (!directory) {
        if (fd >= 0)
            os.close(fd);
        return 0;
    }
    for (const struct dirent *e; count < VERSIONS_MAX && (e = os.readdir(directory));)
        if (!strncmp(e->d_name, "rocm-", 5) && (versions[count] = os.malloc(strlen(e->d_name) + 1)))
            strcpy(versions[count++], e->d_name);
    os.closedir(directory);
    return count;
}

bool rocm_in_opt(bool (*look)(void *user, const char *root), void *user)
{
    char *versions[VERSIONS_MAX], path[sizeof "/opt/" + 255];
    bool found = look(user, "/opt/rocm");

    if (found)
        return true;
    const size_t count = list_versions(versions);
    qsort(versions, count, sizeof *versions, newest_first);
    for (size_t i = 0; i < count; i++) {
        if (!found) {
            snprintf(path, sizeof path, "/opt/%s", versions[i]);
            found = look(user, path);
        }
        os.free(versions[i]);
    }
    return found;
}
