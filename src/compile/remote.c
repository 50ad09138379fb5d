/* SPDX-License-Identifier: MIT */
/* The host's end of the helper that fetches from a remote cache (remote.h). */
#include "compile/remote.h"

#include "base/os.h"
#include "base/str.h"
#include "compile/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* How often one call is made again that a signal interrupts. */
#define INTERRUPTIONS 100
/* How often, and how long each time, the helper is waited for that has much to read. An entry of
 * 16 MB fills the socket's buffer about a hundred times. */
#define STORE_WAITS   1000
#define STORE_WAIT_MS 20
/* How long one look of remote_await for an answer lasts. */
#define AWAIT_SLICE_MS 100

struct remote {
    struct process *process;
    /* the frame that is being received */
    struct frame_header in;
    uint8_t *payload;
    size_t received;
    bool ready, hopeless;
    int patience_ms;
    char about[320];
};

/* Sends a whole frame, or fails: one is far smaller than the socket's buffer, which is full only if
 * the helper has stopped reading. */
static bool send_frame(struct remote *r, enum frame_kind kind, uint64_t id,
                       const struct fields *payload)
{
    const struct frame_header header = frame_make(kind, id, payload->bytes, payload->size);
    struct fields frame = {.grow = os.realloc};

    fields_add_raw(&frame, &header, sizeof header);
    fields_add_raw(&frame, payload->bytes, payload->size);
    ssize_t n = -1;
    errno = EINTR;
    for (int i = 0;
         !payload->failed && !frame.failed && n < 0 && errno == EINTR && i < INTERRUPTIONS; i++)
        n = os.send(r->process->sock, frame.bytes, frame.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    const bool sent = n >= 0 && (size_t)n == frame.size;
    os.free(frame.bytes);
    return sent;
}

static bool configure(struct remote *r, const struct remote_config *config)
{
    static const struct remote_credentials none;
    const struct remote_credentials *const c = config->credentials ? config->credentials : &none;
    struct fields fields = {.grow = os.realloc};

    fields_add_text(&fields, PROTOCOL_BUILD);
    fields_add_text(&fields, config->url);
    fields_add_u32(&fields, config->follow);
    fields_add_u32(&fields, (uint32_t)config->patience_ms);
    fields_add_text(&fields, config->certificates);
    fields_add_text(&fields, c->region);
    fields_add_text(&fields, c->key_id);
    fields_add_text(&fields, c->secret);
    fields_add_text(&fields, c->token);
    const bool sent = send_frame(r, FRAME_CONFIGURE, 0, &fields);
    os.free(fields.bytes);
    return sent;
}

struct remote *remote_adopt(struct process *process)
{
    struct remote *const r = os.calloc(1, sizeof *r);

    if (r) {
        r->process = process;
        r->patience_ms = REMOTE_PATIENCE_MS;
    }
    return r;
}

quern_status remote_start(const struct remote_config *config, struct remote **remote)
{
    char *const arguments[] = {(char *)(uintptr_t)config->path, "serve", NULL};
    char *const environment[] = {NULL};
    const char *stage = "open";
    struct process *process = NULL;
    int error = 0;

    int program = os.open(config->path, O_PATH | O_CLOEXEC, 0);
    if (program >= 0 && program <= 9) { /* the program's own descriptors are put there */
        const int high = os.fcntl(program, F_DUPFD_CLOEXEC, 10);
        os.close(program);
        program = high;
    }
    if (program < 0) {
        error = errno;
    } else {
        error = process_spawn(&(struct spawn){.program = program,
                                              .argument_file = -1,
                                              .arguments = arguments,
                                              .environment = environment},
                              &process, &stage);
        os.close(program);
    }
    FAIL_IF(error,
            !strcmp(stage, "open") || !strcmp(stage, "exec") ? QUERN_E_TOOLCHAIN
            : error == ENOMEM                                ? QUERN_E_MEMORY
                                                             : QUERN_E_IO,
            "cannot start the remote cache's helper %s: %s: %s", config->path, stage,
            strerror(error));
    struct remote *const r = remote_adopt(process);
    if (!r) {
        process_stop(process);
        FAIL(QUERN_E_MEMORY, "out of memory for the remote cache's helper");
    }
    r->patience_ms = config->patience_ms;
    if (!configure(r, config)) {
        remote_stop(r);
        FAIL(QUERN_E_IO, "the remote cache's helper %s ended at once", config->path);
    }
    *remote = r;
    return QUERN_OK;
}

static void free_remote(struct remote *r)
{
    os.free(r->payload);
    os.free(r);
}

void remote_stop(struct remote *r)
{
    if (!r)
        return;
    /* killed first, as one that hangs, or was stopped, would be waited for */
    if (r->process->pidfd >= 0)
        os.pidfd_send_signal(r->process->pidfd, SIGKILL);
    process_stop(r->process);
    free_remote(r);
}

void remote_forget(struct remote *r)
{
    if (!r)
        return;
    process_forget(r->process);
    free_remote(r);
}

bool remote_fetch(struct remote *r, const char *name, uint64_t id)
{
    struct fields fields = {.grow = os.realloc};

    fields_add_text(&fields, name);
    const bool sent = send_frame(r, FRAME_FETCH, id, &fields);
    os.free(fields.bytes);
    return sent;
}

/* The payload of FRAME_STORE, whose bytes the caller frees. */
static struct fields store_payload(const char *name, const void *bytes, size_t size, bool if_absent)
{
    struct fields payload = {.grow = os.realloc};
    unsigned char digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof digest + 1];

    crypto_hash_sha256(digest, bytes, size); /* which object stores want to have signed */
    hex_from_bytes(hex, digest, sizeof digest);
    fields_add_text(&payload, name);
    fields_add_text(&payload, hex);
    fields_add_u32(&payload, if_absent);
    fields_add_bytes(&payload, bytes, size);
    return payload;
}

