/* SPDX-License-Identifier: MIT */
/*
 * Which operands a problem has. docs/formats.md states it in a table of its own ("Operands"), in
 * words and formulas; here that table is read and evaluated for hundreds of problems, and all that
 * goes by src/problem/operands.def must agree with it: the description of operands, kernel
 * arguments, what a launch insists on and what the CPU's reference insists on.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"

#include "base/os.h"
#include "dispatch/dispatch.h"
#include "plan/args.h"
#include "plan/family.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- The document's table -------------------------------------------------------------------- */

/* One row, its cells without the ` around words. */
struct row {
    char name[16], when[64], type[16], shape[48];
    char access[8];
    unsigned alignment;
    bool each;     /* op=moe has one for each expert */
    bool optional; /* a launch may leave it out */
    bool used;     /* some problem has the operand by this row */
};

static struct row rows[64];
static int row_count;

/* Copies a cell and returns what is behind it. */
static const char *take_cell(const char *at, char *cell, size_t size)
{
    size_t n = 0;

    for (at += *at == '|'; *at && *at != '|' && *at != '\n'; at++)
        if (*at != '`' && (n || *at != ' ') && n + 1 < size)
            cell[n++] = *at;
    while (n && cell[n - 1] == ' ')
        n--;
    cell[n] = 0;
    return at;
}

static int read_table(void **state)
{
    char *text, use[24];
    size_t size;

    (void)state;
    if (os_read_file("docs/formats.md", 1 << 20, &text, &size))
        return -1;
    const char *line = strstr(text, "\n## Operands\n");
    line = line ? strstr(line, "\n|---|") : NULL;
    for (line = line ? strchr(line + 1, '\n') + 1 : ""; *line == '|' && row_count < COUNT(rows);
         line = strchr(line, '\n') + 1) {
        struct row *const r = &rows[row_count++];
        const char *at = take_cell(line, r->name, sizeof r->name);
        at = take_cell(at, r->when, sizeof r->when);
        at = take_cell(at, r->type, sizeof r->type);
        at = take_cell(at, r->shape, sizeof r->shape);
        take_cell(at, use, sizeof use);
        char word[12] = "";
        if (sscanf(use, "%7s %u %11s", r->access, &r->alignment, word) < 2)
            return -1;
        r->each = !strcmp(word, "each");
        r->optional = !strcmp(word, "optional");
    }
    free(text);
    return row_count > OPERAND_COUNT ? 0 : -1;
}

/* The value of a word in canonical text; "" if it does not apply. */
static const char *value_of(const char *text, const char *word, size_t length, char value[16])
{
    const char *at = text;

    while (at && (strncmp(at, word, length) || at[length] != '='))
        at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    snprintf(value, 16, "%.*s", at ? (int)strcspn(at + length + 1, " ") : 0,
             at ? at + length + 1 : "");
    return value;
}

/* "wq=nf4,fp4 scale=f32": every word must have one of its values; "-": the word is not there. */
static bool applies(const char *when, const char *text)
{
    char value[16];

    while (*when) {
        const size_t word = strcspn(when, "=");
        bool found = false;
        value_of(text, when, word, value);
        for (when += word + 1; *when && *when != ' '; when += *when == ',') {
            const size_t n = strcspn(when, ", ");
            found |= *value ? strlen(value) == n && !strncmp(when, value, n) : *when == '-';
            when += n;
        }
        if (!found)
            return false;
        when += *when == ' ';
    }
    return true;
}

/* One dimension, such as ⌈N·G/256⌉, and behind it the ", " or "]". */
static int64_t evaluate(const char **at, const struct quern_problem *p, int64_t m)
{
    const bool up = !strncmp(*at, "⌈", strlen("⌈"));
    int64_t value = 1;

    *at += up ? strlen("⌈") : 0;
    for (bool divide = false;;) {
        char *end = (char *)(uintptr_t)(*at + 1);
        const int64_t factor = **at == 'M'   ? m
                               : **at == 'N' ? p->n
                               : **at == 'K' ? p->k
                               : **at == 'G' ? p->k / (p->group < 0 ? p->k : p->group)
                               : **at == 'T' ? p->top_k
                               : **at == 'B' ? p->block_rows
                               : **at == 'S' ? problem_slots(p, m)
                                             : strtoll(*at, &end, 10);
        if (divide)
            assert_true(up || value % factor == 0);
        value = divide ? (value + factor - 1) / factor : value * factor;
        *at = end;
        divide = **at == '/';
        if (divide)
            *at += 1;
        else if (!strncmp(*at, "·", strlen("·")))
            *at += strlen("·");
        else
            break;
    }
    *at += up ? strlen("⌉") : 0;
    *at += !strncmp(*at, ", ", 2) ? 2 : 0;
    return value;
}

