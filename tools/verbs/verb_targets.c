/* SPDX-License-Identifier: MIT */
/* quern targets: the table of targets. */
#include "files/json_file.h"
#include "command/options.h"
#include "command/table.h"

#include <stdio.h>

/* Describes target `i`: of the names on the command line, or of the whole table if there are none.
 */
static int row(const struct common *common, size_t i, struct quern_target_info *info)
{
    *info = (struct quern_target_info)QUERN_INIT(struct quern_target_info);
    const quern_status e = common->argument_count ? quern_target_find(common->arguments[i], info)
                                                  : quern_target_at(i, info);
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static json_t *target_json(const struct quern_target_info *t)
{
    return json_make("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:s, s:s}",
                     "name", t->name, "vendor", t->vendor, "family", t->family, "part", t->part,
                     "wave_size", (json_int_t)t->wave_size, "vgprs", (json_int_t)t->vgprs,
                     "vgpr_granule", (json_int_t)t->vgpr_granule, "lds_bytes",
                     (json_int_t)t->lds_bytes, "cus", (json_int_t)t->cus, "clock_ghz", t->clock_ghz,
                     "bandwidth_gbs", t->bandwidth_gbs, "verified", t->verified, "verified_by",
                     t->verified_by, "features", t->features);
}

static void add_row(struct table *table, const struct quern_target_info *t)
{
    table_cell(table, "%s", t->name);
    table_cell(table, "%s", t->vendor);
    table_cell(table, "%s", t->family);
    table_cell(table, "%s", t->verified_by);
    table_cell(table, "%u", t->wave_size);
    table_cell(table, "%u/%u", t->vgprs, t->vgpr_granule);
    table_cell(table, "%u", t->lds_bytes / 1024);
    table_cell(table, "%s", t->part);
    table_cell(table, "%u", t->cus);
    table_cell(table, "%.2f", t->clock_ghz);
    table_cell(table, "%.0f", t->bandwidth_gbs);
    table_cell(table, "%s", t->features);
}

static int list(const struct common *common)
{
    const size_t count =
        common->argument_count ? (size_t)common->argument_count : quern_target_count();
    struct table table = {0};
    json_t *array = json_array();
    int status = EXIT_OK;

    table_header(
        &table,
        "<target|<vendor|<family|<verified by|wave|VGPRs|LDS KiB|<part|CUs|GHz|GB/s|<features");
    for (size_t i = 0; !status && i < count; i++) {
        struct quern_target_info info;
        if ((status = row(common, i, &info)))
            break;
        add_row(&table, &info);
        json_array_append_new(array, target_json(&info));
    }
    if (!status && common->json)
        status = json_print(json_incref(array));
    else if (!status)
        status = table_print(&table, 0) ? finish_output() : fail("out of memory");
    json_decref(array);
    table_free(&table);
    return status;
}

int verb_targets(int argc, char **argv)
{
    static const struct usage usage = {
        "[TARGET]...",
        "Lists the targets, or those named. 'verified by' says what runs kernels without a\n"
        "GPU: sim, the software GPU, cpu, which runs their texts, or none; VGPRs are per SIMD\n"
        "and lane, behind the slash what they are given in.\n"};
    static const struct flag none[] = {{0}};
    struct common common;

    const int status = options_parse(&common, argc, argv, &usage, none);
    return status < 0 ? list(&common) : status;
}
