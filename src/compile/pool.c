/* SPDX-License-Identifier: MIT */
/*
 * The pool of worker processes: starts them, gives them work, and decides what follows when one
 * dies. This file is long because a worker's life is one state machine under one lock, and every
 * way out of a state has to be seen beside the others.
 */
#include "compile/pool.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/place.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX         256
#define DEADLINE_DEFAULT 60000
#define STARTING_MS      30000
/* How many requests that ended a worker are remembered: the latest. */
#define SUSPECTS 64
/* After so many deaths without an answer in between, no worker is started for a while. */
#define DEATHS_IN_A_ROW 8
#define PAUSE_MS        10000

/* A request with so many strikes is refused. It gets all of them at once when a worker ends at it,
 * but only one when the worker was killed from outside: another process may have used up the
 * machine's memory. */
#define STRIKES_OUT 2

struct suspect {
    struct hash128 request;
    unsigned strikes;
    char why[160];
};

struct seat {
    struct process *process; /* null: none started */
    bool busy;               /* a caller has it, or is starting it */
};

struct pool {
    struct pool *next;
    unsigned references; /* guarded by the registry's lock */
    /* what the pool was opened with; constant */
    unsigned vendor;
    char *path, *worker_path, *temporary;
    int jobs, deadline_ms;

    pthread_mutex_t lock; /* guards all that follows; never held across a request or a start */
    pthread_cond_t freed;
    bool found; /* from then on the toolchain is constant */
    struct toolchain toolchain;
    bool prepared; /* from then on so are these */
    char worker[PLACE_MAX];
    int worker_fd, loader_fd;
    struct suspect suspects[SUSPECTS];
    size_t suspect_count; /* suspects so far; the next one's place is this modulo SUSPECTS */
    unsigned deaths_in_a_row;
    uint64_t resume; /* when starting workers is allowed again */
    struct compiler_stats stats;
    char sandbox[128];
    struct seat seats[];
};

/* All pools of the process. Order of locks: registry, then a pool's. */
static struct {
    pthread_mutex_t lock;
    struct pool *first;
    bool watching_forks;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- fork ------------------------------------------------------------------------------------ */

/* Takes every lock before a fork, so that the child finds no pool half changed. */
static void before_fork(void)
{
    pthread_mutex_lock(&registry.lock);
    for (struct pool *p = registry.first; p; p = p->next)
        pthread_mutex_lock(&p->lock);
}

static void after_fork_in_parent(void)
{
    for (struct pool *p = registry.first; p; p = p->next)
        pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&registry.lock);
}

/* Empties the pools of a forked child: the workers stay the parent's, and the threads that waited
 * for them do not exist here. */
static void after_fork_in_child(void)
{
    for (struct pool *p = registry.first; p; p = p->next) {
        for (int i = 0; i < p->jobs; i++) {
            if (p->seats[i].process)
                process_forget(p->seats[i].process);
            p->seats[i] = (struct seat){0};
        }
        pthread_cond_init(&p->freed, NULL);
        p->stats = (struct compiler_stats){0};
        p->deaths_in_a_row = 0;
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&registry.lock);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static char *copy_text(const char *text)
{
    const size_t n = strlen(text ? text : "") + 1;
    char *const copy = os.malloc(n);

    return copy ? memcpy(copy, text ? text : "", n) : NULL;
}

static void pool_free(struct pool *p)
{
    if (p->worker_fd >= 0)
        os.close(p->worker_fd);
    if (p->loader_fd >= 0)
        os.close(p->loader_fd);
    pthread_cond_destroy(&p->freed);
    pthread_mutex_destroy(&p->lock);
    os.free(p->path);
    os.free(p->worker_path);
    os.free(p->temporary);
    os.free(p);
}

static struct pool *pool_new(const struct compiler_config *config, int jobs, int deadline_ms)
{
    struct pool *const p = os.calloc(1, sizeof *p + (size_t)jobs * sizeof *p->seats);
    const char *const temporary = secure_getenv("TMPDIR");

    if (!p)
        return NULL;
    p->jobs = jobs;
    p->deadline_ms = deadline_ms;
    p->worker_fd = p->loader_fd = -1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->freed, NULL);
    p->vendor = config->vendor;
    p->path = copy_text(config->path);
    p->worker_path = copy_text(config->worker_path);
    p->temporary = copy_text(temporary && *temporary == '/' ? temporary : "");
    if (p->path && p->worker_path && p->temporary)
        return p;
    pool_free(p);
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    return !strcmp(a, b ? b : "");
}

