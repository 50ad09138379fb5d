/* SPDX-License-Identifier: MIT */
/*
 * What an instruction body sees: a decoded instruction, the wave that runs it and the workgroup
 * that the wave belongs to.
 *
 * A body is a function that does one instruction for all lanes of a wave and returns the
 * instruction to go on with, or null when the wave stops (end, barrier, fault). Bodies live in the
 * files of exec/, which are compiled once for each vector instruction set of the host, each time
 * into a shared library of their own (bodies.h).
 */
#ifndef QUERN_SIM_WAVE_H
#define QUERN_SIM_WAVE_H

#include "sim/memory.h"
#include "target/target.h"

#include <quern/sim.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For each bit of `bits` that is set, from the lowest: its number is n. */
#define EACH_BIT(n, bits)                                                                          \
    for (uint64_t left_ = (bits), n; left_ && (n = (uint64_t)__builtin_ctzll(left_), true);        \
         left_ &= left_ - 1)

struct insn;
struct wave;
typedef const struct insn *sim_body(struct wave *w, const struct insn *i);

/* ---- Decoded instructions -------------------------------------------------------------------- */

enum operand_kind {
    OPERAND_NONE, /* absent, "off" or "null" */
    OPERAND_VGPR,
    OPERAND_CONST,
    OPERAND_SGPR,
};

/* Bits of operand.mods. For packed operands NEG and NEG_HIGH act on the low and the high half. */
enum operand_mods {
    MOD_NEG = 1,
    MOD_ABS = 2,
    MOD_SEXT = 4,
    MOD_NEG_HIGH = 8,
    MOD_DST = 16 /* the operand is written, not read */
};

/* operand.select: which part of a register is the operand. PAIR + low half + 2 * high half gives
 * the two halves of a packed operand their sources. */
enum operand_select {
    SELECT_ALL,
    SELECT_BYTE_0,
    SELECT_BYTE_1,
    SELECT_BYTE_2,
    SELECT_BYTE_3,
    SELECT_WORD_0,
    SELECT_WORD_1,
    SELECT_PAIR,
    SELECT_PAIR_NATURAL = SELECT_PAIR + 2 /* low from low, high from high */
};

struct operand {
    uint8_t kind;   /* enum operand_kind */
    uint8_t type;   /* the letter of the row's operand list */
    uint8_t words;  /* 32-bit registers */
    uint8_t mods;   /* enum operand_mods */
    uint8_t select; /* enum operand_select */
    bool number;    /* CONST: written as a number with a point, not as bits */
    uint16_t reg;   /* number of the (first) scalar or vector register */
    union {
        uint64_t offset;      /* VGPR: bytes from wave.v */
        uint64_t value;       /* CONST of a scalar instruction */
        const uint32_t *rows; /* CONST of a vector instruction: `words` rows of equal lanes */
    };
};

enum insn_flags {
    /* an operand needs more than a pointer to its lanes, or the result more than a store */
    INSN_COMPLEX = 1 << 0,
    /* every source is a vector register or a constant, and the instruction is not complex */
    INSN_SIMPLE = 1 << 1,
    INSN_CLAMP = 1 << 2,
    INSN_DST_HIGH = 1 << 3, /* a 16-bit result goes to the high half */
    INSN_SECOND = 1 << 4,   /* second or third part of a VOPD pair: not counted */
    INSN_RETURNS = 1 << 5,  /* an atomic that returns the old value */
    INSN_BOUND_CTRL = 1 << 6,
    INSN_FETCH_INACTIVE = 1 << 7,
    INSN_DPP = 1 << 8,
    INSN_SDWA = 1 << 9,
    INSN_BRANCH = 1 << 10,     /* `offset` is where in the code `target` is */
    INSN_ADDRESS_64 = 1 << 12, /* no scalar base: the vector address has 64 bits */
    INSN_IDXEN = 1 << 13,
    INSN_OFFEN = 1 << 14,
    INSN_WRITES_EXEC = 1 << 15,
};

/* SDWA: what happens to the rest of the destination register. */
enum insn_unused { UNUSED_PAD, UNUSED_SEXT, UNUSED_PRESERVE };

/*
 * op[0] is the destination (of a store: the data), op[1]…op[3] are sources, op[4] is a further
 * destination or source, op[5] a last source of matrix instructions. Two cache lines.
 */
struct insn {
    sim_body *body;
    struct operand op[6];
    union {
        const struct insn *target; /* of a branch */
        const uint8_t *lanes;      /* DPP: source lane of each lane, or LANE_NONE */
        uint64_t pc;               /* s_getpc and its like: address of the next instruction */
    };
    int32_t offset; /* of memory instructions; the immediate of others */
    uint16_t flags;
    uint8_t write_rows; /* DPP: bank_mask | row_mask << 4 */
    uint8_t omod;       /* result times 1, 2, 4 or half of it: 0…3 */
    uint8_t dst_select; /* SDWA: enum operand_select */
    uint8_t dst_unused; /* SDWA: enum insn_unused */
    bool keeps_half;    /* a 16-bit result leaves the other half of the register alone */
    uint8_t extra[4];   /* offset1 of LDS, cbsz/abid/blgp of MFMA, op_sel or a truth table */
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct insn) == 128, "an instruction is two cache lines");

