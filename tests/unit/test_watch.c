/* SPDX-License-Identifier: MIT */
/* What a host is told of compiles, and how it forbids them: events, counters, the seal. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_paths.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYER "wq=nf4 n=32 k=64 a=f16"
#define OTHER "wq=nf4 n=16 k=64 a=f16"

static char *cache;

static int set_up(void **state)
{
    (void)state;
    cache = t_temp_dir();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    t_remove(cache);
    return quern_seal(QUERN_SEAL_OPEN);
}

/* ---- A host that writes down what it is told ------------------------------------------------- */

#define NOTES_MAX 64

struct note {
    struct quern_event event; /* its strings are gone but for the two below */
    char kernel[128], key[64];
    pthread_t thread;
};

struct host {
    quern_ctx *ctx;
    struct note notes[NOTES_MAX];
    size_t count;
    char log[4096];
    int inside; /* of a callback: they come one at a time */
};

static void on_event(void *user, const struct quern_event *event)
{
    struct host *const h = user;

    assert_int_equal(h->inside++, 0);
    assert_int_equal(event->size, sizeof *event);
    assert_string_equal(event->target, "gfx1151");
    assert_int_equal(strlen(event->key), 32);
    assert_int_equal(strlen(event->source_key), 32);
    assert_non_null(strstr(event->problem, "wq=nf4 group=64"));
    assert_true(h->count < NOTES_MAX);
    struct note *const n = &h->notes[h->count++];
    n->event = *event;
    strcpy(n->kernel, event->kernel);
    strcpy(n->key, event->key);
    n->thread = pthread_self();
    h->inside--;
}

static void on_log(void *user, enum quern_log_level level, const char *line)
{
    struct host *const h = user;

    (void)level;
    strncat(h->log, line, sizeof h->log - strlen(h->log) - 2);
    strcat(h->log, "\n");
}

static void open_host(struct host *h, enum quern_jit jit, enum quern_cache_mode mode)
{
    struct quern_options options = QUERN_INIT(struct quern_options);

    memset(h, 0, sizeof *h);
    options.target = "gfx1151";
    options.cache_dir = cache;
    options.cache_mode = mode;
    options.jit = jit;
    options.jobs = 2;
    options.worker_path = t_worker_path();
    options.event = on_event;
    options.event_user = h;
    options.log = on_log;
    options.log_user = h;
    if (quern_open(&options, &h->ctx) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    h->log[0] = 0; /* the environment's variables may be unknown to the library */
}

static quern_status ask(struct host *h, const char *text, int64_t m_max)
{
    const struct quern_problem p = t_problem(text);
    quern_op *op = NULL;
    const quern_status status = quern_op_create(h->ctx, &p, m_max, &op);

    quern_op_release(op);
    return status;
}

static uint64_t stat_of(struct host *h, enum quern_stat which)
{
    uint64_t values[QUERN_STAT_COUNT];

    assert_int_equal(quern_stats(h->ctx, values, QUERN_STAT_COUNT), QUERN_OK);
    return values[which];
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void test_a_compile_and_a_hit(void **state)
{
    struct host h;
    char key[64];

    (void)state;
    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_RW);
    assert_int_equal(ask(&h, LAYER, 1), QUERN_OK);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.notes[0].event.kind, QUERN_EVENT_BEGIN);
    assert_int_equal(h.notes[0].event.ns, 0);
    assert_int_equal(h.notes[1].event.kind, QUERN_EVENT_COMPILE);
    assert_int_equal(h.notes[1].event.reason, QUERN_REASON_ABSENT);
    const struct quern_event *const end = &h.notes[2].event;
    assert_int_equal(end->kind, QUERN_EVENT_END);
    assert_int_equal(end->status, QUERN_OK);
    assert_int_equal(end->tier, QUERN_TIER_COMPILER);
    assert_int_equal(end->reason, QUERN_REASON_ABSENT);
    assert_true(end->ns > h.notes[1].event.ns);
    assert_true(end->ns >= stat_of(&h, QUERN_STAT_COMPILE_NS));
    assert_true(stat_of(&h, QUERN_STAT_COMPILE_NS) > 1000000); /* no compiler takes under 1 ms */
    assert_int_equal(end->m_lo, 1);
    for (int i = 1; i < 3; i++) {
        assert_string_equal(h.notes[i].key, h.notes[0].key);
        assert_string_equal(h.notes[i].kernel, h.notes[0].kernel);
    }
    strcpy(key, h.notes[0].key);

    /* what the process has gives no event */
    assert_int_equal(ask(&h, LAYER, 1), QUERN_OK);
    assert_int_equal(h.count, 3);
    assert_int_equal(stat_of(&h, QUERN_STAT_MISS_ABSENT), 1);
    quern_close(h.ctx);

    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_RW);
    assert_int_equal(ask(&h, LAYER, 1), QUERN_OK);
    assert_int_equal(h.count, 2);
    assert_int_equal(h.notes[1].event.kind, QUERN_EVENT_END);
    assert_int_equal(h.notes[1].event.tier, QUERN_TIER_CACHE);
    assert_int_equal(h.notes[1].event.reason, 0);
    assert_false(h.notes[1].event.other_toolchain);
    assert_string_equal(h.notes[1].key, key);
    quern_close(h.ctx);
}

