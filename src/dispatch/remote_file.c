/* SPDX-License-Identifier: MIT */
/* One file of a remote cache, fetched or put, for the command. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "dispatch/remote_place.h"

#include <stdio.h>
#include <string.h>

/* Asks a helper, which is there for this alone, one question. */
static quern_status ask_one(const struct remote_place *place, struct remote *helper,
                            const char *name, const void *bytes, size_t size,
                            struct remote_answer *answer)
{
    char why[400];

    /* where it does not listen, it may have ended with the reason as its last words */
    (void)(bytes ? remote_store(helper, name, bytes, size, 1) : remote_fetch(helper, name, 1));
    FAIL_IF(!remote_await(helper, answer, why, sizeof why), QUERN_E_IO, "%s: %s", place->url, why);
    FAIL_IF(answer->outcome != REPLY_DONE && answer->outcome != REPLY_ABSENT, QUERN_E_IO,
            "%s: %s %s: %s", place->url, bytes ? "putting" : "asking for", name, answer->message);
    return QUERN_OK;
}

static quern_status transfer(quern_ctx *ctx, const char *url, const char *name, const void *bytes,
                             size_t size, struct remote_answer *answer)
{
    struct remote_place place;
    struct remote *helper;

    FAIL_IF(!ctx || !url || !name, QUERN_E_ARGUMENT, "%s is null",
            !ctx  ? "ctx"
            : url ? "name"
                  : "url");
    TRY(remote_read_place("the address", url, &place));
    TRY(remote_start_helper(&place, ctx->settings.worker_path, &helper));
    const quern_status status = ask_one(&place, helper, name, bytes, size, answer);
    remote_stop(helper);
    return status;
}

quern_status quern_remote_get(quern_ctx *ctx, const char *url, const char *name, void **bytes,
                              size_t *size)
{
    struct remote_answer answer = {0};

    FAIL_IF(!bytes || !size, QUERN_E_ARGUMENT, "%s is null", bytes ? "size" : "bytes");
    *bytes = NULL;
    *size = 0;
    TRY(transfer(ctx, url, name, NULL, 0, &answer));
    *bytes = answer.bytes;
    *size = answer.size;
    return QUERN_OK;
}

quern_status quern_remote_put(quern_ctx *ctx, const char *url, const char *name, const void *bytes,
                              size_t size)
{
    struct remote_answer answer = {0};

    FAIL_IF(!bytes, QUERN_E_ARGUMENT, "bytes is null");
    TRY(transfer(ctx, url, name, bytes, size, &answer));
    os.free(answer.bytes);
    return QUERN_OK;
}
