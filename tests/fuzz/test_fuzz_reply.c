/* SPDX-License-Identifier: MIT */
/* What a worker sends to the host, of any bytes: no reply, or one within its limits. */
#include "base/os.h"
#include "compile/pool.h"
#include "compile/process.h"
#include "t_fuzz.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t covered;
static void instruction(void *user, uint64_t offset, unsigned size, const char *text)
{
    (void)user;
    FUZZ_CHECK(offset == covered && size && strlen(text) <= UINT16_MAX);
    covered += size;
}

static void read_reply(struct process_reply *reply)
{
    struct answer answer;

    if (!answer_read(reply, &answer))
        return;
    FUZZ_CHECK(answer.size <= reply->size && answer.message_size <= reply->size);
    covered = 0;
    if (answer_instructions(&answer, 64, instruction, NULL) == QUERN_OK)
        FUZZ_CHECK(covered == 64);
}

/* One request, answered by these bytes on the socket and those on the pipe. */
static void ask(const void *said, size_t size, const void *printed, size_t printed_size)
{
    static struct process p;
    struct process_reply reply;
    int sock[2], out[2];

    FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock) && !pipe(out));
    FUZZ_CHECK(write(sock[1], said, size) == (ssize_t)size);
    FUZZ_CHECK(write(out[1], printed, printed_size) == (ssize_t)printed_size);
    shutdown(sock[1], SHUT_WR);
    close(out[1]);
    p.sock = sock[0];
    p.pipe = out[0];
    p.pidfd = -1;
    p.id = 0;
    process_call(&p, FRAME_COMPILE, "", 0, 1000, &(struct watch){0}, &reply);
    if (reply.end == PROCESS_ANSWERED)
        read_reply(&reply);
    else
        FUZZ_CHECK(reply.why[0] && (!reply.printed || strlen(reply.printed) <= PROCESS_TAIL));
    os.free(reply.bytes);
    os.free(reply.printed);
    if (p.sock >= 0)
        close(p.sock);
    close(p.pipe);
    close(sock[1]);
}

/* As frames; as the payload of a frame that is right; and as what was printed by a worker that is
 * gone, with the report of its end. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char report[] = REPORT_MARK;
    struct frame_header h;

    if (size > 32768)
        size = 32768;
    uint8_t *const frame = malloc(sizeof h + size);
    FUZZ_CHECK(frame);
    h = frame_make(FRAME_REPLY, 1, data, size);
    memcpy(frame, &h, sizeof h);
    if (size)
        memcpy(frame + sizeof h, data, size);
    ask(data, size, "", 0);
    ask(frame, sizeof h + size, "", 0);
    memcpy(frame, report, REPORT_MARK_BYTES);
    ask("", 0, frame, REPORT_MARK_BYTES);
    memmove(frame + REPORT_MARK_BYTES, data, size);
    ask("", 0, frame, REPORT_MARK_BYTES + size);
    free(frame);
    return 0;
}

FUZZ_MAIN("reply", 3000)
