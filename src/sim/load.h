/* SPDX-License-Identifier: MIT */
/* Modules of the software GPU from objects that have been read, for devices and for verification:
 * quern_sim_load (sim.h) is for who has an object's bytes alone. */
#ifndef QUERN_SIM_LOAD_H
#define QUERN_SIM_LOAD_H

#include "object/object.h"

#include <quern/sim.h>

/*
 * Like quern_sim_load, of an object that object_parse has read: nothing is copied and nothing read
 * again. The module uses what `object` points to, its bytes and its tables, until it is unloaded,
 * and frees none of it; the struct itself may move or end sooner.
 */
quern_status sim_load(quern_sim *sim, const struct object *object, quern_sim_module **module);

/*
 * Of some matrix instructions nobody has published how they add; for each there are a few models
 * (docs/sim.md), and launches with silicon's arithmetic take the first. True: a launch so far has
 * executed such an instruction and not all models have had their turn; launches from now on take
 * the next one. None may be in flight.
 */
bool sim_next_candidate(quern_sim *sim);

#endif
