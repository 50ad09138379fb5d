/* SPDX-License-Identifier: MIT */
/* quern cache revoke: the second argument is the place, the others are keys. */
#ifndef TOOLS_VERB_CACHE_REVOKE_H
#define TOOLS_VERB_CACHE_REVOKE_H

#include "command/options.h"

int cache_revoke(const struct common *common, quern_ctx *ctx, const char *sign_key);

#endif
