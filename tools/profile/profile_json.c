/* SPDX-License-Identifier: MIT */
/* The JSON of quern profile; docs/formats.md has its members. */
#include "measure/counts.h"
#include "files/json_file.h"
#include "profile/profile_report.h"

#include <stdio.h>
#include <stdlib.h>

/* Six digits are more than a model is worth, and keep output the same on every machine. */
static json_t *number(double x)
{
    char text[32];

    snprintf(text, sizeof text, "%.6g", x);
    return json_real(strtod(text, NULL));
}

static json_t *integer(uint64_t x)
{
    return json_integer((json_int_t)x);
}

static json_t *per_json(const struct quern_sim_profile *p, double count)
{
    json_t *json = json_object();

    for (int c = 0; c < QUERN_CLASS_COUNT; c++)
        json_object_set_new(json, quern_sim_class_name((enum quern_sim_class)c),
                            number(counts_per(&p->counts, p->counts.classes[c], count)));
    json_object_set_new(json, "issue_slots",
                        number(counts_per(&p->counts, profile_slots(p), count)));
    return json;
}

static json_t *buffers_json(const struct quern_sim_profile *p)
{
    const double groups = (double)p->counts.workgroups;
    json_t *array = json_array();

    for (size_t i = 0; i < p->buffer_count; i++) {
        const struct quern_sim_traffic *b = &p->buffers[i];
        json_array_append_new(
            array, json_make("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", b->name,
                             "size", integer(b->size), "bytes_read", integer(b->bytes_read),
                             "bytes_written", integer(b->bytes_written), "l2_read_per_workgroup",
                             number((double)b->l2_read / groups), "l2_written_per_workgroup",
                             number((double)b->l2_written / groups), "lines128",
                             integer(b->lines128), "lines128_least", integer(b->lines128_least),
                             "bytes_by_wave", integer(128 * b->by_wave), "bytes_by_workgroup",
                             integer(128 * b->by_workgroup)));
    }
    return array;
}

static json_t *insns_json(const struct quern_sim_profile *p)
{
    json_t *array = json_array();

    for (size_t n = 0; n < p->insn_count; n++) {
        const struct quern_sim_insn *i = &p->insns[n];
        const char *class = i->counted_as < QUERN_CLASS_COUNT
                                ? quern_sim_class_name((enum quern_sim_class)i->counted_as)
                                : "unknown";
        json_t *json = json_make("{s:o, s:s, s:s, s:o}", "offset", integer(i->offset), "text",
                                 i->text, "class", class, "executed", integer(i->executed));
        if (i->cycles)
            json_object_set_new(json, "cycles", json_integer(i->cycles));
        if (i->lds_passes) {
            json_object_set_new(json, "lds_passes", integer(i->lds_passes));
            json_object_set_new(json, "lds_least", integer(i->lds_least));
        }
        if (i->buffer[0]) {
            json_object_set_new(json, "buffer", json_words(i->buffer));
            json_object_set_new(json, "bytes_read", integer(i->bytes_read));
            json_object_set_new(json, "bytes_written", integer(i->bytes_written));
            json_object_set_new(json, "lines128", integer(i->lines128));
            json_object_set_new(json, "lines128_least", integer(i->lines128_least));
        }
        json_array_append_new(array, json);
    }
    return array;
}

static json_t *triple(const uint32_t v[3])
{
    return json_make("[I, I, I]", (json_int_t)v[0], (json_int_t)v[1], (json_int_t)v[2]);
}

static json_t *extent_json(const struct quern_sim_profile *p)
{
    json_t *kinds = json_array();

    for (unsigned i = 0; i < p->kind_count; i++)
        json_array_append_new(kinds,
                              json_make("{s:o, s:o, s:o}", "first", triple(p->kinds[i].first),
                                        "last", triple(p->kinds[i].last), "instructions",
                                        integer(p->kinds[i].instructions)));
    return json_make("{s:s, s:o, s:o, s:o}", "extent", p->by_kinds ? "kinds" : "all", "workgroups",
                     integer(p->simulated), "checked", integer(p->checked), "kinds", kinds);
}

