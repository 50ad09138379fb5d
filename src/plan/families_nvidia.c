/* SPDX-License-Identifier: MIT */
/* The list of families for NVIDIA's GPUs. */
#include "plan/family.h"

const struct family *const families_nvidia[] = {
#define FAMILY(name) &family_##name,
    FAMILIES_NVIDIA(FAMILY)
#undef FAMILY
        NULL};
