/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx942, M = 5 to 8
// op=gemm wq=fp8 scale=block128 a=fp8 c=bf16 n=1000 k=4096 bias=0 layout=dense round=rne

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

#define SYMBOL quern_fp8_fp8_n1000_k4096_block128_m8 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 1000;            // rows of W
constexpr unsigned K = 4096;            // columns of W
#define GLU 0                           // whether two rows of W become a column of C
#define MOE 0                           // whether slots name the rows, and blocks the expert
#define W_TYPE FP8                      // elements of W
#define A_TYPE FP8                      // elements of A
#define C_TYPE BF16                     // elements of C and of a bias
#define FNUZ false                      // which kind of fp8
#define FORM FP8_HALVED                 // how it is understood
#define A_SCALED 1                      // whether A has a scale
#define B_SCALED 1                      // whether W has one
#define BLOCK_SCALED 1                  // whether each block has one
#define TRUNCATE false                  // whether f32 becomes bf16 by cutting
#define PRODUCTS MATRIX                 // how weights are multiplied
#define PAIRED 0                        // whether they are issued in pairs,
#define INVARIANT false                 // whether rows of A are added up alike
#define BIAS 0                          // whether a bias is added
constexpr unsigned M_TILE = 8;          // rows of A computed at once

constexpr unsigned WAVE = 64;           // lanes
constexpr unsigned WAVES = 4;           // in a workgroup
constexpr unsigned ROWS = 1;            // rows of W that a lane works on
constexpr unsigned ROW_LANES = 8;       // lanes side by side with rows of their own
constexpr unsigned SPLIT_K = 4;         // waves that share those rows along K
constexpr unsigned VECTOR = 16;         // weights of a row for one lane in one load
constexpr unsigned RING = 4;            // loads of a row that are under way
constexpr unsigned STAGE = 0;           // loads of a row whose part of A is in LDS; 0: A is not
#define WALKS 0                         // whether workgroups walk over groups of rows
constexpr unsigned WAVES_PER_SIMD = 4;  // that registers must leave room for
constexpr unsigned PHASES = 1;          // 1: groups start apart along K, 2: waves do
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

// ---- prelude/round ----
// f32 in the type of C: to nearest, ties to even; or bf16 by leaving the lower bits away.
template <class T> DEVICE T rounded(float value, bool truncated)
{
    if constexpr (__is_same(T, bf16))
        if (truncated)
            return __builtin_bit_cast(bf16, (u16)(__builtin_bit_cast(u32, value) >> 16));
    return (T)value;
}

// ---- prelude/stage ----
// A part of A in LDS, for all waves of a workgroup. Rows lie PITCH bytes apart: what lanes with
// rows of their own read at once then lies in different banks.

constexpr u32 STAGE_LOADS = 8; // of 16 bytes, that a lane waits for together

typedef u32 stage_vector __attribute__((ext_vector_type(4), aligned(4)));

// Copies BYTES bytes of each of ROWS rows to LDS, by ITEMS work-items together. Row i starts at
// `row(i)`, a multiple of 4 bytes. The caller puts a barrier behind it.
template <u32 ROWS, u32 BYTES, u32 PITCH, u32 ITEMS, class ROW>
DEVICE void stage_rows(u8 *staged, u32 item, ROW row)
{
    constexpr u32 ROW_LOADS = (BYTES + ITEMS * 16 - 1) / (ITEMS * 16); // of a lane
    constexpr u32 LOADS = ROWS * ROW_LOADS;
    constexpr u32 EVEN = BYTES / 16 * 16;

    UNROLL for (u32 from = 0; from < LOADS; from += STAGE_LOADS) {
        u32x4 held[minimum(STAGE_LOADS, LOADS)];
        UNROLL for (u32 j = 0; j < STAGE_LOADS && from + j < LOADS; j++) {
            const u32 at = (from + j) % ROW_LOADS * (ITEMS * 16) + item * 16;
            if (EVEN % (ITEMS * 16) == 0 || at < EVEN)
                held[j] = *(const stage_vector *)(row((from + j) / ROW_LOADS) + at);
        }
        UNROLL for (u32 j = 0; j < STAGE_LOADS && from + j < LOADS; j++) {
            const u32 at = (from + j) % ROW_LOADS * (ITEMS * 16) + item * 16;
            if (EVEN % (ITEMS * 16) == 0 || at < EVEN)
                *(u32x4 *)(staged + (from + j) / ROW_LOADS * PITCH + at) = held[j];
        }
    }
    if constexpr (BYTES > EVEN) { // the last dwords of each row, one by one
        constexpr u32 REST = (BYTES - EVEN) / 4;
        for (u32 i = item; i < ROWS * REST; i += ITEMS) {
            const u32 at = EVEN + i % REST * 4;
            *(u32 *)(staged + i / REST * PITCH + at) = *(const u32 *)(row(i / REST) + at);
        }
    }
}

// ---- decode/dense ----
// Reads values of W and of A that are plain numbers out of `raw`, the dwords that a lane has
// loaded: as pairs of f32, or, if they have 16 bits, as pairs of those. SIZE is an element's bytes,
// UNIT the worth of a value. Unlike fp8's, their NaNs need no examine().

template <u32 TYPE> struct number;
struct plain_number {
    static constexpr bool NOTES_NAN = false;
    static constexpr float UNIT = 1.0f;
    DEVICE void examine(u32 &, u32 &) {}
};

template <> struct number<F32> : plain_number {
    static constexpr u32 SIZE = 4;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        return {__builtin_bit_cast(float, raw[2 * p]), __builtin_bit_cast(float, raw[2 * p + 1])};
    }
    template <element> DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};

template <> struct number<F16> : plain_number {
    static constexpr u32 SIZE = 2;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        const f16x2 both = __builtin_bit_cast(f16x2, raw[p]);
        return {(float)both.x, (float)both.y};
    }
    template <element> DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};

template <> struct number<BF16> : plain_number { // the upper half of an f32
    static constexpr u32 SIZE = 2;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        const u32 low = raw[p] << 16, high = raw[p] & 0xffff0000;
        return {__builtin_bit_cast(float, low), __builtin_bit_cast(float, high)};
    }
    template <element> DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};

