/* SPDX-License-Identifier: MIT */
/* The entries of a cache as a remote cache has them, for the command, which brings them there. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "store/key.h"
#include "store/seal.h"

struct giving {
    quern_sign_fn sign;
    quern_remote_file_fn fn;
    void *user;
    uint64_t given, left_out;
    quern_status status; /* not QUERN_OK: why the walk was stopped, as is in `why` */
    struct error_record why;
};

/* Gives one entry by its own key, and by its source key. */
static quern_status give_entry(struct giving *g, const struct store_record *record)
{
    const struct hash128 key = hash128_of(record->key_text, record->key_text_bytes);
    char name[SEAL_NAME_BYTES];
    struct hash128 source_key;
    const char *text;
    size_t text_bytes, size;
    void *bytes;
    int stop = 0;

    if (!record->object_bytes ||
        !key_source(record->key_text, record->key_text_bytes, &source_key, &text, &text_bytes)) {
        g->left_out++;
        return QUERN_OK;
    }
    TRY(seal_make(record, g->sign, g->user, &bytes, &size));
    for (int by_source = 0; by_source < 2 && !stop; by_source++) {
        seal_name(by_source ? &source_key : &key, by_source, name);
        stop = g->fn(g->user, name, bytes, size);
    }
    os.free(bytes);
    FAIL_IF(stop, QUERN_E_CANCELLED, "the walk through the cache was stopped");
    g->given++;
    return QUERN_OK;
}

static int give(void *user, const struct store_item *item, struct store_entry *entry)
{
    struct giving *const g = user;

    if (item->status == QUERN_OK)
        g->status = give_entry(g, &entry->record);
    else
        g->left_out++;
    if (g->status != QUERN_OK)
        error_save(&g->why);
    return g->status != QUERN_OK;
}

quern_status quern_cache_seal(quern_ctx *ctx, quern_sign_fn sign, quern_remote_file_fn fn,
                              void *user, uint64_t *given, uint64_t *left_out)
{
    struct giving g = {.sign = sign, .fn = fn, .user = user};

    FAIL_IF(!ctx || !fn, QUERN_E_ARGUMENT, "%s is null", ctx ? "fn" : "ctx");
    quern_status status = store_read_all(ctx->store, give, &g);
    if (g.status != QUERN_OK) /* store_read_all recorded only that it was stopped */
        status = g.status == QUERN_E_CANCELLED ? status : error_restore(&g.why);
    if (given)
        *given = g.given;
    if (left_out)
        *left_out = g.left_out;
    return status;
}
