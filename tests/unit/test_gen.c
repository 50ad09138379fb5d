/* SPDX-License-Identifier: MIT */
/*
 * Generated source: what it must never contain, that it depends on the plan alone, and that it is
 * what it was. T_REGENERATE=1 in the environment rewrites tests/golden/source from the code.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_compile.h"

#include <quern/tool.h>

#include "base/os.h"
#include "gen/gen.h"
#include "gen/templates.h"
#include "target/target.h"

#include <sodium.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_LENGTH 100

typedef quern_status generate_fn(const struct plan *plan, struct str *text);

static char *text_of(generate_fn *generate, const char *problem, const char *target, int m)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct plan_set set;
    struct str text = {0};

    if (quern_problem_parse(problem, &p) != QUERN_OK ||
        plan_make(&p, target_named(target), &set) != QUERN_OK ||
        generate(plan_for(&set, m), &text) != QUERN_OK)
        fail_msg("%s on %s: %s", problem, target, quern_last_error()->message);
    return str_take(&text);
}

static char *source_of(const char *problem, const char *target, int m)
{
    return text_of(gen_source, problem, target, m);
}

/* ---- Golden ---------------------------------------------------------------------------------- */

static const struct {
    const char *file, *problem, *target;
    int m;
} golden[] = {
    {"nf4_bf16_m1_gfx1151", "wq=nf4 n=4096 k=4096 a=bf16", "gfx1151", 1},
    {"nf4_f32_bias_m8_gfx1100", "wq=nf4 n=384 k=1536 a=f32 bias=1", "gfx1100", 8},
    {"mxfp4_bf16_m2_gfx1151", "wq=mxfp4 n=2880 k=2880 a=bf16", "gfx1151", 2},
    {"nf4_bf16_nested_m1_gfx1151", "wq=nf4 n=4096 k=2560 a=bf16 scale=nested", "gfx1151", 1},
    {"nf4_bf16_m1_gfx942", "wq=nf4 n=4096 k=4096 a=bf16", "gfx942", 1},
    {"nf4_bf16_m16_gfx942", "wq=nf4 n=4096 k=4096 a=bf16", "gfx942", 16},
    {"fp4_f16_m64_gfx1201", "wq=fp4 n=1000 k=1056 group=32 a=f16 c=f32 bias=1", "gfx1201", 64},
    {"nf4_bf16_tile_gfx942", "wq=nf4 n=19456 k=2560 a=bf16", "gfx942", 2048},
    {"int4_f16_u8_tile_gfx1151", "wq=int4 n=1000 k=1056 group=32 a=f16 zero=u8", "gfx1151", 256},
    {"dequant_fp4_f16_gfx1151", "op=dequant wq=fp4 n=1000 k=1024 c=f16", "gfx1151", 1},
    {"int4_bf16_u8_m1_gfx1151", "wq=int4 n=4096 k=4096 a=bf16 zero=u8", "gfx1151", 1},
    {"int4_f16_ck_m8_gfx1201", "wq=int4 n=1000 k=4096 group=32 a=f16 zero=scaled layout=ck",
     "gfx1201", 8},
    {"int4_bf16_u8_m16_gfx942", "wq=int4 n=4096 k=4096 a=bf16 zero=u8", "gfx942", 16},
    {"int4_f16_m64_gfx1151", "wq=int4 n=1000 k=4096 a=f16 c=f32 bias=1", "gfx1151", 64},
    {"none_f16_m1_gfx1151", "wq=none n=4096 k=4096 a=f16", "gfx1151", 1},
    {"none_bf16_bias_m3_gfx942", "wq=none n=2050 k=1032 a=bf16 c=f32 bias=1", "gfx942", 3},
    {"none_bf16_walks_m1_gfx1151", "wq=none n=151936 k=2560 a=bf16", "gfx1151", 1},
    {"none_f32_staged_m8_gfx942", "wq=none n=4096 k=4096 a=f32", "gfx942", 8},
    {"fp8_fp8_block128_m8_gfx942", "wq=fp8 scale=block128 n=1000 k=4096 a=fp8", "gfx942", 8},
    {"fp8_bf16_m2_gfx1100", "wq=fp8 n=1024 k=4096 a=bf16", "gfx1100", 2},
    {"mxfp4_bf16_interleaved_m16_gfx942",
     "wq=mxfp4 n=5760 k=2880 a=bf16 bias=1 act=swiglu_oai glu=interleaved", "gfx942", 16},
    {"int4_f16_halves_m1_sm_90", "wq=int4 n=1536 k=2048 a=f16 act=silu_mul glu=halves", "sm_90", 1},
    {"nf4_bf16_m1_sm_90", "wq=nf4 n=4096 k=4096 a=bf16", "sm_90", 1},
    {"fp4_f16_nested_m16_sm_90", "wq=fp4 n=4096 k=14336 a=f16 scale=nested bias=1", "sm_90", 16},
    {"nf4_bf16_m64_sm_90", "wq=nf4 n=14336 k=4096 a=bf16", "sm_90", 64},
    {"none_bf16_m1_sm_90", "wq=none n=4096 k=4096 a=bf16 bias=1", "sm_90", 1},
    {"fp8_fp8_m16_sm_90", "wq=fp8 n=4096 k=4096 a=fp8", "sm_90", 16},
    {"fp8_fp8_block128_m16_sm_90", "wq=fp8 scale=block128 n=4096 k=4096 a=fp8", "sm_90", 16},
    {"int4_bf16_u8_m1_sm_90", "wq=int4 n=4096 k=4096 a=bf16 zero=u8", "sm_90", 1},
    {"nf4_f32_m4_sm_80", "wq=nf4 n=384 k=1536 a=f32 bias=1", "sm_80", 4},
    {"dequant_mxfp4_bf16_sm_120", "op=dequant wq=mxfp4 n=1000 k=1024 c=bf16", "sm_120", 1},
    {"moe_nf4_bf16_m1_gfx942",
     "op=moe wq=nf4 n=1536 k=2048 a=bf16 act=silu_mul glu=halves experts=128 top_k=8", "gfx942", 1},
    {"moe_mxfp4_bf16_m16_gfx1151", "op=moe wq=mxfp4 n=2880 k=2880 a=bf16 bias=1 experts=32 top_k=1",
     "gfx1151", 16},
    {"moe_int4_f16_u8_tile_gfx942", "op=moe wq=int4 n=2048 k=768 a=f16 zero=u8 experts=128 top_k=1",
     "gfx942", 32768},
    {"moe_none_bf16_m8_gfx1201", "op=moe wq=none n=1408 k=2048 a=bf16 experts=64 top_k=6",
     "gfx1201", 300},
    {"moe_align_gfx942", "op=moe_align experts=128 top_k=8 block_rows=16", "gfx942", 1},
    {"moe_align_sm_90", "op=moe_align experts=128 top_k=8 block_rows=16", "sm_90", 1},
    {"fp4_f16_tail_m3_gfx1201", "wq=fp4 n=100 k=416 group=32 a=f16 c=f32", "gfx1201", 3},
};
#define GOLDEN_COUNT (sizeof golden / sizeof *golden)