// ---- decode/fp8 ----
// Eight-bit floats, e4m3: a sign, four bits of exponent, three of mantissa. FNUZ ones are worth
// half of what OCP's are for the same bits, their one NaN is 0x80, and 0x7f is a number.
//
// FP8_NATIVE: the processor has instructions for these bytes. FP8_HALVED: it has some for FNUZ, and
// the bytes are OCP's, which those take for half of what they are. FP8_SOFTWARE: it has none, and
// shifts make f16 of the bytes. In the last two a NaN would become a number: so NaNs are noted
// (examine), and put into the results that they belong to.

constexpr u32 FP8 = BF16 + 1; // a further type of elements
enum fp8_form { FP8_NATIVE, FP8_HALVED, FP8_SOFTWARE };
constexpr u32 EVERY_MAGNITUDE = 0x7f7f7f7f, EVERY_SIGN = 0x80808080; // of the bytes of a dword

template <> struct number<FP8> {
    static constexpr u32 SIZE = 1;
    static constexpr bool NOTES_NAN = FORM != FP8_NATIVE;
    static constexpr float UNIT = FORM == FP8_HALVED ? 2.0f : 1.0f;

    // Notes the NaNs of four bytes in the sign bits of `seen`. FNUZ has no -0: it loses its sign.
    DEVICE void examine(u32 &raw, u32 &seen)
    {
        const u32 magnitude = raw & EVERY_MAGNITUDE;
        const u32 is_zero = EVERY_SIGN - magnitude, is_most = magnitude + 0x01010101;
        if constexpr (NOTES_NAN)
            seen |= FNUZ ? is_zero & raw : is_most;
        if constexpr (FORM == FP8_HALVED)
            raw &= ~(is_zero & EVERY_SIGN);
    }
    // Two bytes as f16 or bf16, which have room for every value.
    template <element TYPE> DEVICE u32 halves(const u32 *raw, u32 p)
    {
        if constexpr (FORM == FP8_SOFTWARE) {
            const f16x2 both = half_pair(raw, p);
            return TYPE == BF16 ? upper_halves({(float)both.x, (float)both.y})
                                  : __builtin_bit_cast(u32, both);
        } else {
#if HAS_CVT_SCALEF32
            const u32 word = raw[p / 2];
            if constexpr (TYPE == BF16)
                return __builtin_bit_cast(
                    u32, p % 2 ? __builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(word, 1.0f, true)
                               : __builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(word, 1.0f, false));
            else
                return __builtin_bit_cast(
                    u32, p % 2 ? __builtin_amdgcn_cvt_scalef32_pk_f16_fp8(word, 1.0f, true)
                               : __builtin_amdgcn_cvt_scalef32_pk_f16_fp8(word, 1.0f, false));
#else
            const f32x2 both = pair(raw, p);
            return TYPE == BF16
                       ? upper_halves(both)
                       : __builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(both.x, both.y));
#endif
        }
    }
    // Two values as f32.
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        if constexpr (FORM == FP8_SOFTWARE) {
            const f16x2 both = half_pair(raw, p);
            return {(float)both.x, (float)both.y};
        } else {
            return p % 2 ? __builtin_amdgcn_cvt_pk_f32_fp8(raw[p / 2], true)
                         : __builtin_amdgcn_cvt_pk_f32_fp8(raw[p / 2], false);
        }
    }

  private:
    // Two bytes as f16, by shifts.
    DEVICE f16x2 half_pair(const u32 *raw, u32 p)
    {
        // each byte is put above a zero byte, and shifted so that its exponent and mantissa are in
        // the places of f16's; f16's exponents have a bias that is higher by 8 (OCP) or 7 (FNUZ)
        typedef short i16x2 __attribute__((ext_vector_type(2)));
        const u32 apart = __builtin_amdgcn_perm(0, raw[p / 2], p % 2 ? 0x030c020c : 0x010c000c);
        const i16x2 moved = __builtin_bit_cast(i16x2, apart) >> 1;
        const u32 bits = __builtin_bit_cast(u32, moved) & 0xbf80bf80;
        const f16 unit = FNUZ ? 128.0f : 256.0f;
        return __builtin_bit_cast(f16x2, bits) * f16x2{unit, unit};
    }
    // Two f32 as bf16, of values that need no rounding.
    DEVICE u32 upper_halves(f32x2 value)
    {
        const float low = value.x, high = value.y;
        return __builtin_amdgcn_perm(__builtin_bit_cast(u32, high), __builtin_bit_cast(u32, low),
                                     0x07060302);
    }
};

// ---- decode/scale_block128 ----
// Scales of blocks: of 128 rows and 128 columns of W, f32 [N/128, K/128], and of 128 columns of
// each row of A, f32 [M, K/128], rounded up. A sum over columns of one block is multiplied by them.

constexpr u32 SCALE_BLOCK = 128;
constexpr u32 K_BLOCKS = (K + SCALE_BLOCK - 1) / SCALE_BLOCK; // of a row

// Where the scales of row n of W begin.
DEVICE const float *scales_of_row(const float *scales, u64 n)
{
    return scales + n / SCALE_BLOCK * K_BLOCKS;
}

// How many bytes behind that the scale of column k is.
constexpr u32 scale_offset(u32 k) { return k / SCALE_BLOCK * sizeof(float); }

// Whether `count` neighbours among `total` rows are always in one block of them, where the first
// has a multiple of `count` before it, or only the last one behind it.
constexpr bool in_one_block(u32 count, u32 total)
{
    return SCALE_BLOCK % count == 0 &&
           (total % count == 0 || total % SCALE_BLOCK >= count || total < count);
}

// ---- family/simt_skinny ----
// C[m,n] = sum over k of A[m,k] * W[n,k] (+ bias[n]) for a few rows of A and weights that need no
// table: in the type of A, or in fp8 with one scale for all of them or one for each block.
//
// A load takes VECTOR consecutive weights of a row for each lane, and neighbouring lanes take
// neighbouring ones: LANES_K of them cover a step. Each load fetches whole lines of memory. A wave
// works on ROWS rows of W, or, where a matrix instruction multiplies ROW_LANES rows of W with as
// many of A, on ROWS groups of ROW_LANES neighbouring rows, one row for each of ROW_LANES lanes.
// The steps of a row are dealt out in turn to SPLIT_K waves, whose sums meet in LDS in a fixed
// order. A wave has asked for RING steps, of W and of A, at any time. They are asked for in the
// order in which they are used, so that a wait for one leaves the others on their way.
//
// STAGED: the workgroup copies A to LDS, from where its waves read it; all of K at once, or STAGE
// steps of each wave at a time. WALKS: a launch has only as many workgroups as the device holds at
// once; each walks over groups of rows, and asks for the next group's weights before it is done
// with one.

