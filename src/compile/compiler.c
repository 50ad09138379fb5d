/* SPDX-License-Identifier: MIT */
/* The jobs: what a request of each kind holds and what its answer means. */
#include "base/os.h"
#include "base/str.h"
#include "compile/compilers.h"
#include "compile/pool.h"

#include <stdio.h>
#include <string.h>

/* A worker's message, which is bytes, as a malloc'ed string for errors and logs; null when out of
 * memory. */
static char *message_text(const struct answer *answer)
{
    size_t n = answer->message_size;
    char *const text = os.malloc(n + 1);

    if (!text)
        return NULL;
    for (size_t i = 0; i < n; i++)
        text[i] = answer->message[i] ? answer->message[i] : ' ';
    while (n && text[n - 1] == '\n')
        n--;
    text[n] = 0;
    return text;
}

/* Records the failure that an answer reports, and returns its status: `code` if the compiler
 * rejected what it was given. */
static quern_status answer_failure(const struct answer *answer, quern_status code, const char *what)
{
    char *const text = message_text(answer);
    quern_status status;

    if (answer->outcome == REPLY_REJECTED)
        status = error_set(code, __FILE__, FAIL_AT("outcome == REPLY_DONE"),
                           "%s failed: the log says why", what);
    else
        status = error_set(QUERN_E_TOOLCHAIN, __FILE__, FAIL_AT("outcome == REPLY_DONE"), "%s: %s",
                           what, text ? text : "out of memory");
    error_log(text ? text : "");
    os.free(text);
    return status;
}

/* Only names that the compiler knows go to it: hipRTC 6.4 aborts on others. */
static quern_status check_processor(const struct compiler *compiler, const char *processor)
{
    struct target_id id;

    TRY(target_parse(processor, &id));
    FAIL_IF(id.target->vendor != pool_vendor(compiler), QUERN_E_TARGET,
            "%s is a target of another vendor than this compiler's, which has the prefix %s",
            processor, compilers[pool_vendor(compiler)]->prefix);
    return QUERN_OK;
}

quern_status compiler_compile(struct compiler *compiler, const struct compile_job *job,
                              struct compile_result *result)
{
    struct fields request = {.grow = os.realloc};
    struct answer answer;
    char what[128];

    TRY(check_processor(compiler, job->processor));
    *result = (struct compile_result){0};
    snprintf(what, sizeof what, "compiling for %s", job->processor);
    fields_add_text(&request, job->processor);
    fields_add_text(&request, job->options);
    fields_add_text(&request, job->source);
    quern_status status = pool_request(compiler, FRAME_COMPILE, &request, what,
                                       &(struct watch){job->unwanted, job->unwanted_user}, &answer);
    os.free(request.bytes);
    if (status == QUERN_OK && answer.outcome != REPLY_DONE) {
        status = answer_failure(&answer, QUERN_E_COMPILE, what);
        os.free(answer.bytes);
    } else if (status == QUERN_OK) {
        result->object = os.malloc(answer.size ? answer.size : 1);
        result->log = message_text(&answer);
        if (result->object && result->log) {
            memcpy(result->object, answer.data, answer.size);
            result->object_bytes = answer.size;
            result->milliseconds = answer.milliseconds;
        } else {
            compile_result_free(result);
            status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("result->object"),
                               "out of memory for a code object of %zu bytes", answer.size);
        }
        os.free(answer.bytes);
    }
    if (status != QUERN_E_NOT_READY)
        pool_count(compiler, status == QUERN_OK ? POOL_COMPILED : POOL_FAILED);
    return status;
}

quern_status compiler_try(struct compiler *compiler, const char *processor, size_t *object_bytes)
{
    const struct toolchain *const toolchain = compiler_toolchain(compiler);
    struct compile_result result;

    if (!toolchain)
        return QUERN_E_TOOLCHAIN;
    TRY(compiler_compile(compiler,
                         &(struct compile_job){.source = toolchain->kind->trial,
                                               .processor = processor,
                                               .options = toolchain->kind->trial_options},
                         &result));
    *object_bytes = result.object_bytes;
    compile_result_free(&result);
    return QUERN_OK;
}

void compile_result_free(struct compile_result *result)
{
    os.free(result->object);
    os.free(result->log);
    *result = (struct compile_result){0};
}

