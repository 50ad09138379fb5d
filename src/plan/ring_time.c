/* SPDX-License-Identifier: MIT */
/*
 * How long kernels of family ring take. A step of a multiprocessor is modelled as whichever takes
 * longest of four: shared memory, or with one row of A the copies that a warp starts, the issue of
 * instructions, a consumer's chain of them, and the warps that add sums; with several rows of A a
 * part of the other three is added. A kernel takes its steps or its share of memory, whichever is
 * longer, and somewhat more, after its launch and its loads of A. Constants are fitted to what
 * kernels took on an H200 (docs/notebook/ring.md).
 */
#include "plan/ring.h"

#include "plan/nvidia.h"

/* Cycles at 1.98 GHz, for several rows of A: fitted to 2,630 times of kernels of 14 layers and five
 * formats at M = 8, 16 and 32, and then, without going far from that, to 1,471 of kernels that may
 * share rows, of every layer of the model zoo in NF4 and of five in other formats. Of those within
 * 1.35 of a layer's fastest 99 % took what follows from these within 15 %, and what the model finds
 * the fastest takes 0.6 % more than what was; fitted on half of the layers 98 % of the other half
 * (docs/notebook/ring.md, 2026-11-30). */
#define LAUNCH_CYCLES        3658 /* launch, table, first bytes, last sums */
#define ALL_CYCLES           618  /* and more, where all multiprocessors have tiles */
#define LOAD_CYCLES          362  /* to load A of a chunk, besides its bytes */
#define OFFSET_CYCLES        54   /* for the sums of a unit of A, where codes have an offset */
#define LOAD_BYTES           55   /* of A that a multiprocessor loads in a cycle */
#define FIRST_PERCENT        49   /* of that, where a launch loads A once: other things begin too */
#define CACHED_BYTES         145779 /* of shared memory that leave the first cache enough */
#define UNCACHED_PERCENT     89     /* that loads of A are slower by with twice CACHED_BYTES */
#define AHEAD_BYTES          76     /* of the first stages that come in a cycle, behind launch */
#define SUSTAINED_PERCENT    96     /* of memory's peak */
#define FLIGHT_BYTES         59744  /* that should be on their way, of numbers, */
#define FLIGHT_BYTES_BLOCKS  58948  /* and of codes in blocks */
#define FLIGHT_PERCENT       98     /* that memory takes longer with nothing on its way */
#define TOGETHER_THOUSANDTHS 99     /* that memory and decoding hold each other up */
#define CHAIN_CYCLES         30     /* of a warp to decode 64 columns behind others */
#define PRODUCT_CYCLES       9      /* and for their products with eight rows of A */
#define UNIT_CYCLES          41     /* and for a unit besides */
#define SCALE_CYCLES         9      /* for scaling a block's sums with eight rows of A */
#define PORTION_CYCLES       158    /* of a step for each portion behind the first */
#define STEP_CYCLES          9      /* of a warp in a step besides: barriers, addresses */
#define STEP_ROWS_CYCLES     9      /* and for handing over sums of eight rows of A */
#define STEP_SLOTS           40     /* of a consumer in a step, besides its units */
#define PART_SLOTS           187    /* of a warp that adds sums, for 16 rows of W and eight of A */
#define SLOT_PERCENT         166    /* of a cycle of one of the four parts, that a slot takes */
#define WAVEFRONT_PERCENT    63     /* of a cycle, that a wavefront of shared memory takes */
#define PART_CYCLES          87     /* of a warp that adds sums, for 16 rows of W and eight of A */
#define SUM_CYCLES           14     /* and for those of each consumer */
#define OTHERS_PERCENT       27     /* of what is not the longest, that is waited for too */
#define RAGGED_PERCENT       221    /* of a warp's cycles, where a chunk does not divide K */
#define END_PERCENT          59     /* of a portion's part of a step, behind the last bytes */
#define AVERAGE_PART         6      /* of a kernel's cycles: one in so many has an instruction */
#define FEW_PERCENT          80 /* of multiprocessors at work, or fewer, leave each other memory */
#define ALONE_BYTES          31 /* of W that each of those then gets in a cycle, */
#define FEW_SUSTAINED        90 /* and all of them at most, in percent of memory's peak */
/* Percent more that memory takes where chunks of weights of 8 and 16 bits begin between two
 * multiples of 128 bytes, so that rows lie otherwise in a stage than in memory: bf16 129280x7168
 * took 454 to 460 us with chunks of 75 units of 64 bytes, 45 and 77, and 418 to 423 with 29 others
 * (H200, 2026-11-30). */
