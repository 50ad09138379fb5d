/* SPDX-License-Identifier: MIT */
/*
 * Where kernels come from: memory, bundles, the cache, the compiler, in this order; by the exact
 * key or by the source's; with compiling allowed or not; at once or in the background; after a
 * fork. This file is long because all of this is told apart by the same bundles and caches.
 */
#include "dispatch/dispatch.h"
#include "base/os.h"
#include "t_build.h"
#include "t_context.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* No software GPU runs it, so that nothing is disassembled here: what is meant is finding kernels.
 */
#define TARGET "gfx1030"

static char *directory;
static char bundle_path[256], foreign_path[256];
static struct quern_problem problem;

static quern_ctx *open_with(const char *cache, enum quern_jit jit, const char *bundles,
                            enum quern_toolchain toolchain)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    char path[256];
    quern_ctx *ctx;

    snprintf(path, sizeof path, "%s/%s", directory, cache);
    o.target = TARGET;
    o.cache_dir = path;
    o.jit = jit;
    o.allow_unverified = 1;
    o.bundle_path = bundles;
    o.toolchain = toolchain;
    if (quern_open(&o, &ctx) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    return ctx;
}

static struct quern_stats stats_of(quern_ctx *ctx)
{
    struct quern_stats s = QUERN_INIT(struct quern_stats);

    assert_int_equal(quern_ctx_stats(ctx, &s), QUERN_OK);
    return s;
}

/* The kernel for one row. */
static quern_status get(quern_ctx *ctx)
{
    quern_op *op = NULL;
    const quern_status status = quern_op_create_range(ctx, &problem, 1, 1, &op);

    quern_op_release(op);
    return status;
}

/* The same entry as another toolchain would have made it. */
static int take_foreign(void *user, const struct store_item *item, struct store_entry *entry)
{
    const struct store_record *const r = &entry->record;
    struct str text = {0};
    struct hash128 source_key;
    char hex[33];
    const char *const start = memmem(r->key_text, r->key_text_bytes, "format ", 7);
    void **const bytes = user;

    assert_int_equal(item->status, QUERN_OK);
    assert_non_null(start);
    const size_t source_bytes = (size_t)(r->key_text + r->key_text_bytes - start);
    source_key = hash128_of(start, source_bytes);
    hex_from_bytes(hex, source_key.bytes, sizeof source_key.bytes);
    key_add_text(&text, "source key", hex);
    key_add_text(&text, "toolchain", "another one");
    str_add_bytes(&text, start, source_bytes);
    struct store_record foreign = *r;
    foreign.key_text = text.text;
    foreign.key_text_bytes = text.length;
    size_t size;
    assert_int_equal(bundle_write(&(struct bundle_content){&foreign, 1, NULL, 0}, bytes, &size),
                     QUERN_OK);
    t_write_file(foreign_path, *bytes, size);
    str_free(&text);
    return 0;
}

/* Whether a worker's answers are kept from the library, and whether workers seem to have died. */
static atomic_bool unheard, dead;
static ssize_t (*real_recv)(int fd, void *to, size_t size, int flags);

static ssize_t recv_unless_unheard(int fd, void *to, size_t size, int flags)
{
    if (atomic_load(&dead))
        return 0;
    if (!atomic_load(&unheard))
        return real_recv(fd, to, size, flags);
    errno = EAGAIN;
    return -1;
}

static int setup(void **state)
{
    void *bytes = NULL;
    size_t size;

    (void)state;
    real_recv = os.recv; /* before there are threads */
    os.recv = recv_unless_unheard;
    directory = t_temp_dir();
    problem = t_problem("wq=nf4 n=64 k=64 a=f16");
    snprintf(bundle_path, sizeof bundle_path, "%s/own.qkb", directory);
    snprintf(foreign_path, sizeof foreign_path, "%s/foreign.qkb", directory);
    quern_ctx *const ctx = open_with("filled", QUERN_JIT_ON, NULL, 0);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_int_equal(stats_of(ctx).compile_ok, 1);
    assert_int_equal(quern_bundle_create(ctx, NULL, NULL, 0, &bytes, &size, NULL), QUERN_OK);
    t_write_file(bundle_path, bytes, size);
    free(bytes);
    assert_int_equal(store_read_all(ctx->store, take_foreign, &bytes), QUERN_OK);
    free(bytes);
    quern_close(ctx);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    t_remove(directory);
    return 0;
}

