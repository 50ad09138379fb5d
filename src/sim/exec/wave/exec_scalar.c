/* SPDX-License-Identifier: MIT */
/* Scalar ALU instructions: rows in exec_scalar.def; those that are more than an expression are
 * here. */
#include "sim/exec/tables.h"
#include "sim/number/transcendental.h"

typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef uint16_t u16;
typedef float f32;
typedef float f16; /* as a scalar operand: converted */
typedef uint32_t none;

/* ---- Helpers of single instructions ---------------------------------------------------------- */

/* The field: offset in bits 0-4, width in bits 16-22. */
static u32 bfe_scalar(u32 x, u32 field, int sign)
{
    const u32 offset = field & 31, width = field >> 16 & 127;

    if (width >= 32)
        return sign ? (u32)((i32)x >> offset) : x >> offset;
    return sign ? bfe_i32((u32)((i32)x >> offset), 0, width) : bfe_u32(x >> offset, 0, width);
}

static u64 bfe_scalar64(u64 x, u32 field, int sign)
{
    const u32 offset = field & 63, width = field >> 16 & 127;
    const u64 shifted = sign ? (u64)((i64)x >> offset) : x >> offset;

    if (width == 0)
        return 0;
    if (width >= 64)
        return shifted;
    const u64 low = shifted << (64 - width);
    return sign ? (u64)((i64)low >> (64 - width)) : low >> (64 - width);
}

static u32 leading_sign_bits64(u64 x)
{
    const u64 differs = x ^ (u64)((i64)x >> 63);
    return differs ? (u32)__builtin_clzll(differs) : ~0u;
}

static u64 replicate_bits(u32 x)
{
    u64 r = 0;
    for (unsigned n = 0; n < 32; n++)
        r |= (u64)(x >> n & 1 ? 3 : 0) << 2 * n;
    return r;
}

/* A bit for each four bits of which one is set. */
static u64 mask_of_quads(u64 x)
{
    u64 r = 0;
    for (unsigned n = 0; n < 16; n++)
        r |= (u64)((x >> 4 * n & 15) != 0) << n;
    return r;
}

static u64 whole_quads(u64 x)
{
    u64 r = 0;
    for (unsigned n = 0; n < 64; n += 4)
        r |= x >> n & 15 ? (u64)15 << n : 0;
    return r;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define READ_u32(n)  scalar32(w, &i->op[n])
#define READ_u16(n)  (u16) scalar32(w, &i->op[n])
#define READ_i32(n)  (i32) scalar32(w, &i->op[n])
#define READ_u64(n)  scalar64(w, &i->op[n])
#define READ_i64(n)  (i64) scalar64(w, &i->op[n])
#define READ_f32(n)  f32_of(modified(scalar32(w, &i->op[n]), i->op[n].mods, 31))
#define READ_f16(n)  f16_to_f32(modified(scalar32(w, &i->op[n]), i->op[n].mods, 15) & 0xffff)
#define READ_none(n) 0
#define WRITE_u32(x) w->s[i->op[0].reg] = (x)
#define WRITE_i32(x) w->s[i->op[0].reg] = (u32)(x)
#define WRITE_u64(x) set_scalar64(w, &i->op[0], (x))
#define WRITE_i64(x) set_scalar64(w, &i->op[0], (u64)(x))
#define WRITE_f32(x) w->s[i->op[0].reg] = bits_of_f32(x)
#define WRITE_f16(x) w->s[i->op[0].reg] = f32_to_f16(x)
#define WRITE_none(x)

INLINE u32 modified(u32 x, unsigned mods, unsigned sign_bit)
{
    x &= ~((mods & MOD_ABS ? 1u : 0) << sign_bit);
    return x ^ (mods & MOD_NEG ? 1u : 0) << sign_bit;
}

INLINE f32 finished(const struct insn *i, f32 x)
{
    static const f32 factors[4] = {1, 2, 4, 0.5f};

    x *= factors[i->omod];
    return !(i->flags & INSN_CLAMP) ? x : x > 1 ? 1 : x > 0 ? x : 0;
}

#define S(NAME, UNDEF, OPERANDS, A, B, R, SCC, ...)                                                \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        const u32 scc = w->s[S_SCC];                                                               \
        const A a = READ_##A(1);                                                                   \
        const B b = READ_##B(2);                                                                   \
        const R r = (R)(__VA_ARGS__);                                                              \
        (void)scc, (void)a, (void)b, (void)r;                                                      \
        WRITE_##R(r);                                                                              \
        w->s[S_SCC] = (SCC) != 0;                                                                  \
        return next(w, i);                                                                         \
    }
