/* SPDX-License-Identifier: MIT */
/* One worker process, as the pool sees it (process.h): requests and replies, what it printed last,
 * and how it ended. This file is long because what a process does wrong is told apart in one place.
 */
#include "compile/process.h"
#include "compile/compilers.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* How long a worker that has hung up may take to print its last words, and then to end before it is
 * killed. */
#define LAST_WORDS_MS 300
#define ENDING_MS     5000

static int milliseconds_until(uint64_t when)
{
    const uint64_t now = os_now();

    /* rounded up: poll must not return just before the moment */
    return now >= when ? 0 : (int)((when - now + 999999) / 1000000);
}

/* How many times an interrupted system call (EINTR) is made again. A host's signals interrupt calls
 * now and then; one that waits is perhaps interrupted as often as a profiler's timer ticks. A call
 * that is interrupted much more often does nothing but fail, and would be repeated without end. */
#define INTERRUPTIONS   1000
#define INTERRUPTION_MS 4 /* a call that waits may have one more for so many milliseconds */

struct patience {
    uint64_t since; /* when the first interruption came */
    uint64_t interruptions;
};

/* Whether a call that failed is to be made again; `waits`: it is one that waits. */
static bool again(struct patience *p, bool waits)
{
    if (errno != EINTR)
        return false;
    const uint64_t now = os_now();
    if (!p->interruptions++)
        p->since = now;
    errno = EINTR;
    return p->interruptions <
           INTERRUPTIONS + (waits ? (now - p->since) / (INTERRUPTION_MS * 1000000) : 0);
}

/* ---- What it prints -------------------------------------------------------------------------- */

#define READ_BYTES 16384

/* Reads once; false at end of file. */
static bool drain(struct process *p, struct patience *patience)
{
    char block[READ_BYTES];
    const ssize_t n = os.read(p->pipe, block, sizeof block);

    for (ssize_t i = 0; i < n; i++)
        p->tail[p->printed++ % PROCESS_TAIL] = block[i];
    return n > 0 || (n < 0 && (errno == EAGAIN || again(patience, false)));
}

/* Reads after the deadline, for what was printed while this process was held up for longer. */
#define LATE_READS (PROCESS_TAIL / READ_BYTES + 1)

/* Reads what the worker prints until all its processes have closed the pipe, or the time is over.
 */
static void drain_all(struct process *p, int within_ms)
{
    const uint64_t deadline = os_now() + (uint64_t)within_ms * 1000000;
    struct pollfd poll = {p->pipe, POLLIN, 0};
    struct patience patience = {0};

    for (int late = 0; late < LATE_READS;) {
        const int wait = milliseconds_until(deadline);
        const int n = os.poll(&poll, 1, wait);
        if ((n > 0 && !drain(p, &patience)) || (n < 0 && !again(&patience, true)) ||
            (n == 0 && !wait))
            return;
        late += !wait;
    }
}

/* What was printed last, malloc'ed, of *size bytes with a NUL behind; null when out of memory. */
static char *printed_text(const struct process *p, size_t *size)
{
    const size_t n = p->printed < PROCESS_TAIL ? p->printed : PROCESS_TAIL;
    char *const text = os.malloc(n + 1);

    if (!text)
        return NULL;
    for (size_t i = 0; i < n; i++)
        text[i] = p->tail[(p->printed - n + i) % PROCESS_TAIL];
    text[n] = 0;
    *size = n;
    return text;
}

static const char *signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGABRT, "SIGABRT, abort"},
                 {SIGSEGV, "SIGSEGV, invalid memory reference"},
                 {SIGBUS, "SIGBUS, bus error"},
                 {SIGILL, "SIGILL, illegal instruction"},
                 {SIGFPE, "SIGFPE, arithmetic exception"},
                 {SIGKILL, "SIGKILL, killed from outside or out of memory"},
                 {SIGTERM, "SIGTERM, terminated from outside"},
                 {SIGXCPU, "SIGXCPU, CPU time limit"},
                 {SIGXFSZ, "SIGXFSZ, file size limit"},
                 {SIGSYS, "SIGSYS, forbidden system call"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number)
            return names[i].name;
    return "a signal";
}

