/* SPDX-License-Identifier: MIT */
/*
 * The command when system calls fail: the released program under ptrace, each call of each verb in
 * turn. It ends by itself, with a status that it has, in bounded work; nothing that it wrote is
 * half a file; and the same command works afterwards. Here at some of the calls with some of the
 * errors; in test_verbs_long.c at all with all.
 */
#include "t_context.h"
#include "t_paths.h"
#include "t_store.h"
#include "t_trace.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#ifndef POINTS /* calls that fail in turn, spread over the run */
#define POINTS 8
#endif

static const int errors[] = {ENOSPC, EIO, EINTR, EMFILE, ENOMEM, EACCES, ESTALE};
static char *directory, command[PATH_MAX];

/* Verbs that start no worker; "@" is the scratch directory. */
static const char *const verbs[][12] = {
    {"targets"},
    {"explain", "--target", "gfx1151", "--m", "1", "wq=nf4 n=64 k=64 a=f16"},
    {"source", "--target", "gfx1151", "--m", "1", "wq=nf4 n=64 k=64 a=f16"},
    {"prewarm", "--target", "gfx1151", "--m", "1", "--jit", "off", "wq=nf4 n=64 k=64 a=f16"},
    {"prewarm", "--target", "gfx1151", "--jit", "off", "--manifest", "@/manifest"},
    {"cache", "stat"},
    {"cache", "list", "--json"},
    {"cache", "verify"},
    {"bundle", "create", "@/new.qkb"},
    {"bundle", "verify", "@/a.qkb", "--key", "@/public"},
    {"bundle", "import", "@/a.qkb", "--key", "@/public", "--cache-dir", "@/other"},
    {"bundle", "sign", "@/b.qkb", "--key", "@/secret"},
    {"inspect", "@/object"},
    {"cache", "clear", "--cache-dir", "@/other"},
};

/* Words of a verb for execv; @ expanded. */
static void expand(const char *const words[12], char *argv[14])
{
    size_t n = 0;

    argv[n++] = command;
    for (size_t i = 0; i < 12 && words[i]; i++) {
        char text[PATH_MAX];
        const char *const at = strstr(words[i], "@/");
        if (at)
            snprintf(text, sizeof text, "%.*s%s%s", (int)(at - words[i]), words[i], directory,
                     at + 1);
        argv[n++] = strdup(at ? text : words[i]);
    }
    argv[n] = NULL;
}

static void release(char *argv[14])
{
    for (size_t i = 1; argv[i]; i++)
        free(argv[i]);
}

static int run(const char *const words[12])
{
    char *argv[14];
    int status = -1;

    expand(words, argv);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(null, fd);
        execv(argv[0], argv);
        _exit(127);
    }
    waitpid(child, &status, 0);
    release(argv);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void must_run(const char *const words[12])
{
    const int status = run(words);

    if (status)
        fail_msg("quern %s %s: status %d", words[0], words[1] ? words[1] : "", status);
}

static int setup(void **state)
{
    static const char *const words[][12] = {
        {"prewarm", "--target", "gfx1151", "--m", "1", "wq=nf4 n=64 k=64 a=f16"},
        {"bundle", "create", "@/a.qkb"},
        {"bundle", "create", "@/b.qkb"},
        {"bundle", "keygen", "@/secret", "@/public"},
        {"bundle", "sign", "@/a.qkb", "--key", "@/secret"},
        {"build", "--target", "gfx1151", "--m", "1", "--out", "@/plan", "wq=nf4 n=64 k=64 a=f16"},
    };
    char path[PATH_MAX], cache[PATH_MAX];

    (void)state;
    directory = t_temp_dir();
    snprintf(command, sizeof command, "%s/bin/quern", t_build());
    snprintf(cache, sizeof cache, "%s/cache", directory);
    setenv("QUERN_CACHE_DIR", cache, 1);
    for (size_t i = 0; i < COUNT(words); i++)
        must_run(words[i]);
    snprintf(path, sizeof path, "%s/manifest", directory);
    static const char line[] = "target=gfx1151 m=1 wq=nf4 n=64 k=64 a=f16\n";
    t_write_file(path, line, sizeof line - 1);
    snprintf(path, sizeof path, "cp %s/plan/*.co %s/object", directory, directory);
    return system(path);
}

static int teardown(void **state)
{
    (void)state;
    t_remove(directory);
    unsetenv("QUERN_CACHE_DIR");
    return 0;
}

