/* SPDX-License-Identifier: MIT */
/* quern inspect: what a code object holds, a launch plan and its code objects, or a checkpoint. */
#include "checkpoint/checkpoint.h"
#include "command/options.h"
#include "command/table.h"
#include "files/files.h"
#include "files/json_file.h"
#include "files/launch_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_BYTES_MAX ((size_t)256 << 20)

struct inspection {
    struct common common;
    bool disassemble;
    json_t *array; /* for --json: one item per code object */
};

/* ---- A code object --------------------------------------------------------------------------- */

static json_t *kernel_json(const struct quern_object_kernel *k)
{
    const struct quern_resources *r = &k->resources;

    return json_make("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "kernel", k->symbol, "vgpr",
                     (json_int_t)r->vgprs, "sgpr", (json_int_t)r->sgprs, "lds",
                     (json_int_t)r->lds_bytes, "scratch", (json_int_t)r->scratch_bytes,
                     "kernarg_bytes", (json_int_t)r->kernarg_bytes, "wave_size",
                     (json_int_t)r->wave_size, "waves_per_simd", (json_int_t)r->waves_per_simd);
}

static bool print_kernels(const char *path, const char *target,
                          const struct quern_object_kernel *kernels, size_t count)
{
    struct table t = {0};

    printf("%s: code object for %s, %zu kernel%s\n", shown_line(path), target, count,
           count == 1 ? "" : "s");
    table_header(&t, "<kernel|VGPR|SGPR|LDS B|scratch B|waves/SIMD|kernarg B|wave");
    for (size_t i = 0; i < count; i++) {
        const struct quern_resources *r = &kernels[i].resources;
        table_cell(&t, "%s", kernels[i].symbol);
        table_cell(&t, "%u", r->vgprs);
        table_cell(&t, "%u", r->sgprs);
        table_cell(&t, "%u", r->lds_bytes);
        table_cell(&t, "%u", r->scratch_bytes);
        table_cell(&t, "%u", r->waves_per_simd);
        table_cell(&t, "%u", r->kernarg_bytes);
        table_cell(&t, "%u", r->wave_size);
    }
    const bool printed = table_print(&t, 2);
    table_free(&t);
    return printed;
}

struct listing {
    json_t *lines; /* null: print */
    uint64_t address;
};

static void add_instruction(void *user, uint64_t offset, unsigned size, const char *text)
{
    const struct listing *l = user;
    const char *shown = text[0] ? text : "(no instruction)";

    if (l->lines)
        json_array_append_new(l->lines,
                              json_make("[I, s]", (json_int_t)(l->address + offset), shown));
    else
        printf("  %8llx: %s%s", (unsigned long long)(l->address + offset), shown,
               text[0] ? "\n" : "");
    if (!l->lines && !text[0])
        printf(", %u bytes\n", size);
}

static int disassemble_kernel(const struct inspection *x, quern_ctx *ctx, const char *target,
                              const void *object, size_t size, const char *symbol, json_t *json)
{
    const struct quern_disassembler d = quern_ctx_disassembler(ctx);
    struct listing l = {.lines = x->common.json ? json_array() : NULL};
    const void *code;
    size_t code_bytes;

    if (!x->common.json)
        printf("\n%s:\n", shown_line(symbol));
    quern_status e = quern_object_code(object, size, symbol, &code, &code_bytes, &l.address);
    if (!e)
        e = d.function(d.user, target, code, code_bytes, add_instruction, &l);
    if (json)
        json_object_set_new(json, "instructions", l.lines);
    return e ? fail_status(e, symbol) : EXIT_OK;
}

static int disassemble(const struct inspection *x, const char *target, const void *object,
                       size_t size, const struct quern_object_kernel *kernels, size_t count,
                       json_t *list)
{
    struct common common = x->common;
    quern_ctx *ctx;

    common.library.cache_mode = QUERN_CACHE_OFF;
    int status = open_making_context(&common, target, &ctx);
    if (status)
        return status;
    for (size_t i = 0; !status && i < count; i++)
        status = disassemble_kernel(x, ctx, target, object, size, kernels[i].symbol,
                                    list ? json_array_get(list, i) : NULL);
    quern_close(ctx);
    return status;
}

