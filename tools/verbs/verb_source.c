/* SPDX-License-Identifier: MIT */
/* quern source: the text of a kernel, as the compiler gets it. */
#include "files/json_file.h"
#include "command/options.h"

#include <stdio.h>
#include <stdlib.h>

static int print_source(const struct common *common, const struct m_set *set)
{
    struct quern_target_info target;
    struct quern_problem problem;
    char canonical[QUERN_TEXT_MAX], *text = NULL;
    int64_t m;
    int status;

    if ((status = options_problem(common, &problem, canonical)) ||
        (status = options_target(common, &target)) || (status = options_one_m(set, &m)))
        return status;
    const quern_status e = quern_source(&common->library, &problem, m, &text);
    if (e)
        return fail_status(e, NULL);
    if (common->json) {
        status = json_print(json_make("{s:s, s:s, s:I, s:s}", "problem", canonical, "target",
                                      target.name, "m", (json_int_t)m, "source", text));
    } else {
        fputs(text, stdout);
        status = finish_output();
    }
    free(text);
    return status;
}

int verb_source(int argc, char **argv)
{
    static const struct usage usage = {
        "--target GFX --m M PROBLEM",
        "Prints the source of the kernel that serves M rows of PROBLEM. Needs no compiler.\n"};
    struct common common;
    struct m_set set = {0};
    const struct flag flags[] = {{"m", FLAG_M, &set, "M", "rows of A"}, {0}};

    const int status = options_parse(&common, argc, argv, &usage, flags);
    return status < 0 ? print_source(&common, &set) : status;
}
