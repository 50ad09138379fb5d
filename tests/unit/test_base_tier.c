/* SPDX-License-Identifier: MIT */
/*
 * The base kernels that come with the library, as hosts meet them: which flag gives what where
 * kernels may be compiled, may not be, or cannot be (the table of docs/embedding.md is what this
 * test finds); bundles that are damaged, or of another library; compilers that fail. How kernels
 * change under load is in test_base_swaps.c. This file is long because all of it is told of the
 * same few kernels.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_base.h"
#include "t_build.h"
#include "t_context.h"
#include "t_fake_worker.h"
#include "t_paths.h"
#include "t_store.h"

#include "problem/problem.h"
#include "store/bundle_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define TARGET       "gfx1201"
#define LAYER        "wq=nf4 n=16 k=64 a=bf16"
#define VERSION      "0.1.0"
#define ROWS         3
#define ROWS_MAX     8 /* that ops are created for */

static struct t_base base;
static struct quern_problem layer;

static int set_up(void **state)
{
    static const char *const layers[] = {LAYER " kernels=base"};

    (void)state;
    layer = t_problem(LAYER);
    t_base_make(&base, TARGET, layers, COUNT(layers), VERSION);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    t_base_remove(&base);
    return 0;
}

/* A context with an empty cache, and base kernels. */
struct host {
    char *cache, *said; /* warnings, a line each */
    quern_ctx *ctx;
    struct compiler *real; /* the context's own, where another was put in its place */
    struct t_layer l;
    quern_op *ops[16]; /* created, released with the host */
    int op_count;
};

static void hear(void *user, enum quern_log_level level, const char *line)
{
    struct host *const h = user;
    const size_t had = h->said ? strlen(h->said) : 0;

    (void)level;
    h->said = realloc(h->said, had + strlen(line) + 2);
    sprintf(h->said + had, "%s\n", line);
}

static struct host open_host(enum quern_jit jit, const struct t_base *b)
{
    struct host h = {.cache = t_temp_dir()};

    h.ctx = t_open(TARGET, h.cache, jit);
    if (b)
        t_base_give(h.ctx, b);
    t_layer_make(&h.l, h.ctx, &layer, ROWS, 0, 0, 1);
    return h;
}

static void listen_to(struct host *h)
{
    h->ctx->log.function = hear;
    h->ctx->log.user = h;
}

/* Has another compiler do what is compiled from now on; the software GPU keeps the real one. */
static void give_compiler(struct host *h, struct compiler *other)
{
    h->real = h->ctx->compiler;
    h->ctx->compiler = other;
}

/* Leaves a host without a compiler: it looks for one where there is none. */
static void without_compiler(struct host *h)
{
    const struct compiler_config nowhere = {.path = "/nowhere", .jobs = 1};
    struct compiler *none;

    assert_int_equal(compiler_open(&nowhere, &none), QUERN_OK);
    give_compiler(h, none);
}

static void close_host(struct host *h)
{
    t_layer_free(&h->l);
    while (h->op_count)
        quern_op_release(h->ops[--h->op_count]);
    quern_close(h->ctx);
    if (h->real)
        compiler_close(h->real);
    t_remove(h->cache);
    free(h->said);
}

static uint64_t stat_of(const struct host *h, enum quern_stat which)
{
    uint64_t values[QUERN_STAT_COUNT];

    assert_int_equal(quern_stats(h->ctx, values, QUERN_STAT_COUNT), QUERN_OK);
    return values[which];
}

static quern_status keep(struct host *h, quern_status status, quern_op *op)
{
    if (status == QUERN_OK) {
        assert_true(h->op_count < COUNT(h->ops));
        h->ops[h->op_count++] = op;
    }
    return status;
}

static quern_status create(struct host *h, unsigned flags, quern_op **op)
{
    const quern_status status = quern_op_create_flags(h->ctx, &layer, ROWS_MAX, flags, op);
    return keep(h, status, status == QUERN_OK ? *op : NULL);
}

