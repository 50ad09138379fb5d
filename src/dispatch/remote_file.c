/* SPDX-License-Identifier: MIT */
/* One file of a remote cache, fetched or put, for the command. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/place.h"
#include "compile/remote.h"
#include "dispatch/remote_place.h"

#include <stdio.h>
#include <string.h>

/* The helper's own limit for a transfer is 10 s: one that has said nothing for so long hangs. */
#define HUNG_NS ((uint64_t)30000000000)
#define WAIT_MS 100

/* Asks a helper, which is there for this alone, one question. */
static quern_status ask_one(const struct remote_place *place, struct remote *helper,
                            const char *name, const void *bytes, size_t size,
                            struct remote_answer *answer)
{
    const uint64_t begun = os_now();
    enum remote_event event = REMOTE_NOTHING;

    const bool asked =
        bytes ? remote_store(helper, name, bytes, size, 1) : remote_fetch(helper, name, 1);
    while ((event = remote_receive(helper, answer)) == REMOTE_NOTHING && asked &&
           os_now() - begun < HUNG_NS)
        remote_wait(remote_socket(helper), WAIT_MS);
    FAIL_IF(event == REMOTE_GONE, QUERN_E_IO, "%s: its helper quern-remote ended%s%s", place->url,
            remote_hopeless(helper) ? ": " : "",
            remote_hopeless(helper) ? remote_about(helper) : "");
    FAIL_IF(event != REMOTE_ANSWER, QUERN_E_IO, "%s: its helper quern-remote hangs", place->url);
    FAIL_IF(answer->outcome != REPLY_DONE && answer->outcome != REPLY_ABSENT, QUERN_E_IO,
            "%s: %s %s: %s", place->url, bytes ? "putting" : "asking for", name, answer->message);
    return QUERN_OK;
}

static quern_status transfer(quern_ctx *ctx, const char *url, const char *name, const void *bytes,
                             size_t size, struct remote_answer *answer)
{
    struct remote_place place;
    char path[PLACE_MAX], why[300];
    struct remote *helper;

    FAIL_IF(!ctx || !url || !name, QUERN_E_ARGUMENT, "%s is null",
            !ctx  ? "ctx"
            : url ? "name"
                  : "url");
    TRY(remote_read_place("the address", url, &place));
    FAIL_IF(!remote_find_helper(ctx->settings.worker_path, path, why, sizeof why),
            QUERN_E_TOOLCHAIN, "%s", why);
    const struct remote_config config = remote_config_of(&place, path);
    TRY(remote_start(&config, &helper));
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
