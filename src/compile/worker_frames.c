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

static bool write_all(int sock, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t r = send(sock, (const char *)from + done, n - done, MSG_NOSIGNAL);
        if (r < 0 && errno != EINTR)
            return false;
        done += r > 0 ? (size_t)r : 0;
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
    return write_all(sock, &header, sizeof header) &&
           write_all(sock, payload->bytes, payload->size);
}
