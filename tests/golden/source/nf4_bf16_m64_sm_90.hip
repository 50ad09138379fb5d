/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for sm_90, M = 33 and more
// op=gemm wq=nf4 group=64 scale=f32 a=bf16 c=bf16 n=14336 k=4096 bias=0 layout=bnb round=rne


#define SYMBOL quern_nf4_bf16_n14336_k4096_g64_m64 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 14336;           // rows of W
constexpr unsigned K = 4096;            // columns of W
#define GLU 0                           // whether two rows of W become a column of C
#define MOE 0                           // whether slots name the rows, and blocks the expert
constexpr unsigned BLOCK = 64;          // weights along K that share a scale
#define WORD_ORDER BNB                  // of the weights in a word
#define C_TYPE BF16                     // elements of C and of a bias
#define A_TYPE BF16                     // elements of A
#define SCALE_IS_NESTED 0               // whether scales are quantised again
#define SCALE_IS_E8M0 0                 // whether they are powers of two
#define SCALE_TYPE F32                  // elements of scales
#define ZERO ZERO_NONE                  // what zero points are
#define HAS_ZEROS 0                     // whether there are any
#define BIAS 0                          // whether a bias is added
constexpr unsigned M_TILE = 64;         // rows of A computed at once

constexpr unsigned WAVE = 32;           // lanes
constexpr unsigned WAVES = 12;          // in a workgroup
constexpr unsigned ROWS = 112;          // of W at a time, in slabs of 64
constexpr unsigned K_PARTS = 1;         // groups of four warps that share a slab
constexpr unsigned UNITS = 4;           // of 64 columns, of a group in a chunk of K
constexpr unsigned STAGES = 3;          // of the ring
#define CLUSTER 1                       // workgroups that share rows of W
#define EARLY true                      // whether launches may overlap: prelude/ptx
constexpr unsigned SHARED_START = 1024; // where a workgroup's shared memory is
constexpr unsigned SHARED_BYTES = 206944; // of a workgroup
#define SLICES_FIRST true               // whether slices of A are workgroup id x

// ---- cuda/prelude/ptx ----
// All that a kernel for NVIDIA does with memory, barriers, matrix units and other lanes: a dozen
// primitives, most of them an instruction of PTX each. Families name these and nothing else of the
// kind, so that src/cpu/machine.h, which defines the same names for a CPU and is then included in
// front, runs a family's text as it stands. What a primitive does is told there; the comments here
// say what must not be changed about the instruction. (PTX ISA 8.3, "Instruction Set".)
//
// Shared memory is named by offsets from the start of the block's dynamic shared memory.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

#ifndef QUERN_CPU
#define DEVICE __device__ __forceinline__
// CLUSTER workgroups, neighbours in y, are launched together where that is more than one.
#if CLUSTER > 1
#define TOGETHER __cluster_dims__(1, CLUSTER, 1)
#else
#define TOGETHER
#endif
#define KERNEL(name, threads)                                                                      \
    extern "C" __global__ void TOGETHER __launch_bounds__(threads, 1) name
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

struct alignas(8) u32x2 { u32 x, y; };
struct alignas(16) u32x4 { u32 x, y, z, w; };

// A block's dynamic shared memory starts at SHARED_START, as these kernels have no static one. A
// constant is a part of an instruction; the array's own place is known when a kernel is linked, and
// the compiler would add it to each address, which is a third instruction for each look-up.
extern __shared__ __align__(1024) u8 SHARED[];
// The number of a workgroup in its cluster. In an address of shared memory it is the top byte, so
// that one workgroup can name what another has; plain loads and stores, copies and mbarriers want
// it of their own memory, too.
DEVICE u32 cluster_rank()
{
    u32 v;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
    return v;
}
DEVICE u32 cluster_window() { return CLUSTER > 1 ? cluster_rank() << 24 : 0; }
DEVICE u32 shared_address(u32 at) { return cluster_window() + SHARED_START + at; }
// Ends the kernel with an error where something is not so.
DEVICE void check(bool right)
{
    if (!right)
        asm volatile("trap;");
}
// To be called before shared memory is used.
DEVICE void check_shared_start()
{
    check((u32)__cvta_generic_to_shared(SHARED) == shared_address(0));
}
template <class T> DEVICE T *shared(u32 at) { return (T *)__cvta_shared_to_generic(at); }

DEVICE u32 item() { return threadIdx.x; }
DEVICE u32 group_x() { return blockIdx.x; }
DEVICE u32 group_y() { return blockIdx.y; }

// Plain accesses, which the compiler may combine and move, but not across the barriers below: those
// clobber memory.
// `offset`, a constant, becomes a part of the instruction, which it would not as a part of `at`.
template <class T> DEVICE T lds(u32 at, u32 offset = 0)
{
    return *shared<const T>(shared_address(at + offset));
}
// The same, of an address that has the window in it (cluster_window): where `at` is put together
// from bytes, it costs nothing there, and would be an instruction here.
template <class T> DEVICE T lds_in_window(u32 at)
{
    return *shared<const T>(SHARED_START + at);
}
// What the workgroup of such a rank in the cluster has at `at`.
DEVICE u32x4 lds_of(u32 rank, u32 at)
{
    u32x4 v;
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"((rank << 24) + SHARED_START + at));
    return v;
}
template <class T> DEVICE void sts(u32 at, T value) { *shared<T>(shared_address(at)) = value; }
// Four stores of one word, had the compiler its way: of a plain address it does not see that the
// words are neighbours.
template <> DEVICE void sts<u32x4>(u32 at, u32x4 value)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(at)), "r"(value.x),
                 "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
}
template <class T> DEVICE void stg(T *to, T value) { *to = value; }

template <class T> DEVICE void pass_through(const T *&pointer)
{
    asm volatile("" : "+l"(pointer));
}
// Lets the launch behind this one begin as soon as multiprocessors have room for it, and the wait
// that pays for it: where the host says that weights are constant (quern.h,
// QUERN_WEIGHTS_CONSTANT), this launch may have begun before the one in front of it ended. Until
// then a thread may load nothing but weights and what belongs to them, and store nothing to global
// memory. Both do nothing in a launch that began as launches usually do.
DEVICE void let_next_launch_begin()
{
    if constexpr (EARLY)
        asm volatile("griddepcontrol.launch_dependents;");
}
// `pointers`: to everything else that this thread is going to load. They pass through the wait, so
// that the compiler cannot move such a load in front of it.
template <class... T> DEVICE void await_launch_in_front(const T *&...pointers)
{
    if constexpr (EARLY) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        int passed[] = {0, (pass_through(pointers), 0)...};
        (void)passed;
    }
}