static int inspect_bytes(struct inspection *x, const char *path, const void *object, size_t size)
{
    const char *target = NULL;
    size_t count = 0;
    int status = EXIT_OK;

    quern_status e = quern_object_inspect(object, size, &target, NULL, &count);
    if (e)
        return fail_status(e, path);
    struct quern_object_kernel *kernels = calloc(count + 1, sizeof *kernels);
    if (!kernels)
        return fail("out of memory");
    e = quern_object_inspect(object, size, &target, kernels, &count);
    json_t *list = x->common.json ? json_array() : NULL;
    for (size_t i = 0; list && !e && i < count; i++)
        json_array_append_new(list, kernel_json(&kernels[i]));
    if (e)
        status = fail_status(e, path);
    else if (!x->common.json && !print_kernels(path, target, kernels, count))
        status = fail("out of memory");
    if (!status && x->disassemble)
        status = disassemble(x, target, object, size, kernels, count, list);
    if (list)
        json_array_append_new(x->array, json_make("{s:s, s:s, s:o}", "object", path, "target",
                                                  target ? target : "", "kernels", list));
    free(kernels);
    return status;
}

/* The first bytes of a bundle (docs/formats.md). */
static const char bundle_mark[8] = {'Q', 'K', 'B', 'N', 'D', '\r', '\n', 0x1a};

static int inspect_object(struct inspection *x, const char *path)
{
    char *bytes;
    size_t size;

    int status = file_read(path, OBJECT_BYTES_MAX, &bytes, &size);
    if (status)
        return status;
    /* a bundle has many kernels for many layers, and a verb of its own */
    status = size > sizeof bundle_mark && !memcmp(bytes, bundle_mark, sizeof bundle_mark)
                 ? misuse("%s is a bundle of kernels: see quern bundle inspect %s", path, path)
                 : inspect_bytes(x, path, bytes, size);
    free(bytes);
    return status;
}

/* ---- A launch plan --------------------------------------------------------------------------- */

static void print_plan(const char *path, const struct launch_plan *plan)
{
    printf("%s: launch plan for %s, %zu launch%s\n", shown_line(path),
           plan->target ? shown_line(plan->target) : "?", plan->launch_count,
           plan->launch_count == 1 ? "" : "es");
    for (size_t i = 0; i < plan->launch_count; i++) {
        const struct plan_launch *l = &plan->launches[i];
        printf("  %s: grid %ux%ux%u, block %ux%ux%u, %u B of dynamic LDS, %zu arguments in %zu B\n",
               shown_line(l->kernel), l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
               l->block[2], l->lds_bytes, l->argument_count, l->kernarg_bytes);
    }
}

/* Whether an earlier launch names the same object. */
static bool seen(const struct launch_plan *plan, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (!strcmp(plan->launches[i].object, plan->launches[index].object))
            return true;
    return false;
}

static int inspect_plan(struct inspection *x, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct launch_plan plan;

    int status = launch_plan_read(path, &plan);
    if (!status && !x->common.json)
        print_plan(path, &plan);
    for (size_t i = 0; !status && i < plan.launch_count; i++) {
        const char *object = plan.launches[i].object;
        char *full = NULL;
        if (seen(&plan, i))
            continue;
        if (asprintf(&full, "%.*s%s", object[0] != '/' && slash ? (int)(slash - path + 1) : 0, path,
                     object) < 0)
            status = fail("out of memory");
        else
            status = inspect_object(x, full);
        free(full);
    }
    launch_plan_free(&plan);
    return status;
}

/* ---- A checkpoint ---------------------------------------------------------------------------- */

static json_t *layer_json(const struct checkpoint_layer *l)
{
    json_t *json = json_make("{s:s, s:s, s:I, s:b}", "layer", l->name, "format", l->format,
                             "experts", (json_int_t)l->experts, "act_order", (int)l->act_order);

    json_object_set_new(json, l->problem[0] ? "problem" : "reason",
                        json_words(l->problem[0] ? l->problem : l->reason));
    return json;
}

