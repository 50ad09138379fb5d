/* SPDX-License-Identifier: MIT */
// Products of more than a few rows of A with 4-bit weights, for GPUs whose matrix units four warps
// feed together, with A in shared memory (sm_90). Weights are decoded, scaled and rounded to bf16
// in registers; the matrix unit takes them from there.
//
// A workgroup takes a tile of ROWS rows of W through all of K, then its next tile. A ring of STAGES
// stages has CHUNK columns of those rows and of the M_TILE rows of A. Four warps share a slab of 64
// rows of W, 16 each; K_PARTS such groups share a slab, each with UNITS of a chunk's units of 64
// columns, and add their sums when a tile is done. Behind these warps is one that fills the ring
// with weights, and A_WARPS that fill it with A.
//
// Of a unit, each of the four lanes that share a row of the matrix operand has 16 neighbouring
// columns: its packed weights are one load, and columns of A are stored in the order in which
// lanes then have pairs of weights. A matrix instruction takes two pairs of each lane.
//
// Who waits for whom: full[stage], by the copies of weights and the warps that store A;
// empty[stage], by all warps that multiply.

constexpr u32 SLABS = divide_up(ROWS, 64), WARPS = SLABS * K_PARTS * 4;
constexpr u32 A_WARPS = WAVES - WARPS - 1;
static_assert(WAVES > WARPS + 1, "those that multiply, one for weights, the rest for A");
constexpr u32 STAGE_UNITS = K_PARTS * UNITS, CHUNK = STAGE_UNITS * 64;
constexpr u32 CHUNKS = divide_up(K, CHUNK), TILES = divide_up(N, ROWS);
constexpr u32 SUMS = M_TILE / 2; // numbers of a lane: for two rows of W and each row of A
static_assert(K % 64 == 0 && ROWS % 16 == 0, "the plan takes no others");

// Shared memory. Sums that groups exchange are in the free halves of the table's entries, or where
// there is no table in a place of their own.
constexpr u32 EXCHANGED = (K_PARTS - 1) * SLABS * 4 * SUMS; // of 128 bytes each
constexpr u32 SUMS_AT = TABLE_BYTES ? 128 : 0, SUMS_APART = TABLE_BYTES ? 256 : 128;
static_assert(!TABLE_BYTES || EXCHANGED * SUMS_APART <= TABLE_BYTES,
              "the halves of the table hold all sums");
constexpr u32 A_BYTES = M_TILE * CHUNK * 2, ROW_BYTES = CHUNK / 2, W_BYTES = ROWS * ROW_BYTES;
constexpr u32 A_RING = TABLE_BYTES ? TABLE_BYTES : divide_up(EXCHANGED * 128, 1024) * 1024;
constexpr u32 W_RING = A_RING + STAGES * A_BYTES, CODES = W_RING + STAGES * W_BYTES;
constexpr u32 FULL = CODES + SCALE_IS_NESTED * 1024, EMPTY = FULL + STAGES * 8;
constexpr u32 SLOTS = EMPTY + STAGES * 8; // the row of A of each slot of op=moe
static_assert(SLOTS + MOE * M_TILE * 4 <= SHARED_BYTES, "the plan counted shared memory");

// The steps of a workgroup, the same for all its warps.
struct walk {
    u32 groups, tile, chunk, stage, parity;

    DEVICE bool more() const { return tile < TILES; }
    DEVICE void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
        if (++chunk == CHUNKS) {
            chunk = 0;
            tile += groups;
        }
    }
};

// ---- Weights ----

// A row of a stage is two to eight pieces of 16 bytes. The pieces of neighbouring rows change
// places so that the loads of eight rows, half a piece each, are of all banks.
constexpr u32 PIECES = ROW_BYTES / 16, ROWS_AT_ONCE = 32 / PIECES;
static_assert(PIECES == 4 || PIECES == 8 || PIECES == 16, "a chunk is 128, 256 or 512 columns");
DEVICE u32 swizzle(u32 row) { return PIECES == 4 ? row / 2 % 2 * 2 : row % 4 * 2; }

