/* SPDX-License-Identifier: MIT */
#include "t_paths.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *t_build(void)
{
    static _Thread_local char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    path[n > 0 ? n : 0] = 0;
    for (int i = 0; i < 3; i++) {
        char *const slash = strrchr(path, '/');
        if (slash)
            *slash = 0;
    }
    return path;
}

const char *t_worker_path(void)
{
    static _Thread_local char path[PATH_MAX + 64];

    snprintf(path, sizeof path, "%s/libexec/quern/quern-worker", t_build());
    return path;
}

bool t_has_isa(const char *name)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof path, "%s/libexec/quern/quern-sim-%s.so", t_build(), name);
    return !access(path, F_OK);
}

int t_count_entries(const char *directory)
{
    DIR *const d = opendir(directory);
    int count = 0;

    if (!d)
        return -1;
    for (const struct dirent *e; (e = readdir(d));)
        count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return count;
}
