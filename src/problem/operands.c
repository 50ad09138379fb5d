/* SPDX-License-Identifier: MIT */
/* Which operands a problem has, their types and shapes: the rows of operands.def, evaluated.
 * docs/formats.md ("Operands") describes the same for people, and test_operands compares. */
#include "problem/operands.h"

#include "base/extensible.h"

#include <stdio.h>

_Static_assert(OPERAND_COUNT <= QUERN_OPERANDS_MAX && OPERAND_COUNT <= 32,
               "callers' arrays hold every operand, and so do the bits of operands_of");
_Static_assert(sizeof(struct quern_args) == sizeof(size_t) + (OPERAND_COUNT + 1) * sizeof(void *) +
                                                3 * sizeof(int64_t) + sizeof(uint64_t),
               "every address in quern_args but that of the workspace is an operand's");

const struct operand_row operand_rows[OPERAND_COUNT] = {
#define ROW(name, alignment, owner, optional)                                                      \
    {#name, offsetof(struct quern_args, name), alignment, OWNER_##owner, optional},
#define OPERAND(number, name, present, element, shape, access, alignment, owner)                   \
    ROW(name, alignment, owner, false)
#define OPTIONAL(number, name, present, element, shape, access, alignment, owner)                  \
    ROW(name, alignment, owner, true)
#include "problem/operands.def"
#undef ROW
};

/* ---- What the rows call ---------------------------------------------------------------------- */

struct element {
    const char *dtype;
    unsigned bytes;
};
#define U8  (struct element){"u8", 1}
#define I32 (struct element){"i32", 4}
#define F32 element_of(QUERN_F32)

static struct element element_of(enum quern_dtype t)
{
    return (struct element){dtype_name(t), dtype_bytes(t)};
}

struct shape {
    int rank;
    int64_t size[3];
};

static bool moe(const struct quern_problem *p)
{
    return p->op == QUERN_OP_MOE;
}

static bool aligns(const struct quern_problem *p)
{
    return p->op == QUERN_OP_MOE_ALIGN;
}

#define READ  QUERN_SIM_READ
#define WRITE QUERN_SIM_WRITE

static enum quern_sim_access made_by_align(const struct quern_problem *p)
{
    return aligns(p) ? WRITE : READ;
}

static struct shape vector(int64_t n)
{
    return (struct shape){1, {n}};
}

static struct shape matrix(int64_t rows, int64_t columns)
{
    return (struct shape){2, {rows, columns}};
}

/* What one expert has of something, of all experts of op=moe. Of four dimensions the first two
 * become one. */
static struct shape each(const struct quern_problem *p, struct shape of_one)
{
    struct shape all = {of_one.rank + 1, {p->experts}};

    if (!moe(p))
        return of_one;
    if (of_one.rank == 3)
        return (struct shape){3, {p->experts * of_one.size[0], of_one.size[1], of_one.size[2]}};
    memcpy(all.size + 1, of_one.size, (size_t)of_one.rank * sizeof *of_one.size);
    return all;
}

/* How many groups a row of W has; 0 without groups. groups(): how many all of W has. */
static int64_t groups_of_row(const struct quern_problem *p)
{
    return problem_has_group(p) ? p->k / problem_group(p) : 0;
}

static int64_t groups(const struct quern_problem *p)
{
    return p->n * groups_of_row(p);
}

static bool nested(const struct quern_problem *p)
{
    return p->scale == QUERN_SCALE_NESTED;
}

static bool zero_points(const struct quern_problem *p)
{
    return p->zero == QUERN_ZERO_U8 || p->zero == QUERN_ZERO_SCALED;
}

static struct element packed_element(const struct quern_problem *p)
{
    return p->layout == QUERN_LAYOUT_DENSE ? element_of(problem_weight_type(p))
           : p->layout == QUERN_LAYOUT_BNB || p->layout == QUERN_LAYOUT_TILEN ? U8
                                                                              : I32;
}

static struct shape packed_shape(const struct quern_problem *p)
{
    switch (p->layout) {
    case QUERN_LAYOUT_BNB:
    case QUERN_LAYOUT_TILEN:
        return matrix(p->n, p->k / 2);
    case QUERN_LAYOUT_K8:
    case QUERN_LAYOUT_EXL:
        return matrix(p->n, p->k / 8);
    case QUERN_LAYOUT_CK:
        return (struct shape){3, {p->k / 32, p->n, 4}};
    case QUERN_LAYOUT_GPTQ:
        return matrix(p->k / 8, p->n);
    case QUERN_LAYOUT_AWQ:
        return matrix(p->k, p->n / 8);
    case QUERN_LAYOUT_DENSE:
        break;
    }
    return matrix(p->n, p->k);
}

static struct element scales_element(const struct quern_problem *p)
{
    return p->scale == QUERN_SCALE_E8M0 ? U8 : element_of(problem_scale_type(p));
}

static struct element zeros_element(const struct quern_problem *p)
{
    return p->zero == QUERN_ZERO_U8 ? U8 : scales_element(p);
}

/* bitsandbytes' absmax are a list over W flattened; other scales have a row for each row of W. */
static struct shape scales_shape(const struct quern_problem *p)
{
    if (nested(p))
        return vector((groups(p) + OPERAND_NEST - 1) / OPERAND_NEST);
    if (weight_is_table(p->wq))
        return vector(groups(p));
    return matrix(p->n, groups_of_row(p));
}

static bool has_b_scale(const struct quern_problem *p)
{
    return p->scale == QUERN_SCALE_TENSOR || p->scale == QUERN_SCALE_BLOCK128;
}

/* Scales of fp8: one for all, or one for each block. */
static struct shape a_scale_shape(const struct quern_problem *p, int64_t m)
{
    return p->scale == QUERN_SCALE_BLOCK128 ? matrix(m, problem_scale_blocks(p->k)) : vector(1);
}

static struct shape b_scale_shape(const struct quern_problem *p)
{
    return p->scale == QUERN_SCALE_BLOCK128
               ? matrix(problem_scale_blocks(p->n), problem_scale_blocks(p->k))
               : vector(1);
}

static struct shape result_shape(const struct quern_problem *p, int64_t m)
{
    return problem_has_activation(p) ? matrix(problem_results(p, m), problem_columns(p))
                                     : matrix(p->n, p->k);
}

/* ---- The rows of one problem ----------------------------------------------------------------- */

uint32_t operands_of(const struct quern_problem *p)
{
    uint32_t operands = 0;

#define OPERAND(number, name, present, ...) operands |= (uint32_t)(present) << OPERAND_##number;
#include "problem/operands.def"
    return operands;
}

void operands_text(uint32_t operands, char text[OPERANDS_TEXT])
{
    size_t n = 0;

    text[0] = 0;
    for (int i = 0; i < OPERAND_COUNT && n < OPERANDS_TEXT; i++)
        if (operands >> i & 1)
            n += (size_t)snprintf(text + n, OPERANDS_TEXT - n, "%s%s", n ? ", " : "",
                                  operand_rows[i].name);
}

enum quern_sim_access operand_access(const struct quern_problem *p, enum operand which)
{
    const enum quern_sim_access accesses[OPERAND_COUNT] = {
#define OPERAND(number, name, present, element, shape, access, ...) access,
#include "problem/operands.def"
    };

    return accesses[which];
}

bool operand_describe(const struct quern_problem *p, enum operand which, int64_t m,
                      struct quern_operand *out)
{
    const struct operand_row *const row = &operand_rows[which];
    struct element element = {0};
    struct shape shape = {0};

    if (!(operands_of(p) >> which & 1))
        return false;
    switch (which) {
#define OPERAND(number, name, present, its_element, its_shape, ...)                                \
    case OPERAND_##number:                                                                         \
        element = its_element;                                                                     \
        shape = its_shape;                                                                         \
        break;
#include "problem/operands.def"
    case OPERAND_COUNT:
        break;
    }
    *out = (struct quern_operand){.name = row->name,
                                  .dtype = element.dtype,
                                  .rank = shape.rank,
                                  .bytes = element.bytes,
                                  .access = operand_access(p, which),
                                  .weights = row->owner == OWNER_WEIGHTS};
    /* N and K are at most 2^30 and m is less than 2^31, so that the product fits 64 bits, but for
     * stacks of more than 2^60 weights of op=moe, which no memory holds */
    for (int i = 0; i < shape.rank; i++)
        out->bytes *= (uint64_t)(out->shape[i] = shape.size[i]);
    return true;
}

/* ---- The public functions -------------------------------------------------------------------- */

quern_status quern_problem_operands(const struct quern_problem *problem, int64_t m,
                                    struct quern_operand *operands, size_t *count)
{
    struct quern_problem p;

    FAIL_IF(!operands || !count, QUERN_E_ARGUMENT, "%s is null", operands ? "count" : "operands");
    TRY(problem_normalise(problem, &p));
    FAIL_IF(moe(&p) && !p.block_rows, QUERN_E_ARGUMENT,
            "how long rows and experts of op=moe are depends on block_rows; take it from "
            "quern_op_block_rows");
    TRY(problem_check_rows(&p, m));
    *count = 0;
    for (int i = 0; i < OPERAND_COUNT; i++)
        *count += operand_describe(&p, (enum operand)i, m, &operands[*count]);
    return QUERN_OK;
}

quern_status quern_problem_args(const struct quern_problem *problem, const void *const *addresses,
                                size_t count, struct quern_args *args)
{
    const struct extensible *const type = EXTENSIBLE(quern_args, QUERN_ARGS_SIZE_MIN);
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    struct quern_args own = {0};
    size_t wanted;

    FAIL_IF(!addresses, QUERN_E_ARGUMENT, "addresses is null");
    TRY(extensible_check(type, args));
    TRY(quern_problem_operands(problem, 1, operands, &wanted));
    FAIL_IF(count != wanted, QUERN_E_ARGUMENT,
            "%zu addresses are given; the problem has %zu operands, from %s to %s", count, wanted,
            operands[0].name, operands[wanted - 1].name);
    own.size = sizeof own;
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(!addresses[i], QUERN_E_ARGUMENT, "the address of operand %s (number %zu) is null",
                operands[i].name, i);
        TRY(quern_args_set(&own, operands[i].name, addresses[i]));
    }
    extensible_write(type, &own, args);
    return QUERN_OK;
}

