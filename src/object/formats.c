/* SPDX-License-Identifier: MIT */
/* The table of formats of code objects, by vendor. */
#include "object/format.h"

const struct object_format *const object_formats[] = {
#define VENDOR(NAME, name) &object_##name,
#include "target/vendors.def"
#undef VENDOR
    NULL};
