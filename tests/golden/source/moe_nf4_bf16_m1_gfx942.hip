/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx942, M = 1 to 1
// op=moe wq=nf4 group=64 scale=f32 a=bf16 c=bf16 n=1536 k=2048 bias=0 act=silu_mul glu=halves experts=128 top_k=8 layout=bnb round=rne

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

#define SYMBOL quern_moe_nf4_bf16_n1536_k2048_g64_e128_t8_b1_m1 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 1536;            // rows of W
constexpr unsigned K = 2048;            // columns of W
#define GLU 1                           // whether two rows of W become a column of C
#define ACT SILU_MUL                    // what they become
#define GLU_HALVES 1                    // whether all gates come before all ups
#define MOE 1                           // whether slots name the rows, and blocks the expert
constexpr unsigned EXPERTS = 128;       // matrices W
constexpr unsigned TOP_K = 8;           // rows of C for each row of A
constexpr unsigned SLICES_OF_BLOCK = 1; // slices of one expert's slots
constexpr unsigned BLOCK = 64;          // weights along K that share a scale
#define HIGH_NIBBLE_FIRST true          // which half of a byte is the lower k
#define C_TYPE BF16                     // elements of C and of a bias
#define A_TYPE BF16                     // elements of A
#define PRODUCTS MATRIX                 // how weights are multiplied
#define PAIRED 0                        // whether they are issued in pairs,
constexpr unsigned ENTRY_BYTES = 128;   // of LDS for each pair of codes
#define BIAS 0                          // whether a bias is added
constexpr unsigned M_TILE = 1;          // rows of A computed at once

constexpr unsigned WAVE = 64;           // lanes
constexpr unsigned WAVES = 11;          // in a workgroup
constexpr unsigned ROWS = 4;            // rows of W that a wave works on
constexpr unsigned SPLIT_K = 1;         // waves that share those rows along K
constexpr unsigned CHUNK = 32;          // weights of a row for one lane in one step
constexpr unsigned TAIL = 0;            // weights in a shorter last step; 0: none
constexpr unsigned WAVES_PER_SIMD = 4;  // that registers must leave room for
constexpr unsigned PHASES = 0;          // 1: groups start apart along K, 2: waves do
#define AHEAD false                     // whether all steps are loaded at the start
#define SLICES_FIRST true               // whether slices of A are workgroup id x
#define SKEWED false                    // whether the last group of rows is empty
#define WEIGHTS_ONCE true               // whether they bypass the caches

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

// ---- prelude/layer ----
// The numbers of the layer. They are constants, or in a base kernel (KNOWN is 0) arguments, the
// first of all: N, K, BLOCK and BLOCKS are then macros that read them. So what is computed from
// those and may depend on arguments is a macro in families that have base kernels, and what must be
// a constant asks for KNOWN before it asks for them.

#if KNOWN
#define LAYER_OPERANDS
#define HAS_BIAS       true
#define BLOCKS         (K / BLOCK) // of a row
#else
struct layer_numbers {
    u32 n, k;
    u32 block_shift; // weights that share a scale, as a power of two
    u32 blocks;      // of a row
    u32 has_bias, truncate;
};

// Scalar loads of what no kernel writes: the compiler keeps what it needs in registers.
typedef const __attribute__((address_space(4))) layer_numbers *layer_pointer;
// Constants at the top name it where their value does not depend on it, which the compiler allows
// in functions that are the host's, too.
__attribute__((host)) DEVICE layer_pointer layer()
{
    return (layer_pointer)__builtin_amdgcn_kernarg_segment_ptr();
}
#define LAYER_OPERANDS                                                                             \
    u32 layer_n, u32 layer_k, u32 layer_block_shift, u32 layer_blocks, u32 layer_has_bias,         \
        u32 layer_truncate,
#define HAS_BIAS (layer()->has_bias != 0)
#define BLOCKS   (layer()->blocks)
#endif

// With which of `steps` a reader begins, so that neighbours begin with different ones. A base
// kernel, which would have to divide, leaves out those beyond a power of two.
DEVICE u32 first_step(u32 reader, u32 steps)
{
    return KNOWN ? reader % steps : reader & ((0x80000000 >> __builtin_clz(steps)) - 1);
}

// The bias of row n of W. Without one, a base kernel loads something of `other`, where anything may
// be read, and throws it away: a branch would have to wait for the load. With one for certain this
// is no function, as the compiler schedules some kernels otherwise when a call was inlined.
#if KNOWN
#define BIAS_OF(bias, n, other) ((float)(bias)[n])
#else
template <class T> DEVICE float bias_or_zero(const T *bias, u32 n, const void *other)
{
    const T value = (HAS_BIAS ? bias : (const T *)other)[HAS_BIAS ? n : 0];
    return HAS_BIAS ? (float)value : 0;
}
#define BIAS_OF(bias, n, other) bias_or_zero(bias, n, other)
#endif

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

// ---- prelude/moe ----
// Products of the experts of a layer. `rows` names a choice for each slot, and slots come in
// blocks, each of one expert (quern.h, struct quern_args). A slice of M_TILE slots lies in one
// block.
//
// What follows takes the place of prelude/rows.hip. Nothing that the host put
// into rows, experts and rows_used leads out of A, C or the weights: a slot for no choice reads the
// last row of A, and its results are not stored; a workgroup whose only slot names none leaves.

#define SLOT_OPERANDS                                                                              \
    const u32 *__restrict rows, const u32 *__restrict experts, const u32 *__restrict rows_used,    \
        const float *__restrict routing,
