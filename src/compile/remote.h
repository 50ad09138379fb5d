/* SPDX-License-Identifier: MIT */
/*
 * The helper that fetches from a remote cache (remote_helper.c), as the host sees it: frames go to
 * it and come from it by number, and no call but remote_wait, remote_await and remote_store waits
 * for anything. The helper speaks to the network; what it passes on is whatever a server sent.
 *
 * Not thread-safe, except for remote_wait: the tier (dispatch/remote_tier.c), which several threads
 * ask, has a lock around the rest.
 */
#ifndef QUERN_COMPILE_REMOTE_H
#define QUERN_COMPILE_REMOTE_H

#include "base/error.h"
#include "compile/protocol.h"

/* How long one transfer may take, including its wait for a turn among others: usually, and for a
 * host whose grace is unlimited. That host would rather wait than compile, and a busy store may
 * serve hundreds before it. */
#define REMOTE_PATIENCE_MS      10000
#define REMOTE_PATIENCE_LONG_MS 600000
/* How long the helper may leave a question without an answer before it counts as hanging. It fails
 * a transfer itself after patience_ms, and has ten seconds more to say so. */
#define REMOTE_HUNG_MS(patience_ms) ((patience_ms) + 10000)

struct remote;

/* What requests to an S3 object store are signed with (Signature Version 4). They reach the helper
 * in its first frame, and nothing else: no environment, no log. */
struct remote_credentials {
    char region[64];
    char key_id[256], secret[256];
    char token[4096]; /* of a session; "": there is none */
};

struct remote_config {
    const char *path;         /* the helper's */
    const char *url;          /* what names are put behind, with a slash between */
    bool follow;              /* redirections of the server's */
    int patience_ms;          /* how long one transfer may take; a silent one is given up sooner */
    const char *certificates; /* the file of those that are trusted; "": the machine's */
    const struct remote_credentials *credentials; /* null: requests are not signed */
};

/* Starts the helper: about a millisecond. What it says of itself comes later. QUERN_E_TOOLCHAIN (it
 * cannot be run), QUERN_E_IO, QUERN_E_MEMORY. */
quern_status remote_start(const struct remote_config *config, struct remote **remote);
/* Takes over a process that is to be told nothing more; null: out of memory, and it is the caller's
 * still. */
struct process;
struct remote *remote_adopt(struct process *process);
/* Ends it, at once: it has nothing to put in order. */
void remote_stop(struct remote *remote);
/* In a forked child: frees, leaving the helper to the parent. */
void remote_forget(struct remote *remote);

/* Asks for a name, by a number that no other question has, or takes that back. False: the helper
 * does not listen any more. */
bool remote_fetch(struct remote *remote, const char *name, uint64_t id);
bool remote_cancel(struct remote *remote, uint64_t id);
/* Has the server keep bytes at a name; the answer has none. Waits until the helper has read them,
 * some seconds at most, which it may not do while answers with bytes wait to be received: so no
 * remote_fetch may be unanswered. */
bool remote_store(struct remote *remote, const char *name, const void *bytes, size_t size,
                  uint64_t id);
/* The same for a few bytes, which waits for nothing, and so may be called between fetches.
 * `if_absent`: REPLY_TAKEN is the answer where the server has something of that name, of a server
 * that heeds If-None-Match (RFC 9110, 13.1.2). */
bool remote_store_note(struct remote *remote, const char *name, const void *bytes, size_t size,
                       bool if_absent, uint64_t id);

struct remote_answer {
    uint64_t id;
    enum reply_outcome outcome;
    uint64_t microseconds; /* that the fetch took */
    uint8_t *bytes;        /* malloc'ed, of REPLY_DONE */
    size_t size;
    char message[200]; /* of REPLY_UNABLE */
};
enum remote_event {
    REMOTE_NOTHING, /* nothing more has come so far */
    REMOTE_ANSWER,
    REMOTE_GONE /* the helper ended, or said what is no answer; remote_about says which */
};
/* Receives what has come, up to one answer. */
enum remote_event remote_receive(struct remote *remote, struct remote_answer *answer);

/* Waits until something may have come, at most so long. Any thread; `fd` is remote_socket's. */
int remote_socket(const struct remote *remote);
void remote_wait(int fd, int wait_ms);

/* Waits for the next answer to what was asked. False, and why in a sentence's half: the helper
 * ended, or hangs. */
bool remote_await(struct remote *remote, struct remote_answer *answer, char *why, size_t why_size);

/* What the helper said of itself: its sandbox and libcurl, or why it cannot work; "" before. */
const char *remote_about(const struct remote *remote);
/* Whether it said that it cannot work here, which no further try would change. */
bool remote_hopeless(const struct remote *remote);

#endif
