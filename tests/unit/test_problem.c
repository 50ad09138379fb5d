/* SPDX-License-Identifier: MIT */
/* Problem text: what is read, what is printed, what is refused and with which words. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <quern/quern.h>
#include <quern/tool.h>

#include "problem/problem.h"

#include <stdio.h>
#include <string.h>

static void expect_text(const char *in, const char *canonical)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char text[QUERN_TEXT_MAX];

    if (quern_problem_parse(in, &p) != QUERN_OK)
        fail_msg("%s: %s", in, quern_last_error()->message);
    assert_int_equal(quern_problem_text(&p, text, sizeof text), QUERN_OK);
    assert_string_equal(text, canonical);
    /* canonical text is a fixed point */
    assert_int_equal(quern_problem_parse(text, &p), QUERN_OK);
    assert_int_equal(quern_problem_text(&p, text, sizeof text), QUERN_OK);
    assert_string_equal(text, canonical);
}

static void test_defaults(void **state)
{
    (void)state;
    expect_text("wq=nf4 n=4096 k=4096 a=bf16",
                "op=gemm wq=nf4 group=64 scale=f32 a=bf16 c=bf16 n=4096 k=4096 bias=0 layout=bnb "
                "round=rne");
    expect_text(
        "a=f16 k=256 n=1 wq=int4",
        "op=gemm wq=int4 group=128 scale=f16 zero=none a=f16 c=f16 n=1 k=256 bias=0 layout=k8 "
        "round=rne");
    expect_text("wq=mxfp4 n=8 k=64 a=bf16 c=f32",
                "op=gemm wq=mxfp4 group=32 scale=e8m0 a=bf16 c=f32 n=8 k=64 bias=0 layout=k8 "
                "round=rne");
    expect_text("wq=fp8 n=8 k=64 a=fp8 bias=1",
                "op=gemm wq=fp8 scale=tensor a=fp8 c=bf16 n=8 k=64 bias=1 layout=dense round=rne");
    expect_text("a=f16 scale=block128 wq=fp8 n=130 k=1",
                "op=gemm wq=fp8 scale=block128 a=f16 c=f16 n=130 k=1 bias=0 layout=dense "
                "round=rne");
    expect_text("wq=none n=8 k=8 a=f16",
                "op=gemm wq=none a=f16 c=f16 n=8 k=8 bias=0 layout=dense round=rne");
    expect_text("glu=halves n=8 act=silu_mul k=8 a=f16 wq=none",
                "op=gemm wq=none a=f16 c=f16 n=8 k=8 bias=0 act=silu_mul glu=halves layout=dense "
                "round=rne");
    expect_text("op=dequant wq=nf4 n=8 k=64 c=f16",
                "op=dequant wq=nf4 group=64 scale=f32 c=f16 n=8 k=64 layout=bnb round=rne");
    expect_text("block_rows=16 top_k=8 op=moe_align experts=128",
                "op=moe_align experts=128 top_k=8 block_rows=16");
    expect_text("op=dequant wq=int4 group=channel zero=u8 n=8 k=96 c=bf16",
                "op=dequant wq=int4 group=channel scale=bf16 zero=u8 c=bf16 n=8 k=96 layout=k8 "
                "round=rne");
}

static void test_order_and_spaces(void **state)
{
    (void)state;
    expect_text("  round=trunc   layout=bnb bias=1 k=128 n=3 c=f32 a=f32 group=32 wq=fp4 op=gemm ",
                "op=gemm wq=fp4 group=32 scale=f32 a=f32 c=f32 n=3 k=128 bias=1 layout=bnb "
                "round=trunc");
}

