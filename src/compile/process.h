/* SPDX-License-Identifier: MIT */
/*
 * One worker process, seen from the host: starting it, asking it one thing at a time, ending it.
 *
 * The process is no child of the host (it is started through an intermediate that ends at once), so
 * that the host's SIGCHLD handlers and wait() calls never meet it. It is signalled through a pidfd
 * only. When the host ends, however it ends, the socket closes and the worker goes.
 *
 * Not thread-safe: the pool gives a process to one caller at a time.
 */
#ifndef QUERN_COMPILE_PROCESS_H
#define QUERN_COMPILE_PROCESS_H

#include "compile/compile.h"
#include "compile/protocol.h"
#include "compile/spawn.h"

/* So many bytes of what the compiler printed last are kept. */
#define PROCESS_TAIL 65536

struct process {
    int sock;       /* -1 once the process was given up */
    int pipe;       /* its stdout and stderr */
    int pidfd;      /* -1 where the kernel has none: closing the socket ends the worker then */
    uint64_t id;    /* of the last request */
    size_t printed; /* bytes that came through the pipe */
    char tail[PROCESS_TAIL]; /* a ring: byte i of what was printed is at i % PROCESS_TAIL */
    char sandbox[128];       /* what confines the compiler, in words */
};

struct process_config {
    const struct toolchain *toolchain;
    const char
        *worker_path;      /* for messages, argv[0], and as the file where worker_fd cannot serve */
    int worker_fd;         /* the worker executable, opened with O_PATH */
    int loader_fd;         /* the toolchain's own loader, or -1 */
    const char *temporary; /* directory for the worker's private one; "": its own choice */
    int deadline_ms;       /* of starting */
};

/* Starts a worker and shakes hands. Blocks. QUERN_E_WORKER, QUERN_E_TIMEOUT, QUERN_E_TOOLCHAIN (the
 * executable cannot be run or is of another release), QUERN_E_IO, QUERN_E_MEMORY. */
quern_status process_start(const struct process_config *config, struct process **process);

/* The part of process_start that starts a program, whatever it is: 0, or an errno and the stage
 * that spawn_program names ("malloc": out of memory). */
int process_spawn(const struct spawn *spawn, struct process **process, const char **stage);

/* How a request ended. */
enum process_end {
    PROCESS_ANSWERED,
    PROCESS_CRASHED, /* by a signal */
    PROCESS_EXITED,
    PROCESS_VANISHED, /* killed from outside, or gone without a report */
    PROCESS_SILENT,   /* the deadline passed */
    PROCESS_GARBAGE,  /* it sent what is no reply to the request */
    PROCESS_UNWANTED, /* the caller has no more use for an answer */
    PROCESS_NO_MEMORY /* the host could not receive the answer: out of memory, mostly */
};

struct process_reply {
    uint8_t *bytes; /* malloc'ed payload when answered */
    size_t size;
    enum process_end end;
    char why[160]; /* when not answered: how it ended, for people */
    char *printed; /* when not answered: malloc'ed tail of what the compiler printed; may be null */
};

/* How to find out whether the answer that a caller waits for is still of use: asked every WATCH_MS.
 */
#define WATCH_MS 10
struct watch {
    compile_unwanted_fn unwanted; /* null: it is always of use */
    void *user;
};

/* Sends a request and waits for its reply. Blocks. Unless `end` is PROCESS_ANSWERED the process is
 * of no further use. Free both pointers of the reply. */
void process_call(struct process *process, enum frame_kind kind, const void *payload, size_t size,
                  int deadline_ms, const struct watch *watch, struct process_reply *reply);

/* Whether an idle process is still there and has not spoken out of turn. Does not block. */
bool process_usable(const struct process *process);

/* Tells the process to end; process_stop then waits for that, kills it if it takes long, and frees.
 * Either may be called alone. */
void process_hang_up(struct process *process);
void process_stop(struct process *process);

/* In a forked child: closes the descriptors and frees, leaving the process to the parent. */
void process_forget(struct process *process);

#endif
