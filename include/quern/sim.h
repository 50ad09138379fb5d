/* SPDX-License-Identifier: MIT */
/*
 * The software GPU: runs AMD GPU code objects (gfx9, gfx11, gfx12 ELF files) on the CPU, checks
 * every access and counts every instruction. It runs code objects of any origin.
 *
 * Guest addresses are never host pointers. Memory that a kernel may touch is mapped first; each
 * access is checked against those mappings. No ABI promise before 1.0; structs with `size` are
 * dealt with as tool.h says.
 */
#ifndef QUERN_SIM_H
#define QUERN_SIM_H

#include <quern/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct quern_ctx; /* quern.h */

/* ---- Disassembler ---------------------------------------------------------------------------- */

/* One instruction: its offset from the start of the text given, its size in bytes, LLVM's text. */
typedef void (*quern_disassembly_fn)(void *user, uint64_t offset, unsigned size, const char *text);

/*
 * Disassembles `size` bytes of machine code for `processor` (a bare gfx name) and calls `emit` for
 * each instruction in order. Bytes that are no instruction are reported with the text "". May
 * block.
 */
struct quern_disassembler {
    quern_status (*function)(void *user, const char *processor, const void *code, size_t size,
                             quern_disassembly_fn emit, void *emit_user);
    void *user;
};

/* ---- Counts ---------------------------------------------------------------------------------- */

enum quern_sim_class {
    QUERN_CLASS_VALU,   /* vector ALU, a VOPD pair as one */
    QUERN_CLASS_PACKED, /* packed and dot vector ALU (v_pk_*, v_dot*) */
    QUERN_CLASS_TRANS,
    QUERN_CLASS_SALU,
    QUERN_CLASS_SMEM,
    QUERN_CLASS_VMEM,
    QUERN_CLASS_LDS,
    QUERN_CLASS_MATRIX,
    QUERN_CLASS_BRANCH,
    QUERN_CLASS_WAIT, /* s_waitcnt*, s_nop, s_delay_alu, s_clause: not issue slots */
    QUERN_CLASS_COUNT
};

/* The name of a class as it stands in counts JSON: "valu", "packed", … */
QUERN_API const char *quern_sim_class_name(enum quern_sim_class c);

struct quern_sim_counts {
    size_t size;
    unsigned wave_size;
    uint64_t instructions; /* every wave instruction issued, waits included */
    uint64_t classes[QUERN_CLASS_COUNT];
    uint64_t lds_accesses; /* LDS instructions that access memory */
    uint64_t lds_passes;   /* passes they take with bank conflicts */
    uint64_t lines128;     /* distinct 128-byte lines, summed over global instructions */
    uint64_t bytes_read;   /* by lanes from global memory, scalar loads included */
    uint64_t bytes_written;
    uint64_t waves;
    uint64_t workgroups;
};
#define QUERN_SIM_COUNTS_SIZE_MIN QUERN_SIZE_TO(struct quern_sim_counts, workgroups)

/* ---- The GPU --------------------------------------------------------------------------------- */

typedef struct quern_sim quern_sim;
typedef struct quern_sim_module quern_sim_module;

/* fast: bounds, alignment and unknown instructions. full: undefined bits and races as well. */
enum quern_sim_check { QUERN_CHECK_FAST = 1, QUERN_CHECK_FULL };

/* How sums of products of floats are rounded, in dots and matrices. fast: once after each product.
 * silicon: as the target's adders do it, as far as that is published (docs/sim.md); slower. */
enum quern_sim_arithmetic { QUERN_ARITHMETIC_FAST = 1, QUERN_ARITHMETIC_SILICON };

/* Vector instruction sets that the instruction bodies are compiled for. Each is a file of its own
 * beside the worker, libexec/quern/quern-sim-x86_64_v3.so and so on, loaded by quern_sim_open. */
enum quern_sim_isa {
    QUERN_ISA_AUTO = 1,
    QUERN_ISA_X86_64,
    QUERN_ISA_X86_64_V3,
    QUERN_ISA_X86_64_V4
};

