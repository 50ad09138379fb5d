/* SPDX-License-Identifier: MIT */
/* Digests of what an RX 9070 (gfx1201) gave, as bjacob/goc publishes them (MIT; captured on
 * 2026-10-08 and 09 with MODE = 0xf0: nearest, denormals count): FNV-1a of 64 bits over results,
 * low bytes first. The inputs are made by the tests. */
#ifndef GOC_MASKS_H
#define GOC_MASKS_H
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

/* Halves, all lanes on. tests/class_hardware.h: by modifiers |a| 1, -a 2, upper half of a 4, of
 * the mask 8. tests/float_compare_hardware.h: by predicate, over the modifiers |a| 1, |b| 2, -a
 * 4, -b 8, upper half of a 16, of b 32. */
static const uint64_t goc_class_f16[16] = {
    0xc73e6dbd60db9484, 0x254c3c933bbd77a5, 0x8f6cf7da248ede84, 0x2f7f477d3b33dd25,
    0x2ed2b1a704707445, 0x803b8ce1bbea4d65, 0x33fc24d62aabcf45, 0x35f7ad81b830fd25,
    0x2f739021faf21fd4, 0xb758d121ca53bc1d, 0xc316664485c5330f, 0x149d329acfc60bea,
    0x2cb123fb4bd18382, 0x01c9d79740f96485, 0x8df576358550344f, 0xc97606844ffbbdbc};

static const uint64_t goc_compare_f16[14] = {
    0x24df9d40916f784d, 0xf2ef17e42a538bf5, 0x60ca43d947cc2175, 0x045ee910bba85765,
    0x93d111ca2aa7b0a5, 0x2e28217f460ff1bd, 0xa3ac900d51836a45, 0x1940dede6e233185,
    0xba593ac01d6ead3d, 0x406c19f9c1f64265, 0x9da5bb12a017c9a5, 0x8620292fa4b37cd5,
    0xf0b4aae9bbee4bd5, 0x739206e9fc57c64d};

/* tests/integer_compare_hardware.h, all lanes on, signed and unsigned, by predicate; of 16 bits by
 * upper half of a 1, of b 2. */
static const char *const goc_orders[6] = {"lt", "eq", "le", "gt", "ne", "ge"};

static const uint64_t goc_compare_16[2][6][4] = {
    {{0x5f68457495900c53, 0x39f8a82511eef80d, 0x55725f605f403407, 0x6128bb92cebadd87},
     {0x86812feb304f2430, 0xe45e80c96f23a42d, 0xf4d234b90c4ecee5, 0x5550f577741208ed},
     {0xac86770cb6fdb07a, 0xfc26c4eec12c0f25, 0xfb0845ff61567747, 0xc17685609d9fc1eb},
     {0x1dcb64a9ab00e0de, 0x82bb026f2371a311, 0x828cc1f18b639e23, 0x8b51135003e9bb9f},
     {0x011e79d8b9dd2918, 0x8ee0e92e1a07a81d, 0x94147a096646d625, 0x17aa7f30ff4f052d},
     {0xa9d28e20f36ce467, 0x4b91a744c1fc1ec9, 0x4d1b0736a1ed4863, 0x9576a6c2ab722b73}},
    {{0x0386a6f8b20c5b37, 0xc003739a53d34335, 0x9735c34f2133a061, 0xce8e2dbd435517e1},
     {0x86812feb304f2430, 0xe45e80c96f23a42d, 0xf4d234b90c4ecee5, 0x5550f577741208ed},
     {0x260eee1b0e11b152, 0x2bfb909322c5539d, 0x5b36e4d3150e64a1, 0x9a46662293889fad},
     {0xdac659998e2dbaae, 0xb0e7e723b04e80d9, 0x9ddae80be61c1ead, 0x6e0837fa555dac49},
     {0x011e79d8b9dd2918, 0x8ee0e92e1a07a81d, 0x94147a096646d625, 0x17aa7f30ff4f052d},
     {0x5bf30aba3f4d46db, 0x0da7ff194de18fc1, 0xa616f06170830bad, 0xc38f02c2b043100d}}};

/* i32, u32, i64, u64 */
static const uint64_t goc_compare_int[4][6] = {
    {0x6653824e8ad87ecd, 0x8eb8ea81e6060f48, 0xd21349658fe8cde4, 0x5b8bff40cbc77ae0,
     0xe1f081f814fd2c68, 0x8b72a726765a22a1},
    {0x162f50286e04d1f3, 0x8eb8ea81e6060f48, 0x508dde73ad8551ca, 0xcc65a8bb923ef532,
     0xe1f081f814fd2c68, 0xb1a6e458ee70dd13},
    {0xd6bf7f864fe8c7d5, 0x78f1fc62c02dfadb, 0x45624b6da0776f33, 0x8787f86325749d17,
     0xdfa36ff7ed2dbbe7, 0x0c83fca2ac2b5115},
    {0x9ebe41c1c9887c9f, 0x78f1fc62c02dfadb, 0xb3857fd852327b4d, 0x546ad099aecc315d,
     0xdfa36ff7ed2dbbe7, 0x5ae8c96f0ede05db}};

#endif
