/* SPDX-License-Identifier: MIT */
/*
 * The record of a run: one line "target=gfx1151 m=1-8 PROBLEM" for each layer asked for, appended
 * by a single write, so that processes that share the file do not mix. `quern prewarm --manifest`
 * replays it.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void record_op(quern_ctx *ctx, const char *problem, int64_t m_lo, int64_t m_hi)
{
    char line[QUERN_TEXT_MAX + 128];

    if (!ctx->settings.record)
        return;
    const int n = snprintf(line, sizeof line, "target=%s m=%" PRId64 "-%" PRId64 " %s\n",
                           ctx->id.target->name, m_lo, m_hi, problem);
    /* O_NONBLOCK: a fifo without a reader must not hold the host up */
    const int fd = os.open(ctx->settings.record,
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    const bool written = fd >= 0 && os.write(fd, line, (size_t)n) == n;
    const int error = errno;
    if (fd >= 0)
        os.close(fd);
    if (!written && !atomic_exchange(&ctx->record_failed, true))
        log_line(&ctx->log, QUERN_LOG_WARN, "%s (QUERN_RECORD) cannot be written: %s (said once)",
                 ctx->settings.record, strerror(error));
}
