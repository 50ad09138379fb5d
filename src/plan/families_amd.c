/* SPDX-License-Identifier: MIT */
/* The families of kernels for AMD's GPUs. */
#include "plan/family.h"

/* No two of the same units take the same problem. */
const struct family *const families_amd[] = {
    &family_dequant, &family_simt_w4,  &family_simt_int4, &family_simt_skinny,
    &family_mma_w4,  &family_mma_int4, &family_mma_tile,  NULL};
