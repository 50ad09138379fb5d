/* SPDX-License-Identifier: MIT */
/*
 * Functions of a workgroup of BLOCK work-items: LDS, barriers, LDS atomics, atomics that lanes and
 * workgroups contend for. Each PHASE ends with a barrier; t is the work-item. `in` has four words
 * of 64 bits for each, `out` four of 32, `memory` 16 of 32; `common` has 256 words for all
 * workgroups, which collect sums, extremes and bits there, whose order does not matter.
 */

#define IN(t, slot)  ((u32)in[4 * (t) + (slot)])
#define OUT(t, word) out[4 * (t) + (word)]
#define FINISH(t, a, b, c, d)                                                                      \
    OUT(t, 0) = (a), OUT(t, 1) = (b), OUT(t, 2) = (c), OUT(t, 3) = (d)

WORKGROUP_FUNCTION(lds_reversal)
{
    LDS(u32, x, BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 0); }
    PHASE { FINISH(t, x[BLOCK - 1 - t], x[t ^ 1], t, 0); }
}
WORKGROUP_FUNCTION(lds_bytes)
{
    LDS(u8, x, BLOCK);
    (void)memory, (void)common;
    PHASE { x[(t * 5) % BLOCK] = (u8)IN(t, 0); }
    PHASE { FINISH(t, x[t], x[BLOCK - 1 - t], (u32)(i8)x[t ^ 3], 1); }
}
WORKGROUP_FUNCTION(lds_halves)
{
    LDS(u16, x, BLOCK);
    (void)memory, (void)common;
    PHASE { x[t ^ 5] = (u16)IN(t, 0); }
    PHASE { FINISH(t, x[t], (u32)(i16)x[t ^ 1], x[t & 64] | (u32)x[t | 1] << 16, 1); }
}
WORKGROUP_FUNCTION(lds_double_words)
{
    LDS(u64, x, BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = in[4 * t] * 3; }
    PHASE
    {
        const u64 a = x[t ^ 17], b = x[(t + 64) % BLOCK];
        FINISH(t, (u32)a, (u32)(a >> 32), (u32)b, (u32)(b >> 32));
    }
}
WORKGROUP_FUNCTION(lds_quad_words)
{
    LDS(u32x4, x, BLOCK);
    (void)memory, (void)common;
    PHASE
    {
        const u32x4 v = {IN(t, 0), IN(t, 1), IN(t, 2), t};
        x[t] = v;
    }
    PHASE
    {
        const u32x4 v = x[(t * 3) % BLOCK];
        FINISH(t, v.w, v.z, v.y, v.x);
    }
}
WORKGROUP_FUNCTION(lds_pairs_at_two_offsets)
{
    LDS(u32, x, 3 * BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 0), x[t + BLOCK] = IN(t, 1), x[t + 2 * BLOCK] = t; }
    PHASE { FINISH(t, x[t ^ 2], x[(t ^ 2) + BLOCK], x[(t ^ 4) + 2 * BLOCK], x[t ^ 4]); }
}
WORKGROUP_FUNCTION(lds_transposition)
{
    LDS(u32, x, 16 * 9);
    (void)memory, (void)common;
    PHASE { x[t / 8 * 9 + t % 8] = IN(t, 0); }
    PHASE { FINISH(t, x[t % 16 * 9 + t / 16], x[t / 8 * 9], 0, 0); }
}
WORKGROUP_FUNCTION(lds_tree_reduction)
{
    LDS(u32, x, BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 0) ^ IN(t, 1); }
    for (u32 n = BLOCK / 2; n; n /= 2)
        PHASE
        {
            if (t < n)
                x[t] += x[t + n];
        }
    PHASE { FINISH(t, x[0], t, 0, 0); }
}
WORKGROUP_FUNCTION(lds_prefix_sum)
{
    LDS(u32, x, 2 * BLOCK);
    u32 from = 0;
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 0); }
    for (u32 n = 1; n < BLOCK; n *= 2, from ^= BLOCK)
        PHASE { x[(from ^ BLOCK) + t] = x[from + t] + (t >= n ? x[from + t - n] : 0); }
    PHASE { FINISH(t, x[from + t], x[from + BLOCK - 1], 0, 0); }
}
WORKGROUP_FUNCTION(lds_histogram)
{
    LDS(u32, count, 64);
    (void)memory, (void)common;
    PHASE
    {
        if (t < 64)
            count[t] = 0;
    }
    PHASE { LDS_ATOMIC(add, &count[IN(t, 0) & 63], 1u); }
    PHASE { FINISH(t, count[t & 63], count[t & 7], 0, 0); }
}
WORKGROUP_FUNCTION(lds_bits_and_extremes)
{
    LDS(u32, x, 8);
    (void)memory, (void)common;
    PHASE
    {
        if (t < 8)
            x[t] = t == 3 || t == 0 ? ~0u : t == 5 ? 0x7fffffff : 0;
    }
    PHASE
    {
        const u32 v = IN(t, 0);
        LDS_ATOMIC(and, &x[0], v | 0xffff0fff);
        LDS_ATOMIC(or, &x[1], v & 0x00100100);
        LDS_ATOMIC(xor, &x[2], v);
        LDS_ATOMIC(min, &x[3], v);
        LDS_ATOMIC(max, &x[4], v);
        LDS_ATOMIC(min, (i32 *)&x[5], (i32)v);
        LDS_ATOMIC(max, (i32 *)&x[6], (i32)v);
        LDS_ATOMIC(sub, &x[7], v);
    }
    PHASE { FINISH(t, x[t & 7], x[(t + 1) & 7], x[(t + 2) & 7], x[(t + 3) & 7]); }
}
WORKGROUP_FUNCTION(lds_double_word_atomics)
{
    LDS(u64, x, 4);
    (void)memory, (void)common;
    PHASE
    {
        if (t < 4)
            x[t] = t == 1 ? ~(u64)0 : 0;
    }
    PHASE
    {
        LDS_ATOMIC(add, &x[0], in[4 * t]);
        LDS_ATOMIC(min, &x[1], in[4 * t]);
        LDS_ATOMIC(max, &x[2], in[4 * t]);
        LDS_ATOMIC(xor, &x[3], in[4 * t] << 1);
    }
    PHASE
    {
        const u64 v = x[t & 3];
        FINISH(t, (u32)v, (u32)(v >> 32), 0, 0);
    }
}
/* One work-item to an address: the value before is determined. */
WORKGROUP_FUNCTION(lds_atomics_with_result)
{
    LDS(u32, x, 4 * BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 0), x[t + BLOCK] = IN(t, 1), x[t + 2 * BLOCK] = t, x[t + 3 * BLOCK] = 7; }
    PHASE
    {
        const u32 o = BLOCK - 1 - t, v = IN(t, 2);
        const u32 a = LDS_ATOMIC(add, &x[o], v), b = LDS_ATOMIC(max, &x[o + BLOCK], v);
        const u32 c = LDS_EXCHANGE(&x[o + 2 * BLOCK], v);
        const u32 d = lds_compare_exchange(&x[o + 3 * BLOCK], t & 1 ? 7u : 8u, v);
        FINISH(t, a, b, c, d);
    }
    PHASE { OUT(t, 3) += x[t] ^ x[t + BLOCK] ^ x[t + 2 * BLOCK] ^ x[t + 3 * BLOCK]; }
}
WORKGROUP_FUNCTION(lds_double_word_atomics_with_result)
{
    LDS(u64, x, 2 * BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = in[4 * t], x[t + BLOCK] = in[4 * t + 1]; }
    PHASE
    {
        const u32 o = t ^ 37;
        const u64 a = LDS_ATOMIC(sub, &x[o], in[4 * t + 2]);
        const u64 b = lds_compare_exchange(&x[o + BLOCK], t & 1 ? in[4 * o + 1] : 0, a);
        FINISH(t, (u32)a, (u32)(a >> 32), (u32)b, (u32)(b >> 32));
    }
    PHASE { OUT(t, 0) ^= (u32)(x[t] >> 16) + (u32)(x[t + BLOCK] >> 16); }
}
WORKGROUP_FUNCTION(lds_odd_even_sort)
{
    LDS(u32, x, BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 0) >> 8; }
    for (u32 i = 0; i < 24; i++)
        PHASE
        {
            if (t % 2 == i % 2 && t + 1 < BLOCK && x[t] > x[t + 1]) {
                const u32 v = x[t];
                x[t] = x[t + 1];
                x[t + 1] = v;
            }
        }
    PHASE { FINISH(t, x[t], 0, 0, 0); }
}
WORKGROUP_FUNCTION(lds_bitonic_sort)
{
    LDS(u32, x, BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 0); }
    for (u32 size = 2; size <= BLOCK; size *= 2)
        for (u32 step = size / 2; step; step /= 2)
            PHASE
            {
                const u32 o = t ^ step;
                if (o > t && (x[t] > x[o]) == !(t & size)) {
                    const u32 v = x[t];
                    x[t] = x[o];
                    x[o] = v;
                }
            }
    PHASE { FINISH(t, x[t], x[BLOCK / 2], 0, 0); }
}
WORKGROUP_FUNCTION(lds_stencil)
{
    LDS(f32, x, BLOCK + 2);
    f32 v[PRIVATE];
    (void)memory, (void)common;
    PHASE
    {
        x[t + 1] = (f32)(i32)(IN(t, 0) >> 16);
        if (t < 2)
            x[t * (BLOCK + 1)] = 0;
    }
    for (u32 i = 0; i < 4; i++) {
        PHASE { v[T] = 0.25f * x[t] + 0.5f * x[t + 1] + 0.25f * x[t + 2]; }
        PHASE { x[t + 1] = v[T]; }
    }
    PHASE { FINISH(t, (u32)x[t + 1], (u32)(x[t] * 16.0f), 0, 0); }
}
WORKGROUP_FUNCTION(lds_matrix_product)
{
    LDS(u32, a, BLOCK);
    LDS(u32, b, BLOCK);
    (void)memory, (void)common;
    PHASE { a[t] = IN(t, 0), b[t] = IN(t, 1); }
    PHASE
    {
        u32 sum = 0;
        for (u32 k = 0; k < 8; k++)
            sum += a[t / 8 * 8 + k] * b[k * 8 + t % 8];
        FINISH(t, sum, a[t], b[t], 0);
    }
}
WORKGROUP_FUNCTION(lds_look_up_table)
{
    LDS(u16, table, 256);
    (void)memory, (void)common;
    PHASE { table[t] = (u16)(t * t + 7), table[t + BLOCK] = (u16)(t * 251 ^ 0x5aa5); }
    PHASE
    {
        const u32 v = IN(t, 0);
        FINISH(t, table[v & 255] | (u32)table[v >> 8 & 255] << 16,
               table[v >> 16 & 255] | (u32)table[v >> 24] << 16, 0, 0);
    }
}
WORKGROUP_FUNCTION(lds_strings_of_bytes)
{
    LDS(u8, x, 16 * BLOCK);
    (void)memory, (void)common;
    PHASE
    {
        for (u32 i = 0; i < 16; i++)
            x[16 * t + i] = (u8)(in[4 * t + (i >> 3)] >> 8 * (i & 7));
    }
    PHASE
    {
        const u32 o = (t + 1) % BLOCK;
        u32 word[4] = {0, 0, 0, 0};
        for (u32 i = 0; i < 16; i++)
            word[i >> 2] |= (u32)x[16 * o + (15 - i)] << 8 * (i & 3);
        FINISH(t, word[0], word[1], word[2], word[3]);
    }
}
WORKGROUP_FUNCTION(lds_or_global_pointer)
{
    LDS(u32, x, BLOCK);
    (void)common;
    PHASE { x[t] = IN(t, 0); }
    PHASE
    {
        u32 *const p = IN(t, 1) & 1 ? &x[t] : &memory[16 * t + 3];
        const u32 v = *p;
        *p = v * 3 + 1;
        FINISH(t, v, 0, 0, 0);
    }
    PHASE { OUT(t, 1) = x[t]; }
}
WORKGROUP_FUNCTION(barrier_in_uniform_branch)
{
    LDS(u32, x, BLOCK);
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 0); }
    if (IN(0, 1) & 1) {
        PHASE { FINISH(t, x[t ^ 64], 1, 0, 0); }
    } else {
        PHASE { FINISH(t, x[(t + 5) % BLOCK], 2, 0, 0); }
    }
}
WORKGROUP_FUNCTION(barrier_in_uniform_loop)
{
    LDS(u32, x, BLOCK);
    const u32 turns = IN(0, 0) & 15;
    u32 v[PRIVATE];
    (void)memory, (void)common;
    PHASE { x[t] = IN(t, 1); }
    for (u32 i = 0; i < turns; i++) {
        PHASE { v[T] = x[(t + i) % BLOCK] * 3 + x[t ^ 1]; }
        PHASE { x[t] = v[T]; }
    }
    PHASE { FINISH(t, x[t], turns, 0, 0); }
}
WORKGROUP_FUNCTION(global_exchange_through_memory)
{
    (void)common;
    PHASE { memory[16 * t] = IN(t, 0) + t; }
    PHASE { FINISH(t, memory[16 * (BLOCK - 1 - t)], memory[16 * (t ^ 33)], 0, 0); }
}
WORKGROUP_FUNCTION(global_atomics_of_a_workgroup)
{
    (void)common;
    PHASE
    {
        const u32 v = IN(t, 0);
        ATOMIC(add, &memory[v & 7], v);
        ATOMIC(xor, &memory[8 + (v & 3)], v);
        ATOMIC(or, &memory[12], v & 0x11110000);
        ATOMIC(and, &memory[13], v | 0xff00ff00);
        ATOMIC(max, &memory[14], v);
        ATOMIC(min, (i32 *)&memory[15], (i32)v);
    }
    PHASE { FINISH(t, ATOMIC_LOAD(&memory[t & 15]), 0, 0, 0); }
}
/* The values before are the numbers below BLOCK in some order: each work-item marks its own. */
WORKGROUP_FUNCTION(global_tickets)
{
    LDS(u32, seen, BLOCK);
    (void)in, (void)common;
    PHASE
    {
        seen[t] = 0;
        if (t == 0)
            ATOMIC_STORE(&memory[0], 1000u);
    }
    PHASE { LDS_ATOMIC(add, &seen[(ATOMIC(add, &memory[0], 1u) - 1000) % BLOCK], 1u); }
    PHASE { FINISH(t, seen[t], ATOMIC_LOAD(&memory[0]), 0, 0); }
}
WORKGROUP_FUNCTION(global_compare_exchange_loop)
{
    (void)common;
    PHASE
    {
        u32 seen = ATOMIC_LOAD(&memory[1]), before;
        do {
            before = seen;
            seen = compare_exchange(&memory[1], before, before + (IN(t, 0) | 1));
        } while (seen != before);
    }
    PHASE { FINISH(t, ATOMIC_LOAD(&memory[1]), 0, 0, 0); }
}
WORKGROUP_FUNCTION(global_double_word_atomics)
{
    u64 *const wide = (u64 *)(void *)memory;
    (void)common;
    PHASE
    {
        ATOMIC(add, &wide[0], in[4 * t]);
        ATOMIC(min, &wide[1], in[4 * t + 1]);
        ATOMIC(max, (i64 *)&wide[2], (i64)in[4 * t + 2]);
        ATOMIC(xor, &wide[3], in[4 * t] * 3);
    }
    PHASE
    {
        const u64 v = ATOMIC_LOAD(&wide[t & 3]);
        FINISH(t, (u32)v, (u32)(v >> 32), 0, 0);
    }
}
WORKGROUP_FUNCTION(atomics_across_workgroups)
{
    (void)memory;
    PHASE
    {
        const u32 v = IN(t, 0);
        ATOMIC(add, &common[v & 31], v >> 8);
        ATOMIC(max, &common[32 + (v & 7)], v);
        ATOMIC(min, &common[40 + (v & 7)], v);
        ATOMIC(xor, &common[48 + (v & 15)], v);
        ATOMIC(or, &common[64], v & 0x0f00f000);
        ATOMIC(and, &common[65], v | 0x12345678);
        ATOMIC(add, (u64 *)(void *)&common[66], in[4 * t + 1]);
        FINISH(t, v, 0, 0, 0);
    }
}
WORKGROUP_FUNCTION(one_sum_per_workgroup)
{
    LDS(u32, sum, 1);
    (void)memory;
    PHASE
    {
        if (t == 0)
            sum[0] = 0;
    }
    PHASE { LDS_ATOMIC(add, &sum[0], IN(t, 0) & 0xffff); }
    PHASE
    {
        if (t == 0)
            ATOMIC(add, &common[100], sum[0]);
        FINISH(t, sum[0], 0, 0, 0);
    }
}
