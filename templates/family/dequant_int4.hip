/* SPDX-License-Identifier: MIT */
// c[N, K] = the weights themselves: (q - z) * s, or (q - 8) * s - zs, rounded to f32, then once to
// C_TYPE.
//
// A lane takes words of eight consecutive weights of the flattened [N, K], each of which lies in
// one group. Memory bounds this kernel, so decoding is kept simple.

typedef element_type<C_TYPE>::type c_element;

constexpr u32 CHUNK = 8; // one dword of packed weights
#define TOTAL ((u64)N * K / CHUNK)
constexpr u32 ITEMS = WAVES * WAVE;
constexpr u32 CHUNKS_PER_GROUP = ITEMS * CHUNKS;
constexpr bool WHOLE_GROUPS = KNOWN && TOTAL % CHUNKS_PER_GROUP == 0;
#define ROW_WORDS (K / CHUNK)

// The type for numbers of words: 64 bits where N * K needs them, because those divide slower. Base
// kernels serve no such layers.
template <bool> struct index_type { typedef u32 type; };
template <> struct index_type<true> { typedef u64 type; };
typedef index_type<(KNOWN && TOTAL > 0xffffffff)>::type index;

typedef c_element c_chunk __attribute__((ext_vector_type(CHUNK)));

// Where a word lies in b, in words.
DEVICE u64 place_of(index word)
{
    if (!WORD_BLOCKS)
        return word;
    const u32 n = (u32)(word / ROW_WORDS), k = (u32)(word % ROW_WORDS);
    return ((u64)(k / 4) * N + n) * 4 + k % 4;
}

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const u8 *__restrict b, SCALE_OPERANDS, c_element *__restrict c)
{
    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u64 first = (u64)__builtin_amdgcn_workgroup_id_x() * CHUNKS_PER_GROUP;
    c_chunk *const to = (c_chunk *)c + first;
    const bool whole = WHOLE_GROUPS || TOTAL - first > CHUNKS_PER_GROUP;
    const u32 here = whole ? CHUNKS_PER_GROUP : (u32)(TOTAL - first);

    // Chunks past the end take the last one again, and are not stored.
    u32 word[CHUNKS], scale[CHUNKS], zero[CHUNKS];
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        const index at = (index)(first + minimum(item + i * ITEMS, here - 1));
        const index block = KNOWN || BLOCK <= K ? at / (BLOCK / CHUNK) : at / ROW_WORDS;
        word[i] = ((const u32 *)b)[place_of(at)];
        scale[i] = scales[block];
#if HAS_ZEROS
        zero[i] = zeros[block];
#endif
    }
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        const float s = scale_value(scale[i]);
        const float z = ZERO == ZERO_NONE ? 0.0f : zero_value(zero[i]);
        c_chunk chunk;
        UNROLL for (u32 j = 0; j < CHUNK; j++) {
            const u32 nibble = WORD_ORDER == K8 ? j : j / 2 + j % 2 * 4;
            const float q = (float)(word[i] >> 4 * nibble & 15);
            float weight = ZERO == ZERO_SCALED ? __builtin_fmaf(q - 8.0f, s, -z)
                                               : (q - (ZERO == ZERO_U8 ? z : 8.0f)) * s;
            computed(weight); // v_fma_mixlo_f16 would lose the sign of a zero
            chunk[j] = rounded<c_element>(weight, TRUNCATE);
        }
        if (WHOLE_GROUPS || item + i * ITEMS < here)
            to[item + i * ITEMS] = chunk;
    }
}
