/* SPDX-License-Identifier: MIT */
/* The loop that answers requests. */
#include "compile/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Appends which system calls were refused since this worker began, for `quern doctor`, and for jobs
 * that fail: a refused call may be why. */
static void add_refused(const struct worker_config *config, struct fields *text)
{
    static const char label[] = "; refused system calls: ";

    fields_add_raw(text, label, sizeof label - 1);
    fields_add_raw(text, config->refused, strnlen(config->refused, REFUSED_BYTES));
}

void job_version(const struct worker_config *config, struct field_reader *request,
                 struct reply *reply)
{
    (void)request;
    reply->outcome = REPLY_DONE;
    if (rtc_version(config, reply) && *config->disassembler) {
        fields_add_raw(&reply->data, ", ", 2);
        comgr_version(config, reply);
    }
    if (*config->refused)
        add_refused(config, &reply->data);
}

static uint64_t microseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* By the kind of the request. */
static worker_job *const jobs[] = {
    [FRAME_COMPILE] = job_compile,   [FRAME_DISASSEMBLE] = job_disassemble,
    [FRAME_METADATA] = job_metadata, [FRAME_TARGETS] = job_targets,
    [FRAME_VERSION] = job_version,
};

static void do_job(const struct worker_config *config, unsigned kind, struct field_reader *request,
                   struct reply *reply)
{
    const uint64_t start = microseconds();

    if (kind < sizeof jobs / sizeof *jobs && jobs[kind])
        jobs[kind](config, request, reply);
    else
        reply_unable(reply, "request kind %u is not known", kind);
    if (reply->outcome != REPLY_DONE && *config->refused)
        add_refused(config, &reply->message);
    reply->microseconds = microseconds() - start;
}

void serve(const struct worker_config *config, int sock)
{
    struct frame_header header;
    uint8_t *payload = NULL;

    while (read_frame(sock, &header, &payload)) {
        struct field_reader request = {payload, payload + header.bytes, false};
        struct reply reply = {.message.grow = realloc, .data.grow = realloc};
        struct fields frame = {.grow = realloc};

        do_job(config, header.kind, &request, &reply);
        fflush(NULL); /* so that what was printed reaches the host before the reply */
        if (reply.message.failed || reply.data.failed) {
            reply.data = (struct fields){.grow = realloc};
            reply.message = (struct fields){.grow = realloc};
            reply_unable(&reply, "the answer does not fit in memory");
        }
        fields_add_u32(&frame, reply.outcome);
        fields_add_u64(&frame, reply.microseconds);
        fields_add_bytes(&frame, reply.message.bytes, reply.message.size);
        fields_add_bytes(&frame, reply.data.bytes, reply.data.size);
        if (!write_frame(sock, FRAME_REPLY, header.id, &frame))
            _exit(1);
        free(frame.bytes);
        free(reply.message.bytes);
        free(reply.data.bytes);
        free(payload);
    }
}
