/* SPDX-License-Identifier: MIT */
/*
 * Says why a kernel is not found: compares its key text, field by field, with that of the nearest
 * entry. That is the entry with the most fields in common; of equals, the one whose other fields
 * agree in the most bytes from their beginnings.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "lint/lint.h"
#include "store/key.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_BYTES 100 /* of a line or a value */

struct nearest {
    const struct store_want *want;
    uint64_t score;
    char *text; /* the key text, NUL-terminated; null: nothing is near */
    char key[33];
    bool failed; /* out of memory */
};

static bool find_field(const char *text, size_t bytes, const struct key_field *like,
                       struct key_field *field)
{
    for (size_t at = 0; key_next(text, bytes, &at, field);)
        if (field->tag_length == like->tag_length &&
            !memcmp(field->tag, like->tag, like->tag_length))
            return true;
    return false;
}

static bool same(const struct key_field *a, const struct key_field *b)
{
    return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

static bool is_source_key(const struct key_field *f)
{
    return f->tag_length == strlen("source key") && !memcmp(f->tag, "source key", f->tag_length);
}

/* How near an entry is: the number of equal fields, and below that (in the low 32 bits) the bytes
 * in which the other fields agree from their beginnings. */
static uint64_t score_of(const struct store_want *w, const char *text, size_t bytes)
{
    struct key_field mine, theirs;
    uint64_t fields = 0, prefix = 0;

    for (size_t at = 0; key_next(w->key_text, w->key_text_bytes, &at, &mine);) {
        if (is_source_key(&mine) || !find_field(text, bytes, &mine, &theirs))
            continue;
        if (same(&mine, &theirs)) {
            fields++;
            continue;
        }
        const size_t n = mine.size < theirs.size ? mine.size : theirs.size;
        for (size_t i = 0; i < n && mine.bytes[i] == theirs.bytes[i]; i++)
            prefix++;
    }
    return fields << 32 | (prefix < UINT32_MAX ? prefix : UINT32_MAX);
}

static int consider(void *user, const struct store_item *item)
{
    struct nearest *const n = user;
    const size_t bytes = strlen(item->key_text);

    if (item->status != QUERN_OK || !bytes)
        return 0;
    const uint64_t score = score_of(n->want, item->key_text, bytes);
    if (n->text && score <= n->score)
        return 0;
    char *const copy = os.malloc(bytes + 1);
    if (!copy) {
        n->failed = true;
        return 1;
    }
    memcpy(copy, item->key_text, bytes + 1);
    os.free(n->text);
    n->text = copy;
    n->score = score;
    memcpy(n->key, item->key, sizeof n->key);
    return 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void add_shown(struct str *out, const char *what, const char *bytes, size_t size)
{
    const size_t n = size < SHOWN_BYTES ? size : SHOWN_BYTES;

    str_addf(out, "    %s \"", what);
    str_add_shown(out, bytes, n);
    str_addf(out, "\"%s\n", n < size ? " …" : "");
}

static size_t line_length(const char *at, const char *end)
{
    const char *const newline = memchr(at, '\n', (size_t)(end - at));

    return (size_t)((newline ? newline : end) - at);
}

/* Appends the first line in which two fields differ, and how many further lines do. */
static void add_difference(struct str *out, const struct key_field *wanted,
                           const struct key_field *found)
{
    const char *a = wanted->bytes, *const a_end = a + wanted->size;
    const char *b = found->bytes, *const b_end = b + found->size;
    size_t number = 0, differing = 0;

    while (a < a_end || b < b_end) {
        const size_t n = line_length(a, a_end), m = line_length(b, b_end);
        number++;
        if (n != m || memcmp(a, b, n)) {
            if (!differing++) {
                if (memchr(wanted->bytes, '\n', wanted->size))
                    str_addf(out, "    line %zu\n", number);
                add_shown(out, "wanted", a, n);
                add_shown(out, "found ", b, m);
            }
        }
        a += n + (a + n < a_end);
        b += m + (b + m < b_end);
    }
    if (differing > 1)
        str_addf(out, "    and %zu more lines\n", differing - 1);
}

static void add_fields(struct str *out, const struct store_want *w, const char *text)
{
    struct key_field mine, theirs;

    for (size_t at = 0; key_next(w->key_text, w->key_text_bytes, &at, &mine);) {
        if (is_source_key(&mine)) /* a digest of the other fields: it says nothing of its own */
            continue;
        const bool there = find_field(text, strlen(text), &mine, &theirs);
        const bool equal = there && same(&mine, &theirs);
        str_addf(out, "  %-10.*s %s\n", (int)mine.tag_length, mine.tag,
                 equal   ? "same"
                 : there ? "differs"
                         : "is missing there");
        if (there && !equal)
            add_difference(out, &mine, &theirs);
    }
}

/* Asks a tier, and waits for its answer where it does not know at once. */
#define ANSWER_MS 30000
static bool has(const struct tier *t, const struct store_want *w, struct store_entry *entry)
{
    struct tier_get g = {.want = w};
    enum tier_answer answer = t->get(t->self, &g, entry);

    if (answer == TIER_PENDING) {
        g.wait_ms = ANSWER_MS;
        answer = t->get(t->self, &g, entry);
    }
    if (answer == TIER_PENDING)
        t->cancel(t->self, &g);
    return answer == TIER_HIT;
}

/* Appends where a kernel is found, or else how the nearest entry differs from it. */
static quern_status explain_kernel(quern_ctx *ctx, const struct kernel *k,
                                   const struct store_want *w, struct str *out)
{
    struct nearest n = {.want = w};
    char hex[33];

    hex_from_bytes(hex, w->key.bytes, sizeof w->key.bytes);
    str_addf(out, "%s: key %s\n", k->plan.symbol, hex);
    for (size_t i = 0; i < ctx->tier_count; i++) {
        const struct tier *const t = &ctx->tiers[i];
        struct store_entry entry = {0};
        if (has(t, w, &entry)) {
            const struct store_record *const r = &entry.record;
            str_addf(out, "  is in %s%s\n%s", t->name,
                     r->rules != LINT_RULES ? ", not scanned"
                     : r->object_bytes      ? ""
                                            : ", refused by the scan: the next candidate is used",
                     r->object_bytes ? "" : r->log);
            store_entry_free(&entry);
            return QUERN_OK;
        }
    }
    quern_status status = store_walk(ctx->store, false, consider, &n);
    if (n.failed)
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT(""), "out of memory for a key text");
    if (status != QUERN_OK) {
        os.free(n.text);
        return status;
    }
    const char *const directory = store_directory(ctx->store);
    str_add(out, "  is not in the cache ");
    str_add_shown(out, directory, strlen(directory));
    if (n.text) {
        str_addf(out, "; nearest is %s\n", n.key);
        add_fields(out, w, n.text);
    } else {
        struct str why = {0};
        const bool exists =
            store_lack(ctx->store, &k->entry_key, &k->source_key, &why) != STORE_LACK_DIRECTORY;
        str_free(&why);
        str_add(out, exists ? ", which has no entry\n" : ", which does not exist\n");
    }
    os.free(n.text);
    return QUERN_OK;
}

quern_status quern_explain_miss(quern_ctx *ctx, const struct quern_problem *problem, int64_t m,
                                char **text)
{
    struct quern_problem normal;
    struct plan_slice slices[2];
    struct plan_set plans;
    struct str out = {0};
    quern_status status = QUERN_OK;

    FAIL_IF(!ctx || !text, QUERN_E_ARGUMENT, "%s is null", ctx ? "text" : "ctx");
    FAIL_IF(m < 1 || m > INT32_MAX, QUERN_E_ARGUMENT, "m is %" PRId64 "; expected 1 to %d", m,
            INT32_MAX);
    TRY(problem_normalise(problem, &normal));
    TRY(plan_make_tuned(&normal, ctx->planned, ctx->tuning, &ctx->settings.force, &plans));
    const size_t count = plan_slices(&plans, m, slices);
    for (size_t i = 0; i < count && status == QUERN_OK; i++) {
        struct kernel_search search;
        struct kernel k;
        status = kernel_keys(ctx, slices[i].plan, &k, &search);
        if (status == QUERN_OK) {
            status = explain_kernel(ctx, &k, &search.want, &out);
            kernel_abandon(ctx, &k, &search);
        }
    }
    if (status == QUERN_OK && (out.failed || !(*text = str_take(&out))))
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT(""), "out of memory for a text");
    str_free(&out);
    return status;
}