static int print_layers(const char *path, const struct safetensors *s,
                        const struct checkpoint_layer *layers, size_t count)
{
    printf("%s: safetensors, %zu tensor%s, %zu linear layer%s\n", shown_line(path), s->count,
           s->count == 1 ? "" : "s", count, count == 1 ? "" : "s");
    return !count || checkpoint_print(layers, count) ? EXIT_OK : fail("out of memory");
}

/* Puts the experts of each layer together, if a config.json says how many a token goes to. */
static int stack_experts(const char *path, struct checkpoint_layer *layers, size_t *count)
{
    struct model_mixture mixture;
    size_t left;

    if (!checkpoint_has_experts(layers, *count))
        return EXIT_OK;
    int status = model_mixture_beside(path, &mixture);
    if (!status && (!mixture.experts || !mixture.top_k)) {
        note("no config.json beside %s says how many experts each token goes to, without which "
             "their problem is that of one",
             path);
        return EXIT_OK;
    }
    if (!status)
        status = checkpoint_stack(layers, count, &mixture, &left);
    if (!status && left)
        note("%s: the experts of %zu matri%s are shown one by one, as no problem describes all: "
             "not all of the %lld are there and alike, or they have act-order or no problem",
             path, left, left == 1 ? "x" : "ces", (long long)mixture.experts);
    return status;
}

static int inspect_checkpoint(struct inspection *x, const char *path)
{
    struct checkpoint_layer *layers = NULL;
    struct safetensors s;
    size_t count = 0;

    if (checkpoint_is_part(path))
        note("%s is one file of several; a layer that is in two of them is known by the "
             "checkpoint's " SAFETENSORS_INDEX " alone",
             path);
    int status = safetensors_read(path, &s);
    if (!status)
        status = checkpoint_layers(&s, &layers, &count);
    if (!status)
        status = stack_experts(path, layers, &count);
    if (!status && x->common.json) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(list, layer_json(&layers[i]));
        json_array_append_new(x->array, json_make("{s:s, s:I, s:o}", "checkpoint", path, "tensors",
                                                  (json_int_t)s.count, "layers", list));
    } else if (!status) {
        status = print_layers(path, &s, layers, count);
    }
    free(layers);
    safetensors_free(&s);
    return status;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int inspect_file(struct inspection *x, const char *path)
{
    const size_t length = strlen(path);

    if (ends_with(path, length, ".safetensors") || ends_with(path, length, SAFETENSORS_INDEX))
        return inspect_checkpoint(x, path);
    if (ends_with(path, length, "config.json"))
        return misuse(
            "%s says how a model is made: quern prewarm --model makes its kernels; to see "
            "its layers, give its directory or its .safetensors",
            path);
    return ends_with(path, length, ".json") ? inspect_plan(x, path) : inspect_object(x, path);
}

static int inspect(struct inspection *x)
{
    int status = EXIT_OK;

    if (!x->common.argument_count)
        return misuse("which file? give a code object, a plan.json or a checkpoint's .safetensors");
    x->array = json_array();
    for (int i = 0; !status && i < x->common.argument_count; i++) {
        char *path;
        status =
            file_in(x->common.arguments[i], "model" SAFETENSORS_INDEX "|model.safetensors", &path);
        if (!status)
            status = inspect_file(x, path);
        free(path);
    }
    if (status)
        return status;
    return x->common.json ? json_print(json_incref(x->array)) : finish_output();
}

int verb_inspect(int argc, char **argv)
{
    static const struct usage usage = {
        "[--disassemble] FILE...",
        "Shows the kernels of a code object (an ELF file) and the registers and memory they\n"
        "take. A FILE that ends in .json is a launch plan: its launches and code objects. One\n"
        "that ends in .safetensors is a checkpoint: its linear layers, and the problem of each;\n"
        "of a checkpoint in several files, give its .safetensors.index.json. Of a directory it is\n"
        "the one or the other of these that is in it.\n"};
    struct inspection x = {0};
    const struct flag flags[] = {
        {"disassemble", FLAG_YES, &x.disassemble, NULL, "list the instructions"}, {0}};

    int status = options_parse(&x.common, argc, argv, &usage, flags);
    if (status < 0)
        status = inspect(&x);
    json_decref(x.array);
    return status;
}
