/* SPDX-License-Identifier: MIT */
/*
 * What a kernel for NVIDIA sees of a multiprocessor on the CPU: the primitives of
 * templates/cuda/prelude/ptx.cu in C++, so that its text runs as it stands. machine.cpp is the
 * multiprocessor, which is compiled once for many kernels; so this file, which is read for each,
 * includes little. A C++ compiler reads it, the kernel's source with QUERN_CPU defined, and
 * machine_main.hpp, in this order (cpu.c).
 */
#ifndef QUERN_CPU_MACHINE_H
#define QUERN_CPU_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#define QUERN_CPU
#define DEVICE                inline
#define KERNEL(name, threads) static void name
#define UNROLL
#define NO_UNROLL

struct alignas(8) u32x2 {
    unsigned x, y;
};
struct alignas(16) u32x4 {
    unsigned x, y, z, w;
};

namespace machine
{

/* Accesses of the running thread, which end the program where they are a mistake. */
void read_shared(unsigned at, void *value, unsigned bytes);
void write_shared(unsigned at, const void *value, unsigned bytes);
/* What another block of the cluster has. */
void read_shared_of(unsigned rank, unsigned at, void *value, unsigned bytes);
/* The top byte of the running thread's addresses of shared memory, and an address without it. */
unsigned window_here();
unsigned in_window(unsigned at);
/* Ends the program unless what a kernel checks is so. */
void check(bool right);
void read_global(const void *from, void *value, size_t bytes);
void read_late(const void *from, void *value, size_t bytes);
void write_global(void *to, const void *value, size_t bytes);
/* The launch in front was waited for, and operands that start here may be read since. */
void know_launch(const void *const *starts, size_t count);

/* A product of four warps: rows of A that it has at most, and how it is begun and ended. */
enum { PRODUCT_ROWS = 64 };
void start_product(float *sums, uint32_t count, const uint32_t (&bits)[4], uint32_t at);
void finish_products(uint32_t left);

float f32_of_f16(uint32_t half);
/* Rounded to nearest even. A NaN is cvt's, 0x7fff. */
uint16_t f16_of_f32(float value);
uint16_t bf16_of_f32(float value);

inline float f32_of_bits(uint32_t bits)
{
    float f;

    __builtin_memcpy(&f, &bits, sizeof f);
    return f;
}
inline float widen_bf16(uint32_t half)
{
    return f32_of_bits(half << 16);
}

/* Runs the launch that the text file at `path` describes, and prints "done" or "fault: …" in one
 * line. The kernel has so many parameters; `stored` says of each whether what it points to may be
 * written, and `body` calls the kernel with its arguments; neighbours in y form clusters of so many
 * blocks, as the kernel's text says on a GPU, too. Returns the program's exit status: 0, 3
 * for a fault, 2 where the launch cannot be read. */
int run(const char *path, const bool *stored, size_t parameters,
        void (*body)(const void *kernel, const uint64_t *arguments), const void *kernel,
        uint32_t cluster);

/* What a load of a T gives: bytes and halves come as words, as registers have them. */
template <class T, bool NARROW = (sizeof(T) < 4)> struct loaded {
    typedef T type;
};
template <class T> struct loaded<T, true> {
    typedef unsigned type;
};

} // namespace machine

/* ---- The primitives -------------------------------------------------------------------------- */

unsigned item();
unsigned group_x();
unsigned group_y();
unsigned cluster_rank();
void sync_cluster();
void check_shared_start();
void prefetch(const void *from);
void barrier_init(unsigned at, unsigned arrivals);
void barrier_init_fence();
void barrier_arrive(unsigned at);
void barrier_expect(unsigned at, unsigned bytes);
void barrier_wait(unsigned at, unsigned parity);
void bulk_copy(unsigned to, const void *from, unsigned bytes, unsigned barrier, bool once);
void copy_16(unsigned to, const void *from, unsigned barrier);
void arrive_behind_copies(unsigned at);
void sync_group();
void sync_some(unsigned id, unsigned count);
void arrive_some(unsigned id, unsigned count);
void sync_warp();
float exponential(float x);
float shuffle_xor(float value, unsigned lanes);
unsigned lanes_alike(unsigned value);
void mma_bf16(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
              unsigned b1);
void mma_f16(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
             unsigned b1);
void fence_async();
void products_commit();

