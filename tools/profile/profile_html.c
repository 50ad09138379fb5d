/* SPDX-License-Identifier: MIT */
/*
 * The page of quern profile --html: one file, no script, no network; light and dark. Its text is
 * profile_page.html and its look profile_page.css, which are embedded when quern is built; what is
 * here puts figures in.
 */
#include "measure/counts.h"
#include "profile/profile_report.h"

#include <profile_page.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Writes text of anywhere, a kernel's name for one: as characters, of which none controls. */
static void escaped(FILE *f, const char *raw)
{
    static const char special[] = "&<>\"\t";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", " "};
    char shown[6 * 1024];
    const char *text = shown;

    quern_text_shown(QUERN_SHOWN_LINES, raw, strlen(raw), shown, sizeof shown);
    while (*text) {
        const size_t plain = strcspn(text, special);
        fwrite(text, 1, plain, f);
        text += plain;
        if (*text)
            fputs(entities[strchr(special, *text++) - special], f);
    }
}

/* Writes a part of profile_page.html, by its name there, with a string in place of each of its
 * pairs of braces. */
static void part(FILE *f, const char *name, ...)
{
    static const char mark[] = "<!-- part ";
    const char *at = profile_page_html;
    const size_t length = strlen(name);
    va_list ap;

    do
        at = strstr(at, mark) + sizeof mark - 1;
    while (strncmp(at, name, length) || strncmp(at + length, " -->\n", 5));
    at += length + 5;
    const char *next = strstr(at, mark);
    const char *const end = next ? next : at + strlen(at);
    va_start(ap, name);
    for (const char *brace; (brace = strstr(at, "{}")) && brace < end; at = brace + 2) {
        fwrite(at, 1, (size_t)(brace - at), f);
        escaped(f, va_arg(ap, const char *));
    }
    va_end(ap);
    fwrite(at, 1, (size_t)(end - at), f);
}

/* A figure as text; a value, so that the text lasts as long as the expression that makes it. */
struct shown {
    char text[160];
};
#define SHOW(...) (show(__VA_ARGS__).text)

__attribute__((format(printf, 1, 2))) static struct shown show(const char *format, ...)
{
    struct shown s;
    va_list ap;

    va_start(ap, format);
    vsnprintf(s.text, sizeof s.text, format, ap);
    va_end(ap);
    return s;
}

#define GROUPED(value) (grouped((uint64_t)(value)).text)

/* 1234567 → 1 234 567, with narrow spaces that do not break. */
static struct shown grouped(uint64_t value)
{
    const struct shown digits = show("%" PRIu64, value);
    const size_t length = strlen(digits.text);
    struct shown s;
    char *to = s.text;

    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            to = stpcpy(to, "\u202f");
        *to++ = digits.text[i];
    }
    *to = 0;
    return s;
}

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 1;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- Summary --------------------------------------------------------------------------------- */

static void tiles(FILE *f, const struct profile_report *r, const struct launch_profile *l)
{
    const struct quern_sim_profile *p = &l->profile;
    const struct quern_sim_model *m = &l->model;
    const uint64_t waits = p->counts.classes[QUERN_CLASS_WAIT], slots = profile_slots(p);
    const bool problem = r->weights > 0;

    part(f, "tile", "Time (model)", SHOW("%.*f", m->total_us < 10 ? 2 : 1, m->total_us), "µs",
         SHOW("bound by %s", quern_sim_bound_name(m->bound)));
    part(f, "tile", "Share (model)", SHOW("%.0f", m->roof_percent), "%",
         SHOW("of the %s roofline", quern_sim_bound_name(m->roof)));
    part(f, "tile", "Issue slots (counted)",
         problem ? SHOW("%.2f", counts_per(&p->counts, slots, r->weights))
                 : SHOW("%.1f", (double)slots / (double)p->counts.waves),
         problem ? "per weight" : "per wave",
         problem ? SHOW("waits, apart: %.2f", counts_per(&p->counts, waits, r->weights))
                 : SHOW("waits, apart: %" PRIu64, waits));
    part(f, "tile", "Grid fills the part to", SHOW("%u", m->fill_percent), "%",
         SHOW("%" PRIu64 " workgroup%s, %u of %u CUs, %" PRIu64 " round%s", p->counts.workgroups,
              plural(p->counts.workgroups), m->cus_busy, m->cus, m->rounds, plural(m->rounds)));
    part(f, "tile", "Waves per SIMD", SHOW("%u", m->waves_per_simd), "at once",
         SHOW("%u VGPR, %u SGPR, %u B LDS", p->resources.vgprs + p->resources.agprs,
              p->resources.sgprs, p->resources.lds_bytes));
}