// Of functions that use what follows.
#define SLOT_PARAMETER const u32 *rows, u32 only_choice,
#define SLOT_NAME      rows, only_choice,
// What slot i names. A slice of one slot has loaded it, and knows that it is a choice.
#define CHOICE(i)  (M_TILE == 1 ? only_choice : listed(rows, i))
#define A_ROW(i)   ((M_TILE == 1 ? only_choice : minimum(CHOICE(i), m - 1)) / TOP_K)
#define C_ROW(i)   CHOICE(i)
#define HAS_ROW(i) (M_TILE == 1 || CHOICE(i) < m)
// What the results of a row of C, which is one, are multiplied by.
#define ROUTED(value, row) ((value) * (routing ? routing[row] : 1.0f))

// Element i of `rows` or `experts`. Its place in bytes is a number of 32 bits, which a load takes
// beside the pointer; so a launch has at most 2^30 slots (SLOTS_MAX in src/dispatch/op_launch.c).
DEVICE u32 listed(const u32 *list, u32 i) { return *at_offset(list, i * (u32)sizeof(u32)); }

constexpr u32 ELSEWHERE = ~0u; // an expert that another device has

// Writes zeros to `columns` columns of C, from `column` on, of the rows that a slice's slots name.
template <u32 ITEMS, class ELEMENT>
DEVICE void clear_rows(ELEMENT *c, const u32 *rows, u32 m0, u32 m, u64 ldc, u32 column, u32 columns,
                       u32 item)
{
    for (u32 i = 0; i < M_TILE; i++) {
        const u32 row = listed(rows, m0 + i);
        if (row < m)
            for (u32 at = item; at < columns; at += ITEMS)
                c[row * ldc + column + at] = 0;
    }
}

// For the head of a kernel: its workgroup leaves if its slice is not used, if its only slot names
// no choice, or if its expert is not here; else the pointers to weights are made to point to the
// expert's. WEIGHT_BYTES: of b, of one expert; N0, COUNT: the workgroup's rows of W, of which those
// past the end of W are none.
#define ENTER_EXPERT(WEIGHT_BYTES, N0, COUNT)                                                      \
    const u32 used = *rows_used, expert = listed(experts, slice / SLICES_OF_BLOCK);                \
    const u32 only_choice = M_TILE == 1 ? listed(rows, m0) : 0;                                    \
    asm volatile("" : : "s"(used), "s"(expert), "s"(only_choice)); /* loads that wait together */  \
    if (m0 >= used || (M_TILE == 1 && only_choice >= m))                                           \
        return;                                                                                    \
    if (expert >= EXPERTS) {                                                                       \
        const u32 end = minimum((N0) + (COUNT), N);                                                \
        if (expert == ELSEWHERE)                                                                   \
            clear_rows<WAVES * WAVE>(c, rows, m0, m, ldc, C_COLUMN(N0), C_COLUMN(end - (N0)),      \
                                     item);                                                        \
        return;                                                                                    \
    }                                                                                              \
    b += expert * (u64)(WEIGHT_BYTES);                                                             \
    SCALES_OF_EXPERT(expert);                                                                      \
    BIAS_OF_EXPERT(expert);

#if BIAS
#define BIAS_OF_EXPERT(expert) bias += expert * (u64)N
#else
#define BIAS_OF_EXPERT(expert)
#endif

// ---- prelude/glu ----
// What becomes of gate and up. Infinities and NaN give what PyTorch's operations in f32 give: the
// comparisons of the bounds are false for NaN, which so passes.

enum act { SILU_MUL, SWIGLU_OAI };

DEVICE float logistic(float x)
{
    return __builtin_amdgcn_rcpf(1.0f + __builtin_elementwise_exp(-x));
}

DEVICE float activated(float gate, float up)
{
    if constexpr (ACT == SILU_MUL)
        return gate * logistic(gate) * up;
    const float g = gate > 7.0f ? 7.0f : gate, u = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return g * logistic(1.702f * g) * (u + 1.0f);
}

// The same where the lane whose number differs in bit 0 has the other row of the pair: in even
// lanes, `own` is the gate. Others get what nobody stores.
DEVICE float activated_of_two(float own)
{
    const u32 bits = __builtin_bit_cast(u32, own);
    const u32 other = __builtin_amdgcn_update_dpp(0, bits, 0xb1, 0xf, 0xf, true); // [1,0,3,2]
    return activated(own, __builtin_bit_cast(float, other));
}

// ---- prelude/reduce ----
// Sums over the lanes of a wave. A wave that holds VALUES sums per lane folds them in halves: in
// each step a lane gives half of its values to a partner and takes the partner's other half, until
// it has one. No LDS, and one store at the end for all VALUES.

// The value of the lane whose number differs in bit `BIT`. For bit 2 it is that of the lane
// mirrored within its eight, which will do, because lanes that differ in bits 1 and 0 are summed
// afterwards.
template <u32 BIT> DEVICE float across(float v, u32 lane)
{
    const u32 bits = __builtin_bit_cast(u32, v);
    u32 other;
    if constexpr (BIT == 5) { // through LDS hardware, not its memory
        other = __builtin_amdgcn_ds_bpermute((lane ^ 32) * 4, bits);
    } else if constexpr (BIT == 4 && !HAS_ROW_XMASK) { // the same; swap 16 within each half
        other = __builtin_amdgcn_ds_swizzle(bits, 0x401f);
    } else if constexpr (BIT == 4) { // v_permlanex16: lane i of the other row of 16
        other = __builtin_amdgcn_permlanex16(bits, bits, 0x76543210, 0xfedcba98, false, false);
    } else { // DPP: row_ror:8, row_half_mirror, quad_perm:[2,3,0,1], quad_perm:[1,0,3,2]
        other = __builtin_amdgcn_update_dpp(
            0, bits, BIT == 3 ? 0x128 : BIT == 2 ? 0x141 : BIT == 1 ? 0x4e : 0xb1, 0xf, 0xf, true);
    }
    return __builtin_bit_cast(float, other);
}

