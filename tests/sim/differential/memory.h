/* SPDX-License-Identifier: MIT */
/*
 * Loads and stores of every width, copies, atomics: each lane has 64 bytes of global memory of its
 * own, filled at random; results and memory are both compared. a and b say what and where.
 */

/* Memory is of no type: these may read and write it as any. */
#define ANY __attribute__((may_alias))
typedef u8 any_u8 ANY;
typedef i8 any_i8 ANY;
typedef u16 any_u16 ANY;
typedef i16 any_i16 ANY;
typedef u32 any_u32 ANY;
typedef i32 any_i32 ANY;
typedef u64 any_u64 ANY;
typedef i64 any_i64 ANY;
typedef f16 any_f16 ANY;
typedef f32 any_f32 ANY;
typedef f64 any_f64 ANY;
typedef struct __attribute__((packed, aligned(4), may_alias)) { u32 x, y, z, w; } any_loose16;
typedef struct __attribute__((packed, aligned(4), may_alias)) { u64 x; } any_loose8;
typedef struct __attribute__((aligned(16), may_alias)) { u64 x, y; } any_tight16;
typedef struct ANY { u8 tag; u16 small; u32 word; u64 wide; u8 bytes[12]; f32 real; } any_record32;
#define AT(type, offset) (*(any_##type *)(void *)(memory + (offset)))

