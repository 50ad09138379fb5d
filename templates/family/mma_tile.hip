/* SPDX-License-Identifier: MIT */
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