#define SK(NAME, UNDEF, OPERANDS, A, B, R, ...)                                                    \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        const u32 scc = w->s[S_SCC];                                                               \
        const A a = READ_##A(1);                                                                   \
        const B b = READ_##B(2);                                                                   \
        (void)scc, (void)a, (void)b;                                                               \
        WRITE_##R((R)(__VA_ARGS__));                                                               \
        return next(w, i);                                                                         \
    }
#define S3(NAME, OPERANDS, T, ...)                                                                 \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        const T a = READ_##T(1), b = READ_##T(2), c = READ_##T(3);                                 \
        WRITE_##T(__VA_ARGS__);                                                                    \
        return next(w, i);                                                                         \
    }
/* They are vector instructions: their modifiers scale and clamp the result. Of two expressions the
 * second is silicon's (exec_trans.c). */
#define EITHER(NEAR, KNOWN) (w->adder == ADDER_RDNA4 ? f32_of(KNOWN(bits_of_f32(a))) : (NEAR))
#define PSEUDO(NAME, T, ...)                                                                       \
    BODY(NAME##_##T)                                                                               \
    {                                                                                              \
        const T a = READ_##T(1);                                                                   \
        WRITE_##T(finished(i, __VA_ARGS__));                                                       \
        return next(w, i);                                                                         \
    }
#define S32(NAME, UNDEF, ...)  S(NAME, UNDEF, "=s0s1s2", u32, u32, u32, __VA_ARGS__)
#define SK32(NAME, UNDEF, ...) SK(NAME, UNDEF, "=s0s1s2", u32, u32, u32, __VA_ARGS__)
#define SK64(NAME, UNDEF, ...) SK(NAME, UNDEF, "=t0t1t2", u64, u64, u64, __VA_ARGS__)
#define UNARY32(NAME, ...)     SK(NAME, ANY, "=s0s1", u32, none, u32, __VA_ARGS__)
#define UNARY64(NAME, ...)     SK(NAME, ANY, "=s0t1", u64, none, u32, __VA_ARGS__)
#define BITWISE(NAME, UNDEF, X)                                                                    \
    S32(NAME##_b32, UNDEF, r != 0, X)                                                              \
    S(NAME##_b64, UNDEF, "=t0t1t2", u64, u64, u64, r != 0, X)
#define FLOAT1(NAME, X)                                                                            \
    SK(NAME##_f32, ANY, "=s0f1", f32, none, f32, X)                                                \
    SK(NAME##_f16, ANY, "=s0h1", f16, none, f16, X)
#define FLOAT2(NAME, ...)                                                                          \
    SK(NAME##_f32, ANY, "=s0f1f2", f32, f32, f32, __VA_ARGS__)                                     \
    SK(NAME##_f16, ANY, "=s0h1h2", f16, f16, f16, __VA_ARGS__)
#define RELATION(NAME, OPERANDS, A, B, X) S(NAME, ANY, OPERANDS, A, B, none, X, 0)
#define COMPARE(NAME, SUFFIX, OPERANDS, A, B)                                                      \
    RELATION(NAME##_eq_##SUFFIX, OPERANDS, A, B, a == b)                                           \
    RELATION(NAME##_lg_##SUFFIX, OPERANDS, A, B, a != b)                                           \
    RELATION(NAME##_gt_##SUFFIX, OPERANDS, A, B, a > b)                                            \
    RELATION(NAME##_ge_##SUFFIX, OPERANDS, A, B, a >= b)                                           \
    RELATION(NAME##_lt_##SUFFIX, OPERANDS, A, B, a < b)                                            \
    RELATION(NAME##_le_##SUFFIX, OPERANDS, A, B, a <= b)
#include "sim/exec/wave/exec_scalar.def"
#undef S
#undef SK
#undef S3
#undef PSEUDO

/* ---- EXEC = an expression x of s (the source) and e (the old EXEC), SCC = EXEC != 0; the
 * destination gets e (saveexec) or x (wrexec) */

#define TO_EXEC(NAME, EXPRESSION, RESULT)                                                          \
    BODY(NAME##_b32)                                                                               \
    {                                                                                              \
        const u32 s = scalar32(w, &i->op[1]), e = w->s[S_EXEC], x = (EXPRESSION);                  \
        w->s[i->op[0].reg] = RESULT;                                                               \
        w->s[S_EXEC] = x;                                                                          \
        w->s[S_SCC] = x != 0;                                                                      \
        exec_changed(w);                                                                           \
        return i + 1;                                                                              \
    }                                                                                              \
    BODY(NAME##_b64)                                                                               \
    {                                                                                              \
        const u64 s = scalar64(w, &i->op[1]);                                                      \
        const u64 e = w->s[S_EXEC] | (u64)w->s[S_EXEC + 1] << 32;                                  \
        const u64 x = (EXPRESSION);                                                                \
        set_scalar64(w, &i->op[0], RESULT);                                                        \
        w->s[S_EXEC] = (u32)x;                                                                     \
        w->s[S_EXEC + 1] = (u32)(x >> 32);                                                         \
        w->s[S_SCC] = x != 0;                                                                      \
        exec_changed(w);                                                                           \
        return i + 1;                                                                              \
    }
#define SAVEEXEC(NAME, EXPRESSION) TO_EXEC(NAME, EXPRESSION, e)
#define WREXEC(NAME, EXPRESSION)   TO_EXEC(NAME, EXPRESSION, x)
/* clang-format off */
#define SAVEEXEC_ALL                                                                               \
    SAVEEXEC(s_and_saveexec, s & e)                                                                \
    SAVEEXEC(s_or_saveexec, s | e)                                                                 \
    SAVEEXEC(s_xor_saveexec, s ^ e)                                                                \
    SAVEEXEC(s_and_not1_saveexec, s & ~e)                                                          \
    SAVEEXEC(s_or_not1_saveexec, s | ~e)                                                           \
    SAVEEXEC(s_and_not0_saveexec, ~s & e)                                                          \
    SAVEEXEC(s_or_not0_saveexec, ~s | e)                                                           \
    SAVEEXEC(s_nand_saveexec, ~(s & e))                                                            \
    SAVEEXEC(s_nor_saveexec, ~(s | e))                                                             \
    SAVEEXEC(s_xnor_saveexec, ~(s ^ e))
/* clang-format on */
/* clang-format off */
#define WREXEC_ALL                                                                                 \
    WREXEC(s_and_not0_wrexec, ~s & e)                                                              \
    WREXEC(s_and_not1_wrexec, s & ~e)
/* clang-format on */
SAVEEXEC_ALL
WREXEC_ALL
#undef SAVEEXEC
#undef WREXEC

#define ROW_(NAME, UNDEF, OPERANDS, SCC)                                                           \
    {#NAME, QUERN_CLASS_SALU, UNDEF_##UNDEF, OPERANDS, x_##NAME, .writes_scc = SCC},
#define S(NAME, UNDEF, OPERANDS, ...)  ROW_(NAME, UNDEF, OPERANDS, true)
#define SK(NAME, UNDEF, OPERANDS, ...) ROW_(NAME, UNDEF, OPERANDS, false)
#define S3(NAME, OPERANDS, ...)        ROW_(NAME, ANY, OPERANDS, false)
#define PSEUDO(NAME, T, ...)           PSEUDO_##T(NAME##_##T)
#define PSEUDO_ROW(NAME, OPERANDS)                                                                 \
    {#NAME, QUERN_CLASS_TRANS, UNDEF_ANY, OPERANDS, x_##NAME, .scalar = true},
#define PSEUDO_f32(NAME) PSEUDO_ROW(NAME, "=s0f1")
#define PSEUDO_f16(NAME) PSEUDO_ROW(NAME, "=s0h1")
#define SAVEEXEC(NAME, EXPRESSION)                                                                 \
    ROW_(NAME##_b32, EXEC, "=s0s1", true) ROW_(NAME##_b64, EXEC, "=t0t1", true)
#define WREXEC(NAME, EXPRESSION)                                                                   \
    ROW_(NAME##_b32, EXEC, "=s0s1", true) ROW_(NAME##_b64, EXEC, "=t0t1", true)

/* gfx9's name, which it has for 64 bits only */
#define OLD(NAME, BODY)                                                                            \
    {#NAME, QUERN_CLASS_SALU, UNDEF_EXEC, "=t0t1", x_##BODY, .writes_scc = true},

/* clang-format off */
const struct sim_row rows_scalar[] = {
#include "sim/exec/wave/exec_scalar.def"
    SAVEEXEC_ALL WREXEC_ALL
    OLD(s_andn1_saveexec_b64, s_and_not0_saveexec_b64)
    OLD(s_andn2_saveexec_b64, s_and_not1_saveexec_b64)
    OLD(s_orn1_saveexec_b64, s_or_not0_saveexec_b64)
    OLD(s_orn2_saveexec_b64, s_or_not1_saveexec_b64)
    OLD(s_andn1_wrexec_b64, s_and_not0_wrexec_b64)
    OLD(s_andn2_wrexec_b64, s_and_not1_wrexec_b64)
    {0}};
/* clang-format on */
