/* SPDX-License-Identifier: MIT */
/* MD5 (RFC 1321): offload bundles carry half of one. A checksum, no protection against forgery. */
#ifndef QUERN_OBJECT_MD5_H
#define QUERN_OBJECT_MD5_H

#include <stddef.h>
#include <stdint.h>

void md5(const void *bytes, size_t size, uint8_t digest[16]);

#endif
