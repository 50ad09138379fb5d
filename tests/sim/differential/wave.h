/* SPDX-License-Identifier: MIT */
/*
 * Functions of a whole wave: what lanes read from each other, alone and under divergence. A `wave`
 * is one value of each lane; x and y are random. SET assigns in the active lanes.
 */

/* ---- Lanes by number ------------------------------------------------------------------------- */

WAVE_FUNCTION(wave_lane_id, x, y) { return lane_id() + (x ^ x) + (y ^ y); }
WAVE_FUNCTION(wave_read_lane_constant, x, y)
{
    return y + read_lane(x, 5) + read_lane(x, LANES - 1);
}
WAVE_FUNCTION(wave_read_lane_at_run_time, x, y)
{
    const u32 n = read_first_lane(y) % LANES;
    return y ^ read_lane(x, n);
}
WAVE_FUNCTION(wave_read_first_lane, x, y) { return x - read_first_lane(y); }
WAVE_FUNCTION(wave_read_first_lane_diverged, x, y)
{
    const wave_bool odd = (y & 1) != 0;
    wave r = x;
    WAVE_IF(odd)
        SET(r, x + read_first_lane(x));
    WAVE_ELSE(odd)
        SET(r, x ^ read_first_lane(y));
    return r;
}
WAVE_FUNCTION(wave_write_lane, x, y)
{
    const u32 n = read_first_lane(x) % LANES;
    const wave r = write_lane(y, n, read_lane(x, 3));
    return write_lane(r, 7, 12345) + x;
}
WAVE_FUNCTION(wave_sum_by_read_lane, x, y)
{
    u32 sum = 0;
    for (u32 i = 0; i < LANES; i += 3)
        sum += read_lane(x, i);
    return y + sum;
}

/* ---- Masks ----------------------------------------------------------------------------------- */

WAVE_FUNCTION(wave_ballot, x, y)
{
    const mask m = ballot(x < y);
    return x ^ ((u32)m + (u32)((u64)m >> 32) * 3);
}
WAVE_FUNCTION(wave_ballot_diverged, x, y)
{
    const wave_bool small_y = y < 40;
    wave r = x;
    WAVE_IF(small_y)
    {
        const mask m = ballot((x & 4) != 0);
        SET(r, SPLAT((u32)m ^ (u32)((u64)m >> 32)));
    }
    return r;
}
WAVE_FUNCTION(wave_count_below, x, y)
{
    const mask m = ballot((x & 3) == 1);
    return mask_below(m, y);
}
WAVE_FUNCTION(wave_compaction, x, y)
{
    const wave_bool keep = (x & 1) != 0;
    const mask m = ballot(keep);
    const wave kept = mask_below(m, SPLAT(0));
    const wave dropped = lane_id() - kept + uniform_popcount(m);
    return SELECT(keep, kept, dropped) + (y ^ y);
}
WAVE_FUNCTION(wave_any_and_all, x, y)
{
    const u32 any = ballot(x == y) != 0, all = ballot((x | y) != 0) == read_exec();
    return x + any * 2 + all;
}
WAVE_FUNCTION(wave_leader, x, y)
{
    const mask m = ballot((x & 7) == 3);
    const u32 leader = m ? uniform_ctz(m) : 0;
    return y - read_lane(x, leader);
}
/* Each turn serves all lanes that have the value of the first that waits. */
WAVE_FUNCTION(wave_waterfall, x, y)
{
    const wave key = x & 7;
    wave r = y, turn = SPLAT(0), done = SPLAT(0);
    WAVE_WHILE(done == 0)
    {
        const u32 now = read_first_lane(key);
        const wave_bool mine = key == now;
        SET(turn, turn + 1);
        WAVE_IF(mine)
        {
            SET(r, y * now + turn);
            SET(done, SPLAT(1));
        }
    }
    return r;
}
WAVE_FUNCTION(wave_loop_to_the_longest, x, y)
{
    wave left = y & 15, r = x;
    WAVE_WHILE(left != 0)
    {
        SET(left, left - 1);
        SET(r, r * 5 + uniform_popcount(read_exec()));
    }
    return r;
}

/* ---- ds_bpermute, ds_permute, ds_swizzle ----------------------------------------------------- */

