/* SPDX-License-Identifier: MIT */
/* What the software GPU counted: sums, and the members of counts JSON. */
#ifndef TOOLS_COUNTS_H
#define TOOLS_COUNTS_H

#include <quern/sim.h>

#include <jansson.h>

/* The members of counts JSON for one launch, or for a sum of launches. Null when out of memory. */
json_t *counts_json(const struct quern_sim_counts *counts);

/* Adds `more` to `sum`; the wave size is that of `more`. */
void counts_add(struct quern_sim_counts *sum, const struct quern_sim_counts *more);

/* Instructions without waits: those that take an issue slot. */
uint64_t counts_issue_slots(const struct quern_sim_counts *counts);

/* Issue slots for each of `count` things (weights, outputs): wave instructions times lanes, divided
 * by the count. 0 if `count` is. */
double counts_per(const struct quern_sim_counts *counts, uint64_t wave_instructions, double count);

#endif
