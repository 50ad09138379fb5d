/* SPDX-License-Identifier: MIT */
// c[N, K] = the weights themselves: the value of an eight-bit float times the one scale, rounded to
// f32, then once to C_TYPE.
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
    const float scale = *b_scale;

    u32x2 raw[CHUNKS] = {};
    UNROLL for (u32 i = 0; i < CHUNKS; i++)
        if (WHOLE_GROUPS || item + i * ITEMS < here)
            raw[i] = __builtin_nontemporal_load(from + item + i * ITEMS);
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        const u32 words[2] = {raw[i].x, raw[i].y};
        c_chunk chunk;
        UNROLL for (u32 p = 0; p < CHUNK / 2; p++) {
            const f32x2 value = pair_of(words, p);
            chunk[2 * p] = scaled(value.x, scale), chunk[2 * p + 1] = scaled(value.y, scale);
        }
        if (WHOLE_GROUPS || item + i * ITEMS < here)
            to[item + i * ITEMS] = chunk;
    }
    if (REST && first + CHUNKS_PER_GROUP > TOTAL && item < REST) { // the last workgroup
        const u64 at = TOTAL * CHUNK + item;
        const u32 word[2] = {b[at], 0};
        c[at] = scaled(pair_of(word, 0).x, scale);
    }
}
