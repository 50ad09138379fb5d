/* SPDX-License-Identifier: MIT */
// Puts the choices of a router into blocks of one expert each: which choice a slot of `rows` is
// for, whose block it is, and how many slots are used. A choice is token * top_k + which; an
// expert's choices follow each other in ascending order, its last block is filled up with
// `choices`, which is no choice, and so is everything beyond the used slots.
//
// One workgroup does it all. Each of its warps has a stretch of consecutive choices, and for each
// expert a count in shared memory that no other warp touches. The warps count their choices; then
// the counts become the slots where each warp's choices of each expert begin; and the warps place
// their choices. Of lanes with the same expert each has the rank of its lane among them, and the
// last one moves the count on for all, so that nothing depends on which lane is first.

constexpr u32 ITEMS = WARPS * 32;
constexpr u32 NOBODY = ~0u; // no expert: of blocks without choices
constexpr u32 ITEM_EXPERTS = divide_up(EXPERTS, ITEMS); // consecutive ones of a work-item
constexpr u32 AHEAD = 4; // loads that a lane has asked for before it uses the first

// For each warp and expert: how many of its choices the warp has, then the slot of its next one.
// For each expert: the slot behind its last choice. For each warp: the blocks of its experts.
constexpr u32 PLACES = 0, ENDS = PLACES + WARPS * EXPERTS * 4, SUMS = ENDS + EXPERTS * 4;
static_assert(SUMS + WARPS * 4 <= SHARED_BYTES, "the plan counted shared memory");

DEVICE u32 place_of(u32 warp, u32 expert) { return PLACES + (warp * EXPERTS + expert) * 4; }
DEVICE u32 blocks_of(u32 count) { return divide_up(count, BLOCK_ROWS); }

// Ids of a lane's choices `at`, `at` + 32 and so on; from `end` on there are none.
DEVICE void load_ids(u32 (&id)[AHEAD], const u32 *topk_ids, u32 at, u32 end)
{
    UNROLL for (u32 i = 0; i < AHEAD; i++)
        id[i] = at + i * 32 < end ? ldg_late(topk_ids + at + i * 32) : NOBODY;
}

// Whether no lane of a set is behind this one, which is in it.
DEVICE bool is_last(u32 set, u32 lane) { return set >> lane == 1; }
DEVICE u32 lanes_before(u32 set, u32 lane) { return count_bits(set & ((1u << lane) - 1)); }

// The sums of a value over the lanes before this one, and over all lanes.
struct lane_sums { u32 before, all; };
DEVICE lane_sums sum_lanes(u32 value, u32 lane)
{
    lane_sums sums = {0, value};
    UNROLL for (u32 step = 1; step < 32; step *= 2) {
        const u32 other = as_bits(shuffle_xor(as_float(sums.all), step));
        sums.before += lane & step ? other : 0;
        sums.all += other;
    }
    return sums;
}

// Counts a warp's choices by expert.
DEVICE void count(const u32 *topk_ids, u32 first, u32 end, u32 warp, u32 lane)
{
    NO_UNROLL for (u32 at = first; at < end; at += AHEAD * 32) {
        u32 id[AHEAD];
        load_ids(id, topk_ids, at + lane, end);
        UNROLL for (u32 i = 0; i < AHEAD; i++) {
            const u32 alike = lanes_alike(id[i]);
            if (id[i] < EXPERTS && is_last(alike, lane)) {
                const u32 place = place_of(warp, id[i]);
                sts<u32>(place, lds<u32>(place) + count_bits(alike));
            }
            sync_warp();
        }
    }
}

// Puts a warp's choices into their slots. The choice that comes first in a block names the block's
// expert.
DEVICE void put(const u32 *topk_ids, u32 *rows, u32 *experts, u32 first, u32 end, u32 warp,
                u32 lane)
{
    NO_UNROLL for (u32 at = first; at < end; at += AHEAD * 32) {
        u32 id[AHEAD];
        load_ids(id, topk_ids, at + lane, end);
        UNROLL for (u32 i = 0; i < AHEAD; i++) {
            const bool is_one = id[i] < EXPERTS;
            const u32 alike = lanes_alike(id[i]), place = place_of(warp, is_one ? id[i] : 0);
            const u32 slot = lds<u32>(place) + lanes_before(alike, lane);
            sync_warp();
            if (is_one) {
                stg(rows + slot, at + i * 32 + lane);
                if (slot % BLOCK_ROWS == 0)
                    stg(experts + slot / BLOCK_ROWS, id[i]);
                if (is_last(alike, lane))
                    sts<u32>(place, slot + 1);
            }
            sync_warp();
        }
    }
}

