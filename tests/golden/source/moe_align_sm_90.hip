/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for sm_90
// op=moe_align experts=128 top_k=8 block_rows=16


#define SYMBOL quern_moe_align_e128_t8_b16 // name of the kernel
constexpr unsigned EXPERTS = 128;       // that choices may name
constexpr unsigned BLOCK_ROWS = 16;     // slots of a block

constexpr unsigned WARPS = 32;          // in the workgroup
#define CLUSTER 1                       // workgroups that share rows of W
#define EARLY true                      // whether launches may overlap: prelude/ptx
constexpr unsigned SHARED_START = 1024; // where a workgroup's shared memory is
constexpr unsigned SHARED_BYTES = 17024; // of a workgroup

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

// ---- cuda/family/warp_align ----
// Puts the choices of a router into blocks of one expert each: which choice a slot of `rows` is
// for, whose block it is, and how many slots are used. A choice is token * top_k + which; an
// expert's choices follow each other in ascending order, its last block is filled up with
// `choices`, which is no choice, and so is everything beyond the used slots.
//
// One workgroup does it all. Each of its warps has a stretch of consecutive choices, and for each
// expert a count in shared memory that no other warp touches. The warps count their choices; then
// the counts become the slots where each warp's choices of each expert begin; and the warps place
// their choices. Of lanes with the same expert each has the rank of its lane among them, and the
// last one moves the count on for all, so that nothing depends on which lane is first.

constexpr u32 ITEMS = WARPS * 32;
constexpr u32 NOBODY = ~0u; // no expert: of blocks without choices
constexpr u32 ITEM_EXPERTS = divide_up(EXPERTS, ITEMS); // consecutive ones of a work-item
constexpr u32 AHEAD = 4; // loads that a lane has asked for before it uses the first

// For each warp and expert: how many of its choices the warp has, then the slot of its next one.
// For each expert: the slot behind its last choice. For each warp: the blocks of its experts.
constexpr u32 PLACES = 0, ENDS = PLACES + WARPS * EXPERTS * 4, SUMS = ENDS + EXPERTS * 4;
static_assert(SUMS + WARPS * 4 <= SHARED_BYTES, "the plan counted shared memory");

DEVICE u32 place_of(u32 warp, u32 expert) { return PLACES + (warp * EXPERTS + expert) * 4; }
DEVICE u32 blocks_of(u32 count) { return divide_up(count, BLOCK_ROWS); }

// Ids of a lane's choices `at`, `at` + 32 and so on; from `end` on there are none.
DEVICE void load_ids(u32 (&id)[AHEAD], const u32 *topk_ids, u32 at, u32 end)
{
    UNROLL for (u32 i = 0; i < AHEAD; i++)
        id[i] = at + i * 32 < end ? ldg_late(topk_ids + at + i * 32) : NOBODY;
}

// Whether no lane of a set is behind this one, which is in it.
DEVICE bool is_last(u32 set, u32 lane) { return set >> lane == 1; }
DEVICE u32 lanes_before(u32 set, u32 lane) { return count_bits(set & ((1u << lane) - 1)); }

// The sums of a value over the lanes before this one, and over all lanes.
struct lane_sums { u32 before, all; };
DEVICE lane_sums sum_lanes(u32 value, u32 lane)
{
    lane_sums sums = {0, value};
    UNROLL for (u32 step = 1; step < 32; step *= 2) {
        const u32 other = as_bits(shuffle_xor(as_float(sums.all), step));
        sums.before += lane & step ? other : 0;
        sums.all += other;
    }
    return sums;
}

// Counts a warp's choices by expert.
DEVICE void count(const u32 *topk_ids, u32 first, u32 end, u32 warp, u32 lane)
{
    NO_UNROLL for (u32 at = first; at < end; at += AHEAD * 32) {
        u32 id[AHEAD];
        load_ids(id, topk_ids, at + lane, end);
        UNROLL for (u32 i = 0; i < AHEAD; i++) {
            const u32 alike = lanes_alike(id[i]);
            if (id[i] < EXPERTS && is_last(alike, lane)) {
                const u32 place = place_of(warp, id[i]);
                sts<u32>(place, lds<u32>(place) + count_bits(alike));
            }
            sync_warp();
        }
    }
}

