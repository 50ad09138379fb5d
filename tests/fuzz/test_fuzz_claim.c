/* SPDX-License-Identifier: MIT */
/* What a remote cache sends for a claim, of any bytes: refused, or a claim that reads as itself
 * when it is written again. */
#include "store/claim.h"
#include "t_fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct claim claim, again;
    char text[CLAIM_BYTES_MAX];

    if (!claim_read(data, size, &claim))
        return 0;
    FUZZ_CHECK(strlen(claim.token) == 32);
    const size_t written = claim_write(&claim, text);
    FUZZ_CHECK(written < sizeof text && claim_read(text, written, &again));
    FUZZ_CHECK(again.state == claim.state && again.until == claim.until &&
               !strcmp(again.token, claim.token));
    return 0;
}

FUZZ_MAIN("claim", 4000)
