/* SPDX-License-Identifier: MIT */
/*
 * Conversions. Where C leaves an out-of-range result open, either the range is tested first or an
 * instruction that saturates is called by name.
 */

FUNCTION1(f32, i32_to_f32, i32, a) { return (f32)a; }
FUNCTION1(f32, u32_to_f32, u32, a) { return (f32)a; }
FUNCTION1(f32, i64_to_f32, i64, a) { return (f32)a; }
FUNCTION1(f32, u64_to_f32, u64, a) { return (f32)a; }
FUNCTION1(f64, i32_to_f64, i32, a) { return a; }
FUNCTION1(f64, u32_to_f64, u32, a) { return a; }
FUNCTION1(f64, i64_to_f64, i64, a) { return (f64)a; }
FUNCTION1(f64, u64_to_f64, u64, a) { return (f64)a; }
FUNCTION1(f16, i16_to_f16, i16, a) { return (f16)a; }
FUNCTION1(f16, u16_to_f16, u16, a) { return (f16)(f32)a; }
FUNCTION1(f16, i32_to_f16, i32, a) { return (f16)(f32)a; }
FUNCTION1(f32, i16_to_f32, i16, a) { return a; }
FUNCTION1(f32, u16_to_f32, u16, a) { return a; }
FUNCTION1(f32, i8_to_f32, i8, a) { return a; }
FUNCTION1(f32, u8_to_f32, u8, a) { return a; }
FUNCTION1(f32, bytes_to_f32, u32, a)
{
    return (f32)(a & 0xff) * 1.0f + (f32)(a >> 8 & 0xff) * 2.0f + (f32)(a >> 16 & 0xff) * 4.0f +
           (f32)(a >> 24) * 8.0f;
}
FUNCTION1(f32x2, middle_bytes_to_f32, u32, a)
{
    f32x2 r = {cvt_f32_ubyte1(a), cvt_f32_ubyte2(a)};
    return r;
}
FUNCTION1(f32, offset_nibble_to_f32, u32, a) { return cvt_off_f32_i4(a); }

FUNCTION1(f64, f32_to_f64, f32, a) { return a; }
FUNCTION1(f32, f64_to_f32, f64, a) { return (f32)a; }
FUNCTION1(f16, f32_to_f16, f32, a) { return (f16)a; }
FUNCTION1(f32, f16_to_f32, f16, a) { return a; }
FUNCTION1(f16, f64_to_f16, f64, a) { return (f16)a; }
FUNCTION1(f64, f16_to_f64, f16, a) { return a; }
FUNCTION1(f32, bf16_to_f32, bf16, a) { return f32_of_bf16(a); }
FUNCTION1(bf16, f32_to_bf16, f32, a) { return bf16_of_f32(a); }
FUNCTION1(f16, bf16_to_f16, bf16, a) { return (f16)f32_of_bf16(a); }
FUNCTION1(bf16, f16_to_bf16, f16, a) { return bf16_of_f32((f32)a); }
FUNCTION2(bf16x2, pack_bf16, f32, a, f32, b)
{
    return (u32)bf16_of_f32(a) | (u32)bf16_of_f32(b) << 16;
}
FUNCTION1(bf16, f32_to_bf16_truncated, f32, a)
{
    return (bf16)(bits_of_f32(a) >> 16 | (a != a ? 0x40 : 0));
}
FUNCTION1(bf16, f32_to_bf16_by_integers, f32, a)
{
    const u32 x = bits_of_f32(a);
    return a != a ? 0x7fc0 : (bf16)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}
FUNCTION1(f32x2, unpack_bf16, bf16x2, a)
{
    f32x2 r = {f32_of_bits(a << 16), f32_of_bits(a & 0xffff0000u)};
    return r;
}
FUNCTION2(f16x2, pack_f16, f32, a, f32, b) { return make_f16x2((f16)a, (f16)b); }
FUNCTION2(f16x2, pack_mixed_f16, f16, a, f32, b) { return make_f16x2((f16)b, a); }
FUNCTION1(f32x2, unpack_f16, f16x2, a)
{
    f32x2 r = {(f32)a.x, (f32)a.y};
    return r;
}

