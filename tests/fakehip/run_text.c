/* SPDX-License-Identifier: MIT */
/*
 * What fakecuda does with kernels: runs the text that they were compiled from on the CPU
 * (cpu/cpu.h) and stores the results where the kernel would have. The text of a cubin is in the
 * cache entry that has it: entries below QUERN_CACHE_DIR are looked at. A cubin of no entry
 * computes nothing.
 */
#include "base/hash.h"
#include "base/os.h"
#include "cpu/cpu.h"
#include "fake.h"
#include "store/entry.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of a cubin as a program. They are kept until the library is unloaded. */
struct text {
    struct text *next;
    struct hash128 cubin;
    struct cpu_program *program; /* null: of no entry, or no program could be made of it */
    bool failed;
};
static struct text *texts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all here: one kernel at a time */

/* ---- Texts ----------------------------------------------------------------------------------- */

static const struct object *wanted; /* of the search under way, */
static struct text *found;          /* and what it fills */

static int look(const char *path, const struct stat *st, int type, struct FTW *where)
{
    struct store_record record;
    char *bytes;
    size_t size;

    (void)where;
    if (type != FTW_F || st->st_size > (off_t)ENTRY_BYTES_MAX ||
        os_read_file(path, ENTRY_BYTES_MAX, &bytes, &size))
        return 0;
    const bool same = entry_decode(bytes, size, &record) == QUERN_OK &&
                      record.object_bytes >= wanted->size &&
                      !memcmp(record.object, wanted->bytes, wanted->size);
    if (same && cpu_program_make(record.source, &found->program) != QUERN_OK) {
        fprintf(stderr, "fakecuda: %s\n%s\n", quern_last_error()->message, quern_last_error()->log);
        found->failed = true;
    }
    os.free(bytes);
    return same;
}

static struct text *text_of(const struct object *object)
{
    const struct hash128 cubin = hash128_of(object->bytes, object->size);
    const char *const directory = getenv("QUERN_CACHE_DIR");
    struct text *t = texts;

    while (t && memcmp(&t->cubin, &cubin, sizeof cubin))
        t = t->next;
    if (t)
        return t;
    if (!(t = calloc(1, sizeof *t)))
        abort();
    t->cubin = cubin;
    wanted = object;
    found = t;
    if (directory)
        nftw(directory, look, 16, FTW_PHYS);
    t->next = texts;
    return texts = t;
}

__attribute__((destructor)) static void free_texts(void)
{
    while (texts) {
        struct text *const next = texts->next;
        cpu_program_free(texts->program);
        free(texts);
        texts = next;
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* An argument that is an address: the memory from there to the end of its allocation. */
struct window {
    uint8_t *there;
    uint8_t *before; /* a copy, with which the copy that the kernel had is compared */
};

static void open_window(struct fake_device *d, struct window *w, struct cpu_argument *a)
{
    const uint64_t address = (uint64_t)a->value;

    pthread_mutex_lock(&fake_lock);
    struct fake_memory *const m = a->bytes == 8 ? fake_memory_at(d, address, 1) : NULL;
    if (m) {
        a->bytes = m->bytes - (address - m->address);
        w->there = m->host + (address - m->address);
        w->before = malloc(a->bytes);
        a->at = malloc(a->bytes);
        if (!w->before || !a->at)
            abort();
        memcpy(w->before, w->there, a->bytes);
        memcpy(a->at, w->there, a->bytes);
        a->typed = true;
    }
    pthread_mutex_unlock(&fake_lock);
}

static void close_window(const struct window *w, const struct cpu_argument *a)
{
    const uint8_t *const after = a->at;

    if (!w->there)
        return;
    pthread_mutex_lock(&fake_lock);
    for (size_t i = 0; i < a->bytes; i++)
        if (after[i] != w->before[i])
            w->there[i] = after[i];
    pthread_mutex_unlock(&fake_lock);
    free(w->before);
    free(a->at);
}

static hipError_t run(struct cpu_program *program, const struct fake_command *c)
{
    static const char *const names[CPU_ARGUMENTS_MAX] = {
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"};
    const struct object_kernel *const kernel = c->function->kernel;
    struct window windows[CPU_ARGUMENTS_MAX] = {{0}};
    struct cpu_launch launch = {.grid = {c->grid[0], c->grid[1]},
                                .threads = c->block[0],
                                .shared_bytes = c->lds_bytes,
                                .seed = 1,
                                .count = kernel->arg_count};

    if (kernel->arg_count > sizeof names / sizeof *names ||
        c->block[1] * c->block[2] * c->grid[2] != 1)
        return hipErrorInvalidValue;
    for (size_t i = 0; i < launch.count; i++) {
        struct cpu_argument *const a = &launch.arguments[i];
        a->bytes = kernel->args[i].size;
        memcpy(&a->value, c->kernarg + kernel->args[i].offset, a->bytes);
        open_window(c->function->module->device, &windows[i], a);
        a->name = windows[i].there ? names[i] : NULL;
    }
    const quern_status status = cpu_program_run(program, &launch);
    for (size_t i = 0; i < launch.count; i++)
        close_window(&windows[i], &launch.arguments[i]);
    if (status != QUERN_OK)
        fprintf(stderr, "fakecuda: %s: %s\n", kernel->name, quern_last_error()->message);
    return status == QUERN_OK ? hipSuccess : hipErrorLaunchFailure;
}

hipError_t fake_run_kernel(const struct fake_command *c)
{
    pthread_mutex_lock(&lock);
    const struct text *const t = text_of(&c->function->module->object);
    const hipError_t error = t->program  ? run(t->program, c)
                             : t->failed ? hipErrorLaunchFailure
                                         : hipSuccess;
    pthread_mutex_unlock(&lock);
    return error;
}
