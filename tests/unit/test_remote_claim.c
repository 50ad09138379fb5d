/* SPDX-License-Identifier: MIT */
/*
 * Who waits for whose claim in a remote cache, and for how long (dispatch/remote_claim.h): on a
 * store that is a text in memory, by a clock that stands still between questions.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/os.h"
#include "dispatch/remote_claim.h"

#include <string.h>
#include <time.h>

static struct os real;
static uint64_t now_s; /* of both clocks */
static char kept[CLAIM_BYTES_MAX + 1];

static int clock_of_test(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = (time_t)now_s};
    return 0;
}

static bool ask(void *self, const char *name, const char *bytes, size_t size, bool if_absent,
                struct remote_answer *answer)
{
    assert_true(!self && name && size <= CLAIM_BYTES_MAX);
    *answer = (struct remote_answer){.outcome = REPLY_DONE};
    if (bytes && if_absent && *kept) {
        answer->outcome = REPLY_TAKEN;
    } else if (bytes) {
        memcpy(kept, bytes, size);
        kept[size] = 0;
    } else if (*kept) {
        answer->size = strlen(kept);
        answer->bytes = os.malloc(answer->size);
        memcpy(answer->bytes, kept, answer->size);
    } else {
        answer->outcome = REPLY_ABSENT;
    }
    return true;
}

static const struct hash128 key = {{1, 2, 3}};

static enum tier_claim claim(struct tier_wait *wait)
{
    return remote_claim(&(struct remote_exchange){.ask = ask}, &key, wait);
}

/* Puts the claim of a machine that is heard of no more, for so many seconds from now. */
static void put_claim(int lasts_s)
{
    const struct claim other = claim_make(CLAIM_MAKES, lasts_s);

    kept[claim_write(&other, kept)] = 0;
}

static int begin(void **state)
{
    (void)state;
    real = os;
    os.clock_gettime = clock_of_test;
    now_s = 1000000;
    *kept = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    os = real;
    return 0;
}

static void a_claim_that_was_taken_over_has_its_own_time(void **state)
{
    struct tier_wait first = {0}, second = {0};

    (void)state;
    put_claim(30);
    assert_int_equal(claim(&first), TIER_CLAIM_TAKEN);
    assert_int_equal(claim(&second), TIER_CLAIM_TAKEN);
    now_s += 31;
    assert_int_equal(claim(&first), TIER_CLAIM_INHERITED);
    /* the second has waited as long, but for another */
    assert_int_equal(claim(&second), TIER_CLAIM_TAKEN);
    now_s += 29;
    assert_int_equal(claim(&second), TIER_CLAIM_TAKEN);
    now_s += 2;
    assert_int_equal(claim(&second), TIER_CLAIM_INHERITED);
}

static void a_clock_that_is_wrong_holds_nobody_for_long(void **state)
{
    struct tier_wait wait = {0};

    (void)state;
    put_claim(1000000);
    assert_int_equal(claim(&wait), TIER_CLAIM_TAKEN);
    now_s += 299;
    assert_int_equal(claim(&wait), TIER_CLAIM_TAKEN);
    now_s += 2;
    assert_int_equal(claim(&wait), TIER_CLAIM_INHERITED);
}

/* Whoever goes on claiming holds others for ten minutes. */
static void every_wait_ends(void **state)
{
    struct tier_wait wait = {0};

    (void)state;
    for (int i = 0; i < 30; i++, now_s += 20) {
        put_claim(300);
        assert_int_equal(claim(&wait), TIER_CLAIM_TAKEN);
    }
    put_claim(300);
    assert_int_equal(claim(&wait), TIER_CLAIM_NONE);
}

static void a_claim_that_is_gone_is_put_anew(void **state)
{
    struct tier_wait wait = {0};

    (void)state;
    put_claim(30);
    assert_int_equal(claim(NULL), TIER_CLAIM_TAKEN);
    assert_int_equal(claim(&wait), TIER_CLAIM_TAKEN);
    *kept = 0;
    assert_int_equal(claim(&wait), TIER_CLAIM_INHERITED);
    assert_int_equal(claim(NULL), TIER_CLAIM_TAKEN);
    strcpy(kept, "no claim");
    assert_int_equal(claim(&wait), TIER_CLAIM_INHERITED);
    remote_disclaim(&(struct remote_exchange){.ask = ask}, &key);
    assert_int_equal(claim(&wait), TIER_CLAIM_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_claim_that_was_taken_over_has_its_own_time, begin, end),
        cmocka_unit_test_setup_teardown(a_clock_that_is_wrong_holds_nobody_for_long, begin, end),
        cmocka_unit_test_setup_teardown(every_wait_ends, begin, end),
        cmocka_unit_test_setup_teardown(a_claim_that_is_gone_is_put_anew, begin, end),
    };

    return cmocka_run_group_tests_name("claims", tests, NULL, NULL);
}
