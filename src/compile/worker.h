/* SPDX-License-Identifier: MIT */
/*
 * The worker executable: a supervisor, and under it the process that holds the compiler. The
 * supervisor makes the private temporary directory, reports how its child ended, ends it when the
 * host hangs up, and removes the directory. The child is confined (worker_sandbox.c) before it
 * loads anything, and answers requests one after another until the host hangs up.
 *
 * Nothing of the library is linked in: the worker may run on another C library than the host's.
 */
#ifndef QUERN_COMPILE_WORKER_H
#define QUERN_COMPILE_WORKER_H

#include "compile/protocol.h"

struct worker_config {
    char *build;
    char *prefix, *code, *target, *file, *environment; /* of the compiler, as in compilers.h */
    char *compiler, *builtins, *disassembler;          /* libraries; "": there is none */
    char *root;                                        /* of the toolchain */
    char *libraries; /* "host": the toolchain uses the host's C library; "" it has its own */
    char *temporary; /* the private directory, once made */
    char *refused;   /* names of the system calls that the sandbox refused so far (calls_refuse) */
};

/* An answer being made. */
struct reply {
    enum reply_outcome outcome;
    uint64_t microseconds;
    struct fields message, data;
};

/* Sets outcome and message. */
void reply_unable(struct reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A function of a library met by dlopen, and where its address goes. */
struct worker_function {
    void **function;
    const char *name; /* without the prefix that all names of the library have */
};
/* A pointer to one, as a row of a library's table says. */
#define WORKER_POINTER(name, result, symbol, parameters) result(*name) parameters;
/* Finds all of them; false, and the reply says which one the library at `path` lacks. */
bool find_functions(void *library, const char *path, const char *prefix,
                    const struct worker_function *needed, size_t count, struct reply *reply);

/* Frames on a blocking socket. read_frame returns false when the host hung up or sent nonsense; the
 * payload is malloc'ed. */
bool read_frame(int sock, struct frame_header *header, uint8_t **payload);
bool write_frame(int sock, enum frame_kind kind, uint64_t id, const struct fields *payload);

/* Answers requests until the host hangs up. */
void serve(const struct worker_config *config, int sock);

/* Limits this process's memory, files and core dumps, and raises its limit of descriptors: a host
 * that has a low one must not make the compiler fail. For the supervisor, too. */
void sandbox_limits(void);

/*
 * Confines the calling process, for good, as far as the kernel can: no new privileges, file access
 * through Landlock, system calls by a list of those that are allowed. Writes what was achieved, in
 * words. Never fails: a kernel without a means is confined without it. `supervisor` is a socket to
 * the process that calls calls_listener; -1: there is none. `config` is null in the helper that
 * fetches from a remote cache: it may connect, reads the host's libraries and what names and
 * certificates are looked up in, writes no file, and has none of root's capabilities.
 */
void sandbox_enter(const struct worker_config *config, int supervisor, char *level, size_t size);

/* The part of sandbox_enter that is about system calls (worker_calls.c); `network`: it may connect.
 * False: the kernel cannot filter them, and none is refused. */
bool calls_filter(int supervisor, bool network);
/* Receives, at the other end of the socket that calls_filter was given, a descriptor that is
 * readable when a call is to be refused; -1 where the kernel refuses them by itself. */
int calls_listener(int child);
/* Refuses one call, and adds its name to a shared list of REFUSED_BYTES. False: the listener is of
 * no more use. */
bool calls_refuse(int listener, char *refused);
#define REFUSED_BYTES 4096

/* The jobs. Each loads its library at its first use. A field reader that fails is a request that
 * cannot be read: the reply says so. */
typedef void worker_job(const struct worker_config *config, struct field_reader *request,
                        struct reply *reply);
worker_job job_compile, job_disassemble, job_metadata, job_targets, job_version;

/* Versions, appended as text: "hiprtc interface 9.0", "comgr 3.0". False: the reply says why not.
 */
bool rtc_version(const struct worker_config *config, struct reply *reply);
bool comgr_version(const struct worker_config *config, struct reply *reply);

/* A field as a new string; aborts when out of memory (the supervisor reports that). */
char *field_text(struct field_reader *r);

#endif