static void expect_refused(const char *in, const char *part)
{
    struct quern_problem p = {.size = QUERN_PROBLEM_SIZE_MIN, .n = 7};

    assert_int_equal(quern_problem_parse(in, &p), QUERN_E_PROBLEM);
    if (!strstr(quern_last_error()->message, part))
        fail_msg("\"%s\" gave \"%s\", without \"%s\"", in, quern_last_error()->message, part);
    assert_string_equal(quern_last_error()->stage, "problem");
    assert_int_equal(p.size, QUERN_PROBLEM_SIZE_MIN);
    assert_int_equal(p.n, 7); /* left alone */
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refused("", "wq is missing");
    expect_refused("wq=nf4 n=64 k=64",
                   "a is missing; expected the type of the activations, f32, f16 or bf16");
    expect_refused("wq=fp8 n=64 k=64", "activations, f16, bf16 or fp8");
    expect_refused("wq=fp8fnuz n=64 k=64 a=f32", "expected f16, bf16 or fp8fnuz");
    expect_refused("wq=none n=64 k=64 a=fp8", "a=fp8 goes with wq=fp8 only");
    expect_refused("op=dequant wq=nf4 n=64 k=64",
                   "c is missing; expected the type of the result, f32, f16 or bf16");
    expect_refused("wq=nf4 k=64 a=f16",
                   "n is missing or 0; expected the number of output features, 1 to 1073741824");
    expect_refused("wq=nf5 n=64 k=64 a=f16", "wq=nf5 is unknown; expected nf4, fp4");
    expect_refused("wq=nf4 n=64 k=64 a=f16 colour=red", "unknown word \"colour=red\"");
    expect_refused("wq=nf4 n=64 k=64 a=f16 n=64", "n is given twice");
    expect_refused("wq=nf4 n 64", "\"n\" is no key=value word");
    expect_refused("wq=nf4 n=0 k=64 a=f16", "n=0 is out of range; expected 1 to 1073741824");
    expect_refused("wq=nf4 n=64 k=0 a=f16", "k=0 is out of range");
    expect_refused("wq=nf4 n=2147483648 k=64 a=f16", "n=2147483648 is out of range");
    expect_refused("wq=nf4 n=64 k=2147483648 a=f16", "k=2147483648 is out of range");
    expect_refused("wq=nf4 n=99999999999999999999999 k=64 a=f16", "out of range");
    expect_refused("wq=nf4 n=-1 k=64 a=f16", "n=-1 is out of range");
    expect_refused("wq=nf4 n=064 k=64 a=f16", "n=064");
    expect_refused("wq=nf4 n= k=64 a=f16", "n= is no decimal number; expected 1 to 1073741824");
    expect_refused("wq=nf4 n=64k k=64 a=f16", "n=64k is no decimal number");
    expect_refused("wq=nf4 n=064 k=64 a=f16", "n=064 is no decimal number");
    expect_refused("wq=nf4 n=64 k=100 a=f16",
                   "k=100 is not a multiple of group=64; the next multiple is 128");
    expect_refused("wq=nf4 n=64 k=96 group=48 a=f16", "group=48");
    expect_refused("wq=nf4 n=64 k=8192 group=8192 a=f16", "group=8192");
    expect_refused("wq=nf4 n=64 k=64 group=channel a=f16", "group=channel applies to int4 only");
    expect_refused("wq=mxfp4 n=64 k=64 group=64 a=f16", "groups of 32 only");
    expect_refused("wq=none n=64 k=64 a=f16 group=64", "group does not apply");
    expect_refused("wq=fp8 n=64 k=64 a=f16 group=64",
                   "group does not apply to op=gemm wq=fp8; leave it out");
    expect_refused("wq=nf4 n=64 k=64 a=f16 zero=u8", "zero does not apply");
    expect_refused("wq=none n=64 k=64 a=f16 scale=f32", "scale does not apply");
    expect_refused("op=dequant wq=nf4 n=64 k=64 c=f16 a=f16", "a does not apply");
    expect_refused("op=dequant wq=nf4 n=64 k=64 c=f16 bias=0", "bias does not apply");
    expect_refused("wq=nf4 n=64 k=64 a=f16 scale=bf16", "scale=bf16 does not go with wq=nf4");
    expect_refused("wq=nf4 n=64 k=64 a=f16 layout=k8", "layout=k8 does not go with wq=nf4");
    expect_refused("wq=nf4 n=64 k=64 a=fp8", "a=fp8 goes with wq=fp8 only");
    expect_refused("wq=fp8fnuz n=64 k=64 a=fp8", "a=fp8 goes with wq=fp8 only");
    expect_refused("wq=nf4 n=64 k=64 a=f16 c=fp8", "c=fp8 is not a type of results");
    expect_refused("wq=nf4 n=64 k=64 a=f16 bias=2", "bias=2; expected 0 or 1");
    expect_refused("wq=nf4 n=63 k=64 a=f16 act=silu_mul glu=halves",
                   "n=63 is odd; with act=silu_mul");
    expect_refused("wq=nf4 n=64 k=64 a=f16 act=swiglu_oai", "act=swiglu_oai needs glu=halves");
    expect_refused("wq=nf4 n=64 k=64 a=f16 glu=interleaved",
                   "glu=interleaved says which rows of W are gate and up");
    expect_refused("wq=nf4 n=64 k=64 a=f16 act=gelu glu=halves",
                   "act=gelu is unknown; expected silu_mul or swiglu_oai");
    expect_refused("wq=nf4 n=64 k=64 a=f16 act=silu_mul glu=1", "expected halves or interleaved");
    expect_refused("op=dequant wq=nf4 n=64 k=64 c=f16 act=silu_mul glu=halves",
                   "act does not apply to op=dequant");
    expect_refused("wq=nf4\tn=64 k=64 a=f16", "wq=nf4\\u0009n=64 is unknown");
}

