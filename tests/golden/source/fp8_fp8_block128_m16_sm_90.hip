/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for sm_90, M = 9 to 16
// op=gemm wq=fp8 scale=block128 a=fp8 c=bf16 n=4096 k=4096 bias=0 layout=dense round=rne


#define SYMBOL quern_fp8_fp8_n4096_k4096_block128_m16 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 4096;            // rows of W
constexpr unsigned K = 4096;            // columns of W
#define GLU 0                           // whether two rows of W become a column of C
#define MOE 0                           // whether slots name the rows, and blocks the expert
#define C_TYPE BF16                     // elements of C and of a bias
#define A_TYPE FP8                      // elements of A
#define SCALE_IS_NESTED 0               // whether scales are quantised again
#define SCALE_IS_E8M0 0                 // whether they are powers of two
#define SCALE_TYPE F32                  // elements of scales
#define ZERO ZERO_NONE                  // what zero points are
#define HAS_ZEROS 0                     // whether there are any
#define W_BITS 8                        // of a weight
#define HAS_BLOCK_SCALES true           // whether sums of blocks are scaled
#define BLOCK_SCALED 1                  // whether W is e4m3 in blocks
#define A_IS_FP8 1                      // whether A is e4m3
#define MMA_TYPE F16                    // elements of products
#define BIAS 0                          // whether a bias is added
constexpr unsigned M_TILE = 16;         // rows of A computed at once

constexpr unsigned WAVE = 32;           // lanes
constexpr unsigned WAVES = 12;          // in a workgroup
constexpr unsigned K_WARPS = 8;         // that share rows, each with a part of K
constexpr unsigned ROW_WARPS = 1;       // 16 rows of W each, 8 for one row of A
constexpr unsigned UNITS = 8;           // of a warp in a chunk of K
constexpr unsigned UNIT = 64;           // columns
constexpr unsigned CHUNK = 4096;        // columns of K in a stage
constexpr unsigned SPAN = 2;            // units that are scaled together
constexpr unsigned STAGES = 2;          // of the ring
constexpr unsigned PORTIONS = 1;        // of a stage, as its weights come
constexpr unsigned SCALE_ROWS = 0;      // whose scales a copy has; 0: none
#define WEIGHTS_ONCE true               // whether nothing reads them again soon
constexpr unsigned WALK_MAX = 0;        // tiles that a workgroup can take; 0: any number
constexpr unsigned SECONDS = 0;         // second-level scales of a tile; 0: not kept
constexpr unsigned BATCH = 1;           // tiles of rows taken through a chunk of K
constexpr unsigned PRODUCERS = 1;       // warps that start copies
constexpr unsigned SUMMERS = 3;         // warps that add sums and store C
constexpr unsigned CONSUMER_REGISTERS = 224; // of a lane; 0: those of the launch
constexpr unsigned OTHER_REGISTERS = 56; // likewise, of other warps'
constexpr unsigned SUM_BUFFERS = 2;     // of sums on their way there
#define CLUSTER 1                       // workgroups that share rows of W
#define EARLY true                      // whether launches may overlap: prelude/ptx
constexpr unsigned SHARED_START = 1024; // where a workgroup's shared memory is
constexpr unsigned SHARED_BYTES = 147584; // of a workgroup
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

// ---- cuda/prelude/plain ----
// Weights that are numbers, of W_BITS: 16, of A's own type, or eight, e4m3 with one scale for all
// of W, or one for each block of 128 rows and 128 columns (and one for as many columns of a row of
// A, where that is e4m3). In front of a family they take the places of codes, scales of blocks and
// tables of pairs.

#if BLOCK_SCALED
#define BLOCK 128
#undef BLOCKS
#define BLOCKS divide_up(K, BLOCK)
#undef SCALE_ROW
#define SCALE_ROW(n) ((n) / BLOCK * BLOCKS)
#undef SCALE_COUNT
#define SCALE_COUNT ((u64)divide_up(N, BLOCK) * BLOCKS)
#undef NEIGHBOURS_AT_ONCE
#define NEIGHBOURS_AT_ONCE false // operands start at any multiple of four bytes
#undef A_BLOCK_SCALED
#define A_BLOCK_SCALED A_IS_FP8
#else
#define BLOCK K // a row is one block, whose scale comes with the sums
#endif
#if W_BITS == 8
#if A_IS_FP8
#define SCALE_OPERANDS const float *a_scale, const float *b_scale,
#define SCALE_NAMES    a_scale, b_scale,
#define UNIT_OF_SUMS   (BLOCK_SCALED ? 1.0f : product(ldg_late(a_scale), ldg(b_scale)))
#define LATE_UNIT      a_scale // that UNIT_OF_SUMS loads, and the launch in front may write
#define SCALES_OF_EXPERT(expert) b_scale += (expert) * (BLOCK_SCALED ? SCALE_COUNT : (u64)1)
#else
#define SCALE_OPERANDS const float *b_scale,
#define SCALE_NAMES    b_scale,
#define UNIT_OF_SUMS   (BLOCK_SCALED ? 1.0f : ldg(b_scale))
#define LATE_UNIT
#define SCALES_OF_EXPERT(expert) b_scale += (expert) * (BLOCK_SCALED ? SCALE_COUNT : (u64)1)
#endif
#else
#define SCALE_OPERANDS
#define SCALE_NAMES
#define UNIT_OF_SUMS 1.0f
#define LATE_UNIT
#define SCALES_OF_EXPERT(expert)
#endif

enum zero_kind { ZERO_NONE, ZERO_U8, ZERO_SCALED };
constexpr u32 TABLE_BYTES = 0, LINE_BLOCKS = BLOCK_SCALED ? 32 : 1, ONES = 0;
constexpr bool BY_OFFSET = false;
constexpr float NO_ZERO = 0;

#if BLOCK_SCALED
template <u32> struct loaded_scales { float scale; };
template <u32 COUNT> DEVICE loaded_scales<COUNT> begin_scales(SCALE_OPERANDS u64 block)
{
    return {ldg(b_scale + block)};
}
DEVICE void prefetch_scales(SCALE_OPERANDS u64 block) { prefetch(b_scale + block); }
DEVICE float scale_at(loaded_scales<1> s, u32, u32, float) { return s.scale; }
#else
template <u32> struct loaded_scales {};
template <u32 COUNT> DEVICE loaded_scales<COUNT> begin_scales(SCALE_OPERANDS u64) { return {}; }
DEVICE void prefetch_scales(SCALE_OPERANDS u64) {}
DEVICE float scale_at(loaded_scales<1>, u32, u32, float) { return 1; }
#endif
// No scales are copied to shared memory.
constexpr u32 SCALE_BYTES = 0, ZERO_BYTES = 0;
template <u32 COUNT> DEVICE loaded_scales<COUNT> take_scales(u32, u32, u32) { return {}; }
DEVICE u32 bytes_before(u64, u32) { return 0; }
DEVICE u32 copied_bytes(u64, u32, u32) { return 0; }
template <bool> DEVICE void copy_scales(SCALE_OPERANDS u64, u32, u32, u32, u32, bool) {}
DEVICE float shift_at(loaded_scales<1>, u32) { return 0; }
DEVICE float extra_at(loaded_scales<1>, u32) { return 0; }
DEVICE void build_table(u32) {}
DEVICE void order_a(u32 *) {}

