/* SPDX-License-Identifier: MIT */
/* Walks over some of very many cases. */
#include "t_explore.h"

#include "base/os.h"
#include "base/thread.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

bool t_explores(void)
{
    return getenv("EXPLORE");
}

bool t_takes(size_t turn, size_t one_in)
{
    return t_explores() || turn % one_in == 0;
}

unsigned t_explore(unsigned bound)
{
    unsigned number = 0;

    /* Of a few bytes getrandom gives all or, on a system without it, none: then it stays 0. */
    if (t_explores() && getrandom(&number, sizeof number, 0) != sizeof number)
        number = 0;
    return number % bound;
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct t_walk t_walk(size_t count, size_t part)
{
    const char *const seconds = getenv("EXPLORE");
    struct t_walk w = {.count = count, .most = (count + part - 1) / part, .stride = part};

    if (!seconds || !count)
        return w;
    w.end = os_now() + strtoull(seconds, NULL, 10) * 1000000000;
    w.first = t_explore((unsigned)count);
    /* Multiples of a golden section of the whole lie far from each other, however many there are;
     * and with a step that has no divisor in common with the count none comes twice. */
    w.stride = (size_t)((double)count * 0.6180339887);
    while (common_divisor(count, w.stride) != 1)
        w.stride++;
    return w;
}

bool t_walk_next(struct t_walk *w, size_t *i)
{
    if (w->taken == w->most || (w->taken && w->end && os_now() >= w->end))
        return false;
    *i = (w->first + w->taken++ * w->stride) % w->count;
    return true;
}

struct shared_walk {
    struct t_walk walk;
    pthread_mutex_t lock;
    void (*function)(void *user, size_t i);
    void *user;
};

static void call(void *user, size_t turn)
{
    struct shared_walk *const s = user;
    size_t i;

    (void)turn;
    pthread_mutex_lock(&s->lock);
    const bool more = t_walk_next(&s->walk, &i);
    pthread_mutex_unlock(&s->lock);
    if (more)
        s->function(s->user, i);
}

size_t t_explore_part(size_t count, size_t part, void (*function)(void *user, size_t i), void *user)
{
    struct shared_walk s = {t_walk(count, part), PTHREAD_MUTEX_INITIALIZER, function, user};

    parallel_for(s.walk.most, 2, call, &s);
    if (s.walk.taken < s.walk.most)
        print_message("%zu of %zu cases\n", s.walk.taken, count);
    return s.walk.taken;
}
