/* SPDX-License-Identifier: MIT */
/* Gives to a remote cache what this process compiled (remote_push.h). */
#include "dispatch/remote_push.h"

#include "base/os.h"
#include "base/thread.h"
#include "store/key.h"
#include "store/seal.h"
#include "store/signature.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_MS ((uint64_t)1000000)

/* What may wait to be put; more is left out. */
#define WAITING_MAX       256
#define WAITING_BYTES_MAX ((size_t)64 << 20)
/* How long remote_push_close waits for what is left. */
#define CLOSE_MS 5000
#define SLICE_MS 50
/* After a failure the remote is left alone, and what comes meanwhile left out. */
#define REST_MS     1000
#define REST_MS_MAX 60000

struct job {
    struct job *next;
    char names[2][SEAL_NAME_BYTES]; /* by its key, and by its source key */
    size_t size;
    uint8_t bytes[];
};

struct remote_push {
    struct remote_push_config config;
    bool signs;
    uint8_t secret[crypto_sign_SECRETKEYBYTES];
    int process; /* in a forked child nothing is pushed: the thread is the parent's */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job came or ended, or it is closing */
    /* under the lock: */
    struct job *first, **last;
    size_t waiting, waiting_bytes;
    bool started, closing, busy; /* a job is being done */
    uint64_t give_up_ns;         /* when it is closing: the moment when the thread has to end */
    uint64_t rest_until;
    /* the thread's own: */
    pthread_t thread;
    struct remote *helper;
    uint64_t last_id;
    unsigned failures; /* in a row */
};