DEVICE void fill_weights(SCALE_OPERANDS walk at, const u8 *b)
{
    constexpr u32 BLOCKS_OF_CHUNK = divide_up(CHUNK, BLOCK);
    const u32 lane = item() % 32, piece = lane % PIECES, first = lane / PIECES;

    NO_UNROLL for (; at.more(); at.advance()) {
        const u32 block = at.chunk * CHUNK / BLOCK;
        // the multipliers load scales a step before they need them: too late for memory
        if (block % LINE_BLOCKS < BLOCKS_OF_CHUNK)
            for (u32 row = lane; row < ROWS; row += 32)
                prefetch_scales(SCALE_NAMES(u64) W_ROW(smaller(at.tile * ROWS + row, N - 1)) *
                                    BLOCKS + block);
        // what is beyond K meets zeros of A: any weights will do, but no memory beyond a row
        const u32 from = smaller(at.chunk * PIECES + piece, K / 32 - 1) * 16;
        barrier_wait(EMPTY + at.stage * 8, at.parity ^ 1);
        UNROLL for (u32 i = 0; i < divide_up(ROWS, ROWS_AT_ONCE); i++) {
            const u32 row = i * ROWS_AT_ONCE + first, n = at.tile * ROWS + row;
            const u64 source = N % ROWS ? smaller(n, N - 1) : n;
            copy_16(W_RING + at.stage * W_BYTES + row * ROW_BYTES + (piece ^ swizzle(row)) * 16,
                    b + W_ROW(source) * (K / 2) + from, FULL + at.stage * 8);
        }
        arrive_behind_copies(FULL + at.stage * 8);
    }
}

// ---- A ----

// Eight lanes load 64 columns of a row, 16 bytes each, so a warp loads four rows at a time, and has
// a batch of 16 such loads under way: more would not fit into its registers. Batches are dealt out
// to warps in turn, and a warp asks for its next one before it waits for room to store it. From one
// batch of a warp to its next there may be no more stages than the ring has, because a barrier
// tells a phase only from the one before.
constexpr u32 UNDER_WAY = 16, BATCH_ROWS = 4 * UNDER_WAY / STAGE_UNITS;
constexpr u32 BATCHES = M_TILE / BATCH_ROWS; // of a stage
static_assert(BATCH_ROWS % 8 == 0 && BATCHES * BATCH_ROWS == M_TILE, "rows of eight, as swizzles");
static_assert(A_WARPS <= BATCHES * STAGES, "the plan takes no more");

// The batches of a warp.
struct batch_walk {
    walk at;
    u32 batch;

    DEVICE batch_walk(const walk &first, u32 warp) : at(first), batch(warp) { carry(); }
    DEVICE u32 first_row() const { return batch * BATCH_ROWS; }
    DEVICE void advance()
    {
        batch += A_WARPS;
        carry();
    }
    DEVICE void carry()
    {
        NO_UNROLL for (; batch >= BATCHES; batch -= BATCHES)
            at.advance();
    }
};

struct rows_of_a {
    const u16 *a;
    i64 lda;
    u32 first, m;
};

// Where row `i` of the slice is in A.
DEVICE u32 row_of_a(const rows_of_a &a, u32 i)
{
#if MOE
    return lds<u32>(SLOTS + i * 4);
#else
    return a.first + smaller(i, a.m - 1);
#endif
}

template <bool ALIGNED>
DEVICE void load_batch(u32 (&v)[UNDER_WAY][4], const rows_of_a &a, u32 chunk, u32 first)
{
    const u32 lane = item() % 32, column = chunk * CHUNK + lane % 8 * 8;

    UNROLL for (u32 q = 0; q < BATCH_ROWS / 4; q++) {
        const u16 *const from =
            a.a + (i64)row_of_a(a, first + q * 4 + lane / 8) * a.lda + column;
        UNROLL for (u32 u = 0; u < STAGE_UNITS; u++) {
            u32(&to)[4] = v[q * STAGE_UNITS + u];
            if (K % CHUNK == 0 || column + u * 64 < K)
                load_a_piece<ALIGNED>(from + u * 64, to);
            else
                to[0] = to[1] = to[2] = to[3] = 0;
        }
    }
}

