/* SPDX-License-Identifier: MIT */
/* Writing the source of a kernel: constants from the fields of its family, then its templates. */
#include "gen/gen.h"
#include "gen/dialects.h"
#include "plan/base.h"
#include "plan/family.h"

#include <string.h>

#define VERSION_TEXT_(x) #x
#define VERSION_TEXT(x)  VERSION_TEXT_(x)
#define VERSION                                                                                    \
    VERSION_TEXT(QUERN_VERSION_MAJOR)                                                              \
    "." VERSION_TEXT(QUERN_VERSION_MINOR) "." VERSION_TEXT(QUERN_VERSION_PATCH)

/* Each template begins with this line. A source has it once, at its top. */
static const char licence[] = "/* SPDX-License-Identifier: MIT */\n";

/* The begin of a line of an outline that stands for a template. No template or constant has such a
 * line. */
static const char include[] = "#include \"";

static const struct template_file *find_template(const struct target *target, const char *name,
                                                 size_t length)
{
    const struct template_file *f = dialects[target->vendor]->templates;

    while (f->name && (strncmp(f->name, name, length) || f->name[length]))
        f++;
    return f;
}

static quern_status add_template(const struct target *target, const char *name, struct str *outline)
{
    const struct template_file *const f = find_template(target, name, strlen(name));

    FAIL_IF(!f->name, QUERN_E_INTERNAL, "there is no template \"%s\"", name);
    str_add(outline, include);
    str_add(outline, name);
    str_add(outline, "\" // ");
    str_add(outline, f->sha256);
    str_add(outline, "\n");
    return QUERN_OK;
}

/* Appends an outline, with the texts of its templates in place of their lines. Cache keys are made
 * of outlines, so a change here makes another source for the same key: it must come with a change
 * of the key's format (dispatch/kernel.c). */
static void expand(const struct target *target, const char *outline, struct str *source)
{
    for (const char *line = outline, *next; *line; line = next) {
        next = strchrnul(line, '\n');
        next += *next == '\n';
        if (strncmp(line, include, sizeof include - 1)) {
            str_add_bytes(source, line, (size_t)(next - line));
            continue;
        }
        const char *const name = line + sizeof include - 1;
        const struct template_file *const f = find_template(target, name, strcspn(name, "\""));
        const char *text = f->text;
        if (!strncmp(text, licence, sizeof licence - 1))
            text += sizeof licence - 1;
        str_addf(source, "\n// ---- %s ----\n", f->name);
        str_add(source, text);
    }
}

#define MEANING_COLUMN 40

/* Appends a comment that says what a constant is for to the line that began at `start`, in a column
 * of its own. */
static void add_meaning(struct str *s, size_t start, const char *meaning)
{
    static const char blanks[] = "                                        ";
    const size_t width = s->length - start;

    _Static_assert(sizeof blanks - 1 == MEANING_COLUMN, "a line may be empty");
    str_add(s, width < MEANING_COLUMN ? blanks + width : " ");
    str_add(s, "// ");
    str_add(s, meaning);
    str_add(s, "\n");
}

/* Appends an integer to the block of constants at the top. */
static void add_integer(struct str *s, const char *name, int64_t value, const char *meaning)
{
    const size_t start = s->length;

    str_add(s, "constexpr unsigned ");
    str_add(s, name);
    str_add(s, " = ");
    str_add_integer(s, value);
    str_add(s, ";");
    add_meaning(s, start, meaning);
}

/* Appends a macro: a word that the preprocessor needs, or that the prelude gives its meaning. */
static void add_word(struct str *s, const char *name, const char *value, const char *meaning)
{
    const size_t start = s->length;

    str_add(s, "#define ");
    str_add(s, name);
    str_add(s, " ");
    str_add(s, value);
    add_meaning(s, start, meaning);
}

/* Appends one constant of the block at the top. */
static void add_field(void *user, const struct plan *p, const struct plan_field *f)
{
    struct str *const s = user;

    if (f->argument && plan_is_base(p)) {
        add_word(s, f->constant, f->argument, f->meaning);
        return;
    }
    switch (f->kind) {
    case FIELD_NUMBER:
        add_integer(s, f->constant, field_value(f, p), f->meaning);
        break;
    case FIELD_FLAG:
        add_word(s, f->constant, field_value(f, p) ? "1" : "0", f->meaning);
        break;
    case FIELD_BOOL:
        add_word(s, f->constant, field_value(f, p) ? "true" : "false", f->meaning);
        break;
    case FIELD_TEXT:
        add_word(s, f->constant, f->text(p), f->meaning);
        break;
    case FIELD_BLANK:
        str_add(s, "\n");
        break;
    case FIELD_SHAPE:
        break;
    }
}

/*
 * The head of a source says what its processor can do, so that no template asks the compiler for
 * the processor's name, and a new row of src/target/rows.c is all that a processor with known
 * instructions needs. Only what the templates of the dialect ask for is said.
 */
static void add_capabilities(struct str *s, const struct target *target)
{
    const unsigned asked = dialects[target->vendor]->asked;

#define CAPABILITY(NAME, word, meaning)                                                            \
    if (asked & CAP_##NAME)                                                                        \
        add_word(s, "HAS_" #NAME, target->capabilities &CAP_##NAME ? "true" : "false", meaning);
    TARGET_CAPABILITIES(CAPABILITY)
#undef CAPABILITY
    str_add(s, "\n");
}

quern_status gen_outline(const struct plan *given, struct str *outline)
{
    struct plan plan = *given;
    char problem[QUERN_TEXT_MAX];

    if (plan_is_base(given)) { /* the text must not depend on the layer at hand */
        plan.problem = base_nominal(&given->problem);
        plan.m_lo = 1;
        plan.m_hi = plan.m_tile;
    }
    problem_text(&plan.problem, problem);
    str_add(outline, licence);
    str_addf(outline, "// quern " VERSION " for %s", plan.target->name);
    if (plan_units(&plan) == PLAN_UNITS_TILES && !plan.block_rows)
        str_addf(outline, ", M = %d and more", plan.m_lo);
    else if (plan_units(&plan) != PLAN_UNITS_NONE)
        str_addf(outline, ", M = %d to %d", plan.m_lo, plan.m_hi);
    str_addf(outline, "\n// %s\n\n",
             plan.family->one_buffer ? "of no problem: it measures a GPU" : problem);
    add_capabilities(outline, plan.target);
    field_each(&plan, add_field, outline);
    for (const struct plan_template *t = plan.family->templates; t->name || t->choose; t++)
        if (!t->when || t->when(&plan))
            TRY(add_template(plan.target, t->choose ? t->choose(&plan) : t->name, outline));
    FAIL_IF(outline->failed, QUERN_E_MEMORY, "out of memory while writing the outline of %s",
            plan.symbol);
    return QUERN_OK;
}

quern_status gen_source_of(const struct target *target, const char *outline, struct str *source)
{
    expand(target, outline, source);
    FAIL_IF(source->failed, QUERN_E_MEMORY, "out of memory while writing a kernel's source");
    return QUERN_OK;
}

quern_status gen_source(const struct plan *plan, struct str *source)
{
    struct str outline = {0};

    quern_status status = gen_outline(plan, &outline);
    if (status == QUERN_OK)
        status = gen_source_of(plan->target, str_text(&outline), source);
    str_free(&outline);
    return status;
}

void gen_options(const struct plan *plan, struct str *options)
{
    dialects[plan->target->vendor]->options(plan, options);
}
