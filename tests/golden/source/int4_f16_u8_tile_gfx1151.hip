/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx1151, M = 65 and more
// op=gemm wq=int4 group=32 scale=f16 zero=u8 a=f16 c=f16 n=1000 k=1056 bias=0 layout=k8 round=rne

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

#define SYMBOL quern_int4_f16_n1000_k1056_g32_m128 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 1000;            // rows of W
constexpr unsigned K = 1056;            // columns of W
#define GLU 0                           // whether two rows of W become a column of C
#define MOE 0                           // whether slots name the rows, and blocks the expert
constexpr unsigned BLOCK = 32;          // weights along K that share a scale
#define WORD_ORDER K8                   // of the weights in a word
#define WORD_BLOCKS false               // whether b is [K/32,N] blocks of 4
#define SCALE_TYPE F16                  // elements of scales
#define ZERO ZERO_U8                    // what zero points are
#define HAS_ZEROS 1                     // whether there are any
#define A_TYPE F16                      // elements of A
#define C_TYPE F16                      // elements of C and of a bias
#define TRUNCATE false                  // whether f32 becomes bf16 by cutting
#define PRODUCTS DOT2                   // what codes are made for
#define PAIRING OF_W                    // what is reordered where pairs differ
#define BIAS 0                          // whether a bias is added
constexpr unsigned M_TILE = 128;        // rows of A computed at once

constexpr unsigned WAVE = 32;           // lanes
constexpr unsigned WAVES = 4;           // in a workgroup
constexpr unsigned M_WAVES = 4;         // waves with the same rows of W, each with its own of A
constexpr unsigned ROWS = 32;           // rows of W that a wave works on
constexpr unsigned STEP = 32;           // along K, between two barriers
#define AHEAD true                      // whether operands are loaded ahead of the barrier
constexpr unsigned WAVES_PER_SIMD = 2;  // that registers must leave room for
constexpr unsigned DIES = 1;            // that workgroups are dealt out to in turn
#define SLICES_FIRST true               // whether slices of A are workgroup id x

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

// ---- prelude/wmma11 ----
// Matrix instructions of gfx11: 16 rows of A times 16 rows of W, 16 along K. Both halves of the
// wave hold the same operands. A lane holds one column of the result, of W's row lane % 16, and
// every other row of A, by tile_row.

typedef float tile __attribute__((ext_vector_type(8)));
typedef f16 f16x16 __attribute__((ext_vector_type(16)));
typedef short i16x16 __attribute__((ext_vector_type(16)));
typedef u32 operand __attribute__((ext_vector_type(8)));

constexpr u32 K_LANES = 1;     // lanes with parts of one row of an operand
constexpr u32 K_OF_LANE = 16;  // along K, of one instruction
constexpr u32 TILE_VALUES = 8; // of the result, in a lane
constexpr u32 HALF_BIT = 0;    // of a row of the result: tells lanes 0-15 from 16-31

DEVICE u32 tile_row(u32 value, u32 lane) { return value * 2 + lane / 16; }

DEVICE tile multiply_add(operand a, operand w, tile sum)
{
    if constexpr (A_TYPE == F16)
        return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(f16x16, a),
                                                          __builtin_bit_cast(f16x16, w), sum);
    else
        return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(i16x16, a),
                                                           __builtin_bit_cast(i16x16, w), sum);
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

// ---- prelude/mix ----
// Weights of bf16 from values in f16, by an instruction for mixed types: it multiplies a half of a
// dword with an f32 and adds another, rounded once, in f32; the upper half is what bf16 has of
// that.

// Half `half` of a pair of f16, times `factor`, plus `to`.
DEVICE float mix(u32 pair, u32 half, float factor, float to)
{
    const f16x2 both = __builtin_bit_cast(f16x2, pair);
    const f16 one_half = half ? both.y : both.x;
    float sum = __builtin_fmaf((float)one_half, factor, to);

    if (HAS_MFMA) // or the compiler makes a packed instruction of two, behind conversions
        computed(sum);
    return sum;
}

// The upper halves of two dwords: of two f32, what bf16 has of them.
DEVICE u32 upper_halves(u32 low, u32 high)
{
    return __builtin_amdgcn_perm(high, low, 0x07060302);
}
DEVICE u32 cut(float low, float high)
{
    return upper_halves(__builtin_bit_cast(u32, low), __builtin_bit_cast(u32, high));
}