// The value of lane `LANE` of this lane's four.
template <u32 LANE> DEVICE float of_lane(float v)
{
    return __builtin_bit_cast(float, // DPP: quad_perm:[LANE, LANE, LANE, LANE]
                              __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(u32, v),
                                                          LANE * 0x55, 0xf, 0xf, true));
}

// Of four neighbouring lanes' four numbers each, the sum of the first lane's first number, the
// second lane's second and so on. All four lanes get it.
DEVICE float sum_of_diagonal(f32x4 v)
{
    return of_lane<0>(v.x) + of_lane<1>(v.y) + of_lane<2>(v.z) + of_lane<3>(v.w);
}

// Of two lanes that differ in bit `BIT`, the one where it is clear gets the sum of both lanes'
// `clear`, the other that of both lanes' `set`. Where DPP needs no wait states behind what made its
// operands, that is two DPP instructions in assembly, each of which writes to half of the lanes.
template <u32 BIT> DEVICE float fold(float clear, float set, u32 lane)
{
    float sum;
    if constexpr (BIT == 3 && HAS_DPP_INTERLOCK) {
        asm("v_add_f32_dpp %0, %1, %1 row_ror:8 row_mask:0xf bank_mask:0x3\n\t"
            "v_add_f32_dpp %0, %2, %2 row_ror:8 row_mask:0xf bank_mask:0xc"
            : "=&v"(sum) : "v"(clear), "v"(set));
    } else if constexpr (BIT == 2 && HAS_DPP_INTERLOCK) {
        asm("v_add_f32_dpp %0, %1, %1 row_half_mirror row_mask:0xf bank_mask:0x5\n\t"
            "v_add_f32_dpp %0, %2, %2 row_half_mirror row_mask:0xf bank_mask:0xa"
            : "=&v"(sum) : "v"(clear), "v"(set));
    } else {
        const bool mine = lane >> BIT & 1;
        sum = (mine ? set : clear) + across<BIT>(mine ? clear : set, lane);
    }
    return sum;
}

template <u32 VALUES, u32 BIT> DEVICE void reduce_step(float *v, u32 lane)
{
    UNROLL for (u32 i = 0; i < (VALUES + 1) / 2; i++)
        v[i] = VALUES > 1 ? fold<BIT>(v[i], v[i + VALUES / 2], lane)
                          : v[i] + across<BIT>(v[i], lane);
}

// The same for a bit that lanes with the same values differ in, bit 1 or 0: there is nothing to
// sum, and a lane only keeps one half of its values.
template <u32 VALUES, u32 BIT> DEVICE void choose_step(float *v, u32 lane)
{
    UNROLL for (u32 i = 0; i < VALUES / 2; i++) {
        const float clear = v[i], set = v[i + VALUES / 2]; // or v is put into memory
        v[i] = lane >> BIT & 1 ? set : clear;
    }
}

// The sum of a value over lane bits 4 and 5. The matrix instruction multiplies ones with a lane's
// value at row lane / 16 and column lane % 16.
DEVICE float sum_of_rows(float v, u32 lane)
{
#if HAS_MFMA
    float sum = __builtin_amdgcn_mfma_f32_16x16x4f32(1.0f, v, f32x4{}, 0, 0, 0)[0];
    // In a mixture's kernel a branch follows, around the load of the row's weight. Between a matrix
    // instruction and what reads or overwrites its result behind such a branch the compiler leaves
    // one or two wait states too few: 8 of 10 on gfx942, 10 of 11 on gfx90a. Here are all eleven.
    if (MOE)
        asm volatile("s_nop 10" : "+v"(sum));
    return sum;
#else
    v += across<4>(v, lane);
    return WAVE == 64 ? v + across<5>(v, lane) : v;
#endif
}

// Sums v[0] to v[VALUES-1] over the lanes, VALUES a power of two up to 32. The sum that a lane gets
// is that of value reduced_index(lane); lanes that hold the same one agree. ALIKE: how many
// neighbouring lanes hold the same v, 1 or 4, which are summed once.
template <u32 VALUES, u32 ALIKE> DEVICE float reduce(float *v, u32 lane)
{
    reduce_step<VALUES, 3>(v, lane);
    reduce_step<(VALUES + 1) / 2, 2>(v, lane);
    if constexpr (ALIKE == 4) {
        choose_step<(VALUES + 3) / 4, 1>(v, lane);
        choose_step<(VALUES + 7) / 8, 0>(v, lane);
    } else {
        reduce_step<(VALUES + 3) / 4, 1>(v, lane);
        reduce_step<(VALUES + 7) / 8, 0>(v, lane);
    }
    if constexpr (VALUES <= 16)
        return sum_of_rows(v[0], lane);
    reduce_step<2, 4>(v, lane);
    return WAVE == 64 ? v[0] + across<5>(v[0], lane) : v[0];
}
template <u32 VALUES> DEVICE u32 reduced_index(u32 lane)
{
    return VALUES == 32 ? (lane & 15) << 1 | (lane >> 4 & 1)
                        : (lane & 15) / (16 / minimum(VALUES, 16));
}
// The lane bit in which lanes with values 2i and 2i + 1 differ.
template <u32 VALUES> constexpr u32 reduced_pair_bit()
{
    return VALUES == 32 ? 4 : VALUES == 16 ? 0 : VALUES == 8 ? 1 : VALUES == 4 ? 2 : 3;
}
// True in exactly one lane for each value.
template <u32 VALUES> DEVICE bool reduced_owner(u32 lane)
{
    if (VALUES == 32)
        return lane < 32;
    const u32 steps = 16 - 16 / minimum(VALUES, 16); // the bits that tell values apart
    return (lane & ~steps) == 0;
}

