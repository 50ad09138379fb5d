/* SPDX-License-Identifier: MIT */
/* Examples that read a model end at the first thing that is wrong, with one line that says what. */
#ifndef EXAMPLES_FAIL_H
#define EXAMPLES_FAIL_H

#include <stddef.h>

#include <quern/quern.h>

/* Prints the program's name and the message, which is a printf format, to stderr; exits with status
 * 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Unless status is QUERN_OK, fails with quern's own account of what went wrong. */
void check(quern_status status, const char *doing);

/* Memory that is there, zeroed. */
void *allocate(size_t count, size_t size);

#endif
