/* SPDX-License-Identifier: MIT */
/* quern doctor: is everything here that the other verbs need? */
#include "files/json_file.h"
#include "command/options.h"

#include <stdio.h>

struct findings {
    bool json;
    json_t *array;
};

static void add_finding(void *user, int ok, const char *subject, const char *text)
{
    struct findings *f = user;

    if (f->json)
        json_array_append_new(
            f->array, json_make("{s:b, s:s, s:s}", "ok", ok, "subject", subject, "text", text));
    else
        printf("%-7s  %s: %s\n", ok ? "ok" : "problem", subject, shown_line(text));
}

int verb_doctor(int argc, char **argv)
{
    static const struct usage usage = {
        "", "Checks the compiler, its worker, the cache and the device, one line for each.\n"};
    static const struct flag none[] = {{0}};
    struct common common;

    int status = options_parse(&common, argc, argv, &usage, none);
    if (status >= 0)
        return status;
    if (common.argument_count)
        return misuse("one argument too many: '%s'", common.arguments[0]);
    struct findings f = {.json = common.json, .array = json_array()};
    const int problems = quern_doctor(&common.library, add_finding, &f);
    status = common.json ? json_print(json_incref(f.array)) : finish_output();
    json_decref(f.array);
    if (!status && problems)
        status = fail("%d problem%s found", problems, problems == 1 ? "" : "s");
    return status;
}