// ---- decode/nf4 ----
// NF4 (QLoRA, arXiv:2305.14314, appendix E): the quantiles of a normal distribution.

constexpr float CODE[16] = {
    -1.0f,                 -0.6961928009986877f, -0.5250730514526367f,  -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f,  0.16093020141124725f, 0.24611230194568634f,  0.33791524171829224f,
    0.44070982933044434f,  0.5626170039176941f,  0.7229568362236023f,   1.0f,
};
constexpr float CODE_UNIT = 1.0f; // what one unit of CODE is worth

// ---- decode/scale_f32 ----
// Scales are plain absmax: f32 [N, K/BLOCK].

#define SCALE_OPERANDS const float *__restrict scales
#define SCALE_NAMES    scales
// Makes the operands those of one expert, where there are several (prelude/moe.hip).
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)

// What a wave knows of the scales of one row of W, and what a lane has loaded for its next chunk.
struct row_scales {
    const u8 *blocks;
};
struct chunk_scale {
    float value;
};

DEVICE row_scales scales_of_row(u32 n, SCALE_OPERANDS)
{
    return {(const u8 *)(scales + (u64)n * BLOCKS)};
}
// Loads the scale of the block at column k, or of one so many blocks further on.
DEVICE chunk_scale load_scale(const row_scales &row, u32 k, u32 further = 0)
{
    return {*(const float *)(row.blocks + further * 4 + k / BLOCK * 4)};
}
// Called when a chunk's weights have arrived, ahead of the loads of A.
DEVICE void begin_scale(const row_scales &, chunk_scale &, u32) {}
// Makes scale_value of it zero.
DEVICE void make_zero(const row_scales &, chunk_scale &chunk) { chunk.value = 0; }
DEVICE float scale_value(const row_scales &, const chunk_scale &chunk) { return chunk.value; }

// The scale of one block of the flattened [N, K]; all lanes share `first`.
DEVICE float scale_of_block(u64 first, u32 block, SCALE_OPERANDS)
{
    return (scales + first)[block];
}

// ---- decode/pair_table ----
// The decoder: a table in LDS that turns a byte of two 4-bit codes into their two values, in the
// order that a dot product with A wants.
//
// An entry is as wide as the banks and holds one copy of the pair for each lane that the LDS serves
// in one pass, so that no two lanes ever meet in a bank, whatever the weights are.

constexpr bool WIDE = PRODUCTS == PACKED || PRODUCTS == PLAIN; // f32 values

template <bool> struct pair_type; // what one look-up returns
template <> struct pair_type<true> { typedef f32x2 type; };
template <> struct pair_type<false> { typedef u32 type; };
typedef pair_type<WIDE>::type pair;

constexpr u32 TABLE_BYTES = 256 * ENTRY_BYTES;
constexpr u32 COPIES = ENTRY_BYTES / sizeof(pair);

