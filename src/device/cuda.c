/* SPDX-License-Identifier: MIT */
/* NVIDIA's GPUs: kernels for them are made and stored, and this release launches none. */
#include "device/device.h"

static quern_status count_devices(const struct device_search *search, int *count)
{
    (void)search, (void)count;
    FAIL(QUERN_E_DEVICE, "this release of quern launches nothing on NVIDIA's GPUs: their kernels "
                         "are made and stored only");
}

static quern_status open_device(const struct device_search *search, int index, struct device **out)
{
    int count;

    (void)index, (void)out;
    return count_devices(search, &count);
}

const struct device_driver driver_nvidia = {
    .vendor = "NVIDIA",
    .name = "cuda",
    .runtime = "CUDA",
    .number = QUERN_DEVICE_CUDA,
    .open = open_device,
    .count = count_devices,
};
