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
    PRODUCTS_MFMA_TALL16
};

/*
 * Rows of W that lie a multiple of 512 bytes apart fall on the same few memory channels when they
 * are read at the same column. So their readers start at different steps along K and come round.
 */
enum plan_phase {
    PHASE_NONE = 0,      /* rows are not so, or have one step */
    PHASE_OF_GROUPS = 1, /* each workgroup starts one step after its neighbour */
    PHASE_OF_WAVES =
        2 /* each wave does; A is small enough that its lines stay in the first cache */
};

/* What kernels must be like, whatever the model says. */
enum plan_switch { SWITCH_FREE = 0, SWITCH_ON, SWITCH_OFF };
struct plan_force {
    enum plan_switch predequant; /* STAGING_WEIGHTS */
};
/* "predequant=on" or "predequant=off"; null or empty: nothing is forced. QUERN_E_ARGUMENT. */
quern_status plan_force_parse(const char *text, struct plan_force *force);

/* Who chose among the candidates. */
enum plan_choice {
    CHOICE_OF_MODEL = 0,
    CHOICE_MEASURED, /* the tuning table */
    CHOICE_STALE,    /* the model: what the tuning table names is no candidate of this version */
    CHOICE_NEXT      /* the scan of its code refused what was chosen */
};

/* Kernels of a problem and target; they cover every M: eight, and one for few rows on matrix units
 * (fewest_rows of its family) where that is one more. */
#define PLAN_KERNELS_MAX 9
/* Rows of A that one slice of any kernel may hold, and of one on the vector units. */
#define PLAN_M_MAX      256
#define PLAN_MMA_M_MAX  64 /* and of mma_w4 */
#define PLAN_SIMT_M_MAX 8
/* Most workgroups of a launch along y. Along x the work-items must be fewer than 2^32 (both:
 * hipModuleLaunchKernel in hipamd/src/hip_module.cpp of ROCm/clr). */
#define PLAN_GRID_Y_MAX 65535

/* Elements between rows of A that kernels of mma_tile can be launched with. */
#define PLAN_TILE_LDA_MAX (1 << 22)
/* The most rows that slices of the kernel below keep from them. */
#define PLAN_TILE_FROM 16384
/* Rows of A that they are chosen for, and finer ones where those do not fill a part. */
#define PLAN_TILE_LARGE 2048
#define PLAN_TILE_FINE  512

/* What the model says of a plan on the target's retail part. Times are cycles of its clock. */
struct plan_estimate {
    uint32_t vgprs;
    uint32_t waves_per_simd; /* that registers and LDS allow */
    uint32_t step_slots;     /* instructions of a wave in one step along K */
    uint32_t setup_slots;    /* instructions of a wave outside of its steps */
    int64_t workgroups;      /* of one slice, on the part */
    int64_t walk;            /* groups of rows that the busiest of them has, one after another */
    int64_t slots;           /* instructions of all their waves */
    uint32_t busy_percent;   /* the average compute unit's work against the fullest one's */
    bool streams;            /* waves hide latency from each other, where that is asked for */
    bool fills; /* the grid is as fine as is asked for, or as rows of W can be dealt out */
    bool close; /* kernel_cycles are near the truth, where those of others are a little too high */
    int64_t bytes_in_flight; /* of weights that a compute unit waits for when all its waves do */
    int64_t kernel_cycles; /* of the fullest compute unit: instructions issued, loads waited for */
    int64_t memory_cycles; /* every operand once, at the part's bandwidth */
    int64_t busy_cycles;   /* of all SIMDs together: instructions issued, matrix units at work */
};

