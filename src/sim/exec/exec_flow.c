/* SPDX-License-Identifier: MIT */
/* Control flow, barriers, waits, mode and hardware registers, scalar memory. */
#include "sim/launch.h"
#include "sim/exec/track.h"

/* ---- Branches -------------------------------------------------------------------------------- */

/* Leaves the straight run of instructions that ends with i. */
INLINE void leave(struct wave *w, const struct insn *i)
{
    w->executed += (uint64_t)(i - w->block) + 1;
    w->group->flow[i + 1 - w->group->insns]--;
}

INLINE const struct insn *jump(struct wave *w, const struct insn *i, const struct insn *to)
{
    leave(w, i);
    w->block = to;
    w->group->flow[to - w->group->insns]++;
    if (UNLIKELY(w->executed > w->group->run->max_instructions))
        return fault(w, i, -1,
                     "endless loop: the wave has executed %llu instructions, "
                     "the limit is "
                     "%llu",
                     (unsigned long long)w->executed,
                     (unsigned long long)w->group->run->max_instructions);
    if (UNLIKELY(atomic_load_explicit(&w->group->run->stop_before, memory_order_relaxed) <
                 w->group->flat_id))
        return halt(w);
    return to;
}

INLINE const struct insn *branch(struct wave *w, const struct insn *i, bool taken)
{
    if (!taken)
        return i + 1;
    if (UNLIKELY(!i->target))
        return fault(w, i, -1, "branch to an address that is no instruction of this code object");
    return jump(w, i, i->target);
}

BODY(s_branch)
{
    return branch(w, i, true);
}
BODY(s_cbranch_scc0)
{
    return branch(w, i, !w->s[S_SCC]);
}
BODY(s_cbranch_scc1)
{
    return branch(w, i, w->s[S_SCC]);
}
BODY(s_cbranch_vccz)
{
    return branch(w, i, !(w->s[S_VCC] | (w->lanes == 64 ? w->s[S_VCC + 1] : 0)));
}
BODY(s_cbranch_vccnz)
{
    return branch(w, i, w->s[S_VCC] | (w->lanes == 64 ? w->s[S_VCC + 1] : 0));
}
BODY(s_cbranch_execz)
{
    return branch(w, i, !exec_bits(w));
}
BODY(s_cbranch_execnz)
{
    return branch(w, i, exec_bits(w));
}

/* Where the program counter may be taken from a register. */
INLINE const struct insn *jump_to(struct wave *w, const struct insn *i, uint64_t address)
{
    const struct insn *const to = run_insn_at(w->group->run, address);

    if (!to)
        return fault(w, i, -1, "jump to 0x%llx, which is no instruction of this code object",
                     (unsigned long long)address);
    return jump(w, i, to);
}

BODY(s_getpc_b64)
{
    set_scalar64(w, &i->op[0], i->pc);
    return i + 1;
}
BODY(s_setpc_b64)
{
    return jump_to(w, i, scalar64(w, &i->op[1]));
}
BODY(s_swappc_b64)
{
    const uint64_t to = scalar64(w, &i->op[1]);

    set_scalar64(w, &i->op[0], i->pc);
    return jump_to(w, i, to);
}
BODY(s_call_b64)
{
    /* the target takes the place of the pc in the instruction, so the pc is an operand */
    set_scalar64(w, &i->op[0], i->op[1].value);
    return branch(w, i, true);
}

BODY(s_endpgm)
{
    leave(w, i);
    w->state = WAVE_DONE;
    return NULL;
}

/* ---- Barriers and waits ---------------------------------------------------------------------- */

BODY(s_barrier)
{
    w->pc = i + 1;
    w->state = WAVE_BARRIER;
    w->signalled = true;
    return NULL;
}

/* gfx12 splits a barrier: the signal does not stop the wave, the wait does. Barrier -1 is that of
 * the workgroup. */
#define WORKGROUP_BARRIER 0xffffffffu

BODY(s_barrier_signal)
{
    if (scalar32(w, &i->op[1]) != WORKGROUP_BARRIER)
        return fault(w, i, -1, "barriers other than the workgroup's, -1, are not modelled");
    w->signalled = true;
    return i + 1;
}

