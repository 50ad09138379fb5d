/* SPDX-License-Identifier: MIT */
/*
 * How functions fail: they return a quern_status, and the macros below write its details into a
 * record of the calling thread, which quern_last_error() shows to the host. TRY writes nothing, so
 * the record tells of the function that found the failure, and not of those that passed it on.
 */
#ifndef QUERN_BASE_ERROR_H
#define QUERN_BASE_ERROR_H

#include <quern/status.h>

#define FAIL_STRING_(x) #x
#define FAIL_STRING(x)  FAIL_STRING_(x)
#define FAIL_AT(cond)   cond " at " __FILE__ ":" FAIL_STRING(__LINE__)

/* Records a failure and returns `code`. `...` is a printf format and its arguments: a sentence that
 * says what was wrong, which value it had, and what would be right. */
#define FAIL(code, ...) return error_set((code), __FILE__, FAIL_AT(""), __VA_ARGS__)

#define FAIL_IF(cond, code, ...)                                                                   \
    do {                                                                                           \
        if (cond)                                                                                  \
            return error_set((code), __FILE__, FAIL_AT(#cond), __VA_ARGS__);                       \
    } while (0)

/* Returns a callee's failure unchanged. The callee has recorded the details. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        const quern_status try_status_ = (expr);                                                   \
        if (try_status_ != QUERN_OK)                                                               \
            return try_status_;                                                                    \
    } while (0)

/* Replaces the thread's record and returns `code`. `file` is __FILE__ where it failed; it decides
 * the stage, one of the words that status.h lists. */
quern_status error_set(quern_status code, const char *file, const char *condition,
                       const char *format, ...) __attribute__((format(printf, 4, 5), cold));

/* A thread's record. A thread that works for another saves its own after a failure, and the other
 * thread restores it, so that the caller finds the details where it asks. */
struct error_record {
    struct quern_error view;
    char message[1024];
    char condition[256];
    char log[4096]; /* a longer log keeps its beginning, where compilers name the first error */
    char reproduce[1024];
    char fact[1024];
    char remedy[256];
};
void error_save(struct error_record *record);
/* Makes a copy of *record the calling thread's record, and returns its status. */
quern_status error_restore(const struct error_record *record);

/* Ends the message that was set last with "; " and what to do about it, which hosts can tell from
 * the rest; `...` is a printf format and its arguments. Returns the record's status. */
quern_status error_remedy(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* Add the compiler's log, or a command that shows the failure again, to the record that was set
 * last. The text is copied. */
void error_log(const char *log);
void error_reproduce(const char *command);

#endif
