/* SPDX-License-Identifier: MIT */
// Loads of 16 bytes from every multiple of 4: the words from there on, or those from the multiple
// of 16 before it.

typedef u32 words __attribute__((ext_vector_type(4), aligned(4)));

PROBE
{
    const u32 at = 64 * WAVE + group_of() * WAVE + lane_of();
    const words got = *(const words *)(memory + at);
    u32 values = 3;
    UNROLL for (u32 i = 0; i < 4; i++)
        values &= (got[i] == at + i ? 1 : 0) | (got[i] == at / 4 * 4 + i ? 2 : 0);
    answer(memory, values);
}
