/* SPDX-License-Identifier: MIT */
// Products of few rows of A with 4-bit weights of a table, in f32, for A of f32 and for GPUs
// without bulk copies.
//
// A warp has ROWS rows of W, and a lane of it eight neighbouring weights of each at a time, 256
// columns a step. The sixteen values of a code are in shared memory, a copy for each lane, so that
// lanes never meet in a bank. Lanes' sums are added at the end, by shuffles.

constexpr u32 STEP = 256; // columns that a warp takes at a time, eight a lane
constexpr u32 TABLE = 0, CODES = 16 * 32 * 4;
static_assert(CODES + SCALE_IS_NESTED * 1024 <= SHARED_BYTES, "the plan counted shared memory");

typedef typename element_of<A_TYPE>::type a_element;
typedef typename element_of<C_TYPE>::type c_element;

// Eight neighbours of a row, which starts at a multiple of four bytes.
DEVICE void load_a(const a_element *from, float (&values)[8])
{
    if constexpr (A_TYPE == F32) {
        UNROLL for (u32 i = 0; i < 8; i++)
            values[i] = ldg_late(from + i);
    } else {
        UNROLL for (u32 i = 0; i < 4; i++) {
            const u32 pair = ldg_late((const u32 *)from + i);
            values[2 * i] = widen<A_TYPE>(pair & 0xffff);
            values[2 * i + 1] = widen<A_TYPE>(pair >> 16);
        }
    }
}

DEVICE void step(LAYER_PARAMETER SCALE_OPERANDS SLOT_PARAMETER float (&sums)[ROWS][M_TILE],
                 u32 row, u32 column, const a_element *a, i64 lda, u32 first, u32 m, const u8 *b,
                 float shift)
{
    float values[M_TILE][8], of_a[M_TILE] = {}; // and their sums, which zero points are times

    UNROLL for (u32 t = 0; t < M_TILE; t++) {
        load_a(a + (i64)A_ROW(t) * lda + column, values[t]);
        UNROLL for (u32 i = 0; i < 8 && HAS_ZEROS; i++)
            of_a[t] += values[t][i];
    }
    UNROLL for (u32 r = 0; r < ROWS; r++) {
        const u64 n = W_ROW(smaller(row + r, N - 1));
        const u32 word = ldg((const u32 *)(b + n * (K / 2) + column / 2));
        const auto loaded = begin_scales<1>(SCALE_NAMES n * BLOCKS + column / BLOCK);
        float products[M_TILE] = {};

        UNROLL for (u32 i = 0; i < 8; i++) {
            const u32 code = code_of_word(word, i);
            const float weight = lds<float>(TABLE + code * 128 + item() % 32 * 4);
            UNROLL for (u32 t = 0; t < M_TILE; t++)
                products[t] = fused(weight, values[t][i], products[t]);
        }
        const float scale = scale_at(loaded, 0, CODES, shift);
        UNROLL for (u32 t = 0; t < M_TILE; t++) {
            if (HAS_ZEROS) {
                products[t] = fused(-shift_at(loaded, 0), of_a[t], products[t]);
                sums[r][t] = fused(-extra_at(loaded, 0), of_a[t], sums[r][t]);
            }
            sums[r][t] = fused(products[t], scale, sums[r][t]);
        }
    }
}

// Where the results of row i of the slice that begins at `first` go in C.
DEVICE u32 stored_row(SLOT_PARAMETER u32 first, u32 m, u32 i) { return STORED_ROW(i); }
DEVICE float routing_of(SLOT_PARAMETER u32 row) { return ROUTING(row); }

KERNEL(SYMBOL, WAVES * 32)
(LAYER_OPERANDS const a_element *a, const u8 *b, SCALE_OPERANDS
#if BIAS
 const c_element *bias,
#endif
 SLOT_OPERANDS c_element *c, int m, int first, i64 lda, i64 ldc)
{
    ENTER_LAYER
    let_next_launch_begin();
    const u32 lane = item() % 32;
    const u32 group = SLICES_FIRST ? group_y() : group_x();
    const u32 slice = SLICES_FIRST ? group_x() : group_y(), begin = slice * M_TILE;
#if MOE
    ENTER_SLOTS
    if (begin >= used)
        return;
    ENTER_EXPERT((u64)N * (K / 2), WAVES * ROWS, divide_up(N, WAVES * ROWS))
    const u32 its_rows = (u32)m;
#else
    const u32 its_rows = smaller((u32)m - begin, M_TILE);
#endif
    const u32 row = (group * WAVES + item() / 32) * ROWS;
    float sums[ROWS][M_TILE] = {}, shift = 0;

    check_shared_start();
#if SCALE_IS_NESTED
    shift = ldg(offset);
    for (u32 i = item(); i < NEST; i += WAVES * 32)
        sts<float>(CODES + i * 4, ldg(code + i));
#endif
    for (u32 i = item(); i < 16 * 32; i += WAVES * 32)
        sts<float>(TABLE + i * 4, VALUES.value[i / 32]);
    sync_group();
    await_launch_in_front(a);
    NO_UNROLL for (u32 column = lane * 8; column < K; column += STEP)
        step(LAYER_NAME SCALE_NAMES SLOT_NAME sums, row, column, a, lda, (u32)first + begin,
             its_rows, b, shift);
    UNROLL for (u32 r = 0; r < ROWS; r++) {
        UNROLL for (u32 t = 0; t < M_TILE; t++) {
            UNROLL for (u32 lanes = 16; lanes; lanes /= 2)
                sums[r][t] += shuffle_xor(sums[r][t], lanes);
            const u32 n = row + r, to = stored_row(SLOT_NAME (u32)first + begin, its_rows, t);
            if (n >= N || to == NO_ROW || lane != (r * M_TILE + t) % 32)
                continue;
            float total = sums[r][t];
#if BIAS
            total += HAS_BIAS ? load<C_TYPE>(bias + W_ROW(n)) : 0;
#endif
#if GLU
            if (HAS_COLUMN(n)) // the gate, which waits for the sum of the next row
                continue;
            float gate = sums[r - r % 2][t];
#if BIAS
            gate += load<C_TYPE>(bias + W_ROW(n - 1));
#endif
            total = activated(gate, total);
#endif
            stg(c + (i64)to * ldc + C_COLUMN(n),
                rounded<C_TYPE>(total * routing_of(SLOT_NAME to)));
        }
    }
}
