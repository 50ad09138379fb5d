/* SPDX-License-Identifier: MIT */
/*
 * The plan: everything the generator and the dispatcher must agree on about one kernel. plan/
 * chooses it, gen/ turns it into source, dispatch/ computes geometry and arguments from it. Plans
 * are values: they own nothing and hold no pointer but the one to the target's row. All functions
 * are pure, thread-safe and never block.
 */
#ifndef QUERN_PLAN_PLAN_H
#define QUERN_PLAN_PLAN_H

#include "base/hash.h"
#include "base/str.h"
#include "plan/shape.h"
#include "problem/problem.h"
#include "target/target.h"

/* A family of kernels: a table of functions and facts (plan/family.h). */
struct family;

/*
 * What multiplies weights with A. DOT2: dot products of two 16-bit pairs, with f32 sums. PACKED:
 * two f32 operations in one instruction. PLAIN: one f32 operation in each. MATRIX: the small
 * matrix instructions that families on vector units use, the diagonal of 4 by 4 results or all of
 * them (simt_w4, simt_int4, simt_skinny say which). The rest is for families on matrix units: WMMA
 * of gfx11 and gfx12, MFMA of gfx9 with results of 16 by 16 and 16 or 32 along K, and MFMA with
 * results of 32 by 32 and 8 or 16 along K. The numbers stand in tuning tables.
 */
enum plan_products {
    PRODUCTS_DOT2 = 1,
    PRODUCTS_PACKED,
    PRODUCTS_PLAIN,
    PRODUCTS_MATRIX,
    PRODUCTS_WMMA11,
    PRODUCTS_WMMA12,
    PRODUCTS_MFMA16,
    PRODUCTS_MFMA32,
    PRODUCTS_DOT4, /* of four 8-bit floats */
    PRODUCTS_MFMA_TALL8,
    PRODUCTS_MFMA_TALL16,
    PRODUCTS_MMA /* mma.sync of 16 rows of W, 8 of A and 16 along K */
};

/*
 * Rows of W that lie a multiple of 512 bytes apart fall on the same few memory channels when they
 * are read at the same column. So their readers start at different steps along K, and go on at the
 * beginning of the row when they reach its end.
 */
enum plan_phase {
    PHASE_NONE = 0,      /* rows do not lie so, or a row has one step */
    PHASE_OF_GROUPS = 1, /* each workgroup starts one step after its neighbour */
    PHASE_OF_WAVES =
        2 /* each wave does, where A is so small that its lines stay in the first cache */
};

/* What a caller forces kernels to be like, whatever the model says (QUERN_FORCE). */
enum plan_switch { SWITCH_FREE = 0, SWITCH_ON, SWITCH_OFF };
struct plan_force {
    enum plan_switch predequant; /* weights go through LDS, scaled: STAGING_WEIGHTS */
};
/* Reads "predequant=on" or "predequant=off"; null or empty: nothing is forced. QUERN_E_ARGUMENT for
 * any other text. */
quern_status plan_force_parse(const char *text, struct plan_force *force);

/* How a plan's shape was chosen among the candidates. */
enum plan_choice {
    CHOICE_OF_MODEL = 0,
    CHOICE_MEASURED, /* by the tuning table */
    CHOICE_STALE,    /* by the model: the tuning table's shape is no candidate of this version */
    CHOICE_NEXT      /* as the next best: the scan (src/lint) refused the code of a better one */
};

/* The most kernels of a problem on a target, which together cover every M: eight, and one for fewer
 * rows than a tile of the matrix units (fewest_rows of its family). */
#define PLAN_KERNELS_MAX 9
/* The most rows of A that a slice holds: of any kernel, of mma_w4 and mma_int4, and of kernels on
 * the vector units. */
#define PLAN_M_MAX      256
#define PLAN_MMA_M_MAX  64
#define PLAN_SIMT_M_MAX 8
/* Most workgroups of a launch along y. Along x the work-items must be fewer than 2^32 (both:
 * hipModuleLaunchKernel in hipamd/src/hip_module.cpp of ROCm/clr). */
#define PLAN_GRID_Y_MAX 65535

/* The largest lda, in elements, that kernels of mma_tile can be launched with. */
#define PLAN_TILE_LDA_MAX (1 << 22)
/* Kernels of mma_tile serve from so many rows of A on at the latest, whatever the model says of the
 * next smaller kernel. */
#define PLAN_TILE_FROM 16384
/* Rows of A that a kernel of mma_tile is chosen for; and a further one with finer tiles, where the
 * first leaves compute units idle at fewer rows. */
#define PLAN_TILE_LARGE 2048
#define PLAN_TILE_FINE  512

