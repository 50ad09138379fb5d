/* SPDX-License-Identifier: MIT */
/*
 * Every vector and scalar ALU instruction, on every target that has it: its result for random and
 * special operands against a formula written from AMD's ISA documents (every/vector.inc and
 * every/scalar.inc; comparisons are made here). every/targets.inc says which assembler takes which
 * form; `test_sim_every --targets` writes that file anew.
 *
 * This file is long because one program draws inputs, builds kernels and compares results for every
 * instruction.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compile/pool.h"
#include "every/comparisons.h"
#include "every/formulas.h"
#include "every/results.h"
#include "t_build.h"
#include "t_gpu.h"
#include "t_paths.h"
#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Formulas -------------------------------------------------------------------------------- */

static int unused; /* exponents that frexp gives */
static unsigned lane;
static uint64_t scc;
static bool scc_after;

typedef uint64_t formula(uint64_t x, uint64_t y, uint64_t z);

#define DEFINE(RESULT, NAME, ...)                                                                  \
    static uint64_t NAME(uint64_t x, uint64_t y, uint64_t z)                                       \
    {                                                                                              \
        (void)x, (void)y, (void)z;                                                                 \
        return BITS_##RESULT((__VA_ARGS__));                                                       \
    }
#define V(RESULT, WIDTHS, NAME, ...)           DEFINE(RESULT, NAME, __VA_ARGS__)
#define X(RESULT, WIDTHS, NAME, ID, TEXT, ...) DEFINE(RESULT, NAME##ID, __VA_ARGS__)
#include "every/vector.inc"
#undef V
#undef X

#define SCALAR(RESULT, NAME, VALUE, SCC)                                                           \
    static uint64_t NAME(uint64_t x, uint64_t y, uint64_t z)                                       \
    {                                                                                              \
        (void)x, (void)y, (void)z;                                                                 \
        const uint64_t r = BITS_##RESULT((VALUE));                                                 \
        scc_after = (SCC) != 0;                                                                    \
        return r;                                                                                  \
    }
#define S(RESULT, WIDTHS, NAME, VALUE, SCC)           SCALAR(RESULT, NAME, VALUE, SCC)
#define C(WIDTHS, NAME, CONDITION)                    SCALAR(N, NAME, 0, CONDITION)
#define Y(RESULT, WIDTHS, NAME, ID, TEXT, VALUE, SCC) SCALAR(RESULT, NAME##ID, VALUE, SCC)
#include "every/scalar.inc"
#undef S
#undef C
#undef Y

/* ---- Forms ----------------------------------------------------------------------------------- */

struct form {
    const char *name, *id; /* a name may have several forms */
    const char *widths;    /* of the sources, in registers */
    const char *text;      /* null: the name and as many operands as there are widths */
    enum result result;
    bool scalar;
    bool condition;   /* no destination */
    formula *formula; /* null: a comparison */
    const char *kind; /* of a comparison: "f32", "u16", … */
    unsigned accepts; /* which orders it is true for */
};

