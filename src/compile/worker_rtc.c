/* SPDX-License-Identifier: MIT */
/* Compiling, by a library with the interface that hipRTC and NVRTC share, met by dlopen. Its few
 * declarations are repeated here, because a machine that builds quern need not have its headers. */
#include "compile/worker.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct rtc_program *rtc_program;

/* What is called, as X(name, result, function without its prefix, parameters); load() knows the
 * names that differ between vendors. */
#define RTC_FUNCTIONS(X)                                                                           \
    X(version, int, "Version", (int *, int *))                                                     \
    X(error_string, const char *, "GetErrorString", (int))                                         \
    X(create, int, "CreateProgram",                                                                \
      (rtc_program *, const char *, const char *, int, const char *const *, const char *const *))  \
    X(compile, int, "CompileProgram", (rtc_program, int, const char *const *))                     \
    X(destroy, int, "DestroyProgram", (rtc_program *))                                             \
    X(log_size, int, "GetProgramLogSize", (rtc_program, size_t *))                                 \
    X(log, int, "GetProgramLog", (rtc_program, char *))                                            \
    X(code_size, int, size_name, (rtc_program, size_t *))                                          \
    X(code, int, code_name, (rtc_program, char *))

static struct {
    void *library;
    RTC_FUNCTIONS(WORKER_POINTER)
} rtc;

/* Loads the toolchain's libraries, comgr and the built-ins before hipRTC: hipRTC opens those two by
 * their bare names, which finds what is loaded already, and not those of another toolchain that the
 * loader would have found. */
static void *load_libraries(const struct worker_config *config, struct reply *reply)
{
    const char *failed = config->disassembler;
    void *library = NULL;

    if (!*failed || dlopen(failed, RTLD_NOW)) {
        if (*config->builtins)
            dlopen(config->builtins, RTLD_NOW); /* only used when the built-in headers are */
        failed = config->compiler;
        library = dlopen(failed, RTLD_NOW);
    }
    if (!library)
        reply_unable(reply, "cannot load %s: %s", failed, dlerror());
    return library;
}

static bool load(const struct worker_config *config, struct reply *reply)
{
    char size_name[64], code_name[64];
    const struct worker_function needed[] = {
#define NEEDED(name, result, symbol, parameters) {(void **)&rtc.name, symbol},
        RTC_FUNCTIONS(NEEDED)
#undef NEEDED
    };

    if (rtc.library)
        return true;
    snprintf(size_name, sizeof size_name, "Get%sSize", config->code);
    snprintf(code_name, sizeof code_name, "Get%s", config->code);
    void *const library = load_libraries(config, reply);
    if (!library)
        return false;
    if (!find_functions(library, config->compiler, config->prefix, needed,
                        sizeof needed / sizeof *needed, reply))
        return false;
    rtc.library = library;
    return true;
}

bool rtc_version(const struct worker_config *config, struct reply *reply)
{
    char text[64];
    int major = 0, minor = 0;

    if (!load(config, reply))
        return false;
    rtc.version(&major, &minor);
    snprintf(text, sizeof text, "%s interface %d.%d", config->prefix, major, minor);
    fields_add_raw(&reply->data, text, strlen(text));
    return true;
}

/* Cuts the paths of the source out of a log. Compilers name it
 * DIRECTORY/comgr-XXXXXX/input/quern.hip, which differs each time; without that the same source has
 * the same log. */
static void strip_paths(char *log, const char *directory)
{
    const size_t n = strlen(directory);
    char *to = log;

    for (const char *from = log; *from;) {
        const char *const input = strncmp(from, directory, n) ? NULL : strstr(from, "/input/");
        if (input && (size_t)(input - from) < n + 32)
            from = input + strlen("/input/");
        else
            *to++ = *from++;
    }
    *to = 0;
}

static void fetch_log(const struct worker_config *config, rtc_program program, struct reply *reply)
{
    size_t n = 0;

    if (rtc.log_size(program, &n) || n <= 1)
        return;
    char *const log = calloc(1, n + 1);
    if (log && !rtc.log(program, log)) {
        strip_paths(log, config->temporary);
        fields_add_raw(&reply->message, log, strlen(log));
    }
    free(log);
}

static void fetch_code(rtc_program program, struct reply *reply)
{
    size_t n = 0;
    int error = rtc.code_size(program, &n);

    char *const code = error ? NULL : malloc(n ? n : 1);
    if (code && !(error = rtc.code(program, code))) {
        reply->outcome = REPLY_DONE;
        fields_add_raw(&reply->data, code, n);
    } else {
        reply_unable(reply, "the compiler gives no code: %s",
                     error ? rtc.error_string(error) : "out of memory");
    }
    free(code);
}

/* Splits lines in place. Returns their number; at most `max` go into `line`. */
static int split_lines(char *text, const char **line, int max)
{
    int count = 0;

    for (char *save = NULL, *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save))
        if (count++ < max)
            line[count - 1] = at;
    return count;
}

#define OPTIONS_MAX 256

void job_compile(const struct worker_config *config, struct field_reader *request,
                 struct reply *reply)
{
    char *const processor = field_text(request);
    char *const options = field_text(request);
    char *const source = field_text(request);
    const char *list[OPTIONS_MAX + 1];
    char target[128];
    rtc_program program = NULL;
    int error = 0;

    snprintf(target, sizeof target, "%s%s", config->target, processor);
    list[0] = target;
    /* options may name the processor themselves, first */
    const size_t prefix = strlen(config->target);
    const int first = prefix && strncmp(options, config->target, prefix) != 0;
    const int count = split_lines(options, list + first, OPTIONS_MAX);
    if (!fields_done(request))
        reply_unable(reply, "the request cannot be read");
    else if (count > OPTIONS_MAX)
        reply_unable(reply, "%d compiler options; at most %d are possible", count, OPTIONS_MAX);
    else if (load(config, reply)) {
        error = rtc.create(&program, source, config->file, 0, NULL, NULL);
        if (!error) {
            error = rtc.compile(program, first + count, list);
            fetch_log(config, program, reply);
        }
        if (!error) {
            fetch_code(program, reply);
        } else {
            if (!reply->message.size)
                fields_add_raw(&reply->message, rtc.error_string(error),
                               strlen(rtc.error_string(error)));
            reply->outcome = REPLY_REJECTED;
        }
        if (program)
            rtc.destroy(&program);
    }
    free(processor);
    free(options);
    free(source);
}
