/* SPDX-License-Identifier: MIT */
/* What the files of the store share. Functions that return int give 0 or a descriptor, or -errno.
 */
#ifndef QUERN_STORE_INTERNAL_H
#define QUERN_STORE_INTERNAL_H

#include "store/directory.h"
#include "store/entry.h"
#include "store/store.h"

#include <stdatomic.h>

/*
 * Below the cache directory:
 *   v1/objects/ab/<30 hex digits>.qk   entries; ab and the name are the key
 *   v1/sources/ab/<30 hex digits>      entries by source key: see source.c
 *   serials/<64 hex digits>            highest serial imported of a signer: see serial.c
 *   revoked/<64 hex digits>            last revocation list of a signer: see revoked_kept.c
 *   v1/locks/00 … ff                   empty files to lock, made once and never removed
 *   v1/locks/evict                     likewise, but how far evicting has come is in it: evict.c
 *   v1/quarantine/<key>-<random>.qk    damaged entries, at most QUARANTINE_MAX
 *   v1/written                         one byte for each WRITTEN_UNIT published: see evict.c
 *   tuning/GFX.tune                    tuning tables
 * "v1" is ENTRY_VERSION: another version's directory is never looked into. Serials and
 * revocation lists are outside of it, because a bundle that is too old, or an entry that is
 * revoked, for one version of the library is so for every other.
 */
#define VERSION_DIRECTORY "v1"
#define SERIALS_DIRECTORY "serials"
#define REVOKED_DIRECTORY "revoked"
#define TUNING_DIRECTORY  "tuning"
#define TEMPORARY_PREFIX  "quern-temporary-"
#define QUARANTINE_MAX    64
#define SHARDS            256

enum { KEY_HEX = 32, SHARD_HEX = 2, NAME_HEX = KEY_HEX - SHARD_HEX };

/* The file of a key: "ab" and "cdef….qk". */
struct entry_name {
    char shard[SHARD_HEX + 1];
    char name[NAME_HEX + sizeof ".qk"];
};

/* What a logged failure was about; each is logged once for each errno (store_complain). */
enum activity { DOING_GET, DOING_PUT, DOING_LOCK, DOING_EVICT, DOING_QUARANTINE, ACTIVITIES };
#define CAUSES 256 /* errno values */

/* A store has no lock, no descriptor and no thread, so that it works on in a forked child. */
struct store {
    char *path; /* null when the mode is off */
    enum quern_cache_mode mode;
    uint64_t max_bytes;
    const struct trust *trust; /* null, or: */
    struct trust group;
    struct log *log;
    struct counters *counters, own;
    _Atomic bool complained[ACTIVITIES][CAUSES];
};

/* Logs a warning, the first time that `doing` fails for this errno: `what` and the errno's text, or
 * if `what` is null the thread's error record. */
void store_complain(struct store *s, enum activity doing, int error, const char *what);

struct entry_name entry_name(const struct hash128 *key);
struct entry_name entry_name_of_hex(const char hex[33]);
/* Whether a directory entry is one of ours: 30 lower-case hexadecimal digits and ".qk". */
bool is_entry_name(const char *name);
bool is_temporary_name(const char *name);

/* Opens v1, v1/first or v1/first/second (null: none). Errors are recorded, as by directory_open. */
int store_open_directory(const struct store *s, const char *first, const char *second, bool create);
/* Opens, in v1/kind that is open as `directory`, the shard of that name. Errors are recorded. */
int store_open_shard(const struct store *s, int directory, const char *kind, const char *shard,
                     bool create);
/* Opens a directory beside v1, for the caller to close; messages call what it keeps `what`. Without
 * `create` it is no error that there is none, or no cache: *directory is -1 then. QUERN_E_CACHE: it
 * is not to be trusted. QUERN_E_IO. */
quern_status store_open_beside(const struct store *s, const char *name, const char *what,
                               bool create, int *directory);

/* Calls `each` for every name in a directory but "." and "..", until it returns nonzero. Closes
 * `directory`. Returns the nonzero value, or -errno when the directory cannot be read. */
typedef int (*name_fn)(void *user, int directory, const char *name);
int store_each_name(int directory, name_fn each, void *user);

