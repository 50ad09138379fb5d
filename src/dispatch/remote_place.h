/* SPDX-License-Identifier: MIT */
/*
 * Where a remote cache is, how its requests are signed, and the helper that reaches it: for the
 * tier (remote_tier.c), for what gives kernels to it as they are compiled (remote_push.c), and for
 * what the command sends and asks for (cache_send.c, remote_file.c).
 */
#ifndef QUERN_DISPATCH_REMOTE_PLACE_H
#define QUERN_DISPATCH_REMOTE_PLACE_H

#include "base/error.h"
#include "compile/remote.h"

#include <stdbool.h>
#include <stddef.h>

#define REMOTE_URL_MAX 1024

struct remote_place {
    char url[REMOTE_URL_MAX]; /* http or https, without slashes at its end */
    bool directory; /* `url` is a directory's path, which is read here, without a helper */
    bool https;
    bool local; /* its host is this machine, by a name or number that no resolver is asked for */
    int patience_ms; /* how long one transfer may take: REMOTE_PATIENCE_MS, unless the reader of
                      * the place sets another */
    bool s3;         /* requests are signed, with: */
    struct remote_credentials credentials;
};

/* Reads an address: http://, https://, or s3://BUCKET/PREFIX with what the environment says by
 * AWS's names. `what` says whose it is in the message of QUERN_E_ARGUMENT. */
quern_status remote_read_place(const char *what, const char *text, struct remote_place *place);
/* Of the above, an http:// or https:// address alone (remote_url.c). */
quern_status remote_read_url(const char *what, const char *text, struct remote_place *place);
/* Of the above, an s3:// address alone (remote_s3.c). */
quern_status remote_read_s3(const char *what, const char *text, struct remote_place *place);

/* Reads the absolute path of a directory, which is not looked at (remote_directory.c). Only the
 * tier takes one: what is sent to a place is sent by a helper. */
quern_status remote_read_directory(const char *what, const char *text, struct remote_place *place);
/* Reads the file `name` of a remote cache that is a directory. *answer is set to what the helper
 * would answer for the same file on a server, except that its id is 0: no question was sent, so no
 * number was given to one. Blocks on the disk. */
void remote_directory_fetch(const struct remote_place *place, const char *name,
                            struct remote_answer *answer);

/* The helper's configuration for a place; the strings are the place's, `path`, and the
 * environment's. */
struct remote_config remote_config_of(const struct remote_place *place, const char *path);

/* Where quern-remote is, or false and why. */
bool remote_find_helper(const char *worker_path, char *path, char *why, size_t why_size);
/* Starts the helper for a place, which then follows no redirections. QUERN_E_TOOLCHAIN (it is not
 * there or cannot be run), QUERN_E_IO, QUERN_E_MEMORY. */
quern_status remote_start_helper(const struct remote_place *place, const char *worker_path,
                                 struct remote **helper);

#endif
