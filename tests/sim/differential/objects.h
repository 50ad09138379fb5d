/* SPDX-License-Identifier: MIT */
/* The targets of the differential tests and the code objects of the functions for each of them. */
#ifndef DIFFERENTIAL_OBJECTS_H
#define DIFFERENTIAL_OBJECTS_H

#include "cpu_side.h"
#include "gpu_side.h" /* for the sake of make: the text itself is taken in below */

#include "base/thread.h"
#include "compile/compile.h"
#include "t_paths.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Targets --------------------------------------------------------------------------------- */

#define RDNA (ROW_XMASK | PERMLANE64 | SUDOT | DOT2_BF16 | DOT2_16)
#define CDNA (ROW_BCAST | SDOT)

/*
 * A row for each way of compiling: whatever the software GPU runs belongs here. Kernels of uniform
 * arguments (`scalar`) and of one uniform argument (`mixed`) cost as much time to compile as the
 * rest, so one target of a family has each. Targets with the instructions of another are run in
 * test_differential_long.c alone, which has all texts on all targets. Sanitized builds run rows
 * enough to have every instruction of a family, each size of wave and each check.
 */
static const struct target_row {
    const char *name;
    const char *processor;
    unsigned lanes;
    unsigned features;
    unsigned span; /* lanes that ds_bpermute reaches */
    bool scalar, mixed;
    bool every_isa; /* run with each build of the instruction bodies, not only the best */
    int run; /* 0: where all are run; 1: in the release build too; 2: under sanitizers too */
    enum quern_sim_check check; /* unless every_isa, which has both */
} targets[] = {
    {"gfx1151", "gfx1151", 32, RDNA, 32, true, false, true, 2, QUERN_CHECK_FULL},
    {"gfx1151 wave64", "gfx1151", 64, RDNA, 32, false, false, false, 1, QUERN_CHECK_FULL},
    {"gfx1100", "gfx1100", 32, RDNA, 32, false, true, false, 1, QUERN_CHECK_FAST},
    {"gfx1101", "gfx1101", 32, RDNA, 32, false, false, false, 0, QUERN_CHECK_FAST},
    {"gfx1102", "gfx1102", 32, RDNA, 32, false, false, false, 0, QUERN_CHECK_FAST},
    {"gfx1103", "gfx1103", 32, RDNA, 32, false, false, false, 0, QUERN_CHECK_FAST},
    {"gfx1150", "gfx1150", 32, RDNA, 32, false, false, false, 0, QUERN_CHECK_FAST},
    {"gfx1152", "gfx1152", 32, RDNA, 32, false, false, false, 0, QUERN_CHECK_FAST},
    {"gfx1153", "gfx1153", 32, RDNA, 32, false, false, false, 0, QUERN_CHECK_FAST},
    {"gfx1201", "gfx1201", 32, RDNA, 32, true, false, false, 1, QUERN_CHECK_FULL},
    {"gfx1200", "gfx1200", 32, RDNA, 32, false, true, false, 1, QUERN_CHECK_FAST},
    {"gfx1201 wave64", "gfx1201", 64, RDNA, 64, false, false, false, 1, QUERN_CHECK_FULL},
    {"gfx942", "gfx942", 64, CDNA, 64, false, false, false, 2, QUERN_CHECK_FAST},
    {"gfx90a", "gfx90a", 64, CDNA, 64, true, false, false, 1, QUERN_CHECK_FULL},
    {"gfx950", "gfx950", 64, CDNA | DOT2_BF16, 64, false, true, false, 1, QUERN_CHECK_FULL},
};
#define TARGETS (sizeof targets / sizeof *targets)

#ifndef EVERY_TARGET
#define EVERY_TARGET false
#endif

static bool is_asked(unsigned target)
{
    return targets[target].run >= (EVERY_TARGET ? 0 : 1 + T_SANITIZED);
}