/* What the model says of a plan on the target's retail part. Times are cycles of its clock. */
struct plan_estimate {
    uint32_t vgprs;
    uint32_t waves_per_simd; /* that registers and LDS allow */
    uint32_t step_slots;     /* instructions of a wave in one step along K */
    uint32_t setup_slots;    /* instructions of a wave outside of its steps */
    int64_t workgroups;      /* of one slice, on the part */
    int64_t walk;            /* groups of rows that the busiest workgroup walks over */
    int64_t slots;           /* instructions of all waves of all those workgroups */
    uint32_t busy_percent;   /* the average compute unit's work against the fullest one's */
    bool streams;            /* waves hide latency from each other, or its family does not ask it */
    bool fills; /* the grid keeps the part as busy as its family asks, or as rows of W allow */
    bool close; /* kernel_cycles are near the truth; those of other kernels are a little too high */
    int64_t bytes_in_flight; /* of weights that a compute unit waits for when all its waves do */
    int64_t kernel_cycles; /* of the fullest compute unit: instructions issued, loads waited for */
    int64_t memory_cycles; /* every operand once, at the part's bandwidth */
    int64_t vmem_cycles; /* for which the fullest compute unit's path to its nearest cache is busy;
                              0: not counted */
    int64_t busy_cycles; /* of all SIMDs together: instructions issued, matrix units at work */
};

/* A kernel: what all plans have, and the shape that its family gave it. */
struct plan {
    struct quern_problem problem; /* normalised */
    struct plan_force force;      /* what it was chosen under */
    const struct target *target;
    const struct family *family;
    char symbol[80]; /* kernel name: for people and profilers, not an identity */
    int m_lo, m_hi;  /* M that it serves, by several slices where those beat the next kernel. The
                       largest kernel serves M above m_hi, too. Kernels of mma_tile share the M from
                       m_lo on with smaller kernels: plan_slices says which takes what */
    int m_tile;      /* rows of a slice */
    int block_rows;  /* of op=moe, whose slices are of one block each: rows of a block; else 0 */
    int meant_for;   /* rows of A that the shape is chosen for; 0: those of a slice */
    int together;    /* slices of other weights that a launch is expected to have side by side, for
                        all of which the estimate's cycles are: blocks of op=moe; 0: one */
    enum plan_products products;
    unsigned wave_size;     /* 32 or 64 */
    int waves;              /* of a workgroup */
    int waves_asked;        /* waves of a SIMD that the compiler must leave registers for */
    uint32_t lds_bytes;     /* LDS of a workgroup, as much as its launch asks for */
    bool lds_at_launch;     /* a launch asks for it: the kernel's own is none */
    bool weights_once;      /* nothing reads the weights again soon: loads may bypass the caches */
    enum plan_phase phase;  /* where readers of W start along K */
    int rows_per_workgroup; /* of W, that a workgroup computes at once; 0 in op=dequant */
    int64_t row_groups;     /* workgroups that W is divided among, or groups of rows to walk over */
    int resident;       /* workgroups for each compute unit of the device at hand, which walk over
                           the groups of rows; 0: one workgroup for each group */
    int cluster;        /* workgroups that a launch puts side by side, as they read each other's LDS
                           and share rows of W, each with a part of K; 0 or 1: each is alone */
    int walk_max;       /* groups of rows at most that a workgroup can walk over; 0: any number */
    bool skewed;        /* the grid has an empty group of rows at its end */
    bool slices_first;  /* workgroup id x is the slice and y the group of rows, else the reverse */
    int64_t slices_max; /* the most slices of a launch */
    enum plan_choice choice;
    struct plan_estimate estimate;
    union { /* the member of `family` holds its shape; no other may be read */
        PLAN_SHAPES
    };
};

/* Room for what plan_shape writes. */
#define PLAN_SHAPE_MAX 128

/* plan_cover works out the launches for so many rows of A, which is beyond where the largest tiles
 * begin, in so many cells for each 64 rows (slices.c). Larger M are launched like the one among the
 * last PLAN_M_MAX that leaves the same rest of a slice. */
#define PLAN_COVER_ROWS  (PLAN_TILE_FROM + PLAN_M_MAX)
#define PLAN_CELLS_OF_64 8

/* All kernels of a problem on a target, by increasing m. */
struct plan_set {
    size_t count;
    int m_max; /* m_hi of the problem's largest kernel; INT_MAX: the set does not reach to that */
    struct plan plans[PLAN_KERNELS_MAX];
    bool tuned; /* a tuning table was asked for shapes; its hash follows */
    struct hash128 tuning;
    bool covered; /* plan_cover has worked out `cover` */
    uint8_t
        cover[PLAN_COVER_ROWS / 64 * PLAN_CELLS_OF_64]; /* of each cell: its kernel (slices.c) */
};

