/* SPDX-License-Identifier: MIT */
// int4 without a zero point of its own: a code is 8 more than its number.

constexpr float CODE[16] = {
    -8.0f, -7.0f, -6.0f, -5.0f, -4.0f, -3.0f, -2.0f, -1.0f,
    0.0f,  1.0f,  2.0f,  3.0f,  4.0f,  5.0f,  6.0f,  7.0f,
};
constexpr float CODE_UNIT = 1.0f; // what one unit of CODE is worth