// Of the four pairs of a lane's 16 bytes, pair j goes to piece 4 * (half of 16 columns) + j of its
// row, at the place of its 16 columns there. A row's pieces are swizzled by its number, as the
// matrix unit expects; no two of a warp's lanes store to the same bank.
DEVICE void store_batch(const u32 (&v)[UNDER_WAY][4], u32 stage, u32 first)
{
    const u32 lane = item() % 32, half = lane % 2 * 4, t = lane / 8;
    const u32 at = A_RING + stage * A_BYTES + (first + t) * 128 + lane % 8 / 2 * 4;

    UNROLL for (u32 q = 0; q < BATCH_ROWS / 4; q++) {
        UNROLL for (u32 u = 0; u < STAGE_UNITS; u++) {
            const u32(&piece)[4] = v[q * STAGE_UNITS + u];
            u32 pairs[4] = {piece[0], piece[1], piece[2], piece[3]};
            order_a(pairs);
            UNROLL for (u32 j = 0; j < 4; j++) {
                const u32 to = at + ((half + j) ^ (q % 2 * 4 + t)) * 16;
                sts<u32>(to + u * (M_TILE * 128) + q * 512, pairs[j]);
            }
        }
    }
}

template <bool ALIGNED> DEVICE void fill_a_as(batch_walk next, const rows_of_a &a)
{
    u32 v[UNDER_WAY][4];

    NO_UNROLL for (; next.at.more(); next.advance()) {
        load_batch<ALIGNED>(v, a, next.at.chunk, next.first_row());
        barrier_wait(EMPTY + next.at.stage * 8, next.at.parity ^ 1);
        store_batch(v, next.at.stage, next.first_row());
        fence_async();
        sync_warp();
        if (item() % 32 == 0)
            barrier_arrive(FULL + next.at.stage * 8);
    }
}

// Notes the rows of A of all slots: each load of A would else wait for the load of its choice.
DEVICE void find_rows(SLOT_PARAMETER const rows_of_a &of_a, u32 part)
{
#if MOE
    const u32 first = of_a.first, m = of_a.m;
    for (u32 i = part * 32 + item() % 32; i < M_TILE; i += A_WARPS * 32)
        sts<u32>(SLOTS + i * 4, A_ROW(i));
    sync_some(2, A_WARPS * 32);
#endif
}

DEVICE void fill_a(const walk &at, const rows_of_a &a, u32 part)
{
    if (((u64)a.a | (u64)a.lda * 2) % 16 == 0)
        fill_a_as<true>(batch_walk(at, part), a);
    else
        fill_a_as<false>(batch_walk(at, part), a);
}

// ---- Products ----

// A lane's scales in a step, of one row. Where a block is a unit, neighbours are loaded at once.
constexpr u32 SCALES = BLOCK != 64 || BLOCKS % UNITS ? 1 : UNITS % 4 == 0 ? 4 : UNITS % 2 ? 1 : 2;
struct row_scales {
    loaded_scales<SCALES> part[UNITS / SCALES];
};

DEVICE void load_scales(SCALE_OPERANDS row_scales &row, const walk &at, u32 in_tile, u32 k_part)
{
    const u64 n = W_ROW(smaller(at.tile * ROWS + in_tile, N - 1));

    UNROLL for (u32 i = 0; i < UNITS / SCALES; i++) {
        const u32 column =
            at.chunk * CHUNK + (k_part * UNITS + i * SCALES) * 64 + item() % 4 * 16;
        row.part[i] = begin_scales<SCALES>(
            SCALE_NAMES n * BLOCKS + smaller(column / BLOCK, BLOCKS - SCALES));
    }
}

// What turns a pair of codes of a block into weights: (pair - shift) * scale - extra.
struct decoder {
    u32 scale, shift, extra;

