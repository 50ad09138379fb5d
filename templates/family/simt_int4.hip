/* SPDX-License-Identifier: MIT */
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
