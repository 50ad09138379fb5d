/* SPDX-License-Identifier: MIT */
/* Gives a launch plan memory and a software GPU to run on (simulation.h). */
#include "measure/simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_BYTES_MAX ((size_t)256 << 20)

/* ---- Operands -------------------------------------------------------------------------------- */

/* Fills an operand with numbers that are the same in each run: ±0.5 to ±1 in float types, any bits
 * in others. */
static void make_up(const struct plan_operand *o, void *memory)
{
    const char *const type = o->dtype ? o->dtype : "";
    uint64_t keep = UINT64_MAX, set = 0, state = 0x9e3779b97f4a7c15u * (strlen(o->name) + 1);
    uint8_t *at = memory;

    if (!strcmp(type, "f32")) {
        keep = 0x807fffff807fffffu;
        set = 0x3f0000003f000000u;
    } else if (!strcmp(type, "bf16")) {
        keep = 0x807f807f807f807fu;
        set = 0x3f003f003f003f00u;
    } else if (!strcmp(type, "f16")) {
        keep = 0x83ff83ff83ff83ffu;
        set = 0x3800380038003800u;
    }
    for (uint64_t left = o->bytes; left; left -= left < 8 ? left : 8, at += 8) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t word = ((state ^ state >> 33) & keep) | set;
        memcpy(at, &word, left < 8 ? left : 8);
    }
}

static const struct buffer *find_buffer(const struct simulation *s, const char *name)
{
    for (size_t i = 0; i < s->buffer_count; i++)
        if (!strcmp(s->buffers[i].name, name))
            return &s->buffers[i];
    return NULL;
}

/* Refuses a plan whose list gives an operand another size than its problem does at its m: numbers
 * that are made up for the one would not fit the other. */
static int check_sizes(const struct simulation *s, const struct quern_problem *p)
{
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    size_t count = 0;
    const quern_status e = quern_problem_operands(p, s->plan.m, operands, &count);

    if (e)
        return fail_status(e, NULL);
    for (size_t i = 0; i < count; i++) {
        const struct buffer *const b = find_buffer(s, operands[i].name);
        if (b && b->bytes != operands[i].bytes)
            return misuse("the plan lists %llu bytes for operand %s, its problem %llu at m=%lld",
                          (unsigned long long)b->bytes, b->name,
                          (unsigned long long)operands[i].bytes, (long long)s->plan.m);
    }
    return EXIT_OK;
}

/* Makes up which experts the rows of A go to, where no file says it. Any bits would name none. */
static int make_up_blocks(struct simulation *s)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    const struct buffer *const rows = find_buffer(s, "rows"),
                               *const experts = find_buffer(s, "experts"),
                               *const used = find_buffer(s, "rows_used"),
                               *const chosen = find_buffer(s, "topk_ids");
    const int64_t m = s->plan.m;

    if (!s->plan.problem || quern_problem_parse(s->plan.problem, &p) ||
        (p.op != QUERN_OP_MOE && p.op != QUERN_OP_MOE_ALIGN))
        return EXIT_OK;
    const int bad = check_sizes(s, &p);
    if (bad)
        return bad;
    if (p.op == QUERN_OP_MOE_ALIGN && chosen && !chosen->path)
        choices_make_up(&p, m, 0, s->choices, chosen->memory);
    if (p.op != QUERN_OP_MOE || !rows || !experts || !used || rows->path || experts->path ||
        used->path)
        return EXIT_OK;
    int32_t *const ids = calloc((size_t)(m * p.top_k), sizeof *ids);
    if (!ids)
        return fail("out of memory");
    choices_make_up(&p, m, 0, s->choices, ids);
    const quern_status e = quern_moe_align(&p, m, ids, rows->memory, experts->memory, used->memory);
    free(ids);
    return e ? fail_status(e, NULL) : EXIT_OK;
}

/* Memory for one operand of the plan's list, filled from its file unless it is only written. */
static int prepare_listed(struct simulation *s, const struct plan_operand *o)
{
    struct buffer *b = &s->buffers[s->buffer_count];

    *b = (struct buffer){.name = o->name,
                         .path = operand_file(s->files, s->file_count, o->name),
                         .bytes = o->bytes,
                         .access = o->access};
    if (!b->path && !s->invent && strcmp(b->name, "workspace"))
        return misuse("operand %s has no file; give %s=FILE, %llu bytes to %s", b->name, b->name,
                      (unsigned long long)b->bytes,
                      b->access == QUERN_SIM_WRITE ? "be written" : "read");
    s->buffer_count++;
    if (b->path && b->access != QUERN_SIM_WRITE)
        return file_read_operand(b->name, b->path, b->bytes, &b->memory);
    b->memory = operand_memory(b->bytes);
    if (!b->memory)
        return fail("out of memory for the %llu bytes of operand %s", (unsigned long long)b->bytes,
                    b->name);
    if (s->invent && b->access != QUERN_SIM_WRITE)
        make_up(o, b->memory);
    return EXIT_OK;
}

/* Memory for one operand of a plan that has no list of operands: it is as large as its file, and
 * launches may write to it. */
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

/* Checks, before anything costly is done, that every pointer of a plan without a list of operands
 * has a file. */
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

