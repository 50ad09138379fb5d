/* SPDX-License-Identifier: MIT */
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