// Scaled weights are made in f32 and cut off, a pair by one instruction, where rounding would take
// two more. So that they are as near as rounded ones, they are made a little too large: by 3/8 of
// what the last place of a bf16 is worth if its mantissa is 1, and by 3/4 if it is almost 2. That
// is less than one, so that products which bf16 holds stay exact; and on average as much is added
// as is cut off (docs/kernels/mma_int4.md has the errors).
constexpr float BEFORE_CUT = 1 + 0x3p-10f;

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

// ---- decode/int4_mix ----
// Scaled weights of bf16 from int4 codes, which masks make f16 of, two at once.

// For decode_halves.
DEVICE decoder make_mix_decoder() { return {opaque(0x64006400), opaque(0x54005400)}; }

// Which nibble of a word is half `half` of its pair p.
constexpr u32 nibble_of_pair(u32 p, u32 half) { return BYTE_PAIRS ? p * 2 + half : p + half * 4; }

struct cut_scale {
    float scale, low, high; // of a group; and what is added for codes of 1024 + q and of 64 + q
};

// For weights (q - zero) * scale + off; `zero` is an integer up to 255.
DEVICE cut_scale make_cut_scale(float scale, float zero, float off)
{
    // In 13 bits, so that products with 1024 + q, which has 11, are exact in f32, and a code of
    // `zero` is exactly nothing.
    const u32 upper = __builtin_bit_cast(u32, scale * BEFORE_CUT) & 0xfffff800;
    const float by = __builtin_bit_cast(float, upper), added = off * BEFORE_CUT;

    return {by, __builtin_fmaf(-1024.0f - zero, by, added),
            __builtin_fmaf(-64.0f - zero, by, added)};
}

