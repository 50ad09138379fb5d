/* SPDX-License-Identifier: MIT */
// A kernel for each primitive of templates/cuda/prelude/ptx.cu, and of prelude/warpgroup.cu where
// HAS_WARPGROUP is defined, for primitives.py, which compares what an NVIDIA GPU makes of it with
// what src/cpu/machine.hpp does. A block of 64 threads, or of four warps, or CLUSTER blocks of 64
// where that is more than one, have 16 words of input and up to 16 of output for each thread.

#define PROBE(name)           KERNEL(name, 64)(const u32 *in, u32 *out)
#define WARPGROUP_PROBE(name) KERNEL(name, 128)(const u32 *in, u32 *out)
#define CLUSTER_PROBE(name)   KERNEL(name, 64)(const u32 *in, u32 *out)
#define THREAD      (group_y() * 64 + item())
#define IN(i)       ldg(in + THREAD * 16 + (i))
#define OUT(i, v)   (await_launch_in_front(), stg<u32>(out + THREAD * 16 + (i), v))

#if CLUSTER > 1
// What the next block of the cluster has, and the one after that; and a block's own, by addresses
// put together from bytes. Half of the threads end before the others meet.
CLUSTER_PROBE(cluster_words)
{
    const u32 t = item(), next = (cluster_rank() + 1) % CLUSTER, other = (t * 7 + 3) % 32;
    check_shared_start();
    check(cluster_window() == cluster_rank() << 24);
    sts<u32>(t * 4, IN(0));
    sts<u32x4>(256 + t * 16, {IN(1), IN(2), IN(3), IN(4)});
    if (t >= 32)
        return;
    OUT(0, cluster_rank());
    OUT(1, lds_in_window<u32>(byte_permute(t * 4, cluster_window(), 0x7610)));
    sync_cluster();
    const u32x4 four = lds_of((next + 1) % CLUSTER, 256 + other * 16);
    const u32x4 near = lds_of(next, other * 16 % 128);
    OUT(2, near.x), OUT(7, near.y), OUT(8, near.z), OUT(9, near.w);
    OUT(3, four.x), OUT(4, four.y), OUT(5, four.z), OUT(6, four.w);
    sync_cluster();
}
#else

PROBE(shared_words)
{
    const u32 t = item(), other = (t * 7 + 3) % 64;
    check_shared_start();
    sts<u32>(t * 4, IN(0));
    sts<u32x2>(256 + t * 8, {IN(1), IN(2)});
    sts<u32x4>(768 + t * 16, {IN(3), IN(4), IN(5), IN(6)});
    sts<float>(1792 + t * 4, as_float(IN(7)));
    sync_group();
    const u32x2 two = lds<u32x2>(256 + other * 8);
    const u32x4 four = lds<u32x4>(768 + other * 16);
    OUT(0, lds<u32>(other * 4));
    OUT(1, two.x), OUT(2, two.y);
    OUT(3, four.x), OUT(4, four.y), OUT(5, four.z), OUT(6, four.w);
    OUT(7, as_bits(lds<float>(1792 + other * 4)));
    OUT(8, lds<u8>(other * 4 + t % 4)), OUT(9, lds<u16>(other * 4 + t % 2 * 2));
}

PROBE(global_loads)
{
    const u32 t = item();
    const u32x2 two = ldg((const u32x2 *)in + t);
    const u32x4 four = ldg((const u32x4 *)in + t);
    OUT(0, ldg((const u8 *)in + t)), OUT(1, ldg((const u16 *)in + t)), OUT(2, ldg(in + t));
    OUT(3, as_bits(ldg((const float *)in + t)));
    OUT(4, two.x), OUT(5, two.y);
    OUT(6, four.x), OUT(7, four.y), OUT(8, four.z), OUT(9, four.w);
}

PROBE(late_loads)
{
    const u32 t = item();
    let_next_launch_begin();
    await_launch_in_front(in);
    const u32x2 two = ldg_late((const u32x2 *)in + t);
    const u32x4 four = ldg_late((const u32x4 *)in + t);
    OUT(0, ldg_late((const u8 *)in + t)), OUT(1, ldg_late((const u16 *)in + t));
    OUT(2, ldg_late(in + t)), OUT(3, as_bits(ldg_late((const float *)in + t)));
    OUT(4, two.x), OUT(5, two.y);
    OUT(6, four.x), OUT(7, four.y), OUT(8, four.z), OUT(9, four.w);
}

