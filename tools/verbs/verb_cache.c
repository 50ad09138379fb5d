/* SPDX-License-Identifier: MIT */
/* quern cache: what is kept, whether it is whole, removing it, and sharing it with others. */
#include "files/json_file.h"
#include "files/layer_words.h"
#include "files/shared_files.h"
#include "files/signing.h"
#include "command/options.h"
#include "command/table.h"
#include "verbs/verb_cache_pull.h"
#include "verbs/verb_cache_revoke.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* Whether the cache's directory is there: one that is mistyped looks as empty as one that nothing
 * was stored in yet. Where it is not, and `tell`, says so. */
static bool check_directory(const char *directory, bool tell)
{
    const bool exists = !access(directory, F_OK) || errno != ENOENT;

    if (!exists && tell)
        note("cache directory %s does not exist; it is made when a kernel is stored there",
             directory);
    return exists;
}

/* ---- stat ------------------------------------------------------------------------------------ */

static int stat_cache(const struct common *common, quern_ctx *ctx)
{
    struct quern_cache_info info = QUERN_INIT(struct quern_cache_info);
    const quern_status e = quern_cache_info(ctx, &info);

    if (e)
        return fail_status(e, NULL);
    const bool exists = check_directory(info.directory, !common->json);
    if (common->json)
        return json_print(json_make("{s:s, s:b, s:I, s:I, s:I, s:I}", "directory", info.directory,
                                    "exists", exists, "entries", (json_int_t)info.entries, "bytes",
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

/* What there is to say before a list: that the directory is not there, which is a failure for who
 * wants its entries verified. */
static int check_listed(quern_ctx *ctx, bool verify)
{
    struct quern_cache_info info = QUERN_INIT(struct quern_cache_info);
    const quern_status e = quern_cache_info(ctx, &info);

    if (e)
        return fail_status(e, NULL);
    if (!info.directory[0] || check_directory(info.directory, !verify) || !verify)
        return EXIT_OK;
    return fail("nothing was verified: cache directory %s does not exist", info.directory);
}

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
    int status = check_listed(ctx, verify);

    if (status)
        return status;
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

/* ---- push ------------------------------------------------------------------------------------ */

struct push {
    const char *directory;
    uint8_t seed[SECRET_SEED_BYTES]; /* of the key that signs */
    uint64_t files, bytes;           /* that were not there as they are */
    int status;
};

static int push_file(void *user, const char *name, const void *bytes, size_t size)
{
    struct push *const p = user;
    bool written = false;

    p->status = shared_write(NULL, p->directory, name, bytes, size, &written);
    p->files += written;
    p->bytes += written ? size : 0;
    return p->status;
}

static void sign_entry(void *user, const void *message, size_t size,
                       uint8_t public_key[PUBLIC_KEY_BYTES], uint8_t value[SIGNATURE_VALUE_BYTES])
{
    const struct push *const p = user;

    signature_of_message(p->seed, message, size, public_key, value);
}

static int push_cache(const struct common *common, quern_ctx *ctx, const char *directory,
                      const char *sign_key)
{
    struct push p = {.directory = directory};
    uint64_t given = 0, left_out = 0;

    const bool far = shared_is_url(directory);
    int status = shared_prepare(directory);
    if (!status && sign_key)
        status = signature_seed(sign_key, p.seed);
    if (status)
        return status;
    const quern_sign_fn sign = sign_key ? sign_entry : NULL;
    const quern_status e =
        far ? quern_cache_send(ctx, directory, sign, &p, &given, &left_out, &p.files, &p.bytes)
            : quern_cache_seal(ctx, sign, push_file, &p, &given, &left_out);
    explicit_bzero(p.seed, sizeof p.seed);
    if (e)
        return p.status ? p.status : fail_status(e, NULL);
    if (common->json)
        return json_print(json_make("{s:s, s:I, s:I, s:I, s:I, s:b}", far ? "url" : "directory",
                                    directory, "entries", (json_int_t)given, "left_out",
                                    (json_int_t)left_out, "files", (json_int_t)p.files, "bytes",
                                    (json_int_t)p.bytes, "signed", sign_key != NULL));
    printf("%llu kernel%s for %s, %s: %llu file%s of %llu bytes written, %llu left out\n",
           (unsigned long long)given, given == 1 ? "" : "s", shown_line(directory),
           sign_key ? "signed" : "unsigned", (unsigned long long)p.files, p.files == 1 ? "" : "s",
           (unsigned long long)p.bytes, (unsigned long long)left_out);
    return finish_output();
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int act(const struct common *common, const char *sign_key, const char *manifest)
{
    enum { STAT = 1, LIST, VERIFY, CLEAR, PUSH, PULL, REVOKE };
    const int action = options_action(common, "stat|list|verify|clear|push|pull|revoke");
    const int least = action == REVOKE ? 3 : action == PUSH || action == PULL ? 2 : 1;
    quern_ctx *ctx;

    if (!action)
        return EXIT_MISUSE;
    if (common->argument_count > least && action != REVOKE)
        return misuse("one argument too many: '%s'", common->arguments[least]);
    if (common->argument_count < 2 && least > 1)
        return misuse("%s? name the directory that a web server has below its address, or "
                      "that address",
                      action == PULL ? "from where" : "where to");
    if (common->argument_count < least)
        return misuse("which? name the keys of the entries, as quern cache list --json has them");
    if (sign_key && action != PUSH && action != REVOKE)
        return misuse("--sign-key goes with push and revoke");
    if (manifest && action != PULL)
        return misuse("--manifest goes with pull");
    if (!sign_key && action == REVOKE)
        return misuse("revoke wants --sign-key FILE, the secret key that signed the entries");
    if (action == PULL) /* it opens a context for each target */
        return cache_pull(common, manifest);
    int status = open_storing_context(common, any_target(common), &ctx);
    if (status)
        return status;
    status = action == STAT     ? stat_cache(common, ctx)
             : action == CLEAR  ? clear_cache(common, ctx)
             : action == PUSH   ? push_cache(common, ctx, common->arguments[1], sign_key)
             : action == REVOKE ? cache_revoke(common, ctx, sign_key)
                                : list_cache(common, ctx, action == VERIFY);
    quern_close(ctx);
    return status;
}

int verb_cache(int argc, char **argv)
{
    static const struct usage usage = {
        "stat|list|verify|clear|push|pull|revoke [DIR|URL] [KEY…]",
        "stat: where the cache is and how full. list: its entries. verify: reads each entry\n"
        "whole and moves damaged ones to quarantine. clear: removes all, without asking.\n"
        "push DIR|URL: writes all to DIR, for a web server to give to others (QUERN_REMOTE), or\n"
        "sends it to the server at URL, which takes PUT: http://, https:// or\n"
        "s3://BUCKET/PREFIX. pull DIR|URL --manifest FILE: brings from there what the layers in\n"
        "FILE need, checked by QUERN_REMOTE_KEYS, and compiles nothing; exits with 1, and names\n"
        "what is missing, unless all is there then. revoke DIR|URL KEY…: adds the entries of\n"
        "these keys, as they lie there, to the list of those that no machine is to use any more,\n"
        "and takes them out of this cache.\n"};
    const char *sign_key = NULL, *manifest = NULL;
    const struct flag flags[] = {{"sign-key", FLAG_TEXT, &sign_key, "FILE",
                                  "push, revoke: sign with the secret key in FILE"},
                                 {"manifest", FLAG_TEXT, &manifest, "FILE",
                                  "pull: layers that QUERN_RECORD noted of a run (QUERN_MANIFEST)"},
                                 {0}};
    struct common common;

    const int status = options_parse(&common, argc, argv, &usage, flags);
    return status < 0 ? act(&common, sign_key, manifest) : status;
}
