/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx1151, M = 1 to 1
// op=gemm wq=int4 group=128 scale=bf16 zero=u8 a=bf16 c=bf16 n=4096 k=4096 bias=0 layout=k8 round=rne

#define SYMBOL quern_int4_bf16_n4096_k4096_g128_m1 // name of the kernel
constexpr unsigned N = 4096;            // rows of W
constexpr unsigned K = 4096;            // columns of W
constexpr unsigned BLOCK = 128;         // weights along K that share a scale
#define WORD_ORDER K8                   // of the weights in a word
#define WORD_BLOCKS false               // whether b is [K/32,N] blocks of 4
#define SCALE_TYPE BF16                 // elements of scales
#define ZERO ZERO_U8                    // what zero points are
#define HAS_ZEROS 1                     // whether there are any
#define A_TYPE BF16                     // elements of A
#define C_TYPE BF16                     // elements of C and of a bias
#define TRUNCATE false                  // whether f32 becomes bf16 by cutting
#define PRODUCTS DOT2                   // how pairs are multiplied
#define PAIRING OF_A                    // what is reordered where pairs differ
#define SUMS SHARED                     // who makes sums of A
#define BIAS 0                          // whether a bias is added
constexpr unsigned M_TILE = 1;          // rows of A computed at once

constexpr unsigned WAVE = 32;           // lanes
constexpr unsigned WAVES = 14;          // in a workgroup
constexpr unsigned ROWS = 8;            // rows of W that a lane works on
constexpr unsigned ROW_LANES = 1;       // lanes side by side with rows of their own
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
#if defined(__GFX12__)
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

// Keeps the load of a value where it is written, ahead of a branch in which alone it is used.
DEVICE void keep(u32 value) { asm volatile("" : : "v"(value)); }

