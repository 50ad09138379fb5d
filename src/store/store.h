/* SPDX-License-Identifier: MIT */
/*
 * The on-disk cache of code objects. A get is a hit or a miss, a put has no outcome that matters to
 * the caller: a fault of the cache never fails a dispatch. docs/formats.md has the entry format.
 */
#ifndef QUERN_STORE_STORE_H
#define QUERN_STORE_STORE_H

#include "base/counters.h"
#include "base/hash.h"
#include "base/log.h"
#include "object/object.h"
#include "target/target.h"

struct store;

/* The most bytes that a cache holds if neither options nor QUERN_CACHE_MAX_SIZE say. */
#define STORE_MAX_BYTES_DEFAULT ((uint64_t)1 << 30)

struct store_config {
    const char *directory; /* null: $XDG_CACHE_HOME/quern, else $HOME/.cache/quern */
    uint64_t max_bytes;    /* 0: STORE_MAX_BYTES_DEFAULT */
    enum quern_cache_mode mode;
    bool shared;     /* with the group of the directory: see directory_trust */
    bool unfit_said; /* the host knows that the directory is unfit; what uses it finds out each time
                        whether it still is, and does without it in silence */
    struct log *log;
    struct counters *counters; /* of outcomes; null: the store's own */
};

/* QUERN_E_CACHE with the reason: the path is a file, not writable, owned by somebody else, writable
 * by others … With unfit_said only where no path can be told or a group be trusted. Creates the
 * directory (0700) at the first put or lock, not here. */
quern_status store_open(const struct store_config *config, struct store **store);
void store_close(struct store *store);

/* What is published under a key. */
struct store_record {
    const char *key_text; /* its hash128_of is the key; compared on read */
    size_t key_text_bytes;
    const char *source; /* NUL-terminated */
    const char *log;    /* the compiler's, NUL-terminated */
    const void *object;
    size_t object_bytes; /* 0: the kernel was refused, and `log` says why */
    unsigned rules;      /* version of the scan's rules (lint.h) that it was held to; 0: none */
    const struct object *parsed; /* the object as object_parse read it; null: nobody has yet */
    /* The whole entry that all of the above points into, so that it need not be encoded to be
     * stored. Null: there is none, or a field was changed since it was read. */
    const void *entry;
    size_t entry_bytes;
};
/* Reads a record's object; of a refusal there is none, and *object is empty. */
quern_status store_parse(const struct store_record *record, struct object *object);

/* An entry in private memory, verified; everything points into `buffer`. */
struct store_entry {
    struct store_record record;
    struct object object; /* the record's, as look-ups of what is wanted read it */
    void *buffer;
    enum quern_reason miss; /* why there is no entry; 0: this is one */
};

/* What is wanted, by its exact key or by its source alone. */
struct store_want {
    struct hash128 key, source_key;
    const char *key_text; /* hashes to key */
    size_t key_text_bytes;
    const char *source_text;  /* hashes to source_key: what the code object is a function of */
    size_t source_text_bytes; /* but for the toolchain */
    const struct target *target;
};
/* Returns whether there is such an entry: whole, of this key text, for `target`. Anything else is a
 * miss, of which entry->miss is the reason; a hit is counted, and so is a file that is there and
 * cannot serve. An entry proven useless is moved to quarantine. Blocks on the disk. Thread-safe. */
bool store_get_wanted(struct store *store, const struct store_want *want,
                      struct store_entry *entry);
/* store_get_wanted of what has no source key. */
bool store_get(struct store *store, const struct hash128 *key, const char *key_text,
               size_t key_text_bytes, const struct target *target, struct store_entry *entry);
void store_entry_free(struct store_entry *entry);

/* As store_get, by the source key: an entry that any toolchain made of the same source. Which one,
 * when there are several, is not said. */
bool store_get_by_source(struct store *store, const struct store_want *want,
                         struct store_entry *entry);

/* Whether an entry is what is wanted: its whole key text is, or with `by_source` all of it but the
 * toolchain. QUERN_OK, and the entry's object is read; else, with the reason, QUERN_E_OBJECT (it is
 * damaged), QUERN_E_CACHE (it is sound, but another key's or target's) or QUERN_E_MEMORY. */
quern_status store_judge(struct store_entry *entry, const struct store_want *want, bool by_source);

/*
 * The highest serial of a bundle that was imported from `signer` (64 hexadecimal digits), 0 if
 * none; and raising it, never lowering. Without this a bundle with a known fault could be fed in
 * again. QUERN_E_CACHE or QUERN_E_IO when it cannot be read or kept. Blocks.
 */
quern_status store_serial(struct store *store, const char *signer, uint64_t *serial);
quern_status store_raise_serial(struct store *store, const char *signer, uint64_t serial);

/* Publishes; the first writer wins. What object_parse refuses is not stored. Failures are logged
 * once for each cause. Returns the counter that was raised, QUERN_STAT_PUT_OK, _LOST or _FAILED; in
 * a store that is not written to the last, and none is. Blocks on the disk (and now and then
 * evicts). Thread-safe. */
