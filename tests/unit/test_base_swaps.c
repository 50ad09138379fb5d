/* SPDX-License-Identifier: MIT */
/*
 * Kernels that change under load: sixteen threads launch eight ops and look at each result, while
 * base kernels give way to an op's own first kernel, and that to sets which have ever more. What
 * finds the kernels, and puts them in place of others, is the library with its own threads.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_base.h"
#include "t_context.h"

#include "problem/problem.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TARGET "gfx1201"
#ifndef CHANGES
#define CHANGES (T_SANITIZED ? 40 : 200) /* 10,000 in every build: test_base_swaps_long.c */
#endif
#define LAYERS    4
#define THREADS   16
#define ROWS      2
#define LARGEST_M 64
#define TOLERANCE 5e-3

/* A layer, which the same base kernels serve as the others. */
struct load {
    struct quern_problem problem;
    quern_op *home; /* of the first context, with all of its kernels */
    quern_op *op;   /* of the context in which they change */
};

struct launcher {
    struct load *load;
    struct t_layer layer;
    pthread_t thread;
    unsigned wrong;
};

static struct load loads[LAYERS];
static struct launcher launchers[THREADS];
static quern_op *base_home; /* of the base kernels, in the first context */

/* What threads are to do: launch twice whenever this changes, and end when it is LAST. They sleep
 * until then: looking every few microseconds took sixteen of them longer than their launches. */
static unsigned phase;
static pthread_mutex_t phase_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t phase_changed = PTHREAD_COND_INITIALIZER;
#define LAST UINT_MAX
static atomic_uint begun, ended; /* threads that have begun and ended their launches of the phase */

/* ---- Loading --------------------------------------------------------------------------------- */

static struct device_kernel *loaded_of(const quern_op *op, const struct object *object)
{
    const struct kernel_set *const set = atomic_load(&op->kernels);

    for (size_t i = 0; i < set->plans.count; i++) {
        const struct object *const own = &set->kernels[i]->object;
        if (own->size == object->size && !memcmp(own->bytes, object->bytes, own->size))
            return set->kernels[i]->loaded;
    }
    return NULL;
}

/* Gives the kernel that the first context has loaded: the software GPU takes as long to read a code
 * object as for hundreds of launches. */
static quern_status load_known(struct device *d, const struct object *object, const char *symbol,
                               uint32_t dynamic_lds, struct device_kernel **kernel)
{
    (void)d, (void)symbol, (void)dynamic_lds;
    *kernel = loaded_of(base_home, object);
    for (int i = 0; i < LAYERS && !*kernel; i++)
        *kernel = loaded_of(loads[i].home, object);
    return *kernel ? QUERN_OK : QUERN_E_OBJECT;
}

static void unload_nothing(struct device *d, struct device_kernel *kernel)
{
    (void)d, (void)kernel;
}

/* ---- Launching ------------------------------------------------------------------------------- */

static void set_phase(unsigned now)
{
    pthread_mutex_lock(&phase_lock);
    phase = now;
    pthread_cond_broadcast(&phase_changed);
    pthread_mutex_unlock(&phase_lock);
}

/* The phase, once it is another than the one last seen. */
static unsigned next_phase(unsigned seen)
{
    pthread_mutex_lock(&phase_lock);
    while (phase == seen)
        pthread_cond_wait(&phase_changed, &phase_lock);
    const unsigned now = phase;
    pthread_mutex_unlock(&phase_lock);
    return now;
}

/* Launches twice in each phase: a change is asked for when all threads have begun the first. */
static void *launch_on(void *user)
{
    struct launcher *const l = user;
    uint8_t *const nothing = memset(malloc(l->layer.c_bytes), 0xff, l->layer.c_bytes); /* NaN */

    for (unsigned now = 0; (now = next_phase(now)) != LAST;) {
        atomic_fetch_add(&begun, 1);
        for (int i = 0; i < 2; i++) {
            const bool right =
                quern_buffer_write(l->layer.c_buffer, nothing, l->layer.c_bytes) == QUERN_OK &&
                quern_op_launch(l->load->op, &l->layer.args, ROWS, NULL) == QUERN_OK &&
                t_layer_error(&l->layer) < TOLERANCE;
            l->wrong += !right;
        }
        atomic_fetch_add(&ended, 1);
    }
    free(nothing);
    return NULL;
}

/* ---- Changing -------------------------------------------------------------------------------- */

/* The number of rows for which an op has as many kernels. */
static int64_t rows_of(const struct load *l, size_t kernels)
{
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);

    assert_int_equal(quern_op_kernel(l->home, kernels - 1, &info), QUERN_OK);
    return info.m_hi;
}

/* Asks for the op of a layer with so many of its own kernels, and base kernels until they are
 * there. */
