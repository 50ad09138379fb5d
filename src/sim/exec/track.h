/* SPDX-License-Identifier: MIT */
/* The full check of memory accesses: undefined bytes, races. For the files of exec/. */
#ifndef QUERN_SIM_TRACK_H
#define QUERN_SIM_TRACK_H

#include "sim/exec/exec_memory.h"
#include "sim/check/shadow.h"

/* What a store to LDS writes. Waves that write what is there already, as when each of them builds
 * the same table, do not race. */
struct lds_data {
    const struct operand *o;
    enum format format;
    unsigned words;
};

/*
 * Checks an access for races and gives, for each lane, where the masks of its bytes are. A store's
 * data are checked by track_stored afterwards; `data` is null but for stores to LDS. False when
 * there is a finding.
 */
bool track(struct wave *w, const struct insn *i, enum space space, unsigned bytes,
           enum track_kind kind, const struct access *a, const struct lds_data *data,
           struct access *masks);

/* After masks were loaded into the shadow of `o`: flags and origins. */
void track_loaded(struct wave *w, const struct insn *i, enum space space, const struct operand *o,
                  const struct access *a);

/* What `track` does, for an LDS load of dwords that are all defined and free of races, as nearly
 * all are; else false, and `track` is to be asked. */
bool track_known(struct wave *w, unsigned words, const struct access *a);

/* After whole registers were loaded that are defined in all lanes. */
void track_loaded_defined(struct wave *w, const struct operand *o);

/* Before a store of `o` to global memory: its bits must be defined; the memory then is. */
bool track_stored(struct wave *w, const struct insn *i, enum space space, const struct operand *o,
                  enum format format, unsigned words, const struct access *a,
                  const struct access *masks);

/* An atomic on `data`, returning the old value to `result` (or null). */
bool track_atomic(struct wave *w, const struct insn *i, enum space space, unsigned words,
                  const struct operand *data, enum atomic_op op, const struct operand *result,
                  const struct access *a);

/* The same for a scalar load of `bytes` bytes at a mapping's address. */
bool track_scalar_load(struct wave *w, const struct insn *i, struct mapping *map, uint64_t address,
                       unsigned bytes, bool sign);

/* Stops with a finding about undefined bits; gives null. In exec_finding.c. */
const struct insn *finding(struct wave *w, const struct insn *i, int lane, const struct origin *o,
                           uint32_t bits, const char *reach);

/* An instruction between s_set_gpr_idx_on and _off: its body, and the copy whose operands are the
 * registers that are meant (exec_index.c). False when the wave was stopped by a finding. */
const struct insn *x_indexed(struct wave *w, const struct insn *i);
bool index_registers(struct wave *w, const struct insn *i, struct insn *moved);
/*
 * Makes the operands of `i`, a copy of the instruction `at`, those that M0 says: which of them, and
 * whether by the halves of M0. False when that is outside the wave's registers. In exec_movrel.c.
 */
enum { INDEX_SOURCE = 1, INDEX_RESULT = 2, INDEX_APART = 4 };
bool index_operands(struct wave *w, struct insn *i, const struct insn *at, unsigned how);

void shadow_run(struct wave *w);

#endif