// Loads through the read-only path, of operands that no kernel writes while this one runs; and
// loads of those that the launch in front may have written, which are promised no such thing. All
// are volatile: what is not, NVRTC takes for arithmetic. It once moved a load by a pointer that may
// be null out of a loop, in front of the question whether it is.
#define LOADS(name, path)                                                                          \
    DEVICE u32 name(const u8 *from)                                                                \
    {                                                                                              \
        u32 v;                                                                                     \
        asm volatile("ld.global" path ".u8 %0, [%1];" : "=r"(v) : "l"(from));                      \
        return v;                                                                                  \
    }                                                                                              \
    DEVICE u32 name(const u16 *from)                                                               \
    {                                                                                              \
        u16 v;                                                                                     \
        asm volatile("ld.global" path ".u16 %0, [%1];" : "=h"(v) : "l"(from));                     \
        return v;                                                                                  \
    }                                                                                              \
    DEVICE u32 name(const u32 *from)                                                               \
    {                                                                                              \
        u32 v;                                                                                     \
        asm volatile("ld.global" path ".u32 %0, [%1];" : "=r"(v) : "l"(from));                     \
        return v;                                                                                  \
    }                                                                                              \
    DEVICE float name(const float *from)                                                           \
    {                                                                                              \
        float v;                                                                                   \
        asm volatile("ld.global" path ".f32 %0, [%1];" : "=f"(v) : "l"(from));                     \
        return v;                                                                                  \
    }                                                                                              \
    DEVICE u32x2 name(const u32x2 *from)                                                           \
    {                                                                                              \
        u32x2 v;                                                                                   \
        asm volatile("ld.global" path ".v2.u32 {%0, %1}, [%2];"                                    \
                     : "=r"(v.x), "=r"(v.y)                                                        \
                     : "l"(from));                                                                 \
        return v;                                                                                  \
    }                                                                                              \
    DEVICE u32x4 name(const u32x4 *from)                                                           \
    {                                                                                              \
        u32x4 v;                                                                                   \
        asm volatile("ld.global" path ".v4.u32 {%0, %1, %2, %3}, [%4];"                            \
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)                                  \
                     : "l"(from));                                                                 \
        return v;                                                                                  \
    }
LOADS(ldg, ".nc")
LOADS(ldg_late, "")

// Asks for the line of memory that holds `from`; nothing waits for it.
DEVICE void prefetch(const void *from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

DEVICE void barrier_init(u32 at, u32 arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(at)), "r"(arrivals));
}
DEVICE void barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void barrier_arrive(u32 at)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(at)) : "memory");
}
DEVICE void barrier_expect(u32 at, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(at)),
                 "r"(bytes)
                 : "memory");
}
DEVICE void barrier_wait(u32 at, u32 parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra AGAIN;\n"
                 "}" ::"r"(shared_address(at)),
                 "r"(parity)
                 : "memory");
}
// What the second cache drops first, for what is read once, and what it treats like all else. (What
// createpolicy.fractional makes for all of an access.)
constexpr u64 EVICT_FIRST = 0x12f0000000000000, EVICT_NORMAL = 0x1000000000000000;
DEVICE void bulk_copy(u32 to, const void *from, u32 bytes, u32 barrier, bool once)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier)),
                 "l"(once ? EVICT_FIRST : EVICT_NORMAL)
                 : "memory");
}

// Puts the calling thread's loads from and stores to shared memory in front of what bulk copies and
// the matrix units of prelude/warpgroup do there, past the path that those take: a copy must not
// overwrite what is still being read, and the matrix units must see what was stored. A barrier must
// follow before they do. That a barrier alone is not enough was seen on an H100: it arrives before
// a load that is under way has read, and copies from the second cache are quick enough to be in
// front of that.
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE void sync_group() { asm volatile("barrier.sync 0;" ::: "memory"); }
DEVICE void sync_some(u32 id, u32 threads)
{
    asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// For threads that others wait for in sync_some, of as many threads in all, and that go on.
DEVICE void arrive_some(u32 id, u32 threads)
{
    asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// All threads of a cluster that have not ended meet here, and see what the others have stored to
// shared memory, and to that alone: so who comes here must not keep another thread of the cluster
// from ending, and must have used what it read of others if these may end next. An arrival with
// release, in place of this fence, waits until all that the thread stored anywhere is seen by the
// whole GPU, which took 0.4 us. (PTX ISA 8.6, "fence".)
DEVICE void sync_cluster()
{
    asm volatile("fence.release.sync_restrict::shared::cta.cluster;\n"
                 "barrier.cluster.arrive.relaxed;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}
// Whether this lane is the one of its warp that acts for all. The compiler knows that it is one.
DEVICE bool one_lane()
{
    u32 one;
    asm volatile("{\n"
                 ".reg .pred chosen;\n"
                 "elect.sync _|chosen, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, chosen;\n"
                 "}"
                 : "=r"(one));
    return one;
}
// Four neighbouring warps (a warpgroup), all together, go on with COUNT registers a lane, a
// multiple of eight: more than they have, for which they wait until others have left as many, or
// fewer. The compiler gives as many to the code behind it in the same branch. (PTX ISA 8.0,
// "setmaxnreg"; only code for sm_90a and the like has it.)
template <u32 COUNT> DEVICE void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <u32 COUNT> DEVICE void leave_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
DEVICE void sync_warp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
DEVICE float shuffle_xor(float value, u32 lanes)
{
    float v;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
                 : "=f"(v) : "f"(value), "r"(lanes));
    return v;
}

// The lanes of this warp, a bit for each, whose value is this lane's.
DEVICE u32 lanes_alike(u32 value)
{
    u32 v;
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(v) : "r"(value));
    return v;
}

// Not volatile: products may be moved, as what they are made of and for allows.
DEVICE void mma_bf16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
DEVICE void mma_f16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

DEVICE u32 byte_permute(u32 low, u32 high, u32 selector)
{
    u32 v;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(low), "r"(high), "r"(selector));
    return v;
}
// (a & b) | c, one instruction where b and c are constants too.
DEVICE u32 and_or(u32 a, u32 b, u32 c)
{
    u32 v;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
    return v;
}
DEVICE u32 count_bits(u32 value)
{
    u32 v;
    asm("popc.b32 %0, %1;" : "=r"(v) : "r"(value));
    return v;
}
DEVICE float fused(float a, float b, float c)
{
    float v;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(v) : "f"(a), "f"(b), "f"(c));
    return v;
}
// Product and sum that no compiler makes one of: rounded where bitsandbytes rounds.
DEVICE float product(float a, float b)
{
    float v;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
    return v;
}
DEVICE float sum(float a, float b)
{
    float v;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
    return v;
}
DEVICE float larger(float a, float b)
{
    float v;
    asm("max.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
    return v;
}
// e^x, by 2^x: off by some units in the last place.
DEVICE float exponential(float x)
{
    float v;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x * 1.44269504f));
    return v;
}
DEVICE u16 round_f16(float value)
{
    u16 v;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v) : "f"(value));
    return v;
}
DEVICE u16 round_bf16(float value)
{
    u16 v;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v) : "f"(value));
    return v;
}
// Two numbers at once, `low` to the lower half.
DEVICE u32 round_bf16x2(float low, float high)
{
    u32 v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
}
DEVICE float widen_f16(u32 half)
{
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((u16)half));
    return v;
}
// Two e4m3 as two f16, the lower byte to the lower half.
DEVICE u32 widen_fp8x2(u32 bytes)
{
    u32 v;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(v) : "h"((u16)bytes));
    return v;
}
#endif