/* ---- Times and ports ------------------------------------------------------------------------- */

static void bar(FILE *f, const char *name, const char *figure, double share)
{
    part(f, "bar", name, figure, SHOW("%.1f", share > 100 ? 100 : share));
}

static void times(FILE *f, const struct quern_sim_model *m)
{
    const struct {
        const char *name;
        double us;
    } rows[] = {{"Issue", m->issue_us}, {"LDS", m->lds_us},          {"Matrix", m->matrix_us},
                {"Vmem", m->vmem_us},   {"Memory", m->sustained_us}, {"Prologue", m->prologue_us}};
    const double all = m->total_us > 0 ? m->total_us : 1;

    part(f, "times");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].us > 0 || strcmp(rows[i].name, "Vmem") != 0)
            bar(f, rows[i].name, SHOW("%.2f µs", rows[i].us), 100 * rows[i].us / all);
    part(f, "ports");
    for (int i = 0; i < QUERN_PORT_COUNT; i++)
        if (m->port_cycles[i] > 0)
            bar(f, quern_sim_port_name((enum quern_sim_port)i), GROUPED(m->port_cycles[i] + 0.5),
                100 * m->port_cycles[i] / (all * m->clock_ghz * 1e3));
}

static void loads(FILE *f, const struct launch_profile *l)
{
    const struct quern_sim_profile *p = &l->profile;
    const struct quern_sim_model *m = &l->model;

    part(f, "loads", SHOW("%.3f", ratio(p->counts.lds_passes, p->lds_least)),
         SHOW("%.3f", ratio(p->counts.lines128, p->lines128_least)), GROUPED(m->in_flight + 0.5),
         GROUPED(m->in_flight_needed + 0.5), GROUPED(m->prologue_cycles + 0.5),
         GROUPED(m->memory_bytes + 0.5), SHOW("%u", p->resources.vgprs),
         SHOW("%u", p->resources.agprs), SHOW("%u", p->resources.sgprs),
         GROUPED(p->resources.lds_bytes), GROUPED(p->resources.scratch_bytes));
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static void class_row(FILE *f, const struct profile_report *r, const struct quern_sim_profile *p,
                      const char *kind, const char *name, uint64_t count)
{
    part(f, r->weights > 0 ? "class of a problem" : "class of a plan", kind, name, GROUPED(count),
         SHOW("%.3f", counts_per(&p->counts, count, r->weights)),
         SHOW("%.2f", counts_per(&p->counts, count, r->outputs)));
}

static void classes(FILE *f, const struct profile_report *r, const struct quern_sim_profile *p)
{
    part(f, "classes");
    part(f, r->weights > 0 ? "classes of a problem" : "classes of a plan");
    for (int c = 0; c < QUERN_CLASS_COUNT; c++)
        if (c != QUERN_CLASS_WAIT && p->counts.classes[c])
            class_row(f, r, p, "", quern_sim_class_name((enum quern_sim_class)c),
                      p->counts.classes[c]);
    class_row(f, r, p, "sum", "issue slots", profile_slots(p));
    class_row(f, r, p, "soft", "waits, no slot", p->counts.classes[QUERN_CLASS_WAIT]);
}

static void buffers(FILE *f, const struct quern_sim_profile *p)
{
    part(f, "buffers");
    for (size_t i = 0; i < p->buffer_count; i++) {
        const struct quern_sim_traffic *b = &p->buffers[i];
        const double l2 = (double)(b->l2_read + b->l2_written) / (double)p->counts.workgroups;
        part(f, "buffer", b->name, GROUPED(b->size), GROUPED(b->bytes_read),
             GROUPED(b->bytes_written), GROUPED(l2 + 0.5), GROUPED(b->by_wave * 128),
             GROUPED(b->by_workgroup * 128),
             b->lines128 ? SHOW("%.2f", ratio(b->lines128, b->lines128_least)) : "scalar");
    }
}

/* ---- Heat map -------------------------------------------------------------------------------- */

static void flag(FILE *f, const char *what, double times_least)
{
    if (times_least > 1.0005)
        part(f, "flag", what, SHOW("%.2f", times_least));
}

static void heat_map(FILE *f, const struct quern_sim_profile *p)
{
    uint64_t most = 1, before = UINT64_MAX;

    for (size_t n = 0; n < p->insn_count; n++)
        if (p->insns[n].executed > most)
            most = p->insns[n].executed;
    part(f, "heat map");
    for (size_t n = 0; n < p->insn_count; n++) {
        const struct quern_sim_insn *i = &p->insns[n];
        /* the square root, so that what runs once is still seen beside a loop */
        const double heat = 100 * sqrt((double)i->executed / (double)most);
        part(f, "instruction",
             SHOW("%s %s", i->executed != before && n ? "edge" : "", i->executed ? "" : "never"),
             SHOW("%" PRIx64, i->offset), SHOW("%.0f", heat), GROUPED(i->executed),
             SHOW("%.3g", (double)i->executed / (double)p->counts.waves),
             i->counted_as < QUERN_CLASS_COUNT
                 ? quern_sim_class_name((enum quern_sim_class)i->counted_as)
                 : "?",
             i->text[0] ? i->text : "(no instruction)");
        flag(f, "LDS", ratio(i->lds_passes, i->lds_least));
        flag(f, "lines", ratio(i->lines128, i->lines128_least));
        part(f, "end of an instruction", i->buffer, i->cycles ? SHOW("%u cycles", i->cycles) : "");
        before = i->executed;
    }
}

/* ---- The page -------------------------------------------------------------------------------- */

static void launch(FILE *f, const struct profile_report *r, size_t index)
{
    const struct launch_profile *l = &r->launches[index];
    const struct quern_sim_profile *p = &l->profile;

    part(f, "launch", l->launch->kernel, SHOW("%u", l->launch->grid[0]),
         SHOW("%u", l->launch->grid[1]), SHOW("%u", l->launch->grid[2]),
         SHOW("%u", p->resources.waves_per_workgroup), SHOW("%u", p->counts.wave_size),
         SHOW("%u", p->resources.waves_per_simd), SHOW("%u", p->resources.workgroups_per_cu),
         plural(p->resources.workgroups_per_cu),
         p->by_kinds ? SHOW("counts scaled from one workgroup of each of %u kinds, found by "
                            "position (%" PRIu64 " checked)",
                            p->kind_count, p->checked)
                     : "every workgroup was run");
    tiles(f, r, l);
    part(f, "roofline");
    profile_roofline(f, l, index);
    times(f, &l->model);
    classes(f, r, p);
    loads(f, l);
    buffers(f, p);
    heat_map(f, p);
    part(f, "end of a launch");
}

static void page(FILE *f, const struct profile_report *r)
{
    part(f, "head", r->count ? r->launches[0].launch->kernel : "");
    fputs(profile_page_css, f);
    part(f, "title", r->target.name, r->target.part);
    if (r->problem)
        part(f, "problem", r->problem, SHOW("%" PRId64, r->m));
    part(f, "model", r->target.family, SHOW("%u", r->target.cus), SHOW("%.2f", r->target.clock_ghz),
         SHOW("%.0f", r->target.bandwidth_gbs), PROFILE_MODEL);
    if (r->count > 1)
        part(f, "sum", SHOW("%zu", r->count), SHOW("%.2f", r->total_us));
    for (size_t i = 0; i < r->count; i++)
        launch(f, r, i);
    part(f, "foot", SHOW("%d", QUERN_VERSION_MAJOR), SHOW("%d", QUERN_VERSION_MINOR),
         SHOW("%d", QUERN_VERSION_PATCH));
}

char *profile_html(const struct profile_report *r, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);

    if (!f)
        return NULL;
    page(f, r);
    const bool bad = ferror(f);
    if (fclose(f) || bad) {
        free(text);
        return NULL;
    }
    return text;
}