// Eight weights, in the pairs of decode_word.
DEVICE void decode_and_cut(const decoder &d, u32 word, const cut_scale &by, u32 (&pairs)[4])
{
    u32 codes[4];
    decode_halves(d, word, codes);
    auto weight = [&](u32 n) INLINE {
        return mix(codes[n % 4], n / 4, by.scale, n % 2 ? by.high : by.low);
    };
    UNROLL for (u32 p = 0; p < 4; p++)
        pairs[p] = cut(weight(nibble_of_pair(p, 0)), weight(nibble_of_pair(p, 1)));
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

// ---- decode/tile_int4 ----
// The decoder of mma_tile's int4 weights: eight codes become eight 16-bit weights, scaled and
// without their zero points. Codes are put into the mantissas of numbers as in decode/int4. What
// that adds is taken off together with the zero point, exactly, before the one product that rounds.

struct chunk_scale {
    u32 scale, zero; // as they lie in memory
};

DEVICE row_scales scales_of_tile_row(u32 first, u32 own, SCALE_OPERANDS)
{
    return scales_of_rows(first, own, SCALE_NAMES);
}
DEVICE chunk_scale load_scale(const row_scales &row, u32 k)
{
    return {load_scale(row, 0, k), ZERO == ZERO_NONE ? 0 : load_zero(row, 0, k)};
}
DEVICE decoder make_tile_decoder() { return A_TYPE == BF16 ? make_mix_decoder() : make_decoder(); }
DEVICE void begin_scale(const row_scales &, chunk_scale &, u32) {}
DEVICE float scale_value(const row_scales &, const chunk_scale &chunk)
{
    return scale_value(chunk.scale);
}
constexpr float CODE_UNIT = 1.0f;

// The zero point of codes, and what is taken off scaled weights, in f32.
DEVICE float zero_of_codes(const chunk_scale &chunk)
{
    return ZERO == ZERO_U8 ? zero_value(chunk.zero) : 8.0f;
}
DEVICE float zero_of_weights(const chunk_scale &chunk)
{
    return ZERO == ZERO_SCALED ? zero_value(chunk.zero) : 0.0f;
}

DEVICE u32 both_halves(u32 half) { return half | half << 16; }
DEVICE u32 f16_bits(float value) { return __builtin_bit_cast(u16, (f16)value); }

// A chunk's scale as the decoder wants it. f16: zero: pairs of -(1024 + z) and of -(64 + z); scale,
// and rest, which is added at the end: pairs. bf16: as decode/int4_mix has them, in f32.
struct multiplier {
    u32 zero[2], scale, rest;
};
template <class UNIT>
DEVICE multiplier make_multiplier(const row_scales &, const chunk_scale &chunk, const UNIT &unit)
{
    const float scale = scale_value(chunk.scale) * unit.scales, zero = zero_of_codes(chunk);
    const float rest = zero_of_weights(chunk) * unit.scales;

    if constexpr (A_TYPE == F16) {
        const u32 low = f16_bits(-1024.0f - zero), high = f16_bits(-64.0f - zero);
        return {{BYTE_PAIRS ? low | high << 16 : both_halves(low), both_halves(high)},
                both_halves(f16_bits(scale)),
                both_halves(f16_bits(-rest))};
    } else {
        const cut_scale by = make_cut_scale(scale, zero, -rest);
        return {{__builtin_bit_cast(u32, by.low), __builtin_bit_cast(u32, by.high)},
                __builtin_bit_cast(u32, by.scale), 0};
    }
}

// Eight weights in the order of k.
DEVICE void decode_scaled(const decoder &d, u32 word, const multiplier &by, u32 (&pairs)[4])
{
    if constexpr (A_TYPE == F16) {
        decode_word(d, word, pairs);
        const f16x2 scale = __builtin_bit_cast(f16x2, by.scale);
        const f16x2 rest = __builtin_bit_cast(f16x2, by.rest);
        UNROLL for (u32 p = 0; p < 4; p++) {
            const u32 zero = by.zero[BYTE_PAIRS ? 0 : p % 2];
            const f16x2 code = __builtin_bit_cast(f16x2, pairs[p]) +
                               __builtin_bit_cast(f16x2, zero);
            const f16x2 weight = ZERO == ZERO_SCALED
                                     ? __builtin_elementwise_fma(code, scale, rest)
                                     : code * scale;
            pairs[p] = __builtin_bit_cast(u32, weight);
        }
    } else {
        decode_and_cut(d, word,
                       {__builtin_bit_cast(float, by.scale), __builtin_bit_cast(float, by.zero[0]),
                        __builtin_bit_cast(float, by.zero[1])},
                       pairs);
    }
}

// ---- decode/tile_scale ----
// Scales of weights that go to LDS decoded and scaled, in 16 bits. f16 has a narrow range: so a
// row's scales are divided by a power of two near the largest of them, and the row's results
// multiplied by it, in f32. bf16 has the range of f32 and needs none.

// What a row's scales are multiplied by, and its results; CODE_UNIT is part of the latter.
struct row_unit {
    float scales, results;
};

// PARTS neighbouring lanes share a row, `part` is the lane's place among them.
template <u32 PARTS> DEVICE row_unit unit_of_row(const row_scales &row, u32 part)
{
    if constexpr (A_TYPE != F16)
        return {1.0f, CODE_UNIT};
    constexpr u32 BLOCKS_OF_ROW = K / BLOCK, AT_ONCE = 4;
    float most = 0;
#pragma unroll 1
    for (u32 block = part; block < BLOCKS_OF_ROW; block += PARTS * AT_ONCE) {
        chunk_scale scale[AT_ONCE];
        u32 k[AT_ONCE];
        UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
            k[i] = minimum(block + i * PARTS, BLOCKS_OF_ROW - 1) * BLOCK;
            scale[i] = load_scale(row, k[i]);
        }
        UNROLL for (u32 i = 0; i < AT_ONCE; i++)
            begin_scale(row, scale[i], k[i]);
        UNROLL for (u32 i = 0; i < AT_ONCE; i++)
            most = __builtin_fmaxf(most, __builtin_fabsf(scale_value(row, scale[i])));
    }
    UNROLL for (u32 other = 1; other < PARTS; other *= 2) {
        const int bits = __builtin_bit_cast(int, most);
        const int theirs = other == 1   ? __builtin_amdgcn_ds_swizzle(bits, 0x041f)
                           : other == 2 ? __builtin_amdgcn_ds_swizzle(bits, 0x081f)
                           : other == 4 ? __builtin_amdgcn_ds_swizzle(bits, 0x101f)
                                        : __builtin_amdgcn_ds_swizzle(bits, 0x201f);
        most = __builtin_fmaxf(most, __builtin_bit_cast(float, theirs));
    }
    // bounded, as 2^-exponent could overflow
    const int exponent = __builtin_amdgcn_frexp_expf(most);
    const int kept = exponent < -100 ? -100 : exponent;
    return {__builtin_amdgcn_ldexpf(1.0f, -kept), __builtin_amdgcn_ldexpf(CODE_UNIT, kept)};
}