#define CROOKED_PERCENT 8
#define LINE_BYTES      128
/* Of workgroups that share rows, to launch them together and to add up their sums. */
#define JOIN_CYCLES      836
#define JOIN_PART_CYCLES 341 /* and of a warp that adds sums, for 16 rows of W and eight of A */
/* For one row of A, fitted to 2,086 times of kernels of 17 layers and five mixtures, of five
 * formats: of those within 1.35 of the fastest all but 1.9 % took what follows from these within
 * 15 %, and the model's choice takes 1.5 % more than the fastest (docs/notebook/ring.md,
 * 2026-11-30). */
#define ONE_LAUNCH_CYCLES  4416 /* launch, first bytes, last sums */
#define ONE_CHAIN_CYCLES   277  /* of a warp in a step, and as much more as follows */
#define ONE_CHAIN_PERCENT  116  /* of its slots */
#define ONE_PRODUCT_SLOTS  10   /* of a warp for a product, for addresses and to choose sums */
#define ONE_STEP_SLOTS     156  /* of a warp in a step, besides its products */
#define ONE_SLOT_PERCENT   114  /* of a cycle of one of the four parts, that a slot takes */
#define ONE_PART_CYCLES    26   /* of a warp that adds sums */
#define ONE_SUM_CYCLES     2    /* and for those of each consumer */
#define ONE_LOAD_CYCLES    637  /* to load A of a chunk, where there are several */
#define ONE_END_PERCENT    77   /* of a portion's part of a step, behind the last bytes */
#define ONE_RAGGED_PERCENT 250  /* of a warp's cycles, where a chunk does not divide K */
#define ONE_PORTION_CYCLES 24   /* of a warp in a step for each portion behind the first */
#define ONE_COPY_CYCLES    12   /* of the warp that copies, for each copy of a stage */
#define ONE_COPIES_CYCLES  158  /* and for a stage besides */
/* Rows of codes that are longer in shared memory, where a chunk does not divide K, come slowly. */
#define ONE_LONGER_PERCENT 28
/* Of what a multiprocessor reads, the first so many bytes are slower: each so many by a cycle. */
#define ONE_SLOW_BYTES 65536
#define ONE_SLOW_EACH  46
/* Bytes that should be on their way. With none at all memory would take so many percent longer, and
 * with some of them a share of that, by the square of what is missing. */
#define ONE_FLIGHT_BYTES   43118
#define ONE_FLIGHT_PERCENT 59
#define ONE_TOGETHER       221 /* thousandths */

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Instructions of a warp that make a pair of weights: an address and a load, or a shift and a mask;
 * a conversion of two e4m3, and to bf16 three more; none where the words of W are pairs. */
static int pair_slots(const struct plan *p)
{
    const unsigned bits = nvidia_weight_bits(&p->problem);

    return bits == 4 ? 2 : bits == 16 ? 0 : p->problem.a == QUERN_BF16 ? 4 : 1;
}

/* And for one unit of 16 rows: its pairs, products, scaling. */
static int64_t unit_slots(const struct plan *p)
{
    const int scaling = nvidia_has_scales(p) ? 4 * ring_m_tiles(p) / p->ring.span + 4 : 0;

    return pair_slots(p) * (p->ring.unit / 4) + 2 + p->ring.unit / 16 * ring_m_tiles(p) + scaling;
}

