/* SPDX-License-Identifier: MIT */
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