    DEVICE decoder(const row_scales &row, u32 unit, float added)
    {
        const auto &part = row.part[unit / SCALES];
        scale = both_bf16(scale_at(part, unit % SCALES, CODES, added));
        shift = both_bf16(NO_ZERO + shift_at(part, unit % SCALES));
        extra = both_bf16(extra_at(part, unit % SCALES));
    }
    DEVICE u32 operator()(u32 word, u32 index, u32 copy) const
    {
        const u32 pair = pair_of_word(word, index, copy);
        const u32 shifted = BY_OFFSET ? difference_bf16x2(pair, shift) : pair;
        const u32 weights = product_bf16x2(shifted, scale);
        return ZERO == ZERO_SCALED ? difference_bf16x2(weights, extra) : weights;
    }
};

// The place of a lane's eight bytes of a unit in its first row, and so of the second, eight on.
DEVICE u32 packed_at(u32 row, u32 unit)
{
    const u32 q = item() % 4, piece = unit * 2 + q / 2;
    return row * ROW_BYTES + (piece ^ swizzle(row)) * 16 + q % 2 * 8;
}

// Decoded weights of two units: the matrix unit reads one set while the other is decoded into.
typedef u32 decoded[2][16];

// Decodes a lane's weights of a unit, of two rows of W, in the order of the matrix operand.
DEVICE void decode(u32 (&to)[16], const row_scales &upper, const row_scales &lower, u32 w, u32 row,
                   u32 k_part, u32 unit, float added)
{
    const u32 copy = item() % 32 * 4, at = w + packed_at(row, k_part * UNITS + unit);
    const u32x2 x = lds<u32x2>(at), y = lds<u32x2>(at, 8 * ROW_BYTES);
    const decoder above(upper, unit, added), below(lower, unit, added);

    UNROLL for (u32 j = 0; j < 4; j++) {
        const u32 one = j / 2 ? x.y : x.x, two = j / 2 ? y.y : y.x;
        UNROLL for (u32 h = 0; h < 2; h++) {
            to[j * 4 + h * 2] = above(one, j % 2 * 2 + h, copy);
            to[j * 4 + h * 2 + 1] = below(two, j % 2 * 2 + h, copy);
        }
    }
}

// The products of one step. A slab may have fewer than 64 rows of W: warps of the others multiply
// the zeros that `weights` begins with, and nobody stores that.
DEVICE void multiply(float (&sums)[SUMS], decoded &weights, const row_scales &upper,
                     const row_scales &lower, const walk &at, u32 row, u32 k_part, float added)
{
    UNROLL for (u32 u = 0; u < UNITS; u++) {
        u32(&now)[16] = weights[u % 2];
        if (row < ROWS)
            decode(now, upper, lower, W_RING + at.stage * W_BYTES, row, k_part, u, added);
        products_begin();
        UNROLL for (u32 j = 0; j < 4; j++)
            warpgroup_mma(sums, now[j * 4], now[j * 4 + 1], now[j * 4 + 2], now[j * 4 + 3],
                          A_RING + at.stage * A_BYTES + (k_part * UNITS + u) * (M_TILE * 128) +
                              j * 32);
        products_commit();
        if (u)
            products_wait<1>();
    }
    products_wait<0>();
}

// Adds what the groups that share a slab have, in the first of them; others are done.
DEVICE bool add_parts(float (&sums)[SUMS], u32 warp, u32 k_part)
{
    const u32 lane = item() % 32, own = warp % (SLABS * 4);

    sync_some(1, WARPS * 32);
    UNROLL for (u32 j = 0; j < SUMS && k_part; j++)
        sts<float>(SUMS_AT + (((k_part - 1) * SLABS * 4 + own) * SUMS + j) * SUMS_APART + lane * 4,
                   sums[j]);
    sync_some(1, WARPS * 32);
    UNROLL for (u32 p = 1; p < K_PARTS && !k_part; p++) {
        UNROLL for (u32 j = 0; j < SUMS; j++)
            sums[j] += lds<float>(
                SUMS_AT + (((p - 1) * SLABS * 4 + own) * SUMS + j) * SUMS_APART + lane * 4);
    }
    return k_part == 0;
}

