/* SPDX-License-Identifier: MIT */
/* What base kernels cost: their instructions against those of kernels made to order, on every
 * verified target. Judge: the software GPU. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"

#include "target/target.h"

#include <quern/tool.h>

#include <stdio.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Issue slots of a product by the kernels of a problem. */
static uint64_t slots(quern_ctx *ctx, const char *words, int m)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_op *op;

    assert_int_equal(quern_problem_parse(words, &p), QUERN_OK);
    assert_int_equal(quern_op_create_range(ctx, &p, m, m, &op), QUERN_OK);
    if (quern_verify(op, m, 1, QUERN_CHECK_FAST, &v) != QUERN_OK)
        fail_msg("%s, m=%d: %s", words, m, quern_last_error()->message);
    quern_op_release(op);
    const uint64_t slots = v.counts.instructions - v.counts.classes[QUERN_CLASS_WAIT];
    return slots * v.counts.wave_size;
}

/* At most 1.35 times the instructions of kernels made to order, for up to 16 rows. */
static void test_slots(void **state)
{
    static const char *const layers[] = {"wq=nf4 n=4096 k=4096 a=bf16",
                                         "wq=mxfp4 n=4096 k=4096 a=f16"};
    static const int m[] = {1, 2, 4, 8, 16};

    (void)state;
    for (size_t t = 0; t < target_count(); t++) {
        const struct target *const target = target_at(t);
        if (!target_simulated(target))
            continue;
        quern_ctx *const ctx = t_open(target->name, t_cache, QUERN_JIT_ON);
        for (int i = 0; i < COUNT(layers) * COUNT(m); i++) {
            const int rows = m[i % COUNT(m)];
            char base[128];
            snprintf(base, sizeof base, "%s kernels=base", layers[i / COUNT(m)]);
            const double made = (double)slots(ctx, layers[i / COUNT(m)], rows);
            const double ratio = (double)slots(ctx, base, rows) / made;
            if (ratio > 1.35)
                fail_msg("%s on %s, m=%d: %.3f times the slots", base, target->name, rows, ratio);
        }
        quern_close(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slots)};

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("base kernels", tests, t_cache_make, t_cache_remove);
}