// Two e4m3, as they lie in the lower half of a word, as two numbers of MMA_TYPE. Both types hold
// every value of e4m3, and NaN stays NaN.
DEVICE u32 two_of_fp8(u32 bytes)
{
    const u32 halves = widen_fp8x2(bytes);
    return MMA_TYPE == F16 ? halves
                           : round_bf16x2(widen_f16(halves & 0xffff), widen_f16(halves >> 16));
}

// Pair `index` of a word of W, neighbours along K.
DEVICE u32 pair_of_word(u32 word, u32 index, u32)
{
    return W_BITS == 8 ? two_of_fp8(index ? word >> 16 : word & 0xffff) : word;
}

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

// ---- cuda/family/ring ----
// Products of few rows of A with weights of 4, 8 or 16 bits, by matrix units, for GPUs that copy in
// bulk from memory to shared memory (sm_90 and later).
//
// A workgroup stays on its multiprocessor for the whole launch. One warp, the producer, or two
// keep a ring of STAGES stages filled: a stage has CHUNK columns of ROWS rows of W, as they lie in
// memory but for a gap after each row where ROW_UNITS says so, and behind them, where copies can
// bring them, the rows' scales and zero points. Its weights come in PORTIONS portions, each with
// as many units of every consumer, which decodes the first while the last is under way: so less is
// left to be done when a launch's last bytes have come. WARPS warps consume a stage: K_WARPS of
// them share 16 rows, or eight with one row of A, each with UNITS units of UNIT columns, of which
// the last may have some of the one before it (OVERLAP). Codes are decoded to pairs by the
// template in front (prelude/pairs, by a table in shared memory; prelude/int4, by masks; or
// prelude/plain, for numbers), and the pairs go to the matrix unit as they come. A's values for a
// warp's columns stay in registers, in the order of the pairs; the fewer the chunks that K is cut
// into, the fewer sums are handed over, so where that helps the four warps that do not consume
// leave registers to those that do (OTHER_REGISTERS). Scales are applied to a block's sums, in
// f32; a zero point, and the offset that decoded codes have, to the sum of A's values there, which
// is made of products with ones when A is loaded. Scales of blocks of A, of 128 columns of a row,
// stay in registers beside its values. SUMMERS warps add what the consumers of a row have, and
// store C.
//
// For one row of A, seven of the eight columns of a matrix operand would be of no use. They have
// A's values for other units instead, a unit each: a product then has, in its unit's column, the
// sum that is wanted, and in the others what nobody looks at. So the values of eight units take the
// registers of one. And as units have columns of their own, the two halves of an operand's 16 rows
// of W may have two units of the same eight rows: a tile is eight rows high, a stage half as large,
// and so is what remains to be decoded when the last bytes have come.
//
// The producer makes the mbarriers and starts its copies before anybody else needs either; and it
// waits for no launch in front (prelude/ptx): weights are on their way while that one ends. In a
// mixture it does, for who routes tokens decides whose weights they are.
//
// Where K is longer than a chunk, a workgroup takes BATCH tiles of rows through the first chunk,
// then through the second, and so on, so that A is loaded once for each; the summers keep sums of
// the chunks before in shared memory.
//
// Where N is small beside K, a workgroup has few rows of W and would still load all of A. Then
// CLUSTER neighbouring workgroups, which may read each other's shared memory, share their rows, and
// each has as many of the chunks: it loads its part of A alone. All their tiles are one batch, and
// at its end they add up what they have kept, each the sums of a share of the tiles (join_sums).
//
// Who waits for whom: full[stage, portion], by the bytes of its copies; empty[stage], by all
// consumers; summed[buffer], by all consumers, when their sums are written; drained[buffer], by the
// summers, when they have read them. Once, in front of all that, consumers and summers wait at
// named barrier 1 for the table and the mbarriers; producers arrive there and go on.

constexpr u32 M_TILES = divide_up(M_TILE, 8); // matrix operands' columns are rows of A
constexpr u32 WARPS = K_WARPS * ROW_WARPS;
static_assert(WAVES == WARPS + PRODUCERS + SUMMERS, "consumers, producers, summers");
constexpr bool ONE_ROW = M_TILE == 1;
constexpr u32 TILE = ONE_ROW ? 8 : 16; // rows of W of a consumer
constexpr u32 ROWS = TILE * ROW_WARPS; // of W in a stage
// Where all units of the consumers that share rows do not divide K, but chunks of fewer do, the
// last of these consumers begins so many units earlier, which it leaves to the one before it.
constexpr u32 OVERLAP = K_WARPS * UNITS - CHUNK / UNIT;
constexpr u32 PORTION = UNITS / PORTIONS; // units of a consumer in a portion
#define CHUNKS     divide_up(K, CHUNK)
#define OWN_CHUNKS (CHUNKS / CLUSTER) // of a workgroup
constexpr bool RAGGED = !KNOWN || K % CHUNK != 0;
static_assert(OVERLAP == 0 ||
                  (!RAGGED && !ONE_ROW && W_BITS == 4 && K_WARPS > 1 && OVERLAP < UNITS),
              "chunks divide K; no weight is infinite times zero; there is one before the last");
static_assert(CLUSTER == 1 || (!RAGGED && CHUNKS % CLUSTER == 0), "all have as many chunks");
static_assert(CLUSTER == 1 || (M_TILE > 1 && SLICES_FIRST && !MOE), "neighbours in y; join_sums");
#define TILES divide_up(N, ROWS)
constexpr u32 UNIT_BYTES = UNIT * W_BITS / 8; // of a row
constexpr u32 WORDS = UNIT_BYTES / 16;        // that a lane has of those
constexpr u32 PAIRS = 16 / W_BITS;            // of weights in a word
#define K_BYTES     (K / 8 * W_BITS)          // of a row of W
#define CHUNK_BYTES (CHUNK / 8 * W_BITS)
constexpr u32 SPANS = UNITS / SPAN, PORTION_SPANS = PORTION / SPAN;
constexpr u32 SIDE = ONE_ROW ? 8 : 1; // units whose values of A lie side by side in columns
constexpr u32 SETS = divide_up(UNITS, SIDE);
static_assert(!ONE_ROW || (SPAN == 1 && !A_BLOCK_SCALED), "what multiply_one_row does");

// Blocks whose scales a lane loads at once: neighbours, as many as are sure to start at a multiple
// of their number.
constexpr bool OWN_BLOCKS = KNOWN && NEIGHBOURS_AT_ONCE && SPAN * UNIT == BLOCK;
#define ONE_LOAD_OF(count)                                                                         \
    (OWN_BLOCKS && PORTION_SPANS % (count) == 0 && BLOCKS % (count) == 0 &&                        \
     OVERLAP / SPAN % (count) == 0)
constexpr u32 SCALES = !ONE_ROW && ONE_LOAD_OF(4) ? 4 : ONE_LOAD_OF(2) ? 2 : 1;
// The number of scales that a lane has of a row of W: of each span, or with one row of A of the
// units in whose two columns the lane has sums, which are neighbours.
constexpr u32 LANE_SCALES = ONE_ROW ? SETS * 2 : SPANS;