FUNCTION1(i32, f32_to_i32_saturated, f32, a) { return cvt_i32_f32(a); }
FUNCTION1(u32, f32_to_u32_saturated, f32, a) { return cvt_u32_f32(a); }
FUNCTION1(i32, f64_to_i32_saturated, f64, a) { return cvt_i32_f64(a); }
FUNCTION1(u32, f64_to_u32_saturated, f64, a) { return cvt_u32_f64(a); }
FUNCTION1(i16, f16_to_i16_saturated, f16, a) { return cvt_i16_f16(a); }
FUNCTION1(u16, f16_to_u16_saturated, f16, a) { return cvt_u16_f16(a); }
FUNCTION1(i32, f32_to_i32_in_range, f32, a)
{
    return a >= -0x1p31f && a < 0x1p31f ? (i32)a : a < 0 ? -7 : 7;
}
FUNCTION1(u32, f32_to_u32_in_range, f32, a) { return a > -1.0f && a < 0x1p32f ? (u32)a : 9; }
FUNCTION1(i64, f32_to_i64_in_range, f32, a)
{
    return a >= -0x1p63f && a < 0x1p63f ? (i64)a : a < 0 ? -7 : 7;
}
FUNCTION1(u64, f32_to_u64_in_range, f32, a) { return a > -1.0f && a < 0x1p64f ? (u64)a : 9; }
FUNCTION1(i64, f64_to_i64_in_range, f64, a)
{
    return a >= -0x1p63 && a < 0x1p63 ? (i64)a : a < 0 ? -7 : 7;
}
FUNCTION1(u64, f64_to_u64_in_range, f64, a) { return a > -1.0 && a < 0x1p64 ? (u64)a : 9; }
FUNCTION1(i32, f64_to_i32_in_range, f64, a)
{
    return a > -0x1p31 - 1 && a < 0x1p31 ? (i32)a : a < 0 ? -7 : 7;
}
FUNCTION1(i16, f16_to_i16_in_range, f16, a)
{
    return (f32)a >= -32768.0f && (f32)a < 32768.0f ? (i16)(f32)a : 3;
}
FUNCTION1(i8, f32_to_i8_clamped, f32, a)
{
    return a != a ? 0 : a < -128.0f ? -128 : a > 127.0f ? 127 : (i8)a;
}
FUNCTION1(u8, f32_to_u8_rounded, f32, a)
{
    const f32 r = __builtin_rintf(a);
    return r > 0.0f ? r < 255.0f ? (u8)r : 255 : 0;
}
FUNCTION1(i32, nearest_i32, plain, a) { return (i32)__builtin_rintf(a); }
FUNCTION1(i32, floor_to_i32, plain, a) { return (i32)__builtin_floorf(a); }
FUNCTION2(u32, pack_f16_toward_zero, f32, a, f32, b)
{
    /* NaNs are tested by pack_f16 */
    return a != a || b != b ? 0 : cvt_pkrtz(a, b);
}
FUNCTION2(u32, pack_normalised_i16, f32, a, f32, b) { return cvt_pknorm_i16(a, b); }
FUNCTION2(u32, pack_normalised_u16, f32, a, f32, b) { return cvt_pknorm_u16(a, b); }
FUNCTION2(u32, pack_saturated_i16, i32, a, i32, b) { return cvt_pk_i16(a, b); }
FUNCTION2(u32, pack_saturated_u16, u32, a, u32, b) { return cvt_pk_u16(a, b); }
FUNCTION3(u32, insert_byte_from_f32, f32, a, u32, byte, u32, c)
{
    return cvt_pk_u8_f32(a, byte, c);
}
FUNCTION1(u32, quantise_to_nibbles, plain, a)
{
    const f32 scaled = min_f32(max_f32(a * 0.25f, -8.0f), 7.0f);
    const i32 q = (i32)__builtin_rintf(scaled);
    return ((u32)q & 15) | ((u32)-q & 15) << 4;
}
FUNCTION2(f32, dequantise_nibbles, u32, a, plain, scale)
{
    f32 sum = 0;
    for (u32 i = 0; i < 8; i++)
        sum += (f32)((i32)(a >> 4 * i & 15) - 8) * scale;
    return sum;
}
FUNCTION1(f16x2, nibbles_to_f16_by_magic, u32, a)
{
    const u32 m = (a & 0x000f000f) | 0x64006400;
    return make_f16x2((f16)(f16_of_bits((u16)m) - (f16)1024.0f),
                      (f16)(f16_of_bits((u16)(m >> 16)) - (f16)1024.0f));
}
FUNCTION1(f32, nibble_to_bf16_by_magic, u32, a)
{
    return f32_of_bf16((bf16)((a & 15) | 0x4300)) - 128.0f;
}
FUNCTION1(u64, round_trip_u64_f64, u64, a)
{
    const f64 d = (f64)(a >> 11);
    return (u64)d ^ a;
}