MEMORY_FUNCTION(u32, load_u8, u32, a, u32, b) { return AT(u8, a & 63) + (u32)AT(u8, b & 63) * 256; }
MEMORY_FUNCTION(i32, load_i8, u32, a, u32, b) { return AT(i8, a & 63) - AT(i8, b & 63) * 2; }
MEMORY_FUNCTION(u32, load_u16, u32, a, u32, b)
{
    return AT(u16, a & 62) + AT(u16, b & 62) * 65536u;
}
MEMORY_FUNCTION(i32, load_i16, u32, a, u32, b) { return AT(i16, a & 62) - AT(i16, b & 62) * 2; }
MEMORY_FUNCTION(u32, load_u32, u32, a, u32, b) { return AT(u32, a & 60) ^ AT(u32, b & 60) >> 1; }
MEMORY_FUNCTION(u64, load_u64, u32, a, u32, b) { return AT(u64, a & 56) + AT(u64, b & 56); }
MEMORY_FUNCTION(u32, load_constant_offsets, u32, a, u32, b)
{
    return AT(u32, 0) + AT(u32, 60) * a + AT(u16, 34) + AT(u8, 7) * b + (u32)AT(i8, 21);
}
MEMORY_FUNCTION(u32x4, load_16_bytes, u32, a, u32, b)
{
    const any_tight16 x = AT(tight16, a & 48);
    u32x4 r = {(u32)x.x, (u32)(x.x >> 32) ^ b, (u32)x.y, (u32)(x.y >> 32)};
    return r;
}
MEMORY_FUNCTION(u32x4, load_16_bytes_at_words, u32, a, u32, b)
{
    const any_loose16 x = AT(loose16, a % 13 * 4);
    u32x4 r = {x.x, x.y + b, x.z, x.w};
    return r;
}
MEMORY_FUNCTION(u64, load_8_bytes_at_words, u32, a, u32, b)
{
    return AT(loose8, a % 15 * 4).x + b;
}
MEMORY_FUNCTION(u32x4, load_12_bytes, u32, a, u32, b)
{
    u32x4 r = {AT(u32, 4 * (a & 7)), AT(u32, 4 * (a & 7) + 4), AT(u32, 4 * (a & 7) + 8), b};
    return r;
}
MEMORY_FUNCTION(u32, load_pairs_of_halves, u32, a, u32, b)
{
    return AT(u16, a & 62) | (u32)AT(u16, b & 62) << 16;
}
MEMORY_FUNCTION(u32, load_pairs_of_bytes, u32, a, u32, b)
{
    return AT(u8, a & 63) | (u32)AT(u8, b & 63) << 16;
}
MEMORY_FUNCTION(f16x2, load_halves_as_f16, u32, a, u32, b)
{
    return add_f16x2(make_f16x2(AT(f16, a & 62), AT(f16, b & 62)),
                     make_f16x2(AT(f16, 10), AT(f16, 44)));
}
MEMORY_FUNCTION(f32, load_f32, u32, a, u32, b) { return AT(f32, a & 60) + AT(f32, b & 60); }
MEMORY_FUNCTION(f64, load_f64, u32, a, u32, b) { return AT(f64, a & 56) * AT(f64, b & 56); }
MEMORY_FUNCTION(u32, store_u8, u32, a, u32, b)
{
    AT(u8, a & 63) = (u8)b;
    AT(u8, ~a & 63) = (u8)(b >> 16);
    return a;
}
MEMORY_FUNCTION(u32, store_u16, u32, a, u32, b)
{
    AT(u16, a & 62) = (u16)b;
    AT(u16, ~a & 62) = (u16)(b >> 16);
    return a;
}
MEMORY_FUNCTION(u32, store_u32, u32, a, u32, b)
{
    AT(u32, a & 60) = b;
    AT(u32, 4) = a;
    return b;
}
MEMORY_FUNCTION(u32, store_u64, u64, a, u64, b)
{
    AT(u64, a & 56) = b;
    return (u32)a;
}
MEMORY_FUNCTION(u32, store_16_bytes, u64, a, u64, b)
{
    const any_tight16 x = {a, b};
    AT(tight16, a & 48) = x;
    return 1;
}
MEMORY_FUNCTION(u32, store_16_bytes_at_words, u32, a, u32, b)
{
    const any_loose16 x = {a, b, a + b, a ^ b};
    AT(loose16, b % 13 * 4) = x;
    return b;
}
MEMORY_FUNCTION(u32, store_12_bytes, u32, a, u32, b)
{
    AT(u32, 20) = a;
    AT(u32, 24) = b;
    AT(u32, 28) = a - b;
    return AT(u32, 16);
}
MEMORY_FUNCTION(u32, store_converted, f32, a, f32, b)
{
    /* NaNs may differ in their bits */
    AT(f16, 0) = a == a ? (f16)a : (f16)0.0f;
    AT(f16, 34) = b == b ? (f16)b : (f16)1.0f;
    AT(f64, 8) = a == a ? a : 0;
    return 0;
}
MEMORY_FUNCTION(u32, store_then_load, u32, a, u32, b)
{
    AT(u32, a & 60) = b;
    AT(u8, b & 63) = (u8)a;
    return AT(u32, b & 60) + AT(u16, a & 62);
}
MEMORY_FUNCTION(u32, swap_words, u32, a, u32, b)
{
    const u32 x = AT(u32, a & 60), y = AT(u32, b & 60);
    AT(u32, a & 60) = y;
    AT(u32, b & 60) = x;
    return x - y;
}
MEMORY_FUNCTION(u32, reverse_all_bytes, u32, a, u32, b)
{
    for (u32 i = 0; i < 32; i++) {
        const u8 t = AT(u8, i);
        AT(u8, i) = AT(u8, 63 - i);
        AT(u8, 63 - i) = t;
    }
    return a ^ b;
}
MEMORY_FUNCTION(u32, copy_bytes, u32, a, u32, b)
{
    const u32 n = a & 31;
    for (u32 i = 0; i < n; i++)
        AT(u8, 32 + i) = AT(u8, i) ^ (u8)b;
    return n;
}
MEMORY_FUNCTION(u32, find_byte, u32, a, u32, b)
{
    for (u32 i = 0; i < 64; i++)
        if ((AT(u8, i) & 15) == (a & 15))
            return i + (b & 0x100);
    return ~0u;
}
MEMORY_FUNCTION(u32, sum_of_bytes, u32, a, u32, b)
{
    u32 sum = 0;
    for (u32 i = a & 15; i < 64; i += (b & 3) + 1)
        sum += AT(u8, i);
    return sum;
}
MEMORY_FUNCTION(u32, copy_structure, u32, a, u32, b)
{
    any_record32 x = AT(record32, 0);
    x.word += a;
    x.small = (u16)(x.small ^ b);
    x.bytes[b % 12] = x.tag;
    AT(record32, 32) = x;
    return x.word;
}
MEMORY_FUNCTION(u32, write_fields, u32, a, u32, b)
{
    any_record32 *const p = &AT(record32, 32 * (a & 1));
    p->tag = (u8)a;
    p->small = (u16)b;
    p->wide = (u64)a * b;
    p->bytes[a % 12] = (u8)(b >> 24);
    return p->word;
}
MEMORY_FUNCTION(u32, bit_field_in_memory, u32, a, u32, b)
{
    const u32 at = a & 0x1ff, n = b & 7;
    const u32 word = AT(u8, at >> 3) | (u32)AT(u8, ((at >> 3) + 1) & 63) << 8;
    AT(u8, at >> 3) = (u8)(word ^ 1u << (at & 7));
    return word >> (at & 7) & ((1u << n) - 1);
}
MEMORY_FUNCTION(u32, insertion_sort_words, u32, a, u32, b)
{
    for (u32 i = 1; i < 16; i++) {
        const u32 v = AT(u32, 4 * i);
        u32 j = i;
        for (; j && AT(u32, 4 * j - 4) > v; j--)
            AT(u32, 4 * j) = AT(u32, 4 * j - 4);
        AT(u32, 4 * j) = v;
    }
    return AT(u32, 4 * (a & 15)) ^ b;
}
MEMORY_FUNCTION(u32, conditional_store, u32, a, u32, b)
{
    if (a & 4)
        AT(u32, 0) = b;
    else if (b & 1)
        AT(u16, 6) = (u16)a;
    return AT(u32, 4);
}
/* Which memory the pointer leads to is known at run time only. */
MEMORY_FUNCTION(u32, local_or_global_pointer, u32, a, u32, b)
{
    u32 local[4] = {a, b, a + b, a - b};
    any_u32 *const p = b & 2 ? (any_u32 *)local : &AT(u32, 16);
    p[a & 3] += 77;
    p[b & 3] ^= p[a >> 2 & 3];
    return p[a >> 4 & 3] + local[1];
}