/* The row of the operand of that name; null: there is none. */
static const struct operand_row *row_named(const char *name)
{
    for (size_t i = 0; i < OPERAND_COUNT && name; i++)
        if (!strcmp(operand_rows[i].name, name))
            return &operand_rows[i];
    return NULL;
}

quern_status quern_args_set(struct quern_args *args, const char *name, const void *address)
{
    const struct operand_row *const row = row_named(name);
    char all[OPERANDS_TEXT];

    TRY(extensible_check(EXTENSIBLE(quern_args, QUERN_ARGS_SIZE_MIN), args));
    if (!row) {
        operands_text(UINT32_MAX, all);
        FAIL(QUERN_E_ARGUMENT, "'%s' is no operand; expected what the problem has of %s",
             name ? name : "", all);
    }
    FAIL_IF(!extensible_has(args, row->in_args + sizeof address), QUERN_E_ARGUMENT,
            "struct quern_args has size %zu, and no member %s", args->size, name);
    memcpy((char *)args + row->in_args, &address, sizeof address);
    return QUERN_OK;
}

void *quern_args_get(const struct quern_args *args, const char *name)
{
    const struct operand_row *const row = row_named(name);

    return args && row && extensible_has(args, row->in_args + sizeof(void *))
               ? operand_address(args, (enum operand)(row - operand_rows))
               : NULL;
}