enum quern_stat store_put(struct store *store, const struct hash128 *key,
                          const struct store_record *record);
/* The same for several at once, of which STORE_TOGETHER reach the disk together and so much sooner:
 * as many have their files and directories open at once. */
#define STORE_TOGETHER 32
struct store_put {
    struct hash128 key;
    const struct store_record *record;
    enum quern_stat outcome; /* as store_put returns it */
};
void store_put_all(struct store *store, struct store_put *puts, size_t count);

/* Replaces the entry of a key by this record, which differs from it in the scan's verdict alone
 * (rules, and object and log if it was refused). */
void store_replace(struct store *store, const struct hash128 *key,
                   const struct store_record *record);

/* Quarantines the entry of a key, if there is one: its bytes are sound, but what they say turned
 * out to be no use. The reason is logged. Blocks on the disk. Thread-safe. */
void store_discard(struct store *store, const struct hash128 *key, const char *reason);

/*
 * Single flight over all processes: waits until nobody else is making `key`, at most `deadline_ms`,
 * and holds it for this caller until store_unlock. A hint: when locking fails or the deadline
 * passes the result is -1, and the caller goes on without the lock. After locking, look the key up
 * again: whoever held the lock has probably stored the entry.
 */
int store_lock(struct store *store, const struct hash128 *key, int deadline_ms);
void store_unlock(struct store *store, int lock);

/*
 * A tuning table of the cache directory, `name` the file's: read whole into malloc'ed memory with
 * nothing behind it, or *text null if there is none; and written in the place of the one that is
 * there. The directory and the file are held to what entries are, and made as they are: a table
 * decides which kernel runs. QUERN_E_CACHE, QUERN_E_IO or QUERN_E_MEMORY with the reason. Blocks.
 */
quern_status store_read_tuning(const struct store *store, const char *name, size_t limit,
                               char **text, size_t *size);
quern_status store_write_tuning(const struct store *store, const char *name, const char *text,
                                size_t size);
/* Reads a file that the user named and that decides what runs, a tuning table or keys, `what` in
 * messages: it and its directories are held to what a bundle is. As store_read_tuning otherwise; a
 * file that is missing or may not be read gives QUERN_E_IO. */
quern_status store_read_named(const char *what, const char *path, size_t limit, char **text,
                              size_t *size);

const struct counters *store_counters(const struct store *store);
const char *store_directory(const struct store *store);

/* Why the store may lack a kernel though one was stored: its directory is not there, or this user
 * may not read the directory, or the entry of either key. */
enum store_lack { STORE_LACK_NONE, STORE_LACK_DIRECTORY, STORE_LACK_RIGHTS };
/* Looks which of these it is; of RIGHTS appends what cannot be read, and the remedy. Blocks.
 * Overwrites the thread's error record. */
enum store_lack store_lack(const struct store *store, const struct hash128 *key,
                           const struct hash128 *source_key, struct str *why);

/* Writes a file to the cache's directory, which is made if it is missing, and removes it.
 * QUERN_E_IO or QUERN_E_CACHE: nothing can be stored, as recorded. Blocks. */
quern_status store_try(struct store *store);

/* The reason that the log gives for an entry that a revocation list takes out of the cache. */
#define STORE_REVOKED "it is revoked"

struct store_usage {
    uint64_t entries, bytes, quarantined;
};
quern_status store_usage(struct store *store, struct store_usage *usage);

struct store_item {
    char key[33];
    uint64_t bytes;
    int64_t used;         /* seconds since 1970 of the last use, to the day */
    const char *key_text; /* "" if the entry could not be read */
    unsigned rules;       /* as in its record */
    quern_status status;  /* QUERN_OK, or why not, with the reason in quern_last_error */
};
typedef int (*store_walk_fn)(void *user, const struct store_item *item);
/* Every entry, by key; with `verify` each is read whole and useless ones are quarantined. A nonzero
 * result of `fn` stops the walk: QUERN_E_CANCELLED. */
quern_status store_walk(struct store *store, bool verify, store_walk_fn fn, void *user);

/* Every entry that can be read whole and is sound, by key, and every other with its status and an
 * empty `entry`. `fn` may keep the entry by clearing *entry. As store_walk otherwise; nothing is
 * quarantined. */
typedef int (*store_read_fn)(void *user, const struct store_item *item, struct store_entry *entry);
quern_status store_read_all(struct store *store, store_read_fn fn, void *user);

/* Removes every entry, quarantined file and left-over temporary of this format version. *removed
 * counts entries, also on failure. */
quern_status store_clear(struct store *store, uint64_t *removed);
/* Brings the size under the limit, oldest use first; at most one evictor at a time. In a large
 * cache it does a part, and the next call goes on (evict.c). store_put calls it when needed. */
void store_evict(struct store *store);

#endif