/* The first wave to signal is told by SCC. */
BODY(s_barrier_signal_isfirst)
{
    bool first = true;

    for (unsigned n = 0; n < w->group->wave_count; n++)
        first = first && !w->group->waves[n].signalled;
    w->s[S_SCC] = first;
    if (w->shadow)
        w->shadow->w.s[S_SCC] = 0;
    return x_s_barrier_signal(w, i);
}

BODY(s_barrier_wait)
{
    if ((uint32_t)i->op[1].value != WORKGROUP_BARRIER)
        return fault(w, i, -1, "barriers other than the workgroup's, -1, are not modelled");
    if (!w->signalled)
        return fault(w, i, -1, "the wave waits at a barrier that it has not signalled");
    w->pc = i + 1;
    w->state = WAVE_BARRIER;
    return NULL;
}

/* Everything is done in order, so there is never anything to wait for; what a program must prove by
 * its waits, the full check asks (exec_late.c). */
BODY(nothing)
{
    (void)w;
    return i + 1;
}

BODY(s_code_end)
{
    return fault(w, i, -1, "the code runs past the end of its symbol");
}
BODY(s_trap)
{
    return fault(w, i, -1, "trap");
}

/* ---- Hardware registers ---------------------------------------------------------------------- */

/* op[1] or op[0] holds the register's field as simm16 has it: id, offset << 6, (width - 1) <<
 * 11. */
BODY(s_getreg_b32)
{
    const uint32_t field = (uint32_t)i->offset, id = field & 63;
    const uint32_t offset = field >> 6 & 31, width = (field >> 11 & 31) + 1;
    uint32_t value;

    if (!run_read_register(w, id, &value))
        return fault(w, i, -1, "hardware register %u is not modelled", id);
    w->s[i->op[0].reg] = width == 32 ? value : bfe_u32(value, offset, width);
    return next(w, i);
}

INLINE const struct insn *setreg(struct wave *w, const struct insn *i, uint32_t value)
{
    const uint32_t field = (uint32_t)i->offset, id = field & 63;
    const uint32_t offset = field >> 6 & 31, width = (field >> 11 & 31) + 1;
    const uint32_t mask = (width == 32 ? ~0u : (1u << width) - 1) << offset;
    uint32_t old;

    if (!run_read_register(w, id, &old) ||
        !run_write_register(w, id, (old & ~mask) | (value << offset & mask)))
        return fault(w, i, -1, "hardware register %u cannot be written, or not with this value",
                     id);
    return i + 1;
}
BODY(s_setreg_b32)
{
    return setreg(w, i, scalar32(w, &i->op[1]));
}

INLINE const struct insn *set_mode(struct wave *w, const struct insn *i, unsigned shift)
{
    uint32_t mode;

    if (!run_read_register(w, REGISTER_MODE, &mode))
        return NULL;
    mode = (mode & ~(15u << shift)) | ((uint32_t)i->op[1].value & 15) << shift;
    if (!run_write_register(w, REGISTER_MODE, mode))
        return fault(w, i, -1, "rounding mode other than to nearest even");
    return i + 1;
}
BODY(s_round_mode)
{
    return set_mode(w, i, 0);
}
BODY(s_denorm_mode)
{
    return set_mode(w, i, 4);
}

/* Values of one wave that stands alone: time goes on with what it has executed. */
BODY(s_memtime)
{
    set_scalar64(w, &i->op[0], w->executed + (uint64_t)(i - w->block));
    return i + 1;
}

/* s_sendmsg_rtn_b64 MSG_RTN_GET_REALTIME and its like */
BODY(s_sendmsg_rtn_b32)
{
    w->s[i->op[0].reg] = (uint32_t)(w->executed + (uint64_t)(i - w->block));
    return i + 1;
}

/* ---- Scalar memory --------------------------------------------------------------------------- */

