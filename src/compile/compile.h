/* SPDX-License-Identifier: MIT */
/*
 * The compiler, out of process: a pool of workers that load a vendor's compiler and disassembler,
 * so that nothing those libraries do (abort, exit, crash, hang) reaches the host. One job is in
 * flight per worker; callers block until a worker is free, so that as many threads as there are
 * workers compile at once.
 */
#ifndef QUERN_COMPILE_COMPILE_H
#define QUERN_COMPILE_COMPILE_H

#include "base/log.h"
#include "target/target.h"

#include <quern/sim.h>

struct compiler;

struct compiler_config {
    unsigned vendor;         /* enum vendor: whose compiler */
    const char *path;        /* where to look for it, see toolchain_find; may be null */
    const char *worker_path; /* null: libexec/quern/quern-worker beside the library or program, then
                              * in the built-in directory QUERN_LIBEXEC */
    int jobs;                /* workers; 0: one per CPU */
    int deadline_ms;         /* of one job; 0: 60,000 */
    struct log *log;
};

/* The libraries of a toolchain. SUPPORT: a library that the disassembler needs, where it is not
 * linked into it (comgr's LLVM). */
enum toolchain_library {
    LIBRARY_COMPILER,
    LIBRARY_BUILTINS,
    LIBRARY_DISASSEMBLER,
    LIBRARY_SUPPORT,
    TOOLCHAIN_LIBRARIES
};
#define TOOLCHAIN_PATH_MAX 1024

/* Where the toolchain is and what it is, learnt from its files alone (no worker is started). */
struct toolchain {
    const struct compiler_kind *kind;                      /* its vendor's (compilers.h) */
    char root[TOOLCHAIN_PATH_MAX];                         /* e.g. "/opt/rocm-6.4.3" */
    char library[TOOLCHAIN_LIBRARIES][TOOLCHAIN_PATH_MAX]; /* full paths; "": there is none */
    char loader[TOOLCHAIN_PATH_MAX]; /* the root's own ld-linux, which runs the worker; "": the
                                        host's does */
    char library_path[2048];         /* where that loader looks for libraries */
    char identity[256]; /* GNU build-ids of the libraries, "hiprtc:…,builtins:…,comgr:…,llvm:…" */
};

/*
 * Looks for a toolchain: in `path` and nowhere else when that is given; else where its vendor's
 * compiler usually is, which for AMD's is $ROCM_PATH, /opt/rocm, /opt/rocm-* (newest first), /usr,
 * and build/rocm of the build tree this library is in. QUERN_E_TOOLCHAIN lists every place tried.
 * Reads a few ELF headers.
 */
quern_status toolchain_find(unsigned vendor, const char *path, struct toolchain *toolchain);
/* The name of the context's option that gives such a `path`, "rocm_path"; null: there is none. */
const char *toolchain_option(unsigned vendor);
/* The name of a library in a toolchain's identity, "hiprtc"; null where there is no such library.
 */
const char *toolchain_label(const struct toolchain *toolchain, enum toolchain_library library);

/* Opens the process's pool, or takes a reference to it when the configuration is the same. No
 * process is started before the first job. Never fails for want of a toolchain: jobs do. After a
 * fork the child may use the handle at once; it gets workers of its own. */
quern_status compiler_open(const struct compiler_config *config, struct compiler **compiler);
/* The last reference ends the workers (blocks a few milliseconds). No job may be running on it. */
void compiler_close(struct compiler *compiler);

/* The toolchain, or null with QUERN_E_TOOLCHAIN recorded; valid until the handle is closed. */
const struct toolchain *compiler_toolchain(struct compiler *compiler);

/* Whether a job's result is no longer of use. Called every few milliseconds while the job waits for
 * a worker or for its answer, on the thread that waits and with no lock held; not called again
 * after it has returned true. */
typedef bool (*compile_unwanted_fn)(void *user);

struct compile_job {
    const char *source;    /* NUL-terminated */
    const char *processor; /* "gfx1151": a name from the target table, with features if set */
    const char *options;   /* one per line */
    compile_unwanted_fn unwanted; /* null: the job is wanted whatever happens */
    void *unwanted_user;
};

struct compile_result {
    void *object; /* malloc'ed ELF; not validated: that is object/'s work */
    size_t object_bytes;
    char *log;           /* malloc'ed, may be "" */
    double milliseconds; /* in the worker's compiler */
};

/* Compiles. On QUERN_E_COMPILE the detail record carries the compiler's log; QUERN_E_WORKER and
 * QUERN_E_TIMEOUT say how the worker died, and the log has what it printed last. A source that
 * killed a worker is refused from then on without starting another. QUERN_E_TARGET,
 * QUERN_E_TOOLCHAIN, QUERN_E_IO, QUERN_E_MEMORY as their names say. QUERN_E_NOT_READY: the job came
 * to be unwanted; if it had a worker, that was ended, and the next job starts another. Thread-safe;
 * blocks. */
quern_status compiler_compile(struct compiler *compiler, const struct compile_job *job,
                              struct compile_result *result);
void compile_result_free(struct compile_result *result);

/* Compiles a few lines for a processor, to find out whether the compiler works at all, and gives
 * the size of the object. Fails like compiler_compile. */
quern_status compiler_try(struct compiler *compiler, const char *processor, size_t *object_bytes);

/* Disassembles machine code; quern_disassembler's function. `user` is the struct compiler. */
quern_status compiler_disassemble(void *compiler, const char *processor, const void *code,
                                  size_t size, quern_disassembly_fn emit, void *emit_user);

/* The disassembler's list of processors, space-separated (malloc'ed), for `quern doctor` and
 * tests. */
quern_status compiler_targets(struct compiler *compiler, char **targets);
/* An object's metadata as YAML-like text (malloc'ed), as the disassembler's library reads them:
 * what tests compare our own reader with. */
quern_status compiler_metadata(struct compiler *compiler, const void *object, size_t size,
                               char **text);

/* The libraries' versions and what confines the workers, for `quern doctor` (malloc'ed). */
quern_status compiler_version(struct compiler *compiler, char **text);

struct compiler_stats {
    uint64_t started, died, compiled, failed, timeouts;
    uint64_t dropped; /* jobs that came to be unwanted, with a worker or without */
};
void compiler_stats(struct compiler *compiler, struct compiler_stats *stats);

#endif
