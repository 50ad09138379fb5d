/* SPDX-License-Identifier: MIT */
#include "bert.h"

#include "../fail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room for one sentence: [count][hidden], but wide is [count][intermediate], scores [count]. */
struct state {
    const struct model *model;
    struct backend *backend;
    size_t count;
    double *hidden, *query, *key, *value, *context, *wide, *scores;
};

/* Each row to mean 0 and variance 1, then scaled and shifted. */
static void normalise(const struct state *s, const struct norm *norm, double *x)
{
    const size_t width = s->model->hidden;

    for (size_t t = 0; t < s->count; t++, x += width) {
        double mean = 0, variance = 0;

        for (size_t i = 0; i < width; i++)
            mean += x[i];
        mean /= (double)width;
        for (size_t i = 0; i < width; i++)
            variance += (x[i] - mean) * (x[i] - mean);
        const double scale = 1 / sqrt(variance / (double)width + s->model->norm_epsilon);
        for (size_t i = 0; i < width; i++)
            x[i] = (x[i] - mean) * scale * (double)norm->weight[i] + (double)norm->bias[i];
    }
}

static void apply(const struct state *s, size_t layer, enum linear_role role, const double *x,
                  double *y)
{
    s->backend->apply(s->backend, layer * LINEARS_PER_LAYER + (size_t)role, x, s->count, y);
}

static void add_residual(const struct state *s, const double *x)
{
    for (size_t i = 0; i < s->count * s->model->hidden; i++)
        s->hidden[i] += x[i];
}

static void embed_tokens(struct state *s, const int *ids)
{
    const struct model *const m = s->model;

    for (size_t t = 0; t < s->count; t++)
        for (size_t i = 0; i < m->hidden; i++)
            s->hidden[t * m->hidden + i] = (double)m->words[(size_t)ids[t] * m->hidden + i] +
                                           (double)m->position[t * m->hidden + i] +
                                           (double)m->type[i];
    normalise(s, &m->embedding_norm, s->hidden);
}

/* The mixture of values that token t attends to, for the head at column `at`. */
static void attend(const struct state *s, size_t t, size_t at, size_t head_size)
{
    const size_t width = s->model->hidden;
    const double *const q = s->query + t * width + at;
    double *const context = s->context + t * width + at;
    double most = -INFINITY, sum = 0;

    for (size_t other = 0; other < s->count; other++) {
        const double *const k = s->key + other * width + at;
        double dot = 0;

        for (size_t i = 0; i < head_size; i++)
            dot += q[i] * k[i];
        s->scores[other] = dot / sqrt((double)head_size);
        most = fmax(most, s->scores[other]);
    }
    for (size_t other = 0; other < s->count; other++)
        sum += s->scores[other] = exp(s->scores[other] - most);
    memset(context, 0, head_size * sizeof *context);
    for (size_t other = 0; other < s->count; other++) {
        const double *const v = s->value + other * width + at;
        const double share = s->scores[other] / sum;

        for (size_t i = 0; i < head_size; i++)
            context[i] += share * v[i];
    }
}

static void run_layer(struct state *s, size_t layer)
{
    const struct model *const m = s->model;
    const size_t head_size = m->hidden / m->heads;

    apply(s, layer, QUERY, s->hidden, s->query);
    apply(s, layer, KEY, s->hidden, s->key);
    apply(s, layer, VALUE, s->hidden, s->value);
    for (size_t t = 0; t < s->count; t++)
        for (size_t head = 0; head < m->heads; head++)
            attend(s, t, head * head_size, head_size);
    apply(s, layer, ATTENTION_OUTPUT, s->context, s->query);
    add_residual(s, s->query);
    normalise(s, &m->attention_norm[layer], s->hidden);

    apply(s, layer, INTERMEDIATE, s->hidden, s->wide);
    for (size_t i = 0; i < s->count * m->intermediate; i++) /* GELU */
        s->wide[i] *= 0.5 * (1 + erf(s->wide[i] / sqrt(2.0)));
    apply(s, layer, OUTPUT, s->wide, s->query);
    add_residual(s, s->query);
    normalise(s, &m->output_norm[layer], s->hidden);
}

static void pool(const struct state *s, double *out)
{
    const size_t width = s->model->hidden;
    double squares = 0;

    memset(out, 0, width * sizeof *out);
    for (size_t t = 0; t < s->count; t++)
        for (size_t i = 0; i < width; i++)
            out[i] += s->hidden[t * width + i] / (double)s->count;
    for (size_t i = 0; i < width; i++)
        squares += out[i] * out[i];
    for (size_t i = 0; i < width; i++)
        out[i] /= sqrt(squares);
}

void bert_embed(const struct model *model, struct backend *backend, const int *ids, size_t count,
                double *out)
{
    const size_t narrow = count * model->hidden, wide = count * model->intermediate;
    double *const memory = allocate(5 * narrow + wide + count, sizeof *memory);
    struct state s = {.model = model, .backend = backend, .count = count};

    s.hidden = memory;
    s.query = memory + narrow;
    s.key = memory + 2 * narrow;
    s.value = memory + 3 * narrow;
    s.context = memory + 4 * narrow;
    s.wide = memory + 5 * narrow;
    s.scores = s.wide + wide;
    embed_tokens(&s, ids);
    for (size_t layer = 0; layer < model->layers; layer++)
        run_layer(&s, layer);
    pool(&s, out);
    free(memory);
}
