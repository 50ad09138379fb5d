/* SPDX-License-Identifier: MIT */
/* A cache that the members of a group share: who is let in, what of it belongs to whom, and how a
 * directory must be to serve. As root with real users; the rest as anybody. */
#include "base/os.h"
#include "store/directory.h"
#include "store/internal.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <ftw.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Numbers that no user of the machine needs to have. */
enum { GROUP = 64001, ANN = 64002, BEN = 64003, STRANGER = 64004 };

static quern_status try_shared(struct t_store *t, struct store **s)
{
    const struct store_config config = {
        .directory = t->cache, .mode = QUERN_CACHE_RW, .shared = true, .log = &t->sink};

    return store_open(&config, s);
}

static void refused(struct t_store *t, const char *reason)
{
    struct store *s = NULL;

    if (try_shared(t, &s) == QUERN_OK) {
        store_close(s);
        fail_msg("not refused: %s", reason);
    }
    assert_int_equal(quern_last_error()->status, QUERN_E_CACHE);
    if (!strstr(quern_last_error()->message, reason))
        fail_msg("\"%s\" does not say \"%s\"", quern_last_error()->message, reason);
}

/* Makes the directory as its administrator would. */
static void make_shared(struct t_store *t, gid_t group)
{
    assert_int_equal(chmod(t->root, 0755), 0);
    assert_int_equal(mkdir(t->cache, 0700), 0);
    assert_int_equal(chown(t->cache, (uid_t)-1, group), 0);
    assert_int_equal(chmod(t->cache, 02770), 0);
}

static void directories_that_cannot_be_shared_are_refused(void **state)
{
    static const mode_t modes[] = {02700, 0770, 02772, 0700};
    struct t_store *const t = *state;

    refused(t, "No such file or directory; make it: mkdir, chgrp GROUP, chmod 2770");
    make_shared(t, getegid());
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(t->cache, modes[i]), 0);
        refused(t, "chmod 2770");
    }
    if (geteuid() == 0) {
        assert_int_equal(chown(t->cache, 0, GROUP), 0);
        assert_int_equal(chmod(t->cache, 02770), 0);
        refused(t, "is that of group 64001, and this process is not in it");
    }
}

static gid_t of_group;
static int check_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_SL)
        return 0;
    if (st->st_gid != of_group || (st->st_mode & 07777) != (S_ISDIR(st->st_mode) ? 02770 : 0660))
        fail_msg("%s: gid %u, mode %04o", path, st->st_gid, st->st_mode & 07777);
    return 0;
}

/* With the group that the process has anyway, and whatever umask. */
static void everything_in_it_is_the_groups(void **state)
{
    struct t_store *const t = *state;
    struct store *s;
    struct t_record r;

    make_shared(t, getegid());
    assert_int_equal(try_shared(t, &s), QUERN_OK);
    const mode_t before = umask(077);
    t_put(s, "a");
    t_record(&r, "a");
    store_unlock(s, store_lock(s, &r.key, 0));
    store_evict(s);
    assert_int_equal(store_raise_serial(s,
                                        "00112233445566778899aabbccddeeff00112233445566778899aab"
                                        "bccddeeff",
                                        3),
                     QUERN_OK);
    umask(before);
    assert_true(t_get(s, "a"));
    of_group = getegid();
    assert_int_equal(nftw(t->cache, check_one, 16, FTW_PHYS), 0);
    store_close(s);
    /* who does not share it does not trust it */
    assert_int_equal(t_store_try(t, t->cache, QUERN_CACHE_RW, &s), QUERN_E_CACHE);
    assert_non_null(strstr(quern_last_error()->message, "can be written to by others"));
}

/* Runs `body` as a user, in the group or not. */
static void as_user(struct t_store *t, uid_t user, bool member, void (*body)(struct t_store *))
{
    const gid_t groups[] = {GROUP};
    int status;

    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (setgroups(member, groups) || setgid(user) || setuid(user))
            _exit(3);
        umask(077);
        body(t);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void ann_puts(struct t_store *t)
{
    struct store *s;
    struct t_record r;

    T_MUST(try_shared(t, &s) == QUERN_OK);
    t_put(s, "a");
    T_MUST(t_get(s, "a"));
    t_record(&r, "a");
    const int lock = store_lock(s, &r.key, 0);
    T_MUST(lock >= 0);
    store_unlock(s, lock);
    store_close(s);
}

static void ben_uses(struct t_store *t)
{
    struct store *s;
    struct t_record r;
    char path[PATH_MAX];
    uint64_t removed;

    T_MUST(try_shared(t, &s) == QUERN_OK);
    T_MUST(t_get(s, "a"));
    t_record(&r, "a");
    const int lock = store_lock(s, &r.key, 0); /* the file that Ann made */
    T_MUST(lock >= 0);
    store_unlock(s, lock);
    t_put(s, "b");
    T_MUST(t_get(s, "b"));
    t_entry_path(t, "a", path);
    T_MUST(chmod(path, 0600) != 0); /* it is hers... */
    s->max_bytes = 100;
    store_evict(s);
    T_MUST(t_stats(s).evicted == 2); /* ...and may be evicted by him */
    t_put(s, "c");
    T_MUST(store_clear(s, &removed) == QUERN_OK);
    const struct quern_stats stats = t_stats(s);
    T_MUST(stats.put_failed == 0 && stats.miss_foreign == 0 && stats.miss_io == 0);
    store_close(s);
}

static void a_stranger_is_kept_out(struct t_store *t)
{
    struct store *s;

    T_MUST(try_shared(t, &s) == QUERN_E_CACHE);
    T_MUST(strstr(quern_last_error()->message, "this process is not in it"));
    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RO, &s) == QUERN_E_CACHE);
}

