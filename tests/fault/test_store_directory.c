/* SPDX-License-Identifier: MIT */
/* Where a cache may be: which directories are refused and with what reason, and how paths are
 * resolved. */
#include "base/os.h"
#include "store/directory.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

/* ---- directories that are refused ------------------------------------------------------------ */

static void refused(struct t_store *t, const char *directory, enum quern_cache_mode mode,
                    const char *reason)
{
    const struct store_config config = {.directory = directory, .mode = mode, .log = &t->sink};
    struct store *s = NULL;

    if (store_open(&config, &s) == QUERN_OK) {
        store_close(s);
        fail_msg("%s was not refused", directory);
    }
    const struct quern_error *const e = quern_last_error();
    assert_int_equal(e->status, QUERN_E_CACHE);
    if (!strstr(e->message, reason))
        fail_msg("\"%s\" does not say \"%s\"", e->message, reason);
    assert_null(strchr(e->message, '\n'));
}

static void accepted(struct t_store *t, const char *directory, const char *resolved)
{
    const struct store_config config = {
        .directory = directory, .mode = QUERN_CACHE_RW, .log = &t->sink};
    struct store *s = NULL;

    if (store_open(&config, &s) != QUERN_OK)
        fail_msg("%s: %s", directory, quern_last_error()->message);
    assert_string_equal(store_directory(s), resolved);
    t_put(s, "a");
    assert_true(t_get(s, "a"));
    store_close(s);
    t_remove_tree(resolved);
}

static void things_that_are_no_directory_are_refused(void **state)
{
    struct t_store *const t = *state;
    char below[PATH_MAX];

    t_write_file(t->cache, "x", 1);
    refused(t, t->cache, QUERN_CACHE_RW, "not a directory");
    refused(t, t->cache, QUERN_CACHE_RO, "not a directory");
    snprintf(below, sizeof below, "%s/quern", t->cache);
    refused(t, below, QUERN_CACHE_RW, "Not a directory");
    unlink(t->cache);
    assert_int_equal(mkfifo(t->cache, 0600), 0); /* must not hang */
    refused(t, t->cache, QUERN_CACHE_RW, "not a directory");
    unlink(t->cache);
    snprintf(below, sizeof below, "%s/elsewhere", t->root);
    assert_int_equal(mkdir(below, 0700), 0);
    assert_int_equal(symlink(below, t->cache), 0);
    refused(t, t->cache, QUERN_CACHE_RW, "a symbolic link");
    rmdir(below);
    refused(t, t->cache, QUERN_CACHE_RW, "a symbolic link"); /* one that leads nowhere too */
    refused(t, "", QUERN_CACHE_RW, "1 to");
    refused(t, "/", QUERN_CACHE_RW, "cannot be a cache");
    refused(t, "/nowhere/../x", QUERN_CACHE_RW, "/nowhere/..: No such file");
    refused(t, "/dev/null", QUERN_CACHE_RW, "not a directory");
    char longest[PATH_MAX + 100];
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = 0;
    refused(t, longest, QUERN_CACHE_RW, "bytes");
    longest[300] = '/';
    longest[1000] = 0;
    refused(t, longest, QUERN_CACHE_RW, "File name too long");
}

static void directories_that_others_can_write_to_are_refused(void **state)
{
    struct t_store *const t = *state;

    assert_int_equal(mkdir(t->cache, 0700), 0);
    assert_int_equal(chmod(t->cache, 0777), 0);
    refused(t, t->cache, QUERN_CACHE_RW, "mode 0777");
    refused(t, t->cache, QUERN_CACHE_RO, "written to by others");
    assert_int_equal(chmod(t->cache, 01777), 0); /* sticky protects names, not what is trusted */
    refused(t, t->cache, QUERN_CACHE_RW, "mode 1777");
    assert_int_equal(chmod(t->cache, 0770), 0);
    refused(t, t->cache, QUERN_CACHE_RW, "chmod go-w");
    assert_int_equal(chmod(t->cache, 0755), 0);
    assert_int_equal(chmod(t->root, 0777), 0);
    refused(t, t->cache, QUERN_CACHE_RW, "writable by everybody");
    assert_int_equal(chmod(t->root, 01777), 0);
    accepted(t, t->cache, t->cache);
    assert_int_equal(chmod(t->root, 0770), 0); /* the user's own group: by habit of many systems */
    accepted(t, t->cache, t->cache);
    if (geteuid() == 0) { /* but not another */
        assert_int_equal(chown(t->root, 0, NOBODY), 0);
        refused(t, t->cache, QUERN_CACHE_RW, "writable by another group");
    }
    assert_int_equal(chmod(t->root, 0700), 0);
}

