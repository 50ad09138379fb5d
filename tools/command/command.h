/* SPDX-License-Identifier: MIT */
/*
 * The quern command: one function per verb, and how all of them report.
 *
 * Data goes to stdout, everything said about it to stderr. Exit status: 0, 1 when the work failed,
 * 2 when the request made no sense, 3 when a part of it cannot be and the rest was done. Functions
 * that can fail print one line and return that status.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <quern/tool.h>

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_MISUSE = 2, EXIT_IMPOSSIBLE = 3 };

typedef int verb_function(int argc, char **argv);

verb_function verb_bench, verb_build, verb_bundle, verb_cache, verb_doctor, verb_explain;
verb_function verb_lint, verb_inspect, verb_prewarm, verb_probe, verb_profile, verb_quantize;
verb_function verb_repack, verb_run;
verb_function verb_sim, verb_source, verb_targets, verb_time, verb_tune;

/* Sets the name that messages start with, e.g. "quern build"; kept by reference. */
void command_set_name(const char *name);
const char *command_name(void);

/* With --json: what failed is an object on a line of stderr, {"verb", "error", "exit", "status"},
 * the last with the status that the library gave, if any. What is only said stays text. */
void command_set_json(void);

/* Print "NAME: message" as one line on stderr, made safe to print (quern_text_shown). */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));       /* EXIT_FAILED */
int misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));     /* EXIT_MISUSE */
int impossible(const char *format, ...) __attribute__((format(printf, 1, 2))); /* EXIT_IMPOSSIBLE */

/* The same for what quern_last_error() says, behind `about` (may be null) and a colon, and with the
 * compiler's log when there is one. EXIT_MISUSE when it is the request that was wrong. */
int fail_status(quern_status status, const char *about);

/* A line of chatter on stderr. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A name of anywhere as it stands in one line that is printed: line feeds and tabs, which stdout
 * lets through, are escaped too. In memory that the eighth call from then uses again; cut after
 * some thousand bytes. For one thread. */
const char *shown_line(const char *text);

/* Makes stdout safe to print, whatever is written to it: text with line feeds and tabs, or JSON. To
 * be called once, before anything is; false when out of memory. */
bool begin_output(void);
/* Flushes stdout; EXIT_FAILED with a line when what was printed could not be written. */
int finish_output(void);

#endif
