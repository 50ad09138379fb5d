/* SPDX-License-Identifier: MIT */
/*
 * The cache directory: where it is, whether it may be trusted, and how it and what
 * is in it are opened.
 *
 * Whoever can write to the directory decides what code the GPU runs, so it and everything in it
 * must belong to the user (or root) and be writable by nobody else, and so must every directory
 * above it, sticky ones such as /tmp excepted. In a cache that members of a group share, members
 * count as the user does within the cache, but not above it.
 */
#ifndef QUERN_STORE_DIRECTORY_H
#define QUERN_STORE_DIRECTORY_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Who may write to a cache besides its user and root. Null where it is asked for: nobody. */
struct trust {
    gid_t group; /* the members of this group, which is the cache directory's own */
};

/*
 * The absolute path of the cache directory, malloc'ed, symbolic links above it resolved; it need
 * not exist. `configured` may be null: then $XDG_CACHE_HOME/quern, else .cache/quern in $HOME or in
 * the user's home. QUERN_E_CACHE when there is none or the path cannot be a cache.
 */
quern_status directory_resolve(const char *configured, char **path);

/*
 * Whether the directory can serve: trusted, readable and, for `write`, writable, or, if it does not
 * exist yet, creatable. QUERN_E_CACHE with the reason and the remedy.
 */
quern_status directory_check(const char *path, bool write, const struct trust *trust);

/*
 * Checks the directory of a cache that a group shares, and sets *trust to the group. It must exist,
 * be of a group that this process is in, be writable by that group and nobody else, belong to a
 * member or to root, and hand its group on to what is made in it (set-group-ID). QUERN_E_CACHE with
 * the reason and the remedy.
 */
quern_status directory_trust(const char *path, struct trust *trust);

/*
 * Opens the directory, or one inside it (`shown` is its path in messages); `create` makes it (mode
 * 0700) if it is missing, with all above it. Returns a descriptor, or -errno; the thread's error
 * record then says what was in the way, except for -ENOENT without `create`. A directory that is
 * not to be trusted gives -EPERM.
 */
int directory_open(const char *path, bool create, const struct trust *trust);
int directory_open_in(int parent, const char *name, bool create, const char *shown,
                      const struct trust *trust);

/*
 * Opens a file for reading. Only the user or root may be able to write to it, it may have no other
 * name, and the directories above it must be as safe as those above a cache. `path` is absolute and
 * canonical, as directory_resolve gives it. Returns a descriptor, or -errno with the reason
 * recorded.
 */
int directory_open_file(const char *path);

/* Whether only the user, root or who is trusted can have written this file or directory. */
bool directory_trusts(const struct stat *st, const struct trust *trust);

/* The rule for every file whose content decides what runs: why it is not to be used, or null.
 * `names` are the names that it has and may not have more than one of. */
const char *directory_unfit(const struct stat *st, const struct trust *trust, nlink_t names);

/* The mode of a cache's files: for the user alone, or for the group too. */
mode_t directory_file_mode(const struct trust *trust);

/* Calls os.openat again after EINTR, and keeps clear of descriptors 0 to 2, which a host may have
 * closed and write to nevertheless. Returns a descriptor or -errno. */
int directory_openat(int parent, const char *name, int flags);

/* Opens a file that is never removed, such as a lock; makes it if it is missing, and gives it the
 * mode of the cache's files, whatever the umask is. A file that has another name, too, may have
 * been linked there to have its mode changed: it is refused with -EPERM. Returns a descriptor or
 * -errno. */
int directory_open_shared(int parent, const char *name, int flags, const struct trust *trust);

/* The remedy, with a path, for what this user may not read: files of a cache are made for their
 * owner alone. */
#define DIRECTORY_READABLE "its owner lets others read it by chmod -R a+rX %.400s"

#endif
