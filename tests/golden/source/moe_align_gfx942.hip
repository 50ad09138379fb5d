/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx942
// op=moe_align experts=128 top_k=8 block_rows=16

#define HAS_MFMA true                   // matrix instructions with a pipe of their own
#define HAS_MFMA_WIDE_K false           // those of twice as many k
#define HAS_FP8_CVT true                // v_cvt_pk_f32_fp8 and its like
#define HAS_FP8_FNUZ true               // 8-bit floats are FNUZ, not OCP
#define HAS_CVT_SCALEF32 false          // conversions of small floats with a scale
#define HAS_CVT_PK_BF16 false           // v_cvt_pk_bf16_f32
#define HAS_SDWA true                   // operands that are a byte or a half of a register
#define HAS_VOP3_LITERAL false          // vector instructions take literals, two scalar registers
#define HAS_ROW_XMASK false             // DPP row_xmask, and v_permlanex16
#define HAS_DPP_INTERLOCK false         // DPP reads what the instruction before it wrote
#define HAS_SPLIT_BARRIER false         // barriers of a signal and a wait, a counter for LDS alone

#define SYMBOL quern_moe_align_e128_t8_b16 // name of the kernel
constexpr unsigned EXPERTS = 128;       // that choices may name
constexpr unsigned EXPERT_BITS = 7;     // of an expert's number
constexpr unsigned BLOCK_ROWS = 16;     // slots of a block

constexpr unsigned WAVE = 64;           // lanes
constexpr unsigned WAVES = 16;          // in a workgroup
constexpr unsigned WORKGROUPS = 8;      // that share the choices
constexpr unsigned WAVES_PER_SIMD = 4;  // that registers must leave room for

// ---- prelude/prelude ----
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

// ---- family/moe_align ----
// Puts the choices of a router into blocks of one expert each: which choice a slot of `rows` is
// for, whose block it is, and how many slots are used. A choice is token * top_k + which; an
// expert's choices follow each other in ascending order, its last block is filled up with
// `choices`, which is no choice, and so is everything beyond the used slots.
//
// Every workgroup counts all choices, so that none waits for another. It then places a stretch of
// its own, whose choices it counted apart, wave by wave: an expert's slots begin where those of the
// experts below it end, and a wave's part of them where those of the waves before it end. Within a
// wave the ballots of the bits of an expert's number say which lanes have the same expert.

template <u32 LANES> struct lane_mask;
template <> struct lane_mask<32> { typedef u32 type; };
template <> struct lane_mask<64> { typedef u64 type; };
typedef lane_mask<WAVE>::type lanes; // a bit for each lane of a wave

template <u32 LANES> DEVICE lanes ballot_of(bool set)
{
    if constexpr (LANES == 64)
        return __builtin_amdgcn_ballot_w64(set);
    else
        return __builtin_amdgcn_ballot_w32(set);
}
DEVICE lanes ballot(bool set) { return ballot_of<WAVE>(set); }

// How many of the lanes below this one are in a set.
DEVICE u32 lanes_below(lanes set)
{
    const u32 low = __builtin_amdgcn_mbcnt_lo((u32)set, 0);
    return WAVE == 64 ? __builtin_amdgcn_mbcnt_hi((u64)set >> 32, low) : low;
}

// The lanes, of those in `valid`, that have the same id of EXPERT_BITS bits as this lane.
DEVICE lanes lanes_alike(u32 id, lanes valid)
{
    lanes alike = valid;
    UNROLL for (u32 bit = 0; bit < EXPERT_BITS; bit++) {
        const bool set = id >> bit & 1;
        const lanes having = ballot(set);
        alike &= set ? having : ~having;
    }
    return alike;
}

// The sum of a value over this lane and those below it.
DEVICE u32 sum_up_to(u32 value, u32 lane)
{
    UNROLL for (u32 step = 1; step < WAVE; step *= 2) {
        const u32 below = __builtin_amdgcn_ds_bpermute((lane - step) * 4, value);
        value += lane >= step ? below : 0;
    }
    return value;
}

