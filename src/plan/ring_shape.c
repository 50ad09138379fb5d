/* SPDX-License-Identifier: MIT */
/* What follows from the shape of a kernel of family ring: the sizes of what it has in shared memory
 * and in registers. */
#include "plan/ring.h"

#include "plan/base.h"
#include "plan/nvidia.h"
#include "problem/operands.h"

#define COPY_BYTES 16 /* in bulk, are of multiples of these */
/* A row's scales in a chunk that are no such multiple come by a copy if they have so many bytes,
 * and else lanes load them. int4 kernels took 0.93 to 1.0 of the time by copies of 40 and 56 bytes,
 * 0.96 of 28, and 1.02 to 1.09 of 20 and 24 (H200, 2026-11-30); other formats were not compared. */
#define COPY_LEAST     28
#define SECONDS_MAX    8192  /* bytes of second-level scales that a workgroup keeps */
#define BANKS_BYTES    128   /* of all banks of shared memory */
#define STAGE_ALIGN    128   /* where copies are quickest */
#define TABLE_BYTES    65536 /* half of it free for sums */
#define BARRIER_BYTES  8
#define PORTIONED_ROWS 8  /* of A, at most, with which stages come in portions */
#define COPIES_MAX     64 /* of a stage's weights, all of which are unrolled */
/* Registers of a lane. */
#define LANE_REGISTERS  255 /* most that it can have */
#define OTHER_REGISTERS 56  /* that a producer's or a summer's needs */
#define UNFORESEEN      24  /* that the compiler may take beyond what is counted for a consumer's */
#define WARPGROUP       4   /* neighbouring warps, which hand registers over together */

int ring_m_tiles(const struct plan *p)
{
    return (p->m_tile + 7) / 8;
}

bool ring_one_row(const struct plan *p)
{
    return p->m_tile == 1;
}

static int tile_rows(const struct plan *p)
{
    return ring_one_row(p) ? 8 : 16;
}

int64_t ring_stage_rows(const struct plan *p)
{
    return (int64_t)tile_rows(p) * p->ring.row_warps;
}

static int tile_sums(const struct plan *p)
{
    return ring_one_row(p) ? 1 : 4;
}

int ring_consumers(const struct plan *p)
{
    return p->ring.k_warps * p->ring.row_warps;
}

/* The columns of all consumers that share rows. */
static int64_t all_columns(const struct plan *p)
{
    return (int64_t)p->ring.k_warps * p->ring.units * p->ring.unit;
}

/* Where the columns of all consumers do not divide K, but as many chunks of fewer columns do, the
 * last consumer begins earlier, among the columns of the one before it, if spans then still are one
 * consumer's. Weights of 8 and 16 bits do not take part: the last consumer multiplies the columns
 * that it shares with zeros, and an infinite weight would make NaN of that. */
int ring_chunk_of(const struct plan *p)
{
    const int64_t all = all_columns(p), chunks = model_ceil_div(p->problem.k, all);
    const int64_t chunk = p->problem.k / chunks, span = (int64_t)p->ring.span * p->ring.unit;
    const bool fits = p->problem.k % chunks == 0 && chunk % span == 0 &&
                      all - chunk < (int64_t)p->ring.units * p->ring.unit;

    return fits && p->ring.k_warps > 1 && !ring_one_row(p) && !plan_is_base(p) &&
                   nvidia_weight_bits(&p->problem) == 4
               ? (int)chunk
               : (int)all;
}

int64_t ring_chunks(const struct plan *p)
{
    return model_ceil_div(p->problem.k, p->ring.chunk);
}

int64_t ring_own_chunks(const struct plan *p)
{
    return model_ceil_div(ring_chunks(p), p->cluster);
}

bool ring_may_share_rows(const struct plan *p)
{
    return p->cluster == 1 ||
           (p->target->clustered && !ring_one_row(p) && p->problem.op != QUERN_OP_MOE &&
            !plan_is_base(p) && !ring_is_ragged(p) && ring_chunks(p) % p->cluster == 0);
}

/* Kernels for RING_ROWS_MAX rows serve more of them in slices. Where two slices of workgroups that
 * are alone find room side by side, but not two of clusters, a second slice would take as long as
 * the first. */
