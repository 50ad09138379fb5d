/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_base.h"
#include "t_context.h"
#include "t_store.h"

#include "base/str.h"
#include "store/bundle_reader.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LAYERS_MAX 8

static void hash_head(const uint8_t *bytes, size_t size, uint8_t digest[BUNDLE_PROOF_BYTES])
{
    struct bundle *bundle;

    assert_int_equal(bundle_open_memory(bytes, size, &bundle), QUERN_OK);
    crypto_generichash(digest, BUNDLE_PROOF_BYTES, bytes, bundle->layout.end, NULL, 0);
    bundle_close(bundle);
}

/* Leaves out the base kernels of the library, where it was built with some. */
static void forget_shipped(quern_ctx *ctx)
{
    if (ctx->tiers[ctx->tier_count - 1].id == QUERN_TIER_BASE)
        ctx->tier_count--;
}

void t_base_make(struct t_base *b, const char *target, const char *const *layers, size_t count,
                 const char *version)
{
    struct quern_problem problems[LAYERS_MAX];
    struct str manifest = {0};
    char cache[600], parent[600];
    void *bytes;
    size_t size;

    assert_true(count <= LAYERS_MAX);
    b->directory = t_temp_dir();
    snprintf(parent, sizeof parent, "%s/base", b->directory);
    snprintf(b->path, sizeof b->path, "%s/%s.qkb", parent, target);
    snprintf(b->beside, sizeof b->beside, "%s/worker", b->directory);
    snprintf(cache, sizeof cache, "%s/cache", b->directory);
    assert_int_equal(mkdir(parent, 0700), 0);
    quern_ctx *const ctx = t_open_unverified(target, cache);
    forget_shipped(ctx);
    for (size_t i = 0; i < count; i++)
        problems[i] = t_problem(layers[i]);
    if (quern_prewarm(ctx, problems, count, 64, NULL, NULL) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    str_addf(&manifest, "# quern base kernels, version %s\n", version);
    assert_int_equal(quern_bundle_create(ctx, target, str_text(&manifest), 0, &bytes, &size, NULL),
                     QUERN_OK);
    hash_head(bytes, size, b->shipped.digest);
    b->shipped.target = target;
    t_write_file(b->path, bytes, size);
    free(bytes);
    str_free(&manifest);
    quern_close(ctx);
}

void t_base_remove(struct t_base *b)
{
    t_remove(b->directory);
}

void t_base_give(quern_ctx *ctx, const struct t_base *b)
{
    forget_shipped(ctx);
    ctx->base.shipped = &b->shipped;
    ctx->base.worker_path = b->beside;
    ctx->tiers[ctx->tier_count++] = base_tier(&ctx->base);
}
