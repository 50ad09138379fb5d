/* SPDX-License-Identifier: MIT */
/*
 * Claims in a remote cache (remote_claim.h). One is put where none is, and read back: stores have
 * been seen that check the condition and the name at different moments, so that of two claims put
 * at once both are accepted and the later one stays. Two that read back their own within that
 * moment compile the same kernel twice, which does no harm.
 */
#include "dispatch/remote_claim.h"

#include "base/os.h"

#include <string.h>

/* Asks for the claim that is there now; false: the server cannot say. *there: it has one, which is
 * sound. */
static bool look(const struct remote_exchange *x, const char *name, struct claim *claim,
                 bool *there)
{
    struct remote_answer answer = {0};

    if (!x->ask(x->self, name, NULL, 0, false, &answer))
        return false;
    *there = answer.outcome == REPLY_DONE && claim_read(answer.bytes, answer.size, claim);
    os.free(answer.bytes);
    return true;
}

/* Puts a claim; false: the server cannot say whether it did. */
static bool put(const struct remote_exchange *x, const char *name, const struct claim *claim,
                bool if_absent)
{
    char text[CLAIM_BYTES_MAX];
    const size_t size = claim_write(claim, text);
    struct remote_answer answer = {0};

    const bool answered = x->ask(x->self, name, text, size, if_absent, &answer);
    os.free(answer.bytes); /* none, but memory for them */
    return answered;
}

enum tier_claim remote_claim(const struct remote_exchange *x, const struct hash128 *key,
                             bool overdue)
{
    const struct claim mine = claim_make(CLAIM_MAKES);
    struct claim found;
    char name[CLAIM_NAME_BYTES];
    bool there;

    claim_name(key, name);
    if (!put(x, name, &mine, true) || !look(x, name, &found, &there))
        return TIER_CLAIM_NONE;
    if (there && strcmp(found.token, mine.token) != 0 && !overdue && !claim_is_over(&found))
        return found.state == CLAIM_LEFT ? TIER_CLAIM_NONE : TIER_CLAIM_TAKEN;
    if (!there || strcmp(found.token, mine.token) != 0) {
        /* what is there is no claim, or one that is over: it is replaced */
        if (!put(x, name, &mine, false) || !look(x, name, &found, &there))
            return TIER_CLAIM_NONE;
    }
    return there && !strcmp(found.token, mine.token) ? TIER_CLAIM_MINE : TIER_CLAIM_TAKEN;
}

void remote_disclaim(const struct remote_exchange *x, const struct hash128 *key)
{
    const struct claim left = claim_make(CLAIM_LEFT);
    char name[CLAIM_NAME_BYTES];

    claim_name(key, name);
    put(x, name, &left, false);
}
