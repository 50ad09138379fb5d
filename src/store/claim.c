/* SPDX-License-Identifier: MIT */
/*
 * Writes and reads claims (claim.h). One is a line: "quern claim 1", the word of its state, 32
 * hexadecimal digits, and a number of seconds, each behind one space but the first.
 */
#include "store/claim.h"

#include "base/os.h"
#include "store/internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define HEAD       "quern claim 1 "
#define DIGITS_MAX 19 /* of a number of seconds, so that it fits 64 bits */

static const char *const words[] = {[CLAIM_MAKES] = "makes ", [CLAIM_LEFT] = "left "};

static uint64_t now_s(void)
{
    struct timespec t = {0};

    os.clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec;
}

void claim_name(const struct hash128 *key, char name[CLAIM_NAME_BYTES])
{
    const struct entry_name n = entry_name(key);

    snprintf(name, CLAIM_NAME_BYTES, VERSION_DIRECTORY "/claims/%s/%.*s", n.shard, NAME_HEX,
             n.name);
}

struct claim claim_make(enum claim_state state, int lasts_s)
{
    struct claim claim = {.state = state, .until = now_s() + (uint64_t)lasts_s};
    char halves[2][17];

    store_random_hex(halves[0]);
    store_random_hex(halves[1]);
    snprintf(claim.token, sizeof claim.token, "%s%s", halves[0], halves[1]);
    return claim;
}

int claim_left_s(const struct claim *claim)
{
    const uint64_t now = now_s(), left = now < claim->until ? claim->until - now : 0;

    return left < INT_MAX ? (int)left : INT_MAX;
}

size_t claim_write(const struct claim *c, char text[CLAIM_BYTES_MAX])
{
    return (size_t)snprintf(text, CLAIM_BYTES_MAX, HEAD "%s%s %" PRIu64 "\n", words[c->state],
                            c->token, c->until);
}

/* Moves *at behind a word that stands there. */
static bool take(const char **at, const char *end, const char *word)
{
    const size_t n = strlen(word);

    if ((size_t)(end - *at) < n || memcmp(*at, word, n) != 0)
        return false;
    *at += n;
    return true;
}

static bool take_token(const char **at, const char *end, char token[33])
{
    if (end - *at < 32)
        return false;
    memcpy(token, *at, 32);
    token[32] = 0;
    *at += 32;
    return strspn(token, "0123456789abcdef") == 32;
}

static bool take_number(const char **at, const char *end, uint64_t *number)
{
    const char *const from = *at;

    for (*number = 0; *at < end && **at >= '0' && **at <= '9' && *at - from < DIGITS_MAX; ++*at)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return *at > from;
}

bool claim_read(const void *bytes, size_t size, struct claim *c)
{
    const char *at = bytes, *const end = size ? at + size : at;

    if (!take(&at, end, HEAD))
        return false;
    if (take(&at, end, words[CLAIM_MAKES]))
        c->state = CLAIM_MAKES;
    else if (take(&at, end, words[CLAIM_LEFT]))
        c->state = CLAIM_LEFT;
    else
        return false;
    return take_token(&at, end, c->token) && take(&at, end, " ") &&
           take_number(&at, end, &c->until) && take(&at, end, "\n") && at == end;
}