// ---- What follows is made of the primitives, or of plain C++ ----

enum element { F32, F16, BF16, FP8 };
template <int TYPE> struct element_of;
template <> struct element_of<F32> { typedef float type; };
template <> struct element_of<F16> { typedef u16 type; };
template <> struct element_of<BF16> { typedef u16 type; };
template <> struct element_of<FP8> { typedef u8 type; }; // e4m3

constexpr u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
constexpr u32 divide_up(u32 a, u32 b) { return (a + b - 1) / b; }

DEVICE float as_float(u32 bits) { return __builtin_bit_cast(float, bits); }
DEVICE u32 as_bits(float value) { return __builtin_bit_cast(u32, value); }

template <int TYPE> DEVICE float widen(u32 bits)
{
    return TYPE == F16 ? widen_f16(bits) : TYPE == BF16 ? as_float(bits << 16) : as_float(bits);
}
template <int TYPE> DEVICE float load(const typename element_of<TYPE>::type *from)
{
    if constexpr (TYPE == F32)
        return ldg(from);
    else
        return widen<TYPE>(ldg(from));
}
template <int TYPE> DEVICE typename element_of<TYPE>::type rounded(float value)
{
    if constexpr (TYPE == F32)
        return value;
    else
        return TYPE == F16 ? round_f16(value) : round_bf16(value);
}
template <int TYPE>
DEVICE void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
    if constexpr (TYPE == F16)
        mma_f16(c, a0, a1, a2, a3, b0, b1);
    else
        mma_bf16(c, a0, a1, a2, a3, b0, b1);
}

// A number as the bits of a 16-bit type, rounded to nearest even, by the compiler. Numbers that f16
// can hold as normal ones only: those of tables of codes.
constexpr u32 constant_bits(int type, float value)
{
    const u32 bits = __builtin_bit_cast(u32, value);
    if (type == BF16)
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const u32 magnitude = bits & 0x7fffffff;
    if (!magnitude)
        return bits >> 16;
    return (bits >> 16 & 0x8000) | (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
}

// ---- cuda/prelude/warpgroup ----
// Primitives of GPUs whose matrix units four warps feed together (wgmma, which only code for
// sm_90a has), beside those of prelude/ptx: src/cpu/machine.hpp defines the same names for a CPU.
// (PTX ISA 8.3, "Asynchronous Warpgroup Level Matrix Instructions" and "Data Movement".)

#ifndef QUERN_CPU
// Starts a copy of 16 bytes, both places aligned to that. It is counted by arrive_behind_copies.
DEVICE void copy_16(u32 to, const void *from, u32)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(to)),
                 "l"(from)
                 : "memory");
}
// The calling thread arrives at a barrier as soon as all copies that it started have landed; the
// barrier was made for that arrival, like any other.
DEVICE void arrive_behind_copies(u32 at)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(at))
                 : "memory");
}

// Asynchronous products: products_begin, any number of warpgroup_mma into the same sums,
// products_commit. products_wait<LEFT> waits for all committed so far but the LEFT last; only then
// may what they read be overwritten, and only with LEFT = 0 may sums be read.
DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <u32 LEFT> DEVICE void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// What the matrix unit is told of 16 columns of A in shared memory: the start, 1024 bytes from
// eight rows to the next eight, and that 16-byte pieces of rows of 128 bytes are swizzled.
DEVICE u64 matrix_descriptor(u32 at)
{
    u64 v;
    asm("mov.b64 %0, {%1, %2};"
        : "=l"(v) : "r"(shared_address(at) >> 4 | 1u << 16), "r"(64u | 1u << 30));
    return v;
}

// Adds W times A transposed to sums, for 64 rows of W, 16 of each warp, 16 columns, and as many
// rows of A as there are sums of two. W's fragments are those of mma.m16n8k16. A lies at `at` (a
// multiple of 32 in blocks that start at multiples of 1024), a row in each 128 bytes, swizzled.
DEVICE void warpgroup_mma(float (&d)[16], u32 a0, u32 a1, u32 a2, u32 a3, u32 at)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(matrix_descriptor(at)));
}
DEVICE void warpgroup_mma(float (&d)[32], u32 a0, u32 a1, u32 a2, u32 a3, u32 at)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(matrix_descriptor(at)));
}

