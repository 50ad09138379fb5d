/* SPDX-License-Identifier: MIT */
/* The page of quern profile --html: one file, no script, no network; light and dark. */
#include "measure/counts.h"
#include "profile/profile_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    ":root{color-scheme:light dark;--page:#fbfbfa;--card:#fff;--line:#e3e3df;--ink:#1d1f21;"
    "--soft:#5d6268;--accent:#a8431f;--fill:#f3e4dc;--heat:214 98 38;--warn:#8a5a00;"
    "--warn-back:#fff0cf;--bar:#c9683f;--bar-back:#efeeea}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#16181a;--card:#1e2124;--line:#34383d;"
    "--ink:#e7e8e8;--soft:#a3a9af;--accent:#f0986f;--fill:#3a2a22;--heat:214 98 38;--warn:#ffd588;"
    "--warn-back:#473612;--bar:#d97b51;--bar-back:#2c3035}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"
    "\"Segoe UI\",Roboto,\"Helvetica Neue\",\"DejaVu Sans\",Arial,sans-serif;"
    "font-variant-numeric:tabular-nums}\n"
    "main{max-width:1120px;margin:0 auto;padding:36px 24px 64px}\n"
    "code,.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\","
    "monospace}\n"
    "h1{font-size:25px;line-height:1.25;margin:0 0 4px;letter-spacing:-.01em;"
    "overflow-wrap:anywhere}\n"
    "h2{font-size:19px;margin:44px 0 2px;overflow-wrap:anywhere}\n"
    "h3{font-size:13px;font-weight:600;margin:0 0 10px;color:var(--soft)}\n"
    "p{margin:0}.sub{color:var(--soft)}.sub code{font-size:13px}\n"
    ".model{display:flex;gap:12px;align-items:baseline;margin:18px 0 0;padding:10px 14px;"
    "border:1px solid var(--line);border-left:4px solid var(--accent);border-radius:4px;"
    "background:var(--card)}\n"
    ".model b{color:var(--accent);letter-spacing:.04em}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(160px,1fr));gap:12px;"
    "margin:18px 0}\n"
    ".tile,.card{background:var(--card);border:1px solid var(--line);border-radius:6px}\n"
    ".tile{padding:12px 14px}.tile .name{font-size:13px;color:var(--soft)}\n"
    ".tile .figure{font-size:25px;line-height:1.3;font-weight:600;letter-spacing:-.01em}\n"
    ".tile .figure small{font-size:15px;font-weight:400;color:var(--soft)}\n"
    ".tile .more{font-size:13px;color:var(--soft)}\n"
    ".card{padding:16px 18px;margin:0 0 12px;min-width:0}\n"
    ".two{display:grid;grid-template-columns:minmax(0,1.75fr) minmax(0,1fr);gap:12px}\n"
    ".two>div{display:flex;flex-direction:column}.two .card{flex:auto}\n"
    ".even{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:12px}\n"
    "@media(max-width:820px){.two,.even{grid-template-columns:minmax(0,1fr)}}\n"
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--soft);font-size:12.5px;"
    "paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}\n"
    "svg .grid{stroke:var(--line);fill:none}svg .under{fill:var(--fill);opacity:.55}\n"
    "svg .roof{stroke:var(--ink);stroke-width:2;fill:none}\n"
    "svg .ceiling{stroke:var(--soft);stroke-dasharray:6 4;fill:none}\n"
    "svg .ridge{stroke:var(--soft);stroke-dasharray:2 3;fill:none}\n"
    "svg .drop{stroke:var(--accent);stroke-width:1.5;fill:none}\n"
    "svg .point{fill:var(--accent);stroke:var(--card);stroke-width:2}\n"
    "svg .value{fill:var(--accent);font-weight:600;font-size:13.5px}\n"
    ".scroll{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px}\n"
    "th{font-weight:500;color:var(--soft);font-size:13px;text-align:right;padding:0 0 6px 14px;"
    "border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:bottom}\n"
    "td{text-align:right;padding:3px 0 3px 14px;white-space:nowrap}\n"
    "th:first-child,td:first-child{text-align:left;padding-left:0}\n"
    "tr.sum td{border-top:1px solid var(--line);font-weight:600}tr.soft td{color:var(--soft)}\n"
    ".bar{display:block;height:8px;border-radius:2px;background:var(--bar-back);overflow:hidden;"
    "min-width:56px}.bar i{display:block;height:100%;background:var(--bar)}\n"
    "td.wide{width:40%}\n"
    ".asm td{padding:1px 0 1px 14px;font-size:13px}.asm .code{font-size:12.5px}\n"
    ".asm td:first-child,.asm th:first-child{padding-left:6px}\n"
    ".asm td.text{text-align:left;white-space:pre;width:100%}.asm th.text{text-align:left}\n"
    ".asm td.heat{background:rgb(var(--heat)/calc(var(--h)*.6%));padding-right:8px}\n"
    ".asm th:nth-child(2){padding-right:8px}\n"
    ".asm td.kind{color:var(--soft);text-align:left}.asm th.kind{text-align:left}\n"
    ".asm tr.edge td{border-top:1px solid var(--line)}\n"
    ".asm tr.never td{color:var(--soft)}.asm td.about{text-align:left;color:var(--soft);"
    "padding-right:6px}.asm th.about{text-align:left}\n"
    ".flag{color:var(--warn);background:var(--warn-back);border-radius:3px;padding:0 5px;"
    "margin-right:6px}\n"
    "footer{margin-top:28px;color:var(--soft);font-size:13px}\n"
    "@media print{.card,.tile{break-inside:avoid}.asm{break-inside:auto}}\n";

