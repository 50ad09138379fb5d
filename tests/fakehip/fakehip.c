/* SPDX-License-Identifier: MIT */
/* What fakehip has for its own: fakecuda.c has the same for CUDA. */
#include "fake.h"

const char fake_variable[] = "FAKEHIP_DEVICES", fake_default[] = "gfx1151";

/* Machine code that nothing here runs. */
hipError_t fake_run_kernel(const struct fake_command *c)
{
    (void)c;
    return hipErrorLaunchFailure;
}
