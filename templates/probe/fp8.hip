/* SPDX-License-Identifier: MIT */
// The conversion of a normal 8-bit float, which is worth half as much if it is FNUZ.

PROBE
{
    const u32 code = 8 + lane_of() % 64, ocp = ((code >> 3) + 120) << 23 | (code & 7) << 20;
    const f32x2 value = __builtin_amdgcn_cvt_pk_f32_fp8(code, false);
    const float full = __builtin_bit_cast(float, ocp), half = full / 2;
    answer(memory, (value.x == (HAS_FP8_FNUZ ? half : full) ? 1 : 0) |
                       (value.x == (HAS_FP8_FNUZ ? full : half) ? 2 : 0));
}
