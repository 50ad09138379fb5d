/* SPDX-License-Identifier: MIT */
/* What follows from the shape of a kernel of family ring (ring_shape.c), and the time that it takes
 * (ring_time.c). Pure functions. */
#ifndef QUERN_PLAN_RING_H
#define QUERN_PLAN_RING_H

#include "plan/family.h"

#define RING_PARTS        4 /* of a multiprocessor, each with its own warps and registers */
#define RING_STAGES_MAX   6
#define RING_ROWS_MAX     32 /* of A, of a kernel */
#define RING_CLUSTER_MAX  4  /* workgroups that share rows */
#define RING_PORTIONS_MAX 4  /* that a stage may come in */

/* Matrix operands that rows of A take. */
int ring_m_tiles(const struct plan *p);
/* Whether the kernel is for one row of A, whose values of eight units then take the registers of
 * one. A matrix operand has two units of eight rows of W, and a lane one sum. */
bool ring_one_row(const struct plan *p);
/* Sets what follows from the numbers of warps, rows and units, the chunk, the size of clusters and
 * row_groups, for all numbers of summers and stages: functions below that need it look it up in the
 * plan. */
void ring_lay_out(struct plan *p);

/* Warps that multiply, and that add what those have. */
int ring_consumers(const struct plan *p);
int64_t ring_summers(const struct plan *p);
/* Columns of a chunk of K, which may be fewer than all consumers', for p's waves, units and span;
 * and with that in the plan, as in all that follows, chunks of K. */
int ring_chunk_of(const struct plan *p);
int64_t ring_chunks(const struct plan *p);
/* Chunks of K that one workgroup of a cluster has. */
int64_t ring_own_chunks(const struct plan *p);
/* Whether workgroups may be alone, or share rows in clusters of such a size: all with as many whole
 * chunks, of several rows of A, of one problem that is known, on a target that has clusters. */
bool ring_may_share_rows(const struct plan *p);
/* Whether a workgroup of a cluster has room for the sums of all its tiles, which are added up at
 * the end, and launches of two slices do not lose by clusters. */
bool ring_cluster_fits(const struct plan *p);
/* Clusters that stay: workgroups, where they are alone. */
int64_t ring_clusters(const struct plan *p);
/* Tiles of rows that the fullest of these has; and the most that one may be given, as it has room
 * for what it keeps of each; 0: any number. */
int64_t ring_walk(const struct plan *p);
int64_t ring_walk_max(const struct plan *p);
/* Whether the last chunk of K is a smaller one. */
bool ring_is_ragged(const struct plan *p);
/* Bytes of a unit of one row of W. */
int64_t ring_unit_bytes(const struct plan *p);
/* Whether stages may come in as many portions as p says. */
bool ring_portions_fit(const struct plan *p);
/* Rows of W of a stage. */
int64_t ring_stage_rows(const struct plan *p);
/* Of sums on their way from consumers to summers, of 128 bytes each. */
int64_t ring_sums(const struct plan *p);
/* Whether shared memory has room for sums of chunks before, and their bytes for a tile. */
bool ring_keeps_sums(const struct plan *p);
int64_t ring_kept_bytes(const struct plan *p);
/* Shared memory but for the stages. */
int64_t ring_other_bytes(const struct plan *p);
/* Registers of a consumer's lane, and most that there are for it. */
uint32_t ring_registers(const struct plan *p);
uint32_t ring_registers_max(const struct plan *p);
/* Whether consumers take over registers that the other warps have no use for; and how many a lane
 * of consumers then has, and of the others; 0: registers stay as the launch shares them out. */
bool ring_hands_over(const struct plan *p);
int64_t ring_consumer_registers(const struct plan *p);
int64_t ring_other_registers(const struct plan *p);
/* And of one lane of each warp together. */
int64_t ring_shared_registers(const struct plan *p);

/* Fills in p's estimate but for memory_cycles, which is set, as are the shape, rows_per_workgroup
 * and row_groups. */
void ring_estimate(struct plan *p);

#endif