/* Reads the supervisor's report at the end of what was printed; *length shrinks to the rest. */
static enum process_end read_report(const char *text, size_t *length, char *why, size_t why_size)
{
    const char *const end = text + *length, *mark = NULL;
    int number = 0;

    for (const char *at = text;
         (at = memmem(at, (size_t)(end - at), REPORT_MARK, REPORT_MARK_BYTES));
         at += REPORT_MARK_BYTES)
        mark = at;
    if (!mark) {
        snprintf(why, why_size, "vanished without a report");
        return PROCESS_VANISHED;
    }
    *length = (size_t)(mark - text);
    const char *const report = mark + REPORT_MARK_BYTES;
    if (sscanf(report, "signal %d", &number) == 1) {
        snprintf(why, why_size, "was ended by signal %d (%s)", number, signal_name(number));
        return number == SIGKILL || number == SIGTERM ? PROCESS_VANISHED : PROCESS_CRASHED;
    }
    if (sscanf(report, "exit %d", &number) == 1) {
        snprintf(why, why_size, "exited with status %d", number);
        return PROCESS_EXITED;
    }
    snprintf(why, why_size, "left an unreadable report");
    return PROCESS_GARBAGE;
}

/* Replaces zero bytes, which compilers and crashes may print: a log is a string. */
static void make_text(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!text[i])
            text[i] = ' ';
    while (size && (text[size - 1] == ' ' || text[size - 1] == '\n'))
        size--;
    text[size] = 0;
}

/* ---- A request ------------------------------------------------------------------------------- */

/* A request that is being sent, and its reply that is being received. */
struct exchange {
    struct process *process;
    struct frame_header out, in;
    const uint8_t *payload;
    size_t sent, received;
    uint8_t *reply;
    struct patience patience;
    int error; /* the errno, if the outcome is UNHEARD */
};

/* Sends as much as the socket takes without waiting. False when the call is interrupted without
 * end. That a worker is gone is no failure here: exchange_receive sees it. */
static bool exchange_send(struct exchange *x)
{
    const size_t total = sizeof x->out + x->out.bytes;

    while (x->sent < total) {
        const bool head = x->sent < sizeof x->out;
        const uint8_t *const from =
            head ? (const uint8_t *)&x->out + x->sent : x->payload + (x->sent - sizeof x->out);
        const size_t n = (head ? sizeof x->out : total) - x->sent;
        const ssize_t done = os.send(x->process->sock, from, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0 && again(&x->patience, false))
            continue;
        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (done < 0 && errno == EINTR)
            return false;
        x->sent = done < 0 ? total : x->sent + (size_t)done;
    }
    return true;
}

enum progress { WAITING, COMPLETE, ENDED, NONSENSE, UNHEARD, UNWANTED };

/* The reply cannot be received, for a reason on the host's side: UNHEARD. */
static enum progress unheard(struct exchange *x, int error)
{
    x->error = error;
    return UNHEARD;
}

static bool reply_plausible(const struct exchange *x)
{
    const enum frame_kind kind = x->out.kind == FRAME_CONFIGURE ? FRAME_READY : FRAME_REPLY;

    return frame_plausible(&x->in) && x->in.kind == kind && x->in.id == x->out.id;
}

