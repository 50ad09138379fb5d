/* SPDX-License-Identifier: MIT */
// quern 0.1.0 for gfx1151
// op=dequant wq=fp4 group=64 scale=f32 c=f16 n=1000 k=1024 layout=bnb round=rne

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

#define SYMBOL quern_dequant_fp4_f16_n1000_k1024_g64 // name of the kernel
#define KNOWN 1                         // whether the layer is, and what follows
constexpr unsigned N = 1000;            // rows of W
constexpr unsigned K = 1024;            // columns of W
constexpr unsigned BLOCK = 64;          // weights along K that share a scale
#define HIGH_NIBBLE_FIRST true          // which half of a byte is the lower k
#define C_TYPE F16                      // elements of C and of a bias

constexpr unsigned WAVE = 32;           // lanes
constexpr unsigned WAVES = 8;           // in a workgroup
constexpr unsigned CHUNKS = 4;          // that a lane takes
constexpr unsigned WAVES_PER_SIMD = 16; // that registers must leave room for

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

// ---- decode/fp4 ----
// FP4 as bitsandbytes defines it (not e2m1): a sign bit over 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4.
// In units of 1/12 every value is exact in f16 and bf16.

constexpr float CODE[16] = {
    0.0f,  0.0625f,  8.0f,  12.0f,  4.0f,  6.0f,  2.0f,  3.0f,
    0.0f,  -0.0625f, -8.0f, -12.0f, -4.0f, -6.0f, -2.0f, -3.0f,
};
constexpr float CODE_UNIT = 1.0f / 12.0f; // what one unit of CODE is worth

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

// ---- family/dequant ----
// c[N, K] = the weights themselves: code value times scale, rounded to f32, then once to C_TYPE.
//
// Rows do not matter: a lane takes chunks of CHUNK consecutive weights of the flattened [N, K], of
// which each lies in one block. Memory bounds this kernel, so decoding is kept simple: the sixteen
// values lie in LDS, in sixteen different banks, where lanes with different codes never meet.

typedef element_type<C_TYPE>::type c_element;

constexpr u32 CHUNK = 8; // one dword of packed weights
#define TOTAL ((u64)N * K / CHUNK)
constexpr u32 ITEMS = WAVES * WAVE;
constexpr u32 CHUNKS_PER_GROUP = ITEMS * CHUNKS; // a multiple of every block
constexpr bool WHOLE_GROUPS = KNOWN && TOTAL % CHUNKS_PER_GROUP == 0;

struct value_table {
    float value[16];
};
constexpr value_table make_values()
{
    value_table table = {};
    for (u32 code = 0; code < 16; code++)
        table.value[code] = CODE[code] * CODE_UNIT;
    return table;
}
CONSTANT constexpr value_table VALUES = make_values();

typedef c_element c_chunk __attribute__((ext_vector_type(CHUNK)));

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const u8 *__restrict b, SCALE_OPERANDS, c_element *__restrict c)
{
    __attribute__((shared)) static float shared_values[16];
    LDS float *const values = (LDS float *)shared_values;

    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u64 first = (u64)__builtin_amdgcn_workgroup_id_x() * CHUNKS_PER_GROUP;
    const u32 *const packed = (const u32 *)b + first;
    const u64 first_block = first * CHUNK / BLOCK;
    c_chunk *const to = (c_chunk *)c + first;
    const bool whole = WHOLE_GROUPS || TOTAL - first > CHUNKS_PER_GROUP;
    const u32 here = whole ? CHUNKS_PER_GROUP : (u32)(TOTAL - first);

    // Chunks past the end take the last one again, and are not stored.
    u32 word[CHUNKS];
    float scale[CHUNKS];
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        const u32 at = minimum(item + i * ITEMS, here - 1);
        word[i] = packed[at];
        scale[i] = scale_of_block(first_block, at * CHUNK / BLOCK, SCALE_NAMES);
    }
    if (item < 16)
        values[item] = VALUES.value[item];
    barrier();

    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        c_chunk chunk;
        UNROLL for (u32 j = 0; j < CHUNK; j++) {
            const u32 shift = HIGH_NIBBLE_FIRST ? 4 * (j ^ 1) : 4 * j;
            float product = values[word[i] >> shift & 15] * scale[i];
            computed(product); // v_fma_mixlo_f16 would lose the sign of a zero
            chunk[j] = (c_element)product;
        }
        if (WHOLE_GROUPS || item + i * ITEMS < here)
            to[item + i * ITEMS] = chunk;
    }
}