quern_status compiler_open(const struct compiler_config *config, struct compiler **compiler)
{
    FAIL_IF(config->jobs < 0 || config->jobs > JOBS_MAX, QUERN_E_ARGUMENT,
            "%d compiler workers asked for; 0 (one per CPU) to %d are possible", config->jobs,
            JOBS_MAX);
    FAIL_IF(config->deadline_ms < 0, QUERN_E_ARGUMENT,
            "a compile deadline of %d ms; 0 means %d, else it is positive", config->deadline_ms,
            DEADLINE_DEFAULT);
    const int cpus = os_cpu_count();
    const int jobs = config->jobs ? config->jobs : cpus < JOBS_MAX ? cpus : JOBS_MAX;
    const int deadline_ms = config->deadline_ms ? config->deadline_ms : DEADLINE_DEFAULT;
    struct compiler *const handle = os.malloc(sizeof *handle);
    struct pool *p;

    FAIL_IF(!handle, QUERN_E_MEMORY, "out of memory for a compiler pool");
    pthread_mutex_lock(&registry.lock);
    if (!registry.watching_forks)
        registry.watching_forks =
            !pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    for (p = registry.first; p; p = p->next)
        if (p->vendor == config->vendor && p->jobs == jobs && p->deadline_ms == deadline_ms &&
            same_text(p->path, config->path) && same_text(p->worker_path, config->worker_path))
            break;
    if (!p && (p = pool_new(config, jobs, deadline_ms))) {
        p->next = registry.first;
        registry.first = p;
    }
    if (p)
        p->references++;
    pthread_mutex_unlock(&registry.lock);
    if (!p)
        os.free(handle);
    FAIL_IF(!p, QUERN_E_MEMORY, "out of memory for a compiler pool");
    *handle = (struct compiler){p, config->log};
    *compiler = handle;
    return QUERN_OK;
}

unsigned pool_vendor(const struct compiler *compiler)
{
    return compiler->pool->vendor;
}

void compiler_close(struct compiler *compiler)
{
    struct pool *const p = compiler ? compiler->pool : NULL;

    if (!p)
        return;
    os.free(compiler);
    pthread_mutex_lock(&registry.lock);
    const bool last = --p->references == 0;
    if (last) {
        struct pool **link = &registry.first;
        while (*link != p)
            link = &(*link)->next;
        *link = p->next;
    }
    pthread_mutex_unlock(&registry.lock);
    if (!last)
        return;
    /* all workers are told to end before the first is waited for, so that they end side by side */
    for (int i = 0; i < p->jobs; i++)
        if (p->seats[i].process)
            process_hang_up(p->seats[i].process);
    for (int i = 0; i < p->jobs; i++)
        if (p->seats[i].process)
            process_stop(p->seats[i].process);
    pool_free(p);
}

void compiler_stats(struct compiler *compiler, struct compiler_stats *stats)
{
    pthread_mutex_lock(&compiler->pool->lock);
    *stats = compiler->pool->stats;
    pthread_mutex_unlock(&compiler->pool->lock);
}

void pool_count(struct compiler *compiler, enum pool_count which)
{
    struct pool *const p = compiler->pool;

    pthread_mutex_lock(&p->lock);
    (*(which == POOL_COMPILED ? &p->stats.compiled : &p->stats.failed))++;
    pthread_mutex_unlock(&p->lock);
}

void pool_sandbox(struct compiler *compiler, char *text, size_t size)
{
    pthread_mutex_lock(&compiler->pool->lock);
    snprintf(text, size, "%s", compiler->pool->sandbox);
    pthread_mutex_unlock(&compiler->pool->lock);
}

/* ---- The toolchain and the worker executable ------------------------------------------------- */

/* Opens a file for running, with a descriptor above those that a worker is given. */
static int open_program(const char *path)
{
    const int fd = os.open(path, O_PATH | O_CLOEXEC, 0);

    if (fd < 0 || fd > 9)
        return fd;
    const int high = os.fcntl(fd, F_DUPFD_CLOEXEC, 10);
    os.close(fd);
    return high;
}

