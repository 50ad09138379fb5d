/* SPDX-License-Identifier: MIT */
// Names for what the compiler offers without any header.

typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16x4 __attribute__((ext_vector_type(4)));
typedef unsigned int u32;
typedef unsigned long u64;
typedef long i64;
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16;
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x4 __attribute__((ext_vector_type(4)));
typedef __bf16 bf16;
typedef bf16 bf16x2 __attribute__((ext_vector_type(2)));

#define KERNEL extern "C" __attribute__((global))
#define DEVICE static inline __attribute__((device, always_inline))
// Stands behind a lambda's parameters. A lambda without it goes through all of the compiler's
// passes by itself and, if it is inlined at all, once more as part of the kernel, which takes 5 %
// of some compiles. Do not add it to a long lambda that is without it: compiling then takes longer,
// as unrolled loops call the lambda often, or LLVM 21 makes worse code (docs/notebook/compile.md).
#define INLINE __attribute__((always_inline))
#define CONSTANT static __attribute__((constant))
#define LDS __attribute__((address_space(3)))
#define UNROLL _Pragma("unroll")

// Work-items of a workgroup, and waves that each SIMD must be able to hold.
#define WORKGROUP(items, waves)                                                                    \
    __attribute__((amdgpu_flat_work_group_size(items, items), amdgpu_waves_per_eu(waves)))

enum element { F32, F16, BF16 };
template <element> struct element_type;
template <> struct element_type<F32> { typedef float type; };
template <> struct element_type<F16> { typedef f16 type; };
template <> struct element_type<BF16> { typedef bf16 type; };

// How pairs of weights are multiplied with pairs of A: by a dot product of 16-bit values with an
// f32 sum, by two f32 operations in one instruction, by two instructions, or by a matrix
// instruction for pairs of 16-bit pairs.
enum products { DOT2, PACKED, PLAIN, MATRIX };

constexpr u32 minimum(u32 a, u32 b) { return a < b ? a : b; }

// Waits for this wave's LDS accesses, then for every wave of the workgroup. Written as instructions
// because the compiler's own barrier also waits for every load from memory.
DEVICE void barrier()
{
#if HAS_SPLIT_BARRIER
    asm volatile("s_wait_dscnt 0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" : : : "memory");
#else
    asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" : : : "memory");
#endif
}

// Nothing is moved across this line by the compiler's scheduler.
DEVICE void schedule_boundary() { __builtin_amdgcn_sched_barrier(0); }

// The wave waits here for `value`. Loads return in the order of issue, so that waiting for the last
// one of a batch spares a wait for each of the others.
template <class T> DEVICE void await(T &value) { asm volatile("" : "+v"(value)); }

// The value is computed here, not later where it is used.
template <class T> DEVICE void computed(T &value) { asm volatile("" : "+v"(value)); }

// Values are computed here; those that instructions take in pairs in neighbouring registers, one
// even, one odd.
template <bool IN_PAIRS, u32 VALUES, class T> DEVICE void computed_all(T (&value)[VALUES])
{
    if constexpr (IN_PAIRS) {
        UNROLL for (u32 v = 0; v + 1 < VALUES; v += 2) {
            T __attribute__((ext_vector_type(2))) pair = {value[v], value[v + 1]};
            computed(pair);
            value[v] = pair.x, value[v + 1] = pair.y;
        }
    } else {
        UNROLL for (u32 v = 0; v < VALUES; v++)
            computed(value[v]);
    }
}

// Keeps the load of a value where it is written, ahead of a branch in which alone it is used.
DEVICE void keep(u32 value) { asm volatile("" : : "v"(value)); }

// The value, about which the compiler knows nothing: so that it keeps to 32-bit offsets from a base
// that all lanes share, instead of moving a 64-bit address per lane through a loop.
DEVICE u32 opaque(u32 value)
{
    asm("" : "+v"(value));
    return value;
}

// The same of a value that all lanes share, in a scalar register: for constants that an instruction
// should take from there instead of what the compiler would make of them.
template <class T> DEVICE T opaque_scalar(T value)
{
    asm("" : "+s"(value));
    return value;
}

// One weight load of 4, 8 or 16 bytes as the dwords it is made of. Weights that are used only once
// pass by the caches, which are better used for A.
template <u32 DWORDS, bool ONCE> DEVICE void load_dwords(u32 *to, const u8 *from)
{
    if constexpr (DWORDS == 4) {
        const u32x4 *const p = (const u32x4 *)from;
        const u32x4 v = ONCE ? __builtin_nontemporal_load(p) : *p;
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else if constexpr (DWORDS == 2) {
        const u32x2 *const p = (const u32x2 *)from;
        const u32x2 v = ONCE ? __builtin_nontemporal_load(p) : *p;
        to[0] = v.x, to[1] = v.y;
    } else if constexpr (DWORDS == 1) {
        const u32 *const p = (const u32 *)from;
        to[0] = ONCE ? __builtin_nontemporal_load(p) : *p;
    }
}

// Element of a row that all lanes share at an offset in bytes, which stays one of 32 bits.
template <class T> DEVICE T *at_offset(T *row, u32 bytes) { return (T *)((u8 *)row + bytes); }