static int spoil(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || !strstr(path, ".qk"))
        return 0;
    const int fd = open(path, O_WRONLY);
    const int written = fd >= 0 && pwrite(fd, "x", 1, st->st_size / 2) == 1;
    close(fd);
    return !written;
}

static void test_why_it_compiles(void **state)
{
    struct host h;

    (void)state;
    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_RW);
    assert_int_equal(ask(&h, LAYER, 1), QUERN_OK);
    quern_close(h.ctx);
    assert_int_equal(nftw(cache, spoil, 16, FTW_PHYS), 0);
    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_RW);
    assert_int_equal(ask(&h, LAYER, 1), QUERN_OK);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.notes[1].event.reason, QUERN_REASON_DAMAGED);
    assert_int_equal(h.notes[2].event.reason, QUERN_REASON_DAMAGED);
    assert_int_equal(stat_of(&h, QUERN_STAT_MISS_DAMAGED), 1);
    quern_close(h.ctx);
}

static void test_a_failure_ends_too(void **state)
{
    struct host h;

    (void)state;
    open_host(&h, QUERN_JIT_OFF, QUERN_CACHE_RW);
    assert_int_equal(ask(&h, OTHER, 1), QUERN_E_WOULD_COMPILE);
    assert_int_equal(h.count, 2);
    assert_int_equal(h.notes[1].event.kind, QUERN_EVENT_END);
    assert_int_equal(h.notes[1].event.status, QUERN_E_WOULD_COMPILE);
    assert_int_equal(h.notes[1].event.tier, 0);
    assert_int_equal(stat_of(&h, QUERN_STAT_COMPILE_REFUSED), 1);
    quern_close(h.ctx);
}

/* An op's kernels are made on several threads: each kernel's events are in order, on one thread. */
static void test_many_at_once(void **state)
{
    struct host h;
    size_t ends = 0;

    (void)state;
    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_OFF);
    assert_int_equal(ask(&h, LAYER, 8), QUERN_OK);
    for (size_t i = 0; i < h.count; i++) {
        int stage = 0;
        for (size_t j = 0; j < i; j++)
            if (!strcmp(h.notes[j].kernel, h.notes[i].kernel)) {
                assert_true(pthread_equal(h.notes[j].thread, h.notes[i].thread));
                stage++;
            }
        assert_int_equal(h.notes[i].event.kind, stage + 1);
        ends += h.notes[i].event.kind == QUERN_EVENT_END;
    }
    assert_true(ends > 1);
    assert_int_equal(h.count, 3 * ends);
    assert_int_equal(stat_of(&h, QUERN_STAT_COMPILE_OK), ends);
    quern_close(h.ctx);
}

/* ---- The seal -------------------------------------------------------------------------------- */

static void test_seal(void **state)
{
    struct host h, second;

    (void)state;
    assert_int_equal(quern_seal(0), QUERN_E_ARGUMENT);
    assert_int_equal(quern_seal(QUERN_SEAL_FAIL + 1), QUERN_E_ARGUMENT);
    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_RW);
    assert_int_equal(ask(&h, LAYER, 1), QUERN_OK);
    assert_string_equal(h.log, "");

    /* warn: every compile of the process is said, and done */
    assert_int_equal(quern_seal(QUERN_SEAL_WARN), QUERN_OK);
    assert_int_equal(ask(&h, OTHER, 1), QUERN_OK);
    assert_non_null(strstr(h.log, "compiling it, though the process is sealed\n"));
    assert_int_equal(stat_of(&h, QUERN_STAT_COMPILE_SEALED), 1);

    /* fail: none is done; what is there serves */
    assert_int_equal(quern_seal(QUERN_SEAL_FAIL), QUERN_OK);
    assert_int_equal(ask(&h, "wq=nf4 n=48 k=64 a=f16", 1), QUERN_E_WOULD_COMPILE);
    assert_non_null(strstr(quern_last_error()->message, "the process is sealed (quern_seal)"));
    assert_int_equal(stat_of(&h, QUERN_STAT_COMPILE_REFUSED), 1);
    assert_int_equal(stat_of(&h, QUERN_STAT_COMPILE_SEALED), 1);
    open_host(&second, QUERN_JIT_ON, QUERN_CACHE_RW); /* also in a context that opens now */
    assert_int_equal(ask(&second, LAYER, 1), QUERN_OK);
    assert_int_equal(second.notes[1].event.tier, QUERN_TIER_CACHE);
    assert_int_equal(ask(&second, "wq=nf4 n=48 k=64 a=f16", 1), QUERN_E_WOULD_COMPILE);
    assert_int_equal(stat_of(&second, QUERN_STAT_COMPILE_OK), 0);

    assert_int_equal(quern_seal(QUERN_SEAL_OPEN), QUERN_OK);
    assert_int_equal(ask(&second, "wq=nf4 n=48 k=64 a=f16", 1), QUERN_OK);
    assert_string_equal(second.log, "");
    quern_close(second.ctx);
    quern_close(h.ctx);
}

