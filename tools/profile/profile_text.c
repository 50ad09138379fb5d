/* SPDX-License-Identifier: MIT */
/* The tables that quern profile prints on a terminal (profile_report.h). */
#include "profile/profile_report.h"
#include "command/table.h"
#include "measure/counts.h"

#include <stdio.h>

uint64_t profile_slots(const struct quern_sim_profile *p)
{
    return counts_issue_slots(&p->counts);
}

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 1;
}

static void class_row(struct table *t, const struct profile_report *r,
                      const struct quern_sim_profile *p, const char *name, uint64_t count)
{
    table_cell(t, "%s", name);
    table_cell(t, "%llu", (unsigned long long)count);
    if (r->weights > 0) {
        table_cell(t, "%.3f", counts_per(&p->counts, count, r->weights));
        table_cell(t, "%.2f", counts_per(&p->counts, count, r->outputs));
    }
    table_cell(t, "%.1f", (double)count / (double)p->counts.waves);
}

static bool print_classes(const struct profile_report *r, const struct quern_sim_profile *p)
{
    struct table t = {0};

    table_header(&t, r->weights > 0 ? "<class|wave instructions|per weight|per output|per wave"
                                    : "<class|wave instructions|per wave");
    for (int c = 0; c < QUERN_CLASS_COUNT; c++)
        if (c != QUERN_CLASS_WAIT && p->counts.classes[c])
            class_row(&t, r, p, quern_sim_class_name((enum quern_sim_class)c),
                      p->counts.classes[c]);
    class_row(&t, r, p, "issue slots", profile_slots(p));
    class_row(&t, r, p, "waits (no slot)", p->counts.classes[QUERN_CLASS_WAIT]);
    const bool ok = table_print(&t, 2);
    table_free(&t);
    return ok;
}

static bool print_buffers(const struct quern_sim_profile *p)
{
    const double groups = (double)p->counts.workgroups;
    struct table t = {0};

    table_header(&t, "<buffer|size B|lanes read B|lanes wrote B|of L2 per workgroup B|by wave B|"
                     "by workgroup B|lines / fewest");
    for (size_t i = 0; i < p->buffer_count; i++) {
        const struct quern_sim_traffic *b = &p->buffers[i];
        table_cell(&t, "%s", b->name);
        table_cell(&t, "%llu", (unsigned long long)b->size);
        table_cell(&t, "%llu", (unsigned long long)b->bytes_read);
        table_cell(&t, "%llu", (unsigned long long)b->bytes_written);
        table_cell(&t, "%.0f", (double)(b->l2_read + b->l2_written) / groups);
        table_cell(&t, "%llu", (unsigned long long)b->by_wave * 128);
        table_cell(&t, "%llu", (unsigned long long)b->by_workgroup * 128);
        if (b->lines128)
            table_cell(&t, "%.2f", ratio(b->lines128, b->lines128_least));
        else
            table_cell(&t, "scalar");
    }
    const bool ok = table_print(&t, 2);
    table_free(&t);
    return ok;
}

static bool print_ports(const struct quern_sim_model *m)
{
    const double all = m->total_us * m->clock_ghz * 1e3;
    struct table t = {0};

    table_header(&t, "<port (model)|busy cycles|of the time %");
    for (int i = 0; i < QUERN_PORT_COUNT; i++) {
        if (m->port_cycles[i] <= 0)
            continue;
        table_cell(&t, "%s", quern_sim_port_name((enum quern_sim_port)i));
        table_cell(&t, "%.0f", m->port_cycles[i]);
        table_cell(&t, "%.0f", all > 0 ? 100 * m->port_cycles[i] / all : 0);
    }
    const bool ok = table_print(&t, 2);
    table_free(&t);
    return ok;
}

