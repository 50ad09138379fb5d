/* SPDX-License-Identifier: MIT */
#include "t_compile.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

const char t_add_source[] = T_KERNEL "add(float *y, const float *x)\n"
                                     "{ y[__builtin_amdgcn_workitem_id_x()] += x[0]; }\n";

const char t_endless[] = "constexpr unsigned f() { unsigned i = 0; for (;;) i++; return i; }\n"
                         "constexpr unsigned x = f();\n";

/* The library's own default is met by a compile on a machine that is busy enough. */
#define HANGING_MS 1800000

struct compiler *t_compiler_open(int jobs, int deadline_ms)
{
    const struct compiler_config config = {.jobs = jobs,
                                           .deadline_ms = deadline_ms ? deadline_ms : HANGING_MS};
    struct compiler *c = NULL;

    assert_int_equal(compiler_open(&config, &c), QUERN_OK);
    return c;
}

struct compiler_stats t_compiler_stats(struct compiler *c)
{
    struct compiler_stats stats;

    compiler_stats(c, &stats);
    return stats;
}

quern_status t_compile(struct compiler *c, const char *source, const char *processor,
                       const char *options, struct compile_result *result)
{
    const struct compile_job job = {.source = source, .processor = processor, .options = options};

    return compiler_compile(c, &job, result);
}

void t_compile_well(struct compiler *c, const char *source, const char *processor,
                    struct compile_result *result)
{
    const quern_status status = t_compile(c, source, processor, T_OPTIONS, result);

    if (status != QUERN_OK)
        print_message("%s\n%s\n", quern_last_error()->message, quern_last_error()->log);
    assert_int_equal(status, QUERN_OK);
}