constexpr u32 DOT4 = MATRIX + 1; // a further kind of products: four of 8 bits in one instruction

typedef element_type<C_TYPE>::type c_element;
// Makes the scale of W that of one expert, where there are several (prelude/moe.hip).
#if B_SCALED
#if BLOCK_SCALED
#define SCALES_OF_EXPERT(expert)                                                                   \
    b_scale += (expert) * ((u64)((N + SCALE_BLOCK - 1) / SCALE_BLOCK) * K_BLOCKS)
#else
#define SCALES_OF_EXPERT(expert) b_scale += (expert)
#endif
#else
#define SCALES_OF_EXPERT(expert)
#endif
typedef number<W_TYPE> w_number;
typedef number<A_TYPE> a_number;

constexpr element HALF = A_TYPE == BF16 ? BF16 : F16; // the 16-bit type that fp8 is converted to
constexpr u32 W_SIZE = w_number::SIZE, A_SIZE = a_number::SIZE;
constexpr bool SINGLE = VECTOR == 1;      // rows are not aligned: one weight at a time
constexpr u32 LANES_K = WAVE / ROW_LANES; // lanes side by side along K
constexpr u32 STEP = LANES_K * VECTOR;    // weights of a row
#define STEPS ((K + STEP - 1) / STEP)
#define TRIPS ((STEPS + SPLIT_K - 1) / SPLIT_K) // steps of a wave
constexpr bool WHOLE = KNOWN && K % STEP == 0 && STEPS % SPLIT_K == 0;
constexpr u32 DEPTH = KNOWN ? minimum(RING, TRIPS) : RING; // steps held at once
#define PASSES ((TRIPS + DEPTH - 1) / DEPTH)
// ROUNDS: how often a wave uses and asks again for the whole ring, steps past the end of K left
// out. Base kernels leave out the last pass if a step of it reaches past the end.
#define WHOLE_TRIPS (WHOLE ? TRIPS : TRIPS - 1)
#define WHOLE_PASSES (KNOWN ? WHOLE_TRIPS / DEPTH : whole_passes)
#define ROUNDS (WHOLE_PASSES ? WHOLE_PASSES - 1 : 0)
constexpr bool STAGED = STAGE > 0;
#define STAGE_PASSES (STAGED && STAGE < TRIPS ? STAGE / DEPTH : PASSES) // of a stage
constexpr bool RESIDENT = !KNOWN || STAGE_PASSES == PASSES; // A is staged once
static_assert(RESIDENT || (WHOLE && TRIPS % DEPTH == 0 && STAGE % DEPTH == 0), "stages are whole");
static_assert(!WALKS || TRIPS % DEPTH == 0, "a row ends where the ring does");
static_assert(KNOWN || !(STAGED || WALKS || SINGLE), "what base kernels do not do");
// Passes among which the phase chooses the first.
#define PHASED_PASSES (KNOWN ? STAGE_PASSES : WHOLE_PASSES)
constexpr u32 WAVE_ROWS = ROWS * ROW_LANES;
constexpr u32 ROWS_PER_GROUP = WAVES / SPLIT_K * WAVE_ROWS;
#define GROUPS ((N + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP)
constexpr bool WHOLE_GROUPS = KNOWN && N % ROWS_PER_GROUP == 0;
// MATRICES: all results of a matrix instruction are used. With ROW_LANES = 1 only its diagonal is:
// each of four neighbouring lanes multiplies its weights of a row with its part of a row of A.
constexpr bool MATRICES = PRODUCTS == MATRIX && ROW_LANES > 1;
// OF_BYTES: the matrix instruction for fp8 takes sixteen rows of each operand. It is given eight
// rows of W and of A, each in two neighbouring lanes with different k, so that a load is of whole
// lines. Of its results those of equal k count, and the others are thrown away: nothing is lost, as
// A has no more than eight rows.
constexpr bool OF_BYTES = MATRICES && ROW_LANES == 8;
constexpr u32 K_LANES = OF_BYTES ? 2 : 1;
static_assert(!MATRICES || ROW_LANES == (OF_BYTES ? 8 : 4), "what instructions there are");
// Rows of A that a lane loads, and sums that it has.
constexpr u32 COLUMNS = MATRICES ? (M_TILE + ROW_LANES - 1) / ROW_LANES : M_TILE;
constexpr u32 SUMS = ROWS * COLUMNS;
constexpr u32 RESULTS = MATRICES ? SUMS : 1; // after the reduction
constexpr u32 POWER = SUMS <= 1    ? 1 // of two, that SUMS fits in
                      : SUMS <= 2  ? 2
                      : SUMS <= 4  ? 4
                      : SUMS <= 8  ? 8
                      : SUMS <= 16 ? 16
                                   : 32;
constexpr bool NOTES_NAN = w_number::NOTES_NAN || a_number::NOTES_NAN;
constexpr u32 W_WORDS = SINGLE ? 2 : VECTOR * W_SIZE / 4;         // dwords of a load
constexpr u32 A_WORDS = SINGLE ? 2 : VECTOR * A_SIZE / 4;
// Units in a load. A unit is what one product takes of a row: eight weights, four, or a pair.
constexpr u32 UNITS = OF_BYTES             ? VECTOR / 8
                      : PRODUCTS == MATRIX ? VECTOR / 4
                      : PRODUCTS == DOT4 ? W_WORDS
                      : SINGLE           ? 1
                                         : VECTOR / 2;

// A in LDS: STAGE_K columns of each row at a time, rows STAGE_PITCH bytes apart. LDS serves eight
// lanes at a time; where they read different rows, the pitch puts those into different banks.
constexpr u32 STAGE_K = !KNOWN ? STEP : RESIDENT ? K : STAGE_PASSES * DEPTH * SPLIT_K * STEP;
constexpr u32 STAGE_BYTES = STAGE_K * A_SIZE;
constexpr u32 LAST_BYTES = KNOWN && K % STAGE_K != 0 ? K % STAGE_K * A_SIZE : STAGE_BYTES;
constexpr u32 STAGE_PITCH =
    (STAGE_BYTES + 15) / 16 * 16 + (ROW_LANES == 1 ? 0 : 32);

