/* SPDX-License-Identifier: MIT */
/* What the helper that fetches from a remote cache says to the host, of any bytes: answers within
 * their limits, or the end of it. */
#include "base/os.h"
#include "compile/process.h"
#include "compile/remote.h"
#include "t_fuzz.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A helper that says these bytes and hangs up. */
static void hear(const void *first, size_t first_size, const void *said, size_t size)
{
    struct process *const p = os.calloc(1, sizeof *p);
    struct remote_answer answer;
    enum remote_event event;
    int sock[2];

    FUZZ_CHECK(p && !socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
    FUZZ_CHECK(write(sock[1], first, first_size) == (ssize_t)first_size);
    FUZZ_CHECK(write(sock[1], said, size) == (ssize_t)size);
    close(sock[1]);
    *p = (struct process){.sock = sock[0], .pipe = -1, .pidfd = -1};
    struct remote *const remote = remote_adopt(p);
    FUZZ_CHECK(remote);
    while ((event = remote_receive(remote, &answer)) == REMOTE_ANSWER) {
        FUZZ_CHECK(answer.size <= size && strlen(answer.message) < sizeof answer.message);
        FUZZ_CHECK(!answer.size || answer.bytes);
        os.free(answer.bytes);
    }
    FUZZ_CHECK(event == REMOTE_GONE);
    FUZZ_CHECK(strlen(remote_about(remote)) < 400);
    remote_stop(remote);
}

/* As frames; as a greeting; and as the payload of an answer behind a right greeting. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fields hello = {.grow = realloc};
    struct frame_header h;

    if (size > 32768)
        size = 32768;
    uint8_t *const frame = malloc(sizeof h + size);
    FUZZ_CHECK(frame);
    hear("", 0, data, size);
    h = frame_make(FRAME_READY, 0, data, size);
    memcpy(frame, &h, sizeof h);
    if (size)
        memcpy(frame + sizeof h, data, size);
    hear(frame, sizeof h + size, "", 0);

    struct fields greeting = {.grow = realloc};
    fields_add_text(&hello, PROTOCOL_BUILD);
    for (int i = 0; i < 3; i++)
        fields_add_text(&hello, "");
    h = frame_make(FRAME_READY, 0, hello.bytes, hello.size);
    fields_add_raw(&greeting, &h, sizeof h);
    fields_add_raw(&greeting, hello.bytes, hello.size);
    h = frame_make(FRAME_REPLY, 7, data, size);
    memcpy(frame, &h, sizeof h);
    hear(greeting.bytes, greeting.size, frame, sizeof h + size);
    free(hello.bytes);
    free(greeting.bytes);
    free(frame);
    return 0;
}

FUZZ_MAIN("fetched", 3000)