// ---- family/mma_tile ----
// C[m,n] = sum over k of A[m,k] * W[n,k] (+ bias[n]) for 4-bit W and many rows of A, on matrix
// units.
//
// A workgroup computes a tile of M_TILE by N_TILE results, STEP along K at a time. Its work-items
// fetch a step of A and of W; the weights are decoded and scaled in their registers, once for all
// rows of A of the tile, and both go to LDS, from where the waves take the operands of matrix
// instructions. There are two such stages: while one is multiplied the next is stored to the other,
// and the one after it is on its way from memory. One barrier a step.

typedef element_type<A_TYPE>::type a_element;
typedef element_type<C_TYPE>::type c_element;

constexpr u32 ITEMS = WAVES * WAVE;
constexpr u32 N_TILE = WAVES / M_WAVES * ROWS; // rows of W of a workgroup
constexpr u32 SIDE = TILE_VALUES * WAVE > 16 * 16 ? 32 : 16; // of a matrix instruction's result
constexpr u32 M_TILES = M_TILE / M_WAVES / SIDE, N_TILES = ROWS / SIDE; // of a wave
constexpr u32 STEPS = K / STEP;
constexpr bool EVEN_STEPS = STEPS % 2 == 0;
constexpr u32 GROUPS = (N + N_TILE - 1) / N_TILE;
constexpr bool WHOLE_GROUPS = N % N_TILE == 0;
// Bytes between rows of b, and between 32 weights of a row and the next 32.
constexpr u32 ROW_STRIDE = WORD_BLOCKS ? 16 : K / 2, B_32 = WORD_BLOCKS ? N * 16 : 16;

// A stage has rows of A, then rows of W, as pieces of eight values, 16 bytes. LDS serves eight
// lanes at a time, which read the same piece of eight rows. So the pieces of a row stand in an
// order that changes from row to row: the eight then lie in different banks. With 32 rows to a
// matrix instruction and 64 banks (gfx950) LDS serves sixteen lanes, of four quads of rows, two of
// which have bit 3 set.
constexpr u32 PIECES = STEP / 8; // of a row
constexpr u32 ROW_BYTES = STEP * 2, A_BYTES = M_TILE * ROW_BYTES, W_BYTES = N_TILE * ROW_BYTES;
constexpr u32 STAGE_BYTES = A_BYTES + W_BYTES;
DEVICE u32 place_of(u32 row, u32 piece)
{
    const u32 turn = (PIECES < 8 ? row / (8 / PIECES) : row) ^ (SIDE > 16 ? row / 8 % 2 : 0);
    return row * ROW_BYTES + (piece ^ turn % PIECES) * 16;
}

// What a work-item fetches in a step: pieces of A, ITEMS apart, and consecutive weights of one row.
constexpr u32 A_PIECES = M_TILE * PIECES / ITEMS;
constexpr u32 WEIGHTS = N_TILE * STEP / ITEMS;
constexpr u32 PARTS = STEP / WEIGHTS; // work-items that share a row of W
static_assert(M_TILE * PIECES % ITEMS == 0 && ITEMS % (SIDE / 2 * PIECES) == 0 &&
                  WEIGHTS % 8 == 0 && STEP % WEIGHTS == 0 && ITEMS % PARTS == 0,
              "work-items share a step evenly");

// A fragment is what a lane loads from LDS of a row at a time: for one matrix instruction, or two.
constexpr u32 FRAGMENT_PIECES = K_OF_LANE > 8 ? K_OF_LANE / 8 : 1;
constexpr u32 FRAGMENT_WORDS = FRAGMENT_PIECES * 4;
constexpr u32 FRAGMENTS = PIECES / (K_LANES * FRAGMENT_PIECES); // of a step
constexpr u32 OPERAND_WORDS = K_OF_LANE / 2;

// With weights as the first operand a lane gets neighbouring columns of one row of C, which it can
// store together. On gfx11 it would get every other column: there A is the first operand, and a
// lane has one column.
constexpr bool LANE_HAS_ROW = HALF_BIT != 0;
constexpr u32 RUN = TILE_VALUES > 8 ? 4 : TILE_VALUES; // of such columns

