/* SPDX-License-Identifier: MIT */
/* Error records, strings, keys, loops over threads. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/os.h"
#include "base/str.h"
#include "base/thread.h"
#include "t_context.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static quern_status deep(int n)
{
    FAIL_IF(n == 3, QUERN_E_BUFFER, "n is %d", n);
    return QUERN_OK;
}

static quern_status middle(int n)
{
    TRY(deep(n));
    FAIL(QUERN_E_IO, "the middle failed");
}

static void test_errors(void **state)
{
    struct error_record saved;

    (void)state;
    assert_int_equal(middle(3), QUERN_E_BUFFER);
    assert_string_equal(quern_last_error()->message, "n is 3");
    assert_string_equal(quern_last_error()->stage, "dispatch"); /* no folder of src */
    assert_non_null(strstr(quern_last_error()->condition, "n == 3 at tests/unit/test_base.c:"));
    error_log("a log");
    error_reproduce("make");
    assert_string_equal(quern_last_error()->fact, "n is 3");
    assert_string_equal(quern_last_error()->remedy, "");
    assert_int_equal(error_remedy("make it %d", 4), QUERN_E_BUFFER);
    assert_string_equal(quern_last_error()->message, "n is 3; make it 4");
    error_save(&saved);
    assert_int_equal(middle(1), QUERN_E_IO);
    assert_string_equal(quern_last_error()->message, "the middle failed");
    assert_string_equal(quern_last_error()->fact, "the middle failed");
    assert_string_equal(quern_last_error()->remedy, "");
    assert_string_equal(quern_last_error()->log, "");
    assert_int_equal(error_restore(&saved), QUERN_E_BUFFER);
    assert_string_equal(quern_last_error()->message, "n is 3; make it 4");
    assert_string_equal(quern_last_error()->fact, "n is 3");
    assert_string_equal(quern_last_error()->remedy, "make it 4");
    assert_string_equal(quern_last_error()->log, "a log");
    assert_string_equal(quern_last_error()->reproduce, "make");
}

/* Of a fact that fills the message the remedy is still told apart; and so is one that is cut. */
static void test_long_remedies(void **state)
{
    const struct quern_error *const e = quern_last_error();
    char many[3000];

    (void)state;
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = 0;
    error_set(QUERN_E_IO, "", "", "%s", many);
    error_remedy("wait");
    assert_int_equal(strspn(e->message, "x"), strlen(e->message));
    assert_in_range(strlen(e->message), 512, sizeof many - 2);
    assert_string_equal(e->fact, e->message);
    assert_string_equal(e->remedy, "wait");
    error_set(QUERN_E_IO, "", "", "late");
    error_remedy("%s", many);
    assert_int_equal(strspn(e->remedy, "x"), strlen(e->remedy));
    assert_in_range(strlen(e->remedy), 64, sizeof many - 2);
    assert_int_equal(strncmp(e->message, "late; xx", 8), 0);
    assert_string_equal(e->message + strlen("late; "), e->remedy);
    assert_string_equal(e->fact, "late");
}

/* The words that quern.h lists, whatever folder below the one that has a word the file is in. */
static void test_stages(void **state)
{
    static const struct {
        const char *file, *stage;
    } files[] = {{"src/store/entry.c", "store"},
                 {"src/sim/exec/x.c", "sim"},
                 {"src/base/extensible.c", "dispatch"},
                 {"src/dispatch/op.c", "dispatch"},
                 {"src/problem/problem.c", "problem"},
                 {"src/target/target.c", "target"},
                 {"src/plan/x/y.c", "plan"},
                 {"src/gen/gen.c", "gen"},
                 {"src/compile/pool.c", "compile"},
                 {"src/object/elf.c", "object"},
                 {"src/device/hip.c", "device"},
                 {"src/quant/int4.c", "quant"},
                 {"elsewhere.c", "dispatch"}};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        error_set(QUERN_E_IO, files[i].file, "", "a failure");
        assert_string_equal(quern_last_error()->stage, files[i].stage);
    }
}

