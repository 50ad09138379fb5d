/* SPDX-License-Identifier: MIT */
/* What the command's readers report with, silent, and their input as a file. For one fuzz target's
 * file each. */
#ifndef TESTS_FUZZ_SILENT_H
#define TESTS_FUZZ_SILENT_H

#include "command/command.h"
#include "t_fuzz.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int complaints;

static void complain(const char *format, va_list ap)
{
    char text[4096];

    vsnprintf(text, sizeof text, format, ap);
    FUZZ_CHECK(text[0]);
    complaints++;
}

int fail(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    complain(format, ap);
    va_end(ap);
    return EXIT_FAILED;
}

int misuse(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    complain(format, ap);
    va_end(ap);
    return EXIT_MISUSE;
}

int fail_status(quern_status status, const char *about)
{
    return status ? fail("%s", about ? about : "failed") : EXIT_OK;
}

int finish_output(void)
{
    return EXIT_OK;
}

void note(const char *format, ...)
{
    (void)format;
}

const char *command_name(void)
{
    return "fuzz";
}

/* A file in memory; its path is valid until it is closed. */
static inline int fuzz_file(const uint8_t *data, size_t size, char path[64])
{
    const int fd = memfd_create("fuzz", 0);

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
