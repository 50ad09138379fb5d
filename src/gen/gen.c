/* SPDX-License-Identifier: MIT */
/* Writing the source of a kernel: constants from the fields of its family, then its templates. */
#include "gen/gen.h"
#include "gen/capabilities.h"
#include "gen/templates.h"
#include "plan/family.h"

#include <string.h>

#define VERSION_TEXT_(x) #x
#define VERSION_TEXT(x)  VERSION_TEXT_(x)
#define VERSION                                                                                    \
    VERSION_TEXT(QUERN_VERSION_MAJOR)                                                              \
    "." VERSION_TEXT(QUERN_VERSION_MINOR) "." VERSION_TEXT(QUERN_VERSION_PATCH)

/* Templates carry a licence line each; the source has one at its top. */
static const char licence[] = "/* SPDX-License-Identifier: MIT */\n";

/* What stands for a template in an outline. Neither templates nor constants contain the word. */
static const char include[] = "#include \"";

static const struct template_file *find_template(const char *name, size_t length)
{
    const struct template_file *f = template_files;

    while (f->name && (strncmp(f->name, name, length) || f->name[length]))
        f++;
    return f;
}

static quern_status add_template(struct str *outline, const char *name)
{
    const struct template_file *const f = find_template(name, strlen(name));

    FAIL_IF(!f->name, QUERN_E_INTERNAL, "there is no template \"%s\"", name);
    str_add(outline, include);
    str_add(outline, name);
    str_add(outline, "\" // ");
    str_add(outline, f->sha256);
    str_add(outline, "\n");
    return QUERN_OK;
}

/* Appends an outline with each template in its place. Keys are made of outlines: if this changes,
 * so must their format (dispatch/kernel.c). */
static void expand(const char *outline, struct str *source)
{
    for (const char *line = outline, *next; *line; line = next) {
        next = strchrnul(line, '\n');
        next += *next == '\n';
        if (strncmp(line, include, sizeof include - 1)) {
            str_add_bytes(source, line, (size_t)(next - line));
            continue;
        }
        const char *const name = line + sizeof include - 1;
        const struct template_file *const f = find_template(name, strcspn(name, "\""));
        const char *text = f->text;
        if (!strncmp(text, licence, sizeof licence - 1))
            text += sizeof licence - 1;
        str_addf(source, "\n// ---- %s ----\n", f->name);
        str_add(source, text);
    }
}

#define MEANING_COLUMN 40

/* What a constant is for, behind the line that began at `start`, in a column of its own. */
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

/* An integer among the constants of the block at the top. */
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

/* A word that the preprocessor needs, or that the prelude gives its meaning. */
static void add_word(struct str *s, const char *name, const char *value, const char *meaning)
{
    const size_t start = s->length;

    str_add(s, "#define ");
    str_add(s, name);
    str_add(s, " ");
    str_add(s, value);
    add_meaning(s, start, meaning);
}

/* One constant of the block at the top. */
static void add_field(void *user, const struct plan *p, const struct plan_field *f)
{
    struct str *const s = user;

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

quern_status gen_outline(const struct plan *plan, struct str *outline)
{
    char problem[QUERN_TEXT_MAX];

    problem_text(&plan->problem, problem);
    str_add(outline, licence);
    str_addf(outline, "// quern " VERSION " for %s", plan->target->name);
    if (plan_units(plan) == PLAN_UNITS_TILES)
        str_addf(outline, ", M = %d and more", plan->m_lo);
    else if (plan_units(plan) != PLAN_UNITS_NONE)
        str_addf(outline, ", M = %d to %d", plan->m_lo, plan->m_hi);
    str_addf(outline, "\n// %s\n\n", problem);
    gen_capabilities(plan->target, outline);
    field_each(plan, add_field, outline);
    for (const struct plan_template *t = plan->family->templates; t->name || t->choose; t++)
        if (!t->when || t->when(plan))
            TRY(add_template(outline, t->choose ? t->choose(plan) : t->name));
    FAIL_IF(outline->failed, QUERN_E_MEMORY, "out of memory while writing the outline of %s",
            plan->symbol);
    return QUERN_OK;
}

quern_status gen_source_of(const char *outline, struct str *source)
{
    expand(outline, source);
    FAIL_IF(source->failed, QUERN_E_MEMORY, "out of memory while writing a kernel's source");
    return QUERN_OK;
}

quern_status gen_source(const struct plan *plan, struct str *source)
{
    struct str outline = {0};

    quern_status status = gen_outline(plan, &outline);
    if (status == QUERN_OK)
        status = gen_source_of(str_text(&outline), source);
    str_free(&outline);
    return status;
}

void gen_options(const struct plan *plan, struct str *options)
{
    /* freestanding: no header and no device library, which are most of a compile */
    str_add(options, "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n-std=c++17\n");
    /* the newest that loaders of all of ROCm 6 and 7 accept; compilers' own choice differs */
    str_add(options, "-mcode-object-version=5\n");
    /* a workgroup stays in one compute unit, next to its LDS and its first-level cache */
    if (plan->target->wgp)
        str_add(options, "-mcumode\n");
    /* LLVM 21 uses one half of a register while a load of the other half is under way, which on
     * RDNA 3 disturbs it (LLVM 22 waits for the load). No halves, no such loads. */
    if (plan->target->capabilities & CAP_D16_CLOBBERS)
        str_add(options, "-Xclang\n-target-feature\n-Xclang\n-real-true16\n");
    /* Kernels by table name each load and each address once: two searches of LLVM for what is there
     * twice find nothing to change in them, nor in fp8 that becomes f16, and take a tenth of the
     * compile. Others gain by them. */
    if (plan->family->plain_text && plan->family->plain_text(plan))
        str_add(options, "-mllvm\n-amdgpu-scalar-ir-passes=false\n"
                         "-mllvm\n-enable-gvn-memdep=false\n");
    /* LLVM 21's pass that ties loads into clauses, for targets that may replay them, writes past
     * its memory where a tuple of registers is loaded in part; no clauses, no harm. What clauses
     * must keep apart its hazard recogniser keeps apart too. */
    if (plan->target->xnack)
        str_add(options, "-mllvm\n-amdgpu-max-memory-clause=1\n");
}
