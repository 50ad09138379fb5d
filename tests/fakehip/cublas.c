/* SPDX-License-Identifier: MIT */
/* The functions of cuBLASLt that quern calls, on fakecuda: fakeblas.h. */
#define FAKEBLAS_CUDA
#include "blas.c" /* NOLINT(bugprone-suspicious-include): the same, behind other names */
