/* SPDX-License-Identifier: MIT */
/* The words of LLVM's AMDGPU assembly: operands, registers, modifiers. Knows no instruction. */
#ifndef QUERN_SIM_TEXT_H
#define QUERN_SIM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_BYTES        256
#define TEXT_OPERANDS_MAX 8

enum text_dpp {
    DPP_NONE,
    DPP_QUAD_PERM,
    DPP_ROW_SHL,
    DPP_ROW_SHR,
    DPP_ROW_ROR,
    DPP_WAVE_SHL,
    DPP_WAVE_ROL,
    DPP_WAVE_SHR,
    DPP_WAVE_ROR,
    DPP_ROW_MIRROR,
    DPP_ROW_HALF_MIRROR,
    DPP_ROW_BCAST,
    DPP_ROW_SHARE,
    DPP_ROW_XMASK,
    DPP_LANES_8
};

struct text_modifiers {
    int32_t offset;
    uint8_t offset1;
    bool glc, lds, gds, idxen, offen, clamp, bound_ctrl, fetch_inactive, sdwa;
    uint8_t omod;                              /* 0, mul:2, mul:4, div:2 */
    uint8_t op_sel, op_sel_hi, neg_lo, neg_hi; /* a bit for each element of the list */
    bool has_op_sel_hi;
    uint8_t cbsz, abid, blgp;
    uint8_t bitop3; /* truth table */
    enum text_dpp dpp;
    uint8_t dpp_values[8];
    uint8_t row_mask, bank_mask;
    uint8_t dst_sel, dst_unused, src0_sel, src1_sel; /* enum operand_select, enum insn_unused */
};

struct text_insn {
    char mnemonic[64];
    unsigned count;
    const char *operands[TEXT_OPERANDS_MAX]; /* point into buffer */
    struct text_modifiers modifiers;
    char buffer[TEXT_BYTES];
};

/* Splits an instruction into mnemonic, operands and modifiers. False if there is a word that is
 * none of these. */
bool text_split(const char *text, struct text_insn *t);

/* Cuts _e32, _e64, _dpp, _sdwa and their combinations off a mnemonic; true if there was one. */
bool text_strip_suffix(char *mnemonic);

/* Copies an operand without -, |…|, neg(…), abs(…), sext(…), which go into *mods (MOD_*). */
bool text_strip_modifiers(const char *operand, char *body, size_t size, uint8_t *mods);

enum text_file { FILE_SGPR, FILE_VGPR, FILE_AGPR, FILE_APERTURE };

struct text_register {
    enum text_file file;
    unsigned index; /* SGPR: as in wave.s; aperture: upper half of its base */
    unsigned count;
    char half; /* 'l', 'h' or 0: v0.l */
};

/* False if the operand is not a register. */
bool text_register(const char *operand, struct text_register *r);

/* "hwreg(NAME, offset, width)" to the 16-bit field of the instruction. */
bool text_hardware_register(const char *operand, int32_t *field);

/* The lane that `lane` reads under the DPP control, or LANE_NONE. */
unsigned text_dpp_lane(const struct text_modifiers *m, unsigned lane);

#endif
