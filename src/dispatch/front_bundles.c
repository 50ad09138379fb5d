/* SPDX-License-Identifier: MIT */
/* The bundles in front of a context's cache: opening them, asking them for kernels, and saying what
 * became of each when a kernel is missing. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "store/signature.h"

#include <inttypes.h>
#include <string.h>

/* ---- Opening --------------------------------------------------------------------------------- */

/* Opens one bundle, which must be signed by one of `signers` unless that is null. */
static quern_status open_one(const char *path, const struct signers *signers,
                             struct bundle **bundle)
{
    TRY(bundle_open(path, bundle));
    const quern_status status = signers ? bundle_check_signature(*bundle, signers) : QUERN_OK;
    if (status != QUERN_OK)
        bundle_close(*bundle);
    return status;
}

/* Logs that a bundle is not used, for the recorded failure, and keeps that for bundles_tell. */
static void leave_out(struct bundles *b, const char *path)
{
    const char *const why = quern_last_error()->message;

    log_line(b->log, QUERN_LOG_WARN, "bundle %s is not used: %s", path, why);
    str_addf(&b->left_out, "; bundle %.200s is not used: %s", path, why);
}

/* Takes a bundle in, or leaves it out. */
static void add(struct bundles *b, const char *path, const struct signers *signers)
{
    struct bundle *file = NULL;
    char *const copy = os.malloc(strlen(path) + 1);
    quern_status status = QUERN_OK;

    if (!copy)
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!copy"), "out of memory for a path");
    else if (b->count == BUNDLES_MAX)
        status = error_set(QUERN_E_ARGUMENT, __FILE__, FAIL_AT("b->count == BUNDLES_MAX"),
                           "at most %d are", BUNDLES_MAX);
    else
        status = open_one(path, signers, &file);
    if (status != QUERN_OK) {
        leave_out(b, path);
        os.free(copy);
        return;
    }
    b->files[b->count] = file;
    b->paths[b->count++] = strcpy(copy, path);
}

quern_status bundles_open(const struct settings *s, struct log *log, struct bundles *b)
{
    const char *at = s->bundle_path;
    const char *const keys = s->bundle_keys;
    struct signers signers;
    char path[4096];

    b->log = log;
    b->signed_only = keys != NULL;
    /* A key file that cannot be read fails the context: without it, bundles that need a signature
     * would be used without one. */
    if (keys)
        TRY(signers_read("the key file (QUERN_BUNDLE_KEYS)", keys, &signers));
    while (at && *at) {
        const size_t n = strcspn(at, ":");
        const char *const next = at + n + (at[n] == ':');
        if (n && n < sizeof path) {
            memcpy(path, at, n);
            path[n] = 0;
            add(b, path, keys ? &signers : NULL);
        } else if (n) {
            log_line(log, QUERN_LOG_WARN, "a bundle's path of %zu bytes is too long", n);
        }
        at = next;
    }
    return QUERN_OK;
}

quern_status bundle_admit(struct store *store, const char *signer, uint64_t serial, bool *higher)
{
    uint64_t kept = 0;

    TRY(store_serial(store, signer, &kept));
    FAIL_IF(serial < kept, QUERN_E_CACHE,
            "the bundle has serial %" PRIu64 ", and %" PRIu64
            " of the same signer was used before: an old one is not let in again",
            serial, kept);
    *higher = serial > kept;
    return QUERN_OK;
}

/* Has the store remember a signer's serial, so that bundles with a lower one are not used from then
 * on. Where it cannot, that is logged, once for all bundles. */
static void remember(struct bundles *b, struct store *store, bool writable, const char *signer,
                     uint64_t serial)
{
    if (writable && store_raise_serial(store, signer, serial) == QUERN_OK)
        return;
    if (!b->unremembered)
        log_line(b->log, QUERN_LOG_WARN,
                 "older bundles of the trusted signers would be used too: serials cannot be "
                 "remembered, as %s",
                 writable ? quern_last_error()->message
                          : "the cache is off or cannot be written to (QUERN_CACHE_MODE, "
                            "QUERN_CACHE_DIR)");
    b->unremembered = true;
}

/* Logs what each bundle in use is, for whoever wants to know which ones serve. */
static void log_bundles(const struct bundles *b)
{
    for (size_t i = 0; i < b->count; i++) {
        struct bundle_info info;
        char signer[2 * sizeof info.public_key + 1];
        bundle_info(b->files[i], &info);
        hex_from_bytes(signer, info.public_key, sizeof info.public_key);
        log_line(
            b->log, QUERN_LOG_INFO, "bundle %s: %" PRIu64 " kernels, serial %" PRIu64 ", %s%s%s",
            b->paths[i], info.entries, info.serial,
            info.has_signature ? "signed by " : "not signed", info.has_signature ? signer : "",
            info.has_signature && !b->signed_only ? " (not checked: no QUERN_BUNDLE_KEYS)" : "");
    }
}

