/* SPDX-License-Identifier: MIT */
/* Compiling: hipRTC, met by dlopen. Its few declarations are repeated here, because a machine that
 * builds quern need not have its headers. */
#include "compile/worker.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct hiprtc_program *hiprtc_program;

static struct {
    void *library;
    int (*version)(int *, int *);
    const char *(*error_string)(int);
    int (*create)(hiprtc_program *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(hiprtc_program, int, const char *const *);
    int (*destroy)(hiprtc_program *);
    int (*log_size)(hiprtc_program, size_t *);
    int (*log)(hiprtc_program, char *);
    int (*code_size)(hiprtc_program, size_t *);
    int (*code)(hiprtc_program, char *);
} hiprtc;

/* hipRTC opens comgr and its built-ins by bare name, which finds what is loaded already: so those
 * of this toolchain come first, wherever the loader would have looked. */
static bool load(const struct worker_config *config, struct reply *reply)
{
    if (hiprtc.library)
        return true;
    if (!dlopen(config->comgr, RTLD_NOW)) {
        reply_unable(reply, "cannot load comgr: %s", dlerror());
        return false;
    }
    if (*config->builtins)
        dlopen(config->builtins, RTLD_NOW); /* only used when the built-in headers are */
    void *const library = dlopen(config->hiprtc, RTLD_NOW);
    if (!library) {
        reply_unable(reply, "cannot load hipRTC: %s", dlerror());
        return false;
    }

    const struct {
        void **function;
        const char *name;
    } needed[] = {{(void **)&hiprtc.version, "hiprtcVersion"},
                  {(void **)&hiprtc.error_string, "hiprtcGetErrorString"},
                  {(void **)&hiprtc.create, "hiprtcCreateProgram"},
                  {(void **)&hiprtc.compile, "hiprtcCompileProgram"},
                  {(void **)&hiprtc.destroy, "hiprtcDestroyProgram"},
                  {(void **)&hiprtc.log_size, "hiprtcGetProgramLogSize"},
                  {(void **)&hiprtc.log, "hiprtcGetProgramLog"},
                  {(void **)&hiprtc.code_size, "hiprtcGetCodeSize"},
                  {(void **)&hiprtc.code, "hiprtcGetCode"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!(*needed[i].function = dlsym(library, needed[i].name))) {
            reply_unable(reply, "%s has no %s", config->hiprtc, needed[i].name);
            return false;
        }
    hiprtc.library = library;
    return true;
}

bool hiprtc_version(const struct worker_config *config, struct reply *reply)
{
    char text[64];
    int major = 0, minor = 0;

    if (!load(config, reply))
        return false;
    hiprtc.version(&major, &minor);
    snprintf(text, sizeof text, "hipRTC interface %d.%d", major, minor);
    fields_add_raw(&reply->data, text, strlen(text));
    return true;
}

/* Compilers name the source by its path, DIRECTORY/comgr-XXXXXX/input/quern.hip, which is another
 * each time: the path is cut out, so that the same source has the same log. */
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

static void fetch_log(const struct worker_config *config, hiprtc_program program,
                      struct reply *reply)
{
    size_t n = 0;

    if (hiprtc.log_size(program, &n) || n <= 1)
        return;
    char *const log = calloc(1, n + 1);
    if (log && !hiprtc.log(program, log)) {
        strip_paths(log, config->temporary);
        fields_add_raw(&reply->message, log, strlen(log));
    }
    free(log);
}

static void fetch_code(hiprtc_program program, struct reply *reply)
{
    size_t n = 0;
    int error = hiprtc.code_size(program, &n);

    char *const code = error ? NULL : malloc(n ? n : 1);
    if (code && !(error = hiprtc.code(program, code))) {
        reply->outcome = REPLY_DONE;
        fields_add_raw(&reply->data, code, n);
    } else {
        reply_unable(reply, "hipRTC gives no code: %s",
                     error ? hiprtc.error_string(error) : "out of memory");
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
    hiprtc_program program = NULL;
    int error = 0;

    snprintf(target, sizeof target, "--offload-arch=%s", processor);
    list[0] = target;
    const int count = split_lines(options, list + 1, OPTIONS_MAX);
    if (!fields_done(request))
        reply_unable(reply, "the request cannot be read");
    else if (count > OPTIONS_MAX)
        reply_unable(reply, "%d compiler options; at most %d are possible", count, OPTIONS_MAX);
    else if (load(config, reply)) {
        error = hiprtc.create(&program, source, "quern.hip", 0, NULL, NULL);
        if (!error) {
            error = hiprtc.compile(program, count + 1, list);
            fetch_log(config, program, reply);
        }
        if (!error) {
            fetch_code(program, reply);
        } else {
            if (!reply->message.size)
                fields_add_raw(&reply->message, hiprtc.error_string(error),
                               strlen(hiprtc.error_string(error)));
            reply->outcome = REPLY_REJECTED;
        }
        if (program)
            hiprtc.destroy(&program);
    }
    free(processor);
    free(options);
    free(source);
}
