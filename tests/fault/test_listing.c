/* SPDX-License-Identifier: MIT */
/*
 * What `quern cache list`, `cache verify`, `bundle list` and `bundle verify` cost by the number of
 * entries: so many times the instructions for so many times the entries, and no more memory (of a
 * bundle no more than its index has). The command that is run is the one that was built.
 * Instructions are callgrind's; where there is no valgrind, and under sanitizers, which it cannot
 * run, it is processor time, of which a ratio is taken too.
 */
#include "base/os.h"
#include "store/bundle.h"
#include "store/entry.h"
#include "t_paths.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MANY
#define FEW  125
#define MANY 1000
#endif
/* Listing was quadratic once: then this ratio is that of the entries, squared. Sorting the names in
 * a shard takes a little more than their number. */
#define RATIO_MAX      (1.25 * MANY / FEW)
#define TIME_RATIO_MAX (2.0 * MANY / FEW)
/* A list in memory whole would take some 500 bytes an entry, twice as much. */
#define MORE_KB_MAX (MANY / 4)
#define INDEX_BYTES 128 /* of an entry in a bundle's index, and what is made of it: generous */

/* A record of a kernel that the compiler refused: the smallest there is. */
static void small_record(struct t_record *r, unsigned i)
{
    char name[16];

    snprintf(name, sizeof name, "n%u", i);
    t_record(r, name);
    r->record.object = NULL;
    r->record.object_bytes = 0;
    r->record.rules = 1;
    r->record.log = "refused";
}

/* Files as the store makes them, without waiting for the disk each time. */
static void make_entries(const char *cache, unsigned count)
{
    struct t_record r;
    char path[PATH_MAX], hex[33];
    size_t size;
    void *bytes;

    snprintf(path, sizeof path, "%s/v1", cache);
    mkdir(cache, 0700);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/v1/objects", cache);
    mkdir(path, 0700);
    for (unsigned i = 0; i < count; i++) {
        small_record(&r, i);
        hex_from_bytes(hex, r.key.bytes, sizeof r.key.bytes);
        snprintf(path, sizeof path, "%s/v1/objects/%.2s", cache, hex);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/v1/objects/%.2s/%s.qk", cache, hex, hex + 2);
        assert_int_equal(entry_encode(&r.record, &bytes, &size), QUERN_OK);
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        close(fd);
        os.free(bytes);
    }
}

static void make_bundle(const char *path, unsigned count)
{
    struct t_record *const records = calloc(count, sizeof *records);
    struct store_record *const list = calloc(count, sizeof *list);
    void *bytes;
    size_t size;

    assert_true(records && list);
    for (unsigned i = 0; i < count; i++) {
        small_record(&records[i], i);
        list[i] = records[i].record;
    }
    const struct bundle_content content = {.records = list, .count = count};
    assert_int_equal(bundle_write(&content, &bytes, &size), QUERN_OK);
    t_write_file(path, bytes, size);
    os.free(bytes);
    free(list);
    free(records);
}

/* Whether callgrind can run the command. */
static bool counts_instructions(void)
{
    static int known = -1;

    if (known < 0)
        known = !strstr(t_build(), "asan") && !strstr(t_build(), "tsan") &&
                !system("valgrind --version >/dev/null 2>&1");
    return known;
}

/* Runs the command and returns what it used; its lines must be so many at least. With
 * `instructions`, under callgrind, which counts them. */