#if BLOCK_SCALED
// A lane's sums of a step are over columns of one block, and are added to those of other steps when
// they have been scaled. SUM_ROWS: how many rows of W there are sums of, for each of ROWS. A lane
// needs one scale for all its rows of W if they are in one block; two if all gates are in one and
// all ups in another; else one for each row.
constexpr u32 SUM_ROWS = OF_BYTES ? 2 : MATRICES ? 4 : 1;
#if GLU && GLU_HALVES
constexpr bool ONE_SCALE = false;
constexpr bool SCALE_PAIR = WAVE_ROWS % 2 == 0 && N / 2 % (WAVE_ROWS / 2) == 0 &&
                            in_one_block(WAVE_ROWS / 2, N / 2);
#else
constexpr bool ONE_SCALE = in_one_block(WAVE_ROWS, N), SCALE_PAIR = false;
#endif
constexpr u32 W_SCALES = ONE_SCALE ? 1 : SCALE_PAIR ? 2 : ROWS * SUM_ROWS;
constexpr u32 A_SCALES = A_SCALED ? COLUMNS : 1;

// Which of its scales a lane has for row `of` of SUM_ROWS of row r of ROWS.
constexpr u32 scale_index(u32 r, u32 of)
{
    return ONE_SCALE ? 0 : SCALE_PAIR ? (MATRICES ? of : r) % 2 : r * SUM_ROWS + of;
}
// The row that scale `index` is of, counted from the wave's first.
DEVICE u32 scale_row(u32 index, u32 lane)
{
    if constexpr (ONE_SCALE || SCALE_PAIR)
        return index;
    else
        return index / SUM_ROWS * ROW_LANES + index % SUM_ROWS + (OF_BYTES ? lane / 16 * 2 : 0);
}
#endif

struct step {
    u32 w[ROWS][W_WORDS], a[COLUMNS][A_WORDS];
#if BLOCK_SCALED
    float w_scale[W_SCALES], a_scale[A_SCALES];
#endif
    // So many of the first weights are another lane's: the lane is past the end of K. In base
    // kernels all or none are.
    u32 skip;
};

// Loads a lane's dwords of a row. Rows start at multiples of 4 bytes; if not, a load is one
// element.
template <u32 SIZE, u32 WORDS, bool ONCE> DEVICE void load(u32 *to, const u8 *from)
{
    typedef u32 vector __attribute__((ext_vector_type(4), aligned(4)));
    if constexpr (SINGLE) {
        if constexpr (SIZE == 4)
            to[0] = *(const u32 *)from;
        else if constexpr (SIZE == 2)
            to[0] = *(const u16 *)from;
        else
            to[0] = *from;
        to[1] = 0;
    } else {
        UNROLL for (u32 i = 0; i < WORDS; i += 4) {
            const vector *const p = (const vector *)from + i / 4;
            const vector v = ONCE ? __builtin_nontemporal_load(p) : *p;
            to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
        }
    }
}

// Loads a lane's dwords of A from LDS; ALIGNED: they are at a multiple of 16 bytes, else of 4.
template <u32 WORDS, bool ALIGNED> DEVICE void load_staged(u32 *to, const u8 *from)
{
    UNROLL for (u32 i = 0; i + 4 <= WORDS; i += 4) {
        const u32x4 v = ALIGNED ? ((const u32x4 *)from)[i / 4]
                                : (u32x4)((const stage_vector *)from)[i / 4];
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}

// The types of what a product takes and of the sum that it adds to. PACKED: the sums of even and of
// odd k. MATRIX: the sums of four rows of W with one row of A.
template <u32> struct product_types { typedef u32 unit; typedef float sum; };
template <> struct product_types<PACKED> { typedef f32x2 unit; typedef f32x2 sum; };
template <> struct product_types<PLAIN> { typedef f32x2 unit; typedef float sum; };
template <> struct product_types<MATRIX> { typedef u32x2 unit; typedef f32x4 sum; };
typedef product_types<PRODUCTS>::unit unit;
typedef product_types<PRODUCTS>::sum lane_sum;

template <class NUMBER> DEVICE void take(u32x2 &to, const u32 *raw, u32 u)
{
    to = OF_BYTES ? u32x2{raw[2 * u], raw[2 * u + 1]}
                  : u32x2{NUMBER::template halves<HALF>(raw, 2 * u),
                          NUMBER::template halves<HALF>(raw, 2 * u + 1)};
}
template <class NUMBER> DEVICE void take(u32 &to, const u32 *raw, u32 u)
{
    to = PRODUCTS == DOT4 ? raw[u] : NUMBER::template halves<HALF>(raw, u);
}
template <class NUMBER> DEVICE void take(f32x2 &to, const u32 *raw, u32 u)
{
    to = NUMBER::pair(raw, u);
}

// Keeps the four dwords of a load together: of those that matrix instructions take two at a time,
// the compiler would make two loads.
template <u32 WORDS> DEVICE void hold(u32 (&raw)[WORDS])
{
    UNROLL for (u32 i = 0; i + 4 <= WORDS && OF_BYTES; i += 4) {
        u32x4 v = {raw[i], raw[i + 1], raw[i + 2], raw[i + 3]};
        await(v);
        raw[i] = v.x, raw[i + 1] = v.y, raw[i + 2] = v.z, raw[i + 3] = v.w;
    }
}

template <class UNIT, class SUM> DEVICE SUM multiply_add(UNIT w, UNIT a, SUM sum)
{
    if constexpr (OF_BYTES) {
        return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(
            __builtin_bit_cast(i64, w), __builtin_bit_cast(i64, a), sum, 0, 0, 0);
    } else if constexpr (PRODUCTS == MATRIX && A_TYPE == BF16) {
        return __builtin_amdgcn_mfma_f32_4x4x4bf16_1k(__builtin_bit_cast(i16x4, w),
                                                      __builtin_bit_cast(i16x4, a), sum, 0, 0, 0);
    } else if constexpr (PRODUCTS == MATRIX) {
        return __builtin_amdgcn_mfma_f32_4x4x4f16(__builtin_bit_cast(f16x4, w),
                                                  __builtin_bit_cast(f16x4, a), sum, 0, 0, 0);
    } else if constexpr (PRODUCTS == PACKED) {
        return __builtin_elementwise_fma(a, w, sum);
    } else if constexpr (PRODUCTS == PLAIN) {
        sum = __builtin_fmaf(a.x, w.x, sum);
        return SINGLE ? sum : __builtin_fmaf(a.y, w.y, sum);
    } else if constexpr (PRODUCTS == DOT4) {
        return __builtin_amdgcn_dot4_f32_fp8_fp8(a, w, sum);
    } else if constexpr (A_TYPE == BF16) {
        return __builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(bf16x2, a),
                                               __builtin_bit_cast(bf16x2, w), sum, false);
    } else {
        return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, a), __builtin_bit_cast(f16x2, w),
                                      sum, false);
    }
}