static enum progress exchange_receive(struct exchange *x)
{
    for (;;) {
        const bool head = x->received < sizeof x->in;
        const size_t total = head ? sizeof x->in : sizeof x->in + x->in.bytes;
        if (!head && x->received == total)
            return frame_digest(&x->in, x->reply) == x->in.digest ? COMPLETE : NONSENSE;
        uint8_t *const to =
            head ? (uint8_t *)&x->in + x->received : x->reply + (x->received - sizeof x->in);
        const ssize_t n = os.recv(x->process->sock, to, total - x->received, MSG_DONTWAIT);
        if (n < 0 && again(&x->patience, false))
            continue;
        if (n < 0 && errno == EINTR)
            return unheard(x, EINTR);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WAITING;
        if (n <= 0)
            return ENDED;
        x->received += (size_t)n;
        if (head && x->received == sizeof x->in) {
            if (!reply_plausible(x))
                return NONSENSE;
            x->reply = os.malloc(x->in.bytes ? x->in.bytes : 1);
            if (!x->reply)
                return unheard(x, ENOMEM);
        }
    }
}

/* Runs an exchange to its outcome; WAITING: the deadline passed. */
static enum progress exchange_run(struct exchange *x, uint64_t deadline, const struct watch *watch)
{
    struct process *const p = x->process;
    const size_t total = sizeof x->out + x->out.bytes;
    struct pollfd polls[2] = {{p->sock, 0, 0}, {p->pipe, POLLIN, 0}};

    uint64_t ask = os_now() + WATCH_MS * 1000000;

    if (!exchange_send(x))
        return unheard(x, EINTR);
    for (;;) {
        polls[0].events = (short)(POLLIN | (x->sent < total ? POLLOUT : 0));
        const int wait = milliseconds_until(deadline);
        const int n = os.poll(polls, 2, watch->unwanted && wait > WATCH_MS ? WATCH_MS : wait);
        if (n < 0 && !again(&x->patience, true))
            return unheard(x, errno);
        if (watch->unwanted && os_now() >= ask) {
            if (watch->unwanted(watch->user))
                return UNWANTED;
            ask = os_now() + WATCH_MS * 1000000;
        }
        if (n > 0 && polls[1].revents && !drain(p, &x->patience))
            polls[1].fd = -1;
        if (n > 0 && polls[0].revents) {
            if (polls[0].revents & POLLOUT && !exchange_send(x))
                return unheard(x, EINTR);
            const enum progress progress = exchange_receive(x);
            if (progress != WAITING)
                return progress;
        }
        if (!wait)
            return WAITING;
    }
}

void process_call(struct process *p, enum frame_kind kind, const void *payload, size_t size,
                  int deadline_ms, const struct watch *watch, struct process_reply *reply)
{
    struct exchange x = {.process = p, .payload = payload};
    size_t printed = 0;

    *reply = (struct process_reply){0};
    p->printed = 0;
    x.out = frame_make(kind, ++p->id, payload, size);
    const enum progress progress =
        exchange_run(&x, os_now() + (uint64_t)deadline_ms * 1000000, watch);
    if (progress == COMPLETE) {
        reply->bytes = x.reply;
        reply->size = x.in.bytes;
        reply->end = PROCESS_ANSWERED;
        return;
    }
    os.free(x.reply);
    process_hang_up(p);
    reply->end = PROCESS_UNWANTED;
    if (progress == UNWANTED)
        return;
    if (progress != UNHEARD)
        drain_all(p, LAST_WORDS_MS);
    reply->printed = printed_text(p, &printed);
    switch (progress) {
    case WAITING:
        reply->end = PROCESS_SILENT;
        snprintf(reply->why, sizeof reply->why, "did not answer within %d ms", deadline_ms);
        break;
    case NONSENSE:
        reply->end = PROCESS_GARBAGE;
        snprintf(reply->why, sizeof reply->why, "sent something that is no reply");
        break;
    case ENDED:
        if (reply->printed) {
            reply->end = read_report(reply->printed, &printed, reply->why, sizeof reply->why);
            break;
        }
        __attribute__((fallthrough));
    default:
        reply->end = PROCESS_NO_MEMORY;
        snprintf(reply->why, sizeof reply->why, "could not be heard: %s",
                 strerror(x.error ? x.error : ENOMEM));
    }
    if (reply->printed)
        make_text(reply->printed, printed);
}

