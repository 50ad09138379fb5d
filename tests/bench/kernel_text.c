/* SPDX-License-Identifier: MIT */
/*
 * What the compiler makes of kernels, for engineers who change how kernels are generated and want
 * proof that no instruction moved: for each line "TARGET M PROBLEM" of standard input, one line
 * with the kernel's symbol and the XXH3-128 of its descriptor and its instructions. The whole
 * object is of no use for that: it names a hash of the source text, which a comment changes. Two
 * trees whose outputs are equal generate equal kernels. tests/bench/kernel_text.sh makes the list
 * of lines and runs this on it.
 *
 * usage: kernel_text CACHE-DIRECTORY < LINES. A line whose problem is declined prints "declined".
 */
#include "base/hash.h"
#include "object/object.h"
#include "t_paths.h"

#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(quern_status status, const char *line)
{
    if (status != QUERN_OK) {
        fprintf(stderr, "kernel_text: %s: %s\n%s", line, quern_last_error()->message,
                quern_last_error()->log);
        exit(1);
    }
}

/* The context of a target, opened when it is first met; targets are few. */
static quern_ctx *context_of(const char *target, const char *cache, const char *line)
{
    static struct {
        char target[32];
        quern_ctx *ctx;
    } contexts[64];
    size_t i = 0;

    for (; i < 64 && contexts[i].ctx; i++)
        if (!strcmp(contexts[i].target, target))
            return contexts[i].ctx;
    if (i == 64)
        exit(fprintf(stderr, "kernel_text: more than 64 targets\n"));
    struct quern_options options = QUERN_INIT(struct quern_options);
    options.target = target;
    options.cache_dir = cache;
    options.device = QUERN_DEVICE_NONE;
    options.allow_unverified = 1;
    options.worker_path = t_worker_path();
    snprintf(contexts[i].target, sizeof contexts[i].target, "%s", target);
    must(quern_open(&options, &contexts[i].ctx), line);
    return contexts[i].ctx;
}

/* Prints the hash of one kernel's descriptor and instructions. The descriptor's first 16 bytes are
 * sizes, and the next 8 say where the instructions are, which is not theirs. */
static void print_hash(const char *line, const struct quern_kernel_info *info)
{
    enum { DESCRIPTOR = 64, ENTRY_AT = 16, ENTRY_BYTES = 8 };
    struct object object;
    char hex[33];

    must(object_parse(info->object, info->object_bytes, &object), line);
    const struct object_kernel *const k = object_kernel(&object, info->symbol);
    const uint8_t *const code = k ? object_at(&object, k->entry, k->code_bytes) : NULL;
    const uint8_t *const descriptor = k ? object_at(&object, k->descriptor, DESCRIPTOR) : NULL;
    if (!code || !descriptor)
        exit(fprintf(stderr, "kernel_text: %s: no kernel %s\n", line, info->symbol));
    uint8_t *const bytes = malloc(DESCRIPTOR + k->code_bytes);
    memcpy(bytes, descriptor, DESCRIPTOR);
    memset(bytes + ENTRY_AT, 0, ENTRY_BYTES);
    memcpy(bytes + DESCRIPTOR, code, k->code_bytes);
    const struct hash128 hash = hash128_of(bytes, DESCRIPTOR + k->code_bytes);
    hex_from_bytes(hex, hash.bytes, sizeof hash.bytes);
    printf("%s: %s %s\n", line, info->symbol, hex);
    free(bytes);
    object_free(&object);
}

int main(int argc, char **argv)
{
    char line[512], target[32];
    long long m;
    int at;

    if (argc != 2) {
        fprintf(stderr, "usage: kernel_text CACHE-DIRECTORY < LINES\n");
        return 2;
    }
    while (fgets(line, sizeof line, stdin)) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        struct quern_problem problem = QUERN_INIT(struct quern_problem);
        quern_op *op;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%31s %lld %n", target, &m, &at) != 2)
            exit(fprintf(stderr, "kernel_text: '%s' is not TARGET M PROBLEM\n", line));
        quern_ctx *const ctx = context_of(target, argv[1], line);
        quern_status status = quern_problem_parse(line + at, &problem);
        if (status == QUERN_OK)
            status = quern_op_create_range(ctx, &problem, m, m, &op);
        if (status == QUERN_E_DECLINED) {
            printf("%s: declined\n", line);
            continue;
        }
        must(status, line);
        must(quern_op_kernel(op, 0, &info), line);
        print_hash(line, &info);
        quern_op_release(op);
    }
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
