/* SPDX-License-Identifier: MIT */
/* The table of runtimes, by vendor. */
#include "device/device.h"

const struct device_driver *const drivers[] = {
#define VENDOR(NAME, name) &driver_##name,
#include "target/vendors.def"
#undef VENDOR
    NULL};
