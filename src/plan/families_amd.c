/* SPDX-License-Identifier: MIT */
/* The list of families for AMD's GPUs. */
#include "plan/family.h"

const struct family *const families_amd[] = {
#define FAMILY(name) &family_##name,
    FAMILIES_AMD(FAMILY)
#undef FAMILY
        NULL};