// On gfx11 a matrix instruction whose three operands start in the same one of the four banks of
// registers takes two more cycles. The sums take the registers from 1 on, and so start in bank 1;
// so W's operand is put into registers behind them that start in bank 3, wherever A's operand is.
#define SETTLE(first, last) asm("" : "+{v[" #first ":" #last "]}"(w))
template <u32 SUMS, u32 PLACE, class OPERAND> DEVICE void settle(OPERAND &w)
{
    if constexpr (SUMS == 128 && PLACE == 0)
        SETTLE(131, 138);
    else if constexpr (SUMS == 128 && PLACE == 1)
        SETTLE(139, 146);
    else if constexpr (SUMS == 128 && PLACE == 2)
        SETTLE(147, 154);
    else if constexpr (SUMS == 128 && PLACE == 3)
        SETTLE(155, 162);
    else if constexpr (SUMS == 64 && PLACE == 0)
        SETTLE(67, 74);
    else if constexpr (SUMS == 64 && PLACE == 1)
        SETTLE(75, 82);
    else if constexpr (SUMS == 64 && PLACE == 2)
        SETTLE(83, 90);
    else if constexpr (SUMS == 64 && PLACE == 3)
        SETTLE(91, 98);
}
template <u32 SUMS, class OPERAND> DEVICE void settle(OPERAND &w, u32 place)
{
    switch (place) {
    case 0: settle<SUMS, 0>(w); break;
    case 1: settle<SUMS, 1>(w); break;
    case 2: settle<SUMS, 2>(w); break;
    case 3: settle<SUMS, 3>(w); break;
    }
}

typedef u32 a_piece __attribute__((ext_vector_type(4), aligned(4)));