// Shared memory. The sums of a warp, 512 bytes for eight rows of A, 128 for one, are in the free
// halves of as many entries of the table, or where there is no table in a place of their own.
constexpr u32 SUMS = TABLE_BYTES ? 128 : 0, SUMS_APART = TABLE_BYTES ? 256 : 128;
constexpr u32 TILE_SUMS = ONE_ROW ? 1 : 4;     // that a lane has of eight rows of A, or of one
constexpr u32 WARP_SUMS = M_TILES * TILE_SUMS; // that it has in all
// Bytes from a row of a stage to the next. Copies are quickest where a row is as far from a
// multiple of 128 bytes as it is in memory; but then lanes of different rows read the same banks.
// Codes are read in small pieces and looked up in shared memory too, so their rows are an odd
// number of units long, each in banks of its own; wider weights gain more by quick copies. With one
// row of A, where a chunk divides K, lanes of different rows read in different orders instead
// (row_key).
constexpr bool KEYED = ONE_ROW && !RAGGED;
constexpr u32 ROW_UNITS = KEYED || W_BITS > 4 ? CHUNK / UNIT : CHUNK / UNIT | 1;
constexpr u32 ROW_BYTES = ROW_UNITS * UNIT_BYTES;
// The largest power of two that divides `number`, and is `most` or less.
constexpr u32 largest_power(u32 number, u32 most)
{
    return smaller(number & (0u - number), most);
}
constexpr u32 RING = TABLE_BYTES ? TABLE_BYTES : SUM_BUFFERS * WARPS * WARP_SUMS * 128;
// A stage has the scales of its weights too, where bulk copies can bring them (SCALE_ROWS): lanes
// that load them from memory wait long, behind all the copies that are under way.
constexpr bool SCALES_COME = SCALE_ROWS != 0;
// Of a row's numbers in a chunk, of so many bytes each: CHUNK_ALIGNED says whether a copy has these
// alone, and COPY_MOST how many bytes it has at most (copied_bytes).
#define CHUNK_ALIGNED(bytes) (CHUNK / BLOCK * (bytes) % 16 == 0)
#define COPY_MOST(bytes)                                                                           \
    (CHUNK_ALIGNED(bytes) ? CHUNK / BLOCK * (bytes)                                                \
                          : divide_up(CHUNK / BLOCK * (bytes) + 16 - (bytes), 16) * 16)
constexpr bool SCALES_ALIGNED =
    SCALE_ROWS != 1 || (CHUNK_ALIGNED(SCALE_BYTES) && CHUNK_ALIGNED(ZERO_BYTES));
// Bytes from those of one row to those of the next: rows that come one by one are an odd multiple
// of 16 bytes apart, so that those of eight lie in different banks.
#define SCALES_APART(bytes)                                                                        \
    (SCALE_ROWS == 1 && (bytes) ? COPY_MOST(bytes) | 16 : BLOCKS * (bytes))
constexpr u32 STAGE_SCALES = ROWS * ROW_BYTES; // where they begin in a stage
constexpr u32 STAGE_ZEROS = STAGE_SCALES + (SCALES_COME ? ROWS * SCALES_APART(SCALE_BYTES) : 0);
constexpr u32 STAGE_BYTES =
    divide_up(STAGE_ZEROS + (SCALES_COME ? ROWS * SCALES_APART(ZERO_BYTES) : 0), 128) * 128;
constexpr u32 KEPT = RING + STAGES * STAGE_BYTES; // sums of chunks before, of each tile of a batch
constexpr u32 KEPT_BYTES = !KNOWN || CHUNKS > 1 ? BATCH * ROW_WARPS * WARP_SUMS * 128 : 0;
constexpr u32 CODES = KEPT + KEPT_BYTES; // of nested scales
constexpr u32 SECOND = CODES + SCALE_IS_NESTED * 1024; // their second level, of all tiles
constexpr u32 FULL = SECOND + divide_up(WALK_MAX * SECONDS * 4, 8) * 8;
constexpr u32 EMPTY = FULL + STAGES * PORTIONS * 8;
constexpr u32 SUMMED = EMPTY + STAGES * 8, DRAINED = SUMMED + SUM_BUFFERS * 8;
static_assert(DRAINED + SUM_BUFFERS * 8 <= SHARED_BYTES, "the plan counted shared memory");
static_assert(!TABLE_BYTES || SUM_BUFFERS * WARPS * WARP_SUMS * SUMS_APART <= TABLE_BYTES,
              "the halves of the table hold all sums");
static_assert(PORTION * PORTIONS == UNITS && PORTION % SPAN == 0,
              "a block's units are one warp's, and of a portion");
static_assert(PORTIONS == 1 ||
                  (!RAGGED && !OVERLAP && (!KEYED || PORTION * UNIT_BYTES % 128 == 0)),
              "portions are equal, and rows' orders stay inside of them (row_key)");
static_assert(OVERLAP % SPAN == 0, "a span is one consumer's or the other's");

DEVICE u32 full_barrier(u32 stage, u32 portion) { return FULL + (stage * PORTIONS + portion) * 8; }
// Which of a chunk's units is a consumer's unit u: those of a portion are all consumers' in turn.
DEVICE u32 unit_of(u32 k_warp, u32 u)
{
    return (u / PORTION * K_WARPS + k_warp) * PORTION + u % PORTION -
           (k_warp + 1 == K_WARPS ? OVERLAP : 0);
}
// Whether a consumer adds its unit u. The last decodes its first OVERLAP units, which is quicker
// than branches, but multiplies them with zeros: the one before it adds them.
DEVICE bool owns(u32 k_warp, u32 u) { return u >= OVERLAP || k_warp + 1 < K_WARPS; }
// Where in a row of a stage a consumer's unit u begins, behind its unit 0.
constexpr u32 bytes_to_unit(u32 u)
{
    return (u / PORTION * K_WARPS * PORTION + u % PORTION) * UNIT_BYTES;
}

// The steps of a workgroup, the same for all its warps: tiles of a batch, chunks, batches.
struct walk {
#if !KNOWN
    const layer_numbers &the_layer;
#endif
    u32 groups, first, first_chunk, chunk, in_batch, tile, before; // tiles of batches before

    DEVICE bool more() const { return tile < TILES; }
    DEVICE bool in_last_chunk() const { return chunk + 1 == first_chunk + OWN_CHUNKS; }
    DEVICE void advance()
    {
        in_batch++;
        tile += groups;
        if (in_batch < BATCH && tile < TILES)
            return;
        in_batch = 0;
        if (in_last_chunk()) {
            chunk = first_chunk;
            first += BATCH * groups;
            before += BATCH;
        } else {
            chunk++;
        }
        tile = first;
    }
};
// A place in a ring of COUNT, and the parity of its barriers there.
template <u32 COUNT> struct place {
    u32 at, parity;

    DEVICE void advance()
    {
        if (++at == COUNT) {
            at = 0;
            parity ^= 1;
        }
    }
};

// ---- The producers ----

#define SEGMENT_LINES divide_up(divide_up(CHUNK, BLOCK), LINE_BLOCKS) // of a row's scales

// Asks for the scales of a step. The consumers load them only a step before they need them, which
// is too late for memory, not for the second cache.
DEVICE void ask_for_scales(LAYER_PARAMETER SCALE_OPERANDS const walk &at)
{
    for (u32 i = item() % 32; i < ROWS * SEGMENT_LINES; i += 32) {
        const u64 n = W_ROW(at.tile * ROWS + i / SEGMENT_LINES);
        const u64 block =
            SCALE_ROW(n) + at.chunk * CHUNK / BLOCK + i % SEGMENT_LINES * LINE_BLOCKS;
        if (block < SCALE_COUNT)
            prefetch_scales(SCALE_NAMES block);
    }
}

