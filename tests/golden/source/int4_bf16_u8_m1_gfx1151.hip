/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx1151, M = 1 to 1
// op=gemm wq=int4 group=128 scale=bf16 zero=u8 a=bf16 c=bf16 n=4096 k=4096 bias=0 layout=k8 round=rne

#define HAS_MFMA false                  // matrix instructions with a pipe of their own
#define HAS_MFMA_WIDE_K false           // those of twice as many k
#define HAS_FP8_CVT false               // v_cvt_pk_f32_fp8 and its like
#define HAS_FP8_FNUZ false              // 8-bit floats are FNUZ, not OCP
#define HAS_CVT_SCALEF32 false          // conversions of small floats with a scale
#define HAS_CVT_PK_BF16 false           // v_cvt_pk_bf16_f32
#define HAS_SDWA false                  // operands that are a byte or a half of a register
#define HAS_VOP3_LITERAL true           // vector instructions take literals, two scalar registers
#define HAS_ROW_XMASK true              // DPP row_xmask, and v_permlanex16
#define HAS_DPP_INTERLOCK true          // DPP reads what the instruction before it wrote
#define HAS_SPLIT_BARRIER false         // barriers of a signal and a wait, a counter for LDS alone

#define SYMBOL quern_int4_bf16_n4096_k4096_g128_m1 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 4096;            // rows of W
constexpr unsigned K = 4096;            // columns of W
#define GLU 0                           // whether two rows of W become a column of C
#define MOE 0                           // whether slots name the rows, and blocks the expert
constexpr unsigned BLOCK = 128;         // weights along K that share a scale
#define WORD_ORDER K8                   // of the weights in a word
#define WORD_BLOCKS false               // whether b is [K/32,N] blocks of 4
#define SCALE_TYPE BF16                 // elements of scales
#define ZERO ZERO_U8                    // what zero points are
#define HAS_ZEROS 1                     // whether there are any
#define A_TYPE BF16                     // elements of A
#define C_TYPE BF16                     // elements of C and of a bias
#define TRUNCATE false                  // whether f32 becomes bf16 by cutting
#define PRODUCTS DOT2                   // how weights are multiplied
#define PAIRED 1                        // whether they are issued in pairs,
#define PAIR_TYPE bf16                  // of what
#define PAIRING OF_A                    // what is reordered where pairs differ
#define SUMS SHARED                     // who makes sums of A
#define A_STAGED false                  // whether A is in LDS
#define BIAS 0                          // whether a bias is added
constexpr unsigned M_TILE = 1;          // rows of A computed at once

constexpr unsigned WAVE = 32;           // lanes
constexpr unsigned WAVES = 14;          // in a workgroup
constexpr unsigned ROWS = 8;            // rows of W that a lane works on
constexpr unsigned ROW_LANES = 1;       // lanes side by side with rows of their own
#define SQUARE 0                        // whether products are 4 by 4 rows
constexpr unsigned SPLIT_K = 1;         // waves that share those rows along K
constexpr unsigned CHUNK = 32;          // weights of a row for one lane in one step
constexpr unsigned SHARED_BYTES = 512;  // of LDS
constexpr unsigned WAVES_PER_SIMD = 9;  // that registers must leave room for
constexpr unsigned PHASES = 2;          // 1: groups start apart along K, 2: waves do
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

// ---- prelude/rows ----
// The rows of a slice, one after another from `first` on: of A, where past the end of m the last
// one stands in for those that are missing, and of C, which has no such rows. A slice of one row
// never reaches past the end. Where slots name the rows, prelude/moe.hip is in this file's place.

DEVICE bool is_row_of_a(u32 i, u32 m) { return M_TILE == 1 || i < m; }

#define SLOT_OPERANDS
#define SLOT_PARAMETER
#define SLOT_NAME
#define A_ROW(i)           (first + (M_TILE == 1 ? i : minimum(i, m - 1)))
#define C_ROW(i)           (first + i)
#define HAS_ROW(i)         is_row_of_a(i, m)
#define ROUTED(value, row) (value)

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

// ---- prelude/spread ----
// For waves in which eight neighbouring lanes have eight rows of W: sums over the other lane bits,
// 3 and up. As in `reduce`, a lane gives half of its values to a partner and takes the partner's
// other half, until all bits are summed over or it has one value left.

constexpr u32 LANES_N = ROW_LANES;                  // lanes with rows of their own: 1 or 8
constexpr u32 SPREAD_BITS = WAVE == 64 ? 3 : 2;     // lane bits that are summed over
// Results that a lane is left with.
constexpr u32 RESULTS = LANES_N == 1 || ROWS * M_TILE <= 1 << SPREAD_BITS
                            ? 1 : (ROWS * M_TILE) >> SPREAD_BITS;

template <u32 VALUES> DEVICE void spread_reduce(float *v, float (&result)[RESULTS], u32 lane)
{
    reduce_step<VALUES, 3>(v, lane);
    reduce_step<(VALUES + 1) / 2, 4>(v, lane);
    if constexpr (WAVE == 64)
        reduce_step<(VALUES + 3) / 4, 5>(v, lane);
    UNROLL for (u32 j = 0; j < RESULTS; j++)
        result[j] = v[j];
}

// Which of the VALUES sums a lane's result `j` is: the highest bits of that number are the lane's
// bits 3, 4 and 5, in this order.
template <u32 VALUES> DEVICE u32 spread_index(u32 lane, u32 j)
{
    u32 index = j;
    u32 rest = VALUES;
    UNROLL for (u32 bit = 3; bit < 3 + SPREAD_BITS && rest > 1; bit++) {
        rest /= 2;
        index += (lane >> bit & 1) * rest;
    }
    return index;
}
// True in exactly one lane for each value and row.
template <u32 VALUES> DEVICE bool spread_owner(u32 lane)
{
    u32 rest = VALUES, spare = 0;
    UNROLL for (u32 bit = 3; bit < 3 + SPREAD_BITS; bit++) {
        if (rest <= 1)
            spare |= 1 << bit;
        rest /= 2;
    }
    return (lane & spare) == 0;
}

// ---- prelude/int4 ----
// Words of the constants block of int4 kernels.

enum word_order { K8, EXL };
enum pairing { OF_A, OF_W };
enum sums_of_a { SHARED, OWN };
enum zero_points { ZERO_NONE, ZERO_U8, ZERO_SCALED };

// ---- prelude/round ----
// f32 in the type of C: to nearest, ties to even; or bf16 by leaving the lower bits away.
template <class T> DEVICE T rounded(float value, bool truncated)
{
    if constexpr (__is_same(T, bf16))
        if (truncated)
            return __builtin_bit_cast(bf16, (u16)(__builtin_bit_cast(u32, value) >> 16));
    return (T)value;
}

