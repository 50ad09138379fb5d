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

enum tier_claim remote_claim(const struct remote_exchange *x, const struct hash128 *key,
                             enum tier_claiming how)
{
    const struct claim mine = claim_make(CLAIM_MAKES);
    struct claim found = {0};
    char name[CLAIM_NAME_BYTES];
    bool taken;

    claim_name(key, name);
    if (!put(x, name, &mine, true, &taken))
        return TIER_CLAIM_NONE;
    if (taken && how == TIER_CLAIMING_TRY)
        return TIER_CLAIM_TAKEN;
    if (!read_back(x, name, &found))
        return TIER_CLAIM_NONE;
    const bool over = how == TIER_CLAIMING_OVERDUE || claim_is_over(&found);
    if (!is_same(&found, &mine) && over &&
        (!put(x, name, &mine, false, &taken) || !read_back(x, name, &found)))
        return TIER_CLAIM_NONE;
    return is_same(&found, &mine)      ? TIER_CLAIM_MINE
           : found.state == CLAIM_LEFT ? TIER_CLAIM_NONE
                                       : TIER_CLAIM_TAKEN;
}

void remote_disclaim(const struct remote_exchange *x, const struct hash128 *key)
{
    const struct claim left = claim_make(CLAIM_LEFT);
    char name[CLAIM_NAME_BYTES];
    bool taken;

    claim_name(key, name);
    put(x, name, &left, false, &taken);
}