bool process_usable(const struct process *p)
{
    struct pollfd poll = {p->sock, POLLIN, 0};

    return p->sock >= 0 && os.poll(&poll, 1, 0) == 0;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* Checks a worker's greeting: it must be of this library's release. */
static quern_status check_ready(const struct process_config *config, struct process *p,
                                const struct process_reply *reply)
{
    struct field_reader fields = {reply->bytes, reply->bytes + reply->size, false};
    size_t build_size = 0, sandbox_size = 0;
    const uint8_t *const build = field_bytes(&fields, &build_size);
    const uint8_t *const sandbox = field_bytes(&fields, &sandbox_size);

    FAIL_IF(!fields_done(&fields), QUERN_E_WORKER, "%s greeted with a malformed frame",
            config->worker_path);
    FAIL_IF(build_size != strlen(PROTOCOL_BUILD) || memcmp(build, PROTOCOL_BUILD, build_size),
            QUERN_E_TOOLCHAIN, "%s is \"%.*s\", this library needs \"%s\"", config->worker_path,
            (int)(build_size < 80 ? build_size : 80), (const char *)build, PROTOCOL_BUILD);
    snprintf(p->sandbox, sizeof p->sandbox, "%.*s", (int)sandbox_size, (const char *)sandbox);
    return QUERN_OK;
}

static quern_status configure(const struct process_config *config, struct process *p)
{
    const struct toolchain *const t = config->toolchain;
    struct fields fields = {.grow = os.realloc};
    struct process_reply reply = {0};
    quern_status status = QUERN_OK;

    fields_add_text(&fields, PROTOCOL_BUILD);
    fields_add_text(&fields, t->kind->prefix);
    fields_add_text(&fields, t->kind->code);
    fields_add_text(&fields, t->kind->target);
    fields_add_text(&fields, t->kind->file);
    fields_add_text(&fields, t->kind->environment);
    fields_add_text(&fields, t->library[LIBRARY_COMPILER]);
    fields_add_text(&fields, t->library[LIBRARY_BUILTINS]);
    fields_add_text(&fields, t->library[LIBRARY_DISASSEMBLER]);
    fields_add_text(&fields, t->root);
    fields_add_text(&fields, *t->loader ? "" : "host");
    fields_add_text(&fields, config->temporary);
    if (fields.failed)
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("fields.failed"),
                           "out of memory for the configuration of a worker");
    else
        process_call(p, FRAME_CONFIGURE, fields.bytes, fields.size, config->deadline_ms,
                     &(struct watch){0}, &reply);
    if (status == QUERN_OK && reply.end == PROCESS_ANSWERED) {
        status = check_ready(config, p, &reply);
    } else if (status == QUERN_OK) {
        status =
            error_set(reply.end == PROCESS_SILENT      ? QUERN_E_TIMEOUT
                      : reply.end == PROCESS_NO_MEMORY ? QUERN_E_MEMORY
                                                       : QUERN_E_WORKER,
                      __FILE__, FAIL_AT("reply.end == PROCESS_ANSWERED"),
                      "the compiler worker %s %s while starting", config->worker_path, reply.why);
        error_log(reply.printed ? reply.printed : "");
    }
    os.free(reply.bytes);
    os.free(reply.printed);
    os.free(fields.bytes);
    return status;
}

int process_spawn(const struct spawn *spawn, struct process **process, const char **stage)
{
    struct spawned spawned;
    struct process *const p = os.malloc(sizeof *p);

    *stage = "malloc";
    const int error = p ? spawn_program(spawn, &spawned, stage) : ENOMEM;
    if (error) {
        os.free(p);
        return error;
    }
    p->sock = spawned.sock;
    p->pipe = spawned.pipe;
    p->pidfd = spawned.pidfd;
    p->id = 0;
    p->printed = 0;
    p->sandbox[0] = 0;
    *process = p;
    return 0;
}