// LDS accesses of a wave are made in their order. The compiler must keep that order, too, where one
// lane reads what another has written.
DEVICE void wave_order() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); }

constexpr u32 ITEMS = WAVES * WAVE;
constexpr u32 ALL_ITEMS = WORKGROUPS * ITEMS;
constexpr u32 NOBODY = ~0u; // no expert: of blocks without choices
constexpr u32 ITEM_EXPERTS = (EXPERTS + ITEMS - 1) / ITEMS; // consecutive ones of a work-item
constexpr u32 EXPERT_WAVES = (EXPERTS + ITEM_EXPERTS * WAVE - 1) / (ITEM_EXPERTS * WAVE);
constexpr u32 AHEAD = 4; // loads that a lane has asked for before it uses the first
// A set of counts has one for each expert, and behind them some for ids that are no expert's, in
// different banks, as lanes that add to the same count wait for one another.
constexpr u32 SPARE = 32, COUNTS = EXPERTS + SPARE;

// Ids of choices `at`, `at` + STRIDE and so on; from `end` on there are none.
template <u32 STRIDE> DEVICE void load_ids(u32 *id, const u32 *topk_ids, u32 at, u32 end)
{
    UNROLL for (u32 i = 0; i < AHEAD; i++)
        id[i] = topk_ids[minimum(at + i * STRIDE, end - 1)];
    UNROLL for (u32 i = 0; i < AHEAD; i++)
        id[i] = at + i * STRIDE < end ? id[i] : NOBODY;
}

