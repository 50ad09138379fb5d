/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx1151, M = 33 to 64
// op=gemm wq=int4 group=128 scale=f16 zero=none a=f16 c=f32 n=1000 k=4096 bias=1 layout=k8 round=rne

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

#define SYMBOL quern_int4_f16_n1000_k4096_g128_m64 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 1000;            // rows of W
constexpr unsigned K = 4096;            // columns of W
#define GLU 0                           // whether two rows of W become a column of C
#define MOE 0                           // whether slots name the rows, and blocks the expert
constexpr unsigned BLOCK = 128;         // weights along K that share a scale
#define WORD_ORDER K8                   // of the weights in a word
#define WORD_BLOCKS false               // whether b is [K/32,N] blocks of 4
#define SCALE_TYPE F16                  // elements of scales
#define ZERO ZERO_NONE                  // what zero points are
#define HAS_ZEROS 0                     // whether there are any
#define A_TYPE F16                      // elements of A
#define C_TYPE F32                      // elements of C and of a bias
#define TRUNCATE false                  // whether f32 becomes bf16 by cutting
#define PRODUCTS MATRIX                 // how pairs are multiplied
#define PAIRED 0                        // whether those that sum A are issued in pairs,
#define PAIRING OF_W                    // what is reordered where pairs differ
#define STAGED true                     // whether W goes through LDS
#define SCALED true                     // whether weights are multiplied, not codes
#define CUT false                       // whether they are bf16 that is cut off
#define EXACT true                      // whether codes are decoded as q - z
#define PLAIN_SUM false                 // whether A is summed
#define SHARED_SUMS false               // whether once for the workgroup
#define BIAS 1                          // whether a bias is added
constexpr unsigned M_TILE = 64;         // rows of A computed at once

constexpr unsigned WAVE = 32;           // lanes
constexpr unsigned WAVES = 4;           // in a workgroup
constexpr unsigned ROWS = 32;           // rows of W that a wave works on
constexpr unsigned SPLIT_K = 4;         // waves that share those rows along K
constexpr unsigned CHUNK = 32;          // weights of a row for one lane in one load
constexpr unsigned UNITS = 2;           // loads of a step for each 16 rows
constexpr unsigned SPAN = 128;          // weights of a row that are summed unscaled
constexpr unsigned SHARED_BYTES = 18432; // of LDS
constexpr unsigned WAVES_PER_SIMD = 6;  // that registers must leave room for
constexpr unsigned PHASES = 1;          // 1: groups start apart along K
#define SLICES_FIRST true               // whether slices of A are workgroup id x
#define SKEWED false                    // whether the last group of rows is empty
#define WEIGHTS_ONCE false              // whether they bypass the caches

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

// ---- prelude/tiles ----
// What kernels on matrix units do with tiles of 16 by 16 results: a wave has N_TILES of them for
// each of the M_TILES tiles of A, and SPLIT_K waves have sums of the same ones.

constexpr u32 SPREAD_MAX = K_LANES == 1 ? 4 : 2; // tiles of A
constexpr u32 N_TILES = ROWS / 16, M_TILES = (M_TILE + 15) / 16;
// A slice of 8 rows of A leaves room in a tile of 16: each row is put in twice, with different k.
// This is how often a tile has each row of A, 1 or 2; a result is the sum of so many of the tile's
// values.
constexpr u32 ABREAST = M_TILES * 16 / M_TILE;
constexpr u32 ROWS_PER_GROUP = WAVES / SPLIT_K * ROWS;
#define GROUPS ((N + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP)
constexpr bool WHOLE_GROUPS = KNOWN && N % ROWS_PER_GROUP == 0;

// Has a tile's sums computed here, value by value. If the compiler took the tile for one value of
// many registers, FMAs would write to a copy of it, by instructions that cannot be issued in pairs.
DEVICE void computed_values(tile &sums)
{
    UNROLL for (u32 v = 0; v < TILE_VALUES; v++) {
        float value = sums[v];
        computed(value);
        sums[v] = value;
    }
}

// A scale for all values of a tile. Dual issue wants operands in different register banks: so every
// other value takes a copy of the scale. With many tiles there is none: the compiler cannot place
// it well.
DEVICE tile spread_scale(float scale)
{
    if constexpr (M_TILES > SPREAD_MAX || TILE_VALUES != 8)
        return scale;
    computed(scale); // or each product would do its conversion from f16, or its negation, again
    float copy = scale;
    computed(copy);
    tile all = scale;
    UNROLL for (u32 v = 1; v < TILE_VALUES; v += 2)
        all[v] = copy;
    return all;
}