static void test_golden(void **state)
{
    const char *const regenerate = getenv("T_REGENERATE");

    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        char path[256], *expected;
        size_t size;
        char *const source = source_of(golden[i].problem, golden[i].target, golden[i].m);
        snprintf(path, sizeof path, "tests/golden/source/%s.hip", golden[i].file);
        if (regenerate && !strcmp(regenerate, "1")) {
            FILE *const f = fopen(path, "w");
            assert_non_null(f);
            assert_int_equal(fputs(source, f) < 0, 0);
            assert_int_equal(fclose(f), 0);
        }
        const int error = os_read_file(path, 1 << 20, &expected, &size);
        if (error)
            fail_msg("%s: %s", path, strerror(error));
        if (strcmp(source, expected)) {
            size_t at = 0, line = 1;
            while (source[at] && source[at] == expected[at])
                line += source[at++] == '\n';
            fail_msg("%s differs from the generated source in line %zu", path, line);
        }
        free(expected);
        free(source);
    }
}

/* Whether a compiler's log has a warning that is about the text. */
static bool warns_of_text(const char *log)
{
    /* what its back end remarks: that registers, which the model counts too, allow fewer waves */
    static const char of_registers[] = "[-Wpass-failed]";

    for (const char *at = log; at && (at = strstr(at, "warning: ")); at++) {
        const char *const found = strstr(at, of_registers);
        if (!found || found > at + strcspn(at, "\n"))
            return true;
    }
    return false;
}

