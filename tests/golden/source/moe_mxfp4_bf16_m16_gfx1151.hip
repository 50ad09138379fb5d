/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx1151, M = 6 to 256
// op=moe wq=mxfp4 group=32 scale=e8m0 a=bf16 c=bf16 n=2880 k=2880 bias=1 experts=32 top_k=1 layout=k8 round=rne

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

#define SYMBOL quern_moe_mxfp4_bf16_n2880_k2880_g32_e32_t1_b16_m16 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 2880;            // rows of W
constexpr unsigned K = 2880;            // columns of W
#define GLU 0                           // whether two rows of W become a column of C
#define MOE 1                           // whether slots name the rows, and blocks the expert
constexpr unsigned EXPERTS = 32;        // matrices W
constexpr unsigned TOP_K = 1;           // rows of C for each row of A
constexpr unsigned SLICES_OF_BLOCK = 1; // slices of one expert's slots
constexpr unsigned BLOCK = 32;          // weights along K that share a scale
#define HIGH_NIBBLE_FIRST false         // which half of a byte is the lower k
#define C_TYPE BF16                     // elements of C and of a bias
#define A_TYPE BF16                     // elements of A
#define PRODUCTS MATRIX                 // how pairs are multiplied
constexpr unsigned ENTRY_BYTES = 128;   // of LDS for each pair of codes
#define STAGED true                     // whether W goes through LDS
#define BIAS 1                          // whether a bias is added
constexpr unsigned M_TILE = 16;         // rows of A computed at once

constexpr unsigned WAVE = 32;           // lanes
constexpr unsigned WAVES = 6;           // in a workgroup
constexpr unsigned ROWS = 64;           // rows of W that a wave works on
constexpr unsigned SPLIT_K = 2;         // waves that share those rows along K
constexpr unsigned CHUNK = 16;          // weights of a row for one lane in one load
constexpr unsigned UNITS = 3;           // loads of a step for each 16 rows
constexpr unsigned SPAN = 32;           // weights of a row that are summed unscaled
constexpr unsigned WAVES_PER_SIMD = 3;  // that registers must leave room for
constexpr unsigned PHASES = 0;          // 1: groups start apart along K
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

// ---- decode/e2m1 ----
// E2M1, the element of MXFP4 (OCP Microscaling Formats 1.0): a sign bit, two of exponent, one of
// mantissa.

constexpr float CODE[16] = {
    0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f,
};
constexpr float CODE_UNIT = 1.0f; // what one unit of CODE is worth

// ---- decode/scale_e8m0 ----
// Scales are powers of two: u8 [N, K/BLOCK] standing for 2^(s-127), 255 for NaN.

#define SCALE_OPERANDS const u8 *__restrict scales
#define SCALE_NAMES    scales
// Makes the operands those of one expert, where there are several (prelude/moe.hip).
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)

// What a wave knows of the scales of one row of W, and what a lane has loaded for its next chunk.
struct row_scales {
    const u8 *blocks;
};
struct chunk_scale {
    u32 exponent;
};

DEVICE float power_of_two(u32 exponent)
{
    const float value = __builtin_amdgcn_ldexpf(0x1p-127f, (int)exponent);
    return exponent == 255 ? __builtin_nanf("") : value;
}

DEVICE row_scales scales_of_row(u32 n, SCALE_OPERANDS) { return {scales + (u64)n * BLOCKS}; }
// Loads the scale of the block at column k, or of one so many blocks further on.
DEVICE chunk_scale load_scale(const row_scales &row, u32 k, u32 further = 0)
{
    return {(row.blocks + further)[k / BLOCK]};
}
// Called when a chunk's weights have arrived, ahead of the loads of A.
DEVICE void begin_scale(const row_scales &, chunk_scale &, u32) {}
// Makes scale_value of it zero: no float is so small.
DEVICE void make_zero(const row_scales &, chunk_scale &chunk) { chunk.exponent = (u32)-256; }
DEVICE float scale_value(const row_scales &, const chunk_scale &chunk)
{
    return power_of_two(chunk.exponent);
}