// Where in shared memory the copies of a row's scales are in a stage, and of its zero points.
DEVICE u32 scales_of_row(u32 stage, u32 row)
{
    return RING + stage * STAGE_BYTES + STAGE_SCALES +
           (SCALES_COME ? row * SCALES_APART(SCALE_BYTES) : 0);
}
DEVICE u32 zeros_of_row(u32 stage, u32 row)
{
    return RING + stage * STAGE_BYTES + STAGE_ZEROS +
           (SCALES_COME ? row * SCALES_APART(ZERO_BYTES) : 0);
}
// How far behind the start of a row's copy the chunk's own numbers begin, of so many bytes each.
DEVICE u32 bytes_to_chunk(u32 chunk, u32 bytes)
{
    return SCALES_ALIGNED ? 0 : bytes_before(chunk * CHUNK / BLOCK, bytes);
}

// Columns of a step, whose chunk may be the last.
DEVICE u32 columns_at(LAYER_PARAMETER const walk &at)
{
    return RAGGED && at.chunk + 1 == CHUNKS ? K - (CHUNKS - 1) * CHUNK : CHUNK;
}
// The row of W that a stage has as its row `row`: behind the last one, the last again.
DEVICE u64 row_at(LAYER_PARAMETER const walk &at, u32 row)
{
    const u32 n = at.tile * ROWS + row;
    return W_ROW((u64)(!KNOWN || N % ROWS ? smaller(n, N - 1) : n));
}

// One lane starts all copies, for the compiler then keeps addresses in uniform registers: a copy
// is five instructions, where one by each lane is a loop of eight slow ones. Copies of a stage, 64
// at most, are unrolled: in a loop each takes twice as long, and stages would wait for their copies
// to start. Each of these two arrives once at every barrier whose bytes it copies.
DEVICE void copy_weights(LAYER_PARAMETER const u8 *b, const walk &at, u32 stage)
{
    const u32 bytes = columns_at(LAYER_NAME at) / 8 * W_BITS / PORTIONS; // of a row in a portion

    UNROLL for (u32 i = 0; i < PORTIONS; i++) {
        const u64 from = (u64)at.chunk * CHUNK_BYTES + i * bytes;
        barrier_expect(full_barrier(stage, i), ROWS * bytes);
        UNROLL for (u32 row = 0; row < ROWS; row++)
            bulk_copy(RING + stage * STAGE_BYTES + row * ROW_BYTES + i * bytes,
                      b + row_at(LAYER_NAME at, row) * K_BYTES + from, bytes,
                      full_barrier(stage, i), WEIGHTS_ONCE);
    }
}

DEVICE void copy_their_scales(LAYER_PARAMETER SCALE_OPERANDS const walk &at, u32 stage)
{
    const u32 blocks = SCALES_COME ? columns_at(LAYER_NAME at) / BLOCK : 0; // of a row
    const u32 rows = SCALE_ROWS == 1 ? ROWS : smaller(ROWS, N - at.tile * ROWS);
    const u32 barrier = full_barrier(stage, 0), first = at.chunk * CHUNK / BLOCK;
    const u32 bytes = SCALES_ALIGNED ? blocks * (SCALE_BYTES + ZERO_BYTES)
                                     : copied_bytes(first, blocks, SCALE_BYTES) +
                                           copied_bytes(first, blocks, ZERO_BYTES);

    barrier_expect(barrier, rows * bytes);
    UNROLL for (u32 i = 0; i < (SCALE_ROWS == 1 ? ROWS : 1); i++)
        copy_scales<SCALES_ALIGNED>(
            SCALE_NAMES SCALE_ROW(row_at(LAYER_NAME at, i)) + first,
            SCALE_ROWS == 1 ? blocks : rows * blocks, scales_of_row(stage, i),
            zeros_of_row(stage, i), barrier, WEIGHTS_ONCE);
}

DEVICE void make_barriers()
{
    UNROLL for (u32 i = 0; i < STAGES; i++) {
        UNROLL for (u32 j = 0; j < PORTIONS; j++)
            barrier_init(full_barrier(i, j), 1 + (SCALES_COME && j == 0));
        barrier_init(EMPTY + i * 8, WARPS);
    }
    UNROLL for (u32 i = 0; i < SUM_BUFFERS; i++) {
        barrier_init(SUMMED + i * 8, WARPS);
        barrier_init(DRAINED + i * 8, SUMMERS);
    }
    barrier_init_fence();
}

// A warp that copies: all, or where there are two such warps the first weights and the second their
// scales. The first makes the mbarriers, for which the second waits at named barrier 2, all others
// at 1. A mixture's are made at the kernel's head: others would hold up registers there.
template <bool FIRST> DEVICE void produce(LAYER_PARAMETER SCALE_OPERANDS const u8 *b, walk at)
{
    constexpr bool ALONE = PRODUCERS == 1;
    place<STAGES> stage = {0, 1};

    if (FIRST && !MOE && one_lane())
        make_barriers();
    sync_warp();
    if (!ALONE)
        sync_some(2, PRODUCERS * 32);
    arrive_some(1, WAVES * 32);
    NO_UNROLL while (at.more()) {
        barrier_wait(EMPTY + stage.at * 8, stage.parity);
        if (one_lane()) {
            if (SCALES_COME && (ALONE || !FIRST)) // first, as all wait for them
                copy_their_scales(LAYER_NAME SCALE_NAMES at, stage.at);
            if (FIRST)
                copy_weights(LAYER_NAME b, at, stage.at);
        }
        sync_warp();
        stage.advance();
        at.advance();
        if (HAS_BLOCK_SCALES && !SCALES_COME && at.more()) // the first step's are loaded at once
            ask_for_scales(LAYER_NAME SCALE_NAMES at);
    }
}

// ---- The summers ----

// Both take the first TILE_SUMS numbers.
DEVICE void store_sums(u32 at, const float (&numbers)[4])
{
    if (TILE_SUMS == 4)
        sts<u32x4>(at, {as_bits(numbers[0]), as_bits(numbers[1]), as_bits(numbers[2]),
                        as_bits(numbers[3])});
    else
        sts<float>(at, numbers[0]);
}
DEVICE void add_four(float (&to)[4], u32x4 v)
{
    to[0] += as_float(v.x), to[1] += as_float(v.y);
    to[2] += as_float(v.z), to[3] += as_float(v.w);
}
DEVICE void add_sums_at(float (&to)[4], u32 at)
{
    if (TILE_SUMS == 4)
        add_four(to, lds<u32x4>(at));
    else
        to[0] += lds<float>(at);
}

// Where a lane has its sums of a warp's rows of W and eight rows of A, or one: beside those of
// other lanes.
DEVICE u32 sums_at(u32 buffer, u32 warp, u32 tile, u32 lane)
{
    constexpr u32 LANES = 32 / TILE_SUMS; // that share 128 bytes
    const u32 block = (buffer * WARPS + warp) * M_TILES + tile;
    return SUMS + (block * TILE_SUMS + lane / LANES) * SUMS_APART + lane % LANES * (4 * TILE_SUMS);
}