static void bundles_come_before_the_cache(void **state)
{
    (void)state;
    quern_ctx *ctx = open_with("filled", QUERN_JIT_ON, bundle_path, 0);
    assert_int_equal(get(ctx), QUERN_OK);
    struct quern_stats s = stats_of(ctx);
    assert_true(s.hit_bundle == 1 && s.hit_disk == 0 && s.miss_absent == 0 && s.compile_ok == 0);
    quern_close(ctx);
    /* of several, and one that is not there */
    char path[1024];
    snprintf(path, sizeof path, "/nowhere:%s::%s", foreign_path, bundle_path);
    ctx = open_with("empty", QUERN_JIT_OFF, path, QUERN_TOOLCHAIN_EXACT);
    assert_int_equal(ctx->bundles.count, 2);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_int_equal(stats_of(ctx).hit_bundle, 1);
    quern_close(ctx);
}

static void another_toolchains_kernel_serves_if_allowed(void **state)
{
    (void)state;
    quern_ctx *ctx = open_with("empty", QUERN_JIT_OFF, foreign_path, QUERN_TOOLCHAIN_EXACT);
    assert_int_equal(get(ctx), QUERN_E_WOULD_COMPILE);
    quern_close(ctx);
    ctx = open_with("empty", QUERN_JIT_ON, foreign_path, QUERN_TOOLCHAIN_ANY);
    assert_int_equal(get(ctx), QUERN_OK);
    const struct quern_stats s = stats_of(ctx);
    assert_true(s.hit_source == 1 && s.hit_bundle == 1 && s.compile_ok == 0);
    assert_int_equal(s.miss_absent,
                     0); /* what the source key serves was no miss by the exact one */
    assert_true(quern_all_served(ctx));
    quern_close(ctx);
}

/* From the cache only where nothing may be compiled: else the own toolchain's is made. */
static void the_cache_serves_by_source_without_a_compiler(void **state)
{
    struct quern_bundle_import result = QUERN_INIT(struct quern_bundle_import);
    static char bytes[1 << 20];
    const size_t size = t_read_file(foreign_path, bytes, sizeof bytes);
    quern_bundle *bundle;

    (void)state;
    quern_ctx *ctx = open_with("by-source", QUERN_JIT_OFF, NULL, QUERN_TOOLCHAIN_ANY);
    assert_int_equal(get(ctx), QUERN_E_WOULD_COMPILE);
    assert_int_equal(quern_bundle_open(bytes, size, &bundle), QUERN_OK);
    assert_int_equal(quern_bundle_import(ctx, bundle, NULL, &result), QUERN_OK);
    assert_int_equal(result.imported, 1);
    quern_bundle_close(bundle);
    assert_int_equal(stats_of(ctx).miss_absent, 1);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_int_equal(stats_of(ctx).hit_source, 1);
    assert_int_equal(stats_of(ctx).miss_absent, 1); /* still the one that was refused */
    assert_false(quern_all_served(ctx));            /* because of that one */
    quern_close(ctx);
    ctx = open_with("by-source", QUERN_JIT_OFF, NULL, QUERN_TOOLCHAIN_EXACT);
    assert_int_equal(get(ctx), QUERN_E_WOULD_COMPILE);
    quern_close(ctx);
    ctx = open_with("by-source", QUERN_JIT_ON, NULL, QUERN_TOOLCHAIN_ANY);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_int_equal(stats_of(ctx).compile_ok, 1);
    quern_close(ctx);
}

static void a_damaged_bundle_costs_its_entry(void **state)
{
    static char bytes[1 << 20];
    const size_t size = t_read_file(bundle_path, bytes, sizeof bytes);
    char path[256];

    (void)state;
    snprintf(path, sizeof path, "%s/damaged.qkb", directory);
    bytes[size - 1000] ^= 1;
    t_write_file(path, bytes, size);
    quern_ctx *const ctx = open_with("filled", QUERN_JIT_OFF, path, 0);
    assert_int_equal(get(ctx), QUERN_OK);
    const struct quern_stats s = stats_of(ctx);
    assert_true(s.bundle_damaged == 1 && s.hit_bundle == 0 && s.hit_disk == 1);
    quern_close(ctx);
}