/* ---- Problems -------------------------------------------------------------------------------- */

typedef void (*check_fn)(const struct quern_problem *p, const char *text);

/* Calls `check` for every problem out of these words that is one. */
static void for_all_problems(check_fn check)
{
    static const char *const ops[] = {"", "op=dequant", "op=moe experts=6 top_k=2 block_rows=4"};
    static const char *const weights[] = {"nf4", "fp4", "mxfp4", "int4", "fp8", "fp8fnuz", "none"};
    static const char *const layouts[] = {"bnb",  "k8",  "exl",   "ck",
                                          "gptq", "awq", "tileN", "dense"};
    static const char *const scales[] = {"",           "scale=nested", "scale=f16",
                                         "scale=bf16", "scale=f32",    "scale=block128"};
    static const char *const zeros[] = {"", "zero=u8", "zero=scaled"};
    static const char *const types[] = {"", "a=f32", "a=f16", "a=bf16", "a=fp8", "a=fp8fnuz"};
    static const char *const results[] = {"c=f16", "c=f32 bias=1",
                                          "c=bf16 bias=1 act=silu_mul glu=interleaved"};
    static const char *const sizes[] = {"n=40 k=384", "n=24 k=4096 group=256",
                                        "n=16 k=96 group=channel", "n=16 k=96 group=32"};
    static const char *const alignments[] = {"op=moe_align experts=8 top_k=2 block_rows=16",
                                             "op=moe_align experts=300 top_k=1 block_rows=4"};
    int count = 0;

    for (int i = 0; i < COUNT(ops) * COUNT(weights) * COUNT(layouts) * COUNT(scales); i++)
        for (int j = T_SANITIZED ? i % 3 : 0;
             j < COUNT(zeros) * COUNT(types) * COUNT(results) * COUNT(sizes);
             j += T_SANITIZED ? 3 : 1) {
            struct quern_problem p = QUERN_INIT(struct quern_problem);
            char words[256], text[QUERN_TEXT_MAX];
            const int t = j / COUNT(sizes), w = i / COUNT(ops), l = w / COUNT(weights);
            snprintf(words, sizeof words, "%s wq=%s layout=%s %s %s %s %s %s", ops[i % COUNT(ops)],
                     weights[w % COUNT(weights)], layouts[l % COUNT(layouts)],
                     scales[l / COUNT(layouts)], zeros[t % COUNT(zeros)],
                     types[t / COUNT(zeros) % COUNT(types)],
                     results[t / COUNT(zeros) / COUNT(types)], sizes[j % COUNT(sizes)]);
            if (quern_problem_parse(words, &p) != QUERN_OK)
                continue;
            assert_int_equal(quern_problem_text(&p, text, sizeof text), QUERN_OK);
            check(&p, text);
            count++;
        }
    for (int i = 0; i < COUNT(alignments); i++, count++) {
        const struct quern_problem p = t_problem(alignments[i]);
        check(&p, alignments[i]);
    }
    print_message("%d problems\n", count);
    assert_true(count > 500);
}

/* ---- What is checked of each ----------------------------------------------------------------- */

#define M 7

/* Whether the operand is the one that a row describes. */
static void check_operand(const struct row *r, const struct quern_problem *p, const char *text,
                          const struct quern_operand *o)
{
    static const char *const accesses[] = {"?", "r", "w", "rw"};
    char type[16];
    int rank = 0;

    value_of(text, r->type, strlen(r->type), type);
    assert_string_equal(o->name, r->name);
    assert_string_equal(o->dtype, *type ? type : r->type);
    assert_string_equal(accesses[o->access], r->access);
    const uint64_t element = strstr(o->dtype, "32") ? 4 : strstr(o->dtype, "16") ? 2 : 1;
    uint64_t bytes = element;
    assert_int_equal(r->shape[0], '[');
    const bool leads = r->each && p->op == QUERN_OP_MOE && p->layout != QUERN_LAYOUT_CK;
    const bool more = r->each && p->op == QUERN_OP_MOE && !leads;
    if (leads || (more && strcmp(r->name, "b"))) {
        assert_int_equal(o->shape[rank++], p->experts);
        bytes *= (uint64_t)p->experts;
    }
    for (const char *at = r->shape + 1; *at != ']'; rank++) {
        const bool times = more && !strcmp(r->name, "b") && !rank; /* layout ck: four dimensions */
        const int64_t wanted = evaluate(&at, p, M) * (times ? p->experts : 1);
        assert_in_range(rank, 0, 2);
        if (o->shape[rank] != wanted)
            fail_msg("%s: dimension %d of %s is %lld, and by the document %s, %lld", text, rank,
                     o->name, (long long)o->shape[rank], r->shape, (long long)wanted);
        bytes *= (uint64_t)wanted;
    }
    assert_int_equal(o->rank, rank);
    assert_int_equal(o->bytes, bytes);
}

