/* SPDX-License-Identifier: MIT */
/* The kernels of op=moe: one for each size of blocks (blocks.h). */
#include "plan/blocks.h"

#include "plan/add.h"
#include "plan/family.h"
#include "plan/matrix.h"
#include "problem/operands.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
/* The most rows of a slice for AMD's tiles in LDS. */
#define TILE_ROWS 128

/* Whether the first of two kernels for the same blocks takes less time, of all slices that are
 * expected side by side. */
static bool block_is_faster(const struct plan *p, const struct plan *q)
{
    const int64_t of_p = p->together * (int64_t)(p->block_rows / p->m_tile);
    const int64_t of_q = q->together * (int64_t)(q->block_rows / q->m_tile);

    return plan_cycles(p, of_p) < plan_cycles(q, of_q);
}

/*
 * Rows of the blocks of op=moe, by how many choices there are for each expert: up to `choices`
 * sixteenths of one. Blocks that are larger than what most experts have waste slots and products;
 * blocks that are smaller read an expert's weights more than once. With c choices to an expert on
 * average, the experts' numbers are nearly Poisson's, by which these limits have one in twenty
 * experts with more rows than a block, or fewer. `busy`: sixteenths of the experts that have any,
 * when the shape is chosen. On matrix units up to 16 rows take the time of one: AMD's blocks of one
 * row go to vector units, and NVIDIA's to kernels for one row, which all weights but fp8 have.
 */
struct block_size {
    int rows, choices, busy;
};
/* In the place of `choices`: so few that most likely no two are of one expert. The shape is then
 * chosen for a launch of as many whole tokens as that allows, whose slices are all side by side. */
#define NO_TWO (-1)
static const struct block_size vector_blocks[] = {
    {1, NO_TWO, 0}, {2, 8, 4}, {4, 24, 8}, {8, 0, 16}, {0}};
static const struct block_size listed_blocks[] = {
    {1, NO_TWO, 0}, {8, 2, 2}, {8, 8, 6}, {8, 64, 12}, {16, 128, 16}, {32, 0, 16}, {0}};
static const struct block_size tiled_blocks[] = {
    {1, NO_TWO, 0}, {8, 2, 2},     {8, 8, 6},   {8, 64, 12},
    {16, 128, 16},  {32, 384, 16}, {64, 0, 16}, {0}};

/* Most choices for which blocks are of such a size. Two of c choices among E experts are of the
 * same with a chance of some c^2 / 2E (the birthday problem). */
static int64_t choices_of(const struct block_size *b, const struct quern_problem *q)
{
    int64_t root = 1;

    if (b->choices != NO_TWO)
        return (int64_t)q->experts * b->choices / 16;
    while ((root + 1) * (root + 1) <= q->experts)
        root++;
    return root;
}

/* Rows of a family's slices of such blocks; 0: it has none that fit into one. */
static int slice_rows(const struct family *f, const struct quern_problem *problem, int block_rows)
{
    if (f->m_tiles) {
        int rows = 0;
        for (const int *one = f->m_tiles(problem); *one && *one <= block_rows; one++)
            rows = *one;
        return rows;
    }
    if (f->units == PLAN_UNITS_VECTOR)
        return model_at_most(block_rows, PLAN_SIMT_M_MAX);
    if (f->units == PLAN_UNITS_MATRIX)
        return block_rows < MATRIX_TILE ? 0 : model_at_most(block_rows, PLAN_MMA_M_MAX);
    return block_rows < PLAN_MMA_M_MAX ? 0 : model_at_most(block_rows, TILE_ROWS);
}

/* Appends a kernel of op=moe for blocks of so many rows, of the family and the slices, no larger
 * than a block, that the model expects to be the fastest. */
static quern_status add_block(struct plan_set *set, const struct plan *base, int block_rows)
{
    static const enum plan_units units[] = {PLAN_UNITS_TILES, PLAN_UNITS_MATRIX, PLAN_UNITS_VECTOR};
    struct plan *const p = &set->plans[set->count];
    quern_status status = QUERN_E_DECLINED;
    bool tried = false;

    for (size_t i = 0; i < COUNT(units); i++) {
        const struct family *const f = family_of(&base->problem, base->target, units[i]);
        const int m_tile = f ? slice_rows(f, &base->problem, block_rows) : 0;
        struct plan one, by = *base;

        by.family = f;
        by.block_rows = block_rows;
        if (!m_tile)
            continue;
        tried = true;
        if (units[i] == PLAN_UNITS_TILES)
            by.meant_for = by.together * m_tile;
        const bool last = m_tile != block_rows || block_rows >= PLAN_MMA_M_MAX;
        if (plan_one(&by, m_tile, last, &one) == QUERN_OK &&
            (status != QUERN_OK || block_is_faster(&one, p))) {
            *p = one;
            status = QUERN_OK;
        }
        /* the model does not know how often waves of the others load A: counted on gfx942 (int4,
         * 4096 tokens of Qwen3-30B), loads took them 367 us, and tiles 320 us in all */
        if (status == QUERN_OK && units[i] == PLAN_UNITS_TILES && !f->m_tiles)
            break;
    }
    /* a family that declines says why itself */
    FAIL_IF(!tried, QUERN_E_DECLINED, "block_rows=%d: blocks of this problem on %s have more rows",
            block_rows, base->target->name);
    if (status == QUERN_OK)
        set->count++;
    return status;
}