PROBE(global_stores)
{
    u16 *const halves = (u16 *)(out + item() * 16);
    await_launch_in_front();
    stg<u16>(halves, (u16)IN(0));
    stg<u16>(halves + 1, (u16)IN(1));
    stg<u32>(out + item() * 16 + 1, IN(2));
    stg<float>((float *)out + item() * 16 + 2, as_float(IN(3)));
    stg<u32x4>((u32x4 *)(out + item() * 16 + 4), {IN(4), IN(5), IN(6), IN(7)});
}

// Two stages, three rounds: the second warp copies, the first reads.
PROBE(bulk_ring)
{
    const u32 full = 2048, empty = 2064, lane = item() % 32;
    check_shared_start();
    if (item() == 0) {
        for (u32 i = 0; i < 2; i++) {
            barrier_init(full + i * 8, 1);
            barrier_init(empty + i * 8, 1);
        }
        barrier_init_fence();
    }
    sync_group();
    for (u32 i = 0; i < 6; i++) {
        const u32 stage = i % 2, round = i / 2 % 2;
        if (item() >= 32) {
            barrier_wait(empty + stage * 8, round ^ 1);
            if (lane == 0)
                barrier_expect(full + stage * 8, 512);
            sync_warp();
            if (lane < 4)
                bulk_copy(stage * 1024 + lane * 160, in + i * 128 + lane * 32, 128,
                          full + stage * 8, i % 2);
        } else {
            barrier_wait(full + stage * 8, round);
            OUT(i, lds<u32>(stage * 1024 + lane / 8 * 160 + lane % 8 * 4));
            OUT(i + 8, lds<u32>(stage * 1024 + lane / 8 * 160 + 96 + lane % 8 * 4));
            fence_async();
            sync_warp();
            if (lane == 0)
                barrier_arrive(empty + stage * 8);
        }
    }
}

PROBE(barriers)
{
    const u32 t = item();
    check_shared_start();
    sts<u32>(t * 4, IN(0));
    sync_warp();
    const u32 near = lds<u32>((t ^ 1) * 4);
    sync_group();
    OUT(0, near + lds<u32>((63 - t) * 4));
    if (t < 32) {
        sts<u32>(256 + t * 4, IN(1));
        sync_some(1, 32);
        OUT(1, lds<u32>(256 + (31 - t) * 4));
        arrive_some(2, 64);
    } else {
        sync_some(2, 64);
        OUT(1, lds<u32>(256 + (63 - t) * 4));
    }
}

PROBE(shuffles)
{
    for (u32 i = 0; i < 5; i++)
        OUT(i, as_bits(shuffle_xor(as_float(IN(i)), 1u << i)));
}

// Of values that many lanes share, and of values that few do.
PROBE(lanes_of_a_value)
{
    for (u32 i = 0; i < 5; i++) {
        const u32 alike = lanes_alike(IN(i) & ((1u << i) - 1));
        OUT(2 * i, alike), OUT(2 * i + 1, count_bits(alike));
        OUT(10 + i, count_bits(IN(i)));
    }
}

PROBE(permutes)
{
    for (u32 i = 0; i < 5; i++)
        OUT(i, byte_permute(IN(3 * i), IN(3 * i + 1), IN(3 * i + 2) & 0xffff));
}

PROBE(sums)
{
    for (u32 i = 0; i < 5; i++) {
        const float a = as_float(IN(3 * i)), b = as_float(IN(3 * i + 1));
        const float c = as_float(IN(3 * i + 2));
        OUT(3 * i, as_bits(fused(a, b, c)));
        OUT(3 * i + 1, as_bits(product(a, b)));
        OUT(3 * i + 2, as_bits(sum(a, c)));
    }
}

// Of numbers that are not negative, as kernels have them, infinity among them.
PROBE(maxima)
{
    for (u32 i = 0; i < 7; i++)
        OUT(i, as_bits(larger(as_float(smaller(IN(2 * i) & 0x7fffffff, 0x7f800000)),
                              as_float(smaller(IN(2 * i + 1) & 0x7fffffff, 0x7f800000)))));
}

