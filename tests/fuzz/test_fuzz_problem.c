/* SPDX-License-Identifier: MIT */
/* Problem texts of any bytes: refused with a sentence, or their canonical text means the same. */
#include "base/error.h"
#include "t_fuzz.h"

#include <quern/quern.h>

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem), again = problem;
    char text[QUERN_TEXT_MAX], canonical[QUERN_TEXT_MAX];
    char *const given = malloc(size + 1);

    FUZZ_CHECK(given);
    memcpy(given, data, size);
    given[size] = 0;
    if (quern_problem_parse(given, &problem) == QUERN_OK) {
        FUZZ_CHECK(quern_problem_text(&problem, text, sizeof text) == QUERN_OK);
        FUZZ_CHECK(quern_problem_parse(text, &again) == QUERN_OK);
        FUZZ_CHECK(quern_problem_text(&again, canonical, sizeof canonical) == QUERN_OK);
        FUZZ_CHECK(!strcmp(text, canonical));
    } else {
        FUZZ_CHECK(quern_last_error()->message[0]);
    }
    free(given);
    return 0;
}

FUZZ_MAIN("problem", 20000)
