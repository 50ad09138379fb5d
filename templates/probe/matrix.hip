/* SPDX-License-Identifier: MIT */
// A matrix instruction on two matrices of small integers, all sums of which are exact: whether the
// result is where the prelude says that it is, or where that of the factors exchanged would be.

DEVICE u32 element_a(u32 row, u32 k) { return 1 + (row * 3 + k * 5) % 7; }
DEVICE u32 element_w(u32 row, u32 k) { return 1 + (row * 2 + k * k) % 5; }
DEVICE float sum_of(u32 row_a, u32 row_w)
{
    u32 sum = 0;
    for (u32 k = 0; k < K_LANES * K_OF_LANE; k++)
        sum += element_a(row_a, k) * element_w(row_w, k);
    return (float)sum;
}

PROBE
{
    // side by side lie so many products of matrices, with rows of their own
    const u32 lane = lane_of(), own = lane % SIDE, part = lane / SIDE % K_LANES;
    const u32 first = SIDE < 16 ? lane / SIDE * SIDE : 0;
    f16 a[K_OF_LANE], w[K_OF_LANE];
    UNROLL for (u32 e = 0; e < K_OF_LANE; e++) {
        a[e] = (f16)element_a(first + own, part * K_OF_LANE + e);
        w[e] = (f16)element_w(first + own, part * K_OF_LANE + e);
    }
    operand of_a, of_w;
    __builtin_memcpy(&of_a, a, sizeof of_a);
    __builtin_memcpy(&of_w, w, sizeof of_w);
    tile zero = {};
    const tile sum = multiply_add(of_a, of_w, zero);
    u32 values = 3;
    UNROLL for (u32 v = 0; v < TILE_VALUES; v++) {
        const u32 row = tile_row(v, lane);
        values &= (sum[v] == sum_of(first + row, first + own) ? 1 : 0) |
                  (sum[v] == sum_of(first + own, first + row) ? 2 : 0);
    }
    answer(memory, values);
}
