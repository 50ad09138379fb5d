/* SPDX-License-Identifier: MIT */
// Sums over the lanes of a wave. A wave that holds VALUES sums per lane folds them in halves: in
// each step a lane gives half of its values to a partner and takes the partner's other half, until
// it has one. No LDS, and one store at the end for all VALUES.

// The value of the lane whose number differs in bit `BIT`. For bit 2 it is that of the lane
// mirrored within its eight, which will do, because lanes that differ in bits 1 and 0 are summed
// afterwards.
template <u32 BIT> DEVICE float across(float v, u32 lane)
{
    const u32 bits = __builtin_bit_cast(u32, v);
    u32 other;
    if constexpr (BIT == 5) { // through LDS hardware, not its memory
        other = __builtin_amdgcn_ds_bpermute((lane ^ 32) * 4, bits);
    } else if constexpr (BIT == 4 && !HAS_ROW_XMASK) { // the same; swap 16 within each half
        other = __builtin_amdgcn_ds_swizzle(bits, 0x401f);
    } else if constexpr (BIT == 4) { // v_permlanex16: lane i of the other row of 16
        other = __builtin_amdgcn_permlanex16(bits, bits, 0x76543210, 0xfedcba98, false, false);
    } else { // DPP: row_ror:8, row_half_mirror, quad_perm:[2,3,0,1], quad_perm:[1,0,3,2]
        other = __builtin_amdgcn_update_dpp(
            0, bits, BIT == 3 ? 0x128 : BIT == 2 ? 0x141 : BIT == 1 ? 0x4e : 0xb1, 0xf, 0xf, true);
    }
    return __builtin_bit_cast(float, other);
}

// The value of lane `LANE` of this lane's four.
template <u32 LANE> DEVICE float of_lane(float v)
{
    return __builtin_bit_cast(float, // DPP: quad_perm:[LANE, LANE, LANE, LANE]
                              __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(u32, v),
                                                          LANE * 0x55, 0xf, 0xf, true));
}

// Of four neighbouring lanes' four numbers each, the sum of the first lane's first number, the
// second lane's second and so on. All four lanes get it.
DEVICE float sum_of_diagonal(f32x4 v)
{
    return of_lane<0>(v.x) + of_lane<1>(v.y) + of_lane<2>(v.z) + of_lane<3>(v.w);
}

// Of two lanes that differ in bit `BIT`, the one where it is clear gets the sum of both lanes'
// `clear`, the other that of both lanes' `set`. Where DPP needs no wait states behind what made its
// operands, that is two DPP instructions in assembly, each of which writes to half of the lanes.
template <u32 BIT> DEVICE float fold(float clear, float set, u32 lane)
{
    float sum;
    if constexpr (BIT == 3 && HAS_DPP_INTERLOCK) {
        asm("v_add_f32_dpp %0, %1, %1 row_ror:8 row_mask:0xf bank_mask:0x3\n\t"
            "v_add_f32_dpp %0, %2, %2 row_ror:8 row_mask:0xf bank_mask:0xc"
            : "=&v"(sum) : "v"(clear), "v"(set));
    } else if constexpr (BIT == 2 && HAS_DPP_INTERLOCK) {
        asm("v_add_f32_dpp %0, %1, %1 row_half_mirror row_mask:0xf bank_mask:0x5\n\t"
            "v_add_f32_dpp %0, %2, %2 row_half_mirror row_mask:0xf bank_mask:0xa"
            : "=&v"(sum) : "v"(clear), "v"(set));
    } else {
        const bool mine = lane >> BIT & 1;
        sum = (mine ? set : clear) + across<BIT>(mine ? clear : set, lane);
    }
    return sum;
}

template <u32 VALUES, u32 BIT> DEVICE void reduce_step(float *v, u32 lane)
{
    UNROLL for (u32 i = 0; i < (VALUES + 1) / 2; i++)
        v[i] = VALUES > 1 ? fold<BIT>(v[i], v[i + VALUES / 2], lane)
                          : v[i] + across<BIT>(v[i], lane);
}

// The same for a bit that lanes with the same values differ in, bit 1 or 0: there is nothing to
// sum, and a lane only keeps one half of its values.
template <u32 VALUES, u32 BIT> DEVICE void choose_step(float *v, u32 lane)
{
    UNROLL for (u32 i = 0; i < VALUES / 2; i++) {
        const float clear = v[i], set = v[i + VALUES / 2]; // or v is put into memory
        v[i] = lane >> BIT & 1 ? set : clear;
    }
}

// The sum of a value over lane bits 4 and 5. The matrix instruction multiplies ones with a lane's
// value at row lane / 16 and column lane % 16.
DEVICE float sum_of_rows(float v, u32 lane)
{
#if HAS_MFMA
    float sum = __builtin_amdgcn_mfma_f32_16x16x4f32(1.0f, v, f32x4{}, 0, 0, 0)[0];
    // In a mixture's kernel a branch follows, around the load of the row's weight. Between a matrix
    // instruction and what reads or overwrites its result behind such a branch the compiler leaves
    // one or two wait states too few: 8 of 10 on gfx942, 10 of 11 on gfx90a. Here are all eleven.
    if (MOE)
        asm volatile("s_nop 10" : "+v"(sum));
    return sum;
#else
    v += across<4>(v, lane);
    return WAVE == 64 ? v + across<5>(v, lane) : v;
#endif
}

// Sums v[0] to v[VALUES-1] over the lanes, VALUES a power of two up to 32. The sum that a lane gets
// is that of value reduced_index(lane); lanes that hold the same one agree. ALIKE: how many
// neighbouring lanes hold the same v, 1 or 4, which are summed once.
template <u32 VALUES, u32 ALIKE> DEVICE float reduce(float *v, u32 lane)
{
    reduce_step<VALUES, 3>(v, lane);
    reduce_step<(VALUES + 1) / 2, 2>(v, lane);
    if constexpr (ALIKE == 4) {
        choose_step<(VALUES + 3) / 4, 1>(v, lane);
        choose_step<(VALUES + 7) / 8, 0>(v, lane);
    } else {
        reduce_step<(VALUES + 3) / 4, 1>(v, lane);
        reduce_step<(VALUES + 7) / 8, 0>(v, lane);
    }
    if constexpr (VALUES <= 16)
        return sum_of_rows(v[0], lane);
    reduce_step<2, 4>(v, lane);
    return WAVE == 64 ? v[0] + across<5>(v[0], lane) : v[0];
}
template <u32 VALUES> DEVICE u32 reduced_index(u32 lane)
{
    return VALUES == 32 ? (lane & 15) << 1 | (lane >> 4 & 1)
                        : (lane & 15) / (16 / minimum(VALUES, 16));
}
// The lane bit in which lanes with values 2i and 2i + 1 differ.
template <u32 VALUES> constexpr u32 reduced_pair_bit()
{
    return VALUES == 32 ? 4 : VALUES == 16 ? 0 : VALUES == 8 ? 1 : VALUES == 4 ? 2 : 3;
}
// True in exactly one lane for each value.
template <u32 VALUES> DEVICE bool reduced_owner(u32 lane)
{
    if (VALUES == 32)
        return lane < 32;
    const u32 steps = 16 - 16 / minimum(VALUES, 16); // the bits that tell values apart
    return (lane & ~steps) == 0;
}
