/* SPDX-License-Identifier: MIT */
// For waves in which eight neighbouring lanes have eight rows of W: sums over the other lane bits,
// 3 and up. As in `reduce`, a lane gives half of its values to a partner and takes the partner's
// other half, until all bits are summed over or it has one value left.

constexpr u32 LANES_N = ROW_LANES;                  // lanes with rows of their own: 1 or 8
constexpr u32 SPREAD_BITS = WAVE == 64 ? 3 : 2;     // lane bits that are summed over
// Results that a lane is left with.
constexpr u32 RESULTS = LANES_N == 1 || ROWS * M_TILE <= 1 << SPREAD_BITS
                            ? 1 : (ROWS * M_TILE) >> SPREAD_BITS;

template <u32 VALUES> DEVICE void spread_reduce(float *v, float (&result)[RESULTS], u32 lane)
{
    reduce_step<VALUES, 3>(v, lane);
    reduce_step<(VALUES + 1) / 2, 4>(v, lane);
    if constexpr (WAVE == 64)
        reduce_step<(VALUES + 3) / 4, 5>(v, lane);
    UNROLL for (u32 j = 0; j < RESULTS; j++)
        result[j] = v[j];
}

// Which of the VALUES sums a lane's result `j` is: the highest bits of that number are the lane's
// bits 3, 4 and 5, in this order.
template <u32 VALUES> DEVICE u32 spread_index(u32 lane, u32 j)
{
    u32 index = j;
    u32 rest = VALUES;
    UNROLL for (u32 bit = 3; bit < 3 + SPREAD_BITS && rest > 1; bit++) {
        rest /= 2;
        index += (lane >> bit & 1) * rest;
    }
    return index;
}
// True in exactly one lane for each value and row.
template <u32 VALUES> DEVICE bool spread_owner(u32 lane)
{
    u32 rest = VALUES, spare = 0;
    UNROLL for (u32 bit = 3; bit < 3 + SPREAD_BITS; bit++) {
        if (rest <= 1)
            spare |= 1 << bit;
        rest /= 2;
    }
    return (lane & spare) == 0;
}