bool ring_cluster_fits(const struct plan *p)
{
    const int64_t two = 2 * p->row_groups, units = p->target->cus;
    const bool slices_fit =
        p->m_tile < RING_ROWS_MAX || two > units || two * p->cluster <= plan_held(p, units);

    return p->cluster == 1 || (slices_fit && p->ring.batch * ring_clusters(p) >= p->row_groups);
}

int64_t ring_clusters(const struct plan *p)
{
    return plan_held(p, p->target->cus) / p->cluster;
}

int64_t ring_walk(const struct plan *p)
{
    return model_ceil_div(p->row_groups * model_together(p), ring_clusters(p));
}

int64_t ring_walk_max(const struct plan *p)
{
    return p->cluster > 1 ? p->ring.batch : p->ring.seconds ? ring_walk(p) : 0;
}

bool ring_is_ragged(const struct plan *p)
{
    return p->problem.k % p->ring.chunk != 0;
}

/* Whether each chunk is all columns of its consumers. */
static bool is_whole(const struct plan *p)
{
    return p->problem.k % all_columns(p) == 0;
}

int64_t ring_unit_bytes(const struct plan *p)
{
    return p->ring.unit * (int64_t)nvidia_weight_bits(&p->problem) / 8;
}

/* All portions of a stage have as many units, and whole blocks, or a consumer would need what has
 * not come. With one row of A, whose lanes read the units of different rows in different orders
 * (row_key in the template), a portion is a multiple of all banks, so that no order leaves it.
 * Portions pay where a launch has few steps, and cost time in every step; with 16 rows of A and
 * more none was faster (docs/notebook/ring.md). */
bool ring_portions_fit(const struct plan *p)
{
    const int portion = p->ring.units / p->ring.portions;

    return p->ring.portions == 1 ||
           (p->m_tile <= PORTIONED_ROWS && !plan_is_base(p) && is_whole(p) &&
            p->ring.units % p->ring.portions == 0 && portion % p->ring.span == 0 &&
            (!ring_one_row(p) || portion * ring_unit_bytes(p) % BANKS_BYTES == 0) &&
            ring_stage_rows(p) * p->ring.portions <= COPIES_MAX);
}

/* Whether bulk copies can bring so many bytes of each row for all rows of a stage at once, of the
 * last stage and of any expert too. */
static bool rows_copy(const struct plan *p, int64_t row)
{
    const struct quern_problem *const q = &p->problem;

    return ring_stage_rows(p) * row % COPY_BYTES == 0 &&
           q->n % ring_stage_rows(p) * row % COPY_BYTES == 0 &&
           (q->op != QUERN_OP_MOE || q->n * row % COPY_BYTES == 0);
}

/* Of all tiles that a workgroup may have, in front of mbarriers. The template reserves them for
 * WALK_MAX tiles: that is ring_walk here, and the batch of a cluster, which is no less
 * (ring_cluster_fits). */
static int64_t seconds_bytes(const struct plan *p)
{
    return model_ceil_div(p->ring.seconds * ring_walk(p) * 4, BARRIER_BYTES) * BARRIER_BYTES;
}

/* Numbers of the second level of nested scales that a tile of rows has, if its first block may be
 * any of those that share one. A mixture's workgroups do not know how many tiles they will have,
 * and gates and ups that lie in halves are rows of two places. */
static int seconds(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    return q->scale == QUERN_SCALE_NESTED && q->op != QUERN_OP_MOE && q->glu != QUERN_GLU_HALVES
               ? (int)(ring_stage_rows(p) * (q->k / problem_group(q)) / OPERAND_NEST + 2)
               : 0;
}

/* Of how many rows of W a bulk copy brings the scales: all those of a stage, where they are
 * neighbours, or one; 0: lanes load them from memory. Copies take multiples of 16 bytes, from and
 * to such multiples; where a chunk begins or ends between two of these, a copy of one row's brings
 * more of that row. With one row of A, scales that lie multiples of all banks apart come one by
 * one, for lanes of eight rows would read the same bank. Of nested scales the bytes come so if the
 * second level is kept. */