// Adds one product to every sum, two at a time where the text issues dot products in pairs.
DEVICE void multiply_add_all(const unit (&w)[SUMS], const unit (&a)[SUMS], lane_sum (&sum)[SUMS])
{
    constexpr u32 PAIRS = PAIRED ? SUMS / 2 : 0;
#if PAIRED
    UNROLL for (u32 v = 0; v < 2 * PAIRS; v += 2)
        dual_dot2(sum[v], w[v], a[v], sum[v + 1], w[v + 1], a[v + 1]);
#endif
    UNROLL for (u32 v = 2 * PAIRS; v < SUMS; v++)
        sum[v] = multiply_add(w[v], a[v], sum[v]);
}

#if BLOCK_SCALED
// Adds a sum of one block, of row r of ROWS, times its scale.
template <class SUM>
DEVICE void add_scaled(SUM &sum, SUM of_block, const step &s, u32 r, u32 column)
{
    const float a_scale = A_SCALED ? s.a_scale[column] : 1;
    SUM scale;
    if constexpr (__is_same(SUM, f32x4) && MATRICES) {
        UNROLL for (u32 i = 0; i < 4; i++)
            scale[i] = s.w_scale[scale_index(r, i * SUM_ROWS / 4)] * a_scale;
    } else {
        scale = SUM(s.w_scale[scale_index(r, 0)] * a_scale);
    }
    sum = __builtin_elementwise_fma(of_block, scale, sum);
}
#endif

// Makes a sum NaN if a NaN was noted in its row of W or of A. Of matrix products a further
// instruction with NaNs does so, for all results of the row or column.
template <class SUM> DEVICE void add_nan(SUM &sum, u32 w_seen, u32 a_seen)
{
    constexpr u32 NAN_BITS = 0x80808080; // what was noted
    constexpr u32 A_NAN = OF_BYTES ? 0x80 : 0x7fff; // as FNUZ bytes, and as 16-bit types
    w_seen &= NAN_BITS, a_seen &= NAN_BITS;
    if constexpr (MATRICES) {
        sum = multiply_add(u32x2{w_seen ? A_NAN : 0, 0}, u32x2{a_seen ? A_NAN : 0, 0}, sum);
    } else if (w_seen | a_seen) {
        sum = __builtin_nanf("");
    }
}

DEVICE float whole(float sum, u32) { return sum; }
DEVICE float whole(f32x2 sum, u32) { return sum.x + sum.y; }
DEVICE float whole(f32x4 sum, u32 lane) // on the diagonal
{
    const float low = lane & 1 ? sum.y : sum.x, high = lane & 1 ? sum.w : sum.z;
    return lane & 2 ? high : low;
}

// Sums four values over the lanes with the same lane % 4: first over the four groups of four lanes
// in each 16, which then agree; then, folding, over the four 16s. A lane gets the sum of one
// component: number lane / 16 with its two bits swapped.
DEVICE float sum_of_blocks(f32x4 sum, u32 lane)
{
    float v[4] = {sum.x, sum.y, sum.z, sum.w};
    UNROLL for (u32 i = 0; i < 4; i++) {
        v[i] += across<3>(v[i], lane);
        const u32 bits = __builtin_bit_cast(u32, v[i]);
        v[i] += __builtin_bit_cast( // row_ror:4
            float, __builtin_amdgcn_update_dpp(0, bits, 0x124, 0xf, 0xf, true));
    }
    reduce_step<4, 4>(v, lane);
    reduce_step<2, 5>(v, lane);
    return v[0];
}

// Sums of OF_BYTES, whose rows have two neighbouring lanes with different k. Of an even lane's
// results the even components count, of an odd lane's the odd ones: together they are two sums, of
// which each lane gets one.
DEVICE float sum_of_pairs(f32x4 sum, u32 lane)
{
    const bool odd = lane & 1;
    return fold<0>(odd ? sum.y : sum.x, odd ? sum.w : sum.z, lane);
}

// Reduces the lanes' sums to those of the wave. With 4 by 4 matrices that is over every fourth
// lane.
template <class SUM>
DEVICE void reduce_sums(const SUM (&sum)[SUMS], float (&result)[RESULTS], u32 lane)
{
    if constexpr (__is_same(SUM, f32x4) && ROW_LANES == 4) {
        UNROLL for (u32 v = 0; v < SUMS; v++)
            result[v] = sum_of_blocks(sum[v], lane);
    } else if constexpr (__is_same(SUM, f32x4) && ROW_LANES == 8) {
        UNROLL for (u32 v = 0; v < SUMS; v++)
            result[v] = sum_of_pairs(sum[v], lane);
    } else {
        float total[POWER] = {};
        UNROLL for (u32 v = 0; v < SUMS; v++)
            total[v] = whole(sum[v], lane);
        result[0] = reduce<POWER, 1>(total, lane);
    }
}

