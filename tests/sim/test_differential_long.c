/* SPDX-License-Identifier: MIT */
/* The functions of test_differential.c on every row of targets. */
#define LONG 1
#include "differential/suite.h"