struct quern_sim_options {
    size_t size;
    const char *target;         /* e.g. "gfx1151"; required */
    enum quern_sim_check check; /* default fast */
    enum quern_sim_isa isa;     /* default auto: the best that the CPU has */
    int threads;                /* default: one per CPU */
    uint64_t max_instructions;  /* of one wave before it counts as endless; default 1e9 */
    /* Workgroups start in an order drawn from this number, the same for the same number and grid;
     * default 0: in the order of the grid. A result that depends on it is a kernel's mistake. */
    uint64_t shuffle;
    struct quern_disassembler disassembler; /* required; copied, its user must outlive the sim */
    const char *worker_path; /* as in quern_options: bodies are looked for beside it first */
    enum quern_sim_arithmetic arithmetic; /* default: silicon where `check` is full, else fast */
};
#define QUERN_SIM_OPTIONS_SIZE_MIN QUERN_SIZE_TO(struct quern_sim_options, disassembler)

/* QUERN_E_DEVICE: a target that is not simulated; the bodies are not there or of another build. */
QUERN_API quern_status quern_sim_open(const struct quern_sim_options *options, quern_sim **sim);
QUERN_API void quern_sim_close(quern_sim *sim);

enum quern_sim_access {
    QUERN_SIM_READ = QUERN_READ,
    QUERN_SIM_WRITE = QUERN_WRITE,
    QUERN_SIM_READ_WRITE = QUERN_READ_WRITE
};

/*
 * Makes host memory visible to kernels and gives its guest address, aligned to 256 bytes. The bytes
 * stay the caller's and must outlive the mapping. `name` (copied; may be null) appears in findings.
 * Thread-safe; no launch may be in flight that uses the mapping when it is unmapped.
 */
QUERN_API quern_status quern_sim_map(quern_sim *sim, void *host, size_t bytes,
                                     enum quern_sim_access access, const char *name,
                                     uint64_t *address);
/* Ends the mapping that starts at `address`. */
QUERN_API quern_status quern_sim_unmap(quern_sim *sim, uint64_t address);

/* Loads a code object (copied), checks it and decodes all its kernels. May block in the
 * disassembler. Errors: QUERN_E_OBJECT; QUERN_E_TOOLCHAIN, if the disassembler is a context's and
 * the compiler's libraries are not at hand. An unknown instruction is no error before it runs. */
QUERN_API quern_status quern_sim_load(quern_sim *sim, const void *object, size_t size,
                                      quern_sim_module **module);
QUERN_API void quern_sim_unload(quern_sim_module *module);

struct quern_sim_launch {
    size_t size;
    const char *kernel;  /* symbol */
    uint32_t grid[3];    /* workgroups */
    uint32_t block[3];   /* work-items of a workgroup */
    uint32_t lds_bytes;  /* dynamic LDS, beyond what the kernel declares */
    const void *kernarg; /* explicit arguments; the hidden ones are filled in from metadata */
    size_t kernarg_bytes;
};
#define QUERN_SIM_LAUNCH_SIZE_MIN QUERN_SIZE_TO(struct quern_sim_launch, kernarg_bytes)

/*
 * Runs a launch to its end on all threads. `counts` may be null; it is added to, so zero it first.
 * Any number of launches may run at once. Returns QUERN_E_FAULT with pc, instruction, wave, lane
 * and buffer in the message of quern_last_error() when the kernel does something wrong.
 */
QUERN_API quern_status quern_sim_run(quern_sim_module *module,
                                     const struct quern_sim_launch *launch,
                                     struct quern_sim_counts *counts);

/* ---- Profiles ---------------------------------------------------------------------------------
 *
 * quern_sim_profile_run runs a launch as quern_sim_run does, and counts for each instruction and
 * for each buffer. That takes longer, and works with QUERN_CHECK_FAST only.
 */

/* An instruction of the kernel (a VOPD pair is one), and the sum of what all waves of the launch
 * did when they executed it. */
struct quern_sim_insn {
    uint64_t offset;     /* in the code of the object */
    const char *text;    /* LLVM's; lives as long as the module */
    unsigned counted_as; /* enum quern_sim_class; QUERN_CLASS_COUNT: text that is not understood */
    unsigned cycles;     /* of a matrix instruction in its unit; 0 for others */
    uint64_t executed;   /* wave instructions */
    uint64_t lds_passes, lds_least;     /* as counted, and if there were no bank conflict */
    uint64_t lines128, lines128_least;  /* as counted, and if its bytes were contiguous */
    uint64_t bytes_read, bytes_written; /* of global memory, by lanes */
    char buffer[32]; /* the mapping that it accessed; "": none; "(several)": more than one */
};