/* A kernel: what all plans have, and the shape that its family gave it. */
struct plan {
    struct quern_problem problem; /* normalised */
    struct plan_force force;      /* what it was chosen under */
    const struct target *target;
    const struct family *family;
    char symbol[64]; /* kernel name: for people and profilers, not an identity */
    int m_lo, m_hi;  /* rows of A that it serves, in slices where those beat the next kernel; the
                       largest has rows of more than m_hi, too, and of tiles in LDS shares those
                       from m_lo on with kernels below, as plan_slices says */
    int m_tile;      /* rows of a slice */
    int meant_for;   /* rows of A that the shape is chosen for; 0: those of a slice */
    enum plan_products products;
    unsigned wave_size;     /* 32 or 64 */
    int waves;              /* of a workgroup */
    int waves_asked;        /* of a SIMD, that the compiler must leave registers for */
    uint32_t lds_bytes;     /* static LDS of the kernel */
    bool weights_once;      /* nothing reads the weights again soon: they may pass by the caches */
    enum plan_phase phase;  /* where readers of W start along K */
    int rows_per_workgroup; /* of W, that a workgroup computes at once; 0 in op=dequant */
    int64_t row_groups;     /* workgroups that W is divided among, or groups of rows to walk over */
    int resident;       /* workgroups for each compute unit of the device at hand, which walk over
                           the groups of rows; 0: one workgroup for each group */
    bool skewed;        /* the grid has an empty group of rows at its end */
    bool slices_first;  /* workgroup id x is the slice and y the group of rows, else the reverse */
    int64_t slices_max; /* that a launch may have */
    enum plan_choice choice;
    struct plan_estimate estimate;
    union { /* of `family`, and no other */
        PLAN_SHAPES
    };
};

/* Room for what plan_shape writes. */
#define PLAN_SHAPE_MAX 128

/* Rows of A for which plan_cover works out the launches, beyond where the largest tiles begin; and
 * the cells that each 64 of them fall into (slices.c). Further rows are dealt out as those of the
 * last PLAN_M_MAX that leave the same rest. */
#define PLAN_COVER_ROWS  (PLAN_TILE_FROM + PLAN_M_MAX)
#define PLAN_CELLS_OF_64 8

