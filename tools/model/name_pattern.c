/* SPDX-License-Identifier: MIT */
/* Compiles and matches patterns of names by PCRE2 (name_pattern.h). */
#include "model/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_BYTES_MAX 4096 /* far more than any published one has */
/* PCRE2's own limit of tries in one match. Tries within an item of the pattern, such as a repeated
 * character, do not count against the budget: this bounds them. */
#define TRIALS_MAX 1000000

struct name_pattern {
    pcre2_code *code;
    pcre2_match_data *found;
    pcre2_match_context *bounds;
};

static int take_step(pcre2_callout_block *block, void *budget)
{
    (void)block;
    uint64_t *const left = budget;
    if (*left)
        --*left;
    return *left ? 0 : PCRE2_ERROR_CALLOUT;
}

static pcre2_code *compile(const char *text, char why[NAME_PATTERN_WHY_BYTES])
{
    pcre2_code *code = NULL;
    size_t at = 0;
    int error = 0;

    if (strlen(text) > PATTERN_BYTES_MAX)
        snprintf(why, NAME_PATTERN_WHY_BYTES, "more than %d characters", PATTERN_BYTES_MAX);
    else if (strstr(text, "{,"))
        snprintf(why, NAME_PATTERN_WHY_BYTES, "a repeat without its least number; write {0,n}");
    else if (!(code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                                    PCRE2_ANCHORED | PCRE2_AUTO_CALLOUT, &error, &at, NULL))) {
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, NAME_PATTERN_WHY_BYTES);
        const size_t length = strlen(why);
        snprintf(why + length, NAME_PATTERN_WHY_BYTES - length, ", at character %zu", at);
    }
    return code;
}

struct name_pattern *name_pattern_compile(const char *text, char why[NAME_PATTERN_WHY_BYTES])
{
    pcre2_code *const code = compile(text, why);
    if (!code)
        return NULL;
    struct name_pattern *const p = malloc(sizeof *p);
    pcre2_match_data *const found = pcre2_match_data_create_from_pattern(code, NULL);
    pcre2_match_context *const bounds = pcre2_match_context_create(NULL);
    if (!p || !found || !bounds) {
        snprintf(why, NAME_PATTERN_WHY_BYTES, "out of memory");
        pcre2_match_context_free(bounds);
        pcre2_match_data_free(found);
        pcre2_code_free(code);
        free(p);
        return NULL;
    }
    pcre2_set_match_limit(bounds, TRIALS_MAX);
    *p = (struct name_pattern){code, found, bounds};
    return p;
}

void name_pattern_free(struct name_pattern *p)
{
    if (!p)
        return;
    pcre2_match_context_free(p->bounds);
    pcre2_match_data_free(p->found);
    pcre2_code_free(p->code);
    free(p);
}

bool name_pattern_match(const struct name_pattern *p, const char *name, uint64_t *budget)
{
    if (!*budget)
        return false;
    pcre2_set_callout(p->bounds, take_step, budget);
    const int result =
        pcre2_match(p->code, (PCRE2_SPTR)name, PCRE2_ZERO_TERMINATED, 0, 0, p->found, p->bounds);
    /* too many trials, or too much memory for them: as good as a budget that is used up */
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
        *budget = 0;
    return result >= 0;
}