static void escaped(FILE *f, const char *text)
{
    for (const char *c = text; *c; c++)
        switch (*c) {
        case '&':
            fputs("&amp;", f);
            break;
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        case '\t':
            fputc(' ', f);
            break;
        default:
            fputc(*c, f);
        }
}

/* 1234567 → 1 234 567, with spaces that do not break. */
static void grouped(FILE *f, uint64_t value)
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            fputs("&#8239;", f);
        fputc(digits[i], f);
    }
}

static void cell(FILE *f, uint64_t value)
{
    fputs("<td>", f);
    grouped(f, value);
    fputs("</td>", f);
}

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 1;
}

/* ---- Summary --------------------------------------------------------------------------------- */

static void tile(FILE *f, const char *name, const char *figure, const char *unit, const char *more)
{
    fprintf(f,
            "<div class=\"tile\"><div class=\"name\">%s</div><div class=\"figure\">%s <small>%s"
            "</small></div><div class=\"more\">%s</div></div>\n",
            name, figure, unit, more);
}

static void tiles(FILE *f, const struct profile_report *r, const struct launch_profile *l)
{
    const struct quern_sim_profile *p = &l->profile;
    const struct quern_sim_model *m = &l->model;
    char figure[64], more[160];

    fputs("<div class=\"tiles\">\n", f);
    snprintf(figure, sizeof figure, "%.*f", m->total_us < 10 ? 2 : 1, m->total_us);
    snprintf(more, sizeof more, "bound by %s", quern_sim_bound_name(m->bound));
    tile(f, "Time (model)", figure, "µs", more);
    snprintf(figure, sizeof figure, "%.0f", m->roof_percent);
    snprintf(more, sizeof more, "of the %s roofline", quern_sim_bound_name(m->roof));
    tile(f, "Share (model)", figure, "%", more);
    snprintf(more, sizeof more, "waits, apart: %llu",
             (unsigned long long)p->counts.classes[QUERN_CLASS_WAIT]);
    if (r->weights > 0) {
        snprintf(figure, sizeof figure, "%.2f",
                 counts_per(&p->counts, profile_slots(p), r->weights));
        snprintf(more, sizeof more, "waits, apart: %.2f",
                 counts_per(&p->counts, p->counts.classes[QUERN_CLASS_WAIT], r->weights));
        tile(f, "Issue slots (counted)", figure, "per weight", more);
    } else {
        snprintf(figure, sizeof figure, "%.1f", (double)profile_slots(p) / (double)p->counts.waves);
        tile(f, "Issue slots (counted)", figure, "per wave", more);
    }
    snprintf(figure, sizeof figure, "%u", m->fill_percent);
    snprintf(more, sizeof more, "%llu workgroup%s, %u of %u CUs, %llu round%s",
             (unsigned long long)p->counts.workgroups, p->counts.workgroups == 1 ? "" : "s",
             m->cus_busy, m->cus, (unsigned long long)m->rounds, m->rounds == 1 ? "" : "s");
    tile(f, "Grid fills the part to", figure, "%", more);
    snprintf(figure, sizeof figure, "%u", m->waves_per_simd);
    snprintf(more, sizeof more, "%u VGPR, %u SGPR, %u B LDS",
             p->resources.vgprs + p->resources.agprs, p->resources.sgprs, p->resources.lds_bytes);
    tile(f, "Waves per SIMD", figure, "at once", more);
    fputs("</div>\n", f);
}

