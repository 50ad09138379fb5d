/* SPDX-License-Identifier: MIT */
/*
 * Results that come late, as the full check has them. Bodies of instructions deliver at once; on
 * silicon a load delivers when it pleases, at the latest when a wait says so, and gfx9 has pairs of
 * instructions of which the second, when it comes too soon, reads what stood there before. The full
 * check takes such a register for undefined (shadow.h) while it may not be there: what is computed
 * from it is a finding when it reaches a result.
 *
 * The tables stand on what others measured and published (docs/lint.md has the sources). They are
 * apart from those of src/lint on purpose: each is the other's judge.
 */
#ifndef QUERN_SIM_LATE_H
#define QUERN_SIM_LATE_H

#include "sim/wave.h"

struct group;
struct quern_sim_module;

/* What an instruction is to the rules; several may hold. */
enum late_kind {
    LATE_VALU = 1 << 0, /* vector ALU, but for matrix instructions */
    LATE_TRANS = 1 << 1,
    LATE_DOT = 1 << 2,
    LATE_PARTIAL = 1 << 3, /* writes a part of a register */
    LATE_DPP = 1 << 4,
    LATE_LANE_READ = 1 << 5,   /* v_readlane, v_readfirstlane */
    LATE_LANE_NUMBER = 1 << 6, /* v_readlane, v_writelane */
    LATE_DIV_FMAS = 1 << 7,
    LATE_PERMLANE = 1 << 8,
    LATE_XDL = 1 << 9, /* matrix instructions of gfx9, but for those that follow */
    LATE_SGEMM = 1 << 10,
    LATE_DGEMM_4 = 1 << 11,
    LATE_DGEMM_16 = 1 << 12,
    LATE_WMMA = 1 << 13,
    LATE_SALU = 1 << 14,
    LATE_VMEM = 1 << 15,
    LATE_LDS = 1 << 16,
    LATE_WIDE_STORE = 1 << 17, /* to memory, of more than 64 bits a lane */
    LATE_USES_M0 = 1 << 18,
    LATE_FMA_F64 = 1 << 19,
    LATE_VECTOR_NOP = 1 << 20,
    LATE_LANE_MASK = 1 << 21, /* its last scalar operand has a bit for each lane */
    LATE_LDS_PAUSE = 1 << 22, /* ds_nop */
    LATE_VALU_DONE = 1 << 23, /* a wait for all results of the vector ALU */
    LATE_LITERAL = 1 << 24,   /* a vector instruction with a constant of its own */
    LATE_BRINGS = 1 << 25     /* brings new values of scalar registers through (gfx12) */
};

enum late_counter { LATE_LOADS, LATE_STORES, LATE_LDS_OPS, LATE_SCALARS, LATE_COUNTERS };
#define LATE_NO_WAIT 255

/* What s_wait_alu and s_waitcnt_depctr wait for, as bits. */
enum { LATE_OF_VALU = 1, LATE_OF_VALU_VCC = 2, LATE_OF_SALU = 4 };

/* One instruction, beside struct insn. */
struct late_insn {
    uint64_t vectors;  /* bit n % 64: names vector register n */
    uint64_t reads[2]; /* scalar registers, a bit each */
    uint64_t writes[2];
    uint32_t kinds;    /* enum late_kind */
    uint64_t first;    /* rules, a bit each, of which it may be the first of a pair … */
    uint64_t second;   /* … or the second */
    uint8_t states;    /* wait states that it takes; of RDNA: 1 for what rules count */
    uint8_t passes;    /* of matrix instructions: 0 to 3 for 2, 4, 8, 16 */
    uint8_t raises;    /* counters, a bit each */
    uint8_t operation; /* what kind of operation it is to them: ordered ones of a kind differ */
    uint8_t waits[LATE_COUNTERS];
    uint8_t alu_waits;
    bool ordered; /* what it raises is done in the order of issue */
    bool loads;   /* op[0] is owed from now on */
    bool acts;    /* late_behind has something to do */
};

/* A rule about two instructions. */
struct late_rule {
    const char *what;
    uint32_t first, second, not_second; /* kinds */
    uint8_t meeting;                    /* enum late_meeting, late.c and exec_late.c know it */
    uint8_t registers;                  /* enum late_registers */
    uint8_t states[6][4];               /* by enum late_place and passes */
    /* Zero where wait states count and only distance helps. */
    uint32_t counted;      /* kinds that count, each as one */
    uint32_t ends, two_of; /* kinds of which one, or two, end it */
    uint32_t behind;       /* kinds of which one must stand between */
};

enum late_place {
    LATE_GFX90A,
    LATE_GFX942,
    LATE_GFX950,
    LATE_GFX11_0,
    LATE_GFX11_5,
    LATE_GFX12,
    LATE_PLACES
};

