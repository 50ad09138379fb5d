/* SPDX-License-Identifier: MIT */
/* Where installations of ROCm are. */
#ifndef QUERN_BASE_ROCM_H
#define QUERN_BASE_ROCM_H

#include <stdbool.h>

/* Calls `look` with /opt/rocm and then with each /opt/rocm-X.Y.Z, the newest first, until it
 * returns true, which is then returned. The text is valid during the call. Thread-safe. */
bool rocm_in_opt(bool (*look)(void *user, const char *root), void *user);

#endif