static const struct form listed[] = {
#define V(RESULT, WIDTHS, NAME, ...)                                                               \
    {.name = #NAME, .id = "", .widths = #WIDTHS, .result = RESULT, .formula = NAME},
#define X(RESULT, WIDTHS, NAME, ID, TEXT, ...)                                                     \
    {.name = #NAME,                                                                                \
     .id = #ID,                                                                                    \
     .widths = #WIDTHS,                                                                            \
     .text = TEXT,                                                                                 \
     .result = RESULT,                                                                             \
     .formula = NAME##ID},
#include "every/vector.inc"
#define S(RESULT, WIDTHS, NAME, VALUE, SCC)                                                        \
    {.name = #NAME, .id = "", .widths = #WIDTHS, .result = RESULT, .scalar = true, .formula = NAME},
#define C(WIDTHS, NAME, CONDITION)                                                                 \
    {.name = #NAME,                                                                                \
     .id = "",                                                                                     \
     .widths = #WIDTHS,                                                                            \
     .result = N,                                                                                  \
     .scalar = true,                                                                               \
     .condition = true,                                                                            \
     .formula = NAME},
#define Y(RESULT, WIDTHS, NAME, ID, TEXT, VALUE, SCC)                                              \
    {.name = #NAME,                                                                                \
     .id = #ID,                                                                                    \
     .widths = #WIDTHS,                                                                            \
     .text = TEXT,                                                                                 \
     .result = RESULT,                                                                             \
     .scalar = true,                                                                               \
     .formula = NAME##ID},
#include "every/scalar.inc"
};
#define LISTED (sizeof listed / sizeof *listed)

#define FORMS_MAX 1024
static struct form forms[FORMS_MAX];
static size_t form_count;

static char *text_of(const char *format, const char *name)
{
    char text[256];

    snprintf(text, sizeof text, format, name);
    char *const copy = strdup(text);
    assert_non_null(copy);
    return copy;
}

static void add_comparison(const char *kind, const char *predicate, unsigned accepts)
{
    for (int writes_exec = 0; writes_exec < 2; writes_exec++) {
        char name[32];
        snprintf(name, sizeof name, "v_cmp%s_%s_%s", writes_exec ? "x" : "", predicate, kind);
        assert_true(form_count < FORMS_MAX);
        forms[form_count++] = (struct form){
            .name = text_of("%s", name),
            .id = "",
            .widths = strstr(kind, "64") ? "22" : "11",
            .text = text_of(writes_exec ? "v_mov_b32 %%0, 0\n KEEP_EXEC\n %s CMPX%%1, %%2\n "
                                          "v_mov_b32 %%0, 1\n BACK_EXEC"
                                        : "%s MASK, %%1, %%2\n v_cndmask_b32 %%0, 0, 1, MASK",
                            name),
            .result = U,
            .kind = kind,
            .accepts = accepts};
    }
}

static int by_operands(const void *a, const void *b)
{
    const struct form *const f = a, *const g = b;
    const int widths = strcmp(f->widths, g->widths);

    if (f->scalar != g->scalar)
        return f->scalar - g->scalar;
    return widths                     ? widths
           : strcmp(f->name, g->name) ? strcmp(f->name, g->name)
                                      : strcmp(f->id, g->id);
}

static void make_forms(void)
{
    static const char *const kinds[] = {"f16", "f32", "f64", "i16", "u16",
                                        "i32", "u32", "i64", "u64"};

    if (form_count)
        return;
    memcpy(forms, listed, sizeof listed);
    form_count = LISTED;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t n = 0; n < COMPARISONS; n++)
            if (*kinds[k] == 'f' ? comparisons[n].of_floats : comparisons[n].of_integers)
                add_comparison(kinds[k], comparisons[n].name, comparisons[n].accepts);
    qsort(forms, form_count, sizeof *forms, by_operands);
}

/* ---- Which target has which form ------------------------------------------------------------- */

static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                      "gfx1100", "gfx1151", "gfx1201"};
#define TARGETS (sizeof targets / sizeof *targets)

/* A digit for each target: its place in the list above. */
static const struct {
    const char *form, *on;
} availability[] = {
#include "every/targets.inc"
};

static const char *form_targets(const struct form *f)
{
    char id[64];

    snprintf(id, sizeof id, "%s%s", f->name, f->id);
    for (size_t n = 0; n < sizeof availability / sizeof *availability; n++)
        if (!strcmp(availability[n].form, id))
            return availability[n].on;
    return NULL;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Work-items of a workgroup: the second wave of 32, or the only one of 64, is not full. */
enum { ITEMS = 48, GROUPS = 24, INPUTS = ITEMS * GROUPS, SCALAR_INPUTS = 200 };

/* A kernel runs up to CHUNK forms with operands of the same widths on the same inputs. */
enum { CHUNK = 24 };

static const char frame[] =
    "#define BEGIN(N, INDEX) KERNEL k##N(const u64 *x, const u64 *y, const u64 *z, u64 *r) { const "
    "u32 i = INDEX; const u64 xi = x[i], yi = y[i], zi = z[i];\n"
    "#define V(SLOT, TD, TA, TB, TC, TEXT) { TD d = (TD)zi; asm volatile(TEXT : [d] \"+&v\"(d) : "
    "[a] \"v\"((TA)xi), [b] \"v\"((TB)yi), [c] \"v\"((TC)zi) : \"vcc\", \"s40\", \"s41\", "
    "\"s42\", \"s43\", \"m0\", \"v60\", \"v61\", \"v62\", \"v63\" AGPRS); r[SLOT + i] = d; }\n"
    "#define S(SLOT, TD, TA, TB, TEXT) { TD d = (TD)zi; u32 cc; asm volatile(\"s_cmp_lg_u32 %[e], "
    "0\\n \" TEXT \"\\n s_cselect_b32 %[cc], 1, 0\" : [d] \"+&s\"(d), [cc] \"=&s\"(cc) : [a] "
    "\"s\"((TA)xi), [b] \"s\"((TB)yi), [e] \"s\"((u32)(zi >> 63)) : \"scc\", \"s40\", \"s41\", "
    "\"s42\", \"s43\"); r[SLOT + 2 * i] = d; r[SLOT + 2 * i + 1] = cc; }\n";

/* The text of a form for a target and wave size: %n become named operands, words in capitals what
 * they stand for. */
static void write_text(const struct form *f, bool gfx9, bool wave64, char *out, size_t size)
{
    const struct {
        const char *word, *to;
    } words_[] = {{"%0", "%[d]"},
                  {"%1", "%[a]"},
                  {"%2", "%[b]"},
                  {"%3", "%[c]"},
                  {"\n", "\\n"},
                  {"MASK", wave64 ? "vcc" : "vcc_lo"},
                  {"SETTLED", gfx9 ? "s_nop 0" : "s_waitcnt_depctr 0"},
                  {"CMPX", gfx9 ? "vcc, " : ""},
                  {"KEEP_EXEC", "s_mov_b64 s[40:41], exec"},
                  {"BACK_EXEC", "s_mov_b64 exec, s[40:41]"},
                  {"IN_EXEC_32", "s_mov_b64 s[40:41], exec\\n s_mov_b32 exec_lo, %[b]"},
                  {"IN_EXEC_64", "s_mov_b64 s[40:41], exec\\n s_mov_b64 exec, %[b]"}};
    char plain[64];
    const char *at = f->text;
    size_t used = 0;

    if (!at) {
        const char *const operands[] = {"%0", "%0, %1", "%0, %1, %2", "%0, %1, %2, %3"};
        snprintf(plain, sizeof plain, "%s %s", f->name,
                 f->condition ? "%1, %2" : operands[strlen(f->widths)]);
        at = plain;
    }
    while (*at) {
        size_t n = 0;
        while (n < sizeof words_ / sizeof *words_ &&
               strncmp(at, words_[n].word, strlen(words_[n].word)))
            n++;
        if (n < sizeof words_ / sizeof *words_) {
            used += (size_t)snprintf(out + used, size - used, "%s", words_[n].to);
            at += strlen(words_[n].word);
        } else if (used + 1 < size) {
            out[used++] = *at++;
        }
        assert_true(used + 1 < size);
    }
    out[used] = 0;
}

static const char *type_of(const struct form *f, unsigned source)
{
    return source < strlen(f->widths) && f->widths[source] == '2' ? "u64" : "u32";
}

static void write_form(const struct form *f, unsigned slot, unsigned target, bool wave64, char *out,
                       size_t size)
{
    const char *const result =
        f->result == Q || f->result == D || f->result == E || f->result == R ? "u64" : "u32";
    char text[512];

    write_text(f, target < 3, wave64, text, sizeof text);
    if (f->scalar)
        snprintf(out, size, "S(%u, %s, %s, %s, \"%s\")", slot * 2 * INPUTS, result, type_of(f, 0),
                 type_of(f, 1), text);
    else
        snprintf(out, size, "V(%u, %s, %s, %s, %s, \"%s\")", slot * 2 * INPUTS, result,
                 type_of(f, 0), type_of(f, 1), type_of(f, 2), text);
}

/* How many forms from `first` on are one kernel. */
static size_t chunk_length(size_t first)
{
    size_t n = first + 1;

    while (n < form_count && n - first < CHUNK && forms[n].scalar == forms[first].scalar &&
           !strcmp(forms[n].widths, forms[first].widths))
        n++;
    return n - first;
}

/* The source of all forms that `takes` takes, a line for each form, whether it is taken or not. */
static char *write_source(unsigned target, bool wave64, const bool *takes)
{
    const size_t room = sizeof frame + 64 + FORMS_MAX * 640;
    char *const source = malloc(room);
    size_t used;

    assert_non_null(source);
    used = (size_t)snprintf(source, room, "#define AGPRS %s\n%s",
                            target < 3 ? ", \"a3\", \"a5\", \"a9\"" : "", frame);
    for (size_t first = 0, length; first < form_count; first += length) {
        length = chunk_length(first);
        used += (size_t)snprintf(source + used, room - used, "BEGIN(%zu, %s) ", first,
                                 forms[first].scalar ? "GROUP" : "GROUP * 48 + LANE");
        for (size_t n = first; n < first + length; n++) {
            if (takes[n])
                write_form(&forms[n], (unsigned)(n - first), target, wave64, source + used,
                           room - used);
            strcat(source + used, n + 1 < first + length ? "\n" : "}\n");
            used += strlen(source + used);
            assert_true(used + 1024 < room);
        }
    }
    return source;
}

/* ---- Running --------------------------------------------------------------------------------- */

static uint64_t x_in[INPUTS], y_in[INPUTS], z_in[INPUTS], r_out[CHUNK * 2 * INPUTS];

static uint32_t input32(uint64_t *random)
{
    static const uint32_t special[] = {
        0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
        0x7f800001, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3c003c00, 0x7c00fc00,
        0x00018001, 0x7bff0400, 0x477fefff, 0x477ff000, 0x33000000, 0x3f803f80, 0xffffffff,
        0x80808080, 0x7f7f7f7f, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x7fffffff, 0x8000ffff};
    const uint64_t n = t_random(random);

    switch (t_random(random) % 6) {
    case 0:
        return special[n % (sizeof special / sizeof *special)];
    case 1: /* halves of moderate size */
        return ((uint32_t)n & 0x9fff9fffu) + 0x2c002c00u;
    case 2: /* f32 of moderate size */
        return bits32((float)((int32_t)(n & 0xffffff) - 0x800000) / 65536.0f);
    case 3: /* small integers */
        return (uint32_t)(n % 200) - 70;
    default:
        return (uint32_t)n;
    }
}

static uint64_t input64(uint64_t *random)
{
    static const uint64_t special[] = {0,
                                       0x8000000000000000,
                                       0x3ff0000000000000,
                                       0x7ff0000000000000,
                                       0xfff0000000000000,
                                       0x7ff8000000000000,
                                       0x7ff0000000000001,
                                       1,
                                       0x000fffffffffffff,
                                       0x0010000000000000,
                                       0x7fefffffffffffff,
                                       0x41dfffffffc00000,
                                       0xc1e0000000000000,
                                       0x41efffffffe00000,
                                       0xffffffffffffffff};
    const uint64_t n = t_random(random);

    switch (t_random(random) % 4) {
    case 0:
        return special[n % (sizeof special / sizeof *special)];
    case 1:
        return bits64((double)(int64_t)n / 0x1p40);
    default:
        return input32(random) | (uint64_t)input32(random) << 32;
    }
}

static void fill(const struct form *f, uint64_t *random)
{
    uint64_t *const in[3] = {x_in, y_in, z_in};

    for (unsigned n = 0; n < INPUTS; n++)
        for (unsigned k = 0; k < 3; k++)
            in[k][n] = input64(random);
    /* low words of doubles are often zero: what has one register has more to it */
    for (unsigned k = 0; k < 3; k++)
        if (k >= strlen(f->widths) || f->widths[k] == '1')
            for (unsigned n = 0; n < INPUTS; n++)
                in[k][n] = input32(random) | (in[k][n] >> 32) << 32;
}

static void check_one(const struct form *f, const uint64_t *r, const char *target, bool wave64,
                      unsigned i)
{
    const uint64_t x = x_in[i], y = y_in[i], z = z_in[i], got = r[f->scalar ? 2 * i : i];

    lane = i % ITEMS % (wave64 ? 64 : 32);
    scc = z >> 63;
    const uint64_t want =
        f->formula ? f->formula(x, y, z) : (order(f->kind, x, y) & f->accepts) != 0;
    if (!matches(f->result, want, got))
        fail_msg("%s: %s%s of 0x%llx, 0x%llx, 0x%llx is 0x%llx, not 0x%llx", target, f->name, f->id,
                 (unsigned long long)x, (unsigned long long)y, (unsigned long long)z,
                 (unsigned long long)got, (unsigned long long)want);
    if (f->scalar && r[2 * i + 1] != scc_after)
        fail_msg("%s: %s%s of 0x%llx, 0x%llx, 0x%llx, SCC %u leaves SCC %u", target, f->name, f->id,
                 (unsigned long long)x, (unsigned long long)y, (unsigned long long)z, (unsigned)scc,
                 (unsigned)r[2 * i + 1]);
}

static void check_chunk(struct t_gpu *g, size_t first, size_t length, const bool *takes,
                        bool wave64, uint64_t *random)
{
    const struct form *const f = &forms[first];
    const struct t_buffer buffers[] = {{x_in, sizeof x_in, QUERN_SIM_READ, "x"},
                                       {y_in, sizeof y_in, QUERN_SIM_READ, "y"},
                                       {z_in, sizeof z_in, QUERN_SIM_READ, "z"},
                                       {r_out, sizeof r_out, QUERN_SIM_WRITE, "r"}};
    const unsigned count = f->scalar ? SCALAR_INPUTS : INPUTS;
    char name[24];

    snprintf(name, sizeof name, "k%zu", first);
    const struct t_launch launch = {.kernel = name,
                                    .groups = {f->scalar ? count : GROUPS},
                                    .items = {f->scalar ? 1 : ITEMS},
                                    .buffers = buffers,
                                    .count = 4};
    fill(f, random);
    t_gpu_run(g, &launch);
    for (size_t n = first; n < first + length; n++)
        for (unsigned i = 0; i < count && takes[n]; i++)
            check_one(&forms[n], r_out + (n - first) * 2 * INPUTS, g->target, wave64, i);
}

static void run_target(unsigned target, bool wave64, enum quern_sim_check check,
                       enum quern_sim_isa isa)
{
    static bool takes[FORMS_MAX];
    struct target_id id;
    struct t_gpu g;
    uint64_t random = 7;

    make_forms();
    flushes_halves = target == 0;
    is_gfx12 = target == 5;
    assert_int_equal(target_parse(targets[target], &id), QUERN_OK);
    for (size_t n = 0; n < form_count; n++) {
        const char *const on = form_targets(&forms[n]);
        if (!on)
            fail_msg("%s%s: no target takes it; see --targets", forms[n].name, forms[n].id);
        takes[n] = strchr(on, (int)('0' + target)) != NULL;
    }
    if (!target_simulated(id.target)) {
        for (size_t n = 0; n < form_count; n++)
            if (takes[n])
                t_gpu_skip_row(forms[n].name, targets[target]);
        return;
    }
    t_gpu_open(&g, targets[target], wave64 && target >= 3 ? "-mwavefrontsize64" : "", check, isa,
               0);
    char *const source = write_source(target, wave64, takes);
    t_gpu_load(&g, source);
    free(source);
    for (size_t first = 0, length; first < form_count; first += length) {
        length = chunk_length(first);
        check_chunk(&g, first, length, takes, wave64, &random);
    }
    t_gpu_close(&g);
}

static void gfx90a(void **state)
{
    (void)state;
    run_target(0, true, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
}
static void gfx942(void **state)
{
    (void)state;
    run_target(1, true, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
}
static void gfx950(void **state)
{
    (void)state;
    run_target(2, true, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
}
static void gfx1100(void **state)
{
    (void)state;
    run_target(3, true, QUERN_CHECK_FULL, QUERN_ISA_X86_64);
}
static void gfx1151(void **state)
{
    (void)state;
    run_target(4, false, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
}
static void gfx1201(void **state)
{
    (void)state;
    run_target(5, false, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
}

/* ---- Asking the assemblers ------------------------------------------------------------------- */

/* Drops the forms whose lines the compiler complains about; false if there is none. */
static bool drop_refused(const char *log, unsigned first_line, bool *takes)
{
    bool any = false;

    for (const char *at = log; (at = strstr(at, ": error: ")) != NULL; at += 9) {
        const char *begin = at;
        while (begin > log && begin[-1] != '\n')
            begin--;
        unsigned line, column;
        const char *const colon = memchr(begin, ':', (size_t)(at - begin));
        if (*begin == '<' || !colon || sscanf(colon, ":%u:%u", &line, &column) != 2 ||
            line < first_line || line - first_line >= form_count)
            continue;
        any = any || takes[line - first_line];
        takes[line - first_line] = false;
    }
    return any;
}

static unsigned count_lines(const char *text)
{
    unsigned lines = 0;

    for (; (text = strchr(text, '\n')) != NULL; text++)
        lines++;
    return lines;
}

static void find_targets(unsigned target, bool *takes)
{
    static const char options[] = "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n"
                                  "-std=c++17\n-ferror-limit=0";
    const struct compiler_config config = {.worker_path = t_worker_path(), .jobs = 1};
    const unsigned first_line = count_lines(t_gpu_prelude) + count_lines(frame) + 2;
    struct compiler *compiler;
    struct answer answer = {0};

    if (compiler_open(&config, &compiler) != QUERN_OK)
        exit(1);
    /* gfx11's assembler takes these for the _iu8 and _iu4 forms, of unsigned numbers */
    for (size_t n = 0; n < form_count; n++)
        takes[n] = target < 3 || (strncmp(forms[n].name, "v_dot4_i32_i8", 13) &&
                                  strncmp(forms[n].name, "v_dot8_i32_i4", 13));
    while (answer.outcome != REPLY_DONE) {
        char *const source = write_source(target, target < 3, takes);
        char *const whole = malloc(strlen(t_gpu_prelude) + strlen(source) + 1);
        struct fields request = {.grow = realloc};
        strcat(strcpy(whole, t_gpu_prelude), source);
        fields_add_text(&request, targets[target]);
        fields_add_text(&request, options);
        fields_add_text(&request, whole);
        /* the pool gives the whole log, of which an error record holds the beginning */
        if (pool_request(compiler, FRAME_COMPILE, &request, "asking", &(struct watch){0},
                         &answer) != QUERN_OK)
            exit(1);
        char *const log = strndup(answer.message, answer.message_size);
        fprintf(stderr, "%s: %.0f ms\n", targets[target], answer.milliseconds);
        if (answer.outcome != REPLY_DONE && !drop_refused(log, first_line, takes)) {
            fprintf(stderr, "%s", log);
            exit(1);
        }
        free(log);
        free(answer.bytes);
        free(request.bytes);
        free(whole);
        free(source);
    }
    compiler_close(compiler);
}

static int print_targets(void)
{
    static bool takes[TARGETS][FORMS_MAX];

    make_forms();
    for (unsigned t = 0; t < TARGETS; t++)
        find_targets(t, takes[t]);
    printf("/* SPDX-License-Identifier: MIT */\n/* Written by test_sim_every --targets. */\n");
    for (size_t n = 0; n < form_count; n++) {
        printf("{\"%s%s\", \"", forms[n].name, forms[n].id);
        for (unsigned t = 0; t < TARGETS; t++)
            if (takes[t][n])
                printf("%u", t);
        printf("\"},\n");
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx1100), cmocka_unit_test(gfx1151), cmocka_unit_test(gfx1201),
        cmocka_unit_test(gfx90a),  cmocka_unit_test(gfx942),  cmocka_unit_test(gfx950),
    };
    if (argc == 2 && !strcmp(argv[1], "--targets"))
        return print_targets();
    return cmocka_run_group_tests_name("every", tests, NULL, NULL);
}
