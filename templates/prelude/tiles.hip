/* SPDX-License-Identifier: MIT */
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