void bundles_admit(struct bundles *b, struct store *store, bool writable)
{
    /* The first pass notes each signer's highest serial, the second leaves older bundles out, so
     * that it does not matter in which order bundles are named. */
    for (int pass = 0; pass < 2 && b->signed_only; pass++) {
        size_t left = 0;
        for (size_t i = 0; i < b->count; i++) {
            struct bundle *const bundle = b->files[i];
            struct bundle_info info;
            char signer[2 * sizeof info.public_key + 1];
            bool higher = false;
            bundle_info(bundle, &info);
            hex_from_bytes(signer, info.public_key, sizeof info.public_key);
            if (bundle_admit(store, signer, info.serial, &higher) != QUERN_OK) {
                leave_out(b, b->paths[i]);
                bundle_close(bundle);
                os.free(b->paths[i]);
                continue;
            }
            b->paths[left] = b->paths[i];
            b->files[left++] = bundle;
            if (higher && !pass)
                remember(b, store, writable, signer, info.serial);
        }
        b->count = left;
    }
    log_bundles(b);
}

void bundles_close(struct bundles *b)
{
    while (b->count) {
        bundle_close(b->files[--b->count]);
        os.free(b->paths[b->count]);
    }
    str_free(&b->left_out);
    str_free(&b->holds);
}

/* ---- What became of them --------------------------------------------------------------------- */

/* Kernels of one target in a bundle. */
struct holding {
    const struct target *target;
    uint64_t kernels;
};

/* Counts a bundle's kernels by target; returns the number of targets, and in *damaged the entries
 * that cannot be used. */
static size_t count_holdings(const struct bundle *bundle, struct holding *of, size_t most,
                             uint64_t *damaged)
{
    struct bundle_info info;
    size_t count = 0;

    bundle_info(bundle, &info);
    for (uint64_t i = 0; i < info.entries; i++) {
        struct store_entry entry;
        if (bundle_entry(bundle, i, NULL, &entry) != QUERN_OK) {
            ++*damaged;
            continue;
        }
        size_t at = 0;
        while (at < count && of[at].target != entry.object.target)
            at++;
        if (at == count && count < most)
            of[count++] = (struct holding){.target = entry.object.target};
        if (at < count && entry.object.target)
            of[at].kernels++;
        store_entry_free(&entry);
    }
    return count;
}

static void tell_holdings(const struct bundles *b, size_t which, struct str *out)
{
    struct holding of[16];
    uint64_t damaged = 0;
    const size_t count = count_holdings(b->files[which], of, sizeof of / sizeof *of, &damaged);

    str_addf(out, "; bundle %.200s has ", b->paths[which]);
    if (!count)
        str_add(out, "no kernel");
    for (size_t i = 0; i < count; i++)
        if (of[i].kernels)
            str_addf(out, "%s%" PRIu64 " for %s", i ? ", " : "", of[i].kernels, of[i].target->name);
    if (damaged)
        str_addf(out, " and %" PRIu64 " damaged", damaged);
    str_add(out, ", not this one");
}

bool bundles_tell(struct bundles *b, struct str *out)
{
    lock_take(&b->telling);
    if (!b->holds.length)
        for (size_t i = 0; i < b->count; i++)
            tell_holdings(b, i, &b->holds);
    str_add(out, str_text(&b->left_out));
    str_add(out, str_text(&b->holds));
    lock_give(&b->telling);
    return b->left_out.length;
}

/* ---- As a tier ------------------------------------------------------------------------------- */

/* The first sound entry that any of them has, in order. */
static enum tier_answer get(void *self, struct tier_get *g, struct store_entry *entry)
{
    struct bundles *const b = self;

    for (size_t i = 0; i < b->count; i++) {
        const quern_status status = bundle_get(b->files[i], g->want, g->by_source, entry);
        if (status == QUERN_OK && entry->buffer) {
            counter_add(b->counters, QUERN_STAT_HIT_BUNDLE, 1);
            return TIER_HIT;
        }
        if (status != QUERN_OK && counter_add(b->counters, QUERN_STAT_BUNDLE_DAMAGED, 1) == 0)
            log_line(b->log, QUERN_LOG_WARN, "an entry of a bundle is not used: %s (said once)",
                     quern_last_error()->message);
    }
    return TIER_MISS;
}

static void close_bundles(void *self)
{
    bundles_close(self);
}

struct tier bundles_tier(struct bundles *b)
{
    return (struct tier){.name = "a bundle",
                         .id = QUERN_TIER_BUNDLE,
                         .source_first = true,
                         .self = b,
                         .get = get,
                         .close = close_bundles};
}