enum late_meeting {
    LATE_READ,        /* the second reads what the first wrote */
    LATE_TOUCHED,     /* … or overwrites it */
    LATE_AS_FACTOR,   /* it reads it as A, B or indices of a matrix instruction */
    LATE_AS_ADDEND,   /* it adds to a part of it, or to it and more */
    LATE_AS_SAME,     /* it adds to exactly it */
    LATE_ADDEND_LOST, /* it overwrites what the first adds to */
    LATE_DATA_LOST,   /* it overwrites what the first stores */
    LATE_NOT_SUMMED,  /* touched, but not as what the same dot product adds to */
    LATE_LANE,        /* it reads it as the number of a lane */
    LATE_AROUND,      /* it reads two registers, one written before the first, one behind it */
    LATE_REGARDLESS   /* it uses it without naming it, or the pair is enough */
};

enum late_registers { LATE_ANY, LATE_VECTOR, LATE_SCALAR, LATE_EXEC, LATE_VCC, LATE_M0 };

enum { LATE_RECENT = 32, LATE_QUEUE = 64, LATE_SLOTS = 128, LATE_POISONED = 96 };

/* Something under way on a counter. */
struct late_operation {
    const struct insn *insn;
    uint64_t exec;
    uint8_t kind;
    bool ordered, loads;
    /* which bytes of LDS it writes: the first of so many places in late_wave.lds, a ring */
    uint8_t lds, lds_count;
};

/* Which bytes of LDS an operation writes. */
struct late_lds {
    uint32_t at[64];
    uint64_t active;
    uint32_t bytes;
    bool direct; /* a load from memory */
};

/* What a wave has under way. */
struct late_wave {
    const struct insn *recent[LATE_RECENT]; /* issued last */
    uint32_t issued;                        /* so many; the last is at (issued - 1) % 32 */
    uint64_t live;                /* rules of which a first was issued, perhaps not long ago */
    uint64_t vectors, scalars[2]; /* owed by operations under way, as in late_insn */
    struct {
        struct late_operation of[LATE_QUEUE]; /* a ring */
        unsigned first, count;
    } queue[LATE_COUNTERS];
    /* scalar registers of RDNA that vector instructions have read; those written since */
    uint64_t kept[2], by_valu[2], by_salu[2];
    unsigned pauses;
    uint32_t writer[128];            /* which instruction did */
    struct late_lds lds[LATE_SLOTS]; /* a ring */
    unsigned lds_next, lds_noted;    /* the next place; so many by the body that runs now */
    /* registers that are undefined for the instruction that runs now alone */
    struct late_poisoned {
        uint16_t reg;
        bool scalar, flag;
        uint64_t where; /* of its origin; this and what follows as it was before */
        uint32_t kind, insn;
        uint32_t row[64];
    } poisoned[LATE_POISONED];
    unsigned poisoned_count;
    /* what the instruction writes is undefined behind it, because of `spoiler`; 0: it is not */
    uint64_t spoils;
    uint32_t spoiler;
};

/* Those of a target without wait states there hold nowhere on it. */
extern const struct late_rule late_rules[]; /* module->late_rules, for bodies */

/* Fills module->late, for the full check. False when out of memory. */
bool late_read(struct quern_sim_module *m);

void late_start_wave(struct late_wave *l);

/* After all waves have passed a barrier: what they store to LDS and have not waited for is not
 * there for the others. */
void late_barrier(struct group *g);

/* ---- In bodies (exec_late.c) ----------------------------------------------------------------- */

/* Before an instruction of which late_near says that a register of it may not be there. Null when
 * there is a finding. */
const struct insn *late_before(struct wave *w, const struct insn *i, const struct late_insn *x);
/* Behind it. */
void late_undo(struct wave *w, const struct insn *i);
/* Behind one that `acts`. */
void late_behind(struct wave *w, const struct insn *i, const struct late_insn *x);

static inline bool late_near(const struct late_wave *l, const struct late_insn *x)
{
    return ((x->vectors & l->vectors) | ((x->reads[0] | x->writes[0]) & l->scalars[0]) |
            ((x->reads[1] | x->writes[1]) & l->scalars[1]) | (x->second & l->live) |
            (x->reads[0] & (l->by_valu[0] | l->by_salu[0])) |
            (x->reads[1] & (l->by_valu[1] | l->by_salu[1]))) != 0;
}
/* A body is about to write these bytes of LDS, or to read them: false when they are not there. */
struct access;
void late_note_lds(struct wave *w, const struct insn *i, const struct access *a, unsigned bytes);
bool late_check_lds(struct wave *w, const struct insn *i, unsigned lane, uint64_t at,
                    unsigned bytes);

#endif