/* All kernels of a problem on a target, by increasing m. */
struct plan_set {
    size_t count;
    int m_max; /* m_hi of the largest kernel that the problem has; INT_MAX: it is not here */
    struct plan plans[PLAN_KERNELS_MAX];
    bool tuned; /* a tuning table was asked: that of this hash */
    struct hash128 tuning;
    bool covered; /* plan_cover has worked out what follows */
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

/* The same with the kernels for 1…m_max, and perhaps some for more: those that the whole set has.
 * Shapes that a tuning table has for the problem come first; what is forced must be. Either may be
 * null. QUERN_E_DECLINED, too, when the problem has no kernel that is like that. */
struct tuning;
quern_status plan_make_up_to(const struct quern_problem *problem, const struct target *target,
                             const struct tuning *tuning, const struct plan_force *force,
                             int64_t m_max, struct plan_set *set);

/* The same, the whole set. */
quern_status plan_make_tuned(const struct quern_problem *problem, const struct target *target,
                             const struct tuning *tuning, const struct plan_force *force,
                             struct plan_set *set);

/* Gives a plan of a set the shape of these words (plan_shape). QUERN_E_ARGUMENT: it is none of its
 * candidates. */
quern_status plan_reshape(struct plan *plan, const char *shape);

/* One of the shapes that a plan was chosen from: the plan itself, complete. */
typedef void (*plan_candidate_fn)(void *user, const struct plan *candidate);
/* Calls `fn` for the best `most` candidates for one kernel of a set, best first, the model's choice
 * at the head. QUERN_E_MEMORY. */
quern_status plan_candidates(const struct plan *plan, size_t most, plan_candidate_fn fn,
                             void *user);

/* The n-th of the other candidates for a plan's kernel, in their order, n from 1. QUERN_E_DECLINED:
 * there are not so many, or n is more than PLAN_NEXT_MAX. */
#define PLAN_NEXT_MAX 7
quern_status plan_next(const struct plan *plan, unsigned n, struct plan *next);

/* What a shape is among the candidates for its problem and rows, as words in a fixed order, those
 * of its family's table of fields: "products=1 waves=13 rows=4 split_k=1 chunk=32 ahead=0". */
void plan_shape(const struct plan *p, char text[PLAN_SHAPE_MAX]);

/* Whether a plan has the shape of these words, in any order. A word that is missing counts as 0,
 * and so do words of other families; names that fields had in earlier versions are understood. */
bool plan_has_shape(const struct plan *p, const char *words);

/* The plan that serves m rows, 1 ≤ m ≤ m_max. */
const struct plan *plan_for(const struct plan_set *set, int64_t m);

/* One launch of a kernel: `rows` rows from row `first` on, in slices of plan->m_tile of which the
 * last need not be full. */
struct plan_slice {
    const struct plan *plan;
    int64_t first, rows, slices;
};
/*
 * Covers m ≥ 1 rows with at most two launches: slices of the largest kernel, then the rest if that
 * is another's; or slices of a kernel below the largest tiles, then the rest by another, where
 * those are modelled to take less. op=dequant takes one launch whatever m is. For launches: of a
 * covered set no model is evaluated.
 */
size_t plan_slices(const struct plan_set *set, int64_t m, struct plan_slice slices[2]);
/* Works out what the model says of all m, in a tenth of a millisecond, for a set that launches are
 * made with. To be called again when its kernels change. */
void plan_cover(struct plan_set *set);
/* The same as plan_slices without kernels of mma_tile, for rows of A further apart than
 * PLAN_TILE_LDA_MAX; 0 when the set has no others. */
size_t plan_slices_apart(const struct plan_set *set, int64_t m, struct plan_slice slices[2]);

/* The launch geometry of a slice launch on a device of that many compute units; 0: as many as the
 * target's part has. */
void plan_geometry(const struct plan *p, int64_t slices, unsigned compute_units, uint32_t grid[3],
                   uint32_t block[3]);
/* Of such a grid: workgroups that share the rows of W, an empty one included. */
uint32_t plan_workgroups(const struct plan *p, const uint32_t grid[3]);

/* Appends the reasons for the choice and the modelled cost, for people. */
void plan_explain(const struct plan *p, struct str *out);

/* Cycles of the fullest compute unit in a launch of so many slices, its workgroups dealt out to the
 * compute units like one grid. */
int64_t plan_cycles(const struct plan *p, int64_t slices);
/* Cycles that a launch, or all of some, is modelled to take: those, or memory's if that is more. */
int64_t plan_launch_cycles(const struct plan *p, int64_t rows);
int64_t plan_slices_cycles(const struct plan_slice *slices, size_t count);

/* Where a family multiplies: on vector units, on matrix units straight from registers, on matrix
 * units by tiles that are shared through LDS, or nowhere (op=dequant, one kernel for every M). */
enum plan_units { PLAN_UNITS_VECTOR, PLAN_UNITS_MATRIX, PLAN_UNITS_TILES, PLAN_UNITS_NONE };
enum plan_units plan_units(const struct plan *p);

/* What m rows of A are modelled to take on such units. False: the problem has no such kernel. */
struct plan_cost {
    double us;    /* the longer of instructions and memory */
    double slots; /* instructions per weight, times lanes */
};
bool plan_cost_of(const struct plan_set *set, enum plan_units units, int m, struct plan_cost *cost);

/* Appends what each family is modelled to take for rows of A from 1 to 2048, and which kernels of
 * the set serve them, for people; or for m rows alone, in a line. */
void plan_explain_sweep(const struct plan_set *set, struct str *out);
void plan_explain_rows(const struct plan_set *set, int m, struct str *out);

/* Whether products are of f32, which all that is narrower becomes first. */
static inline bool plan_of_f32(const struct plan *p)
{
    return p->products == PRODUCTS_PACKED || p->products == PRODUCTS_PLAIN;
}

/* Whether the kernel's text pairs dot products for dual issue. The compiler makes such pairs of f16
 * on gfx11 alone, and finds more of them where fp8 becomes f16. */
bool plan_dual_dot2(const struct plan *p);

#endif
