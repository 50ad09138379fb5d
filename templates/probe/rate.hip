/* SPDX-License-Identifier: MIT */
// Loads that caches answer, of 16 bytes, neighbour beside neighbour; or (APART) of 4,
// each lane from a line of its own.

PROBE
{
    u32 sum = 0;
    const u32 lane = lane_of();
    if (APART) {
        for (u32 i = 0; i < READS; i += 8)
            UNROLL for (u32 j = 0; j < 8; j++)
                sum += rest(memory)[(lane * 32 + (i + j) % 32) % 8192];
    } else {
        for (u32 i = 0; i < READS / 16; i += 8)
            UNROLL for (u32 j = 0; j < 8; j++) {
                const u32x4 got = ((const u32x4 *)rest(memory))[((i + j) * WAVE + lane) % 8192];
                sum += got.x + got.y + got.z + got.w;
            }
    }
    if (sum == 1) // it never is, which the compiler cannot know
        answer(memory, sum);
}
