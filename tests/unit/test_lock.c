/* SPDX-License-Identifier: MIT */
/*
 * The mutex that survives a fork. The linker's --wrap (Makefile) holds a thread inside of
 * pthread_mutex_init.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/lock.h"
#include "base/thread.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lock lock;
static atomic_bool held, let_go;
static pid_t holding; /* the process whose threads are held */

int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    if (mutex == &lock.mutex && getpid() == holding) {
        atomic_store(&held, true);
        while (!atomic_load(&let_go))
            sched_yield();
    }
    return __real_pthread_mutex_init(mutex, attributes);
}

static void *take_and_give(void *user)
{
    lock_take(user);
    lock_give(user);
    return NULL;
}

/* Forks a child that takes the lock, and ends by a signal if it waits for ever: its status. */
static int status_of_child(void)
{
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        alarm(600);
        take_and_give(&lock);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_child_takes_what_its_parent_was_making(void **state)
{
    pthread_t thread;

    (void)state;
    holding = getpid();
    assert_int_equal(thread_start(&thread, take_and_give, &lock), 0);
    while (!atomic_load(&held))
        sched_yield();
    const int status = status_of_child();
    atomic_store(&let_go, true);
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
}

static void a_child_takes_what_its_parent_holds(void **state)
{
    (void)state;
    lock_take(&lock);
    assert_int_equal(status_of_child(), 0);
    lock_give(&lock);
    assert_int_equal(status_of_child(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_takes_what_its_parent_was_making),
        cmocka_unit_test(a_child_takes_what_its_parent_holds),
    };

    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
