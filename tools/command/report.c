/* SPDX-License-Identifier: MIT */
/* How verbs report: lines on stderr, and the exit status that goes with them (command.h). */
#include "command/command.h"

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

#define MESSAGE_MAX 4096

/* Prints a text as one line: control characters, which file names and model files may have, are
 * shown as \xNN. It is one write, so that lines of other processes do not come between. */
static void print_line(const char *text)
{
    char line[64 + 4 * MESSAGE_MAX];
    size_t n = (size_t)snprintf(line, 60, "%.50s: ", name);

    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f)
            n += (size_t)sprintf(line + n, "\\x%02x", c);
        else
            line[n++] = *p;
    }
    line[n++] = '\n';
    fwrite(line, 1, n, stderr);
}

static void print_format(const char *format, va_list ap)
{
    char text[MESSAGE_MAX];

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
