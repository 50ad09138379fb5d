/* SPDX-License-Identifier: MIT */
/* Elements of matrices by their bits, independently of src/sim: values, and bits to test with. */
#ifndef QUERN_T_NUMBER_H
#define QUERN_T_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

enum t_type {
    F32,
    XF32, /* f32 rounded to ten bits of mantissa */
    F16,
    BF16,
    FP8, /* e4m3 */
    BF8, /* e5m2 */
    FP6, /* e2m3 */
    BF6, /* e3m2 */
    FP4, /* e2m1 */
    I8,
    U8,
    I4,
    U4,
    I32,
    F64
};

unsigned t_bits_of(enum t_type t);

/* The value of an element, but for F64; upper bits are ignored. `fnuz`: 8-bit floats as gfx942 has
 * them. */
double t_value_of(enum t_type t, uint32_t bits, bool fnuz);

/* Bits of an element of moderate size or, if `special`, sometimes denormal, huge, infinite, NaN. */
uint64_t t_draw(enum t_type t, bool special, uint64_t *random);
/* Small numbers, so that sums of products are exact; if `special`, now and then an infinity, a NaN,
 * a zero of either sign or the smallest denormal. */
uint32_t t_draw_small(enum t_type t, bool special, uint64_t *random);

float t_f32(uint32_t bits);
uint32_t t_f32_bits(float f);
double t_f64(uint64_t bits);
uint64_t t_f64_bits(double d);

#endif
