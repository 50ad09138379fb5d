/* SPDX-License-Identifier: MIT */
/* The one name that a library of bodies has for others. */
#include "sim/exec/tables.h"

#include <sim_stamp.h>

extern const struct sim_export quern_sim_bodies;
QUERN_API const struct sim_export quern_sim_bodies = {SIM_STAMP, &sim_bodies};
