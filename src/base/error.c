/* SPDX-License-Identifier: MIT */
/* The record of each thread's last failure, and the names of statuses and stages. */
#include "base/error.h"

#include <quern/tool.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fixed storage: reporting that memory ran out must not need memory. */
static _Thread_local struct error_record record = {.view.stage = ""};

/* An argument may be a file name or a user's text, and a log is a compiler's: none may drive the
 * terminal of whoever reads it. */
static void copy(enum quern_shown how, char *to, size_t size, const char *from)
{
    quern_text_shown(how, from, strlen(from), to, size);
}

/* Which stage the code of each folder belongs to. Hosts compare stages with the words that status.h
 * lists, so that a word must stay as it is when its folder is renamed. */
static const struct {
    const char *folder, *stage;
} stages[] = {
    {"src/base/", "dispatch"}, /* where the structs of a call are checked */
    {"src/dispatch/", "dispatch"}, {"src/problem/", "problem"}, {"src/target/", "target"},
    {"src/plan/", "plan"},         {"src/gen/", "gen"},         {"src/compile/", "compile"},
    {"src/object/", "object"},     {"src/store/", "store"},     {"src/device/", "device"},
    {"src/sim/", "sim"},           {"src/quant/", "quant"},     {"src/lint/", "lint"},
    {"src/cpu/", "cpu"},
};

static const char *stage_of(const char *file)
{
    size_t i = sizeof stages / sizeof *stages;

    while (--i && strncmp(file, stages[i].folder, strlen(stages[i].folder)) != 0)
        ;
    return stages[i].stage;
}

quern_status error_set(quern_status code, const char *file, const char *condition,
                       const char *format, ...)
{
    char message[sizeof record.message];
    va_list ap;

    /* formatted before the record is touched, because an argument may point into it */
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    record.view.status = code;
    copy(QUERN_SHOWN_LINE, record.message, sizeof record.message, message);
    memcpy(record.fact, record.message, sizeof record.fact);
    copy(QUERN_SHOWN_LINE, record.condition, sizeof record.condition, condition);
    record.view.stage = stage_of(file);
    record.log[0] = record.reproduce[0] = record.remedy[0] = 0;
    return code;
}

quern_status error_remedy(const char *format, ...)
{
    const size_t length = strlen(record.fact);
    char remedy[sizeof record.remedy];
    va_list ap;

    va_start(ap, format);
    vsnprintf(remedy, sizeof remedy, format, ap);
    va_end(ap);
    copy(QUERN_SHOWN_LINE, record.remedy, sizeof record.remedy, remedy);
    snprintf(record.message + length, sizeof record.message - length, "; %s", record.remedy);
    return record.view.status;
}

void error_save(struct error_record *saved)
{
    *saved = record;
}

quern_status error_restore(const struct error_record *saved)
{
    record = *saved;
    return record.view.status;
}

void error_log(const char *log)
{
    copy(QUERN_SHOWN_LINES, record.log, sizeof record.log, log);
}
void error_reproduce(const char *command)
{
    copy(QUERN_SHOWN_LINE, record.reproduce, sizeof record.reproduce, command);
}

const struct quern_error *quern_last_error(void)
{
    record.view.message = record.message;
    record.view.condition = record.condition;
    record.view.log = record.log;
    record.view.reproduce = record.reproduce;
    record.view.fact = record.fact;
    record.view.remedy = record.remedy;
    return &record.view;
}

const char *quern_status_name(quern_status status)
{
    switch (status) {
#define NAME(s)                                                                                    \
    case s:                                                                                        \
        return #s
        NAME(QUERN_OK);
        NAME(QUERN_E_ARGUMENT);
        NAME(QUERN_E_PROBLEM);
        NAME(QUERN_E_TARGET);
        NAME(QUERN_E_ALIGN);
        NAME(QUERN_E_BUFFER);
        NAME(QUERN_E_DECLINED);
        NAME(QUERN_E_MEMORY);
        NAME(QUERN_E_IO);
        NAME(QUERN_E_TOOLCHAIN);
        NAME(QUERN_E_COMPILE);
        NAME(QUERN_E_WORKER);
        NAME(QUERN_E_TIMEOUT);
        NAME(QUERN_E_WOULD_COMPILE);
        NAME(QUERN_E_NOT_READY);
        NAME(QUERN_E_OBJECT);
        NAME(QUERN_E_CACHE);
        NAME(QUERN_E_DEVICE);
        NAME(QUERN_E_FAULT);
        NAME(QUERN_E_VERIFY);
        NAME(QUERN_E_CANCELLED);
        NAME(QUERN_E_INTERNAL);
#undef NAME
    }
    return "unknown status";
}
