/* SPDX-License-Identifier: MIT */
/* The table of families, by vendor. */
#include "plan/family.h"

const struct family *const *const families[] = {
#define VENDOR(NAME, name) families_##name,
#include "target/vendors.def"
#undef VENDOR
    NULL};
