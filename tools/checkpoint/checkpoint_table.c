/* SPDX-License-Identifier: MIT */
/*
 * Prints the layers of a checkpoint as a table, with one row for all that differ only by numbers in
 * their names: a mixture of experts has twenty thousand layers of some ten kinds.
 */
#include "checkpoint/checkpoint.h"
#include "command/table.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX 3    /* numbers in a name that are left out: block, expert, and one more */
#define NUMBER_MAX  1024 /* numbers from this on count as part of the name */
#define SHOWN_BYTES 240  /* of the numbers at one place; what does not fit is shown as … */
#define NAME_BYTES  (sizeof(((struct checkpoint_layer *)0)->name) + NUMBERS_MAX * SHOWN_BYTES)

/* Layers of one row. */
struct kind {
    const struct checkpoint_layer *first;
    size_t count, numbers;
    unsigned char seen[NUMBERS_MAX][NUMBER_MAX]; /* which numbers there are at each place */
};

/* The length of the part of a name that begins at `at`, if that is a number, and its value; else 0.
 */
static size_t number_at(const char *name, const char *at, unsigned *value)
{
    const size_t length = strspn(at, "0123456789");
    /* at most four digits, and no leading zero: 007 is a name */
    const bool counts = length && length < 5 && (length == 1 || *at != '0');

    *value = counts ? (unsigned)strtoul(at, NULL, 10) : NUMBER_MAX;
    return *value < NUMBER_MAX && (at == name || at[-1] == '.') &&
                   (at[length] == '.' || !at[length])
               ? length
               : 0;
}

/* What a row's layers share: the name with its numbers left out, and everything else. */
static void key_of(const struct checkpoint_layer *l, char *key, size_t size)
{
    size_t n = 0, numbers = 0;
    unsigned value;

    for (const char *at = l->name; *at && n + 1 < size;) {
        const size_t length = numbers < NUMBERS_MAX ? number_at(l->name, at, &value) : 0;
        key[n++] = length ? '\n' : *at;
        at += length ? length : 1;
        numbers += length != 0;
    }
    snprintf(key + n, size - n, "\n%s\n%lld\n%d\n%s\n%s", l->format, (long long)l->experts,
             l->act_order, l->problem, l->reason);
}

static void add_numbers(struct kind *k, const struct checkpoint_layer *l)
{
    unsigned value;

    k->numbers = 0;
    for (const char *at = l->name; *at && k->numbers < NUMBERS_MAX;) {
        const size_t length = number_at(l->name, at, &value);
        if (length)
            k->seen[k->numbers++][value] = 1;
        at += length ? length : 1;
    }
    k->count++;
}

/* Writes the numbers that were seen, as "7" or "{0-3,5}", and returns how many there are. */
static size_t show_numbers(const unsigned char seen[NUMBER_MAX], char text[SHOWN_BYTES])
{
    size_t count = 0, n = 0;
    bool all = true;

    for (unsigned i = 0; i < NUMBER_MAX; i++) {
        unsigned end = i;
        if (!seen[i])
            continue;
        while (end + 1 < NUMBER_MAX && seen[end + 1])
            end++;
        all = n + sizeof ",1022-1023,…}" <= SHOWN_BYTES;
        if (all)
            n += (size_t)snprintf(text + n, SHOWN_BYTES - n, end > i ? "%s%u-%u" : "%s%u",
                                  count ? "," : "{", i, end);
        count += end - i + 1;
        i = end;
    }
    if (count > 1)
        snprintf(text + n, SHOWN_BYTES - n, all ? "}" : ",…}");
    else
        memmove(text, text + 1, strlen(text));
    return count;
}

/* Writes a row's name, with all numbers at each place, and returns how many names that stands for.
 */
static size_t show_name(const struct kind *k, char text[NAME_BYTES])
{
    size_t names = 1, n = 0, numbers = 0;
    const char *at = k->first->name;
    unsigned value;

    while (*at) {
        const size_t length = numbers < k->numbers ? number_at(k->first->name, at, &value) : 0;
        if (length) {
            names *= show_numbers(k->seen[numbers++], text + n);
            n += strlen(text + n);
        } else {
            text[n++] = *at;
        }
        at += length ? length : 1;
    }
    text[n] = 0;
    return names;
}

static void add_row(struct table *t, const struct kind *k)
{
    const struct checkpoint_layer *const l = k->first;
    char name[NAME_BYTES], experts[32] = "";

    const size_t names = show_name(k, name);
    if (l->experts > 1 && !strstr(l->problem, " experts="))
        snprintf(experts, sizeof experts, " (%lld experts)", (long long)l->experts);
    table_cell(t, "%s", name);
    if (names == k->count)
        table_cell(t, "%zu", k->count);
    else
        table_cell(t, "%zu of %zu", k->count, names);
    table_cell(t, "%s%s", l->format, l->act_order ? ", act-order" : "");
    table_cell(t, "%s%s%s", l->problem[0] ? l->problem : "none: ", l->problem[0] ? "" : l->reason,
               experts);
}

bool checkpoint_print(const struct checkpoint_layer *layers, size_t count)
{
    char key[sizeof layers->name + sizeof layers->problem + sizeof layers->reason + 64];
    json_t *const places = json_object(); /* of kinds, by key */
    struct kind **const kinds = calloc(count + 1, sizeof *kinds);
    struct table t = {0};
    size_t kind_count = 0;
    bool good = places && kinds;

    table_header(&t, "<layer|layers|<format|<problem");
    for (size_t i = 0; good && i < count; i++) {
        key_of(&layers[i], key, sizeof key);
        const json_t *const place = json_object_get(places, key);
        const size_t at = place ? (size_t)json_integer_value(place) : kind_count;
        if (!place) {
            kinds[kind_count] = calloc(1, sizeof **kinds);
            good = kinds[kind_count] &&
                   !json_object_set_new_nocheck(places, key, json_integer((json_int_t)kind_count));
            if (!good)
                break;
            kinds[kind_count++]->first = &layers[i];
        }
        add_numbers(kinds[at], &layers[i]);
    }
    for (size_t i = 0; good && i < kind_count; i++)
        add_row(&t, kinds[i]);
    good = good && table_print(&t, 2);
    for (size_t i = 0; kinds && i < count + 1; i++)
        free(kinds[i]);
    free(kinds);
    json_decref(places);
    table_free(&t);
    return good;
}
