/* SPDX-License-Identifier: MIT */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *name = "quern";

void command_set_name(const char *n)
{
    name = n;
}
const char *command_name(void)
{
    return name;
}

/* One line whatever the text holds: file names and model files may carry any byte. */
static void print_line(const char *text)
{
    fprintf(stderr, "%s: ", name);
    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f)
            fprintf(stderr, "\\x%02x", c);
        else
            fputc(c, stderr);
    }
    fputc('\n', stderr);
}

static void print_format(const char *format, va_list ap)
{
    char text[4096];

    vsnprintf(text, sizeof text, format, ap);
    print_line(text);
}

int fail(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    print_format(format, ap);
    va_end(ap);
    return EXIT_FAILED;
}

int misuse(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    print_format(format, ap);
    va_end(ap);
    return EXIT_MISUSE;
}

void note(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    print_format(format, ap);
    va_end(ap);
}

int fail_status(quern_status status, const char *about)
{
    const struct quern_error *e = quern_last_error();
    const char *message = e->message[0] ? e->message : quern_status_name(status);

    if (about)
        note("%s: %s", about, message);
    else
        note("%s", message);
    if (e->log[0])
        fprintf(stderr, "%s%s", e->log, e->log[strlen(e->log) - 1] == '\n' ? "" : "\n");
    if (e->reproduce[0])
        note("to see it again: %s", e->reproduce);
    switch (status) {
    case QUERN_E_ARGUMENT:
    case QUERN_E_PROBLEM:
    case QUERN_E_TARGET:
        return EXIT_MISUSE;
    default:
        return EXIT_FAILED;
    }
}

int finish_output(void)
{
    if (fflush(stdout) || ferror(stdout))
        return fail("cannot write the output: %s", strerror(errno));
    return EXIT_OK;
}