// Counts the choices from `first` on, of which this is lane or work-item `own` of STRIDE.
template <u32 STRIDE>
DEVICE void count(LDS u32 *counts, const u32 *topk_ids, u32 first, u32 end, u32 own)
{
    const u32 spare = EXPERTS + own % SPARE;

    for (u32 at = first; at < end; at += AHEAD * STRIDE) {
        u32 id[AHEAD];
        load_ids<STRIDE>(id, topk_ids, at + own, end);
        UNROLL for (u32 i = 0; i < AHEAD; i++)
            __hip_atomic_fetch_add(counts + (id[i] < EXPERTS ? id[i] : spare), 1, __ATOMIC_RELAXED,
                                   __HIP_MEMORY_SCOPE_WORKGROUP);
    }
}

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(const u32 *__restrict topk_ids, u32 *__restrict rows, u32 *__restrict experts,
            u32 *__restrict rows_used, u32 choices)
{
    // For each wave and expert: how many choices of its own the wave has, then where its next goes.
    __attribute__((shared)) static u32 shared_places[WAVES * COUNTS];
    // For each expert: its choices before the workgroup's, later the slot behind its last choice;
    // and its choices behind the workgroup's.
    __attribute__((shared)) static u32 shared_others[2 * COUNTS];
    __attribute__((shared)) static u32 shared_sums[EXPERT_WAVES]; // blocks, by waves
    LDS u32 *const places = (LDS u32 *)shared_places;
    LDS u32 *const before = (LDS u32 *)shared_others, *const ends = before;
    LDS u32 *const behind = before + COUNTS;
    LDS u32 *const sums = (LDS u32 *)shared_sums;

    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u32 workgroup = __builtin_amdgcn_workgroup_id_x();
    const u32 lane = item % WAVE, wave = __builtin_amdgcn_readfirstlane(item / WAVE);
    LDS u32 *const own = places + wave * COUNTS;

    const u32 of_wave = (choices + ALL_ITEMS - 1) / ALL_ITEMS * WAVE; // consecutive choices
    const u32 group_first = minimum(workgroup * WAVES * of_wave, choices);
    const u32 first = minimum(group_first + wave * of_wave, choices);
    const u32 end = minimum(first + of_wave, choices);

    for (u32 i = item; i < WAVES * COUNTS; i += ITEMS)
        places[i] = 0;
    for (u32 i = item; i < 2 * COUNTS; i += ITEMS)
        before[i] = 0;
    barrier();
    count<WAVE>(own, topk_ids, first, end, lane);
    count<ITEMS>(before, topk_ids, 0, group_first, item);
    count<ITEMS>(behind, topk_ids, group_first + WAVES * of_wave, choices, item);
    barrier();

    // Where experts begin, in slots: a work-item has some experts, for which it adds up all waves.
    u32 counts[ITEM_EXPERTS][WAVES], earlier[ITEM_EXPERTS], all[ITEM_EXPERTS];
    u32 begin = 0, used = 0;
    if (wave < EXPERT_WAVES) {
        u32 blocks = 0;
        UNROLL for (u32 i = 0; i < ITEM_EXPERTS; i++) {
            const u32 expert = item * ITEM_EXPERTS + i;
            const bool is_one = expert < EXPERTS;
            const u32 there = is_one ? expert : 0;
            earlier[i] = before[there];
            all[i] = earlier[i] + behind[there];
            UNROLL for (u32 w = 0; w < WAVES; w++)
                all[i] += counts[i][w] = places[w * COUNTS + there];
            all[i] = is_one ? all[i] : 0;
            blocks += (all[i] + BLOCK_ROWS - 1) / BLOCK_ROWS;
        }
        const u32 up_to = sum_up_to(blocks, lane);
        if (lane == WAVE - 1)
            sums[wave] = up_to;
        begin = up_to - blocks;
    }
    barrier();
    UNROLL for (u32 w = 0; w < EXPERT_WAVES; w++) {
        const u32 sum = sums[w];
        begin += w < wave ? sum : 0;
        used += sum;
    }
    begin *= BLOCK_ROWS;
    used *= BLOCK_ROWS;
    UNROLL for (u32 i = 0; i < ITEM_EXPERTS; i++) {
        const u32 expert = item * ITEM_EXPERTS + i;
        if (wave >= EXPERT_WAVES || expert >= EXPERTS)
            break;
        u32 place = begin + earlier[i];
        UNROLL for (u32 w = 0; w < WAVES; w++) {
            places[w * COUNTS + expert] = place;
            place += counts[i][w];
        }
        ends[expert] = begin + all[i];
        begin += (all[i] + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS;
    }
    barrier();

    // The choice that comes first in a block names the block's expert.
    for (u32 at = first; at < end; at += AHEAD * WAVE) {
        u32 id[AHEAD];
        load_ids<WAVE>(id, topk_ids, at + lane, end);
        UNROLL for (u32 i = 0; i < AHEAD && at + i * WAVE < end; i++) {
            const bool is_one = id[i] < EXPERTS;
            const lanes alike = lanes_alike(id[i], ballot(is_one));
            const u32 rank = lanes_below(alike);
            if (is_one) {
                const u32 slot = own[id[i]] + rank;
                rows[slot] = at + i * WAVE + lane;
                if (slot % BLOCK_ROWS == 0)
                    experts[slot / BLOCK_ROWS] = id[i];
                if (rank + 1 == (u32)__builtin_popcountll(alike))
                    own[id[i]] = slot + 1;
            }
            wave_order();
        }
    }

    // What is no choice: the ends of experts' last blocks, and everything that is not used.
    const u32 some = workgroup * ITEMS + item;
    for (u32 i = BLOCK_ROWS > 1 ? some : EXPERTS; i < EXPERTS * BLOCK_ROWS; i += ALL_ITEMS) {
        const u32 slot = ends[i / BLOCK_ROWS] + i % BLOCK_ROWS;
        if (slot / BLOCK_ROWS * BLOCK_ROWS < ends[i / BLOCK_ROWS])
            rows[slot] = choices;
    }
    const u32 padded = minimum(choices + EXPERTS * (BLOCK_ROWS - 1), choices * BLOCK_ROWS);
    const u32 all_blocks = (padded + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (u32 slot = used + some; slot < all_blocks * BLOCK_ROWS; slot += ALL_ITEMS)
        rows[slot] = choices;
    for (u32 block = used / BLOCK_ROWS + some; block < all_blocks; block += ALL_ITEMS)
        experts[block] = NOBODY;
    if (some == 0)
        *rows_used = used;
}
