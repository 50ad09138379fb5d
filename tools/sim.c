/* SPDX-License-Identifier: MIT */
/* quern sim: runs a launch plan, ours or anybody's, on the software GPU. */
#include "counts.h"
#include "files.h"
#include "json_file.h"
#include "launch_json.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OBJECT_BYTES_MAX ((size_t)256 << 20)

enum { ORDER_GRID = 1, ORDER_SHUFFLED };

/* Memory that the launches see under a name. */
struct buffer {
    const char *name;
    char *owned_name; /* of a foreign plan, where names come from the arguments */
    const char *path; /* null: no file (a workspace) */
    uint64_t bytes;
    enum quern_sim_access access;
    void *memory;
    void *before; /* a foreign plan's: the bytes as read, to see whether they were changed */
    uint64_t address;
};

struct simulation {
    struct common common;
    int check, order, seed;
    const char *counts_path;

    struct launch_plan plan;
    char *directory; /* of the plan */
    struct operand_file files[OPERAND_FILES_MAX];
    size_t file_count;
    struct buffer buffers[OPERAND_FILES_MAX];
    size_t buffer_count;

    quern_ctx *ctx; /* for its disassembler */
    quern_sim *sim;
    struct quern_sim_counts total, *counts; /* of each launch */
    struct outputs outputs;
};

/* ---- Operands ---------------------------------------------------------------------------------
 */

/* Memory for one operand of the plan's list, filled from its file unless it is only written. */
static int prepare_listed(struct simulation *s, const struct plan_operand *o)
{
    struct buffer *b = &s->buffers[s->buffer_count];

    *b = (struct buffer){.name = o->name,
                         .path = operand_file(s->files, s->file_count, o->name),
                         .bytes = o->bytes,
                         .access = o->access};
    if (!b->path && strcmp(b->name, "workspace"))
        return misuse("operand %s has no file; give %s=FILE, %llu bytes to %s", b->name, b->name,
                      (unsigned long long)b->bytes,
                      b->access == QUERN_SIM_WRITE ? "be written" : "read");
    s->buffer_count++;
    if (b->path && b->access != QUERN_SIM_WRITE)
        return file_read_operand(b->name, b->path, b->bytes, &b->memory);
    b->memory = operand_memory(b->bytes);
    return b->memory ? EXIT_OK
                     : fail("out of memory for the %llu bytes of operand %s",
                            (unsigned long long)b->bytes, b->name);
}

/* A plan without a list: the files say how big the operands are, and any may be written. */
static int prepare_unlisted(struct simulation *s, const struct operand_file *file)
{
    struct buffer *b = &s->buffers[s->buffer_count++];

    *b = (struct buffer){.path = file->path, .access = QUERN_SIM_READ_WRITE};
    b->name = b->owned_name = strndup(file->name, file->name_length);
    if (!b->name)
        return fail("out of memory");
    int status = file_size(b->path, &b->bytes);
    if (status || (status = file_read_operand(b->name, b->path, b->bytes, &b->memory)))
        return status;
    b->before = malloc(b->bytes ? b->bytes : 1);
    if (!b->before)
        return fail("out of memory for the %llu bytes of operand %s", (unsigned long long)b->bytes,
                    b->name);
    memcpy(b->before, b->memory, b->bytes);
    return EXIT_OK;
}

static int prepare_operands(struct simulation *s)
{
    const char *names[OPERAND_FILES_MAX];
    int status = EXIT_OK;

    if (!s->plan.has_operands) {
        for (size_t i = 0; !status && i < s->file_count; i++)
            status = prepare_unlisted(s, &s->files[i]);
        return status;
    }
    for (size_t i = 0; i < s->plan.operand_count; i++)
        names[i] = s->plan.operands[i].name;
    status = operand_files_known(s->files, s->file_count, names, s->plan.operand_count);
    for (size_t i = 0; !status && i < s->plan.operand_count; i++)
        status = prepare_listed(s, &s->plan.operands[i]);
    return status;
}

static const struct buffer *find_buffer(const struct simulation *s, const char *name)
{
    for (size_t i = 0; i < s->buffer_count; i++)
        if (!strcmp(s->buffers[i].name, name))
            return &s->buffers[i];
    return NULL;
}

/* Before anything costly: every pointer of a plan without a list must have got a file. */
static int check_pointers(const struct simulation *s)
{
    for (size_t i = 0; i < s->plan.launch_count; i++) {
        const struct plan_launch *l = &s->plan.launches[i];
        for (size_t j = 0; j < l->argument_count; j++) {
            const struct plan_argument *a = &l->arguments[j];
            if (a->kind == QUERN_ARG_POINTER && !a->null && !find_buffer(s, a->name))
                return misuse(
                    "launch %zu takes a pointer '%s'; give %s=FILE, of the operand's size", i,
                    a->name, a->name);
        }
    }
    return EXIT_OK;
}

