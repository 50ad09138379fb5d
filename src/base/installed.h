/* SPDX-License-Identifier: MIT */
/* Installations that stand side by side, a directory for each version of them. */
#ifndef QUERN_BASE_INSTALLED_H
#define QUERN_BASE_INSTALLED_H

#include <stdbool.h>

/* Told of a directory; true ends a search. The text is valid during the call. */
typedef bool (*installed_fn)(void *user, const char *root);

/* Calls `look` with each DIRECTORY/PREFIX…, the newest version first ("rocm-7.1.0" before
 * "rocm-6.4.3"), until it returns true, which is then returned. Thread-safe. */
bool installed_versions(const char *directory, const char *prefix, installed_fn look, void *user);

/* The same with /opt/rocm and then each /opt/rocm-X.Y.Z. */
bool installed_rocm(installed_fn look, void *user);

#endif