/* Has kernels of the layer's op that are made from now on stay pending until lock_give. */
static struct lock *hold_making(struct host *h)
{
    struct quern_problem normal;
    quern_op *op;

    assert_int_equal(problem_normalise(&layer, &normal), QUERN_OK);
    assert_int_equal(op_find_or_add(h->ctx, &normal, &op), QUERN_OK);
    lock_take(&op->growing);
    return &op->growing;
}

/* ---- The table of docs/embedding.md ---------------------------------------------------------- */

/* Columns of the table, and the ways to get into each; a way has one of these. */
enum where { MAY, MAY_NOT, NO_COMPILER, CAPTURE, PLACES };
enum way {
    JIT_ON,
    JIT_WARN,
    JIT_OFF,
    JIT_ERROR,
    FLAG_NO_COMPILE,
    SEALED,
    NOWHERE,
    CAPTURING,
    WAYS
};
static const enum where where_is[WAYS] = {
    [JIT_OFF] = MAY_NOT, [JIT_ERROR] = MAY_NOT,   [FLAG_NO_COMPILE] = MAY_NOT,
    [SEALED] = MAY_NOT,  [NOWHERE] = NO_COMPILER, [CAPTURING] = CAPTURE};

static const struct {
    const char *name;
    unsigned flags;
} asked[] = {{"nothing", 0},
             {"with `QUERN_OP_NO_WAIT`", QUERN_OP_NO_WAIT},
             {"with `QUERN_OP_BASE`", QUERN_OP_BASE},
             {"with `QUERN_OP_BASE_ONLY`", QUERN_OP_BASE_ONLY}};

static quern_status is_capturing(struct device *d, void *stream, bool *capturing)
{
    (void)d, (void)stream;
    *capturing = true;
    return QUERN_OK;
}

/* Appends what a launch gives now. */
static void tell_launch(struct host *h, quern_op *op, char *cell)
{
    if (quern_op_launch(op, &h->l.args, ROWS, NULL) != QUERN_OK) {
        strcat(cell, "`NOT_READY`");
        return;
    }
    assert_true(t_layer_error(&h->l) < 5e-3);
    const bool own = atomic_load(&op->kernels) && !op->spelling.problem.kernels;
    strcat(cell, own ? "own kernels" : "base kernels");
}

static const char *word_of(quern_status status)
{
    static char word[64];
    const char *const name = quern_status_name(status);

    snprintf(word, sizeof word, "`%s`", !strncmp(name, "QUERN_E_", 8) ? name + 8 : name + 6);
    return word;
}

/* The counter that tells of it: the first of these that moved. */
static void tell_counter(const struct host *h, char *cell)
{
    static const enum quern_stat counters[] = {QUERN_STAT_COMPILE_OK, QUERN_STAT_COMPILE_FAILED,
                                               QUERN_STAT_COMPILE_REFUSED, QUERN_STAT_HIT_BASE};
    int i = 0;

    while (i < COUNT(counters) && !stat_of(h, counters[i]))
        i++;
    sprintf(cell + strlen(cell), "; %s%s%s", i < COUNT(counters) ? "`" : "",
            i < COUNT(counters) ? quern_stat_name(counters[i]) : "none",
            i < COUNT(counters) ? "`" : "");
}