/* Every bundle here is whole at any time, and there are no temporaries. */
static void check_files(const char *what)
{
    static const char *const whole[][12] = {
        {"bundle", "verify", "@/a.qkb", "--key", "@/public"},
        {"bundle", "verify", "@/b.qkb"},
        {"bundle", "verify", "@/new.qkb"},
    };
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/new.qkb", directory);
    for (size_t i = 0; i < COUNT(whole); i++)
        if ((i < 2 || access(path, F_OK) == 0) && run(whole[i]))
            fail_msg("%s: %s is damaged", what, whole[i][2]);
    unlink(path);
}

static void fail_at(size_t verb, unsigned at, int error, bool for_ever)
{
    char *argv[14], what[160];

    snprintf(what, sizeof what, "quern %s %s: call %u, %s%s", verbs[verb][0],
             verbs[verb][1] ? verbs[verb][1] : "", at, strerror(error),
             for_ever ? ", for ever" : "");
    expand(verbs[verb], argv);
    const struct t_traced r =
        t_trace(&(struct t_trace){.command = argv, .at = at, .error = error, .for_ever = for_ever});
    release(argv);
    if (r.endless)
        fail_msg("%s: no end", what);
    if (!WIFEXITED(r.status))
        fail_msg("%s: ended by signal %d", what, WTERMSIG(r.status));
    if (WEXITSTATUS(r.status) > 2)
        fail_msg("%s: status %d", what, WEXITSTATUS(r.status));
    if (!strcmp(verbs[verb][0], "bundle"))
        check_files(what);
}

static void verbs_end_well_whatever_fails(void **state)
{
    unsigned runs = 0;

    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* the released program is meant, and the leak checker wants ptrace for itself */
#endif
    for (size_t v = 0; v < COUNT(verbs); v++) {
        char *argv[14];
        expand(verbs[v], argv);
        const struct t_traced whole = t_trace(&(struct t_trace){.command = argv});
        release(argv);
        if (!WIFEXITED(whole.status) || WEXITSTATUS(whole.status))
            fail_msg("quern %s: status %d when nothing fails", verbs[v][0], whole.status);
        assert_true(whole.calls > 5);
        const unsigned step = whole.calls > POINTS ? whole.calls / POINTS : 1;
        for (unsigned at = 1; at <= whole.calls; at += step)
            for (size_t e = POINTS < 1000 ? runs % COUNT(errors) : 0; e < COUNT(errors);
                 e += POINTS < 1000 ? COUNT(errors) : 1) {
                fail_at(v, at, errors[e], false);
                fail_at(v, at, errors[e], true);
                runs++;
            }
        must_run(verbs[v]);
    }
    print_message("%u faults\n", 2 * runs);
}

/* SIGTERM at every system call of a verb that makes a directory and files in it: what is left is
 * whole, and there is nothing beside it. */
static void a_termination_leaves_no_scraps(void **state)
{
    static const char *const words[12] = {"quantize", "wq=nf4 n=64 k=64 a=f16", "w=@/w", "--out",
                                          "@/q"};
    static const float weights[64 * 64];
    char path[PATH_MAX], *argv[14];
    unsigned ended = 0;

    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* the released program is meant */
#endif
    snprintf(path, sizeof path, "%s/w", directory);
    t_write_file(path, weights, sizeof weights);
    snprintf(path, sizeof path, "%s/q", directory);
    expand(words, argv);
    for (unsigned at = 1;; at++) {
        const struct t_traced r =
            t_trace(&(struct t_trace){.command = argv, .at = at, .signal = SIGTERM});
        int whole = 0, all;
        for (int i = 0; i < 2; i++) {
            char file[PATH_MAX + 16];
            snprintf(file, sizeof file, "%s/%s", path, (const char *[]){"b", "scales"}[i]);
            whole += access(file, F_OK) == 0;
        }
        all = t_count_entries(path);
        if (all != (whole ? whole : -1))
            fail_msg("SIGTERM at call %u: %d entries, %d of them outputs", at, all, whole);
        t_remove_tree(path);
        if (!r.reached) {
            assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0 && whole == 2);
            break;
        }
        ended += WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGTERM;
    }
    release(argv);
    assert_true(ended > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_termination_leaves_no_scraps, setup, teardown),
        cmocka_unit_test_setup_teardown(verbs_end_well_whatever_fails, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
