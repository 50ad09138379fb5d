/* SPDX-License-Identifier: MIT */
// For waves whose matrix instruction makes sixteen products of four rows of W with four of A, at
// different k: sums over a wave's sixteen products, and over the waves that share rows of W. Every
// lane puts its sums into LDS, and each then adds up some that belong together: sixteen of each
// wave.

constexpr u32 LANES_N = ROW_LANES; // lanes with rows of W of their own: 4

// A lane puts the sums of so many fours of rows of A into LDS at once: of all of A's rows, or of as
// many as there is room for.
constexpr u32 PUT_TILES = minimum(M_TILE / 4, SHARED_BYTES / (WAVES * ROWS * 1024));
constexpr u32 PUT = PUT_TILES * ROWS, ROUNDS = M_TILE / 4 / PUT_TILES;
// So many lanes share the work of adding up the same sums; they differ in bits 0, 3, 4 and 5. Those
// that differ in bits 0 and 3 are left with different rows of A.
constexpr u32 SHARERS = minimum(SPLIT_K * 16 / PUT, 16);
constexpr u32 ROUND_RESULTS = SHARERS >= 4 ? 1 : 2;
constexpr u32 RESULTS = ROUNDS * ROUND_RESULTS; // that a lane is left with

// Which result a lane is left with.
struct square_result {
    u32 tile, row; // of A's tiles of four, and in it
    u32 own, lane; // which of the ROWS rows of W, and of which lane
    bool owner;    // true in exactly one lane
};
DEVICE u32 square_put(u32 wave, u32 lane)
{
    return (wave % SPLIT_K * WAVE + lane) / (SHARERS * 4);
}
DEVICE square_result square_place(u32 wave, u32 lane, u32 j)
{
    const u32 put = square_put(wave, lane), low = SHARERS >= 4 ? lane >> 3 & 1 : j % ROUND_RESULTS;
    return {j / ROUND_RESULTS * PUT_TILES + put / ROWS, (lane & 1) * 2 + low, put % ROWS,
            lane / 2 % 4, put < PUT && (lane & (SHARERS / 8 * 16)) == 0};
}

// Reduces a lane's sums, [tile of A][row of W], to its results.
DEVICE void square_reduce(const f32x4 *total, float (&result)[RESULTS], LDS f32x4 *partial,
                          u32 wave, u32 lane)
{
    const u32 put = minimum(square_put(wave, lane), PUT - 1);
    const u32 part = lane % 2 + lane / 8 % (SHARERS / 2) * 2;
    const LDS f32x4 *const from =
        partial + (wave / SPLIT_K * SPLIT_K * PUT + put) * WAVE + part * 4 + lane / 2 % 4;
    UNROLL for (u32 round = 0; round < ROUNDS; round++) {
        barrier();
        UNROLL for (u32 t = 0; t < PUT; t++)
            partial[(wave * PUT + t) * WAVE + lane] = total[round * PUT + t];
        barrier();
        f32x4 sum = from[0];
        UNROLL for (u32 q = SHARERS; q < SPLIT_K * 16; q += SHARERS)
            sum += from[q / 16 * (PUT * WAVE) + q % 16 * 4];
        float v[4] = {sum.x, sum.y, sum.z, sum.w};
        reduce_step<4, 0>(v, lane);
        if (SHARERS >= 4)
            reduce_step<2, 3>(v, lane);
        if (SHARERS == 8)
            v[0] += across<4>(v[0], lane);
        if (SHARERS == 16)
            v[0] = sum_of_rows(v[0], lane);
        UNROLL for (u32 j = 0; j < ROUND_RESULTS; j++)
            result[round * ROUND_RESULTS + j] = v[j];
    }
}
