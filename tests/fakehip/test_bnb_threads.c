/* SPDX-License-Identifier: MIT */
/* libquern_bnb from many threads that all make its first call: test_bnb.py has the rest of it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_paths.h"

#include <quern/bnb.h>

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include <pthread.h>
#include <stdlib.h>

#define THREADS 4

static char *cache;

static int set_up(void **state)
{
    (void)state;
    cache = t_temp_dir();
    return setenv("FAKEHIP_DEVICES", "gfx1151", 1) || setenv("QUERN_CACHE_DIR", cache, 1);
}

static int tear_down(void **state)
{
    (void)state;
    t_remove(cache);
    return 0;
}

struct thread {
    pthread_barrier_t *start;
    struct t_layer layer;
    hipStream_t stream;
    int status;
};

static void *call(void *user)
{
    struct thread *const t = user;
    const struct quern_args *const a = &t->layer.args;

    pthread_barrier_wait(t->start);
    for (int i = 0; i < 3; i++) {
        cgemm_4bit_bf16(a->a, a->b, a->scales, NULL, NULL, NULL, a->c, a->bias, (int32_t)t->layer.m,
                        (int32_t)t->layer.problem.n, (int32_t)t->layer.problem.k,
                        t->layer.problem.group, 2, t->stream);
        t->status = t->status ? t->status : quern_bnb_last_status();
    }
    return NULL;
}

static void test_first_calls_at_once(void **state)
{
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON); /* for the operands */
    const struct quern_problem p[] = {t_problem("wq=nf4 n=32 k=128 a=bf16 bias=1"),
                                      t_problem("wq=nf4 n=16 k=64 a=bf16")};
    struct thread threads[THREADS] = {0};
    pthread_t id[THREADS];
    pthread_barrier_t start;

    (void)state;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        threads[i].start = &start;
        t_layer_make(&threads[i].layer, ctx, &p[i % 2], 1 + 3 * i, 0, 0, (uint64_t)i);
        assert_int_equal(hipStreamCreate(&threads[i].stream), hipSuccess);
        assert_int_equal(pthread_create(&id[i], NULL, call, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        assert_int_equal(threads[i].status, QUERN_OK);
        assert_int_equal(hipStreamSynchronize(threads[i].stream), hipSuccess);
        assert_true(t_layer_error(&threads[i].layer) <= 5e-3);
        assert_int_equal(hipStreamDestroy(threads[i].stream), hipSuccess);
        t_layer_free(&threads[i].layer);
    }
    pthread_barrier_destroy(&start);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_calls_at_once)};

    return cmocka_run_group_tests_name("bnb threads", tests, set_up, tear_down);
}
