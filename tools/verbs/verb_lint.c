/* SPDX-License-Identifier: MIT */
/* quern lint: what silicon would not forgive in the code objects that are given (docs/lint.md). */
#include "command/options.h"
#include "files/files.h"
#include "files/json_file.h"

#include <stdio.h>
#include <stdlib.h>

#define OBJECT_BYTES_MAX ((size_t)256 << 20)

struct scan {
    struct common common;
    json_t *array; /* for --json: one item per file */
    json_t *found; /* of the file at hand; null: print */
    const char *path;
    unsigned long long findings, kernels, targets;
};

static const char *rule_word(enum quern_lint_rule rule)
{
    return rule == QUERN_LINT_TOO_CLOSE ? "too-close"
           : rule == QUERN_LINT_OWED    ? "not-waited-for"
                                        : "unread";
}

static void add_finding(void *user, const struct quern_lint_finding *f)
{
    struct scan *const s = user;

    s->findings++;
    if (s->found) {
        json_array_append_new(
            s->found, json_make("{s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:s, s:i, s:i}", "kernel",
                                f->kernel, "rule", rule_word(f->rule), "what", f->what, "registers",
                                f->registers, "first", (json_int_t)f->first, "first_text",
                                f->first_text, "second", (json_int_t)f->second, "second_text",
                                f->second_text, "needed", (int)f->needed, "found", (int)f->found));
        return;
    }
    printf("%s: %s: %s: %s", shown_line(s->path), shown_line(f->kernel), f->what, f->registers);
    if (f->rule == QUERN_LINT_TOO_CLOSE)
        printf(", %u wait state%s of %u", f->found, f->found == 1 ? "" : "s", f->needed);
    printf("\n");
    if (f->first != f->second)
        printf("  %6llx: %s\n", (unsigned long long)f->first, f->first_text);
    printf("  %6llx: %s\n", (unsigned long long)f->second, f->second_text);
}

/* One code object. */
static int scan_object(struct scan *s, const void *object, size_t size)
{
    struct common common = s->common;
    const char *target = NULL;
    size_t count = 0;
    quern_ctx *ctx;

    quern_status e = quern_object_inspect(object, size, &target, NULL, &count);
    if (e)
        return fail_status(e, s->path);
    /* nothing is compiled or kept: the context is there for its disassembler */
    common.library.cache_mode = QUERN_CACHE_OFF;
    common.library.allow_unverified = 1;
    const int status = open_making_context(&common, target, &ctx);
    if (status)
        return status;
    s->kernels += count;
    s->targets++;
    const struct quern_disassembler d = quern_ctx_disassembler(ctx);
    s->found = s->common.json ? json_array() : NULL;
    e = quern_lint(&d, object, size, add_finding, s);
    quern_close(ctx);
    if (s->common.json)
        json_array_append_new(s->array,
                              json_make("{s:s, s:s, s:I, s:o}", "object", s->path, "target", target,
                                        "kernels", (json_int_t)count, "findings", s->found));
    return e ? fail_status(e, s->path) : EXIT_OK;
}

/* Scans a file: a code object, or a file with code objects in offload bundles, of which at least
 * one must be for a target whose rules are known. */
static int scan_bytes(struct scan *s, const void *bytes, size_t size)
{
    struct quern_offload_entry entry = QUERN_INIT(struct quern_offload_entry);
    quern_offload *offload;
    size_t scanned = 0, kernels = 0;
    int status = EXIT_FAILED;

    if (quern_object_inspect(bytes, size, NULL, NULL, &kernels) == QUERN_OK ||
        quern_offload_open(bytes, size, &offload) != QUERN_OK)
        return scan_object(s, bytes, size);
    for (size_t i = 0; i < quern_offload_count(offload); i++) {
        if (quern_offload_entry(offload, i, &entry) != QUERN_OK || !*entry.target ||
            !entry.object_bytes)
            continue;
        status = scan_object(s, entry.object, entry.object_bytes);
        scanned += status == EXIT_OK;
    }
    quern_offload_close(offload);
    return scanned ? EXIT_OK : status;
}

static int scan_files(struct scan *s)
{
    int status = EXIT_OK;

    if (!s->common.argument_count)
        return misuse("which file? give code objects, as quern build writes them");
    s->array = json_array();
    for (int i = 0; !status && i < s->common.argument_count; i++) {
        char *bytes;
        size_t size;
        s->path = s->common.arguments[i];
        status = file_read(s->path, OBJECT_BYTES_MAX, &bytes, &size);
        if (status)
            break;
        status = scan_bytes(s, bytes, size);
        free(bytes);
    }
    if (status)
        return status;
    if (!s->common.json && !s->findings)
        printf("%llu kernel%s in %llu code object%s: nothing was found\n", s->kernels,
               s->kernels == 1 ? "" : "s", s->targets, s->targets == 1 ? "" : "s");
    status = s->common.json ? json_print(json_incref(s->array)) : finish_output();
    return status ? status : s->findings ? EXIT_FAILED : EXIT_OK;
}

int verb_lint(int argc, char **argv)
{
    static const struct usage usage = {
        "FILE...",
        "Scans code objects (ELF files for AMD GPUs, of any origin) for pairs of instructions\n"
        "that are too close together for the hardware, and for registers that are used before a\n"
        "load has written them, on every path; nothing is run. Needs the compiler's libraries.\n"
        "Exit status: 0 nothing was found, 1 something was, 2 the target is not scanned.\n"};
    struct scan s = {0};
    const struct flag flags[] = {{0}};

    int status = options_parse(&s.common, argc, argv, &usage, flags);
    if (status < 0)
        status = scan_files(&s);
    json_decref(s.array);
    return status;
}
