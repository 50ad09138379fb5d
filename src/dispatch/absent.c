/* SPDX-License-Identifier: MIT */
/*
 * What the host is told of a kernel that is nowhere and may not be compiled. A long message is cut
 * at its end, so that the order is: where the kernel is not; why it may not be compiled; what
 * became of the bundles, of the base kernels and of the remote, as a bundle that was refused is why
 * a kernel is missing that its host shipped; and the command that makes it.
 */
#include "dispatch/dispatch.h"

#include "plan/base.h"

#include <inttypes.h>
#include <stdio.h>

/* Appends where the kernel is not: in a cache that can be read, in one that is not there, or one of
 * which nobody knows, as this user may not read it. */
static void tell_cache(const quern_ctx *ctx, const struct kernel *k, struct str *out)
{
    const char *const directory = store_directory(ctx->store);
    struct str why = {0};

    const enum store_lack lack = store_lack(ctx->store, &k->entry_key, &k->source_key, &why);
    if (!*directory)
        str_add(out, "is in no bundle, the cache is off");
    else if (lack == STORE_LACK_DIRECTORY)
        str_addf(out, "is not in the cache %s, which does not exist,", directory);
    else if (lack == STORE_LACK_RIGHTS)
        str_addf(out, "cannot be looked for in the cache %s: %s;", directory, str_text(&why));
    else
        str_addf(out, "is not in the cache %s", directory);
    str_free(&why);
}

/* What the remote said of the kernel: that its entry is revoked, or that it has none. */
static void tell_remote(quern_ctx *ctx, const struct kernel_search *search, struct str *out)
{
    const char *refused = "";

    for (size_t i = 0; i < ctx->tier_count; i++)
        for (int by_source = 0; by_source < 2 && !*refused; by_source++)
            refused = search->gets[i][by_source].refused;
    remote_tell(ctx->remote, refused, out);
}

/* Appends "1-16", the rows that the caller asked kernels for, or those of this one. */
static void tell_rows(const struct kernel *k, const struct kernel_search *search, struct str *out)
{
    if (!search->m_hi)
        str_addf(out, "%d", k->plan.m_lo);
    else if (search->m_lo == search->m_hi)
        str_addf(out, "%" PRId64, search->m_hi);
    else
        str_addf(out, "%" PRId64 "-%" PRId64, search->m_lo, search->m_hi);
}

quern_status kernel_absent(quern_ctx *ctx, const struct kernel *k,
                           const struct kernel_search *search, const char *why)
{
    const char *const target = ctx->id.target->name;
    char text[QUERN_TEXT_MAX];
    struct str where = {0}, others = {0}, rows = {0};

    counter_add(&ctx->counters, QUERN_STAT_COMPILE_REFUSED, 1);
    tell_cache(ctx, k, &where);
    const bool left_out = bundles_tell(&ctx->bundles, &others);
    if (plan_is_base(&k->plan))
        base_tell(&ctx->base, &others);
    else if (ctx->remote)
        tell_remote(ctx, search, &others);
    tell_rows(k, search, &rows);
    problem_text(&k->plan.problem, text);
    error_set(QUERN_E_WOULD_COMPILE, __FILE__, FAIL_AT("can_compile"),
              "kernel %s for %s %s and %s%s; %smade by: quern prewarm --target %s --m %s \"%s\"",
              k->plan.symbol, target, str_text(&where), why, str_text(&others),
              left_out ? "mend that bundle, or have the kernel " : "", target, str_text(&rows),
              text);
    str_free(&where);
    str_free(&others);
    str_free(&rows);
    return QUERN_E_WOULD_COMPILE;
}