/* ---- Times and ports ------------------------------------------------------------------------- */

static void bar(FILE *f, double share)
{
    fprintf(f,
            "<td class=\"wide\"><span class=\"bar\"><i style=\"width:%.1f%%\"></i></span></td>"
            "</tr>\n",
            share > 100 ? 100 : share);
}

static void times(FILE *f, const struct quern_sim_model *m)
{
    const struct {
        const char *name;
        double us;
    } rows[] = {{"Issue", m->issue_us},
                {"LDS", m->lds_us},
                {"Matrix", m->matrix_us},
                {"Memory", m->memory_us},
                {"Prologue", m->prologue_us}};
    const double all = m->total_us > 0 ? m->total_us : 1;

    fputs("<div class=\"card\"><h3>Time in the fullest compute unit (model)</h3><table>\n", f);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fprintf(f, "<tr><td>%s</td><td>%.2f µs</td>", rows[i].name, rows[i].us);
        bar(f, 100 * rows[i].us / all);
    }
    fputs("</table></div>\n<div class=\"card\"><h3>Busy cycles of each port (model)</h3><table>\n",
          f);
    for (int i = 0; i < QUERN_PORT_COUNT; i++) {
        if (m->port_cycles[i] <= 0)
            continue;
        fprintf(f, "<tr><td>%s</td>", quern_sim_port_name((enum quern_sim_port)i));
        cell(f, (uint64_t)(m->port_cycles[i] + 0.5));
        bar(f, 100 * m->port_cycles[i] / (all * m->clock_ghz * 1e3));
    }
    fputs("</table></div>\n", f);
}

