/* SPDX-License-Identifier: MIT */
/* What the helper that reaches a remote cache knows of S3 object stores (remote_helper.h). */
#include "compile/remote_helper.h"

#include <stdio.h>
#include <string.h>

/* The oldest libcurl that was tried. Those before 7.87 do not take the digest of the body into what
 * they sign, which S3 wants. */
#define CURL_MAJOR 7
#define CURL_MINOR 88

void s3_read_code(const void *body, size_t size, char code[S3_CODE_BYTES])
{
    static const char mark[] = "<Code>";
    const char *const found = body ? memmem(body, size, mark, sizeof mark - 1) : NULL;
    const char *const end = found ? (const char *)body + size : NULL;
    size_t n = 0;

    for (const char *c = found ? found + sizeof mark - 1 : NULL;
         c < end && n < S3_CODE_BYTES - 1 && (*c | 32) >= 'a' && (*c | 32) <= 'z'; c++)
        code[n++] = *c;
    code[n] = 0;
}

const char *s3_hint(const char *code)
{
    static const struct {
        const char *code, *hint;
    } hints[] = {
        {"SignatureDoesNotMatch", ": AWS_SECRET_ACCESS_KEY is not that of AWS_ACCESS_KEY_ID"},
        {"InvalidAccessKeyId", ": the store does not know AWS_ACCESS_KEY_ID"},
        {"AuthorizationHeaderMalformed", ": AWS_REGION may not be the bucket's"},
        {"NoSuchBucket", ": the store does not have the bucket"},
    };

    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (!strcmp(code, hints[i].code))
            return hints[i].hint;
    return "";
}

const char *s3_check_curl(const char *version)
{
    int major = 0, minor = 0;

    if (sscanf(version, "libcurl/%d.%d", &major, &minor) == 2 &&
        (major > CURL_MAJOR || (major == CURL_MAJOR && minor >= CURL_MINOR)))
        return NULL;
    return "libcurl 7.88 or later is needed for s3:// addresses, and this machine's is older";
}