/* What the launch did with one mapping. */
struct quern_sim_traffic {
    char name[32];
    uint64_t size;                      /* of the mapping */
    uint64_t bytes_read, bytes_written; /* by lanes; scalar loads count once */
    /* Bytes that L2 has to serve if no nearer cache hits: 128 for each distinct line of a vector
     * instruction, and the bytes of scalar loads. */
    uint64_t l2_read, l2_written;
    uint64_t lines128, lines128_least;
    /* Distinct lines that vector instructions accessed, counted for each wave and summed, and
     * counted for each workgroup and summed. The first is what L2 has to serve if a wave never
     * loads a line twice, the second if the cache of its compute unit keeps a workgroup's lines. */
    uint64_t by_wave, by_workgroup;
};

/* Which workgroups are run. A launch of kinds runs one workgroup of each kind, and scales. */
enum quern_sim_extent { QUERN_EXTENT_AUTO = 1, QUERN_EXTENT_ALL, QUERN_EXTENT_KINDS };

/* A box of grid positions whose workgroups all have the same counts as the one at `first`. */
struct quern_sim_kind {
    uint32_t first[3], last[3];
    uint64_t instructions; /* of one workgroup */
};
#define QUERN_KINDS_MAX 64

struct quern_sim_profile {
    size_t size;
    const char *target; /* bare name */
    struct quern_sim_counts counts;
    uint64_t scalar_bytes; /* the part of counts.bytes_read that scalar loads read */
    uint64_t lds_least, lines128_least;
    uint64_t lds_exchanges; /* passes of instructions that use LDS to swap lanes (ds_bpermute …) */

    uint64_t simulated;  /* workgroups that were run to get the counts */
    int by_kinds;        /* the counts are those of one workgroup of each kind, scaled */
    uint64_t checked;    /* further workgroups that were run, and found to count like their kind */
    unsigned kind_count; /* 0 unless by_kinds */
    struct quern_sim_kind kinds[QUERN_KINDS_MAX];

    /* Of the waves that load from global memory by vector instructions: their number, and sums over
     * them of the issue cycles before the first such load, and of the most bytes that a wave had
     * asked for and not yet waited for (in whole lines, as if they were contiguous). */
    uint64_t loading_waves, prologue_cycles, bytes_in_flight;
    uint64_t issue_cycles; /* see struct quern_sim_model */

    /* Of the waves that execute matrix instructions: their number, and sums over them of the issue
     * cycles before the first and after the last matrix instruction, of the barriers after which a
     * wave waits for LDS before its next matrix instruction, and of the cycles that matrix
     * instructions lose because operands are in one register bank (gfx11). */
    uint64_t matrix_waves, edge_cycles, bare_barriers, conflict_cycles;

    struct {
        unsigned vgprs, agprs, sgprs, lds_bytes, scratch_bytes; /* lds_bytes with dynamic LDS */
        unsigned waves_per_workgroup, waves_per_simd, workgroups_per_cu;
    } resources;

    size_t insn_count;
    struct quern_sim_insn *insns; /* by offset */
    size_t buffer_count;
    struct quern_sim_traffic *buffers;
};
#define QUERN_SIM_PROFILE_SIZE_MIN QUERN_SIZE_TO(struct quern_sim_profile, buffers)

/*
 * Runs a launch and fills *profile; release it with quern_sim_profile_free. AUTO runs the whole
 * launch if it takes fewer than about `budget` wave instructions (0: 200 million), else kinds.
 *
 * Kinds are found by position, not proven. Workgroups at the ends and in the middle of each axis
 * are run and compared, the place of each difference is bisected, and positions between equal ones
 * are taken for equal. Then up to eight more workgroups of every box found must count like its
 * first. If one does not, or an axis has more than four kinds, as when alignment varies from row to
 * row, the whole launch is run after all. LDS conflicts, which may depend on data, are not
 * compared. A kernel whose workgroups wait for each other cannot be run by kinds.
 */
QUERN_API quern_status quern_sim_profile_run(quern_sim_module *module,
                                             const struct quern_sim_launch *launch,
                                             enum quern_sim_extent extent, uint64_t budget,
                                             struct quern_sim_profile *profile);
QUERN_API void quern_sim_profile_free(struct quern_sim_profile *profile); /* an empty one is fine */

