/* SPDX-License-Identifier: MIT */
// Loading A, for families on matrix units, behind the template that says how weights are paired.

// Sixteen bytes of A by one load, or where its rows are not aligned, by four. They are in memory's
// order: order_a is for where they are used, because int4's waits for them.
template <bool ALIGNED> DEVICE void load_a_piece(const void *from, u32 *to)
{
    u32x4 v;

    if constexpr (ALIGNED) {
        v = ldg_late((const u32x4 *)from);
    } else {
        const u32 *const words = (const u32 *)from;
        v = {ldg_late(words), ldg_late(words + 1), ldg_late(words + 2), ldg_late(words + 3)};
    }
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