static void members_share_and_strangers_do_not(void **state)
{
    struct t_store *const t = *state;

    if (geteuid() != 0)
        skip(); /* only root can be several users */
    make_shared(t, GROUP);
    as_user(t, ANN, true, ann_puts);
    as_user(t, BEN, true, ben_uses);
    as_user(t, ANN, true, ann_puts);
    as_user(t, STRANGER, false, a_stranger_is_kept_out);
}

/* What the machine's list of users says of Ben, who is on it here. */
static int users(uid_t user, struct passwd *entry, char *buffer, size_t size, struct passwd **found)
{
    (void)buffer;
    (void)size;
    static char ben[] = "ben";
    *entry = (struct passwd){.pw_name = ben, .pw_uid = BEN, .pw_gid = BEN};
    *found = user == BEN ? entry : NULL;
    return 0;
}

static int groups_of(const char *user, gid_t first, gid_t *groups, int *count)
{
    T_MUST(!strcmp(user, "ben") && first == BEN && *count >= 2);
    groups[0] = first;
    groups[1] = GROUP;
    return *count = 2;
}

/* Its group and mode are those of a shared one, by its parent's set-group-ID bit. */
static void makes_a_directory(struct t_store *t)
{
    umask(0);
    T_MUST(mkdir(t->cache, 0770) == 0);
}

static void ann_is_not_taken_in(struct t_store *t)
{
    struct store *s;
    struct stat st;

    T_MUST(stat(t->cache, &st) == 0 && st.st_gid == GROUP && (st.st_mode & 07777) == 02770);
    os.getpwuid_r = users;
    os.getgrouplist = groups_of;
    const quern_status status = try_shared(t, &s);
    if (st.st_uid == BEN) {
        T_MUST(status == QUERN_OK);
        store_close(s);
        return;
    }
    T_MUST(status == QUERN_E_CACHE);
    T_MUST(strstr(quern_last_error()->message, "belongs to uid 64004, who is no member"));
}

/* Everybody can make a directory of the group where the parent, as /tmp may, hands its own on. */
static void a_strangers_directory_is_not_the_groups(void **state)
{
    struct t_store *const t = *state;
    static const uid_t owners[] = {STRANGER, BEN};

    if (geteuid() != 0)
        skip(); /* only root can be several users */
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(chown(t->root, 0, GROUP), 0);
        assert_int_equal(chmod(t->root, 03777), 0);
        as_user(t, owners[i], false, makes_a_directory);
        as_user(t, ANN, true, ann_is_not_taken_in);
        assert_int_equal(rmdir(t->cache), 0);
    }
}

/* A member links somebody's private file to where a lock is wanted. */
static void a_lock_with_two_names_is_not_used(void **state)
{
    struct t_store *const t = *state;
    struct store *s;
    struct t_record r;
    struct stat st;
    char private[PATH_MAX], lock[PATH_MAX], entry[PATH_MAX];

    make_shared(t, getegid());
    assert_int_equal(try_shared(t, &s), QUERN_OK);
    t_put(s, "a");
    t_record(&r, "a");
    store_unlock(s, store_lock(s, &r.key, 0));
    snprintf(private, sizeof private, "%s/private", t->root);
    t_write_file(private, "mine", 4);
    t_entry_path(t, "a", entry);
    snprintf(lock, sizeof lock, "%s/v1/locks/%.2s", t->cache,
             entry + strlen(t->cache) + strlen("/v1/objects/"));
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(link(private, lock), 0);
    assert_int_equal(store_lock(s, &r.key, 0), -1);
    assert_non_null(strstr(t->log, "no locks"));
    assert_int_equal(stat(private, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(t_get(s, "a"));
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(directories_that_cannot_be_shared_are_refused),
        T_STORE_TEST(everything_in_it_is_the_groups),
        T_STORE_TEST(members_share_and_strangers_do_not),
        T_STORE_TEST(a_strangers_directory_is_not_the_groups),
        T_STORE_TEST(a_lock_with_two_names_is_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
