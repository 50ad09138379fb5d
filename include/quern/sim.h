/* SPDX-License-Identifier: MIT */
/*
 * The software GPU: runs AMD GPU code objects (gfx9, gfx11, gfx12 ELF files) on the CPU, checks
 * every access and counts every instruction. It runs code objects of any origin.
 *
 * Guest addresses are never host pointers. Memory that a kernel may touch is mapped first; each
 * access is checked against those mappings. No ABI promise before 1.0.
 */
#ifndef QUERN_SIM_H
#define QUERN_SIM_H

#include <quern/quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Disassembler -----------------------------------------------------------------------------
 */

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

/* ---- Counts -----------------------------------------------------------------------------------
 */

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

/* ---- The GPU ----------------------------------------------------------------------------------
 */

typedef struct quern_sim quern_sim;
typedef struct quern_sim_module quern_sim_module;

/* fast: bounds, alignment and unknown instructions. full: undefined bits and races as well. */
enum quern_sim_check { QUERN_CHECK_FAST = 1, QUERN_CHECK_FULL };

/* Vector instruction sets that the instruction bodies are compiled for. */
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
};

QUERN_API quern_status quern_sim_open(const struct quern_sim_options *options, quern_sim **sim);
QUERN_API void quern_sim_close(quern_sim *sim);

enum quern_sim_access {
    QUERN_SIM_READ = 1,
    QUERN_SIM_WRITE = 2, /* its bytes count as never written until a kernel writes them */
    QUERN_SIM_READ_WRITE = 3
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
 * disassembler. Errors: QUERN_E_OBJECT. An unknown instruction is not an error before it runs. */
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

/*
 * Runs a launch to its end on all threads. `counts` may be null; it is added to, so zero it first.
 * Any number of launches may run at once. Returns QUERN_E_FAULT with pc, instruction, wave, lane
 * and buffer in the message of quern_last_error() when the kernel does something wrong.
 */
QUERN_API quern_status quern_sim_run(quern_sim_module *module,
                                     const struct quern_sim_launch *launch,
                                     struct quern_sim_counts *counts);

/* The software GPU behind a context whose device is QUERN_DEVICE_SIM; null for other devices. */
QUERN_API quern_sim *quern_ctx_sim(quern_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