PROBE(roundings)
{
    for (u32 i = 0; i < 5; i++) {
        OUT(3 * i, round_f16(as_float(IN(i))));
        OUT(3 * i + 1, round_bf16(as_float(IN(i))));
        OUT(3 * i + 2, as_bits(widen_f16(IN(i) & 0xffff)));
    }
}

PROBE(two_at_once)
{
    for (u32 i = 0; i < 5; i++) {
        OUT(3 * i, round_bf16x2(as_float(IN(3 * i)), as_float(IN(3 * i + 1))));
        OUT(3 * i + 1, widen_fp8x2(IN(3 * i + 2) & 0xffff));
        OUT(3 * i + 2, widen_fp8x2(IN(3 * i + 2) >> 16));
    }
}

PROBE(matrix_bf16)
{
    float c[4] = {as_float(IN(6)), as_float(IN(7)), as_float(IN(8)), as_float(IN(9))};
    mma_bf16(c, IN(0), IN(1), IN(2), IN(3), IN(4), IN(5));
    for (u32 i = 0; i < 4; i++)
        OUT(i, as_bits(c[i]));
}

PROBE(matrix_f16)
{
    float c[4] = {as_float(IN(6)), as_float(IN(7)), as_float(IN(8)), as_float(IN(9))};
    mma_f16(c, IN(0), IN(1), IN(2), IN(3), IN(4), IN(5));
    for (u32 i = 0; i < 4; i++)
        OUT(i, as_bits(c[i]));
}

#ifdef HAS_WARPGROUP
// The second warp copies, the first reads.
WARPGROUP_PROBE(warpgroup_copies)
{
    const u32 full = 2048, t = item();
    check_shared_start();
    if (t == 0) {
        barrier_init(full, 32);
        barrier_init_fence();
    }
    sync_group();
    if (t >= 32 && t < 64) {
        copy_16((t * 7 + 3) % 32 * 16, in + t * 16 + 4, full);
        copy_16(512 + (t * 5 + 1) % 32 * 16, in + t * 16 + 8, full);
        arrive_behind_copies(full);
    } else if (t < 32) {
        barrier_wait(full, 0);
        const u32x4 one = lds<u32x4>(t * 16), two = lds<u32x4>(512 + t * 16);
        OUT(0, one.x), OUT(1, one.y), OUT(2, one.z), OUT(3, one.w);
        OUT(4, two.x), OUT(5, two.y), OUT(6, two.z), OUT(7, two.w);
    }
}

WARPGROUP_PROBE(warpgroup_pairs)
{
    for (u32 i = 0; i < 5; i++) { // without NaN and infinities
        const u32 a = IN(3 * i) & 0xbfffbfff, b = IN(3 * i + 1) & 0xbfffbfff;
        OUT(3 * i, both_bf16(as_float(IN(3 * i + 2) & 0xbfffffff)));
        OUT(3 * i + 1, product_bf16x2(a, b));
        OUT(3 * i + 2, difference_bf16x2(a, b));
    }
}

// Of small whole numbers, so that every order of adding gives the same. ROWS of A, of 64 columns.
template <u32 ROWS> DEVICE void warpgroup_products(const u32 *in, u32 *out)
{
    const u32 t = item();
    float sums[ROWS / 2];

    check_shared_start();
    for (u32 i = 0; i < ROWS / 4; i++) {
        const u32 word = i * 128 + t, row = word / 32;
        sts<u32>(word * 4 ^ row % 8 * 16, IN(8 + i % 8));
    }
    fence_async();
    sync_group();
    for (u32 j = 0; j < ROWS / 2; j++)
        sums[j] = (float)(t + j);
    products_begin();
    for (u32 j = 0; j < 4; j++)
        warpgroup_mma(sums, IN(j), IN(j + 1), IN(j + 2), IN(j + 3), j * 32);
    products_commit();
    products_wait<0>();
    for (u32 j = 0; j < 16; j++)
        OUT(j, as_bits(sums[j * (ROWS / 32)]));
}
WARPGROUP_PROBE(warpgroup_whole_32) { warpgroup_products<32>(in, out); }
WARPGROUP_PROBE(warpgroup_whole_64) { warpgroup_products<64>(in, out); }
#endif
#endif