/* The same with room for a text of UINT16_MAX bytes, which is too much for a host's stack. */
static quern_status emit_instructions(const struct answer *answer, size_t size, char *text,
                                      quern_disassembly_fn emit, void *user)
{
    uint64_t offset = 0;

    for (int pass = 0; pass < 2; pass++) {
        struct field_reader r = {answer->data, answer->data + answer->size, false};
        offset = 0;
        while (r.next < r.end) {
            struct packed_instruction packed = {0};
            const uint8_t *const head = field_raw(&r, sizeof packed);
            if (head)
                memcpy(&packed, head, sizeof packed);
            const uint8_t *const from = field_raw(&r, packed.text);
            FAIL_IF(!head || !from || packed.offset != offset || !packed.size, QUERN_E_WORKER,
                    "the disassembly is malformed at code offset %llu", (unsigned long long)offset);
            offset += packed.size;
            if (!pass)
                continue;
            memcpy(text, from, packed.text);
            text[packed.text] = 0;
            emit(user, packed.offset, packed.size, text);
        }
        FAIL_IF(offset != size, QUERN_E_WORKER, "the disassembly covers %llu of %zu bytes",
                (unsigned long long)offset, size);
    }
    return QUERN_OK;
}

quern_status answer_instructions(const struct answer *answer, size_t size,
                                 quern_disassembly_fn emit, void *user)
{
    char *const text = os.malloc(UINT16_MAX + 1);

    FAIL_IF(!text, QUERN_E_MEMORY, "out of memory for a disassembly");
    const quern_status status = emit_instructions(answer, size, text, emit, user);
    os.free(text);
    return status;
}

quern_status compiler_disassemble(void *compiler, const char *processor, const void *code,
                                  size_t size, quern_disassembly_fn emit, void *emit_user)
{
    struct fields request = {.grow = os.realloc};
    struct answer answer;
    char what[128];

    TRY(check_processor(compiler, processor));
    snprintf(what, sizeof what, "disassembling for %s", processor);
    fields_add_text(&request, processor);
    fields_add_bytes(&request, code, size);
    quern_status status =
        pool_request(compiler, FRAME_DISASSEMBLE, &request, what, &(struct watch){0}, &answer);
    os.free(request.bytes);
    if (status != QUERN_OK)
        return status;
    status = answer.outcome == REPLY_DONE ? answer_instructions(&answer, size, emit, emit_user)
                                          : answer_failure(&answer, QUERN_E_OBJECT, what);
    os.free(answer.bytes);
    return status;
}

/* A request whose answer is a text. */
static quern_status request_text(struct compiler *compiler, enum frame_kind kind,
                                 struct fields *request, const char *what, char **text)
{
    struct answer answer;

    const quern_status status =
        pool_request(compiler, kind, request, what, &(struct watch){0}, &answer);
    os.free(request->bytes);
    if (status != QUERN_OK)
        return status;
    if (answer.outcome != REPLY_DONE) {
        const quern_status failure = answer_failure(&answer, QUERN_E_OBJECT, what);
        os.free(answer.bytes);
        return failure;
    }
    struct str s = {0};
    str_add_bytes(&s, answer.data, answer.size);
    os.free(answer.bytes);
    *text = str_take(&s);
    FAIL_IF(!*text, QUERN_E_MEMORY, "%s: out of memory", what);
    return QUERN_OK;
}

quern_status compiler_targets(struct compiler *compiler, char **targets)
{
    struct fields none = {.grow = os.realloc};

    return request_text(compiler, FRAME_TARGETS, &none, "listing the compiler's targets", targets);
}

quern_status compiler_metadata(struct compiler *compiler, const void *object, size_t size,
                               char **text)
{
    struct fields request = {.grow = os.realloc};

    fields_add_bytes(&request, object, size);
    return request_text(compiler, FRAME_METADATA, &request, "reading a code object's metadata",
                        text);
}

quern_status compiler_version(struct compiler *compiler, char **text)
{
    struct fields none = {.grow = os.realloc};
    char *libraries, sandbox[128];
    struct str s = {0};

    TRY(request_text(compiler, FRAME_VERSION, &none, "asking the compiler's version", &libraries));
    pool_sandbox(compiler, sandbox, sizeof sandbox);
    str_addf(&s, "%s; confined by: %s", libraries, sandbox);
    os.free(libraries);
    *text = str_take(&s);
    FAIL_IF(!*text, QUERN_E_MEMORY, "asking the compiler's version: out of memory");
    return QUERN_OK;
}
