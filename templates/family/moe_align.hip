/* SPDX-License-Identifier: MIT */
// Puts the choices of a router into blocks of one expert each: which choice a slot of `rows` is
// for, whose block it is, and how many slots are used. A choice is token * top_k + which; an
// expert's choices follow each other in ascending order, its last block is filled up with
// `choices`, which is no choice, and so is everything beyond the used slots.
//
// Every workgroup counts all choices, so that none waits for another. It then places a stretch of
// its own, whose choices it counted apart, wave by wave: an expert's slots begin where those of the
// experts below it end, and a wave's part of them where those of the waves before it end. Within a
// wave the ballots of the bits of an expert's number say which lanes have the same expert.

template <u32 LANES> struct lane_mask;
template <> struct lane_mask<32> { typedef u32 type; };
template <> struct lane_mask<64> { typedef u64 type; };
typedef lane_mask<WAVE>::type lanes; // a bit for each lane of a wave

template <u32 LANES> DEVICE lanes ballot_of(bool set)
{
    if constexpr (LANES == 64)
        return __builtin_amdgcn_ballot_w64(set);
    else
        return __builtin_amdgcn_ballot_w32(set);
}
DEVICE lanes ballot(bool set) { return ballot_of<WAVE>(set); }

// How many of the lanes below this one are in a set.
DEVICE u32 lanes_below(lanes set)
{
    const u32 low = __builtin_amdgcn_mbcnt_lo((u32)set, 0);
    return WAVE == 64 ? __builtin_amdgcn_mbcnt_hi((u64)set >> 32, low) : low;
}

// The lanes, of those in `valid`, that have the same id of EXPERT_BITS bits as this lane.
DEVICE lanes lanes_alike(u32 id, lanes valid)
{
    lanes alike = valid;
    UNROLL for (u32 bit = 0; bit < EXPERT_BITS; bit++) {
        const bool set = id >> bit & 1;
        const lanes having = ballot(set);
        alike &= set ? having : ~having;
    }
    return alike;
}

// The sum of a value over this lane and those below it.
DEVICE u32 sum_up_to(u32 value, u32 lane)
{
    UNROLL for (u32 step = 1; step < WAVE; step *= 2) {
        const u32 below = __builtin_amdgcn_ds_bpermute((lane - step) * 4, value);
        value += lane >= step ? below : 0;
    }
    return value;
}

// LDS accesses of a wave are made in their order. The compiler must keep that order, too, where one
// lane reads what another has written.
DEVICE void wave_order() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); }

constexpr u32 ITEMS = WAVES * WAVE;
constexpr u32 ALL_ITEMS = WORKGROUPS * ITEMS;
constexpr u32 NOBODY = ~0u; // no expert: of blocks without choices
constexpr u32 ITEM_EXPERTS = (EXPERTS + ITEMS - 1) / ITEMS; // consecutive ones of a work-item
constexpr u32 EXPERT_WAVES = (EXPERTS + ITEM_EXPERTS * WAVE - 1) / (ITEM_EXPERTS * WAVE);
constexpr u32 AHEAD = 4; // loads that a lane has asked for before it uses the first
// A set of counts has one for each expert, and behind them some for ids that are no expert's, in
// different banks, as lanes that add to the same count wait for one another.
constexpr u32 SPARE = 32, COUNTS = EXPERTS + SPARE;

// Ids of choices `at`, `at` + STRIDE and so on; from `end` on there are none.
template <u32 STRIDE> DEVICE void load_ids(u32 *id, const u32 *topk_ids, u32 at, u32 end)
{
    UNROLL for (u32 i = 0; i < AHEAD; i++)
        id[i] = topk_ids[minimum(at + i * STRIDE, end - 1)];
    UNROLL for (u32 i = 0; i < AHEAD; i++)
        id[i] = at + i * STRIDE < end ? id[i] : NOBODY;
}

