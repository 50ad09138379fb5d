/* SPDX-License-Identifier: MIT */
/* Base kernels: one text for every layer of a kind, right for sizes of all sorts, and of use until
 * others are made. What they cost is test_base_kernels_long.c's. Judge: the software GPU. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_paths.h"

#include "gen/gen.h"
#include "plan/base_list.h"
#include "target/target.h"

#include <quern/tool.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static struct quern_problem parse(const char *words)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    if (quern_problem_parse(words, &p) != QUERN_OK)
        fail_msg("%s: %s", words, quern_last_error()->message);
    return p;
}

static const struct target *target_of(const char *name)
{
    struct target_id id;

    assert_int_equal(target_parse(name, &id), QUERN_OK);
    return id.target;
}

/* ---- One text -------------------------------------------------------------------------------- */

/* The texts of all of a target's base kernels, with the names of templates for theirs. */
struct texts {
    struct str all;
    int sets;
};

static void add_texts(void *user, const struct plan_set *set)
{
    struct texts *const t = user;

    for (size_t k = 0; k < set->count; k++)
        assert_int_equal(gen_outline(&set->plans[k], &t->all), QUERN_OK);
    t->sets++;
}

/* Kernels of any layer are among those that base_each lists. They do not depend on sizes, group,
 * bias or rounding. */
static void test_one_text(void **state)
{
    static const char *const layers[] = {
        "wq=nf4 a=bf16 n=5 k=64 bias=1",
        "wq=nf4 a=bf16 n=65536 k=1088",
        "wq=fp4 scale=nested a=f16 c=f32 n=100 k=8192 group=4096",
        "wq=fp4 scale=nested a=f16 c=f32 n=7 k=96 group=32",
        "wq=mxfp4 a=f32 n=9 k=32",
        "wq=int4 a=f16 n=4096 k=4096",
        "wq=int4 a=f16 n=33 k=64 group=32 bias=1",
        "wq=int4 a=bf16 zero=u8 layout=exl n=100 k=1152 group=channel round=trunc",
        "wq=int4 a=bf16 zero=scaled scale=f32 layout=ck n=64 k=160 group=channel",
        "wq=none a=bf16 n=32 k=32 bias=1 round=trunc",
        "wq=none a=f32 c=f16 n=131072 k=8192",
        "wq=fp8 a=bf16 n=77 k=7168",
        "wq=fp8fnuz a=fp8fnuz c=f32 n=4096 k=128",
        "op=dequant wq=nf4 c=bf16 n=3 k=192",
        "op=dequant wq=int4 zero=u8 layout=ck c=f16 n=64 k=96 group=channel round=trunc",
        "op=dequant wq=fp8 c=f32 n=5 k=64"};
    struct texts texts = {.sets = 0};

    (void)state;
    base_each(target_of("gfx942"), add_texts, &texts);
    assert_true(texts.sets > 500);
    for (int i = 0; i < COUNT(layers); i++) {
        struct plan_set set;
        char words[160];
        snprintf(words, sizeof words, "%s kernels=base", layers[i]);
        const struct quern_problem p = parse(words);
        if (plan_make(&p, target_of("gfx942"), &set) != QUERN_OK)
            fail_msg("%s: %s", words, quern_last_error()->message);
        for (size_t k = 0; k < set.count; k++) {
            struct str text = {0};
            assert_int_equal(gen_outline(&set.plans[k], &text), QUERN_OK);
            if (!strstr(str_text(&texts.all), str_text(&text)))
                fail_msg("%s has a text of its own for %s", words, set.plans[k].symbol);
            str_free(&text);
        }
    }
    str_free(&texts.all);
}

/* ---- Right answers --------------------------------------------------------------------------- */

