/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for sm_120
// op=dequant wq=mxfp4 group=32 scale=e8m0 c=bf16 n=1000 k=1024 layout=k8 round=rne


#define SYMBOL quern_dequant_mxfp4_bf16_n1000_k1024_g32 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 1000;            // rows of W
constexpr unsigned K = 1024;            // columns of W
constexpr unsigned BLOCK = 32;          // weights along K that share a scale
#define WORD_ORDER K8                   // of the weights in a word
#define C_TYPE BF16                     // elements of C and of a bias
#define SCALE_IS_NESTED 0               // whether scales are quantised again
#define SCALE_IS_E8M0 1                 // whether they are powers of two
#define SCALE_TYPE F32                  // elements of scales
#define ZERO ZERO_NONE                  // what zero points are
#define HAS_ZEROS 0                     // whether there are any
#define W_BITS 4                        // of a weight
#define HAS_BLOCK_SCALES true           // whether sums of blocks are scaled
#define BLOCK_SCALED 0                  // whether W is e4m3 in blocks
#define A_IS_FP8 0                      // whether A is e4m3
#define MMA_TYPE F16                    // elements of products

constexpr unsigned WAVES = 8;           // in a workgroup
constexpr unsigned CHUNKS = 4;          // of eight weights that a lane takes
#define CLUSTER 1                       // workgroups that share rows of W
#define EARLY true                      // whether launches may overlap: prelude/ptx
constexpr unsigned SHARED_START = 1024; // where a workgroup's shared memory is
constexpr unsigned SHARED_BYTES = 2048; // of a workgroup

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

// ---- decode/e2m1 ----
// E2M1, the element of MXFP4 (OCP Microscaling Formats 1.0): a sign bit, two of exponent, one of
// mantissa.

constexpr float CODE[16] = {
    0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f,
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

// ---- cuda/prelude/codes ----
// What a 4-bit code stands for, as a number.

struct code_values {
    float value[16];
};
constexpr code_values make_values()
{
    code_values values = {};
    for (u32 i = 0; i < 16; i++)
        values.value[i] = CODE[i] * CODE_UNIT;
    return values;
}
constexpr code_values VALUES = make_values();

// Weight `index` of the eight of a word, as a code.
DEVICE u32 code_of_word(u32 word, u32 index)
{
    const u32 nibble = WORD_ORDER == BNB   ? index ^ 1
                       : WORD_ORDER == EXL ? index / 2 + index % 2 * 4
                                           : index;
    return word >> 4 * nibble & 15;
}

// ---- cuda/family/lane_dequant ----
// c[N, K] = the weights themselves: a code's or e4m3's value times its scale, or for int4
// (q - z) * s, or (q - 8) * s - zs, rounded to f32, then once to C_TYPE.
//
// Rows do not matter: a lane takes chunks of eight consecutive weights of the flattened [N, K], of
// which each lies in one block, neighbours beside each other.

#define TOTAL ((u64)N * K / 8)
constexpr u32 ITEMS = WAVES * 32;
typedef typename element_of<C_TYPE>::type c_element;

template <int TYPE> DEVICE void store(c_element *to, const float (&values)[8])
{
    if constexpr (TYPE == F32) {
        UNROLL for (u32 i = 0; i < 8; i += 4)
            stg((u32x4 *)(to + i), u32x4{as_bits(values[i]), as_bits(values[i + 1]),
                                         as_bits(values[i + 2]), as_bits(values[i + 3])});
    } else {
        u32 pairs[4];
        UNROLL for (u32 i = 0; i < 4; i++)
            pairs[i] =
                rounded<TYPE>(values[2 * i]) | (u32)rounded<TYPE>(values[2 * i + 1]) << 16;
        stg((u32x4 *)to, u32x4{pairs[0], pairs[1], pairs[2], pairs[3]});
    }
}

#if W_BITS == 8
typedef u32x2 packed; // the weights of a chunk

// What the chunks of a lane have in common: the one scale of W, or 1 where blocks have theirs.
typedef float shared_scale;
DEVICE shared_scale set_up(SCALE_OPERANDS u32) { return UNIT_OF_SUMS; }

DEVICE void decode(LAYER_PARAMETER SCALE_OPERANDS float (&values)[8], packed words, u64 chunk,
                   shared_scale unit)
{
    const u64 first = chunk * 8;
    const u64 block = BLOCK_SCALED ? SCALE_ROW(first / K) + first % K / 128 : 0;
    const float scale = product(unit, scale_at(begin_scales<1>(SCALE_NAMES block), 0, 0, 0));

    UNROLL for (u32 i = 0; i < 4; i++) {
        const u32 pair = two_of_fp8((i < 2 ? words.x : words.y) >> i % 2 * 16 & 0xffff);
        values[2 * i] = product(widen_f16(pair & 0xffff), scale);
        values[2 * i + 1] = product(widen_f16(pair >> 16), scale);
    }
}
#else
typedef u32 packed;

constexpr u32 TABLE = 0, CODES = 16 * 32 * 4;
static_assert(CODES + SCALE_IS_NESTED * 1024 <= SHARED_BYTES, "the plan counted shared memory");

// What they have in common: what is added to nested scales.
typedef float shared_scale;
DEVICE shared_scale set_up(SCALE_OPERANDS u32 at)
{
    float shift = 0;

#if SCALE_IS_NESTED
    shift = ldg(offset);
    for (u32 i = at; i < NEST; i += ITEMS)
        sts<float>(CODES + i * 4, ldg(code + i));
#endif
    for (u32 i = at; i < 16 * 32; i += ITEMS)
        sts<float>(TABLE + i * 4, VALUES.value[i / 32]);
    sync_group();
    return shift;
}

DEVICE void decode(LAYER_PARAMETER SCALE_OPERANDS float (&values)[8], packed word, u64 chunk,
                   shared_scale shift)
{
    const u64 block = KNOWN || BLOCK <= K ? chunk * 8 / BLOCK : chunk * 8 / K;
    const auto loaded = begin_scales<1>(SCALE_NAMES block);
    const float scale = scale_at(loaded, 0, CODES, shift);

    UNROLL for (u32 j = 0; j < 8; j++) {
        const u32 code = code_of_word(word, j);
        const float value = lds<float>(TABLE + code * 128 + item() % 32 * 4);
        values[j] = ZERO == ZERO_SCALED ? fused(value, scale, -extra_at(loaded, 0))
                    : ZERO == ZERO_U8   ? product(value - shift_at(loaded, 0), scale)
                                        : product(value, scale);
    }
}
#endif

KERNEL(SYMBOL, WAVES * 32)(LAYER_OPERANDS const u8 *b, SCALE_OPERANDS c_element *c)
{
    ENTER_LAYER
    let_next_launch_begin();
    check_shared_start();
    const shared_scale common = set_up(SCALE_NAMES item());
    await_launch_in_front();
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        const u64 chunk = ((u64)group_x() * CHUNKS + i) * ITEMS + item();
        float values[8];
        if (chunk >= TOTAL)
            return;
        decode(LAYER_NAME SCALE_NAMES values, ldg((const packed *)b + chunk), chunk, common);
        store<C_TYPE>(c + chunk * 8, values);
    }
}
