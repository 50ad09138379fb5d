/* SPDX-License-Identifier: MIT */
/*
 * The scan of a kernel's object before it is stored or used (src/lint). An object that cannot be
 * scanned, because the target has no rules or there is no disassembler, is used all the same, and
 * its entry says that it is unscanned.
 */
#include "dispatch/dispatch.h"

#include "gen/gen.h"
#include "lint/lint.h"

#include <inttypes.h>
#include <string.h>

/* Of an object's findings so many are written out; the rest are only counted. */
#define TOLD_MAX 8

struct telling {
    struct str *out;
    size_t count;
};

static void tell(void *user, const struct quern_lint_finding *f)
{
    struct telling *const t = user;

    if (t->count++ < TOLD_MAX)
        str_addf(t->out, "%s: %s: %" PRIx64 " %s, then %" PRIx64 " %s\n", f->what, f->registers,
                 f->first, f->first_text, f->second, f->second_text);
}

unsigned kernel_scan(quern_ctx *ctx, const struct kernel *k, struct str *findings)
{
    struct telling t = {.out = findings};

    if (!lint_knows(ctx->id.target) || !ctx->disassembler.function)
        return 0;
    if (lint_object(&k->object, &ctx->disassembler, tell, &t) != QUERN_OK) {
        log_line(&ctx->log, QUERN_LOG_INFO, "kernel %s is not scanned: %s", k->plan.symbol,
                 quern_last_error()->message);
        str_free(findings);
        return 0;
    }
    if (t.count > TOLD_MAX)
        str_addf(findings, "and %zu more\n", t.count - TOLD_MAX);
    if (t.count)
        log_line(&ctx->log, QUERN_LOG_WARN,
                 "kernel %s for %s is refused, as a GPU may compute something else than it says: "
                 "%.*s",
                 k->plan.symbol, ctx->id.target->name, (int)strcspn(str_text(findings), "\n"),
                 str_text(findings));
    return LINT_RULES;
}

/* Stores the scan's verdict in the entry of the kernel's exact key, with the source made anew. */
static void note(quern_ctx *ctx, const struct kernel *k, const struct kernel_search *search,
                 const char *findings)
{
    struct str source = {0};

    if (gen_source_of(k->plan.target, str_text(&search->outline), &source) == QUERN_OK)
        store_replace(ctx->store, &k->entry_key,
                      &(struct store_record){.key_text = search->want.key_text,
                                             .key_text_bytes = search->want.key_text_bytes,
                                             .source = str_text(&source),
                                             .log = findings,
                                             .object = k->bytes,
                                             .object_bytes = k->refused ? 0 : k->size,
                                             .rules = k->rules,
                                             .parsed = &k->object});
    str_free(&source);
}

void kernel_scan_found(quern_ctx *ctx, struct kernel *k, const struct kernel_search *search)
{
    struct str findings = {0};

    if (!k->cached || k->rules == LINT_RULES)
        return;
    k->rules = kernel_scan(ctx, k, &findings);
    k->refused = findings.length;
    if (k->rules && k->tier == QUERN_TIER_CACHE && !k->by_source)
        note(ctx, k, search, str_text(&findings));
    str_free(&findings);
}
