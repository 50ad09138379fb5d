/* SPDX-License-Identifier: MIT */
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
