/* SPDX-License-Identifier: MIT */
// c[N, K] = the weights themselves: the value of an eight-bit float times the one scale, or that of
// its block, rounded to f32, then once to C_TYPE.
//
// A lane takes eight consecutive weights of the flattened [N, K] at a time. Memory bounds this
// kernel. The last weights may be fewer than eight, and are taken one by one.

typedef element_type<C_TYPE>::type c_element;

constexpr u32 CHUNK = 8;
#define TOTAL ((u64)N * K / CHUNK)
#define REST ((u32)((u64)N * K % CHUNK)) // weights behind the last whole chunk
constexpr u32 ITEMS = WAVES * WAVE;
constexpr u32 CHUNKS_PER_GROUP = ITEMS * CHUNKS;
constexpr bool WHOLE_GROUPS = KNOWN && REST == 0 && TOTAL % CHUNKS_PER_GROUP == 0;

typedef c_element c_chunk __attribute__((ext_vector_type(CHUNK)));

// Whether a code is a NaN that the conversion would make a number of.
DEVICE bool is_nan(u32 code)
{
    return FORM != FP8_NATIVE && (FNUZ ? code == 0x80 : (code & 0x7f) == 0x7f);
}

// Weights 2p and 2p + 1 of two dwords.
DEVICE f32x2 pair_of(const u32 *raw, u32 p)
{
    const f32x2 value = number<FP8>::pair(raw, p);
    const u32 codes = raw[p / 2] >> p % 2 * 16;
    return {is_nan(codes & 0xff) ? __builtin_nanf("") : value.x,
            is_nan(codes >> 8 & 0xff) ? __builtin_nanf("") : value.y};
}

DEVICE c_element scaled(float value, float scale)
{
    float weight = value * scale;
    computed(weight); // v_fma_mixlo_f16 would lose the sign of a zero
    return rounded<c_element>(weight, TRUNCATE);
}

#if BLOCK_SCALED
constexpr bool ONE_ROW = K % CHUNK == 0; // a chunk's weights are in one row, and in one block

// The scale of a weight, which is number `at` of the flattened [N, K].
DEVICE float scale_of(const float *scales, u64 at)
{
    if constexpr ((u64)N * K >> 32) {
        return scales_of_row(scales, at / K)[at % K / SCALE_BLOCK];
    } else { // which divides in 32 bits
        const u32 small = (u32)at;
        return scales_of_row(scales, small / K)[small % K / SCALE_BLOCK];
    }
}
#endif

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const u8 *__restrict b, const float *__restrict b_scale,
            c_element *__restrict c)
{
    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u64 first = (u64)__builtin_amdgcn_workgroup_id_x() * CHUNKS_PER_GROUP;
    const u32x2 *const from = (const u32x2 *)b + first;
    c_chunk *const to = (c_chunk *)c + first;
    const u64 left = TOTAL - first;
    const u32 here = WHOLE_GROUPS || left > CHUNKS_PER_GROUP ? CHUNKS_PER_GROUP : (u32)left;
#if !BLOCK_SCALED
    const float scale = *b_scale;
#endif

    u32x2 raw[CHUNKS] = {};
    UNROLL for (u32 i = 0; i < CHUNKS; i++)
        if (WHOLE_GROUPS || item + i * ITEMS < here)
            raw[i] = __builtin_nontemporal_load(from + item + i * ITEMS);
#if BLOCK_SCALED
    // Of chunks past the end a scale of this workgroup's last one: nothing is stored of those.
    const u32 last = here ? here - 1 : 0; // or of the weights behind whole chunks
    auto place_of = [&](u32 i) INLINE { return (first + minimum(item + i * ITEMS, last)) * CHUNK; };
    float own[CHUNKS];
    UNROLL for (u32 i = 0; i < CHUNKS; i++)
        own[i] = scale_of(b_scale, place_of(i));
#endif
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        const u32 words[2] = {raw[i].x, raw[i].y};
        c_chunk chunk;
        UNROLL for (u32 p = 0; p < CHUNK / 2; p++) {
            const f32x2 value = pair_of(words, p);
#if BLOCK_SCALED
            const u64 at = place_of(i) + 2 * p;
            const float scale = ONE_ROW ? own[i] : scale_of(b_scale, at);
            const float next = ONE_ROW ? own[i] : scale_of(b_scale, at + 1);
            chunk[2 * p] = scaled(value.x, scale), chunk[2 * p + 1] = scaled(value.y, next);
#else
            chunk[2 * p] = scaled(value.x, scale), chunk[2 * p + 1] = scaled(value.y, scale);
#endif
        }
        if (WHOLE_GROUPS || item + i * ITEMS < here)
            to[item + i * ITEMS] = chunk;
    }
    if (REST && first + CHUNKS_PER_GROUP > TOTAL && item < REST) { // the last workgroup
        const u64 at = TOTAL * CHUNK + item;
        const u32 word[2] = {b[at], 0};
#if BLOCK_SCALED
        const float scale = scale_of(b_scale, at);
#endif
        c[at] = scaled(pair_of(word, 0).x, scale);
    }
}
