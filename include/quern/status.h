/* SPDX-License-Identifier: MIT */
/*
 * What all public headers of quern share: how functions fail, and how structs grow from version to
 * version. It stands apart from quern.h because the software GPU needs it and nothing else of that.
 */
#ifndef QUERN_STATUS_H
#define QUERN_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QUERN_API __attribute__((visibility("default")))
#else
#define QUERN_API
#endif

/* ---- Structs of other versions ------------------------------------------------------------------
 *
 * Structs grow from version to version, at their end and never within the padding there (which may
 * hold anything in a host's struct), so no field ever moves. A host may run with a library that is
 * older or newer than the header it was compiled with, because `size` says which fields the host
 * has:
 *
 *  - A size below the library's own is taken from the struct's QUERN_…_SIZE_MIN on. Fields that the
 *    host lacks count as 0 in an input, and are not written in a result.
 *  - A size above the library's own is taken if every byte that the library does not know is 0, in
 *    a result as in an input. So a new field that the host sets is never passed over in silence,
 *    and one of a result stays 0 where the library is too old to fill it.
 *  - Any other size is QUERN_E_ARGUMENT, and the message names the struct, the size and what is
 *    right. The library never changes `size`, nor a byte behind the fields that both sides know.
 *  - The elements of an array all have the `size` of the first, and lie that far apart.
 *  - In structs that the library makes and the host only reads (struct quern_event and struct
 *    quern_progress), `size` is the library's. A host that may meet an older library compares it
 *    with QUERN_SIZE_TO before it reads a field that is newer than that library.
 *  - struct quern_error has no `size`. The library alone makes it, and gives it out by pointer, so
 *    that it may grow at its end too; reading a field that is newer than version 0.1 takes a
 *    library as new as the header. Other structs without `size` never change.
 */

/* Initialiser of any struct with `size`: `struct quern_args a = QUERN_INIT(struct quern_args);` In
 * C++ it is a value of that type, because designated initialisers came with C++20 only, and
 * compilers warn of fields that one leaves out. */
#ifdef __cplusplus
extern "C++" {
template <class T> inline T quern_init_of()
{
    T all = T();
    all.size = sizeof(T);
    return all;
}
}
#define QUERN_INIT(type) quern_init_of<type>()
#else
#define QUERN_INIT(type) {.size = sizeof(type)}
#endif
/* The size of a struct that ends with `field`. */
#define QUERN_SIZE_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What kernels do with memory. A software GPU checks that they do no more. */
enum quern_access {
    QUERN_READ = 1,
    QUERN_WRITE = 2, /* its bytes count as never written until a kernel writes them */
    QUERN_READ_WRITE = 3
};

/* ---- Status ---------------------------------------------------------------------------------- */

/* The numbers never change. Between subjects there are gaps, for statuses to come. */
typedef enum quern_status {
    QUERN_OK = 0,
    /* what the caller passed */
    QUERN_E_ARGUMENT = 1, /* a null or contradictory argument, or a struct's `size` */
    QUERN_E_PROBLEM = 2,  /* a problem whose words or sizes are wrong */
    QUERN_E_TARGET = 3,   /* an unknown or malformed target, or none where one is needed */
    QUERN_E_ALIGN = 4,    /* a pointer, or a distance between rows, that is not aligned as needed */
    QUERN_E_BUFFER = 5,   /* a caller's buffer that is too small */
    QUERN_E_DECLINED =
        6, /* a valid problem that this target or version cannot do; no compile tried */
    /* the machine */
    QUERN_E_MEMORY = 20, /* out of memory */
    QUERN_E_IO = 21,     /* an operating system call failed */
    /* the compiler */
    QUERN_E_TOOLCHAIN = 40,     /* no usable compiler or worker executable was found */
    QUERN_E_COMPILE = 41,       /* the compiler rejected the source */
    QUERN_E_WORKER = 42,        /* a worker process died, or sent a reply that is no reply */
    QUERN_E_TIMEOUT = 43,       /* a deadline passed */
    QUERN_E_WOULD_COMPILE = 44, /* a kernel is missing and compiling it was not allowed */
    QUERN_E_NOT_READY = 45,     /* kernels are still being made: see quern_op_ready */
    /* code objects and the cache */
    QUERN_E_OBJECT = 60, /* a code object that is damaged or for another target */
    QUERN_E_CACHE = 61,  /* a cache directory that cannot be used */
    /* devices */
    QUERN_E_DEVICE = 80, /* the device runtime failed or there is no such device */
    QUERN_E_FAULT = 81,  /* the software GPU stopped a kernel: see quern_last_error()->message */
    QUERN_E_VERIFY = 82, /* a kernel's answer differs from the reference */
    QUERN_E_CANCELLED = 90,
    QUERN_E_INTERNAL = 99, /* a bug in quern */
} quern_status;

/* The name of a status, e.g. "QUERN_E_ALIGN"; never null. */
QUERN_API const char *quern_status_name(quern_status status);

/*
 * What went wrong last on this thread. Strings are valid until the thread's next failing call. New
 * fields are added at the end only: see "Structs of other versions".
 *
 * `stage` says which stage of the work failed. It is one of these words, which never change their
 * meaning; a later version may add words.
 *
 *     "dispatch"  the call itself: its arguments and options, ops, launches, verification
 *     "problem"   the description of a layer
 *     "target"    the name of a target
 *     "plan"      choosing kernels and their shapes, tuning tables among what is chosen by
 *     "gen"       writing a kernel's source
 *     "compile"   finding the compiler, and compiling in a worker process
 *     "object"    reading a code object or an offload bundle
 *     "store"     the cache directory and bundles of kernels
 *     "device"    the runtime of a GPU, its matrix library, or a software GPU in its place
 *     "sim"       the software GPU, when it runs a kernel
 *     "quant"     quantising, dequantising, repacking and importing weights on the CPU
 *     "lint"      scanning code objects
 *     "cpu"       running a kernel's text on the CPU, to verify it
 *
 * Some messages end with what to do about it, in the words of this interface: struct quern_options
 * and environment variables. A host that gives these to its users by other names prints `fact` and
 * advice of its own in place of `message`, which is `fact`, "; " and `remedy`. Of QUERN_E_TARGET
 * there is a remedy only where no target was given, and it is how to give one.
 */
struct quern_error {
    quern_status status;
    const char *message;   /* one sentence: what was wrong, which value, what would be right */
    const char *stage;     /* one of the words above */
    const char *condition; /* the failed condition as written in the source, with file and line */
    const char *log;       /* the compiler's log, or "" */
    const char *reproduce; /* a command that shows the failure again, or "" */
    const char *fact;      /* the message without the remedy at its end */
    const char *remedy;    /* that remedy, or "" */
};

QUERN_API const struct quern_error *quern_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