static void check_description(const struct quern_problem *p, const char *text)
{
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    size_t count, found = 0;

    assert_int_equal(quern_problem_operands(p, M, operands, &count), QUERN_OK);
    for (int i = 0; i < row_count; i++) {
        if (!applies(rows[i].when, text))
            continue;
        if (found == count)
            fail_msg("%s: there is no operand %s", text, rows[i].name);
        if (strcmp(operands[found].name, rows[i].name))
            fail_msg("%s: operand %zu is %s, and by the document %s", text, found,
                     operands[found].name, rows[i].name);
        check_operand(&rows[i], p, text, &operands[found++]);
        rows[i].used = true;
    }
    if (found != count)
        fail_msg("%s: operand %s is not in the document", text, operands[found].name);
}

static void test_descriptions(void **state)
{
    (void)state;
    for_all_problems(check_description);
    for (int i = 0; i < row_count; i++)
        if (!rows[i].used)
            fail_msg("no problem has operand %s when %s", rows[i].name, rows[i].when);
}

/* The rows of the document that apply to a problem, as bits by the number of the operand. */
static uint32_t documented(const char *text)
{
    uint32_t operands = 0;

    for (int i = 0; i < row_count; i++)
        for (int o = 0; o < OPERAND_COUNT; o++)
            if (applies(rows[i].when, text) && !strcmp(rows[i].name, operand_rows[o].name))
                operands |= 1u << o;
    return operands;
}

/* Operands in the document's order, then the numbers: those of products, of op=moe_align the first
 * alone, of op=dequant none. */
static void check_arguments(const struct quern_problem *p, const char *text)
{
    static const enum plan_arg numbers[] = {PLAN_ARG_M, PLAN_ARG_FIRST, PLAN_ARG_LDA, PLAN_ARG_LDC,
                                            PLAN_ARG_WORKGROUPS};
    struct plan plan = {.problem = *p, .family = &family_simt_w4}; /* whose kernels have them all */

    for (int resident = 0; resident < 2; resident++) {
        enum plan_arg args[PLAN_ARG_COUNT];
        size_t n = 0;
        plan.resident = resident;
        const size_t count = plan_args(&plan, args);
        for (int i = 0; i < row_count; i++)
            if (applies(rows[i].when, text))
                assert_string_equal(plan_arg_name(args[n++]), rows[i].name);
        const size_t rest = p->op == QUERN_OP_DEQUANT     ? 0
                            : p->op == QUERN_OP_MOE_ALIGN ? 1
                                                          : 4 + (size_t)resident;
        assert_int_equal(count, n + rest);
        assert_memory_equal(args + n, numbers, rest * sizeof *numbers);
    }
}

static void test_arguments(void **state)
{
    (void)state;
    for_all_problems(check_arguments);
}

static bool is_optional(const char *name)
{
    for (int i = 0; i < row_count; i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].optional;
    return false;
}

static unsigned alignment_of(const char *name)
{
    unsigned alignment = 0;

    for (int i = 0; i < row_count; i++)
        if (!strcmp(rows[i].name, name)) {
            assert_true(!alignment || alignment == rows[i].alignment);
            alignment = rows[i].alignment;
        }
    return alignment;
}

/* The names of a problem's operands that a launch wants, as messages list them. */
static void list_wanted(uint32_t operands, char list[256])
{
    size_t n = 0;

    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operands >> i & 1 && !is_optional(operand_rows[i].name))
            n += (size_t)snprintf(list + n, 256 - n, "%s%s", n ? ", " : "", operand_rows[i].name);
}

/* A launch wants every operand of the problem, at a multiple of what the document says, and no
 * other. The op has no kernels: a launch that passes the checks is told so. */