/* ---- a tier that does not know yet ----------------------------------------------------------- */

/* As one across the network: it has what the directory "filled" has, and says so after a while. */
struct slow {
    struct store *store;
    atomic_int pending;             /* so many answers are pending without waiting */
    bool waits;                     /* whoever waits gets an answer */
    bool late;                      /* it has nothing until somebody has its lock */
    atomic_bool locked;             /* which somebody had */
    bool claims, patient;           /* it has claims; ops, too, wait for them */
    atomic_int taken, left;         /* so many claims are another's; claims that were given up */
    atomic_int claimed;             /* those that were asked for */
    atomic_int misses;              /* so many times it has nothing yet */
    atomic_int gets, cancels, puts; /* an op's kernels are made on several threads */
};

static enum tier_answer slow_get(void *self, struct tier_get *g, struct store_entry *entry)
{
    struct slow *const s = self;

    assert_true(!g->pending || g->pending == s);
    s->gets++;
    if ((s->late && !s->locked) || s->misses-- > 0)
        return TIER_MISS;
    if (s->pending && !(s->waits && g->wait_ms > 0)) {
        s->pending--;
        g->pending = s;
        return TIER_PENDING;
    }
    return store_get_wanted(s->store, g->want, entry) ? TIER_HIT : TIER_MISS;
}

static void slow_cancel(void *self, struct tier_get *g)
{
    assert_ptr_equal(g->pending, self);
    ((struct slow *)self)->cancels++;
}

static void slow_put(void *self, struct store_put *puts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(puts[i].record->object_bytes > 0);
    ((struct slow *)self)->puts += (int)count;
}

static int slow_lock(void *self, const struct hash128 *key, int deadline_ms)
{
    assert_true(self && key && deadline_ms > 0);
    ((struct slow *)self)->locked = true;
    return 0;
}

static void slow_unlock(void *self, int lock)
{
    assert_true(self && lock == 0);
}

static enum tier_claim slow_claim(void *self, const struct hash128 *key, struct tier_wait *wait)
{
    struct slow *const s = self;

    assert_true(key && (!wait || !wait->begun)); /* whose fields are the tier's own */
    s->claimed++;
    return s->taken-- > 0 ? TIER_CLAIM_TAKEN : TIER_CLAIM_MINE;
}

static void slow_disclaim(void *self, const struct hash128 *key)
{
    assert_non_null(key);
    ((struct slow *)self)->left++;
}

static void slow_close(void *self)
{
    store_close(((struct slow *)self)->store);
}

/* A context that asks it first, or last. */
static quern_ctx *open_slow(const char *cache, enum quern_jit jit, bool first, struct slow *slow)
{
    quern_ctx *const ctx = open_with(cache, jit, NULL, QUERN_TOOLCHAIN_EXACT);
    const size_t at = first ? 0 : ctx->tier_count;
    char path[256];

    snprintf(path, sizeof path, "%s/filled", directory);
    assert_int_equal(
        store_open(&(struct store_config){.directory = path, .log = &ctx->log}, &slow->store),
        QUERN_OK);
    memmove(&ctx->tiers[at + 1], &ctx->tiers[at], (ctx->tier_count - at) * sizeof *ctx->tiers);
    ctx->tiers[at] = (struct tier){.name = "a slow tier",
                                   .id = QUERN_TIER_CACHE,
                                   .self = slow,
                                   .get = slow_get,
                                   .cancel = slow_cancel,
                                   .put = slow_put,
                                   .lock = slow->late ? slow_lock : NULL,
                                   .unlock = slow->late ? slow_unlock : NULL,
                                   .claim = slow->claims ? slow_claim : NULL,
                                   .disclaim = slow_disclaim,
                                   .claims_for_ops = slow->patient,
                                   .close = slow_close};
    ctx->tier_count++;
    return ctx;
}

