/* SPDX-License-Identifier: MIT */
/* Sums counts of the software GPU and shows them as JSON (counts.h). */
#include "measure/counts.h"
#include "files/json_file.h"

json_t *counts_json(const struct quern_sim_counts *c)
{
    json_t *classes = json_object();

    for (int i = 0; i < QUERN_CLASS_COUNT; i++)
        json_object_set_new(classes, quern_sim_class_name((enum quern_sim_class)i),
                            json_integer((json_int_t)c->classes[i]));
    return json_make("{s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "wave_size",
                     (json_int_t)c->wave_size, "instructions", (json_int_t)c->instructions,
                     "classes", classes, "lds_accesses", (json_int_t)c->lds_accesses, "lds_passes",
                     (json_int_t)c->lds_passes, "lines128", (json_int_t)c->lines128, "bytes_read",
                     (json_int_t)c->bytes_read, "bytes_written", (json_int_t)c->bytes_written,
                     "waves", (json_int_t)c->waves, "workgroups", (json_int_t)c->workgroups);
}

void counts_add(struct quern_sim_counts *sum, const struct quern_sim_counts *more)
{
    sum->wave_size = more->wave_size;
    sum->instructions += more->instructions;
    for (int i = 0; i < QUERN_CLASS_COUNT; i++)
        sum->classes[i] += more->classes[i];
    sum->lds_accesses += more->lds_accesses;
    sum->lds_passes += more->lds_passes;
    sum->lines128 += more->lines128;
    sum->bytes_read += more->bytes_read;
    sum->bytes_written += more->bytes_written;
    sum->waves += more->waves;
    sum->workgroups += more->workgroups;
}

uint64_t counts_issue_slots(const struct quern_sim_counts *counts)
{
    return counts->instructions - counts->classes[QUERN_CLASS_WAIT];
}

double counts_per(const struct quern_sim_counts *counts, uint64_t wave_instructions, double count)
{
    return count > 0 ? (double)wave_instructions * counts->wave_size / count : 0;
}
