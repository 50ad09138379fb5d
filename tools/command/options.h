/* SPDX-License-Identifier: MIT */
/* Reading a verb's command line: the options that all verbs share, and each verb's own. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include "command/command.h"

#include <stdbool.h>

/* Values of M as given to --m: "7", "1-8", "1,2,4-8"; sorted and merged. */
#define M_RANGES_MAX 32
#define M_MAX        ((int64_t)1 << 30)
struct m_range {
    int64_t lo, hi;
};
struct m_set {
    size_t count; /* 0: not given */
    struct m_range ranges[M_RANGES_MAX];
};

/* The value behind *m, which starts as 0; false when there is none. */
bool m_next(const struct m_set *set, int64_t *m);
int64_t m_count(const struct m_set *set);
int64_t m_most(const struct m_set *set); /* 0: the set is empty */

/* Reads what --m takes; EXIT_MISUSE with a line, or EXIT_OK. */
int options_m(const char *text, struct m_set *set);
/* Adds the other's values; false when that makes too many ranges. */
bool options_m_add(struct m_set *set, const struct m_set *other);

/* The place, from 1, of a text in a list such as "one|two|three"; 0: it is not in it. */
int choice_of(const char *text, const char *choices);

#define TEXTS_MAX 32
struct texts {
    size_t count;
    const char *at[TEXTS_MAX];
};

/* What an option does with its value; `to` points at the type named. */
enum flag_kind {
    FLAG_YES = 1, /* bool; takes no value */
    FLAG_TEXT,    /* const char * */
    FLAG_TEXTS,   /* struct texts; may be given several times */
    FLAG_COUNT,   /* int, 1 … 256 */
    FLAG_NUMBER,  /* uint64_t, 0 … 2^63 - 1 */
    FLAG_SIZE,    /* uint64_t: bytes, with K, M, G or T behind */
    FLAG_M,       /* struct m_set */
    FLAG_CHOICE,  /* an int or an enum: 1 + the index among `choices` */
};

struct flag {
    const char *name; /* without the dashes */
    enum flag_kind kind;
    void *to;
    const char *value; /* how help shows the value; null for FLAG_YES */
    const char *help;
    const char *choices; /* FLAG_CHOICE: "fast|full" */
    bool optional_value; /* FLAG_CHOICE: without a value it means the first choice */
};

/* What every verb accepts. */
struct common {
    struct quern_options library; /* log goes to stderr */
    const char *target;           /* --target, else QUERN_TARGET, else null */
    bool json;
    char **arguments; /* the words that are no options, in order */
    int argument_count;
};

struct usage {
    const char *arguments; /* behind "quern VERB", e.g. "--m M PROBLEM" */
    const char *text; /* what the verb does: lines of at most 80 columns, each with a newline */
};

/*
 * Reads argv, filling *common and the places the flags name; `flags` ends with a null name. Returns
 * -1 to go on, else the exit status (help was asked for, or an option is wrong).
 */
int options_parse(struct common *common, int argc, char **argv, const struct usage *usage,
                  const struct flag *flags);

/* The action that the only argument names, or the first of several: its place among
 * "list|verify|clear" from 1; 0 with a line when it is missing or none of them. */
int options_action(const struct common *common, const char *choices);

/* Parses a problem text: the only argument, or the first of several. Returns EXIT_OK or a status.
 * `text` (QUERN_TEXT_MAX bytes) receives the canonical form. */
int options_problem(const struct common *common, struct quern_problem *problem, char *text);
int options_first_problem(const struct common *common, struct quern_problem *problem, char *text);
int problem_from_text(const char *given, struct quern_problem *problem, char *text);

/* Checks that a target was named, and that it is known. */
int options_target(const struct common *common, struct quern_target_info *info);

/* Whether the software GPU runs the target, so that instructions can be counted and modelled. */
bool is_simulated(const struct quern_target_info *info);

/* Checks that --m names one value. */
int options_one_m(const struct m_set *set, int64_t *m);

/* Opens a context of the software GPU for `target`; or one without a device, for verbs that make
 * kernels and run none; or such a one for verbs whose point is the cache, which must be fit to be
 * written to unless QUERN_CACHE_MODE or --cache-mode says otherwise. */
int open_sim_context(const struct common *common, const char *target, quern_ctx **ctx);
int open_making_context(const struct common *common, const char *target, quern_ctx **ctx);
int open_storing_context(const struct common *common, const char *target, quern_ctx **ctx);

#endif