static void test_refusals_of_experts(void **state)
{
    static const char *const of_layers[] = {
        "wq=nf4",    "group=32",  "scale=f32",     "zero=u8",     "a=f16",        "c=f16",
        "n=8",       "k=8",       "bias=0",        "bias=1",      "act=silu_mul", "glu=halves",
        "layout=k8", "round=rne", "exact=precise", "kernels=base"};

    (void)state;
    expect_refused(
        "op=moe_align top_k=8 block_rows=16",
        "experts is missing or 0; op=moe_align expects how many experts there are, 1 to 1024");
    expect_refused("op=moe_align experts=1025 top_k=8 block_rows=16",
                   "experts=1025; op=moe_align expects 1 to 1024");
    expect_refused("op=moe_align experts=8 block_rows=16",
                   "top_k is missing or 0; op=moe_align expects how many experts are chosen");
    expect_refused("op=moe_align experts=8 top_k=65 block_rows=16",
                   "top_k=65; op=moe_align expects 1 to 64");
    expect_refused("op=moe_align experts=8 top_k=2",
                   "block_rows is missing; op=moe_align expects what quern_op_block_rows gives");
    expect_refused("op=moe_align experts=8 top_k=2 block_rows=12",
                   "block_rows=12; expected a power of two from 1 to 128");
    expect_refused("op=moe_align experts=8 top_k=2 block_rows=256",
                   "block_rows=256; expected a power of two from 1 to 128");
    for (size_t i = 0; i < sizeof of_layers / sizeof *of_layers; i++) {
        char in[128], part[128];
        snprintf(in, sizeof in, "op=moe_align experts=8 top_k=2 block_rows=4 %s", of_layers[i]);
        snprintf(part, sizeof part, "%.*s does not apply to op=moe_align; leave it out",
                 (int)strcspn(of_layers[i], "="), of_layers[i]);
        expect_refused(in, part);
    }
    expect_refused("wq=nf4 n=64 k=64 a=f16 experts=8", "experts does not apply to op=gemm wq=nf4");
}

static void test_struct_checks(void **state)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char text[QUERN_TEXT_MAX];

    (void)state;
    p.wq = QUERN_W_NF4;
    p.n = p.k = 64;
    p.a = QUERN_F16;
    assert_int_equal(quern_problem_text(&p, text, sizeof text), QUERN_OK);
    assert_int_equal(quern_problem_text(&p, text, 10), QUERN_E_BUFFER);
    p.c = (enum quern_dtype)77;
    assert_int_equal(quern_problem_text(&p, text, sizeof text), QUERN_E_PROBLEM);
    assert_non_null(strstr(quern_last_error()->message, "77"));
    p.c = 0;
    p.size = 8;
    assert_int_equal(quern_problem_text(&p, text, sizeof text), QUERN_E_ARGUMENT);
    assert_int_equal(quern_problem_parse(NULL, &p), QUERN_E_ARGUMENT);
}

static void test_longest_text_fits(void **state)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char text[QUERN_TEXT_MAX];

    (void)state;
    assert_int_equal(
        quern_problem_parse("op=dequant wq=int4 group=channel scale=bf16 zero=scaled "
                            "c=bf16 n=1073741824 k=1073741824 layout=tileN round=trunc",
                            &p),
        QUERN_OK);
    assert_int_equal(quern_problem_text(&p, text, sizeof text), QUERN_OK);
    assert_true(strlen(text) < sizeof text / 2);
}

