/* SPDX-License-Identifier: MIT */
/* The table of compilers, by vendor. */
#include "compile/compilers.h"

const struct compiler_kind *const compilers[] = {
#define VENDOR(NAME, name) &compiler_##name,
#include "target/vendors.def"
#undef VENDOR
    NULL};