INLINE const struct insn *scalar_load(struct wave *w, const struct insn *i, uint64_t address,
                                      unsigned bytes, bool sign)
{
    const unsigned align = bytes >= 4 ? 4 : bytes;
    struct mapping **const hint = hint_of(w->group, i);
    struct mapping *map = *hint;

    if (!map || address < map->begin || address >= map->end)
        *hint = map = memory_find(w->group->memory, address);
    if (!map || map->end - address < bytes || !(map->access & QUERN_SIM_READ))
        return fault_address(w, i, -1, address, bytes, QUERN_SIM_READ);
    if (address & (align - 1))
        return fault(w, i, -1,
                     "misaligned scalar load of %u bytes at 0x%llx, "
                     "offset %llu of buffer "
                     "\"%s\"; it must be a multiple of %u",
                     bytes, (unsigned long long)address, (unsigned long long)(address - map->begin),
                     map->name, align);
    const uint8_t *const from = map->host + (address - map->begin);
    uint32_t *const to = w->s + i->op[0].reg;
    w->group->bytes_read += bytes;
    if (UNLIKELY(w->shadow != NULL) && !track_scalar_load(w, i, map, address, bytes, sign))
        return NULL;
    if (bytes == 1)
        *to = sign ? (uint32_t)(int8_t)*from : *from;
    else if (bytes == 2) {
        uint16_t half;
        copy_in(&half, from, 2);
        *to = sign ? (uint32_t)(int16_t)half : half;
    } else {
        copy_in(to, from, bytes);
    }
    return next(w, i);
}

INLINE uint64_t scalar_address(const struct wave *w, const struct insn *i)
{
    const uint64_t offset = i->op[2].kind == OPERAND_SGPR ? w->s[i->op[2].reg]
                            : i->op[2].kind == OPERAND_CONST
                                ? (uint64_t)(int64_t)(int32_t)i->op[2].value
                                : 0;
    return scalar64(w, &i->op[1]) + offset + (uint64_t)(int64_t)i->offset;
}

/* As many bytes as the destination has; out of a buffer's range they are zeros. */
BODY(s_load)
{
    return scalar_load(w, i, scalar_address(w, i), 4u * i->op[0].words, false);
}

/* Where a scalar buffer load goes, and how many bytes of the buffer are there. */
INLINE uint64_t scalar_buffer_room(const struct wave *w, const struct insn *i, uint64_t *address)
{
    const uint32_t *const rsrc = w->s + i->op[1].reg;
    const uint64_t offset = scalar_address(w, i) - scalar64(w, &i->op[1]);
    const uint64_t limit =
        (rsrc[1] >> 16 & 0x3fff) ? (uint64_t)(rsrc[1] >> 16 & 0x3fff) * rsrc[2] : rsrc[2];

    *address = ((rsrc[0] | (uint64_t)rsrc[1] << 32) & 0xffffffffffffu) + offset;
    return offset < limit ? limit - offset : 0;
}

BODY(s_buffer_load)
{
    const unsigned bytes = 4u * i->op[0].words;
    uint64_t address;
    const uint64_t room = scalar_buffer_room(w, i, &address) & ~(uint64_t)3;

    if (room >= bytes)
        return scalar_load(w, i, address, bytes, false);
    memset(w->s + i->op[0].reg, 0, bytes);
    if (w->shadow)
        memset(w->shadow->w.s + i->op[0].reg, 0, bytes);
    return room ? scalar_load(w, i, address, (unsigned)room, false) : next(w, i);
}

INLINE const struct insn *scalar_buffer_part(struct wave *w, const struct insn *i, unsigned bytes,
                                             bool sign)
{
    uint64_t address;

    if (scalar_buffer_room(w, i, &address) >= bytes)
        return scalar_load(w, i, address, bytes, sign);
    w->s[i->op[0].reg] = 0;
    if (w->shadow)
        w->shadow->w.s[i->op[0].reg] = 0;
    return next(w, i);
}
BODY(s_buffer_load_u8)
{
    return scalar_buffer_part(w, i, 1, false);
}
BODY(s_buffer_load_i8)
{
    return scalar_buffer_part(w, i, 1, true);
}
BODY(s_buffer_load_u16)
{
    return scalar_buffer_part(w, i, 2, false);
}
BODY(s_buffer_load_i16)
{
    return scalar_buffer_part(w, i, 2, true);
}
BODY(s_load_u8)
{
    return scalar_load(w, i, scalar_address(w, i), 1, false);
}
BODY(s_load_i8)
{
    return scalar_load(w, i, scalar_address(w, i), 1, true);
}
BODY(s_load_u16)
{
    return scalar_load(w, i, scalar_address(w, i), 2, false);
}
BODY(s_load_i16)
{
    return scalar_load(w, i, scalar_address(w, i), 2, true);
}

