/* SPDX-License-Identifier: MIT */
/* Linked to tests/unit/test_dispatch.c, makes it run on GPUs of the HIP runtime: t_open looks. */
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include <stdlib.h>

int t_set_device(int index);

int t_set_device(int index)
{
    return (int)hipSetDevice(index);
}

__attribute__((constructor)) static void choose_device(void)
{
    if (setenv("FAKEHIP_DEVICES", "gfx1151,gfx1100,gfx1102,gfx1150,gfx1200,gfx1201", 1) ||
        setenv("QUERN_DEVICE", "hip", 1))
        abort();
}
