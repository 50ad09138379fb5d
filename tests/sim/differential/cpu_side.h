/* SPDX-License-Identifier: MIT */
/*
 * The CPU side of the differential tests: the words of gpu_side.h for a C compiler. A function of a
 * lane is an ordinary C function here; one of a wave computes on vectors (cpu_wave.h), one of a
 * workgroup runs each of its phases as a loop over the work-items. What is declared registers
 * itself.
 *
 * C11 without optional contraction: sums and products round apart, as on the GPU side.
 */
#ifndef DIFFERENTIAL_CPU_SIDE_H
#define DIFFERENTIAL_CPU_SIDE_H

#include "features.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __FMA__
#error "build for a processor without fused multiply-add, or the compiler may contract"
#endif

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef unsigned __int128 u128;
typedef _Float16 f16;
typedef float f32;
typedef double f64;
typedef u16 bf16;
typedef u32 bf16x2;
typedef struct { f16 x, y; } f16x2;
typedef struct { u16 x, y; } u16x2;
typedef struct { i16 x, y; } i16x2;
typedef struct { f16 x, y, z, w; } f16x4;
typedef struct { u32 x, y; } u32x2;
typedef struct { u32 x, y, z, w; } u32x4;
typedef struct { u64 x, y; } u64x2;
typedef struct { f32 x, y; } f32x2;
typedef struct { f64 x, y; } f64x2;
typedef u32 shift5, shift6, small, nonzero;
typedef i32 exponent;
typedef f32 plain;
typedef f16x2 whole16x2, tiny16x2;
typedef f16 tiny16;
typedef bf16 tinybf16;
typedef bf16x2 tinybf16x2;


#define FEATURES (~0u)
#define NEEDS    0
#define DEVICE   static inline __attribute__((unused))
#define CALLED   static __attribute__((noinline))
#define CONST    static const

/* ---- Registration ---------------------------------------------------------------------------- */

enum kind { KIND_LANE, KIND_MEMORY, KIND_WAVE, KIND_WORKGROUP, KIND_COUNT };

#define SLOTS 4  /* 64-bit argument slots of a record */
#define WORDS 4  /* 32-bit result words of a record */
#define MEMORY 64 /* bytes of memory of a lane */
#define BLOCK 128 /* work-items of a workgroup function */
#define COMMON 256 /* words that all workgroups share */

struct function {
    const char *name;
    const char *file;        /* path of its source */
    const char *arguments[5]; /* types; the rest null */
    const char *result;      /* type */
    enum kind kind;
    unsigned needs;          /* features */
    /* One lane (LANE, MEMORY), one wave or one workgroup; in, out and memory start at its first
     * record. `common` is for workgroups. */
    void (*call)(const u64 *in, u32 *out, u8 *memory, u32 *common);
};

#define FUNCTIONS_MAX 1024
static const struct function *functions[FUNCTIONS_MAX];
static unsigned function_count;

