/* SPDX-License-Identifier: MIT */
/*
 * The libraries of instruction bodies: libexec/quern/quern-sim-x86_64.so and the like, one for each
 * vector instruction set of the host. They are most of the software GPU's code, and a host that
 * owns a GPU needs none of it: so they are files of their own, loaded when a software GPU is
 * opened.
 *
 * Each has no state, exports one name (struct sim_export), and is linked to nothing but the C
 * library; the little that it needs of this library is handed to it with a launch (struct run).
 */
#ifndef QUERN_SIM_BODIES_H
#define QUERN_SIM_BODIES_H

#include "sim/wave.h"

/*
 * Loads the bodies for an instruction set; QUERN_ISA_AUTO: the best that this CPU has and that is
 * there. They are looked for beside the worker at `worker_path` (may be null), then where the
 * worker is looked for. `*library` goes to bodies_close when nothing uses the bodies any more.
 * Errors: QUERN_E_DEVICE: the CPU lacks the instructions, or no such file; it names every path
 * tried. Thread-safe; may block.
 */
quern_status bodies_open(enum quern_sim_isa isa, const char *worker_path,
                         const struct sim_bodies **bodies, void **library);
void bodies_close(void *library);

#endif