/* What creating, launching and asking give, in words. */
static void find_cell(enum way way, unsigned flags, char cell[256])
{
    struct host h = open_host(way == JIT_OFF     ? QUERN_JIT_OFF
                              : way == JIT_ERROR ? QUERN_JIT_ERROR
                              : way == JIT_WARN  ? QUERN_JIT_WARN
                                                 : QUERN_JIT_ON,
                              &base);
    struct device_functions functions = *h.ctx->device->functions;
    const bool late = flags & (QUERN_OP_NO_WAIT | QUERN_OP_BASE);
    struct lock *const making = late ? hold_making(&h) : NULL;
    quern_op *op = NULL;

    *cell = 0;
    h.ctx->device->functions = &functions;
    if (way == NOWHERE)
        without_compiler(&h);
    assert_int_equal(quern_seal(way == SEALED ? QUERN_SEAL_FAIL : QUERN_SEAL_OPEN), QUERN_OK);
    quern_status status = QUERN_OK;
    if (way != CAPTURING || late || flags & QUERN_OP_BASE_ONLY)
        status = create(&h, flags | (way == FLAG_NO_COMPILE ? QUERN_OP_NO_COMPILE : 0), &op);
    if (way == CAPTURING) {
        const struct quern_problem p =
            flags & QUERN_OP_BASE_ONLY ? t_problem(LAYER " kernels=base") : layer;
        functions.capturing = is_capturing;
        status = quern_op_create_on(h.ctx, &p, ROWS_MAX, NULL, &op);
        keep(&h, status, op);
    }
    strcat(cell, word_of(status));
    strcat(cell, "; ");
    if (status == QUERN_OK) {
        char ready[64];
        tell_launch(&h, op, cell);
        if (making && way != CAPTURING)
            lock_give(making);
        snprintf(ready, sizeof ready, "%s",
                 word_of(way == CAPTURING ? quern_op_ready(op) : t_wait_ready(op)));
        if (late && !strcmp(ready, "`OK`")) {
            strcat(cell, ", then ");
            tell_launch(&h, op, cell);
        }
        sprintf(cell + strlen(cell), "; %s", ready);
    } else {
        strcat(cell, "–; –");
    }
    if (way != CAPTURING)
        tell_counter(&h, cell);
    if (making && (way == CAPTURING || status != QUERN_OK))
        lock_give(making);
    assert_int_equal(quern_seal(QUERN_SEAL_OPEN), QUERN_OK);
    close_host(&h);
}

