/* SPDX-License-Identifier: MIT */
/*
 * quern tune: measures the shapes that a kernel may have on the GPU of this machine, and notes the
 * fastest in the tuning table: only if it wins by more than measurements differ, and, where the
 * software GPU runs the target, only after it found the shape's answers right. A dry run only
 * measures.
 */
#include "files/files.h"
#include "command/options.h"
#include "command/table.h"
#include "files/json_file.h"
#include "measure/timing.h"
#include "model/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHAPES_MAX 256
#define SHAPES_ALL 32768 /* more than any kernel has */
#define M_TUNED    64    /* kernels for more rows, those of tiles in LDS, are not tuned */
#define M_USUAL    8     /* M up to which kernels are tuned if --m is not given */
#define WORTH      0.98  /* a shape is noted if it takes less than this part of the model's time */
#define TABLE_MAX  (1 << 20)

struct tune {
    struct common common;
    struct m_set set;
    uint64_t rotate;
    int shapes; /* shapes that are measured for each kernel */
    const char *manifest, *out;
    bool dry_run, spread;
    struct quern_device_info device;
    struct quern_target_info target;
    quern_ctx *ctx;
    char *path;   /* the tuning table's file; null in a dry run */
    char **lines; /* its entries: those that were there, and new ones */
    size_t count, room;
    json_t *list;
    struct table table;
};

/* ---- The table's lines ----------------------------------------------------------------------- */

/* The length of an entry's beginning that says what it is for: "PROBLEM | m=M". */
static size_t subject(const char *line)
{
    const char *const first = strstr(line, " | ");
    const char *const second = first ? strstr(first + 3, " | ") : NULL;

    return second ? (size_t)(second - line) : strlen(line);
}

/* Adds an entry, in place of one for the same problem and rows. `line` is malloc'ed, and becomes
 * the table's. */
static int put_line(struct tune *t, char *line)
{
    const size_t n = line ? subject(line) : 0;

    if (!line)
        return fail("out of memory");
    for (size_t i = 0; i < t->count; i++)
        if (subject(t->lines[i]) == n && !strncmp(t->lines[i], line, n)) {
            free(t->lines[i]);
            t->lines[i] = line;
            return EXIT_OK;
        }
    if (t->count == t->room) {
        const size_t room = t->room ? 2 * t->room : 64;
        char **const larger = realloc(t->lines, room * sizeof *larger);
        if (!larger) {
            free(line);
            return fail("out of memory");
        }
        t->lines = larger;
        t->room = room;
    }
    t->lines[t->count++] = line;
    return EXIT_OK;
}

/* Removes the entry for a problem and rows: the model's choice is the fastest. */
static void drop_line(struct tune *t, const char *about)
{
    for (size_t i = 0; i < t->count; i++)
        if (subject(t->lines[i]) == strlen(about) && !strncmp(t->lines[i], about, strlen(about))) {
            free(t->lines[i]);
            memmove(&t->lines[i], &t->lines[i + 1], (--t->count - i) * sizeof *t->lines);
            return;
        }
}

/* Reads the entries of the table that is there already. A table that is not sound is an error: it
 * is not to be overwritten. */
