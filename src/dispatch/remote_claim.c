/* SPDX-License-Identifier: MIT */
/*
 * Claims in a remote cache (remote_claim.h). One is put where none is, and read back: stores have
 * been seen that check the condition and the name at different moments, so that of two claims put
 * at once both are accepted and the later one stays. It is read back only after as much time again
 * as putting it took, by when a second one that passed the check before the first was there should
 * have come as well. Where that takes longer still, both machines compile the same kernel, which
 * does no harm.
 */
#include "dispatch/remote_claim.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A claim lasts for CLAIM_S, some times as long as a kernel takes to compile on a busy machine, and
 * for the time of CLAIM_ANSWERS answers of the store, but no longer than CLAIM_S_MAX in all. Before
 * the kernel is there its machine waits for about five answers: one to the claim, as long again
 * before that is read back, one to that, and one to the kernel under each of its two keys. The
 * rest is room for a store that gets slower meanwhile. */
#define CLAIM_S       30
#define CLAIM_ANSWERS 16
#define CLAIM_S_MAX   300
#define NS_PER_S      ((uint64_t)1000000000)
/* The longest pause before a claim is read back. */
#define PAUSE_NS_MAX (10 * NS_PER_S)

static int lasts_s(const struct remote_exchange *x)
{
    const int64_t s = CLAIM_S + (int64_t)x->answer_ms * CLAIM_ANSWERS / 1000;

    return s < CLAIM_S_MAX ? (int)s : CLAIM_S_MAX;
}

/* Puts a claim; false: the server cannot say whether it did. *taken: it did not, as one is there.
 */
static bool put(const struct remote_exchange *x, const char *name, const struct claim *claim,
                bool if_absent, bool *taken)
{
    char text[CLAIM_BYTES_MAX];
    const size_t size = claim_write(claim, text);
    struct remote_answer answer = {0};

    const bool answered = x->ask(x->self, name, text, size, if_absent, &answer);
    os.free(answer.bytes); /* memory that an answer has though it has no bytes */
    *taken = answer.outcome == REPLY_TAKEN;
    return answered;
}

/* The same, and when the claim is put, pauses until any other that passed the store's check with it
 * should be there too. */
static bool put_and_pause(const struct remote_exchange *x, const char *name,
                          const struct claim *claim, bool if_absent, bool *taken)
{
    const uint64_t begun = os_now();

    if (!put(x, name, claim, if_absent, taken))
        return false;
    const uint64_t took = os_now() - begun, ns = took < PAUSE_NS_MAX ? took : PAUSE_NS_MAX;
    if (!*taken)
        os.nanosleep(&(struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)}, NULL);
    return true;
}

/* Asks which claim is there; false: the server cannot say. Where there is none, or what is there is
 * no claim, *found is one without a token, which is over. */
static bool read_back(const struct remote_exchange *x, const char *name, struct claim *found)
{
    struct remote_answer answer = {0};

    if (!x->ask(x->self, name, NULL, 0, false, &answer))
        return false;
    if (answer.outcome != REPLY_DONE || !claim_read(answer.bytes, answer.size, found))
        *found = (struct claim){0};
    os.free(answer.bytes);
    return true;
}

static bool is_same(const struct claim *a, const struct claim *b)
{
    return !strcmp(a->token, b->token);
}

/* Notes which claim is waited for. One that another machine has just put is waited for anew: its
 * machine has not had its time yet. */
static void note_claim(struct tier_wait *wait, const struct claim *found, int lasts)
{
    const int left = claim_left_s(found), most = left < CLAIM_S_MAX ? left : CLAIM_S_MAX;

    if (!strcmp(wait->claim, found->token))
        return;
    snprintf(wait->claim, sizeof wait->claim, "%s", found->token);
    wait->since = os_now();
    wait->patience_ms = (most > lasts ? most : lasts) * 1000;
}

/* Puts a claim in the place of one that is over, or where the one that was there is gone, and reads
 * what is there then; false: the server cannot say. */
static bool replace(const struct remote_exchange *x, const char *name, const struct claim *mine,
                    struct claim *found)
{
    bool taken = true;

    /* where nothing is, one of many that find it so is to win */
    if (!*found->token && !put_and_pause(x, name, mine, true, &taken))
        return false;
    if (taken && !put_and_pause(x, name, mine, false, &taken))
        return false;
    return read_back(x, name, found);
}

enum tier_claim remote_claim(const struct remote_exchange *x, const struct hash128 *key,
                             struct tier_wait *wait)
{
    const int lasts = lasts_s(x);
    const struct claim mine = claim_make(CLAIM_MAKES, lasts);
    struct claim found = {0};
    char name[CLAIM_NAME_BYTES];
    bool taken = wait && wait->begun; /* who asks again was told that a claim is there */

    claim_name(key, name);
    if (taken && os_ms_since(wait->begun) >= 2 * CLAIM_S_MAX * 1000)
        return TIER_CLAIM_NONE; /* whoever has claimed it by then, so that the wait ends */
    if (!taken && !put_and_pause(x, name, &mine, true, &taken))
        return TIER_CLAIM_NONE;
    if (taken && !wait)
        return TIER_CLAIM_TAKEN;
    if (!read_back(x, name, &found))
        return TIER_CLAIM_NONE;
    if (is_same(&found, &mine))
        return TIER_CLAIM_MINE;
    if (!wait)
        return TIER_CLAIM_TAKEN; /* another's that was put at the same time */
    wait->begun = wait->begun ? wait->begun : os_now();
    note_claim(wait, &found, lasts);
    if (!claim_left_s(&found) || os_ms_since(wait->since) >= wait->patience_ms) {
        if (!replace(x, name, &mine, &found))
            return TIER_CLAIM_NONE;
        if (is_same(&found, &mine))
            return TIER_CLAIM_INHERITED;
        note_claim(wait, &found, lasts);
    }
    return !*found.token || found.state == CLAIM_LEFT ? TIER_CLAIM_NONE : TIER_CLAIM_TAKEN;
}

void remote_disclaim(const struct remote_exchange *x, const struct hash128 *key)
{
    const struct claim left = claim_make(CLAIM_LEFT, lasts_s(x));
    char name[CLAIM_NAME_BYTES];
    bool taken;

    claim_name(key, name);
    put(x, name, &left, false, &taken);
}