/* AMD's compiler has nothing to remark: what it says of a kernel is kept with the kernel, and shown
 * to whoever looks for what is wrong with theirs. */
static void test_golden_compiles_without_a_warning(void **state)
{
    struct compiler *const c = t_compiler_open(2, 0);

    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct quern_problem p = QUERN_INIT(struct quern_problem);
        struct plan_set set;
        struct str source = {0}, options = {0};
        struct compile_result r = {0};

        assert_int_equal(quern_problem_parse(golden[i].problem, &p), QUERN_OK);
        assert_int_equal(plan_make(&p, target_named(golden[i].target), &set), QUERN_OK);
        const struct plan *const plan = plan_for(&set, golden[i].m);
        if (plan->target->vendor != VENDOR_AMD)
            continue;
        assert_int_equal(gen_source(plan, &source), QUERN_OK);
        gen_options(plan, &options);
        if (t_compile(c, str_text(&source), golden[i].target, str_text(&options), &r) != QUERN_OK)
            fail_msg("%s: %s", golden[i].file, quern_last_error()->message);
        if (warns_of_text(r.log))
            fail_msg("%s: %s", golden[i].file, r.log);
        compile_result_free(&r);
        str_free(&source);
        str_free(&options);
    }
    compiler_close(c);
}

/* ---- Content --------------------------------------------------------------------------------- */

/* A kernel's text may not depend on where, when or with which files it is compiled. */
static void check_text(const char *name, const char *text)
{
    static const char *const banned[] = {"__FILE__", "__TIME__", "__DATE__", "__TIMESTAMP__",
                                         "#embed", ".incbin", "#include", "__COUNTER__", "#line",
                                         "__BASE_FILE__", "__FILE_NAME__",
                                         /* what its processor can do the source says itself */
                                         "__gfx", "__GFX", "__AMDGCN", "__has_builtin"};
    size_t width = 0;

    /* the one question that is about the compiler's age, not about the processor */
    static const char age[] = "__has_builtin(__builtin_amdgcn_cvt_off_f32_i4)";

    for (size_t i = 0; i < sizeof banned / sizeof *banned; i++)
        for (const char *at = text; (at = strstr(at, banned[i])); at++)
            if (strncmp(at, age, sizeof age - 1) != 0)
                fail_msg("%s contains %s", name, banned[i]);
    for (const char *c = text; *c; c++) {
        if (*c != '\n' && !isprint((unsigned char)*c))
            fail_msg("%s contains the byte 0x%02x", name, (unsigned char)*c);
        width = *c == '\n' ? 0 : width + 1;
        const char *const line = c + 1 - width;
        /* a problem stands in one line, for those who look for it */
        if (width > LINE_MAX_LENGTH && strncmp(line, "// op=", 6))
            fail_msg("%s has a line of more than %d characters", name, LINE_MAX_LENGTH);
    }
}

