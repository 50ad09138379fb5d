/* SPDX-License-Identifier: MIT */
/* The table of facts, reading what was measured, and what that leaves of a target: facts.h. */
#include "plan/facts.h"

#include "base/os.h"
#include "plan/text_table.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct fact_row fact_rows[FACT_COUNT] = {
#define FACT(NUMBER, name, asked, values, takes, probe, meaning, relies, source, sure, fallback)   \
    {#name, values, takes, probe, meaning, relies, source, fallback, sure},
#include "plan/facts.def"
#undef FACT
};

bool fact_asked(enum fact fact, const struct target *t)
{
    switch (fact) {
#define FACT(NUMBER, name, asked, ...)                                                             \
    case FACT_##NUMBER:                                                                            \
        return asked;
#include "plan/facts.def"
#undef FACT
    case FACT_COUNT:
        break;
    }
    return false;
}

bool fact_is_rate(enum fact fact)
{
    return fact_rows[fact].values[0] >= '0' && fact_rows[fact].values[0] <= '9';
}

void fact_value(enum fact fact, const struct target *t, unsigned n, char value[FACT_VALUE_MAX])
{
    const char *at = fact_rows[fact].values;

    if (fact_is_rate(fact)) {
        const double each = (double)strtol(at, NULL, 10);
        snprintf(value, FACT_VALUE_MAX, "%.0f%s", each * t->cus * t->clock_ghz, strchr(at, ' '));
        return;
    }
    for (const char *next; n-- && (next = strchr(at, '|'));)
        at = next + 1;
    snprintf(value, FACT_VALUE_MAX, "%.*s", (int)strcspn(at, "|"), at);
}

/* A line of a table: NAME | VALUE, of a rate a number. */
static quern_status read_fact(void *user, char *line, int number)
{
    struct facts *const facts = user;
    char *rest = line, assumed[FACT_VALUE_MAX];
    const char *const name = table_field(&rest), *const value = table_field(&rest);
    unsigned i = 0;

    FAIL_IF(!value || rest || !*value, QUERN_E_ARGUMENT,
            "line %d has %s than two fields; expected FACT | VALUE", number,
            rest ? "more" : "fewer");
    while (i < FACT_COUNT && strcmp(fact_rows[i].name, name) != 0)
        i++;
    if (i == FACT_COUNT)
        return QUERN_OK;
    FAIL_IF(facts->probed >> i & 1, QUERN_E_ARGUMENT, "line %d repeats the fact %s", number, name);
    facts->probed |= 1u << i;
    if (fact_is_rate((enum fact)i)) {
        FAIL_IF(!table_number(value), QUERN_E_ARGUMENT,
                "line %d: '%s' is no rate; expected a number", number, value);
        return QUERN_OK;
    }
    fact_value((enum fact)i, NULL, 0, assumed);
    if (strcmp(value, assumed) != 0)
        facts->refuted |= 1u << i;
    return QUERN_OK;
}

quern_status facts_parse(const char *text, size_t size, const struct target *target,
                         struct facts *facts)
{
    struct facts read = {.given = true, .hash = hash128_of(text, size)};

    TRY(table_read("facts", text, size, FACTS_BYTES_MAX, target, read_fact, &read));
    for (unsigned i = 0; i < FACT_COUNT; i++)
        if (!fact_asked((enum fact)i, target))
            read.refuted &= ~(1u << i);
    *facts = read;
    return QUERN_OK;
}

/* ---- What is left ---------------------------------------------------------------------------- */

/* Rows of targets that something is refuted of, kept for plans of any age; there are few. */
struct made_row {
    struct target row;
    const struct target *of;
    const struct made_row *next;
};
static _Atomic(const struct made_row *) made_rows;

/* All that refuted facts take away. */
static uint64_t taken(unsigned refuted)
{
    uint64_t taken = 0;

    for (unsigned i = 0; i < FACT_COUNT; i++)
        taken |= refuted >> i & 1 ? fact_rows[i].takes : 0;
    return taken;
}

quern_status facts_target(const struct facts *facts, const struct target *target,
                          const struct target **planned)
{
    const struct made_row *first = atomic_load(&made_rows);

    *planned = target;
    if (!facts->refuted)
        return QUERN_OK;
    for (const struct made_row *r = first; r; r = r->next)
        if (r->of == target && r->row.refuted == facts->refuted) {
            *planned = &r->row;
            return QUERN_OK;
        }
    struct made_row *const made = os.calloc(1, sizeof *made);
    FAIL_IF(!made, QUERN_E_MEMORY, "out of memory for what is known of %s", target->name);
    const uint64_t takes = taken(facts->refuted);
    made->row = *target;
    made->of = target;
    made->row.refuted = facts->refuted;
    made->row.capabilities &= ~(unsigned)takes;
    made->row.dies = takes & FACT_DIES ? 1 : target->dies;
    do /* another thread may make the same row: both are right */
        made->next = first;
    while (!atomic_compare_exchange_weak(&made_rows, &first, made));
    *planned = &made->row;
    return QUERN_OK;
}

quern_status facts_accept(const struct target *target)
{
    for (unsigned i = 0; i < FACT_COUNT; i++)
        FAIL_IF(target->refuted >> i & 1 && fact_rows[i].takes & FACT_PRODUCTS, QUERN_E_DECLINED,
                "the facts table of this %s refutes %s, on which every kernel that multiplies "
                "relies: %s",
                target->name, fact_rows[i].name, fact_rows[i].meaning);
    return QUERN_OK;
}

void facts_explain(const struct facts *facts, struct str *out)
{
    char hash[2 * sizeof facts->hash.bytes + 1];

    if (!facts->given)
        return;
    hex_from_bytes(hash, facts->hash.bytes, sizeof facts->hash.bytes);
    str_addf(out, "facts table %s\n", hash);
    for (unsigned i = 0; i < FACT_COUNT; i++)
        if (facts->refuted >> i & 1)
            str_addf(out, "  refuted    %s, that %s: %s\n", fact_rows[i].name, fact_rows[i].meaning,
                     fact_rows[i].fallback);
}