static void test_text_is_shown_safely(void **state)
{
    static const struct {
        const char *bytes, *line, *lines, *data; /* null: as the bytes are */
    } texts[] = {
        {"plain", 0, 0, 0},
        {"\u00fc \u2192 \U0001f600 \u4e2d", 0, 0, 0},
        {"a\nb\tc\r", "a\\u000ab\\u0009c\\u000d", "a\nb\tc\\u000d", 0},
        {"\x1b]0;x\a", "\\u001b]0;x\\u0007", "\\u001b]0;x\\u0007", 0},
        {"\x7f\xc2\x80\xc2\x9b\u00a0", "\\u007f\\u0080\\u009b\u00a0", "\\u007f\\u0080\\u009b\u00a0",
         0},
        {"\u061c\u200e\u200f\u2027", "\\u061c\\u200e\\u200f\u2027", "\\u061c\\u200e\\u200f\u2027",
         0},
        {"\u2028\u202a\u202e\u202f", "\\u2028\\u202a\\u202e\u202f", "\\u2028\\u202a\\u202e\u202f",
         0},
        {"\u2065\u2066\u2069\u206a", "\u2065\\u2066\\u2069\u206a", "\u2065\\u2066\\u2069\u206a", 0},
        /* no UTF-8: a lone byte, one of C1 as Latin-1, a character cut short, one that is longer
         * than it need be, a surrogate, one above the last */
        {"\xff\x9b", "\\xff\\x9b", "\\xff\\x9b", "\\xff\\x9b"},
        {"\xe2\x80", "\\xe2\\x80", "\\xe2\\x80", "\\xe2\\x80"},
        {"\xe2\x80z", "\\xe2\\x80z", "\\xe2\\x80z", "\\xe2\\x80z"},
        {"\xc0\x9b", "\\xc0\\x9b", "\\xc0\\x9b", "\\xc0\\x9b"},
        {"\xe0\x82\x9b", "\\xe0\\x82\\x9b", "\\xe0\\x82\\x9b", "\\xe0\\x82\\x9b"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80"},
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\\xf4\\x90\\x80\\x80",
         "\\xf4\\x90\\x80\\x80"},
    };
    char out[256];

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *const bytes = texts[i].bytes;
        const char *const wanted[] = {texts[i].line, texts[i].lines, texts[i].data};
        for (int how = QUERN_SHOWN_LINE; how <= QUERN_SHOWN_DATA; how++) {
            const char *const text = wanted[how] ? wanted[how] : bytes;
            assert_int_equal(quern_text_shown(how, bytes, strlen(bytes), out, sizeof out),
                             strlen(text));
            assert_string_equal(out, text);
            /* in less room: as much as fits whole, and never a byte beyond */
            for (size_t room = 1; room <= strlen(text); room++) {
                memset(out, '#', sizeof out);
                const size_t n = quern_text_shown(how, bytes, strlen(bytes), out, room);
                assert_true(n < room && n + 6 >= room && !out[n] && out[room] == '#');
                assert_memory_equal(out, text, n);
            }
        }
    }
    assert_int_equal(quern_text_shown(QUERN_SHOWN_DATA, "a\0b", 3, out, sizeof out), 3);
    assert_memory_equal(out, "a\0b", 4);
    assert_int_equal(quern_text_shown(QUERN_SHOWN_LINE, "a\0b", 3, out, sizeof out), 8);
    assert_string_equal(out, "a\\u0000b");
    assert_int_equal(quern_text_shown(QUERN_SHOWN_LINE, NULL, 0, NULL, 0), 0);
}

static void test_error_messages_are_one_safe_line(void **state)
{
    char long_text[5000];

    (void)state;
    error_set(QUERN_E_IO, "a/b.c", "", "%s", "red \x1b[31m\n\x7f end");
    assert_string_equal(quern_last_error()->message, "red \\u001b[31m\\u000a\\u007f end");
    error_log("it is\n\tred: \x1b[31m\xff");
    error_reproduce("quern build \x9b");
    assert_string_equal(quern_last_error()->log, "it is\n\tred: \\u001b[31m\\xff");
    assert_string_equal(quern_last_error()->reproduce, "quern build \\x9b");
    memset(long_text, '\n', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    error_set(QUERN_E_IO, "a/b.c", long_text, "%s", long_text);
    assert_true(strlen(quern_last_error()->message) < 1024);
    assert_null(strchr(quern_last_error()->message, '\n'));
    /* a message may quote the one before it */
    error_set(QUERN_E_IO, "a/b.c", "", "first");
    error_set(QUERN_E_IO, "a/b.c", "", "second after %s", quern_last_error()->message);
    assert_string_equal(quern_last_error()->message, "second after first");
}

static void test_status_names(void **state)
{
    (void)state;
    assert_string_equal(quern_status_name(QUERN_E_ALIGN), "QUERN_E_ALIGN");
    assert_string_equal(quern_status_name((quern_status)1234), "unknown status");
}

static void *failing_realloc(void *p, size_t n)
{
    (void)p;
    (void)n;
    return NULL;
}

static void test_strings(void **state)
{
    struct str s = {0};

    (void)state;
    assert_string_equal(str_text(&s), "");
    for (int i = 0; i < 1000; i++)
        str_addf(&s, "%d,", i);
    assert_int_equal(s.length, 3890);
    assert_int_equal(strlen(s.text), s.length);
    str_clear(&s);
    str_add_bytes(&s, "a\0b", 3);
    assert_int_equal(s.length, 3);
    char *const taken = str_take(&s);
    assert_memory_equal(taken, "a\0b", 4);
    assert_null(s.text);
    free(taken);
    char *const empty = str_take(&s);
    assert_string_equal(empty, "");
    free(empty);

    void *(*const real)(void *, size_t) = os.realloc;
    os.realloc = failing_realloc;
    str_add(&s, "lost");
    os.realloc = real;
    assert_true(s.failed);
    str_add(&s, "nothing more is added after a failure");
    assert_int_equal(s.length, 0);
    assert_null(str_take(&s));

    str_add(&s, "kept");
    os.realloc = failing_realloc; /* there is room for a part of it */
    str_addf(&s, "%s", "a text that is longer than a small string's room, which is 64 bytes");
    os.realloc = real;
    assert_true(s.failed);
    assert_string_equal(str_text(&s), "kept");
    str_free(&s);
}

static void test_integers(void **state)
{
    static const int64_t values[] = {0, 7, -1, 10, -100, 151936, INT64_MAX, INT64_MIN};
    char room[DECIMAL_MAX], printed[32];
    struct str s = {0};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        snprintf(printed, sizeof printed, "%" PRId64, values[i]);
        assert_string_equal(decimal(room, values[i]), printed);
        str_clear(&s);
        str_add_integer(&s, values[i]);
        assert_string_equal(str_text(&s), printed);
    }
    str_free(&s);
}