static void print_grid(const struct launch_profile *l)
{
    const struct quern_sim_profile *p = &l->profile;
    const struct quern_sim_model *m = &l->model;
    const unsigned long long groups = p->counts.workgroups;

    printf("\n%s\n", shown_line(l->launch->kernel));
    printf("  grid       %ux%ux%u, %llu workgroup%s of %u wave%s of %u\n", l->launch->grid[0],
           l->launch->grid[1], l->launch->grid[2], groups, groups == 1 ? "" : "s",
           p->resources.waves_per_workgroup, p->resources.waves_per_workgroup == 1 ? "" : "s",
           p->counts.wave_size);
    printf("  resources  %u VGPR, %u AGPR, %u SGPR, %u B of LDS, %u B of scratch; %u waves per "
           "SIMD and %u workgroup%s per CU fit\n",
           p->resources.vgprs, p->resources.agprs, p->resources.sgprs, p->resources.lds_bytes,
           p->resources.scratch_bytes, p->resources.waves_per_simd, p->resources.workgroups_per_cu,
           p->resources.workgroups_per_cu == 1 ? "" : "s");
    printf("  part       %u of %u CUs busy; the fullest has %llu workgroup%s in %llu round%s, "
           "filled to %u %%; %u waves per SIMD at once\n",
           m->cus_busy, m->cus, (unsigned long long)m->fullest, m->fullest == 1 ? "" : "s",
           (unsigned long long)m->rounds, m->rounds == 1 ? "" : "s", m->fill_percent,
           m->waves_per_simd);
    if (p->by_kinds)
        printf("  counted    %u kind%s of workgroup by position, one of each run and scaled; %llu "
               "run in all, %llu of them as a check\n",
               p->kind_count, p->kind_count == 1 ? "" : "s", (unsigned long long)p->simulated,
               (unsigned long long)p->checked);
    else
        printf("  counted    every workgroup\n");
}

static void print_times(const struct launch_profile *l)
{
    const struct quern_sim_profile *p = &l->profile;
    const struct quern_sim_model *m = &l->model;

    printf("  LDS        %llu passes, %.3f times the fewest possible\n",
           (unsigned long long)p->counts.lds_passes, ratio(p->counts.lds_passes, p->lds_least));
    printf("  lines      %llu of 128 bytes, %.3f times the fewest possible\n",
           (unsigned long long)p->counts.lines128, ratio(p->counts.lines128, p->lines128_least));
    printf("  in flight  %.0f B per CU at most, of %.0f B that %.0f GB/s take (model)\n",
           m->in_flight, m->in_flight_needed, m->bandwidth_gbs);
    printf("  prologue   %.0f cycles before the first loads (model)\n", m->prologue_cycles);
    printf("  model      issue %.2f us, LDS %.2f us, matrix %.2f us, ", m->issue_us, m->lds_us,
           m->matrix_us);
    if (m->vmem_us > 0)
        printf("vmem %.2f us, ", m->vmem_us);
    printf("memory %.2f us (%.2f at the peak), prologue %.2f us: %.2f us, bound by %s, %.0f %% of "
           "the %s roofline\n",
           m->sustained_us, m->memory_us, m->prologue_us, m->total_us,
           quern_sim_bound_name(m->bound), m->roof_percent, quern_sim_bound_name(m->roof));
    printf("  alone      %.2f us more for loads that wait for one another, where no other launch "
           "runs meanwhile (model)\n",
           m->chain_us);
    if (p->matrix_waves)
        printf("  matrix     units at work %.1f %% of %.2f us: first loads %.2f us, "
               "barriers %.2f us, ends %.2f us on top (model)\n",
               m->matrix_percent, m->product_us, m->start_us, m->barrier_us, m->edge_us);
}

/* The line that goes first, of all launches; what bounds them is that of the longest. */
static void print_verdict(const struct profile_report *r)
{
    const struct quern_sim_model *longest = NULL;

    for (size_t i = 0; i < r->count; i++)
        if (!longest || r->launches[i].model.total_us > longest->total_us)
            longest = &r->launches[i].model;
    if (longest)
        printf("%.2f us expected on the %s (a model), bound by %s; %zu launch%s\n", r->total_us,
               r->target.part, quern_sim_bound_name(longest->bound), r->count,
               r->count == 1 ? "" : "es");
}

int profile_print(const struct profile_report *r)
{
    bool ok = true;

    print_verdict(r);
    if (r->problem)
        printf("%s\nM = %lld, ", r->problem, (long long)r->m);
    printf("%s (%s), as %s: %u CUs, %.2f GHz, %.0f GB/s\n%s\n", r->target.name, r->target.family,
           r->target.part, r->target.cus, r->target.clock_ghz, r->target.bandwidth_gbs,
           PROFILE_MODEL);
    for (size_t i = 0; i < r->count && ok; i++) {
        const struct launch_profile *l = &r->launches[i];
        print_grid(l);
        printf("\n");
        ok = print_classes(r, &l->profile);
        printf("\n");
        ok = ok && print_buffers(&l->profile);
        printf("\n");
        ok = ok && print_ports(&l->model);
        printf("\n");
        print_times(l);
    }
    if (r->count > 1)
        printf("\n%zu launches: %.2f us (model)\n", r->count, r->total_us);
    return ok ? finish_output() : fail("out of memory");
}