static quern_status find_worker(const struct pool *p, char path[PLACE_MAX])
{
    char tried[3 * PLACE_MAX];

    if (*p->worker_path) {
        FAIL_IF(!place_join(path, "%s", p->worker_path) || *path != '/', QUERN_E_TOOLCHAIN,
                "the compiler worker \"%.200s\" is not an absolute path of less than %d characters",
                p->worker_path, PLACE_MAX);
        return QUERN_OK;
    }
    FAIL_IF(!place_of_helper("quern-worker", path, tried, sizeof tried), QUERN_E_TOOLCHAIN,
            "no compiler worker at %s; install quern-worker or give options.worker_path", tried);
    return QUERN_OK;
}

/* Finds the pool's toolchain: looks for one at each call until one is found. */
static quern_status pool_toolchain(struct pool *p)
{
    struct toolchain found;

    pthread_mutex_lock(&p->lock);
    const bool known = p->found;
    pthread_mutex_unlock(&p->lock);
    if (known)
        return QUERN_OK;
    TRY(toolchain_find(p->vendor, p->path, &found));
    pthread_mutex_lock(&p->lock);
    if (!p->found)
        p->toolchain = found;
    p->found = true;
    pthread_mutex_unlock(&p->lock);
    return QUERN_OK;
}

const struct toolchain *compiler_toolchain(struct compiler *compiler)
{
    struct pool *const p = compiler->pool;

    return pool_toolchain(p) == QUERN_OK ? &p->toolchain : NULL;
}

/* Finds and opens the worker executable and loader, once; after a failure the next call tries
 * again. */
static quern_status pool_prepare(struct pool *p, struct log *log)
{
    const struct toolchain *const t = &p->toolchain;
    char worker[PLACE_MAX];
    int loader_fd = -1;

    pthread_mutex_lock(&p->lock);
    const bool prepared = p->prepared;
    pthread_mutex_unlock(&p->lock);
    if (prepared)
        return QUERN_OK;

    TRY(pool_toolchain(p));
    TRY(find_worker(p, worker));
    const int worker_fd = open_program(worker);
    FAIL_IF(worker_fd < 0, QUERN_E_TOOLCHAIN, "cannot open the compiler worker %s: %s", worker,
            strerror(errno));
    if (*t->loader && (loader_fd = open_program(t->loader)) < 0) {
        const int error = errno;
        os.close(worker_fd);
        FAIL(QUERN_E_TOOLCHAIN, "cannot open the toolchain's loader %s: %s", t->loader,
             strerror(error));
    }

    pthread_mutex_lock(&p->lock);
    const bool first = !p->prepared;
    if (first) {
        memcpy(p->worker, worker, sizeof worker);
        p->worker_fd = worker_fd;
        p->loader_fd = loader_fd;
        p->prepared = true;
    }
    pthread_mutex_unlock(&p->lock);
    if (first) {
        log_line(log, QUERN_LOG_INFO, "toolchain %s (%s), worker %s", t->root, t->identity, worker);
    } else {
        os.close(worker_fd);
        if (loader_fd >= 0)
            os.close(loader_fd);
    }
    return QUERN_OK;
}

/* ---- Workers --------------------------------------------------------------------------------- */

static quern_status start_worker(struct pool *p, struct process **process)
{
    const struct process_config config = {
        .toolchain = &p->toolchain,
        .worker_path = p->worker,
        .worker_fd = p->worker_fd,
        .loader_fd = p->loader_fd,
        .temporary = p->temporary,
        .deadline_ms = p->deadline_ms < STARTING_MS ? p->deadline_ms : STARTING_MS};
    struct toolchain now;

    /* cache keys were made from the pool's identity: objects of another compiler must not be stored
     * under them */
    TRY(toolchain_find(p->vendor, p->path, &now));
    FAIL_IF(strcmp(now.identity, p->toolchain.identity), QUERN_E_TOOLCHAIN,
            "the toolchain changed while in use, from %s to %s; start the program anew",
            p->toolchain.identity, now.identity);
    return process_start(&config, process);
}

/* Waits until a seat may be free, or for at most WATCH_MS if the request may come to be unwanted.
 * False if it has. The caller holds the lock, and does so again afterwards. */
static bool wait_for_seat(struct pool *p, const struct watch *watch)
{
    if (!watch->unwanted) {
        pthread_cond_wait(&p->freed, &p->lock);
        return true;
    }
    const uint64_t until = os_now() + WATCH_MS * 1000000;
    const struct timespec moment = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    if (pthread_cond_clockwait(&p->freed, &p->lock, CLOCK_MONOTONIC, &moment) != ETIMEDOUT)
        return true;
    pthread_mutex_unlock(&p->lock);
    const bool unwanted = watch->unwanted(watch->user);
    pthread_mutex_lock(&p->lock);
    return !unwanted;
}

