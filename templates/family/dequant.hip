/* SPDX-License-Identifier: MIT */
// c[N, K] = the weights themselves: code value times scale, rounded to f32, then once to C_TYPE.
//
// Rows do not matter: a lane takes chunks of CHUNK consecutive weights of the flattened [N, K], of
// which each lies in one block. Memory bounds this kernel, so decoding is kept simple: the sixteen
// values lie in LDS, in sixteen different banks, where lanes with different codes never meet.

typedef element_type<C_TYPE>::type c_element;

constexpr u32 CHUNK = 8; // one dword of packed weights
#define TOTAL ((u64)N * K / CHUNK)
constexpr u32 ITEMS = WAVES * WAVE;
constexpr u32 CHUNKS_PER_GROUP = ITEMS * CHUNKS; // a multiple of every block
constexpr bool WHOLE_GROUPS = KNOWN && TOTAL % CHUNKS_PER_GROUP == 0;

struct value_table {
    float value[16];
};
constexpr value_table make_values()
{
    value_table table = {};
    for (u32 code = 0; code < 16; code++)
        table.value[code] = CODE[code] * CODE_UNIT;
    return table;
}
CONSTANT constexpr value_table VALUES = make_values();

typedef c_element c_chunk __attribute__((ext_vector_type(CHUNK)));

KERNEL WORKGROUP(ITEMS, WAVES_PER_SIMD)
void SYMBOL(LAYER_OPERANDS const u8 *__restrict b, SCALE_OPERANDS, c_element *__restrict c)
{
    __attribute__((shared)) static float shared_values[16];
    LDS float *const values = (LDS float *)shared_values;

    const u32 item = __builtin_amdgcn_workitem_id_x();
    const u64 first = (u64)__builtin_amdgcn_workgroup_id_x() * CHUNKS_PER_GROUP;
    const u32 *const packed = (const u32 *)b + first;
    const u64 first_block = first * CHUNK / BLOCK;
    c_chunk *const to = (c_chunk *)c + first;
    const bool whole = WHOLE_GROUPS || TOTAL - first > CHUNKS_PER_GROUP;
    const u32 here = whole ? CHUNKS_PER_GROUP : (u32)(TOTAL - first);

    // Chunks past the end take the last one again, and are not stored.
    u32 word[CHUNKS];
    float scale[CHUNKS];
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        const u32 at = minimum(item + i * ITEMS, here - 1);
        word[i] = packed[at];
        scale[i] = scale_of_block(first_block, at * CHUNK / BLOCK, SCALE_NAMES);
    }
    if (item < 16)
        values[item] = VALUES.value[item];
    barrier();

    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        c_chunk chunk;
        UNROLL for (u32 j = 0; j < CHUNK; j++) {
            const u32 shift = HIGH_NIBBLE_FIRST ? 4 * (j ^ 1) : 4 * j;
            float product = values[word[i] >> shift & 15] * scale[i];
            computed(product); // v_fma_mixlo_f16 would lose the sign of a zero
            chunk[j] = (c_element)product;
        }
        if (WHOLE_GROUPS || item + i * ITEMS < here)
            to[item + i * ITEMS] = chunk;
    }
}