DEVICE void consume(SCALE_OPERANDS SLOT_PARAMETER walk at, const c_element *bias, c_element *c,
                    u32 first, u32 m, i64 ldc)
{
    const u32 lane = item() % 32, warp = item() / 32;
    const u32 k_part = K_PARTS == 1 ? 0 : warp / (SLABS * 4);
    const u32 in_tile = warp % (SLABS * 4) * 16 + lane / 4;
    float added = 0; // to nested scales
    walk ahead = at;
    row_scales upper, lower;
    decoded weights = {};

    load_scales(SCALE_NAMES upper, at, in_tile, k_part);
    load_scales(SCALE_NAMES lower, at, in_tile + 8, k_part);
#if SCALE_IS_NESTED
    added = ldg(offset);
    for (u32 i = item(); i < NEST; i += WARPS * 32)
        sts<float>(CODES + i * 4, ldg(code + i));
#endif
    build_table(WARPS * 32);
    sync_some(1, WARPS * 32);
    await_launch_in_front();
    NO_UNROLL while (at.more()) {
        const u32 n = at.tile * ROWS + in_tile;
        float sums[SUMS] = {};
        NO_UNROLL for (u32 chunk = 0; chunk < CHUNKS; chunk++, at.advance()) {
            const row_scales upper_now = upper, lower_now = lower;
            ahead.advance();
            if (ahead.more()) { // a step ahead of their use
                load_scales(SCALE_NAMES upper, ahead, in_tile, k_part);
                load_scales(SCALE_NAMES lower, ahead, in_tile + 8, k_part);
            }
            barrier_wait(FULL + at.stage * 8, at.parity);
            multiply(sums, weights, upper_now, lower_now, at, in_tile, k_part, added);
            sync_warp();
            if (lane == 0)
                barrier_arrive(EMPTY + at.stage * 8);
        }
        if ((K_PARTS > 1 && !add_parts(sums, warp, k_part)) || in_tile >= ROWS)
            continue;
        UNROLL for (u32 j = 0; j < SUMS; j += 4)
            store_results<4>(sums + j, CODE_UNIT, n,
                             rows_to_store<2>(SLOT_NAME j * 2 + lane % 4 * 2, first, m), bias, c,
                             ldc);
    }
}

// ---- The kernel ----

KERNEL(SYMBOL, WAVES * 32)
(const u16 *a, const u8 *b, SCALE_OPERANDS
#if BIAS
 const c_element *bias,
#endif
 SLOT_OPERANDS c_element *c, int m, int first, i64 lda, i64 ldc, int workgroups SLICES_ARGUMENT)
{
#if !BIAS
    const c_element *const bias = nullptr;
#endif
    const u32 warp = item() / 32;
    let_next_launch_begin();
#if MOE
    ENTER_SLOTS
    const share part =
        share_out(group_x(), (u32)workgroups, slices_in_use(used, (u32)slices));
    const u32 slice = part.slice, group = part.group, groups = part.groups;
    const u32 begin = slice * M_TILE, its_rows = (u32)m;
    if (group * ROWS >= N || !groups)
        return;
    ENTER_EXPERT((u64)N * (K / 2), ROWS, groups)
#else
    const u32 group = SLICES_FIRST ? group_y() : group_x(), groups = (u32)workgroups;
    const u32 begin = (SLICES_FIRST ? group_x() : group_y()) * M_TILE;
    const u32 its_rows = smaller((u32)m - begin, M_TILE);
#endif
    const walk at = {groups, group, 0, 0, 0};

    check_shared_start();
    if (item() == 0) {
        for (u32 i = 0; i < STAGES; i++) {
            barrier_init(FULL + i * 8, 32 + BATCHES);
            barrier_init(EMPTY + i * 8, WARPS);
        }
        barrier_init_fence();
    }
    sync_group();
    if (warp < WARPS)
        consume(SCALE_NAMES SLOT_NAME at, bias, c, (u32)first + begin, its_rows, ldc);
    else if (warp == WARPS)
        fill_weights(SCALE_NAMES at, b);
    else {
        await_launch_in_front(a);
        const rows_of_a of_a = {a, lda, (u32)first + begin, its_rows};
        find_rows(SLOT_NAME of_a, warp - WARPS - 1);
        fill_a(at, of_a, warp - WARPS - 1);
    }
}