static uid_t somebody_else(void)
{
    return geteuid() + 1000;
}

static void directories_of_others_are_refused(void **state)
{
    struct t_store *const t = *state;
    const struct os real = os;

    if (geteuid() == 0) { /* root's are trusted by all, so it must really be somebody else's */
        assert_int_equal(mkdir(t->cache, 0700), 0);
        assert_int_equal(chown(t->cache, NOBODY, NOBODY), 0);
        refused(t, t->cache, QUERN_CACHE_RW, "belongs to uid 65534");
        refused(t, t->cache, QUERN_CACHE_RO, "belongs to uid 65534");
        assert_int_equal(rmdir(t->cache), 0);
        assert_int_equal(chown(t->root, NOBODY, NOBODY), 0);
        refused(t, t->cache, QUERN_CACHE_RW, "belongs to another user");
        assert_int_equal(chown(t->root, 0, 0), 0);
    } else {
        assert_int_equal(mkdir(t->cache, 0700), 0);
        os.geteuid = somebody_else;
        refused(t, t->cache, QUERN_CACHE_RW, "belongs to");
        os = real;
    }
}

/* Runs `body` in a child as an ordinary user: as root, mode bits stop nothing. */
static void as_nobody(struct t_store *t, void (*body)(struct t_store *))
{
    fflush(NULL);
    const pid_t child = fork();
    int status;

    if (child == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY)))
            _exit(3);
        body(t);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void reading_body(struct t_store *t)
{
    struct store *s;

    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RO, &s) == QUERN_OK);
    T_MUST(t_get(s, "a"));
    t_put(s, "b");
    T_MUST(!t_get(s, "b"));
    store_close(s);
    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_E_CACHE);
}

/* How users who do not trust each other share kernels. Entries are made with mode 0600: who fills a
 * directory for others opens it to them. */
static void roots_directory_serves_others_for_reading(void **state)
{
    struct t_store *const t = *state;
    char command[PATH_MAX + 32];

    if (geteuid() != 0) {
        print_message("only root can be another user\n");
        skip();
    }
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    t_put(s, "a");
    store_close(s);
    snprintf(command, sizeof command, "chmod 755 '%s' && chmod -R a+rX '%s'", t->root, t->cache);
    assert_int_equal(system(command), 0);
    as_nobody(t, reading_body);
    assert_int_equal(chmod(t->root, 0700), 0);
}

