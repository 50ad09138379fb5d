/* SPDX-License-Identifier: MIT */
/* Looks at the tensors of a layer and says what is wrong with them (checkpoint_parts.h). */
#include "checkpoint/checkpoint_parts.h"

#include <stdio.h>
#include <string.h>

/* ---- Tensors of a layer ---------------------------------------------------------------------- */

const struct tensor *checkpoint_part(const struct checkpoint_search *q, const char *suffix)
{
    char name[sizeof q->layer->name + 64];

    snprintf(name, sizeof name, "%s%s", q->layer->name, suffix);
    return safetensors_find(q->s, name);
}

void checkpoint_show(const struct tensor *t, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "%s [", t->dtype);

    for (size_t i = 0; i < t->rank && i < TENSOR_RANK_MAX && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    if (n < size)
        snprintf(text + n, size - n, "%s]", t->rank > TENSOR_RANK_MAX ? ",…" : "");
}

/* `dtypes` is one or more types, each with a bar behind it: "F16|BF16|". d1 < 0: of one dimension.
 */
int checkpoint_expect(const struct tensor *t, const char *dtypes, int64_t d0, int64_t d1)
{
    const size_t rank = d1 < 0 ? 1 : 2;
    char have[160], type[32];

    snprintf(type, sizeof type, "%s|", t->dtype);
    const char *const found = strstr(dtypes, type);
    const bool typed = found && (found == dtypes || found[-1] == '|');
    if (typed && t->rank == rank && t->shape[0] == d0 && (rank == 1 || t->shape[1] == d1))
        return EXIT_OK;
    checkpoint_show(t, have, sizeof have);
    if (rank == 1)
        return fail("%s: tensor %s is %s; expected %.*s [%lld]", t->path, t->name, have,
                    (int)strlen(dtypes) - 1, dtypes, (long long)d0);
    return fail("%s: tensor %s is %s; expected %.*s [%lld,%lld]", t->path, t->name, have,
                (int)strlen(dtypes) - 1, dtypes, (long long)d0, (long long)d1);
}

bool checkpoint_is_part(const char *path)
{
    const char *const slash = strrchr(path, '/'), *of = strstr(slash ? slash : path, "-of-");

    return of && strspn(of + 4, "0123456789") && strcmp(of + 4, "00001.safetensors");
}

/* In a file that is one of several a missing tensor is no error: it may be in another file, and the
 * layer gets a reason. */
int checkpoint_missing(const struct checkpoint_search *q, const char *suffix, const char *beside)
{
    if (!checkpoint_is_part(q->s->path))
        return fail("%s: tensor %s%s is missing beside %s%s", q->s->path, q->layer->name, suffix,
                    q->layer->name, beside);
    snprintf(q->layer->reason, sizeof q->layer->reason,
             "tensor %s%s is in another file; inspect the checkpoint's " SAFETENSORS_INDEX,
             q->layer->name, suffix);
    return EXIT_OK;
}

/* A matrix of at least one row and column. */
int checkpoint_expect_matrix(const struct tensor *t)
{
    char have[160];

    if (t->rank == 2 && t->shape[0] > 0 && t->shape[1] > 0)
        return EXIT_OK;
    checkpoint_show(t, have, sizeof have);
    return fail("%s: tensor %s is %s; expected a matrix", t->path, t->name, have);
}

bool checkpoint_has_bias(const struct checkpoint_search *q, int64_t n)
{
    const struct tensor *const t = checkpoint_part(q, ".bias");

    return t && t->rank == 1 && t->shape[0] == n;
}

/* ---- Problems -------------------------------------------------------------------------------- */

void checkpoint_set_problem(const struct checkpoint_search *q, const char *text)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    if (quern_problem_parse(text, &p) == QUERN_OK &&
        quern_problem_text(&p, q->layer->problem, sizeof q->layer->problem) == QUERN_OK)
        return;
    snprintf(q->layer->reason, sizeof q->layer->reason, "%s", quern_last_error()->message);
}

const char *checkpoint_type_word(const char *dtype)
{
    return !strcmp(dtype, "F16") ? "f16" : !strcmp(dtype, "BF16") ? "bf16" : "f32";
}