WAVE_FUNCTION(wave_bpermute_any, x, y) { return bpermute(y * 4, x); }
WAVE_FUNCTION(wave_bpermute_rotate, x, y) { return bpermute((lane_id() + 3) * 4, x) - y; }
WAVE_FUNCTION(wave_bpermute_xor, x, y) { return bpermute((lane_id() ^ 9) * 4, x) + y; }
WAVE_FUNCTION(wave_bpermute_unaligned_address, x, y) { return bpermute(y, x); }
WAVE_FUNCTION(wave_bpermute_diverged, x, y)
{
    const wave_bool even = (x & 1) == 0;
    wave r = y;
    WAVE_IF(even)
        SET(r, bpermute(y * 4, x));
    return r;
}
WAVE_FUNCTION(wave_permute_reverse, x, y) { return permute((lane_id() ^ 31) * 4, x) ^ y; }
WAVE_FUNCTION(wave_permute_multiply, x, y)
{
    return permute((lane_id() * 5 % LANES) * 4, x) - y;
}
WAVE_FUNCTION(wave_swizzle_swap_pairs, x, y) { return swizzle(x, 0x041f) + y; }
WAVE_FUNCTION(wave_swizzle_reverse, x, y) { return swizzle(x, 0x7c1f) - y; }
WAVE_FUNCTION(wave_swizzle_broadcast, x, y) { return swizzle(x, 0x0078) ^ y; }
WAVE_FUNCTION(wave_swizzle_quad, x, y) { return swizzle(x, 0x801b) + y; }
/* No bits that stay in place: the disassembler's text does not have them. */
WAVE_FUNCTION(wave_swizzle_rotate, x, y) { return swizzle(x, 0xc0e0) + swizzle(y, 0xc460); }
WAVE_FUNCTION(wave_swizzle_fft, x, y) { return swizzle(x, 0xe000) + swizzle(y, 0xe003); }
WAVE_FUNCTION(wave_swizzle_fft_keeps_all, x, y) { return swizzle(x, 0xe01f) - y; }
WAVE_FUNCTION(wave_swizzle_diverged, x, y)
{
    const wave_bool odd = (y & 1) != 0;
    wave r = x;
    WAVE_IF(odd)
        SET(r, swizzle(x, 0x081f));
    return r;
}

/* ---- DPP ------------------------------------------------------------------------------------- */