static int64_t scale_rows(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    if (plan_is_base(p) || !nvidia_has_blocks(p) ||
        (q->scale == QUERN_SCALE_NESTED && !p->ring.seconds))
        return 0;
    const int64_t blocks = q->k / problem_group(q);
    const int64_t row = blocks * nvidia_scale_bytes(q), zeros = blocks * nvidia_zero_bytes(q);
    const bool one_chunk = ring_chunks(p) == 1 && q->glu != QUERN_GLU_HALVES;
    const bool together = one_chunk && rows_copy(p, row) && rows_copy(p, zeros);
    const int64_t own = p->ring.chunk / problem_group(q) * nvidia_scale_bytes(q);
    const bool worth = own % COPY_BYTES == 0 || own >= COPY_LEAST;
    const bool each = p->ring.chunk % problem_group(q) == 0 && row % COPY_BYTES == 0 &&
                      zeros % COPY_BYTES == 0 && worth;

    const bool meet = ring_one_row(p) && row % BANKS_BYTES == 0;

    return each && (meet || !together) ? 1 : together ? ring_stage_rows(p) : 0;
}

/* A copy takes its warp some 27 cycles, whatever its size, and stages of several rows of A have 16
 * rows and more: with as many copies of scales a warp would be late (57344x8192 in NF4 took 88 us
 * at M = 16, and 81 with two, when copies were not all unrolled; 2026-11-29). Not beyond 16 warps,
 * as lanes would have a quarter fewer registers. */
static int producers(const struct plan *p)
{
    return p->ring.scale_rows == 1 && !ring_one_row(p) && ring_consumers(p) + 3 <= 16 ? 2 : 1;
}

int64_t ring_summers(const struct plan *p)
{
    return p->waves - ring_consumers(p) - p->ring.producers;
}

/* Of one kind in a stage. Rows that are copied one by one are an odd multiple of 16 bytes apart,
 * by which those of eight lie in different banks. Copies of numbers that do not begin at a multiple
 * of 16 bytes begin up to 16 - bytes in front of them. */
static int64_t stage_scales(const struct plan *p, int64_t bytes)
{
    const int64_t group = problem_group(&p->problem), own = p->ring.chunk / group * bytes;
    const int64_t copied =
        own % COPY_BYTES ? model_ceil_div(own + COPY_BYTES - bytes, COPY_BYTES) * COPY_BYTES : own;

    return ring_stage_rows(p) *
           (bytes && p->ring.scale_rows == 1 ? copied | COPY_BYTES : p->problem.k / group * bytes);
}

static int64_t stage_bytes(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t scales = p->ring.scale_rows ? stage_scales(p, nvidia_scale_bytes(q)) +
                                                    stage_scales(p, nvidia_zero_bytes(q))
                                              : 0;

    const int64_t units = p->ring.chunk / p->ring.unit;
    const bool keyed = ring_one_row(p) && !ring_is_ragged(p) && !plan_is_base(p);
    const bool odd = nvidia_weight_bits(q) == 4 && !keyed;

    return model_ceil_div(ring_stage_rows(p) * (odd ? units | 1 : units) * ring_unit_bytes(p) +
                              scales,
                          STAGE_ALIGN) *
           STAGE_ALIGN;
}

void ring_lay_out(struct plan *p)
{
    p->ring.seconds = plan_is_base(p) ? 0 : seconds(p);
    if (seconds_bytes(p) > SECONDS_MAX)
        p->ring.seconds = 0;
    p->ring.scale_rows = (int)scale_rows(p);
    if (!p->ring.scale_rows)
        p->ring.seconds = 0;
    p->ring.producers = producers(p);
    p->ring.stage_bytes = stage_bytes(p);
}

/* Of the sums of a tile, over all its consumers that share rows. */
int64_t ring_kept_bytes(const struct plan *p)
{
    return (int64_t)p->ring.row_warps * ring_m_tiles(p) * tile_sums(p) * 128;
}

int64_t ring_sums(const struct plan *p)
{
    return (int64_t)ring_consumers(p) * ring_m_tiles(p) * tile_sums(p);
}

/* Whether shared memory has room for sums of chunks before. A base kernel may meet any K. */
bool ring_keeps_sums(const struct plan *p)
{
    return ring_chunks(p) > 1 || plan_is_base(p);
}

/* Shared memory but for the stages: the table, or the sums that would be in it, sums of chunks
 * before, codes, barriers. */
int64_t ring_other_bytes(const struct plan *p)
{
    return (nvidia_has_table(&p->problem) ? TABLE_BYTES
                                          : p->ring.sum_buffers * ring_sums(p) * 128) +
           (ring_keeps_sums(p) ? p->ring.batch * ring_kept_bytes(p) : 0) +
           nvidia_codes_bytes(&p->problem) + seconds_bytes(p) +
           (RING_STAGES_MAX * (p->ring.portions + 1) + 4) * BARRIER_BYTES;
}

