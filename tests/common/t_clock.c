/* SPDX-License-Identifier: MIT */
#include "t_clock.h"

#include "base/os.h"

#include <stdatomic.h>
#include <stdint.h>

/* How often it is asked whether time may pass. */
#define ASK_MS 5

static struct os before;
static _Atomic uint64_t now_ns; /* workers' threads read it too */
static bool (*passes)(void);

static int held_clock(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC)
        return before.clock_gettime(clock, t);
    const uint64_t now = now_ns;
    *t = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
    return 0;
}

static int held_nanosleep(const struct timespec *t, struct timespec *rest)
{
    (void)rest;
    now_ns += (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
    return 0;
}

static int held_poll(struct pollfd *polls, nfds_t count, int timeout_ms)
{
    for (;;) {
        const int ready = before.poll(polls, count, timeout_ms ? ASK_MS : 0);
        const bool pass = timeout_ms > 0 && passes && passes();
        if (pass)
            now_ns += (uint64_t)timeout_ms * 1000000u;
        if (ready || pass || !timeout_ms)
            return ready;
    }
}

void t_clock_hold(bool (*may_pass)(void))
{
    before = os;
    now_ns = os_now();
    passes = may_pass;
    os.clock_gettime = held_clock;
    os.nanosleep = held_nanosleep;
    os.poll = held_poll;
}

void t_clock_release(void)
{
    os.clock_gettime = before.clock_gettime;
    os.nanosleep = before.nanosleep;
    os.poll = before.poll;
}