static json_t *resources_json(const struct quern_sim_profile *p)
{
    return json_make("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "vgpr", (int)p->resources.vgprs,
                     "agpr", (int)p->resources.agprs, "sgpr", (int)p->resources.sgprs, "lds",
                     (int)p->resources.lds_bytes, "scratch", (int)p->resources.scratch_bytes,
                     "waves_per_workgroup", (int)p->resources.waves_per_workgroup, "waves_per_simd",
                     (int)p->resources.waves_per_simd, "workgroups_per_cu",
                     (int)p->resources.workgroups_per_cu);
}

static json_t *model_json(const struct quern_sim_model *m)
{
    json_t *ports = json_object();

    for (int i = 0; i < QUERN_PORT_COUNT; i++)
        json_object_set_new(ports, quern_sim_port_name((enum quern_sim_port)i),
                            number(m->port_cycles[i]));
    json_t *json =
        json_make("{s:i, s:i, s:o, s:o, s:i}", "cus_busy", (int)m->cus_busy, "fill_percent",
                  (int)m->fill_percent, "fullest", integer(m->fullest), "rounds",
                  integer(m->rounds), "waves_per_simd", (int)m->waves_per_simd);
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"memory_bytes", m->memory_bytes},
                   {"in_flight_per_cu", m->in_flight},
                   {"in_flight_needed", m->in_flight_needed},
                   {"prologue_cycles", m->prologue_cycles},
                   {"issue_us", m->issue_us},
                   {"lds_us", m->lds_us},
                   {"matrix_us", m->matrix_us},
                   {"memory_us", m->memory_us},
                   {"sustained_us", m->sustained_us},
                   {"vmem_us", m->vmem_us},
                   {"prologue_us", m->prologue_us},
                   {"total_us", m->total_us},
                   {"chain_us", m->chain_us},
                   {"roofline_percent", m->roof_percent},
                   {"start_us", m->start_us},
                   {"barrier_us", m->barrier_us},
                   {"edge_us", m->edge_us},
                   {"product_us", m->product_us},
                   {"matrix_percent", m->matrix_percent}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(json, numbers[i].name, number(numbers[i].value));
    json_object_set_new(json, "bound", json_words(quern_sim_bound_name(m->bound)));
    json_object_set_new(json, "roofline", json_words(quern_sim_bound_name(m->roof)));
    json_object_set_new(json, "port_cycles", ports);
    return json;
}

static json_t *launch_json(const struct profile_report *r, const struct launch_profile *l)
{
    const struct quern_sim_profile *p = &l->profile;
    json_t *counts = counts_json(&p->counts);

    json_object_set_new(counts, "lds_least", integer(p->lds_least));
    json_object_set_new(counts, "lds_exchanges", integer(p->lds_exchanges));
    json_object_set_new(counts, "lines128_least", integer(p->lines128_least));
    json_object_set_new(counts, "issue_slots", integer(profile_slots(p)));
    json_t *json =
        json_make("{s:s, s:o, s:o, s:o, s:o, s:o}", "kernel", l->launch->kernel, "grid",
                  triple(l->launch->grid), "block", triple(l->launch->block), "simulated",
                  extent_json(p), "resources", resources_json(p), "counts", counts);
    if (r->weights > 0) {
        json_object_set_new(json, "per_weight", per_json(p, r->weights));
        json_object_set_new(json, "per_output", per_json(p, r->outputs));
    }
    json_object_set_new(json, "buffers", buffers_json(p));
    json_object_set_new(json, "model", model_json(&l->model));
    json_object_set_new(json, "instructions", insns_json(p));
    return json;
}

int profile_print_json(const struct profile_report *r)
{
    json_t *launches = json_array();
    json_t *root = json_make("{s:i, s:s, s:s, s:s, s:i, s:o, s:o}", "quern_profile", 1, "note",
                             PROFILE_MODEL, "target", r->target.name, "part", r->target.part, "cus",
                             (int)r->target.cus, "clock_ghz", number(r->target.clock_ghz),
                             "bandwidth_gbs", number(r->target.bandwidth_gbs));

    if (r->problem) {
        json_object_set_new(root, "problem", json_words(r->problem));
        json_object_set_new(root, "m", json_integer(r->m));
    }
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(launches, launch_json(r, &r->launches[i]));
    json_object_set_new(root, "launches", launches);
    json_object_set_new(root, "total_us", number(r->total_us));
    return json_print(root);
}
