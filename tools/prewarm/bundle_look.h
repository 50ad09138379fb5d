/* SPDX-License-Identifier: MIT */
/* Actions on bundles that only look: what one has, whether it covers a model, how two differ. */
#ifndef TOOLS_BUNDLE_LOOK_H
#define TOOLS_BUNDLE_LOOK_H

#include "prewarm/prewarm_work.h"

/* quern bundle check: whether a bundle has every kernel of what `from` says, for the targets,
 * splits and rows of `w`. EXIT_FAILED with the layers that it lacks. Needs no compiler and no
 * cache. */
int bundle_check(struct prewarm *w, struct prewarm_origin *from, const char *bundle);

/* quern bundle inspect: a line for each layer, with the rows that its kernels serve, and the texts
 * that the bundle carries. */
int bundle_inspect(const struct common *common, const char *path);

/* quern bundle diff: the layers that one has and the other lacks. EXIT_FAILED if they differ. */
int bundle_diff(const struct common *common, const char *one, const char *other);

#endif