// A centroid as the bits of the type it is multiplied in, rounded to nearest even.
constexpr u32 code_bits(u32 code)
{
    const u32 bits = __builtin_bit_cast(u32, CODE[code]);
    if (WIDE)
        return bits;
    return A_TYPE == F16 ? __builtin_bit_cast(u16, (f16)CODE[code])
                         : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// The pairs of all bytes, those of one upper nibble after those of the one before. Clang interprets
// what it computes of constants, and does so several times over: byte by byte that was 8 % of the
// instructions of a compile. So a row of sixteen bytes is one vector, and a template's function is
// not tried out before it is called.
typedef u32 pair_row __attribute__((ext_vector_type(16), aligned(4)));
struct pair_values {
    pair_row first[16];
    pair_row second[WIDE ? 16 : 1]; // 16-bit types have both values in one dword
};
template <u32 ROWS_OF_PAIRS> constexpr pair_values make_pair_values()
{
    const pair_row low = {code_bits(0),  code_bits(1),  code_bits(2),  code_bits(3),
                          code_bits(4),  code_bits(5),  code_bits(6),  code_bits(7),
                          code_bits(8),  code_bits(9),  code_bits(10), code_bits(11),
                          code_bits(12), code_bits(13), code_bits(14), code_bits(15)};
    pair_values values = {};
    for (u32 i = 0; i < ROWS_OF_PAIRS; i++) {
        const pair_row high = (pair_row)code_bits(i);
        const pair_row first = HIGH_NIBBLE_FIRST ? high : low;
        const pair_row second = HIGH_NIBBLE_FIRST ? low : high;
        values.first[i] = WIDE ? first : first | second << 16;
        if (WIDE)
            values.second[WIDE ? i : 0] = second;
    }
    return values;
}
CONSTANT constexpr pair_values PAIR_VALUES = make_pair_values<16>();

// Entries that a lane builds, and their values. They are loaded before anything else is, since
// loads return in the order of issue.
constexpr u32 ENTRIES_PER_LANE = (255 + WAVES * WAVE) / (WAVES * WAVE);

struct lane_entries {
    u32 first[ENTRIES_PER_LANE], second[ENTRIES_PER_LANE];
};

DEVICE lane_entries load_entries(u32 item)
{
    lane_entries values;
    UNROLL for (u32 e = 0; e < ENTRIES_PER_LANE; e++) {
        const u32 entry = (item + e * WAVES * WAVE) % 256;
        values.first[e] = ((const u32 *)PAIR_VALUES.first)[entry];
        values.second[e] =
            WIDE ? ((const u32 *)PAIR_VALUES.second)[WIDE ? entry : 0] : values.first[e];
    }
    return values;
}

// Fills the table. Each lane writes the 16-byte pieces of an entry, beginning with another piece
// than its neighbours: so at any time, as many lanes as an entry has pieces write to different
// banks.
DEVICE void build_table(LDS u8 *table, const lane_entries &values, u32 item)
{
    UNROLL for (u32 e = 0; e < ENTRIES_PER_LANE; e++) {
        const u32 entry = item + e * WAVES * WAVE;
        const u32 first = values.first[e], second = values.second[e];
        const u32x4 piece = {first, second, first, second};
        const u32 at = entry * ENTRY_BYTES + item % (ENTRY_BYTES / 16) * 16;
        if (entry < 256) {
            UNROLL for (u32 i = 0; i < ENTRY_BYTES; i += 16)
                *(LDS u32x4 *)(table + (at ^ i)) = piece;
        }
    }
    UNROLL for (u32 e = 0; e < ENTRIES_PER_LANE; e++) {
        keep(values.first[e]);
        keep(values.second[e]);
    }
}

// The pair of byte `index` of four packed ones. One instruction makes the LDS address: that byte
// above the lane's copy; or a dot product of the four bytes with ENTRY_BYTES in one place and zeros
// elsewhere, plus the lane's copy.
DEVICE pair look_up(const LDS u8 *table, u32 packed, u32 index, u32 copy)
{
    const u32 address =
        ENTRY_BYTES == 256 ? __builtin_amdgcn_perm(packed, copy, 0x0c0c0000 | (4 + index) << 8)
                           : __builtin_amdgcn_udot4(packed, ENTRY_BYTES << 8 * index, copy, false);
    return *(const LDS pair *)(table + address);
}

DEVICE u32 lane_copy(u32 lane) { return lane % COPIES * sizeof(pair); }

// ---- prelude/products ----
// Products of pairs of weights with pairs of A, for decoders that have weights in registers as a
// `pair`, and their sums.

// A lane's sum of the products of one row of W with one of A: of even and odd k apart when PACKED.
// A MATRIX instruction multiplies the weights of each of four lanes with the A of each of the four:
// a lane's own sum is the one on the diagonal, and the other three mean nothing.
template <products> struct sum_type { typedef float type; };
template <> struct sum_type<PACKED> { typedef f32x2 type; };
template <> struct sum_type<MATRIX> { typedef f32x4 type; };
typedef sum_type<PRODUCTS>::type lane_sum;

constexpr u32 PAIRS_AT_ONCE = PRODUCTS == MATRIX ? 2 : 1; // of one multiplication

// A sum that is `value`; or, of MATRIX, whose diagonal is.
DEVICE void start_at(float &sum, float value) { sum = value; }
DEVICE void start_at(f32x2 &sum, float value) { sum = f32x2{value, 0.0f}; }
DEVICE void start_at(f32x4 &sum, float value) { sum = f32x4{value, value, value, value}; }

// What a lane has of a sum.
DEVICE float own_part(float sum, u32) { return sum; }
DEVICE float own_part(f32x2 sum, u32) { return sum.x + sum.y; }
DEVICE float own_part(f32x4 sum, u32 lane)
{
    const float low = lane & 1 ? sum.y : sum.x, high = lane & 1 ? sum.w : sum.z;
    return lane & 2 ? high : low;
}

// What scaled sums add up to: even and odd k together.
typedef sum_type<PRODUCTS == MATRIX ? MATRIX : DOT2>::type lane_total;

// to + x * by.
DEVICE float add_scaled(float to, float x, float by) { return __builtin_fmaf(x, by, to); }
DEVICE float add_scaled(float to, f32x2 x, float by) { return __builtin_fmaf(x.x + x.y, by, to); }
template <class SUM> DEVICE SUM add_scaled(SUM to, SUM x, float by)
{
    return __builtin_elementwise_fma(x, (SUM)by, to);
}

// The totals of a wave over its lanes: see `reduce`.
template <u32 VALUES> DEVICE float reduce(float (&total)[VALUES], u32 lane)
{
    return reduce<VALUES, 1>(total, lane);
}
template <u32 VALUES> DEVICE float reduce(f32x4 (&total)[VALUES], u32 lane)
{
    float v[VALUES];
    UNROLL for (u32 i = 0; i < VALUES; i++)
        v[i] = sum_of_diagonal(total[i]);
    return reduce<VALUES, 4>(v, lane);
}

// Pair `index` of some dwords of A, in f32.
template <class A> DEVICE f32x2 widen(const A &a, u32 index)
{
    u32 a0, a1;
    if constexpr (A_TYPE == F32) {
        a0 = a[index * 2], a1 = a[index * 2 + 1];
    } else { // bf16 is the upper half of an f32
        a0 = a[index] << 16, a1 = a[index] & 0xffff0000;
    }
    return {__builtin_bit_cast(float, a0), __builtin_bit_cast(float, a1)};
}

// Sixteen matrix products of 4 by 4. In each, four lanes give the rows and the columns, two pairs
// of 16-bit values each, and every lane gets the column that is its own.
template <class PAIRS> DEVICE f32x4 multiply_blocks(PAIRS row, PAIRS column, f32x4 sum)
{
    if constexpr (A_TYPE == F16)
        return __builtin_amdgcn_mfma_f32_4x4x4f16(__builtin_bit_cast(f16x4, row),
                                                  __builtin_bit_cast(f16x4, column), sum, 0, 0, 0);
    else
        return __builtin_amdgcn_mfma_f32_4x4x4bf16_1k(
            __builtin_bit_cast(i16x4, row), __builtin_bit_cast(i16x4, column), sum, 0, 0, 0);
}

// sum + the products of pair `index` of A with `w`; of that pair and the next when MATRIX.
template <class A, class PAIR, class SUM>
DEVICE SUM multiply_add(const A &a, u32 index, PAIR w, PAIR w_next, SUM sum)
{
    if constexpr (PRODUCTS == MATRIX) {
        return multiply_blocks(u32x2{w, w_next}, u32x2{a[index], a[index + 1]}, sum);
    } else if constexpr (PRODUCTS == PACKED) {
        return __builtin_elementwise_fma(widen(a, index), w, sum);
    } else if constexpr (PRODUCTS == PLAIN) {
        const f32x2 x = widen(a, index);
        sum = __builtin_fmaf(x.x, w.x, sum);
        return __builtin_fmaf(x.y, w.y, sum);
    } else {
        const u32 x = a[index];
        if constexpr (A_TYPE == F16)
            return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, x),
                                          __builtin_bit_cast(f16x2, w), sum, false);
        else
            return __builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(bf16x2, x),
                                                   __builtin_bit_cast(bf16x2, w), sum, false);
    }
}

