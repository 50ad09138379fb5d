/* SPDX-License-Identifier: MIT */
/* Bundles as the command has them: making, reading and importing one. */
#include "dispatch/dispatch.h"

#include "base/extensible.h"
#include "base/os.h"
#include "lint/lint.h"
#include "store/key.h"
#include "store/signature.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading --------------------------------------------------------------------------------- */

struct quern_bundle {
    struct bundle *bundle;
};

/* Of a file, or of bytes in memory. */
static quern_status open_bundle(const char *path, const void *bytes, size_t size,
                                quern_bundle **out)
{
    quern_bundle *const b = os.calloc(1, sizeof *b);

    FAIL_IF(!b, QUERN_E_MEMORY, "out of memory for a bundle");
    const quern_status status =
        path ? bundle_open_any(path, &b->bundle) : bundle_open_memory(bytes, size, &b->bundle);
    if (status == QUERN_OK)
        *out = b;
    else
        os.free(b);
    return status;
}

quern_status quern_bundle_open(const void *bytes, size_t size, quern_bundle **out)
{
    FAIL_IF(!bytes || !out, QUERN_E_ARGUMENT, "%s is null", bytes ? "bundle" : "bytes");
    return open_bundle(NULL, bytes, size, out);
}

quern_status quern_bundle_open_file(const char *path, quern_bundle **out)
{
    FAIL_IF(!path || !out, QUERN_E_ARGUMENT, "%s is null", path ? "bundle" : "path");
    return open_bundle(path, NULL, 0, out);
}

void quern_bundle_close(quern_bundle *b)
{
    if (b)
        bundle_close(b->bundle);
    os.free(b);
}

quern_status quern_bundle_info(const quern_bundle *b, struct quern_bundle_info *info)
{
    const struct extensible *const type = EXTENSIBLE(quern_bundle_info, QUERN_BUNDLE_INFO_SIZE_MIN);
    struct bundle_info p;

    FAIL_IF(!b, QUERN_E_ARGUMENT, "bundle is null");
    TRY(extensible_check(type, info));
    bundle_info(b->bundle, &p);
    struct quern_bundle_info own = {.entries = p.entries,
                                    .bytes = p.bytes,
                                    .serial = p.serial,
                                    .manifest = p.manifest,
                                    .tuning = p.tuning,
                                    .has_signature = p.has_signature};
    memcpy(own.public_key, p.public_key, sizeof own.public_key);
    memcpy(own.signature, p.signature, sizeof own.signature);
    extensible_write(type, &own, info);
    return QUERN_OK;
}

quern_status quern_bundle_check_signature(const quern_bundle *b, const char *key_file)
{
    struct signers signers;

    FAIL_IF(!b || !key_file, QUERN_E_ARGUMENT, "%s is null", b ? "key_file" : "bundle");
    TRY(signers_read("the key file", key_file, &signers));
    return bundle_check_signature(b->bundle, &signers);
}

quern_status quern_bundle_walk(const quern_bundle *b, int verify, quern_cache_fn fn, void *user)
{
    struct bundle_info info;

    FAIL_IF(!b || !fn, QUERN_E_ARGUMENT, "%s is null", b ? "fn" : "bundle");
    bundle_info(b->bundle, &info);
    for (uint64_t i = 0; i < info.entries; i++) {
        struct store_entry entry = {0};
        struct hash128 key;
        uint64_t bytes;
        char hex[2 * sizeof key.bytes + 1];
        bundle_listed(b->bundle, i, &key, &bytes);
        const quern_status status = verify ? bundle_entry(b->bundle, i, NULL, &entry) : QUERN_OK;
        char *text = NULL; /* a copy with a NUL behind it, which key texts in bundles lack */
        if (entry.buffer && (text = os.calloc(1, entry.record.key_text_bytes + 1)))
            memcpy(text, entry.record.key_text, entry.record.key_text_bytes);
        hex_from_bytes(hex, key.bytes, sizeof key.bytes);
        const int stop =
            fn(user, &(struct quern_cache_entry){.key = hex,
                                                 .bytes = bytes,
                                                 .key_text = text ? text : "",
                                                 .status = status,
                                                 .scanned = entry.record.rules == LINT_RULES});
        os.free(text);
        store_entry_free(&entry);
        FAIL_IF(stop, QUERN_E_CANCELLED, "the walk through the bundle was stopped");
    }
    return QUERN_OK;
}