/* Each lane has a descriptor of its own here, so the compiler makes a loop over the lanes. */
MEMORY_FUNCTION(u32, buffer_loads, u32, a, u32, b)
{
    return buffer_load_u32(memory, 48, a & 124) + buffer_load_u16(memory, 50, b & 126) * 3u +
           buffer_load_u8(memory, 13, a >> 8 & 31) * 5u;
}
MEMORY_FUNCTION(u64, buffer_load_of_8_bytes, u32, a, u32, b)
{
    return buffer_load_u64(memory, 40, a & 120) + b;
}
MEMORY_FUNCTION(u32, buffer_load_far_out_of_range, u32, a, u32, b)
{
    return buffer_load_u32(memory, 64, a & ~3u) + b;
}
MEMORY_FUNCTION(u32, buffer_stores, u32, a, u32, b)
{
    buffer_store_u32(b, memory, 24, a & 60);
    buffer_store_u8((u8)a, memory, 40, (b & 31) + 24);
    return AT(u32, 20);
}

/* ---- Atomics, one lane to an address: the value before is determined ------------------------- */

MEMORY_FUNCTION(u32, atomic_add_u32, u32, a, u32, b) { return ATOMIC(add, &AT(u32, a & 60), b); }
MEMORY_FUNCTION(u32, atomic_sub_u32, u32, a, u32, b) { return ATOMIC(sub, &AT(u32, a & 60), b); }
MEMORY_FUNCTION(u32, atomic_and_u32, u32, a, u32, b) { return ATOMIC(and, &AT(u32, a & 60), b); }
MEMORY_FUNCTION(u32, atomic_or_u32, u32, a, u32, b) { return ATOMIC(or, &AT(u32, a & 60), b); }
MEMORY_FUNCTION(u32, atomic_xor_u32, u32, a, u32, b) { return ATOMIC(xor, &AT(u32, a & 60), b); }
MEMORY_FUNCTION(u32, atomic_min_u32, u32, a, u32, b) { return ATOMIC(min, &AT(u32, a & 60), b); }
MEMORY_FUNCTION(u32, atomic_max_u32, u32, a, u32, b) { return ATOMIC(max, &AT(u32, a & 60), b); }
MEMORY_FUNCTION(i32, atomic_min_i32, u32, a, i32, b) { return ATOMIC(min, &AT(i32, a & 60), b); }
MEMORY_FUNCTION(i32, atomic_max_i32, u32, a, i32, b) { return ATOMIC(max, &AT(i32, a & 60), b); }
MEMORY_FUNCTION(u32, atomic_exchange_u32, u32, a, u32, b)
{
    return ATOMIC_EXCHANGE(&AT(u32, a & 60), b);
}
MEMORY_FUNCTION(u32, atomic_compare_exchange_u32, u32, a, u32, b)
{
    const u32 expected = a & 0x100 ? AT(u32, a & 60) : b;
    return compare_exchange(&AT(u32, a & 60), expected, b);
}
MEMORY_FUNCTION(u32, atomic_increment_u32, u32, a, u32, b)
{
    return atomic_inc(&AT(u32, a & 60), b);
}
MEMORY_FUNCTION(u32, atomic_decrement_u32, u32, a, u32, b)
{
    return atomic_dec(&AT(u32, a & 60), b);
}
MEMORY_FUNCTION(u64, atomic_add_u64, u32, a, u64, b) { return ATOMIC(add, &AT(u64, a & 56), b); }
MEMORY_FUNCTION(u64, atomic_sub_u64, u32, a, u64, b) { return ATOMIC(sub, &AT(u64, a & 56), b); }
MEMORY_FUNCTION(u64, atomic_and_u64, u32, a, u64, b) { return ATOMIC(and, &AT(u64, a & 56), b); }
MEMORY_FUNCTION(u64, atomic_or_u64, u32, a, u64, b) { return ATOMIC(or, &AT(u64, a & 56), b); }
MEMORY_FUNCTION(u64, atomic_xor_u64, u32, a, u64, b) { return ATOMIC(xor, &AT(u64, a & 56), b); }
MEMORY_FUNCTION(u64, atomic_min_u64, u32, a, u64, b) { return ATOMIC(min, &AT(u64, a & 56), b); }
MEMORY_FUNCTION(i64, atomic_max_i64, u32, a, i64, b) { return ATOMIC(max, &AT(i64, a & 56), b); }
MEMORY_FUNCTION(u64, atomic_exchange_u64, u32, a, u64, b)
{
    return ATOMIC_EXCHANGE(&AT(u64, a & 56), b);
}
MEMORY_FUNCTION(u64, atomic_compare_exchange_u64, u32, a, u64, b)
{
    const u64 expected = a & 0x100 ? AT(u64, a & 56) : b;
    return compare_exchange(&AT(u64, a & 56), expected, b);
}
MEMORY_FUNCTION(u32, atomics_without_result, u32, a, u32, b)
{
    ATOMIC(add, &AT(u32, 0), a);
    ATOMIC(sub, &AT(u32, 4), b);
    ATOMIC(and, &AT(u32, 8), a);
    ATOMIC(or, &AT(u32, 12), b);
    ATOMIC(xor, &AT(u32, 16), a);
    ATOMIC(min, &AT(u32, 20), b);
    ATOMIC(max, &AT(i32, 24), (i32)a);
    ATOMIC_EXCHANGE(&AT(u32, 28), b);
    ATOMIC(add, &AT(u64, 32), (u64)a << 20);
    ATOMIC(max, &AT(u64, 40), (u64)b << 30);
    ATOMIC(xor, &AT(u64, 48), ~(u64)b);
    atomic_inc(&AT(u32, 56), a);
    return 0;
}
MEMORY_FUNCTION(u32, atomic_load_and_store, u32, a, u32, b)
{
    const u32 x = ATOMIC_LOAD(&AT(u32, a & 60));
    ATOMIC_STORE(&AT(u32, b & 60), x + 1);
    return x;
}
