/* SPDX-License-Identifier: MIT */
// How kernels on matrix units store C: of a product a lane has sums of rows n and n + 8 of W, each
// with two rows of A.

typedef typename element_of<C_TYPE>::type c_element;

// Where results of COUNT rows of a slice go, and their factors. Loads of both rows begin at once.
struct stored_rows {
    u32 row[2];
    float factor[2];
};
template <u32 COUNT> DEVICE stored_rows rows_to_store(SLOT_PARAMETER u32 at, u32 first, u32 m)
{
    stored_rows to = {};

    UNROLL for (u32 i = 0; i < COUNT; i++)
        to.row[i] = STORED_ROW(at + i);
    UNROLL for (u32 i = 0; i < COUNT; i++)
        to.factor[i] = ROUTING(to.row[i]);
    return to;
}

// Stores sums, times `unit`: all four, or with COUNT 1 the first.
template <u32 COUNT>
DEVICE void store_results(LAYER_PARAMETER const float *sums, float unit, u32 n,
                          const stored_rows &to, const c_element *bias, c_element *c, i64 ldc)
{
    float biases[2] = {};

#if BIAS
    UNROLL for (u32 i = 0; i < divide_up(COUNT, 2); i++)
        biases[i] = HAS_BIAS ? load<C_TYPE>(bias + W_ROW(smaller(n + i * 8, N - 1))) : 0;
#endif
    UNROLL for (u32 i = 0; i < COUNT; i++) {
        const u32 own = n + i / 2 * 8, row = to.row[i % 2];
        float value = sums[i] * unit;
        if (BIAS)
            value += biases[i / 2];
#if GLU // the other row of a pair is another lane's, and all lanes take part in the shuffle
        value = activated(value, shuffle_xor(value, 4));
#endif
        if (row != NO_ROW && own < N && HAS_COLUMN(own))
            stg(c + (i64)row * ldc + C_COLUMN(own), rounded<C_TYPE>(value * to.factor[i % 2]));
    }
}