// Two numbers of bf16 at a time, rounded to nearest even.
DEVICE u32 both_bf16(float value)
{
    u32 v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(v) : "f"(value));
    return v;
}
DEVICE u32 product_bf16x2(u32 a, u32 b)
{
    u32 v;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
DEVICE u32 difference_bf16x2(u32 a, u32 b)
{
    u32 v;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
#endif

// ---- cuda/prelude/layer ----
// The numbers of the layer. They are constants, or in a base kernel (KNOWN is 0) arguments, the
// first of all: N, K, BLOCK and BLOCKS are then macros that read them from `the_layer`, which every
// function that names one of those gets as its first parameter. So what is computed from those is a
// macro in families that have base kernels, and what must be a constant asks for KNOWN before it
// asks for them.

#if KNOWN
#define LAYER_OPERANDS
#define LAYER_PARAMETER
#define LAYER_NAME
#define ENTER_LAYER
#define HAS_BIAS true
#define BLOCKS   (K / BLOCK) // of a row
#else
struct layer_numbers {
    u32 n, k;
    u32 block_shift; // weights that share a scale, as a power of two
    u32 blocks;      // of a row
    u32 has_bias;
};
// Constants at the top name it where their value does not depend on it. There is no such variable:
// a function that forgot the parameter would not link.
extern const layer_numbers the_layer;
#define LAYER_OPERANDS                                                                             \
    u32 layer_n, u32 layer_k, u32 layer_block_shift, u32 layer_blocks, u32 layer_has_bias,         \
        u32 layer_truncate,
#define LAYER_PARAMETER const layer_numbers &the_layer,
#define LAYER_NAME      the_layer,
#define ENTER_LAYER                                                                                \
    const layer_numbers the_layer = {layer_n, layer_k, layer_block_shift, layer_blocks,            \
                                     layer_has_bias};
#define layer()  (&the_layer)
#define HAS_BIAS (the_layer.has_bias != 0)
#define BLOCKS   (the_layer.blocks)
#endif

// Where the scales of row n of W begin, and how many all of W has, where each row has its own.
#define SCALE_ROW(n)       ((n) * BLOCKS)
#define SCALE_COUNT        ((u64)N * BLOCKS)
#define NEIGHBOURS_AT_ONCE true // whether scales of neighbours are aligned for loads of several
#define A_BLOCK_SCALED     0

constexpr u32 NO_ROW = ~0u; // of C: results are not stored

// Gate and up, two rows of W, become a column of C where there is a GLU. A kernel counts rows so
// that the two are neighbours, the gate first, at 2i and 2i + 1; W_ROW is where such a row stands
// in W, and so with its scales and its bias. The sum of two rows, of which the first is even, has
// the sum of their places. C_COLUMN is where the result of row n goes, if HAS_COLUMN.
#if GLU && GLU_HALVES
#define W_ROW(n) ((u64)((n) / 2) + (n) % 2 * (u64)(N / 2))
#else
#define W_ROW(n) (n)
#endif
#if GLU
#define C_COLUMN(n)   ((n) / 2)
#define HAS_COLUMN(n) ((n) % 2 == 0)
#else
#define C_COLUMN(n)   (n)
#define HAS_COLUMN(n) true
#endif

// ---- decode/nf4 ----
// NF4 (QLoRA, arXiv:2305.14314, appendix E): the quantiles of a normal distribution.

constexpr float CODE[16] = {
    -1.0f,                 -0.6961928009986877f, -0.5250730514526367f,  -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f,  0.16093020141124725f, 0.24611230194568634f,  0.33791524171829224f,
    0.44070982933044434f,  0.5626170039176941f,  0.7229568362236023f,   1.0f,
};
constexpr float CODE_UNIT = 1.0f; // what one unit of CODE is worth

// ---- cuda/prelude/scales ----
// The scales of blocks of W, by how the problem keeps them: one number a block, of SCALE_TYPE; or,
// where SCALE_IS_NESTED, a byte a block that stands for code[byte] * scales[block / 256] + offset,
// as bitsandbytes has it; or, where SCALE_IS_E8M0, a byte that stands for 2^(byte - 127), 255 for
// NaN. Beside scales, where HAS_ZEROS, the zero points of int4, as bytes or scaled.

enum word_order { BNB, K8, EXL }; // what nibbles of eight weights are: the formats page says it
enum zero_kind { ZERO_NONE, ZERO_U8, ZERO_SCALED };

typedef element_of<SCALE_TYPE>::type scale_element;
template <bool> struct zero_element_of { typedef u8 type; };
template <> struct zero_element_of<true> { typedef scale_element type; };
typedef zero_element_of<ZERO == ZERO_SCALED>::type zero_element;

// Of each kind: the operands of a kernel, before others, and which of them has a number or a byte
// for each block.
#if SCALE_IS_NESTED
#define SCALE_OPERANDS                                                                             \
    const float *scales, const u8 *absmax8, const float *code, const float *offset,
#define SCALE_NAMES  scales, absmax8, code, offset,
#define BLOCK_SCALES absmax8
// Makes the operands those of one expert, where there are several (cuda/prelude/moe.cu).
#define SCALES_OF_EXPERT(expert)                                                                   \
    scales += (expert) * (((u64)N * BLOCKS + NEST - 1) / NEST);                                    \
    absmax8 += (expert) * ((u64)N * BLOCKS);                                                       \
    offset += (expert)
typedef u8 block_scale;
constexpr u32 NEST = 256; // absmax that share a second scale
#elif SCALE_IS_E8M0
#define SCALE_OPERANDS const u8 *scales,
#define SCALE_NAMES    scales,
#define BLOCK_SCALES   scales
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)
typedef u8 block_scale;
#else
#if HAS_ZEROS
#define SCALE_OPERANDS const scale_element *scales, const zero_element *zeros,
#define SCALE_NAMES    scales, zeros,
#define SCALES_OF_EXPERT(expert)                                                                   \
    scales += (expert) * ((u64)N * BLOCKS);                                                        \
    zeros += (expert) * ((u64)N * BLOCKS)
#else
#define SCALE_OPERANDS const scale_element *scales,
#define SCALE_NAMES    scales,
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)
#endif
#define BLOCK_SCALES scales
typedef scale_element block_scale;
#endif
#define UNIT_OF_SUMS CODE_UNIT // what remains to be multiplied by
#define LATE_UNIT              // which is no operand

// COUNT neighbouring numbers, 1, 2 or 4, in the words that they come in: begin_scales starts a load
// whose result nobody looks at before the step that it is for. Taking a word apart as soon as it is
// loaded would make the warp wait for memory there.
template <class T, u32 COUNT> struct neighbours {
    static constexpr u32 IN_WORD = 4 / sizeof(T), BITS = 8 * sizeof(T);
    u32 words[divide_up(COUNT, IN_WORD)];

    DEVICE u32 at(u32 i) const
    {
        return words[i / IN_WORD] >> i % IN_WORD * BITS & 0xffffffff >> (32 - BITS);
    }
};
template <class T, u32 COUNT> DEVICE neighbours<T, COUNT> load_some(const T *from)
{
    static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "a load has no other sizes");
    if constexpr (COUNT * sizeof(T) == 16) {
        const u32x4 v = ldg((const u32x4 *)from);
        return {{v.x, v.y, v.z, v.w}};
    } else if constexpr (COUNT * sizeof(T) == 8) {
        const u32x2 v = ldg((const u32x2 *)from);
        return {{v.x, v.y}};
    } else if constexpr (COUNT * sizeof(T) == 4) {
        return {{ldg((const u32 *)from)}};
    } else if constexpr (COUNT * sizeof(T) == 2) {
        return {{ldg((const u16 *)from)}};
    } else {
        return {{ldg((const u8 *)from)}};
    }
}

// What was loaded for a number of neighbouring blocks; scale_at makes a number of what has come.
// COUNT divides BLOCKS and 256.
template <u32 COUNT> struct loaded_scales {
    neighbours<block_scale, COUNT> scales;
    neighbours<zero_element, COUNT> zeros;
    u32 second;
};

template <u32 COUNT> DEVICE loaded_scales<COUNT> begin_scales(SCALE_OPERANDS u64 block)
{
    loaded_scales<COUNT> s = {};
    s.scales = load_some<block_scale, COUNT>(BLOCK_SCALES + block);
#if SCALE_IS_NESTED
    s.second = ldg((const u32 *)scales + block / NEST);
#endif
#if HAS_ZEROS
    s.zeros = load_some<zero_element, COUNT>(zeros + block);
#endif
    return s;
}

// The same from shared memory, where a copy of neighbours begins at `at`, and one of their zero
// points at `zeros_at`. `block` counts from there.
template <class T, u32 COUNT> DEVICE neighbours<T, COUNT> take_some(u32 at)
{
    if constexpr (COUNT * sizeof(T) == 16) {
        const u32x4 v = lds<u32x4>(at);
        return {{v.x, v.y, v.z, v.w}};
    } else if constexpr (COUNT * sizeof(T) == 8) {
        const u32x2 v = lds<u32x2>(at);
        return {{v.x, v.y}};
    } else if constexpr (COUNT * sizeof(T) == 4) {
        return {{lds<u32>(at)}};
    } else if constexpr (COUNT * sizeof(T) == 2) {
        return {{lds<u16>(at)}};
    } else {
        return {{lds<u8>(at)}};
    }
}
template <u32 COUNT> DEVICE loaded_scales<COUNT> take_scales(u32 at, u32 zeros_at, u32 block)
{
    loaded_scales<COUNT> s = {};
    s.scales = take_some<block_scale, COUNT>(at + block * sizeof(block_scale));
    if (HAS_ZEROS)
        s.zeros = take_some<zero_element, COUNT>(zeros_at + block * sizeof(zero_element));
    return s;
}