/* Takes a free seat, preferably one whose worker runs already; waits for one if need be. Null: the
 * request has come to be unwanted. That is asked only when no seat is free: a request that was
 * woken for a free seat and went away would leave another one waiting. The caller holds the lock.
 */
static struct seat *take_seat(struct pool *p, const struct watch *watch)
{
    do {
        struct seat *empty = NULL;
        for (int i = 0; i < p->jobs; i++) {
            struct seat *const s = &p->seats[i];
            if (!s->busy && s->process) {
                s->busy = true;
                return s;
            }
            if (!s->busy && !empty)
                empty = s;
        }
        if (empty) {
            empty->busy = true;
            return empty;
        }
    } while (wait_for_seat(p, watch));
    return NULL;
}

static void give_seat(struct pool *p, struct seat *seat)
{
    pthread_mutex_lock(&p->lock);
    seat->busy = false;
    pthread_mutex_unlock(&p->lock);
    pthread_cond_signal(&p->freed);
}

/* Takes the process out of its seat, ends it, and raises *count. */
static void drop_process(struct pool *p, struct seat *seat, uint64_t *count)
{
    pthread_mutex_lock(&p->lock);
    struct process *const process = seat->process;
    seat->process = NULL;
    ++*count;
    pthread_mutex_unlock(&p->lock);
    process_stop(process);
}

/* Counts a worker that died or could not be started; after many in a row, none is started for a
 * while. */
static void count_death(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    if (++p->deaths_in_a_row >= DEATHS_IN_A_ROW)
        p->resume = os_now() + (uint64_t)PAUSE_MS * 1000000;
    pthread_mutex_unlock(&p->lock);
}

/* Takes a seat with a live worker in it; starts one if need be. */
static quern_status take_worker(struct pool *p, struct log *log, const struct watch *watch,
                                struct seat **seat)
{
    struct process *process = NULL;

    pthread_mutex_lock(&p->lock);
    struct seat *const s = take_seat(p, watch);
    p->stats.dropped += !s;
    const bool pause = p->deaths_in_a_row >= DEATHS_IN_A_ROW && os_now() < p->resume;
    const unsigned deaths = p->deaths_in_a_row;
    pthread_mutex_unlock(&p->lock);