static void test_templates(void **state)
{
    size_t count = 0;

    (void)state;
    for (const struct template_file *f = template_files; f->name; f++, count++) {
        check_text(f->name, f->text);
        assert_non_null(strchr(f->name, '/'));
        assert_null(strstr(f->name, ".hip"));
        assert_int_equal(strncmp(f->text, "/* SPDX-License-Identifier: MIT */\n", 34), 0);
        if (count)
            assert_true(strcmp(f[-1].name, f->name) < 0);
    }
    assert_true(count >= 6);
}

/* Keys name templates by digest: another text must never go by the same one. */
static void test_digests(void **state)
{
    (void)state;
    for (const struct template_file *f = template_files; f->name; f++) {
        uint8_t digest[crypto_hash_sha256_BYTES];
        char hex[2 * sizeof digest + 1];
        crypto_hash_sha256(digest, (const uint8_t *)f->text, strlen(f->text));
        hex_from_bytes(hex, digest, sizeof digest);
        assert_string_equal(f->sha256, hex);
    }
}

/* The outline is the source up to its first template, then the templates' names and digests. */
static void test_outline(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        char *const source = source_of(golden[i].problem, golden[i].target, golden[i].m);
        char *const outline =
            text_of(gen_outline, golden[i].problem, golden[i].target, golden[i].m);
        char *const end = strstr(source, "\n// ---- ");
        struct str expected = {0};
        str_add_bytes(&expected, source, (size_t)(end - source));
        for (const char *at = end; at; at = strstr(at + 1, "\n// ---- ")) {
            const char *const name = at + strlen("\n// ---- ");
            for (const struct template_file *f = template_files; f->name; f++)
                if (!strncmp(f->name, name, strlen(f->name)) && name[strlen(f->name)] == ' ')
                    str_addf(&expected, "#include \"%s\" // %s\n", f->name, f->sha256);
        }
        assert_string_equal(outline, str_text(&expected));
        str_free(&expected);
        free(outline);
        free(source);
    }
}

/* The word as a whole, not as a part of another. */
static bool has_word(const char *text, const char *word)
{
    for (const char *at = text; (at = strstr(at, word)); at++) {
        const char before = at == text ? ' ' : at[-1], behind = at[strlen(word)];
        if (!isalnum(before) && before != '_' && !isalnum(behind) && behind != '_')
            return true;
    }
    return false;
}

/* The capabilities at the head of a source are those that templates ask for, and true where the
 * target has them. */
