/* SPDX-License-Identifier: MIT */
/*
 * Kernels that the scan refuses: the next candidate is made and found, with and without a compiler.
 * Real kernels are sound, so the disassembler that a context scans with shows an s_nop in the place
 * of each wait, for as many kernels as a test asks for.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "dispatch/dispatch.h"
#include "lint/lint.h"
#include "t_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM "wq=nf4 n=64 k=64 a=f16"

/* ---- A disassembler that spoils -------------------------------------------------------------- */

struct spoiler {
    struct quern_disassembler real;
    int times; /* so many kernels from now on */
    int calls;
    quern_disassembly_fn emit;
    void *emit_user;
};

static void without_waits(void *user, uint64_t offset, unsigned size, const char *text)
{
    const struct spoiler *const s = user;

    s->emit(s->emit_user, offset, size, strstr(text, "s_wait") ? "s_nop 0" : text);
}

static quern_status spoil(void *user, const char *processor, const void *code, size_t size,
                          quern_disassembly_fn emit, void *emit_user)
{
    struct spoiler *const s = user;
    const struct quern_disassembler *const d = &s->real;

    s->calls++;
    s->emit = emit;
    s->emit_user = emit_user;
    if (s->times <= 0)
        return d->function(d->user, processor, code, size, emit, emit_user);
    s->times--;
    return d->function(d->user, processor, code, size, without_waits, s);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static char *directory;
static struct spoiler spoiler;

static quern_ctx *open_spoilt(const char *target, enum quern_jit jit, int times)
{
    quern_ctx *const ctx = t_open(target, directory, jit);

    spoiler = (struct spoiler){.real = ctx->disassembler, .times = times};
    ctx->disassembler = (struct quern_disassembler){spoil, &spoiler};
    return ctx;
}

static uint64_t compiled(quern_ctx *ctx)
{
    struct quern_stats s = QUERN_INIT(struct quern_stats);

    assert_int_equal(quern_ctx_stats(ctx, &s), QUERN_OK);
    return s.compile_ok;
}

/* The shape of the kernel that serves one row. */
static void shape_of(quern_ctx *ctx, char words[PLAN_SHAPE_MAX])
{
    const struct quern_problem p = t_problem(PROBLEM);
    quern_op *op;

    if (quern_op_create_range(ctx, &p, 1, 1, &op) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    const struct kernel_set *const set = atomic_load(&op->kernels);
    plan_shape(&set->plans.plans[0], words);
    assert_true(set->kernels[0]->size > 0 && set->kernels[0]->loaded);
    quern_op_release(op);
}

/* What the cache holds. */
struct content {
    int kernels, refusals, unscanned;
};

static int count(void *user, const struct store_item *item, struct store_entry *entry)
{
    struct content *const c = user;
    const struct store_record *const r = &entry->record;

    assert_int_equal(item->status, QUERN_OK);
    c->kernels += r->object_bytes > 0;
    c->refusals += r->object_bytes == 0;
    c->unscanned += r->rules != LINT_RULES;
    if (!r->object_bytes)
        assert_non_null(strstr(r->log, "a load still owes"));
    return 0;
}

static struct content content_of(quern_ctx *ctx)
{
    struct content c = {0};

    assert_int_equal(store_read_all(ctx->store, count, &c), QUERN_OK);
    return c;
}

static int fresh(void **state)
{
    (void)state;
    directory = t_temp_dir();
    return 0;
}

static int gone(void **state)
{
    (void)state;
    t_remove(directory);
    return 0;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void a_sound_kernel_is_stored_as_scanned(void **state)
{
    char words[PLAN_SHAPE_MAX];

    (void)state;
    quern_ctx *ctx = open_spoilt("gfx942", QUERN_JIT_ON, 0);
    shape_of(ctx, words);
    const struct content c = content_of(ctx);
    assert_true(c.kernels == 1 && c.refusals == 0 && c.unscanned == 0 && spoiler.calls == 1);
    quern_close(ctx);
    /* and is not scanned again when it is found */
    ctx = open_spoilt("gfx942", QUERN_JIT_ON, 1);
    shape_of(ctx, words);
    assert_true(spoiler.calls == 0 && compiled(ctx) == 0);
    quern_close(ctx);
}

static void the_next_candidate_is_made_and_found(void **state)
{
    static const char *const targets[] = {"gfx942", "gfx1151", "gfx1201"};
    char first[PLAN_SHAPE_MAX], second[PLAN_SHAPE_MAX], found[PLAN_SHAPE_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        quern_ctx *ctx = open_spoilt(targets[i], QUERN_JIT_ON, 0);
        shape_of(ctx, first);
        assert_int_equal(quern_cache_clear(ctx, NULL), QUERN_OK);
        quern_close(ctx);
        ctx = open_spoilt(targets[i], QUERN_JIT_ON, 1);
        shape_of(ctx, second);
        assert_string_not_equal(first, second);
        assert_int_equal(compiled(ctx), 2);
        const struct content c = content_of(ctx);
        assert_true(c.kernels == 1 && c.refusals == 1 && c.unscanned == 0);
        quern_close(ctx);
        /* whoever looks for it, and may compile or not, reaches the same */
        for (int jit = 0; jit < 2; jit++) {
            ctx = open_spoilt(targets[i], jit ? QUERN_JIT_ON : QUERN_JIT_OFF, 0);
            shape_of(ctx, found);
            assert_string_equal(found, second);
            assert_true(compiled(ctx) == 0 && spoiler.calls == 0);
            quern_close(ctx);
        }
    }
}

/* A host without a compiler has keys of its own, and finds both by their sources; a bundle carries
 * refusals like kernels. */
static void a_host_without_a_compiler_finds_it(void **state)
{
    char second[PLAN_SHAPE_MAX], found[PLAN_SHAPE_MAX], path[256];
    void *bundle;
    size_t bytes;

    (void)state;
    quern_ctx *ctx = open_spoilt("gfx942", QUERN_JIT_ON, 1);
    shape_of(ctx, second);
    assert_int_equal(quern_bundle_create(ctx, NULL, NULL, 0, &bundle, &bytes, NULL), QUERN_OK);
    quern_close(ctx);
    snprintf(path, sizeof path, "%s/b.qkb", directory);
    FILE *const f = fopen(path, "wb");
    assert_true(f && fwrite(bundle, 1, bytes, f) == bytes && !fclose(f));
    free(bundle);
    for (int by_bundle = 0; by_bundle < 2; by_bundle++) {
        struct quern_options o = QUERN_INIT(struct quern_options);
        o.target = "gfx942";
        o.jit = QUERN_JIT_OFF;
        o.rocm_path = directory; /* which has no compiler */
        o.device = QUERN_DEVICE_NONE;
        o.cache_dir = directory;
        o.cache_mode = by_bundle ? QUERN_CACHE_OFF : QUERN_CACHE_RO;
        o.bundle_path = by_bundle ? path : NULL;
        assert_int_equal(quern_open(&o, &ctx), QUERN_OK);
        const struct quern_problem p = t_problem(PROBLEM);
        quern_op *op;
        assert_int_equal(quern_op_create_range(ctx, &p, 1, 1, &op), QUERN_OK);
        const struct kernel_set *const set = atomic_load(&op->kernels);
        plan_shape(&set->plans.plans[0], found);
        assert_string_equal(found, second);
        quern_op_release(op);
        quern_close(ctx);
    }
}

/* Puts every entry back as one that was never scanned. */
static int forget(void *user, const struct store_item *item, struct store_entry *entry)
{
    struct store_record r = entry->record;
    const struct hash128 key = hash128_of(r.key_text, r.key_text_bytes);

    (void)item;
    r.rules = 0;
    store_replace(user, &key, &r);
    return 0;
}

static void what_was_not_scanned_is(void **state)
{
    char first[PLAN_SHAPE_MAX], found[PLAN_SHAPE_MAX];

    (void)state;
    quern_ctx *ctx = open_spoilt("gfx942", QUERN_JIT_ON, 0);
    shape_of(ctx, first);
    assert_int_equal(store_read_all(ctx->store, forget, ctx->store), QUERN_OK);
    assert_int_equal(content_of(ctx).unscanned, 1);
    quern_close(ctx);
    /* not where nothing may be compiled */
    ctx = open_spoilt("gfx942", QUERN_JIT_OFF, 1);
    shape_of(ctx, found);
    assert_true(spoiler.times == 1 && content_of(ctx).unscanned == 1);
    quern_close(ctx);
    ctx = open_spoilt("gfx942", QUERN_JIT_ON, 0);
    shape_of(ctx, found);
    assert_string_equal(found, first);
    assert_true(spoiler.calls == 1 && compiled(ctx) == 0 && content_of(ctx).unscanned == 0);
    assert_int_equal(store_read_all(ctx->store, forget, ctx->store), QUERN_OK);
    quern_close(ctx);
    /* a finding replaces the entry by its refusal */
    ctx = open_spoilt("gfx942", QUERN_JIT_ON, 1);
    shape_of(ctx, found);
    assert_string_not_equal(found, first);
    const struct content c = content_of(ctx);
    assert_true(c.kernels == 1 && c.refusals == 1 && c.unscanned == 0);
    quern_close(ctx);
}

static void where_all_are_refused_the_op_is_declined(void **state)
{
    const struct quern_problem p = t_problem(PROBLEM);
    quern_op *op;

    (void)state;
    quern_ctx *ctx = open_spoilt("gfx942", QUERN_JIT_ON, 1000);
    assert_int_equal(quern_op_create_range(ctx, &p, 1, 1, &op), QUERN_E_DECLINED);
    assert_non_null(strstr(quern_last_error()->message, "refused"));
    const int made = (int)compiled(ctx);
    assert_true(made > 1 && made <= PLAN_NEXT_MAX + 1);
    assert_int_equal(content_of(ctx).refusals, made);
    quern_close(ctx);
    /* nor is it tried again */
    ctx = open_spoilt("gfx942", QUERN_JIT_ON, 0);
    assert_int_equal(quern_op_create_range(ctx, &p, 1, 1, &op), QUERN_E_DECLINED);
    assert_int_equal(compiled(ctx), 0);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sound_kernel_is_stored_as_scanned, fresh, gone),
        cmocka_unit_test_setup_teardown(the_next_candidate_is_made_and_found, fresh, gone),
        cmocka_unit_test_setup_teardown(a_host_without_a_compiler_finds_it, fresh, gone),
        cmocka_unit_test_setup_teardown(what_was_not_scanned_is, fresh, gone),
        cmocka_unit_test_setup_teardown(where_all_are_refused_the_op_is_declined, fresh, gone),
    };

    return cmocka_run_group_tests_name("refusal", tests, NULL, NULL);
}
