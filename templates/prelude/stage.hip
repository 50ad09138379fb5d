/* SPDX-License-Identifier: MIT */
// A part of A in LDS, for all waves of a workgroup. Rows lie PITCH bytes apart: what lanes with
// rows of their own read at once then lies in different banks.

constexpr u32 STAGE_LOADS = 8; // of 16 bytes, that a lane waits for together

typedef u32 stage_vector __attribute__((ext_vector_type(4), aligned(4)));

// Copies BYTES bytes of each of ROWS rows to LDS, by ITEMS work-items together. Row i starts at
// `row(i)`, a multiple of 4 bytes. The caller puts a barrier behind it.
template <u32 ROWS, u32 BYTES, u32 PITCH, u32 ITEMS, class ROW>
DEVICE void stage_rows(u8 *staged, u32 item, ROW row)
{
    constexpr u32 ROW_LOADS = (BYTES + ITEMS * 16 - 1) / (ITEMS * 16); // of a lane
    constexpr u32 LOADS = ROWS * ROW_LOADS;
    constexpr u32 EVEN = BYTES / 16 * 16;

    UNROLL for (u32 from = 0; from < LOADS; from += STAGE_LOADS) {
        u32x4 held[minimum(STAGE_LOADS, LOADS)];
        UNROLL for (u32 j = 0; j < STAGE_LOADS && from + j < LOADS; j++) {
            const u32 at = (from + j) % ROW_LOADS * (ITEMS * 16) + item * 16;
            if (EVEN % (ITEMS * 16) == 0 || at < EVEN)
                held[j] = *(const stage_vector *)(row((from + j) / ROW_LOADS) + at);
        }
        UNROLL for (u32 j = 0; j < STAGE_LOADS && from + j < LOADS; j++) {
            const u32 at = (from + j) % ROW_LOADS * (ITEMS * 16) + item * 16;
            if (EVEN % (ITEMS * 16) == 0 || at < EVEN)
                *(u32x4 *)(staged + (from + j) / ROW_LOADS * PITCH + at) = held[j];
        }
    }
    if constexpr (BYTES > EVEN) { // the last dwords of each row, one by one
        constexpr u32 REST = (BYTES - EVEN) / 4;
        for (u32 i = item; i < ROWS * REST; i += ITEMS) {
            const u32 at = EVEN + i % REST * 4;
            *(u32 *)(staged + i / REST * PITCH + at) = *(const u32 *)(row(i / REST) + at);
        }
    }
}