constexpr u32 SCALE_BYTES = sizeof(block_scale), ZERO_BYTES = HAS_ZEROS ? sizeof(zero_element) : 0;

// Bulk copies are of multiples of 16 bytes, from such multiples. So what is in front of numbers of
// `bytes` bytes from number `first` on, and behind the last of `count`, may come with them. The
// plan copies so only where whole rows are such multiples, or a copy could leave the operand.
DEVICE u32 bytes_before(u64 first, u32 bytes) { return (u32)first * bytes % 16; }
DEVICE u32 copied_bytes(u64 first, u32 count, u32 bytes)
{
    return divide_up(bytes_before(first, bytes) + count * bytes, 16) * 16;
}

// Starts a bulk copy of them. ALIGNED: they are such multiples themselves.
template <bool ALIGNED, class T>
DEVICE void copy_numbers(u32 to, const T *from, u64 first, u32 count, u32 barrier, bool once)
{
    if (ALIGNED)
        bulk_copy(to, from + first, count * sizeof(T), barrier, once);
    else
        bulk_copy(to, (const u8 *)(from + first) - bytes_before(first, sizeof(T)),
                  copied_bytes(first, count, sizeof(T)), barrier, once);
}

// The same of `count` neighbouring blocks' from `block` on, to `to`, and their zero points.
template <bool ALIGNED>
DEVICE void copy_scales(SCALE_OPERANDS u64 block, u32 count, u32 to, u32 zeros_to, u32 barrier,
                        bool once)
{
    copy_numbers<ALIGNED>(to, BLOCK_SCALES, block, count, barrier, once);
#if HAS_ZEROS
    copy_numbers<ALIGNED>(zeros_to, zeros, block, count, barrier, once);
#endif
}

constexpr u32 LINE_BLOCKS = 128 / sizeof(block_scale); // whose scales a line of memory holds

DEVICE void prefetch_scales(SCALE_OPERANDS u64 block)
{
    prefetch(BLOCK_SCALES + block);
#if HAS_ZEROS
    prefetch(zeros + block);
#endif
}

// `codes`: where in shared memory the 256 numbers of `code` are; `shift`: *offset.
template <u32 COUNT>
DEVICE float scale_at(const loaded_scales<COUNT> &s, u32 i, u32 codes, float shift)
{
#if SCALE_IS_NESTED
    return sum(product(lds<float>(codes + s.scales.at(i) * 4), as_float(s.second)), shift);
#elif SCALE_IS_E8M0
    // 0 stands for 2^-127, below normal numbers, and 255 for NaN: infinity times zero is.
    const float power = larger(as_float(s.scales.at(i) << 23), as_float(1u << 22));
    return fused(power, 0.0f, power);
#else
    return widen<SCALE_TYPE>(s.scales.at(i));
#endif
}
// A weight is (its code's value - shift_at) * scale_at - extra_at.
template <u32 COUNT> DEVICE float shift_at(const loaded_scales<COUNT> &s, u32 i)
{
    return ZERO == ZERO_U8 ? (float)s.zeros.at(i) - 8.0f : 0.0f;
}
template <u32 COUNT> DEVICE float extra_at(const loaded_scales<COUNT> &s, u32 i)
{
    return ZERO == ZERO_SCALED ? widen<SCALE_TYPE>(s.zeros.at(i)) : 0.0f;
}

// ---- cuda/prelude/pairs ----
// Codes as pairs of A_TYPE, by a table of all 256 pairs of codes in units of CODE_UNIT, which has a
// copy for each lane: one byte permute makes an address of a byte and the lane, one load gets two
// weights. A pair of the table takes 256 bytes, so that its byte is a whole byte of the address;
// its copies are the first 128, and the other half is free.

constexpr u32 TABLE = 0, TABLE_BYTES = 65536;
constexpr bool BY_OFFSET = false; // numbers are what they stand for
constexpr u32 ONES = 0;
constexpr float NO_ZERO = 0;

// Byte `byte` of what four codes from `first` on stand for.
constexpr u32 four_bytes(u32 first, u32 byte)
{
    u32 bytes = 0;
    for (u32 i = 0; i < 4; i++)
        bytes |= (constant_bits(A_TYPE, CODE[first + i]) >> 8 * byte & 255) << 8 * i;
    return bytes;
}
template <u32 BYTE> DEVICE u32 bytes_of(u32 low, u32 high)
{
    constexpr u32 FIRST[4] = {four_bytes(0, BYTE), four_bytes(4, BYTE), four_bytes(8, BYTE),
                              four_bytes(12, BYTE)};
    const u32 selector = (low & 7) | (high & 7) << 8;
    const u32 upper = (low & 8 ? 0xff : 0) | (high & 8 ? 0xff0000 : 0);
    return (byte_permute(FIRST[0], FIRST[1], selector) & ~upper) |
           (byte_permute(FIRST[2], FIRST[3], selector) & upper);
}

// The two weights of a byte, that of the lower k in the lower half. Values are parts of
// instructions: a table of them in memory would cost its latency before a kernel's first product.
DEVICE u32 pair_of(u32 byte)
{
    const u32 low = WORD_ORDER == BNB ? byte >> 4 : byte & 15;
    const u32 high = WORD_ORDER == BNB ? byte & 15 : byte >> 4;
    return byte_permute(bytes_of<0>(low, high), bytes_of<1>(low, high), 0x6240);
}

DEVICE void build_table(u32 items)
{
    for (u32 i = item(); i < 256 * 8; i += items) {
        const u32 pair = pair_of(i / 8);
        sts<u32x4>(TABLE + i / 8 * 256 + i % 8 * 16, {pair, pair, pair, pair});
    }
}

// The pair of byte `index` of a word, by the lane's copy, whose top byte is the window's.
DEVICE u32 pair_of_word(u32 word, u32 index, u32 copy)
{
    static_assert(TABLE == 0, "an address is put together from bytes");
    return lds_in_window<u32>(byte_permute(word, copy, 0x7504 | index << 4));
}

// Pairs are neighbours, as A's are.
DEVICE void order_a(u32 *) {}

// ---- cuda/prelude/activations ----
// Loading A, for families on matrix units, behind the template that says how weights are paired.