/* NEEDS is what it is where the function stands. */
#define REGISTER(name_, kind_, result_, ...)                                                       \
    __attribute__((constructor)) static void register_##name_(void)                                \
    {                                                                                              \
        static const struct function f = {#name_, __FILE__, {__VA_ARGS__}, result_, kind_, NEEDS,  \
                                          call_##name_};                                           \
        if (function_count < FUNCTIONS_MAX)                                                        \
            functions[function_count++] = &f;                                                      \
    }

/* ---- Functions of one lane ------------------------------------------------------------------- */

#define ARGUMENT(type, name, slot)                                                                 \
    type name;                                                                                     \
    memcpy(&name, in + slot, sizeof name);

#define RESULT(type, ...)                                                                          \
    do {                                                                                           \
        const type value_ = __VA_ARGS__;                                                           \
        memcpy(out, &value_, sizeof value_);                                                       \
    } while (0)

#define CALL(name) static void call_##name(const u64 *in, u32 *out, u8 *memory, u32 *common)

#define FUNCTION1(R, name, A, a)                                                                   \
    static R f_##name(A a);                                                                        \
    CALL(name)                                                                                     \
    {                                                                                              \
        ARGUMENT(A, a, 0)                                                                          \
        (void)memory, (void)common;                                                                \
        RESULT(R, f_##name(a));                                                                    \
    }                                                                                              \
    REGISTER(name, KIND_LANE, #R, #A)                                                              \
    static R f_##name(A a)
#define FUNCTION2(R, name, A, a, B, b)                                                             \
    static R f_##name(A a, B b);                                                                   \
    CALL(name)                                                                                     \
    {                                                                                              \
        ARGUMENT(A, a, 0)                                                                          \
        ARGUMENT(B, b, 1)                                                                          \
        (void)memory, (void)common;                                                                \
        RESULT(R, f_##name(a, b));                                                                 \
    }                                                                                              \
    REGISTER(name, KIND_LANE, #R, #A, #B)                                                          \
    static R f_##name(A a, B b)
#define FUNCTION3(R, name, A, a, B, b, C, c)                                                       \
    static R f_##name(A a, B b, C c);                                                              \
    CALL(name)                                                                                     \
    {                                                                                              \
        ARGUMENT(A, a, 0)                                                                          \
        ARGUMENT(B, b, 1)                                                                          \
        ARGUMENT(C, c, 2)                                                                          \
        (void)memory, (void)common;                                                                \
        RESULT(R, f_##name(a, b, c));                                                              \
    }                                                                                              \
    REGISTER(name, KIND_LANE, #R, #A, #B, #C)                                                      \
    static R f_##name(A a, B b, C c)
#define FUNCTION4(R, name, A, a, B, b, C, c, D, d)                                                 \
    static R f_##name(A a, B b, C c, D d);                                                         \
    CALL(name)                                                                                     \
    {                                                                                              \
        ARGUMENT(A, a, 0)                                                                          \
        ARGUMENT(B, b, 1)                                                                          \
        ARGUMENT(C, c, 2)                                                                          \
        ARGUMENT(D, d, 3)                                                                          \
        (void)memory, (void)common;                                                                \
        RESULT(R, f_##name(a, b, c, d));                                                           \
    }                                                                                              \
    REGISTER(name, KIND_LANE, #R, #A, #B, #C, #D)                                                  \
    static R f_##name(A a, B b, C c, D d)

/* `memory` is the lane's own 64 bytes, aligned to as many. */
#define MEMORY_FUNCTION(R, name, A, a, B, b)                                                       \
    static R f_##name(u8 *memory, A a, B b);                                                       \
    CALL(name)                                                                                     \
    {                                                                                              \
        ARGUMENT(A, a, 0)                                                                          \
        ARGUMENT(B, b, 1)                                                                          \
        (void)common;                                                                              \
        RESULT(R, f_##name(memory, a, b));                                                         \
    }                                                                                              \
    REGISTER(name, KIND_MEMORY, #R, #A, #B)                                                        \
    static R f_##name(u8 *memory, A a, B b)

/* ---- Functions of a workgroup ---------------------------------------------------------------- */

/* T indexes what a work-item keeps to itself across phases. */
#define PRIVATE BLOCK
#define T       t
#define LDS(type, name, count) type name[count]
#define PHASE   for (u32 t = 0; t < BLOCK; t++)

#define WORKGROUP_FUNCTION(name)                                                                   \
    static void f_##name(const u64 *in, u32 *out, u32 *memory, u32 *common);                       \
    CALL(name) { f_##name(in, out, (u32 *)(void *)memory, common); }                               \
    REGISTER(name, KIND_WORKGROUP, "u32x4", "u64", "u64", "u64", "u64")                            \
    static void f_##name(const u64 *in, u32 *out, u32 *memory, u32 *common)

/* One thread here: the plain operations do. All give the old value. */
#define FETCH(p, ...)                                                                              \
    __extension__({                                                                                \
        __auto_type p_ = (p);                                                                      \
        const __auto_type old = *p_;                                                               \
        *p_ = (__VA_ARGS__);                                                                       \
        old;                                                                                       \
    })
#define OP_add(old, v)    (old) + (v)
#define OP_sub(old, v)    (old) - (v)
#define OP_and(old, v)    (old) & (v)
#define OP_or(old, v)     (old) | (v)
#define OP_xor(old, v)    (old) ^ (v)
#define OP_min(old, v)    (old) < (v) ? (old) : (v)
#define OP_max(old, v)    (old) > (v) ? (old) : (v)
#define ATOMIC(op, p, v)      FETCH(p, OP_##op(old, v))
#define LDS_ATOMIC(op, p, v)  ATOMIC(op, p, v)
#define ATOMIC_EXCHANGE(p, v) FETCH(p, v)
#define LDS_EXCHANGE(p, v)    FETCH(p, v)
#define ATOMIC_LOAD(p)        (*(p))
#define ATOMIC_STORE(p, v)    (*(p) = (v))
#define compare_exchange(p, expected, desired)     FETCH(p, old == (expected) ? (desired) : old)
#define lds_compare_exchange(p, expected, desired) compare_exchange(p, expected, desired)
#define atomic_inc(p, limit)  FETCH(p, old >= (limit) ? 0 : old + 1)
#define atomic_dec(p, limit)  FETCH(p, old == 0 || old > (limit) ? (limit) : old - 1)

#endif