static int read_table(struct tune *t)
{
    char *text = NULL, *bytes = NULL, *save = NULL;
    size_t size;

    int status = EXIT_OK;
    if (t->out && access(t->path, F_OK) && errno == ENOENT)
        return EXIT_OK;
    if (t->out) {
        status = file_read(t->path, TABLE_MAX, &text, &size);
    } else {
        const quern_status e =
            quern_table_read(t->ctx, QUERN_TABLE_TUNING, t->target.name, &bytes, &size);
        if (e)
            return fail_status(e, NULL);
        if (!bytes)
            return EXIT_OK;
        text = malloc(size + 1);
        if (text) { /* all of it: a table that has a NUL in it is refused below */
            memcpy(text, bytes, size);
            text[size] = 0;
        }
        free(bytes);
        status = text ? EXIT_OK : fail("out of memory");
    }
    if (!status && quern_table_check(QUERN_TABLE_TUNING, t->target.name, text, size))
        status = fail("%s: %s; mend or remove it", t->path, quern_last_error()->message);
    char *line = status ? NULL : strtok_r(text, "\n", &save);
    for (; line && !status; line = strtok_r(NULL, "\n", &save))
        if (*line != '#' && strncmp(line, "quern-tuning ", 13) != 0)
            status = put_line(t, strdup(line));
    free(text);
    return status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int write_table(struct tune *t)
{
    struct outputs outputs = {0};
    char *text = NULL, date[32];
    size_t size = 0;
    FILE *const f = open_memstream(&text, &size);

    if (!f)
        return fail("out of memory");
    timing_date(date);
    if (t->count)
        qsort(t->lines, t->count, sizeof *t->lines, by_text);
    fprintf(f, "quern-tuning 1 %s\n# %s, %u compute units, %.2f GHz, %s runtime %d, %s\n",
            t->target.name, shown_line(t->device.name), t->device.compute_units,
            t->device.clock_ghz, t->device.kind == QUERN_DEVICE_CUDA ? "CUDA" : "HIP",
            t->device.runtime_version, date);
    for (size_t i = 0; i < t->count; i++)
        fprintf(f, "%s\n", t->lines[i]);
    int status = fclose(f) ? fail("out of memory") : EXIT_OK;
    if (!status && !t->out) {
        const quern_status e =
            quern_table_write(t->ctx, QUERN_TABLE_TUNING, t->target.name, text, size);
        status = e ? fail_status(e, NULL) : EXIT_OK;
    } else if (!status && !(status = outputs_add(&outputs, t->path, text, size))) {
        status = outputs_commit(&outputs);
    }
    outputs_discard(&outputs);
    free(text);
    return status;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

/* One kernel of a problem. */
struct kernel {
    const struct quern_problem *problem;
    const char *text;
    int m; /* rows that it is measured with: as many as it serves at once */
    struct quern_shape shapes[SHAPES_MAX];
    double us[SHAPES_MAX]; /* 0: could not be measured */
    size_t count;
};

/* Measures a shape; of several measurements the shortest counts. A shape that cannot be compiled or
 * launched is reported and loses; it is no reason to stop. */
static void measure_shape(struct tune *t, struct kernel *k, size_t i, struct timing *timing)
{
    struct timing_result result;
    quern_op *op;

    const quern_status e = quern_op_create_shape(t->ctx, k->problem, k->m, k->shapes[i].words, &op);
    if (e) {
        fail_status(e, k->shapes[i].words);
        return;
    }
    if (!timing_measure(timing, op, &result) && (k->us[i] == 0 || result.median_us < k->us[i]))
        k->us[i] = result.median_us;
    quern_op_release(op);
}

/* EXIT_FAILED when the software GPU finds that the answers of a shape are wrong. */
static int verify(struct tune *t, const struct kernel *k, size_t i)
{
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_op *op;

    if (!t->target.verified)
        return EXIT_OK;
    quern_status e = quern_op_create_shape(t->ctx, k->problem, k->m, k->shapes[i].words, &op);
    if (e)
        return fail_status(e, k->shapes[i].words);
    e = quern_verify(op, k->m, 1, QUERN_CHECK_FAST, &v);
    quern_op_release(op);
    return e ? fail_status(e, k->shapes[i].words) : EXIT_OK;
}

/* Each shape with what the model expected and what it took, null where it could not be measured: by
 * these the model's constants are fitted and its order of shapes is judged. */
static json_t *measured(const struct kernel *k)
{
    json_t *const list = json_array();

    for (size_t i = 0; i < k->count; i++)
        json_array_append_new(list, json_make("{s:s, s:f, s:o}", "shape", k->shapes[i].words,
                                              "model_us", k->shapes[i].model_us, "us",
                                              k->us[i] > 0 ? json_real(k->us[i]) : json_null()));
    return list;
}

static int note_result(struct tune *t, struct kernel *k, size_t best)
{
    const bool wins = best && k->us[best] < WORTH * k->us[0];
    const bool other = wins && !t->dry_run;
    const size_t room = strlen(k->text) + sizeof k->shapes->words + 64;
    char *const line = malloc(room);
    int status = EXIT_OK;

    if (!line)
        return fail("out of memory");
    if (other && (status = verify(t, k, best))) {
        free(line);
        return status;
    }
    snprintf(line, room, "%s | m=%d", k->text, k->m);
    if (!other)
        drop_line(t, line);
    if (t->common.json)
        json_array_append_new(
            t->list, json_make("{s:s, s:i, s:s, s:f, s:s, s:f, s:b, s:I, s:o}", "problem", k->text,
                               "m", k->m, "model_shape", k->shapes[0].words, "model_choice_us",
                               k->us[0], "shape", k->shapes[best].words, "us", k->us[best], "noted",
                               other, "shapes", (json_int_t)k->count, "measured", measured(k)));
    table_cell(&t->table, "%s", k->text);
    table_cell(&t->table, "%d", k->m);
    table_cell(&t->table, "%zu", k->count);
    table_cell(&t->table, "%.2f", k->us[0]);
    table_cell(&t->table, "%.2f", k->us[best]);
    table_cell(&t->table, "%s", wins ? k->shapes[best].words : "the model's");
    if (!other) {
        free(line);
        return EXIT_OK;
    }
    const size_t n = strlen(line);
    /* to the hundredth, whatever the locale's point is */
    const unsigned long long hundredths = (unsigned long long)(100 * k->us[best] + 0.5);
    snprintf(line + n, room - n, " | %s | us=%llu.%02llu", k->shapes[best].words, hundredths / 100,
             hundredths % 100);
    return put_line(t, line);
}

static int tune_kernel(struct tune *t, struct kernel *k)
{
    struct timing *timing = NULL;
    size_t best = 0;

    const int status = timing_prepare(t->ctx, k->problem, k->m, t->rotate, CHOICES_EVEN, &timing);
    for (size_t i = 0; !status && i < k->count; i++) {
        measure_shape(t, k, i, timing);
        if (k->us[i] > 0 && (k->us[best] == 0 || k->us[i] < k->us[best]))
            best = i;
    }
    /* the two that matter are measured again, one after the other: clocks rise and fall while all
     * the shapes are measured */
    if (!status && best) {
        measure_shape(t, k, 0, timing);
        measure_shape(t, k, best, timing);
    }
    timing_free(timing);
    if (status)
        return status;
    if (k->us[0] == 0)
        return fail("%s: the model's choice for %d rows could not be measured", k->text, k->m);
    return note_result(t, k, best);
}

/* Finds the rows that the kernel which serves m rows computes at once. */
static int rows_of(struct tune *t, const struct quern_problem *problem, int64_t m,
                   const char *shape, int *rows)
{
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    quern_op *op;

    quern_status e = quern_op_create_shape(t->ctx, problem, m, shape, &op);
    if (e)
        return fail_status(e, NULL);
    e = quern_op_kernel(op, 0, &info);
    *rows = (int)info.m_hi;
    quern_op_release(op);
    return e ? fail_status(e, NULL) : EXIT_OK;
}

/* The shapes that are measured: the model's best, or with --spread its choice and others from the
 * whole of its order, as far apart from each other. */
static quern_status list_shapes(struct tune *t, struct kernel *k, int64_t m)
{
    k->count = (size_t)t->shapes;
    if (!t->spread)
        return quern_op_shapes(t->ctx, k->problem, m, k->shapes, &k->count);

    size_t all = SHAPES_ALL;
    struct quern_shape *const shapes = malloc(all * sizeof *shapes);
    if (!shapes)
        return QUERN_E_MEMORY; /* of which the library has said nothing */
    const quern_status e = quern_op_shapes(t->ctx, k->problem, m, shapes, &all);
    if (k->count > all)
        k->count = all;
    for (size_t i = 0; !e && i < k->count; i++)
        k->shapes[i] = shapes[i ? i * (all - 1) / (k->count - 1) : 0];
    free(shapes);
    return e;
}

static int tune_problem(struct tune *t, const struct quern_problem *problem, const char *text,
                        const struct m_set *set)
{
    static struct kernel k; /* large */
    int status = EXIT_OK;

    k.problem = problem;
    k.text = text;
    k.m = 0;

    for (int64_t m = 0; m_next(set, &m) && m <= M_TUNED;) {
        if (m <= k.m)
            continue; /* the kernel that was tuned last serves this m, too */
        memset(k.us, 0, sizeof k.us);
        const quern_status e = list_shapes(t, &k, m);
        if (e == QUERN_E_ARGUMENT && k.m)
            return EXIT_OK; /* this problem's largest kernel was the last */
        if (e)
            return e == QUERN_E_MEMORY ? fail("out of memory") : fail_status(e, text);
        if ((status = rows_of(t, problem, m, k.shapes[0].words, &k.m)) ||
            (status = tune_kernel(t, &k)))
            return status;
    }
    return EXIT_OK;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int open_all(struct tune *t)
{
    struct quern_cache_info cache = QUERN_INIT(struct quern_cache_info);
    char file[64];
    char *directory;

    int status = timing_open(&t->common.library, &t->ctx, &t->device);
    if (status)
        return status;
    t->target = (struct quern_target_info)QUERN_INIT(struct quern_target_info);
    quern_status e = quern_target_find(t->device.target, &t->target);
    if (!e && !t->out && !t->dry_run)
        e = quern_cache_info(t->ctx, &cache);
    if (e)
        return fail_status(e, NULL);
    if (t->dry_run)
        return EXIT_OK;
    if (!t->out && !cache.directory[0])
        return misuse("there is no cache directory for the table; name a file with --out");
    snprintf(file, sizeof file, "%s.tune", t->target.name);
    directory = t->out ? NULL : path_join(cache.directory, "tuning");
    t->path = t->out ? strdup(t->out) : directory ? path_join(directory, file) : NULL;
    free(directory);
    return t->path ? read_table(t) : fail("out of memory");
}

static int tune_manifest(struct tune *t)
{
    struct manifest manifest;
    int status = manifest_read(t->manifest, &manifest);

    for (size_t i = 0; !status && i < manifest.count; i++) {
        const struct manifest_line *const line = &manifest.lines[i];
        struct quern_problem problem;
        char text[QUERN_TEXT_MAX];
        if (line->target[0] && strcmp(line->target, t->target.name) != 0)
            continue;
        status = problem_from_text(line->text, &problem, text);
        if (!status && problem.op == QUERN_OP_GEMM)
            status = tune_problem(t, &problem, text, line->m.count ? &line->m : &t->set);
    }
    manifest_free(&manifest);
    return status;
}

static int print(struct tune *t)
{
    if (t->common.json)
        return json_print(json_make("{s:i, s:s, s:s, s:o, s:O}", "quern_tune", 1, "device",
                                    t->device.name, "target", t->target.name, "table",
                                    t->path ? json_make("s", t->path) : json_null(), "kernels",
                                    t->list));
    if (!table_print(&t->table, 1))
        return fail("out of memory");
    if (t->path)
        printf("%s\n", shown_line(t->path));
    return finish_output();
}

static int tune(struct tune *t)
{
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    int status;

    if (t->manifest && t->common.argument_count)
        return misuse("give a manifest or a problem, not both: --manifest %s and %s", t->manifest,
                      t->common.arguments[0]);
    if (t->dry_run && t->out)
        return misuse("a dry run writes no table: not both --dry-run and --out %s", t->out);
    if (t->spread && !t->dry_run)
        return misuse(
            "shapes of the whole of the model's order say nothing of the fastest: --spread "
            "needs --dry-run");
    if (!t->manifest && (status = options_problem(&t->common, &problem, text)))
        return status;
    if (!t->manifest && (problem.op == QUERN_OP_MOE || problem.op == QUERN_OP_MOE_ALIGN))
        return misuse("tune measures no shapes of op=moe and op=moe_align; those of \"%s\" are the "
                      "model's, and "
                      "'quern time' measures them",
                      text);
    if (!t->set.count)
        t->set = (struct m_set){.count = 1, .ranges = {{1, M_USUAL}}};
    if (!t->rotate)
        t->rotate = TIMING_ROTATE;
    if (!t->shapes)
        t->shapes = 16;
    if ((status = open_all(t)))
        return status;
    t->list = json_array();
    table_header(&t->table, t->dry_run ? "<problem|m|shapes|model us|best us|<fastest"
                                       : "<problem|m|shapes|model us|best us|<noted");
    status = t->manifest ? tune_manifest(t) : tune_problem(t, &problem, text, &t->set);
    /* what was measured before something failed is kept */
    const int written = t->dry_run ? EXIT_OK : write_table(t);
    if (!status)
        status = written;
    return status ? status : print(t);
}

int verb_tune(int argc, char **argv)
{
    static const struct usage usage = {
        "[--m LIST] PROBLEM | --manifest FILE",
        "Measures the most promising shapes of each kernel of PROBLEM, or of a manifest's\n"
        "layers, on the GPU of this machine, and notes those that beat the model's choice in\n"
        "the tuning table, which every later use of the cache directory follows.\n"};
    struct tune t = {0};
    const struct flag flags[] = {
        {"m", FLAG_M, &t.set, "LIST", "rows of A (1-8)"},
        {"manifest", FLAG_TEXT, &t.manifest, "FILE", "layers that QUERN_RECORD noted of a run"},
        {"shapes", FLAG_COUNT, &t.shapes, "N", "measured for each kernel (16)"},
        {"spread", FLAG_YES, &t.spread, NULL, "of all shapes, not the best (with --dry-run)"},
        {"out", FLAG_TEXT, &t.out, "FILE", "the table (tuning/GFX.tune in the cache directory)"},
        {"dry-run", FLAG_YES, &t.dry_run, NULL, "only measure: verify no shape, note none"},
        {"rotate", FLAG_SIZE, &t.rotate, "BYTES", "of weights that launches go through (512M)"},
        {0},
    };

    int status = options_parse(&t.common, argc, argv, &usage, flags);
    if (status < 0)
        status = tune(&t);
    for (size_t i = 0; i < t.count; i++)
        free(t.lines[i]);
    free(t.lines);
    free(t.path);
    json_decref(t.list);
    table_free(&t.table);
    quern_close(t.ctx);
    return status;
}
