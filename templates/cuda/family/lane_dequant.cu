/* SPDX-License-Identifier: MIT */
// c[N, K] = the weights themselves: a code's or e4m3's value times its scale, or for int4
// (q - z) * s, or (q - 8) * s - zs, rounded to f32, then once to C_TYPE.
//
// Rows do not matter: a lane takes chunks of eight consecutive weights of the flattened [N, K], of
// which each lies in one block, neighbours beside each other.

#define TOTAL ((u64)N * K / 8)
constexpr u32 ITEMS = WAVES * 32;
typedef typename element_of<C_TYPE>::type c_element;

template <int TYPE> DEVICE void store(c_element *to, const float (&values)[8])
{
    if constexpr (TYPE == F32) {
        UNROLL for (u32 i = 0; i < 8; i += 4)
            stg((u32x4 *)(to + i), u32x4{as_bits(values[i]), as_bits(values[i + 1]),
                                         as_bits(values[i + 2]), as_bits(values[i + 3])});
    } else {
        u32 pairs[4];
        UNROLL for (u32 i = 0; i < 4; i++)
            pairs[i] =
                rounded<TYPE>(values[2 * i]) | (u32)rounded<TYPE>(values[2 * i + 1]) << 16;
        stg((u32x4 *)to, u32x4{pairs[0], pairs[1], pairs[2], pairs[3]});
    }
}

#if W_BITS == 8
typedef u32x2 packed; // the weights of a chunk

// What the chunks of a lane have in common: the one scale of W, or 1 where blocks have theirs.
typedef float shared_scale;
DEVICE shared_scale set_up(SCALE_OPERANDS u32) { return UNIT_OF_SUMS; }

DEVICE void decode(LAYER_PARAMETER SCALE_OPERANDS float (&values)[8], packed words, u64 chunk,
                   shared_scale unit)
{
    const u64 first = chunk * 8;
    const u64 block = BLOCK_SCALED ? SCALE_ROW(first / K) + first % K / 128 : 0;
    const float scale = product(unit, scale_at(begin_scales<1>(SCALE_NAMES block), 0, 0, 0));

    UNROLL for (u32 i = 0; i < 4; i++) {
        const u32 pair = two_of_fp8((i < 2 ? words.x : words.y) >> i % 2 * 16 & 0xffff);
        values[2 * i] = product(widen_f16(pair & 0xffff), scale);
        values[2 * i + 1] = product(widen_f16(pair >> 16), scale);
    }
}
#else
typedef u32 packed;

constexpr u32 TABLE = 0, CODES = 16 * 32 * 4;
static_assert(CODES + SCALE_IS_NESTED * 1024 <= SHARED_BYTES, "the plan counted shared memory");

// What they have in common: what is added to nested scales.
typedef float shared_scale;
DEVICE shared_scale set_up(SCALE_OPERANDS u32 at)
{
    float shift = 0;

#if SCALE_IS_NESTED
    shift = ldg(offset);
    for (u32 i = at; i < NEST; i += ITEMS)
        sts<float>(CODES + i * 4, ldg(code + i));
#endif
    for (u32 i = at; i < 16 * 32; i += ITEMS)
        sts<float>(TABLE + i * 4, VALUES.value[i / 32]);
    sync_group();
    return shift;
}

DEVICE void decode(LAYER_PARAMETER SCALE_OPERANDS float (&values)[8], packed word, u64 chunk,
                   shared_scale shift)
{
    const u64 block = KNOWN || BLOCK <= K ? chunk * 8 / BLOCK : chunk * 8 / K;
    const auto loaded = begin_scales<1>(SCALE_NAMES block);
    const float scale = scale_at(loaded, 0, CODES, shift);

    UNROLL for (u32 j = 0; j < 8; j++) {
        const u32 code = code_of_word(word, j);
        const float value = lds<float>(TABLE + code * 128 + item() % 32 * 4);
        values[j] = ZERO == ZERO_SCALED ? fused(value, scale, -extra_at(loaded, 0))
                    : ZERO == ZERO_U8   ? product(value - shift_at(loaded, 0), scale)
                                        : product(value, scale);
    }
}
#endif

KERNEL(SYMBOL, WAVES * 32)(LAYER_OPERANDS const u8 *b, SCALE_OPERANDS c_element *c)
{
    ENTER_LAYER
    let_next_launch_begin();
    check_shared_start();
    const shared_scale common = set_up(SCALE_NAMES item());
    await_launch_in_front();
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        const u64 chunk = ((u64)group_x() * CHUNKS + i) * ITEMS + item();
        float values[8];
        if (chunk >= TOTAL)
            return;
        decode(LAYER_NAME SCALE_NAMES values, ldg((const packed *)b + chunk), chunk, common);
        store<C_TYPE>(c + chunk * 8, values);
    }
}
