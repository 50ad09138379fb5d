/* SPDX-License-Identifier: MIT */
/* Compiling small sources with the real compiler. */
#ifndef QUERN_TESTS_T_COMPILE_H
#define QUERN_TESTS_T_COMPILE_H

#include "compile/compile.h"

#define T_OPTIONS "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O2\n-std=c++17"
#define T_KERNEL  "extern \"C\" __attribute__((global)) void "

/* A kernel that compiles, for any target. */
extern const char t_add_source[];

/* A source that the compiler is not done with in hours, with these options. */
extern const char t_endless[];
#define T_ENDLESS_OPTIONS T_OPTIONS "\n-fconstexpr-steps=2147483647"

/* A pool of real workers; 0 jobs: as many as CPUs, and 0 ms: a deadline for what hangs. */
struct compiler *t_compiler_open(int jobs, int deadline_ms);
struct compiler_stats t_compiler_stats(struct compiler *c);

quern_status t_compile(struct compiler *c, const char *source, const char *processor,
                       const char *options, struct compile_result *result);

/* With T_OPTIONS; fails the test when it does not compile. */
void t_compile_well(struct compiler *c, const char *source, const char *processor,
                    struct compile_result *result);

#endif