static void a_pending_answer_serves_before_the_compiler(void **state)
{
    struct slow slow = {.pending = 1};

    (void)state;
    quern_ctx *ctx = open_slow("slow", QUERN_JIT_ON, false, &slow);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_int_equal(stats_of(ctx).compile_ok, 0);
    assert_true(slow.gets == 2 && slow.cancels == 0 && slow.puts == 0);
    quern_close(ctx);
    /* where nothing may be compiled it is waited for, however long it is pending else */
    slow = (struct slow){.pending = 1000, .waits = true};
    ctx = open_slow("slow", QUERN_JIT_OFF, false, &slow);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_true(slow.gets == 2 && slow.cancels == 0);
    quern_close(ctx);
}

static void a_pending_answer_is_cancelled(void **state)
{
    struct slow slow = {.pending = 1000};

    (void)state;
    /* another tier has the kernel */
    quern_ctx *ctx = open_slow("filled", QUERN_JIT_OFF, true, &slow);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_true(slow.gets == 1 && slow.cancels == 1);
    quern_close(ctx);
    /* nobody has it, nothing may be compiled, and no answer comes */
    slow = (struct slow){.pending = 1000};
    ctx = open_slow("slow", QUERN_JIT_OFF, true, &slow);
    assert_int_equal(get(ctx), QUERN_E_WOULD_COMPILE);
    assert_true(slow.gets == 2 && slow.cancels == 1);
    quern_close(ctx);
    /* the compiler has won; what it made is offered to the tier */
    slow = (struct slow){.pending = 1000};
    ctx = open_slow("slow", QUERN_JIT_ON, true, &slow);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_int_equal(stats_of(ctx).compile_ok, 1);
    assert_true(slow.cancels == 1 && slow.puts == 1);
    quern_close(ctx);
}

/* While the compiler works a tier answers: the compile is broken off, and the next one works. */
static void a_pending_answer_is_faster_than_the_compiler(void **state)
{
    const struct quern_problem wanted = problem;
    struct slow slow = {0};

    (void)state;
    quern_ctx *const ctx = open_slow("race", QUERN_JIT_ON, true, &slow);
    /* one that nobody has, so that a worker has been started */
    problem = t_problem("wq=nf4 n=80 k=64 a=f16");
    assert_int_equal(get(ctx), QUERN_OK);
    assert_int_equal(stats_of(ctx).compile_ok, 1);
    /* asked first, before the compiler, under the lock, and then while it works */
    problem = wanted;
    slow.gets = slow.puts = 0;
    slow.pending = 5;
    atomic_store(&unheard, true);
    assert_int_equal(get(ctx), QUERN_OK);
    atomic_store(&unheard, false);
    struct quern_stats s = stats_of(ctx);
    assert_true(s.compile_ok == 1 && s.compile_dropped == 1 && s.compile_failed == 0);
    assert_true(slow.gets == 6 && slow.cancels == 0 && slow.puts == 0);
    problem = t_problem("wq=nf4 n=112 k=64 a=f16");
    assert_int_equal(get(ctx), QUERN_OK);
    problem = wanted;
    s = stats_of(ctx);
    assert_true(s.compile_ok == 2 && s.worker_died == 0);
    quern_close(ctx);
}

