/* SPDX-License-Identifier: MIT */
/* quern explain: which kernels serve a problem, and why. */
#include "files/json_file.h"
#include "command/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most values of M; nobody would read more. */
#define ROWS_MAX 64

struct explanation {
    struct common common;
    struct m_set set;
    bool why_miss, m_sweep;
    quern_ctx *ctx; /* with why_miss */
    struct quern_target_info target;
    struct quern_problem problem;
    char canonical[QUERN_TEXT_MAX];
    bool begun;   /* the head is printed */
    json_t *list; /* for --json */
};

static void print_head(struct explanation *x)
{
    if (!x->begun)
        printf("%s\n%s, %s (%s)%s\n", x->canonical, x->target.name, x->target.family,
               x->target.part, x->target.verified ? "" : ", which nothing here verifies");
    x->begun = true;
}

static void print_details(struct explanation *x, const char *text)
{
    print_head(x);
    printf("%s%s", text, text[0] && text[strlen(text) - 1] != '\n' ? "\n" : "");
}

/* What serves a launch of m rows, and why not its own kernels. */
struct verdict {
    const char *word; /* "serves", "compiles" or "base" */
    char meaning[512];
};

/* Opens a context with the options as they were given but for `jit`; it says nothing, as the
 * explanation itself has warned of what is wrong with them. */
static int open_quiet(const struct explanation *x, enum quern_jit jit, quern_ctx **ctx)
{
    struct common quiet = x->common;

    quiet.library.log = NULL;
    quiet.library.jit = jit;
    quiet.library.allow_unverified = 1;
    return open_making_context(&quiet, x->common.target, ctx);
}

/* Whether a context with the options as they were given may compile; if not, why. */
static bool can_compile(const struct explanation *x, char why[256])
{
    quern_ctx *ctx = NULL;

    if (open_quiet(x, x->common.library.jit, &ctx))
        return true;
    const quern_status e = quern_can_compile(ctx);
    snprintf(why, 256, "%s", e ? quern_last_error()->message : "");
    quern_close(ctx);
    return !e;
}

/* Whether a launch finds its kernels. A bundle or a cache that cannot be used counts as one that
 * has none. */
static void availability(struct explanation *x, int64_t m, struct verdict *v)
{
    static const char missing[] = "neither a bundle nor the cache has it";
    char why[256];
    quern_op *op = NULL;

    *v = (struct verdict){.word = "compiles"};
    snprintf(v->meaning, sizeof v->meaning, "compiles: %s", missing);
    if (!x->ctx) {
        unsetenv("QUERN_RECORD"); /* what is explained is not asked for */
        if (open_quiet(x, QUERN_JIT_OFF, &x->ctx))
            return;
    }
    if (!quern_op_create_range(x->ctx, &x->problem, m, m, &op)) {
        quern_op_release(op);
        v->word = "serves";
        snprintf(v->meaning, sizeof v->meaning, "serves: a bundle or the cache has it");
        return;
    }
    if (quern_op_create_flags(x->ctx, &x->problem, m, QUERN_OP_BASE_ONLY, &op))
        return;
    quern_op_release(op);
    if (can_compile(x, why)) {
        strcat(v->meaning, "; base kernels can serve until then (QUERN_BASE=on)");
        return;
    }
    v->word = "base";
    snprintf(v->meaning, sizeof v->meaning, "base: base kernels serve: %s, and %s", missing, why);
}

/* Explains m rows: a verdict, which is printed at once, and the details, which follow all verdicts.
 */