/* And for a consumer's part of a step. With one row of A a product has two units of eight rows. */
static int64_t step_slots(const struct plan *p)
{
    return ring_one_row(p) ? (unit_slots(p) + ONE_PRODUCT_SLOTS) * ((p->ring.units + 1) / 2)
                           : unit_slots(p) * p->ring.units;
}

/* Cycles of a multiprocessor in a step, with several rows of A: the longest of four, and a part of
 * the others. Where a chunk does not divide K, each unit is behind a branch, across which nothing
 * is scheduled. */
static int64_t rows_step_cycles(const struct plan *p)
{
    const int64_t units = (int64_t)ring_consumers(p) * p->ring.units, tiles = ring_m_tiles(p);
    const int64_t lookups = nvidia_has_table(&p->problem) ? units * p->ring.unit / 4 : 0;
    const int64_t wavefronts = lookups + units * ring_unit_bytes(p) / 8 + 2 * ring_sums(p);
    const int64_t parts = p->ring.row_warps * tiles; /* of a step's sums */
    const int64_t slots =
        model_ceil_div(ring_consumers(p), RING_PARTS) * (step_slots(p) + STEP_SLOTS) +
        parts * PART_SLOTS / RING_PARTS;
    const int64_t summing =
        model_ceil_div(parts, ring_summers(p)) * (PART_CYCLES + p->ring.k_warps * SUM_CYCLES);
    const int64_t unit = p->ring.unit * (CHAIN_CYCLES + PRODUCT_CYCLES * tiles) / 64 + UNIT_CYCLES;
    const int64_t scaling =
        nvidia_has_scales(p) ? p->ring.units / p->ring.span * SCALE_CYCLES * tiles : 0;
    int64_t chain = p->ring.units * unit + scaling + STEP_CYCLES + STEP_ROWS_CYCLES * tiles;

    if (ring_is_ragged(p))
        chain = chain * RAGGED_PERCENT / 100;
    if (p->ring.sum_buffers == 1)
        chain += summing;
    const int64_t shared = wavefronts * WAVEFRONT_PERCENT / 100, issue = slots * SLOT_PERCENT / 100;
    const int64_t most = largest(largest(shared, issue), largest(chain, summing));

    return most + (shared + issue + chain + summing - most) * OTHERS_PERCENT / 100 +
           (p->ring.portions - 1) * PORTION_CYCLES;
}

/* Copies that the producer of a kernel for one row starts for a stage: of weights, of their scales
 * and of their zero points. */
static int64_t copies(const struct plan *p)
{
    const int64_t rows = ring_stage_rows(p);
    const int64_t scales = p->ring.scale_rows == 1 ? rows : p->ring.scale_rows > 1;

    return rows * p->ring.portions + scales * (p->problem.zero > QUERN_ZERO_NONE ? 2 : 1);
}

/* The same for one row of A. */
static int64_t one_row_step_cycles(const struct plan *p)
{
    const int64_t slots = step_slots(p);
    const int64_t parts = model_ceil_div(p->ring.row_warps, ring_summers(p));
    int64_t chain = ONE_CHAIN_CYCLES + slots * ONE_CHAIN_PERCENT / 100;

    if (ring_is_ragged(p))
        chain = chain * ONE_RAGGED_PERCENT / 100;
    chain += (p->ring.portions - 1) * ONE_PORTION_CYCLES;
    return largest(largest(chain, model_ceil_div(ring_consumers(p), RING_PARTS) *
                                      (ONE_STEP_SLOTS + slots * ONE_SLOT_PERCENT / 100)),
                   largest(parts * (ONE_PART_CYCLES + p->ring.k_warps * ONE_SUM_CYCLES),
                           ONE_COPIES_CYCLES + copies(p) * ONE_COPY_CYCLES));
}

/* Whether so few multiprocessors have a tile, and one only, that each gets more than its share. */
static bool few_work(const struct target_fill *fill)
{
    return fill->fullest == 1 && fill->percent <= FEW_PERCENT;
}

