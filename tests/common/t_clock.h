/* SPDX-License-Identifier: MIT */
/*
 * Time as a test wants it, so that no test depends on how fast the machine is: the library's clock
 * stands still, poll waits until something happens, and a deadline passes only where the test says
 * that there is nothing left to wait for. Works through the table of base/os.h: call it while no
 * other thread of the process is in the library.
 */
#ifndef QUERN_TESTS_T_CLOCK_H
#define QUERN_TESTS_T_CLOCK_H

#include <stdbool.h>

/* Holds the monotonic clock. nanosleep moves it on by what was to be slept, and returns at once. A
 * poll for which nothing happens moves it on by its timeout, and returns, once may_pass() is true;
 * null: never. */
void t_clock_hold(bool (*may_pass)(void));

/* The system's clock again. */
void t_clock_release(void);

#endif
