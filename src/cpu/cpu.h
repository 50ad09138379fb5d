/* SPDX-License-Identifier: MIT */
/*
 * Runs the text of a kernel for NVIDIA on the CPU, for verification: the host's C++ compiler makes
 * a program of it and of machine.cpp, which has a multiprocessor's memory, barriers and matrix
 * units in C++ and faults on races, on reads of what nobody wrote, out of bounds, and at deadlocks.
 * That judges the text and not what NVRTC makes of it.
 *
 * Functions are thread-safe. They block while programs run, and keep what they write in a directory
 * of their own, in memory where the system has one there, which is gone when they return.
 */
#ifndef QUERN_CPU_CPU_H
#define QUERN_CPU_CPU_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPU_ARGUMENTS_MAX 24

/* One argument of a kernel: a number, or the address of an operand. */
struct cpu_argument {
    const char *name; /* of an operand, in messages; null: a number */
    void *at;         /* the operand's bytes on the host */
    size_t bytes;     /* of the operand, or of the number: 4 or 8 */
    bool written;     /* the kernel writes the operand: it is read back */
    bool late;        /* the launch in front may write what the kernel reads here */
    bool typed;       /* instead: it is read back, and written if the kernel's parameter says so */
    int64_t value;    /* of a number */
};

struct cpu_launch {
    uint32_t grid[2], threads;
    uint32_t shared_bytes; /* of a workgroup */
    uint64_t seed;         /* of the order in which warps take turns and copies land */
    size_t count;
    struct cpu_argument arguments[CPU_ARGUMENTS_MAX]; /* in the kernel's order */
};

/*
 * Runs a launch of the kernel that `source` defines SYMBOL as. QUERN_E_TOOLCHAIN: no C++ compiler
 * was found. QUERN_E_COMPILE: it refuses the source; its log is in the error. QUERN_E_FAULT: the
 * message says which mistake was found, where and by which thread. QUERN_E_IO, QUERN_E_MEMORY.
 */
quern_status cpu_run(const char *source, const struct cpu_launch *launch);

/* The same in steps, for several launches of one kernel: its program, which cpu_program_free
 * removes. One launch at a time. */
struct cpu_program;
quern_status cpu_program_make(const char *source, struct cpu_program **program);
quern_status cpu_program_run(struct cpu_program *program, const struct cpu_launch *launch);
void cpu_program_free(struct cpu_program *program);

#endif