/*
 * Chooses the kernels for M = 1…m_max of a normalised problem. Which kernels there are depends
 * on the problem and target only, never on an m_max. QUERN_E_DECLINED with a sentence when the
 * target or this version cannot do the problem.
 */
quern_status plan_make(const struct quern_problem *problem, const struct target *target,
                       struct plan_set *set);

/* The same for M = 1…m_max only; the set may have some kernels for more, which are those that the
 * whole set has. A shape that a tuning table has for the problem is preferred to the model's, and
 * only kernels as `force` wants them are made. Either may be null. QUERN_E_DECLINED, too, when the
 * problem has no kernel as `force` wants it. */
struct tuning;
quern_status plan_make_up_to(const struct quern_problem *problem, const struct target *target,
                             const struct tuning *tuning, const struct plan_force *force,
                             int64_t m_max, struct plan_set *set);

/* The same for every M: the whole set. */
quern_status plan_make_tuned(const struct quern_problem *problem, const struct target *target,
                             const struct tuning *tuning, const struct plan_force *force,
                             struct plan_set *set);

/* Gives a plan of a set the shape that such words name (plan_shape). QUERN_E_ARGUMENT: that shape
 * is none of the plan's candidates. */
quern_status plan_reshape(struct plan *plan, const char *shape);

/* Gets one of the candidates that a kernel was chosen from, as a complete plan. */
typedef void (*plan_candidate_fn)(void *user, const struct plan *candidate);
/* Calls `fn` for the best candidates for one kernel of a set, `most` at most, best first: the first
 * is the model's choice. QUERN_E_MEMORY. */
quern_status plan_candidates(const struct plan *plan, size_t most, plan_candidate_fn fn,
                             void *user);

/* The n-th best of the candidates for a plan's kernel, the plan's own shape left out, n from 1.
 * QUERN_E_DECLINED: there are not so many, or n is more than PLAN_NEXT_MAX. */
#define PLAN_NEXT_MAX 7
quern_status plan_next(const struct plan *plan, unsigned n, struct plan *next);

/* Registers that a launch must give the waves of a workgroup together, counted for one lane of
 * each, as they share them out anew and would wait for ever if there were fewer; 0: any number. */
int64_t plan_registers(const struct plan *p);

/* Writes what tells a plan's shape from the other candidates for its problem and rows, as words in
 * the order of its family's table of fields: "products=1 waves=13 rows=4 split_k=1 chunk=32
 * ahead=0". */
void plan_shape(const struct plan *p, char text[PLAN_SHAPE_MAX]);

/* Whether a plan has the shape of these words, in any order. A word that is missing stands for 0;
 * a word that the plan's family does not have must be 0. Names that fields had in earlier versions
 * are understood. */
bool plan_has_shape(const struct plan *p, const char *words);

/* The rows of a block of op=moe that has m rows of A, by its kernels' plans; 0 of another op. All
 * ops of a target with as many experts, whose weights and A have the same types, have the same for
 * as many choices if matrix units take all of them or none.
 * 0, too, if the set has no kernel for blocks of so many rows. */
int plan_block_rows(const struct plan_set *set, int64_t m);

/* The plan that serves m rows, 1 ≤ m ≤ m_max. */
const struct plan *plan_for(const struct plan_set *set, int64_t m);

/* One launch of a kernel: `rows` rows from row `first` on, in slices of plan->m_tile of which the
 * last need not be full. */
struct plan_slice {
    const struct plan *plan;
    int64_t first, rows, slices;
};
/*
 * Covers m ≥ 1 rows with at most two launches, whose number it returns: slices of the largest
 * kernel, then the rest by a smaller one if that takes it in less; or, where it is modelled to take
 * less time, the same with a kernel below the largest tiles. op=dequant takes one launch of one row
 * whatever m is, op=moe_align one of all rows. Of a set that plan_cover has covered it evaluates no
 * model: that is for launches.
 */
size_t plan_slices(const struct plan_set *set, int64_t m, struct plan_slice slices[2]);
/* Works out once which launches the model prefers for every m, in a tenth of a millisecond, for a
 * set that launches are made with. To be called again when the set's kernels change. */
void plan_cover(struct plan_set *set);
/* Like plan_slices, but without kernels of mma_tile: for an lda above PLAN_TILE_LDA_MAX. Returns 0
 * when the set has no other kernels. */
size_t plan_slices_apart(const struct plan_set *set, int64_t m, struct plan_slice slices[2]);

