/* SPDX-License-Identifier: MIT */
/* What the worker's jobs read requests and write replies with. */
#include "compile/worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *field_text(struct field_reader *r)
{
    size_t n = 0;
    const uint8_t *const bytes = field_bytes(r, &n);
    char *const text = malloc(n + 1);

    if (!text)
        abort();
    memcpy(text, bytes, n);
    text[n] = 0;
    if (strlen(text) != n)
        r->failed = true; /* a NUL inside is no text */
    return text;
}

void reply_unable(struct reply *reply, const char *format, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    reply->outcome = REPLY_UNABLE;
    reply->message.size = 0;
    fields_add_raw(&reply->message, text, strlen(text));
}