static void unwritable_body(struct t_store *t)
{
    char below[PATH_MAX];
    struct store *s;

    /* a directory of one's own without the right to write */
    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_E_CACHE);
    T_MUST(strstr(quern_last_error()->message, "cannot be written to (Permission denied)"));
    T_MUST(strstr(quern_last_error()->message, "QUERN_CACHE_MODE=ro"));
    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RO, &s) == QUERN_OK);
    T_MUST(!t_get(s, "a"));
    store_close(s);
    snprintf(below, sizeof below, "%s/deeper/cache", t->cache);
    T_MUST(t_store_try(t, below, QUERN_CACHE_RW, &s) == QUERN_E_CACHE);
    T_MUST(strstr(quern_last_error()->message, "cannot be created"));
    T_MUST(strstr(quern_last_error()->message, "Permission denied"));
    /* one that may not even be entered */
    T_MUST(chmod(t->cache, 0) == 0);
    T_MUST(t_store_try(t, below, QUERN_CACHE_RW, &s) == QUERN_E_CACHE);
    T_MUST(strstr(quern_last_error()->message, "Permission denied"));
    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RO, &s) == QUERN_E_CACHE);
    T_MUST(strstr(quern_last_error()->message, "Permission denied"));
    /* rights that go away after opening */
    T_MUST(chmod(t->cache, 0700) == 0);
    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    t_put(s, "a");
    T_MUST(t_get(s, "a"));
    char shard[PATH_MAX];
    t_entry_path(t, "a", shard);
    *strrchr(shard, '/') = 0;
    T_MUST(chmod(shard, 0500) == 0);
    struct t_record r;
    t_record(&r, "a");
    T_MUST(t_get(s, "a"));
    T_MUST(chmod(shard, 0) == 0);
    T_MUST(!t_get(s, "a"));
    t_put(s, "a");
    struct quern_stats stats;
    stats = t_stats(s);
    T_MUST(stats.miss_io == 1 && stats.put_failed == 1 && stats.quarantined == 0);
    T_MUST(strstr(t->log, shard));
    T_MUST(chmod(shard, 0700) == 0);
    T_MUST(t_get(s, "a"));
    store_close(s);
}

static void unwritable_directories_are_refused(void **state)
{
    struct t_store *const t = *state;

    assert_int_equal(chmod(t->root, 0755), 0);
    assert_int_equal(mkdir(t->cache, 0500), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(t->cache, NOBODY, NOBODY), 0);
    as_nobody(t, unwritable_body);
}

/* Somebody ran the program as root once: the user must be able to go on. */
static void roots_entry_body(struct t_store *t)
{
    struct store *s;

    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    T_MUST(!t_get(s, "a"));
    struct quern_stats stats;
    stats = t_stats(s);
    T_MUST(stats.miss_foreign == 1 && stats.quarantined == 1);
    t_put(s, "a");
    T_MUST(t_get(s, "a"));
    store_close(s);
}

static void an_unreadable_entry_does_not_block_its_key(void **state)
{
    struct t_store *const t = *state;
    char path[PATH_MAX];

    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(t->root, 0755), 0);
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    t_put(s, "a");
    store_close(s);
    /* everything is the user's but the entry itself */
    t_entry_path(t, "a", path);
    for (char *slash = strrchr(path, '/'); strcmp(path, t->root) != 0; slash = strrchr(path, '/')) {
        *slash = 0;
        if (strcmp(path, t->root) != 0)
            assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    }
    char written[PATH_MAX];
    snprintf(written, sizeof written, "%s/v1/locks", t->cache);
    assert_int_equal(chown(written, NOBODY, NOBODY), 0);
    as_nobody(t, roots_entry_body);
}

static int ignore(void *user, const struct store_item *item)
{
    (void)user;
    (void)item;
    return 0;
}

/* The parts of a cache are held to what the cache is, at every use. */
static void parts_that_are_not_to_be_trusted_are_not_used(void **state)
{
    static const char *const parts[] = {"v1", "v1/objects"};
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct store_usage usage;
    char path[PATH_MAX], aside[PATH_MAX];

    t_put(s, "a");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct quern_stats before = t_stats(s);
        snprintf(path, sizeof path, "%s/%s", t->cache, parts[i]);
        snprintf(aside, sizeof aside, "%s/aside", t->root);
        for (int link = 0; link < 2; link++) {
            if (link) {
                assert_int_equal(rename(path, aside), 0);
                assert_int_equal(symlink(aside, path), 0);
            } else {
                assert_int_equal(chmod(path, 0777), 0);
            }
            assert_false(t_get(s, "a"));
            t_put(s, "b");
            const quern_status status = store_walk(s, true, ignore, NULL);
            assert_int_equal(status, link ? QUERN_E_IO : QUERN_E_CACHE);
            assert_int_equal(store_usage(s, &usage), status);
            if (link) {
                assert_int_equal(unlink(path), 0);
                assert_int_equal(rename(aside, path), 0);
            } else {
                assert_int_equal(chmod(path, 0700), 0);
            }
        }
        assert_int_equal(t_stats(s).miss_io, before.miss_io + 2);
        assert_int_equal(t_stats(s).put_failed, before.put_failed + 2);
        assert_int_equal(t_stats(s).quarantined, 0);
        assert_true(t_get(s, "a"));
        assert_false(t_get(s, "b"));
    }
    snprintf(path, sizeof path, "%s/v1 can be written to by others (mode 0777)", t->cache);
    assert_non_null(strstr(t->log, path));
    assert_non_null(strstr(t->log, "v1 is a symbolic link"));
    store_close(s);
    store_close(NULL);
}

