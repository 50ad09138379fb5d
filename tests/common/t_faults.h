/* SPDX-License-Identifier: MIT */
/*
 * A table of operating system calls in which the Nth call fails, once or with all after it. Calls
 * that cannot fail, and the rest of a worker's life (tests/fault/test_worker_host.c), pass.
 */
#ifndef T_FAULTS_H
#define T_FAULTS_H

#include "base/os.h"

#include <stdatomic.h>
#include <stdbool.h>

extern struct t_faults {
    struct os real;
    unsigned fail_at; /* from 1; 0: only count */
    bool for_ever;
    int error;
    atomic_uint calls, failed; /* made since t_faults_on, and how many of them failed */
    atomic_int blocks;         /* of memory taken since then and not given back */
} t_faults;

/* Replaces os, and puts it back. No other thread may run. */
void t_faults_on(unsigned fail_at, int error, bool for_ever);
void t_faults_off(void);

/* The replacement, for tests that put another in front of it. */
int t_faults_openat(int directory, const char *path, int flags, mode_t mode);

#endif
