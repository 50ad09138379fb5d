/* SPDX-License-Identifier: MIT */
/*
 * An entry whose key text was made to drive terminals, in a cache directory and in a bundle: every
 * verb that prints of it prints what is safe, and JSON that has all of it. What the command prints
 * of names and arguments is in tests/cli/test_terminal.py.
 */
#include "base/os.h"
#include "base/str.h"
#include "store/bundle.h"
#include "store/entry.h"
#include "t_paths.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROBLEM "--target gfx1151 --m 1 'wq=nf4 n=64 k=128 a=f16'"

/* Over the beginnings of values that the key has: C1 as Latin-1 and in UTF-8, a change of
 * direction, a title of the window, an end of line. Each is as long as what it replaces. */
static const struct {
    const char *before, *value;
} forged[] = {
    {"\ntoolchain 190\n", "\xc2\x9b"
                          "2J\xe2\x80\xae\x1b]0;title\a\x7f"},
    {"\nprocessor 7\n", "\x1b[2J\x9b\xff\r"},
};

static char out[1 << 20];

/* Runs the command with words for a shell; both streams go to `out`. */
static void run(const char *cache, const char *words)
{
    char line[2048];

    snprintf(line, sizeof line, "QUERN_CACHE_DIR='%s' '%s/bin/quern' %s 2>&1", cache, t_build(),
             words);
    FILE *const f = popen(line, "r");
    assert_non_null(f);
    const size_t n = fread(out, 1, sizeof out - 1, f);
    out[n] = 0;
    pclose(f);
}

/* What was printed is something, and as safe as can be: showing it safely changes nothing. */
static void is_safe(const char *has)
{
    char *const shown = malloc(6 * sizeof out);

    assert_non_null(shown);
    quern_text_shown(QUERN_SHOWN_LINES, out, strlen(out), shown, 6 * sizeof out);
    if (strcmp(shown, out) != 0 || !strstr(out, has))
        fail_msg("printed, or without %s: %s", has, shown);
    free(shown);
}

/* The object that was printed, behind what was said on stderr. */
static json_t *json_printed(void)
{
    const char *const begin = strchr(out, '{');

    assert_non_null(begin);
    json_t *const root = json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(root);
    return root;
}

/* The one file of a cache's kind below its v1/objects. */
static size_t read_entry(const char *cache, void *bytes, size_t room)
{
    char line[2048], path[PATH_MAX] = "";

    snprintf(line, sizeof line, "ls '%s'/v1/objects/*/*.qk", cache);
    FILE *const f = popen(line, "r");
    assert_non_null(f);
    assert_non_null(fgets(path, sizeof path, f));
    assert_int_equal(pclose(f), 0);
    path[strcspn(path, "\n")] = 0;
    return t_read_file(path, bytes, room);
}

/* Makes a real entry, and of it one under another key, in a cache of its own and in a bundle. */
static void forge(const struct t_store *t, const char *cache, const char *pack)
{
    static char bytes[1 << 18], text[1 << 17];
    struct store_record record;
    char path[PATH_MAX + 64], hex[33];
    void *made;
    size_t size;

    run(t->cache, "prewarm " PROBLEM);
    size = read_entry(t->cache, bytes, sizeof bytes);
    assert_int_equal(entry_decode(bytes, size, &record), QUERN_OK);
    assert_true(record.key_text_bytes < sizeof text);
    memcpy(text, record.key_text, record.key_text_bytes);
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        char *const at = strstr(text, forged[i].before);
        assert_non_null(at);
        memcpy(at + strlen(forged[i].before), forged[i].value, strlen(forged[i].value));
    }
    record.key_text = text;
    const struct hash128 key = hash128_of(text, record.key_text_bytes);
    hex_from_bytes(hex, key.bytes, sizeof key.bytes);
    assert_int_equal(entry_encode(&record, &made, &size), QUERN_OK);
    const char *const parts[] = {"", "/v1", "/v1/objects", NULL};
    for (size_t i = 0; parts[i]; i++) {
        snprintf(path, sizeof path, "%s%s", cache, parts[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof path, "%s/v1/objects/%.2s", cache, hex);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/v1/objects/%.2s/%s.qk", cache, hex, hex + 2);
    t_write_file(path, made, size);
    os.free(made);
    assert_int_equal(
        bundle_write(&(struct bundle_content){.records = &record, .count = 1}, &made, &size),
        QUERN_OK);
    t_write_file(pack, made, size);
    os.free(made);
}

static void an_entry_that_drives_terminals_is_shown_safely(void **state)
{
    struct t_store *const t = *state;
    char cache[PATH_MAX], pack[PATH_MAX], words[2 * PATH_MAX];

    snprintf(cache, sizeof cache, "%s/forged", t->root);
    snprintf(pack, sizeof pack, "%s/forged.qkb", t->root);
    forge(t, cache, pack);
    static const char *const verbs[] = {"cache list", "cache verify"};
    /* of sound entries verify says how many there are */
    static const char *const says[] = {"\\u001b[2J\\x9b\\xff", "1 entries read"};
    for (size_t i = 0; i < 2; i++) {
        run(cache, verbs[i]);
        is_safe(says[i]);
        snprintf(words, sizeof words, "%s --json", verbs[i]);
        run(cache, words);
        is_safe("[2J\\\\x9b\\\\xff");
        json_t *const root = json_printed();
        const json_t *const row = json_array_get(json_object_get(root, "entries"), 0);
        assert_int_equal(json_integer_value(json_object_get(root, "count")), 1);
        assert_int_equal(json_array_size(json_object_get(root, "entries")), 1);
        /* the characters themselves, but for the bytes that are none */
        assert_string_equal(json_string_value(json_object_get(row, "processor")),
                            "\x1b[2J\\x9b\\xff\r");
        json_decref(root);
    }
    run(cache, "explain --why-miss " PROBLEM);
    is_safe("\\u009b2J\\u202e\\u001b]0;title\\u0007\\u007f");
    run(cache, "explain --why-miss --json " PROBLEM);
    is_safe("]0;title");
    json_t *const root = json_printed();
    assert_int_equal(json_array_size(json_object_get(root, "explanations")), 1);
    json_decref(root);
    static const char *const packs[] = {"list", "verify", "inspect", "import --unsigned"};
    for (size_t i = 0; i < 8; i++) {
        snprintf(words, sizeof words, "bundle %s '%s' %s", packs[i / 2], pack,
                 i % 2 ? "--json" : "");
        run(t->cache, words);
        is_safe("forged.qkb");
    }
    snprintf(words, sizeof words, "bundle create '%s.again'", pack);
    run(cache, words);
    is_safe("1 entries");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(an_entry_that_drives_terminals_is_shown_safely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
