/* SPDX-License-Identifier: MIT */
/* Frames on the side of the worker, and of the helper that fetches from a remote cache. */
#include "compile/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

static bool read_all(int sock, void *to, size_t n)
{
    for (size_t got = 0; got < n;) {
        const ssize_t r = recv(sock, (char *)to + got, n - got, 0);
        if (r == 0 || (r < 0 && errno != EINTR))
            return false;
        got += r > 0 ? (size_t)r : 0;
    }
    return true;
}

/* Sends parts, one behind the other, by one call as a rule: the host is woken once. */
static bool write_all(int sock, struct iovec *parts, size_t count)
{
    while (count) {
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        const ssize_t n = sendmsg(sock, &message, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        size_t sent = n > 0 ? (size_t)n : 0;
        for (; count && sent >= parts->iov_len; parts++, count--)
            sent -= parts->iov_len;
        if (count) {
            parts->iov_base = (char *)parts->iov_base + sent;
            parts->iov_len -= sent;
        }
    }
    return true;
}

bool read_frame(int sock, struct frame_header *header, uint8_t **payload)
{
    if (!read_all(sock, header, sizeof *header) || !frame_plausible(header))
        return false;
    *payload = malloc(header->bytes ? header->bytes : 1);
    if (*payload && read_all(sock, *payload, header->bytes) &&
        frame_digest(header, *payload) == header->digest)
        return true;
    free(*payload);
    return false;
}

bool write_frame(int sock, enum frame_kind kind, uint64_t id, const struct fields *payload)
{
    if (payload->failed)
        return false;
    const struct frame_header header = frame_make(kind, id, payload->bytes, payload->size);
    struct iovec parts[] = {{(void *)(uintptr_t)&header, sizeof header},
                            {payload->bytes, payload->size}};
    return write_all(sock, parts, 2);
}