// A summer's parts of a step: each a row group's sums with eight rows of A, or one.
constexpr u32 PARTS = ROW_WARPS * M_TILES, SUMMER_PARTS = divide_up(PARTS, SUMMERS);

// Where a lane keeps its sums of a part of a tile.
DEVICE u32 kept_at(u32 in_batch, u32 part)
{
    return KEPT + ((in_batch * PARTS + part) * 32 + item() % 32) * (4 * TILE_SUMS);
}

// Sums what a row group's warps have, and what chunks of K before left.
DEVICE void add_warps(LAYER_PARAMETER float (&total)[4], const walk &at, u32 buffer, u32 part)
{
    const u32 lane = item() % 32, rows = part / M_TILES, tile = part % M_TILES;

    UNROLL for (u32 i = 0; i < 4; i++)
        total[i] = 0;
    if (CHUNKS > 1 && at.chunk != at.first_chunk)
        add_sums_at(total, kept_at(at.in_batch, part));
    UNROLL for (u32 w = 0; w < K_WARPS; w++)
        add_sums_at(total, sums_at(buffer, rows * K_WARPS + w, tile, lane));
    if (CHUNKS > 1 && (CLUSTER > 1 || !at.in_last_chunk()))
        store_sums(kept_at(at.in_batch, part), total);
}

// Stores the results of a part of a tile.
DEVICE void store_part(LAYER_PARAMETER float (&sums)[4], u32 tile, u32 part, const stored_rows &to,
                       float unit, const c_element *bias, c_element *c, i64 ldc)
{
    if (ONE_ROW) { // four lanes have sums of the same row of W, each of other units
        sums[0] += shuffle_xor(sums[0], 1);
        sums[0] += shuffle_xor(sums[0], 2);
    }
    store_results<TILE_SUMS>(LAYER_NAME sums, unit,
                             tile * ROWS + part / M_TILES * TILE + item() % 32 / 4, to, bias, c,
                             ldc);
}

// Adds the sums that the workgroups of a cluster have kept of all their tiles, the summers of each
// those of a share of all parts, and always in the same order. Nobody may read the others' before
// all have kept theirs, nor end before all have read. The other warps end meanwhile, as a cluster's
// barrier waits for them too: so this is no place between two batches.
DEVICE void join_sums(LAYER_PARAMETER u32 first_tile, u32 groups, u32 summer, float unit,
                      const c_element *bias, SLOT_PARAMETER c_element *c, u32 first, u32 m, i64 ldc)
{
    const u32 tiles = divide_up(TILES - first_tile, groups);

    sync_cluster();
    for (u32 i = cluster_rank() + summer * CLUSTER; i < tiles * PARTS; i += CLUSTER * SUMMERS) {
        const u32 in_batch = i / PARTS, part = i % PARTS, tile = first_tile + in_batch * groups;
        const u32 a_row = part % M_TILES * 8;
        // What is read must be used in front of the second meeting, which does not wait for loads.
        if (a_row >= m || tile * ROWS + part / M_TILES * TILE >= N)
            continue;
        const stored_rows to = rows_to_store<2>(SLOT_NAME a_row + item() % 4 * 2, first, m);
        float sums[4] = {};
        UNROLL for (u32 rank = 0; rank < CLUSTER; rank++)
            add_four(sums, lds_of(rank, kept_at(in_batch, part)));
        store_part(LAYER_NAME sums, tile, part, to, unit, bias, c, ldc);
    }
    sync_cluster();
}

DEVICE void add_sums(LAYER_PARAMETER walk at, float unit, const c_element *bias,
                     SLOT_PARAMETER c_element *c, u32 first, u32 m, i64 ldc)
{
    const u32 lane = item() % 32, summer = item() / 32 - WARPS - PRODUCERS, first_tile = at.tile;
    place<SUM_BUFFERS> buffer = {0, 0};
    stored_rows to[SUMMER_PARTS]; // loaded once, as they are the same in all steps

    UNROLL for (u32 i = 0; i < SUMMER_PARTS; i++) {
        const u32 at = ONE_ROW ? 0 : (summer + i * SUMMERS) % M_TILES * 8 + lane % 4 * 2;
        to[i] = rows_to_store<ONE_ROW ? 1 : 2>(SLOT_NAME at, first, m);
        if (ONE_ROW && lane % 4) // the first of four lanes stores their sum
            to[i].row[0] = NO_ROW;
    }
    NO_UNROLL for (; at.more(); at.advance(), buffer.advance()) {
        float sums[SUMMER_PARTS][4];

        barrier_wait(SUMMED + buffer.at * 8, buffer.parity);
        UNROLL for (u32 i = 0; i < SUMMER_PARTS; i++) {
            if (summer + i * SUMMERS < PARTS)
                add_warps(LAYER_NAME sums[i], at, buffer.at, summer + i * SUMMERS);
        }
        sync_warp();
        if (lane == 0)
            barrier_arrive(DRAINED + buffer.at * 8);
        if (CLUSTER > 1 || (CHUNKS > 1 && !at.in_last_chunk()))
            continue;
        UNROLL for (u32 i = 0; i < SUMMER_PARTS; i++) {
            const u32 part = summer + i * SUMMERS;
            if (part < PARTS)
                store_part(LAYER_NAME sums[i], at.tile, part, to[i], unit, bias, c, ldc);
        }
    }
    if constexpr (CLUSTER > 1)
        join_sums(LAYER_NAME first_tile, at.groups, summer, unit, bias, SLOT_NAME c, first, m, ldc);
}

// ---- The consumers ----

// Of a unit, each of four lanes has a quarter of the columns, which are neighbours: the packed
// weights of a lane are then one load, and so are two or four pairs of pairs of A.
typedef u32 a_values[SETS][M_TILES][UNIT / 8];
typedef typename element_of<A_TYPE>::type a_element;

// The pairs of A of a lane's columns of a unit.
template <bool ALIGNED> DEVICE void load_a_unit(const a_element *from, u32 (&pairs)[UNIT / 8])
{
    if constexpr (A_TYPE == FP8) {
        u32 bytes[4];
        load_a_piece<ALIGNED>(from, bytes);
        UNROLL for (u32 i = 0; i < 8; i++)
            pairs[i] = pair_of_word(bytes[i / 2], i % 2, 0);
    } else {
        UNROLL for (u32 i = 0; i < UNIT / 32; i++) {
            load_a_piece<ALIGNED>(from + i * 8, &pairs[i * 4]);
            order_a(&pairs[i * 4]);
        }
    }
}

template <bool ALIGNED>
DEVICE void load_a_as(LAYER_PARAMETER SLOT_PARAMETER a_values &values, const a_element *a, i64 lda,
                      u32 first, u32 m, u32 chunk, u32 k_warp)
{
    const u32 lane = item() % 32;

    UNROLL for (u32 t = 0; t < M_TILES; t++) {
        const u32 row = A_ROW(ONE_ROW ? 0 : t * 8 + lane / 4);
        const a_element *const from = a + (i64)row * lda + lane % 4 * (UNIT / 4);
        UNROLL for (u32 s = 0; s < SETS; s++) {
            const u32 u = ONE_ROW ? s * SIDE + lane / 4 : s;
            const u32 column = chunk * CHUNK + unit_of(k_warp, u) * UNIT;
            if (!owns(k_warp, u))
                UNROLL for (u32 i = 0; i < UNIT / 8; i++)
                    values[s][t][i] = 0;
            else if (u < UNITS && (!RAGGED || column < K))
                load_a_unit<ALIGNED>(from + column, values[s][t]);
        }
    }
}