/* Bytes of W that the fullest multiprocessor reads. */
static int64_t fullest_bytes(const struct plan *p, const struct target_fill *fill)
{
    return (int64_t)fill->fullest * p->rows_per_workgroup * p->ring.row_bytes / p->cluster;
}

/* Whether memory takes CROOKED_PERCENT more. */
static bool is_crooked(const struct plan *p)
{
    const int64_t bits = nvidia_weight_bits(&p->problem);

    return bits > 4 && p->ring.chunk * bits / 8 % LINE_BYTES != 0 && ring_chunks(p) > 1;
}

/* A multiprocessor's share of memory, the last round of tiles counted whole, where streams get so
 * many percent of its peak. Where few multiprocessors have a tile at all, each gets more than a
 * share: 1024x4096 keeps 64 of 132 busy, and for NF4, e4m3 and bf16 at M = 1 each of these got 30
 * to 31 bytes a cycle behind launch and loads. So much for each is more than there is for all where
 * 80 have a tile: bf16 5120x2880, 5120x3072 and 5376x4096 took 4 to 8 % more with 64 rows a tile,
 * which seemed the best, than with shapes that keep all busy. */
static int64_t share_cycles(const struct plan *p, const struct target_fill *fill, int sustained)
{
    const int64_t peak = p->estimate.memory_cycles * 100 / (fill->percent ? fill->percent : 1);

    if (few_work(fill))
        return largest(fullest_bytes(p, fill) / ALONE_BYTES,
                       p->estimate.memory_cycles * 100 / FEW_SUSTAINED);
    return peak * (100 + (is_crooked(p) ? CROOKED_PERCENT : 0)) / sustained;
}

/* What memory takes where less than `flight` bytes are under way: up to so many percent longer, by
 * the square of what is missing. */
static int64_t with_gaps(const struct plan *p, int64_t memory, int64_t flight, int percent)
{
    const int64_t there = 1000 * p->estimate.bytes_in_flight / flight; /* of 1000 */
    const int64_t missing = largest(0, 1000 - there);

    return memory + memory * percent / 100 * missing / 1000 * missing / 1000;
}

/* Memory and decoding hold each other up where they take about as long: together about a root of
 * the sum of their powers, which is the longer one and up to so many thousandths of it more, by the
 * fourth power of what the other is of it. */
static int64_t together(int64_t a, int64_t b, int thousandths)
{
    const int64_t longer = largest(a, b), part = 1000 * (a + b - longer) / longer; /* of 1000 */

    return longer +
           longer * part / 1000 * part / 1000 * part / 1000 * part / 1000 * thousandths / 1000;
}

/* Of a kernel for one row. Behind the last bytes most of a portion's part of a step follows. */
static int64_t one_row_cycles(const struct plan *p, const struct target_fill *fill)
{
    const int64_t steps = (int64_t)fill->fullest * ring_chunks(p), step = one_row_step_cycles(p);
    const int64_t bytes = fullest_bytes(p, fill);
    const int64_t loads = ring_chunks(p) == 1 ? 0 : ring_chunks(p) * ONE_LOAD_CYCLES;
    int64_t memory = share_cycles(p, fill, (int)target_sustained_percent(p->target)) +
                     (bytes < ONE_SLOW_BYTES ? bytes : ONE_SLOW_BYTES) / ONE_SLOW_EACH;

    if (ring_is_ragged(p) && nvidia_weight_bits(&p->problem) == 4)
        memory += memory * ONE_LONGER_PERCENT / 100;
    memory = with_gaps(p, memory, ONE_FLIGHT_BYTES, ONE_FLIGHT_PERCENT);
    return ONE_LAUNCH_CYCLES + together(memory, steps * step, ONE_TOGETHER) +
           step * ONE_END_PERCENT / 100 / p->ring.portions + loads;
}

