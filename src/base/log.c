/* SPDX-License-Identifier: MIT */
/* Formats the lines that go to the log callback of a context (log.h). */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_line(struct log *log, enum quern_log_level level, const char *format, ...)
{
    char raw[1024], line[sizeof raw * 4];
    size_t n = 0;
    va_list ap;

    if (!log || !log->function || level > log->level)
        return;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    /* a compiler's log or a file name must not drive the reader's terminal */
    for (const char *c = raw; *c; c++) {
        const unsigned char u = (unsigned char)*c;
        if (u < 0x20 || u == 0x7f)
            n += (size_t)snprintf(line + n, sizeof line - n, "\\x%02x", u);
        else
            line[n++] = *c;
    }
    line[n] = 0;
    lock_take(&log->lock);
    log->function(log->user, level, line);
    lock_give(&log->lock);
}
