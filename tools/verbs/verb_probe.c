/* SPDX-License-Identifier: MIT */
/* quern probe: measures on a GPU what kernels assume of it, and notes it where plans find it. */
#include "command/options.h"
#include "command/table.h"
#include "files/files.h"
#include "files/json_file.h"
#include "measure/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct probe {
    struct common common;
    const char *out;
    bool list;
    quern_ctx *ctx;
    struct table table;
    json_t *facts;
};

static void add(void *user, const struct quern_fact *f)
{
    struct probe *const p = user;
    const char sure[] = {f->sure, 0};
    const char *const cells[] = {f->name, f->assumed, p->list ? sure : f->measured,
                                 p->list    ? f->meaning
                                 : f->holds ? ""
                                            : f->fallback};

    json_array_append_new(p->facts,
                          json_make("{s:s, s:s, s:s*, s:b, s:s, s:s, s:s, s:s, s:s}", "fact",
                                    f->name, "assumed", f->assumed, "measured", f->measured,
                                    "holds", f->holds, "meaning", f->meaning, "relies", f->relies,
                                    "source", f->source, "sure", sure, "fallback", f->fallback));
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        table_cell(&p->table, "%s", cells[i]);
}

static int keep(struct probe *p, const char *target, const char *text)
{
    if (p->out)
        return file_write(p->out, text, strlen(text));
    const quern_status e = quern_table_write(p->ctx, QUERN_TABLE_FACTS, target, text, strlen(text));
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static int print(struct probe *p, const char *device, const char *target)
{
    if (p->common.json)
        return json_print(json_make("{s:i, s:s*, s:s*, s:O}", "quern_probe", 1, "device", device,
                                    "target", target, "facts", p->facts));
    if (!table_print(&p->table, 0))
        return fail("out of memory");
    return finish_output();
}

static int probe_gpu(struct probe *p)
{
    struct quern_target_info target = QUERN_INIT(struct quern_target_info);
    struct quern_device_info device = QUERN_INIT(struct quern_device_info);
    char *text = NULL;

    quern_status e = quern_open(&p->common.library, &p->ctx);
    if (e)
        return fail_without_gpu(e);
    e = quern_ctx_device(p->ctx, &device);
    if (!e && device.kind == QUERN_DEVICE_SIM)
        return misuse("the device is a software GPU, which does what is assumed; --device hip "
                      "probes a GPU, and --list lists what is assumed");
    if (!e)
        e = quern_target_find(device.target, &target);
    table_header(&p->table, "<fact|<assumed|<measured|<so");
    if (!e)
        e = quern_probe(p->ctx, add, p, &text);
    if (e)
        return fail_status(e, NULL);
    int status = print(p, device.name, target.name);
    if (!status)
        status = keep(p, target.name, text);
    free(text);
    return status;
}

static int probe(struct probe *p)
{
    if (p->common.argument_count)
        return misuse("one argument too many: '%s'", p->common.arguments[0]);
    p->facts = json_array();
    if (!p->list)
        return probe_gpu(p);
    table_header(&p->table, "<fact|<assumed|<sure|<that");
    const quern_status e = quern_facts(p->common.target, add, p);
    return e ? fail_status(e, NULL) : print(p, NULL, p->common.target);
}

int verb_probe(int argc, char **argv)
{
    static const struct usage usage = {
        "[--out FILE] | --list",
        "Runs a small kernel on the GPU of this machine for each thing that kernels assume of\n"
        "it and no manual says, and prints and notes what it found: every later use of the\n"
        "cache directory plans by that.\n"};
    struct probe p = {0};
    const struct flag flags[] = {
        {"out", FLAG_TEXT, &p.out, "FILE", "the table (tuning/GFX.facts in the cache directory)"},
        {"list", FLAG_YES, &p.list, NULL, "only list what is assumed, of --target or of any GPU"},
        {0},
    };

    int status = options_parse(&p.common, argc, argv, &usage, flags);
    if (status < 0)
        status = probe(&p);
    json_decref(p.facts);
    table_free(&p.table);
    quern_close(p.ctx);
    return status;
}
