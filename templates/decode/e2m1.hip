/* SPDX-License-Identifier: MIT */
// E2M1, the element of MXFP4 (OCP Microscaling Formats 1.0): a sign bit, two of exponent, one of
// mantissa.

constexpr float CODE[16] = {
    0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f,
};
constexpr float CODE_UNIT = 1.0f; // what one unit of CODE is worth
