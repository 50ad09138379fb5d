/* SPDX-License-Identifier: MIT */
/* Sends the entries of a cache to a remote cache, by its helper: each name is asked for first, and
 * put where the server has nothing there, or something else. They go by batches, of which all are
 * asked for before the first is put (remote_store). */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "dispatch/remote_place.h"
#include "store/seal.h"

#include <stdio.h>
#include <string.h>

#define UNDER_WAY_MAX 16 /* a batch */

struct shipment {
    uint64_t id; /* 0: free */
    enum { ASKED, LACKED, PUT } state;
    char name[SEAL_NAME_BYTES];
    uint8_t *bytes;
    size_t size;
};

struct sending {
    quern_sign_fn sign;
    void *user;
    struct remote *helper;
    struct shipment shipments[UNDER_WAY_MAX];
    size_t under_way, asked; /* of which so many are ASKED */
    uint64_t last_id;
    uint64_t files, bytes; /* that were put */
    char why[400];         /* it cannot go on; "": it can */
};

static void end_shipment(struct sending *s, struct shipment *one)
{
    os.free(one->bytes);
    *one = (struct shipment){0};
    s->under_way--;
}

/* Takes an answer: what is not there as it is to be is put. */
static void take(struct sending *s, const struct remote_answer *answer)
{
    struct shipment *one = s->shipments;

    while (one < s->shipments + UNDER_WAY_MAX && one->id != answer->id)
        one++;
    if (one == s->shipments + UNDER_WAY_MAX)
        return;
    const bool same = answer->outcome == REPLY_DONE && answer->size == one->size &&
                      !memcmp(answer->bytes, one->bytes, one->size);
    s->asked -= one->state == ASKED;
    if (answer->outcome != REPLY_DONE && answer->outcome != REPLY_ABSENT) {
        snprintf(s->why, sizeof s->why, "%s %s: %s", one->state == PUT ? "putting" : "asking for",
                 one->name, answer->message);
    } else if (one->state == PUT || same) {
        s->files += one->state == PUT;
        s->bytes += one->state == PUT ? one->size : 0;
        end_shipment(s, one);
    } else {
        one->state = LACKED;
    }
}

static void put_lacked(struct sending *s)
{
    for (struct shipment *one = s->shipments; one < s->shipments + UNDER_WAY_MAX; one++) {
        if (!one->id || one->state != LACKED || *s->why)
            continue;
        one->state = PUT;
        one->id = ++s->last_id;
        if (!remote_store(s->helper, one->name, one->bytes, one->size, one->id))
            snprintf(s->why, sizeof s->why, "its helper quern-remote does not listen");
    }
}

/* Waits until nothing is under way, or it cannot go on. */
static void settle(struct sending *s)
{
    struct remote_answer answer;

    while (s->under_way && !*s->why) {
        if (!s->asked)
            put_lacked(s);
        if (!remote_await(s->helper, &answer, s->why, sizeof s->why))
            return;
        take(s, &answer);
        os.free(answer.bytes);
    }
}

static void sign_it(void *user, const void *message, size_t size, uint8_t public_key[32],
                    uint8_t signature[64])
{
    const struct sending *const s = user;

    s->sign(s->user, message, size, public_key, signature);
}

static int send_file(void *user, const char *name, const void *bytes, size_t size)
{
    struct sending *const s = user;
    struct shipment *one = s->shipments;

    if (s->under_way == UNDER_WAY_MAX)
        settle(s);
    if (*s->why)
        return 1;
    while (one->id)
        one++;
    uint8_t *const copy = os.malloc(size);
    if (!copy) {
        snprintf(s->why, sizeof s->why, "out of memory");
        return 1;
    }
    memcpy(copy, bytes, size);
    *one = (struct shipment){.id = ++s->last_id, .bytes = copy, .size = size};
    snprintf(one->name, sizeof one->name, "%s", name);
    s->under_way++;
    s->asked++;
    if (!remote_fetch(s->helper, name, one->id)) {
        settle(s); /* its last words */
        if (!*s->why)
            snprintf(s->why, sizeof s->why, "its helper quern-remote does not listen");
    }
    return *s->why != 0;
}

quern_status quern_cache_send(quern_ctx *ctx, const char *url, quern_sign_fn sign, void *user,
                              uint64_t *given, uint64_t *left_out, uint64_t *files, uint64_t *bytes)
{
    struct sending s = {.sign = sign, .user = user};
    struct remote_place place;

    FAIL_IF(!ctx || !url, QUERN_E_ARGUMENT, "%s is null", ctx ? "url" : "ctx");
    TRY(remote_read_place("the address", url, &place));
    TRY(remote_start_helper(&place, ctx->settings.worker_path, &s.helper));
    quern_status status =
        quern_cache_seal(ctx, sign ? sign_it : NULL, send_file, &s, given, left_out);
    if (status == QUERN_OK)
        settle(&s);
    remote_stop(s.helper);
    for (size_t i = 0; i < UNDER_WAY_MAX; i++)
        os.free(s.shipments[i].bytes);
    if (files)
        *files = s.files;
    if (bytes)
        *bytes = s.bytes;
    FAIL_IF(*s.why, QUERN_E_IO, "%s: %s", place.url, s.why);
    return status;
}