/* ---- Launches ---------------------------------------------------------------------------------
 */

static int load_object(const struct simulation *s, const char *object, char **bytes, size_t *size)
{
    char *path = object[0] == '/' ? strdup(object) : path_join(s->directory, object);

    if (!path)
        return fail("out of memory");
    const int status = file_read(path, OBJECT_BYTES_MAX, bytes, size);
    free(path);
    return status;
}

/* The plan's target, else that of its first code object. */
static int find_target(struct simulation *s, char *target, size_t size)
{
    const char *text = s->common.target ? s->common.target : s->plan.target, *found;
    char *object = NULL;
    size_t object_bytes, kernels = 0;
    int status = EXIT_OK;

    if (!text) {
        status = load_object(s, s->plan.launches[0].object, &object, &object_bytes);
        if (status)
            return status;
        const quern_status e = quern_object_inspect(object, object_bytes, &found, NULL, &kernels);
        if (e)
            status = fail_status(e, s->plan.launches[0].object);
        else
            text = found;
    }
    if (!status)
        snprintf(target, size, "%s", text);
    free(object);
    return status;
}

static int open_sim(struct simulation *s)
{
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    char target[64];

    int status = find_target(s, target, sizeof target);
    if (status)
        return status;
    /* nothing is compiled or kept here: the context is there for its disassembler */
    s->common.library.cache_mode = QUERN_CACHE_OFF;
    if (open_sim_context(&s->common, target, &s->ctx))
        return s->common.target ? EXIT_MISUSE : EXIT_FAILED;
    o.target = target;
    o.check = s->check ? (enum quern_sim_check)s->check : QUERN_CHECK_FULL;
    o.threads = s->common.library.jobs;
    o.shuffle = s->seed ? (uint64_t)s->seed : s->order == ORDER_SHUFFLED;
    o.disassembler = quern_ctx_disassembler(s->ctx);
    quern_status e = quern_sim_open(&o, &s->sim);
    for (size_t i = 0; !e && i < s->buffer_count; i++) {
        struct buffer *b = &s->buffers[i];
        e = quern_sim_map(s->sim, b->memory, b->bytes, b->access, b->name, &b->address);
    }
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static void pack_bytes(const char *digits, size_t size, uint8_t *out)
{
    for (size_t i = 0; i < size; i++) {
        const char pair[3] = {digits[2 * i], digits[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
}

static void pack_arguments(const struct simulation *s, const struct plan_launch *l,
                           uint8_t *kernarg)
{
    for (size_t i = 0; i < l->argument_count; i++) {
        const struct plan_argument *a = &l->arguments[i];
        uint64_t bits = a->bits;
        if (a->kind == QUERN_ARG_BYTES) {
            pack_bytes(a->bytes, a->size, kernarg + a->offset);
            continue;
        }
        if (a->kind == QUERN_ARG_POINTER)
            bits = a->null ? 0 : find_buffer(s, a->name)->address;
        memcpy(kernarg + a->offset, &bits, a->size);
    }
}

static int run_launch(struct simulation *s, size_t index)
{
    const struct plan_launch *l = &s->plan.launches[index];
    struct quern_sim_launch launch = {.size = sizeof launch,
                                      .kernel = l->kernel,
                                      .lds_bytes = l->lds_bytes,
                                      .kernarg_bytes = l->kernarg_bytes};
    quern_sim_module *module = NULL;
    char *object = NULL;
    size_t object_bytes;

    int status = load_object(s, l->object, &object, &object_bytes);
    if (status)
        return status;
    uint8_t *kernarg = calloc(1, l->kernarg_bytes + 1);
    if (!kernarg) {
        free(object);
        return fail("out of memory");
    }
    pack_arguments(s, l, kernarg);
    memcpy(launch.grid, l->grid, sizeof launch.grid);
    memcpy(launch.block, l->block, sizeof launch.block);
    launch.kernarg = kernarg;
    s->counts[index].size = sizeof s->counts[index];
    quern_status e = quern_sim_load(s->sim, object, object_bytes, &module);
    if (e) {
        fail_status(e, l->object);
    } else if ((e = quern_sim_run(module, &launch, &s->counts[index]))) {
        fail_status(e, l->kernel);
    } else {
        counts_add(&s->total, &s->counts[index]);
    }
    /* whatever is wrong is wrong in the plan's files, not in the command */
    status = e ? EXIT_FAILED : EXIT_OK;
    if (module)
        quern_sim_unload(module);
    free(kernarg);
    free(object);
    return status;
}

/* ---- Results ----------------------------------------------------------------------------------
 */

static json_t *all_counts(const struct simulation *s)
{
    json_t *root = json_pack("{s:i}", "quern_counts", 1), *total = counts_json(&s->total);
    json_t *launches = json_array();

    json_object_update(root, total);
    json_decref(total);
    for (size_t i = 0; i < s->plan.launch_count; i++) {
        json_t *launch = counts_json(&s->counts[i]);
        json_object_set_new(launch, "kernel", json_string(s->plan.launches[i].kernel));
        json_array_append_new(launches, launch);
    }
    json_object_set_new(root, "launches", launches);
    return root;
}

static int write_results(struct simulation *s)
{
    int status = EXIT_OK;

    for (size_t i = 0; !status && i < s->buffer_count; i++) {
        const struct buffer *b = &s->buffers[i];
        const bool unchanged = b->before && !memcmp(b->before, b->memory, b->bytes);
        if (b->path && (b->access & QUERN_SIM_WRITE) && !unchanged)
            status = outputs_add(&s->outputs, b->path, b->memory, b->bytes);
    }
    if (!status && s->counts_path) {
        json_t *counts = all_counts(s);
        char *text = json_dumps(counts, JSON_INDENT(1));
        status = text ? outputs_add(&s->outputs, s->counts_path, text, strlen(text))
                      : fail("out of memory");
        free(text);
        json_decref(counts);
    }
    return status ? status : outputs_commit(&s->outputs);
}

static int report(const struct simulation *s, double seconds)
{
    if (s->common.json)
        return json_print(all_counts(s));
    for (size_t i = 0; i < s->plan.launch_count; i++) {
        const struct plan_launch *l = &s->plan.launches[i];
        printf("%s: grid %ux%ux%u, block %ux%ux%u: %llu wave instructions, %llu issue slots\n",
               l->kernel, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
               (unsigned long long)s->counts[i].instructions,
               (unsigned long long)counts_issue_slots(&s->counts[i]));
    }
    note("%.3f s on the software GPU", seconds);
    return finish_output();
}

static int simulate(struct simulation *s, int argc, char **argv, int first)
{
    struct timespec start, end;
    int status;

    if (first == argc)
        return misuse("which plan? give the plan.json, then its operands as name=FILE");
    const char *path = argv[first];
    const char *slash = strrchr(path, '/');
    s->directory = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
    if (!s->directory)
        return fail("out of memory");
    if ((status = operand_files(argc, argv, first + 1, s->files, &s->file_count)) ||
        (status = launch_plan_read(path, &s->plan)) || (status = prepare_operands(s)) ||
        (status = check_pointers(s)) || (status = open_sim(s)))
        return status;
    s->counts = calloc(s->plan.launch_count, sizeof *s->counts);
    if (!s->counts)
        return fail("out of memory");
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (size_t i = 0; !status && i < s->plan.launch_count; i++)
        status = run_launch(s, i);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (status || (status = write_results(s)))
        return status;
    return report(s, (double)(end.tv_sec - start.tv_sec) +
                         1e-9 * (double)(end.tv_nsec - start.tv_nsec));
}

int verb_sim(int argc, char **argv)
{
    static const struct usage usage = {
        "PLAN.json NAME=FILE... [--check=fast|full] [--order=grid|shuffled] [--seed N] "
        "[--counts FILE]",
        "Runs the launches of a plan on the software GPU. Operand files are raw and of exactly\n"
        "the size the plan says. Those that the plan writes start as never-written memory, and\n"
        "appear or are replaced only when every launch has ended well.\n"};
    struct simulation s = {0};
    const struct flag flags[] = {
        {"check", FLAG_CHOICE, &s.check, "LEVEL",
         "fast: bounds and alignment; full (default): undefined bits and races too", "fast|full"},
        {"order", FLAG_CHOICE, &s.order, "ORDER",
         "in which workgroups start: grid (default), or shuffled by --seed", "grid|shuffled"},
        {"seed", FLAG_COUNT, &s.seed, "N", "of --order=shuffled, 1 (default) to 4096; implies it"},
        {"counts", FLAG_TEXT, &s.counts_path, "FILE", "write counts as JSON"},
        {0},
    };
    int first;

    int status = options_parse(&s.common, argc, argv, &usage, flags, &first);
    if (status < 0 && s.seed && s.order == ORDER_GRID)
        status = misuse("--seed shuffles the workgroups; --order=grid does not");
    if (status < 0)
        status = simulate(&s, argc, argv, first);
    outputs_discard(&s.outputs);
    if (s.sim)
        quern_sim_close(s.sim);
    quern_close(s.ctx);
    for (size_t i = 0; i < s.buffer_count; i++) {
        free(s.buffers[i].memory);
        free(s.buffers[i].before);
        free(s.buffers[i].owned_name);
    }
    free(s.counts);
    free(s.directory);
    launch_plan_free(&s.plan);
    return status;
}