static void test_operands(void **state)
{
    struct quern_operand o[QUERN_OPERANDS_MAX];
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    size_t count;

    (void)state;
    quern_problem_parse("wq=nf4 n=48 k=128 a=bf16 c=f32 bias=1", &p);
    assert_int_equal(quern_problem_operands(&p, 7, o, &count), QUERN_OK);
    assert_int_equal(count, 5);
    static const struct {
        const char *name, *dtype;
        uint64_t bytes;
        int access;
    } expected[] = {{"a", "bf16", 7 * 128 * 2, QUERN_SIM_READ},
                    {"b", "u8", 48 * 64, QUERN_SIM_READ},
                    {"scales", "f32", 48 * 2 * 4, QUERN_SIM_READ},
                    {"bias", "f32", 48 * 4, QUERN_SIM_READ},
                    {"c", "f32", 7 * 48 * 4, QUERN_SIM_WRITE}};
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(o[i].name, expected[i].name);
        assert_string_equal(o[i].dtype, expected[i].dtype);
        assert_int_equal(o[i].bytes, expected[i].bytes);
        assert_int_equal(o[i].access, expected[i].access);
    }
    quern_problem_parse("wq=nf4 n=1000 k=128 a=f16 scale=nested", &p);
    assert_int_equal(quern_problem_operands(&p, 1, o, &count), QUERN_OK);
    assert_int_equal(count, 7);
    assert_string_equal(o[2].name, "scales");
    assert_int_equal(o[2].bytes, 4 * 8); /* 2000 blocks, 256 a second-level scale */
    assert_int_equal(quern_problem_operands(&p, 0, o, &count), QUERN_E_ARGUMENT);
}

/* Equal problems have equal hashes, and every field counts. */
static void test_equality(void **state)
{
    static const char *const base = "wq=int4 n=4096 k=4096 a=f16 zero=u8";
    static const char *const others[] = {"wq=int4 n=4096 k=4096 a=bf16 zero=u8",
                                         "wq=int4 n=4096 k=8192 a=f16 zero=u8",
                                         "wq=int4 n=8192 k=4096 a=f16 zero=u8",
                                         "wq=int4 n=4096 k=4096 a=f16",
                                         "wq=int4 n=4096 k=4096 a=f16 zero=u8 c=f32",
                                         "wq=int4 n=4096 k=4096 a=f16 zero=u8 bias=1",
                                         "wq=int4 n=4096 k=4096 a=f16 zero=u8 group=64",
                                         "wq=int4 n=4096 k=4096 a=f16 zero=u8 layout=exl",
                                         "wq=int4 n=4096 k=4096 a=f16 zero=u8 round=trunc",
                                         "wq=int4 n=4096 k=4096 a=f16 zero=u8 scale=f32"};
    struct quern_problem p = QUERN_INIT(struct quern_problem), q = p;

    (void)state;
    quern_problem_parse(base, &p);
    quern_problem_parse("zero=u8 a=f16 k=4096 n=4096 wq=int4 group=128", &q);
    assert_true(problem_equal(&p, &q));
    assert_int_equal(problem_hash(&p), problem_hash(&q));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(quern_problem_parse(others[i], &q), QUERN_OK);
        assert_false(problem_equal(&p, &q));
        assert_int_not_equal(problem_hash(&p), problem_hash(&q));
    }
    static const char *const alignments[] = {"op=moe_align experts=8 top_k=2 block_rows=16",
                                             "op=moe_align experts=9 top_k=2 block_rows=16",
                                             "op=moe_align experts=8 top_k=4 block_rows=16",
                                             "op=moe_align experts=8 top_k=2 block_rows=32"};
    quern_problem_parse(alignments[0], &p);
    for (size_t i = 1; i < sizeof alignments / sizeof *alignments; i++) {
        assert_int_equal(quern_problem_parse(alignments[i], &q), QUERN_OK);
        assert_false(problem_equal(&p, &q));
        assert_int_not_equal(problem_hash(&p), problem_hash(&q));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),      cmocka_unit_test(test_order_and_spaces),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_refusals_of_experts),
        cmocka_unit_test(test_struct_checks), cmocka_unit_test(test_longest_text_fits),
        cmocka_unit_test(test_operands),      cmocka_unit_test(test_equality),
    };
    return cmocka_run_group_tests_name("problem", tests, NULL, NULL);
}
