/* SPDX-License-Identifier: MIT */
/* What a host sends to a worker, of any bytes: the worker's own loop answers each frame, or ends.
 * There is no compiler here to load. */
#include "compile/worker.h"
#include "t_fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

/* Serves these bytes, and checks that what comes back is frames. */
static void serve_bytes(const void *bytes, size_t size)
{
    static char none[] = "/nonexistent";
    const struct worker_config config = {.refused = (char[]){""},
                                         .prefix = none,
                                         .code = none,
                                         .target = none,
                                         .file = none,
                                         .compiler = none,
                                         .builtins = none,
                                         .disassembler = none,
                                         .root = none,
                                         .libraries = none,
                                         .temporary = none};
    struct frame_header header;
    uint8_t *payload;
    int sock[2];

    FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
    FUZZ_CHECK(write(sock[0], bytes, size) == (ssize_t)size);
    shutdown(sock[0], SHUT_WR);
    serve(&config, sock[1]);
    close(sock[1]);
    while (read_frame(sock[0], &header, &payload)) {
        struct field_reader r = {payload, payload + header.bytes, false};
        size_t n;
        FUZZ_CHECK(header.kind == FRAME_REPLY);
        FUZZ_CHECK(field_u32(&r) == REPLY_UNABLE); /* nothing can be done without a compiler */
        field_u64(&r);
        field_bytes(&r, &n);
        FUZZ_CHECK(n > 0); /* and it says so */
        field_bytes(&r, &n);
        FUZZ_CHECK(n == 0 && fields_done(&r));
        free(payload);
    }
    close(sock[0]);
}

/* As frames, few enough that all answers fit in the socket; and as the payload of one of each kind
 * that is right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 32768)
        size = 32768;
    serve_bytes(data, size < 1024 ? size : 1024);
    uint8_t *const frame = malloc(sizeof(struct frame_header) + size);
    FUZZ_CHECK(frame);
    for (int kind = FRAME_CONFIGURE; kind <= FRAME_REPLY; kind++) {
        const struct frame_header h = frame_make((enum frame_kind)kind, 7, data, size);
        memcpy(frame, &h, sizeof h);
        if (size)
            memcpy(frame + sizeof h, data, size);
        serve_bytes(frame, sizeof h + size);
    }
    free(frame);
    return 0;
}

FUZZ_MAIN("request", 2000)