static void loads(FILE *f, const struct launch_profile *l)
{
    const struct quern_sim_profile *p = &l->profile;
    const struct quern_sim_model *m = &l->model;

    fputs("<div class=\"card\"><h3>Memory and resources</h3><table>\n", f);
    fprintf(f, "<tr><td>LDS passes ÷ fewest possible</td><td>%.3f</td></tr>\n",
            ratio(p->counts.lds_passes, p->lds_least));
    fprintf(f, "<tr><td>128-byte lines ÷ fewest possible</td><td>%.3f</td></tr>\n",
            ratio(p->counts.lines128, p->lines128_least));
    fputs("<tr><td>Bytes in flight per CU (model)</td>", f);
    cell(f, (uint64_t)(m->in_flight + 0.5));
    fputs("</tr>\n<tr><td>… that full bandwidth takes (model)</td>", f);
    cell(f, (uint64_t)(m->in_flight_needed + 0.5));
    fputs("</tr>\n<tr><td>Cycles before the first loads (model)</td>", f);
    cell(f, (uint64_t)(m->prologue_cycles + 0.5));
    fputs("</tr>\n<tr><td>Bytes to move, each once (model)</td>", f);
    cell(f, (uint64_t)(m->memory_bytes + 0.5));
    fprintf(f, "</tr>\n<tr><td>VGPR, AGPR, SGPR</td><td>%u, %u, %u</td></tr>\n", p->resources.vgprs,
            p->resources.agprs, p->resources.sgprs);
    fputs("<tr><td>Bytes of LDS</td>", f);
    cell(f, p->resources.lds_bytes);
    fputs("</tr>\n<tr><td>Bytes of scratch of a work-item</td>", f);
    cell(f, p->resources.scratch_bytes);
    fputs("</tr>\n</table></div>\n", f);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static void class_row(FILE *f, const struct profile_report *r, const struct quern_sim_profile *p,
                      const char *kind, const char *name, uint64_t count)
{
    fprintf(f, "<tr%s><td>%s</td>", kind, name);
    cell(f, count);
    if (r->weights > 0)
        fprintf(f, "<td>%.3f</td><td>%.2f</td>", counts_per(&p->counts, count, r->weights),
                counts_per(&p->counts, count, r->outputs));
    fputs("</tr>\n", f);
}

static void classes(FILE *f, const struct profile_report *r, const struct quern_sim_profile *p)
{
    fprintf(f,
            "<div class=\"card\"><h3>Wave instructions (counted)</h3><div class=\"scroll\"><table>"
            "<tr><th>class</th><th>count</th>%s</tr>\n",
            r->weights > 0 ? "<th>per weight</th><th>per output</th>" : "");
    for (int c = 0; c < QUERN_CLASS_COUNT; c++)
        if (c != QUERN_CLASS_WAIT && p->counts.classes[c])
            class_row(f, r, p, "", quern_sim_class_name((enum quern_sim_class)c),
                      p->counts.classes[c]);
    class_row(f, r, p, " class=\"sum\"", "issue slots", profile_slots(p));
    class_row(f, r, p, " class=\"soft\"", "waits, no slot", p->counts.classes[QUERN_CLASS_WAIT]);
    fputs("</table></div></div>\n", f);
}

static void buffers(FILE *f, const struct quern_sim_profile *p)
{
    fputs("<div class=\"card\"><h3>Bytes by buffer (counted)</h3><div class=\"scroll\"><table><tr>"
          "<th>buffer</th><th>size</th><th>lanes read</th><th>lanes wrote</th><th>of L2 per "
          "workgroup</th><th>by wave</th><th>by workgroup</th><th>lines ÷ fewest</th></tr>\n",
          f);
    for (size_t i = 0; i < p->buffer_count; i++) {
        const struct quern_sim_traffic *b = &p->buffers[i];
        fputs("<tr><td>", f);
        escaped(f, b->name);
        fputs("</td>", f);
        cell(f, b->size);
        cell(f, b->bytes_read);
        cell(f, b->bytes_written);
        cell(f,
             (uint64_t)((double)(b->l2_read + b->l2_written) / (double)p->counts.workgroups + 0.5));
        cell(f, b->by_wave * 128);
        cell(f, b->by_workgroup * 128);
        if (b->lines128)
            fprintf(f, "<td>%.2f</td></tr>\n", ratio(b->lines128, b->lines128_least));
        else
            fputs("<td>scalar</td></tr>\n", f);
    }
    fputs("</table></div></div>\n", f);
}

/* ---- Heat map -------------------------------------------------------------------------------- */

static void about(FILE *f, const struct quern_sim_insn *i)
{
    const double lds = ratio(i->lds_passes, i->lds_least);
    const double lines = ratio(i->lines128, i->lines128_least);

    fputs("<td class=\"about\">", f);
    if (lds > 1.0005)
        fprintf(f, "<span class=\"flag\">LDS × %.2f</span>", lds);
    if (lines > 1.0005)
        fprintf(f, "<span class=\"flag\">lines × %.2f</span>", lines);
    if (i->buffer[0])
        escaped(f, i->buffer);
    if (i->cycles)
        fprintf(f, "%u cycles", i->cycles);
    fputs("</td>", f);
}

static void heat_map(FILE *f, const struct quern_sim_profile *p)
{
    uint64_t most = 1, before = UINT64_MAX;

    for (size_t n = 0; n < p->insn_count; n++)
        if (p->insns[n].executed > most)
            most = p->insns[n].executed;
    fputs("<div class=\"card\"><h3>Executions of each instruction (counted)</h3>"
          "<div class=\"scroll\"><table class=\"asm\"><thead><tr><th>offset</th><th>executed</th>"
          "<th>per wave</th><th class=\"kind\">class</th><th class=\"text\">instruction</th>"
          "<th class=\"about\">touches</th></tr></thead><tbody>\n",
          f);
    for (size_t n = 0; n < p->insn_count; n++) {
        const struct quern_sim_insn *i = &p->insns[n];
        const char *const edge = i->executed != before && n ? "edge" : "";
        const char *const never = i->executed ? "" : "never";
        /* the square root, so that what runs once is still seen beside a loop */
        const double heat = 100 * sqrt((double)i->executed / (double)most);
        fprintf(f, "<tr class=\"%s%s%s\"><td class=\"code\">%llx</td>", edge,
                *edge && *never ? " " : "", never, (unsigned long long)i->offset);
        fprintf(f, "<td class=\"heat\" style=\"--h:%.0f\">", heat);
        grouped(f, i->executed);
        fprintf(f, "</td><td>%.3g</td><td class=\"kind\">%s</td><td class=\"text code\">",
                (double)i->executed / (double)p->counts.waves,
                i->counted_as < QUERN_CLASS_COUNT
                    ? quern_sim_class_name((enum quern_sim_class)i->counted_as)
                    : "?");
        escaped(f, i->text[0] ? i->text : "(no instruction)");
        fputs("</td>", f);
        about(f, i);
        fputs("</tr>\n", f);
        before = i->executed;
    }
    fputs("</tbody></table></div></div>\n", f);
}

/* ---- The page -------------------------------------------------------------------------------- */

static void launch(FILE *f, const struct profile_report *r, size_t index)
{
    const struct launch_profile *l = &r->launches[index];
    const struct quern_sim_profile *p = &l->profile;

    fputs("<section>\n<h2><code>", f);
    escaped(f, l->launch->kernel);
    fprintf(
        f,
        "</code></h2>\n<p class=\"sub\">%u × %u × %u workgroups of %u waves of %u; %u waves per "
        "SIMD and %u workgroup%s per compute unit fit; ",
        l->launch->grid[0], l->launch->grid[1], l->launch->grid[2],
        p->resources.waves_per_workgroup, p->counts.wave_size, p->resources.waves_per_simd,
        p->resources.workgroups_per_cu, p->resources.workgroups_per_cu == 1 ? "" : "s");
    if (p->by_kinds)
        fprintf(f,
                "counts scaled from one workgroup of each of %u kinds, found by position (%llu "
                "checked)",
                p->kind_count, (unsigned long long)p->checked);
    else
        fputs("every workgroup was run", f);
    fputs("</p>\n", f);
    tiles(f, r, l);
    fputs("<div class=\"two\"><div><div class=\"card\"><h3>Roofline (model)</h3>\n", f);
    profile_roofline(f, l, index);
    fputs("</div>\n", f);
    fputs("</div><div>", f);
    times(f, &l->model);
    fputs("</div></div>\n<div class=\"even\">", f);
    classes(f, r, p);
    loads(f, l);
    fputs("</div>\n", f);
    buffers(f, p);
    heat_map(f, p);
    fputs("</section>\n", f);
}

static void page(FILE *f, const struct profile_report *r)
{
    fprintf(f, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
               "<meta name=\"generator\" content=\"quern profile\">\n<title>Profile: ");
    escaped(f, r->count ? r->launches[0].launch->kernel : "");
    fprintf(f, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", style);
    fputs("Profile for ", f);
    escaped(f, r->target.name);
    fprintf(f, ", %s</h1>\n<p class=\"sub\">", r->target.part);
    if (r->problem) {
        fputs("<code>", f);
        escaped(f, r->problem);
        fprintf(f, "</code>, M = %lld<br>", (long long)r->m);
    }
    fprintf(f, "%s: %u compute units, %.2f GHz, %.0f GB/s</p>\n", r->target.family, r->target.cus,
            r->target.clock_ghz, r->target.bandwidth_gbs);
    fprintf(f, "<p class=\"model\"><b>MODEL</b><span>%s</span></p>\n", PROFILE_MODEL);
    if (r->count > 1)
        fprintf(f,
                "<p class=\"sub\" style=\"margin-top:14px\">%zu launches, %.2f µs (model).</p>\n",
                r->count, r->total_us);
    for (size_t i = 0; i < r->count; i++)
        launch(f, r, i);
    fprintf(f,
            "<footer>quern %d.%d.%d. docs/profile.md has each formula and its source.</footer>\n"
            "</main>\n</body>\n</html>\n",
            QUERN_VERSION_MAJOR, QUERN_VERSION_MINOR, QUERN_VERSION_PATCH);
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