bool remote_store_note(struct remote *r, const char *name, const void *bytes, size_t size,
                       bool if_absent, uint64_t id)
{
    const struct fields payload = store_payload(name, bytes, size, if_absent);
    const bool sent = send_frame(r, FRAME_STORE, id, &payload);

    os.free(payload.bytes);
    return sent;
}

bool remote_store(struct remote *r, const char *name, const void *bytes, size_t size, uint64_t id)
{
    const struct fields payload = store_payload(name, bytes, size, false);
    struct fields frame = {.grow = os.realloc};
    size_t sent = 0;

    const struct frame_header header = frame_make(FRAME_STORE, id, payload.bytes, payload.size);
    fields_add_raw(&frame, &header, sizeof header);
    fields_add_raw(&frame, payload.bytes, payload.size);
    bool good = !payload.failed && !frame.failed;
    for (int waits = 0; good && sent < frame.size;) {
        const ssize_t n = os.send(r->process->sock, frame.bytes + sent, frame.size - sent,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
        struct pollfd room = {r->process->sock, POLLOUT, 0};
        if (n > 0)
            sent += (size_t)n;
        else if (n < 0 && (errno == EAGAIN || errno == EINTR) && waits++ < STORE_WAITS)
            os.poll(&room, 1, STORE_WAIT_MS);
        else
            good = false;
    }
    os.free(payload.bytes);
    os.free(frame.bytes);
    return good;
}

bool remote_cancel(struct remote *r, uint64_t id)
{
    return send_frame(r, FRAME_CANCEL, id, &(struct fields){0});
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* The helper's greeting; false: it cannot work. */
static bool take_greeting(struct remote *r)
{
    struct field_reader f = {r->payload, r->payload + r->in.bytes, false};
    size_t n[4] = {0};
    const uint8_t *texts[4];

    for (int i = 0; i < 4; i++)
        texts[i] = field_bytes(&f, &n[i]);
    const bool same = fields_done(&f) && n[0] == strlen(PROTOCOL_BUILD) &&
                      !memcmp(texts[0], PROTOCOL_BUILD, n[0]);
    r->hopeless = !same || n[2];
    if (!same)
        snprintf(r->about, sizeof r->about, "it is of another release than " PROTOCOL_BUILD);
    else if (n[2])
        snprintf(r->about, sizeof r->about, "%.*s", (int)n[2], (const char *)texts[2]);
    else
        snprintf(r->about, sizeof r->about, "%.*s; %.*s", (int)n[3], (const char *)texts[3],
                 (int)n[1], (const char *)texts[1]);
    r->ready = true;
    return !r->hopeless;
}

static bool take_answer(struct remote *r, struct remote_answer *answer)
{
    struct field_reader f = {r->payload, r->payload + r->in.bytes, false};
    size_t message_bytes = 0, size = 0;

    *answer = (struct remote_answer){.id = r->in.id};
    answer->outcome = (enum reply_outcome)field_u32(&f);
    answer->microseconds = field_u64(&f);
    const uint8_t *const message = field_bytes(&f, &message_bytes);
    const uint8_t *const data = field_bytes(&f, &size);
    if (!fields_done(&f) || size > FETCH_BYTES_MAX)
        return false;
    snprintf(answer->message, sizeof answer->message, "%.*s", (int)message_bytes,
             (const char *)message);
    if (answer->outcome != REPLY_DONE)
        return true;
    /* the answer is given the frame's memory: fresh memory for each would cost more than moving the
     * bytes to its beginning */
    memmove(r->payload, data, size);
    answer->bytes = r->payload;
    answer->size = size;
    r->payload = NULL;
    return true;
}

enum progress { WAITING, COMPLETE, ENDED };

static enum progress receive_frame(struct remote *r)
{
    int interruptions = 0;

    for (;;) {
        const bool head = r->received < sizeof r->in;
        const size_t total = sizeof r->in + (head ? 0 : r->in.bytes);
        if (!head && r->received == total) {
            r->received = 0;
            return frame_digest(&r->in, r->payload) == r->in.digest ? COMPLETE : ENDED;
        }
        uint8_t *const to =
            head ? (uint8_t *)&r->in + r->received : r->payload + (r->received - sizeof r->in);
        const ssize_t n = os.recv(r->process->sock, to, total - r->received, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR && ++interruptions < INTERRUPTIONS)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return WAITING;
        if (n <= 0)
            return ENDED;
        r->received += (size_t)n;
        if (head && r->received == sizeof r->in) {
            if (!frame_plausible(&r->in) || r->in.bytes > FETCH_BYTES_MAX + 4096)
                return ENDED;
            uint8_t *const old = r->payload;
            r->payload = NULL; /* first: a child forked by another thread frees what it finds */
            os.free(old);
            r->payload = os.malloc(r->in.bytes ? r->in.bytes : 1);
            if (!r->payload)
                return ENDED;
        }
    }
}

enum remote_event remote_receive(struct remote *r, struct remote_answer *answer)
{
    for (;;) {
        const enum progress progress = receive_frame(r);
        if (progress == WAITING)
            return REMOTE_NOTHING;
        if (progress == ENDED)
            break;
        if (r->in.kind == FRAME_READY && !r->ready) {
            if (!take_greeting(r))
                return REMOTE_GONE;
        } else if (r->in.kind == FRAME_REPLY && r->ready) {
            return take_answer(r, answer) ? REMOTE_ANSWER : REMOTE_GONE;
        } else {
            break;
        }
    }
    return REMOTE_GONE;
}

int remote_socket(const struct remote *r)
{
    return r->process->sock;
}

void remote_wait(int fd, int wait_ms)
{
    struct pollfd poll = {fd, POLLIN, 0};

    os.poll(&poll, 1, wait_ms);
}

bool remote_await(struct remote *r, struct remote_answer *answer, char *why, size_t why_size)
{
    const uint64_t until = os_now() + (uint64_t)REMOTE_HUNG_MS(r->patience_ms) * 1000000;
    enum remote_event event;

    while ((event = remote_receive(r, answer)) == REMOTE_NOTHING && os_now() < until)
        remote_wait(remote_socket(r), AWAIT_SLICE_MS);
    if (event == REMOTE_NOTHING)
        snprintf(why, why_size, "its helper quern-remote hangs");
    else if (event == REMOTE_GONE)
        snprintf(why, why_size, "its helper quern-remote ended%s%s", r->hopeless ? ": " : "",
                 r->hopeless ? r->about : "");
    return event == REMOTE_ANSWER;
}

const char *remote_about(const struct remote *r)
{
    return r->about;
}

bool remote_hopeless(const struct remote *r)
{
    return r->hopeless;
}
