/* SPDX-License-Identifier: MIT */
/* Atomics: their names, the targets that have them, and what they make of memory. */
#ifndef QUERN_EVERY_CHANGES_H
#define QUERN_EVERY_CHANGES_H

#include "formulas.h"

/* Targets by their places in the test's list. */
#define ALL "012345"

enum kind {
    ADD,
    SUB,
    RSUB,
    MIN,
    MAX,
    AND,
    OR,
    XOR,
    INC,
    DEC,
    SWAP,
    CMPSWAP,
    SUB_CLAMP,
    COND_SUB,
    MASK_OR,
    WRAP,
    EXCHANGE,
    PAIR
};
/* Type: u, i integers, f floats, h two f16, b two bf16. `on`: in which targets for global and
 * buffer, flat, LDS; a kind that only returns has an R before it. */
static const struct change {
    const char *name, *old, *lds; /* ds_NAME_type: with "%s" for the _rtn of the returning form */
    enum kind kind;
    char type;
    unsigned bytes;
    const char *on, *buffer_on, *flat_on, *lds_on;
} changes[] = {
#define INTEGER(NAME, OLD, KIND, TYPE, T, L)                                                       \
    {                                                                                              \
        "atomic_" NAME #T "32",                                                                    \
        "atomic_" OLD,                                                                             \
        "" L "%s_" #T "32",                                                                        \
        KIND,                                                                                      \
        TYPE,                                                                                      \
        4,                                                                                         \
        ALL,                                                                                       \
        ALL,                                                                                       \
        ALL,                                                                                       \
        ALL},                                                                                      \
    {                                                                                              \
        "atomic_" NAME #T "64", "atomic_" OLD "_x2", "" L "%s_" #T "64", KIND, TYPE, 8, ALL, ALL,  \
            ALL, ALL                                                                               \
    }
    /* clang-format off */
    INTEGER("add_", "add", ADD, 'u', u, "add"),
    INTEGER("sub_", "sub", SUB, 'u', u, "sub"),
    INTEGER("min_", "smin", MIN, 'i', i, "min"),
    INTEGER("min_", "umin", MIN, 'u', u, "min"),
    INTEGER("max_", "smax", MAX, 'i', i, "max"),
    INTEGER("max_", "umax", MAX, 'u', u, "max"),
    INTEGER("and_", "and", AND, 'u', b, "and"),
    INTEGER("or_", "or", OR, 'u', b, "or"),
    INTEGER("xor_", "xor", XOR, 'u', b, "xor"),
    INTEGER("inc_", "inc", INC, 'u', u, "inc"),
    INTEGER("dec_", "dec", DEC, 'u', u, "dec"),
/* clang-format on */
#undef INTEGER
    {NULL, NULL, "rsub%s_u32", RSUB, 'u', 4, "", "", "", ALL},
    {NULL, NULL, "rsub%s_u64", RSUB, 'u', 8, "", "", "", ALL},
    {"atomic_swap_b32", "atomic_swap", NULL, SWAP, 'u', 4, ALL, ALL, ALL, ""},
    {"atomic_swap_b64", "atomic_swap_x2", NULL, SWAP, 'u', 8, ALL, ALL, ALL, ""},
    {NULL, NULL, "storexchg_rtn_b32", SWAP, 'u', 4, "", "", "", "R345"},
    {NULL, NULL, "storexchg_rtn_b64", SWAP, 'u', 8, "", "", "", "R345"},
    {NULL, NULL, "wrxchg_rtn_b32", SWAP, 'u', 4, "", "", "", "R012"},
    {NULL, NULL, "wrxchg_rtn_b64", SWAP, 'u', 8, "", "", "", "R012"},
    {"atomic_cmpswap_b32", "atomic_cmpswap", NULL, CMPSWAP, 'u', 4, ALL, ALL, ALL, ""},
    {"atomic_cmpswap_b64", "atomic_cmpswap_x2", NULL, CMPSWAP, 'u', 8, ALL, ALL, ALL, ""},
    {NULL, NULL, "cmpstore%s_b32", CMPSWAP, 'u', 4, "", "", "", "345"},
    {NULL, NULL, "cmpstore%s_b64", CMPSWAP, 'u', 8, "", "", "", "345"},
    {NULL, NULL, "cmpst%s_b32", CMPSWAP, 'u', 4, "", "", "", "012"},
    {NULL, NULL, "cmpst%s_b64", CMPSWAP, 'u', 8, "", "", "", "012"},
    {"atomic_cmpswap_f32", "", NULL, CMPSWAP, 'f', 4, "34", "34", "34", ""},
    {NULL, NULL, "cmpstore%s_f32", CMPSWAP, 'f', 4, "", "", "", "34"},
    {NULL, NULL, "cmpstore%s_f64", CMPSWAP, 'f', 8, "", "", "", "34"},
    {NULL, NULL, "cmpst%s_f32", CMPSWAP, 'f', 4, "", "", "", "012"},
    {NULL, NULL, "cmpst%s_f64", CMPSWAP, 'f', 8, "", "", "", "012"},
    {NULL, NULL, "mskor%s_b32", MASK_OR, 'u', 4, "", "", "", ALL},
    {NULL, NULL, "mskor%s_b64", MASK_OR, 'u', 8, "", "", "", ALL},
    {NULL, NULL, "wrap_rtn_b32", WRAP, 'u', 4, "", "", "", "R01234"},
    {NULL, NULL, "condxchg32_rtn_b64", EXCHANGE, 'u', 8, "", "", "", "R012345"},
    {"atomic_csub_u32", "", NULL, SUB_CLAMP, 'u', 4, "R34", "R34", "", ""},
    {"atomic_sub_clamp_u32", "", "sub_clamp%s_u32", SUB_CLAMP, 'u', 4, "5", "5", "5", "5"},
    {"atomic_cond_sub_u32", "", "cond_sub%s_u32", COND_SUB, 'u', 4, "5", "5", "5", "5"},
    {"atomic_add_f32", "atomic_add_f32", "add%s_f32", ADD, 'f', 4, ALL, ALL, "12345", ALL},
    {"atomic_min_f32", "", "min%s_f32", MIN, 'f', 4, "34", "34", "34", "01234"},
    {"atomic_max_f32", "", "max%s_f32", MAX, 'f', 4, "34", "34", "34", "01234"},
    {"atomic_min_num_f32", "", "min_num%s_f32", MIN, 'f', 4, "5", "5", "5", "5"},
    {"atomic_max_num_f32", "", "max_num%s_f32", MAX, 'f', 4, "5", "5", "5", "5"},
    {"atomic_add_f64", "atomic_add_f64", "add%s_f64", ADD, 'f', 8, "012", "012", "012", "012"},
    {"atomic_min_f64", "atomic_min_f64", "min%s_f64", MIN, 'f', 8, "012", "012", "012", "01234"},
    {"atomic_max_f64", "atomic_max_f64", "max%s_f64", MAX, 'f', 8, "012", "012", "012", "01234"},
    {NULL, NULL, "min_num%s_f64", MIN, 'f', 8, "", "", "", "5"},
    {NULL, NULL, "max_num%s_f64", MAX, 'f', 8, "", "", "", "5"},
    {"atomic_pk_add_f16", "atomic_pk_add_f16", "pk_add%s_f16", PAIR, 'h', 4, "0125", "0125", "125",
     "125"},
    {"atomic_pk_add_bf16", "atomic_pk_add_bf16", "pk_add%s_bf16", PAIR, 'b', 4, "125", "25", "125",
     "125"},
};
/* ---- What comes out -------------------------------------------------------------------------- */