static struct rusage run(const char *const *words, const char *cache, unsigned lines,
                         double *instructions)
{
    char program[PATH_MAX], said[PATH_MAX + 32], buffer[1 << 16];
    const char *argv[16];
    struct rusage used;
    unsigned seen = 0;
    int ends[2], status, n = 0;
    ssize_t got;

    snprintf(program, sizeof program, "%s/bin/quern", t_build());
    snprintf(said, sizeof said, "--log-file=%s/../callgrind", cache);
    if (instructions) {
        argv[n++] = "valgrind";
        argv[n++] = "--tool=callgrind";
        argv[n++] = "--callgrind-out-file=/dev/null";
        argv[n++] = said;
    }
    argv[n++] = program;
    while (*words)
        argv[n++] = *words++;
    argv[n] = NULL;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("QUERN_CACHE_DIR", cache, 1);
        /* AddressSanitizer keeps what was freed, which is not what is measured */
        setenv("ASAN_OPTIONS", "quarantine_size_mb=0:thread_local_quarantine_size_kb=0", 1);
        execvp(argv[0], (char **)(uintptr_t)argv);
        _exit(127);
    }
    close(ends[1]);
    while ((got = read(ends[0], buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; i < got; i++)
            seen += buffer[i] == '\n';
    close(ends[0]);
    assert_int_equal(wait4(child, &status, 0, &used), child);
    assert_int_equal(status, 0);
    assert_true(seen >= lines);
    if (instructions) {
        const char *const path = strchr(said, '=') + 1;
        const size_t bytes = t_read_file(path, buffer, sizeof buffer - 1);
        buffer[bytes] = 0;
        const char *const at = strstr(buffer, "Collected : ");
        assert_non_null(at);
        *instructions = strtod(at + strlen("Collected : "), NULL);
    }
    return used;
}

static double seconds(const struct rusage *u)
{
    return (double)u->ru_utime.tv_sec + (double)u->ru_utime.tv_usec * 1e-6;
}

static void is_linear(const char *const *words, const struct rusage u[2], const double counted[2])
{
    print_message("%s %s %s: %d entries %.3f s, %.0f instructions, %ld KB; %d entries %.3f s, %.0f "
                  "instructions, %ld KB\n",
                  words[0], words[1], words[2] && words[2][0] == '-' ? words[2] : "", FEW,
                  seconds(&u[0]), counted[0], u[0].ru_maxrss, MANY, seconds(&u[1]), counted[1],
                  u[1].ru_maxrss);
    if (counts_instructions())
        assert_true(counted[1] < RATIO_MAX * counted[0]);
    else /* what starting takes is in both, and makes the ratio smaller */
        assert_true(seconds(&u[1]) < TIME_RATIO_MAX * (seconds(&u[0]) + 0.01));
}

static void listing_is_linear_and_streamed(void **state)
{
    struct t_store *const t = *state;
    char few[PATH_MAX], many[PATH_MAX], pack[2][PATH_MAX];
    const char *const verbs[][5] = {
        {"cache", "list"},          {"cache", "list", "--json"},
        {"cache", "verify"},        {"cache", "verify", "--json"},
        {"bundle", "list", NULL},   {"bundle", "list", "--json"},
        {"bundle", "verify", NULL},
    };

    snprintf(few, sizeof few, "%s/few", t->root);
    snprintf(many, sizeof many, "%s/many", t->root);
    snprintf(pack[0], sizeof pack[0], "%s/few.bundle", t->root);
    snprintf(pack[1], sizeof pack[1], "%s/many.bundle", t->root);
    make_entries(few, FEW);
    make_entries(many, MANY);
    make_bundle(pack[0], FEW);
    make_bundle(pack[1], MANY);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const bool bundle = verbs[i][0][0] == 'b', json = verbs[i][2] != NULL;
        double counted[2] = {0, 0};
        struct rusage u[2];
        for (int k = 0; k < 2; k++) {
            const char *words[6] = {verbs[i][0], verbs[i][1]};
            int n = 2;
            if (bundle)
                words[n++] = pack[k];
            words[n] = verbs[i][2];
            const unsigned all = k ? MANY : FEW;
            /* verifying says one line when all is well */
            const unsigned lines = !strcmp(words[1], "verify") && !json ? 1 : all;
            u[k] = run(words, k ? many : few, lines, NULL);
            if (counts_instructions())
                run(words, k ? many : few, lines, &counted[k]);
        }
        is_linear(verbs[i], u, counted);
        assert_true(u[1].ru_maxrss < u[0].ru_maxrss + MORE_KB_MAX +
                                         (bundle ? (long)INDEX_BYTES * (MANY - FEW) / 1024 : 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(listing_is_linear_and_streamed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
