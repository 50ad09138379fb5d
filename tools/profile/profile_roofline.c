/* SPDX-License-Identifier: MIT */
/*
 * The roofline of one launch, as SVG: lane operations a second over lane operations a byte. The
 * picture's marks stand here and not in profile_page.html, as each is hardly more than the place
 * that is computed for it; how they look is in profile_page.css.
 */
#include "profile/profile_report.h"

#include <math.h>

#define WIDTH  640
#define HEIGHT 372
#define LEFT   74
#define RIGHT  24
#define TOP    12
#define BOTTOM 56

/* Logarithmic axes: decades from `low` on. */
struct axes {
    double x_low, x_decades, y_low, y_decades; /* exponents of ten */
};

static double x_of(const struct axes *a, double value)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (log10(value) - a->x_low) / a->x_decades;
}

static double y_of(const struct axes *a, double value)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log10(value) - a->y_low) / a->y_decades;
}

/* 2.5e12 → "2.5 T" */
static const char *with_unit(double value, char text[32])
{
    static const char *const units[] = {"", " k", " M", " G", " T", " P"};
    size_t unit = 0;

    while (value >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        unit++;
    }
    snprintf(text, 32, "%.3g%s", value, units[unit]);
    return text;
}

static void draw_grid(FILE *f, const struct axes *a)
{
    char text[32];

    for (int d = 0; d <= (int)(a->x_decades + 0.001); d++) {
        const double value = pow(10, a->x_low + d), x = x_of(a, value);
        fprintf(f, "<path class=\"grid\" d=\"M%.1f %d V%d\"/>\n", x, TOP, HEIGHT - BOTTOM);
        fprintf(f, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x,
                HEIGHT - BOTTOM + 18, with_unit(value, text));
    }
    for (int d = 0; d <= (int)(a->y_decades + 0.001); d++) {
        const double value = pow(10, a->y_low + d), y = y_of(a, value);
        fprintf(f, "<path class=\"grid\" d=\"M%d %.1f H%d\"/>\n", LEFT, y, WIDTH - RIGHT);
        fprintf(f, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                LEFT - 9, y + 4, with_unit(value, text));
    }
    fprintf(
        f,
        "<text class=\"axis\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">lane operations per byte "
        "of memory</text>\n",
        (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    fprintf(f,
            "<text class=\"axis\" transform=\"translate(17 %d) rotate(-90)\" "
            "text-anchor=\"middle\">lane operations per second</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2);
}

/* A ceiling that holds for this kernel alone: what one port would allow. */
struct ceiling {
    const char *name;
    double rate; /* operations a second; 0 if it is not in the picture */
};

static struct ceiling ceiling(const struct axes *a, const struct quern_sim_model *m, double us,
                              double operations, const char *name)
{
    const double rate = us > 0 ? operations / us * 1e6 : 0;
    const double peak = m->operations_per_us * 1e6, slope = m->bandwidth_gbs * 1e9;
    const double right = pow(10, a->x_low + a->x_decades);
    const bool seen = rate < peak && rate > pow(10, a->y_low) && rate / slope < right;

    return (struct ceiling){name, seen ? rate : 0};
}

/* `above`: the name stands above the line. */
static void draw_ceiling(FILE *f, const struct axes *a, struct ceiling c, double slope, bool above)
{
    if (c.rate <= 0)
        return;
    const double y = y_of(a, c.rate);
    fprintf(f, "<path class=\"ceiling\" d=\"M%.1f %.1f H%d\"/>\n",
            fmax(LEFT, x_of(a, c.rate / slope)), y, WIDTH - RIGHT);
    fprintf(
        f,
        "<text class=\"note\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s of this kernel</text>\n",
        WIDTH - RIGHT - 4, above ? y - 6 : y + 15, c.name);
}

/* Draws what the kernel reaches as text: below its point, but not on the axis, and to the point's
 * left where the names of ceilings stand to its right. */
static void draw_value(FILE *f, const struct axes *a, double intensity, double rate, bool ceilings)
{
    const double x = x_of(a, intensity), y = y_of(a, rate);
    const bool left = x > LEFT + (WIDTH - LEFT - RIGHT) * (ceilings ? 0.35 : 0.6);
    const bool above = y > HEIGHT - BOTTOM - 46;
    char text[32];

    fprintf(f, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.3g op/B, ",
            left ? x - 12 : x + 12, above ? y - 12 : y + 22, left ? "end" : "start", intensity);
    fprintf(f, "%s/s</text>\n", with_unit(rate, text));
}

void profile_roofline(FILE *f, const struct launch_profile *l, size_t index)
{
    const struct quern_sim_model *m = &l->model;
    const double bytes = m->memory_bytes > 1 ? m->memory_bytes : 1;
    const double operations = m->operations > 1 ? m->operations : 1;
    const double intensity = operations / bytes, rate = operations / m->total_us * 1e6;
    const double peak = m->operations_per_us * 1e6, slope = m->bandwidth_gbs * 1e9;
    const double ridge = peak / slope;
    const double reach = intensity * slope < peak ? intensity * slope : peak;
    struct axes a;
    char text[32];

    a.x_low = floor(log10(intensity < ridge ? intensity : ridge) - 0.3);
    a.x_decades = ceil(log10(intensity > ridge ? intensity : ridge) + 0.6) - a.x_low;
    a.y_low =
        floor(log10(rate < slope * pow(10, a.x_low) * 3 ? rate : slope * pow(10, a.x_low) * 3));
    a.y_decades = ceil(log10(peak) + 0.12) - a.y_low;
    const double x = x_of(&a, intensity), y = y_of(&a, rate), roof = y_of(&a, reach);
    /* where the slope meets the bottom or the left edge */
    const double first = fmax(pow(10, a.x_low), pow(10, a.y_low) / slope);

    fprintf(f,
            "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"roofline-%zu\">\n"
            "<title id=\"roofline-%zu\">Roofline (model): %.3g lane operations per byte, ",
            WIDTH, HEIGHT, index, index, intensity);
    fprintf(f, "%s per second of ", with_unit(rate, text));
    fprintf(f, "%s that memory and issue allow</title>\n", with_unit(reach, text));
    draw_grid(f, &a);
    fprintf(f, "<path class=\"under\" d=\"M%.1f %.1f L%.1f %.1f H%d V%d H%.1f Z\"/>\n",
            x_of(&a, first), y_of(&a, first * slope), x_of(&a, ridge), y_of(&a, peak),
            WIDTH - RIGHT, HEIGHT - BOTTOM, x_of(&a, first));
    const struct ceiling lds = ceiling(&a, m, m->lds_us, operations, "LDS");
    const struct ceiling matrix = ceiling(&a, m, m->matrix_us, operations, "matrix instructions");
    /* the name of the higher one above it, so that two that are close have room */
    draw_ceiling(f, &a, lds, slope, matrix.rate > 0 && lds.rate >= matrix.rate);
    draw_ceiling(f, &a, matrix, slope, lds.rate > 0 && matrix.rate > lds.rate);
    fprintf(f, "<path class=\"roof\" d=\"M%.1f %.1f L%.1f %.1f H%d\"/>\n", x_of(&a, first),
            y_of(&a, first * slope), x_of(&a, ridge), y_of(&a, peak), WIDTH - RIGHT);
    fprintf(f, "<text class=\"note\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">issue: %s/s</text>\n",
            WIDTH - RIGHT - 4, y_of(&a, peak) - 7, with_unit(peak, text));
    /* along the slope, which has the same angle whatever the part */
    const double angle =
        atan2(y_of(&a, ridge * slope) - y_of(&a, first * slope), x_of(&a, ridge) - x_of(&a, first));
    const double at = (x - x_of(&a, first)) / (x_of(&a, ridge) - x_of(&a, first));
    const double middle = first * pow(ridge / first, at < 0.5 ? 0.72 : 0.28); /* clear of it */
    fprintf(f,
            "<text class=\"note\" text-anchor=\"middle\" transform=\"translate(%.1f %.1f) "
            "rotate(%.1f)\" dy=\"-7\">memory: %.0f GB/s</text>\n",
            x_of(&a, middle), y_of(&a, middle * slope), angle * 180 / 3.14159265, m->bandwidth_gbs);
    fprintf(f, "<path class=\"ridge\" d=\"M%.1f %.1f V%d\"/>\n", x_of(&a, ridge), y_of(&a, peak),
            HEIGHT - BOTTOM);
    fprintf(f, "<text class=\"note\" x=\"%.1f\" y=\"%d\">%.3g operations per byte</text>\n",
            x_of(&a, ridge) + 6, HEIGHT - BOTTOM - 8, ridge);
    fprintf(f, "<path class=\"drop\" d=\"M%.1f %.1f V%.1f\"/>\n", x, roof, y);
    fprintf(f, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>\n", x, y);
    draw_value(f, &a, intensity, rate, lds.rate > 0 || matrix.rate > 0);
    fputs("</svg>\n", f);
}
