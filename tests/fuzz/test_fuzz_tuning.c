/* SPDX-License-Identifier: MIT */
/* Tuning tables of any bytes: refused with a sentence, or read, and then every plan can be made. */
#include "base/error.h"
#include "plan/tuning.h"
#include "t_fuzz.h"

#include <quern/quern.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct target *const target = target_named("gfx1151");
    struct tuning *tuning = NULL;
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct plan_set set;

    if (tuning_parse((const char *)data, size, target, &tuning) != QUERN_OK) {
        FUZZ_CHECK(!tuning && quern_last_error()->message[0]);
        return 0;
    }
    FUZZ_CHECK(quern_problem_parse("wq=nf4 n=64 k=256 a=bf16", &problem) == QUERN_OK);
    FUZZ_CHECK(plan_make_tuned(&problem, target, tuning, NULL, &set) == QUERN_OK);
    tuning_free(tuning);
    return 0;
}

FUZZ_MAIN("tuning", 20000)