// Puts a warp's choices into their slots. The choice that comes first in a block names the block's
// expert.
DEVICE void put(const u32 *topk_ids, u32 *rows, u32 *experts, u32 first, u32 end, u32 warp,
                u32 lane)
{
    NO_UNROLL for (u32 at = first; at < end; at += AHEAD * 32) {
        u32 id[AHEAD];
        load_ids(id, topk_ids, at + lane, end);
        UNROLL for (u32 i = 0; i < AHEAD; i++) {
            const bool is_one = id[i] < EXPERTS;
            const u32 alike = lanes_alike(id[i]), place = place_of(warp, is_one ? id[i] : 0);
            const u32 slot = lds<u32>(place) + lanes_before(alike, lane);
            sync_warp();
            if (is_one) {
                stg(rows + slot, at + i * 32 + lane);
                if (slot % BLOCK_ROWS == 0)
                    stg(experts + slot / BLOCK_ROWS, id[i]);
                if (is_last(alike, lane))
                    sts<u32>(place, slot + 1);
            }
            sync_warp();
        }
    }
}

// Writes what is no choice: the ends of experts' last blocks, and everything that is not used.
DEVICE void fill(u32 *rows, u32 *experts, u32 used, u32 choices)
{
    NO_UNROLL for (u32 i = BLOCK_ROWS > 1 ? item() : EXPERTS; i < EXPERTS * BLOCK_ROWS;
                   i += ITEMS) {
        const u32 end = lds<u32>(ENDS + i / BLOCK_ROWS * 4), slot = end + i % BLOCK_ROWS;
        if (slot / BLOCK_ROWS * BLOCK_ROWS < end)
            stg(rows + slot, choices);
    }
    const u32 padded = smaller(choices + EXPERTS * (BLOCK_ROWS - 1), choices * BLOCK_ROWS);
    const u32 all_blocks = blocks_of(padded);
    NO_UNROLL for (u32 slot = used + item(); slot < all_blocks * BLOCK_ROWS; slot += ITEMS)
        stg(rows + slot, choices);
    NO_UNROLL for (u32 block = used / BLOCK_ROWS + item(); block < all_blocks; block += ITEMS)
        stg(experts + block, NOBODY);
}

KERNEL(SYMBOL, WARPS * 32)(const u32 *topk_ids, u32 *rows, u32 *experts, u32 *rows_used,
                           u32 choices)
{
    const u32 lane = item() % 32, warp = item() / 32;
    const u32 of_warp = divide_up(choices, ITEMS) * 32;
    const u32 first = smaller(warp * of_warp, choices), end = smaller(first + of_warp, choices);

    let_next_launch_begin();
    check_shared_start();
    for (u32 expert = lane; expert < EXPERTS; expert += 32)
        sts<u32>(place_of(warp, expert), 0);
    sync_warp();
    await_launch_in_front(topk_ids);
    count(topk_ids, first, end, warp, lane);
    sync_group();

    // Where experts begin, in blocks: a work-item has some experts, and adds up all warps.
    u32 blocks = 0;
    UNROLL for (u32 i = 0; i < ITEM_EXPERTS; i++) {
        const u32 expert = item() * ITEM_EXPERTS + i;
        u32 all = 0;
        for (u32 w = 0; w < WARPS && expert < EXPERTS; w++)
            all += lds<u32>(place_of(w, expert));
        blocks += blocks_of(all);
    }
    const lane_sums sums = sum_lanes(blocks, lane);
    if (lane == 0)
        sts<u32>(SUMS + warp * 4, sums.all);
    sync_group();
    u32 begin = sums.before, used = 0;
    for (u32 w = 0; w < WARPS; w++) {
        const u32 sum = lds<u32>(SUMS + w * 4);
        begin += w < warp ? sum : 0;
        used += sum;
    }
    begin *= BLOCK_ROWS;
    used *= BLOCK_ROWS;

    // Counts become slots, the warps of an expert one behind another.
    UNROLL for (u32 i = 0; i < ITEM_EXPERTS; i++) {
        const u32 expert = item() * ITEM_EXPERTS + i;
        u32 slot = begin;
        for (u32 w = 0; w < WARPS && expert < EXPERTS; w++) {
            const u32 own = lds<u32>(place_of(w, expert));
            sts<u32>(place_of(w, expert), slot);
            slot += own;
        }
        if (expert < EXPERTS)
            sts<u32>(ENDS + expert * 4, slot);
        begin += blocks_of(slot - begin) * BLOCK_ROWS;
    }
    sync_group();

    put(topk_ids, rows, experts, first, end, warp, lane);
    fill(rows, experts, used, choices);
    if (item() == 0)
        stg(rows_used, used);
}