/* ---- The model --------------------------------------------------------------------------------
 *
 * What the counts should cost on the retail part of the target. A model: nothing of it was measured
 * on a GPU. docs/profile.md has each formula and its source.
 */

enum quern_sim_port {
    QUERN_PORT_ISSUE,  /* of a SIMD: one instruction after the other; a WMMA holds it */
    QUERN_PORT_VALU,   /* of a SIMD: vector ALU, with WMMA on RDNA, transcendental ones on gfx9 */
    QUERN_PORT_TRANS,  /* of a SIMD, on RDNA */
    QUERN_PORT_MATRIX, /* of a SIMD: MFMA; WMMA is shown here too, though it is the vector ALU */
    QUERN_PORT_SALU,   /* of a SIMD on RDNA, of a compute unit on gfx9 */
    QUERN_PORT_LDS,    /* of a compute unit */
    QUERN_PORT_VMEM, /* of a compute unit: one 128-byte line a cycle; on CDNA also the addresses of
                          16 lanes and 64 bytes a cycle, the longest of the three */
    QUERN_PORT_COUNT
};
QUERN_API const char *quern_sim_port_name(enum quern_sim_port port);

enum quern_sim_bound {
    QUERN_BOUND_ISSUE = 1,
    QUERN_BOUND_LDS,
    QUERN_BOUND_MATRIX,
    QUERN_BOUND_MEMORY,
    QUERN_BOUND_VMEM /* of CDNA alone: the path of other targets is not known well enough */
};
QUERN_API const char *quern_sim_bound_name(enum quern_sim_bound bound);

struct quern_sim_model {
    size_t size;
    const char *part;    /* the retail part */
    unsigned cus, simds; /* simds of a compute unit */
    double clock_ghz, bandwidth_gbs;

    unsigned cus_busy, fill_percent; /* the average compute unit's work against the fullest one's */
    uint64_t fullest;                /* workgroups of the fullest compute unit */
    uint64_t rounds;                 /* that they take */
    unsigned waves_per_simd;         /* at once, of the real grid, in the fullest compute unit */

    double port_cycles[QUERN_PORT_COUNT]; /* busy, in the fullest compute unit; of one unit */
    double memory_bytes; /* every byte that is read and every byte that is written, once */
    double in_flight, in_flight_needed; /* bytes that a compute unit has asked for and not got, and
                                           those that full bandwidth needs at a latency of 700 ns */
    double prologue_cycles;             /* before the first loads, while memory has nothing to do */

    double issue_us, lds_us, matrix_us;
    double memory_us; /* at the part's peak bandwidth: what an ideal launch would take */
    double prologue_us;
    double total_us; /* the largest of issue_us, lds_us, matrix_us, vmem_us and sustained_us, and
                        prologue_us */
    enum quern_sim_bound bound;
    enum quern_sim_bound roof; /* what would bind an ideal launch: memory or matrix units */
    double roof_percent;       /* 100 times the ideal launch's time over total_us */
    /* 0 for launches without matrix instructions. start_us, barrier_us and edge_us are times that
     * other waves may hide: waiting for the first loads, waiting at barriers, and what is issued
     * before the first and after the last matrix instruction. product_us is the time if none of it
     * is hidden: they and the largest of the first four times above. In matrix_percent of it the
     * average matrix unit is busy. */
    double start_us, barrier_us, edge_us, product_us, matrix_percent;
    double operations;        /* lane operations: issue cycles times lanes of a SIMD */
    double operations_per_us; /* that the part can do */
    double sustained_us; /* memory_us at the bandwidth that streams of loads were measured to get */
    double vmem_us;      /* of the port vmem where that is a bound, else 0 */
    /* What nothing hides of a launch that has the GPU to itself: its arguments come from memory,
     * then what it makes its tables of, then its first operands, one after the other. Not in
     * total_us, which is what is comparable between kernels of one kind. */
    double chain_us;
};
#define QUERN_SIM_MODEL_SIZE_MIN QUERN_SIZE_TO(struct quern_sim_model, total_us)
QUERN_API quern_status quern_sim_model_make(const struct quern_sim_profile *profile,
                                            struct quern_sim_model *model);

/* The software GPU behind a context whose device is QUERN_DEVICE_SIM; null for other devices. */
QUERN_API quern_sim *quern_ctx_sim(struct quern_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