KERNEL WORKGROUP(WAVES * WAVE, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const u8 *__restrict a, const u8 *__restrict b,
#if A_SCALED
            const float *__restrict a_scale,
#endif
#if B_SCALED
            const float *__restrict b_scale,
#endif
#if BIAS
            const c_element *__restrict bias,
#endif
            SLOT_OPERANDS c_element *__restrict c, u32 m, u32 first, u64 lda, u64 ldc
#if WALKS
            , u32 workgroups
#endif
)
{
#if PAIRED
    define_dual_dot2();
#endif
    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u32 lane = item % WAVE;
    const u32 wave = __builtin_amdgcn_readfirstlane(item / WAVE);
    const u32 x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y();
    const u32 slice = SLICES_FIRST ? x : y;
    u32 group = SLICES_FIRST ? y : x;
    if (SKEWED && group == GROUPS)
        return;
#if WALKS
    const u32 stride = workgroups;
#else
    const u32 stride = GROUPS;
#endif
    const u32 m0 = slice * M_TILE;
#if MOE
    ENTER_EXPERT((u64)N * K * W_SIZE, group * ROWS_PER_GROUP, ROWS_PER_GROUP)
#endif
    const u32 lane_n = K_LANES > 1 ? lane % 16 / K_LANES : lane % ROW_LANES;
    const u32 lane_k = K_LANES > 1 ? lane / 16 * K_LANES + lane % K_LANES : lane / ROW_LANES;

    // Of a wave's passes in a base kernel, those that do not reach past the end of K: all, or all
    // but the last.
    const u32 ends = PASSES * (DEPTH * SPLIT_K * STEP) - (SPLIT_K - 1 - wave % SPLIT_K) * STEP;
    const u32 whole_passes = PASSES - (KNOWN || ends <= K ? 0 : 1);

    // A wave at the end of W takes rows of the wave before it, and a lane the last row, rather than
    // rows past the end: their results are not stored. Rows of a wave are always neighbours.
    u32 n0, n_base;
    const u32 n_own = N >= WAVE_ROWS ? lane_n : minimum(lane_n, N - 1); // with ROW_LANES > 1
    const u8 *b_row[ROWS];
    // Rounds begin at the phase, and go on at the row's beginning when they reach its end.
    u32 phase;
#if BLOCK_SCALED
    const float *w_scales[W_SCALES], *a_scales[A_SCALES]; // of rows
#endif
    auto enter = [&](u32 which) {
        n0 = which * ROWS_PER_GROUP + wave / SPLIT_K * WAVE_ROWS;
        n_base = WHOLE_GROUPS     ? n0
                 : N >= WAVE_ROWS ? minimum(n0, N >= WAVE_ROWS ? N - WAVE_ROWS : 0)
                                  : 0;
        b_row[0] = b + (u64)W_ROW(n_base) * (K * W_SIZE);
        UNROLL for (u32 r = 1; r < ROWS; r++)
            b_row[r] = b_row[r - 1] +
                       (u64)(W_ROW(r * ROW_LANES) - W_ROW((r - 1) * ROW_LANES)) * K * W_SIZE;
#if BLOCK_SCALED
        UNROLL for (u32 i = 0; i < W_SCALES; i++)
            w_scales[i] =
                scales_of_row(b_scale, W_ROW(minimum(n_base + scale_row(i, lane), N - 1)));
#endif
        const u32 begin = PHASES == 1 ? which : n0 / WAVE_ROWS;
        phase = PHASES == 0 || PHASED_PASSES == 0 ? 0 : first_step(begin, PHASED_PASSES);
    };
    enter(group);
    auto row_number = [&](u32 row) INLINE { // lanes may have more rows than a slice has
        const u32 of_slot = MOE ? A_ROW(m0 + minimum(row, M_TILE - 1)) : 0;
        return MOE ? of_slot : first + minimum(m0 + row, m - 1);
    };
    auto start_of_row = [&](u32 row) INLINE { return a + row_number(row) * lda * A_SIZE; };
    const u8 *a_row[COLUMNS];
    UNROLL for (u32 i = 0; i < COLUMNS; i++)
        a_row[i] = start_of_row(i * ROW_LANES + lane_n);
#if BLOCK_SCALED && A_SCALED
    UNROLL for (u32 i = 0; i < COLUMNS; i++)
        a_scales[i] = a_scale + (u64)row_number(i * ROW_LANES + lane_n) * K_BLOCKS;
#endif
    __attribute__((shared, aligned(16))) static u8 staged[STAGED ? M_TILE * STAGE_PITCH : 16];
    const u8 *const own_staged =
        staged + (COLUMNS == 1 ? minimum(lane_n, M_TILE - 1) : lane_n) * STAGE_PITCH;

    // All that a lane loads in a round lies at constant distances from one place, which load
    // instructions have room for.
    struct place {
        u32 k, w, a; // the first weight; offsets in bytes from a row of W and of A
#if BLOCK_SCALED
        u32 scale; // the same from scales of a row
#endif
    };
    auto place_at = [&](u32 k, u32 of_stage) INLINE {
        const u32 w = opaque(k * W_SIZE + (ROW_LANES > 1 ? W_ROW(n_own) * (K * W_SIZE) : 0));
        const bool alike = ROW_LANES == 1 && A_SIZE == W_SIZE && RESIDENT;
        return place{k, w, alike ? w : opaque((RESIDENT ? k : of_stage) * A_SIZE)
#if BLOCK_SCALED
                     , opaque(scale_offset(k))
#endif
        };
    };
    auto place_of = [&](u32 round) INLINE {
        constexpr u32 WIDE = DEPTH * SPLIT_K * STEP; // weights of a row in a round
        const u32 stage_first = RESIDENT ? 0 : round / STAGE_PASSES * STAGE_PASSES;
        const u32 counted = round - stage_first + phase;
        const bool in_order = !KNOWN && round == WHOLE_PASSES;
        const u32 pass = PHASES == 0 || in_order     ? round - stage_first
                         : counted >= PHASED_PASSES ? counted - PHASED_PASSES
                                                    : counted;
        const u32 of_stage = pass * WIDE + wave % SPLIT_K * STEP + lane_k * VECTOR;
        return place_at(stage_first * WIDE + of_stage, of_stage);
    };
    step ring[DEPTH];
    auto request_at = [&](step &s, const place &at, u32 further) {
        UNROLL for (u32 r = 0; r < ROWS; r++)
            load<W_SIZE, W_WORDS, WEIGHTS_ONCE>(s.w[r], b_row[r] + at.w + further * W_SIZE);
        UNROLL for (u32 i = 0; i < COLUMNS && !STAGED; i++)
            load<A_SIZE, A_WORDS, false>(s.a[i], a_row[i] + at.a + further * A_SIZE);
#if BLOCK_SCALED
        constexpr bool WHOLE_BLOCKS = STEP % SCALE_BLOCK == 0; // then `further` is so many blocks
        const u32 scale = WHOLE_BLOCKS ? at.scale : scale_offset(at.k + further);
        const u32 blocks = WHOLE_BLOCKS ? further / SCALE_BLOCK : 0;
        UNROLL for (u32 i = 0; i < W_SCALES; i++)
            s.w_scale[i] = at_offset(w_scales[i], scale)[blocks];
        UNROLL for (u32 i = 0; i < COLUMNS && A_SCALED; i++)
            s.a_scale[i] = at_offset(a_scales[i], scale)[blocks];
#endif
        schedule_boundary();
    };
    auto request = [&](const place &start, u32 j, bool last) INLINE {
        const u32 further = j * SPLIT_K * STEP;
        if (!WHOLE && last) { // lanes past the end load the end of the row
            const u32 k = start.k + further, from = minimum(k, K - VECTOR);
            ring[j].skip = k - from;
#if BLOCK_SCALED
            place at = place_at(from, from);
            at.scale = scale_offset(minimum(k, K - 1)); // `from` may be in the block before
            request_at(ring[j], at, 0);
#else
            request_at(ring[j], place_at(from, from), 0);
#endif
        } else {
            request_at(ring[j], start, further);
        }
    };
    // Copies a stage of A to LDS. The barriers see to it that all waves are done with the stage
    // before, and that all see this one. A workgroup that walks comes to its first stage from the
    // last one of the rows before; where waves add up their sums, a barrier of that is in between.
    auto stage = [&](u32 which) {
        if (which || (WALKS && !RESIDENT && SPLIT_K == 1))
            barrier();
        const auto from = [&](u32 row) INLINE { return start_of_row(row) + which * STAGE_BYTES; };
        if (LAST_BYTES != STAGE_BYTES && which == K * A_SIZE / STAGE_BYTES)
            stage_rows<M_TILE, LAST_BYTES, STAGE_PITCH, WAVES * WAVE>(staged, item, from);
        else
            stage_rows<M_TILE, STAGE_BYTES, STAGE_PITCH, WAVES * WAVE>(staged, item, from);
        barrier();
    };

    // Zeros for what another lane has.
    auto leave_out = [&](step &s) INLINE {
        auto its_own = [&](u32 place) INLINE { return KNOWN ? place >= s.skip : s.skip == 0; };
        UNROLL for (u32 d = 0; d < W_WORDS; d++) UNROLL for (u32 r = 0; r < ROWS; r++)
            s.w[r][d] = its_own(d * 4 / W_SIZE) ? s.w[r][d] : 0;
        UNROLL for (u32 d = 0; d < A_WORDS; d++) UNROLL for (u32 i = 0; i < COLUMNS; i++)
            s.a[i][d] = its_own(d * 4 / A_SIZE) ? s.a[i][d] : 0;
    };
    lane_sum sum[SUMS];
    u32 w_nan[ROWS], a_nan[COLUMNS];
    auto use = [&](step &s, const place &start, u32 j, bool last) {
#if BLOCK_SCALED
        lane_sum of_step[SUMS] = {};
#define STEP_SUM of_step
#else
#define STEP_SUM sum
#endif
        if constexpr (STAGED) {
            const u32 further = j * SPLIT_K * STEP;
            UNROLL for (u32 i = 0; i < COLUMNS; i++) {
                const u8 *const from = own_staged + i * ROW_LANES * STAGE_PITCH;
                if (!WHOLE && last)
                    load_staged<A_WORDS, false>(
                        s.a[i], from + minimum(start.k + further, K - VECTOR) * A_SIZE);
                else
                    load_staged<A_WORDS, true>(s.a[i], from + start.a + further * A_SIZE);
            }
        }
        UNROLL for (u32 r = 0; r < ROWS; r++)
            hold(s.w[r]);
        UNROLL for (u32 i = 0; i < COLUMNS; i++)
            hold(s.a[i]);
        if (!WHOLE && last)
            leave_out(s);
        UNROLL for (u32 d = 0; d < W_WORDS; d++) UNROLL for (u32 r = 0; r < ROWS; r++)
            w_number::examine(s.w[r][d], w_nan[r]);
        UNROLL for (u32 d = 0; d < A_WORDS; d++) UNROLL for (u32 i = 0; i < COLUMNS; i++)
            a_number::examine(s.a[i][d], a_nan[i]);
        if constexpr (PRODUCTS == DOT2) {
            // Neighbouring products have no operand in common, so that they can be issued together.
            // Where both operands are converted, a unit is used up before the next one is
            // converted: all at once would take too many registers. Where results must be
            // INVARIANT, a row of W is added up in the same order for all rows of A.
            UNROLL for (u32 q = 0; q < UNITS; q++) {
                unit w[SUMS], values[SUMS];
                UNROLL for (u32 v = 0; v < SUMS; v++) {
                    const u32 u = A_SIZE == 1 ? q : (q + (INVARIANT ? v % ROWS : v)) % UNITS;
                    take<w_number>(w[v], s.w[v % ROWS], u);
                    take<a_number>(values[v], s.a[v / ROWS], u);
                }
                multiply_add_all(w, values, STEP_SUM);
                if (W_SIZE == 1)
                    schedule_boundary();
            }
        } else {
            UNROLL for (u32 u = 0; u < UNITS; u++) {
                unit w[ROWS], values[COLUMNS];
                UNROLL for (u32 r = 0; r < ROWS; r++)
                    take<w_number>(w[r], s.w[r], u);
                UNROLL for (u32 i = 0; i < COLUMNS; i++)
                    take<a_number>(values[i], s.a[i], u);
                UNROLL for (u32 i = 0; i < COLUMNS; i++) UNROLL for (u32 r = 0; r < ROWS; r++)
                    STEP_SUM[i * ROWS + r] =
                        multiply_add(w[r], values[i], STEP_SUM[i * ROWS + r]);
                if (PRODUCTS == MATRIX && !OF_BYTES && A_SIZE == 1)
                    schedule_boundary();
            }
        }
#if BLOCK_SCALED
        UNROLL for (u32 v = 0; v < SUMS; v++)
            add_scaled(sum[v], of_step[v], s, v % ROWS, v / ROWS);
#endif
        computed_all<PAIRED>(sum);
        schedule_boundary();
    };

    place now = place_of(0), next = now;
    if (KNOWN || whole_passes != 0)
        UNROLL for (u32 trip = 0; trip < DEPTH; trip++)
            request(now, trip, KNOWN && trip + 1 == TRIPS);
    else
        UNROLL for (u32 trip = 0; trip < DEPTH; trip++)
            request(now, trip, true);
    if (STAGED && RESIDENT)
        stage(0);
    u32 half = 0; // which half of the LDS for waves' sums is used: the other may still be read
    for (;;) {
        UNROLL for (u32 v = 0; v < SUMS; v++)
            sum[v] = lane_sum{};
        UNROLL for (u32 r = 0; r < ROWS; r++)
            w_nan[r] = 0;
        UNROLL for (u32 i = 0; i < COLUMNS; i++)
            a_nan[i] = 0;
#pragma unroll 1
        for (u32 round = 0; round < ROUNDS; round++) {
            if (!RESIDENT && round % STAGE_PASSES == 0)
                stage(round / STAGE_PASSES);
            next = place_of(round + 1);
            UNROLL for (u32 j = 0; j < DEPTH; j++) {
                use(ring[j], now, j, false);
                request(next, j, false);
            }
            now = next;
        }
        const u32 n_done = n_base, n0_done = n0, group_next = group + stride;
        const bool more = WALKS && group_next < GROUPS;
        if (!KNOWN && whole_passes < PASSES) { // the last pass, whose lanes past the end of K wait
            next = place_of(whole_passes);
            if (whole_passes != 0)
                UNROLL for (u32 j = 0; j < DEPTH; j++) {
                    use(ring[j], now, j, false);
                    request(next, j, true);
                }
            UNROLL for (u32 j = 0; j < DEPTH; j++)
                leave_out(ring[j]);
        }
        UNROLL for (u32 j = 0; j < DEPTH && !KNOWN; j++)
            use(ring[j], now, j, false);
#if KNOWN
        UNROLL for (u32 trip = ROUNDS * DEPTH; trip < TRIPS; trip++) {
            if (trip % DEPTH == 0) {
                if (!RESIDENT && trip / DEPTH % STAGE_PASSES == 0)
                    stage(trip / DEPTH / STAGE_PASSES);
                if (trip + DEPTH < TRIPS) {
                    next = place_of(trip / DEPTH + 1);
                } else if (more) {
                    enter(group_next);
                    next = place_of(0);
                }
            }
            use(ring[trip % DEPTH], now, trip % DEPTH, trip + 1 == TRIPS);
            if (trip + DEPTH < TRIPS)
                request(next, trip % DEPTH, trip + DEPTH + 1 == TRIPS);
            else if (more)
                request(next, trip % DEPTH, trip + DEPTH - TRIPS + 1 == TRIPS);
            if (trip % DEPTH == DEPTH - 1)
                now = next;
        }
#endif

        // After the reduction a lane has RESULTS sums of a row of W with a row of A.
        if constexpr (NOTES_NAN)
            UNROLL for (u32 v = 0; v < SUMS; v++)
                add_nan(sum[v], w_nan[v % ROWS], a_nan[v / ROWS]);
        float result[RESULTS];
        u32 n[RESULTS], i[RESULTS];
        bool stores[RESULTS];
        reduce_sums(sum, result, lane);
        UNROLL for (u32 j = 0; j < RESULTS; j++) {
            const u32 value = MATRICES ? j : reduced_index<MATRICES ? 1 : POWER>(lane);
            const u32 column = value / ROWS * ROW_LANES + lane_n;
            n[j] = n_done + value % ROWS * ROW_LANES;
            n[j] += !MATRICES        ? 0
                    : ROW_LANES == 4 ? (lane >> 4 & 1) * 2 + (lane >> 5)
                                     : lane / 16 * 2 + lane % 2;
            i[j] = m0 + column;
            stores[j] = MATRICES ? (ROW_LANES != 4 || (lane & 12) == 0) && column < M_TILE
                                 : reduced_owner<MATRICES ? 1 : POWER>(lane) &&
                                       (SUMS == POWER || value < SUMS);
        }
        if constexpr (SPLIT_K > 1) {
            constexpr u32 PARTS = RESULTS * WAVES * WAVE;
            __attribute__((shared)) static float partials[(WALKS ? 2 : 1) * PARTS];
            float *const partial = partials + (WALKS ? half * PARTS : 0);
            UNROLL for (u32 j = 0; j < RESULTS; j++)
                partial[(wave * RESULTS + j) * WAVE + lane] = result[j];
            barrier();
            half ^= 1;
            UNROLL for (u32 q = 1; q < SPLIT_K && wave % SPLIT_K == 0; q++)
                UNROLL for (u32 j = 0; j < RESULTS; j++)
                    result[j] += partial[((wave + q) * RESULTS + j) * WAVE + lane];
        }
        UNROLL for (u32 j = 0; j < RESULTS; j++) {
            const bool own = (SPLIT_K == 1 || wave % SPLIT_K == 0) && stores[j] &&
                             (MOE ? HAS_ROW(i[j]) : i[j] < m) &&
                             (WHOLE_GROUPS || (n[j] >= n0_done && n[j] < N));
            if (GLU || own) { // a pair's results are in two lanes
                result[j] *= w_number::UNIT * a_number::UNIT;
#if B_SCALED && !BLOCK_SCALED
                result[j] *= *b_scale;
#endif
#if A_SCALED && !BLOCK_SCALED
                result[j] *= *a_scale;
#endif
#if BIAS
                result[j] += BIAS_OF(bias, W_ROW(GLU ? minimum(n[j], N - 1) : n[j]), b);
#endif
#if GLU
                constexpr u32 PAIR_BIT = !MATRICES        ? reduced_pair_bit<POWER>()
                                         : ROW_LANES == 4 ? 5
                                                          : 0;
                result[j] = activated(result[j], across<PAIR_BIT>(result[j], lane));
#endif
                if (own && HAS_COLUMN(n[j]))
                    (c + (u64)C_ROW(i[j]) * ldc)[C_COLUMN(n[j])] =
                        rounded<c_element>(ROUTED(result[j], C_ROW(i[j])), TRUNCATE);
            }
        }
        if (!more)
            break;
        group = group_next;
    }
}
