/* SPDX-License-Identifier: MIT */
/* The table of dialects, by vendor. */
#include "gen/dialects.h"

const struct dialect *const dialects[] = {
#define VENDOR(NAME, name) &dialect_##name,
#include "target/vendors.def"
#undef VENDOR
    NULL};