// Sixteen bytes of A by one load, or where its rows are not aligned, by four. They are in memory's
// order: order_a is for where they are used, because int4's waits for them.
template <bool ALIGNED> DEVICE void load_a_piece(const void *from, u32 *to)
{
    u32x4 v;

    if constexpr (ALIGNED) {
        v = ldg_late((const u32x4 *)from);
    } else {
        const u32 *const words = (const u32 *)from;
        v = {ldg_late(words), ldg_late(words + 1), ldg_late(words + 2), ldg_late(words + 3)};
    }
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

// ---- cuda/prelude/rows ----
// The rows of a slice, one after another from `first` on: of A, where past the end of m the last
// one stands in for those that are missing, and of C, which has no such rows. Where slots name the
// rows, cuda/prelude/moe.cu is in this file's place.

#define SLOT_OPERANDS
#define SLICES_ARGUMENT
#define SLOT_PARAMETER
#define SLOT_NAME
#define A_ROW(i)      (first + smaller(i, m - 1))
#define C_ROW(i)      (first + (i))
// The row of C that row i's results go to, or NO_ROW, and a row's factor.
#define STORED_ROW(i) ((i) < m ? C_ROW(i) : NO_ROW)
#define ROUTING(row)  1.0f

// ---- cuda/prelude/store ----
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

// ---- cuda/family/slab_w4 ----
// Products of more than a few rows of A with 4-bit weights, for GPUs whose matrix units four warps
// feed together, with A in shared memory (sm_90). Weights are decoded, scaled and rounded to bf16
// in registers; the matrix unit takes them from there.
//
// A workgroup takes a tile of ROWS rows of W through all of K, then its next tile. A ring of STAGES
// stages has CHUNK columns of those rows and of the M_TILE rows of A. Four warps share a slab of 64
// rows of W, 16 each; K_PARTS such groups share a slab, each with UNITS of a chunk's units of 64
// columns, and add their sums when a tile is done. Behind these warps is one that fills the ring
// with weights, and A_WARPS that fill it with A.
//
// Of a unit, each of the four lanes that share a row of the matrix operand has 16 neighbouring
// columns: its packed weights are one load, and columns of A are stored in the order in which
// lanes then have pairs of weights. A matrix instruction takes two pairs of each lane.
//
// Who waits for whom: full[stage], by the copies of weights and the warps that store A;
// empty[stage], by all warps that multiply.

constexpr u32 SLABS = divide_up(ROWS, 64), WARPS = SLABS * K_PARTS * 4;
constexpr u32 A_WARPS = WAVES - WARPS - 1;
static_assert(WAVES > WARPS + 1, "those that multiply, one for weights, the rest for A");
constexpr u32 STAGE_UNITS = K_PARTS * UNITS, CHUNK = STAGE_UNITS * 64;
constexpr u32 CHUNKS = divide_up(K, CHUNK), TILES = divide_up(N, ROWS);
constexpr u32 SUMS = M_TILE / 2; // numbers of a lane: for two rows of W and each row of A
static_assert(K % 64 == 0 && ROWS % 16 == 0, "the plan takes no others");

// Shared memory. Sums that groups exchange are in the free halves of the table's entries, or where
// there is no table in a place of their own.
constexpr u32 EXCHANGED = (K_PARTS - 1) * SLABS * 4 * SUMS; // of 128 bytes each
constexpr u32 SUMS_AT = TABLE_BYTES ? 128 : 0, SUMS_APART = TABLE_BYTES ? 256 : 128;
static_assert(!TABLE_BYTES || EXCHANGED * SUMS_APART <= TABLE_BYTES,
              "the halves of the table hold all sums");
constexpr u32 A_BYTES = M_TILE * CHUNK * 2, ROW_BYTES = CHUNK / 2, W_BYTES = ROWS * ROW_BYTES;
constexpr u32 A_RING = TABLE_BYTES ? TABLE_BYTES : divide_up(EXCHANGED * 128, 1024) * 1024;
constexpr u32 W_RING = A_RING + STAGES * A_BYTES, CODES = W_RING + STAGES * W_BYTES;
constexpr u32 FULL = CODES + SCALE_IS_NESTED * 1024, EMPTY = FULL + STAGES * 8;
constexpr u32 SLOTS = EMPTY + STAGES * 8; // the row of A of each slot of op=moe
static_assert(SLOTS + MOE * M_TILE * 4 <= SHARED_BYTES, "the plan counted shared memory");

// The steps of a workgroup, the same for all its warps.
struct walk {
    u32 groups, tile, chunk, stage, parity;

    DEVICE bool more() const { return tile < TILES; }
    DEVICE void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
        if (++chunk == CHUNKS) {
            chunk = 0;
            tile += groups;
        }
    }
};

// ---- Weights ----

// A row of a stage is two to eight pieces of 16 bytes. The pieces of neighbouring rows change
// places so that the loads of eight rows, half a piece each, are of all banks.
constexpr u32 PIECES = ROW_BYTES / 16, ROWS_AT_ONCE = 32 / PIECES;
static_assert(PIECES == 4 || PIECES == 8 || PIECES == 16, "a chunk is 128, 256 or 512 columns");
DEVICE u32 swizzle(u32 row) { return PIECES == 4 ? row / 2 % 2 * 2 : row % 4 * 2; }

DEVICE void fill_weights(SCALE_OPERANDS walk at, const u8 *b)
{
    constexpr u32 BLOCKS_OF_CHUNK = divide_up(CHUNK, BLOCK);
    const u32 lane = item() % 32, piece = lane % PIECES, first = lane / PIECES;

    NO_UNROLL for (; at.more(); at.advance()) {
        const u32 block = at.chunk * CHUNK / BLOCK;
        // the multipliers load scales a step before they need them: too late for memory
        if (block % LINE_BLOCKS < BLOCKS_OF_CHUNK)
            for (u32 row = lane; row < ROWS; row += 32)
                prefetch_scales(SCALE_NAMES(u64) W_ROW(smaller(at.tile * ROWS + row, N - 1)) *
                                    BLOCKS + block);
        // what is beyond K meets zeros of A: any weights will do, but no memory beyond a row
        const u32 from = smaller(at.chunk * PIECES + piece, K / 32 - 1) * 16;
        barrier_wait(EMPTY + at.stage * 8, at.parity ^ 1);
        UNROLL for (u32 i = 0; i < divide_up(ROWS, ROWS_AT_ONCE); i++) {
            const u32 row = i * ROWS_AT_ONCE + first, n = at.tile * ROWS + row;
            const u64 source = N % ROWS ? smaller(n, N - 1) : n;
            copy_16(W_RING + at.stage * W_BYTES + row * ROW_BYTES + (piece ^ swizzle(row)) * 16,
                    b + W_ROW(source) * (K / 2) + from, FULL + at.stage * 8);
        }
        arrive_behind_copies(FULL + at.stage * 8);
    }
}

// ---- A ----

// Eight lanes load 64 columns of a row, 16 bytes each, so a warp loads four rows at a time, and has
// a batch of 16 such loads under way: more would not fit into its registers. Batches are dealt out
// to warps in turn, and a warp asks for its next one before it waits for room to store it. From one
// batch of a warp to its next there may be no more stages than the ring has, because a barrier
// tells a phase only from the one before.
constexpr u32 UNDER_WAY = 16, BATCH_ROWS = 4 * UNDER_WAY / STAGE_UNITS;
constexpr u32 BATCHES = M_TILE / BATCH_ROWS; // of a stage
static_assert(BATCH_ROWS % 8 == 0 && BATCHES * BATCH_ROWS == M_TILE, "rows of eight, as swizzles");
static_assert(A_WARPS <= BATCHES * STAGES, "the plan takes no more");

