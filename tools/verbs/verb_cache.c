/* SPDX-License-Identifier: MIT */
/* quern cache: what is kept, whether it is whole, and removing it. */
#include "files/json_file.h"
#include "files/layer_words.h"
#include "command/options.h"
#include "command/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A target to open a context with, where none is given: the cache is the same for all. */
static const char *any_target(const struct common *common)
{
    struct quern_target_info info = QUERN_INIT(struct quern_target_info);

    if (common->target)
        return common->target;
    for (size_t i = 0; !quern_target_at(i, &info); i++)
        if (info.verified)
            return info.name;
    return "gfx1100";
}

/* ---- stat ------------------------------------------------------------------------------------ */

static int stat_cache(const struct common *common, quern_ctx *ctx)
{
    struct quern_cache_info info = QUERN_INIT(struct quern_cache_info);
    const quern_status e = quern_cache_info(ctx, &info);

    if (e)
        return fail_status(e, NULL);
    if (common->json)
        return json_print(json_make("{s:s, s:I, s:I, s:I, s:I}", "directory", info.directory,
                                    "entries", (json_int_t)info.entries, "bytes",
                                    (json_int_t)info.bytes, "max_bytes", (json_int_t)info.max_bytes,
                                    "quarantined", (json_int_t)info.quarantined));
    printf("directory    %s\nentries      %llu\nbytes        %llu\nlimit        %llu\n"
           "quarantined  %llu\n",
           shown_line(info.directory), (unsigned long long)info.entries,
           (unsigned long long)info.bytes, (unsigned long long)info.max_bytes,
           (unsigned long long)info.quarantined);
    return finish_output();
}

/* ---- list and verify ------------------------------------------------------------------------- */

struct listing {
    bool json, verify;
    struct table table;
    struct json_rows rows;
    size_t entries, damaged, unscanned;
};

static int add_entry(void *user, const struct quern_cache_entry *entry)
{
    struct listing *l = user;
    struct layer_words words;
    char used[32] = "";
    const time_t seconds = (time_t)entry->used;
    struct tm date;

    l->entries++;
    l->damaged += entry->status != QUERN_OK;
    l->unscanned += !entry->status && !entry->scanned;
    if (gmtime_r(&seconds, &date))
        strftime(used, sizeof used, "%Y-%m-%d", &date);
    layer_words_of(entry->key_text, &words);
    if (l->json) {
        json_row(&l->rows,
                 json_make("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:b}", "key", entry->key,
                           "processor", words.target, "problem", words.problem, "m", words.m,
                           "kernel", words.kernel, "bytes", (json_int_t)entry->bytes, "used",
                           (json_int_t)entry->used, "status", quern_status_name(entry->status),
                           "scanned", entry->scanned));
        return l->rows.failed;
    }
    if (l->verify && !entry->status) /* all is well with it */
        return 0;
    table_cell(&l->table, "%s", words.target);
    table_cell(&l->table, "%s", words.m);
    table_cell(&l->table, "%s", words.kernel[0] ? words.kernel : entry->key);
    table_cell(&l->table, "%llu", (unsigned long long)entry->bytes);
    table_cell(&l->table, "%s", used);
    table_cell(&l->table, "%s",
               entry->status    ? quern_status_name(entry->status)
               : entry->scanned ? "ok"
                                : "ok, not scanned");
    table_cell(&l->table, "%s", words.problem);
    return !table_print_block(&l->table, 0);
}

static int list_cache(const struct common *common, quern_ctx *ctx, bool verify)
{
    struct listing l = {.json = common->json, .verify = verify, .rows = {.name = "entries"}};
    int status;

    table_header(&l.table, "<target|M|<kernel|bytes|<used|<status|<problem");
    const quern_status e = quern_cache_walk(ctx, verify, add_entry, &l);
    if (l.rows.failed || l.table.failed)
        status = fail("the list cannot be made or written");
    else if (e)
        status = fail_status(e, NULL);
    else if (common->json)
        status = json_rows_end(&l.rows, json_make("{s:I, s:I, s:I}", "count", (json_int_t)l.entries,
                                                  "damaged", (json_int_t)l.damaged, "unscanned",
                                                  (json_int_t)l.unscanned));
    else
        status = (verify ? l.damaged : l.entries) && !table_print(&l.table, 0)
                     ? fail("out of memory")
                     : finish_output();
    if (!status && verify && !common->json) {
        printf("%zu entries read, %zu damaged, %zu not scanned%s\n", l.entries, l.damaged,
               l.unscanned, l.damaged ? "" : ": all is well");
        status = finish_output();
    }
    if (!status && verify && l.damaged)
        status = fail("%zu of %zu entries were damaged; they are in quarantine and will be made "
                      "again when needed",
                      l.damaged, l.entries);
    table_free(&l.table);
    return status;
}

/* ---- clear ----------------------------------------------------------------------------------- */

static int clear_cache(const struct common *common, quern_ctx *ctx)
{
    struct quern_cache_info info = QUERN_INIT(struct quern_cache_info);
    uint64_t removed = 0;

    quern_status e = quern_cache_info(ctx, &info);
    if (!e)
        e = quern_cache_clear(ctx, &removed);
    if (e)
        return fail_status(e, NULL);
    if (common->json)
        return json_print(json_make("{s:s, s:I, s:I}", "directory", info.directory, "removed",
                                    (json_int_t)removed, "bytes", (json_int_t)info.bytes));
    printf("removed %llu files, %llu bytes of entries, from %s\n", (unsigned long long)removed,
           (unsigned long long)info.bytes, shown_line(info.directory));
    return finish_output();
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int act(const struct common *common)
{
    enum { STAT = 1, LIST, VERIFY, CLEAR };
    const int action = options_action(common, "stat|list|verify|clear");
    quern_ctx *ctx;

    if (!action)
        return EXIT_MISUSE;
    if (common->argument_count > 1)
        return misuse("one argument too many: '%s'", common->arguments[1]);
    int status = open_storing_context(common, any_target(common), &ctx);
    if (status)
        return status;
    status = action == STAT    ? stat_cache(common, ctx)
             : action == CLEAR ? clear_cache(common, ctx)
                               : list_cache(common, ctx, action == VERIFY);
    quern_close(ctx);
    return status;
}

int verb_cache(int argc, char **argv)
{
    static const struct usage usage = {
        "stat|list|verify|clear",
        "stat: where the cache is and how full. list: its entries. verify: reads each entry\n"
        "whole and moves damaged ones to quarantine. clear: removes all, without asking.\n"};
    static const struct flag none[] = {{0}};
    struct common common;

    const int status = options_parse(&common, argc, argv, &usage, none);
    return status < 0 ? act(&common) : status;
}
