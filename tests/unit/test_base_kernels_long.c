/* SPDX-License-Identifier: MIT */
/* What base kernels cost: their instructions against those of kernels made to order, on every
 * verified target. Judge: the software GPU. Whole products are run, which takes half an hour of two
 * cores for all of them: as far as time goes (t_explore.h). T_TARGET in the environment names the
 * only target that is tried, whole, and has each ratio printed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_explore.h"

#include "target/target.h"

#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Issue slots of a product by the kernels of a problem; 0: the target declines it. */
static uint64_t slots(quern_ctx *ctx, const char *words, int m)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_op *op;

    assert_int_equal(quern_problem_parse(words, &p), QUERN_OK);
    const quern_status status = quern_op_create_range(ctx, &p, m, m, &op);
    if (status == QUERN_E_DECLINED && strstr(quern_last_error()->message, "has no instruction for"))
        return 0;
    if (status != QUERN_OK)
        fail_msg("%s, m=%d: %s", words, m, quern_last_error()->message);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
    if (info.resources.scratch_bytes)
        fail_msg("%s, m=%d: spills %u bytes", words, m, info.resources.scratch_bytes);
    if (quern_verify(op, m, 1, QUERN_CHECK_FAST, &v) != QUERN_OK)
        fail_msg("%s, m=%d: %s", words, m, quern_last_error()->message);
    quern_op_release(op);
    const uint64_t slots = v.counts.instructions - v.counts.classes[QUERN_CLASS_WAIT];
    return slots * v.counts.wave_size;
}

/* At most so many times the instructions of kernels made to order, for up to 16 rows. */
struct layer {
    const char *words;
    double most;
};
#define MOST 1.35

static void test_slots(void **state)
{
    static const struct layer layers[] = {
        {"wq=nf4 n=4096 k=4096 a=bf16", MOST},
        {"wq=mxfp4 n=4096 k=4096 a=f16", MOST},
        {"wq=int4 n=4096 k=4096 a=f16", MOST},
        {"wq=int4 n=4096 k=4096 a=bf16 zero=u8", MOST},
        /* eight rows on RDNA: kernels made to order share sums of A in LDS, as many as K asks for,
         * and here each wave makes its own */
        {"wq=int4 n=4096 k=4096 a=f16 zero=scaled layout=exl", 1.45},
        {"wq=none n=4096 k=4096 a=bf16", MOST},
        {"wq=fp8 n=4096 k=4096 a=bf16", MOST},
        {"wq=fp8 n=4096 k=4096 a=fp8", MOST},
    };
    static const int m[] = {1, 2, 4, 8, 16};
    const size_t pairs = COUNT(layers) * COUNT(m);
    const char *const only = getenv("T_TARGET");
    int over = 0;

    (void)state;
    if (only)
        unsetenv("EXPLORE");
    struct t_walk walk = t_walk(target_count() * pairs, 1);
    for (size_t i; t_walk_next(&walk, &i);) {
        const struct target *const target = target_at(i / pairs);
        const struct layer *const layer = &layers[i % pairs / COUNT(m)];
        const int rows = m[i % COUNT(m)];
        char base[128];
        if (!target_simulated(target) || (only && strcmp(only, target->name) != 0))
            continue;
        quern_ctx *const ctx = t_open(target->name, t_cache, QUERN_JIT_ON);
        snprintf(base, sizeof base, "%s kernels=base", layer->words);
        const double made = (double)slots(ctx, layer->words, rows);
        const double ratio = made > 0 ? (double)slots(ctx, base, rows) / made : 0;
        if (ratio > layer->most || (only && made > 0))
            print_message("# %s on %s, m=%d: %.3f times the slots\n", base, target->name, rows,
                          ratio);
        over += ratio > layer->most;
        quern_close(ctx);
    }
    assert_int_equal(over, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slots)};

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("base kernels", tests, t_cache_make, t_cache_remove);
}