// The scale of one block of the flattened [N, K]; all lanes share `first`.
DEVICE float scale_of_block(u64 first, u32 block, SCALE_OPERANDS)
{
    return power_of_two((scales + first)[block]);
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

// ---- family/mma_w4 ----
// C[m,n] = sum over k of A[m,k] * W[n,k] (+ bias[n]) for 4-bit W, on matrix units.
//
// A matrix instruction multiplies a tile of 16 rows of W with a tile of 16 rows of A, however many
// of those there are, so that every M up to 16 costs the same. A wave works on ROWS rows of W and
// M_TILE rows of A at once. Weights go from memory to registers, through the table of pairs, and
// straight into the instruction: a lane takes CHUNK consecutive weights of one row, and the values
// of A that belong to them; which k an instruction calls its own does not matter as long as both
// operands agree. Products of a block are summed unscaled and the scale is applied to that sum. The
// steps of a row are dealt out in turn to SPLIT_K waves, whose sums meet in LDS in a fixed order.
//
// STAGED, where the instruction wants the same operands in both halves of a wave: values go through
// LDS, behind the table, so that no two lanes look up the same weights.

typedef element_type<A_TYPE>::type a_element;
typedef element_type<C_TYPE>::type c_element;

constexpr u32 LOAD_LANES = STAGED ? WAVE / 16 : K_LANES; // lanes that share a row of a load
constexpr u32 UNIT = CHUNK * LOAD_LANES; // weights of a row that one load of the wave covers
constexpr u32 STEP = UNIT * UNITS;       // and those of a step
#define STEPS ((K + STEP - 1) / STEP)
#define TRIPS ((STEPS + SPLIT_K - 1) / SPLIT_K) // steps of one wave
constexpr bool EVEN_TRIPS = KNOWN && STEPS % SPLIT_K == 0;
// STEP divides a K that is KNOWN. If it is not, the last step of a row may reach back into the one
// before it, and the spans that were added there count for nothing.
constexpr u32 SPANS = STEP / SPAN;

// A batch is what a lane multiplies between two waits: at least eight values of a row, 16 bytes of
// A. Rows of A start at multiples of 4 bytes.
constexpr u32 BATCH = K_OF_LANE > 8 ? K_OF_LANE : 8;
constexpr u32 UNIT_BATCHES = UNIT / K_LANES / BATCH;
constexpr u32 BATCHES = UNITS * UNIT_BATCHES, SPAN_BATCHES = BATCHES / SPANS;
constexpr u32 BATCH_WORDS = BATCH / 2, OPERAND_WORDS = K_OF_LANE / 2;
constexpr u32 A_RING = minimum(BATCHES, M_TILES > 1 || BATCH > 8 ? 2 : 4); // held at once
typedef u32 a_piece __attribute__((ext_vector_type(4), aligned(4)));

// Rows of values in LDS lie 16 bytes further apart than they are long, so that eight lanes that
// read 16 bytes each meet all banks.
constexpr u32 ROW_PIECES = UNIT / 8 + 1; // of eight weights
constexpr u32 STAGED_PIECES = STAGED ? ROWS * ROW_PIECES : 0;
constexpr u32 SHARED_BYTES = TABLE_BYTES + WAVES * STAGED_PIECES * 16;

KERNEL WORKGROUP(WAVES * WAVE, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const a_element *__restrict a, const u8 *__restrict b, SCALE_OPERANDS,
#if BIAS
            const c_element *__restrict bias,
#endif
            SLOT_OPERANDS c_element *__restrict c, u32 m, u32 first, u64 lda, u64 ldc)
{
    __attribute__((shared)) static u32x4 shared_memory[SHARED_BYTES / sizeof(u32x4)];
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

    // Steps begin at the phase, and go on at the row's beginning when they reach its end.
    const u32 phase = PHASES ? first_step(group, STEPS) : 0;
    u32 step = wave % SPLIT_K;
    auto start_of = [&](u32 s) INLINE {
        const u32 place = s + phase;
        return (PHASES && place >= STEPS ? place - STEPS : place) * STEP;
    };
    auto within = [](u32 start) { return KNOWN ? start : minimum(start, K - STEP); };
    u32 k = within(start_of(step));

    // Each lane has one row of every tile. In place of rows past the end it takes the last one
    // again; their results are not stored.
    const u32 a_part = K_LANES == 1 ? 0 : lane / 16 * CHUNK; // its place along K in a unit
    const u32 b_part = LOAD_LANES == 1 ? 0 : lane / 16 * CHUNK;
    const u8 *b_tile[N_TILES], *a_start[M_TILES]; // of A from k on
    u32 b_offset[N_TILES];
    row_scales scale_row[N_TILES];
    UNROLL for (u32 t = 0; t < N_TILES; t++) {
        const u32 start = WHOLE_GROUPS ? n0 + t * 16 : minimum(n0 + t * 16, N - 1);
        const u32 row = WHOLE_GROUPS ? lane % 16 : minimum(lane % 16, N - 1 - start);
        b_tile[t] = b + (u64)W_ROW(start) * (K / 2);
        b_offset[t] = W_ROW(row) * (K / 2) + b_part / 2;
        scale_row[t] = scales_of_row(W_ROW(start + row), SCALE_NAMES);
    }
    UNROLL for (u32 i = 0; i < M_TILES; i++)
        a_start[i] =
            (const u8 *)(a + (u64)A_ROW(m0 + i * 16 + lane % 16) * lda + (k + a_part));

    auto load_weights = [&](u32 k, u32 (&packed)[UNITS][N_TILES][CHUNK / 8],
                            chunk_scale (&scale)[SPANS][N_TILES]) INLINE {
        UNROLL for (u32 t = 0; t < N_TILES; t++) {
            const u8 *const from = b_tile[t] + opaque(b_offset[t] + k / 2);
            UNROLL for (u32 u = 0; u < UNITS; u++)
                load_dwords<CHUNK / 8, WEIGHTS_ONCE>(packed[u][t], from + u * (UNIT / 2));
        }
        UNROLL for (u32 t = 0; t < N_TILES; t++) UNROLL for (u32 s = 0; s < SPANS; s++)
            scale[s][t] = load_scale(scale_row[t], k + s * SPAN);
    };

    // The first weights are on their way while the table is built.
    const lane_entries entries = load_entries(item);
    schedule_boundary();
    u32 packed[UNITS][N_TILES][CHUNK / 8];
    chunk_scale scale[SPANS][N_TILES];
    load_weights(k, packed, scale);
    schedule_boundary();
    build_table(table, entries, item);
    barrier();

    const u32 copy = lane_copy(lane);
    LDS u32x4 *const staged =
        (LDS u32x4 *)(table + TABLE_BYTES) + wave * STAGED_PIECES + lane % 16 * ROW_PIECES;
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
        // The pair of byte `byte` of what a lane loaded of a unit of tile t.
        auto pair_of = [&](u32 unit, u32 t, u32 byte) INLINE {
            u32 &word = packed[unit][t][byte / 4];
            if (byte % 4 == 0)
                computed(word); // so that no address is made long before its look-up
            return look_up(table, word, byte % 4, copy);
        };
        auto stage = [&](u32 unit) INLINE {
            UNROLL for (u32 t = 0; t < N_TILES; t++) {
                u32 pair[CHUNK / 2];
                UNROLL for (u32 j = 0; j < CHUNK / 2; j++)
                    pair[j] = pair_of(unit, t, j);
                UNROLL for (u32 j = 0; j < CHUNK / 2; j += 4)
                    staged[t * 16 * ROW_PIECES + b_part / 8 + j / 4] =
                        u32x4{pair[j], pair[j + 1], pair[j + 2], pair[j + 3]};
            }
        };
        auto look_up_batch = [&](u32 batch) {
            const u32 unit = batch / UNIT_BATCHES, place = batch % UNIT_BATCHES * BATCH;
            if (STAGED && place == 0)
                stage(unit);
            UNROLL for (u32 t = 0; t < N_TILES; t++) UNROLL for (u32 j = 0; j < BATCH_WORDS; j++)
                w[batch % 2][t][j] =
                    STAGED ? staged[t * 16 * ROW_PIECES + place / 8 + j / 4][j % 4]
                           : pair_of(unit, t, place / 2 + j);
        };
        tile sum[M_TILES][N_TILES];
        UNROLL for (u32 s = 0; s < SPANS; s++) UNROLL for (u32 t = 0; t < N_TILES; t++)
            begin_scale(scale_row[t], scale[s][t], k + s * SPAN);
        if (const u32 begin = KNOWN ? 0 : start_of(step); k < begin)
            UNROLL for (u32 s = 0; s < SPANS; s++) UNROLL for (u32 t = 0; t < N_TILES; t++)
                if (k + s * SPAN < begin)
                    make_zero(scale_row[t], scale[s][t]);
        UNROLL for (u32 batch = 0; batch < A_RING - 1; batch++)
            load_a(batch);
        look_up_batch(0);

        UNROLL for (u32 batch = 0; batch < BATCHES; batch++) {
            if (batch + A_RING - 1 < BATCHES)
                load_a(batch + A_RING - 1);
            if (batch + 1 < BATCHES)
                look_up_batch(batch + 1);
            if (batch + 2 == BATCHES || BATCHES == 1) {
                // products are made before the branch, not after it
                UNROLL for (u32 i = 0; i < M_TILES; i++) UNROLL for (u32 t = 0; t < N_TILES; t++) {
                    if (batch % SPAN_BATCHES)
                        computed(sum[i][t]);
                    computed_values(total[i][t]);
                }
                next();
            }
            schedule_boundary();
            await(w[batch % 2][N_TILES - 1][BATCH_WORDS - 1]);
            schedule_boundary();
            UNROLL for (u32 j = 0; j < BATCH_WORDS; j += OPERAND_WORDS)
                UNROLL for (u32 i = 0; i < M_TILES; i++) UNROLL for (u32 t = 0; t < N_TILES; t++) {
                    operand a_part, w_part;
                    UNROLL for (u32 d = 0; d < OPERAND_WORDS; d++) {
                        a_part[d] = ring[batch % A_RING][i][j + d];
                        w_part[d] = w[batch % 2][t][j + d];
                    }
                    const bool starts = batch % SPAN_BATCHES == 0 && j == 0;
                    sum[i][t] = multiply_add(a_part, w_part, starts ? (tile)(0.0f) : sum[i][t]);
                }
            schedule_boundary();
            if (batch % SPAN_BATCHES == SPAN_BATCHES - 1)
                UNROLL for (u32 t = 0; t < N_TILES; t++) {
                    const tile value =
                        spread_scale(scale_value(scale_row[t], scale[batch / SPAN_BATCHES][t]));
                    UNROLL for (u32 i = 0; i < M_TILES; i++)
                        total[i][t] = __builtin_elementwise_fma(sum[i][t], value, total[i][t]);
                }
        }
    };

#pragma unroll 1
    for (u32 trip = 0; trip < TRIPS && (EVEN_TRIPS || step < STEPS); trip++, step += SPLIT_K) {
        chunk_scale next_scale[SPANS][N_TILES];
        u32 next_k = k;
        do_step([&]() INLINE {
            if (EVEN_TRIPS ? trip + 1 < TRIPS : step + SPLIT_K < STEPS) {
                next_k = within(start_of(step + SPLIT_K));
                load_weights(next_k, packed, next_scale);
            }
        });
        UNROLL for (u32 i = 0; i < M_TILES; i++)
            a_start[i] += ((i64)next_k - (i64)k) * (i64)sizeof(a_element);
        k = next_k;
        UNROLL for (u32 s = 0; s < SPANS; s++) UNROLL for (u32 t = 0; t < N_TILES; t++)
            scale[s][t] = next_scale[s][t];
    }

    // Sums of waves meet where the table was.
    store_tiles<TABLE_BYTES>(total, (LDS float *)shared_memory, wave, lane, n0, m0, c, m, first,
                             ldc, SLOT_NAME [&](float result, u32 n, u32 row) INLINE {
                                 result *= CODE_UNIT;
#if BIAS
                                 result += BIAS_OF(bias, W_ROW(n), b);
#endif
#if GLU
                                 result = activated_of_two(result);
#endif
                                 return (c_element)ROUTED(result, row);
                             });
}