/* Calls `each` with every shard of v1/kind ("objects" or "sources") that there is, in order, until
 * it returns nonzero. `each` closes `shard`. Returns 0, also when v1/kind is missing, the nonzero
 * value, or -errno. */
typedef int (*shard_fn)(void *user, int shard, const char *name);
int store_each_shard(const struct store *s, const char *kind, shard_fn each, void *user);
/* The same of the shards from number `first` to `end` - 1. */
int store_each_shard_of(const struct store *s, const char *kind, unsigned first, unsigned end,
                        shard_fn each, void *user);

/* Removes a file, or a directory and all that is in it: nobody but a mistake or a stranger puts one
 * under a name of the store's, and it would keep the name from ever being used. Returns 0 or
 * -errno: -ENOENT when there is nothing of that name, -ELOOP when directories are nested in it
 * deeper than REMOVE_DEPTH. */
#define REMOVE_DEPTH 8
int store_remove(int directory, const char *name);

/* Makes the record's entry known under its source key, if it has one. Best effort. `objects` is
 * v1/objects, `sources` v1/sources or the -errno, recorded, of opening it. */
void store_point(struct store *s, int objects, int sources, const struct store_record *record,
                 const struct hash128 *key);
/* The entry known under a source key: 0, -ENOENT, or another -errno. */
int store_pointer(const struct store *s, const struct hash128 *source_key,
                  struct entry_name *entry);
/* Removes, of the pointers in shards `first` to `end` - 1, those to entries that are gone, or all.
 * Returns 0 or the first -errno. */
int store_sweep_pointers(struct store *s, unsigned first, unsigned end, bool all);

/* Does what store_lock does, for a lock file given by its name. */
#define SERIAL_LOCK_MS 5000
int store_lock_named(struct store *s, const char *name, int deadline_ms);
/* Locks what is open as fd, or complains, also of an fd that is -errno. Whether it is locked. */
bool store_lock_file(struct store *s, int fd, int deadline_ms);

/* Says why a file in a shard cannot be one that the store made; null: it can. `fd`: the file if it
 * is open, else -1. */
const char *store_unfit(const struct store *s, int shard, int fd, const struct stat *st);

/* Opens a file of the cache that has a name of its own, such as a tuning table (`what` is it in
 * messages). Returns a descriptor, with *st; or -ENOENT; or another -errno, recorded. */
int store_open_fit(const struct store *s, int directory, const char *name, const char *what,
                   struct stat *st);

/* Reads a file of exactly `size` bytes into malloc'ed memory. -EAGAIN if it has another size. */
int store_read_exactly(int fd, size_t size, void **bytes);

/* 16 hexadecimal digits, random, so that no other process has the same. */
void store_random_hex(char hex[17]);

/* Puts a whole file in place under a name that must not exist yet: -EEXIST if it does. A failure
 * leaves nothing behind, or at worst a temporary that cannot be removed now. */
int store_publish(int directory, const char *name, mode_t mode, const void *bytes, size_t size);

/* Does so for several files, which get their names when all are on the disk: one failure to get
 * there is every one's. */
struct publication {
    int directory; /* -errno: it cannot be opened, and `result` is that */
    const char *name;
    const void *bytes;
    size_t size;
    int result; /* as store_publish's */
    int fd;     /* of store_publish_all alone */
};
void store_publish_all(struct publication *publications, size_t count, mode_t mode);

/* Puts a whole file in the place of the one that has the name, or of none, so that the name too
 * outlasts a loss of power. Returns 0 or -errno. */
int store_exchange(const struct store *s, int directory, const char *name, const void *bytes,
                   size_t size);

/* Gets an entry that is proven bad out of the way, unless it is no longer the file described by
 * *seen. The reason is logged. Does nothing in read-only mode. */
void store_quarantine(struct store *s, int shard, const struct entry_name *name,
                      const struct stat *seen, const char *reason);

/* Counts `bytes` as published, and evicts entries when that makes the cache too large. */
void store_account(struct store *s, uint64_t bytes);
/* Makes the count of bytes published exact again. */
void store_set_accounted(struct store *s, uint64_t bytes);

#endif