// ---- decode/int4 ----
// The decoder of int4, in registers: the codes of a word become values of the type that they are
// multiplied in, by exact integer operations alone. A code q stands for CODE_BIAS + q, because its
// bits are put into the mantissa of a number whose last place is worth one; no subtraction, no
// conversion and no rounding per weight. What CODE_BIAS adds to a chunk's sum is taken off again:
// it is the sum that the same A gives with codes of 0 (see the sums of A in the family).
//
// f16: 1024 + q from bits 0-3 of a half, 64 + q from bits 4-7. bf16: 128 + q from bits 0-3.
// f32: q itself, by the conversion of a byte.

constexpr bool WIDE = PRODUCTS == PACKED || PRODUCTS == PLAIN; // f32 values

// Which two of a word's eight weights become pair p. A pair of nibbles p and p + 4 takes fewest
// instructions, because they lie in the two halves of the word already.
//   layouts exl, ck: nibbles p and p + 4 are k = 2p and 2p + 1.
//   layout k8: nibbles p and p + 4 are k = p and p + 4. Either A's values are brought into the same
//   pairs (A_PAIRED); or pair p is the two nibbles of byte p, k = 2p and 2p + 1 (BYTE_PAIRS).
constexpr bool A_PAIRED = WORD_ORDER == K8 && PAIRING == OF_A && !WIDE;
constexpr bool BYTE_PAIRS = WORD_ORDER == K8 && !A_PAIRED;

// What the decoder adds to a code, where it is the same for all.
constexpr bool ONE_BIAS = WIDE || A_TYPE == BF16;
constexpr float CODE_BIAS = WIDE ? 0 : 128;

template <bool> struct pair_type; // two decoded weights
template <> struct pair_type<true> { typedef f32x2 type; };
template <> struct pair_type<false> { typedef u32 type; };
typedef pair_type<WIDE>::type pair;

// Brings the eight values of A that a word meets into the decoder's pairs. `bytes` says for v_perm
// which bytes of two dwords make a pair of their lower, and of their upper halves; ZERO_BYTES gives
// zeros instead.
struct pair_bytes {
    u32 low, high;
};
constexpr pair_bytes PAIR_BYTES = {0x05040100, 0x07060302}, ZERO_BYTES = {0x0c0c0c0c, 0x0c0c0c0c};
template <class PAIRS> DEVICE void pair_up(PAIRS &a, const pair_bytes &bytes = PAIR_BYTES)
{
    if constexpr (A_PAIRED) {
        const u32 d0 = a[0], d1 = a[1], d2 = a[2], d3 = a[3];
        a[0] = __builtin_amdgcn_perm(d2, d0, bytes.low);
        a[1] = __builtin_amdgcn_perm(d2, d0, bytes.high);
        a[2] = __builtin_amdgcn_perm(d3, d1, bytes.low);
        a[3] = __builtin_amdgcn_perm(d3, d1, bytes.high);
    }
}

// Constants that the compiler keeps in a register of each lane: without VOP3_LITERAL an instruction
// reads only one scalar register, and no literal.
struct decoder {
    u32 low_magic, high_magic;
};
constexpr decoder DECODER = {A_TYPE == BF16 ? 0x43004300 : 0x64006400, 0x54005400};
DEVICE decoder make_decoder()
{
    return {opaque(DECODER.low_magic), A_TYPE == BF16 ? 0 : opaque(DECODER.high_magic)};
}

// Nibbles i and i + 4 of a word as pair i of f16: 1024 + q of even i, 64 + q of odd.
DEVICE void decode_halves(const decoder &d, u32 word, u32 (&w)[4])
{
    const u32 upper = word >> 8;

    w[0] = (word & 0x000f000f) | d.low_magic;
    w[1] = (word & 0x00f000f0) | d.high_magic;
    w[2] = (upper & 0x000f000f) | d.low_magic;
    w[3] = (upper & 0x00f000f0) | d.high_magic;
}

// The four pairs of a word.
DEVICE void decode_word(const decoder &d, u32 word, u32 (&w)[4])
{
    if constexpr (BYTE_PAIRS && A_TYPE == F16) { // both nibbles of a byte in both halves
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = __builtin_amdgcn_perm(0x54006400, word, 0x07000500 | p << 16 | p) & 0xfff0ff0f;
    } else if constexpr (BYTE_PAIRS) {
        const u32 odd = word >> 4;
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = (__builtin_amdgcn_perm(odd, word, 0x0c040c00 | p << 16 | p) & 0x000f000f) |
                   d.low_magic;
    } else if constexpr (A_TYPE == F16) {
        decode_halves(d, word, w);
    } else {
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = (word >> 4 * p & 0x000f000f) | d.low_magic;
    }
}

// Shifts two words right by one 64-bit instruction. The bits of the second word that enter the
// first are masked out by the decoder. The compiler would see that and shift each word by itself,
// so the distance is hidden from it. The instruction itself must not be hidden, in assembly: the
// compiler counts no wait states before assembly, and an MFMA that is still writing the registers
// that the result gets would overwrite it.
template <u32 BITS> DEVICE void shift_words(const u32 (&words)[2], u32 (&to)[2])
{
    const u64 shifted = ((u64)words[1] << 32 | words[0]) >> opaque_scalar(BITS);
    to[0] = (u32)shifted, to[1] = (u32)(shifted >> 32);
}

// Decodes two words at once, by 9 (f16) or 11 instructions where 64 bits are shifted as fast as 32.
DEVICE void decode_two_words(const decoder &d, const u32 (&words)[2], u32 (&first)[4],
                             u32 (&second)[4])
{
    u32 by[4][2] = {{words[0], words[1]}};
    if constexpr (BYTE_PAIRS) {
        decode_word(d, words[0], first);
        decode_word(d, words[1], second);
    } else if constexpr (A_TYPE == F16) {
        shift_words<8>(words, by[1]);
        UNROLL for (u32 p = 0; p < 4; p++) {
            const u32 mask = p % 2 ? 0x00f000f0 : 0x000f000f;
            const u32 magic = p % 2 ? d.high_magic : d.low_magic;
            first[p] = (by[p / 2][0] & mask) | magic;
            second[p] = (by[p / 2][1] & mask) | magic;
        }
    } else {
        shift_words<4>(words, by[1]);
        shift_words<8>(words, by[2]);
        shift_words<12>(words, by[3]);
        UNROLL for (u32 p = 0; p < 4; p++) {
            first[p] = (by[p][0] & 0x000f000f) | d.low_magic;
            second[p] = (by[p][1] & 0x000f000f) | d.low_magic;
        }
    }
}