// Counts the choices from `first` on, of which this is lane or work-item `own` of STRIDE.
template <u32 STRIDE>
DEVICE void count(LDS u32 *counts, const u32 *topk_ids, u32 first, u32 end, u32 own)
{
    const u32 spare = EXPERTS + own % SPARE;

    for (u32 at = first; at < end; at += AHEAD * STRIDE) {
        u32 id[AHEAD];
        load_ids<STRIDE>(id, topk_ids, at + own, end);
        UNROLL for (u32 i = 0; i < AHEAD; i++)
            __hip_atomic_fetch_add(counts + (id[i] < EXPERTS ? id[i] : spare), 1, __ATOMIC_RELAXED,
                                   __HIP_MEMORY_SCOPE_WORKGROUP);
    }
}

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(const u32 *__restrict topk_ids, u32 *__restrict rows, u32 *__restrict experts,
            u32 *__restrict rows_used, u32 choices)
{
    // For each wave and expert: how many choices of its own the wave has, then where its next goes.
    __attribute__((shared)) static u32 shared_places[WAVES * COUNTS];
    // For each expert: its choices before the workgroup's, later the slot behind its last choice;
    // and its choices behind the workgroup's.
    __attribute__((shared)) static u32 shared_others[2 * COUNTS];
    __attribute__((shared)) static u32 shared_sums[EXPERT_WAVES]; // blocks, by waves
    LDS u32 *const places = (LDS u32 *)shared_places;
    LDS u32 *const before = (LDS u32 *)shared_others, *const ends = before;
    LDS u32 *const behind = before + COUNTS;
    LDS u32 *const sums = (LDS u32 *)shared_sums;

    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u32 workgroup = __builtin_amdgcn_workgroup_id_x();
    const u32 lane = item % WAVE, wave = __builtin_amdgcn_readfirstlane(item / WAVE);
    LDS u32 *const own = places + wave * COUNTS;

    const u32 of_wave = (choices + ALL_ITEMS - 1) / ALL_ITEMS * WAVE; // consecutive choices
    const u32 group_first = minimum(workgroup * WAVES * of_wave, choices);
    const u32 first = minimum(group_first + wave * of_wave, choices);
    const u32 end = minimum(first + of_wave, choices);

    for (u32 i = item; i < WAVES * COUNTS; i += ITEMS)
        places[i] = 0;
    for (u32 i = item; i < 2 * COUNTS; i += ITEMS)
        before[i] = 0;
    barrier();
    count<WAVE>(own, topk_ids, first, end, lane);
    count<ITEMS>(before, topk_ids, 0, group_first, item);
    count<ITEMS>(behind, topk_ids, group_first + WAVES * of_wave, choices, item);
    barrier();

    // Where experts begin, in slots: a work-item has some experts, for which it adds up all waves.
    u32 counts[ITEM_EXPERTS][WAVES], earlier[ITEM_EXPERTS], all[ITEM_EXPERTS];
    u32 begin = 0, used = 0;
    if (wave < EXPERT_WAVES) {
        u32 blocks = 0;
        UNROLL for (u32 i = 0; i < ITEM_EXPERTS; i++) {
            const u32 expert = item * ITEM_EXPERTS + i;
            const bool is_one = expert < EXPERTS;
            const u32 there = is_one ? expert : 0;
            earlier[i] = before[there];
            all[i] = earlier[i] + behind[there];
            UNROLL for (u32 w = 0; w < WAVES; w++)
                all[i] += counts[i][w] = places[w * COUNTS + there];
            all[i] = is_one ? all[i] : 0;
            blocks += (all[i] + BLOCK_ROWS - 1) / BLOCK_ROWS;
        }
        const u32 up_to = sum_up_to(blocks, lane);
        if (lane == WAVE - 1)
            sums[wave] = up_to;
        begin = up_to - blocks;
    }
    barrier();
    UNROLL for (u32 w = 0; w < EXPERT_WAVES; w++) {
        const u32 sum = sums[w];
        begin += w < wave ? sum : 0;
        used += sum;
    }
    begin *= BLOCK_ROWS;
    used *= BLOCK_ROWS;
    UNROLL for (u32 i = 0; i < ITEM_EXPERTS; i++) {
        const u32 expert = item * ITEM_EXPERTS + i;
        if (wave >= EXPERT_WAVES || expert >= EXPERTS)
            break;
        u32 place = begin + earlier[i];
        UNROLL for (u32 w = 0; w < WAVES; w++) {
            places[w * COUNTS + expert] = place;
            place += counts[i][w];
        }
        ends[expert] = begin + all[i];
        begin += (all[i] + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS;
    }
    barrier();

    // The choice that comes first in a block names the block's expert.
    for (u32 at = first; at < end; at += AHEAD * WAVE) {
        u32 id[AHEAD];
        load_ids<WAVE>(id, topk_ids, at + lane, end);
        UNROLL for (u32 i = 0; i < AHEAD && at + i * WAVE < end; i++) {
            const bool is_one = id[i] < EXPERTS;
            const lanes alike = lanes_alike(id[i], ballot(is_one));
            const u32 rank = lanes_below(alike);
            if (is_one) {
                const u32 slot = own[id[i]] + rank;
                rows[slot] = at + i * WAVE + lane;
                if (slot % BLOCK_ROWS == 0)
                    experts[slot / BLOCK_ROWS] = id[i];
                if (rank + 1 == (u32)__builtin_popcountll(alike))
                    own[id[i]] = slot + 1;
            }
            wave_order();
        }
    }

    // What is no choice: the ends of experts' last blocks, and everything that is not used.
    const u32 some = workgroup * ITEMS + item;
    for (u32 i = BLOCK_ROWS > 1 ? some : EXPERTS; i < EXPERTS * BLOCK_ROWS; i += ALL_ITEMS) {
        const u32 slot = ends[i / BLOCK_ROWS] + i % BLOCK_ROWS;
        if (slot / BLOCK_ROWS * BLOCK_ROWS < ends[i / BLOCK_ROWS])
            rows[slot] = choices;
    }
    const u32 padded = minimum(choices + EXPERTS * (BLOCK_ROWS - 1), choices * BLOCK_ROWS);
    const u32 all_blocks = (padded + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (u32 slot = used + some; slot < all_blocks * BLOCK_ROWS; slot += ALL_ITEMS)
        rows[slot] = choices;
    for (u32 block = used / BLOCK_ROWS + some; block < all_blocks; block += ALL_ITEMS)
        experts[block] = NOBODY;
    if (some == 0)
        *rows_used = used;
}
