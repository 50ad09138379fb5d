/* SPDX-License-Identifier: MIT */
/* How verbs report: lines on stderr, and the exit status that goes with them (command.h). */
#include "files/json_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name = "quern";
static bool as_json;

void command_set_json(void)
{
    as_json = true;
}

void command_set_name(const char *n)
{
    name = n;
}
const char *command_name(void)
{
    return name;
}

#define MESSAGE_MAX 4096

/* One write, so that lines of other processes do not come between. */
static void print_line(const char *text)
{
    char line[64 + 2 * MESSAGE_MAX];
    size_t n = (size_t)snprintf(line, 60, "%.50s: ", name);

    n += quern_text_shown(QUERN_SHOWN_LINE, text, strlen(text), line + n, sizeof line - n - 1);
    line[n++] = '\n';
    fwrite(line, 1, n, stderr);
}

/* The same of what failed as an object on a line: with the exit status and, if it came from the
 * library, its status. */
static void print_object(const char *text, int exit_status, quern_status status)
{
    json_t *const object =
        json_make("{s:s, s:s, s:i}", "verb", name, "error", text, "exit", exit_status);
    /* a byte of the text is at most the six of a character that JSON escapes */
    char *line = NULL, shown[256 + 6 * MESSAGE_MAX];

    if (object &&
        (!status || !json_object_set_new(object, "status", json_words(quern_status_name(status)))))
        line = json_dumps(object, JSON_COMPACT);
    if (line) { /* JSON allows characters that a terminal obeys, but they may be escaped in it */
        quern_text_shown(QUERN_SHOWN_LINE, line, strlen(line), shown, sizeof shown);
        fprintf(stderr, "%s\n", shown);
    } else {
        print_line(text);
    }
    free(line);
    json_decref(object);
}

static void say(int exit_status, quern_status status, const char *format, va_list ap)
{
    char text[MESSAGE_MAX];

    vsnprintf(text, sizeof text, format, ap);
    if (as_json && exit_status)
        print_object(text, exit_status, status);
    else
        print_line(text);
}

int fail(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say(EXIT_FAILED, QUERN_OK, format, ap);
    va_end(ap);
    return EXIT_FAILED;
}

int misuse(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say(EXIT_MISUSE, QUERN_OK, format, ap);
    va_end(ap);
    return EXIT_MISUSE;
}

int impossible(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say(EXIT_IMPOSSIBLE, QUERN_OK, format, ap);
    va_end(ap);
    return EXIT_IMPOSSIBLE;
}

void note(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say(EXIT_OK, QUERN_OK, format, ap);
    va_end(ap);
}

/* Says that the work failed with a status of the library's; returns the exit status. */
static int tell_failure(quern_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int tell_failure(quern_status status, const char *format, ...)
{
    const bool wrong =
        status == QUERN_E_ARGUMENT || status == QUERN_E_PROBLEM || status == QUERN_E_TARGET;
    const int exit_status = wrong ? EXIT_MISUSE : EXIT_FAILED;
    va_list ap;

    va_start(ap, format);
    say(exit_status, status, format, ap);
    va_end(ap);
    return exit_status;
}

int fail_status(quern_status status, const char *about)
{
    const struct quern_error *e = quern_last_error();
    const bool no_target = status == QUERN_E_TARGET && e->remedy[0];
    const char *message = no_target       ? e->fact
                          : e->message[0] ? e->message
                                          : quern_status_name(status);

    const int exit_status =
        tell_failure(status, "%s%s%s%s", about ? about : "", about ? ": " : "", message,
                     no_target ? "; give --target or QUERN_TARGET a name such as gfx1151" : "");
    if (e->log[0]) /* the library has made it safe to print */
        fprintf(stderr, "%s%s", e->log, e->log[strlen(e->log) - 1] == '\n' ? "" : "\n");
    if (e->reproduce[0])
        note("to see it again: %s", e->reproduce);
    return exit_status;
}

/* ---- What goes to stdout --------------------------------------------------------------------- */

const char *shown_line(const char *text)
{
    static char rooms[8][2 * MESSAGE_MAX];
    static unsigned next;
    char *const room = rooms[next++ % 8];

    quern_text_shown(QUERN_SHOWN_LINE, text, strlen(text), room, sizeof rooms[0]);
    return room;
}

/* How many of the last bytes may be the beginning of a character whose rest is not there yet. */
static size_t unfinished(const char *bytes, size_t size)
{
    for (size_t n = 1; n <= 3 && n <= size; n++) {
        const unsigned char c = (unsigned char)bytes[size - n];
        if ((c & 0xc0) == 0x80)
            continue;
        return c >= (n == 1 ? 0xc0 : n == 2 ? 0xe0 : 0xf0) ? n : 0;
    }
    return 0;
}

/* Writes all of it; false with errno. A call that is interrupted without end is given up. */
static bool write_all(const char *bytes, size_t size)
{
    int tries = 100;

    while (size) {
        const ssize_t n = write(STDOUT_FILENO, bytes, size);
        if (n < 0 && (errno != EINTR || !--tries))
            return false;
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Takes what stdio's buffer of stdout holds. Bytes of a character that is cut in two wait in `held`
 * for the rest: every output ends with a line feed, which leaves none behind. */
static ssize_t write_shown(void *cookie, const char *bytes, size_t size)
{
    static char held[3];
    static size_t held_bytes;
    char raw[1024 + sizeof held], shown[6 * sizeof raw + 1];

    (void)cookie;
    for (size_t done = 0; done < size;) {
        const size_t part = size - done < 1024 ? size - done : 1024;
        memcpy(raw, held, held_bytes);
        memcpy(raw + held_bytes, bytes + done, part);
        const size_t n = held_bytes + part;
        held_bytes = unfinished(raw, n);
        memcpy(held, raw + n - held_bytes, held_bytes);
        if (!write_all(shown, quern_text_shown(QUERN_SHOWN_LINES, raw, n - held_bytes, shown,
                                               sizeof shown)))
            return 0; /* what stdio takes for a failure */
        done += part;
    }
    return (ssize_t)size;
}

bool begin_output(void)
{
    FILE *const safe = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_shown});

    if (!safe)
        return false;
    if (isatty(STDOUT_FILENO))
        setvbuf(safe, NULL, _IOLBF, BUFSIZ);
    stdout = safe;
    return true;
}

int finish_output(void)
{
    if (fflush(stdout) || ferror(stdout))
        return fail("cannot write the output: %s", strerror(errno));
    return EXIT_OK;
}
