/* SPDX-License-Identifier: MIT */
/*
 * What the scan of code objects (lint.h) needs to know of one instruction, read from LLVM's text of
 * it: which registers it reads and writes, what kind it is, which counter it raises or waits for,
 * and where control goes. For the files of this room. Arithmetic is not understood here: that is
 * the software GPU's, which is a second, independent reader of the same text.
 */
#ifndef QUERN_LINT_INSN_H
#define QUERN_LINT_INSN_H

#include "target/target.h"

#include <stdbool.h>
#include <stdint.h>

/* Registers of all files in one numbering. */
enum lint_register {
    LINT_SGPR = 0, /* 0…105, then those that have names, as the software GPU numbers them */
    LINT_VCC = 106,
    LINT_M0 = 124,
    LINT_EXEC = 126,
    LINT_VGPR = 160,
    LINT_AGPR = LINT_VGPR + 512,
    LINT_HARDWARE = LINT_AGPR + 512, /* 64 that s_setreg and s_getreg name */
    LINT_REGISTERS = LINT_HARDWARE + 64
};

struct lint_range {
    uint16_t first, count; /* count 0: none */
};

static inline bool lint_overlap(struct lint_range a, struct lint_range b)
{
    return a.count && b.count && a.first < b.first + b.count && b.first < a.first + a.count;
}

/* Kinds of instructions; one may be several. */
enum lint_kind {
    LINT_VALU = 1 << 0,        /* vector ALU, matrix instructions not */
    LINT_TRANS = 1 << 1,       /* of these, transcendental ones */
    LINT_DOT = 1 << 2,         /* of these, dot products */
    LINT_PARTIAL = 1 << 3,     /* of these, those that write a part of a register (SDWA, op_sel) */
    LINT_DPP = 1 << 4,         /* of these, those that read other lanes by DPP */
    LINT_READLANE = 1 << 5,    /* v_readlane, v_readfirstlane */
    LINT_LANE_NUMBER = 1 << 6, /* v_readlane, v_writelane: the last operand is a lane */
    LINT_DIV_FMAS = 1 << 7,    /* reads VCC without saying so */
    LINT_PERMLANE = 1 << 8,    /* v_permlane…: gfx9 has only those that swap */
    LINT_XDL = 1 << 9,         /* matrix instructions of the XDL pipe … */
    LINT_SGEMM = 1 << 10,      /* … of f32 operands, where those are none of it */
    LINT_DGEMM_4 = 1 << 11,    /* … of f64, 4 by 4, and 16 by 16 */
    LINT_DGEMM_16 = 1 << 12,
    LINT_WMMA = 1 << 13, /* matrix instructions of RDNA */
    LINT_SALU = 1 << 14,
    LINT_SMEM = 1 << 15,
    LINT_VMEM = 1 << 16, /* global, scratch, buffer and flat */
    LINT_FLAT = 1 << 17, /* of these, those whose addresses may be LDS's */
    LINT_LDS = 1 << 18,
    LINT_STORE = 1 << 19,      /* to memory or LDS, atomics without a result included */
    LINT_WIDE_STORE = 1 << 20, /* of VMEM, of more than 64 bits a lane */
    LINT_USES_M0 = 1 << 21,
    LINT_TO_LDS = 1 << 22, /* a load from memory that goes to LDS, not to registers */
    LINT_BARRIER = 1 << 23,
    LINT_WAIT = 1 << 24, /* it waits for counters: `waits` says for which */
    LINT_SHIFT_64 = 1 << 25,
    LINT_NOTHING = 1 << 26, /* v_nop, which is no LINT_VALU */
    LINT_LANE_MASK =
        1 << 27, /* reads a scalar register, its last operand, as a bit for each lane */
    LINT_FMA_F64 = 1 << 28,
    LINT_MAD_64 = 1 << 29,       /* products of 32 bits added to 64 */
    LINT_LDS_PAUSE = 1 << 30,    /* ds_nop */
    LINT_LDS_DIRECT = INT32_MIN, /* lds_direct_load, lds_param_load: the last bit */
    LINT_MFMA = LINT_XDL | LINT_SGEMM | LINT_DGEMM_4 | LINT_DGEMM_16
};

/* Counters, by what raises them; targets have one for several of these. */
enum lint_counter { LINT_LOADS, LINT_STORES, LINT_LDS_OPS, LINT_SCALAR_LOADS, LINT_COUNTERS };
#define LINT_NO_WAIT 255

/* What s_wait_alu (s_waitcnt_depctr on gfx11) waits for, until none of it is under way, as bits. */
enum lint_alu_wait {
    LINT_VALU_VECTOR = 1 << 0,   /* vector registers that vector instructions write */
    LINT_VALU_SCALAR = 1 << 1,   /* scalar registers that these write, but for VCC, */
    LINT_VALU_VCC = 1 << 2,      /* and VCC */
    LINT_SALU_SCALAR = 1 << 3,   /* scalar registers that scalar instructions write */
    LINT_MEMORY_SOURCES = 1 << 4 /* vector registers that memory instructions read */
};

enum { LINT_DEFS = 4, LINT_USES = 8 };

struct lint_insn {
    uint32_t offset;  /* in the kernel's code */
    uint32_t kinds;   /* of enum lint_kind */
    const char *text; /* lives as long as the scan */
    struct lint_range defs[LINT_DEFS], uses[LINT_USES];
    /* of matrix instructions uses[0] and [1] are A and B, uses[2] is what is added (C) */
    uint8_t def_count, use_count;
    uint8_t wait_states;          /* 1; of s_nop N: N + 1 */
    uint8_t passes;               /* of matrix instructions of gfx9: 4 cycles each */
    uint8_t waits[LINT_COUNTERS]; /* waits until at most so many are under way */
    uint8_t alu_waits;            /* bits of enum lint_alu_wait */
    /* of LINT_LDS_DIRECT: it waits until so many vector instructions are under way, and, if 0, for
     * memory to be done with registers */
    uint8_t wait_vector, wait_memory;
    int64_t branch;                 /* byte offset of where it may go; -1: nowhere */
    bool falls_through, understood; /* goes on to the next one; all operands were read */
    bool literal; /* a vector instruction with a constant of its own, not an inline one */
};

/* Reads the text of an instruction at `offset`; `text` is kept by reference. */
void lint_read(const struct target *target, unsigned wave_size, const char *text, uint64_t offset,
               struct lint_insn *insn);

#endif
