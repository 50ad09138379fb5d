/* SPDX-License-Identifier: MIT */
// Words of the constants block of int4 kernels.

enum word_order { K8, EXL };
enum pairing { OF_A, OF_W };
enum sums_of_a { SHARED, OWN };
enum zero_points { ZERO_NONE, ZERO_U8, ZERO_SCALED };
