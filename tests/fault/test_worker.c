/* SPDX-License-Identifier: MIT */
/* Workers that misbehave: in starting, in answering, and between requests. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_compile.h"
#include "t_context.h"
#include "t_fake_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Starting -------------------------------------------------------------------------------- */

static void executables_that_are_none(void **state)
{
    const struct t_world *const w = *state;
    char path[PATH_MAX];
    struct compiler *c;

    snprintf(path, sizeof path, "%s/absent", w->directory);
    c = t_fake_open_path(w, path);
    assert_int_equal(t_fake_ask(c), QUERN_E_TOOLCHAIN);
    t_message_has(path);
    t_message_has("No such file");
    /* it may be installed later */
    FILE *const f = fopen(path, "w");
    fputs("no program\n", f);
    fclose(f);
    assert_int_equal(t_fake_ask(c), QUERN_E_TOOLCHAIN);
    t_message_has("cannot run");
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(t_fake_ask(c), QUERN_E_TOOLCHAIN);
    t_message_has("Exec format error");
    assert_int_equal(t_compiler_stats(c).started, 0);
    compiler_close(c);

    c = t_fake_open_path(w, "relative/path");
    assert_int_equal(t_fake_ask(c), QUERN_E_TOOLCHAIN);
    t_message_has("absolute");
    compiler_close(c);
}