/* Several kernels of one op: each is asked for again by its own key. */
static void kernels_made_by_another_meanwhile_serve(void **state)
{
    struct slow slow = {.late = true};
    quern_op *op;

    (void)state;
    quern_ctx *ctx = open_with("filled", QUERN_JIT_ON, NULL, 0);
    assert_int_equal(quern_op_create(ctx, &problem, 8, &op), QUERN_OK);
    assert_true(quern_op_kernel_count(op) > 1);
    quern_op_release(op);
    quern_close(ctx);
    ctx = open_slow("meanwhile", QUERN_JIT_ON, true, &slow);
    if (quern_op_create(ctx, &problem, 8, &op) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    assert_int_equal(stats_of(ctx).compile_ok, 0);
    assert_int_equal(slow.gets, 2 * quern_op_kernel_count(op));
    quern_op_release(op);
    quern_close(ctx);
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void ops_claim_where_their_host_would_rather_wait(void **state)
{
    struct slow slow = {.claims = true, .misses = 1000, .taken = 1000};

    (void)state;
    quern_ctx *ctx = open_slow("hasty", QUERN_JIT_ON, true, &slow);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_true(stats_of(ctx).compile_ok == 1 && slow.claimed == 0 && slow.left == 0);
    quern_close(ctx);
    /* nobody has claimed it */
    slow = (struct slow){.claims = true, .patient = true, .misses = 1000};
    ctx = open_slow("patient", QUERN_JIT_ON, true, &slow);
    assert_int_equal(get(ctx), QUERN_OK);
    assert_true(stats_of(ctx).compile_ok == 1 && slow.claimed == 1 && slow.left == 0);
    assert_int_equal(slow.puts, 1);
    quern_close(ctx);
    /* another has, and has made it when it is asked for the fourth time */
    slow = (struct slow){.claims = true, .patient = true, .misses = 3, .taken = 1000};
    ctx = open_slow("awaits", QUERN_JIT_ON, true, &slow);
    assert_int_equal(get(ctx), QUERN_OK);
    struct quern_stats s = stats_of(ctx);
    assert_true(s.compile_ok == 0 && s.remote_awaited == 1 && s.miss_absent == 0);
    assert_true(slow.gets == 4 && slow.claimed == 1 && slow.puts == 0);
    quern_close(ctx);
}

/* Prewarming makes the rest first. */
static void prewarming_leaves_what_another_has_claimed(void **state)
{
    const struct quern_problem problems[] = {problem, t_problem("wq=nf4 n=96 k=64 a=f16")};
    struct slow slow = {.claims = true, .misses = 2, .taken = 1};

    (void)state;
    quern_ctx *const ctx = open_slow("prewarms", QUERN_JIT_ON, true, &slow);
    ctx->settings.jobs = 1;
    assert_int_equal(quern_prewarm(ctx, problems, 2, 1, NULL, NULL), QUERN_OK);
    const struct quern_stats s = stats_of(ctx);
    /* the first is asked for and claimed in vain, the second made; then the first is there */
    assert_true(s.compile_ok == 1 && s.miss_absent == 1 && s.remote_awaited == 0);
    assert_true(slow.claimed == 2 && slow.gets == 3 && slow.puts == 1);
    quern_close(ctx);
}

static void a_claim_is_given_up_when_the_compile_fails(void **state)
{
    struct slow slow = {.claims = true, .patient = true, .misses = 1000};

    (void)state;
    quern_ctx *const ctx = open_slow("fails", QUERN_JIT_ON, true, &slow);
    atomic_store(&dead, true);
    assert_int_equal(get(ctx), QUERN_E_WORKER);
    atomic_store(&dead, false);
    assert_true(slow.claimed == 1 && slow.left == 1 && slow.puts == 0);
    quern_close(ctx);
}

/* ---- how long the caller waits --------------------------------------------------------------- */

static void compiling_can_be_forbidden_for_one_call(void **state)
{
    quern_ctx *const ctx = open_with("flags", QUERN_JIT_ON, NULL, 0);
    quern_op *op = NULL;

    (void)state;
    assert_int_equal(quern_op_create_flags(ctx, &problem, 1, QUERN_OP_NO_COMPILE, &op),
                     QUERN_E_WOULD_COMPILE);
    assert_null(op);
    assert_int_equal(stats_of(ctx).compile_ok, 0);
    assert_int_equal(quern_op_create_flags(ctx, &problem, 1, 16, &op), QUERN_E_ARGUMENT);
    assert_int_equal(quern_op_create(ctx, &problem, 1, &op), QUERN_OK);
    quern_op_release(op);
    assert_int_equal(quern_op_create_flags(ctx, &problem, 1, QUERN_OP_NO_COMPILE, &op), QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
}

static void kernels_are_made_in_the_background(void **state)
{
    quern_ctx *ctx = open_with("background", QUERN_JIT_ON, NULL, 0);
    struct quern_problem other = t_problem("wq=nf4 n=96 k=64 a=f16");
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_op *op, *same;
    char text[256];

    (void)state;
    args.a = args.b = args.scales = (const void *)(uintptr_t)16;
    args.c = (void *)(uintptr_t)16;
    assert_int_equal(quern_op_create_flags(ctx, &other, 1, QUERN_OP_NO_WAIT, &op), QUERN_OK);
    const quern_status launched = quern_op_launch(op, &args, 1, NULL);
    assert_true(launched == QUERN_E_NOT_READY || launched == QUERN_E_DEVICE);
    assert_true(quern_op_explain(op, 1, text, sizeof text) > 0);
    /* more is asked for while it is being made: one op, one thread, all of it is made */
    assert_int_equal(quern_op_create_flags(ctx, &other, 2, QUERN_OP_NO_WAIT, &same), QUERN_OK);
    assert_ptr_equal(op, same);
    assert_int_equal(t_wait_ready(op), QUERN_OK);
    assert_true(op_covers(op, 2));
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_E_DEVICE); /* none here */
    quern_op_release(same);
    quern_op_release(op);
    quern_close(ctx);
    /* what is wrong is told when it is asked after, and may be tried again */
    ctx = open_with("background2", QUERN_JIT_OFF, NULL, 0);
    assert_int_equal(quern_op_create_flags(ctx, &other, 1, QUERN_OP_NO_WAIT, &op), QUERN_OK);
    assert_int_equal(t_wait_ready(op), QUERN_E_WOULD_COMPILE);
    assert_non_null(strstr(quern_last_error()->message, "QUERN_JIT"));
    assert_int_equal(quern_op_create_flags(ctx, &other, 1, QUERN_OP_NO_WAIT, &same), QUERN_OK);
    assert_int_equal(t_wait_ready(op), QUERN_E_WOULD_COMPILE);
    quern_op_release(same);
    quern_op_release(op);
    quern_close(ctx);
    /* closing while it is being made waits for the end */
    ctx = open_with("background3", QUERN_JIT_ON, NULL, 0);
    assert_int_equal(quern_op_create_flags(ctx, &other, 1, QUERN_OP_NO_WAIT, &op), QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* While another thread makes kernels, and holds whatever that takes. */
static void a_child_forked_meanwhile_is_well(void **state)
{
    quern_op *op;
    int status;

    (void)state;
    if (!T_FORKS_WITH_THREADS)
        skip();
    quern_ctx *const ctx = open_with("fork", QUERN_JIT_ON, NULL, 0);
    assert_int_equal(quern_op_create_flags(ctx, &problem, 8, QUERN_OP_NO_WAIT, &op), QUERN_OK);
    for (int i = 0; i < 4; i++) {
        usleep(15000);
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            quern_op *mine = NULL;
            alarm(1800);
            T_MUST(quern_op_ready(op) != QUERN_E_INTERNAL);
            T_MUST(quern_op_create(ctx, &problem, 1, &mine) == QUERN_OK);
            T_MUST(quern_op_ready(mine) == QUERN_OK);
            quern_op_release(mine);
            quern_op_release(op);
            quern_close(ctx);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_int_equal(t_wait_ready(op), QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bundles_come_before_the_cache),
        cmocka_unit_test(another_toolchains_kernel_serves_if_allowed),
        cmocka_unit_test(the_cache_serves_by_source_without_a_compiler),
        cmocka_unit_test(a_damaged_bundle_costs_its_entry),
        cmocka_unit_test(a_pending_answer_serves_before_the_compiler),
        cmocka_unit_test(a_pending_answer_is_cancelled),
        cmocka_unit_test(a_pending_answer_is_faster_than_the_compiler),
        cmocka_unit_test(kernels_made_by_another_meanwhile_serve),
        cmocka_unit_test(ops_claim_where_their_host_would_rather_wait),
        cmocka_unit_test(prewarming_leaves_what_another_has_claimed),
        cmocka_unit_test(a_claim_is_given_up_when_the_compile_fails),
        cmocka_unit_test(compiling_can_be_forbidden_for_one_call),
        cmocka_unit_test(kernels_are_made_in_the_background),
        cmocka_unit_test(a_child_forked_meanwhile_is_well),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