DEVICE void spread(u32x4 v, u32 *to) { to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w; }

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(const a_element *__restrict a, const u8 *__restrict b, SCALE_OPERANDS,
#if BIAS
            const c_element *__restrict bias,
#endif
            SLOT_OPERANDS c_element *__restrict c, u32 m, u32 first, u64 lda, u64 ldc)
{
    __attribute__((shared)) static u32x4 shared_memory[2 * STAGE_BYTES / 16];
    LDS u8 *const stages = (LDS u8 *)shared_memory;

    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u32 lane = item % WAVE;
    const u32 wave = __builtin_amdgcn_readfirstlane(item / WAVE);
    const u32 x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y();
    u32 group = SLICES_FIRST ? y : x, slice = SLICES_FIRST ? x : y;
    static_assert(!MOE || DIES == 1, "m is not what slices of blocks are counted by");
    if constexpr (DIES > 1) {
        // The hardware deals workgroups out to the dies in turn, and each die has a cache of its
        // own. So workgroups are renumbered: those of one die become neighbours, which share A or
        // W.
        const u32 slices = (m + M_TILE - 1) / M_TILE, all = slices * GROUPS;
        const u32 id = SLICES_FIRST ? group * slices + slice : slice * GROUPS + group;
        const u32 die = id % DIES;
        const u32 moved = die * (all / DIES) + minimum(die, all % DIES) + id / DIES;
        group = moved / slices;
        slice = moved % slices;
    }
    const u32 n0 = group * N_TILE, m0 = slice * M_TILE;
#if MOE
    ENTER_EXPERT((u64)N * (K / 2), n0, N_TILE)
#endif

    // ---- From memory to registers. Rows past the end take the last one again, and are not stored.
#if MOE // the rows may lie further apart than 32 bits reach
    typedef u64 a_distance;
    const a_element *a_from = a;
#define A_DISTANCE(i) ((u64)A_ROW(m0 + (i)) * lda)
#else
    typedef u32 a_distance;
    const a_element *a_from = a + (u64)(first + m0) * lda;
#define A_DISTANCE(i) (minimum(i, m - 1 - m0) * (u32)lda)
#endif
    a_distance a_offset[A_PIECES];
    UNROLL for (u32 i = 0; i < A_PIECES; i++)
        a_offset[i] =
            (A_DISTANCE(i * (ITEMS / PIECES) + item / PIECES) + item % PIECES * 8) * 2;
    const u32 part = item % PARTS;
    const u32 n = WHOLE_GROUPS ? n0 + item / PARTS : minimum(n0 + item / PARTS, N - 1);
    const u8 *b_from = b + (u64)W_ROW(n0) * ROW_STRIDE;
    const u32 b_offset = W_ROW(n - n0) * ROW_STRIDE + part * WEIGHTS / 32 * B_32 +
                         part * WEIGHTS % 32 / 2;
    const row_scales scale_row = scales_of_tile_row(W_ROW(n0), W_ROW(n - n0), SCALE_NAMES);

    u32 packed[WEIGHTS / 8];
    chunk_scale scale;
    u32x4 pieces[A_PIECES];
    u32 k = 0, fetched = 0; // columns: of the next two steps to fetch; of the weights fetched
    auto fetch = [&](u32 stage) INLINE {
        // a last step that has no partner is fetched twice
        const u32 further = stage == 0 ? 0 : EVEN_STEPS || k + STEP < K ? STEP : 0;
        fetched = k + further + part * WEIGHTS;
        load_dwords<WEIGHTS / 8, false>(packed, b_from + further / 32 * B_32 + opaque(b_offset));
        scale = load_scale(scale_row, fetched);
        UNROLL for (u32 i = 0; i < A_PIECES; i++)
            pieces[i] = *(const a_piece *)((const u8 *)(a_from + further) + opaque(a_offset[i]));
    };
    auto advance = [&]() INLINE { // stays at the end
        const u32 further = k + 2 * STEP < K ? 2 * STEP : 0;
        k += further;
        a_from += further;
        b_from += (u64)(further / 32) * B_32;
    };

    // ---- From registers to LDS
    const u32 a_to = place_of(item / PIECES, item % PIECES);
    const u32 w_to = A_BYTES + place_of(item / PARTS, part * (WEIGHTS / 8));
    const decoder codes = make_tile_decoder();
    row_unit unit;
    auto store = [&](u32 stage) INLINE {
        UNROLL for (u32 i = 0; i < A_PIECES; i++)
            *(LDS u32x4 *)(stages + a_to + stage * STAGE_BYTES + i * ITEMS * 16) = pieces[i];
        begin_scale(scale_row, scale, fetched);
        const multiplier by = make_multiplier(scale_row, scale, unit);
        UNROLL for (u32 j = 0; j < WEIGHTS / 8; j++) {
            u32 pairs[4];
            decode_scaled(codes, packed[j], by, pairs);
            *(LDS u32x4 *)(stages + (w_to ^ j * 16) + stage * STAGE_BYTES) =
                u32x4{pairs[0], pairs[1], pairs[2], pairs[3]};
        }
    };

    fetch(0);
    unit = unit_of_row<PARTS>(scale_row, part);
    store(0);
    fetch(1);

    // ---- From LDS to the matrix units
    const u32 m_wave = wave % M_WAVES * (M_TILES * SIDE), n_wave = wave / M_WAVES * ROWS;
    const u32 own = place_of(lane % SIDE, K_LANES > 1 ? lane / SIDE * FRAGMENT_PIECES : 0);
    const u32 a_at = m_wave * ROW_BYTES + own, w_at = A_BYTES + n_wave * ROW_BYTES + own;
    tile sum[M_TILES][N_TILES] = {};

    constexpr u32 SETS = AHEAD ? 2 : 1; // of fragments
    u32 a_part[SETS][M_TILES][FRAGMENT_WORDS], w_part[SETS][N_TILES][FRAGMENT_WORDS];
    // Fragments `f` of a stage, of tile t of W or of A; they take turns in the sets.
    auto load_w = [&](u32 stage, u32 f, u32 t) INLINE {
        UNROLL for (u32 i = 0; i < FRAGMENT_PIECES; i++) {
            const u32 at = w_at ^ (f * K_LANES * FRAGMENT_PIECES + i) * 16;
            spread(*(const LDS u32x4 *)(stages + at + stage * STAGE_BYTES + t * SIDE * ROW_BYTES),
                   &w_part[(stage * FRAGMENTS + f) % SETS][t][i * 4]);
        }
    };
    auto load_a = [&](u32 stage, u32 f, u32 t) INLINE {
        UNROLL for (u32 i = 0; i < FRAGMENT_PIECES; i++) {
            const u32 at = a_at ^ (f * K_LANES * FRAGMENT_PIECES + i) * 16;
            spread(*(const LDS u32x4 *)(stages + at + stage * STAGE_BYTES + t * SIDE * ROW_BYTES),
                   &a_part[(stage * FRAGMENTS + f) % SETS][t][i * 4]);
        }
    };
    auto load = [&](u32 stage, u32 f) INLINE {
        UNROLL for (u32 t = 0; t < N_TILES; t++)
            load_w(stage, f, t);
        UNROLL for (u32 i = 0; i < M_TILES; i++)
            load_a(stage, f, i);
        schedule_boundary();
    };
    // Multiplies tile i of A with all of W's, by the part of the fragments that starts at word j.
    auto multiply_tile = [&](u32 stage, u32 f, u32 j, u32 i) INLINE {
        const u32 set = (stage * FRAGMENTS + f) % SETS;
        UNROLL for (u32 t = 0; t < N_TILES; t++) {
            operand a_operand, w_operand;
            UNROLL for (u32 d = 0; d < OPERAND_WORDS; d++) {
                a_operand[d] = a_part[set][i][j + d];
                w_operand[d] = w_part[set][t][j + d];
            }
            if (K_LANES == 1 && i == 0) {
                settle<K_LANES == 1 ? M_TILES * N_TILES * TILE_VALUES : 0>(w_operand,
                                                                        set * N_TILES + t);
                UNROLL for (u32 d = 0; d < OPERAND_WORDS; d++)
                    w_part[set][t][d] = w_operand[d];
            }
            sum[i][t] = LANE_HAS_ROW ? multiply_add(w_operand, a_operand, sum[i][t])
                                     : multiply_add(a_operand, w_operand, sum[i][t]);
        }
    };
    auto multiply = [&](u32 stage, u32 f, u32 from, u32 to) INLINE {
        UNROLL for (u32 j = 0; j < FRAGMENT_WORDS; j += OPERAND_WORDS)
            UNROLL for (u32 i = from; i < to; i++)
                multiply_tile(stage, f, j, i);
        schedule_boundary();
    };
    // Loads fragments and multiplies them, with two tiles of A in registers at a time.
    auto stream = [&](u32 stage, u32 f) INLINE {
        UNROLL for (u32 t = 0; t < N_TILES; t++)
            load_w(stage, f, t);
        load_a(stage, f, 0);
        UNROLL for (u32 i = 0; i < M_TILES; i++) {
            if (i + 1 < M_TILES)
                load_a(stage, f, i + 1);
            schedule_boundary();
            UNROLL for (u32 j = 0; j < FRAGMENT_WORDS; j += OPERAND_WORDS)
                multiply_tile(stage, f, j, i);
            schedule_boundary();
        }
    };
    // Stores the next step, which is in registers, to the other stage, and asks for the one after
    // it.
    auto bring = [&](u32 stage) INLINE {
        store(1 - stage);
        if (stage == 0)
            advance();
        fetch(stage);
        schedule_boundary();
    };
    // One step. With AHEAD, operands of its last products were loaded before the barrier, and those
    // products are made behind it: they hide the latency of the next step's first operands.
    auto do_step = [&](u32 stage) INLINE {
        constexpr u32 EARLY = FRAGMENTS > 1 ? 0 : (M_TILES + 1) / 2; // of the last products
        UNROLL for (u32 f = 0; f + 1 < FRAGMENTS; f++) {
            if (AHEAD) {
                load(stage, f + 1);
                multiply(stage, f, 0, M_TILES);
            } else {
                stream(stage, f);
            }
            if (f == 0)
                bring(stage);
        }
        if (AHEAD)
            multiply(stage, FRAGMENTS - 1, 0, EARLY);
        else
            stream(stage, FRAGMENTS - 1);
        if (FRAGMENTS == 1)
            bring(stage);
        barrier();
        if (AHEAD) {
            load(1 - stage, 0);
            multiply(stage, FRAGMENTS - 1, EARLY, M_TILES);
        }
    };

    barrier();
    if (AHEAD)
        load(0, 0);
#pragma unroll 1
    for (u32 step = 0; step < STEPS; step += 2) {
        do_step(0);
        if (EVEN_STEPS || step + 1 < STEPS)
            do_step(1);
        UNROLL for (u32 i = 0; i < M_TILES; i++) UNROLL for (u32 t = 0; t < N_TILES; t++)
            computed(sum[i][t]); // or the compiler copies sums for the code behind the loop
    }

    // What each row's results are multiplied by (tile_scale); in LDS, in place of the first stage.
    constexpr bool UNITS_DIFFER = A_TYPE == F16;
    LDS float *const units = (LDS float *)stages;
    if constexpr (UNITS_DIFFER) {
        barrier();
        if (part == 0)
            units[item / PARTS] = unit.results;
        barrier();
    }
    auto unit_of = [&](u32 column) INLINE { return UNITS_DIFFER ? units[column] : CODE_UNIT; };
    auto bias_of = [&](u32 column) INLINE {
#if BIAS
        return (float)bias[W_ROW(WHOLE_GROUPS ? n0 + column : minimum(n0 + column, N - 1))];
#else
        return 0.0f;
#endif
    };
#if GLU
    typedef float finished; // one of a pair, before the two become a column
#define FINISHED(value) (value)
#else
    typedef c_element finished;
#define FINISHED(value) rounded<c_element>(value, TRUNCATE)
#endif
    auto result = [&](float value, float its_unit, float its_bias, float weight) INLINE
        -> finished {
        const float scaled = UNITS_DIFFER || CODE_UNIT != 1.0f ? value * its_unit : value;
        const float whole = BIAS ? scaled + its_bias : scaled;
        return FINISHED(MOE && !GLU ? whole * weight : whole);
    };
    // Of two rows of W, a column of C.
    auto column = [&](float value, float weight) INLINE {
        return rounded<c_element>(MOE ? value * weight : value, TRUNCATE);
    };

    // ---- Results, row of A by row of A: a row's place and bounds are computed once
    c_element *const c_tile = c + (MOE ? 0 : (u64)(first + m0 + m_wave) * ldc) + C_COLUMN(n0) +
                              C_COLUMN(n_wave);
    // Row i of the wave's rows of C, and what its results are multiplied by.
    auto c_row = [&](u32 i) INLINE {
        return c_tile + (MOE ? C_ROW(m0 + m_wave + i) : i) * ldc;
    };
    auto weight_of_row = [&](u32 i) INLINE { return ROUTED(1.0f, C_ROW(m0 + m_wave + i)); };
    if constexpr (LANE_HAS_ROW) {
        constexpr u32 COLUMNS = C_COLUMN(RUN); // of C
        typedef c_element c_run __attribute__((ext_vector_type(COLUMNS)));
        const u32 down = lane % SIDE;
        const bool runs_aligned = ldc % COLUMNS == 0;
        float own_unit[N_TILES][TILE_VALUES], own_bias[N_TILES][TILE_VALUES];
        UNROLL for (u32 t = 0; t < N_TILES; t++) UNROLL for (u32 v = 0; v < TILE_VALUES; v++) {
            const u32 column = n_wave + t * SIDE + tile_row(v, lane);
            own_unit[t][v] = unit_of(column);
            own_bias[t][v] = bias_of(column);
        }
        UNROLL for (u32 i = 0; i < M_TILES; i++) {
            if (!HAS_ROW(m0 + m_wave + i * SIDE + down))
                continue;
            c_element *const row = c_row(i * SIDE + down);
            const float weight = weight_of_row(i * SIDE + down);
            UNROLL for (u32 r = 0; r < N_TILES * TILE_VALUES; r += RUN) {
                const u32 t = r / TILE_VALUES, from = r % TILE_VALUES;
                const u32 across = t * SIDE + tile_row(from, lane), n_run = n0 + n_wave + across;
                c_run run;
#if GLU
                float value[RUN];
                UNROLL for (u32 v = 0; v < RUN; v++)
                    value[v] = result(sum[i][t][from + v], own_unit[t][from + v],
                                      own_bias[t][from + v], weight);
                UNROLL for (u32 v = 0; v < COLUMNS; v++)
                    run[v] = column(activated(value[2 * v], value[2 * v + 1]), weight);
#else
                UNROLL for (u32 v = 0; v < RUN; v++)
                    run[v] = result(sum[i][t][from + v], own_unit[t][from + v],
                                    own_bias[t][from + v], weight);
#endif
                if (runs_aligned && (WHOLE_GROUPS || n_run + RUN <= N))
                    *(c_run *)(row + C_COLUMN(across)) = run;
                else
                    UNROLL for (u32 v = 0; v < COLUMNS; v++)
                        if (WHOLE_GROUPS || n_run + v * (RUN / COLUMNS) < N)
                            row[C_COLUMN(across) + v] = run[v];
            }
        }
    } else {
        const u32 across = lane % 16;
        float own_unit[N_TILES], own_bias[N_TILES];
        UNROLL for (u32 t = 0; t < N_TILES; t++) {
            own_unit[t] = unit_of(n_wave + t * 16 + across);
            own_bias[t] = bias_of(n_wave + t * 16 + across);
        }
        UNROLL for (u32 i = 0; i < M_TILES; i++) UNROLL for (u32 v = 0; v < TILE_VALUES; v++) {
            const u32 down = i * 16 + tile_row(v, lane);
            if (!HAS_ROW(m0 + m_wave + down))
                continue;
            c_element *const row = c_row(down) + C_COLUMN(across);
            const float weight = weight_of_row(down);
            UNROLL for (u32 t = 0; t < N_TILES; t++)
                if (WHOLE_GROUPS || n0 + n_wave + t * 16 + across < N) {
                    const finished own = result(sum[i][t][v], own_unit[t], own_bias[t], weight);
#if GLU
                    const float both = activated_of_two(own);
                    if (HAS_COLUMN(across))
                        row[C_COLUMN(t * 16)] = column(both, weight);
#else
                    row[t * 16] = own;
#endif
                }
        }
    }
}
