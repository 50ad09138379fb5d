/* SPDX-License-Identifier: MIT */
// Which die runs a workgroup, by its hardware register XCC_ID; the first may be on any.

PROBE
{
    u32 die;
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_XCC_ID, 0, 4)" : "=s"(die));
    answer(memory, die < DIES ? 1u << (die + DIES - group_of() % DIES) % DIES : 0);
}