// The same in f32: v_cvt_f32_ubyte0 to 3 of the even and of the odd nibbles.
DEVICE void decode_word(const decoder &, u32 word, f32x2 (&w)[4])
{
    const u32 even = word & 0x0f0f0f0f, odd = word >> 4 & 0x0f0f0f0f;
    UNROLL for (u32 p = 0; p < 4; p++) {
        if constexpr (WORD_ORDER == K8) { // k = 2p, 2p + 1
            w[p] = f32x2{(float)(even >> 8 * p & 0xff), (float)(odd >> 8 * p & 0xff)};
        } else { // nibbles p and p + 4
            const u32 from = p % 2 ? odd : even;
            w[p] = f32x2{(float)(from >> 8 * (p / 2) & 0xff),
                         (float)(from >> 8 * (p / 2 + 2) & 0xff)};
        }
    }
}
DEVICE void decode_two_words(const decoder &d, const u32 (&words)[2], f32x2 (&first)[4],
                             f32x2 (&second)[4])
{
    decode_word(d, words[0], first);
    decode_word(d, words[1], second);
}

// ---- decode/scale_group ----
// Scales of int4: [N, K/BLOCK] in SCALE_TYPE; zero points beside them, as bytes, or scaled in the
// type of the scales. They are loaded as bits and converted when their chunk's turn comes.

template <bool> struct scale_bits_type { typedef u16 type; };
template <> struct scale_bits_type<true> { typedef u32 type; };
typedef scale_bits_type<SCALE_TYPE == F32>::type scale_bits;

template <bool> struct zero_bits_type { typedef u8 type; };
template <> struct zero_bits_type<true> { typedef scale_bits type; };
typedef zero_bits_type<ZERO == ZERO_SCALED>::type zero_bits;

#if HAS_ZEROS
#define SCALE_OPERANDS const scale_bits *__restrict scales, const zero_bits *__restrict zeros
#define SCALE_NAMES    scales, zeros
#define SCALES_OF_EXPERT(expert)                                                                   \
    scales += (expert) * ((u64)N * BLOCKS);                                                        \
    zeros += (expert) * ((u64)N * BLOCKS)
#else
#define SCALE_OPERANDS const scale_bits *__restrict scales
#define SCALE_NAMES    scales
// Makes the operands those of one expert, where there are several (prelude/moe.hip).
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)
#endif

// What a wave knows of the groups of its rows of W.
struct row_scales {
    const u8 *scales, *zeros; // of the first row
    u32 offset;               // in elements, of this lane's first row from there
};

// `first` is the same in all lanes; `own` is what the lane's row lies beyond it.
DEVICE row_scales scales_of_rows(u32 first, u32 own, SCALE_OPERANDS)
{
    row_scales rows = {(const u8 *)(scales + (u64)first * BLOCKS), 0, own * BLOCKS};
#if HAS_ZEROS
    rows.zeros = (const u8 *)(zeros + (u64)first * BLOCKS);
#endif
    return rows;
}

// Where block `same` + `own` lies. In a base kernel a 64-bit address of each row would take three
// instructions; an offset of 32 bits takes one.
template <u32 SIZE> DEVICE const u8 *block_at(const u8 *first, u32 same, u32 own)
{
    return KNOWN ? first + same * SIZE + own * SIZE : first + (same * SIZE + own * SIZE);
}

// Loads the scale, or zero point, of the block that lies `same` + `own` blocks behind the first of
// the lane's first row; `same` is equal in all lanes. Those of COUNT neighbouring blocks, as many
// as a word holds, come in one load, and are taken apart only when they are needed.
template <u32 COUNT = 1> DEVICE u32 scale_of_block(const row_scales &from, u32 same, u32 own)
{
    const u8 *const at = block_at<sizeof(scale_bits)>(from.scales, same, from.offset + own);
    return COUNT == 1 ? *(const scale_bits *)at : *(const u32 *)at;
}
template <u32 COUNT = 1> DEVICE u32 zero_of_block(const row_scales &from, u32 same, u32 own)
{
    const u8 *const at = block_at<sizeof(zero_bits)>(from.zeros, same, from.offset + own);
    return COUNT == 1                       ? *(const zero_bits *)at
           : COUNT * sizeof(zero_bits) == 2 ? *(const u16 *)at
                                            : *(const u32 *)at;
}

// Load the scale, or zero point, of the lane's row `row` at column k.
DEVICE u32 load_scale(const row_scales &from, u32 row, u32 k)
{
    return scale_of_block(from, row * BLOCKS, k / BLOCK);
}
DEVICE u32 load_zero(const row_scales &from, u32 row, u32 k)
{
    return zero_of_block(from, row * BLOCKS, k / BLOCK);
}

template <u32 COUNT> DEVICE u32 load_scales(const row_scales &from, u32 k)
{
    return scale_of_block<COUNT>(from, 0, k / BLOCK);
}
template <u32 COUNT> DEVICE u32 load_zeros(const row_scales &from, u32 k)
{
    return ZERO == ZERO_NONE ? 0 : zero_of_block<COUNT>(from, 0, k / BLOCK);
}
// Takes the bits of block `index`, of type BITS_OF, out of a word with those of COUNT blocks.
template <u32 COUNT, class BITS_OF> DEVICE u32 bits_of_block(u32 word, u32 index)
{
    constexpr u32 BITS = sizeof(BITS_OF) * 8;
    return COUNT == 1 ? word : word >> index % COUNT * BITS & ((1u << BITS % 32) - 1);
}
// How many blocks' scales or zero points, of `bytes` each, one load brings: as many as fill a word
// or half of one, where rows have `blocks` blocks, and a step needs `spans` of them.
constexpr u32 blocks_in_word(u32 bytes, u32 blocks, u32 spans)
{
    for (u32 some = 4 / bytes; some > 1; some /= 2)
        if (blocks % some == 0 && spans % some == 0)
            return some;
    return 1;
}

DEVICE float scale_value(u32 bits)
{
    if constexpr (SCALE_TYPE == F32)
        return __builtin_bit_cast(float, bits);
    else if constexpr (SCALE_TYPE == BF16) // the upper half of an f32
        return __builtin_bit_cast(float, bits << 16);
    else
        return (float)__builtin_bit_cast(f16, (u16)bits);
}
DEVICE float zero_value(u32 bits)
{
    if constexpr (ZERO == ZERO_U8)
        return (float)(bits & 0xff);
    else
        return scale_value(bits);
}

// ---- prelude/dual_dot2 ----
// Dot products issued in pairs. The compiler makes such pairs of f16 on RDNA 3 only: it makes them
// of an instruction's single form, which RDNA 4 has no more, and bf16 never had. Two products can
// be paired if one sum is in an even and the other in an odd register, their first operands are in
// different ones of the four register banks, and their second operands, too. That is known only
// when registers are allocated: so a macro of the assembler looks, and writes the pair or two
// single ones.

#define TYPE_TEXT_(type) #type
#define TYPE_TEXT(type)  TYPE_TEXT_(type)