static void sign_entry(void *user, const void *message, size_t size, uint8_t public_key[32],
                       uint8_t signature[64])
{
    const struct remote_push *const p = user;

    /* the second half of a secret key is the public one */
    memcpy(public_key, p->secret + crypto_sign_SEEDBYTES, crypto_sign_PUBLICKEYBYTES);
    crypto_sign_detached(signature, NULL, message, size, p->secret);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Whether the thread has to end now. */
static bool is_over(struct remote_push *p)
{
    pthread_mutex_lock(&p->lock);
    const bool over = p->closing && os_now() >= p->give_up_ns;
    pthread_mutex_unlock(&p->lock);
    return over;
}

static bool start_helper(struct remote_push *p, char *why, size_t why_size)
{
    if (p->helper ||
        remote_start_helper(p->config.place, p->config.worker_path, &p->helper) == QUERN_OK)
        return true;
    snprintf(why, why_size, "%.280s", quern_last_error()->message);
    return false;
}

static void lose_helper(struct remote_push *p)
{
    remote_stop(p->helper);
    p->helper = NULL;
}

/* Puts bytes at one name; false, and why not. */
static bool put_one(struct remote_push *p, const struct job *job, const char *name, char *why,
                    size_t why_size)
{
    struct remote_answer answer;
    enum remote_event event = REMOTE_GONE;
    const uint64_t until =
        os_now() + (uint64_t)REMOTE_HUNG_MS(p->config.place->patience_ms) * NS_PER_MS;

    if (!start_helper(p, why, why_size))
        return false;
    const bool sent = remote_store(p->helper, name, job->bytes, job->size, ++p->last_id);
    while (sent && (event = remote_receive(p->helper, &answer)) == REMOTE_NOTHING && !is_over(p) &&
           os_now() < until)
        remote_wait(remote_socket(p->helper), SLICE_MS);
    if (event == REMOTE_ANSWER) {
        os.free(answer.bytes);
        if (answer.outcome != REPLY_DONE)
            snprintf(why, why_size, "putting %s: %s", name, answer.message);
        return answer.outcome == REPLY_DONE;
    }
    snprintf(why, why_size, "putting %s: %s", name,
             event == REMOTE_NOTHING      ? "no answer in time"
             : remote_hopeless(p->helper) ? remote_about(p->helper)
                                          : "its helper quern-remote ended");
    lose_helper(p);
    return false;
}

static void do_job(struct remote_push *p, const struct job *job)
{
    char why[300] = "";

    const bool good = put_one(p, job, job->names[0], why, sizeof why) &&
                      put_one(p, job, job->names[1], why, sizeof why);
    if (good) {
        p->failures = 0;
        counter_add(p->config.counters, QUERN_STAT_REMOTE_PUT_OK, 1);
        return;
    }
    if (counter_add(p->config.counters, QUERN_STAT_REMOTE_PUT_FAILED, 1) == 0)
        log_line(p->config.log, QUERN_LOG_WARN, "remote cache %s: %s (said once)",
                 p->config.place->url, why);
    const uint64_t ms = p->failures > 6 ? REST_MS_MAX : (uint64_t)REST_MS << p->failures;
    p->failures++;
    pthread_mutex_lock(&p->lock);
    p->rest_until = os_now() + (ms < REST_MS_MAX ? ms : REST_MS_MAX) * NS_PER_MS;
    pthread_mutex_unlock(&p->lock);
}

/* The next job, which is waited for; null: there is none any more. */
static struct job *next_job(struct remote_push *p)
{
    pthread_mutex_lock(&p->lock);
    p->busy = false;
    pthread_cond_broadcast(&p->changed);
    while (!p->first && !p->closing)
        pthread_cond_wait(&p->changed, &p->lock);
    struct job *const job = p->first;
    p->busy = job;
    if (job) {
        p->first = job->next;
        p->last = p->first ? p->last : &p->first;
        p->waiting--;
        p->waiting_bytes -= job->size;
    }
    pthread_mutex_unlock(&p->lock);
    return job;
}

static void *work(void *user)
{
    struct remote_push *const p = user;
    struct job *job;

    while ((job = next_job(p))) {
        pthread_mutex_lock(&p->lock);
        const bool rests = os_now() < p->rest_until;
        pthread_mutex_unlock(&p->lock);
        if (rests || is_over(p))
            counter_add(p->config.counters, QUERN_STAT_REMOTE_PUT_FAILED, 1);
        else
            do_job(p, job);
        os.free(job);
    }
    lose_helper(p);
    return NULL;
}

/* ---- The host's side ------------------------------------------------------------------------- */

/* Starts the thread, if it does not run yet. The caller holds the lock. */
static bool start(struct remote_push *p)
{
    p->started = p->started || !thread_start(&p->thread, work, p);
    return p->started;
}

/* The entry as the remote is to have it; null: it cannot be made. */
static struct job *make_job(struct remote_push *p, const struct store_record *record)
{
    const struct hash128 key = hash128_of(record->key_text, record->key_text_bytes);
    struct hash128 source_key;
    const char *text;
    size_t text_bytes, size;
    void *bytes;

    if (!key_source(record->key_text, record->key_text_bytes, &source_key, &text, &text_bytes) ||
        seal_make(record, p->signs ? sign_entry : NULL, p, &bytes, &size) != QUERN_OK)
        return NULL;
    struct job *const job = os.malloc(sizeof *job + size);
    if (job) {
        *job = (struct job){.size = size};
        memcpy(job->bytes, bytes, size);
        seal_name(&key, false, job->names[0]);
        seal_name(&source_key, true, job->names[1]);
    }
    os.free(bytes);
    return job;
}

void remote_push_offer(struct remote_push *p, const struct store_record *record)
{
    if (p->process != (int)getpid() || !record->object_bytes || !record->parsed)
        return; /* a refusal, or what no device would load, is nobody else's */
    struct job *const job = make_job(p, record);
    pthread_mutex_lock(&p->lock);
    const bool taken = job && p->waiting < WAITING_MAX &&
                       job->size <= WAITING_BYTES_MAX - p->waiting_bytes &&
                       os_now() >= p->rest_until && start(p);
    if (taken) {
        *p->last = job;
        p->last = &job->next;
        p->waiting++;
        p->waiting_bytes += job->size;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    if (!taken) {
        counter_add(p->config.counters, QUERN_STAT_REMOTE_PUT_FAILED, 1);
        os.free(job);
    }
}

quern_status remote_push_open(const struct remote_push_config *config, struct remote_push **push)
{
    struct remote_push *const p = os.calloc(1, sizeof *p);
    uint8_t seed[crypto_sign_SEEDBYTES], public_key[crypto_sign_PUBLICKEYBYTES];

    FAIL_IF(!p, QUERN_E_MEMORY, "out of memory for what is given to a remote cache");
    p->config = *config;
    p->process = (int)getpid();
    p->last = &p->first;
    p->signs = config->sign_key;
    if (p->signs) {
        const quern_status status =
            signer_read_secret("the key file (QUERN_REMOTE_SIGN_KEY)", config->sign_key, seed);
        if (status != QUERN_OK) {
            os.free(p);
            return status;
        }
        crypto_sign_seed_keypair(public_key, p->secret, seed);
        sodium_memzero(seed, sizeof seed);
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    *push = p;
    return QUERN_OK;
}

void remote_push_settle(struct remote_push *p, int wait_ms)
{
    const uint64_t until = os_now() + (uint64_t)wait_ms * NS_PER_MS;
    const struct timespec moment = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    int error = 0;

    if (p->process != (int)getpid())
        return;
    pthread_mutex_lock(&p->lock);
    while ((p->first || p->busy) && !error)
        error = pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC, &moment);
    pthread_mutex_unlock(&p->lock);
}

void remote_push_close(struct remote_push *p)
{
    if (!p)
        return;
    if (p->process == (int)getpid()) {
        pthread_mutex_lock(&p->lock);
        p->closing = true;
        p->give_up_ns = os_now() + CLOSE_MS * NS_PER_MS;
        pthread_cond_broadcast(&p->changed);
        const bool started = p->started;
        pthread_mutex_unlock(&p->lock);
        if (started)
            pthread_join(p->thread, NULL);
        pthread_cond_destroy(&p->changed);
        pthread_mutex_destroy(&p->lock);
    }
    sodium_memzero(p->secret, sizeof p->secret);
    os.free(p);
}
