/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint's model.safetensors.index.json of any bytes, beside files that are whole, damaged or
 * have a tensor of another's name: refused with a line, or every tensor is where the index has it.
 */
#include "files/safetensors.h"
#include "silent.h"

#include <sys/stat.h>

/* Named by the process, so that who ends it knows what to remove. */
static char directory[31];

/* The files that the corpus names, each with its header; of 8 bytes of data each. */
static const struct {
    const char *name, *header;
} shards[] = {
    {"a", "{\"x\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}"},
    /* a name that ends like the first one's */
    {"ba", "{\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
           "\"u\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[4,8]}}"},
    {"again", "{\"x\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}"},
    {"short", "{\"z\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}"},
    {"two", "{\"v\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},"
            "\"w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[5,8]}}"},
};
#define SHARDS (sizeof shards / sizeof *shards)

static void path_of(const char *name, char path[64])
{
    snprintf(path, 64, "%s/%s", directory, name);
}

static void write_file(const char *name, const void *first, size_t first_bytes, const void *second,
                       size_t second_bytes)
{
    char path[64];

    path_of(name, path);
    FILE *const f = fopen(path, "wb");
    FUZZ_CHECK(f);
    FUZZ_CHECK(fwrite(first, 1, first_bytes, f) == first_bytes);
    FUZZ_CHECK(fwrite(second, 1, second_bytes, f) == second_bytes);
    FUZZ_CHECK(!fclose(f));
}

static void remove_all(void)
{
    char path[64];

    for (size_t i = 0; i < SHARDS; i++) {
        path_of(shards[i].name, path);
        unlink(path);
    }
    path_of("model" SAFETENSORS_INDEX, path);
    unlink(path);
    rmdir(directory);
}

static void make_shards(void)
{
    snprintf(directory, sizeof directory, "/dev/shm/quern-fuzz-%d", (int)getpid());
    FUZZ_CHECK(!mkdir(directory, 0700));
    atexit(remove_all);
    for (size_t i = 0; i < SHARDS; i++) {
        const uint64_t length = strlen(shards[i].header);
        char data[256];
        const int bytes = snprintf(data, sizeof data, "%s01234567", shards[i].header);
        write_file(shards[i].name, &length, sizeof length, data, (size_t)bytes);
    }
}

/* What the index says holds of what was read. */
static void check(const struct safetensors *s, const uint8_t *data, size_t size)
{
    json_t *const root = json_loadb((const char *)data, size, 0, NULL);
    const char *name;
    json_t *value;

    FUZZ_CHECK(root && s->count);
    json_object_foreach(json_object_get(root, "weight_map"), name, value)
    {
        const struct tensor *const t = safetensors_find(s, name);
        FUZZ_CHECK(t && !strncmp(t->path, directory, strlen(directory)));
        FUZZ_CHECK(!strcmp(t->path + strlen(directory) + 1, json_string_value(value)));
    }
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors s;
    char path[64];

    if (!directory[0])
        make_shards();
    write_file("model" SAFETENSORS_INDEX, data, size, "", 0);
    path_of("model" SAFETENSORS_INDEX, path);
    complaints = 0;
    if (safetensors_read(path, &s) == EXIT_OK)
        check(&s, data, size);
    else
        FUZZ_CHECK(complaints == 1);
    safetensors_free(&s);
    return 0;
}

FUZZ_MAIN("index", 3000)
