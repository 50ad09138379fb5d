/* SPDX-License-Identifier: MIT */
/* Functions of tool.h, given no handle: an error that says so, or nothing, and never a crash. */
#include <quern/tool.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        assert_int_equal(call, QUERN_E_ARGUMENT);                                                  \
        assert_true(*quern_last_error()->message);                                                 \
    } while (0)

static int no_entry(void *user, const struct quern_cache_entry *entry)
{
    (void)user;
    (void)entry;
    return 1;
}

static quern_status no_work(void *user)
{
    (void)user;
    return QUERN_OK;
}

static void contexts(void **state)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct quern_device_info device = QUERN_INIT(struct quern_device_info);
    struct quern_stats stats = QUERN_INIT(struct quern_stats);
    struct quern_cache_info cache = QUERN_INIT(struct quern_cache_info);
    struct quern_bundle_import import = QUERN_INIT(struct quern_bundle_import);
    quern_buffer *buffer;
    quern_op *op;
    uint64_t number;
    double time;
    size_t count = 0;
    void *bytes;
    char *text;

    (void)state;
    REFUSED(quern_op_create_range(NULL, &problem, 1, 1, &op));
    REFUSED(quern_op_shapes(NULL, &problem, 1, NULL, &count));
    REFUSED(quern_op_create_shape(NULL, &problem, 1, "", &op));
    REFUSED(quern_ctx_device(NULL, &device));
    REFUSED(quern_buffer_create(NULL, 16, QUERN_SIM_READ, "a", &buffer));
    REFUSED(quern_ctx_measure(NULL, no_work, NULL, &time));
    REFUSED(quern_ctx_stats(NULL, &stats));
    REFUSED(quern_cache_info(NULL, &cache));
    REFUSED(quern_cache_walk(NULL, 0, no_entry, NULL));
    REFUSED(quern_cache_clear(NULL, &number));
    REFUSED(quern_explain_miss(NULL, &problem, 1, &text));
    REFUSED(quern_bundle_create(NULL, NULL, NULL, 0, &bytes, &count, &number));
    REFUSED(quern_bundle_import(NULL, NULL, NULL, &import));
    assert_null(quern_ctx_disassembler(NULL).function);
}

static void other_handles(void **state)
{
    struct quern_kernel_info kernel = QUERN_INIT(struct quern_kernel_info);
    struct quern_verification verification = QUERN_INIT(struct quern_verification);
    struct quern_bundle_info info = QUERN_INIT(struct quern_bundle_info);
    struct quern_offload_entry entry = {0};
    quern_bundle *bundle;
    size_t count = 0;
    char byte = 0, *text;

    (void)state;
    assert_int_equal(quern_op_kernel_count(NULL), 0);
    assert_null(quern_op_ctx(NULL));
    REFUSED(quern_op_kernel(NULL, 0, &kernel));
    REFUSED(quern_op_launches(NULL, 1, NULL, &count));
    REFUSED(quern_verify(NULL, 1, 1, QUERN_CHECK_FULL, &verification));
    quern_buffer_destroy(NULL);
    assert_null(quern_buffer_address(NULL));
    REFUSED(quern_buffer_write(NULL, &byte, 1));
    REFUSED(quern_buffer_read(NULL, &byte, 1));
    assert_int_equal(quern_offload_count(NULL), 0);
    REFUSED(quern_offload_entry(NULL, 0, &entry));
    quern_offload_close(NULL);
    REFUSED(quern_lint(NULL, &byte, 1, NULL, NULL));
    REFUSED(quern_bundle_open(NULL, 0, &bundle));
    REFUSED(quern_bundle_info(NULL, &info));
    REFUSED(quern_bundle_open_file(NULL, &bundle));
    REFUSED(quern_bundle_walk(NULL, 1, no_entry, NULL));
    REFUSED(quern_bundle_check_signature(NULL, "x"));
    quern_bundle_close(NULL);
    assert_null(quern_bundle_table(NULL, QUERN_TABLE_TUNING, NULL, NULL));
    REFUSED(quern_table_read(NULL, QUERN_TABLE_FACTS, "gfx1151", &text, &count));
    REFUSED(quern_table_write(NULL, QUERN_TABLE_TUNING, "gfx1151", &byte, 1));
    assert_int_equal(quern_doctor(NULL, NULL, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts),
        cmocka_unit_test(other_handles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