/* Of the workgroups of a cluster, each of which adds up the sums of a share of their tiles. */
static int64_t join_cycles(const struct plan *p, const struct target_fill *fill)
{
    const int64_t parts = (int64_t)fill->fullest * p->ring.row_warps * ring_m_tiles(p);

    return p->cluster == 1 ? 0
                           : JOIN_CYCLES + model_ceil_div(parts, p->cluster * ring_summers(p)) *
                                               JOIN_PART_CYCLES;
}

/* Of one for several rows, likewise. Consumers wait for the first stages, whose copies all come at
 * about the same time; and for A, whose loads are slower where stages leave little shared memory to
 * be the first cache. */
static int64_t rows_cycles(const struct plan *p, const struct target_fill *fill)
{
    const int64_t steps = (int64_t)fill->fullest * ring_own_chunks(p), step = rows_step_cycles(p);
    const int64_t ahead = p->ring.stages < steps ? p->ring.stages : steps;
    const int64_t busy = steps * step + ahead * p->ring.stage_bytes / AHEAD_BYTES;
    const int64_t flight = nvidia_has_blocks(p) ? FLIGHT_BYTES_BLOCKS : FLIGHT_BYTES;
    const int64_t memory =
        with_gaps(p, share_cycles(p, fill, SUSTAINED_PERCENT), flight, FLIGHT_PERCENT);
    const int64_t batches = model_ceil_div((int64_t)fill->fullest, p->ring.batch);
    const int64_t loads = ring_own_chunks(p) == 1 ? 1 : ring_own_chunks(p) * batches;
    const int64_t sums = p->problem.wq == QUERN_W_INT4
                             ? (int64_t)p->ring.units * ring_m_tiles(p) * OFFSET_CYCLES
                             : 0;
    const int64_t load = LOAD_CYCLES + p->m_tile * 2 * p->ring.chunk / LOAD_BYTES;
    const int64_t waited = loads == 1 ? load * FIRST_PERCENT / 100 : loads * load;
    const int64_t uncached = largest(0, (int64_t)p->lds_bytes - CACHED_BYTES);

    return LAUNCH_CYCLES + (few_work(fill) ? 0 : ALL_CYCLES) + join_cycles(p, fill) +
           together(memory, busy, TOGETHER_THOUSANDTHS) +
           step * END_PERCENT / 100 / p->ring.portions + loads * sums +
           waited * (100 + uncached * UNCACHED_PERCENT / CACHED_BYTES) / 100;
}

void ring_estimate(struct plan *p)
{
    const struct target *const t = p->target;
    struct plan_estimate *const e = &p->estimate;
    /* tiles are dealt out to the clusters that fit, which may leave multiprocessors over */
    const struct target_fill fill =
        target_fill_of((unsigned)ring_clusters(p), (uint64_t)(p->row_groups * model_together(p)));
    const int64_t slots = step_slots(p);
    const int64_t held = largest(1, plan_held(p, t->cus) / model_together(p));

    e->vgprs = ring_registers(p);
    e->workgroups = p->row_groups * p->cluster < held ? p->row_groups * p->cluster : held;
    e->walk = (int64_t)fill.fullest;
    e->waves_per_simd = (uint32_t)((p->waves + RING_PARTS - 1) / RING_PARTS);
    e->busy_percent = fill.percent * (unsigned)(ring_clusters(p) * p->cluster) / t->cus;
    e->fills = true;
    e->streams = true;
    e->close = true;
    e->bytes_in_flight = (p->ring.stages - 1) * p->ring.stage_bytes;
    e->step_slots = (uint32_t)slots;
    e->setup_slots = 300;
    e->slots = p->row_groups * ring_chunks(p) * ring_consumers(p) * slots;
    e->kernel_cycles = ring_one_row(p) ? one_row_cycles(p, &fill) : rows_cycles(p, &fill);
    /* Times are of hardware, so the quickest shape is wanted, however many instructions it has:
     * what is said of the average multiprocessor's work is the same part of all shapes' time, which
     * is about slab_w4's. */
    e->busy_cycles = e->kernel_cycles / AVERAGE_PART * t->cus * t->simds;
}
