/* SPDX-License-Identifier: MIT */
/*
 * The detail record behind a failing status. Functions return a quern_status; the macros below fill
 * the calling thread's record on the way out, so the deepest failure is the one that is kept.
 */
#ifndef QUERN_BASE_ERROR_H
#define QUERN_BASE_ERROR_H

#include <quern/quern.h>

#define FAIL_STRING_(x) #x
#define FAIL_STRING(x)  FAIL_STRING_(x)
#define FAIL_AT(cond)   cond " at " __FILE__ ":" FAIL_STRING(__LINE__)

/* Records a failure and returns `code`. `...` is a printf format: what was wrong, which value, what
 * would be right. The stage is the room's folder, the second of __FILE__. */
#define FAIL(code, ...) return error_set((code), __FILE__, FAIL_AT(""), __VA_ARGS__)

#define FAIL_IF(cond, code, ...)                                                                   \
    do {                                                                                           \
        if (cond)                                                                                  \
            return error_set((code), __FILE__, FAIL_AT(#cond), __VA_ARGS__);                       \
    } while (0)

/* Returns a callee's failure unchanged; its detail is already recorded. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        const quern_status try_status_ = (expr);                                                   \
        if (try_status_ != QUERN_OK)                                                               \
            return try_status_;                                                                    \
    } while (0)

/* Replaces the thread's record; returns `code`. */
quern_status error_set(quern_status code, const char *file, const char *condition,
                       const char *format, ...) __attribute__((format(printf, 4, 5), cold));

/* A thread's record by value: work done on another thread hands its failure back with these. */
struct error_record {
    struct quern_error view;
    char message[1024];
    char stage[16];
    char condition[256];
    char log[4096]; /* a longer log keeps its beginning, where compilers name the first error */
    char reproduce[1024];
};
void error_save(struct error_record *record);
/* Makes *record the calling thread's record; returns its status. */
quern_status error_restore(const struct error_record *record);

/* Adds the compiler's log or a reproducing command to the record just set. Copied. */
void error_log(const char *log);
void error_reproduce(const char *command);

#endif
