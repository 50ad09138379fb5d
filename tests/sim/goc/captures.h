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

#endif
