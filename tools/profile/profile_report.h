/* SPDX-License-Identifier: MIT */
/* What quern profile found out, and the forms in which it shows it. */
#ifndef TOOLS_PROFILE_REPORT_H
#define TOOLS_PROFILE_REPORT_H

#include "measure/simulation.h"

#include <stdio.h>

/* What is said wherever times or shares are shown. */
#define PROFILE_MODEL                                                                              \
    "Counts are exact for the operands given; cycles, times and shares are a model of the part's " \
    "published figures. Nothing here was timed on a GPU."

struct launch_profile {
    const struct plan_launch *launch;
    struct quern_sim_profile profile;
    struct quern_sim_model model;
};

struct profile_report {
    struct quern_target_info target;
    const char *problem; /* canonical text; null for a plan that does not say */
    int64_t m;
    double weights, outputs; /* N·K and M·N; 0: not known */
    size_t count;
    struct launch_profile *launches;
    double total_us; /* of all launches, one after the other */
};

/* Issue slots: all instructions but waits. */
uint64_t profile_slots(const struct quern_sim_profile *p);

/* Print on stdout; they return an exit status. */
int profile_print(const struct profile_report *r);
int profile_print_json(const struct profile_report *r);
/* The HTML page, which needs no other file; malloc'ed, null when out of memory. */
char *profile_html(const struct profile_report *r, size_t *size);
/* Writes a launch's roofline as an SVG picture. `index` makes its ids differ from other launches'.
 */
void profile_roofline(FILE *f, const struct launch_profile *l, size_t index);

#endif
