/* SPDX-License-Identifier: MIT */
// The decoder: a table in LDS that turns a byte of two 4-bit codes into their two values, in the
// order that a dot product with A wants.
//
// An entry is as wide as the banks and holds one copy of the pair for each lane that the LDS serves
// in one pass, so that no two lanes ever meet in a bank, whatever the weights are.

constexpr bool WIDE = PRODUCTS == PACKED || PRODUCTS == PLAIN; // f32 values

template <bool> struct pair_type; // what one look-up returns
template <> struct pair_type<true> { typedef f32x2 type; };
template <> struct pair_type<false> { typedef u32 type; };
typedef pair_type<WIDE>::type pair;

constexpr u32 TABLE_BYTES = 256 * ENTRY_BYTES;
constexpr u32 COPIES = ENTRY_BYTES / sizeof(pair);

// A centroid as the bits of the type it is multiplied in, rounded to nearest even.
constexpr u32 code_bits(u32 code)
{
    const u32 bits = __builtin_bit_cast(u32, CODE[code]);
    if (WIDE)
        return bits;
    return A_TYPE == F16 ? __builtin_bit_cast(u16, (f16)CODE[code])
                         : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// The pairs of all bytes, those of one upper nibble after those of the one before. Clang interprets
// what it computes of constants, and does so several times over: byte by byte that was 8 % of the
// instructions of a compile. So a row of sixteen bytes is one vector, and a template's function is
// not tried out before it is called.
typedef u32 pair_row __attribute__((ext_vector_type(16), aligned(4)));
struct pair_values {
    pair_row first[16];
    pair_row second[WIDE ? 16 : 1]; // 16-bit types have both values in one dword
};
template <u32 ROWS_OF_PAIRS> constexpr pair_values make_pair_values()
{
    const pair_row low = {code_bits(0),  code_bits(1),  code_bits(2),  code_bits(3),
                          code_bits(4),  code_bits(5),  code_bits(6),  code_bits(7),
                          code_bits(8),  code_bits(9),  code_bits(10), code_bits(11),
                          code_bits(12), code_bits(13), code_bits(14), code_bits(15)};
    pair_values values = {};
    for (u32 i = 0; i < ROWS_OF_PAIRS; i++) {
        const pair_row high = (pair_row)code_bits(i);
        const pair_row first = HIGH_NIBBLE_FIRST ? high : low;
        const pair_row second = HIGH_NIBBLE_FIRST ? low : high;
        values.first[i] = WIDE ? first : first | second << 16;
        if (WIDE)
            values.second[WIDE ? i : 0] = second;
    }
    return values;
}
CONSTANT constexpr pair_values PAIR_VALUES = make_pair_values<16>();

// Entries that a lane builds, and their values. They are loaded before anything else is, since
// loads return in the order of issue.
constexpr u32 ENTRIES_PER_LANE = (255 + WAVES * WAVE) / (WAVES * WAVE);

struct lane_entries {
    u32 first[ENTRIES_PER_LANE], second[ENTRIES_PER_LANE];
};

DEVICE lane_entries load_entries(u32 item)
{
    lane_entries values;
    UNROLL for (u32 e = 0; e < ENTRIES_PER_LANE; e++) {
        const u32 entry = (item + e * WAVES * WAVE) % 256;
        values.first[e] = ((const u32 *)PAIR_VALUES.first)[entry];
        values.second[e] =
            WIDE ? ((const u32 *)PAIR_VALUES.second)[WIDE ? entry : 0] : values.first[e];
    }
    return values;
}

// Fills the table. Each lane writes the 16-byte pieces of an entry, beginning with another piece
// than its neighbours: so at any time, as many lanes as an entry has pieces write to different
// banks.
DEVICE void build_table(LDS u8 *table, const lane_entries &values, u32 item)
{
    UNROLL for (u32 e = 0; e < ENTRIES_PER_LANE; e++) {
        const u32 entry = item + e * WAVES * WAVE;
        const u32 first = values.first[e], second = values.second[e];
        const u32x4 piece = {first, second, first, second};
        const u32 at = entry * ENTRY_BYTES + item % (ENTRY_BYTES / 16) * 16;
        if (entry < 256) {
            UNROLL for (u32 i = 0; i < ENTRY_BYTES; i += 16)
                *(LDS u32x4 *)(table + (at ^ i)) = piece;
        }
    }
    UNROLL for (u32 e = 0; e < ENTRIES_PER_LANE; e++) {
        keep(values.first[e]);
        keep(values.second[e]);
    }
}

// The pair of byte `index` of four packed ones. One instruction makes the LDS address: that byte
// above the lane's copy; or a dot product of the four bytes with ENTRY_BYTES in one place and zeros
// elsewhere, plus the lane's copy.
DEVICE pair look_up(const LDS u8 *table, u32 packed, u32 index, u32 copy)
{
    const u32 address =
        ENTRY_BYTES == 256 ? __builtin_amdgcn_perm(packed, copy, 0x0c0c0000 | (4 + index) << 8)
                           : __builtin_amdgcn_udot4(packed, ENTRY_BYTES << 8 * index, copy, false);
    return *(const LDS pair *)(table + address);
}

DEVICE u32 lane_copy(u32 lane) { return lane % COPIES * sizeof(pair); }