    FAIL_IF(!s, QUERN_E_NOT_READY, "a job was dropped, as nobody waits for it any more");
    if (s->process && !process_usable(s->process)) {
        log_line(log, QUERN_LOG_WARN, "an idle compiler worker ended or spoke out of turn");
        drop_process(p, s, &p->stats.died);
    }
    if (s->process) {
        *seat = s;
        return QUERN_OK;
    }
    quern_status status =
        pause ? error_set(QUERN_E_WORKER, __FILE__, FAIL_AT("!pause"),
                          "the last %u compiler workers died; none is started for %d s", deaths,
                          PAUSE_MS / 1000)
              : start_worker(p, &process);
    if (status != QUERN_OK) {
        /* other failures, such as a wrong path or no free descriptor, cost little, and are reported
         * at each try */
        if (!pause && (status == QUERN_E_WORKER || status == QUERN_E_TIMEOUT))
            count_death(p);
        give_seat(p, s);
        return status;
    }
    pthread_mutex_lock(&p->lock);
    s->process = process;
    p->stats.started++;
    const bool tell = strcmp(p->sandbox, process->sandbox) != 0;
    memcpy(p->sandbox, process->sandbox, sizeof p->sandbox);
    pthread_mutex_unlock(&p->lock);
    if (tell)
        log_line(log, QUERN_LOG_INFO, "compiler workers are confined by: %s", process->sandbox);
    *seat = s;
    return QUERN_OK;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static struct suspect *find_suspect(struct pool *p, const struct hash128 *request)
{
    const size_t n = p->suspect_count < SUSPECTS ? p->suspect_count : SUSPECTS;

    for (size_t i = 0; i < n; i++)
        if (!memcmp(&p->suspects[i].request, request, sizeof *request))
            return &p->suspects[i];
    return NULL;
}

static void add_strike(struct pool *p, const struct hash128 *request,
                       const struct process_reply *reply)
{
    pthread_mutex_lock(&p->lock);
    struct suspect *s = find_suspect(p, request);
    if (!s) {
        s = &p->suspects[p->suspect_count++ % SUSPECTS];
        *s = (struct suspect){.request = *request};
    }
    s->strikes += reply->end == PROCESS_VANISHED ? 1 : STRIKES_OUT;
    memcpy(s->why, reply->why, sizeof s->why);
    pthread_mutex_unlock(&p->lock);
}

static quern_status refuse_suspect(struct pool *p, const struct hash128 *request, const char *what)
{
    char why[sizeof p->suspects->why];

    pthread_mutex_lock(&p->lock);
    const struct suspect *const s = find_suspect(p, request);
    const bool refused = s && s->strikes >= STRIKES_OUT;
    if (refused)
        memcpy(why, s->why, sizeof why);
    pthread_mutex_unlock(&p->lock);
    FAIL_IF(refused, QUERN_E_WORKER,
            "%s was tried before in this process and the compiler worker %s; not tried again", what,
            why);
    return QUERN_OK;
}

/* Counts a worker's end against the request that it was at, and records it as the caller's error.
 */
static quern_status request_failed(struct compiler *compiler, const struct hash128 *request,
                                   const char *what, const struct process_reply *reply)
{
    struct pool *const p = compiler->pool;
    char text[512];

    if (reply->end == PROCESS_NO_MEMORY)
        FAIL(QUERN_E_MEMORY, "%s: %s", what, reply->why);
    add_strike(p, request, reply);
    count_death(p);
    if (reply->end == PROCESS_SILENT) {
        pthread_mutex_lock(&p->lock);
        p->stats.timeouts++;
        pthread_mutex_unlock(&p->lock);
    }
    snprintf(text, sizeof text, "the compiler worker %s while %s", reply->why, what);
    log_line(compiler->log, QUERN_LOG_WARN, "%s", text);
    const quern_status status =
        error_set(reply->end == PROCESS_SILENT ? QUERN_E_TIMEOUT : QUERN_E_WORKER, __FILE__,
                  FAIL_AT("reply.end == PROCESS_ANSWERED"), "%s", text);
    error_log(reply->printed ? reply->printed : "");
    return status;
}

bool answer_read(const struct process_reply *reply, struct answer *answer)
{
    struct field_reader r = {reply->bytes, reply->bytes + reply->size, false};

    answer->bytes = reply->bytes;
    answer->outcome = field_u32(&r);
    answer->milliseconds = (double)field_u64(&r) / 1000;
    answer->message = (const char *)field_bytes(&r, &answer->message_size);
    answer->data = field_bytes(&r, &answer->size);
    return fields_done(&r) && answer->outcome >= REPLY_DONE && answer->outcome <= REPLY_UNABLE;
}

quern_status pool_request(struct compiler *compiler, enum frame_kind kind,
                          const struct fields *request, const char *what, const struct watch *watch,
                          struct answer *answer)
{
    struct pool *const p = compiler->pool;
    struct process_reply reply;
    struct seat *seat = NULL;

    FAIL_IF(request->failed, QUERN_E_MEMORY,
            "%s: the request does not fit in memory or exceeds %d MiB", what,
            (int)(FRAME_BYTES_MAX >> 20));
    struct hash128 hash = hash128_of(request->bytes, request->size);
    hash.bytes[0] ^= (uint8_t)kind;
    TRY(pool_prepare(p, compiler->log));
    TRY(refuse_suspect(p, &hash, what));
    TRY(take_worker(p, compiler->log, watch, &seat));

    process_call(seat->process, kind, request->bytes, request->size, p->deadline_ms, watch, &reply);
    if (reply.end == PROCESS_ANSWERED && !answer_read(&reply, answer)) {
        reply.end = PROCESS_GARBAGE;
        snprintf(reply.why, sizeof reply.why, "sent a reply that cannot be read");
        os.free(reply.bytes);
    }
    if (reply.end == PROCESS_ANSWERED) {
        pthread_mutex_lock(&p->lock);
        p->deaths_in_a_row = 0;
        pthread_mutex_unlock(&p->lock);
        give_seat(p, seat);
        return QUERN_OK;
    }
    const bool unwanted = reply.end == PROCESS_UNWANTED;
    drop_process(p, seat, unwanted ? &p->stats.dropped : &p->stats.died);
    give_seat(p, seat);
    FAIL_IF(unwanted, QUERN_E_NOT_READY, "%s was broken off, as nobody waits for it any more",
            what);
    const quern_status status = request_failed(compiler, &hash, what, &reply);
    os.free(reply.printed);
    return status;
}
