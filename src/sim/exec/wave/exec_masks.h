/* SPDX-License-Identifier: MIT */
/* Masks of undefined bits of registers, and how they go through instructions. See shadow.h. */
#ifndef QUERN_SIM_EXEC_MASKS_H
#define QUERN_SIM_EXEC_MASKS_H

#include "sim/check/shadow.h"
#include "sim/exec/track.h"

INLINE bool in_exec(const struct operand *o)
{
    return o->kind == OPERAND_SGPR && o->reg >= S_EXEC && o->reg <= S_EXEC + 1;
}

/* Whether the operand may have undefined bits. */
INLINE bool suspect(const struct shadow_wave *s, const struct operand *o)
{
    uint32_t any = 0;

    if (o->kind == OPERAND_VGPR)
        for (unsigned k = 0; k < o->words; k++)
            any |= s->flags[o->reg + k];
    else if (o->kind == OPERAND_SGPR && !in_exec(o))
        for (unsigned k = 0; k < o->words; k++)
            any |= s->w.s[o->reg + k];
    return any;
}

/* Where the undefined bits of an operand came from. */
const struct origin *origin_of(const struct shadow_wave *s, const struct operand *o);
/* The origin of the first source that has one, or else of a destination; `scc` is a last source. */
struct origin first_origin(const struct shadow_wave *s, const struct insn *i, bool scc);

/* After masks of a destination changed: is anything left undefined, and where from. */
void note_result(struct shadow_wave *s, const struct operand *o, struct origin origin);

/* Before an instruction runs of which an operand is suspect: what will be undefined then. Null when
 * there is a finding. */
const struct insn *through_vector(struct wave *w, const struct insn *i, const struct sim_row *row);
const struct insn *through_scalar(struct wave *w, const struct insn *i, const struct sim_row *row);
/* The same of instructions whose registers M0 chooses. */
const struct insn *through_index(struct wave *w, const struct insn *i, const struct sim_row *row);

#endif