static quern_op *ask_for(const struct load *l, quern_ctx *ctx, size_t kernels)
{
    quern_op *op;

    assert_int_equal(
        quern_op_create_flags(ctx, &l->problem, rows_of(l, kernels), QUERN_OP_BASE, &op), QUERN_OK);
    quern_op_release(op); /* the context has another reference */
    return op;
}

/* Gives each op that has so many kernels the last of them while all threads launch. */
static void change_under_launches(quern_ctx *ctx, unsigned kernels)
{
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    set_phase(kernels);
    while (atomic_load(&begun) < THREADS)
        usleep(20);
    for (struct load *l = loads; l < loads + LAYERS; l++)
        if (kernels == 1)
            lock_give(&l->op->growing);
        else if (kernels <= quern_op_kernel_count(l->home))
            assert_ptr_equal(ask_for(l, ctx, kernels), l->op);
    for (struct load *l = loads; l < loads + LAYERS; l++) {
        const unsigned all = (unsigned)quern_op_kernel_count(l->home);
        while (quern_op_ready(l->op) == QUERN_E_NOT_READY)
            usleep(20);
        assert_int_equal(quern_op_ready(l->op), QUERN_OK);
        assert_int_equal(quern_op_generation(l->op), kernels < all ? kernels : all);
    }
    while (atomic_load(&ended) < THREADS)
        usleep(20);
}

/* In a new context: every layer is launched by base kernels; then its own first kernel takes over,
 * then its first two, and so on. Returns how often kernels changed. */
static unsigned change_all(const struct t_base *base)
{
    quern_ctx *const ctx = t_open(TARGET, t_cache, QUERN_JIT_OFF);
    struct device_functions functions = *ctx->device->functions;
    size_t most = 0;
    unsigned changes = 0;

    t_base_give(ctx, base);
    functions.load = load_known;
    functions.unload = unload_nothing;
    ctx->device->functions = &functions;
    for (struct load *l = loads; l < loads + LAYERS; l++) {
        struct quern_problem normal;
        assert_int_equal(problem_normalise(&l->problem, &normal), QUERN_OK);
        assert_int_equal(op_find_or_add(ctx, &normal, &l->op), QUERN_OK);
        lock_take(&l->op->growing); /* until there are launches */
        assert_ptr_equal(ask_for(l, ctx, 1), l->op);
        most = most < quern_op_kernel_count(l->home) ? quern_op_kernel_count(l->home) : most;
    }
    phase = 0; /* no thread runs */
    for (struct launcher *t = launchers; t < launchers + THREADS; t++)
        assert_int_equal(pthread_create(&t->thread, NULL, launch_on, t), 0);
    for (unsigned kernels = 1; kernels <= most + 1; kernels++)
        change_under_launches(ctx, kernels);
    set_phase(LAST);
    for (struct launcher *t = launchers; t < launchers + THREADS; t++) {
        assert_int_equal(pthread_join(t->thread, NULL), 0);
        assert_int_equal(t->wrong, 0);
    }
    for (struct load *l = loads; l < loads + LAYERS; l++)
        changes += quern_op_generation(l->op);
    assert_int_equal(quern_all_served(ctx), 1);
    quern_close(ctx);
    return changes;
}

static void test_changes_under_load(void **state)
{
    static const char *const shipped[] = {"wq=nf4 n=4 k=64 a=bf16 kernels=base"};
    struct quern_problem of_base = t_problem(*shipped);
    quern_ctx *const ctx = t_open(TARGET, t_cache, QUERN_JIT_ON);
    struct t_base base;
    char text[64];

    (void)state;
    t_base_make(&base, TARGET, shipped, 1, "0.1.0");
    t_base_give(ctx, &base);
    assert_int_equal(quern_op_create(ctx, &of_base, LARGEST_M, &base_home), QUERN_OK);
    for (int i = 0; i < LAYERS; i++) {
        snprintf(text, sizeof text, "wq=nf4 n=4 k=%d a=bf16 bias=%d", 64 * (i / 2 + 1), i % 2);
        loads[i].problem = t_problem(text);
        assert_int_equal(quern_op_create(ctx, &loads[i].problem, LARGEST_M, &loads[i].home),
                         QUERN_OK);
        assert_true(quern_op_kernel_count(loads[i].home) > 3);
    }
    for (int i = 0; i < THREADS; i++) {
        launchers[i].load = &loads[i % LAYERS];
        t_layer_make(&launchers[i].layer, ctx, &launchers[i].load->problem, ROWS, 0, 0,
                     (uint64_t)i);
    }
    for (unsigned changes = 0; changes < CHANGES;)
        changes += change_all(&base);
    for (int i = 0; i < THREADS; i++)
        t_layer_free(&launchers[i].layer);
    for (int i = 0; i < LAYERS; i++)
        quern_op_release(loads[i].home);
    quern_op_release(base_home);
    quern_close(ctx);
    t_base_remove(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_under_load),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("base swaps", tests, t_cache_make, t_cache_remove);
}