// The pair of A and of row `r` of W that is multiplied at `q`: neighbours share no operand,
// so that they can be issued together.
template <u32 PAIRS> DEVICE constexpr u32 turn(u32 q, u32 r)
{
    return (q + r * PAIRS_AT_ONCE) % PAIRS;
}

// Puts weights whose products are issued as a pair into neighbouring registers, which are of
// different banks. `pair_of(r, p)` is pair p of the weights of row r of W.
template <u32 PAIRS, class W> DEVICE void pair_weights(W pair_of)
{
#if PAIRED
    UNROLL for (u32 q = 0; q < PAIRS; q++) UNROLL for (u32 r = 0; r < ROWS; r += 2) {
        u32 &one = pair_of(r, turn<PAIRS>(q, r)), &next = pair_of(r + 1, turn<PAIRS>(q, r + 1));
        u32 both[2] = {one, next};
        computed_all<true>(both);
        one = both[0], next = both[1];
    }
#endif
}

// Adds the products of a row of A with ROWS rows of W to that row's sums.
template <u32 PAIRS, class A, class W>
DEVICE void add_products(const A &a, W pair_of, lane_sum *sum)
{
    UNROLL for (u32 q = 0; q < PAIRS; q += PAIRS_AT_ONCE) {
#if PAIRED
        UNROLL for (u32 r = 0; r < ROWS; r += 2) {
            const u32 p = turn<PAIRS>(q, r), next = turn<PAIRS>(q, r + 1);
            dual_dot2(sum[r], pair_of(r, p), a[p], sum[r + 1], pair_of(r + 1, next), a[next]);
        }
#else
        UNROLL for (u32 r = 0; r < ROWS; r++) {
            const u32 p = turn<PAIRS>(q, r);
            sum[r] = multiply_add(a, p, pair_of(r, p), pair_of(r, p + PAIRS_AT_ONCE - 1), sum[r]);
        }
#endif
    }
}

// ---- family/simt_w4 ----
// C[m,n] = sum over k of A[m,k] * W[n,k] (+ bias[n]) for a few rows of A and 4-bit W.
//
// A wave works on ROWS rows of W and all M_TILE rows of A at once. In a step each lane takes CHUNK
// consecutive weights of every row, which share one scale: the products of a chunk are summed
// unscaled, in f32, and the scale is applied to that sum. The steps of a row are dealt out in turn
// to SPLIT_K waves, whose sums meet in LDS in a fixed order. What whole steps leave of K may be one
// more, with chunks of TAIL weights.

typedef element_type<A_TYPE>::type a_element;
typedef element_type<C_TYPE>::type c_element;

constexpr u32 STEP = WAVE * CHUNK;            // weights of a row that a step covers
#define STEPS (TAIL ? K / STEP : (K + STEP - 1) / STEP) // without that of the tail
#define TRIPS ((STEPS + SPLIT_K - 1) / SPLIT_K)         // steps of one wave
constexpr bool WHOLE_STEPS = KNOWN && (TAIL || K % STEP == 0);
constexpr bool WHOLE_TAIL = KNOWN && TAIL != 0 && K % STEP == WAVE * TAIL;
constexpr bool EVEN_TRIPS = KNOWN && STEPS % SPLIT_K == 0;
constexpr u32 SETS = AHEAD ? TRIPS + (TAIL > 0) : 1;   // steps whose weights are held at once
// Only short loops are unrolled: longer code takes registers, and time to compile.
constexpr bool SHORT = KNOWN && PRODUCTS == MATRIX && TRIPS == 2 && M_TILE == 4;
constexpr u32 UNROLLED = AHEAD || SHORT ? TRIPS : 1;
constexpr u32 VALUES = ROWS * M_TILE;         // sums that a wave holds
// FIXED: steps that are held at once lie at constant distances from the first, which load
// instructions have room for, so that all take one address.
constexpr u32 FURTHER = STEP * SPLIT_K;
constexpr bool FIXED = AHEAD && !PHASES && WHOLE_STEPS && (BLOCK == K || FURTHER % BLOCK == 0);
constexpr u32 ROWS_PER_GROUP = WAVES / SPLIT_K * ROWS;
#define GROUPS ((N + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP)
constexpr bool WHOLE_GROUPS = KNOWN && N % ROWS_PER_GROUP == 0;
constexpr u32 PAIRS = A_TYPE == F32 ? 2 : 4;  // pairs of weights in a batch

