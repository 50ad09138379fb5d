/* SPDX-License-Identifier: MIT */
/*
 * The real worker where a memory cgroup, as containers have, is out of memory in mid-compile: the
 * kernel ends the compiler, not the host that is in the cgroup too; that job alone fails, and with
 * more memory the same source compiles. Left out where no cgroup can be made: that takes root and,
 * in the root of the hierarchy that is seen, a memory controller.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_compile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LITTLE "134217728"
#define ENOUGH "2147483648"

/* An array of 2^22 values that the compiler computes: 300 MB of them. */
static const char hungry[] = "struct large { int v[1 << 22]; };\n"
                             "constexpr int f()\n"
                             "{ large a{}; a.v[(1 << 22) - 1] = 1; return a.v[(1 << 22) - 1]; }\n"
                             "constexpr int x = f();\n" T_KERNEL "k(int *p) { p[0] = x; }\n";

/* ---- The cgroup ------------------------------------------------------------------------------ */

/* Where the memory controller is met, and what its files are called: version 2, then 1. */
static const struct hierarchy {
    const char *root, *limit, *events;
} hierarchies[] = {
    {"/sys/fs/cgroup", "memory.max", "memory.events"},
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
};
static const struct hierarchy *hierarchy; /* null: there is none */
static char group[64];

static bool write_to(const char *name, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", group, name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

/* How many processes the kernel has ended in it. */
static int kills(void)
{
    char path[PATH_MAX], line[256];
    int n = -1;

    snprintf(path, sizeof path, "%s/%s", group, hierarchy->events);
    FILE *const f = fopen(path, "re");
    while (f && n < 0 && fgets(line, sizeof line, f))
        sscanf(line, "oom_kill %d", &n);
    if (f)
        fclose(f);
    return n;
}

static int make_group(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hierarchies / sizeof *hierarchies && !hierarchy; i++) {
        snprintf(group, sizeof group, "%s/quern-test-%d", hierarchies[i].root, (int)getpid());
        if (mkdir(group, 0700))
            continue;
        if (write_to(hierarchies[i].limit, LITTLE))
            hierarchy = &hierarchies[i];
        else
            rmdir(group);
    }
    return 0;
}

/* Workers end a moment after their host. */
static int remove_group(void **state)
{
    (void)state;
    for (int tries = 0; hierarchy && rmdir(group) && errno == EBUSY; tries++) {
        if (tries == 1000)
            return -1;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return 0;
}

/* ---- The host -------------------------------------------------------------------------------- */

/* Returns the line of what is not as it should be, or 0. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__;                                                                       \
    } while (0)

static int host(void)
{
    struct compiler *const c = t_compiler_open(1, 120000);
    struct compile_result r;

    EXPECT(write_to("cgroup.procs", "0"));
    EXPECT(t_compile(c, t_add_source, "gfx1100", T_OPTIONS, &r) == QUERN_OK);
    compile_result_free(&r);
    EXPECT(kills() == 0);
    EXPECT(t_compile(c, hungry, "gfx1100", T_ENDLESS_OPTIONS, &r) == QUERN_E_WORKER);
    EXPECT(strstr(quern_last_error()->message, "out of memory"));
    EXPECT(kills() == 1);
    EXPECT(t_compiler_stats(c).died == 1);
    EXPECT(t_compile(c, t_add_source, "gfx1100", T_OPTIONS, &r) == QUERN_OK);
    compile_result_free(&r);
    EXPECT(write_to(hierarchy->limit, ENOUGH));
    EXPECT(t_compile(c, hungry, "gfx1100", T_ENDLESS_OPTIONS, &r) == QUERN_OK);
    compile_result_free(&r);
    EXPECT(t_compiler_stats(c).died == 1 && t_compiler_stats(c).started == 2 && kills() == 1);
    compiler_close(c);
    return 0;
}

static void what_a_cgroup_has_no_memory_for_fails_alone(void **state)
{
    int status;

    (void)state;
    if (!hierarchy) {
        print_message("no memory cgroup can be made here\n");
        skip();
    }
    fflush(NULL);
    const pid_t child = fork(); /* which alone is in the cgroup */
    if (child == 0) {
        const int line = host();
        if (line)
            fprintf(stderr, "line %d: %s\n", line, quern_last_error()->message);
        _exit(line != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        what_a_cgroup_has_no_memory_for_fails_alone, make_group, remove_group)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
