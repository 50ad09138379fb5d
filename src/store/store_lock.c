/* SPDX-License-Identifier: MIT */
/*
 * Single flight by flock: the kernel drops the lock when its holder dies, however that happens. A
 * holder that is merely stopped keeps it, hence the deadline.
 */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#define NANOSECONDS_PER_MS 1000000u
#define FIRST_WAIT_NS      (1 * NANOSECONDS_PER_MS)
#define LONGEST_WAIT_NS    (16 * NANOSECONDS_PER_MS)

/* Between half of `wait` and all of it, so that waiters do not wake in step. */
static uint64_t jittered(uint64_t wait)
{
    char hex[17];
    uint64_t mix = 0;

    store_random_hex(hex);
    for (int i = 0; i < 4; i++)
        mix = mix * 33 + (unsigned char)hex[i];
    return wait / 2 + mix % (wait / 2);
}

/* Polls, because a blocking flock could not be given a deadline without a signal. Returns 0 or
 * -errno, -ETIMEDOUT after the deadline. */
static int wait_for(int fd, int deadline_ms)
{
    const uint64_t deadline = deadline_ms > 0 ? (uint64_t)deadline_ms * NANOSECONDS_PER_MS : 0;
    const uint64_t start = os_now();
    uint64_t wait = FIRST_WAIT_NS, slept = 0;

    while (os.flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        /* `slept` too: the loop must end even if the clock stands still */
        if (os_now() - start >= deadline || slept >= deadline)
            return -ETIMEDOUT;
        const uint64_t ns = jittered(wait);
        os.nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
        slept += ns;
        wait = wait * 2 < LONGEST_WAIT_NS ? wait * 2 : LONGEST_WAIT_NS;
    }
    return 0;
}

bool store_lock_file(struct store *s, int fd, int deadline_ms)
{
    const int result = fd < 0 ? fd : wait_for(fd, deadline_ms);

    if (result < 0 && result != -ETIMEDOUT)
        store_complain(s, DOING_LOCK, -result,
                       "no locks, so kernels may be compiled more than once");
    return result >= 0;
}

int store_lock_named(struct store *s, const char *name, int deadline_ms)
{
    if (s->mode != QUERN_CACHE_RW)
        return -1;
    const int directory = store_open_directory(s, "locks", NULL, true);
    const int fd =
        directory < 0 ? directory : directory_open_shared(directory, name, O_RDWR, s->trust);
    if (directory >= 0)
        os.close(directory);
    if (store_lock_file(s, fd, deadline_ms))
        return fd;
    if (fd >= 0)
        os.close(fd);
    return -1;
}

int store_lock(struct store *s, const struct hash128 *key, int deadline_ms)
{
    const struct entry_name name = entry_name(key);

    return store_lock_named(s, name.shard, deadline_ms);
}

void store_unlock(struct store *s, int lock)
{
    (void)s;
    if (lock < 0)
        return;
    /* closing is not enough: a process that was forked meanwhile has the same open file, which
     * would keep the lock */
    os.flock(lock, LOCK_UN);
    os.close(lock);
}