static inline uint64_t integer_change(const struct change *c, uint64_t old, uint64_t data,
                                      uint64_t compare)
{
    const bool wide = c->bytes == 8;
    const int64_t a = wide ? (int64_t)old : s(old), b = wide ? (int64_t)data : s(data);

    switch (c->kind) {
    case ADD:
        return old + data;
    case SUB:
        return old - data;
    case RSUB:
        return data - old;
    case MIN:
        return c->type == 'i' ? (a < b ? old : data) : (old < data ? old : data);
    case MAX:
        return c->type == 'i' ? (a > b ? old : data) : (old > data ? old : data);
    case AND:
        return old & data;
    case OR:
        return old | data;
    case XOR:
        return old ^ data;
    case INC:
        return old >= data ? 0 : old + 1;
    case DEC:
        return old == 0 || old > data ? data : old - 1;
    case SWAP:
        return data;
    case CMPSWAP:
        return old == compare ? data : old;
    case SUB_CLAMP:
        return old < data ? 0 : old - data;
    case COND_SUB:
        return old < data ? old : old - data;
    case MASK_OR:
        return (old & ~compare) | data;
    case WRAP:
        return old < data ? old + compare : old - data;
    case EXCHANGE: { /* dwords whose top bit is set, without it */
        const uint64_t low = data >> 31 & 1 ? data & 0x7fffffff : u(old);
        return low | (data >> 63 ? data >> 32 & 0x7fffffff : old >> 32) << 32;
    }
    case PAIR:
        break;
    }
    return 0;
}

static inline uint64_t changed(const struct change *c, uint64_t old, uint64_t data,
                               uint64_t compare)
{
    if (c->type == 'h')
        return pair((f16)((float)lo(old) + (float)lo(data)),
                    (f16)((float)hi(old) + (float)hi(data)));
    if (c->type == 'b')
        return words(to_bf16(f32(old << 16) + f32(data << 16)),
                     to_bf16(bf_high(old) + bf_high(data)));
    if (c->type == 'f' && c->kind == CMPSWAP)
        return (c->bytes == 4 ? f32(old) == f32(compare) : f64(old) == f64(compare)) ? data : old;
    if (c->type == 'f' && c->bytes == 4)
        return bits32(c->kind == ADD   ? f32(old) + f32(data)
                      : c->kind == MIN ? least(f32(old), f32(data))
                                       : most(f32(old), f32(data)));
    if (c->type == 'f')
        return bits64(c->kind == ADD   ? f64(old) + f64(data)
                      : c->kind == MIN ? least64(f64(old), f64(data))
                                       : most64(f64(old), f64(data)));
    const uint64_t r = integer_change(c, old, data, compare);
    return c->bytes == 8 ? r : u(r);
}

#endif
