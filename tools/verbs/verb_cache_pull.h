/* SPDX-License-Identifier: MIT */
/* quern cache pull: the second argument is the place; `manifest` names the layers, null as
 * QUERN_MANIFEST says. */
#ifndef TOOLS_VERB_CACHE_PULL_H
#define TOOLS_VERB_CACHE_PULL_H

#include "command/options.h"

int cache_pull(const struct common *common, const char *manifest);

#endif
