/* SPDX-License-Identifier: MIT */
/* Digests of what an RX 9070 (gfx1201) gave, as bjacob/goc publishes them (MIT; captured on
 * 2026-10-08 and 09 with MODE = 0xf0: nearest, denormals count): FNV-1a of 64 bits over results,
 * low bytes first. The inputs are made by the tests. */
#ifndef GOC_CAPTURES_H
#define GOC_CAPTURES_H
#include <stdint.h>

/* tests/class_hardware.h, all lanes on: f32 and f64; by modifiers none, |a|, -a, -|a|. */
static const uint64_t goc_class[2][4] = {
    {0x3732b06c4b32babf, 0xd10f0a3fccf274bb, 0xe99711a2408fbbdf, 0xaf506336cf2ae49f},
    {0xbc9d0c9488761905, 0x74e5aa0b0b2ee194, 0x97ccb7477b2f1d3d, 0x8d7a5755e4a34494}};

/* tests/float_compare_hardware.h, all lanes on, denormals count: f32 and f64, by predicate; each
 * over the sixteen modifiers, |a| being 1 of them, |b| 2, -a 4 and -b 8. */
static const char *const goc_predicates[14] = {"lt", "eq",  "le",  "gt",  "lg",  "ge",  "o",
                                               "u",  "nge", "nlg", "ngt", "nle", "neq", "nlt"};

static const uint64_t goc_compare[2][14] = {
    {0x3be90d8590cb9f69, 0x8e6f82e58954679d, 0xabb3f59d9918f6f1, 0x099c33ae75f68089,
     0x509f9531850027ad, 0x4a1d1f49e82c07a1, 0x2695dc79bc18ffa5, 0x62cbb18fe6fee8a5,
     0x36f3242610685971, 0xd9ed38948e566b0d, 0x88791a2b2e1c70b9, 0x46c82fffc8eb1eb1,
     0x199881158f16487d, 0x1667bb329cdbc589},
    {0x78b9584efa34a46d, 0xd8a6644f2b7f18cd, 0x62ddf3350c66d465, 0xb53541d07b5ca8bd,
     0x6c353a5bef5dfd2d, 0x26bdf5e7edc9ded5, 0x46846d4f40cfc7e5, 0x4f491723254fdfe5,
     0x60b24ca39d6ad4a5, 0xe30f87754ef6d97d, 0xb32809db650f8fad, 0x86b95c4ea187d815,
     0x5222c2662deaab9d, 0xb34343b44d868b0d}};

/* tests/fp64_output_hardware.h and fp64_output_test.cpp: 32 inputs, -0 as the third operand, by
 * output modifier (none, mul:2, mul:4, div:2), clamp and -a, the last innermost; every NaN counts
 * as 0x7ff8000000000000. Left out: square roots and reciprocals, and v_ldexp_f64 by 2^-1. */
static const uint64_t goc_f64_inputs[32] = {0,
                                            0x8000000000000000,
                                            1,
                                            0x8000000000000001,
                                            0x000fffffffffffff,
                                            0x800fffffffffffff,
                                            0x0010000000000000,
                                            0x8010000000000000,
                                            0x001fffffffffffff,
                                            0x801fffffffffffff,
                                            0x0020000000000000,
                                            0x8020000000000000,
                                            0x3fe0000000000000,
                                            0xbfe0000000000000,
                                            0x3ff0000000000000,
                                            0xbff0000000000000,
                                            0x4000000000000000,
                                            0xc000000000000000,
                                            0x7fd0000000000000,
                                            0xffd0000000000000,
                                            0x7fe0000000000000,
                                            0xffe0000000000000,
                                            0x7fefffffffffffff,
                                            0xffefffffffffffff,
                                            0x3ff0000000000001,
                                            0x3fefffffffffffff,
                                            0xbff0000000000001,
                                            0x7ff0000000000000,
                                            0xfff0000000000000,
                                            0x7ff8123456789012,
                                            0xfff8123456789012,
                                            0x7ff0123456789012};

static const struct goc_f64 {
    const char *name, *more; /* more: the operands after the first */
    uint64_t second, digest;
} goc_f64[] = {{"v_add_f64", ", v[12:13]", 0x8000000000000000, 0x91b37a3decfcf2a5},
               {"v_mul_f64", ", v[12:13]", 0x3ff0000000000000, 0x91b37a3decfcf2a5},
               {"v_fma_f64", ", v[12:13], v[14:15]", 0x3ff0000000000000, 0x91b37a3decfcf2a5},
               {"v_trunc_f64", "", 0, 0xc03cb9aee1ef1d45},
               {"v_ceil_f64", "", 0, 0xb2d270aa3a9ded25},
               {"v_rndne_f64", "", 0, 0x33df2c2ce37f3975},
               {"v_floor_f64", "", 0, 0x2901294807f707b5},
               {"v_fract_f64", "", 0, 0xc4cda61dbf42f008},
               {"v_min_num_f64", ", v[12:13]", 0x3ff0000000000000, 0x13c80600414d6855},
               {"v_max_num_f64", ", v[12:13]", 0x3ff0000000000000, 0xee3363864c9b5b55},
               {"v_minimum_f64", ", v[12:13]", 0x3ff0000000000000, 0x56ac3eab8b24fd75},
               {"v_maximum_f64", ", v[12:13]", 0x3ff0000000000000, 0xd8f0db0943d37125},
               {"v_frexp_mant_f64", "", 0, 0x9169a61e8aad8f45},
               {"v_ldexp_f64", ", v12", 0, 0x91b37a3decfcf2a5}};

#endif