// The batches of a warp.
struct batch_walk {
    walk at;
    u32 batch;

    DEVICE batch_walk(const walk &first, u32 warp) : at(first), batch(warp) { carry(); }
    DEVICE u32 first_row() const { return batch * BATCH_ROWS; }
    DEVICE void advance()
    {
        batch += A_WARPS;
        carry();
    }
    DEVICE void carry()
    {
        NO_UNROLL for (; batch >= BATCHES; batch -= BATCHES)
            at.advance();
    }
};

struct rows_of_a {
    const u16 *a;
    i64 lda;
    u32 first, m;
};

// Where row `i` of the slice is in A.
DEVICE u32 row_of_a(const rows_of_a &a, u32 i)
{
#if MOE
    return lds<u32>(SLOTS + i * 4);
#else
    return a.first + smaller(i, a.m - 1);
#endif
}

template <bool ALIGNED>
DEVICE void load_batch(u32 (&v)[UNDER_WAY][4], const rows_of_a &a, u32 chunk, u32 first)
{
    const u32 lane = item() % 32, column = chunk * CHUNK + lane % 8 * 8;

    UNROLL for (u32 q = 0; q < BATCH_ROWS / 4; q++) {
        const u16 *const from =
            a.a + (i64)row_of_a(a, first + q * 4 + lane / 8) * a.lda + column;
        UNROLL for (u32 u = 0; u < STAGE_UNITS; u++) {
            u32(&to)[4] = v[q * STAGE_UNITS + u];
            if (K % CHUNK == 0 || column + u * 64 < K)
                load_a_piece<ALIGNED>(from + u * 64, to);
            else
                to[0] = to[1] = to[2] = to[3] = 0;
        }
    }
}

// Of the four pairs of a lane's 16 bytes, pair j goes to piece 4 * (half of 16 columns) + j of its
// row, at the place of its 16 columns there. A row's pieces are swizzled by its number, as the
// matrix unit expects; no two of a warp's lanes store to the same bank.
DEVICE void store_batch(const u32 (&v)[UNDER_WAY][4], u32 stage, u32 first)
{
    const u32 lane = item() % 32, half = lane % 2 * 4, t = lane / 8;
    const u32 at = A_RING + stage * A_BYTES + (first + t) * 128 + lane % 8 / 2 * 4;

    UNROLL for (u32 q = 0; q < BATCH_ROWS / 4; q++) {
        UNROLL for (u32 u = 0; u < STAGE_UNITS; u++) {
            const u32(&piece)[4] = v[q * STAGE_UNITS + u];
            u32 pairs[4] = {piece[0], piece[1], piece[2], piece[3]};
            order_a(pairs);
            UNROLL for (u32 j = 0; j < 4; j++) {
                const u32 to = at + ((half + j) ^ (q % 2 * 4 + t)) * 16;
                sts<u32>(to + u * (M_TILE * 128) + q * 512, pairs[j]);
            }
        }
    }
}

template <bool ALIGNED> DEVICE void fill_a_as(batch_walk next, const rows_of_a &a)
{
    u32 v[UNDER_WAY][4];

    NO_UNROLL for (; next.at.more(); next.advance()) {
        load_batch<ALIGNED>(v, a, next.at.chunk, next.first_row());
        barrier_wait(EMPTY + next.at.stage * 8, next.at.parity ^ 1);
        store_batch(v, next.at.stage, next.first_row());
        fence_async();
        sync_warp();
        if (item() % 32 == 0)
            barrier_arrive(FULL + next.at.stage * 8);
    }
}

// Notes the rows of A of all slots: each load of A would else wait for the load of its choice.
DEVICE void find_rows(SLOT_PARAMETER const rows_of_a &of_a, u32 part)
{
#if MOE
    const u32 first = of_a.first, m = of_a.m;
    for (u32 i = part * 32 + item() % 32; i < M_TILE; i += A_WARPS * 32)
        sts<u32>(SLOTS + i * 4, A_ROW(i));
    sync_some(2, A_WARPS * 32);
#endif
}

DEVICE void fill_a(const walk &at, const rows_of_a &a, u32 part)
{
    if (((u64)a.a | (u64)a.lda * 2) % 16 == 0)
        fill_a_as<true>(batch_walk(at, part), a);
    else
        fill_a_as<false>(batch_walk(at, part), a);
}

// ---- Products ----

// A lane's scales in a step, of one row. Where a block is a unit, neighbours are loaded at once.
constexpr u32 SCALES = BLOCK != 64 || BLOCKS % UNITS ? 1 : UNITS % 4 == 0 ? 4 : UNITS % 2 ? 1 : 2;
struct row_scales {
    loaded_scales<SCALES> part[UNITS / SCALES];
};

DEVICE void load_scales(SCALE_OPERANDS row_scales &row, const walk &at, u32 in_tile, u32 k_part)
{
    const u64 n = W_ROW(smaller(at.tile * ROWS + in_tile, N - 1));

    UNROLL for (u32 i = 0; i < UNITS / SCALES; i++) {
        const u32 column =
            at.chunk * CHUNK + (k_part * UNITS + i * SCALES) * 64 + item() % 4 * 16;
        row.part[i] = begin_scales<SCALES>(
            SCALE_NAMES n * BLOCKS + smaller(column / BLOCK, BLOCKS - SCALES));
    }
}

// What turns a pair of codes of a block into weights: (pair - shift) * scale - extra.
struct decoder {
    u32 scale, shift, extra;

    DEVICE decoder(const row_scales &row, u32 unit, float added)
    {
        const auto &part = row.part[unit / SCALES];
        scale = both_bf16(scale_at(part, unit % SCALES, CODES, added));
        shift = both_bf16(NO_ZERO + shift_at(part, unit % SCALES));
        extra = both_bf16(extra_at(part, unit % SCALES));
    }
    DEVICE u32 operator()(u32 word, u32 index, u32 copy) const
    {
        const u32 pair = pair_of_word(word, index, copy);
        const u32 shifted = BY_OFFSET ? difference_bf16x2(pair, shift) : pair;
        const u32 weights = product_bf16x2(shifted, scale);
        return ZERO == ZERO_SCALED ? difference_bf16x2(weights, extra) : weights;
    }
};

// The place of a lane's eight bytes of a unit in its first row, and so of the second, eight on.
DEVICE u32 packed_at(u32 row, u32 unit)
{
    const u32 q = item() % 4, piece = unit * 2 + q / 2;
    return row * ROW_BYTES + (piece ^ swizzle(row)) * 16 + q % 2 * 8;
}

// Decoded weights of two units: the matrix unit reads one set while the other is decoded into.
typedef u32 decoded[2][16];