/* ---- Why a kernel is not made ---------------------------------------------------------------- */

/* Who forbade it, where it was looked for, and the command that makes it. */
static void test_what_a_refusal_names(void **state)
{
    const struct quern_problem p = t_problem(OTHER);
    struct host h;
    quern_op *op;

    (void)state;
    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_RW);
    assert_int_equal(quern_op_create_flags(h.ctx, &p, 1, QUERN_OP_NO_COMPILE, &op),
                     QUERN_E_WOULD_COMPILE);
    t_message_has("is not in the cache /");
    t_message_has(" and this op may not compile (QUERN_OP_NO_COMPILE); made by: ");
    t_message_has("quern prewarm --target gfx1151 --m 1 \"op=gemm wq=nf4 group=64 scale=f32 a=f16");
    assert_null(strstr(quern_last_error()->message, "QUERN_JIT"));
    quern_close(h.ctx);
    open_host(&h, QUERN_JIT_OFF, QUERN_CACHE_OFF);
    assert_int_equal(quern_op_create_flags(h.ctx, &p, 1, QUERN_OP_NO_COMPILE, &op),
                     QUERN_E_WOULD_COMPILE);
    t_message_has("is in no bundle, the cache is off and compiling is off (QUERN_JIT); made by: ");
    quern_close(h.ctx);
}

/* ---- Counters -------------------------------------------------------------------------------- */

/* The counters as released: a number never means another one. */
static const char *const counter_names[] = {
    "hit_memory",      "hit_bundle",        "hit_disk",        "hit_source",     "miss_absent",
    "miss_damaged",    "miss_foreign",      "miss_io",         "put_ok",         "put_lost",
    "put_failed",      "quarantined",       "evicted",         "bundle_damaged", "compile_ok",
    "compile_failed",  "compile_ns",        "compile_refused", "compile_sealed", "worker_died",
    "compile_dropped", "load_failed",       "hit_base",        "base_damaged",   "hit_remote",
    "remote_refused",  "remote_failed",     "remote_late",     "remote_skipped", "remote_revoked",
    "remote_put_ok",   "remote_put_failed", "remote_claimed",  "remote_awaited"};

