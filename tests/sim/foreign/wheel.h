/* SPDX-License-Identifier: MIT */
/*
 * The code objects of bitsandbytes' published wheel (0.50.2): one library for each ROCm release,
 * each with offload bundles that hold the same kernels for many GPUs. They are fetched and unpacked
 * when a test runs; without a way to fetch them the tests are skipped.
 */
#ifndef FOREIGN_WHEEL_H
#define FOREIGN_WHEEL_H

#include "base/os.h"
#include "object/object.h"
#include "t_paths.h"

#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHEEL_LIBRARY_MAX ((size_t)64 << 20)
#define WHEEL_LIBRARIES   8

/* The directory of the libraries, or null and the reason. */
static const char *wheel_directory(const char **reason)
{
    static char line[4096];
    static int status = -1; /* before the first call */
    char command[4096 + 64];

    if (status < 0) {
        snprintf(command, sizeof command, "exec python3 '%s/../../tests/peers/fetch_wheel.py' 2>&1",
                 t_build());
        FILE *const pipe = popen(command, "r");
        while (pipe && fgets(line, sizeof line, pipe))
            line[strcspn(line, "\n")] = 0;
        status = pipe ? pclose(pipe) : 1;
    }
    *reason = line;
    return status ? NULL : line;
}

static struct wheel_library {
    char rocm[8];
    char *bytes;
    quern_offload *offload;
} wheel_libraries[WHEEL_LIBRARIES];

/* The library for a ROCm release, "70" for 7.0, unpacked; kept until wheel_close. Skips the test
 * when it cannot be had, fails it when it cannot be read. */
static quern_offload *wheel_library(const char *rocm)
{
    const char *reason, *const directory = wheel_directory(&reason);
    struct wheel_library *l = wheel_libraries;
    char path[4200];
    size_t size;

    if (!directory) {
        print_message("skipped: bitsandbytes' wheel: %s\n", reason);
        skip();
    }
    while (l->offload && strcmp(l->rocm, rocm) != 0)
        l++;
    if (l->offload)
        return l->offload;
    snprintf(path, sizeof path, "%s/libbitsandbytes_rocm%s.so", directory, rocm);
    const int error = os_read_file(path, WHEEL_LIBRARY_MAX, &l->bytes, &size);
    if (error)
        fail_msg("%s: %s", path, strerror(error));
    if (quern_offload_open(l->bytes, size, &l->offload) != QUERN_OK)
        fail_msg("%s: %s", path, quern_last_error()->message);
    snprintf(l->rocm, sizeof l->rocm, "%s", rocm);
    return l->offload;
}

static void wheel_close(void)
{
    for (size_t i = 0; i < WHEEL_LIBRARIES; i++) {
        quern_offload_close(wheel_libraries[i].offload);
        free(wheel_libraries[i].bytes);
    }
}

/* The object that holds a kernel, among those for a target in a library. Null: that library has
 * none for the target. */
static inline const struct quern_offload_entry *wheel_object(const char *rocm, const char *target,
                                                             const char *kernel)
{
    static struct quern_offload_entry entry = QUERN_INIT(struct quern_offload_entry);
    quern_offload *const library = wheel_library(rocm);

    for (size_t i = 0; i < quern_offload_count(library); i++) {
        struct object object;
        assert_int_equal(quern_offload_entry(library, i, &entry), QUERN_OK);
        if (strcmp(entry.target, target) != 0)
            continue;
        if (object_parse(entry.object, entry.object_bytes, &object) != QUERN_OK)
            fail_msg("%s for ROCm %s: %s", target, rocm, quern_last_error()->message);
        const bool found = object_kernel(&object, kernel);
        object_free(&object);
        if (found)
            return &entry;
    }
    return NULL;
}

#endif
