/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_fuzz.h"
#include "t_gpu.h"

#include <dirent.h>
#include <string.h>

#define FILES_MAX 4096
#define BYTES_MAX ((size_t)1 << 20)

static struct {
    const char *corpus;
    unsigned changed;
    int (*target)(const uint8_t *data, size_t size);
    size_t count;
    uint8_t *bytes[FILES_MAX];
    size_t sizes[FILES_MAX];
} fuzz;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All files of a corpus, in the order of their names. */
static void read_corpus(void)
{
    char path[512], *names[FILES_MAX];
    struct dirent *entry;

    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", fuzz.corpus);
    DIR *const directory = opendir(path);
    if (!directory)
        fail_msg("no corpus at %s; tests run in the top directory", path);
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.') {
            assert_true(fuzz.count < FILES_MAX);
            names[fuzz.count++] = strdup(entry->d_name);
        }
    closedir(directory);
    qsort(names, fuzz.count, sizeof *names, by_name);
    for (size_t n = 0; n < fuzz.count; n++) {
        snprintf(path, sizeof path, "tests/fuzz/corpus/%s/%s", fuzz.corpus, names[n]);
        FILE *const f = fopen(path, "rb");
        assert_non_null(f);
        uint8_t *const room = malloc(BYTES_MAX);
        assert_non_null(room);
        fuzz.sizes[n] = fread(room, 1, BYTES_MAX, f);
        fclose(f);
        fuzz.bytes[n] = realloc(room, fuzz.sizes[n] ? fuzz.sizes[n] : 1);
        free(names[n]);
    }
}

/* In memory of exactly its size, so that a sanitizer sees a read beyond it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *const copy = malloc(size ? size : 1);

    assert_non_null(copy);
    memcpy(copy, data, size);
    assert_int_equal(fuzz.target(copy, size), 0);
    free(copy);
}

static void replay(void **state)
{
    (void)state;
    read_corpus();
    assert_true(fuzz.count > 0);
    for (size_t n = 0; n < fuzz.count; n++)
        run(fuzz.bytes[n], fuzz.sizes[n]);
    run((const uint8_t *)"", 0);
}

/* Bits flipped, bytes replaced, numbers made extreme, pieces cut out or taken from elsewhere. */
static size_t change(uint8_t *data, size_t size, uint64_t *random)
{
    static const uint8_t extreme[] = {0, 1, 0x7f, 0x80, 0xff};
    const unsigned changes = 1 + (unsigned)(t_random(random) % 4);

    for (unsigned n = 0; n < changes && size; n++) {
        const size_t at = t_random(random) % size, other = t_random(random) % size;
        const size_t length = t_random(random) % (size - (at > other ? at : other)) % 64 + 1;
        switch (t_random(random) % 6) {
        case 0:
            data[at] ^= (uint8_t)(1u << t_random(random) % 8);
            break;
        case 1:
            data[at] = (uint8_t)t_random(random);
            break;
        case 2:
            data[at] = extreme[t_random(random) % sizeof extreme];
            break;
        case 3:
            memset(data + at, extreme[t_random(random) % sizeof extreme], length);
            break;
        case 4:
            memmove(data + at, data + other, length);
            break;
        default:
            size = t_random(random) % 4 ? size : at;
        }
    }
    return size;
}

static void changed(void **state)
{
    uint64_t random = 20;
    uint8_t *const data = malloc(BYTES_MAX);

    (void)state;
    assert_non_null(data);
    for (unsigned n = 0; n < fuzz.changed; n++) {
        const size_t from = t_random(&random) % fuzz.count;
        memcpy(data, fuzz.bytes[from], fuzz.sizes[from]);
        run(data, change(data, fuzz.sizes[from], &random));
    }
    free(data);
    for (size_t n = 0; n < fuzz.count; n++)
        free(fuzz.bytes[n]);
}

int t_fuzz_main(const char *corpus, unsigned count, int (*target)(const uint8_t *data, size_t size))
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay),
        cmocka_unit_test(changed),
    };

    fuzz.corpus = corpus;
    fuzz.changed = count;
    fuzz.target = target;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
