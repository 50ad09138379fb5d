/* SPDX-License-Identifier: MIT */
// Eight-bit floats, e4m3: a sign, four bits of exponent, three of mantissa. FNUZ ones are worth
// half of what OCP's are for the same bits, their one NaN is 0x80, and 0x7f is a number.
//
// FP8_NATIVE: the processor has instructions for these bytes. FP8_HALVED: it has some for FNUZ, and
// the bytes are OCP's, which those take for half of what they are. FP8_SOFTWARE: it has none, and
// shifts make f16 of the bytes. In the last two a NaN would become a number: so NaNs are noted
// (examine), and put into the results that they belong to.

constexpr u32 FP8 = BF16 + 1; // a further type of elements
enum fp8_form { FP8_NATIVE, FP8_HALVED, FP8_SOFTWARE };
constexpr u32 EVERY_MAGNITUDE = 0x7f7f7f7f, EVERY_SIGN = 0x80808080; // of the bytes of a dword

template <> struct number<FP8> {
    static constexpr u32 SIZE = 1;
    static constexpr bool NOTES_NAN = FORM != FP8_NATIVE;
    static constexpr float UNIT = FORM == FP8_HALVED ? 2.0f : 1.0f;

    // Notes the NaNs of four bytes in the sign bits of `seen`. FNUZ has no -0: it loses its sign.
    DEVICE void examine(u32 &raw, u32 &seen)
    {
        const u32 magnitude = raw & EVERY_MAGNITUDE;
        const u32 is_zero = EVERY_SIGN - magnitude, is_most = magnitude + 0x01010101;
        if constexpr (NOTES_NAN)
            seen |= FNUZ ? is_zero & raw : is_most;
        if constexpr (FORM == FP8_HALVED)
            raw &= ~(is_zero & EVERY_SIGN);
    }
    // Two bytes as f16 or bf16, which have room for every value.
    template <element TYPE> DEVICE u32 halves(const u32 *raw, u32 p)
    {
        if constexpr (FORM == FP8_SOFTWARE) {
            const f16x2 both = half_pair(raw, p);
            return TYPE == BF16 ? upper_halves({(float)both.x, (float)both.y})
                                  : __builtin_bit_cast(u32, both);
        } else {
#if HAS_CVT_SCALEF32
            const u32 word = raw[p / 2];
            if constexpr (TYPE == BF16)
                return __builtin_bit_cast(
                    u32, p % 2 ? __builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(word, 1.0f, true)
                               : __builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(word, 1.0f, false));
            else
                return __builtin_bit_cast(
                    u32, p % 2 ? __builtin_amdgcn_cvt_scalef32_pk_f16_fp8(word, 1.0f, true)
                               : __builtin_amdgcn_cvt_scalef32_pk_f16_fp8(word, 1.0f, false));
#else
            const f32x2 both = pair(raw, p);
            return TYPE == BF16
                       ? upper_halves(both)
                       : __builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(both.x, both.y));
#endif
        }
    }
    // Two values as f32.
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        if constexpr (FORM == FP8_SOFTWARE) {
            const f16x2 both = half_pair(raw, p);
            return {(float)both.x, (float)both.y};
        } else {
            return p % 2 ? __builtin_amdgcn_cvt_pk_f32_fp8(raw[p / 2], true)
                         : __builtin_amdgcn_cvt_pk_f32_fp8(raw[p / 2], false);
        }
    }

  private:
    // Two bytes as f16, by shifts.
    DEVICE f16x2 half_pair(const u32 *raw, u32 p)
    {
        // each byte is put above a zero byte, and shifted so that its exponent and mantissa are in
        // the places of f16's; f16's exponents have a bias that is higher by 8 (OCP) or 7 (FNUZ)
        typedef short i16x2 __attribute__((ext_vector_type(2)));
        const u32 apart = __builtin_amdgcn_perm(0, raw[p / 2], p % 2 ? 0x030c020c : 0x010c000c);
        const i16x2 moved = __builtin_bit_cast(i16x2, apart) >> 1;
        const u32 bits = __builtin_bit_cast(u32, moved) & 0xbf80bf80;
        const f16 unit = FNUZ ? 128.0f : 256.0f;
        return __builtin_bit_cast(f16x2, bits) * f16x2{unit, unit};
    }
    // Two f32 as bf16, of values that need no rounding.
    DEVICE u32 upper_halves(f32x2 value)
    {
        const float low = value.x, high = value.y;
        return __builtin_amdgcn_perm(__builtin_bit_cast(u32, high), __builtin_bit_cast(u32, low),
                                     0x07060302);
    }
};