static void test_counters_by_number(void **state)
{
    /* hosts are compiled against this order of fields: new ones are added behind the last */
    static const size_t offsets[] = {offsetof(struct quern_stats, hit_memory),
                                     offsetof(struct quern_stats, hit_disk),
                                     offsetof(struct quern_stats, miss_absent),
                                     offsetof(struct quern_stats, miss_damaged),
                                     offsetof(struct quern_stats, miss_foreign),
                                     offsetof(struct quern_stats, miss_io),
                                     offsetof(struct quern_stats, put_ok),
                                     offsetof(struct quern_stats, put_lost),
                                     offsetof(struct quern_stats, put_failed),
                                     offsetof(struct quern_stats, quarantined),
                                     offsetof(struct quern_stats, evicted),
                                     offsetof(struct quern_stats, compile_ok),
                                     offsetof(struct quern_stats, compile_failed),
                                     offsetof(struct quern_stats, worker_died),
                                     offsetof(struct quern_stats, hit_bundle),
                                     offsetof(struct quern_stats, hit_source),
                                     offsetof(struct quern_stats, bundle_damaged),
                                     offsetof(struct quern_stats, compile_ns),
                                     offsetof(struct quern_stats, compile_refused),
                                     offsetof(struct quern_stats, compile_sealed),
                                     offsetof(struct quern_stats, compile_dropped),
                                     offsetof(struct quern_stats, load_failed),
                                     offsetof(struct quern_stats, hit_base),
                                     offsetof(struct quern_stats, base_damaged),
                                     offsetof(struct quern_stats, hit_remote),
                                     offsetof(struct quern_stats, remote_refused),
                                     offsetof(struct quern_stats, remote_failed),
                                     offsetof(struct quern_stats, remote_late),
                                     offsetof(struct quern_stats, remote_skipped),
                                     offsetof(struct quern_stats, remote_revoked),
                                     offsetof(struct quern_stats, remote_put_ok),
                                     offsetof(struct quern_stats, remote_put_failed),
                                     offsetof(struct quern_stats, remote_claimed),
                                     offsetof(struct quern_stats, remote_awaited)};
    struct quern_stats stats = QUERN_INIT(struct quern_stats);
    uint64_t values[QUERN_STAT_COUNT + 4];
    struct host h;

    (void)state;
    _Static_assert(sizeof counter_names / sizeof *counter_names == QUERN_STAT_COUNT &&
                       sizeof offsets / sizeof *offsets == QUERN_STAT_COUNT,
                   "a new counter has a name and a place here too");
    for (unsigned i = 0; i < QUERN_STAT_COUNT; i++)
        assert_string_equal(quern_stat_name(i), counter_names[i]);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        assert_int_equal(offsets[i], sizeof(size_t) + i * sizeof(uint64_t));
    assert_null(quern_stat_name(QUERN_STAT_COUNT));
    assert_null(quern_stat_name((enum quern_stat) - 1));

    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_RW);
    assert_int_equal(ask(&h, LAYER, 1), QUERN_OK);
    assert_int_equal(ask(&h, LAYER, 1), QUERN_OK);
    memset(values, 0xff, sizeof values);
    assert_int_equal(quern_stats(h.ctx, values, QUERN_STAT_COUNT + 4), QUERN_OK);
    assert_int_equal(quern_ctx_stats(h.ctx, &stats), QUERN_OK);
    assert_int_equal(values[QUERN_STAT_HIT_MEMORY], 1);
    assert_int_equal(values[QUERN_STAT_MISS_ABSENT], stats.miss_absent);
    assert_int_equal(values[QUERN_STAT_PUT_OK], 1);
    assert_int_equal(values[QUERN_STAT_COMPILE_OK], 1);
    assert_true(values[QUERN_STAT_COMPILE_NS] == stats.compile_ns);
    for (size_t i = QUERN_STAT_COUNT; i < QUERN_STAT_COUNT + 4; i++)
        assert_int_equal(values[i], 0);
    values[1] = 77; /* no more than asked for */
    assert_int_equal(quern_stats(h.ctx, values, 1), QUERN_OK);
    assert_int_equal(values[1], 77);
    assert_int_equal(quern_stats(NULL, values, 1), QUERN_E_ARGUMENT);
    assert_int_equal(quern_stats(h.ctx, NULL, 1), QUERN_E_ARGUMENT);
    quern_close(h.ctx);
}

/* ---- Preload --------------------------------------------------------------------------------- */

static quern_status preload(struct host *h, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/manifest", cache);
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return quern_preload(h->ctx, path);
}

static void test_preload(void **state)
{
    const struct quern_problem p = t_problem(LAYER);
    struct host h;
    quern_op *op;

    (void)state;
    open_host(&h, QUERN_JIT_ON, QUERN_CACHE_RW);
    assert_int_equal(preload(&h, ""), QUERN_OK);
    assert_int_equal(preload(&h, "# only words\n\n   \ntarget=gfx942 m=1 wq=nf4 n=8 k=64 a=f16\n"),
                     QUERN_OK);
    assert_int_equal(h.count, 0);
    /* rows in a list, and no line's end; what follows a bad line is made all the same */
    assert_int_equal(preload(&h, "wq=nf4 n=1\ntarget=gfx1151 m=1,3-4,2 " LAYER), QUERN_E_PROBLEM);
    t_message_has("manifest: line 1: ");
    assert_int_equal(quern_op_create_flags(h.ctx, &p, 4, QUERN_OP_NO_COMPILE, &op), QUERN_OK);
    quern_op_release(op);
    assert_int_equal(stat_of(&h, QUERN_STAT_HIT_MEMORY), 1);

    assert_int_equal(preload(&h, "m=0 " LAYER "\n"), QUERN_E_PROBLEM);
    t_message_has("line 1: m=0; expected numbers from 1 on");
    assert_int_equal(preload(&h, "m=1-x " LAYER "\n"), QUERN_E_PROBLEM);
    t_message_has("m=1-x");
    assert_int_equal(preload(&h, "\ntarget=gfx1 " LAYER "\n"), QUERN_E_TARGET);
    t_message_has("line 2: unknown target");
    assert_int_equal(quern_preload(h.ctx, "/nowhere/at/all"), QUERN_E_IO);
    t_message_has("/nowhere/at/all cannot be read");
    assert_int_equal(quern_preload(NULL, "x"), QUERN_E_ARGUMENT);
    assert_int_equal(quern_preload(h.ctx, NULL), QUERN_E_ARGUMENT);
    quern_close(h.ctx);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_compile_and_a_hit),
        TEST(test_why_it_compiles),
        TEST(test_a_failure_ends_too),
        TEST(test_many_at_once),
        TEST(test_seal),
        TEST(test_what_a_refusal_names),
        TEST(test_counters_by_number),
        TEST(test_preload),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