/* Whether tiles of more rows than a family of matrix units lists serve such a layer. This must not
 * depend on K, for gate and up and down share their blocks: a layer whose K they do not take has
 * two slices in a block. */
static bool has_tiles(const struct quern_problem *problem, const struct target *target)
{
    struct quern_problem any = *problem;

    any.k = any.k * 64;
    return family_of(&any, target, PLAN_UNITS_TILES) != NULL;
}

/* Bytes of the weights of all experts. */
static double weight_bytes(const struct quern_problem *problem)
{
    struct quern_problem p = *problem;
    struct quern_operand o;
    double bytes = 0;

    p.block_rows = 1; /* of no weight, but there must be some */
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operand_describe(&p, (enum operand)i, 1, &o) && o.weights)
            bytes += (double)o.bytes;
    return bytes;
}

/* Cycles of a launch of AMD's for `choices` choices for each expert, in blocks of which each
 * expert's last is half full. Weights come from memory once for each expert. */
static int64_t block_cycles(const struct plan *p, int choices)
{
    const int64_t rows = p->block_rows;
    const int64_t blocks = p->problem.experts * (2 * choices + rows) / (2 * rows);
    const int64_t cycles = plan_cycles(p, blocks * (rows / p->m_tile));
    const int64_t memory = (int64_t)target_memory_cycles(p->target, weight_bytes(&p->problem));

    return cycles > memory ? cycles : memory;
}

/* Whether the blocks of one kernel are modelled to take 4 % less time, or less yet, than those of
 * the other. Null: there is no such kernel. */
static bool block_pays(const struct plan *p, const struct plan *other, int choices)
{
    return p && other && block_cycles(p, choices) * 25 < block_cycles(other, choices) * 24;
}

/* The kernel for blocks of so many rows, in *set; null: there is none. */
static const struct plan *block_plan(struct plan_set *set, const struct plan *base, int rows)
{
    const size_t at = set->count;

    return add_block(set, base, rows) == QUERN_OK ? &set->plans[at] : NULL;
}

/*
 * The sizes of blocks on AMD's matrix units. Blocks of 64 rows waste most of a tile in LDS while an
 * expert has 16 choices, so that blocks of 32, which other kernels take, pay on parts where such
 * tiles take longer than reading the weights. Blocks of 128 decode each weight half as often as
 * those of 64. They do not pay where products take longer than decoding, as on gfx90a, and with
 * fewer than 384 choices for each expert too many of their rows would be empty.
 */
static void matrix_blocks(const struct plan *base, struct block_size blocks[6])
{
    struct plan_set set = {0};
    struct plan by = *base;
    struct quern_problem *const q = &by.problem;
    struct block_size *b = blocks;

    /* a layer of a size of its own, since gate and up and down must have the same blocks */
    q->n = q->k = 4096;
    q->group = model_at_most(q->group, 4096); /* a power of two, or a row's length, -1 */
    q->c = q->a;
    q->bias = 0;
    q->act = 0;
    q->glu = 0;
    by.together = q->experts;
    const struct plan *const of_64 = block_plan(&set, &by, 64);
    const bool middle = block_pays(block_plan(&set, &by, 32), of_64, 16);
    const bool high = block_pays(block_plan(&set, &by, 128), of_64, 384);
    *b++ = (struct block_size){1, NO_TWO, 0};
    *b++ = (struct block_size){16, 8 * 16, 10};
    if (middle)
        *b++ = (struct block_size){32, 24 * 16, 16};
    *b++ = (struct block_size){64, high ? 384 * 16 : 0, 16};
    if (high)
        *b++ = (struct block_size){128, 0, 16};
    *b = (struct block_size){0};
}

quern_status blocks_plan(struct plan_set *set, struct plan base)
{
    const struct quern_problem *const q = &base.problem;
    const struct family *const matrix = family_of(q, base.target, PLAN_UNITS_MATRIX);
    struct block_size amd[6];
    const struct block_size *b = !matrix                     ? vector_blocks
                                 : !matrix->m_tiles          ? amd
                                 : has_tiles(q, base.target) ? tiled_blocks
                                                             : listed_blocks;
    const int64_t most = problem_rows_max(q);
    int64_t done = 0; /* rows of A that have a kernel */

    if (b == amd)
        matrix_blocks(&base, amd);
    if (matrix && matrix->m_tiles && *matrix->m_tiles(q) > 1)
        b++; /* the family has no kernel for one row of such weights */
    for (; b->rows; b++) {
        const int64_t tokens = choices_of(b, q) / q->top_k, until = b->choices ? tokens : most;

        if (q->block_rows ? b[1].rows && b[1].rows <= q->block_rows : until <= done)
            continue;
        base.together =
            b->choices == NO_TWO ? tokens * q->top_k : (int64_t)q->experts * b->busy / 16;
        if (base.together < 1)
            base.together = 1;
        TRY(add_block(set, &base, q->block_rows ? q->block_rows : b->rows));
        struct plan *const p = &set->plans[set->count - 1];
        p->m_lo = (int)done + 1;
        p->m_hi = (int)(q->block_rows ? most : until);
        done = p->m_hi;
        if (done == most)
            break;
    }
    set->m_max = set->plans[set->count - 1].m_hi;
    return QUERN_OK;
}
