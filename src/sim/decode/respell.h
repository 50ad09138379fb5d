/* SPDX-License-Identifier: MIT */
/*
 * What LLVM 21's disassembler does not say of instructions of gfx11 and gfx12. Its processors but
 * gfx1100 to gfx1103 have no name for the upper half of a vector register as an operand of 16 bits:
 * it declines such operands where the register's number has the bit, and leaves op_sel out where
 * that has it. Compilers since ROCm 7.2 use both. It declines matrices of 16-bit floats
 * with modifiers that do nothing there, and on gfx9 comparisons that write EXEC and another lane
 * mask beside it. The code itself says all of it.
 */
#ifndef QUERN_SIM_RESPELL_H
#define QUERN_SIM_RESPELL_H

#include "target/target.h"

#include <quern/sim.h>

/* From the code of one instruction, beside its text. Bit 0 of `high` is of the result, bit 1 of the
 * first source, bit 2 of the others: an operand of 16 bits is an upper half, any other 128 vector
 * registers further on. `op_sel` has the sources in bits 0 to 2, the result in bit 3. `mask` is the
 * scalar register of the other lane mask, if it has one. */
struct unsaid {
    uint8_t high, op_sel, mask;
    bool has_mask;
};

/*
 * Changes the first two words of an instruction that was declined into others that the disassembler
 * may take, in ways that unsaid_of undoes. The bytes of the whole instruction, or 0 if there is
 * nothing to change. What is not there of the second word is 0.
 */
unsigned respell(const struct target *target, unsigned lanes, uint32_t code[2]);

/* What the text of `shown`, respelled or not, leaves out of `code`; gives `text` its mnemonic
 * back, and a rotation of ds_swizzle_b32 its whole offset. */
struct unsaid unsaid_of(const struct target *target, const uint32_t code[2],
                        const uint32_t shown[2], char *text);

/*
 * Disassembles code, and what is declined of it by other words. `emit` gets each instruction once,
 * in order: its place in the code, its text, empty where nothing was of use, and the words that the
 * text is of, for unsaid_of. QUERN_E_INTERNAL where the disassembler leaves the code.
 */
typedef void (*respell_fn)(void *user, uint64_t offset, const char *text, const uint32_t shown[2]);
quern_status respell_all(const struct quern_disassembler *by, const struct target *target,
                         unsigned lanes, const uint8_t *code, size_t bytes, respell_fn emit,
                         void *user);

/* The two words at a place in code; what is not there of the second is 0. */
void respell_words(const uint8_t *code, size_t bytes, uint64_t offset, uint32_t words[2]);

#endif