static int explain_m(struct explanation *x, int64_t m, char **details)
{
    char *text = NULL, bound[64] = "";
    double us = 0;

    const quern_status e = x->why_miss ? quern_explain_miss(x->ctx, &x->problem, m, &text)
                                       : quern_explain(&x->common.library, &x->problem, m, &text);
    if (e)
        return fail_status(e, e == QUERN_E_DECLINED ? "declined" : NULL);
    *details = text;
    if (x->why_miss) {
        if (x->common.json)
            json_array_append_new(x->list,
                                  json_make("{s:I, s:s}", "m", (json_int_t)m, "text", text));
        return EXIT_OK;
    }
    struct verdict verdict;
    availability(x, m, &verdict);
    sscanf(text, "m=%*d: %lf us expected (a model), bound by %63[^;]", &us, bound);
    if (x->common.json)
        json_array_append_new(x->list, json_make("{s:I, s:s, s:f, s:s, s:s}", "m", (json_int_t)m,
                                                 "verdict", verdict.word, "expected_us", us,
                                                 "bound_by", bound, "text", text));
    else
        printf("%s; %.*s\n", verdict.meaning, (int)strcspn(text, "\n"), text);
    return EXIT_OK;
}

static int explain_sweep(struct explanation *x)
{
    char *text = NULL;
    int status;

    const quern_status e = quern_explain_sweep(&x->common.library, &x->problem, &text);
    if (e)
        return fail_status(e, NULL);
    if (x->common.json) {
        status =
            json_print(json_make("{s:s, s:s, s:b, s:s}", "problem", x->canonical, "target",
                                 x->target.name, "verified", x->target.verified, "sweep", text));
    } else {
        print_head(x);
        printf("%s", text);
        status = finish_output();
    }
    free(text);
    return status;
}

static int explain(struct explanation *x)
{
    int status;

    if ((status = options_problem(&x->common, &x->problem, x->canonical)) ||
        (status = options_target(&x->common, &x->target)))
        return status;
    if (x->m_sweep && (x->set.count || x->why_miss))
        return misuse("--m-sweep goes with neither --m nor --why-miss");
    if (!x->set.count)
        x->set = (struct m_set){.count = 1, .ranges = {{1, 1}}};
    if (m_count(&x->set) > ROWS_MAX)
        return misuse("--m names %lld values; at most %d are explained at once",
                      (long long)m_count(&x->set), ROWS_MAX);
    if (x->why_miss && (status = open_making_context(&x->common, x->common.target, &x->ctx)))
        return status;
    if (x->m_sweep)
        return explain_sweep(x);
    x->list = json_array();
    char *details[ROWS_MAX] = {NULL};
    size_t count = 0;
    for (int64_t m = 0; !status && m_next(&x->set, &m); count++)
        status = explain_m(x, m, &details[count]);
    for (size_t i = 0; i < count; i++) {
        if (!status && !x->common.json)
            print_details(x, details[i]);
        free(details[i]);
    }
    if (status)
        return status;
    if (!x->common.json)
        return finish_output();
    return json_print(json_make("{s:s, s:s, s:b, s:O}", "problem", x->canonical, "target",
                                x->target.name, "verified", x->target.verified, "explanations",
                                x->list));
}

int verb_explain(int argc, char **argv)
{
    static const struct usage usage = {
        "--target GFX [--m LIST | --m-sweep] PROBLEM",
        "Says whether the kernel for M rows of PROBLEM is there or has to be compiled, what it is\n"
        "expected to take and what bounds it; then which it is, why that one was chosen, and\n"
        "what the model says it costs. Needs no compiler. With --why-miss:\n"
        "whether the cache has the kernel and, if not, how the nearest entry differs. With\n"
        "--m-sweep: what the vector and the matrix units are modelled to take for each M.\n"};
    struct explanation x = {0};
    const struct flag flags[] = {
        {"m", FLAG_M, &x.set, "LIST", "rows of A (1)"},
        {"m-sweep", FLAG_YES, &x.m_sweep, NULL,
         "instead: what each family would take, and where it takes over"},
        {"why-miss", FLAG_YES, &x.why_miss, NULL,
         "instead: is it in the cache, and how does the nearest entry differ"},
        {0},
    };

    int status = options_parse(&x.common, argc, argv, &usage, flags);
    if (status < 0)
        status = explain(&x);
    json_decref(x.list);
    quern_close(x.ctx);
    return status;
}
