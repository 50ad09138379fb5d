/* SPDX-License-Identifier: MIT */
/* Finding rows by name and machine, target ids and their features, and how many waves fit. */
#include "target/target.h"

#include <stdio.h>
#include <string.h>

size_t target_count(void)
{
    return target_row_count;
}
const struct target *target_at(size_t index)
{
    return index < target_row_count ? &target_rows[index] : NULL;
}

const struct target *target_named(const char *name)
{
    for (size_t i = 0; i < target_row_count; i++)
        if (!strcmp(target_rows[i].name, name))
            return &target_rows[i];
    return NULL;
}

const struct target *target_of_machine(unsigned vendor, unsigned elf_machine)
{
    for (size_t i = 0; i < target_row_count; i++)
        if (target_rows[i].vendor == vendor && target_rows[i].elf_machine == elf_machine)
            return &target_rows[i];
    return NULL;
}

/* Longest text that may be a target id: a processor name and two features. */
#define ID_MAX 64

/* Levenshtein distance; both at most ID_MAX long. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[ID_MAX + 1];
    const size_t n = strlen(b);

    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            const unsigned replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            const unsigned insert = row[j - 1] + 1, remove = row[j] + 1;
            row[j] = replace < insert ? replace : insert;
            if (remove < row[j])
                row[j] = remove;
        }
    }
    return row[n];
}

static const char *nearest(const char *name)
{
    const struct target *best = target_rows;
    unsigned least = ~0u;

    for (size_t i = 0; i < target_row_count; i++) {
        const unsigned d = distance(name, target_rows[i].name);
        if (d < least) {
            least = d;
            best = &target_rows[i];
        }
    }
    return best->name;
}

/* Copies letters and digits of `from` alone, the letters small, as far as there is room. */
static void letters_of(const char *from, char to[ID_MAX])
{
    size_t n = 0;

    for (; *from && n < ID_MAX - 1; from++)
        if ((*from >= '0' && *from <= '9') || (*from >= 'a' && *from <= 'z'))
            to[n++] = *from;
        else if (*from >= 'A' && *from <= 'Z')
            to[n++] = (char)(*from - 'A' + 'a');
    to[n] = 0;
}

/* The row of the part that `text` names, as "MI300X" or "rx-9070", or null. Fewer letters than the
 * shortest name of a part that is sold say nothing. */
static const struct target *of_part(const char *text)
{
    char name[ID_MAX], part[ID_MAX];

    letters_of(text, name);
    for (size_t i = 0; strlen(name) >= sizeof "b200" - 1 && i < target_row_count; i++) {
        letters_of(target_rows[i].part, part);
        if (strstr(part, name))
            return &target_rows[i];
    }
    return NULL;
}

/* Reads one ":feature±" at *text. */
static quern_status parse_feature(const char *whole, const char **text, struct target_id *id)
{
    const char *const start = *text + 1;
    const size_t n = strcspn(start, ":");
    const char sign = n ? start[n - 1] : 0;
    const bool is_sramecc = n == 8 && !strncmp(start, "sramecc", 7);
    const bool is_xnack = n == 6 && !strncmp(start, "xnack", 5);
    char *const slot = is_sramecc ? &id->sramecc : &id->xnack;

    FAIL_IF((!is_sramecc && !is_xnack) || (sign != '+' && sign != '-'), QUERN_E_TARGET,
            "target \"%s\": \"%.*s\" is no feature; expected sramecc+, sramecc-, xnack+ or xnack-",
            whole, (int)n, start);
    FAIL_IF(is_sramecc ? !id->target->sramecc : !id->target->xnack, QUERN_E_TARGET,
            "target \"%s\": %s has no feature %.*s", whole, id->target->name, (int)n - 1, start);
    FAIL_IF(*slot, QUERN_E_TARGET, "target \"%s\": feature %.*s is given twice", whole, (int)n - 1,
            start);
    *slot = sign;
    *text = start + n;
    return QUERN_OK;
}

quern_status target_parse(const char *text, struct target_id *id)
{
    char name[ID_MAX];
    struct target_id parsed = {0};

    FAIL_IF(!text || !*text, QUERN_E_TARGET, "no target given; expected a name such as gfx1151");
    FAIL_IF(strnlen(text, ID_MAX) == ID_MAX, QUERN_E_TARGET,
            "target \"%.20s…\" is longer than %d characters; expected a name such as gfx1151", text,
            ID_MAX - 1);
    const struct target *const sold = target_named(text) ? NULL : of_part(text);
    FAIL_IF(sold, QUERN_E_TARGET, "\"%s\" is the name of a part; its target is %s (%s)", text,
            sold->name, sold->part);
    for (const char *c = text; *c; c++)
        FAIL_IF(
            !strchr("abcdefghijklmnopqrstuvwxyz0123456789_:+-", *c), QUERN_E_TARGET,
            "target \"%s\" has the character 0x%02x at place %d; expected a name such as gfx1151",
            text, (unsigned char)*c, (int)(c - text));
    const size_t n = strcspn(text, ":");
    memcpy(name, text, n);
    name[n] = 0;
    parsed.target = target_named(name);
    FAIL_IF(!parsed.target, QUERN_E_TARGET, "unknown target \"%s\"; the nearest known one is %s",
            text, nearest(name));
    for (const char *rest = text + n; *rest;)
        TRY(parse_feature(text, &rest, &parsed));
    *id = parsed;
    return QUERN_OK;
}

void target_id_text(const struct target_id *id, char *text, size_t size)
{
    const char sramecc[2] = {id->sramecc, 0}, xnack[2] = {id->xnack, 0};

    snprintf(text, size, "%s%s%s%s%s", id->target->name, id->sramecc ? ":sramecc" : "", sramecc,
             id->xnack ? ":xnack" : "", xnack);
}

unsigned target_waves_per_simd(const struct target *t, unsigned vgprs, unsigned lds_bytes,
                               unsigned wave_size, unsigned waves_per_workgroup)
{
    /* each register of a wave of twice the native size takes the room of two native ones */
    const unsigned granule = wave_size > t->wave_size ? t->vgpr_granule / 2 : t->vgpr_granule;
    const unsigned file = wave_size > t->wave_size ? t->vgprs / 2 : t->vgprs;
    const unsigned used = vgprs ? (vgprs + granule - 1) / granule * granule : granule;
    unsigned waves = file / used;

    if (waves > t->max_waves)
        waves = t->max_waves;
    if (lds_bytes && waves_per_workgroup) {
        /* workgroups that fit in the LDS of a compute unit, spread over its SIMDs */
        const unsigned workgroups = t->lds_bytes / lds_bytes;
        const unsigned by_lds = (workgroups * waves_per_workgroup + t->simds - 1) / t->simds;
        if (by_lds < waves)
            waves = by_lds;
    }
    return waves;
}