// The values of a row of A for one batch: 16 bytes. Rows of A start at multiples of 4 bytes.
typedef u32 a_batch __attribute__((ext_vector_type(4), aligned(4)));

// The length of a chunk, as an argument that the compiler knows.
template <u32 WEIGHTS> struct length {
    static constexpr u32 weights = WEIGHTS;
};

KERNEL WORKGROUP(WAVES * WAVE, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const a_element *__restrict a, const u8 *__restrict b, SCALE_OPERANDS,
#if BIAS
            const c_element *__restrict bias,
#endif
            SLOT_OPERANDS c_element *__restrict c, u32 m, u32 first, u64 lda, u64 ldc)
{
#if PAIRED
    define_dual_dot2();
#endif
    __attribute__((shared)) static u32x4 shared_memory[TABLE_BYTES / sizeof(u32x4)];
    LDS u8 *const table = (LDS u8 *)shared_memory;

    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u32 lane = item % WAVE;
    const u32 wave = __builtin_amdgcn_readfirstlane(item / WAVE);
    const u32 x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y();
    const u32 group = SLICES_FIRST ? y : x, slice = SLICES_FIRST ? x : y;
    if (SKEWED && group == GROUPS)
        return;
    const u32 n0 = group * ROWS_PER_GROUP + wave / SPLIT_K * ROWS, m0 = slice * M_TILE;
#if MOE
    ENTER_EXPERT((u64)N * (K / 2), group * ROWS_PER_GROUP, ROWS_PER_GROUP)
#endif

    // A wave at the end of W takes rows of the wave before it rather than rows past the end: their
    // results are not stored. Rows of a wave are always neighbours. Rows of A past the end are the
    // last one again.
    const u32 n_base = WHOLE_GROUPS ? n0 : minimum(n0, N - ROWS);
    const u8 *b_row[ROWS], *a_row[M_TILE];
    row_scales scale_row[ROWS];
    UNROLL for (u32 r = 0; r < ROWS; r++) {
        b_row[r] = b + (u64)W_ROW(n_base) * (K / 2) + W_ROW(r) * (K / 2);
        scale_row[r] = scales_of_row(W_ROW(n_base + r), SCALE_NAMES);
    }
    UNROLL for (u32 i = 0; i < M_TILE; i++)
        a_row[i] = (const u8 *)(a + (u64)A_ROW(m0 + i) * lda);

    // Steps begin at the phase, and go on at the row's beginning when they reach its end. start_of
    // is where this lane's chunk of a step begins; past the end of K it is the last chunk again.
    const u32 reader = PHASES == 1 ? group : n0 / ROWS;
    const u32 phase = PHASES == 0 ? 0 : first_step(reader, STEPS);
    u32 step = wave % SPLIT_K;
    auto start_of = [&](u32 s) INLINE {
        const u32 place = s + phase;
        return (PHASES && place >= STEPS ? place - STEPS : place) * STEP + lane * CHUNK;
    };
    auto chunk_of = [&](u32 s) INLINE {
        return opaque(WHOLE_STEPS ? start_of(s) : minimum(start_of(s), K - CHUNK));
    };
    auto load_weights = [&](auto chunk, u32 k, u32 further, u32 (&packed)[ROWS][CHUNK / 8],
                            chunk_scale (&scale)[ROWS]) INLINE {
        UNROLL for (u32 r = 0; r < ROWS; r++)
            load_dwords<chunk.weights / 8, WEIGHTS_ONCE>(packed[r],
                                                         b_row[r] + k / 2 + further / 2);
        UNROLL for (u32 r = 0; r < ROWS; r++)
            scale[r] = load_scale(scale_row[r], k, further / BLOCK);
    };
    // What whole steps leave of K, in smaller chunks: one more step of the wave whose turn it is.
    const u32 tail_start = K / STEP * STEP + lane * TAIL;
    const u32 tail_k = opaque(WHOLE_TAIL ? tail_start : minimum(tail_start, K - TAIL));
    const bool has_tail = TAIL && wave % SPLIT_K == STEPS % SPLIT_K;

    // The first weights are on their way while the table is built.
    const lane_entries entries = load_entries(item);
    schedule_boundary();
    u32 packed[SETS][ROWS][CHUNK / 8], k[SETS];
    chunk_scale scale[SETS][ROWS];
    UNROLL for (u32 s = 0; s < (AHEAD ? TRIPS : 1); s++) {
        const u32 further = FIXED ? s * FURTHER : 0;
        k[s] = FIXED && s ? k[0] + further : chunk_of(step + s * SPLIT_K);
        load_weights(length<CHUNK>(), k[FIXED ? 0 : s], further, packed[s], scale[s]);
    }
    if (AHEAD && has_tail)
        load_weights(length<TAIL>(), tail_k, 0, packed[SETS - 1], scale[SETS - 1]);
    schedule_boundary();
    build_table(table, entries, item);

    // After the reduction this lane will hold the sum of one row of W with one row of A.
    const u32 value = reduced_index<VALUES>(lane);
    const u32 n = n_base + value % ROWS, i = m0 + value / ROWS;
    const bool stores =
        reduced_owner<VALUES>(lane) && (WHOLE_GROUPS || (n >= n0 && n0 < N)) && HAS_ROW(i);
    const u32 row_of_c = MOE ? C_ROW(i) : 0;
#if BIAS
    const float bias_value = BIAS_OF(bias, W_ROW(n), b);
#endif
    barrier();

    const u32 copy = lane_copy(lane);
    lane_total total[VALUES] = {};

    // One step: the weights and scales that were loaded for chunks from k on, times A. After the
    // last use of the packed weights `next` may request others in their place.
    auto do_step = [&](auto chunk, u32 k, u32 (&packed)[ROWS][CHUNK / 8],
                       chunk_scale (&scale)[ROWS], bool inside, auto next) INLINE {
        constexpr u32 BATCHES = chunk.weights / (2 * PAIRS);
        constexpr u32 A_RING = minimum(BATCHES, M_TILE > 2 ? 2 : 4); // batches of A held at once
        lane_sum sum[VALUES] = {};

        UNROLL for (u32 r = 0; r < ROWS; r++)
            begin_scale(scale_row[r], scale[r], k);

        pair w[2][PAIRS][ROWS]; // weights of this batch and of the next
        auto look_up_batch = [&](u32 batch) INLINE {
            UNROLL for (u32 j = 0; j < PAIRS; j++) UNROLL for (u32 r = 0; r < ROWS; r++) {
                const u32 byte = batch * PAIRS + j;
                w[batch % 2][j][r] = look_up(table, packed[r][byte / 4], byte % 4, copy);
            }
        };
        a_batch ring[A_RING][M_TILE];
        const u32 a_offset = k * (u32)sizeof(a_element);
        auto load_a = [&](u32 batch) INLINE {
            UNROLL for (u32 i = 0; i < M_TILE; i++)
                ring[batch % A_RING][i] =
                    *(const a_batch *)(a_row[i] + a_offset + batch * sizeof(a_batch));
            schedule_boundary();
        };

        UNROLL for (u32 batch = 0; batch < A_RING - 1; batch++)
            load_a(batch);
        if (A_RING == 1)
            load_a(0);
        look_up_batch(0);

        UNROLL for (u32 batch = 0; batch < BATCHES; batch++) {
            if (A_RING > 1 && batch + A_RING - 1 < BATCHES)
                load_a(batch + A_RING - 1);
            if (batch + 1 < BATCHES)
                look_up_batch(batch + 1);
            if (batch + 2 == BATCHES || BATCHES == 1) {
                computed_all<PAIRED>(sum);
                next();
            }
            schedule_boundary();
            await(w[batch % 2][PAIRS - 1][ROWS - 1]);
            schedule_boundary();
            auto pair_of = [&](u32 r, u32 p) INLINE -> pair & { return w[batch % 2][p][r]; };
            pair_weights<PAIRS>(pair_of);
            UNROLL for (u32 i = 0; i < M_TILE; i++)
                add_products<PAIRS>(ring[batch % A_RING][i], pair_of, sum + i * ROWS);
            schedule_boundary();
        }
        if (inside) {
            float value[ROWS];
            UNROLL for (u32 r = 0; r < ROWS; r++)
                value[r] = scale_value(scale_row[r], scale[r]);
            UNROLL for (u32 v = 0; v < VALUES; v++)
                total[v] = add_scaled(total[v], sum[v], value[v % ROWS]);
        }
    };

#pragma unroll UNROLLED
    for (u32 trip = 0; trip < TRIPS && (EVEN_TRIPS || step < STEPS); trip++, step += SPLIT_K) {
        const u32 set = trip % SETS;
        chunk_scale next_scale[ROWS];
        const bool inside = WHOLE_STEPS || start_of(step) < K;
        do_step(length<CHUNK>(), k[set], packed[set], scale[set], inside, [&]() INLINE {
            if (AHEAD)
                return;
            if (EVEN_TRIPS ? trip + 1 < TRIPS : step + SPLIT_K < STEPS) {
                k[0] = chunk_of(step + SPLIT_K);
                load_weights(length<CHUNK>(), k[0], 0, packed[0], next_scale);
            } else if (has_tail) {
                load_weights(length<TAIL>(), tail_k, 0, packed[0], next_scale);
            }
        });
        UNROLL for (u32 r = 0; r < ROWS && !AHEAD; r++)
            scale[0][r] = next_scale[r];
    }
    auto do_tail = [&](auto chunk) INLINE {
        if constexpr (chunk.weights > 0)
            if (has_tail)
                do_step(chunk, tail_k, packed[SETS - 1], scale[SETS - 1],
                        WHOLE_TAIL || tail_start < K, [] {});
    };
    do_tail(length<TAIL>());

    float result = reduce(total, lane);
    if (SPLIT_K > 1) {
        LDS float *const partial = (LDS float *)shared_memory; // in place of the table
        barrier();
        partial[wave * WAVE + lane] = result;
        barrier();
        if (wave % SPLIT_K)
            return;
        UNROLL for (u32 q = 1; q < SPLIT_K; q++)
            result += partial[(wave + q) * WAVE + lane];
    }
    result *= CODE_UNIT;
#if BIAS
    result += bias_value;
#endif
#if GLU
    result = activated(result, across<reduced_pair_bit<VALUES>()>(result, lane));
#endif
    c_element *const c_row = c + (u64)(MOE ? row_of_c : C_ROW(i)) * ldc;
    if (stores && HAS_COLUMN(n))
        *at_offset(c_row, C_COLUMN(n) * (u32)sizeof(c_element)) =
            (c_element)ROUTED(result, row_of_c);
}