static void test_capabilities(void **state)
{
    const struct target *const t = target_named("gfx950");
    char *const head = text_of(gen_outline, golden[0].problem, t->name, 1);
    int asked = 0;

    (void)state;
#define CAPABILITY(NAME, word, meaning)                                                            \
    {                                                                                              \
        bool found = false;                                                                        \
        for (const struct template_file *f = template_files; f->name; f++)                         \
            found |= has_word(f->text, "HAS_" #NAME);                                              \
        if (found != has_word(head, "HAS_" #NAME))                                                 \
            fail_msg("HAS_" #NAME " is asked for: %d", found);                                     \
        const char *const line = strstr(head, "HAS_" #NAME " ");                                   \
        if (line && !!(t->capabilities & CAP_##NAME) != (line[strcspn(line, "tf")] == 't'))        \
            fail_msg("HAS_" #NAME " is not what the row says");                                    \
        asked += found;                                                                            \
    }
    TARGET_CAPABILITIES(CAPABILITY)
#undef CAPABILITY
    assert_true(asked >= 8);
    free(head);
}

/* A line of the constants block is a name, and an integer or a word. */
static bool is_constant(const char *line)
{
    static const char prefix[] = "constexpr unsigned ", define[] = "#define ";
    const bool integer = !strncmp(line, prefix, sizeof prefix - 1);

    if (!integer && strncmp(line, define, sizeof define - 1))
        return false;
    line += integer ? sizeof prefix - 1 : sizeof define - 1;
    const size_t name = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    line += name;
    if (!name || strncmp(line, integer ? " = " : " ", integer ? 3 : 1))
        return false;
    line += integer ? 3 : strspn(line, " ");
    const size_t value = strspn(line, integer ? "0123456789"
                                              : "abcdefghijklmnopqrstuvwxyz_"
                                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    line += value;
    if (!value || (integer && *line++ != ';'))
        return false;
    line += strspn(line, " ");
    return !strncmp(line, "// ", 3);
}

static void test_constants(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        char *const source = source_of(golden[i].problem, golden[i].target, golden[i].m);
        int constants = 0;
        check_text(golden[i].file, source);
        /* the block is what stands between the heading and the first template */
        char *const end = strstr(source, "\n// ---- ");
        assert_non_null(end);
        *end = 0;
        char *line = strchr(source, '#');
        assert_non_null(line);
        for (line = strtok(line, "\n"); line; line = strtok(NULL, "\n"), constants++)
            if (!is_constant(line))
                fail_msg("%s: not a constant: %s", golden[i].file, line);
        assert_true(constants >= 6); /* warp_align has no more */
        free(source);
    }
}

static void expect_line(const char *source, const char *line)
{
    if (!strstr(source, line))
        fail_msg("the source has no \"%s\"", line);
}

static void test_source_says_what_the_plan_says(void **state)
{
    char *source = source_of("wq=fp4 n=100 k=416 group=32 a=f16 c=f32 bias=1", "gfx1151", 3);

    (void)state;
    expect_line(source, "// quern 0.1.0 for gfx1151, M = 3 to 4\n");
    expect_line(source, "// op=gemm wq=fp4 group=32 scale=f32 a=f16 c=f32 n=100 k=416 bias=1");
    expect_line(source, "#define SYMBOL quern_fp4_f16_n100_k416_g32_m4 ");
    expect_line(source, "constexpr unsigned N = 100;");
    expect_line(source, "constexpr unsigned K = 416;");
    expect_line(source, "constexpr unsigned BLOCK = 32;");
    expect_line(source, "constexpr unsigned M_TILE = 4;");
    expect_line(source, "#define A_TYPE F16 ");
    expect_line(source, "#define C_TYPE F32 ");
    expect_line(source, "#define BIAS 1 ");
    expect_line(source, "#define PRODUCTS DOT2 ");
    expect_line(source, "#define HIGH_NIBBLE_FIRST true ");
    expect_line(source, "// ---- decode/fp4 ----");
    expect_line(source, "// ---- decode/scale_f32 ----");
    free(source);
    source = source_of("wq=nf4 n=100 k=416 group=32 a=f32", "gfx1151", 8);
    expect_line(source, "// ---- decode/nf4 ----");
    expect_line(source, "#define WEIGHTS_ONCE false ");
    assert_null(strstr(source, "decode/fp4"));
    free(source);
    source = source_of("wq=mxfp4 n=100 k=416 a=f32", "gfx1151", 8);
    expect_line(source, "// ---- decode/e2m1 ----");
    expect_line(source, "// ---- decode/scale_e8m0 ----");
    expect_line(source, "#define HIGH_NIBBLE_FIRST false ");
    free(source);
    source = source_of("wq=fp4 n=100 k=416 group=32 a=f32 scale=nested", "gfx1151", 1);
    expect_line(source, "// ---- decode/scale_nested ----");
    free(source);
}

/* Different kernels must not share a text. */
static void test_sources_differ(void **state)
{
    static const char *const problems[] = {"op=dequant wq=nf4 n=128 k=256 c=f16",
                                           "wq=nf4 n=128 k=256 a=f16",
                                           "wq=nf4 n=128 k=256 a=bf16",
                                           "wq=fp4 n=128 k=256 a=f16",
                                           "wq=nf4 n=128 k=256 a=f16 c=f32",
                                           "wq=nf4 n=129 k=256 a=f16",
                                           "wq=nf4 n=128 k=320 a=f16",
                                           "wq=mxfp4 n=128 k=256 a=f16",
                                           "wq=nf4 n=128 k=256 a=f16 scale=nested",
                                           "wq=nf4 n=128 k=256 a=f16 group=32",
                                           "wq=nf4 n=128 k=256 a=f16 bias=1",
                                           "wq=int4 n=128 k=256 a=f16",
                                           "wq=int4 n=128 k=256 a=bf16",
                                           "wq=int4 n=128 k=256 a=f16 zero=u8",
                                           "wq=int4 n=128 k=256 a=f16 zero=scaled",
                                           "wq=int4 n=128 k=256 a=f16 scale=f32",
                                           "wq=int4 n=128 k=256 a=f16 layout=exl",
                                           "wq=int4 n=128 k=256 a=f16 layout=ck",
                                           "wq=int4 n=128 k=256 a=f16 round=trunc"};
    enum { COUNT = sizeof problems / sizeof *problems };
    char *text[2 * COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        text[2 * i] = source_of(problems[i], "gfx1151", 1);
        text[2 * i + 1] = source_of(problems[i], "gfx1151", 2);
        char *const again = source_of(problems[i], "gfx1151", 1);
        assert_string_equal(text[2 * i], again);
        free(again);
    }
    for (int i = 0; i < 2 * COUNT; i++)
        for (int j = 0; j < i;
             j++) /* op=dequant has one kernel for all M, the first problem here */
            if (i != 1)
                assert_int_not_equal(strcmp(text[i], text[j]), 0);
    for (int i = 0; i < 2 * COUNT; i++)
        free(text[i]);
}

static void test_options(void **state)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct plan_set set;
    struct str options = {0};

    (void)state;
    assert_int_equal(quern_problem_parse("wq=nf4 n=64 k=64 a=f16", &p), QUERN_OK);
    assert_int_equal(plan_make(&p, target_named("gfx1151"), &set), QUERN_OK);
    gen_options(&set.plans[0], &options);
    assert_string_equal(
        str_text(&options),
        "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n"
        "-std=c++17\n-mcode-object-version=5\n-mcumode\n"
        "-Xclang\n-target-feature\n-Xclang\n-real-true16\n-mllvm\n-amdgpu-scalar-ir-passes=false\n"
        "-mllvm\n-enable-gvn-memdep=false\n");
    str_free(&options);
    assert_int_equal(plan_make(&p, target_named("gfx942"), &set), QUERN_OK);
    gen_options(&set.plans[0], &options);
    assert_string_equal(
        str_text(&options),
        "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n"
        "-std=c++17\n-mcode-object-version=5\n-mllvm\n-amdgpu-scalar-ir-passes=false\n"
        "-mllvm\n-enable-gvn-memdep=false\n"
        "-mllvm\n-amdgpu-max-memory-clause=1\n");
    str_free(&options);
    assert_int_equal(quern_problem_parse("wq=int4 n=64 k=128 a=f16", &p), QUERN_OK);
    assert_int_equal(plan_make(&p, target_named("gfx1151"), &set), QUERN_OK);
    gen_options(&set.plans[0], &options);
    assert_string_equal(str_text(&options),
                        "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n"
                        "-std=c++17\n-mcode-object-version=5\n-mcumode\n"
                        "-Xclang\n-target-feature\n-Xclang\n-real-true16\n");
    str_free(&options);
    p.kernels = QUERN_KERNELS_BASE;
    assert_int_equal(plan_make(&p, target_named("gfx1201"), &set), QUERN_OK);
    gen_options(&set.plans[0], &options);
    assert_string_equal(str_text(&options),
                        "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n"
                        "-std=c++17\n-mcode-object-version=5\n-mcumode\n-cuid=base\n");
    str_free(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_golden_compiles_without_a_warning),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_digests),
        cmocka_unit_test(test_outline),
        cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_source_says_what_the_plan_says),
        cmocka_unit_test(test_sources_differ),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests_name("gen", tests, NULL, NULL);
}
