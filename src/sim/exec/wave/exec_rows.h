/* SPDX-License-Identifier: MIT */
/*
 * Turns a .def file of vector instructions into bodies and a table: include it with ROWS_FILE and
 * ROWS_NAME defined. A row of the file is
 *
 *     V2(name, result type, type of a, type of b, expression)
 *
 * with as many operand types as the digit says (V3: a, b, c; V4: d as well; VA: the accumulator is
 * the destination, read as c), see wave.h for the type letters; `lane` is the lane's number.
 * SAME2(name, type, expression) is a row whose result and operands have one type. ALIAS gives
 * another name, of another generation or encoding, to a body. All these are of the class VALU, and
 * their results are undefined where a source is; rows that end in _OF name a class and what makes a
 * result undefined (UNDEF_…) behind the name. Of packed instructions a row gives the expression of
 * one part: P of two f16, K of two 16-bit integers, R of two f32.
 */
#include "sim/exec/tables.h"

#define V1(NAME, ...)               V1_OF(NAME, VALU, ANY, __VA_ARGS__)
#define V2(NAME, ...)               V2_OF(NAME, VALU, ANY, __VA_ARGS__)
#define V3(NAME, ...)               V3_OF(NAME, VALU, ANY, __VA_ARGS__)
#define V4(NAME, ...)               V4_OF(NAME, VALU, ANY, __VA_ARGS__)
#define VA(NAME, ...)               VA_OF(NAME, VALU, ANY, __VA_ARGS__)
#define SAME1(NAME, T, ...)         V1(NAME, T, T, __VA_ARGS__)
#define SAME2(NAME, T, ...)         V2(NAME, T, T, T, __VA_ARGS__)
#define SAME3(NAME, T, ...)         V3(NAME, T, T, T, T, __VA_ARGS__)
#define ALIAS(NAME, BODY, OPERANDS) ALIAS_OF(NAME, BODY, VALU, ANY, OPERANDS)

#define V1_OF(NAME, CLASS, UNDEF, R, A, ...)    VECTOR_BODY(NAME, R, 1, LET_1(A), __VA_ARGS__)
#define V2_OF(NAME, CLASS, UNDEF, R, A, B, ...) VECTOR_BODY(NAME, R, 2, LET_2(A, B), __VA_ARGS__)
#define V3_OF(NAME, CLASS, UNDEF, R, A, B, C, ...)                                                 \
    VECTOR_BODY(NAME, R, 3, LET_3(A, B, C), __VA_ARGS__)
#define V4_OF(NAME, CLASS, UNDEF, R, A, B, C, D, ...)                                              \
    VECTOR_BODY(NAME, R, 4, LET_4(A, B, C, D), __VA_ARGS__)
