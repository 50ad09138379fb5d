/* SPDX-License-Identifier: MIT */
/*
 * From LLVM's text of an instruction to struct insn. What an instruction looks like stands in its
 * row (wave.h); this knows the grammar of operands and modifiers. Text that it does not understand
 * gives an instruction that stops when it is executed, never a failure.
 */
#ifndef QUERN_SIM_PARSE_H
#define QUERN_SIM_PARSE_H

#include "sim/decode/respell.h"
#include "sim/wave.h"

/* Memory that lives as long as the decoded instructions: constants, lane tables, texts. */
struct pool {
    struct pool_block *blocks;
};
/* `align` is a power of two up to 64. Null when out of memory. */
void *pool_take(struct pool *pool, size_t bytes, size_t align);
void pool_free(struct pool *pool);

/* Finds rows by mnemonic. */
struct row_index {
    const struct sim_row **slots; /* open hashing */
    size_t mask;
};
quern_status row_index_make(const struct sim_bodies *bodies, struct row_index *index);
void row_index_free(struct row_index *index);
/* The row, or null. */
const struct sim_row *row_index_find(const struct row_index *index, const char *name);

struct parser {
    const struct sim_bodies *bodies;
    const struct row_index *index;
    bool keeps_halves; /* struct target has it */
    unsigned lanes;
    unsigned vgpr_limit;  /* registers of the file, AGPRs included */
    unsigned agpr_offset; /* row of a0 */
    uint64_t guest;       /* address of the code's first byte */
    bool ieee;            /* mode bit IEEE: output modifiers count for nothing */
    struct unsaid unsaid; /* of the instruction that is parsed */
    struct pool pool;
    bool failed; /* out of memory */
};

/* Up to three struct insn for one instruction (a VOPD pair whose halves read each other's result).
 */
struct parsed {
    unsigned count;
    struct insn insns[3];
    const struct sim_row *rows[3]; /* null: not understood */
    bool branch;    /* insns[0].offset is the byte offset of the target in the code */
    unsigned vgprs; /* one more than the highest vector register named */
};

/* `offset` is that of the instruction within the code. */
void parse_insn(struct parser *parser, const char *text, uint64_t offset, struct parsed *parsed);

#endif
