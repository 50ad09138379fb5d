/* SPDX-License-Identifier: MIT */
/* quern bundle: many kernels in one read-only file, signed or not, and bringing it elsewhere. */
#include "files/files.h"
#include "command/options.h"
#include "command/table.h"
#include "files/json_file.h"
#include "files/layer_words.h"
#include "files/signing.h"
#include "prewarm/bundle_look.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A bundle is read whole to be signed; the format's own limit is larger. */
#define BUNDLE_FILE_BYTES ((size_t)1 << 30)

struct arguments {
    struct common common;
    const char *key;              /* --key: public keys, or for sign the secret one */
    const char *manifest;         /* --manifest */
    uint64_t serial;              /* --serial */
    bool unsigned_too;            /* --unsigned */
    const char *first, *second;   /* the file, and for keygen and diff the second */
    struct prewarm_origin origin; /* check: what is to be covered */
    struct m_set m_set;
};

/* A bundle of which the index is in memory. */
struct opened {
    quern_bundle *bundle;
    struct quern_bundle_info info;
};

static int open_bundle(const char *path, struct opened *o)
{
    *o = (struct opened){.info = QUERN_INIT(struct quern_bundle_info)};
    quern_status e = quern_bundle_open_file(path, &o->bundle);
    if (!e)
        e = quern_bundle_info(o->bundle, &o->info);
    if (e) {
        fail_status(e, path);
        quern_bundle_close(o->bundle);
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

/* Checks the signature as --key and --unsigned say. */
static int check_signature(const struct arguments *a, const struct opened *o)
{
    const quern_status e = a->key ? quern_bundle_check_signature(o->bundle, a->key) : QUERN_OK;

    return e ? fail_status(e, a->first) : EXIT_OK;
}

static void hex(char *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);
}

/* ---- create ---------------------------------------------------------------------------------- */

/* A bundle of nothing is a mistyped directory or target, which a container would find out late. */
static int nothing_to_bundle(const struct arguments *a, quern_ctx *ctx)
{
    struct quern_cache_info cache = QUERN_INIT(struct quern_cache_info);
    const quern_status e = quern_cache_info(ctx, &cache);

    if (e)
        return fail_status(e, NULL);
    if (cache.directory[0] && access(cache.directory, F_OK) && errno == ENOENT)
        return fail("%s: not written, as cache directory %s does not exist", a->first,
                    cache.directory);
    return fail("%s: not written, as cache directory %s has no kernel%s%s%s", a->first,
                cache.directory, a->common.target ? " for " : "",
                a->common.target ? a->common.target : "", a->manifest ? " of the manifest" : "");
}

static int create_from(const struct arguments *a, quern_ctx *ctx, const char *manifest)
{
    struct quern_bundle_info info = QUERN_INIT(struct quern_bundle_info);
    quern_bundle *bundle = NULL;
    uint64_t left_out = 0;
    void *bytes = NULL;
    size_t size = 0;

    quern_status e =
        quern_bundle_create(ctx, a->common.target, manifest, a->serial, &bytes, &size, &left_out);
    /* opened again as a check, before it is written, that it can be read */
    if (!e)
        e = quern_bundle_open(bytes, size, &bundle);
    if (!e)
        e = quern_bundle_info(bundle, &info);
    int status = e ? fail_status(e, NULL) : EXIT_OK;
    if (!status && !info.entries)
        status = nothing_to_bundle(a, ctx);
    if (!status)
        status = file_write(a->first, bytes, size);
    if (!status && a->common.json)
        status = json_print(json_make("{s:s, s:I, s:I, s:I, s:I}", "file", a->first, "entries",
                                      (json_int_t)info.entries, "bytes", (json_int_t)size, "serial",
                                      (json_int_t)info.serial, "left_out", (json_int_t)left_out));
    else if (!status) {
        printf("%s: %" PRIu64 " entries, %zu bytes\n", shown_line(a->first), info.entries, size);
        status = finish_output();
    }
    if (!status && left_out)
        status = fail("%" PRIu64 " entries of the cache are damaged and not in the bundle; see "
                      "'quern cache verify'",
                      left_out);
    quern_bundle_close(bundle);
    free(bytes);
    return status;
}

/* A target to open a context with, where none is given: the cache is the same for all. */
static const char *any_target(const struct common *common)
{
    return common->target ? common->target : "gfx1100";
}

static int create(const struct arguments *a)
{
    char *manifest = NULL;
    size_t size = 0;
    quern_ctx *ctx;
    int status = EXIT_OK;

    if (a->manifest) {
        status = file_read(a->manifest, (size_t)1 << 20, &manifest, &size);
        if (!status && strlen(manifest) != size)
            status = fail("%s has a NUL byte in it; a manifest is text", a->manifest);
    }
    if (!status && !(status = open_storing_context(&a->common, any_target(&a->common), &ctx))) {
        status = create_from(a, ctx, manifest);
        quern_close(ctx);
    }
    free(manifest);
    return status;
}

/* ---- list and verify ------------------------------------------------------------------------- */

struct listing {
    bool json, verify;
    struct table table;
    struct json_rows rows;
    size_t damaged;
    char why[1024]; /* the first of those is */
};

static int add_entry(void *user, const struct quern_cache_entry *entry)
{
    struct listing *l = user;
    const char *const status = quern_status_name(entry->status);
    struct layer_words words;

    if (entry->status && !l->damaged++)
        snprintf(l->why, sizeof l->why, "%s", quern_last_error()->message);
    layer_words_of(entry->key_text, &words);
    if (l->json) {
        json_row(&l->rows,
                 json_make("{s:s, s:s, s:s, s:s, s:s, s:I, s:s}", "key", entry->key, "target",
                           words.target, "problem", words.problem, "m", words.m, "kernel",
                           words.kernel, "bytes", (json_int_t)entry->bytes, "status", status));
        return l->rows.failed;
    }
    if (l->verify && !entry->status) /* all is well with it */
        return 0;
    table_cell(&l->table, "%s", words.target);
    table_cell(&l->table, "%s", words.m);
    table_cell(&l->table, "%s", words.kernel[0] ? words.kernel : entry->key);
    table_cell(&l->table, "%" PRIu64, entry->bytes);
    table_cell(&l->table, "%s", entry->status ? status : "ok");
    table_cell(&l->table, "%s", words.problem);
    return !table_print_block(&l->table, 0);
}

/* What a bundle is, in one line. */
static void print_head(const struct arguments *a, const struct opened *o, const char *signer,
                       const char *verdict)
{
    printf("%s: %" PRIu64 " entries, %" PRIu64 " bytes, serial %" PRIu64 ", %s%s%s%s\n",
           shown_line(a->first), o->info.entries, o->info.bytes, o->info.serial,
           signer[0] ? "signed by " : "not signed", signer,
           !signer[0] ? ""
           : a->key   ? " (checked)"
                      : " (not checked: no --key)",
           verdict);
}

static int print_listing(const struct arguments *a, const struct opened *o, struct listing *l)
{
    char signer[2 * PUBLIC_KEY_BYTES + 1] = "";

    if (o->info.has_signature)
        hex(signer, o->info.public_key, PUBLIC_KEY_BYTES);
    if (!a->common.json && !l->verify)
        print_head(a, o, signer, "");
    /* read whole, as what an entry is stands in it and not in the index */
    const quern_status e = quern_bundle_walk(o->bundle, 1, add_entry, l);
    if (l->rows.failed || l->table.failed)
        return fail("the list cannot be made or written");
    if (e)
        return fail_status(e, a->first);
    if (a->common.json)
        return json_rows_end(&l->rows, json_make("{s:s, s:I, s:I, s:s, s:b, s:s, s:I, s:s}", "file",
                                                 a->first, "bytes", (json_int_t)o->info.bytes,
                                                 "serial", (json_int_t)o->info.serial, "signer",
                                                 signer, "signature_checked", a->key != NULL,
                                                 "manifest", o->info.manifest, "damaged",
                                                 (json_int_t)l->damaged, "tuning", o->info.tuning));
    if (l->verify)
        print_head(a, o, signer, l->damaged ? "" : ": all is well");
    if ((l->verify ? l->damaged : o->info.entries) && !table_print(&l->table, 0))
        return fail("out of memory");
    return finish_output();
}

static int list(const struct arguments *a, bool verify)
{
    struct listing l = {.json = a->common.json, .verify = verify, .rows = {.name = "entries"}};
    struct opened o;
    int status = open_bundle(a->first, &o);

    if (status)
        return status;
    if (verify)
        status = check_signature(a, &o);
    table_header(&l.table, "<target|M|<kernel|bytes|<status|<problem");
    if (!status)
        status = print_listing(a, &o, &l);
    if (!status && verify && l.damaged)
        status = fail("%s: %zu of %" PRIu64 " entries are damaged%s: %s", a->first, l.damaged,
                      o.info.entries, l.damaged > 1 ? ", the first of them" : "", l.why);
    table_free(&l.table);
    quern_bundle_close(o.bundle);
    return status;
}

/* ---- sign ------------------------------------------------------------------------------------ */

static int sign(const struct arguments *a)
{
    struct quern_bundle_info info = QUERN_INIT(struct quern_bundle_info);
    uint8_t key[PUBLIC_KEY_BYTES], value[SIGNATURE_VALUE_BYTES];
    char signer[2 * PUBLIC_KEY_BYTES + 1], *bytes;
    quern_bundle *bundle = NULL;
    size_t size;

    if (!a->key)
        return misuse("with which key? give --key FILE, a secret key of 'quern bundle keygen'");
    /* read whole, as what is signed must be what is written */
    int status = file_read(a->first, BUNDLE_FILE_BYTES, &bytes, &size);
    if (status)
        return status;
    quern_status e = quern_bundle_open(bytes, size, &bundle);
    if (!e)
        e = quern_bundle_info(bundle, &info);
    char *const whole = e ? NULL : malloc(info.bytes + QUERN_SIGNATURE_BYTES);
    if (e)
        status = fail_status(e, a->first);
    else
        status =
            whole ? signature_make(a->key, bytes, info.bytes, key, value) : fail("out of memory");
    if (!status) {
        memcpy(whole, bytes, info.bytes); /* without an earlier signature */
        quern_bundle_signature(key, value, (uint8_t *)whole + info.bytes);
        status = file_write(a->first, whole, info.bytes + QUERN_SIGNATURE_BYTES);
    }
    if (!status) {
        hex(signer, key, sizeof key);
        if (a->common.json) {
            status = json_print(json_make("{s:s, s:s}", "file", a->first, "signer", signer));
        } else {
            printf("%s: signed by %s\n", shown_line(a->first), signer);
            status = finish_output();
        }
    }
    free(whole);
    quern_bundle_close(bundle);
    free(bytes);
    return status;
}

/* ---- import ---------------------------------------------------------------------------------- */

/* What became of a bundle's tables, of facts and of shapes. */
struct tables {
    unsigned imported, present, kept; /* kept: another one is there, and stays */
};

/* Writes a table where contexts look for it, unless there is one. */
static int import_table(quern_ctx *ctx, enum quern_table kind, const char *target, const char *text,
                        size_t bytes, struct tables *tables)
{
    char *there;
    size_t size;

    quern_status e = quern_table_read(ctx, kind, target, &there, &size);
    if (!e && !there)
        e = quern_table_write(ctx, kind, target, text, bytes);
    if (e)
        return fail_status(e, NULL);
    const bool same = there && size == bytes && !memcmp(there, text, bytes);
    tables->imported += !there;
    tables->present += same;
    tables->kept += there && !same;
    if (there && !same)
        note("the cache's table for %s stays, though the bundle's is another", target);
    free(there);
    return EXIT_OK;
}

static int import_tables(quern_ctx *ctx, const char *tuning, struct tables *tables)
{
    struct quern_target_info target = QUERN_INIT(struct quern_target_info);
    int status = EXIT_OK;

    for (size_t i = 0; !status && quern_target_at(i, &target) == QUERN_OK; i++)
        for (int kind = QUERN_TABLE_TUNING; !status && kind <= QUERN_TABLE_FACTS; kind++) {
            const enum quern_table which = (enum quern_table)kind;
            size_t bytes;
            const char *const text = quern_bundle_table(tuning, which, target.name, &bytes);
            if (text)
                status = import_table(ctx, which, target.name, text, bytes, tables);
        }
    return status;
}

static int report_import(const struct arguments *a, const struct quern_bundle_import *r,
                         const struct tables *t)
{
    int status;

    if (a->common.json) {
        status = json_print(json_make(
            "{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:i}", "file", a->first, "imported",
            (json_int_t)r->imported, "present", (json_int_t)r->present, "damaged",
            (json_int_t)r->damaged, "failed", (json_int_t)r->failed, "tables_imported",
            (int)t->imported, "tables_present", (int)t->present, "tables_kept", (int)t->kept));
    } else {
        printf("%s: %" PRIu64 " imported, %" PRIu64 " there already, %" PRIu64 " damaged\n",
               shown_line(a->first), r->imported, r->present, r->damaged);
        if (t->imported)
            printf("%u table%s imported\n", t->imported, t->imported == 1 ? "" : "s");
        status = finish_output();
    }
    if (!status && r->damaged)
        status =
            fail("%s: %" PRIu64 " entries are damaged and were left out", a->first, r->damaged);
    return status;
}

static int import(const struct arguments *a)
{
    struct quern_bundle_import result = QUERN_INIT(struct quern_bundle_import);
    char signer[2 * PUBLIC_KEY_BYTES + 1];
    struct tables tables = {0};
    struct opened o;
    quern_ctx *ctx;

    if (!a->key == !a->unsigned_too)
        return misuse("whose is it? give --key FILE with the public keys you trust, or --unsigned "
                      "to trust the file as it is");
    int status = open_bundle(a->first, &o);
    if (status)
        return status;
    status = check_signature(a, &o);
    if (!status && !(status = open_storing_context(&a->common, any_target(&a->common), &ctx))) {
        hex(signer, o.info.public_key, sizeof o.info.public_key);
        const quern_status e = quern_bundle_import(ctx, o.bundle, a->key ? signer : NULL, &result);
        status = e ? fail_status(e, a->first) : import_tables(ctx, o.info.tuning, &tables);
        if (!status)
            status = report_import(a, &result, &tables);
        quern_close(ctx);
    }
    quern_bundle_close(o.bundle);
    return status;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int keygen(const struct arguments *a)
{
    const int status = signature_new_pair(a->first, a->second);

    if (!status && a->common.json)
        return json_print(json_make("{s:s, s:s}", "secret", a->first, "public", a->second));
    if (!status)
        note("%s is secret: keep it where bundles are signed; %s goes wherever they are imported",
             a->first, a->second);
    return status;
}

/* Whether the bundle covers a model, the problems behind its name, or a manifest's layers. */
static int check(struct arguments *a)
{
    static struct prewarm w; /* large */

    w.common = a->common;
    w.common.arguments += 2;
    w.common.argument_count -= 2;
    w.m_set = a->m_set;
    a->origin.manifest = a->manifest;
    const int status = bundle_check(&w, &a->origin, a->first);
    prewarm_free(&w);
    return status;
}

static int act(struct arguments *a)
{
    enum { CREATE = 1, LIST, VERIFY, INSPECT, CHECK, SIGN, IMPORT, DIFF, KEYGEN };
    char **const arguments = a->common.arguments;
    const int action =
        options_action(&a->common, "create|list|verify|inspect|check|sign|import|diff|keygen");
    const int wanted = action == KEYGEN || action == DIFF ? 2 : 1;
    const int given = a->common.argument_count - 1;

    if (!action)
        return EXIT_MISUSE;
    if (given < wanted)
        return misuse(action == KEYGEN ? "keygen takes two files: the secret key's and the public "
                                         "key's"
                      : action == DIFF ? "diff takes two bundles"
                                       : "which file?");
    if (given > wanted && action != CHECK)
        return misuse("one argument too many: '%s'", arguments[1 + wanted]);
    a->first = arguments[1];
    a->second = arguments[wanted];
    return action == CREATE    ? create(a)
           : action == SIGN    ? sign(a)
           : action == IMPORT  ? import(a)
           : action == KEYGEN  ? keygen(a)
           : action == CHECK   ? check(a)
           : action == INSPECT ? bundle_inspect(&a->common, a->first)
           : action == DIFF    ? bundle_diff(&a->common, a->first, a->second)
                               : list(a, action == VERIFY);
}

int verb_bundle(int argc, char **argv)
{
    static const struct usage usage = {
        "create|list|verify|inspect|check|sign|import|diff FILE…, or keygen SECRET PUBLIC",
        "create: writes the cache's kernels (with --target: those for it) to one file.\n"
        "list: its kernels. verify: proves each, and the signature if --key is given.\n"
        "inspect: its layers, and the texts that it carries.\n"
        "check: whether it has every kernel of a --model (PROBLEMs, a --manifest) for a\n"
        "--target, --tp and --m; exits with 1 and names the layers that it lacks.\n"
        "diff: the kernels that only one of two bundles has.\n"
        "sign: adds a signature, or replaces it. import: puts the entries into the cache.\n"
        "keygen: makes a pair of keys.\n"};
    static struct arguments a;
    const struct flag flags[] = {
        {"key", FLAG_TEXT, &a.key, "FILE", "public keys to trust; for sign, the secret key"},
        {"unsigned", FLAG_YES, &a.unsigned_too, NULL, "import: trust the file as it is"},
        {"manifest", FLAG_TEXT, &a.manifest, "FILE",
         "create: text to carry along; check: the layers that a run noted"},
        {"serial", FLAG_NUMBER, &a.serial, "N",
         "create: import refuses a lower one than the signer's last"},
        PREWARM_MODEL_FLAGS(&a.origin),
        {"m", FLAG_M, &a.m_set, "LIST", "check: rows to be served, e.g. 1-8 (all)"},
        {0},
    };

    const int status = options_parse(&a.common, argc, argv, &usage, flags);
    return status < 0 ? act(&a) : status;
}