// The value, about which the compiler knows nothing: so that it keeps to 32-bit offsets from a base
// that all lanes share, instead of moving a 64-bit address per lane through a loop.
DEVICE u32 opaque(u32 value)
{
    asm("" : "+v"(value));
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

// ---- prelude/reduce ----
// Sums over the lanes of a wave. A wave that holds VALUES sums per lane folds them in halves: in
// each step a lane gives half of its values to a partner and takes the partner's other half, until
// it has one. No LDS, and one store at the end for all VALUES.

// The value of the lane at the other side of `BIT`; for bit 2 that of the mirrored one of its
// eight, which does as well because bits 1 and 0 are still to be summed.
template <u32 BIT> DEVICE float across(float v, u32 lane)
{
    const u32 bits = __builtin_bit_cast(u32, v);
    u32 other;
    if constexpr (BIT == 5) { // through LDS hardware, not its memory
        other = __builtin_amdgcn_ds_bpermute((lane ^ 32) * 4, bits);
    } else if constexpr (BIT == 4 && WAVE == 64) { // the same; swap 16 within each half
        other = __builtin_amdgcn_ds_swizzle(bits, 0x401f);
    } else if constexpr (BIT == 4) { // v_permlanex16: lane i of the other row of 16
        other = __builtin_amdgcn_permlanex16(bits, bits, 0x76543210, 0xfedcba98, false, false);
    } else { // DPP: row_ror:8, row_half_mirror, quad_perm:[2,3,0,1], quad_perm:[1,0,3,2]
        other = __builtin_amdgcn_update_dpp(
            0, bits, BIT == 3 ? 0x128 : BIT == 2 ? 0x141 : BIT == 1 ? 0x4e : 0xb1, 0xf, 0xf, true);
    }
    return __builtin_bit_cast(float, other);
}

// Lanes whose bit is clear get the pair's sum of `clear`, the others that of `set`. A DPP
// instruction can write to some groups of four lanes only; it is written as such where no wait
// states have to separate it from what made its operands.
template <u32 BIT> DEVICE float fold(float clear, float set, u32 lane)
{
    float sum;
    if constexpr (BIT == 3 && WAVE == 32) {
        asm("v_add_f32_dpp %0, %1, %1 row_ror:8 row_mask:0xf bank_mask:0x3\n\t"
            "v_add_f32_dpp %0, %2, %2 row_ror:8 row_mask:0xf bank_mask:0xc"
            : "=&v"(sum) : "v"(clear), "v"(set));
    } else if constexpr (BIT == 2 && WAVE == 32) {
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

// Sums v[0] to v[VALUES-1] over the lanes, VALUES a power of two up to 32. The sum that a lane gets
// is that of value reduced_index(lane); lanes that hold the same one agree.
template <u32 VALUES> DEVICE float reduce(float *v, u32 lane)
{
    reduce_step<VALUES, 3>(v, lane);
    reduce_step<(VALUES + 1) / 2, 2>(v, lane);
    reduce_step<(VALUES + 3) / 4, 1>(v, lane);
    reduce_step<(VALUES + 7) / 8, 0>(v, lane);
    reduce_step<(VALUES + 15) / 16, 4>(v, lane);
    if constexpr (WAVE == 64)
        reduce_step<1, 5>(v, lane);
    return v[0];
}
template <u32 VALUES> DEVICE u32 reduced_index(u32 lane)
{
    return VALUES == 32 ? (lane & 15) << 1 | (lane >> 4 & 1)
                        : (lane & 15) / (16 / minimum(VALUES, 16));
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
// 3 and up. As in `reduce`, a lane gives half of its values away for the partner's other half,
// until it has none to spare.

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

// Which of the VALUES result `j` is: the lane's bits 3, 4, 5 are its highest bits, in this order.
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
template <class T, bool TRUNCATED> DEVICE T rounded(float value)
{
    if constexpr (TRUNCATED && __is_same(T, bf16))
        return __builtin_bit_cast(bf16, (u16)(__builtin_bit_cast(u32, value) >> 16));
    else
        return (T)value;
}

// ---- decode/int4 ----
// The decoder of int4, in registers: the codes of a word become values of the type that they are
// multiplied in, by exact integer operations alone. A code q stands for CODE_BIAS + q, because its
// bits are put into the mantissa of a number whose last place is worth one; no subtraction, no
// conversion and no rounding per weight. The bias is taken out of a chunk's sum: it is the sum that
// the same A gives with a word of zeros (see sums in the family).
//
// f16: 1024 + q from bits 0-3 of a half, 64 + q from bits 4-7. bf16: 128 + q from bits 0-3.
// f32: q itself, by the conversion of a byte.

constexpr bool WIDE = PRODUCTS == PACKED || PRODUCTS == PLAIN; // f32 values

// Which two of a word's weights a pair is, seen from the word's bits: halves of the word are the
// two elements when pairs are nibbles p and p + 4; else they are the nibbles of byte p.
//   layouts exl, ck: nibbles p and p + 4 are k = 2p and 2p + 1.
//   layout k8: nibbles p and p + 4 are k = p and p + 4, and A is paired likewise; or bytes are
//   taken apart, and A stays as it is.
constexpr bool A_PAIRED = WORD_ORDER == K8 && PAIRING == OF_A && !WIDE;
constexpr bool BYTE_PAIRS = WORD_ORDER == K8 && !A_PAIRED;

// What the decoder adds to a code, where it is the same for all.
constexpr bool ONE_BIAS = WIDE || A_TYPE == BF16;
constexpr float CODE_BIAS = WIDE ? 0 : 128;

template <bool> struct pair_type; // two decoded weights
template <> struct pair_type<true> { typedef f32x2 type; };
template <> struct pair_type<false> { typedef u32 type; };
typedef pair_type<WIDE>::type pair;

// The eight values of A that a word meets, in four pairs, as the decoder pairs weights.
template <class PAIRS> DEVICE void pair_up(PAIRS &a)
{
    if constexpr (A_PAIRED) {
        const u32 d0 = a[0], d1 = a[1], d2 = a[2], d3 = a[3];
        a[0] = __builtin_amdgcn_perm(d2, d0, 0x05040100);
        a[1] = __builtin_amdgcn_perm(d2, d0, 0x07060302);
        a[2] = __builtin_amdgcn_perm(d3, d1, 0x05040100);
        a[3] = __builtin_amdgcn_perm(d3, d1, 0x07060302);
    }
}

// Constants that the compiler keeps in a register of each lane: an instruction of gfx9 reads only
// one scalar register, and no literal.
struct decoder {
    u32 low_magic, high_magic;
};
DEVICE decoder make_decoder()
{
    if (A_TYPE == BF16)
        return {opaque(0x43004300), 0};
    return {opaque(0x64006400), opaque(0x54005400)};
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
        const u32 upper = word >> 8;
        w[0] = (word & 0x000f000f) | d.low_magic;
        w[1] = (word & 0x00f000f0) | d.high_magic;
        w[2] = (upper & 0x000f000f) | d.low_magic;
        w[3] = (upper & 0x00f000f0) | d.high_magic;
    } else {
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = (word >> 4 * p & 0x000f000f) | d.low_magic;
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
#else
#define SCALE_OPERANDS const scale_bits *__restrict scales
#define SCALE_NAMES    scales
#endif

constexpr u32 BLOCKS = K / BLOCK; // of a row

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

// Of the lane's row `row`, at column k.
DEVICE u32 load_scale(const row_scales &from, u32 row, u32 k)
{
    const u8 *const scales = from.scales + row * (u32)(BLOCKS * sizeof(scale_bits));
    return *(const scale_bits *)(scales + (from.offset + k / BLOCK) * (u32)sizeof(scale_bits));
}
DEVICE u32 load_zero(const row_scales &from, u32 row, u32 k)
{
    const u8 *const zeros = from.zeros + row * (u32)(BLOCKS * sizeof(zero_bits));
    return *(const zero_bits *)(zeros + (from.offset + k / BLOCK) * (u32)sizeof(zero_bits));
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

// ---- family/simt_int4 ----
// C[m,n] = sum over k of A[m,k] * W[n,k] (+ bias[n]) for a few rows of A and int4 W.
//
// A wave works on ROWS rows of W (times LANES_N, when neighbouring lanes have rows of their own)
// and all M_TILE rows of A at once. In a step each lane takes CHUNK consecutive weights of every
// row, which share one scale: their products are summed unscaled, in f32, and the scale is applied
// to that sum. What the decoder adds to every code is taken out of it, with the zero point:
//
//     sum of a * (q - z) = sum of a * decoded(q) - sum of a * decoded(0) - z * sum of a
//
// The last two depend on A alone. They are made once per chunk of A by the whole workgroup, and
// kept in LDS for all its rows of W (or, SUMS == OWN, by each wave: where LDS has no room for
// them). A zero point that is the same everywhere is decoded with the zeros.

typedef element_type<A_TYPE>::type a_element;
typedef element_type<C_TYPE>::type c_element;

constexpr u32 WORDS = CHUNK / 8;              // packed words in a chunk
constexpr u32 LANES_K = WAVE / LANES_N;       // lanes side by side along K
constexpr u32 STEP = LANES_K * CHUNK;         // weights of a row that a step covers
constexpr u32 STEPS = (K + STEP - 1) / STEP;
constexpr bool WHOLE_STEPS = K % STEP == 0;
constexpr u32 TRIPS = (STEPS + SPLIT_K - 1) / SPLIT_K; // steps of one wave
constexpr bool EVEN_TRIPS = STEPS % SPLIT_K == 0;
constexpr u32 SETS = AHEAD ? TRIPS : 1;                // steps whose weights are held at once
constexpr u32 UNROLLED = TRIPS <= 2 ? TRIPS : 1; // longer loops would cost compile time
constexpr u32 VALUES = ROWS * M_TILE;         // sums that a lane holds
constexpr u32 WAVE_ROWS = ROWS * LANES_N;
constexpr u32 ROWS_PER_GROUP = WAVES / SPLIT_K * WAVE_ROWS;
constexpr u32 GROUPS = (N + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP;
constexpr bool WHOLE_GROUPS = N % ROWS_PER_GROUP == 0;
constexpr u32 A_RING = minimum(WORDS, M_TILE > 2 ? 2 : 4); // words' worth of A held at once
constexpr u32 ITEMS = WAVES * WAVE;
constexpr u32 CHUNKS = K / CHUNK; // of a row
constexpr u32 DECODED = ROWS * M_TILE > 4 ? 1 : 2; // words whose weights are held at once

// The eight values of a row of A that a word meets. Rows of A start at multiples of 4 bytes.
typedef u32 a_vector __attribute__((ext_vector_type(4), aligned(4)));
constexpr u32 A_VECTORS = A_TYPE == F32 ? 2 : 1;
struct a_word {
    a_vector part[A_VECTORS];
};

DEVICE a_word load_a_word(const u8 *from)
{
    a_word a;
    UNROLL for (u32 v = 0; v < A_VECTORS; v++)
        a.part[v] = ((const a_vector *)from)[v];
    return a;
}

// A lane's sum of the products of one row of W with one of A: of even and odd k apart when PACKED.
template <bool> struct sum_type;
template <> struct sum_type<true> { typedef f32x2 type; };
template <> struct sum_type<false> { typedef float type; };
typedef sum_type<PRODUCTS == PACKED>::type lane_sum;

DEVICE float whole(float sum) { return sum; }
DEVICE float whole(f32x2 sum) { return sum.x + sum.y; }
DEVICE void start_at(float &sum, float start) { sum = start; }
DEVICE void start_at(f32x2 &sum, float start) { sum = f32x2{start, 0.0f}; }

// The word's pair `index` of A in f32.
DEVICE f32x2 widen(const a_word &a, u32 index)
{
    u32 a0, a1;
    if constexpr (A_TYPE == F32) {
        a0 = a.part[index / 2][index % 2 * 2], a1 = a.part[index / 2][index % 2 * 2 + 1];
    } else { // bf16 is the upper half of an f32
        const u32 both = a.part[0][index];
        a0 = both << 16, a1 = both & 0xffff0000;
    }
    return {__builtin_bit_cast(float, a0), __builtin_bit_cast(float, a1)};
}

// sum + the products of the word's pair `index` of A with `w`.
template <class PAIR, class SUM>
DEVICE SUM multiply_add(const a_word &a, u32 index, PAIR w, SUM sum)
{
    if constexpr (PRODUCTS == PACKED) {
        return __builtin_elementwise_fma(widen(a, index), w, sum);
    } else if constexpr (PRODUCTS == PLAIN) {
        const f32x2 x = widen(a, index);
        sum = __builtin_fmaf(x.x, w.x, sum);
        return __builtin_fmaf(x.y, w.y, sum);
    } else {
        const u32 x = a.part[0][index];
        if constexpr (A_TYPE == F16)
            return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, x),
                                          __builtin_bit_cast(f16x2, w), sum, false);
        else
            return __builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(bf16x2, x),
                                                   __builtin_bit_cast(bf16x2, w), sum, false);
    }
}

// ---- sums of A ----

// Of one chunk of A: what decoded codes of 0 (of 8, where that is every zero point's value) give,
// negated; and the plain sum, that zero points are multiplied with. Where the bias is the same for
// all of a chunk, the first is a multiple of the second.
struct a_sums {
    float start, plain;
};
constexpr u32 EVERY_ZERO = ZERO == ZERO_U8 ? 0 : 0x88888888;
constexpr float EVERY_BIAS = CODE_BIAS + (ZERO == ZERO_U8 ? 0 : 8); // with ONE_BIAS
constexpr bool KEEP_START = !ONE_BIAS || ZERO == ZERO_NONE;
constexpr bool KEEP_PLAIN = ZERO != ZERO_NONE;
constexpr u32 SUM_FLOATS = KEEP_START + KEEP_PLAIN;

DEVICE void get_ones(u32 &ones) { ones = A_TYPE == F16 ? 0x3c003c00 : 0x3f803f80; }
DEVICE void get_ones(f32x2 &ones) { ones = f32x2{1.0f, 1.0f}; }

// What codes decode to if all are EVERY_ZERO, in the pairs that A comes from memory in.
DEVICE void decode_zeros(const decoder &d, u32 (&zero)[4])
{
    if constexpr (A_PAIRED && A_TYPE == F16) { // low and high halves of a word's bytes take turns
        UNROLL for (u32 p = 0; p < 4; p++)
            zero[p] = EVERY_ZERO ? 0x54806408 : 0x54006400;
    } else {
        decode_word(d, EVERY_ZERO, zero);
    }
}
DEVICE void decode_zeros(const decoder &d, f32x2 (&zero)[4]) { decode_word(d, EVERY_ZERO, zero); }

struct a_summing {
    lane_sum zeros, plain;
};
DEVICE void add_to_sums(const a_word &a, const pair (&zero)[4], a_summing &s)
{
    pair ones;
    get_ones(ones);
    UNROLL for (u32 p = 0; p < 4; p++) {
        if (KEEP_START)
            s.zeros = multiply_add(a, p, zero[p], s.zeros);
        if (KEEP_PLAIN)
            s.plain = multiply_add(a, p, ones, s.plain);
    }
}
DEVICE a_sums finished(const a_summing &s)
{
    const float plain = whole(s.plain);
    return {KEEP_START ? -whole(s.zeros) : -EVERY_BIAS * plain, plain};
}

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(const a_element *__restrict a, const u8 *__restrict b, SCALE_OPERANDS,
#if BIAS
            const c_element *__restrict bias,
#endif
            c_element *__restrict c, u32 m, u32 first, u64 lda, u64 ldc)
{
    __attribute__((shared)) static u32x4 shared_memory[SHARED_BYTES / sizeof(u32x4)];
    LDS float *const shared_floats = (LDS float *)shared_memory;

    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u32 lane = item % WAVE;
    const u32 wave = __builtin_amdgcn_readfirstlane(item / WAVE);
    const u32 x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y();
    const u32 group = SLICES_FIRST ? y : x, slice = SLICES_FIRST ? x : y;
    if (SKEWED && group == GROUPS)
        return;
    const u32 n0 = group * ROWS_PER_GROUP + wave / SPLIT_K * WAVE_ROWS, m0 = slice * M_TILE;
    const u32 lane_n = lane % LANES_N, lane_k = lane / LANES_N;
    const decoder decoding = make_decoder();

    // A wave at the end of W takes rows of the wave before it, and a lane the last row, rather than
    // rows past the end: their results are not stored. Rows of a wave are always neighbours.
    const u32 n_base = WHOLE_GROUPS     ? n0
                       : N >= WAVE_ROWS ? minimum(n0, N >= WAVE_ROWS ? N - WAVE_ROWS : 0)
                                        : 0;
    const u32 n_own = N >= WAVE_ROWS ? lane_n : minimum(lane_n, N - 1); // with LANES_N > 1
    const u8 *b_row[ROWS], *a_row[M_TILE];
    UNROLL for (u32 r = 0; r < ROWS; r++)
        b_row[r] = b + (WORD_BLOCKS ? (u64)n_base * 16 : (u64)n_base * (K / 2)) +
                   r * (WORD_BLOCKS ? LANES_N * 16 : K / 2);
    const row_scales groups = scales_of_rows(n_base, n_own, SCALE_NAMES);
    const u64 a_stride = lda * sizeof(a_element);
    a_row[0] = (const u8 *)a + (first + m0) * a_stride;
    UNROLL for (u32 i = 1; i < M_TILE; i++)
        a_row[i] = a_row[i - 1] + (m0 + i < m ? a_stride : 0);

    // Steps are counted from the phase on and come round. The chunk that this lane has of one; past
    // the end of K, the last one again.
    const u32 phase = PHASES == 0 ? 0 : (PHASES == 1 ? group : n0 / WAVE_ROWS) % STEPS;
    u32 step = wave % SPLIT_K;
    auto start_of = [&](u32 s) {
        const u32 place = s + phase;
        return (PHASES && place >= STEPS ? place - STEPS : place) * STEP + lane_k * CHUNK;
    };
    auto chunk_of = [&](u32 s) {
        return opaque(WHOLE_STEPS ? start_of(s) : minimum(start_of(s), K - CHUNK));
    };
    auto load_weights = [&](u32 k, u32 (&packed)[ROWS][WORDS], u32 (&scale)[ROWS],
                            u32 (&zero)[ROWS]) {
        UNROLL for (u32 r = 0; r < ROWS; r++)
            load_dwords<WORDS, WEIGHTS_ONCE>(
                packed[r], b_row[r] + (WORD_BLOCKS ? k / 32 * (N * 16) + n_own * 16 : k / 2));
        UNROLL for (u32 r = 0; r < ROWS; r++)
            scale[r] = load_scale(groups, r * LANES_N, k);
        UNROLL for (u32 r = 0; r < ROWS; r++)
            zero[r] = ZERO == ZERO_NONE ? 0 : load_zero(groups, r * LANES_N, k);
    };

    // Sums of A: waves take the chunks of a row of A by as many as they have lanes. The first ones'
    // values are requested before the weights, since loads return in the order of issue.
    constexpr u32 PARTS = (CHUNKS + WAVE - 1) / WAVE; // of a row
    u32 part = wave;
    a_word summed[WORDS];
    auto load_summed = [&]() {
        const u32 row = first + minimum(m0 + part / PARTS, m - 1);
        const u8 *const from = (const u8 *)a + row * a_stride;
        const u32 chunk = minimum(part % PARTS * WAVE + lane, CHUNKS - 1);
        UNROLL for (u32 w = 0; w < WORDS; w++)
            summed[w] = load_a_word(from + chunk * (u32)(CHUNK * sizeof(a_element)) +
                                    w * 8 * sizeof(a_element));
    };
    if (SUMS == SHARED)
        load_summed();
    schedule_boundary();
    u32 packed[SETS][ROWS][WORDS], k[SETS];
    u32 scale[SETS][ROWS], zero_point[SETS][ROWS]; // bits
    UNROLL for (u32 s = 0; s < SETS; s++) {
        k[s] = chunk_of(step + s * SPLIT_K);
        load_weights(k[s], packed[s], scale[s], zero_point[s]);
    }
    schedule_boundary();
    if (SUMS == SHARED && part < M_TILE * PARTS) {
        pair zero[4];
        decode_zeros(decoding, zero);
        for (;;) {
            const u32 chunk = part % PARTS * WAVE + lane, at = part / PARTS * CHUNKS + chunk;
            a_summing summing = {};
            UNROLL for (u32 w = 0; w < WORDS; w++)
                add_to_sums(summed[w], zero, summing);
            const a_sums sums = finished(summing);
            if (CHUNKS % WAVE == 0 || chunk < CHUNKS) {
                if (KEEP_START)
                    shared_floats[at * SUM_FLOATS] = sums.start;
                if (KEEP_PLAIN)
                    shared_floats[at * SUM_FLOATS + KEEP_START] = sums.plain;
            }
            part += WAVES;
            if (part >= M_TILE * PARTS)
                break;
            load_summed();
        }
    }

    // After the reduction this lane will hold RESULTS sums of a row of W with a row of A.
    u32 result_n[RESULTS], result_i[RESULTS];
    bool stores[RESULTS];
#if BIAS
    float bias_value[RESULTS];
#endif
    UNROLL for (u32 j = 0; j < RESULTS; j++) {
        const bool spread = LANES_N > 1;
        const u32 value = spread ? spread_index<VALUES>(lane, j) : reduced_index<VALUES>(lane);
        const bool owner = spread ? spread_owner<VALUES>(lane) : reduced_owner<VALUES>(lane);
        result_n[j] = n_base + value % ROWS * LANES_N + lane_n;
        result_i[j] = m0 + value / ROWS;
        stores[j] = owner && result_i[j] < m &&
                    (WHOLE_GROUPS || (result_n[j] >= n0 && result_n[j] < N));
#if BIAS
        bias_value[j] = bias[WHOLE_GROUPS ? result_n[j] : minimum(result_n[j], N - 1)];
#endif
    }
    if (SUMS == SHARED)
        barrier();

    float total[VALUES] = {};
#pragma unroll UNROLLED
    for (u32 trip = 0; trip < TRIPS && (EVEN_TRIPS || step < STEPS); trip++, step += SPLIT_K) {
        const bool inside = WHOLE_STEPS || start_of(step) < K;
        const u32 set = trip % SETS, k_here = k[set];

        a_word ring[A_RING][M_TILE];
        auto load_a = [&](u32 word) {
            UNROLL for (u32 i = 0; i < M_TILE; i++)
                ring[word % A_RING][i] = load_a_word(
                    a_row[i] + k_here * (u32)sizeof(a_element) + word * 8 * sizeof(a_element));
            schedule_boundary();
        };
        UNROLL for (u32 word = 0; word < (A_RING == 1 ? 1 : A_RING - 1); word++)
            load_a(word);

        // Sums start where the decoder's bias and the zero point leave them.
        a_sums sums[M_TILE];
        a_summing summing[M_TILE] = {};
        float zero[ROWS], value[ROWS];
        UNROLL for (u32 i = 0; i < M_TILE; i++) {
            const u32 at = (i * CHUNKS + k_here / CHUNK) * SUM_FLOATS;
            if (SUMS == SHARED && SUM_FLOATS == 2) {
                // in one load: lanes that load every other float would meet in twos in a bank
                const f32x2 both = *(const LDS f32x2 *)(shared_floats + at);
                sums[i].start = both.x;
                sums[i].plain = both.y;
            } else if (SUMS == SHARED) {
                sums[i].plain = KEEP_PLAIN ? shared_floats[at + KEEP_START] : 0.0f;
                sums[i].start = KEEP_START ? shared_floats[at] : -EVERY_BIAS * sums[i].plain;
            }
        }
        UNROLL for (u32 r = 0; r < ROWS; r++) {
            value[r] = scale_value(scale[set][r]);
            zero[r] = ZERO == ZERO_NONE ? 0.0f : zero_value(zero_point[set][r]);
            computed(value[r]); // their registers take the next ones
            computed(zero[r]);
        }
        auto start_sum = [&](u32 i, u32 r) {
            return ZERO == ZERO_U8 ? __builtin_fmaf(-zero[r], sums[i].plain, sums[i].start)
                                   : sums[i].start;
        };
        lane_sum sum[VALUES];
        UNROLL for (u32 v = 0; v < VALUES; v++)
            start_at(sum[v], SUMS == SHARED ? start_sum(v / ROWS, v % ROWS) : 0.0f);

        pair w[DECODED][ROWS][4]; // weights of this word, and perhaps of the next
        auto decode = [&](u32 word) {
            UNROLL for (u32 r = 0; r < ROWS; r++)
                decode_word(decoding, packed[set][r][word], w[word % DECODED][r]);
        };
        if (DECODED == 2)
            decode(0);
        UNROLL for (u32 word = 0; word < WORDS; word++) {
            if (A_RING > 1 && word + A_RING - 1 < WORDS)
                load_a(word + A_RING - 1);
            if (word + DECODED - 1 < WORDS)
                decode(word + DECODED - 1);
            // After the last use of the packed weights, those of the next step take their place.
            if (word + DECODED == WORDS || WORDS == 1) {
                UNROLL for (u32 v = 0; v < VALUES; v++)
                    computed(sum[v]);
                UNROLL for (u32 r = 0; r < ROWS; r++) UNROLL for (u32 p = 0; p < 4; p++)
                    computed(w[(WORDS - 1) % DECODED][r][p]);
                if (!AHEAD && (EVEN_TRIPS ? trip + 1 < TRIPS : step + SPLIT_K < STEPS)) {
                    k[0] = chunk_of(step + SPLIT_K);
                    load_weights(k[0], packed[0], scale[0], zero_point[0]);
                }
            }
            schedule_boundary();
            UNROLL for (u32 i = 0; i < M_TILE; i++) {
                a_word &x = ring[word % A_RING][i];
                pair_up(x.part[0]);
                if (SUMS == OWN) {
                    pair zero[4];
                    decode_word(decoding, EVERY_ZERO, zero);
                    add_to_sums(x, zero, summing[i]);
                }
                // Neighbours have no operand in common, so that they can be issued together.
                UNROLL for (u32 q = 0; q < 4; q++) UNROLL for (u32 r = 0; r < ROWS; r++) {
                    const u32 p = (q + r) % 4;
                    lane_sum &s = sum[i * ROWS + r];
                    s = multiply_add(x, p, w[word % DECODED][r][p], s);
                }
            }
            schedule_boundary();
        }
        if (inside) {
            UNROLL for (u32 i = 0; i < M_TILE; i++)
                if (SUMS == OWN)
                    sums[i] = finished(summing[i]);
            UNROLL for (u32 v = 0; v < VALUES; v++) {
                const u32 i = v / ROWS, r = v % ROWS;
                const float start = SUMS == OWN ? start_sum(i, r) : 0.0f;
                const float here = whole(sum[v]);
                total[v] = __builtin_fmaf(SUMS == OWN ? here + start : here, value[r], total[v]);
                if (ZERO == ZERO_SCALED)
                    total[v] = __builtin_fmaf(-zero[r], sums[i].plain, total[v]);
            }
        }
    }

    float result[RESULTS];
    if constexpr (LANES_N == 1)
        result[0] = reduce<VALUES>(total, lane);
    else
        spread_reduce<VALUES>(total, result, lane);
    if (SPLIT_K > 1) {
        barrier(); // the sums of A have served
        UNROLL for (u32 j = 0; j < RESULTS; j++)
            shared_floats[(wave * RESULTS + j) * WAVE + lane] = result[j];
        barrier();
        if (wave % SPLIT_K)
            return;
        UNROLL for (u32 q = 1; q < SPLIT_K; q++) UNROLL for (u32 j = 0; j < RESULTS; j++)
            result[j] += shared_floats[((wave + q) * RESULTS + j) * WAVE + lane];
    }
    UNROLL for (u32 j = 0; j < RESULTS; j++) {
#if BIAS
        result[j] += bias_value[j];
#endif
        if (stores[j])
            (c + (u64)(first + result_i[j]) * ldc)[result_n[j]] =
                rounded<c_element, TRUNCATE>(result[j]);
    }
}
