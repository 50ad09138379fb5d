/* SPDX-License-Identifier: MIT */
#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Noreturn void fail(const char *format, ...)
{
    va_list ap;

    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    /* at once: what is still allocated is the system's to take back, and no leak */
    _exit(1);
}

void check(quern_status status, const char *doing)
{
    if (status != QUERN_OK)
        fail("%s: %s: %s", doing, quern_status_name(status), quern_last_error()->message);
}

void *allocate(size_t count, size_t size)
{
    void *const memory = calloc(count ? count : 1, size);

    if (!memory)
        fail("out of memory (%zu x %zu bytes)", count, size);
    return memory;
}
