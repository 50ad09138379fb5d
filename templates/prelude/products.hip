/* SPDX-License-Identifier: MIT */
// Products of pairs of weights with pairs of A, for decoders that have weights in registers as a
// `pair`, and their sums.

// A lane's sum of the products of one row of W with one of A: of even and odd k apart when PACKED.
// A MATRIX instruction multiplies the weights of each of four lanes with the A of each of the four:
// a lane's own sum is the one on the diagonal, and the other three mean nothing.
template <products> struct sum_type { typedef float type; };
template <> struct sum_type<PACKED> { typedef f32x2 type; };
template <> struct sum_type<MATRIX> { typedef f32x4 type; };
typedef sum_type<PRODUCTS>::type lane_sum;

constexpr u32 PAIRS_AT_ONCE = PRODUCTS == MATRIX ? 2 : 1; // of one multiplication

// A sum that is `value`; or, of MATRIX, whose diagonal is.
DEVICE void start_at(float &sum, float value) { sum = value; }
DEVICE void start_at(f32x2 &sum, float value) { sum = f32x2{value, 0.0f}; }
DEVICE void start_at(f32x4 &sum, float value) { sum = f32x4{value, value, value, value}; }

// What a lane has of a sum.
DEVICE float own_part(float sum, u32) { return sum; }
DEVICE float own_part(f32x2 sum, u32) { return sum.x + sum.y; }
DEVICE float own_part(f32x4 sum, u32 lane)
{
    const float low = lane & 1 ? sum.y : sum.x, high = lane & 1 ? sum.w : sum.z;
    return lane & 2 ? high : low;
}

// What scaled sums add up to: even and odd k together.
typedef sum_type<PRODUCTS == MATRIX ? MATRIX : DOT2>::type lane_total;

// to + x * by.
DEVICE float add_scaled(float to, float x, float by) { return __builtin_fmaf(x, by, to); }
DEVICE float add_scaled(float to, f32x2 x, float by) { return __builtin_fmaf(x.x + x.y, by, to); }
template <class SUM> DEVICE SUM add_scaled(SUM to, SUM x, float by)
{
    return __builtin_elementwise_fma(x, (SUM)by, to);
}

// The totals of a wave over its lanes: see `reduce`.
template <u32 VALUES> DEVICE float reduce(float (&total)[VALUES], u32 lane)
{
    return reduce<VALUES, 1>(total, lane);
}
template <u32 VALUES> DEVICE float reduce(f32x4 (&total)[VALUES], u32 lane)
{
    float v[VALUES];
    UNROLL for (u32 i = 0; i < VALUES; i++)
        v[i] = sum_of_diagonal(total[i]);
    return reduce<VALUES, 4>(v, lane);
}

// Pair `index` of some dwords of A, in f32.
template <class A> DEVICE f32x2 widen(const A &a, u32 index)
{
    u32 a0, a1;
    if constexpr (A_TYPE == F32) {
        a0 = a[index * 2], a1 = a[index * 2 + 1];
    } else { // bf16 is the upper half of an f32
        a0 = a[index] << 16, a1 = a[index] & 0xffff0000;
    }
    return {__builtin_bit_cast(float, a0), __builtin_bit_cast(float, a1)};
}

// Sixteen matrix products of 4 by 4. In each, four lanes give the rows and the columns, two pairs
// of 16-bit values each, and every lane gets the column that is its own.
template <class PAIRS> DEVICE f32x4 multiply_blocks(PAIRS row, PAIRS column, f32x4 sum)
{
    if constexpr (A_TYPE == F16)
        return __builtin_amdgcn_mfma_f32_4x4x4f16(__builtin_bit_cast(f16x4, row),
                                                  __builtin_bit_cast(f16x4, column), sum, 0, 0, 0);
    else
        return __builtin_amdgcn_mfma_f32_4x4x4bf16_1k(
            __builtin_bit_cast(i16x4, row), __builtin_bit_cast(i16x4, column), sum, 0, 0, 0);
}

// sum + the products of pair `index` of A with `w`; of that pair and the next when MATRIX.
template <class A, class PAIR, class SUM>
DEVICE SUM multiply_add(const A &a, u32 index, PAIR w, PAIR w_next, SUM sum)
{
    if constexpr (PRODUCTS == MATRIX) {
        return multiply_blocks(u32x2{w, w_next}, u32x2{a[index], a[index + 1]}, sum);
    } else if constexpr (PRODUCTS == PACKED) {
        return __builtin_elementwise_fma(widen(a, index), w, sum);
    } else if constexpr (PRODUCTS == PLAIN) {
        const f32x2 x = widen(a, index);
        sum = __builtin_fmaf(x.x, w.x, sum);
        return __builtin_fmaf(x.y, w.y, sum);
    } else {
        const u32 x = a[index];
        if constexpr (A_TYPE == F16)
            return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, x),
                                          __builtin_bit_cast(f16x2, w), sum, false);
        else
            return __builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(bf16x2, x),
                                                   __builtin_bit_cast(bf16x2, w), sum, false);
    }
}

// The pair of A and of row `r` of W that is multiplied at `q`: neighbours share no operand,
// so that they can be issued together.
template <u32 PAIRS> DEVICE constexpr u32 turn(u32 q, u32 r)
{
    return (q + r * PAIRS_AT_ONCE) % PAIRS;
}

// Puts weights whose products are issued as a pair into neighbouring registers, which are of
// different banks. `pair_of(r, p)` is pair p of the weights of row r of W.
template <u32 PAIRS, class W> DEVICE void pair_weights(W pair_of)
{
#if PAIRED
    UNROLL for (u32 q = 0; q < PAIRS; q++) UNROLL for (u32 r = 0; r < ROWS; r += 2) {
        u32 &one = pair_of(r, turn<PAIRS>(q, r)), &next = pair_of(r + 1, turn<PAIRS>(q, r + 1));
        u32 both[2] = {one, next};
        computed_all<true>(both);
        one = both[0], next = both[1];
    }
#endif
}

// Adds the products of a row of A with ROWS rows of W to that row's sums.
template <u32 PAIRS, class A, class W>
DEVICE void add_products(const A &a, W pair_of, lane_sum *sum)
{
    UNROLL for (u32 q = 0; q < PAIRS; q += PAIRS_AT_ONCE) {
#if PAIRED
        UNROLL for (u32 r = 0; r < ROWS; r += 2) {
            const u32 p = turn<PAIRS>(q, r), next = turn<PAIRS>(q, r + 1);
            dual_dot2(sum[r], pair_of(r, p), a[p], sum[r + 1], pair_of(r + 1, next), a[next]);
        }
#else
        UNROLL for (u32 r = 0; r < ROWS; r++) {
            const u32 p = turn<PAIRS>(q, r);
            sum[r] = multiply_add(a, p, pair_of(r, p), pair_of(r, p + PAIRS_AT_ONCE - 1), sum[r]);
        }
#endif
    }
}