static void workers_that_do_not_start(void **state)
{
    static const struct {
        const char *mode;
        quern_status status;
        const char *message;
    } cases[] = {{"start-exit", QUERN_E_WORKER, "while starting"},
                 {"start-hang", QUERN_E_TIMEOUT, "400 ms while starting"},
                 {"start-stopped", QUERN_E_TIMEOUT, "400 ms while starting"},
                 {"start-build", QUERN_E_TOOLCHAIN, "is \"quern 7 protocol 9\""},
                 {"start-short", QUERN_E_WORKER, "malformed"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct compiler *const c = t_fake_open(*state, cases[i].mode);
        assert_int_equal(t_fake_ask(c), cases[i].status);
        t_message_has(cases[i].message);
        assert_int_equal(t_compiler_stats(c).started, 0);
        assert_true(t_fake_is_gone(*state, cases[i].mode));
        compiler_close(c);
    }
}

static void after_many_deaths_comes_a_pause(void **state)
{
    struct compiler *const c = t_fake_open(*state, "start-exit");

    for (int i = 0; i < 8; i++) {
        assert_int_equal(t_fake_ask(c), QUERN_E_WORKER);
        t_message_has("while starting");
    }
    assert_int_equal(t_fake_ask(c), QUERN_E_WORKER);
    t_message_has("the last 8 compiler workers died");
    compiler_close(c);
}

/* ---- Answering ------------------------------------------------------------------------------- */

static void a_good_worker_is_kept(void **state)
{
    static const char *const modes[] = {"good", "slowly", "flood"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct compiler *const c = t_fake_open(*state, modes[i]);
        for (int n = 0; n < 3; n++)
            assert_int_equal(t_fake_ask(c), QUERN_OK);
        assert_int_equal(t_compiler_stats(c).started, 1);
        assert_int_equal(t_compiler_stats(c).died, 0);
        compiler_close(c);
        assert_true(t_fake_is_gone(*state, modes[i]));
    }
}

/* Each fails clearly, and the same request is then refused without a worker. */
static void workers_that_fail(void **state)
{
    static const struct {
        const char *mode;
        quern_status status;
        const char *message;
    } cases[] = {{"report-signal", QUERN_E_WORKER, "signal 11 (SIGSEGV"},
                 {"report-exit", QUERN_E_WORKER, "exited with status 3"},
                 {"report-odd", QUERN_E_WORKER, "unreadable report"},
                 {"garbage", QUERN_E_WORKER, "no reply"},
                 {"no-answer", QUERN_E_WORKER, "cannot be read"},
                 {"outcome", QUERN_E_WORKER, "cannot be read"},
                 {"bent-kind", QUERN_E_WORKER, "no reply"},
                 {"bent-id", QUERN_E_WORKER, "no reply"},
                 {"bent-digest", QUERN_E_WORKER, "no reply"},
                 {"bent-version", QUERN_E_WORKER, "no reply"},
                 {"bent-magic", QUERN_E_WORKER, "no reply"},
                 {"bent-length", QUERN_E_WORKER, "no reply"},
                 {"bent-payload", QUERN_E_WORKER, "no reply"},
                 {"hang", QUERN_E_TIMEOUT, "400 ms"},
                 {"stopped", QUERN_E_TIMEOUT, "400 ms"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct compiler *const c = t_fake_open(*state, cases[i].mode);
        assert_int_equal(t_fake_ask(c), cases[i].status);
        t_message_has(cases[i].message);
        t_message_has("listing the compiler's targets");
        if (!strncmp(cases[i].mode, "report", 6))
            assert_string_equal(quern_last_error()->log, "last words");
        assert_true(t_fake_is_gone(*state, cases[i].mode));
        assert_int_equal(t_fake_ask(c), QUERN_E_WORKER);
        t_message_has("not tried again");
        assert_int_equal(t_compiler_stats(c).started, 1);
        assert_int_equal(t_compiler_stats(c).died, 1);
        assert_int_equal(t_compiler_stats(c).timeouts, cases[i].status == QUERN_E_TIMEOUT);
        compiler_close(c);
    }
}

/* A death that nobody explains may have another cause than the request: it gets a second chance. */
static void workers_that_vanish(void **state)
{
    static const char *const modes[] = {"crash", "killed", "half-header", "half-payload"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct compiler *const c = t_fake_open(*state, modes[i]);
        for (int n = 0; n < 2; n++) {
            assert_int_equal(t_fake_ask(c), QUERN_E_WORKER);
            t_message_has("vanished");
        }
        assert_int_equal(t_fake_ask(c), QUERN_E_WORKER);
        t_message_has("not tried again");
        assert_int_equal(t_compiler_stats(c).started, 2);
        compiler_close(c);
    }
}

/* What happens between requests is not held against the next one. */
static void idle_workers_that_misbehave(void **state)
{
    static const char *const modes[] = {"twice", "dies-idle"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct compiler *const c = t_fake_open(*state, modes[i]);
        assert_int_equal(t_fake_ask(c), QUERN_OK);
        if (!strcmp(modes[i], "dies-idle"))
            assert_true(t_fake_is_gone(*state, modes[i])); /* before the next request */
        assert_int_equal(t_fake_ask(c), QUERN_OK);
        assert_int_equal(t_compiler_stats(c).started, 2);
        assert_int_equal(t_compiler_stats(c).died, 1);
        compiler_close(c);
    }
}

static void a_flood_of_output_is_bounded(void **state)
{
    struct compiler *const c = t_fake_open(*state, "flood-forever");

    assert_int_equal(t_fake_ask(c), QUERN_E_TIMEOUT);
    assert_true(strlen(quern_last_error()->log) > 1000);
    assert_int_equal(strspn(quern_last_error()->log, "#"), strlen(quern_last_error()->log));
    assert_true(t_fake_is_gone(*state, "flood-forever"));
    compiler_close(c);
}

static void a_worker_that_does_not_read(void **state)
{
    struct compiler *const c = t_fake_open(*state, "deaf");
    const size_t size = 4 << 20;
    char *const source = malloc(size + 1);
    const struct compile_job job = {source, "gfx1100", ""};
    struct compile_result r;

    memset(source, ' ', size);
    source[size] = 0;
    assert_int_equal(compiler_compile(c, &job, &r), QUERN_E_TIMEOUT);
    assert_null(r.object);
    free(source);
    compiler_close(c);
}

static void emitted(void *user, uint64_t offset, unsigned size, const char *text)
{
    (void)offset, (void)size, (void)text;
    ++*(int *)user;
}

/* Nothing is emitted of a disassembly that is wrong anywhere. */
static void disassemblies_that_do_not_fit(void **state)
{
    static const char *const modes[] = {"code-gap",  "code-overlap", "code-beyond",
                                        "code-text", "code-still",   "code-few"};
    int count = 0;
    struct compiler *c;

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        c = t_fake_open(*state, modes[i]);
        assert_int_equal(compiler_disassemble(c, "gfx1100", "12345678", 8, emitted, &count),
                         QUERN_E_WORKER);
        assert_int_equal(count, 0);
        compiler_close(c);
    }
    c = t_fake_open(*state, "code-right");
    assert_int_equal(compiler_disassemble(c, "gfx1100", "12345678", 8, emitted, &count), QUERN_OK);
    assert_int_equal(count, 2);
    compiler_close(c);
}

int main(int argc, char **argv)
{
    t_fake_worker(argc, argv);

#define TEST(name) cmocka_unit_test_setup_teardown(name, t_world_make, t_world_end)
    const struct CMUnitTest tests[] = {
        TEST(executables_that_are_none),
        TEST(workers_that_do_not_start),
        TEST(after_many_deaths_comes_a_pause),
        TEST(a_good_worker_is_kept),
        TEST(workers_that_fail),
        TEST(workers_that_vanish),
        TEST(idle_workers_that_misbehave),
        TEST(a_flood_of_output_is_bounded),
        TEST(a_worker_that_does_not_read),
        TEST(disassemblies_that_do_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