#define LANE_NONE 0xff

/* ---- Rows of the instruction tables ---------------------------------------------------------- */

/* How undefined bits of the sources reach the result (full check). */
enum undef_kind {
    UNDEF_NONE,    /* the result is always defined */
    UNDEF_ANY,     /* any undefined source bit makes the whole result undefined */
    UNDEF_BITS,    /* bit by bit (xor, mov) */
    UNDEF_AND,     /* bit by bit, and a defined 0 hides */
    UNDEF_OR,      /* bit by bit, and a defined 1 hides */
    UNDEF_AND_NOT, /* 1 AND NOT 2, of scalars */
    UNDEF_AND_OR,  /* (1 AND 2) OR 3 */
    UNDEF_CARRY,   /* from the lowest undefined bit upward (add, sub, mul) */
    UNDEF_HALVES,  /* low and high half apart, each as UNDEF_ANY */
    UNDEF_WORDS,   /* the same of 32-bit words */
    UNDEF_SELECT,  /* source 3, a lane mask, chooses between 1 and 2 */
    UNDEF_BITSEL,  /* each bit of source 1 chooses between 2 and 3 */
    UNDEF_MOVE_1,  /* the body moves bits of source 1 … */
    UNDEF_MOVE_2,
    UNDEF_MOVE_12, /* … of sources 1 and 2, and so on; the other sources say where to */
    UNDEF_MOVE_13,
    UNDEF_PERM,         /* as MOVE_12, but selectors may also make constants */
    UNDEF_INDEX_SOURCE, /* a move whose source is M0 registers further on … */
    UNDEF_INDEX_RESULT,
    UNDEF_INDEX_BOTH,
    UNDEF_INDEX_APART, /* … both, by the two halves of M0 */
    /* scalar instructions */
    UNDEF_SCC,  /* SCC chooses between 1 and 2, or is added */
    UNDEF_BIT,  /* SCC becomes bit `source 2` of source 1 */
    UNDEF_EXEC, /* saves EXEC in the destination, then writes it */
    /* where undefined bits must not get */
    UNDEF_IF_SCC,  /* branches on SCC */
    UNDEF_IF_VCC,  /* branches on VCC */
    UNDEF_MUST,    /* every source must be defined */
    UNDEF_ADDRESS, /* memory: sources 1, 2 and scalar 3 are an address; the body does the rest */
    UNDEF_MATRIX,  /* the body does it (matrices, and others that are alone) */
    /* vector instructions again: any undefined bit of that byte makes the whole result so */
    UNDEF_BYTE_0,
    UNDEF_BYTE_1,
    UNDEF_BYTE_2,
    UNDEF_BYTE_3
};

/*
 * One instruction. `operands` lists them in the order of the text as pairs of a type letter and the
 * place in insn.op; "=" stands before a destination, "+" is the destination read again, a "m" that
 * the text leaves out is VCC.
 *   f u h w d q   32-bit float, integer; 16-bit float, integer; 64-bit float, integer
 *   p k b         two 16-bit floats, integers, bfloat16s
 *   g             32-bit float, or a 16-bit one to be converted (mix instructions)
 *   j J           16-bit float result in the low or the high half
 *   r             two 32-bit floats
 *   v1…v4 o z Z   that many vector registers; 8, 16, 32; D as many as the text says
 *   n N           2, 4 vector registers, in a wave of 64 half as many
 *   m             lane mask: as many scalar bits as the wave has lanes
 *   e             lane mask that the text may leave out, and that is not written then
 *   s t T         1, 2, 4 scalar registers; X as many as the text says
 *   a A           vector address, scalar base; each may be absent
 *   L I R G       branch target, immediate, hardware register, choice of operands in
 *                 gpr_idx(…); * anything, not read
 */
struct sim_row {
    const char *name;
    uint8_t class; /* enum quern_sim_class */
    uint8_t undef; /* enum undef_kind */
    const char *operands;
    sim_body *body;
    bool writes_scc; /* scalar ALU */
    bool scalar;     /* operands are scalar registers, though the class is one of the vector ALU */
};

/* ---- Waves ----------------------------------------------------------------------------------- */

/* Numbers of scalar registers beyond the general ones. */
enum {
    S_VCC = 106,
    S_TTMP = 108,
    S_M0 = 124,
    S_NULL = 125,
    S_EXEC = 126,
    S_SCC = 128,
    S_FLAT_SCRATCH = 130,
    S_XNACK_MASK = 132,
    S_SINK = 134,  /* where writes to null go; wide ones stay below the next */
    S_SPARE = 152, /* full check */
    S_COUNT = 160
};

enum wave_state { WAVE_READY, WAVE_BARRIER, WAVE_DONE, WAVE_FAULT };

/* How sums of products of floats are rounded (docs/sim.md): after each product, or as the adders of
 * these do. */