/* The hash of the empty string, as xxhsum -H2 prints it. */
static void test_hash(void **state)
{
    char hex[33];
    struct hash128 h = hash128_of("", 0);

    (void)state;
    hex_from_bytes(hex, h.bytes, sizeof h.bytes);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

/* No two different lists of fields give the same bytes. */
static void test_keys_are_injective(void **state)
{
    struct str a = {0}, b = {0}, c = {0};

    (void)state;
    key_add_text(&a, "x", "ab");
    key_add_text(&a, "y", "c");
    key_add_text(&b, "x", "a");
    key_add_text(&b, "y", "bc");
    key_add_text(&c, "x", "ab\ny 1\nc");
    assert_string_equal(str_text(&a), "x 2\nab\ny 1\nc\n");
    assert_string_not_equal(str_text(&a), str_text(&b));
    assert_string_not_equal(str_text(&a), str_text(&c));
    str_free(&a);
    str_free(&b);
    str_free(&c);
}

struct tally {
    atomic_int calls[1000];
    atomic_int blocked;
};

static void count_call(void *user, size_t i)
{
    struct tally *const t = user;
    sigset_t mask;

    atomic_fetch_add(&t->calls[i], 1);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    atomic_fetch_add(&t->blocked, sigismember(&mask, SIGUSR1));
}

static void test_parallel_for(void **state)
{
    static struct tally t;
    sigset_t mask;

    (void)state;
    parallel_for(1000, 4, count_call, &t);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(t.calls[i], 1);
    parallel_for(0, 4, count_call, &t);
    parallel_for(3, 0, count_call, &t);
    assert_int_equal(t.calls[2], 2);
    assert_int_equal(t.calls[3], 1);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGUSR1)); /* the caller's mask is as it was */
}

struct lines {
    int count;
    char last[4096];
};

static void keep_line(void *user, enum quern_log_level level, const char *line)
{
    struct lines *const l = user;

    (void)level;
    l->count++;
    snprintf(l->last, sizeof l->last, "%s", line);
}

static void test_log(void **state)
{
    struct lines lines = {0};
    struct log log = {.function = keep_line, .user = &lines, .level = QUERN_LOG_WARN};

    (void)state;
    log_line(&log, QUERN_LOG_INFO, "too quiet");
    assert_int_equal(lines.count, 0);
    log_line(&log, QUERN_LOG_WARN, "tab\there %d", 5);
    assert_string_equal(lines.last, "tab\\u0009here 5");
    log.function = NULL;
    log_line(&log, QUERN_LOG_ERROR, "dropped");
    log_line(NULL, QUERN_LOG_ERROR, "dropped");
    assert_int_equal(lines.count, 1);
}

static void test_read_file(void **state)
{
    char *const directory = t_temp_dir();
    char path[PATH_MAX], *bytes;
    size_t size;

    (void)state;
    snprintf(path, sizeof path, "%s/file", directory);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "hello", 5), 5);
    close(fd);
    assert_int_equal(os_read_file(path, 5, &bytes, &size), 0);
    assert_int_equal(size, 5);
    assert_string_equal(bytes, "hello");
    free(bytes);
    assert_int_equal(os_read_file(path, 4, &bytes, &size), EFBIG);
    assert_int_equal(os_read_file(directory, 4, &bytes, &size), EINVAL);
    unlink(path);
    assert_int_equal(os_read_file(path, 4, &bytes, &size), ENOENT);
    t_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_long_remedies),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_text_is_shown_safely),
        cmocka_unit_test(test_error_messages_are_one_safe_line),
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_keys_are_injective),
        cmocka_unit_test(test_parallel_for),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_read_file),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
