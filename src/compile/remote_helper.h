/* SPDX-License-Identifier: MIT */
/* What the helper that reaches a remote cache knows of S3 object stores, beside the signatures that
 * libcurl makes (remote_helper_s3.c). */
#ifndef QUERN_COMPILE_REMOTE_HELPER_H
#define QUERN_COMPILE_REMOTE_HELPER_H

#include <stddef.h>

#define S3_CODE_BYTES 64
/* The reason that a store names in the body of an answer, such as "NoSuchKey"; "": it names none,
 * or the body is null. Only letters are believed. */
void s3_read_code(const void *body, size_t size, char code[S3_CODE_BYTES]);
/* What a user can do about it, to be put behind it; "": nothing is known. */
const char *s3_hint(const char *code);
/* Whether a libcurl, by curl_version, signs as S3 stores want it: null, or why not. */
const char *s3_check_curl(const char *version);

#endif