/* A kind of layer, and what the kernels of it are tried with. */
static const struct kind {
    const char *words;
    int n_least; /* rows of W that it has at least */
    bool groups; /* whether they may be chosen */
    bool truncates;
} kinds[] = {
    {"wq=nf4 a=bf16", 4, true, false},
    {"wq=fp4 scale=nested a=f16", 4, true, false},
    {"wq=mxfp4 a=bf16", 4, false, false},
    {"wq=int4 a=f16 zero=u8", 32, true, true},
    {"wq=int4 a=bf16", 32, true, true},
    {"wq=int4 a=bf16 zero=scaled layout=exl scale=f16", 32, true, true},
    {"wq=int4 a=f16 c=bf16 zero=scaled layout=ck", 32, true, true},
    {"wq=int4 a=f32 c=bf16 layout=ck zero=u8", 32, true, true},
    {"wq=none a=bf16", 32, false, true},
    {"wq=none a=f32 c=f16", 32, false, false},
    {"wq=fp8 a=f16 c=bf16", 32, false, true},
    {"op=dequant wq=nf4 c=bf16", 1, true, false},
    {"op=dequant wq=mxfp4 c=f16", 1, false, false},
    {"op=dequant wq=int4 c=bf16 zero=scaled layout=ck", 1, true, true},
    {"op=dequant wq=fp8fnuz c=bf16", 1, false, true},
};

/* Layer i of a kind. */
static void layer_words(const struct kind *kind, int i, char words[192])
{
    static const int sizes[][3] = {/* n, k, group */
                                   {4, 64, 64},      {5, 32, 32},     {37, 544, 32},
                                   {64, 576, 64},    {130, 1088, 64}, {257, 512, 512},
                                   {16, 8192, 4096}, {333, 2880, 64}, {100, 1152, 128}};
    const int *const size = sizes[i % COUNT(sizes)];
    const int n = size[0] < kind->n_least ? kind->n_least : size[0];
    char group[32] = "";

    if (kind->groups && strstr(kind->words, "int4") && i % 4 == 3)
        snprintf(group, sizeof group, "group=channel");
    else if (kind->groups)
        snprintf(group, sizeof group, "group=%d", size[2]);
    snprintf(words, 192, "%s n=%d k=%d %s %s %s kernels=base", kind->words, n, size[1], group,
             i % 2 && !strstr(kind->words, "dequant") ? "bias=1" : "",
             i % 3 == 1 && kind->truncates ? "round=trunc" : "");
}
#define SIZES 9
#ifndef SIZES_ONE_IN
#define SIZES_ONE_IN 9
#endif

/* Whether a target has a way to decode a kind's weights. */
static bool decodes(const char *target, const struct kind *kind)
{
    char words[192];
    struct plan_set set;

    layer_words(kind, 0, words);
    const struct quern_problem p = parse(words);
    const quern_status status = plan_make(&p, target_of(target), &set);
    if (status != QUERN_OK)
        assert_non_null(strstr(quern_last_error()->message, "has no instruction for wq=fp8"));
    return status == QUERN_OK;
}

static void check_layer(quern_ctx *ctx, const char *target, const char *words, uint64_t seed)
{
    static const int m[] = {70, 16, 1, 3};
    const struct quern_problem p = parse(words);
    const int tried = p.op == QUERN_OP_DEQUANT ? 1 : T_SANITIZED ? 2 : COUNT(m);
    const int step = SIZES_ONE_IN > 1 && tried > 1 ? 2 : 1; /* few rows and many, or the others */
    quern_op *op;

    if (quern_op_create(ctx, &p, m[0], &op) != QUERN_OK)
        fail_msg("%s: %s", words, quern_last_error()->message);
    for (int j = (int)seed % step; j < tried; j += step) {
        struct quern_verification v = QUERN_INIT(struct quern_verification);
        if (quern_verify(op, m[j], seed, QUERN_CHECK_FULL, &v) != QUERN_OK)
            fail_msg("%s on %s, m=%d: %s", words, target, m[j], quern_last_error()->message);
    }
    quern_op_release(op);
}

/* Many layers by the few kernels that are compiled for the first. Each kind on one target, by one
 * of its sizes, another for each target and kind; in test_base_kernels_whole_long.c each by all
 * sizes on every other target. */
static void test_sizes(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx1100", "gfx1201"};

    (void)state;
    for (int t = 0; t < COUNT(targets); t++) {
        quern_ctx *const ctx = t_open(targets[t], t_cache, QUERN_JIT_ON);
        for (int i = 0; i < COUNT(kinds) * SIZES; i++) {
            char words[192];
            if ((i / SIZES + t) % (SIZES_ONE_IN > 1 ? COUNT(targets) : 2) ||
                (i % SIZES + i / SIZES + t) % SIZES_ONE_IN ||
                !decodes(targets[t], &kinds[i / SIZES]))
                continue;
            layer_words(&kinds[i / SIZES], i % SIZES, words);
            check_layer(ctx, targets[t], words, (uint64_t)i);
        }
        struct quern_stats stats = QUERN_INIT(struct quern_stats);
        assert_int_equal(quern_ctx_stats(ctx, &stats), QUERN_OK);
        /* at most four kernels on vector units and four on matrix units, of each kind */
        assert_true(stats.compile_ok <= (uint64_t)COUNT(kinds) * 8);
        quern_close(ctx);
    }
}