// Defines the macro, once in a kernel, and for every register a symbol with its number: the macro
// gets operands as names, and cannot compute with those otherwise.
DEVICE void define_dual_dot2()
{
    asm volatile(
        ".irpc ones, 0123456789\n"
        "  .set .Lv\\ones, \\ones\n"
        ".endr\n"
        ".irp tens, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n"
        "  .irpc ones, 0123456789\n"
        "    .set .Lv\\tens\\ones, \\tens\\ones\n"
        "  .endr\n"
        ".endr\n"
        ".macro dot2_pair d, a, b, e, f, g\n"
        "  .set .Lodd, (.L\\d ^ .L\\e) & 1\n"
        "  .if .Lodd & (((.L\\a ^ .L\\f) & 3) != 0) & (((.L\\b ^ .L\\g) & 3) != 0)\n"
        "    v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\d, \\a, \\b :: "
        "v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\e, \\f, \\g\n"
        "  .elseif .Lodd & (((.L\\a ^ .L\\g) & 3) != 0) & (((.L\\b ^ .L\\f) & 3) != 0)\n"
        "    v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\d, \\a, \\b :: "
        "v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\e, \\g, \\f\n"
        "  .else\n"
        "    v_dot2_f32_" TYPE_TEXT(PAIR_TYPE) " \\d, \\a, \\b, \\d\n"
        "    v_dot2_f32_" TYPE_TEXT(PAIR_TYPE) " \\e, \\f, \\g, \\e\n"
        "  .endif\n"
        ".endm\n");
}

// sum += a * b and other += f * g, pairs of 16-bit values each.
DEVICE void dual_dot2(float &sum, u32 a, u32 b, float &other, u32 f, u32 g)
{
    asm("dot2_pair %0, %2, %3, %1, %4, %5"
        : "+v"(sum), "+v"(other)
        : "v"(a), "v"(b), "v"(f), "v"(g));
}

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

// ---- family/simt_int4 ----
// C[m,n] = sum over k of A[m,k] * W[n,k] (+ bias[n]) for a few rows of A and int4 W.
//
// A wave works on ROWS rows of W (times LANES_N, when neighbouring lanes have rows of their own)
// and all M_TILE rows of A at once. In a step each lane takes CHUNK consecutive weights of every
// row, of which SPAN share one scale: their products are summed unscaled, in f32, and the scale is
// applied to that sum. What the decoder adds to every code is taken off, with the zero point:
//
//     sum of a * (q - z) = sum of a * decoded(q) - sum of a * decoded(0) - z * sum of a
//
// The last two sums depend on A alone. The workgroup makes them once for each span of A, and keeps
// them in LDS for all its rows of W; or, SUMS == OWN, where LDS has no room for them or it is
// faster, each wave makes its own. Unless each group has a zero point of codes, z is 8 everywhere,
// and decoded(8) in place of decoded(0) takes off both.
//
// SQUARE: a matrix instruction makes sixteen products of 4 by 4, each of four lanes, which have
// four rows of W and four rows of A at the same k. A lane then has four sums, of its row of W with
// each of the four rows of A, and all of them count.

typedef element_type<A_TYPE>::type a_element;
typedef element_type<C_TYPE>::type c_element;

constexpr u32 WORDS = CHUNK / 8;              // packed words in a chunk
constexpr u32 SPAN = KNOWN ? minimum(CHUNK, BLOCK) : CHUNK; // weights of one scale in it
constexpr u32 SPANS = CHUNK / SPAN;
constexpr u32 SPAN_WORDS = SPAN / 8;
constexpr u32 LANES_K = WAVE / LANES_N;       // lanes side by side along K
constexpr u32 STEP = LANES_K * CHUNK;         // weights of a row that a step covers
#define STEPS ((K + STEP - 1) / STEP)
#define TRIPS ((STEPS + SPLIT_K - 1) / SPLIT_K) // steps of one wave
constexpr bool WHOLE_STEPS = KNOWN && K % STEP == 0;
constexpr bool EVEN_TRIPS = KNOWN && STEPS % SPLIT_K == 0;
constexpr u32 SETS = AHEAD ? TRIPS : 1;                // steps whose weights are held at once
// FIXED: steps that are held at once lie at constant distances from the first, which load
// instructions have room for, so that all take one address.
constexpr u32 FURTHER = STEP * SPLIT_K;
constexpr bool FIXED = AHEAD && !PHASES && WHOLE_STEPS && (BLOCK == K || FURTHER % BLOCK == 0);
constexpr u32 UNROLLED = KNOWN && TRIPS <= 2 ? TRIPS : 1; // longer loops would cost compile time
constexpr u32 A_ROWS = SQUARE ? 4 : 1;        // rows of A in one sum; neighbouring lanes have them
constexpr u32 A_TILES = M_TILE / A_ROWS;
constexpr u32 TOTALS = ROWS * A_TILES;        // sums that a lane holds
constexpr u32 VALUES = ROWS * M_TILE;         // and rows of W times rows of A in them
constexpr u32 WAVE_ROWS = ROWS * LANES_N;
constexpr u32 ROWS_PER_GROUP = WAVES / SPLIT_K * WAVE_ROWS;
#define GROUPS ((N + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP)
constexpr bool WHOLE_GROUPS = KNOWN && N % ROWS_PER_GROUP == 0;
// A wave that makes its own sums of A, of four rows at once, or in a base kernel of one, makes them
// before a step's products, which start from them.
constexpr bool SUMS_AHEAD =
    SUMS == OWN && (SQUARE || (!KNOWN && PRODUCTS == MATRIX && M_TILE == 1));
constexpr bool STARTS_AT_SUMS = SUMS == SHARED || SUMS_AHEAD;
constexpr u32 A_RING = SUMS_AHEAD ? WORDS : minimum(WORDS, M_TILE > 2 ? 2 : 4); // words held
constexpr u32 A_AHEAD = SUMS_AHEAD || A_RING == 1 ? A_RING : A_RING - 1; // asked for at first
constexpr u32 ITEMS = WAVES * WAVE;
#define CHUNKS   (K / CHUNK)                 // of a row
#define ALL_SUMS (A_TILES * SPANS * CHUNKS) // that a workgroup makes
constexpr u32 TOGETHER = PRODUCTS == MATRIX ? minimum(WORDS, 2) : 1; // words decoded at once
constexpr u32 EARLY = TOGETHER == 1 && WORDS > 1 && ROWS * M_TILE <= 4; // words decoded ahead
constexpr u32 DECODED = TOGETHER + EARLY;                // words whose weights are held at once

// The eight values of a row of A that a word meets. Rows of A start at multiples of 4 bytes.
typedef u32 a_vector __attribute__((ext_vector_type(4), aligned(4)));
constexpr u32 A_VECTORS = A_TYPE == F32 ? 2 : 1;
struct a_word {
    u32 dword[A_VECTORS * 4];
};