static void check_launch(const struct quern_problem *p, const char *text)
{
    static _Alignas(64) char memory[64];
    struct quern_ctx open = {.closed = false};
    struct quern_op op = {.ctx = &open, .spelling = {.problem = *p}, .operands = operands_of(p)};
    struct quern_args args = QUERN_INIT(struct quern_args);
    const uint32_t operands = documented(text);
    char wanted[320], list[256];

    list_wanted(operands, list);
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operands >> i & 1) {
            const char *const name = operand_rows[i].name;
            const unsigned alignment = alignment_of(name);
            snprintf(wanted, sizeof wanted, "args.%s is null; expected the addresses of %s", name,
                     list);
            if (!is_optional(name)) {
                assert_int_equal(quern_op_launch(&op, &args, 1, NULL), QUERN_E_ARGUMENT);
                assert_string_equal(quern_last_error()->message, wanted);
            }
            quern_args_set(&args, name, memory + alignment / 2);
            assert_int_equal(quern_op_launch(&op, &args, 1, NULL), QUERN_E_ALIGN);
            snprintf(wanted, sizeof wanted, "expected a multiple of %u", alignment);
            assert_non_null(strstr(quern_last_error()->message, wanted));
            assert_int_equal(quern_args_set(&args, name, memory + alignment), QUERN_OK);
            assert_ptr_equal(quern_args_get(&args, name), memory + alignment);
        }
    assert_int_equal(quern_op_launch(&op, &args, 1, NULL), QUERN_E_NOT_READY);
}

static void test_launches(void **state)
{
    struct quern_args args = QUERN_INIT(struct quern_args);

    (void)state;
    for_all_problems(check_launch);
    assert_int_equal(quern_args_set(&args, "workspace", &args), QUERN_E_ARGUMENT);
    assert_string_equal(quern_last_error()->message,
                        "'workspace' is no operand; expected what the problem has of a, b, scales, "
                        "absmax8, code, offset, zeros, a_scale, b_scale, bias, topk_ids, rows, "
                        "experts, rows_used, routing, c");
    assert_null(quern_args_get(&args, "d"));
}

/* The CPU's reference wants every operand that is read, and refuses others, before it reads any. */
static void check_reference(const struct quern_problem *p, const char *text)
{
    static char memory[64];
    const uint32_t operands = documented(text);
    union operand_pointers in = {0};
    char wanted[64];

    if (p->op != QUERN_OP_GEMM || quant_accepts(p) != QUERN_OK)
        return;
    for (int i = 0; i < OPERAND_COUNT; i++)
        in.at[i] = operands >> i & 1 ? memory : NULL;
    for (int i = 0; i < OPERAND_COUNT; i++) {
        void *const right = in.at[i];
        if (i == OPERAND_C)
            continue;
        in.at[i] = right ? NULL : memory;
        snprintf(wanted, sizeof wanted, "operand %s is %s", operand_rows[i].name,
                 right ? "null" : "given, but the problem has none");
        assert_int_equal(quant_reference(p, &in, 1, NULL), QUERN_E_ARGUMENT);
        assert_string_equal(quern_last_error()->message, wanted);
        in.at[i] = right;
    }
}

static void test_references(void **state)
{
    (void)state;
    for_all_problems(check_reference);
}

/* Hosts are compiled against these places. */
static void test_args_layout(void **state)
{
    static const struct {
        const char *name;
        size_t offset;
    } members[] = {{"a", 8},        {"b", 16},       {"scales", 24}, {"zeros", 32},
                   {"absmax8", 40}, {"code", 48},    {"offset", 56}, {"bias", 64},
                   {"c", 72},       {"a_scale", 80}, {"b_scale", 88}};
    struct quern_args args;

    (void)state;
    for (int i = 0; i < COUNT(members); i++) {
        args = (struct quern_args)QUERN_INIT(struct quern_args);
        assert_int_equal(quern_args_set(&args, members[i].name, &args), QUERN_OK);
        void *there;
        memcpy(&there, (const char *)&args + members[i].offset, sizeof there);
        assert_ptr_equal(there, &args);
    }
    assert_int_equal(offsetof(struct quern_args, size), 0);
    assert_int_equal(offsetof(struct quern_args, workspace), 96);
    assert_int_equal(offsetof(struct quern_args, lda), 104);
    assert_int_equal(offsetof(struct quern_args, ldc), 112);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptions), cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_launches),     cmocka_unit_test(test_references),
        cmocka_unit_test(test_args_layout),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, read_table, NULL);
}