/* ---- The table ------------------------------------------------------------------------------- */

#define ROW_(NAME, CLASS, UNDEF, OPERANDS, BODY)                                                   \
    {#NAME, QUERN_CLASS_##CLASS, UNDEF_##UNDEF, OPERANDS, x_##BODY},
#define BRANCH(NAME, UNDEF)  ROW_(NAME, BRANCH, UNDEF, "L0", NAME)
#define WAIT(NAME)           ROW_(NAME, WAIT, NONE, "*", nothing)
#define NOTHING(NAME, CLASS) ROW_(NAME, CLASS, NONE, "*", nothing)
#define SMEM(NAME)           ROW_(NAME, SMEM, ADDRESS, "=X0t1s2", s_load)
#define SBUFFER(NAME)        ROW_(NAME, SMEM, ADDRESS, "=X0T1s2", s_buffer_load)

/* clang-format off */
const struct sim_row rows_flow[] = {
    BRANCH(s_branch, NONE)
    BRANCH(s_cbranch_scc0, IF_SCC)
    BRANCH(s_cbranch_scc1, IF_SCC)
    BRANCH(s_cbranch_vccz, IF_VCC)
    BRANCH(s_cbranch_vccnz, IF_VCC)
    BRANCH(s_cbranch_execz, NONE)
    BRANCH(s_cbranch_execnz, NONE)
    ROW_(s_getpc_b64, SALU, MUST, "=t0", s_getpc_b64)
    ROW_(s_setpc_b64, BRANCH, MUST, "t1", s_setpc_b64)
    ROW_(s_swappc_b64, BRANCH, MUST, "=t0t1", s_swappc_b64)
    ROW_(s_call_b64, BRANCH, MUST, "=t0L1", s_call_b64)
    ROW_(s_endpgm, BRANCH, MUST, "*", s_endpgm)
    ROW_(s_endpgm_saved, BRANCH, MUST, "*", s_endpgm)
    ROW_(s_barrier, SALU, MUST, "", s_barrier)
    ROW_(s_barrier_signal, SALU, MUST, "s1", s_barrier_signal)
    ROW_(s_barrier_signal_isfirst, SALU, MUST, "s1", s_barrier_signal_isfirst)
    ROW_(s_barrier_wait, SALU, MUST, "I1", s_barrier_wait)
    ROW_(s_code_end, SALU, MUST, "", s_code_end)
    ROW_(s_trap, SALU, MUST, "*", s_trap)
    ROW_(s_getreg_b32, SALU, MUST, "=s0R1", s_getreg_b32)
    ROW_(s_setreg_b32, SALU, MUST, "R0s1", s_setreg_b32)
    ROW_(s_setreg_imm32_b32, SALU, MUST, "R0s1", s_setreg_b32)
    ROW_(s_round_mode, SALU, MUST, "I1", s_round_mode)
    ROW_(s_denorm_mode, SALU, MUST, "I1", s_denorm_mode)
    ROW_(s_memtime, SMEM, MUST, "=t0", s_memtime)
    ROW_(s_memrealtime, SMEM, MUST, "=t0", s_memtime)
    ROW_(s_sendmsg_rtn_b32, SALU, MUST, "=s0*", s_sendmsg_rtn_b32)
    ROW_(s_sendmsg_rtn_b64, SALU, MUST, "=t0*", s_memtime)
    WAIT(s_waitcnt)
    WAIT(s_waitcnt_vscnt)
    WAIT(s_waitcnt_vmcnt)
    WAIT(s_waitcnt_expcnt)
    WAIT(s_waitcnt_lgkmcnt)
    WAIT(s_waitcnt_depctr)
    WAIT(s_wait_idle)
    WAIT(s_wait_event)
    WAIT(s_wait_alu)
    WAIT(s_wait_loadcnt)
    WAIT(s_wait_storecnt)
    WAIT(s_wait_samplecnt)
    WAIT(s_wait_bvhcnt)
    WAIT(s_wait_expcnt)
    WAIT(s_wait_dscnt)
    WAIT(s_wait_kmcnt)
    WAIT(s_wait_loadcnt_dscnt)
    WAIT(s_wait_storecnt_dscnt)
    WAIT(s_nop)
    WAIT(s_delay_alu)
    WAIT(s_clause)
    WAIT(s_sleep)
    WAIT(s_sleep_var)
    WAIT(v_nop)
    NOTHING(s_sendmsg, SALU)
    NOTHING(s_setprio, SALU)
    NOTHING(s_set_inst_prefetch_distance, SALU)
    NOTHING(s_prefetch_inst, SMEM)
    NOTHING(s_prefetch_inst_pc_rel, SMEM)
    NOTHING(s_prefetch_data, SMEM)
    NOTHING(s_prefetch_data_pc_rel, SMEM)
    NOTHING(s_buffer_prefetch_data, SMEM)
    NOTHING(s_icache_inv, SALU)
    NOTHING(s_dcache_inv, SMEM)
    NOTHING(s_dcache_wb, SMEM)
    NOTHING(s_gl1_inv, SMEM)
    NOTHING(s_ttracedata, SALU)
    NOTHING(s_incperflevel, SALU)
    NOTHING(s_decperflevel, SALU)
    NOTHING(buffer_gl0_inv, VMEM)
    NOTHING(buffer_gl1_inv, VMEM)
    NOTHING(buffer_wbl2, VMEM)
    NOTHING(buffer_inv, VMEM)
    NOTHING(buffer_wbinvl1, VMEM)
    NOTHING(buffer_wbinvl1_vol, VMEM)
    NOTHING(buffer_invl2, VMEM)
    NOTHING(global_inv, VMEM)
    NOTHING(global_wb, VMEM)
    NOTHING(global_wbinv, VMEM)
    SMEM(s_load_b32)
    SMEM(s_load_b64)
    SMEM(s_load_b96)
    SMEM(s_load_b128)
    SMEM(s_load_b256)
    SMEM(s_load_b512)
    SMEM(s_load_dword)
    SMEM(s_load_dwordx2)
    SMEM(s_load_dwordx4)
    SMEM(s_load_dwordx8)
    SMEM(s_load_dwordx16)
    SBUFFER(s_buffer_load_b32)
    SBUFFER(s_buffer_load_b64)
    SBUFFER(s_buffer_load_b96)
    SBUFFER(s_buffer_load_b128)
    SBUFFER(s_buffer_load_b256)
    SBUFFER(s_buffer_load_b512)
    SBUFFER(s_buffer_load_dword)
    SBUFFER(s_buffer_load_dwordx2)
    SBUFFER(s_buffer_load_dwordx4)
    SBUFFER(s_buffer_load_dwordx8)
    SBUFFER(s_buffer_load_dwordx16)
    ROW_(s_buffer_load_u8, SMEM, ADDRESS, "=s0T1s2", s_buffer_load_u8)
    ROW_(s_buffer_load_i8, SMEM, ADDRESS, "=s0T1s2", s_buffer_load_i8)
    ROW_(s_buffer_load_u16, SMEM, ADDRESS, "=s0T1s2", s_buffer_load_u16)
    ROW_(s_buffer_load_i16, SMEM, ADDRESS, "=s0T1s2", s_buffer_load_i16)
    ROW_(s_load_u8, SMEM, ADDRESS, "=s0t1s2", s_load_u8)
    ROW_(s_load_i8, SMEM, ADDRESS, "=s0t1s2", s_load_i8)
    ROW_(s_load_u16, SMEM, ADDRESS, "=s0t1s2", s_load_u16)
    ROW_(s_load_i16, SMEM, ADDRESS, "=s0t1s2", s_load_i16)
    {0}};
/* clang-format on */