// One branch for all loads: predicated loads of both kinds into the same registers would wait for
// one another.
DEVICE void load_a(LAYER_PARAMETER SLOT_PARAMETER a_values &values, const a_element *a, i64 lda,
                   u32 first, u32 m, u32 chunk, u32 k_warp)
{
    if (((u64)a | (u64)lda * sizeof(a_element)) % 16 == 0)
        load_a_as<true>(LAYER_NAME SLOT_NAME values, a, lda, first, m, chunk, k_warp);
    else
        load_a_as<false>(LAYER_NAME SLOT_NAME values, a, lda, first, m, chunk, k_warp);
}

// The sums of A's values over a span, or its scales, of two rows of A in each lane, as products
// have them; with one row of A over the two units of a set in whose columns the lane has sums.
constexpr u32 SUMS_OF_A = ONE_ROW ? SETS : SPANS;
typedef float a_sums[SUMS_OF_A][M_TILES][2];

DEVICE void sum_a(LAYER_PARAMETER a_sums &of_a, const a_values &values, u32 chunk, u32 k_warp)
{
    UNROLL for (u32 s = 0; s < SUMS_OF_A; s++) {
        UNROLL for (u32 t = 0; t < M_TILES; t++) {
            float sums[4] = {};
            UNROLL for (u32 u = s * SPAN; u < (s + 1) * SPAN; u++) {
                if (!RAGGED || chunk * CHUNK + unit_of(k_warp, u * SIDE) * UNIT < K) {
                    UNROLL for (u32 i = 0; i < UNIT / 8; i += 2)
                        mma<MMA_TYPE>(sums, ONES, ONES, ONES, ONES, values[u][t][i],
                                    values[u][t][i + 1]);
                }
            }
            of_a[s][t][0] = sums[0], of_a[s][t][1] = sums[1];
        }
    }
}

#if SCALE_IS_NESTED
// The second level of nested scales is one number for NEST blocks, however rows divide them. A
// workgroup has those of all its tiles in shared memory, where bytes come by copies: SECONDS each.
DEVICE void keep_seconds(LAYER_PARAMETER SCALE_OPERANDS const walk &from)
{
    constexpr u32 OF_TILE = SECONDS ? SECONDS : 1; // or nothing is kept

    for (u32 i = item(); i < WALK_MAX * SECONDS; i += WARPS * 32) {
        const u64 tile = from.tile + i / OF_TILE * from.groups;
        const u64 number = tile * ROWS * BLOCKS / NEST + i % OF_TILE;
        if (tile < TILES && number * NEST < (u64)N * BLOCKS)
            sts<float>(SECOND + i * 4, ldg(scales + number));
    }
}
// The bits of the second-level scale of a block of row `in_tile` of the tile at hand.
DEVICE u32 second_of(LAYER_PARAMETER const walk &at, u32 in_tile, u32 block)
{
    const u32 first = (u32)((u64)at.tile * ROWS * BLOCKS % NEST) + in_tile * BLOCKS + block;

    return lds<u32>(SECOND + ((at.before + at.in_batch) * SECONDS + first / NEST) * 4);
}
#endif

// The scales of a warp's units in one row, or of those that a lane has the sums of.
struct row_scales {
    loaded_scales<SCALES> part[LANE_SCALES / SCALES];
};

// Those of row `in_tile` of a tile. COME: from the stage, else from memory.
template <bool COME>
DEVICE void load_scales(LAYER_PARAMETER SCALE_OPERANDS row_scales &row, const walk &at, u32 stage,
                        u32 in_tile, u32 k_warp)
{
    const u64 n = W_ROW(smaller(at.tile * ROWS + in_tile, N - 1));
    // Behind the last row of W the last one's, as those of a whole stage end with it.
    const u32 come =
        SCALE_ROWS > 1 && N % ROWS ? smaller(in_tile, N - 1 - at.tile * ROWS) : in_tile;

    UNROLL for (u32 i = 0; i < LANE_SCALES / SCALES; i++) {
        const u32 first = i * SCALES;
        const u32 u = ONE_ROW ? first / 2 * SIDE + item() % 4 * 2 + first % 2 : first * SPAN;
        const u32 in_chunk = unit_of(k_warp, u) * UNIT, column = at.chunk * CHUNK + in_chunk;
        if (u >= UNITS || (RAGGED && column >= K))
            continue;
        if constexpr (COME) {
            row.part[i] = take_scales<SCALES>(
                scales_of_row(stage, come) + bytes_to_chunk(at.chunk, SCALE_BYTES),
                zeros_of_row(stage, come) + bytes_to_chunk(at.chunk, ZERO_BYTES),
                in_chunk / BLOCK);
#if SCALE_IS_NESTED
            row.part[i].second =
                second_of(LAYER_NAME at, (u32)(n - at.tile * ROWS), column / BLOCK);
#endif
        } else
            row.part[i] = begin_scales<SCALES>(SCALE_NAMES SCALE_ROW(n) + column / BLOCK);
    }
}
template <bool COME>
DEVICE void load_both_scales(LAYER_PARAMETER SCALE_OPERANDS row_scales &upper, row_scales &lower,
                             const walk &at, u32 stage, u32 rows, u32 k_warp)
{
    const u32 in_tile = rows * TILE + item() % 32 / 4;

    load_scales<COME>(LAYER_NAME SCALE_NAMES upper, at, stage, in_tile, k_warp);
    if (!ONE_ROW)
        load_scales<COME>(LAYER_NAME SCALE_NAMES lower, at, stage, in_tile + 8, k_warp);
}

#if A_BLOCK_SCALED
// The scales of A over a warp's spans, of the rows whose products a lane has.
DEVICE void load_a_scales(LAYER_PARAMETER SLOT_PARAMETER a_sums &scales, const float *a_scale,
                          u32 first, u32 m, u32 chunk, u32 k_warp)
{
    UNROLL for (u32 s = 0; s < SPANS; s++) {
        const u32 column = chunk * CHUNK + unit_of(k_warp, s * SPAN) * UNIT;
        UNROLL for (u32 t = 0; t < M_TILES; t++) {
            UNROLL for (u32 i = 0; i < 2; i++) {
                const u32 row = A_ROW(t * 8 + item() % 4 * 2 + i);
                if (!RAGGED || column < K)
                    scales[s][t][i] = ldg_late(a_scale + (u64)row * BLOCKS + column / BLOCK);
            }
        }
    }
}
#endif

