/* SPDX-License-Identifier: MIT */
/*
 * The GPU side of the differential tests: types and macros that turn the functions of the other
 * files into kernels. hipRTC compiles features.h, this and one file of functions as one text, with
 * LANES, FEATURES, SCALAR, MIXED and BLOCK defined. cpu_side.h has the same words for the C
 * compiler, to which this file is empty.
 *
 * Kernels of a function f: v_f takes every argument from its lane's record, m_f the first one
 * from a record that the whole workgroup shares, s_f all of them; so the same function is selected
 * as vector, mixed and scalar code.
 */
#ifdef __HIP__

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long u64;
typedef long i64;
typedef unsigned __int128 u128;
typedef _Float16 f16;
typedef float f32;
typedef double f64;
typedef u16 bf16;
typedef u32 bf16x2;
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef u16 u16x2 __attribute__((ext_vector_type(2)));
typedef i16 i16x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x4 __attribute__((ext_vector_type(4)));
typedef u32 vec4 __attribute__((ext_vector_type(4)));
typedef struct { u32 x, y; } u32x2;
typedef struct { u32 x, y, z, w; } u32x4;
typedef struct { u64 x, y; } u64x2;
typedef struct { f32 x, y; } f32x2;
typedef struct { f64 x, y; } f64x2;
/* Arguments with a narrower domain, see inputs.h. */
typedef u32 shift5, shift6, small, nonzero;
typedef i32 exponent;
typedef f32 plain;
typedef f16x2 whole16x2, tiny16x2;
typedef f16 tiny16;
typedef bf16 tinybf16;
typedef bf16x2 tinybf16x2;


#define DEVICE  static inline __attribute__((device, always_inline))
#define CALLED  static __attribute__((device, noinline))
#define CONST   static __attribute__((device)) const
#define KERNEL(name)                                                                               \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256))) void name

/* ---- Kernels of functions of one lane -------------------------------------------------------- */

#define UNIFORM __attribute__((address_space(4)))
#define WORKITEM __builtin_amdgcn_workitem_id_x()
#define WORKGROUP __builtin_amdgcn_workgroup_id_x()

template <typename Type> DEVICE Type argument(u64 word)
{
    Type value;
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
}

template <typename Type> DEVICE void result(u32 *out, u32 id, Type value)
{
    vec4 words = 0;
    __builtin_memcpy(&words, &value, sizeof value);
    *(vec4 *)(out + 4 * id) = words;
}