WAVE_FUNCTION(wave_dpp_quad_perm, x, y) { return dpp(y, x, 0x1b, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_quad_broadcast, x, y) { return y + dpp(SPLAT(0), x, 0xaa, 15, 15, true); }
WAVE_FUNCTION(wave_dpp_row_shl, x, y) { return dpp(y, x, 0x103, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_row_shl_bound, x, y) { return y + dpp(SPLAT(0), x, 0x101, 15, 15, true); }
WAVE_FUNCTION(wave_dpp_row_shr, x, y) { return dpp(y, x, 0x114, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_row_shr_bound, x, y) { return dpp(y, x, 0x118, 15, 15, true); }
WAVE_FUNCTION(wave_dpp_row_ror, x, y) { return y - dpp(x, x, 0x125, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_row_mirror, x, y) { return y ^ dpp(x, x, 0x140, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_row_half_mirror, x, y) { return dpp(x, y, 0x141, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_row_mask, x, y) { return dpp(y, x, 0x121, 5, 15, false); }
WAVE_FUNCTION(wave_dpp_bank_mask, x, y) { return dpp(y, x, 0x112, 15, 6, false); }
WAVE_FUNCTION(wave_dpp_both_masks_bound, x, y) { return dpp(y, x, 0x111, 2, 13, true); }
WAVE_FUNCTION(wave_dpp_on_a_subtraction, x, y)
{
    return dpp(SPLAT(0), x, 0x142 - 1, 15, 15, true) - y;
}
WAVE_FUNCTION(wave_dpp_on_floats, x, y)
{
    const wave xf = (x & 0x007fffff) | 0x3f800000, yf = (y & 0x007fffff) | 0x40000000;
    const wave moved = dpp(SPLAT(0), xf, 0x4e, 15, 15, true);
    return as_bits(as_float(moved) * as_float(yf)) ^ as_bits(-as_float(moved) + as_float(yf));
}
WAVE_FUNCTION(wave_dpp_diverged, x, y)
{
    const wave_bool some = (y & 3) != 0;
    wave r = y;
    WAVE_IF(some)
        SET(r, dpp(x, y, 0x113, 15, 15, false));
    return r;
}
WAVE_FUNCTION(wave_dpp_diverged_bound, x, y)
{
    const wave_bool some = (y & 2) != 0;
    wave r = x;
    WAVE_IF(some)
        SET(r, x + dpp(SPLAT(0), y, 0xb1, 15, 15, true));
    return r;
}
WAVE_FUNCTION(wave_dpp_prefix_sum_of_rows, x, y)
{
    wave s = x;
    s = s + dpp(SPLAT(0), s, 0x111, 15, 15, true);
    s = s + dpp(SPLAT(0), s, 0x112, 15, 15, true);
    s = s + dpp(SPLAT(0), s, 0x114, 15, 15, true);
    s = s + dpp(SPLAT(0), s, 0x118, 15, 15, true);
    return s + (y ^ y);
}
WAVE_FUNCTION(wave_dpp_maximum_of_rows, x, y)
{
    wave m = x;
    for (u32 i = 0; i < 1; i++) {
        wave o = dpp(m, m, 0xb1, 15, 15, false);
        m = SELECT(m > o, m, o);
        o = dpp(m, m, 0x4e, 15, 15, false);
        m = SELECT(m > o, m, o);
        o = dpp(m, m, 0x141, 15, 15, false);
        m = SELECT(m > o, m, o);
        o = dpp(m, m, 0x140, 15, 15, false);
        m = SELECT(m > o, m, o);
    }
    return m - y;
}

#undef NEEDS
#define NEEDS ROW_BCAST
#if HAS(ROW_BCAST)
WAVE_FUNCTION(wave_dpp_row_bcast_15, x, y) { return dpp(y, x, 0x142, 10, 15, false); }
WAVE_FUNCTION(wave_dpp_row_bcast_31, x, y) { return dpp(y, x, 0x143, 12, 15, false); }
WAVE_FUNCTION(wave_dpp_wave_shr, x, y) { return dpp(y, x, 0x138, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_wave_shl_bound, x, y) { return dpp(y, x, 0x130, 15, 15, true); }
WAVE_FUNCTION(wave_dpp_prefix_sum, x, y)
{
    wave s = x;
    s = s + dpp(SPLAT(0), s, 0x111, 15, 15, false);
    s = s + dpp(SPLAT(0), s, 0x112, 15, 15, false);
    s = s + dpp(SPLAT(0), s, 0x114, 15, 15, false);
    s = s + dpp(SPLAT(0), s, 0x118, 15, 15, false);
    s = s + dpp(SPLAT(0), s, 0x142, 10, 15, false);
    s = s + dpp(SPLAT(0), s, 0x143, 12, 15, false);
    return s - y;
}
#endif

#undef NEEDS
#define NEEDS ROW_XMASK
#if HAS(ROW_XMASK)
WAVE_FUNCTION(wave_dpp_row_share, x, y) { return dpp(y, x, 0x15b, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_row_xmask, x, y) { return y + dpp(x, x, 0x166, 15, 15, false); }
WAVE_FUNCTION(wave_dpp_row_xmask_masked, x, y) { return dpp(y, x, 0x16f, 3, 9, false); }
WAVE_FUNCTION(wave_dpp8, x, y) { return dpp8(x, 0x053977) + y; }
WAVE_FUNCTION(wave_dpp8_reverse, x, y) { return dpp8(x, 0x053977 ^ 0xffffff) - y; }
WAVE_FUNCTION(wave_permlane16_reverse, x, y)
{
    return permlane16(y, x, 0x89abcdef, 0x01234567, false, false);
}
WAVE_FUNCTION(wave_permlane16_broadcast, x, y)
{
    return permlane16(x, x, 0x33333333, 0xcccccccc, true, false) - y;
}
WAVE_FUNCTION(wave_permlane16_at_run_time, x, y)
{
    return permlane16(x, y, read_lane(x, 1), read_lane(x, 2), true, false) ^ x;
}
WAVE_FUNCTION(wave_permlanex16_swap, x, y)
{
    return permlanex16(x, x, 0x76543210, 0xfedcba98, false, false) + y;
}
WAVE_FUNCTION(wave_permlanex16_zero_selectors, x, y)
{
    return permlanex16(x, x, 0, 0, false, false) - y;
}
WAVE_FUNCTION(wave_permlane16_diverged, x, y)
{
    const wave_bool odd = (y & 1) != 0;
    wave r = x;
    WAVE_IF(odd)
        SET(r, permlane16(x, y, 0x10325476, 0x98badcfe, false, false));
    return r;
}
WAVE_FUNCTION(wave_permlane16_diverged_bound, x, y)
{
    const wave_bool odd = (y & 1) != 0;
    wave r = x;
    WAVE_IF(odd)
        SET(r, permlane16(x, y, 0x10325476, 0x98badcfe, false, true));
    return r;
}
WAVE_FUNCTION(wave_permlanex16_diverged_fetch, x, y)
{
    const wave_bool odd = (y & 1) != 0;
    wave r = x;
    WAVE_IF(odd)
        SET(r, permlanex16(x, x, 0x76543210, 0xfedcba98, true, false));
    return r;
}
WAVE_FUNCTION(wave_sum_of_32, x, y)
{
    wave s = x;
    s = s + dpp(s, s, 0x161, 15, 15, false);
    s = s + dpp(s, s, 0x162, 15, 15, false);
    s = s + dpp(s, s, 0x164, 15, 15, false);
    s = s + dpp(s, s, 0x168, 15, 15, false);
    s = s + permlanex16(s, s, 0x76543210, 0xfedcba98, false, false);
    return s - y;
}
#endif

#undef NEEDS
#define NEEDS PERMLANE64
#if HAS(PERMLANE64)
WAVE_FUNCTION(wave_permlane64, x, y) { return permlane64(x) + y; }
#endif
#undef NEEDS
#define NEEDS 0

/* ---- Put together ---------------------------------------------------------------------------- */

WAVE_FUNCTION(wave_bitonic_sort_of_32, x, y)
{
    const wave id = lane_id() & 31;
    for (u32 size = 2; size <= 32; size *= 2)
        for (u32 step = size / 2; step; step /= 2) {
            const wave other = bpermute((lane_id() ^ step) * 4, x);
            const wave_bool up = ((id & size) == 0) == ((id & step) == 0);
            x = SELECT(up, SELECT(x < other, x, other), SELECT(x > other, x, other));
        }
    return x + (y ^ y);
}
WAVE_FUNCTION(wave_transpose_of_quads, x, y)
{
    const wave a = dpp(x, x, 0x4e, 15, 15, false), b = dpp(y, y, 0xb1, 15, 15, false);
    const wave_bool low = (lane_id() & 2) == 0;
    return SELECT(low, x + b, a - y);
}
WAVE_FUNCTION(wave_sum_by_swizzle, x, y)
{
    x = x + swizzle(x, 0x041f);
    x = x + swizzle(x, 0x081f);
    x = x + swizzle(x, 0x101f);
    x = x + swizzle(x, 0x201f);
    x = x + swizzle(x, 0x401f);
    return x ^ y;
}
WAVE_FUNCTION(wave_prefix_sum_by_bpermute, x, y)
{
    const wave id = lane_id() & 31;
    for (u32 step = 1; step < 32; step *= 2) {
        const wave other = bpermute((lane_id() - step) * 4, x);
        x = SELECT(id >= step, x + other, x);
    }
    return x - y;
}
WAVE_FUNCTION(wave_uniform_branch, x, y)
{
    if (read_first_lane(x) & 1)
        x = x * 3 + dpp(x, y, 0x1b, 15, 15, false);
    else
        x = x ^ read_lane(y, 2);
    return x + y;
}
WAVE_FUNCTION(wave_scalar_arithmetic, x, y)
{
    const u32 a = read_lane(x, 0), b = read_lane(x, 1), c = read_lane(y, 2);
    const u32 s = (a + b * 7) ^ (a >> 3 | b << 29), t = c ? a % ((c & 0xff) | 1) : b;
    return x + (s < t ? s - c : t + (u32)((u64)a * b >> 32));
}