#define VA_OF(NAME, CLASS, UNDEF, R, A, B, ...) VECTOR_BODY(NAME, R, 3, LET_3(A, B, R), __VA_ARGS__)
#define PART(NAME, R, N, LET, BOTH, PART_TYPE, ...)                                                \
    INLINE PART_TYPE part_##NAME(PART_TYPE x, PART_TYPE y, PART_TYPE z)                            \
    {                                                                                              \
        (void)z;                                                                                   \
        return (PART_TYPE)(__VA_ARGS__);                                                           \
    }                                                                                              \
    VECTOR_BODY(NAME, R, N, LET, BOTH(part_##NAME))
#define HALVES_2(PART) pack_f16(PART(LOW_F16(a), LOW_F16(b), 0), PART(HIGH_F16(a), HIGH_F16(b), 0))
#define HALVES_3(PART)                                                                             \
    pack_f16(PART(LOW_F16(a), LOW_F16(b), LOW_F16(c)), PART(HIGH_F16(a), HIGH_F16(b), HIGH_F16(c)))
#define INTEGERS_2(PART) pack_16(PART(a & 0xffff, b & 0xffff, 0), PART(a >> 16, b >> 16, 0))
#define INTEGERS_3(PART)                                                                           \
    pack_16(PART(a & 0xffff, b & 0xffff, c & 0xffff), PART(a >> 16, b >> 16, c >> 16))
#define WORDS_2(PART) pack_f32(PART(a.low, b.low, 0), PART(a.high, b.high, 0))
#define WORDS_3(PART) pack_f32(PART(a.low, b.low, c.low), PART(a.high, b.high, c.high))
#define P2(NAME, ...) PART(NAME, p, 2, LET_2(p, p), HALVES_2, float, __VA_ARGS__)
#define P3(NAME, ...) PART(NAME, p, 3, LET_3(p, p, p), HALVES_3, float, __VA_ARGS__)
#define PA(NAME, ...) PART(NAME, p, 3, LET_3(p, p, p), HALVES_3, float, __VA_ARGS__)
#define K2(NAME, ...) PART(NAME, k, 2, LET_2(k, k), INTEGERS_2, uint32_t, __VA_ARGS__)
#define K3(NAME, ...) PART(NAME, k, 3, LET_3(k, k, k), INTEGERS_3, uint32_t, __VA_ARGS__)
#define R2(NAME, ...) PART(NAME, r, 2, LET_2(r, r), WORDS_2, float, __VA_ARGS__)
#define R3(NAME, ...) PART(NAME, r, 3, LET_3(r, r, r), WORDS_3, float, __VA_ARGS__)
#define ALIAS_OF(NAME, BODY, CLASS, UNDEF, OPERANDS)
#include ROWS_FILE
#undef P2
#undef P3
#undef PA
#undef K2
#undef K3
#undef R2
#undef R3
#undef V1_OF
#undef V2_OF
#undef V3_OF
#undef V4_OF
#undef VA_OF
#undef ALIAS_OF

#define VECTOR_ROW(NAME, CLASS, UNDEF, OPERANDS)                                                   \
    {#NAME, QUERN_CLASS_##CLASS, UNDEF_##UNDEF, OPERANDS, x_##NAME},
#define V1_OF(NAME, CLASS, UNDEF, R, A, ...) VECTOR_ROW(NAME, CLASS, UNDEF, "=" #R "0" #A "1")
#define V2_OF(NAME, CLASS, UNDEF, R, A, B, ...)                                                    \
    VECTOR_ROW(NAME, CLASS, UNDEF, "=" #R "0" #A "1" #B "2")
#define V3_OF(NAME, CLASS, UNDEF, R, A, B, C, ...)                                                 \
    VECTOR_ROW(NAME, CLASS, UNDEF, "=" #R "0" #A "1" #B "2" #C "3")
#define V4_OF(NAME, CLASS, UNDEF, R, A, B, C, D, ...)                                              \
    VECTOR_ROW(NAME, CLASS, UNDEF, "=" #R "0" #A "1" #B "2" #C "3" #D "4")
#define VA_OF(NAME, CLASS, UNDEF, R, A, B, ...)                                                    \
    VECTOR_ROW(NAME, CLASS, UNDEF, "=" #R "0" #A "1" #B "2+3")
#define P2(NAME, ...) VECTOR_ROW(NAME, PACKED, HALVES, "=p0p1p2")
#define P3(NAME, ...) VECTOR_ROW(NAME, PACKED, HALVES, "=p0p1p2p3")
#define PA(NAME, ...) VECTOR_ROW(NAME, PACKED, HALVES, "=p0p1p2+3")
#define K2(NAME, ...) VECTOR_ROW(NAME, PACKED, HALVES, "=k0k1k2")
#define K3(NAME, ...) VECTOR_ROW(NAME, PACKED, HALVES, "=k0k1k2k3")
#define R2(NAME, ...) VECTOR_ROW(NAME, PACKED, WORDS, "=r0r1r2")
#define R3(NAME, ...) VECTOR_ROW(NAME, PACKED, WORDS, "=r0r1r2r3")
#define ALIAS_OF(NAME, BODY, CLASS, UNDEF, OPERANDS)                                               \
    {#NAME, QUERN_CLASS_##CLASS, UNDEF_##UNDEF, OPERANDS, x_##BODY},

const struct sim_row ROWS_NAME[] = {
#include ROWS_FILE
    {0}};