/* The grid and block of a launch of `slices` slices on a device with so many compute units; 0: as
 * many as the target's part has. */
void plan_geometry(const struct plan *p, int64_t slices, unsigned compute_units, uint32_t grid[3],
                   uint32_t block[3]);
/* Workgroups of a cluster; 1: each is alone. */
int64_t plan_cluster(const struct plan *p);
/* Workgroups that so many compute units hold at once, of a plan with `resident`: whole clusters. */
int64_t plan_held(const struct plan *p, int64_t compute_units);
/* Of such a grid: the workgroups that share the rows of W, with the empty one of a skewed plan. */
uint32_t plan_workgroups(const struct plan *p, const uint32_t grid[3]);
/* Whether the workgroups of a launch share out themselves among the slices that are in use, which
 * they learn from rows_used of op=moe (struct family, shares_out). */
bool plan_shares_out(const struct plan *p);

/* Appends the reasons for the choice and the modelled cost, for people. */
void plan_explain(const struct plan *p, struct str *out);

/* Cycles of the fullest compute unit in a launch of so many slices, its workgroups dealt out to the
 * compute units like one grid. */
int64_t plan_cycles(const struct plan *p, int64_t slices);
/* Cycles that a launch of so many rows, or several launches together, are modelled to take: those
 * of plan_cycles, or of memory if those are more. */
int64_t plan_launch_cycles(const struct plan *p, int64_t rows);
int64_t plan_slices_cycles(const struct plan_slice *slices, size_t count);

/*
 * What people are told of a launch of so many rows: its cycles, and, unless `bound` is null, what
 * takes them. Beside plan_launch_cycles it reckons with the bandwidth that streams of loads get,
 * and with the path from a compute unit to its nearest cache, where the family counts that. Kernels
 * are not chosen by it: of several families only some count the path, and whoever does not would
 * seem the faster.
 */
enum plan_bound { PLAN_BOUND_ISSUE, PLAN_BOUND_CACHE_PATH, PLAN_BOUND_MEMORY };
int64_t plan_expected_cycles(const struct plan *p, int64_t rows, enum plan_bound *bound);
/* Of several launches together; `bound`: of the first. */
int64_t plan_expected_slices(const struct plan_slice *slices, size_t count, enum plan_bound *bound);
/* The same of cycles of the fullest compute unit, of memory at its peak, and of the path, unless
 * they are 0. */
int64_t plan_busy_cycles(const struct plan *p, int64_t kernel, int64_t memory, int64_t path,
                         enum plan_bound *bound);
const char *plan_bound_name(enum plan_bound bound);

/* Where a family multiplies: on vector units, on matrix units straight from registers, on matrix
 * units by tiles that are shared through LDS, or nowhere (op=dequant and op=moe_align, one kernel
 * for every M). */
enum plan_units { PLAN_UNITS_VECTOR, PLAN_UNITS_MATRIX, PLAN_UNITS_TILES, PLAN_UNITS_NONE };
enum plan_units plan_units(const struct plan *p);
/* Whether a kernel asks for the number of rows: all but those of op=dequant do. */
static inline bool plan_takes_rows(const struct plan *p)
{
    return p->problem.op != QUERN_OP_DEQUANT;
}

/* What m rows of A are modelled to take on such units. Returns false: the problem has no kernel for
 * them. */
struct plan_cost {
    double us;    /* microseconds, of plan_expected_cycles */
    double slots; /* issue slots per weight */
};
bool plan_cost_of(const struct plan_set *set, enum plan_units units, int m, struct plan_cost *cost);

/* Appends, for people, what each family is modelled to take for rows of A from 1 to 2048, and which
 * kernels of the set serve them. plan_explain_rows does so for m rows alone, in one line. */
void plan_explain_sweep(const struct plan_set *set, struct str *out);
void plan_explain_rows(const struct plan_set *set, int m, struct str *out);

/* LDS that a launch of the kernel asks for, beside what the kernel has of its own. */
static inline uint32_t plan_launch_lds(const struct plan *p)
{
    return p->lds_at_launch ? p->lds_bytes : 0;
}

/* Whether products are of f32: narrower operands are widened first. */
static inline bool plan_of_f32(const struct plan *p)
{
    return p->products == PRODUCTS_PACKED || p->products == PRODUCTS_PLAIN;
}

/* Whether the kernel's text itself pairs dot products for dual issue. It has to, because the
 * compiler pairs those of f16 on gfx11 alone. Where fp8 becomes f16 on gfx11 the text leaves it to
 * the compiler, which finds more pairs there. */
bool plan_dual_dot2(const struct plan *p);

#endif