DEVICE a_word load_a_word(const u8 *from)
{
    a_word a;
    UNROLL for (u32 v = 0; v < A_VECTORS; v++) {
        const a_vector four = ((const a_vector *)from)[v];
        a.dword[v * 4] = four.x, a.dword[v * 4 + 1] = four.y;
        a.dword[v * 4 + 2] = four.z, a.dword[v * 4 + 3] = four.w;
    }
    return a;
}
DEVICE a_word get_a_word(const LDS u32x4 *from) { // of 16-bit types
    const u32x4 four = *from;
    return {four.x, four.y, four.z, four.w};
}
DEVICE void put_a_word(LDS u32x4 *to, const a_word &a)
{
    *to = u32x4{a.dword[0], a.dword[1], a.dword[2], a.dword[3]};
}

// ---- sums of A ----

// The sums of one chunk of A. `start`: its sum with decoded codes of 0 (of 8, where every zero
// point is 8), negated; sums of products start from it. `plain`: the plain sum, which zero points
// are multiplied with. With ONE_BIAS `start` is a multiple of `plain`.
struct a_sums {
    lane_sum start, plain;
};
constexpr u32 EVERY_ZERO = ZERO == ZERO_U8 ? 0 : 0x88888888;
constexpr float EVERY_BIAS = CODE_BIAS + (ZERO == ZERO_U8 ? 0 : 8); // with ONE_BIAS
constexpr bool KEEP_START =
    !ONE_BIAS || ZERO == ZERO_NONE || (PRODUCTS == MATRIX && !SUMS_AHEAD);
constexpr bool KEEP_PLAIN = ZERO != ZERO_NONE;
constexpr bool MAKE_PLAIN = KEEP_PLAIN || !KEEP_START;
constexpr u32 SUM_KINDS = KEEP_START + KEEP_PLAIN;

// With MATRIX products one instruction makes both sums: a lane's A is multiplied with four rows of
// weights, of which the first are decoded zeros and the second ones (with ONE_BIAS all are ones),
// all negated. Matrix products of single f32 values then give all four lanes each other's sums, and
// multiply zero points with them: one instruction for four values.
constexpr bool BOTH_AT_ONCE = PRODUCTS == MATRIX && ZERO != ZERO_NONE;

// sum + the 4 by 4 products of four lanes' `row` with the same lanes' `column`.
template <class SUM> DEVICE SUM multiply_rows(float row, float column, SUM sum)
{
    return __builtin_amdgcn_mfma_f32_4x4x1f32(row, column, sum, 0, 0, 0);
}

DEVICE void finish_sums(a_sums &sums)
{
    if constexpr (BOTH_AT_ONCE) {
        const float zeros = own_part(sums.start, 0);
        start_at(sums.plain, ONE_BIAS ? zeros : own_part(sums.start, 1));
        const float by = ONE_BIAS ? EVERY_BIAS : 1.0f;
        sums.start = SQUARE ? multiply_rows(zeros, by, lane_sum{})
                            : multiply_rows(by, zeros, lane_sum{});
    } else if (!KEEP_START) {
        sums.start = -EVERY_BIAS * sums.plain;
    }
}

// to - the plain sum times a zero point.
template <class SUM> DEVICE SUM take_off(SUM to, const a_sums &sums, float zero)
{
    if constexpr (BOTH_AT_ONCE)
        return multiply_rows(own_part(sums.plain, 0), zero, to);
    else
        return add_scaled(to, sums.plain, -zero);
}

// Stores a chunk's sums to LDS. Both stand together and are read by one load: lanes that each
// loaded every other float would meet in banks two by two. Matrix products start from the same sum
// four times, or (SQUARE) from those of four rows of A.
DEVICE void put_sums(LDS u8 *to, u32 chunk, u32 a_lane, const a_sums &sums)
{
    if constexpr (PRODUCTS == MATRIX) {
        ((LDS lane_sum *)to)[chunk] = sums.start;
        if (BOTH_AT_ONCE)
            ((LDS float *)((LDS lane_sum *)to + ALL_SUMS))[chunk * A_ROWS + a_lane] =
                own_part(sums.plain, 0);
    } else {
        LDS float *const own = (LDS float *)to + chunk * SUM_KINDS;
        if (KEEP_START)
            own[0] = own_part(sums.start, 0);
        if (KEEP_PLAIN)
            own[KEEP_START] = own_part(sums.plain, 0);
    }
}
// The number of the chunk whose weights lie `at` bytes into a row.
DEVICE u32 chunk_at(u32 at)
{
    __builtin_assume(at % (CHUNK / 2) == 0);
    return at / (CHUNK / 2);
}
// Reads the sums of the chunk whose weights lie `at` bytes into a row; `span` counts the spans of a
// chunk, of all rows of A (SQUARE: of all fours of rows) one after another.
DEVICE a_sums get_sums(const LDS u8 *from, u32 span, u32 at, u32 a_lane)
{
    a_sums sums = {};
    if constexpr (PRODUCTS == MATRIX) {
        const LDS lane_sum *const all = (const LDS lane_sum *)from;
        const u32 chunk = span * CHUNKS + chunk_at(at);
        sums.start = all[chunk];
        if (BOTH_AT_ONCE)
            start_at(sums.plain,
                     ((const LDS float *)(all + ALL_SUMS))[chunk * A_ROWS + a_lane]);
    } else {
        const u32 chunk = span * CHUNKS + at / (CHUNK / 2);
        f32x2 both;
        if (SUM_KINDS == 2)
            both = ((const LDS f32x2 *)from)[chunk];
        else
            both.x = both.y = ((const LDS float *)from)[chunk];
        start_at(sums.start, KEEP_START ? both.x : -EVERY_BIAS * both.y);
        start_at(sums.plain, KEEP_PLAIN ? both.y : 0.0f);
    }
    return sums;
}

DEVICE void get_ones(u32 &ones) { ones = A_TYPE == F16 ? 0x3c003c00 : 0x3f803f80; }
DEVICE void get_ones(f32x2 &ones) { ones = f32x2{1.0f, 1.0f}; }

DEVICE void negate(u32 &w) { w ^= 0x80008000; }
DEVICE void negate(f32x2 &w) { w = -w; }

// What a word of codes EVERY_ZERO decodes to, negated; `paired`: for words of A that are in the
// decoder's pairs already, else as they lie in memory. With BOTH_AT_ONCE, the lane's row of the
// four described there.
DEVICE void decode_zeros(bool paired, u32 lane, pair (&zero)[4])
{
    decode_word(DECODER, EVERY_ZERO, zero);
    if constexpr (A_PAIRED && A_TYPE == F16) { // low and high halves of a word's bytes take turns
        UNROLL for (u32 p = 0; p < 4 && !paired; p++)
            zero[p] = EVERY_ZERO ? 0x54806408 : 0x54006400;
    }
    UNROLL for (u32 p = 0; p < 4; p++) {
        if (BOTH_AT_ONCE && (ONE_BIAS || lane % 4 == 1))
            get_ones(zero[p]);
        negate(zero[p]);
    }
}

