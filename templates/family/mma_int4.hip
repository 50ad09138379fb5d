/* SPDX-License-Identifier: MIT */
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