#define VECTOR_KERNEL(name, ...)                                                                   \
    KERNEL(v_##name)(const u64 *in, u32 *out, u8 *memory, u32 block)                               \
    {                                                                                              \
        const u32 id = WORKGROUP * block + WORKITEM;                                               \
        const u64 *const v = in + 4 * id;                                                          \
        (void)memory;                                                                              \
        result(out, id, f_##name(__VA_ARGS__));                                                    \
    }
#if MIXED
#define MIXED_KERNEL(name, ...)                                                                    \
    KERNEL(m_##name)(const u64 *in, u32 *out, const u64 UNIFORM *s, u32 block)                     \
    {                                                                                              \
        const u32 id = WORKGROUP * block + WORKITEM;                                               \
        const u64 *const v = in + 4 * id;                                                          \
        s += 4 * WORKGROUP;                                                                        \
        result(out, id, f_##name(__VA_ARGS__));                                                    \
    }
#else
#define MIXED_KERNEL(name, ...)
#endif
#if SCALAR
#define SCALAR_KERNEL(name, ...)                                                                   \
    KERNEL(s_##name)(const u64 UNIFORM *s, u32 *out)                                               \
    {                                                                                              \
        s += 4 * WORKGROUP;                                                                        \
        const auto value = f_##name(__VA_ARGS__);                                                  \
        if (WORKITEM == 0)                                                                         \
            result(out, WORKGROUP, value);                                                         \
    }
#else
#define SCALAR_KERNEL(name, ...)
#endif
#define ARGUMENTS_1(A, a) argument<A>(a[0])
#define ARGUMENTS_2(A, a, B, b) argument<A>(a[0]), argument<B>(b[1])
#define ARGUMENTS_3(A, a, B, b, C, c) ARGUMENTS_2(A, a, B, b), argument<C>(c[2])
#define ARGUMENTS_4(A, a, B, b, C, c, D, d) ARGUMENTS_3(A, a, B, b, C, c), argument<D>(d[3])

#define FUNCTION1(R, name, A, a)                                                                   \
    DEVICE R f_##name(A a);                                                                        \
    VECTOR_KERNEL(name, ARGUMENTS_1(A, v))                                                         \
    SCALAR_KERNEL(name, ARGUMENTS_1(A, s))                                                         \
    DEVICE R f_##name(A a)
#define FUNCTION2(R, name, A, a, B, b)                                                             \
    DEVICE R f_##name(A a, B b);                                                                   \
    VECTOR_KERNEL(name, ARGUMENTS_2(A, v, B, v))                                                   \
    MIXED_KERNEL(name, ARGUMENTS_2(A, s, B, v))                                                    \
    SCALAR_KERNEL(name, ARGUMENTS_2(A, s, B, s))                                                   \
    DEVICE R f_##name(A a, B b)
#define FUNCTION3(R, name, A, a, B, b, C, c)                                                       \
    DEVICE R f_##name(A a, B b, C c);                                                              \
    VECTOR_KERNEL(name, ARGUMENTS_3(A, v, B, v, C, v))                                             \
    MIXED_KERNEL(name, ARGUMENTS_3(A, s, B, v, C, v))                                              \
    SCALAR_KERNEL(name, ARGUMENTS_3(A, s, B, s, C, s))                                             \
    DEVICE R f_##name(A a, B b, C c)
#define FUNCTION4(R, name, A, a, B, b, C, c, D, d)                                                 \
    DEVICE R f_##name(A a, B b, C c, D d);                                                         \
    VECTOR_KERNEL(name, ARGUMENTS_4(A, v, B, v, C, v, D, v))                                       \
    MIXED_KERNEL(name, ARGUMENTS_4(A, s, B, v, C, v, D, v))                                        \
    SCALAR_KERNEL(name, ARGUMENTS_4(A, s, B, s, C, s, D, s))                                       \
    DEVICE R f_##name(A a, B b, C c, D d)

/* ---- Functions with 64 bytes of global memory for each lane ---------------------------------- */

#define MEMORY_FUNCTION(R, name, A, a, B, b)                                                       \
    DEVICE R f_##name(u8 *memory, A a, B b);                                                       \
    KERNEL(v_##name)(const u64 *in, u32 *out, u8 *memory, u32 block)                               \
    {                                                                                              \
        const u32 id = WORKGROUP * block + WORKITEM;                                               \
        const u64 *const v = in + 4 * id;                                                          \
        result(out, id, f_##name(memory + 64 * id, argument<A>(v[0]), argument<B>(v[1])));         \
    }                                                                                              \
    DEVICE R f_##name(u8 *memory, A a, B b)

/* ---- Functions of a wave --------------------------------------------------------------------- */

#if LANES == 64
typedef u64 mask;
#define ballot(condition) __builtin_amdgcn_ballot_w64(condition)
#define read_exec() __builtin_amdgcn_ballot_w64(true)
#else
typedef u32 mask;
#define ballot(condition) __builtin_amdgcn_ballot_w32(condition)
#define read_exec() __builtin_amdgcn_ballot_w32(true)
#endif
typedef u32 wave;
typedef i32 iwave;
typedef f32 fwave;
typedef bool wave_bool;

#define WAVE_FUNCTION(name, x, y)                                                                  \
    DEVICE wave f_##name(wave x, wave y);                                                          \
    KERNEL(w_##name)(const u64 *in, u32 *out, u8 *memory, u32 block)                               \
    {                                                                                              \
        const u32 id = WORKGROUP * block + WORKITEM;                                               \
        (void)memory;                                                                              \
        result(out, id, f_##name((wave)in[4 * id], (wave)in[4 * id + 1]));                         \
    }                                                                                              \
    DEVICE wave f_##name(wave x, wave y)

#define SET(variable, ...)   (variable) = (__VA_ARGS__)
#define SELECT(c, a, b)      ((c) ? (a) : (b))
#define WAVE_IF(c)           if (c)
#define WAVE_ELSE(c)         else
#define WAVE_WHILE(c)        while (c)
#define SPLAT(value)         ((wave)(value))

DEVICE wave write_lane(wave x, u32 lane, u32 value)
{
#if HAS(ROW_BCAST) /* one scalar register at most, and m0 */
    __asm__("s_mov_b32 m0, %2\n\tv_writelane_b32 %0, %1, m0"
            : "+v"(x)
            : "s"(value), "s"(lane));
#elif defined(__GFX12__) /* behind what the scalar unit has written */
    __asm__("s_wait_alu 0xfffe\n\tv_writelane_b32 %0, %1, %2"
            : "+v"(x)
            : "s"(value), "s"(lane));
#else
    __asm__("v_writelane_b32 %0, %1, %2" : "+v"(x) : "s"(value), "s"(lane));
#endif
    return x;
}

DEVICE wave lane_id(void)
{
    const u32 low = __builtin_amdgcn_mbcnt_lo(~0u, 0);
    return LANES == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, low) : low;
}

#define mask_below(m, base)                                                                        \
    (LANES == 64 ? __builtin_amdgcn_mbcnt_hi((u32)((u64)(m) >> 32),                                \
                                             __builtin_amdgcn_mbcnt_lo((u32)(m), base))            \
                 : __builtin_amdgcn_mbcnt_lo((u32)(m), base))
#define read_lane(x, lane)       ((u32)__builtin_amdgcn_readlane((i32)(x), (i32)(lane)))
#define read_first_lane(x)       ((u32)__builtin_amdgcn_readfirstlane((i32)(x)))
#define bpermute(address, x)     ((u32)__builtin_amdgcn_ds_bpermute((i32)(address), (i32)(x)))
#define permute(address, x)      ((u32)__builtin_amdgcn_ds_permute((i32)(address), (i32)(x)))
#define swizzle(x, pattern)      ((u32)__builtin_amdgcn_ds_swizzle((i32)(x), pattern))
#define dpp(old, x, control, rows, banks, bound)                                                   \
    ((u32)__builtin_amdgcn_update_dpp((i32)(old), (i32)(x), control, rows, banks, bound))
#define dpp8(x, select)          __builtin_amdgcn_mov_dpp8(x, select)
#define permlane16(old, x, low, high, fi, bound)                                                   \
    __builtin_amdgcn_permlane16(old, x, low, high, fi, bound)
#define permlanex16(old, x, low, high, fi, bound)                                                  \
    __builtin_amdgcn_permlanex16(old, x, low, high, fi, bound)
/* The instruction does nothing in waves of 32, where what its result holds is not defined. */
#if LANES == 64
#define permlane64(x) __builtin_amdgcn_permlane64(x)
#else
#define permlane64(x) (x)
#endif
#define as_float(x)              __builtin_bit_cast(f32, x)
#define as_bits(x)               __builtin_bit_cast(u32, x)
#define as_signed(x)             ((iwave)(x))
#define uniform_ctz(m)           ((u32)__builtin_ctzll((u64)(m)))
#define uniform_popcount(m)      ((u32)__builtin_popcountll((u64)(m)))

/* ---- Functions of a workgroup ---------------------------------------------------------------- */

/* T indexes what a work-item keeps to itself across phases: one element here. */
#define PRIVATE 1
#define T       0
#define LDS(type, name, count) __attribute__((shared)) type name[count]

DEVICE void barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#define PHASE for (u32 t = WORKITEM, once = 1; once; once = 0, barrier())

#define WORKGROUP_FUNCTION(name)                                                                   \
    DEVICE void f_##name(const u64 *in, u32 *out, u32 *memory, u32 *common);                       \
    KERNEL(g_##name)(const u64 *in, u32 *out, u8 *memory, u32 *common)                             \
    {                                                                                              \
        const u32 first = WORKGROUP * BLOCK;                                                       \
        f_##name(in + 4 * first, out + 4 * first, (u32 *)(memory + 64 * first), common);           \
    }                                                                                              \
    DEVICE void f_##name(const u64 *in, u32 *out, u32 *memory, u32 *common)

#define LDS_ATOMIC(op, p, v)                                                                       \
    __hip_atomic_fetch_##op(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP)
#define ATOMIC(op, p, v) __hip_atomic_fetch_##op(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_EXCHANGE(p, v)                                                                      \
    __hip_atomic_exchange(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define LDS_EXCHANGE(p, v)                                                                         \
    __hip_atomic_exchange(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP)
#define ATOMIC_LOAD(p) __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_STORE(p, v) __hip_atomic_store(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)

/* Gives the old value, whether it was exchanged or not. */
template <typename Type> DEVICE Type compare_exchange(Type *p, Type expected, Type desired)
{
    __hip_atomic_compare_exchange_strong(p, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}
template <typename Type>
DEVICE Type lds_compare_exchange(Type *p, Type expected, Type desired)
{
    __hip_atomic_compare_exchange_strong(p, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_WORKGROUP);
    return expected;
}
/* Range-checked loads and stores: a buffer of `bytes` from `p` on, and an offset into it. The last
 * word of the descriptor says raw bytes. */
#if HAS(ROW_BCAST)
#define BUFFER_WORD 0x00020000
#else
#define BUFFER_WORD 0x31004000
#endif
#define BUFFER(p, bytes)         __builtin_amdgcn_make_buffer_rsrc(p, 0, bytes, BUFFER_WORD)
#define buffer_load_u8(p, bytes, offset)                                                           \
    __builtin_amdgcn_raw_buffer_load_b8(BUFFER(p, bytes), offset, 0, 0)
#define buffer_load_u16(p, bytes, offset)                                                          \
    __builtin_amdgcn_raw_buffer_load_b16(BUFFER(p, bytes), offset, 0, 0)
#define buffer_load_u32(p, bytes, offset)                                                          \
    __builtin_amdgcn_raw_buffer_load_b32(BUFFER(p, bytes), offset, 0, 0)
DEVICE u64 buffer_load_u64(u8 *p, u32 bytes, u32 offset)
{
    const auto r = __builtin_amdgcn_raw_buffer_load_b64(BUFFER(p, bytes), offset, 0, 0);
    return __builtin_bit_cast(u64, r);
}
#define buffer_store_u8(v, p, bytes, offset)                                                       \
    __builtin_amdgcn_raw_buffer_store_b8(v, BUFFER(p, bytes), offset, 0, 0)
#define buffer_store_u32(v, p, bytes, offset)                                                      \
    __builtin_amdgcn_raw_buffer_store_b32(v, BUFFER(p, bytes), offset, 0, 0)

#define atomic_inc(p, limit) __builtin_amdgcn_atomic_inc32(p, limit, __ATOMIC_RELAXED, "agent")
#define atomic_dec(p, limit) __builtin_amdgcn_atomic_dec32(p, limit, __ATOMIC_RELAXED, "agent")

/* ---- Instructions that have a builtin here and a twin in twins.h ----------------------------- */

#define bits_of_f32(x)       __builtin_bit_cast(u32, (f32)(x))
#define f32_of_bits(x)       __builtin_bit_cast(f32, (u32)(x))
#define bits_of_f64(x)       __builtin_bit_cast(u64, (f64)(x))
#define f64_of_bits(x)       __builtin_bit_cast(f64, (u64)(x))
#define bits_of_f16(x)       __builtin_bit_cast(u16, (f16)(x))
#define f16_of_bits(x)       __builtin_bit_cast(f16, (u16)(x))

#define reverse32(x)         __builtin_bitreverse32(x)
#define reverse64(x)         __builtin_bitreverse64(x)
#define reverse16(x)         __builtin_bitreverse16(x)
#define reverse8(x)          __builtin_bitreverse8(x)
#define perm(a, b, s)        __builtin_amdgcn_perm(a, b, s)
#define alignbit(a, b, s)    __builtin_amdgcn_alignbit(a, b, s)
#define alignbyte(a, b, s)   __builtin_amdgcn_alignbyte(a, b, s)
#define ubfe(x, o, w)        __builtin_amdgcn_ubfe(x, o, w)
#define sbfe(x, o, w)        ((i32)__builtin_amdgcn_sbfe((i32)(x), o, w))
#define lerp_u8(a, b, c)     __builtin_amdgcn_lerp(a, b, c)
#define sad_u8(a, b, c)      __builtin_amdgcn_sad_u8(a, b, c)
#define msad_u8(a, b, c)     __builtin_amdgcn_msad_u8(a, b, c)
#define sad_hi_u8(a, b, c)   __builtin_amdgcn_sad_hi_u8(a, b, c)
#define sad_u16(a, b, c)     __builtin_amdgcn_sad_u16(a, b, c)
#define qsad_pk_u16_u8(a, b, c)  __builtin_amdgcn_qsad_pk_u16_u8(a, b, c)
#define mqsad_pk_u16_u8(a, b, c) __builtin_amdgcn_mqsad_pk_u16_u8(a, b, c)
DEVICE u32x4 mqsad_u32_u8(u64 a, u32 b, u64 low, u64 high)
{
    const vec4 c = {(u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32)};
    const vec4 r = __builtin_amdgcn_mqsad_u32_u8(a, b, c);
    return __builtin_bit_cast(u32x4, r);
}
#define udot4(a, b, c, clamp)         __builtin_amdgcn_udot4(a, b, c, clamp)
#define sudot4(sa, a, sb, b, c, clamp) __builtin_amdgcn_sudot4(sa, a, sb, b, c, clamp)
#define udot8(a, b, c, clamp)         __builtin_amdgcn_udot8(a, b, c, clamp)
#define sudot8(sa, a, sb, b, c, clamp) __builtin_amdgcn_sudot8(sa, a, sb, b, c, clamp)
#define sdot4(a, b, c, clamp)         __builtin_amdgcn_sdot4(a, b, c, clamp)
#define sdot8(a, b, c, clamp)         __builtin_amdgcn_sdot8(a, b, c, clamp)
#define sdot2(a, b, c, clamp)         __builtin_amdgcn_sdot2(a, b, c, clamp)
#define udot2(a, b, c, clamp)         __builtin_amdgcn_udot2(a, b, c, clamp)
#define fdot2(a, b, c)                __builtin_amdgcn_fdot2(a, b, c, false)
#define fdot2_f16(a, b, c)            __builtin_amdgcn_fdot2_f16_f16(a, b, c)
typedef __bf16 native_bf16x2 __attribute__((ext_vector_type(2)));
#define fdot2_f32_bf16(a, b, c)                                                                    \
    __builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(native_bf16x2, (u32)(a)),                   \
                                    __builtin_bit_cast(native_bf16x2, (u32)(b)), c, false)
/* The builtin's scalars are short or __bf16, by the compiler's version. */
#if HAS(DOT2_16)
typedef decltype(__builtin_amdgcn_fdot2_bf16_bf16(native_bf16x2{}, native_bf16x2{}, 0)) dot_bf16;
DEVICE bf16 fdot2_bf16(bf16x2 a, bf16x2 b, bf16 c)
{
    const auto x = __builtin_bit_cast(native_bf16x2, a), y = __builtin_bit_cast(native_bf16x2, b);
    return __builtin_bit_cast(
        bf16, __builtin_amdgcn_fdot2_bf16_bf16(x, y, __builtin_bit_cast(dot_bf16, c)));
}
#endif

#define add_sat(a, b)        __builtin_elementwise_add_sat(a, b)
#define sub_sat(a, b)        __builtin_elementwise_sub_sat(a, b)
#define add_sat_u32(a, b)    add_sat((u32)(a), (u32)(b))
#define sub_sat_u32(a, b)    sub_sat((u32)(a), (u32)(b))
#define add_sat_i32(a, b)    add_sat((i32)(a), (i32)(b))
#define sub_sat_i32(a, b)    sub_sat((i32)(a), (i32)(b))
#define add_sat_u16(a, b)    add_sat((u16)(a), (u16)(b))
#define sub_sat_u16(a, b)    sub_sat((u16)(a), (u16)(b))
#define add_sat_i16(a, b)    add_sat((i16)(a), (i16)(b))
#define sub_sat_i16(a, b)    sub_sat((i16)(a), (i16)(b))
#define add_sat_u8(a, b)     add_sat((u8)(a), (u8)(b))
#define add_sat_i8(a, b)     add_sat((i8)(a), (i8)(b))
#define add_sat_u64(a, b)    add_sat((u64)(a), (u64)(b))
#define sub_sat_i64(a, b)    sub_sat((i64)(a), (i64)(b))

#if HAS(ROW_BCAST)
#define SFFBH "v_ffbh_i32"
#else
#define SFFBH "v_cls_i32"
#endif
DEVICE i32 sffbh(i32 x)
{
    i32 r;
    __asm__(SFFBH " %0, %1" : "=v"(r) : "v"(x));
    return r;
}

/* Conversions whose out-of-range results the instruction defines and C does not. */
#define ONE_SOURCE(name, R, A)                                                                     \
    DEVICE R name(A a)                                                                             \
    {                                                                                              \
        R r;                                                                                       \
        __asm__("v_" #name " %0, %1" : "=v"(r) : "v"(a));                                          \
        return r;                                                                                  \
    }
ONE_SOURCE(cvt_i32_f32, i32, f32)
ONE_SOURCE(cvt_u32_f32, u32, f32)
ONE_SOURCE(cvt_i32_f64, i32, f64)
ONE_SOURCE(cvt_u32_f64, u32, f64)
ONE_SOURCE(cvt_i16_f16, i16, f16)
ONE_SOURCE(cvt_u16_f16, u16, f16)
ONE_SOURCE(cvt_f32_ubyte1, f32, u32)
ONE_SOURCE(cvt_f32_ubyte2, f32, u32)
ONE_SOURCE(cvt_off_f32_i4, f32, u32)
DEVICE u32 cvt_pkrtz(f32 a, f32 b)
{
    const auto r = __builtin_amdgcn_cvt_pkrtz(a, b);
    return __builtin_bit_cast(u32, r);
}
DEVICE u32 cvt_pknorm_i16(f32 a, f32 b)
{
    const auto r = __builtin_amdgcn_cvt_pknorm_i16(a, b);
    return __builtin_bit_cast(u32, r);
}
DEVICE u32 cvt_pknorm_u16(f32 a, f32 b)
{
    const auto r = __builtin_amdgcn_cvt_pknorm_u16(a, b);
    return __builtin_bit_cast(u32, r);
}
DEVICE u32 cvt_pk_i16(i32 a, i32 b)
{
    const auto r = __builtin_amdgcn_cvt_pk_i16(a, b);
    return __builtin_bit_cast(u32, r);
}
DEVICE u32 cvt_pk_u16(u32 a, u32 b)
{
    const auto r = __builtin_amdgcn_cvt_pk_u16(a, b);
    return __builtin_bit_cast(u32, r);
}
#define cvt_pk_u8_f32(x, byte, old) __builtin_amdgcn_cvt_pk_u8_f32(x, byte, old)

#define min_f32(a, b)        __builtin_fminf(a, b)
#define max_f32(a, b)        __builtin_fmaxf(a, b)
#define min_f64(a, b)        __builtin_fmin(a, b)
#define max_f64(a, b)        __builtin_fmax(a, b)
#define min_f16(a, b)        __builtin_fminf16(a, b)
#define max_f16(a, b)        __builtin_fmaxf16(a, b)
#define med3_f32(a, b, c)    __builtin_amdgcn_fmed3f(a, b, c)
#define med3_f16(a, b, c)    __builtin_amdgcn_fmed3h(a, b, c)
#define fract_f32(a)         __builtin_amdgcn_fractf(a)
#define fract_f64(a)         __builtin_amdgcn_fract(a)
#define fract_f16(a)         __builtin_amdgcn_fracth(a)
#define frexp_mant_f32(a)    __builtin_amdgcn_frexp_mantf(a)
#define frexp_exp_f32(a)     __builtin_amdgcn_frexp_expf(a)
#define frexp_mant_f64(a)    __builtin_amdgcn_frexp_mant(a)
#define frexp_exp_f64(a)     __builtin_amdgcn_frexp_exp(a)
#define frexp_mant_f16(a)    __builtin_amdgcn_frexp_manth(a)
#define frexp_exp_f16(a)     __builtin_amdgcn_frexp_exph(a)
#define class_f32(a, m)      ((u32)__builtin_amdgcn_classf(a, m))
#define class_f64(a, m)      ((u32)__builtin_amdgcn_class(a, m))
#define class_f16(a, m)      ((u32)__builtin_amdgcn_classh(a, m))
#define fma_f16(a, b, c)     __builtin_fmaf16(a, b, c)
#define sqrt_f16(a)          __builtin_sqrtf16(a)
#define floor_f16(a)         __builtin_floorf16(a)
#define ceil_f16(a)          __builtin_ceilf16(a)
#define trunc_f16(a)         __builtin_truncf16(a)
#define rint_f16(a)          __builtin_rintf16(a)
#define abs_f16(a)           __builtin_fabsf16(a)
#define ldexp_f16(a, e)      __builtin_ldexpf16(a, e)

#define f32_of_bf16(x)       ((f32)__builtin_bit_cast(__bf16, (u16)(x)))
#define bf16_of_f32(x)       __builtin_bit_cast(u16, (__bf16)(f32)(x))

DEVICE f16x2 make_f16x2(f16 x, f16 y)
{
    const f16x2 r = {x, y};
    return r;
}
DEVICE u16x2 make_u16x2(u16 x, u16 y)
{
    const u16x2 r = {x, y};
    return r;
}
#define add_f16x2(a, b)      ((a) + (b))
#define sub_f16x2(a, b)      ((a) - (b))
#define mul_f16x2(a, b)      ((a) * (b))
#define fma_f16x2(a, b, c)   __builtin_elementwise_fma(a, b, c)
#define min_f16x2(a, b)      __builtin_elementwise_minnum(a, b)
#define max_f16x2(a, b)      __builtin_elementwise_maxnum(a, b)
#define neg_f16x2(a)         (-(a))
#define add_u16x2(a, b)      ((a) + (b))
#define sub_u16x2(a, b)      ((a) - (b))
#define mul_u16x2(a, b)      ((a) * (b))
#define min_u16x2(a, b)      __builtin_elementwise_min(a, b)
#define max_u16x2(a, b)      __builtin_elementwise_max(a, b)
#define min_i16x2(a, b)      __builtin_elementwise_min(a, b)
#define max_i16x2(a, b)      __builtin_elementwise_max(a, b)
#define shl_u16x2(a, b)      ((a) << ((b) & (u16)15))
#define shr_u16x2(a, b)      ((a) >> ((b) & (u16)15))
#define sar_i16x2(a, b)      ((a) >> ((b) & (i16)15))
#define add_sat_u16x2(a, b)  add_sat(a, b)
#define sub_sat_u16x2(a, b)  sub_sat(a, b)
#define add_sat_i16x2(a, b)  add_sat(a, b)
#define sub_sat_i16x2(a, b)  sub_sat(a, b)

#endif