/* ---- What they do not do --------------------------------------------------------------------- */

static void test_declined(void **state)
{
    static const char *const words[][2] = {
        {"wq=nf4 n=3 k=64 a=bf16", "base kernels of wq=nf4 take 4 or more"},
        {"wq=nf4 n=64 k=64 a=bf16 exact=both", "base kernels make no promise"},
        {"wq=int4 group=128 n=31 k=128 a=f16", "base kernels of wq=int4 take 32 or more"},
        {"wq=int4 group=channel n=64 k=40 a=f16", "base kernels take multiples of 32"},
        {"wq=none n=64 k=33 a=f16", "base kernels take multiples of 32"}};

    (void)state;
    for (int i = 0; i < COUNT(words); i++) {
        char base[128];
        struct plan_set set;
        snprintf(base, sizeof base, "%s kernels=base", words[i][0]);
        const struct quern_problem p = parse(base);
        assert_int_equal(plan_make(&p, target_of("gfx1151"), &set), QUERN_E_DECLINED);
        assert_non_null(strstr(quern_last_error()->message, words[i][1]));
    }
}

/* ---- Until others are made ------------------------------------------------------------------- */

#define LAYER "wq=nf4 n=96 k=1024 a=bf16 bias=1"
#define ROWS  5

/* What there is without a compiler serves, and why there is nothing better is told. */
static void test_base_serves(void **state)
{
    char *const directory = t_temp_dir();
    const struct quern_problem p = parse(LAYER), base = parse(LAYER " kernels=base");
    const struct quern_problem other = parse("wq=int4 group=64 n=32 k=64 a=bf16");
    struct t_layer l;
    quern_op *op, *same;

    (void)state;
    quern_ctx *ctx = t_open("gfx1201", directory, QUERN_JIT_OFF);
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &op),
                     QUERN_E_WOULD_COMPILE); /* there are none yet */
    quern_close(ctx);
    ctx = t_open("gfx1201", directory, QUERN_JIT_ON);
    assert_int_equal(quern_op_create(ctx, &base, ROWS, &op), QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
    ctx = t_open("gfx1201", directory, QUERN_JIT_OFF);
    assert_int_equal(quern_op_create_flags(ctx, &other, 1, QUERN_OP_BASE, &op),
                     QUERN_E_WOULD_COMPILE);
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &op), QUERN_OK);
    t_layer_make(&l, ctx, &p, ROWS, 0, 0, 1);
    t_launch_right(op, &l);
    assert_int_equal(t_wait_ready(op), QUERN_E_WOULD_COMPILE);
    assert_non_null(strstr(quern_last_error()->message, "QUERN_JIT"));
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &same), QUERN_OK);
    assert_ptr_equal(op, same);
    t_launch_right(op, &l);
    assert_int_equal(quern_op_generation(op), 0);
    t_layer_free(&l);
    quern_op_release(op);
    quern_op_release(same);
    quern_close(ctx);
    t_remove(directory);
}

static void count_events(void *user, const struct quern_event *event)
{
    (void)event;
    ++*(int *)user;
}

/* Base kernels that are not there are neither counted nor told of: what serves is there, and the
 * host asked for nothing else. */
