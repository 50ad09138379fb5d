/* SPDX-License-Identifier: MIT */
/* Small C functions give the same bits on the CPU and on the software GPU: see the suite. */
#include "differential/suite.h"
