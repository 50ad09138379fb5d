/* SPDX-License-Identifier: MIT */
/*
 * A remote cache as a tier: entries by http or https, fetched by a helper process
 * (compile/remote.h) that is started at the first question, or read from a directory. An answer is
 * pending until the helper has it, and how long it is waited for follows the remote's own recent
 * times. A remote that fails, is late or sends what is no entry is left alone for a while that
 * doubles with each such event (rest), so that a dead one costs next to nothing. What comes is
 * believed if a trusted key signed it (store/seal.h) and has not revoked it (remote_revoked.h): the
 * list of that is asked for with the first question, and no entry is used before it is known. This
 * file is long because all of it works on one state under one lock.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/place.h"
#include "compile/remote.h"
#include "dispatch/remote_claim.h"
#include "dispatch/remote_place.h"
#include "dispatch/remote_push.h"
#include "dispatch/remote_revoked.h"
#include "store/seal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS ((uint64_t)1000000)

/* Questions that are pending at once; more are not asked. A prewarm has one for each kernel that it
 * looks for ahead (prewarm.c), and one for each of at most 256 threads. */
#define QUESTIONS_MAX 384
/* How long the command waits, before it reports, for what the remote is given, at least. */
#define SETTLE_MS 30000
/* How long one look for answers lasts. A thread that found the helper to hang may stop it
 * meanwhile, and nothing wakes who polls a descriptor that is closed. */
#define SLICE_MS 5
/* The first trouble costs no rest, the next a second, and each further one twice as long. */
#define REST_MS     1000
#define REST_MS_MAX 60000

struct question {
    uint64_t id; /* 0: free */
    uint64_t asked_ns;
    bool answered;
    struct remote_answer answer;
};

struct remote_tier {
    struct remote_place place;
    struct signers signers;
    bool transport; /* what comes is used unsigned */
    bool follow;    /* redirections */
    int grace_ms;   /* the most; -1: unlimited */
    const char *worker_path;
    struct log *log;
    struct counters *counters;
    struct lock lock;         /* of all that follows */
    bool polled;              /* a thread polls the helper now, and the others wait for `looked` */
    pthread_cond_t looked;    /* that thread, or another, has taken what had come */
    int process;              /* whose helper it is */
    struct remote *helper;    /* null: none is running */
    uint64_t ready_ns;        /* when it greeted; 0: not yet */
    uint64_t last_id;         /* of a question, over all helpers */
    bool hopeless;            /* no helper can run here */
    char why[400];            /* the last trouble */
    struct remote_push *push; /* null: nothing is given to it */
    struct revocations revoked;
    uint64_t list_id; /* of the question for the list of what is revoked; 0: none is pending */
    /* While the list is not known, so that no entry can be used: the counter that each entry which
     * is left unused for that adds to, and the reason in words. */
    enum quern_stat list_stat;
    char list_why[300];
    struct question questions[QUESTIONS_MAX];
    uint64_t usual_ns, spread_ns; /* of recent answers: mean, and mean distance from it; 0: none */
    unsigned troubles;            /* in a row */
    uint64_t rest_until;          /* by os_now */
};

/* ---- Trouble, and rest ----------------------------------------------------------------------- */

/* Something about the remote went wrong, which is counted, and logged the first time. */
static void complain(struct remote_tier *t, enum quern_stat which, const char *what)
{
    snprintf(t->why, sizeof t->why, "%s", what);
    if (counter_add(t->counters, which, 1) == 0)
        log_line(t->log, QUERN_LOG_WARN, "remote cache %s: %s (said once)", t->place.url, what);
}

/* It is left alone for a while. While it rests, further failures are those of questions that were
 * asked before. */
static void rest(struct remote_tier *t)
{
    const uint64_t now = os_now();

    if (now < t->rest_until)
        return;
    const unsigned n = t->troubles++;
    const uint64_t ms = n > 6 ? REST_MS_MAX : n ? (uint64_t)REST_MS << (n - 1) : 0;
    t->rest_until = now + (ms < REST_MS_MAX ? ms : REST_MS_MAX) * NS_PER_MS;
}