static void test_absent_base_kernels_do_not_count(void **state)
{
    char *const directory = t_temp_dir();
    const struct quern_problem p = parse(LAYER);
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_stats stats = QUERN_INIT(struct quern_stats);
    int events = 0;
    quern_op *op;

    (void)state;
    quern_ctx *ctx = t_open("gfx1201", directory, QUERN_JIT_ON);
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_OK);
    assert_int_equal(quern_op_kernel_count(op), 1);
    quern_op_release(op);
    quern_close(ctx);
    options.target = "gfx1201";
    options.cache_dir = directory;
    options.worker_path = t_worker_path();
    options.event = count_events;
    options.event_user = &events;
    for (int flags = QUERN_OP_BASE; flags <= (QUERN_OP_BASE | QUERN_OP_NO_COMPILE); flags++) {
        if (flags & QUERN_OP_NO_WAIT)
            continue;
        events = 0;
        assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
        assert_int_equal(quern_op_create_flags(ctx, &p, 1, (unsigned)flags, &op), QUERN_OK);
        assert_int_equal(quern_op_generation(op), 1);
        quern_op_release(op);
        assert_int_equal(quern_ctx_stats(ctx, &stats), QUERN_OK);
        assert_int_equal(stats.compile_refused, 0);
        assert_int_equal(stats.miss_absent, 0);
        assert_int_equal(stats.hit_disk, 1);
        assert_int_equal(events, 2); /* one kernel's begin and end */
        assert_true(quern_all_served(ctx));
        quern_close(ctx);
    }
    t_remove(directory);
}

/* While base kernels serve, they are what explain tells of. */
static void test_explain_names_base_kernels(void **state)
{
    char *const directory = t_temp_dir();
    const struct quern_problem p = parse(LAYER), base = parse(LAYER " kernels=base");
    char text[8192];
    quern_op *op;

    (void)state;
    quern_ctx *ctx = t_open("gfx1201", directory, QUERN_JIT_ON);
    assert_int_equal(quern_op_create(ctx, &base, ROWS, &op), QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
    ctx = t_open("gfx1201", directory, QUERN_JIT_OFF);
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &op), QUERN_OK);
    assert_int_equal(t_wait_ready(op), QUERN_E_WOULD_COMPILE);
    assert_true(quern_op_explain(op, 1, text, sizeof text) > 0);
    assert_non_null(strstr(text, "base kernels serve"));
    assert_non_null(strstr(text, "a base kernel: "));
    quern_op_release(op);
    quern_close(ctx);
    t_remove(directory);
}

struct host {
    quern_ctx *ctx;
    quern_op *op;
    atomic_bool *enough;
};

static void *serve(void *user)
{
    const struct host *const h = user;
    const struct quern_problem p = parse(LAYER);
    struct t_layer l;

    t_layer_make(&l, h->ctx, &p, ROWS, 0, 0, 2);
    for (bool last = false; !last;) {
        last = atomic_load(h->enough); /* once more after the change */
        t_launch_right(h->op, &l);
    }
    t_layer_free(&l);
    return NULL;
}

/* Threads launch all the while that made kernels take the place of base kernels. */
static void test_made_kernels_take_over(void **state)
{
    quern_ctx *const ctx = t_open("gfx1201", t_cache, QUERN_JIT_ON);
    const struct quern_problem p = parse(LAYER), base = parse(LAYER " kernels=base");
    atomic_bool enough = false;
    struct host h = {.ctx = ctx, .enough = &enough};
    pthread_t threads[4];
    quern_op *first;

    (void)state;
    assert_int_equal(quern_op_create(ctx, &base, ROWS, &first), QUERN_OK);
    assert_int_equal(quern_op_create_flags(ctx, &p, ROWS, QUERN_OP_BASE, &h.op), QUERN_OK);
    for (int i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, serve, &h), 0);
    assert_int_equal(t_wait_ready(h.op), QUERN_OK);
    assert_int_equal(quern_op_generation(h.op), 1);
    atomic_store(&enough, true);
    for (int i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(quern_op_generation(first), 1);
    assert_int_equal(quern_op_generation(NULL), 0);
    quern_op_release(first);
    quern_op_release(h.op);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest one_thread[] = {
        cmocka_unit_test(test_one_text),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_declined),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_serves),
        cmocka_unit_test(test_absent_base_kernels_do_not_count),
        cmocka_unit_test(test_explain_names_base_kernels),
        cmocka_unit_test(test_made_kernels_take_over),
    };

    setenv("QUERN_BASE", "off", 1); /* this build's library may have come with some */
    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (!T_THREADS_ONLY &&
        cmocka_run_group_tests_name("sizes", one_thread, t_cache_make, t_cache_remove))
        return 1;
    return cmocka_run_group_tests_name("base kernels", tests, t_cache_make, t_cache_remove);
}