// Writes what is no choice: the ends of experts' last blocks, and everything that is not used.
DEVICE void fill(u32 *rows, u32 *experts, u32 used, u32 choices)
{
    NO_UNROLL for (u32 i = BLOCK_ROWS > 1 ? item() : EXPERTS; i < EXPERTS * BLOCK_ROWS;
                   i += ITEMS) {
        const u32 end = lds<u32>(ENDS + i / BLOCK_ROWS * 4), slot = end + i % BLOCK_ROWS;
        if (slot / BLOCK_ROWS * BLOCK_ROWS < end)
            stg(rows + slot, choices);
    }
    const u32 padded = smaller(choices + EXPERTS * (BLOCK_ROWS - 1), choices * BLOCK_ROWS);
    const u32 all_blocks = blocks_of(padded);
    NO_UNROLL for (u32 slot = used + item(); slot < all_blocks * BLOCK_ROWS; slot += ITEMS)
        stg(rows + slot, choices);
    NO_UNROLL for (u32 block = used / BLOCK_ROWS + item(); block < all_blocks; block += ITEMS)
        stg(experts + block, NOBODY);
}

KERNEL(SYMBOL, WARPS * 32)(const u32 *topk_ids, u32 *rows, u32 *experts, u32 *rows_used,
                           u32 choices)
{
    const u32 lane = item() % 32, warp = item() / 32;
    const u32 of_warp = divide_up(choices, ITEMS) * 32;
    const u32 first = smaller(warp * of_warp, choices), end = smaller(first + of_warp, choices);

    let_next_launch_begin();
    check_shared_start();
    for (u32 expert = lane; expert < EXPERTS; expert += 32)
        sts<u32>(place_of(warp, expert), 0);
    sync_warp();
    await_launch_in_front(topk_ids);
    count(topk_ids, first, end, warp, lane);
    sync_group();

    // Where experts begin, in blocks: a work-item has some experts, and adds up all warps.
    u32 blocks = 0;
    UNROLL for (u32 i = 0; i < ITEM_EXPERTS; i++) {
        const u32 expert = item() * ITEM_EXPERTS + i;
        u32 all = 0;
        for (u32 w = 0; w < WARPS && expert < EXPERTS; w++)
            all += lds<u32>(place_of(w, expert));
        blocks += blocks_of(all);
    }
    const lane_sums sums = sum_lanes(blocks, lane);
    if (lane == 0)
        sts<u32>(SUMS + warp * 4, sums.all);
    sync_group();
    u32 begin = sums.before, used = 0;
    for (u32 w = 0; w < WARPS; w++) {
        const u32 sum = lds<u32>(SUMS + w * 4);
        begin += w < warp ? sum : 0;
        used += sum;
    }
    begin *= BLOCK_ROWS;
    used *= BLOCK_ROWS;

    // Counts become slots, the warps of an expert one behind another.
    UNROLL for (u32 i = 0; i < ITEM_EXPERTS; i++) {
        const u32 expert = item() * ITEM_EXPERTS + i;
        u32 slot = begin;
        for (u32 w = 0; w < WARPS && expert < EXPERTS; w++) {
            const u32 own = lds<u32>(place_of(w, expert));
            sts<u32>(place_of(w, expert), slot);
            slot += own;
        }
        if (expert < EXPERTS)
            sts<u32>(ENDS + expert * 4, slot);
        begin += blocks_of(slot - begin) * BLOCK_ROWS;
    }
    sync_group();

    put(topk_ids, rows, experts, first, end, warp, lane);
    fill(rows, experts, used, choices);
    if (item() == 0)
        stg(rows_used, used);
}