template <u32 COUNT> DEVICE void load_packed(u32 at, u32 offset, u32 (&words)[COUNT])
{
    if constexpr (COUNT == 4) {
        const u32x4 v = lds<u32x4>(at, offset);
        words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else if constexpr (COUNT == 2) {
        const u32x2 v = lds<u32x2>(at, offset);
        words[0] = v.x, words[1] = v.y;
    } else {
        words[0] = lds<u32>(at, offset);
    }
}

// With one row of A, what the numbers of a set's units are xored with to give the order in which a
// lane reads its row's: of rows whose units 0 are in the same banks, each has another if a set has
// units enough. It is less than BANKS, which divides the units of one of several portions: so none
// takes the place of another portion's.
DEVICE u32 row_key(u32 units)
{
    constexpr u32 BANKS = 128 / UNIT_BYTES; // neighbouring units that share no bank
    // Of rows whose units 0 share banks, so many are among the first BANKS rows.
    constexpr u32 ALIKE = KEYED ? largest_power(ROW_UNITS, BANKS) : 1;
    return item() % 32 / 4 % BANKS / (BANKS / ALIKE) % largest_power(units, 8);
}

// Where in shared memory the weights of a stage begin that a lane loads.
DEVICE u32 own_weights(u32 stage, u32 rows, u32 k_warp)
{
    const u32 lane = item() % 32;

    return RING + stage * STAGE_BYTES + (rows * TILE + lane / 4) * ROW_BYTES +
           lane % 4 * (UNIT_BYTES / 4) + unit_of(k_warp, 0) * UNIT_BYTES;
}

// In front of a consumer's unit u: waits for its portion, if it is the first of one, but for the
// first portion, which came with the scales.
DEVICE void await_portion(const place<STAGES> &stage, u32 u)
{
    if (u && u % PORTION == 0)
        barrier_wait(full_barrier(stage.at, u / PORTION), stage.parity);
}

// Adds the products of a unit of 16 rows, or of two units of eight, with A. Weights of the first
// eight rows of the operand begin at `upper`, those of the others at `lower`, and both `offset`, a
// constant, behind that.
DEVICE void multiply_unit(float (&sums)[M_TILES][4], const u32 (&a)[M_TILES][UNIT / 8], u32 upper,
                          u32 lower, u32 offset)
{
    const u32 copy = item() % 32 * 4 + cluster_window();
    u32 x[WORDS], y[WORDS];

    load_packed(upper, offset, x);
    load_packed(lower, offset, y);
    UNROLL for (u32 i = 0; i < UNIT / 16; i++) {
        const u32 v = 2 * i / PAIRS, w = (2 * i + 1) / PAIRS;
        const u32 w0 = pair_of_word(x[v], 2 * i % PAIRS, copy);
        const u32 w1 = pair_of_word(y[v], 2 * i % PAIRS, copy);
        const u32 w2 = pair_of_word(x[w], (2 * i + 1) % PAIRS, copy);
        const u32 w3 = pair_of_word(y[w], (2 * i + 1) % PAIRS, copy);
        UNROLL for (u32 t = 0; t < M_TILES; t++)
            mma<MMA_TYPE>(sums[t], w0, w1, w2, w3, a[t][2 * i], a[t][2 * i + 1]);
    }
}

// Adds a warp's products of eight rows of W with the one row of A. The upper half of an operand has
// one unit of each row and the lower half another. Which two of a set that is may differ from row
// to row: row r has units 2p ^ key(r) and (2p + 1) ^ key(r) in product p. So lanes of eight rows
// read different banks, though rows lie in memory as bulk copies bring them quickest. Of the four
// lanes of a row, one has the columns of both units, 2q and 2q + 1.
DEVICE void multiply_one_row(LAYER_PARAMETER float &sum, const a_values &a, const a_sums &of_a,
                             const row_scales &row, const walk &at, const place<STAGES> &stage,
                             u32 rows, u32 k_warp, float shift)
{
    const u32 own = own_weights(stage.at, rows, k_warp), q = item() % 4;
    const u32 column = at.chunk * CHUNK + k_warp * UNITS * UNIT;

    UNROLL for (u32 s = 0; s < SETS; s++) {
        const u32 units = smaller(SIDE, UNITS - s * SIDE), key = row_key(units);
        float of_unit[2] = {};
        UNROLL for (u32 p = 0; p < divide_up(units, 2); p++) {
            const u32 first = 2 * p, u = s * SIDE + first;
            const u32 low = u % PORTION % SIDE; // unit u's place in its eight of a portion
            const u32 next = column + (u + 1) * UNIT;
            const u32 second = first + 1 < units && (!RAGGED || next < K) ? first + 1 : first;
            float products[M_TILES][4] = {};
            if (RAGGED && next - UNIT >= K)
                continue;
            await_portion(stage, u);
            multiply_unit(products, a[s], own + (low ^ key) * UNIT_BYTES,
                          own + (low + second - first ^ key) * UNIT_BYTES,
                          bytes_to_unit(u) - low * UNIT_BYTES);
            if ((q ^ key / 2) != p)
                continue;
            of_unit[0] = key % 2 ? products[0][2] : products[0][0];
            of_unit[1] = key % 2 ? products[0][1] : products[0][3];
        }
        UNROLL for (u32 i = 0; i < 2; i++) {
            const u32 unit = 2 * q + i, block = s * 2 + i;
            const auto &scales = row.part[block / SCALES];
            float value = of_unit[i];
            if (unit >= units || (RAGGED && column + (s * SIDE + unit) * UNIT >= K))
                continue;
            if (BY_OFFSET)
                value = fused(-(NO_ZERO + shift_at(scales, block % SCALES)), of_a[s][0][i], value);
            const float scale = scale_at(scales, block % SCALES, CODES, shift);
            sum = HAS_BLOCK_SCALES ? fused(value, scale, sum) : sum + value;
            if (ZERO == ZERO_SCALED)
                sum = fused(-extra_at(scales, block % SCALES), of_a[s][0][i], sum);
        }
    }
}

DEVICE void multiply(LAYER_PARAMETER float (&sums)[M_TILES][4], const a_values &a,
                     const a_sums &of_a, const row_scales &upper, const row_scales &lower,
                     const walk &at, const place<STAGES> &stage, u32 rows, u32 k_warp, float shift)
{
    const u32 own = own_weights(stage.at, rows, k_warp);

    UNROLL for (u32 s = 0; s < SPANS; s++) {
        float of_block[M_TILES][4] = {}, (&block)[M_TILES][4] = HAS_BLOCK_SCALES ? of_block : sums;
        if (RAGGED && at.chunk * CHUNK + (k_warp * UNITS + s * SPAN) * UNIT >= K)
            continue;
        const auto &above = upper.part[s / SCALES], &below = lower.part[s / SCALES];
        UNROLL for (u32 t = 0; t < M_TILES && BY_OFFSET; t++) {
            UNROLL for (u32 i = 0; i < 4; i++)
                block[t][i] = -(NO_ZERO + shift_at(i / 2 ? below : above, s % SCALES)) *
                              of_a[s][t][i % 2];
        }
        UNROLL for (u32 u = s * SPAN; u < (s + 1) * SPAN; u++) {
            await_portion(stage, u);
            multiply_unit(block, a[u], own, own + 8 * ROW_BYTES, bytes_to_unit(u));
        }
        if (!HAS_BLOCK_SCALES)
            continue;
        // A is zero for what the consumer before adds; an infinite scale would make NaN of that.
        const bool own_span = owns(k_warp, s * SPAN);
        const float scales[2] = {own_span ? scale_at(above, s % SCALES, CODES, shift) : 0,
                                 own_span ? scale_at(below, s % SCALES, CODES, shift) : 0};
        const float extra[2] = {own_span ? extra_at(above, s % SCALES) : 0,
                                own_span ? extra_at(below, s % SCALES) : 0};
        UNROLL for (u32 t = 0; t < M_TILES; t++) {
            UNROLL for (u32 i = 0; i < 4; i++) {
#if A_BLOCK_SCALED
                const float scale = product(scales[i / 2], of_a[s][t][i % 2]);
#else
                const float scale = scales[i / 2];
#endif
                sums[t][i] = fused(block[t][i], scale, sums[t][i]);
                if (ZERO == ZERO_SCALED)
                    sums[t][i] = fused(-extra[i / 2], of_a[s][t][i % 2], sums[t][i]);
            }
        }
    }
}

// A consumer is done with a stage. With several rows of A it says so before it waits to hand its
// sums over, so that copies go on; with one row sums are few and go first, for what waits for the
// last of them is a larger part of a launch.
DEVICE void give_back(u32 stage, u32 lane)
{
    fence_async();
    sync_warp();
    if (lane == 0)
        barrier_arrive(EMPTY + stage * 8);
}

DEVICE void consume(LAYER_PARAMETER SCALE_OPERANDS SLOT_PARAMETER walk at, const a_element *a,
                    i64 lda, u32 first, u32 m)
{
    const u32 lane = item() % 32, warp = item() / 32, k_warp = warp % K_WARPS;
    const u32 rows = warp / K_WARPS;
    float shift = 0;
    place<STAGES> stage = {0, 0};
    place<SUM_BUFFERS> buffer = {0, 1};
    row_scales upper, lower;
    a_values values;
    a_sums of_a;

    if (!SCALES_COME)
        load_both_scales<false>(LAYER_NAME SCALE_NAMES upper, lower, at, 0, rows, k_warp);
#if SCALE_IS_NESTED
    shift = ldg(offset);
    for (u32 i = item(); i < NEST; i += WARPS * 32)
        sts<float>(CODES + i * 4, ldg(code + i));
    keep_seconds(LAYER_NAME SCALE_NAMES at);
#endif
    await_launch_in_front(a);
#if A_BLOCK_SCALED
    await_launch_in_front(a_scale);
#endif
    if (KNOWN && OWN_CHUNKS == 1)
        load_a(LAYER_NAME SLOT_NAME values, a, lda, first, m, at.chunk, k_warp);
    build_table(WARPS * 32);
    sync_some(1, WAVES * 32); // the table is there, and so are the mbarriers
    if (KNOWN && OWN_CHUNKS == 1 && BY_OFFSET)
        sum_a(LAYER_NAME of_a, values, at.chunk, k_warp);
#if A_BLOCK_SCALED
    if (OWN_CHUNKS == 1)
        load_a_scales(LAYER_NAME SLOT_NAME of_a, a_scale, first, m, at.chunk, k_warp);
#endif
    NO_UNROLL while (at.more()) {
        const walk now = at;
        row_scales upper_now = upper, lower_now = lower;
        float sums[M_TILES][4] = {};

        if ((!KNOWN || OWN_CHUNKS > 1) && now.in_batch == 0) {
            load_a(LAYER_NAME SLOT_NAME values, a, lda, first, m, now.chunk, k_warp);
            if (BY_OFFSET)
                sum_a(LAYER_NAME of_a, values, now.chunk, k_warp);
#if A_BLOCK_SCALED
            load_a_scales(LAYER_NAME SLOT_NAME of_a, a_scale, first, m, now.chunk, k_warp);
#endif
        }
        at.advance();
        if (!SCALES_COME && at.more()) // a step ahead of their use
            load_both_scales<false>(LAYER_NAME SCALE_NAMES upper, lower, at, 0, rows, k_warp);
        barrier_wait(full_barrier(stage.at, 0), stage.parity);
        if constexpr (SCALES_COME)
            load_both_scales<true>(LAYER_NAME SCALE_NAMES upper_now, lower_now, now, stage.at, rows,
                                   k_warp);
        if constexpr (ONE_ROW)
            multiply_one_row(LAYER_NAME sums[0][0], values, of_a, upper_now, now, stage, rows,
                             k_warp, shift);
        else
            multiply(LAYER_NAME sums, values, of_a, upper_now, lower_now, now, stage, rows, k_warp,
                     shift);
        if (!ONE_ROW)
            give_back(stage.at, lane);
        barrier_wait(DRAINED + buffer.at * 8, buffer.parity);
        UNROLL for (u32 t = 0; t < M_TILES; t++)
            store_sums(sums_at(buffer.at, warp, t, lane), sums[t]);
        sync_warp();
        if (lane == 0)
            barrier_arrive(SUMMED + buffer.at * 8);
        if (ONE_ROW)
            give_back(stage.at, lane);
        stage.advance();
        buffer.advance();
    }
}

// ---- The kernel ----

KERNEL(SYMBOL, WAVES * 32)
(LAYER_OPERANDS const a_element *a, const u8 *b, SCALE_OPERANDS
#if BIAS
 const c_element *bias,
#endif
 SLOT_OPERANDS c_element *c, int m, int first, i64 lda, i64 ldc, int workgroups SLICES_ARGUMENT)
{
    ENTER_LAYER
#if !BIAS
    const c_element *const bias = nullptr;
#endif
    const u32 warp = item() / 32;
    let_next_launch_begin();
    check_shared_start();
#if MOE
    if (warp == WARPS) { // in front of what a mixture waits for (produce)
        if (one_lane())
            make_barriers();
        sync_warp();
    }
    ENTER_SLOTS
    const share part =
        share_out(group_x(), (u32)workgroups, slices_in_use(used, (u32)slices));
    const u32 slice = part.slice, group = part.group, groups = part.groups;
    const u32 begin = slice * M_TILE, its_rows = (u32)m;
    if (group * ROWS >= N || !groups)
        return;
    ENTER_EXPERT((u64)N * K_BYTES, ROWS, groups)
#else
    const u32 group = (SLICES_FIRST ? group_y() : group_x()) / CLUSTER;
    const u32 groups = (u32)workgroups / CLUSTER;
    const u32 begin = (SLICES_FIRST ? group_x() : group_y()) * M_TILE;
    const u32 its_rows = smaller((u32)m - begin, M_TILE);
#endif
    const u32 first_chunk = CLUSTER > 1 ? cluster_rank() * OWN_CHUNKS : 0;
    if (WALK_MAX)
        check(group < TILES && divide_up(TILES - group, groups) <= WALK_MAX);
    const walk at = {LAYER_NAME groups, group, first_chunk, first_chunk, 0, group, 0};

    // Registers change hands by warpgroups, so all warps of one come here together; and inside of
    // each branch, or the compiler would count on the launch's number in both.
    if (warp < WARPS) {
        if constexpr (CONSUMER_REGISTERS != 0)
            take_registers<CONSUMER_REGISTERS>();
        consume(LAYER_NAME SCALE_NAMES SLOT_NAME at, a, lda, (u32)first + begin, its_rows);
        return;
    }
    if constexpr (OTHER_REGISTERS != 0)
        leave_registers<OTHER_REGISTERS>();
    if (warp == WARPS)
        produce<true>(LAYER_NAME SCALE_NAMES b, at);
    else if (PRODUCERS > 1 && warp == WARPS + 1)
        produce<false>(LAYER_NAME SCALE_NAMES b, at);
    else {
        sync_some(1, WAVES * 32);
        await_launch_in_front(LATE_UNIT);
        add_sums(LAYER_NAME at, UNIT_OF_SUMS, bias, SLOT_NAME c, (u32)first + begin, its_rows,
                 ldc);
    }
}