enum sim_adder {
    ADDER_FUSED,
    ADDER_NEAREST, /* fused, and bf16 results of dots are rounded to nearest: no known GPU's */
    ADDER_RDNA3,
    ADDER_RDNA4,
    ADDER_CDNA2,
    ADDER_CDNA3,
    /* candidates for eight-bit floats of CDNA 3: products of even and of odd k apart, which are
     * brought together downwards, or towards zero */
    ADDER_CDNA3_APART,
    ADDER_CDNA3_APART_CUT
};

/* Of some forms nobody has published how they add: each has so many candidates (adders.h). */
#define SIM_CANDIDATES   3
#define SIM_NO_CANDIDATE (-1) /* fast arithmetic adds product after product */

struct wave {
    uint32_t *v; /* rows of `lanes` values, 128-byte aligned */
    uintptr_t
        base[4];     /* by operand kind, what operand.offset is added to: v for VGPR, 0 for CONST */
    uint32_t lanes;  /* 32 or 64 */
    uint32_t halves; /* lanes / 32 */
    bool full;       /* every lane of EXEC is set */
    bool fnuz;       /* fp8 has no infinities and no -0, and other biases (gfx942) */
    bool flush_halves; /* dots and matrices take 16-bit denormals for zeros (gfx90a) */
    uint8_t adder;     /* enum sim_adder */
    int8_t candidate;  /* that forms of no published adder take; or SIM_NO_CANDIDATE */
    bool open_wmma;    /* dense WMMA of 16 bits is such a form (RDNA 3.5) */
    uint8_t state;
    uint32_t number; /* in the workgroup */
    struct group *group;
    const struct target *target;
    const struct insn *pc;      /* where to go on */
    const struct insn *block;   /* where the current straight run of instructions began */
    uint64_t executed;          /* instructions before it */
    struct shadow_wave *shadow; /* full check, else null */
    bool signalled;             /* has arrived at the barrier */
    uint8_t mode;               /* float mode: rounding in bits 0-3, denormals in 4-7 */
    uint32_t s[S_COUNT];
    uint32_t mask[64] __attribute__((aligned(64))); /* all ones in the lanes of EXEC */
    /* A copy of an instruction whose scalar sources stand here as rows of equal values. */
    struct insn plain;
    uint32_t rows[4][128] __attribute__((aligned(64)));
};

/* What the lanes of a workgroup share. One per host thread, used for one workgroup after another.
 */
struct group {
    struct run *run;
    struct mapping *hint[64]; /* the mapping that an instruction touched last */
    struct memory *memory;
    uint8_t *lds;
    uint32_t lds_bytes;
    uint8_t *scratch;       /* of all waves */
    uint32_t scratch_bytes; /* of one lane */
    uint32_t id[3];
    uint64_t flat_id;
    const struct insn *insns; /* of the module */
    int64_t *flow;            /* count of an instruction minus the count of the one before it */
    struct wave *waves;
    uint32_t wave_count;
    uint64_t lds_accesses, lds_passes, lines128, bytes_read, bytes_written;
    struct shadow_group *shadow; /* full check, else null */
    char *message;               /* of the fault that stopped a wave */
    bool no_room;                /* the fault is that the full check found no memory */
    struct touched *touched;     /* lines of memory that waves touch; null but for profiles */
};

/* Where the mapping is noted that instruction i touched last, or another one that shares its note.
 */
static inline struct mapping **hint_of(struct group *g, const struct insn *i)
{
    return &g->hint[(size_t)(i - g->insns) % (sizeof g->hint / sizeof *g->hint)];
}

#define FAULT_BYTES 640

/* Guest addresses of LDS and scratch seen through flat instructions: the upper 32 bits, of which a
 * buffer descriptor holds 16. */
#define APERTURE_SHARED  0x1000u
#define APERTURE_PRIVATE 0x2000u

/* Stops the wave with a finding; `lane` < 0 if there is none. Always returns null. */
const struct insn *fault(struct wave *w, const struct insn *i, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
/* The same for an address that is in no mapping, or not so that `access` is allowed. */
const struct insn *fault_address(struct wave *w, const struct insn *i, int lane, uint64_t address,
                                 unsigned bytes, enum quern_sim_access access)
    __attribute__((cold));

/* The tables of one build of the bodies. */
struct sim_bodies {
    const struct sim_row *const *tables; /* each ends with a row without a name */
    sim_body *unknown;                   /* stops with the text of the instruction */
    sim_body *past_end;                  /* stops: the code ran past its symbol */
    sim_body *indexed;                   /* of instructions after s_set_gpr_idx_on */
    void (*run)(struct wave *w);         /* runs until the wave stops */
    void (*run_full)(struct wave *w);    /* the same with w->shadow */
    void (*read_exec)(struct wave *w);   /* after s[S_EXEC] was written */
};

/* What a library of bodies exports, as quern_sim_bodies. The stamp is of the headers that both
 * libraries were built from: with another one, the rest may mean something else. */
struct sim_export {
    char stamp[24];
    const struct sim_bodies *bodies;
};

#endif
