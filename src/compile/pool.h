/* SPDX-License-Identifier: MIT */
/* The pool behind a struct compiler: which worker does a request, and what is done when it dies. */
#ifndef QUERN_COMPILE_POOL_H
#define QUERN_COMPILE_POOL_H

#include "compile/process.h"

struct pool;

/* A reference to a pool. Pools outlive the log of whoever opened them first, so it is kept here. */
struct compiler {
    struct pool *pool;
    struct log *log;
};

/*
 * Has a worker answer a request; `what` says what is being done, for messages ("compiling for
 * gfx1151"). On success the reply's outcome, time and strings are unpacked into *answer, which
 * points into answer->bytes; free that. A request that ended a worker is refused when it comes
 * again. QUERN_E_NOT_READY when `watch` says that the answer is no longer of use; a worker that is
 * at the request is then ended, which counts neither as its death nor against the request.
 * Thread-safe; blocks until a worker is free and has answered, or the deadline passed.
 */
struct answer {
    enum reply_outcome outcome;
    double milliseconds;
    const char *message; /* the log, message_size bytes, no NUL */
    size_t message_size;
    const uint8_t *data;
    size_t size;
    uint8_t *bytes;
};
quern_status pool_request(struct compiler *compiler, enum frame_kind kind,
                          const struct fields *request, const char *what, const struct watch *watch,
                          struct answer *answer);

/* Unpacks a reply; false when it cannot be one. *answer points into it. */
struct process_reply;
bool answer_read(const struct process_reply *reply, struct answer *answer);
/* Hands out the instructions of a disassembly of `size` bytes of code, having checked that they
 * cover them without gaps. QUERN_E_WORKER when they do not. */
quern_status answer_instructions(const struct answer *answer, size_t size,
                                 quern_disassembly_fn emit, void *user);

/* Whose targets it compiles for: enum vendor. */
unsigned pool_vendor(const struct compiler *compiler);

enum pool_count { POOL_COMPILED, POOL_FAILED };
void pool_count(struct compiler *compiler, enum pool_count which);

/* What confines the workers, in words; "" before one was started. */
void pool_sandbox(struct compiler *compiler, char *text, size_t size);

#endif
