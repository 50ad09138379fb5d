/* SPDX-License-Identifier: MIT */
/*
 * The cache directory: where it is, whether it may be trusted, and its parts.
 *
 * Whoever can write to the directory decides what code the GPU runs, so it and everything in it
 * must belong to the user (or root) and be writable by nobody else, and so must every directory
 * above it, sticky ones such as /tmp excepted.
 */
#ifndef QUERN_STORE_DIRECTORY_H
#define QUERN_STORE_DIRECTORY_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

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
quern_status directory_check(const char *path, bool write);

/*
 * Opens the directory, or one inside it (`shown` is its path in messages); `create` makes it (mode
 * 0700) if it is missing, with all above it. Returns a descriptor, or -errno; the thread's error
 * record then says what was in the way
 * (-ENOENT without create excepted). A directory that is not to be trusted gives -EPERM.
 */
int directory_open(const char *path, bool create);
int directory_open_in(int parent, const char *name, bool create, const char *shown);

/*
 * Opens a file to read it whose directories are all as safe as those above a cache, and which only
 * the user or root can have written. `path` is absolute and canonical, as directory_resolve gives.
 * Returns a descriptor, or -errno with the reason recorded.
 */
int directory_open_file(const char *path);

/* Whether only the user or root can have written this file or directory. */
bool directory_trusts(const struct stat *st);

/* Calls os.openat again after EINTR, and keeps clear of descriptors 0 to 2, which a host may have
 * closed and write to nevertheless. Returns a descriptor or -errno. */
int directory_openat(int parent, const char *name, int flags);

/* Opens a file that stays for ever, such as a lock, and makes it if it is missing: mode 0600
 * whatever the umask is. Returns a descriptor or -errno. */
int directory_open_shared(int parent, const char *name, int flags);

#endif