quern_status process_start(const struct process_config *config, struct process **process)
{
    const struct toolchain *const t = config->toolchain;
    char file[] = "/proc/self/fd/3";
    const bool by_descriptor = !os.faccessat(AT_FDCWD, "/proc/self/fd", F_OK, 0);
    char *const worker = by_descriptor ? file : (char *)config->worker_path;
    char *const with_loader[] = {(char *)t->loader,
                                 "--inhibit-cache",
                                 "--library-path",
                                 (char *)t->library_path,
                                 worker,
                                 "serve",
                                 NULL};
    char *const direct[] = {(char *)config->worker_path, "serve", NULL};
    /* a compile touches some thousand pages of memory that malloc has from the kernel: in few large
     * ones it takes 3 % less. A C library before 2.35 ignores what it does not know. */
    char *const environment[] = {"GLIBC_TUNABLES=glibc.malloc.hugetlb=1:"
                                 "glibc.malloc.top_pad=67108864",
                                 NULL};
    const struct spawn spawn = {.program = *t->loader ? config->loader_fd : config->worker_fd,
                                .argument_file = *t->loader ? config->worker_fd : -1,
                                .arguments = *t->loader ? with_loader : direct,
                                .environment = environment};
    const char *stage = "";
    struct process *p;

    const int error = process_spawn(&spawn, &p, &stage);
    if (error) {
        FAIL_IF(error == ENOMEM && !strcmp(stage, "malloc"), QUERN_E_MEMORY,
                "out of memory for a compiler worker");
        FAIL_IF(!strcmp(stage, "exec"), QUERN_E_TOOLCHAIN,
                "cannot run the compiler worker %s%s%s: %s", config->worker_path,
                *t->loader ? " with the loader " : "", t->loader, strerror(error));
        FAIL_IF(error == ECHILD, QUERN_E_WORKER,
                "the compiler worker %s vanished while it was being started: was it killed?",
                config->worker_path);
        FAIL(QUERN_E_IO, "cannot start a compiler worker: %s: %s", stage, strerror(error));
    }
    const quern_status status = configure(config, p);
    if (status != QUERN_OK) {
        process_stop(p);
        return status;
    }
    *process = p;
    return QUERN_OK;
}

static void close_one(int *fd)
{
    const int old = *fd;

    /* forgotten before it is closed: a child forked in between would else close a descriptor of the
     * same number that has become somebody else's */
    *fd = -1;
    if (old >= 0)
        os.close(old);
}

void process_hang_up(struct process *p)
{
    if (p->sock >= 0)
        os.shutdown(p->sock, SHUT_RDWR);
    close_one(&p->sock);
}

/* Waits for a process to end, so long at most; returns whether it has. */
static bool ended(const struct process *p, int within_ms)
{
    const uint64_t deadline = os_now() + (uint64_t)within_ms * 1000000;
    struct pollfd poll = {p->pidfd, POLLIN, 0};
    struct patience patience = {0};
    int n;

    while ((n = os.poll(&poll, 1, milliseconds_until(deadline))) < 0 && again(&patience, true)) {
    }
    return n > 0;
}

void process_stop(struct process *p)
{
    process_hang_up(p);
    /* closed first: a worker that is blocked because the pipe is full could not see that the host
     * has hung up */
    close_one(&p->pipe);
    if (p->pidfd >= 0 && !ended(p, ENDING_MS)) {
        os.pidfd_send_signal(p->pidfd, SIGKILL);
        ended(p, ENDING_MS);
    }
    spawn_reap(p->pidfd);
    close_one(&p->pidfd);
    os.free(p);
}

void process_forget(struct process *p)
{
    close_one(&p->sock);
    close_one(&p->pipe);
    close_one(&p->pidfd);
    os.free(p);
}