void quern_bundle_signature(const uint8_t public_key[32], const uint8_t signature[64],
                            uint8_t block[QUERN_SIGNATURE_BYTES])
{
    bundle_signature_block(public_key, signature, block);
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Entries of the cache that a bundle is made of, read whole. */
struct collection {
    quern_ctx *ctx;
    const char *processor; /* null: any */
    struct store_entry *entries;
    size_t count, capacity;
    uint64_t left_out;
    quern_status status; /* QUERN_E_MEMORY stops the walk */
};

/* Whether the key text has this processor in the field of that name. */
static bool for_processor(const char *text, size_t bytes, const char *processor)
{
    struct key_field f;

    for (size_t at = 0; key_next(text, bytes, &at, &f);)
        if (f.tag_length == strlen("processor") && !memcmp(f.tag, "processor", f.tag_length))
            return f.size == strlen(processor) && !memcmp(f.bytes, processor, f.size);
    return false;
}

static int collect(void *user, const struct store_item *item, struct store_entry *entry)
{
    struct collection *const c = user;

    if (item->status != QUERN_OK) {
        c->left_out++;
        return 0;
    }
    if (c->processor &&
        !for_processor(entry->record.key_text, entry->record.key_text_bytes, c->processor))
        return 0;
    if (c->count == c->capacity) {
        const size_t capacity = c->capacity ? 2 * c->capacity : 64;
        struct store_entry *const grown = os.realloc(c->entries, capacity * sizeof *grown);
        if (!grown)
            return 1;
        c->entries = grown;
        c->capacity = capacity;
    }
    c->entries[c->count++] = *entry;
    *entry = (struct store_entry){0}; /* the collection has it now: the store must not free it */
    return 0;
}

static quern_status write_collection(const struct collection *c, const char *manifest,
                                     const char *tuning, uint64_t serial, void **bytes,
                                     size_t *size)
{
    struct store_record *const records = os.calloc(c->count ? c->count : 1, sizeof *records);

    FAIL_IF(!records, QUERN_E_MEMORY, "out of memory for %zu entries", c->count);
    for (size_t i = 0; i < c->count; i++)
        records[i] = c->entries[i].record;
    const struct bundle_content content = {records, c->count, manifest, serial, tuning};
    const quern_status status = bundle_write(&content, bytes, size);
    os.free(records);
    return status;
}

quern_status quern_bundle_create(quern_ctx *ctx, const char *processor, const char *manifest,
                                 uint64_t serial, void **bytes, size_t *size, uint64_t *left_out)
{
    struct collection c = {.ctx = ctx, .processor = processor};
    struct str tuning = {0};

    FAIL_IF(!ctx || !bytes || !size, QUERN_E_ARGUMENT, "%s is null",
            !ctx    ? "ctx"
            : bytes ? "size"
                    : "bytes");
    quern_status status = store_read_all(ctx->store, collect, &c);
    if (status == QUERN_E_CANCELLED)
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT(""), "out of memory for a bundle");
    if (status == QUERN_OK)
        status = tuning_collect(&ctx->settings, ctx->store, processor, &tuning);
    if (status == QUERN_OK)
        status = write_collection(&c, manifest, str_text(&tuning), serial, bytes, size);
    str_free(&tuning);
    for (size_t i = 0; i < c.count; i++)
        store_entry_free(&c.entries[i]);
    os.free(c.entries);
    if (left_out)
        *left_out = c.left_out;
    return status;
}

/* ---- Importing ------------------------------------------------------------------------------- */

static void import_all(quern_ctx *ctx, const struct bundle *bundle, uint64_t entries,
                       struct quern_bundle_import *result)
{
    for (uint64_t i = 0; i < entries; i++) {
        struct store_entry entry;
        struct hash128 key;
        if (bundle_entry(bundle, i, &key, &entry) != QUERN_OK) {
            result->damaged++;
            continue;
        }
        entry.record.parsed = &entry.object;
        const enum quern_stat outcome = store_put(ctx->store, &key, &entry.record);
        result->imported += outcome == QUERN_STAT_PUT_OK;
        result->present += outcome == QUERN_STAT_PUT_LOST;
        result->failed += outcome == QUERN_STAT_PUT_FAILED;
        store_entry_free(&entry);
    }
}

quern_status quern_bundle_import(quern_ctx *ctx, const quern_bundle *bundle, const char *signer,
                                 struct quern_bundle_import *result)
{
    const struct extensible *const type =
        EXTENSIBLE(quern_bundle_import, QUERN_BUNDLE_IMPORT_SIZE_MIN);
    struct quern_bundle_import own = {0};
    struct bundle_info info;

    FAIL_IF(!ctx || !bundle, QUERN_E_ARGUMENT, "%s is null", ctx ? "bundle" : "ctx");
    TRY(extensible_check(type, result));
    extensible_write(type, &own, result);
    FAIL_IF(ctx->settings.cache_mode != QUERN_CACHE_RW, QUERN_E_CACHE,
            "the cache is not open for writing (QUERN_CACHE_MODE), so nothing can be imported");
    bundle_info(bundle->bundle, &info);
    FAIL_IF(info.entry_bytes > ctx->settings.cache_max_bytes, QUERN_E_CACHE,
            "the bundle's kernels have %" PRIu64 " bytes, and the cache may hold %" PRIu64
            "; raise QUERN_CACHE_MAX_SIZE, or use the bundle where it is by QUERN_BUNDLE_PATH",
            info.entry_bytes, ctx->settings.cache_max_bytes);
    /* the serial first: after a crash the cache may lack entries, but older bundles stay out */
    if (signer) {
        bool higher;
        TRY(bundle_admit(ctx->store, signer, info.serial, &higher));
        TRY(store_raise_serial(ctx->store, signer, info.serial));
    }
    import_all(ctx, bundle->bundle, info.entries, &own);
    extensible_write(type, &own, result);
    FAIL_IF(own.failed, QUERN_E_IO, "%" PRIu64 " of %" PRIu64 " entries could not be stored",
            own.failed, info.entries);
    return QUERN_OK;
}