/* Registers of a consumer: A, sums and those of a block, scales of two rows in this step and the
 * next, and what addresses take. For one row, of each set of eight units A, the scales of a lane's
 * two and their zero points or sums of A, of nested scales those of the next step too; and 64 for
 * the rest. */
uint32_t ring_registers(const struct plan *p)
{
    const uint32_t spans = (uint32_t)(p->ring.units / p->ring.span),
                   tiles = (uint32_t)ring_m_tiles(p);
    const uint32_t sets = (uint32_t)(p->ring.units + 7) / 8;
    /* Where warps share a group, its offset and scale are applied by unit. With 28 registers less
     * than this a kernel for 16 rows spilled 64 bytes, and took 22 us for 15 (seven units). */
    const bool parts = p->problem.wq == QUERN_W_INT4 && nvidia_has_scales(p) &&
                       p->ring.span * p->ring.unit < problem_group(&p->problem);

    if (ring_one_row(p))
        return sets * ((uint32_t)p->ring.unit / 8 + (nvidia_has_scales(p) ? 2 : 0) +
                       (p->problem.scale == QUERN_SCALE_NESTED ? 6 : 0) +
                       (p->problem.wq == QUERN_W_INT4 ? 2 : 0) +
                       (p->problem.zero > QUERN_ZERO_NONE ? 2 : 0)) +
               64;
    return (uint32_t)(p->ring.units * p->ring.unit) / 8 * tiles + 8 * tiles +
           spans * nvidia_scale_bytes(&p->problem) +
           (p->problem.scale == QUERN_SCALE_NESTED ? 24 : 0) +
           (p->problem.wq == QUERN_W_INT4 ? 2 * tiles * spans : 0) + (parts ? 4 * spans : 0) +
           (p->problem.zero > QUERN_ZERO_NONE ? 4 * spans : 0) +
           (p->problem.zero == QUERN_ZERO_SCALED ? 16 : 0) +
           (p->problem.op == QUERN_OP_MOE ? 16 : 0) +
           (nvidia_in_blocks_of_128(p) && p->problem.a == QUERN_DT_FP8 ? 2 * tiles * spans : 0) +
           36;
}

/* Of each lane, where all warps have as many: the most that a workgroup of so many warps can be
 * launched with. */
static unsigned equal_registers(const struct plan *p)
{
    const int together = (p->waves + RING_PARTS - 1) / RING_PARTS;

    return p->target->vgprs / (unsigned)together / 8 * 8;
}

/* Consumers must be whole warpgroups, and all other warps one. */
static bool can_hand_over(const struct plan *p)
{
    return p->target->capabilities & CAP_WARPGROUPS && !plan_is_base(p) &&
           equal_registers(p) < LANE_REGISTERS && ring_consumers(p) % WARPGROUP == 0 &&
           p->waves - ring_consumers(p) == WARPGROUP;
}

/* Of a consumer's lane, where others keep OTHER_REGISTERS, a multiple of eight. Together the shares
 * must not exceed what the workgroup was launched with, or a warp waits for ever: the compiler
 * gives a kernel that hands registers over all that its __launch_bounds__ allow, equal_registers,
 * and a kernel with fewer is not accepted (plan_registers). */
static unsigned more_registers(const struct plan *p)
{
    const unsigned groups = (unsigned)p->waves / WARPGROUP;

    return (equal_registers(p) * groups - OTHER_REGISTERS) / (groups - 1) / 8 * 8;
}

uint32_t ring_registers_max(const struct plan *p)
{
    const unsigned most = can_hand_over(p) ? more_registers(p) : equal_registers(p);

    return most < LANE_REGISTERS ? most : LANE_REGISTERS;
}

bool ring_hands_over(const struct plan *p)
{
    return can_hand_over(p) && ring_registers(p) + UNFORESEEN > equal_registers(p);
}

int64_t ring_consumer_registers(const struct plan *p)
{
    return ring_hands_over(p) ? more_registers(p) : 0;
}

int64_t ring_other_registers(const struct plan *p)
{
    return ring_hands_over(p) ? OTHER_REGISTERS : 0;
}

int64_t ring_shared_registers(const struct plan *p)
{
    return ring_consumers(p) * ring_consumer_registers(p) +
           (p->waves - ring_consumers(p)) * ring_other_registers(p);
}
