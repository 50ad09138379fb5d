/* SPDX-License-Identifier: MIT */
/* What the software GPU's model says that launches of an op take. */
#ifndef TOOLS_MODELLED_H
#define TOOLS_MODELLED_H

#include "measure/simulation.h"

/* Keeps the code objects of an op for a simulation, under the names that its plan has. */
int simulation_hold(struct simulation *s, const quern_op *op);

/*
 * Runs the launches for m rows of `op`, an op of any device, on a software GPU of `target`, with
 * operands that are made up, and adds up what quern_sim_model_make says of each.
 */
int modelled_us(const struct common *common, quern_op *op, const struct quern_problem *problem,
                const char *target, int64_t m, double *us);

#endif