int simulation_operands(struct simulation *s)
{
    const char *names[OPERAND_FILES_MAX];
    int status = EXIT_OK;

    if (!s->plan.has_operands) {
        for (size_t i = 0; !status && i < s->file_count; i++)
            status = prepare_unlisted(s, &s->files[i]);
        return status ? status : check_pointers(s);
    }
    for (size_t i = 0; i < s->plan.operand_count; i++)
        names[i] = s->plan.operands[i].name;
    status = operand_files_known(s->files, s->file_count, names, s->plan.operand_count);
    for (size_t i = 0; !status && i < s->plan.operand_count; i++)
        status = prepare_listed(s, &s->plan.operands[i]);
    if (!status && s->invent)
        status = make_up_blocks(s);
    return status ? status : check_pointers(s);
}

int simulation_read(struct simulation *s, const struct common *common)
{
    const char *path = common->arguments[0];
    const char *slash = strrchr(path, '/');

    s->directory = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
    if (!s->directory)
        return fail("out of memory");
    const int status = operand_files(common, s->files, &s->file_count);
    return status ? status : launch_plan_read(path, &s->plan);
}

/* ---- Code objects ---------------------------------------------------------------------------- */

static const struct plan_object *held_object(const struct simulation *s, const char *name)
{
    for (size_t i = 0; i < s->object_count; i++)
        if (!strcmp(s->objects[i].name, name))
            return &s->objects[i];
    return NULL;
}

static int load_object(const struct simulation *s, const char *object, char **bytes, size_t *size)
{
    char *path = object[0] == '/' ? strdup(object) : path_join(s->directory, object);

    if (!path)
        return fail("out of memory");
    const int status = file_read(path, OBJECT_BYTES_MAX, bytes, size);
    free(path);
    return status;
}

/* Finds the target: --target, else the plan's, else that of its first code object. */
static int find_target(struct simulation *s, const struct common *common)
{
    const char *text = common->target ? common->target : s->plan.target, *found;
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
        snprintf(s->target, sizeof s->target, "%s", text);
    free(object);
    return status;
}

int simulation_open(struct simulation *s, const struct common *common,
                    const struct quern_sim_options *options)
{
    struct quern_sim_options o = *options;
    struct common plain = *common;

    const int status = find_target(s, common);
    if (status)
        return status;
    /* nothing is compiled or kept here: the context is there for its disassembler */
    plain.library.cache_mode = QUERN_CACHE_OFF;
    if (!s->ctx && open_sim_context(&plain, s->target, &s->ctx))
        return common->target ? EXIT_MISUSE : EXIT_FAILED;
    o.target = s->target;
    o.threads = common->library.jobs;
    o.disassembler = quern_ctx_disassembler(s->ctx);
    o.worker_path = common->library.worker_path;
    quern_status e = quern_sim_open(&o, &s->sim);
    for (size_t i = 0; !e && i < s->buffer_count; i++) {
        struct buffer *b = &s->buffers[i];
        e = quern_sim_map(s->sim, b->memory, b->bytes, b->access, b->name, &b->address);
    }
    return e ? fail_status(e, NULL) : EXIT_OK;
}

/* ---- Launches -------------------------------------------------------------------------------- */

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

int simulation_launch(const struct simulation *s, size_t index, struct ready_launch *r)
{
    const struct plan_launch *l = &s->plan.launches[index];
    const struct plan_object *held = held_object(s, l->object);
    size_t object_bytes = held ? held->size : 0;

    *r = (struct ready_launch){.launch = {.size = sizeof r->launch,
                                          .kernel = l->kernel,
                                          .lds_bytes = l->lds_bytes,
                                          .kernarg_bytes = l->kernarg_bytes}};
    const int status = held ? EXIT_OK : load_object(s, l->object, &r->object, &object_bytes);
    if (status)
        return status;
    r->kernarg = calloc(1, l->kernarg_bytes + 1);
    if (!r->kernarg)
        return fail("out of memory");
    pack_arguments(s, l, r->kernarg);
    memcpy(r->launch.grid, l->grid, sizeof r->launch.grid);
    memcpy(r->launch.block, l->block, sizeof r->launch.block);
    r->launch.kernarg = r->kernarg;
    const quern_status e =
        quern_sim_load(s->sim, held ? held->bytes : r->object, object_bytes, &r->module);
    if (e)
        fail_status(e, l->object);
    /* EXIT_FAILED and not EXIT_MISUSE: the mistake is in the plan's files, not in the command */
    return e ? EXIT_FAILED : EXIT_OK;
}

void simulation_launch_free(struct ready_launch *r)
{
    if (r->module)
        quern_sim_unload(r->module);
    free(r->kernarg);
    free(r->object);
    *r = (struct ready_launch){0};
}

void simulation_free(struct simulation *s)
{
    if (s->sim)
        quern_sim_close(s->sim);
    quern_close(s->ctx);
    for (size_t i = 0; i < s->buffer_count; i++) {
        free(s->buffers[i].memory);
        free(s->buffers[i].before);
        free(s->buffers[i].owned_name);
    }
    for (size_t i = 0; i < s->object_count; i++)
        free(s->objects[i].name);
    free(s->objects);
    free(s->directory);
    launch_plan_free(&s->plan);
    *s = (struct simulation){0};
}
