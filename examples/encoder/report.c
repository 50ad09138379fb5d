/* SPDX-License-Identifier: MIT */
#include "report.h"

#include "../fail.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Matrices of more sentences are printed below each other. */
#define SIDE_BY_SIDE_MAX 6

double report_cosine(const struct report *r, const double *x, const double *y)
{
    double dot = 0;

    for (size_t i = 0; i < r->model->hidden; i++)
        dot += x[i] * y[i];
    return dot;
}

static double agreement(const struct report *r, size_t sentence)
{
    double *const *const e = r->sentences[sentence].embedding;

    return report_cosine(r, e[NF4_QUERN], e[NF4_CPU]);
}

double report_worst(const struct report *r)
{
    double worst = 1;

    for (size_t i = 0; r->encoders > NF4_QUERN && i < r->count; i++)
        if (!(agreement(r, i) >= worst)) /* NaN is the worst of all */
            worst = agreement(r, i);
    return worst;
}

/* ---- For people ------------------------------------------------------------------------------ */

static const char *title(const struct report *r, size_t encoder, char text[64])
{
    switch (encoder) {
    case UNQUANTISED:
        return "unquantised";
    case NF4_CPU:
        return "NF4, double on the CPU";
    default:
        snprintf(text, 64, "NF4, quern on %s", r->target);
        return text;
    }
}

static void print_row(const struct report *r, size_t encoder, size_t row)
{
    for (size_t column = 0; column < r->count; column++)
        printf(" %6.3f", report_cosine(r, r->sentences[row].embedding[encoder],
                                       r->sentences[column].embedding[encoder]));
}

/* The matrices of encoders first … last-1, side by side. */
static void print_matrices(const struct report *r, size_t first, size_t last)
{
    const int needed = (int)(7 * r->count), width = needed > 25 ? needed : 25;
    char text[64];

    printf("    ");
    for (size_t e = first; e < last; e++)
        printf("  %-*s", e + 1 < last ? width : 0, title(r, e, text));
    printf("\n");
    for (size_t row = 0; row < r->count; row++) {
        printf("%4zu", row + 1);
        for (size_t e = first; e < last; e++) {
            print_row(r, e, row);
            printf("%*s", e + 1 < last ? width - needed + 2 : 0, "");
        }
        printf("\n");
    }
    printf("\n");
}

void report_text(const struct report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct sentence *const s = &r->sentences[i];

        printf("%4zu  %s  (%zu tokens)\n", i + 1, s->text, s->count);
        for (size_t t = 0; !r->encoders && t < s->count; t++)
            printf("%s%d", t ? " " : "      ", s->ids[t]);
        if (!r->encoders)
            printf("\n");
    }
    if (!r->encoders)
        return;
    printf("\nSimilarity of sentences, by each encoder\n");
    if (r->count <= SIDE_BY_SIDE_MAX)
        print_matrices(r, 0, r->encoders);
    else
        for (size_t e = 0; e < r->encoders; e++)
            print_matrices(r, e, e + 1);
    if (r->encoders <= NF4_QUERN)
        return;
    printf("Cosine of each sentence's embedding by quern on %s (%s activations) and in double\n",
           r->target, r->dtype);
    for (size_t i = 0; i < r->count; i++)
        printf("%4zu  %.8f\n", i + 1, agreement(r, i));
    printf("least %.8f; %.4f is required: %s\n", report_worst(r), COSINE_LEAST,
           report_worst(r) >= COSINE_LEAST ? "good" : "NOT GOOD");
}

/* ---- For programs ---------------------------------------------------------------------------- */

static void append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value))
        fail("out of memory");
}

static void set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value))
        fail("out of memory");
}

static json_t *sentence_json(const struct report *r, size_t i)
{
    static const char *const names[ENCODERS] = {"unquantised", "nf4", "quern"};
    const struct sentence *const s = &r->sentences[i];
    json_t *const object = json_object(), *const tokens = json_array();
    json_t *const text = json_string(s->text);

    if (text) /* an argument need not be UTF-8, but JSON must */
        set(object, "text", text);
    for (size_t t = 0; t < s->count; t++)
        append(tokens, json_integer(s->ids[t]));
    set(object, "tokens", tokens);
    for (size_t e = 0; e < r->encoders; e++) {
        json_t *const embedding = json_array();

        for (size_t d = 0; d < r->model->hidden; d++)
            append(embedding, json_real(s->embedding[e][d]));
        set(object, names[e], embedding);
    }
    if (r->encoders > NF4_QUERN)
        set(object, "cosine", json_real(agreement(r, i)));
    return object;
}

void report_json(const struct report *r)
{
    json_t *const object = json_object(), *const sentences = json_array();

    for (size_t i = 0; i < r->count; i++)
        append(sentences, sentence_json(r, i));
    set(object, "sentences", sentences);
    if (r->encoders > NF4_QUERN) {
        set(object, "target", json_string(r->target));
        set(object, "dtype", json_string(r->dtype));
        set(object, "least_cosine", json_real(report_worst(r)));
        set(object, "required_cosine", json_real(COSINE_LEAST));
    }
    if (json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)))
        fail("cannot write the report");
    putchar('\n');
    json_decref(object);
}
