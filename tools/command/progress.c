/* SPDX-License-Identifier: MIT */
/* Draws the progress bar (progress.h). */
#include "command/progress.h"

#include <quern/tool.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BAR 24

static bool drawn;

void progress_draw(const char *label, size_t done, size_t total, const char *what)
{
    struct winsize window;
    char bar[BAR + 1], raw[256], line[2 * sizeof raw];

    if (!isatty(STDERR_FILENO))
        return;
    const size_t filled = total ? BAR * done / total : BAR;
    memset(bar, ' ', BAR);
    memset(bar, '=', filled < BAR ? filled : BAR);
    bar[BAR] = 0;
    snprintf(raw, sizeof raw, "%s [%s] %zu/%zu %s", label, bar, done, total, what);
    quern_text_shown(QUERN_SHOWN_LINE, raw, strlen(raw), line, sizeof line);
    /* cut to the terminal's width: a line that wraps could not be overwritten */
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) || !window.ws_col ? 80 : window.ws_col;
    fprintf(stderr, "\r\033[K%.*s", columns - 1, line);
    fflush(stderr);
    drawn = true;
}

void progress_clear(void)
{
    if (drawn)
        fputs("\r\033[K", stderr);
    drawn = false;
}