/* The page has a row for each flag, with what is found in each column. */
static void test_table(void **state)
{
    char path[4200], cells[PLACES][256], row[2048];
    static char page[1 << 17];
    int wrong = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/../../docs/embedding.md", t_build());
    page[t_read_file(path, page, sizeof page - 1)] = 0;
    for (int f = 0; f < COUNT(asked); f++) {
        for (int way = 0; way < WAYS; way++) {
            char cell[256];
            const enum where where = where_is[way];
            find_cell((enum way)way, asked[f].flags, cell);
            if (way && where == where_is[way - 1])
                assert_string_equal(cell, cells[where]); /* whichever way it is */
            strcpy(cells[where], cell);
        }
        snprintf(row, sizeof row, "| %s | %s | %s | %s | %s |\n", asked[f].name, cells[MAY],
                 cells[MAY_NOT], cells[NO_COMPILER], cells[CAPTURE]);
        if (!strstr(page, row)) {
            print_message("docs/embedding.md lacks: %s", row);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* ---- Asking again, and asking by the environment --------------------------------------------- */

/* A host that cannot be changed has the flag from the environment; what is asked for again is not
 * planned again. */
static void test_environment(void **state)
{
    quern_op *op, *same;

    (void)state;
    assert_int_equal(setenv("QUERN_BASE", "on", 1), 0);
    struct host h = open_host(QUERN_JIT_OFF, &base);
    assert_int_equal(unsetenv("QUERN_BASE"), 0);
    assert_int_equal(create(&h, 0, &op), QUERN_OK);
    assert_int_equal(t_wait_ready(op), QUERN_E_WOULD_COMPILE);
    t_launch_right(op, &h.l);
    const uint64_t refused = stat_of(&h, QUERN_STAT_COMPILE_REFUSED);
    assert_int_equal(create(&h, 0, &same), QUERN_OK);
    assert_ptr_equal(same, op);
    assert_int_equal(t_wait_ready(op), QUERN_E_WOULD_COMPILE); /* and nothing was tried again */
    assert_int_equal(stat_of(&h, QUERN_STAT_COMPILE_REFUSED), refused);
    close_host(&h);

    /* off: those that came with the library are not used, whether or not this one has any */
    assert_int_equal(setenv("QUERN_BASE", "off", 1), 0);
    h = open_host(QUERN_JIT_OFF, NULL);
    assert_int_equal(create(&h, QUERN_OP_BASE_ONLY, &op), QUERN_E_WOULD_COMPILE);
    t_message_has("those that come with the library are not used (QUERN_BASE=off)");
    close_host(&h);

    /* on, where they do not serve: why is said too, and the command that makes the layer's own */
    assert_int_equal(setenv("QUERN_BASE", "on", 1), 0);
    h = open_host(QUERN_JIT_OFF, &base);
    const struct quern_problem exact = t_problem(LAYER " exact=batch_invariant");
    assert_int_equal(quern_op_create(h.ctx, &exact, ROWS_MAX, &op), QUERN_E_WOULD_COMPILE);
    t_message_has(
        "base kernels do not serve: base kernels make no promise: leave exact out; kernel ");
    t_message_has("; made by: quern prewarm --target " TARGET " --m 1-");
    close_host(&h);
    h = open_host(QUERN_JIT_OFF, NULL);
    h.ctx->base = (struct base_bundle){.none = "; there are none here"};
    assert_int_equal(create(&h, 0, &op), QUERN_E_WOULD_COMPILE);
    t_message_has("base kernels do not serve: there are none here; kernel ");
    close_host(&h);

    assert_int_equal(setenv("QUERN_BASE", "perhaps", 1), 0);
    struct quern_options options = QUERN_INIT(struct quern_options);
    options.target = TARGET;
    assert_int_equal(quern_open(&options, &h.ctx), QUERN_E_ARGUMENT);
    t_message_has("QUERN_BASE=perhaps; expected auto, on or off");
    assert_int_equal(unsetenv("QUERN_BASE"), 0);
}

/* Without a compiler base kernels serve a host that does not ask for them, unless it says no. */
static void test_no_compiler(void **state)
{
    quern_op *op, *same, *only;

    (void)state;
    for (int off = 0; off < 2; off++) {
        struct host h = open_host(QUERN_JIT_ON, &base);
        listen_to(&h);
        h.ctx->settings.base = off ? QUERN_BASE_OFF : QUERN_BASE_AUTO;
        without_compiler(&h);
        if (off) {
            assert_int_equal(create(&h, 0, &op), QUERN_E_TOOLCHAIN);
            t_message_has("/nowhere");
            close_host(&h);
            continue;
        }
        assert_int_equal(create(&h, 0, &op), QUERN_OK);
        assert_int_equal(quern_op_ready(op), QUERN_OK);
        t_launch_right(op, &h.l);
        const uint64_t failed = stat_of(&h, QUERN_STAT_COMPILE_FAILED);
        assert_int_equal(create(&h, 0, &same), QUERN_OK);
        assert_ptr_equal(same, op);
        assert_int_equal(create(&h, QUERN_OP_NO_COMPILE, &same), QUERN_E_WOULD_COMPILE);
        assert_int_equal(stat_of(&h, QUERN_STAT_COMPILE_FAILED), failed);
        const char *const why = strstr(h.said, "base kernels go on serving");
        assert_non_null(why);
        assert_null(strstr(why + 1, "base kernels go on serving")); /* once */
        assert_non_null(strstr(why, "/nowhere"));
        /* the op of base kernels alone is another, with the same bits */
        assert_int_equal(create(&h, QUERN_OP_BASE_ONLY, &only), QUERN_OK);
        assert_ptr_not_equal(only, op);
        assert_int_equal(quern_op_generation(only), 1);
        t_launch_right(only, &h.l);
        char *const bits = memcpy(malloc(h.l.c_bytes), h.l.c, h.l.c_bytes);
        t_launch_right(op, &h.l);
        assert_memory_equal(h.l.c, bits, h.l.c_bytes);
        free(bits);
        /* the explanation says what serves */
        char text[4096];
        quern_op_explain(op, ROWS, text, sizeof text);
        assert_non_null(strstr(text, "base kernels serve"));
        close_host(&h);
    }
}

/* ---- Bundles that are not the library's ------------------------------------------------------ */

/* One that is damaged anywhere is refused or its kernels are, which is counted, and kernels are
 * compiled. */
static void test_damage(void **state)
{
    static char bytes[1 << 20];
    const size_t size = t_read_file(base.path, bytes, sizeof bytes);
    struct bundle *sound;

    (void)state;
    assert_int_equal(bundle_open_memory(bytes, size, &sound), QUERN_OK);
    const uint64_t entries = part_at(sound, 0).offset;
    const uint64_t places[] = {BUNDLE_AT_VERSION,
                               BUNDLE_AT_ENTRIES,
                               BUNDLE_HEADER_BYTES + 3,
                               sound->layout.manifest,
                               sound->layout.digest,
                               sound->layout.end + 5,
                               entries + 9,
                               size - 1};
    bundle_close(sound);
    for (int i = 0; i <= COUNT(places); i++) {
        const bool shorter = i == COUNT(places);
        quern_op *op;
        if (!shorter)
            bytes[places[i]] ^= 0x10;
        t_write_file(base.path, bytes, shorter ? size - 7 : size);
        struct host h = open_host(QUERN_JIT_OFF, &base);
        const quern_status status = create(&h, QUERN_OP_BASE, &op);
        /* an entry of another kernel than those that are asked for does no harm */
        if (status != QUERN_OK) {
            assert_int_equal(status, QUERN_E_WOULD_COMPILE);
            assert_true(stat_of(&h, QUERN_STAT_BASE_DAMAGED) > 0);
        } else {
            assert_false(shorter);
            assert_true(places[i] >= entries);
        }
        close_host(&h);
        if (!shorter)
            bytes[places[i]] ^= 0x10;
    }
    /* where kernels may be compiled, they are */
    bytes[size / 2] ^= 1;
    bytes[BUNDLE_HEADER_BYTES] ^= 1;
    t_write_file(base.path, bytes, size);
    quern_op *op;
    struct host h = open_host(QUERN_JIT_ON, &base);
    listen_to(&h);
    assert_int_equal(create(&h, QUERN_OP_BASE, &op), QUERN_OK);
    assert_int_equal(quern_op_generation(op), 1);
    t_launch_right(op, &h.l);
    assert_int_equal(stat_of(&h, QUERN_STAT_BASE_DAMAGED), 1);
    assert_true(stat_of(&h, QUERN_STAT_COMPILE_OK) > 0);
    assert_non_null(strstr(h.said, "base kernels in "));
    close_host(&h);
    bytes[size / 2] ^= 1;
    bytes[BUNDLE_HEADER_BYTES] ^= 1;
    t_write_file(base.path, bytes, size);
}

/* A whole bundle with sound digests of its own, which another version's library was built with. */
static void test_other_version(void **state)
{
    static const char *const layers[] = {LAYER " kernels=base"};
    struct t_base previous;
    struct host h;
    quern_op *op;

    (void)state;
    t_base_make(&previous, TARGET, layers, COUNT(layers), "0.0.9");
    memcpy(previous.shipped.digest, base.shipped.digest, sizeof base.shipped.digest);
    h = open_host(QUERN_JIT_OFF, &previous);
    assert_int_equal(create(&h, QUERN_OP_BASE_ONLY, &op), QUERN_E_WOULD_COMPILE);
    t_message_has("of quern 0.0.9, is not the one that this library, of quern " VERSION);
    assert_int_equal(stat_of(&h, QUERN_STAT_BASE_DAMAGED), 1);
    assert_int_equal(stat_of(&h, QUERN_STAT_HIT_BASE), 0);
    close_host(&h);
    /* nothing that was signed or imported by somebody else is taken in its place either: no file,
     * and a file of nothing */
    assert_int_equal(remove(previous.path), 0);
    previous.shipped.target = "gfx"; /* of which no build has a file either */
    h = open_host(QUERN_JIT_OFF, &previous);
    assert_int_equal(create(&h, QUERN_OP_BASE_ONLY, &op), QUERN_E_WOULD_COMPILE);
    t_message_has("there are no base kernels for gfx at ");
    assert_int_equal(stat_of(&h, QUERN_STAT_BASE_DAMAGED), 0);
    close_host(&h);
    t_base_remove(&previous);
}

/* A library of another compiler than the one that made the bundle takes it by its sources. */
static void test_other_toolchain(void **state)
{
    quern_op *op;

    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        struct host h = open_host(QUERN_JIT_ON, &base);
        without_compiler(&h); /* whose identity is "none" */
        h.ctx->settings.toolchain = exact ? QUERN_TOOLCHAIN_EXACT : QUERN_TOOLCHAIN_ANY;
        assert_int_equal(create(&h, QUERN_OP_BASE_ONLY | QUERN_OP_NO_COMPILE, &op),
                         exact ? QUERN_E_WOULD_COMPILE : QUERN_OK);
        assert_int_equal(stat_of(&h, QUERN_STAT_HIT_BASE), stat_of(&h, QUERN_STAT_HIT_SOURCE));
        close_host(&h);
    }
}

/* ---- Compilers that fail --------------------------------------------------------------------- */

/* What compiles fails, hangs or is killed: base kernels serve, the reason is told once, and asking
 * without the flag tries again. */
static void test_compilers_that_fail(void **state)
{
    static const struct {
        const char *mode;
        quern_status status;
    } cases[] = {{"outcome", QUERN_E_WORKER},
                 {"hang", QUERN_E_TIMEOUT},
                 {"killed", QUERN_E_WORKER},
                 {"report-signal", QUERN_E_WORKER},
                 {"good", QUERN_E_OBJECT}}; /* an object that is none */

    for (int i = 0; i < COUNT(cases); i++) {
        struct host h = open_host(QUERN_JIT_ON, &base);
        quern_op *op, *same;
        listen_to(&h);
        give_compiler(&h, t_fake_open(*state, cases[i].mode));
        assert_int_equal(create(&h, QUERN_OP_BASE, &op), QUERN_OK);
        t_launch_right(op, &h.l);
        assert_int_equal(t_wait_ready(op), cases[i].status);
        t_launch_right(op, &h.l);
        assert_int_equal(quern_op_generation(op), 0);
        assert_int_equal(create(&h, QUERN_OP_BASE, &same), QUERN_OK);
        assert_ptr_equal(same, op);
        assert_int_equal(quern_op_ready(op), cases[i].status);
        const char *const why = strstr(h.said, "base kernels go on serving");
        assert_non_null(why);
        assert_null(strstr(why + 1, "base kernels go on serving"));
        assert_int_not_equal(create(&h, 0, &same), QUERN_OK);
        t_launch_right(op, &h.l);
        close_host(&h);
    }
}

/* ---- Eviction -------------------------------------------------------------------------------- */

/* When the entry of a made kernel is evicted, the process that has loaded it keeps it; the next one
 * has base kernels until it is made again. */
static void test_eviction(void **state)
{
    quern_op *op;

    (void)state;
    struct host h = open_host(QUERN_JIT_ON, &base);
    assert_int_equal(create(&h, QUERN_OP_BASE, &op), QUERN_OK);
    assert_int_equal(t_wait_ready(op), QUERN_OK);
    assert_int_equal(quern_cache_clear(h.ctx, NULL), QUERN_OK);
    t_launch_right(op, &h.l);
    assert_int_equal(quern_op_generation(op), 1);

    quern_ctx *const next = t_open(TARGET, h.cache, QUERN_JIT_OFF);
    struct t_layer l;
    t_base_give(next, &base);
    t_layer_make(&l, next, &layer, ROWS, 0, 0, 3);
    assert_int_equal(quern_op_create_flags(next, &layer, ROWS_MAX, QUERN_OP_BASE, &op), QUERN_OK);
    assert_int_equal(t_wait_ready(op), QUERN_E_WOULD_COMPILE);
    t_launch_right(op, &l);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(next);
    close_host(&h);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_no_compiler),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_other_toolchain),
        cmocka_unit_test_setup_teardown(test_compilers_that_fail, t_world_make, t_world_end),
        cmocka_unit_test(test_eviction),
    };

    t_fake_worker(argc, argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("base tier", tests, set_up, tear_down);
}
