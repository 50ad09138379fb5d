/* SPDX-License-Identifier: MIT */
// FP4 as bitsandbytes defines it (not e2m1): a sign bit over 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4.
// In units of 1/12 every value is exact in f16 and bf16.

constexpr float CODE[16] = {
    0.0f,  0.0625f,  8.0f,  12.0f,  4.0f,  6.0f,  2.0f,  3.0f,
    0.0f,  -0.0625f, -8.0f, -12.0f, -4.0f, -6.0f, -2.0f, -3.0f,
};
constexpr float CODE_UNIT = 1.0f / 12.0f; // what one unit of CODE is worth