// sum + the products of pair p of a word of A with `w`, and of the next with `w_next` where two are
// multiplied at once.
DEVICE lane_sum add_product(const a_word &a, u32 p, pair w, pair w_next, lane_sum sum)
{
#if SQUARE
    return multiply_blocks(u32x2{a.dword[p], a.dword[p + 1]}, u32x2{w, w_next}, sum);
#else
    return multiply_add(a.dword, p, w, w_next, sum);
#endif
}

// Adds what a word of A contributes to the chunk's sums. All lanes have the same weights, so that a
// matrix product gives the sum of a lane's own A four times; or (SQUARE) those of the four lanes'
// A.
DEVICE void add_to_sums(const a_word &a, const pair (&zero)[4], a_sums &sums)
{
    pair ones;
    get_ones(ones);
    UNROLL for (u32 p = 0; p < 4; p += PAIRS_AT_ONCE) {
        if (BOTH_AT_ONCE)
            sums.start = multiply_add(a.dword, p, zero[p], zero[p + PAIRS_AT_ONCE - 1], sums.start);
        else if (KEEP_START)
            sums.start = add_product(a, p, zero[p], zero[p + PAIRS_AT_ONCE - 1], sums.start);
        if (MAKE_PLAIN && !BOTH_AT_ONCE)
            sums.plain = add_product(a, p, ones, ones, sums.plain);
    }
}

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const a_element *__restrict a, const u8 *__restrict b, SCALE_OPERANDS,
#if BIAS
            const c_element *__restrict bias,
