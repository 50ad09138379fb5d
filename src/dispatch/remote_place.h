/* SPDX-License-Identifier: MIT */
/*
 * What the tier and quern_cache_send share. remote_read_url: an address without
 * the slashes at its end, whether it is https, and whether its host is this machine, by a name or
 * number that no resolver is asked for; QUERN_E_ARGUMENT, with `what` to say whose it is.
 * remote_find_helper: where quern-remote is, or false and why. remote_certificates: the file of
 * those that are trusted instead of the machine's; "": none.
 */
#ifndef QUERN_DISPATCH_REMOTE_PLACE_H
#define QUERN_DISPATCH_REMOTE_PLACE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define REMOTE_URL_MAX 1024
quern_status remote_read_url(const char *what, const char *text, char url[REMOTE_URL_MAX],
                             bool *https, bool *local);
bool remote_find_helper(const char *worker_path, char *path, char *why, size_t why_size);
const char *remote_certificates(void);

#endif