// Adds up the tiles of the waves that share rows of W, and stores the results. Each wave puts its
// tiles into LDS, [row of A][row of W], as many at a time as fit into SHARED_BYTES; then those
// waves sum them, in the order of waves, and store what `finish` makes of a sum for row n of W and,
// where slots name it, a row of C. The halves of a wave write two rows of A at once: in every other
// row 16 columns are swapped, so that the two meet no bank.
template <u32 SHARED_BYTES, class ELEMENT, class FINISH>
DEVICE void store_tiles(const tile (&total)[M_TILES][N_TILES], LDS float *partial, u32 wave,
                        u32 lane, u32 n0, u32 m0, ELEMENT *c, u32 m, u32 first, u64 ldc,
                        SLOT_PARAMETER FINISH finish)
{
    constexpr u32 ROOM = SHARED_BYTES / (WAVES * 1024); // tiles; pieces have 1, 2 or 4
    constexpr u32 ROUND_TILES = minimum(N_TILES, ROOM < 2 ? 1 : ROOM < 4 ? 2 : 4);
    static_assert(ROOM && N_TILES % ROUND_TILES == 0, "pieces are whole");
    constexpr u32 ROUND_ROWS = ROUND_TILES * 16; // of W
    constexpr u32 WAVE_FLOATS = 16 * ROUND_ROWS;
    constexpr u32 RESULTS = WAVE_FLOATS / ABREAST;
    constexpr bool SWAPPED = HALF_BIT || ROUND_ROWS > 16;
    constexpr u32 MEMBERS = SPLIT_K * WAVE; // lanes that share rows of W
    const u32 member = wave % SPLIT_K * WAVE + lane;
    const u32 row = member / ROUND_ROWS, n = n0 + member % ROUND_ROWS;
    ELEMENT *const c_start = MOE ? c : c + (u64)C_ROW(m0 + row) * ldc + C_COLUMN(n);
    const u32 mine = tile_row(0, lane) * ROUND_ROWS + lane % 16;
    const u32 other = mine ^ (SWAPPED ? lane / 16 % 2 * 16 : 0);
    UNROLL for (u32 i = 0; i < M_TILES; i++)
        UNROLL for (u32 round = 0; round < N_TILES; round += ROUND_TILES) {
            barrier();
            UNROLL for (u32 j = 0; j < ROUND_TILES * TILE_VALUES; j++) {
                const u32 t = j / TILE_VALUES, v = j % TILE_VALUES;
                const u32 place = tile_row(v, 0) * ROUND_ROWS + t * 16, swap = place & 16;
                partial[wave * WAVE_FLOATS + (swap ? other ^ 16 : other) + place - swap] =
                    total[i][round + t][v];
            }
            barrier();
            UNROLL for (u32 o = 0; o < RESULTS; o += MEMBERS) {
                const u32 down = o / ROUND_ROWS, across = round * 16 + o % ROUND_ROWS;
                const u32 slot = m0 + i * 16 + row + down; // of some lanes beyond the tile's
                if ((!MOE && slot >= m) || (!WHOLE_GROUPS && n + across >= N) ||
                    (MEMBERS > RESULTS && member >= RESULTS) || (MOE && !HAS_ROW(slot)))
                    continue;
                float result = 0;
                UNROLL for (u32 part = 0; part < ABREAST; part++) {
                    const u32 place = row + down + part * M_TILE; // in the tile
                    const u32 swap = SWAPPED ? place >> HALF_BIT & 1 : 0;
                    const LDS float *const sums =
                        partial + (wave / SPLIT_K * SPLIT_K * WAVE_FLOATS + part * RESULTS) +
                        ((o + member) ^ swap * 16);
                    UNROLL for (u32 q = 0; q < SPLIT_K; q++)
                        result = part + q ? result + sums[q * WAVE_FLOATS] : sums[0];
                }
                const ELEMENT finished = finish(result, n + across, MOE ? C_ROW(slot) : 0);
                if (HAS_COLUMN(n))
                    c_start[MOE ? C_ROW(slot) * ldc + C_COLUMN(n) + C_COLUMN(across)
                                : (i * 16 + down) * ldc + C_COLUMN(across)] = finished;
            }
        }
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

// ---- decode/int4_exact ----
// Decodes int4 codes to q - z, from which CODE_BIAS and the zero point have been taken off, or to
// weights. q - z is exact in f16, by one packed addition for two codes, and in bf16, where it is
// made in f32 and cut off. A weight, (q - z) * s or (q - 8) * s - zs, is made in f32 and rounded
// once by an instruction of its own; where q - z and the scale are f16, by one packed operation;
// CUT, as in decode/int4_mix.

// How codes become f32 on processors with SDWA, for bf16. BY_SIXTEENTHS: an instruction converts a
// signed nibble, in any byte, to sixteenths. It makes (q - 8) / 16 of codes whose upper bit is
// flipped; results are multiplied by sixteen in the end.
// BY_FP8, where each group has a zero point, or weights are scaled: two codes at once are converted
// as 8-bit floats, whose smallest sixteen values, 0 to 15, are multiples of the smallest.
// BY_MIX, where the processor cannot convert 8-bit floats: codes become f16 by masks, and an
// instruction converts an f16 to f32 and subtracts the zero point.
constexpr float FP8_UNIT = HAS_FP8_FNUZ ? 1024 : 512; // the smallest 8-bit float is 1 / FP8_UNIT
constexpr bool F32_CODES = A_TYPE == BF16 && HAS_SDWA && EXACT && !CUT;
constexpr bool BY_FP8 = F32_CODES && HAS_FP8_CVT && (SCALED || ZERO == ZERO_U8);
constexpr bool BY_MIX = F32_CODES && !BY_FP8 && !SCALED && ZERO == ZERO_U8;
constexpr bool BY_SIXTEENTHS = F32_CODES && !BY_FP8 && !BY_MIX;
constexpr float CODE_UNIT = BY_FP8 ? FP8_UNIT : BY_SIXTEENTHS ? 16 : 1;
constexpr float CODE_MIDDLE = BY_SIXTEENTHS ? 8 : 0; // the conversion has subtracted it already

// What is added to decoded codes to give q - z.
struct exact_zero {
    u32 even, odd;   // in f16: -(bias + z), for the even and the odd pairs of a word
    float wide;      // in f32: what is left of -z, in units of CODE_UNIT
    float low, high; // BY_MIX: what even and odd would be, in f32
};
DEVICE u32 halves(f16 low, f16 high) { return __builtin_bit_cast(u32, f16x2{low, high}); }
DEVICE u32 add_halves(u32 a, u32 b)
{
    return __builtin_bit_cast(u32,
                              __builtin_bit_cast(f16x2, a) + __builtin_bit_cast(f16x2, b));
}

// For the zero point in byte `index` of `word`; without zero points that is 8.
DEVICE exact_zero make_exact_zero(u32 word, u32 index)
{
    float z = (float)(word >> 8 * index & 0xff);
    if (A_TYPE == BF16 && !BY_SIXTEENTHS)
        computed(z); // of a constant the compiler would make an integer subtraction for each code
    const float wide = (CODE_MIDDLE - z) / CODE_UNIT;
    // -(1024 + z), twice, whose last place is one
    const u32 low = __builtin_amdgcn_perm(0xe4e4e4e4, word, 0x04000400 + index * 0x10001);
    if constexpr (BY_MIX)
        return {0, 0, 0, -1024.0f - z, -64.0f - z};
    else if constexpr (BYTE_PAIRS)
        return {add_halves(low, halves(0, 960)), add_halves(low, halves(0, 960)), wide};
    else
        return {low, add_halves(low, halves(960, 960)), wide};
}

// q - z of the word's pairs, in place.
DEVICE void subtract_zero(u32 (&w)[4], const exact_zero &zero)
{
    UNROLL for (u32 p = 0; p < 4; p++) {
        w[p] = add_halves(w[p], p % 2 ? zero.odd : zero.even);
    }
}

// A word's codes, each as a byte: conversions take any byte of a register, but a nibble only at a
// byte's lower end. computed() keeps the compiler from taking nibbles out one by one.
struct code_bytes {
    u32 even, odd;
};
DEVICE code_bytes bytes_of(u32 word)
{
    code_bytes c = {word & 0x0f0f0f0f, word >> 4 & 0x0f0f0f0f};
    if constexpr (BY_SIXTEENTHS) {
        c.even = word ^ 0x88888888;
        computed(c.even);
        c.odd = c.even >> 4;
    }
    computed(c.even);
    computed(c.odd);
    return c;
}
// A sixteenth of the signed number in the four low bits, by a builtin rather than assembly, because
// the compiler counts no wait states between a matrix instruction and assembly. Before LLVM 21
// there is no such builtin: two shifts, a conversion and a product make the same value.
DEVICE float sixteenths(u32 nibble)
{
#if __has_builtin(__builtin_amdgcn_cvt_off_f32_i4)
    return __builtin_amdgcn_cvt_off_f32_i4(nibble);
#else
    return (float)((int)(nibble << 28) >> 28) * 0.0625f;
#endif
}
DEVICE float code_of(u32 bytes, u32 byte)
{
    const u32 one = bytes >> 8 * byte & 0xff; // part of the conversion: it selects the byte
    return BY_SIXTEENTHS ? sixteenths(one) : (float)one;
}
DEVICE f32x2 code_pair(const code_bytes &c, u32 p)
{
#if HAS_FP8_CVT // not every processor knows the instruction
    if constexpr (BY_FP8) { // two neighbouring bytes
        const u32 from = p / 2 ? c.odd : c.even;
        return p % 2 ? __builtin_amdgcn_cvt_pk_f32_fp8(from, true)
                     : __builtin_amdgcn_cvt_pk_f32_fp8(from, false);
    }
#endif
    if constexpr (BYTE_PAIRS)
        return {code_of(c.even, p), code_of(c.odd, p)};
    const u32 from = p % 2 ? c.odd : c.even;
    return {code_of(from, p / 2), code_of(from, p / 2 + 2)};
}

// Pair p of a word, in f32. `made(i)` gives the pair that code_pair makes for i; BY_FP8 that is two
// neighbouring bytes, so that pair p is put together from two of them.
template <class MADE> DEVICE f32x2 pair_of_codes(u32 p, MADE made)
{
    if constexpr (BY_FP8) {
        const u32 n = nibble_of_pair(p, 0), m = nibble_of_pair(p, 1);
        return {made(n % 2 * 2 + n / 4)[n / 2 % 2], made(m % 2 * 2 + m / 4)[m / 2 % 2]};
    }
    return made(p);
}

// The factor of one is hidden from the compiler, so that an instruction adds to an f16.
DEVICE void decode_by_mix(const decoder &d, u32 word, const exact_zero &zero, u32 (&w)[4])
{
    u32 codes[4];
    decode_halves(d, word, codes);
    auto exact = [&](u32 n) INLINE {
        return mix(codes[n % 4], n / 4, opaque_scalar(1.0f), n % 2 ? zero.high : zero.low);
    };
    UNROLL for (u32 p = 0; p < 4; p++)
        w[p] = cut(exact(nibble_of_pair(p, 0)), exact(nibble_of_pair(p, 1)));
}

// q - z of a word, in the pairs of decode_word.
DEVICE void decode_exactly(const decoder &d, u32 word, const exact_zero &zero, u32 (&w)[4])
{
    if constexpr (A_TYPE == F16) {
        decode_word(d, word, w);
        subtract_zero(w, zero);
    } else if constexpr (BY_MIX) {
        decode_by_mix(d, word, zero, w);
    } else {
        const code_bytes codes = bytes_of(word);
        auto exact = [&](u32 i) INLINE {
            return ZERO == ZERO_NONE && BY_SIXTEENTHS ? code_pair(codes, i)
                                                      : code_pair(codes, i) + zero.wide;
        };
        UNROLL for (u32 p = 0; p < 4; p++) {
            const f32x2 pair = pair_of_codes(p, exact);
            w[p] = cut(pair.x, pair.y);
        }
    }
}

// What makes weights of a word's codes, in the pairs of decode_word.
struct weight_scale {
    exact_zero zero;
    u32 packed, packed_off; // scale and off as pairs of f16, where the scale is f16
    float scale, off; // a weight is code * scale + off
    cut_scale cut;
};
constexpr bool PACKED_SCALE = A_TYPE == F16 && SCALE_TYPE == F16;

DEVICE weight_scale make_weight_scale(u32 scale_bits, u32 zero_bits)
{
    weight_scale s = {};
    s.scale = scale_value(scale_bits);
    const u32 byte = ZERO == ZERO_U8 ? zero_bits & 0xff : 8;
    const float zero = (float)byte;
    if constexpr (A_TYPE == F16) {
        s.zero = make_exact_zero(byte, 0);
        s.packed = scale_bits << 16 | (scale_bits & 0xffff);
        s.packed_off = (zero_bits << 16 | (zero_bits & 0xffff)) ^ 0x80008000;
        s.off = ZERO == ZERO_SCALED ? -zero_value(zero_bits) : 0.0f;
    } else if constexpr (CUT) {
        s.cut = make_cut_scale(s.scale, zero, ZERO == ZERO_SCALED ? -zero_value(zero_bits) : 0);
    } else {
        s.off = (CODE_MIDDLE - zero) / CODE_UNIT * s.scale; // exact, but for scales in f32
        if (ZERO == ZERO_SCALED)
            s.off -= zero_value(zero_bits) / CODE_UNIT;
        s.scale = s.scale == s.scale ? s.scale : __builtin_bit_cast(float, 0x7fc00000);
        s.off = s.off == s.off ? s.off : __builtin_bit_cast(float, 0x7fc00000);
    }
    return s;
}

static_assert(HAS_CVT_PK_BF16 || !SCALED || CUT || A_TYPE == F16, "one instruction rounds two");
DEVICE void dequantise_word(const decoder &d, u32 word, const weight_scale &s, u32 (&w)[4])
{
    if constexpr (A_TYPE == F16) {
        decode_word(d, word, w);
        subtract_zero(w, s.zero);
        UNROLL for (u32 p = 0; p < 4; p++) {
            const u32 codes = w[p], scale = s.packed;
            const f16x2 q = __builtin_bit_cast(f16x2, codes);
            const u32 off = s.packed_off;
            if constexpr (PACKED_SCALE && ZERO == ZERO_SCALED)
                w[p] = __builtin_bit_cast(
                    u32, __builtin_elementwise_fma(q, __builtin_bit_cast(f16x2, scale),
                                                   __builtin_bit_cast(f16x2, off)));
            else if constexpr (PACKED_SCALE)
                w[p] = __builtin_bit_cast(u32, q * __builtin_bit_cast(f16x2, scale));
            else
                w[p] = halves((f16)__builtin_fmaf((float)q.x, s.scale, s.off),
                              (f16)__builtin_fmaf((float)q.y, s.scale, s.off));
        }
    } else if constexpr (CUT) {
        decode_and_cut(d, word, s.cut, w);
    } else {
        const code_bytes codes = bytes_of(word);
        auto weights = [&](u32 i) INLINE {
            const f32x2 scale = s.scale, off = s.off;
            return __builtin_elementwise_fma(code_pair(codes, i), scale, off);
        };
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = __builtin_bit_cast(
                u32, __builtin_convertvector(pair_of_codes(p, weights), bf16x2));
    }
}

// ---- family/mma_int4 ----
// C[m,n] = sum over k of A[m,k] * W[n,k] (+ bias[n]) for int4 W, on matrix units.
//
// A matrix instruction multiplies a tile of 16 rows of W with a tile of 16 rows of A, however many
// of those there are, so that every M up to 16 costs the same. A wave works on ROWS rows of W and
// M_TILE rows of A at once. The steps of a row are dealt out in turn to SPLIT_K waves, whose sums
// meet in LDS in a fixed order. Which k an instruction calls its own does not matter as long as
// both operands agree.
//
// Up to eight rows of A may each be in their tile twice (ABREAST): one copy meets the weights of
// one half of the lanes, the other those of the other half, and A is zero in the lanes of the half
// that a copy does not meet. Each result is then of one half of a step, and is scaled for half as
// many groups.
//
// Weights are decoded in registers and go straight into the instruction. Products of a group are
// summed unscaled and the scale is applied to that sum. What is multiplied is q - z (EXACT), or in
// bf16, where that takes more instructions, 128 + q. The plain sum of A then takes off what is too
// much:
//
//     sum of a * (q - z) * s = s * sum of a * (128 + q) - (128 + z) * s * sum of a
//
// The same matrix instruction makes the plain sum, with a tile of ones; or the workgroup makes it
// once for all of its rows of W, in LDS (SHARED_SUMS), and a span's sums start from it.
//
// STAGED: decoded weights go through LDS, so that no two lanes decode the same ones, also where the
// instruction wants them in both halves of a wave. SCALED: weights are scaled as they are decoded,
// so that no sum has to be scaled and no sum of A is needed; but each weight is rounded to A's
// type.

typedef element_type<A_TYPE>::type a_element;
typedef element_type<C_TYPE>::type c_element;

constexpr u32 LOAD_LANES = STAGED ? WAVE / 16 : K_LANES; // lanes that share a row of a load
constexpr u32 PART_LANES = K_LANES / ABREAST; // lanes with parts of a row that are summed
// Numbers of weights of a row. UNIT: what one load of the wave covers in each of the ABREAST parts
// of a step; LANE_UNIT: what a lane of that gives to instructions; PART: of a part of a step; STEP:
// of a step, which divides a K that is KNOWN. If it is not, the last step of a row may reach back
// into the one before it, and the spans that were added there count for nothing.
constexpr u32 UNIT = CHUNK * LOAD_LANES / ABREAST, LANE_UNIT = UNIT / PART_LANES;
constexpr u32 PART = UNIT * UNITS, STEP = PART * ABREAST;
#define STEPS ((K + STEP - 1) / STEP)
#define TRIPS ((STEPS + SPLIT_K - 1) / SPLIT_K) // steps of one wave
constexpr bool EVEN_TRIPS = KNOWN && STEPS % SPLIT_K == 0;
// Weights of a SPAN share a scale. Where weights are SCALED a unit need not lie in one group: lanes
// of a span may have other scales.
constexpr u32 SPANS = PART / SPAN;
// Blocks whose scales, or zero points, are in one word.
constexpr bool OWN_BLOCKS = KNOWN && SPAN == BLOCK;
constexpr u32 SCALES = OWN_BLOCKS ? blocks_in_word(sizeof(scale_bits), BLOCKS, SPANS) : 1;
constexpr u32 ZEROS = OWN_BLOCKS ? blocks_in_word(sizeof(zero_bits), BLOCKS, SPANS) : 1;
constexpr u32 WORDS = CHUNK / 8;
#define UNIT_BYTES (WORD_BLOCKS ? UNIT / 32 * (u64)N * 16 : UNIT / 2)
static_assert(!WORD_BLOCKS || UNIT % 32 == 0 || UNITS == 1, "units lie at the same distance");

// A batch is what a lane multiplies between two waits: at least eight values of a row, 16 bytes of
// A. Rows of A start at multiples of 4 bytes.
constexpr u32 BATCH = K_OF_LANE > 8 ? K_OF_LANE : 8;
constexpr u32 BATCHES = UNITS * LANE_UNIT / BATCH, SPAN_BATCHES = BATCHES / SPANS;
constexpr u32 UNIT_BATCHES = BATCHES / UNITS;
constexpr u32 BATCH_WORDS = BATCH / 2, OPERAND_WORDS = K_OF_LANE / 2;
constexpr u32 A_RING = minimum(BATCHES, M_TILES > 1 || BATCH > 8 ? 2 : 4); // held at once
typedef u32 a_piece __attribute__((ext_vector_type(4), aligned(4)));

// Rows of decoded weights in LDS lie 16 bytes further apart than they are long, so that eight
// lanes that read 16 bytes each meet all banks.
constexpr u32 ROW_PIECES = UNIT / 8 + 1; // of eight weights
constexpr u32 STAGED_PIECES = STAGED ? ROWS * ROW_PIECES : 0;

// Shared sums of A are kept multiplied by this: where there are no zero points, by all that has to
// be taken off, CODE_BIAS and the 8 that stands for a zero point; else as they are.
constexpr bool STARTS_AT_SUMS = SHARED_SUMS && !EXACT && ZERO != ZERO_SCALED;
constexpr float SUM_FACTOR = STARTS_AT_SUMS && ZERO == ZERO_NONE ? -(CODE_BIAS + 8) : 1;

// ---- plain sums of A, once for all rows of W of a workgroup ----

// Each wave makes the sums of some spans. SHARERS lanes sum a row together, taking its pieces of
// eight values in turn; so WAVE / SHARERS rows are summed at once, of SPANS_ASIDE spans side by
// side if A has fewer rows. By MFMA the sharers lie 16 lanes apart, as the instruction wants; by
// dot products they are neighbours.
constexpr bool SUMS_BY_MATRIX = HAS_MFMA;
constexpr u32 SUM_SPANS = SHARED_SUMS ? K / SPAN : 1;
constexpr u32 PIECES = SPAN / 8, SHARERS = SUMS_BY_MATRIX ? 4 : 2;
constexpr u32 SUM_LOADS = SHARED_SUMS ? PIECES / SHARERS : 1; // spans of others may have 8 values
constexpr u32 SUM_ROWS = minimum(WAVE / SHARERS, M_TILE), ROW_BLOCKS = M_TILE / SUM_ROWS;
constexpr u32 SPANS_ASIDE = WAVE / SHARERS / SUM_ROWS, WAVES_SPANS = WAVES * SPANS_ASIDE;
constexpr u32 SUM_TRIPS = (SUM_SPANS + WAVES_SPANS - 1) / WAVES_SPANS; // of a wave
static_assert(SUM_SPANS % SPANS_ASIDE == 0 || !SHARED_SUMS, "a wave has all of its spans or none");
constexpr u32 SUM_MOST = 16 / minimum(ROW_BLOCKS * SUM_LOADS, 16); // whose loads are asked for
constexpr u32 SUM_ROUNDS = (SUM_TRIPS + SUM_MOST - 1) / SUM_MOST;
constexpr u32 AT_ONCE = (SUM_TRIPS + SUM_ROUNDS - 1) / SUM_ROUNDS;
constexpr bool EVEN_SUMS = SUM_SPANS % (AT_ONCE * WAVES_SPANS) == 0;

// Where a row of A's sum stands among those of its tile: in the order in which a lane of the matrix
// instruction has the values of a result.
DEVICE u32 place_of_row(u32 row)
{
    return HALF_BIT ? row : row / 16 * 16 + row % 2 * 8 + row % 16 / 2;
}

DEVICE operand make_ones()
{
    operand ones;
    UNROLL for (u32 d = 0; d < OPERAND_WORDS; d++)
        ones[d] = A_TYPE == F16 ? 0x3c003c00 : 0x3f803f80;
    return ones;
}

// Sums the pieces that the lanes hold, of SUM_ROWS rows and SPANS_ASIDE spans, and puts the sums
// times SUM_FACTOR into their places from `sums` on. `factors`: that factor as a pair of A's type,
// twice.
DEVICE void add_up(const a_piece (&piece)[SUM_LOADS], u32x2 factors, LDS float *sums, u32 lane)
{
#if HAS_MFMA && !HAS_MFMA_WIDE_K
    // first a lane's own values, by the 4x4 instruction, which takes a quarter of the cycles or
    // half of them; then those of the four lanes of a row
    f32x4 own = 0.0f;
    UNROLL for (u32 i = 0; i < SUM_LOADS; i++)
        UNROLL for (u32 j = 0; j < 4; j += 2) {
            const u32x2 values = {piece[i][j], piece[i][j + 1]}, ones = make_ones();
            if constexpr (A_TYPE == F16)
                own = __builtin_amdgcn_mfma_f32_4x4x4f16(__builtin_bit_cast(f16x4, ones),
                                                         __builtin_bit_cast(f16x4, values), own, 0,
                                                         0, 0);
            else
                own = __builtin_amdgcn_mfma_f32_4x4x4bf16_1k(__builtin_bit_cast(i16x4, ones),
                                                             __builtin_bit_cast(i16x4, values),
                                                             own, 0, 0, 0);
        }
    const f32x4 sum = __builtin_amdgcn_mfma_f32_16x16x4f32(own.x, 1.0f, f32x4{}, 0, 0, 0);
    *(LDS f32x4 *)(sums + lane / 16 * 4) = sum * SUM_FACTOR;
#elif HAS_MFMA
    tile sum = 0.0f;
    UNROLL for (u32 i = 0; i < SUM_LOADS; i++)
        UNROLL for (u32 j = 0; j < 4; j += OPERAND_WORDS) {
            operand values;
            UNROLL for (u32 d = 0; d < OPERAND_WORDS; d++)
                values[d] = piece[i][j + d];
            sum = multiply_add(values, make_ones(), sum);
        }
    *(LDS f32x4 *)(sums + lane / 16 * 4) = sum * SUM_FACTOR;
#elif PAIRED
    f32x2 both = 0.0f;
    computed(both);
    float sum[] = {both.x, both.y};
    UNROLL for (u32 i = 0; i < SUM_LOADS; i++) UNROLL for (u32 d = 0; d < 4; d += 2) {
        const u32 first = piece[i][d], second = piece[i][d + 1];
        dual_dot2(sum[0], first, factors.x, sum[1], second, factors.y);
    }
    float all = sum[0] + sum[1];
    all += across<0>(all, lane);
    const u32 own = lane / SHARERS;
    sums[own / SUM_ROWS * M_TILE + place_of_row(own % SUM_ROWS)] = all;
#else
    static_assert(!SHARED_SUMS, "dot products that sum A are issued in pairs");
#endif
}

// Makes all shared sums of A, [span][row of A]; `row_of(i)` is where row i starts.
template <class ROW> DEVICE void make_sums(LDS float *sums, u32 wave, u32 lane, ROW row_of)
{
    const u32 own = SUMS_BY_MATRIX ? lane % 16 : lane / SHARERS;
    const u32 part = SUMS_BY_MATRIX ? lane / 16 : lane % SHARERS;
    const u8 *row[ROW_BLOCKS];
    UNROLL for (u32 r = 0; r < ROW_BLOCKS; r++)
        row[r] = row_of(r * SUM_ROWS + own % SUM_ROWS) + own / SUM_ROWS * (SPAN * 2) + part * 16;
    const a_element factor = SUM_FACTOR; // exact
    const a_element __attribute__((ext_vector_type(2))) pair = factor;
    u32x2 factors = __builtin_bit_cast(u32, pair);
    if (!SUMS_BY_MATRIX)
        computed(factors); // in two registers, for dual issue
#pragma unroll 1
    for (u32 span = wave * SPANS_ASIDE; span < SUM_SPANS; span += AT_ONCE * WAVES_SPANS) {
        a_piece piece[AT_ONCE][ROW_BLOCKS][SUM_LOADS];
        UNROLL for (u32 j = 0; j < AT_ONCE; j++) UNROLL for (u32 r = 0; r < ROW_BLOCKS; r++) {
            const u32 its = span + j * WAVES_SPANS, last = SUM_SPANS - SPANS_ASIDE;
            const u8 *const at = row[r] + (EVEN_SUMS ? its : minimum(its, last)) * (SPAN * 2);
            UNROLL for (u32 i = 0; i < SUM_LOADS; i++)
                piece[j][r][i] = *(const a_piece *)(at + i * SHARERS * 16);
        }
        UNROLL for (u32 j = 0; j < AT_ONCE; j++) UNROLL for (u32 r = 0; r < ROW_BLOCKS; r++)
            if (EVEN_SUMS || j == 0 || span + j * WAVES_SPANS < SUM_SPANS)
                add_up(piece[j][r], factors,
                       sums + (span + j * WAVES_SPANS) * M_TILE + place_of_row(r * SUM_ROWS), lane);
    }
}

// A factor for all values of a tile, in two neighbouring registers, which are of different banks.
// Does what spread_scale does, but better where only products are issued in pairs.
DEVICE tile spread_factor(float factor)
{
    f32x2 both = factor;
    if (TILE_VALUES == 8)
        computed(both);
    tile all;
    UNROLL for (u32 v = 0; v < TILE_VALUES; v++)
        all[v] = both[v % 2];
    return all;
}

DEVICE tile take_sums(const LDS float *from)
{
    tile sums;
    UNROLL for (u32 v = 0; v < TILE_VALUES; v += 4) {
        const f32x4 four = *(const LDS f32x4 *)(from + v);
        UNROLL for (u32 d = 0; d < 4; d++)
            sums[v + d] = four[d];
    }
    return sums;
}

KERNEL WORKGROUP(WAVES * WAVE, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const a_element *__restrict a, const u8 *__restrict b, SCALE_OPERANDS,
#if BIAS
            const c_element *__restrict bias,
#endif
            SLOT_OPERANDS c_element *__restrict c, u32 m, u32 first, u64 lda, u64 ldc)
{
    __attribute__((shared)) static u32x4 shared_memory[SHARED_BYTES / sizeof(u32x4)];

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
    const decoder decoding = BY_MIX || CUT ? make_mix_decoder() : make_decoder();

    // Steps begin at the phase, and go on at the row's beginning when they reach its end.
    const u32 phase = PHASES ? first_step(group, STEPS) : 0;
    u32 step = wave % SPLIT_K;
    auto start_of = [&](u32 s) INLINE {
        const u32 place = s + phase;
        return (PHASES && place >= STEPS ? place - STEPS : place) * STEP;
    };
    // Where the step behind the one at `from` begins. Base kernels ask this, which takes fewer
    // instructions than start_of.
    auto start_behind = [&](u32 from) INLINE {
        const u32 place = from + SPLIT_K * STEP;
        return PHASES && place >= STEPS * STEP ? place - STEPS * STEP : place;
    };
    auto within = [](u32 start) { return KNOWN ? start : minimum(start, K - STEP); };
    u32 begin = start_of(step), k = within(begin);

    // Each lane has one row of every tile. In place of rows past the end it takes the last one
    // again; their results are not stored.
    const u32 part = ABREAST == 1 ? 0 : lane / 16 / PART_LANES; // of a step
    // its place along K in a step's first unit
    const u32 a_part = part * PART + (K_LANES == 1 ? 0 : lane / 16 % PART_LANES * CHUNK);
    const u32 b_part = STAGED ? (LOAD_LANES == 1 ? 0 : lane / 16 * CHUNK) : a_part;
    const u32 scale_part = SCALED ? b_part : part * PART;
    const u8 *b_tile[N_TILES], *a_start[M_TILES]; // of A from k on
    u32 b_offset[N_TILES];
    row_scales scale_row[N_TILES];
    auto place_of = [](u32 k) { return WORD_BLOCKS ? k / 32 * (N * 16) + k % 32 / 2 : k / 2; };
    UNROLL for (u32 t = 0; t < N_TILES; t++) {
        const u32 start = WHOLE_GROUPS ? n0 + t * 16 : minimum(n0 + t * 16, N - 1);
        const u32 row = WHOLE_GROUPS ? lane % 16 : minimum(lane % 16, N - 1 - start);
        b_tile[t] = b + (u64)W_ROW(start) * (WORD_BLOCKS ? 16 : K / 2);
        b_offset[t] = W_ROW(row) * (WORD_BLOCKS ? 16 : K / 2) + place_of(b_part);
        scale_row[t] = scales_of_rows(W_ROW(start), W_ROW(row), SCALE_NAMES);
    }
    UNROLL for (u32 i = 0; i < M_TILES; i++) {
        const u32 row = m0 + i * 16 + lane % 16 % M_TILE;
        a_start[i] = (const u8 *)(a + (u64)A_ROW(row) * lda + (k + a_part));
    }

    // Eight values of A in the order of words; zeros where the lane's row is of another part.
    const bool has_a = ABREAST == 1 || lane % 16 / M_TILE == part;
    const pair_bytes bytes_of_a = has_a ? PAIR_BYTES : ZERO_BYTES;
    auto order_a = [&](u32 (&values)[4]) INLINE {
        pair_up(values, bytes_of_a);
        if (!A_PAIRED && ABREAST > 1)
            UNROLL for (u32 d = 0; d < 4; d++)
                values[d] = has_a ? values[d] : 0;
    };

    auto load_weights = [&](u32 k, u32 (&packed)[UNITS][N_TILES][WORDS],
                            u32 (&scale)[SPANS / SCALES][N_TILES],
                            u32 (&zero)[SPANS / ZEROS][N_TILES]) {
        UNROLL for (u32 t = 0; t < N_TILES; t++) {
            const u8 *const from = b_tile[t] + opaque(b_offset[t] + place_of(k));
            UNROLL for (u32 u = 0; u < UNITS; u++)
                load_dwords<WORDS, WEIGHTS_ONCE>(packed[u][t], from + u * UNIT_BYTES);
        }
        const u32 at = k + scale_part;
        UNROLL for (u32 t = 0; t < N_TILES; t++) {
            UNROLL for (u32 s = 0; s < SPANS; s += SCALES)
                scale[s / SCALES][t] = load_scales<SCALES>(scale_row[t], at + s * SPAN);
            UNROLL for (u32 s = 0; s < SPANS; s += ZEROS)
                zero[s / ZEROS][t] = load_zeros<ZEROS>(scale_row[t], at + s * SPAN);
        }
    };

    u32 packed[UNITS][N_TILES][WORDS];
    u32 scale[SPANS / SCALES][N_TILES], zero[SPANS / ZEROS][N_TILES]; // bits
    auto scale_at = [&](u32 s, u32 t) INLINE {
        return bits_of_block<SCALES, scale_bits>(scale[s / SCALES][t], s);
    };
    auto zero_at = [&](u32 s, u32 t) INLINE {
        return bits_of_block<ZEROS, zero_bits>(zero[s / ZEROS][t], s);
    };
    load_weights(k, packed, scale, zero);
    schedule_boundary();

    const operand ones = make_ones();
    LDS u32x4 *const staged = (LDS u32x4 *)shared_memory + wave * STAGED_PIECES;
    LDS float *const sums_of_a = (LDS float *)((LDS u32x4 *)shared_memory + WAVES * STAGED_PIECES);
    if constexpr (SHARED_SUMS) {
#if PAIRED
        define_dual_dot2();
#endif
        make_sums(sums_of_a, wave, lane, [&](u32 row) INLINE {
            return (const u8 *)(a + (u64)A_ROW(m0 + row) * lda);
        });
        barrier();
    }
    tile total[M_TILES][N_TILES] = {};

    // One step: the weights that were loaded, times A from k on. After the last use of the packed
    // weights `next` may request others in their place.
    auto do_step = [&](auto next) INLINE {
        u32 ring[A_RING][M_TILES][BATCH_WORDS]; // batches of A
        auto load_a = [&](u32 batch) INLINE {
            const u32 unit = batch / UNIT_BATCHES, place = batch % UNIT_BATCHES * BATCH;
            UNROLL for (u32 i = 0; i < M_TILES; i++) UNROLL for (u32 j = 0; j < BATCH; j += 8) {
                const a_piece v = *(const a_piece *)(a_start[i] + (unit * UNIT + place + j) *
                                                                      sizeof(a_element));
                UNROLL for (u32 d = 0; d < 4; d++)
                    ring[batch % A_RING][i][j / 2 + d] = v[d];
            }
            schedule_boundary();
        };
        u32 w[2][N_TILES][BATCH_WORDS]; // weights of this batch and of the next
        weight_scale weight[N_TILES];   // of the span that is decoded
        auto begin_span = [&](u32 s, u32 t) INLINE {
            if (SCALED)
                weight[t] = make_weight_scale(scale_at(s, t), zero_at(s, t));
            else if (EXACT)
                weight[t].zero = ZERO == ZERO_U8 ? make_exact_zero(zero[s / ZEROS][t], s % ZEROS)
                                                 : make_exact_zero(8, 0);
        };
        auto decode = [&](u32 t, u32 &word, u32 (&value)[4]) INLINE {
            computed(word); // so that nothing is decoded long before its use
            if (SCALED)
                dequantise_word(decoding, word, weight[t], value);
            else if (EXACT)
                decode_exactly(decoding, word, weight[t].zero, value);
            else
                decode_word(decoding, word, value);
        };
        auto stage = [&](u32 unit) INLINE {
            UNROLL for (u32 t = 0; t < N_TILES; t++) {
                UNROLL for (u32 j = 0; j < WORDS; j++) {
                    u32 value[4];
                    decode(t, packed[unit][t][j], value);
                    staged[(t * 16 + lane % 16) * ROW_PIECES + b_part / 8 + j] =
                        u32x4{value[0], value[1], value[2], value[3]};
                }
            }
        };
        auto decode_batch = [&](u32 batch) {
            const u32 unit = batch / UNIT_BATCHES, place = batch % UNIT_BATCHES * BATCH;
            if (batch % SPAN_BATCHES == 0)
                UNROLL for (u32 t = 0; t < N_TILES; t++)
                    begin_span(batch / SPAN_BATCHES, t);
            if (STAGED && place == 0)
                stage(unit);
            UNROLL for (u32 t = 0; t < N_TILES; t++)
                UNROLL for (u32 j = 0; j < BATCH; j += 8) {
                    u32 (&to)[4] = *(u32 (*)[4])&w[batch % 2][t][j / 2];
                    if (STAGED) {
                        const u32x4 v = staged[(t * 16 + lane % 16) * ROW_PIECES +
                                               (a_part + place + j) / 8];
                        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
                    } else {
                        decode(t, packed[unit][t][(place + j) / 8], to);
                    }
                }
        };
        tile sum[M_TILES][N_TILES], plain[M_TILES]; // of a span; plain of A alone
        // the shared sums of A, from which a span's sums start or which are taken off them
        const u32 tile_row_place = lane / 16 * TILE_VALUES % M_TILE;
        auto sums_at = [&](u32 s, u32 i) INLINE {
            return take_sums(sums_of_a + ((k + part * PART) / SPAN + s) * M_TILE + i * 16 +
                             tile_row_place);
        };

        if (!KNOWN && k < begin)
            UNROLL for (u32 s = 0; s < SPANS; s++) UNROLL for (u32 t = 0; t < N_TILES; t++)
                if (k + scale_part + s * SPAN < begin)
                    scale[s / SCALES][t] = zero[s / ZEROS][t] = 0;
        UNROLL for (u32 batch = 0; batch < A_RING - 1; batch++)
            load_a(batch);
        decode_batch(0);

        UNROLL for (u32 batch = 0; batch < BATCHES; batch++) {
            if (batch + A_RING - 1 < BATCHES)
                load_a(batch + A_RING - 1);
            if (batch + 1 < BATCHES)
                decode_batch(batch + 1);
            if (batch + 2 == BATCHES || BATCHES == 1) {
                // products are made before the branch, not after it
                UNROLL for (u32 i = 0; i < M_TILES; i++) UNROLL for (u32 t = 0; t < N_TILES; t++) {
                    if (!SCALED && batch % SPAN_BATCHES)
                        computed(sum[i][t]);
                    if (SCALED)
                        computed(total[i][t]);
                    else
                        computed_values(total[i][t]);
                }
                UNROLL for (u32 t = 0; t < N_TILES; t++)
                    UNROLL for (u32 j = 0; j < BATCH_WORDS; j++)
                        computed(w[(BATCHES - 1) % 2][t][j]);
                next();
            }
            schedule_boundary();
            UNROLL for (u32 i = 0; i < M_TILES; i++)
                UNROLL for (u32 j = 0; j < BATCH_WORDS; j += 4)
                    order_a(*(u32 (*)[4])&ring[batch % A_RING][i][j]);
            const bool starts = batch % SPAN_BATCHES == 0, ends = (batch + 1) % SPAN_BATCHES == 0;
            const bool from_nothing = starts && !SCALED && !STARTS_AT_SUMS;
            if (STARTS_AT_SUMS && starts)
                UNROLL for (u32 i = 0; i < M_TILES; i++) {
                    const tile sums = sums_at(batch / SPAN_BATCHES, i);
                    UNROLL for (u32 t = 0; t < N_TILES; t++) {
                        sum[i][t] = sums;
                        if (ZERO == ZERO_U8)
                            sum[i][t] *= spread_factor(
                                -CODE_BIAS - zero_value(zero_at(batch / SPAN_BATCHES, t)));
                    }
                }
            UNROLL for (u32 j = 0; j < BATCH_WORDS; j += OPERAND_WORDS)
                UNROLL for (u32 i = 0; i < M_TILES; i++) {
                    operand a_part, w_part;
                    UNROLL for (u32 d = 0; d < OPERAND_WORDS; d++)
                        a_part[d] = ring[batch % A_RING][i][j + d];
                    UNROLL for (u32 t = 0; t < N_TILES; t++) {
                        UNROLL for (u32 d = 0; d < OPERAND_WORDS; d++)
                            w_part[d] = w[batch % 2][t][j + d];
                        tile &to = SCALED ? total[i][t] : sum[i][t];
                        to = multiply_add(a_part, w_part,
                                          from_nothing && j == 0 ? (tile)(0.0f) : to);
                    }
                    if (PLAIN_SUM && !SHARED_SUMS)
                        plain[i] = multiply_add(a_part, ones,
                                                starts && j == 0 ? (tile)(0.0f) : plain[i]);
                }
            schedule_boundary();
            if (!SCALED && ends) {
                const u32 s = batch / SPAN_BATCHES;
                UNROLL for (u32 t = 0; t < N_TILES; t++) {
                    const float one = scale_value(scale_at(s, t));
                    float off = EXACT ? 0.0f : -(CODE_BIAS + 8) * one; // times the plain sum
                    if (ZERO == ZERO_U8)
                        off = -(CODE_BIAS + zero_value(zero_at(s, t))) * one;
                    if (ZERO == ZERO_SCALED)
                        off -= zero_value(zero_at(s, t));
                    const tile value = spread_scale(one);
                    UNROLL for (u32 i = 0; i < M_TILES; i++) {
                        if (PLAIN_SUM && SHARED_SUMS && !STARTS_AT_SUMS)
                            plain[i] = sums_at(s, i);
                        tile &to = total[i][t];
                        to = __builtin_elementwise_fma(sum[i][t], value, to);
                        if (PLAIN_SUM && !STARTS_AT_SUMS)
                            to = __builtin_elementwise_fma(plain[i], (tile)off, to);
                    }
                }
            }
        }
    };

#pragma unroll 1
    for (u32 trip = 0; trip < TRIPS && (EVEN_TRIPS || step < STEPS); trip++, step += SPLIT_K) {
        u32 next_scale[SPANS / SCALES][N_TILES], next_zero[SPANS / ZEROS][N_TILES];
        u32 next_begin = begin, next_k = k;
        do_step([&]() INLINE {
            if (EVEN_TRIPS ? trip + 1 < TRIPS : step + SPLIT_K < STEPS) {
                next_begin = KNOWN ? start_of(step + SPLIT_K) : start_behind(begin);
                next_k = within(next_begin);
                load_weights(next_k, packed, next_scale, next_zero);
            }
        });
        UNROLL for (u32 i = 0; i < M_TILES; i++)
            a_start[i] += ((i64)next_k - (i64)k) * (i64)sizeof(a_element);
        k = next_k;
        begin = next_begin;
        UNROLL for (u32 t = 0; t < N_TILES; t++) {
            UNROLL for (u32 s = 0; s < SPANS / SCALES; s++)
                scale[s][t] = next_scale[s][t];
            UNROLL for (u32 s = 0; s < SPANS / ZEROS; s++)
                zero[s][t] = next_zero[s][t];
        }
    }

    store_tiles<SHARED_BYTES>(total, (LDS float *)shared_memory, wave, lane, n0, m0, c, m, first,
                              ldc, SLOT_NAME [&](float result, u32 n, u32 row) INLINE {
                                  result *= CODE_UNIT;
#if BIAS
                                  result += BIAS_OF(bias, W_ROW(n), b);
#endif
#if GLU
                                  result = activated_of_two(result);
#endif
                                  return rounded<c_element>(ROUTED(result, row), TRUNCATE);
                              });
}