// Decodes a lane's weights of a unit, of two rows of W, in the order of the matrix operand.
DEVICE void decode(u32 (&to)[16], const row_scales &upper, const row_scales &lower, u32 w, u32 row,
                   u32 k_part, u32 unit, float added)
{
    const u32 copy = item() % 32 * 4, at = w + packed_at(row, k_part * UNITS + unit);
    const u32x2 x = lds<u32x2>(at), y = lds<u32x2>(at, 8 * ROW_BYTES);
    const decoder above(upper, unit, added), below(lower, unit, added);

    UNROLL for (u32 j = 0; j < 4; j++) {
        const u32 one = j / 2 ? x.y : x.x, two = j / 2 ? y.y : y.x;
        UNROLL for (u32 h = 0; h < 2; h++) {
            to[j * 4 + h * 2] = above(one, j % 2 * 2 + h, copy);
            to[j * 4 + h * 2 + 1] = below(two, j % 2 * 2 + h, copy);
        }
    }
}

// The products of one step. A slab may have fewer than 64 rows of W: warps of the others multiply
// the zeros that `weights` begins with, and nobody stores that.
DEVICE void multiply(float (&sums)[SUMS], decoded &weights, const row_scales &upper,
                     const row_scales &lower, const walk &at, u32 row, u32 k_part, float added)
{
    UNROLL for (u32 u = 0; u < UNITS; u++) {
        u32(&now)[16] = weights[u % 2];
        if (row < ROWS)
            decode(now, upper, lower, W_RING + at.stage * W_BYTES, row, k_part, u, added);
        products_begin();
        UNROLL for (u32 j = 0; j < 4; j++)
            warpgroup_mma(sums, now[j * 4], now[j * 4 + 1], now[j * 4 + 2], now[j * 4 + 3],
                          A_RING + at.stage * A_BYTES + (k_part * UNITS + u) * (M_TILE * 128) +
                              j * 32);
        products_commit();
        if (u)
            products_wait<1>();
    }
    products_wait<0>();
}

// Adds what the groups that share a slab have, in the first of them; others are done.
DEVICE bool add_parts(float (&sums)[SUMS], u32 warp, u32 k_part)
{
    const u32 lane = item() % 32, own = warp % (SLABS * 4);

    sync_some(1, WARPS * 32);
    UNROLL for (u32 j = 0; j < SUMS && k_part; j++)
        sts<float>(SUMS_AT + (((k_part - 1) * SLABS * 4 + own) * SUMS + j) * SUMS_APART + lane * 4,
                   sums[j]);
    sync_some(1, WARPS * 32);
    UNROLL for (u32 p = 1; p < K_PARTS && !k_part; p++) {
        UNROLL for (u32 j = 0; j < SUMS; j++)
            sums[j] += lds<float>(
                SUMS_AT + (((p - 1) * SLABS * 4 + own) * SUMS + j) * SUMS_APART + lane * 4);
    }
    return k_part == 0;
}

DEVICE void consume(SCALE_OPERANDS SLOT_PARAMETER walk at, const c_element *bias, c_element *c,
                    u32 first, u32 m, i64 ldc)
{
    const u32 lane = item() % 32, warp = item() / 32;
    const u32 k_part = K_PARTS == 1 ? 0 : warp / (SLABS * 4);
    const u32 in_tile = warp % (SLABS * 4) * 16 + lane / 4;
    float added = 0; // to nested scales
    walk ahead = at;
    row_scales upper, lower;
    decoded weights = {};

    load_scales(SCALE_NAMES upper, at, in_tile, k_part);
    load_scales(SCALE_NAMES lower, at, in_tile + 8, k_part);
#if SCALE_IS_NESTED
    added = ldg(offset);
    for (u32 i = item(); i < NEST; i += WARPS * 32)
        sts<float>(CODES + i * 4, ldg(code + i));
#endif
    build_table(WARPS * 32);
    sync_some(1, WARPS * 32);
    await_launch_in_front();
    NO_UNROLL while (at.more()) {
        const u32 n = at.tile * ROWS + in_tile;
        float sums[SUMS] = {};
        NO_UNROLL for (u32 chunk = 0; chunk < CHUNKS; chunk++, at.advance()) {
            const row_scales upper_now = upper, lower_now = lower;
            ahead.advance();
            if (ahead.more()) { // a step ahead of their use
                load_scales(SCALE_NAMES upper, ahead, in_tile, k_part);
                load_scales(SCALE_NAMES lower, ahead, in_tile + 8, k_part);
            }
            barrier_wait(FULL + at.stage * 8, at.parity);
            multiply(sums, weights, upper_now, lower_now, at, in_tile, k_part, added);
            sync_warp();
            if (lane == 0)
                barrier_arrive(EMPTY + at.stage * 8);
        }
        if ((K_PARTS > 1 && !add_parts(sums, warp, k_part)) || in_tile >= ROWS)
            continue;
        UNROLL for (u32 j = 0; j < SUMS; j += 4)
            store_results<4>(sums + j, CODE_UNIT, n,
                             rows_to_store<2>(SLOT_NAME j * 2 + lane % 4 * 2, first, m), bias, c,
                             ldc);
    }
}

// ---- The kernel ----

KERNEL(SYMBOL, WAVES * 32)
(const u16 *a, const u8 *b, SCALE_OPERANDS
#if BIAS
 const c_element *bias,
#endif
 SLOT_OPERANDS c_element *c, int m, int first, i64 lda, i64 ldc, int workgroups SLICES_ARGUMENT)
{
#if !BIAS
    const c_element *const bias = nullptr;
#endif
    const u32 warp = item() / 32;
    let_next_launch_begin();
#if MOE
    ENTER_SLOTS
    const share part =
        share_out(group_x(), (u32)workgroups, slices_in_use(used, (u32)slices));
    const u32 slice = part.slice, group = part.group, groups = part.groups;
    const u32 begin = slice * M_TILE, its_rows = (u32)m;
    if (group * ROWS >= N || !groups)
        return;
    ENTER_EXPERT((u64)N * (K / 2), ROWS, groups)
#else
    const u32 group = SLICES_FIRST ? group_y() : group_x(), groups = (u32)workgroups;
    const u32 begin = (SLICES_FIRST ? group_x() : group_y()) * M_TILE;
    const u32 its_rows = smaller((u32)m - begin, M_TILE);
#endif
    const walk at = {groups, group, 0, 0, 0};

    check_shared_start();
    if (item() == 0) {
        for (u32 i = 0; i < STAGES; i++) {
            barrier_init(FULL + i * 8, 32 + BATCHES);
            barrier_init(EMPTY + i * 8, WARPS);
        }
        barrier_init_fence();
    }
    sync_group();
    if (warp < WARPS)
        consume(SCALE_NAMES SLOT_NAME at, bias, c, (u32)first + begin, its_rows, ldc);
    else if (warp == WARPS)
        fill_weights(SCALE_NAMES at, b);
    else {
        await_launch_in_front(a);
        const rows_of_a of_a = {a, lda, (u32)first + begin, its_rows};
        find_rows(SLOT_NAME of_a, warp - WARPS - 1);
        fill_a(at, of_a, warp - WARPS - 1);
    }
}