static void paths_are_resolved(void **state)
{
    struct t_store *const t = *state;
    char path[PATH_MAX], link[PATH_MAX], want[PATH_MAX], cwd[PATH_MAX];

    snprintf(path, sizeof path, "%s/a/b/c", t->root);
    accepted(t, path, path); /* all of it is made */
    snprintf(path, sizeof path, "%s//a///b/", t->root);
    snprintf(want, sizeof want, "%s/a/b", t->root);
    accepted(t, path, want);
    /* a link above the cache is followed, and what it leads to is checked */
    snprintf(path, sizeof path, "%s/target", t->root);
    snprintf(link, sizeof link, "%s/link", t->root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(symlink(path, link), 0);
    strcat(link, "/cache");
    snprintf(want, sizeof want, "%s/target/cache", t->root);
    accepted(t, link, want);
    assert_int_equal(chmod(path, 0777), 0);
    refused(t, link, QUERN_CACHE_RW, "writable by everybody");
    /* relative to where the program is when the store is opened */
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(t->root), 0);
    accepted(t, "here", (snprintf(want, sizeof want, "%s/here", t->root), want));
    assert_int_equal(mkdir("dot", 0700), 0);
    assert_int_equal(chdir("dot"), 0);
    accepted(t, ".", (snprintf(want, sizeof want, "%s/dot", t->root), want));
    assert_int_equal(chdir(cwd), 0);
}

static void the_default_follows_xdg_then_home(void **state)
{
    struct t_store *const t = *state;
    char *const xdg = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
    char *const home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    char want[PATH_MAX], other[PATH_MAX];

    setenv("HOME", t->root, 1);
    setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored, says the specification */
    snprintf(want, sizeof want, "%s/.cache/quern", t->root);
    accepted(t, NULL, want);
    snprintf(other, sizeof other, "%s/xdg", t->root);
    setenv("XDG_CACHE_HOME", other, 1);
    snprintf(want, sizeof want, "%s/xdg/quern", t->root);
    accepted(t, NULL, want);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    char *path = NULL; /* the password file's home: only resolved, nothing is written there */
    if (directory_resolve(NULL, &path) == QUERN_OK) {
        assert_non_null(strstr(path, "/.cache/quern"));
        os.free(path);
    } else {
        assert_int_equal(quern_last_error()->status, QUERN_E_CACHE);
    }
    xdg ? setenv("XDG_CACHE_HOME", xdg, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    free(xdg);
    free(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(things_that_are_no_directory_are_refused),
        T_STORE_TEST(directories_that_others_can_write_to_are_refused),
        T_STORE_TEST(directories_of_others_are_refused),
        T_STORE_TEST(roots_directory_serves_others_for_reading),
        T_STORE_TEST(unwritable_directories_are_refused),
        T_STORE_TEST(an_unreadable_entry_does_not_block_its_key),
        T_STORE_TEST(parts_that_are_not_to_be_trusted_are_not_used),
        T_STORE_TEST(paths_are_resolved),
        T_STORE_TEST(the_default_follows_xdg_then_home),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
