/* SPDX-License-Identifier: MIT */
/* Formats the lines that go to the log callback of a context (log.h). */
#include "base/log.h"

#include <quern/tool.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void log_line(struct log *log, enum quern_log_level level, const char *format, ...)
{
    char raw[1024], line[sizeof raw * 4];
    va_list ap;

    if (!log || !log->function || level > log->level)
        return;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    /* a compiler's log or a file name must not drive the reader's terminal */
    quern_text_shown(QUERN_SHOWN_LINE, raw, strlen(raw), line, sizeof line);
    lock_take(&log->lock);
    log->function(log->user, level, line);
    lock_give(&log->lock);
}