static void trouble(struct remote_tier *t, enum quern_stat which, const char *what)
{
    complain(t, which, what);
    rest(t);
}

static void answered_well(struct remote_tier *t, uint64_t took_ns)
{
    const uint64_t usual = t->usual_ns;
    const uint64_t distance = took_ns > usual ? took_ns - usual : usual - took_ns;

    /* as TCP's round-trip times are averaged (RFC 6298) */
    t->usual_ns = usual ? usual - usual / 8 + took_ns / 8 : took_ns;
    t->spread_ns = usual ? t->spread_ns - t->spread_ns / 4 + distance / 4 : took_ns / 2;
    t->troubles = 0;
    t->rest_until = 0;
}

/* After how long without an answer the helper hangs. */
static uint64_t hung_ns(const struct remote_tier *t)
{
    return (uint64_t)REMOTE_HUNG_MS(t->place.patience_ms) * NS_PER_MS;
}

/* How long an answer is worth waiting for. */
static uint64_t grace_ns(const struct remote_tier *t)
{
    const uint64_t most = (uint64_t)t->grace_ms * NS_PER_MS;
    const uint64_t usual = t->usual_ns + 4 * t->spread_ns;

    return t->grace_ms < 0 ? hung_ns(t) : t->usual_ns && usual < most ? usual : most;
}

/* ---- The helper ------------------------------------------------------------------------------ */

/* The helper ended, or has to: every question that it was asked fails. */
static void lose_helper(struct remote_tier *t, const char *what)
{
    t->hopeless = t->hopeless || remote_hopeless(t->helper);
    if (t->hopeless) {
        snprintf(t->why, sizeof t->why, "its helper quern-remote: %s", remote_about(t->helper));
        what = t->why;
        log_line(t->log, QUERN_LOG_WARN, "remote cache %s is not used: %s", t->place.url, what);
    }
    struct remote *const lost = t->helper;
    t->helper = NULL; /* first: a child forked by another thread forgets the helper that it finds */
    remote_stop(lost);
    pthread_cond_broadcast(&t->looked);
    t->list_id = 0;
    t->list_stat = QUERN_STAT_REMOTE_FAILED;
    snprintf(t->list_why, sizeof t->list_why, "its revocation list: %.200s", what);
    rest(t); /* once, however many questions it had */
    for (size_t i = 0; i < QUESTIONS_MAX; i++) {
        struct question *const q = &t->questions[i];
        if (q->id && !q->answered) {
            q->answered = true;
            q->answer = (struct remote_answer){.outcome = REPLY_UNABLE};
            snprintf(q->answer.message, sizeof q->answer.message, "%.190s", what);
        }
    }
}