#endif
            SLOT_OPERANDS c_element *__restrict c, u32 m, u32 first, u64 lda, u64 ldc)
{
#if PAIRED
    define_dual_dot2();
#endif
    if (BOTH_AT_ONCE)
        asm volatile("" : : "s"(c)); // so that the addresses of four operands come in one load
    __attribute__((shared)) static u32x4 shared_memory[SHARED_BYTES / sizeof(u32x4)];
    LDS u8 *const shared = (LDS u8 *)shared_memory;
    // A in LDS, in the decoder's pairs: [row][word of a chunk][chunk]; rows of one sum innermost.
    LDS u8 *const staged = shared + ALL_SUMS * SUM_KINDS * sizeof(lane_sum);

    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u32 lane = item % WAVE;
    const u32 wave = __builtin_amdgcn_readfirstlane(item / WAVE);
    const u32 x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y();
    const u32 group = SLICES_FIRST ? y : x, slice = SLICES_FIRST ? x : y;
    if (SKEWED && group == GROUPS)
        return;
    const u32 n0 = group * ROWS_PER_GROUP + wave / SPLIT_K * WAVE_ROWS, m0 = slice * M_TILE;
#if MOE
    ENTER_EXPERT((u64)N * (K / 2), group * ROWS_PER_GROUP, ROWS_PER_GROUP)
#endif
    const u32 lane_n = lane % LANES_N, lane_k = lane / LANES_N;
    const decoder decoding = make_decoder();

    // A wave at the end of W takes rows of the wave before it, and a lane the last row, rather than
    // rows past the end: their results are not stored. Rows of a wave are always neighbours.
    const u32 n_base = WHOLE_GROUPS     ? n0
                       : N >= WAVE_ROWS ? minimum(n0, N >= WAVE_ROWS ? N - WAVE_ROWS : 0)
                                        : 0;
    const u32 n_own = N >= WAVE_ROWS ? lane_n : minimum(lane_n, N - 1); // with LANES_N > 1
    const u8 *b_row[ROWS], *a_row[A_TILES];
    UNROLL for (u32 r = 0; r < ROWS; r++)
        b_row[r] = b + (WORD_BLOCKS ? (u64)W_ROW(n_base) * 16 : (u64)W_ROW(n_base) * (K / 2)) +
                   W_ROW(r * LANES_N) * (WORD_BLOCKS ? 16 : K / 2);
    const u32 b_own = LANES_N == 1 ? 0 : W_ROW(n_own) * (WORD_BLOCKS ? 16 : K / 2);
    const row_scales groups = scales_of_rows(W_ROW(n_base), W_ROW(n_own), SCALE_NAMES);
    const u64 a_stride = lda * sizeof(a_element);
    const u32 a_lane = lane % A_ROWS;
    a_row[0] = (const u8 *)a + (MOE ? A_ROW(m0) : first + m0) * a_stride;
    UNROLL for (u32 i = 0; i < A_TILES && SQUARE; i++)
        a_row[i] = (const u8 *)a + A_ROW(m0 + i * A_ROWS + a_lane) * a_stride;
    UNROLL for (u32 i = 1; i < A_TILES && !SQUARE && MOE; i++)
        a_row[i] = (const u8 *)a + A_ROW(m0 + i) * a_stride;
    UNROLL for (u32 i = 1; i < A_TILES && !SQUARE && !MOE; i++)
        a_row[i] = a_row[i - 1] + (m0 + i < m ? a_stride : 0);

    // Steps begin at the phase, and go on at the row's beginning when they reach its end. start_of
    // is where this lane's chunk of a step is, in bytes of a row of W; past the end of K the last
    // again.
    const u32 reader = PHASES == 1 ? group : n0 / WAVE_ROWS;
    const u32 phase = PHASES == 0 ? 0 : first_step(reader, STEPS);
    u32 step = wave % SPLIT_K;
    auto start_of = [&](u32 s) INLINE {
        const u32 place = s + phase;
        return (PHASES && place >= STEPS ? place - STEPS : place) * (STEP / 2) +
               lane_k * (CHUNK / 2);
    };
    auto chunk_of = [&](u32 s) INLINE {
        return opaque(WHOLE_STEPS ? start_of(s) : minimum(start_of(s), (K - CHUNK) / 2));
    };
    // The block of a row that a chunk lies in; kept in a register, for scales and zero points.
    auto block_of = [&](u32 at) INLINE {
        return KNOWN && BLOCK == K ? 0 : opaque(at / (BLOCK / 2));
    };
    auto load_weights = [&](u32 at, u32 further, u32 (&packed)[ROWS][WORDS], u32 (&scale)[ROWS],
                            u32 (&zero)[ROWS]) INLINE {
        const u32 blocks = further / BLOCK, block = block_of(at);
        UNROLL for (u32 r = 0; r < ROWS; r++) {
            // where a row lies further off than load instructions of gfx9 have room for, the offset
            // is added in 32 bits, by one instruction; in 64 bits it would take three
            const u32 off = r * LANES_N * (K / 2);
            const bool far = PRODUCTS == MATRIX && !GLU && (!KNOWN || off > 4000);
            const u8 *const from =
                WORD_BLOCKS ? b_row[r] + (at * N + b_own) + (u64)further / 2 * N
                            : b_row[far ? 0 : r] + (at + b_own + (far ? off : 0)) + further / 2;
            UNROLL for (u32 w = 0; w < WORDS; w += 4)
                load_dwords<minimum(WORDS, 4), WEIGHTS_ONCE>(packed[r] + w, from + w * 4);
        }
        UNROLL for (u32 r = 0; r < ROWS; r++)
            scale[r] = scale_of_block<SPANS>(groups, W_ROW(r * LANES_N) * BLOCKS + blocks, block);
        UNROLL for (u32 r = 0; r < ROWS; r++)
            zero[r] =
                ZERO == ZERO_NONE
                    ? 0
                    : zero_of_block<SPANS>(groups, W_ROW(r * LANES_N) * BLOCKS + blocks, block);
    };

    // Shared sums of A: each wave takes as many chunks of a row of A at a time as it has lanes. Its
    // first values of A are requested before the weights, since loads return in the order of issue.
    constexpr u32 PART = WAVE / A_ROWS;           // chunks of a row
    const u32 PARTS = (CHUNKS + PART - 1) / PART; // of a row
    u32 part = wave;
    a_word summed[WORDS];
    auto load_summed = [&] {
        const u32 tile = A_TILES == 1 ? 0 : part / PARTS;
        const u32 row = A_ROW(m0 + tile * A_ROWS + a_lane);
        const u8 *const from = (const u8 *)a + row * a_stride;
        const u32 chunk = minimum(part % PARTS * PART + lane / A_ROWS, CHUNKS - 1);
        UNROLL for (u32 w = 0; w < WORDS; w++)
            summed[w] =
                load_a_word(from + chunk * (u32)(CHUNK * sizeof(a_element)) +
                            w * 8 * sizeof(a_element));
    };
    if (SUMS == SHARED)
        load_summed();
    schedule_boundary();
    u32 packed[SETS][ROWS][WORDS], at[SETS];
    u32 scale[SETS][ROWS], zero_point[SETS][ROWS]; // bits
    UNROLL for (u32 s = 0; s < SETS; s++) {
        const u32 further = FIXED ? s * FURTHER : 0;
        at[s] = FIXED && s ? at[0] + further / 2 : chunk_of(step + s * SPLIT_K);
        load_weights(at[FIXED ? 0 : s], further, packed[s], scale[s], zero_point[s]);
    }
    schedule_boundary();
    if (SUMS == SHARED && part < A_TILES * PARTS) {
        pair zero[4];
        decode_zeros(A_STAGED, lane, zero);
        for (;;) {
            const u32 tile = part / PARTS, chunk = part % PARTS * PART + lane / A_ROWS;
            const bool is_chunk = CHUNKS % PART == 0 || chunk < CHUNKS;
            a_sums sums;
            UNROLL for (u32 w = 0; w < WORDS; w++) {
                if (w % SPAN_WORDS == 0) {
                    sums = {};
                    if (MAKE_PLAIN && KEEP_START && !BOTH_AT_ONCE)
                        computed(sums.plain); // a register of its own: a shared zero costs more
                }
                if (A_STAGED) {
                    pair_up(summed[w].dword);
                    if (is_chunk)
                        put_a_word((LDS u32x4 *)staged +
                                       ((tile * WORDS + w) * CHUNKS + chunk) * A_ROWS + a_lane,
                                   summed[w]);
                }
                add_to_sums(summed[w], zero, sums);
                if ((w + 1) % SPAN_WORDS == 0) {
                    if (BOTH_AT_ONCE)
                        finish_sums(sums);
                    if (is_chunk)
                        put_sums(shared, (tile * SPANS + w / SPAN_WORDS) * CHUNKS + chunk, a_lane,
                                 sums);
                }
            }
            part += WAVES;
            if (part >= A_TILES * PARTS)
                break;
            load_summed();
        }
    }

    // After the reduction this lane will hold RESULTS sums of a row of W with a row of A.
    u32 result_n[RESULTS], result_row[RESULTS];
    bool stores[RESULTS];
#if BIAS
    float bias_value[RESULTS];
#endif
    UNROLL for (u32 j = 0; j < RESULTS; j++) {
#if SQUARE
        const square_result place = square_place(wave, lane, j);
        const bool owner = place.owner;
        result_n[j] = n_base + place.own * LANES_N + place.lane;
        const u32 slot = m0 + place.tile * A_ROWS + place.row;
#else
        const bool spread = LANES_N > 1;
        const u32 value = spread ? spread_index<VALUES>(lane, j) : reduced_index<VALUES>(lane);
        const bool owner = spread ? spread_owner<VALUES>(lane) : reduced_owner<VALUES>(lane);
        result_n[j] = n_base + value % ROWS * LANES_N + lane_n;
        const u32 slot = m0 + value / ROWS;
#endif
        result_row[j] = MOE ? C_ROW(slot) : slot;
        stores[j] = owner && HAS_ROW(slot) &&
                    (WHOLE_GROUPS || (result_n[j] >= n0 && result_n[j] < N));
#if BIAS
        const u32 bias_n = WHOLE_GROUPS ? result_n[j] : minimum(result_n[j], N - 1);
        bias_value[j] = BIAS_OF(bias, W_ROW(bias_n), b);
#endif
    }
    if (SUMS == SHARED)
        barrier();

    lane_total total[TOTALS] = {};
#pragma unroll UNROLLED
    for (u32 trip = 0; trip < TRIPS && (EVEN_TRIPS || step < STEPS); trip++, step += SPLIT_K) {
        const bool inside = WHOLE_STEPS || start_of(step) < K / 2;
        const u32 set = trip % SETS, here = at[set];

        a_word ring[A_RING][A_TILES];
        auto load_a = [&](u32 word) INLINE {
            UNROLL for (u32 i = 0; i < A_TILES; i++) {
                a_word &to = ring[word % A_RING][i];
                if constexpr (A_STAGED)
                    to = get_a_word((const LDS u32x4 *)staged +
                                    ((i * WORDS + word) * CHUNKS + chunk_at(here)) * A_ROWS +
                                    a_lane);
                else
                    to = load_a_word(a_row[i] + here * (u32)(2 * sizeof(a_element)) +
                                     word * 8 * sizeof(a_element));
            }
            schedule_boundary();
        };
        UNROLL for (u32 word = 0; word < A_AHEAD; word++)
            load_a(word);

        pair w[DECODED][ROWS][4]; // weights of this word, and perhaps of the next
        auto decode = [&](u32 word) INLINE {
            UNROLL for (u32 r = 0; r < ROWS; r++) {
                if constexpr (TOGETHER == 2)
                    decode_two_words(decoding, (const u32(&)[2])packed[set][r][word], w[0][r],
                                     w[1][r]);
                else
                    decode_word(decoding, packed[set][r][word], w[word % DECODED][r]);
            }
        };
        UNROLL for (u32 span = 0; span < SPANS; span++) {
            // Sums start from what takes off CODE_BIAS and the zero point.
            a_sums sums[A_TILES] = {};
            float zero[ROWS], value[ROWS];
            UNROLL for (u32 i = 0; i < A_TILES; i++)
                if (SUMS == SHARED)
                    sums[i] = get_sums(shared, i * SPANS + span, here, a_lane);
            auto make_sums = [&](u32 word, u32 i) INLINE {
                pair zero[4];
                decode_zeros(true, lane, zero);
                add_to_sums(ring[word % A_RING][i], zero, sums[i]);
            };
            const u32 first_word = span * SPAN_WORDS, end_word = first_word + SPAN_WORDS;
            UNROLL for (u32 i = 0; i < A_TILES && SUMS_AHEAD; i++) {
                UNROLL for (u32 word = first_word; word < end_word; word++) {
                    pair_up(ring[word][i].dword);
                    make_sums(word, i);
                }
                finish_sums(sums[i]);
            }
            // converted at once, so that the next step's scales can take their registers
            UNROLL for (u32 r = 0; r < ROWS; r++) {
                value[r] = scale_value(bits_of_block<SPANS, scale_bits>(scale[set][r], span));
                computed(value[r]);
                if (ZERO != ZERO_NONE) {
                    zero[r] = zero_value(bits_of_block<SPANS, zero_bits>(zero_point[set][r], span));
                    // matrix products take all lanes, also inactive ones, whose values must be
                    // right
                    if (BOTH_AT_ONCE && ZERO == ZERO_SCALED && !WHOLE_STEPS)
                        zero[r] = inside ? zero[r] : 0.0f;
                    computed(zero[r]);
                }
            }
            auto start_sum = [&](u32 i, u32 r) INLINE {
                return ZERO == ZERO_U8 ? take_off(sums[i].start, sums[i], zero[r])
                                       : sums[i].start;
            };
            lane_sum sum[TOTALS];
            UNROLL for (u32 v = 0; v < TOTALS; v++)
                sum[v] = STARTS_AT_SUMS ? start_sum(v / ROWS, v % ROWS) : lane_sum{};

            if (EARLY && span == 0)
                decode(0);
            UNROLL for (u32 word = first_word; word < end_word; word++) {
                if (A_AHEAD < A_RING && word + A_AHEAD < WORDS)
                    load_a(word + A_AHEAD);
                if (word + EARLY < WORDS && word % TOGETHER == 0)
                    decode(word + EARLY);
                // After the last use of the packed weights, those of the next step take their
                // place.
                if (word + EARLY + TOGETHER == WORDS) {
                    computed_all<PAIRED>(sum);
                    UNROLL for (u32 d = 0; d < TOGETHER; d++) UNROLL for (u32 r = 0; r < ROWS; r++)
                        UNROLL for (u32 p = 0; p < 4; p++)
                            computed(w[(word + EARLY + d) % DECODED][r][p]);
                    if (!AHEAD && (EVEN_TRIPS ? trip + 1 < TRIPS : step + SPLIT_K < STEPS)) {
                        at[0] = chunk_of(step + SPLIT_K);
                        load_weights(at[0], 0, packed[0], scale[0], zero_point[0]);
                    }
                }
                schedule_boundary();
                auto pair_of = [&](u32 r, u32 p) INLINE -> pair & {
                    return w[word % DECODED][r][p];
                };
                pair_weights<4>(pair_of);
                UNROLL for (u32 i = 0; i < A_TILES; i++) {
                    a_word &x = ring[word % A_RING][i];
                    if (!A_STAGED && !SUMS_AHEAD)
                        pair_up(x.dword);
                    if (!STARTS_AT_SUMS)
                        make_sums(word, i);
                    if constexpr (SQUARE) {
                        UNROLL for (u32 j = 0; j < 2 * ROWS; j++) {
                            const u32 p = j / ROWS * 2, r = j % ROWS;
                            lane_sum &to = sum[i * ROWS + r];
                            to = add_product(x, p, pair_of(r, p), pair_of(r, p + 1), to);
                        }
                    } else {
                        add_products<4>(x.dword, pair_of, sum + i * ROWS);
                    }
                }
                schedule_boundary();
            }
            UNROLL for (u32 i = 0; i < A_TILES && !STARTS_AT_SUMS; i++)
                finish_sums(sums[i]);
            UNROLL for (u32 v = 0; v < TOTALS && !STARTS_AT_SUMS; v++)
                sum[v] = sum[v] + start_sum(v / ROWS, v % ROWS);
            if (inside) {
                UNROLL for (u32 v = 0; v < TOTALS; v++) {
                    total[v] = add_scaled(total[v], sum[v], value[v % ROWS]);
                    if (ZERO == ZERO_SCALED && !BOTH_AT_ONCE)
                        total[v] = take_off(total[v], sums[v / ROWS], zero[v % ROWS]);
                }
            }
            UNROLL for (u32 v = 0; v < TOTALS && ZERO == ZERO_SCALED && BOTH_AT_ONCE; v++)
                total[v] = take_off(total[v], sums[v / ROWS], zero[v % ROWS]);
        }
    }

    float result[RESULTS];
#if SQUARE
    square_reduce(total, result, (LDS f32x4 *)shared, wave, lane);
#else
    if constexpr (LANES_N == 1) {
        result[0] = reduce(total, lane);
    } else { // neighbours have rows of their own
        float own[VALUES];
        UNROLL for (u32 v = 0; v < VALUES; v++)
            own[v] = own_part(total[v], lane);
        spread_reduce<VALUES>(own, result, lane);
    }
    if (SPLIT_K > 1) {
        LDS float *const partial = (LDS float *)shared; // in place of A's sums, no longer needed
        barrier();
        UNROLL for (u32 j = 0; j < RESULTS; j++)
            partial[(wave * RESULTS + j) * WAVE + lane] = result[j];
        barrier();
        if (wave % SPLIT_K)
            return;
        UNROLL for (u32 q = 1; q < SPLIT_K; q++) UNROLL for (u32 j = 0; j < RESULTS; j++)
            result[j] += partial[((wave + q) * RESULTS + j) * WAVE + lane];
    }
#endif
    UNROLL for (u32 j = 0; j < RESULTS; j++) {
#if BIAS
        result[j] += bias_value[j];
#endif
#if GLU
        constexpr u32 PAIR_BIT = SQUARE ? 1 : LANES_N > 1 ? 0 : reduced_pair_bit<VALUES>();
        result[j] = activated(result[j], across<PAIR_BIT>(result[j], lane));
#endif
        c_element *const c_row = c + (u64)(MOE ? result_row[j] : C_ROW(result_row[j])) * ldc;
        if (stores[j] && HAS_COLUMN(result_n[j]))
            *at_offset(c_row, C_COLUMN(result_n[j]) * (u32)sizeof(c_element)) =
                rounded<c_element>(ROUTED(result[j], result_row[j]), TRUNCATE);
    }
}
