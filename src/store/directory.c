/* SPDX-License-Identifier: MIT */
/* The cache directory (directory.h): finds it, proves that nobody else can write to it, opens
 * it. This file is long because each of its messages names the directory at fault, what is wrong
 * with it, and the remedy. */
#include "store/directory.h"
#include "base/os.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What messages call the directory. */
#define CACHE "cache directory"

/* A call that is interrupted without end is given up as failed. */
#define EINTR_TRIES 100

/* Records the reason; returns -error. */
#define REFUSE(error, ...)                                                                         \
    do {                                                                                           \
        const int refuse_error_ = (error);                                                         \
        error_set(QUERN_E_CACHE, __FILE__, FAIL_AT(#error), __VA_ARGS__);                          \
        return -refuse_error_;                                                                     \
    } while (0)

int directory_openat(int parent, const char *name, int flags)
{
    int fd = -1, tries = EINTR_TRIES;

    do
        fd = os.openat(parent, name, flags | O_CLOEXEC, 0600);
    while (fd < 0 && errno == EINTR && --tries);
    if (fd < 0)
        return -errno;
    if (fd <= STDERR_FILENO) {
        const int high = os.fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        const int error = errno;
        os.close(fd);
        return high < 0 ? -error : high;
    }
    return fd;
}

mode_t directory_file_mode(const struct trust *trust)
{
    return trust ? 0660 : 0600;
}

int directory_open_shared(int parent, const char *name, int flags, const struct trust *trust)
{
    const int fd = directory_openat(parent, name, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
    const mode_t mode = directory_file_mode(trust);
    struct stat st;

    if (fd < 0 || os.fstat(fd, &st))
        return fd;
    if (st.st_nlink > 1) {
        os.close(fd);
        return -EPERM;
    }
    if ((st.st_mode & 07777) != mode && st.st_uid == os.geteuid())
        os.fchmod(fd, mode);
    return fd;
}

bool directory_trusts(const struct stat *st, const struct trust *trust)
{
    if (trust && st->st_gid == trust->group && !(st->st_mode & S_IWOTH))
        return true; /* directory_trust saw to it that only members can make files there */
    return (st->st_uid == 0 || st->st_uid == os.geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

const char *directory_unfit(const struct stat *st, const struct trust *trust, nlink_t names)
{
    if (!S_ISREG(st->st_mode))
        return "it is not a regular file";
    if (!directory_trusts(st, trust))
        return "it belongs to or can be written to by another user";
    return names > 1 ? "it has a second name elsewhere (a hard link)" : NULL;
}

/* Says why others can replace what is below a directory above the cache; null: they cannot. Write
 * access for the user's own group is accepted, because many systems give each user a group of
 * nobody else and a umask of 002. */
static const char *unsafe_parent(const struct stat *st)
{
    if (st->st_uid != 0 && st->st_uid != os.geteuid())
        return "belongs to another user";
    if (st->st_mode & S_ISVTX)
        return NULL;
    if (st->st_mode & S_IWOTH)
        return "is writable by everybody";
    if ((st->st_mode & S_IWGRP) && st->st_gid != 0 && st->st_gid != os.getegid())
        return "is writable by another group";
    return NULL;
}

/* Opens one component of the path above the cache, or the cache directory itself, without following
 * a link. */
static int step(int parent, const char *name)
{
    return directory_openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

static int make_directory(int parent, const char *name, const struct trust *trust)
{
    if (os.mkdirat(parent, name, 0700))
        return errno == EEXIST ? 0 : -errno; /* somebody else made it: it is checked when opened */
    /* A umask may have taken even the user's own rights. The name is still that of the new
     * directory, as nobody else can replace it. Its group is right already, by the set-group-ID bit
     * of its parent. A failure shows when it is opened. */
    (void)!os.fchmodat(parent, name, trust ? 02770 : 0700, 0);
    return 0;
}

/*
 * Walks from the root to the directory that holds the last component of `path`, checking each on
 * the way. `what` the path names, "cache directory" or "file", is for messages. Returns its
 * descriptor, with *name the last component; or -ENOENT, with *missing the part of the path that
 * ends in the first one that does not exist; or another -errno, recorded.
 */
static int walk_to_parent(const char *what, const char *path, bool create, const char **name,
                          size_t *missing)
{
    int fd = step(AT_FDCWD, "/");

    if (fd < 0)
        REFUSE(-fd, "%s %.400s: / cannot be opened: %s", what, path, strerror(-fd));
    for (const char *at = path + 1;;) {
        const char *const slash = strchr(at, '/');
        struct stat st;
        const int upto = (int)(at - path > 1 ? at - path - 1 : 1);
        if (os.fstat(fd, &st)) {
            const int error = errno;
            os.close(fd);
            REFUSE(error, "%s %.400s: %.*s cannot be examined: %s", what, path, upto, path,
                   strerror(error));
        }
        const char *const unsafe = unsafe_parent(&st);
        if (unsafe) {
            os.close(fd);
            REFUSE(EPERM,
                   "%s %.400s is not safe: %.*s %s (uid %u, gid %u, mode %04o); "
                   "choose one below a directory that only you can write to",
                   what, path, upto, path, unsafe, st.st_uid, st.st_gid, st.st_mode & 07777);
        }
        if (!slash) {
            *name = at;
            return fd;
        }
        char component[NAME_MAX + 1];
        const size_t bytes = (size_t)(slash - at);
        if (bytes > NAME_MAX) {
            os.close(fd);
            REFUSE(ENAMETOOLONG, "%s %.400s: a name in it is longer than %d bytes", what, path,
                   NAME_MAX);
        }
        memcpy(component, at, bytes);
        component[bytes] = 0;
        int next = step(fd, component);
        if (next == -ENOENT && create) {
            next = make_directory(fd, component, NULL);
            if (next == 0)
                next = step(fd, component);
        }
        os.close(fd);
        *missing = (size_t)(slash - path);
        if (next == -ENOENT && !create)
            return -ENOENT;
        if (next < 0)
            REFUSE(-next, "%s %.400s: %.*s: %s", what, path, (int)*missing, path, strerror(-next));
        fd = next;
        at = slash + 1;
    }
}

/* The checks of a directory that holds cache data; `fd` is closed on failure. */
static int trusted(int fd, const char *path, const struct trust *trust)
{
    struct stat st;

    if (os.fstat(fd, &st)) {
        const int error = errno;
        os.close(fd);
        REFUSE(error, "cache directory %.400s cannot be examined: %s", path, strerror(error));
    }
    if (directory_trusts(&st, trust))
        return fd;
    os.close(fd);
    if (st.st_uid != 0 && st.st_uid != os.geteuid())
        REFUSE(EPERM,
               "cache directory %.400s belongs to uid %u; a cache must belong to its user, uid %u",
               path, st.st_uid, os.geteuid());
    REFUSE(EPERM,
           "cache directory %.400s can be written to by others (mode %04o); "
           "it must be writable by its owner alone: chmod go-w %.400s",
           path, st.st_mode & 07777, path);
}

/* Opens a directory that holds cache data; `path` is for messages. */
static int open_data(int parent, const char *name, bool create, const char *path,
                     const struct trust *trust)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    int fd = directory_openat(parent, name, flags);

    if (fd == -ENOENT && !create)
        return fd;
    if (fd == -ENOENT) {
        fd = make_directory(parent, name, trust);
        if (fd < 0)
            REFUSE(-fd, "cache directory %.400s cannot be created: %s", path, strerror(-fd));
        fd = directory_openat(parent, name, flags);
    }
    if (fd == -ENOTDIR || fd == -ELOOP) {
        struct stat st;
        const bool link =
            !os.fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode);
        REFUSE(-fd, "cache directory %.400s is %s; name %s", path,
               link ? "a symbolic link" : "not a directory",
               link ? "the directory itself" : "a directory, or a path that does not exist yet");
    }
    if (fd == -EACCES)
        REFUSE(EACCES, "cache directory %.400s cannot be opened: %s; " DIRECTORY_READABLE, path,
               strerror(EACCES), path);
    if (fd < 0)
        REFUSE(-fd, "cache directory %.400s cannot be opened: %s", path, strerror(-fd));
    return trusted(fd, path, trust);
}

int directory_open(const char *path, bool create, const struct trust *trust)
{
    const char *name;
    size_t missing;
    const int parent = walk_to_parent(CACHE, path, create, &name, &missing);

    if (parent < 0)
        return parent;
    const int fd = open_data(parent, name, create, path, trust);
    os.close(parent);
    return fd;
}

int directory_open_file(const char *path)
{
    const char *name;
    size_t missing;
    const int parent = walk_to_parent("file", path, false, &name, &missing);
    struct stat st;

    if (parent == -ENOENT)
        REFUSE(ENOENT, "%.*s: %s", (int)missing, path, strerror(ENOENT));
    if (parent < 0)
        return parent;
    /* O_NONBLOCK: opening a fifo must not hang */
    const int fd = directory_openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    os.close(parent);
    if (fd < 0)
        REFUSE(-fd, "%.400s: %s", path,
               fd == -ELOOP ? "it is a symbolic link; name the file itself" : strerror(-fd));
    const int error = os.fstat(fd, &st) ? errno : 0;
    if (!error && !directory_unfit(&st, NULL, st.st_nlink))
        return fd;
    os.close(fd);
    if (error)
        REFUSE(error, "%.400s cannot be examined: %s", path, strerror(error));
    if (!S_ISREG(st.st_mode))
        REFUSE(EINVAL, "%.400s is not a regular file", path);
    if (directory_trusts(&st, NULL))
        REFUSE(EPERM,
               "%.400s has %ju names (hard links), so that it can be changed or exchanged under "
               "another; make it a file of its own: cp %.400s COPY && mv COPY %.400s",
               path, (uintmax_t)st.st_nlink, path, path);
    REFUSE(EPERM,
           "%.400s belongs to uid %u with mode %04o; it must belong to uid %u or root and be "
           "writable by its owner alone",
           path, st.st_uid, st.st_mode & 07777, os.geteuid());
}

int directory_open_in(int parent, const char *name, bool create, const char *shown,
                      const struct trust *trust)
{
    return open_data(parent, name, create, shown, trust);
}

static bool is_member(gid_t group)
{
    const int room = os.getgroups(0, NULL);
    gid_t *const groups = room > 0 ? os.malloc((size_t)room * sizeof *groups) : NULL;
    const int count = groups ? os.getgroups(room, groups) : 0;
    bool member = os.getegid() == group;

    for (int i = 0; i < count; i++)
        member = member || groups[i] == group;
    os.free(groups);
    return member;
}

/* Whether a user is in the group, by the machine's list of users. */
static bool user_is_member(uid_t user, gid_t group)
{
    struct passwd entry, *found = NULL;
    char buffer[4096];
    gid_t groups[256];
    int count = sizeof groups / sizeof *groups;

    if (os.getpwuid_r(user, &entry, buffer, sizeof buffer, &found) || !found)
        return false;
    if (os.getgrouplist(found->pw_name, found->pw_gid, groups, &count) < 0)
        return false; /* in more groups than the array has room for: taken as no member */
    for (int i = 0; i < count; i++)
        if (groups[i] == group)
            return true;
    return false;
}

quern_status directory_trust(const char *path, struct trust *trust)
{
    const char *name;
    size_t missing;
    struct stat st;
    const int parent = walk_to_parent(CACHE, path, false, &name, &missing);

    if (parent < 0 && parent != -ENOENT)
        return QUERN_E_CACHE;
    const int error = parent < 0                                           ? ENOENT
                      : os.fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) ? errno
                                                                           : 0;
    if (parent >= 0)
        os.close(parent);
    FAIL_IF(error, QUERN_E_CACHE,
            "cache directory %.400s is to be shared with a group: %s; make it: mkdir, chgrp GROUP, "
            "chmod 2770",
            path, strerror(error));
    FAIL_IF(!is_member(st.st_gid), QUERN_E_CACHE,
            "cache directory %.400s is that of group %u, and this process is not in it", path,
            st.st_gid);
    FAIL_IF((st.st_mode & S_IWOTH) || !(st.st_mode & S_IWGRP) || !(st.st_mode & S_ISGID),
            QUERN_E_CACHE,
            "cache directory %.400s has mode %04o; to be shared with group %u it must be writable "
            "by the group, by nobody else, and set-group-ID: chmod 2770 %.400s",
            path, st.st_mode & 07777, st.st_gid, path);
    /* the group alone proves nothing: in a set-group-ID directory that everybody may write to,
     * anybody can make directories of its group */
    FAIL_IF(st.st_uid != 0 && st.st_uid != os.geteuid() && !user_is_member(st.st_uid, st.st_gid),
            QUERN_E_CACHE,
            "cache directory %.400s belongs to uid %u, who is no member of its group %u; to be "
            "shared it must belong to a member or to root",
            path, st.st_uid, st.st_gid);
    trust->group = st.st_gid;
    return QUERN_OK;
}

quern_status directory_check(const char *path, bool write, const struct trust *trust)
{
    const char *name = NULL;
    size_t missing = 0;
    const int parent = walk_to_parent(CACHE, path, false, &name, &missing);
    char above[PATH_MAX];

    if (parent < 0 && parent != -ENOENT)
        return QUERN_E_CACHE;
    if (parent >= 0) {
        const int fd = open_data(parent, name, false, path, trust);
        os.close(parent);
        if (fd >= 0) {
            const int denied = write ? os.faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) : 0;
            const int error = errno;
            os.close(fd);
            FAIL_IF(
                denied, QUERN_E_CACHE,
                "cache directory %.400s cannot be written to (%s); QUERN_CACHE_MODE=ro reads it",
                path, strerror(error));
            return QUERN_OK;
        }
        if (fd != -ENOENT)
            return QUERN_E_CACHE;
        missing = strlen(path);
    }
    if (!write)
        return QUERN_OK;
    /* It will be created at the first put: can it? The part up to its last '/' exists. */
    memcpy(above, path, missing);
    above[missing] = 0;
    char *const slash = strrchr(above, '/');
    slash[slash == above] = 0;
    FAIL_IF(os.faccessat(AT_FDCWD, above, W_OK | X_OK, AT_EACCESS), QUERN_E_CACHE,
            "cache directory %.400s cannot be created: %.400s cannot be written to (%s)", path,
            above, strerror(errno));
    return QUERN_OK;
}

/* The user's home by the password file; appends nothing if there is none. */
static void add_home(struct str *out)
{
    struct passwd entry, *found = NULL;
    char buffer[4096];

    if (!os.getpwuid_r(os.geteuid(), &entry, buffer, sizeof buffer, &found) && found &&
        found->pw_dir && found->pw_dir[0] == '/')
        str_add(out, found->pw_dir);
}

static quern_status default_path(struct str *out)
{
    /* in set-user-ID programs the environment is an attacker's: secure_getenv gives null there */
    const char *const xdg = secure_getenv("XDG_CACHE_HOME"), *const home = secure_getenv("HOME");

    /* relative values are to be ignored, says the XDG specification */
    if (xdg && xdg[0] == '/') {
        str_add(out, xdg);
    } else {
        if (home && home[0] == '/')
            str_add(out, home);
        else
            add_home(out);
        FAIL_IF(out->length == 0 && !out->failed, QUERN_E_CACHE,
                "no cache directory: neither XDG_CACHE_HOME nor HOME is an absolute path and the "
                "user has no home; set QUERN_CACHE_DIR");
        str_add(out, "/.cache");
    }
    str_add(out, "/quern");
    return QUERN_OK;
}

static bool is_dots(const char *name, size_t bytes)
{
    return (bytes == 1 || bytes == 2) && !strncmp(name, "..", bytes);
}

/* Appends "/" and the non-empty components of `rest`. */
static void add_components(struct str *out, const char *rest)
{
    while (*rest) {
        const size_t n = strcspn(rest, "/");
        if (n) {
            str_add(out, "/");
            str_add_bytes(out, rest, n);
        }
        rest += n;
        rest += *rest == '/';
    }
}

/*
 * Resolves the links in what exists of the directories above the last component. The last component
 * stays as it is, so that a link there can be refused later. "." and ".." are only understood in
 * what exists.
 */
static quern_status canonical(const char *path, struct str *out)
{
    char above[PATH_MAX];
    size_t end = strlen(path);

    while (end > 1 && path[end - 1] == '/')
        end--;
    FAIL_IF(end == 0 || end >= sizeof above, QUERN_E_CACHE,
            "cache directory \"%.400s\": a path has 1 to %zu bytes, this one %zu", path,
            sizeof above - 1, end);
    memcpy(above, path, end);
    above[end] = 0;
    const char *rest;
    for (;;) {
        char *const slash = strrchr(above, '/');
        const char *const last = slash ? slash + 1 : above;
        const char *prefix = above;
        rest = path + strlen(above);
        if (!is_dots(last, strlen(last))) {
            prefix = !slash ? "." : slash == above ? "/" : above;
            rest = path + (last - above);
            if (slash)
                *slash = 0;
        }
        char *const real = os.realpath(prefix, NULL);
        if (real) {
            str_add(out, strcmp(real, "/") ? real : "");
            free(real); /* realpath's own malloc */
            break;
        }
        FAIL_IF(errno != ENOENT || prefix != above || rest == path + strlen(above), QUERN_E_CACHE,
                "cache directory %.400s: %.400s: %s", path, prefix, strerror(errno));
    }
    add_components(out, rest);
    FAIL_IF(!out->failed && out->length == 0, QUERN_E_CACHE,
            "cache directory %.400s: / cannot be a cache", path);
    FAIL_IF(!out->failed && out->length >= PATH_MAX, QUERN_E_CACHE,
            "cache directory %.400s is longer than %d bytes", path, PATH_MAX - 1);
    return QUERN_OK;
}

quern_status directory_resolve(const char *configured, char **path)
{
    struct str wanted = {0}, out = {0};
    quern_status status = QUERN_OK;

    if (configured)
        str_add(&wanted, configured);
    else
        status = default_path(&wanted);
    if (status == QUERN_OK && !wanted.failed)
        status = canonical(str_text(&wanted), &out);
    if (status == QUERN_OK && (wanted.failed || out.failed || !(*path = str_take(&out))))
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT(""), "no memory for a path");
    str_free(&wanted);
    str_free(&out);
    return status;
}