static void make_condition(struct remote_tier *t)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* as os_now */
    pthread_cond_init(&t->looked, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* In a forked child: the helper and the questions are the parent's, and so are the threads that
 * poll and wait. */
static void leave_to_parent(struct remote_tier *t)
{
    if (t->process == (int)getpid())
        return;
    remote_forget(t->helper);
    t->helper = NULL;
    t->list_id = 0;
    for (size_t i = 0; i < QUESTIONS_MAX; i++)
        t->questions[i].id = 0;
    make_condition(t);
    t->polled = false;
    t->process = (int)getpid();
}

static bool start_helper(struct remote_tier *t)
{
    char path[PLACE_MAX], why[300];

    if (!remote_find_helper(t->worker_path, path, why, sizeof why)) {
        t->hopeless = true;
        trouble(t, QUERN_STAT_REMOTE_FAILED, why);
        return false;
    }
    struct remote_config config = remote_config_of(&t->place, path);
    config.follow = t->follow;
    t->ready_ns = 0;
    if (remote_start(&config, &t->helper) == QUERN_OK)
        return true;
    snprintf(why, sizeof why, "%.280s", quern_last_error()->message);
    trouble(t, QUERN_STAT_REMOTE_FAILED, why);
    return false;
}

/* Takes the answer to the question for the list of what is revoked. */
static void take_list(struct remote_tier *t, struct remote_answer *answer)
{
    t->list_id = 0;
    if (answer->outcome == REPLY_UNABLE) {
        t->revoked.known = false;
        t->list_stat = QUERN_STAT_REMOTE_FAILED;
        snprintf(t->list_why, sizeof t->list_why, "its revocation list: %.200s", answer->message);
    } else if (revocations_take(&t->revoked, answer->bytes, answer->size) != QUERN_OK) {
        t->list_stat = QUERN_STAT_REMOTE_REFUSED;
        snprintf(t->list_why, sizeof t->list_why, "%.290s", quern_last_error()->message);
        if (t->revoked.known) /* else each entry that is not used for it counts */
            complain(t, t->list_stat, t->list_why);
    }
}

/* Receives what has come, and wakes the threads that wait for it. */
static void pump(struct remote_tier *t)
{
    struct remote_answer answer;
    enum remote_event event;

    while (t->helper && (event = remote_receive(t->helper, &answer)) != REMOTE_NOTHING) {
        struct question *q = t->questions;
        if (event == REMOTE_GONE) {
            lose_helper(t, "its helper quern-remote ended");
            return;
        }
        pthread_cond_broadcast(&t->looked);
        if (answer.id == t->list_id) {
            take_list(t, &answer);
            continue;
        }
        while (q < t->questions + QUESTIONS_MAX && q->id != answer.id)
            q++;
        if (q == t->questions + QUESTIONS_MAX || q->answered) {
            os.free(answer.bytes); /* of one that was taken back meanwhile */
            continue;
        }
        q->answered = true;
        q->answer = answer;
    }
    if (t->helper && !t->ready_ns && *remote_about(t->helper))
        t->ready_ns = os_now();
}

/* ---- Questions ------------------------------------------------------------------------------- */

/* The question of that number; null: there is none, as in a forked child. */
static struct question *find(struct remote_tier *t, uint64_t id)
{
    for (size_t i = 0; i < QUESTIONS_MAX; i++)
        if (t->questions[i].id == id)
            return &t->questions[i];
    return NULL;
}

/* Asks for the list of what is revoked, if that is due; false: the helper does not listen. */
static bool ask_list(struct remote_tier *t)
{
    if (t->transport || t->list_id || !revocations_due(&t->revoked))
        return true;
    t->list_id = ++t->last_id;
    return remote_fetch(t->helper, REVOKED_NAME, t->list_id);
}

/* Asks a directory, whose answers are there at once: for the list of what is revoked, if that is
 * due, and for a name. */
static uint64_t ask_directory(struct remote_tier *t, const char *name, struct question *q)
{
    struct remote_answer list;

    if (revocations_due(&t->revoked)) {
        remote_directory_fetch(&t->place, REVOKED_NAME, &list);
        take_list(t, &list);
    }
    *q = (struct question){.id = ++t->last_id, .asked_ns = os_now(), .answered = true};
    remote_directory_fetch(&t->place, name, &q->answer);
    q->answer.id = q->id;
    return q->id;
}

/* A question: for a name, or with `bytes` to put these there. */
struct request {
    const char *name, *bytes;
    size_t size;
    bool if_absent; /* they are put only where nothing is */
};

static bool send_request(struct remote_tier *t, const struct request *r)
{
    t->last_id++;
    return r->bytes
               ? remote_store_note(t->helper, r->name, r->bytes, r->size, r->if_absent, t->last_id)
               : remote_fetch(t->helper, r->name, t->last_id);
}

/* Asks the remote; 0: it is not asked now. */
static uint64_t ask(struct remote_tier *t, const struct request *request)
{
    struct question *const q = find(t, 0);
    const uint64_t now = os_now();

    if (t->hopeless || now < t->rest_until || !q) {
        counter_add(t->counters, QUERN_STAT_REMOTE_SKIPPED, 1);
        return 0;
    }
    if (t->place.directory)
        return ask_directory(t, request->name, q);
    if (!t->helper && !start_helper(t))
        return 0;
    if (!ask_list(t) || !send_request(t, request)) {
        pump(t); /* its last words */
        if (t->helper)
            lose_helper(t, "its helper quern-remote does not listen");
        complain(t, QUERN_STAT_REMOTE_FAILED, "its helper quern-remote does not listen");
        return 0;
    }
    *q = (struct question){.id = t->last_id, .asked_ns = now};
    return t->last_id;
}

/* Waits until something has come from the helper, for so long at most. One thread polls it; the
 * others are woken when that one has taken what came, which may be for them. The caller has the
 * lock, which is given up meanwhile. */
static void wait_for_helper(struct remote_tier *t, uint64_t wait_ns)
{
    const uint64_t slice = SLICE_MS * NS_PER_MS, ns = wait_ns < slice ? wait_ns : slice;

    if (t->polled) {
        const uint64_t until = os_now() + ns;
        const struct timespec time = {.tv_sec = (time_t)(until / 1000000000),
                                      .tv_nsec = (long)(until % 1000000000)};
        pthread_cond_timedwait(&t->looked, &t->lock.mutex, &time);
        return;
    }
    const int fd = t->helper ? remote_socket(t->helper) : -1;
    t->polled = true;
    lock_give(&t->lock);
    remote_wait(fd, (int)(ns / NS_PER_MS) + 1);
    lock_take(&t->lock);
    t->polled = false;
    pump(t);
    pthread_cond_broadcast(&t->looked);
}

/* Waits for the answer, for so long from the question on; false: it is not there yet. */
static bool await(struct remote_tier *t, uint64_t id, uint64_t wait_ns,
                  struct remote_answer *answer)
{
    bool there = false;

    lock_take(&t->lock);
    leave_to_parent(t);
    pump(t);
    for (;;) {
        struct question *const q = find(t, id);
        const uint64_t age = q ? os_now() - q->asked_ns : 0;
        /* nothing that comes is used before it is known what is revoked */
        const bool pending = q && (!q->answered || t->list_id);
        if (pending && age > hung_ns(t))
            lose_helper(t, "its helper quern-remote hangs");
        there = !q || (q->answered && !t->list_id);
        if (there) {
            *answer = q ? q->answer : (struct remote_answer){.outcome = REPLY_ABSENT};
            if (q)
                q->id = 0;
        }
        if (there || age >= wait_ns)
            break;
        wait_for_helper(t, wait_ns - age);
    }
    lock_give(&t->lock);
    return there;
}

/* ---- What came ------------------------------------------------------------------------------- */

/* Whether the bytes are the entry that is wanted, which then holds them; *entry_bytes of them are
 * its own, the rest are its seal. */
static quern_status judge(const struct remote_tier *t, const struct tier_get *g, void *bytes,
                          size_t size, struct store_entry *entry, size_t *entry_bytes)
{
    TRY(seal_open(bytes, size, t->transport ? NULL : &t->signers, &entry->record, entry_bytes));
    TRY(store_judge(entry, g->want, g->by_source));
    entry->record.entry = bytes;
    entry->record.entry_bytes = *entry_bytes;
    entry->buffer = bytes;
    return QUERN_OK;
}

/* Whether an entry that is what is wanted may be used, by what is known to be revoked; g->refused
 * says that it is. The caller has the lock, also while a digest is made where anything is revoked.
 */
static bool is_in_force(struct remote_tier *t, const struct store_entry *entry, size_t entry_bytes,
                        struct tier_get *g)
{
    if (t->transport)
        return true;
    const struct revoked *const list =
        revocations_find(&t->revoked, &entry->record, entry->buffer, entry_bytes);
    if (list) {
        snprintf(g->refused, sizeof g->refused,
                 "its entry is revoked by list %" PRIu64 " of signer %s", list->serial,
                 list->signer);
        complain(t, QUERN_STAT_REMOTE_REVOKED, g->refused);
    } else if (!t->revoked.known) {
        trouble(t, t->list_stat, t->list_why);
    }
    return !list && t->revoked.known;
}

/* Counts an answer that says neither yes nor no. The caller has the lock. */
static void had_none(struct remote_tier *t, const struct remote_answer *answer)
{
    complain(t, QUERN_STAT_REMOTE_FAILED, answer->message);
    if (answer->id) /* else the helper was lost, for which it rests already */
        rest(t);
}

static enum tier_answer take(struct remote_tier *t, struct tier_get *g,
                             struct remote_answer *answer, struct store_entry *entry)
{
    const uint64_t took = answer->microseconds * 1000;
    size_t entry_bytes;
    bool used = false;
    char what[300];

    const quern_status status = answer->outcome == REPLY_DONE
                                    ? judge(t, g, answer->bytes, answer->size, entry, &entry_bytes)
                                    : QUERN_E_NOT_READY;
    lock_take(&t->lock);
    if (status == QUERN_OK) {
        used = is_in_force(t, entry, entry_bytes, g);
        if (used || t->revoked.known)
            answered_well(t, took);
        if (used)
            counter_add(t->counters, QUERN_STAT_HIT_REMOTE, 1);
    } else if (answer->outcome == REPLY_DONE) {
        snprintf(what, sizeof what, "its answer is not used: %.260s", quern_last_error()->message);
        trouble(t, QUERN_STAT_REMOTE_REFUSED, what);
    } else if (answer->outcome == REPLY_ABSENT) {
        if (answer->id)
            answered_well(t, took);
    } else {
        had_none(t, answer);
    }
    lock_give(&t->lock);
    if (used)
        return TIER_HIT;
    os.free(answer->bytes);
    object_free(&entry->object);
    *entry = (struct store_entry){0};
    return TIER_MISS;
}

static enum tier_answer get(void *self, struct tier_get *g, struct store_entry *entry)
{
    struct remote_tier *const t = self;
    struct remote_answer answer;
    uint64_t wait = (uint64_t)(g->wait_ms > 0 ? g->wait_ms : 0) * NS_PER_MS;

    lock_take(&t->lock);
    leave_to_parent(t);
    if (!g->pending) {
        char name[SEAL_NAME_BYTES];
        seal_name(g->by_source ? &g->want->source_key : &g->want->key, g->by_source, name);
        const uint64_t id = ask(t, &(struct request){.name = name});
        lock_give(&t->lock);
        g->pending = (void *)(uintptr_t)id;
        return id ? TIER_PENDING : TIER_MISS;
    }
    const uint64_t id = (uint64_t)(uintptr_t)g->pending;
    if (g->wait_ms == TIER_GRACE)
        wait = grace_ns(t);
    lock_give(&t->lock);
    return await(t, id, wait, &answer) ? take(t, g, &answer, entry) : TIER_PENDING;
}

static void cancel(void *self, struct tier_get *g)
{
    struct remote_tier *const t = self;

    lock_take(&t->lock);
    leave_to_parent(t);
    struct question *const q = find(t, (uint64_t)(uintptr_t)g->pending);
    if (q && q->answered) {
        os.free(q->answer.bytes);
    } else if (q) {
        /* the time that the helper takes to start is not the remote's */
        const uint64_t from = q->asked_ns > t->ready_ns ? q->asked_ns : t->ready_ns;
        if (t->ready_ns && os_now() - from > grace_ns(t))
            trouble(t, QUERN_STAT_REMOTE_LATE, "its answer was late");
        if (t->helper && !remote_cancel(t->helper, q->id))
            lose_helper(t, "its helper quern-remote does not listen");
    }
    if (q)
        *q = (struct question){0};
    lock_give(&t->lock);
}

static void put(void *self, struct store_put *puts, size_t count)
{
    struct remote_tier *const t = self;

    for (size_t i = 0; i < count; i++)
        remote_push_offer(t->push, puts[i].record);
}

/* Asks, and waits for the answer, for a claim (remote_claim.h). */
static bool ask_and_wait(void *self, const char *name, const char *bytes, size_t size,
                         bool if_absent, struct remote_answer *answer)
{
    struct remote_tier *const t = self;
    const struct request request = {name, bytes, size, if_absent};

    lock_take(&t->lock);
    leave_to_parent(t);
    const uint64_t id = ask(t, &request);
    lock_give(&t->lock);
    if (!id || !await(t, id, 2 * hung_ns(t), answer))
        return false;
    if (answer->outcome != REPLY_UNABLE)
        return true;
    lock_take(&t->lock);
    had_none(t, answer);
    lock_give(&t->lock);
    return false;
}

static struct remote_exchange exchange_of(struct remote_tier *t)
{
    lock_take(&t->lock);
    const int answer_ms = (int)(t->usual_ns / NS_PER_MS);
    lock_give(&t->lock);
    return (struct remote_exchange){ask_and_wait, t, answer_ms};
}

static enum tier_claim claim(void *self, const struct hash128 *key, struct tier_wait *wait)
{
    struct remote_tier *const t = self;
    const struct remote_exchange exchange = exchange_of(t);
    const enum tier_claim is = remote_claim(&exchange, key, wait);

    counter_add(t->counters, QUERN_STAT_REMOTE_CLAIMED,
                is == TIER_CLAIM_MINE || is == TIER_CLAIM_INHERITED);
    return is;
}

static void disclaim(void *self, const struct hash128 *key)
{
    const struct remote_exchange exchange = exchange_of(self);

    remote_disclaim(&exchange, key);
}

static void close_remote(void *self)
{
    struct remote_tier *const t = self;

    remote_push_close(t->push);
    leave_to_parent(t);
    remote_stop(t->helper);
    for (size_t i = 0; i < QUESTIONS_MAX; i++)
        if (t->questions[i].id && t->questions[i].answered)
            os.free(t->questions[i].answer.bytes);
    revocations_free(&t->revoked);
    pthread_cond_destroy(&t->looked);
    os.free(t);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static quern_status check_url(const struct settings *s, struct remote_tier *t)
{
    const struct remote_place *const place = &t->place;

    TRY((*s->remote == '/' ? remote_read_directory : remote_read_place)("QUERN_REMOTE", s->remote,
                                                                        &t->place));
    t->transport = s->remote_trust == QUERN_REMOTE_TRUST_TRANSPORT;
    FAIL_IF(t->transport && place->directory, QUERN_E_ARGUMENT,
            "QUERN_REMOTE_TRUST=transport with the directory %.200s: whoever may write there could "
            "send what runs on the GPU; have entries signed (QUERN_REMOTE_KEYS)",
            t->place.url);
    FAIL_IF(t->transport && !place->https && !place->local, QUERN_E_ARGUMENT,
            "QUERN_REMOTE_TRUST=transport with %.200s: anybody on the way could send what runs on "
            "the GPU; use https, or have entries signed (QUERN_REMOTE_KEYS)",
            t->place.url);
    /* a server that is believed for its address alone does not say who else is, and what is signed
     * is signed for one host */
    t->follow = (!t->transport || place->https) && !place->s3;
    return QUERN_OK;
}

static quern_status set_up(const struct settings *s, struct remote_tier *t)
{
    TRY(check_url(s, t));
    FAIL_IF(t->transport && s->remote_keys, QUERN_E_ARGUMENT,
            "QUERN_REMOTE_KEYS is given, and QUERN_REMOTE_TRUST=transport asks for no signature; "
            "unset one of them");
    FAIL_IF(!t->transport && !s->remote_keys, QUERN_E_ARGUMENT,
            "QUERN_REMOTE is set and QUERN_REMOTE_KEYS is not: name the file of the public keys "
            "that sign its entries, or say QUERN_REMOTE_TRUST=transport to use what an https "
            "server sends unsigned");
    return t->transport
               ? QUERN_OK
               : signers_read("the key file (QUERN_REMOTE_KEYS)", s->remote_keys, &t->signers);
}

static quern_status set_up_push(const struct settings *s, struct remote_tier *t)
{
    const bool writes = s->remote_mode == QUERN_REMOTE_MODE_RW;

    FAIL_IF(!writes && s->remote_sign_key, QUERN_E_ARGUMENT,
            "QUERN_REMOTE_SIGN_KEY is given, and QUERN_REMOTE_MODE is not rw: nothing would be "
            "signed; unset the one or set the other");
    FAIL_IF(writes && !t->transport && !s->remote_sign_key, QUERN_E_ARGUMENT,
            "QUERN_REMOTE_MODE is rw and QUERN_REMOTE_SIGN_KEY is not set: name the file of the "
            "secret key that signs what this machine gives to the remote");
    FAIL_IF(writes && t->place.directory, QUERN_E_ARGUMENT,
            "QUERN_REMOTE_MODE is rw and QUERN_REMOTE is the directory %.200s, which is only read; "
            "quern cache push writes there",
            t->place.url);
    const struct remote_push_config config = {.place = &t->place,
                                              .worker_path = s->worker_path,
                                              .sign_key = s->remote_sign_key,
                                              .log = t->log,
                                              .counters = t->counters};
    return writes ? remote_push_open(&config, &t->push) : QUERN_OK;
}

/* How long one transfer may take for a host whose grace this is; -1: it is unlimited. */
static int patience_of(int grace_ms)
{
    return grace_ms < 0                    ? REMOTE_PATIENCE_LONG_MS
           : grace_ms > REMOTE_PATIENCE_MS ? grace_ms
                                           : REMOTE_PATIENCE_MS;
}

quern_status remote_open(const struct settings *settings, struct store *store, struct log *log,
                         struct counters *counters, struct remote_tier **remote, struct tier *tier)
{
    struct remote_tier *const t = os.calloc(1, sizeof *t);

    FAIL_IF(!t, QUERN_E_MEMORY, "out of memory for a remote cache");
    t->log = log;
    t->counters = counters;
    quern_status status = set_up(settings, t);
    if (status == QUERN_OK)
        status = set_up_push(settings, t);
    if (status != QUERN_OK) {
        os.free(t);
        return status;
    }
    t->revoked.store = store;
    t->revoked.signers = &t->signers;
    t->grace_ms = settings->remote_grace_ms;
    t->place.patience_ms = patience_of(t->grace_ms);
    t->worker_path = settings->worker_path;
    t->process = (int)getpid();
    make_condition(t);
    *remote = t;
    *tier = (struct tier){.name = "the remote cache",
                          .id = QUERN_TIER_REMOTE,
                          .far = true,
                          .self = t,
                          .get = get,
                          .cancel = cancel,
                          .put = t->push ? put : NULL,
                          /* of other servers it is not known whether they heed a condition */
                          .claim = t->push && t->place.s3 ? claim : NULL,
                          .disclaim = disclaim,
                          .claims_for_ops = t->grace_ms < 0,
                          .close = close_remote};
    return QUERN_OK;
}

void quern_remote_settle(quern_ctx *ctx)
{
    const struct remote_tier *const t = ctx ? ctx->remote : NULL;

    if (t && t->push)
        remote_push_settle(t->push,
                           t->place.patience_ms > SETTLE_MS ? t->place.patience_ms : SETTLE_MS);
}

void remote_tell(struct remote_tier *t, const char *refused, struct str *out)
{
    lock_take(&t->lock);
    if (*refused)
        str_addf(out, "; remote cache %s: %s", t->place.url, refused);
    else if (t->troubles || t->hopeless)
        str_addf(out, "; remote cache %s: %s", t->place.url, t->why);
    else
        str_addf(out, "; remote cache %s does not have it", t->place.url);
    lock_give(&t->lock);
}

bool remote_try(struct remote_tier *t, struct str *out)
{
    const struct hash128 none = {{0}};
    struct remote_answer answer = {0};
    char name[SEAL_NAME_BYTES];

    seal_name(&none, false, name);
    lock_take(&t->lock);
    const uint64_t id = ask(t, &(struct request){.name = name});
    lock_give(&t->lock);
    const bool answered = id && await(t, id, 2 * hung_ns(t), &answer);
    lock_take(&t->lock);
    const bool good =
        answered && answer.outcome != REPLY_UNABLE && (t->transport || t->revoked.known);
    str_addf(out, "%s: ", t->place.url);
    if (good)
        str_addf(out, "answers in %.1f ms", (double)answer.microseconds / 1000);
    else
        str_add(out, answered && answer.outcome == REPLY_UNABLE && !t->hopeless ? answer.message
                     : answered && !t->revoked.known                            ? t->list_why
                                                                                : t->why);
    str_addf(out, "; %s", t->transport ? "what it sends is used unsigned" : "entries are signed");
    if (t->helper)
        str_addf(out, "; %s", remote_about(t->helper));
    lock_give(&t->lock);
    os.free(answer.bytes);
    return good;
}