/* Where not all is run, the release build runs each text on a target or two. */
static bool is_asked_for(unsigned target, unsigned text)
{
    const bool some = !EVERY_TARGET && !T_SANITIZED;

    return is_asked(target) && (!some || (target + text) % 6 == 0);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Taken in by the assembler, whose paths start where the build runs: the root of the tree. */
#define TEXT(symbol)                                                                               \
    __asm__(".section .rodata\n"                                                                   \
            "text_" #symbol ": .incbin \"tests/sim/differential/" #symbol ".h\"\n"                 \
            ".byte 0\n"                                                                            \
            ".text\n");                                                                            \
    extern const char text_##symbol[]
TEXT(features);
TEXT(gpu_side);
TEXT(int32);
TEXT(int64);
TEXT(narrow);
TEXT(bits);
TEXT(float32);
TEXT(float64);
TEXT(convert);
TEXT(half);
TEXT(control);
TEXT(memory);
TEXT(wave);
TEXT(workgroup);
#undef TEXT

static const struct text {
    const char *name; /* of the file, without .h */
    const char *text;
} texts[] = {
#define TEXT(name)                                                                                 \
    {                                                                                              \
        #name, text_##name                                                                         \
    }
    TEXT(control), TEXT(int32), TEXT(int64),  TEXT(narrow), TEXT(bits), TEXT(float32),
    TEXT(float64), TEXT(half),  TEXT(convert), TEXT(memory), TEXT(wave), TEXT(workgroup),
#undef TEXT
};
#define TEXTS (sizeof texts / sizeof *texts)

/* Whether a function stands in a text. */
static bool is_in(const struct function *f, const struct text *text)
{
    const char *const slash = strrchr(f->file, '/');
    const char *const base = slash ? slash + 1 : f->file;
    const size_t n = strlen(text->name);

    return !strncmp(base, text->name, n) && !strcmp(base + n, ".h");
}

/* ---- Objects --------------------------------------------------------------------------------- */

static struct compiler *compiler;
static struct object {
    quern_status status;
    char *message; /* of a failure, with the compiler's log */
    void *bytes;
    size_t size;
} objects[TARGETS][TEXTS];

static char *format(const char *text, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *text, ...)
{
    char *result = NULL;
    va_list list;

    va_start(list, text);
    if (vasprintf(&result, text, list) < 0)
        abort();
    va_end(list);
    return result;
}

static void compile_object(unsigned target, unsigned text)
{
    const struct target_row *const row = &targets[target];
    struct object *const object = &objects[target][text];
    char *const options =
        format("--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n-std=c++17\n"
               "-ffp-contract=off\n-DLANES=%u\n-DFEATURES=%u\n-DSCALAR=%d\n-DMIXED=%d\n-DBLOCK=%d\n"
               "-DNEEDS=0%s",
               row->lanes, row->features, row->scalar, row->mixed, BLOCK,
               row->lanes == 64 && row->features & ROW_XMASK ? "\n-mwavefrontsize64" : "");
    char *const source = format("%s%s%s", text_features, text_gpu_side, texts[text].text);
    const struct compile_job job = {source, row->processor, options};
    struct compile_result result = {0};

    object->status = compiler_compile(compiler, &job, &result);
    if (object->status == QUERN_OK) {
        object->bytes = result.object;
        object->size = result.object_bytes;
        result.object = NULL;
    } else {
        object->message = format("%s\n%s", quern_last_error()->message, quern_last_error()->log);
    }
    compile_result_free(&result);
    free(source);
    free(options);
}

/* Objects are numbered through. */
static void compile_numbered(void *user, size_t n)
{
    (void)user;
    if (is_asked_for((unsigned)(n / TEXTS), (unsigned)(n % TEXTS)))
        compile_object((unsigned)(n / TEXTS), (unsigned)(n % TEXTS));
}

/* Compiles all objects with two workers; failures are in the objects. */
static quern_status compile_all(void)
{
    const struct compiler_config config = {.worker_path = t_worker_path(), .jobs = 2,
                                           .deadline_ms = 3600000};
    const quern_status status = compiler_open(&config, &compiler);

    if (status == QUERN_OK)
        parallel_for((size_t)TARGETS * TEXTS, 2, compile_numbered, NULL);
    return status;
}

static void free_objects(void)
{
    for (unsigned target = 0; target < TARGETS; target++)
        for (unsigned text = 0; text < TEXTS; text++) {
            free(objects[target][text].bytes);
            free(objects[target][text].message);
        }
    compiler_close(compiler);
}

#endif
