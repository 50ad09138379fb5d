/* SPDX-License-Identifier: MIT */
/* The log of a context. The library itself never prints; a null callback drops every line. */
#ifndef QUERN_BASE_LOG_H
#define QUERN_BASE_LOG_H

#include "base/lock.h"

#include <quern/quern.h>

struct log {
    quern_log_fn function; /* may be null */
    void *user;
    enum quern_log_level level;
    struct lock lock; /* the callback runs one call at a time */
};

/* Thread-safe. `log` may be null. The text is made safe to print (quern_text_shown). */
void log_line(struct log *log, enum quern_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
