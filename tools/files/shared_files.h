/* SPDX-License-Identifier: MIT */
/* The files of a remote cache as the command reaches them: in a directory that a web server has
 * below its address, or by that address. */
#ifndef TOOLS_SHARED_FILES_H
#define TOOLS_SHARED_FILES_H

#include "command/command.h"

/* Whether a place is an address, and not a directory. */
bool shared_is_url(const char *place);

/* Makes the directory, if the place is one and is not there. */
int shared_prepare(const char *place);

/* Reads the file of a name, malloc'ed; *bytes null: there is none. */
int shared_read(quern_ctx *ctx, const char *place, const char *name, void **bytes, size_t *size);

/* Writes it, whole: a server may be reading there. In a directory, *written (which may be null)
 * says whether it was not there as it is. */
int shared_write(quern_ctx *ctx, const char *place, const char *name, const void *bytes,
                 size_t size, bool *written);

#endif