template <class T> static T lds(unsigned at, unsigned offset = 0)
{
    T value;

    machine::read_shared(at + offset, &value, sizeof value);
    return value;
}
static inline unsigned cluster_window()
{
    return machine::window_here();
}
template <class T> static T lds_in_window(unsigned at)
{
    return lds<T>(machine::in_window(at));
}
static inline u32x4 lds_of(unsigned rank, unsigned at)
{
    u32x4 value;

    machine::read_shared_of(rank, at, &value, sizeof value);
    return value;
}
static inline void check(bool right)
{
    machine::check(right);
}
template <class T> static void sts(unsigned at, T value)
{
    machine::write_shared(at, &value, sizeof value);
}
template <class T> static void stg(T *to, T value)
{
    machine::write_global(to, &value, sizeof value);
}
template <class T> static auto ldg(const T *from)
{
    typename machine::loaded<T>::type value = {};

    machine::read_global(from, &value, sizeof(T));
    return value;
}
template <class T> static auto ldg_late(const T *from)
{
    typename machine::loaded<T>::type value = {};

    machine::read_late(from, &value, sizeof(T));
    return value;
}
template <class... T> static void await_launch_in_front(const T *...pointers)
{
    const void *const starts[] = {nullptr, pointers...};

    machine::know_launch(starts + 1, sizeof...(T));
}
template <unsigned LEFT> static void products_wait()
{
    machine::finish_products(LEFT);
}
template <size_t COUNT>
static void warpgroup_mma(float (&sums)[COUNT], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                          unsigned at)
{
    static_assert(COUNT <= machine::PRODUCT_ROWS / 2 && COUNT % 4 == 0, "rows of A");
    machine::start_product(sums, COUNT, {a0, a1, a2, a3}, at);
}

static inline bool one_lane()
{
    return item() % 32 == 0;
}

static inline void let_next_launch_begin() {}
/* A thread here has as many registers as its text asks for, so that handing them over does nothing:
 * whether a GPU has as many to share out is the plan's to know (plan_registers). */
template <unsigned> static void take_registers() {}
template <unsigned> static void leave_registers() {}
static inline void products_begin() {}

static inline unsigned both_bf16(float value)
{
    return machine::bf16_of_f32(value) * 0x10001u;
}

/* In f32 the product and the difference of two bf16 numbers are exact or rounded so far below that
 * rounding again gives the nearest bf16. */
static inline unsigned product_bf16x2(unsigned a, unsigned b)
{
    return machine::bf16_of_f32(machine::widen_bf16(a & 0xffff) * machine::widen_bf16(b & 0xffff)) |
           (unsigned)machine::bf16_of_f32(machine::widen_bf16(a >> 16) *
                                          machine::widen_bf16(b >> 16))
               << 16;
}

static inline unsigned difference_bf16x2(unsigned a, unsigned b)
{
    return machine::bf16_of_f32(machine::widen_bf16(a & 0xffff) - machine::widen_bf16(b & 0xffff)) |
           (unsigned)machine::bf16_of_f32(machine::widen_bf16(a >> 16) -
                                          machine::widen_bf16(b >> 16))
               << 16;
}

/* prmt's default mode: bit 3 of a nibble of the selector spreads the byte's sign. */
static inline unsigned byte_permute(unsigned low, unsigned high, unsigned selector)
{
    const uint64_t bytes = low | (uint64_t)high << 32;
    unsigned out = 0;

    for (unsigned i = 0; i < 4; i++) {
        const unsigned nibble = selector >> 4 * i & 15;
        const unsigned byte = (unsigned)(bytes >> 8 * (nibble & 7)) & 255;
        out |= (nibble & 8 ? byte & 128 ? 255 : 0 : byte) << 8 * i;
    }
    return out;
}

static inline unsigned and_or(unsigned a, unsigned b, unsigned c)
{
    return (a & b) | c;
}

static inline unsigned count_bits(unsigned value)
{
    return (unsigned)__builtin_popcount(value);
}

static inline float fused(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

static inline float product(float a, float b)
{
    return a * b;
}

static inline float sum(float a, float b)
{
    return a + b;
}

static inline float larger(float a, float b)
{
    return __builtin_fmaxf(a, b);
}

static inline unsigned short round_f16(float value)
{
    return machine::f16_of_f32(value);
}

static inline unsigned short round_bf16(float value)
{
    return machine::bf16_of_f32(value);
}

static inline unsigned round_bf16x2(float low, float high)
{
    return machine::bf16_of_f32(low) | (unsigned)machine::bf16_of_f32(high) << 16;
}

static inline float widen_f16(unsigned half)
{
    return machine::f32_of_f16(half);
}

/* A byte of e4m3 as f16, which holds every value; NaN of either sign becomes 0x7fff, as an H200 has
 * it. */
static inline unsigned widen_fp8(unsigned byte)
{
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    const float magnitude = exponent ? __builtin_ldexpf((float)(8 + mantissa), exponent - 10)
                                     : (float)mantissa * 0x1p-9f;

    return (byte & 0x7f) == 0x7f ? 0x7fff : machine::f16_of_f32(magnitude) | (byte & 0x80) << 8;
}

static inline unsigned widen_fp8x2(unsigned bytes)
{
    return widen_fp8(bytes & 255) | widen_fp8(bytes >> 8 & 255) << 16;
}

#endif
